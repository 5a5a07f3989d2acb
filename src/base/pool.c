/* Pools of equal objects: a free list threaded through free objects, and chunks from whose front
 * new objects are taken.
 *
 * Shaped for requests, records and buffers of 32 B to 16 KiB, some hundreds to millions of them,
 * taken and returned by one thread. Invariants: n_used + free list + fresh = n_total <= limit. A
 * chunk starts with a pointer to the chunk before it; its objects follow at the pool's alignment.
 * All fresh objects are in the newest chunk. */
#include "base/pool.h"

#include <stdlib.h>

typedef struct chunk {
    struct chunk *before;
    size_t bytes;
} chunk_t;

#define ALIGNMENT_MAX 4096

pgas_status_t pgasi_pool_init(pgasi_pool_t *pool, size_t object_bytes, size_t alignment,
                              size_t chunk_objects, size_t limit_objects)
{
    alignment = PGASI_MAX(alignment, _Alignof(max_align_t));
    if (object_bytes == 0 || chunk_objects == 0 || !PGASI_IS_POW2(alignment) ||
        alignment > ALIGNMENT_MAX || object_bytes > SIZE_MAX / 4 ||
        chunk_objects > SIZE_MAX / 4 / PGASI_ALIGN_UP(object_bytes, alignment))
        return PGAS_ERR_INVALID;
    *pool = (pgasi_pool_t){
        .object_bytes = PGASI_ALIGN_UP(object_bytes, alignment),
        .alignment = alignment,
        .chunk_objects = chunk_objects,
        .limit_objects = limit_objects == 0 ? SIZE_MAX : limit_objects,
    };
    return PGAS_OK;
}

void pgasi_pool_fini(pgasi_pool_t *pool)
{
    chunk_t *chunk = (chunk_t *)pool->chunks;
    while (chunk) {
        chunk_t *before = chunk->before;
        free(chunk);
        chunk = before;
    }
    pool->free_list = pool->chunks = NULL;
    pool->fresh = pool->fresh_end = NULL;
    pool->n_used = pool->n_total = pool->n_chunks = 0;
}

static size_t chunk_bytes(const pgasi_pool_t *pool, size_t n_objects)
{
    return PGASI_ALIGN_UP(sizeof(chunk_t), pool->alignment) + n_objects * pool->object_bytes;
}

void *pgasi_pool_grow(pgasi_pool_t *pool)
{
    size_t n_objects = PGASI_MIN(pool->chunk_objects, pool->limit_objects - pool->n_total);
    if (n_objects == 0)
        return NULL;
    size_t bytes = chunk_bytes(pool, n_objects);
    chunk_t *chunk =
        (chunk_t *)aligned_alloc(pool->alignment, PGASI_ALIGN_UP(bytes, pool->alignment));
    if (!chunk)
        return NULL;
    chunk->before = (chunk_t *)pool->chunks;
    chunk->bytes = bytes;
    pool->chunks = chunk;
    pool->n_chunks++;
    pool->n_total += n_objects;
    char *first = (char *)chunk + PGASI_ALIGN_UP(sizeof(chunk_t), pool->alignment);
    pool->fresh = first + pool->object_bytes;
    pool->fresh_end = first + n_objects * pool->object_bytes;
    return first;
}

void pgasi_pool_query(const pgasi_pool_t *pool, pgasi_pool_info_t *info_p)
{
    size_t bytes = 0;
    for (const chunk_t *chunk = (const chunk_t *)pool->chunks; chunk != NULL; chunk = chunk->before)
        bytes += chunk->bytes;
    size_t worst = 0;
    if (pool->limit_objects != SIZE_MAX) {
        worst = pool->limit_objects / pool->chunk_objects * chunk_bytes(pool, pool->chunk_objects);
        if (pool->limit_objects % pool->chunk_objects != 0)
            worst += chunk_bytes(pool, pool->limit_objects % pool->chunk_objects);
    }
    *info_p = (pgasi_pool_info_t){
        .n_used = pool->n_used,
        .n_peak = pool->n_peak,
        .n_total = pool->n_total,
        .n_chunks = pool->n_chunks,
        .bytes = bytes,
        .bytes_worst = worst,
    };
}
