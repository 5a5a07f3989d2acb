/** Send queues: the calls that a context has to send, by destination. On the node it writes into
 *  channels, to other nodes it sends messages or puts; all hold the same descriptors. A batch is
 *  open while its descriptors are not yet published. A parameter named dest is a destination,
 *  endpoint * n_ranks + rank. A rank is its own destination at PGASI_EP_ANY. */
#ifndef PGASI_SENDQ_H
#define PGASI_SENDQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/boot.h"
#include "mem/ctx.h"
#include "mem/thread.h"
#include "pgas/agg.h"

/** A value beside those of pgas_full_t: the message answers a rank that waits for it. A handler
 *  queues it without limit; other callers wait for room. */
#define PGASI_FULL_ANSWER ((pgas_full_t)(PGAS_FULL_QUEUE + 1))

/** Counters of a send queue. Other threads read the sums over peers without a lock. */
typedef struct {
    uint64_t published[7]; /* batches, by pgasi_publish_reason_t */
    uint64_t calls, bytes; /* in these batches */
    uint64_t n_far, n_full, n_queued;
    uint64_t backlog_high;    /* most bytes that waited at one time */
    uint64_t open, open_high; /* batches that gather now; most at one time */
    uint64_t blocked_ns;      /* time in which callers waited for room, or in a flush */
} pgasi_sendq_stats_t;
typedef enum {
    PGASI_PUBLISH_FULL,
    PGASI_PUBLISH_EXPLICIT,
    PGASI_PUBLISH_ORDER,   /* before later calls, or by progress */
    PGASI_PUBLISH_DRAINED, /* handlers gathered it, and have run */
    PGASI_PUBLISH_TIME,
    PGASI_PUBLISH_QUIESCE,
    PGASI_PUBLISH_ROOM /* another peer needs the buffer */
} pgasi_publish_reason_t;

typedef struct pgasi_sendq pgasi_sendq_t;
#define PGASI_SENDQ_BUFFERS 64 /* buffers that it keeps */

/** Between enter and leave a thread runs handlers. Their calls go through context 0 if they run for
 *  any thread of the rank, otherwise through the context of the thread that runs them. They do not
 *  take its short path, which leave opens again. */
typedef struct {
    uint64_t epoch;
    uint64_t context;
    pgasi_ctx_t *ctx;
} pgasi_path_state_t;
static inline pgasi_path_state_t pgasi_handlers_enter(bool for_any)
{
    pgasi_path_state_t before = { pgas_call_path.epoch, pgas_call_path.context,
                                  pgasi_self.handler_ctx };
    pgasi_self.in_handler++;
    pgasi_self.handler_ctx = for_any ? pgasi_ctxs[PGASI_CTX_SERVICE] : pgasi_self.ep_ctx;
    pgas_call_path.epoch = 0;
    pgas_call_path.context = for_any ? PGAS_CALL_HANDLERS : 0;
    return before;
}
static inline void pgasi_handlers_leave(pgasi_path_state_t before)
{
    pgasi_self.in_handler--;
    pgasi_self.handler_ctx = before.ctx;
    pgas_call_path.epoch = before.epoch;
    pgas_call_path.context = before.context;
}
/** Stores the exact tail of a window in which the calling thread made inline calls. */
void pgasi_call_settle(pgas_call_window_t *window);

/** The send queue of a context, created on first use. It ends with the context's calls. */
pgas_status_t pgasi_sendq_of(pgasi_ctx_t *ctx, pgasi_sendq_t **sendq_p);
void pgasi_sendq_destroy(pgasi_sendq_t *sendq);

/** The checks of every public call. */
pgas_status_t pgasi_call_check(int rank, uint32_t handler, const void *args, size_t bytes);

/** Sends one call through the caller's context and publishes it, except in handlers. wire_token
 *  NULL: no thread waits for the call. */
pgas_status_t pgasi_sendq_call(int rank, uint32_t handler, const void *args, size_t bytes,
                               const uint64_t *wire_token, pgas_full_t full);
