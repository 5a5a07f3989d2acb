/** Completion of calls: counters, and the answers that decrement them. Tokens: see token.h. */
#ifndef PGASI_SYNC_H
#define PGASI_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/call.h"

pgas_status_t pgasi_sync_start(void);
void pgasi_sync_stop(void);
/** The most memory that counters and awaited replies take: the entries, and the outstanding calls
 *  that each counts by rank. */
uint64_t pgasi_sync_table_bytes(uint64_t n_ranks);

/** Registers the internal handlers for answers. */
void pgasi_sync_set_handlers(void);

/** A call that completes a counter takes two steps. pgasi_sync_issue runs before the call is sent.
 *  Unless c->wire is 0 then, the call carries c->wire as its token. pgasi_sync_issued runs after
 *  the attempt to send, with its status, and may decrement the counter. Each pgasi_sync_issue that
 *  returned PGAS_OK needs its pgasi_sync_issued.
 *
 *  queued: the call may be accepted before it is visible to the target.
 *
 *  Cost: two atomic additions if the rank has to answer. Each counter that was ever used so keeps 6
 *  bytes per rank.
 *
 *  pgasi_sync_issue:
 *  @return PGAS_OK.
 *  @return PGAS_ERR_INVALID: the counter is not live.
 *  @return PGAS_ERR_NO_MEMORY: there is no memory to count by rank.
 *
 *  pgasi_sync_issued returns what the caller of the public function gets:
 *  @return PGAS_OK: the call was sent, or the rank's death has already decremented the counter for
 *           it.
 *  @return status: the call was not sent, and the counter is unchanged. */
typedef struct {
    pgas_sync_t *sync;
    uint64_t wire;
    int rank;
    bool outstanding;
} pgasi_sync_call_t;
pgas_status_t pgasi_sync_issue(pgasi_sync_call_t *c, pgas_sync_t *sync, int rank, uint32_t handler,
                               pgas_when_t when, bool queued);
pgas_status_t pgasi_sync_issued(const pgasi_sync_call_t *c, pgas_status_t status);

/** These two serve an operation that this rank performs together with others. The operation is one
 *  completion that the rank reports to itself. If c->wire is not 0, pgasi_sync_answered with its
 *  token decrements the counter.
 *
 *  Any thread that may make calls may call pgasi_sync_answered, also in handlers, but without a
 *  context's lock. status, rank and handler describe the outcome. Statuses of pgasi_sync_issue_own:
 *  as pgasi_sync_issue. */
pgas_status_t pgasi_sync_issue_own(pgasi_sync_call_t *c, pgas_sync_t *sync, uint32_t handler,
                                   pgas_when_t when);
void pgasi_sync_answered(uint32_t token, pgas_status_t status, int rank, uint32_t handler);

/** Decrements a live counter by n > 0. The counter keeps its first error status, with the rank and
 *  the handler that caused it.
 *
 *  Any thread that may make calls may call this, but without a context's lock, because the
 *  counter's function may run here. */
void pgasi_sync_lower_by(pgas_sync_t *sync, int64_t n, pgas_status_t status, int rank,
                         uint32_t handler);
/** True if the counter is live. Calls that are about to name it check this. */
bool pgasi_sync_is_live(const pgas_sync_t *sync);

/** The call that a thread is running. */
typedef struct {
    uint64_t wire; /* its token; 0: no thread waits for an answer */
    pgas_thread_t source;
    uint32_t handler;
    int depth; /* pgasi_self.in_handler where the call runs */
    bool running, replied;
} pgasi_call_t;

/** These two enclose a handler whose caller wants an answer (descriptor.h, PGASI_WIRE_*). They also
 *  enclose every handler that runs outside of the receive lock, on a thread of its own with
 *  in_handler 0. There they are needed even with wire 0, so that pgas_reply knows that it is in a
 *  handler.
 *
 *  They nest: begin returns the call that the thread was running, and end restores it. end sends
 *  the answer. Under the receive lock the answer goes through context 0. On a thread of its own it
 *  goes through that thread's context, and sending may wait. */
pgasi_call_t pgasi_call_begin(pgas_thread_t source, uint32_t handler, uint64_t wire);
void pgasi_call_end(pgasi_call_t before, pgas_status_t status);
/** A call has arrived that runs later. If its caller waits for the arrival, this function reports
 *  it.
 *  @return the token with which the call begins later. */
uint64_t pgasi_call_arrived(pgas_thread_t source, uint32_t handler, uint64_t wire);

/** Completions and replies that this rank reported: by message, and by writing the counter. */
typedef struct {
    uint64_t n_answers, n_written;
} pgasi_sync_stats_t;
extern pgasi_sync_stats_t pgasi_sync_stats;

/** Returns the call that the thread is running, if there is one; otherwise NULL. Calls that run
 *  while the thread waits have their own. */
pgasi_call_t *pgasi_call_at_hand(void);

/** Does what pgas_reply does, for the library's own handlers: PGAS_CALL_MAX does not limit their
 *  replies. */
pgas_status_t pgasi_reply(const void *data, size_t bytes);

/** Calls any handler with a reply of at most PGAS_CALL_MAX bytes. sync is decremented by one when
 *  the reply is stored. The caller keeps sync alive until then. */
pgas_status_t pgasi_ask_nb(int rank, uint32_t handler, const void *args, size_t bytes, void *reply,
                           size_t reply_bytes, pgas_sync_t *sync);
/** Does the same and waits for the reply. */
pgas_status_t pgasi_ask(int rank, uint32_t handler, const void *args, size_t bytes, void *reply,
                        size_t reply_bytes);

#endif
