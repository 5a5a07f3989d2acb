/* Receives active messages, on context 0. A small message in order is delivered in place, or copied
 * if the consumer may keep data that UCX will reuse. That costs a table look-up more than UCX's own
 * callback. A message that arrives early, because an earlier one is large and unfinished, waits in
 * a list of its sender, sorted by number. The sender bounds the list (PGASI_UCX_AHEAD_MAX). All
 * input is checked. Messages with another job's cookie, an invalid rank or context, or an
 * impossible number are dropped and counted; the first one is logged. */
#include "ucx_backend/ucx.h"

#include <stdlib.h>
#include "ucx_backend/buffers.h"

/** A message that waits for its data, for its turn, or for both. */
typedef struct held {
    struct held *next;
    pgasi_ucx_ctx_t *ctx; /* that receives it */
    struct source *source;
    uint32_t number;
    bool complete;
    bool skip;     /* too large or failed: it keeps its place, but is not delivered */
    bool ucx_data; /* data belongs to UCX */
    size_t header_bytes;
    unsigned char header[PGASI_TP_AM_HEADER_MAX];
    void *data;
    size_t bytes;
} held_t;

/** One opening of one context of one peer. */
typedef struct source {
    uint32_t next_number;
    int rank;
    bool seen; /* a message has arrived since the place was given to this opening */
    pgasi_ucx_ctx_t *ctx;
    held_t *held;
} source_t;

typedef struct {
    uint32_t n_sources;
    source_t *sources[]; /* by context and opening; each is allocated with its first message */
} sender_t;

struct pgasi_ucx_rx {
    pgasi_tp_am_fn_t am_fn; /* these fields are needed by every message */
    void *arg;
    size_t data_max;
    bool in_passing;
    uint32_t cookie;
    uint32_t rank_mask;
    uint32_t last_packed; /* the source of the last message, which is mostly the next one's, too */
    source_t *last;
    pgasi_ucx_buffers_t buffers;
    pgasi_pool_t held;
    sender_t **senders; /* by rank */
    uint64_t n_dropped, n_too_large;
};

/* Whether senders repeat messages after the loss of a connection (journal.c). */
static bool repeats(const pgasi_ucx_ctx_t *ctx)
{
    return ctx->tp->err_mode == UCP_ERR_HANDLING_MODE_PEER;
}

static void drop(pgasi_ucx_rx_t *rx, const char *why, uint32_t source)
{
    if (rx->n_dropped++ == 0) {
        PGASI_WARN(
            "ucx",
            "dropped a message that claims to come from rank %u: %s; further ones are only counted",
            source & ((1u << PGASI_UCX_RANK_BITS) - 1), why);
    }
}

static source_t *add_source(pgasi_ucx_ctx_t *ctx, uint32_t rank, uint32_t index)
{
    sender_t *sender = ctx->rx->senders[rank];
    uint32_t n_had = !sender ? 0 : sender->n_sources;
    if (index >= n_had) {
        uint32_t n = PGASI_MAX(index + 1, 2 * n_had);
        sender = realloc(sender, sizeof *sender + n * sizeof sender->sources[0]);
        if (!sender)
            return NULL;
        memset(&sender->sources[n_had], 0, (n - n_had) * sizeof sender->sources[0]);
        sender->n_sources = n;
        ctx->rx->senders[rank] = sender;
    }
    source_t *source = calloc(1, sizeof *source);
    if (source) {
        source->ctx = ctx;
        source->rank = (int)rank;
        sender->sources[index] = source;
    }
    return source;
}

/* The gate is open. */
static inline bool deliver(const source_t *source, const void *header, size_t header_bytes,
                           void *data, size_t bytes)
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

static void free_held(pgasi_ucx_ctx_t *ctx, held_t *held, bool with_data)
{
    if (with_data && held->data) {
        if (held->ucx_data)
            ucp_am_data_release(ctx->worker, held->data);
        else
            pgasi_ucx_buffer_release(&ctx->rx->buffers, held->data);
    }
    pgasi_pool_release(&ctx->rx->held, held);
}

/* The first message of an opening has arrived. The opening before the last has ended, and its place
 * is used again. (A sender counts an opening only if it has sent a message to this rank, so none is
 * missed.) */
