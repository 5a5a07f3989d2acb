/* Lists of requests for a lock: see waiters.h. A request is one small block from malloc. */
#include "base/waiters.h"

#include <stdlib.h>

pgas_status_t pgasi_waiters_add(pgasi_waiters_t *list, pgas_thread_t thread, uint32_t number,
                                bool writes)
{
    pgasi_waiter_t *w = malloc(sizeof *w);
    if (!w)
        return PGAS_ERR_NO_MEMORY;
    *w = (pgasi_waiter_t){ NULL, thread, number, writes };
    if (list->first)
        list->last->next = w;
    else
        list->first = w;
    list->last = w;
    return PGAS_OK;
}

pgasi_waiter_t pgasi_waiters_take(pgasi_waiters_t *list, pgasi_waiters_t *to)
{
    pgasi_waiter_t *w = list->first, taken = *w;
    list->first = w->next;
    if (!to) {
        free(w);
        return taken;
    }
    w->next = NULL;
    if (to->first)
        to->last->next = w;
    else
        to->first = w;
    to->last = w;
    return taken;
}

typedef bool (*is_meant_fn_t)(const pgasi_waiter_t *w, const pgasi_waiter_t *whom);

static bool is_request(const pgasi_waiter_t *w, const pgasi_waiter_t *whom)
{
    return w->thread == whom->thread && w->number == whom->number;
}

static bool is_of_thread(const pgasi_waiter_t *w, const pgasi_waiter_t *whom)
{
    return w->thread == whom->thread;
}

static bool is_of_rank(const pgasi_waiter_t *w, const pgasi_waiter_t *whom)
{
    return pgas_thread_rank(w->thread) == pgas_thread_rank(whom->thread);
}

static uint32_t remove_if(pgasi_waiters_t *list, is_meant_fn_t is_meant, pgas_thread_t thread,
                          uint32_t number)
{
    pgasi_waiter_t whom = { .thread = thread, .number = number };
    pgasi_waiter_t **at = &list->first;
    uint32_t n = 0;
    list->last = NULL;
    for (pgasi_waiter_t *w; (w = *at);) {
        if (is_meant(w, &whom)) {
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

uint32_t pgasi_waiters_remove(pgasi_waiters_t *list, pgas_thread_t thread, uint32_t number)
{
    return remove_if(list, is_request, thread, number);
}

uint32_t pgasi_waiters_remove_thread(pgasi_waiters_t *list, pgas_thread_t thread)
{
    return remove_if(list, is_of_thread, thread, 0);
}

uint32_t pgasi_waiters_remove_rank(pgasi_waiters_t *list, int rank)
{
    return remove_if(list, is_of_rank, pgas_thread_make(rank, 0), 0);
}

void pgasi_waiters_clear(pgasi_waiters_t *list)
{
    while (list->first)
        pgasi_waiters_take(list, NULL);
    list->last = NULL;
}
