/* Typed calls: the code that pgas_call_NAME and the run of its handler share for all types.
 *
 * It is shaped for calls of some hundred bytes. Each thread keeps one archive, with its memory, for
 * the calls that it writes. While a call waits for room, a handler may run and make a call, too.
 * That call uses an archive of its own.
 *
 * A reply begins with a status (int32_t). So the caller learns why there is no result. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "archive/archive.h"
#include "archive/in_flight.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "bulk/bulk.h"
#include "mem/rma_object.h"
#include "pgas/call_args.h"

/* A thread keeps at most this much stream memory. */
#define KEPT_MAX ((size_t)1 << 16)
#define SAMPLE   16

/* A result that the caller still reads. */
typedef struct {
    void (*release)(void *result);
    _Alignas(16) char result[];
} later_t;

static __thread struct {
    pgas_archive_t archive;
    bool used, has_end;
    uint32_t n_times; /* calls written, read and answered */
} kept __attribute__((tls_model("initial-exec")));

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_end;
static bool has_key;

static void free_kept(void *archive)
{
    (void)pgas_archive_free(archive);
    kept.has_end = false;
}

static void make_key(void)
{
    has_key = pthread_key_create(&at_end, free_kept) == 0;
}

/* Returns true if a destructor will free the archive that the thread keeps. */
static bool will_end(void)
{
    if (PGAS_LIKELY(kept.has_end))
        return true;
    pthread_once(&once, make_key);
    kept.has_end = has_key && pthread_setspecific(at_end, &kept.archive) == 0;
    return kept.has_end;
}

/* To read the clock costs as much as a small call, so only one call in SAMPLE is timed. */
static uint64_t begin_time(void)
{
    return kept.n_times++ % SAMPLE == 0 ? pgasi_now_ns() : 0;
}

static void count_since(uint64_t begun_ns)
{
    if (PGAS_UNLIKELY(begun_ns))
        PGASI_RMA_COUNT(serialize_ns, (pgasi_now_ns() - begun_ns) * SAMPLE);
}

/* ---- the caller ---- */

void pgas_args_begin(pgas_args_t *args)
{
    static const pgas_archive_t empty = PGAS_ARCHIVE_INIT;
    args->begun_ns = begin_time();
    args->archive = &kept.archive;
    if (PGAS_LIKELY(!kept.used && will_end())) {
        kept.used = true;
        return;
    }
    args->own = empty;
    args->archive = &args->own;
}

/* Ends the writing of an archive. Sending has emptied it if status is PGAS_OK. */
static void end_writing(pgas_args_t *args, pgas_status_t status)
{
    pgas_archive_t *archive = args->archive;
    if (archive == &args->own) {
        (void)pgas_archive_free(archive);
        return;
    }
    if (archive->room > KEPT_MAX)
        (void)pgas_archive_free(archive);
    else if (status != PGAS_OK)
        (void)pgas_archive_clear(archive);
    kept.used = false;
}

/* A small call to a rank is a plain call, which takes a third of the time. While archives are in
 * flight it is not, because it could overtake one of this thread. A rank runs the calls that it
 * acknowledges before it takes the next message. A thread gets such calls in another way than plain
 * calls, so calls to threads are never plain. */
static bool is_plain(const pgas_archive_t *archive, pgas_target_t target,
                     const pgas_call_opts_t *opts)
{
    size_t bytes = pgasi_archive_stream_bytes(archive);
    return !archive->n_chunks && bytes <= PGAS_ARGS_SMALL && bytes <= pgasi_param.call_max &&
           target.slot == PGAS_SLOT_ANY && !__atomic_load_n(&pgasi_n_in_flight, __ATOMIC_ACQUIRE) &&
           (!opts || (opts->size == sizeof *opts && !opts->buffers && !opts->n_buffers &&
                      !opts->local && !opts->result && !opts->spawn));
}

static pgas_status_t call_plainly(pgas_archive_t *archive, pgas_target_t target,
                                  pgas_handler_t handler, const pgas_call_opts_t *opts)
{
    size_t bytes = pgasi_archive_stream_bytes(archive);
    bool usual = opts && opts->when == PGAS_EXECUTED && opts->full == PGAS_FULL_WAIT &&
                 opts->way == PGAS_WAY_WRITE;
    pgas_status_t status = usual
                               ? pgas_call(target.rank, handler, archive->begin, bytes, opts->sync)
                               : pgas_call_to(target, handler, archive->begin, bytes, opts);
    if (status != PGAS_OK)
        return status;
    PGASI_RMA_COUNT(n_calls_sent, 1);
    PGASI_RMA_COUNT(bytes_sent, bytes);
    return pgas_archive_clear(archive);
}

