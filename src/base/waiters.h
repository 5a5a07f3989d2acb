/** Lists of requests for a lock: those that wait for it, in order of arrival, or those that have
 *  it. A request is one small block from malloc. No messages, no waiting; one thread at a time. */
#ifndef PGASI_WAITERS_H
#define PGASI_WAITERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
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

static inline void pgasi_waiters_append(pgasi_waiters_t *list, pgasi_waiter_t *w)
{
    w->next = NULL;
    if (list->first)
        list->last->next = w;
    else
        list->first = w;
    list->last = w;
}

/** Appends a new request. @return PGAS_ERR_NO_MEMORY: the list is unchanged. */
static inline pgas_status_t pgasi_waiters_add(pgasi_waiters_t *list, pgas_thread_t thread,
                                              uint32_t number, bool writes)
{
    pgasi_waiter_t *w = malloc(sizeof *w);
    if (!w)
        return PGAS_ERR_NO_MEMORY;
    *w = (pgasi_waiter_t){ .thread = thread, .number = number, .writes = writes };
    pgasi_waiters_append(list, w);
    return PGAS_OK;
}

/** Moves the first request of a list that is not empty to the end of another list; NULL: frees it.
 *  @return the request. */
static inline pgasi_waiter_t pgasi_waiters_take(pgasi_waiters_t *list, pgasi_waiters_t *to)
{
    pgasi_waiter_t *w = list->first, taken = *w;
    list->first = w->next;
    if (to)
        pgasi_waiters_append(to, w);
    else
        free(w);
    return taken;
}

/** Removes requests of a rank (rank >= 0), or of a thread: all, or the one with a number.
 *  @return the number of removed requests. */
static inline uint32_t pgasi_waiters_remove_if(pgasi_waiters_t *list, int rank,
                                               pgas_thread_t thread, const uint32_t *number)
{
    uint32_t n = 0;
    pgasi_waiter_t **at = &list->first;
    list->last = NULL;
    for (pgasi_waiter_t *w; (w = *at);) {
        bool of_thread = w->thread == thread && (!number || w->number == *number);
        if (rank >= 0 ? pgas_thread_rank(w->thread) == rank : of_thread) {
            *at = w->next;
            free(w);
            n++;
        } else {
            list->last = w;
            at = &w->next;
        }
    }
    return n;
}
static inline uint32_t pgasi_waiters_remove(pgasi_waiters_t *list, pgas_thread_t thread,
                                            uint32_t number)
{
    return pgasi_waiters_remove_if(list, -1, thread, &number);
}
static inline uint32_t pgasi_waiters_remove_thread(pgasi_waiters_t *list, pgas_thread_t thread)
{
    return pgasi_waiters_remove_if(list, -1, thread, NULL);
}
static inline uint32_t pgasi_waiters_remove_rank(pgasi_waiters_t *list, int rank)
{
    return pgasi_waiters_remove_if(list, rank, 0, NULL);
}

/** Removes all requests. */
static inline void pgasi_waiters_clear(pgasi_waiters_t *list)
{
    while (list->first)
        pgasi_waiters_take(list, NULL);
    list->last = NULL;
}

#endif
