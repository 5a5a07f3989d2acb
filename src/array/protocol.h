/** How a thread enters the protocol after a miss, and how it returns. protocol.c chooses between
 *  the home's side, the cache's side and another rank of the node. */
#ifndef PGASI_ARRAY_PROTOCOL_H
#define PGASI_ARRAY_PROTOCOL_H

#include "array/array.h"

/** Whether the calling thread may wait for the array's ranks.
 *  @return PGAS_OK
 *          PGAS_ERR_CONTEXT  the thread is not attached, or runs a plain handler
 *          PGAS_ERR_PEER     a rank of the team has died */
pgas_status_t pgasi_array_may_wait(const pgasi_array_t *a);

/** Passes an access that its grant does not permit to the protocol. The caller is serving
 *  (msg/serve.h). */
void pgasi_array_miss(pgasi_array_t *a, const pgasi_array_location_t *loc, pgasi_array_access_t *x,
                      bool sequential);
/** Waits until the access is done. @return the status of the access. */
pgas_status_t pgasi_array_wait(pgasi_array_t *a, pgasi_array_access_t *x);

/** The same for a run that is coming, on behalf of a walk (array/runs.h). It may also return when
 *  the run is split. */
pgas_status_t pgasi_array_wait_for_run(pgasi_array_t *a, uint32_t run, uint64_t chunk);

/** Makes sure that the home of a chunk has the operator. If this is not known, it asks the home and
 *  waits. */
pgas_status_t pgasi_array_check_op_at_home(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                           pgas_op_t op);

/** The calling thread has ended a pin of the chunk of element i. recall: the protocol waits for
 *  that. */
void pgasi_array_pin_ended(pgasi_array_t *a, uint64_t i, pgasi_array_grant_t *grant, bool recall);

/** Executes one barrier for all chunks that are closing, and continues those that all threads have
 *  left. The caller is serving. */
void pgasi_array_poll(void);
/** As pgasi_array_poll; the function that progress calls (boot/hooks.h). */
int pgasi_array_poll_in_progress(void);

#endif
