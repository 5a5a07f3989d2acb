/* what: Threads of a rank send archives with chunks to each other, to the rank and to its service,
 *       ask for replies, and share one object; other threads send without being attached. No call
 *       is lost, all objects end, and there is no race.
 * needs: tsan-ok
 * source: pgas/call_archive.h */
#include <pthread.h>
#include "pgas/call_archive.h"
#include "t/pattern.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_THREADS 3 /* beside the initialising one, and one that does not attach */
#define N_CALLS   150
#define N_ALL     ((uint64_t)(N_THREADS + 2) * N_CALLS)
#define BYTES     ((size_t)6000)

static pgas_handler_t take, give;
static uint64_t n_run, n_wrong;
static pgas_rma_object_t *common;
static pthread_barrier_t all_here;

static bool is_right(pgas_archive_t *in)
{
    uint64_t seed;
    pgas_rma_object_t *object = NULL, *shared = NULL;
    const void *data = NULL;
    size_t n_object = 0, n_shared = 0, n_data = 0;
    bool good = pgas_archive_get(in, &seed, sizeof seed) == PGAS_OK &&
                pgas_archive_get_object(in, &object, &n_object) == PGAS_OK &&
                pgas_archive_get_object(in, &shared, &n_shared) == PGAS_OK &&
                pgas_archive_get_vector(in, 1, &data, &n_data) == PGAS_OK && n_object == BYTES &&
                n_shared == BYTES && n_data == BYTES &&
                pattern_matches(object->data, seed, BYTES) &&
                pattern_matches(shared->data, 0, BYTES) && pattern_matches(data, seed + 1, BYTES);
    pgas_rma_object_destroy(object);
    pgas_rma_object_destroy(shared);
    return good;
}

static pgas_status_t put_all(pgas_archive_t *out, uint64_t seed, unsigned char *memory)
{
    pgas_rma_object_t *object;
    pgas_status_t status = pgas_rma_object_create(BYTES, &object);
    if (status != PGAS_OK)
        return status;
    pattern_fill(object->data, seed, BYTES);
    pattern_fill(memory, seed + 1, BYTES);
    pgas_archive_put(out, &seed, sizeof seed);
    pgas_archive_put_object(out, object, BYTES);
    pgas_archive_put_object(out, common, BYTES);
    status = pgas_archive_put_vector(out, memory, BYTES, 1);
    pgas_rma_object_destroy(object);
    return status;
}

static void on_take(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    bool good = pgas_archive_from_call(&in) == PGAS_OK && is_right(&in);
    pgas_archive_free(&in);
    __atomic_fetch_add(&n_wrong, !good, __ATOMIC_RELAXED);
    __atomic_fetch_add(&n_run, 1, __ATOMIC_RELAXED);
}

static void on_give(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    unsigned char memory[BYTES];
    on_take(args, bytes, source, context);
    bool good =
        put_all(&out, 77, memory) == PGAS_OK && pgas_reply_args(&out, NULL, NULL) == PGAS_OK;
    __atomic_fetch_add(&n_wrong, !good, __ATOMIC_RELAXED);
    pgas_archive_free(&out);
}

static int ask(pgas_target_t target, pgas_archive_t *out)
{
    pgas_archive_t in;
    pgas_sync_t done = PGAS_SYNC_INIT;
    bool good = pgas_call_args_return_nb(target, give, out, NULL, &in, &done) == PGAS_OK &&
                pgas_sync_wait(&done, -1) == PGAS_OK && is_right(&in);
    pgas_archive_free(&in);
    return !good;
}

static int send_all(uint64_t first, bool is_attached)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    unsigned char memory[BYTES];
    int n_bad = 0;
    for (uint64_t i = 0; i < N_CALLS; i++) {
        pgas_sync_t done = PGAS_SYNC_INIT;
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        pgas_target_t target =
            i % 3 ? pgas_on_thread(pgas_thread_make(0, (int)(i % N_THREADS))) : pgas_on_rank(0);
        if (i % 9 == 0)
            target = pgas_on_service(0);
        n_bad += put_all(&out, first + i, memory) != PGAS_OK;
        if (is_attached && i % 5 == 4) {
            n_bad += ask(target, &out);
            continue;
        }
        if (is_attached && i % 2)
            opts.local = &done;
        if (!is_attached)
            opts.way = PGAS_WAY_SEND;
        n_bad += pgas_call_args(target, take, &out, &opts) != PGAS_OK;
        n_bad += is_attached && pgas_sync_wait(&done, -1) != PGAS_OK;
    }
    pgas_archive_free(&out);
    return n_bad;
}

/* A thread stays until all calls have run, as calls to threads that have left are refused. */
static void serve(void)
{
    while (__atomic_load_n(&n_run, __ATOMIC_RELAXED) < N_ALL)
        pgas_progress();
}

static void *attached(void *arg)
{
    int *n_bad_p = arg, n_bad = pgas_thread_attach() != PGAS_OK;
    pthread_barrier_wait(&all_here);
    n_bad += send_all(1000, true);
    serve();
    *n_bad_p = n_bad + (pgas_thread_detach() != PGAS_OK);
    return NULL;
}

static void *unattached(void *arg)
{
    int *n_bad_p = arg;
    pthread_barrier_wait(&all_here);
    *n_bad_p = send_all(5000, false);
    return NULL;
}

int main(void)
{
    pthread_t thread[N_THREADS + 1];
    int n_bad[N_THREADS + 1], n_all = 0;
    pgas_rma_info_t info = { .size = sizeof info };
    plan(5);
    pgas_handler_register("t.take", on_take, NULL, NULL, &take);
    pgas_handler_register("t.give", on_give, NULL, NULL, &give);
    is_int(lone_init(1, "HEAP_SIZE=32M SERVICE_THREADS=1"), PGAS_OK, "init");
    if (pgas_rma_object_create(BYTES, &common) != PGAS_OK)
        bail("no object");
    pattern_fill(common->data, 0, BYTES);
    pthread_barrier_init(&all_here, NULL, N_THREADS + 2);
    for (int i = 0; i <= N_THREADS; i++)
        pthread_create(&thread[i], NULL, i < N_THREADS ? attached : unattached, &n_bad[i]);
    pthread_barrier_wait(&all_here);
    n_all += send_all(9000, true);
    serve();
    for (int i = 0; i <= N_THREADS; i++) {
        pthread_join(thread[i], NULL);
        n_all += n_bad[i];
    }
    pthread_barrier_destroy(&all_here);
    is_int(n_all, 0, "all calls are accepted, and all replies come");
    is_int(pgas_quiesce(), PGAS_OK, "quiescence");
    ok(n_run == N_ALL && !n_wrong, "all run, with the right data");
    pgas_rma_object_destroy(common);
    pgas_rma_info(&info);
    is_int((int64_t)info.n_objects, 0, "no object is left");
    pgas_finalize();
    return done();
}
