/* Reference loops that pass over the whole graph or its levels, see ref_graph.h: breadth-first
 * search that changes its direction, PageRank, and components.
 *
 * They are shaped for graphs with a million vertices and 30 million edges, of which random reads
 * from arrays of 4 to 8 MB take most of the time. */
#include "benchmarks/ref_graph.h"
#include "benchmarks/ref_crew.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK   1024 /* vertices that a thread takes at once */
#define WORD    64   /* vertices of a word of a bitmap */
#define OUT_MAX 1024 /* vertices that a thread gathers before it appends them to the queue */

static uint64_t degree_of(const ref_graph_t *graph, uint64_t v)
{
    return graph->begin[v + 1] - graph->begin[v];
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- breadth-first search (Beamer, Asanovic, Patterson, "Direction-optimizing breadth-first
 * search", 2012) ---- */

/* From the paper: a level goes bottom-up when its edges are more than the ALPHA-th part of the
 * edges not yet seen, until it has fewer vertices than the BETA-th part of all. */
#define ALPHA 15
#define BETA  18

typedef struct {
    const ref_graph_t *graph;
    uint32_t source, *parent;
    uint32_t *queue; /* vertices of levels that went top-down; the current one is [from, to) */
    uint64_t n_queue, from, to;
    /* Bitmaps of the current level and the next one, and of vertices that may be unreached. */
    uint64_t n_words, *front, *next, *todo;
    uint64_t level_sum;
} bfs_t;

typedef struct {
    uint32_t vertex[OUT_MAX];
    uint32_t n;
} out_t;

static void append(bfs_t *bfs, out_t *out)
{
    uint64_t at = REF_ADD(bfs->n_queue, out->n);
    memcpy(bfs->queue + at, out->vertex, out->n * sizeof *out->vertex);
    out->n = 0;
}

static void put_out(bfs_t *bfs, out_t *out, uint32_t vertex)
{
    if (out->n == OUT_MAX)
        append(bfs, out);
    out->vertex[out->n++] = vertex;
}

/* Vertices without edges are nobody's neighbour and are left out of `todo`. */
static void bfs_begin(ref_crew_t *crew, int me, bfs_t *bfs)
{
    const ref_graph_t *graph = bfs->graph;
    uint64_t from, to;
    if (me == 0) {
        bfs->n_words = (graph->n + WORD - 1) / WORD;
        bfs->queue = ref_crew_alloc(graph->n * sizeof *bfs->queue);
        bfs->front = ref_crew_alloc(bfs->n_words * sizeof *bfs->front);
        bfs->next = ref_crew_alloc(bfs->n_words * sizeof *bfs->next);
        bfs->todo = ref_crew_alloc(bfs->n_words * sizeof *bfs->todo);
    }
    ref_crew_meet(crew);
    while (ref_crew_take(crew, bfs->n_words, CHUNK / WORD, &from, &to)) {
        for (uint64_t w = from; w < to; w++) {
            uint64_t end = least(graph->n, (w + 1) * WORD), bits = 0;
            for (uint64_t v = w * WORD; v < end; v++) {
                bfs->parent[v] = REF_GRAPH_NONE;
                bits |= (uint64_t)(degree_of(graph, v) != 0) << v % WORD;
            }
            bfs->todo[w] = bits;
        }
    }
    ref_crew_meet(crew);
    if (me == 0) {
        bfs->parent[bfs->source] = bfs->source;
        bfs->queue[0] = bfs->source;
        bfs->n_queue = bfs->to = bfs->level_sum = 1;
    }
    ref_crew_meet(crew);
}

/* One level top-down. @return edges of the vertices that this thread has found */
static uint64_t push_level(ref_crew_t *crew, bfs_t *bfs)
{
    const ref_graph_t *graph = bfs->graph;
    uint64_t from, to, edges = 0;
    out_t out = { .n = 0 };
    while (ref_crew_take(crew, bfs->to - bfs->from, 64, &from, &to)) {
        for (uint64_t i = bfs->from + from; i < bfs->from + to; i++) {
            uint32_t u = bfs->queue[i];
            for (uint64_t e = graph->begin[u]; e < graph->begin[u + 1]; e++) {
                uint32_t v = graph->end[e], none = REF_GRAPH_NONE;
                if (REF_LOAD(bfs->parent[v]) != none || !REF_SWAP_IF(bfs->parent[v], &none, u))
                    continue;
                edges += degree_of(graph, v);
                put_out(bfs, &out, v);
            }
        }
    }
    append(bfs, &out);
    return edges;
}

static bool has(const uint64_t *bitmap, uint64_t v)
{
    return bitmap[v / WORD] >> v % WORD & 1;
}

/* A parent in the current level; REF_GRAPH_NONE: there is none. */
static uint32_t parent_in(const ref_graph_t *graph, const uint64_t *front, uint64_t v)
{
    for (uint64_t e = graph->begin[v]; e < graph->begin[v + 1]; e++)
        if (has(front, graph->end[e]))
            return graph->end[e];
    return REF_GRAPH_NONE;
}

/* The vertices of one word that have a parent in the current level. Those that a level top-down has
 * reached still have their bit in `todo`. */
static uint64_t pull_word(bfs_t *bfs, uint64_t w)
{
    uint64_t found = 0, reached = 0;
    for (uint64_t left = bfs->todo[w]; left != 0; left &= left - 1) {
        uint64_t v = w * WORD + (uint64_t)__builtin_ctzll(left), bit = left & -left;
        uint32_t parent;
        if (bfs->parent[v] != REF_GRAPH_NONE) {
            reached |= bit;
            continue;
        }
        parent = parent_in(bfs->graph, bfs->front, v);
        if (parent != REF_GRAPH_NONE) {
            bfs->parent[v] = parent;
            found |= bit;
        }
    }
    bfs->todo[w] &= ~(found | reached);
    return found;
}

/* One level bottom-up. @return the number of vertices that this thread has found */
static uint64_t pull_level(ref_crew_t *crew, bfs_t *bfs)
{
    uint64_t from, to, n_found = 0;
    while (ref_crew_take(crew, bfs->n_words, CHUNK / WORD, &from, &to)) {
        for (uint64_t w = from; w < to; w++) {
            bfs->next[w] = pull_word(bfs, w);
            n_found += (uint64_t)__builtin_popcountll(bfs->next[w]);
        }
    }
    return n_found;
}

static void queue_to_bitmap(ref_crew_t *crew, bfs_t *bfs)
{
    uint64_t from, to;
    while (ref_crew_take(crew, bfs->n_words, CHUNK, &from, &to))
        memset(bfs->front + from, 0, (to - from) * sizeof *bfs->front);
    ref_crew_meet(crew);
    while (ref_crew_take(crew, bfs->to - bfs->from, CHUNK, &from, &to)) {
        for (uint64_t i = bfs->from + from; i < bfs->from + to; i++) {
            uint32_t v = bfs->queue[i];
            REF_OR(bfs->front[v / WORD], UINT64_C(1) << v % WORD);
        }
    }
    ref_crew_meet(crew);
}

static void bitmap_to_queue(ref_crew_t *crew, bfs_t *bfs)
{
    uint64_t from, to;
    out_t out = { .n = 0 };
    while (ref_crew_take(crew, bfs->n_words, CHUNK, &from, &to))
        for (uint64_t w = from; w < to; w++)
            for (uint64_t left = bfs->front[w]; left != 0; left &= left - 1)
                put_out(bfs, &out, (uint32_t)(w * WORD + (uint64_t)__builtin_ctzll(left)));
    append(bfs, &out);
    ref_crew_meet(crew);
}

/* The vertices that were appended since are the current level. */
static void turn_queue(ref_crew_t *crew, int me, bfs_t *bfs)
{
    if (me == 0) {
        bfs->from = bfs->to;
        bfs->to = bfs->n_queue;
    }
    ref_crew_meet(crew);
}

/* Goes bottom-up while levels grow or are large. */
static void pull_levels(ref_crew_t *crew, int me, bfs_t *bfs, uint64_t *level_p)
{
    uint64_t n_before, n_found = bfs->to - bfs->from;
    queue_to_bitmap(crew, bfs);
    do {
        n_before = n_found;
        n_found = ref_crew_sum(crew, me, pull_level(crew, bfs));
        ++*level_p;
        if (me == 0) {
            uint64_t *front = bfs->front;
            bfs->front = bfs->next;
            bfs->next = front;
            bfs->level_sum += *level_p * n_found;
        }
        ref_crew_meet(crew);
    } while (n_found >= n_before || n_found > bfs->graph->n / BETA);
    bitmap_to_queue(crew, bfs);
}

static void run_bfs(ref_crew_t *crew, int me, void *arg)
{
    bfs_t *bfs = arg;
    uint64_t level = 1, unseen, edges;
    bfs_begin(crew, me, bfs);
    unseen = bfs->graph->begin[bfs->graph->n];
    edges = degree_of(bfs->graph, bfs->source);
    while (bfs->from < bfs->to) {
        if (edges > unseen / ALPHA) {
            pull_levels(crew, me, bfs, &level);
            edges = 1;
        } else {
            unseen -= edges;
            edges = ref_crew_sum(crew, me, push_level(crew, bfs));
            level++;
            if (me == 0)
                bfs->level_sum += level * (bfs->n_queue - bfs->to);
        }
        turn_queue(crew, me, bfs);
    }
}

ref_graph_time_t ref_graph_bfs(const ref_graph_t *graph, int n_threads, uint32_t source,
                               uint32_t *parent)
{
    bfs_t bfs = { .graph = graph, .source = source, .parent = parent };
    double seconds = ref_crew_run(n_threads, run_bfs, &bfs);
    free(bfs.queue);
    free(bfs.front);
    free(bfs.next);
    free(bfs.todo);
    return (ref_graph_time_t){ seconds, (double)bfs.level_sum };
}

/* ---- PageRank (Page et al., 1999; the definition of LDBC Graphalytics) ---- */

#define AHEAD 32 /* edges between a value and the one that is prefetched */

typedef struct {
    const ref_graph_t *graph;
    double damping, *rank;
    int sweeps;
    /* what each vertex gives to each neighbour, in the last sweep and in this one */
    double *given, *next;
} pagerank_t;

/* Keeps the rank of a vertex, and what it gives. @return the mass that it cannot give */
static double keep_rank(pagerank_t *job, double *given, uint64_t v, double rank)
{
    uint64_t degree = degree_of(job->graph, v);
    job->rank[v] = rank;
    given[v] = degree ? rank / (double)degree : 0;
    return degree ? 0 : rank;
}

static double pagerank_begin(ref_crew_t *crew, int me, pagerank_t *job)
{
    uint64_t from, to, n = job->graph->n;
    double lost = 0;
    if (me == 0) {
        job->given = ref_crew_alloc(n * sizeof *job->given);
        job->next = ref_crew_alloc(n * sizeof *job->next);
    }
    ref_crew_meet(crew);
    while (ref_crew_take(crew, n, CHUNK, &from, &to))
        for (uint64_t v = from; v < to; v++)
            lost += keep_rank(job, job->given, v, 1 / (double)n);
    return ref_crew_sum_double(crew, me, lost);
}

/* What the neighbours of a vertex give. Prefetching reaches over the ends of lists, except near the
 * end of the last one. It saves a quarter of the time when the array is larger than the cache. */
static double sum_given(const ref_graph_t *graph, const double *given, uint64_t from, uint64_t to)
{
    double sum = 0;
    if (to + AHEAD <= graph->begin[graph->n]) {
        for (uint64_t e = from; e < to; e++) {
            __builtin_prefetch(&given[graph->end[e + AHEAD]]);
            sum += given[graph->end[e]];
        }
        return sum;
    }
    for (uint64_t e = from; e < to; e++)
        sum += given[graph->end[e]];
    return sum;
}

/* One pass: given is read at random, next is written in order. @return the mass lost */
static double sweep(ref_crew_t *crew, pagerank_t *job, const double *given, double *next,
                    double base)
{
    const ref_graph_t *graph = job->graph;
    uint64_t from, to;
    double lost = 0;
    while (ref_crew_take(crew, graph->n, CHUNK, &from, &to)) {
        for (uint64_t v = from; v < to; v++) {
            double sum = sum_given(graph, given, graph->begin[v], graph->begin[v + 1]);
            lost += keep_rank(job, next, v, base + job->damping * sum);
        }
    }
    return lost;
}

static void run_pagerank(ref_crew_t *crew, int me, void *arg)
{
    pagerank_t *job = arg;
    double n = (double)job->graph->n, lost = pagerank_begin(crew, me, job);
    double *given = job->given, *next = job->next;
    for (int i = 0; i < job->sweeps; i++) {
        double *old = given, base = (1 - job->damping + job->damping * lost) / n;
        lost = ref_crew_sum_double(crew, me, sweep(crew, job, given, next, base));
        given = next;
        next = old;
    }
}

ref_graph_time_t ref_graph_pagerank(const ref_graph_t *graph, int n_threads, double damping,
                                    int sweeps, double *rank)
{
    pagerank_t job = { .graph = graph, .damping = damping, .rank = rank, .sweeps = sweeps };
    ref_graph_time_t result = { .seconds = ref_crew_run(n_threads, run_pagerank, &job) };
    for (uint64_t v = 0; v < graph->n; v++)
        result.check += rank[v] * rank[v] * (double)graph->n;
    free(job.given);
    free(job.next);
    return result;
}

/* ---- components (Afforest: Sutton, Ben-Nun, Barak, "Optimizing parallel graph connectivity
 * computation via subgraph sampling", 2018) ---- */

#define FEW     2    /* edges of each vertex that are looked at first */
#define SAMPLES 1024 /* vertices that tell the largest component */

typedef struct {
    const ref_graph_t *graph;
    uint32_t *label, largest;
} components_t;

/* Joins the trees of two vertices; the root with the greater number gets the other as parent. */
static void join_trees(uint32_t *label, uint32_t u, uint32_t v)
{
    uint32_t a = REF_LOAD(label[u]), b = REF_LOAD(label[v]);
    while (a != b) {
        uint32_t high = a > b ? a : b, low = a < b ? a : b;
        uint32_t parent = REF_LOAD(label[high]), root = high;
        if (parent == low || (parent == high && REF_SWAP_IF(label[high], &root, low)))
            return;
        a = REF_LOAD(label[REF_LOAD(label[high])]);
        b = REF_LOAD(label[low]);
    }
}

static void flatten(ref_crew_t *crew, components_t *job)
{
    uint32_t *label = job->label;
    uint64_t from, to;
    while (ref_crew_take(crew, job->graph->n, CHUNK, &from, &to)) {
        for (uint64_t v = from; v < to; v++) {
            uint32_t root = REF_LOAD(label[v]);
            while (root != REF_LOAD(label[root]))
                root = REF_LOAD(label[root]);
            REF_STORE(label[v], root);
        }
    }
    ref_crew_meet(crew);
}

/* The first of a vertex's edges needs no search: it is the least neighbour. */
static void join_first(ref_crew_t *crew, components_t *job)
{
    const ref_graph_t *graph = job->graph;
    uint64_t from, to;
    while (ref_crew_take(crew, graph->n, CHUNK, &from, &to)) {
        for (uint64_t v = from; v < to; v++) {
            bool has_less = degree_of(graph, v) && graph->end[graph->begin[v]] < v;
            job->label[v] = has_less ? graph->end[graph->begin[v]] : (uint32_t)v;
        }
    }
    ref_crew_meet(crew);
}

static void join_few(ref_crew_t *crew, components_t *job)
{
    const ref_graph_t *graph = job->graph;
    uint64_t from, to;
    while (ref_crew_take(crew, graph->n, CHUNK, &from, &to))
        for (uint64_t v = from; v < to; v++)
            for (uint64_t i = 0; i < FEW && i < degree_of(graph, v); i++)
                join_trees(job->label, (uint32_t)v, graph->end[graph->begin[v] + i]);
    ref_crew_meet(crew);
}

/* Each edge is in two lists, so the lists of the largest component can be left out. */
static void join_rest(ref_crew_t *crew, components_t *job)
{
    const ref_graph_t *graph = job->graph;
    uint64_t from, to;
    while (ref_crew_take(crew, graph->n, CHUNK, &from, &to)) {
        for (uint64_t v = from; v < to; v++) {
            if (REF_LOAD(job->label[v]) == job->largest)
                continue;
            for (uint64_t e = graph->begin[v] + FEW; e < graph->begin[v + 1]; e++)
                join_trees(job->label, (uint32_t)v, graph->end[e]);
        }
    }
    ref_crew_meet(crew);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The label that most of some random vertices have. */
static uint32_t most_frequent(const uint32_t *label, uint64_t n)
{
    uint32_t sample[SAMPLES], best = 0;
    uint64_t random = 88172645463325252u, most = 0;
    for (int i = 0; i < SAMPLES; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        sample[i] = label[random % n];
    }
    qsort(sample, SAMPLES, sizeof *sample, compare);
    for (uint64_t i = 0, first = 0; i < SAMPLES; i++) {
        if (sample[i] != sample[first])
            first = i;
        if (i - first + 1 > most) {
            most = i - first + 1;
            best = sample[i];
        }
    }
    return best;
}

static void run_components(ref_crew_t *crew, int me, void *arg)
{
    components_t *job = arg;
    join_first(crew, job);
    join_few(crew, job);
    flatten(crew, job);
    if (me == 0)
        job->largest = most_frequent(job->label, job->graph->n);
    ref_crew_meet(crew);
    join_rest(crew, job);
    flatten(crew, job);
}

ref_graph_time_t ref_graph_components(const ref_graph_t *graph, int n_threads, uint32_t *label)
{
    components_t job = { .graph = graph, .label = label };
    ref_graph_time_t result = { .seconds = ref_crew_run(n_threads, run_components, &job) };
    for (uint64_t v = 0; v < graph->n; v++)
        result.check += label[v] == v;
    return result;
}
