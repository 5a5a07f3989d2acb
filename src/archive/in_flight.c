/* Records of archives in flight: see in_flight.h.
 *
 * A record takes the memory of the archive, and the archive gets the memory of an earlier record.
 * So a thread that sends archives of the same size repeatedly allocates nothing. Each slot of the
 * rank has a list of records. Handlers under the receive lock have one more. Only the slot's thread
 * takes from its list. A thread that ends an archive pushes its record to a second list, without a
 * lock. The slot's thread takes the whole second list at once. */
#include "archive/in_flight.h"

#include <stdlib.h>
#include <string.h>

#include "archive/archive.h"
#include "boot/boot.h"
#include "mem/rma_object.h"
#include "mem/thread.h"
#include "msg/serve.h"

#define N_SLOTS 64
/* A record with more memory is not kept. */
#define KEPT_BYTES  ((size_t)256 << 10)
#define KEPT_CHUNKS ((size_t)1 << 10)
/* Up to these sizes, memory that no rank maps is copied into registered memory before it is read.
 * On the node process_vm_readv is slower: it costs a system call and pins pages one by one. Between
 * nodes the alternative is pieces on demand. So a stream is always copied for another node. */
#define COPY_NEAR ((size_t)64 << 10)
#define COPY_FAR  ((size_t)1 << 20)

typedef struct {
    _Alignas(64) pgasi_in_flight_t *own;
    _Alignas(64) pgasi_in_flight_t *back; /* atomic */
} home_t;

uint64_t pgasi_n_in_flight;

static home_t homes[N_SLOTS + 1]; /* the last one: handlers under the receive lock */

/* ---- records ---- */

/* Returns the index of the calling thread's list. It is negative if there is none. */
static int home_here(void)
{
    if (pgasi_is_serving())
        return N_SLOTS;
    bool has_home = pgasi_thread_attached() && pgasi_self.slot >= 0 && pgasi_self.slot < N_SLOTS;
    return has_home ? pgasi_self.slot : -1;
}

static pgasi_in_flight_t *take_record(void)
{
    int at = home_here();
    home_t *home = at >= 0 ? &homes[at] : NULL;
    if (home && !home->own)
        home->own = __atomic_exchange_n(&home->back, NULL, __ATOMIC_ACQUIRE);
    pgasi_in_flight_t *flight = home ? home->own : NULL;
    if (flight) {
        home->own = flight->next;
        return flight;
    }
    flight = calloc(1, sizeof *flight);
    if (flight) {
        flight->archive = (pgas_archive_t)PGAS_ARCHIVE_INIT;
        flight->home = at;
    }
    return flight;
}

