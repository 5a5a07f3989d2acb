/** Progress: serving peers and moving on what was issued; the service threads. */
#ifndef PGASI_PROGRESS_H
#define PGASI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include "msg/inbox.h"
#include "msg/outbox.h"
#include "pgas/status.h"

/** What every wait calls: one round for the calling thread. */
int pgasi_progress(void);
/** What every wait calls before it sleeps: nobody looks at the time then, so what is gathered under
 *  a limit leaves. */
void pgasi_progress_before_sleep(void);
/** Every wait that a ring has woken calls this. It runs everything that has arrived, and rings
 *  again for the rest. */
void pgasi_progress_when_rung(void);

/** Publishes what the calling thread has gathered and waits until all that it has issued has left,
 *  so that the thread may stay away from the library: nobody else progresses its context. Not in a
 *  handler. */
pgas_status_t pgasi_call_complete(void);

/** Around what handlers might do, elsewhere: with the inbox lock, sending through context 0. No
 *  context's lock is held, but a port's may be. */
pgasi_path_state_t pgasi_serve_begin(void);
void pgasi_serve_end(pgasi_path_state_t before);
/** The thread is inside of that, or runs a handler for any thread of the rank. */
static inline bool pgasi_is_serving(void)
{
    return pgasi_self.in_handler && pgasi_self.handler_ctx == pgasi_ctxs[PGASI_CTX_SERVICE];
}

pgas_status_t pgasi_service_start(void);
void pgasi_service_stop(void);

/** The hook of the watch (boot.h): a rank is dead, and the job goes on. Runs once for each dead
 *  rank, on any thread. */
void pgasi_peer_died(int rank);
/** The transport has given up a rank: reports it to the watch, unless all ranks are leaving. */
void pgasi_peer_lost(int rank);
extern bool pgasi_leaving; /* finalize is under way: peers may leave */

typedef struct {
    uint64_t rounds, wakeups, naps;
} pgasi_service_stats_t;
extern pgasi_service_stats_t pgasi_service_stats;

#endif
