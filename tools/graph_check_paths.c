/* graph_check_paths: breadth-first search and shortest paths. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include "graph_check.h"

#define UNREACHED INT64_MAX
#define RELATIVE  1e-9

/* ---- breadth-first search ---- */

/* @return the levels by a queue, or NULL without memory */
static int64_t *serial_levels(const check_graph_t *g, uint64_t source)
{
    int64_t *levels = malloc((g->n + 1) * sizeof *levels);
    uint32_t *queue = malloc((g->n + 1) * sizeof *queue);
    uint64_t n_queued = 1;
    if (levels && queue) {
        for (uint64_t v = 0; v < g->n; v++)
            levels[v] = UNREACHED;
        levels[source] = 0;
        queue[0] = (uint32_t)source;
    }
    for (uint64_t i = 0; levels && queue && i < n_queued; i++) {
        uint32_t v = queue[i];
        for (uint64_t e = g->begin[v]; e < g->begin[v + 1]; e++) {
            if (levels[g->end[e]] == UNREACHED) {
                levels[g->end[e]] = levels[v] + 1;
                queue[n_queued++] = g->end[e];
            }
        }
    }
    if (!queue) {
        free(levels);
        levels = NULL;
    }
    free(queue);
    return levels;
}

/* Rules 3 and 4: each edge joins vertices whose levels differ by at most one, or two vertices that
 * were not reached. In a directed graph an edge does not shorten the path to its end. */
static check_verdict_t check_edges(const check_graph_t *g, const int64_t *levels)
{
    for (uint64_t v = 0; v < g->n; v++) {
        for (uint64_t e = g->begin[v]; e < g->begin[v + 1] && levels[v] != UNREACHED; e++) {
            int64_t end = levels[g->end[e]];
            if (end > levels[v] + 1)
                return check_wrong("an edge leads from vertex %" PRIu64 " of level %" PRId64
                                   " to %" PRIu32 " of level %" PRId64,
                                   v, levels[v], g->end[e], end);
        }
    }
    return check_right();
}

/* @return depths in the tree of parents, or NULL without memory. A vertex that does not lead to the
 * source has the depth -1. */
static int64_t *depths_of(const check_graph_t *g, uint64_t source, const int64_t *parents)
{
    int64_t *depths = malloc((g->n + 1) * sizeof *depths);
    if (!depths)
        return NULL;
    for (uint64_t v = 0; v < g->n; v++)
        depths[v] = UNREACHED; /* not known yet */
    depths[source] = 0;
    for (uint64_t v = 0; v < g->n; v++) {
        int64_t n_steps = 0, depth;
        uint64_t at = v;
        /* Marks the path with -1, so that the loop ends if the path is a cycle. */
        while (depths[at] == UNREACHED) {
            depths[at] = -1;
            n_steps++;
            if (parents[at] < 0 || (uint64_t)parents[at] >= g->n)
                break;
            at = (uint64_t)parents[at];
        }
        depth = depths[at];
        at = v;
        for (int64_t i = 0; i < n_steps && depth >= 0; i++) {
            depths[at] = depth + n_steps - i;
            at = (uint64_t)parents[at];
        }
    }
    return depths;
}

/* @return for each vertex the least possible parent, -1 for none; or NULL without memory */
static int64_t *least_parents(const check_graph_t *g, uint64_t source, const int64_t *levels)
{
    int64_t *least = malloc((g->n + 1) * sizeof *least);
    if (!least)
        return NULL;
    for (uint64_t v = 0; v < g->n; v++)
        least[v] = -1;
    least[source] = (int64_t)source;
    for (uint64_t v = 0; v < g->n; v++) {
        for (uint64_t e = g->begin[v]; e < g->begin[v + 1] && levels[v] != UNREACHED; e++) {
            uint32_t end = g->end[e];
            if (levels[end] == levels[v] + 1 && least[end] < 0)
                least[end] = (int64_t)v;
        }
    }
    return least;
}

/* Rules 1, 2 and 5: parents form a tree whose root is the source, whose depths are the levels, and
 * whose edges exist. A least parent is the begin of an edge from the level before. */
static check_verdict_t check_tree(const check_graph_t *g, uint64_t source, const int64_t *levels,
                                  const int64_t *parents)
{
    check_verdict_t verdict = check_right();
    int64_t *depths = depths_of(g, source, parents), *least = least_parents(g, source, levels);
    if (!depths || !least)
        verdict = check_no_memory();
    for (uint64_t v = 0; v < g->n && verdict.result == CHECK_RIGHT; v++) {
        bool reached = levels[v] != UNREACHED;
        if (!reached && parents[v] != -1)
            verdict = check_wrong("vertex %" PRIu64 " was not reached, but has the parent %" PRId64,
                                  v, parents[v]);
        else if (reached && depths[v] != levels[v])
            verdict = check_wrong("vertex %" PRIu64 " has the level %" PRId64 ", its depth in the"
                                  " tree of parents is %" PRId64 " (-1: none)",
                                  v, levels[v], depths[v]);
        else if (parents[v] != least[v])
            verdict = check_wrong("the parent of vertex %" PRIu64 " is %" PRId64
                                  ", the least one is %" PRId64,
                                  v, parents[v], least[v]);
    }
    free(depths);
    free(least);
    return verdict;
}

