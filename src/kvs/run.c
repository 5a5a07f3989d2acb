/* Operations: a key's home is found, and the work is done there if it is on this node.
 *
 * A run of several items first requests the buckets of 16 of them into the processor's cache, then
 * their blocks, then does the work. So the misses of 16 items overlap. */
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "base/log.h"
#include "kvs/cache.h"
#include "kvs/message.h"
#include "kvs/stamps.h"

#define WINDOW          16
#define ITEMS_UNDER_WAY 512 /* of one run at other nodes */
#define FILTER_WORDS    64

static inline int find_home(const pgas_kvs_t *kvs, const void *key, size_t bytes, pgasi_key_t *k)
{
    /* a constant length is worth a branch: the hash is a few instructions then */
    uint64_t hash = bytes == 8 ? XXH3_64bits(key, 8) : XXH3_64bits(key, bytes);
    uint32_t tag = (uint32_t)(hash >> 32) & 0xff;
    k->key = key;
    k->bytes = bytes;
    k->hash = hash;
    k->tag = tag ? tag : 0xff;
    k->bucket = (uint32_t)(((hash & 0xffffffff) * kvs->n_buckets) >> 32);
    return (int)(((hash >> 32) * (uint64_t)kvs->n) >> 32);
}

int pgasi_kvs_key(const pgas_kvs_t *kvs, const void *key, size_t bytes, pgasi_key_t *key_p)
{
    return find_home(kvs, key, bytes, key_p);
}

/* ---- one key ---- */

static inline pgas_status_t check_key(const pgas_kvs_t *kvs, const void *key, size_t key_bytes)
{
    if (PGAS_UNLIKELY(!kvs || !key))
        return PGAS_ERR_INVALID;
    return PGAS_LIKELY(pgasi_kvs_key_is_legal(key_bytes)) ? PGAS_OK : PGAS_ERR_LIMIT;
}

static pgas_status_t check_item(const pgas_kvs_item_t *item)
{
    if (!item->key || (unsigned)item->op > PGAS_KVS_ADD ||
        (unsigned)item->condition > PGAS_KVS_IF_VERSION)
        return PGAS_ERR_INVALID;
    if (!pgasi_kvs_key_is_legal(item->key_bytes))
        return PGAS_ERR_LIMIT;
    if (item->op == PGAS_KVS_PUT && item->value_bytes > PGAS_KVS_VALUE_MAX)
        return PGAS_ERR_LIMIT;
    bool needs = (item->op == PGAS_KVS_GET && item->capacity > 0) ||
                 (item->op == PGAS_KVS_PUT && item->value_bytes > 0) || item->op == PGAS_KVS_ADD;
    return needs && !item->value ? PGAS_ERR_INVALID : PGAS_OK;
}

static pgas_status_t write_here(pgas_kvs_t *kvs, int home, const pgasi_key_t *key,
                                pgas_kvs_item_t *item)
{
    pgas_status_t status = pgasi_kvs_write(kvs, home, key, item, true);
    return status == PGAS_ERR_AGAIN ? PGAS_ERR_CONTEXT : status;
}

static pgas_status_t run_one(pgas_kvs_t *kvs, pgas_kvs_item_t *item)
{
    return pgas_kvs_run(kvs, item, 1, NULL);
}

/* At another node. */
static pgas_status_t get_far(pgas_kvs_t *kvs, const pgasi_key_t *key, pgasi_read_t *read)
{
    pgas_kvs_item_t item = {
        .key = key->key, .key_bytes = key->bytes, .value = read->value, .capacity = read->capacity
    };
    pgas_status_t status = run_one(kvs, &item);
    read->value_bytes = item.value_bytes;
    return status;
}

