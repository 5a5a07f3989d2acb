/* 06_synchronizers: counters that say when calls are complete.
 *
 * Every rank sends numbers to all ranks by calls. A call completes in three steps: locally (the
 * caller may use its memory again), remotely (the call has arrived) and executed (its handler has
 * run). Each call raises a synchronizer until the step that the call names. The
 * program waits for it, or registers a function that runs when it reaches zero.
 *
 *   mpirun -n 4 build/examples/06_synchronizers */
#include <pgas/pgas.h>
#include <stdio.h>
#include "usage.h"

#define N_CALLS 100

static pgas_handler_t add;
static int64_t sum; /* of the numbers that this rank has received */

static void handle_add(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes, (void)source, (void)context;
    sum += *(const int64_t *)args;
}

/* As pgas_call, to any thread of the rank, but `when` chooses the completion that is counted. */
static pgas_status_t send_number(int rank, int64_t number, pgas_when_t when, pgas_sync_t *sync)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = sync;
    opts.when = when;
    return pgas_call_to(pgas_on_rank(rank), add, &number, sizeof number, &opts);
}

/* Counts a failed wait, and prints which call has failed. */
static int failed(const pgas_sync_t *sync, pgas_status_t status)
{
    pgas_sync_info_t info = { .size = sizeof info };
    if (status != PGAS_OK && pgas_sync_info(sync, &info) == PGAS_OK && info.status != PGAS_OK) {
        const char *name = pgas_handler_name(info.handler);
        fprintf(stderr, "handler %s at rank %d: %s\n", name ? name : "?", info.rank,
                pgas_status_text(info.status));
    }
    return status != PGAS_OK;
}

/* One synchronizer for many calls. It is used twice: for local and remote completions, then for
 * executed ones. */
static int wait_for_calls(void)
{
    int n_ranks = pgas_n_ranks(), n_bad = 0;
    pgas_gptr_t place;
    pgas_status_t status;

    /* Handlers of the same node lower a counter in the symmetric heap directly: no message
     * comes back. A counter may also be in any other memory, on the stack too. */
    if (pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, sizeof(pgas_sync_t), &place) != PGAS_OK)
        return 1;
    pgas_sync_t *done = (pgas_sync_t *)pgas_gptr_local(place, sizeof *done);
    *done = (pgas_sync_t)PGAS_SYNC_INIT;

    for (int i = 0; i < N_CALLS && !n_bad; i++) {
        n_bad += send_number(i % n_ranks, 1, PGAS_LOCAL, done) != PGAS_OK;
        n_bad += send_number(i % n_ranks, 1, PGAS_REMOTE, done) != PGAS_OK;
    }
    n_bad += failed(done, pgas_sync_wait(done, -1));

    for (int i = 0; i < N_CALLS && !n_bad; i++)
        n_bad += send_number(i % n_ranks, 1, PGAS_EXECUTED, done) != PGAS_OK;
    /* A wait may have a time limit, so that the program can do something else meanwhile. */
    while ((status = pgas_sync_wait(done, 1000)) == PGAS_ERR_TIMEOUT) {
    }
    n_bad += failed(done, status);

    pgas_free_on(place);
    return n_bad;
}

/* Runs in the thread that lowers the counter to zero. It may do what a handler may do. */
static void stage_over(pgas_sync_t *sync, void *n_stages)
{
    (void)sync;
    __atomic_add_fetch((int *)n_stages, 1, __ATOMIC_RELEASE);
}

/* A function in place of a wait. The work of this rank counts too: the stage is over when the calls
 * have run and this rank has done its own share. */
static int run_stage(void)
{
    int n_ranks = pgas_n_ranks(), n_bad = 0, n_stages = 0;
    pgas_sync_t stage = PGAS_SYNC_INIT_FN(stage_over, &n_stages);
    pgas_sync_add(&stage, 1); /* the share of this rank */
    for (int r = 0; r < n_ranks && !n_bad; r++)
        n_bad += send_number(r, 1, PGAS_EXECUTED, &stage) != PGAS_OK;
    n_bad += pgas_sync_done(&stage, 1) != PGAS_OK;
    while (__atomic_load_n(&n_stages, __ATOMIC_ACQUIRE) == 0 && !n_bad)
        pgas_progress();

    pgas_quiesce();
    return n_bad + (n_stages != 1);
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "06_synchronizers\n", 0);
    pgas_handler_register("example.add", handle_add, NULL, NULL, &add);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;

    int n_bad = wait_for_calls() + run_stage();

    int64_t n_ranks = pgas_n_ranks(), all = 0, sent = n_ranks * (3 * N_CALLS + n_ranks);
    n_bad += pgas_allreduce(NULL, &sum, &all, 1, PGAS_I64, PGAS_ADD) != PGAS_OK;
    int good = !n_bad && all == sent;
    if (pgas_rank() == 0 || !good)
        printf("%lld of %lld calls have run: %s\n", (long long)all, (long long)sent,
               good ? "right" : "WRONG");
    pgas_finalize();
    return good ? 0 : 1;
}
