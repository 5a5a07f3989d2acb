/** Inside of the sending side: what its files share. send_queue.c makes send queues and has the
 *  entry points of other files, batch.c gathers, channel.c writes to the node, far.c sends
 *  elsewhere, direct.c has the public calls and their short ways, begin.c calls that are built in
 *  place. No other file includes this.
 *
 *  What stands on the way of every call is inline here; all of it wants the context locked, or to
 *  be the caller's own. */
#ifndef PGASI_SEND_H
#define PGASI_SEND_H

#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/param.h"
#include "msg/dispatch.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "msg/descriptor.h"

/** A batch being gathered, or a message being sent. */
typedef struct buffer {
    pgasi_tp_comp_t comp;
    struct buffer *next;
    pgasi_sendq_t *sendq;
    size_t capacity, used; /* bytes; used when closed */
    uint32_t n_calls;      /* without those of the open run that the inline path adds */
    /* by the library, and by operations of the transport: with the last it is free again */
    int n_uses;
    bool pooled;
    int slot;       /* of the send queue's registered memory, in which it lies; -1: of malloc's */
    uint64_t shown; /* of a descriptor that is put: its header, which goes last */
    _Alignas(64) char data[];
} buffer_t;

/** Stores into chunks that this process maps; messages; puts into chunks. */
typedef enum { OUT_UNKNOWN, OUT_NODE, OUT_FAR, OUT_PUT } out_kind_t;

/** A sender's channel to another node, if it has asked for one: far_channel.c. */
typedef struct far_channel far_channel_t;
#define PGASI_FAR_ASK_AFTER 16u /* messages: who sends few needs no chunks */
/* bytes of a buffer behind its capacity, for the zero that ends a descriptor which is put */
#define PGASI_BUFFER_SLACK 32
typedef enum {
    FAR_NONE,
    FAR_ASKED,
    FAR_GRANTED,
    FAR_REFUSED,
    FAR_JOINED,
    FAR_DECLINED
} far_state_t;

/** A chunk of a channel, as its sender knows it. */
typedef struct {
    uint32_t number;
    uint32_t dirty;   /* up to here there may be what could pass for a mark of the next use */
    uint32_t written; /* up to here it ever was */
    uint64_t free_at; /* when the receiver has come to this position */
    bool odd;         /* the mark of its last use, or of its first */
} chunk_t;

typedef struct out out_t;

/** Where a channel's further chunks come from, and its receiver's position. Three kinds: on the
 *  node; by stores, and by puts, to another node. */
typedef struct {
    /** A further chunk; false: none now. *fresh_p: it holds zeros. */
    bool (*grow)(out_t *out, uint32_t *number_p, bool *fresh_p);
    /** Gives one back; false: not now. */
    bool (*shrink)(out_t *out, uint32_t number);
    /** How far the receiver is, read from its memory; by puts: what the last question brought. */
    uint64_t (*head)(out_t *out);
    /** Asks for the receiver's position when its report may be late. NULL: it is always known. */
    void (*look)(out_t *out);
} chunk_source_t;

/** One destination: an endpoint of a rank, and its number here is endpoint * n_ranks + rank. */
struct out {
    pgas_call_window_t *w; /* node: the tail, exact once settled, and where inline calls may go */
    char *end;             /* node: where other direct calls may go, NULL while they may not */
    pgasi_wakeup_t *wakeup;
    out_kind_t kind;
    int rank, ep;
    int wakeup_number; /* with stores */
    bool dirty;        /* in the list of open batches */
    bool held;         /* in the list of what progress must go on with */
    bool begun;        /* a call is being built in place (pgas_call_begin) */
    bool dead;         /* the rank is: nothing goes there any more */
    buffer_t *batch;   /* NULL: none open */
    uint64_t opened;   /* the send queue's tick when it was */
    char *run;         /* header of the open run, if the cursor has a kind */
    char *chunk;       /* node: in which the tail is */
    uint64_t base;     /* position of its first byte */
    /* bytes of it from here on hold nothing that could pass for a mark of their phase */
    uint32_t clean_from;
    uint32_t dirty_to; /* ... and will not in its next use */
    int n_chunks, current;
    uint32_t n_refused; /* looks for a free chunk since there was one */
    chunk_t *chunks;    /* in the order of their use, round and round */
    pgasi_channel_t channel;
    far_channel_t *far;               /* to another node; NULL: never asked for one */
    uint32_t n_messages, ask_at;      /* so many were sent; with which it is asked for */
    const chunk_source_t *source;     /* of a channel */
    uint64_t put_position;            /* by puts: the tail; a chunk counts as a whole */
    buffer_t *waiting, **waiting_end; /* closed batches for which there was no room yet, in order */
};

