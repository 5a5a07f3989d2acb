/* Inbound queue pairs: this rank's ends of the queue pairs on which contexts of peers send. Replies
 * to atomics go back on the queue pair on which the request came. */
#include "verbs_backend/transport/receive.h"

#include <stdlib.h>
#include "base/log.h"

/* ---- replies to atomics ---- */

/* @return false: there is no room in the queue, or no memory for a transmitter. A peer that has
 *          died needs no reply. */
static bool post_reply(pgasi_verbs_ctx_t *ctx, pgasi_verbs_inbound_t *inbound, uint32_t slot,
                       const pgasi_verbs_amo_reply_t *reply)
{
    pgas_status_t status = PGAS_OK;
    if (!inbound->tx)
        status = pgasi_verbs_ctx_tx_open(ctx, inbound->cq, inbound->qp, NULL, &inbound->tx);
    if (status != PGAS_OK)
        return status != PGAS_ERR_NO_MEMORY;
    pgas_verbs_span_t span = { (uint64_t)(uintptr_t)reply, sizeof *reply, 0 };
    pgas_verbs_request_t request = { .op = PGAS_VERBS_WRITE,
                                     .flags = PGAS_VERBS_INLINE,
                                     .spans = &span,
                                     .n_spans = 1,
                                     .remote_addr = inbound->slots_addr + slot * sizeof *reply,
                                     .rkey = inbound->slots_rkey };
    status = pgas_verbs_tx_post(inbound->tx, &request, NULL);
    if (!inbound->to_ring) {
        inbound->to_ring = true;
        inbound->rung_next = ctx->receiver->to_ring;
        ctx->receiver->to_ring = inbound;
    }
    return status != PGAS_ERR_AGAIN;
}

void pgasi_verbs_send_reply(pgasi_verbs_ctx_t *ctx, pgasi_verbs_inbound_t *inbound, uint32_t slot,
                            const pgasi_verbs_amo_reply_t *reply)
{
    if (!inbound->unsent && post_reply(ctx, inbound, slot, reply))
        return;
    pgasi_verbs_unsent_t *unsent = malloc(sizeof *unsent);
    if (!unsent)
        pgasi_fatal("verbs", "no memory for the reply to an atomic operation");
    *unsent = (pgasi_verbs_unsent_t){ .slot = slot, .reply = *reply };
    ctx->receiver->n_with_unsent += !inbound->unsent;
    *inbound->unsent_last = unsent;
    inbound->unsent_last = &unsent->next;
}

int pgasi_verbs_send_unsent(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    int n = 0;
    for (uint32_t i = 0; i < receiver->n_inbounds && receiver->n_with_unsent > 0; i++) {
        pgasi_verbs_inbound_t *inbound = receiver->inbounds[i];
        while (inbound && inbound->unsent) {
            pgasi_verbs_unsent_t *unsent = inbound->unsent;
            if (!post_reply(ctx, inbound, unsent->slot, &unsent->reply))
                break;
            n++;
            inbound->unsent = unsent->next;
            free(unsent);
            if (!inbound->unsent) {
                inbound->unsent_last = &inbound->unsent;
                receiver->n_with_unsent--;
            }
        }
    }
    return n;
}

void pgasi_verbs_ring_replies(pgasi_verbs_receiver_t *receiver)
{
    while (receiver->to_ring) {
        pgasi_verbs_inbound_t *inbound = receiver->to_ring;
        receiver->to_ring = inbound->rung_next;
        inbound->to_ring = false;
        pgas_verbs_tx_ring(inbound->tx, false);
    }
}

/* ---- queue pairs of peers ---- */

void pgasi_verbs_close_inbound(pgasi_verbs_ctx_t *ctx, pgasi_verbs_inbound_t *inbound)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    receiver->n_leaving -= inbound->leaving;
    receiver->n_with_unsent -= inbound->unsent != NULL;
    receiver->inbounds[inbound->number] = NULL;
    if (inbound->tx)
        pgasi_verbs_ctx_tx_close(ctx, inbound->cq, inbound->tx);
    pgas_verbs_qp_destroy(inbound->qp);
    pgasi_verbs_ctx_cq_leave(ctx, PGASI_VERBS_INBOUND_DEPTH, inbound->cq);
    while (inbound->unsent) {
        pgasi_verbs_unsent_t *unsent = inbound->unsent;
        inbound->unsent = unsent->next;
        free(unsent);
    }
    free(inbound->large.data);
    free(inbound);
}

