/** Blocks of this rank's heap, for this rank or for another one. Any thread, also in handlers. */
#ifndef PGASI_BLOCK_H
#define PGASI_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include "pgas/gptr.h"
#include "pgas/status.h"

/** Allocates as pgas_alloc_on does on the own rank. 0 bytes give PGAS_NULL. Failures for want of
 *  memory are logged. */
pgas_status_t pgasi_block_alloc(int zone, size_t bytes, pgas_gptr_t *ptr_p);

/** Frees such a block. Null is ignored. @return PGAS_ERR_INVALID: it is not a live block of
 *  pgasi_block_alloc; logged */
pgas_status_t pgasi_block_free(pgas_gptr_t ptr);

/** Returns empty super-chunks of the zones to the heap. */
void pgasi_blocks_trim(void);
/** Forgets the zones' allocators. They are freed with all others. */
void pgasi_blocks_stop(void);

/** For tests: makes the library believe that there are several zones. */
extern bool pgasi_block_zone_always;

#endif
