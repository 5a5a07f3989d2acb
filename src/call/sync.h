/** Completion of calls: tokens that name a waiting counter or reply, and the answers to them. */
#ifndef PGASI_SYNC_H
#define PGASI_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/call.h"

pgas_status_t pgasi_sync_start(void);
void pgasi_sync_stop(void);
/** The most that counters and replies take: entries, and what ranks owe to each. */
uint64_t pgasi_sync_table_bytes(uint64_t n_ranks);

/** Sets the internal handlers for answers. */
void pgasi_sync_set_handlers(void);

/** A call that completes a counter: issue before it is sent, with c->wire as its token unless that
 *  is 0, then issued with how that went, which may make the counter fall. queued: the call may be
 *  accepted and not shown to the target yet. Each call of issue that gave PGAS_OK needs its issued.
 *  @return issue: PGAS_OK; PGAS_ERR_INVALID (no live counter); PGAS_ERR_NO_MEMORY. Costs two atomic
 *          additions if the rank owes an answer, and 6 bytes per rank for each counter that was
 *          ever used so. issued: what the caller is told, PGAS_OK also if the call could not be
 *          sent and the counter has fallen for it, with the rank's death. */
typedef struct {
    pgas_sync_t *sync;
    uint64_t wire;
    int rank;
    bool outstanding;
} pgasi_sync_call_t;
pgas_status_t pgasi_sync_issue(pgasi_sync_call_t *c, pgas_sync_t *sync, int rank, uint32_t handler,
                               pgas_when_t when, bool queued);
pgas_status_t pgasi_sync_issued(const pgasi_sync_call_t *c, pgas_status_t status);

/** The same for what this rank brings about together with others, as one completion that it owes
 *  itself. If c->wire is not 0, answered with its token makes the counter fall: any thread that may
 *  make calls, also in handlers, without a context's lock. rank and handler are those that status
 *  is about. */
pgas_status_t pgasi_sync_issue_own(pgasi_sync_call_t *c, pgas_sync_t *sync, uint32_t handler,
                                   pgas_when_t when);
void pgasi_sync_answered(uint32_t token, pgas_status_t status, int rank, uint32_t handler);

/** The counter, which is live, falls by n > 0; status, rank and handler say what went wrong, if
 *  anything: with fall it was something of this rank. Any thread that may make calls, without a
 *  context's lock, for the counter's function may run here. */
void pgasi_sync_lower_by(pgas_sync_t *sync, int64_t n, pgas_status_t status, int rank,
                         uint32_t handler);
void pgasi_sync_lower(pgas_sync_t *sync, int64_t n, pgas_status_t status);
/** Whether the counter is live, for calls that are about to name it. */
bool pgasi_sync_is_live(const pgas_sync_t *sync);

/** The call that a thread is running. */
typedef struct {
    uint64_t wire; /* its token; 0: nobody asks */
    pgas_thread_t source;
    uint32_t handler;
    int depth; /* pgasi_self.in_handler where it runs */
    bool running, replied;
} pgasi_call_t;

/** Around a handler whose caller wants an answer (descriptor.h, PGASI_WIRE_*), and around every
 *  handler that runs outside of the receive lock, on a thread of its own with in_handler 0: then
 *  also with wire 0, so that pgas_reply knows that it is in a handler. They nest: begin returns the
 *  call that the thread was running, end takes it back. end sends the answer; where handlers run
 *  under the receive lock through context 0, on a thread of its own through its context, which may
 *  wait. */
pgasi_call_t pgasi_call_begin(pgas_thread_t source, uint32_t handler, uint64_t wire);
void pgasi_call_end(pgasi_call_t before, pgas_status_t status);
/** A call has arrived that runs later: tells who asked for that. The token with which it begins
 *  then. */
uint64_t pgasi_call_arrived(pgas_thread_t source, uint32_t handler, uint64_t wire);

/** Completions and replies that this rank told, by message and by writing the counter. */
typedef struct {
    uint64_t n_answers, n_written;
} pgasi_sync_stats_t;
extern pgasi_sync_stats_t pgasi_sync_stats;

/** The call that the thread is running right now, if somebody waits for it; else NULL. Calls that
 *  run while it waits have their own. */
pgasi_call_t *pgasi_call_at_hand(void);

/** pgas_reply for the library's own handlers, whose answers PGAS_CALL_MAX does not bound. */
pgas_status_t pgasi_reply(const void *data, size_t bytes);

/** pgas_call_return for replies of at most PGAS_CALL_MAX bytes, of any handler. sync, which the
 *  caller keeps alive, is lowered by one when the reply is there. */
pgas_status_t pgasi_ask_nb(int rank, uint32_t handler, const void *args, size_t bytes, void *reply,
                           size_t reply_bytes, pgas_sync_t *sync);
/** The same, and waits for the reply. */
pgas_status_t pgasi_ask(int rank, uint32_t handler, const void *args, size_t bytes, void *reply,
                        size_t reply_bytes);

#endif
