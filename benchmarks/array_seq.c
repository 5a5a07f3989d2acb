/* Sequential walks through a distributed array: every thread of every rank reads, writes or
 * operates on all elements in turn. Each thread begins at an element of its own, and continues in
 * the next round where it has ended. With --paper every thread walks once through an array of some
 * hundred million elements a node, as in the DArray paper.
 *
 * read, write, operate: element by element. pinned-*: chunk by chunk, by plain pointers. Writers
 * and operators of one node then divide the array among them, because the program has to order
 * accesses through pins. threads-*: with --threads threads of each rank. The references are a
 * private array of the same size, an uncached get, put or fetch-and-add for each element, as in
 * BCL, and a lock for each element, as in GAM.
 *
 * cold-*: between nodes rank 0 alone walks through the elements of rank 1, many times its cache,
 * and pins chunk by chunk with prefetch. The figure is chunks a millisecond; the references are raw
 * transfers of a chunk, 64 at a time. each-cold-*: element by element.
 *
 * Each round checks the values that were read. The end of a case checks the values that were
 * written or applied. */
#include "benchmarks/array_work.h"
#include "benchmarks/ref.h"
#include "benchmarks/ref_array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_MS    10
#define COLD_BYTES  BENCH_WINDOW_BYTES /* of rank 1: as much memory as the raw transfers use */
#define COLD_LINES  256                /* chunks of the cache meanwhile */
#define PAPER_ELEMS UINT64_C(100000000)

enum { READ, WRITE, OPERATE, PINNED = 4, THREADS = 8, COLD = 16 };
enum { OURS, NATIVE, RMA, LOCKS, N_SIDES };

/* UINT64_MAX: the library's default */
static uint64_t n_chosen, cache_chosen, prefetch_chosen = UINT64_MAX;

/* Goes through n elements from lo on, again and again, first from lo + start. */
typedef struct {
    uint64_t lo, n, start, walked;
} walker_t;

/* The objects of one case. */
static struct {
    int arg;
    uint64_t n;
    pgas_array_t *array, *locked;
    uint64_t *native;
    work_table_t table;
    walker_t walker[N_SIDES][BENCH_TEAM_MAX];
} now = { .arg = -1 };

static int what_of(int arg)
{
    return arg & 3;
}

static int threads_of(const bench_run_t *run)
{
    return run->arg & THREADS ? run->team : 1;
}

/* ---- n elements from first on, in the given pass; each returns the sum of the values read ---- */

static uint64_t read_ours(uint64_t first, uint64_t n, uint64_t pass)
{
    pgas_array_t *array = now.array;
    uint64_t sum = 0, value = 0;
    int bad = 0;
    (void)pass;
    for (uint64_t i = first; i < first + n; i++) {
        bad |= pgas_array_get_u64(array, i, &value);
        sum += value;
    }
    if (bad)
        bench_die("pgas_array_get_u64 failed");
    return sum;
}

static uint64_t write_ours(uint64_t first, uint64_t n, uint64_t pass)
{
    pgas_array_t *array = now.array;
    int bad = 0;
    for (uint64_t i = first; i < first + n; i++)
        bad |= pgas_array_set_u64(array, i, work_value(i) + pass + 1);
    if (bad)
        bench_die("pgas_array_set_u64 failed");
    return 0;
}

static uint64_t operate_ours(uint64_t first, uint64_t n, uint64_t pass)
{
    pgas_array_t *array = now.array;
    int bad = 0;
    (void)pass;
    for (uint64_t i = first; i < first + n; i++)
        bad |= pgas_array_apply_u64(array, i, PGAS_ADD, 1);
    if (bad)
        bench_die("pgas_array_apply_u64 failed");
    return 0;
}

static inline void write_span(uint64_t *span, uint64_t first, uint64_t n, uint64_t pass)
{
    for (uint64_t k = 0; k < n; k++)
        span[k] = work_value(first + k) + pass + 1;
}

static uint64_t read_pinned(uint64_t first, uint64_t n, uint64_t pass)
{
    pgas_array_walk_t w;
    uint64_t sum = 0;
    (void)pass;
    for (pgas_array_walk_begin(now.array, first, n, PGAS_ARRAY_READ, 0, &w);
         pgas_array_walk_next(&w);)
        sum += ref_span_sum(w.data, w.n);
    bench_check(pgas_array_walk_end(&w), "pgas_array_walk_end");
    return sum;
}

