/** Delegation: an operation on an object runs at the rank that has the object, and returns a
 *  result.
 *
 *      static void on_pop(void *object, const void *args, size_t bytes, void *result,
 *                         size_t result_bytes, pgas_thread_t source)
 *      {
 *          *(int64_t *)result = stack_pop(object);            never overlaps with another operation
 *      }
 *
 *      pgas_method_register("pop", on_pop, &pop);                 on every rank, before pgas_init
 *      pgas_object_create(&my_stack, &name);                  then send name to other ranks
 *      pgas_delegate(name, pop, NULL, 0, &value, sizeof value, NULL);
 *
 *  Operations on one object never overlap, so they need no lock among themselves. With combining,
 *  requests of several threads of a rank for one object travel in one call. While one thread waits
 *  for its answer, other threads queue their requests. The next thread that sends takes all of
 *  them.
 *
 *  Hardware transactions are refused (PGAS_DELEGATE_HTM). Microcode has switched them off on most
 *  processors that had them. Where they work, they may always abort, so a path without them is
 *  needed anyway. They do not reach memory of other nodes. On the node they would replace a lock,
 *  but delegation has no lock.
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

/** An operation. It may do what plain handlers may (table in pgas/call.h).
 *  @param args    `bytes` bytes, aligned to 8
 *  @param result  result_bytes bytes, aligned to 8 and zeroed; returned to the caller
 *  @param source  the calling thread */
typedef void (*pgas_op_fn_t)(void *object, const void *args, size_t bytes, void *result,
                             size_t result_bytes, pgas_thread_t source);

/** Registers an operation by name, as pgas_handler_register registers handlers. *op_p is a
 *  handler's number.
 *  @return as pgas_handler_register; PGAS_ERR_NO_MEMORY. */
PGAS_API pgas_status_t pgas_method_register(const char *name, pgas_op_fn_t fn,
                                            pgas_handler_t *op_p);

/** Gives an object of the calling rank a name.
 *  Shape:  any attached thread, also in handlers.
 *  Owns:   the object stays the caller's. It must live until pgas_object_destroy or the last
 *          pgas_finalize.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID    a null pointer
 *          PGAS_ERR_LIMIT      2^20 objects have names here
 *          PGAS_ERR_CONTEXT    the thread is not attached
 *          PGAS_ERR_NO_MEMORY
 *          PGAS_ERR_NOT_INIT */
PGAS_API pgas_status_t pgas_object_create(void *object, pgas_object_t *name_p);

/** Removes the name of an object; no other object ever gets it. Waits until a running operation on
 *  the object has ended.
 *  @return PGAS_OK
 *          PGAS_ERR_RANGE      an object of another rank
 *          PGAS_ERR_NOT_FOUND  no such object
 *          PGAS_ERR_DEADLOCK   called by an operation on it */
PGAS_API pgas_status_t pgas_object_destroy(pgas_object_t name);

/** How requests travel. */
typedef enum {
    PGAS_DELEGATE_CALL,    /* each in a call of its own */
    PGAS_DELEGATE_COMBINE, /* with requests of other threads of the rank */
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

/** Runs op(object, args) at the rank that has the object, and waits for the result.
 *  Shape:  any attached thread, and blocking handlers. Plain handlers may name objects of the own
 *          rank only; the operation then runs at once.
 *  Units:  bytes and result_bytes up to PGAS_CALL_MAX - 32 each.
 *  Done:   result (may be NULL if result_bytes is 0) holds what the operation stored.
 *  Cost:   one round trip; with COMBINE one for all requests that were queued meanwhile.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_FOUND    no such object or operation
 *          PGAS_ERR_INVALID      a null pointer, invalid options, or not a name
 *          PGAS_ERR_LIMIT        bytes or result_bytes is too large
 *          PGAS_ERR_PEER         the rank died
 *          PGAS_ERR_CONTEXT      in a plain handler, and the object is on another rank; or the
 *                                thread is not attached
 *          PGAS_ERR_DEADLOCK     called by an operation on the same object
 *          PGAS_ERR_UNSUPPORTED  PGAS_DELEGATE_HTM; logged once, with the reason
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_delegate(pgas_object_t object, pgas_handler_t op, const void *args,
                                     size_t bytes, void *result, size_t result_bytes,
                                     const pgas_delegate_opts_t *opts);

PGAS_END_DECLS
#endif
