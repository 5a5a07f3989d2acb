/* pgas_graph_create: a graph of edges that the program holds. */
#include <inttypes.h>
#include "base/checks.h"
#include "graph/graph.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

static pgas_status_t check_ends(uint64_t n_vertices, const uint64_t *ends, size_t n_edges,
                                pgas_graph_t **graph_p)
{
    if (n_vertices == 0 || !graph_p || (n_edges > 0 && !ends)) {
        pgasi_graph_note("pgas_graph_create: no vertices, or null with edges");
        return PGAS_ERR_INVALID;
    }
    for (size_t i = 0; i < 2 * n_edges; i++) {
        if (ends[i] >= n_vertices) {
            pgasi_graph_note("edge %zu has the end %" PRIu64 ", but there are %" PRIu64 " vertices",
                             i / 2, ends[i], n_vertices);
            return PGAS_ERR_RANGE;
        }
    }
    return PGAS_OK;
}

pgas_status_t pgas_graph_create(uint64_t n_vertices, const uint64_t *ends, size_t n_edges,
                                pgas_graph_t **graph_p)
{
    /* their minimum is the least number, and the complement of the greatest one */
    uint64_t span[2] = { n_vertices, ~n_vertices };
    pgas_status_t status = pgasi_graph_start();
    if (status != PGAS_OK)
        return status;
    status = pgasi_graph_agree(check_ends(n_vertices, ends, n_edges, graph_p), NULL);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, span, span, 2, PGAS_U64, PGAS_MIN);
    if (status == PGAS_OK && span[0] != ~span[1]) {
        if (pgas_rank() == 0)
            PGASI_ERROR("graph",
                        "pgas_graph_create: the ranks gave different numbers of vertices, %" PRIu64
                        " to %" PRIu64,
                        span[0], ~span[1]);
        status = PGAS_ERR_MISMATCH;
    }
    return status == PGAS_OK ? pgasi_graph_build(n_vertices, ends, n_edges, NULL, graph_p) : status;
}
