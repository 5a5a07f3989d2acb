/* Building a graph: edges that any rank holds become rows at the owners of their sources.
 *
 * Invariant: the targets of a row are in rising order, so the result does not depend on the order
 * of arrival. The peak is 36 bytes an edge: 16 as given, 12 as received, 8 in rows. */
#include "graph/graph.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "graph/layout.h"
#include "graph/rows.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

/* ---- an empty graph ---- */

static pgas_status_t check_size(const pgas_graph_t *graph)
{
    if (graph->block >= UINT32_MAX) {
        pgasi_graph_note("%" PRIu64 " vertices are %" PRIu64
                         " for each of %d ranks, at most %" PRIu32
                         " are possible: use more ranks, or number the vertices without gaps",
                         graph->n_vertices, graph->block, graph->n_ranks, UINT32_MAX - 1);
        return PGAS_ERR_LIMIT;
    }
    if (graph->block > pgasi_graph_memory() / sizeof(uint64_t)) {
        pgasi_graph_note("%" PRIu64 " vertices need %" PRIu64
                         " MiB and more on each rank, there are %" PRIu64
                         ": use more nodes, or number the vertices without gaps",
                         graph->n_vertices, graph->block * sizeof(uint64_t) >> 20,
                         pgasi_graph_memory() >> 20);
        return PGAS_ERR_NO_MEMORY;
    }
    return PGAS_OK;
}

static pgas_status_t make_graph(uint64_t n_vertices, pgas_graph_t **graph_p)
{
    pgas_graph_t *graph = calloc(1, sizeof *graph);
    if (!graph)
        return PGAS_ERR_NO_MEMORY;
    graph->rank = pgas_rank();
    graph->n_ranks = pgas_n_ranks();
    graph->n_vertices = n_vertices;
    graph->block = PGASI_DIV_UP(n_vertices, (uint64_t)graph->n_ranks);
    graph->first = PGASI_MIN(graph->block * (uint64_t)graph->rank, n_vertices);
    graph->n_local = PGASI_MIN(graph->block, n_vertices - graph->first);
    *graph_p = graph; /* also after a refusal: the caller destroys it */
    pgas_status_t status = check_size(graph);
    if (status == PGAS_OK) {
        graph->offsets = pgasi_graph_zeroed(graph->n_local + 1, sizeof(uint64_t));
        graph->layout = pgasi_graph_zeroed(1, sizeof *graph->layout);
        status = graph->offsets && graph->layout ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    }
    return status;
}

/* ---- rows ---- */

/* The edges as the caller gives them. */
typedef struct {
    const uint64_t *ends; /* two for each edge */
    uint64_t n_edges;
} given_t;

static pgas_status_t visit_given(const void *list, pgasi_edge_fn_t take, void *arg)
{
    const given_t *given = list;
    pgas_status_t status = PGAS_OK;
    for (uint64_t i = 0; status == PGAS_OK && i < given->n_edges; i++)
        status = take(arg, given->ends[2 * i], given->ends[2 * i + 1]);
    return status;
}

static int by_target(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort_row(uint64_t *row, uint64_t n)
{
    if (n > 32) {
        qsort(row, n, sizeof *row, by_target);
        return;
    }
    for (uint64_t i = 1; i < n; i++) {
        uint64_t target = row[i], at = i;
        for (; at > 0 && row[at - 1] > target; at--)
            row[at] = row[at - 1];
        row[at] = target;
    }
}

/* Counting sort by source. */
static pgas_status_t make_rows(pgas_graph_t *graph, const pgasi_rows_t *rows)
{
    uint64_t *offsets = graph->offsets;
    graph->targets = pgasi_graph_array(rows->n_edges, sizeof(uint64_t));
    if (!graph->targets)
        return PGAS_ERR_NO_MEMORY;
    pgasi_rows_places(rows, graph->n_local, offsets);
    for (uint64_t i = 0; i < rows->n_edges; i++)
        graph->targets[offsets[rows->row[i] + 1]++] = rows->end[i];
    for (uint64_t v = 0; v < graph->n_local; v++)
        sort_row(graph->targets + offsets[v], offsets[v + 1] - offsets[v]);
    return PGAS_OK;
}

pgas_status_t pgasi_graph_build(uint64_t n_vertices, const uint64_t *ends, uint64_t n_edges,
                                void *owned, pgas_graph_t **graph_p)
{
    given_t given = { ends, n_edges };
    pgas_graph_t *graph = NULL;
    pgasi_rows_t rows;
    pgas_status_t status = pgasi_graph_agree(make_graph(n_vertices, &graph), NULL);
    if (status == PGAS_OK)
        status = pgasi_rows_init(&rows, graph, visit_given, &given);
    free(owned);
    if (status == PGAS_OK) {
        status = pgasi_graph_agree(make_rows(graph, &rows), NULL);
        if (status == PGAS_OK)
            status = pgas_allreduce(NULL, &rows.n_edges, &graph->n_edges, 1, PGAS_U64, PGAS_ADD);
        pgasi_rows_fini(&rows);
    }
    if (status == PGAS_OK)
        *graph_p = graph;
    else
        pgas_graph_destroy(graph);
    return status;
}
