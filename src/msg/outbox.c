/* The sending side of calls: see outbox.h, and out.h for its files. Here outboxes are made and end,
 * and here are the ways of other files into it.
 *
 * One set of cursors per context serves direct calls, aggregators and answers, so calls of one
 * thread to one rank keep their order. A direct call on the node is written in place into the
 * receiver's ring; gathered calls into a buffer that is copied into the ring in one go, or sent by
 * the transport as one active message. Nothing is allocated unless a peer is full or the first use
 * makes it necessary. */
#include "msg/out.h"
#include "msg/region.h"

#include <stdlib.h>

#include "boot/boot.h"
#include "mem/thread.h"

#define BUFFERS_MAX PGASI_OUTBOX_BUFFERS
PGASI_STATIC_ASSERT(BUFFERS_MAX == 64, "one bit each in slots_taken");

pgas_call_run_t pgas_call_run;
__thread pgas_call_path_t pgas_call_path;

/* ---- making and ending ---- */

/* A batch must fit a chunk, whose rest may be lost, and a message. */
static size_t publish_bytes_max(size_t chunk_bytes)
{
    return PGASI_MIN(pgasi_far_message_max() - 64, chunk_bytes / 2 - 64);
}

static size_t publish_bytes_for(size_t wanted)
{
    return PGASI_MIN(wanted, publish_bytes_max(pgasi_chunk_bytes));
}

static size_t chunk_table_bytes(void)
{
    return (size_t)pgasi_n_ports * (size_t)pgasi_boot.node_size * (size_t)pgasi_param.chunks_max *
           sizeof(chunk_t);
}

pgas_status_t pgasi_outbox_of(pgasi_ctx_t *ctx, pgasi_outbox_t **outbox_p)
{
    if (PGAS_LIKELY(ctx->outbox)) {
        *outbox_p = ctx->outbox;
        return PGAS_OK;
    }
    size_t n = (size_t)pgasi_boot.n_ranks * (size_t)pgasi_n_ports;
    pgasi_outbox_t *ob = calloc(1, sizeof *ob);
    if (!ob)
        return PGAS_ERR_NO_MEMORY;
    ob->ctx = ctx;
    ob->n_ranks = (uint32_t)pgasi_boot.n_ranks;
    ob->n_dests = (uint32_t)n;
    ob->header =
        pgasi_desc_header(0, 8, PGASI_MAX(ctx->index - PGASI_CTX_FIRST_OWN, 0)) & ~PGASI_DESC_VALID;
    ob->context = ctx->index == PGASI_CTX_SERVICE ? PGAS_CALL_HANDLERS
                  : ctx->shared                   ? PGAS_CALL_NOBODY
                                : PGAS_CALL_CONTEXT(ctx->index - PGASI_CTX_FIRST_OWN);
    ob->publish_bytes = publish_bytes_for(pgasi_param.agg_size);
    ob->buffers_max = BUFFERS_MAX;
    ob->slots = pgasi_region_buffers(ctx->index);
    ob->backlog_limit = pgasi_param.backlog_limit;
    ob->latency_ns = UINT64_MAX;
    ob->cursor = pgasi_lazy_alloc(n * sizeof *ob->cursor);
    ob->out = pgasi_lazy_alloc(n * sizeof *ob->out);
    ob->window = pgasi_lazy_alloc(n * sizeof *ob->window);
    ob->dirty = pgasi_lazy_alloc(n * sizeof *ob->dirty);
    ob->held = pgasi_lazy_alloc(n * sizeof *ob->held);
    ob->known = pgasi_lazy_alloc(n * sizeof *ob->known);
    ob->chunks = pgasi_lazy_alloc(chunk_table_bytes());
    if (!ob->cursor || !ob->out || !ob->window || !ob->dirty || !ob->held || !ob->known ||
        !ob->chunks) {
        pgasi_outbox_destroy(ob);
        return PGAS_ERR_NO_MEMORY;
    }
    __atomic_store_n(&ctx->outbox, ob, __ATOMIC_RELEASE);
    if (pgasi_self.ctx == ctx && !ctx->shared && ctx->index != PGASI_CTX_SERVICE)
        pgasi_self.outbox = ob;
    *outbox_p = ob;
    return PGAS_OK;
}

static void free_list(buffer_t *first)
{
    while (first) {
        buffer_t *b = first;
        first = b->next;
        pgasi_out_free_buffer(b);
    }
}

