/* Operations: a key's home is found, and the work is done there if it is on this node.
 *
 * A run of several items first requests the buckets of 16 of them into the processor's cache, then
 * their blocks, then does the work. So the misses of 16 items overlap. */
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "base/log.h"
#include "kvs/kvs.h"

#define WINDOW 16

static inline int find_home(const pgas_kvs_t *kvs, const void *key, size_t bytes, pgasi_key_t *k)
{
    uint64_t hash = XXH3_64bits(key, bytes);
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

pgas_status_t pgasi_kvs_may_wait(void)
{
    if (pgas_thread_slot(pgas_thread_self()) == PGAS_SLOT_SERVICE - 1)
        return PGAS_ERR_CONTEXT;
    pgas_status_t status = pgas_thread_attach(); /* it nests; a plain handler may not call it */
    return status == PGAS_OK ? pgas_thread_detach() : status;
}

/* ---- writes at a home of this node ---- */

static const pgasi_write_hooks_t no_hooks;

static void log_full(pgas_kvs_t *kvs, const pgasi_part_t *part)
{
    if (!__atomic_exchange_n(&kvs->full_logged, true, __ATOMIC_RELAXED))
        PGASI_WARN("kvs",
                   "a rank's part of %zu bytes is full: raise the option bytes, or ask for "
                   "eviction",
                   (size_t)part->bytes);
}

pgas_status_t pgasi_kvs_write(pgas_kvs_t *kvs, int home, const pgasi_key_t *key,
                              pgas_kvs_item_t *item, bool may_wait)
{
    const pgasi_part_t *part = &kvs->parts[home];
    (void)may_wait;
    for (;;) {
        pgas_status_t status = pgasi_part_write(part, key, item, &no_hooks);
        if (PGAS_LIKELY(status != PGAS_ERR_NO_MEMORY))
            return status;
        size_t bytes = pgasi_block_bytes(key->bytes, item->value_bytes, true);
        if (!kvs->evict || bytes > part->bytes / 2 || !pgasi_part_evict(part, bytes, &no_hooks)) {
            log_full(kvs, part);
            return status;
        }
    }
}

pgas_status_t pgasi_kvs_commit(pgas_kvs_t *kvs)
{
    (void)kvs;
    return PGAS_OK;
}

pgas_status_t pgasi_kvs_copy_chain(pgas_kvs_t *kvs, int home, uint32_t bucket,
                                   pgasi_scratch_t *scratch)
{
    return pgasi_part_copy(&kvs->parts[home], bucket, &no_hooks, scratch);
}

pgas_status_t pgasi_kvs_clear_chain(pgas_kvs_t *kvs, int home, uint32_t bucket)
{
    return pgasi_part_clear(&kvs->parts[home], bucket, &no_hooks, false);
}

/* ---- one key ---- */

static inline pgas_status_t check_key(const pgas_kvs_t *kvs, const void *key, size_t key_bytes)
{
    if (PGAS_UNLIKELY(!kvs || !key))
        return PGAS_ERR_INVALID;
    return PGAS_LIKELY(pgasi_kvs_key_is_legal(key_bytes)) ? PGAS_OK : PGAS_ERR_LIMIT;
}

static pgas_status_t run_one(pgas_kvs_t *kvs, pgas_kvs_item_t *item)
{
    pgas_status_t status = pgas_kvs_run(kvs, item, 1, NULL);
    return status;
}

pgas_status_t pgas_kvs_get(pgas_kvs_t *kvs, const void *key, size_t key_bytes, void *value,
                           size_t capacity, size_t *value_bytes_p)
{
    pgas_kvs_item_t item = {
        .key = key, .key_bytes = key_bytes, .value = value, .capacity = capacity
    };
    pgas_status_t status = check_key(kvs, key, key_bytes);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    pgasi_key_t k;
    int home = find_home(kvs, key, key_bytes, &k);
    if (PGAS_LIKELY(kvs->parts[home].base))
        status = pgasi_part_get(&kvs->parts[home], &k, &item);
    else
        status = run_one(kvs, &item);
    if (value_bytes_p && (status == PGAS_OK || status == PGAS_ERR_RANGE))
        *value_bytes_p = item.value_bytes;
    return status;
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
    return run_one(kvs, &item);
}

pgas_status_t pgas_kvs_delete(pgas_kvs_t *kvs, const void *key, size_t key_bytes)
{
    pgas_kvs_item_t item = { .key = key, .key_bytes = key_bytes, .op = PGAS_KVS_DELETE };
    return run_one(kvs, &item);
}

pgas_status_t pgas_kvs_fetch_add(pgas_kvs_t *kvs, const void *key, size_t key_bytes, int64_t delta,
                                 int64_t *old_p)
{
    pgas_kvs_item_t item = {
        .key = key, .key_bytes = key_bytes, .value = &delta, .op = PGAS_KVS_ADD
    };
    pgas_status_t status = run_one(kvs, &item);
    if (status == PGAS_OK && old_p)
        *old_p = delta;
    return status;
}

/* ---- many keys ---- */

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

static pgas_status_t do_here(pgas_kvs_t *kvs, const target_t *target, pgas_kvs_item_t *item)
{
    if (item->op == PGAS_KVS_GET)
        return pgasi_part_get(&kvs->parts[target->home], &target->key, item);
    return pgasi_kvs_write(kvs, target->home, &target->key, item, true);
}

pgas_status_t pgas_kvs_run(pgas_kvs_t *kvs, pgas_kvs_item_t *items, size_t n, pgas_sync_t *sync)
{
    target_t targets[WINDOW];
    pgas_status_t first = PGAS_OK;
    (void)sync;
    if (!kvs || (n > 0 && !items))
        return PGAS_ERR_INVALID;
    bool wrote = false;
    for (size_t at = 0; at < n; at += WINDOW) {
        int n_now = (int)PGASI_MIN(n - at, WINDOW);
        prepare(kvs, items + at, n_now, targets);
        for (int i = 0; i < n_now; i++) {
            pgas_kvs_item_t *item = &items[at + (size_t)i];
            if (targets[i].home >= 0)
                item->status = do_here(kvs, &targets[i], item);
            wrote |= item->op != PGAS_KVS_GET;
            if (PGAS_UNLIKELY(item->status != PGAS_OK && first == PGAS_OK))
                first = item->status;
        }
    }
    if (wrote) {
        pgas_status_t status = pgasi_kvs_commit(kvs);
        first = first == PGAS_OK ? status : first;
    }
    return first;
}
