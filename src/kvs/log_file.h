/** The file of a log, for one thread at a time: blocks are written at its end. */
#ifndef PGASI_KVS_LOG_FILE_H
#define PGASI_KVS_LOG_FILE_H

#include <stdbool.h>
#include "kvs/block.h"
#include "kvs/files.h"
#include "pgas/status.h"

typedef struct {
    int fd;
    pgasi_kvs_path_t path;
    pgasi_kvs_file_head_t head;
    uint64_t end;       /* of the whole blocks in the file */
    uint64_t synced;    /* up to here the file is on the disk; atomic */
    uint64_t n_records; /* in the file */
    bool sync_failed;   /* what the disk has is unknown, also after later syncs */
} pgasi_kvs_log_file_t;

/** Creates a file that does not exist, and puts its head and its name on the disk. It logs errors.
 *  On an error nothing is left. */
pgas_status_t pgasi_kvs_log_file_create(pgasi_kvs_log_file_t *file, const char *path,
                                        const pgasi_kvs_file_head_t *head);

/** Writes a block: the first bytes of `block` are room for its head. If the write fails, the file
 *  is cut back, and the error is logged. */
pgas_status_t pgasi_kvs_log_file_write(pgasi_kvs_log_file_t *file, pgasi_kvs_block_kind_t kind,
                                       void *block, size_t contents_bytes, uint64_t n_records);

/** Puts all whole blocks on the disk. Another thread may write meanwhile. It logs errors. */
pgas_status_t pgasi_kvs_log_file_sync(pgasi_kvs_log_file_t *file, uint64_t end);

/** Writes the block that ends the file. */
pgas_status_t pgasi_kvs_log_file_end(pgasi_kvs_log_file_t *file);

#endif
