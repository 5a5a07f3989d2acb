/** Progress: serving peers and moving on what was issued; the service threads. */
#ifndef PGASI_PROGRESS_H
#define PGASI_PROGRESS_H

#include <stdint.h>
#include "call/inbox.h"
#include "pgas/status.h"

/** What every wait calls: one round for the calling thread. */
int pgasi_progress(void);
/** What every wait calls before it sleeps: nobody looks at the time then, so what is gathered under a limit leaves. */
void pgasi_progress_before_sleep(void);

/** Publishes what the calling thread has gathered and waits until all that it has issued has left, so that the thread may
 *  stay away from the library: nobody else progresses its lane. Not in a handler. */
pgas_status_t pgasi_call_complete(void);

pgas_status_t pgasi_service_start(void);
void pgasi_service_stop(void);

/** A rank of the job died or left unexpectedly: reports once, then as PGAS_ON_PEER_DEATH says. */
void pgasi_peer_died(int rank);
extern bool pgasi_leaving; /* finalize is under way: peers may leave */

typedef struct {
    uint64_t rounds, wakeups, naps;
} pgasi_service_stats_t;
extern pgasi_service_stats_t pgasi_service_stats;

#endif
