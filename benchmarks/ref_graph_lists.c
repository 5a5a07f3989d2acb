/* Reference loops that compare lists of neighbours, see ref_graph.h: triangles, local clustering,
 * and communities by label propagation.
 *
 * Triangles and clustering work on a copy of the graph: vertices are numbered by falling degree,
 * and each list has only the smaller numbers, so that no list is longer than the root of twice the
 * number of edges. Every triangle a > b > c is then found once, at a, and hubs have the smallest
 * numbers. */
#include "benchmarks/ref_graph.h"
#include "benchmarks/ref_crew.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK 64 /* vertices that a thread takes at once; lists of hubs are long */
#define MANY  1024

static uint64_t degree_of(const ref_graph_t *graph, uint64_t v)
{
    return graph->begin[v + 1] - graph->begin[v];
}

/* ---- the copy in order of degrees (Schank, Wagner, "Finding, counting and listing all triangles
 * in large graphs", 2005) ---- */

typedef struct {
    const ref_graph_t *graph;
    uint32_t *old, *number; /* of a new number the vertex, and of a vertex the new number */
    uint64_t *begin;        /* as in ref_graph_t */
    uint32_t *end;
} ordered_t;

/* Sorts by counting, in one thread: it takes about a hundredth of the whole. */
static void number_vertices(ordered_t *ordered)
{
    const ref_graph_t *graph = ordered->graph;
    uint64_t most = 0, *at;
    for (uint64_t v = 0; v < graph->n; v++)
        most = degree_of(graph, v) > most ? degree_of(graph, v) : most;
    at = ref_crew_alloc((most + 2) * sizeof *at);
    memset(at, 0, (most + 2) * sizeof *at);
    for (uint64_t v = 0; v < graph->n; v++)
        at[most - degree_of(graph, v) + 1]++;
    for (uint64_t i = 1; i <= most; i++)
        at[i] += at[i - 1];
    for (uint64_t v = 0; v < graph->n; v++) {
        uint64_t number = at[most - degree_of(graph, v)]++;
        ordered->number[v] = (uint32_t)number;
        ordered->old[number] = (uint32_t)v;
    }
    free(at);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void sort_list(uint32_t *list, uint64_t n)
{
    if (n > 32) {
        qsort(list, n, sizeof *list, compare);
        return;
    }
    for (uint64_t i = 1; i < n; i++) {
        uint32_t x = list[i];
        uint64_t k = i;
        for (; k > 0 && list[k - 1] > x; k--)
            list[k] = list[k - 1];
        list[k] = x;
    }
}

static void count_smaller(ref_crew_t *crew, ordered_t *ordered)
{
    const ref_graph_t *graph = ordered->graph;
    uint64_t from, to;
    while (ref_crew_take(crew, graph->n, CHUNK, &from, &to)) {
        for (uint64_t v = from; v < to; v++) {
            uint64_t n = 0;
            for (uint64_t e = graph->begin[v]; e < graph->begin[v + 1]; e++)
                n += ordered->number[graph->end[e]] < ordered->number[v];
            ordered->begin[ordered->number[v] + 1] = n;
        }
    }
    ref_crew_meet(crew);
}

static void copy_lists(ref_crew_t *crew, ordered_t *ordered)
{
    const ref_graph_t *graph = ordered->graph;
    uint64_t from, to;
    while (ref_crew_take(crew, graph->n, CHUNK, &from, &to)) {
        for (uint64_t i = from; i < to; i++) {
            uint32_t v = ordered->old[i], *list = ordered->end + ordered->begin[i];
            uint64_t n = 0;
            for (uint64_t e = graph->begin[v]; e < graph->begin[v + 1]; e++)
                if (ordered->number[graph->end[e]] < i)
                    list[n++] = ordered->number[graph->end[e]];
            sort_list(list, n);
        }
    }
    ref_crew_meet(crew);
}

static void order_by_degree(ref_crew_t *crew, int me, ordered_t *ordered)
{
    uint64_t n = ordered->graph->n;
    if (me == 0) {
        ordered->old = ref_crew_alloc(n * sizeof *ordered->old);
        ordered->number = ref_crew_alloc(n * sizeof *ordered->number);
        ordered->begin = ref_crew_alloc((n + 1) * sizeof *ordered->begin);
        number_vertices(ordered);
    }
    ref_crew_meet(crew);
    count_smaller(crew, ordered);
    if (me == 0) {
        ordered->begin[0] = 0;
        for (uint64_t i = 0; i < n; i++)
            ordered->begin[i + 1] += ordered->begin[i];
        ordered->end = ref_crew_alloc(ordered->begin[n] * sizeof *ordered->end);
    }
    ref_crew_meet(crew);
    copy_lists(crew, ordered);
}

static void free_ordered(const ordered_t *ordered)
{
    free(ordered->old);
    free(ordered->number);
    free(ordered->begin);
    free(ordered->end);
}

/* ---- triangles ---- */

typedef struct {
    ordered_t ordered;
    uint64_t n_found;
} triangles_t;

/* The numbers in both lists, by merging them. */
static uint64_t count_common(const uint32_t *a, const uint32_t *a_end, const uint32_t *b,
                             const uint32_t *b_end)
{
    uint64_t n = 0;
    while (a < a_end && b < b_end) {
        uint32_t x = *a, y = *b;
        n += x == y;
        a += x <= y;
        b += y <= x;
    }
    return n;
}

static void run_triangles(ref_crew_t *crew, int me, void *arg)
{
    triangles_t *job = arg;
    ordered_t *ordered = &job->ordered;
    uint64_t from, to, n = 0;
    order_by_degree(crew, me, ordered);
    const uint64_t *begin = ordered->begin;
    const uint32_t *end = ordered->end;
    while (ref_crew_take(crew, ordered->graph->n, CHUNK, &from, &to))
        for (uint64_t i = from; i < to; i++)
            for (uint64_t e = begin[i]; e < begin[i + 1]; e++)
                n += count_common(end + begin[i], end + e, end + begin[end[e]],
                                  end + begin[end[e] + 1]);
    n = ref_crew_sum(crew, me, n);
    if (me == 0)
        job->n_found = n;
}

ref_graph_time_t ref_graph_triangles(const ref_graph_t *graph, int n_threads)
{
    triangles_t job = { .ordered.graph = graph };
    double seconds = ref_crew_run(n_threads, run_triangles, &job);
    free_ordered(&job.ordered);
    return (ref_graph_time_t){ seconds, (double)job.n_found };
}

/* ---- local clustering (LDBC Graphalytics) ---- */

typedef struct {
    ordered_t ordered;
    double *lcc;
    uint64_t *n_found[REF_CREW_MAX]; /* of each thread, for each number: its triangles */
} lcc_t;

static void set_bits(uint64_t *bitmap, const uint32_t *list, const uint32_t *end)
{
    for (; list < end; list++)
        bitmap[*list / 64] |= UINT64_C(1) << *list % 64;
}

static void clear_bits(uint64_t *bitmap, const uint32_t *list, const uint32_t *end)
{
    for (; list < end; list++)
        bitmap[*list / 64] = 0;
}

/* The triangles of which i is the greatest number; `marked` has the bits of its list. */
static void count_at(const ordered_t *ordered, const uint64_t *marked, uint64_t *n_found,
                     uint64_t i)
{
    const uint64_t *begin = ordered->begin;
    for (uint64_t e = begin[i]; e < begin[i + 1]; e++) {
        uint32_t k = ordered->end[e];
        uint64_t n = 0;
        for (uint64_t f = begin[k]; f < begin[k + 1]; f++) {
            uint32_t l = ordered->end[f];
            uint64_t hit = marked[l / 64] >> l % 64 & 1;
            n_found[l] += hit;
            n += hit;
        }
        n_found[k] += n;
        n_found[i] += n;
    }
}

static void count_all(ref_crew_t *crew, int me, lcc_t *job)
{
    const ordered_t *ordered = &job->ordered;
    uint64_t n = ordered->graph->n, n_bytes = (n + 63) / 64 * 8, from, to;
    uint64_t *marked = ref_crew_alloc(n_bytes), *n_found = ref_crew_alloc(n * sizeof *n_found);
    memset(marked, 0, n_bytes);
    memset(n_found, 0, n * sizeof *n_found);
    while (ref_crew_take(crew, n, CHUNK, &from, &to)) {
        for (uint64_t i = from; i < to; i++) {
            const uint32_t *list = ordered->end + ordered->begin[i];
            const uint32_t *end = ordered->end + ordered->begin[i + 1];
            set_bits(marked, list, end);
            count_at(ordered, marked, n_found, i);
            clear_bits(marked, list, end);
        }
    }
    free(marked);
    job->n_found[me] = n_found;
    ref_crew_meet(crew);
}

static void run_lcc(ref_crew_t *crew, int me, void *arg)
{
    lcc_t *job = arg;
    const ordered_t *ordered = &job->ordered;
    uint64_t from, to;
    order_by_degree(crew, me, &job->ordered);
    count_all(crew, me, job);
    while (ref_crew_take(crew, ordered->graph->n, MANY, &from, &to)) {
        for (uint64_t v = from; v < to; v++) {
            double degree = (double)degree_of(ordered->graph, v);
            uint64_t n = 0;
            for (int t = 0; t < ref_crew_size(crew); t++)
                n += job->n_found[t][ordered->number[v]];
            job->lcc[v] = degree < 2 ? 0 : 2 * (double)n / (degree * (degree - 1));
        }
    }
    ref_crew_meet(crew);
    free(job->n_found[me]);
}

ref_graph_time_t ref_graph_lcc(const ref_graph_t *graph, int n_threads, double *lcc)
{
    lcc_t job = { .ordered.graph = graph, .lcc = lcc };
    ref_graph_time_t result = { .seconds = ref_crew_run(n_threads, run_lcc, &job) };
    free_ordered(&job.ordered);
    for (uint64_t v = 0; v < graph->n; v++)
        result.check += lcc[v];
    return result;
}

/* ---- label propagation (Raghavan, Albert, Kumara, "Near linear time algorithm to detect community
 * structures", 2007; synchronous and deterministic as in LDBC Graphalytics) ---- */

typedef struct {
    uint32_t label, n; /* n 0: free */
} count_t;

typedef struct {
    const ref_graph_t *graph;
    int rounds;
    uint32_t *label, *next;
} cdlp_t;

/* A hash table of one thread that is as large as the list it serves. */
typedef struct {
    count_t *counts;
    uint64_t max;
} table_t;

static uint32_t slots_for(uint64_t degree)
{
    uint32_t bits = 3;
    while (UINT64_C(1) << bits < 2 * degree)
        bits++;
    return bits;
}

static void clear_table(table_t *table, uint64_t n)
{
    if (n > table->max) {
        free(table->counts);
        table->counts = ref_crew_alloc(n * sizeof *table->counts);
        table->max = n;
    }
    memset(table->counts, 0, n * sizeof *table->counts);
}

/* Counts one more of a label. @return how many there are */
static uint32_t count_label(count_t *counts, uint32_t bits, uint32_t label)
{
    uint64_t mask = (UINT64_C(1) << bits) - 1;
    uint64_t at = label * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits);
    while (counts[at].n != 0 && counts[at].label != label)
        at = (at + 1) & mask;
    counts[at].label = label;
    return ++counts[at].n;
}

