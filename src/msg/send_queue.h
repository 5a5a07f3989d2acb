/** The sending side: what a context has to send, per peer. Rings on the node, active messages
 *  elsewhere, both filled with the same descriptors; a batch is open while its descriptors are not
 *  yet published. Where a parameter is named dest it is a destination, endpoint * n_ranks + rank; a
 *  rank alone is its own number at PGASI_EP_ANY. */
#ifndef PGASI_SENDQ_H
#define PGASI_SENDQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/boot.h"
#include "mem/ctx.h"
#include "mem/thread.h"
#include "pgas/agg.h"

/** What to do when there is no room, beside the values of pgas_full_t: the message answers a rank
 *  that waits for it. A handler queues it without limit, other callers wait. */
#define PGASI_FULL_ANSWER ((pgas_full_t)(PGAS_FULL_QUEUE + 1))

/** Counters of a send queue; those that are sums over peers are read by other threads without a
 *  lock. */
typedef struct {
    uint64_t published[7]; /* batches, by pgasi_publish_reason_t */
    uint64_t calls, bytes; /* in them */
    uint64_t n_far, n_full, n_queued;
    uint64_t backlog_high;    /* bytes that waited at one time */
    uint64_t open, open_high; /* batches that are gathered into, at most at one time */
    uint64_t blocked_ns;      /* a caller waited for room, or in a flush */
} pgasi_sendq_stats_t;
typedef enum {
    PGASI_PUBLISH_FULL,
    PGASI_PUBLISH_EXPLICIT,
    PGASI_PUBLISH_ORDER,   /* of calls behind, or of progress */
    PGASI_PUBLISH_DRAINED, /* gathered by handlers, which have run */
    PGASI_PUBLISH_TIME,
    PGASI_PUBLISH_QUIESCE,
    PGASI_PUBLISH_ROOM /* the buffer is needed for another peer */
} pgasi_publish_reason_t;

typedef struct pgasi_sendq pgasi_sendq_t;
#define PGASI_SENDQ_BUFFERS 64 /* that it keeps */

/** Around the running of handlers: what they call goes through context 0 if they run for any thread
 *  of the rank, else through the context of the thread that runs them, but not by its short path,
 *  which leave opens again. */
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
/** Makes the tail exact of a window in which the calling thread made inline calls. */
void pgasi_call_settle(pgas_call_window_t *window);

/** The send queue of a context, made on first use; destroyed with the context's calls. */
pgas_status_t pgasi_sendq_of(pgasi_ctx_t *ctx, pgasi_sendq_t **sendq_p);
void pgasi_sendq_destroy(pgasi_sendq_t *sendq);

/** Options as the rest uses them; NULL: defaults. @return PGAS_OK, PGAS_ERR_INVALID. */
pgas_status_t pgasi_call_read_opts(const pgas_call_opts_t *opts, pgas_call_opts_t *o_p);

/** The checks that every public call makes. */
pgas_status_t pgasi_call_check(int rank, uint32_t handler, const void *args, size_t bytes);

/** Sends one call through the caller's context; wire_token NULL: nobody waits for it. Publishes,
 *  except in handlers. */
pgas_status_t pgasi_sendq_call(int rank, uint32_t handler, const void *args, size_t bytes,
                               const uint64_t *wire_token, pgas_full_t full);
/** The same to an endpoint; shared: through the context of threads that have none, whatever thread
 *  calls. */
pgas_status_t pgasi_sendq_call_port(int rank, int ep, bool shared, uint32_t handler,
                                    const void *args, size_t bytes, const uint64_t *wire_token,
                                    pgas_full_t full);
/** As that, without a token, two pieces as one argument block. */
pgas_status_t pgasi_sendq_call_pair(int rank, int ep, bool shared, uint32_t handler,
                                    const void *head, size_t head_bytes, const void *data,
                                    size_t bytes, pgas_full_t full);
/** Whether a descriptor of so many bytes would find room now, as far as can be seen; queue: whether
 *  so many bytes may wait. */
pgas_status_t pgasi_sendq_probe(int rank, int ep, bool shared, size_t bytes, bool queue);
/** From a handler to the one who asked: two pieces as one argument block. Through the context of
 *  handlers, queued without limit; on a thread that may wait, which then is not inside of a handler
 *  for the library, through its own. */
pgas_status_t pgasi_sendq_answer(int rank, uint32_t handler, const void *head, size_t head_bytes,
                                 const void *data, size_t bytes);
/** The same, not gathered: it leaves before the handler goes on, if there is room. */
pgas_status_t pgasi_sendq_answer_now(int rank, uint32_t handler, const void *head,
                                     size_t head_bytes);

/** Appends to the open batch (opening or renewing it), not published. Context locked or the
 *  caller's own. */
pgas_status_t pgasi_sendq_append(pgasi_sendq_t *sendq, int rank, uint32_t handler, const void *args,
                                 size_t bytes, pgas_full_t full);
