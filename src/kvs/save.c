/* Snapshots of a store, written by all ranks of its team. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "base/checks.h"
#include "kvs/durable.h"
#include "kvs/files.h"
#include "kvs/kvs.h"
#include "kvs/snapshot.h"
#include "pgas/coll.h"
#include "pgas/kvs.h"

pgas_status_t pgasi_kvs_share_id(pgas_team_t *team, uint64_t *id_p)
{
    pgas_status_t status = PGAS_OK;
    if (pgas_team_rank(team) == 0 && getrandom(id_p, sizeof *id_p, 0) != (ssize_t)sizeof *id_p) {
        PGASI_ERROR("kvs", "no random number for a snapshot: %s", strerror(errno));
        status = PGAS_ERR_IO;
    }
    status = pgasi_kvs_agree(team, status);
    return status != PGAS_OK ? status : pgas_broadcast(team, id_p, sizeof *id_p, 0);
}

pgas_status_t pgasi_kvs_share_manifest(pgas_team_t *team, pgas_status_t status,
                                       pgasi_kvs_manifest_t *manifest)
{
    pgasi_kvs_shard_info_t *shards =
        pgas_team_rank(team) == 0 && status == PGAS_OK ? manifest->shards : NULL;
    status = pgasi_kvs_agree(team, status);
    if (status == PGAS_OK)
        status = pgas_broadcast(team, manifest, sizeof *manifest, 0);
    size_t bytes = status == PGAS_OK ? manifest->n_shards * sizeof *shards : 0;
    if (!shards)
        shards = malloc(bytes + 1);
    if (status == PGAS_OK)
        status = pgasi_kvs_agree(team, shards ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK && bytes > 0)
        status = pgas_broadcast(team, shards, bytes, 0);
    manifest->shards = shards;
    if (status != PGAS_OK) {
        free(shards);
        manifest->shards = NULL;
    }
    return status;
}

/* ---- writing ---- */

static pgas_status_t write_shard(pgas_kvs_t *kvs, const char *manifest_path, uint64_t id,
                                 uint64_t generation, pgasi_kvs_shard_info_t *info_p)
{
    pgasi_kvs_shard_t *shard = malloc(sizeof *shard);
    pgas_team_t *team = kvs->team;
    if (!shard) {
        PGASI_ERROR("kvs", "%s: no memory to write a snapshot", manifest_path);
        return PGAS_ERR_NO_MEMORY;
    }
    pgasi_kvs_file_head_t head =
        pgasi_kvs_file_head(PGASI_KVS_FILE_SHARD, id, generation, (uint32_t)pgas_team_rank(team),
                            (uint32_t)pgas_team_size(team));
    pgas_status_t status = pgasi_kvs_shard_create(shard, manifest_path, &head);
    if (status == PGAS_OK)
        status = pgasi_kvs_scan_records(kvs, pgasi_kvs_shard_add, shard);
    status = pgasi_kvs_shard_finish(shard, status, pgasi_kvs_last_version(kvs), info_p);
    free(shard);
    return status;
}

static void remove_shard(const char *manifest_path, uint64_t generation, uint64_t rank, bool fresh)
{
    pgasi_kvs_path_t path;
    if (pgasi_kvs_shard_path(path, manifest_path, generation, rank, fresh) == PGAS_OK)
        pgasi_kvs_remove(path);
}

/* After an error the shards stay, because the manifest may already have its name. */
static pgas_status_t write_manifest(pgas_team_t *team, const char *path,
                                    const pgasi_kvs_manifest_t *manifest)
{
    pgas_status_t status = PGAS_OK;
    if (pgas_team_rank(team) == 0)
        status = pgasi_kvs_manifest_write(path, manifest);
    return pgasi_kvs_agree(team, status);
}

pgas_status_t pgasi_kvs_write_snapshot(pgas_kvs_t *kvs, const char *manifest_path, uint64_t id,
                                       uint64_t generation)
{
    pgas_team_t *team = kvs->team;
    uint64_t n = (uint64_t)pgas_team_size(team);
    pgasi_kvs_shard_info_t mine = { 0 }, *shards = malloc(n * sizeof *shards);
    pgas_status_t status =
        shards ? write_shard(kvs, manifest_path, id, generation, &mine) : PGAS_ERR_NO_MEMORY;
    bool wrote = status == PGAS_OK;
    status = pgasi_kvs_agree(team, status);
    if (status == PGAS_OK)
        status = pgas_allgather(team, &mine, shards, sizeof mine);
    if (status != PGAS_OK && wrote)
        remove_shard(manifest_path, generation, (uint64_t)pgas_team_rank(team), true);
    if (status == PGAS_OK)
        status = write_manifest(team, manifest_path,
                                &(pgasi_kvs_manifest_t){ .id = id,
                                                         .generation = generation,
                                                         .n_shards = n,
                                                         .shards = shards });
    free(shards);
    return status;
}

/* ---- a snapshot elsewhere ---- */

/* An earlier save may have ended before the shards of its snapshot had their final names. They get
 * them here, because this save needs the fresh names. */
static pgas_status_t settle(pgas_team_t *team, const char *path, uint64_t *n_shards_p)
{
    pgasi_kvs_manifest_t former = { .shards = NULL };
    pgas_status_t status = PGAS_OK;
    if (pgas_team_rank(team) == 0)
        status = pgasi_kvs_manifest_read(path, &former);
    if (status == PGAS_ERR_NOT_FOUND || status == PGAS_ERR_FORMAT) /* no snapshot to keep */
        status = PGAS_OK;
    if (status == PGAS_OK && former.generation > 0) {
        PGASI_ERROR("kvs", "%s: it belongs to the directory of a durable store. Use another name",
                    path);
        status = PGAS_ERR_INVALID;
        free(former.shards);
    }
    status = pgasi_kvs_share_manifest(team, status, &former);
    if (status != PGAS_OK)
        return status;
    for (uint64_t i = (uint64_t)pgas_team_rank(team); i < former.n_shards && status == PGAS_OK;
         i += (uint64_t)pgas_team_size(team))
        status = pgasi_kvs_shard_settle(path, &former, i);
    *n_shards_p = former.n_shards;
    free(former.shards);
    return pgasi_kvs_agree(team, status);
}

/* The snapshot is already complete: this gives shards their final names, and removes old ones. */
static pgas_status_t finish(pgas_team_t *team, const char *path, uint64_t id, uint64_t n_former)
{
    uint64_t rank = (uint64_t)pgas_team_rank(team), n = (uint64_t)pgas_team_size(team);
    const pgasi_kvs_manifest_t manifest = { .id = id };
    pgas_status_t status = pgasi_kvs_shard_settle(path, &manifest, rank);
    for (uint64_t i = n + rank; i < n_former; i += n)
        remove_shard(path, 0, i, false);
    return pgasi_kvs_agree(team, status);
}

static pgas_status_t save_to(pgas_kvs_t *kvs, const char *path)
{
    pgas_team_t *team = kvs->team;
    uint64_t id = 0, n_former = 0;
    pgas_status_t status = settle(team, path, &n_former);
    if (status == PGAS_OK)
        status = pgasi_kvs_share_id(team, &id);
    if (status == PGAS_OK)
        status = pgasi_kvs_write_snapshot(kvs, path, id, 0);
    return status == PGAS_OK ? finish(team, path, id, n_former) : status;
}

pgas_status_t pgas_kvs_save(pgas_kvs_t *kvs, const char *path)
{
    if (!kvs || (!path && !kvs->durable))
        return PGAS_ERR_INVALID;
    return path ? save_to(kvs, path) : pgasi_kvs_durable_save(kvs, kvs->durable);
}
