/** Memory of this rank's heap near one of its threads. */
#ifndef PGASI_ALLOC_ZONE_H
#define PGASI_ALLOC_ZONE_H

#include <stdbool.h>
#include <stddef.h>
#include "pgas/gptr.h"
#include "pgas/status.h"

/** As pgas_alloc_local; where there are several NUMA zones, in that of the thread with this slot.
 *  PGAS_SLOT_ANY and PGAS_SLOT_SERVICE: in none in particular. Any thread, also in handlers.
 *  @return also PGAS_ERR_NOT_FOUND: no thread with this slot is attached. */
pgas_status_t pgasi_alloc_zone(int slot, size_t bytes, pgas_gptr_t *ptr_p);

/** Frees what that gave, or pgas_alloc_local. */
pgas_status_t pgasi_free_zone(pgas_gptr_t ptr);

/** For tests: as if there were several zones. */
extern bool pgasi_alloc_zone_always;

#endif
