/* Blocks in a ring: acquired at the head, free again from the tail on.
 *
 * Shaped for buffers of 64 bytes to some MiB that one thread fills, sends, and reuses once they are
 * sent, some millions a second. Records of 32 bytes are in a ring of their own, in the order of
 * acquisition; a block's ticket is its position there. The memory is a few regions, each a
 * super-chunk and a ring by itself. The head continues at the region's beginning once the tail has
 * left that, and otherwise in another region that has room.
 *
 * Invariant: the blocks of a region are between its tail and its head, in the order of records,
 * with no gap except behind wrap_end. So a block is freed by moving its region's tail to its end. A
 * record's number says when it is free: HELD until the block is retired, 0 when it is released. At
 * the tail all records with numbers up to `completed` are removed. */
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "mem/regmem.h"

#define HELD          UINT64_MAX
#define RECORDS_FIRST 64

typedef struct region {
    struct region *next;
    pgas_block_t block; /* the super-chunk */
    size_t bytes, head, tail, wrap_end, n_live;
    bool wrapped; /* head is below tail: blocks are in [tail, wrap_end) and [0, head) */
} region_t;

typedef struct {
    region_t *region;
    size_t end;   /* of the block, in the region */
    size_t bytes; /* rounded */
    uint64_t number;
} record_t;

struct pgasi_circular {
    pgasi_super_t *super;
    region_t *regions;
    region_t *head; /* where the last block was placed */
    record_t *records;
    uint64_t first, last; /* tickets of the oldest block, and of the next */
    uint64_t n_records;   /* a power of two */
    uint64_t completed;
    size_t alignment, used_bytes;
};

static record_t *record(const pgasi_circular_t *c, uint64_t ticket)
{
    return &c->records[ticket & (c->n_records - 1)];
}

static void destroy_circular(void *object)
{
    pgasi_circular_destroy(object);
}

pgas_status_t pgasi_circular_create(const pgas_pool_opts_t *opts, pgasi_circular_t **circular_p)
{
    if (!circular_p)
        return PGAS_ERR_INVALID;
    pgasi_circular_t *c = calloc(1, sizeof *c);
    record_t *records = calloc(RECORDS_FIRST, sizeof *records);
    pgas_status_t status = c && records
                               ? pgasi_super_create_for(opts, destroy_circular, c, &c->super)
                               : PGAS_ERR_NO_MEMORY;
    if (status != PGAS_OK) {
        free(records);
        free(c);
        return status;
    }
    c->records = records;
    c->n_records = RECORDS_FIRST;
    c->alignment = pgasi_regmem_alignment(opts);
    *circular_p = c;
    return PGAS_OK;
}

