/* Between the files of a durable store and its tables: this logs changes, restores records, and
 * scans a home. */
#include <inttypes.h>
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

static bool is_here(const pgas_kvs_t *kvs, int home)
{
    return kvs->parts[home].base != NULL;
}

pgas_status_t pgasi_kvs_restore_note(const pgasi_kvs_record_t *record, void *arg)
{
    pgasi_kvs_recovery_t *r = arg;
    pgasi_key_t key;
    int home = pgasi_kvs_key(r->kvs, record->key, record->key_bytes, &key);
    if (!is_here(r->kvs, home) ||
        pgasi_newest_note(&r->newest, record->key, record->key_bytes, record->version))
        return PGAS_OK;
    PGASI_ERROR("kvs", "no memory to restore %" PRIu64 " keys", r->newest.n);
    return PGAS_ERR_NO_MEMORY;
}

pgas_status_t pgasi_kvs_restore_share(pgasi_kvs_recovery_t *r, uint64_t last_version)
{
    pgas_kvs_t *kvs = r->kvs;
    int n = 0, *ranks = calloc((size_t)kvs->n, sizeof *ranks);
    pgas_status_t status = pgasi_kvs_agree(kvs->team, ranks ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    for (int i = 0; i < kvs->n && ranks; i++)
        if (is_here(kvs, i))
            ranks[n++] = i;
    if (status == PGAS_OK)
        status = pgasi_newest_share(&r->newest, kvs->team, ranks, n);
    free(ranks);
    pgasi_store(&kvs->parts[kvs->rank].head->version, last_version);
    return pgasi_kvs_agree(kvs->team, status);
}

static pgas_status_t no_room(const pgas_kvs_t *kvs)
{
    PGASI_ERROR("kvs",
                "the records of the store's directory do not fit: raise the option bytes "
                "(%zu on this rank)",
                (size_t)kvs->parts[kvs->rank].bytes);
    return PGAS_ERR_NO_MEMORY;
}

static pgas_status_t put(pgas_kvs_t *kvs, const pgasi_kvs_record_t *record)
{
    static const pgasi_write_hooks_t no_hooks;
    pgasi_key_t key;
    const pgasi_part_t *part =
        &kvs->parts[pgasi_kvs_key(kvs, record->key, record->key_bytes, &key)];
    const pgasi_write_hooks_t hooks = { .version = record->version };
    pgas_kvs_item_t item = {
        .op = PGAS_KVS_PUT,
        .key = record->key,
        .key_bytes = record->key_bytes,
        .value = (void *)(uintptr_t)record->value, /* it is not changed */
        .value_bytes = record->value_bytes,
        .expires_ms = record->expires_ms,
    };
    size_t bytes = pgasi_block_bytes(record->key_bytes, record->value_bytes, true);
    pgas_status_t status;
    while ((status = pgasi_part_write(part, &key, &item, &hooks)) == PGAS_ERR_NO_MEMORY)
        if (!kvs->evict || pgasi_part_evict(part, bytes, &no_hooks) != PGAS_OK)
            return no_room(kvs);
    return status;
}

pgas_status_t pgasi_kvs_restore_put(const pgasi_kvs_record_t *record, void *arg)
{
    pgasi_kvs_recovery_t *r = arg;
    bool newest = pgasi_newest_take(&r->newest, record->key, record->key_bytes, record->version);
    bool is_live = !record->deleted && !pgasi_kvs_has_expired(record->expires_ms);
    return newest && is_live ? put(r->kvs, record) : PGAS_OK;
}

bool pgasi_kvs_reads_file(const pgas_kvs_t *kvs, uint64_t i)
{
    uint64_t n_here = 0, mine = 0;
    for (int rank = 0; rank < kvs->n; rank++) {
        if (rank == kvs->rank)
            mine = n_here;
        n_here += is_here(kvs, rank);
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
