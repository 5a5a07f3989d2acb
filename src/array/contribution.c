/* Contributions: the values that caches have combined for a chunk. The home keeps them until all
 * pieces have arrived and the home's threads have left the chunk. */
#include "array/contribution.h"

#include <stdlib.h>
#include <string.h>

#include "array/array.h"
#include "base/op.h"
#include "array/registry.h"

#define SPARSE    (-1) /* as a source: all ranks without a line */
#define SPARE_MAX 64   /* buffers that are kept for reuse */

static pgasi_array_contribution_t *new_contribution(pgasi_array_t *a, uint64_t index, int source,
                                                    uint32_t op)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    pgasi_array_contribution_t *c = a->spare_contributions;
    if (c) {
        a->spare_contributions = c->next;
        a->n_spare_contributions--;
    } else {
        c = malloc(sizeof *c + a->stride);
    }
    if (!c)
        pgasi_array_broken(a, "no memory for contributions of",
                           a->peer[a->rank].grants[index].now.chunk, dir->state, 0);
    *c = (pgasi_array_contribution_t){
        .next = dir->contributions, .op = op, .source = source, .values = c->room
    };
    dir->contributions = c;
    return c;
}

static void free_contribution(pgasi_array_t *a, pgasi_array_contribution_t *c)
{
    if (a->n_spare_contributions == SPARE_MAX) {
        free(c);
        return;
    }
    c->next = a->spare_contributions;
    a->spare_contributions = c;
    a->n_spare_contributions++;
}

/* There is at most one, because a cache gets the chunk again only after the merge. */
static pgasi_array_contribution_t *coming_from(const pgasi_array_dir_t *dir, int source)
{
    pgasi_array_contribution_t *c = dir->contributions;
    while (c && c->source != source)
        c = c->next;
    return c;
}

void pgasi_array_contribution_piece(pgasi_array_t *a, uint64_t index, int source, uint32_t op,
                                    uint64_t offset, const void *data, size_t bytes)
{
    pgasi_array_contribution_t *c = coming_from(&a->dir[index], source);
    if (!c)
        c = new_contribution(a, index, source, op);
    if (offset <= a->stride && bytes <= a->stride - offset)
        memcpy(c->room + offset, data, bytes);
}

/* As a rule the values are merged before the message has been handled, so they stay in the
 * message. The program's operators may rely on alignment, so values that are not aligned are
 * copied. */
pgasi_array_contribution_t *pgasi_array_contribution_new(pgasi_array_t *a, uint64_t index,
                                                         int source, uint32_t op, const void *data,
                                                         size_t bytes)
{
    if (bytes > a->stride)
        return NULL;
    pgasi_array_contribution_t *c = new_contribution(a, index, source, op);
    bool aligned =
        (uintptr_t)data % PGASI_ARRAY_CONTRIBUTION_ALIGN == 0 || pgasi_op_is_built_in(op);
    c->values = aligned ? data : memcpy(c->room, data, bytes);
    return c;
}

/* Those of all sources are combined into one. */
void pgasi_array_contribution_add(pgasi_array_t *a, uint64_t index, uint32_t op,
                                  const pgas_op_def_t *def, uint32_t k, const void *operand)
{
    pgasi_array_contribution_t *c = coming_from(&a->dir[index], SPARSE);
    if (!c) {
        c = new_contribution(a, index, SPARSE, op);
        c->whole = true;
        pgasi_op_fill_identity(def, c->room, a->pub.mask + 1);
    }
    pgasi_op_combine_run(def, c->room + k * def->operand_bytes, operand, 1);
}

void pgasi_array_contributions_settle(pgasi_array_dir_t *dir, const void *data, size_t bytes)
{
    for (pgasi_array_contribution_t *c = dir->contributions; c; c = c->next) {
        if (c->values != data)
            continue;
        memcpy(c->room, data, bytes);
        c->values = c->room;
    }
}

void pgasi_array_contribution_is_whole(const pgasi_array_dir_t *dir, int source)
{
    pgasi_array_contribution_t *c = coming_from(dir, source);
    if (c)
        c->whole = true;
}

/* Contributions that are not whole stay: their pieces are still under way. */
void pgasi_array_contributions_merge(pgasi_array_t *a, uint64_t index)
{
    pgasi_array_dir_t *dir = &a->dir[index];
    pgasi_array_location_t loc = pgasi_array_locate_index(&a->map, a->rank, index);
    uint64_t k0 = loc.first & a->pub.mask;
    char *data = a->peer[a->rank].data + index * a->stride + k0 * a->pub.elem_bytes;
    for (pgasi_array_contribution_t **at = &dir->contributions, *c; (c = *at);) {
        if (!c->whole) {
            at = &c->next;
            continue;
        }
        const pgas_op_def_t *def = pgasi_op_find(c->op);
        if (!def)
            pgasi_array_broken(a, "unknown operator for", loc.chunk, dir->state, 0);
        pgasi_op_merge_run(def, data, c->values + k0 * def->operand_bytes, loc.n);
        *at = c->next;
        free_contribution(a, c);
    }
}

void pgasi_array_contributions_free(pgasi_array_t *a)
{
    for (uint64_t j = 0; a->dir && j < a->n_home; j++) {
        while (a->dir[j].contributions) {
            pgasi_array_contribution_t *c = a->dir[j].contributions;
            a->dir[j].contributions = c->next;
            free_contribution(a, c);
        }
    }
    while (a->spare_contributions) {
        pgasi_array_contribution_t *c = a->spare_contributions;
        a->spare_contributions = c->next;
        free(c);
    }
}
