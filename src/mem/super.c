/* Super-chunks and their units: the base of all allocators of registered memory.
 *
 * Shaped for few, large super-chunks (a handful with exponential growth) that are taken once and
 * kept. One lock per allocator protects everything, units are bits, and runs of units are found
 * first fit. A super-chunk is whole pages of the heap, so that it can be placed in a NUMA zone.
 * Its pages lose their place before they return to the heap. Records are outside of the memory. */
#include "mem/regmem.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bitmap.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "mem/rma_object.h"
#include "mem/segment.h"
#include "mem/thread.h"

#define LARGE_PAGE ((size_t)2 << 20)

typedef struct chunk {
    struct chunk *next; /* in the order of growth */
    uint64_t offset;    /* in the heap */
    char *address;      /* NULL: in the memory of another node */
    pgas_gptr_t origin; /* what pgas_alloc_on gave, if another rank has the memory */
    size_t n_units, n_free;
    size_t *run;    /* units of the run that starts at a unit */
    uint64_t *used; /* bits of units */
} chunk_t;

struct pgasi_super {
    pgasi_super_t *next; /* list of all allocators of the rank */
    pthread_mutex_t lock;
    chunk_t *chunks;
    size_t unit_bytes, max_units, grow_units;
    size_t n_units, high_units, used_units, n_blocks, n_chunks;
    bool exponential, has_logged_limit;
    bool quiet;       /* without room: no log line, because the user takes other memory */
    int zone;         /* -1: not placed */
    int rank;         /* has the memory */
    chunk_t *orphans; /* of another rank: given up, not yet freed there */
    pgas_mem_owner_t *owner;
    void (*destroy)(void *object);
    void *object;
};

static struct {
    pthread_mutex_t lock;
    pgasi_super_t *first;
} supers = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Whether another rank has the memory. */
static bool is_far(const pgasi_super_t *super)
{
    return super->rank != pgasi_boot.rank;
}

/* ---- the list of all ---- */

static size_t limit_here(const pgasi_super_t *super)
{
    return is_far(super) ? 0 : super->max_units * super->unit_bytes;
}

static void enter(pgasi_super_t *super, const char *owner)
{
    super->owner = pgasi_reg_owner_enter(owner, limit_here(super));
    pthread_mutex_lock(&supers.lock);
    super->next = supers.first;
    supers.first = super;
    pthread_mutex_unlock(&supers.lock);
}

static void leave(pgasi_super_t *super)
{
    pgasi_reg_owner_leave(super->owner, limit_here(super));
    pthread_mutex_lock(&supers.lock);
    pgasi_super_t **at = &supers.first;
    while (*at != super)
        at = &(*at)->next;
    *at = super->next;
    pthread_mutex_unlock(&supers.lock);
}

void pgasi_supers_stop(void)
{
    while (supers.first)
        supers.first->destroy(supers.first->object);
    pgasi_reg_owners_stop();
}

/* ---- options ---- */

/* Super-chunks are whole pages, up to pages of 2 MiB. Of larger pages each would take far more than
 * it needs, so only allocators whose units are whole larger pages are placed in a zone. */
static size_t chunk_align(const pgasi_super_t *super)
{
    return super->unit_bytes % pgasi_heap_page_bytes == 0
               ? pgasi_heap_page_bytes
               : PGASI_MIN(pgasi_heap_page_bytes, LARGE_PAGE);
}

static pgas_status_t check_opts(const pgas_pool_opts_t *o)
{
    bool good = (unsigned)o->growth <= PGAS_GROWTH_LINEAR && o->zone >= PGAS_ZONE_NONE &&
                (o->alignment == 0 || (PGASI_IS_POW2(o->alignment) && o->alignment <= 4096)) &&
                o->max_bytes <= PGAS_OFFSET_MAX && o->unit_bytes <= PGAS_OFFSET_MAX;
    if (!good)
        return PGAS_ERR_INVALID;
    bool far = o->rank >= 0 && o->rank != pgasi_boot.rank;
    return !far && o->zone > 0 && o->zone > pgasi_place_n_zones() ? PGAS_ERR_NOT_FOUND : PGAS_OK;
}

static pgas_status_t check_limit(const pgas_pool_opts_t *o)
{
    size_t unit = o->unit_bytes ? o->unit_bytes : pgasi_param.pool_unit,
           max = o->max_bytes ? o->max_bytes : pgasi_param.pool_max;
    if (unit <= max)
        return PGAS_OK;
    PGASI_ERROR("mem",
                "registered memory for %s: units of %zu bytes (PGAS_POOL_UNIT) exceed the limit of "
                "%zu (PGAS_POOL_MAX)",
                o->owner ? o->owner : "program", unit, max);
    return PGAS_ERR_LIMIT;
}

