/* Blocks of the rank by NUMA zone: one general allocator for each zone that was requested.
 *
 * Shaped for long-lived blocks that are rarely allocated, by any thread, also for other ranks. A
 * block is freed by its pointer alone, so each allocator is searched in turn; zones are few. */
#include <pthread.h>

#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "mem/regmem.h"
#include "mem/segment.h"
#include "mem/thread.h"

#define ZONES_MAX 64 /* further zones share the allocator without a place */

static pthread_mutex_t zones_lock = PTHREAD_MUTEX_INITIALIZER;
static pgas_general_t *zones[ZONES_MAX + 1]; /* [0]: without a place */

int pgas_n_zones(void)
{
    return pgasi_place_n_zones();
}

void pgasi_zones_stop(void)
{
    for (int i = 0; i <= ZONES_MAX; i++)
        zones[i] = NULL;
}

static pgas_status_t find_zone(int zone, pgas_general_t **general_p)
{
    int number = pgasi_super_choose_zone(zone);
    int index = number < ZONES_MAX ? number + 1 : 0;
    pgas_status_t status = PGAS_OK;
    pthread_mutex_lock(&zones_lock);
    if (!zones[index]) {
        pgas_regmem_opts_t opts = PGAS_REGMEM_OPTS_INIT;
        opts.owner = "zones";
        opts.zone = index ? PGAS_ZONE(number) : PGAS_ZONE_NONE;
        opts.max_bytes = pgasi_segments[0].bytes;
        opts.unit_bytes = PGASI_MIN(pgasi_param.reg_unit, opts.max_bytes);
        status = pgas_general_create(&opts, &zones[index]);
    }
    *general_p = zones[index];
    pthread_mutex_unlock(&zones_lock);
    return status;
}

pgas_status_t pgas_zone_alloc(int zone, size_t bytes, pgas_gptr_t *ptr_p)
{
    pgas_general_t *general;
    pgas_block_t block;
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!ptr_p || !bytes || zone < PGAS_ZONE_NONE)
        return PGAS_ERR_INVALID;
    if (zone > pgasi_place_n_zones())
        return PGAS_ERR_NOT_FOUND;
    status = find_zone(zone, &general);
    if (status == PGAS_OK)
        status = pgas_general_acquire(general, bytes, &block);
    if (status == PGAS_OK) {
        *ptr_p = block.ptr;
        return status;
    }
    if (status == PGAS_ERR_AGAIN)
        PGASI_ERROR("mem", "pgas_zone_alloc of %zu bytes does not fit; raise PGAS_HEAP_SIZE",
                    bytes);
    return status == PGAS_ERR_AGAIN || status == PGAS_ERR_LIMIT ? PGAS_ERR_NO_MEMORY : status;
}

void pgasi_zones_trim(void)
{
    pthread_mutex_lock(&zones_lock);
    for (int i = 0; i <= ZONES_MAX; i++)
        if (zones[i])
            pgas_general_trim(zones[i]);
    pthread_mutex_unlock(&zones_lock);
}

bool pgasi_zones_release(pgas_gptr_t ptr)
{
    pgas_block_t block = { .ptr = ptr };
    pgas_status_t status = PGAS_ERR_INVALID;
    pthread_mutex_lock(&zones_lock);
    for (int i = 0; i <= ZONES_MAX && status != PGAS_OK; i++)
        status = zones[i] ? pgas_general_release(zones[i], &block) : status;
    pthread_mutex_unlock(&zones_lock);
    return status == PGAS_OK;
}

pgas_status_t pgas_zone_free(pgas_gptr_t ptr)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK || !ptr)
        return status;
    if (pgas_gptr_rank(ptr) != pgasi_boot.rank)
        return PGAS_ERR_RANGE;
    status = pgasi_zones_release(ptr) ? PGAS_OK : PGAS_ERR_INVALID;
    if (status != PGAS_OK)
        PGASI_ERROR("mem",
                    "pgas_zone_free of %#llx: no live block of pgas_zone_alloc (freed twice?)",
                    (unsigned long long)ptr);
    return status;
}
