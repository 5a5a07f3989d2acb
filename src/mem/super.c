/* Super-chunks and their units: the base of all allocators of registered memory.
 *
 * Shaped for few, large super-chunks (a handful with exponential growth) that are taken once and
 * kept. One lock per allocator protects everything, units are bits, and runs of units are found
 * first fit. A super-chunk is whole pages of the heap, so that it can be placed in a NUMA zone;
 * before its pages return to the heap they lose their place. Records are outside of the memory. */
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
#include "mem/segment.h"
#include "mem/thread.h"

typedef struct chunk {
    struct chunk *next; /* in the order of growth */
    uint64_t offset;    /* in the heap */
    char *address;
    size_t n_units, n_free;
    size_t *run;    /* units of the run that starts at a unit */
    uint64_t *used; /* bits of units */
} chunk_t;

struct pgas_super {
    pgas_super_t *next; /* list of all allocators of the rank */
    pthread_mutex_t lock;
    chunk_t *chunks;
    size_t unit_bytes, max_units, grow_units;
    size_t n_units, high_units, used_units, n_blocks, n_chunks;
    bool exponential, has_logged_limit;
    int zone; /* -1: not placed */
    pgas_reg_owner_t *owner;
    void (*destroy)(void *object);
    void *object;
};

static struct {
    pthread_mutex_t lock;
    pgas_super_t *first;
} supers = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- the list of all ---- */

static void enter(pgas_super_t *super, const char *owner)
{
    super->owner = pgasi_reg_owner_enter(owner, super->max_units * super->unit_bytes);
    pthread_mutex_lock(&supers.lock);
    super->next = supers.first;
    supers.first = super;
    pthread_mutex_unlock(&supers.lock);
}

