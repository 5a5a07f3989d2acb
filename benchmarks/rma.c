/* See rma.h. The loops are those of ref_memory.c, ref_ucx.c and ref_mpi.c, with the library's
 * operations. */
#include "benchmarks/rma.h"

#include <stdlib.h>
#include <string.h>

static pgas_gptr_t block, window;
static char *private_base;

void rma_setup(void)
{
    /* At a page boundary, as the memory of the references. */
    bench_check(pgas_alloc(BENCH_WINDOW_BYTES + BENCH_PAGE_BYTES, &block), "pgas_alloc");
    window =
        pgas_gptr_add(block, (int64_t)(-(uintptr_t)pgas_gptr_local(block, 1) % BENCH_PAGE_BYTES));
    memset(pgas_gptr_local(window, 1), 0, BENCH_WINDOW_BYTES);
    private_base = bench_buffer(BENCH_WINDOW_BYTES);
}

void rma_teardown(void)
{
    bench_check(pgas_free(block), "pgas_free");
    free(private_base);
}

/* The operation is complete on return on one node, and needs a flush between nodes. */
static inline pgas_status_t complete(const bench_run_t *run)
{
    return run->far ? pgas_flush(run->peer) : PGAS_OK;
}

#define TYPED(BITS)                                                                            \
    static int put_##BITS(const bench_run_t *run, pgas_gptr_t there)                           \
    {                                                                                          \
        int bad = 0;                                                                           \
        for (uint64_t i = 0, n = run->iters; i < n; i++) {                                     \
            bad |= pgas_put_u##BITS(there + bench_walk(i, BITS / 8), (uint##BITS##_t)i);       \
            bench_step();                                                                      \
        }                                                                                      \
        return bad;                                                                            \
    }                                                                                          \
    static int put_flush_##BITS(const bench_run_t *run, pgas_gptr_t there)                     \
    {                                                                                          \
        int bad = 0;                                                                           \
        for (uint64_t i = 0, n = run->iters; i < n; i++) {                                     \
            bad |= pgas_put_u##BITS(there + bench_walk(i, BITS / 8), (uint##BITS##_t)i);       \
            bad |= pgas_flush(run->peer);                                                      \
        }                                                                                      \
        return bad;                                                                            \
    }                                                                                          \
    static int get_##BITS(const bench_run_t *run, pgas_gptr_t there)                           \
    {                                                                                          \
        int bad = 0;                                                                           \
        uint64_t sum = 0;                                                                      \
        for (uint64_t i = 0, n = run->iters; i < n; i++) {                                     \
            uint##BITS##_t value = 0;                                                          \
            bad |= pgas_get_u##BITS(there + bench_walk(i, BITS / 8), &value);                  \
            sum += value;                                                                      \
            bench_step();                                                                      \
        }                                                                                      \
        bench_use(sum);                                                                        \
        return bad;                                                                            \
    }                                                                                          \
    static int store_##BITS(const bench_run_t *run, pgas_gptr_t there)                         \
    {                                                                                          \
        char *base = pgas_gptr_local(there, BENCH_WINDOW_BYTES);                               \
        for (uint64_t i = 0, n = run->iters; base && i < n; i++) {                             \
            __atomic_store_n((uint##BITS##_t *)(void *)(base + bench_walk(i, BITS / 8)),       \
                             (uint##BITS##_t)i, __ATOMIC_RELAXED);                             \
            bench_step();                                                                      \
        }                                                                                      \
        return !base;                                                                          \
    }                                                                                          \
    static int load_##BITS(const bench_run_t *run, pgas_gptr_t there)                          \
    {                                                                                          \
        char *base = pgas_gptr_local(there, BENCH_WINDOW_BYTES);                               \
        uint64_t sum = 0;                                                                      \
        for (uint64_t i = 0, n = run->iters; base && i < n; i++) {                             \
            sum += __atomic_load_n((uint##BITS##_t *)(void *)(base + bench_walk(i, BITS / 8)), \
                                   __ATOMIC_RELAXED);                                          \
            bench_step();                                                                      \
        }                                                                                      \
        bench_use(sum);                                                                        \
        return !base;                                                                          \
    }
TYPED(8)
TYPED(16)
TYPED(32)
TYPED(64)

static size_t small_offset(uint64_t i, size_t bytes)
{
    return bytes < BENCH_STRIDE_MASK ? bench_walk(i, bytes) : 0;
}

static int put_bulk(const bench_run_t *run, pgas_gptr_t there)
{
    int bad = 0;
    for (uint64_t i = 0; i < run->iters; i++) {
        bad |= pgas_put(there + small_offset(i, run->bytes), private_base, run->bytes);
        bad |= complete(run);
        bench_step();
    }
    return bad;
}

static int get_bulk(const bench_run_t *run, pgas_gptr_t there)
{
    int bad = 0;
    for (uint64_t i = 0; i < run->iters; i++) {
        bad |= pgas_get(private_base, there + small_offset(i, run->bytes), run->bytes);
        bench_step();
    }
    return bad;
}

static int store_bulk(const bench_run_t *run, pgas_gptr_t there)
{
    char *base = pgas_gptr_local(there, BENCH_WINDOW_BYTES);
    for (uint64_t i = 0; base && i < run->iters; i++) {
        memcpy(base + small_offset(i, run->bytes), private_base, run->bytes);
        bench_step();
    }
    return !base;
}

static int load_bulk(const bench_run_t *run, pgas_gptr_t there)
{
    char *base = pgas_gptr_local(there, BENCH_WINDOW_BYTES);
    for (uint64_t i = 0; base && i < run->iters; i++) {
        memcpy(private_base, base + small_offset(i, run->bytes), run->bytes);
        bench_step();
    }
    return !base;
}

typedef int (*loop_fn_t)(const bench_run_t *run, pgas_gptr_t there);

/* One kind of loop for each size: 1, 2, 4, 8 bytes, any other. */
typedef struct {
    loop_fn_t by_size[5];
} loops_t;

static const loops_t plain_puts = { { put_8, put_16, put_32, put_64, put_bulk } };
static const loops_t flushed_puts = { { put_flush_8, put_flush_16, put_flush_32, put_flush_64,
                                        put_bulk } };
static const loops_t plain_gets = { { get_8, get_16, get_32, get_64, get_bulk } };
static const loops_t stores = { { store_8, store_16, store_32, store_64, store_bulk } };
static const loops_t loads = { { load_8, load_16, load_32, load_64, load_bulk } };

static loop_fn_t pick(const loops_t *loops, size_t bytes)
{
    switch (bytes) {
    case 1:
        return loops->by_size[0];
    case 2:
        return loops->by_size[1];
    case 4:
        return loops->by_size[2];
    case 8:
        return loops->by_size[3];
    default:
        return loops->by_size[4];
    }
}

static double timed(const bench_run_t *run, loop_fn_t loop)
{
    uint64_t begin = bench_now();
    if (!run->active)
        return 0;
    if (loop(run, pgas_gptr_at(window, run->peer)) != 0)
        bench_die("an operation on %zu bytes failed", run->bytes);
    return bench_since(begin);
}

double rma_put(const bench_run_t *run)
{
    return timed(run, pick(run->far ? &flushed_puts : &plain_puts, run->bytes));
}

double rma_get(const bench_run_t *run)
{
    return timed(run, pick(&plain_gets, run->bytes));
}

double rma_put_bulk(const bench_run_t *run)
{
    return timed(run, put_bulk);
}

double rma_get_bulk(const bench_run_t *run)
{
    return timed(run, get_bulk);
}

double rma_store(const bench_run_t *run)
{
    return timed(run, pick(&stores, run->bytes));
}

double rma_load(const bench_run_t *run)
{
    return timed(run, pick(&loads, run->bytes));
}

/* ---- windows ---- */

static uint64_t slots_of(const bench_run_t *run)
{
    return run->arg ? 1 : bench_slots(run->bytes);
}

static int put_window(const bench_run_t *run, pgas_gptr_t there)
{
    uint64_t slots = slots_of(run), slot = 0;
    int bad = 0;
    for (uint64_t i = 0; i < run->iters; i++) {
        size_t at = slot * run->bytes;
        bad |= pgas_put_nb(there + at, private_base + at, run->bytes, PGAS_LOCAL, NULL);
        slot = slot + 1 < slots ? slot + 1 : 0;
        if ((i + 1) % BENCH_WINDOW_OPS == 0)
            bad |= pgas_flush(run->peer);
    }
    return bad | pgas_flush(run->peer);
}

static int get_window(const bench_run_t *run, pgas_gptr_t there)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    uint64_t slots = slots_of(run), slot = 0;
    int bad = 0;
    for (uint64_t i = 0; i < run->iters; i++) {
        size_t at = slot * run->bytes;
        bad |= pgas_get_nb(private_base + at, there + at, run->bytes, &done);
        slot = slot + 1 < slots ? slot + 1 : 0;
        if ((i + 1) % BENCH_WINDOW_OPS == 0)
            bad |= pgas_sync_wait(&done, -1);
    }
    return bad | pgas_sync_wait(&done, -1);
}

/* pgas_put returns at local completion, as do the puts of raw UCX and MPI in the references. */
static int put_stream(const bench_run_t *run, pgas_gptr_t there)
{
    bench_run_t part = *run;
    loop_fn_t loop = pick(&plain_puts, run->bytes);
    uint64_t left = run->iters;
    int bad = 0;
    part.far = false; /* no flush inside */
    while (left > 0) {
        part.iters = left < BENCH_WINDOW_OPS ? left : BENCH_WINDOW_OPS;
        bad |= loop(&part, there) | pgas_flush(run->peer);
        left -= part.iters;
    }
    return bad;
}

/* Started operations return PGAS_INPROGRESS or PGAS_OK; errors are negative. */
static double timed_nb(const bench_run_t *run, loop_fn_t loop)
{
    uint64_t begin = bench_now();
    if (!run->active)
        return 0;
    if (loop(run, pgas_gptr_at(window, run->peer)) < 0)
        bench_die("an operation on %zu bytes failed", run->bytes);
    return bench_since(begin);
}

double rma_put_window(const bench_run_t *run)
{
    return timed_nb(run, put_window);
}

double rma_get_window(const bench_run_t *run)
{
    return timed_nb(run, get_window);
}

double rma_put_stream(const bench_run_t *run)
{
    return timed_nb(run, put_stream);
}
