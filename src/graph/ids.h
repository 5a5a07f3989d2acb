/** Ids: own vertices in the order of degrees, and ghosts (pgas_graph_info_t says what they are). */
#ifndef PGASI_GRAPH_IDS_H
#define PGASI_GRAPH_IDS_H

#include <stdint.h>
#include "graph/graph.h"

/** Gives ids to the own vertices by falling degree; vertices of the same degree keep their order.
 *  degree[i] belongs to vertex first + i. Local. */
pgas_status_t pgasi_ids_order(pgas_graph_t *graph, const uint32_t *degree);

/** Replaces n numbers of vertices by ids. Vertices of other ranks become ghosts, in the order of
 *  owners and of their ids there. Known ghosts get new ids; the rows of the graph are changed
 *  accordingly. Collective; the ranks get the same status. */
pgas_status_t pgasi_ids_translate(pgas_graph_t *graph, uint32_t *numbers, uint64_t n);

#endif