static uint32_t label_of_most(const cdlp_t *job, table_t *table, uint64_t v)
{
    const ref_graph_t *graph = job->graph;
    uint32_t bits = slots_for(degree_of(graph, v)), best = job->label[v], most = 0;
    clear_table(table, UINT64_C(1) << bits);
    for (uint64_t e = graph->begin[v]; e < graph->begin[v + 1]; e++) {
        uint32_t label = job->label[graph->end[e]], n = count_label(table->counts, bits, label);
        if (n > most || (n == most && label < best)) {
            most = n;
            best = label;
        }
    }
    return best;
}

static uint64_t run_round(ref_crew_t *crew, const cdlp_t *job, table_t *table)
{
    uint64_t from, to, n_changed = 0;
    while (ref_crew_take(crew, job->graph->n, CHUNK, &from, &to)) {
        for (uint64_t v = from; v < to; v++) {
            job->next[v] = label_of_most(job, table, v);
            n_changed += job->next[v] != job->label[v];
        }
    }
    return n_changed;
}

static void run_cdlp(ref_crew_t *crew, int me, void *arg)
{
    cdlp_t *all = arg, job;
    table_t table = { NULL, 0 };
    uint64_t from, to, n_changed = 1;
    if (me == 0)
        all->next = ref_crew_alloc(all->graph->n * sizeof *all->next);
    ref_crew_meet(crew);
    job = *all; /* each thread swaps its own pointers */
    while (ref_crew_take(crew, job.graph->n, MANY, &from, &to))
        for (uint64_t v = from; v < to; v++)
            job.label[v] = (uint32_t)v;
    ref_crew_meet(crew);
    for (int i = 0; i < job.rounds && n_changed > 0; i++) {
        uint32_t *old = job.label;
        n_changed = ref_crew_sum(crew, me, run_round(crew, &job, &table));
        job.label = job.next;
        job.next = old;
    }
    if (me == 0 && job.label != all->label)
        memcpy(all->label, job.label, job.graph->n * sizeof *all->label);
    free(table.counts);
}

ref_graph_time_t ref_graph_cdlp(const ref_graph_t *graph, int n_threads, int rounds,
                                uint32_t *label)
{
    cdlp_t job = { .graph = graph, .rounds = rounds, .label = label };
    ref_graph_time_t result = { .seconds = ref_crew_run(n_threads, run_cdlp, &job) };
    uint8_t *is_used = calloc(graph->n ? graph->n : 1, 1);
    for (uint64_t v = 0; is_used && v < graph->n; v++) {
        result.check += !is_used[label[v]];
        is_used[label[v]] = 1;
    }
    free(is_used);
    free(job.next);
    return result;
}
