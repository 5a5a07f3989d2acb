/* The directory of a durable store: recovery, new generations, and files that a crash has left. See
 * durable.h. */
#include "kvs/durable.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/checks.h"
#include "kvs/files.h"
#include "kvs/kvs.h"
#include "kvs/reader.h"
#include "pgas/coll.h"

#define SHARD_PREFIX "kvs."

struct pgasi_kvs_durable {
    pgas_team_t *team;
    char *dir;
    int lock_fd;
    uint64_t id;
    uint64_t generation; /* of the logs, on all ranks */
    pgasi_kvs_path_t manifest_path;
    pgasi_kvs_log_t *log;
};

/* ---- the contents of the directory: rank 0 reads the names and sends them to all ranks ---- */

typedef struct {
    pgasi_kvs_manifest_t manifest;
    pgasi_kvs_name_t *logs; /* that count */
    size_t n_logs;
    uint64_t last_version;
} found_t;

static void free_found(found_t *found)
{
    free(found->manifest.shards);
    free(found->logs);
}

/* The first rank creates the directory, with a manifest of no shards. So a directory that has logs
 * and no manifest has lost it. */
static pgas_status_t begin_folder(pgasi_kvs_durable_t *d, found_t *found)
{
    pgasi_kvs_name_t *shards = NULL;
    size_t n_shards = 0;
    pgas_status_t status = pgasi_kvs_list(d->dir, SHARD_PREFIX, &shards, &n_shards);
    free(shards);
    if (status == PGAS_OK && n_shards + found->n_logs > 0) {
        PGASI_ERROR("kvs",
                    "%s: the manifest is missing, but the directory has shards or logs of a "
                    "store",
                    d->manifest_path);
        status = PGAS_ERR_FORMAT;
    }
    if (status != PGAS_OK)
        return status;
    found->manifest = (pgasi_kvs_manifest_t){ .id = d->id, .generation = 1 };
    return pgasi_kvs_manifest_write(d->manifest_path, &found->manifest);
}

static void drop_old_logs(found_t *found)
{
    size_t n_old = 0;
    while (n_old < found->n_logs && found->logs[n_old].generation < found->manifest.generation)
        n_old++;
    found->n_logs -= n_old;
    if (n_old > 0)
        memmove(found->logs, found->logs + n_old, found->n_logs * sizeof *found->logs);
}

static pgas_status_t look(pgasi_kvs_durable_t *d, found_t *found)
{
    pgas_status_t status =
        pgasi_kvs_list(d->dir, PGASI_KVS_LOG_PREFIX, &found->logs, &found->n_logs);
    if (status == PGAS_OK)
        status = pgasi_kvs_manifest_read(d->manifest_path, &found->manifest);
    if (status == PGAS_ERR_NOT_FOUND)
        status = begin_folder(d, found);
    if (status == PGAS_OK)
        drop_old_logs(found);
    return status;
}

