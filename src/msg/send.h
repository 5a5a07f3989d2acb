/** Inside of the sending side: the declarations that its files share. From the bottom up:
 *  send_buffer.c has the buffers, channel.c writes to the node, far.c sends messages, far_channel.c
 *  has channels to other nodes, batch.c gathers and publishes, send_queue.c makes send queues and
 *  has the entry points of other folders, channel_open.c is the program's. In src/call, direct.c
 *  has the short paths of public calls, and begin.c the calls that are built in place.
 *
 *  The path of every call is inline here. All of it needs the context's lock, or the caller's own
 *  context. */
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

/** A batch that gathers calls, or a message that is being sent. */
typedef struct buffer {
    pgasi_tp_comp_t comp;
    struct buffer *next;
    pgasi_sendq_t *sendq;
    size_t capacity, used; /* bytes; `used` is set when the batch is closed */
    uint32_t n_calls;      /* without those of the open run that the inline path adds */
    /* uses by the library and by operations of the transport; the last one frees it */
    int n_uses;
    bool pooled;
    int slot;       /* number in the send queue's registered memory; -1: it is from malloc */
    uint64_t shown; /* of a descriptor that is put: its header, which leaves last */
    _Alignas(64) char data[];
} buffer_t;

/** Not used yet; stores into chunks that this process maps; messages; puts into chunks. */
typedef enum { OUT_UNKNOWN, OUT_NODE, OUT_FAR, OUT_PUT } out_kind_t;

/** A channel to another node: far_channel.c. */
typedef struct far_channel far_channel_t;
#define PGASI_FAR_ASK_AFTER 16u /* messages: a sender of fewer needs no channel */
/* Bytes of a buffer behind its capacity, for the zero that ends a descriptor that is put. */
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
    uint32_t dirty;   /* words before this offset may have the valid bit of the next use */
    uint32_t written; /* words before this offset were written at some time */
    uint64_t free_at; /* the chunk is free when the receiver has reached this position */
    bool odd;         /* the phase of its last use, or of its first, is odd */
} chunk_t;

typedef struct out out_t;

/** Where further chunks of a channel come from, and its receiver's position. There are three kinds:
 *  on the node; by stores to another node; by puts to another node. */
typedef struct {
    /** Takes a further chunk. False: none now. *fresh_p: it holds zeros. */
    bool (*grow)(out_t *out, uint32_t *number_p, bool *fresh_p);
    /** Gives a chunk back. False: not now. */
    bool (*shrink)(out_t *out, uint32_t number);
    /** The receiver's exact position, read from its memory. By puts: the result of the last
     *  read. */
    uint64_t (*head)(out_t *out);
    /** Starts a read of the receiver's position, because its report may be late. NULL: the position
     *  is always known. */
    void (*look)(out_t *out);
} chunk_source_t;

/** A destination: an endpoint of a rank. Its number is endpoint * n_ranks + rank. */
struct out {
    pgas_call_window_t *w; /* node: the tail, exact once settled, and the limit of inline calls */
    char *end;             /* node: the limit of other direct calls; NULL: none may be made */
    pgasi_wakeup_t *wakeup;
    out_kind_t kind;
    int rank, ep;
    int wakeup_number; /* if it is written by stores */
    bool dirty;        /* in the list of open batches */
    bool held;         /* in the list that progress continues */
    bool begun;        /* a call is being built in place (pgas_call_begin) */
    bool dead;         /* the rank has died: nothing is sent there */
    buffer_t *batch;   /* NULL: none open */
    uint64_t opened;   /* the send queue's tick at that time */
    char *run;         /* header of the open run, if the cursor has a kind */
    char *chunk;       /* node: the chunk of the tail */
    uint64_t base;     /* position of its first byte */
    /* no word from this offset on can have the valid bit of the chunk's phase */
    uint32_t clean_from;
    uint32_t dirty_to; /* ... of its next phase */
    int n_chunks, current;
    uint32_t n_refused; /* attempts to find a free chunk since the last success */
    chunk_t *chunks;    /* in the order of their use, cyclic */
    pgasi_channel_t channel;
    far_channel_t *far; /* to another node; NULL: it has not asked for a channel */
    /* messages sent; their number at which it asks for a channel */
    uint32_t n_messages, ask_at;
    const chunk_source_t *source;     /* of a channel */
    uint64_t put_position;            /* by puts: the tail, in bytes; a chunk counts as a whole */
    buffer_t *waiting, **waiting_end; /* closed batches that found no room yet, in order */
};

