/** The worst-case memory of a rank, as a formula and as a number. */
#ifndef PGASI_ACCOUNT_H
#define PGASI_ACCOUNT_H

#include <stdint.h>
#include <stdio.h>
#include "pgas/status.h"

/** Library memory of this rank, without the heap, if it uses every peer to the full, for the
 *  present job and parameters. The contexts have been started. The sum does not contain:
 *   - MPI, and the program's teams;
 *   - calls larger than a batch while they are under way;
 *   - messages that overtake others;
 *   - answers and routed calls that queue for a peer that is full;
 *   - what the allocators of registered memory note (32 bytes a block of a circular one, 64 bytes
 *     an object). Their memory itself is the heap's. */
uint64_t pgasi_account_worst(void);
/** Compares that and the heap with PGAS_MEMORY_LIMIT. Collective, with the same status on all
 *  ranks.
 *  @return PGAS_OK
 *          PGAS_ERR_LIMIT: the sum exceeds the limit, which is logged */
pgas_status_t pgasi_account_check(void);
void pgasi_account_print(FILE *out);

#endif
