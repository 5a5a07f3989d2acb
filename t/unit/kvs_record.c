/* what: Records, shards of snapshots and manifests give what was written. Every flipped byte and
 *       every truncation of these files is found, before a wrong record is used.
 * source: src/kvs/record.h, block.h, reader.h, snapshot.h */
#include "base/log.h"
#include "kvs/reader.h"
#include "kvs/snapshot.h"
#include "pgas/kvs.h"
#include "t/random.h"
#include "t/unit/kvs_records.h"

#define ID      UINT64_C(0x1234567890abcdef)
#define N_SMALL 40 /* records of the shard whose bytes are flipped */

static char manifest_path[160];

/* ---- records ---- */

static void test_records(void)
{
    static unsigned char bytes[VALUE_BYTES_MAX + 100];
    bool same = true, sized = true, short_ones = true;
    for (uint64_t i = 0; i < 1000; i++) {
        pgasi_kvs_record_t got, want = numbered(i, (size_t)(i * 7919 % 3000));
        size_t n = pgasi_kvs_record_bytes(&want);
        sized = sized && pgasi_kvs_record_encode(&want, bytes) == bytes + n;
        same = same && pgasi_kvs_record_decode(bytes, n + 10, &got) == n && is_same(&got, &want);
        for (size_t k = 0; k < n; k += k < 64 ? 1 : 97)
            short_ones = short_ones && pgasi_kvs_record_decode(bytes, k, &got) == 0;
    }
    ok(same, "a record that is decoded is the one that was encoded");
    ok(sized, "it has the bytes that were announced");
    ok(short_ones, "a record that is cut off is none");
}

static void test_limits(void)
{
    static char key[PGAS_KVS_KEY_MAX];
    static unsigned char bytes[PGAS_KVS_KEY_MAX + 100];
    memset(key, 'k', sizeof key);
    pgasi_kvs_record_t got, want = { .key = key,
                                     .key_bytes = sizeof key,
                                     .value = "",
                                     .version = PGASI_KVS_VERSION_MAX,
                                     .expires_ms = INT64_MIN,
                                     .deleted = true };
    size_t n = pgasi_kvs_record_bytes(&want);
    pgasi_kvs_record_encode(&want, bytes);
    ok(pgasi_kvs_record_decode(bytes, n, &got) == n && is_same(&got, &want),
       "the longest key, the highest version, the lowest time");
    const uint32_t bad[] = { UINT32_C(1) << 31 | 1, (512u << 20) + 1, 0xffffffff };
    bool refused = true;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(bad); i++) {
        memcpy(bytes + 8, &bad[i], sizeof bad[i]);
        refused = refused && pgasi_kvs_record_decode(bytes, SIZE_MAX / 2, &got) == 0;
    }
    ok(refused, "a deleted record with a value, and too long a value, are no records");
}

/* ---- shards ---- */

static pgas_status_t write_shard(uint64_t generation, uint32_t rank, uint64_t n, size_t bytes,
                                 pgasi_kvs_shard_info_t *info)
{
    pgasi_kvs_shard_t shard;
    pgasi_kvs_file_head_t head = pgasi_kvs_file_head(PGASI_KVS_FILE_SHARD, ID, generation, rank, 2);
    pgas_status_t status = pgasi_kvs_shard_create(&shard, manifest_path, &head);
    for (uint64_t i = 0; i < n && status == PGAS_OK; i++) {
        pgasi_kvs_record_t record = numbered(i, bytes ? bytes : (size_t)(i * 7 % 90));
        status = pgasi_kvs_shard_add(&record, &shard);
    }
    return pgasi_kvs_shard_finish(&shard, status, 77777, info);
}

static pgasi_kvs_manifest_t manifest_of(pgasi_kvs_shard_info_t *info)
{
    return (pgasi_kvs_manifest_t){ .id = ID, .generation = 3, .n_shards = 1, .shards = info };
}

static void test_shard(uint64_t n, size_t bytes, const char *what)
{
    pgasi_kvs_shard_info_t info = { 0 };
    static seen_t seen;
    memset(&seen, 0, sizeof seen);
    ok(write_shard(3, 0, n, bytes, &info) == PGAS_OK && info.n_records == n, "a shard with %s",
       what);
    pgasi_kvs_manifest_t manifest = manifest_of(&info);
    pgas_status_t status = pgasi_kvs_shard_read(manifest_path, &manifest, 0, see, &seen);
    ok(status == PGAS_OK && seen.n_seen == n && seen.n_wrong == 0, "gives them back");
}