void pgasi_outbox_destroy(pgasi_outbox_t *ob)
{
    if (!ob)
        return;
    size_t n = ob->n_dests;
    for (int i = 0; i < ob->n_held; i++) {
        out_t *out = &ob->out[ob->held[i]];
        free_list(out->waiting);
        pgasi_out_free_buffer(out->batch);
        out->batch = NULL;
    }
    for (int i = 0; i < ob->n_dirty; i++)
        pgasi_out_free_buffer(ob->out[ob->dirty[i]].batch);
    free_list(ob->free_buffers);
    for (int i = 0; ob->known && i < ob->n_known; i++)
        pgasi_far_channel_free(&ob->out[ob->known[i]]);
    if (ob->ctx->shared)
        pgasi_outbox_shared_held = 0;
    pgasi_lazy_free(ob->cursor, n * sizeof *ob->cursor);
    pgasi_lazy_free(ob->out, n * sizeof *ob->out);
    pgasi_lazy_free(ob->window, n * sizeof *ob->window);
    pgasi_lazy_free(ob->dirty, n * sizeof *ob->dirty);
    pgasi_lazy_free(ob->held, n * sizeof *ob->held);
    pgasi_lazy_free(ob->known, n * sizeof *ob->known);
    pgasi_lazy_free(ob->chunks, chunk_table_bytes());
    ob->ctx->outbox = NULL;
    free(ob);
}

/* ---- destinations and buffers ---- */

void pgasi_out_know(pgasi_outbox_t *ob, out_t *out, int dest)
{
    out->waiting_end = &out->waiting;
    out->rank = dest % (int)ob->n_ranks;
    out->port = dest / (int)ob->n_ranks;
    out->dead = pgasi_boot_is_dead(out->rank);
    out->ask_at = PGASI_FAR_ASK_AFTER;
    if (pgasi_boot.local_of[out->rank] >= 0)
        pgasi_channel_start(ob, out, dest);
    else
        out->kind = OUT_FAR;
    ob->known[ob->n_known] = dest;
    /* others that add tails up look from now on */
    __atomic_store_n(&ob->n_known, ob->n_known + 1, __ATOMIC_RELEASE);
}

static size_t slot_bytes(size_t chunk_bytes)
{
    size_t largest = PGASI_MAX(publish_bytes_max(chunk_bytes), pgasi_param.call_max) + 64;
    return PGASI_ALIGN_UP(sizeof(buffer_t) + largest + PGASI_BUFFER_SLACK, 64);
}

static void *slot_at(const pgasi_outbox_t *ob, int slot)
{
    return ob->slots + (size_t)slot * slot_bytes(pgasi_chunk_bytes);
}

static int take_slot(pgasi_outbox_t *ob, size_t bytes)
{
    if (!ob->slots || ob->slots_taken == UINT64_MAX || bytes > slot_bytes(pgasi_chunk_bytes))
        return -1;
    int slot = __builtin_ctzll(~ob->slots_taken);
    ob->slots_taken |= UINT64_C(1) << slot;
    return slot;
}

void pgasi_out_free_buffer(buffer_t *buffer)
{
    if (!buffer)
        return;
    if (buffer->slot >= 0)
        buffer->outbox->slots_taken &= ~(UINT64_C(1) << buffer->slot);
    else
        free(buffer);
}

buffer_t *pgasi_out_buffer(pgasi_outbox_t *ob, size_t room, bool beyond)
{
    bool pooled = room <= buffer_capacity(ob);
    buffer_t *buffer = pooled ? ob->free_buffers : NULL;
    if (buffer) {
        ob->free_buffers = buffer->next;
        return buffer;
    }
    if (pooled && ob->n_buffers >= ob->buffers_max) {
        if (!beyond)
            return NULL;
        pooled = false;
    }
    size_t capacity = PGASI_MAX(room, buffer_capacity(ob));
    size_t bytes = PGASI_ALIGN_UP(sizeof *buffer + capacity + PGASI_BUFFER_SLACK, 64);
    int slot = take_slot(ob, bytes);
    buffer = slot >= 0 ? slot_at(ob, slot) : aligned_alloc(64, bytes);
    if (!buffer)
        return NULL;
    buffer->slot = slot;
    buffer->capacity = capacity;
    ob->n_buffers += pooled;
    buffer->pooled = pooled;
    buffer->outbox = ob;
    buffer->comp.fn = pgasi_far_left;
    return buffer;
}

/* ---- calls of other files ---- */

pgas_status_t pgasi_call_check(int rank, uint32_t handler, const void *args, size_t bytes)
{
    return check_call(rank, handler, args, bytes, false);
}

/* What handlers send is gathered until the incoming calls at hand have run, except the first: a
 * single call should not wait for the round to end. */
static bool is_first_answer(pgasi_outbox_t *ob)
{
    bool first = !ob->answered;
    ob->answered = true;
    return first;
}

