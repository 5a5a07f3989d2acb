/* 09_targets: calls to a thread and to the service of a rank, handlers that wait, and threads that
 * a peer starts.
 *
 * Each rank has two threads with a sum of their own. A call to a thread runs on that thread, so the
 * sum needs no lock. The service of a rank runs calls even while all threads of the rank compute. A
 * blocking handler may wait: here it asks the next rank before it replies. A spawned call starts a
 * thread at another rank.
 *
 *   mpirun -n 4 build/examples/09_targets */
#include <pgas/pgas.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "usage.h"

#define N_ADDS 100

static pgas_handler_t add, ask_slot, sum_up, count;
static int64_t sum_of[2]; /* of each thread; only the thread itself uses it */
static int64_t n_added, n_counted;
static int worker_slot, n_bad;

static void handle_add(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes, (void)source, (void)context;
    sum_of[pgas_thread_slot(pgas_thread_self()) == worker_slot] += *(const int64_t *)args;
    __atomic_add_fetch(&n_added, 1, __ATOMIC_RELEASE);
}

static void handle_ask_slot(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)bytes, (void)source, (void)context;
    int32_t slot = worker_slot;
    pgas_reply(&slot, sizeof slot);
}

/* It may wait, because it is registered as blocking: it asks the next rank, which asks the next, up
 * to the last. */
static void handle_sum_up(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)bytes, (void)source, (void)context;
    int64_t sum = pgas_rank(), rest = 0;
    if (pgas_rank() + 1 < pgas_n_ranks() &&
        pgas_call_return(pgas_rank() + 1, sum_up, NULL, 0, &rest, sizeof rest) != PGAS_OK)
        rest = -1000000;
    sum += rest;
    pgas_reply(&sum, sizeof sum);
}

static void handle_count(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)bytes, (void)source, (void)context;
    __atomic_add_fetch(&n_counted, 1, __ATOMIC_RELEASE);
}

/* The second thread. Attaching gives it a slot; pgas_progress runs the calls to it. */
static void *work(void *arg)
{
    if (pgas_thread_attach() != PGAS_OK)
        return arg;
    __atomic_store_n(&worker_slot, pgas_thread_slot(pgas_thread_self()), __ATOMIC_RELEASE);
    while (__atomic_load_n(&n_added, __ATOMIC_ACQUIRE) < (int64_t)2 * N_ADDS)
        pgas_progress();
    pgas_thread_detach();
    return NULL;
}

/* Adds numbers at both threads of a rank: each thread runs the calls to it, in the order issued. */
static void add_at_both(int rank)
{
    int32_t slot = 0; /* of the second thread */
    n_bad += pgas_call_return(rank, ask_slot, NULL, 0, &slot, sizeof slot) != PGAS_OK;

    pgas_thread_t first = pgas_thread_make(rank, 0), second = pgas_thread_make(rank, slot);
    for (int64_t i = 0; i < N_ADDS && !n_bad; i++) {
        n_bad += pgas_call_to(pgas_on_thread(first), add, &i, sizeof i, NULL) != PGAS_OK;
        n_bad += pgas_call_to(pgas_on_thread(second), add, &i, sizeof i, NULL) != PGAS_OK;
    }
}

/* Starts a thread at a rank, and calls the rank's service. */
static void count_twice(int rank)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = &done;
    n_bad += pgas_call_to(pgas_on_service(rank), count, NULL, 0, &opts) != PGAS_OK;
    opts.spawn = true;
    n_bad += pgas_call_to(pgas_on_rank(rank), count, NULL, 0, &opts) != PGAS_OK;
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
}

static void register_handlers(void)
{
    pgas_handler_opts_t blocks = PGAS_HANDLER_OPTS_INIT;
    blocks.blocks = true;
    pgas_handler_register("example.add", handle_add, NULL, NULL, &add);
    pgas_handler_register("example.ask slot", handle_ask_slot, NULL, NULL, &ask_slot);
    pgas_handler_register("example.sum up", handle_sum_up, NULL, &blocks, &sum_up);
    pgas_handler_register("example.count", handle_count, NULL, NULL, &count);
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "09_targets\n", 0);
    register_handlers();
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int n_ranks = pgas_n_ranks(), next = (pgas_rank() + 1) % n_ranks;
    pthread_t worker;
    pthread_create(&worker, NULL, work, NULL);
    while (__atomic_load_n(&worker_slot, __ATOMIC_ACQUIRE) == 0)
        pgas_progress();
    pgas_barrier(NULL);

    add_at_both(next);
    count_twice(next);
    int64_t sum = 0, half = (int64_t)N_ADDS * (N_ADDS - 1) / 2;
    n_bad += pgas_call_return(0, sum_up, NULL, 0, &sum, sizeof sum) != PGAS_OK;
    pgas_quiesce();
    pthread_join(worker, NULL);

    int good = !n_bad && sum_of[0] == half && sum_of[1] == half && n_counted == 2 &&
               sum == (int64_t)n_ranks * (n_ranks - 1) / 2;
    if (pgas_rank() == 0 || !good)
        printf("two threads have %lld each, ranks sum up to %lld: %s\n", (long long)half,
               (long long)sum, good ? "right" : "WRONG");
    pgas_finalize();
    return good ? 0 : 1;
}
