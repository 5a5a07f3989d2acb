/** Locks of elements inside the library. */
#ifndef PGASI_ARRAY_LOCK_H
#define PGASI_ARRAY_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include "array/array.h"

/** Ready for requests, also of other ranks: once a job, before its first array is made. What an
 *  earlier job has left goes. */
pgas_status_t pgasi_array_locks_start(void);

/** Whether a thread of this rank has a lock of the array with this id, or waits for one;
 *  *element_p: of which element. */
bool pgasi_array_locks_held(uint32_t array, uint64_t *element_p);

/** No rank has a lock any more: waits until all have come back to this home, for they may still be
 *  on their way. Nothing is left of the array then; the same if a rank of its team has died,
 *  without the wait. */
void pgasi_array_locks_end(const pgasi_array_t *a);

#endif
