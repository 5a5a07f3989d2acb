/* Bandwidth of gets, 64 outstanding and then completion of all: OSU's osu_get_bw. */
#include "benchmarks/rma.h"

static const bench_case_t cases[] = {
    { .variant = "",
      .doc = "64 non-blocking gets side by side, then all waited for",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_BANDWIDTH,
      .round_ms = 2,
      .ours = rma_get_window,
      .refs = { { "memcpy", BENCH_MEMORY, ref_memcpy_get },
                { "ucx", BENCH_UCX, ref_ucx_get_window },
                { "mpi", BENCH_MPI, ref_mpi_get_window } } },
    { .variant = "hot",
      .doc = "all from the same place, so that small ones stay in the cache",
      .paths = BENCH_NODE,
      .metric = BENCH_BANDWIDTH,
      .round_ms = 2,
      .arg = 1,
      .ours = rma_get_window,
      .refs = { { "memcpy", BENCH_MEMORY, ref_memcpy_get } } },
};

static const bench_program_t program = { .name = "pgas_get_bw",
                                         .doc = "bandwidth of gets",
                                         .ranks = BENCH_PAIR,
                                         .label = "Bandwidth",
                                         RMA_PROGRAM(4u << 20) };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
