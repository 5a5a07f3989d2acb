/* Bandwidth of puts in both directions at once: OSU's osu_put_bibw. */
#include "benchmarks/rma.h"

static const bench_case_t cases[] = {
    { .variant = "",
      .doc = "64 non-blocking puts side by side, then a flush",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_BANDWIDTH,
      .round_ms = 2,
      .both_ways = true,
      .ours = rma_put_window,
      .refs = { { "memcpy", BENCH_MEMORY, ref_memcpy_put },
                { "ucx", BENCH_UCX, ref_ucx_put_window },
                { "mpi", BENCH_MPI, ref_mpi_put_window } } },
};

static const bench_program_t program = { .name = "pgas_put_bibw",
                                         .doc = "bandwidth of puts in both directions at once",
                                         .ranks = BENCH_PAIR,
                                         .label = "Bandwidth",
                                         RMA_PROGRAM(4u << 20) };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
