/* Sends active messages. The common message is small and leaves at once: its header is built in a
 * spare send record that is used again, and nothing else is written. UCX does not keep rendezvous
 * or fragmented messages in order with later small ones. So each message carries a number, and the
 * receiver (am_recv.c) restores the order. This file bounds how many messages may overtake an
 * unfinished one. */
#include "ucx_backend/ucx.h"

static void send_done(void *request, ucs_status_t status, void *unused)
{
    pgasi_ucx_request_t *ours = request;
    pgasi_ucx_ctx_t *ctx = ours->ctx;
    pgasi_ucx_send_t *send = ours->extra;
    pgasi_ucx_ep_t *ep = send->ep;
    pgasi_tp_comp_t *comp = ours->comp;
    uint64_t mark = send->flush_mark;
    (void)unused;
    ctx->n_pending--;
    pgasi_ucx_lib.ucp_request_free(request);
    pgasi_pool_release(&ctx->sends, send);
    if (--ep->n_am_pending == 0) {
        ep->n_am_ahead = 0;
        ep->am_ahead_bytes = 0;
    }
    if (mark != 0) {
        ep->n_am_flushed--;
        pgasi_ucx_send_flushed(ctx, ep->peer, mark);
    } else {
        pgasi_ucx_complete(ctx, comp, pgasi_ucx_status(status));
    }
}

/* UCX keeps the message, so its header is kept too. */
static void keep_send(pgasi_ucx_ctx_t *ctx, pgasi_ucx_ep_t *ep, ucs_status_ptr_t ptr,
                      pgasi_tp_comp_t *comp)
{
    pgasi_ucx_send_t *send = ctx->spare;
    pgasi_ucx_posted(ctx, ptr, comp);
    ((pgasi_ucx_request_t *)ptr)->extra = send;
    send->ep = ep;
    send->flush_mark = 0;
    ep->n_am_pending++;
    if (!comp) {
        send->flush_mark = ctx->flush_mark;
        ep->n_am_flushed++;
        ctx->n_flushed_sends++;
    }
    ctx->spare = pgasi_pool_acquire(&ctx->sends);
}

/* Whether the peer would have to hold back too much if this message arrived before the unfinished
 * ones. */
static bool is_far_ahead(const pgasi_ucx_ep_t *ep)
{
    return ep->n_am_pending > 0 &&
           (ep->n_am_ahead >= PGASI_UCX_AHEAD_MAX || ep->am_ahead_bytes >= PGASI_UCX_AHEAD_BYTES);
}

static bool take_spare(pgasi_ucx_ctx_t *ctx)
{
    if (!ctx->spare)
        ctx->spare = pgasi_pool_acquire(&ctx->sends);
    return ctx->spare;
}

pgas_status_t pgasi_ucx_am(pgasi_tp_ctx_t *tp_ctx, int peer, const void *header,
                           size_t header_bytes, const void *data, size_t bytes,
                           pgasi_tp_comp_t *comp)
{
    static const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.send = send_done,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    pgasi_ucx_ctx_t *ctx = pgasi_ucx_ctx_of(tp_ctx);
    pgasi_ucx_ep_t *ep;
    pgas_status_t status = pgasi_ucx_ep_get(ctx, peer, &ep);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (PGAS_UNLIKELY(header_bytes > PGASI_TP_AM_HEADER_MAX))
        return PGAS_ERR_LIMIT;
    if (pgasi_ucx_is_dead(ep))
        return PGAS_ERR_PEER;
    if (ep->journal.on)
        return pgasi_ucx_journal_am(ep, header, header_bytes, data, bytes, comp);
    if (PGAS_UNLIKELY(ctx->n_pending >= PGASI_UCX_PENDING_MAX || is_far_ahead(ep) ||
                      !take_spare(ctx)))
        return PGAS_ERR_AGAIN;
    pgasi_ucx_send_t *send = ctx->spare;
    pgasi_ucx_copy(send->header.user, header, header_bytes);
    ucs_status_ptr_t ptr;
    if (PGAS_LIKELY(ep->am_compact)) {
        uint32_t number = ep->am_number & ((1u << PGASI_UCX_NUMBER_BITS) - 1);
        send->header.prefix.number = (ep->am_source | number) ^ ep->am_cookie;
        ptr =
            pgasi_ucx_lib.ucp_am_send_nbx(ep->ep, PGASI_UCX_AM_COMPACT, &send->header.prefix.number,
                                          sizeof send->header.prefix.number + header_bytes, data,
                                          bytes, &param);
    } else {
        send->header.prefix.source = ep->am_source;
        send->header.prefix.number = ep->am_number ^ ep->am_cookie;
        ptr = pgasi_ucx_lib.ucp_am_send_nbx(ep->ep, PGASI_UCX_AM_LONG, &send->header,
                                            sizeof send->header.prefix + header_bytes, data, bytes,
                                            &param);
    }
    if (PGAS_UNLIKELY(UCS_PTR_IS_ERR(ptr)))
        return pgasi_ucx_status(UCS_PTR_STATUS(ptr));
    ep->am_number++;
    if (PGAS_LIKELY(!ptr && ep->n_am_pending == 0))
        return PGAS_OK;
    ep->n_am_ahead++;
    ep->am_ahead_bytes += bytes;
    if (ptr) {
        keep_send(ctx, ep, ptr, comp);
        return PGAS_INPROGRESS;
    }
    return PGAS_OK;
}
