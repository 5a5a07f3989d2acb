/* Uniformly random accesses to a distributed array, all ranks over all elements: read, write,
 * operate, and a mix of seven writes in ten. The references are a plain array of the same size on
 * each rank, an uncached get, put or fetch-and-add for each access, as in BCL, and a lock for each
 * access, as in GAM. The elements are drawn before the clock runs.
 *
 * beyond: between nodes rank 0 alone reads elements of rank 1. These are fifty times as many as its
 * cache has room for. The reference is a raw get of 8 bytes for each element.
 *
 * The cases with -many in their names pass 4096 indices to pgas_array_get_many or
 * pgas_array_update_many instead of one to each call.
 *
 * Each round checks the values that were read. The end of a case checks the values that were
 * written or applied. The mix depends on PGAS_ARRAY_ACCESS too: with guarded every access takes the
 * chunk's lock (benchmarks/ratios runs both). */
#include "benchmarks/array_work.h"
#include "benchmarks/ref.h"
#include "benchmarks/ref_array.h"

#include <stdlib.h>
#include <string.h>

#define ROUND_MS     10
#define N_LIST       (UINT64_C(1) << 18)
#define MIX_ELEMS    (UINT64_C(1) << 17) /* of each rank: 1 MiB */
#define BEYOND_LINES UINT64_C(64)
#define BEYOND       50             /* times the cache */
#define AT_ONCE      UINT64_C(4096) /* indices of a call on many elements */

enum { READ, WRITE, OPERATE, MIX, BEYOND_READ, MANY = 8 /* added to READ, OPERATE, BEYOND_READ */ };
enum { OURS, NATIVE, RMA, LOCKS, N_SIDES };

static uint64_t n_chosen = UINT64_C(1) << 20;

static struct {
    int arg, what; /* what: arg without MANY */
    uint64_t n;
    uint64_t *index, *writes; /* the list; those of it that the mix writes */
    uint64_t n_writes;
    work_done_t done[N_SIDES];
    pgas_array_t *array[2]; /* ours; with locks */
    uint64_t *native;
    work_table_t table;
} now = { .arg = -1, .what = -1 };

/* ---- operations on n entries of the list; each returns the sum of the values read ---- */

/* Every rank writes 1 + its number more than at the begin. */
static uint64_t value_here(uint64_t i)
{
    return work_value(i) + 1 + (uint64_t)pgas_rank();
}

/* Seven entries of ten, by their place in the list. */
static inline bool is_write(uint64_t at)
{
    return now.what == WRITE || (now.what == MIX && at * 7 % 10 < 7);
}

static ref_aligned uint64_t read_some(const uint64_t *index, uint64_t n)
{
    pgas_array_t *array = now.array[OURS];
    uint64_t sum = 0, value = 0;
    int bad = 0;
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

static ref_aligned uint64_t write_some(const uint64_t *index, uint64_t n)
{
    pgas_array_t *array = now.array[OURS];
    uint64_t more = value_here(0) - work_value(0);
    int bad = 0;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index[k];
        ref_opaque(i);
        bad |= pgas_array_set_u64(array, i, work_value(i) + more);
    }
    if (bad)
        bench_die("pgas_array_set_u64 failed");
    return 0;
}

static ref_aligned uint64_t operate_some(const uint64_t *index, uint64_t n)
{
    pgas_array_t *array = now.array[OURS];
    int bad = 0;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index[k];
        ref_opaque(i);
        bad |= pgas_array_apply_u64(array, i, PGAS_ADD, 1);
    }
    if (bad)
        bench_die("pgas_array_apply_u64 failed");
    return 0;
}

/* The value read is the first value or was written by some rank. */
static uint64_t mix_some(const uint64_t *index, uint64_t n)
{
    pgas_array_t *array = now.array[OURS];
    uint64_t value = 0, wrong = 0, n_ranks = (uint64_t)pgas_n_ranks(),
             more = value_here(0) - work_value(0);
    int bad = 0;
    for (uint64_t k = 0, at = (uint64_t)(index - now.index); k < n; k++, at++) {
        uint64_t i = index[k];
        ref_opaque(i);
        if (is_write(at)) {
            bad |= pgas_array_set_u64(array, i, work_value(i) + more);
        } else {
            bad |= pgas_array_get_u64(array, i, &value);
            wrong += value - work_value(i) > n_ranks;
        }
    }
    if (bad || wrong)
        bench_die("an access failed, or one of %llu values that nobody has written was read",
                  (unsigned long long)wrong);
    return 0;
}

static uint64_t many_some(const uint64_t *index, uint64_t n)
{
    static uint64_t values[AT_ONCE], ones[AT_ONCE];
    pgas_array_t *array = now.array[OURS];
    uint64_t sum = 0;
    for (uint64_t k = 0; k < AT_ONCE; k++)
        ones[k] = 1;
    for (uint64_t done = 0, some; done < n; done += some) {
        some = n - done < AT_ONCE ? n - done : AT_ONCE;
        if (now.what == OPERATE) {
            bench_check(pgas_array_update_many(array, index + done, some,
                                               PGAS_OP(PGAS_ADD, PGAS_U64), ones),
                        "pgas_array_update_many");
            continue;
        }
        bench_check(pgas_array_get_many(array, index + done, some, values), "pgas_array_get_many");
        for (uint64_t k = 0; k < some; k++)
            sum += values[k];
    }
    return sum;
}

