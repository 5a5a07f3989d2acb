/* Sending to other nodes: by puts through a channel, or by messages until there is one. */
#include "msg/send.h"

/* After ask_at messages a sender asks for a channel. A message that ended with PGAS_ERR_AGAIN does
 * not count. */
static inline void count_message(pgasi_sendq_t *sq, out_t *out, pgas_status_t status)
{
    if (status != PGAS_ERR_AGAIN && PGAS_UNLIKELY(++out->n_messages == out->ask_at))
        pgasi_far_channel_ask(sq, out);
}

pgas_status_t pgasi_far_publish(pgasi_sendq_t *sq, out_t *out, buffer_t *buffer)
{
    if (out->kind == OUT_PUT)
        return pgasi_far_channel_put(sq, out, buffer, buffer->used, true);
    if (PGAS_UNLIKELY(out->ep && pgasi_far_is_stopped(sq, out)))
        return PGAS_ERR_AGAIN;
    pgas_status_t status = pgasi_far_message(sq, out, out->ep, buffer);
    count_message(sq, out, status);
    return status;
}

pgas_status_t pgasi_far_send(pgasi_sendq_t *sq, out_t *out, buffer_t *buffer, size_t bytes)
{
    if (out->kind == OUT_PUT) {
        sq->free_buffers = buffer->next;
        pgas_status_t put = pgasi_far_channel_put(sq, out, buffer, bytes, false);
        if (put == PGAS_ERR_AGAIN)
            buffer_release(buffer);
        return put;
    }
    pgas_status_t status = pgasi_far_send_message(sq, out, out->ep, buffer, bytes);
    if (status == PGAS_INPROGRESS) {
        sq->free_buffers = buffer->next;
        status = PGAS_OK;
    }
    count_message(sq, out, status);
    return status;
}
