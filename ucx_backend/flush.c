/* Fence and flush. Only endpoints with unflushed operations are flushed; they are in a list. So a
 * flush without earlier operations costs nothing for any number of peers. A flush waits for parts
 * if it covers several endpoints, or messages without a completion of their own. */
#include "ucx_backend/ucx.h"

void pgasi_ucx_activate(pgasi_ucx_ep_t *ep)
{
    ep->dirty = true;
    ep->used = true;
    if (!ep->active) {
        pgasi_ucx_ctx_t *ctx = ep->ctx;
        ep->active = true;
        ep->active_next = ctx->active_eps;
        ep->active_back = &ctx->active_eps;
        if (ctx->active_eps)
            ctx->active_eps->active_back = &ep->active_next;
        ctx->active_eps = ep;
    }
}

void pgasi_ucx_deactivate_if_clean(pgasi_ucx_ep_t *ep)
{
    if (ep->active && !ep->dirty && ep->n_flushes == 0) {
        ep->active = false;
        *ep->active_back = ep->active_next;
        if (ep->active_next)
            ep->active_next->active_back = ep->active_back;
    }
}

/* The last part completes and frees the flush. */
void pgasi_ucx_part_done(pgasi_ucx_flush_t *flush, pgas_status_t status)
{
    if (!pgasi_tp_parts_done(&flush->parts, status))
        return;
    pgasi_tp_comp_t *comp = flush->parts.comp;
    status = flush->parts.status;
    *flush->back = flush->next;
    if (flush->next)
        flush->next->back = flush->back;
    pgasi_pool_release(&flush->ctx->flushes, flush);
    if (comp)
        comp->fn(comp, status);
}

static void ep_flushed(void *request, ucs_status_t status, void *unused)
{
    pgasi_ucx_request_t *ours = request;
    pgasi_ucx_flush_part_t part = *(pgasi_ucx_flush_part_t *)ours->extra;
    (void)unused;
    pgasi_pool_release(&ours->ctx->flush_parts, ours->extra);
    pgasi_ucx_lib.ucp_request_free(request);
    part.ep->n_flushes--;
    pgasi_ucx_deactivate_if_clean(part.ep);
    pgasi_ucx_part_done(part.flush, pgasi_ucx_status(status));
}

void pgasi_ucx_send_flushed(pgasi_ucx_ctx_t *ctx, int peer, uint64_t mark)
{
    ctx->n_flushed_sends--;
    for (pgasi_ucx_flush_t *flush = ctx->running, *next; flush != NULL; flush = next) {
        next = flush->next;
        if (mark < flush->mark && (flush->peer == peer || flush->peer == PGASI_TP_ALL_PEERS))
            pgasi_ucx_part_done(flush, PGAS_OK);
    }
}

/* Lets UCX flush one endpoint as a part of a flush. */
static void flush_ep(pgasi_ucx_flush_t *flush, pgasi_ucx_ep_t *ep)
{
    static const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
                                               .cb.send = ep_flushed };
    if (pgasi_ucx_is_dead(ep)) {
        ep->dirty = false;
        pgasi_ucx_deactivate_if_clean(ep);
        flush->parts.status = PGAS_ERR_PEER;
        return;
    }
    if (ep->journal.on) {
        flush->parts.n += pgasi_ucx_journal_flush(ep, flush);
        return;
    }
    pgasi_ucx_flush_part_t *part = pgasi_pool_acquire(&flush->ctx->flush_parts);
    if (!part) {
        flush->parts.status = PGAS_ERR_NO_MEMORY;
        return;
    }
    ep->dirty = false;
    ep->n_posts = 0;
    ucs_status_ptr_t ptr = pgasi_ucx_lib.ucp_ep_flush_nbx(ep->ep, &param);
    if (UCS_PTR_IS_PTR(ptr)) {
        pgasi_ucx_request_t *ours = ptr;
        *part = (pgasi_ucx_flush_part_t){ .ep = ep, .flush = flush };
        ours->ctx = flush->ctx;
        ours->extra = part;
        ep->n_flushes++;
        flush->parts.n++;
        return;
    }
    pgasi_pool_release(&flush->ctx->flush_parts, part);
    pgasi_ucx_deactivate_if_clean(ep);
    if (ptr)
        flush->parts.status = pgasi_ucx_status(UCS_PTR_STATUS(ptr));
}

