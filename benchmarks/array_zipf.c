/* Adds to elements of a distributed array that are drawn by Zipf's law with skew 0.99, all ranks
 * over all elements: by pgas_array_apply, and by sections (lock for writing, get, set, unlock),
 * which a program without operators would use. The references are a plain array of the same size on
 * each rank, chunks that count the threads inside, and an uncached fetch-and-add for each access,
 * as in BCL. The number of elements does not depend on the number of ranks, so that
 * benchmarks/ratios can show the gain of many ranks. The elements are drawn before the clock runs.
 *
 * *-latency: the median of single operations, which includes the time of reading the clock; the
 * 99th percentile is a further figure. lock: between nodes rank 0 alone locks and unlocks elements
 * of rank 1 that no other rank locks; the reference is two round trips of raw messages.
 *
 * The end of a case checks each element against the additions of all ranks. */
#include "benchmarks/array_work.h"
#include "benchmarks/ref.h"
#include "benchmarks/ref_array.h"

#include <stdlib.h>
#include <string.h>

#define ROUND_MS 30 /* so long that data of the last loop in the caches does not matter */
#define SKEW     0.99
#define N_ELEMS  (UINT64_C(1) << 20)
#define N_LIST   (UINT64_C(1) << 18)
#define SAMPLES  65536

enum { RATE, LATENCY, LOCK };
enum { APPLY, SECTION, PLAIN, COUNTED, RMA, N_SIDES };

static uint64_t n_elems = N_ELEMS;

static struct {
    bool open;
    uint64_t *index;
    work_done_t done[N_SIDES];
    pgas_array_t *array[2]; /* of applies; of sections, with locks */
    uint64_t *native;
    ref_counted_t *counted;
    work_table_t table;
} now;

/* ---- operations on n entries of the list ---- */

static ref_aligned void apply_some(const uint64_t *index, uint64_t n)
{
    pgas_array_t *array = now.array[APPLY];
    uint64_t one = 1;
    int bad = 0;
    ref_opaque(one);
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index[k];
        ref_opaque(i);
        bad |= pgas_array_apply_u64(array, i, PGAS_ADD, one);
    }
    if (bad)
        bench_die("pgas_array_apply_u64 failed");
}

static void section_some(const uint64_t *index, uint64_t n)
{
    pgas_array_t *array = now.array[SECTION];
    uint64_t value = 0;
    int bad = 0;
    for (uint64_t k = 0; k < n; k++) {
        bad |= pgas_array_lock(array, index[k], PGAS_ARRAY_WRITE, -1);
        bad |= pgas_array_get_u64(array, index[k], &value);
        bad |= pgas_array_set_u64(array, index[k], value + 1);
        bad |= pgas_array_unlock(array, index[k]);
    }
    if (bad)
        bench_die("a section failed");
}

static void plain_some(const uint64_t *index, uint64_t n)
{
    ref_array_add(now.native, index, n, 1);
}

static void counted_some(const uint64_t *index, uint64_t n)
{
    ref_counted_add(now.counted, index, n, 1);
}

static void rma_some(const uint64_t *index, uint64_t n)
{
    uint64_t old = 0;
    int bad = 0;
    for (uint64_t k = 0; k < n; k++)
        bad |= pgas_fetch_op_u64(work_table_at(&now.table, index[k]), PGAS_ADD, 1, &old);
    if (bad)
        bench_die("pgas_fetch_add_u64 failed");
}

/* ---- open and close ---- */

static void open_list(const bench_run_t *run)
{
    if (now.open)
        return;
    now.open = true;
    now.index = work_draw_zipf(N_LIST, n_elems, SKEW, bench_seed(run->rank));
    for (int side = 0; side < N_SIDES; side++)
        now.done[side] = (work_done_t){ .index = now.index, .n_list = N_LIST };
}

static void open_side(int side)
{
    if ((side == APPLY || side == SECTION) && !now.array[side])
        now.array[side] = work_create(n_elems, NULL);
    if (side == PLAIN && !now.native)
        now.native = work_native(0, n_elems);
    if (side == COUNTED && !now.counted)
        now.counted = ref_counted_create(n_elems, WORK_CHUNK);
    if (side == RMA && !now.table.per_rank)
        now.table = work_table_create(n_elems);
}

static void close_all(void)
{
    for (int side = APPLY; side <= SECTION; side++) {
        if (now.array[side])
            work_check_adds(now.array[side], &now.done[side]);
        work_destroy(now.array[side]);
    }
    work_table_destroy(&now.table);
    ref_counted_destroy(now.counted);
    work_native_free(now.native);
    free(now.index);
    memset(&now, 0, sizeof now);
}

/* ---- rounds ---- */

static void advance(work_done_t *done, uint64_t iters,
                    void (*some)(const uint64_t *index, uint64_t n))
{
    for (uint64_t left = iters, n; left > 0; left -= n, done->n_done += n) {
        uint64_t at = done->n_done % N_LIST;
        n = N_LIST - at < left ? N_LIST - at : left;
        some(done->index + at, n);
    }
}

/* Figures are those of the case's own side. */
static double timed(const bench_run_t *run, int side, bool watched)
{
    static void (*const some[N_SIDES])(const uint64_t *, uint64_t) = { apply_some, section_some,
                                                                       plain_some, counted_some,
                                                                       rma_some };
    uint64_t begin;
    double ns;
    open_list(run);
    open_side(side);
    if (watched)
        work_watch(run, now.array[side]);
    begin = bench_now();
    advance(&now.done[side], run->iters, some[side]);
    ns = bench_since(begin);
    if (watched)
        work_watched(run, now.array[side], run->iters, ns);
    return ns;
}

