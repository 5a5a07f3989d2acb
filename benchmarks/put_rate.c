/* Rate of small puts, one pair of ranks or several: rank r puts to rank r + n/2, a flush after 64.
 * OSU's osu_mbw_mr. */
#include "benchmarks/rma.h"

static const bench_case_t cases[] = {
    { .variant = "",
      .doc = "typed puts of 1, 2, 4, 8 bytes, pgas_put above, a flush after 64",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_RATE,
      .ours = rma_put_stream,
      .refs = { { "limit", BENCH_MEMORY, ref_store },
                { "ucx", BENCH_UCX, ref_ucx_put_window },
                { "mpi", BENCH_MPI, ref_mpi_put_window } } },
};

static const bench_program_t program = { .name = "pgas_put_rate",
                                         .doc = "rate of small puts",
                                         .ranks = BENCH_PAIRS,
                                         .label = "Rate",
                                         RMA_PROGRAM(4096) };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
