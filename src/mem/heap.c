/* The symmetric heap: two allocators over one range of offsets.
 *
 * Blocks of many ranks are at the same offset on each of them. They come from the bottom; the ranks
 * agree on the offset (symmetric.c). Blocks of one rank, and super-chunks of its allocators of
 * registered memory, come from the top of the same range. A request fails when the two would meet;
 * pgas_alloc fails if this happens on any rank, because all agree on the result. */
#include "pgas/mem.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/extents.h"
#include "base/info_fill.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "mem/rma_object.h"
#include "mem/segment.h"
#include "mem/thread.h"

#define BLOCK_ALIGN 64

static pgasi_extents_t *symmetric; /* only blocks of pgas_alloc */
static pgasi_extents_t *local;     /* blocks of pgas_alloc_on and super-chunks */
static pgasi_extents_t *chunks;    /* only super-chunks, at the same offsets */
/* bytes now and at the maximum; the number for now is computed on request */
static pgasi_heap_use_t use;
static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;

pgas_status_t pgasi_heap_start(size_t bytes)
{
    pgas_status_t status = pgasi_extents_create(bytes, &symmetric);
    if (status == PGAS_OK)
        status = pgasi_extents_create(bytes, &local);
    if (status == PGAS_OK)
        status = pgasi_extents_create(bytes, &chunks);
    memset(&use, 0, sizeof use);
    if (status != PGAS_OK)
        pgasi_heap_stop();
    return status;
}

void pgasi_heap_stop(void)
{
    pgasi_extents_destroy(symmetric);
    pgasi_extents_destroy(local);
    pgasi_extents_destroy(chunks);
    symmetric = local = chunks = NULL;
}

static uint64_t heap_bytes(void)
{
    return pgasi_segments[0].bytes;
}

static uint64_t used(const pgasi_extents_t *extents)
{
    return heap_bytes() - pgasi_extents_bytes_free(extents);
}

/* Updates the maxima after an allocation. The lock is held. */
static void note_use(void)
{
    use.symmetric = used(symmetric);
    use.chunks = used(chunks);
    use.local = used(local) - use.chunks;
    use.symmetric_high = PGASI_MAX(use.symmetric_high, use.symmetric);
    use.local_high = PGASI_MAX(use.local_high, use.local);
    use.chunks_high = PGASI_MAX(use.chunks_high, use.chunks);
}

static void report_exhausted(const char *what, size_t bytes)
{
    PGASI_ERROR("mem",
                "%s of %zu bytes does not fit: PGAS_HEAP_SIZE=%" PRIu64 ", %" PRIu64
                " bytes in symmetric and %" PRIu64 " in local blocks; raise PGAS_HEAP_SIZE",
                what, bytes, heap_bytes(), used(symmetric), used(local));
}

/* ---- blocks of many ranks ---- */

pgas_status_t pgasi_heap_reserve(uint64_t from, size_t bytes, uint64_t *offset_p)
{
    uint64_t offset = 0;
    pthread_mutex_lock(&heap_lock);
    pgas_status_t status = pgasi_extents_alloc_from(symmetric, from, bytes, BLOCK_ALIGN, &offset);
    if (status == PGAS_OK && offset + bytes > pgasi_extents_lowest_used(local)) {
        pgasi_extents_free(symmetric, offset);
        status = PGAS_ERR_NO_MEMORY;
    }
    note_use();
    pthread_mutex_unlock(&heap_lock);
    if (status == PGAS_OK)
        *offset_p = offset;
    return status;
}

void pgasi_heap_unreserve(uint64_t offset)
{
    pthread_mutex_lock(&heap_lock);
    pgasi_extents_free(symmetric, offset);
    pthread_mutex_unlock(&heap_lock);
}

bool pgasi_heap_is_reserved(uint64_t offset)
{
    uint64_t bytes;
    pthread_mutex_lock(&heap_lock);
    bool is_block = pgasi_extents_size_of(symmetric, offset, &bytes) == PGAS_OK;
    pthread_mutex_unlock(&heap_lock);
    return is_block;
}

uint64_t pgasi_heap_top(void)
{
    pthread_mutex_lock(&heap_lock);
    uint64_t top = pgasi_extents_highest_used(symmetric);
    pthread_mutex_unlock(&heap_lock);
    return top;
}

