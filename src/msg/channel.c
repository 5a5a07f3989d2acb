/* Channels on the node, the sender's side; recv_queue.h has the other.
 *
 * A channel is a ring of chunks in the receiver's memory; a descriptor is written once, in place,
 * and shown by its first word. A chunk is left with a descriptor that names the next. A further one
 * is taken only when none was free for a while: few chunks stay in caches. The tail always moves
 * before a descriptor shows, so that quiescence never sees more consumed than sent. Programs may
 * set channels up ahead, and take them down. */
#include "msg/send.h"

#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "mem/thread.h"
#include "pgas/rma.h"

#define GROW_AFTER 64 /* looks in vain */
#define LOOK_EVERY 16

void pgasi_channel_set_chunks(out_t *out, chunk_t *chunks, bool fresh)
{
    uint32_t dirty = fresh ? 0 : (uint32_t)pgasi_chunk_bytes;
    out->chunks = chunks;
    out->n_chunks = (int)out->channel.n_first;
    out->clean_from = dirty;
    for (int i = 0; i < out->n_chunks; i++)
        chunks[i] = (chunk_t){ out->channel.first + (uint32_t)i, dirty, dirty, 0, i > 0 };
}

void pgasi_channel_start(pgasi_sendq_t *sq, out_t *out, int dest)
{
    int node_rank = pgasi_boot.local_of[out->rank];
    pgasi_recvq_open(node_rank, out->ep, sq->ctx->index, &out->channel);
    size_t index = (size_t)(out->ep * pgasi_boot.node_size + node_rank);
    pgasi_channel_set_chunks(out, &sq->chunks[index * (size_t)pgasi_param.chunks_max], true);
    out->wakeup_number = node_rank;
    pgasi_channel_begin(sq, out, dest);
}

void pgasi_channel_begin(pgasi_sendq_t *sq, out_t *out, int dest)
{
    out->chunk = out->channel.chunks + out->channel.first * pgasi_chunk_bytes;
    out->wakeup = pgasi_wakeups[out->wakeup_number];
    out->w = &sq->window[dest];
    out->w->sleepers = &out->wakeup->sleepers;
    out->w->phase = PGAS_CALL_PHASE_EVEN;
    set_pos(out, out->chunk);
    __atomic_store_n(&out->kind, OUT_NODE, __ATOMIC_RELEASE);
    update_window(out);
}

void pgasi_call_settle(pgas_call_window_t *w)
{
    if (w->recent > 1)
        __atomic_store_n(&w->pos, (char *)(uintptr_t)true_tail(w->pos, w->phase), __ATOMIC_RELEASE);
    w->recent = 0;
}

/* The chunk after the present one is free, or becomes the next: one that the receiver gives in
 * addition. Not at once: few chunks stay in caches, and a receiver that is merely slower than we
 * are needs no more. */
bool pgasi_channel_find_chunk(out_t *out)
{
    int next = (out->current + 1) % out->n_chunks;
    uint32_t number;
    bool fresh;
    if (out->chunks[next].free_at <= __atomic_load_n(out->channel.consumed, __ATOMIC_ACQUIRE)) {
        out->n_refused = 0;
        return true;
    }
    if (out->kind == OUT_PUT && out->n_refused % LOOK_EVERY == LOOK_EVERY - 1)
        pgasi_far_channel_look(out); /* what tells us may wait behind what waits for us */
    if (out->n_refused++ < GROW_AFTER || out->n_chunks >= pgasi_param.chunks_max ||
        !(out->far ? pgasi_far_channel_grow(out, &number, &fresh)
                   : pgasi_recvq_grow(out->wakeup_number, &number, &fresh)))
        return false;
    out->n_refused = 0;
    next = out->current + 1;
    memmove(&out->chunks[next + 1], &out->chunks[next],
            (size_t)(out->n_chunks - next) * sizeof *out->chunks);
    uint32_t dirty = fresh ? 0 : (uint32_t)pgasi_chunk_bytes;
    out->chunks[next] = (chunk_t){ number, dirty, dirty, 0, true };
    out->n_chunks++;
    return true;
}

/* Goes on in the next chunk, with a descriptor that says so at the tail. As ever the tail moves
 * first. */
