/* Threads.
 *   what:   Attached threads, also more than there are contexts, call and transfer at the same
 *           time, each in its own order. Slots are given and taken back. Detach completes the
 *           issued operations, also while the job ends. A thread that is not attached is refused.
 *   np:     1 2 3 4 5
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_LANES=2 | PGAS_LANES=1 PGAS_SERVICE_THREADS=0 | PGAS_LANES=2
 *   env:    PGAS_SERVICE_THREADS=2 PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=256 |
 *   env:    PGAS_LANES=3 PGAS_FAULT=delay=4,reorder=4,again=3
 *   source: pgas/runtime.h, pgas/call.h
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include "base/rng.h"
#include "boot/hooks.h"
#include "call/progress.h"
#include "mem/thread.h"
#include "t/handlers.h"
#include "t/spmd/job.h"

#define N_THREADS 5
#define SLOTS     (N_THREADS + 2)
#define N_CALLS   400
#define SHARD     8192

static pgas_handler_t numbered, echo, count;
static uint64_t next_of[JOB_RANKS_MAX][SLOTS], n_counted;
static int n_out_of_order;
static pgas_gptr_t areas[JOB_RANKS_MAX]; /* SLOTS * n_ranks shards and a counter */
static int n_running;
static pthread_barrier_t all_attached;

static void on_numbered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    (void)bytes;
    (void)context;
    memcpy(&number, args, sizeof number);
    if (pgas_thread_slot(source) >= SLOTS ||
        number != next_of[pgas_thread_rank(source)][pgas_thread_slot(source)]++)
        n_out_of_order++;
}

typedef struct {
    int (*body)(int index);
    int index, n_bad, slot;
} job_t;

static void *thread_main(void *arg)
{
    job_t *job = arg;
    job->n_bad += pgas_thread_slot(pgas_thread_self()) != 4094;
    job->n_bad += pgas_thread_attach() != PGAS_OK;
    job->slot = pgas_thread_slot(pgas_thread_self());
    pthread_barrier_wait(&all_attached); /* so that no slot is used twice */
    job->n_bad += pgas_thread_rank(pgas_thread_self()) != me || job->slot < 1 || job->slot >= SLOTS;
    job->n_bad += job->body(job->index);
    job->n_bad += pgas_thread_detach() != PGAS_OK;
    __atomic_sub_fetch(&n_running, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Runs body on all threads while the first serves; returns what went wrong. */
static int on_all_threads(int (*body)(int index))
{
    pthread_t threads[N_THREADS];
    job_t jobs[N_THREADS];
    int n_bad = 0;
    n_running = N_THREADS;
    pthread_barrier_init(&all_attached, NULL, N_THREADS);
    pgas_barrier(NULL);
    for (int i = 0; i < N_THREADS; i++) {
        jobs[i] = (job_t){ body, i, 0, -1 };
        pthread_create(&threads[i], NULL, thread_main, &jobs[i]);
    }
    while (__atomic_load_n(&n_running, __ATOMIC_ACQUIRE) > 0)
        pgas_progress();
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        n_bad += jobs[i].n_bad;
    }
    pthread_barrier_destroy(&all_attached);
    return n_bad;
}

static int call_in_order(int index)
{
    static _Thread_local uint64_t sent[JOB_RANKS_MAX];
    pgas_agg_t *agg = NULL;
    pgasi_rng_t rng;
    int n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    pgasi_rng_seed(&rng, (uint64_t)(me * 100 + index));
    for (int i = 0; i < N_CALLS; i++) {
        uint64_t draw = pgasi_rng_u64(&rng), args[6] = { 0, 0, 0, 0, 0, 0 };
        int rank = (int)(draw / 64 % (uint64_t)n_ranks);
        size_t bytes = 8 + draw % 40;
        args[0] = sent[rank]++;
        if (draw % 3)
            n_bad += pgas_agg_call(agg, rank, numbered, args, bytes) != PGAS_OK;
        else
            n_bad += pgas_call(rank, numbered, args, bytes, NULL) != PGAS_OK;
    }
    n_bad += pgas_agg_destroy(agg) != PGAS_OK;
    for (int r = 0; r < n_ranks; r++) /* the last number gives their count */
        n_bad += pgas_call(r, numbered, &sent[r], 8, NULL) != PGAS_OK;
    return n_bad;
}

static void calls_keep_order(void)
{
    int n_bad = on_all_threads(call_in_order) + (pgas_quiesce() != PGAS_OK);
    uint64_t ran = 0, all = 0;
    for (int r = 0; r < n_ranks; r++)
        for (int s = 0; s < SLOTS; s++)
            ran += next_of[r][s];
    pgas_allreduce(NULL, &ran, &all, 1, PGAS_U64, PGAS_ADD);
    uint64_t each = N_CALLS + (uint64_t)n_ranks;
    spmd_ok(n_bad == 0 && n_out_of_order == 0 && all == (uint64_t)n_ranks * N_THREADS * each,
            "calls of every thread run, in its order");
    uint64_t wrong = 12345;
    n_bad = pgas_call(me, numbered, &wrong, 8, NULL) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_out_of_order == 1, "a wrong number is noticed");
}

