/* Waiting, flush and fence: when one-sided operations are complete, here and at the peer.
 *
 * A blocking operation counts its parts that are not locally complete. Remote completion is a
 * number for each context and peer. A put records how many operations were issued before it. A
 * flush records how many it covered. So any number of puts share one flush. */
#include "mem/rma.h"

#include <stdlib.h>

#include "boot/boot.h"
#include "boot/wait.h"

#define CTX_SPINS 256 /* polls of the own context alone before the general wait */

/* ---- blocking operations ---- */

void pgasi_req_part_done(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    pgasi_req_t *req = PGASI_CONTAINER_OF(comp, pgasi_req_t, comp);
    if (status != PGAS_OK && req->status == PGAS_OK)
        req->status = status;
    pgasi_ctx_count(req->ctx, -1);
    __atomic_store_n(&req->pending, req->pending - 1, __ATOMIC_RELEASE);
}

static void ctx_progress(pgasi_ctx_t *ctx)
{
    pgasi_ctx_lock(ctx);
    pgasi_ctx_progress(ctx);
    pgasi_ctx_unlock(ctx);
}

pgas_status_t pgasi_req_wait(pgasi_req_t *req)
{
    for (int i = 0; i < CTX_SPINS && pgasi_req_pending(req); i++)
        ctx_progress(req->ctx);
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
    /* Operations that are visible there are complete here, too. The allocators of registered memory
     * need this, because a transport may report the one before the other. (A shared context may
     * never be idle.) */
    if (status == PGAS_OK)
        status = ctx->shared ? pgasi_nb_wait(ctx) : pgasi_ctx_wait_idle(ctx);
    pgas_status_t failed = pgasi_nb_take_error(ctx);
    return status == PGAS_OK ? failed : status;
}

pgas_status_t pgasi_ctx_settle_fence(pgasi_ctx_t *ctx, int rank)
{
    pgasi_ctx_lock(ctx);
    bool wait = ctx->fenced > ctx->flushed && ctx->peer[rank].issued > ctx->peer[rank].flushed;
    pgasi_ctx_unlock(ctx);
    return wait ? flush_ctx(ctx, rank) : PGAS_OK;
}

/* Nothing was issued that is still incomplete, or whose error was not reported. */
static bool has_nothing(const pgasi_ctx_t *ctx)
{
    return !__atomic_load_n(&ctx->issued, __ATOMIC_RELAXED) &&
           !__atomic_load_n(&ctx->nb, __ATOMIC_RELAXED);
}

pgas_status_t pgas_flush(int rank)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    if (rank < PGAS_ALL || rank >= pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return rank >= 0 && has_nothing(pgasi_self.ctx) ? PGAS_OK : flush_ctx(pgasi_self.ctx, rank);
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
    ctx->fenced = ctx->issued;
    status = wait ? PGAS_OK : ctx->tp->ops->fence(ctx->tp);
    pgasi_ctx_unlock(ctx);
    return wait ? flush_ctx(ctx, -1) : status;
}

/* ---- flushes that no thread waits for ---- */

static void flush_done(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    pgasi_ctx_flush_t *f = PGASI_CONTAINER_OF(comp, pgasi_ctx_flush_t, comp);
    uint64_t *flushed = f->rank >= 0 ? &f->ctx->peer[f->rank].flushed : &f->ctx->flushed;
    if (status == PGAS_OK)
        __atomic_store_n(flushed, PGASI_MAX(*flushed, f->number), __ATOMIC_RELAXED);
    f->status = status;
    f->running = false;
    pgasi_ctx_count(f->ctx, -1);
    pgasi_nb_flushed(f, f->number, status);
}

static pgasi_ctx_flush_t *flush_create(pgasi_ctx_t *ctx, int rank)
{
    pgasi_ctx_flush_t *f = calloc(1, sizeof *f);
    if (f)
        *f = (pgasi_ctx_flush_t){ .comp.fn = flush_done, .ctx = ctx, .rank = rank };
    return f;
}

pgasi_ctx_flush_t *pgasi_ctx_flush_of(pgasi_ctx_t *ctx, int rank)
{
    pgasi_ctx_flush_t **own = rank >= 0 ? &ctx->peer[rank].flush : &ctx->flush;
    return *own ? *own : (*own = flush_create(ctx, rank));
}

pgas_status_t pgasi_ctx_flush_start(pgasi_ctx_flush_t *f)
{
    int peers = f->rank >= 0 ? f->rank : PGASI_TP_ALL_PEERS;
    f->number = f->rank >= 0 ? f->ctx->peer[f->rank].issued : f->ctx->issued;
    f->running = true;
    pgasi_ctx_count(f->ctx, 1);
    pgas_status_t status = f->ctx->tp->ops->flush(f->ctx->tp, peers, &f->comp);
    if (status == PGAS_INPROGRESS)
        return status;
    if (status == PGAS_ERR_AGAIN) {
        f->running = false;
        pgasi_ctx_count(f->ctx, -1);
        return PGAS_INPROGRESS;
    }
    flush_done(&f->comp, status);
    f->status = PGAS_OK; /* this call reports it */
    return status;
}

/* At most one flush at a time is in flight to a peer. Callers that poll meanwhile share it, or the
 * next one. */
pgas_status_t pgasi_ctx_flush_look(pgasi_ctx_t *ctx, int rank, uint64_t number)
{
    pgasi_ctx_flush_t *f = pgasi_ctx_flush_of(ctx, rank);
    if (!f)
        return PGAS_ERR_NO_MEMORY;
    ctx->tp->ops->progress(ctx->tp);
    pgas_status_t failed = f->status;
    if ((rank >= 0 ? ctx->peer[rank].flushed : ctx->flushed) >= number)
        return PGAS_OK;
    f->status = PGAS_OK;
    if (failed != PGAS_OK)
        return failed;
    return f->running ? PGAS_INPROGRESS : pgasi_ctx_flush_start(f);
}
