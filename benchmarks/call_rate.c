/* Calls one way, until the last has run: each sent at once (send), also with a completion counter
 * in the heap (counter) or on the stack (counter-stack); gathered by the aggregator and run one by
 * one (trad) or by a batch handler (trad-batch); or sent at once, and gathered only while the
 * channel is full (ovfl). */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <string.h>

static pgas_handler_t add_item, add_items, done;
static volatile uint64_t n_items, n_done;
static pgas_agg_t *agg, *overflow;
static char args_block[16384];
static pgas_sync_t *counter; /* in the heap */
static pgas_gptr_t counter_at;

/* Uses the first word, as the receivers of the references do. */
static void run_add_item(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t item = 0;
    (void)source;
    (void)context;
    memcpy(&item, args, bytes < sizeof item ? bytes : sizeof item);
    bench_use(item);
    n_items++;
}

static void run_add_items(const void *args, size_t bytes, size_t stride, size_t n,
                          pgas_thread_t source, void *context)
{
    const char *at = args;
    size_t word = bytes < sizeof(uint64_t) ? bytes : sizeof(uint64_t);
    (void)source;
    (void)context;
    for (size_t i = 0; i < n; i++) {
        uint64_t item = 0;
        memcpy(&item, at + i * stride, word == sizeof item ? sizeof item : word);
        bench_use(item);
    }
    n_items += n;
}

static void run_done(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_done++;
}

static void prepare(void)
{
    pgas_handler_opts_t opts = PGAS_HANDLER_OPTS_INIT;
    opts.batch = run_add_items;
    bench_check(pgas_handler_register("bench.items", run_add_item, NULL, &opts, &add_items),
                "pgas_handler_register");
    bench_check(pgas_handler_register("bench.item", run_add_item, NULL, NULL, &add_item),
                "pgas_handler_register");
    bench_check(pgas_handler_register("bench.done", run_done, NULL, NULL, &done),
                "pgas_handler_register");
}

static void setup(void)
{
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    opts.style = PGAS_AGG_OVERFLOW;
    bench_check(pgas_agg_create(NULL, &agg), "pgas_agg_create");
    bench_check(pgas_agg_create(&opts, &overflow), "pgas_agg_create");
    bench_check(pgas_alloc(sizeof *counter, &counter_at), "pgas_alloc");
    counter = pgas_gptr_local(counter_at, sizeof *counter);
    *counter = (pgas_sync_t)PGAS_SYNC_INIT;
}

static void teardown(void)
{
    bench_check(pgas_agg_destroy(agg), "pgas_agg_destroy");
    bench_check(pgas_agg_destroy(overflow), "pgas_agg_destroy");
    bench_check(pgas_free(counter_at), "pgas_free");
}

typedef enum { SEND, TRAD, OVFL } style_t;

static inline __attribute__((always_inline)) int
send_call(style_t style, int peer, pgas_handler_t handler, const void *args, size_t bytes)
{
    pgas_status_t status;
    if (style == SEND)
        return pgas_call(peer, handler, args, bytes, NULL);
    if (style == TRAD)
        return pgas_agg_call(agg, peer, handler, args, bytes);
    while ((status = pgas_agg_call(overflow, peer, handler, args, bytes)) == PGAS_ERR_AGAIN)
        pgas_progress();
    return status;
}

static inline __attribute__((always_inline)) int send_calls(const bench_run_t *run, style_t style,
                                                            pgas_handler_t handler, size_t bytes)
{
    int bad = 0, peer = run->peer;
    uint64_t item;
    for (uint64_t i = 0, n = run->iters; i < n; i++) {
        if (bytes <= sizeof item) {
            item = i;
            bad |= send_call(style, peer, handler, &item, bytes);
        } else {
            memcpy(args_block, &i, sizeof i);
            bad |= send_call(style, peer, handler, args_block, bytes);
        }
    }
    return style == SEND ? bad : bad | pgas_agg_flush(agg, peer, NULL);
}

static int send_by_size(const bench_run_t *run, style_t style, pgas_handler_t handler)
{
    int bad = 0;
#define SENDS(SIZE)                                 \
    if (style == SEND)                              \
        bad = send_calls(run, SEND, handler, SIZE); \
    else if (style == TRAD)                         \
        bad = send_calls(run, TRAD, handler, SIZE); \
    else                                            \
        bad = send_calls(run, OVFL, handler, SIZE)
    BENCH_BY_SIZE(run->bytes, SENDS);
    return bad;
}

