/* Latency of the collectives as in OSU's osu_allreduce and the like: the average over ranks, and
 * sums of floats. A size is that of one block. In the non-blocking forms each start is followed by
 * a wait. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <stdlib.h>

static const size_t block_sizes[] = { 8,      64,       512,      4096,      16384, 65536,
                                      262144, 1u << 20, 4u << 20, 16u << 20, 0 };
static size_t *sizes; /* of blocks of any sizes; they are equal here */

static void setup(void)
{
    sizes = calloc((size_t)pgas_n_ranks(), sizeof *sizes);
    if (!sizes)
        bench_die("out of memory");
}

static void teardown(void)
{
    free(sizes);
}

static pgas_status_t reduction(bench_coll_t kind, const void *src, void *dst, size_t n)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    switch (kind) {
    case BENCH_REDUCE:
        return pgas_reduce(NULL, dst, n, PGAS_F32, PGAS_ADD, 0);
    case BENCH_ALLREDUCE:
        return pgas_allreduce(NULL, src, dst, n, PGAS_F32, PGAS_ADD);
    case BENCH_SCAN:
        return pgas_scan(NULL, src, dst, n, PGAS_F32, PGAS_ADD);
    case BENCH_EXSCAN:
        return pgas_exscan(NULL, src, dst, n, PGAS_F32, PGAS_ADD);
    default:
        bench_check(pgas_allreduce_nb(NULL, dst, n, PGAS_F32, PGAS_ADD, &sync),
                    "pgas_allreduce_nb");
        return pgas_sync_wait(&sync, -1);
    }
}

static pgas_status_t exchange_nb(bench_coll_t kind, const void *src, void *dst, size_t n)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_status_t status;
    if (kind == BENCH_BARRIER_NB)
        status = pgas_barrier_nb(NULL, &sync);
    else if (kind == BENCH_BROADCAST_NB)
        status = pgas_broadcast_nb(NULL, dst, n, 0, &sync);
    else
        status = pgas_alltoallv_nb(NULL, src, sizes, dst, sizes, &sync);
    bench_check(status, "the start of a collective");
    return pgas_sync_wait(&sync, -1);
}

static pgas_status_t exchange(bench_coll_t kind, const void *src, void *dst, size_t n)
{
    switch (kind) {
    case BENCH_BROADCAST:
        return pgas_broadcast(NULL, dst, n, 0);
    case BENCH_GATHER:
        return pgas_gather(NULL, src, dst, n, 0);
    case BENCH_ALLGATHER:
        return pgas_allgather(NULL, src, dst, n);
    case BENCH_GATHERV:
        return pgas_gatherv(NULL, src, n, dst, sizes, 0);
    case BENCH_ALLGATHERV:
        return pgas_allgatherv(NULL, src, n, dst, sizes);
    case BENCH_ALLTOALL:
        return pgas_alltoall(NULL, src, dst, n);
    case BENCH_ALLTOALLV:
        return pgas_alltoallv(NULL, src, sizes, dst, sizes);
    default:
        return exchange_nb(kind, src, dst, n);
    }
}

static double loop(const bench_run_t *run)
{
    int bad = 0;
    char *src, *dst;
    bench_coll_t kind = (bench_coll_t)run->arg;
    bench_coll_buffers(run, &src, &dst);
    for (int r = 0; r < run->n_ranks; r++)
        sizes[r] = run->bytes;
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++)
        bad |= bench_coll_reduces(kind) ? reduction(kind, src, dst, run->bytes / sizeof(float))
                                        : exchange(kind, src, dst, run->bytes);
    if (bad)
        bench_die("a collective failed");
    return bench_since(begin);
}

#define CASE(NAME, DOC, KIND, ...)                                                          \
    {                                                                                       \
        .variant = NAME, .doc = DOC, .paths = BENCH_ANYWHERE, .ours = loop,                 \
        .refs = { { "mpi", BENCH_MPI, ref_mpi_collective } }, .arg = KIND, .average = true, \
        __VA_ARGS__                                                                         \
    }

#define COLLECTIVE(NAME, KIND)           CASE(NAME, "pgas_" NAME, KIND)
#define WITHOUT_WAITING(NAME, KIND, ...) CASE(NAME "-nb", "pgas_" NAME "_nb", KIND, __VA_ARGS__)

static const bench_case_t cases[] = {
    COLLECTIVE("broadcast", BENCH_BROADCAST),
    COLLECTIVE("reduce", BENCH_REDUCE),
    COLLECTIVE("allreduce", BENCH_ALLREDUCE),
    COLLECTIVE("scan", BENCH_SCAN),
    COLLECTIVE("exscan", BENCH_EXSCAN),
    COLLECTIVE("gather", BENCH_GATHER),
    COLLECTIVE("allgather", BENCH_ALLGATHER),
    COLLECTIVE("gatherv", BENCH_GATHERV),
    COLLECTIVE("allgatherv", BENCH_ALLGATHERV),
    COLLECTIVE("alltoall", BENCH_ALLTOALL),
    COLLECTIVE("alltoallv", BENCH_ALLTOALLV),
    WITHOUT_WAITING("barrier", BENCH_BARRIER_NB, .no_sizes = true),
    WITHOUT_WAITING("broadcast", BENCH_BROADCAST_NB),
    WITHOUT_WAITING("allreduce", BENCH_ALLREDUCE_NB),
    WITHOUT_WAITING("alltoallv", BENCH_ALLTOALLV_NB),
};

static const bench_program_t program = { .name = "pgas_collectives",
                                         .doc = "latency of collectives",
                                         .ranks = BENCH_ANY,
                                         .label = "Avg latency",
                                         .min_bytes = 8,
                                         .max_bytes = 16u << 20,
                                         .sizes = block_sizes,
                                         BENCH_CASES(cases),
                                         .setup = setup,
                                         .teardown = teardown };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