static pgas_status_t read_bytes(int fd, const unsigned char *bytes, size_t n, seen_t *seen,
                                pgasi_kvs_read_t *found)
{
    pgasi_kvs_file_head_t head;
    memset(seen, 0, sizeof *seen);
    memset(found, 0, sizeof *found);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, bytes, n, 0) != (ssize_t)n)
        bail("cannot write a copy");
    pgas_status_t status = pgasi_kvs_read_head(fd, PGASI_KVS_FILE_SHARD, &head, found);
    return status != PGAS_OK
               ? status
               : pgasi_kvs_read_records(fd, PGASI_KVS_FILE_SHARD, &head, see, seen, found);
}

static void test_damage(void)
{
    pgasi_kvs_shard_info_t info = { 0 };
    pgasi_kvs_path_t path;
    static seen_t seen;
    pgasi_kvs_read_t found;
    size_t n, n_missed = 0, n_wrong = 0, n_silent = 0;
    write_shard(3, 0, N_SMALL, 0, &info);
    pgasi_kvs_shard_path(path, manifest_path, 3, 0, false);
    unsigned char *bytes = file_contents(path, &n);
    int fd = open(path, O_RDWR);
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= (unsigned char)(1 << i % 8);
        n_missed += read_bytes(fd, bytes, n, &seen, &found) != PGAS_ERR_FORMAT;
        bytes[i] ^= (unsigned char)(1 << i % 8);
        n_wrong += seen.n_wrong;
        n_silent += found.wrong[0] == 0;
    }
    diag("%zu bytes flipped", n);
    is_int(n_missed, 0, "each flipped byte of a shard is found");
    for (size_t i = 0; i < n; i++) {
        n_missed += read_bytes(fd, bytes, i, &seen, &found) != PGAS_ERR_FORMAT;
        n_silent += found.wrong[0] == 0;
    }
    is_int(n_missed, 0, "and each truncation");
    is_int(n_wrong, 0, "no wrong record is used");
    is_int(n_silent, 0, "and each has a reason");
    bytes = realloc(bytes, n + 1);
    bytes[n] = 0;
    is_int(read_bytes(fd, bytes, n + 1, &seen, &found), PGAS_ERR_FORMAT, "so is one more byte");
    is_int(read_bytes(fd, bytes, n, &seen, &found), PGAS_OK, "the unharmed copy is good");
    is_int(seen.n_seen, N_SMALL, "and complete");
    close(fd);
    free(bytes);
}

static void test_mixed_up(void)
{
    pgasi_kvs_shard_info_t info = { 0 };
    static seen_t seen;
    write_shard(3, 0, 5, 0, &info);
    pgasi_kvs_manifest_t manifest = manifest_of(&info);
    manifest.id++;
    is_int(pgasi_kvs_shard_read(manifest_path, &manifest, 0, see, &seen), PGAS_ERR_FORMAT,
           "a shard of another snapshot is refused");
    manifest.id--;
    info.n_records++;
    is_int(pgasi_kvs_shard_read(manifest_path, &manifest, 0, see, &seen), PGAS_ERR_FORMAT,
           "so is one with fewer records than the manifest names");
    manifest.generation = 4;
    is_int(pgasi_kvs_shard_read(manifest_path, &manifest, 0, see, &seen), PGAS_ERR_FORMAT,
           "and one that is missing");
}

/* ---- fresh names ---- */

static void test_fresh(void)
{
    pgasi_kvs_shard_info_t info = { 0 };
    static seen_t seen;
    pgasi_kvs_path_t final, fresh;
    write_shard(0, 1, 5, 0, &info);
    pgasi_kvs_shard_info_t infos[2] = { info, info };
    pgasi_kvs_manifest_t manifest = { .id = ID, .n_shards = 2, .shards = infos };
    is_int(pgasi_kvs_shard_read(manifest_path, &manifest, 1, see, &seen), PGAS_OK,
           "a shard is found under its fresh name");
    is_int(pgasi_kvs_shard_settle(manifest_path, &manifest, 1), PGAS_OK, "it gets its final name");
    pgasi_kvs_shard_path(final, manifest_path, 0, 1, false);
    pgasi_kvs_shard_path(fresh, manifest_path, 0, 1, true);
    ok(access(final, F_OK) == 0 && access(fresh, F_OK) != 0, "and loses the other");
    is_int(pgasi_kvs_shard_settle(manifest_path, &manifest, 1), PGAS_OK, "once more does nothing");
    int fd = open(fresh, O_WRONLY | O_CREAT, 0666);
    close(fd);
    is_int(pgasi_kvs_shard_read(manifest_path, &manifest, 1, see, &seen), PGAS_OK,
           "a fresh shard that was never finished does not hide the final one");
    pgasi_kvs_remove(fresh);
}

