/** Names of locks and objects of this rank, by which other ranks address them in calls. A name has
 *  the rank, an index in the rank's table, and the generation of the entry there. So a name that is
 *  no longer valid, or never was, is not found. Generations of locks are odd, those of objects
 *  even: a name of one kind is never found as one of the other. */
#ifndef PGASI_NAMED_H
#define PGASI_NAMED_H

#include <pthread.h>
#include <stdint.h>
#include "pgas/status.h"

#define PGASI_NAMED_MAX (1u << 20) /* at one time */

typedef enum { PGASI_NAMED_LOCK = 1, PGASI_NAMED_OBJECT = 2 } pgasi_named_kind_t;

typedef struct {
    uint32_t generation;
    uint32_t next_free; /* index + 1 */
    void *thing;        /* NULL: free */
} pgasi_named_entry_t;

typedef struct {
    pthread_mutex_t lock; /* held during every access */
    pgasi_named_entry_t *entry;
    uint32_t n, room, first_free; /* index + 1; 0: none */
    pgasi_named_kind_t kind;
} pgasi_named_t;
#define PGASI_NAMED_INIT(kind)                         \
    {                                                  \
        PTHREAD_MUTEX_INITIALIZER, NULL, 0, 0, 0, kind \
    }

static inline int pgasi_named_rank(uint64_t name)
{
    return (int)(name >> 44);
}

/* The lock is held in all of them. */

/** @return PGAS_OK
 *          PGAS_ERR_NO_MEMORY
 *          PGAS_ERR_LIMIT: the table has PGASI_NAMED_MAX entries */
pgas_status_t pgasi_named_add(pgasi_named_t *t, int rank, void *thing, uint64_t *name_p);
/** The name of the entry with this index. */
uint64_t pgasi_named_name(const pgasi_named_t *t, int rank, uint32_t index);
/** NULL: no entry has this name. The rank in the name is ignored. */
void *pgasi_named_find(const pgasi_named_t *t, uint64_t name);
void pgasi_named_remove(pgasi_named_t *t, uint64_t name);
/** Removes all entries, and calls release for each. */
void pgasi_named_clear(pgasi_named_t *t, void (*release)(void *thing));

#endif
