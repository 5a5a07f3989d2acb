/* Start and stop of global memory: the heaps and their table, the allocator in the own heap,
 * attached memory and registered memory. */
#include "mem/segment.h"

#include "boot/boot.h"
#include "boot/hooks.h"
#include "mem/regmem.h"
#include "mem/rma_object.h"

static pgas_status_t thread_leaves(void)
{
    pgasi_pools_leave();
    pgasi_rma_blocks_leave();
    return PGAS_OK;
}

pgas_status_t pgasi_mem_start(void)
{
    pgasi_hooks.thread_detaching[PGASI_LAYER_MEM] = thread_leaves;
    pgasi_attach_start();
    pgas_status_t status = pgasi_segments_start();
    if (status != PGAS_OK)
        return status;
    status = pgasi_boot_agree(pgasi_heap_start(pgasi_segments[0].bytes));
    if (status != PGAS_OK)
        pgasi_segments_stop();
    return status;
}

void pgasi_mem_stop(void)
{
    pgasi_regmem_stop();
    pgasi_symmetric_stop();
    pgasi_heap_stop();
    pgasi_segments_stop();
}
