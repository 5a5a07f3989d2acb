/* Receive queues: running what has arrived; see recv_queue.h.
 *
 * Shaped for many small calls from few active senders. A poll costs one load per channel that was
 * ever used. A single call moves one cache line. The receiver walks a published batch without
 * reading valid bits. */
#include "msg/recv.h"

#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "mem/ctx.h"
#include "mem/thread.h"
#include "msg/channel_memory.h"
#include "msg/send_queue.h"

#define RECENT_TURNS 7 /* rounds in a row that drain one channel alone, */
#define RECENT_CALLS 8 /* while it brings at most this many calls in each */

/* ---- running ---- */

/* Reports to the sender of a channel that is written by puts: the receiver has left the chunks
 * before `base`. */
static void report_position(const endpoint_t *ep, const incoming_t *in)
{
    pgasi_ctl_t ctl = { .what = PGASI_CTL_TOLD,
                        .ep = (uint32_t)(ep - pgasi_recv.eps),
                        .ctx = (uint32_t)in->source_ctx,
                        .position = in->base };
    pgasi_ctl_send(in->source_rank, &ctl, NULL, 0);
}

/* Continues in the chunk that a wrap descriptor names. The sender may use the chunk that was
 * left. */
static void change_chunk(const endpoint_t *ep, incoming_t *in, uint64_t header, uint64_t number)
{
    if (PGAS_UNLIKELY(number >= in->n_chunks))
        pgasi_fatal("call", "broken descriptor from rank %d: chunk %llu", in->source_rank,
                    (unsigned long long)number);
    in->grown |= number - in->first >= in->n_first;
    in->base += pgasi_chunk_bytes;
    in->chunk = in->at = in->chunks + number * pgasi_chunk_bytes;
    in->phase = phase_of(pgasi_desc_slot(header) & 1);
    __atomic_store_n(&in->state->consumed, in->base, __ATOMIC_RELEASE);
    if (PGAS_UNLIKELY(in->by_put))
        report_position(ep, in);
    else if (PGAS_LIKELY(pgasi_wakeups[in->wakeup]))
        pgasi_wake(in->wakeup);
}

/* Runs one publication that is no plain call: a batch, the end of a chunk, or a descriptor with a
 * token or for the library. */
static uint64_t take(const endpoint_t *ep, incoming_t *in, uint64_t header)
{
    uint32_t id = pgasi_desc_handler(header);
    if (id == PGASI_DESC_WRAP) {
        change_chunk(ep, in, header, *(const uint64_t *)(const void *)(in->at + 8));
        return 0;
    }
    bool batch = id == PGASI_DESC_BATCH;
    uint64_t bytes = batch ? 8 + pgasi_desc_bytes(header) : pgasi_desc_room(header);
    if (PGAS_UNLIKELY(bytes > (uint64_t)(in->chunk + pgasi_chunk_bytes - in->at)))
        pgasi_fatal("call", "broken descriptor of %llu bytes from rank %d",
                    (unsigned long long)bytes, in->source_rank);
    uint64_t n = run_descs(ep, in->at + (batch ? 8 : 0), bytes - (batch ? 8 : 0), in->source_rank);
    in->at += PGASI_ALIGN_UP(bytes, PGASI_RING_UNIT);
    return n;
}

/* A descriptor that is one call of a program's handler, and no thread waits for it. */
static inline bool is_plain(uint64_t header, uint32_t n_handlers)
{
    const uint64_t special = PGASI_DESC_TOKEN | (uint64_t)PGASI_DESC_MORE_MAX
                                                    << PGASI_DESC_MORE_SHIFT;
    return !(header & special) && pgasi_desc_handler(header) - 1u < n_handlers;
}

/* The same, and the caller waits for its completion. */
static inline bool is_counted(uint64_t header, uint32_t n_handlers)
{
    return header & PGASI_DESC_TOKEN && pgasi_desc_handler(header) - 1u < n_handlers;
}

/* Runs the descriptors that have arrived in one channel, up to the end of a chunk. Plain
 * descriptors run right here. */
static uint64_t drain_channel(endpoint_t *ep, incoming_t *in)
{
    const uint32_t source_bits = (uint32_t)in->source_rank << PGAS_SLOT_BITS;
    const char *at = in->at, *end = in->chunk + pgasi_chunk_bytes, *chunk = in->chunk;
    const uint64_t phase = in->phase;
    /* of a thread that has left, none: take() refuses the calls */
    const uint32_t n_handlers = ep->left ? 0 : __atomic_load_n(&pgasi_n_handlers, __ATOMIC_RELAXED);
    uint64_t n = 0;
    bool settles = false;
    for (;;) {
        uint64_t header = __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE);
        if (!pgasi_desc_has_arrived(header, phase))
            break;
        size_t bytes = pgasi_desc_bytes(header);
        if (PGAS_LIKELY(is_plain(header, n_handlers) && bytes < (size_t)(end - at) - 8)) {
            const pgasi_handler_entry_t *e = &pgasi_handlers[pgasi_desc_handler(header)];
            e->fn(at + 8, bytes, source_bits | (pgas_thread_t)pgasi_desc_slot(header), e->context);
            at += PGASI_ALIGN_UP(8 + bytes, PGASI_RING_UNIT);
            n++;
            continue;
        }
        if (PGAS_LIKELY(is_counted(header, n_handlers) && bytes < (size_t)(end - at) - 16)) {
            pgasi_token_ops.run(header, at + 16,
                                source_bits | (pgas_thread_t)pgasi_desc_slot(header),
                                *(const uint64_t *)(const void *)(at + 8));
            at += PGASI_ALIGN_UP(16 + bytes, PGASI_RING_UNIT);
            n++;
            settles = true;
            continue;
        }
        in->at = at;
        n += take(ep, in, header);
        at = in->at;
        if (in->chunk != chunk) /* other channels have their turn */
            break;
    }
    if (settles) /* before quiescence sees the calls as consumed */
        pgasi_token_ops.settle();
    if (in->at != at || n > 0 || in->chunk != chunk) {
        in->at = at;
        set_head(ep, in);
    }
    return n;
}