static uint64_t write_pinned(uint64_t first, uint64_t n, uint64_t pass)
{
    pgas_array_walk_t w;
    for (pgas_array_walk_begin(now.array, first, n, PGAS_ARRAY_WRITE, 0, &w);
         pgas_array_walk_next(&w);)
        write_span(w.data, w.first, w.n, pass);
    bench_check(pgas_array_walk_end(&w), "pgas_array_walk_end");
    return 0;
}

static uint64_t operate_pinned(uint64_t first, uint64_t n, uint64_t pass)
{
    pgas_array_walk_t w;
    (void)pass;
    pgas_array_walk_begin(now.array, first, n, PGAS_ARRAY_OPERATE, PGAS_OP(PGAS_ADD, PGAS_U64), &w);
    while (pgas_array_walk_next(&w))
        ref_span_add(w.data, w.n, 1);
    bench_check(pgas_array_walk_end(&w), "pgas_array_walk_end");
    return 0;
}

static uint64_t native_each(uint64_t first, uint64_t n, uint64_t pass)
{
    if (what_of(now.arg) == READ)
        return ref_array_get_row(now.native, first, n);
    if (what_of(now.arg) == WRITE)
        ref_array_set_row(now.native, first, n, pass);
    else
        ref_array_add_row(now.native, first, n, 1);
    return 0;
}

static uint64_t native_span(uint64_t first, uint64_t n, uint64_t pass)
{
    if (what_of(now.arg) == READ)
        return ref_span_sum(now.native + first, n);
    if (what_of(now.arg) == WRITE)
        write_span(now.native + first, first, n, pass);
    else
        ref_span_add(now.native + first, n, 1);
    return 0;
}

static uint64_t rma_each(uint64_t first, uint64_t n, uint64_t pass)
{
    uint64_t sum = 0, value = 0;
    int bad = 0, what = what_of(now.arg);
    for (uint64_t i = first; i < first + n; i++) {
        pgas_gptr_t at = work_table_at(&now.table, i);
        if (what == READ)
            bad |= pgas_get_u64(at, &value);
        else if (what == WRITE)
            bad |= pgas_put_u64(at, work_value(i) + pass + 1);
        else
            bad |= pgas_fetch_op_u64(at, PGAS_ADD, 1, &value);
        sum += value;
    }
    if (bad)
        bench_die("an access by RMA failed");
    return sum;
}

static uint64_t lock_each(uint64_t first, uint64_t n, uint64_t pass)
{
    uint64_t sum = 0, value = 0;
    int bad = 0, what = what_of(now.arg);
    for (uint64_t i = first; i < first + n; i++) {
        bad |=
            pgas_array_lock(now.locked, i, what == READ ? PGAS_ARRAY_READ : PGAS_ARRAY_WRITE, -1);
        if (what != WRITE)
            bad |= pgas_array_get_u64(now.locked, i, &value);
        if (what != READ)
            bad |= pgas_array_set_u64(now.locked, i,
                                      what == WRITE ? work_value(i) + pass + 1 : value + 1);
        bad |= pgas_array_unlock(now.locked, i);
        sum += value;
    }
    if (bad)
        bench_die("an access under a lock failed");
    return sum;
}

/* ---- walkers ---- */

typedef uint64_t (*piece_fn_t)(uint64_t first, uint64_t n, uint64_t pass);

static void check_sum(uint64_t first, uint64_t n, uint64_t sum)
{
    if (sum != work_value_sum(first, n))
        bench_die("%llu elements from %llu on add up to %llu, not %llu", (unsigned long long)n,
                  (unsigned long long)first, (unsigned long long)sum,
                  (unsigned long long)work_value_sum(first, n));
}

/* In pieces that end at the end of the array or of the pass. */
static void walk_on(walker_t *w, uint64_t iters, piece_fn_t piece)
{
    for (uint64_t left = iters, m; left > 0; left -= m) {
        uint64_t at = (w->start + w->walked) % w->n, pass = w->walked / w->n, sum;
        m = left < w->n - at ? left : w->n - at;
        m = m < w->n - w->walked % w->n ? m : w->n - w->walked % w->n;
        sum = piece(w->lo + at, m, pass);
        w->walked += m;
        if (what_of(now.arg) == READ)
            check_sum(w->lo + at, m, sum);
    }
}