static int ask_and_wait(int index)
{
    int n_bad = 0;
    for (uint64_t i = 0; i < 60; i++) {
        uint64_t args[2] = { i * 1000 + (uint64_t)index, (uint64_t)me }, back[2] = { 0, 0 };
        n_bad += pgas_call_return((int)(i % (uint64_t)n_ranks), echo, args, sizeof args, back,
                                  sizeof back) != PGAS_OK;
        n_bad += memcmp(args, back, sizeof args) != 0;
    }
    pgas_sync_t sync = PGAS_SYNC_INIT;
    for (int i = 0; i < 100; i++)
        n_bad += pgas_call(i % n_ranks, count, NULL, 0, &sync) != PGAS_OK;
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
    return n_bad;
}

static void replies(void)
{
    n_counted = 0;
    int n_bad = on_all_threads(ask_and_wait) + (pgas_quiesce() != PGAS_OK);
    uint64_t ran = n_counted, all = 0;
    pgas_allreduce(NULL, &ran, &all, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad == 0 && all == (uint64_t)n_ranks * N_THREADS * 100,
            "threads wait for replies and completions of their own");
}

static int transfer(int index)
{
    unsigned char out[SHARD], in[SHARD];
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, (uint64_t)(me * 77 + index));
    for (int i = 0; i < 40; i++) {
        int rank = (int)pgasi_rng_below(&rng, (uint64_t)n_ranks);
        pgas_gptr_t to =
            pgas_gptr_add(areas[rank], (int64_t)(8 + (size_t)(me * N_THREADS + index) * SHARD));
        size_t bytes = 1 + (size_t)pgasi_rng_below(&rng, i % 4 ? 200 : SHARD);
        uint64_t old = 0;
        pgas_sync_t done = PGAS_SYNC_INIT;
        memset(out, i + index, bytes);
        n_bad += pgas_put_nb(to, out, bytes, i % 2 ? PGAS_REMOTE : PGAS_LOCAL,
                             i % 3 ? &done : NULL) != PGAS_OK ||
                 pgas_sync_wait(&done, -1) != PGAS_OK;
        n_bad += !(i % 2 && i % 3) && pgas_flush(rank) != PGAS_OK;
        memset(in, 0xee, bytes);
        n_bad += pgas_get(in, to, bytes) != PGAS_OK || memcmp(in, out, bytes) != 0;
        n_bad += pgas_fetch_op_u64(areas[rank], PGAS_ADD, 1, &old) != PGAS_OK;
        n_bad += pgas_update_u64(areas[rank], PGAS_ADD, 1) != PGAS_OK;
    }
    return n_bad + (pgas_flush_all() != PGAS_OK);
}