pgas_status_t pgas_kvs_get(pgas_kvs_t *kvs, const void *key, size_t key_bytes, void *value,
                           size_t capacity, size_t *value_bytes_p)
{
    pgas_status_t status = check_key(kvs, key, key_bytes);
    if (PGAS_UNLIKELY(status == PGAS_OK && !value && capacity > 0))
        status = PGAS_ERR_INVALID;
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    pgasi_key_t k;
    pgasi_read_t read;
    read.value = value;
    read.capacity = capacity;
    int home = find_home(kvs, key, key_bytes, &k);
    if (PGAS_LIKELY(kvs->parts[home].base))
        status = pgasi_part_get(&kvs->parts[home], &k, &read);
    else
        status = get_far(kvs, &k, &read);
    if (value_bytes_p && (status == PGAS_OK || status == PGAS_ERR_RANGE))
        *value_bytes_p = read.value_bytes;
    return status;
}

static pgas_status_t write_one(pgas_kvs_t *kvs, pgas_kvs_item_t *item)
{
    pgasi_key_t key;
    pgas_status_t status = kvs ? check_item(item) : PGAS_ERR_INVALID;
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    int home = find_home(kvs, item->key, item->key_bytes, &key);
    if (PGAS_UNLIKELY(!kvs->parts[home].base))
        return run_one(kvs, item);
    status = write_here(kvs, home, &key, item);
    pgas_status_t committed = pgasi_kvs_commit(kvs);
    return status == PGAS_OK ? committed : status;
}

/* The value of a PUT is not changed. */
static inline void *source_of(const void *value)
{
    void *source;
    memcpy(&source, &value, sizeof source);
    return source;
}

pgas_status_t pgas_kvs_put(pgas_kvs_t *kvs, const void *key, size_t key_bytes, const void *value,
                           size_t value_bytes)
{
    pgas_kvs_item_t item = { .key = key,
                             .key_bytes = key_bytes,
                             .value = source_of(value),
                             .value_bytes = value_bytes,
                             .op = PGAS_KVS_PUT };
    return write_one(kvs, &item);
}

pgas_status_t pgas_kvs_delete(pgas_kvs_t *kvs, const void *key, size_t key_bytes)
{
    pgas_kvs_item_t item = { .key = key, .key_bytes = key_bytes, .op = PGAS_KVS_DELETE };
    return write_one(kvs, &item);
}

pgas_status_t pgas_kvs_fetch_add(pgas_kvs_t *kvs, const void *key, size_t key_bytes, int64_t delta,
                                 int64_t *old_p)
{
    pgas_kvs_item_t item = {
        .key = key, .key_bytes = key_bytes, .value = &delta, .op = PGAS_KVS_ADD
    };
    pgas_status_t status = write_one(kvs, &item);
    if (status == PGAS_OK && old_p)
        *old_p = delta;
    return status;
}

/* ---- many keys ---- */

typedef struct {
    pgasi_key_t key;
    int home; /* -1: the item has an error */
} target_t;

/* Finds the homes of some items, and requests what they need. */
static void prepare(const pgas_kvs_t *kvs, pgas_kvs_item_t *items, int n, target_t *targets)
{
    for (int i = 0; i < n; i++) {
        items[i].status = check_item(&items[i]);
        targets[i].home = -1;
        if (PGAS_UNLIKELY(items[i].status != PGAS_OK))
            continue;
        targets[i].home = find_home(kvs, items[i].key, items[i].key_bytes, &targets[i].key);
        const pgasi_part_t *part = &kvs->parts[targets[i].home];
        if (PGAS_LIKELY(part->base))
            pgasi_part_prefetch_bucket(part, &targets[i].key);
    }
    for (int i = 0; i < n; i++)
        if (PGAS_LIKELY(targets[i].home >= 0 && kvs->parts[targets[i].home].base))
            pgasi_part_prefetch_block(&kvs->parts[targets[i].home], &targets[i].key);
}

static inline pgas_status_t do_here(pgas_kvs_t *kvs, const target_t *target, pgas_kvs_item_t *item)
{
    if (item->op == PGAS_KVS_GET)
        return pgasi_part_get_item(&kvs->parts[target->home], &target->key, item);
    return write_here(kvs, target->home, &target->key, item);
}

/* ---- other nodes ---- */

