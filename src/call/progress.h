/** Progress: a round serves peers and continues the operations that the calling thread has
 *  issued. */
#ifndef PGASI_PROGRESS_H
#define PGASI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "pgas/status.h"

/** Every step of a wait calls this. It makes one round for the calling thread.
 *  @return the number of handled events. */
int pgasi_progress(void);
/** Every wait calls this before it sleeps. A sleeping thread does not check the time, so this
 *  function publishes the calls that are gathered under a time limit. */
void pgasi_progress_before_sleep(void);
/** Every wait that a wakeup flag has ended calls this. It runs all calls that have arrived, and
 *  sets the flag again if some are left. */
void pgasi_progress_when_woken(void);

/** These are the parts of a round that service threads run by themselves.
 *  @return the number of handled events. */
/* runs all calls that have arrived for the rank; 0 if another thread holds the receive lock */
int pgasi_progress_serve(void);
int pgasi_progress_service(void); /* runs the calls to the service endpoint */
int pgasi_progress_shared(void);  /* continues the send queue of the shared context */
/** Reports each death once to the layers above. */
void pgasi_progress_settle_deaths(void);
/** True if an application thread has made progress since the last call of this function. */
bool pgasi_progress_take_polled(void);

/** The watch (boot.h) calls this hook once for each dead rank, on any thread, if the job
 *  continues. */
void pgasi_peer_died(int rank);
/** The transport has given up a rank. This function reports the rank to the watch, unless all ranks
 *  are leaving. */
void pgasi_peer_lost(int rank);

#endif
