/* The append log of a rank: chunks in memory, and group commit.
 *
 * Threads append to the open chunk under a spin lock. A chunk is a block of the file, with room for
 * its head. The thread that commits first becomes the writer: it takes all chunks and writes them,
 * while others append to new chunks and wait. So the number of chunks is bounded by what the
 * threads append before they commit.
 *
 * The writer owns the file while `writing` is set. The thread that syncs once a second owns its
 * descriptor while `syncing` is set, so that a rotation does not close it meanwhile. */
#include "kvs/log.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/spin.h"
#include "kvs/log_file.h"

#define CHUNK_BYTES (512u << 10)
#define LARGE_BYTES (256u << 10) /* a record that gets a chunk of its own */
#define SPARE_MAX   4            /* chunks that are kept for later */
#define N_SPINS     200

typedef struct chunk {
    struct chunk *next;
    size_t bytes, capacity; /* of the contents */
    uint64_t n_records;
    pgasi_kvs_block_head_t head; /* it and the contents are the block */
    unsigned char contents[];
} chunk_t;

PGASI_STATIC_ASSERT(offsetof(chunk_t, contents) ==
                        offsetof(chunk_t, head) + sizeof(pgasi_kvs_block_head_t),
                    "head and contents are adjacent");

struct pgasi_kvs_log {
    char *dir;
    pgasi_kvs_log_opts_t opts;

    int lock PGASI_ALIGNED(PGASI_CACHELINE); /* of the fields of appends */
    chunk_t *open;                           /* records go there */
    chunk_t *first, **last;                  /* full ones, the oldest first */
    chunk_t *spare;
    uint32_t n_spare;
    bool failed;
    uint64_t appended; /* the position of the last record */
    uint64_t lost;     /* records up to this position may not be in the log; atomic */

    uint64_t committed PGASI_ALIGNED(PGASI_CACHELINE); /* position; atomic */
    uint64_t bytes;                                    /* atomic */
    pthread_mutex_t mutex;                             /* of the fields below */
    pthread_cond_t changed;
    bool writing, syncing, stopping;
    pgasi_kvs_log_file_t file;
    bool has_thread;
    int stop_fd; /* readable: the thread ends */
    pthread_t thread;
};

static uint64_t n_logs; /* created; each has positions of its own */

pgas_status_t pgasi_kvs_log_path(char *path, const char *dir, uint64_t generation, uint64_t rank)
{
    return pgasi_kvs_path(path, "%s/" PGASI_KVS_LOG_PREFIX "%" PRIu64 ".%" PRIu64, dir, generation,
                          rank);
}

/* ---- chunks, under the spin lock ---- */

static chunk_t *new_chunk(size_t bytes)
{
    size_t capacity = PGASI_MAX(bytes, CHUNK_BYTES);
    chunk_t *chunk = malloc(sizeof *chunk + capacity);
    if (chunk) {
        memset(chunk, 0, sizeof *chunk);
        chunk->capacity = capacity;
    }
    return chunk;
}

static void enqueue(pgasi_kvs_log_t *log, chunk_t *chunk)
{
    chunk->next = NULL;
    *log->last = chunk;
    log->last = &chunk->next;
}

static void keep_chunk(pgasi_kvs_log_t *log, chunk_t *chunk)
{
    if (chunk->capacity > CHUNK_BYTES || log->n_spare == SPARE_MAX) {
        free(chunk);
        return;
    }
    chunk->bytes = 0;
    chunk->n_records = 0;
    chunk->next = log->spare;
    log->spare = chunk;
    log->n_spare++;
}

/* Makes room for a record in the open chunk. */
static bool open_chunk(pgasi_kvs_log_t *log, size_t bytes)
{
    if (log->open && log->open->capacity - log->open->bytes >= bytes)
        return true;
    if (log->open)
        enqueue(log, log->open);
    log->open = log->spare;
    if (log->open) {
        log->spare = log->open->next;
        log->n_spare--;
    } else
        log->open = new_chunk(bytes);
    return log->open != NULL;
}