static void begin_opening(sender_t *sender, uint32_t index)
{
    uint32_t over = index ^ (PGASI_UCX_OPENINGS / 2);
    sender->sources[index]->seen = true;
    source_t *old = over < sender->n_sources ? sender->sources[over] : NULL;
    if (old && old->seen) {
        pgasi_ucx_ctx_t *ctx = old->ctx;
        for (held_t *held = old->held, *next; held != NULL; held = next) {
            next = held->next;
            /* otherwise its data will arrive later, and is dropped then */
            if (held->complete) {
                free_held(ctx, held, true);
            } else {
                held->skip = true;
                held->source = NULL;
            }
        }
        *old = (source_t){ .ctx = ctx, .rank = old->rank };
    }
}

static source_t *find_source(pgasi_ucx_ctx_t *ctx, uint32_t packed)
{
    uint32_t rank = packed & ((1u << PGASI_UCX_RANK_BITS) - 1);
    uint32_t index = packed >> PGASI_UCX_RANK_BITS;
    if (rank >= (uint32_t)ctx->tp->opts.n_ranks)
        return NULL;
    sender_t *sender = ctx->rx->senders[rank];
    if (!sender || index >= sender->n_sources || !sender->sources[index]) {
        if (!add_source(ctx, rank, index))
            return NULL;
        sender = ctx->rx->senders[rank];
    }
    if (!sender->sources[index]->seen)
        begin_opening(sender, index);
    return sender->sources[index];
}

/* Delivers waiting messages whose turn it is. */
static int deliver_held(source_t *source)
{
    pgasi_ucx_ctx_t *ctx = source->ctx;
    int n_delivered = 0;
    while (source->held && source->held->number == source->next_number && source->held->complete &&
           ctx->gate == 0) {
        held_t *held = source->held;
        source->held = held->next;
        source->next_number++;
        bool kept = !held->skip &&
                    deliver(source, held->header, held->header_bytes, held->data, held->bytes);
        free_held(ctx, held, !kept);
        n_delivered++;
    }
    return n_delivered;
}

/* Delivers now if the gate is open, otherwise in the next progress call. */
static void deliver_or_wait(source_t *source)
{
    if (source->ctx->gate == 0)
        deliver_held(source);
    else
        source->ctx->n_ready++;
}

/* The message has arrived again while its data is still in flight on the lost connection. */
static void orphan(held_t **at)
{
    held_t *held = *at;
    *at = held->next;
    held->source = NULL;
    held->skip = true;
}

/* Inserts a message into the list; the caller adds the data. @return NULL: no memory, or the number
 * is in the list already */
static held_t *hold(source_t *source, uint32_t number, const void *header, size_t header_bytes)
{
    held_t **at = &source->held;
    while (*at && (int32_t)((*at)->number - number) < 0)
        at = &(*at)->next;
    if (*at && (*at)->number == number) {
        if ((*at)->complete || !repeats(source->ctx))
            return NULL;
        orphan(at);
    }
    held_t *held = pgasi_pool_acquire(&source->ctx->rx->held);
    if (held) {
        memset(held, 0, sizeof *held);
        held->ctx = source->ctx;
        held->source = source;
        held->number = number;
        held->header_bytes = header_bytes;
        memcpy(held->header, header, header_bytes);
        held->next = *at;
        *at = held;
    }
    return held;
}

static void received(void *request, ucs_status_t status, size_t length, void *user_data)
{
    held_t *held = user_data;
    pgasi_ucx_ctx_t *ctx = held->ctx;
    (void)length;
    ucp_request_free(request);
    held->complete = true;
    if (!held->source) { /* a later opening of its context has replaced this one */
        free_held(ctx, held, true);
        return;
    }
    if (status != UCS_OK && repeats(ctx)) { /* the sender repeats it */
        held_t **at = &held->source->held;
        while (*at != held)
            at = &(*at)->next;
        *at = held->next;
        free_held(ctx, held, true);
        return;
    }
    if (status != UCS_OK) {
        held->skip = true;
        drop(ctx->rx, ucs_status_string(status), 0);
    }
    deliver_or_wait(held->source);
}

