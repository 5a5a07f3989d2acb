/* The sending side of calls: see outbox.h.
 *
 * One set of cursors per lane serves direct calls, aggregators and answers, so calls of one thread to one rank keep their
 * order. A direct call on the node is written in place into the receiver's ring; gathered calls into a buffer that is
 * copied into the ring in one go, or sent by the transport as one active message. When a peer is
 * full, closed batches wait in order for progress to send them; a caller waits for them with progress, a handler, which
 * must not wait, goes on gathering behind them. Nothing is allocated unless a peer is full or the first use makes it
 * necessary. */
#include "call/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/handler.h"
#include "call/inbox.h"
#include "call/record.h"
#include "call/sync.h"
#include "mem/thread.h"

#define BUFFERS_MAX PGASI_OUTBOX_BUFFERS
#define GROW_AFTER 64   /* looks in vain */
#define DIRECT_MAX 1024 /* bytes of a call that takes the short path on the node */
#define OVERFLOWS_PER_TRY 4
#define SPINS_FOR_ROOM 512 /* some ten microseconds */

/* A batch being gathered, or a message being sent. */
typedef struct buffer {
    pgasi_tp_comp_t comp;
    struct buffer *next;
    pgasi_outbox_t *outbox;
    size_t capacity, used; /* bytes; used when closed */
    uint32_t n_calls;      /* without those of the open run that the inline path adds */
    bool pooled;
    _Alignas(64) char data[];
} buffer_t;

typedef enum { OUT_UNKNOWN, OUT_NODE, OUT_FAR } out_kind_t;

/* A chunk of a channel, as its sender knows it. */
typedef struct {
    uint32_t number;
    uint32_t dirty;   /* up to here there may be what could pass for a mark of the next use */
    uint32_t written; /* up to here it ever was */
    uint64_t free_at; /* when the receiver has come to this position */
    bool odd;         /* the mark of its last use, or of its first */
} chunk_t;

/* One destination: a port of a rank, and its number here is port * n_ranks + rank. */
typedef struct {
    pgas_call_window_t *w; /* node: the tail, exact once settled, and where inline calls may go */
    char *end;             /* node: where other direct calls may go, NULL while they may not */
    pgasi_bell_t *bell;
    out_kind_t kind;
    int rank, port, node_rank;
    bool dirty;  /* in the list of open batches */
    bool held;   /* in the list of what progress must go on with */
    bool begun;  /* a call is being built in place (pgas_call_begin) */
    bool dead;   /* the rank is: nothing goes there any more */
    buffer_t *batch; /* NULL: none open */
    uint64_t opened; /* the outbox' tick when it was */
    char *run;       /* header of the open run, if the cursor has a kind */
    char *chunk;     /* node: in which the tail is */
    uint64_t base;   /* position of its first byte */
    uint32_t clean_from; /* bytes of it from here on hold nothing that could pass for a mark of their lap */
    uint32_t dirty_to;   /* ... and will not in its next use */
    int n_chunks, current;
    uint32_t n_refused; /* looks for a free chunk since there was one */
    chunk_t *chunks; /* in the order of their use, round and round */
    pgasi_channel_t channel;
    buffer_t *waiting, **waiting_end; /* closed batches for which there was no room yet, in order */
} out_t;

struct pgasi_outbox {
    out_t *out;      /* by destination, as all arrays here lazily touched */
    uint32_t n_ranks, n_dests;
    int *known;      /* destinations that were ever used */
    int n_known;
    chunk_t *chunks; /* by port and rank of the node, PGAS_CHUNKS_MAX each */
    pgas_call_window_t *window; /* by destination */
    uint64_t header; /* of a call of 8 bytes of the owning thread, but for handler and lap */
    uint64_t epoch;  /* pgas_call_run's when windows to dead ranks were last closed */
    pgasi_lane_t *lane;
    pgas_agg_cursor_t *cursor; /* by destination */
    int *dirty, *held;
    int n_dirty, n_held;
    bool answered; /* lane 0: a handler of this round of serving has sent something already */
    size_t publish_bytes;
    uint64_t latency_ns, ticked_ns, tick; /* see pgasi_outbox_look */
    bool ticking;
    buffer_t *free_buffers;
    int n_buffers, buffers_max;
    size_t backlog_bytes, backlog_limit;
    uint32_t n_overflows; /* since progress was last tried for one */
    uint64_t far_sent;
    pgasi_outbox_stats_t stats;
};

uint64_t pgasi_far_consumed;
uint32_t pgasi_outbox_shared_held;
pgas_call_run_t pgas_call_run;
__thread pgas_call_path_t pgas_call_path;
static char *far_scratch; /* for data that arrives misaligned */
static size_t far_scratch_bytes;

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

static size_t buffer_capacity(const pgasi_outbox_t *ob)
{
    return ob->publish_bytes + 64;
}

static size_t chunk_table_bytes(void)
{
    return (size_t)pgasi_n_ports * (size_t)pgasi_boot.node_size * (size_t)pgasi_param.chunks_max * sizeof(chunk_t);
}

pgas_status_t pgasi_outbox_of(pgasi_lane_t *lane, pgasi_outbox_t **outbox_p)
{
    if (PGAS_LIKELY(lane->outbox != NULL)) {
        *outbox_p = lane->outbox;
        return PGAS_OK;
    }
    size_t n = (size_t)pgasi_boot.n_ranks * (size_t)pgasi_n_ports;
    pgasi_outbox_t *ob = calloc(1, sizeof *ob);
    if (!ob)
        return PGAS_ERR_NO_MEMORY;
    ob->lane = lane;
    ob->n_ranks = (uint32_t)pgasi_boot.n_ranks;
    ob->n_dests = (uint32_t)n;
    ob->header = pgasi_rec_header(0, 8, PGASI_MAX(lane->index - PGASI_LANE_FIRST_OWN, 0)) & ~PGASI_REC_VALID;
    ob->publish_bytes = publish_bytes_for(pgasi_param.agg_size);
    ob->buffers_max = BUFFERS_MAX;
    ob->backlog_limit = pgasi_param.backlog_limit;
    ob->latency_ns = UINT64_MAX;
    ob->cursor = pgasi_lazy_alloc(n * sizeof *ob->cursor);
    ob->out = pgasi_lazy_alloc(n * sizeof *ob->out);
    ob->window = pgasi_lazy_alloc(n * sizeof *ob->window);
    ob->dirty = pgasi_lazy_alloc(n * sizeof *ob->dirty);
    ob->held = pgasi_lazy_alloc(n * sizeof *ob->held);
    ob->known = pgasi_lazy_alloc(n * sizeof *ob->known);
    ob->chunks = pgasi_lazy_alloc(chunk_table_bytes());
    if (!ob->cursor || !ob->out || !ob->window || !ob->dirty || !ob->held || !ob->known || !ob->chunks) {
        pgasi_outbox_destroy(ob);
        return PGAS_ERR_NO_MEMORY;
    }
    __atomic_store_n(&lane->outbox, ob, __ATOMIC_RELEASE);
    if (pgasi_self.lane == lane && !lane->shared && lane->index != PGASI_LANE_SERVICE)
        pgasi_self.outbox = ob;
    *outbox_p = ob;
    return PGAS_OK;
}

static void free_list(buffer_t *first)
{
    while (first) {
        buffer_t *b = first;
        first = b->next;
        free(b);
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
        free(out->batch);
        out->batch = NULL;
    }
    for (int i = 0; i < ob->n_dirty; i++)
        free(ob->out[ob->dirty[i]].batch);
    free_list(ob->free_buffers);
    if (ob->lane->shared)
        pgasi_outbox_shared_held = 0;
    pgasi_lazy_free(ob->cursor, n * sizeof *ob->cursor);
    pgasi_lazy_free(ob->out, n * sizeof *ob->out);
    pgasi_lazy_free(ob->window, n * sizeof *ob->window);
    pgasi_lazy_free(ob->dirty, n * sizeof *ob->dirty);
    pgasi_lazy_free(ob->held, n * sizeof *ob->held);
    pgasi_lazy_free(ob->known, n * sizeof *ob->known);
    pgasi_lazy_free(ob->chunks, chunk_table_bytes());
    ob->lane->outbox = NULL;
    free(ob);
}

/* ---- the node: channels of chunks ---- */

static inline void set_pos(out_t *out, const char *pos)
{
    __atomic_store_n(&out->w->pos, (char *)(uintptr_t)pos, __ATOMIC_RELEASE);
}

/* Where the records end that short calls have set from pos on (see pgas_call_tail). Others than the sender may look, at what
 * is no record any more: never beyond the block. (Not for ThreadSanitizer, for the sake of handed_over.) */
__attribute__((no_sanitize("thread"))) static inline const char *end_of_marks(const char *pos, uint64_t lap)
{
    const char *end = pos;
    while ((uintptr_t)pos % 64 && (uintptr_t)end / PGAS_CALL_BLOCK == (uintptr_t)pos / PGAS_CALL_BLOCK) {
        uint64_t header = *(const volatile uint64_t *)(const void *)end;
        if (!pgasi_rec_has_arrived(header, lap))
            break;
        end += PGAS_CALL_ROOM(pgasi_rec_bytes(header));
    }
    return end;
}

void pgasi_call_settle(pgas_call_window_t *w)
{
    if (w->recent > 1)
        __atomic_store_n(&w->pos, (char *)(uintptr_t)end_of_marks(w->pos, w->lap), __ATOMIC_RELEASE);
    w->recent = 0;
}

/* Makes the tail exact. */
static inline void settle(out_t *out)
{
    set_pos(out, end_of_marks(out->w->pos, out->w->lap));
}

/* Whether a call may go straight into the channel: nothing is gathered or waits before it. */
static inline bool is_direct(const out_t *out)
{
    return out->kind == OUT_NODE && !out->batch && !out->waiting && !out->dead && !out->begun;
}

/* Direct calls take the short paths up to the last unit of a chunk, where it is left; streams and inline ones only in whole
 * lines but the last, inline ones also only where they need not clear the mark in the next. */
