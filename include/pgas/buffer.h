/** Calls with buffers: large arguments that travel with a call, are written before it, or are read
 *  by the target.
 *
 *      pgas_buffer_t b = { PGAS_BUFFER_PULL, matrix, n_bytes, PGAS_NULL, false };
 *      pgas_call_buffer(pgas_thread_make(3, PGAS_SLOT_ANY), handler, &args, sizeof args, &b, 1,
 *                       NULL, &local);
 *      pgas_sync_wait(&local, -1);                            matrix may be reused
 *
 *      in the handler:
 *          void *data; size_t bytes;
 *          pgas_buffer_get(0, &data, &bytes);
 *
 *  A call has arguments of up to PGAS_CALL_MAX bytes. Larger data, or data that has a place
 *  already, goes along as a buffer. One call may have several, each in its own mode:
 *  | copy | travels with the call, in pieces if it is large; the target joins the pieces |
 *  | push | the caller writes it to an address of the target that it knows               |
 *  | pull | the target reads it into memory of its own when it is ready                  |
 *  The handler is an ordinary one. It runs once, when all buffers are complete.
 *
 *  Order. Calls with copied and pushed buffers run in the order issued, together with the thread's
 *  other calls to that target. Calls with a pulled buffer run in the order issued among themselves.
 *  Other calls overtake a call whose data cannot be read at once. This happens if the memory is on
 *  another node, if a helper reads it, or if the call is for a thread or the service.
 *
 *  Source: Seriema (invoke_buffer, with push and pull). There the target always pulls by RDMA from
 *  registered memory. Here the source may be anywhere, and the data take the shortest way that the
 *  two ranks have. */
#ifndef PGAS_BUFFER_H
#define PGAS_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/call.h"
#include "pgas/gptr.h"

PGAS_BEGIN_DECLS

/** The most buffers of one call. */
#define PGAS_BUFFERS_MAX 64

/** How a buffer gets to the target. */
typedef enum {
    PGAS_BUFFER_COPY, /* reusable when pgas_call_buffer returns */
    PGAS_BUFFER_PUSH, /* reusable when pgas_call_buffer returns */
    PGAS_BUFFER_PULL  /* must stay unchanged until local completion */
} pgas_buffer_mode_t;

/** A buffer. Fields that do not apply to its mode are ignored. */
typedef struct {
    pgas_buffer_mode_t mode;
    const void *address; /* may be NULL if bytes is 0 */
    size_t bytes;
    pgas_gptr_t target; /* push: the destination, on the rank that is called */
    /* pull: a thread of its own reads it, instead of the thread that serves the target's calls */
    bool helper;
} pgas_buffer_t;

/** Runs handler(args) at a target, with buffers.
 *  Shape:  any attached thread, and handlers; in a plain handler a push must stay on the node.
 *          target: as in pgas_call_to. The target thread joins the pieces of copies; any thread
 *          that serves the rank reads pulled buffers. A blocking handler runs on a handler thread,
 *          and has its buffers until it returns. opts NULL: defaults.
 *  Units:  args up to PGAS_CALL_MAX bytes. Buffers of 0 bytes and more; those to copy, and those to
 *          pull, up to PGAS_BUFFER_LIMIT bytes in sum.
 *  Done:   *local (may be NULL) decrements by one when all buffers may be reused. Copies and pushes
 *          may on return, pulls when a message of the target says that it has read them. opts->sync
 *          decrements by one:
 *              PGAS_EXECUTED  when the handler has run
 *              PGAS_REMOTE    when all buffers are at the target (copies to a thread: when that
 *                             thread has them); a message reports that, also on the node
 *              PGAS_LOCAL     as *local
 *          Errors of counters: as in pgas_call_to. A pushed buffer is remotely complete before the
 *          handler runs.
 *          PGAS_ERR_AGAIN means that nothing has happened, and nothing was pushed. With
 *          PGAS_FULL_AGAIN and several pieces the first piece decides, and later ones wait. A rank
 *          may have 256 open pulls; then the next one waits, or returns PGAS_ERR_AGAIN. A target
 *          holds up to PGAS_BUFFER_LIMIT bytes of copies in pieces. If it has no memory for a copy,
 *          the handler does not run and the counter reports PGAS_ERR_NO_MEMORY; without a counter
 *          the target's log reports it. A pull waits until there is room.
 *  Cost:   copy: as pgas_call, if the sum is below 16 KiB and below a quarter of a chunk. Otherwise
 *          a message for each such piece, and an allocation for each buffer at the target.
 *          push: pgas_put, and to other nodes pgas_flush.
 *          pull: an allocation for each. On the node one copy, by loads from segments, or by
 *          process_vm_readv from other memory (PGAS_VM_READ). Between nodes one get if the source
 *          is in a segment (pgas_alloc, pgas_mem_attach); otherwise the caller's rank sends pieces
 *          on demand.
 *  @return as pgas_call_to;
 *          PGAS_ERR_INVALID  also for a null buffer with a size, an unknown mode, or both local and
 *                            PGAS_LOCAL
 *          PGAS_ERR_LIMIT    also for too many or too large buffers
 *          PGAS_ERR_RANGE    also if the target of a push is not a place of that rank
 *          PGAS_ERR_CONTEXT  also for a push in a plain handler, to another node or to memory that
 *                            another rank has attached */
PGAS_API pgas_status_t pgas_call_buffer(pgas_thread_t target, pgas_handler_t handler,
                                        const void *args, size_t bytes,
                                        const pgas_buffer_t *buffers, size_t n_buffers,
                                        const pgas_call_opts_t *opts, pgas_sync_t *local);

/** Returns the number of buffers of the call that the calling handler runs for. 0 outside of
 *  handlers, and for a call without buffers. */
PGAS_API size_t pgas_buffer_count(void);

/** In a handler: gives buffer i, in the caller's order.
 *  Owns:   a copy or pull belongs to the library, may be written, and is valid until the handler
 *          returns. It is aligned to 8. A pushed buffer is where it was pushed to.
 *  @return PGAS_OK
 *          PGAS_ERR_RANGE  no such buffer */
PGAS_API pgas_status_t pgas_buffer_get(size_t i, void **address_p, size_t *bytes_p);

/** In a handler: takes a buffer that was copied or pulled. It remains valid after the handler
 *  returns.
 *  Owns:   the program frees it by free() of the C library.
 *  Cost:   memory that the library has allocated is handed over. A buffer that came in one piece is
 *          copied once.
 *  @return PGAS_OK
 *          PGAS_ERR_RANGE    no such buffer
 *          PGAS_ERR_INVALID  a pushed buffer, or taken before
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_buffer_take(size_t i, void **address_p);

PGAS_END_DECLS
#endif
