/** Locks inside the library. */
#ifndef PGASI_LOCK_H
#define PGASI_LOCK_H

#include <stdint.h>
#include "pgas/lock.h"

pgas_status_t pgasi_locks_start(void);
void pgasi_locks_stop(void);
/** Takes a dead rank out of all queues; what it had goes on. Not in a handler, no lock held. */
void pgasi_locks_peer_died(int rank);
/** Requests that stand in the queues of this rank's locks. */
uint32_t pgasi_locks_waiting(void);

#endif