static chunk_t *take_chunks(pgasi_kvs_log_t *log)
{
    if (log->open && log->open->bytes > 0) {
        enqueue(log, log->open);
        log->open = NULL;
    }
    chunk_t *chunks = log->first;
    log->first = NULL;
    log->last = &log->first;
    return chunks;
}

static void keep_chunks(pgasi_kvs_log_t *log, chunk_t *chunks)
{
    while (chunks) {
        chunk_t *next = chunks->next;
        keep_chunk(log, chunks);
        chunks = next;
    }
}

/* From now on nothing is logged. */
static void fail(pgasi_kvs_log_t *log)
{
    log->failed = true;
    __atomic_store_n(&log->lost, log->appended, __ATOMIC_RELEASE);
    keep_chunks(log, take_chunks(log));
}

/* ---- appending ---- */

static void encode(chunk_t *chunk, const pgasi_kvs_record_t *record, size_t bytes)
{
    pgasi_kvs_record_encode(record, chunk->contents + chunk->bytes);
    chunk->bytes += bytes;
    chunk->n_records++;
}

static void note_no_memory(pgasi_kvs_log_t *log)
{
    PGASI_ERROR("kvs",
                "%s: no memory to log a write. Writes return PGAS_ERR_IO from now on. "
                "pgas_kvs_save begins a new log",
                log->dir);
}

uint64_t pgasi_kvs_log_append(pgasi_kvs_log_t *log, const pgasi_kvs_record_t *record)
{
    size_t bytes = pgasi_kvs_record_bytes(record);
    chunk_t *large = bytes > LARGE_BYTES ? new_chunk(bytes) : NULL;
    if (large)
        encode(large, record, bytes);
    pgasi_spin_lock(&log->lock, N_SPINS);
    uint64_t position = ++log->appended;
    bool was_failed = log->failed;
    if (was_failed)
        __atomic_store_n(&log->lost, position, __ATOMIC_RELEASE);
    else if (large)
        enqueue(log, large);
    else if (bytes <= LARGE_BYTES && open_chunk(log, bytes))
        encode(log->open, record, bytes);
    else
        fail(log);
    bool fails = log->failed && !was_failed;
    pgasi_spin_unlock(&log->lock);
    if (was_failed)
        free(large);
    if (fails)
        note_no_memory(log);
    return position;
}

/* ---- writing ---- */

/* Writes what was appended up to now. The caller has set `writing`, and does not hold the mutex.
 * @return the position up to which the records are written, or lost */
static uint64_t write_chunks(pgasi_kvs_log_t *log)
{
    pgas_status_t status = PGAS_OK;
    pgasi_kvs_log_file_t *file = &log->file;
    uint64_t begin = file->end;
    pgasi_spin_lock(&log->lock, N_SPINS);
    uint64_t position = log->appended;
    chunk_t *chunks = take_chunks(log);
    pgasi_spin_unlock(&log->lock);
    for (chunk_t *chunk = chunks; chunk && status == PGAS_OK; chunk = chunk->next)
        status = pgasi_kvs_log_file_write(file, PGASI_KVS_BLOCK_RECORDS, &chunk->head, chunk->bytes,
                                          chunk->n_records);
    if (status == PGAS_OK && file->end > begin && log->opts.durability == PGAS_KVS_SYNC_ALWAYS)
        status = pgasi_kvs_log_file_sync(file, file->end);
    __atomic_add_fetch(&log->bytes, file->end - begin, __ATOMIC_RELAXED);
    pgasi_spin_lock(&log->lock, N_SPINS);
    keep_chunks(log, chunks);
    if (status != PGAS_OK)
        fail(log);
    pgasi_spin_unlock(&log->lock);
    return position;
}

/* The mutex is held. */
static void begin_writing(pgasi_kvs_log_t *log)
{
    while (log->writing)
        pthread_cond_wait(&log->changed, &log->mutex);
    log->writing = true;
}

static void end_writing(pgasi_kvs_log_t *log)
{
    log->writing = false;
    pthread_cond_broadcast(&log->changed);
}

