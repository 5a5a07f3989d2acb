/* Put, get and atomics: the slow sides of include/pgas/rma.h and atomic.h. request.c and nb.c have
 * completion, atomic.c the operators.
 *
 * On the node typed scalars and pgas_gptr_local never reach this file. Off the node a put is one
 * transport call on the thread's own context, without a lock. The transport may allow loads and
 * stores of a peer's heap (fake nodes over shared memory). Such operations are complete at once,
 * and are not counted. */
#include "mem/rma.h"

#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"

/* ---- carrying out ---- */

/* Issues one operation. The context is open and locked. */
static pgas_status_t issue(pgasi_ctx_t *ctx, const pgasi_rma_t *rma, pgasi_tp_comp_t *comp)
{
    int rank = pgas_gptr_rank(rma->ptr);
    pgasi_tp_key_t *key;
    uint64_t address;
    pgasi_amo_t amo;
    pgas_status_t status =
        pgasi_key_get(ctx, rank, pgas_gptr_offset(rma->ptr), rma->bytes, &key, &address);
    if (status != PGAS_OK)
        return status;
    const pgasi_tp_ops_t *ops = ctx->tp->ops;
    switch (rma->kind) {
    case PGASI_RMA_PUT:
        return ops->put(ctx->tp, rank, key, address, rma->buffer, rma->bytes, comp);
    case PGASI_RMA_GET:
        return ops->get(ctx->tp, rank, key, address, rma->buffer, rma->bytes, comp);
    case PGASI_RMA_ATOMIC:
        if (!pgasi_atomic_amo(rma->op, rma->type, &amo))
            return PGAS_ERR_INTERNAL;
        return ops->amo(ctx->tp, rank, key, address, amo, rma->bytes, rma->operand, rma->compare,
                        rma->buffer || amo != PGASI_AMO_SWAP ? rma->buffer : &ctx->nowhere, comp);
    }
    return PGAS_ERR_INTERNAL;
}

/* How an operation completes: as a part of a blocking one, or by a counter. */
typedef struct {
    pgasi_req_t *req; /* NULL: not blocking */
    pgas_when_t when;
    pgas_sync_t *sync;
} how_t;

static inline pgas_status_t try_issue(pgasi_ctx_t *ctx, const pgasi_rma_t *rma, const how_t *how)
{
    pgasi_req_t *req = how->req;
    if (!req)
        return pgasi_nb_issue(ctx, rma, how->when, how->sync, issue);
    /* Counted before it is issued, because the callback may come at once. */
    req->pending++;
    pgasi_ctx_count(ctx, 1);
    pgas_status_t status = issue(ctx, rma, &req->comp);
    if (status != PGAS_INPROGRESS) {
        req->pending--;
        pgasi_ctx_count(ctx, -1);
    }
    return status;
}

static __attribute__((noinline)) pgas_status_t
issue_with_room(pgasi_ctx_t *ctx, const pgasi_rma_t *rma, const how_t *how)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    pgas_status_t status = PGAS_ERR_AGAIN;
    while (status == PGAS_ERR_AGAIN) {
        pgasi_ctx_wait_for_room(ctx, &w);
        status =
            pgasi_boot_is_dead(pgas_gptr_rank(rma->ptr)) ? PGAS_ERR_PEER : try_issue(ctx, rma, how);
    }
    pgasi_ctx_unlock(ctx);
    pgasi_wait_end(&w);
    pgasi_ctx_lock(ctx);
    return status;
}

/* Carries an operation out through the transport. It waits while the transport says AGAIN. */
static inline pgas_status_t start_far(const pgasi_rma_t *rma, const how_t *how)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    pgasi_ctx_t *ctx = pgasi_self.ctx;
    pgasi_ctx_lock(ctx);
    status = pgasi_ctx_open(ctx);
    if (PGAS_LIKELY(status == PGAS_OK))
        status = try_issue(ctx, rma, how);
    if (PGAS_UNLIKELY(status == PGAS_ERR_AGAIN))
        status = issue_with_room(ctx, rma, how);
    if (status >= PGAS_OK && pgasi_rma_writes(rma))
        pgasi_ctx_note_issued(ctx, pgas_gptr_rank(rma->ptr));
    pgasi_ctx_unlock(ctx);
    return status < PGAS_OK ? status : PGAS_OK;
}

