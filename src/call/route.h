/** Routes: gathered calls that travel over ranks of other nodes, so that a rank gathers for few
 *  peers.
 *
 *  Nodes stand in a grid of two or three dimensions, numbered along its rows. A step goes to the
 *  node that differs in one coordinate only, which becomes that of the target; the rank there is
 *  the one with the target's index in its node. So a call takes as many steps as there are
 *  dimensions at most, and for one pair of ranks always the same: order is kept. */
#ifndef PGASI_ROUTE_H
#define PGASI_ROUTE_H

#include <stddef.h>
#include <stdint.h>
#include "msg/send_queue.h"

typedef struct {
    int hops; /* at most: the dimensions, 1 .. 3 */
    int n_nodes;
    int side; /* nodes in each dimension but the last, which may be shorter or end early */
} pgasi_grid_t;

/** Pure. */
pgasi_grid_t pgasi_route_grid(int n_nodes, int hops);
int pgasi_route_next_node(const pgasi_grid_t *grid, int here, int there);
/** The most peers for which a rank gathers if it calls all others and passes on what others call.
 *  Pure. */
int64_t pgasi_route_peers(int n_nodes, int node_ranks, int hops);
/** The fewest hops with at most so many peers, or those with the fewest peers. Pure. */
int pgasi_route_choose(int n_nodes, int node_ranks, int64_t peers_max);

/** Sets the internal handlers and forgets the map. */
void pgasi_route_start(void);
void pgasi_route_stop(void);

/** The rank to which this one sends what is for `rank`. PGAS_ERR_NO_MEMORY: on first use. */
pgas_status_t pgasi_route_next(int hops, int rank, int *next_p);
/** The most ranks that a node of this job has. */
int pgasi_route_node_ranks(void);

/** Appends a call, or a mark, for a rank to the batch for the next one. Context locked. */
pgas_status_t pgasi_route_append(pgasi_sendq_t *sendq, int hops, int rank, uint32_t handler,
                                 const void *args, size_t bytes);
pgas_status_t pgasi_route_mark(pgasi_sendq_t *sendq, int hops, int rank, uint64_t wire_token);

#endif