int pgasi_super_choose_zone(int zone)
{
    if (zone == PGAS_ZONE_NONE || pgasi_place_n_zones() == 1)
        return -1;
    return zone == PGAS_ZONE_OWN ? pgasi_place_own_zone() : zone - 1;
}

static void set_growth(pgasi_super_t *super, const pgas_pool_opts_t *o)
{
    size_t max_bytes = o->max_bytes ? o->max_bytes : pgasi_param.pool_max;
    super->unit_bytes = PGASI_ALIGN_UP(o->unit_bytes ? o->unit_bytes : pgasi_param.pool_unit,
                                       PGASI_MIN(pgasi_heap_page_bytes, LARGE_PAGE));
    super->max_units = PGASI_MAX(max_bytes / super->unit_bytes, 1);
    super->grow_units = PGASI_MIN(o->grow_units ? o->grow_units : 1, super->max_units);
    super->exponential = o->growth == PGAS_GROWTH_DEFAULT
                             ? pgasi_param.pool_growth == PGASI_POOL_GROWTH_EXPONENTIAL
                             : o->growth == PGAS_GROWTH_EXPONENTIAL;
}

/* Reads options that may be of an older, shorter version. */
static pgas_status_t read_opts(const pgas_pool_opts_t *opts, pgas_pool_opts_t *o)
{
    if (!PGASI_OPTS_SANE(opts, sizeof *opts))
        return PGAS_ERR_INVALID;
    *o = (pgas_pool_opts_t)PGAS_POOL_OPTS_INIT;
    if (opts)
        memcpy(o, opts, sizeof *o);
    return check_opts(o);
}

size_t pgasi_regmem_alignment(const pgas_pool_opts_t *opts)
{
    return opts && opts->alignment ? opts->alignment : PGASI_REG_ALIGN;
}

pgas_status_t pgasi_super_create_for(const pgas_pool_opts_t *opts, void (*destroy)(void *object),
                                     void *object, pgasi_super_t **super_p)
{
    pgas_pool_opts_t o;
    pgas_status_t status = pgasi_running || pgasi_thread_attached() ? PGAS_OK : PGAS_ERR_NOT_INIT;
    if (status == PGAS_OK)
        status = read_opts(opts, &o);
    if (status != PGAS_OK)
        return status;
    status = check_limit(&o);
    if (status != PGAS_OK)
        return status;
    pgasi_super_t *super = calloc(1, sizeof *super);
    if (!super)
        return PGAS_ERR_NO_MEMORY;
    pthread_mutex_init(&super->lock, NULL);
    set_growth(super, &o);
    super->rank = o.rank < 0 ? pgasi_boot.rank : o.rank;
    super->zone = is_far(super) ? o.zone - 1 : pgasi_super_choose_zone(o.zone);
    if (super->unit_bytes % pgasi_heap_page_bytes)
        super->zone = -1;
    super->destroy = destroy;
    super->object = object ? object : super;
    enter(super, o.owner && *o.owner ? o.owner : "program");
    *super_p = super;
    return PGAS_OK;
}

static void destroy_super(void *object)
{
    pgasi_super_destroy(object);
}

pgas_status_t pgasi_super_create(const pgas_pool_opts_t *opts, pgasi_super_t **super_p)
{
    return super_p ? pgasi_super_create_for(opts, destroy_super, NULL, super_p) : PGAS_ERR_INVALID;
}

/* ---- super-chunks ---- */

/* The system does not move pages that peers have touched, too. If no transport knows the pages they
 * are discarded, and allocated anew at the next touch. */
static void place(const pgasi_super_t *super, const chunk_t *chunk, int zone)
{
    size_t bytes = chunk->n_units * super->unit_bytes;
    if (super->zone < 0)
        return;
    if (zone >= 0 && !pgasi_tp && madvise(chunk->address, bytes, MADV_REMOVE) != 0)
        PGASI_DEBUG("mem", "pages of %zu bytes stay where they are: %s", bytes, strerror(errno));
    (void)pgasi_place_memory(chunk->address, bytes, zone);
}

