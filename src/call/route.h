/** Routes: gathered calls travel over ranks of other nodes, so that a rank gathers for few peers.
 *
 *  The nodes form a grid of two or three dimensions and are numbered along its rows. A hop leads to
 *  a node that differs in one coordinate only, and this coordinate becomes that of the target. On
 *  that node the call goes to the rank that has the target's index in its node.
 *
 *  So a call takes at most as many hops as there are dimensions. For one pair of ranks the route is
 *  always the same, so the order is kept. */
#ifndef PGASI_ROUTE_H
#define PGASI_ROUTE_H

#include <stddef.h>
#include <stdint.h>
#include "msg/send_queue.h"

typedef struct {
    int hops; /* the greatest number of hops, which is the number of dimensions: 1 .. 3 */
    int n_nodes;
    int side; /* nodes in each dimension except the last, which may be shorter or incomplete */
} pgasi_grid_t;

/** Pure. */
pgasi_grid_t pgasi_route_grid(int n_nodes, int hops);
int pgasi_route_next_node(const pgasi_grid_t *grid, int here, int there);
/** The greatest number of peers for which a rank gathers, if it calls all other ranks and forwards
 *  calls of others. Pure. */
int64_t pgasi_route_peers(int n_nodes, int node_ranks, int hops);
/** The fewest hops with at most peers_max peers. If no number of hops is enough, the one with the
 *  fewest peers. Pure. */
int pgasi_route_choose(int n_nodes, int node_ranks, int64_t peers_max);

/** Registers the internal handlers. */
void pgasi_route_start(void);
void pgasi_route_stop(void);

/** The rank to which this rank sends calls for `rank`.
 *  @return PGAS_OK.
 *  @return PGAS_ERR_NO_MEMORY: the map could not be allocated on first use. */
pgas_status_t pgasi_route_next(int hops, int rank, int *next_p);
/** The number of ranks of the largest node of this job. */
int pgasi_route_node_ranks(void);

/** Appends a call for a rank, or a marker, to the batch for the next rank on its route. The
 *  context is locked. */
pgas_status_t pgasi_route_append(pgasi_sendq_t *sendq, int hops, int rank, uint32_t handler,
                                 const void *args, size_t bytes);
pgas_status_t pgasi_route_marker(pgasi_sendq_t *sendq, int hops, int rank, uint64_t wire_token);

#endif