/* Now, unless it is gathered behind context 0's first of the round, which ends with all being
 * published. */
static inline bool is_now(pgasi_outbox_t *ob)
{
    return !pgasi_self.in_handler || ob->ctx->index != PGASI_CTX_SERVICE || is_first_answer(ob);
}

static pgas_status_t call_through(pgasi_ctx_t *ctx, int rank, int port, const message_t *m,
                                  pgas_full_t full, bool now)
{
    pgasi_ctx_lock(ctx);
    pgasi_outbox_t *ob;
    pgas_status_t status = pgasi_outbox_of(ctx, &ob);
    if (PGAS_LIKELY(status == PGAS_OK))
        status = pgasi_out_send(ob, port * (int)ob->n_ranks + rank, m, full, is_now(ob) || now);
    pgasi_ctx_unlock(ctx);
    return status;
}

static inline int slot_of_caller(void)
{
    return pgasi_thread_attached() ? pgasi_self.slot : PGASI_SLOT_NONE;
}

/* The context through which the caller's calls go. */
static inline pgasi_ctx_t *ctx_for(bool shared)
{
    return shared && !pgasi_self.in_handler ? pgasi_ctxs[PGASI_CTX_SHARED] : pgasi_thread_ctx();
}

pgas_status_t pgasi_outbox_call(int rank, uint32_t handler, const void *args, size_t bytes,
                                const uint64_t *wire_token, pgas_full_t full)
{
    return pgasi_outbox_call_port(rank, PGASI_PORT_ANY, false, handler, args, bytes, wire_token,
                                  full);
}

pgas_status_t pgasi_outbox_call_port(int rank, int port, bool shared, uint32_t handler,
                                     const void *args, size_t bytes, const uint64_t *wire_token,
                                     pgas_full_t full)
{
    message_t m = { pgasi_desc_header(handler, bytes, slot_of_caller()) |
                        (wire_token ? PGASI_DESC_TOKEN : 0),
                    wire_token,
                    NULL,
                    args,
                    0,
                    bytes };
    return call_through(ctx_for(shared), rank, port, &m, full, false);
}

pgas_status_t pgasi_outbox_call_pair(int rank, int port, bool shared, uint32_t handler,
                                     const void *head, size_t head_bytes, const void *data,
                                     size_t bytes, pgas_full_t full)
{
    message_t m = { pgasi_desc_header(handler, head_bytes + bytes, slot_of_caller()),
                    NULL,
                    head,
                    data,
                    head_bytes,
                    bytes };
    return call_through(ctx_for(shared), rank, port, &m, full, false);
}

/* Context locked. */
static pgas_status_t probe(pgasi_outbox_t *ob, int dest, size_t bytes, bool queue)
{
    out_t *out = out_of(ob, dest);
    if (pgasi_boot_is_dead(out->rank))
        return PGAS_ERR_PEER;
    if (queue)
        return ob->backlog_bytes + bytes <= pgasi_param.backlog_limit ? PGAS_OK : PGAS_ERR_AGAIN;
    pgas_status_t status = pgasi_outbox_publish(ob, dest, PGASI_PUBLISH_ORDER);
    if (status != PGAS_OK || out->waiting)
        return status != PGAS_OK ? status : PGAS_ERR_AGAIN;
    if (out->kind == OUT_PUT)
        return pgasi_far_channel_probe(ob, out, bytes + 64);
    if (out->kind != OUT_NODE)
        return PGAS_OK;
    bool room = ring_room(out, bytes + 64);
    update_window(out); /* it may have gone on to another chunk */
    return room ? PGAS_OK : PGAS_ERR_AGAIN;
}

pgas_status_t pgasi_outbox_probe(int rank, int port, bool shared, size_t bytes, bool queue)
{
    pgasi_ctx_t *ctx = ctx_for(shared);
    pgasi_ctx_lock(ctx);
    pgasi_outbox_t *ob;
    pgas_status_t status = pgasi_outbox_of(ctx, &ob);
    if (status == PGAS_OK)
        status = probe(ob, port * (int)ob->n_ranks + rank, bytes, queue);
    pgasi_ctx_unlock(ctx);
    return status;
}

/* Past a call that the thread is building in its own context, for that may last until somebody has
 * this answer. */
static pgasi_ctx_t *ctx_for_answer(int rank)
{
    pgasi_ctx_t *ctx = pgasi_thread_ctx();
    const pgasi_outbox_t *ob = __atomic_load_n(&ctx->outbox, __ATOMIC_ACQUIRE);
    bool begun = ob && ob->out[PGASI_PORT_ANY * ob->n_ranks + (uint32_t)rank].begun;
    return PGAS_UNLIKELY(begun) ? pgasi_ctxs[PGASI_CTX_SHARED] : ctx;
}

