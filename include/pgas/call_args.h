/** Calls with any number of arguments of any size. Results may be the same.
 *
 *      #define STEP_FIELDS(F)                      the parameters, as in pgas/describe.h
 *          F(SCALAR, int, level)
 *          F(RMA_VECTOR, cells, halo)
 *          F(VECTOR, double, weights, n_weights)
 *      PGAS_HANDLER_ARGS(step, STEP_FIELDS)        defines a handler, and registers it
 *      {
 *          cells_take(halo, &mine[level]);         the data have arrived; no copy is made
 *          use(weights, n_weights, source);        valid until the handler returns
 *      }
 *
 *      pgas_call_step(rank, 3, &cells, w, n, &done);
 *
 *  The message of the call contains small arguments. Larger ones, from the threshold of the archive
 *  on, stay in the caller's memory. The target reads all of them at once into registered memory of
 *  its own. Then it sends one acknowledgement, and the handler runs.
 *
 *  Source: HPX actions and parcels; one-sided reads as in HPX's LCI and libfabric parcelports. */
#ifndef PGAS_CALL_ARGS_H
#define PGAS_CALL_ARGS_H

#include "pgas/archive.h"
#include "pgas/call.h"
#include "pgas/call_archive.h"
#include "pgas/describe.h"
#include "pgas/handler.h"

PGAS_BEGIN_DECLS

/* ---- typed handlers ---- */

/** Defines a handler, and registers it before main. FIELDS describes its parameters, at least one.
 *  The body follows the macro. Its parameters are the members of the fields, then `pgas_thread_t
 *  source`. The functions that call it have the same parameters:
 *      pgas_handler_t pgas_handler_NAME;
 *      pgas_status_t pgas_call_NAME(int rank, parameters.., pgas_sync_t *sync);
 *      pgas_status_t pgas_call_NAME_to(pgas_target_t, parameters.., const pgas_call_opts_t *);
 *  | field                                          | of a call          | of the body            |
 *  | SCALAR                                         | value              | value                  |
 *  | ARRAY, STRING, VECTOR, OPTIONAL                | pointer to const   | pointer to const       |
 *  | STRUCT, UNION, RMA_VECTOR, STRUCT_ARRAY ..     | pointer to const   | pointer                |
 *  | OBJECT                                         | pointer            | pointer                |
 *  A count is a size_t behind its vector. ARRAY, STRUCT, STRUCT_ARRAY, UNION and RMA_VECTOR must
 *  not be NULL in calls (PGAS_ERR_INVALID).
 *
 *  Data are valid until the body returns. RMA vectors that it takes or shares, and objects that it
 *  shares, stay valid. If the arguments have another description, the body does not run, and the
 *  log names the handler and the caller. Completion and ownership are as for pgas_call_args. */
#define PGAS_HANDLER_ARGS(name, FIELDS) PGAS_ARGS_ONE_FILE(name, FIELDS, false)
/** Does the same for a body that may wait. It runs on a handler thread, see pgas/call.h. */
#define PGAS_HANDLER_ARGS_BLOCKING(name, FIELDS) PGAS_ARGS_ONE_FILE(name, FIELDS, true)

/** Does the same for a body that fills a result. Its parameter RESULT_t *result is in front of
 *  source. RESULT is a described name. *result is zero at first. When the caller has the result,
 *  the library frees *result by pgas_free_RESULT. There are two more ways to call:
 *      pgas_status_t pgas_call_return_NAME(int rank, parameters.., RESULT_t *result_p);
 *          It waits, and loads the result. The caller frees it by pgas_free_RESULT.
 *      pgas_status_t pgas_call_return_nb_NAME(int rank, parameters.., pgas_archive_t *reply_p,
 *                                             pgas_sync_t *sync);
 *      pgas_status_t pgas_result_NAME(pgas_archive_t *reply, RESULT_t *result_p);
 *          After sync has completed with PGAS_OK, pgas_result_NAME loads the result and frees the
 *          reply. After an error of sync, pgas_archive_free frees it. */
#define PGAS_HANDLER_ARGS_RETURN(name, FIELDS, result_name) \
    PGAS_ARGS_ONE_FILE_RETURN(name, FIELDS, result_name, false)
#define PGAS_HANDLER_ARGS_BLOCKING_RETURN(name, FIELDS, result_name) \
    PGAS_ARGS_ONE_FILE_RETURN(name, FIELDS, result_name, true)

/** For programs of several files: a header has the declaration, with a semicolon. One file that
 *  includes it has the definition, with the body. */
#define PGAS_HANDLER_ARGS_DECLARE(name, FIELDS) PGAS_ARGS_EXTERN(name, FIELDS)
#define PGAS_HANDLER_ARGS_DECLARE_RETURN(name, FIELDS, result_name) \
    PGAS_ARGS_EXTERN_RETURN(name, FIELDS, result_name)
#define PGAS_HANDLER_ARGS_DEFINE(name, FIELDS)          PGAS_ARGS_GLOBAL(name, FIELDS, false)
#define PGAS_HANDLER_ARGS_DEFINE_BLOCKING(name, FIELDS) PGAS_ARGS_GLOBAL(name, FIELDS, true)
#define PGAS_HANDLER_ARGS_DEFINE_RETURN(name, FIELDS, result_name) \
    PGAS_ARGS_GLOBAL_RETURN(name, FIELDS, result_name, false)
#define PGAS_HANDLER_ARGS_DEFINE_BLOCKING_RETURN(name, FIELDS, result_name) \
    PGAS_ARGS_GLOBAL_RETURN(name, FIELDS, result_name, true)

PGAS_END_DECLS

#include "pgas/detail/call_args.h"
#endif