struct pgasi_sendq {
    out_t *out; /* by destination, as all arrays here lazily touched */
    uint32_t n_ranks, n_dests;
    int *known; /* destinations that were ever used */
    int n_known;
    chunk_t *chunks;            /* by endpoint and rank of the node, PGAS_CHUNKS_MAX each */
    pgas_call_window_t *window; /* by destination */
    uint64_t header;  /* of a call of 8 bytes of the owning thread, but for handler and phase */
    uint64_t context; /* whose calls are gathered here: see pgas_call_path_t */
    uint64_t epoch;   /* pgas_call_run's when windows to dead ranks were last closed */
    pgasi_ctx_t *ctx;
    pgas_agg_cursor_t *cursor; /* by destination */
    int *dirty, *held;
    int n_dirty, n_held;
    bool answered; /* context 0: a handler of this round of serving has sent something already */
    size_t publish_bytes;
    uint64_t latency_ns, ticked_ns, tick; /* see pgasi_sendq_look */
    bool ticking;
    buffer_t *free_buffers;
    int n_buffers, buffers_max;
    char *slots; /* registered memory for PGASI_SENDQ_BUFFERS; NULL: none */
    uint64_t slots_taken;
    size_t backlog_bytes, backlog_limit;
    uint32_t n_overflows; /* since progress was last tried for one */
    uint64_t far_sent;
    pgasi_sendq_stats_t stats;
};

/** Arguments in up to two pieces. */
typedef struct {
    uint64_t header;
    const uint64_t *token;
    const void *head, *data;
    size_t head_bytes, bytes;
} message_t;

/* ---- channel.c ---- */

/** The first use of a destination. */
void pgasi_send_know(pgasi_sendq_t *sq, out_t *out, int dest);
/** Notes the first chunks of out->channel in chunks; fresh: they hold zeros. */
void pgasi_channel_set_chunks(out_t *out, chunk_t *chunks, bool fresh);
/** The tail stands before the first chunk's first descriptor, from now on. */
void pgasi_channel_begin(pgasi_sendq_t *sq, out_t *out, int dest);
/** The chunk behind the present one is free, or another has been put there that is; else false. */
bool pgasi_channel_find_chunk(out_t *out);
/** Goes on in the next chunk, with a descriptor that says so at the tail; false if none is free. */
bool pgasi_channel_next(out_t *out);
/** Copies a batch into the channel and releases it; PGAS_ERR_AGAIN: there is no room, the batch
 *  stays the caller's. */
pgas_status_t pgasi_channel_publish(out_t *out, buffer_t *batch);
/** How far the receiver is, read from its memory, which this process maps. */
uint64_t pgasi_channel_head(out_t *out);
/** Position up to which descriptors were handed over; any thread may ask. */
uint64_t pgasi_channel_handed_over(const out_t *out);

/** Checks the status of a send whose caller cannot receive it. If files or memory are missing and
 *  the peer is alive, it would wait for ever, so the function ends the job. batch.c. */
void pgasi_send_check_lost(int rank, pgas_status_t status);

/* ---- send_buffer.c ---- */

/** A buffer with this room: in registered memory if there are other nodes and not too many are in
 *  use. beyond: even if all buffers of the pool are in use. @return NULL: there is none. */
buffer_t *pgasi_send_buffer(pgasi_sendq_t *sq, size_t room, bool beyond);
void pgasi_send_free_buffer(buffer_t *buffer);
/** The most bytes that a batch may have: it must fit a chunk, whose rest may be lost, and a
 *  message. */
size_t pgasi_send_publish_max(size_t chunk_bytes);
/** Adds a destination to the list that progress goes on with / sets the length of the list. */
void pgasi_send_hold(pgasi_sendq_t *sq, out_t *out);
void pgasi_send_set_held(pgasi_sendq_t *sq, int n);

/* ---- far.c ---- */

/** Sends the first `bytes` bytes of a buffer as one message to an endpoint of the destination's
 *  rank. @return PGAS_OK; PGAS_INPROGRESS: the transport keeps the buffer until its completion,
 *  which progress calls; an error. */
pgas_status_t pgasi_far_send_message(pgasi_sendq_t *sq, out_t *out, int ep, buffer_t *buffer,
                                     size_t bytes);
/** The same for a buffer's used bytes, and takes the buffer, unless PGAS_ERR_AGAIN. */
pgas_status_t pgasi_far_message(pgasi_sendq_t *sq, out_t *out, int ep, buffer_t *buffer);
/** The receiver has asked for no more messages to this endpoint for now. */
bool pgasi_far_is_stopped(const pgasi_sendq_t *sq, const out_t *out);

/* ---- far_channel.c ---- */

/** Asks for a channel to where so many messages went. False: not now, but again with a later
 *  message. */
