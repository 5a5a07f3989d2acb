/* Blocks in units: bump allocation within a unit, which is reused as a whole once all of its blocks
 * are free.
 *
 * Shaped for small blocks that return in unknown order. In a ring a block that is held for long
 * delays all blocks acquired after it; here it delays its unit alone. A block has no record: a unit
 * counts the blocks that are out and keeps the greatest number with which one was retired. Units
 * are used in the order in which they became free. A block larger than a unit gets a run of units
 * of its own, which is returned at once.
 *
 * Invariant: a unit is current, or free (on that list), or busy: its blocks are out or wait for
 * completion. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "mem/regmem.h"

typedef struct unit {
    struct unit *next, *before; /* of the list on which it is, if any: free or waiting */
    pgas_block_t block;         /* in the super-chunk allocator */
    size_t bytes, head;         /* allocated part: from 0 to head */
    size_t n_out;               /* blocks neither released nor retired */
    size_t n_blocks;            /* since it was empty */
    uint64_t number;            /* the greatest number of a retired block */
    bool waits;                 /* it is on the list `waiting' */
    uint32_t index, phase;      /* phase: a number that changes when the unit becomes empty */
} unit_t;

typedef struct {
    unit_t *first, *last;
} list_t;

struct pgasi_linear {
    pgasi_super_t *super;
    unit_t *current;
    list_t free, waiting; /* waiting: no block is out, but the number is not complete */
    unit_t **units;       /* by index; NULL: index is free */
    uint32_t n_units, n_phases;
    uint64_t completed;
    size_t unit_bytes, alignment, used_bytes, n_blocks;
};

static void append(list_t *list, unit_t *u)
{
    u->next = NULL;
    u->before = list->last;
    *(list->last ? &list->last->next : &list->first) = u;
    list->last = u;
}

static void unlink_unit(list_t *list, unit_t *u)
{
    *(u->before ? &u->before->next : &list->first) = u->next;
    *(u->next ? &u->next->before : &list->last) = u->before;
    u->next = u->before = NULL;
}

static void begin_wait(pgasi_linear_t *l, unit_t *u)
{
    append(&l->waiting, u);
    u->waits = true;
}

static void end_wait(pgasi_linear_t *l, unit_t *u)
{
    unlink_unit(&l->waiting, u);
    u->waits = false;
}

static void destroy_linear(void *object)
{
    pgasi_linear_destroy(object);
}

pgas_status_t pgasi_linear_create(const pgas_pool_opts_t *opts, pgasi_linear_t **linear_p)
{
    if (!linear_p)
        return PGAS_ERR_INVALID;
    pgasi_linear_t *l = calloc(1, sizeof *l);
    pgas_status_t status =
        l ? pgasi_super_create_for(opts, destroy_linear, l, &l->super) : PGAS_ERR_NO_MEMORY;
    if (status != PGAS_OK) {
        free(l);
        return status;
    }
    l->unit_bytes = pgasi_super_unit_bytes(l->super);
    l->alignment = pgasi_regmem_alignment(opts);
    *linear_p = l;
    return PGAS_OK;
}

void pgasi_linear_destroy(pgasi_linear_t *l)
{
    if (!l)
        return;
    for (uint32_t i = 0; i < l->n_units; i++)
        free(l->units[i]);
    free(l->units);
    pgasi_super_destroy(l->super);
    free(l);
}

/* ---- units come and go ---- */

/* Finds room for one more unit in the table; n_units: there is no memory for it. */
static uint32_t find_index(pgasi_linear_t *l)
{
    for (uint32_t i = 0; i < l->n_units; i++)
        if (!l->units[i])
            return i;
    uint32_t n = PGASI_MAX(2 * l->n_units, 16);
    unit_t **units = realloc(l->units, n * sizeof *units);
    if (!units)
        return l->n_units;
    memset(units + l->n_units, 0, (n - l->n_units) * sizeof *units);
    l->units = units;
    uint32_t index = l->n_units;
    l->n_units = n;
    return index;
}

static pgas_status_t add_unit(pgasi_linear_t *l, size_t bytes, unit_t **unit_p)
{
    unit_t *u = calloc(1, sizeof *u);
    uint32_t index = u ? find_index(l) : 0;
    if (!u || index == l->n_units) {
        free(u);
        return PGAS_ERR_NO_MEMORY;
    }
    pgas_status_t status = pgasi_super_acquire(l->super, bytes, &u->block);
    if (status != PGAS_OK) {
        free(u);
        return status;
    }
    u->bytes = PGASI_ALIGN_UP(bytes, l->alignment);
    u->index = index;
    u->phase = ++l->n_phases;
    l->units[index] = u;
    *unit_p = u;
    return PGAS_OK;
}

static void drop_unit(pgasi_linear_t *l, unit_t *u)
{
    l->units[u->index] = NULL;
    pgasi_super_release(l->super, &u->block);
    free(u);
}

/* Makes a unit free: all of its blocks are free, and it is on no list. */
static void empty(pgasi_linear_t *l, unit_t *u)
{
    l->used_bytes -= u->head;
    l->n_blocks -= u->n_blocks;
    u->head = u->n_blocks = 0;
    u->number = 0;
    u->phase = ++l->n_phases;
    if (u == l->current)
        return;
    if (u->bytes > l->unit_bytes)
        drop_unit(l, u);
    else
        append(&l->free, u);
}