static pgas_status_t share_logs(pgas_team_t *team, found_t *found)
{
    uint64_t n = found->n_logs;
    pgas_status_t status = pgas_broadcast(team, &n, sizeof n, 0);
    if (status != PGAS_OK || n == 0)
        return status;
    if (pgas_team_rank(team) != 0) {
        found->logs = malloc(n * sizeof *found->logs);
        found->n_logs = n;
    }
    status = pgasi_kvs_agree(team, found->logs ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    return status != PGAS_OK ? status
                             : pgas_broadcast(team, found->logs, n * sizeof *found->logs, 0);
}

static pgas_status_t look_all(pgasi_kvs_durable_t *d, found_t *found)
{
    pgas_status_t status = pgas_team_rank(d->team) == 0 ? look(d, found) : PGAS_OK;
    status = pgasi_kvs_share_manifest(d->team, status, &found->manifest);
    if (status == PGAS_OK)
        status = share_logs(d->team, found);
    d->id = found->manifest.id;
    d->generation = found->manifest.generation;
    if (found->n_logs > 0)
        d->generation = PGASI_MAX(d->generation, found->logs[found->n_logs - 1].generation);
    return status;
}

/* ---- recovery ---- */

typedef struct {
    pgasi_kvs_record_fn_t fn;
    pgasi_kvs_recovery_t *recovery;
    bool first;
} pass_t;

/* Later logs build on what was read here, so it must not vanish when the machine fails. */
static pgas_status_t report_log(const char *path, int fd, pgas_status_t status, const pass_t *pass,
                                const pgasi_kvs_read_t *found)
{
    if (status != PGAS_OK) {
        if (found->wrong[0])
            PGASI_ERROR("kvs", "%s: the log is damaged at offset %" PRIu64 ": %s", path,
                        found->good_bytes, found->wrong);
        return status;
    }
    if (!pass->first)
        return PGAS_OK;
    if (found->found_later)
        PGASI_WARN("kvs",
                   "%s: the last %" PRIu64 " bytes are lost, because the machine failed "
                   "before they were on the disk",
                   path, found->torn_bytes);
    else if (found->torn_bytes > 0)
        PGASI_INFO("kvs", "%s: its end, %" PRIu64 " bytes, is torn", path, found->torn_bytes);
    if (fdatasync(fd) != 0) {
        PGASI_ERROR("kvs", "%s: cannot sync the log: %s", path, strerror(errno));
        return PGAS_ERR_IO;
    }
    return PGAS_OK;
}

static pgas_status_t read_log(pgasi_kvs_durable_t *d, int fd, const pass_t *pass,
                              pgasi_kvs_read_t *read)
{
    pgasi_kvs_file_head_t head;
    pgas_status_t status = pgasi_kvs_read_head(fd, PGASI_KVS_FILE_LOG, &head, read);
    if (status == PGAS_ERR_NOT_FOUND)
        return PGAS_OK;
    if (status == PGAS_OK && head.id != d->id) {
        strcpy(read->wrong, "it belongs to another store");
        status = PGAS_ERR_FORMAT;
    }
    return status != PGAS_OK ? status
                             : pgasi_kvs_read_records(fd, PGASI_KVS_FILE_LOG, &head, pass->fn,
                                                      pass->recovery, read);
}

static pgas_status_t recover_log(pgasi_kvs_durable_t *d, const pass_t *pass, pgasi_kvs_name_t *name,
                                 uint64_t *last_version_p)
{
    pgasi_kvs_path_t path;
    pgasi_kvs_read_t read = { .wrong = "" };
    pgas_status_t status = pgasi_kvs_log_path(path, d->dir, name->generation, name->rank);
    if (status != PGAS_OK)
        return status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        PGASI_ERROR("kvs", "%s: cannot open the log: %s", path, strerror(errno));
        return PGAS_ERR_IO;
    }
    status = report_log(path, fd, read_log(d, fd, pass, &read), pass, &read);
    close(fd);
    *last_version_p = PGASI_MAX(*last_version_p, read.last_version);
    name->is_empty = read.n_records == 0;
    return status;
}

static pgas_status_t recover_file(pgasi_kvs_durable_t *d, const pass_t *pass, found_t *found,
                                  uint64_t i)
{
    uint64_t n_shards = found->manifest.n_shards;
    if (i < n_shards)
        return pgasi_kvs_shard_read(d->manifest_path, &found->manifest, i, pass->fn,
                                    pass->recovery);
    return recover_log(d, pass, &found->logs[i - n_shards], &found->last_version);
}

/* Each node reads all files, and keeps the records of its homes. */
static pgas_status_t recover_files(pgasi_kvs_durable_t *d, const pass_t *pass, found_t *found)
{
    uint64_t n_shards = found->manifest.n_shards;
    pgas_status_t status = PGAS_OK;
    for (uint64_t i = 0; i < n_shards + found->n_logs && status == PGAS_OK; i++)
        if (pgasi_kvs_reads_file(pass->recovery->kvs, i))
            status = recover_file(d, pass, found, i);
    for (uint64_t i = 0; i < n_shards; i++)
        found->last_version =
            PGASI_MAX(found->last_version, found->manifest.shards[i].last_version);
    return status;
}