static inline void update_window(out_t *out)
{
    settle(out);
    bool direct = is_direct(out), clean = (uint64_t)(out->w->pos - out->chunk) + PGASI_RING_UNIT >= out->clean_from;
    out->end = direct ? out->chunk + pgasi_chunk_bytes - PGASI_RING_UNIT : NULL;
    char *pos = out->w->pos, *end = direct && !pgasi_wait_light_is_fence ? out->chunk + pgasi_chunk_bytes - 64 : pos;
    out->w->sized_end = pgasi_param.call_max >= PGAS_CALL_STREAM_MAX ? end : pos;
    out->w->end = clean ? end : pos;
}

static inline void close_window(out_t *out)
{
    out->end = NULL;
    if (out->kind == OUT_NODE)
        out->w->end = out->w->sized_end = out->w->pos;
}

/* Shows `bytes` bytes at the tail to the receiver by their first word, with the mark behind them cleared. The tail moves
 * first: quiescence must not see more consumed than sent. */
static inline void show(out_t *out, uint64_t bytes, uint64_t first_word)
{
    char *pos = out->w->pos;
    uint64_t shown = pgasi_rec_shown(first_word, out->w->lap);
    bytes = PGASI_ALIGN_UP(bytes, PGASI_RING_UNIT);
    __atomic_store_n((uint64_t *)(void *)(pos + bytes), 0, __ATOMIC_RELAXED);
    if (bytes > PGASI_RING_UNIT)
        out->dirty_to = (uint32_t)(pos + bytes - out->chunk);
    set_pos(out, pos + bytes);
    __atomic_store_n((uint64_t *)(void *)pos, shown, __ATOMIC_RELEASE);
}

/* The service of a rank may sleep while its other threads do not. */
static inline void ring_bell(const out_t *out)
{
    pgasi_bell_ring_at(out->bell, out->node_rank);
    if (PGAS_UNLIKELY(out->port == PGASI_PORT_SERVICE))
        pgasi_bell_ring_service(out->node_rank);
}

/* The chunk after the present one is free, or becomes the next: one that the receiver gives in addition. Not at once: few
 * chunks stay in caches, and a receiver that is merely slower than we are needs no more. */
static bool find_chunk(out_t *out)
{
    int next = (out->current + 1) % out->n_chunks;
    uint32_t number;
    bool fresh;
    if (out->chunks[next].free_at <= __atomic_load_n(out->channel.consumed, __ATOMIC_ACQUIRE)) {
        out->n_refused = 0;
        return true;
    }
    if (out->n_refused++ < GROW_AFTER || out->n_chunks >= pgasi_param.chunks_max ||
        !pgasi_inbox_grow(out->node_rank, &number, &fresh))
        return false;
    out->n_refused = 0;
    next = out->current + 1;
    memmove(&out->chunks[next + 1], &out->chunks[next], (size_t)(out->n_chunks - next) * sizeof *out->chunks);
    uint32_t dirty = fresh ? 0 : (uint32_t)pgasi_chunk_bytes;
    out->chunks[next] = (chunk_t){ number, dirty, dirty, 0, true };
    out->n_chunks++;
    return true;
}

/* Goes on in the next chunk, with a record that says so at the tail. As ever the tail moves first. */
static bool next_chunk(out_t *out)
{
    if (!find_chunk(out))
        return false;
    char *pos = out->w->pos;
    uint64_t first_word = PGASI_REC_VALID | PGASI_REC_NEXT;
    uint64_t shown = pgasi_rec_shown(first_word, out->w->lap);
    chunk_t *left = &out->chunks[out->current], *c;
    left->free_at = out->base + pgasi_chunk_bytes;
    uint32_t end = (uint32_t)(pos - out->chunk) + PGASI_RING_UNIT;
    if (out->w->sized) /* streams do not note it */
        out->dirty_to = end - PGASI_RING_UNIT;
    out->w->sized = 0;
    left->dirty = end < left->written ? left->written : out->dirty_to; /* marks of the use before the last count again */
    left->written = PGASI_MAX(left->written, end);
    out->current = (out->current + 1) % out->n_chunks;
    c = &out->chunks[out->current];
    c->odd = !c->odd;
    out->clean_from = c->dirty;
    out->dirty_to = 0;
    *(uint64_t *)(void *)(pos + 8) = c->number;
    __atomic_store_n(&out->base, out->base + pgasi_chunk_bytes, __ATOMIC_RELAXED);
    out->chunk = out->channel.chunks + c->number * pgasi_chunk_bytes;
    __atomic_store_n(&out->w->lap, c->odd ? PGAS_CALL_LAP_ODD : PGAS_CALL_LAP_EVEN, __ATOMIC_RELEASE); /* behind base */
    __atomic_store_n((uint64_t *)(void *)out->chunk, 0, __ATOMIC_RELAXED);
    set_pos(out, out->chunk);
    close_window(out); /* its end was that of the chunk before */
    __atomic_store_n((uint64_t *)(void *)pos, shown | (uint64_t)c->odd << PGASI_REC_SLOT_SHIFT, __ATOMIC_RELEASE);
    ring_bell(out);
    return true;
}

/* Room for so many bytes in one piece at the tail, and a unit behind them. */
static inline bool ring_room(out_t *out, uint64_t bytes)
{
    settle(out);
    bytes = PGASI_ALIGN_UP(bytes, PGASI_RING_UNIT) + PGASI_RING_UNIT;
    return PGAS_LIKELY(bytes <= (uint64_t)(out->chunk + pgasi_chunk_bytes - out->w->pos)) || next_chunk(out);
}

/* ---- peers ---- */

static void open_channel(pgasi_outbox_t *ob, out_t *out, int dest)
{
    pgasi_channel_t *channel = &out->channel;
    pgasi_inbox_open(out->node_rank, out->port, ob->lane->index, channel);
    out->chunks = &ob->chunks[(size_t)(out->port * pgasi_boot.node_size + out->node_rank) * (size_t)pgasi_param.chunks_max];
    out->n_chunks = (int)channel->n_first;
    for (int i = 0; i < out->n_chunks; i++)
        out->chunks[i] = (chunk_t){ channel->first + (uint32_t)i, 0, 0, 0, i > 0 };
    out->chunk = channel->chunks + channel->first * pgasi_chunk_bytes;
    out->bell = &pgasi_bells[out->node_rank];
    out->w = &ob->window[dest];
    out->w->sleepers = &out->bell->sleepers;
    out->w->lap = PGAS_CALL_LAP_EVEN;
    set_pos(out, out->chunk);
}

static void know_dest(pgasi_outbox_t *ob, out_t *out, int dest)
{
    out->waiting_end = &out->waiting;
    out->rank = dest % (int)ob->n_ranks;
    out->port = dest / (int)ob->n_ranks;
    out->dead = pgasi_boot_is_dead(out->rank);
    out->node_rank = pgasi_boot.local_of[out->rank];
    if (out->node_rank >= 0) {
        open_channel(ob, out, dest);
        out->kind = OUT_NODE;
        update_window(out);
    } else {
        out->kind = OUT_FAR;
    }
    ob->known[ob->n_known] = dest;
    __atomic_store_n(&ob->n_known, ob->n_known + 1, __ATOMIC_RELEASE); /* others that add tails up look from now on */
}

static inline out_t *out_of(pgasi_outbox_t *ob, int dest)
{
    out_t *out = &ob->out[dest];
    if (PGAS_UNLIKELY(out->kind == OUT_UNKNOWN))
        know_dest(ob, out, dest);
    return out;
}

static void set_held(pgasi_outbox_t *ob, int n)
{
    __atomic_store_n(&ob->n_held, n, __ATOMIC_RELEASE);
    if (ob->lane->shared)
        __atomic_store_n(&pgasi_outbox_shared_held, (uint32_t)n, __ATOMIC_RELAXED);
}

static void hold(pgasi_outbox_t *ob, out_t *out, int dest)
{
    if (!out->held) {
        out->held = true;
        ob->held[ob->n_held] = dest;
        set_held(ob, ob->n_held + 1);
    }
}

/* ---- buffers ---- */

static void buffer_release(buffer_t *buffer)
{
    pgasi_outbox_t *ob = buffer->outbox;
    bool surplus = buffer->pooled && ob->n_buffers > ob->buffers_max;
    ob->n_buffers -= surplus;
    if (buffer->pooled && !surplus) {
        buffer->next = ob->free_buffers;
        ob->free_buffers = buffer;
    } else {
        free(buffer);
    }
}

static void message_left(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    buffer_t *buffer = PGASI_CONTAINER_OF(comp, buffer_t, comp);
    (void)status; /* a lost peer is reported by the transport's error function */
    pgasi_lane_count(buffer->outbox->lane, -1);
    buffer_release(buffer);
}

/* beyond: even if all buffers of the pool are in use. */
static buffer_t *buffer_acquire(pgasi_outbox_t *ob, size_t room, bool beyond)
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
    buffer = aligned_alloc(64, PGASI_ALIGN_UP(sizeof *buffer + capacity, 64));
    if (!buffer)
        return NULL;
    buffer->capacity = capacity;
    ob->n_buffers += pooled;
    buffer->pooled = pooled;
    buffer->outbox = ob;
    buffer->comp.fn = message_left;
    return buffer;
}

/* ---- publishing on the node ---- */

/* Copies a batch into the ring: full lines one after the other, whose fetching overlaps. (Written into the ring call by
 * call, alternating with the cursor's own line, stores wait for one line after the other: three to four times slower on
 * the machines measured.) */
static pgas_status_t publish_node(out_t *out, buffer_t *batch)
{
    size_t bytes = batch->used;
    if (!ring_room(out, 8 + bytes))
        return PGAS_ERR_AGAIN;
    memcpy(out->w->pos + 8, batch->data, bytes);
    show(out, 8 + bytes, PGASI_REC_VALID | PGASI_REC_BATCH | (uint64_t)bytes << PGASI_REC_BYTES_SHIFT);
    buffer_release(batch);
    ring_bell(out);
    return PGAS_OK;
}