/** The same to an endpoint. shared: through the shared context, also if the calling thread has a
 *  context of its own. */
pgas_status_t pgasi_sendq_call_ep(int rank, int ep, bool shared, uint32_t handler, const void *args,
                                  size_t bytes, const uint64_t *wire_token, pgas_full_t full);
/** The same without a token; two pieces are one argument block. */
pgas_status_t pgasi_sendq_call_pair(int rank, int ep, bool shared, uint32_t handler,
                                    const void *head, size_t head_bytes, const void *data,
                                    size_t bytes, pgas_full_t full);
/** Estimates whether a descriptor of `bytes` bytes finds room now. queue: whether `bytes` bytes may
 *  wait.
 *  @return PGAS_OK
 *          PGAS_ERR_AGAIN  there is no room
 *          PGAS_ERR_PEER   the rank has died */
pgas_status_t pgasi_sendq_probe(int rank, int ep, bool shared, size_t bytes, bool queue);
/** Answers the rank that asked, from a handler; two pieces are one argument block. The answer goes
 *  through the context of handlers and is queued without limit. A thread that may wait, outside of
 *  handlers of the library, answers through its own context. */
pgas_status_t pgasi_sendq_answer(int rank, uint32_t handler, const void *head, size_t head_bytes,
                                 const void *data, size_t bytes);
/** The same, not gathered: the answer leaves before the handler continues, if there is room. */
pgas_status_t pgasi_sendq_answer_now(int rank, uint32_t handler, const void *head,
                                     size_t head_bytes);

/** Whether every later answer of context 0 to the rank is a put behind a fence (far_channel.h). The
 *  puts that context 0 issues before such an answer are then visible at the rank when the answer
 *  runs. The caller is serving. */
bool pgasi_sendq_answers_by_puts(int rank);

/** Appends to the open batch, or opens one, and does not publish it. The context is locked or the
 *  caller's own. */
pgas_status_t pgasi_sendq_append(pgasi_sendq_t *sendq, int rank, uint32_t handler, const void *args,
                                 size_t bytes, pgas_full_t full);
/** Sends at once. If that is not possible, gathers up to limit_bytes behind what waits for room,
 *  then returns PGAS_ERR_AGAIN. The context is locked. */
pgas_status_t pgasi_sendq_overflow(pgasi_sendq_t *sendq, int rank, uint32_t handler,
                                   const void *args, size_t bytes, size_t limit_bytes);
/** The short paths of pgas_call, for the calling thread's own send queue, outside of handlers.
 *  False: not possible now. */
bool pgasi_sendq_call_short(const pgasi_sendq_t *sendq, int rank, pgas_handler_t handler,
                            const void *args, size_t bytes);
/** Publishes a call that does nothing but complete its token, behind all that was gathered. */
pgas_status_t pgasi_sendq_marker(pgasi_sendq_t *sendq, int dest, uint64_t wire_token);
/** The destinations in use, and their number. */
int pgasi_sendq_known(const pgasi_sendq_t *sendq, const int **known_p);
/** The same with arguments in two pieces; the first is not empty. */
pgas_status_t pgasi_sendq_append_two(pgasi_sendq_t *sendq, int rank, uint32_t handler,
                                     const void *head, size_t head_bytes, const void *data,
                                     size_t bytes, pgas_full_t full);
/** Publish open batches: of one destination, or of all.
 *  @return PGAS_ERR_AGAIN: progress continues it */
pgas_status_t pgasi_sendq_publish(pgasi_sendq_t *sendq, int dest, pgasi_publish_reason_t reason);
/** Publishes to one destination. Outside of handlers it waits until everything has left. */
pgas_status_t pgasi_sendq_flush(pgasi_sendq_t *sendq, int dest);
pgas_status_t pgasi_sendq_publish_all(pgasi_sendq_t *sendq, pgasi_publish_reason_t reason);

/** Sends calls that wait for room in the transport or in a channel. The context is locked. Returns
 *  events. */