/* Off the node, too, the transport may allow loads and stores of a heap. @return the address. NULL:
 * it does not, or the arguments are wrong; the slow path reports that */
static inline void *reach(pgas_gptr_t ptr, size_t bytes)
{
    const pgasi_ctx_t *ctx = pgasi_self.ctx;
    int rank = pgas_gptr_rank(ptr);
    if (PGAS_UNLIKELY(!pgasi_thread_attached() || !ctx || pgasi_self.in_handler ||
                      rank >= pgasi_boot.n_ranks))
        return NULL;
    const pgasi_ctx_peer_t *peer = &ctx->peer[rank];
    uint64_t heap_bytes = __atomic_load_n(&peer->heap_bytes, __ATOMIC_ACQUIRE);
    uint64_t inside = pgas_gptr_offset(ptr) - PGASI_HEAP_OFFSET;
    return heap_bytes && bytes <= heap_bytes && inside <= heap_bytes - bytes ? peer->heap + inside
                                                                             : NULL;
}

/* The address of bytes that loads and stores of this thread reach, wherever they are. @return NULL:
 * none, or the arguments are wrong */
static inline void *mapped(pgas_gptr_t ptr, size_t bytes)
{
    void *there = reach(ptr, bytes);
    return there ? there : pgas_gptr_local(ptr, bytes);
}

void pgasi_rma_apply(const pgasi_rma_t *rma, void *address)
{
    switch (rma->kind) {
    case PGASI_RMA_PUT:
        memmove(address, rma->buffer, rma->bytes);
        break;
    case PGASI_RMA_GET:
        memmove(rma->buffer, address, rma->bytes);
        break;
    case PGASI_RMA_ATOMIC:
        pgasi_amo_store(rma->buffer, rma->bytes,
                        pgasi_atomic_apply(address, rma->op, rma->type, rma->operand,
                                           rma->compare));
        break;
    }
}

/* The owner carries the operation out, and this thread waits for its answer. */
static __attribute__((noinline)) pgas_status_t by_owner(const pgasi_rma_t *rma, bool far)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status == PGAS_OK && far)
        status = pgasi_ctx_settle_fence(pgasi_self.ctx, pgas_gptr_rank(rma->ptr));
    return status == PGAS_OK ? pgasi_hooks.rma_by_owner(rma) : status;
}

static inline pgas_status_t start(const pgasi_rma_t *rma, const how_t *how)
{
    pgasi_where_t where;
    void *address;
    pgasi_amo_t amo;
    bool atomic = rma->kind == PGASI_RMA_ATOMIC;
    pgas_status_t status = pgasi_resolve(rma->ptr, rma->bytes, &where, &address);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (PGAS_UNLIKELY(atomic ? pgas_gptr_offset(rma->ptr) % rma->bytes != 0
                             : !rma->buffer && rma->bytes))
        return PGAS_ERR_INVALID;
    if (!rma->bytes)
        return PGAS_OK;
    if (where == PGASI_WHERE_FAR) {
        address = reach(rma->ptr, rma->bytes);
        if (!address && atomic && !pgasi_atomic_amo(rma->op, rma->type, &amo))
            return by_owner(rma, true);
        if (!address)
            return start_far(rma, how);
        where = PGASI_WHERE_HERE;
    }
    if (where != PGASI_WHERE_HERE)
        return by_owner(rma, false);
    pgasi_rma_apply(rma, address);
    return PGAS_OK;
}

pgas_status_t pgasi_rma_start(const pgasi_rma_t *rma, pgasi_req_t *req)
{
    const how_t how = { .req = req };
    return start(rma, &how);
}

static inline pgas_status_t blocking(const pgasi_rma_t *rma)
{
    pgasi_req_t req;
    pgasi_req_begin(&req);
    pgas_status_t status = pgasi_rma_start(rma, &req);
    return status == PGAS_OK && pgasi_req_pending(&req) ? pgasi_req_wait(&req) : status;
}

static pgas_status_t non_blocking(const pgasi_rma_t *rma, pgas_when_t when, pgas_sync_t *sync)
{
    const how_t how = { .when = when, .sync = sync };
    return start(rma, &how);
}

/* ---- scalars ---- */

