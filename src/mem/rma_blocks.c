/* Blocks of registered memory for objects, kept for reuse by size and thread.
 *
 * They are shaped for messages: one thread creates an object, and often another thread destroys it.
 * Fresh memory costs page faults and cache misses, so a block that was freed last is reused first.
 *
 * Each power of two has four size classes. A thread keeps blocks of up to 1 MiB in lists of its own
 * and needs no lock for them. A full list moves its older half to the common list of its class. An
 * empty list takes blocks from there. All blocks come from one general pool of the heap. When the
 * common lists would keep too much, blocks return to that pool.
 *
 * When the heap is full all kept blocks return to it, also those of idle threads. So a thread marks
 * that it uses its lists. The thread that empties the lists executes a barrier on all processors,
 * and skips lists whose owner uses them. An owner that finds its lists borrowed uses the common
 * lists.
 *
 * malloc allocates a block's record, because the record may exist longer than the heap. Each heap
 * has a number, the epoch. Records of an older epoch have no memory any more. A thread frees such
 * records when it finds them. Records of class 0 never had a block.
 *
 * Source: thread caches and transfer batches of tcmalloc. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/param.h"
#include "base/spin.h"
#include "boot/wait.h"
#include "mem/regmem.h"
#include "mem/rma_object.h"
#include "mem/segment.h"
#include "mem/thread.h"

#define GRANULE       ((size_t)64)
#define LARGEST       ((size_t)1 << PGAS_OFFSET_BITS)
#define N_CLASSES     149               /* up to LARGEST */
#define OWN_CLASSES   53                /* up to 1 MiB: kept by threads */
#define OWN_MAX       32                /* blocks of a class in a thread, and */
#define OWN_CLASS_MAX ((size_t)1 << 20) /* at most so many bytes of them */
#define OWN_BYTES_MAX ((size_t)4 << 20) /* bytes of all classes in a thread, and */
#define OWN_HEAP_PART 64                /* at most 1 / 64 of the heap */
#define ALL_HEAP_PART 4                 /* common lists keep at most 1 / 4 of the heap */
#define N_SPINS       200

typedef struct {
    pgasi_rma_object_t *first;
    uint32_t n;
} list_t;

typedef struct cache {
    pgasi_rma_counts_t counts;   /* pgasi_rma_own points here */
    struct cache *next, *before; /* in the list of all caches */
    size_t bytes;                /* of blocks in the lists */
    uint32_t epoch;              /* of these blocks */
    uint32_t inside;             /* the owner uses the lists */
    uint32_t borrowed;           /* another thread empties the lists */
    list_t list[OWN_CLASSES];
    uint8_t most[OWN_CLASSES]; /* the longest that each list may be */
} cache_t;

typedef struct {
    _Alignas(64) int lock;
    list_t list;
} shelf_t;

