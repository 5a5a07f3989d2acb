/** Reads the records of a log or of a shard of a snapshot, with all checks. */
#ifndef PGASI_KVS_READER_H
#define PGASI_KVS_READER_H

#include "kvs/block.h"
#include "kvs/record.h"
#include "pgas/status.h"

typedef struct {
    uint64_t n_records;
    uint64_t last_version; /* of the records, and of the block at the end */
    uint64_t good_bytes;   /* of the file */
    uint64_t torn_bytes;   /* at its end, which the reader did not use; logs only */
    bool complete;         /* it has the block that ends a file */
    bool found_later;      /* there are sound blocks in the torn bytes */
    char wrong[160];       /* why the torn bytes are not used, or the file is refused */
} pgasi_kvs_read_t;

/** Reads the head of a file.
 *  @return PGAS_ERR_FORMAT  found->wrong says why
 *          PGAS_ERR_NOT_FOUND  a log that was torn before its head was complete; it has no records
 *          PGAS_ERR_IO      found->wrong says why */
pgas_status_t pgasi_kvs_read_head(int fd, pgasi_kvs_file_kind_t kind, pgasi_kvs_file_head_t *head,
                                  pgasi_kvs_read_t *found);

/** Reads one block: its head, and its contents into *buffer_p, which grows to *capacity_p bytes.
 *  @return PGAS_ERR_NOT_FOUND  the file ends at this offset
 *          PGAS_ERR_FORMAT     no sound block is there; found->wrong says why
 *          PGAS_ERR_IO, PGAS_ERR_NO_MEMORY  found->wrong says why */
pgas_status_t pgasi_kvs_read_block(int fd, const pgasi_kvs_file_head_t *file, uint64_t offset,
                                   pgasi_kvs_block_head_t *head, void **buffer_p,
                                   size_t *capacity_p, pgasi_kvs_read_t *found);

/** Gives each record of a log or a shard to fn. It logs nothing. Every record that fn gets is in a
 *  sound block.
 *  @return PGAS_ERR_FORMAT  the file is damaged. A log that is torn at its end is not damaged
 *          PGAS_ERR_IO, PGAS_ERR_NO_MEMORY  found->wrong says why
 *          the status of fn, if it is not PGAS_OK */
pgas_status_t pgasi_kvs_read_records(int fd, pgasi_kvs_file_kind_t kind,
                                     const pgasi_kvs_file_head_t *head, pgasi_kvs_record_fn_t fn,
                                     void *arg, pgasi_kvs_read_t *found);

#endif
