/* graph_check_triangles: local clustering coefficients and triangles. The checker finds each
 * triangle at its vertex of least degree, by a mark at each neighbour of greater degree. Each
 * triangle adds to each of its vertices the edges between the two others. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "graph_check.h"

#define RELATIVE     1e-12
#define PROGRESS_PER 4096 /* vertices between two calls of progress */

/* Neighbours of a vertex: its distinct ends and begins without itself. */
typedef struct {
    uint32_t *mark; /* [n] the vertex whose neighbour this is, plus 1 */
    uint8_t *ways; /* [n] of a marked one: 1 if an edge leads to it, 2 if one comes from it, or 3 */
    uint32_t *list;
    uint64_t n;
} neighbours_t;

static void add_neighbours(neighbours_t *near, uint32_t vertex, const uint32_t *ends, uint64_t n,
                           uint8_t way)
{
    for (uint64_t i = 0; i < n; i++) {
        if (ends[i] == vertex)
            continue;
        if (near->mark[ends[i]] != vertex + 1) {
            near->mark[ends[i]] = vertex + 1;
            near->ways[ends[i]] = 0;
            near->list[near->n++] = ends[i];
        }
        near->ways[ends[i]] |= way;
    }
}

static void find_neighbours(const check_graph_t *g, uint32_t v, neighbours_t *near)
{
    near->n = 0;
    add_neighbours(near, v, g->end + g->begin[v], g->begin[v + 1] - g->begin[v], 1);
    add_neighbours(near, v, g->in_end + g->in_begin[v], g->in_begin[v + 1] - g->in_begin[v], 2);
}

static bool neighbours_alloc(neighbours_t *near, uint64_t n)
{
    near->mark = calloc(n + 1, sizeof *near->mark);
    near->ways = calloc(n + 1, sizeof *near->ways);
    near->list = malloc((n + 1) * sizeof *near->list);
    return near->mark && near->ways && near->list;
}

static void neighbours_free(neighbours_t *near)
{
    free(near->mark);
    free(near->ways);
    free(near->list);
}

/* ---- neighbours of greater degree ---- */

/* Each vertex with its neighbours of greater degree, or of equal degree and greater number. Rows of
 * them are short, also those of vertices with many neighbours. */
typedef struct {
    uint64_t *begin;
    uint32_t *end;
    uint8_t *n_edges; /* between the two: 1, or 2 if there is one each way */
    uint64_t *degrees;
} upward_t;

static bool is_above(const upward_t *up, uint32_t v, uint32_t u)
{
    return up->degrees[u] > up->degrees[v] || (up->degrees[u] == up->degrees[v] && u > v);
}

static void upward_free(upward_t *up)
{
    free(up->begin);
    free(up->end);
    free(up->n_edges);
    free(up->degrees);
}

static bool upward_make(const check_graph_t *g, neighbours_t *near, upward_t *up)
{
    uint64_t n_edges = g->begin[g->n];
    up->begin = calloc(g->n + 1, sizeof *up->begin);
    up->degrees = malloc((g->n + 1) * sizeof *up->degrees);
    up->end = malloc((n_edges + 1) * sizeof *up->end);
    up->n_edges = malloc((n_edges + 1) * sizeof *up->n_edges);
    if (!up->begin || !up->degrees || !up->end || !up->n_edges)
        return false;
    for (uint64_t v = 0; v < g->n; v++) {
        find_neighbours(g, (uint32_t)v, near);
        up->degrees[v] = near->n;
    }
    memset(near->mark, 0, g->n * sizeof *near->mark);
    for (uint64_t v = 0; v < g->n; v++) {
        uint64_t n = up->begin[v];
        find_neighbours(g, (uint32_t)v, near);
        for (uint64_t i = 0; i < near->n; i++) {
            uint32_t u = near->list[i];
            if (is_above(up, (uint32_t)v, u)) {
                up->n_edges[n] = near->ways[u] == 3 ? 2 : 1;
                up->end[n++] = u;
            }
        }
        up->begin[v + 1] = n;
    }
    memset(near->mark, 0, g->n * sizeof *near->mark);
    return true;
}

/* ---- triangles ---- */

/* @return the number of triangles whose least vertex is v. around has, for each vertex, the edges
 * between its neighbours. */
static uint64_t triangles_at(const upward_t *up, uint32_t v, neighbours_t *near, uint64_t *around)
{
    uint64_t n = 0;
    for (uint64_t e = up->begin[v]; e < up->begin[v + 1]; e++) {
        near->mark[up->end[e]] = v + 1;
        near->ways[up->end[e]] = up->n_edges[e];
    }
    for (uint64_t e = up->begin[v]; e < up->begin[v + 1]; e++) {
        uint32_t u = up->end[e];
        for (uint64_t f = up->begin[u]; f < up->begin[u + 1]; f++) {
            uint32_t w = up->end[f];
            if (near->mark[w] != v + 1)
                continue;
            n++;
            around[v] += up->n_edges[f];
            around[u] += near->ways[w];
            around[w] += up->n_edges[e];
        }
    }
    return n;
}

/* The counts of both checkers; the caller frees them. */
typedef struct {
    uint64_t n_triangles;
    uint64_t *around, *degrees;
} counts_t;

static void count(const check_graph_t *g, const upward_t *up, neighbours_t *near, counts_t *c)
{
    for (uint64_t v = 0; v < g->n; v++) {
        c->n_triangles += triangles_at(up, (uint32_t)v, near, c->around);
        if (g->progress && (v % PROGRESS_PER == 0 || v + 1 == g->n))
            g->progress(v + 1, g->n);
    }
}

/* @return whether there was enough memory */
static bool make_counts(check_graph_t *g, counts_t *c)
{
    neighbours_t near = { NULL, NULL, NULL, 0 };
    upward_t up = { NULL, NULL, NULL, NULL };
    c->around = calloc(g->n + 1, sizeof *c->around);
    bool good = c->around && neighbours_alloc(&near, g->n) && check_graph_reverse(g) &&
                upward_make(g, &near, &up);
    if (good)
        count(g, &up, &near, c);
    c->degrees = up.degrees;
    up.degrees = NULL;
    neighbours_free(&near);
    upward_free(&up);
    return good;
}

static double coefficient(const counts_t *c, uint64_t v)
{
    double n = (double)c->degrees[v];
    return c->degrees[v] < 2 ? 0 : (double)c->around[v] / (n * (n - 1));
}

check_verdict_t check_lcc(check_graph_t *g, const double *values)
{
    counts_t c = { 0, NULL, NULL };
    check_verdict_t verdict = make_counts(g, &c) ? check_right() : check_no_memory();
    for (uint64_t v = 0; v < g->n && verdict.result == CHECK_RIGHT; v++)
        if (!check_near(values[v], coefficient(&c, v), RELATIVE))
            verdict = check_wrong("vertex %" PRIu64 " has the coefficient %.17g, not %.17g", v,
                                  values[v], coefficient(&c, v));
    free(c.around);
    free(c.degrees);
    return verdict;
}

check_verdict_t check_triangles(check_graph_t *g, uint64_t n_triangles)
{
    counts_t c = { 0, NULL, NULL };
    check_verdict_t verdict = make_counts(g, &c) ? check_right() : check_no_memory();
    if (verdict.result == CHECK_RIGHT && c.n_triangles != n_triangles)
        verdict = check_wrong("%" PRIu64 " triangles, not %" PRIu64, n_triangles, c.n_triangles);
    free(c.around);
    free(c.degrees);
    return verdict;
}
