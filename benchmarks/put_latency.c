/* Latency of one put, complete at the peer before the next: OSU's osu_put_latency with a flush. */
#include "benchmarks/rma.h"

#define REFS                                                                 \
    { "limit", BENCH_MEMORY, ref_store }, { "ucx", BENCH_UCX, ref_ucx_put }, \
    {                                                                        \
        "mpi", BENCH_MPI, ref_mpi_put                                        \
    }

static const bench_case_t cases[] = {
    { .variant = "",
      .doc = "typed put of 1, 2, 4, 8 bytes, pgas_put above",
      .paths = BENCH_ANYWHERE,
      .ours = rma_put,
      .refs = { REFS } },
    { .variant = "ptr",
      .doc = "stores through pgas_gptr_local, asked once",
      .paths = BENCH_NODE,
      .ours = rma_store,
      .refs = { { "limit", BENCH_MEMORY, ref_store } } },
    { .variant = "bulk",
      .doc = "pgas_put at every size",
      .paths = BENCH_ANYWHERE,
      .ours = rma_put_bulk,
      .refs = { REFS } },
};

static const bench_program_t program = { .name = "pgas_put_latency",
                                         .doc = "time of a put until it is visible at the peer",
                                         .ranks = BENCH_PAIR,
                                         .label = "Latency",
                                         RMA_PROGRAM(4u << 20) };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