/* ---- publishing elsewhere: messages ---- */

/* What is for any thread of the rank has a header of one word. */
static inline size_t far_header(const out_t *out, size_t bytes, uint32_t header[2])
{
    header[0] = pgasi_far_mark(pgasi_boot.rank, bytes);
    header[1] = (uint32_t)out->port;
    return out->port == PGASI_PORT_ANY ? sizeof header[0] : 2 * sizeof header[0];
}

static pgas_status_t publish_far(pgasi_outbox_t *ob, const out_t *out, buffer_t *batch)
{
    size_t bytes = batch->used;
    pgas_status_t status = pgasi_lane_open(ob->lane);
    uint32_t header[2];
    size_t header_bytes = far_header(out, bytes, header);
    if (status == PGAS_OK) {
        __atomic_store_n(&ob->far_sent, ob->far_sent + bytes, __ATOMIC_RELAXED); /* before it can arrive, as in show() */
        pgasi_lane_count(ob->lane, 1);
        status = ob->lane->tp->ops->am(ob->lane->tp, out->rank, header, header_bytes, batch->data, bytes, &batch->comp);
        if (status != PGAS_INPROGRESS)
            pgasi_lane_count(ob->lane, -1);
        if (status < PGAS_OK)
            __atomic_store_n(&ob->far_sent, ob->far_sent - bytes, __ATOMIC_RELAXED);
    }
    if (status == PGAS_ERR_AGAIN)
        return status;
    if (status >= PGAS_OK) {
        ob->stats.n_far++;
        ob->lane->peer[out->rank].issued++; /* so that a flush waits for it */
        ob->lane->issued++;
    }
    if (status != PGAS_INPROGRESS)
        buffer_release(batch);
    return status < PGAS_OK ? status : PGAS_OK;
}

/* ---- both ---- */

/* Tells in the header of the open run how many calls it has. */
static void close_run(pgas_agg_cursor_t *c, out_t *out)
{
    if (!c->kind)
        return;
    uint64_t header = *(uint64_t *)(void *)out->run;
    size_t more = (size_t)(c->pos - out->run - 8) / pgasi_rec_stride(header) - 1;
    *(uint64_t *)(void *)out->run = header | (uint64_t)more << PGASI_REC_MORE_SHIFT;
    out->batch->n_calls += (uint32_t)more;
    c->kind = 0;
}

/* Takes the batch unless there is no room (PGAS_ERR_AGAIN). */
static pgas_status_t send_batch(pgasi_outbox_t *ob, out_t *out, buffer_t *batch)
{
    if (PGAS_UNLIKELY(pgasi_boot_is_dead(out->rank))) {
        buffer_release(batch);
        return PGAS_ERR_PEER;
    }
    return out->kind == OUT_FAR ? publish_far(ob, out, batch) : publish_node(out, batch);
}

static inline void count_batch(pgasi_outbox_t *ob, const buffer_t *batch, pgasi_publish_reason_t reason, int sign)
{
    ob->stats.published[reason] += (uint64_t)(int64_t)sign;
    ob->stats.calls += (uint64_t)((int64_t)sign * batch->n_calls);
    ob->stats.bytes += (uint64_t)sign * batch->used;
}

/* Behind those that wait. */
static void let_wait(pgasi_outbox_t *ob, out_t *out, int dest, buffer_t *batch)
{
    batch->next = NULL;
    *out->waiting_end = batch;
    out->waiting_end = &batch->next;
    ob->backlog_bytes += batch->used;
    ob->stats.backlog_high = PGASI_MAX(ob->stats.backlog_high, ob->backlog_bytes);
    ob->stats.n_queued++;
    hold(ob, out, dest);
}

/* Closes the open batch and sends it, or lets it wait in order. While others wait it is closed only when it is full:
 * progress publishes it behind them. AGAIN: progress will go on with it. */
static pgas_status_t publish(pgasi_outbox_t *ob, out_t *out, int dest, pgasi_publish_reason_t reason)
{
    buffer_t *batch = out->batch;
    if (!batch)
        return PGAS_OK;
    if (out->waiting && reason != PGASI_PUBLISH_FULL)
        return PGAS_ERR_AGAIN;
    close_run(&ob->cursor[dest], out);
    batch->used = (size_t)(ob->cursor[dest].pos - batch->data);
    count_batch(ob, batch, reason, 1);
    ob->stats.open--;
    out->batch = NULL;
    ob->cursor[dest] = (pgas_agg_cursor_t){ 0, NULL, NULL };
    pgas_status_t status = out->waiting ? PGAS_ERR_AGAIN : send_batch(ob, out, batch);
    if (status == PGAS_ERR_AGAIN)
        let_wait(ob, out, dest, batch);
    if (out->kind == OUT_NODE)
        update_window(out);
    return status;
}

/* Sends what waits, as far as there is room. */
static pgas_status_t send_waiting(pgasi_outbox_t *ob, out_t *out)
{
    while (out->waiting) {
        buffer_t *batch = out->waiting, *next = batch->next;
        size_t bytes = batch->used;
        if (send_batch(ob, out, batch) == PGAS_ERR_AGAIN) {
            close_window(out); /* those that left before have moved the tail */
            return PGAS_ERR_AGAIN;
        }
        out->waiting = next;
        if (!next)
            out->waiting_end = &out->waiting;
        ob->backlog_bytes -= bytes;
    }
    if (out->kind == OUT_NODE)
        update_window(out);
    return PGAS_OK;
}

static bool open_batch(pgasi_outbox_t *ob, out_t *out, int dest, size_t room, bool beyond)
{
    out->batch = buffer_acquire(ob, room, beyond);
    if (!out->batch)
        return false;
    out->batch->n_calls = 0;
    out->opened = ob->tick;
    ob->stats.open++;
    ob->stats.open_high = PGASI_MAX(ob->stats.open_high, ob->stats.open);
    close_window(out);
    ob->cursor[dest] = (pgas_agg_cursor_t){ 0, out->batch->data, out->batch->data + PGASI_MAX(room, ob->publish_bytes) };
    if (!out->dirty) {
        out->dirty = true;
        ob->dirty[ob->n_dirty] = dest;
        __atomic_store_n(&ob->n_dirty, ob->n_dirty + 1, __ATOMIC_RELAXED);
    }
    return true;
}

/* Arguments in up to two pieces. */
typedef struct {
    uint64_t header;
    const uint64_t *token;
    const void *head, *data;
    size_t head_bytes, bytes;
} message_t;

/* The beginning by words: what the caller has just stored there, a word at a time, does not forward to a wider load. */
static inline void copy_args(char *to, const void *from, size_t bytes)
{
    const char *args = from;
    size_t i = 0;
    for (; i + 8 <= PGASI_MIN(bytes, (size_t)64); i += 8)
        memcpy(to + i, args + i, 8);
    if (i < bytes)
        memcpy(to + i, args + i, bytes - i);
}

/* Everything of the record but its header. */
static inline void write_body(char *at, const message_t *m)
{
    at += 8;
    if (m->token) {
        memcpy(at, m->token, 8);
        at += 8;
    }
    copy_args(at, m->head, m->head_bytes);
    copy_args(at + m->head_bytes, m->data, m->bytes);
}

/* Starts a run with the record just written, which ends at pos. */
static void open_run(pgas_agg_cursor_t *c, out_t *out, uint64_t header, char *record)
{
    size_t stride = pgasi_rec_stride(header);
    if (!stride || header & PGASI_REC_TOKEN)
        return;
    char *last = record + 8 + stride * (size_t)PGASI_REC_MORE_MAX;
    out->run = record;
    c->kind = pgas_agg_kind((pgas_handler_t)pgasi_rec_handler(header), pgasi_rec_bytes(header));
    c->end = PGASI_MIN(c->end - stride, last);
}

/* A handler, or who asks for it, may gather further batches behind those that wait: answers without limit, for somebody
 * waits for them. */
static inline bool may_queue(const pgasi_outbox_t *ob, size_t room, pgasi_full_t full)
{
    return (pgasi_self.in_handler || full == PGASI_FULL_ASYNC) && full != PGASI_FULL_AGAIN &&
           (full == PGASI_FULL_QUEUE || ob->backlog_bytes + room <= ob->backlog_limit);
}

/* All buffers are in use: what stands in those that are open leaves. Otherwise nobody would publish it but its own thread,
 * which waits for one. */
static __attribute__((noinline)) bool make_room(pgasi_outbox_t *ob)
{
    for (int i = 0; i < ob->n_dirty; i++)
        publish(ob, &ob->out[ob->dirty[i]], ob->dirty[i], PGASI_PUBLISH_ROOM);
    return ob->free_buffers != NULL;
}

static pgas_status_t append(pgasi_outbox_t *ob, out_t *out, int dest, const message_t *m, pgasi_full_t full)
{
    size_t room = pgasi_rec_room(m->header);
    pgas_agg_cursor_t *c = &ob->cursor[dest];
    if (c->kind) {
        size_t stride = pgasi_rec_stride(m->header);
        if (*(uint64_t *)(void *)out->run == m->header && c->pos <= c->end) { /* the run goes on */
            write_body(c->pos - 8, m);
            c->pos += stride;
            return PGAS_OK;
        }
        close_run(c, out);
        c->end = out->batch->data + PGASI_MIN(out->batch->capacity, ob->publish_bytes);
    }
    if (!out->batch || (ptrdiff_t)room > c->end - c->pos) {
        pgas_status_t status = publish(ob, out, dest, PGASI_PUBLISH_FULL);
        if (status == PGAS_OK || status == PGAS_ERR_AGAIN) {
            bool beyond = may_queue(ob, room, full);
            bool opened = (!out->waiting || beyond) && (open_batch(ob, out, dest, room, beyond) ||
                                                        (make_room(ob) && open_batch(ob, out, dest, room, beyond)));
            status = opened ? PGAS_OK : PGAS_ERR_AGAIN;
        }
        if (status != PGAS_OK) {
            ob->stats.n_full += status == PGAS_ERR_AGAIN;
            return status;
        }
    }
    char *record = c->pos;
    *(uint64_t *)(void *)record = m->header;
    write_body(record, m);
    out->batch->n_calls++;
    c->pos = record + room;
    open_run(c, out, m->header, record);
    return PGAS_OK;
}

