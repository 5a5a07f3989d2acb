/* Ranks that wait.
 *   what:   four ranks that wait two seconds for a fifth, in a barrier, for a signal or for a completion, leave the processor
 *           to others. (A guard against a wait that spins: how little exactly, the benchmarks tell.)
 *   np:     5
 *   nodes:  0 1 2
 *   tls:    posix tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0
 *   needs:  no-sanitizers
 *   source: public headers
 */
#include <sys/resource.h>
#include <time.h>
#include "base/clock.h"
#include "t/spmd/job.h"

#define LATE_NS UINT64_C(1400000000)

static int me, n_ranks;
static pgas_gptr_t words[JOB_RANKS_MAX];

static uint64_t cpu_ns(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1000u;
}

/* The rank that is late does not sleep in order to synchronise: being late is what is tested. */
static void be_late(void)
{
    struct timespec limit = { (time_t)(LATE_NS / 1000000000), (long)(LATE_NS % 1000000000) };
    nanosleep(&limit, NULL);
}

static pgas_status_t in_barrier(void)
{
    if (me == n_ranks - 1)
        be_late();
    return pgas_barrier(NULL);
}

static pgas_status_t for_signal(void)
{
    pgas_status_t status = PGAS_OK;
    uint64_t one = 1;
    if (me < n_ranks - 1)
        return pgas_signal_wait(pgas_gptr_local(words[me], 8), PGAS_EQ, 1, -1, NULL);
    be_late();
    for (int r = 0; r < n_ranks - 1 && status == PGAS_OK; r++)
        status = pgas_put_signal(pgas_gptr_add(words[r], 8), &one, 8, words[r], 1, PGAS_SIGNAL_SET);
    return status == PGAS_OK ? pgas_flush_all() : status;
}

static void waits_cost_little(pgas_status_t (*wait)(void), const char *text)
{
    pgas_barrier(NULL);
    uint64_t wall = pgasi_now_ns(), used = cpu_ns(), all = 0;
    pgas_status_t status = wait();
    used = cpu_ns() - used;
    wall = pgasi_now_ns() - wall;
    pgas_allreduce(NULL, &used, &all, 1, PGAS_UINT64, PGAS_SUM);
    if (me == 0)
        spmd_diag("%s: %.2f percent of a core", text, 100.0 * (double)all / (double)wall);
    spmd_ok(status == PGAS_OK && all < LATE_NS / 4, "waiting %s uses less than a quarter of a core, all ranks together", text);
}

/* What spins is caught: the checker can fail. */
static pgas_status_t spinning(void)
{
    uint64_t end = pgasi_now_ns() + LATE_NS;
    while (pgasi_now_ns() < end && cpu_ns() < UINT64_MAX) {
    }
    return PGAS_OK;
}

static void spinning_is_noticed(void)
{
    uint64_t used = cpu_ns(), all = 0;
    if (me == 0)
        spinning();
    used = cpu_ns() - used;
    pgas_allreduce(NULL, &used, &all, 1, PGAS_UINT64, PGAS_SUM);
    spmd_ok(all > 0, "processor time is counted");
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 4);
    me = pgas_rank();
    n_ranks = pgas_n_ranks();
    pgas_gptr_t ptr = PGAS_NULL;
    bool good = pgas_alloc(64, &ptr) == PGAS_OK && pgas_put_u64(ptr, 0) == PGAS_OK;
    job_gather(ptr, words);
    spmd_ok(good, "memory");
    waits_cost_little(in_barrier, "in a barrier");
    waits_cost_little(for_signal, "for a signal");
    spinning_is_noticed();
    return job_end();
}
