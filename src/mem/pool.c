/* Pools: the public face of the allocators of registered memory.
 *
 * Circular and linear pools belong to one thread. A block is retired with the number of operations
 * that the thread's context had issued, over all peers or to the pool's peer. All operations up to
 * a number are complete when a flush that covers the number is complete. They are also complete
 * when at some moment no operation of the context is in flight. So a single block costs nothing. A
 * pool starts a flush for each quarter of its limit and before it grows, and never waits for one.
 *
 * A general pool serves all threads. A block whose thread has operations in flight waits in a list
 * until these are complete; otherwise it is free at once. Memory of another rank has its records
 * here, so only growth needs that rank. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/info_fill.h"
#include "base/log.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "mem/block.h"
#include "mem/regmem.h"
#include "mem/rma.h"
#include "mem/rma_object.h"

#define NO_SLOT (-1)

/* A released block of a general pool that operations may still read. */
typedef struct retired {
    struct retired *next;
    pgas_gptr_t ptr;
    const pgasi_ctx_t *ctx;
    uint64_t number;
} retired_t;

struct pgas_pool {
    pgas_pool_t *next; /* of all pools */
    pgas_pool_policy_t policy;
    int rank, zone, peer;
    size_t alignment;
    union {
        pgasi_general_t *general;
        pgasi_circular_t *circular;
        pgasi_linear_t *linear;
    } of;
    size_t quarter, since; /* bytes released since a flush was started */
    bool has_logged;

    int slot;         /* circular, linear: the thread that it belongs to; NO_SLOT: none yet */
    pgasi_ctx_t *ctx; /* of that thread */

