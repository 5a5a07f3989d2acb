/* Operations: a key's home is found, and the work is done there if it is on this node.
 *
 * A run of several items takes three steps for each group of them, so that the misses of a group
 * overlap. */
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "kvs/far_run.h"
#include "kvs/part_read.h"

#define GROUP 32 /* items whose misses overlap */

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

/* @return PGAS_INPROGRESS: it is under way, sync counts it, and its reply sets its status */
static pgas_status_t run_single(pgas_kvs_t *kvs, pgas_kvs_item_t *item, pgas_sync_t *sync)
{
    pgas_status_t status = check_item(item);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    pgasi_key_t key;
    int home = find_home(kvs, item->key, item->key_bytes, &key);
    const pgasi_part_t *part = &kvs->parts[home];
    if (!part->base)
        return pgasi_far_single(kvs, home, &key, item, sync);
    if (item->op == PGAS_KVS_GET)
        return get_here(part, &key, NULL, item);
    status = write_here(kvs, home, &key, item);
    pgas_status_t committed = pgasi_kvs_commit(kvs);
    return status == PGAS_OK ? committed : status;
}

static pgas_status_t give_size(const pgas_kvs_item_t *item, pgas_status_t status,
                               size_t *value_bytes_p)
{
    if (value_bytes_p && (status == PGAS_OK || status == PGAS_ERR_RANGE))
        *value_bytes_p = item->value_bytes;
    return status;
}

/* Everything that pgas_kvs_get does not do inline, in two functions: the second one is for a key
 * whose home, on another node, is known. It takes a copy, so that pgas_kvs_get's key may stay in
 * registers. */
static __attribute__((noinline)) pgas_status_t get_any(pgas_kvs_t *kvs, const void *key,
                                                       size_t key_bytes, void *value,
                                                       size_t capacity, size_t *value_bytes_p)
{
    pgas_kvs_item_t item = {
        .key = key, .key_bytes = key_bytes, .value = value, .capacity = capacity
    };
    pgas_status_t status = kvs ? run_single(kvs, &item, NULL) : PGAS_ERR_INVALID;
    return give_size(&item, status, value_bytes_p);
}
static __attribute__((noinline)) pgas_status_t get_far(pgas_kvs_t *kvs, int home, pgasi_key_t key,
                                                       void *value, size_t capacity,
                                                       size_t *value_bytes_p)
{
    pgas_kvs_item_t item = {
        .key = key.key, .key_bytes = key.bytes, .value = value, .capacity = capacity
    };
    return give_size(&item, pgasi_far_single(kvs, home, &key, &item, NULL), value_bytes_p);
}

pgas_status_t pgas_kvs_get(pgas_kvs_t *kvs, const void *key, size_t key_bytes, void *value,
                           size_t capacity, size_t *value_bytes_p)
{
    if (PGAS_LIKELY(kvs && key && key_bytes == 8 && value)) {
        pgasi_key_t k;
        uint64_t version;
        size_t bytes;
        int home = find_home(kvs, key, 8, &k);
        const pgasi_part_t *part = &kvs->parts[home];
        if (PGAS_UNLIKELY(!part->base))
            return get_far(kvs, home, k, value, capacity, value_bytes_p);
        pgasi_seen_t seen = pgasi_part_see(part, &k);
        if (PGAS_LIKELY(pgasi_part_read(part, &k, &seen, value, capacity, &bytes, &version))) {
            if (value_bytes_p)
                *value_bytes_p = bytes;
            return PGAS_OK;
        }
    }
    return get_any(kvs, key, key_bytes, value, capacity, value_bytes_p);
}

static pgas_status_t write_one(pgas_kvs_t *kvs, pgas_kvs_item_t *item)
{
    if (PGAS_UNLIKELY(!pgasi_kvs_is_attached()))
        return PGAS_ERR_CONTEXT;
    return kvs ? run_single(kvs, item, NULL) : PGAS_ERR_INVALID;
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

/* The state of a run. */
typedef struct {
    pgasi_far_run_t far;
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
            status = pgasi_far_add(&run->far, target->home, &target->key, index);
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
    if (n == 1) {
        pgas_status_t status = run_single(kvs, items, sync);
        if (status != PGAS_INPROGRESS)
            items->status = status;
        return sync && status != PGAS_ERR_IO ? PGAS_OK : status;
    }
    run_t run;
    pgasi_far_init(&run.far, kvs, items, sync);
    run.first = PGAS_OK;
    run.wrote = false;
    do_items(&run, n);
    pgas_status_t committed = run.wrote ? pgasi_kvs_commit(kvs) : PGAS_OK;
    if (committed != PGAS_OK)
        fail_writes(kvs, items, n, committed);
    bool sent = run.far.batch != NULL;
    pgas_status_t ended = sent ? pgasi_far_end(&run.far) : PGAS_OK;
    ended = ended == PGAS_OK ? committed : ended;
    if (sync)
        return ended;
    pgas_status_t first = sent ? first_error(items, n) : run.first;
    return first == PGAS_OK ? ended : first;
}
