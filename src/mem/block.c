/* Blocks of this rank by NUMA zone: one general allocator for each zone that was requested. Blocks
 * of no particular zone, as all blocks on machines with one zone, come from the heap.
 *
 * Shaped for long-lived blocks that are rarely allocated, by any thread, also for other ranks. A
 * block is freed by its pointer alone, so the heap and then each allocator is searched; zones are
 * few. */
#include "mem/block.h"

#include <inttypes.h>
#include <pthread.h>

#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "mem/regmem.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "pgas/mem.h"

#define ZONES_MAX 64 /* further zones have no place */

bool pgasi_block_zone_always;
static pthread_mutex_t zones_lock = PTHREAD_MUTEX_INITIALIZER;
static pgasi_general_t *zones[ZONES_MAX];

int pgas_n_zones(void)
{
    return pgasi_place_n_zones();
}

void pgasi_blocks_stop(void)
{
    for (int i = 0; i < ZONES_MAX; i++)
        zones[i] = NULL;
}

static pgas_status_t find_zone(int number, pgasi_general_t **general_p)
{
    pgas_status_t status = PGAS_OK;
    pthread_mutex_lock(&zones_lock);
    if (!zones[number]) {
        pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
        opts.owner = "zones";
        opts.zone = PGAS_ZONE(number);
        opts.max_bytes = pgasi_segments[0].bytes;
        opts.unit_bytes = PGASI_MIN(pgasi_param.pool_unit, opts.max_bytes);
        status = pgasi_general_create(&opts, &zones[number]);
    }
    *general_p = zones[number];
    pthread_mutex_unlock(&zones_lock);
    return status;
}

static pgas_status_t alloc_in_zone(int number, size_t bytes, pgas_gptr_t *ptr_p)
{
    pgasi_general_t *general;
    pgas_block_t block;
    pgas_status_t status = find_zone(number, &general);
    if (status == PGAS_OK)
        status = pgasi_general_acquire(general, bytes, &block);
    if (status == PGAS_OK) {
        *ptr_p = block.ptr;
        return status;
    }
    if (status == PGAS_ERR_AGAIN)
        PGASI_ERROR("mem",
                    "pgas_alloc_on of %zu bytes in zone %d does not fit; raise PGAS_HEAP_SIZE",
                    bytes, number);
    return status == PGAS_ERR_AGAIN || status == PGAS_ERR_LIMIT ? PGAS_ERR_NO_MEMORY : status;
}

pgas_status_t pgasi_block_alloc(int zone, size_t bytes, pgas_gptr_t *ptr_p)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!ptr_p || zone < PGAS_ZONE_NONE)
        return PGAS_ERR_INVALID;
    if (zone > pgasi_place_n_zones())
        return PGAS_ERR_NOT_FOUND;
    int number = pgasi_super_choose_zone(zone);
    if (pgasi_block_zone_always && zone != PGAS_ZONE_NONE)
        number = PGASI_MAX(number, 0);
    return number >= 0 && number < ZONES_MAX && bytes ? alloc_in_zone(number, bytes, ptr_p)
                                                      : pgasi_heap_alloc(bytes, ptr_p);
}

void pgasi_blocks_trim(void)
{
    pthread_mutex_lock(&zones_lock);
    for (int i = 0; i < ZONES_MAX; i++)
        if (zones[i])
            pgasi_general_trim(zones[i]);
    pthread_mutex_unlock(&zones_lock);
}

static bool free_in_zones(pgas_gptr_t ptr)
{
    pgas_block_t block = { .ptr = ptr };
    pgas_status_t status = PGAS_ERR_INVALID;
    pthread_mutex_lock(&zones_lock);
    for (int i = 0; i < ZONES_MAX && status != PGAS_OK; i++)
        status = zones[i] ? pgasi_general_release(zones[i], &block) : status;
    pthread_mutex_unlock(&zones_lock);
    return status == PGAS_OK;
}

pgas_status_t pgasi_block_free(pgas_gptr_t ptr)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK || !ptr || pgasi_heap_free(ptr) || free_in_zones(ptr))
        return status;
    PGASI_ERROR("mem",
                "pgas_free_on of %#" PRIx64 ": no live block of pgas_alloc_on (freed twice?)", ptr);
    return PGAS_ERR_INVALID;
}