void pgasi_heap_report(const char *what, size_t bytes)
{
    pthread_mutex_lock(&heap_lock);
    report_exhausted(what, bytes);
    pthread_mutex_unlock(&heap_lock);
}

/* ---- one rank ---- */

/* The lock is held. */
static pgas_status_t alloc_local(uint64_t bytes, uint64_t alignment, uint64_t *offset_p)
{
    pgas_status_t status = pgasi_extents_alloc_high(local, bytes, alignment, offset_p);
    if (status == PGAS_OK && *offset_p < pgasi_extents_highest_used(symmetric)) {
        pgasi_extents_free(local, *offset_p);
        status = PGAS_ERR_NO_MEMORY;
    }
    return status;
}

static pgas_status_t try_block(uint64_t bytes, uint64_t *offset_p)
{
    pthread_mutex_lock(&heap_lock);
    pgas_status_t status = alloc_local(bytes, BLOCK_ALIGN, offset_p);
    note_use();
    pthread_mutex_unlock(&heap_lock);
    return status;
}

pgas_status_t pgasi_heap_alloc(size_t bytes, pgas_gptr_t *ptr_p)
{
    uint64_t offset = 0;
    if (!bytes) {
        *ptr_p = PGAS_NULL;
        return PGAS_OK;
    }
    pgas_status_t status = try_block(bytes, &offset);
    if (status == PGAS_ERR_NO_MEMORY) {
        pgasi_rma_blocks_trim();
        status = try_block(bytes, &offset);
    }
    if (status == PGAS_ERR_NO_MEMORY)
        pgasi_heap_report("pgas_alloc_on", bytes);
    if (status == PGAS_OK)
        *ptr_p = pgas_gptr_make(pgasi_boot.rank, PGASI_HEAP_OFFSET + offset);
    return status;
}

bool pgasi_heap_free(pgas_gptr_t ptr)
{
    uint64_t offset = pgas_gptr_offset(ptr) - PGASI_HEAP_OFFSET, bytes;
    if (pgas_gptr_rank(ptr) != pgasi_boot.rank || pgas_gptr_offset(ptr) < PGASI_HEAP_OFFSET)
        return false;
    pthread_mutex_lock(&heap_lock);
    bool freed = pgasi_extents_size_of(chunks, offset, &bytes) != PGAS_OK &&
                 pgasi_extents_free(local, offset) == PGAS_OK;
    pthread_mutex_unlock(&heap_lock);
    return freed;
}

/* ---- super-chunks ---- */

pgas_status_t pgasi_heap_take(uint64_t bytes, uint64_t alignment, uint64_t *offset_p)
{
    pthread_mutex_lock(&heap_lock);
    pgas_status_t status = alloc_local(bytes, alignment, offset_p);
    if (status == PGAS_OK) {
        status = pgasi_extents_alloc_at(chunks, *offset_p, bytes);
        if (status != PGAS_OK)
            pgasi_extents_free(local, *offset_p);
    }
    note_use();
    pthread_mutex_unlock(&heap_lock);
    return status;
}

void pgasi_heap_give(uint64_t offset)
{
    pthread_mutex_lock(&heap_lock);
    pgasi_extents_free(chunks, offset);
    pgasi_extents_free(local, offset);
    pthread_mutex_unlock(&heap_lock);
}

void pgasi_heap_use(pgasi_heap_use_t *use_p)
{
    pthread_mutex_lock(&heap_lock);
    note_use();
    *use_p = use;
    pthread_mutex_unlock(&heap_lock);
}

pgas_status_t pgas_heap_info(pgas_heap_info_t *info_p)
{
    if (!pgasi_running)
        return PGAS_ERR_NOT_INIT;
    pthread_mutex_lock(&heap_lock);
    uint64_t low = pgasi_extents_highest_used(symmetric);
    uint64_t gap =
        pgasi_extents_lowest_used(local) - PGASI_MIN(low, pgasi_extents_lowest_used(local));
    uint64_t hole = pgasi_extents_largest_free(local);
    pgas_heap_info_t info = {
        .heap_bytes = heap_bytes(),
        .symmetric_bytes = used(symmetric),
        .local_bytes = used(local),
        .largest_free = PGASI_MIN(gap, hole),
        .page_bytes = pgasi_heap_page_bytes,
    };
    pthread_mutex_unlock(&heap_lock);
    return pgasi_info_fill(info_p, &info, sizeof info);
}
