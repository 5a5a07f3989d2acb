/** Handlers: C functions that other ranks call by a number, agreed on by name. */
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

/** args: `bytes` bytes, aligned to 8, valid during the call. source: the calling thread. context:
 *  as registered. */
typedef void (*pgas_handler_fn_t)(const void *args, size_t bytes, pgas_thread_t source,
                                  void *context);

/** Registers a handler on this rank under a name of the program's choice.
 *  Shape:  before pgas_init (agreed on there) or after it (then pgas_handlers_agree must follow on
 *          all ranks). One thread at a time.
 *  Done:   *handler_p (which must stay valid: a static variable) is set when the ranks have agreed.
 *  @return PGAS_OK; PGAS_ERR_INVALID (null, empty or too long name); PGAS_ERR_EXISTS (name in use
 *          with another function); PGAS_ERR_LIMIT. */
PGAS_API pgas_status_t pgas_handler_register(const char *name, pgas_handler_fn_t fn, void *context,
                                             pgas_handler_t *handler_p);

/** The batch form of a handler: n calls of one source in one go, in the order issued, before and
 *  after which its other calls run as they would one by one. Arguments of call i: `bytes` bytes
 *  from (const char *)args + i * stride, aligned to 8.
 *  n:      2 to 512 gathered calls that followed each other with the same handler and size. How
 *          they are cut into runs is the library's matter: a handler must give the same result
 *          whatever n is.
 *  Source: conveyors of bale pull one item at a time; here the whole run is at hand, so that memory
 *  can be fetched ahead. */
typedef void (*pgas_handler_batch_fn_t)(const void *args, size_t bytes, size_t stride, size_t n,
                                        pgas_thread_t source, void *context);

/** Options; zero means default. */
typedef struct {
    size_t size; /* as in pgas_init_opts_t */
    /* gets runs of calls at once; the plain form still gets single calls */
    pgas_handler_batch_fn_t batch;
    /* it may wait: runs on a handler thread of its own, see pgas/call.h, and never as batch */
    bool blocks;
} pgas_handler_opts_t;
#define PGAS_HANDLER_OPTS_INIT                   \
    {                                            \
        sizeof(pgas_handler_opts_t), NULL, false \
    }

/** As pgas_handler_register, with options (NULL: none). PGAS_ERR_INVALID also for options of a size
 *  that never was. */
PGAS_API pgas_status_t pgas_handler_register_opts(const char *name, pgas_handler_fn_t fn,
                                                  void *context, const pgas_handler_opts_t *opts,
                                                  pgas_handler_t *handler_p);

/** The name of a handler that the ranks have agreed on.
 *  Owns:   constant text, valid until the next pgas_handler_register or pgas_finalize.
 *  @return NULL if this rank knows no such number. */
PGAS_API const char *pgas_handler_name(pgas_handler_t handler);

/** All ranks agree on numbers for the handlers registered since, by sorted name; earlier numbers
 *  stay.
 *  @return PGAS_OK; PGAS_ERR_MISMATCH, the same on all ranks, if a name is missing somewhere (the
 *          log names handler and rank; the handlers registered since are forgotten);
 *          PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT. */
PGAS_API pgas_status_t pgas_handlers_agree(void);

PGAS_END_DECLS
#endif
