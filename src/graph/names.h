/** A table of distinct names. They are numbered 0, 1, 2 .. in the order in which they are added.
 *  One thread at a time. */
#ifndef PGASI_GRAPH_NAMES_H
#define PGASI_GRAPH_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

#define PGASI_NAMES_MAX (UINT32_MAX - 1)

typedef struct {
    uint64_t at; /* in text */
    uint32_t bytes;
    uint32_t hash; /* the part that the table compares first */
} pgasi_name_t;

typedef struct {
    pgasi_name_t *name;
    char *text;     /* of all names, one after the other */
    uint32_t *slot; /* number + 1; 0: free. Linear probing; at most half of them are in use */
    uint32_t n_names;
    uint64_t name_room, text_bytes, text_room;
    uint64_t n_slots; /* a power of two, or 0 */
} pgasi_names_t;

static inline void pgasi_names_init(pgasi_names_t *names)
{
    *names = (pgasi_names_t){ 0 };
}
void pgasi_names_fini(pgasi_names_t *names);

/** The hash that the table uses. The caller passes it to add, because it also determines the rank
 *  of a name. */
uint64_t pgasi_names_hash(const char *text, size_t bytes);

/** Finds a name, or adds it.
 *  @return PGAS_OK.
 *          PGAS_ERR_NO_MEMORY.
 *          PGAS_ERR_LIMIT: there are PGASI_NAMES_MAX names. */
pgas_status_t pgasi_names_add(pgasi_names_t *names, const char *text, size_t bytes, uint64_t hash,
                              uint32_t *number_p);

static inline const char *pgasi_names_text(const pgasi_names_t *names, uint32_t number,
                                           size_t *bytes_p)
{
    *bytes_p = names->name[number].bytes;
    return names->text + names->name[number].at;
}

/** Makes room for n_needed elements in an array, which is doubled.
 *  @return its address. NULL: there is no memory, and nothing has changed. */
void *pgasi_grow(void *array, uint64_t *room_p, uint64_t n_needed, size_t elem_bytes);

#endif
