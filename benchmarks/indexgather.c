/* Index gather: every rank reads random elements of all ranks' tables by aggregated calls, and
 * handlers answer by aggregated calls. The kernel ig of bale.
 *
 * A request carries the index at the owner and the index at the reader; an answer carries the index
 * at the reader and the value. Handlers have an aggregator of their own. They are written by hand,
 * with batch forms that fetch elements ahead, or they are typed handlers with generated ones. The
 * many and single cases read the symmetric heap instead, by pgas_get_many or one by one. The put
 * cases write the elements instead, and the program then reads them back. A round ends when all
 * answers have come, and every value is checked. The figure is elements, per rank. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_MAX 1000000
#define READS     (1 << 20) /* reads drawn; longer rounds use them again */
#define AHEAD     16        /* requests whose elements are on their way from memory */

typedef struct {
    uint64_t index;
    uint64_t place;
} request_t;

typedef struct {
    uint64_t place;
    uint64_t value;
} answer_t;

static pgas_handler_t read_some, take_some;
static pgas_agg_t *agg, *answers;
static uint64_t *table, *got, *want;
/* of the many, single and put cases: the table in the symmetric heap, this rank's part, where the
 * reads go, the values there, and plain pointers to the parts of all ranks */
static pgas_gptr_t shared, *place;
static uint64_t *own, *values, **raw;

/* ---- the typed form ---- */

typedef struct {
    uint32_t index;
    uint32_t place;
} typed_request_t;

typedef struct {
    uint64_t value;
    uint32_t place;
} typed_answer_t;

PGAS_HANDLER(take_typed, typed_answer_t)
{
    got[arg->place] = arg->value;
}

PGAS_HANDLER(read_typed, typed_request_t)
{
    typed_answer_t answer = { table[arg->index], arg->place };
    bench_check(pgas_agg_take_typed(answers, pgas_thread_rank(source), &answer),
                "pgas_agg_take_typed");
}

/* ---- the form written by hand ---- */

static inline pgas_status_t answer_one(const request_t *request, int rank)
{
    answer_t answer = { request->place, table[request->index] };
    return pgas_agg_call(answers, rank, take_some, &answer, sizeof answer);
}

static void run_read_one(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    request_t request;
    (void)bytes;
    (void)context;
    memcpy(&request, args, sizeof request);
    bench_check(answer_one(&request, pgas_thread_rank(source)), "pgas_agg_call");
}

static void run_take_one(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    answer_t answer;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&answer, args, sizeof answer);
    got[answer.place] = answer.value;
}

static void run_read_some(const void *args, size_t bytes, size_t stride, size_t n,
                          pgas_thread_t source, void *context)
{
    const request_t *request = args;
    int bad = 0, rank = pgas_thread_rank(source);
    (void)bytes;
    (void)stride; /* 16, as bytes */
    (void)context;
    for (size_t i = 0; i < n && i < AHEAD; i++)
        __builtin_prefetch(&table[request[i].index]);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(&table[request[i + AHEAD].index]);
        bad |= answer_one(&request[i], rank);
    }
    if (bad)
        bench_die("an answer could not be sent");
}

static void run_take_some(const void *args, size_t bytes, size_t stride, size_t n,
                          pgas_thread_t source, void *context)
{
    const answer_t *answer = args;
    (void)bytes;
    (void)stride;
    (void)source;
    (void)context;
    for (size_t i = 0; i < n; i++)
        got[answer[i].place] = answer[i].value;
}

static void prepare(void)
{
    pgas_handler_opts_t opts = PGAS_HANDLER_OPTS_INIT;
    opts.batch = run_read_some;
    bench_check(pgas_handler_register("bench.read-batch", run_read_one, NULL, &opts, &read_some),
                "pgas_handler_register");
    opts.batch = run_take_some;
    bench_check(pgas_handler_register("bench.take-batch", run_take_one, NULL, &opts, &take_some),
                "pgas_handler_register");
}

/* The element, computed from rank and index. */
static uint64_t element(uint64_t rank, uint64_t index)
{
    return (rank << 32) + index * 3 + 1;
}

