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
#include "pgas/call_archive.h"
#include "pgas/describe.h"
#include "pgas/handler.h"

PGAS_BEGIN_DECLS

/* ---- typed handlers ---- */

/** Defines a handler whose parameters are described by FIELDS, at least one, and registers it
 *  before main. The body follows. Its parameters are the members of the fields, then `pgas_thread_t
 *  source`. The same parameters are those of the calls:
 *      pgas_handler_t pgas_handler_NAME;
 *      pgas_status_t pgas_call_NAME(int rank, parameters.., pgas_sync_t *sync);
 *      pgas_status_t pgas_call_NAME_to(pgas_target_t, parameters.., const pgas_call_opts_t *);
 *  | field                                          | of a call          | of the body            |
 *  | SCALAR                                         | value              | value                  |
 *  | ARRAY, STRING, VECTOR, OPTIONAL                | pointer to const   | pointer to const       |
 *  | STRUCT, UNION, RMA_VECTOR, STRUCT_ARRAY ..     | pointer to const   | pointer                |
 *  | OBJECT                                         | pointer            | pointer                |
 *  Counts follow their vectors, and are size_t. ARRAY, STRUCT, UNION and RMA_VECTOR take no NULL in
 *  calls (PGAS_ERR_INVALID).
 *
 *  In the body, data are valid until it returns. RMA vectors that it takes or shares, and objects
 *  that it shares, remain. Arguments of another description do not run the body; the log names the
 *  handler and the caller. Completion and ownership are as for pgas_call_args. */
#define PGAS_HANDLER_ARGS(name, FIELDS) PGAS_ARGS_ONE_FILE(name, FIELDS, false)
/** The same for a body that may wait. It runs on a handler thread, see pgas/call.h. */
#define PGAS_HANDLER_ARGS_BLOCKING(name, FIELDS) PGAS_ARGS_ONE_FILE(name, FIELDS, true)

/** The same; the body fills a result, RESULT_t *result, which is in front of source. RESULT is a
 *  described name. *result is zero at first; the library frees it by pgas_free_RESULT when the
 *  caller has it. There are also
 *      pgas_status_t pgas_call_return_NAME(int rank, parameters.., RESULT_t *result_p);
 *          It waits, and loads the result. The caller frees it by pgas_free_RESULT.
 *      pgas_status_t pgas_call_return_nb_NAME(int rank, parameters.., pgas_archive_t *reply_p,
 *                                             pgas_sync_t *sync);
 *      pgas_status_t pgas_result_NAME(pgas_archive_t *reply, RESULT_t *result_p);
 *          When sync reports PGAS_OK, the second one loads the result and frees the reply. */
#define PGAS_HANDLER_ARGS_RETURN(name, FIELDS, result_name) \
    PGAS_ARGS_ONE_FILE_RETURN(name, FIELDS, result_name, false)
#define PGAS_HANDLER_ARGS_BLOCKING_RETURN(name, FIELDS, result_name) \
    PGAS_ARGS_ONE_FILE_RETURN(name, FIELDS, result_name, true)

/** For programs of several files: a declaration in a header, with a semicolon, and a definition
 *  with the body in one file that includes it. */
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