static uint64_t native_some(const uint64_t *index, uint64_t n)
{
    if (now.what == READ || now.what == BEYOND_READ)
        return ref_array_get(now.native, index, n);
    if (now.what == OPERATE)
        ref_array_add(now.native, index, n, 1);
    else
        ref_array_set(now.native, index, n, 0);
    return 0;
}

static uint64_t rma_some(const uint64_t *index, uint64_t n)
{
    uint64_t sum = 0, value = 0, at = (uint64_t)(index - now.index);
    int bad = 0;
    for (uint64_t k = 0; k < n; k++, at++) {
        pgas_gptr_t word = work_table_at(&now.table, index[k]);
        if (now.what == OPERATE)
            bad |= pgas_fetch_op_u64(word, PGAS_ADD, 1, &value);
        else if (is_write(at))
            bad |= pgas_put_u64(word, work_value(index[k]));
        else
            bad |= pgas_get_u64(word, &value);
        sum += value;
    }
    if (bad)
        bench_die("an access by RMA failed");
    return sum;
}

static uint64_t lock_some(const uint64_t *index, uint64_t n)
{
    pgas_array_t *array = now.array[1];
    uint64_t sum = 0, value = 0, at = (uint64_t)(index - now.index);
    int bad = 0;
    for (uint64_t k = 0; k < n; k++, at++) {
        bool write = now.what == OPERATE || is_write(at);
        bad |= pgas_array_lock(array, index[k], write ? PGAS_ARRAY_WRITE : PGAS_ARRAY_READ, -1);
        if (now.what == OPERATE || !write)
            bad |= pgas_array_get_u64(array, index[k], &value);
        if (write)
            bad |= pgas_array_set_u64(array, index[k],
                                      now.what == OPERATE ? value + 1 : value_here(index[k]));
        bad |= pgas_array_unlock(array, index[k]);
        sum += value;
    }
    if (bad)
        bench_die("an access under a lock failed");
    return sum;
}

/* ---- open and close ---- */

/* The mix: only the writes count. */
static void check_all(pgas_array_t *array, const work_done_t *done)
{
    uint64_t n_done = done->n_done < N_LIST ? done->n_done : N_LIST;
    work_done_t writes = { .index = now.writes, .n_list = N_LIST };
    if (now.what == OPERATE) {
        work_check_adds(array, done);
        return;
    }
    for (uint64_t k = 0; k < n_done; k++)
        if (is_write(k))
            now.writes[writes.n_done++] = now.index[k];
    work_check_sets(array, &writes);
}

static void close_case(void)
{
    if (now.what >= 0) {
        for (int k = 0; k < 2; k++) {
            if (now.array[k])
                check_all(now.array[k], &now.done[k ? LOCKS : OURS]);
            work_destroy(now.array[k]);
        }
        work_table_destroy(&now.table);
        work_native_free(now.native);
        free(now.index);
        free(now.writes);
        work_forget();
    }
    memset(&now, 0, sizeof now);
    now.arg = now.what = -1;
}

static uint64_t elems_of_rank(int what)
{
    if (what == MIX)
        return MIX_ELEMS;
    return what == BEYOND_READ ? BEYOND_LINES * WORK_CHUNK * BEYOND : n_chosen;
}

static void open_case(const bench_run_t *run)
{
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    uint64_t first = 0, n;
    if (now.arg == run->arg)
        return;
    close_case();
    now.arg = run->arg;
    now.what = run->arg & ~MANY;
    now.n = (uint64_t)run->n_ranks * elems_of_rank(now.what);
    n = now.n;
    if (now.what == BEYOND_READ)
        opts.cache_bytes = BEYOND_LINES * WORK_CHUNK * sizeof(uint64_t);
    if (now.what == MIX) /* the whole array, between the watermarks */
        opts.cache_bytes = 4 * now.n * sizeof(uint64_t);
    now.array[OURS] = work_create(now.n, &opts);
    if (now.what == BEYOND_READ)
        bench_check(pgas_array_range(now.array[OURS], 1, &first, &n), "pgas_array_range");
    now.index = work_draw_uniform(N_LIST, first, n, bench_seed(run->rank));
    now.writes = bench_table(N_LIST * sizeof *now.writes);
    for (int side = 0; side < N_SIDES; side++)
        now.done[side] = (work_done_t){ .index = now.index, .n_list = N_LIST };
}

static void open_side(int side)
{
    if (side == NATIVE && !now.native)
        now.native = work_native(0, now.n);
    if (side == RMA && !now.table.per_rank)
        now.table = work_table_create(now.n);
    if (side == LOCKS && !now.array[1])
        now.array[1] = work_create(now.n, NULL);
}