static void transfers(void)
{
    uint64_t *counter = pgas_gptr_local(areas[me], 8), all = 0;
    *counter = 0;
    int n_bad = on_all_threads(transfer);
    pgas_barrier(NULL);
    pgas_allreduce(NULL, counter, &all, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad == 0 && all == (uint64_t)n_ranks * N_THREADS * 80,
            "threads put, get and count at the same time");
    pgas_barrier(NULL);
}

/* Gathered calls and puts that no thread has flushed. */
static int leave_in_a_hurry(int index)
{
    pgas_agg_t *agg = NULL;
    uint64_t value = (uint64_t)index + 1;
    int n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    for (int r = 0; r < n_ranks; r++) {
        pgas_gptr_t to =
            pgas_gptr_add(areas[r], (int64_t)(8 + (size_t)(me * N_THREADS + index) * SHARD));
        n_bad +=
            pgas_agg_call(agg, r, count, NULL, 0) != PGAS_OK || pgas_put(to, &value, 8) != PGAS_OK;
    }
    return n_bad;
}

/* One thread issues puts, another waits for their counter. The issuing thread makes progress until
 * the other has seen the end. */
typedef struct {
    pgas_sync_t puts;
    int seen, n_bad;
} handed_over_t;

static void *waits_for_puts(void *arg)
{
    handed_over_t *h = arg;
    h->n_bad = pgas_thread_attach() != PGAS_OK;
    h->n_bad += pgas_sync_wait(&h->puts, -1) != PGAS_OK;
    __atomic_store_n(&h->seen, 1, __ATOMIC_RELEASE);
    h->n_bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

static void another_thread_waits(void)
{
    enum { N = 100 };
    static uint64_t out[N], in[N];
    handed_over_t h = { .puts = PGAS_SYNC_INIT };
    pthread_t thread;
    int n_bad = 0, right = (me + 1) % n_ranks;
    pgas_gptr_t to = pgas_gptr_add(areas[right], (int64_t)(8 + (size_t)(me * N_THREADS) * SHARD));
    pgas_sync_add(&h.puts, 1);
    pthread_create(&thread, NULL, waits_for_puts, &h);
    for (int i = 0; i < N; i++) {
        out[i] = (uint64_t)(me * N + i) + 77;
        n_bad += pgas_put_nb(pgas_gptr_elem(to, i, 8), &out[i], 8, PGAS_REMOTE, &h.puts) != PGAS_OK;
    }
    pgas_sync_done(&h.puts, 1);
    while (!__atomic_load_n(&h.seen, __ATOMIC_ACQUIRE))
        pgas_progress();
    n_bad += pgas_get(in, to, sizeof in) != PGAS_OK || memcmp(in, out, sizeof in) != 0;
    pthread_join(thread, NULL);
    spmd_is_int(n_bad + h.n_bad, 0, "a thread waits for the puts of another");
    pgas_barrier(NULL);
}

static void detach_completes(void)
{
    n_counted = 0;
    int n_bad = on_all_threads(leave_in_a_hurry);
    pgas_barrier(NULL);
    /* no other thread sends them */
    while (__atomic_load_n(&n_counted, __ATOMIC_RELAXED) < (uint64_t)n_ranks * N_THREADS)
        pgas_progress();
    for (int i = 0; i < n_ranks * N_THREADS; i++) {
        uint64_t *word =
            pgas_gptr_local(pgas_gptr_add(areas[me], (int64_t)(8 + (size_t)i * SHARD)), 8);
        n_bad += *word != (uint64_t)(i % N_THREADS) + 1;
    }
    spmd_is_int(n_bad, 0, "detach publishes calls and completes puts");
    pgas_barrier(NULL);
}

static int nested(int index)
{
    int slot = pgas_thread_slot(pgas_thread_self()), n_bad = 0;
    pgas_thread_info_t place = { .size = sizeof place }, small = { .size = sizeof small.size };
    double begun = pgas_time();
    (void)index;
    n_bad += pgas_thread_attach() != PGAS_OK || pgas_thread_slot(pgas_thread_self()) != slot;
    n_bad += pgas_thread_detach() != PGAS_OK || pgas_thread_slot(pgas_thread_self()) != slot;
    n_bad += pgas_finalize() != PGAS_ERR_CONTEXT || !pgas_initialized();
    n_bad += pgas_thread_info(&place) != PGAS_OK || place.cpu < -1 ||
             pgas_thread_info(NULL) != PGAS_ERR_INVALID ||
             pgas_thread_info(&small) != PGAS_ERR_INVALID;
    n_bad += pgas_time() < begun || begun <= 0;
    return n_bad;
}

/* A flush that fails, as with a peer that died. */
static pgas_status_t (*flush_for_detach)(void);
static pgas_status_t flush_fails(void)
{
    pgas_status_t status = flush_for_detach();
    return status == PGAS_OK ? PGAS_ERR_PEER : status;
}

static void *leaves_behind(void *arg)
{
    int *n_bad_p = arg;
    *n_bad_p += pgas_thread_attach() != PGAS_OK || pgas_thread_detach() != PGAS_ERR_PEER;
    *n_bad_p +=
        pgas_thread_slot(pgas_thread_self()) != 4094 || pgas_thread_detach() != PGAS_ERR_CONTEXT;
    return NULL;
}

static void detach_tells(void)
{
    pthread_t thread;
    int n_bad = 0;
    flush_for_detach = pgasi_hooks.thread_detaching[PGASI_LAYER_CALL];
    pgasi_hooks.thread_detaching[PGASI_LAYER_CALL] = flush_fails;
    pthread_create(&thread, NULL, leaves_behind, &n_bad);
    pthread_join(thread, NULL);
    pgasi_hooks.thread_detaching[PGASI_LAYER_CALL] = flush_for_detach;
    spmd_is_int(n_bad, 0, "detach reports operations that could not complete, and detaches");
}

static int unattached_bad;
static void *stranger(void *arg)
{
    uint64_t x = 0;
    pgas_agg_t *agg = NULL;
    pgas_gptr_t ptr = PGAS_NULL;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    (void)arg;
    unattached_bad += pgas_call(me, count, NULL, 0, NULL) != PGAS_ERR_CONTEXT;
    unattached_bad += pgas_call_return(me, echo, &x, 8, &x, 8) != PGAS_ERR_CONTEXT;
    unattached_bad +=
        pgas_thread_detach() != PGAS_ERR_CONTEXT || pgas_quiesce() != PGAS_ERR_CONTEXT;
    unattached_bad +=
        pgas_barrier(NULL) != PGAS_ERR_CONTEXT || pgas_flush_all() != PGAS_ERR_CONTEXT;
    unattached_bad += pgas_agg_create(NULL, &agg) != PGAS_ERR_CONTEXT ||
                      pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, 8, &ptr) != PGAS_ERR_CONTEXT;
    pgas_sync_add(&sync, 1);
    unattached_bad +=
        pgas_sync_wait(&sync, 0) != PGAS_ERR_CONTEXT || pgas_finalize() != PGAS_ERR_CONTEXT;
    unattached_bad += pgas_signal_wait(&x, PGAS_EQ, 1, 0, NULL) != PGAS_ERR_CONTEXT ||
                      pgas_fence() != PGAS_ERR_CONTEXT;
    return NULL;
}

