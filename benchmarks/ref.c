/* The sides of a comparison: opens each before its first loop, and has the barrier in which its
 * ranks wait. */
#include "benchmarks/ref.h"

static bool nothing_open(void)
{
    return true;
}

/* Every rank reaches the memory of all ranks by addresses. */
static bool on_one_node(void)
{
    return pgas_n_nodes() == 1;
}

static void nothing_close(void)
{
}

static void ours_meet(void)
{
    bench_check(pgas_barrier(NULL), "pgas_barrier");
}

static const struct {
    bool (*open)(void);
    void (*close)(void);
    void (*meet)(void);
} side[BENCH_KINDS] = { [BENCH_OURS] = { nothing_open, nothing_close, ours_meet },
                        [BENCH_MEMORY] = { ref_memory_open, ref_memory_close, ours_meet },
                        [BENCH_RAW] = { on_one_node, nothing_close, ours_meet },
                        [BENCH_UCX] = { ref_ucx_open, ref_ucx_close, ref_ucx_meet },
                        [BENCH_MPI] = { ref_mpi_open, ref_mpi_close, ref_mpi_meet } };
static bool is_open[BENCH_KINDS];

bool ref_open(bench_kind_t kind)
{
    if (!is_open[kind])
        is_open[kind] = side[kind].open();
    return is_open[kind];
}

void ref_close_all(void)
{
    for (int kind = 0; kind < BENCH_KINDS; kind++) {
        if (is_open[kind])
            side[kind].close();
        is_open[kind] = false;
    }
}

void ref_meet(bench_kind_t kind)
{
    side[kind].meet();
}
