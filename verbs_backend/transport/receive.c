/* Receiving, on context 0: messages of all contexts of all peers come in over one shared receive
 * queue, into buffers of one size. A message that fits one is shown where it lies, if the consumer
 * said that he keeps nothing, else copied; larger ones are put together. Atomics are carried out
 * here, and answered on the queue pair on which they came. Buffers go back in batches.
 *
 * What comes in is checked: the cookie, the number of the queue pair and that it is this one,
 * sizes; what does not fit is dropped, counted and logged once. */
#include "verbs_backend/transport/inside.h"

#include <stdlib.h>

#define BATCH 16

typedef struct reply {
    struct reply *next;
    uint32_t slot;
    pgasi_verbs_amo_reply_t reply;
} reply_t;

/** Our end of a queue pair that a context of a peer sends on. */
typedef struct inbound {
    struct inbound *rung_next; /* those with answers that the card does not know yet */
    bool to_ring, leaving;
    int rank, ctx;
    uint32_t number;
    pgas_verbs_qp_t *qp;
    pgas_verbs_tx_t *tx; /* made with the first answer */
    int cq;
    uint64_t slots_addr;
    uint32_t slots_rkey;
    reply_t *unsent, **unsent_last; /* answers that found no room */
    struct {
        char *data; /* NULL: what comes is not wanted */
        uint32_t bytes, at;
        bool under_way;
        uint8_t header_bytes;
        unsigned char header[PGASI_TP_AM_HEADER_MAX];
    } large;
} inbound_t;

struct pgasi_verbs_receiver {
    pgas_verbs_cq_t *cq;
    pgas_verbs_srq_t *srq;
    pgas_verbs_mem_t mem;
    uint32_t n_buffers, stride;
    inbound_t **inbounds;
    uint32_t n_inbounds;
    uint32_t n_leaving, n_with_unsent;
    inbound_t *to_ring;
    uint64_t n_dropped, n_too_large;
};

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

static void deliver(pgasi_verbs_ctx_t *ctx, const inbound_t *inbound, const void *header,
                    size_t header_bytes, void *data, size_t bytes, bool ours)
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

/* All of it is here. */
static void on_whole(pgasi_verbs_ctx_t *ctx, const inbound_t *inbound, const void *header,
                     size_t header_bytes, char *data, size_t bytes)
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

/* One more piece of what is put together. */
static void on_piece(pgasi_verbs_ctx_t *ctx, inbound_t *inbound, const char *data, size_t bytes)
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

