/* 06_synchronizers: knowing when calls are done.
 *
 * Every rank hands out parcels to all ranks and wants to know three different things: when it may
 * use its own memory again (local), when the parcels have arrived (remote), when they have been
 * opened (executed). A counter tells: one for many calls, waited for, or with a function that runs
 * when it reaches zero.
 *
 *   mpirun -n 4 build/examples/06_synchronizers */
#include <pgas/pgas.h>
#include <stdio.h>
#include "usage.h"

#define N_PARCELS 100

static pgas_handler_t open_parcel;
static int64_t opened; /* what was in the parcels that this rank got */

static void handle_open(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes, (void)source, (void)context;
    opened += *(const int64_t *)args;
}

/* As pgas_call, to any thread of the rank, but the counter falls when the caller wants it to. */
static pgas_status_t send_parcel(int rank, int64_t content, pgas_when_t when, pgas_sync_t *sync)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = sync;
    opts.when = when;
    return pgas_call_to(pgas_thread_make(rank, PGAS_SLOT_ANY), open_parcel, &content,
                        sizeof content, &opts);
}

/* Runs in whatever thread makes the counter fall to zero, and may do what a handler may. */
static void stage_over(pgas_sync_t *sync, void *arg)
{
    (void)sync;
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELEASE);
}

static int failed(const pgas_sync_t *sync, pgas_status_t status)
{
    pgas_sync_error_t error;
    if (status != PGAS_OK && pgas_sync_error(sync, &error) == PGAS_OK && error.status != PGAS_OK) {
        const char *name = pgas_handler_name(error.handler);
        fprintf(stderr, "handler %s at rank %d: %s\n", name ? name : "?", error.rank,
                pgas_status_text(error.status));
    }
    return status != PGAS_OK;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "06_synchronizers\n", 0);
    pgas_handler_register("example.open", handle_open, NULL, &open_parcel);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int n_ranks = pgas_n_ranks(), n_bad = 0, n_stages = 0;

    /* In the symmetric heap the counter is written by the rank of this node that opened the parcel:
     * no message comes back. Anywhere else, on the stack too, it works as well. */
    pgas_gptr_t place;
    if (pgas_alloc_local(sizeof(pgas_sync_t), &place) != PGAS_OK)
        return 1;
    pgas_sync_t *done = (pgas_sync_t *)pgas_gptr_local(place, sizeof *done);

    /* One counter for many calls: remote and local ones first, then it is used again for executed
     * ones. */
    n_bad += pgas_sync_init(done, 2 * N_PARCELS) != PGAS_OK;
    for (int i = 0; i < N_PARCELS && !n_bad; i++) {
        n_bad += send_parcel(i % n_ranks, 1, PGAS_LOCAL, done) != PGAS_OK;
        n_bad += send_parcel(i % n_ranks, 1, PGAS_REMOTE, done) != PGAS_OK;
    }
    n_bad += failed(done, pgas_sync_wait(done, -1));
    pgas_sync_reset(done, N_PARCELS);
    for (int i = 0; i < N_PARCELS && !n_bad; i++)
        n_bad += send_parcel(i % n_ranks, 1, PGAS_EXECUTED, done) != PGAS_OK;
    /* A wait that gives up now and then, to do something else. */
    pgas_status_t status;
    while ((status = pgas_sync_wait(done, 1000)) == PGAS_ERR_TIMEOUT) {
    }
    n_bad += failed(done, status);
    pgas_sync_fini(done);
    pgas_free_local(place);

    /* A function instead of a wait. The work of this rank itself counts, too: the stage is over
     * when the parcels are opened and the own share is done, whichever comes last. */
    pgas_sync_t stage;
    n_bad += pgas_sync_init_fn(&stage, n_ranks + 1, stage_over, &n_stages) != PGAS_OK;
    for (int r = 0; r < n_ranks && !n_bad; r++)
        n_bad += send_parcel(r, 1, PGAS_EXECUTED, &stage) != PGAS_OK;
    n_bad += pgas_sync_done(&stage, 1) != PGAS_OK;
    while (__atomic_load_n(&n_stages, __ATOMIC_ACQUIRE) == 0 && !n_bad)
        pgas_progress();

    pgas_quiesce();
    pgas_sync_fini(&stage);
    int64_t all = 0, sent = (int64_t)n_ranks * (3 * N_PARCELS + n_ranks);
    n_bad += pgas_allreduce(NULL, &opened, &all, 1, PGAS_INT64, PGAS_SUM) != PGAS_OK;
    int good = !n_bad && all == sent && n_stages == 1;
    if (pgas_rank() == 0 || !good) {
        printf("%lld of %lld parcels opened: %s\n", (long long)all, (long long)sent,
               good ? "right" : "WRONG");
    }
    pgas_finalize();
    return good ? 0 : 1;
}
