/** Which threads have the locks of elements that a rank is home of, and which threads wait for
 *  them. No messages, no waiting; one thread at a time.
 *
 *  Locks are granted in the order of requests. Readers share a lock, but no reader passes a
 *  writer that waits. There is an entry for each element whose lock a thread has or wants, and
 *  for no other. */
#ifndef PGASI_ARRAY_LOCK_QUEUE_H
#define PGASI_ARRAY_LOCK_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/runtime.h"
#include "pgas/status.h"

typedef struct {
    uint64_t index;  /* of the element */
    uint32_t array;  /* the array's number */
    uint32_t number; /* of the thread's request */
    pgas_thread_t thread;
    bool writes;
} pgasi_array_lock_request_t;

/** The fate of a request that waited: PGAS_OK, it has the lock, or PGAS_ERR_PEER. The function
 *  does not use the queue. */
typedef void (*pgasi_array_lock_report_fn_t)(const pgasi_array_lock_request_t *request,
                                             pgas_status_t status);

/** All zero except report: an empty queue. */
typedef struct {
    pgasi_array_lock_report_fn_t report;
    struct pgasi_array_lock_entry **bucket;
    uint64_t n_buckets, n;
} pgasi_array_lock_queue_t;

/** A thread asks for a lock. tries: it does not wait.
 *  @return PGAS_OK: it has the lock.
 *          PGAS_INPROGRESS: it waits, and report is called later.
 *          PGAS_ERR_BUSY: it would have to wait, and only tries.
 *          PGAS_ERR_NO_MEMORY. */
pgas_status_t pgasi_array_lock_want(pgasi_array_lock_queue_t *q,
                                    const pgasi_array_lock_request_t *request, bool tries);

/** @return false: the thread does not have that lock. */
bool pgasi_array_lock_release(pgasi_array_lock_queue_t *q, uint32_t array, uint64_t index,
                              pgas_thread_t thread);

/** Cancels a request that waits. @return false: it does not wait; report has been called. */
bool pgasi_array_lock_cancel(pgasi_array_lock_queue_t *q,
                             const pgasi_array_lock_request_t *request);

/** Removes all requests and locks of a dead rank. Requests that waited for a lock that it had
 *  get PGAS_ERR_PEER. */
void pgasi_array_lock_drop_rank(pgasi_array_lock_queue_t *q, int rank);

/** Whether there are entries of an array. */
bool pgasi_array_lock_in_use(const pgasi_array_lock_queue_t *q, uint32_t array);

/** Forgets an array's entries, or all entries, without calling report. */
void pgasi_array_lock_forget(pgasi_array_lock_queue_t *q, uint32_t array);
void pgasi_array_lock_clear(pgasi_array_lock_queue_t *q);

#endif