/* A run whose items go to other nodes. */
typedef struct {
    pgas_kvs_t *kvs;
    pgas_kvs_item_t *items;
    pgas_sync_t *sync;          /* the caller's; NULL: the run waits */
    pgas_sync_t waited;         /* for the run that waits */
    pgasi_batch_t here;         /* for the run that waits */
    pgasi_batch_t *batch;       /* NULL: nothing was sent yet */
    pgasi_outgoing_t *outgoing; /* [n] of the team */
    /* bits of the hashes of keys that are read, or written, by items that may be under way */
    uint64_t reads[FILTER_WORDS], writes[FILTER_WORDS];
} far_run_t;

static pgas_status_t begin_far(far_run_t *run)
{
    pgas_status_t status = run->sync ? PGAS_OK : pgasi_kvs_may_wait();
    if (status != PGAS_OK)
        return status;
    run->batch = run->sync ? malloc(sizeof *run->batch) : &run->here;
    run->outgoing = calloc((size_t)run->kvs->n, sizeof *run->outgoing);
    if (!run->batch || !run->outgoing) {
        if (run->sync)
            free(run->batch);
        free(run->outgoing);
        run->batch = NULL;
        return PGAS_ERR_NO_MEMORY;
    }
    *run->batch = (pgasi_batch_t){ .kvs = run->kvs,
                                   .items = run->items,
                                   .sync = run->sync ? run->sync : &run->waited,
                                   .missing = 1,
                                   .allocated = run->sync != NULL };
    memset(run->reads, 0, sizeof run->reads);
    memset(run->writes, 0, sizeof run->writes);
    pgas_sync_add(run->batch->sync, 1);
    return PGAS_OK;
}

/* Whether items of this key are under way that the new one must not overtake, or a key with the same
 * bit has some. A large item, or one that has to be sent again, would be overtaken by others. */
static bool conflicts(const far_run_t *run, uint64_t hash, bool writes)
{
    uint32_t word = hash % FILTER_WORDS;
    uint64_t bit = UINT64_C(1) << (hash / FILTER_WORDS % 64);
    return run->batch && ((run->writes[word] | (writes ? run->reads[word] : 0)) & bit);
}

static void note_under_way(far_run_t *run, uint64_t hash, bool writes)
{
    (writes ? run->writes : run->reads)[hash % FILTER_WORDS] |= UINT64_C(1)
                                                                << (hash / FILTER_WORDS % 64);
}

static pgas_status_t flush_far(far_run_t *run)
{
    pgas_status_t status = PGAS_OK;
    for (int i = 0; i < run->kvs->n; i++) {
        pgas_status_t sent = pgasi_kvs_flush(run->batch, &run->outgoing[i], i);
        status = status == PGAS_OK ? sent : status;
    }
    return status;
}

/* Waits until no item is under way. */
static pgas_status_t settle(far_run_t *run)
{
    pgas_status_t status = pgasi_kvs_may_wait();
    if (status == PGAS_OK)
        status = flush_far(run);
    while (status == PGAS_OK && __atomic_load_n(&run->batch->missing, __ATOMIC_ACQUIRE) > 1)
        pgas_progress();
    memset(run->reads, 0, sizeof run->reads);
    memset(run->writes, 0, sizeof run->writes);
    return status;
}

/* A read first looks for a copy. @return PGAS_INPROGRESS: there is no valid one */
static pgas_status_t look_in_cache(pgas_kvs_t *kvs, const target_t *target, pgas_kvs_item_t *item)
{
    uint64_t stamp;
    if (!kvs->cache || item->op != PGAS_KVS_GET ||
        !pgasi_stamps_look(kvs->stamps, target->home, target->key.bucket, &stamp))
        return PGAS_INPROGRESS;
    pgas_status_t status = pgasi_kvs_cache_get(kvs->cache, &target->key, stamp, item);
    if (status != PGAS_INPROGRESS)
        pgasi_store(&kvs->cache_hits, pgasi_load(&kvs->cache_hits) + 1);
    return status;
}

/* While many items are under way it waits, so that memory of the homes is bounded. */
static void limit_items(const far_run_t *run)
{
    while (__atomic_load_n(&run->batch->missing, __ATOMIC_RELAXED) > ITEMS_UNDER_WAY)
        if (pgas_progress() == 0 && pgasi_kvs_may_wait() != PGAS_OK)
            break;
}

