/** Progress: serving peers and moving on what was issued. */
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

/** Parts of a round that service threads run by themselves. Each returns how much it has done. */
int pgasi_progress_serve(
    void); /* everything that has arrived for the rank, if no other thread serves */
int pgasi_progress_service(void); /* the calls to the service endpoint */
int pgasi_progress_shared(void);  /* the send queue of the shared context */
/** Reports each death to the layers above, once. */
void pgasi_progress_settle_deaths(void);
/** Whether an application thread has made progress since the last call. */
bool pgasi_progress_take_polled(void);

/** The hook of the watch (boot.h): a rank is dead, and the job goes on. Runs once for each dead
 *  rank, on any thread. */
void pgasi_peer_died(int rank);
/** The transport has given up a rank: reports it to the watch, unless all ranks are leaving. */
void pgasi_peer_lost(int rank);
extern bool pgasi_leaving; /* finalize is under way: peers may leave */

#endif
