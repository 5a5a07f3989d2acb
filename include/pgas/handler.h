/** Handlers: functions that other ranks call.
 *
 *      typedef struct { int64_t amount; } deposit_t;
 *
 *      PGAS_HANDLER(deposit, deposit_t)                   defines a handler, and registers it
 *      {
 *          balance += arg->amount;                        arg: const deposit_t *
 *      }
 *
 *      PGAS_HANDLER_RETURN(worth, int32_t, double)        a handler with a result
 *      {
 *          return (double)balance * rate[*arg];
 *      }
 *
 *      pgas_init(NULL, NULL);                             the ranks agree on numbers of handlers
 *      deposit_t d = { 5 };
 *      pgas_call_deposit(rank, &d, NULL);                 another type does not compile
 *      pgas_call_return_worth(rank, &currency, &result);  waits for the result
 *
 *  The ranks agree on numbers by sorted names, so neither address-space layout nor link order
 *  matters. All ranks must have the same handlers. Otherwise pgas_init returns PGAS_ERR_MISMATCH on
 *  all ranks, and the log names a handler and a rank that lacks it. */
#ifndef PGAS_HANDLER_H
#define PGAS_HANDLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/runtime.h"
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** The number of a handler, the same on all ranks; 0 is none. */
typedef uint16_t pgas_handler_t;
#define PGAS_HANDLERS_MAX     4096
#define PGAS_HANDLER_NAME_MAX 63

/* ---- typed handlers ---- */

/** Defines a handler and registers it before main. The body follows, with the parameters
 *  `const arg_type *arg` and `pgas_thread_t source`, the calling thread. With the handler come
 *      pgas_handler_t pgas_handler_NAME;                                     its number
 *      pgas_status_t pgas_call_NAME(int rank, const arg_type *arg, pgas_sync_t *sync);
 *      pgas_status_t pgas_call_NAME_to(target, const arg_type *arg, const pgas_call_opts_t *opts);
 *      pgas_status_t pgas_agg_NAME(pgas_agg_t *agg, int rank, const arg_type *arg);
 *      pgas_status_t pgas_agg_NAME_to(agg, target, const arg_type *arg, opts);
 *  These are pgas_call, pgas_call_to, pgas_agg_call and pgas_agg_call_to; the program includes
 *  pgas/pgas.h, or pgas/agg.h. A run of aggregated calls is a loop over the inlined body.
 *
 *  Arguments are copied as bytes: no pointers into themselves, no C++ types whose constructors
 *  matter, an alignment of at most 8. A call by number with another size does not run; a caller
 *  that waits for its result gets PGAS_ERR_MISMATCH.
 *
 *  A name is unique in the program. pgas_init reports a name that two files define
 *  (PGAS_ERR_EXISTS), and every other error of the registration. In a shared object that is loaded
 *  later pgas_handlers_agree takes the place of pgas_init. Such an object stays loaded until the
 *  last pgas_finalize.
 *
 *  Compilers before gcc 14 and clang 16 only warn about pointers to other types in C. This header
 *  makes that an error where it is included. */
#define PGAS_HANDLER(name, arg_type) PGAS_HANDLER_ONE_FILE(name, arg_type, false)

/** As PGAS_HANDLER; the handler may wait. It runs on a handler thread, see pgas/call.h. */
#define PGAS_HANDLER_BLOCKING(name, arg_type) PGAS_HANDLER_ONE_FILE(name, arg_type, true)

/** As PGAS_HANDLER; the body returns a result_type, and there are also pgas_call_return and _nb:
 *      pgas_status_t pgas_call_return_NAME(int rank, const arg_type *arg, result_type *result);
 *      pgas_status_t pgas_call_return_nb_NAME(int rank, const arg_type *arg, result_type *result,
 *                                             pgas_sync_t *sync); */
#define PGAS_HANDLER_RETURN(name, arg_type, result_type) \
    PGAS_HANDLER_ONE_FILE_RETURN(name, arg_type, result_type, false)
#define PGAS_HANDLER_BLOCKING_RETURN(name, arg_type, result_type) \
    PGAS_HANDLER_ONE_FILE_RETURN(name, arg_type, result_type, true)

/** For programs of several files: a declaration in a header, with a semicolon, and a definition
 *  with the body in one file. */
