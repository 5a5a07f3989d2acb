/** Broadcasts of calls: a handler runs on every rank, or on every thread, once.
 *
 *  They travel along a tree: of N ranks none sends more than ceil(log2 N) messages, its
 *  acknowledgement to the rank above it included, and messages cross from node to node as seldom as
 *  that allows. Any rank may be the root, many at once. The ranks in between forward from the
 *  handler that receives, or from their service. pgas_broadcast (pgas/coll.h) is another thing: the
 *  collective, in which all ranks take part.
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
    PGAS_SCOPE_RANKS, /* once on every rank, by whoever serves there */
    /* once on every thread of the program that is attached when the call reaches its rank, when it
     * makes progress */
    PGAS_SCOPE_THREADS
} pgas_scope_t;

/** Acknowledged broadcasts of one rank that may be under way at one time; further ones wait. */
#define PGAS_BROADCASTS_MAX 32

/** Runs handler(args) on every rank, the caller's too.
 *  Shape:  any attached thread, also in handlers. source, in the handler, is the caller.
 *  Units:  bytes up to PGAS_CALL_MAX; with PGAS_SCOPE_THREADS 24 less.
 *  Done:   args are copied on return. opts->sync falls by one, once: when all have run the handler
 *          (PGAS_EXECUTED), when all have received the call (PGAS_REMOTE), on return (PGAS_LOCAL).
 *          Its status is the first error among ranks: PGAS_ERR_PEER (one died: those behind it in
 *          the tree may not have run the handler; who is known to be dead is passed over, the
 *          others run; or a thread that had to run it has left before), PGAS_ERR_NOT_FOUND,
 *          PGAS_ERR_LIMIT (a rank has threads with slots from PGAS_LANES on: they do not run it,
 *          the others do), PGAS_ERR_NO_MEMORY. pgas_sync_error names rank and handler. Broadcasts
 *          of one thread to one scope run in the order issued on each rank; nothing is said about
 *          their order with calls and with broadcasts of others. opts->full: with PGAS_FULL_AGAIN,
 *          PGAS_ERR_AGAIN is given as long as nobody has been told; afterwards as PGAS_FULL_WAIT.
 *          opts->way is not looked at.
 *  Cost:   ceil(log2 N) message times; an acknowledgement from each rank to the one above it if
 *          there is a counter, and for every eighth broadcast without, so that at most 256 of these
 *          are under way.
 *  @return as pgas_call_to; PGAS_ERR_INVALID also for another scope. */
PGAS_API pgas_status_t pgas_call_broadcast(pgas_handler_t handler, const void *args, size_t bytes,
                                           pgas_scope_t scope, const pgas_call_opts_t *opts);

/** How a buffer travels. */
typedef enum {
    /* written into the same place of the symmetric heap on every rank, each time by the rank
     * above */
    PGAS_BROADCAST_PUSH,
    PGAS_BROADCAST_PULL, /* every rank reads it from the rank above into memory of its own */
    /* every rank gets a piece of its own; with the call if they are small, else by reading */
    PGAS_BROADCAST_EACH
} pgas_broadcast_way_t;

/** A buffer to be broadcast. */
typedef struct {
    pgas_broadcast_way_t way;
    const void *data;
    size_t bytes; /* of the buffer; EACH: of every piece, unless: */
    /* EACH: [ranks] of each piece, or NULL. They stand in data one after the other, by rank */
    const size_t *bytes_of;
    pgas_gptr_t place; /* PUSH: a place of the symmetric heap; of which rank does not matter */
} pgas_broadcast_buffer_t;

/** As pgas_call_broadcast, with a buffer that every rank has when its handler runs: see
 *  pgas_broadcast_data.
 *  Shape:  any attached thread, not in a handler unless that may block. Broadcasts of buffers keep
 *          no order.
 *  Units:  args up to PGAS_CALL_MAX - 64 bytes; the buffer as large as places, and for PULL and
 *          EACH the heaps, allow.
 *  Done:   PUSH: data may be touched on return; places belong to the broadcast until its handler
 *          has run there. PULL: if data lies in memory that peers reach (pgas_gptr_of knows it) and
 *          opts->sync waits for more than PGAS_LOCAL, it is read where it stands and must stay
 *          until the counter has fallen; otherwise, and with EACH, it is copied to the caller's
 *          heap and may be touched on return. What ranks have read, they free when all behind them
 *          have read it.
 *  Cost:   each rank transfers the buffer at most ceil(log2 N) times. Ranks on the way transfer up
 *          to 1 MiB on the node from their handler, all else from a thread that is started for it.
 *  @return as pgas_call_broadcast; PGAS_ERR_CONTEXT (in a handler); PGAS_ERR_INVALID (no data, no
 *          such way); PGAS_ERR_RANGE (PUSH: the place is not inside the heap); PGAS_ERR_NO_MEMORY
 *          (no room for the copy). The counter also tells PGAS_ERR_NO_MEMORY if a rank has no room:
 *          it, and those behind it, do not run the handler. */
PGAS_API pgas_status_t pgas_call_broadcast_buffer(pgas_handler_t handler, const void *args,
                                                  size_t bytes,
                                                  const pgas_broadcast_buffer_t *buffer,
                                                  pgas_scope_t scope, const pgas_call_opts_t *opts);

/** In a handler that a broadcast of a buffer runs: the buffer, or piece, of this rank, valid until
 *  the handler returns (PUSH: it is the place itself). PUSH and EACH: the handler may write to it.
 *  PULL: others may still be reading it. NULL in any other handler. */
PGAS_API const void *pgas_broadcast_data(size_t *bytes_p);

PGAS_END_DECLS
#endif