pgas_status_t pgas_args_call(pgas_args_t *args, pgas_status_t status, pgas_target_t target,
                             pgas_handler_t handler, const pgas_call_opts_t *opts)
{
    count_since(args->begun_ns);
    if (status == PGAS_OK && is_plain(args->archive, target, opts))
        status = call_plainly(args->archive, target, handler, opts);
    else if (status == PGAS_OK)
        status = pgas_call_args(target, handler, args->archive, opts);
    end_writing(args, status);
    return status;
}

pgas_status_t pgas_args_return(pgas_args_t *args, pgas_status_t status, int rank,
                               pgas_handler_t handler, pgas_archive_t *reply_p)
{
    count_since(args->begun_ns);
    if (status == PGAS_OK)
        status = pgas_call_args_return(pgas_on_rank(rank), handler, args->archive, reply_p);
    end_writing(args, status);
    return status;
}

pgas_status_t pgas_args_return_nb(pgas_args_t *args, pgas_status_t status, int rank,
                                  pgas_handler_t handler, pgas_archive_t *reply_p,
                                  pgas_sync_t *sync)
{
    count_since(args->begun_ns);
    if (status == PGAS_OK)
        status = pgas_call_args_return_nb(pgas_on_rank(rank), handler, args->archive, NULL, reply_p,
                                          sync);
    end_writing(args, status);
    return status;
}

pgas_status_t pgas_args_result(pgas_archive_t *reply)
{
    int32_t number;
    pgas_status_t status = pgas_archive_get(reply, &number, sizeof number);
    if (status == PGAS_OK)
        status = (pgas_status_t)number;
    if (status != PGAS_OK && reply)
        (void)pgas_archive_free(reply);
    return status;
}

/* ---- the target ---- */

pgas_status_t pgas_args_read(pgas_args_t *args, const void *data, size_t bytes)
{
    args->begun_ns = begin_time();
    args->archive = &args->own;
    if (pgasi_bulk_running())
        return pgas_archive_from_call(&args->own);
    if (bytes > sizeof args->small)
        return PGAS_ERR_FORMAT;
    if (bytes)
        memcpy(args->small, data, bytes); /* readers need an alignment of 16 */
    pgasi_archive_read(&args->own, args->small, bytes, NULL, 0, 0);
    PGASI_RMA_COUNT(n_calls_received, 1);
    PGASI_RMA_COUNT(bytes_received, bytes);
    return PGAS_OK;
}

void pgas_args_loaded(pgas_args_t *args, pgas_status_t status, pgas_handler_t handler,
                      pgas_thread_t source)
{
    count_since(args->begun_ns);
    if (PGAS_UNLIKELY(status != PGAS_OK)) {
        const char *name = pgas_handler_name(handler);
        PGASI_ERROR("archive", "handler '%s' does not run: the arguments from rank %d: %s",
                    name ? name : "?", pgas_thread_rank(source), pgas_status_text(status));
    }
}

void pgas_args_end(pgas_args_t *args)
{
    (void)pgas_archive_free(args->archive);
}

void pgas_args_reply_begin(pgas_args_t *args, pgas_status_t status)
{
    int32_t number = (int32_t)status;
    pgas_args_begin(args);
    (void)pgas_archive_put(args->archive, &number, sizeof number);
}

static void release_later(void *arg)
{
    later_t *later = arg;
    later->release(later->result);
    free(later);
}

/* Returns true if the caller will read memory of the result. */
static bool has_pointers(const pgas_archive_t *archive)
{
    for (size_t i = 0; i < archive->n_chunks; i++)
        if (!archive->chunk[i].object)
            return true;
    return false;
}

/* Copies the structure of the result. @return NULL: no memory, so the library copies the chunks */
static later_t *move_result(const void *result, size_t bytes, void (*release)(void *result))
{
    later_t *later = malloc(sizeof *later + bytes);
    if (later) {
        later->release = release;
        memcpy(later->result, result, bytes);
    }
    return later;
}

/* Replaces what was written by a status. */
static void put_status(pgas_archive_t *archive, pgas_status_t status)
{
    int32_t number = (int32_t)status;
    (void)pgas_archive_clear(archive);
    (void)pgas_archive_put(archive, &number, sizeof number);
}

void pgas_args_reply(pgas_args_t *args, pgas_status_t status, void *result, size_t bytes,
                     void (*release_result)(void *result))
{
    later_t *later = NULL;
    if (status != PGAS_OK)
        put_status(args->archive, status);
    else if (has_pointers(args->archive))
        later = move_result(result, bytes, release_result);
    count_since(args->begun_ns);
    status = pgas_reply_args(args->archive, later ? release_later : NULL, later);
    if (!later)
        release_result(result);
    else if (status != PGAS_OK)
        release_later(later);
    if (status != PGAS_OK) { /* a result that is too large, for example */
        put_status(args->archive, status);
        status = pgas_reply_args(args->archive, NULL, NULL);
    }
    end_writing(args, status);
}
