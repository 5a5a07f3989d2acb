/* Endpoints: one queue pair for each context and peer that are used, made on first use. The peer
 * makes its end when it reads the connect request. Operations wait in the endpoint's queue
 * meanwhile. A failed endpoint stays dead, because its peer has died or was given up. */
#include "verbs_backend/transport/inside.h"

#include <stdlib.h>

void pgasi_verbs_ep_activate(pgasi_verbs_ep_t *ep)
{
    pgasi_verbs_ctx_t *ctx = ep->ctx;
    ep->active = true;
    ep->active_next = ctx->active_eps;
    ep->active_back = &ctx->active_eps;
    if (ctx->active_eps)
        ctx->active_eps->active_back = &ep->active_next;
    ctx->active_eps = ep;
}

void pgasi_verbs_ep_deactivate(pgasi_verbs_ep_t *ep)
{
    if (ep->active) {
        ep->active = ep->has_data = false;
        *ep->active_back = ep->active_next;
        if (ep->active_next)
            ep->active_next->active_back = ep->active_back;
    }
}

/* The address of a peer, if it has the same transport and its card can be reached. */
static pgas_status_t find_address(pgasi_verbs_tp_t *tp, int peer, pgasi_verbs_tp_address_t *address)
{
    if (!tp->addr_of)
        return PGAS_ERR_NOT_INIT;
    if (!pgasi_verbs_address_of(tp, peer, address)) {
        PGASI_ERROR("verbs",
                    "the address of rank %d is not one of verbs: all ranks need the same transport",
                    peer);
        return PGAS_ERR_MISMATCH;
    }
    bool reaches = address->is_snic == tp->address.is_snic &&
                   (!address->is_snic || address->machine == tp->address.machine);
    if (!reaches) {
        pgasi_warn_once(
            &tp->warned_machine, "verbs", "rank %d cannot be reached: %s; see PGAS_VERBS_DEVICE",
            peer,
            address->is_snic != tp->address.is_snic
                ? "its device is of another kind than ours"
                : "it is on another machine, and the software NIC reaches only this one");
        return PGAS_ERR_MISMATCH;
    }
    return PGAS_OK;
}

static int choose_rail(pgasi_verbs_ctx_t *ctx, int peer, const pgasi_verbs_tp_address_t *address)
{
    int rail = pgasi_verbs_rail_choose(ctx, address);
    if (rail < 0)
        pgasi_warn_once(
            &ctx->tp->warned_machine, "verbs",
            "rank %d cannot be reached: no device in PGAS_VERBS_DEVICE is up both there "
            "and here",
            peer);
    return rail;
}

static pgas_status_t make_queue_pair(pgasi_verbs_ep_t *ep)
{
    pgasi_verbs_ctx_t *ctx = ep->ctx;
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    opts.send_depth = (uint32_t)ctx->tp->params.verbs_send_depth;
    pgas_status_t status = pgasi_verbs_ctx_cq(ctx, ep->rail, opts.send_depth, &ep->cq);
    if (status != PGAS_OK)
        return status;
    opts.send_cq = opts.recv_cq = ctx->cqs[ep->cq].cq;
    opts.recv_depth = 1; /* nothing arrives here */
    opts.send_spans = 1;
    opts.inline_max = PGASI_VERBS_INLINE;
    status = pgas_verbs_qp_create(ctx->tp->rails[ep->rail].dev, &opts, &ep->qp);
    if (status != PGAS_OK) {
        pgasi_verbs_ctx_cq_leave(ctx, opts.send_depth, ep->cq);
        PGASI_ERROR("verbs", "making a queue pair from context %d to rank %d failed: %s",
                    ctx->index, ep->peer, pgas_status_text(status));
    }
    return status;
}

static void free_queue_pair(pgasi_verbs_ep_t *ep)
{
    if (ep->qp) {
        if (ep->tx) {
            pgasi_verbs_rail_count(ep->ctx->tp, ep->rail, ep->tx);
            pgasi_verbs_ctx_tx_close(ep->ctx, ep->cq, ep->tx);
        }
        uint32_t depth = (uint32_t)ep->ctx->tp->params.verbs_send_depth;
        pgas_verbs_qp_destroy(ep->qp);
        pgasi_verbs_ctx_cq_leave(ep->ctx, depth, ep->cq);
    }
    ep->qp = NULL;
    ep->tx = NULL;
}

