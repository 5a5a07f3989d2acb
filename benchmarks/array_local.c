/* Time of an access to an element of the array for which the rank has access already: on one node
 * an element of this rank, between nodes an element of the next rank, in the cache. The references
 * are a plain array, and chunks that count the threads inside, as in the DArray paper. Sizes are
 * bytes of the elements that are used.
 *
 * get, set, apply: in the order of an index list. All sides use the same list, drawn before the
 * clock runs, and the compiler knows nothing about it. pinned-*: the loop pins one chunk after the
 * other and uses the vector loop of the plain array. span-*: the same with one pin for the whole
 * round.
 *
 * Each round checks the values that were read. The end of a case checks the values that were
 * written: operation number k writes or adds to the element of entry k of the list, and set writes
 * k. */
#include "benchmarks/array_work.h"
#include "benchmarks/ref_array.h"

#include <stdlib.h>
#include <string.h>

#define N_LIST 65536

enum { GET, SET, APPLY };               /* the operation */
enum { BY_LIST, PINNED = 4, SPAN = 8 }; /* in which order, and how */
enum { OURS, NATIVE, COUNTED, N_SIDES };

static uint64_t chunk_elems = WORK_CHUNK;

/* The objects of one case. */
static struct {
    int arg;
    size_t bytes;
    uint64_t n, first; /* the elements used: first .. first + n - 1 of the array */
    uint64_t n_list;
    uint64_t *index, *here; /* of the array; of the plain one, where they begin with 0 */
    uint64_t *sums;         /* sum of the first values of the first k entries of the list */
    uint64_t n_done[N_SIDES];
    pgas_array_t *array;
    uint64_t *native;
    ref_counted_t *counted;
} now = { .arg = -1 };

/* ---- operations from entry `at` of the list on, the first of them with number k ---- */

static ref_aligned uint64_t get_ours(uint64_t at, uint64_t n, uint64_t number)
{
    pgas_array_t *array = now.array;
    const uint64_t *index = now.index + at;
    uint64_t sum = 0, value = 0;
    int bad = 0;
    (void)number;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index[k];
        ref_opaque(i);
        bad |= pgas_array_get_u64(array, i, &value);
        sum += value;
    }
    if (bad)
        bench_die("pgas_array_get_u64 failed");
    return sum;
}

static ref_aligned uint64_t set_ours(uint64_t at, uint64_t n, uint64_t number)
{
    pgas_array_t *array = now.array;
    const uint64_t *index = now.index + at;
    int bad = 0;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index[k];
        ref_opaque(i);
        bad |= pgas_array_set_u64(array, i, number + k);
    }
    if (bad)
        bench_die("pgas_array_set_u64 failed");
    return 0;
}

static ref_aligned uint64_t apply_ours(uint64_t at, uint64_t n, uint64_t number)
{
    pgas_array_t *array = now.array;
    const uint64_t *index = now.index + at;
    uint64_t one = 1;
    int bad = 0;
    (void)number;
    ref_opaque(one);
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index[k];
        ref_opaque(i);
        bad |= pgas_array_apply_u64(array, i, PGAS_ADD, one);
    }
    if (bad)
        bench_die("pgas_array_apply_u64 failed");
    return 0;
}

static uint64_t get_native(uint64_t at, uint64_t n, uint64_t number)
{
    (void)number;
    return ref_array_get(now.native, now.here + at, n);
}

static uint64_t set_native(uint64_t at, uint64_t n, uint64_t number)
{
    ref_array_set(now.native, now.here + at, n, number);
    return 0;
}

static uint64_t apply_native(uint64_t at, uint64_t n, uint64_t number)
{
    (void)number;
    ref_array_add(now.native, now.here + at, n, 1);
    return 0;
}

static uint64_t get_counted(uint64_t at, uint64_t n, uint64_t number)
{
    (void)number;
    return ref_counted_get(now.counted, now.here + at, n);
}

