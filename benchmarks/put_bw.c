/* Bandwidth of puts, 64 outstanding and then a flush: OSU's osu_put_bw. */
#include "benchmarks/rma.h"

static const bench_case_t cases[] = {
    { .variant = "",
      .doc = "64 non-blocking puts side by side, then a flush",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_BANDWIDTH,
      .round_ms = 2,
      .ours = rma_put_window,
      .refs = { { "memcpy", BENCH_MEMORY, ref_memcpy_put },
                { "ucx", BENCH_UCX, ref_ucx_put_window },
                { "mpi", BENCH_MPI, ref_mpi_put_window } } },
    { .variant = "hot",
      .doc = "all to the same place, so that small ones stay in the cache",
      .paths = BENCH_NODE,
      .metric = BENCH_BANDWIDTH,
      .round_ms = 2,
      .arg = 1,
      .ours = rma_put_window,
      .refs = { { "memcpy", BENCH_MEMORY, ref_memcpy_put } } },
};

static const bench_program_t program = { .name = "pgas_put_bw",
                                         .doc = "bandwidth of puts",
                                         .ranks = BENCH_PAIR,
                                         .label = "Bandwidth",
                                         RMA_PROGRAM(4u << 20) };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
