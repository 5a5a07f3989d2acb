/* Invocation, as in the table of Seriema's paper: calls of 8, 64 and 256 bytes one way, until the
 * last has run, beside max-raw, the bare ring or transport without a call or a copy.
 *
 * Columns are ways to call: send (as a message), write (through the thread's own channel, one by
 * one), trad (gathered, sent late), batch (the same with a batch handler), ovfl (at once, and
 * gathered only while the peer is full); threads-*: several pairs of threads on the same cores. The
 * handler adds the first word of each call to a sum, as the readers of the references do. The last
 * call of a round carries the sum that must have arrived. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEND, WRITE, TRAD, BATCH, OVFL };

/* The state of one thread's rounds. Fields that handlers write have a cache line of their own. */
typedef struct {
    _Alignas(128) uint64_t sum;     /* sum of the items of this round that ran here */
    uint64_t n_ended, n_answered;   /* rounds whose last call ran here; whose answer came back */
    _Alignas(128) uint64_t n_begun; /* rounds, at both ends */
    char args[256];
} state_t;

static const size_t sizes[] = { 8, 64, 256, 0 };
static pgas_handler_t add_item, add_items, end_round, answer;
static pgas_agg_t *main_agg, *main_overflow;
static state_t state[BENCH_TEAM_MAX];

static state_t *state_of(pgas_thread_t source)
{
    return &state[pgas_thread_slot(source) % BENCH_TEAM_MAX];
}

/* Each handler is within one cache line of code: a loop over a handler that is across two lines is
 * slower by a tenth. */
#define IN_LINE __attribute__((aligned(64)))

static IN_LINE void run_add_item(const void *args, size_t bytes, pgas_thread_t source,
                                 void *context)
{
    uint64_t item;
    (void)bytes;
    (void)context;
    memcpy(&item, args, sizeof item);
    state_of(source)->sum += item;
}

/* The batch form. */
static IN_LINE void run_add_items(const void *args, size_t bytes, size_t stride, size_t n,
                                  pgas_thread_t source, void *context)
{
    uint64_t item, sum = 0;
    (void)bytes;
    (void)context;
    for (size_t i = 0; i < n; i++) {
        memcpy(&item, (const char *)args + i * stride, sizeof item);
        sum += item;
    }
    state_of(source)->sum += sum;
}

static void run_end_round(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    state_t *mine = state_of(source);
    uint64_t sum;
    (void)bytes;
    (void)context;
    memcpy(&sum, args, sizeof sum);
    if (sum != mine->sum)
        bench_die("calls were lost, or ran twice");
    mine->sum = 0;
    __atomic_store_n(&mine->n_ended, mine->n_ended + 1, __ATOMIC_RELEASE);
}

static void run_answer(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t thread;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&thread, args, sizeof thread);
    __atomic_store_n(&state[thread].n_answered, state[thread].n_answered + 1, __ATOMIC_RELEASE);
}

static void prepare(void)
{
    pgas_handler_opts_t opts = PGAS_HANDLER_OPTS_INIT;
    opts.batch = run_add_items;
    bench_check(pgas_handler_register("bench.item", run_add_item, NULL, NULL, &add_item),
                "pgas_handler_register");
    bench_check(pgas_handler_register("bench.items", run_add_item, NULL, &opts, &add_items),
                "pgas_handler_register");
    bench_check(pgas_handler_register("bench.end", run_end_round, NULL, NULL, &end_round),
                "pgas_handler_register");
    bench_check(pgas_handler_register("bench.answer", run_answer, NULL, NULL, &answer),
                "pgas_handler_register");
}

/* The calling thread's aggregator for a way; NULL: the way needs none. */
static pgas_agg_t *make_agg(int way)
{
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    pgas_agg_t *agg = NULL;
    opts.style = way == OVFL ? PGAS_AGG_OVERFLOW : PGAS_AGG_TRAD;
    if (way == TRAD || way == BATCH || way == OVFL)
        bench_check(pgas_agg_create(&opts, &agg), "pgas_agg_create");
    return agg;
}

static void setup(void)
{
    main_agg = make_agg(TRAD);
    main_overflow = make_agg(OVFL);
}

static void teardown(void)
{
    bench_check(pgas_agg_destroy(main_overflow), "pgas_agg_destroy");
    bench_check(pgas_agg_destroy(main_agg), "pgas_agg_destroy");
}

/* ---- one pair of threads ---- */