static void on_message(pgasi_verbs_ctx_t *ctx, inbound_t *inbound,
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

/* @return false: not now, for want of room or of memory for the way back. A peer that has gone
 * needs no reply. */
static bool post_reply(pgasi_verbs_ctx_t *ctx, inbound_t *inbound, uint32_t slot,
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

static void send_reply(pgasi_verbs_ctx_t *ctx, inbound_t *inbound, uint32_t slot,
                       const pgasi_verbs_amo_reply_t *reply)
{
    if (!inbound->unsent && post_reply(ctx, inbound, slot, reply))
        return;
    reply_t *unsent = malloc(sizeof *unsent);
    if (!unsent)
        pgasi_fatal("verbs", "no memory for the reply to an atomic operation");
    *unsent = (reply_t){ .slot = slot, .reply = *reply };
    ctx->receiver->n_with_unsent += !inbound->unsent;
    *inbound->unsent_last = unsent;
    inbound->unsent_last = &unsent->next;
}

static void on_atomic(pgasi_verbs_ctx_t *ctx, inbound_t *inbound,
                      const pgasi_verbs_prefix_t *prefix, const char *body, size_t body_bytes)
{
    pgasi_verbs_tp_t *tp = ctx->tp;
    pgasi_verbs_amo_request_t request = { 0 };
    size_t bytes = prefix->header_bytes, least = offsetof(pgasi_verbs_amo_request_t, compare);
    if (body_bytes < (prefix->op == PGAS_AMO_CSWAP ? sizeof request : least) ||
        (bytes != 4 && bytes != 8) || prefix->op > PGAS_AMO_CSWAP) {
        drop(ctx->receiver, "an atomic operation that makes no sense");
        return;
    }
    memcpy(&request, body, PGASI_MIN(body_bytes, sizeof request));
    if (request.slot == 0 || request.slot >= PGASI_VERBS_SLOTS) {
        drop(ctx->receiver, "an atomic operation that cannot be answered");
        return;
    }
    pgasi_verbs_amo_reply_t reply = { 0, 0 };
    pthread_mutex_lock(&tp->lock); /* so that the memory stays */
    bool good =
        request.addr % bytes == 0 && pgasi_verbs_mem_has(tp, request.mem, request.addr, bytes);
    if (good) {
        reply.result = pgasi_amo_apply((void *)(uintptr_t)request.addr, (pgas_amo_t)prefix->op,
                                       bytes, request.operand, request.compare);
    }
    pthread_mutex_unlock(&tp->lock);
    reply.check = pgasi_verbs_amo_reply_check(reply.result, prefix->bytes, !good);
    send_reply(ctx, inbound, request.slot, &reply);
}

/* Answers that found no room before. */
static int send_unsent(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    int n = 0;
    for (uint32_t i = 0; i < receiver->n_inbounds && receiver->n_with_unsent > 0; i++) {
        inbound_t *inbound = receiver->inbounds[i];
        while (inbound && inbound->unsent) {
            reply_t *unsent = inbound->unsent;
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

static void ring(pgasi_verbs_receiver_t *receiver)
{
    while (receiver->to_ring) {
        inbound_t *inbound = receiver->to_ring;
        receiver->to_ring = inbound->rung_next;
        inbound->to_ring = false;
        pgas_verbs_tx_ring(inbound->tx);
    }
}

/* ---- queue pairs of peers ---- */

static void close_inbound(pgasi_verbs_ctx_t *ctx, inbound_t *inbound)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    receiver->n_leaving -= inbound->leaving;
    receiver->n_with_unsent -= inbound->unsent != NULL;
    receiver->inbounds[inbound->number] = NULL;
    if (inbound->tx)
        pgasi_verbs_ctx_tx_close(ctx, inbound->cq, inbound->tx);
    pgas_verbs_qp_close(inbound->qp);
    pgasi_verbs_ctx_cq_leave(ctx, PGASI_VERBS_INBOUND_DEPTH, inbound->cq);
    while (inbound->unsent) {
        reply_t *unsent = inbound->unsent;
        inbound->unsent = unsent->next;
        free(unsent);
    }
    free(inbound->large.data);
    free(inbound);
}

static void close_leaving(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    for (uint32_t i = 0; i < receiver->n_inbounds && receiver->n_leaving > 0; i++)
        if (receiver->inbounds[i] && receiver->inbounds[i]->leaving)
            close_inbound(ctx, receiver->inbounds[i]);
}

void pgasi_verbs_dismiss(pgasi_verbs_ctx_t *ctx, int peer, uint32_t number)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    for (uint32_t i = 0; i < receiver->n_inbounds; i++) {
        inbound_t *inbound = receiver->inbounds[i];
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
        const inbound_t *inbound = receiver->inbounds[i];
        if (inbound && inbound->tx && inbound->cq == cq)
            return inbound->tx;
    }
    return NULL;
}

static inbound_t *add_inbound(pgasi_verbs_receiver_t *receiver)
{
    uint32_t i = 0;
    while (i < receiver->n_inbounds && receiver->inbounds[i])
        i++;
    if (i == receiver->n_inbounds) {
        uint32_t n = PGASI_MAX(2 * i, 16u);
        inbound_t **inbounds = realloc(receiver->inbounds, n * sizeof inbounds[0]);
        if (!inbounds)
            return NULL;
        memset(inbounds + i, 0, (n - i) * sizeof inbounds[0]);
        receiver->inbounds = inbounds;
        receiver->n_inbounds = n;
    }
    inbound_t *inbound = calloc(1, sizeof *inbound);
    if (inbound) {
        inbound->number = i;
        inbound->unsent_last = &inbound->unsent;
    }
    return inbound;
}

pgas_status_t pgasi_verbs_accept(pgasi_verbs_ctx_t *ctx, int peer, int peer_ctx,
                                 const pgas_verbs_address_t *theirs, uint64_t slots_addr,
                                 uint32_t slots_rkey, pgas_verbs_address_t *mine_p,
                                 uint32_t *inbound_p)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    inbound_t *inbound = add_inbound(receiver);
    if (!inbound)
        return PGAS_ERR_NO_MEMORY;
    inbound->rank = peer;
    inbound->ctx = peer_ctx;
    inbound->slots_addr = slots_addr;
    inbound->slots_rkey = slots_rkey;
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_status_t status = pgasi_verbs_ctx_cq(ctx, PGASI_VERBS_INBOUND_DEPTH, &inbound->cq);
    if (status != PGAS_OK)
        goto free_inbound;
    opts.send_cq = ctx->cqs[inbound->cq].cq;
    opts.recv_cq = receiver->cq;
    opts.srq = receiver->srq;
    opts.send_depth = PGASI_VERBS_INBOUND_DEPTH;
    opts.send_spans = 1;
    opts.inline_max = sizeof(pgasi_verbs_amo_reply_t);
    status = pgas_verbs_qp_open(ctx->tp->dev, &opts, &inbound->qp);
    if (status != PGAS_OK)
        goto leave_cq;
    status = pgas_verbs_qp_connect(inbound->qp, theirs);
    if (status != PGAS_OK)
        goto close_qp;
    pgas_verbs_qp_address(inbound->qp, mine_p);
    *inbound_p = inbound->number;
    receiver->inbounds[inbound->number] = inbound;
    return PGAS_OK;
close_qp:
    pgas_verbs_qp_close(inbound->qp);
leave_cq:
    pgasi_verbs_ctx_cq_leave(ctx, PGASI_VERBS_INBOUND_DEPTH, inbound->cq);
free_inbound:
    free(inbound);
    if (status != PGAS_ERR_PEER) { /* of which its socket tells */
        PGASI_ERROR("verbs", "connecting with context %d of rank %d failed: %s", peer_ctx, peer,
                    pgas_status_text(status));
    }
    return status;
}

/* ---- the queue ---- */

static char *buffer_at(const pgasi_verbs_receiver_t *receiver, uint64_t index)
{
    return (char *)receiver->mem.addr + index * receiver->stride;
}

static pgas_status_t give_buffers(const pgasi_verbs_receiver_t *receiver, const uint64_t *indices,
                                  uint32_t n)
{
    pgas_verbs_recv_t recvs[BATCH];
    pgas_verbs_span_t spans[BATCH];
    for (uint32_t i = 0; i < n; i++) {
        spans[i] = (pgas_verbs_span_t){ (uint64_t)(uintptr_t)buffer_at(receiver, indices[i]),
                                        receiver->stride, receiver->mem.lkey };
        recvs[i] = (pgas_verbs_recv_t){ .id = indices[i], .spans = &spans[i], .n_spans = 1 };
    }
    return pgas_verbs_srq_recv(receiver->srq, recvs, n, NULL);
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
    inbound_t *inbound =
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

int pgasi_verbs_receive(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    pgas_verbs_completion_t completions[BATCH];
    uint64_t used[BATCH];
    uint32_t n_used = 0;
    int n = pgas_verbs_cq_poll(receiver->cq, completions, BATCH), n_sent = 0;
    if (PGAS_UNLIKELY(n < 0)) {
        /* not overrun: it has as many places as there are buffers */
        pgasi_fatal("verbs", "the queue of arrivals is dead: the device, or the process of the "
                             "software NIC, has ended");
    }
    for (int i = 0; i < n; i++) {
        if (completions[i].id >= receiver->n_buffers)
            continue;
        if (PGAS_LIKELY(completions[i].status == PGAS_OK))
            on_arrival(ctx, &completions[i], buffer_at(receiver, completions[i].id));
        used[n_used++] = completions[i].id;
    }
    if (n_used > 0 && give_buffers(receiver, used, n_used) != PGAS_OK)
        PGASI_ERROR("verbs", "giving back %u receive buffers failed", n_used);
    if (PGAS_UNLIKELY(receiver->n_with_unsent > 0))
        n_sent = send_unsent(ctx);
    ring(receiver);
    if (PGAS_UNLIKELY(receiver->n_leaving > 0) && n == 0)
        close_leaving(ctx);
    return n + n_sent;
}

bool pgasi_verbs_receiver_arm(pgasi_verbs_ctx_t *ctx)
{
    return pgas_verbs_cq_arm(ctx->receiver->cq, false) == PGAS_OK &&
           ctx->receiver->n_with_unsent == 0;
}

static pgas_status_t fill(const pgasi_verbs_receiver_t *receiver)
{
    pgas_status_t status = PGAS_OK;
    for (uint32_t at = 0; at < receiver->n_buffers && status == PGAS_OK;) {
        uint64_t indices[BATCH];
        uint32_t n = PGASI_MIN(receiver->n_buffers - at, (uint32_t)BATCH);
        for (uint32_t i = 0; i < n; i++)
            indices[i] = at + i;
        status = give_buffers(receiver, indices, n);
        at += n;
    }
    return status;
}

pgas_status_t pgasi_verbs_receiver_open(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_tp_t *tp = ctx->tp;
    pgasi_verbs_receiver_t *receiver = calloc(1, sizeof *receiver);
    if (!receiver)
        return PGAS_ERR_NO_MEMORY;
    receiver->n_buffers =
        PGASI_MIN((uint32_t)tp->params.verbs_recv_buffers, tp->dev->limits.recv_depth_max);
    receiver->stride = stride_of(tp->address.message_bytes);
    pgas_status_t status =
        pgas_verbs_cq_open(tp->dev, receiver->n_buffers + 64, PGAS_VERBS_CQ_EVENTS, &receiver->cq);
    if (status != PGAS_OK)
        goto free_receiver;
    status = pgas_verbs_srq_open(tp->dev, receiver->n_buffers, 1, &receiver->srq);
    if (status != PGAS_OK)
        goto close_cq;
    status = pgas_verbs_mem_alloc(tp->dev, (size_t)receiver->n_buffers * receiver->stride,
                                  PGAS_VERBS_LOCAL_WRITE, &receiver->mem);
    if (status != PGAS_OK)
        goto close_srq;
    int fd;
    status = pgas_verbs_cq_fd(receiver->cq, &fd);
    if (status == PGAS_OK)
        status = pgasi_verbs_ctx_watch(ctx, fd);
    if (status == PGAS_OK)
        status = fill(receiver);
    if (status != PGAS_OK)
        goto release_memory;
    ctx->receiver = receiver;
    return PGAS_OK;
release_memory:
    pgas_verbs_mem_release(tp->dev, &receiver->mem);
close_srq:
    pgas_verbs_srq_close(receiver->srq);
close_cq:
    pgas_verbs_cq_close(receiver->cq);
free_receiver:
    free(receiver);
    PGASI_ERROR("verbs",
                "making the receive queue failed: %s; fewer buffers (PGAS_VERBS_RECV_BUFFERS) need "
                "less memory%s",
                pgas_status_text(status),
                status == PGAS_ERR_LIMIT ? "; see ulimit -n and ulimit -l" : "");
    return status;
}

void pgasi_verbs_receiver_close(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_receiver_t *receiver = ctx->receiver;
    for (uint32_t i = 0; i < receiver->n_inbounds; i++)
        if (receiver->inbounds[i])
            close_inbound(ctx, receiver->inbounds[i]);
    ctx->receiver = NULL;
    pgas_verbs_srq_close(receiver->srq);
    pgas_verbs_cq_close(receiver->cq);
    pgas_verbs_mem_release(ctx->tp->dev, &receiver->mem);
    free(receiver->inbounds);
    free(receiver);
}