static bool is_committed(const pgasi_kvs_log_t *log, uint64_t position)
{
    return __atomic_load_n(&log->committed, __ATOMIC_ACQUIRE) >= position;
}

static void write_all(pgasi_kvs_log_t *log)
{
    pthread_mutex_unlock(&log->mutex);
    uint64_t position = write_chunks(log);
    pthread_mutex_lock(&log->mutex);
    __atomic_store_n(&log->committed, position, __ATOMIC_RELEASE);
}

pgas_status_t pgasi_kvs_log_commit(pgasi_kvs_log_t *log, uint64_t position)
{
    if (!is_committed(log, position)) {
        pthread_mutex_lock(&log->mutex);
        while (log->writing && !is_committed(log, position))
            pthread_cond_wait(&log->changed, &log->mutex);
        if (!is_committed(log, position)) {
            log->writing = true;
            write_all(log);
            end_writing(log);
        }
        pthread_mutex_unlock(&log->mutex);
    }
    bool lost = position > 0 && position <= __atomic_load_n(&log->lost, __ATOMIC_ACQUIRE);
    return lost ? PGAS_ERR_IO : PGAS_OK;
}

uint64_t pgasi_kvs_log_bytes(const pgasi_kvs_log_t *log)
{
    return __atomic_load_n(&log->bytes, __ATOMIC_RELAXED);
}

/* ---- the thread that syncs ---- */

/* Waits a second, or until the end. */
static void wait_second(const pgasi_kvs_log_t *log)
{
    struct pollfd stop = { .fd = log->stop_fd, .events = POLLIN };
    poll(&stop, 1, 1000);
}

/* The mutex is held. `end` is read before the sync, so it is not too high. */
static void sync_now(pgasi_kvs_log_t *log)
{
    while (log->writing) /* the writer changes the end of the file */
        pthread_cond_wait(&log->changed, &log->mutex);
    uint64_t end = log->file.end;
    if (log->stopping || log->file.sync_failed || end == log->file.synced)
        return;
    log->syncing = true;
    pthread_mutex_unlock(&log->mutex);
    pgas_status_t status = pgasi_kvs_log_file_sync(&log->file, end);
    if (status != PGAS_OK) {
        pgasi_spin_lock(&log->lock, N_SPINS);
        fail(log);
        pgasi_spin_unlock(&log->lock);
    }
    pthread_mutex_lock(&log->mutex);
    log->syncing = false;
    pthread_cond_broadcast(&log->changed);
}

static void *sync_main(void *arg)
{
    pgasi_kvs_log_t *log = arg;
    bool stopping = false;
    while (!stopping) {
        wait_second(log);
        pthread_mutex_lock(&log->mutex);
        sync_now(log);
        stopping = log->stopping;
        pthread_mutex_unlock(&log->mutex);
    }
    return NULL;
}

/* Signals are for the threads of the program. */
static int start_thread(pgasi_kvs_log_t *log)
{
    sigset_t all, former;
    log->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (log->stop_fd < 0)
        return errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    int error = pthread_create(&log->thread, NULL, sync_main, log);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    log->has_thread = error == 0;
    return error;
}

/* ---- files ---- */

static pgas_status_t create_file(const pgasi_kvs_log_t *log, uint64_t generation,
                                 pgasi_kvs_log_file_t *file)
{
    pgasi_kvs_path_t path;
    const pgasi_kvs_log_opts_t *opts = &log->opts;
    pgasi_kvs_file_head_t head =
        pgasi_kvs_file_head(PGASI_KVS_FILE_LOG, opts->id, generation, opts->rank, opts->n_ranks);
    pgas_status_t status = pgasi_kvs_log_path(path, log->dir, generation, opts->rank);
    return status != PGAS_OK ? status : pgasi_kvs_log_file_create(file, path, &head);
}

/* The block at the end proves that all before it was on the disk. A file to which a write failed
 * has none: it is not complete. */
static pgas_status_t finish_file(pgasi_kvs_log_file_t *file, bool failed)
{
    pgas_status_t status = pgasi_kvs_log_file_sync(file, file->end);
    if (!failed && status == PGAS_OK)
        status = pgasi_kvs_log_file_end(file);
    if (!failed && status == PGAS_OK)
        status = pgasi_kvs_log_file_sync(file, file->end);
    close(file->fd);
    return status;
}