static pgas_status_t recover(pgasi_kvs_durable_t *d, pgas_kvs_t *kvs, found_t *found)
{
    pgasi_kvs_recovery_t recovery = { .kvs = kvs, .newest.seed = d->id };
    const pass_t first = { pgasi_kvs_restore_note, &recovery, true };
    const pass_t second = { pgasi_kvs_restore_put, &recovery, false };
    uint64_t last = 0;
    pgas_status_t status = pgasi_kvs_agree(d->team, recover_files(d, &first, found));
    if (status == PGAS_OK)
        status = pgas_allreduce(d->team, &found->last_version, &last, 1, PGAS_U64, PGAS_MAX);
    if (status == PGAS_OK)
        status = pgasi_kvs_restore_share(&recovery, last);
    if (status == PGAS_OK)
        status = pgasi_kvs_agree(d->team, recover_files(d, &second, found));
    pgasi_newest_fini(&recovery.newest);
    return status;
}

/* ---- old files ---- */

static void remove_file(const pgasi_kvs_durable_t *d, const char *prefix,
                        const pgasi_kvs_name_t *name)
{
    pgasi_kvs_path_t path;
    if (pgasi_kvs_path(path, "%s/%s%" PRIu64 ".%" PRIu64, d->dir, prefix, name->generation,
                       name->rank) == PGAS_OK)
        pgasi_kvs_remove(path);
}

/* Logs of later generations count, shards of later ones are left from a crash. */
static void remove_others(const pgasi_kvs_durable_t *d, const char *prefix, uint64_t generation,
                          bool later_too)
{
    pgasi_kvs_name_t *names = NULL;
    size_t n = 0;
    if (pgasi_kvs_list(d->dir, prefix, &names, &n) != PGAS_OK)
        return;
    for (size_t i = 0; i < n; i++)
        if (names[i].generation < generation || (later_too && names[i].generation > generation))
            remove_file(d, prefix, &names[i]);
    free(names);
}

/* Each rank removes the logs without records that it has read. */
static void remove_empty_logs(const pgasi_kvs_durable_t *d, const found_t *found)
{
    for (size_t i = 0; i < found->n_logs; i++)
        if (found->logs[i].is_empty)
            remove_file(d, PGASI_KVS_LOG_PREFIX, &found->logs[i]);
}

/* Files that stay because of an error do no harm. */
static void clean(const pgasi_kvs_durable_t *d, uint64_t generation)
{
    if (pgas_team_rank(d->team) != 0)
        return;
    remove_others(d, PGASI_KVS_LOG_PREFIX, generation, false);
    remove_others(d, SHARD_PREFIX, generation, true);
}

/* The files still have the keys that recovery had to evict. A delete of an absent key writes no
 * record, so such a key would come back after its delete. A snapshot leaves it out. */
static pgas_status_t forget_evicted(pgasi_kvs_durable_t *d, pgas_kvs_t *kvs)
{
    uint64_t n = pgasi_load(&kvs->parts[kvs->rank].head->n_evicted);
    pgas_status_t status = pgas_allreduce(d->team, &n, &n, 1, PGAS_U64, PGAS_ADD);
    return status == PGAS_OK && n > 0 ? pgasi_kvs_durable_save(kvs, d) : status;
}

/* ---- begin and end ---- */

static pgas_status_t lock_folder(pgasi_kvs_durable_t *d)
{
    bool first = pgas_team_rank(d->team) == 0;
    pgas_status_t status = PGAS_OK;
    if (first && mkdir(d->dir, 0777) != 0 && errno != EEXIST) {
        PGASI_ERROR("kvs", "%s: cannot create the directory: %s", d->dir, strerror(errno));
        status = PGAS_ERR_IO;
    }
    if (first && status == PGAS_OK)
        status = pgasi_kvs_lock(d->dir, true, &d->lock_fd);
    status = pgasi_kvs_agree(d->team, status);
    if (status != PGAS_OK)
        return status;
    if (!first)
        status = pgasi_kvs_lock(d->dir, false, &d->lock_fd);
    return pgasi_kvs_agree(d->team, status);
}

