/* Blocks of registered memory for objects, kept for reuse by size and thread.
 *
 * Shaped for messages: one thread creates an object, and often another one ends it. Fresh memory
 * costs page faults and cache misses, so the block that was given back last is given out first.
 *
 * Sizes have classes, four for each power of two. A thread keeps blocks of up to 1 MiB in lists of
 * its own, without a lock. A list that is full gives the older half to the common list of its
 * class, and an empty list takes some from there. Below these is one general pool of the heap. A
 * common list that would keep too much gives to that pool. The pool's memory is used for other
 * sizes when the heap is full.
 *
 * A block's record is allocated by malloc, because it may live longer than the heap. Each heap has
 * a number, the epoch. Records of an older epoch have no memory, and are freed when they are seen.
 *
 * Source: thread caches and transfer batches as in tcmalloc. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "base/spin.h"
#include "mem/regmem.h"
#include "mem/rma_object.h"
#include "mem/segment.h"
#include "mem/thread.h"

#define GRANULE       ((size_t)64)
#define LARGEST       ((size_t)1 << PGAS_OFFSET_BITS)
#define N_CLASSES     156               /* up to LARGEST */
#define OWN_CLASSES   52                /* up to 1 MiB: kept by threads */
#define RECORDS       OWN_CLASSES       /* a thread's list of records without memory */
#define OWN_MAX       32                /* blocks of a class in a thread */
#define OWN_CLASS_MAX ((size_t)1 << 20) /* their bytes, if that is less */
#define OWN_BYTES_MAX ((size_t)4 << 20) /* bytes of all classes in a thread, and */
#define OWN_HEAP_PART 64                /* this part of the heap */
#define ALL_HEAP_PART 4                 /* of the heap, in common lists */
#define N_SPINS       200

typedef struct {
    pgasi_rma_object_t *first;
    uint32_t n;
} list_t;

typedef struct cache {
    struct cache *next, *before; /* of all */
    size_t bytes;                /* of blocks in the lists */
    uint32_t epoch;              /* of these blocks */
    pgasi_rma_counts_t counts;
    list_t list[OWN_CLASSES + 1];
} cache_t;

typedef struct {
    _Alignas(64) int lock;
    list_t list;
} shelf_t;