check_verdict_t check_bfs(const check_graph_t *g, uint64_t source, const int64_t *levels,
                          const int64_t *parents)
{
    int64_t *serial = serial_levels(g, source);
    if (!serial)
        return check_no_memory();
    check_verdict_t verdict = check_right();
    for (uint64_t v = 0; v < g->n && verdict.result == CHECK_RIGHT; v++)
        if (levels[v] != serial[v])
            verdict = check_wrong("vertex %" PRIu64 " has the level %" PRId64 ", not %" PRId64, v,
                                  levels[v], serial[v]);
    free(serial);
    if (verdict.result == CHECK_RIGHT)
        verdict = check_edges(g, levels);
    if (verdict.result == CHECK_RIGHT && parents)
        verdict = check_tree(g, source, levels, parents);
    return verdict;
}

/* ---- shortest paths ---- */

/* A binary heap of vertices by distance, the least one first. */
typedef struct {
    double *distances;  /* [n] */
    uint32_t *vertices; /* [n_vertices] */
    uint32_t *place_of; /* [n] 1 + the place in vertices, 0: none */
    uint64_t n;
} heap_t;

static void heap_put(heap_t *h, uint64_t place, uint32_t vertex)
{
    h->vertices[place] = vertex;
    h->place_of[vertex] = (uint32_t)(place + 1);
}

static void heap_rise(heap_t *h, uint32_t vertex)
{
    uint64_t place = h->place_of[vertex] - 1;
    while (place > 0) {
        uint32_t above = h->vertices[(place - 1) / 2];
        if (h->distances[above] <= h->distances[vertex])
            break;
        heap_put(h, place, above);
        place = (place - 1) / 2;
    }
    heap_put(h, place, vertex);
}

/* Sets a lower distance. */
static void heap_lower(heap_t *h, uint32_t vertex, double distance)
{
    h->distances[vertex] = distance;
    if (h->place_of[vertex] == 0)
        heap_put(h, h->n++, vertex);
    heap_rise(h, vertex);
}

static uint32_t heap_take(heap_t *h)
{
    uint32_t taken = h->vertices[0], vertex = h->vertices[--h->n];
    uint64_t place = 0;
    h->place_of[taken] = 0;
    if (h->n == 0)
        return taken;
    for (uint64_t below; (below = 2 * place + 1) < h->n; place = below) {
        if (below + 1 < h->n &&
            h->distances[h->vertices[below + 1]] < h->distances[h->vertices[below]])
            below++;
        if (h->distances[vertex] <= h->distances[h->vertices[below]])
            break;
        heap_put(h, place, h->vertices[below]);
    }
    heap_put(h, place, vertex);
    return taken;
}

static void dijkstra(const check_graph_t *g, uint64_t source, heap_t *h)
{
    for (uint64_t v = 0; v < g->n; v++)
        h->distances[v] = INFINITY;
    heap_lower(h, (uint32_t)source, 0);
    while (h->n > 0) {
        uint32_t v = heap_take(h);
        for (uint64_t e = g->begin[v]; e < g->begin[v + 1]; e++) {
            double distance = h->distances[v] + (g->weight ? g->weight[e] : 1);
            if (distance < h->distances[g->end[e]])
                heap_lower(h, g->end[e], distance);
        }
    }
}

check_verdict_t check_sssp(const check_graph_t *g, uint64_t source, const double *distances)
{
    heap_t h = { malloc((g->n + 1) * sizeof *h.distances), malloc((g->n + 1) * sizeof *h.vertices),
                 calloc(g->n + 1, sizeof *h.place_of), 0 };
    bool exact = g->exact || !g->weight;
    check_verdict_t verdict = check_right();
    if (h.distances && h.vertices && h.place_of)
        dijkstra(g, source, &h);
    else
        verdict = check_no_memory();
    for (uint64_t v = 0; v < g->n && verdict.result == CHECK_RIGHT; v++) {
        double want = h.distances[v];
        if (isinf(want) ? distances[v] != want
                        : !check_near(distances[v], want, exact ? 0 : RELATIVE))
            verdict = check_wrong("vertex %" PRIu64 " has the distance %.17g, not %.17g", v,
                                  distances[v], want);
    }
    free(h.distances);
    free(h.vertices);
    free(h.place_of);
    return verdict;
}
