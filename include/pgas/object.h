/** Objects with methods. A method runs at the rank that has the object, and returns a result.
 *
 *      typedef struct { int64_t next, end; } numbers_t;
 *
 *      PGAS_METHOD(draw, numbers_t, int64_t, int64_t)     types of object, argument and result
 *      {
 *          int64_t first = object->next;                  never overlaps with another method
 *          object->next += *arg;
 *          return first < object->end ? first : -1;
 *      }
 *
 *      pgas_object_create(&numbers, &name);               one rank; it sends name to other ranks
 *      pgas_object_call_draw(name, &n, &first);           any rank; waits for the result
 *
 *  Methods of one object never overlap. While a thread waits for its result, requests of other
 *  threads of its rank for the same object are queued. The next thread that sends takes all of them
 *  in one message. A thread that is alone sends at once.
 *
 *  Threads are attached; otherwise all functions return PGAS_ERR_CONTEXT. All may return
 *  PGAS_ERR_NOT_INIT, PGAS_ERR_NO_MEMORY, and PGAS_ERR_INVALID: a null pointer, or not a name.
 *
 *  Source: delegation as in Grappa; flat combining (Hendler, Incze, Shavit, Tzafrir 2010). */
#ifndef PGAS_OBJECT_H
#define PGAS_OBJECT_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/handler.h"
#include "pgas/runtime.h"
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** The name of an object, valid on all ranks; 0 is none. */
typedef uint64_t pgas_object_t;
/** The number of a method: a handler's number. Methods and handlers share their names. */
typedef pgas_handler_t pgas_method_t;

/** Defines a method and registers it before main. The body follows, with the parameters
 *  `object_type *object`, `const arg_type *arg` and `pgas_thread_t source`, and returns a
 *  result_type. It may do what plain handlers may (table in pgas/call.h). With it comes
 *      pgas_status_t pgas_object_call_NAME(pgas_object_t object, const arg_type *arg,
 *                                          result_type *result);
 *  _DECLARE and _DEFINE are for several files. Types as with PGAS_HANDLER. */
#define PGAS_METHOD(name, object_type, arg_type, result_type) \
    PGAS_METHOD_ONE_FILE(name, object_type, arg_type, result_type)
#define PGAS_METHOD_DECLARE(name, object_type, arg_type, result_type) \
    PGAS_METHOD_EXTERN(name, arg_type, result_type)
#define PGAS_METHOD_DEFINE(name, object_type, arg_type, result_type) \
    PGAS_METHOD_GLOBAL(name, object_type, arg_type, result_type)

/** A method as a function. args and result are aligned to 8; result is zeroed before. */
typedef void (*pgas_method_fn_t)(void *object, const void *args, size_t bytes, void *result,
                                 size_t result_bytes, pgas_thread_t source);

/** Registers a method by name. @return as pgas_handler_register */
static inline pgas_status_t pgas_method_register(const char *name, pgas_method_fn_t fn,
                                                 pgas_method_t *method_p);

/** Gives an object of the calling rank a name, also in handlers.
 *  Owns:   the object stays the caller's, and lives until pgas_object_destroy or pgas_finalize.
 *  @return PGAS_ERR_LIMIT  2^20 objects have names here */
PGAS_API pgas_status_t pgas_object_create(void *object, pgas_object_t *name_p);

/** Removes the name of an object; no other object ever gets it. Waits until a running method of the
 *  object has ended. 0 is ignored.
 *  @return PGAS_ERR_RANGE      an object of another rank
 *          PGAS_ERR_NOT_FOUND  no such object
 *          PGAS_ERR_DEADLOCK   called by a method of it */
PGAS_API pgas_status_t pgas_object_destroy(pgas_object_t name);

/** Runs a method at the rank that has the object, and waits for the result.
 *  Shape:  also in blocking handlers. Plain handlers may name objects of their rank only; the
 *          method then runs at once.
 *  Units:  bytes and result_bytes up to PGAS_CALL_MAX - 32 each.
 *  Cost:   one round trip, shared by the requests that were queued meanwhile.
 *  @return PGAS_ERR_NOT_FOUND  no such object or method
 *          PGAS_ERR_MISMATCH   sizes that are not those of a typed method
 *          PGAS_ERR_LIMIT      bytes or result_bytes is too large
 *          PGAS_ERR_PEER       the rank died
 *          PGAS_ERR_CONTEXT    also in a plain handler, if the object is on another rank
 *          PGAS_ERR_DEADLOCK   called by a method of the same object */
PGAS_API pgas_status_t pgas_object_call(pgas_object_t object, pgas_method_t method,
                                        const void *args, size_t bytes, void *result,
                                        size_t result_bytes);

PGAS_END_DECLS

#include "pgas/detail/object.h"
#endif
