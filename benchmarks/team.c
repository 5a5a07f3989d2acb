/* Several threads of a rank in one loop: see bench_team.
 *
 * Helper threads sleep between loops, so that they take no time from loops of one thread. In a loop
 * all start together behind a gate that yields, because there may be fewer cores than threads. Then
 * each runs at its own pace. */
#include "benchmarks/bench.h"

#include <pthread.h>

typedef struct {
    pthread_t thread;
    bool attached;
} helper_t;

static helper_t helper[BENCH_TEAM_MAX]; /* [0] is the thread of main */
static int n_helpers = 1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* The loop that helpers run; written with the mutex held. */
static struct {
    uint64_t number; /* number of the loop; helpers wait for the next */
    const bench_run_t *run;
    bench_loop_fn_t loop;
    int n;
    bool end;
} task;
static int n_at_gate, gate_open, n_done; /* of the present loop */

static void await(const int *count, int n)
{
    while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < n)
        sched_yield();
}

static void run_share(const bench_run_t *all, bench_loop_fn_t loop, int t, int n)
{
    bench_run_t run = *all;
    run.thread = t;
    run.n_threads = n;
    run.iters =
        all->iters * (uint64_t)(t + 1) / (uint64_t)n - all->iters * (uint64_t)t / (uint64_t)n;
    (void)loop(&run);
    __atomic_fetch_add(&n_done, 1, __ATOMIC_ACQ_REL);
}

static void *help(void *arg)
{
    int t = (int)((helper_t *)arg - helper);
    uint64_t number = 0;
    bench_take_spare();
    bench_check(pgas_thread_attach(), "pgas_thread_attach");
    if (pgas_thread_slot(pgas_thread_self()) != t)
        bench_die("thread %d has another slot", t);
    pthread_mutex_lock(&mutex);
    helper[t].attached = true;
    pthread_cond_broadcast(&changed);
    for (;;) {
        while (task.number == number && !task.end)
            pthread_cond_wait(&changed, &mutex);
        if (task.end)
            break;
        number = task.number;
        if (t >= task.n)
            continue;
        pthread_mutex_unlock(&mutex);
        __atomic_fetch_add(&n_at_gate, 1, __ATOMIC_ACQ_REL);
        await(&gate_open, 1);
        run_share(task.run, task.loop, t, task.n);
        pthread_mutex_lock(&mutex);
    }
    pthread_mutex_unlock(&mutex);
    bench_check(pgas_thread_detach(), "pgas_thread_detach");
    return NULL;
}

/* Threads start one after the other, so that each has the slot of its number. */
static void start_helpers(int n)
{
    pthread_mutex_lock(&mutex);
    for (; n_helpers < n; n_helpers++) {
        if (pthread_create(&helper[n_helpers].thread, NULL, help, &helper[n_helpers]) != 0)
            bench_die("cannot start a thread");
        while (!helper[n_helpers].attached)
            pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

double bench_team(const bench_run_t *run, int n, bench_loop_fn_t loop)
{
    uint64_t begin;
    start_helpers(n);
    n_at_gate = gate_open = n_done = 0;
    pthread_mutex_lock(&mutex);
    task.number++;
    task.run = run;
    task.loop = loop;
    task.n = n;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    await(&n_at_gate, n - 1);
    bench_check(pgas_barrier(NULL), "pgas_barrier"); /* all threads of all ranks are ready */
    begin = bench_now();
    __atomic_store_n(&gate_open, 1, __ATOMIC_RELEASE);
    run_share(run, loop, 0, n);
    await(&n_done, n);
    return run->active ? bench_since(begin) : 0;
}

void bench_team_end(void)
{
    pthread_mutex_lock(&mutex);
    task.end = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    for (int t = 1; t < n_helpers; t++)
        pthread_join(helper[t].thread, NULL);
    n_helpers = 1;
}