/* ---- manifests ---- */

static void test_manifest(void)
{
    pgasi_kvs_shard_info_t infos[3] = { { 10, 1, 5 }, { 20, 2, 6 }, { 30, 3, 7 } };
    pgasi_kvs_manifest_t got = { 0 }, want = { ID, 9, 3, infos };
    is_int(pgasi_kvs_manifest_read(manifest_path, &got), PGAS_ERR_NOT_FOUND, "no manifest yet");
    is_int(pgasi_kvs_manifest_write(manifest_path, &want), PGAS_OK, "a manifest is written");
    is_int(pgasi_kvs_manifest_read(manifest_path, &got), PGAS_OK, "and read");
    ok(got.id == ID && got.generation == 9 && got.n_shards == 3 &&
           memcmp(got.shards, infos, sizeof infos) == 0,
       "with all that it has");
    free(got.shards);
    size_t n, n_missed = 0;
    unsigned char *bytes = file_contents(manifest_path, &n);
    int fd = open(manifest_path, O_RDWR);
    for (size_t i = 0; i < 2 * n; i++) { /* first flips, then truncations */
        if (i < n)
            bytes[i] ^= 0x40;
        if (ftruncate(fd, 0) != 0 || pwrite(fd, bytes, i < n ? n : i - n, 0) < 0)
            bail("cannot write a copy");
        n_missed += pgasi_kvs_manifest_read(manifest_path, &got) != PGAS_ERR_FORMAT;
        if (i < n)
            bytes[i] ^= 0x40;
    }
    is_int(n_missed, 0, "each flipped byte and each truncation is found");
    close(fd);
    free(bytes);
}

/* ---- directories ---- */

static void test_folder(void)
{
    const char *names[] = { "log.2.10",
                            "log.2.9",
                            "log.10.0",
                            "log.1",
                            "log.01.2",
                            "log.1.2x",
                            "log.-1.2",
                            "alog.1.2",
                            "log..1",
                            "log.1.",
                            "log.99999999999999999999.1" };
    char path[200];
    pgasi_kvs_name_t *list = NULL;
    size_t n = 0;
    int fd = -1, other = -1;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(names); i++) {
        snprintf(path, sizeof path, "%s/%s", scratch_dir, names[i]);
        close(open(path, O_CREAT | O_WRONLY, 0666));
    }
    ok(pgasi_kvs_list(scratch_dir, "log.", &list, &n) == PGAS_OK && n == 3 && list[0].rank == 9 &&
           list[1].rank == 10 && list[2].generation == 10,
       "a directory's files are listed in order, and others ignored");
    free(list);
    is_int(pgasi_kvs_list("/nonexistent", "log.", &list, &n), PGAS_ERR_IO, "no such directory");
    is_int(pgasi_kvs_lock(scratch_dir, true, &fd), PGAS_OK, "the first rank takes the lock");
    is_int(pgasi_kvs_lock(scratch_dir, false, &other), PGAS_OK, "others share it");
    close(fd);
    is_int(pgasi_kvs_lock(scratch_dir, true, &fd), PGAS_ERR_BUSY,
           "another store is refused while one rank has it");
    close(other);
    is_int(pgasi_kvs_lock(scratch_dir, true, &fd), PGAS_OK, "but not after the last one has ended");
    close(fd);
}

int main(void)
{
    plan(39);
    make_scratch();
    snprintf(manifest_path, sizeof manifest_path, "%s/kvs", scratch_dir);
    pgasi_log_set_fd(open("/dev/null", O_WRONLY)); /* thousands of refusals */
    test_records();
    test_limits();
    test_shard(0, 0, "no record");
    test_shard(1, 1, "one record");
    test_shard(30000, 0, "30000 records of several blocks");
    test_shard(20, VALUE_BYTES_MAX, "20 records that are larger than a block");
    test_damage();
    test_mixed_up();
    test_fresh();
    test_manifest();
    test_folder();
    remove_scratch();
    return done();
}
