/* what: Threads of a rank share counters: their calls, their own completions and the serving thread
 *       raise and lower them at the same time, by message and directly. Functions run once per
 *       zero. A thread that has waited sees the stores before the last completion. Refused calls
 *       raise and lower a counter in use. Threads wait for any of several counters. Threads end
 *       calls that others have begun. There is no race.
 * needs: tsan-ok
 * source: public headers, src/call/sync.h */
#include <pthread.h>
#include "msg/descriptor.h"
#include "call/sync.h"
#include "t/handlers.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_THREADS 4
#define ROUNDS    30
#define N_CALLS   20

static pgas_handler_t add, defer, echo;
static uint64_t sum; /* plain: handlers never overlap */
static pthread_barrier_t meet;

static void on_add(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t value = 0;
    (void)source;
    (void)context;
    memcpy(&value, args, bytes);
    sum += value;
}

static pgas_sync_t on_stack, with_fn, *in_heap;
static uint64_t plain[N_THREADS]; /* stored before a thread lowers the counter */
static int n_zero;

static void on_zero(pgas_sync_t *sync, void *arg)
{
    pgas_sync_add(sync, N_THREADS);
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELEASE); /* the next round begins */
}

static pgas_status_t call_when(pgas_when_t when, pgas_sync_t *sync)
{
    uint64_t one = 1;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = sync;
    opts.when = when;
    return pgas_call_to(pgas_on_rank(0), add, &one, sizeof one, &opts);
}

/* All threads use one counter; the first waits for it, reads the result, and begins again. */
static int one_counter(int who, pgas_sync_t *sync)
{
    int n_bad = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        if (who == 0)
            n_bad += pgas_sync_add(sync, 2 * N_THREADS) != PGAS_OK;
        pthread_barrier_wait(&meet);
        for (int i = 0; i < N_CALLS; i++)
            n_bad += call_when((pgas_when_t)(i % 3), sync) != PGAS_OK;
        plain[who] = (uint64_t)round;
        n_bad += pgas_sync_done(sync, 2) != PGAS_OK;
        if (who == 0) {
            n_bad += pgas_sync_wait(sync, -1) != PGAS_OK || sync->count != 0;
            for (int k = 0; k < N_THREADS; k++)
                n_bad += plain[k] != (uint64_t)round;
        }
        pthread_barrier_wait(&meet);
    }
    return n_bad;
}

static int by_message(int who)
{
    return one_counter(who, &on_stack);
}

static int by_writing(int who)
{
    return one_counter(who, in_heap);
}

static int with_function(int who)
{
    int n_bad = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < N_CALLS; i++)
            n_bad += call_when((pgas_when_t)(i % 3), &with_fn) != PGAS_OK;
        n_bad += pgas_sync_done(&with_fn, 1) != PGAS_OK;
        while (__atomic_load_n(&n_zero, __ATOMIC_ACQUIRE) < round)
            pgas_progress();
        pthread_barrier_wait(&meet);
    }
    (void)who;
    return n_bad;
}

/* Refused calls raise the counter for a moment. The threads wait for any of two counters. */
static int refused_meanwhile(int who)
{
    int n_bad = 0;
    pgas_sync_t own = PGAS_SYNC_INIT, *syncs[2] = { &own, &in_heap[1 + who] };
    for (int round = 0; round < ROUNDS; round++) {
        size_t index = 9;
        for (int i = 0; i < N_CALLS; i++) {
            n_bad += call_when(PGAS_EXECUTED, i % 2 ? &own : syncs[1]) != PGAS_OK;
            n_bad += pgas_call(0, 4000, NULL, 0, &on_stack) != PGAS_ERR_NOT_FOUND;
            n_bad += pgas_call_return_nb(0, echo, NULL, 8, NULL, 0, &on_stack) != PGAS_ERR_INVALID;
        }
        n_bad += pgas_sync_wait_any(syncs, 2, -1, &index) != PGAS_OK || index > 1;
        n_bad += pgas_sync_wait_all(syncs, 2, -1) != PGAS_OK || own.count || syncs[1]->count;
    }
    return n_bad + (on_stack.count != 0);
}

/* Calls that one thread takes up and another one ends. */
static pgasi_call_t taken[N_THREADS * ROUNDS];
static int n_taken, n_ended;

static void on_defer(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    pgasi_call_t call = pgasi_call_begin(0, 0, 0);
    taken[n_taken] = call;
    call.wire = 0;
    pgasi_call_end(call, PGAS_OK);
    __atomic_store_n(&n_taken, n_taken + 1, __ATOMIC_RELEASE);
}

