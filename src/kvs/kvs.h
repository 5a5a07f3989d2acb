/** A store, inside the library. */
#ifndef PGASI_KVS_H
#define PGASI_KVS_H

#include "kvs/durable.h"
#include "kvs/part.h"
#include "pgas/gptr.h"
#include "pgas/kvs.h"
#include "pgas/sync.h"

typedef struct pgasi_kvs_cache pgasi_kvs_cache_t;
typedef struct pgasi_stamps pgasi_stamps_t;

struct pgas_kvs {
    pgas_team_t *team;
    int id;      /* the same on all ranks, for messages */
    int rank, n; /* of the team */
    pgas_gptr_t memory;
    uint64_t n_buckets;  /* of each part */
    pgasi_part_t *parts; /* [n]; base NULL: on another node */
    int *ranks;          /* [n] of the job */
    bool evict, has_far;
    bool full_logged;
    bool no_memory;   /* as a home: there was none for a copy of a large value */
    bool broken;      /* a rank of the team died */
    bool *lost;       /* [n]: the rank died */
    int batches_lock; /* of the list of batches of runs with the caller's counter (message.h) */
    struct pgasi_batch *batches;
    /* Only if the team has several nodes: one word for each bucket of the store. A write changes
     * the word of its bucket, before any thread can read what it has written. */
    pgasi_stamps_t *stamps;
    pgasi_kvs_cache_t *cache; /* NULL: none */
    uint64_t cache_hits, calls;
    pgasi_kvs_durable_t *durable; /* NULL: it is not */
};

/* ---- keys ---- */

/** Hashes a key, and finds its home. @return the team's rank that is home */
int pgasi_kvs_key(const pgas_kvs_t *kvs, const void *key, size_t bytes, pgasi_key_t *key_p);
static inline bool pgasi_kvs_key_is_legal(size_t bytes)
{
    return bytes - 1 < PGAS_KVS_KEY_MAX;
}

/* ---- operations at a home of this node ---- */

/** Carries out an item that is not a GET, and logs it if the store is durable.
 *  @param may_wait  the thread is not in a plain handler
 *  @return also PGAS_ERR_AGAIN: another node has the stamp, and the thread may not wait */
pgas_status_t pgasi_kvs_write(pgas_kvs_t *kvs, int home, const pgasi_key_t *key,
                              pgas_kvs_item_t *item, bool may_wait);

/** Makes this thread's writes durable, as the options say. */
pgas_status_t pgasi_kvs_commit(pgas_kvs_t *kvs);

/** Appends copies of the keys of a chain. Expired keys are deleted. */
pgas_status_t pgasi_kvs_copy_chain(pgas_kvs_t *kvs, int home, uint32_t bucket, bool may_wait,
                                   pgasi_scratch_t *scratch);
/** Deletes the expired keys of a chain. */
pgas_status_t pgasi_kvs_expire_chain(pgas_kvs_t *kvs, int home, uint32_t bucket, bool may_wait);
/** Deletes the keys of a chain. */
pgas_status_t pgasi_kvs_clear_chain(pgas_kvs_t *kvs, int home, uint32_t bucket);

/** Whether the calling thread is attached. */
static inline bool pgasi_kvs_is_attached(void)
{
    return pgas_thread_slot(pgas_thread_self()) != PGAS_SLOT_SERVICE - 1;
}
/** Whether the calling thread may wait: PGAS_ERR_CONTEXT in a plain handler and on a thread that is
 *  not attached. */
pgas_status_t pgasi_kvs_may_wait(void);

/** Waits for the reply of a home. @return PGAS_ERR_PEER: it died; its reply may still arrive */
pgas_status_t pgasi_kvs_wait(const pgas_kvs_t *kvs, int home, pgas_sync_t *sync);
/** Whether a reply of this thread is awaited. The memory that a reply of a dead rank names may be
 *  freed. */
bool pgasi_kvs_awaits(const pgas_kvs_t *kvs, pgas_thread_t source);
#define PGASI_KVS_LOOK_US 100000 /* a wait checks for deaths at this interval */

/* ---- the stores of this rank ---- */

#define PGASI_KVS_MAX 64

void pgasi_kvs_set(int id, pgas_kvs_t *kvs);
/** Returns the store, or NULL. */
pgas_kvs_t *pgasi_kvs_of(uint64_t id);

/** The global pointer of a word in the head of a part. */
pgas_gptr_t pgasi_kvs_word(const pgas_kvs_t *kvs, int home, size_t offset);

/** Agrees on the first error of the team's ranks. */
pgas_status_t pgasi_kvs_agree(pgas_team_t *team, pgas_status_t mine);

#endif