    pthread_mutex_t lock; /* general: of the list */
    retired_t *retired, *spare;
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static pgas_pool_t *all;

/* ---- the allocator behind a pool ---- */

static pgasi_super_t *super_of(const pgas_pool_t *pool)
{
    switch (pool->policy) {
    case PGAS_POOL_CIRCULAR:
        return pgasi_circular_super(pool->of.circular);
    case PGAS_POOL_LINEAR:
        return pgasi_linear_super(pool->of.linear);
    default:
        return pgasi_general_super(pool->of.general);
    }
}

static pgas_status_t create_allocator(pgas_pool_t *pool, const pgas_pool_opts_t *o)
{
    switch (pool->policy) {
    case PGAS_POOL_CIRCULAR:
        return pgasi_circular_create(o, &pool->of.circular);
    case PGAS_POOL_LINEAR:
        return pgasi_linear_create(o, &pool->of.linear);
    default:
        return pgasi_general_create(o, &pool->of.general);
    }
}

static void destroy_allocator(pgas_pool_t *pool)
{
    if (pool->policy == PGAS_POOL_CIRCULAR)
        pgasi_circular_destroy(pool->of.circular);
    else if (pool->policy == PGAS_POOL_LINEAR)
        pgasi_linear_destroy(pool->of.linear);
    else
        pgasi_general_destroy(pool->of.general);
}

static void trim_allocator(pgas_pool_t *pool)
{
    if (pool->policy == PGAS_POOL_CIRCULAR)
        pgasi_circular_trim(pool->of.circular);
    else if (pool->policy == PGAS_POOL_LINEAR)
        pgasi_linear_trim(pool->of.linear);
    else
        pgasi_general_trim(pool->of.general);
}

static pgas_status_t info_of_allocator(pgas_pool_t *pool, pgas_pool_info_t *info_p)
{
    if (pool->policy == PGAS_POOL_CIRCULAR)
        return pgasi_circular_info(pool->of.circular, info_p);
    if (pool->policy == PGAS_POOL_LINEAR)
        return pgasi_linear_info(pool->of.linear, info_p);
    return pgasi_general_info(pool->of.general, info_p);
}

/* Circular and linear. */
static inline pgas_status_t try_block(const pgas_pool_t *pool, size_t bytes, bool grow,
                                      pgas_block_t *block_p)
{
    return PGAS_LIKELY(pool->policy == PGAS_POOL_CIRCULAR)
               ? pgasi_circular_try(pool->of.circular, bytes, grow, block_p)
               : pgasi_linear_try(pool->of.linear, bytes, grow, block_p);
}

static inline void complete(const pgas_pool_t *pool, uint64_t number)
{
    if (PGAS_LIKELY(pool->policy == PGAS_POOL_CIRCULAR))
        pgasi_circular_complete(pool->of.circular, number);
    else
        pgasi_linear_complete(pool->of.linear, number);
}

static bool some_wait(const pgas_pool_t *pool)
{
    return pool->policy == PGAS_POOL_CIRCULAR ? pgasi_circular_waits(pool->of.circular)
                                              : pgasi_linear_waits(pool->of.linear);
}

/* ---- creating ---- */

static pgas_status_t read_opts(const pgas_pool_opts_t *opts, pgas_pool_opts_t *o)
{
    *o = (pgas_pool_opts_t)PGAS_POOL_OPTS_INIT;
    if (!PGASI_OPTS_SANE(opts, sizeof *opts))
        return PGAS_ERR_INVALID;
    if (opts)
        *o = *opts;
    if ((unsigned)o->policy > PGAS_POOL_LINEAR)
        return PGAS_ERR_INVALID;
    if (o->rank < -1 || o->rank >= pgasi_boot.n_ranks || o->peer < -1 ||
        o->peer >= pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    if (o->rank < 0)
        o->rank = pgasi_boot.rank;
    return o->rank == pgasi_boot.rank || o->policy == PGAS_POOL_GENERAL ? PGAS_OK
                                                                        : PGAS_ERR_UNSUPPORTED;
}

static void enter(pgas_pool_t *pool)
{
    pthread_mutex_lock(&all_lock);
    pool->next = all;
    all = pool;
    pthread_mutex_unlock(&all_lock);
}

static void leave(pgas_pool_t *pool)
{
    pgas_pool_t **at = &all;
    pthread_mutex_lock(&all_lock);
    while (*at != pool)
        at = &(*at)->next;
    *at = pool->next;
    pthread_mutex_unlock(&all_lock);
}

pgas_status_t pgas_pool_create(const pgas_pool_opts_t *opts, pgas_pool_t **pool_p)
{
    pgas_pool_opts_t o;
    pgas_pool_info_t info;
    pgas_status_t status = pgasi_thread_check();
    if (status == PGAS_OK)
        status = pool_p ? read_opts(opts, &o) : PGAS_ERR_INVALID;
    if (status != PGAS_OK)
        return status;
    pgas_pool_t *pool = calloc(1, sizeof *pool);
    if (!pool)
        return PGAS_ERR_NO_MEMORY;
    pool->policy = o.policy;
    pool->rank = o.rank;
    pool->zone = o.zone;
    pool->peer = o.peer;
    pool->slot = NO_SLOT;
    pool->alignment = pgasi_regmem_alignment(&o);
    status = create_allocator(pool, &o);
    if (status != PGAS_OK) {
        free(pool);
        return status;
    }
    (void)info_of_allocator(pool, &info);
    pool->quarter = info.max_bytes / 4;
    pthread_mutex_init(&pool->lock, NULL);
    enter(pool);
    *pool_p = pool;
    return PGAS_OK;
}

/* ---- the thread of a circular or linear pool, and its completion numbers ---- */

static uint64_t issued(const pgas_pool_t *pool)
{
    return pool->peer >= 0 ? pool->ctx->peer[pool->peer].issued : pool->ctx->issued;
}

/* Whether no operation that this thread has issued is in flight. The owner of an own context knows
 * this without a lock. */
static inline bool is_idle(const pgasi_ctx_t *ctx)
{
    return !ctx->shared && !__atomic_load_n(&ctx->in_flight, __ATOMIC_ACQUIRE);
}

static uint64_t issued_now(const pgas_pool_t *pool)
{
    if (PGAS_LIKELY(!pool->ctx->shared))
        return issued(pool);
    pgasi_ctx_lock(pool->ctx);
    uint64_t number = issued(pool);
    pgasi_ctx_unlock(pool->ctx);
    return number;
}

/* Context locked. */
static uint64_t completed(const pgas_pool_t *pool)
{
    const pgasi_ctx_t *ctx = pool->ctx;
    if (!__atomic_load_n(&ctx->in_flight, __ATOMIC_ACQUIRE) || ctx->flushed == ctx->issued)
        return issued(pool);
    return pool->peer >= 0 ? ctx->peer[pool->peer].flushed : ctx->flushed;
}

static void reclaim(const pgas_pool_t *pool)
{
    uint64_t number;
    if (is_idle(pool->ctx)) {
        number = issued(pool);
    } else {
        pgasi_ctx_lock(pool->ctx);
        number = completed(pool);
        pgasi_ctx_unlock(pool->ctx);
    }
    complete(pool, number);
}

/* Polls operations in flight, and starts a flush that no thread waits for. @return PGAS_OK, or the
 * status of a flush that failed */
static pgas_status_t look(pgas_pool_t *pool)
{
    pgas_status_t status = PGAS_OK;
    pool->since = 0;
    if (!is_idle(pool->ctx)) {
        pgasi_ctx_lock(pool->ctx);
        if (pool->ctx->tp && completed(pool) < issued(pool))
            status = pgasi_ctx_flush_look(pool->ctx, pool->peer, issued(pool));
        pgasi_ctx_unlock(pool->ctx);
    }
    reclaim(pool);
    return status < 0 ? status : PGAS_OK;
}

/* Checks whether the calling thread may use the pool now. A pool without a thread becomes its own
 * on request. */
static inline pgas_status_t check_thread(pgas_pool_t *pool, bool adopt)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (PGAS_LIKELY(status == PGAS_OK &&
                    __atomic_load_n(&pool->slot, __ATOMIC_RELAXED) == pgasi_self.slot))
        return status;
    if (status != PGAS_OK || __atomic_load_n(&pool->slot, __ATOMIC_ACQUIRE) != NO_SLOT)
        return status != PGAS_OK ? status : PGAS_ERR_CONTEXT;
    if (adopt) {
        pool->ctx = pgasi_self.ctx;
        __atomic_store_n(&pool->slot, pgasi_self.slot, __ATOMIC_RELAXED);
    }
    return PGAS_OK;
}

/* failed_p: the status of a flush that failed. */
static pgas_status_t take(pgas_pool_t *pool, size_t bytes, pgas_block_t *block_p,
                          pgas_status_t *failed_p)
{
    pgas_status_t status = try_block(pool, bytes, false, block_p);
    if (PGAS_LIKELY(status != PGAS_ERR_AGAIN))
        return status;
    *failed_p = look(pool);
    return try_block(pool, bytes, true, block_p);
}

static pgas_status_t held_by_caller(pgas_pool_t *pool, size_t bytes)
{
    if (!pool->has_logged)
        PGASI_ERROR("mem",
                    "no room for %zu bytes: thread %d has not released the oldest blocks of its "
                    "pool and would wait for itself; release earlier, or raise PGAS_POOL_MAX",
                    bytes, pgasi_self.slot);
    pool->has_logged = true;
    return PGAS_ERR_DEADLOCK;
}

static pgas_status_t wait_and_take(pgas_pool_t *pool, size_t bytes, int64_t timeout_us,
                                   pgas_block_t *block_p)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    pgas_status_t status, failed = PGAS_OK;
    uint64_t limit = pgasi_limit_ns(timeout_us);
    while ((status = take(pool, bytes, block_p, &failed)) == PGAS_ERR_AGAIN) {
        if (!some_wait(pool)) {
            status = held_by_caller(pool, bytes);
            break;
        }
        if (pgasi_wait_is_over(limit)) {
            status = PGAS_ERR_TIMEOUT;
            break;
        }
        if (failed != PGAS_OK && pool->ctx->shared)
            status = failed;
        else if (failed != PGAS_OK)
            status = pgasi_ctx_wait_idle(pool->ctx);
        if (status != PGAS_ERR_AGAIN && status != PGAS_OK)
            break;
        failed = PGAS_OK;
        pgasi_wait_step(&w);
    }
    pgasi_wait_end(&w);
    return status;
}