void pgasi_circular_destroy(pgasi_circular_t *c)
{
    if (!c)
        return;
    for (region_t *r = c->regions, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    pgasi_super_destroy(c->super);
    free(c->records);
    free(c);
}

/* ---- acquiring ---- */

static bool double_records(pgasi_circular_t *c)
{
    record_t *records = calloc(2 * c->n_records, sizeof *records);
    if (!records)
        return false;
    for (uint64_t t = c->first; t != c->last; t++)
        records[t & (2 * c->n_records - 1)] = *record(c, t);
    free(c->records);
    c->records = records;
    c->n_records *= 2;
    return true;
}

static bool place(region_t *r, size_t bytes, size_t *at_p)
{
    if (!r->n_live) {
        r->head = r->tail = 0;
        r->wrapped = false;
    }
    size_t end = r->wrapped ? r->tail : r->bytes;
    if (end - r->head < bytes) {
        if (r->wrapped || r->tail < bytes)
            return false;
        r->wrap_end = r->head;
        r->wrapped = true;
        r->head = 0;
    }
    *at_p = r->head;
    r->head += bytes;
    r->n_live++;
    return true;
}

static bool place_anywhere(pgasi_circular_t *c, size_t bytes, size_t *at_p)
{
    if (PGAS_LIKELY(c->head && place(c->head, bytes, at_p)))
        return true;
    for (region_t *r = c->regions; r; r = r->next) {
        if (place(r, bytes, at_p)) {
            c->head = r;
            return true;
        }
    }
    return false;
}

static pgas_status_t add_region(pgasi_circular_t *c, size_t bytes, bool some_out)
{
    region_t *r = calloc(1, sizeof *r);
    if (!r)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgasi_super_take(c->super, bytes, some_out, &r->block);
    if (status != PGAS_OK) {
        free(r);
        return status;
    }
    r->bytes = r->block.bytes;
    r->next = c->regions;
    c->regions = c->head = r;
    return PGAS_OK;
}

/* Returns empty regions to the super-chunk allocator. */
static void drop_empty(pgasi_circular_t *c)
{
    region_t **at = &c->regions;
    while (*at) {
        region_t *r = *at;
        if (r->n_live) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        pgasi_super_release(c->super, &r->block);
        free(r);
    }
    c->head = c->regions;
}

static pgas_status_t grow(pgasi_circular_t *c, size_t bytes)
{
    pgas_status_t status = add_region(c, bytes, true);
    if (status != PGAS_ERR_AGAIN)
        return status;
    drop_empty(c); /* each of them is too small by itself */
    return add_region(c, bytes, c->first != c->last);
}

pgas_status_t pgasi_circular_try(pgasi_circular_t *c, size_t bytes, bool may_grow,
                                 pgas_block_t *block_p)
{
    size_t at, room = PGASI_ALIGN_UP(bytes, c->alignment);
    pgas_status_t status = PGAS_OK;
    if (PGAS_UNLIKELY(c->last - c->first == c->n_records && !double_records(c)))
        return PGAS_ERR_NO_MEMORY;
    if (PGAS_UNLIKELY(!place_anywhere(c, room, &at))) {
        status = may_grow ? grow(c, room) : PGAS_ERR_AGAIN;
        if (status != PGAS_OK)
            return status;
        (void)place(c->head, room, &at);
    }
    *record(c, c->last) = (record_t){ c->head, at + room, room, HELD };
    c->used_bytes += room;
    *block_p = (pgas_block_t){ .address = (char *)c->head->block.address + at,
                               .ptr = c->head->block.ptr + at,
                               .bytes = bytes,
                               .ticket = c->last++ };
    return PGAS_OK;
}

pgasi_super_t *pgasi_circular_super(const pgasi_circular_t *c)
{
    return c->super;
}

pgas_status_t pgasi_circular_acquire(pgasi_circular_t *c, size_t bytes, pgas_block_t *block_p)
{
    if (!c || !block_p)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_super_check(c->super, bytes);
    return status == PGAS_OK ? pgasi_circular_try(c, bytes, true, block_p) : status;
}

/* ---- retiring and releasing ---- */

static void pop(pgasi_circular_t *c)
{
    const record_t *oldest = record(c, c->first++);
    region_t *r = oldest->region;
    r->tail = oldest->end;
    if (r->wrapped && r->tail == r->wrap_end) {
        r->tail = 0;
        r->wrapped = false;
    }
    r->n_live--;
    c->used_bytes -= oldest->bytes;
}

static void pop_complete(pgasi_circular_t *c)
{
    while (c->first != c->last && record(c, c->first)->number <= c->completed)
        pop(c);
}

pgas_status_t pgasi_circular_retire(pgasi_circular_t *c, const pgas_block_t *block, uint64_t number)
{
    if (!c || !block || number == HELD)
        return PGAS_ERR_INVALID;
    if (block->ticket - c->first >= c->last - c->first)
        return PGAS_ERR_INVALID;
    record_t *r = record(c, block->ticket);
    if (r->number != HELD || block->ptr != r->region->block.ptr + (r->end - r->bytes))
        return PGAS_ERR_INVALID;
    r->number = number;
    if (block->ticket == c->first)
        pop_complete(c);
    return PGAS_OK;
}

pgas_status_t pgasi_circular_release(pgasi_circular_t *c, const pgas_block_t *block)
{
    return pgasi_circular_retire(c, block, 0);
}

void pgasi_circular_complete(pgasi_circular_t *c, uint64_t number)
{
    if (number <= c->completed || number == HELD)
        return;
    c->completed = number;
    pop_complete(c);
}

void pgasi_circular_settle(pgasi_circular_t *c)
{
    for (uint64_t t = c->first; t != c->last; t++)
        if (record(c, t)->number != HELD)
            record(c, t)->number = 0;
    pop_complete(c);
    c->completed = 0;
}

bool pgasi_circular_waits(const pgasi_circular_t *c)
{
    return c->first != c->last && record(c, c->first)->number != HELD;
}

void pgasi_circular_trim(pgasi_circular_t *c)
{
    drop_empty(c);
    pgasi_super_trim(c->super);
}

pgas_status_t pgasi_circular_info(pgasi_circular_t *c, pgas_pool_info_t *info_p)
{
    return c ? pgasi_super_info_of(c->super, c->used_bytes, c->last - c->first, info_p)
             : PGAS_ERR_INVALID;
}
