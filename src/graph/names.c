/* The table of names: open addressing over numbers; the text of all names is one array. It is
 * shaped for 10^4 to 10^8 names of 5 to 60 bytes, each looked up some four times: a hit costs one
 * probe, one comparison of 32 bits of hash and one memcmp.
 *
 * Invariants: the slots are at most half full, so probing ends; numbers never change; the text only
 * grows. */
#include "graph/names.h"

#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/hash.h"

void *pgasi_grow(void *array, uint64_t *room_p, uint64_t n_needed, size_t elem_bytes)
{
    if (PGAS_LIKELY(n_needed <= *room_p))
        return array;
    uint64_t room = PGASI_MAX(PGASI_MAX(*room_p * 2, n_needed), 64);
    void *grown = room <= SIZE_MAX / 2 / elem_bytes ? realloc(array, room * elem_bytes) : NULL;
    if (grown)
        *room_p = room;
    return grown;
}

void pgasi_names_fini(pgasi_names_t *names)
{
    free(names->name);
    free(names->text);
    free(names->slot);
    pgasi_names_init(names);
}

uint64_t pgasi_names_hash(const char *text, size_t bytes)
{
    return pgasi_hash_bytes(text, bytes, 0);
}

/* The names of a rank have the same hash % n_ranks. Mixing again spreads them over its table. */
static uint32_t table_hash(uint64_t hash)
{
    return (uint32_t)(pgasi_hash_u64(hash) >> 32);
}

static void fill_slot(pgasi_names_t *names, uint32_t number)
{
    uint64_t mask = names->n_slots - 1, i = names->name[number].hash & mask;
    while (names->slot[i] != 0)
        i = (i + 1) & mask;
    names->slot[i] = number + 1;
}

static pgas_status_t rehash(pgasi_names_t *names)
{
    uint64_t n_slots = PGASI_MAX(names->n_slots * 2, 1024);
    uint32_t *slot = calloc(n_slots, sizeof *slot);
    if (!slot)
        return PGAS_ERR_NO_MEMORY;
    free(names->slot);
    names->slot = slot;
    names->n_slots = n_slots;
    for (uint32_t i = 0; i < names->n_names; i++)
        fill_slot(names, i);
    return PGAS_OK;
}

static pgas_status_t make_room(pgasi_names_t *names, size_t bytes)
{
    if (names->n_names >= PGASI_NAMES_MAX)
        return PGAS_ERR_LIMIT;
    void *name = pgasi_grow(names->name, &names->name_room, (uint64_t)names->n_names + 1,
                            sizeof *names->name);
    if (!name)
        return PGAS_ERR_NO_MEMORY;
    names->name = name;
    void *text = pgasi_grow(names->text, &names->text_room, names->text_bytes + bytes + 1, 1);
    if (!text)
        return PGAS_ERR_NO_MEMORY;
    names->text = text;
    return ((uint64_t)names->n_names + 1) * 2 > names->n_slots ? rehash(names) : PGAS_OK;
}

pgas_status_t pgasi_names_add(pgasi_names_t *names, const char *text, size_t bytes,
                              uint64_t full_hash, uint32_t *number_p)
{
    uint32_t hash = table_hash(full_hash);
    uint64_t mask = names->n_slots - 1;
    if (names->n_slots != 0) {
        for (uint64_t i = hash & mask; names->slot[i] != 0; i = (i + 1) & mask) {
            const pgasi_name_t *name = &names->name[names->slot[i] - 1];
            if (name->hash == hash && name->bytes == bytes &&
                memcmp(names->text + name->at, text, bytes) == 0) {
                *number_p = names->slot[i] - 1;
                return PGAS_OK;
            }
        }
    }
    pgas_status_t status = make_room(names, bytes);
    if (status != PGAS_OK)
        return status;
    names->name[names->n_names] = (pgasi_name_t){ names->text_bytes, (uint32_t)bytes, hash };
    memcpy(names->text + names->text_bytes, text, bytes);
    names->text_bytes += bytes;
    *number_p = names->n_names++;
    fill_slot(names, *number_p);
    return PGAS_OK;
}