static uint64_t set_counted(uint64_t at, uint64_t n, uint64_t number)
{
    ref_counted_set(now.counted, now.here + at, n, number);
    return 0;
}

static uint64_t apply_counted(uint64_t at, uint64_t n, uint64_t number)
{
    (void)number;
    ref_counted_add(now.counted, now.here + at, n, 1);
    return 0;
}

/* Lists of pinned cases name one element after the other. */
static inline uint64_t work_span(int what, uint64_t *span, uint64_t n, uint64_t number)
{
    if (what == GET)
        return ref_span_sum(span, n);
    if (what == SET)
        ref_span_fill(span, n, number);
    else
        ref_span_add(span, n, 1);
    return 0;
}

static const pgas_array_mode_t mode[] = { PGAS_ARRAY_READ, PGAS_ARRAY_WRITE, PGAS_ARRAY_OPERATE };

static pgas_op_t operator_of(int what)
{
    return what == APPLY ? PGAS_OP(PGAS_ADD, PGAS_U64) : 0;
}

static inline __attribute__((always_inline)) uint64_t walk(int what, uint64_t at, uint64_t n,
                                                           uint64_t number)
{
    pgas_array_walk_t w;
    uint64_t sum = 0;
    pgas_array_walk_begin(now.array, now.first + at, n, mode[what], operator_of(what), &w);
    for (; pgas_array_walk_next(&w); number += w.n)
        sum += work_span(what, w.data, w.n, number);
    bench_check(pgas_array_walk_end(&w), "pgas_array_walk_end");
    return sum;
}

#define WALK(NAME, WHAT)                                                    \
    static uint64_t NAME##_pinned(uint64_t at, uint64_t n, uint64_t number) \
    {                                                                       \
        return walk(WHAT, at, n, number);                                   \
    }                                                                       \
    static uint64_t NAME##_span(uint64_t at, uint64_t n, uint64_t number)   \
    {                                                                       \
        return work_span(WHAT, now.native + at, n, number);                 \
    }
WALK(get, GET)
WALK(set, SET)
WALK(apply, APPLY)

/* ---- rounds ---- */

typedef uint64_t (*piece_fn_t)(uint64_t at, uint64_t n, uint64_t number);

/* Goes through the list again and again, from where the last round has ended. */
static uint64_t advance(piece_fn_t piece, uint64_t iters, uint64_t *n_done_p)
{
    uint64_t sum = 0, done = *n_done_p;
    for (uint64_t left = iters, n; left > 0; left -= n, done += n) {
        uint64_t at = done % now.n_list;
        n = now.n_list - at < left ? now.n_list - at : left;
        sum += piece(at, n, done);
    }
    *n_done_p = done;
    return sum;
}

static uint64_t sum_until(uint64_t done)
{
    return done / now.n_list * now.sums[now.n_list] + now.sums[done % now.n_list];
}

static void check_sum(uint64_t sum, uint64_t from, uint64_t to)
{
    if (sum != sum_until(to) - sum_until(from))
        bench_die("what was read adds up to %llu, not %llu", (unsigned long long)sum,
                  (unsigned long long)(sum_until(to) - sum_until(from)));
}

/* Computes in the plain array what the elements must be after all of our operations. */
static void replay(uint64_t *want)
{
    uint64_t done = now.n_done[OURS],
             from = (now.arg & 3) == SET && done > now.n_list ? done - now.n_list : 0;
    uint64_t passes = (now.arg & 3) == APPLY ? done / now.n_list : 0;
    for (uint64_t i = 0; i < now.n; i++)
        want[i] = work_value(now.first + i);
    for (uint64_t k = 0; passes > 0 && k < now.n_list; k++)
        want[now.here[k]] += passes;
    for (uint64_t k = from + passes * now.n_list; k < done; k++) {
        uint64_t *at = &want[now.here[k % now.n_list]];
        *at = (now.arg & 3) == SET ? k : *at + ((now.arg & 3) == APPLY);
    }
}