/* A call by itself on the node: one record, shown at once. */
static inline bool ring_direct(pgasi_outbox_t *ob, out_t *out, const message_t *m)
{
    size_t room = pgasi_rec_room(m->header);
    if (PGAS_UNLIKELY(!ring_room(out, room))) {
        ob->stats.n_full++;
        return false;
    }
    write_body(out->w->pos, m);
    show(out, room, m->header);
    update_window(out);
    ring_bell(out);
    return true;
}

/* A call by itself to elsewhere is one message. Its record stands in a spare buffer, which is used up only if the
 * transport keeps it. */
static inline buffer_t *far_buffer(const pgasi_outbox_t *ob, const out_t *out, size_t room)
{
    buffer_t *buffer = ob->free_buffers;
    bool usable = out->kind == OUT_FAR && !out->dead && !out->batch && !out->waiting && ob->lane->tp && buffer &&
                  room <= buffer->capacity;
    return usable ? buffer : NULL;
}

static inline pgas_status_t send_far(pgasi_outbox_t *ob, const out_t *out, buffer_t *buffer, size_t room)
{
    pgasi_tp_lane_t *tp = ob->lane->tp;
    uint32_t header[2];
    size_t header_bytes = far_header(out, room, header);
    __atomic_store_n(&ob->far_sent, ob->far_sent + room, __ATOMIC_RELAXED); /* before it can arrive, as in show() */
    pgas_status_t status = tp->ops->am(tp, out->rank, header, header_bytes, buffer->data, room, &buffer->comp);
    if (PGAS_UNLIKELY(status < PGAS_OK)) {
        __atomic_store_n(&ob->far_sent, ob->far_sent - room, __ATOMIC_RELAXED);
        return status;
    }
    ob->stats.n_far++;
    if (status == PGAS_INPROGRESS) {
        ob->free_buffers = buffer->next;
        pgasi_lane_count(ob->lane, 1); /* its callback comes in progress, not before */
        ob->lane->peer[out->rank].issued++; /* so that a flush waits for it */
        ob->lane->issued++;
    }
    return PGAS_OK;
}

/* The last batch found no room: its one call is not sent after all. */
static pgas_status_t take_back(pgasi_outbox_t *ob, out_t *out)
{
    buffer_t *batch = out->waiting;
    out->waiting = NULL;
    out->waiting_end = &out->waiting;
    ob->backlog_bytes -= batch->used;
    ob->stats.n_queued--;
    count_batch(ob, batch, PGASI_PUBLISH_ORDER, -1);
    buffer_release(batch);
    return PGAS_ERR_AGAIN;
}

/* Handlers may leave calls to progress. What an application's thread sends has left it when this returns, for the thread
 * may stay away from the library for long. */
static inline pgas_status_t send_now(pgasi_outbox_t *ob, out_t *out, int dest, const message_t *m, pgasi_full_t full)
{
    size_t room = pgasi_rec_room(m->header);
    bool queue = may_queue(ob, room, full);
    pgas_status_t status = out->batch && !queue ? publish(ob, out, dest, PGASI_PUBLISH_ORDER) : PGAS_OK;
    if (status == PGAS_ERR_AGAIN)
        return status;
    buffer_t *buffer = out->kind == OUT_FAR ? far_buffer(ob, out, room) : NULL;
    if (buffer) {
        *(uint64_t *)(void *)buffer->data = m->header;
        write_body(buffer->data, m);
        status = send_far(ob, out, buffer, room);
        if (status != PGAS_ERR_AGAIN || !queue)
            return status;
    } else if (PGAS_LIKELY(is_direct(out))) {
        if (PGAS_LIKELY(ring_direct(ob, out, m)))
            return PGAS_OK;
        if (!queue)
            return PGAS_ERR_AGAIN;
    }
    status = append(ob, out, dest, m, full);
    if (status != PGAS_OK)
        return status;
    status = publish(ob, out, dest, PGASI_PUBLISH_ORDER);
    return status != PGAS_ERR_AGAIN ? status : queue ? PGAS_OK : take_back(ob, out);
}

int pgasi_outbox_progress(pgasi_outbox_t *ob)
{
    int n = 0;
    for (int i = 0; i < ob->n_held;) {
        int dest = ob->held[i];
        out_t *out = &ob->out[dest];
        if (send_waiting(ob, out) == PGAS_ERR_AGAIN || publish(ob, out, dest, PGASI_PUBLISH_ORDER) == PGAS_ERR_AGAIN) {
            i++;
            continue;
        }
        n++;
        out->held = false;
        ob->held[i] = ob->held[ob->n_held - 1];
        set_held(ob, ob->n_held - 1);
    }
    return n;
}

bool pgasi_outbox_held(const pgasi_outbox_t *ob)
{
    return __atomic_load_n(&ob->n_held, __ATOMIC_RELAXED) > 0;
}

/* ---- entry points of other files ---- */

static inline pgas_status_t check_call(int rank, uint32_t handler, const void *args, size_t bytes, bool by_anybody)
{
    if (PGAS_UNLIKELY(!pgasi_thread_attached() && !(by_anybody && pgasi_running)))
        return pgasi_running ? PGAS_ERR_CONTEXT : PGAS_ERR_NOT_INIT;
    if (PGAS_UNLIKELY((uint32_t)rank >= (uint32_t)pgasi_boot.n_ranks))
        return PGAS_ERR_RANGE;
    if (PGAS_UNLIKELY(handler - 1u >= pgasi_n_handlers))
        return PGAS_ERR_NOT_FOUND;
    if (PGAS_UNLIKELY(!args && bytes))
        return PGAS_ERR_INVALID;
    return PGAS_UNLIKELY(bytes > pgasi_param.call_max) ? PGAS_ERR_LIMIT : PGAS_OK;
}

pgas_status_t pgasi_call_check(int rank, uint32_t handler, const void *args, size_t bytes)
{
    return check_call(rank, handler, args, bytes, false);
}

static inline pgas_status_t send(pgasi_outbox_t *ob, int dest, const message_t *m, pgasi_full_t full, bool now)
{
    out_t *out = out_of(ob, dest);
    return now ? send_now(ob, out, dest, m, full) : append(ob, out, dest, m, full);
}

/* Nothing goes to a rank that died: closes the window. What is gathered is dropped here, what waits by progress. */
static __attribute__((noinline, cold)) pgas_status_t shut(pgasi_outbox_t *ob, int dest)
{
    out_t *out = out_of(ob, dest);
    out->dead = true;
    publish(ob, out, dest, PGASI_PUBLISH_ORDER);
    if (out->kind == OUT_NODE)
        update_window(out);
    return PGAS_ERR_PEER;
}

/* Sends by the rules of `full`; lane locked by the caller, given up while waiting. */
static pgas_status_t send_or_wait(pgasi_outbox_t *ob, int dest, const message_t *m, pgasi_full_t full, bool now)
{
    int rank = dest % (int)ob->n_ranks;
    if (PGAS_UNLIKELY(pgasi_boot_is_dead(rank)))
        return shut(ob, dest);
    if (PGAS_UNLIKELY(ob->out[dest].begun))
        return PGAS_ERR_BUSY;
    pgas_status_t status = send(ob, dest, m, full, now);
    if (PGAS_LIKELY(status != PGAS_ERR_AGAIN) || full == PGASI_FULL_AGAIN || full == PGASI_FULL_ASYNC ||
        pgasi_self.in_handler)
        return status;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    uint64_t begin_ns = pgasi_now_ns();
    while (status == PGAS_ERR_AGAIN) {
        pgasi_lane_unlock(ob->lane);
        pgasi_wait_step(&w);
        pgasi_lane_lock(ob->lane);
        status = pgasi_boot_is_dead(rank) ? PGAS_ERR_PEER : send(ob, dest, m, full, now);
    }
    pgasi_lane_unlock(ob->lane);
    pgasi_wait_end(&w);
    pgasi_lane_lock(ob->lane);
    ob->stats.blocked_ns += pgasi_now_ns() - begin_ns;
    return status;
}

/* What handlers send is gathered until the incoming calls at hand have run, except the first: a single call should not
 * wait for the round to end. */
static bool is_first_answer(pgasi_outbox_t *ob)
{
    bool first = !ob->answered;
    ob->answered = true;
    return first;
}

/* Now, unless it is gathered behind lane 0's first of the round, which ends with all being published. */
static inline bool is_now(pgasi_outbox_t *ob)
{
    return !pgasi_self.in_handler || ob->lane->index != PGASI_LANE_SERVICE || is_first_answer(ob);
}

static pgas_status_t call_through(pgasi_lane_t *lane, int rank, int port, const message_t *m, pgasi_full_t full, bool now)
{
    pgasi_lane_lock(lane);
    pgasi_outbox_t *ob;
    pgas_status_t status = pgasi_outbox_of(lane, &ob);
    if (PGAS_LIKELY(status == PGAS_OK))
        status = send_or_wait(ob, port * (int)ob->n_ranks + rank, m, full, is_now(ob) || now);
    pgasi_lane_unlock(lane);
    return status;
}

static inline int slot_of_caller(void)
{
    return pgasi_thread_attached() ? pgasi_self.slot : PGASI_SLOT_NONE;
}

pgas_status_t pgasi_outbox_call(int rank, uint32_t handler, const void *args, size_t bytes, const uint64_t *wire_token,
                                pgasi_full_t full)
{
    return pgasi_outbox_call_port(rank, PGASI_PORT_ANY, false, handler, args, bytes, wire_token, full);
}

