/* Histogram: every rank adds to random counters of all ranks by aggregated calls. The kernel histo
 * of bale.
 *
 * The handler is written by hand, with a batch form that fetches counters ahead, or it is a typed
 * handler, whose batch form is generated. Counters are distributed block by block, `arg` on each
 * rank; an update is one call with the index of the counter. The many and single cases update words
 * of the symmetric heap instead, by pgas_update_many or one by one. A round ends when all updates
 * of all ranks are done. Then the sum of the counters must be the number of updates. The figure is
 * updates, per rank.
 *
 * The array cases apply to elements of a distributed array, whose cache has ARRAY_LINES lines. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <stdlib.h>
#include <string.h>

#define COUNTERS_MAX 1000000
#define UPDATES      (1 << 20) /* updates drawn; longer rounds use them again */
#define ARRAY_EACH   (COUNTERS_MAX / 512 * 512 + 512) /* elements of each rank, whole chunks */
#define ARRAY_LINES  32                               /* of 512 counters */
#define AT_ONCE      4096                             /* updates of a pgas_array_update_many */
#define AHEAD        32 /* updates whose counters are on their way from memory */

static pgas_handler_t add_some;
static pgas_agg_t *agg;
static uint64_t *counters, *update;
/* of the many and single cases: counters of all ranks, this rank's part of them, where the
 * updates go; plain pointers to the parts of all ranks */
static pgas_gptr_t shared, *place;
static uint64_t *own, **raw;
static pgas_array_t *array; /* NULL: no case has used it yet */
static uint64_t *element, *ones;

/* The typed form. */
PGAS_HANDLER(add_one, uint32_t)
{
    counters[*arg]++;
}

static void run_add_one(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t index;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&index, args, sizeof index);
    counters[index]++;
}

static void run_add_some(const void *args, size_t bytes, size_t stride, size_t n,
                         pgas_thread_t source, void *context)
{
    const uint64_t *index = args;
    uint64_t *at = counters;
    size_t i = 0;
    (void)bytes;
    (void)stride; /* 8, as bytes */
    (void)source;
    (void)context;
    for (; i < n && i < AHEAD; i++)
        __builtin_prefetch(&at[index[i]], 1);
    for (; i < n; i++) {
        __builtin_prefetch(&at[index[i]], 1);
        at[index[i - AHEAD]]++;
    }
    for (i = n < AHEAD ? 0 : n - AHEAD; i < n; i++)
        at[index[i]]++;
}

static void prepare(void)
{
    pgas_handler_opts_t opts = PGAS_HANDLER_OPTS_INIT;
    opts.batch = run_add_some;
    bench_check(pgas_handler_register("bench.histo-batch", run_add_one, NULL, &opts, &add_some),
                "pgas_handler_register");
}

static void setup(void)
{
    counters = bench_table(COUNTERS_MAX * sizeof *counters);
    update = bench_table(UPDATES * sizeof *update);
    place = bench_table(UPDATES * sizeof *place);
    bench_check(pgas_alloc(COUNTERS_MAX * sizeof *own, &shared), "pgas_alloc");
    own = pgas_gptr_local(shared, COUNTERS_MAX * sizeof *own);
    memset(own, 0, COUNTERS_MAX * sizeof *own);
    raw = bench_addresses(shared, COUNTERS_MAX * sizeof *own);
    bench_check(pgas_agg_create(NULL, &agg), "pgas_agg_create");
    bench_check(pgas_barrier(NULL), "pgas_barrier");
}

static void teardown(void)
{
    if (array)
        bench_check(pgas_array_destroy(array), "pgas_array_destroy");
    free(element);
    free(ones);
    bench_check(pgas_agg_destroy(agg), "pgas_agg_destroy");
    bench_check(pgas_free(shared), "pgas_free");
    free(counters);
    free(update);
    free(place);
    free(raw);
}