static void check_elements(void)
{
    uint64_t *want = bench_table(now.n * sizeof *want), *is = bench_table(now.n * sizeof *is);
    replay(want);
    bench_check(pgas_array_load(now.array, now.first, now.n, is), "pgas_array_load");
    for (uint64_t i = 0; i < now.n; i++) {
        if (is[i] != want[i])
            bench_die("element %llu is %llu, not %llu", (unsigned long long)(now.first + i),
                      (unsigned long long)is[i], (unsigned long long)want[i]);
    }
    free(want);
    free(is);
}

static void close_case(void)
{
    if (now.arg >= 0) {
        check_elements();
        bench_check(pgas_barrier(NULL), "pgas_barrier");
        work_destroy(now.array);
        ref_counted_destroy(now.counted);
        work_native_free(now.native);
        free(now.index);
        free(now.here);
        free(now.sums);
        work_forget();
    }
    memset(&now, 0, sizeof now);
    now.arg = -1;
}

static void make_lists(void)
{
    bool by_list = !(now.arg & (PINNED | SPAN));
    if (by_list)
        now.n_list = N_LIST;
    else if (now.arg & SPAN && chunk_elems < now.n)
        now.n_list = chunk_elems;
    else
        now.n_list = now.n;
    now.here = by_list ? work_draw_uniform(now.n_list, 0, now.n, bench_seed(0))
                       : bench_table(now.n_list * sizeof(uint64_t));
    now.index = bench_table(now.n_list * sizeof(uint64_t));
    now.sums = bench_table((now.n_list + 1) * sizeof(uint64_t));
    for (uint64_t k = 0; k < now.n_list; k++) {
        now.here[k] = by_list ? now.here[k] : k;
        now.index[k] = now.first + now.here[k];
        now.sums[k + 1] = now.sums[k] + work_value(now.index[k]);
    }
}

/* Twice as many cache lines as are used, so that none is evicted between the watermarks. */
static void open_case(const bench_run_t *run)
{
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    int whose = run->far ? (run->rank + 1) % run->n_ranks : run->rank;
    if (now.arg == run->arg && now.bytes == run->bytes)
        return;
    close_case();
    now.arg = run->arg;
    now.bytes = run->bytes;
    opts.chunk_elems = chunk_elems;
    opts.cache_bytes =
        4 * run->bytes < 16 * chunk_elems * 8 ? 16 * chunk_elems * 8 : 4 * run->bytes;
    now.array = work_create(run->bytes / sizeof(uint64_t) * (uint64_t)run->n_ranks, &opts);
    bench_check(pgas_array_range(now.array, whose, &now.first, &now.n), "pgas_array_range");
    now.native = work_native(now.first, now.n);
    now.counted = ref_counted_create(now.n, chunk_elems);
    make_lists();
}

static double timed(const bench_run_t *run, int side, piece_fn_t piece)
{
    uint64_t begin, sum, from;
    double ns;
    open_case(run);
    from = now.n_done[side];
    if (side == OURS)
        work_watch(run, now.array);
    begin = bench_now();
    sum = advance(piece, run->iters, &now.n_done[side]);
    ns = bench_since(begin);
    if (side == OURS)
        work_watched(run, now.array, run->iters, ns);
    if ((run->arg & 3) == GET && side != COUNTED)
        check_sum(sum, from, now.n_done[side]);
    bench_use(sum);
    return ns;
}