/* The lane through which the caller's calls go. */
static inline pgasi_lane_t *lane_for(bool shared)
{
    return shared && !pgasi_self.in_handler ? pgasi_lanes[PGASI_LANE_SHARED] : pgasi_thread_lane();
}

pgas_status_t pgasi_outbox_call_port(int rank, int port, bool shared, uint32_t handler, const void *args, size_t bytes,
                                     const uint64_t *wire_token, pgasi_full_t full)
{
    message_t m = { pgasi_rec_header(handler, bytes, slot_of_caller()) | (wire_token ? PGASI_REC_TOKEN : 0), wire_token,
                    NULL, args, 0, bytes };
    return call_through(lane_for(shared), rank, port, &m, full, false);
}

pgas_status_t pgasi_outbox_call_pair(int rank, int port, bool shared, uint32_t handler, const void *head, size_t head_bytes,
                                     const void *data, size_t bytes, pgasi_full_t full)
{
    message_t m = { pgasi_rec_header(handler, head_bytes + bytes, slot_of_caller()), NULL, head, data, head_bytes, bytes };
    return call_through(lane_for(shared), rank, port, &m, full, false);
}

/* Lane locked. */
static pgas_status_t probe(pgasi_outbox_t *ob, int dest, size_t bytes, bool queue)
{
    out_t *out = out_of(ob, dest);
    if (pgasi_boot_is_dead(out->rank))
        return PGAS_ERR_PEER;
    if (queue)
        return ob->backlog_bytes + bytes <= pgasi_param.backlog_limit ? PGAS_OK : PGAS_ERR_AGAIN;
    pgas_status_t status = publish(ob, out, dest, PGASI_PUBLISH_ORDER);
    if (status != PGAS_OK || out->waiting)
        return status != PGAS_OK ? status : PGAS_ERR_AGAIN;
    if (out->kind != OUT_NODE)
        return PGAS_OK;
    bool room = ring_room(out, bytes + 64);
    update_window(out); /* it may have gone on to another chunk */
    return room ? PGAS_OK : PGAS_ERR_AGAIN;
}

pgas_status_t pgasi_outbox_probe(int rank, int port, bool shared, size_t bytes, bool queue)
{
    pgasi_lane_t *lane = lane_for(shared);
    pgasi_lane_lock(lane);
    pgasi_outbox_t *ob;
    pgas_status_t status = pgasi_outbox_of(lane, &ob);
    if (status == PGAS_OK)
        status = probe(ob, port * (int)ob->n_ranks + rank, bytes, queue);
    pgasi_lane_unlock(lane);
    return status;
}

/* Past a call that the thread is building in its own lane, for that may last until somebody has this answer. */
static pgasi_lane_t *lane_for_answer(int rank)
{
    pgasi_lane_t *lane = pgasi_thread_lane();
    const pgasi_outbox_t *ob = __atomic_load_n(&lane->outbox, __ATOMIC_ACQUIRE);
    bool begun = ob && ob->out[PGASI_PORT_ANY * ob->n_ranks + (uint32_t)rank].begun;
    return PGAS_UNLIKELY(begun) ? pgasi_lanes[PGASI_LANE_SHARED] : lane;
}

pgas_status_t pgasi_outbox_answer(int rank, uint32_t handler, const void *head, size_t head_bytes, const void *data,
                                  size_t bytes)
{
    message_t m = { pgasi_rec_header(handler, head_bytes + bytes, pgasi_self.slot), NULL, head, data, head_bytes, bytes };
    return call_through(lane_for_answer(rank), rank, PGASI_PORT_ANY, &m, PGASI_FULL_QUEUE, false);
}

pgas_status_t pgasi_outbox_answer_now(int rank, uint32_t handler, const void *head, size_t head_bytes)
{
    message_t m = { pgasi_rec_header(handler, head_bytes, pgasi_self.slot), NULL, head, NULL, head_bytes, 0 };
    return call_through(lane_for_answer(rank), rank, PGASI_PORT_ANY, &m, PGASI_FULL_QUEUE, true);
}

pgas_status_t pgasi_outbox_append(pgasi_outbox_t *ob, int rank, uint32_t handler, const void *args, size_t bytes,
                                  pgasi_full_t full)
{
    message_t m = { pgasi_rec_header(handler, bytes, pgasi_self.slot), NULL, NULL, args, 0, bytes };
    return send_or_wait(ob, rank, &m, full, false);
}

/* A receiver that is at work gives room again within microseconds, and behind batches single calls take the slower way for
 * a lap of the ring: so gathering begins a little later. */
static void wait_for_room(out_t *out, size_t room)
{
    int n = pgasi_boot.oversubscribed || pgasi_self.in_handler ? 0 : SPINS_FOR_ROOM;
    while (n-- > 0 && is_direct(out) && !ring_room(out, room))
        pgasi_cpu_relax();
}

/* What waits is tried again now and then, and before it becomes too much. */
static pgas_status_t send_or_gather(pgasi_outbox_t *ob, int dest, const message_t *m)
{
    out_t *out = out_of(ob, dest);
    wait_for_room(out, pgasi_rec_room(m->header));
    if (out->waiting && ++ob->n_overflows % OVERFLOWS_PER_TRY == 0)
        send_waiting(ob, out);
    pgas_status_t status = send_or_wait(ob, dest, m, PGASI_FULL_ASYNC, true);
    if (PGAS_LIKELY(status != PGAS_ERR_AGAIN))
        return status;
    send_waiting(ob, out);
    return send_or_wait(ob, dest, m, PGASI_FULL_ASYNC, true);
}

pgas_status_t pgasi_outbox_overflow(pgasi_outbox_t *ob, int rank, uint32_t handler, const void *args, size_t bytes,
                                    size_t limit_bytes)
{
    message_t m = { pgasi_rec_header(handler, bytes, pgasi_self.slot), NULL, NULL, args, 0, bytes };
    size_t usual = ob->backlog_limit;
    ob->backlog_limit = limit_bytes;
    pgas_status_t status = send_or_gather(ob, rank, &m);
    ob->backlog_limit = usual;
    return status;
}

/* A call that does nothing, behind all that was gathered. */
pgas_status_t pgasi_outbox_mark(pgasi_outbox_t *ob, int rank, uint64_t wire_token)
{
    message_t m = { pgasi_rec_header(PGASI_REC_MARK, 0, pgasi_self.slot) | PGASI_REC_TOKEN, &wire_token, NULL, NULL, 0, 0 };
    pgas_status_t status = send_or_wait(ob, rank, &m, PGASI_FULL_QUEUE, false);
    if (status == PGAS_OK)
        publish(ob, out_of(ob, rank), rank, PGASI_PUBLISH_EXPLICIT);
    return status;
}

int pgasi_outbox_known(const pgasi_outbox_t *ob, const int **known_p)
{
    *known_p = ob->known;
    return ob->n_known;
}

pgas_status_t pgasi_outbox_append_two(pgasi_outbox_t *ob, int rank, uint32_t handler, const void *head, size_t head_bytes,
                                      const void *data, size_t bytes, pgasi_full_t full)
{
    message_t m = { pgasi_rec_header(handler, head_bytes + bytes, pgasi_self.slot), NULL, head, data, head_bytes, bytes };
    return send_or_wait(ob, rank, &m, full, false);
}

pgas_status_t pgasi_outbox_publish(pgasi_outbox_t *ob, int dest, pgasi_publish_reason_t reason)
{
    return publish(ob, out_of(ob, dest), dest, reason);
}

pgas_status_t pgasi_outbox_flush(pgasi_outbox_t *ob, int dest)
{
    out_t *out = out_of(ob, dest);
    pgas_status_t status = publish(ob, out, dest, PGASI_PUBLISH_EXPLICIT);
    if (!out->waiting || pgasi_self.in_handler)
        return status == PGAS_ERR_AGAIN ? PGAS_OK : status;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    uint64_t begin_ns = pgasi_now_ns();
    while (out->waiting || out->batch) {
        pgasi_lane_unlock(ob->lane);
        pgasi_wait_step(&w);
        pgasi_lane_lock(ob->lane);
    }
    pgasi_lane_unlock(ob->lane);
    pgasi_wait_end(&w);
    pgasi_lane_lock(ob->lane);
    ob->stats.blocked_ns += pgasi_now_ns() - begin_ns;
    return pgasi_boot_is_dead(out->rank) ? PGAS_ERR_PEER : PGAS_OK;
}

pgas_status_t pgasi_outbox_publish_all(pgasi_outbox_t *ob, pgasi_publish_reason_t reason)
{
    pgas_status_t first_error = PGAS_OK;
    for (int i = 0; i < ob->n_dirty; i++) {
        int dest = ob->dirty[i];
        pgas_status_t status = pgasi_outbox_publish(ob, dest, reason);
        if (status != PGAS_OK && status != PGAS_ERR_AGAIN && first_error == PGAS_OK)
            first_error = status;
        ob->out[dest].dirty = false;
    }
    __atomic_store_n(&ob->n_dirty, 0, __ATOMIC_RELEASE);
    ob->answered = false;
    ob->ticking = false;
    return first_error;
}

/* ---- the time limit ---- */

void pgasi_outbox_set_latency(pgasi_outbox_t *ob, uint64_t latency_ns)
{
    __atomic_store_n(&ob->latency_ns, PGASI_MIN(ob->latency_ns, latency_ns), __ATOMIC_RELAXED);
}

bool pgasi_outbox_timed(const pgasi_outbox_t *ob)
{
    return __atomic_load_n(&ob->n_dirty, __ATOMIC_RELAXED) > 0 &&
           __atomic_load_n(&ob->latency_ns, __ATOMIC_RELAXED) != UINT64_MAX;
}

/* Ticks are half the limit apart while something is gathered, and a batch leaves with the second tick that it sees. So
 * nobody looks at the clock when a batch is opened. */
