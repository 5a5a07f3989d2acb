/* what: Threads of a rank call each other, the service, slots of consumers and blocking handlers.
 *       At the same time they build calls in place, close channels, attach and detach, and send
 *       without being attached. No call is lost, and there is no race.
 * needs: tsan-ok
 * source: public headers, pgas/call.h */
#include <pthread.h>
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_THREADS 4
#define N_CALLS   200
#define SLOTS     64
#define CONSUMED  2 /* the slot of consumers: slots of threads are smaller or refused */

static pgas_handler_t counted, waits, nests;
static uint64_t of_slot[SLOTS];   /* plain: handlers of one target never overlap */
static uint64_t n_any, n_service; /* the same */
static uint64_t n_waited, n_inside, n_wrong, n_unnested;

/* The argument says for whom the call is. */
static void on_counted(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t slot;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&slot, args, sizeof slot);
    if (slot == PGAS_SLOT_ANY)
        n_any++;
    else if (slot == PGAS_SLOT_SERVICE)
        n_service++;
    else
        of_slot[slot]++;
}

/* One at a time but while they wait. */
static void on_waits(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t slot = PGAS_SLOT_ANY;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_wrong += n_inside++ != 0;
    opts.sync = &done;
    n_inside--;
    pgas_status_t status = pgas_call_to(pgas_on_rank(0), counted, &slot, sizeof slot, &opts);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&done, -1);
    n_wrong += n_inside++ != 0;
    n_wrong += status != PGAS_OK;
    n_waited++;
    n_inside--;
}

/* Spawned. */
static void on_nests(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    bool good =
        pgas_call(0, waits, NULL, 0, &done) == PGAS_OK && pgas_sync_wait(&done, -1) == PGAS_OK;
    __atomic_fetch_add(&n_unnested, !good, __ATOMIC_RELAXED);
}

static pthread_barrier_t all_here;
static int n_running;

static int call_slot(uint64_t slot, const pgas_call_opts_t *opts)
{
    return pgas_call_to(pgas_on_thread(pgas_thread_make(0, (int)slot)), counted, &slot, sizeof slot,
                        opts) != PGAS_OK;
}

static int build(uint64_t slot, bool abandon)
{
    void *args = NULL;
    int n_bad = pgas_call_begin(pgas_on_thread(pgas_thread_make(0, (int)slot)), counted,
                                sizeof slot, NULL, &args) != PGAS_OK;
    memcpy(args, &slot, sizeof slot);
    return n_bad + ((abandon ? pgas_call_abandon() : pgas_call_commit()) != PGAS_OK);
}

