/* The manifest of a snapshot. See snapshot.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/checks.h"
#include "kvs/reader.h"
#include "kvs/snapshot.h"

/* The contents of the block: this, then a pgasi_kvs_shard_info_t for each shard. */
typedef struct {
    uint64_t n_shards;
} manifest_head_t;

PGASI_STATIC_ASSERT(sizeof(pgasi_kvs_shard_info_t) == 24, "no padding");

static int write_file(int fd, const pgasi_kvs_manifest_t *manifest)
{
    size_t shards_bytes = manifest->n_shards * sizeof *manifest->shards;
    size_t contents_bytes = sizeof(manifest_head_t) + shards_bytes;
    char *contents = malloc(contents_bytes);
    if (!contents)
        return ENOMEM;
    memcpy(contents, &(manifest_head_t){ manifest->n_shards }, sizeof(manifest_head_t));
    if (shards_bytes > 0)
        memcpy(contents + sizeof(manifest_head_t), manifest->shards, shards_bytes);
    pgasi_kvs_file_head_t file =
        pgasi_kvs_file_head(PGASI_KVS_FILE_MANIFEST, manifest->id, manifest->generation, 0,
                            (uint32_t)manifest->n_shards);
    pgasi_kvs_block_head_t block = pgasi_kvs_block_head(&file, PGASI_KVS_BLOCK_MANIFEST,
                                                        sizeof file, 0, contents, contents_bytes);
    int error = pgasi_kvs_pwrite(fd, &file, sizeof file, 0);
    if (error == 0)
        error = pgasi_kvs_pwrite(fd, &block, sizeof block, sizeof file);
    if (error == 0)
        error = pgasi_kvs_pwrite(fd, contents, contents_bytes, sizeof file + sizeof block);
    free(contents);
    if (error == 0 && fsync(fd) != 0)
        error = errno;
    return error;
}

pgas_status_t pgasi_kvs_manifest_write(const char *path, const pgasi_kvs_manifest_t *manifest)
{
    pgasi_kvs_path_t temporary;
    pgas_status_t status = pgasi_kvs_path(temporary, "%s.tmp", path);
    if (status != PGAS_OK)
        return status;
    int fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int error = fd < 0 ? errno : write_file(fd, manifest);
    if (fd >= 0 && close(fd) != 0 && error == 0)
        error = errno;
    if (error == 0)
        status = pgasi_kvs_rename(temporary, path);
    else {
        PGASI_ERROR("kvs", "%s: cannot write it: %s", temporary, strerror(error));
        status = error == ENOMEM ? PGAS_ERR_NO_MEMORY : PGAS_ERR_IO;
    }
    if (error != 0 && fd >= 0)
        pgasi_kvs_remove(temporary);
    return status;
}

static pgas_status_t take_manifest(const pgasi_kvs_block_head_t *block, char *contents,
                                   pgasi_kvs_manifest_t *manifest, pgasi_kvs_read_t *found)
{
    manifest_head_t head = { 0 };
    bool good = block->kind == PGASI_KVS_BLOCK_MANIFEST && block->bytes >= sizeof head;
    if (good) {
        memcpy(&head, contents, sizeof head);
        uint64_t rest = block->bytes - sizeof head;
        good = rest % sizeof *manifest->shards == 0 &&
               head.n_shards == rest / sizeof *manifest->shards;
    }
    if (!good) {
        snprintf(found->wrong, sizeof found->wrong, "its list of shards is malformed");
        return PGAS_ERR_FORMAT;
    }
    manifest->n_shards = head.n_shards;
    manifest->shards = malloc(head.n_shards * sizeof *manifest->shards + 1);
    if (!manifest->shards)
        return PGAS_ERR_NO_MEMORY;
    memcpy(manifest->shards, contents + sizeof head, head.n_shards * sizeof *manifest->shards);
    return PGAS_OK;
}

static pgas_status_t read_file(int fd, pgasi_kvs_manifest_t *manifest, pgasi_kvs_read_t *found)
{
    pgasi_kvs_file_head_t file;
    pgasi_kvs_block_head_t block;
    void *contents = NULL;
    size_t capacity = 0;
    pgas_status_t status = pgasi_kvs_read_head(fd, PGASI_KVS_FILE_MANIFEST, &file, found);
    if (status == PGAS_OK)
        status = pgasi_kvs_read_block(fd, &file, sizeof file, &block, &contents, &capacity, found);
    if (status == PGAS_ERR_NOT_FOUND) {
        snprintf(found->wrong, sizeof found->wrong, "its end is missing");
        status = PGAS_ERR_FORMAT;
    }
    if (status == PGAS_OK)
        status = take_manifest(&block, contents, manifest, found);
    free(contents);
    manifest->id = file.id;
    manifest->generation = file.generation;
    return status;
}

pgas_status_t pgasi_kvs_manifest_read(const char *path, pgasi_kvs_manifest_t *manifest)
{
    pgasi_kvs_read_t found = { .wrong = "no memory to read it" };
    int fd;
    pgas_status_t status = pgasi_kvs_open(path, &fd);
    if (status != PGAS_OK)
        return status;
    memset(manifest, 0, sizeof *manifest);
    status = read_file(fd, manifest, &found);
    if (status != PGAS_OK)
        PGASI_ERROR("kvs", "%s: the manifest of a snapshot cannot be used: %s", path, found.wrong);
    close(fd);
    return status;
}
