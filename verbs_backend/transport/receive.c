/* Receives on context 0. Messages of all contexts of all peers arrive over one shared receive
 * queue, in buffers of one size. A message that fits one buffer is delivered in place if the
 * consumer keeps nothing, otherwise it is copied. Larger messages are assembled. Atomics are
 * executed here, and the reply goes back on the queue pair of the request. Buffers are posted
 * again in batches.
 *
 * All input is checked: the cookie, the number of the queue pair and that it is the one on which
 * the message came, and sizes. An invalid message is dropped and counted; the first one is
 * logged. */
#include "verbs_backend/transport/receive.h"

#include <stdlib.h>
#include "base/log.h"

#define BATCH 16

static uint32_t stride_of(uint32_t message_bytes)
{
    return (uint32_t)PGASI_ALIGN_UP(message_bytes + sizeof(pgasi_verbs_prefix_t), PGASI_CACHELINE);
}

size_t pgasi_verbs_receiver_bytes(const pgasi_verbs_tp_t *tp)
{
    return (size_t)tp->params.verbs_recv_buffers * (stride_of(tp->address.message_bytes) + 64u);
}

static void drop(pgasi_verbs_receiver_t *receiver, const char *why)
{
    if (receiver->n_dropped++ == 0)
        PGASI_WARN("verbs", "dropped a message: %s; further ones are only counted", why);
}

/* ---- messages ---- */

static void deliver(pgasi_verbs_ctx_t *ctx, const pgasi_verbs_inbound_t *inbound,
                    const void *header, size_t header_bytes, void *data, size_t bytes, bool ours)
{
    const pgasi_tp_opts_t *opts = &ctx->tp->opts;
    const pgasi_tp_am_t am = { .header = header,
                               .header_bytes = header_bytes,
                               .data = data,
                               .data_bytes = bytes,
                               .source = inbound->rank };
    bool kept = opts->am_fn(opts->arg, &am);
    if (ours && !kept)
        free(data);
}

void pgasi_verbs_am_release(pgasi_tp_ctx_t *ctx, void *data)
{
    (void)ctx;
    free(data);
}

/* Delivers a message that has arrived in one piece. */
static void on_whole(pgasi_verbs_ctx_t *ctx, const pgasi_verbs_inbound_t *inbound,
                     const void *header, size_t header_bytes, char *data, size_t bytes)
{
    if (PGAS_LIKELY(ctx->tp->opts.am_in_passing)) {
        deliver(ctx, inbound, header, header_bytes, data, bytes, false);
        return;
    }
    char *copy = malloc(PGASI_MAX(bytes, 1u));
    if (!copy) {
        drop(ctx->receiver, "no memory is left");
        return;
    }
    memcpy(copy, data, bytes);
    deliver(ctx, inbound, header, header_bytes, copy, bytes, true);
}

/* Adds a piece to the message that is being assembled. */
static void on_piece(pgasi_verbs_ctx_t *ctx, pgasi_verbs_inbound_t *inbound, const char *data,
                     size_t bytes)
{
    if (!inbound->large.under_way || bytes > inbound->large.bytes - inbound->large.at) {
        drop(ctx->receiver, "a piece that belongs to nothing");
        return;
    }
    if (inbound->large.data)
        memcpy(inbound->large.data + inbound->large.at, data, bytes);
    inbound->large.at += (uint32_t)bytes;
    if (inbound->large.at == inbound->large.bytes) {
        char *whole = inbound->large.data;
        inbound->large.under_way = false;
        inbound->large.data = NULL;
        if (whole) {
            deliver(ctx, inbound, inbound->large.header, inbound->large.header_bytes, whole,
                    inbound->large.bytes, true);
        }
    }
}