bool pgasi_far_channel_ask(pgasi_sendq_t *sq, out_t *out);
/** The channel is granted, and all that was sent so far has left: what follows goes through it. */
void pgasi_far_channel_join(pgasi_sendq_t *sq, out_t *out, int dest);
/** Puts a batch, or one descriptor with its header in front, and takes the buffer, unless
 *  PGAS_ERR_AGAIN. */
pgas_status_t pgasi_far_channel_put(pgasi_sendq_t *sq, out_t *out, buffer_t *buffer, size_t bytes,
                                    bool batch);
/** PGAS_OK if it would find room for so many bytes now. */
pgas_status_t pgasi_far_channel_probe(pgasi_sendq_t *sq, out_t *out, size_t bytes);
/** The last descriptor's header could not leave with its arguments; pays that. @return PGAS_OK,
 *  PGAS_ERR_AGAIN. */
bool pgasi_far_channel_has_unsent(const out_t *out);
pgas_status_t pgasi_far_channel_send_rest(pgasi_sendq_t *sq, const out_t *out);
void pgasi_far_channel_free(out_t *out);
/** Memory of one at the sender; 0: there are none in this job. For the account. */
size_t pgasi_far_channel_bytes(void);
int pgasi_far_channel_state(const out_t *out);

/* ---- batch.c ---- */

/** Sends a closed batch on its way, whichever that is, and takes it, unless PGAS_ERR_AGAIN. */
pgas_status_t pgasi_send_publish(pgasi_sendq_t *sq, out_t *out, buffer_t *batch);

/** Sends by the rules of `full`; now: not gathered. Context locked by the caller, given up while
 *  waiting. */
pgas_status_t pgasi_send_send(pgasi_sendq_t *sq, int dest, const message_t *m, pgas_full_t full,
                              bool now);
/** Sends a buffer that far_buffer gave, with one descriptor. The transport may keep the buffer;
 *  then it is no spare buffer any more. The context is open. */
pgas_status_t pgasi_far_send(pgasi_sendq_t *sq, out_t *out, buffer_t *buffer, size_t bytes);
/** Puts a closed batch, or a message, behind those that wait for room. */
void pgasi_send_let_wait(pgasi_sendq_t *sq, out_t *out, buffer_t *batch);
/** Nothing goes to a rank that died. @return PGAS_ERR_PEER. */
pgas_status_t pgasi_send_shut(pgasi_sendq_t *sq, int dest);

/* ---- the tail of a channel ---- */

static inline void set_pos(out_t *out, const char *pos)
{
    __atomic_store_n(&out->w->pos, (char *)(uintptr_t)pos, __ATOMIC_RELEASE);
}

/* Where the descriptors end that short calls have set from pos on (see pgas_call_tail). Others than
 * the sender may look, at what is no descriptor any more: never beyond the block. (Not for
 * ThreadSanitizer, for the sake of pgasi_channel_handed_over.) */
__attribute__((no_sanitize("thread"))) static inline const char *true_tail(const char *pos,
                                                                           uint64_t phase)
{
    const char *end = pos;
    while ((uintptr_t)pos % 64 &&
           (uintptr_t)end / PGAS_CALL_BLOCK == (uintptr_t)pos / PGAS_CALL_BLOCK) {
        uint64_t header = *(const volatile uint64_t *)(const void *)end;
        if (!pgasi_desc_has_arrived(header, phase))
            break;
        end += PGAS_CALL_ROOM(pgasi_desc_bytes(header));
    }
    return end;
}

/* Makes the tail exact. */
static inline void settle(out_t *out)
{
    set_pos(out, true_tail(out->w->pos, out->w->phase));
}

/* Whether a call may go straight into the channel: nothing is gathered or waits before it. */
static inline bool is_direct(const out_t *out)
{
    return out->kind == OUT_NODE && !out->batch && !out->waiting && !out->dead && !out->begun;
}

/* Direct calls take the short paths up to the last unit of a chunk, where it is left; streams and
 * inline ones only in whole lines but the last, inline ones also only where they need not clear the
 * mark in the next. */
static inline void update_window(out_t *out)
{
    settle(out);
    bool direct = is_direct(out),
         clean = (uint64_t)(out->w->pos - out->chunk) + PGASI_RING_UNIT >= out->clean_from;
    out->end = direct ? out->chunk + pgasi_chunk_bytes - PGASI_RING_UNIT : NULL;
    char *pos = out->w->pos,
         *end = direct && !pgasi_wait_light_is_fence ? out->chunk + pgasi_chunk_bytes - 64 : pos;
    out->w->sized_end = pgasi_param.call_max >= PGAS_CALL_STREAM_MAX ? end : pos;
    out->w->end = clean ? end : pos;
}

static inline void close_window(out_t *out)
{
    out->end = NULL;
    if (out->kind == OUT_NODE)
        out->w->end = out->w->sized_end = out->w->pos;
}

