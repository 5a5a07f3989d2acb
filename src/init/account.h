/** The worst-case memory of a rank, as a formula and as a number. */
#ifndef PGASI_ACCOUNT_H
#define PGASI_ACCOUNT_H

#include <stdint.h>
#include <stdio.h>
#include "pgas/status.h"

/** Library memory of this rank if every peer is used to the full, for the present job and
 *  parameters; the heap apart. Not in it: MPI, the program's teams, calls larger than a batch while
 *  they are under way, messages that overtake others, and answers and routed calls that queue
 *  behind a peer that does not take them, records of the allocators of registered memory (32 bytes
 *  a block of a circular one), whose memory is the heap's. Valid once contexts are started. */
uint64_t pgasi_account_worst(void);
/** PGAS_ERR_LIMIT, the same on all ranks and logged, if that and the heap exceed
 *  PGAS_MEMORY_LIMIT. */
pgas_status_t pgasi_account_check(void);
void pgasi_account_print(FILE *out);

#endif
