/** The append log of one rank: the writes that this rank carried out.
 *
 *      position = pgasi_kvs_log_append(log, &record);    under the lock of the bucket
 *      status = pgasi_kvs_log_commit(log, position);     without it, before the write returns
 *
 *  Append copies the record to a chunk in memory. Commit writes all chunks with one thread for all
 *  threads that wait (group commit). The order of records in a log does not matter, because each
 *  has a version.
 *
 *  A write that has been applied may be appended later, without the lock, as long as this happens
 *  before it returns. A snapshot then still has it: the scan begins after the rotation, so either
 *  the scan sees the write, or the new log has it.
 *
 *  After a failed write no record is logged any more, and every commit returns PGAS_ERR_IO, until
 *  a rotation begins a new file. The snapshot that follows has all the writes. */
#ifndef PGASI_KVS_LOG_H
#define PGASI_KVS_LOG_H

#include "kvs/block.h"
#include "kvs/record.h"
#include "pgas/kvs.h"
#include "pgas/status.h"

typedef struct pgasi_kvs_log pgasi_kvs_log_t;

typedef struct {
    const char *dir;
    uint64_t id; /* of the store */
    uint64_t generation;
    uint32_t rank, n_ranks;
    pgas_kvs_durability_t durability;
} pgasi_kvs_log_opts_t;

/** Creates the log of a rank with a new file, which must not exist.
 *  @return PGAS_ERR_IO, PGAS_ERR_NO_MEMORY, PGAS_ERR_LIMIT: logged */
pgas_status_t pgasi_kvs_log_create(const pgasi_kvs_log_opts_t *opts, pgasi_kvs_log_t **log_p);

/** Writes what is left, marks the file as complete, and frees the log. No other thread uses it. */
pgas_status_t pgasi_kvs_log_destroy(pgasi_kvs_log_t *log);

/** Appends a record to a chunk in memory, without any input or output. Any thread.
 *  Cost:   a spin lock and a copy. The copy of a record above 256 KiB is outside of that lock.
 *  @return its position, above 0, and above all positions of logs that were created before */
uint64_t pgasi_kvs_log_append(pgasi_kvs_log_t *log, const pgasi_kvs_record_t *record);

/** Returns when the system has all records up to a position; with PGAS_KVS_SYNC_ALWAYS, when they
 *  are on the disk. Any thread. Position 0: nothing. For several appends of a thread, one commit
 *  of the last position is enough.
 *  @return PGAS_ERR_IO  the record is not in the log, or may not be; the log of the program says
 *                       why, once for a file */
pgas_status_t pgasi_kvs_log_commit(pgasi_kvs_log_t *log, uint64_t position);

/** Begins the file of another generation. Records that were appended before are in the old file,
 *  and on the disk when it returns. Any one thread; others may append and commit.
 *  @return PGAS_ERR_IO  the log goes on in the old file, or the old file is not on the disk */
pgas_status_t pgasi_kvs_log_rotate(pgasi_kvs_log_t *log, uint64_t generation);

/** Bytes written since create. Any thread. */
uint64_t pgasi_kvs_log_bytes(const pgasi_kvs_log_t *log);

/** The file name of a rank's log. */
pgas_status_t pgasi_kvs_log_path(char *path, const char *dir, uint64_t generation, uint64_t rank);
#define PGASI_KVS_LOG_PREFIX "log."

#endif
