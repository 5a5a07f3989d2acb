/* Index gather: every rank reads random elements of all ranks' tables by aggregated calls, and
 * handlers answer by aggregated calls. The kernel ig of bale.
 *
 * A request carries the index at the owner and the index at the reader; an answer carries the index
 * at the reader and the value. Handlers have an aggregator of their own, and batch forms, which
 * fetch elements ahead; the plain cases have none. The many cases read the symmetric heap by
 * pgas_get_many instead. A round ends when all answers have come, and every value is checked. The
 * figure is elements read, per rank. */
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

static pgas_handler_t read_one, take_one, read_some, take_some;
static pgas_agg_t *agg, *answers;
static uint64_t *table, *got, *want;
/* of the many cases: the table in the symmetric heap, and where the reads go */
static pgas_gptr_t shared, *place;

static void run_read_one(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    request_t request;
    answer_t answer;
    pgas_status_t status;
    int rank = pgas_thread_rank(source);
    (void)bytes;
    (void)context;
    memcpy(&request, args, sizeof request);
    answer.place = request.place;
    answer.value = table[request.index];
    status = pgas_agg_call(answers, rank, take_one, &answer, sizeof answer);
    if (status != PGAS_OK)
        bench_die("an answer could not be sent: %s", pgas_status_text(status));
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

static inline int answer_one(const request_t *request, int rank)
{
    answer_t answer = { request->place, table[request->index] };
    return pgas_agg_call(answers, rank, take_some, &answer, sizeof answer);
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
    bench_check(pgas_handler_register("bench.read", run_read_one, NULL, NULL, &read_one),
                "pgas_handler_register");
    bench_check(pgas_handler_register("bench.take", run_take_one, NULL, NULL, &take_one),
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
    bench_check(pgas_alloc(TABLE_MAX * sizeof *table, &shared), "pgas_alloc");
    for (uint64_t i = 0; i < TABLE_MAX; i++)
        table[i] = element((uint64_t)pgas_rank(), i);
    bench_check(pgas_put(shared, table, TABLE_MAX * sizeof *table), "pgas_put");
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
}

/* All rounds with tables of this length use the same draws. */
static void draw(const bench_run_t *run)
{
    static int drawn_for;
    if (drawn_for == run->arg)
        return;
    bench_draw_places(want, READS, run);
    for (size_t i = 0; i < READS; i++)
        place[i] = pgas_gptr_elem(pgas_gptr_at(shared, (int)(want[i] & BENCH_RANK_MASK)),
                                  (int64_t)(want[i] >> BENCH_RANK_BITS), sizeof *table);
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

/* Reads the elements drawn, part by part. The time of the checks does not count. */
static double loop(const bench_run_t *run, pgas_handler_t handler)
{
    double elapsed = 0;
    draw(run);
    for (uint64_t left = run->iters, n; left > 0; left -= n) {
        uint64_t begin;
        int bad = 0;
        n = left < READS ? left : READS;
        bench_check(pgas_barrier(NULL), "pgas_barrier");
        begin = bench_now();
        for (uint64_t i = 0; i < n; i++) {
            request_t request = { want[i] >> BENCH_RANK_BITS, i };
            bad |= pgas_agg_call(agg, (int)(want[i] & BENCH_RANK_MASK), handler, &request,
                                 sizeof request);
        }
        bad |= pgas_quiesce();
        elapsed += bench_since(begin);
        if (bad)
            bench_die("a request failed");
        check_reads(n);
    }
    return elapsed;
}

static double loop_many(const bench_run_t *run)
{
    double elapsed = 0;
    draw(run);
    for (uint64_t left = run->iters, n; left > 0; left -= n) {
        pgas_sync_t done = PGAS_SYNC_INIT;
        n = left < READS ? left : READS;
        bench_check(pgas_barrier(NULL), "pgas_barrier");
        uint64_t begin = bench_now();
        int bad = pgas_get_many(got, place, sizeof *got, n, &done);
        bad |= pgas_sync_wait(&done, -1);
        elapsed += bench_since(begin);
        if (bad)
            bench_die("a read failed");
        check_reads(n);
    }
    return elapsed;
}

static double loop_batch(const bench_run_t *run)
{
    return loop(run, read_some);
}

static double loop_plain(const bench_run_t *run)
{
    return loop(run, read_one);
}

#define LIMIT                                \
    {                                        \
        "limit", BENCH_MEMORY, ref_ring_both \
    }
#define CALLS                           \
    {                                   \
        "calls", BENCH_OURS, loop_batch \
    } /* the handlers written by hand */
#define ELEMENTS(N, TEXT, LOOP, ...)                                                               \
    {                                                                                              \
        .variant = TEXT, .doc = TEXT " elements on each rank", .paths = BENCH_ANYWHERE,            \
        .metric = BENCH_RATE_EACH, .ours = LOOP, .refs = { __VA_ARGS__ }, .arg = N, .round_ms = 10 \
    }

static const bench_case_t cases[] = {
    ELEMENTS(10000, "10000", loop_batch, LIMIT),
    ELEMENTS(TABLE_MAX, "1000000", loop_batch, LIMIT),
    ELEMENTS(10000, "plain-10000", loop_plain, LIMIT, CALLS),
    ELEMENTS(TABLE_MAX, "plain-1000000", loop_plain, LIMIT, CALLS),
    ELEMENTS(10000, "many-10000", loop_many, LIMIT, CALLS),
    ELEMENTS(TABLE_MAX, "many-1000000", loop_many, LIMIT, CALLS)
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