static pgas_status_t acquire_own(pgas_pool_t *pool, size_t bytes, int64_t timeout_us,
                                 pgas_block_t *block_p)
{
    pgas_status_t failed, status = check_thread(pool, true);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    status = try_block(pool, bytes, false, block_p);
    if (PGAS_LIKELY(status != PGAS_ERR_AGAIN))
        return status;
    return timeout_us ? wait_and_take(pool, bytes, timeout_us, block_p)
                      : take(pool, bytes, block_p, &failed);
}

static pgas_status_t release_own(pgas_pool_t *pool, const pgas_block_t *block)
{
    pgas_status_t status = check_thread(pool, false);
    if (PGAS_UNLIKELY(status != PGAS_OK || pool->slot == NO_SLOT))
        return status != PGAS_OK ? status : PGAS_ERR_INVALID;
    uint64_t number = issued_now(pool);
    status = PGAS_LIKELY(pool->policy == PGAS_POOL_CIRCULAR)
                 ? pgasi_circular_retire(pool->of.circular, block, number)
                 : pgasi_linear_retire(pool->of.linear, block, number);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (is_idle(pool->ctx))
        complete(pool, number);
    else if ((pool->since += block->bytes) >= pool->quarter)
        (void)look(pool); /* a wait reports the failure */
    return PGAS_OK;
}

