/** A durable store: its directory, its log and its snapshots. Functions that say "Collective" give
 *  all ranks of the team the same status. The first rank that detects an error logs it.
 *
 *  The directory has
 *      lock      shared by all ranks of the store that uses it
 *      kvs       the manifest: the generation G of the snapshot, and its shards
 *      kvs.G.R   the shard that rank R wrote
 *      log.H.R   logs; those with H >= G count, and each start and each snapshot begins new ones
 *  Other shards and logs with these names are left from a crash, and are deleted.
 *
 *  A crash leaves the old manifest with all its shards and all later logs, or the new manifest. */
#ifndef PGASI_KVS_DURABLE_H
#define PGASI_KVS_DURABLE_H

#include "kvs/log.h"
#include "kvs/newest.h"
#include "kvs/record.h"
#include "kvs/snapshot.h"
#include "pgas/kvs.h"
#include "pgas/team.h"

typedef struct pgasi_kvs_durable pgasi_kvs_durable_t;

/* ---- what the tables provide (restore.c) ---- */

typedef struct {
    pgas_kvs_t *kvs;
    pgasi_newest_t newest;
} pgasi_kvs_recovery_t;

/** The first pass over the files (pgasi_kvs_record_fn_t; arg is the recovery): notes the version of
 *  a record. A record of another node's key is ignored. */
pgas_status_t pgasi_kvs_restore_note(const pgasi_kvs_record_t *record, void *recovery);

/** Between the passes: compares what the ranks of a node have noted. Later versions are above
 *  last_version. Collective. */
pgas_status_t pgasi_kvs_restore_share(pgasi_kvs_recovery_t *recovery, uint64_t last_version);

/** The second pass: puts the key, if the record is its newest one and does not delete it.
 *  @return PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_kvs_restore_put(const pgasi_kvs_record_t *record, void *recovery);

/** Whether this rank reads the i-th file, in both passes: one rank of each node does. */
bool pgasi_kvs_reads_file(const pgas_kvs_t *kvs, uint64_t i);

/** Gives all records of this rank's home to fn, with their versions. Other threads may write; the
 *  records of a bucket are consistent. fn runs without a lock. */
pgas_status_t pgasi_kvs_scan_records(pgas_kvs_t *kvs, pgasi_kvs_record_fn_t fn, void *arg);

/** The highest version that this rank's home has given. */
uint64_t pgasi_kvs_last_version(pgas_kvs_t *kvs);

/** Appends a change to the log (pgasi_write_hooks_t.changed). */
void pgasi_kvs_log_change(pgas_kvs_t *kvs, const pgas_kvs_item_t *now, bool deleted);

/** Commits what this thread has appended. @return PGAS_ERR_IO */
pgas_status_t pgasi_kvs_log_sync(pgas_kvs_t *kvs);

/* ---- what the store uses ---- */

/** Locks the directory, which it creates if needed, restores its records, and begins new logs.
 *  Collective.
 *  @return PGAS_ERR_BUSY    another store uses the directory
 *          PGAS_ERR_IO, PGAS_ERR_FORMAT  no file was changed
 *          the status of a restore */
pgas_status_t pgasi_kvs_durable_open(pgas_kvs_t *kvs, const char *dir,
                                     pgas_kvs_durability_t durability,
                                     pgasi_kvs_durable_t **durable_p);

/** Ends the log, when this rank does not write any more. */
pgas_status_t pgasi_kvs_durable_close(pgasi_kvs_durable_t *durable);

/** The log of this rank. It stays the same over rotations. */
pgasi_kvs_log_t *pgasi_kvs_durable_log(pgasi_kvs_durable_t *durable);

/** Bytes that this rank has written to logs. */
uint64_t pgasi_kvs_durable_bytes(const pgasi_kvs_durable_t *durable);

/** Writes a snapshot to the directory, and begins the log anew. Collective. */
pgas_status_t pgasi_kvs_durable_save(pgas_kvs_t *kvs, pgasi_kvs_durable_t *durable);

/* ---- shared with save.c and load.c; collective ---- */

/** Gives rank 0's manifest, or its error (status), to all ranks. Each rank frees its list. */
pgas_status_t pgasi_kvs_share_manifest(pgas_team_t *team, pgas_status_t status,
                                       pgasi_kvs_manifest_t *manifest);

/** Writes the shard of this rank, then rank 0 writes the manifest of all shards. */
pgas_status_t pgasi_kvs_write_snapshot(pgas_kvs_t *kvs, const char *manifest_path, uint64_t id,
                                       uint64_t generation);

/** A random identifier, the same on all ranks. */
pgas_status_t pgasi_kvs_share_id(pgas_team_t *team, uint64_t *id_p);

#endif
