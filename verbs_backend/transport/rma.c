/* Put and get. The bytes move in one of three ways. Inside of the queue entry, if they fit: the
 * operation is complete at once. Directly from or to registered memory: it is complete when its
 * number is done. Through bounce buffers: a put copies at once as long as buffers are free, a get
 * copies when the number is done. */
#include "verbs_backend/transport/inside.h"

pgas_status_t pgasi_verbs_check(pgasi_verbs_ctx_t *ctx, const pgasi_verbs_key_t *key, int peer,
                                uint64_t remote_addr, size_t bytes, pgasi_verbs_ep_t **ep_p)
{
    if (PGAS_UNLIKELY(bytes > key->bytes || remote_addr - key->base > key->bytes - bytes))
        return PGAS_ERR_RANGE;
    if (PGAS_UNLIKELY(key->peer != peer || key->ctx != ctx))
        return PGAS_ERR_INVALID;
    return pgasi_verbs_ep_get(ctx, peer, ep_p);
}

static uint64_t piece_max(const pgasi_verbs_ep_t *ep)
{
    return PGASI_MIN(ep->ctx->tp->dev->limits.message_max, PGASI_VERBS_PIECE_MAX);
}

/* Looks the key up once per operation. Small data is copied in any case. */
static void look_up(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending)
{
    if (!pending->is_looked_up) {
        pending->lkey = pending->bytes > PGASI_VERBS_SMALL
                            ? pgasi_verbs_lkey_of(ep->ctx, ep->rail, pending->local, pending->bytes)
                            : 0;
        pending->is_looked_up = true;
    }
}

static pgas_status_t put_piece(pgasi_verbs_ep_t *ep, const pgasi_verbs_pending_t *pending,
                               uint64_t bytes, uint32_t flags, pgasi_verbs_buffer_t *buffer)
{
    const char *from = buffer != NULL ? buffer->data : pending->local + pending->at;
    uint32_t lkey = buffer != NULL ? ep->ctx->buffer_mem[ep->rail].lkey : pending->lkey;
    pgas_verbs_span_t span = { (uint64_t)(uintptr_t)from, (uint32_t)bytes, lkey };
    pgas_verbs_request_t request = { .op = PGAS_VERBS_WRITE,
                                     .flags = flags,
                                     .spans = &span,
                                     .n_spans = 1,
                                     .remote_addr = pending->remote_addr + pending->at,
                                     .rkey = pending->rkey };
    return pgasi_verbs_post(ep, &request, buffer);
}

static pgas_status_t put_in_place(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending)
{
    uint64_t most = piece_max(ep);
    while (pending->at < pending->bytes) {
        uint64_t left = pending->bytes - pending->at, bytes = PGASI_MIN(left, most);
        pgas_status_t status =
            put_piece(ep, pending, bytes, bytes == left && pending->comp ? PGAS_VERBS_SIGNAL : 0,
                      NULL);
        if (status != PGAS_OK)
            return status;
        pending->at += bytes;
        pending->number = ep->posted;
    }
    return PGAS_INPROGRESS;
}

pgas_status_t pgasi_verbs_run_put(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending)
{
    if (pending->bytes <= PGASI_VERBS_INLINE)
        return put_piece(ep, pending, pending->bytes, PGAS_VERBS_INLINE, NULL);
    look_up(ep, pending);
    if (pending->lkey != 0)
        return put_in_place(ep, pending);
    while (pending->at < pending->bytes) {
        uint64_t bytes = PGASI_MIN(pending->bytes - pending->at, (uint64_t)ep->ctx->large_bytes);
        pgasi_verbs_buffer_t *buffer = pgasi_verbs_buffer_take(ep->ctx, bytes);
        if (!buffer) {
            pgasi_verbs_reclaim(ep->ctx);
            return PGAS_ERR_AGAIN;
        }
        bytes = PGASI_MIN(bytes,
                          (uint64_t)(buffer->is_large ? ep->ctx->large_bytes : PGASI_VERBS_SMALL));
        memcpy(buffer->data, pending->local + pending->at, bytes);
        pgas_status_t status = put_piece(ep, pending, bytes, 0, buffer);
        if (status != PGAS_OK)
            return status;
        pending->at += bytes;
    }
    return PGAS_OK;
}

