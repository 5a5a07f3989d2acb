/* Put, get and atomics: the slow sides of include/pgas/rma.h and atomic.h. request.c has
 * completion.
 *
 * On the node typed scalars and pgas_gptr_local never reach this file. Off the node a put is one
 * transport call on the thread's own context, without a lock. The transport may allow loads and
 * stores of a peer's heap (fake nodes over shared memory): such operations are complete at once,
 * and are not counted. */
#include "mem/rma.h"

#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"

/* ---- carrying out ---- */

/* Issues one part. The context is open and locked. */
static pgas_status_t issue(pgasi_ctx_t *ctx, const pgasi_rma_t *rma, pgasi_req_t *req)
{
    int rank = pgas_gptr_rank(rma->ptr);
    pgasi_tp_key_t *key;
    uint64_t address;
    pgas_status_t status =
        pgasi_key_get(ctx, rank, pgas_gptr_offset(rma->ptr), rma->bytes, &key, &address);
    if (status != PGAS_OK)
        return status;
    const pgasi_tp_ops_t *ops = ctx->tp->ops;
    switch (rma->kind) {
    case PGASI_RMA_PUT:
        return ops->put(ctx->tp, rank, key, address, rma->buffer, rma->bytes, &req->comp);
    case PGASI_RMA_GET:
        return ops->get(ctx->tp, rank, key, address, rma->buffer, rma->bytes, &req->comp);
    case PGASI_RMA_AMO:
        return ops->amo(ctx->tp, rank, key, address, rma->op, rma->bytes, rma->operand,
                        rma->compare, rma->buffer, &req->comp);
    }
    return PGAS_ERR_INTERNAL;
}

static __attribute__((noinline)) pgas_status_t
issue_with_room(pgasi_ctx_t *ctx, const pgasi_rma_t *rma, pgasi_req_t *req)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    pgas_status_t status = PGAS_ERR_AGAIN;
    while (status == PGAS_ERR_AGAIN) {
        pgasi_ctx_wait_for_room(ctx, &w);
        status =
            pgasi_boot_is_dead(pgas_gptr_rank(rma->ptr)) ? PGAS_ERR_PEER : issue(ctx, rma, req);
    }
    pgasi_ctx_unlock(ctx);
    pgasi_wait_end(&w);
    pgasi_ctx_lock(ctx);
    return status;
}

/* Carries an operation out through the transport, as one part of req. It waits while the transport
 * says AGAIN. */
static pgas_status_t start_far(const pgasi_rma_t *rma, pgasi_req_t *req)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    pgasi_ctx_t *ctx = pgasi_self.ctx;
    bool writes = rma->kind == PGASI_RMA_PUT || (rma->kind == PGASI_RMA_AMO && !rma->buffer);
    pgasi_ctx_lock(ctx);
    status = pgasi_ctx_open(ctx);
    /* Counted before it is issued, because the callback may come at once. */
    req->pending++;
    pgasi_ctx_count(ctx, 1);
    if (PGAS_LIKELY(status == PGAS_OK))
        status = issue(ctx, rma, req);
    if (PGAS_UNLIKELY(status == PGAS_ERR_AGAIN))
        status = issue_with_room(ctx, rma, req);
    if (status != PGAS_INPROGRESS) {
        req->pending--;
        pgasi_ctx_count(ctx, -1);
    }
    if (status >= PGAS_OK && writes) {
        int rank = pgas_gptr_rank(rma->ptr);
        req->peer = rank;
        req->number = ++ctx->peer[rank].issued;
        __atomic_store_n(&ctx->issued, ctx->issued + 1, __ATOMIC_RELAXED);
    }
    pgasi_ctx_unlock(ctx);
    return status < PGAS_OK ? status : PGAS_OK;
}

/* Off the node, too, the transport may allow loads and stores of a heap. @return the address; NULL:
 * it does not, or the arguments are wrong, which the slow path reports */
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

void pgasi_rma_apply(const pgasi_rma_t *rma, void *address)
{
    switch (rma->kind) {
    case PGASI_RMA_PUT:
        memmove(address, rma->buffer, rma->bytes);
        break;
    case PGASI_RMA_GET:
        memmove(rma->buffer, address, rma->bytes);
        break;
    case PGASI_RMA_AMO:
        pgasi_amo_store(rma->buffer, rma->bytes,
                        pgasi_amo_apply(address, rma->op, rma->bytes, rma->operand, rma->compare));
        break;
    }
}

