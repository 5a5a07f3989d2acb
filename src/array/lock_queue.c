/* Queues of element locks: see lock_queue.h. A hash table with chains. A lock that no other
 * thread wants is two small blocks from malloc. */
#include "array/lock_queue.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/waiters.h"

enum { N_BUCKETS_FIRST = 64 };

typedef struct pgasi_array_lock_entry {
    struct pgasi_array_lock_entry *next;
    uint64_t index;
    uint32_t array;
    pgasi_waiters_t holders; /* one writer, or readers */
    pgasi_waiters_t waiters;
} entry_t;

/* ---- the table ---- */

static uint64_t bucket_of(const pgasi_array_lock_queue_t *q, uint32_t array, uint64_t index)
{
    return pgasi_hash_combine(array, index) & (q->n_buckets - 1);
}

static entry_t **find_entry(const pgasi_array_lock_queue_t *q, uint32_t array, uint64_t index)
{
    entry_t **at = &q->bucket[bucket_of(q, array, index)];
    while (*at && ((*at)->index != index || (*at)->array != array))
        at = &(*at)->next;
    return at;
}

/* Keeps as many buckets as entries, as far as there is memory. */
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
    entry_t **at = find_entry(q, r->array, r->index);
    if (*at || !(*at = malloc(sizeof **at)))
        return *at;
    **at = (entry_t){ .index = r->index, .array = r->array };
    q->n++;
    return *at;
}

static bool remove_if_empty(pgasi_array_lock_queue_t *q, entry_t **at)
{
    entry_t *e = *at;
    if (e->holders.first || e->waiters.first)
        return false;
    *at = e->next;
    q->n--;
    free(e);
    return true;
}

/* ---- one entry ---- */

static bool is_free_for(const entry_t *e, bool writes)
{
    return !e->holders.first || !(writes || e->holders.first->writes);
}

static void report(const pgasi_array_lock_queue_t *q, const entry_t *e, const pgasi_waiter_t *w,
                   pgas_status_t status)
{
    pgasi_array_lock_request_t request = { .index = e->index,
                                           .array = e->array,
                                           .number = w->number,
                                           .thread = w->thread,
                                           .writes = w->writes };
    q->report(&request, status);
}

/* Grants the lock to requests at the front of the queue. */
static void admit(const pgasi_array_lock_queue_t *q, entry_t *e)
{
    while (e->waiters.first && is_free_for(e, e->waiters.first->writes)) {
        pgasi_waiter_t w = pgasi_waiters_take(&e->waiters, &e->holders);
        report(q, e, &w, PGAS_OK);
    }
}

static void refuse_all(const pgasi_array_lock_queue_t *q, entry_t *e)
{
    while (e->waiters.first) {
        pgasi_waiter_t w = pgasi_waiters_take(&e->waiters, NULL);
        report(q, e, &w, PGAS_ERR_PEER);
    }
}

/* ---- requests ---- */

pgas_status_t pgasi_array_lock_want(pgasi_array_lock_queue_t *q,
                                    const pgasi_array_lock_request_t *request, bool tries)
{
    entry_t *e = find_or_make(q, request);
    if (!e)
        return PGAS_ERR_NO_MEMORY;
    bool now = !e->waiters.first && is_free_for(e, request->writes);
    if (!now && tries)
        return PGAS_ERR_BUSY;
    pgas_status_t status = pgasi_waiters_add(now ? &e->holders : &e->waiters, request->thread,
                                             request->number, request->writes);
    if (status != PGAS_OK) {
        remove_if_empty(q, find_entry(q, request->array, request->index));
        return status;
    }
    return now ? PGAS_OK : PGAS_INPROGRESS;
}

bool pgasi_array_lock_release(pgasi_array_lock_queue_t *q, uint32_t array, uint64_t index,
                              pgas_thread_t thread)
{
    entry_t **at = q->n ? find_entry(q, array, index) : NULL;
    if (!at || !*at || !pgasi_waiters_remove_thread(&(*at)->holders, thread))
        return false;
    admit(q, *at);
    remove_if_empty(q, at);
    return true;
}

bool pgasi_array_lock_cancel(pgasi_array_lock_queue_t *q, const pgasi_array_lock_request_t *request)
{
    entry_t **at = q->n ? find_entry(q, request->array, request->index) : NULL,
            *e = at ? *at : NULL;
    if (!e || !pgasi_waiters_remove(&e->waiters, request->thread, request->number))
        return false;
    admit(q, e); /* the request may have been the writer that kept later readers out */
    return true;
}

static void drop_from(pgasi_array_lock_queue_t *q, entry_t *e, int rank)
{
    pgasi_waiters_remove_rank(&e->waiters, rank);
    if (pgasi_waiters_remove_rank(&e->holders, rank))
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
    pgasi_waiters_clear(&e->holders);
    pgasi_waiters_clear(&e->waiters);
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
