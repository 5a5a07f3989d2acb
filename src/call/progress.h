/** Progress: serving peers and moving on what was issued; the service threads. */
#ifndef PGASI_PROGRESS_H
#define PGASI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "pgas/status.h"

/** What every wait calls: one round for the calling thread. */
int pgasi_progress(void);
/** What every wait calls before it sleeps: nobody looks at the time then, so what is gathered under
 *  a limit leaves. */
void pgasi_progress_before_sleep(void);
/** Every wait that a ring has woken calls this. It runs everything that has arrived, and rings
 *  again for the rest. */
void pgasi_progress_when_woken(void);

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
