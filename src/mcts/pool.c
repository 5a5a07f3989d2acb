/* Memory of nodes: blocks of some hundred bytes, taken one by one while the search runs and given back together at rest.
 * Sizes up to 2 KiB in steps of 32 bytes, above that powers of two; blocks of a class are used again. What one worker takes
 * another may give back, so at rest blocks go to lists for all, from which a worker takes some at a time. */
#include <stdlib.h>

#include "mcts/mcts.h"

#define SLAB_BYTES ((size_t)256 << 10)
#define FINE 64 /* classes of 32 bytes */
#define AT_A_TIME 32

typedef struct slab {
    struct slab *next;
    char data[] __attribute__((aligned(32)));
} slab_t;

static int class_of(size_t bytes, size_t *room_p)
{
    if (bytes <= FINE * 32) {
        *room_p = PGASI_ALIGN_UP(PGASI_MAX(bytes, (size_t)32), 32);
        return (int)(*room_p / 32) - 1;
    }
    int bits = 64 - __builtin_clzll(bytes - 1);
    *room_p = (size_t)1 << bits;
    return FINE + bits - 11;
}

static char *carve(pool_t *pool, size_t room)
{
    if ((size_t)(pool->fresh_end - pool->fresh) < room) {
        size_t bytes = PGASI_MAX(SLAB_BYTES - sizeof(slab_t), room);
        slab_t *slab = aligned_alloc(64, PGASI_ALIGN_UP(sizeof(slab_t) + bytes, 64));
        if (!slab)
            return NULL;
        slab->next = pool->slabs;
        pool->slabs = slab;
        if (bytes == room) { /* all of it */
            return slab->data;
        }
        pool->fresh = slab->data;
        pool->fresh_end = slab->data + bytes;
    }
    pool->fresh += room;
    return pool->fresh - room;
}

static void *refill(pool_t *pool, int class)
{
    rest_t *rest = pool->rest;
    if (!__atomic_load_n(&rest->free[class], __ATOMIC_RELAXED))
        return NULL;
    pthread_mutex_lock(&rest->lock);
    for (int i = 0; i < AT_A_TIME && rest->free[class]; i++) {
        void *block = rest->free[class];
        __atomic_store_n(&rest->free[class], *(void **)block, __ATOMIC_RELAXED);
        *(void **)block = pool->free[class];
        pool->free[class] = block;
    }
    pthread_mutex_unlock(&rest->lock);
    return pool->free[class];
}

void *pgasi_mcts_take(pool_t *pool, size_t bytes)
{
    size_t room;
    int class = class_of(bytes, &room);
    void *block = pool->free[class];
    if (!block)
        block = refill(pool, class);
    if (block)
        pool->free[class] = *(void **)block;
    else
        block = carve(pool, room);
    if (block)
        __atomic_store_n(&pool->used_bytes, pool->used_bytes + (int64_t)room, __ATOMIC_RELAXED);
    return block;
}

static void give(pool_t *pool, void **list, void *block, size_t bytes)
{
    size_t room;
    int class = class_of(bytes, &room);
    *(void **)block = list[class];
    list[class] = block;
    __atomic_store_n(&pool->used_bytes, pool->used_bytes - (int64_t)room, __ATOMIC_RELAXED);
}

void pgasi_mcts_give(pool_t *pool, void *block, size_t bytes)
{
    give(pool, pool->free, block, bytes);
}

void pgasi_mcts_give_to_all(pool_t *pool, void *block, size_t bytes)
{
    give(pool, pool->rest->free, block, bytes);
}

void pgasi_mcts_pool_fini(pool_t *pool)
{
    slab_t *next;
    for (slab_t *slab = pool->slabs; slab; slab = next) {
        next = slab->next;
        free(slab);
    }
    pool->slabs = NULL;
}