pgas_status_t pgasi_outbox_answer(int rank, uint32_t handler, const void *head, size_t head_bytes,
                                  const void *data, size_t bytes)
{
    message_t m = { pgasi_desc_header(handler, head_bytes + bytes, pgasi_self.slot),
                    NULL,
                    head,
                    data,
                    head_bytes,
                    bytes };
    pgas_status_t status =
        call_through(ctx_for_answer(rank), rank, PGASI_PORT_ANY, &m, PGASI_FULL_ANSWER, false);
    pgasi_out_check_lost(rank, status);
    return status;
}

pgas_status_t pgasi_outbox_answer_now(int rank, uint32_t handler, const void *head,
                                      size_t head_bytes)
{
    message_t m = {
        pgasi_desc_header(handler, head_bytes, pgasi_self.slot), NULL, head, NULL, head_bytes, 0
    };
    pgas_status_t status =
        call_through(ctx_for_answer(rank), rank, PGASI_PORT_ANY, &m, PGASI_FULL_ANSWER, true);
    pgasi_out_check_lost(rank, status);
    return status;
}

void pgasi_outbox_peer_died(void)
{
    __atomic_fetch_add(&pgas_call_run.epoch, UINT64_C(1) << 32, __ATOMIC_SEQ_CST);
}

/* ---- limits, sizes and sums ---- */

int pgasi_outbox_known(const pgasi_outbox_t *ob, const int **known_p)
{
    *known_p = ob->known;
    return ob->n_known;
}

pgas_agg_cursor_t *pgasi_outbox_cursors(pgasi_outbox_t *ob)
{
    return ob->cursor;
}

void pgasi_outbox_set_publish_bytes(pgasi_outbox_t *ob, size_t bytes)
{
    bytes = publish_bytes_for(bytes);
    if (ob->n_buffers == 0) /* pooled buffers keep their size */
        ob->publish_bytes = bytes;
    else
        ob->publish_bytes = PGASI_MIN(bytes, ob->publish_bytes);
}

void pgasi_outbox_set_memory(pgasi_outbox_t *ob, size_t bytes)
{
    size_t n = PGASI_MAX(bytes / buffer_capacity(ob), 1);
    ob->buffers_max = (int)PGASI_MIN((size_t)ob->buffers_max, n);
    while (ob->n_buffers > ob->buffers_max && ob->free_buffers) {
        buffer_t *buffer = ob->free_buffers;
        ob->free_buffers = buffer->next;
        buffer_release(buffer);
    }
}

size_t pgasi_outbox_table_bytes(size_t n_ranks)
{
    const pgasi_outbox_t *ob = NULL;
    return sizeof *ob + chunk_table_bytes() +
           (PGASI_PORT_FIRST_THREAD + (size_t)pgasi_param.ctxs) * n_ranks *
               (pgasi_far_channel_bytes() + sizeof *ob->out + sizeof *ob->window +
                sizeof *ob->cursor + sizeof *ob->dirty + sizeof *ob->held + sizeof *ob->known);
}

size_t pgasi_outbox_pool_bytes(size_t chunk_bytes)
{
    return BUFFERS_MAX * slot_bytes(chunk_bytes);
}

const pgasi_outbox_stats_t *pgasi_outbox_stats(const pgasi_outbox_t *ob)
{
    return &ob->stats;
}

/* What is gathered for handlers, then what is held up, then what has left: a call moves through
 * them in this order, so that it is counted at least once whenever it moves on while this looks. */
uint64_t pgasi_outboxes_sent(void)
{
    uint64_t sum = 0;
    for (int l = 0; l < pgasi_n_ctxs; l++) {
        pgasi_ctx_t *ctx = __atomic_load_n(&pgasi_ctxs[l], __ATOMIC_ACQUIRE);
        pgasi_outbox_t *ob = ctx ? __atomic_load_n(&ctx->outbox, __ATOMIC_ACQUIRE) : NULL;
        if (!ob)
            continue;
        if (l == PGASI_CTX_SERVICE)
            sum += (uint64_t)__atomic_load_n(&ob->n_dirty, __ATOMIC_ACQUIRE);
        sum += (uint64_t)__atomic_load_n(&ob->n_held, __ATOMIC_ACQUIRE);
        int n_known = __atomic_load_n(&ob->n_known, __ATOMIC_ACQUIRE);
        for (int i = 0; i < n_known; i++)
            sum += pgasi_channel_handed_over(&ob->out[ob->known[i]]);
        sum += __atomic_load_n(&ob->far_sent, __ATOMIC_RELAXED);
    }
    return sum;
}