static void on_message(pgasi_verbs_ctx_t *ctx, pgasi_verbs_inbound_t *inbound,
                       const pgasi_verbs_prefix_t *prefix, char *body, size_t bytes)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    size_t header_room = PGASI_ALIGN_UP(prefix->header_bytes, 8);
    if (prefix->header_bytes > PGASI_TP_AM_HEADER_MAX || bytes < header_room ||
        bytes - header_room > prefix->bytes || inbound->large.under_way) {
        drop(receiver, "it is malformed");
        return;
    }
    bool too_large = prefix->bytes > ctx->tp->opts.am_data_max;
    if (PGAS_UNLIKELY(too_large) && receiver->n_too_large++ == 0) {
        PGASI_WARN("verbs",
                   "dropped a message of %u bytes (limit %zu); further ones are only counted",
                   prefix->bytes, ctx->tp->opts.am_data_max);
    }
    bytes -= header_room;
    if (PGAS_LIKELY(bytes == prefix->bytes)) {
        if (!too_large)
            on_whole(ctx, inbound, body, prefix->header_bytes, body + header_room, bytes);
        return;
    }
    inbound->large.under_way = true;
    inbound->large.bytes = prefix->bytes;
    inbound->large.at = 0;
    inbound->large.header_bytes = prefix->header_bytes;
    memcpy(inbound->large.header, body, prefix->header_bytes);
    inbound->large.data = too_large ? NULL : malloc(prefix->bytes);
    if (!too_large && !inbound->large.data)
        drop(receiver, "no memory is left");
    on_piece(ctx, inbound, body + header_room, bytes);
}

/* ---- atomics ---- */

static void on_atomic(pgasi_verbs_ctx_t *ctx, pgasi_verbs_inbound_t *inbound,
                      const pgasi_verbs_prefix_t *prefix, const char *body, size_t body_bytes)
{
    pgasi_verbs_tp_t *tp = ctx->tp;
    pgasi_verbs_amo_request_t request = { 0 };
    size_t bytes = prefix->header_bytes, least = offsetof(pgasi_verbs_amo_request_t, compare);
    if (body_bytes < (prefix->op == PGASI_AMO_CSWAP ? sizeof request : least) ||
        (bytes != 4 && bytes != 8) || prefix->op > PGASI_AMO_CSWAP) {
        drop(ctx->receiver, "a malformed atomic operation");
        return;
    }
    memcpy(&request, body, PGASI_MIN(body_bytes, sizeof request));
    if (request.slot == 0 || request.slot >= PGASI_VERBS_SLOTS) {
        drop(ctx->receiver, "an atomic operation that cannot be answered");
        return;
    }
    pgasi_verbs_amo_reply_t reply = { 0, 0 };
    pthread_mutex_lock(&tp->lock); /* so that the memory stays registered */
    bool good =
        request.addr % bytes == 0 && pgasi_verbs_mem_has(tp, request.mem, request.addr, bytes);
    if (good) {
        reply.result = pgasi_amo_apply((void *)(uintptr_t)request.addr, (pgasi_amo_t)prefix->op,
                                       bytes, request.operand, request.compare);
    }
    pthread_mutex_unlock(&tp->lock);
    reply.check = pgasi_verbs_amo_reply_check(reply.result, prefix->bytes, !good);
    pgasi_verbs_send_reply(ctx, inbound, request.slot, &reply);
}

/* ---- the queue ---- */

static char *buffer_at(const pgasi_verbs_receiver_t *receiver,
                       const pgasi_verbs_receive_rail_t *rail, uint64_t index)
{
    return (char *)rail->mem.addr + index * receiver->stride;
}

static pgas_status_t give_buffers(const pgasi_verbs_receiver_t *receiver,
                                  const pgasi_verbs_receive_rail_t *rail, const uint64_t *indices,
                                  uint32_t n)
{
    pgas_verbs_recv_t recvs[BATCH];
    pgas_verbs_span_t spans[BATCH];
    for (uint32_t i = 0; i < n; i++) {
        spans[i] = (pgas_verbs_span_t){ (uint64_t)(uintptr_t)buffer_at(receiver, rail, indices[i]),
                                        receiver->stride, rail->mem.lkey };
        recvs[i] = (pgas_verbs_recv_t){ .id = indices[i], .spans = &spans[i], .n_spans = 1 };
    }
    return pgas_verbs_srq_recv(rail->srq, recvs, n, NULL);
}

