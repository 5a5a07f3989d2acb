/** Collectives over a team. Every rank of the team calls the same ones in the same order, one
 *  thread per rank at a time. While a rank waits inside, requests of its peers are served. Buffers
 *  are ordinary memory and are reusable on return. NULL stands for the team of all ranks.
 *
 *  Cost: within a node a few cache lines for small data, no system call while ranks have cores of
 *  their own; between nodes the leaders' (small data) or all ranks' (large data) non-blocking MPI
 *  collectives. Every function returns PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_INVALID (null buffer
 *  with a size, root or type outside), PGAS_ERR_CONTEXT (inside a handler, or not slot 0 when MPI
 *  gave only MPI_THREAD_FUNNELED), PGAS_ERR_NO_MEMORY, PGAS_ERR_MPI, PGAS_ERR_PEER. The last: a
 *  rank of the team died (PGAS_ON_PEER_DEATH=continue). Ranks that wait in a collective then, and
 *  all that come to one of this team later, get it once they notice; what the buffers hold is
 *  undefined, and between nodes MPI may still write to those of the one that was under way. */
#ifndef PGAS_COLL_H
#define PGAS_COLL_H

#include <stddef.h>
#include "pgas/status.h"
#include "pgas/team.h"

PGAS_BEGIN_DECLS

typedef enum {
    PGAS_INT32,
    PGAS_UINT32,
    PGAS_INT64,
    PGAS_UINT64,
    PGAS_FLOAT,
    PGAS_DOUBLE
} pgas_type_t;

/** PROD, MIN, MAX, SUM for every type, AND, OR, XOR (bitwise) for integers. Operands combine in the
 *  order of ranks within a node and of nodes, so every rank gets the same bits. */
typedef enum { PGAS_SUM, PGAS_PROD, PGAS_MIN, PGAS_MAX, PGAS_AND, PGAS_OR, PGAS_XOR } pgas_op_t;

/** No rank returns before all have entered. Stores to node memory before it are visible after it;
 *  puts to other nodes need pgas_flush_all first. */
PGAS_API pgas_status_t pgas_barrier(pgas_team_t *team);

/** buffer of the root (a rank of the team) is copied to buffer on all. */
PGAS_API pgas_status_t pgas_broadcast(pgas_team_t *team, void *buffer, size_t bytes, int root);

/** n_elems elements of src are combined; the result is in dst of the root, or of all. dst may be
 *  src. */
PGAS_API pgas_status_t pgas_reduce(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                   pgas_type_t type, pgas_op_t op, int root);
PGAS_API pgas_status_t pgas_allreduce(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                      pgas_type_t type, pgas_op_t op);

/** dst of rank r becomes the combination of src of ranks 0 .. r-1; on rank 0 the neutral
 *  element. */
PGAS_API pgas_status_t pgas_exscan(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                   pgas_type_t type, pgas_op_t op);

/** bytes of each rank, in the order of ranks, in dst (size * bytes) of the root, or of all. */
PGAS_API pgas_status_t pgas_gather(pgas_team_t *team, const void *src, void *dst, size_t bytes,
                                   int root);
PGAS_API pgas_status_t pgas_allgather(pgas_team_t *team, const void *src, void *dst, size_t bytes);

/** Block s of src goes to rank s; block r of dst came from rank r; bytes per block. src and dst do
 *  not overlap. */
PGAS_API pgas_status_t pgas_alltoall(pgas_team_t *team, const void *src, void *dst, size_t bytes);

PGAS_END_DECLS
#endif