/* The same for elements of the array. */
static uint64_t collect_array(void)
{
    static uint64_t zeros[ARRAY_EACH];
    uint64_t first, n, sum = 0, *now;
    if (!array)
        return 0;
    now = bench_table(ARRAY_EACH * sizeof *now);
    bench_check(pgas_array_range(array, -1, &first, &n), "pgas_array_range");
    bench_check(pgas_array_load(array, first, n, now), "pgas_array_load");
    for (uint64_t i = 0; i < n; i++)
        sum += now[i];
    bench_check(pgas_array_store(array, first, n, zeros), "pgas_array_store");
    free(now);
    return sum;
}

/* The sum of the n counters of each rank, which become 0. */
static uint64_t collect(size_t n)
{
    uint64_t sum = collect_array(), total = 0;
    for (size_t i = 0; i < n; i++)
        sum += counters[i] + own[i];
    memset(counters, 0, n * sizeof *counters);
    memset(own, 0, n * sizeof *own);
    bench_check(pgas_allreduce(NULL, &sum, &total, 1, PGAS_U64, PGAS_ADD), "pgas_allreduce");
    return total;
}

/* All rounds with tables of this length use the same draws. */
static void draw(const bench_run_t *run)
{
    static int drawn_for;
    if (drawn_for == run->arg)
        return;
    bench_draw_places(update, UPDATES, run);
    for (size_t i = 0; i < UPDATES; i++)
        place[i] = pgas_gptr_elem(pgas_gptr_at(shared, bench_place_rank(update[i])),
                                  (int64_t)bench_place_index(update[i]), sizeof *own);
    drawn_for = run->arg;
}

static void open_array(const bench_run_t *run)
{
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    if (array)
        return;
    opts.cache_bytes = ARRAY_LINES * 512 * sizeof *own;
    bench_check(pgas_array_create(NULL, sizeof *own, ARRAY_EACH * (uint64_t)run->n_ranks, &opts,
                                  &array),
                "pgas_array_create");
    element = bench_table(UPDATES * sizeof *element);
    ones = bench_table(AT_ONCE * sizeof *ones);
    for (size_t i = 0; i < AT_ONCE; i++)
        ones[i] = 1;
    for (size_t i = 0; i < UPDATES; i++)
        element[i] =
            (uint64_t)bench_place_rank(update[i]) * ARRAY_EACH + bench_place_index(update[i]);
}

/* All updates of a round must have arrived. */
static void check_round(const bench_run_t *run, int bad)
{
    uint64_t total = collect((size_t)run->arg), all = run->iters * (uint64_t)run->n_ranks;
    if (bad || total != all)
        bench_die("%llu updates arrived of %llu", (unsigned long long)total,
                  (unsigned long long)all);
}

/* One way of adding 1 to the counters of the first n updates. */
typedef int (*add_fn_t)(size_t n);

/* Each loop has its way inlined, as in a program. */
PGAS_INLINE double loop(const bench_run_t *run, add_fn_t add)
{
    int bad = 0;
    draw(run);
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    uint64_t begin = bench_now();
    for (uint64_t left = run->iters, n; left > 0; left -= n) {
        n = left < UPDATES ? left : UPDATES;
        bad |= add(n);
    }
    bad |= pgas_quiesce();
    double elapsed = bench_since(begin);
    check_round(run, bad);
    return elapsed;
}

/* ---- ways ---- */

static int add_batch(size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t index = bench_place_index(update[i]);
        bad |= pgas_agg_call(agg, bench_place_rank(update[i]), add_some, &index, sizeof index);
    }
    return bad;
}

static int add_typed(size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t index = (uint32_t)bench_place_index(update[i]);
        bad |= pgas_agg_add_one(agg, bench_place_rank(update[i]), &index);
    }
    return bad;
}

static int add_many(size_t n)
{
    return pgas_update_many(place, PGAS_ADD, PGAS_U64, NULL, n);
}

static int add_single(size_t n)
{
    const pgas_gptr_t *to = place;
    int bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= pgas_update_u64(to[i], PGAS_ADD, 1);
    return bad | pgas_flush_all();
}

