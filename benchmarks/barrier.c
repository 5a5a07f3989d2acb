/* Latency of a barrier, and the processor time of waiting in one: all ranks but the last wait for
 * the last, which sleeps. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <sys/resource.h>
#include <time.h>

static double loop(const bench_run_t *run)
{
    int bad = 0;
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++)
        bad |= pgas_barrier(NULL);
    if (bad)
        bench_die("a barrier failed");
    return bench_since(begin);
}

/* All threads of the process. */
static double cpu_ns(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e9 +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e3;
}

/* Percent of one core that the waiting ranks use together. */
static double wait_for_last(const bench_run_t *run)
{
    double begin_cpu = cpu_ns(), mine = 0, all = 0;
    uint64_t begin = bench_now();
    if (run->rank == run->n_ranks - 1) {
        long long ns = (long long)(run->round_ms * 1e6);
        struct timespec nap = { ns / 1000000000, ns % 1000000000 };
        nanosleep(&nap, NULL);
    }
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    if (run->rank != run->n_ranks - 1)
        mine = (cpu_ns() - begin_cpu) * 100 / bench_since(begin);
    bench_check(pgas_allreduce(NULL, &mine, &all, 1, PGAS_F64, PGAS_ADD), "pgas_allreduce");
    return all;
}

static const bench_case_t cases[] = {
    { .variant = "",
      .doc = "all ranks, one barrier after the other",
      .paths = BENCH_ANYWHERE,
      .ours = loop,
      .refs = { { "mpi", BENCH_MPI, ref_mpi_collective } },
      .arg = BENCH_BARRIER,
      .average = true },
    { .variant = "late",
      .doc = "processor time of all ranks but the last while they wait two seconds for it",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_VALUE,
      .ours = wait_for_last,
      .on_request = true,
      .unit = "percent",
      .round_ms = 2000 },
};

static const bench_program_t program = { .name = "pgas_barrier",
                                         .doc = "latency of the barrier, cost of waiting",
                                         .ranks = BENCH_ANY,
                                         .label = "Barrier",
                                         BENCH_CASES(cases) };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
