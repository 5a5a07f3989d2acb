/** Calls with any number of arguments of any size, and results of the same kind.
 *
 *      #define STEP_FIELDS(F)                      the parameters, as in pgas/describe.h
 *          F(SCALAR, int, level)
 *          F(RMA_VECTOR, cells, halo)
 *          F(VECTOR, double, weights, n_weights)
 *      PGAS_HANDLER_ARGS(step, STEP_FIELDS)        defines a handler, and registers it
 *      {
 *          cells_take(halo, &mine[level]);         the data are here; no copy is made
 *          use(weights, n_weights, source);        valid until the handler returns
 *      }
 *
 *      pgas_call_step(rank, 3, &cells, w, n, &done);
 *
 *  Small arguments travel in the message of the call. From the threshold of the archive on, the
 *  target reads them from the caller's memory into registered memory of its own, all at once. One
 *  acknowledgement then gives the memory back to the caller, before the handler runs.
 *
 *  Source: HPX actions and parcels; one-sided reads as its LCI and libfabric parcelports. */
#ifndef PGAS_CALL_ARGS_H
#define PGAS_CALL_ARGS_H

#include "pgas/archive.h"
#include "pgas/call.h"
#include "pgas/describe.h"
#include "pgas/handler.h"

PGAS_BEGIN_DECLS

/* ---- archives ---- */

/** Runs a handler with an archive. The handler reads it by pgas_archive_from_call.
 *  Shape:  target is a rank, thread or service. opts NULL: defaults; buffers, result and spawn are
 *          refused (PGAS_ERR_UNSUPPORTED).
 *  Done:   on return the archive is empty and may be used again. opts->local, or sync with
 *          PGAS_LOCAL, completes when no memory of the program is read any more; sync otherwise as
 *          in pgas_call_to. With neither, pointer chunks are copied on the way.
 *  Owns:   pointer chunks must not change until local completion. Objects are shared until then.
 *  Cost:   without chunks, a message. With chunks, on the node one copy of them and no registration,
 *          between nodes one get each; an acknowledgement.
 *  @return as pgas_call_to, and the error of the archive. After an error it is unchanged. */
PGAS_API pgas_status_t pgas_call_args(pgas_target_t target, pgas_handler_t handler,
                                      pgas_archive_t *archive, const pgas_call_opts_t *opts);

/** In a handler that was called with an archive: starts to read it. in_p is valid until the handler
 *  returns; the handler frees it by pgas_archive_free.
 *  @return PGAS_ERR_CONTEXT  not in a handler
 *          PGAS_ERR_INVALID  the call has no archive */
PGAS_API pgas_status_t pgas_archive_from_call(pgas_archive_t *in_p);

/** As pgas_call_args; the handler replies by pgas_reply_args. *result_p is a reader of the reply when
 *  sync reports, and the caller frees it. It and sync must stay until then.
 *  @return PGAS_ERR_INVALID  sync is NULL; opts has a sync */
PGAS_API pgas_status_t pgas_call_args_return_nb(pgas_target_t target, pgas_handler_t handler,
                                                pgas_archive_t *archive,
                                                const pgas_call_opts_t *opts,
                                                pgas_archive_t *result_p, pgas_sync_t *sync);
/** The same, and waits. @return also PGAS_ERR_PEER, PGAS_ERR_CONTEXT in a plain handler */
PGAS_API pgas_status_t pgas_call_args_return(pgas_target_t target, pgas_handler_t handler,
                                             pgas_archive_t *archive, pgas_archive_t *result_p);

/** In a handler: replies with an archive, at most once, and empties it. When no memory of the
 *  program is read any more, done(arg) is called on any thread; NULL: pointer chunks are copied.
 *  @return as pgas_reply; PGAS_ERR_INVALID also: the caller wants no archive */
PGAS_API pgas_status_t pgas_reply_args(pgas_archive_t *archive, void (*done)(void *arg), void *arg);

/* ---- typed handlers ---- */

/** Defines a handler whose parameters are described by FIELDS, and registers it before main. The body
 *  follows. Its parameters are the members of the fields: by value, except STRUCT, UNION and
 *  RMA_VECTOR, which are pointers; pointers to data are to const. The last one is
 *  `pgas_thread_t source`. Data are valid until the handler returns, RMA vectors and objects that it
 *  takes or shares for longer. With the handler come
 *      pgas_handler_t pgas_handler_NAME;
 *      pgas_status_t pgas_call_NAME(int rank, parameters.., pgas_sync_t *sync);
 *      pgas_status_t pgas_call_NAME_to(pgas_target_t target, parameters.., const pgas_call_opts_t *);
 *  Completion and ownership as for pgas_call_args. */
#define PGAS_HANDLER_ARGS(name, FIELDS)          PGAS_HANDLER_ARGS_PLAIN(name, FIELDS, false)
#define PGAS_HANDLER_ARGS_BLOCKING(name, FIELDS) PGAS_HANDLER_ARGS_PLAIN(name, FIELDS, true)

/** The same; the body fills *result, a described RESULT_t, which is empty at first. The library
 *  frees it by pgas_free_RESULT when the caller has it. There is also
 *      pgas_status_t pgas_call_return_NAME(int rank, parameters.., RESULT_t *result_p);
 *  It waits, and loads the result; the caller frees it by pgas_free_RESULT. */
#define PGAS_HANDLER_ARGS_RETURN(name, FIELDS, result_name) \
    PGAS_HANDLER_ARGS_REPLIES(name, FIELDS, result_name, false)
#define PGAS_HANDLER_ARGS_BLOCKING_RETURN(name, FIELDS, result_name) \
    PGAS_HANDLER_ARGS_REPLIES(name, FIELDS, result_name, true)

PGAS_END_DECLS

#include "pgas/detail/call_args.h"
#endif
