/** Things of this rank that other ranks name in calls: locks, objects. A name has the rank, a place
 *  in the rank's table and the place's generation, so that one that has ended, or never was, is
 *  told from one that lives. */
#ifndef PGASI_NAMED_H
#define PGASI_NAMED_H

#include <pthread.h>
#include <stdint.h>
#include "pgas/status.h"

#define PGASI_NAMED_MAX (1u << 20) /* at one time */

typedef struct {
    uint32_t generation;
    uint32_t next_free; /* index + 1 */
    void *thing;        /* NULL: free */
} pgasi_named_entry_t;

typedef struct {
    pthread_mutex_t lock; /* whoever looks has it */
    pgasi_named_entry_t *entry;
    uint32_t n, room, first_free; /* index + 1 */
} pgasi_named_t;
#define PGASI_NAMED_INIT                         \
    {                                            \
        PTHREAD_MUTEX_INITIALIZER, NULL, 0, 0, 0 \
    }

static inline int pgasi_named_rank(uint64_t name)
{
    return (int)(name >> 44);
}

/* All with the lock held. */

/** PGAS_ERR_NO_MEMORY, PGAS_ERR_LIMIT. */
pgas_status_t pgasi_named_add(pgasi_named_t *t, int rank, void *thing, uint64_t *name_p);
/** The name of what stands at a place of the table. */
uint64_t pgasi_named_name(const pgasi_named_t *t, int rank, uint32_t index);
/** NULL: no such thing. The rank in the name is not looked at. */
void *pgasi_named_find(const pgasi_named_t *t, uint64_t name);
void pgasi_named_remove(pgasi_named_t *t, uint64_t name);
/** Forgets all; release gets each thing. */
void pgasi_named_clear(pgasi_named_t *t, void (*release)(void *thing));

#endif
