/* Calls one way, until the last has run: each published at once (send), or gathered by the aggregator (trad), run one by one
 * or by a batch handler (trad-batch). */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <string.h>

static pgas_handler_t add_item, add_items, done;
static volatile uint64_t n_items, n_done;
static pgas_agg_t *agg;
static char args_block[16384];

/* Looks at the first word, as the receivers of the references do. */
static void run_add_item(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t item = 0;
    (void)source;
    (void)context;
    memcpy(&item, args, bytes < sizeof(item) ? bytes : sizeof(item));
    bench_use(item);
    n_items++;
}

static void run_add_items(const void *args, size_t bytes, size_t stride, size_t n, pgas_thread_t source, void *context)
{
    const char *at = args;
    size_t word = bytes < sizeof(uint64_t) ? bytes : sizeof(uint64_t);
    (void)source;
    (void)context;
    for (size_t i = 0; i < n; i++) {
        uint64_t item = 0;
        memcpy(&item, at + i * stride, word == sizeof(item) ? sizeof(item) : word);
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
    bench_check(pgas_handler_register_opts("bench.items", run_add_item, NULL, &opts, &add_items),
                "pgas_handler_register_opts");
    bench_check(pgas_handler_register("bench.item", run_add_item, NULL, &add_item), "pgas_handler_register");
    bench_check(pgas_handler_register("bench.done", run_done, NULL, &done), "pgas_handler_register");
}

static void setup(void)
{
    bench_check(pgas_agg_create(NULL, &agg), "pgas_agg_create");
}

static void teardown(void)
{
    bench_check(pgas_agg_destroy(agg), "pgas_agg_destroy");
}

static inline __attribute__((always_inline)) int send_calls(const bench_run_t *run, bool gather, pgas_handler_t handler,
                                                            size_t bytes)
{
    int bad = 0, peer = run->peer;
    uint64_t item;
    for (uint64_t i = 0, n = run->iters; i < n; i++) {
        if (bytes <= sizeof(item)) {
            item = i;
            bad |= gather ? pgas_agg_call(agg, peer, handler, &item, bytes)
                          : pgas_call(peer, handler, &item, bytes, NULL);
        } else {
            memcpy(args_block, &i, sizeof(i));
            bad |= gather ? pgas_agg_call(agg, peer, handler, args_block, bytes)
                          : pgas_call(peer, handler, args_block, bytes, NULL);
        }
    }
    return gather ? bad | pgas_agg_flush(agg, peer) : bad;
}

static int send_by_size(const bench_run_t *run, bool gather, pgas_handler_t handler)
{
    int bad = 0;
#define SEND(SIZE) bad = gather ? send_calls(run, true, handler, SIZE) : send_calls(run, false, handler, SIZE)
    BENCH_BY_SIZE(run->bytes, SEND);
    return bad;
}

static double one_way(const bench_run_t *run, bool gather, pgas_handler_t handler)
{
    uint64_t items = n_items, dones = n_done, begin;
    int bad = 0;
    bench_check(pgas_barrier(NULL), "pgas_barrier"); /* nobody calls before the other has looked at the counters */
    begin = bench_now();
    if (run->active) {
        bad = send_by_size(run, gather, handler);
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
    return one_way(run, false, add_item);
}

static double send_gathered(const bench_run_t *run)
{
    return one_way(run, true, add_item);
}

static double send_batches(const bench_run_t *run)
{
    return one_way(run, true, add_items);
}

static const bench_case_t cases[] = {
    {.variant = "send",
     .doc = "pgas_call, each published at once",
     .paths = BENCH_ANYWHERE,
     .metric = BENCH_RATE,
     .ours = send_direct,
     .refs = {{"limit", BENCH_MEMORY, ref_ring_slots},
              {"ucx", BENCH_UCX, ref_ucx_am_rate},
              {"mpi", BENCH_MPI, ref_mpi_isend}}},
    {.variant = "trad",
     .doc = "pgas_agg_call, published late",
     .paths = BENCH_ANYWHERE,
     .metric = BENCH_RATE,
     .ours = send_gathered,
     .refs = {{"limit", BENCH_MEMORY, ref_ring_packed},
              {"ucx", BENCH_UCX, ref_ucx_am_rate},
              {"mpi-batches", BENCH_MPI, ref_mpi_batches}}},
    {.variant = "trad-batch",
     .doc = "the same, run by a batch handler",
     .paths = BENCH_ANYWHERE,
     .metric = BENCH_RATE,
     .ours = send_batches,
     .refs = {{"limit", BENCH_MEMORY, ref_ring_packed},
              {"ucx", BENCH_UCX, ref_ucx_am_rate},
              {"mpi-batches", BENCH_MPI, ref_mpi_batches}}},
};

static const bench_program_t program = {.name = "pgas_call_rate",
                                        .doc = "rate of remote calls, one way",
                                        .ranks = BENCH_PAIR,
                                        .label = "Rate",
                                        .min_bytes = 8,
                                        .max_bytes = 4096,
                                        .cases = cases,
                                        .n_cases = sizeof(cases) / sizeof(cases[0]),
                                        .prepare = prepare,
                                        .setup = setup,
                                        .teardown = teardown};

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
