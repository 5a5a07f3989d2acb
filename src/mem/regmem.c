/* Rings of threads: circular allocators whose blocks become free by the numbers of the thread's
 * context; and the memory account.
 *
 * A block is retired with the number of operations that its thread had issued, over all peers or to
 * the ring's peer. All operations up to a number are complete when a flush that covers the number
 * is complete. They are also complete when at some moment no operation of the context is in flight.
 * So a single block costs nothing. A flush is started, and not waited for, once for each quarter of
 * the limit and before a ring grows. */
#include "mem/regmem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "mem/block.h"
#include "mem/rma.h"

typedef struct {
    pgas_circular_t *circular;
    pgasi_ctx_t *ctx;
    int peer;              /* PGAS_REG_ANY: all peers */
    size_t quarter, since; /* bytes released since a flush was started */
} ring_t;

typedef struct pgasi_rings {
    struct pgasi_rings *next; /* of all threads */
    ring_t *any;
    ring_t **of; /* [n_ranks], lazily touched; NULL: no ring of a peer yet */
    bool has_logged;
} rings_t;

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static rings_t *all;

/* ---- making and freeing rings ---- */

static rings_t *my_rings(void)
{
    if (PGAS_LIKELY(pgasi_self.rings))
        return pgasi_self.rings;
    rings_t *rings = calloc(1, sizeof *rings);
    if (!rings)
        return NULL;
    pthread_mutex_lock(&all_lock);
    rings->next = all;
    all = rings;
    pthread_mutex_unlock(&all_lock);
    pgasi_self.rings = rings;
    return rings;
}

static ring_t **place_of(rings_t *rings, int peer)
{
    if (peer == PGAS_REG_ANY)
        return &rings->any;
    if (!rings->of)
        rings->of = pgasi_lazy_alloc((size_t)pgasi_boot.n_ranks * sizeof *rings->of);
    return rings->of ? &rings->of[peer] : NULL;
}

static pgas_status_t make_ring(int peer, ring_t **ring_p)
{
    pgas_regmem_opts_t opts = PGAS_REGMEM_OPTS_INIT;
    pgas_regmem_info_t info;
    ring_t *ring = calloc(1, sizeof *ring);
    opts.owner = "threads";
    pgas_status_t status = ring ? pgas_circular_create(&opts, &ring->circular) : PGAS_ERR_NO_MEMORY;
    if (status != PGAS_OK) {
        free(ring);
        return status;
    }
    pgas_circular_info(ring->circular, &info);
    ring->ctx = pgasi_self.ctx;
    ring->peer = peer;
    ring->quarter = info.max_bytes / 4;
    *ring_p = ring;
    return PGAS_OK;
}

static void free_ring(ring_t *ring)
{
    if (ring)
        pgas_circular_destroy(ring->circular);
    free(ring);
}

static void free_rings(rings_t *rings)
{
    free_ring(rings->any);
    for (int r = 0; rings->of && r < pgasi_boot.n_ranks; r++)
        free_ring(rings->of[r]);
    pgasi_lazy_free(rings->of, (size_t)pgasi_boot.n_ranks * sizeof *rings->of);
    free(rings);
}