#define PGAS_HANDLER_DECLARE(name, arg_type) PGAS_HANDLER_EXTERN(name, arg_type)
#define PGAS_HANDLER_DECLARE_RETURN(name, arg_type, result_type) \
    PGAS_HANDLER_EXTERN_RETURN(name, arg_type, result_type)
#define PGAS_HANDLER_DEFINE(name, arg_type)          PGAS_HANDLER_GLOBAL(name, arg_type, false)
#define PGAS_HANDLER_DEFINE_BLOCKING(name, arg_type) PGAS_HANDLER_GLOBAL(name, arg_type, true)
#define PGAS_HANDLER_DEFINE_RETURN(name, arg_type, result_type) \
    PGAS_HANDLER_GLOBAL_RETURN(name, arg_type, result_type, false)
#define PGAS_HANDLER_DEFINE_BLOCKING_RETURN(name, arg_type, result_type) \
    PGAS_HANDLER_GLOBAL_RETURN(name, arg_type, result_type, true)

/* ---- handlers by function ---- */

/** A handler.
 *  @param args     `bytes` bytes, aligned to 8, or to 4 if there are at most 4; valid until the
 *                  handler returns
 *  @param source   the calling thread
 *  @param context  as registered on this rank */
typedef void (*pgas_handler_fn_t)(const void *args, size_t bytes, pgas_thread_t source,
                                  void *context);

/** The batch form of a handler: it runs n calls of one source at once, in the order issued. The
 *  other calls of that source run before and after it, as if the calls ran one by one.
 *  @param args    the arguments of call i are `bytes` bytes at (const char *)args + i * stride,
 *                 aligned to 8, or to 4 if bytes is at most 4
 *  @param n       2 to 512 consecutive calls with the same handler and size. The library decides
 *                 how it cuts calls into batches; the result must not depend on n */
typedef void (*pgas_handler_batch_fn_t)(const void *args, size_t bytes, size_t stride, size_t n,
                                        pgas_thread_t source, void *context);

/** Options; zero means default. */
typedef struct {
    size_t size; /* as in pgas_init_opts_t */
    /* runs several calls at once; the plain form still runs single calls */
    pgas_handler_batch_fn_t batch;
    bool blocks; /* the handler may wait: it runs on a handler thread, and never as batch */
} pgas_handler_opts_t;
#define PGAS_HANDLER_OPTS_INIT                   \
    {                                            \
        sizeof(pgas_handler_opts_t), NULL, false \
    }

/** Registers a function as a handler of this rank. Programs need this for handlers that are known
 *  at run time, need a context, or take arguments of several sizes. opts NULL: defaults.
 *  Shape:  before pgas_init, where the ranks agree, or after it; then pgas_handlers_agree must
 *          follow on all ranks. One thread at a time.
 *  Done:   *handler_p is set when the ranks have agreed. It must be valid until then; use a static
 *          variable.
 *  @return PGAS_ERR_INVALID  a null pointer, an empty or too long name, or invalid options
 *          PGAS_ERR_EXISTS   the name is registered with another function, context or options. If
 *                            they are the same, *handler_p replaces the earlier place
 *          PGAS_ERR_LIMIT    PGAS_HANDLERS_MAX handlers are registered
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_handler_register(const char *name, pgas_handler_fn_t fn, void *context,
                                             const pgas_handler_opts_t *opts,
                                             pgas_handler_t *handler_p);

/** Returns the name of a handler on which the ranks have agreed, or NULL if this rank does not know
 *  the number. The text is valid until the next registration or pgas_finalize. */
PGAS_API const char *pgas_handler_name(pgas_handler_t handler);

/** Agrees on numbers for the handlers registered since the last agreement. Earlier numbers stay.
 *  Shape:  collective over all ranks.
 *  @return PGAS_ERR_MISMATCH  a name is missing on some rank; the log names handler and rank. All
 *                             ranks get this status, and the new handlers are forgotten
 *          PGAS_ERR_CONTEXT   as for collectives
 *          otherwise          the first error of a typed handler's registration, as above */
PGAS_API pgas_status_t pgas_handlers_agree(void);

PGAS_END_DECLS

#include "pgas/detail/handler.h"
#endif