static void setup(void)
{
    pgas_agg_opts_t for_handlers = PGAS_AGG_OPTS_INIT;
    for_handlers.for_handlers = true;
    table = bench_table(TABLE_MAX * sizeof *table);
    got = bench_table(READS * sizeof *got);
    want = bench_table(READS * sizeof *want);
    place = bench_table(READS * sizeof *place);
    values = bench_table(READS * sizeof *values);
    bench_check(pgas_alloc(TABLE_MAX * sizeof *table, &shared), "pgas_alloc");
    own = pgas_gptr_local(shared, TABLE_MAX * sizeof *own);
    raw = bench_addresses(shared, TABLE_MAX * sizeof *own);
    for (uint64_t i = 0; i < TABLE_MAX; i++)
        own[i] = table[i] = element((uint64_t)pgas_rank(), i);
    bench_check(pgas_agg_create(NULL, &agg), "pgas_agg_create");
    bench_check(pgas_agg_create(&for_handlers, &answers), "pgas_agg_create");
    bench_check(pgas_barrier(NULL), "pgas_barrier");
}

static void teardown(void)
{
    bench_check(pgas_agg_destroy(agg), "pgas_agg_destroy");
    bench_check(pgas_agg_destroy(answers), "pgas_agg_destroy");
    bench_check(pgas_free(shared), "pgas_free");
    free(table);
    free(got);
    free(want);
    free(place);
    free(values);
    free(raw);
}

/* All rounds with tables of this length use the same draws. */
static void draw(const bench_run_t *run)
{
    static int drawn_for;
    if (drawn_for == run->arg)
        return;
    bench_draw_places(want, READS, run);
    for (size_t i = 0; i < READS; i++) {
        uint64_t rank = want[i] & BENCH_RANK_MASK, index = want[i] >> BENCH_RANK_BITS;
        place[i] = pgas_gptr_elem(pgas_gptr_at(shared, (int)rank), (int64_t)index, sizeof *table);
        values[i] = element(rank, index);
    }
    drawn_for = run->arg;
}

/* Checks the values of the last n reads. */
static void check_reads(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t right = element(want[i] & BENCH_RANK_MASK, want[i] >> BENCH_RANK_BITS);
        if (got[i] != right)
            bench_die("read %llu gave %llu, not %llu", (unsigned long long)i,
                      (unsigned long long)got[i], (unsigned long long)right);
    }
    memset(got, 0, n * sizeof *got);
}

/* One way to transfer the first n elements drawn. */
typedef int (*transfer_fn_t)(size_t n);

/* The time of one part. Each loop has its way inlined, as in a program. */
PGAS_INLINE double part(transfer_fn_t transfer, size_t n)
{
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    uint64_t begin = bench_now();
    int bad = transfer(n);
    bad |= pgas_quiesce();
    double elapsed = bench_since(begin);
    if (bad)
        bench_die("a transfer failed");
    return elapsed;
}

/* The time of the checks does not count. */
PGAS_INLINE double read_parts(const bench_run_t *run, transfer_fn_t get)
{
    double elapsed = 0;
    draw(run);
    for (uint64_t left = run->iters, n; left > 0; left -= n) {
        n = left < READS ? left : READS;
        elapsed += part(get, n);
        check_reads(n);
    }
    return elapsed;
}

static int get_many(size_t n)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    int bad = pgas_get_many(got, place, sizeof *got, n, &done);
    return bad | pgas_sync_wait(&done, -1);
}

/* Elements are 0 before each part, and are read back after it. */
PGAS_INLINE double write_parts(const bench_run_t *run, transfer_fn_t put)
{
    size_t bytes = (size_t)run->arg * sizeof *own;
    double elapsed = 0;
    draw(run);
    for (uint64_t left = run->iters, n; left > 0; left -= n) {
        n = left < READS ? left : READS;
        memset(own, 0, bytes);
        elapsed += part(put, n);
        bench_check(pgas_barrier(NULL), "pgas_barrier");
        if (get_many(n))
            bench_die("a read failed");
        check_reads(n);
        bench_check(pgas_barrier(NULL), "pgas_barrier");
        memcpy(own, table, bytes);
    }
    return elapsed;
}

/* ---- ways ---- */

static int get_batch(size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        request_t request = { bench_place_index(want[i]), i };
        bad |= pgas_agg_call(agg, bench_place_rank(want[i]), read_some, &request, sizeof request);
    }
    return bad;
}

static int get_typed(size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        typed_request_t request = { (uint32_t)bench_place_index(want[i]), (uint32_t)i };
        bad |= pgas_agg_read_typed(agg, bench_place_rank(want[i]), &request);
    }
    return bad;
}

