/* what:  Calls with archives that are sent and read on the node allocate no memory once a few have
 *        been sent: neither the caller, nor the thread that runs the call, nor a reply that a
 *        handler sends. All memory is freed at the end of the job.
 * needs: no-sanitizers
 * source: pgas/call_archive.h */
#include <stdlib.h>
#include "pgas/call_archive.h"
#include "t/pattern.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define BYTES  ((size_t)20000)
#define N_WARM 200
#define N_MORE 2000

/* ---- malloc, counted ---- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static volatile uint64_t n_allocated;

void *malloc(size_t bytes)
{
    n_allocated++;
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    n_allocated++;
    return __libc_calloc(n, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    n_allocated++;
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    n_allocated++;
    return __libc_memalign(align, bytes);
}

/* ---- calls ---- */

static pgas_handler_t take, give;
static uint64_t n_run, n_bad;
static unsigned char memory[BYTES];

static void on_take(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in;
    pgas_rma_object_t *object = NULL;
    const void *data;
    size_t n_object, n_data;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    bool good = pgas_archive_from_call(&in) == PGAS_OK &&
                pgas_archive_get_object(&in, &object, &n_object) == PGAS_OK &&
                pgas_archive_get_vector(&in, 1, &data, &n_data) == PGAS_OK && n_object == BYTES &&
                n_data == BYTES && pattern_matches(object->data, 1, BYTES) &&
                pattern_matches(data, 2, BYTES);
    pgas_rma_object_destroy(object);
    pgas_archive_free(&in);
    n_bad += !good;
    n_run++;
}

static void on_give(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    static pgas_archive_t out = PGAS_ARCHIVE_INIT;
    (void)args;
    (void)bytes;
    (void)source;
    n_bad += pgas_archive_put_object(&out, *(pgas_rma_object_t **)context, BYTES) != PGAS_OK ||
             pgas_reply_args(&out, NULL, NULL) != PGAS_OK;
    n_run++;
}

static pgas_rma_object_t *object;

static void send_some(pgas_archive_t *out, int n)
{
    for (int i = 0; i < n; i++) {
        pgas_sync_t done = PGAS_SYNC_INIT;
        n_bad +=
            pgas_archive_put_object(out, object, BYTES) != PGAS_OK ||
            pgas_archive_put_vector(out, memory, BYTES, 1) != PGAS_OK ||
            pgas_call_args(pgas_on_rank(0), take, out, PGAS_CALL_OPTS(.sync = &done)) != PGAS_OK ||
            pgas_sync_wait(&done, -1) != PGAS_OK;
    }
}

static void calls_allocate_nothing(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    send_some(&out, N_WARM);
    uint64_t before = n_allocated;
    send_some(&out, N_MORE);
    is_int((int64_t)(n_allocated - before), 0, "%d calls with two chunks allocate nothing", N_MORE);
    is_int((int64_t)n_bad, 0, "their data are right");
    pgas_archive_free(&out);
    before = n_allocated;
    free(malloc(1));
    is_int((int64_t)(n_allocated - before), 1, "the counter counts");
}

/* A reply keeps its stream and its table in memory of its own. */
static void replies_allocate_two_blocks(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    uint64_t before = 0;
    for (int i = 0; i < N_WARM + N_MORE; i++) {
        if (i == N_WARM)
            before = n_allocated;
        n_bad +=
            pgas_call_args_return(pgas_on_rank(0), give, &out, &in) != PGAS_OK || in.n_chunks != 1;
        pgas_archive_free(&in);
    }
    is_int((int64_t)(n_allocated - before), 2 * N_MORE, "a reply allocates its stream and table");
    is_int((int64_t)n_bad, 0, "all replies come");
    pgas_archive_free(&out);
}

static void all_is_given_back(void)
{
    pgas_rma_info_t info = { .size = sizeof info };
    pgas_rma_object_destroy(object);
    is_int(pgas_quiesce(), PGAS_OK, "quiescence");
    is_int(pgas_rma_info(&info), PGAS_OK, "pgas_rma_info");
    is_int((int64_t)info.n_objects, 0, "no object is left");
    is_int((int64_t)info.n_calls_sent, N_WARM + N_MORE + 2 * (N_WARM + N_MORE),
           "calls, and replies, are counted as sent");
    is_int((int64_t)info.n_calls_received, (int64_t)info.n_calls_sent, "and as received");
    is_int((int64_t)info.n_chunks_received, 3 * (N_WARM + N_MORE), "with their chunks");
}

int main(void)
{
    plan(12);
    pgas_handler_register("t.take", on_take, NULL, NULL, &take);
    pgas_handler_register("t.give", on_give, &object, NULL, &give);
    is_int(lone_init(1, "HEAP_SIZE=4M SERVICE_THREADS=0"), PGAS_OK, "init");
    pattern_fill(memory, 2, BYTES);
    if (pgas_rma_object_create(BYTES, &object) != PGAS_OK)
        bail("no object");
    pattern_fill(object->data, 1, BYTES);
    calls_allocate_nothing();
    replies_allocate_two_blocks();
    all_is_given_back();
    pgas_finalize();
    return done();
}