static void give_record(pgasi_in_flight_t *flight)
{
    __atomic_fetch_sub(&pgasi_n_in_flight, 1, __ATOMIC_RELEASE);
    bool large = flight->archive.room > KEPT_BYTES || flight->room > KEPT_CHUNKS;
    if (flight->home < 0 || large) {
        pgas_archive_free(&flight->archive);
        free(flight->buffers);
        free(flight);
        return;
    }
    pgasi_in_flight_t **back = &homes[flight->home].back;
    flight->next = __atomic_load_n(back, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(back, &flight->next, flight, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
    }
}

/* ---- chunks ---- */

static bool make_room(pgasi_in_flight_t *flight, size_t n)
{
    if (n <= flight->room)
        return true;
    size_t room = PGASI_MAX(n, 8);
    pgas_buffer_t *buffers = realloc(flight->buffers, room * sizeof *buffers);
    if (!buffers)
        return false;
    flight->buffers = buffers;
    flight->room = room;
    return true;
}

/* Returns true if the object is a copy of the program's memory, to which chunk->data points. */
static bool is_copied(const pgas_archive_chunk_t *chunk)
{
    return chunk->object && chunk->object->data != chunk->data;
}

static bool is_better_copied(const void *data, size_t bytes, int rank, size_t most_far)
{
    size_t most = pgasi_boot.local_of[rank] >= 0 ? COPY_NEAR : most_far;
    return rank != pgasi_boot.rank && bytes <= most && !pgas_gptr_of(data);
}

/* Makes a copy. must: the copy is necessary, even if its memory is not registered. */
static pgas_status_t copy_data(const void *data, size_t bytes, bool must,
                               pgas_rma_object_t **object_p)
{
    pgas_rma_object_t *object;
    pgas_status_t status = pgas_rma_object_create(bytes, &object);
    if (status != PGAS_OK)
        return must ? status : PGAS_OK;
    if (!must && !object->ptr) {
        pgas_rma_object_destroy(object);
        return PGAS_OK;
    }
    memcpy(object->data, data, bytes);
    *object_p = object;
    return PGAS_OK;
}

static void set_buffer(pgas_buffer_t *buffer, const void *data, size_t bytes,
                       const pgas_rma_object_t *object)
{
    *buffer = (pgas_buffer_t){ .mode = PGAS_BUFFER_PULL,
                               .address = object ? object->data : data,
                               .bytes = bytes,
                               .target = object ? object->ptr : PGAS_NULL };
}

static pgas_status_t describe_chunk(pgas_archive_chunk_t *chunk, int rank, bool keep,
                                    pgas_buffer_t *buffer)
{
    pgas_status_t status = PGAS_OK;
    if (!chunk->object && (!keep || is_better_copied(chunk->data, chunk->bytes, rank, COPY_FAR)))
        status = copy_data(chunk->data, chunk->bytes, !keep, &chunk->object);
    set_buffer(buffer, chunk->data, chunk->bytes, chunk->object);
    return status;
}

static void describe_stream(pgasi_in_flight_t *flight, int rank)
{
    const char *stream = flight->archive.begin;
    size_t bytes = pgasi_archive_stream_bytes(&flight->archive);
    if (is_better_copied(stream, bytes, rank, SIZE_MAX))
        (void)copy_data(stream, bytes, false, &flight->stream);
    set_buffer(&flight->buffers[flight->n++], stream, bytes, flight->stream);
}

/* ---- beginning and ending ---- */

static void undo_copies(pgas_archive_t *archive)
{
    for (size_t i = 0; i < archive->n_chunks; i++) {
        if (!is_copied(&archive->chunk[i]))
            continue;
        pgas_rma_object_destroy(archive->chunk[i].object);
        archive->chunk[i].object = NULL;
    }
}

static void drop_stream(pgasi_in_flight_t *flight)
{
    pgas_rma_object_destroy(flight->stream);
    flight->stream = NULL;
}

void pgasi_in_flight_undo(pgasi_in_flight_t *flight, pgas_archive_t *archive)
{
    undo_copies(&flight->archive);
    drop_stream(flight);
    pgasi_archive_move(&flight->archive, archive);
    give_record(flight);
}

void pgasi_in_flight_end(void *arg)
{
    pgasi_in_flight_t *flight = arg;
    void (*done)(void *) = flight->done;
    void *done_arg = flight->arg;
    pgas_archive_clear(&flight->archive);
    drop_stream(flight);
    give_record(flight);
    if (done)
        done(done_arg);
}

static pgas_status_t describe(pgasi_in_flight_t *flight, int rank, bool keep)
{
    pgas_archive_t *archive = &flight->archive;
    size_t stream_bytes = pgasi_archive_stream_bytes(archive);
    flight->n = archive->n_chunks;
    flight->pulls_stream = stream_bytes > PGASI_BULK_STREAM_MAX;
    if (flight->n + flight->pulls_stream > PGASI_BULK_PARTS_MAX)
        return PGAS_ERR_LIMIT;
    if (!make_room(flight, flight->n + flight->pulls_stream))
        return PGAS_ERR_NO_MEMORY;
    for (size_t i = 0; i < flight->n; i++) {
        pgas_status_t status = describe_chunk(&archive->chunk[i], rank, keep, &flight->buffers[i]);
        if (status != PGAS_OK)
            return status;
    }
    if (flight->pulls_stream)
        describe_stream(flight, rank);
    return PGAS_OK;
}

pgas_status_t pgasi_in_flight_begin(pgas_archive_t *archive, int rank, bool keep,
                                    pgasi_in_flight_t **flight_p)
{
    pgasi_in_flight_t *flight = take_record();
    if (!flight)
        return PGAS_ERR_NO_MEMORY;
    __atomic_fetch_add(&pgasi_n_in_flight, 1, __ATOMIC_RELAXED);
    flight->done = NULL;
    pgasi_archive_move(archive, &flight->archive);
    pgas_status_t status = describe(flight, rank, keep);
    if (status == PGAS_OK)
        *flight_p = flight;
    else
        pgasi_in_flight_undo(flight, archive);
    return status;
}