/* Finds the caller's ring for a peer, and makes it on request. */
static pgas_status_t find_ring(int peer, bool make, ring_t **ring_p)
{
    if (peer < PGAS_REG_ANY || peer >= pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    rings_t *rings = make ? my_rings() : pgasi_self.rings;
    if (!rings || (!make && peer != PGAS_REG_ANY && !rings->of))
        return make ? PGAS_ERR_NO_MEMORY : PGAS_ERR_NOT_FOUND;
    ring_t **at = place_of(rings, peer);
    if (!at)
        return PGAS_ERR_NO_MEMORY;
    if (!*at) {
        pgas_status_t status = make ? make_ring(peer, at) : PGAS_ERR_NOT_FOUND;
        if (status != PGAS_OK)
            return status;
    }
    *ring_p = *at;
    return PGAS_OK;
}

/* ---- what is complete ---- */

static uint64_t issued(const ring_t *ring)
{
    return ring->peer >= 0 ? ring->ctx->peer[ring->peer].issued : ring->ctx->issued;
}

/* Whether no operation that this thread has issued is in flight. The owner of an own context knows
 * this without a lock. */
static inline bool is_idle(const ring_t *ring)
{
    return !ring->ctx->shared && !__atomic_load_n(&ring->ctx->in_flight, __ATOMIC_ACQUIRE);
}

static uint64_t issued_now(const ring_t *ring)
{
    if (PGAS_LIKELY(!ring->ctx->shared))
        return issued(ring);
    pgasi_ctx_lock(ring->ctx);
    uint64_t number = issued(ring);
    pgasi_ctx_unlock(ring->ctx);
    return number;
}

/* Context locked. */
static uint64_t completed(const ring_t *ring)
{
    const pgasi_ctx_t *ctx = ring->ctx;
    if (!__atomic_load_n(&ctx->in_flight, __ATOMIC_ACQUIRE) || ctx->flushed == ctx->issued)
        return issued(ring);
    return ring->peer >= 0 ? ctx->peer[ring->peer].flushed : ctx->flushed;
}

static void reclaim(ring_t *ring)
{
    uint64_t number;
    if (is_idle(ring)) {
        number = issued(ring);
    } else {
        pgasi_ctx_lock(ring->ctx);
        number = completed(ring);
        pgasi_ctx_unlock(ring->ctx);
    }
    pgas_circular_complete(ring->circular, number);
}

/* Polls operations in flight, and starts a flush that no thread waits for. @return PGAS_OK, or the
 * status of a flush that failed */
static pgas_status_t look(ring_t *ring)
{
    pgas_status_t status = PGAS_OK;
    ring->since = 0;
    if (is_idle(ring)) {
        pgas_circular_complete(ring->circular, issued(ring));
        return status;
    }
    pgasi_ctx_lock(ring->ctx);
    if (ring->ctx->tp && completed(ring) < issued(ring))
        status = pgasi_ctx_flush_look(ring->ctx, ring->peer, issued(ring));
    pgasi_ctx_unlock(ring->ctx);
    reclaim(ring);
    return status < 0 ? status : PGAS_OK;
}

/* ---- acquire and release ---- */

/* failed_p: the status of a flush that failed. */
static pgas_status_t take(ring_t *ring, size_t bytes, pgas_block_t *block_p,
                          pgas_status_t *failed_p)
{
    pgas_status_t status = pgasi_circular_try(ring->circular, bytes, false, block_p);
    if (PGAS_UNLIKELY(status == PGAS_ERR_AGAIN)) {
        *failed_p = look(ring);
        status = pgasi_circular_try(ring->circular, bytes, true, block_p);
    }
    if (PGAS_LIKELY(status == PGAS_OK))
        block_p->peer = ring->peer;
    return status;
}

static pgas_status_t held_by_caller(size_t bytes)
{
    rings_t *rings = pgasi_self.rings;
    if (!rings->has_logged)
        PGASI_ERROR("mem",
                    "no room for %zu bytes: thread %d holds the oldest block of its ring and "
                    "would wait for itself; release earlier, or raise PGAS_REG_MAX",
                    bytes, pgasi_self.slot);
    rings->has_logged = true;
    return PGAS_ERR_DEADLOCK;
}

static pgas_status_t wait_and_take(ring_t *ring, size_t bytes, pgas_block_t *block_p)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    pgas_status_t status, failed = PGAS_OK;
    uint64_t number;
    while ((status = take(ring, bytes, block_p, &failed)) == PGAS_ERR_AGAIN) {
        if (!pgasi_circular_oldest(ring->circular, &number)) {
            status = held_by_caller(bytes);
            break;
        }
        if (failed != PGAS_OK && ring->ctx->shared)
            status = failed;
        else if (failed != PGAS_OK)
            status = pgasi_ctx_wait_idle(ring->ctx);
        if (status != PGAS_ERR_AGAIN && status != PGAS_OK)
            break;
        failed = PGAS_OK;
        pgasi_wait_step(&w);
    }
    pgasi_wait_end(&w);
    return status;
}

static pgas_status_t begin(int peer, size_t bytes, pgas_block_t *block_p, ring_t **ring_p)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status == PGAS_OK && !block_p)
        status = PGAS_ERR_INVALID;
    if (status == PGAS_OK)
        status = find_ring(peer, true, ring_p);
    return status == PGAS_OK ? pgasi_circular_check((*ring_p)->circular, bytes) : status;
}

pgas_status_t pgas_reg_acquire(int peer, size_t bytes, pgas_block_t *block_p)
{
    ring_t *ring;
    pgas_status_t status = begin(peer, bytes, block_p, &ring);
    return status == PGAS_OK ? wait_and_take(ring, bytes, block_p) : status;
}

pgas_status_t pgas_reg_acquire_try(int peer, size_t bytes, pgas_block_t *block_p)
{
    ring_t *ring;
    pgas_status_t failed, status = begin(peer, bytes, block_p, &ring);
    return status == PGAS_OK ? take(ring, bytes, block_p, &failed) : status;
}

