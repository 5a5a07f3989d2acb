/** Memory of this rank's heap near one of its threads. */
#ifndef PGASI_ALLOC_ZONE_H
#define PGASI_ALLOC_ZONE_H

#include <stdbool.h>
#include <stddef.h>
#include "pgas/gptr.h"
#include "pgas/status.h"

/** Allocates as pgas_alloc_local, in the NUMA zone of the thread with this slot if there are
 *  several zones. PGAS_SLOT_ANY and PGAS_SLOT_SERVICE: in no particular zone. Any thread, also in
 *  handlers. @return also PGAS_ERR_NOT_FOUND: no thread with this slot is attached */
pgas_status_t pgasi_alloc_zone(int slot, size_t bytes, pgas_gptr_t *ptr_p);

/** Frees such a block, or a block of pgas_alloc_local. */
pgas_status_t pgasi_free_zone(pgas_gptr_t ptr);

/** For tests: makes the library believe that there are several zones. */
extern bool pgasi_alloc_zone_always;

#endif