/* Tries again while the limit of waiting calls is reached. */
static __attribute__((noinline, cold)) int invoke_again(pgas_agg_t *agg, int peer, const void *args,
                                                        size_t bytes)
{
    int status = PGAS_ERR_AGAIN;
    while (status == PGAS_ERR_AGAIN) {
        pgas_progress();
        status = pgas_agg_call(agg, peer, add_item, args, bytes);
    }
    return status;
}

static inline __attribute__((always_inline)) int invoke(int way, pgas_agg_t *agg, int peer,
                                                        const void *args, size_t bytes)
{
    static const pgas_call_opts_t as_message = { .size = sizeof as_message, .way = PGAS_WAY_SEND };
    switch (way) {
    case SEND:
        return pgas_call_to(pgas_on_rank(peer), add_item, args, bytes, &as_message);
    case WRITE:
        return pgas_call(peer, add_item, args, bytes, NULL);
    case OVFL: {
        int status = pgas_agg_call(agg, peer, add_item, args, bytes);
        if (__builtin_expect(status == PGAS_ERR_AGAIN, 0)) {
            uint64_t word = 0; /* a copy keeps the arguments in a register */
            if (bytes == sizeof word)
                memcpy(&word, args, sizeof word);
            status = invoke_again(agg, peer, bytes == sizeof word ? &word : args, bytes);
        }
        return status;
    }
    default:
        return pgas_agg_call(agg, peer, way == BATCH ? add_items : add_item, args, bytes);
    }
}

static inline __attribute__((always_inline)) int invoke_all(const bench_run_t *run, int way,
                                                            pgas_agg_t *agg, size_t bytes)
{
    char *args = state[run->thread].args;
    int bad = 0, peer = run->peer;
    for (uint64_t i = 0, n = run->iters; i < n; i++) {
        if (bytes == sizeof i) {
            uint64_t item = i;
            bad |= invoke(way, agg, peer, &item, bytes);
        } else {
            memcpy(args, &i, sizeof i);
            bad |= invoke(way, agg, peer, args, bytes);
        }
    }
    return bad;
}

static int invoke_by_size(const bench_run_t *run, int way, pgas_agg_t *agg)
{
    int bad = 0;
#define INVOKE(SIZE)                             \
    if (way == SEND)                             \
        bad = invoke_all(run, SEND, agg, SIZE);  \
    else if (way == WRITE)                       \
        bad = invoke_all(run, WRITE, agg, SIZE); \
    else if (way == TRAD)                        \
        bad = invoke_all(run, TRAD, agg, SIZE);  \
    else if (way == OVFL)                        \
        bad = invoke_all(run, OVFL, agg, SIZE);  \
    else                                         \
        bad = invoke_all(run, BATCH, agg, SIZE)
    BENCH_BY_SIZE(run->bytes, INVOKE);
    return bad;
}

static void await_round(const uint64_t *count, uint64_t number)
{
    while (__atomic_load_n(count, __ATOMIC_ACQUIRE) != number)
        pgas_progress();
}

/* The last call is sent in the same way as the others, so that it runs after them. */
static int send_round(const bench_run_t *run, state_t *mine)
{
    uint64_t sum = run->iters * (run->iters - 1) / 2; /* as the sum itself, modulo 2^64 */
    pgas_call_opts_t as_message = { .size = sizeof as_message, .way = PGAS_WAY_SEND };
    pgas_agg_t *agg = run->arg == OVFL ? main_overflow : main_agg;
    int bad = 0;
    if (run->thread != 0) /* it belongs to its thread */
        agg = make_agg(run->arg);
    bad |= invoke_by_size(run, run->arg, agg);
    if (run->arg == SEND) {
        bad |= pgas_call_to(pgas_on_rank(run->peer), end_round, &sum, sizeof sum, &as_message);
    } else if (run->arg == WRITE) {
        bad |= pgas_call(run->peer, end_round, &sum, sizeof sum, NULL);
    } else {
        int status;
        while ((status = pgas_agg_call(agg, run->peer, end_round, &sum, sizeof sum)) ==
               PGAS_ERR_AGAIN)
            pgas_progress();
        bad |= status;
        bad |= pgas_agg_flush(agg, run->peer, NULL);
    }
    await_round(&mine->n_answered, mine->n_begun);
    if (run->thread != 0)
        bad |= pgas_agg_destroy(agg);
    return bad;
}

static double one_way(const bench_run_t *run)
{
    state_t *mine = &state[run->thread];
    uint64_t begin = bench_now(), thread = (uint64_t)run->thread;
    int bad;
    mine->n_begun++;
    if (run->active) {
        bad = send_round(run, mine);
    } else {
        await_round(&mine->n_ended, mine->n_begun);
        bad = pgas_call(run->peer, answer, &thread, sizeof thread, NULL);
    }
    if (bad)
        bench_die("a call of %zu bytes failed", run->bytes);
    return run->active ? bench_since(begin) : 0;
}

