/** Locks of elements inside the library. */
#ifndef PGASI_ARRAY_LOCK_H
#define PGASI_ARRAY_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include "array/array.h"

/** Prepares for requests, also of other ranks. Called once a job, before its first array is made.
 *  Frees the memory that an earlier job has left. */
pgas_status_t pgasi_array_locks_start(void);

/** Whether a thread of this rank has a lock of the array with this number, or waits for one.
 *  *element_p: the element. */
bool pgasi_array_locks_held(uint32_t array, uint64_t *element_p);

/** Waits until all locks of the array have returned to this home, because releases may still be in
 *  flight. Then it removes the array from the tables. The caller ensures that no rank has a lock of
 *  the array. If a rank of the team has died it does not wait. */
void pgasi_array_locks_end(const pgasi_array_t *a);

#endif