static double one_way(const bench_run_t *run, style_t style, pgas_handler_t handler)
{
    uint64_t items = n_items, dones = n_done, begin;
    int bad = 0;
    /* no rank calls before the other has read the counters */
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    begin = bench_now();
    if (run->active) {
        bad = send_by_size(run, style, handler);
        while (n_done == dones)
            pgas_progress();
    } else {
        while (n_items != items + run->iters)
            pgas_progress();
        bad = pgas_call(run->peer, done, NULL, 0, NULL);
    }
    if (bad)
        bench_die("a call of %zu bytes failed", run->bytes);
    return run->active ? bench_since(begin) : 0;
}

static double send_direct(const bench_run_t *run)
{
    return one_way(run, SEND, add_item);
}

static double send_gathered(const bench_run_t *run)
{
    return one_way(run, TRAD, add_item);
}

static double send_batches(const bench_run_t *run)
{
    return one_way(run, TRAD, add_items);
}

static double send_overflow(const bench_run_t *run)
{
    return one_way(run, OVFL, add_item);
}

/* Each call names a counter; the round ends when the counter is zero. */
static inline __attribute__((always_inline)) int count_calls(const bench_run_t *run, size_t bytes,
                                                             pgas_sync_t *sync)
{
    int bad = 0, peer = run->peer;
    for (uint64_t i = 0, n = run->iters; i < n; i++) {
        if (bytes <= sizeof i) {
            uint64_t item = i;
            bad |= pgas_call(peer, add_item, &item, bytes, sync);
        } else {
            memcpy(args_block, &i, sizeof i);
            bad |= pgas_call(peer, add_item, args_block, bytes, sync);
        }
    }
    return bad | pgas_sync_wait(sync, -1);
}

static double send_counted(const bench_run_t *run)
{
    uint64_t items = n_items, begin;
    pgas_sync_t on_stack = PGAS_SYNC_INIT, *sync = run->arg ? counter : &on_stack;
    int bad = 0;
    /* no rank calls before the other has read the counters */
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    begin = bench_now();
#define COUNTS(SIZE) bad = count_calls(run, SIZE, sync)
    if (run->active)
        BENCH_BY_SIZE(run->bytes, COUNTS);
    while (!run->active && n_items != items + run->iters)
        pgas_progress();
    if (bad)
        bench_die("a call of %zu bytes failed", run->bytes);
    return run->active ? bench_since(begin) : 0;
}

#define COUNTED(VARIANT, DOC, IN_HEAP)                                                 \
    {                                                                                  \
        .variant = VARIANT, .doc = DOC, .paths = BENCH_ANYWHERE, .metric = BENCH_RATE, \
        .ours = send_counted, .arg = IN_HEAP, .refs = {                                \
            { "send", BENCH_OURS, send_direct }                                        \
        }                                                                              \
    }

static const bench_case_t cases[] = {
    { .variant = "send",
      .doc = "pgas_call, each published at once",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_RATE,
      .ours = send_direct,
      .refs = { { "limit", BENCH_MEMORY, ref_ring_slots },
                { "ucx", BENCH_UCX, ref_ucx_am_rate },
                { "mpi", BENCH_MPI, ref_mpi_isend } } },
    COUNTED("counter", "pgas_call, each with a completion counter in the heap", 1),
    COUNTED("counter-stack", "the same with a counter on the stack", 0),
    { .variant = "trad",
      .doc = "pgas_agg_call, published late",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_RATE,
      .ours = send_gathered,
      .refs = { { "limit", BENCH_MEMORY, ref_ring_packed },
                { "ucx", BENCH_UCX, ref_ucx_am_rate },
                { "mpi-batches", BENCH_MPI, ref_mpi_batches } } },
    { .variant = "trad-batch",
      .doc = "the same, run by a batch handler",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_RATE,
      .ours = send_batches,
      .refs = { { "limit", BENCH_MEMORY, ref_ring_packed },
                { "ucx", BENCH_UCX, ref_ucx_am_rate },
                { "mpi-batches", BENCH_MPI, ref_mpi_batches } } },
    { .variant = "ovfl",
      .doc = "pgas_agg_call, each published at once, gathered while the channel is full",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_RATE,
      .ours = send_overflow,
      .refs = { { "limit", BENCH_MEMORY, ref_ring_slots },
                { "write", BENCH_OURS, send_direct },
                { "ucx", BENCH_UCX, ref_ucx_am_rate },
                { "mpi", BENCH_MPI, ref_mpi_isend } } },
};

static const bench_program_t program = { .name = "pgas_call_rate",
                                         .doc = "rate of remote calls, one way",
                                         .ranks = BENCH_PAIR,
                                         .label = "Rate",
                                         .min_bytes = 8,
                                         .max_bytes = 4096,
                                         BENCH_CASES(cases),
                                         .prepare = prepare,
                                         .setup = setup,
                                         .teardown = teardown };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
