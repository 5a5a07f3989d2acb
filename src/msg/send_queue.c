/* Send queues: see send_queue.h. They begin and end here, and the functions for other folders are
 * here.
 *
 * One set of cursors per context serves direct calls, aggregators and answers, so calls of one
 * thread to one rank keep their order. A direct call on the node is written in place into the
 * receiver's ring. Gathered calls are in a buffer, which is copied into the ring at once, or sent
 * by the transport as one message. Nothing is allocated, except on first use or when a peer is
 * full. */
#include "msg/send.h"
#include "msg/channel_memory.h"

#include <stdlib.h>

#include "base/log.h"
#include "boot/boot.h"
#include "mem/thread.h"

pgas_call_run_t pgas_call_run;
__thread pgas_call_path_t pgas_call_path;

/* ---- making and ending ---- */

static size_t publish_bytes_for(size_t wanted)
{
    return PGASI_MIN(wanted, pgasi_send_publish_max(pgasi_chunk_bytes));
}

static size_t chunk_table_bytes(void)
{
    return (size_t)pgasi_n_eps * (size_t)pgasi_boot.node_size * (size_t)pgasi_param.chunks_max *
           sizeof(chunk_t);
}

/* Inline calls look up any rank below PGAS_AGG_CURSORS. */
static size_t cursors_bytes(size_t n_dests)
{
    return PGASI_MAX(n_dests, (size_t)PGAS_AGG_CURSORS) * sizeof(pgas_agg_cursor_t);
}

/* Whose inline calls may use the send queue: see pgas_call_path_t. */
static uint64_t caller_of(const pgasi_ctx_t *ctx)
{
    if (ctx->index == PGASI_CTX_SERVICE)
        return PGAS_CALL_HANDLERS;
    return ctx->shared ? PGAS_CALL_NOBODY : PGAS_CALL_CONTEXT(ctx->index - PGASI_CTX_FIRST_OWN);
}

pgas_status_t pgasi_sendq_of(pgasi_ctx_t *ctx, pgasi_sendq_t **sendq_p)
{
    if (PGAS_LIKELY(ctx->sendq)) {
        *sendq_p = ctx->sendq;
        return PGAS_OK;
    }
    size_t n = (size_t)pgasi_boot.n_ranks * (size_t)pgasi_n_eps;
    pgasi_sendq_t *sq = calloc(1, sizeof *sq);
    if (!sq)
        return PGAS_ERR_NO_MEMORY;
    sq->ctx = ctx;
    sq->n_ranks = (uint32_t)pgasi_boot.n_ranks;
    sq->n_dests = (uint32_t)n;
    sq->header =
        pgasi_desc_header(0, 8, PGASI_MAX(ctx->index - PGASI_CTX_FIRST_OWN, 0)) & ~PGASI_DESC_VALID;
    sq->context = caller_of(ctx);
    sq->publish_bytes = publish_bytes_for(pgasi_param.agg_size);
    sq->buffers_max = PGASI_SENDQ_BUFFERS;
    sq->slots = pgasi_chanmem_buffers(ctx->index);
    sq->backlog_limit = pgasi_param.backlog_limit;
    sq->latency_ns = UINT64_MAX;
    sq->cursor = pgasi_lazy_alloc(cursors_bytes(n));
    sq->out = pgasi_lazy_alloc(n * sizeof *sq->out);
    sq->window = pgasi_lazy_alloc(n * sizeof *sq->window);
    sq->dirty = pgasi_lazy_alloc(n * sizeof *sq->dirty);
    sq->held = pgasi_lazy_alloc(n * sizeof *sq->held);
    sq->known = pgasi_lazy_alloc(n * sizeof *sq->known);
    sq->chunks = pgasi_lazy_alloc(chunk_table_bytes());
    if (!sq->cursor || !sq->out || !sq->window || !sq->dirty || !sq->held || !sq->known ||
        !sq->chunks) {
        pgasi_sendq_destroy(sq);
        return PGAS_ERR_NO_MEMORY;
    }
    __atomic_store_n(&ctx->sendq, sq, __ATOMIC_RELEASE);
    if (pgasi_self.ctx == ctx && !ctx->shared && ctx->index != PGASI_CTX_SERVICE)
        pgasi_self.sendq = sq;
    *sendq_p = sq;
    return PGAS_OK;
}

