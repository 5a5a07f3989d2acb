/* Building a graph: edges that any rank holds become rows at the owners of their sources. Each edge
 * is one aggregated call of 16 bytes. The ranks exchange counts first, so that the handler stores
 * into an array of the right size.
 *
 * Invariant: the targets of a row are in rising order, so the result does not depend on the order
 * of arrival. The peak is 36 bytes an edge: 16 as given, 12 as received, 8 in rows. */
#include "graph/graph.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/checks.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

typedef struct {
    uint64_t source, target;
} edge_t;

typedef struct {
    pgas_graph_t *graph;
    /* [n_expected] local numbers; n_own edges of this rank come first, then those received */
    uint32_t *source;
    uint64_t *target;
    uint64_t n_own, n_stored, n_expected;
    uint64_t n_bad;
} building_t;

static struct {
    building_t *now;
    pgas_handler_t edge;
} build;

static void handle_edge(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    edge_t edge;
    building_t *b = build.now;
    (void)source, (void)context;
    if (!b || bytes != sizeof edge)
        return;
    memcpy(&edge, args, sizeof edge);
    if (edge.source - b->graph->first >= b->graph->n_local || b->n_stored == b->n_expected) {
        b->n_bad++;
        return;
    }
    b->source[b->n_stored] = (uint32_t)(edge.source - b->graph->first);
    b->target[b->n_stored++] = edge.target;
}

pgas_status_t pgasi_build_register(void)
{
    return pgas_handler_register("pgas.graph.edge", handle_edge, NULL, NULL, &build.edge);
}

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
        status = graph->offsets ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    }
    return status;
}

/* ---- edges travel ---- */

/* how many edges stay here and how many will come */
static pgas_status_t exchange_counts(building_t *b, const uint64_t *ends, uint64_t n_edges)
{
    const pgas_graph_t *graph = b->graph;
    size_t n_ranks = (size_t)graph->n_ranks;
    uint64_t *out = pgasi_graph_zeroed(n_ranks, sizeof(uint64_t));
    uint64_t *in = pgasi_graph_zeroed(n_ranks, sizeof(uint64_t));
    pgas_status_t status = pgasi_graph_agree(out && in ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    for (uint64_t i = 0; status == PGAS_OK && i < n_edges; i++)
        out[pgasi_graph_owner_of(ends[2 * i], graph->block)]++;
    if (status == PGAS_OK)
        status = pgas_alltoall(NULL, out, in, sizeof(uint64_t));
    for (size_t r = 0; status == PGAS_OK && r < n_ranks; r++)
        b->n_expected += in[r];
    b->n_own = status == PGAS_OK ? in[graph->rank] : 0;
    free(out);
    free(in);
    return status;
}

static pgas_status_t allocate(building_t *b)
{
    if (b->n_expected >= UINT32_MAX) {
        pgasi_graph_note("%" PRIu64 " edges belong to one rank, at most %" PRIu32
                         " are possible: use more ranks",
                         b->n_expected, UINT32_MAX - 1);
        return PGAS_ERR_LIMIT;
    }
    b->source = pgasi_graph_array(b->n_expected, sizeof(uint32_t));
    b->target = pgasi_graph_array(b->n_expected, sizeof(uint64_t));
    b->n_stored = b->n_own;
    return b->source && b->target ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static pgas_status_t send_edges(building_t *b, const uint64_t *ends, uint64_t n_edges)
{
    const pgas_graph_t *graph = b->graph;
    pgas_agg_t *agg = NULL;
    uint64_t n_own = 0;
    pgas_status_t status = pgas_agg_create(NULL, &agg);
    for (uint64_t i = 0; status == PGAS_OK && i < n_edges; i++) {
        edge_t edge = { ends[2 * i], ends[2 * i + 1] };
        int owner = pgasi_graph_owner_of(edge.source, graph->block);
        if (owner == graph->rank) {
            b->source[n_own] = (uint32_t)(edge.source - graph->first);
            b->target[n_own++] = edge.target;
        } else {
            status = pgasi_graph_call(agg, owner, build.edge, &edge, sizeof edge);
        }
    }
    pgas_status_t destroyed = pgas_agg_destroy(agg);
    return pgasi_graph_settle(status != PGAS_OK ? status : destroyed);
}

/* ---- rows ---- */

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

/* Counting sort by source. While the rows are filled, offsets[i + 1] is the index of the next
 * target of row i. */
static pgas_status_t make_rows(building_t *b)
{
    pgas_graph_t *graph = b->graph;
    uint64_t *offsets = graph->offsets, begin = 0;
    graph->targets = pgasi_graph_array(b->n_expected, sizeof(uint64_t));
    if (!graph->targets)
        return PGAS_ERR_NO_MEMORY;
    for (uint64_t i = 0; i < b->n_expected; i++)
        offsets[b->source[i] + 1]++;
    for (uint64_t v = 0; v < graph->n_local; v++) {
        uint64_t n = offsets[v + 1];
        offsets[v + 1] = begin;
        begin += n;
    }
    for (uint64_t i = 0; i < b->n_expected; i++)
        graph->targets[offsets[b->source[i] + 1]++] = b->target[i];
    for (uint64_t v = 0; v < graph->n_local; v++)
        sort_row(graph->targets + offsets[v], offsets[v + 1] - offsets[v]);
    return PGAS_OK;
}

/* ---- the whole ---- */

pgas_status_t pgasi_graph_build(uint64_t n_vertices, const uint64_t *ends, uint64_t n_edges,
                                void *owned, pgas_graph_t **graph_p)
{
    building_t b = { 0 };
    pgas_status_t status = pgasi_graph_agree(make_graph(n_vertices, &b.graph), NULL);
    if (status == PGAS_OK)
        status = exchange_counts(&b, ends, n_edges);
    if (status == PGAS_OK) {
        pgas_status_t mine = allocate(&b);
        build.now = &b;
        status = pgasi_graph_agree(mine, NULL); /* from here on every rank can take edges */
    }
    if (status == PGAS_OK)
        status = send_edges(&b, ends, n_edges);
    free(owned);
    build.now = NULL;
    if (status == PGAS_OK) {
        bool complete = b.n_bad == 0 && b.n_stored == b.n_expected;
        status = pgasi_graph_agree(complete ? make_rows(&b) : PGAS_ERR_INTERNAL, NULL);
    }
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &b.n_expected, &b.graph->n_edges, 1, PGAS_U64, PGAS_ADD);
    free(b.source);
    free(b.target);
    if (status == PGAS_OK)
        *graph_p = b.graph;
    else
        pgas_graph_destroy(b.graph);
    return status;
}