/** Sends at once, or gathers behind what waits for room, up to so many bytes, then PGAS_ERR_AGAIN.
 *  Context locked. */
pgas_status_t pgasi_sendq_overflow(pgasi_sendq_t *sendq, int rank, uint32_t handler,
                                   const void *args, size_t bytes, size_t limit_bytes);
/** The short ways of pgas_call, for the calling thread's own send queue and outside of handlers;
 *  false: not possible now. */
bool pgasi_sendq_call_short(const pgasi_sendq_t *sendq, int rank, pgas_handler_t handler,
                            const void *args, size_t bytes);
/** Publishes, with a call behind it that does nothing but to be answered. */
pgas_status_t pgasi_sendq_mark(pgasi_sendq_t *sendq, int rank, uint64_t wire_token);
/** The destinations to which the send queue ever sent, and their number. */
int pgasi_sendq_known(const pgasi_sendq_t *sendq, const int **known_p);
/** The same with arguments in two pieces, the first not empty. */
pgas_status_t pgasi_sendq_append_two(pgasi_sendq_t *sendq, int rank, uint32_t handler,
                                     const void *head, size_t head_bytes, const void *data,
                                     size_t bytes, pgas_full_t full);
/** Publishes open batches: of one destination, or all. AGAIN: progress will go on with it. */
pgas_status_t pgasi_sendq_publish(pgasi_sendq_t *sendq, int dest, pgasi_publish_reason_t reason);
/** Publishes to one destination; outside of handlers waits until it has left. */
pgas_status_t pgasi_sendq_flush(pgasi_sendq_t *sendq, int dest);
pgas_status_t pgasi_sendq_publish_all(pgasi_sendq_t *sendq, pgasi_publish_reason_t reason);

/** Goes on with what was held up: full transport, queued calls. Context locked. Returns events. */
int pgasi_sendq_progress(pgasi_sendq_t *sendq);
/** True if calls are held up. */
bool pgasi_sendq_held(const pgasi_sendq_t *sendq);
/** Destinations of the shared context whose calls are held up: any thread goes on with them, for
 *  perhaps none has that context. */
extern uint32_t pgasi_sendq_shared_held;

/** A rank is now known to be dead: every thread closes its window for inline calls when it makes
 *  the next one. */
void pgasi_sendq_peer_died(void);

pgas_agg_cursor_t *pgasi_sendq_cursors(pgasi_sendq_t *sendq);
void pgasi_sendq_set_publish_bytes(pgasi_sendq_t *sendq, size_t bytes);
/** At most so many bytes in buffers that are gathered into. Both limits only become smaller. */
void pgasi_sendq_set_memory(pgasi_sendq_t *sendq, size_t bytes);

/** What is gathered is published at the latest so long after the first look at the time behind it.
 *  Limits only become shorter; UINT64_MAX: none. */
void pgasi_sendq_set_latency(pgasi_sendq_t *sendq, uint64_t latency_ns);
/** True if somebody must look at the time now and then. */
bool pgasi_sendq_timed(const pgasi_sendq_t *sendq);
/** Looks at the time, and publishes what is gathered for too long. Context locked or the caller's
 *  own. Returns events. */
int pgasi_sendq_look(pgasi_sendq_t *sendq);
const pgasi_sendq_stats_t *pgasi_sendq_stats(const pgasi_sendq_t *sendq);

/** Bytes of a send queue if all peers are used, and of the buffers that it keeps. For the
 *  account. */
size_t pgasi_sendq_table_bytes(size_t n_ranks);
size_t pgasi_sendq_pool_bytes(size_t ring_bytes);

/** Bytes handed over by all send queues of this rank, for quiescence; what is held up counts as
 *  well. */
uint64_t pgasi_sendqs_sent(void);
/** Bytes of far messages consumed by this rank (receive lock held by the receiver). */
extern uint64_t pgasi_far_consumed;

/** What stands before the descriptors of a far message: who sends how much, mixed with the job's
 *  key. One word, so that a small call and all headers share a cache line of UCX's shared-memory
 *  queues; the transport has a key of its own beside it. */
static inline uint32_t pgasi_far_mark(int source_rank, size_t bytes)
{
    uint32_t key = (uint32_t)(pgasi_boot.job_key ^ pgasi_boot.job_key >> 32);
    return key + (uint32_t)source_rank * 0x9E3779B1u + (uint32_t)bytes;
}

/** A rank has said for the number-th time whether messages to an endpoint of it must stop. */
void pgasi_far_set_stop(int ep, int rank, uint64_t number, bool stop);
/** The transport's active messages arrive here. */
bool pgasi_far_arrived(void *arg, const pgasi_tp_am_t *am);
pgas_status_t pgasi_far_arrivals_start(void);
void pgasi_far_arrivals_stop(void);
pgas_status_t pgasi_far_start(void);
void pgasi_far_stop(void);

#endif
