/* Requests, flush and fence: when one-sided operations are complete, here and at the peer.
 *
 * A request counts its parts that are not locally complete. Remote completion is a number for each
 * context and peer: a put records how many operations were issued before it, a flush records how
 * many it covered. So any number of puts share one flush. */
#include "mem/rma.h"

#include <stdlib.h>

#include "boot/boot.h"
#include "boot/wait.h"

#define CTX_SPINS 256 /* polls of the own context alone before the general wait */

/* ---- requests ---- */

void pgasi_req_part_done(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    pgasi_req_t *req = PGASI_CONTAINER_OF(comp, pgasi_req_t, comp);
    if (status != PGAS_OK && req->status == PGAS_OK)
        req->status = status;
    pgasi_ctx_count(pgasi_ctxs[req->ctx], -1);
    __atomic_store_n(&req->pending, req->pending - 1, __ATOMIC_RELEASE);
}

static int ctx_progress(pgasi_ctx_t *ctx)
{
    pgasi_ctx_lock(ctx);
    int n = pgasi_ctx_progress(ctx);
    pgasi_ctx_unlock(ctx);
    return n;
}

pgas_status_t pgasi_req_wait(pgasi_req_t *req)
{
    for (int i = 0; i < CTX_SPINS && pgasi_req_pending(req); i++)
        ctx_progress(pgasi_ctxs[req->ctx]);
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (pgasi_req_pending(req))
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    return (pgas_status_t)req->status;
}

/* ---- flush and fence ---- */

/* Other threads of a shared context may have flushed more meanwhile, and threads read this without
 * its lock. */
static void set_flushed(pgasi_ctx_t *ctx, uint64_t *flushed, uint64_t number)
{
    if (__atomic_load_n(flushed, __ATOMIC_RELAXED) >= number)
        return;
    pgasi_ctx_lock(ctx);
    if (*flushed < number)
        __atomic_store_n(flushed, number, __ATOMIC_RELAXED);
    pgasi_ctx_unlock(ctx);
}

/* Makes the operations numbered up to now to a rank (or all: -1) visible there. */
static pgas_status_t flush_ctx(pgasi_ctx_t *ctx, int rank)
{
    pgasi_req_t req;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    pgasi_req_begin(&req);
    pgasi_ctx_lock(ctx);
    uint64_t number = rank >= 0 ? ctx->peer[rank].issued : ctx->issued;
    uint64_t *flushed = rank >= 0 ? &ctx->peer[rank].flushed : &ctx->flushed;
    pgas_status_t status = PGAS_OK;
    if (*flushed < number) {
        req.pending = 1;
        pgasi_ctx_count(ctx, 1);
        int peers = rank >= 0 ? rank : PGASI_TP_ALL_PEERS;
        while ((status = ctx->tp->ops->flush(ctx->tp, peers, &req.comp)) == PGAS_ERR_AGAIN)
            pgasi_ctx_wait_for_room(ctx, &w);
        if (status != PGAS_INPROGRESS) {
            req.pending = 0;
            pgasi_ctx_count(ctx, -1);
        }
    }
    pgasi_ctx_unlock(ctx);
    pgasi_wait_end(&w);
    if (status == PGAS_INPROGRESS)
        status = pgasi_req_wait(&req);
    if (status == PGAS_OK)
        set_flushed(ctx, flushed, number);
    /* Operations that are visible there are complete here, too. A thread that tests its request
     * needs this, because a transport may report the one before the other. (A shared context may
     * never be idle: there the requests themselves are waited for.) */
    return status == PGAS_OK && !ctx->shared ? pgasi_ctx_wait_idle(ctx) : status;
}

pgas_status_t pgas_flush(int rank)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    if (rank < 0 || rank >= pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return pgasi_self.ctx->issued ? flush_ctx(pgasi_self.ctx, rank) : PGAS_OK;
}

pgas_status_t pgas_flush_all(void)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return flush_ctx(pgasi_self.ctx, -1);
}

pgas_status_t pgas_fence(void)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    pgasi_ctx_t *ctx = pgasi_self.ctx;
    if (!ctx->issued)
        return PGAS_OK;
    pgasi_ctx_lock(ctx);
    /* Direct stores that follow would overtake operations in flight. */
    bool wait = ctx->has_direct && ctx->flushed != ctx->issued && !pgasi_self.in_handler;
    status = wait ? PGAS_OK : ctx->tp->ops->fence(ctx->tp);
    pgasi_ctx_unlock(ctx);
    return wait ? flush_ctx(ctx, -1) : status;
}

