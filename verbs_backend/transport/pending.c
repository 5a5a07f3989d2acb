/* Pending operations. They begin at once where that is possible; otherwise progress begins them in
 * order. An operation in flight ends when its number is done. Completions of the caller run only in
 * progress: the transmitter's advance function, which may run inside of a post, only stores
 * numbers. */
#include "verbs_backend/transport/inside.h"

void pgasi_verbs_advanced(void *arg, pgas_verbs_tx_t *tx, uint64_t done, pgas_status_t status)
{
    pgasi_verbs_ep_t *ep = arg;
    (void)tx;
    if (status != PGAS_OK && ep->broken == PGAS_OK) {
        ep->broken = status;
        /* the requests have failed; their buffers become free when the queue pair is closed */
        return;
    }
    ep->done = done;
    while (ep->buffers && ep->buffers->number <= done) {
        pgasi_verbs_buffer_t *buffer = ep->buffers;
        ep->buffers = buffer->next;
        pgasi_verbs_buffer_give(ep->ctx, buffer);
    }
    if (!ep->buffers)
        ep->buffers_last = &ep->buffers;
}

pgas_status_t pgasi_verbs_post(pgasi_verbs_ep_t *ep, const pgas_verbs_request_t *request,
                               pgasi_verbs_buffer_t *buffer)
{
    uint64_t number;
    pgas_status_t status = pgas_verbs_tx_post(ep->tx, request, &number);
    if (PGAS_LIKELY(status == PGAS_OK)) {
        ep->posted = number;
        if (buffer) {
            buffer->number = number;
            buffer->next = NULL;
            *ep->buffers_last = buffer;
            ep->buffers_last = &buffer->next;
        }
        return PGAS_OK;
    }
    if (buffer)
        pgasi_verbs_buffer_give(ep->ctx, buffer);
    if (status != PGAS_ERR_AGAIN && ep->broken == PGAS_OK)
        ep->broken = status;
    /* progress ends a broken endpoint, with a status that says whether the peer has died */
    return PGAS_ERR_AGAIN;
}

void pgasi_verbs_reclaim(pgasi_verbs_ctx_t *ctx)
{
    for (pgasi_verbs_ep_t *ep = ctx->active_eps; ep != NULL; ep = ep->active_next)
        if (ep->state == PGASI_VERBS_EP_READY && ep->done < ep->posted)
            pgas_verbs_tx_ring(ep->tx, true);
}

/* A flush has reached the front of the queue, so all earlier operations are posted. */
static pgas_status_t run_flush(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending)
{
    pending->number = ep->posted;
    pgas_status_t status = ep->done < ep->posted ? pgas_verbs_tx_ring(ep->tx, true) : PGAS_OK;
    if (status != PGAS_OK && status != PGAS_ERR_AGAIN && ep->broken == PGAS_OK)
        ep->broken = status;
    return status == PGAS_OK ? PGAS_INPROGRESS : PGAS_ERR_AGAIN;
}

static pgas_status_t run(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending)
{
    switch (pending->kind) {
    case PGASI_VERBS_PENDING_PUT:
        return pgasi_verbs_run_put(ep, pending);
    case PGASI_VERBS_PENDING_GET:
        return pgasi_verbs_run_get(ep, pending);
    case PGASI_VERBS_PENDING_AMO:
        return pgasi_verbs_run_amo(ep, pending);
    case PGASI_VERBS_PENDING_AMO_REQUEST:
        return pgasi_verbs_run_amo_request(ep, pending);
    case PGASI_VERBS_PENDING_MESSAGE:
        return pgasi_verbs_run_message(ep, pending);
    case PGASI_VERBS_PENDING_FLUSH:
        return run_flush(ep, pending);
    case PGASI_VERBS_PENDING_PIECE:
        break;
    }
    return PGAS_ERR_INTERNAL;
}

/* Puts an operation whose requests are all posted into the queue in which it awaits its end. */
static void add_in_flight(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending)
{
    pgasi_verbs_queue_add(pending->kind == PGASI_VERBS_PENDING_AMO_REQUEST ? &ep->requested
                                                                           : &ep->in_flight,
                          pending);
}

