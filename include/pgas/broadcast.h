/** Broadcasts of calls: a handler runs once on every rank, or once on every thread.
 *
 *      pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
 *      o.sync = &done;                                            a counter of 1
 *      pgas_call_broadcast(handler, &args, sizeof args, PGAS_SCOPE_RANKS, &o);
 *      pgas_sync_wait(&done, -1);                                 the handler has run on all ranks
 *
 *      pgas_broadcast_buffer_t b = { PGAS_BROADCAST_PULL, data, bytes, NULL, PGAS_NULL };
 *      pgas_call_broadcast_buffer(handler, NULL, 0, &b, PGAS_SCOPE_RANKS, &o);
 *      in the handler: const double *mine = pgas_broadcast_data(&bytes);
 *
 *  Broadcasts travel along a binomial tree. Of N ranks none sends more than ceil(log2 N) messages,
 *  including the acknowledgement to its parent in the tree. Messages cross between nodes as seldom
 *  as that allows. Any rank may be the root, and many broadcasts may run at once. Ranks inside the
 *  tree forward in the handler that receives, or on their service thread. pgas_broadcast
 *  (pgas/coll.h) is a collective instead: all ranks call it.
 *
 *  Source: Seriema (broadcast, broadcast_buffer); binomial trees are folklore. */
#ifndef PGAS_BROADCAST_H
#define PGAS_BROADCAST_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/call.h"
#include "pgas/gptr.h"
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** Where the handler runs. */
typedef enum {
    PGAS_SCOPE_RANKS, /* once on every rank, on a thread that serves the rank */
    /* once on every thread of the program that is attached when the call reaches its rank; each
     * runs it when it makes progress */
    PGAS_SCOPE_THREADS
} pgas_scope_t;

/** Acknowledged broadcasts of one rank that may be outstanding at one time; further ones wait. */
#define PGAS_BROADCASTS_MAX 32

/** Runs handler(args) on every rank, including the caller's.
 *  Shape:  any attached thread, also in handlers. The handler's source is the caller.
 *  Units:  bytes up to PGAS_CALL_MAX; with PGAS_SCOPE_THREADS 24 less.
 *  Done:   on return args are copied. opts->sync decrements by one, once:
 *              PGAS_EXECUTED  when the handler has run on all ranks (or threads)
 *              PGAS_REMOTE    when all ranks have received the call
 *              PGAS_LOCAL     on return
 *          pgas_sync_error gives the first error among ranks, with rank and handler:
 *              PGAS_ERR_PEER       a rank died, and ranks below it in the tree may not have run the
 *                                  handler. (A rank that is known to be dead is skipped, and the
 *                                  ranks below it run.) Or a thread that had to run it has left
 *              PGAS_ERR_NOT_FOUND  a rank does not know the handler
 *              PGAS_ERR_LIMIT      threads of a rank have slots from PGAS_LANES on: they do not run
 *                                  it, the other threads do
 *              PGAS_ERR_NO_MEMORY
 *          Broadcasts of one thread to one scope run in the order issued on each rank. They have no
 *          order with calls and with broadcasts of other threads. With PGAS_FULL_AGAIN the call
 *          returns PGAS_ERR_AGAIN only while no rank has received the broadcast; after that it
 *          waits as with PGAS_FULL_WAIT. opts->way is ignored.
 *  Cost:   ceil(log2 N) message times. With a counter, an acknowledgement from each rank to its
 *          parent. Without one, every eighth broadcast is acknowledged, so that at most 256 of them
 *          are outstanding.
 *  @return as pgas_call_to; PGAS_ERR_INVALID also for an unknown scope. */
PGAS_API pgas_status_t pgas_call_broadcast(pgas_handler_t handler, const void *args, size_t bytes,
                                           pgas_scope_t scope, const pgas_call_opts_t *opts);

/** How a buffer travels. */
typedef enum {
    /* each rank writes it to the same place of the symmetric heap of its children in the tree */
    PGAS_BROADCAST_PUSH,
    PGAS_BROADCAST_PULL, /* each rank reads it from its parent into memory of its own */
    /* each rank gets a piece of its own: with the call if the pieces are small, otherwise by
     * reading */
    PGAS_BROADCAST_EACH
} pgas_broadcast_way_t;

/** A buffer to be broadcast. */
typedef struct {
    pgas_broadcast_way_t way;
    const void *data;
    size_t bytes; /* of the buffer; EACH: of every piece, if bytes_of is NULL */
    /* EACH: [ranks] bytes of each piece, or NULL. The pieces follow each other in data, by rank */
    const size_t *bytes_of;
    pgas_gptr_t place; /* PUSH: a place of the symmetric heap, given for any rank */
} pgas_broadcast_buffer_t;

/** As pgas_call_broadcast, with a buffer that every rank has when its handler runs
 *  (pgas_broadcast_data).
 *  Shape:  any attached thread, and blocking handlers. Broadcasts of buffers keep no order.
 *  Units:  args up to PGAS_CALL_MAX - 64 bytes. The buffer: as large as the places allow (PUSH), or
 *          the heaps (PULL, EACH).
 *  Done:   PUSH: data may be reused on return. The place belongs to the broadcast until the handler
 *          has run there. PULL: data is read in place if it is in memory that peers reach
 *          (pgas_gptr_of finds it) and opts->sync waits for more than PGAS_LOCAL. It must stay
 *          until the counter has decremented. Otherwise, and with EACH, it is copied to the
 *          caller's heap and may be reused on return. Ranks free what they have read when all ranks
 *          below them have read it.
 *  Cost:   each rank transfers the buffer at most ceil(log2 N) times. A rank inside the tree
 *          transfers up to 1 MiB on the node in its handler. For all else it starts a thread.
 *  @return as pgas_call_broadcast;
 *          PGAS_ERR_CONTEXT    also in a plain handler
 *          PGAS_ERR_INVALID    also if there is no data, or the way is unknown
 *          PGAS_ERR_RANGE      PUSH: the place is not inside the heap
 *          PGAS_ERR_NO_MEMORY  also if the heap has no room for the copy
 *          The counter reports PGAS_ERR_NO_MEMORY also if a rank has no room. That rank and those
 *          below it do not run the handler. */
PGAS_API pgas_status_t pgas_call_broadcast_buffer(pgas_handler_t handler, const void *args,
                                                  size_t bytes,
                                                  const pgas_broadcast_buffer_t *buffer,
                                                  pgas_scope_t scope, const pgas_call_opts_t *opts);

/** In a handler that a broadcast of a buffer runs: returns this rank's buffer, or piece; NULL in
 *  any other handler.
 *  Owns:   valid until the handler returns; with PUSH it is the place itself. With PUSH and EACH
 *          the handler may write to it. With PULL other ranks may still be reading it. */
PGAS_API const void *pgas_broadcast_data(size_t *bytes_p);

PGAS_END_DECLS
#endif
