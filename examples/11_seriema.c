/* 11_seriema: a program of Seriema (C++) in C, for readers who know Seriema. Comments give the
 * names of Seriema. Handlers, which all ranks register by name, replace lambdas; call arguments
 * replace what lambdas capture. Two threads of every rank each call the same thread of the next
 * rank.
 *
 *   mpirun -n 2 build/examples/11_seriema */
#include <pgas/pgas.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include "usage.h"

#define N_CALLS     10000
#define N_OF_THREAD (5 + 2 * N_CALLS) /* ones that a thread sends */

static pgas_handler_t add, twice, add_buffer;
static int64_t sum; /* of the ones that this rank has received */
static int n_bad, n_working = 2, over;

/* A thread's peer, and the thread's part of the heap: a word to send, and a word to push to. */
typedef struct {
    int rank;
    pgas_thread_t thread;
    pgas_gptr_t memory;
} peer_t;

static void check(pgas_status_t status)
{
    __atomic_add_fetch(&n_bad, status != PGAS_OK, __ATOMIC_RELAXED);
}

/* [x] { sum += x; } */
static void do_add(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes, (void)source, (void)context;
    __atomic_add_fetch(&sum, *(const int64_t *)args, __ATOMIC_RELAXED);
}

/* [x] { return 2 * x; } */
static void do_twice(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int64_t result = 2 * *(const int64_t *)args;
    (void)bytes, (void)source, (void)context;
    pgas_reply(&result, sizeof result);
}

/* [](buffer, size) {...} */
static void do_add_buffer(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    void *address = NULL;
    (void)args;
    check(pgas_buffer_get(0, &address, &bytes));
    do_add(address, bytes, source, context);
}

static void call_alone(const peer_t *peer)
{
    int64_t one = 1, result = 0;
    pgas_call_opts_t send = PGAS_CALL_OPTS_INIT;
    send.way = PGAS_WAY_SEND;

    /* call(peer, f) */
    check(pgas_call_to(pgas_on_thread(peer->thread), add, &one, sizeof one, &send));
    /* call_return(peer, f, ...) */
    check(pgas_call_return(peer->rank, twice, &one, sizeof one, &result, sizeof result));
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
    pgas_gptr_t place = pgas_gptr_at(peer->memory, peer->rank) + sizeof one;
    pgas_buffer_t push = { PGAS_BUFFER_PUSH, source, sizeof *source, place, false, NULL };
    pgas_buffer_t pull = { PGAS_BUFFER_PULL, source, sizeof *source, PGAS_NULL, true, NULL };

    /* call(peer, f, &synchronizer) */
    check(pgas_call_to(pgas_on_thread(peer->thread), add, &one, sizeof one, &with));
    /* call_service(peer, f, ...) */
    check(pgas_call_to(pgas_on_service(peer->rank), add, &one, sizeof one, &with));
    /* call_buffer(.., &remote_locator, ..) */
    with.n_buffers = 1;
    with.buffers = &push;
    check(pgas_call_to(pgas_on_thread(peer->thread), add_buffer, NULL, 0, &with));
    /* call_buffer(peer, f, source, ...) */
    with.buffers = &pull;
    check(pgas_call_to(pgas_on_thread(peer->thread), add_buffer, NULL, 0, &with));
    /* spin_nonzero_operations_left() */
    check(pgas_sync_wait(&synchronizer, -1));
}

static void call_by_messenger(const peer_t *peer)
{
    int64_t one = 1;
    pgas_call_opts_t no_wait = PGAS_CALL_OPTS_INIT;
    no_wait.full = PGAS_FULL_AGAIN;

    /* messenger.get_messenger(peer) */
    check(pgas_channel_open(pgas_on_thread(peer->thread)));
    for (int i = 0; i < N_CALLS; i++) {
        /* messenger.call(peer, f), messenger.process_calls_all() */
        while (pgas_call_to(pgas_on_thread(peer->thread), add, &one, sizeof one, &no_wait) ==
               PGAS_ERR_AGAIN)
            pgas_progress();
    }
}

static void call_by_aggregator(const peer_t *peer)
{
    int64_t one = 1;
    /* Synchronizer flushed{1} */
    pgas_sync_t flushed = PGAS_SYNC_INIT;
    pgas_agg_t *aggregator;

    /* RDMAAggregatorGlobal aggregator{...} */
    check(pgas_agg_create(NULL, &aggregator));
    for (int i = 0; i < N_CALLS; i++) {
        /* aggregator.call(peer, f) */
        check(pgas_agg_call(aggregator, peer->rank, add, &one, sizeof one));
    }
    /* aggregator.shutdown_all(&flushed) */
    check(pgas_agg_flush_sync(aggregator, PGAS_AGG_ALL, &flushed));
    /* while (operations_left() > 0) ... */
    check(pgas_sync_wait(&flushed, -1));
    check(pgas_agg_destroy(aggregator));
}

static void work(pgas_gptr_t memory)
{
    int right = (pgas_rank() + 1) % pgas_n_ranks();
    int slot = pgas_thread_slot(pgas_thread_self());
    peer_t peer = { right, pgas_thread_make(right, slot), memory };
    call_alone(&peer);
    call_with_synchronizer(&peer);
    call_by_messenger(&peer);
    call_by_aggregator(&peer);
    /* messenger.shutdown_all(...) */
    check(pgas_channel_close(pgas_on_thread(peer.thread)));
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
    pgas_handler_register("example.add", do_add, NULL, NULL, &add);
    pgas_handler_register("example.twice", do_twice, NULL, NULL, &twice);
    pgas_handler_register("example.add buffer", do_add_buffer, NULL, NULL, &add_buffer);
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
        check(pgas_call_to(pgas_on_team_threads(NULL), add, &one, sizeof one, NULL));
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