int pgasi_outbox_look(pgasi_outbox_t *ob)
{
    uint64_t now = pgasi_now_ns(), step = ob->latency_ns / 2;
    if (!ob->ticking || now - ob->ticked_ns < step) {
        ob->ticked_ns = ob->ticking ? ob->ticked_ns : now;
        ob->ticking = true;
        return 0;
    }
    int n = 0;
    ob->tick += (now - ob->ticked_ns) / PGASI_MAX(step, 1);
    ob->ticked_ns = now;
    for (int i = 0; i < ob->n_dirty;) {
        int dest = ob->dirty[i];
        out_t *out = &ob->out[dest];
        if (out->batch && ob->tick - out->opened < 2) {
            i++;
            continue;
        }
        n += out->batch && publish(ob, out, dest, PGASI_PUBLISH_TIME) == PGAS_OK;
        out->dirty = false;
        ob->dirty[i] = ob->dirty[ob->n_dirty - 1];
        __atomic_store_n(&ob->n_dirty, ob->n_dirty - 1, __ATOMIC_RELEASE);
    }
    ob->ticking = ob->n_dirty > 0;
    return n;
}

/* ---- the public calls ---- */

typedef struct {
    int port;
    bool shared; /* through the lane of threads without one */
    pgasi_full_t full;
} how_t;

static __attribute__((noinline)) pgas_status_t call(int rank, uint32_t handler, const void *args, size_t bytes,
                                                    pgas_sync_t *sync, pgas_when_t when, how_t how)
{
    if (!sync)
        return pgasi_outbox_call_port(rank, how.port, how.shared, handler, args, bytes, NULL, how.full);
    pgasi_sync_call_t c;
    pgas_status_t status = pgasi_sync_issue(&c, sync, rank, handler, when,
                                            pgasi_self.in_handler || how.full == PGASI_FULL_ASYNC);
    if (status != PGAS_OK)
        return status;
    status = pgasi_outbox_call_port(rank, how.port, how.shared, handler, args, bytes, c.wire ? &c.wire : NULL, how.full);
    return pgasi_sync_issued(&c, status);
}

static __attribute__((noinline)) pgas_status_t check_and_call(int rank, pgas_handler_t handler, const void *args, size_t bytes,
                                                              pgas_sync_t *executed, pgasi_full_t full)
{
    pgas_status_t status = pgasi_call_check(rank, handler, args, bytes);
    how_t how = { PGASI_PORT_ANY, false, full };
    return status == PGAS_OK ? call(rank, handler, args, bytes, executed, PGAS_EXECUTED, how) : status;
}

void pgasi_outbox_peer_died(void)
{
    __atomic_fetch_add(&pgas_call_run.epoch, UINT64_C(1) << 32, __ATOMIC_SEQ_CST);
}

static __attribute__((noinline, cold)) void shut_windows(pgasi_outbox_t *ob, uint64_t epoch)
{
    ob->epoch = epoch;
    pgasi_lane_lock(ob->lane);
    for (int i = 0; i < ob->n_known; i++) {
        if (pgasi_boot_is_dead(ob->out[ob->known[i]].rank))
            shut(ob, ob->known[i]);
    }
    pgasi_lane_unlock(ob->lane);
}

/* Opens the inline parts to the calling thread, whose outbox this is; not towards ranks that died. */
static inline void set_path(pgasi_outbox_t *ob)
{
    uint64_t epoch = __atomic_load_n(&pgas_call_run.epoch, __ATOMIC_ACQUIRE);
    if (PGAS_UNLIKELY(ob->epoch != epoch))
        shut_windows(ob, epoch);
    pgas_call_path = (pgas_call_path_t){ epoch, ob->window, ob->header, NULL, (uint32_t)pgasi_self.slot + 1 };
}

/* The next but one without progress in between is part of a stream (see pgas_call_stream). */
static inline void note_sized(pgas_call_window_t *w)
{
    if (w->recent > 1 && w->sized)
        return;
    w->recent += w->recent < 2;
    w->sized = 1;
    pgas_call_path.used = w;
}

/* The usual case without a stop: own lane, same node, room in the chunk, nobody waits for it; and the inline part may do it
 * from now on if it has 8 bytes. */
static inline bool call_direct(int rank, pgas_handler_t handler, const void *args, size_t bytes,
                               const pgas_sync_t *executed)
{
    pgasi_outbox_t *ob = pgasi_self.outbox;
    if (!ob || executed || bytes > DIRECT_MAX || !args || !pgasi_thread_attached() || (uint32_t)rank >= ob->n_ranks ||
        handler - 1u >= pgasi_n_handlers || pgasi_self.in_handler)
        return false;
    if (PGAS_UNLIKELY(pgas_call_path.epoch != pgas_call_run.epoch))
        set_path(ob);
    out_t *out = &ob->out[rank];
    if (!out->end)
        return false;
    if (out->w->recent > 1)
        settle(out);
    if (bytes % 8 == 0 && bytes - 16 <= PGAS_CALL_STREAM_MAX - 16)
        note_sized(out->w);
    char *record = out->w->pos;
    size_t room = PGASI_ALIGN_UP(8 + bytes, PGASI_RING_UNIT);
    if (out->end - record < (ptrdiff_t)room || bytes > pgasi_param.call_max)
        return false;
    copy_args(record + 8, args, bytes);
    __atomic_store_n((uint64_t *)(void *)(record + room), 0, __ATOMIC_RELAXED);
    if (room > PGASI_RING_UNIT)
        out->dirty_to = (uint32_t)(record + room - out->chunk);
    __atomic_store_n(&out->w->pos, record + room, __ATOMIC_RELAXED); /* first, as in show() */
    uint64_t header = (ob->header ^ UINT64_C(8) << PGASI_REC_BYTES_SHIFT) | (uint64_t)bytes << PGASI_REC_BYTES_SHIFT;
    __atomic_store_n((uint64_t *)(void *)record, header | out->w->lap | handler, __ATOMIC_RELEASE);
    pgasi_bell_ring_at(out->bell, out->node_rank);
    return true;
}

/* The same towards other nodes; whatever is not plain, errors too, takes the long way. */
static inline bool call_far(int rank, pgas_handler_t handler, const void *args, size_t bytes, const pgas_sync_t *executed)
{
    pgasi_outbox_t *ob = pgasi_self.outbox;
    if (!ob || executed || bytes != 8 || !args || (uint32_t)rank >= ob->n_ranks || handler - 1u >= pgasi_n_handlers ||
        pgasi_self.in_handler || !pgasi_thread_attached())
        return false;
    pgasi_lane_lock(ob->lane);
    pgas_status_t status;
    buffer_t *buffer = far_buffer(ob, &ob->out[rank], 16);
    if (!buffer) {
        pgasi_lane_unlock(ob->lane);
        return false;
    }
    *(uint64_t *)(void *)buffer->data = PGASI_REC_VALID | ob->header | handler;
    memcpy(buffer->data + 8, args, 8);
    status = send_far(ob, &ob->out[rank], buffer, 16);
    pgasi_lane_unlock(ob->lane);
    return status == PGAS_OK;
}

bool pgasi_outbox_call_short(const pgasi_outbox_t *ob, int rank, pgas_handler_t handler, const void *args, size_t bytes)
{
    return ob == pgasi_self.outbox &&
           (call_direct(rank, handler, args, bytes, NULL) || call_far(rank, handler, args, bytes, NULL));
}

/* A call in a stream, by stores to the chunk and next to no others, for the reason that pgas_call_inline gives: the tail is
 * stored when a block is left, or where it would pass for exact; in between it is where the marks end. The line of the
 * header, at which the receiver looks, comes last, or it would be taken away in the middle. */
