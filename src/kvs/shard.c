/* The shard of a snapshot that one rank writes. Records are encoded straight into a block of 512
 * KiB. It stays in the processor's cache until its checksum is known and the system has copied
 * it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/checks.h"
#include "kvs/reader.h"
#include "kvs/snapshot.h"

#define BLOCK_BYTES (512u << 10)

pgas_status_t pgasi_kvs_shard_path(char *path, const char *manifest_path, uint64_t generation,
                                   uint64_t rank, bool fresh)
{
    if (generation > 0)
        return pgasi_kvs_path(path, "%s.%" PRIu64 ".%" PRIu64, manifest_path, generation, rank);
    return pgasi_kvs_path(path, "%s.%" PRIu64 "%s", manifest_path, rank, fresh ? ".new" : "");
}

/* ---- writing ---- */

static pgas_status_t write_failed(const pgasi_kvs_shard_t *shard, int error)
{
    PGASI_ERROR("kvs", "%s: cannot write it: %s", shard->path, strerror(error));
    return error == ENOMEM ? PGAS_ERR_NO_MEMORY : PGAS_ERR_IO;
}

static bool make_room(pgasi_kvs_shard_t *shard, size_t bytes)
{
    if (bytes <= shard->capacity)
        return true;
    free(shard->block);
    shard->block = malloc(sizeof(pgasi_kvs_block_head_t) + bytes);
    shard->capacity = shard->block ? bytes : 0;
    return shard->block != NULL;
}

