/* Latency of atomics on a word of the peer, complete before the next; and of all ranks on one word.
 * Also the time in which a lock is acquired and released: the peer's, and that of rank 0 by all
 * ranks. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <stdlib.h>
#include <string.h>

static pgas_gptr_t words;
static pgas_lock_t mine, *lock; /* the lock that this rank made; of all ranks */

static void setup(void)
{
    lock = bench_table((size_t)pgas_n_ranks() * sizeof *lock);
    bench_check(pgas_lock_create(&mine), "pgas_lock_create");
    bench_check(pgas_allgather(NULL, &mine, lock, sizeof mine), "pgas_allgather");
    bench_check(pgas_alloc(64, &words), "pgas_alloc");
    memset(pgas_gptr_local(words, 64), 0, 64);
}

static void teardown(void)
{
    bench_check(pgas_free(words), "pgas_free");
    bench_check(pgas_quiesce(), "pgas_quiesce"); /* releases have arrived */
    bench_check(pgas_lock_destroy(mine), "pgas_lock_destroy");
    free(lock);
}

/* One operation. Between nodes a flush completes operations that do not fetch. */
static inline __attribute__((always_inline)) int atomic_once(pgas_gptr_t word, int amo,
                                                             uint64_t value, int flush_rank)
{
    uint64_t old = 0;
    uint32_t old32 = 0;
    int bad;
    switch (amo) {
    case BENCH_FADD64:
        bad = pgas_fetch_op_u64(word, PGAS_ADD, value, &old);
        break;
    case BENCH_ADD64:
        bad = pgas_update_u64(word, PGAS_ADD, value);
        break;
    case BENCH_XOR64:
        bad = pgas_update_u64(word, PGAS_XOR, value);
        break;
    case BENCH_SWAP64:
        bad = pgas_fetch_op_u64(word, PGAS_SWAP, value, &old);
        break;
    case BENCH_CSWAP64:
        bad = pgas_compare_swap_u64(word, value, value + 1, &old);
        break;
    default:
        bad = pgas_fetch_op_u32(word, PGAS_ADD, (uint32_t)value, &old32);
        old = old32;
    }
    bench_use(old);
    if (flush_rank >= 0 && (amo == BENCH_ADD64 || amo == BENCH_XOR64))
        bad |= pgas_flush(flush_rank);
    return bad;
}

static double atomic_loop(const bench_run_t *run, pgas_gptr_t word)
{
    int bad = 0, flush_rank = run->far ? pgas_gptr_rank(word) : -1;
    uint64_t begin = bench_now();
#define LOOP(AMO)                                         \
    case AMO:                                             \
        for (uint64_t i = 0; i < run->iters; i++)         \
            bad |= atomic_once(word, AMO, i, flush_rank); \
        break
    switch (run->arg) {
        LOOP(BENCH_FADD64);
        LOOP(BENCH_ADD64);
        LOOP(BENCH_XOR64);
        LOOP(BENCH_SWAP64);
        LOOP(BENCH_CSWAP64);
        LOOP(BENCH_FADD32);
    }
    if (bad)
        bench_die("an atomic failed");
    return bench_since(begin);
}

static double at_peer(const bench_run_t *run)
{
    return run->active ? atomic_loop(run, pgas_gptr_at(words, run->peer)) : 0;
}

static double at_one(const bench_run_t *run)
{
    return atomic_loop(run, pgas_gptr_at(words, 0));
}

static double lock_loop(const bench_run_t *run, pgas_lock_t of)
{
    int bad = 0;
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        bad |= pgas_lock_acquire(of, -1, NULL);
        bad |= pgas_lock_release(of);
    }
    if (bad)
        bench_die("a lock failed");
    return bench_since(begin);
}

static double lock_of_peer(const bench_run_t *run)
{
    return run->active ? lock_loop(run, lock[run->peer]) : 0;
}

static double lock_of_one(const bench_run_t *run)
{
    return lock_loop(run, lock[0]);
}

#define MEMORY_UCX                         \
    { "limit", BENCH_MEMORY, ref_atomic }, \
    {                                      \
        "ucx", BENCH_UCX, ref_ucx_atomic   \
    }
#define OP(NAME, AMO, BYTES, DOC, ...)                                              \
    {                                                                               \
        .variant = NAME, .doc = DOC, .paths = BENCH_ANYWHERE, .ours = at_peer,      \
        .refs = { __VA_ARGS__ }, .min_bytes = BYTES, .max_bytes = BYTES, .arg = AMO \
    }

static const bench_case_t cases[] = {
    OP("fadd", BENCH_FADD64, 8, "fetch-add", MEMORY_UCX, { "mpi", BENCH_MPI, ref_mpi_atomic }),
    OP("fadd32", BENCH_FADD32, 4, "fetch-add of 32 bits", MEMORY_UCX,
       { "mpi", BENCH_MPI, ref_mpi_atomic }),
    OP("add", BENCH_ADD64, 8, "add, nothing fetched", MEMORY_UCX),
    OP("xor", BENCH_XOR64, 8, "xor, nothing fetched", MEMORY_UCX),
    OP("swap", BENCH_SWAP64, 8, "swap", MEMORY_UCX, { "mpi", BENCH_MPI, ref_mpi_atomic }),
    OP("cswap", BENCH_CSWAP64, 8, "compare and swap", MEMORY_UCX),
    { .variant = "hot",
      .doc = "fetch-add, all ranks on one word",
      .paths = BENCH_ANYWHERE,
      .ours = at_one,
      .refs = { { "limit", BENCH_MEMORY, ref_atomic_hot } },
      .min_bytes = 8,
      .max_bytes = 8,
      .both_ways = true,
      .arg = BENCH_FADD64 },
    { .variant = "lock",
      .doc = "a lock is acquired and released",
      .paths = BENCH_ANYWHERE,
      .ours = lock_of_peer,
      .refs = { { "mpi", BENCH_MPI, ref_mpi_lock } } },
    { .variant = "lock-hot",
      .doc = "the same, all ranks with one lock",
      .paths = BENCH_ANYWHERE,
      .ours = lock_of_one,
      .refs = { { "mpi", BENCH_MPI, ref_mpi_lock } },
      .both_ways = true,
      .arg = 1 },
};

static const bench_program_t program = { .name = "pgas_atomic",
                                         .doc = "time of an atomic operation, and of a lock",
                                         .ranks = BENCH_PAIR,
                                         .label = "Latency",
                                         .min_bytes = 8,
                                         .max_bytes = 8,
                                         BENCH_CASES(cases),
                                         .setup = setup,
                                         .teardown = teardown };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