static double one_way_write(const bench_run_t *run)
{
    bench_run_t write = *run;
    write.arg = WRITE;
    return one_way(&write);
}

static double team_one_way(const bench_run_t *run)
{
    return bench_team(run, run->team, one_way);
}

/* ---- cases ---- */

#define PAIR(VARIANT, DOC, PATH, WAY, RAW, ...)                                                    \
    {                                                                                              \
        .variant = VARIANT, .doc = DOC, .paths = PATH, .metric = BENCH_BANDWIDTH, .ours = one_way, \
        .refs = { RAW, __VA_ARGS__ }, .arg = WAY                                                   \
    }
#define TEAM(VARIANT, DOC, PATH, WAY, ...)                                                  \
    {                                                                                       \
        .variant = VARIANT, .doc = DOC, .paths = PATH, .metric = BENCH_BANDWIDTH,           \
        .ours = team_one_way, .refs = { { "one-pair", BENCH_OURS, one_way }, __VA_ARGS__ }, \
        .arg = WAY, .round_ms = 20                                                          \
    }

#define SLOTS                                   \
    {                                           \
        "max-raw", BENCH_MEMORY, ref_ring_slots \
    }
#define PACKED                                   \
    {                                            \
        "max-raw", BENCH_MEMORY, ref_ring_packed \
    }
#define PUT_SLOTS                                \
    {                                            \
        "max-raw", BENCH_UCX, ref_ucx_ring_slots \
    }
#define PUT_BLOCKS                                \
    {                                             \
        "max-raw", BENCH_UCX, ref_ucx_ring_blocks \
    }
#define PUTS                                  \
    {                                         \
        "puts", BENCH_UCX, ref_ucx_put_window \
    }
#define BLOCKS                                \
    {                                         \
        "puts", BENCH_UCX, ref_ucx_put_blocks \
    }
#define MESSAGES                          \
    {                                     \
        "ucx", BENCH_UCX, ref_ucx_am_rate \
    }
#define BATCHES                                   \
    {                                             \
        "mpi-batches", BENCH_MPI, ref_mpi_batches \
    }
#define NONE                   \
    {                          \
        NULL, BENCH_OURS, NULL \
    }

static const bench_case_t cases[] = {
    PAIR("send", "as messages, against ring slots and messages of UCX", BENCH_NODE, SEND, SLOTS,
         MESSAGES),
    PAIR("send", "as messages, against puts and messages of UCX", BENCH_FAR, SEND, PUT_SLOTS,
         MESSAGES),
    PAIR("write", "one by one, against ring slots", BENCH_NODE, WRITE, SLOTS, NONE),
    PAIR("write", "one by one, against puts that are read, and that nobody reads", BENCH_FAR, WRITE,
         PUT_SLOTS, PUTS),
    PAIR("trad", "gathered, against a packed ring", BENCH_NODE, TRAD, PACKED, BATCHES),
    PAIR("trad", "gathered, against puts of 4 KiB that are read, and that nobody reads", BENCH_FAR,
         TRAD, PUT_BLOCKS, BLOCKS, BATCHES),
    PAIR("batch", "gathered, batch handler, against a packed ring", BENCH_NODE, BATCH, PACKED,
         BATCHES),
    PAIR("batch", "gathered, batch handler, against puts of 4 KiB", BENCH_FAR, BATCH, PUT_BLOCKS,
         BLOCKS, BATCHES),
    PAIR("ovfl", "at once, gathered while the peer is full, against ring slots", BENCH_NODE, OVFL,
         SLOTS, { "write", BENCH_OURS, one_way_write }),
    PAIR("ovfl", "at once, gathered while the peer is full, against puts that are read", BENCH_FAR,
         OVFL, PUT_SLOTS, { "write", BENCH_OURS, one_way_write }),
    TEAM("threads-write", "one by one, --threads pairs of threads", BENCH_NODE, WRITE,
         { "max-raw", BENCH_MEMORY, ref_team_slots }),
    TEAM("threads-write", "one by one, --threads pairs of threads", BENCH_FAR, WRITE, NONE),
    TEAM("threads-trad", "gathered, --threads pairs of threads", BENCH_NODE, TRAD,
         { "max-raw", BENCH_MEMORY, ref_team_packed }),
    TEAM("threads-trad", "gathered, --threads pairs of threads", BENCH_FAR, TRAD, NONE),
};
#define N_CASES (sizeof cases / sizeof cases[0])

/* ---- the table ---- */