static pgas_status_t do_far(far_run_t *run, const target_t *target, size_t index)
{
    pgas_kvs_item_t *item = &run->items[index];
    bool writes = item->op != PGAS_KVS_GET;
    pgas_status_t status = PGAS_OK;
    if (PGAS_UNLIKELY(conflicts(run, target->key.hash, writes)))
        status = settle(run);
    if (status == PGAS_OK)
        status = look_in_cache(run->kvs, target, item);
    if (status == PGAS_INPROGRESS && !run->batch) {
        status = begin_far(run);
        status = status == PGAS_OK ? PGAS_INPROGRESS : status;
    }
    if (status != PGAS_INPROGRESS)
        return status;
    note_under_way(run, target->key.hash, writes);
    item->status = PGAS_INPROGRESS;
    __atomic_add_fetch(&run->batch->missing, 1, __ATOMIC_RELAXED);
    pgas_sync_add(run->batch->sync, 1);
    pgasi_store(&run->kvs->calls, pgasi_load(&run->kvs->calls) + 1);
    status =
        pgasi_kvs_send(run->batch, &run->outgoing[target->home], target->home, (uint32_t)index);
    if (status != PGAS_OK) {
        pgasi_kvs_complete(run->batch, 1);
        return status;
    }
    limit_items(run);
    return PGAS_INPROGRESS;
}

static pgas_status_t end_far(far_run_t *run)
{
    pgas_status_t status = PGAS_OK;
    if (!run->batch)
        return PGAS_OK;
    status = flush_far(run);
    for (int i = 0; i < run->kvs->n; i++)
        free(run->outgoing[i].at);
    free(run->outgoing);
    pgasi_kvs_complete(run->batch, 1);
    if (!run->sync) {
        pgas_status_t waited = pgas_sync_wait(&run->waited, -1);
        status = status == PGAS_OK ? waited : status;
    }
    return status;
}

pgas_status_t pgas_kvs_run(pgas_kvs_t *kvs, pgas_kvs_item_t *items, size_t n, pgas_sync_t *sync)
{
    target_t targets[WINDOW];
    pgas_status_t first = PGAS_OK;
    if (!kvs || (n > 0 && !items))
        return PGAS_ERR_INVALID;
    if (n > UINT32_MAX)
        return PGAS_ERR_LIMIT;
    far_run_t far; /* the rest is for a run that sends something */
    far.kvs = kvs;
    far.items = items;
    far.sync = sync;
    far.waited = (pgas_sync_t)PGAS_SYNC_INIT;
    far.batch = NULL;
    bool wrote = false;
    for (size_t at = 0; at < n; at += WINDOW) {
        int n_now = (int)PGASI_MIN(n - at, WINDOW);
        prepare(kvs, items + at, n_now, targets);
        for (int i = 0; i < n_now; i++) {
            pgas_kvs_item_t *item = &items[at + (size_t)i];
            if (PGAS_UNLIKELY(targets[i].home < 0)) {
                first = first == PGAS_OK ? item->status : first;
                continue;
            }
            pgas_status_t status = PGAS_LIKELY(kvs->parts[targets[i].home].base)
                                       ? do_here(kvs, &targets[i], item)
                                       : do_far(&far, &targets[i], at + (size_t)i);
            wrote |= item->op != PGAS_KVS_GET;
            if (status == PGAS_INPROGRESS)
                continue; /* the reply sets the item's status, perhaps already */
            item->status = status;
            if (PGAS_UNLIKELY(status != PGAS_OK && first == PGAS_OK))
                first = status;
        }
    }
    pgas_status_t committed = wrote ? pgasi_kvs_commit(kvs) : PGAS_OK;
    bool sent = far.batch != NULL;
    pgas_status_t ended = end_far(&far);
    ended = ended == PGAS_OK ? committed : ended;
    if (sync)
        return ended;
    if (sent) /* replies set statuses, also of items before the first one that failed here */
        first = PGAS_OK;
    for (size_t i = 0; i < n && sent && first == PGAS_OK; i++)
        first = items[i].status;
    return first == PGAS_OK ? ended : first;
}