static pgas_status_t make_chunk(pgasi_super_t *super, size_t n_units, chunk_t **chunk_p)
{
    chunk_t *chunk = calloc(1, sizeof *chunk);
    size_t *run = calloc(n_units, sizeof *run);
    uint64_t *bits = calloc(pgasi_bitmap_words(n_units), sizeof *bits), offset = 0;
    pgas_status_t status = chunk && run && bits ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK)
        status = pgasi_heap_take(n_units * super->unit_bytes, chunk_align(super), &offset);
    if (status != PGAS_OK) {
        free(chunk);
        free(run);
        free(bits);
        return status;
    }
    *chunk = (chunk_t){ .offset = offset,
                        .address = pgasi_segments[0].address + offset,
                        .n_units = n_units,
                        .n_free = n_units,
                        .run = run,
                        .used = bits };
    place(super, chunk, super->zone);
    *chunk_p = chunk;
    return PGAS_OK;
}

static void free_record(chunk_t *chunk)
{
    free(chunk->run);
    free(chunk->used);
    free(chunk);
}

static void free_chunk(pgasi_super_t *super, chunk_t *chunk)
{
    super->n_units -= chunk->n_units;
    super->n_chunks--;
    if (is_far(super)) {
        chunk->next = super->orphans;
        super->orphans = chunk;
        return;
    }
    place(super, chunk, -1);
    pgasi_heap_give(chunk->offset);
    pgasi_reg_owner_count(super->owner, -(int64_t)(chunk->n_units * super->unit_bytes));
    free_record(chunk);
}

/* Returns the number of units of the next super-chunk, if no more are needed. */
static size_t next_units(const pgasi_super_t *super)
{
    return super->exponential ? PGASI_MAX(super->grow_units, super->n_units) : super->grow_units;
}

static void append(pgasi_super_t *super, chunk_t *chunk)
{
    chunk_t **last = &super->chunks;
    while (*last)
        last = &(*last)->next;
    *last = chunk;
    super->n_chunks++;
    super->n_units += chunk->n_units;
    super->high_units = PGASI_MAX(super->high_units, super->n_units);
}

/* Makes one more super-chunk, of at least n units. It has fewer than planned where the limit or the
 * heap requires it. */
static chunk_t *grow(pgasi_super_t *super, size_t n)
{
    size_t room = super->max_units - super->n_units;
    if (n > room || is_far(super))
        return NULL;
    chunk_t *chunk = NULL;
    size_t want = PGASI_MIN(PGASI_MAX(next_units(super), n), room);
    while (make_chunk(super, want, &chunk) != PGAS_OK) {
        if (want == n)
            return NULL;
        want = PGASI_MAX(want / 2, n);
    }
    append(super, chunk);
    pgasi_reg_owner_count(super->owner, (int64_t)(want * super->unit_bytes));
    return chunk;
}

static void trim(pgasi_super_t *super)
{
    chunk_t **at = &super->chunks;
    while (*at) {
        chunk_t *chunk = *at;
        if (chunk->n_free < chunk->n_units) {
            at = &chunk->next;
            continue;
        }
        *at = chunk->next;
        free_chunk(super, chunk);
    }
}

void pgasi_super_trim(pgasi_super_t *super)
{
    pthread_mutex_lock(&super->lock);
    trim(super);
    pthread_mutex_unlock(&super->lock);
}

/* ---- super-chunks of another rank ---- */

size_t pgasi_super_growth(pgasi_super_t *super, size_t bytes, size_t *least_p)
{
    size_t n = PGASI_DIV_UP(bytes, super->unit_bytes);
    pthread_mutex_lock(&super->lock);
    size_t room = super->max_units - super->n_units,
           want = n > room ? 0 : PGASI_MIN(PGASI_MAX(next_units(super), n), room);
    pthread_mutex_unlock(&super->lock);
    *least_p = n * super->unit_bytes;
    return want * super->unit_bytes;
}

pgas_status_t pgasi_super_adopt(pgasi_super_t *super, pgas_gptr_t origin, pgas_gptr_t ptr,
                                size_t bytes)
{
    size_t n = bytes / super->unit_bytes;
    chunk_t *chunk = calloc(1, sizeof *chunk);
    size_t *run = calloc(n, sizeof *run);
    uint64_t *bits = calloc(pgasi_bitmap_words(n), sizeof *bits);
    pgas_status_t status = chunk && run && bits ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    pthread_mutex_lock(&super->lock);
    if (status == PGAS_OK && n > super->max_units - super->n_units)
        status = PGAS_ERR_LIMIT;
    if (status == PGAS_OK) {
        *chunk = (chunk_t){ .offset = pgas_gptr_offset(ptr) - PGASI_HEAP_OFFSET,
                            .address = pgas_gptr_local(ptr, bytes),
                            .origin = origin,
                            .n_units = n,
                            .n_free = n,
                            .run = run,
                            .used = bits };
        append(super, chunk);
    }
    pthread_mutex_unlock(&super->lock);
    if (status != PGAS_OK) {
        free(chunk);
        free(run);
        free(bits);
    }
    return status;
}