struct pgasi_sendq {
    out_t *out; /* by destination; all arrays here are touched lazily */
    uint32_t n_ranks, n_dests;
    int *known; /* destinations in use */
    int n_known;
    chunk_t *chunks;            /* by endpoint and rank of the node, PGAS_CHUNKS_MAX each */
    pgas_call_window_t *window; /* by destination */
    uint64_t header;  /* of a call of 8 bytes of the owning thread, without handler and phase */
    uint64_t context; /* threads that may gather here: see pgas_call_path_t */
    uint64_t epoch;   /* pgas_call_run's epoch when windows to dead ranks were last closed */
    pgasi_ctx_t *ctx;
    pgas_agg_cursor_t *cursor; /* by destination */
    int *dirty, *held;
    int n_dirty, n_held;
    bool answered; /* context 0: a handler of this round of serving has sent something */
    size_t publish_bytes;
    uint64_t latency_ns, ticked_ns, tick; /* see pgasi_sendq_look */
    bool ticking;
    buffer_t *free_buffers;
    int n_buffers, buffers_max;
    char *slots; /* registered memory for PGASI_SENDQ_BUFFERS; NULL: none */
    uint64_t slots_taken;
    size_t backlog_bytes, backlog_limit;
    uint32_t n_overflows; /* since the last attempt to send what waits */
    uint64_t far_sent;
    pgasi_sendq_stats_t stats;
};

/** A call with arguments in up to two pieces. */
typedef struct pgasi_message {
    uint64_t header;
    const uint64_t *token;
    const void *head, *data;
    size_t head_bytes, bytes;
} message_t;

/* ---- channel.c ---- */

/** The first use of a destination: opens its channel, or prepares messages. */
void pgasi_send_know(pgasi_sendq_t *sq, out_t *out, int dest);
/** Enters the first chunks of out->channel in `chunks`. fresh: they hold zeros. */
void pgasi_channel_set_chunks(out_t *out, chunk_t *chunks, bool fresh);
/** Puts the tail at the start of the first chunk. */
void pgasi_channel_begin(pgasi_sendq_t *sq, out_t *out, int dest);
/** True if the next chunk is free, or a further one has become the next. */
bool pgasi_channel_find_chunk(out_t *out);
/** Continues in the next chunk, with a wrap descriptor at the tail. False: none is free. */
bool pgasi_channel_next(out_t *out);
/** Copies a batch into the channel and releases it.
 *  @return PGAS_OK
 *  @return PGAS_ERR_AGAIN: there is no room; the caller keeps the batch */
pgas_status_t pgasi_channel_publish(out_t *out, buffer_t *batch);
/** The receiver's exact position, read from its memory, which this process maps. */
uint64_t pgasi_channel_head(out_t *out);
/** The position up to which descriptors were handed over. Any thread may ask. */
uint64_t pgasi_channel_handed_over(const out_t *out);

/* ---- send_buffer.c ---- */

/** A buffer with this room. It is in registered memory if there are other nodes and not too many
 *  are in use. beyond: give one even if all buffers of the pool are in use.
 *  @return NULL: there is none */
buffer_t *pgasi_send_buffer(pgasi_sendq_t *sq, size_t room, bool beyond);
void pgasi_send_free_buffer(buffer_t *buffer);
/** The most bytes of a batch. A batch must fit a message, and a chunk, whose end may be unused. */
size_t pgasi_send_publish_max(size_t chunk_bytes);
/** Checks the status of a send whose caller cannot receive it. If files or memory are missing and
 *  the peer is alive, it would wait for ever, so the function ends the job. */
void pgasi_send_check_lost(int rank, pgas_status_t status);
/** Adds a destination to the list that progress continues, and sets the length of that list. */
void pgasi_send_hold(pgasi_sendq_t *sq, out_t *out);
void pgasi_send_set_held(pgasi_sendq_t *sq, int n);

/* ---- far.c ---- */

/** Sends the first `bytes` bytes of a buffer as one message to an endpoint of the destination's
 *  rank.
 *  @return PGAS_OK: the buffer may be used again
 *  @return PGAS_INPROGRESS: the transport keeps the buffer until its completion, in progress
 *  @return an error of the transport; PGAS_ERR_AGAIN: not now */
pgas_status_t pgasi_far_send_message(pgasi_sendq_t *sq, out_t *out, int ep, buffer_t *buffer,
                                     size_t bytes);
