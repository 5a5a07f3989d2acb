/* 09_targets: calls to a thread and to the service of a rank, handlers that wait, and threads that
 * a peer starts.
 *
 * Each rank has two threads with a sum of their own. A call to a thread runs on that thread, so the
 * sum needs no lock. The service of a rank runs calls even while all threads of the rank compute. A
 * blocking handler may wait: here it asks the next rank before it returns its result.
 *
 *   mpirun -n 4 build/examples/09_targets */
#include <pgas/pgas.h>
#include <pthread.h>
#include <stdio.h>
#include "usage.h"

#define N_ADDS 100

static int64_t sum_of[2]; /* of each thread; only the thread itself uses it */
static int64_t n_added, n_counted;
static int worker_slot, n_bad;

PGAS_HANDLER(add, int64_t)
{
    sum_of[pgas_thread_slot(pgas_thread_self()) == worker_slot] += *arg;
    __atomic_add_fetch(&n_added, 1, __ATOMIC_RELEASE);
}

/* The slots of this rank's threads by number. */
PGAS_HANDLER_RETURN(slot_of, int32_t, int32_t)
{
    return *arg == 0 ? 0 : worker_slot;
}

/* The sum of the ranks from this one to the last. It may wait, because it is defined as blocking:
 * it asks the next rank, which asks the next. */
PGAS_HANDLER_BLOCKING_RETURN(sum_up, int32_t, int64_t)
{
    int64_t rest = 0;
    if (pgas_rank() < *arg && pgas_call_return_sum_up(pgas_rank() + 1, arg, &rest) != PGAS_OK)
        rest = -1000000;
    return pgas_rank() + rest;
}

PGAS_HANDLER(count, int32_t)
{
    __atomic_add_fetch(&n_counted, *arg, __ATOMIC_RELEASE);
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
    int32_t number = 1, slot = 0; /* of the second thread */
    n_bad += pgas_call_return_slot_of(rank, &number, &slot) != PGAS_OK;

    pgas_target_t first = pgas_on_thread(pgas_thread_make(rank, 0));
    pgas_target_t second = pgas_on_thread(pgas_thread_make(rank, slot));
    for (int64_t i = 0; i < N_ADDS && !n_bad; i++) {
        n_bad += pgas_call_add_to(first, &i, NULL) != PGAS_OK;
        n_bad += pgas_call_add_to(second, &i, NULL) != PGAS_OK;
    }
}

/* Counts on a thread that starts for it, and on the rank's service. */
static void count_twice(int rank)
{
    int32_t one = 1;
    pgas_sync_t done = PGAS_SYNC_INIT;
    n_bad += pgas_call_count_to(pgas_on_rank(rank), &one,
                                PGAS_CALL_OPTS(.sync = &done, .spawn = true)) != PGAS_OK;
    n_bad +=
        pgas_call_count_to(pgas_on_service(rank), &one, PGAS_CALL_OPTS(.sync = &done)) != PGAS_OK;
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "09_targets\n", 0);
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
    int32_t last = n_ranks - 1;
    int64_t sum = 0, half = (int64_t)N_ADDS * (N_ADDS - 1) / 2;
    n_bad += pgas_call_return_sum_up(0, &last, &sum) != PGAS_OK;
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
