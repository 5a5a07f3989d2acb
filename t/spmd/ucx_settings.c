/* Settings that only rank 0 has.
 *   what:   PGAS_UCX_ variables that a launcher gives to rank 0 alone apply on all ranks that set
 *           none of their own, until the library ends.
 *   np:     2 3
 *   nodes:  1
 *   env:    PGAS_TRANSPORT=ucx
 *   source: docs/configuration.md; ucx_backend/README.md */
#include "t/spmd/job.h"

static void on_all_ranks(void)
{
    const char *tls = getenv("PGAS_UCX_TLS"), *keepalive = getenv("PGAS_UCX_KEEPALIVE_NUM_EPS");
    spmd_ok(tls && strcmp(tls, "tcp,self") == 0, "a variable of rank 0 is set on all ranks");
    spmd_ok(keepalive && atoi(keepalive) == 100 + pgas_rank(), "a rank's own settings stay");
    uint64_t value = 7, seen = 0;
    pgas_gptr_t word = PGAS_NULL;
    bool good = pgas_alloc(sizeof value, &word) == PGAS_OK;
    pgas_gptr_t right = pgas_gptr_make((pgas_rank() + 1) % pgas_n_ranks(), pgas_gptr_offset(word));
    good = pgas_put(right, &value, sizeof value) == PGAS_OK && pgas_flush_all() == PGAS_OK && good;
    good = pgas_barrier(NULL) == PGAS_OK && pgas_get(&seen, right, sizeof seen) == PGAS_OK &&
           seen == value && good;
    spmd_ok(good, "all ranks reach each other");
}

int main(int argc, char **argv)
{
    char number[16];
    int rank;
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(6);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(number, sizeof number, "%d", 100 + rank);
    setenv("PGAS_UCX_KEEPALIVE_NUM_EPS", number, 1);
    if (rank == 0)
        setenv("PGAS_UCX_TLS", "tcp,self", 1);
    else
        unsetenv("PGAS_UCX_TLS");
    job_start(NULL);
    on_all_ranks();
    job_stop();
    spmd_ok(rank == 0 || !getenv("PGAS_UCX_TLS"),
            "a rank that had no such variable has none afterwards");
    return spmd_end();
}