/* Messages in flight to the peer (or all peers) that have no completion of their own. */
static size_t count_sends(const pgasi_ucx_ctx_t *ctx, int peer)
{
    if (ctx->n_flushed_sends == 0 || peer == PGASI_TP_ALL_PEERS)
        return ctx->n_flushed_sends;
    return ctx->eps[peer]->n_am_flushed;
}

/* The common case: there is one peer, and nothing to wait for. */
static bool flush_at_once(pgasi_ucx_ep_t *ep, pgas_status_t *status_p)
{
    if (ep->n_am_flushed > 0)
        return false;
    *status_p = PGAS_OK;
    return !ep->active && !ep->journal.doubtful && !pgasi_ucx_is_dead(ep);
}

/* Makes direct stores into mapped memory visible before anything that follows. */
static void flush_stores(pgasi_ucx_ctx_t *ctx)
{
    if (ctx->stored_directly) {
        ctx->stored_directly = false;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

pgas_status_t pgasi_ucx_flush_peer(pgasi_tp_ctx_t *tp_ctx, int peer, pgasi_tp_comp_t *comp)
{
    pgasi_ucx_ctx_t *ctx = pgasi_ucx_ctx_of(tp_ctx);
    pgasi_ucx_ep_t *ep = NULL;
    pgas_status_t status;
    flush_stores(ctx);
    if (peer != PGASI_TP_ALL_PEERS) {
        if (peer < 0 || peer >= ctx->tp->opts.n_ranks)
            return PGAS_ERR_RANGE;
        ep = ctx->eps[peer];
        if (!ep || flush_at_once(ep, &status))
            return PGAS_OK;
    } else if (!ctx->active_eps && ctx->n_flushed_sends == 0) {
        return PGAS_OK;
    }
    pgasi_ucx_flush_t *flush = pgasi_pool_acquire(&ctx->flushes);
    if (!flush)
        return PGAS_ERR_NO_MEMORY;
    *flush = (pgasi_ucx_flush_t){ .ctx = ctx, .peer = peer, .mark = ++ctx->flush_mark };
    pgasi_tp_parts_begin(&flush->parts);
    flush->parts.n += count_sends(ctx, peer);
    flush->next = ctx->running;
    flush->back = &ctx->running;
    if (ctx->running)
        ctx->running->back = &flush->next;
    ctx->running = flush;
    if (ep) {
        flush_ep(flush, ep);
    } else {
        for (pgasi_ucx_ep_t *at = ctx->active_eps, *next; at != NULL; at = next) {
            next = at->active_next;
            flush_ep(flush, at);
        }
    }
    status = pgasi_tp_parts_end(&flush->parts, comp);
    pgasi_ucx_part_done(flush, PGAS_OK);
    return status;
}

static void fence_over(pgasi_tp_comp_t *self, pgas_status_t status)
{
    (void)status;
    PGASI_CONTAINER_OF(self, pgasi_ucx_ctx_t, fence_comp)->n_fences--;
}

/* UCX orders its own operations. Direct stores do not pass through UCX, so they wait for a
 * flush. */
static pgas_status_t fence_direct(pgasi_ucx_ctx_t *ctx)
{
    ctx->fence_comp.fn = fence_over;
    ctx->n_fences++;
    pgas_status_t status = pgasi_ucx_flush_peer(&ctx->super, PGASI_TP_ALL_PEERS, &ctx->fence_comp);
    if (status != PGAS_INPROGRESS)
        ctx->n_fences--;
    return status < 0 && status != PGAS_ERR_PEER ? status : PGAS_OK;
}

pgas_status_t pgasi_ucx_fence(pgasi_tp_ctx_t *tp_ctx)
{
    pgasi_ucx_ctx_t *ctx = pgasi_ucx_ctx_of(tp_ctx);
    flush_stores(ctx);
    ctx->fence++;
    pgas_status_t status = ctx->has_direct && ctx->active_eps ? fence_direct(ctx) : PGAS_OK;
    return status == PGAS_OK ? pgasi_ucx_status(pgasi_ucx_lib.ucp_worker_fence(ctx->worker))
                             : status;
}