pgas_status_t pgasi_rma_start(const pgasi_rma_t *rma, pgasi_req_t *req)
{
    pgasi_where_t where;
    void *address;
    pgas_status_t status = pgasi_resolve(rma->ptr, rma->bytes, &where, &address);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (PGAS_UNLIKELY(rma->kind == PGASI_RMA_AMO ? pgas_gptr_offset(rma->ptr) % rma->bytes != 0
                                                 : !rma->buffer && rma->bytes))
        return PGAS_ERR_INVALID;
    if (!rma->bytes)
        return PGAS_OK;
    if (where == PGASI_WHERE_FAR) {
        address = reach(rma->ptr, rma->bytes);
        if (!address)
            return start_far(rma, req);
        where = PGASI_WHERE_HERE;
    }
    if (where == PGASI_WHERE_HERE) {
        pgasi_rma_apply(rma, address);
        return PGAS_OK;
    }
    status = pgasi_thread_check_wait();
    return status == PGAS_OK ? pgasi_hooks.rma_by_owner(rma) : status;
}

static inline pgas_status_t blocking(const pgasi_rma_t *rma)
{
    pgasi_req_t req;
    pgasi_req_begin(&req);
    pgas_status_t status = pgasi_rma_start(rma, &req);
    return status == PGAS_OK && pgasi_req_pending(&req) ? pgasi_req_wait(&req) : status;
}

static pgas_status_t start_public(const pgasi_rma_t *rma, pgas_req_t *req_p)
{
    if (!req_p)
        return PGAS_ERR_INVALID;
    pgasi_req_begin(pgasi_req(req_p));
    return pgasi_rma_start(rma, pgasi_req(req_p));
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

pgas_status_t pgas_put_nb_far(pgas_gptr_t dst, const void *src, size_t bytes, pgas_req_t *req_p)
{
    pgasi_rma_t rma = put_of(dst, src, bytes);
    return start_public(&rma, req_p);
}

pgas_status_t pgas_get_nb_far(void *dst, pgas_gptr_t src, size_t bytes, pgas_req_t *req_p)
{
    pgasi_rma_t rma = get_of(dst, src, bytes);
    return start_public(&rma, req_p);
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
    void *there = reach(dst, bytes);
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
    const void *there = reach(src, bytes);
    if (there && value_p) {
        load_scalar(value_p, there, bytes);
        return PGAS_OK;
    }
    pgasi_rma_t rma = get_of(value_p, src, bytes);
    return blocking(&rma);
}

/* ---- public: atomics ---- */

#define AMO_TYPED(BITS)                                                                          \
    static pgas_status_t amo_u##BITS(pgas_gptr_t word, pgas_amo_t op, uint##BITS##_t operand,    \
                                     uint##BITS##_t compare, uint##BITS##_t *old_p,              \
                                     pgasi_req_t *req)                                           \
    {                                                                                            \
        if (op > PGAS_AMO_CSWAP || (!old_p && op >= PGAS_AMO_SWAP))                              \
            return PGAS_ERR_INVALID;                                                             \
        pgasi_rma_t rma = { PGASI_RMA_AMO,   word,    old_p,  sizeof operand,                    \
                            (pgasi_amo_t)op, operand, compare };                                 \
        return pgasi_rma_start(&rma, req);                                                       \
    }                                                                                            \
    pgas_status_t pgas_amo_u##BITS(pgas_gptr_t word, pgas_amo_t op, uint##BITS##_t operand,      \
                                   uint##BITS##_t compare, uint##BITS##_t *old_p)                \
    {                                                                                            \
        uint##BITS##_t *there = reach(word, sizeof operand);                                     \
        if (there && op <= PGAS_AMO_CSWAP && (old_p || op < PGAS_AMO_SWAP) &&                    \
            pgas_gptr_offset(word) % sizeof operand == 0) {                                      \
            operand = pgasi_amo_apply_##BITS(there, (pgasi_amo_t)op, operand, compare);          \
            if (old_p)                                                                           \
                *old_p = operand;                                                                \
            return PGAS_OK;                                                                      \
        }                                                                                        \
        pgasi_req_t req;                                                                         \
        pgasi_req_begin(&req);                                                                   \
        pgas_status_t status = amo_u##BITS(word, op, operand, compare, old_p, &req);             \
        return status == PGAS_OK && pgasi_req_pending(&req) ? pgasi_req_wait(&req) : status;     \
    }                                                                                            \
    pgas_status_t pgas_amo_u##BITS##_nb(pgas_gptr_t word, pgas_amo_t op, uint##BITS##_t operand, \
                                        uint##BITS##_t compare, uint##BITS##_t *old_p,           \
                                        pgas_req_t *req_p)                                       \
    {                                                                                            \
        if (!req_p)                                                                              \
            return PGAS_ERR_INVALID;                                                             \
        pgasi_req_begin(pgasi_req(req_p));                                                       \
        return amo_u##BITS(word, op, operand, compare, old_p, pgasi_req(req_p));                 \
    }
AMO_TYPED(32)
AMO_TYPED(64)
