/* Names of locks and objects: see named.h. */
#include "object/named.h"

#include <stdbool.h>
#include <stdlib.h>

#define INDEX_BITS  20
#define GENERATIONS (1u << 24)

static pgas_status_t make_room(pgasi_named_t *t)
{
    if (t->first_free || t->n < t->room)
        return PGAS_OK;
    if (t->n == PGASI_NAMED_MAX)
        return PGAS_ERR_LIMIT;
    uint32_t room = t->room ? 2 * t->room : 16;
    pgasi_named_entry_t *grown = realloc(t->entry, room * sizeof *grown);
    if (!grown)
        return PGAS_ERR_NO_MEMORY;
    t->entry = grown;
    t->room = room;
    return PGAS_OK;
}

pgas_status_t pgasi_named_add(pgasi_named_t *t, int rank, void *thing, uint64_t *name_p)
{
    pgas_status_t status = make_room(t);
    if (status != PGAS_OK)
        return status;
    uint32_t index = t->first_free ? t->first_free - 1 : t->n++;
    pgasi_named_entry_t *e = &t->entry[index];
    if (t->first_free)
        t->first_free = e->next_free;
    else
        e->generation = 0;
    bool next = e->generation && e->generation + 2 < GENERATIONS;
    e->generation = next ? e->generation + 2 : t->kind;
    e->thing = thing;
    *name_p = pgasi_named_name(t, rank, index);
    return PGAS_OK;
}

uint64_t pgasi_named_name(const pgasi_named_t *t, int rank, uint32_t index)
{
    return (uint64_t)rank << 44 | (uint64_t)t->entry[index].generation << INDEX_BITS | index;
}

static pgasi_named_entry_t *entry_of(const pgasi_named_t *t, uint64_t name)
{
    uint32_t index = (uint32_t)(name & (PGASI_NAMED_MAX - 1));
    uint32_t generation = (uint32_t)(name >> INDEX_BITS) % GENERATIONS;
    if (index >= t->n || !t->entry[index].thing || t->entry[index].generation != generation)
        return NULL;
    return &t->entry[index];
}

void *pgasi_named_find(const pgasi_named_t *t, uint64_t name)
{
    const pgasi_named_entry_t *e = entry_of(t, name);
    return e ? e->thing : NULL;
}

void pgasi_named_remove(pgasi_named_t *t, uint64_t name)
{
    pgasi_named_entry_t *e = entry_of(t, name);
    if (!e)
        return;
    e->thing = NULL;
    e->next_free = t->first_free;
    t->first_free = (uint32_t)(e - t->entry) + 1;
}

void pgasi_named_clear(pgasi_named_t *t, void (*release)(void *thing))
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->entry[i].thing)
            release(t->entry[i].thing);
    free(t->entry);
    t->entry = NULL;
    t->n = t->room = t->first_free = 0;
}