/* One pin for the whole round; the elements are those of the chunk in which the part begins. */
static double timed_span(const bench_run_t *run, int what)
{
    pgas_array_pin_t pin;
    uint64_t begin, sum = 0, from, *done = &now.n_done[OURS];
    double ns;
    open_case(run);
    from = *done;
    work_watch(run, now.array);
    begin = bench_now();
    bench_check(pgas_array_pin(now.array, now.first, mode[what], operator_of(what), &pin),
                "pgas_array_pin");
    for (uint64_t left = run->iters, n; left > 0; left -= n, *done += n) {
        uint64_t at = *done % now.n_list;
        n = now.n_list - at < left ? now.n_list - at : left;
        sum += work_span(what, (uint64_t *)pin.data + (now.first - pin.first) + at, n, *done);
    }
    bench_check(pgas_array_unpin(&pin), "pgas_array_unpin");
    ns = bench_since(begin);
    work_watched(run, now.array, run->iters, ns);
    if (what == GET)
        check_sum(sum, from, *done);
    return ns;
}

#define LOOP(NAME, SIDE, PIECE)                \
    static double NAME(const bench_run_t *run) \
    {                                          \
        return timed(run, SIDE, PIECE);        \
    }
#define LOOPS(NAME, WHAT)                             \
    LOOP(NAME, OURS, NAME##_ours)                     \
    LOOP(native_##NAME, NATIVE, NAME##_native)        \
    LOOP(counter_##NAME, COUNTED, NAME##_counted)     \
    LOOP(pinned_##NAME, OURS, NAME##_pinned)          \
    LOOP(row_##NAME, NATIVE, NAME##_span)             \
    static double span_##NAME(const bench_run_t *run) \
    {                                                 \
        return timed_span(run, WHAT);                 \
    }
LOOPS(get, GET)
LOOPS(set, SET)
LOOPS(apply, APPLY)

/* ---- cases ---- */

#define CASE(VARIANT, DOC, LOOP, ARG, ...)                                                 \
    {                                                                                      \
        .variant = VARIANT, .doc = DOC, .paths = BENCH_ANYWHERE, .ours = LOOP, .arg = ARG, \
        .refs = {                                                                          \
            __VA_ARGS__                                                                    \
        }                                                                                  \
    }
#define CASES(NAME, WHAT, DOC)                                                                  \
    CASE(#NAME, DOC " by an index list", NAME, WHAT, { "native", BENCH_OURS, native_##NAME },   \
         { "counter", BENCH_OURS, counter_##NAME }),                                            \
        CASE("pinned-" #NAME, DOC " one after the other, chunk by chunk pinned", pinned_##NAME, \
             (WHAT) | PINNED, { "native", BENCH_OURS, row_##NAME }),                            \
        CASE("span-" #NAME,                                                                     \
             DOC " one after the other, those of a chunk again and again with one pin",         \
             span_##NAME, (WHAT) | SPAN, { "native", BENCH_OURS, row_##NAME })

static const bench_case_t cases[] = { CASES(get, GET, "elements read"),
                                      CASES(set, SET, "elements written"),
                                      CASES(apply, APPLY, "add to elements") };

static const size_t sizes[] = { 32 << 10, 1 << 20, 16 << 20, 0 };

static const char *set_chunk(const char *text)
{
    const char *wrong =
        work_number(text, 8, 4096, &chunk_elems, "--chunk: a power of two, 8 to 4096");
    return wrong || (chunk_elems & (chunk_elems - 1)) == 0 ? wrong
                                                           : "--chunk: a power of two, 8 to 4096";
}

static const bench_option_t options[] = {
    { "chunk", "N", "elements of a chunk, a power of two (512)", set_chunk },
    { NULL, NULL, NULL, NULL }
};

static void finish(const bench_run_t *run, bool json)
{
    (void)run;
    (void)json;
    close_case();
}

int main(int argc, char **argv)
{
    const bench_program_t program = { .name = "pgas_array_local",
                                      .doc = "accesses to held elements of a distributed array",
                                      .ranks = BENCH_ANY,
                                      .label = "Time per element",
                                      .min_bytes = 32 << 10,
                                      .max_bytes = 16 << 20,
                                      .sizes = sizes,
                                      BENCH_CASES(cases),
                                      .figures = work_figures,
                                      .finish = finish,
                                      .options = options };
    return bench_main(&program, argc, argv);
}
