/** Calls with buffers: memory that travels with a call, is written before it, or is read by the
 *  target.
 *
 *  A call has arguments of up to PGAS_CALL_MAX bytes. What is larger, or lies somewhere already,
 *  goes along as a buffer; one call may have several, each in its own way:
 *  | copy | travels with the call, in pieces if it is large; the target puts it together |
 *  | push | is written to an address of the target that the caller gives                 |
 *  | pull | is read by the target into memory of its own, when the target is ready       |
 *  The handler is an ordinary one, runs once, when all buffers are complete, and finds them by
 *  pgas_buffer_get.
 *
 *  Order: calls with copied and pushed buffers run in the order issued, together with the thread's
 *  other calls to that target. Calls with a pulled buffer run in the order issued among themselves;
 *  one whose data cannot be read at once (memory of another node, a helper reads, or the call is
 *  for a thread or the service) is overtaken by calls of the other kinds.
 *
 *  Source: Seriema (invoke_buffer, with push and pull). There the target always pulls by RDMA from
 *  registered memory; here a source may lie anywhere, and the way there is the shortest one that
 *  the two ranks have. */
#ifndef PGAS_BUFFER_H
#define PGAS_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/call.h"
#include "pgas/gptr.h"

PGAS_BEGIN_DECLS

/** Buffers of one call. */
#define PGAS_BUFFERS_MAX 64

/** How a buffer gets to the target. */
typedef enum {
    PGAS_BUFFER_COPY, /* the caller may use it again when pgas_call_buffer returns */
    PGAS_BUFFER_PUSH, /* the same */
    PGAS_BUFFER_PULL  /* must stay as it is until local completion */
} pgas_buffer_mode_t;

/** One buffer; what does not apply to its mode is ignored. */
typedef struct {
    pgas_buffer_mode_t mode;
    const void *address; /* may be NULL if bytes is 0 */
    size_t bytes;
    pgas_gptr_t target; /* push: where it goes, on the rank that is called */
    /* pull: read by a thread of its own, not by the one that serves the target's calls meanwhile */
    bool helper;
} pgas_buffer_t;

/** Runs handler(args) at a target, with buffers.
 *  Shape:  any attached thread; also in a handler, from where a push reaches the same node only.
 *          target: as in pgas_call_to, whose thread puts copies in pieces together; pulled buffers
 *          are read by whoever serves the rank. A handler that is registered as blocking runs on a
 *          handler thread, and has its buffers until it returns. opts NULL: none. local (may be
 *          NULL): a counter that falls by one when the caller may use all buffers again.
 *  Units:  args up to PGAS_CALL_MAX; buffers from 0 bytes; those copied, and those pulled, up to
 *          PGAS_BUFFER_LIMIT in sum.
 *  Done:   opts->sync falls by one when the handler has run; with PGAS_REMOTE when all buffers are
 *          at the target, which tells that on the node, too (for copies to a thread: that thread);
 *          with PGAS_LOCAL as local does. Errors as in pgas_call_to. Copies and pushes are locally
 *          complete on return, a pull when the target has read it (a message of the target tells).
 *          A pushed buffer is complete, remotely too, before the handler runs.
 *  Room:   PGAS_ERR_AGAIN means that nothing has happened, nothing pushed either. With
 *          PGAS_FULL_AGAIN and more than one piece the first decides, those behind it wait. 256
 *          pulls of a rank may be open at a time; the next waits, or AGAIN.
 *  Limits: a rank holds up to PGAS_BUFFER_LIMIT bytes of copies in pieces. One that finds no memory
 *  is not run: its counter
 *          falls with PGAS_ERR_NO_MEMORY, without a counter the target's log says so. A pull waits
 *          until there is room.
 *  Cost:   copy: as pgas_call, if the sum is below 16 KiB or a quarter of a chunk; else a message
 *          for each such piece and an allocation for each buffer. push: pgas_put, off the node
 *          pgas_flush. pull on the node: one copy, by loads from segments or process_vm_readv from
 *          other memory (PGAS_VM_READ); off the node one get if the source lies in a segment
 *          (pgas_alloc, pgas_mem_attach), otherwise the source's rank sends it in pieces on demand;
 *          an allocation for each.
 *  @return as pgas_call_to; PGAS_ERR_INVALID (a null buffer with a size, an unknown mode, local and
 *          PGAS_LOCAL both), PGAS_ERR_LIMIT (too many or too large), PGAS_ERR_RANGE (push: not a
 *          place of that rank), PGAS_ERR_CONTEXT (push, in a handler, to another node or to
 *          attached memory of another rank). */
PGAS_API pgas_status_t pgas_call_buffer(pgas_thread_t target, pgas_handler_t handler,
                                        const void *args, size_t bytes,
                                        const pgas_buffer_t *buffers, size_t n_buffers,
                                        const pgas_call_opts_t *opts, pgas_sync_t *local);

/** In a handler: the number of buffers of the call being run; 0 for a call without, and
 *  elsewhere. */
PGAS_API size_t pgas_buffer_count(void);

/** In a handler: buffer i, in the caller's order.
 *  Owns:   a copy or pull is the library's, may be written, and is valid until the handler returns;
 *          aligned to 8. A pushed buffer stands where it was pushed to.
 *  @return PGAS_OK; PGAS_ERR_RANGE (no such buffer). */
PGAS_API pgas_status_t pgas_buffer_get(size_t i, void **address_p, size_t *bytes_p);

/** In a handler: takes over a buffer that was copied or pulled. It stays when the handler returns;
 *  the program ends it by free() of the C library. What the library had allocated is handed over,
 *  what came in one piece is copied once.
 *  @return PGAS_OK; PGAS_ERR_RANGE (no such buffer), PGAS_ERR_INVALID (a pushed one, or taken
 *  before), PGAS_ERR_NO_MEMORY. */
PGAS_API pgas_status_t pgas_buffer_take(size_t i, void **address_p);

PGAS_END_DECLS
#endif