void pgasi_verbs_close_leaving(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    for (uint32_t i = 0; i < receiver->n_inbounds && receiver->n_leaving > 0; i++)
        if (receiver->inbounds[i] && receiver->inbounds[i]->leaving)
            pgasi_verbs_close_inbound(ctx, receiver->inbounds[i]);
}

void pgasi_verbs_dismiss(pgasi_verbs_ctx_t *ctx, int peer, uint32_t number)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    for (uint32_t i = 0; i < receiver->n_inbounds; i++) {
        pgasi_verbs_inbound_t *inbound = receiver->inbounds[i];
        if (inbound && inbound->rank == peer && !inbound->leaving &&
            (number == i || number == PGASI_VERBS_ALL_INBOUND)) {
            inbound->leaving = true;
            receiver->n_leaving++;
        }
    }
}

pgas_verbs_tx_t *pgasi_verbs_receiver_tx(const pgasi_verbs_ctx_t *ctx, int cq)
{
    const pgasi_verbs_receiver_t *receiver = ctx->receiver;
    for (uint32_t i = 0; i < receiver->n_inbounds; i++) {
        const pgasi_verbs_inbound_t *inbound = receiver->inbounds[i];
        if (inbound && inbound->tx && inbound->cq == cq)
            return inbound->tx;
    }
    return NULL;
}

static pgasi_verbs_inbound_t *add_inbound(pgasi_verbs_receiver_t *receiver)
{
    uint32_t i = 0;
    while (i < receiver->n_inbounds && receiver->inbounds[i])
        i++;
    if (i == receiver->n_inbounds) {
        uint32_t n = PGASI_MAX(2 * i, 16u);
        pgasi_verbs_inbound_t **inbounds = realloc(receiver->inbounds, n * sizeof inbounds[0]);
        if (!inbounds)
            return NULL;
        memset(inbounds + i, 0, (n - i) * sizeof inbounds[0]);
        receiver->inbounds = inbounds;
        receiver->n_inbounds = n;
    }
    pgasi_verbs_inbound_t *inbound = calloc(1, sizeof *inbound);
    if (inbound) {
        inbound->number = i;
        inbound->unsent_last = &inbound->unsent;
    }
    return inbound;
}

pgas_status_t pgasi_verbs_accept(pgasi_verbs_ctx_t *ctx, const pgasi_verbs_asked_t *asked,
                                 pgas_verbs_address_t *mine_p, uint32_t *inbound_p)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    if (asked->rail < 0 || asked->rail >= ctx->tp->n_rails)
        return PGAS_ERR_MISMATCH;
    pgas_status_t status = pgasi_verbs_receive_on(ctx, asked->rail);
    if (status != PGAS_OK)
        return status;
    pgasi_verbs_inbound_t *inbound = add_inbound(receiver);
    if (!inbound)
        return PGAS_ERR_NO_MEMORY;
    inbound->rank = asked->peer;
    inbound->ctx = asked->ctx;
    inbound->slots_addr = asked->slots_addr;
    inbound->slots_rkey = asked->slots_rkey;
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    status = pgasi_verbs_ctx_cq(ctx, asked->rail, PGASI_VERBS_INBOUND_DEPTH, &inbound->cq);
    if (status != PGAS_OK)
        goto free_inbound;
    opts.send_cq = ctx->cqs[inbound->cq].cq;
    opts.recv_cq = receiver->rails[asked->rail].cq;
    opts.srq = receiver->rails[asked->rail].srq;
    opts.send_depth = PGASI_VERBS_INBOUND_DEPTH;
    opts.send_spans = 1;
    opts.inline_max = sizeof(pgasi_verbs_amo_reply_t);
    status = pgas_verbs_qp_create(ctx->tp->rails[asked->rail].dev, &opts, &inbound->qp);
    if (status != PGAS_OK)
        goto leave_cq;
    status = pgas_verbs_qp_connect(inbound->qp, asked->theirs);
    if (status != PGAS_OK)
        goto close_qp;
    inbound->qp->dev->ops->qp_address(inbound->qp, mine_p);
    *inbound_p = inbound->number;
    receiver->inbounds[inbound->number] = inbound;
    return PGAS_OK;
close_qp:
    pgas_verbs_qp_destroy(inbound->qp);
leave_cq:
    pgasi_verbs_ctx_cq_leave(ctx, PGASI_VERBS_INBOUND_DEPTH, inbound->cq);
free_inbound:
    free(inbound);
    if (status != PGAS_ERR_PEER) { /* the socket of the connection manager reports a death */
        PGASI_ERROR("verbs", "connecting with context %d of rank %d failed: %s", asked->ctx,
                    asked->peer, pgas_status_text(status));
    }
    return status;
}