#define STORE(bits, from) \
    __atomic_store_n((uint##bits##_t *)word, (uint##bits##_t)(from), __ATOMIC_RELAXED)
static inline void store_scalar(void *word, uint64_t bits, size_t bytes)
{
    switch (bytes) {
    case 1:
        STORE(8, bits);
        break;
    case 2:
        STORE(16, bits);
        break;
    case 4:
        STORE(32, bits);
        break;
    default:
        STORE(64, bits);
    }
}
#undef STORE

#define LOAD(bits) \
    *(uint##bits##_t *)value_p = __atomic_load_n((const uint##bits##_t *)word, __ATOMIC_RELAXED)
static inline void load_scalar(void *value_p, const void *word, size_t bytes)
{
    switch (bytes) {
    case 1:
        LOAD(8);
        break;
    case 2:
        LOAD(16);
        break;
    case 4:
        LOAD(32);
        break;
    default:
        LOAD(64);
    }
}
#undef LOAD

/* ---- public: transfers ---- */

static inline pgasi_rma_t put_of(pgas_gptr_t dst, const void *src, size_t bytes)
{
    return (pgasi_rma_t){
        .kind = PGASI_RMA_PUT, .ptr = dst, .buffer = (void *)(uintptr_t)src, .bytes = bytes
    };
}

static inline pgasi_rma_t get_of(void *dst, pgas_gptr_t src, size_t bytes)
{
    return (pgasi_rma_t){ .kind = PGASI_RMA_GET, .ptr = src, .buffer = dst, .bytes = bytes };
}

pgas_status_t pgas_put_far(pgas_gptr_t dst, const void *src, size_t bytes)
{
    void *here = reach(dst, bytes);
    if (PGAS_LIKELY(here && src)) {
        memmove(here, src, bytes);
        return PGAS_OK;
    }
    pgasi_rma_t rma = put_of(dst, src, bytes);
    return blocking(&rma);
}

pgas_status_t pgas_get_far(void *dst, pgas_gptr_t src, size_t bytes)
{
    const void *here = reach(src, bytes);
    if (PGAS_LIKELY(here && dst)) {
        memmove(dst, here, bytes);
        return PGAS_OK;
    }
    pgasi_rma_t rma = get_of(dst, src, bytes);
    return blocking(&rma);
}

pgas_status_t pgas_put_nb_far(pgas_gptr_t dst, const void *src, size_t bytes, pgas_when_t when,
                              pgas_sync_t *sync)
{
    pgasi_rma_t rma = put_of(dst, src, bytes);
    if (when != PGAS_LOCAL && when != PGAS_REMOTE)
        return PGAS_ERR_INVALID;
    return non_blocking(&rma, when, sync);
}

pgas_status_t pgas_get_nb_far(void *dst, pgas_gptr_t src, size_t bytes, pgas_sync_t *sync)
{
    pgasi_rma_t rma = get_of(dst, src, bytes);
    return non_blocking(&rma, PGAS_LOCAL, sync);
}

pgas_status_t pgas_copy(pgas_gptr_t dst, pgas_gptr_t src, size_t bytes)
{
    pgasi_where_t dst_where, src_where;
    void *to, *from;
    pgas_status_t status = pgasi_resolve(dst, bytes, &dst_where, &to);
    if (status == PGAS_OK)
        status = pgasi_resolve(src, bytes, &src_where, &from);
    if (status != PGAS_OK)
        return status;
    if (src_where == PGASI_WHERE_HERE)
        status = pgas_put(dst, from, bytes);
    else if (dst_where == PGASI_WHERE_HERE)
        return pgas_get(to, src, bytes);
    else
        for (size_t done = 0; done < bytes && status == PGAS_OK;) {
            char bounce[16384];
            size_t piece = PGASI_MIN(bytes - done, sizeof bounce);
            status = pgas_get(bounce, src + done, piece);
            if (status == PGAS_OK)
                status = pgas_put(dst + done, bounce, piece);
            done += piece;
        }
    return status == PGAS_OK && dst_where == PGASI_WHERE_FAR ? pgas_flush(pgas_gptr_rank(dst))
                                                             : status;
}

pgas_status_t pgas_put_scalar_far(pgas_gptr_t dst, uint64_t bits, size_t bytes)
{
    if (pgas_gptr_offset(dst) % bytes)
        return PGAS_ERR_INVALID;
    void *there = mapped(dst, bytes);
    if (there) {
        store_scalar(there, bits, bytes);
        return PGAS_OK;
    }
    uint64_t value;
    store_scalar(&value, bits, bytes);
    pgasi_rma_t rma = put_of(dst, &value, bytes);
    return blocking(&rma);
}

pgas_status_t pgas_get_scalar_far(pgas_gptr_t src, void *value_p, size_t bytes)
{
    if (pgas_gptr_offset(src) % bytes)
        return PGAS_ERR_INVALID;
    const void *there = mapped(src, bytes);
    if (there && value_p) {
        load_scalar(value_p, there, bytes);
        return PGAS_OK;
    }
    pgasi_rma_t rma = get_of(value_p, src, bytes);
    return blocking(&rma);
}

/* ---- public: atomics ---- */

static inline pgasi_rma_t atomic_of(pgas_gptr_t ptr, pgas_op_t op, pgas_type_t type, void *old_p)
{
    return (pgasi_rma_t){ .kind = PGASI_RMA_ATOMIC,
                          .ptr = ptr,
                          .buffer = old_p,
                          .bytes = pgasi_atomic_bytes(type),
                          .op = op,
                          .type = type };
}

/* Words that this process maps, also those of other nodes. */
static inline bool apply_here(const pgasi_rma_t *rma)
{
    void *word = mapped(rma->ptr, rma->bytes);
    if (PGAS_UNLIKELY(!word || pgas_gptr_offset(rma->ptr) % rma->bytes))
        return false;
    pgasi_rma_apply(rma, word);
    return true;
}

pgas_status_t pgas_fetch_op_far(pgas_gptr_t ptr, uint64_t value, void *old_p, pgas_op_t op,
                                pgas_type_t type)
{
    pgas_status_t status =
        op == PGASI_COMPARE_SWAP ? PGAS_ERR_INVALID : pgasi_atomic_check(op, type);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    pgasi_rma_t rma = atomic_of(ptr, op, type, old_p);
    rma.operand = value;
    return apply_here(&rma) ? PGAS_OK : blocking(&rma);
}

pgas_status_t pgas_compare_swap_far(pgas_gptr_t ptr, uint64_t expected, uint64_t desired,
                                    void *old_p, pgas_type_t type)
{
    if (!old_p)
        return PGAS_ERR_INVALID;
    pgasi_rma_t rma = atomic_of(ptr, PGASI_COMPARE_SWAP, type, old_p);
    rma.operand = desired;
    rma.compare = expected;
    return apply_here(&rma) ? PGAS_OK : blocking(&rma);
}

static uint64_t bits_at(const void *value, size_t bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, value, bytes);
    return bits;
}

pgas_status_t pgas_fetch_op_nb(pgas_gptr_t ptr, pgas_op_t op, const void *value, void *old_p,
                               pgas_sync_t *sync)
{
    pgas_type_t type = (pgas_type_t)(op & 0xF);
    op &= ~(pgas_op_t)0xF;
    pgas_status_t status = pgasi_atomic_check(op, type);
    if (op == PGASI_COMPARE_SWAP || !value)
        status = PGAS_ERR_INVALID;
    if (status != PGAS_OK)
        return status;
    pgasi_rma_t rma = atomic_of(ptr, op, type, old_p);
    rma.operand = bits_at(value, rma.bytes);
    return non_blocking(&rma, old_p ? PGAS_LOCAL : PGAS_REMOTE, sync);
}

pgas_status_t pgas_compare_swap_nb(pgas_gptr_t ptr, pgas_type_t type, const void *expected,
                                   const void *desired, void *old_p, pgas_sync_t *sync)
{
    pgas_status_t status = pgasi_atomic_check(PGASI_COMPARE_SWAP, type);
    if (status != PGAS_OK || !expected || !desired || !old_p)
        return status != PGAS_OK ? status : PGAS_ERR_INVALID;
    pgasi_rma_t rma = atomic_of(ptr, PGASI_COMPARE_SWAP, type, old_p);
    rma.operand = bits_at(desired, rma.bytes);
    rma.compare = bits_at(expected, rma.bytes);
    return non_blocking(&rma, PGAS_LOCAL, sync);
}
