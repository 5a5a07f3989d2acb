/* graph_check_values: PageRank and betweenness. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "graph_check.h"

#define L1_MAX      1e-10
#define LDBC_MAX    1e-4 /* of a value; LDBC Graphalytics, validation of PageRank */
#define BETWEENNESS 1e-9

/* ---- PageRank ---- */

/* Pushes shares along the edges one by one. x has the values before and after, y is scratch. */
static void sweep(const check_graph_t *g, const check_pagerank_t *how, double *x, double *y)
{
    double n = (double)g->n, dangling = 0;
    memset(y, 0, g->n * sizeof *y);
    for (uint64_t v = 0; v < g->n; v++) {
        uint64_t degree = g->begin[v + 1] - g->begin[v];
        if (degree == 0 && !how->no_dangling)
            dangling += x[v];
        for (uint64_t e = g->begin[v]; e < g->begin[v + 1]; e++)
            y[g->end[e]] += x[v] / (double)degree;
    }
    for (uint64_t v = 0; v < g->n; v++)
        x[v] = (1 - how->damping) / n + how->damping * (y[v] + dangling / n);
}

static check_verdict_t compare_ranks(const double *values, const double *want, uint64_t n)
{
    double l1 = 0;
    for (uint64_t v = 0; v < n; v++) {
        if (!check_near(values[v], want[v], LDBC_MAX))
            return check_wrong("vertex %" PRIu64 " has the value %.15e, not %.15e", v, values[v],
                               want[v]);
        l1 += fabs(values[v] - want[v]);
    }
    if (!(l1 <= L1_MAX))
        return check_wrong("the differences from serial values sum up to %.1e", l1);
    check_verdict_t verdict = { CHECK_RIGHT, "" };
    snprintf(verdict.text, sizeof verdict.text, "right, L1 difference %.1e", l1);
    return verdict;
}

check_verdict_t check_pagerank(const check_graph_t *g, const check_pagerank_t *how,
                               const double *values)
{
    double *x = malloc((g->n + 1) * sizeof *x), *y = malloc((g->n + 1) * sizeof *y);
    check_verdict_t verdict = check_no_memory();
    if (x && y) {
        for (uint64_t v = 0; v < g->n; v++)
            x[v] = 1 / (double)g->n;
        for (int i = 0; i < how->sweeps; i++) {
            sweep(g, how, x, y);
            if (g->progress)
                g->progress((uint64_t)i + 1, (uint64_t)how->sweeps);
        }
        verdict = compare_ranks(values, x, g->n);
    }
    free(x);
    free(y);
    return verdict;
}

/* ---- betweenness ---- */

/* Arrays for each vertex; order has the vertices as the queue took them. */
typedef struct {
    int64_t *levels;
    double *n_paths, *shares, *sums;
    uint32_t *order;
} brandes_t;

static bool brandes_alloc(brandes_t *b, uint64_t n)
{
    b->levels = malloc((n + 1) * sizeof *b->levels);
    b->n_paths = malloc((n + 1) * sizeof *b->n_paths);
    b->shares = malloc((n + 1) * sizeof *b->shares);
    b->sums = calloc(n + 1, sizeof *b->sums);
    b->order = malloc((n + 1) * sizeof *b->order);
    return b->levels && b->n_paths && b->shares && b->sums && b->order;
}

static void brandes_free(brandes_t *b)
{
    free(b->levels);
    free(b->n_paths);
    free(b->shares);
    free(b->sums);
    free(b->order);
}

/* Counts shortest paths by a queue, then adds shares from the last vertex to the first. */
static void add_source(const check_graph_t *g, uint64_t source, brandes_t *b)
{
    uint64_t n_queued = 1;
    for (uint64_t v = 0; v < g->n; v++) {
        b->levels[v] = -1;
        b->n_paths[v] = 0;
        b->shares[v] = 0;
    }
    b->levels[source] = 0;
    b->n_paths[source] = 1;
    b->order[0] = (uint32_t)source;
    for (uint64_t i = 0; i < n_queued; i++) {
        uint32_t v = b->order[i];
        for (uint64_t e = g->begin[v]; e < g->begin[v + 1]; e++) {
            uint32_t end = g->end[e];
            if (b->levels[end] < 0) {
                b->levels[end] = b->levels[v] + 1;
                b->order[n_queued++] = end;
            }
            if (b->levels[end] == b->levels[v] + 1)
                b->n_paths[end] += b->n_paths[v];
        }
    }
    for (uint64_t i = n_queued; i-- > 1;) {
        uint32_t v = b->order[i];
        for (uint64_t e = g->begin[v]; e < g->begin[v + 1]; e++) {
            uint32_t end = g->end[e];
            if (b->levels[end] == b->levels[v] + 1)
                b->shares[v] += b->n_paths[v] / b->n_paths[end] * (1 + b->shares[end]);
        }
        b->sums[v] += b->shares[v];
    }
}

check_verdict_t check_betweenness(const check_graph_t *g, const uint64_t *sources, uint64_t n,
                                  const double *values)
{
    brandes_t b;
    check_verdict_t verdict = check_right();
    if (brandes_alloc(&b, g->n)) {
        for (uint64_t i = 0; i < n; i++) {
            add_source(g, sources[i], &b);
            if (g->progress)
                g->progress(i + 1, n);
        }
    } else {
        verdict = check_no_memory();
    }
    for (uint64_t v = 0; v < g->n && verdict.result == CHECK_RIGHT; v++)
        if (!check_near(values[v], b.sums[v], BETWEENNESS) &&
            !(fabs(values[v] - b.sums[v]) <= BETWEENNESS))
            verdict = check_wrong("vertex %" PRIu64 " has the value %.15e, not %.15e", v, values[v],
                                  b.sums[v]);
    brandes_free(&b);
    return verdict;
}