static void refusals(void)
{
    pthread_t thread;
    spmd_is_int(on_all_threads(nested), 0,
                "attaching twice counts; others than the first do not finalize");
    pthread_create(&thread, NULL, stranger, NULL);
    pthread_join(thread, NULL);
    spmd_is_int(unattached_bad, 0, "a thread that is not attached is refused");
    spmd_ok(pgas_thread_slot(pgas_thread_self()) == 0 && pgas_thread_detach() == PGAS_ERR_CONTEXT &&
                pgas_thread_attach() == PGAS_OK && pgas_thread_detach() == PGAS_OK &&
                pgas_thread_detach() == PGAS_ERR_CONTEXT,
            "the first thread is slot 0 and stays");
}

static int nothing(int index)
{
    (void)index;
    return 0;
}

static void slots_are_used_again(void)
{
    int n_bad = 0;
    for (int i = 0; i < 30; i++)
        n_bad += on_all_threads(nothing);
    spmd_is_int(n_bad, 0, "slots are used again");
}

/* Calls, and begins to detach before the end of the job, but continues only when the end has begun.
 * */
static pthread_barrier_t end_begins, has_ended; /* of main and one thread each */
static bool ran_on;                             /* the library, meanwhile */
static pgas_status_t leaves_slowly(void)
{
    pthread_barrier_wait(&end_begins);
    while (!__atomic_load_n(&pgasi_leaving, __ATOMIC_ACQUIRE))
        sched_yield();
    ran_on = true;
    for (int i = 0; i < 300 && ran_on; i++) { /* an end that does not wait has the time to end */
        usleep(100);
        ran_on = __atomic_load_n(&pgasi_running, __ATOMIC_ACQUIRE);
    }
    return ran_on ? flush_for_detach() : PGAS_ERR_INTERNAL;
}

