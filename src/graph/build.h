/** From a list of edges to a graph: the seam between readers, generators and the graph. */
#ifndef PGASI_GRAPH_BUILD_H
#define PGASI_GRAPH_BUILD_H

#include <stdbool.h>
#include <stdint.h>
#include "graph/edges.h"
#include "pgas/graph.h"

/** How the edges of all ranks become a graph. The same on all ranks. */
typedef struct {
    uint64_t n_vertices;
    bool directed; /* of the graph */
    bool mirrored; /* undirected: the list has each edge in both directions already (METIS) */
    bool simple;
    pgas_type_t weight_type; /* of the graph */
    bool no_weights;
    bool random_weights; /* the lists have none: weights depend on seed and ends */
    uint64_t seed;
    double alpha;
    const uint64_t *first_of; /* [n_ranks + 1], or NULL: balanced */
} pgasi_build_t;

/** Checks options, and stores the part that does not depend on the input. Local. */
pgas_status_t pgasi_build_of(const pgas_graph_opts_t *opts, pgasi_build_t *build_p);
/** Gives all ranks the contents of rank 0. Collective. */
pgas_status_t pgasi_build_share(pgasi_build_t *build);
/** Sets weight_type and random_weights. The list of edges gets the type that this returns.
 *  Local. */
pgas_type_t pgasi_build_weights(pgasi_build_t *build, bool input_has_weights);

/** Builds a graph of edges that the ranks hold. All ends are below n_vertices. Collective; the
 *  ranks get the same status, and one rank logs the reason of an error. Each rank frees the
 *  contents of edges as soon as it does not need them any more, also after an error. */
pgas_status_t pgasi_graph_build(const pgasi_build_t *build, pgasi_edges_t *edges,
                                pgas_graph_t **graph_p);

/** Counts the edges of all ranks, and finds the range of their weights. Collective. */
pgas_status_t pgasi_graph_measure(pgas_graph_t *graph);

/** Makes the in-edges, as pgas_graph_reverse, also at the begin of a run. Collective. */
pgas_status_t pgasi_graph_reverse(pgas_graph_t *graph);

#endif
