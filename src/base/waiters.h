/** Lists of requests for a lock: those that wait for it, in order of arrival, or those that have it.
 *  No messages, no waiting; one thread at a time. */
#ifndef PGASI_WAITERS_H
#define PGASI_WAITERS_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/runtime.h"
#include "pgas/status.h"

typedef struct pgasi_waiter {
    struct pgasi_waiter *next;
    pgas_thread_t thread;
    uint32_t number; /* of the thread's request */
    bool writes;     /* it wants the lock for itself */
} pgasi_waiter_t;

/** All zero is an empty list. */
typedef struct {
    pgasi_waiter_t *first, *last;
} pgasi_waiters_t;

/** Appends a request. @return PGAS_ERR_NO_MEMORY: the list is unchanged. */
pgas_status_t pgasi_waiters_add(pgasi_waiters_t *list, pgas_thread_t thread, uint32_t number,
                                bool writes);

/** Moves the first request of a list that is not empty to the end of another list; NULL: nowhere.
 *  @return the request. */
pgasi_waiter_t pgasi_waiters_take(pgasi_waiters_t *list, pgasi_waiters_t *to);

/** Removes one request of a thread, all requests of a thread, or all requests of a rank.
 *  @return the number of removed requests. */
uint32_t pgasi_waiters_remove(pgasi_waiters_t *list, pgas_thread_t thread, uint32_t number);
uint32_t pgasi_waiters_remove_thread(pgasi_waiters_t *list, pgas_thread_t thread);
uint32_t pgasi_waiters_remove_rank(pgasi_waiters_t *list, int rank);

/** Removes all requests. */
void pgasi_waiters_clear(pgasi_waiters_t *list);

#endif