static void *detaches_at_the_end(void *arg)
{
    bool *good_p = arg;
    bool good = pgas_thread_attach() == PGAS_OK;
    for (int i = 0; i < 100; i++)
        good = pgas_call(i % n_ranks, count, NULL, 0, NULL) == PGAS_OK && good;
    *good_p = pgas_thread_detach() == PGAS_OK && good;
    return NULL;
}

static void *detaches_after_the_end(void *arg)
{
    bool *good_p = arg;
    *good_p = pgas_thread_attach() == PGAS_OK;
    pthread_barrier_wait(&has_ended); /* not yet */
    pthread_barrier_wait(&has_ended);
    *good_p = pgas_thread_detach() == PGAS_ERR_NOT_INIT &&
              pgas_thread_attach() == PGAS_ERR_NOT_INIT && *good_p;
    return NULL;
}

static void the_end_waits_for_who_detaches(void)
{
    pthread_t threads[2];
    bool good[2] = { false, false };
    pthread_barrier_init(&end_begins, NULL, 2);
    pthread_barrier_init(&has_ended, NULL, 2);
    pthread_create(&threads[1], NULL, detaches_after_the_end, &good[1]);
    pthread_barrier_wait(&has_ended);
    flush_for_detach = pgasi_hooks.thread_detaching[PGASI_LAYER_CALL];
    pgasi_hooks.thread_detaching[PGASI_LAYER_CALL] = leaves_slowly;
    pthread_create(&threads[0], NULL, detaches_at_the_end, &good[0]);
    pthread_barrier_wait(&end_begins);
    job_stop();
    pthread_join(threads[0], NULL);
    pthread_barrier_wait(&has_ended);
    pthread_join(threads[1], NULL);
    spmd_ok(good[0] && ran_on, "the end waits for a thread that is just detaching");
    spmd_ok(good[1], "threads that are still attached then are not any more");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.numbered", on_numbered, NULL, NULL, &numbered);
    pgas_handler_register("t.echo", on_echo, NULL, NULL, &echo);
    pgas_handler_register("t.count", on_count, &n_counted, NULL, &count);
    job_begin(&argc, &argv, 16);
    pgas_gptr_t ptr = PGAS_NULL;
    spmd_ok(pgas_alloc(8 + (size_t)n_ranks * N_THREADS * SHARD, &ptr) == PGAS_OK, "memory");
    job_gather(ptr, areas);
    transfers();
    another_thread_waits();
    calls_keep_order();
    replies();
    detach_completes();
    detach_tells();
    refusals();
    slots_are_used_again();
    job_stop();
    job_start(NULL);
    pgas_barrier(NULL); /* no rank calls before */
    the_end_waits_for_who_detaches();
    return spmd_end();
}