static int get_single(size_t n)
{
    const pgas_gptr_t *from = place;
    uint64_t *to = got;
    int bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= pgas_get_u64(from[i], &to[i]);
    return bad;
}

static int get_raw(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t *at = raw[bench_place_rank(want[i])];
        got[i] = __atomic_load_n(&at[bench_place_index(want[i])], __ATOMIC_RELAXED);
    }
    return 0;
}

static int get_alltoallv(size_t n)
{
    ref_alltoallv_get(got, table, want, n);
    return 0;
}

static int put_many(size_t n)
{
    return pgas_put_many(place, values, sizeof *values, n, NULL);
}

static int put_single(size_t n)
{
    const pgas_gptr_t *to = place;
    const uint64_t *from = values;
    int bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= pgas_put_u64(to[i], from[i]);
    return bad | pgas_flush_all();
}

static int put_raw(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t *at = raw[bench_place_rank(want[i])];
        __atomic_store_n(&at[bench_place_index(want[i])], values[i], __ATOMIC_RELAXED);
    }
    return 0;
}

static int put_alltoallv(size_t n)
{
    ref_alltoallv_put(own, values, want, n);
    return 0;
}

#define LOOP(PARTS, WAY)                             \
    static double loop_##WAY(const bench_run_t *run) \
    {                                                \
        return PARTS(run, WAY);                      \
    }
LOOP(read_parts, get_batch)
LOOP(read_parts, get_typed)
LOOP(read_parts, get_many)
LOOP(read_parts, get_single)
LOOP(read_parts, get_raw)
LOOP(read_parts, get_alltoallv)
LOOP(write_parts, put_many)
LOOP(write_parts, put_single)
LOOP(write_parts, put_raw)
LOOP(write_parts, put_alltoallv)

#define REF(NAME, KIND, FN) \
    {                       \
        NAME, KIND, FN      \
    }
#define LIMIT         REF("limit", BENCH_MEMORY, ref_ring_both)
#define CALLS         REF("calls", BENCH_OURS, loop_get_batch) /* the handlers written by hand */
#define RAW(DO)       REF("raw", BENCH_RAW, loop_##DO##_raw)
#define ALLTOALLV(DO) REF("alltoallv", BENCH_MPI, loop_##DO##_alltoallv)
#define ELEMENTS(N, TEXT, LOOP, ...)                                                               \
    {                                                                                              \
        .variant = TEXT, .doc = TEXT " elements on each rank", .paths = BENCH_ANYWHERE,            \
        .metric = BENCH_RATE_EACH, .ours = LOOP, .refs = { __VA_ARGS__ }, .arg = N, .round_ms = 10 \
    }

static const bench_case_t cases[] = {
    ELEMENTS(10000, "10000", loop_get_batch, LIMIT, ALLTOALLV(get)),
    ELEMENTS(TABLE_MAX, "1000000", loop_get_batch, LIMIT, ALLTOALLV(get)),
    ELEMENTS(10000, "typed-10000", loop_get_typed, LIMIT, CALLS, ALLTOALLV(get)),
    ELEMENTS(TABLE_MAX, "typed-1000000", loop_get_typed, LIMIT, CALLS, ALLTOALLV(get)),
    ELEMENTS(10000, "many-10000", loop_get_many, LIMIT, CALLS, RAW(get), ALLTOALLV(get)),
    ELEMENTS(TABLE_MAX, "many-1000000", loop_get_many, LIMIT, CALLS, RAW(get), ALLTOALLV(get)),
    ELEMENTS(10000, "single-10000", loop_get_single, RAW(get), ALLTOALLV(get)),
    ELEMENTS(TABLE_MAX, "single-1000000", loop_get_single, RAW(get), ALLTOALLV(get)),
    ELEMENTS(10000, "put-many-10000", loop_put_many, RAW(put), ALLTOALLV(put)),
    ELEMENTS(TABLE_MAX, "put-many-1000000", loop_put_many, RAW(put), ALLTOALLV(put)),
    ELEMENTS(10000, "put-single-10000", loop_put_single, RAW(put), ALLTOALLV(put)),
    ELEMENTS(TABLE_MAX, "put-single-1000000", loop_put_single, RAW(put), ALLTOALLV(put))
};

static const bench_program_t program = { .name = "pgas_indexgather",
                                         .doc = "aggregated reads of random elements",
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
