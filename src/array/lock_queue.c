/* Queues of elements' locks: see lock_queue.h. A hash table with chains; an uncontended lock is two
 * small blocks from malloc. */
#include "array/lock_queue.h"

#include <stdlib.h>

#include "base/hash.h"

enum { N_BUCKETS_FIRST = 64 };

typedef struct waiter {
    struct waiter *next;
    pgasi_array_lock_request_t request;
} waiter_t;

typedef struct pgasi_array_lock_entry {
    struct pgasi_array_lock_entry *next;
    uint64_t index;
    uint32_t array;
    waiter_t *holders; /* one writer, or readers */
    waiter_t *first, **end;
} entry_t;

/* ---- the table ---- */

static uint64_t bucket_of(const pgasi_array_lock_queue_t *q, uint32_t array, uint64_t index)
{
    return pgasi_hash_combine(array, index) & (q->n_buckets - 1);
}

static entry_t **place_of(const pgasi_array_lock_queue_t *q, uint32_t array, uint64_t index)
{
    entry_t **at = &q->bucket[bucket_of(q, array, index)];
    while (*at && ((*at)->index != index || (*at)->array != array))
        at = &(*at)->next;
    return at;
}

/* As many buckets as entries, as far as there is memory. */
static bool make_room(pgasi_array_lock_queue_t *q)
{
    if (q->n < q->n_buckets)
        return true;
    pgasi_array_lock_queue_t wide = *q;
    wide.n_buckets = q->n_buckets ? 2 * q->n_buckets : N_BUCKETS_FIRST;
    wide.bucket = calloc(wide.n_buckets, sizeof *wide.bucket);
    if (!wide.bucket)
        return q->n_buckets > 0;
    for (uint64_t b = 0; b < q->n_buckets; b++) {
        for (entry_t *e = q->bucket[b], *next; e; e = next) {
            entry_t **at = &wide.bucket[bucket_of(&wide, e->array, e->index)];
            next = e->next;
            e->next = *at;
            *at = e;
        }
    }
    free(q->bucket);
    *q = wide;
    return true;
}

static entry_t *find_or_make(pgasi_array_lock_queue_t *q, const pgasi_array_lock_request_t *r)
{
    if (!make_room(q))
        return NULL;
    entry_t **at = place_of(q, r->array, r->index);
    if (*at || !(*at = malloc(sizeof **at)))
        return *at;
    **at = (entry_t){ NULL, r->index, r->array, NULL, NULL, &(*at)->first };
    q->n++;
    return *at;
}

static bool remove_if_empty(pgasi_array_lock_queue_t *q, entry_t **at)
{
    entry_t *e = *at;
    if (e->holders || e->first)
        return false;
    *at = e->next;
    q->n--;
    free(e);
    return true;
}

/* ---- one entry ---- */

static bool is_free_for(const entry_t *e, bool writes)
{
    return !e->holders || !(writes || e->holders->request.writes);
}

/* Lets in from the front of the queue. */
static void admit(const pgasi_array_lock_queue_t *q, entry_t *e)
{
    for (waiter_t *w; (w = e->first) && is_free_for(e, w->request.writes);) {
        e->first = w->next;
        if (!e->first)
            e->end = &e->first;
        w->next = e->holders;
        e->holders = w;
        q->tell(&w->request, PGAS_OK);
    }
}

typedef bool (*is_meant_fn_t)(const pgasi_array_lock_request_t *r, const void *whom);

static bool is_request(const pgasi_array_lock_request_t *r, const void *whom)
{
    const pgasi_array_lock_request_t *other = whom;
    return r->who == other->who && r->number == other->number;
}
static bool is_of_thread(const pgasi_array_lock_request_t *r, const void *whom)
{
    return r->who == *(const pgas_thread_t *)whom;
}
static bool is_of_rank(const pgasi_array_lock_request_t *r, const void *whom)
{
    return pgas_thread_rank(r->who) == *(const int *)whom;
}

/* Takes those that are meant out of a list; returns where it ends then. */
static waiter_t **take_out(waiter_t **at, is_meant_fn_t is_meant, const void *whom, bool *found_p)
{
    *found_p = false;
    for (waiter_t *w; (w = *at);) {
        if (is_meant(&w->request, whom)) {
            *at = w->next;
            free(w);
            *found_p = true;
        } else {
            at = &w->next;
        }
    }
    return at;
}

