/** Items of a run whose homes are on other nodes, and copies of what was read there. */
#ifndef PGASI_KVS_FAR_RUN_H
#define PGASI_KVS_FAR_RUN_H

#include "kvs/message.h"

#define PGASI_FAR_FILTER_WORDS 64

/** The part of a run that goes to other nodes. */
typedef struct {
    pgas_kvs_t *kvs;
    pgas_kvs_item_t *items;
    pgas_sync_t *sync;          /* the caller's; NULL: the run waits */
    pgasi_batch_t *batch;       /* NULL: nothing was sent yet, and the fields below have no value */
    pgasi_outgoing_t *outgoing; /* [n] of the team */
    /* bits of the hashes of keys that are read, or written, by items that may be under way */
    uint64_t reads[PGASI_FAR_FILTER_WORDS], writes[PGASI_FAR_FILTER_WORDS];
} pgasi_far_run_t;

static inline void pgasi_far_init(pgasi_far_run_t *run, pgas_kvs_t *kvs, pgas_kvs_item_t *items,
                                  pgas_sync_t *sync)
{
    run->kvs = kvs;
    run->items = items;
    run->sync = sync;
    run->batch = NULL;
}

/** Carries out an item, or puts it into a message.
 *  @return PGAS_INPROGRESS: it is under way, and its reply sets its status. Otherwise the caller
 *          does */
pgas_status_t pgasi_far_add(pgasi_far_run_t *run, int home, const pgasi_key_t *key, size_t index);
/** Sends what was not sent. A run without the caller's counter waits for all items. */
pgas_status_t pgasi_far_end(pgasi_far_run_t *run);

/** Carries out a run of one item, without messages to collect.
 *  @return as pgasi_far_add; never PGAS_INPROGRESS if sync is NULL */
pgas_status_t pgasi_far_single(pgas_kvs_t *kvs, int home, const pgasi_key_t *key,
                               pgas_kvs_item_t *item, pgas_sync_t *sync);

#endif