static int end_one(void)
{
    uint64_t word = 7, back = 0;
    int mine = __atomic_load_n(&n_ended, __ATOMIC_RELAXED), n_bad = 0;
    if (mine == __atomic_load_n(&n_taken, __ATOMIC_ACQUIRE) ||
        !__atomic_compare_exchange_n(&n_ended, &mine, mine + 1, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {
        pgas_progress();
        return 0;
    }
    pgasi_call_t before =
        pgasi_call_begin(taken[mine].source, taken[mine].handler, taken[mine].wire);
    n_bad += pgas_call_return(0, echo, &word, sizeof word, &back, sizeof back) != PGAS_OK ||
             back != word;
    n_bad += pgas_reply(&word, sizeof word) != PGAS_OK;
    pgasi_call_end(before, PGAS_OK);
    return n_bad;
}

static int ended_by_others(int who)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    uint64_t reply[ROUNDS] = { 0 };
    int n_bad = 0;
    (void)who;
    for (int i = 0; i < ROUNDS; i++)
        n_bad +=
            pgas_call_return_nb(0, defer, NULL, 0, &reply[i], sizeof reply[i], &sync) != PGAS_OK;
    while (__atomic_load_n(&n_ended, __ATOMIC_RELAXED) < N_THREADS * ROUNDS)
        n_bad += end_one();
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
    for (int i = 0; i < ROUNDS; i++)
        n_bad += reply[i] != 7;
    return n_bad;
}

typedef struct {
    int (*body)(int who);
    int who, n_bad;
} work_t;

static int n_running;

static void *thread_main(void *arg)
{
    work_t *work = arg;
    work->n_bad += pgas_thread_attach() != PGAS_OK;
    pthread_barrier_wait(&meet);
    work->n_bad += work->body(work->who);
    work->n_bad += pgas_thread_detach() != PGAS_OK;
    __atomic_sub_fetch(&n_running, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* All threads run body while the first one serves. */
static int together(int (*body)(int who))
{
    pthread_t thread[N_THREADS];
    work_t work[N_THREADS];
    int n_bad = 0;
    n_running = N_THREADS;
    pthread_barrier_init(&meet, NULL, N_THREADS);
    for (int i = 0; i < N_THREADS; i++) {
        work[i] = (work_t){ body, i, 0 };
        pthread_create(&thread[i], NULL, thread_main, &work[i]);
    }
    while (__atomic_load_n(&n_running, __ATOMIC_ACQUIRE) > 0)
        pgas_progress();
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(thread[i], NULL);
        n_bad += work[i].n_bad;
    }
    pthread_barrier_destroy(&meet);
    return n_bad + (pgas_quiesce() != PGAS_OK);
}

static void everything(const char *params)
{
    const uint64_t calls = (uint64_t)N_THREADS * ROUNDS * N_CALLS;
    pgas_gptr_t at = PGAS_NULL;
    int n_bad = lone_init(1, params) != PGAS_OK ||
                pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, (1 + N_THREADS) * sizeof *in_heap,
                              &at) != PGAS_OK;
    in_heap = pgas_gptr_local(at, (1 + N_THREADS) * sizeof *in_heap);
    sum = 0;
    n_zero = n_taken = n_ended = 0;
    for (int i = 0; i <= N_THREADS; i++)
        in_heap[i] = (pgas_sync_t)PGAS_SYNC_INIT;
    on_stack = (pgas_sync_t)PGAS_SYNC_INIT;
    with_fn = (pgas_sync_t){ N_THREADS, 0, on_zero, &n_zero };
    n_bad += together(by_message);
    ok(n_bad == 0 && sum == calls && pgasi_sync_stats.n_written == 0, "%s: one counter, by message",
       params);
    n_bad = together(by_writing);
    ok(n_bad == 0 && sum == 2 * calls && pgasi_sync_stats.n_written > 0, "by writing");
    n_bad = together(with_function);
    ok(n_bad == 0 && sum == 3 * calls && n_zero == ROUNDS, "with a function");
    n_bad = together(refused_meanwhile);
    ok(n_bad == 0 && sum == 4 * calls, "refused calls, and waits for any");
    is_int(together(ended_by_others), 0, "calls that other threads end");
    is_int(pgas_finalize(), PGAS_OK, "the end");
}

int main(void)
{
    plan(18);
    pgas_handler_register("add", on_add, NULL, NULL, &add);
    pgas_handler_register("defer", on_defer, NULL, NULL, &defer);
    pgas_handler_register("echo", on_echo, NULL, NULL, &echo);
    everything("HEAP_SIZE=1M SERVICE_THREADS=1 LANES=3");
    everything("HEAP_SIZE=1M SERVICE_THREADS=0 LANES=8 CHUNK_SIZE=4K CALL_MAX=64");
    everything("HEAP_SIZE=1M SERVICE_THREADS=2 LANES=1 CHUNK_SIZE=4K CALL_MAX=256");
    return done();
}