/* ---- general pools ---- */

/* Whether the operations of a context up to a number are complete. in_flight includes those that
 * were issued before the release, because the pool's lock orders them before this load. */
static bool is_complete(const retired_t *r, const pgasi_ctx_t *own, uint64_t flushed)
{
    return !__atomic_load_n(&r->ctx->in_flight, __ATOMIC_ACQUIRE) ||
           (r->ctx == own && r->number <= flushed);
}

/* Frees retired blocks whose operations are complete. */
static void collect(pgas_pool_t *pool)
{
    pgasi_ctx_t *own = pgasi_self.ctx;
    uint64_t flushed = 0;
    if (!__atomic_load_n(&pool->retired, __ATOMIC_RELAXED))
        return;
    if (own && !pgasi_self.in_handler) {
        pgasi_ctx_lock(own);
        flushed = own->flushed;
        pgasi_ctx_unlock(own);
    }
    pthread_mutex_lock(&pool->lock);
    for (retired_t **at = &pool->retired, *r; (r = *at);) {
        if (!is_complete(r, own, flushed)) {
            at = &r->next;
            continue;
        }
        (void)pgasi_general_release(pool->of.general, &(pgas_block_t){ .ptr = r->ptr });
        __atomic_store_n(at, r->next, __ATOMIC_RELAXED);
        r->next = pool->spare;
        pool->spare = r;
    }
    pthread_mutex_unlock(&pool->lock);
}

/* Starts a flush of the caller's operations, which no thread waits for. */
static void start_flush(pgas_pool_t *pool)
{
    pgasi_ctx_t *ctx = pgasi_self.ctx;
    if (!ctx || pgasi_self.in_handler)
        return;
    pgasi_ctx_lock(ctx);
    if (ctx->tp && ctx->in_flight && ctx->flushed < ctx->issued)
        (void)pgasi_ctx_flush_look(ctx, -1, ctx->issued);
    pgasi_ctx_unlock(ctx);
    collect(pool);
}

/* The pool's lock is held. */
static bool is_retired(const pgas_pool_t *pool, pgas_gptr_t ptr)
{
    for (const retired_t *r = pool->retired; r; r = r->next)
        if (r->ptr == ptr)
            return true;
    return false;
}

