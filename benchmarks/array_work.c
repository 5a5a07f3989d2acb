/* Functions that the benchmarks of arrays share, see array_work.h. */
#include "benchmarks/array_work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEAD  4096 /* bytes before a plain array, for its block */
#define PIECE 4096 /* elements that are checked together */
#define KEPT  5    /* rounds of which figures are kept */

/* ---- elements ---- */

/* The sum of 0 .. n - 1, as all here modulo 2^64. */
static uint64_t triangle(uint64_t n)
{
    return n % 2 ? (n - 1) / 2 * n : n / 2 * (n - 1);
}

uint64_t work_value_sum(uint64_t first, uint64_t n)
{
    return (triangle(first + n) - triangle(first)) * (work_value(1) - work_value(0)) +
           n * work_value(0);
}

uint64_t *work_native(uint64_t first, uint64_t n)
{
    pgas_gptr_t block;
    bench_check(pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, HEAD + n * sizeof(uint64_t), &block),
                "pgas_alloc_on: PGAS_HEAP_SIZE");
    char *head = pgas_gptr_local(block, HEAD);
    uint64_t *native = (uint64_t *)(void *)(head + HEAD);
    memcpy(head, &block, sizeof block);
    for (uint64_t i = 0; i < n; i++)
        native[i] = work_value(first + i);
    return native;
}

void work_native_free(uint64_t *native)
{
    pgas_gptr_t block;
    if (!native)
        return;
    memcpy(&block, (char *)native - HEAD, sizeof block);
    bench_check(pgas_free_on(block), "pgas_free_on");
}

void work_fill(pgas_array_t *array)
{
    uint64_t piece[PIECE], first, n_own;
    bench_check(pgas_array_range(array, -1, &first, &n_own), "pgas_array_range");
    for (uint64_t at = 0, m; at < n_own; at += m) {
        m = n_own - at < PIECE ? n_own - at : PIECE;
        for (uint64_t k = 0; k < m; k++)
            piece[k] = work_value(first + at + k);
        bench_check(pgas_array_store(array, first + at, m, piece), "pgas_array_store");
    }
    bench_check(pgas_barrier(NULL), "pgas_barrier");
}

pgas_array_t *work_create(uint64_t n, const pgas_array_opts_t *opts)
{
    pgas_array_t *array;
    bench_check(pgas_array_create(NULL, sizeof(uint64_t), n, opts, &array), "pgas_array_create");
    work_fill(array);
    return array;
}

void work_destroy(pgas_array_t *array)
{
    if (array)
        bench_check(pgas_array_destroy(array), "pgas_array_destroy");
}

work_table_t work_table_create(uint64_t n)
{
    uint64_t per_rank = (n + (uint64_t)pgas_n_ranks() - 1) / (uint64_t)pgas_n_ranks();
    work_table_t table = { .per_rank = per_rank };
    uint64_t *mine;
    bench_check(pgas_alloc(per_rank * sizeof *mine, &table.base), "pgas_alloc");
    mine = pgas_gptr_local(table.base, per_rank * sizeof *mine);
    for (uint64_t i = 0; i < per_rank; i++)
        mine[i] = work_value((uint64_t)pgas_rank() * per_rank + i);
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    return table;
}

void work_table_destroy(work_table_t *table)
{
    if (table->per_rank)
        bench_check(pgas_free(table->base), "pgas_free");
    *table = (work_table_t){ 0 };
}

/* ---- index lists ---- */

static uint64_t *new_list(uint64_t n)
{
    return bench_table(n * sizeof(uint64_t));
}

uint64_t *work_draw_uniform(uint64_t n, uint64_t first, uint64_t n_elems, uint64_t seed)
{
    uint64_t *list = new_list(n);
    for (uint64_t k = 0; k < n; k++)
        list[k] = first + bench_random_below(&seed, n_elems);
    return list;
}

/* The exact distribution: for each r the probability of ranks 0 .. r together. */
static double *accumulate(uint64_t n_elems, double skew)
{
    double *below = bench_table(n_elems * sizeof *below), sum = 0;
    for (uint64_t r = 0; r < n_elems; r++)
        below[r] = sum += pow((double)(r + 1), -skew);
    return below;
}

