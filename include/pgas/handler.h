/** Handlers: C functions that other ranks call by a number.
 *
 *      static pgas_handler_t add;
 *      static void on_add(const void *args, size_t bytes, pgas_thread_t source, void *context)
 *      {
 *          *(int64_t *)context += *(const int64_t *)args;
 *      }
 *
 *      pgas_handler_register("add", on_add, &sum, &add);      on every rank
 *      pgas_init(NULL, NULL);                                 the ranks agree on the number
 *      pgas_call(rank, add, &amount, sizeof amount, NULL);
 *
 *  The ranks agree on numbers by sorted names, so neither address-space layout nor link order
 *  matters. */
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

/** A handler.
 *  @param args     `bytes` bytes, aligned to 8, valid until the handler returns
 *  @param source   the calling thread
 *  @param context  as registered on this rank */
typedef void (*pgas_handler_fn_t)(const void *args, size_t bytes, pgas_thread_t source,
                                  void *context);

/** Registers a handler on this rank under a name that the program chooses.
 *  Shape:  before pgas_init, where the ranks agree, or after it; then pgas_handlers_agree must
 *          follow on all ranks. One thread at a time.
 *  Done:   *handler_p is set when the ranks have agreed. It must be valid until then; use a static
 *          variable.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  a null pointer, or an empty or too long name
 *          PGAS_ERR_EXISTS   the name is registered with another function, context or options. If
 *                            they are the same, *handler_p replaces the earlier place
 *          PGAS_ERR_LIMIT    PGAS_HANDLERS_MAX handlers are registered
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_handler_register(const char *name, pgas_handler_fn_t fn, void *context,
                                             pgas_handler_t *handler_p);

/** The batch form of a handler: it runs n calls of one source at once, in the order issued. The
 *  other calls of that source run before and after it, as if the calls ran one by one.
 *  @param args    the arguments of call i are `bytes` bytes at (const char *)args + i * stride,
 *                 aligned to 8
 *  @param n       2 to 512 consecutive calls with the same handler and size. The library decides
 *                 how it cuts calls into batches; the result must not depend on n
 *  Source: conveyors of bale deliver one item at a time. Here the handler gets the whole run, so it
 *  can prefetch memory. */
typedef void (*pgas_handler_batch_fn_t)(const void *args, size_t bytes, size_t stride, size_t n,
                                        pgas_thread_t source, void *context);

/** Options; zero means default. */
typedef struct {
    size_t size; /* as in pgas_init_opts_t */
    /* runs several calls at once; the plain form still runs single calls */
    pgas_handler_batch_fn_t batch;
    /* the handler may wait: it runs on a handler thread, see pgas/call.h, and never as batch */
    bool blocks;
} pgas_handler_opts_t;
#define PGAS_HANDLER_OPTS_INIT                   \
    {                                            \
        sizeof(pgas_handler_opts_t), NULL, false \
    }

/** As pgas_handler_register, with options (NULL: defaults).
 *  @return as pgas_handler_register; PGAS_ERR_INVALID also for options of an unknown size. */
PGAS_API pgas_status_t pgas_handler_register_opts(const char *name, pgas_handler_fn_t fn,
                                                  void *context, const pgas_handler_opts_t *opts,
                                                  pgas_handler_t *handler_p);

/** Returns the name of a handler on which the ranks have agreed, or NULL if this rank does not know
 *  the number.
 *  Owns:   constant text, valid until the next pgas_handler_register or pgas_finalize. */
PGAS_API const char *pgas_handler_name(pgas_handler_t handler);

/** Agrees on numbers for the handlers registered since the last agreement. Earlier numbers stay.
 *  Shape:  collective over all ranks.
 *  @return PGAS_OK
 *          PGAS_ERR_MISMATCH  a name is missing on some rank; the log names handler and rank. All
 *                             ranks get this status, and the new handlers are forgotten
 *          PGAS_ERR_NOT_INIT
 *          PGAS_ERR_CONTEXT   as for collectives */
PGAS_API pgas_status_t pgas_handlers_agree(void);

PGAS_END_DECLS
#endif