static void refuse_all(const pgasi_array_lock_queue_t *q, entry_t *e)
{
    for (waiter_t *w; (w = e->first); free(w)) {
        e->first = w->next;
        q->tell(&w->request, PGAS_ERR_PEER);
    }
    e->end = &e->first;
}

static void free_list(waiter_t *w)
{
    for (waiter_t *next; w; w = next) {
        next = w->next;
        free(w);
    }
}

/* ---- what happens ---- */

pgas_status_t pgasi_array_lock_want(pgasi_array_lock_queue_t *q,
                                    const pgasi_array_lock_request_t *request, bool tries)
{
    entry_t *e = find_or_make(q, request);
    if (!e)
        return PGAS_ERR_NO_MEMORY;
    bool now = !e->first && is_free_for(e, request->writes);
    if (!now && tries)
        return PGAS_ERR_BUSY;
    waiter_t *w = malloc(sizeof *w);
    if (!w) {
        remove_if_empty(q, place_of(q, request->array, request->index));
        return PGAS_ERR_NO_MEMORY;
    }
    w->request = *request;
    if (now) {
        w->next = e->holders;
        e->holders = w;
        return PGAS_OK;
    }
    w->next = NULL;
    *e->end = w;
    e->end = &w->next;
    return PGAS_INPROGRESS;
}

bool pgasi_array_lock_release(pgasi_array_lock_queue_t *q, uint32_t array, uint64_t index,
                              pgas_thread_t who)
{
    entry_t **at = q->n ? place_of(q, array, index) : NULL;
    bool found = false;
    if (at && *at)
        take_out(&(*at)->holders, is_of_thread, &who, &found);
    if (found) {
        admit(q, *at);
        remove_if_empty(q, at);
    }
    return found;
}

bool pgasi_array_lock_cancel(pgasi_array_lock_queue_t *q, const pgasi_array_lock_request_t *request)
{
    entry_t **at = q->n ? place_of(q, request->array, request->index) : NULL, *e = at ? *at : NULL;
    bool found = false;
    if (!e)
        return false;
    e->end = take_out(&e->first, is_request, request, &found);
    if (found)
        admit(q, e); /* it may have been the writer that kept readers behind it out */
    return found;
}

static void drop_from(pgasi_array_lock_queue_t *q, entry_t *e, int rank)
{
    bool found;
    e->end = take_out(&e->first, is_of_rank, &rank, &found);
    take_out(&e->holders, is_of_rank, &rank, &found);
    if (found)
        refuse_all(q, e);
    else
        admit(q, e);
}

void pgasi_array_lock_drop_rank(pgasi_array_lock_queue_t *q, int rank)
{
    for (uint64_t b = 0; b < q->n_buckets; b++) {
        for (entry_t **at = &q->bucket[b], *e; (e = *at);) {
            drop_from(q, e, rank);
            if (!remove_if_empty(q, at))
                at = &e->next;
        }
    }
}

bool pgasi_array_lock_in_use(const pgasi_array_lock_queue_t *q, uint32_t array)
{
    for (uint64_t b = 0; q->n && b < q->n_buckets; b++) {
        for (const entry_t *e = q->bucket[b]; e; e = e->next)
            if (e->array == array)
                return true;
    }
    return false;
}

static void free_entry(pgasi_array_lock_queue_t *q, entry_t **at)
{
    entry_t *e = *at;
    free_list(e->holders);
    free_list(e->first);
    *at = e->next;
    q->n--;
    free(e);
}

void pgasi_array_lock_forget(pgasi_array_lock_queue_t *q, uint32_t array)
{
    for (uint64_t b = 0; b < q->n_buckets; b++) {
        for (entry_t **at = &q->bucket[b]; *at;)
            if ((*at)->array == array)
                free_entry(q, at);
            else
                at = &(*at)->next;
    }
}

void pgasi_array_lock_clear(pgasi_array_lock_queue_t *q)
{
    for (uint64_t b = 0; b < q->n_buckets; b++)
        while (q->bucket[b])
            free_entry(q, &q->bucket[b]);
    free(q->bucket);
    q->bucket = NULL;
    q->n_buckets = q->n = 0;
}
