/* Memory of this rank's heap near one of its threads. On machines with several NUMA zones the
 * allocator of the thread's zone gives it (zone.c). So small blocks, too, are in the right zone.
 * With one zone it comes from the heap. */
#include "mem/alloc_zone.h"

#include "base/checks.h"
#include "mem/regmem.h"
#include "mem/thread.h"
#include "pgas/mem.h"

bool pgasi_alloc_zone_always;

pgas_status_t pgasi_alloc_zone(int slot, size_t bytes, pgas_gptr_t *ptr_p)
{
    int zone = -1;
    if (slot != PGAS_SLOT_ANY && slot != PGAS_SLOT_SERVICE) {
        if (!pgasi_thread_zone(slot, &zone))
            return PGAS_ERR_NOT_FOUND;
        if (pgasi_alloc_zone_always)
            zone = PGASI_MAX(zone, 0);
    }
    return zone >= 0 && bytes ? pgas_zone_alloc(PGAS_ZONE(zone), bytes, ptr_p)
                              : pgas_alloc_local(bytes, ptr_p);
}

pgas_status_t pgasi_free_zone(pgas_gptr_t ptr)
{
    return pgasi_zones_release(ptr) ? PGAS_OK : pgas_free_local(ptr);
}