/* N_CALLS for each: any thread, the service, consumers; some handlers that wait. */
static void *attached(void *arg)
{
    int *n_bad_p = arg, n_bad = pgas_thread_attach() != PGAS_OK;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = &done;
    pthread_barrier_wait(&all_here);
    for (int i = 0; i < N_CALLS; i++) {
        n_bad += i % 2 ? call_slot(PGAS_SLOT_ANY, NULL) : build(PGAS_SLOT_ANY, false);
        n_bad += i % 3 ? call_slot(CONSUMED, NULL) : build(CONSUMED, false);
        n_bad += call_slot(PGAS_SLOT_SERVICE, &opts);
        n_bad += i % 16 == 0 ? build(CONSUMED, true) : 0;
        if (i % 20 == 0)
            n_bad += (pgas_call(0, waits, NULL, 0, NULL) != PGAS_OK) +
                     (pgas_call_to(pgas_on_rank(0), nests, NULL, 0,
                                   PGAS_CALL_OPTS(.spawn = true)) != PGAS_OK);
        if (i % 50 == 0)
            n_bad += pgas_channel_close(pgas_on_thread(pgas_thread_make(0, CONSUMED))) != PGAS_OK;
    }
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    n_bad += pgas_thread_detach() != PGAS_OK;
    *n_bad_p = n_bad;
    __atomic_sub_fetch(&n_running, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *unattached(void *arg)
{
    int *n_bad_p = arg, n_bad = 0;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.way = PGAS_WAY_SEND;
    pthread_barrier_wait(&all_here);
    for (int i = 0; i < N_CALLS; i++) {
        opts.full = i % 2 ? PGAS_FULL_QUEUE : PGAS_FULL_WAIT;
        n_bad += call_slot(PGAS_SLOT_ANY, &opts) + call_slot(CONSUMED, &opts) +
                 call_slot(PGAS_SLOT_SERVICE, &opts);
    }
    *n_bad_p = n_bad;
    __atomic_sub_fetch(&n_running, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Attaches and detaches, so that others use its slot in between. It starts and stops consumers of a
 * slot that no thread calls, as another thread does: one of them at a time succeeds. */
static void *restless(void *arg)
{
    int *n_bad_p = arg, n_bad = 0;
    pthread_barrier_wait(&all_here);
    for (int i = 0; i < 20; i++) {
        n_bad += pgas_thread_attach() != PGAS_OK;
        pgas_status_t status = pgas_consumers_start(CONSUMED + 1, 1);
        n_bad += status != PGAS_OK && status != PGAS_ERR_EXISTS;
        n_bad += call_slot(PGAS_SLOT_ANY, NULL);
        status = pgas_consumers_stop(CONSUMED + 1);
        n_bad += status != PGAS_OK && status != PGAS_ERR_NOT_FOUND;
        n_bad += pgas_thread_detach() != PGAS_OK;
    }
    *n_bad_p = n_bad;
    __atomic_sub_fetch(&n_running, 1, __ATOMIC_RELEASE);
    return NULL;
}

static int all_together(void)
{
    enum { N = N_THREADS + 4 };
    pthread_t thread[N];
    int n_bad[N] = { 0 }, sum = 0;
    n_running = N;
    pthread_barrier_init(&all_here, NULL, N);
    for (int i = 0; i < N; i++) {
        void *(*body)(void *) = i < N_THREADS ? attached : unattached;
        if (i >= N_THREADS + 2)
            body = restless;
        pthread_create(&thread[i], NULL, body, &n_bad[i]);
    }
    while (__atomic_load_n(&n_running, __ATOMIC_ACQUIRE) > 0)
        pgas_progress();
    for (int i = 0; i < N; i++) {
        pthread_join(thread[i], NULL);
        sum += n_bad[i];
    }
    pthread_barrier_destroy(&all_here);
    return sum + (pgas_quiesce() != PGAS_OK);
}

static void everything(const char *params)
{
    n_any = n_service = n_waited = n_wrong = n_unnested = 0;
    memset(of_slot, 0, sizeof of_slot);
    const uint64_t n_each = (N_THREADS + 2) * N_CALLS, n_waits = 2 * N_THREADS * (N_CALLS / 20);
    int n_bad = lone_init(1, params) != PGAS_OK || pgas_consumers_start(CONSUMED, 2) != PGAS_OK;
    n_bad += all_together();
    is_int(n_bad, 0, "%s: all are accepted", params);
    ok(of_slot[CONSUMED] == n_each && n_service == n_each,
       "consumers and the service ran each once");
    ok(n_any == n_each + 2 * 20 + n_waits && n_waited == n_waits && n_wrong + n_unnested == 0,
       "so did the rank's threads, and handlers that wait, one at a time");
    is_int(pgas_finalize(), PGAS_OK, "the end");
}

int main(void)
{
    plan(13);
    pgas_handler_opts_t blocks = PGAS_HANDLER_OPTS_INIT;
    blocks.blocks = true;
    pgas_handler_register("counted", on_counted, NULL, NULL, &counted);
    pgas_handler_register("waits", on_waits, NULL, &blocks, &waits);
    pgas_handler_register("nests", on_nests, NULL, NULL, &nests);
    everything("HEAP_SIZE=1M SERVICE_THREADS=1 LANES=16");
    everything("HEAP_SIZE=1M SERVICE_THREADS=0 LANES=4 CHUNK_SIZE=4K CALL_MAX=64");
    everything("HEAP_SIZE=1M SERVICE_THREADS=2 LANES=4 CHUNK_SIZE=4K CALL_MAX=64");
    uint64_t slot = PGAS_SLOT_SERVICE, before = n_service;
    on_counted(&slot, sizeof slot, 0, NULL);
    ok(n_service == before + 1, "a call that came twice is noticed");
    return done();
}