static void on_arrival(pgasi_verbs_ctx_t *ctx, const pgas_verbs_completion_t *completion,
                       char *buffer)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    pgasi_verbs_prefix_t prefix;
    if (completion->bytes < sizeof prefix || completion->bytes > receiver->stride) {
        drop(receiver, completion->bytes < sizeof prefix ? "it is too short"
                                                         : "it is longer than its buffer");
        return;
    }
    memcpy(&prefix, buffer, sizeof prefix);
    pgasi_verbs_inbound_t *inbound =
        prefix.inbound < receiver->n_inbounds ? receiver->inbounds[prefix.inbound] : NULL;
    if (prefix.cookie != ctx->tp->address.cookie || !inbound ||
        (completion->qp && completion->qp != inbound->qp)) {
        drop(receiver, "it is of another job, or a fault");
        return;
    }
    char *body = buffer + sizeof prefix;
    size_t bytes = completion->bytes - sizeof prefix;
    switch (prefix.kind) {
    case PGASI_VERBS_MESSAGE:
        on_message(ctx, inbound, &prefix, body, bytes);
        break;
    case PGASI_VERBS_MORE:
        on_piece(ctx, inbound, body, bytes);
        break;
    case PGASI_VERBS_ATOMIC:
        on_atomic(ctx, inbound, &prefix, body, bytes);
        break;
    default:
        drop(receiver, "its kind is unknown");
    }
}

/* @return the number of arrivals */
static int receive_from(pgasi_verbs_ctx_t *ctx, const pgasi_verbs_receive_rail_t *rail)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    pgas_verbs_completion_t completions[BATCH];
    uint64_t used[BATCH];
    uint32_t n_used = 0;
    int n = pgas_verbs_cq_poll(rail->cq, completions, BATCH);
    if (PGAS_UNLIKELY(n < 0)) {
        /* it has not overrun, because it has as many places as there are buffers */
        pgasi_fatal("verbs", "the receive queue is dead: the device, or the process of the "
                             "software NIC, has ended");
    }
    for (int i = 0; i < n; i++) {
        if (completions[i].id >= receiver->n_buffers)
            continue;
        if (PGAS_LIKELY(completions[i].status == PGAS_OK))
            on_arrival(ctx, &completions[i], buffer_at(receiver, rail, completions[i].id));
        used[n_used++] = completions[i].id;
    }
    if (n_used > 0 && give_buffers(receiver, rail, used, n_used) != PGAS_OK)
        PGASI_ERROR("verbs", "posting %u receive buffers again failed", n_used);
    return n;
}

int pgasi_verbs_receive(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    int n = 0, n_sent = 0;
    for (int i = 0; i < ctx->tp->n_rails; i++)
        if (receiver->rails[i].cq)
            n += receive_from(ctx, &receiver->rails[i]);
    if (PGAS_UNLIKELY(receiver->n_with_unsent > 0))
        n_sent = pgasi_verbs_send_unsent(ctx);
    pgasi_verbs_ring_replies(receiver);
    if (PGAS_UNLIKELY(receiver->n_leaving > 0) && n == 0)
        pgasi_verbs_close_leaving(ctx);
    return n + n_sent;
}

bool pgasi_verbs_receiver_arm(pgasi_verbs_ctx_t *ctx)
{
    const pgasi_verbs_receiver_t *receiver = ctx->receiver;
    bool idle = receiver->n_with_unsent == 0;
    for (int i = 0; i < ctx->tp->n_rails && idle; i++)
        idle = !receiver->rails[i].cq || pgas_verbs_cq_arm(receiver->rails[i].cq, false) == PGAS_OK;
    return idle;
}

