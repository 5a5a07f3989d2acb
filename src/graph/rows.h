/** Ranks send edges to the owners of their first ends, which make rows of them.
 *
 *  Each rank visits its list of edges twice. The owners first count the edges of each row, and then
 *  store each edge at its final place. So no edge is stored twice. */
#ifndef PGASI_GRAPH_ROWS_H
#define PGASI_GRAPH_ROWS_H

#include <stdint.h>
#include "graph/graph.h"

/** Takes one edge of a list, with numbers of vertices. weight: its bytes, if the graph has
 *  weights. */
typedef void (*pgasi_edge_fn_t)(void *arg, uint32_t row, uint32_t end, uint64_t weight);
/** Visits a list: calls take for each edge, in the same order each time. */
typedef void (*pgasi_edges_fn_t)(const void *list, pgasi_edge_fn_t take, void *arg);

/** Makes rows. Collective; the ranks get the same status. The graph has its ranges. If it has no
 *  own ids yet, the function makes them in the order of the rows' lengths.
 *  @param release frees the list; it is called after the last visit, also after an error
 *  @param rows    gets the rows, with ids, in rising order */
pgas_status_t pgasi_rows_make(pgas_graph_t *graph, pgasi_edges_fn_t visit, const void *list,
                              void (*release)(const void *list), pgasi_rows_t *rows);
void pgasi_rows_fini(pgasi_rows_t *rows);

/** Sorts the ids of each row. Local. @return PGAS_OK or PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_rows_sort(const pgas_graph_t *graph, pgasi_rows_t *rows);

/** Drops loops, and all but one of multiple edges: the one with the least weight. Local. */
void pgasi_rows_simplify(const pgas_graph_t *graph, pgasi_rows_t *rows);

#endif