pgas_status_t pgasi_kvs_shard_create(pgasi_kvs_shard_t *shard, const char *manifest_path,
                                     const pgasi_kvs_file_head_t *head)
{
    memset(shard, 0, sizeof *shard);
    shard->head = *head;
    shard->fd = -1;
    pgas_status_t status =
        pgasi_kvs_shard_path(shard->path, manifest_path, head->generation, head->rank, true);
    if (status != PGAS_OK)
        return status;
    int error = make_room(shard, BLOCK_BYTES) ? 0 : ENOMEM;
    if (error == 0) {
        shard->fd = open(shard->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        error = shard->fd < 0 ? errno : pgasi_kvs_pwrite(shard->fd, head, sizeof *head, 0);
    }
    shard->at = sizeof *head;
    return error == 0 ? PGAS_OK : write_failed(shard, error);
}

static pgas_status_t write_block(pgasi_kvs_shard_t *shard, pgasi_kvs_block_kind_t kind)
{
    pgasi_kvs_block_head_t head;
    head = pgasi_kvs_block_head(&shard->head, kind, shard->at, 0, shard->block + sizeof head,
                                shard->bytes);
    memcpy(shard->block, &head, sizeof head);
    size_t bytes = sizeof head + shard->bytes;
    int error = pgasi_kvs_pwrite(shard->fd, shard->block, bytes, shard->at);
    if (error != 0)
        return write_failed(shard, error);
    shard->at += bytes;
    shard->bytes = 0;
    return PGAS_OK;
}

pgas_status_t pgasi_kvs_shard_add(const pgasi_kvs_record_t *record, void *arg)
{
    pgasi_kvs_shard_t *shard = arg;
    size_t bytes = pgasi_kvs_record_bytes(record);
    if (shard->capacity - shard->bytes < bytes) {
        pgas_status_t status =
            shard->bytes > 0 ? write_block(shard, PGASI_KVS_BLOCK_RECORDS) : PGAS_OK;
        if (status != PGAS_OK)
            return status;
        if (!make_room(shard, bytes))
            return write_failed(shard, ENOMEM);
    }
    pgasi_kvs_record_encode(record, (unsigned char *)shard->block + sizeof(pgasi_kvs_block_head_t) +
                                        shard->bytes);
    shard->bytes += bytes;
    shard->info.n_records++;
    return PGAS_OK;
}

static pgas_status_t write_end(pgasi_kvs_shard_t *shard)
{
    pgasi_kvs_end_t end = { shard->info.n_records, shard->info.last_version };
    pgas_status_t status = shard->bytes > 0 ? write_block(shard, PGASI_KVS_BLOCK_RECORDS) : PGAS_OK;
    if (status != PGAS_OK)
        return status;
    memcpy(shard->block + sizeof(pgasi_kvs_block_head_t), &end, sizeof end);
    shard->bytes = sizeof end;
    status = write_block(shard, PGASI_KVS_BLOCK_END);
    shard->info.bytes = shard->at;
    return status == PGAS_OK && fsync(shard->fd) != 0 ? write_failed(shard, errno) : status;
}

pgas_status_t pgasi_kvs_shard_finish(pgasi_kvs_shard_t *shard, pgas_status_t status,
                                     uint64_t last_version, pgasi_kvs_shard_info_t *info_p)
{
    shard->info.last_version = last_version;
    if (status == PGAS_OK)
        status = write_end(shard);
    if (shard->fd >= 0 && close(shard->fd) != 0 && status == PGAS_OK)
        status = write_failed(shard, errno);
    if (status == PGAS_OK)
        status = pgasi_kvs_sync_folder(shard->path);
    if (status != PGAS_OK && shard->fd >= 0)
        pgasi_kvs_remove(shard->path);
    free(shard->block);
    if (status == PGAS_OK)
        *info_p = shard->info;
    return status;
}

/* ---- reading ---- */

/* Opens the file of a shard if it is that of the manifest.
 * @return PGAS_ERR_NOT_FOUND: there is no such file, or it belongs to another snapshot */
static pgas_status_t open_shard(const char *path, const pgasi_kvs_manifest_t *manifest,
                                uint64_t rank, pgasi_kvs_file_head_t *head, int *fd_p,
                                pgasi_kvs_read_t *found)
{
    int fd;
    pgas_status_t status = pgasi_kvs_open(path, &fd);
    if (status != PGAS_OK)
        return status;
    status = pgasi_kvs_read_head(fd, PGASI_KVS_FILE_SHARD, head, found);
    if (status == PGAS_OK && (head->id != manifest->id || head->rank != rank ||
                              head->generation != manifest->generation))
        status = PGAS_ERR_NOT_FOUND;
    if (status == PGAS_OK)
        *fd_p = fd;
    else
        close(fd);
    return status;
}

/* Finds the file of a shard under one of its names. */
static pgas_status_t find_shard(const char *manifest_path, const pgasi_kvs_manifest_t *manifest,
                                uint64_t rank, char *path, pgasi_kvs_file_head_t *head, int *fd_p)
{
    pgasi_kvs_read_t found = { .wrong = "" };
    pgas_status_t status = PGAS_ERR_NOT_FOUND;
    int n_names = manifest->generation > 0 ? 1 : 2;
    for (int i = n_names - 1; i >= 0 && status != PGAS_OK; i--) {
        pgas_status_t named =
            pgasi_kvs_shard_path(path, manifest_path, manifest->generation, rank, i == 1);
        if (named != PGAS_OK)
            return named;
        status = open_shard(path, manifest, rank, head, fd_p, &found);
    }
    if (status == PGAS_ERR_FORMAT)
        PGASI_ERROR("kvs", "%s: it is damaged: %s", path, found.wrong);
    if (status == PGAS_ERR_NOT_FOUND)
        PGASI_ERROR("kvs",
                    "%s: the snapshot %s needs it, but it is missing, or a file of another "
                    "snapshot has its name",
                    path, manifest_path);
    return status == PGAS_ERR_NOT_FOUND ? PGAS_ERR_FORMAT : status;
}

static pgas_status_t check_shard(const pgasi_kvs_read_t *found, const pgasi_kvs_shard_info_t *info,
                                 const char *path)
{
    if (found->good_bytes == info->bytes && found->n_records == info->n_records)
        return PGAS_OK;
    PGASI_ERROR("kvs", "%s: it does not have the size that the manifest names", path);
    return PGAS_ERR_FORMAT;
}

pgas_status_t pgasi_kvs_shard_read(const char *manifest_path, const pgasi_kvs_manifest_t *manifest,
                                   uint64_t rank, pgasi_kvs_record_fn_t fn, void *arg)
{
    pgasi_kvs_path_t path;
    pgasi_kvs_file_head_t head;
    pgasi_kvs_read_t found = { .wrong = "" };
    int fd;
    pgas_status_t status = find_shard(manifest_path, manifest, rank, path, &head, &fd);
    if (status != PGAS_OK)
        return status;
    status = pgasi_kvs_read_records(fd, PGASI_KVS_FILE_SHARD, &head, fn, arg, &found);
    close(fd);
    if (status == PGAS_OK)
        return check_shard(&found, &manifest->shards[rank], path);
    if (found.wrong[0])
        PGASI_ERROR("kvs", "%s: it is damaged at offset %" PRIu64 ": %s", path, found.good_bytes,
                    found.wrong);
    return status;
}

pgas_status_t pgasi_kvs_shard_settle(const char *manifest_path,
                                     const pgasi_kvs_manifest_t *manifest, uint64_t rank)
{
    pgasi_kvs_path_t fresh, final;
    pgasi_kvs_file_head_t head;
    pgasi_kvs_read_t found = { .wrong = "" };
    int fd = -1;
    pgas_status_t status = pgasi_kvs_shard_path(fresh, manifest_path, 0, rank, true);
    if (status == PGAS_OK)
        status = pgasi_kvs_shard_path(final, manifest_path, 0, rank, false);
    if (status != PGAS_OK)
        return status;
    if (open_shard(fresh, manifest, rank, &head, &fd, &found) != PGAS_OK)
        return PGAS_OK;
    close(fd);
    return pgasi_kvs_rename(fresh, final);
}
