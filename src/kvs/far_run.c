/* A run's items at other nodes. A read first looks for a valid copy. Items that need a reply are
 * collected in a message for each home, and a batch counts them. A run of one item has no such
 * messages. */
#include "kvs/far_run.h"

#include <stdlib.h>
#include "kvs/cache.h"
#include "kvs/stamps.h"

#define ITEMS_UNDER_WAY 512 /* of one run */
#define HITS_PER_POLL   4

/* ---- copies ---- */

/* Returns PGAS_INPROGRESS if there is no valid copy. A thread that finds all its keys here makes
 * progress nevertheless, because other nodes wait for their replies. */
static pgas_status_t look_in_cache(pgas_kvs_t *kvs, int home, const pgasi_key_t *key,
                                   pgas_kvs_item_t *item)
{
    uint64_t stamp;
    if (!kvs->cache || item->op != PGAS_KVS_GET ||
        !pgasi_stamps_look(kvs->stamps, home, key->bucket, &stamp))
        return PGAS_INPROGRESS;
    pgas_status_t status = pgasi_kvs_cache_get(kvs->cache, key, stamp, item);
    if (status == PGAS_INPROGRESS)
        return status;
    uint64_t n_hits = pgasi_load(&kvs->cache_hits) + 1;
    pgasi_store(&kvs->cache_hits, n_hits);
    if (n_hits % HITS_PER_POLL == 0)
        (void)pgas_progress();
    return status;
}

/* ---- items under way ---- */

static pgas_status_t begin_batch(pgas_kvs_t *kvs, pgas_kvs_item_t *items, pgas_sync_t *sync,
                                 pgasi_batch_t **batch_p)
{
    pgas_status_t status = pgasi_kvs_may_wait();
    if (__atomic_load_n(&kvs->broken, __ATOMIC_RELAXED))
        status = PGAS_ERR_PEER;
    if (status != PGAS_OK)
        return status;
    pgasi_batch_t *batch = malloc(sizeof *batch);
    if (!batch)
        return PGAS_ERR_NO_MEMORY;
    *batch = (pgasi_batch_t){
        .kvs = kvs, .items = items, .sync = sync ? sync : &batch->own, .missing = 1
    };
    if (sync)
        pgasi_kvs_enlist(batch);
    pgas_sync_add(batch->sync, 1);
    *batch_p = batch;
    return PGAS_OK;
}

static void begin_item(pgasi_batch_t *batch, size_t index)
{
    __atomic_add_fetch(&batch->missing, 1, __ATOMIC_RELAXED);
    pgas_sync_add(batch->sync, 1);
    __atomic_store_n(&batch->items[index].status, PGAS_INPROGRESS, __ATOMIC_RELEASE);
    /* a death either finds the item, or is known when the item is sent */
    __atomic_store_n(&batch->n_begun, index + 1, __ATOMIC_SEQ_CST);
    pgasi_store(&batch->kvs->calls, pgasi_load(&batch->kvs->calls) + 1);
}

static void fail_item(pgasi_batch_t *batch, size_t index, pgas_status_t status)
{
    if (pgasi_kvs_claim(&batch->items[index], status))
        pgasi_kvs_complete(batch, 1);
}

/* Waits until at most so many items are under way. */
static void wait_below(pgasi_batch_t *batch, int64_t most)
{
    while (__atomic_load_n(&batch->missing, __ATOMIC_ACQUIRE) > most)
        if (pgas_progress() == 0 && __atomic_load_n(&batch->kvs->broken, __ATOMIC_ACQUIRE))
            pgasi_kvs_end_lost(batch);
}

/* Homes that live answer also after a death. */
static pgas_status_t wait_for_all(pgasi_batch_t *batch)
{
    pgas_status_t status;
    while ((status = pgas_sync_wait(&batch->own, PGASI_KVS_LOOK_US)) == PGAS_ERR_TIMEOUT)
        if (__atomic_load_n(&batch->kvs->broken, __ATOMIC_ACQUIRE))
            pgasi_kvs_end_lost(batch);
    if (status == PGAS_OK) /* otherwise replies may still come */
        free(batch);
    return status;
}

/* The caller has begun all items, and its own use of the batch ends. */
static pgas_status_t end_batch(pgasi_batch_t *batch, bool waits)
{
    pgasi_kvs_complete(batch, 1);
    return waits ? wait_for_all(batch) : PGAS_OK;
}

/* ---- one item ---- */

