/** Locks inside the library. */
#ifndef PGASI_LOCK_H
#define PGASI_LOCK_H

#include <stdint.h>
#include "pgas/lock.h"

pgas_status_t pgasi_locks_start(void);
void pgasi_locks_stop(void);
/** The number of requests in the queues of this rank's locks. */
uint32_t pgasi_locks_waiting(void);

#endif