/* Fetches the data of a rendezvous into a buffer. */
static ucs_status_t fetch(held_t *held, void *desc, size_t bytes)
{
    pgasi_ucx_ctx_t *ctx = held->ctx;
    held->bytes = bytes;
    if (bytes <= ctx->tp->opts.am_data_max)
        held->data = pgasi_ucx_buffer_acquire(&ctx->rx->buffers, bytes);
    if (!held->data) {
        if (ctx->rx->n_too_large++ == 0) {
            PGASI_WARN("ucx",
                       "dropped a message of %zu bytes (limit %zu); further ones are only counted",
                       bytes, ctx->tp->opts.am_data_max);
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
    ucs_status_ptr_t ptr = ucp_am_recv_data_nbx(ctx->worker, desc, held->data, bytes, &param);
    if (UCS_PTR_IS_PTR(ptr))
        return UCS_INPROGRESS;
    held->complete = true;
    held->skip = ptr != NULL;
    return UCS_OK;
}

/* It is not this message's turn, or its data has not arrived yet. */
static ucs_status_t on_late(source_t *source, uint32_t ahead, uint32_t behind, const void *header,
                            size_t header_bytes, void *data, size_t bytes, uint64_t attr)
{
    pgasi_ucx_ctx_t *ctx = source->ctx;
    held_t *held = NULL;
    if (behind > 0 && behind <= PGASI_UCX_REORDER_MAX && repeats(ctx)) /* it was delivered before */
        return UCS_OK;
    if (ahead < PGASI_UCX_REORDER_MAX)
        held = hold(source, source->next_number + ahead, header, header_bytes);
    if (!held && ahead < PGASI_UCX_REORDER_MAX && repeats(ctx))
        return UCS_OK;
    if (!held) {
        drop(ctx->rx, "its number is impossible: another job's, or a fault", 0);
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
        held->skip = !held->data || bytes > ctx->tp->opts.am_data_max;
        if (held->ucx_data)
            status = UCS_INPROGRESS;
        else if (held->data)
            memcpy(held->data, data, bytes);
    }
    deliver_or_wait(source);
    return status;
}

/* The common case: the message is in order and complete. */
static inline ucs_status_t on_time(source_t *source, const void *header, size_t header_bytes,
                                   void *data, size_t bytes, uint64_t attr)
{
    pgasi_ucx_ctx_t *ctx = source->ctx;
    ucs_status_t status = UCS_OK;
    source->next_number++;
    if (PGAS_UNLIKELY(bytes > ctx->rx->data_max)) {
        drop(ctx->rx, "larger than the limit", 0);
    } else if (ctx->rx->in_passing) {
        deliver(source, header, header_bytes, data, bytes);
    } else if ((attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0) {
        status = deliver(source, header, header_bytes, data, bytes) ? UCS_INPROGRESS : UCS_OK;
    } else {
        void *copy = pgasi_ucx_buffer_borrow(&ctx->rx->buffers, bytes);
        if (!copy) {
            drop(ctx->rx, "no memory is left", 0);
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
        source_t *source = find_source(ctx, packed);
        if (!source) {
            drop(rx, "there is no such rank or context", packed);
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
        drop(rx, "its header is malformed", 0);
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
    const sender_t *self = ctx->rx->senders[ctx->tp->opts.rank];
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
    return ucp_worker_set_am_recv_handler(ctx->worker, &param);
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
    pgasi_pool_init(&rx->held, sizeof(held_t), 0, 64, 0);
    rx->am_fn = ctx->tp->opts.am_fn;
    rx->arg = ctx->tp->opts.arg;
    rx->data_max = ctx->tp->opts.am_data_max;
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
        sender_t *sender = rx->senders[rank];
        for (uint32_t i = 0; sender != NULL && i < sender->n_sources; i++) {
            held_t *held = sender->sources[i] != NULL ? sender->sources[i]->held : NULL;
            for (; held != NULL; held = held->next) {
                if (held->ucx_data && held->data) {
                    ucp_am_data_release(ctx->worker, held->data);
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
        sender_t *sender = rx->senders[rank];
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
        ucp_am_data_release(ctx->worker, data);
}
