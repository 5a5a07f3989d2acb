/* A wall clock that is set while the job runs.
 *   what:   The library never reads the time of day, so a step of that clock neither delays nor
 *           ends any operation. Several service threads start and end without it.
 *   np:     2
 *   nodes:  0 1
 *   tls:    posix
 *   needs:  no-sanitizers
 *   source: clock_gettime(2); this program's clock_gettime replaces the C library's */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "t/spmd/job.h"

#define ROUNDS 3

static int n_looks;

int clock_gettime(clockid_t clock, struct timespec *now_p)
{
    if (clock == CLOCK_REALTIME)
        __atomic_fetch_add(&n_looks, 1, __ATOMIC_RELAXED);
    return (int)syscall(SYS_clock_gettime, clock, now_p);
}

int main(int argc, char **argv)
{
    struct timespec now;
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(3);
    n_looks = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    spmd_is_int(n_looks, 1, "this program sees each reading of the clock");
    n_looks = 0;
    pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
    opts.params = "SERVICE_THREADS=4 HEAP_SIZE=1M";
    int n_bad = 0;
    for (int i = 0; i < ROUNDS; i++) {
        n_bad += pgas_init(NULL, &opts) != PGAS_OK;
        n_bad += pgas_barrier(NULL) != PGAS_OK || pgas_quiesce() != PGAS_OK;
        n_bad += pgas_finalize() != PGAS_OK;
    }
    spmd_is_int(n_bad, 0, "%d times from init to finalize", ROUNDS);
    spmd_is_int(n_looks, 0, "the time of day was not asked for");
    return spmd_end();
}
