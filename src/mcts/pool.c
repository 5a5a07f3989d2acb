/* Memory of nodes: blocks of some hundred bytes, taken one by one while the search runs and given
 * back together at rest. Sizes up to 4 KiB in lines of 64 bytes, above that powers of two; blocks
 * of a class are used again. What one worker takes another may give back, so at rest blocks go to
 * lists for all, from which a worker takes some at a time. */
#include <sys/mman.h>

#include "mcts/mcts.h"

/* a huge page each: nodes lie scattered, and looking up small pages costs as much as they do */
#define SLAB_BYTES ((size_t)2 << 20)
#define LINE       64
#define FINE       64 /* classes of lines */
#define AT_A_TIME  32

typedef struct slab {
    struct slab *next;
    size_t bytes;
    char data[] __attribute__((aligned(LINE)));
} slab_t;

/* Takes a share of the limit, so that the worker does not ask for each block. */
static bool has_room(pool_t *pool, int64_t bytes)
{
    int64_t left = __atomic_load_n(&pool->rest->room, __ATOMIC_RELAXED), more = bytes - pool->room,
            take = 0;
    while (more > 0) {
        if (left < more) {
            __atomic_store_n(&pool->rest->full, true, __ATOMIC_RELAXED);
            return false;
        }
        take = PGASI_MIN(left, PGASI_MAX(more, pool->rest->share));
        if (__atomic_compare_exchange_n(&pool->rest->room, &left, left - take, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            break;
    }
    pool->room += take;
    return true;
}

static int class_of(size_t bytes, size_t *room_p)
{
    if (bytes <= FINE * LINE) {
        *room_p = PGASI_ALIGN_UP(PGASI_MAX(bytes, (size_t)1), LINE);
        return (int)(*room_p / LINE) - 1;
    }
    int bits = (int)pgasi_log2_up(bytes);
    *room_p = (size_t)1 << bits;
    return FINE + bits - 13;
}

size_t pgasi_mcts_block_bytes(size_t bytes)
{
    size_t room;
    class_of(bytes, &room);
    return room;
}

/* Mapped, not allocated: the C library keeps what it gets back of this size, in as many heaps as
 * there were threads. */
static slab_t *map_slab(size_t bytes)
{
    char *from =
        mmap(NULL, bytes + SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (from == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)from & (SLAB_BYTES - 1);
    if (before)
        munmap(from, before);
    munmap(from + before + bytes, SLAB_BYTES - before);
    madvise(from + before, bytes, MADV_HUGEPAGE); /* if it cannot be, small ones do */
    return (slab_t *)(void *)(from + before);
}

static bool add_slab(pool_t *pool, size_t least)
{
    size_t bytes = PGASI_ALIGN_UP(sizeof(slab_t) + least, SLAB_BYTES);
    slab_t **at = &pool->spare, *slab;
    while (*at && (*at)->bytes < bytes) /* few are larger than the least */
        at = &(*at)->next;
    slab = *at;
    if (slab) {
        *at = slab->next;
        bytes = slab->bytes;
    } else if ((slab = map_slab(bytes))) {
        slab->bytes = bytes;
    } else {
        return false;
    }
    slab->next = pool->slabs;
    pool->slabs = slab;
    pool->fresh = slab->data;
    pool->fresh_end = (char *)slab + bytes;
    return true;
}

static char *carve(pool_t *pool, size_t room)
{
    if ((size_t)(pool->fresh_end - pool->fresh) < room && !add_slab(pool, room))
        return NULL;
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
    if (PGAS_UNLIKELY(!has_room(pool, (int64_t)room)))
        return NULL;
    void *block = pool->free[class];
    if (!block)
        block = refill(pool, class);
    if (block) {
        pool->free[class] = *(void **)block;
        __builtin_prefetch(pool->free[class], 1); /* its turn comes next */
    } else {
        block = carve(pool, room);
    }
    if (!block)
        return NULL;
    pool->room -= (int64_t)room;
    __atomic_store_n(&pool->used_bytes, pool->used_bytes + (int64_t)room, __ATOMIC_RELAXED);
    return block;
}

static void give(pool_t *pool, void **list, void *block, size_t bytes)
{
    size_t room;
    int class = class_of(bytes, &room);
    *(void **)block = list[class];
    list[class] = block;
    pool->room += (int64_t)room;
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

void pgasi_mcts_rest_begin(rest_t *rest, int64_t room, int64_t share)
{
    rest->room = room;
    rest->share = share;
    rest->full = false;
}

void pgasi_mcts_pool_reset(pool_t *pool)
{
    slab_t *slab, *next;
    for (slab = pool->slabs; slab; slab = next) {
        next = slab->next;
        slab->next = pool->spare;
        pool->spare = slab;
    }
    pool->slabs = NULL;
    pool->fresh = pool->fresh_end = NULL;
    pool->used_bytes = pool->room = 0;
    memset(pool->free, 0, sizeof pool->free);
    memset(pool->rest->free, 0, sizeof pool->rest->free);
}

void pgasi_mcts_pool_fini(pool_t *pool)
{
    slab_t *slab, *next;
    pgasi_mcts_pool_reset(pool);
    for (slab = pool->spare; slab; slab = next) {
        next = slab->next;
        munmap(slab, slab->bytes);
    }
    pool->spare = NULL;
}
