/* Channels on the node, the sender's side; recv_queue.h describes the receiver's.
 *
 * A channel is a ring of chunks in the receiver's memory. A descriptor is written once, in place,
 * and becomes valid by its first word. A chunk ends with a descriptor that names the next. The
 * sender takes a further chunk only if none was free for a while, because few chunks stay in
 * caches. The tail always moves before a descriptor becomes valid, so that quiescence never sees
 * more consumed than sent. */
#include "msg/send.h"

#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "boot/wait.h"

#define GROW_AFTER 64 /* attempts */
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

/* ---- on the node, the receiver's memory is within reach ---- */

static bool grow_here(out_t *out, uint32_t *number_p, bool *fresh_p)
{
    return pgasi_recvq_grow(out->wakeup_number, number_p, fresh_p);
}

static bool shrink_here(out_t *out, uint32_t number)
{
    pgasi_recvq_shrink(out->wakeup_number, number);
    return true;
}

uint64_t pgasi_channel_head(out_t *out)
{
    return __atomic_load_n(out->channel.consumed + 1, __ATOMIC_ACQUIRE);
}

static const chunk_source_t node_source = { grow_here, shrink_here, pgasi_channel_head, NULL };

/* The first use of a destination on the node: its channel. */
static void start_here(pgasi_sendq_t *sq, out_t *out, int dest)
{
    int node_rank = pgasi_boot.local_of[out->rank];
    pgasi_recvq_open(node_rank, out->ep, sq->ctx->index, &out->channel);
    size_t index = (size_t)(out->ep * pgasi_boot.node_size + node_rank);
    pgasi_channel_set_chunks(out, &sq->chunks[index * (size_t)pgasi_param.chunks_max], true);
    out->wakeup_number = node_rank;
    out->source = &node_source;
    pgasi_channel_begin(sq, out, dest);
}

void pgasi_send_know(pgasi_sendq_t *sq, out_t *out, int dest)
{
    out->waiting_end = &out->waiting;
    out->rank = dest % (int)sq->n_ranks;
    out->ep = dest / (int)sq->n_ranks;
    out->dead = pgasi_boot_is_dead(out->rank);
    out->ask_at = PGASI_FAR_ASK_AFTER;
    if (pgasi_boot.local_of[out->rank] >= 0)
        start_here(sq, out, dest);
    else
        out->kind = OUT_FAR;
    sq->known[sq->n_known] = dest;
    /* threads that sum up tails read it from now on */
    __atomic_store_n(&sq->n_known, sq->n_known + 1, __ATOMIC_RELEASE);
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

/* The next chunk is free, or a further one becomes the next. Not at once: few chunks stay in
 * caches, and a receiver that is merely slower than the sender needs no more. */
bool pgasi_channel_find_chunk(out_t *out)
{
    int next = (out->current + 1) % out->n_chunks;
    uint32_t number;
    bool fresh;
    if (out->chunks[next].free_at <= __atomic_load_n(out->channel.consumed, __ATOMIC_ACQUIRE)) {
        out->n_refused = 0;
        return true;
    }
    if (out->source->look && out->n_refused % LOOK_EVERY == LOOK_EVERY - 1)
        out->source->look(out); /* the receiver's report may wait behind what waits here */
    if (out->n_refused++ < GROW_AFTER || out->n_chunks >= pgasi_param.chunks_max ||
        !out->source->grow(out, &number, &fresh))
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

/* Continues in the next chunk, with a wrap descriptor at the tail. The tail moves first, as
 * always. */
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
    if (out->w->sized) /* streams do not record it */
        out->dirty_to = end - PGASI_RING_UNIT;
    out->w->sized = 0;
    /* valid bits of the use before the last count again */
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
    /* after base */
    __atomic_store_n(&out->w->phase, c->odd ? PGAS_CALL_PHASE_ODD : PGAS_CALL_PHASE_EVEN,
                     __ATOMIC_RELEASE);
    __atomic_store_n((uint64_t *)(void *)out->chunk, 0, __ATOMIC_RELAXED);
    set_pos(out, out->chunk);
    close_window(out); /* it was the window of the previous chunk */
    __atomic_store_n((uint64_t *)(void *)pos, shown | (uint64_t)c->odd << PGASI_DESC_SLOT_SHIFT,
                     __ATOMIC_RELEASE);
    wake_receiver(out);
    return true;
}

/* Copies a batch into the ring: full lines one after the other, whose fetches overlap. Calls that
 * are written into the ring one by one alternate with stores to the cursor's own line. Then stores
 * would wait for one line after the other: three to four times slower on the machines measured. */
pgas_status_t pgasi_channel_publish(out_t *out, buffer_t *batch)
{
    size_t bytes = batch->used;
    if (PGAS_UNLIKELY(bytes > pgasi_chunk_bytes - 64))
        pgasi_fatal("call", "%zu bytes do not fit a chunk", bytes);
    if (!ring_room(out, 8 + bytes))
        return PGAS_ERR_AGAIN;
    memcpy(out->w->pos + 8, batch->data, bytes);
    make_valid(out, 8 + bytes,
               PGASI_DESC_VALID | PGASI_DESC_BATCH | (uint64_t)bytes << PGASI_DESC_BYTES_SHIFT);
    buffer_release(batch);
    wake_receiver(out);
    return PGAS_OK;
}

/* Another thread may be sending. Because of the order in which the parts of the tail are stored,
 * this thread may for a moment see too much, never too little. A header that is written meanwhile
 * behind the tail is not valid in this phase, or it belongs to a call that counts. */
__attribute__((no_sanitize("thread"))) uint64_t pgasi_channel_handed_over(const out_t *out)
{
    uint64_t base, phase;
    const char *pos, *end;
    out_kind_t kind = __atomic_load_n(&out->kind, __ATOMIC_ACQUIRE);
    if (kind != OUT_NODE)
        return kind == OUT_PUT ? __atomic_load_n(&out->put_position, __ATOMIC_ACQUIRE) : 0;
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
