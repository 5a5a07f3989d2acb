/** Delegation: operations on an object run where it lives, and come back with a result.
 *
 *  Operations on one object never overlap, so they need no lock among themselves. With combining,
 *  requests of several threads of a rank for one object travel in one call: while one thread waits
 *  for the answer to its call, others lay theirs down, and whoever sends next takes them all.
 *
 *  Hardware transactions are refused (PGAS_DELEGATE_HTM): processors that had them have mostly had
 *  them switched off by microcode; where they are on they may always abort, so that a path without
 *  them is needed anyway; and they do not reach memory of other nodes. What they would save on the
 *  node, a lock free of waiting, delegation does not have.
 *
 *  Source: delegation as in Grappa; flat combining (Hendler, Incze, Shavit, Tzafrir 2010). */
#ifndef PGAS_DELEGATE_H
#define PGAS_DELEGATE_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/handler.h"
#include "pgas/runtime.h"
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** The name of an object, valid on all ranks; 0 is none. */
typedef uint64_t pgas_object_t;

/** An operation: on the object, with `bytes` bytes of arguments, aligned to 8, for source. What it
 *  stores at result, zeroed before, result_bytes bytes, aligned to 8, goes back. It does what
 *  handlers may do that do not block. */
typedef void (*pgas_op_fn_t)(void *object, const void *args, size_t bytes, void *result,
                             size_t result_bytes, pgas_thread_t source);

/** Registers an operation by name, as pgas_handler_register does for handlers, from whose numbers
 *  *op_p is.
 *  @return as pgas_handler_register; PGAS_ERR_NO_MEMORY. */
PGAS_API pgas_status_t pgas_op_register(const char *name, pgas_op_fn_t fn, pgas_handler_t *op_p);

/** Gives an object of the calling rank a name. Any attached thread, also in handlers.
 *  Owns:   the object stays the caller's; it must live until pgas_object_destroy, or the end of the
 *          library.
 *  @return PGAS_OK, PGAS_ERR_INVALID (null), PGAS_ERR_NO_MEMORY, PGAS_ERR_LIMIT (2^20 objects
 *          here), PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT (thread not attached). */
PGAS_API pgas_status_t pgas_object_create(void *object, pgas_object_t *name_p);
/** Takes the name away; it is never given to another. Waits for an operation that is running.
 *  @return PGAS_OK, PGAS_ERR_RANGE (of another rank), PGAS_ERR_NOT_FOUND, PGAS_ERR_DEADLOCK (by an
 *  operation on it). */
PGAS_API pgas_status_t pgas_object_destroy(pgas_object_t name);

/** How requests travel. */
typedef enum {
    PGAS_DELEGATE_CALL,    /* each in a call of its own */
    PGAS_DELEGATE_COMBINE, /* with those of other threads of the rank */
    PGAS_DELEGATE_HTM      /* refused */
} pgas_delegate_way_t;

/** Options; zero means default. */
typedef struct {
    size_t size; /* as in pgas_init_opts_t */
    pgas_delegate_way_t way;
} pgas_delegate_opts_t;
#define PGAS_DELEGATE_OPTS_INIT                          \
    {                                                    \
        sizeof(pgas_delegate_opts_t), PGAS_DELEGATE_CALL \
    }

/** Runs op(object, args) where the object lives, and waits for the result.
 *  Shape:  any attached thread; in handlers that may not block, on objects of the own rank only,
 *          where it runs at once.
 *  Units:  bytes and result_bytes up to PGAS_CALL_MAX - 32 each.
 *  Done:   result (may be NULL if result_bytes is 0) holds what the operation stored.
 *  Cost:   one round trip; with COMBINE shared by all requests that were laid down meanwhile.
 *  @return PGAS_OK; PGAS_ERR_NOT_FOUND (no such object; no such operation); PGAS_ERR_INVALID (null,
 *          options, no name); PGAS_ERR_LIMIT; PGAS_ERR_PEER; PGAS_ERR_CONTEXT; PGAS_ERR_DEADLOCK
 *          (from an operation on the same object); PGAS_ERR_UNSUPPORTED (PGAS_DELEGATE_HTM; logged
 *          once, with the reason); PGAS_ERR_NO_MEMORY. */
PGAS_API pgas_status_t pgas_delegate(pgas_object_t object, pgas_handler_t op, const void *args,
                                     size_t bytes, void *result, size_t result_bytes,
                                     const pgas_delegate_opts_t *opts);

PGAS_END_DECLS
#endif
