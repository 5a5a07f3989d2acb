/* Fence and flush. A flush is a pending operation on each endpoint that has unfinished operations.
 * When it reaches the front of the queue, all earlier operations are posted. Its part ends when
 * that number is done and all earlier atomic requests have replies. Idle endpoints cost nothing.
 *
 * A queue pair keeps writes, atomics and messages in order. So a fence delays operations only
 * behind atomic requests. */
#include "verbs_backend/transport/inside.h"

void pgasi_verbs_part_done(pgasi_verbs_ctx_t *ctx, pgasi_verbs_flush_t *flush, pgas_status_t status)
{
    if (!pgasi_tp_parts_done(&flush->parts, status))
        return;
    pgasi_tp_comp_t *comp = flush->parts.comp;
    status = flush->parts.status;
    pgasi_pool_release(&ctx->flushes, flush);
    pgasi_verbs_complete(ctx, comp, status);
}

/* Adds one part, unless the endpoint is idle. @return PGAS_OK, or why the part cannot be added */
static pgas_status_t add_part(pgasi_verbs_ep_t *ep, pgasi_verbs_flush_t *flush)
{
    if (pgasi_verbs_ep_is_idle(ep))
        return PGAS_OK;
    pgasi_verbs_pending_t pending = { .kind = PGASI_VERBS_PENDING_FLUSH,
                                      .u.flush = { .flush = flush, .n_replied = ep->n_requested } };
    flush->parts.n++;
    pgas_status_t status = pgasi_verbs_submit(ep, &pending);
    if (status != PGAS_INPROGRESS)
        flush->parts.n--;
    return status == PGAS_INPROGRESS ? PGAS_OK : status;
}

pgas_status_t pgasi_verbs_flush_peer(pgasi_tp_ctx_t *tp_ctx, int peer, pgasi_tp_comp_t *comp)
{
    pgasi_verbs_ctx_t *ctx = pgasi_verbs_ctx_of(tp_ctx);
    if (peer != PGASI_TP_ALL_PEERS) {
        if (peer < 0 || peer >= ctx->tp->opts.n_ranks)
            return PGAS_ERR_RANGE;
        const pgasi_verbs_ep_t *ep = ctx->eps[peer];
        pgas_status_t end = pgasi_verbs_end_of(ctx->tp, peer);
        if (end != PGAS_OK)
            return end;
        if (!ep || pgasi_verbs_ep_is_idle(ep))
            return PGAS_OK;
    } else if (!ctx->active_eps && ctx->lost == PGAS_OK) {
        return PGAS_OK;
    }
    pgasi_verbs_flush_t *flush = pgasi_pool_acquire(&ctx->flushes);
    if (!flush)
        return PGAS_ERR_NO_MEMORY;
    pgasi_tp_parts_begin(&flush->parts);
    flush->of_all = peer == PGASI_TP_ALL_PEERS;
    pgas_status_t status = PGAS_OK;
    if (peer != PGASI_TP_ALL_PEERS) {
        status = add_part(ctx->eps[peer], flush);
    } else {
        flush->parts.status = ctx->lost;
        ctx->lost = PGAS_OK;
        for (pgasi_verbs_ep_t *ep = ctx->active_eps; ep != NULL && status == PGAS_OK;
             ep = ep->active_next)
            status = add_part(ep, flush);
        if (status == PGAS_ERR_AGAIN)
            ctx->lost = flush->parts.status; /* the next flush reports it */
    }
    if (status != PGAS_OK && status != PGAS_ERR_AGAIN) {
        flush->parts.status = status;
        status = PGAS_OK;
    }
    /* otherwise the parts that have begun end, and no caller waits for them */
    if (status == PGAS_OK)
        status = pgasi_tp_parts_end(&flush->parts, comp);
    pgasi_verbs_part_done(ctx, flush, PGAS_OK);
    return status;
}

pgas_status_t pgasi_verbs_fence(pgasi_tp_ctx_t *tp_ctx)
{
    for (pgasi_verbs_ep_t *ep = pgasi_verbs_ctx_of(tp_ctx)->active_eps; ep != NULL;
         ep = ep->active_next)
        ep->fence = ep->n_requested;
    return PGAS_OK;
}
