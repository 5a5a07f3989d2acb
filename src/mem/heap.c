/* The symmetric heap: two allocators over one range of offsets.
 *
 * Blocks of pgas_alloc must be at the same offset on every rank. So they come from an allocator
 * that gets the same calls, and gives the same results, on all ranks: best fit from the bottom.
 * Blocks of one rank, and super-chunks of its allocators of registered memory, come from the top of
 * the same range. A request fails when the two would meet; pgas_alloc fails if this happens on any
 * rank, because all agree on the result. */
#include "pgas/mem.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/extents.h"
#include "base/info_fill.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
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

/* ---- collective ---- */

/* Sizes or pointers must be the same on all ranks: compares them with rank 0's. */
static pgas_status_t same_everywhere(uint64_t value)
{
    uint64_t rank_0 = value;
    pgas_status_t status = pgasi_boot_broadcast(&rank_0, sizeof rank_0, 0);
    return status == PGAS_OK && rank_0 != value ? PGAS_ERR_MISMATCH : status;
}

static pgas_status_t alloc_symmetric(size_t bytes, uint64_t *offset_p)
{
    pthread_mutex_lock(&heap_lock);
    pgas_status_t status = pgasi_extents_alloc_low(symmetric, bytes, BLOCK_ALIGN, offset_p);
    if (status == PGAS_OK && *offset_p + bytes > pgasi_extents_lowest_used(local)) {
        pgasi_extents_free(symmetric, *offset_p);
        status = PGAS_ERR_NO_MEMORY;
    }
    if (status == PGAS_ERR_NO_MEMORY)
        report_exhausted("pgas_alloc", bytes);
    note_use();
    pthread_mutex_unlock(&heap_lock);
    return status;
}

static void free_symmetric(uint64_t offset)
{
    pthread_mutex_lock(&heap_lock);
    pgasi_extents_free(symmetric, offset);
    pthread_mutex_unlock(&heap_lock);
}

pgas_status_t pgas_alloc(size_t bytes, pgas_gptr_t *ptr_p)
{
    pgas_status_t status = pgasi_boot_enter();
    if (status != PGAS_OK)
        return status;
    uint64_t offset = 0;
    status = same_everywhere(bytes);
    if (status == PGAS_ERR_MISMATCH)
        PGASI_ERROR("mem",
                    "pgas_alloc of %zu bytes here, but not on rank 0: sizes must be the same",
                    bytes);
    if (status == PGAS_OK && !ptr_p)
        status = PGAS_ERR_INVALID;
    if (status == PGAS_OK && bytes)
        status = alloc_symmetric(bytes, &offset);
    bool mine = status == PGAS_OK && bytes;
    status = pgasi_boot_agree(status);
    if (status != PGAS_OK) {
        if (mine)
            free_symmetric(offset);
        return status;
    }
    *ptr_p = bytes ? pgas_gptr_make(pgasi_boot.rank, PGASI_HEAP_OFFSET + offset) : PGAS_NULL;
    return PGAS_OK;
}

pgas_status_t pgas_free(pgas_gptr_t ptr)
{
    pgas_status_t status = pgasi_boot_enter();
    if (status != PGAS_OK)
        return status;
    uint64_t offset = pgas_gptr_offset(ptr) - PGASI_HEAP_OFFSET;
    status = same_everywhere(pgas_gptr_offset(ptr));
    if (status == PGAS_OK && ptr) {
        pthread_mutex_lock(&heap_lock);
        uint64_t bytes;
        if (pgas_gptr_offset(ptr) < PGASI_HEAP_OFFSET ||
            pgasi_extents_size_of(symmetric, offset, &bytes) != PGAS_OK)
            status = PGAS_ERR_INVALID;
        pthread_mutex_unlock(&heap_lock);
    }
    if (status == PGAS_ERR_INVALID)
        PGASI_ERROR("mem", "pgas_free of %#" PRIx64 ": no live block of pgas_alloc (freed twice?)",
                    ptr);
    if (status == PGAS_ERR_MISMATCH)
        PGASI_ERROR("mem", "pgas_free of offset %#" PRIx64 " here, but of another block on rank 0",
                    pgas_gptr_offset(ptr));
    status = pgasi_boot_agree(status);
    if (status == PGAS_OK && ptr)
        free_symmetric(offset);
    return status;
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

pgas_status_t pgasi_heap_alloc(size_t bytes, pgas_gptr_t *ptr_p)
{
    uint64_t offset = 0;
    if (!bytes) {
        *ptr_p = PGAS_NULL;
        return PGAS_OK;
    }
    pthread_mutex_lock(&heap_lock);
    pgas_status_t status = alloc_local(bytes, BLOCK_ALIGN, &offset);
    if (status == PGAS_ERR_NO_MEMORY)
        report_exhausted("pgas_alloc_on", bytes);
    note_use();
    pthread_mutex_unlock(&heap_lock);
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