/* Share number `part` of `parts` of all chunks. */
static void give_share(walker_t *w, uint64_t part, uint64_t parts)
{
    uint64_t n_chunks = (now.n + WORK_CHUNK - 1) / WORK_CHUNK,
             end = n_chunks * (part + 1) / parts * WORK_CHUNK;
    w->lo = n_chunks * part / parts * WORK_CHUNK;
    w->n = (end < now.n ? end : now.n) - w->lo;
}

static void place_walkers(const bench_run_t *run)
{
    uint64_t t_all = (uint64_t)threads_of(run), here = (uint64_t)pgas_node_rank(),
             n_here = (uint64_t)pgas_node_size();
    bool shares = (run->arg & PINNED) && what_of(run->arg) != READ && !(run->arg & COLD);
    for (int side = 0; side < N_SIDES; side++) {
        for (uint64_t t = 0; t < t_all; t++) {
            walker_t *w = &now.walker[side][t];
            uint64_t number = (uint64_t)run->rank * t_all + t,
                     n_all = (uint64_t)run->n_ranks * t_all;
            *w = (walker_t){ .n = now.n };
            if (run->arg & COLD)
                bench_check(pgas_array_range(now.array, (run->rank + 1) % run->n_ranks, &w->lo,
                                             &w->n),
                            "pgas_array_range");
            else if (shares)
                give_share(w, here * t_all + t, n_here * t_all);
            if (w->n == 0)
                bench_die("fewer chunks than threads");
            w->start = run->arg & COLD ? 0 : w->n / n_all * number / WORK_CHUNK * WORK_CHUNK;
        }
    }
}

/* The number of visits of a walker at element i. */
static uint64_t visits(const walker_t *w, uint64_t i)
{
    if (i - w->lo >= w->n)
        return 0;
    return w->walked / w->n + ((i - w->lo + w->n - w->start) % w->n < w->walked % w->n);
}

/* Additions add up. A written element has the value of the last write of some walker. */
static void check_element(const walker_t *walker, int n_walkers, uint64_t i, uint64_t is)
{
    uint64_t more = is - work_value(i), all = 0;
    bool known = false;
    for (int k = 0; k < n_walkers; k++) {
        uint64_t n = walker[k].n ? visits(&walker[k], i) : 0;
        all += n;
        known |= n > 0 && n == more;
    }
    bool wrong = more != 0;
    if (what_of(now.arg) == WRITE)
        wrong = !known && (all > 0 || more != 0);
    else if (what_of(now.arg) == OPERATE)
        wrong = more != all;
    if (wrong)
        bench_die("element %llu is %llu more than at the begin, after %llu visits",
                  (unsigned long long)i, (unsigned long long)more, (unsigned long long)all);
}

static void check_elements(void)
{
    uint64_t piece[WORK_CHUNK], first, n;
    int n_walkers = BENCH_TEAM_MAX * pgas_n_ranks();
    walker_t *walker = calloc((size_t)n_walkers, sizeof *walker);
    if (!walker)
        bench_die("out of memory");
    bench_check(pgas_allgather(NULL, now.walker[OURS], walker, sizeof now.walker[OURS]),
                "pgas_allgather");
    bench_check(pgas_array_range(now.array, -1, &first, &n), "pgas_array_range");
    for (uint64_t at = first, m; at < first + n; at += m) {
        m = first + n - at < WORK_CHUNK ? first + n - at : WORK_CHUNK;
        bench_check(pgas_array_load(now.array, at, m, piece), "pgas_array_load");
        for (uint64_t k = 0; k < m; k++)
            check_element(walker, n_walkers, at + k, piece[k]);
    }
    free(walker);
}

/* ---- open and close ---- */

static void close_case(void)
{
    if (now.arg >= 0) {
        check_elements();
        bench_check(pgas_barrier(NULL), "pgas_barrier");
        work_destroy(now.array);
        work_destroy(now.locked);
        work_table_destroy(&now.table);
        work_native_free(now.native);
        work_forget();
    }
    memset(&now, 0, sizeof now);
    now.arg = -1;
}