bool pgasi_channel_next(out_t *out)
{
    if (!pgasi_channel_find_chunk(out))
        return false;
    char *pos = out->w->pos;
    uint64_t first_word = PGASI_DESC_VALID | PGASI_DESC_WRAP;
    uint64_t shown = pgasi_desc_shown(first_word, out->w->phase);
    chunk_t *left = &out->chunks[out->current], *c;
    left->free_at = out->base + pgasi_chunk_bytes;
    uint32_t end = (uint32_t)(pos - out->chunk) + PGASI_RING_UNIT;
    if (out->w->sized) /* streams do not note it */
        out->dirty_to = end - PGASI_RING_UNIT;
    out->w->sized = 0;
    /* marks of the use before the last count again */
    left->dirty = end < left->written ? left->written : out->dirty_to;
    left->written = PGASI_MAX(left->written, end);
    out->current = (out->current + 1) % out->n_chunks;
    c = &out->chunks[out->current];
    c->odd = !c->odd;
    out->clean_from = c->dirty;
    out->dirty_to = 0;
    *(uint64_t *)(void *)(pos + 8) = c->number;
    __atomic_store_n(&out->base, out->base + pgasi_chunk_bytes, __ATOMIC_RELAXED);
    out->chunk = out->channel.chunks + c->number * pgasi_chunk_bytes;
    /* behind base */
    __atomic_store_n(&out->w->phase, c->odd ? PGAS_CALL_PHASE_ODD : PGAS_CALL_PHASE_EVEN,
                     __ATOMIC_RELEASE);
    __atomic_store_n((uint64_t *)(void *)out->chunk, 0, __ATOMIC_RELAXED);
    set_pos(out, out->chunk);
    close_window(out); /* its end was that of the chunk before */
    __atomic_store_n((uint64_t *)(void *)pos, shown | (uint64_t)c->odd << PGASI_DESC_SLOT_SHIFT,
                     __ATOMIC_RELEASE);
    wake_receiver(out);
    return true;
}

/* Fetches the lines of a place that is about to be written, by a store to each: as many are then
 * under way as stores may wait, while a copy has several stores to a line. The first, at which the
 * receiver looks, comes last. */
static inline void fetch_lines(char *at, size_t bytes)
{
    for (size_t i = bytes / 64 * 64; i > 0; i -= 64)
        __atomic_store_n((uint64_t *)(void *)(at + i - 16), 0, __ATOMIC_RELAXED); /* no mark */
}

/* Copies a batch into the ring: full lines one after the other, whose fetching overlaps. (Written
 * into the ring call by call, alternating with the cursor's own line, stores wait for one line
 * after the other: three to four times slower on the machines measured.) */
pgas_status_t pgasi_channel_publish(out_t *out, buffer_t *batch)
{
    size_t bytes = batch->used;
    if (PGAS_UNLIKELY(bytes > pgasi_chunk_bytes - 64))
        pgasi_fatal("call", "%zu bytes do not fit a chunk", bytes);
    if (!ring_room(out, 8 + bytes))
        return PGAS_ERR_AGAIN;
    fetch_lines(out->w->pos, 8 + bytes);
    memcpy(out->w->pos + 8, batch->data, bytes);
    show(out, 8 + bytes,
         PGASI_DESC_VALID | PGASI_DESC_BATCH | (uint64_t)bytes << PGASI_DESC_BYTES_SHIFT);
    buffer_release(batch);
    wake_receiver(out);
    return PGAS_OK;
}

/* Another thread may be sending. The order in which the tail's parts are stored lets us see too
 * much for a moment, never too little. What is written meanwhile behind the tail is no mark of this
 * phase, or of a call that counts. */
