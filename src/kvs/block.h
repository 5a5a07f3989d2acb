/** The form of the store's files: a head, then blocks. Pure functions between structs and bytes.
 *
 *  All three kinds of file have it: a log, a shard of a snapshot, and the manifest of a snapshot.
 *  Each block has a head with two checksums, of itself and of its contents. The checksum of a
 *  block's head depends on the head of the file, and the head contains its own offset. So a block
 *  of another file, or at another place, is not taken for a block of this one.
 *
 *  A log is written while programs die and machines fail, so its end may be torn. Every head of a
 *  block says up to which offset the file was on the disk at that time. A bad block before such an
 *  offset is damage. Otherwise it is the end of what the log has kept. */
#ifndef PGASI_KVS_BLOCK_H
#define PGASI_KVS_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    PGASI_KVS_FILE_LOG = 1,
    PGASI_KVS_FILE_SHARD,
    PGASI_KVS_FILE_MANIFEST,
    PGASI_KVS_FILE_N_KINDS
} pgasi_kvs_file_kind_t;

/** The begin of every file. */
typedef struct {
    unsigned char magic[8];
    uint32_t order;  /* PGASI_KVS_ORDER as the writer's machine stores it */
    uint16_t format; /* PGASI_KVS_FORMAT */
    uint16_t kind;   /* pgasi_kvs_file_kind_t */
    uint64_t id;     /* of a durable store, or of one snapshot elsewhere */
    uint64_t generation;
    uint32_t rank;    /* that wrote the file */
    uint32_t n_ranks; /* of the team that wrote it */
    uint64_t unused[2];
    uint64_t sum; /* XXH3 of all bytes before */
} pgasi_kvs_file_head_t;

#define PGASI_KVS_ORDER  UINT32_C(0x01020304)
#define PGASI_KVS_FORMAT 1

typedef enum {
    PGASI_KVS_BLOCK_RECORDS = 1,
    PGASI_KVS_BLOCK_MANIFEST,
    PGASI_KVS_BLOCK_END, /* of a file that is complete; contents: pgasi_kvs_end_t */
    PGASI_KVS_BLOCK_N_KINDS
} pgasi_kvs_block_kind_t;

typedef struct {
    uint32_t magic;  /* PGASI_KVS_BLOCK_MAGIC */
    uint32_t kind;   /* pgasi_kvs_block_kind_t */
    uint64_t offset; /* of this head in the file */
    uint64_t bytes;  /* of the contents, which follow */
    uint64_t synced; /* a log: all bytes before this offset were on the disk */
    uint64_t contents_sum;
    uint64_t sum; /* XXH3 of all bytes before, seeded with that of the file's head */
} pgasi_kvs_block_head_t;

#define PGASI_KVS_BLOCK_MAGIC UINT32_C(0x6b5f9d3e)

typedef struct {
    uint64_t n_records;
    uint64_t last_version; /* a shard: not below the versions in the file; a log: 0 */
} pgasi_kvs_end_t;

/** Makes the head of a file. */
pgasi_kvs_file_head_t pgasi_kvs_file_head(pgasi_kvs_file_kind_t kind, uint64_t id,
                                          uint64_t generation, uint32_t rank, uint32_t n_ranks);

/** @return NULL: the head is sound and of that kind; otherwise what is wrong with it */
const char *pgasi_kvs_file_head_wrong(const pgasi_kvs_file_head_t *head,
                                      pgasi_kvs_file_kind_t kind);

/** Makes the head of a block whose contents are there. */
pgasi_kvs_block_head_t pgasi_kvs_block_head(const pgasi_kvs_file_head_t *file,
                                            pgasi_kvs_block_kind_t kind, uint64_t offset,
                                            uint64_t synced, const void *contents, size_t bytes);

/** Whether this is the head of a block of that file at that offset. */
bool pgasi_kvs_block_head_good(const pgasi_kvs_block_head_t *head,
                               const pgasi_kvs_file_head_t *file, uint64_t offset);

/** Whether the contents are those for which the head was made. */
bool pgasi_kvs_block_good(const pgasi_kvs_block_head_t *head, const void *contents);

#endif