static uint64_t elements_of(const bench_run_t *run)
{
    if (run->arg & COLD)
        return COLD_BYTES / sizeof(uint64_t) * (uint64_t)run->n_ranks;
    if (n_chosen)
        return n_chosen * (uint64_t)pgas_n_nodes();
    return (run->paper ? PAPER_ELEMS : UINT64_C(1) << 20) * (uint64_t)pgas_n_nodes();
}

/* The only round of --paper must not be the first touch of memory, including memory that other
 * ranks map. */
static void touch_all(void)
{
    uint64_t sum = read_pinned(0, now.n, 0);
    check_sum(0, now.n, sum);
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    work_fill(now.array);
}

static void open_case(const bench_run_t *run)
{
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    if (now.arg == run->arg)
        return;
    close_case();
    now.arg = run->arg;
    now.n = elements_of(run);
    opts.cache_bytes = (run->arg & COLD) && !cache_chosen
                           ? COLD_LINES * WORK_CHUNK * sizeof(uint64_t)
                           : cache_chosen;
    if (prefetch_chosen != UINT64_MAX)
        opts.prefetch = prefetch_chosen ? (int)prefetch_chosen : -1;
    now.array = work_create(now.n, &opts);
    if (run->paper)
        touch_all();
    place_walkers(run);
}

/* ---- rounds ---- */

static piece_fn_t piece_of(int side)
{
    static const piece_fn_t ours[] = { read_ours, write_ours, operate_ours };
    static const piece_fn_t pinned[] = { read_pinned, write_pinned, operate_pinned };
    switch (side) {
    case OURS:
        return now.arg & PINNED ? pinned[what_of(now.arg)] : ours[what_of(now.arg)];
    case NATIVE:
        return now.arg & PINNED ? native_span : native_each;
    default:
        return side == RMA ? rma_each : lock_each;
    }
}

static int side_now; /* the loop that runs, for its threads */

static double walk_one(const bench_run_t *run)
{
    uint64_t begin = bench_now();
    walk_on(&now.walker[side_now][run->thread], run->iters, piece_of(side_now));
    return bench_since(begin);
}

static double walk_side(const bench_run_t *run, int side, int n_threads)
{
    double ns;
    open_case(run);
    if (side == NATIVE && !now.native)
        now.native = work_native(0, now.n);
    if (side == RMA && !now.table.per_rank)
        now.table = work_table_create(now.n);
    if (side == LOCKS && !now.locked)
        now.locked = work_create(now.n, NULL);
    side_now = side;
    if (side == OURS)
        work_watch(run, now.array);
    ns = n_threads > 1 ? bench_team(run, n_threads, walk_one) : walk_one(run);
    if (side == RMA)
        bench_check(pgas_flush_all(), "pgas_flush_all");
    if (side == OURS)
        work_watched(run, now.array, run->iters, ns);
    return ns;
}

static double ours(const bench_run_t *run)
{
    return walk_side(run, OURS, threads_of(run));
}

static double one_thread(const bench_run_t *run)
{
    return walk_side(run, OURS, 1);
}

static double native(const bench_run_t *run)
{
    return walk_side(run, NATIVE, 1);
}

static double rma(const bench_run_t *run)
{
    return walk_side(run, RMA, threads_of(run));
}

static double locks(const bench_run_t *run)
{
    return walk_side(run, LOCKS, threads_of(run));
}

/* Iterations are chunks, of rank 0. */
static double cold(const bench_run_t *run)
{
    bench_run_t elements = *run;
    double ns;
    elements.iters *= WORK_CHUNK;
    open_case(run);
    side_now = OURS;
    work_watch(run, now.array);
    ns = run->rank == 0 ? walk_one(&elements) : 0;
    work_watched(run, now.array, run->rank == 0 ? elements.iters : 0, ns);
    return ns;
}

/* Every thread goes through all elements. */
static uint64_t paper_iters(const bench_case_t *c, const bench_run_t *run)
{
    bench_run_t of_case = *run;
    of_case.arg = c->arg;
    if (c->arg & COLD)
        return COLD_BYTES / (WORK_CHUNK * sizeof(uint64_t));
    return elements_of(&of_case) * (uint64_t)threads_of(&of_case);
}

/* ---- cases ---- */