/** The same for a buffer's used bytes. The function takes the buffer, unless it returns
 *  PGAS_ERR_AGAIN. */
pgas_status_t pgasi_far_message(pgasi_sendq_t *sq, out_t *out, int ep, buffer_t *buffer);
/** The receiver has asked for no more messages to this endpoint. */
bool pgasi_far_is_stopped(const pgasi_sendq_t *sq, const out_t *out);

/* ---- far_channel.c ---- */

/** Asks for a channel, when many messages have been sent. False: not now; a later message asks
 *  again. */
bool pgasi_far_channel_ask(pgasi_sendq_t *sq, out_t *out);
/** Uses the granted channel from now on, if everything sent before has left. */
void pgasi_far_channel_join(pgasi_sendq_t *sq, out_t *out, int dest);
/** Puts a batch, or one descriptor that begins with its header. The function takes the buffer,
 *  unless it returns PGAS_ERR_AGAIN. */
pgas_status_t pgasi_far_channel_put(pgasi_sendq_t *sq, out_t *out, buffer_t *buffer, size_t bytes,
                                    bool batch);
/** PGAS_OK if the channel has room for `bytes` bytes now. */
pgas_status_t pgasi_far_channel_probe(pgasi_sendq_t *sq, out_t *out, size_t bytes);
/** Whether the last descriptor's header could not leave with its arguments. */
bool pgasi_far_channel_has_unsent(const out_t *out);
/** Sends the header of the last descriptor, if it could not leave with its arguments.
 *  @return PGAS_OK
 *          PGAS_ERR_AGAIN  the transport has no room; a later call sends it */
pgas_status_t pgasi_far_channel_send_rest(pgasi_sendq_t *sq, const out_t *out);
void pgasi_far_channel_free(out_t *out);
/** Memory of a channel at the sender. 0: the job has none. For the account. */
size_t pgasi_far_channel_bytes(void);
int pgasi_far_channel_state(const out_t *out);

/* ---- far_send.c ---- */

/** Sends a buffer of one descriptor or more. The function takes the buffer, unless it returns
 *  PGAS_ERR_AGAIN. */
pgas_status_t pgasi_far_publish(pgasi_sendq_t *sq, out_t *out, buffer_t *buffer);
/** Sends a buffer of far_buffer with one descriptor. The transport may keep the buffer. The context
 *  is open. */
pgas_status_t pgasi_far_send(pgasi_sendq_t *sq, out_t *out, buffer_t *buffer, size_t bytes);
/* ---- batch.c ---- */

/** Sends a closed batch. The function takes the batch, unless it returns PGAS_ERR_AGAIN. */
pgas_status_t pgasi_send_publish(pgasi_sendq_t *sq, out_t *out, buffer_t *batch);

/** Sends by the rules of `full`. now: the message is not gathered. The caller holds the context's
 *  lock; the function releases it while it waits. */
pgas_status_t pgasi_send_send(pgasi_sendq_t *sq, int dest, const message_t *m, pgas_full_t full,
                              bool now);
/** Sends at once. If that is not possible, gathers up to limit_bytes behind what waits for room,
 *  then returns PGAS_ERR_AGAIN. The context is locked. */
pgas_status_t pgasi_send_overflow(pgasi_sendq_t *sq, int dest, const message_t *m,
                                  size_t limit_bytes);
/** Appends a closed batch or a message to those that wait for room. */
void pgasi_send_let_wait(pgasi_sendq_t *sq, out_t *out, buffer_t *batch);
/** Closes the way to a rank that died.
 *  @return PGAS_ERR_PEER */
pgas_status_t pgasi_send_shut(pgasi_sendq_t *sq, int dest);

/* ---- the tail of a channel ---- */

static inline void set_pos(out_t *out, const char *pos)
{
    __atomic_store_n(&out->w->pos, (char *)(uintptr_t)pos, __ATOMIC_RELEASE);
}

/* The end of the descriptors that short calls have written from pos on (see pgas_call_tail).
 * Another thread may ask, about a place that no longer holds descriptors, so the search never
 * leaves the block. (ThreadSanitizer: see pgasi_channel_handed_over.) */
