/* Operations: a key's home is found, and the work is done there if it is on this node.
 *
 * A run of several items takes three steps for each group of them, so that the misses of a group
 * overlap. */
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "base/log.h"
#include "kvs/cache.h"
#include "kvs/message.h"
#include "kvs/part_read.h"
#include "kvs/stamps.h"

#define GROUP           32  /* items whose misses overlap */
#define ITEMS_UNDER_WAY 512 /* of one run at other nodes */
#define FILTER_WORDS    64

PGAS_INLINE int find_home(const pgas_kvs_t *kvs, const void *key, size_t bytes, pgasi_key_t *k)
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

PGAS_INLINE pgas_status_t check_item(const pgas_kvs_item_t *item)
{
    if (PGAS_LIKELY(item->op == PGAS_KVS_GET && item->key && item->value &&
                    pgasi_kvs_key_is_legal(item->key_bytes) && item->condition == PGAS_KVS_ALWAYS))
        return PGAS_OK;
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

/* seen NULL: the bucket was not looked at yet. */
PGAS_INLINE pgas_status_t get_here(const pgasi_part_t *part, const pgasi_key_t *key,
                                   const pgasi_seen_t *seen, pgas_kvs_item_t *item)
{
    pgasi_seen_t now;
    if (!seen) {
        now = pgasi_part_see(part, key);
        seen = &now;
    }
    if (PGAS_UNLIKELY(!pgasi_part_read(part, key, seen, item->value, item->capacity,
                                       &item->value_bytes, &item->version)))
        return pgasi_part_get_item(part, key, item);
    item->expires_ms = 0;
    return PGAS_OK;
}

/* Everything that pgas_kvs_get does not do inline. */
static __attribute__((noinline)) pgas_status_t get_any(pgas_kvs_t *kvs, const void *key,
                                                       size_t key_bytes, void *value,
                                                       size_t capacity, size_t *value_bytes_p)
{
    pgas_kvs_item_t item = {
        .key = key, .key_bytes = key_bytes, .value = value, .capacity = capacity
    };
    pgas_status_t status = kvs ? check_item(&item) : PGAS_ERR_INVALID;
    if (status != PGAS_OK)
        return status;
    pgasi_key_t k;
    int home = find_home(kvs, key, key_bytes, &k);
    const pgasi_part_t *part = &kvs->parts[home];
    if (part->base)
        status = get_here(part, &k, NULL, &item);
    else
        status = run_one(kvs, &item);
    if (value_bytes_p && (status == PGAS_OK || status == PGAS_ERR_RANGE))
        *value_bytes_p = item.value_bytes;
    return status;
}

pgas_status_t pgas_kvs_get(pgas_kvs_t *kvs, const void *key, size_t key_bytes, void *value,
                           size_t capacity, size_t *value_bytes_p)
{
    if (PGAS_LIKELY(kvs && key && key_bytes == 8 && value)) {
        pgasi_key_t k;
        uint64_t version;
        size_t bytes;
        const pgasi_part_t *part = &kvs->parts[find_home(kvs, key, 8, &k)];
        if (PGAS_LIKELY(part->base)) {
            pgasi_seen_t seen = pgasi_part_see(part, &k);
            if (PGAS_LIKELY(pgasi_part_read(part, &k, &seen, value, capacity, &bytes, &version))) {
                if (value_bytes_p)
                    *value_bytes_p = bytes;
                return PGAS_OK;
            }
        }
    }
    return get_any(kvs, key, key_bytes, value, capacity, value_bytes_p);
}

static pgas_status_t write_one(pgas_kvs_t *kvs, pgas_kvs_item_t *item)
{
    pgasi_key_t key;
    pgas_status_t status = kvs ? check_item(item) : PGAS_ERR_INVALID;
    if (PGAS_UNLIKELY(!pgasi_kvs_is_attached()))
        status = PGAS_ERR_CONTEXT;
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
    pgasi_seen_t seen;
} target_t;

/* Finds the home of an item, and requests its bucket. */
PGAS_INLINE void find_target(const pgas_kvs_t *kvs, pgas_kvs_item_t *item, target_t *target)
{
    pgas_status_t status = check_item(item);
    if (PGAS_UNLIKELY(status != PGAS_OK)) {
        item->status = status;
        target->home = -1;
        return;
    }
    target->home = find_home(kvs, item->key, item->key_bytes, &target->key);
    const pgasi_part_t *part = &kvs->parts[target->home];
    if (PGAS_LIKELY(part->base))
        pgasi_part_prefetch_bucket(part, &target->key);
}

static inline void fetch_block(const pgas_kvs_t *kvs, target_t *target)
{
    if (PGAS_UNLIKELY(target->home < 0))
        return;
    const pgasi_part_t *part = &kvs->parts[target->home];
    if (PGAS_LIKELY(part->base)) {
        target->seen = pgasi_part_see(part, &target->key);
        pgasi_part_fetch(part, &target->seen);
    }
}

static inline pgas_status_t do_here(pgas_kvs_t *kvs, const target_t *target, pgas_kvs_item_t *item)
{
    if (PGAS_UNLIKELY(item->op != PGAS_KVS_GET))
        return write_here(kvs, target->home, &target->key, item);
    return get_here(&kvs->parts[target->home], &target->key, &target->seen, item);
}

/* ---- other nodes ---- */

/* A run whose items go to other nodes. */
typedef struct {
    pgas_kvs_t *kvs;
    pgas_kvs_item_t *items;
    pgas_sync_t *sync;          /* the caller's; NULL: the run waits */
    bool is_single;             /* one item: it is sent by itself, and overtakes nothing */
    pgasi_batch_t *batch;       /* NULL: nothing was sent yet */
    pgasi_outgoing_t *outgoing; /* [n] of the team; NULL for a single item */
    /* bits of the hashes of keys that are read, or written, by items that may be under way */
    uint64_t reads[FILTER_WORDS], writes[FILTER_WORDS];
} far_run_t;

static pgas_status_t begin_far(far_run_t *run)
{
    pgas_status_t status = run->sync ? PGAS_OK : pgasi_kvs_may_wait();
    if (__atomic_load_n(&run->kvs->broken, __ATOMIC_RELAXED))
        status = PGAS_ERR_PEER;
    if (status != PGAS_OK)
        return status;
    run->batch = malloc(sizeof *run->batch);
    run->outgoing = run->is_single ? NULL : calloc((size_t)run->kvs->n, sizeof *run->outgoing);
    if (!run->batch || (!run->outgoing && !run->is_single)) {
        free(run->batch);
        free(run->outgoing);
        run->batch = NULL;
        return PGAS_ERR_NO_MEMORY;
    }
    *run->batch = (pgasi_batch_t){ .kvs = run->kvs,
                                   .items = run->items,
                                   .sync = run->sync ? run->sync : &run->batch->own,
                                   .missing = 1 };
    if (run->sync)
        pgasi_kvs_enlist(run->batch);
    if (!run->is_single) {
        memset(run->reads, 0, sizeof run->reads);
        memset(run->writes, 0, sizeof run->writes);
    }
    pgas_sync_add(run->batch->sync, 1);
    return PGAS_OK;
}

/* Whether items of this key are under way that the new one must not overtake, or a key with the
 * same bit has some. A large item, or one that has to be sent again, would be overtaken by
 * others. */
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

static void flush_far(const far_run_t *run)
{
    for (int i = 0; i < run->kvs->n; i++)
        pgasi_kvs_flush(run->batch, &run->outgoing[i], i);
}

/* Waits until at most so many items are under way. */
static void wait_below(pgasi_batch_t *batch, int64_t most)
{
    while (__atomic_load_n(&batch->missing, __ATOMIC_ACQUIRE) > most)
        if (pgas_progress() == 0 && __atomic_load_n(&batch->kvs->broken, __ATOMIC_ACQUIRE))
            pgasi_kvs_end_lost(batch);
}

/* Waits until no item is under way. */
static pgas_status_t settle(far_run_t *run)
{
    pgas_status_t status = pgasi_kvs_may_wait();
    if (status != PGAS_OK)
        return status;
    flush_far(run);
    wait_below(run->batch, 1);
    memset(run->reads, 0, sizeof run->reads);
    memset(run->writes, 0, sizeof run->writes);
    return PGAS_OK;
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

/* While many items are under way it waits, so that memory of the homes is bounded. Items that are
 * in no message yet count, so these messages go first. */
static void limit_items(const far_run_t *run)
{
    if (__atomic_load_n(&run->batch->missing, __ATOMIC_RELAXED) <= ITEMS_UNDER_WAY ||
        pgasi_kvs_may_wait() != PGAS_OK)
        return;
    flush_far(run);
    wait_below(run->batch, ITEMS_UNDER_WAY / 2);
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
    if (!run->is_single)
        note_under_way(run, target->key.hash, writes);
    __atomic_add_fetch(&run->batch->missing, 1, __ATOMIC_RELAXED);
    pgas_sync_add(run->batch->sync, 1);
    __atomic_store_n(&item->status, PGAS_INPROGRESS, __ATOMIC_RELEASE);
    /* a death either finds the item, or is known when the item is sent */
    __atomic_store_n(&run->batch->n_begun, index + 1, __ATOMIC_SEQ_CST);
    pgasi_store(&run->kvs->calls, pgasi_load(&run->kvs->calls) + 1);
    if (run->is_single)
        status = pgasi_kvs_send_one(run->batch, target->home, (uint32_t)index, false);
    else
        status =
            pgasi_kvs_send(run->batch, &run->outgoing[target->home], target->home, (uint32_t)index);
    if (status != PGAS_OK) {
        if (pgasi_kvs_claim(item, status))
            pgasi_kvs_complete(run->batch, 1);
        return status;
    }
    limit_items(run);
    return PGAS_INPROGRESS;
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

static pgas_status_t end_far(far_run_t *run)
{
    if (!run->is_single) {
        flush_far(run);
        for (int i = 0; i < run->kvs->n; i++)
            free(run->outgoing[i].at);
        free(run->outgoing);
    }
    pgasi_batch_t *waited = run->sync ? NULL : run->batch;
    pgasi_kvs_complete(run->batch, 1);
    return waited ? wait_for_all(waited) : PGAS_OK;
}

/* The state of a run. */
typedef struct {
    far_run_t far;
    pgas_status_t first; /* error of an item that was complete at once */
    bool wrote;
} run_t;

static inline void do_item(run_t *run, const target_t *target, size_t index)
{
    pgas_kvs_t *kvs = run->far.kvs;
    pgas_kvs_item_t *item = &run->far.items[index];
    pgas_status_t status = item->status;
    if (PGAS_LIKELY(target->home >= 0)) {
        run->wrote |= item->op != PGAS_KVS_GET;
        if (PGAS_LIKELY(kvs->parts[target->home].base))
            status = do_here(kvs, target, item);
        else
            status = do_far(&run->far, target, index);
        if (status == PGAS_INPROGRESS)
            return; /* the reply sets the item's status, perhaps already */
        item->status = status;
    }
    if (PGAS_UNLIKELY(status != PGAS_OK && run->first == PGAS_OK))
        run->first = status;
}

/* The buckets of a group are requested, then its blocks. By then the first buckets are there. */
static void do_items(run_t *run, size_t n)
{
    target_t targets[GROUP];
    const pgas_kvs_t *kvs = run->far.kvs;
    for (size_t at = 0; at < n; at += GROUP) {
        size_t m = PGASI_MIN(n - at, GROUP);
        for (size_t i = 0; i < m; i++)
            find_target(kvs, &run->far.items[at + i], &targets[i]);
        for (size_t i = 0; i < m; i++)
            fetch_block(kvs, &targets[i]);
        for (size_t i = 0; i < m; i++)
            do_item(run, &targets[i], at + i);
    }
}

/* Replies have set statuses, also of items before the first one that failed here. */
static pgas_status_t first_error(const pgas_kvs_item_t *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (items[i].status != PGAS_OK)
            return items[i].status;
    return PGAS_OK;
}

/* The log could not be written: writes on this node are in memory only. Homes of other nodes report
 * such an error in their replies. */
static void fail_writes(const pgas_kvs_t *kvs, pgas_kvs_item_t *items, size_t n,
                        pgas_status_t status)
{
    pgasi_key_t key;
    for (size_t i = 0; i < n; i++)
        if (items[i].op != PGAS_KVS_GET && items[i].status == PGAS_OK &&
            kvs->parts[find_home(kvs, items[i].key, items[i].key_bytes, &key)].base)
            items[i].status = status;
}

pgas_status_t pgas_kvs_run(pgas_kvs_t *kvs, pgas_kvs_item_t *items, size_t n, pgas_sync_t *sync)
{
    if (!kvs || (n > 0 && !items))
        return PGAS_ERR_INVALID;
    if (n > UINT32_MAX)
        return PGAS_ERR_LIMIT;
    if (PGAS_UNLIKELY(!pgasi_kvs_is_attached()))
        return PGAS_ERR_CONTEXT;
    run_t run; /* the rest is for a run that sends something */
    run.far.kvs = kvs;
    run.far.items = items;
    run.far.sync = sync;
    run.far.is_single = n == 1;
    run.far.batch = NULL;
    run.first = PGAS_OK;
    run.wrote = false;
    do_items(&run, n);
    pgas_status_t committed = run.wrote ? pgasi_kvs_commit(kvs) : PGAS_OK;
    if (committed != PGAS_OK)
        fail_writes(kvs, items, n, committed);
    bool sent = run.far.batch != NULL;
    pgas_status_t ended = sent ? end_far(&run.far) : PGAS_OK;
    ended = ended == PGAS_OK ? committed : ended;
    if (sync)
        return ended;
    pgas_status_t first = sent ? first_error(items, n) : run.first;
    return first == PGAS_OK ? ended : first;
}
