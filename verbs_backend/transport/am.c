/* Sends active messages, by SENDs into the receive buffers of the peer's context 0. Small messages
 * are inside of the queue entry. A message that is larger than a receive buffer is sent in pieces,
 * one after the other on the same queue pair; the receiver assembles them. The queue pair keeps
 * messages of a context to a peer in order. */
#include "verbs_backend/transport/inside.h"

#define PREFIX sizeof(pgasi_verbs_prefix_t)

/* Writes the next piece of a message. @return its bytes */
static size_t pack(const pgasi_verbs_ep_t *ep, const pgasi_verbs_pending_t *pending, char *to,
                   uint64_t data_bytes)
{
    pgasi_verbs_prefix_t prefix = {
        .cookie = ep->cookie,
        .inbound = ep->inbound,
        .kind = pending->header_sent ? PGASI_VERBS_MORE : PGASI_VERBS_MESSAGE,
        .header_bytes = pending->header_sent ? 0 : pending->header_bytes,
        .bytes = (uint32_t)pending->bytes
    };
    size_t at = PREFIX;
    memcpy(to, &prefix, PREFIX);
    if (!pending->header_sent) {
        memset(to + PREFIX, 0, PGASI_ALIGN_UP(pending->header_bytes, 8));
        memcpy(to + PREFIX, pending->u.header, pending->header_bytes);
        at += PGASI_ALIGN_UP(pending->header_bytes, 8);
    }
    if (data_bytes > 0)
        memcpy(to + at, pending->local + pending->at, data_bytes);
    return at + data_bytes;
}

static pgas_status_t send(pgasi_verbs_ep_t *ep, const char *from, size_t bytes,
                          pgasi_verbs_buffer_t *buffer)
{
    pgas_verbs_span_t span = { (uint64_t)(uintptr_t)from, (uint32_t)bytes,
                               buffer != NULL ? ep->ctx->buffer_mem[ep->rail].lkey : 0 };
    pgas_verbs_request_t request = { .op = PGAS_VERBS_SEND,
                                     .flags = buffer != NULL ? 0 : PGAS_VERBS_INLINE,
                                     .spans = &span,
                                     .n_spans = 1 };
    return pgasi_verbs_post(ep, &request, buffer);
}

pgas_status_t pgasi_verbs_run_message(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending)
{
    do {
        size_t header = pending->header_sent ? 0 : PGASI_ALIGN_UP(pending->header_bytes, 8);
        uint64_t data = PGASI_MIN(pending->bytes - pending->at, ep->message_bytes - header);
        size_t bytes = PREFIX + header + data;
        char in_place[PGASI_VERBS_INLINE];
        pgasi_verbs_buffer_t *buffer = NULL;
        if (bytes > sizeof in_place) {
            buffer = pgasi_verbs_buffer_take(ep->ctx, bytes);
            if (!buffer) {
                pgasi_verbs_reclaim(ep->ctx);
                return PGAS_ERR_AGAIN;
            }
        }
        char *to = buffer != NULL ? buffer->data : in_place;
        pgas_status_t status = send(ep, to, pack(ep, pending, to, data), buffer);
        if (status != PGAS_OK)
            return status;
        pending->header_sent = true;
        pending->at += data;
    } while (pending->at < pending->bytes);
    return PGAS_OK;
}

pgas_status_t pgasi_verbs_am(pgasi_tp_ctx_t *tp_ctx, int peer, const void *header,
                             size_t header_bytes, const void *data, size_t bytes,
                             pgasi_tp_comp_t *comp)
{
    pgasi_verbs_ctx_t *ctx = pgasi_verbs_ctx_of(tp_ctx);
    pgasi_verbs_ep_t *ep;
    pgas_status_t status = pgasi_verbs_ep_get(ctx, peer, &ep);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (PGAS_UNLIKELY(header_bytes > PGASI_TP_AM_HEADER_MAX || bytes > UINT32_MAX))
        return PGAS_ERR_LIMIT;
    pgasi_verbs_pending_t pending = { .kind = PGASI_VERBS_PENDING_MESSAGE,
                                      .comp = comp,
                                      .local = (char *)(uintptr_t)data,
                                      .bytes = bytes,
                                      .header_bytes = (uint8_t)header_bytes };
    if (header_bytes > 0)
        memcpy(pending.u.header, header, header_bytes);
    return pgasi_verbs_submit(ep, &pending);
}