/* Commits wait until all chunks are in the old file and the new one takes its place. */
pgas_status_t pgasi_kvs_log_rotate(pgasi_kvs_log_t *log, uint64_t generation)
{
    pgasi_kvs_log_file_t *new_file = malloc(sizeof *new_file);
    pgas_status_t status = new_file ? create_file(log, generation, new_file) : PGAS_ERR_NO_MEMORY;
    if (status != PGAS_OK) {
        free(new_file);
        return status;
    }
    pthread_mutex_lock(&log->mutex);
    begin_writing(log);
    write_all(log);
    while (log->syncing)
        pthread_cond_wait(&log->changed, &log->mutex);
    pgasi_kvs_log_file_t old = log->file;
    log->file = *new_file;
    pgasi_spin_lock(&log->lock, N_SPINS);
    bool failed = log->failed;
    log->failed = false;
    pgasi_spin_unlock(&log->lock);
    end_writing(log);
    pthread_mutex_unlock(&log->mutex);
    free(new_file);
    return finish_file(&old, failed);
}

/* ---- begin and end ---- */

static void free_log(pgasi_kvs_log_t *log)
{
    keep_chunks(log, take_chunks(log));
    while (log->spare) {
        chunk_t *next = log->spare->next;
        free(log->spare);
        log->spare = next;
    }
    free(log->open);
    free(log->dir);
    if (log->stop_fd >= 0)
        close(log->stop_fd);
    pthread_cond_destroy(&log->changed);
    pthread_mutex_destroy(&log->mutex);
    free(log);
}

static pgasi_kvs_log_t *new_log(const pgasi_kvs_log_opts_t *opts)
{
    pgasi_kvs_log_t *log =
        aligned_alloc(PGASI_CACHELINE, PGASI_ALIGN_UP(sizeof *log, PGASI_CACHELINE));
    if (!log)
        return NULL;
    memset(log, 0, sizeof *log);
    log->opts = *opts;
    log->last = &log->first;
    log->appended = log->committed = __atomic_add_fetch(&n_logs, 1, __ATOMIC_RELAXED) << 40;
    log->stop_fd = -1;
    pthread_mutex_init(&log->mutex, NULL);
    pthread_cond_init(&log->changed, NULL);
    log->dir = strdup(opts->dir);
    if (log->dir)
        return log;
    free_log(log);
    return NULL;
}

pgas_status_t pgasi_kvs_log_create(const pgasi_kvs_log_opts_t *opts, pgasi_kvs_log_t **log_p)
{
    pgasi_kvs_log_t *log = new_log(opts);
    if (!log) {
        PGASI_ERROR("kvs", "%s: no memory for the log", opts->dir);
        return PGAS_ERR_NO_MEMORY;
    }
    pgas_status_t status = create_file(log, opts->generation, &log->file);
    int error = 0;
    if (status == PGAS_OK && opts->durability == PGAS_KVS_SYNC_SECOND)
        error = start_thread(log);
    if (error != 0) {
        PGASI_ERROR("kvs", "%s: cannot start the thread that syncs: %s", log->file.path,
                    strerror(error));
        close(log->file.fd);
        pgasi_kvs_remove(log->file.path);
        status = PGAS_ERR_NO_MEMORY;
    }
    if (status == PGAS_OK)
        *log_p = log;
    else
        free_log(log);
    return status;
}

pgas_status_t pgasi_kvs_log_destroy(pgasi_kvs_log_t *log)
{
    pthread_mutex_lock(&log->mutex);
    begin_writing(log);
    write_all(log);
    log->stopping = true;
    end_writing(log);
    pthread_mutex_unlock(&log->mutex);
    if (log->has_thread) {
        eventfd_write(log->stop_fd, 1);
        pthread_join(log->thread, NULL);
    }
    pgas_status_t status = finish_file(&log->file, log->failed);
    free_log(log);
    return status;
}
