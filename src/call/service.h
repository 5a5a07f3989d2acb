/** Service threads serve peers while the threads of the program compute. */
#ifndef PGASI_SERVICE_H
#define PGASI_SERVICE_H

#include <stdint.h>
#include "pgas/status.h"

/** Starts PGAS_SERVICE_THREADS threads.
 *  @return PGAS_OK
 *          PGAS_ERR_NO_MEMORY, PGAS_ERR_IO  no service thread runs; the reason has been logged */
pgas_status_t pgasi_service_start(void);
/** Ends and joins all service threads. It may also be called after a failed start. */
void pgasi_service_stop(void);

typedef struct {
    uint64_t rounds, wakeups, naps;
} pgasi_service_stats_t;
extern pgasi_service_stats_t pgasi_service_stats;

#endif