uint64_t pgasi_ep_drain(int number)
{
    endpoint_t *ep = &pgasi_recv.eps[number];
    uint32_t n_opened =
        __atomic_load_n(&pgasi_eps_opened[number * PGASI_WORDS_PER_LINE], __ATOMIC_ACQUIRE);
    if (PGAS_UNLIKELY(n_opened != ep->n_opened_seen))
        pgasi_recv_find_opened(ep, n_opened);
    uint64_t n = 0;
    pgasi_path_state_t before = pgasi_handlers_enter(number == PGASI_EP_ANY);
    for (uint32_t i = 0; i < ep->n_incoming; i++) {
        if (!has_arrived(ep, i))
            continue;
        ep->recent = i;
        n += drain_channel(ep, &ep->incoming[i]);
    }
    if (PGAS_UNLIKELY(__atomic_load_n(&ep->far, __ATOMIC_RELAXED)))
        n += pgasi_recv_drain_far(ep);
    pgasi_handlers_leave(before);
    ep->n_calls += n;
    return n;
}

uint64_t pgasi_ep_drain_some(int number)
{
    endpoint_t *ep = &pgasi_recv.eps[number];
    uint32_t i = ep->recent;
    if (ep->turns >= RECENT_TURNS || i >= ep->n_incoming || !has_arrived(ep, i)) {
        ep->turns = 0;
        return pgasi_ep_drain(number);
    }
    pgasi_path_state_t before = pgasi_handlers_enter(number == PGASI_EP_ANY);
    uint64_t n = drain_channel(ep, &ep->incoming[i]);
    pgasi_handlers_leave(before);
    ep->turns = n <= RECENT_CALLS ? ep->turns + 1 : RECENT_TURNS;
    ep->n_calls += n;
    return n;
}

uint64_t pgasi_ep_drain_if_free(int number)
{
    endpoint_t *ep = &pgasi_recv.eps[number];
    if (!pgasi_ep_pending(number) || !pgasi_spin_try(&ep->lock))
        return 0;
    uint64_t n = pgasi_ep_drain(number);
    pgasi_spin_unlock(&ep->lock);
    return n;
}

void pgasi_ep_drain_out(int number)
{
    for (int i = 0; i <= pgasi_param.chunks_max && pgasi_ep_drain_if_free(number) > 0; i++) {
    }
}

/* ---- threads that left ---- */

void pgasi_ep_set_left(int number, bool left)
{
    uint64_t bit = UINT64_C(1) << (number - PGASI_EP_FIRST_THREAD);
    pgasi_spin_lock(&pgasi_recv.eps[number].lock, 0);
    __atomic_store_n(&pgasi_recv.eps[number].left, left, __ATOMIC_RELAXED);
    pgasi_spin_unlock(&pgasi_recv.eps[number].lock);
    if (left)
        __atomic_fetch_or(&pgasi_eps_left, bit, __ATOMIC_RELEASE);
    else
        __atomic_fetch_and(&pgasi_eps_left, ~bit, __ATOMIC_RELEASE);
}

void pgasi_ep_serve_for_all(int number)
{
    __atomic_fetch_or(&pgasi_eps_left, UINT64_C(1) << (number - PGASI_EP_FIRST_THREAD),
                      __ATOMIC_RELEASE);
}

uint64_t pgasi_eps_refuse(void)
{
    uint64_t bits = __atomic_load_n(&pgasi_eps_left, __ATOMIC_RELAXED), n = 0;
    for (; PGAS_UNLIKELY(bits != 0); bits &= bits - 1) {
        int number = PGASI_EP_FIRST_THREAD + __builtin_ctzll(bits);
        if (pgasi_ep_used(number))
            n += pgasi_ep_drain_if_free(number);
    }
    return n;
}

/* ---- sums ---- */

uint64_t pgasi_recvq_consumed(void)
{
    uint64_t sum = 0;
    for (int p = 0; p < pgasi_n_eps; p++) {
        uint32_t n = __atomic_load_n(&pgasi_recv.eps[p].n_incoming, __ATOMIC_ACQUIRE);
        for (uint32_t i = 0; i < n; i++)
            sum += __atomic_load_n(&pgasi_recv.eps[p].incoming[i].state->head, __ATOMIC_ACQUIRE);
        sum += __atomic_load_n(&pgasi_recv.eps[p].far_consumed, __ATOMIC_ACQUIRE);
    }
    return sum;
}

uint64_t pgasi_recvq_n_calls(void)
{
    uint64_t sum = 0;
    for (int p = 0; p < pgasi_n_eps; p++)
        sum += __atomic_load_n(&pgasi_recv.eps[p].n_calls, __ATOMIC_RELAXED);
    return sum;
}

void pgasi_recvq_count(uint64_t *n_channels_p, uint64_t *n_grown_p)
{
    *n_channels_p = *n_grown_p = 0;
    for (int p = 0; p < pgasi_n_eps; p++) {
        uint32_t n = __atomic_load_n(&pgasi_recv.eps[p].n_incoming, __ATOMIC_ACQUIRE);
        *n_channels_p += n;
        for (uint32_t i = 0; i < n; i++)
            *n_grown_p += pgasi_recv.eps[p].incoming[i].grown;
    }
}