static void free_list(buffer_t *first)
{
    while (first) {
        buffer_t *b = first;
        first = b->next;
        pgasi_send_free_buffer(b);
    }
}

void pgasi_sendq_destroy(pgasi_sendq_t *sq)
{
    if (!sq)
        return;
    size_t n = sq->n_dests;
    for (int i = 0; i < sq->n_held; i++) {
        out_t *out = &sq->out[sq->held[i]];
        free_list(out->waiting);
        pgasi_send_free_buffer(out->batch);
        out->batch = NULL;
    }
    for (int i = 0; i < sq->n_dirty; i++)
        pgasi_send_free_buffer(sq->out[sq->dirty[i]].batch);
    free_list(sq->free_buffers);
    for (int i = 0; sq->known && i < sq->n_known; i++)
        pgasi_far_channel_free(&sq->out[sq->known[i]]);
    if (sq->ctx->shared)
        pgasi_sendq_shared_held = 0;
    pgasi_lazy_free(sq->cursor, cursors_bytes(n));
    pgasi_lazy_free(sq->out, n * sizeof *sq->out);
    pgasi_lazy_free(sq->window, n * sizeof *sq->window);
    pgasi_lazy_free(sq->dirty, n * sizeof *sq->dirty);
    pgasi_lazy_free(sq->held, n * sizeof *sq->held);
    pgasi_lazy_free(sq->known, n * sizeof *sq->known);
    pgasi_lazy_free(sq->chunks, chunk_table_bytes());
    sq->ctx->sendq = NULL;
    free(sq);
}

/* ---- calls of other files ---- */

pgas_status_t pgasi_call_check(int rank, uint32_t handler, const void *args, size_t bytes)
{
    return check_call(rank, handler, args, bytes, false);
}

/* Handlers' calls are gathered until the calls that had arrived have run, except the first: a
 * single call should not wait for the end of the round. */
static bool is_first_answer(pgasi_sendq_t *sq)
{
    bool first = !sq->answered;
    sq->answered = true;
    return first;
}

/* Not gathered, unless it follows context 0's first call of the round, which ends by publishing
 * everything. */
static inline bool is_now(pgasi_sendq_t *sq)
{
    return !pgasi_self.in_handler || sq->ctx->index != PGASI_CTX_SERVICE || is_first_answer(sq);
}

static pgas_status_t call_through(pgasi_ctx_t *ctx, int rank, int ep, const message_t *m,
                                  pgas_full_t full, bool now)
{
    pgasi_ctx_lock(ctx);
    pgasi_sendq_t *sq;
    pgas_status_t status = pgasi_sendq_of(ctx, &sq);
    if (PGAS_LIKELY(status == PGAS_OK))
        status = pgasi_send_send(sq, ep * (int)sq->n_ranks + rank, m, full, is_now(sq) || now);
    pgasi_ctx_unlock(ctx);
    return status;
}

static inline int slot_of_caller(void)
{
    return pgasi_thread_attached() ? pgasi_self.slot : PGASI_SLOT_NONE;
}

static inline pgasi_ctx_t *ctx_for(bool shared)
{
    return shared && !pgasi_self.in_handler ? pgasi_ctxs[PGASI_CTX_SHARED] : pgasi_thread_ctx();
}

pgas_status_t pgasi_sendq_call(int rank, uint32_t handler, const void *args, size_t bytes,
                               const uint64_t *wire_token, pgas_full_t full)
{
    return pgasi_sendq_call_ep(rank, PGASI_EP_ANY, false, handler, args, bytes, wire_token, full);
}

pgas_status_t pgasi_sendq_call_ep(int rank, int ep, bool shared, uint32_t handler, const void *args,
                                  size_t bytes, const uint64_t *wire_token, pgas_full_t full)
{
    message_t m = { pgasi_desc_header(handler, bytes, slot_of_caller()) |
                        (wire_token ? PGASI_DESC_TOKEN : 0),
                    wire_token,
                    NULL,
                    args,
                    0,
                    bytes };
    return call_through(ctx_for(shared), rank, ep, &m, full, false);
}