/* Begins a case: drops the figures of the last one. */
static void begin_case(const bench_run_t *run, int number)
{
    static int last = -1;
    (void)run;
    if (last != number)
        work_forget();
    last = number;
}

static double apply(const bench_run_t *run)
{
    begin_case(run, 0);
    return timed(run, APPLY, true);
}

static double section(const bench_run_t *run)
{
    begin_case(run, 1);
    return timed(run, SECTION, true);
}

static double native(const bench_run_t *run)
{
    return timed(run, PLAIN, false);
}

static double counter(const bench_run_t *run)
{
    return timed(run, COUNTED, false);
}

static double rma(const bench_run_t *run)
{
    return timed(run, RMA, false);
}

static double locks(const bench_run_t *run)
{
    return timed(run, SECTION, false);
}

/* ---- latency ---- */

/* From one reading of the clock to the next. */
static double latency(const bench_run_t *run, int side)
{
    static double sample[SAMPLES];
    void (*const some)(const uint64_t *, uint64_t) = side == APPLY ? apply_some : section_some;
    uint64_t n = 0, begin = bench_now(), last;
    open_list(run);
    open_side(side);
    work_watch(run, now.array[side]);
    last = begin = bench_now();
    do {
        uint64_t is;
        some(now.index + now.done[side].n_done++ % N_LIST, 1);
        is = bench_now();
        sample[n++] = (double)(is - last);
        last = is;
    } while (n < SAMPLES && (double)(last - begin) < run->round_ms * 1e6);
    bench_sort(sample, n);
    work_note(0, "p99", "ns", sample[n * 99 / 100]);
    work_note(1, "p999", "ns", sample[n * 999 / 1000]);
    work_watched(run, now.array[side], n, (double)(last - begin));
    return sample[n / 2];
}

static double apply_latency(const bench_run_t *run)
{
    begin_case(run, 2);
    return latency(run, APPLY);
}

static double section_latency(const bench_run_t *run)
{
    begin_case(run, 3);
    return latency(run, SECTION);
}

/* Elements of rank 1, one after the other. */
static double lock(const bench_run_t *run)
{
    uint64_t first, n, begin, n_locked = run->rank == 0 ? run->iters : 0;
    double ns;
    int bad = 0;
    begin_case(run, 4);
    open_list(run);
    open_side(SECTION);
    bench_check(pgas_array_range(now.array[SECTION], 1, &first, &n), "pgas_array_range");
    work_watch(run, now.array[SECTION]);
    begin = bench_now();
    for (uint64_t k = 0; k < n_locked; k++) {
        bad |= pgas_array_lock(now.array[SECTION], first + k % n, PGAS_ARRAY_WRITE, -1);
        bad |= pgas_array_unlock(now.array[SECTION], first + k % n);
    }
    ns = bench_since(begin);
    if (bad)
        bench_die("pgas_array_lock or unlock failed");
    work_watched(run, now.array[SECTION], n_locked, ns);
    return run->rank == 0 ? ns : 0;
}

/* ---- cases ---- */

static const bench_case_t cases[] = {
    { .variant = "apply",
      .doc = "add by pgas_array_apply",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_RATE,
      .ours = apply,
      .refs = { { "native", BENCH_OURS, native },
                { "counter", BENCH_OURS, counter },
                { "rma", BENCH_OURS, rma },
                { "locks", BENCH_OURS, locks } },
      .round_ms = ROUND_MS },
    { .variant = "section",
      .doc = "lock for writing, get, set, unlock",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_RATE,
      .ours = section,
      .refs = { { "rma", BENCH_OURS, rma } },
      .round_ms = ROUND_MS },
    { .variant = "apply-latency",
      .doc = "median time of single applies",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_VALUE,
      .unit = "ns",
      .average = true,
      .ours = apply_latency,
      .round_ms = ROUND_MS },
    { .variant = "section-latency",
      .doc = "median time of single sections",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_VALUE,
      .unit = "ns",
      .average = true,
      .ours = section_latency,
      .round_ms = ROUND_MS },
    { .variant = "lock",
      .doc = "lock and unlock at another node, nobody else wants it",
      .paths = BENCH_FAR,
      .ours = lock,
      .refs = { { "ucx", BENCH_UCX, ref_ucx_am_twice } },
      .round_ms = ROUND_MS },
};

static const char *set_elements(const char *text)
{
    const char *wrong =
        work_number(text, 4096, 1 << 30, &n_elems, "--elements: a power of two, 4096 to 2^30");
    return wrong || (n_elems & (n_elems - 1)) == 0 ? wrong
                                                   : "--elements: a power of two, 4096 to 2^30";
}

static const bench_option_t options[] = {
    { "elements", "N", "of all ranks together, a power of two (2^20)", set_elements },
    { NULL, NULL, NULL, NULL }
};

static void finish(const bench_run_t *run, bool json)
{
    (void)run;
    (void)json;
    close_all();
}

int main(int argc, char **argv)
{
    const bench_program_t program = {
        .name = "pgas_array_zipf",
        .doc = "skewed adds to a distributed array, by operator and by locks",
        .ranks = BENCH_ANY,
        .label = "Figure",
        .min_bytes = 8,
        .max_bytes = 8,
        BENCH_CASES(cases),
        .figures = work_figures,
        .finish = finish,
        .options = options
    };
    return bench_main(&program, argc, argv);
}