pgas_status_t pgasi_verbs_submit(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending)
{
    pgas_status_t status = PGAS_ERR_AGAIN;
    pgasi_verbs_ctx_t *ctx = ep->ctx;
    /* room is reserved first, because an operation that has begun cannot be refused */
    pgasi_verbs_pending_t *kept = pgasi_pool_acquire(&ctx->pending_pool);
    if (PGAS_UNLIKELY(!kept))
        return PGAS_ERR_AGAIN;
    bool is_request = pending->kind == PGASI_VERBS_PENDING_AMO_REQUEST,
         reports = pending->comp || pending->kind == PGASI_VERBS_PENDING_FLUSH;
    pending->after = ep->fence;
    if (!ep->active)
        pgasi_verbs_ep_activate(ep);
    if (PGAS_LIKELY(!ep->waiting.first && ep->state == PGASI_VERBS_EP_READY &&
                    ep->n_replied >= pending->after && ep->broken == PGAS_OK)) {
        status = run(ep, pending);
        pgas_verbs_tx_ring(ep->tx, false);
    }
    if (PGAS_UNLIKELY(status < 0 && status != PGAS_ERR_AGAIN)) {
        if (pending->slot != 0)
            pgasi_verbs_slot_give(ctx, pending->slot);
        pgasi_pool_release(&ctx->pending_pool, kept);
        return status;
    }
    ep->n_requested += is_request;
    ep->has_data |= is_request || pending->kind == PGASI_VERBS_PENDING_PUT ||
                    pending->kind == PGASI_VERBS_PENDING_AMO;
    if (status == PGAS_OK || (status == PGAS_INPROGRESS && !is_request && !reports &&
                              pending->kind != PGASI_VERBS_PENDING_AMO)) {
        pgasi_pool_release(&ctx->pending_pool, kept);
        return status;
    }
    *kept = *pending;
    if (status == PGAS_INPROGRESS) {
        add_in_flight(ep, kept);
        if (!is_request || pending->u.amo.result)
            return PGAS_INPROGRESS;
        kept->comp = NULL; /* the operand was copied, so the operation is locally complete */
        return PGAS_OK;
    }
    pgasi_verbs_queue_add(&ep->waiting, kept);
    return PGAS_INPROGRESS;
}

void pgasi_verbs_finish(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending, pgas_status_t status)
{
    pgasi_verbs_ctx_t *ctx = ep->ctx;
    pgasi_tp_comp_t *comp = pending->comp;
    switch (pending->kind) {
    case PGASI_VERBS_PENDING_PIECE:
        if (status == PGAS_OK)
            memcpy(pending->local, pending->u.buffer->data, pending->bytes);
        pgasi_verbs_buffer_give(ctx, pending->u.buffer);
        pgasi_pool_release(&ctx->pieces, pending);
        return;
    case PGASI_VERBS_PENDING_AMO:
    case PGASI_VERBS_PENDING_AMO_REQUEST:
        if (status == PGAS_OK)
            pgasi_amo_store(pending->u.amo.result, pending->bytes,
                            __atomic_load_n(&ctx->slots[pending->slot].result, __ATOMIC_RELAXED));
        if (pending->slot != 0)
            pgasi_verbs_slot_give(ctx, pending->slot);
        break;
    case PGASI_VERBS_PENDING_FLUSH: {
        pgasi_verbs_flush_t *flush = pending->u.flush.flush;
        pgasi_pool_release(&ctx->pending_pool, pending);
        /* messages have completions of their own */
        pgasi_verbs_part_done(ctx, flush, flush->of_all && !ep->has_data ? PGAS_OK : status);
        return;
    }
    case PGASI_VERBS_PENDING_PUT:
    case PGASI_VERBS_PENDING_GET:
    case PGASI_VERBS_PENDING_MESSAGE:
        break;
    }
    pgasi_pool_release(&ctx->pending_pool, pending);
    pgasi_verbs_complete(ctx, comp, status);
}

/* Completes operations in flight whose numbers are done. */
static int complete_in_flight(pgasi_verbs_ep_t *ep)
{
    int n = 0;
    while (ep->in_flight.first && ep->in_flight.first->number <= ep->done &&
           ep->state == PGASI_VERBS_EP_READY) {
        pgasi_verbs_pending_t *pending = pgasi_verbs_queue_take(&ep->in_flight);
        n++;
        if (pending->kind == PGASI_VERBS_PENDING_FLUSH &&
            ep->n_replied < pending->u.flush.n_replied)
            pgasi_verbs_queue_add(&ep->flushes, pending);
        else
            pgasi_verbs_finish(ep, pending, PGAS_OK);
    }
    while (ep->flushes.first && ep->n_replied >= ep->flushes.first->u.flush.n_replied) {
        pgasi_verbs_finish(ep, pgasi_verbs_queue_take(&ep->flushes), PGAS_OK);
        n++;
    }
    return n;
}

/* Begins waiting operations as long as there is room. A completion that runs here may add to the
 * queue. */