pgas_status_t pgasi_sendq_call_pair(int rank, int ep, bool shared, uint32_t handler,
                                    const void *head, size_t head_bytes, const void *data,
                                    size_t bytes, pgas_full_t full)
{
    message_t m = { pgasi_desc_header(handler, head_bytes + bytes, slot_of_caller()),
                    NULL,
                    head,
                    data,
                    head_bytes,
                    bytes };
    return call_through(ctx_for(shared), rank, ep, &m, full, false);
}

/* The caller holds the context's lock. */
static pgas_status_t probe(pgasi_sendq_t *sq, int dest, size_t bytes, bool queue)
{
    out_t *out = out_of(sq, dest);
    if (pgasi_boot_is_dead(out->rank))
        return PGAS_ERR_PEER;
    if (queue)
        return sq->backlog_bytes + bytes <= pgasi_param.backlog_limit ? PGAS_OK : PGAS_ERR_AGAIN;
    pgas_status_t status = pgasi_sendq_publish(sq, dest, PGASI_PUBLISH_ORDER);
    if (status != PGAS_OK || out->waiting)
        return status != PGAS_OK ? status : PGAS_ERR_AGAIN;
    if (out->kind == OUT_PUT)
        return pgasi_far_channel_probe(sq, out, bytes + 64);
    if (out->kind != OUT_NODE)
        return PGAS_OK;
    bool room = ring_room(out, bytes + 64);
    update_window(out); /* the tail may have moved to another chunk */
    return room ? PGAS_OK : PGAS_ERR_AGAIN;
}

pgas_status_t pgasi_sendq_probe(int rank, int ep, bool shared, size_t bytes, bool queue)
{
    pgasi_ctx_t *ctx = ctx_for(shared);
    pgasi_ctx_lock(ctx);
    pgasi_sendq_t *sq;
    pgas_status_t status = pgasi_sendq_of(ctx, &sq);
    if (status == PGAS_OK)
        status = probe(sq, ep * (int)sq->n_ranks + rank, bytes, queue);
    pgasi_ctx_unlock(ctx);
    return status;
}

/* Avoids the context in which the thread is building a call, because that may last until a rank has
 * this answer. */
static pgasi_ctx_t *ctx_for_answer(int rank)
{
    pgasi_ctx_t *ctx = pgasi_thread_ctx();
    const pgasi_sendq_t *sq = __atomic_load_n(&ctx->sendq, __ATOMIC_ACQUIRE);
    bool begun = sq && sq->out[PGASI_EP_ANY * sq->n_ranks + (uint32_t)rank].begun;
    return PGAS_UNLIKELY(begun) ? pgasi_ctxs[PGASI_CTX_SHARED] : ctx;
}

pgas_status_t pgasi_sendq_answer(int rank, uint32_t handler, const void *head, size_t head_bytes,
                                 const void *data, size_t bytes)
{
    message_t m = { pgasi_desc_header(handler, head_bytes + bytes, pgasi_self.slot),
                    NULL,
                    head,
                    data,
                    head_bytes,
                    bytes };
    pgas_status_t status =
        call_through(ctx_for_answer(rank), rank, PGASI_EP_ANY, &m, PGASI_FULL_ANSWER, false);
    pgasi_send_check_lost(rank, status);
    return status;
}

pgas_status_t pgasi_sendq_answer_now(int rank, uint32_t handler, const void *head,
                                     size_t head_bytes)
{
    message_t m = {
        pgasi_desc_header(handler, head_bytes, pgasi_self.slot), NULL, head, NULL, head_bytes, 0
    };
    pgas_status_t status =
        call_through(ctx_for_answer(rank), rank, PGASI_EP_ANY, &m, PGASI_FULL_ANSWER, true);
    pgasi_send_check_lost(rank, status);
    return status;
}