/* Finds a unit with room for a block that fits into a unit. */
static pgas_status_t turn(pgasi_linear_t *l, bool grow)
{
    unit_t *u = l->free.first;
    if (u)
        unlink_unit(&l->free, u);
    else if (!grow)
        return PGAS_ERR_AGAIN;
    pgas_status_t status = u ? PGAS_OK : add_unit(l, l->unit_bytes, &u);
    if (status == PGAS_OK)
        l->current = u;
    return status;
}

/* ---- blocks ---- */

static void give(pgasi_linear_t *l, unit_t *u, size_t room, size_t bytes, pgas_block_t *block_p)
{
    *block_p = (pgas_block_t){ .address = (char *)u->block.address + u->head,
                               .ptr = u->block.ptr + u->head,
                               .bytes = bytes,
                               .ticket = (uint64_t)u->phase << 32 | u->index };
    if (PGAS_UNLIKELY(u->waits))
        end_wait(l, u);
    u->head += room;
    u->n_out++;
    u->n_blocks++;
    l->used_bytes += room;
    l->n_blocks++;
}

static void drop_empty(pgasi_linear_t *l)
{
    while (l->free.first) {
        unit_t *u = l->free.first;
        unlink_unit(&l->free, u);
        drop_unit(l, u);
    }
    if (l->current && !l->current->n_blocks) {
        drop_unit(l, l->current);
        l->current = NULL;
    }
}

/* Empty units may prevent a longer run. */
static pgas_status_t add_large(pgasi_linear_t *l, size_t bytes, unit_t **unit_p)
{
    pgas_status_t status = add_unit(l, bytes, unit_p);
    if (status != PGAS_ERR_AGAIN)
        return status;
    drop_empty(l);
    return add_unit(l, bytes, unit_p);
}

pgas_status_t pgasi_linear_try(pgasi_linear_t *l, size_t bytes, bool grow, pgas_block_t *block_p)
{
    pgas_status_t status = PGAS_OK;
    size_t room = PGASI_ALIGN_UP(bytes, l->alignment);
    unit_t *u = l->current;
    if (PGAS_UNLIKELY(room > l->unit_bytes)) {
        status = grow ? add_large(l, room, &u) : PGAS_ERR_AGAIN;
    } else if (PGAS_UNLIKELY(!u || u->bytes - u->head < room)) {
        status = turn(l, grow);
        u = l->current;
    }
    if (status == PGAS_OK)
        give(l, u, room, bytes, block_p);
    return status;
}

pgas_status_t pgasi_linear_acquire(pgasi_linear_t *l, size_t bytes, pgas_block_t *block_p)
{
    if (!l || !block_p)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_super_check(l->super, bytes);
    return status == PGAS_OK ? pgasi_linear_try(l, bytes, true, block_p) : status;
}

pgasi_super_t *pgasi_linear_super(const pgasi_linear_t *l)
{
    return l->super;
}

pgas_status_t pgasi_linear_retire(pgasi_linear_t *l, const pgas_block_t *block, uint64_t number)
{
    if (!l || !block || number == UINT64_MAX)
        return PGAS_ERR_INVALID;
    uint32_t index = (uint32_t)block->ticket;
    unit_t *u = index < l->n_units ? l->units[index] : NULL;
    if (!u || u->phase != (uint32_t)(block->ticket >> 32) || !u->n_out ||
        block->ptr - u->block.ptr >= u->head)
        return PGAS_ERR_INVALID;
    u->number = PGASI_MAX(u->number, number);
    if (--u->n_out)
        return PGAS_OK;
    if (u->number <= l->completed)
        empty(l, u);
    else
        begin_wait(l, u);
    return PGAS_OK;
}

pgas_status_t pgasi_linear_release(pgasi_linear_t *l, const pgas_block_t *block)
{
    return pgasi_linear_retire(l, block, 0);
}

void pgasi_linear_complete(pgasi_linear_t *l, uint64_t number)
{
    if (number <= l->completed || number == UINT64_MAX)
        return;
    l->completed = number;
    for (unit_t *u = l->waiting.first, *next; u; u = next) {
        next = u->next;
        if (u->number > number)
            continue;
        end_wait(l, u);
        empty(l, u);
    }
}

void pgasi_linear_settle(pgasi_linear_t *l)
{
    while (l->waiting.first) {
        unit_t *u = l->waiting.first;
        end_wait(l, u);
        empty(l, u);
    }
    for (uint32_t i = 0; i < l->n_units; i++)
        if (l->units[i])
            l->units[i]->number = 0;
    l->completed = 0;
}

bool pgasi_linear_waits(const pgasi_linear_t *l)
{
    return l->waiting.first != NULL;
}

void pgasi_linear_trim(pgasi_linear_t *l)
{
    drop_empty(l);
    pgasi_super_trim(l->super);
}

pgas_status_t pgasi_linear_info(pgasi_linear_t *l, pgas_pool_info_t *info_p)
{
    return l ? pgasi_super_info_of(l->super, l->used_bytes, l->n_blocks, info_p) : PGAS_ERR_INVALID;
}
