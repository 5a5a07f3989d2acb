/* A thread that detaches.
 *   what:   Calls that have arrived for a thread when it detaches run, however few are in a chunk.
 *           Later calls are refused.
 *   np:     2 3
 *   nodes:  0 1
 *   tls:    posix
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=3000 PGAS_CHUNKS=8 PGAS_LANES=4
 *   source: include/pgas/runtime.h, src/msg/recv_queue.c */
#include <pthread.h>
#include <sched.h>
#include "t/spmd/job.h"

#define BYTES   2500 /* one of them in a chunk */
#define N_CALLS 6

static pgas_handler_t count;
static uint64_t n_counted;
static uint64_t *sent; /* in the heap: by the ranks before */
static pgas_gptr_t words[JOB_RANKS_MAX];
static pgas_thread_t theirs[JOB_RANKS_MAX];
static int leaving; /* step of the thread that leaves */

static void on_count(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)source;
    (void)context;
    __atomic_fetch_add(&n_counted, bytes == BYTES, __ATOMIC_RELAXED);
}

static void step_is(int step)
{
    while (__atomic_load_n(&leaving, __ATOMIC_ACQUIRE) != step)
        sched_yield();
}

static void step_to(int step)
{
    __atomic_store_n(&leaving, step, __ATOMIC_RELEASE);
}

/* Attaches, stays away from the library until the calls have come, and leaves. */
static void *leaver(void *arg)
{
    pgas_thread_t *self = arg;
    if (pgas_thread_attach() != PGAS_OK)
        *self = 0;
    *self = pgas_thread_self();
    step_to(1);
    step_is(2);
    pgas_thread_detach();
    return NULL;
}

static pgas_status_t call(int rank, pgas_sync_t *sync)
{
    static char args[BYTES];
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = sync;
    return pgas_call_to(pgas_on_thread(theirs[rank]), count, args, sizeof args, &opts);
}

static void what_came_runs(void)
{
    pthread_t thread;
    pgas_thread_t mine = 0;
    int next = (pgas_rank() + 1) % pgas_n_ranks(), n_bad = 0;
    pthread_create(&thread, NULL, leaver, &mine);
    step_is(1);
    pgas_allgather(NULL, &mine, theirs, sizeof mine);
    for (int i = 0; i < N_CALLS; i++)
        n_bad += call(next, NULL) != PGAS_OK;
    n_bad += pgas_put_u64(words[next], 1) != PGAS_OK || pgas_flush_all() != PGAS_OK;
    while (__atomic_load_n(sent, __ATOMIC_ACQUIRE) == 0)
        pgas_progress();
    pgas_barrier(NULL);
    uint64_t before = __atomic_load_n(&n_counted, __ATOMIC_RELAXED);
    step_to(2);
    pthread_join(thread, NULL);
    spmd_ok(n_bad == 0 && before == 0 && n_counted == N_CALLS,
            "all calls that have arrived run when their thread leaves");
    pgas_barrier(NULL);
    pgas_sync_t sync = PGAS_SYNC_INIT;
    n_bad = call(next, &sync) != PGAS_OK;
    spmd_ok(n_bad == 0 && pgas_sync_wait(&sync, -1) < 0 && n_counted == N_CALLS,
            "later ones are refused");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.count", on_count, NULL, NULL, &count);
    job_begin(&argc, &argv, 2);
    pgas_gptr_t own = PGAS_NULL;
    pgas_alloc(64, &own);
    sent = pgas_gptr_local(own, 8);
    *sent = 0;
    job_gather(own, words);
    what_came_runs();
    pgas_free(own);
    return job_end();
}
