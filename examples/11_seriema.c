/* 11_seriema: a program of Seriema (C++) in C, for readers who know Seriema. Comments give the
 * names of Seriema. Typed handlers replace lambdas; call arguments replace what lambdas capture.
 * Two threads of every rank each call the same thread of the next rank.
 *
 *   mpirun -n 2 build/examples/11_seriema */
#include <pgas/pgas.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include "usage.h"

#define N_CALLS     10000
#define N_OF_THREAD (5 + 2 * N_CALLS) /* ones that a thread sends */

static int64_t sum; /* of the ones that this rank has received */
static int n_bad, n_working = 2, over;

/* A thread's peer, and the thread's part of the heap: a word to send, and a word to push to. */
typedef struct {
    int rank;
    pgas_target_t thread;
    pgas_gptr_t memory;
} peer_t;

static void check(pgas_status_t status)
{
    __atomic_add_fetch(&n_bad, status != PGAS_OK, __ATOMIC_RELAXED);
}

/* [x] { sum += x; } */
PGAS_HANDLER(add, int64_t)
{
    __atomic_add_fetch(&sum, *arg, __ATOMIC_RELAXED);
}

/* [x] { return 2 * x; } */
PGAS_HANDLER_RETURN(twice, int64_t, int64_t)
{
    return 2 * *arg;
}

/* [x](buffer, size) {...} */
PGAS_HANDLER(add_buffer, int64_t)
{
    void *address = NULL;
    size_t bytes;
    check(pgas_buffer_get(0, &address, &bytes));
    __atomic_add_fetch(&sum, *arg * *(int64_t *)address, __ATOMIC_RELAXED);
}

static void call_alone(const peer_t *peer)
{
    int64_t one = 1, result = 0;
    /* call(peer, f) */
    check(pgas_call_add_to(peer->thread, &one, PGAS_CALL_OPTS(.way = PGAS_WAY_SEND)));
    /* call_return(peer, f, ...) */
    check(pgas_call_return_twice(peer->rank, &one, &result));
    check(result == 2 ? PGAS_OK : PGAS_ERR_MISMATCH);
}

static void call_with_synchronizer(const peer_t *peer)
{
    /* Synchronizer synchronizer{4} */
    pgas_sync_t synchronizer = PGAS_SYNC_INIT;
    pgas_call_opts_t with = PGAS_CALL_OPTS_INIT;
    with.sync = &synchronizer;

    /* RDMAMemory *source */
    int64_t one = 1, *source = pgas_gptr_local(peer->memory, sizeof one);
    *source = 1;
    pgas_buffer_t push = { .mode = PGAS_BUFFER_PUSH,
                           .address = source,
                           .bytes = sizeof *source,
                           .target = pgas_gptr_at(peer->memory, peer->rank) + sizeof one };
    pgas_buffer_t pull = {
        .mode = PGAS_BUFFER_PULL, .address = source, .bytes = sizeof *source, .helper = true
    };

    /* call(peer, f, &synchronizer) */
    check(pgas_call_add_to(peer->thread, &one, &with));
    /* call_service(peer, f, ...) */
    check(pgas_call_add_to(pgas_on_service(peer->rank), &one, &with));
    /* call_buffer(.., &remote_locator, ..) */
    with.n_buffers = 1;
    with.buffers = &push;
    check(pgas_call_add_buffer_to(peer->thread, &one, &with));
    /* call_buffer(peer, f, source, ...) */
    with.buffers = &pull;
    check(pgas_call_add_buffer_to(peer->thread, &one, &with));
    /* spin_nonzero_operations_left() */
    check(pgas_sync_wait(&synchronizer, -1));
}

static void call_by_messenger(const peer_t *peer)
{
    int64_t one = 1;
    /* messenger.get_messenger(peer) */
    check(pgas_channel_open(peer->thread));
    for (int i = 0; i < N_CALLS; i++) {
        /* messenger.call(peer, f, Retry), messenger.process_calls_all() */
        while (pgas_call_add_to(peer->thread, &one, PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN)) ==
               PGAS_ERR_AGAIN)
            pgas_progress();
    }
}

static void call_by_aggregator(const peer_t *peer)
{
    int64_t one = 1;
    pgas_sync_t flushed = PGAS_SYNC_INIT;
    pgas_agg_t *aggregator;

    /* RDMAAggregatorGlobal aggregator{...} */
    check(pgas_agg_create(NULL, &aggregator));
    for (int i = 0; i < N_CALLS; i++) {
        /* aggregator.call(peer, f) */
        check(pgas_agg_add(aggregator, peer->rank, &one));
    }
    /* aggregator.shutdown_all(&flushed) */
    check(pgas_agg_flush(aggregator, PGAS_ALL, &flushed));
    /* while (operations_left() > 0) ... */
    check(pgas_sync_wait(&flushed, -1));
    check(pgas_agg_destroy(aggregator));
}

static void work(pgas_gptr_t memory)
{
    int right = (pgas_rank() + 1) % pgas_n_ranks();
    int slot = pgas_thread_slot(pgas_thread_self());
    peer_t peer = { right, pgas_on_thread(pgas_thread_make(right, slot)), memory };
    call_alone(&peer);
    call_with_synchronizer(&peer);
    call_by_messenger(&peer);
    call_by_aggregator(&peer);
    /* messenger.shutdown_all(...) */
    check(pgas_channel_close(peer.thread));
    __atomic_sub_fetch(&n_working, 1, __ATOMIC_RELEASE);
}

static void *worker(void *memory)
{
    /* init_thread(1) */
    check(pgas_thread_attach());
    work(*(pgas_gptr_t *)memory);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        /* process_work_queue(my_queue) */
        pgas_progress();
    }
    /* finalize_thread() */
    check(pgas_thread_detach());
    return NULL;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "11_seriema\n", 0);
    pgas_gptr_t memory[2]; /* of each thread */
    pthread_t thread;
    if (pgas_init(NULL, NULL) != PGAS_OK || pgas_alloc(16, &memory[0]) != PGAS_OK ||
        pgas_alloc(16, &memory[1]) != PGAS_OK)
        return 1;
    /* init_thread_handler(...) */
    if (pthread_create(&thread, NULL, worker, &memory[1]) != 0)
        return 1;
    work(memory[0]);
    while (__atomic_load_n(&n_working, __ATOMIC_ACQUIRE) > 0)
        pgas_progress();
    pgas_barrier(NULL); /* all threads of all ranks have sent their ones, and are still attached */

    int64_t one = 1, all = 0, want = (int64_t)pgas_n_ranks() * (2 * N_OF_THREAD + 2);
    if (pgas_rank() == 0) {
        /* call_everyone(f) */
        check(pgas_call_add_to(pgas_on_team_threads(NULL), &one, NULL));
    }
    pgas_quiesce();
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    check(pgas_allreduce(NULL, &sum, &all, 1, PGAS_I64, PGAS_ADD));
    int good = all == want && !n_bad;
    if (pgas_rank() == 0)
        printf("%" PRId64 " of %" PRId64 " ones arrived: %s\n", all, want,
               good ? "right" : "WRONG");
    /* finalize_thread_handler() */
    pgas_finalize();
    return good ? 0 : 1;
}