static pgas_status_t fill(const pgasi_verbs_receiver_t *receiver,
                          const pgasi_verbs_receive_rail_t *rail)
{
    pgas_status_t status = PGAS_OK;
    for (uint32_t at = 0; at < receiver->n_buffers && status == PGAS_OK;) {
        uint64_t indices[BATCH];
        uint32_t n = PGASI_MIN(receiver->n_buffers - at, (uint32_t)BATCH);
        for (uint32_t i = 0; i < n; i++)
            indices[i] = at + i;
        status = give_buffers(receiver, rail, indices, n);
        at += n;
    }
    return status;
}

static void close_rail(pgas_verbs_dev_t *dev, pgasi_verbs_receive_rail_t *rail)
{
    pgas_verbs_srq_destroy(rail->srq);
    pgas_verbs_cq_destroy(rail->cq);
    pgas_verbs_mem_release(dev, &rail->mem);
    *rail = (pgasi_verbs_receive_rail_t){ 0 };
}

pgas_status_t pgasi_verbs_receive_on(pgasi_verbs_ctx_t *ctx, int index)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    pgasi_verbs_receive_rail_t *rail = &receiver->rails[index];
    pgas_verbs_dev_t *dev = ctx->tp->rails[index].dev;
    if (rail->cq)
        return PGAS_OK;
    int fd;
    pgas_status_t status =
        pgas_verbs_cq_create(dev, receiver->n_buffers + 64, PGAS_VERBS_CQ_EVENTS, &rail->cq);
    if (status == PGAS_OK)
        status = pgas_verbs_srq_create(dev, receiver->n_buffers, 1, &rail->srq);
    if (status == PGAS_OK)
        status = pgas_verbs_mem_register(dev, NULL, (size_t)receiver->n_buffers * receiver->stride,
                                         PGAS_VERBS_LOCAL_WRITE, &rail->mem);
    if (status == PGAS_OK)
        status = pgas_verbs_cq_fd(rail->cq, &fd);
    if (status == PGAS_OK)
        status = pgasi_verbs_ctx_watch(ctx, fd);
    if (status == PGAS_OK)
        status = fill(receiver, rail);
    if (status == PGAS_OK)
        return PGAS_OK;
    close_rail(dev, rail);
    PGASI_ERROR("verbs",
                "making the receive queue failed: %s; fewer buffers (PGAS_VERBS_RECV_BUFFERS) need "
                "less memory%s",
                pgas_status_text(status),
                status == PGAS_ERR_LIMIT ? "; see ulimit -n and ulimit -l" : "");
    return status;
}

/* One rail is opened now, so that init fails where a rank cannot receive. */
pgas_status_t pgasi_verbs_receiver_open(pgasi_verbs_ctx_t *ctx)
{
    const pgasi_verbs_tp_t *tp = ctx->tp;
    pgasi_verbs_receiver_t *receiver = calloc(1, sizeof *receiver);
    if (!receiver)
        return PGAS_ERR_NO_MEMORY;
    receiver->n_buffers =
        PGASI_MIN((uint32_t)tp->params.verbs_recv_buffers, tp->dev->limits.recv_depth_max);
    receiver->stride = stride_of(tp->address.message_bytes);
    ctx->receiver = receiver;
    pgas_status_t status = pgasi_verbs_receive_on(ctx, pgasi_verbs_rail_first(ctx));
    if (status != PGAS_OK) {
        ctx->receiver = NULL;
        free(receiver);
    }
    return status;
}

void pgasi_verbs_receiver_close(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    for (uint32_t i = 0; i < receiver->n_inbounds; i++)
        if (receiver->inbounds[i])
            pgasi_verbs_close_inbound(ctx, receiver->inbounds[i]);
    ctx->receiver = NULL;
    for (int i = 0; i < ctx->tp->n_rails; i++)
        close_rail(ctx->tp->rails[i].dev, &receiver->rails[i]);
    free(receiver->inbounds);
    free(receiver);
}
