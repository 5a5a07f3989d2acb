/** Access grants: the accesses to a chunk that the threads of one site may make at the moment.
 *
 *  A site is either the node of the chunk's home, or another rank with a cache line of the
 *  chunk. The ranks of the home's node share one grant in shared memory. Any thread may use a
 *  grant, under its lock, without the protocol. The protocol opens grants and closes them. */
#ifndef PGASI_ARRAY_GRANT_H
#define PGASI_ARRAY_GRANT_H

#include <stdbool.h>
#include <stdint.h>
#include "array/descriptor.h"

typedef enum {
    PGASI_ARRAY_NOTHING,
    PGASI_ARRAY_READS,
    PGASI_ARRAY_OPERATES,
    PGASI_ARRAY_ALL
} pgasi_array_permit_t;

/** Which mapping entries there may be. */
typedef enum {
    PGASI_ARRAY_OPEN,   /* of one owner, or of readers */
    PGASI_ARRAY_SHARED, /* several threads, some write: of readers, and for atomic instructions */
    PGASI_ARRAY_GUARDED /* none: each access takes the lock */
} pgasi_array_mode_t;

/** The accesses that are taken away from threads. */
typedef enum { PGASI_ARRAY_KEEP, PGASI_ARRAY_NO_WRITES, PGASI_ARRAY_NO_ACCESS } pgasi_array_level_t;

/** The fields that the grant's lock guards. It is assigned as a whole when the grant becomes
 *  another chunk's. Mapping entries are of one owner (DATA or OPERATE), or of all threads of some
 *  ranks (READ). They change only with the lock held. */
typedef struct {
    uint8_t permits, mode;
    uint8_t recall;    /* the level that pins keep the protocol from reaching */
    uint8_t published; /* mapping entries may have existed since the last barrier */
    /* Operated, at the home: it combines operands of other ranks into the elements. So threads here
     * combine by atomic instructions, and their pins are granted by the home */
    uint8_t stays_shared;
    uint8_t settling; /* wide elements: the last owner may still be inside a store */
    uint32_t op;      /* OPERATES: of which operator */
    uint32_t owner;   /* node rank * 4096 + slot + 1; 0: no thread */
    uint16_t heat;    /* recalls that cost a barrier, soon after accesses were permitted */
    uint16_t budget;  /* accesses until the chunk is no longer guarded */
    uint64_t readers; /* a bit for each node rank with READ entries; from 63 on they share one */
    uint64_t chunk;
} pgasi_array_grant_state_t;

/** The lock, and the fields that threads read without it, are outside of `now`, because an
 *  assignment to `now` may store intermediate values. */
typedef struct pgasi_array_grant {
    uint32_t lock;
    uint32_t touched;
    uint32_t pins_read, pins_write; /* write: operate, too */
    pgasi_array_grant_state_t now;
    /* when the protocol last permitted accesses or, if there were no mapping entries then, when the
     * first was published since; 0: none was */
    uint64_t opened_ns;
} pgasi_array_grant_t;

static inline bool pgasi_array_grant_is_pinned(const pgasi_array_grant_t *grant)
{
    return __atomic_load_n(&grant->pins_read, __ATOMIC_ACQUIRE) ||
           __atomic_load_n(&grant->pins_write, __ATOMIC_ACQUIRE);
}

/** A grant, with the addresses in this process that belong to it. */
typedef struct {
    struct pgasi_array *array;
    pgasi_array_grant_t *grant;
    char *data;             /* at the home: where element 0 of the block would be */
    char *const *line_data; /* the same of a cache line */
    uint64_t chunk;
    bool at_home;     /* the node shares it; otherwise it is a cache line of this rank */
    bool cut;         /* it never has mapping entries */
    bool at_own_home; /* this rank is the home */
} pgasi_array_site_t;

/** Carries the access out if the grant permits it now. by_thread: the calling thread made the
 *  access, so mapping entries may be published for it.
 *  @return PGAS_INPROGRESS: the grant does not permit it.
 *          PGAS_ERR_DEADLOCK: it will not before the thread's own pin ends. */
pgas_status_t pgasi_array_grant_try(const pgasi_array_site_t *site, pgasi_array_access_t *x,
                                    bool by_thread);

/** Whether a pin keeps an access of another node waiting. If so the end of that pin is reported. */
bool pgasi_array_grant_is_pinned_against(pgasi_array_grant_t *grant, const pgasi_array_access_t *x);

/** Makes the grant another chunk's. It has no mapping entries. */
void pgasi_array_grant_renew(pgasi_array_grant_t *grant, uint64_t chunk, uint16_t heat,
                             pgasi_array_permit_t permits);

void pgasi_array_grant_open(pgasi_array_grant_t *grant, pgasi_array_permit_t permits, uint32_t op);

typedef enum {
    PGASI_ARRAY_CLOSED,  /* no thread is inside */
    PGASI_ARRAY_CLOSING, /* a thread may be inside: a barrier and the slots show when it has left */
    PGASI_ARRAY_PINNED   /* pins prevent it: it is closed again when they have ended */
} pgasi_array_closed_t;

/** Permits no new accesses of a level. recall: another site wants the chunk. */
pgasi_array_closed_t pgasi_array_grant_close(const pgasi_array_site_t *site,
                                             pgasi_array_level_t level, bool recall);

/** Whether the home combines operands of other ranks into the elements from now on. */
void pgasi_array_grant_share(const pgasi_array_site_t *site, bool shared);

/** All threads have been outside of accesses since the close. */
void pgasi_array_grant_settled(pgasi_array_grant_t *grant);

/** Takes the lock of a grant at a home of another node, whose heap this rank maps, if threads there
 *  may combine by that operator but none does, and none has mapping entries or a pin. Then the home
 *  has not recalled the chunk. It does not wait. release gives the lock back. */
bool pgasi_array_grant_seize(pgasi_array_grant_t *grant, uint64_t chunk, uint32_t op);
void pgasi_array_grant_release(pgasi_array_grant_t *grant);

/** Withdraws this rank's mapping entries without a barrier, so that its next access goes through
 *  the grant. */
void pgasi_array_grant_withdraw(const pgasi_array_site_t *site);

/** Where element 0 of the block would be. The caller has the grant's lock, or a pin. */
static inline char *pgasi_array_grant_data(const pgasi_array_site_t *site)
{
    return site->at_home ? site->data : *site->line_data;
}

/** Ends one pin of the calling thread. passed: of a walk, which does not come back; the line may
 *  be evicted without a second chance. *recall_p: the protocol waits for exactly that.
 *  @return PGAS_ERR_INVALID: the thread has no such pin. */
pgas_status_t pgasi_array_grant_unpin(pgasi_array_grant_t *grant, pgas_array_mode_t mode,
                                      bool passed, bool *recall_p);

#endif
