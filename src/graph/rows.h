/** Edges travel to the owners of their first ends, and become rows there.
 *
 *  Each rank visits its list of edges twice. The ranks exchange counts first, so that the owners
 *  store the edges into arrays of the right size. Only one list of a rank travels at a time. */
#ifndef PGASI_GRAPH_ROWS_H
#define PGASI_GRAPH_ROWS_H

#include <stdint.h>
#include "pgas/graph.h"
#include "pgas/status.h"

/** The edges of one owner, in no particular order. Edge i goes from the owner's vertex first_vertex
 *  + row[i] to the vertex end[i] of any rank. The first n_own of them are from this rank itself. */
typedef struct {
    uint32_t *row;
    uint64_t *end;
    uint64_t n_edges;
    uint64_t n_own, n_stored, n_bad;
    const pgas_graph_t *graph;
} pgasi_rows_t;

/** Takes one edge of a list. @return an error ends the visit */
typedef pgas_status_t (*pgasi_edge_fn_t)(void *arg, uint64_t row, uint64_t end);
/** Visits a list: calls take for each edge, in the same order each time. @return that of take. */
typedef pgas_status_t (*pgasi_edges_fn_t)(const void *list, pgasi_edge_fn_t take, void *arg);

/** Sends the edges of a list to the owners of their first ends. Collective; the ranks get the same
 *  status. The ends are below n_vertices. graph gives the owners. After an error the rows need no
 *  fini. */
pgas_status_t pgasi_rows_init(pgasi_rows_t *rows, const pgas_graph_t *graph, pgasi_edges_fn_t visit,
                              const void *list);
void pgasi_rows_fini(pgasi_rows_t *rows);

/** Prepares filling arrays by row. Sets offsets[v + 1] to the first place of row v, for v = 0 ..
 *  n_rows - 1. If the caller stores each edge at offsets[row + 1]++, then row v is at offsets[v] ..
 *  offsets[v + 1] - 1 afterwards. offsets has n_rows + 1 elements. */
void pgasi_rows_places(const pgasi_rows_t *rows, uint64_t n_rows, uint64_t *offsets);

#endif