bool pgasi_sendq_answers_by_puts(int rank)
{
    const pgasi_sendq_t *sq = pgasi_ctxs[PGASI_CTX_SERVICE]->sendq;
    if (!sq)
        return false;
    const out_t *out = &sq->out[PGASI_EP_ANY * sq->n_ranks + (uint32_t)rank];
    return out->kind == OUT_PUT && !out->begun; /* begun: see ctx_for_answer */
}

void pgasi_sendq_peer_died(void)
{
    __atomic_fetch_add(&pgas_call_run.epoch, UINT64_C(1) << 32, __ATOMIC_SEQ_CST);
}

void pgasi_ctl_send(int rank, const pgasi_ctl_t *ctl, const void *data, size_t bytes)
{
    pgas_status_t status =
        pgasi_sendq_answer(rank, PGASI_DESC_CHANNEL, ctl, sizeof *ctl, data, bytes);
    if (status != PGAS_OK && status != PGAS_ERR_PEER)
        PGASI_ERROR("call", "cannot answer the channel request of rank %d: %s", rank,
                    pgas_status_text(status));
}

/* ---- limits, sizes and sums ---- */

int pgasi_sendq_known(const pgasi_sendq_t *sq, const int **known_p)
{
    *known_p = sq->known;
    return sq->n_known;
}

pgas_agg_cursor_t *pgasi_sendq_cursors(pgasi_sendq_t *sq)
{
    return sq->cursor;
}

void pgasi_sendq_set_publish_bytes(pgasi_sendq_t *sq, size_t bytes)
{
    bytes = publish_bytes_for(bytes);
    if (sq->n_buffers == 0) /* pooled buffers keep their size */
        sq->publish_bytes = bytes;
    else
        sq->publish_bytes = PGASI_MIN(bytes, sq->publish_bytes);
}

void pgasi_sendq_set_memory(pgasi_sendq_t *sq, size_t bytes)
{
    size_t n = PGASI_MAX(bytes / buffer_capacity(sq), 1);
    sq->buffers_max = (int)PGASI_MIN((size_t)sq->buffers_max, n);
    while (sq->n_buffers > sq->buffers_max && sq->free_buffers) {
        buffer_t *buffer = sq->free_buffers;
        sq->free_buffers = buffer->next;
        buffer_release(buffer);
    }
}

size_t pgasi_sendq_table_bytes(size_t n_ranks)
{
    const pgasi_sendq_t *sq = NULL;
    return sizeof *sq + chunk_table_bytes() +
           (PGASI_EP_FIRST_THREAD + (size_t)pgasi_param.ctxs) * n_ranks *
               (pgasi_far_channel_bytes() + sizeof *sq->out + sizeof *sq->window +
                sizeof *sq->cursor + sizeof *sq->dirty + sizeof *sq->held + sizeof *sq->known);
}

const pgasi_sendq_stats_t *pgasi_sendq_stats(const pgasi_sendq_t *sq)
{
    return &sq->stats;
}

/* The order is: calls gathered for handlers, calls that wait, calls that have left. A call moves
 * through them in this order, so that it is counted at least once if it moves while this function
 * counts. */
uint64_t pgasi_sendqs_sent(void)
{
    uint64_t sum = 0;
    for (int l = 0; l < pgasi_n_ctxs; l++) {
        pgasi_ctx_t *ctx = __atomic_load_n(&pgasi_ctxs[l], __ATOMIC_ACQUIRE);
        pgasi_sendq_t *sq = ctx ? __atomic_load_n(&ctx->sendq, __ATOMIC_ACQUIRE) : NULL;
        if (!sq)
            continue;
        if (l == PGASI_CTX_SERVICE)
            sum += (uint64_t)__atomic_load_n(&sq->n_dirty, __ATOMIC_ACQUIRE);
        sum += (uint64_t)__atomic_load_n(&sq->n_held, __ATOMIC_ACQUIRE);
        int n_known = __atomic_load_n(&sq->n_known, __ATOMIC_ACQUIRE);
        for (int i = 0; i < n_known; i++)
            sum += pgasi_channel_handed_over(&sq->out[sq->known[i]]);
        sum += __atomic_load_n(&sq->far_sent, __ATOMIC_RELAXED);
    }
    return sum;
}
