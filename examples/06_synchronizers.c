/* 06_synchronizers: counters that say when operations are complete.
 *
 * One counter serves calls, puts, gets and atomics, to any ranks. An operation that names it raises
 * it by one, and lowers it when it is complete. Completion is local (the caller may use its memory
 * again), remote (the data or the call have arrived) or executed (the handler has run). The program
 * waits for zero, or lets a function run then.
 *
 *   mpirun -n 4 build/examples/06_synchronizers */
#include <pgas/pgas.h>
#include <stdio.h>
#include "usage.h"

#define N_CALLS 100

static int64_t sum; /* of the numbers that this rank has received by calls */

PGAS_HANDLER(add, int64_t)
{
    sum += *arg;
}

/* Counts a failed wait, and prints which operation has failed first. */
static int failed(const pgas_sync_t *sync, pgas_status_t status)
{
    pgas_sync_info_t info = { .size = sizeof info };
    if (status != PGAS_OK && pgas_sync_info(sync, &info) == PGAS_OK) {
        const char *name = pgas_handler_name(info.handler);
        fprintf(stderr, "handler %s at rank %d: %s\n", name ? name : "none", info.rank,
                pgas_status_text(info.status));
    }
    return status != PGAS_OK;
}

/* Many calls, and a put, with one counter. It is used twice. */
static int wait_for_all(pgas_gptr_t word)
{
    int n_ranks = pgas_n_ranks(), right = (pgas_rank() + 1) % n_ranks, n_bad = 0;
    int64_t one = 1, written = 17;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_status_t status;

    for (int i = 0; i < N_CALLS && !n_bad; i++)
        n_bad += pgas_call_add(i % n_ranks, &one, &done) != PGAS_OK;
    n_bad += pgas_put_nb(pgas_gptr_at(word, right), &written, sizeof written, PGAS_REMOTE, &done) !=
             PGAS_OK;
    n_bad += failed(&done, pgas_sync_wait(&done, -1));

    /* The options say which completion lowers the counter. */
    for (int i = 0; i < N_CALLS && !n_bad; i++)
        n_bad += pgas_call_add_to(pgas_on_rank(i % n_ranks), &one,
                                  PGAS_CALL_OPTS(.sync = &done, .when = PGAS_REMOTE)) != PGAS_OK;
    /* A wait may have a time limit, so that the program can do something else meanwhile. */
    while ((status = pgas_sync_wait(&done, 1000)) == PGAS_ERR_TIMEOUT) {
    }
    return n_bad + failed(&done, status);
}

/* Calls to each rank have a counter of their own. The program uses the first answers first. */
static int wait_for_any(void)
{
    enum { N = 4 };
    int n_ranks = pgas_n_ranks(), n_bad = 0;
    int64_t one = 1;
    pgas_sync_t done[N] = { PGAS_SYNC_INIT };
    pgas_sync_t *waiting[N];
    for (int i = 0; i < N; i++) {
        waiting[i] = &done[i];
        n_bad += pgas_call_add(i % n_ranks, &one, &done[i]) != PGAS_OK;
    }
    for (int i = 0; i < N && !n_bad; i++) {
        size_t first;
        n_bad += failed(&done[0], pgas_sync_wait_any(waiting, N, -1, &first));
        if (!n_bad)
            waiting[first] = NULL; /* skipped from now on */
    }
    return n_bad;
}

/* Runs on the thread that lowers the counter to zero. It may do what a handler may do. */
static void stage_over(PGAS_UNUSED pgas_sync_t *sync, void *n_stages)
{
    __atomic_add_fetch((int *)n_stages, 1, __ATOMIC_RELEASE);
}

/* A function in place of a wait. The first completion is one of the program itself. It keeps the
 * counter above zero until all calls are issued and this rank has done its own share. */
static int run_stage(void)
{
    int n_ranks = pgas_n_ranks(), n_bad = 0, n_stages = 0;
    int64_t one = 1;
    pgas_sync_t stage = PGAS_SYNC_INIT_FN(stage_over, &n_stages);
    pgas_sync_add(&stage, 1);
    for (int r = 0; r < n_ranks && !n_bad; r++)
        n_bad += pgas_call_add(r, &one, &stage) != PGAS_OK;
    pgas_sync_done(&stage, 1);
    while (__atomic_load_n(&n_stages, __ATOMIC_ACQUIRE) == 0 && !n_bad)
        pgas_progress();
    return n_bad + (n_stages != 1);
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "06_synchronizers\n", 0);
    pgas_gptr_t word;
    if (pgas_init(NULL, NULL) != PGAS_OK || pgas_alloc(sizeof(int64_t), &word) != PGAS_OK)
        return 1;

    int n_bad = wait_for_all(word) + wait_for_any() + run_stage();
    pgas_quiesce();
    n_bad += *(int64_t *)pgas_gptr_local(word, sizeof(int64_t)) != 17;

    int64_t n_ranks = pgas_n_ranks(), all = 0, sent = n_ranks * (2 * N_CALLS + 4 + n_ranks);
    n_bad += pgas_allreduce(NULL, &sum, &all, 1, PGAS_I64, PGAS_ADD) != PGAS_OK;
    int good = !n_bad && all == sent;
    if (pgas_rank() == 0 || !good)
        printf("%lld of %lld calls have run: %s\n", (long long)all, (long long)sent,
               good ? "right" : "WRONG");
    pgas_finalize();
    return good ? 0 : 1;
}
