/* pgas_graph_create: a graph of edges that the program holds. */
#include <inttypes.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/op.h"
#include "graph/build.h"
#include "graph/graph.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

/* Copies the program's edges, because pgasi_graph_build frees its list. */
static pgas_status_t copy_edges(uint64_t n_vertices, const pgas_graph_edges_t *given,
                                pgasi_edges_t *edges)
{
    size_t weight_bytes = pgasi_type_bytes(edges->weight_type);
    for (size_t i = 0; i < 2 * given->n_edges; i++) {
        if (given->ends[i] >= n_vertices) {
            pgasi_graph_note("edge %zu has the end %" PRIu64 ", but there are %" PRIu64 " vertices",
                             i / 2, given->ends[i], n_vertices);
            return PGAS_ERR_RANGE;
        }
    }
    edges->low = pgasi_graph_array(2 * given->n_edges, sizeof *edges->low);
    edges->weight = weight_bytes > 0 ? pgasi_graph_array(given->n_edges, weight_bytes) : NULL;
    if (!edges->low || (weight_bytes > 0 && !edges->weight))
        return PGAS_ERR_NO_MEMORY;
    for (size_t i = 0; i < 2 * given->n_edges; i++)
        edges->low[i] = (uint32_t)given->ends[i];
    if (weight_bytes > 0 && given->n_edges > 0)
        memcpy(edges->weight, given->weights, given->n_edges * weight_bytes);
    edges->n_edges = edges->room = given->n_edges;
    return PGAS_OK;
}

static pgas_status_t check(uint64_t n_vertices, const pgas_graph_edges_t *edges,
                           pgas_graph_t **graph_p)
{
    bool sane = n_vertices != 0 && graph_p && (!edges || edges->n_edges == 0 || edges->ends);
    if (!sane)
        pgasi_graph_note("pgas_graph_create: n_vertices is 0, or graph_p or ends is NULL");
    else if (n_vertices > PGASI_GRAPH_VERTICES_MAX)
        pgasi_graph_note("a graph has at most %" PRIu32 " vertices", PGASI_GRAPH_VERTICES_MAX);
    if (!sane)
        return PGAS_ERR_INVALID;
    return n_vertices > PGASI_GRAPH_VERTICES_MAX ? PGAS_ERR_LIMIT : PGAS_OK;
}

/* All ranks must give the same number of vertices. All ranks with edges must give weights, or none
 * of them. */
static pgas_status_t compare(uint64_t n_vertices, const pgas_graph_edges_t *edges, bool *weighted_p)
{
    bool has_edges = edges && edges->n_edges > 0;
    /* their minimum is the least number, and the complement of the greatest one */
    uint64_t all[4] = { n_vertices, ~n_vertices, !(has_edges && edges->weights),
                        !(has_edges && !edges->weights) };
    pgas_status_t status = pgas_allreduce(NULL, all, all, 4, PGAS_U64, PGAS_MIN);
    if (status != PGAS_OK)
        return status;
    *weighted_p = all[2] == 0;
    if (all[0] != ~all[1]) {
        if (pgas_rank() == 0)
            PGASI_ERROR("graph",
                        "pgas_graph_create: the ranks gave different numbers of vertices, %" PRIu64
                        " to %" PRIu64,
                        all[0], ~all[1]);
        return PGAS_ERR_MISMATCH;
    }
    if (all[2] == 0 && all[3] == 0) {
        if (pgas_rank() == 0)
            PGASI_ERROR("graph", "pgas_graph_create: only some ranks gave weights");
        return PGAS_ERR_MISMATCH;
    }
    return PGAS_OK;
}

pgas_status_t pgas_graph_create(uint64_t n_vertices, const pgas_graph_edges_t *edges,
                                const pgas_graph_opts_t *opts, pgas_graph_t **graph_p)
{
    static const pgas_graph_edges_t none = { 0, NULL, NULL };
    uint64_t begin_ns = pgasi_now_ns();
    pgasi_build_t build;
    pgasi_edges_t list;
    bool weighted = false;
    pgas_status_t status = pgasi_graph_start();
    if (status != PGAS_OK)
        return status;
    status = check(n_vertices, edges, graph_p);
    if (status == PGAS_OK)
        status = pgasi_build_of(opts, &build);
    status = pgasi_graph_agree(status, NULL);
    if (status == PGAS_OK)
        status = compare(n_vertices, edges, &weighted);
    if (status == PGAS_OK)
        status = pgasi_build_share(&build);
    if (status != PGAS_OK)
        return status;
    build.n_vertices = n_vertices;
    pgasi_edges_init(&list, pgasi_build_weights(&build, weighted));
    status = pgasi_graph_agree(copy_edges(n_vertices, edges ? edges : &none, &list), NULL);
    if (status == PGAS_OK)
        status = pgasi_graph_build(&build, &list, graph_p);
    else
        pgasi_edges_fini(&list);
    if (status == PGAS_OK)
        (*graph_p)->seconds = 1e-9 * (double)(pgasi_now_ns() - begin_ns);
    return status;
}