bool pgas_call_stream(int rank, pgas_handler_t handler, const void *args, size_t bytes)
{
    if (pgas_call_path.epoch != pgas_call_run.epoch || (uint32_t)rank >= pgas_call_run.n_ranks ||
        handler - 1u >= pgas_call_run.n_handlers)
        return false;
    pgas_call_window_t *w = &pgas_call_path.window[rank];
    size_t room = PGAS_CALL_ROOM(bytes);
    uint64_t header = (pgas_call_path.header ^ UINT64_C(8) << 16) | (uint64_t)bytes << 16 | handler | w->lap;
    if (w->recent < 2 || !w->sized)
        return false;
    char *pos = pgas_call_tail(w->pos, w->lap, header, room);
    if (w->sized_end - pos < (ptrdiff_t)room)
        return false;
    __atomic_store_n((uint64_t *)(void *)(pos + room), 0, __ATOMIC_RELAXED);
    if ((uintptr_t)w->pos % 64 == 0 || ((uintptr_t)w->pos ^ (uintptr_t)(pos + room)) >= PGAS_CALL_BLOCK)
        __atomic_store_n(&w->pos, pos + room, __ATOMIC_RELEASE); /* before the record shows, as in show() */
    for (size_t i = bytes; i > 0; i -= 8) {
        uint64_t word;
        memcpy(&word, (const char *)args + i - 8, 8);
        __atomic_store_n((uint64_t *)(void *)(pos + i), word, __ATOMIC_RELAXED);
    }
    __atomic_store_n((uint64_t *)(void *)pos, header, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (PGAS_UNLIKELY(__atomic_load_n(w->sleepers, __ATOMIC_RELAXED)))
        pgas_call_wake(rank);
    return true;
}

pgas_status_t pgas_call_far(int rank, pgas_handler_t handler, const void *args, size_t bytes, pgas_sync_t *executed)
{
    if (PGAS_LIKELY(call_direct(rank, handler, args, bytes, executed)) || call_far(rank, handler, args, bytes, executed))
        return PGAS_OK;
    return check_and_call(rank, handler, args, bytes, executed, PGASI_FULL_WAIT);
}

pgas_status_t pgas_call_try_far(int rank, pgas_handler_t handler, const void *args, size_t bytes, pgas_sync_t *executed)
{
    if (PGAS_LIKELY(call_direct(rank, handler, args, bytes, executed)) || call_far(rank, handler, args, bytes, executed))
        return PGAS_OK;
    return check_and_call(rank, handler, args, bytes, executed, PGASI_FULL_AGAIN);
}

pgas_status_t pgasi_call_read_opts(const pgas_call_opts_t *opts, pgas_call_opts_t *o_p)
{
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    if (!PGASI_OPTS_SANE(opts, sizeof o))
        return PGAS_ERR_INVALID;
    if (opts)
        o = *opts;
    if ((unsigned)o.when > PGAS_LOCAL || (unsigned)o.full > PGAS_FULL_QUEUE || (unsigned)o.way > PGAS_WAY_SEND)
        return PGAS_ERR_INVALID;
    *o_p = o;
    return PGAS_OK;
}

pgasi_full_t pgasi_full_of(pgas_full_t full)
{
    static const pgasi_full_t full_of[] = { [PGAS_FULL_WAIT] = PGASI_FULL_WAIT, [PGAS_FULL_AGAIN] = PGASI_FULL_AGAIN,
                                            [PGAS_FULL_QUEUE] = PGASI_FULL_ASYNC };
    return full_of[full];
}

static pgas_status_t read_opts(const pgas_call_opts_t *opts, pgas_call_opts_t *o, how_t *how)
{
    pgas_status_t status = pgasi_call_read_opts(opts, o);
    if (status == PGAS_OK)
        *how = (how_t){ PGASI_PORT_ANY, o->way == PGAS_WAY_SEND, pgasi_full_of(o->full) };
    return status;
}

pgas_status_t pgas_call_to(pgas_thread_t target, pgas_handler_t handler, const void *args, size_t bytes,
                           const pgas_call_opts_t *opts)
{
    pgas_call_opts_t o;
    how_t how;
    int rank = pgas_thread_rank(target);
    pgas_status_t status = read_opts(opts, &o, &how);
    if (status == PGAS_OK)
        status = check_call(rank, handler, args, bytes, how.shared);
    if (status != PGAS_OK)
        return status;
    how.port = pgasi_port_of_slot(pgas_thread_slot(target));
    return how.port < 0 ? PGAS_ERR_LIMIT : call(rank, handler, args, bytes, o.sync, o.when, how);
}

pgas_status_t pgas_spawn(int rank, pgas_handler_t handler, const void *args, size_t bytes, const pgas_call_opts_t *opts)
{
    pgas_call_opts_t o;
    how_t how;
    pgas_status_t status = read_opts(opts, &o, &how);
    if (status == PGAS_OK)
        status = check_call(rank, handler, args, bytes, how.shared);
    if (status == PGAS_OK && bytes + sizeof(uint64_t) > pgasi_param.call_max)
        status = PGAS_ERR_LIMIT;
    if (status != PGAS_OK)
        return status;
    char *block = malloc(sizeof(uint64_t) + bytes);
    if (!block)
        return PGAS_ERR_NO_MEMORY;
    memcpy(block, &(uint64_t){ handler }, sizeof(uint64_t));
    if (bytes)
        memcpy(block + sizeof(uint64_t), args, bytes);
    status = call(rank, PGASI_REC_SPAWN, block, sizeof(uint64_t) + bytes, o.sync, o.when, how);
    free(block);
    return status;
}

/* Another thread may be sending. The order in which the tail's parts are stored lets us see too much for a moment, never
 * too little. What is written meanwhile behind the tail is no mark of this lap, or of a call that counts. */
static __attribute__((no_sanitize("thread"))) uint64_t handed_over(const out_t *out)
{
    uint64_t base, lap;
    const char *pos, *end;
    if (out->kind != OUT_NODE)
        return 0;
    do {
        base = __atomic_load_n(&out->base, __ATOMIC_ACQUIRE);
        pos = __atomic_load_n(&out->w->pos, __ATOMIC_ACQUIRE);
        lap = __atomic_load_n(&out->w->lap, __ATOMIC_RELAXED);
        end = end_of_marks(pos, lap);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (base != __atomic_load_n(&out->base, __ATOMIC_RELAXED) || pos != __atomic_load_n(&out->w->pos, __ATOMIC_RELAXED));
    return base + ((uint64_t)(pos - out->channel.chunks) & (pgasi_chunk_bytes - 1)) + (uint64_t)(end - pos);
}

/* ---- calls built in place ---- */

/* What a thread has begun: a record at the tail of a channel, or in a buffer of its own. */
typedef struct {
    bool begun;
    uint64_t epoch; /* after another init nothing of it is left */
    int rank, port;
    bool shared;
    pgasi_full_t full;
    uint64_t header, wire;
    pgasi_sync_call_t sync;
    bool has_sync;
    pgasi_outbox_t *ob; /* in place there */
    buffer_t *buffer;   /* or a message there */
    char *block;        /* or arguments, which are copied then */
    char *args;
} begun_t;
static __thread begun_t begun;

static size_t record_head(const begun_t *b)
{
    return 8 + (b->header & PGASI_REC_TOKEN ? 8 : 0);
}

/* A place in the channel or in a buffer that is sent as it is; false if there is none now. Lane locked. */
static bool reserve(begun_t *b, pgasi_outbox_t *ob, int dest)
{
    out_t *out = out_of(ob, dest);
    size_t room = pgasi_rec_room(b->header);
    publish(ob, out, dest, PGASI_PUBLISH_ORDER);
    if (out->dead || out->batch || out->waiting)
        return false;
    if (out->kind == OUT_NODE) {
        if (!ring_room(out, room))
            return false;
        b->args = out->w->pos + record_head(b);
        out->begun = true;
        close_window(out);
    } else {
        if (pgasi_lane_open(ob->lane) != PGAS_OK || !(b->buffer = buffer_acquire(ob, room, false)))
            return false;
        b->args = b->buffer->data + record_head(b);
        out->begun = true;
    }
    b->ob = ob;
    return true;
}

static void fill_token(const begun_t *b, char *record)
{
    if (b->header & PGASI_REC_TOKEN)
        memcpy(record + 8, &b->wire, 8);
}

/* What was built stays behind the tail, and could pass for marks there. */
static void leave_dirty(out_t *out, size_t room)
{
    uint32_t end = (uint32_t)(out->w->pos - out->chunk) + (uint32_t)PGASI_ALIGN_UP(room, PGASI_RING_UNIT);
    chunk_t *c = &out->chunks[out->current];
    out->clean_from = PGASI_MAX(out->clean_from, end);
    c->written = PGASI_MAX(c->written, end);
}

/* Shows or sends what was built. */
static pgas_status_t finish(begun_t *b, bool send_it)
{
    pgasi_outbox_t *ob = b->ob;
    int dest = b->port * (int)ob->n_ranks + b->rank;
    pgasi_lane_lock(ob->lane);
    out_t *out = &ob->out[dest];
    pgas_status_t status = pgasi_boot_is_dead(b->rank) ? PGAS_ERR_PEER : PGAS_OK;
    out->begun = false;
    send_it = send_it && status == PGAS_OK;
    if (!b->buffer && send_it) {
        fill_token(b, out->w->pos);
        show(out, pgasi_rec_room(b->header), b->header);
        ring_bell(out);
    } else if (!b->buffer) {
        leave_dirty(out, pgasi_rec_room(b->header));
    } else {
        memcpy(b->buffer->data, &b->header, 8);
        fill_token(b, b->buffer->data);
        b->buffer->used = pgasi_rec_room(b->header);
        if (send_it)
            status = publish_far(ob, out, b->buffer);
        else
            buffer_release(b->buffer);
        if (status == PGAS_ERR_AGAIN) {
            let_wait(ob, out, dest, b->buffer);
            status = PGAS_OK;
        }
    }
    if (out->kind == OUT_NODE)
        update_window(out);
    pgasi_lane_unlock(ob->lane);
    return status;
}

void pgasi_call_forget(void)
{
    if (!begun.begun)
        return;
    if (begun.epoch == pgasi_epoch) {
        pgas_call_abandon();
        return;
    }
    free(begun.block);
    free(begun.buffer);
    begun.begun = false;
}

pgas_status_t pgas_call_begin(pgas_thread_t target, pgas_handler_t handler, size_t bytes, const pgas_call_opts_t *opts,
                              void **args_p)
{
    pgas_call_opts_t o;
    how_t how;
    begun_t b;
    memset(&b, 0, sizeof b);
    b.rank = pgas_thread_rank(target);
    pgas_status_t status = args_p ? read_opts(opts, &o, &how) : PGAS_ERR_INVALID;
    if (status == PGAS_OK)
        status = check_call(b.rank, handler, "", bytes, false);
    if (begun.epoch != pgasi_epoch)
        pgasi_call_forget();
    if (status == PGAS_OK && begun.begun)
        status = PGAS_ERR_BUSY;
    b.port = pgasi_port_of_slot(pgas_thread_slot(target));
    if (status == PGAS_OK && b.port < 0)
        status = PGAS_ERR_LIMIT;
    if (status == PGAS_OK && pgasi_boot_is_dead(b.rank))
        status = PGAS_ERR_PEER;
    if (status == PGAS_OK && o.sync)
        status = pgasi_sync_issue(&b.sync, o.sync, b.rank, handler, o.when, true);
    if (status != PGAS_OK)
        return status;
    b.has_sync = o.sync != NULL;
    b.wire = b.has_sync ? b.sync.wire : 0;
    b.shared = how.shared;
    b.full = how.full;
    b.header = pgasi_rec_header(handler, bytes, pgasi_self.slot) | (b.wire ? PGASI_REC_TOKEN : 0);
    pgasi_outbox_t *ob = NULL;
    bool in_place = false;
    if (!b.shared && !pgasi_self.in_handler && !pgasi_self.lane->shared &&
        pgasi_outbox_of(pgasi_self.lane, &ob) == PGAS_OK) {
        pgasi_lane_lock(ob->lane);
        in_place = reserve(&b, ob, b.port * (int)ob->n_ranks + b.rank);
        pgasi_lane_unlock(ob->lane);
    }
    if (!in_place) {
        b.args = b.block = malloc(bytes ? bytes : 1);
        if (!b.block)
            return b.has_sync ? pgasi_sync_issued(&b.sync, PGAS_ERR_NO_MEMORY) : PGAS_ERR_NO_MEMORY;
    }
    b.begun = true;
    b.epoch = pgasi_epoch;
    begun = b;
    *args_p = b.args;
    return PGAS_OK;
}

static pgas_status_t end_call(bool send_it)
{
    if (begun.epoch != pgasi_epoch)
        pgasi_call_forget();
    begun_t b = begun;
    if (!b.begun)
        return pgasi_thread_attached() ? PGAS_ERR_NOT_FOUND : pgasi_thread_check();
    begun.begun = false;
    pgas_status_t status = PGAS_OK;
    if (!b.block)
        status = finish(&b, send_it);
    else if (send_it)
        status = pgasi_outbox_call_port(b.rank, b.port, b.shared, pgasi_rec_handler(b.header), b.block,
                                        pgasi_rec_bytes(b.header), b.wire ? &b.wire : NULL, b.full);
    free(b.block);
    if (!send_it) {
        if (b.has_sync)
            pgasi_sync_issued(&b.sync, PGAS_ERR_AGAIN);
        return PGAS_OK;
    }
    return b.has_sync ? pgasi_sync_issued(&b.sync, status) : status;
}

pgas_status_t pgas_call_commit(void)
{
    return end_call(true);
}

pgas_status_t pgas_call_abandon(void)
{
    return end_call(false);
}

/* ---- channels set up and taken down by the program ---- */

/* The destination of a channel of the calling thread's lane. */
static pgas_status_t own_channel(pgas_thread_t target, pgasi_outbox_t **ob_p, int *dest_p)
{
    int rank = pgas_thread_rank(target), port = pgasi_port_of_slot(pgas_thread_slot(target));
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    if ((uint32_t)rank >= (uint32_t)pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    if (port < 0)
        return PGAS_ERR_LIMIT;
    *dest_p = port * pgasi_boot.n_ranks + rank;
    pgasi_lane_lock(pgasi_self.lane);
    status = pgasi_outbox_of(pgasi_self.lane, ob_p);
    pgasi_lane_unlock(pgasi_self.lane);
    return status;
}

pgas_status_t pgas_channel_open(pgas_thread_t target)
{
    pgasi_outbox_t *ob;
    int dest;
    pgas_status_t status = own_channel(target, &ob, &dest);
    if (status != PGAS_OK)
        return status;
    pgasi_lane_lock(ob->lane);
    if (out_of(ob, dest)->kind == OUT_FAR)
        status = pgasi_lane_open(ob->lane);
    pgasi_lane_unlock(ob->lane);
    return status;
}

/* How far the receiver is, read from its memory. */
static uint64_t head_of(const out_t *out)
{
    return __atomic_load_n(out->channel.consumed + 1, __ATOMIC_ACQUIRE);
}

/* The chunks beyond the first go back, but the one in use; the receiver has come to the tail. */
static void give_back(out_t *out)
{
    uint32_t first = out->channel.first, end = first + out->channel.n_first;
    int n = 0, current = out->current;
    for (int i = 0; i < out->n_chunks; i++) {
        chunk_t c = out->chunks[i];
        if (i == current || (c.number >= first && c.number < end)) {
            if (i == current)
                out->current = n;
            out->chunks[n++] = c;
        } else {
            pgasi_inbox_shrink(out->node_rank, c.number);
        }
    }
    out->n_chunks = n;
}

pgas_status_t pgas_channel_close(pgas_thread_t target)
{
    pgasi_outbox_t *ob;
    int dest;
    pgas_status_t status = own_channel(target, &ob, &dest);
    if (status != PGAS_OK)
        return status;
    pgasi_lane_lock(ob->lane);
    out_t *out = out_of(ob, dest);
    if (out->begun)
        status = PGAS_ERR_BUSY;
    else
        status = pgasi_outbox_flush(ob, dest);
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (status == PGAS_OK && out->kind == OUT_NODE && head_of(out) < handed_over(out)) {
        pgasi_lane_unlock(ob->lane);
        pgasi_wait_step(&w);
        pgasi_lane_lock(ob->lane);
        if (pgasi_boot_is_dead(out->rank))
            status = PGAS_ERR_PEER;
    }
    if (status == PGAS_OK && out->kind == OUT_NODE)
        give_back(out);
    pgasi_lane_unlock(ob->lane);
    pgasi_wait_end(&w);
    return status;
}

pgas_status_t pgas_channel_query(pgas_thread_t target, pgas_channel_info_t *info_p)
{
    pgasi_outbox_t *ob;
    int dest;
    pgas_status_t status = info_p ? own_channel(target, &ob, &dest) : PGAS_ERR_INVALID;
    if (status != PGAS_OK)
        return status;
    pgasi_lane_lock(ob->lane);
    const out_t *out = &ob->out[dest];
    bool node = out->kind == OUT_NODE;
    *info_p = (pgas_channel_info_t){ out->kind != OUT_UNKNOWN, node, node ? pgasi_chunk_bytes : 0, node ? out->n_chunks : 0,
                                     node ? handed_over(out) : 0, node ? head_of(out) : 0 };
    pgasi_lane_unlock(ob->lane);
    return PGAS_OK;
}

void pgas_call_wake(int rank)
{
    pgasi_bell_ring_slow(pgasi_boot.local_of[rank]);
}

void pgasi_call_path_open(void)
{
    if (pgasi_self.outbox && !pgasi_self.in_handler)
        set_path(pgasi_self.outbox);
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
           (PGASI_PORT_FIRST_THREAD + (size_t)pgasi_param.lanes) * n_ranks *
               (sizeof *ob->out + sizeof *ob->window + sizeof *ob->cursor + sizeof *ob->dirty + sizeof *ob->held +
                sizeof *ob->known);
}

size_t pgasi_outbox_pool_bytes(size_t chunk_bytes)
{
    return BUFFERS_MAX * PGASI_ALIGN_UP(sizeof(buffer_t) + publish_bytes_max(chunk_bytes) + 64, 64);
}

const pgasi_outbox_stats_t *pgasi_outbox_stats(const pgasi_outbox_t *ob)
{
    return &ob->stats;
}

/* What is gathered for handlers, then what is held up, then what has left: a call moves through them in this order, so
 * that it is counted at least once whenever it moves on while this looks. */
uint64_t pgasi_outboxes_sent(void)
{
    uint64_t sum = 0;
    for (int l = 0; l < pgasi_n_lanes; l++) {
        pgasi_lane_t *lane = __atomic_load_n(&pgasi_lanes[l], __ATOMIC_ACQUIRE);
        pgasi_outbox_t *ob = lane ? __atomic_load_n(&lane->outbox, __ATOMIC_ACQUIRE) : NULL;
        if (!ob)
            continue;
        if (l == PGASI_LANE_SERVICE)
            sum += (uint64_t)__atomic_load_n(&ob->n_dirty, __ATOMIC_ACQUIRE);
        sum += (uint64_t)__atomic_load_n(&ob->n_held, __ATOMIC_ACQUIRE);
        int n_known = __atomic_load_n(&ob->n_known, __ATOMIC_ACQUIRE);
        for (int i = 0; i < n_known; i++)
            sum += handed_over(&ob->out[ob->known[i]]);
        sum += __atomic_load_n(&ob->far_sent, __ATOMIC_RELAXED);
    }
    return sum;
}

/* ---- far messages arrive ---- */

pgas_status_t pgasi_far_start(void)
{
    pgasi_far_consumed = 0;
    far_scratch_bytes = pgasi_far_message_max();
    far_scratch = malloc(far_scratch_bytes);
    return far_scratch ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_far_stop(void)
{
    free(far_scratch);
    far_scratch = NULL;
}

/* A single call is a few words. */
static inline void copy_words(char *to, const char *from, size_t bytes)
{
    if (PGAS_LIKELY(bytes <= 32 && bytes % 8 == 0)) {
        for (size_t i = 0; i < bytes; i += 8)
            memcpy(to + i, from + i, 8);
    } else {
        memcpy(to, from, bytes);
    }
}

/* The port that a message is for; -1: it is malformed or not of this job. */
static inline int port_of_message(const pgasi_tp_am_t *am)
{
    uint32_t header[2] = { 0, PGASI_PORT_ANY };
    bool sane = (am->header_bytes == sizeof header[0] || am->header_bytes == sizeof header) &&
                am->data_bytes <= far_scratch_bytes && (uint32_t)am->source < (uint32_t)pgasi_boot.n_ranks;
    if (PGAS_UNLIKELY(!sane))
        return -1;
    memcpy(header, am->header, am->header_bytes);
    sane = header[0] == pgasi_far_mark(am->source, am->data_bytes) && header[1] < (uint32_t)pgasi_n_ports;
    return sane ? (int)header[1] : -1;
}

bool pgasi_far_arrived(void *arg, const pgasi_tp_am_t *am)
{
    (void)arg;
    int port = port_of_message(am);
    if (PGAS_UNLIKELY(port < 0)) {
        if (pgasi_first_dropped())
            PGASI_ERROR("call", "a message of %zu bytes without this job's key, or malformed: dropped", am->data_bytes);
        return false;
    }
    if (PGAS_UNLIKELY(port != PGASI_PORT_ANY)) {
        if (pgasi_port_put(port, am->source, am->data, am->data_bytes) != PGAS_OK)
            pgasi_fatal("call", "no memory for a message of %zu bytes", am->data_bytes);
        pgasi_bell_ring(pgasi_boot.node_rank);
        if (port == PGASI_PORT_SERVICE)
            pgasi_bell_ring_service(pgasi_boot.node_rank);
        return false;
    }
    const char *records = am->data;
    if ((uintptr_t)records % 8) {
        copy_words(far_scratch, records, am->data_bytes);
        records = far_scratch;
    }
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    pgasi_records_run(records, am->data_bytes, am->source);
    pgasi_handlers_leave(before);
    __atomic_store_n(&pgasi_far_consumed, pgasi_far_consumed + am->data_bytes, __ATOMIC_RELEASE);
    return false;
}
