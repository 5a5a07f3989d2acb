/* Latency of the collectives as in OSU's osu_allreduce and the like: the average over ranks, and
 * sums of floats. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <stdlib.h>

#define BLOCK_BYTES (8u << 20)

static char *src, *dst;

static void setup(void)
{
    src = bench_buffer(BLOCK_BYTES);
    dst = bench_buffer(BLOCK_BYTES);
}

static void teardown(void)
{
    free(src);
    free(dst);
}

static pgas_status_t collective(const bench_run_t *run)
{
    size_t n = run->bytes, n_floats = run->bytes / sizeof(float);
    switch (run->arg) {
    case BENCH_BROADCAST:
        return pgas_broadcast(NULL, dst, n, 0);
    case BENCH_REDUCE:
        return pgas_reduce(NULL, dst, n_floats, PGAS_F32, PGAS_ADD, 0);
    case BENCH_ALLREDUCE:
        return pgas_allreduce(NULL, src, dst, n_floats, PGAS_F32, PGAS_ADD);
    case BENCH_GATHER:
        return pgas_gather(NULL, src, dst, n, 0);
    case BENCH_ALLGATHER:
        return pgas_allgather(NULL, src, dst, n);
    case BENCH_EXSCAN:
        return pgas_exscan(NULL, src, dst, n_floats, PGAS_F32, PGAS_ADD);
    case BENCH_ALLTOALL:
        return pgas_alltoall(NULL, src, dst, n);
    default:
        return pgas_barrier(NULL);
    }
}

static double loop(const bench_run_t *run)
{
    int bad = 0;
    uint64_t begin = bench_now();
    if (run->bytes * (size_t)run->n_ranks > BLOCK_BYTES)
        bench_die("%zu bytes for each of %d ranks are more than the buffer", run->bytes,
                  run->n_ranks);
    for (uint64_t i = 0; i < run->iters; i++)
        bad |= collective(run);
    if (bad)
        bench_die("a collective failed");
    return bench_since(begin);
}

#define COLLECTIVE(NAME, KIND)                                                             \
    {                                                                                      \
        .variant = NAME, .doc = "pgas_" NAME, .paths = BENCH_ANYWHERE, .ours = loop,       \
        .refs = { { "mpi", BENCH_MPI, ref_mpi_collective } }, .arg = KIND, .average = true \
    }

static const bench_case_t cases[] = {
    COLLECTIVE("broadcast", BENCH_BROADCAST), COLLECTIVE("reduce", BENCH_REDUCE),
    COLLECTIVE("allreduce", BENCH_ALLREDUCE), COLLECTIVE("gather", BENCH_GATHER),
    COLLECTIVE("allgather", BENCH_ALLGATHER), COLLECTIVE("exscan", BENCH_EXSCAN),
    COLLECTIVE("alltoall", BENCH_ALLTOALL),
};

static const bench_program_t program = { .name = "pgas_collectives",
                                         .doc = "latency of collectives",
                                         .ranks = BENCH_ANY,
                                         .label = "Avg latency",
                                         .min_bytes = 4,
                                         .max_bytes = 1u << 20,
                                         BENCH_CASES(cases),
                                         .setup = setup,
                                         .teardown = teardown };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
