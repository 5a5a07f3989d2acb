/* 11_seriema: what a program of Seriema (C++) does, line by line in C; its names stand on the
 * right. Lambdas become handlers, with a name for all ranks, and what they capture arguments. Two
 * threads of every rank each call the same thread of the next rank.
 *
 *   mpirun -n 2 build/examples/11_seriema */
#include <pgas/pgas.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include "usage.h"
#define N_CALLS 10000

static pgas_handler_t add, twice, add_buffer;
static int64_t sum; /* of what arrived at this rank */
static int n_bad, n_working = 2, over;

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
    (void)bytes, (void)source, (void)context;
    pgas_reply(&(int64_t){ 2 * *(const int64_t *)args }, sizeof(int64_t));
}

/* [](buffer, size) {...} */
static void do_add_buffer(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    void *address = NULL;
    (void)args;
    check(pgas_buffer_get(0, &address, &bytes));
    do_add(address, bytes, source, context);
}

static void work(pgas_gptr_t memory)
{
    int right = (pgas_rank() + 1) % pgas_n_ranks();
    pgas_thread_t peer = pgas_thread_make(right, pgas_thread_slot(pgas_thread_self()));
    pgas_thread_t service = pgas_thread_make(right, PGAS_SLOT_SERVICE);
    pgas_call_opts_t send = PGAS_CALL_OPTS_INIT, with = PGAS_CALL_OPTS_INIT,
                     no_wait = PGAS_CALL_OPTS_INIT;
    pgas_sync_t synchronizer, flushed;
    pgas_agg_t *aggregator;
    /* RDMAMemory *source */
    int64_t one = 1, result = 0, *source = pgas_gptr_local(memory, sizeof one);
    *source = 1;
    /* Synchronizer synchronizer{4} */
    check(pgas_sync_init(&synchronizer, 4));
    send.way = PGAS_WAY_SEND, with.sync = &synchronizer, no_wait.full = PGAS_FULL_AGAIN;
    check(pgas_call_to(peer, add, &one, sizeof one, &send)); /* call(peer, f) */
    /* call(peer, f, &synchronizer) */
    check(pgas_call_to(peer, add, &one, sizeof one, &with));
    /* call_service(peer, f, ...) */
    check(pgas_call_to(service, add, &one, sizeof one, &with));
    /* call_return(peer, f, ...) */
    check(pgas_call_return(right, twice, &one, sizeof one, &result, sizeof result, NULL));
    check(result == 2 ? PGAS_OK : PGAS_ERR_MISMATCH);
    pgas_buffer_t push = { PGAS_BUFFER_PUSH, source, sizeof *source,
                           pgas_gptr_at(memory, right) + 8, false };
    pgas_buffer_t pull = { PGAS_BUFFER_PULL, source, sizeof *source, PGAS_NULL, true };
    /* call_buffer(.., &remote_locator, ..) */
    check(pgas_call_buffer(peer, add_buffer, NULL, 0, &push, 1, &with, NULL));
    /* call_buffer(peer, f, source, ...) */
    check(pgas_call_buffer(peer, add_buffer, NULL, 0, &pull, 1, &with, NULL));
    /* spin_nonzero_operations_left() */
    check(pgas_sync_wait(&synchronizer, -1));
    pgas_sync_fini(&synchronizer);
    /* messenger.get_messenger(peer) */
    check(pgas_channel_open(peer));
    for (int i = 0; i < N_CALLS; i++) {
        /* messenger.call(peer, f) */
        while (pgas_call_to(peer, add, &one, sizeof one, &no_wait) == PGAS_ERR_AGAIN) {
            /* messenger.process_calls_all() */
            pgas_progress();
        }
    }
    /* RDMAAggregatorGlobal aggregator{...} */
    check(pgas_agg_create(NULL, &aggregator));
    for (int i = 0; i < N_CALLS; i++) {
        /* aggregator.call(peer, f) */
        check(pgas_agg_call(aggregator, right, add, &one, sizeof one));
    }
    /* Synchronizer flushed{1} */
    check(pgas_sync_init(&flushed, 1));
    /* aggregator.shutdown_all(&flushed) */
    check(pgas_agg_flush_sync(aggregator, PGAS_AGG_ALL, &flushed));
    /* while (operations_left() > 0) ... */
    check(pgas_sync_wait(&flushed, -1));
    pgas_sync_fini(&flushed);
    check(pgas_agg_destroy(aggregator));
    /* messenger.shutdown_all(...) */
    check(pgas_channel_close(peer));
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
    pgas_handler_register("example.add", do_add, NULL, &add);
    pgas_handler_register("example.twice", do_twice, NULL, &twice);
    pgas_handler_register("example.add buffer", do_add_buffer, NULL, &add_buffer);
    pgas_gptr_t memory[2]; /* of each thread: a word to send, and one to push to */
    pthread_t thread;
    if (pgas_init(NULL, NULL) != PGAS_OK || pgas_alloc(16, &memory[0]) != PGAS_OK ||
        pgas_alloc(16, &memory[1]) != PGAS_OK ||
        /* init_thread_handler(...) */
        pthread_create(&thread, NULL, worker, &memory[1]) != 0)
        return 1;
    work(memory[0]);
    for (; __atomic_load_n(&n_working, __ATOMIC_ACQUIRE) > 0; pgas_progress()) {
    }
    pgas_barrier(NULL); /* all threads of all ranks have worked, and are still there */
    int64_t one = 1, all = 0, want = (int64_t)pgas_n_ranks() * (2 * (5 + 2 * N_CALLS) + 2);
    if (pgas_rank() == 0)
        /* call_everyone(f) */
        check(pgas_call_broadcast(add, &one, sizeof one, PGAS_SCOPE_THREADS, NULL));
    pgas_quiesce();
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    check(pgas_allreduce(NULL, &sum, &all, 1, PGAS_INT64, PGAS_SUM));
    if (pgas_rank() == 0)
        printf("%" PRId64 " of %" PRId64 " ones arrived: %s\n", all, want,
               all == want && !n_bad ? "right" : "WRONG");
    /* finalize_thread_handler() */
    pgas_finalize();
    return all == want && !n_bad ? 0 : 1;
}