static uint64_t find_rank(const double *below, uint64_t n_elems, double point)
{
    uint64_t low = 0, high = n_elems - 1;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (below[middle] > point)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint64_t *work_draw_zipf(uint64_t n, uint64_t n_elems, double skew, uint64_t seed)
{
    /* times an odd number: a shuffle of 2^k indices */
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t *list = new_list(n);
    double *below = accumulate(n_elems, skew);
    for (uint64_t k = 0; k < n; k++) {
        double point =
            (double)(bench_random(&seed) >> 11) / (double)(UINT64_C(1) << 53) * below[n_elems - 1];
        list[k] = (find_rank(below, n_elems, point) * odd + odd / 2) & (n_elems - 1);
    }
    free(below);
    return list;
}

/* ---- checks ---- */

/* Counts how often this rank has used each element. */
static uint64_t *count_own(const pgas_array_t *array, const work_done_t *done)
{
    uint64_t *count = bench_table(pgas_array_n_elems(array) * sizeof *count);
    uint64_t passes = done->n_done / done->n_list, rest = done->n_done % done->n_list;
    for (uint64_t k = 0; k < done->n_list; k++)
        count[done->index[k]] += passes + (k < rest);
    return count;
}

static void blame(uint64_t i, uint64_t is, uint64_t want)
{
    bench_die("element %llu is %llu more than at the begin, not %llu", (unsigned long long)i,
              (unsigned long long)(is - work_value(i)), (unsigned long long)want);
}

void work_check_adds(pgas_array_t *array, const work_done_t *done)
{
    uint64_t *mine = count_own(array, done), all[PIECE], is[PIECE], n = pgas_array_n_elems(array);
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    for (uint64_t at = 0, m; at < n; at += m) {
        m = n - at < PIECE ? n - at : PIECE;
        bench_check(pgas_allreduce(NULL, mine + at, all, m, PGAS_U64, PGAS_ADD), "pgas_allreduce");
        if (pgas_array_home(array, at) != pgas_rank())
            continue;
        bench_check(pgas_array_load(array, at, m, is), "pgas_array_load");
        for (uint64_t k = 0; k < m; k++)
            if (is[k] != work_value(at + k) + all[k])
                blame(at + k, is[k], all[k]);
    }
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    free(mine);
}

/* @return whether any rank, or the rank that the value names, has written */
static void check_set(uint64_t i, uint64_t is, uint64_t writers)
{
    uint64_t more = is - work_value(i);
    if (writers == 0 ? more != 0 : more == 0 || more > 64 || !(writers >> (more - 1) & 1))
        bench_die("element %llu is %llu more than at the begin; ranks %#llx have written it",
                  (unsigned long long)i, (unsigned long long)more, (unsigned long long)writers);
}

void work_check_sets(pgas_array_t *array, const work_done_t *done)
{
    uint64_t *mine = count_own(array, done), all[PIECE], is[PIECE], n = pgas_array_n_elems(array);
    uint64_t bit = UINT64_C(1) << pgas_rank();
    for (uint64_t i = 0; i < n; i++)
        mine[i] = mine[i] ? bit : 0;
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    for (uint64_t at = 0, m; at < n; at += m) {
        m = n - at < PIECE ? n - at : PIECE;
        bench_check(pgas_allreduce(NULL, mine + at, all, m, PGAS_U64, PGAS_OR), "pgas_allreduce");
        if (pgas_array_home(array, at) != pgas_rank())
            continue;
        bench_check(pgas_array_load(array, at, m, is), "pgas_array_load");
        for (uint64_t k = 0; k < m; k++)
            check_set(at + k, is[k], all[k]);
    }
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    free(mine);
}

/* ---- figures ---- */

enum { HITS, FETCHED, AT_HOME, GUARDED, RECALLS, MESSAGES, NOTES, N_FIGURES = NOTES + 2 };
enum { D_MISSES, D_FETCHES, D_REMOTE, D_GUARDED, D_RECALLS, D_MESSAGES, D_ACCESSES, N_DELTAS };

static struct {
    uint64_t iters, n; /* length of the rounds kept: the longest so far */
    double value[N_FIGURES][KEPT];
    struct {
        const char *name, *unit;
        double value;
    } note[2];
    pgas_array_info_t before;
} kept;

void work_forget(void)
{
    memset(&kept, 0, sizeof kept);
}

void work_note(int which, const char *name, const char *unit, double value)
{
    kept.note[which].name = name;
    kept.note[which].unit = unit;
    kept.note[which].value = value;
}

void work_watch(const bench_run_t *run, const pgas_array_t *array)
{
    (void)run;
    kept.before.size = sizeof kept.before;
    bench_check(pgas_array_info(array, &kept.before), "pgas_array_info");
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

/* Rounds that only warm up are shorter. */
void work_watched(const bench_run_t *run, const pgas_array_t *array, uint64_t n, double ns)
{
    const pgas_array_info_t *was = &kept.before;
    pgas_array_info_t is = { .size = sizeof is };
    uint64_t mine[N_DELTAS], all[N_DELTAS], slot;
    double slowest = 0;
    bench_check(pgas_barrier(NULL), "pgas_barrier"); /* ranks that only answer have answered */
    bench_check(pgas_array_info(array, &is), "pgas_array_info");
    mine[D_MISSES] = is.misses - was->misses;
    mine[D_FETCHES] = is.fetches + is.prefetches - was->fetches - was->prefetches;
    mine[D_REMOTE] = is.remote_ops - was->remote_ops;
    mine[D_GUARDED] = is.guarded - was->guarded;
    mine[D_RECALLS] = is.recalls - was->recalls;
    mine[D_MESSAGES] = is.messages - was->messages;
    mine[D_ACCESSES] = n;
    bench_check(pgas_allreduce(NULL, mine, all, N_DELTAS, PGAS_U64, PGAS_ADD), "pgas_allreduce");
    bench_check(pgas_allreduce(NULL, &ns, &slowest, 1, PGAS_F64, PGAS_MAX), "pgas_allreduce");
    if (run->iters < kept.iters)
        return;
    if (run->iters > kept.iters)
        kept.n = 0;
    kept.iters = run->iters;
    slot = kept.n++ % KEPT;
    kept.value[HITS][slot] = 100 - percent(all[D_MISSES], all[D_ACCESSES]);
    kept.value[FETCHED][slot] = (double)all[D_FETCHES] * 1e6 / slowest;
    kept.value[AT_HOME][slot] = percent(all[D_REMOTE], all[D_ACCESSES]);
    kept.value[GUARDED][slot] = percent(all[D_GUARDED], all[D_ACCESSES]);
    kept.value[RECALLS][slot] = (double)all[D_RECALLS] * 1e6 / slowest;
    kept.value[MESSAGES][slot] = percent(all[D_MESSAGES], all[D_ACCESSES]);
    for (int i = 0; i < 2; i++)
        kept.value[NOTES + i][slot] = kept.note[i].value;
}

int work_figures(const bench_case_t *c, bench_figure_t *figure)
{
    static const bench_figure_t figures[NOTES] = {
        [HITS] = { .name = "hits", .unit = "% of accesses", .higher = true },
        [FETCHED] = { .name = "fetched", .unit = "chunks/ms", .higher = true },
        [AT_HOME] = { .name = "at-home", .unit = "% of accesses" },
        [GUARDED] = { .name = "guarded", .unit = "% of accesses" },
        [RECALLS] = { .name = "recalls", .unit = "chunks/ms" },
        [MESSAGES] = { .name = "messages", .unit = "per 100 accesses" }
    };
    int n = kept.n < KEPT ? (int)kept.n : KEPT, n_figures = 0;
    (void)c;
    for (int i = 0; n > 0 && i < N_FIGURES; i++) {
        bench_figure_t *f = &figure[n_figures];
        if (i >= NOTES && !kept.note[i - NOTES].name)
            continue;
        n_figures++;
        *f = i < NOTES ? figures[i]
                       : (bench_figure_t){ .name = kept.note[i - NOTES].name,
                                           .unit = kept.note[i - NOTES].unit };
        bench_sort(kept.value[i], (size_t)n);
        f->min = kept.value[i][0];
        f->median = kept.value[i][n / 2];
        f->max = kept.value[i][n - 1];
    }
    return n_figures;
}

const char *work_number(const char *text, double min, double max, uint64_t *value_p,
                        const char *wrong)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= min && value <= max) || value != floor(value))
        return wrong;
    *value_p = (uint64_t)value;
    return NULL;
}