static pgas_status_t read_into(pgasi_verbs_ep_t *ep, const pgasi_verbs_pending_t *pending, char *to,
                               uint32_t lkey, uint64_t bytes)
{
    /* The last piece of a run is signaled, because completions free the buffers. */
    bool last = pending->at + bytes == pending->bytes;
    pgas_verbs_span_t span = { (uint64_t)(uintptr_t)to, (uint32_t)bytes, lkey };
    pgas_verbs_request_t request = { .op = PGAS_VERBS_READ,
                                     .flags = last && pending->comp ? PGAS_VERBS_SIGNAL : 0,
                                     .spans = &span,
                                     .n_spans = 1,
                                     .remote_addr = pending->remote_addr + pending->at,
                                     .rkey = pending->rkey };
    return pgasi_verbs_post(ep, &request, NULL);
}

/* Posts one read into a buffer. A pending operation of its own copies the data out. */
static pgas_status_t get_piece(pgasi_verbs_ep_t *ep, const pgasi_verbs_pending_t *pending,
                               uint64_t bytes)
{
    pgasi_verbs_ctx_t *ctx = ep->ctx;
    pgasi_verbs_pending_t *piece = pgasi_pool_acquire(&ctx->pieces);
    pgasi_verbs_buffer_t *buffer = piece != NULL ? pgasi_verbs_buffer_take(ctx, bytes) : NULL;
    pgas_status_t status = PGAS_ERR_AGAIN;
    if (!buffer)
        pgasi_verbs_reclaim(ctx);
    else
        status = read_into(ep, pending, buffer->data, ctx->buffer_mem[ep->rail].lkey, bytes);
    if (status == PGAS_OK) {
        *piece = (pgasi_verbs_pending_t){ .kind = PGASI_VERBS_PENDING_PIECE,
                                          .number = ep->posted,
                                          .local = pending->local + pending->at,
                                          .bytes = bytes,
                                          .u.buffer = buffer };
        pgasi_verbs_queue_add(&ep->in_flight, piece);
        return PGAS_OK;
    }
    if (buffer)
        pgasi_verbs_buffer_give(ctx, buffer);
    if (piece)
        pgasi_pool_release(&ctx->pieces, piece);
    return status;
}

pgas_status_t pgasi_verbs_run_get(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending)
{
    look_up(ep, pending);
    uint64_t most = pending->lkey != 0 ? piece_max(ep) : ep->ctx->large_bytes;
    while (pending->at < pending->bytes) {
        uint64_t bytes = PGASI_MIN(pending->bytes - pending->at, most);
        pgas_status_t status =
            pending->lkey != 0
                ? read_into(ep, pending, pending->local + pending->at, pending->lkey, bytes)
                : get_piece(ep, pending, bytes);
        if (status != PGAS_OK)
            return status;
        pending->at += bytes;
        pending->number = ep->posted;
    }
    return PGAS_INPROGRESS;
}

static pgas_status_t transfer(pgasi_verbs_pending_kind_t kind, pgasi_tp_ctx_t *tp_ctx, int peer,
                              pgasi_tp_key_t *tp_key, uint64_t remote_addr, char *local,
                              size_t bytes, pgasi_tp_comp_t *comp)
{
    const pgasi_verbs_key_t *key = pgasi_verbs_key_of(tp_key);
    pgasi_verbs_ep_t *ep;
    pgas_status_t status =
        pgasi_verbs_check(pgasi_verbs_ctx_of(tp_ctx), key, peer, remote_addr, bytes, &ep);
    if (PGAS_UNLIKELY(status != PGAS_OK || bytes == 0))
        return status;
    pgasi_verbs_pending_t pending = { .kind = kind,
                                      .comp = comp,
                                      .remote_addr = remote_addr,
                                      .rkey = key->rkeys[ep->rail],
                                      .local = local,
                                      .bytes = bytes };
    return pgasi_verbs_submit(ep, &pending);
}

pgas_status_t pgasi_verbs_put(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                              uint64_t remote_addr, const void *src, size_t bytes,
                              pgasi_tp_comp_t *comp)
{
    return transfer(PGASI_VERBS_PENDING_PUT, ctx, peer, key, remote_addr, (char *)(uintptr_t)src,
                    bytes, comp);
}

pgas_status_t pgasi_verbs_get(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                              uint64_t remote_addr, void *dst, size_t bytes, pgasi_tp_comp_t *comp)
{
    return transfer(PGASI_VERBS_PENDING_GET, ctx, peer, key, remote_addr, dst, bytes, comp);
}
