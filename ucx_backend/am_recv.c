/* Receives active messages, on context 0. A small message in order is delivered in place, or copied
 * if the consumer may keep data that UCX will reuse. That costs a table look-up more than UCX's own
 * callback. A message that arrives early, because an earlier one is large and unfinished, waits in
 * a list of its sender, sorted by number. The sender bounds the list (PGASI_UCX_AHEAD_MAX). All
 * input is checked. Messages with another job's cookie, an invalid rank or context, or an
 * impossible number are dropped and counted; the first one is logged. */
#include "ucx_backend/am_recv.h"

#include <stdlib.h>
#include "base/log.h"

/* The gate is open. */
static inline bool deliver(const pgasi_ucx_source_t *source, const void *header,
                           size_t header_bytes, void *data, size_t bytes)
{
    pgasi_ucx_ctx_t *ctx = source->ctx;
    const pgasi_tp_am_t am = { .header = header,
                               .header_bytes = header_bytes,
                               .data = data,
                               .data_bytes = bytes,
                               .source = source->rank };
    ctx->gate = PGASI_UCX_GATE_DELIVERING;
    bool kept = ctx->rx->am_fn(ctx->rx->arg, &am);
    ctx->gate = 0;
    return kept;
}

/* Delivers waiting messages whose turn it is. */
static int deliver_held(pgasi_ucx_source_t *source)
{
    pgasi_ucx_ctx_t *ctx = source->ctx;
    int n_delivered = 0;
    while (source->held && source->held->number == source->next_number && source->held->complete &&
           ctx->gate == 0) {
        pgasi_ucx_held_t *held = source->held;
        source->held = held->next;
        source->next_number++;
        bool kept = !held->skip &&
                    deliver(source, held->header, held->header_bytes, held->data, held->bytes);
        pgasi_ucx_free_held(ctx, held, !kept);
        n_delivered++;
    }
    return n_delivered;
}

/* Delivers now if the gate is open, otherwise in the next progress call. */
static void deliver_or_wait(pgasi_ucx_source_t *source)
{
    if (source->ctx->gate == 0)
        deliver_held(source);
    else
        source->ctx->n_ready++;
}

static void received(void *request, ucs_status_t status, size_t length, void *user_data)
{
    pgasi_ucx_held_t *held = user_data;
    pgasi_ucx_ctx_t *ctx = held->ctx;
    (void)length;
    pgasi_ucx_lib.ucp_request_free(request);
    held->complete = true;
    if (!held->source) { /* a later opening of its context has replaced this one */
        pgasi_ucx_free_held(ctx, held, true);
        return;
    }
    if (status != UCS_OK && pgasi_ucx_repeats(ctx)) { /* the sender repeats it */
        pgasi_ucx_held_t **at = &held->source->held;
        while (*at != held)
            at = &(*at)->next;
        *at = held->next;
        pgasi_ucx_free_held(ctx, held, true);
        return;
    }
    if (status != UCS_OK) {
        held->skip = true;
        pgasi_ucx_drop(ctx->rx, pgasi_ucx_lib.ucs_status_string(status), 0);
    }
    deliver_or_wait(held->source);
}

/* Fetches the data of a rendezvous into a buffer. */
static ucs_status_t fetch(pgasi_ucx_held_t *held, void *desc, size_t bytes)
{
    pgasi_ucx_ctx_t *ctx = held->ctx;
    held->bytes = bytes;
    if (bytes <= ctx->rx->data_max)
        held->data = pgasi_ucx_buffer_acquire(&ctx->rx->buffers, bytes);
    if (!held->data) {
        if (ctx->rx->n_too_large++ == 0) {
            PGASI_WARN("ucx",
                       "dropped a message of %zu bytes (limit %zu); further ones are only counted",
                       bytes, ctx->rx->data_max);
        }
        held->complete = held->skip = true;
        return UCS_OK;
    }
    ucp_request_param_t param;
    memset(&param, 0, sizeof param);
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.recv_am = received;
    param.user_data = held;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    ucs_status_ptr_t ptr =
        pgasi_ucx_lib.ucp_am_recv_data_nbx(ctx->worker, desc, held->data, bytes, &param);
    if (UCS_PTR_IS_PTR(ptr))
        return UCS_INPROGRESS;
    held->complete = true;
    held->skip = ptr != NULL;
    return UCS_OK;
}

