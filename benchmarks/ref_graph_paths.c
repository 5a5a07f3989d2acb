/* Reference loops over shortest paths, see ref_graph.h: distances in a graph with weights, and
 * betweenness. */
#include "benchmarks/ref_graph.h"
#include "benchmarks/ref_crew.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 1024 /* vertices that a thread takes at once */

/* A list of vertices that grows. */
typedef struct {
    uint32_t *vertex;
    uint64_t n, max;
} list_t;

static void *grown(void *memory, size_t bytes)
{
    memory = realloc(memory, bytes);
    if (!memory) {
        fprintf(stderr, "ref_graph: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

static void reserve(list_t *list, uint64_t n)
{
    if (n <= list->max)
        return;
    list->max = n > 2 * list->max ? n : 2 * list->max;
    list->vertex = grown(list->vertex, list->max * sizeof *list->vertex);
}

static void add(list_t *list, uint32_t vertex)
{
    if (list->n == list->max)
        reserve(list, list->n + 16);
    list->vertex[list->n++] = vertex;
}

/* ---- distances (Meyer, Sanders, "Delta-stepping", 2003; buckets of threads and their fusion:
 * Zhang et al., "Optimizing ordered graph algorithms with GraphIt", 2020) ---- */

#define FUSED_MAX 1000 /* vertices in a thread's own bucket that it relaxes without the others */
#define AHEAD     16   /* edges between a distance and the one that is prefetched */
#define TAKE      64   /* vertices of the shared bucket that a thread takes at once */

typedef struct {
    const ref_graph_t *graph;
    uint32_t source, delta, *distance;
    list_t bucket; /* the current one of all threads */
} sssp_t;

/* The buckets of one thread, and the one that it works on. */
typedef struct {
    list_t *buckets, now;
    uint64_t n;
} bins_t;

static list_t *bucket_at(bins_t *bins, uint64_t number)
{
    if (number >= bins->n) {
        uint64_t n = number + 1 + bins->n;
        bins->buckets = grown(bins->buckets, n * sizeof *bins->buckets);
        memset(bins->buckets + bins->n, 0, (n - bins->n) * sizeof *bins->buckets);
        bins->n = n;
    }
    return &bins->buckets[number];
}

static void relax_edges(const sssp_t *job, bins_t *bins, uint32_t u)
{
    const ref_graph_t *graph = job->graph;
    uint32_t near = REF_LOAD(job->distance[u]);
    uint64_t last = graph->begin[graph->n] - 1;
    for (uint64_t e = graph->begin[u]; e < graph->begin[u + 1]; e++) {
        uint32_t v = graph->end[e], distance = near + graph->weight[e];
        uint32_t old = REF_LOAD(job->distance[v]);
        __builtin_prefetch(&job->distance[graph->end[e + AHEAD < last ? e + AHEAD : last]]);
        while (distance < old) {
            if (REF_SWAP_IF(job->distance[v], &old, distance)) {
                add(bucket_at(bins, distance / job->delta), v);
                break;
            }
        }
    }
}

/* Relaxes vertices unless they were in an earlier bucket, where they were relaxed already. The
 * lists of the next vertices are on the way to the cache. */
static void relax_all(const sssp_t *job, bins_t *bins, const uint32_t *vertex, uint64_t n,
                      uint64_t number)
{
    const ref_graph_t *graph = job->graph;
    for (uint64_t i = 0; i < n; i++) {
        if (i + 4 < n)
            __builtin_prefetch(&graph->begin[vertex[i + 4]]);
        if (i + 2 < n) {
            __builtin_prefetch(&graph->end[graph->begin[vertex[i + 2]]]);
            __builtin_prefetch(&graph->weight[graph->begin[vertex[i + 2]]]);
        }
        if (REF_LOAD(job->distance[vertex[i]]) >= number * job->delta)
            relax_edges(job, bins, vertex[i]);
    }
}

static void relax_bucket(ref_crew_t *crew, const sssp_t *job, bins_t *bins, uint64_t number)
{
    uint64_t from, to;
    while (ref_crew_take(crew, job->bucket.n, TAKE, &from, &to))
        relax_all(job, bins, job->bucket.vertex + from, to - from, number);
}

/* Relaxes the thread's own vertices of the same bucket, while they are few. */
static void relax_own(const sssp_t *job, bins_t *bins, uint64_t number)
{
    while (number < bins->n && bins->buckets[number].n > 0 && bins->buckets[number].n < FUSED_MAX) {
        list_t mine = bins->buckets[number];
        bins->buckets[number] = bins->now;
        bins->buckets[number].n = 0;
        bins->now = mine;
        relax_all(job, bins, mine.vertex, mine.n, number);
    }
}

static uint64_t least_bucket(const bins_t *bins, uint64_t from)
{
    for (uint64_t i = from; i < bins->n; i++)
        if (bins->buckets[i].n > 0)
            return i;
    return UINT64_MAX;
}

/* Puts the buckets of this number of all threads together. */
static void gather_bucket(ref_crew_t *crew, int me, sssp_t *job, bins_t *bins, uint64_t number)
{
    list_t none = { NULL, 0, 0 }, *mine = number < bins->n ? &bins->buckets[number] : &none;
    uint64_t all = ref_crew_sum(crew, me, mine->n), at;
    if (me == 0) {
        reserve(&job->bucket, all);
        job->bucket.n = 0;
    }
    ref_crew_meet(crew);
    at = REF_ADD(job->bucket.n, mine->n);
    if (mine->n > 0)
        memcpy(job->bucket.vertex + at, mine->vertex, mine->n * sizeof *mine->vertex);
    mine->n = 0;
    ref_crew_meet(crew);
}

static void run_sssp(ref_crew_t *crew, int me, void *arg)
{
    sssp_t *job = arg;
    bins_t bins = { .n = 0 };
    uint64_t from, to, number = 0;
    while (ref_crew_take(crew, job->graph->n, CHUNK, &from, &to))
        memset(job->distance + from, 0xff, (to - from) * sizeof *job->distance);
    ref_crew_meet(crew);
    if (me == 0) {
        job->distance[job->source] = 0;
        add(&job->bucket, job->source);
    }
    ref_crew_meet(crew);
    while (number != UINT64_MAX) {
        relax_bucket(crew, job, &bins, number);
        relax_own(job, &bins, number);
        number = ref_crew_least(crew, me, least_bucket(&bins, number));
        if (number != UINT64_MAX)
            gather_bucket(crew, me, job, &bins, number);
    }
    for (uint64_t i = 0; i < bins.n; i++)
        free(bins.buckets[i].vertex);
    free(bins.buckets);
    free(bins.now.vertex);
}

ref_graph_time_t ref_graph_sssp(const ref_graph_t *graph, int n_threads, uint32_t source,
                                uint32_t delta, uint32_t *distance)
{
    sssp_t job = { .graph = graph, .source = source, .delta = delta, .distance = distance };
    ref_graph_time_t result = { .seconds = ref_crew_run(n_threads, run_sssp, &job) };
    for (uint64_t v = 0; v < graph->n; v++)
        if (distance[v] != REF_GRAPH_NONE)
            result.check += distance[v];
    free(job.bucket.vertex);
    return result;
}

/* ---- betweenness (Brandes, "A faster algorithm for betweenness centrality", 2001; levels:
 * Madduri et al., 2009) ---- */

#define WORD    64
#define OUT_MAX 1024 /* vertices that a thread gathers before it appends them */

typedef struct {
    const ref_graph_t *graph;
    uint32_t source;
    double *score;
    double *paths; /* shortest paths from the source; 0: not reached */
    double *share; /* (1 + score) / paths, of levels that are done */
    /* Bitmaps of one level, and of the current level with all before it. */
    uint64_t n_words, *level, *seen;
    uint32_t *order; /* vertices by level; level i is [start[i], start[i + 1]) */
    uint64_t n_order, *start, n_start, max_start;
} betweenness_t;

typedef struct {
    uint32_t vertex[OUT_MAX];
    uint32_t n;
    uint64_t edges; /* of all that were put */
} out_t;

static uint64_t degree_of(const ref_graph_t *graph, uint64_t v)
{
    return graph->begin[v + 1] - graph->begin[v];
}

static void append(betweenness_t *job, out_t *out)
{
    uint64_t at = REF_ADD(job->n_order, out->n);
    memcpy(job->order + at, out->vertex, out->n * sizeof *out->vertex);
    out->n = 0;
}

static void put_out(betweenness_t *job, out_t *out, uint32_t vertex)
{
    if (out->n == OUT_MAX)
        append(job, out);
    out->vertex[out->n++] = vertex;
    out->edges += degree_of(job->graph, vertex);
}

static bool has(const uint64_t *bitmap, uint64_t v)
{
    return bitmap[v / WORD] >> v % WORD & 1;
}

static void clear(ref_crew_t *crew, betweenness_t *job, uint64_t *bitmap)
{
    uint64_t from, to;
    while (ref_crew_take(crew, job->n_words, CHUNK, &from, &to))
        memset(bitmap + from, 0, (to - from) * sizeof *bitmap);
    ref_crew_meet(crew);
}

/* Sets the bits of a level. */
static void mark(ref_crew_t *crew, const betweenness_t *job, uint64_t *bitmap, uint64_t i)
{
    uint64_t begin = job->start[i], n = job->start[i + 1] - begin, from, to;
    while (ref_crew_take(crew, n, CHUNK, &from, &to)) {
        for (uint64_t k = begin + from; k < begin + to; k++) {
            uint32_t v = job->order[k];
            REF_OR(bitmap[v / WORD], UINT64_C(1) << v % WORD);
        }
    }
    ref_crew_meet(crew);
}

static void add_atomically(double *sum, double value)
{
    double old, wanted;
    __atomic_load(sum, &old, __ATOMIC_RELAXED);
    do
        wanted = old + value;
    while (
        !__atomic_compare_exchange(sum, &old, &wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/* Counts paths from the current level outwards. The thread that gives a vertex its first paths
 * appends it. */
static void push_paths(ref_crew_t *crew, betweenness_t *job, uint64_t i, out_t *out)
{
    const ref_graph_t *graph = job->graph;
    uint64_t begin = job->start[i], n = job->start[i + 1] - begin, from, to;
    while (ref_crew_take(crew, n, TAKE, &from, &to)) {
        for (uint64_t k = begin + from; k < begin + to; k++) {
            uint32_t u = job->order[k];
            for (uint64_t e = graph->begin[u]; e < graph->begin[u + 1]; e++) {
                uint32_t v = graph->end[e];
                double none = 0, first = job->paths[u];
                if (has(job->seen, v))
                    continue;
                if (__atomic_compare_exchange(&job->paths[v], &none, &first, false,
                                              __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                    put_out(job, out, v);
                else
                    add_atomically(&job->paths[v], first);
            }
        }
    }
}

static double sum_of_level(const ref_graph_t *graph, const uint64_t *level, const double *value,
                           uint64_t v)
{
    double sum = 0;
    for (uint64_t e = graph->begin[v]; e < graph->begin[v + 1]; e++)
        if (has(level, graph->end[e]))
            sum += value[graph->end[e]];
    return sum;
}

/* Counts paths into all vertices not yet reached. */
static void pull_paths(ref_crew_t *crew, betweenness_t *job, out_t *out)
{
    const ref_graph_t *graph = job->graph;
    uint64_t from, to;
    while (ref_crew_take(crew, graph->n, CHUNK, &from, &to)) {
        for (uint64_t v = from; v < to; v++) {
            if (job->paths[v] != 0)
                continue;
            job->paths[v] = sum_of_level(graph, job->level, job->paths, v);
            if (job->paths[v] != 0)
                put_out(job, out, (uint32_t)v);
        }
    }
}

static void begin_order(ref_crew_t *crew, int me, betweenness_t *job)
{
    const ref_graph_t *graph = job->graph;
    uint64_t from, to;
    if (me == 0) {
        job->n_words = (graph->n + WORD - 1) / WORD;
        job->paths = ref_crew_alloc(graph->n * sizeof *job->paths);
        job->share = ref_crew_alloc(graph->n * sizeof *job->share);
        job->order = ref_crew_alloc(graph->n * sizeof *job->order);
        job->level = ref_crew_alloc(job->n_words * sizeof *job->level);
        job->seen = ref_crew_alloc(job->n_words * sizeof *job->seen);
    }
    ref_crew_meet(crew);
    while (ref_crew_take(crew, graph->n, CHUNK, &from, &to))
        for (uint64_t v = from; v < to; v++)
            job->paths[v] = job->score[v] = 0;
    ref_crew_meet(crew);
    clear(crew, job, job->seen);
    if (me == 0) {
        job->paths[job->source] = 1;
        job->order[0] = job->source;
        job->n_order = 1;
    }
}

/* What was appended since is a level. @return false: nothing was */
static bool end_level(ref_crew_t *crew, int me, betweenness_t *job)
{
    if (me == 0) {
        if (job->n_start == job->max_start) {
            job->max_start = 2 * job->max_start + 64;
            job->start = grown(job->start, job->max_start * sizeof *job->start);
        }
        job->start[job->n_start++] = job->n_order;
    }
    ref_crew_meet(crew);
    return job->n_start < 2 || job->start[job->n_start - 1] > job->start[job->n_start - 2];
}

/* Pulling reads the lists of all vertices not yet reached, and pushing writes along the lists of
 * the current level. A write costs about twice as much as a read. */
static void count_paths(ref_crew_t *crew, int me, betweenness_t *job)
{
    uint64_t edges = degree_of(job->graph, job->source);
    uint64_t unseen = job->graph->begin[job->graph->n] - edges;
    for (uint64_t i = 0; end_level(crew, me, job); i++) {
        out_t out = { .n = 0 };
        mark(crew, job, job->seen, i);
        if (unseen < 2 * edges) {
            clear(crew, job, job->level);
            mark(crew, job, job->level, i);
            pull_paths(crew, job, &out);
        } else
            push_paths(crew, job, i, &out);
        append(job, &out);
        edges = ref_crew_sum(crew, me, out.edges);
        unseen -= edges;
    }
}

/* From the last level back to the source. */
static void add_scores(ref_crew_t *crew, betweenness_t *job)
{
    uint64_t n_levels = job->n_start - 2;
    for (uint64_t i = n_levels; i-- > 0;) {
        uint64_t begin = job->start[i], n = job->start[i + 1] - begin, from, to;
        clear(crew, job, job->level);
        if (i + 1 < n_levels)
            mark(crew, job, job->level, i + 1);
        while (ref_crew_take(crew, n, TAKE, &from, &to)) {
            for (uint64_t k = begin + from; k < begin + to; k++) {
                uint32_t v = job->order[k];
                double sum = sum_of_level(job->graph, job->level, job->share, v);
                job->score[v] = job->paths[v] * sum;
                job->share[v] = (1 + job->score[v]) / job->paths[v];
            }
        }
        ref_crew_meet(crew);
    }
}

static void run_betweenness(ref_crew_t *crew, int me, void *arg)
{
    betweenness_t *job = arg;
    begin_order(crew, me, job);
    if (me == 0) {
        job->start = grown(NULL, sizeof *job->start);
        job->start[job->n_start++] = 0;
        job->max_start = 1;
    }
    count_paths(crew, me, job);
    add_scores(crew, job);
    if (me == 0)
        job->score[job->source] = 0;
}

ref_graph_time_t ref_graph_betweenness(const ref_graph_t *graph, int n_threads, uint32_t source,
                                       double *score)
{
    betweenness_t job = { .graph = graph, .source = source, .score = score };
    ref_graph_time_t result = { .seconds = ref_crew_run(n_threads, run_betweenness, &job) };
    for (uint64_t v = 0; v < graph->n; v++)
        result.check += score[v];
    void *const all[] = { job.paths, job.share, job.level, job.seen, job.order, job.start };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return result;
}