/* ---- requests of the program ---- */

pgas_status_t pgas_wait_local_far(pgas_req_t *req)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    return req ? pgasi_req_wait(pgasi_req(req)) : PGAS_ERR_INVALID;
}

pgas_status_t pgas_test_local(pgas_req_t *req)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK || !req)
        return status != PGAS_OK ? status : PGAS_ERR_INVALID;
    pgasi_req_t *r = pgasi_req(req);
    if (pgasi_req_pending(r) && !pgasi_self.in_handler)
        ctx_progress(pgasi_ctxs[r->ctx]);
    return pgasi_req_pending(r) ? PGAS_INPROGRESS : (pgas_status_t)r->status;
}

static bool is_flushed(const pgasi_req_t *r)
{
    if (r->number == 0) /* the other fields may be unset: see pgas_put_nb */
        return true;
    const pgasi_ctx_t *ctx = pgasi_ctxs[r->ctx];
    return __atomic_load_n(&ctx->peer[r->peer].flushed, __ATOMIC_RELAXED) >= r->number ||
           __atomic_load_n(&ctx->flushed, __ATOMIC_RELAXED) ==
               __atomic_load_n(&ctx->issued, __ATOMIC_RELAXED);
}

pgas_status_t pgas_wait_remote(pgas_req_t *req)
{
    pgas_status_t status = pgas_wait_local_far(req);
    if (status != PGAS_OK || is_flushed(pgasi_req(req)))
        return status;
    return flush_ctx(pgasi_ctxs[pgasi_req(req)->ctx], pgasi_req(req)->peer);
}

static void flush_done(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    pgasi_ctx_flush_t *f = PGASI_CONTAINER_OF(comp, pgasi_ctx_flush_t, comp);
    uint64_t *flushed = f->rank >= 0 ? &f->ctx->peer[f->rank].flushed : &f->ctx->flushed;
    if (status == PGAS_OK)
        __atomic_store_n(flushed, PGASI_MAX(*flushed, f->number), __ATOMIC_RELAXED);
    f->status = status;
    f->running = false;
    pgasi_ctx_count(f->ctx, -1);
}

/* Context locked. */
static pgas_status_t flush_start(pgasi_ctx_flush_t *f)
{
    int peers = f->rank >= 0 ? f->rank : PGASI_TP_ALL_PEERS;
    f->number = f->rank >= 0 ? f->ctx->peer[f->rank].issued : f->ctx->issued;
    f->running = true;
    pgasi_ctx_count(f->ctx, 1);
    pgas_status_t status = f->ctx->tp->ops->flush(f->ctx->tp, peers, &f->comp);
    if (status == PGAS_INPROGRESS)
        return status;
    flush_done(&f->comp, status);
    f->status = PGAS_OK; /* this call reports it */
    return status == PGAS_ERR_AGAIN ? PGAS_INPROGRESS : status;
}

/* At most one flush at a time is in flight to a peer. Callers that poll meanwhile share it, or the
 * next one. */
pgas_status_t pgasi_ctx_flush_look(pgasi_ctx_t *ctx, int rank, uint64_t number)
{
    pgasi_ctx_flush_t **own = rank >= 0 ? &ctx->peer[rank].flush : &ctx->flush, *f = *own;
    if (!f) {
        f = *own = calloc(1, sizeof *f);
        if (!f)
            return PGAS_ERR_NO_MEMORY;
        *f = (pgasi_ctx_flush_t){ .comp.fn = flush_done, .ctx = ctx, .rank = rank };
    }
    ctx->tp->ops->progress(ctx->tp);
    pgas_status_t failed = f->status;
    if ((rank >= 0 ? ctx->peer[rank].flushed : ctx->flushed) >= number)
        return PGAS_OK;
    f->status = PGAS_OK;
    if (failed != PGAS_OK)
        return failed;
    return f->running ? PGAS_INPROGRESS : flush_start(f);
}

pgas_status_t pgas_test_remote(pgas_req_t *req)
{
    pgas_status_t status = pgas_test_local(req);
    if (status != PGAS_OK || is_flushed(pgasi_req(req)))
        return status;
    status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    pgasi_req_t *r = pgasi_req(req);
    pgasi_ctx_lock(pgasi_ctxs[r->ctx]);
    status = pgasi_ctx_flush_look(pgasi_ctxs[r->ctx], r->peer, r->number);
    pgasi_ctx_unlock(pgasi_ctxs[r->ctx]);
    return status;
}
