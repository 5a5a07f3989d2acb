/** What the library is, how it is set up and what it has done, as text for people. */
#ifndef PGAS_INFO_H
#define PGAS_INFO_H

#include <stdio.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** Prints version, build, transports, parameters (value, default, origin, unit, doc), the progress rule per class of
 *  operation and the bytes per rank. Any rank; PGAS_INFO=1 makes pgas_init call it on rank 0. Before pgas_init: what
 *  can be said without a job, and of the processes that a launcher started only the first prints.
 *  @return PGAS_OK, PGAS_ERR_INVALID (null), PGAS_ERR_IO. */
PGAS_API pgas_status_t pgas_info_print(FILE *out);

/** Prints this rank's counters: calls, bytes, publishes by reason, waits. PGAS_STATS=1 does so at pgas_finalize. */
PGAS_API pgas_status_t pgas_stats_print(FILE *out);

PGAS_END_DECLS
#endif