static pgas_status_t begin_log(pgasi_kvs_durable_t *d, pgas_kvs_durability_t durability)
{
    const pgasi_kvs_log_opts_t opts = {
        .dir = d->dir,
        .id = d->id,
        .generation = ++d->generation,
        .rank = (uint32_t)pgas_team_rank(d->team),
        .n_ranks = (uint32_t)pgas_team_size(d->team),
        .durability = durability,
    };
    return pgasi_kvs_agree(d->team, pgasi_kvs_log_create(&opts, &d->log));
}

static pgas_status_t make_durable(pgas_kvs_t *kvs, const char *dir, pgasi_kvs_durable_t **durable_p)
{
    pgasi_kvs_durable_t *d = calloc(1, sizeof *d);
    if (!d)
        return PGAS_ERR_NO_MEMORY;
    d->team = kvs->team;
    d->lock_fd = -1;
    d->dir = strdup(dir);
    *durable_p = d;
    return d->dir ? pgasi_kvs_path(d->manifest_path, "%s/kvs", dir) : PGAS_ERR_NO_MEMORY;
}

pgas_status_t pgasi_kvs_durable_close(pgasi_kvs_durable_t *d)
{
    pgas_status_t status = PGAS_OK;
    if (!d)
        return PGAS_OK;
    if (d->log)
        status = pgasi_kvs_log_destroy(d->log);
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    free(d->dir);
    free(d);
    return status;
}

static pgas_status_t open_folder(pgas_kvs_t *kvs, pgasi_kvs_durable_t *d,
                                 pgas_kvs_durability_t durability)
{
    found_t found = { .logs = NULL };
    pgas_status_t status = lock_folder(d);
    if (status == PGAS_OK)
        status = pgasi_kvs_share_id(d->team, &d->id);
    if (status == PGAS_OK)
        status = look_all(d, &found);
    if (status == PGAS_OK)
        status = recover(d, kvs, &found);
    if (status == PGAS_OK)
        status = begin_log(d, durability);
    if (status == PGAS_OK) {
        clean(d, found.manifest.generation);
        remove_empty_logs(d, &found);
        status = forget_evicted(d, kvs);
    }
    free_found(&found);
    return status;
}

pgas_status_t pgasi_kvs_durable_open(pgas_kvs_t *kvs, const char *dir,
                                     pgas_kvs_durability_t durability,
                                     pgasi_kvs_durable_t **durable_p)
{
    pgasi_kvs_durable_t *d = NULL;
    pgas_status_t status = pgasi_kvs_agree(kvs->team, make_durable(kvs, dir, &d));
    if (status == PGAS_OK)
        status = open_folder(kvs, d, durability);
    if (status == PGAS_OK)
        *durable_p = d;
    else
        pgasi_kvs_durable_close(d);
    return status;
}

pgasi_kvs_log_t *pgasi_kvs_durable_log(pgasi_kvs_durable_t *d)
{
    return d->log;
}

uint64_t pgasi_kvs_durable_bytes(const pgasi_kvs_durable_t *d)
{
    return pgasi_kvs_log_bytes(d->log);
}

/* ---- a new generation ---- */

/* The agreement after the rotation is a barrier: no rank scans before all have rotated. A write
 * that is in an old log was applied before, so a scan finds it. If a step fails, the old snapshot
 * and all logs stay, and the next save takes the next generation. */
pgas_status_t pgasi_kvs_durable_save(pgas_kvs_t *kvs, pgasi_kvs_durable_t *d)
{
    uint64_t generation = ++d->generation;
    pgas_status_t status = pgasi_kvs_agree(d->team, pgasi_kvs_log_rotate(d->log, generation));
    if (status == PGAS_OK)
        status = pgasi_kvs_write_snapshot(kvs, d->manifest_path, d->id, generation);
    if (status == PGAS_OK)
        clean(d, generation);
    return status;
}