pgas_status_t pgas_reg_release(const pgas_block_t *block)
{
    ring_t *ring;
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    if (!block || find_ring(block->peer, false, &ring) != PGAS_OK)
        return PGAS_ERR_INVALID;
    uint64_t number = issued_now(ring);
    status = pgas_circular_retire(ring->circular, block, number);
    if (status != PGAS_OK)
        return status;
    if (is_idle(ring))
        pgas_circular_complete(ring->circular, number);
    else if ((ring->since += block->bytes) >= ring->quarter)
        (void)look(ring); /* the thread that waits gets the failure */
    return PGAS_OK;
}

pgas_status_t pgas_reg_info(int peer, pgas_regmem_info_t *info_p)
{
    ring_t *ring;
    pgas_status_t status = pgasi_thread_check();
    if (status == PGAS_OK)
        status = info_p ? find_ring(peer, false, &ring) : PGAS_ERR_INVALID;
    if (status != PGAS_OK)
        return status;
    reclaim(ring);
    return pgas_circular_info(ring->circular, info_p);
}

/* ---- the end ---- */

static size_t blocks_out(ring_t *ring)
{
    pgas_regmem_info_t info = { 0 };
    if (!ring)
        return 0;
    pgas_circular_complete(ring->circular, UINT64_MAX - 1);
    pgas_circular_info(ring->circular, &info);
    return info.n_blocks;
}

void pgasi_rings_leave(void)
{
    rings_t *rings = pgasi_self.rings, **at = &all;
    if (!rings)
        return;
    size_t n = blocks_out(rings->any);
    for (int r = 0; rings->of && r < pgasi_boot.n_ranks; r++)
        n += blocks_out(rings->of[r]);
    if (n)
        PGASI_WARN("mem",
                   "thread %d detaches without having released %zu blocks of registered memory",
                   pgasi_self.slot, n);
    pthread_mutex_lock(&all_lock);
    while (*at != rings)
        at = &(*at)->next;
    *at = rings->next;
    pthread_mutex_unlock(&all_lock);
    free_rings(rings);
    pgasi_self.rings = NULL;
}

void pgasi_regmem_stop(void)
{
    while (all) {
        rings_t *rings = all;
        all = rings->next;
        free_rings(rings);
    }
    pgasi_blocks_stop();
    pgasi_supers_stop();
}

/* ---- the memory account ---- */

static pgas_reg_owner_t *line(pgas_reg_owner_t *o, const char *name, uint64_t bytes, uint64_t high,
                              uint64_t max)
{
    memset(o, 0, sizeof *o);
    strncpy(o->name, name, sizeof o->name - 1);
    o->bytes = bytes;
    o->high_bytes = high;
    o->max_bytes = max;
    return o + 1;
}

pgas_status_t pgas_reg_account(pgas_reg_owner_t *owners, int n, int *n_p)
{
    if (!pgasi_running)
        return PGAS_ERR_NOT_INIT;
    if (!owners || !n_p)
        return PGAS_ERR_INVALID;
    pgas_reg_owner_t list[PGAS_REG_OWNERS_MAX], *at = list;
    pgasi_heap_use_t use;
    uint64_t attached, attached_high, heap = pgasi_segments[0].bytes;
    pgasi_heap_use(&use);
    pgasi_segments_attached(&attached, &attached_high);
    at = line(at, "pgas_alloc", use.symmetric, use.symmetric_high, heap);
    at = line(at, "pgas_alloc_on", use.local, use.local_high, heap);
    at += pgasi_regmem_owners(at, PGASI_REG_OWNERS_MAX);
    at = line(at, "heap, not in use", heap - use.symmetric - use.local - use.chunks, heap, heap);
    if (pgasi_heap_tail_bytes)
        at = line(at, "calls between nodes", pgasi_heap_tail_bytes, pgasi_heap_tail_bytes,
                  pgasi_heap_tail_bytes);
    at = line(at, "attached memory", attached, attached_high, 0);
    if (pgasi_tp) {
        pgasi_tp_attr_t attr;
        memset(&attr, 0, sizeof attr);
        pgasi_tp->ops->query(pgasi_tp, &attr);
        at = line(at, "transport (its estimate)", attr.receive_bytes, attr.receive_bytes,
                  attr.receive_bytes);
    }
    *n_p = (int)(at - list);
    memcpy(owners, list, (size_t)PGASI_MAX(PGASI_MIN(n, *n_p), 0) * sizeof *owners);
    return PGAS_OK;
}