__attribute__((no_sanitize("thread"))) uint64_t pgasi_channel_handed_over(const out_t *out)
{
    uint64_t base, phase;
    const char *pos, *end;
    out_kind_t kind = __atomic_load_n(&out->kind, __ATOMIC_ACQUIRE);
    if (kind != OUT_NODE)
        return kind == OUT_PUT ? pgasi_far_channel_position(out) : 0;
    do {
        base = __atomic_load_n(&out->base, __ATOMIC_ACQUIRE);
        pos = __atomic_load_n(&out->w->pos, __ATOMIC_ACQUIRE);
        phase = __atomic_load_n(&out->w->phase, __ATOMIC_RELAXED);
        end = true_tail(pos, phase);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (base != __atomic_load_n(&out->base, __ATOMIC_RELAXED) ||
             pos != __atomic_load_n(&out->w->pos, __ATOMIC_RELAXED));
    return base + ((uint64_t)(pos - out->channel.chunks) & (pgasi_chunk_bytes - 1)) +
           (uint64_t)(end - pos);
}

/* ---- set up and taken down by the program ---- */

/* The destination of a channel of the calling thread's context, which is locked then; not looked
 * at: it may not be known yet. */
static pgas_status_t own_channel(pgas_thread_t target, pgasi_sendq_t **ob_p, int *dest_p)
{
    int rank = pgas_thread_rank(target), ep = pgasi_ep_of_slot(pgas_thread_slot(target));
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    if ((uint32_t)rank >= (uint32_t)pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    if (ep < 0)
        return PGAS_ERR_LIMIT;
    *dest_p = ep * pgasi_boot.n_ranks + rank;
    pgasi_ctx_lock(pgasi_self.ctx);
    status = pgasi_sendq_of(pgasi_self.ctx, ob_p);
    if (status != PGAS_OK)
        pgasi_ctx_unlock(pgasi_self.ctx);
    return status;
}

/* Asks, waits for the answer, and goes on by it if nothing is before that; else the next call does.
 * Context locked, given up while waiting. */
static pgas_status_t open_far(pgasi_sendq_t *sq, out_t *out, int dest)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    bool asked = false;
    while ((!(asked = asked || pgasi_far_channel_ask(sq, out)) ||
            pgasi_far_channel_state(out) == FAR_ASKED) &&
           !pgasi_boot_is_dead(out->rank)) {
        pgasi_ctx_unlock(sq->ctx);
        pgasi_wait_step(&w);
        pgasi_ctx_lock(sq->ctx);
    }
    pgasi_ctx_unlock(sq->ctx);
    pgasi_wait_end(&w);
    pgasi_ctx_lock(sq->ctx);
    if (is_granted(out) && !out->waiting && !out->batch && !out->begun)
        pgasi_far_channel_join(sq, out, dest);
    return pgasi_boot_is_dead(out->rank) ? PGAS_ERR_PEER : PGAS_OK;
}

pgas_status_t pgas_channel_open(pgas_thread_t target)
{
    pgasi_sendq_t *sq;
    int dest;
    pgas_status_t status = own_channel(target, &sq, &dest);
    if (status != PGAS_OK)
        return status;
    out_t *out = out_of(sq, dest);
    if (out->kind == OUT_FAR)
        status = pgasi_ctx_open(sq->ctx);
    if (status == PGAS_OK && out->kind == OUT_FAR)
        status = open_far(sq, out, dest);
    pgasi_ctx_unlock(sq->ctx);
    return status;
}

/* How far the receiver is, read from its memory. */
static uint64_t head_of(out_t *out)
{
    if (out->kind == OUT_PUT)
        return pgasi_far_channel_head(out);
    return __atomic_load_n(out->channel.consumed + 1, __ATOMIC_ACQUIRE);
}

static bool has_chunks(const out_t *out)
{
    return out->kind == OUT_NODE || out->kind == OUT_PUT;
}

/* The chunks beyond the first go back, but the one in use; the receiver has come to the tail.
 * False: some not yet. */
static bool give_back(out_t *out)
{
    bool all = true;
    uint32_t first = out->channel.first, end = first + out->channel.n_first;
    int n = 0, current = out->current;
    for (int i = 0; i < out->n_chunks; i++) {
        chunk_t c = out->chunks[i];
        bool stays = i == current || (c.number >= first && c.number < end);
        if (!stays && out->far)
            all &= !(stays = !pgasi_far_channel_shrink(out, c.number));
        else if (!stays)
            pgasi_recvq_shrink(out->wakeup_number, c.number);
        if (i == current)
            out->current = n;
        if (stays)
            out->chunks[n++] = c;
    }
    out->n_chunks = n;
    return all;
}

pgas_status_t pgas_channel_close(pgas_thread_t target)
{
    pgasi_sendq_t *sq;
    int dest;
    pgas_status_t status = own_channel(target, &sq, &dest);
    if (status != PGAS_OK)
        return status;
    out_t *out = out_of(sq, dest);
    if (out->begun)
        status = PGAS_ERR_BUSY;
    else
        status = pgasi_sendq_flush(sq, dest);
    /* a chunk that was made ready and not used is not written to later */
    if (status == PGAS_OK && out->kind == OUT_PUT) {
        pgasi_ctx_unlock(sq->ctx);
        status = pgas_flush(out->rank);
        pgasi_ctx_lock(sq->ctx);
    }
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (status == PGAS_OK && has_chunks(out) &&
           (head_of(out) < pgasi_channel_handed_over(out) || !give_back(out))) {
        pgasi_ctx_unlock(sq->ctx);
        pgasi_wait_step(&w);
        pgasi_ctx_lock(sq->ctx);
        if (pgasi_boot_is_dead(out->rank))
            status = PGAS_ERR_PEER;
    }
    pgasi_ctx_unlock(sq->ctx);
    pgasi_wait_end(&w);
    return status;
}

pgas_status_t pgas_channel_query(pgas_thread_t target, pgas_channel_info_t *info_p)
{
    pgasi_sendq_t *sq;
    int dest;
    pgas_status_t status = info_p ? own_channel(target, &sq, &dest) : PGAS_ERR_INVALID;
    if (status != PGAS_OK)
        return status;
    out_t *out = &sq->out[dest];
    *info_p = (pgas_channel_info_t){ .open = out->kind != OUT_UNKNOWN,
                                     .stores = out->kind == OUT_NODE,
                                     .puts = out->kind == OUT_PUT };
    if (has_chunks(out)) {
        info_p->chunk_bytes = pgasi_chunk_bytes;
        info_p->n_chunks = out->n_chunks;
        info_p->sent = pgasi_channel_handed_over(out);
        info_p->consumed = head_of(out);
    }
    pgasi_ctx_unlock(sq->ctx);
    return PGAS_OK;
}