static struct {
    pthread_mutex_t lock;
    pgasi_general_t *pool; /* NULL: not needed yet, or no heap */
    size_t max_bytes;      /* that the pool can hold */
    uint64_t high_bytes;
    cache_t *caches;
    pgasi_rma_counts_t ended; /* of threads that ended */
    pgasi_rma_counts_t lost;  /* of threads without memory for a cache */
    bool has_key;
    pthread_key_t key;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint32_t epoch = 1;
static size_t own_max = OWN_BYTES_MAX, shelves_max;
static size_t shelves_bytes;           /* in common lists */
static shelf_t shelves[N_CLASSES + 1]; /* the last one: records without memory */

static __thread cache_t *own __attribute__((tls_model("initial-exec")));

/* ---- classes ---- */

/* Granules 1 to 4 have a class each; then 5, 6, 7, 8, and 10, 12, 14, 16, and 20.. */
static inline uint32_t class_of(size_t bytes)
{
    uint64_t x = bytes ? (bytes - 1) / GRANULE : 0;
    if (x < 4)
        return (uint32_t)x;
    uint32_t shift = 61 - (uint32_t)__builtin_clzll(x);
    return 4 * shift + (uint32_t)(x >> shift);
}

static inline size_t class_bytes(uint32_t number)
{
    if (number < 4)
        return (number + 1) * GRANULE;
    return ((size_t)(number & 3) + 5) * GRANULE << (number / 4 - 1);
}

size_t pgasi_rma_room(size_t bytes)
{
    return bytes <= LARGEST ? class_bytes(class_of(bytes)) : bytes;
}

size_t pgasi_rma_room_of(const pgasi_rma_object_t *object)
{
    return class_bytes(object->size_class);
}

static inline uint32_t most_of(uint32_t number)
{
    return number == RECORDS ? OWN_MAX
                             : (uint32_t)PGASI_MIN(OWN_CLASS_MAX / class_bytes(number), OWN_MAX);
}

static inline uint32_t epoch_now(void)
{
    return __atomic_load_n(&epoch, __ATOMIC_RELAXED);
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

/* Cuts what is behind the first n. */
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

/* The lock is held. */
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
    own_max = PGASI_MIN(OWN_BYTES_MAX, info.max_bytes / OWN_HEAP_PART);
    shelves_max = info.max_bytes / ALL_HEAP_PART;
    return PGAS_OK;
}

static pgas_status_t pool_take(size_t bytes, pgas_block_t *block_p)
{
    pthread_mutex_lock(&all.lock);
    pgas_status_t status = open_pool();
    if (status == PGAS_OK)
        status = bytes <= all.max_bytes ? pgasi_general_acquire(all.pool, bytes, block_p)
                                        : PGAS_ERR_LIMIT;
    pthread_mutex_unlock(&all.lock);
    return status;
}

static void pool_give(list_t *list)
{
    pthread_mutex_lock(&all.lock);
    while (list->n) {
        pgasi_rma_object_t *object = pop(list);
        if (all.pool && object->epoch == epoch)
            (void)pgasi_general_release(all.pool, &(pgas_block_t){ .ptr = object->of.ptr });
        free(object);
    }
    pthread_mutex_unlock(&all.lock);
}

/* ---- common lists ---- */

static void shelf_put(shelf_t *shelf, list_t *list, size_t bytes)
{
    pgasi_rma_object_t *last = list->first;
    size_t kept = __atomic_load_n(&shelves_bytes, __ATOMIC_RELAXED) + list->n * bytes;
    if (!list->n)
        return;
    if (kept > shelves_max) {
        pool_give(list);
        return;
    }
    while (last->next)
        last = last->next;
    pgasi_spin_lock(&shelf->lock, N_SPINS);
    bool is_old = list->first->epoch != epoch_now(); /* pgasi_rma_blocks_stop locks afterwards */
    if (!is_old) {
        last->next = shelf->list.first;
        shelf->list.first = list->first;
        __atomic_store_n(&shelf->list.n, shelf->list.n + list->n, __ATOMIC_RELAXED);
        __atomic_fetch_add(&shelves_bytes, list->n * bytes, __ATOMIC_RELAXED);
    }
    pgasi_spin_unlock(&shelf->lock);
    if (is_old)
        free_records(list);
}

static list_t shelf_get(shelf_t *shelf, uint32_t n, size_t bytes)
{
    list_t list = { NULL, 0 };
    if (!__atomic_load_n(&shelf->list.n, __ATOMIC_RELAXED))
        return list;
    pgasi_spin_lock(&shelf->lock, N_SPINS);
    list = shelf->list;
    list_t rest = cut(&list, PGASI_MIN(n, list.n));
    shelf->list.first = rest.first;
    __atomic_store_n(&shelf->list.n, rest.n, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&shelves_bytes, list.n * bytes, __ATOMIC_RELAXED);
    pgasi_spin_unlock(&shelf->lock);
    return list;
}

/* ---- lists of a thread ---- */

static void drop(cache_t *cache)
{
    for (uint32_t i = 0; i < OWN_CLASSES; i++)
        free_records(&cache->list[i]);
    cache->bytes = 0;
    cache->epoch = epoch_now();
}

static void empty(cache_t *cache)
{
    if (cache->epoch != epoch_now())
        drop(cache);
    for (uint32_t i = 0; i < OWN_CLASSES; i++) {
        list_t list = cut(&cache->list[i], 0);
        cache->bytes -= list.n * class_bytes(i);
        shelf_put(&shelves[i], &list, class_bytes(i));
    }
    free_records(&cache->list[RECORDS]);
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
    own = NULL;
    empty(cache);
    pthread_mutex_lock(&all.lock);
    add_counts(&all.ended, &cache->counts);
    if (cache->before)
        cache->before->next = cache->next;
    else
        all.caches = cache->next;
    if (cache->next)
        cache->next->before = cache->before;
    pthread_mutex_unlock(&all.lock);
    free(cache);
}

/* Makes the lists of the calling thread. @return NULL: no memory */
static cache_t *make_own(void)
{
    cache_t *cache = aligned_alloc(64, PGASI_ALIGN_UP(sizeof *cache, 64));
    if (!cache)
        return NULL;
    memset(cache, 0, sizeof *cache);
    cache->epoch = epoch_now();
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
    return own = cache;
}

static inline cache_t *own_cache(void)
{
    cache_t *cache = PGAS_LIKELY(own != NULL) ? own : make_own();
    if (PGAS_UNLIKELY(cache && cache->epoch != epoch_now()))
        drop(cache);
    return cache;
}

pgasi_rma_counts_t *pgasi_rma_counts(void)
{
    cache_t *cache = PGAS_LIKELY(own != NULL) ? own : make_own();
    return cache ? &cache->counts : &all.lost;
}

/* ---- blocks ---- */

static pgasi_rma_object_t *make_block(uint32_t number)
{
    pgas_block_t block;
    pgasi_rma_object_t *object = aligned_alloc(64, PGASI_ALIGN_UP(sizeof *object, 64));
    if (!object)
        return NULL;
    uint32_t now = epoch_now();
    pgas_status_t status = pool_take(class_bytes(number), &block);
    if (status == PGAS_ERR_AGAIN) {
        pgasi_rma_blocks_trim();
        status = pool_take(class_bytes(number), &block);
    }
    if (status != PGAS_OK) {
        free(object);
        return NULL;
    }
    *object = (pgasi_rma_object_t){
        .of = { .data = block.address, .ptr = block.ptr, .kind = PGASI_MEMORY_REGISTERED },
        .epoch = now,
        .size_class = number
    };
    return object;
}

static pgasi_rma_object_t *take_far(cache_t *cache, uint32_t number)
{
    bool keeps = cache && number < OWN_CLASSES;
    list_t list =
        shelf_get(&shelves[number], keeps ? (most_of(number) + 1) / 2 : 1, class_bytes(number));
    if (!list.n)
        return make_block(number);
    pgasi_rma_object_t *object = pop(&list);
    if (list.n) {
        cache->bytes += list.n * class_bytes(number);
        cache->list[number] = list;
    }
    return object;
}

pgasi_rma_object_t *pgasi_rma_block_take(size_t bytes)
{
    if (PGAS_UNLIKELY(bytes > LARGEST))
        return NULL;
    uint32_t number = class_of(bytes);
    cache_t *cache = own_cache();
    if (PGAS_LIKELY(cache && number < OWN_CLASSES && cache->list[number].n)) {
        cache->bytes -= class_bytes(number);
        return pop(&cache->list[number]);
    }
    return take_far(cache, number);
}

/* The thread keeps too much: the older half of a list goes to the common one. */
static void spill(cache_t *cache, uint32_t number)
{
    list_t *list = &cache->list[number];
    list_t rest = cut(list, list->n / 2);
    cache->bytes -= rest.n * class_bytes(number);
    shelf_put(&shelves[number], &rest, class_bytes(number));
}

void pgasi_rma_block_give(pgasi_rma_object_t *object)
{
    uint32_t number = object->size_class;
    cache_t *cache = own_cache();
    object->next = NULL;
    if (PGAS_UNLIKELY(object->epoch != epoch_now())) {
        free(object);
        return;
    }
    if (PGAS_UNLIKELY(!cache || number >= OWN_CLASSES)) {
        list_t list = { object, 1 };
        shelf_put(&shelves[number], &list, class_bytes(number));
        return;
    }
    push(&cache->list[number], object);
    cache->bytes += class_bytes(number);
    if (PGAS_UNLIKELY(cache->list[number].n > most_of(number) || cache->bytes > own_max))
        spill(cache, number);
}

/* ---- records ---- */

pgasi_rma_object_t *pgasi_rma_record_take(void)
{
    cache_t *cache = own_cache();
    if (PGAS_LIKELY(cache && cache->list[RECORDS].n))
        return pop(&cache->list[RECORDS]);
    return aligned_alloc(64, PGASI_ALIGN_UP(sizeof(pgasi_rma_object_t), 64));
}

void pgasi_rma_record_give(pgasi_rma_object_t *object)
{
    cache_t *cache = own_cache();
    if (PGAS_LIKELY(cache && cache->list[RECORDS].n < most_of(RECORDS)))
        push(&cache->list[RECORDS], object);
    else
        free(object);
}

/* ---- ends ---- */

void pgasi_rma_blocks_leave(void)
{
    if (own)
        empty(own);
}

void pgasi_rma_blocks_trim(void)
{
    pgasi_rma_blocks_leave();
    for (uint32_t i = 0; i < N_CLASSES; i++) {
        list_t list = shelf_get(&shelves[i], UINT32_MAX, class_bytes(i));
        pool_give(&list);
    }
    pthread_mutex_lock(&all.lock);
    if (all.pool)
        pgasi_general_trim(all.pool);
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
        list_t list = shelf_get(&shelves[i], UINT32_MAX, class_bytes(i));
        free_records(&list);
    }
    if (own)
        drop(own);
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
