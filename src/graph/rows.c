/* Edges on their way to their owners. Each is one aggregated call of 16 bytes; own edges are stored
 * at once. At the peak an owner holds 12 bytes for each of its edges. */
#include "graph/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "graph/graph.h"
#include "pgas/coll.h"

typedef struct {
    uint64_t row, end;
} edge_t;

static struct {
    pgasi_rows_t *now;
    pgas_handler_t edge;
} arriving;

static void handle_edge(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    edge_t edge;
    pgasi_rows_t *rows = arriving.now;
    (void)source, (void)context;
    if (!rows || bytes != sizeof edge)
        return;
    memcpy(&edge, args, sizeof edge);
    if (edge.row - rows->graph->first >= rows->graph->n_local || rows->n_stored == rows->n_edges) {
        rows->n_bad++;
        return;
    }
    rows->row[rows->n_stored] = (uint32_t)(edge.row - rows->graph->first);
    rows->end[rows->n_stored++] = edge.end;
}

pgas_status_t pgasi_rows_register(void)
{
    return pgas_handler_register("pgas.graph.edge", handle_edge, NULL, NULL, &arriving.edge);
}

/* ---- how many edges stay here, and how many will come ---- */

typedef struct {
    const pgas_graph_t *graph;
    uint64_t *n; /* [n_ranks] */
} counting_t;

static pgas_status_t count_edge(void *arg, uint64_t row, uint64_t end)
{
    counting_t *c = arg;
    (void)end;
    c->n[pgasi_graph_owner_of(row, c->graph->block)]++;
    return PGAS_OK;
}

static pgas_status_t exchange_counts(pgasi_rows_t *rows, pgasi_edges_fn_t visit, const void *list)
{
    const pgas_graph_t *graph = rows->graph;
    size_t n_ranks = (size_t)graph->n_ranks;
    counting_t out = { graph, pgasi_graph_zeroed(n_ranks, sizeof(uint64_t)) };
    uint64_t *in = pgasi_graph_zeroed(n_ranks, sizeof(uint64_t));
    pgas_status_t status = pgasi_graph_agree(out.n && in ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK)
        status = visit(list, count_edge, &out);
    if (status == PGAS_OK)
        status = pgas_alltoall(NULL, out.n, in, sizeof(uint64_t));
    for (size_t r = 0; status == PGAS_OK && r < n_ranks; r++)
        rows->n_edges += in[r];
    rows->n_own = status == PGAS_OK ? in[graph->rank] : 0;
    free(out.n);
    free(in);
    return status;
}

static pgas_status_t allocate(pgasi_rows_t *rows)
{
    if (rows->n_edges >= UINT32_MAX) {
        pgasi_graph_note("%" PRIu64 " edges belong to one rank, at most %" PRIu32
                         " are possible: use more ranks",
                         rows->n_edges, UINT32_MAX - 1);
        return PGAS_ERR_LIMIT;
    }
    rows->row = pgasi_graph_array(rows->n_edges, sizeof *rows->row);
    rows->end = pgasi_graph_array(rows->n_edges, sizeof *rows->end);
    rows->n_stored = rows->n_own;
    return rows->row && rows->end ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

/* ---- sending ---- */

typedef struct {
    pgasi_rows_t *rows;
    pgas_agg_t *agg;
    uint64_t n_own;
} sending_t;

static pgas_status_t send_edge(void *arg, uint64_t row, uint64_t end)
{
    sending_t *s = arg;
    pgasi_rows_t *rows = s->rows;
    int owner = pgasi_graph_owner_of(row, rows->graph->block);
    edge_t edge = { row, end };
    if (owner != rows->graph->rank)
        return pgasi_graph_call(s->agg, owner, arriving.edge, &edge, sizeof edge);
    rows->row[s->n_own] = (uint32_t)(row - rows->graph->first);
    rows->end[s->n_own++] = end;
    return PGAS_OK;
}

static pgas_status_t send_edges(pgasi_rows_t *rows, pgasi_edges_fn_t visit, const void *list)
{
    sending_t s = { .rows = rows };
    pgas_status_t status = pgas_agg_create(NULL, &s.agg);
    if (status == PGAS_OK)
        status = visit(list, send_edge, &s);
    pgas_status_t destroyed = pgas_agg_destroy(s.agg);
    return pgasi_graph_settle(status != PGAS_OK ? status : destroyed);
}

pgas_status_t pgasi_rows_init(pgasi_rows_t *rows, const pgas_graph_t *graph, pgasi_edges_fn_t visit,
                              const void *list)
{
    *rows = (pgasi_rows_t){ .graph = graph };
    pgas_status_t status = exchange_counts(rows, visit, list);
    if (status == PGAS_OK) {
        pgas_status_t mine = allocate(rows);
        arriving.now = rows;
        status = pgasi_graph_agree(mine, NULL); /* from here on every rank can take edges */
    }
    if (status == PGAS_OK)
        status = send_edges(rows, visit, list);
    arriving.now = NULL;
    if (status == PGAS_OK) {
        bool complete = rows->n_bad == 0 && rows->n_stored == rows->n_edges;
        status = pgasi_graph_agree(complete ? PGAS_OK : PGAS_ERR_INTERNAL, NULL);
    }
    if (status != PGAS_OK)
        pgasi_rows_fini(rows);
    return status;
}

void pgasi_rows_fini(pgasi_rows_t *rows)
{
    free(rows->row);
    free(rows->end);
    rows->row = NULL;
    rows->end = NULL;
}

void pgasi_rows_places(const pgasi_rows_t *rows, uint64_t n_rows, uint64_t *offsets)
{
    uint64_t begin = 0;
    memset(offsets, 0, (n_rows + 1) * sizeof *offsets);
    for (uint64_t i = 0; i < rows->n_edges; i++)
        offsets[rows->row[i] + 1]++;
    for (uint64_t v = 0; v < n_rows; v++) {
        uint64_t n = offsets[v + 1];
        offsets[v + 1] = begin;
        begin += n;
    }
}
