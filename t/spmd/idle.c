/* Ranks that wait.
 *   what:   Four ranks wait for a fifth one that is more than a second late: in a barrier, for a
 *           signal or for a completion. Together they use less than a tenth of a core, while a rank
 *           that spins uses a whole one. (This guards against a wait that spins, with a margin for
 *           shared machines: 1 to 3 percent were measured. The benchmarks measure it exactly.)
 *   np:     5
 *   nodes:  0 1 2
 *   tls:    posix tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0
 *   needs:  no-sanitizers
 *   turn:   waits
 *   source: public headers
 */
#include <sys/resource.h>
#include <time.h>
#include "base/clock.h"
#include "t/spmd/job.h"

#define LATE_NS UINT64_C(1400000000)

static pgas_handler_t wake;
static pgas_sync_t awaited = PGAS_SYNC_INIT;
static pgas_gptr_t words[JOB_RANKS_MAX];

static uint64_t cpu_ns(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1000u;
}

/* The late rank does not sleep in order to synchronise: the test is about a rank that is late. */
static void be_late(void)
{
    struct timespec limit = { (time_t)(LATE_NS / 1000000000), (long)(LATE_NS % 1000000000) };
    while (nanosleep(&limit, &limit) != 0) {
    }
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
        status = pgas_put_signal(pgas_gptr_add(words[r], 8), &one, 8, words[r], 1, PGAS_SWAP);
    return status == PGAS_OK ? pgas_flush_all() : status;
}

/* A handler of the late rank completes the operation for which the others wait. (A handler that
 * takes long itself would be a rank that computes.) */
static void on_wake(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    pgas_sync_done(&awaited, 1);
}

static pgas_status_t for_completion(void)
{
    pgas_status_t status = PGAS_OK;
    if (me < n_ranks - 1)
        return pgas_sync_wait(&awaited, -1);
    be_late();
    for (int r = 0; r < n_ranks - 1 && status == PGAS_OK; r++)
        status = pgas_call(r, wake, NULL, 0, NULL);
    return status;
}

/* The judge: processor time of all ranks together while they waited; wall: of the rank that is
 * late, for others may begin late. */
static bool is_idle(uint64_t used, uint64_t wall)
{
    return used < wall / 10;
}

static void waits_cost_little(pgas_status_t (*wait)(void), const char *text)
{
    pgas_barrier(NULL);
    uint64_t wall = pgasi_now_ns(), used = cpu_ns(), all = 0;
    pgas_status_t status = wait();
    used = cpu_ns() - used;
    wall = pgasi_now_ns() - wall;
    pgas_allreduce(NULL, &used, &all, 1, PGAS_U64, PGAS_ADD);
    pgas_broadcast(NULL, &wall, sizeof wall, n_ranks - 1);
    if (me == 0)
        spmd_diag("%s: %.2f percent of a core", text, 100.0 * (double)all / (double)wall);
    spmd_ok(status == PGAS_OK && wall >= LATE_NS && is_idle(all, wall),
            "waiting %s uses less than a tenth of a core, all ranks together", text);
}

/* A rank that spins is found: the checker can fail. It spins for an amount of processor time, so
 * that the checker finds it on a loaded machine too. */
static void spinning_is_noticed(void)
{
    uint64_t used = cpu_ns(), own = 0, all = 0;
    while (me == 0 && own < LATE_NS / 4)
        own = cpu_ns() - used;
    own = me == 0 ? own : cpu_ns() - used;
    pgas_allreduce(NULL, &own, &all, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(!is_idle(all, LATE_NS), "a rank that spins for a quarter of the time is found guilty");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.wake", on_wake, NULL, NULL, &wake);
    job_begin(&argc, &argv, 5);
    pgas_gptr_t ptr = PGAS_NULL;
    bool good = pgas_alloc(64, &ptr) == PGAS_OK && pgas_put_u64(ptr, 0) == PGAS_OK;
    job_gather(ptr, words);
    pgas_sync_add(&awaited, 1);
    spmd_ok(good, "memory");
    waits_cost_little(in_barrier, "in a barrier");
    waits_cost_little(for_signal, "for a signal");
    waits_cost_little(for_completion, "for a completion");
    spinning_is_noticed();
    return job_end();
}
