/* Random updates: every rank xors random words of all ranks' tables, 64 MiB each. This is HPCC's
 * RandomAccess without its look-ahead: updates are sent one by one. The xor of all tables must be
 * that of all updates, except in the variant that may lose some, as HPCC's may. The figure is the
 * rate per rank; a thousand of these M/s are one GUPS. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <string.h>

#define WORDS (BENCH_TABLE_BYTES / sizeof(uint64_t))

static pgas_gptr_t tables;
static pgas_handler_t xor_word;
static pgas_agg_t *agg;
static uint64_t *my_table;

typedef struct {
    uint64_t index;
    uint64_t value;
} update_t;

static void run_xor_word(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    update_t update;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&update, args, sizeof update);
    my_table[update.index] ^= update.value;
}

static void prepare(void)
{
    bench_check(pgas_handler_register("bench.xor", run_xor_word, NULL, NULL, &xor_word),
                "pgas_handler_register");
}

static void setup(void)
{
    bench_check(pgas_alloc(BENCH_TABLE_BYTES, &tables), "pgas_alloc");
    my_table = pgas_gptr_local(tables, BENCH_TABLE_BYTES);
    memset(my_table, 0, BENCH_TABLE_BYTES);
    bench_check(pgas_agg_create(NULL, &agg), "pgas_agg_create");
    bench_check(pgas_barrier(NULL), "pgas_barrier");
}

static void teardown(void)
{
    bench_check(pgas_agg_destroy(agg), "pgas_agg_destroy");
    bench_check(pgas_free(tables), "pgas_free");
}

static int xor_atomic(int rank, uint64_t index, uint64_t value)
{
    return pgas_update_u64(pgas_gptr_at(tables, rank) + index * sizeof(uint64_t), PGAS_XOR, value);
}

static int get_and_put(int rank, uint64_t index, uint64_t value)
{
    pgas_gptr_t word = pgas_gptr_at(tables, rank) + index * sizeof(uint64_t);
    uint64_t old = 0;
    int bad = pgas_get_u64(word, &old);
    return bad | pgas_put_u64(word, old ^ value);
}

static int xor_call(int rank, uint64_t index, uint64_t value)
{
    update_t update = { index, value };
    return pgas_agg_call(agg, rank, xor_word, &update, sizeof update);
}

/* The xor of all tables, which become 0. */
static uint64_t collect(void)
{
    uint64_t mine = 0, all = 0;
    for (size_t i = 0; i < WORDS; i++)
        mine ^= my_table[i];
    memset(my_table, 0, BENCH_TABLE_BYTES);
    bench_check(pgas_allreduce(NULL, &mine, &all, 1, PGAS_U64, PGAS_XOR), "pgas_allreduce");
    return all;
}

typedef int (*update_fn_t)(int rank, uint64_t index, uint64_t value);

static inline __attribute__((always_inline)) double loop(const bench_run_t *run, update_fn_t fn,
                                                         bool exact)
{
    uint64_t state = bench_seed(run->rank), sum = 0, all = 0, begin;
    uint32_t n_ranks = (uint32_t)run->n_ranks;
    double elapsed;
    int bad = 0;
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        uint64_t value = bench_random(&state);
        bad |= fn((int)(((value >> 32) * n_ranks) >> 32), value & (WORDS - 1), value);
        sum ^= value;
    }
    bad |= pgas_flush_all();
    bad |= pgas_quiesce();
    elapsed = bench_since(begin);
    bench_check(pgas_allreduce(NULL, &sum, &all, 1, PGAS_U64, PGAS_XOR), "pgas_allreduce");
    if (collect() != all && exact)
        bench_die("the tables do not hold what the updates give");
    if (bad)
        bench_die("an update failed");
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    return elapsed;
}

static double by_atomics(const bench_run_t *run)
{
    return loop(run, xor_atomic, true);
}

static double by_get_put(const bench_run_t *run)
{
    return loop(run, get_and_put, run->n_ranks == 1);
}

static double by_calls(const bench_run_t *run)
{
    return loop(run, xor_call, true);
}

#define UPDATES(NAME, DOC, LOOP)                                                            \
    {                                                                                       \
        .variant = NAME, .doc = DOC, .paths = BENCH_ANYWHERE, .metric = BENCH_RATE_EACH,    \
        .ours = LOOP, .refs = { { "limit", BENCH_MEMORY, ref_random_xor } }, .round_ms = 30 \
    }

static const bench_case_t cases[] = {
    UPDATES("", "atomic xor", by_atomics),
    UPDATES("get-put", "get, xor, put: not atomic, may lose updates", by_get_put),
    UPDATES("trad", "aggregated calls", by_calls),
};

static const bench_program_t program = { .name = "pgas_gups",
                                         .doc = "random updates of 64 MiB on each rank",
                                         .ranks = BENCH_ANY,
                                         .label = "Rate per rank",
                                         .min_bytes = 8,
                                         .max_bytes = 8,
                                         BENCH_CASES(cases),
                                         .prepare = prepare,
                                         .setup = setup,
                                         .teardown = teardown };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
