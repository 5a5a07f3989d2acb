/** A pool of objects of one size, taken from chunks that are freed only in fini. One thread uses it
 *  at a time. Acquiring and releasing an object takes a few instructions; malloc is called once per
 *  chunk. The free list is stored in the free objects, so an object keeps nothing of its contents
 *  after release. */
#ifndef PGASI_POOL_H
#define PGASI_POOL_H

#include <stddef.h>
#include <stdint.h>
#include "base/checks.h"
#include "pgas/status.h"

typedef struct pgasi_pool {
    void *free_list;
    void *chunks;
    char *fresh; /* objects of the newest chunk that were never used */
    char *fresh_end;
    size_t object_bytes; /* rounded up to the alignment */
    size_t alignment;
    size_t chunk_objects;
    size_t limit_objects; /* SIZE_MAX: none */
    size_t n_used;
    size_t n_peak;
    size_t n_total; /* objects that all chunks hold */
    size_t n_chunks;
} pgasi_pool_t;

/** Numbers for the memory account. */
typedef struct {
    size_t n_used, n_peak, n_total, n_chunks;
    size_t bytes;       /* allocated by malloc now */
    size_t bytes_worst; /* at the limit; 0 when there is no limit */
} pgasi_pool_info_t;

/** Makes a pool in the caller's memory; nothing is allocated yet.
 *  @param object_bytes size of an object, at least 1
 *  @param alignment power of two up to 4096; 0: that of any C object
 *  @param chunk_objects objects per malloc, at least 1
 *  @param limit_objects the most objects in use at one time; 0: no limit
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  impossible sizes */
pgas_status_t pgasi_pool_init(pgasi_pool_t *pool, size_t object_bytes, size_t alignment,
                              size_t chunk_objects, size_t limit_objects);

/** Frees all chunks, with the objects that are still in use. */
void pgasi_pool_fini(pgasi_pool_t *pool);

void *pgasi_pool_grow(pgasi_pool_t *pool); /* the rare part of acquire */

/** Acquires an object (contents undefined). @return NULL: the limit is reached, or the system has
 *  no memory */
static inline void *pgasi_pool_acquire(pgasi_pool_t *pool)
{
    void *object = pool->free_list;
    if (PGAS_LIKELY(object)) {
        pool->free_list = *(void **)object;
    } else if (pool->fresh != pool->fresh_end) {
        object = pool->fresh;
        pool->fresh += pool->object_bytes;
    } else {
        object = pgasi_pool_grow(pool);
        if (!object)
            return NULL;
    }
    pool->n_used++;
    pool->n_peak = PGASI_MAX(pool->n_peak, pool->n_used);
    return object;
}

/** Returns an object to its pool. */
static inline void pgasi_pool_release(pgasi_pool_t *pool, void *object)
{
    PGASI_ASSERT(object && pool->n_used > 0);
    *(void **)object = pool->free_list;
    pool->free_list = object;
    pool->n_used--;
}

void pgasi_pool_query(const pgasi_pool_t *pool, pgasi_pool_info_t *info_p);

#endif