static int add_array_many(size_t n)
{
    int bad = 0;
    for (size_t i = 0, some; i < n; i += some) {
        some = n - i < AT_ONCE ? n - i : AT_ONCE;
        bad |= pgas_array_update_many(array, element + i, some, PGAS_OP(PGAS_ADD, PGAS_U64), ones);
    }
    return bad;
}

static int add_array_single(size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= pgas_array_apply_u64(array, element[i], PGAS_ADD, 1);
    return bad;
}

static int add_raw(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t *at = raw[bench_place_rank(update[i])];
        __atomic_fetch_add(&at[bench_place_index(update[i])], 1, __ATOMIC_RELAXED);
    }
    return 0;
}

static int add_alltoallv(size_t n)
{
    ref_alltoallv_add(counters, update, n);
    return 0;
}

#define LOOP(WAY)                                    \
    static double loop_##WAY(const bench_run_t *run) \
    {                                                \
        return loop(run, add_##WAY);                 \
    }
LOOP(batch)
LOOP(typed)
LOOP(many)
LOOP(single)
LOOP(raw)
LOOP(alltoallv)

/* A barrier does not send the operands that are still on this rank. They are less than one in 64 of
 * a round, and the sum that follows reads them. */
#define ARRAY_LOOP(WAY)                                    \
    static double loop_array_##WAY(const bench_run_t *run) \
    {                                                      \
        draw(run);                                         \
        open_array(run);                                   \
        return loop(run, add_array_##WAY);                 \
    }
ARRAY_LOOP(many)
ARRAY_LOOP(single)

#define REF(NAME, KIND, FN) \
    {                       \
        NAME, KIND, FN      \
    }
#define LIMIT     REF("limit", BENCH_MEMORY, ref_ring_both)
#define CALLS     REF("calls", BENCH_OURS, loop_batch) /* the handler written by hand */
#define RAW       REF("raw", BENCH_RAW, loop_raw)
#define ALLTOALLV REF("alltoallv", BENCH_MPI, loop_alltoallv)
#define COUNTERS(N, TEXT, LOOP, ...)                                                               \
    {                                                                                              \
        .variant = TEXT, .doc = TEXT " counters on each rank", .paths = BENCH_ANYWHERE,            \
        .metric = BENCH_RATE_EACH, .ours = LOOP, .refs = { __VA_ARGS__ }, .arg = N, .round_ms = 10 \
    }

#define ARRAY(TEXT, LOOP)                                                                    \
    {                                                                                        \
        .variant = TEXT, .doc = TEXT ": 1000000 counters on each rank, a cache of 16384",    \
        .paths = BENCH_ANYWHERE, .metric = BENCH_RATE_EACH, .ours = LOOP, .refs = { CALLS }, \
        .arg = COUNTERS_MAX, .round_ms = 100                                                 \
    }

static const bench_case_t cases[] = {
    COUNTERS(10000, "10000", loop_batch, LIMIT, ALLTOALLV),
    COUNTERS(COUNTERS_MAX, "1000000", loop_batch, LIMIT, ALLTOALLV),
    COUNTERS(10000, "typed-10000", loop_typed, LIMIT, CALLS, ALLTOALLV),
    COUNTERS(COUNTERS_MAX, "typed-1000000", loop_typed, LIMIT, CALLS, ALLTOALLV),
    COUNTERS(10000, "many-10000", loop_many, LIMIT, CALLS, RAW, ALLTOALLV),
    COUNTERS(COUNTERS_MAX, "many-1000000", loop_many, LIMIT, CALLS, RAW, ALLTOALLV),
    COUNTERS(10000, "single-10000", loop_single, RAW, ALLTOALLV),
    COUNTERS(COUNTERS_MAX, "single-1000000", loop_single, RAW, ALLTOALLV),
    ARRAY("array-many", loop_array_many),
    ARRAY("array-single", loop_array_single)
};

static const bench_program_t program = { .name = "pgas_histo",
                                         .doc = "aggregated updates of random counters",
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
