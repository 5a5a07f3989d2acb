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