pgas_status_t pgasi_verbs_ep_open(pgasi_verbs_ctx_t *ctx, int peer, pgasi_verbs_ep_t **ep_p)
{
    pgasi_verbs_tp_t *tp = ctx->tp;
    pgasi_verbs_tp_address_t address;
    pgas_status_t status = pgasi_verbs_end_of(tp, peer);
    if (status == PGAS_OK)
        status = find_address(tp, peer, &address);
    int rail = status == PGAS_OK ? choose_rail(ctx, peer, &address) : -1;
    if (status == PGAS_OK)
        status = rail >= 0 ? pgasi_verbs_buffers_join(ctx, rail) : PGAS_ERR_MISMATCH;
    pgasi_verbs_ep_t *ep = status == PGAS_OK ? calloc(1, sizeof *ep) : NULL;
    if (!ep)
        return status == PGAS_OK ? PGAS_ERR_NO_MEMORY : status;
    ep->ctx = ctx;
    ep->peer = peer;
    ep->rail = rail;
    ep->cookie = address.cookie;
    ep->message_bytes =
        PGASI_MIN(address.message_bytes, ctx->large_bytes - (uint32_t)sizeof(pgasi_verbs_prefix_t));
    pgasi_verbs_queue_init(&ep->waiting);
    pgasi_verbs_queue_init(&ep->in_flight);
    pgasi_verbs_queue_init(&ep->flushes);
    pgasi_verbs_queue_init(&ep->requested);
    ep->buffers_last = &ep->buffers;
    status = make_queue_pair(ep);
    if (status != PGAS_OK) {
        free(ep);
        return status;
    }
    ep->next = ctx->all_eps;
    ctx->all_eps = ep;
    ctx->eps[peer] = ep;
    ctx->n_connecting++;
    ep->connecting = true;
    ep->connect = (pgasi_verbs_connect_t){ .ctx = ctx,
                                           .peer = peer,
                                           .slots_addr = (uint64_t)(uintptr_t)ctx->slots,
                                           .slots_rkey = ctx->slot_mem[rail].rkey,
                                           .rail = rail };
    ep->qp->dev->ops->qp_address(ep->qp, &ep->connect.mine);
    pgasi_verbs_cm_connect(tp, &ep->connect);
    *ep_p = ep;
    return PGAS_OK;
}

bool pgasi_verbs_ep_connect(pgasi_verbs_ep_t *ep)
{
    pgasi_verbs_ctx_t *ctx = ep->ctx;
    if (!ep->connecting || !__atomic_load_n(&ep->connect.completed, __ATOMIC_ACQUIRE))
        return false;
    ctx->n_connecting--;
    ep->connecting = false;
    pgas_status_t status = ep->connect.status;
    if (status == PGAS_OK)
        status = pgas_verbs_qp_connect(ep->qp, &ep->connect.theirs);
    pgas_verbs_tx_opts_t opts = PGAS_VERBS_TX_OPTS_INIT;
    opts.advance = pgasi_verbs_advanced;
    opts.arg = ep;
    if (status == PGAS_OK)
        status = pgasi_verbs_ctx_tx_open(ctx, ep->cq, ep->qp, &opts, &ep->tx);
    if (status == PGAS_OK) {
        ep->inbound = ep->connect.inbound;
        ep->state = PGASI_VERBS_EP_READY;
        return true;
    }
    if (status != PGAS_ERR_PEER) {
        PGASI_ERROR("verbs", "connecting context %d with rank %d failed: %s", ctx->index, ep->peer,
                    pgas_status_text(status));
        pgasi_verbs_cm_cancel(ctx->tp, &ep->connect); /* the peer may have opened its end */
    }
    ep->broken = status;
    return true;
}

static void fail_queue(pgasi_verbs_ep_t *ep, pgasi_verbs_queue_t *queue, pgas_status_t status)
{
    while (queue->first)
        pgasi_verbs_finish(ep, pgasi_verbs_queue_take(queue), status);
}

void pgasi_verbs_ep_fail(pgasi_verbs_ep_t *ep, pgas_status_t status)
{
    pgasi_verbs_ctx_t *ctx = ep->ctx;
    ctx->lost = ep->has_data ? status : ctx->lost;
    if (ep->connecting) {
        pgasi_verbs_cm_cancel(ctx->tp, &ep->connect);
        ctx->n_connecting--;
        ep->connecting = false;
    }
    ep->state = PGASI_VERBS_EP_DEAD;
    free_queue_pair(ep); /* from here on the card does not access memory of this rank for it */
    while (ep->buffers) {
        pgasi_verbs_buffer_t *buffer = ep->buffers;
        ep->buffers = buffer->next;
        pgasi_verbs_buffer_give(ctx, buffer);
    }
    ep->buffers_last = &ep->buffers;
    ep->done = ep->posted;
    fail_queue(ep, &ep->in_flight, status);
    fail_queue(ep, &ep->requested, status);
    fail_queue(ep, &ep->flushes, status);
    fail_queue(ep, &ep->waiting, status);
    pgasi_verbs_ep_deactivate(ep);
    ep->n_replied = ep->n_requested;
}

void pgasi_verbs_eps_close(pgasi_verbs_ctx_t *ctx)
{
    while (ctx->all_eps) {
        pgasi_verbs_ep_t *ep = ctx->all_eps;
        bool connected = ep->state == PGASI_VERBS_EP_READY;
        ctx->all_eps = ep->next;
        ctx->eps[ep->peer] = NULL;
        if (ep->state != PGASI_VERBS_EP_DEAD)
            pgasi_verbs_ep_fail(ep, PGAS_ERR_PEER);
        if (connected && pgasi_verbs_end_of(ctx->tp, ep->peer) == PGAS_OK)
            pgasi_verbs_cm_disconnect(ctx->tp, ep->peer, ep->inbound);
        pgasi_verbs_cm_await_replies(ctx->tp);
        free(ep);
    }
}