__attribute__((no_sanitize("thread"))) static inline const char *true_tail(const char *pos,
                                                                           uint64_t phase)
{
    const char *end = pos;
    while ((uintptr_t)pos % 64 &&
           (uintptr_t)end / PGAS_CALL_BLOCK == (uintptr_t)pos / PGAS_CALL_BLOCK) {
        uint64_t header = *(const volatile uint64_t *)(const void *)end;
        if (!pgasi_desc_has_arrived(header, phase))
            break;
        end += PGASI_ALIGN_UP(pgasi_desc_room(header), PGASI_RING_UNIT);
    }
    return end;
}

/* Stores the exact tail. */
static inline void settle(out_t *out)
{
    set_pos(out, true_tail(out->w->pos, out->w->phase));
}

/* A call may go straight into the channel: nothing is gathered or waits before it. */
static inline bool is_direct(const out_t *out)
{
    return out->kind == OUT_NODE && !out->batch && !out->waiting && !out->dead && !out->begun;
}

/* Direct calls take the short paths up to the last unit of a chunk, which holds the wrap
 * descriptor. Streams and inline calls take them in whole cache lines except the last. Inline calls
 * also need a place where no valid bit must be cleared. */
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

/* Clears the word behind a descriptor where it could hold a valid bit. Elsewhere it does not: the
 * word may be in the next cache line. Until that line has arrived from the receiver's core, the
 * store would delay the one that makes the descriptor valid. */
static inline void clear_valid(const out_t *out, char *at)
{
    if ((uint64_t)(at - out->chunk) < out->clean_from)
        __atomic_store_n((uint64_t *)(void *)at, 0, __ATOMIC_RELAXED);
}

/* Makes `bytes` bytes at the tail valid by their first word; the word behind them is not valid. The
 * tail moves first, because quiescence must not see more consumed than sent. */
static inline void make_valid(out_t *out, uint64_t bytes, uint64_t first_word)
{
    char *pos = out->w->pos;
    uint64_t shown = pgasi_desc_shown(first_word, out->w->phase);
    bytes = PGASI_ALIGN_UP(bytes, PGASI_RING_UNIT);
    clear_valid(out, pos + bytes);
    if (bytes > PGASI_RING_UNIT)
        out->dirty_to = (uint32_t)(pos + bytes - out->chunk);
    set_pos(out, pos + bytes);
    __atomic_store_n((uint64_t *)(void *)pos, shown, __ATOMIC_RELEASE);
}

/* Calls to the service run on its threads alone, if it has any. Other threads that were woken, too,
 * would only take the processor. */
static inline void wake_receiver(const out_t *out)
{
    if (PGAS_UNLIKELY(out->ep == PGASI_EP_SERVICE && pgasi_param.service_threads > 0))
        pgasi_wake_service(out->wakeup_number);
    else
        pgasi_wake_at(out->wakeup, out->wakeup_number);
}

/* Finds room for `bytes` bytes in one piece at the tail, and a unit behind them. */
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

/* Ends one use of the buffer. */
static inline void buffer_drop(buffer_t *buffer)
{
    if (--buffer->n_uses == 0)
        buffer_release(buffer);
}

/* Counts an operation of the transport, so that a flush waits for it. */
static inline void count_issued(pgasi_sendq_t *sq, const out_t *out)
{
    sq->ctx->peer[out->rank].issued++;
    sq->ctx->issued++;
}

/* A channel to another node has been granted, and the sender has not joined it yet. */
static inline bool is_granted(const out_t *out)
{
    return out->kind == OUT_FAR && out->far && pgasi_far_channel_state(out) == FAR_GRANTED;
}

/* A buffer for a single call to another node, which is one message or two puts. It is a spare
 * buffer that is used up only if the transport keeps it. */
static inline buffer_t *far_buffer(const pgasi_sendq_t *sq, const out_t *out, size_t room)
{
    buffer_t *buffer = sq->free_buffers;
    bool usable = out->kind >= OUT_FAR && !out->dead && !out->batch && !out->waiting &&
                  sq->ctx->tp && buffer && room <= buffer->capacity && !is_granted(out) &&
                  !(out->ep && pgasi_far_is_stopped(sq, out));
    return usable ? buffer : NULL;
}

/* Copies the first 64 bytes word by word: the caller has just stored them in words, and these
 * stores do not forward to a wider load. */
static inline void copy_args(char *to, const void *from, size_t bytes)
{
    const char *args = from;
    size_t i = 0;
    for (; i + 8 <= PGASI_MIN(bytes, (size_t)64); i += 8)
        memcpy(to + i, args + i, 8);
    if (i < bytes)
        memcpy(to + i, args + i, bytes - i);
}

/* Writes everything of the descriptor except its header. */
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