int pgasi_sendq_progress(pgasi_sendq_t *sendq);
/** True if calls wait. */
bool pgasi_sendq_held(const pgasi_sendq_t *sendq);
/** Destinations of the shared context whose calls wait. Any thread continues them, because perhaps
 *  no thread has that context. */
extern uint32_t pgasi_sendq_shared_held;
static inline bool pgasi_sendq_shared_waits(void)
{
    return __atomic_load_n(&pgasi_sendq_shared_held, __ATOMIC_RELAXED) != 0;
}

/** A rank has died: every thread closes its windows to dead ranks before its next inline call. */
void pgasi_sendq_peer_died(void);

pgas_agg_cursor_t *pgasi_sendq_cursors(pgasi_sendq_t *sendq);
/** Sets the size at which a batch is published. Once there are buffers it only becomes smaller. */
void pgasi_sendq_set_publish_bytes(pgasi_sendq_t *sendq, size_t bytes);
/** Limits the bytes in buffers that gather. The limit only becomes smaller. */
void pgasi_sendq_set_memory(pgasi_sendq_t *sendq, size_t bytes);

/** A batch is published at most latency_ns after the first pgasi_sendq_look that follows its first
 *  call. Limits only become shorter. UINT64_MAX: none. */
void pgasi_sendq_set_latency(pgasi_sendq_t *sendq, uint64_t latency_ns);
/** True if a thread must call pgasi_sendq_look now and then. */
bool pgasi_sendq_timed(const pgasi_sendq_t *sendq);
/** Reads the clock, and publishes batches that are too old. The context is locked or the caller's
 *  own. Returns events. */
int pgasi_sendq_look(pgasi_sendq_t *sendq);
const pgasi_sendq_stats_t *pgasi_sendq_stats(const pgasi_sendq_t *sendq);

/** Bytes of a send queue if all peers are used, and of the buffers that it keeps. For the
 *  account. */
size_t pgasi_sendq_table_bytes(size_t n_ranks);
size_t pgasi_sendq_pool_bytes(size_t ring_bytes);

/** Bytes that all send queues of this rank have handed over, with those that wait. For
 *  quiescence. */
uint64_t pgasi_sendqs_sent(void);
/** Bytes of messages from other nodes that this rank has consumed. The receiver holds the receive
 *  lock. */
extern uint64_t pgasi_far_consumed;

/** The word before the descriptors of a message to another node: sender and size, mixed with the
 *  job's key. It is one word, so that a small call and all headers share a cache line of UCX's
 *  shared-memory queues. The transport adds a key of its own. */
static inline uint32_t pgasi_far_mark(int source_rank, size_t bytes)
{
    uint32_t key = (uint32_t)(pgasi_boot.job_key ^ pgasi_boot.job_key >> 32);
    return key + (uint32_t)source_rank * 0x9E3779B1u + (uint32_t)bytes;
}

/** The header of a message with memory of the program. */
typedef struct {
    uint64_t word[3];
} pgasi_far_head_t;
/** Sends memory of the program, at most pgasi_far_bulk_max bytes, to the hook data_arrived of a
 *  rank on another node, without a copy. The caller holds the receive lock. After PGAS_INPROGRESS
 *  a round of progress runs comp, which calls pgasi_ctx_count(context 0, -1).
 *  @return as ops->am of the transport */
pgas_status_t pgasi_far_send_data(int rank, const pgasi_far_head_t *head, const void *data,
                                  size_t bytes, pgasi_tp_comp_t *comp);
#define PGASI_FAR_DATA 0xfffffffeu /* in such messages, in place of the endpoint */

/** Takes the number-th stop or go that a rank has sent for one of its endpoints. */
void pgasi_far_set_stop(int ep, int rank, uint64_t number, bool stop);
/** The transport calls this for each active message. */
bool pgasi_far_arrived(void *arg, const pgasi_tp_am_t *am);
pgas_status_t pgasi_far_arrivals_start(void);
void pgasi_far_arrivals_stop(void);
pgas_status_t pgasi_far_start(void);
void pgasi_far_stop(void);

#endif