static int begin_waiting(pgasi_verbs_ep_t *ep)
{
    int n = 0;
    while (ep->waiting.first && ep->state == PGASI_VERBS_EP_READY && ep->broken == PGAS_OK) {
        pgasi_verbs_pending_t *pending = ep->waiting.first;
        uint64_t posted = ep->posted;
        if (ep->n_replied < pending->after)
            break;
        pgas_status_t status = run(ep, pending);
        n += ep->posted != posted;
        if (status < 0)
            break; /* no room; or the connection has ended, and the whole queue will fail */
        pgasi_verbs_queue_take(&ep->waiting);
        n++;
        if (status == PGAS_OK || (!pending->comp && (pending->kind == PGASI_VERBS_PENDING_PUT))) {
            pgasi_verbs_finish(ep, pending, PGAS_OK);
        } else if (pending->kind == PGASI_VERBS_PENDING_AMO_REQUEST && !pending->u.amo.result) {
            pgasi_tp_comp_t *comp = pending->comp;
            pending->comp = NULL;
            add_in_flight(ep, pending);
            pgasi_verbs_complete(ep->ctx, comp, PGAS_OK);
        } else {
            add_in_flight(ep, pending);
        }
    }
    return n;
}

static const char *why_broken(const pgasi_verbs_ep_t *ep, bool left)
{
    switch (ep->broken) {
    case PGAS_ERR_PEER:
        if (left)
            return "it has left";
        return ep->tx ? "its card does not answer" : "it could not be reached";
    case PGAS_ERR_RANGE:
        return "it refused an access to memory that was released, or never registered";
    default:
        return pgas_status_text(ep->broken);
    }
}

/* @return the status with which the endpoint ends; PGAS_INPROGRESS: it is not known yet whether its
 *          peer has died */
static pgas_status_t judge(const pgasi_verbs_ep_t *ep, bool left)
{
    pgasi_verbs_tp_t *tp = ep->ctx->tp;
    pgas_status_t end = pgasi_verbs_end_of(tp, ep->peer);
    if (end != PGAS_OK)
        return end;
    const char *why = why_broken(ep, left);
    if (left || !tp->opts.suspect_fn) {
        pgasi_verbs_peer_gone(tp, ep->peer, why);
        return PGAS_ERR_PEER;
    }
    if (ep->broken == PGAS_ERR_PEER) {
        pgasi_verbs_lost_add(tp, ep->peer, false, why);
        return PGAS_INPROGRESS;
    }
    if (pgasi_verbs_has_died(tp, ep->peer)) {
        pgasi_verbs_peer_gone(tp, ep->peer, why);
        return PGAS_ERR_PEER;
    }
    /* the peer's card has answered, so there is nothing to wait for */
    pgasi_verbs_unreachable(tp, ep->peer, why);
    return PGAS_ERR_TRANSPORT;
}

int pgasi_verbs_ep_progress(pgasi_verbs_ep_t *ep)
{
    int n = 0;
    bool left =
        (__atomic_load_n(&ep->ctx->tp->dead[ep->peer], __ATOMIC_ACQUIRE) & PGASI_VERBS_LEFT) != 0;
    if (PGAS_UNLIKELY(ep->state == PGASI_VERBS_EP_CONNECTING))
        n += pgasi_verbs_ep_connect(ep);
    if (PGAS_UNLIKELY(pgasi_verbs_end_of(ep->ctx->tp, ep->peer) != PGAS_OK ||
                      ep->broken != PGAS_OK) &&
        ep->state != PGASI_VERBS_EP_DEAD) {
        pgas_status_t status = judge(ep, left);
        /* RANGE is an error of a peer's memory, not of a device */
        if (status == PGAS_ERR_TRANSPORT && ep->broken != PGAS_OK && ep->broken != PGAS_ERR_RANGE)
            pgasi_verbs_rail_failed(ep->ctx->tp, ep->rail);
        if (status != PGAS_INPROGRESS) {
            pgasi_verbs_ep_fail(ep, status);
            n++;
        }
        return n;
    }
    if (ep->state != PGASI_VERBS_EP_READY)
        return n;
    n += pgasi_verbs_take_replies(ep);
    if (PGAS_UNLIKELY(left && ep->requested.first && ep->broken == PGAS_OK)) {
        /* the peer sends no further replies, even if its card has accepted the requests */
        ep->broken = PGAS_ERR_PEER;
        return n + 1;
    }
    n += complete_in_flight(ep);
    if (ep->waiting.first) {
        n += begin_waiting(ep);
        pgas_verbs_tx_ring(ep->tx, false);
    }
    if (pgasi_verbs_ep_is_idle(ep))
        pgasi_verbs_ep_deactivate(ep);
    return n;
}
