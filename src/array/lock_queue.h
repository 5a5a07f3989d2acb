/** Who has, and who waits for, the locks of the elements that a rank is home of. No messages, no
 *  waiting; one thread at a time.
 *
 *  First come, first served: readers share a lock, but none is let in past a writer that waits.
 *  There is an entry for each element that somebody has or wants, and none for others. */
#ifndef PGASI_ARRAY_LOCK_QUEUE_H
#define PGASI_ARRAY_LOCK_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/runtime.h"
#include "pgas/status.h"

typedef struct {
    uint64_t index;  /* of the element */
    uint32_t array;  /* the array's id */
    uint32_t number; /* of the thread's request */
    pgas_thread_t who;
    bool writes;
} pgasi_array_lock_request_t;

/** What becomes of a request that waited: PGAS_OK, it has the lock, or PGAS_ERR_PEER. The queue is
 *  not used meanwhile. */
typedef void (*pgasi_array_lock_tell_fn_t)(const pgasi_array_lock_request_t *request,
                                           pgas_status_t status);

/** Zero but for tell is empty. */
typedef struct {
    pgasi_array_lock_tell_fn_t tell;
    struct pgasi_array_lock_entry **bucket;
    uint64_t n_buckets, n;
} pgasi_array_lock_queue_t;

/** @return PGAS_OK: has it; PGAS_INPROGRESS: waits, tell follows; PGAS_ERR_BUSY: it would, and is
 *  only tried; else NO_MEMORY. */
pgas_status_t pgasi_array_lock_want(pgasi_array_lock_queue_t *q,
                                    const pgasi_array_lock_request_t *request, bool tries);

/** False: the thread does not have that lock. */
bool pgasi_array_lock_release(pgasi_array_lock_queue_t *q, uint32_t array, uint64_t index,
                              pgas_thread_t who);

/** Takes back a request that waits; false: it does not, since it has been told. */
bool pgasi_array_lock_cancel(pgasi_array_lock_queue_t *q,
                             const pgasi_array_lock_request_t *request);

/** Takes out all that is of a dead rank. Who waits for what it had is told PGAS_ERR_PEER. */
void pgasi_array_lock_drop_rank(pgasi_array_lock_queue_t *q, int rank);

/** Whether there are entries of an array. */
bool pgasi_array_lock_in_use(const pgasi_array_lock_queue_t *q, uint32_t array);

/** Forgets an array's entries, or everything, and tells nobody. */
void pgasi_array_lock_forget(pgasi_array_lock_queue_t *q, uint32_t array);
void pgasi_array_lock_clear(pgasi_array_lock_queue_t *q);

#endif