static struct {
    pthread_mutex_t lock;
    pgasi_general_t *pool; /* NULL: not needed yet, or no heap */
    size_t max_bytes;      /* the capacity of the pool */
    uint64_t high_bytes;   /* the high mark of earlier pools */
    cache_t *caches;
    pgasi_rma_counts_t ended; /* of threads that ended */
    pgasi_rma_counts_t lost;  /* of threads without memory for a cache */
    bool has_key;
    pthread_key_t key;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint32_t epoch = 1;
static size_t own_max, shelves_max;
static size_t shelves_bytes; /* in common lists */
static shelf_t shelves[N_CLASSES];

__thread pgasi_rma_counts_t *pgasi_rma_own; /* the first part of a cache_t */

/* ---- classes ---- */

/* Blocks of classes 1 to 8 have 1 to 8 granules. Larger ones have 10, 12, 14, 16, 20.. granules. */
static inline uint32_t class_of(size_t bytes)
{
    uint64_t x = bytes ? (bytes - 1) / GRANULE : 0;
    if (x < 4)
        return (uint32_t)x + 1;
    uint32_t shift = 61 - (uint32_t)__builtin_clzll(x);
    return 4 * shift + (uint32_t)(x >> shift) + 1;
}

static inline size_t class_bytes(uint32_t class)
{
    if (class <= 4)
        return class * GRANULE;
    return ((size_t)((class - 1) & 3) + 5) * GRANULE << ((class - 1) / 4 - 1);
}

size_t pgasi_rma_room(size_t bytes)
{
    return bytes <= LARGEST ? class_bytes(class_of(bytes)) : bytes;
}

static inline uint32_t epoch_now(void)
{
    return __atomic_load_n(&epoch, __ATOMIC_RELAXED);
}

static inline size_t own_limit(void)
{
    return __atomic_load_n(&own_max, __ATOMIC_RELAXED);
}

/* ---- lists ---- */

static inline void push(list_t *list, pgasi_rma_object_t *object)
{
    object->next = list->first;
    list->first = object;
    list->n++;
}

static inline pgasi_rma_object_t *pop(list_t *list)
{
    pgasi_rma_object_t *object = list->first;
    list->first = object->next;
    list->n--;
    return object;
}

/* Removes all but the first n. */
static list_t cut(list_t *list, uint32_t n)
{
    pgasi_rma_object_t **at = &list->first;
    for (uint32_t i = 0; i < n; i++)
        at = &(*at)->next;
    list_t rest = { *at, list->n - n };
    *at = NULL;
    list->n = n;
    return rest;
}

static void free_records(list_t *list)
{
    while (list->n)
        free(pop(list));
}

/* ---- the pool ---- */

/* The caller holds the lock. */
static pgas_status_t open_pool(void)
{
    if (all.pool || !pgasi_running)
        return all.pool ? PGAS_OK : PGAS_ERR_NOT_INIT;
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    pgas_pool_info_t info;
    opts.owner = "objects";
    opts.zone = PGAS_ZONE_NONE;
    opts.max_bytes = pgasi_segments[0].bytes;
    opts.unit_bytes = PGASI_MIN(pgasi_param.pool_unit, opts.max_bytes);
    pgas_status_t status = pgasi_general_create(&opts, &all.pool);
    if (status != PGAS_OK)
        return status;
    pgasi_super_be_quiet(pgasi_general_super(all.pool));
    (void)pgasi_general_info(all.pool, &info);
    all.max_bytes = info.max_bytes;
    __atomic_store_n(&own_max, PGASI_MIN(OWN_BYTES_MAX, info.max_bytes / OWN_HEAP_PART),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&shelves_max, info.max_bytes / ALL_HEAP_PART, __ATOMIC_RELAXED);
    return PGAS_OK;
}

static pgas_status_t pool_take(uint32_t class, pgasi_rma_object_t *object)
{
    size_t bytes = class_bytes(class);
    pgas_block_t block;
    pthread_mutex_lock(&all.lock);
    uint32_t now = epoch;
    pgas_status_t status = open_pool();
    if (status == PGAS_OK)
        status = bytes <= all.max_bytes ? pgasi_general_acquire(all.pool, bytes, &block)
                                        : PGAS_ERR_LIMIT;
    pthread_mutex_unlock(&all.lock);
    if (status == PGAS_OK)
        *object = (pgasi_rma_object_t){
            .of = { .data = block.address, .ptr = block.ptr, .kind = PGASI_MEMORY_REGISTERED },
            .epoch = now,
            .size_class = class,
            .room = bytes
        };
    return status;
}

/* The caller holds the lock. */
static void pool_give_locked(list_t *list)
{
    while (list->n) {
        pgasi_rma_object_t *object = pop(list);
        if (object->size_class && all.pool && object->epoch == epoch)
            (void)pgasi_general_release(all.pool, &(pgas_block_t){ .ptr = object->of.ptr });
        free(object);
    }
}

static void pool_give(list_t *list)
{
    pthread_mutex_lock(&all.lock);
    pool_give_locked(list);
    pthread_mutex_unlock(&all.lock);
}

/* ---- common lists ---- */

/* Adds a list of one class and epoch. */
static void shelf_put(uint32_t class, list_t *list)
{
    shelf_t *shelf = &shelves[class];
    size_t bytes = list->n * class_bytes(class);
    pgasi_rma_object_t *last = list->first;
    if (!list->n)
        return;
    if (__atomic_load_n(&shelves_bytes, __ATOMIC_RELAXED) + bytes >
        __atomic_load_n(&shelves_max, __ATOMIC_RELAXED)) {
        pool_give(list);
        return;
    }
    while (last->next)
        last = last->next;
    pgasi_spin_lock(&shelf->lock, N_SPINS);
    /* pgasi_rma_blocks_stop changes the epoch before it takes this lock. */
    bool is_old = list->first->epoch != epoch_now();
    if (!is_old) {
        last->next = shelf->list.first;
        shelf->list.first = list->first;
        __atomic_store_n(&shelf->list.n, shelf->list.n + list->n, __ATOMIC_RELAXED);
        __atomic_fetch_add(&shelves_bytes, bytes, __ATOMIC_RELAXED);
    }
    pgasi_spin_unlock(&shelf->lock);
    if (is_old)
        free_records(list);
}

/* Takes at most n blocks. */
static list_t shelf_get(uint32_t class, uint32_t n)
{
    shelf_t *shelf = &shelves[class];
    list_t list = { NULL, 0 };
    if (!__atomic_load_n(&shelf->list.n, __ATOMIC_RELAXED))
        return list;
    pgasi_spin_lock(&shelf->lock, N_SPINS);
    list = shelf->list;
    list_t rest = cut(&list, PGASI_MIN(n, list.n));
    shelf->list.first = rest.first;
    __atomic_store_n(&shelf->list.n, rest.n, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&shelves_bytes, list.n * class_bytes(class), __ATOMIC_RELAXED);
    pgasi_spin_unlock(&shelf->lock);
    return list;
}

/* ---- lists of a thread ---- */

/* Frees the records of the lists, because the heap of their blocks has ended. */
__attribute__((noinline)) static void drop(cache_t *cache)
{
    for (uint32_t i = 0; i < OWN_CLASSES; i++)
        free_records(&cache->list[i]);
    cache->bytes = 0;
    cache->epoch = epoch_now();
}

/* Moves all but the first n blocks of a list to the common list. */
static void spill(cache_t *cache, uint32_t class, uint32_t n)
{
    list_t rest = cut(&cache->list[class], n);
    cache->bytes -= rest.n * class_bytes(class);
    shelf_put(class, &rest);
}

static void empty(cache_t *cache)
{
    for (uint32_t i = 0; i < OWN_CLASSES; i++)
        if (cache->list[i].n)
            spill(cache, i, 0);
}

/* Makes lists shorter, when one is too long or all together are too large. It empties the lists of
 * other classes first. */
__attribute__((noinline)) static void make_small(cache_t *cache, uint32_t class)
{
    if (cache->list[class].n > cache->most[class])
        spill(cache, class, cache->list[class].n / 2);
    for (uint32_t i = 0; i < OWN_CLASSES && cache->bytes > own_limit(); i++)
        if (i != class && cache->list[i].n)
            spill(cache, i, 0);
    if (cache->bytes > own_limit())
        spill(cache, class, cache->list[class].n / 2);
}

static void add_counts(pgasi_rma_counts_t *to, const pgasi_rma_counts_t *counts)
{
    const uint64_t *from = (const uint64_t *)counts;
    for (size_t i = 0; i < sizeof *counts / sizeof *from; i++)
        ((uint64_t *)to)[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

static void end_thread(void *arg)
{
    cache_t *cache = arg;
    pgasi_rma_own = NULL;
    pthread_mutex_lock(&all.lock);
    add_counts(&all.ended, &cache->counts);
    if (cache->before)
        cache->before->next = cache->next;
    else
        all.caches = cache->next;
    if (cache->next)
        cache->next->before = cache->before;
    pthread_mutex_unlock(&all.lock);
    if (cache->epoch != epoch_now())
        drop(cache);
    empty(cache); /* no other thread finds it any more */
    free(cache);
}

/* Makes the lists of the calling thread. @return NULL: no memory, or no key of threads */
static cache_t *make_own(void)
{
    cache_t *cache = aligned_alloc(64, PGASI_ALIGN_UP(sizeof *cache, 64));
    if (!cache)
        return NULL;
    memset(cache, 0, sizeof *cache);
    cache->epoch = epoch_now();
    cache->most[0] = OWN_MAX;
    for (uint32_t i = 1; i < OWN_CLASSES; i++)
        cache->most[i] = (uint8_t)PGASI_MIN(OWN_CLASS_MAX / class_bytes(i), OWN_MAX);
    pthread_mutex_lock(&all.lock);
    if (!all.has_key)
        all.has_key = pthread_key_create(&all.key, end_thread) == 0;
    bool ends = all.has_key && pthread_setspecific(all.key, cache) == 0;
    if (ends) {
        cache->next = all.caches;
        if (all.caches)
            all.caches->before = cache;
        all.caches = cache;
    }
    pthread_mutex_unlock(&all.lock);
    if (!ends) {
        free(cache);
        return NULL;
    }
    pgasi_rma_own = &cache->counts;
    return cache;
}

/* Begins to use the lists of the calling thread. @return NULL: another thread has borrowed them, or
 * there is no memory */
static inline cache_t *enter(void)
{
    cache_t *cache = PGAS_LIKELY(pgasi_rma_own != NULL) ? (cache_t *)pgasi_rma_own : make_own();
    if (PGAS_UNLIKELY(!cache))
        return NULL;
    __atomic_store_n(&cache->inside, 1, __ATOMIC_RELAXED);
    if (PGAS_UNLIKELY(pgasi_wait_light_is_fence))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (PGAS_UNLIKELY(__atomic_load_n(&cache->borrowed, __ATOMIC_ACQUIRE))) {
        __atomic_store_n(&cache->inside, 0, __ATOMIC_RELEASE);
        return NULL;
    }
    if (PGAS_UNLIKELY(cache->epoch != epoch_now()))
        drop(cache);
    return cache;
}

static inline void leave(cache_t *cache)
{
    __atomic_store_n(&cache->inside, 0, __ATOMIC_RELEASE);
}

pgasi_rma_counts_t *pgasi_rma_make_own(void)
{
    cache_t *cache = make_own();
    return cache ? &cache->counts : &all.lost;
}

/* ---- blocks ---- */

static pgasi_rma_object_t *make_object(uint32_t class)
{
    pgasi_rma_object_t *object = aligned_alloc(64, PGASI_ALIGN_UP(sizeof *object, 64));
    if (!object)
        return NULL;
    *object = (pgasi_rma_object_t){ .size_class = class };
    if (!class)
        return object;
    pgas_status_t status = pool_take(class, object);
    if (status == PGAS_ERR_AGAIN) {
        pgasi_rma_blocks_trim();
        status = pool_take(class, object);
    }
    if (status == PGAS_OK)
        return object;
    free(object);
    return NULL;
}

/* Fills the thread's empty list from the common list. @return an object, or NULL: there is none */
static pgasi_rma_object_t *take_common(cache_t *cache, uint32_t class)
{
    bool keeps = cache && class < OWN_CLASSES;
    list_t list = shelf_get(class, keeps ? (cache->most[class] + 1u) / 2 : 1);
    if (!list.n)
        return NULL;
    pgasi_rma_object_t *object = pop(&list);
    if (list.n) {
        cache->bytes += list.n * class_bytes(class);
        cache->list[class] = list;
    }
    return object;
}

static inline pgasi_rma_object_t *take(uint32_t class)
{
    cache_t *cache = enter();
    pgasi_rma_object_t *object;
    if (PGAS_LIKELY(cache && class < OWN_CLASSES && cache->list[class].n)) {
        object = pop(&cache->list[class]);
        cache->bytes -= object->room;
    } else {
        object = take_common(cache, class);
    }
    if (cache)
        leave(cache);
    return PGAS_LIKELY(object != NULL) ? object : make_object(class);
}

static inline void give(uint32_t class, pgasi_rma_object_t *object)
{
    cache_t *cache = enter();
    object->next = NULL;
    if (PGAS_UNLIKELY(!cache || class >= OWN_CLASSES)) {
        list_t list = { object, 1 };
        if (cache)
            leave(cache);
        shelf_put(class, &list);
        return;
    }
    push(&cache->list[class], object);
    cache->bytes += object->room;
    if (PGAS_UNLIKELY(cache->list[class].n > cache->most[class] || cache->bytes > own_limit()))
        make_small(cache, class);
    leave(cache);
}

pgasi_rma_object_t *pgasi_rma_block_take(size_t bytes)
{
    return PGAS_LIKELY(bytes <= LARGEST) ? take(class_of(bytes)) : NULL;
}

void pgasi_rma_block_give(pgasi_rma_object_t *object)
{
    if (PGAS_LIKELY(object->epoch == epoch_now()))
        give(object->size_class, object);
    else
        free(object);
}

pgasi_rma_object_t *pgasi_rma_record_take(void)
{
    return take(0);
}

void pgasi_rma_record_give(pgasi_rma_object_t *object)
{
    object->epoch = epoch_now();
    give(0, object);
}

/* ---- ends ---- */

void pgasi_rma_blocks_leave(void)
{
    cache_t *cache = pgasi_rma_own ? enter() : NULL;
    if (!cache)
        return;
    empty(cache);
    leave(cache);
}

/* Empties the lists of all threads that do not use them now. The caller holds the lock, so that no
 * thread ends. */
static void empty_all(void)
{
    for (cache_t *cache = all.caches; cache; cache = cache->next)
        __atomic_store_n(&cache->borrowed, 1, __ATOMIC_RELAXED);
    pgasi_wait_heavy_barrier();
    for (cache_t *cache = all.caches; cache; cache = cache->next) {
        if (__atomic_load_n(&cache->inside, __ATOMIC_ACQUIRE) == 0) {
            for (uint32_t i = 0; i < OWN_CLASSES; i++)
                pool_give_locked(&cache->list[i]);
            cache->bytes = 0;
        }
        __atomic_store_n(&cache->borrowed, 0, __ATOMIC_RELEASE);
    }
}

void pgasi_rma_blocks_trim(void)
{
    pthread_mutex_lock(&all.lock);
    if (all.pool) {
        empty_all();
        for (uint32_t i = 0; i < N_CLASSES; i++) {
            list_t list = shelf_get(i, UINT32_MAX);
            pool_give_locked(&list);
        }
        pgasi_general_trim(all.pool);
    }
    pthread_mutex_unlock(&all.lock);
}

void pgasi_rma_blocks_stop(void)
{
    pgas_pool_info_t info;
    pthread_mutex_lock(&all.lock);
    if (all.pool && pgasi_general_info(all.pool, &info) == PGAS_OK)
        all.high_bytes = PGASI_MAX(all.high_bytes, info.high_bytes);
    all.pool = NULL; /* pgasi_supers_stop frees it */
    __atomic_store_n(&epoch, epoch + 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&all.lock);
    for (uint32_t i = 0; i < N_CLASSES; i++) {
        list_t list = shelf_get(i, UINT32_MAX);
        free_records(&list);
    }
    cache_t *cache = pgasi_rma_own ? enter() : NULL; /* enter frees records of the old epoch */
    if (cache)
        leave(cache);
}

/* ---- the report ---- */

void pgasi_rma_sum(pgasi_rma_counts_t *sum_p, uint64_t *bytes_p, uint64_t *high_p)
{
    pgas_pool_info_t info = { 0 };
    pthread_mutex_lock(&all.lock);
    *sum_p = all.ended;
    add_counts(sum_p, &all.lost);
    for (const cache_t *cache = all.caches; cache; cache = cache->next)
        add_counts(sum_p, &cache->counts);
    if (all.pool)
        (void)pgasi_general_info(all.pool, &info);
    *bytes_p = info.bytes;
    *high_p = PGASI_MAX(info.high_bytes, all.high_bytes);
    pthread_mutex_unlock(&all.lock);
}
