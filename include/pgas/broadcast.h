/** Broadcasts of calls: a handler runs on every rank, or on every thread, once.
 *
 *  They travel along a tree: of N ranks none sends more than ceil(log2 N) messages, its acknowledgement to the rank above it
 *  included, and messages cross from node to node as seldom as that allows. Any rank may be the root, many at once. The
 *  ranks in between forward from the handler that receives, or from their service. pgas_broadcast (pgas/coll.h) is another
 *  thing: the collective, in which all ranks take part.
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
    PGAS_SCOPE_RANKS,  /* once on every rank, by whoever serves there */
    PGAS_SCOPE_THREADS /* once on every thread of the program that is attached when the call reaches its rank, when it
                          makes progress */
} pgas_scope_t;

/** Acknowledged broadcasts of one rank that may be under way at one time; further ones wait. */
#define PGAS_BROADCASTS_MAX 32

/** Runs handler(args) on every rank, the caller's too.
 *  Shape:  any attached thread, also in handlers. source, in the handler, is the caller.
 *  Units:  bytes up to PGAS_CALL_MAX; with PGAS_SCOPE_THREADS 24 less.
 *  Done:   args are copied on return. opts->sync falls by one, once: when all have run the handler (PGAS_EXECUTED), when
 *          all have received the call (PGAS_REMOTE), on return (PGAS_LOCAL). Its status is the first error among ranks:
 *          PGAS_ERR_PEER (one died: those behind it in the tree may not have run the handler; who is known to be dead is
 *          passed over, the others run; or a thread that had to run it has left before), PGAS_ERR_NOT_FOUND,
 *          PGAS_ERR_LIMIT (a rank has threads with slots from PGAS_LANES on: they do not run it, the others do),
 *          PGAS_ERR_NO_MEMORY. pgas_sync_error names rank and handler.
 *          Broadcasts of one thread to one scope run in the order issued on each rank; nothing is said about their order
 *          with calls and with broadcasts of others.
 *          opts->full: with PGAS_FULL_AGAIN, PGAS_ERR_AGAIN is given as long as nobody has been told; afterwards as
 *          PGAS_FULL_WAIT. opts->way is not looked at.
 *  Cost:   ceil(log2 N) message times; an acknowledgement from each rank to the one above it if there is a counter, and for
 *          every eighth broadcast without, so that at most 256 of these are under way.
 *  @return as pgas_call_to; PGAS_ERR_INVALID also for another scope. */
PGAS_API pgas_status_t pgas_call_broadcast(pgas_handler_t handler, const void *args, size_t bytes, pgas_scope_t scope,
                                           const pgas_call_opts_t *opts);

/** In a handler that a broadcast of a buffer runs: its buffer here, aligned to 8, valid as long as the handler runs, or as
 *  the header of the broadcast says; NULL in any other. */
PGAS_API const void *pgas_broadcast_data(size_t *bytes_p);

PGAS_END_DECLS
#endif
