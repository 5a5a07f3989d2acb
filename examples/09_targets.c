/* 09_targets: calls to threads and to services, handlers that wait, threads started elsewhere.
 *
 * Each rank is a workshop. It has two workers with drawers of their own: a call for a thread runs
 * on that thread, so a drawer needs no lock. Its porter is the service, which answers while all
 * work. Its clerk is a handler that waits: it asks the next rank before it answers. The rank also
 * takes in helpers that others send: spawned threads.
 *
 *   mpirun -n 4 build/examples/09_targets */
#include <pgas/pgas.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "usage.h"

#define N_PARTS 100

static pgas_handler_t put_away, where_is, sum_up, help;
static int64_t drawer[2]; /* [slot] only its own thread looks inside */
static int64_t n_put, n_helped;
static int worker_slot, n_bad;

static void handle_put_away(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes, (void)source, (void)context;
    drawer[pgas_thread_slot(pgas_thread_self()) == worker_slot] += *(const int64_t *)args;
    __atomic_add_fetch(&n_put, 1, __ATOMIC_RELEASE);
}

static void handle_where_is(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)bytes, (void)source, (void)context;
    int32_t slot = worker_slot;
    pgas_reply(&slot, sizeof slot);
}

/* May wait, because it is registered as blocking: it asks the next rank, which asks the next, up to
 * the last. */
static void handle_sum_up(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)bytes, (void)source, (void)context;
    int64_t sum = pgas_rank(), rest = 0;
    if (pgas_rank() + 1 < pgas_n_ranks() &&
        pgas_call_return(pgas_rank() + 1, sum_up, NULL, 0, &rest, sizeof rest, NULL) != PGAS_OK)
        rest = -1000000;
    sum += rest;
    pgas_reply(&sum, sizeof sum);
}

static void handle_help(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)bytes, (void)source, (void)context;
    __atomic_add_fetch(&n_helped, 1, __ATOMIC_RELEASE);
}

/* The second worker: attached, so that it has a slot; progress runs what is for it. */
static void *work(void *arg)
{
    if (pgas_thread_attach() != PGAS_OK)
        return arg;
    __atomic_store_n(&worker_slot, pgas_thread_slot(pgas_thread_self()), __ATOMIC_RELEASE);
    while (__atomic_load_n(&n_put, __ATOMIC_ACQUIRE) < (int64_t)2 * N_PARTS)
        pgas_progress();
    pgas_thread_detach();
    return NULL;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "09_targets\n", 0);
    pgas_handler_opts_t blocks = PGAS_HANDLER_OPTS_INIT;
    blocks.blocks = true;
    pgas_handler_register("example.put away", handle_put_away, NULL, &put_away);
    pgas_handler_register("example.where is", handle_where_is, NULL, &where_is);
    pgas_handler_register_opts("example.sum up", handle_sum_up, NULL, &blocks, &sum_up);
    pgas_handler_register("example.help", handle_help, NULL, &help);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int n_ranks = pgas_n_ranks(), next = (pgas_rank() + 1) % n_ranks;
    pthread_t worker;
    pthread_create(&worker, NULL, work, NULL);
    while (__atomic_load_n(&worker_slot, __ATOMIC_ACQUIRE) == 0)
        pgas_progress();
    pgas_barrier(NULL);

    /* Which slot has the worker of the next rank? */
    int32_t slot = 0;
    n_bad += pgas_call_return(next, where_is, NULL, 0, &slot, sizeof slot, NULL) != PGAS_OK;

    /* Parts for both threads there: each runs its own calls, in the order issued. */
    for (int64_t i = 0; i < N_PARTS && !n_bad; i++) {
        n_bad += pgas_call_to(pgas_thread_make(next, 0), put_away, &i, sizeof i, NULL) != PGAS_OK;
        n_bad +=
            pgas_call_to(pgas_thread_make(next, slot), put_away, &i, sizeof i, NULL) != PGAS_OK;
    }

    /* A helper there, and a word to the service, which runs it even if all threads of that rank
     * compute. */
    pgas_sync_t done;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    n_bad += pgas_sync_init(&done, 2) != PGAS_OK;
    opts.sync = &done;
    n_bad += pgas_spawn(next, help, NULL, 0, &opts) != PGAS_OK;
    n_bad +=
        pgas_call_to(pgas_thread_make(next, PGAS_SLOT_SERVICE), help, NULL, 0, &opts) != PGAS_OK;
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    pgas_sync_fini(&done);

    int64_t sum = 0, half = (int64_t)N_PARTS * (N_PARTS - 1) / 2;
    n_bad += pgas_call_return(0, sum_up, NULL, 0, &sum, sizeof sum, NULL) != PGAS_OK;
    pgas_quiesce();
    pthread_join(worker, NULL);
    int good = !n_bad && drawer[0] == half && drawer[1] == half && n_helped == 2 &&
               sum == (int64_t)n_ranks * (n_ranks - 1) / 2;
    if (pgas_rank() == 0 || !good) {
        printf("two drawers with %lld each, ranks sum up to %lld: %s\n", (long long)half,
               (long long)sum, good ? "right" : "WRONG");
    }
    pgas_finalize();
    return good ? 0 : 1;
}
