/* One rank of this job is killed, the others wait for it: the program of t/spmd/kill.t, no test by itself.
 *   victim RANK HOW       HOW is what the survivors do: barrier, compute, reply, signal, progress; or
 *                         survive: they go on (PGAS_ON_PEER_DEATH=continue) and say what they saw */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "pgas/pgas.h"

static pgas_handler_t never, dies;

static void on_never(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
}

static void on_dies(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    raise(SIGKILL);
}

static void wait_for_the_end(const char *how, int victim)
{
    static uint64_t word;
    uint64_t x = 0;
    volatile double y = 1;
    if (strcmp(how, "barrier") == 0)
        pgas_barrier(NULL);
    else if (strcmp(how, "reply") == 0)
        while (pgas_call_return(victim, never, NULL, 0, &x, sizeof x, NULL) != PGAS_OK) {
        }
    else if (strcmp(how, "signal") == 0)
        pgas_signal_wait(&word, PGAS_EQ, 1, -1, NULL);
    else if (strcmp(how, "progress") == 0)
        for (;;)
            pgas_progress();
    for (;;)
        y = y * 0.5 + 1;
}

static int not_peer(const char *what, pgas_status_t status)
{
    if (status == PGAS_ERR_PEER)
        return 0;
    printf("rank %d: %s gave %s\n", pgas_rank(), what, pgas_status_name(status));
    return 1;
}

static int names_other(const pgas_sync_t *sync, int rank, pgas_handler_t handler)
{
    pgas_sync_error_t e = { PGAS_OK, -1, 0 };
    if (pgas_sync_error(sync, &e) == PGAS_OK && e.status == PGAS_ERR_PEER && e.rank == rank && e.handler == handler)
        return 0;
    printf("rank %d: the counter names rank %d, handler %d: %s\n", pgas_rank(), e.rank, e.handler, pgas_status_name(e.status));
    return 1;
}

/* The victim dies of a call; every survivor waits for one of its own to it. The other ways to wait end as well. */
static void survive(int victim)
{
    static uint64_t word;
    uint64_t x = 0;
    int n_bad = 0, me = pgas_rank();
    pgas_gptr_t at = PGAS_NULL;
    pgas_agg_t *agg = NULL;
    n_bad += pgas_alloc_local(sizeof(pgas_sync_t), &at) != PGAS_OK;
    pgas_sync_t on_stack, *sync = me % 2 ? pgas_gptr_local(at, sizeof *sync) : &on_stack;
    if (me == victim)
        pgas_signal_wait(&word, PGAS_EQ, 1, -1, NULL);
    n_bad += pgas_sync_init(sync, 1) != PGAS_OK || pgas_agg_create(NULL, &agg) != PGAS_OK;
    pgas_status_t status = pgas_call(victim, dies, NULL, 0, sync);
    n_bad += not_peer("a call that is waited for", status == PGAS_OK ? pgas_sync_wait(sync, -1) : status);
    n_bad += status == PGAS_OK && names_other(sync, victim, dies);
    pgas_sync_fini(sync);
    n_bad += not_peer("a call of 8 bytes", pgas_call(victim, never, &x, 8, NULL));
    n_bad += not_peer("a call with a reply", pgas_call_return(victim, never, NULL, 0, &x, 8, NULL));
    n_bad += not_peer("a gathered call", pgas_agg_call(agg, victim, never, &x, 8));
    n_bad += pgas_agg_destroy(agg) != PGAS_OK;
    n_bad += not_peer("a barrier", pgas_barrier(NULL));
    n_bad += not_peer("quiesce", pgas_quiesce());
    n_bad += not_peer("finalize", pgas_finalize());
    printf("%s %d\n", n_bad == 0 && !pgas_initialized() ? "survived" : "failed", me);
    fflush(stdout);
    _exit(n_bad);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int victim = atoi(argv[1]);
    pgas_handler_register("t.never", on_never, NULL, &never);
    pgas_handler_register("t.dies", on_dies, NULL, &dies);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 3;
    for (int r = 0; r < pgas_n_ranks(); r++) /* everybody knows everybody */
        pgas_call(r, never, NULL, 0, NULL);
    pgas_quiesce();
    if (pgas_rank() == 0) {
        printf("started %lld\n", (long long)time(NULL));
        fflush(stdout);
    }
    pgas_barrier(NULL);
    if (strcmp(argv[2], "survive") == 0)
        survive(victim);
    if (pgas_rank() == victim)
        raise(SIGKILL);
    wait_for_the_end(argv[2], victim);
    return 0;
}