pgas_gptr_t pgasi_super_orphan(pgasi_super_t *super)
{
    pthread_mutex_lock(&super->lock);
    chunk_t *chunk = super->orphans;
    if (chunk)
        super->orphans = chunk->next;
    pthread_mutex_unlock(&super->lock);
    if (!chunk)
        return PGAS_NULL;
    pgas_gptr_t origin = chunk->origin;
    free_record(chunk);
    return origin;
}

void pgasi_super_abandon(pgasi_super_t *super)
{
    pthread_mutex_lock(&super->lock);
    while (super->chunks) {
        chunk_t *chunk = super->chunks;
        super->chunks = chunk->next;
        free_chunk(super, chunk);
    }
    pthread_mutex_unlock(&super->lock);
}

void pgasi_super_destroy(pgasi_super_t *super)
{
    if (!super)
        return;
    pgasi_super_abandon(super);
    while (pgasi_super_orphan(super))
        continue;
    leave(super);
    pthread_mutex_destroy(&super->lock);
    free(super);
}

/* ---- runs of units ---- */

/* Finds the first run of n free units; n_units: there is none. */
static size_t find_run(const chunk_t *chunk, size_t n)
{
    size_t at = pgasi_bitmap_find_clear(chunk->used, chunk->n_units, 0);
    while (at + n <= chunk->n_units) {
        size_t end = pgasi_bitmap_find_set(chunk->used, chunk->n_units, at);
        if (end - at >= n)
            return at;
        at = pgasi_bitmap_find_clear(chunk->used, chunk->n_units, end);
    }
    return chunk->n_units;
}

static void give_run(pgasi_super_t *super, chunk_t *chunk, size_t at, size_t n, size_t bytes,
                     pgas_block_t *block_p)
{
    for (size_t i = at; i < at + n; i++)
        pgasi_bitmap_set(chunk->used, i);
    chunk->run[at] = n;
    chunk->n_free -= n;
    super->used_units += n;
    super->n_blocks++;
    uint64_t inside = at * super->unit_bytes;
    *block_p = (pgas_block_t){ .address = chunk->address ? chunk->address + inside : NULL,
                               .ptr = pgas_gptr_make(super->rank,
                                                     PGASI_HEAP_OFFSET + chunk->offset + inside),
                               .bytes = bytes };
}

static bool find_and_give(pgasi_super_t *super, size_t n, size_t bytes, pgas_block_t *block_p)
{
    for (chunk_t *chunk = super->chunks; chunk; chunk = chunk->next) {
        size_t at = chunk->n_free >= n ? find_run(chunk, n) : chunk->n_units;
        if (at < chunk->n_units) {
            give_run(super, chunk, at, n, bytes, block_p);
            return true;
        }
    }
    return false;
}

/* Grows. If there is no room, it first returns super-chunks that are free and too small. Then the
 * pool of objects (src/mem/rma_blocks.c), which is itself quiet, returns memory that it keeps. */
static chunk_t *grow_or_trade(pgasi_super_t *super, size_t n)
{
    chunk_t *chunk = grow(super, n);
    if (chunk)
        return chunk;
    trim(super);
    chunk = grow(super, n);
    if (chunk || super->quiet || is_far(super) || n > super->max_units - super->n_units)
        return chunk;
    pgasi_rma_blocks_trim();
    return grow(super, n);
}

static pgas_status_t no_room(const pgasi_super_t *super, size_t bytes, bool some_out)
{
    if (some_out || is_far(super) || super->quiet) /* the caller then grows, or falls back */
        return PGAS_ERR_AGAIN;
    PGASI_ERROR("mem",
                "%s: a super-chunk of %zu bytes does not fit: PGAS_HEAP_SIZE=%" PRIu64
                "; raise PGAS_HEAP_SIZE",
                super->owner->name, bytes, pgasi_segments[0].bytes);
    return PGAS_ERR_NO_MEMORY;
}