pgas_status_t pgasi_far_single(pgas_kvs_t *kvs, int home, const pgasi_key_t *key,
                               pgas_kvs_item_t *item, pgas_sync_t *sync)
{
    pgasi_batch_t *batch;
    pgas_status_t status = look_in_cache(kvs, home, key, item);
    if (status != PGAS_INPROGRESS)
        return status;
    status = begin_batch(kvs, item, sync, &batch);
    if (status != PGAS_OK)
        return status;
    begin_item(batch, 0);
    status = pgasi_kvs_send_one(batch, home, 0, false);
    if (status != PGAS_OK)
        fail_item(batch, 0, status);
    status = end_batch(batch, !sync);
    if (sync)
        return PGAS_INPROGRESS;
    return status == PGAS_OK ? item->status : status;
}

/* ---- many items ---- */

static void forget_under_way(pgasi_far_run_t *run)
{
    memset(run->reads, 0, sizeof run->reads);
    memset(run->writes, 0, sizeof run->writes);
}

static pgas_status_t begin_run(pgasi_far_run_t *run)
{
    run->outgoing = calloc((size_t)run->kvs->n, sizeof *run->outgoing);
    if (!run->outgoing)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = begin_batch(run->kvs, run->items, run->sync, &run->batch);
    if (status != PGAS_OK)
        free(run->outgoing);
    forget_under_way(run);
    return status;
}

/* Whether the new item must wait for items of its key that are under way. Otherwise it could
 * overtake a large item, or one that is sent again. Keys with the same bit count as one. */
static bool conflicts(const pgasi_far_run_t *run, uint64_t hash, bool writes)
{
    uint32_t word = hash % PGASI_FAR_FILTER_WORDS;
    uint64_t bit = UINT64_C(1) << (hash / PGASI_FAR_FILTER_WORDS % 64);
    return run->batch && ((run->writes[word] | (writes ? run->reads[word] : 0)) & bit);
}

static void note_under_way(pgasi_far_run_t *run, uint64_t hash, bool writes)
{
    uint64_t *words = writes ? run->writes : run->reads;
    words[hash % PGASI_FAR_FILTER_WORDS] |= UINT64_C(1) << (hash / PGASI_FAR_FILTER_WORDS % 64);
}

static void flush(const pgasi_far_run_t *run)
{
    for (int i = 0; i < run->kvs->n; i++)
        pgasi_kvs_flush(run->batch, &run->outgoing[i], i);
}

/* Waits until no item is under way. */
static pgas_status_t settle(pgasi_far_run_t *run)
{
    pgas_status_t status = pgasi_kvs_may_wait();
    if (status != PGAS_OK)
        return status;
    flush(run);
    wait_below(run->batch, 1);
    forget_under_way(run);
    return PGAS_OK;
}

/* Waits while many items are under way, so that memory of the homes is bounded. Items in messages
 * that are not sent yet count, so these messages are sent first. */
static void limit_items(const pgasi_far_run_t *run)
{
    if (__atomic_load_n(&run->batch->missing, __ATOMIC_RELAXED) <= ITEMS_UNDER_WAY ||
        pgasi_kvs_may_wait() != PGAS_OK)
        return;
    flush(run);
    wait_below(run->batch, ITEMS_UNDER_WAY / 2);
}

pgas_status_t pgasi_far_add(pgasi_far_run_t *run, int home, const pgasi_key_t *key, size_t index)
{
    pgas_kvs_item_t *item = &run->items[index];
    bool writes = item->op != PGAS_KVS_GET;
    pgas_status_t status = PGAS_OK;
    if (PGAS_UNLIKELY(conflicts(run, key->hash, writes)))
        status = settle(run);
    if (status == PGAS_OK)
        status = look_in_cache(run->kvs, home, key, item);
    if (status != PGAS_INPROGRESS)
        return status;
    status = run->batch ? PGAS_OK : begin_run(run);
    if (status != PGAS_OK)
        return status;
    note_under_way(run, key->hash, writes);
    begin_item(run->batch, index);
    status = pgasi_kvs_send(run->batch, &run->outgoing[home], home, (uint32_t)index);
    if (status != PGAS_OK)
        fail_item(run->batch, index, status);
    limit_items(run);
    return PGAS_INPROGRESS;
}

pgas_status_t pgasi_far_end(pgasi_far_run_t *run)
{
    flush(run);
    for (int i = 0; i < run->kvs->n; i++)
        free(run->outgoing[i].at);
    free(run->outgoing);
    return end_batch(run->batch, !run->sync);
}