/* ---- rounds ---- */

static uint64_t want_sum(const work_done_t *done, uint64_t from)
{
    uint64_t sum = 0;
    for (uint64_t k = from; k < done->n_done; k++)
        sum += work_value(now.index[k % N_LIST]);
    return sum;
}

static uint64_t advance(work_done_t *done, uint64_t iters,
                        uint64_t (*some)(const uint64_t *index, uint64_t n))
{
    uint64_t sum = 0;
    for (uint64_t left = iters, n; left > 0; left -= n, done->n_done += n) {
        uint64_t at = done->n_done % N_LIST;
        n = N_LIST - at < left ? N_LIST - at : left;
        sum += some(done->index + at, n);
    }
    return sum;
}

static double timed(const bench_run_t *run, int side)
{
    static uint64_t (*const ours[])(const uint64_t *, uint64_t) = { read_some, write_some,
                                                                    operate_some, mix_some,
                                                                    read_some };
    static uint64_t (*const theirs[])(const uint64_t *, uint64_t) = { NULL, native_some, rma_some,
                                                                      lock_some };
    bool reads_beyond = (run->arg & ~MANY) == BEYOND_READ;
    uint64_t begin, sum, from, iters = reads_beyond && run->rank != 0 ? 0 : run->iters;
    work_done_t *done = &now.done[side];
    double ns;
    open_case(run);
    open_side(side);
    from = done->n_done;
    if (side == OURS)
        work_watch(run, now.array[OURS]);
    begin = bench_now();
    if (side == OURS)
        sum = advance(done, iters, now.arg & MANY ? many_some : ours[now.what]);
    else
        sum = advance(done, iters, theirs[side]);
    if (side == RMA)
        bench_check(pgas_flush_all(), "pgas_flush_all");
    ns = bench_since(begin);
    if (side == OURS)
        work_watched(run, now.array[OURS], iters, ns);
    if ((now.what == READ || now.what == BEYOND_READ) && sum != want_sum(done, from))
        bench_die("what was read adds up to %llu, not %llu", (unsigned long long)sum,
                  (unsigned long long)want_sum(done, from));
    return iters > 0 ? ns : 0;
}

#define LOOP(NAME, SIDE)                       \
    static double NAME(const bench_run_t *run) \
    {                                          \
        return timed(run, SIDE);               \
    }
LOOP(ours, OURS)
LOOP(native, NATIVE)
LOOP(rma, RMA)
LOOP(locks, LOCKS)

/* ---- cases ---- */

#define RANDOM(VARIANT, DOC, WHAT)                                                     \
    {                                                                                  \
        .variant = VARIANT, .doc = DOC, .paths = BENCH_ANYWHERE, .metric = BENCH_RATE, \
        .ours = ours, .round_ms = ROUND_MS, .arg = WHAT, .refs = {                     \
            { "native", BENCH_OURS, native },                                          \
            { "rma", BENCH_OURS, rma },                                                \
            { "locks", BENCH_OURS, locks }                                             \
        }                                                                              \
    }

static const bench_case_t cases[] = {
    RANDOM("read", "elements of all ranks", READ),
    RANDOM("write", "elements of all ranks", WRITE),
    RANDOM("operate", "elements of all ranks", OPERATE),
    RANDOM("read-many", "elements of all ranks, 4096 in a call", READ | MANY),
    RANDOM("operate-many", "elements of all ranks, 4096 in a call", OPERATE | MANY),
    RANDOM("mix", "seven writes in ten, all of the array in the cache", MIX),
    { .variant = "beyond",
      .doc = "reads of another node, from an array fifty times the cache",
      .paths = BENCH_FAR,
      .ours = ours,
      .refs = { { "ucx", BENCH_UCX, ref_ucx_get_first } },
      .round_ms = ROUND_MS,
      .arg = BEYOND_READ },
    { .variant = "beyond-many",
      .doc = "the same, 4096 elements in a call",
      .paths = BENCH_FAR,
      .ours = ours,
      .refs = { { "ucx", BENCH_UCX, ref_ucx_get_first } },
      .round_ms = ROUND_MS,
      .arg = BEYOND_READ | MANY },
};

static const char *set_elements(const char *text)
{
    return work_number(text, 1, 1e10, &n_chosen, "--elements: 1 to 1e10");
}

static const bench_option_t options[] = {
    { "elements", "N", "of each rank, in read, write and operate (2^20)", set_elements },
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
    const bench_program_t program = { .name = "pgas_array_random",
                                      .doc = "uniformly random accesses to a distributed array",
                                      .ranks = BENCH_ANY,
                                      .label = "Figure",
                                      .min_bytes = 8,
                                      .max_bytes = 8,
                                      BENCH_CASES(cases),
                                      .figures = work_figures,
                                      .finish = finish,
                                      .options = options };
    return bench_main(&program, argc, argv);
}
