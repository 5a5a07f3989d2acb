/* The graph object: queries of a rank's own part. */
#include "graph/graph.h"

#include <stdlib.h>
#include "base/info_fill.h"
#include "base/op.h"
#include "graph/rows.h"

/* ---- local queries ---- */

static pgas_graph_rows_t rows_of(const pgasi_rows_t *rows)
{
    return (pgas_graph_rows_t){ rows->begin, rows->end, rows->weight };
}

static uint64_t bytes_of(const pgas_graph_t *graph, const pgasi_rows_t *rows)
{
    uint64_t n_edges = rows->begin ? rows->begin[graph->n_local] : 0;
    size_t edge_bytes = sizeof *rows->end + pgasi_type_bytes(graph->weight_type);
    return rows->begin ? n_edges * edge_bytes + graph->n_local * sizeof *rows->begin : 0;
}

static uint64_t all_bytes(const pgas_graph_t *graph)
{
    uint64_t n_ids = (uint64_t)graph->n_local + graph->n_ghosts;
    uint64_t bytes = bytes_of(graph, &graph->out) + bytes_of(graph, &graph->in);
    bytes += n_ids * sizeof *graph->vertex + graph->n_local * sizeof *graph->id_of;
    bytes += graph->mirror_begin[graph->n_ranks] * sizeof *graph->mirror;
    bytes += graph->labels ? graph->n_local * sizeof *graph->labels : 0;
    bytes += graph->has_names ? graph->n_local * sizeof *graph->name + graph->name_text_room : 0;
    for (int i = 0; i < PGASI_GRAPH_SLOTS; i++)
        bytes += graph->slot[i].bytes;
    return bytes;
}

pgas_status_t pgas_graph_info(const pgas_graph_t *graph, pgas_graph_info_t *info_p)
{
    if (!graph)
        return PGAS_ERR_INVALID;
    pgas_graph_info_t info = {
        .n_vertices = graph->n_vertices,
        .n_edges = graph->n_edges,
        .directed = graph->directed,
        .has_names = graph->has_names,
        .weight_type = graph->weight_type,
        .first_of = graph->first_of,
        .first_vertex = graph->first,
        .n_local = graph->n_local,
        .n_ghosts = graph->n_ghosts,
        .vertex = graph->vertex,
        .id_of = graph->id_of,
        .labels = graph->labels,
        .out = rows_of(&graph->out),
        .in = rows_of(graph->directed ? &graph->in : &graph->out),
        .bytes = all_bytes(graph),
        .seconds = graph->seconds,
    };
    return pgasi_info_fill(info_p, &info, sizeof info);
}

pgas_status_t pgas_graph_destroy(pgas_graph_t *graph)
{
    if (graph) {
        pgasi_rows_fini(&graph->out);
        pgasi_rows_fini(&graph->in);
        for (int i = 0; i < PGASI_GRAPH_SLOTS; i++)
            free(graph->slot[i].memory);
        free(graph->first_of);
        free(graph->vertex);
        free(graph->id_of);
        free(graph->ghost_begin);
        free(graph->mirror_begin);
        free(graph->mirror);
        free(graph->labels);
        free(graph->name);
        free(graph->name_text);
        free(graph);
    }
    return PGAS_OK;
}

void *pgasi_graph_scratch(pgas_graph_t *graph, int slot, uint64_t n_elems, size_t elem_bytes)
{
    pgasi_graph_slot_t *s = &graph->slot[slot];
    if (s->memory && s->bytes >= n_elems * elem_bytes)
        return s->memory;
    free(s->memory);
    s->memory = pgasi_graph_array(n_elems, elem_bytes);
    s->bytes = s->memory ? n_elems * elem_bytes : 0;
    return s->memory;
}