static pgas_status_t retire(pgas_pool_t *pool, pgas_gptr_t ptr, pgasi_ctx_t *ctx)
{
    uint64_t number = 0;
    if (!pgasi_self.in_handler) {
        pgasi_ctx_lock(ctx);
        number = ctx->issued;
        pgasi_ctx_unlock(ctx);
    } else {
        number = UINT64_MAX; /* only an idle context ends this */
    }
    pthread_mutex_lock(&pool->lock);
    pgas_status_t status = PGAS_OK;
    retired_t *r = pool->spare;
    if (!pgasi_general_has(pool->of.general, ptr) || is_retired(pool, ptr))
        status = PGAS_ERR_INVALID;
    else if (r)
        pool->spare = r->next;
    else if (!(r = malloc(sizeof *r)))
        status = PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK) {
        *r = (retired_t){ pool->retired, ptr, ctx, number };
        __atomic_store_n(&pool->retired, r, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

static pgas_status_t release_general(pgas_pool_t *pool, const pgas_block_t *block)
{
    pgasi_ctx_t *ctx = pgasi_self.ctx;
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    collect(pool);
    if (ctx && __atomic_load_n(&ctx->in_flight, __ATOMIC_ACQUIRE)) {
        status = retire(pool, block->ptr, ctx);
        if (status == PGAS_OK &&
            __atomic_add_fetch(&pool->since, block->bytes, __ATOMIC_RELAXED) >= pool->quarter) {
            __atomic_store_n(&pool->since, 0, __ATOMIC_RELAXED);
            start_flush(pool);
        }
        return status;
    }
    pthread_mutex_lock(&pool->lock);
    status = is_retired(pool, block->ptr) ? PGAS_ERR_INVALID
                                          : pgasi_general_release(pool->of.general, block);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* Frees memory of another rank that the allocator has given up. */
static void free_orphans(const pgas_pool_t *pool)
{
    pgas_gptr_t origin;
    while ((origin = pgasi_super_orphan(super_of(pool))))
        (void)pgasi_hooks.free_on(origin); /* if that rank is dead, so is the memory */
}

/* Takes memory of another rank for a block. No lock is held, so handlers may use the pool. */
static pgas_status_t grow_far(pgas_pool_t *pool, size_t bytes)
{
    size_t least = 0, want = pgasi_super_growth(super_of(pool), bytes, &least);
    size_t slack = pool->alignment > PGASI_REG_ALIGN ? pool->alignment : 0;
    pgas_gptr_t origin = PGAS_NULL;
    pgas_status_t status = PGAS_ERR_AGAIN; /* it is at its limit */
    if (want)
        status = pgasi_hooks.alloc_on(pool->rank, pool->zone, want + slack, &origin);
    if (status == PGAS_ERR_NO_MEMORY && want > least)
        status = pgasi_hooks.alloc_on(pool->rank, pool->zone, (want = least) + slack, &origin);
    if (status != PGAS_OK)
        return status;
    uint64_t mask = pool->alignment - 1, offset = pgas_gptr_offset(origin),
             shift = ((offset + mask) & ~mask) - offset;
    status = pgasi_super_adopt(super_of(pool), origin, origin + shift, want);
    if (status != PGAS_OK)
        (void)pgasi_hooks.free_on(origin);
    return status == PGAS_ERR_LIMIT ? PGAS_ERR_AGAIN : status; /* another thread has grown it */
}

static pgas_status_t try_general(pgas_pool_t *pool, size_t bytes, pgas_block_t *block_p)
{
    pgas_status_t status = pgasi_general_acquire(pool->of.general, bytes, block_p);
    if (PGAS_LIKELY(status != PGAS_ERR_AGAIN))
        return status;
    collect(pool);
    status = pgasi_general_acquire(pool->of.general, bytes, block_p);
    if (status == PGAS_ERR_AGAIN && pool->rank != pgasi_boot.rank) {
        free_orphans(pool);
        status = grow_far(pool, bytes);
        if (status == PGAS_OK)
            status = pgasi_general_acquire(pool->of.general, bytes, block_p);
    }
    return status;
}

static pgas_status_t acquire_general(pgas_pool_t *pool, size_t bytes, int64_t timeout_us,
                                     pgas_block_t *block_p)
{
    pgas_status_t status = timeout_us ? pgasi_thread_check_wait() : pgasi_thread_check();
    if (status == PGAS_OK)
        status = try_general(pool, bytes, block_p);
    if (PGAS_LIKELY(status != PGAS_ERR_AGAIN || !timeout_us))
        return status;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    uint64_t limit = pgasi_limit_ns(timeout_us);
    do {
        if (pgasi_wait_is_over(limit)) {
            status = PGAS_ERR_TIMEOUT;
            break;
        }
        start_flush(pool);
        pgasi_wait_step(&w);
        status = try_general(pool, bytes, block_p);
    } while (status == PGAS_ERR_AGAIN);
    pgasi_wait_end(&w);
    return status;
}

/* ---- public ---- */

pgas_status_t pgas_pool_acquire(pgas_pool_t *pool, size_t bytes, int64_t timeout_us,
                                pgas_block_t *block_p)
{
    if (PGAS_UNLIKELY(!pool || !block_p))
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_super_check(super_of(pool), bytes);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    return pool->policy == PGAS_POOL_GENERAL ? acquire_general(pool, bytes, timeout_us, block_p)
                                             : acquire_own(pool, bytes, timeout_us, block_p);
}

pgas_status_t pgas_pool_release(pgas_pool_t *pool, const pgas_block_t *block)
{
    if (PGAS_UNLIKELY(!pool || !block))
        return PGAS_ERR_INVALID;
    return pool->policy == PGAS_POOL_GENERAL ? release_general(pool, block)
                                             : release_own(pool, block);
}

static pgas_status_t check(pgas_pool_t *pool)
{
    if (!pool)
        return PGAS_ERR_INVALID;
    return pool->policy == PGAS_POOL_GENERAL ? pgasi_thread_check() : check_thread(pool, false);
}

/* Frees blocks whose operations are complete. */
static void settle(pgas_pool_t *pool)
{
    if (pool->policy == PGAS_POOL_GENERAL)
        collect(pool);
    else if (pool->slot != NO_SLOT)
        reclaim(pool);
}

pgas_status_t pgas_pool_trim(pgas_pool_t *pool)
{
    pgas_status_t status = check(pool);
    if (status != PGAS_OK)
        return status;
    settle(pool);
    trim_allocator(pool);
    free_orphans(pool);
    return PGAS_OK;
}

pgas_status_t pgas_pool_info(pgas_pool_t *pool, pgas_pool_info_t *info_p)
{
    pgas_pool_info_t info;
    pgas_status_t status = check(pool);
    if (status != PGAS_OK)
        return status;
    settle(pool);
    status = info_of_allocator(pool, &info);
    return status == PGAS_OK ? pgasi_info_fill(info_p, &info, sizeof info) : status;
}

static void free_pool(pgas_pool_t *pool)
{
    retired_t *lists[2] = { pool->retired, pool->spare };
    for (int i = 0; i < 2; i++) {
        for (retired_t *r = lists[i], *next; r; r = next) {
            next = r->next;
            free(r);
        }
    }
    destroy_allocator(pool);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* Frees all blocks of another rank's memory, so that the memory is given up. */
static void give_up_far(pgas_pool_t *pool)
{
    pgasi_super_abandon(super_of(pool));
    free_orphans(pool);
}

pgas_status_t pgas_pool_destroy(pgas_pool_t *pool)
{
    pgas_status_t status = pool ? pgasi_thread_check() : PGAS_OK;
    if (status != PGAS_OK || !pool)
        return status;
    leave(pool);
    if (pool->rank != pgasi_boot.rank)
        give_up_far(pool);
    free_pool(pool);
    return PGAS_OK;
}

/* ---- the end ---- */

static void lose_thread(pgas_pool_t *pool)
{
    pgas_pool_info_t info = { 0 };
    if (pool->policy == PGAS_POOL_CIRCULAR)
        pgasi_circular_settle(pool->of.circular);
    else
        pgasi_linear_settle(pool->of.linear);
    (void)info_of_allocator(pool, &info);
    if (info.n_blocks)
        PGASI_WARN("mem",
                   "thread %d detaches without having released %zu blocks of registered memory",
                   pgasi_self.slot, info.n_blocks);
    pool->ctx = NULL;
    pool->since = 0;
    __atomic_store_n(&pool->slot, NO_SLOT, __ATOMIC_RELEASE);
}

void pgasi_pools_leave(void)
{
    pthread_mutex_lock(&all_lock);
    for (pgas_pool_t *pool = all; pool; pool = pool->next)
        if (pool->policy != PGAS_POOL_GENERAL &&
            __atomic_load_n(&pool->slot, __ATOMIC_RELAXED) == pgasi_self.slot)
            lose_thread(pool);
    pthread_mutex_unlock(&all_lock);
}

void pgasi_regmem_stop(void)
{
    while (all) {
        pgas_pool_t *pool = all;
        all = pool->next;
        free_pool(pool);
    }
    pgasi_blocks_stop();
    pgasi_rma_blocks_stop();
    pgasi_supers_stop();
}