/* It is not this message's turn, or its data has not arrived yet. */
static ucs_status_t on_late(pgasi_ucx_source_t *source, uint32_t ahead, uint32_t behind,
                            const void *header, size_t header_bytes, void *data, size_t bytes,
                            uint64_t attr)
{
    pgasi_ucx_ctx_t *ctx = source->ctx;
    pgasi_ucx_held_t *held = NULL;
    if (behind > 0 && behind <= PGASI_UCX_REORDER_MAX &&
        pgasi_ucx_repeats(ctx)) /* it was delivered before */
        return UCS_OK;
    if (ahead < PGASI_UCX_REORDER_MAX)
        held = pgasi_ucx_hold(source, source->next_number + ahead, header, header_bytes);
    if (!held && ahead < PGASI_UCX_REORDER_MAX && pgasi_ucx_repeats(ctx))
        return UCS_OK;
    if (!held) {
        pgasi_ucx_drop(ctx->rx, "its number is impossible: another job's, or a fault", 0);
        return UCS_OK;
    }
    ucs_status_t status = UCS_OK;
    if ((attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
        status = fetch(held, data, bytes);
    } else {
        held->complete = true;
        held->bytes = bytes;
        held->ucx_data = (attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0;
        held->data = held->ucx_data ? data : pgasi_ucx_buffer_acquire(&ctx->rx->buffers, bytes);
        held->skip = !held->data || bytes > ctx->rx->data_max;
        if (held->ucx_data)
            status = UCS_INPROGRESS;
        else if (held->data)
            memcpy(held->data, data, bytes);
    }
    deliver_or_wait(source);
    return status;
}

/* The common case: the message is in order and complete. */
static inline ucs_status_t on_time(pgasi_ucx_source_t *source, const void *header,
                                   size_t header_bytes, void *data, size_t bytes, uint64_t attr)
{
    pgasi_ucx_ctx_t *ctx = source->ctx;
    ucs_status_t status = UCS_OK;
    source->next_number++;
    if (PGAS_UNLIKELY(bytes > ctx->rx->data_max)) {
        pgasi_ucx_drop(ctx->rx, "larger than the limit", 0);
    } else if (ctx->rx->in_passing) {
        deliver(source, header, header_bytes, data, bytes);
    } else if ((attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0) {
        status = deliver(source, header, header_bytes, data, bytes) ? UCS_INPROGRESS : UCS_OK;
    } else {
        void *copy = pgasi_ucx_buffer_borrow(&ctx->rx->buffers, bytes);
        if (!copy) {
            pgasi_ucx_drop(ctx->rx, "no memory is left", 0);
        } else {
            pgasi_ucx_copy(copy, data, bytes);
            if (deliver(source, header, header_bytes, copy, bytes))
                pgasi_ucx_buffer_keep(&ctx->rx->buffers, copy);
            else
                pgasi_ucx_buffer_return(&ctx->rx->buffers, copy);
        }
    }
    if (PGAS_UNLIKELY(source->held))
        deliver_or_wait(source);
    return status;
}

/* Handles a message of either form, after its prefix was read. */
static inline ucs_status_t on_am(pgasi_ucx_ctx_t *ctx, uint32_t packed, uint32_t number,
                                 uint32_t number_mask, const void *header, size_t header_bytes,
                                 void *data, size_t bytes, uint64_t attr)
{
    pgasi_ucx_rx_t *rx = ctx->rx;
    if (PGAS_UNLIKELY(packed != rx->last_packed || !rx->last)) {
        pgasi_ucx_source_t *source = pgasi_ucx_find_source(ctx, packed);
        if (!source) {
            pgasi_ucx_drop(rx, "there is no such rank or context", packed);
            return UCS_OK;
        }
        rx->last_packed = packed;
        rx->last = source;
    }
    if (PGAS_LIKELY(((number ^ rx->last->next_number) & number_mask) == 0 &&
                    (attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0 && ctx->gate == 0))
        return on_time(rx->last, header, header_bytes, data, bytes, attr);
    uint32_t ahead = (number - rx->last->next_number) & number_mask;
    uint32_t behind = (rx->last->next_number - number) & number_mask;
    return (ctx->gate & PGASI_UCX_GATE_STOPPED) != 0
               ? UCS_OK
               : on_late(rx->last, ahead, behind, header, header_bytes, data, bytes, attr);
}

/* Whether a prefix and a header of valid size have arrived; otherwise the message is dropped. */
static inline bool has_header(pgasi_ucx_rx_t *rx, size_t bytes, size_t prefix_bytes)
{
    bool valid = bytes >= prefix_bytes && bytes <= prefix_bytes + PGASI_TP_AM_HEADER_MAX;
    if (PGAS_UNLIKELY(!valid))
        pgasi_ucx_drop(rx, "its header is malformed", 0);
    return valid;
}

static ucs_status_t on_compact(void *arg, const void *header, size_t header_bytes, void *data,
                               size_t bytes, const ucp_am_recv_param_t *param)
{
    pgasi_ucx_ctx_t *ctx = arg;
    uint32_t word;
    if (PGAS_UNLIKELY(!has_header(ctx->rx, header_bytes, sizeof word)))
        return UCS_OK;
    memcpy(&word, header, sizeof word);
    word ^= ctx->rx->cookie;
    uint32_t source = word >> PGASI_UCX_NUMBER_BITS, rank = source & ctx->rx->rank_mask;
    uint32_t packed = rank | source >> ctx->tp->rank_bits << PGASI_UCX_RANK_BITS;
    return on_am(ctx, packed, word, (1u << PGASI_UCX_NUMBER_BITS) - 1,
                 (const char *)header + sizeof word, header_bytes - sizeof word, data, bytes,
                 param->recv_attr);
}

static ucs_status_t on_long(void *arg, const void *header, size_t header_bytes, void *data,
                            size_t bytes, const ucp_am_recv_param_t *param)
{
    pgasi_ucx_ctx_t *ctx = arg;
    pgasi_ucx_am_prefix_t prefix;
    if (PGAS_UNLIKELY(!has_header(ctx->rx, header_bytes, sizeof prefix)))
        return UCS_OK;
    memcpy(&prefix, header, sizeof prefix);
    return on_am(ctx, prefix.source, prefix.number ^ ctx->rx->cookie, UINT32_MAX,
                 (const char *)header + sizeof prefix, header_bytes - sizeof prefix, data, bytes,
                 param->recv_attr);
}

int pgasi_ucx_rx_deliver(pgasi_ucx_ctx_t *ctx)
{
    int n_delivered = 0;
    ctx->n_ready = 0;
    const pgasi_ucx_sender_t *self = ctx->rx->senders[ctx->tp->opts.rank];
    for (uint32_t i = 0; self != NULL && i < self->n_sources; i++)
        n_delivered += self->sources[i] != NULL ? deliver_held(self->sources[i]) : 0;
    return n_delivered;
}

static ucs_status_t set_handler(pgasi_ucx_ctx_t *ctx, unsigned id, ucp_am_recv_callback_t handler)
{
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = id,
        .cb = handler,
        .arg = ctx,
    };
    return pgasi_ucx_lib.ucp_worker_set_am_recv_handler(ctx->worker, &param);
}

pgas_status_t pgasi_ucx_rx_open(pgasi_ucx_ctx_t *ctx)
{
    pgasi_ucx_rx_t *rx = calloc(1, sizeof *rx);
    if (!rx)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = PGAS_ERR_NO_MEMORY;
    rx->senders = calloc((size_t)ctx->tp->opts.n_ranks, sizeof rx->senders[0]);
    if (!rx->senders)
        goto free_rx;
    status = pgasi_ucx_buffers_init(&rx->buffers);
    if (status != PGAS_OK)
        goto free_senders;
    pgasi_pool_init(&rx->held, sizeof(pgasi_ucx_held_t), 0, 64, 0);
    rx->am_fn = ctx->tp->opts.am_fn;
    rx->arg = ctx->tp->opts.arg;
    rx->data_max = PGASI_MAX(ctx->tp->opts.am_data_max, ctx->tp->am_bulk_max);
    rx->in_passing = ctx->tp->opts.am_in_passing;
    rx->cookie = ctx->tp->cookie;
    rx->rank_mask = (1u << ctx->tp->rank_bits) - 1;
    ctx->rx = rx;
    ucs_status_t ucs = set_handler(ctx, PGASI_UCX_AM_COMPACT, on_compact);
    if (ucs == UCS_OK)
        ucs = set_handler(ctx, PGASI_UCX_AM_LONG, on_long);
    if (ucs == UCS_OK)
        return PGAS_OK;
    status = pgasi_ucx_failed(ucs, "installing the handler of active messages", NULL);
    ctx->rx = NULL;
    pgasi_ucx_buffers_fini(&rx->buffers);
free_senders:
    free(rx->senders);
free_rx:
    free(rx);
    return status;
}

void pgasi_ucx_rx_stop(pgasi_ucx_ctx_t *ctx)
{
    pgasi_ucx_rx_t *rx = ctx->rx;
    for (int rank = 0; rx != NULL && rank < ctx->tp->opts.n_ranks; rank++) {
        pgasi_ucx_sender_t *sender = rx->senders[rank];
        for (uint32_t i = 0; sender != NULL && i < sender->n_sources; i++) {
            pgasi_ucx_held_t *held = sender->sources[i] != NULL ? sender->sources[i]->held : NULL;
            for (; held != NULL; held = held->next) {
                if (held->ucx_data && held->data) {
                    pgasi_ucx_lib.ucp_am_data_release(ctx->worker, held->data);
                    held->data = NULL;
                }
            }
        }
    }
    ctx->gate = PGASI_UCX_GATE_STOPPED;
}

void pgasi_ucx_rx_close(pgasi_ucx_ctx_t *ctx)
{
    pgasi_ucx_rx_t *rx = ctx->rx;
    if (!rx)
        return;
    for (int rank = 0; rank < ctx->tp->opts.n_ranks; rank++) {
        pgasi_ucx_sender_t *sender = rx->senders[rank];
        for (uint32_t i = 0; sender != NULL && i < sender->n_sources; i++)
            free(sender->sources[i]);
        free(sender);
    }
    pgasi_pool_fini(&rx->held);
    pgasi_ucx_buffers_fini(&rx->buffers);
    free(rx->senders);
    free(rx);
    ctx->rx = NULL;
}

void pgasi_ucx_am_release(pgasi_tp_ctx_t *tp_ctx, void *data)
{
    pgasi_ucx_ctx_t *ctx = pgasi_ucx_ctx_of(tp_ctx);
    if (!pgasi_ucx_buffer_release(&ctx->rx->buffers, data))
        pgasi_ucx_lib.ucp_am_data_release(ctx->worker, data);
}
