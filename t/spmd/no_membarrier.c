/* A rank without membarrier.
 *   what:   If one rank, of this or another node, has no membarrier, all ranks use fences instead.
 *           Calls, barriers and transfers work as usual.
 *   np:     2 3
 *   nodes:  0 1
 *   tls:    posix
 *   needs:  no-sanitizers
 *   source: src/boot/wait.h
 */
#include "boot/wait.h"
#include "t/forbid.h"
#include "t/handlers.h"
#include "t/spmd/job.h"

#define N_CALLS 2000

static pgas_handler_t count;
static uint64_t n_counted;

/* Each rank calls the next one. */
static void calls_arrive(void)
{
    int n_bad = 0, next = (pgas_rank() + 1) % pgas_n_ranks();
    uint64_t value = 8;
    for (uint64_t i = 0; i < N_CALLS; i++)
        n_bad += pgas_call(next, count, &i, i % 2 ? 0 : value, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK || n_counted != N_CALLS;
    spmd_is_int(n_bad, 0, "calls arrive");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.count", on_count, &n_counted, NULL, &count);
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(5);
    bool last = spmd_rank() == spmd_size() - 1;
    spmd_ok(!last || forbid_syscall(SYS_membarrier, ENOSYS), "the last rank has no membarrier");
    job_start(NULL);
    spmd_ok(pgasi_wait_light_is_fence, "all ranks make fences");
    calls_arrive();
    return job_end();
}
