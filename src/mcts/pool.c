/* Memory of nodes. Blocks have some hundred bytes. A search takes them one by one while it runs,
 * and gives them back together in an idle phase.
 *
 * Blocks up to 4 KiB are rounded up to cache lines, larger ones to powers of two. Each size is a
 * class; blocks are reused within their class. A block may be given back by another worker than the
 * one that took it. Therefore the idle phase puts blocks into lists that all workers share, and a
 * worker takes up to 32 of them at a time. */
#include "mcts/pool.h"

#include <string.h>
#include <sys/mman.h>

#include "base/checks.h"

/* A slab is a huge page. Nodes are scattered over memory; with small pages, address translation
 * costs as much as the accesses themselves. */
#define SLAB_BYTES ((size_t)2 << 20)
#define N_FINE     64 /* classes of whole cache lines */
#define AT_A_TIME  32

typedef struct slab {
    struct slab *next;
    size_t bytes;
    char data[] __attribute__((aligned(PGASI_CACHELINE)));
} slab_t;

/* Takes a whole share of the limit, so that most blocks need no atomic operation. */
static bool has_room(pool_t *pool, int64_t bytes)
{
    int64_t left = __atomic_load_n(&pool->shared->room, __ATOMIC_RELAXED),
            more = bytes - pool->room, take = 0;
    while (more > 0) {
        if (left < more) {
            __atomic_store_n(&pool->shared->full, true, __ATOMIC_RELAXED);
            return false;
        }
        take = PGASI_MIN(left, PGASI_MAX(more, pool->shared->share));
        if (__atomic_compare_exchange_n(&pool->shared->room, &left, left - take, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            break;
    }
    pool->room += take;
    return true;
}

static int class_of(size_t bytes, size_t *room_p)
{
    if (bytes <= N_FINE * PGASI_CACHELINE) {
        *room_p = PGASI_ALIGN_UP(PGASI_MAX(bytes, (size_t)1), PGASI_CACHELINE);
        return (int)(*room_p / PGASI_CACHELINE) - 1;
    }
    int bits = (int)pgasi_log2_up(bytes);
    *room_p = (size_t)1 << bits;
    return N_FINE + bits - 13;
}

size_t pgasi_mcts_pool_block_bytes(size_t bytes)
{
    size_t room;
    class_of(bytes, &room);
    return room;
}

/* Maps memory instead of allocating it: the C library would keep freed blocks of this size, in one
 * heap for each thread that there was. */
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
    madvise(from + before, bytes, MADV_HUGEPAGE); /* a failure leaves small pages */
    return (slab_t *)(void *)(from + before);
}

static bool add_slab(pool_t *pool, size_t least)
{
    size_t bytes = PGASI_ALIGN_UP(sizeof(slab_t) + least, SLAB_BYTES);
    slab_t **at = &pool->spare, *slab;
    while (*at && (*at)->bytes < bytes) /* few slabs are larger than the least */
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
    shared_pool_t *shared = pool->shared;
    if (!__atomic_load_n(&shared->free[class], __ATOMIC_RELAXED))
        return NULL;
    pthread_mutex_lock(&shared->lock);
    for (int i = 0; i < AT_A_TIME && shared->free[class]; i++) {
        void *block = shared->free[class];
        __atomic_store_n(&shared->free[class], *(void **)block, __ATOMIC_RELAXED);
        *(void **)block = pool->free[class];
        pool->free[class] = block;
    }
    pthread_mutex_unlock(&shared->lock);
    return pool->free[class];
}

void *pgasi_mcts_pool_take(pool_t *pool, size_t bytes)
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
        __builtin_prefetch(pool->free[class], 1); /* the next call takes it */
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

void pgasi_mcts_pool_give(pool_t *pool, void *block, size_t bytes)
{
    give(pool, pool->free, block, bytes);
}

void pgasi_mcts_pool_give_shared(pool_t *pool, void *block, size_t bytes)
{
    give(pool, pool->shared->free, block, bytes);
}

void pgasi_mcts_pool_set_room(shared_pool_t *shared, int64_t room, int64_t share)
{
    shared->room = room;
    shared->share = share;
    shared->full = false;
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
    memset(pool->shared->free, 0, sizeof pool->shared->free);
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
