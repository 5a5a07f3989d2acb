/* Between the files of a durable store and its tables: this logs changes, restores records, and
 * scans a home. */
#include <stdlib.h>
#include "base/checks.h"
#include "kvs/durable.h"
#include "kvs/kvs.h"
#include "pgas/coll.h"

#define BLOCKS_AHEAD  2 /* buckets whose blocks a scan requests before it needs them */
#define BUCKETS_AHEAD 6

/* The position of the last record that this thread has appended, for each store. It stays after a
 * commit, because a handler that runs inside a write may have committed it, and has got the error.
 * Positions of logs that have ended are below those of later logs. */
static __thread uint64_t appended[PGASI_KVS_MAX];

void pgasi_kvs_log_change(pgas_kvs_t *kvs, const pgas_kvs_item_t *now, bool deleted)
{
    const pgasi_kvs_record_t record = {
        .key = now->key,
        .key_bytes = now->key_bytes,
        .value = now->value,
        .value_bytes = now->value_bytes,
        .version = now->version,
        .expires_ms = now->expires_ms,
        .deleted = deleted,
    };
    appended[kvs->id] = pgasi_kvs_log_append(pgasi_kvs_durable_log(kvs->durable), &record);
}

pgas_status_t pgasi_kvs_log_sync(pgas_kvs_t *kvs)
{
    return pgasi_kvs_log_commit(pgasi_kvs_durable_log(kvs->durable), appended[kvs->id]);
}

/* ---- recovery ---- */

static pgas_status_t no_room(const pgas_kvs_t *kvs)
{
    PGASI_ERROR("kvs",
                "the records of the store's directory do not fit: raise the option bytes "
                "(%zu on this rank)",
                (size_t)kvs->parts[kvs->rank].bytes);
    return PGAS_ERR_NO_MEMORY;
}

pgas_status_t pgasi_kvs_restore(pgas_kvs_t *kvs, const pgasi_kvs_record_t *record)
{
    static const pgasi_write_hooks_t no_hooks;
    pgasi_key_t key;
    int home = pgasi_kvs_key(kvs, record->key, record->key_bytes, &key);
    const pgasi_part_t *part = &kvs->parts[home];
    const pgasi_write_hooks_t hooks = { .version = record->version };
    pgas_kvs_item_t item = {
        .op = record->deleted ? PGAS_KVS_DELETE : PGAS_KVS_PUT,
        .key = record->key,
        .key_bytes = record->key_bytes,
        .value = (void *)(uintptr_t)record->value, /* it is not changed */
        .value_bytes = record->value_bytes,
        .expires_ms = record->expires_ms,
    };
    size_t bytes = pgasi_block_bytes(record->key_bytes, record->value_bytes, true);
    pgas_status_t status = part->base ? PGAS_ERR_NO_MEMORY : PGAS_OK;
    while (status == PGAS_ERR_NO_MEMORY) {
        status = pgasi_part_write(part, &key, &item, &hooks);
        if (status == PGAS_ERR_NO_MEMORY &&
            !(kvs->evict && pgasi_part_evict(part, bytes, &no_hooks) == PGAS_OK))
            return no_room(kvs);
    }
    return status;
}

/* When all records are restored, the marks of deleted keys are not needed any more. */
pgas_status_t pgasi_kvs_restore_end(pgas_kvs_t *kvs, uint64_t last_version)
{
    static const pgasi_write_hooks_t no_hooks;
    const pgasi_part_t *part = &kvs->parts[kvs->rank];
    pgas_status_t status = PGAS_OK;
    pgasi_store(&part->head->version, PGASI_MAX(pgasi_load(&part->head->version), last_version));
    for (uint64_t i = 0; i < kvs->n_buckets && status == PGAS_OK; i++)
        status = pgasi_part_clear(part, (uint32_t)i, &no_hooks, true);
    return pgasi_kvs_agree(kvs->team, status);
}

bool pgasi_kvs_reads_file(const pgas_kvs_t *kvs, uint64_t i)
{
    uint64_t n_here = 0, mine = 0;
    for (int rank = 0; rank < kvs->n; rank++) {
        if (rank == kvs->rank)
            mine = n_here;
        n_here += kvs->parts[rank].base != NULL;
    }
    return i % n_here == mine;
}

/* ---- snapshots ---- */

static pgas_status_t give_records(const pgasi_scratch_t *scratch, pgasi_kvs_record_fn_t fn,
                                  void *arg)
{
    pgas_kvs_item_t item;
    size_t at = 0;
    pgas_status_t status = PGAS_OK;
    while (status == PGAS_OK && pgasi_scratch_next(scratch, &at, &item)) {
        const pgasi_kvs_record_t record = {
            .key = item.key,
            .key_bytes = item.key_bytes,
            .value = item.value,
            .value_bytes = item.value_bytes,
            .version = item.version,
            .expires_ms = item.expires_ms,
        };
        status = fn(&record, arg);
    }
    return status;
}

/* A home's blocks are in the order in which they were written, so each is a miss. */
static inline void prefetch_ahead(const pgasi_part_t *part, uint64_t i)
{
    if (i + BUCKETS_AHEAD < part->n_buckets)
        __builtin_prefetch(&part->buckets[i + BUCKETS_AHEAD]);
    if (i + BLOCKS_AHEAD >= part->n_buckets)
        return;
    const pgasi_bucket_t *bucket = &part->buckets[i + BLOCKS_AHEAD];
    for (int entry = 0; entry < PGASI_BUCKET_ENTRIES; entry++) {
        uint64_t word = pgasi_load(&bucket->entry[entry]);
        const char *at = part->base + pgasi_entry_offset(word) * 8;
        if (word) {
            __builtin_prefetch(at);
            __builtin_prefetch(at + PGASI_CACHELINE);
        }
    }
}

pgas_status_t pgasi_kvs_scan_records(pgas_kvs_t *kvs, pgasi_kvs_record_fn_t fn, void *arg)
{
    pgasi_scratch_t scratch = { NULL, 0, 0 };
    pgas_status_t status = PGAS_OK;
    for (uint64_t i = 0; i < kvs->n_buckets && status == PGAS_OK; i++) {
        prefetch_ahead(&kvs->parts[kvs->rank], i);
        scratch.bytes = 0; /* copies are appended */
        status = pgasi_kvs_copy_chain(kvs, kvs->rank, (uint32_t)i, true, &scratch);
        if (status == PGAS_ERR_NO_MEMORY)
            PGASI_ERROR("kvs", "no memory to copy keys for a snapshot");
        if (status == PGAS_OK)
            status = give_records(&scratch, fn, arg);
    }
    free(scratch.at);
    return status;
}

uint64_t pgasi_kvs_last_version(pgas_kvs_t *kvs)
{
    return pgasi_load(&kvs->parts[kvs->rank].head->version);
}