static void leave(pgas_super_t *super)
{
    pgasi_reg_owner_leave(super->owner, super->max_units * super->unit_bytes);
    pthread_mutex_lock(&supers.lock);
    pgas_super_t **at = &supers.first;
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

static pgas_status_t check_opts(const pgas_regmem_opts_t *o)
{
    bool good = (unsigned)o->growth <= PGAS_GROWTH_LINEAR && o->zone >= PGAS_ZONE_NONE &&
                (o->alignment == 0 || (PGASI_IS_POW2(o->alignment) && o->alignment <= 4096)) &&
                o->max_bytes <= PGAS_OFFSET_MAX && o->unit_bytes <= PGAS_OFFSET_MAX;
    if (!good)
        return PGAS_ERR_INVALID;
    return o->zone > 0 && o->zone > pgasi_place_n_zones() ? PGAS_ERR_NOT_FOUND : PGAS_OK;
}

static pgas_status_t check_limit(const pgas_regmem_opts_t *o)
{
    size_t unit = o->unit_bytes ? o->unit_bytes : pgasi_param.reg_unit,
           max = o->max_bytes ? o->max_bytes : pgasi_param.reg_max;
    if (unit <= max)
        return PGAS_OK;
    PGASI_ERROR("mem",
                "registered memory for %s: units of %zu bytes (PGAS_REG_UNIT) exceed the limit of "
                "%zu (PGAS_REG_MAX)",
                o->owner ? o->owner : "program", unit, max);
    return PGAS_ERR_LIMIT;
}

int pgasi_super_choose_zone(int zone)
{
    int cpu, numa = -1;
    bool bound;
    if (zone == PGAS_ZONE_NONE || pgasi_place_n_zones() == 1)
        return -1;
    if (zone == PGAS_ZONE_OWN)
        return pgasi_place_query(&cpu, &numa, &bound) == PGAS_OK ? numa : -1;
    return zone - 1;
}

static void set_growth(pgas_super_t *super, const pgas_regmem_opts_t *o)
{
    size_t max_bytes = o->max_bytes ? o->max_bytes : pgasi_param.reg_max;
    super->unit_bytes =
        PGASI_ALIGN_UP(o->unit_bytes ? o->unit_bytes : pgasi_param.reg_unit, pgasi_heap_page_bytes);
    super->max_units = PGASI_MAX(max_bytes / super->unit_bytes, 1);
    super->grow_units = PGASI_MIN(o->grow_units ? o->grow_units : 1, super->max_units);
    super->exponential = o->growth == PGAS_GROWTH_DEFAULT
                             ? pgasi_param.reg_growth == PGASI_REG_GROWTH_EXPONENTIAL
                             : o->growth == PGAS_GROWTH_EXPONENTIAL;
}

/* Reads options that may be of an older, shorter version. */
static pgas_status_t read_opts(const pgas_regmem_opts_t *opts, pgas_regmem_opts_t *o)
{
    if (!PGASI_OPTS_SANE(opts, sizeof *opts))
        return PGAS_ERR_INVALID;
    memset(o, 0, sizeof *o);
    if (opts)
        *o = *opts;
    return check_opts(o);
}

size_t pgasi_regmem_alignment(const pgas_regmem_opts_t *opts)
{
    return opts && opts->alignment ? opts->alignment : PGASI_REG_ALIGN;
}

pgas_status_t pgasi_super_create(const pgas_regmem_opts_t *opts, void (*destroy)(void *object),
                                 void *object, pgas_super_t **super_p)
{
    pgas_regmem_opts_t o;
    pgas_status_t status = pgasi_thread_check();
    if (status == PGAS_OK)
        status = read_opts(opts, &o);
    if (status != PGAS_OK)
        return status;
    status = check_limit(&o);
    if (status != PGAS_OK)
        return status;
    pgas_super_t *super = calloc(1, sizeof *super);
    if (!super)
        return PGAS_ERR_NO_MEMORY;
    pthread_mutex_init(&super->lock, NULL);
    set_growth(super, &o);
    super->zone = pgasi_super_choose_zone(o.zone);
    super->destroy = destroy;
    super->object = object ? object : super;
    enter(super, o.owner && *o.owner ? o.owner : "program");
    *super_p = super;
    return PGAS_OK;
}

static void destroy_super(void *object)
{
    pgas_super_destroy(object);
}

pgas_status_t pgas_super_create(const pgas_regmem_opts_t *opts, pgas_super_t **super_p)
{
    return super_p ? pgasi_super_create(opts, destroy_super, NULL, super_p) : PGAS_ERR_INVALID;
}

/* ---- super-chunks ---- */

/* The system does not move pages that peers have touched, too. If no transport knows the pages they
 * are discarded, and allocated anew at the next touch. */
static void place(const pgas_super_t *super, const chunk_t *chunk, int zone)
{
    size_t bytes = chunk->n_units * super->unit_bytes;
    if (super->zone < 0)
        return;
    if (zone >= 0 && !pgasi_tp && madvise(chunk->address, bytes, MADV_REMOVE) != 0)
        PGASI_DEBUG("mem", "pages of %zu bytes stay where they are: %s", bytes, strerror(errno));
    (void)pgasi_place_memory(chunk->address, bytes, zone);
}

static pgas_status_t make_chunk(pgas_super_t *super, size_t n_units, chunk_t **chunk_p)
{
    chunk_t *chunk = calloc(1, sizeof *chunk);
    size_t *run = calloc(n_units, sizeof *run);
    uint64_t *bits = calloc(pgasi_bitmap_words(n_units), sizeof *bits), offset = 0;
    pgas_status_t status = chunk && run && bits ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK)
        status = pgasi_heap_take(n_units * super->unit_bytes, pgasi_heap_page_bytes, &offset);
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

static void free_chunk(pgas_super_t *super, chunk_t *chunk)
{
    place(super, chunk, -1);
    pgasi_heap_give(chunk->offset);
    super->n_units -= chunk->n_units;
    super->n_chunks--;
    pgasi_reg_owner_count(super->owner, -(int64_t)(chunk->n_units * super->unit_bytes));
    free(chunk->run);
    free(chunk->used);
    free(chunk);
}

/* Returns the number of units of the next super-chunk, if no more are needed. */
static size_t next_units(const pgas_super_t *super)
{
    return super->exponential ? PGASI_MAX(super->grow_units, super->n_units) : super->grow_units;
}

/* Makes one more super-chunk, of at least n units. It has fewer than planned where the limit or the
 * heap requires it. */
static chunk_t *grow(pgas_super_t *super, size_t n)
{
    size_t room = super->max_units - super->n_units;
    if (n > room)
        return NULL;
    chunk_t *chunk = NULL, **last = &super->chunks;
    size_t want = PGASI_MIN(PGASI_MAX(next_units(super), n), room);
    while (make_chunk(super, want, &chunk) != PGAS_OK) {
        if (want == n)
            return NULL;
        want = PGASI_MAX(want / 2, n);
    }
    while (*last)
        last = &(*last)->next;
    *last = chunk;
    super->n_chunks++;
    super->n_units += want;
    super->high_units = PGASI_MAX(super->high_units, super->n_units);
    pgasi_reg_owner_count(super->owner, (int64_t)(want * super->unit_bytes));
    return chunk;
}

static void trim(pgas_super_t *super)
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

void pgas_super_trim(pgas_super_t *super)
{
    pthread_mutex_lock(&super->lock);
    trim(super);
    pthread_mutex_unlock(&super->lock);
}

void pgas_super_destroy(pgas_super_t *super)
{
    if (!super)
        return;
    while (super->chunks) {
        chunk_t *chunk = super->chunks;
        super->chunks = chunk->next;
        free_chunk(super, chunk);
    }
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

static void give_run(pgas_super_t *super, chunk_t *chunk, size_t at, size_t n, size_t bytes,
                     pgas_block_t *block_p)
{
    for (size_t i = at; i < at + n; i++)
        pgasi_bitmap_set(chunk->used, i);
    chunk->run[at] = n;
    chunk->n_free -= n;
    super->used_units += n;
    super->n_blocks++;
    uint64_t inside = at * super->unit_bytes;
    *block_p = (pgas_block_t){ .address = chunk->address + inside,
                               .ptr = pgas_gptr_make(pgasi_boot.rank,
                                                     PGASI_HEAP_OFFSET + chunk->offset + inside),
                               .bytes = bytes,
                               .peer = -1 };
}

static bool find_and_give(pgas_super_t *super, size_t n, size_t bytes, pgas_block_t *block_p)
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

/* Grows, if necessary after it has returned super-chunks that are free and too small. */
static chunk_t *grow_or_trade(pgas_super_t *super, size_t n)
{
    chunk_t *chunk = grow(super, n);
    if (!chunk) {
        trim(super);
        chunk = grow(super, n);
    }
    return chunk;
}

static pgas_status_t no_room(const pgas_super_t *super, size_t bytes, bool some_out)
{
    if (some_out)
        return PGAS_ERR_AGAIN;
    PGASI_ERROR("mem",
                "%s: a super-chunk of %zu bytes does not fit: PGAS_HEAP_SIZE=%" PRIu64
                "; raise PGAS_HEAP_SIZE",
                super->owner->name, bytes, pgasi_segments[0].bytes);
    return PGAS_ERR_NO_MEMORY;
}

pgas_status_t pgasi_super_check(pgas_super_t *super, size_t bytes)
{
    if (!bytes)
        return PGAS_ERR_INVALID;
    if (bytes <= super->max_units * super->unit_bytes)
        return PGAS_OK;
    if (!__atomic_exchange_n(&super->has_logged_limit, true, __ATOMIC_RELAXED))
        PGASI_ERROR("mem",
                    "%s: a block of %zu bytes exceeds the allocator's limit of %zu; raise "
                    "max_bytes or PGAS_REG_MAX",
                    super->owner->name, bytes, super->max_units * super->unit_bytes);
    return PGAS_ERR_LIMIT;
}

pgas_status_t pgas_super_acquire(pgas_super_t *super, size_t bytes, pgas_block_t *block_p)
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

pgas_status_t pgasi_super_take(pgas_super_t *super, size_t bytes, bool some_out,
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

pgas_status_t pgas_super_release(pgas_super_t *super, const pgas_block_t *block)
{
    if (!super || !block || pgas_gptr_rank(block->ptr) != pgasi_boot.rank)
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

pgas_status_t pgas_super_info(pgas_super_t *super, pgas_regmem_info_t *info_p)
{
    if (!super || !info_p)
        return PGAS_ERR_INVALID;
    pthread_mutex_lock(&super->lock);
    size_t unit = super->unit_bytes;
    *info_p = (pgas_regmem_info_t){
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

pgas_status_t pgasi_super_info(pgas_super_t *super, size_t used_bytes, size_t n_blocks,
                               pgas_regmem_info_t *info_p)
{
    pgas_status_t status = pgas_super_info(super, info_p);
    if (status == PGAS_OK) {
        info_p->used_bytes = used_bytes;
        info_p->n_blocks = n_blocks;
    }
    return status;
}

size_t pgasi_super_unit_bytes(const pgas_super_t *super)
{
    return super->unit_bytes;
}
