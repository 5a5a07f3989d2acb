/* Latency of one put, complete at the peer before the next: OSU's osu_put_latency with a flush. */
#include "benchmarks/rma.h"

static const bench_case_t cases[] = {
    { .variant = "",
      .doc = "typed put of 1, 2, 4, 8 bytes, pgas_put above",
      .paths = BENCH_ANYWHERE,
      .ours = rma_put,
      .refs = { { "limit", BENCH_MEMORY, ref_store },
                { "ucx", BENCH_UCX, ref_ucx_put },
                { "mpi", BENCH_MPI, ref_mpi_put } } },
    { .variant = "ptr",
      .doc = "stores through pgas_gptr_local, asked once",
      .paths = BENCH_NODE,
      .ours = rma_store,
      .refs = { { "limit", BENCH_MEMORY, ref_store } } },
    { .variant = "bulk",
      .doc = "pgas_put at every size",
      .paths = BENCH_ANYWHERE,
      .ours = rma_put_bulk,
      .refs = { { "limit", BENCH_MEMORY, ref_store },
                { "ucx", BENCH_UCX, ref_ucx_put },
                { "mpi", BENCH_MPI, ref_mpi_put } } },
};

static const bench_program_t program = { .name = "pgas_put_latency",
                                         .doc = "time of a put until it is visible at the peer",
                                         .ranks = BENCH_PAIR,
                                         .label = "Latency",
                                         .min_bytes = 1,
                                         .max_bytes = 4u << 20,
                                         .cases = cases,
                                         .n_cases = sizeof cases / sizeof cases[0],
                                         .setup = rma_setup,
                                         .teardown = rma_teardown };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