/* Sees to it that there is no mark behind a descriptor, where there could be one. Not everywhere:
 * the place may lie in the next line, and until that has come from the receiver's core the store
 * would hold up the one that shows the descriptor. */
static inline void clear_mark(const out_t *out, char *at)
{
    if ((uint64_t)(at - out->chunk) < out->clean_from)
        __atomic_store_n((uint64_t *)(void *)at, 0, __ATOMIC_RELAXED);
}

/* Shows `bytes` bytes at the tail to the receiver by their first word, with no mark behind them.
 * The tail moves first: quiescence must not see more consumed than sent. */
static inline void show(out_t *out, uint64_t bytes, uint64_t first_word)
{
    char *pos = out->w->pos;
    uint64_t shown = pgasi_desc_shown(first_word, out->w->phase);
    bytes = PGASI_ALIGN_UP(bytes, PGASI_RING_UNIT);
    clear_mark(out, pos + bytes);
    if (bytes > PGASI_RING_UNIT)
        out->dirty_to = (uint32_t)(pos + bytes - out->chunk);
    set_pos(out, pos + bytes);
    __atomic_store_n((uint64_t *)(void *)pos, shown, __ATOMIC_RELEASE);
}

/* The service of a rank may sleep while its other threads do not. */
static inline void wake_receiver(const out_t *out)
{
    pgasi_wake_at(out->wakeup, out->wakeup_number);
    if (PGAS_UNLIKELY(out->ep == PGASI_EP_SERVICE))
        pgasi_wake_service(out->wakeup_number);
}

/* Room for so many bytes in one piece at the tail, and a unit behind them. */
static inline bool ring_room(out_t *out, uint64_t bytes)
{
    settle(out);
    bytes = PGASI_ALIGN_UP(bytes, PGASI_RING_UNIT) + PGASI_RING_UNIT;
    return PGAS_LIKELY(bytes <= (uint64_t)(out->chunk + pgasi_chunk_bytes - out->w->pos)) ||
           pgasi_channel_next(out);
}

/* ---- destinations, buffers, descriptors ---- */

static inline out_t *out_of(pgasi_sendq_t *sq, int dest)
{
    out_t *out = &sq->out[dest];
    if (PGAS_UNLIKELY(out->kind == OUT_UNKNOWN))
        pgasi_send_know(sq, out, dest);
    return out;
}

static inline size_t buffer_capacity(const pgasi_sendq_t *sq)
{
    return sq->publish_bytes + 64;
}

static inline void buffer_release(buffer_t *buffer)
{
    pgasi_sendq_t *sq = buffer->sendq;
    bool surplus = buffer->pooled && sq->n_buffers > sq->buffers_max;
    sq->n_buffers -= surplus;
    if (buffer->pooled && !surplus) {
        buffer->next = sq->free_buffers;
        sq->free_buffers = buffer;
    } else {
        pgasi_send_free_buffer(buffer);
    }
}

/* Ends a use of it. */
static inline void buffer_drop(buffer_t *buffer)
{
    if (--buffer->n_uses == 0)
        buffer_release(buffer);
}

/* What the transport carries: so that a flush waits for it. */
static inline void count_issued(pgasi_sendq_t *sq, const out_t *out)
{
    sq->ctx->peer[out->rank].issued++;
    sq->ctx->issued++;
}

/* A channel to elsewhere has been granted and waits to be used. */
static inline bool is_granted(const out_t *out)
{
    return out->kind == OUT_FAR && out->far && pgasi_far_channel_state(out) == FAR_GRANTED;
}

/* A call by itself to elsewhere is one message, or two puts. Its descriptor stands in a spare
 * buffer, which is used up only if the transport keeps it. */
static inline buffer_t *far_buffer(const pgasi_sendq_t *sq, const out_t *out, size_t room)
{
    buffer_t *buffer = sq->free_buffers;
    bool usable = out->kind >= OUT_FAR && !out->dead && !out->batch && !out->waiting &&
                  sq->ctx->tp && buffer && room <= buffer->capacity && !is_granted(out) &&
                  !(out->ep && pgasi_far_is_stopped(sq, out));
    return usable ? buffer : NULL;
}

/* The beginning by words: what the caller has just stored there, a word at a time, does not forward
 * to a wider load. */
static inline void copy_args(char *to, const void *from, size_t bytes)
{
    const char *args = from;
    size_t i = 0;
    for (; i + 8 <= PGASI_MIN(bytes, (size_t)64); i += 8)
        memcpy(to + i, args + i, 8);
    if (i < bytes)
        memcpy(to + i, args + i, bytes - i);
}

/* Everything of the descriptor but its header. */
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

static inline pgas_status_t check_call(int rank, uint32_t handler, const void *args, size_t bytes,
                                       bool by_anybody)
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

#endif
