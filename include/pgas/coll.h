/** Collectives over a team.
 *
 *      double mine = local_sum(), all;
 *      pgas_allreduce(NULL, &mine, &all, 1, PGAS_F64, PGAS_ADD);
 *      pgas_barrier(NULL);
 *
 *  Shape: every rank of the team calls the same functions in the same order, with one thread at a
 *  time. NULL is the team of all ranks. Buffers are ordinary memory, do not overlap unless a
 *  function says so, and are reusable on return. A rank that waits inside serves its peers.
 *
 *  Cost: small data within a node take a few cache lines, and no system call while each rank has a
 *  core. Ranks of a node read each other's large data (process_vm_readv) if the system allows it.
 *  Between nodes the leaders (small data) or all ranks (large data) use non-blocking MPI calls.
 *
 *  Statuses of all functions:
 *      PGAS_ERR_INVALID      NULL with a size; a root or type out of range; a type that does not
 *                            have the operator's size; two sizes of a rank's block for itself;
 *                            memory that is not mapped
 *      PGAS_ERR_UNSUPPORTED  the operator does not exist for the type, or is SWAP
 *      PGAS_ERR_CONTEXT      inside a handler, or not slot 0 and MPI provides only
 *                            MPI_THREAD_FUNNELED
 *      PGAS_ERR_NO_MEMORY, PGAS_ERR_MPI
 *      PGAS_ERR_PEER         a rank of the team died (PGAS_ON_PEER_DEATH=continue)
 *  If ranks disagree on sizes, dst is undefined, or ranks wait for ever or get any of these errors.
 *  After a death every rank in a collective of the team, or entering one later, returns
 *  PGAS_ERR_PEER. The contents of the buffers are undefined then. Between nodes MPI may still write
 *  to the buffers of the collective that was running. */
#ifndef PGAS_COLL_H
#define PGAS_COLL_H

#include <stddef.h>
#include "pgas/op.h"
#include "pgas/status.h"
#include "pgas/sync.h"
#include "pgas/team.h"

PGAS_BEGIN_DECLS

/** Waits until all ranks have entered. Stores to memory of the node before it are visible after it.
 *  Puts to other nodes need pgas_flush_all first. */
PGAS_API pgas_status_t pgas_barrier(pgas_team_t *team);

/** Copies `bytes` bytes from buffer of the root, a rank of the team, to buffer of all ranks. */
PGAS_API pgas_status_t pgas_broadcast(pgas_team_t *team, void *buffer, size_t bytes, int root);

/** Combines n_elems elements of all ranks, element by element. allreduce stores the result in dst
 *  of all ranks, with the same bits; dst may be src. reduce replaces the data in buffer of the root
 *  by the result; other ranks' data stay. An operator of the program combines in the order of
 *  ranks; its type may be PGAS_TYPE_NONE. */
PGAS_API pgas_status_t pgas_allreduce(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                      pgas_type_t type, pgas_op_t op);
PGAS_API pgas_status_t pgas_reduce(pgas_team_t *team, void *buffer, size_t n_elems,
                                   pgas_type_t type, pgas_op_t op, int root);

/** Combines src of the ranks 0 .. r (scan) or 0 .. r-1 (exscan) into dst of rank r. dst may be src.
 *  dst of rank 0 becomes the operator's neutral element in an exscan. */
PGAS_API pgas_status_t pgas_scan(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                 pgas_type_t type, pgas_op_t op);
PGAS_API pgas_status_t pgas_exscan(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                   pgas_type_t type, pgas_op_t op);

/** Copies a block of each rank, one after another by rank, to dst of the root (gather) or of all
 *  ranks (allgather). Blocks have `bytes` bytes on all ranks; in the v forms rank r gives
 *  bytes_of[r] bytes. pgas_gatherv reads dst and bytes_of on the root only. */
PGAS_API pgas_status_t pgas_gather(pgas_team_t *team, const void *src, void *dst, size_t bytes,
                                   int root);
PGAS_API pgas_status_t pgas_allgather(pgas_team_t *team, const void *src, void *dst, size_t bytes);
PGAS_API pgas_status_t pgas_gatherv(pgas_team_t *team, const void *src, size_t bytes, void *dst,
                                    const size_t *bytes_of, int root);
PGAS_API pgas_status_t pgas_allgatherv(pgas_team_t *team, const void *src, size_t bytes, void *dst,
                                       const size_t *bytes_of);

/** Exchanges blocks, which follow each other by rank: block s of src goes to rank s, and block r of
 *  dst comes from rank r. Blocks have `bytes` bytes, or src_bytes[s] and dst_bytes[r]. */
PGAS_API pgas_status_t pgas_alltoall(pgas_team_t *team, const void *src, void *dst, size_t bytes);
PGAS_API pgas_status_t pgas_alltoallv(pgas_team_t *team, const void *src, const size_t *src_bytes,
                                      void *dst, const size_t *dst_bytes);

/** Start a collective. When it has ended on this rank, it lowers *sync and reports its first error.
 *  Shape:  ranks start them, and call the other collectives of the team, in the same order. Waits
 *          may have any order. allreduce works in place.
 *  Done:   buffers may be read and written again after completion. The lists of sizes are reusable
 *          on return.
 *  Cost:   threads inside pgas_progress or a wait continue them by MPI; no other thread does. The
 *          program's own calls of MPI on other threads meanwhile need MPI_THREAD_MULTIPLE.
 *  @return PGAS_ERR_INVALID  also if sync is NULL */
PGAS_API pgas_status_t pgas_barrier_nb(pgas_team_t *team, pgas_sync_t *sync);
PGAS_API pgas_status_t pgas_broadcast_nb(pgas_team_t *team, void *buffer, size_t bytes, int root,
                                         pgas_sync_t *sync);
PGAS_API pgas_status_t pgas_allreduce_nb(pgas_team_t *team, void *buffer, size_t n_elems,
                                         pgas_type_t type, pgas_op_t op, pgas_sync_t *sync);
PGAS_API pgas_status_t pgas_alltoallv_nb(pgas_team_t *team, const void *src,
                                         const size_t *src_bytes, void *dst,
                                         const size_t *dst_bytes, pgas_sync_t *sync);

PGAS_END_DECLS
#endif