#define WALK(VARIANT, DOC, ARG, ...)                                                      \
    {                                                                                     \
        .variant = VARIANT, .doc = DOC, .paths = BENCH_ANYWHERE, .metric = BENCH_RATE,    \
        .unit = "M elements/s", .arg = ARG, .ours = ours, .round_ms = ROUND_MS, .refs = { \
            __VA_ARGS__                                                                   \
        }                                                                                 \
    }
#define NATIVE_REF                   \
    {                                \
        "native", BENCH_OURS, native \
    }
#define ONE_THREAD                           \
    {                                        \
        "one-thread", BENCH_OURS, one_thread \
    }
#define EACH_REFS                  \
    { "rma", BENCH_OURS, rma },    \
    {                              \
        "locks", BENCH_OURS, locks \
    }
#define FOUR(NAME, WHAT)                                                                        \
    WALK(NAME, "element by element", WHAT, NATIVE_REF, EACH_REFS),                              \
        WALK("pinned-" NAME, "chunk by chunk pinned", (WHAT) | PINNED, NATIVE_REF),             \
        WALK("threads-" NAME, "element by element, --threads of them a rank", (WHAT) | THREADS, \
             ONE_THREAD, EACH_REFS),                                                            \
        WALK("threads-pinned-" NAME, "chunk by chunk pinned, --threads of them a rank",         \
             (WHAT) | PINNED | THREADS, ONE_THREAD)
#define COLD_WALK(VARIANT, DOC, ARG, REF)                                                       \
    {                                                                                           \
        .variant = VARIANT, .doc = DOC, .paths = BENCH_FAR, .metric = BENCH_RATE_MS_EACH,       \
        .unit = "chunks/ms", .arg = (ARG) | COLD, .ours = cold, .round_ms = ROUND_MS, .refs = { \
            { "ucx", BENCH_UCX, REF }                                                           \
        }                                                                                       \
    }

static const bench_case_t cases[] = {
    FOUR("read", READ),
    FOUR("write", WRITE),
    FOUR("operate", OPERATE),
    COLD_WALK("cold-read", "chunks of another node, pinned one after the other, next to raw gets",
              READ | PINNED, ref_ucx_get_walk),
    COLD_WALK("cold-operate", "the same, operated on, next to raw puts", OPERATE | PINNED,
              ref_ucx_put_walk),
    COLD_WALK("each-cold-read", "chunks of another node, element by element, next to raw gets",
              READ, ref_ucx_get_walk),
    COLD_WALK("each-cold-operate", "the same, operated on, next to raw puts", OPERATE,
              ref_ucx_put_walk),
};

static const char *set_elements(const char *text)
{
    return work_number(text, 1, 1e12, &n_chosen, "--elements: 1 to 1e12");
}

static const char *set_cache(const char *text)
{
    return work_number(text, 4096, 1e12, &cache_chosen, "--cache: 4096 to 1e12");
}

static const char *set_prefetch(const char *text)
{
    return work_number(text, 0, 64, &prefetch_chosen, "--prefetch: 0 to 64");
}

static const bench_option_t options[] = {
    { "elements", "N", "of each node (2^20, 1e8 with --paper)", set_elements },
    { "cache", "BYTES", "of each rank (the library's default; cold-*: 256 chunks)", set_cache },
    { "prefetch", "N", "chunks asked for ahead, 0 to 64 (the library's default)", set_prefetch },
    { NULL, NULL, NULL, NULL }
};

static void finish(const bench_run_t *run, bool json)
{
    close_case();
    if (run->rank == 0 && !json)
        printf("# Stats: job of nodes x ranks x threads: %d x %d x 1, threads-*: x %d\n",
               pgas_n_nodes(), run->n_ranks / pgas_n_nodes(), run->team);
}

int main(int argc, char **argv)
{
    const bench_program_t program = { .name = "pgas_array_seq",
                                      .doc = "sequential walks through a distributed array",
                                      .ranks = BENCH_ANY,
                                      .label = "Rate",
                                      .min_bytes = WORK_CHUNK * sizeof(uint64_t),
                                      .max_bytes = WORK_CHUNK * sizeof(uint64_t),
                                      BENCH_CASES(cases),
                                      .threads = true,
                                      .paper_iters = PAPER_ELEMS,
                                      .paper_iters_of = paper_iters,
                                      .figures = work_figures,
                                      .finish = finish,
                                      .options = options };
    return bench_main(&program, argc, argv);
}
