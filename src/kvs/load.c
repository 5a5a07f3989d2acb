/* pgas_kvs_load: each rank reads shards of a snapshot, and puts their records in batches. */
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "kvs/durable.h"
#include "kvs/kvs.h"
#include "kvs/snapshot.h"
#include "pgas/kvs.h"

#define BATCH_ITEMS 512
#define BATCH_BYTES (256u << 10)

typedef struct {
    pgas_kvs_t *kvs;
    size_t n, bytes;
    pgas_kvs_item_t items[BATCH_ITEMS];
    char data[BATCH_BYTES]; /* keys and values, because a record is valid for one call only */
} batch_t;

static pgas_status_t run_batch(batch_t *batch)
{
    pgas_status_t status =
        batch->n > 0 ? pgas_kvs_run(batch->kvs, batch->items, batch->n, NULL) : PGAS_OK;
    batch->n = 0;
    batch->bytes = 0;
    return status;
}

static pgas_kvs_item_t item_of(const pgasi_kvs_record_t *record)
{
    return (pgas_kvs_item_t){
        .op = PGAS_KVS_PUT,
        .key = record->key,
        .key_bytes = record->key_bytes,
        .value = (void *)(uintptr_t)record->value, /* a put does not change it */
        .value_bytes = record->value_bytes,
        .expires_ms = record->expires_ms,
    };
}

static void *store(batch_t *batch, const void *bytes, size_t n)
{
    char *at = batch->data + batch->bytes;
    if (n > 0)
        memcpy(at, bytes, n);
    batch->bytes += n;
    return at;
}

static pgas_status_t put_record(const pgasi_kvs_record_t *record, void *arg)
{
    batch_t *batch = arg;
    size_t bytes = record->key_bytes + record->value_bytes;
    pgas_kvs_item_t item = item_of(record);
    if (record->deleted)
        return PGAS_OK;
    if (batch->n == BATCH_ITEMS || BATCH_BYTES - batch->bytes < bytes) {
        pgas_status_t status = run_batch(batch);
        if (status != PGAS_OK)
            return status;
    }
    if (bytes > BATCH_BYTES)
        return pgas_kvs_run(batch->kvs, &item, 1, NULL);
    item.key = store(batch, record->key, record->key_bytes);
    item.value = store(batch, record->value, record->value_bytes);
    batch->items[batch->n++] = item;
    return PGAS_OK;
}

static pgas_status_t load_shards(pgas_kvs_t *kvs, const char *path,
                                 const pgasi_kvs_manifest_t *manifest)
{
    pgas_team_t *team = kvs->team;
    batch_t *batch = malloc(sizeof *batch);
    pgas_status_t status = batch ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    if (batch) {
        batch->kvs = kvs;
        batch->n = batch->bytes = 0;
    }
    for (uint64_t i = (uint64_t)pgas_team_rank(team); i < manifest->n_shards && status == PGAS_OK;
         i += (uint64_t)pgas_team_size(team))
        status = pgasi_kvs_shard_read(path, manifest, i, put_record, batch);
    if (status == PGAS_OK)
        status = run_batch(batch);
    free(batch);
    return status;
}

pgas_status_t pgas_kvs_load(pgas_kvs_t *kvs, const char *path)
{
    if (!kvs || !path)
        return PGAS_ERR_INVALID;
    pgas_team_t *team = kvs->team;
    pgasi_kvs_manifest_t manifest = { .shards = NULL };
    pgas_status_t status = PGAS_OK;
    if (pgas_team_rank(team) == 0)
        status = pgasi_kvs_manifest_read(path, &manifest);
    if (status == PGAS_ERR_NOT_FOUND) {
        PGASI_ERROR("kvs", "%s: there is no snapshot of this name", path);
        status = PGAS_ERR_IO;
    }
    status = pgasi_kvs_share_manifest(team, status, &manifest);
    if (status == PGAS_OK)
        status = pgasi_kvs_agree(team, load_shards(kvs, path, &manifest));
    free(manifest.shards);
    return status;
}