#define N_SIZES (sizeof sizes / sizeof sizes[0] - 1)
static struct {
    double mbs, raw, ratio;
} cell[N_CASES][N_SIZES];

static void keep(const bench_case_t *c, size_t bytes, const char *against, double median,
                 double ratio)
{
    for (size_t s = 0; s < N_SIZES; s++) {
        if (sizes[s] == bytes && !*against)
            cell[c - cases][s].mbs = median;
        if (sizes[s] == bytes && strcmp(against, "max-raw") == 0) {
            cell[c - cases][s].raw = median;
            cell[c - cases][s].ratio = ratio;
        }
    }
}

/* The figure of case k at size s in the table. */
typedef double (*figure_fn_t)(size_t k, size_t s);
static double mbs(size_t k, size_t s)
{
    return cell[k][s].mbs;
}
static double raw_mbs(size_t k, size_t s)
{
    return cell[k][s].raw;
}
static double calls(size_t k, size_t s)
{
    return cell[k][s].mbs / (double)sizes[s];
}
static double part(size_t k, size_t s)
{
    return cell[k][s].ratio;
}

static bool was_run(size_t k)
{
    for (size_t s = 0; s < N_SIZES; s++)
        if (cell[k][s].mbs > 0)
            return true;
    return false;
}

static bool size_was_run(size_t s)
{
    for (size_t k = 0; k < N_CASES; k++)
        if (cell[k][s].mbs > 0)
            return true;
    return false;
}

static void print_table(const char *title, figure_fn_t figure)
{
    printf("# Table: %s\n# Size    ", title);
    for (size_t k = 0; k < N_CASES; k++)
        if (was_run(k))
            printf("%20s", cases[k].variant);
    printf("\n");
    for (size_t s = 0; s < N_SIZES; s++) {
        if (!size_was_run(s))
            continue;
        printf("%-10zu", sizes[s]);
        for (size_t k = 0; k < N_CASES; k++)
            if (was_run(k))
                printf("%20.2f", figure(k, s));
        printf("\n");
    }
}

/* The share of channels that have taken further chunks, from the text of every rank. */
static void print_share(const char *all, int n_ranks, size_t stride)
{
    unsigned long long n, grown, n_all = 0, n_grown = 0;
    for (int r = 0; r < n_ranks; r++) {
        const char *at = strstr(all + (size_t)r * stride, "channels into it ");
        if (at && sscanf(at, "channels into it %llu, of which %llu", &n, &grown) == 2) {
            n_all += n;
            n_grown += grown;
        }
    }
    if (n_all > 0)
        printf("# Stats: %llu of %llu channels took further chunks, %.1f %%\n", n_grown, n_all,
               100 * (double)n_grown / (double)n_all);
}

/* The library counts the use of channels. */
static void print_stats(const bench_run_t *run)
{
    enum { TEXT = 4096 };
    char *text = NULL, mine[TEXT], *all = calloc((size_t)run->n_ranks, TEXT), *rest, *line;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    if (!all || !stream)
        bench_die("out of memory");
    bench_check(pgas_stats_print(stream), "pgas_stats_print");
    fclose(stream);
    memset(mine, 0, sizeof mine);
    memcpy(mine, text, bytes < TEXT ? bytes : TEXT - 1);
    bench_check(pgas_allgather(NULL, mine, all, TEXT), "pgas_allgather");
    if (run->rank == 0)
        print_share(all, run->n_ranks, TEXT);
    for (int r = 0; run->rank == 0 && r < run->n_ranks; r++)
        for (rest = all + (size_t)r * TEXT; (line = strtok_r(rest, "\n", &rest)) != NULL;)
            printf("# Stats: %s\n", line);
    free(text);
    free(all);
}

static void finish(const bench_run_t *run, bool json)
{
    if (json)
        return;
    if (run->rank == 0) {
        print_table("MB/s", mbs);
        print_table("MB/s of max-raw", raw_mbs);
        print_table("million calls a second", calls);
        print_table("part of max-raw", part);
    }
    print_stats(run);
}

static const bench_program_t program = { .name = "pgas_invoke",
                                         .doc =
                                             "remote invocation, as the table of Seriema's paper",
                                         .ranks = BENCH_PAIR,
                                         .label = "Calls",
                                         .min_bytes = 8,
                                         .max_bytes = 256,
                                         .cases = cases,
                                         .n_cases = N_CASES,
                                         .prepare = prepare,
                                         .setup = setup,
                                         .teardown = teardown,
                                         .sizes = sizes,
                                         .compare = true,
                                         .threads = true,
                                         .paper_iters = 65000000,
                                         .result = keep,
                                         .finish = finish };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
