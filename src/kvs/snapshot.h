/** Snapshots: shards, each with the records of one rank, and a manifest that names them. A snapshot
 *  exists from the moment at which its manifest has its name.
 *
 *  A durable store has generations: the shard of rank R is `kvs.G.R` beside the manifest `kvs`, and
 *  shards of other generations do not count. Other snapshots have generation 0: the shard is
 *  `path.R` for the manifest `path`. A shard is first `path.R.new`, because `path.R` may belong to
 *  the snapshot before. The identifier in the heads says which one belongs to the manifest. */
#ifndef PGASI_KVS_SNAPSHOT_H
#define PGASI_KVS_SNAPSHOT_H

#include "kvs/block.h"
#include "kvs/files.h"
#include "kvs/record.h"
#include "pgas/status.h"

typedef struct {
    uint64_t bytes; /* of the file */
    uint64_t n_records;
    uint64_t last_version; /* of the home */
} pgasi_kvs_shard_info_t;

typedef struct {
    uint64_t id;
    uint64_t generation;
    uint64_t n_shards;
    pgasi_kvs_shard_info_t *shards; /* of its n_shards ranks */
} pgasi_kvs_manifest_t;

/** Writes a manifest under a temporary name, and renames it. It logs errors. */
pgas_status_t pgasi_kvs_manifest_write(const char *path, const pgasi_kvs_manifest_t *manifest);

/** Reads a manifest. The caller frees its shards.
 *  @return PGAS_ERR_NOT_FOUND  there is no such file; it logs all other errors
 *          PGAS_ERR_FORMAT, PGAS_ERR_IO, PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_kvs_manifest_read(const char *path, pgasi_kvs_manifest_t *manifest);

/* ---- shards ---- */

typedef struct {
    int fd;
    pgasi_kvs_path_t path;
    pgasi_kvs_file_head_t head;
    pgasi_kvs_shard_info_t info;
    uint64_t at;     /* the offset of the next block */
    char *block;     /* room for its head, then records */
    size_t bytes;    /* of the records */
    size_t capacity; /* for records */
} pgasi_kvs_shard_t;

/** The name of the shard of a rank, final or, with `fresh`, before the manifest has its name. */
pgas_status_t pgasi_kvs_shard_path(char *path, const char *manifest_path, uint64_t generation,
                                   uint64_t rank, bool fresh);

/** Begins a shard under its fresh name; a file that has it is overwritten. It logs errors. */
pgas_status_t pgasi_kvs_shard_create(pgasi_kvs_shard_t *shard, const char *manifest_path,
                                     const pgasi_kvs_file_head_t *head);

/** Adds a record (pgasi_kvs_record_fn_t; arg is the shard). Records are encoded into a buffer that
 *  becomes a block with one checksum. It logs errors. */
pgas_status_t pgasi_kvs_shard_add(const pgasi_kvs_record_t *record, void *shard);

/** Writes the end, and puts the file on the disk. It logs errors. A file that failed (status) is
 *  removed. info_p gets what the manifest needs.
 *  @return status, or an error of the end */
pgas_status_t pgasi_kvs_shard_finish(pgasi_kvs_shard_t *shard, pgas_status_t status,
                                     uint64_t last_version, pgasi_kvs_shard_info_t *info_p);

/** Reads the shard of a rank of a snapshot. It logs errors, but not those of fn. */
pgas_status_t pgasi_kvs_shard_read(const char *manifest_path, const pgasi_kvs_manifest_t *manifest,
                                   uint64_t rank, pgasi_kvs_record_fn_t fn, void *arg);

/** Gives a shard of a complete snapshot its final name, if it still has the fresh one. */
pgas_status_t pgasi_kvs_shard_settle(const char *manifest_path,
                                     const pgasi_kvs_manifest_t *manifest, uint64_t rank);

#endif