pgas_status_t pgasi_super_check(pgasi_super_t *super, size_t bytes)
{
    if (!bytes)
        return PGAS_ERR_INVALID;
    if (bytes <= super->max_units * super->unit_bytes)
        return PGAS_OK;
    if (!__atomic_exchange_n(&super->has_logged_limit, true, __ATOMIC_RELAXED))
        PGASI_ERROR("mem",
                    "%s: a block of %zu bytes exceeds the allocator's limit of %zu; raise "
                    "max_bytes or PGAS_POOL_MAX",
                    super->owner->name, bytes, super->max_units * super->unit_bytes);
    return PGAS_ERR_LIMIT;
}

pgas_status_t pgasi_super_acquire(pgasi_super_t *super, size_t bytes, pgas_block_t *block_p)
{
    if (!super || !block_p)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_super_check(super, bytes);
    if (status != PGAS_OK)
        return status;
    size_t n = PGASI_DIV_UP(bytes, super->unit_bytes);
    pthread_mutex_lock(&super->lock);
    if (!find_and_give(super, n, bytes, block_p)) {
        chunk_t *chunk = grow_or_trade(super, n);
        if (chunk)
            give_run(super, chunk, 0, n, bytes, block_p);
        else
            status = no_room(super, bytes, super->n_blocks > 0);
    }
    pthread_mutex_unlock(&super->lock);
    return status;
}

pgas_status_t pgasi_super_take(pgasi_super_t *super, size_t bytes, bool some_out,
                               pgas_block_t *block_p)
{
    size_t n = PGASI_DIV_UP(bytes, super->unit_bytes);
    pgas_status_t status = PGAS_OK;
    pthread_mutex_lock(&super->lock);
    chunk_t *chunk = super->chunks;
    while (chunk && (chunk->n_free < chunk->n_units || chunk->n_units < n))
        chunk = chunk->next;
    if (!chunk)
        chunk = grow_or_trade(super, n);
    if (chunk)
        give_run(super, chunk, 0, chunk->n_units, chunk->n_units * super->unit_bytes, block_p);
    else
        status = no_room(super, bytes, some_out);
    pthread_mutex_unlock(&super->lock);
    return status;
}

pgas_status_t pgasi_super_release(pgasi_super_t *super, const pgas_block_t *block)
{
    if (!super || !block || pgas_gptr_rank(block->ptr) != super->rank)
        return PGAS_ERR_INVALID;
    uint64_t offset = pgas_gptr_offset(block->ptr) - PGASI_HEAP_OFFSET;
    pgas_status_t status = PGAS_ERR_INVALID;
    pthread_mutex_lock(&super->lock);
    chunk_t *chunk = super->chunks;
    while (chunk &&
           (offset < chunk->offset || offset - chunk->offset >= chunk->n_units * super->unit_bytes))
        chunk = chunk->next;
    size_t at = chunk ? (offset - chunk->offset) / super->unit_bytes : 0;
    if (chunk && (offset - chunk->offset) % super->unit_bytes == 0 && chunk->run[at]) {
        size_t n = chunk->run[at];
        for (size_t i = at; i < at + n; i++)
            pgasi_bitmap_clear(chunk->used, i);
        chunk->run[at] = 0;
        chunk->n_free += n;
        super->used_units -= n;
        super->n_blocks--;
        status = PGAS_OK;
    }
    pthread_mutex_unlock(&super->lock);
    return status;
}

pgas_status_t pgasi_super_info(pgasi_super_t *super, pgas_pool_info_t *info_p)
{
    if (!super || !info_p)
        return PGAS_ERR_INVALID;
    pthread_mutex_lock(&super->lock);
    size_t unit = super->unit_bytes;
    *info_p = (pgas_pool_info_t){
        .size = sizeof *info_p,
        .bytes = super->n_units * unit,
        .high_bytes = super->high_units * unit,
        .max_bytes = super->max_units * unit,
        .unit_bytes = unit,
        .used_bytes = super->used_units * unit,
        .n_blocks = super->n_blocks,
        .n_chunks = super->n_chunks,
        .zone = super->zone,
    };
    pthread_mutex_unlock(&super->lock);
    return PGAS_OK;
}

pgas_status_t pgasi_super_info_of(pgasi_super_t *super, size_t used_bytes, size_t n_blocks,
                                  pgas_pool_info_t *info_p)
{
    pgas_status_t status = pgasi_super_info(super, info_p);
    if (status == PGAS_OK) {
        info_p->used_bytes = used_bytes;
        info_p->n_blocks = n_blocks;
    }
    return status;
}

void pgasi_super_be_quiet(pgasi_super_t *super)
{
    super->quiet = true;
}

size_t pgasi_super_unit_bytes(const pgasi_super_t *super)
{
    return super->unit_bytes;
}
