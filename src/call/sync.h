/** Completion of calls: the answers that lower counters. Counters: see base/sync.h. Tokens: see
 *  token.h. */
#ifndef PGASI_CALL_SYNC_H
#define PGASI_CALL_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "call/token.h"
#include "msg/dispatch.h"
#include "base/sync.h"
#include "pgas/call.h"

pgas_status_t pgasi_sync_start(void);
void pgasi_sync_stop(void);
/** The most memory that the records of calls take. */
uint64_t pgasi_sync_table_bytes(void);

/** Registers the internal handlers for answers. */
void pgasi_sync_set_handlers(void);

/** A call that names a counter takes two steps. pgasi_sync_issue runs before the call is sent and
 *  raises the counter. Unless c->wire is 0 then, the call carries c->wire as its token.
 *  pgasi_sync_issued runs after the attempt to send, with its status. Each pgasi_sync_issue that
 *  returned PGAS_OK needs its pgasi_sync_issued.
 *
 *  If the call is complete as soon as it is accepted, the counter is not touched and c->wire is 0.
 *
 *  Cost: one atomic addition, and a record if PGAS_ON_PEER_DEATH is continue.
 *
 *  pgasi_sync_issue:
 *  @return PGAS_OK.
 *  @return PGAS_ERR_AGAIN: no record is free, and the caller cannot wait.
 *
 *  pgasi_sync_issued returns what the caller of the public function gets:
 *  @return PGAS_OK: the call was sent, or the rank's death has already lowered the counter.
 *  @return status: the call was not sent, and the counter is as before. */
typedef struct {
    pgas_sync_t *sync; /* NULL: the counter is not touched */
    int64_t before;
    uint64_t wire;
} pgasi_sync_call_t;
enum {
    PGASI_ISSUE_QUEUED = 1, /* the call may be accepted before it is visible to the target */
    PGASI_ISSUE_WAIT = 2    /* wait for a record; never in handlers */
};
static inline int pgasi_issue_wait(pgas_full_t full)
{
    return full == PGAS_FULL_WAIT ? PGASI_ISSUE_WAIT : 0;
}
/** Returns the token of a call to a rank of the node that completes on the counter when it has run;
 *  0: the call needs a record. */
uint64_t pgasi_sync_name(const pgas_sync_t *sync);
pgas_status_t pgasi_sync_issue(pgasi_sync_call_t *c, pgas_sync_t *sync, int rank, uint32_t handler,
                               pgas_when_t when, int flags);
/** As pgasi_sync_issue, for a call whose reply is stored at `reply`. */
pgas_status_t pgasi_sync_ask(pgasi_sync_call_t *c, const pgasi_token_for_t *call, int flags);
pgas_status_t pgasi_sync_issued(const pgasi_sync_call_t *c, pgas_status_t status);
/** As pgasi_sync_issued with a failure. True: the counter is as before. False: the rank's death has
 *  lowered it, so the call counts as accepted. */
bool pgasi_sync_take_back(const pgasi_sync_call_t *c);
/** The call was not sent, but counts as accepted: its counter gets the error. */
void pgasi_sync_fail(const pgasi_sync_call_t *c, pgas_status_t status, int rank, uint32_t handler);

/** What pgasi_sync_has_work announces: polls the pollers, and runs, as a handler, the functions of
 *  counters that pgasi_sync_lower_locked left. @return the number of events */
int pgasi_sync_work_round(void);

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
/** Runs a plain handler whose caller waits for its completion by a counter, and keeps the
 *  completion until pgasi_call_settle_completions, on the same thread. */
static inline bool pgasi_wire_is_gathered(uint64_t wire)
{
    return (wire & (PGASI_WIRE_HEAP | PGASI_WIRE_ADDRESS)) && !(wire & PGASI_WIRE_ARRIVED);
}
void pgasi_call_run_counted(const pgasi_handler_entry_t *e, uint32_t handler, const void *args,
                            size_t bytes, pgas_thread_t source, uint64_t wire);
void pgasi_call_settle_completions(void);
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

/** Calls any handler with a reply of at most PGAS_CALL_MAX bytes. Raises sync by one until the
 *  reply is stored. */
pgas_status_t pgasi_ask_nb(int rank, uint32_t handler, const void *args, size_t bytes, void *reply,
                           size_t reply_bytes, pgas_sync_t *sync);
/** Does the same and waits for the reply. */
pgas_status_t pgasi_ask(int rank, uint32_t handler, const void *args, size_t bytes, void *reply,
                        size_t reply_bytes);

#endif
