/* Latency of one get: OSU's osu_get_latency with a flush. */
#include "benchmarks/rma.h"

#define REFS                                                                \
    { "limit", BENCH_MEMORY, ref_load }, { "ucx", BENCH_UCX, ref_ucx_get }, \
    {                                                                       \
        "mpi", BENCH_MPI, ref_mpi_get                                       \
    }

static const bench_case_t cases[] = {
    { .variant = "",
      .doc = "typed get of 1, 2, 4, 8 bytes, pgas_get above",
      .paths = BENCH_ANYWHERE,
      .ours = rma_get,
      .refs = { REFS } },
    { .variant = "ptr",
      .doc = "loads through pgas_gptr_local, asked once",
      .paths = BENCH_NODE,
      .ours = rma_load,
      .refs = { { "limit", BENCH_MEMORY, ref_load } } },
    { .variant = "bulk",
      .doc = "pgas_get at every size",
      .paths = BENCH_ANYWHERE,
      .ours = rma_get_bulk,
      .refs = { REFS } },
};

static const bench_program_t program = { .name = "pgas_get_latency",
                                         .doc = "time of a get until the data are here",
                                         .ranks = BENCH_PAIR,
                                         .label = "Latency",
                                         RMA_PROGRAM(4u << 20) };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
