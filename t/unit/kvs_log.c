/* what: A log gives back what was committed. A torn end costs nothing that was committed; damage
 *       before it is found. Threads share writes. A log whose file system is full refuses every
 *       write until a rotation.
 * needs: tsan-ok
 * source: src/kvs/log.h, reader.h */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include "base/log.h"
#include "kvs/files.h"
#include "kvs/log.h"
#include "kvs/reader.h"
#include "pgas/kvs.h"
#include "t/random.h"
#include "t/unit/kvs_records.h"

#define ID        42
#define N_SMALL   60
#define N_THREADS 4
#define N_EACH    2000

static pgasi_kvs_log_t *create(uint64_t generation, pgas_kvs_durability_t durability)
{
    pgasi_kvs_log_t *log = NULL;
    const pgasi_kvs_log_opts_t opts = { scratch_dir, ID, generation, 0, 1, durability };
    return pgasi_kvs_log_create(&opts, &log) == PGAS_OK ? log : NULL;
}

static pgas_status_t write_number(pgasi_kvs_log_t *log, uint64_t i, size_t bytes)
{
    pgasi_kvs_record_t record = numbered(i, bytes);
    return pgasi_kvs_log_commit(log, pgasi_kvs_log_append(log, &record));
}

static pgas_status_t read_fd(int fd, seen_t *seen, pgasi_kvs_read_t *found)
{
    pgasi_kvs_file_head_t head;
    memset(seen, 0, sizeof *seen);
    memset(found, 0, sizeof *found);
    pgas_status_t status = pgasi_kvs_read_head(fd, PGASI_KVS_FILE_LOG, &head, found);
    if (status == PGAS_ERR_NOT_FOUND)
        return PGAS_OK;
    return status != PGAS_OK
               ? status
               : pgasi_kvs_read_records(fd, PGASI_KVS_FILE_LOG, &head, see, seen, found);
}

static int open_log(uint64_t generation, int flags)
{
    pgasi_kvs_path_t path;
    pgasi_kvs_log_path(path, scratch_dir, generation, 0);
    return open(path, flags);
}

static pgas_status_t read_log(uint64_t generation, seen_t *seen, pgasi_kvs_read_t *found)
{
    int fd = open_log(generation, O_RDONLY);
    pgas_status_t status = read_fd(fd, seen, found);
    close(fd);
    return status;
}

static seen_t seen;
static pgasi_kvs_read_t found;

/* ---- one thread ---- */

static void test_round_trip(void)
{
    pgasi_kvs_log_t *log = create(1, PGAS_KVS_SYNC_SECOND);
    bool good = log != NULL;
    for (uint64_t i = 0; i < 3000; i++)
        good = good && write_number(log, i, (size_t)(i * 7919 % 2000)) == PGAS_OK;
    good = good && write_number(log, 3000, VALUE_BYTES_MAX) == PGAS_OK;
    ok(good, "3001 records are committed");
    is_int(pgasi_kvs_log_commit(log, 0), PGAS_OK, "position 0 has nothing to wait for");
    ok(read_log(1, &seen, &found) == PGAS_OK && seen.n_seen == 3001 && seen.n_wrong == 0,
       "they are in the file while the log is open");
    ok(found.torn_bytes == 0 && !found.complete, "which does not have its end yet");
    uint64_t bytes = pgasi_kvs_log_bytes(log);
    ok(bytes > found.good_bytes - 100 && bytes <= found.good_bytes, "its bytes are counted");
    is_int(pgasi_kvs_log_destroy(log), PGAS_OK, "the log ends");
    ok(read_log(1, &seen, &found) == PGAS_OK && found.complete, "then the file has its end");
    ok(!create(1, PGAS_KVS_SYNC_SECOND), "a file that exists is not overwritten");
}

/* Records that are appended and never committed are bounded only by memory. */
static void test_many_appends(void)
{
    uint64_t position = 0;
    pgasi_kvs_log_t *log = create(2, PGAS_KVS_SYNC_ALWAYS);
    for (uint64_t i = 0; i < 20000; i++) {
        pgasi_kvs_record_t record = numbered(i, 400);
        position = pgasi_kvs_log_append(log, &record);
    }
    ok(read_log(2, &seen, &found) == PGAS_OK && seen.n_seen == 0, "appends write nothing");
    is_int(pgasi_kvs_log_commit(log, position), PGAS_OK, "one commit for 20000 records");
    ok(read_log(2, &seen, &found) == PGAS_OK && seen.n_seen == 20000 && seen.n_wrong == 0,
       "writes them all");
    pgasi_kvs_log_destroy(log);
}

static void test_rotation(void)
{
    pgasi_kvs_log_t *log = create(3, PGAS_KVS_SYNC_SECOND);
    bool good = true;
    for (uint64_t i = 0; i < 10; i++)
        good = good && write_number(log, i, 10) == PGAS_OK;
    pgasi_kvs_record_t record = numbered(10, 10);
    uint64_t position = pgasi_kvs_log_append(log, &record);
    ok(good && pgasi_kvs_log_rotate(log, 4) == PGAS_OK, "a log rotates");
    is_int(pgasi_kvs_log_commit(log, position), PGAS_OK, "a record appended before is committed");
    is_int(write_number(log, 11, 10), PGAS_OK, "another one is written behind it");
    ok(read_log(3, &seen, &found) == PGAS_OK && seen.n_seen == 11 && found.complete,
       "the old file has the records of before, and its end");
    ok(read_log(4, &seen, &found) == PGAS_OK && seen.n_seen == 1 && seen.seen[11],
       "the new file has the others");
    is_int(pgasi_kvs_log_rotate(log, 3), PGAS_ERR_IO, "no rotation to a file that exists");
    is_int(write_number(log, 12, 10), PGAS_OK, "then the log goes on");
    pgasi_kvs_log_destroy(log);
    ok(read_log(4, &seen, &found) == PGAS_OK && seen.n_seen == 2, "in its file");
}

/* ---- torn and damaged files ---- */

/* Where the blocks of the log end, and how many records are before each end. */
static uint64_t block_end[N_SMALL + 2];
static int n_blocks;

static unsigned char *small_log(uint64_t generation, pgas_kvs_durability_t durability, bool ends,
                                size_t *n_p)
{
    pgasi_kvs_path_t path;
    pgasi_kvs_log_t *log = create(generation, durability);
    n_blocks = 0;
    for (uint64_t i = 0; i < N_SMALL; i++) {
        write_number(log, i, (size_t)(i * 7 % 40));
        block_end[n_blocks++] = sizeof(pgasi_kvs_file_head_t) + pgasi_kvs_log_bytes(log);
    }
    pgasi_kvs_log_path(path, scratch_dir, generation, 0);
    unsigned char *bytes = ends ? NULL : file_contents(path, n_p);
    pgasi_kvs_log_destroy(log);
    return bytes ? bytes : file_contents(path, n_p);
}

static uint64_t whole_blocks(uint64_t bytes)
{
    uint64_t n = 0;
    while (n < (uint64_t)n_blocks && block_end[n] <= bytes)
        n++;
    return n;
}

static void replace(int fd, const unsigned char *bytes, size_t n)
{
    if (ftruncate(fd, 0) != 0 || pwrite(fd, bytes, n, 0) != (ssize_t)n)
        bail("cannot write a copy");
}

static void test_torn(void)
{
    size_t n, n_bad = 0;
    unsigned char *bytes = small_log(10, PGAS_KVS_SYNC_SECOND, true, &n);
    int fd = open_log(10, O_RDWR);
    for (size_t i = 0; i <= n; i++) {
        replace(fd, bytes, i);
        bool good = read_fd(fd, &seen, &found) == PGAS_OK && seen.n_wrong == 0 &&
                    seen.n_seen == whole_blocks(i) && found.good_bytes + found.torn_bytes <= i;
        n_bad += !good;
    }
    is_int(n_bad, 0, "a log of %zu bytes, cut off anywhere, gives all whole blocks", n);
    n_bad = 0;
    for (size_t i = sizeof(pgasi_kvs_file_head_t); i < n; i++) { /* a machine failed: zeros */
        replace(fd, bytes, i);
        if (ftruncate(fd, (off_t)n) != 0)
            bail("cannot write a copy");
        pgas_status_t status = read_fd(fd, &seen, &found);
        n_bad += status != PGAS_OK || seen.n_wrong > 0 || seen.n_seen < whole_blocks(i);
    }
    is_int(n_bad, 0, "so does one whose end is zeros");
    close(fd);
    free(bytes);
}

/* Flips a bit of each byte. @return the number of logs that lost records without an error, beside
 * those of the last block */
static size_t flip_all(int fd, unsigned char *bytes, size_t n, uint64_t last)
{
    size_t n_silent = 0;
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= (unsigned char)(1 << i % 8);
        replace(fd, bytes, n);
        pgas_status_t status = read_fd(fd, &seen, &found);
        bytes[i] ^= (unsigned char)(1 << i % 8);
        if (seen.n_wrong > 0 || (status != PGAS_OK && status != PGAS_ERR_FORMAT) ||
            (status == PGAS_ERR_FORMAT && !found.wrong[0]))
            bail("byte %zu gives %s and %" PRIu64 " wrong records", i, pgas_status_name(status),
                 seen.n_wrong);
        n_silent += status == PGAS_OK && seen.n_seen < last;
    }
    return n_silent;
}

static void test_damage(void)
{
    size_t n;
    unsigned char *bytes = small_log(11, PGAS_KVS_SYNC_SECOND, true, &n);
    int fd = open_log(11, O_RDWR);
    is_int(flip_all(fd, bytes, n, N_SMALL), 0, "each flipped byte of a complete log is found");
    close(fd);
    free(bytes);
    bytes = small_log(12, PGAS_KVS_SYNC_ALWAYS, false, &n);
    fd = open_log(12, O_RDWR);
    is_int(flip_all(fd, bytes, n, N_SMALL - 1), 0,
           "and of a log that syncs, but for the last block, which may be torn");
    close(fd);
    free(bytes);
    bytes = small_log(13, PGAS_KVS_SYNC_SECOND, false, &n);
    fd = open_log(13, O_RDWR);
    ok(flip_all(fd, bytes, n, N_SMALL - 1) > 0,
       "a block that was not synced may be torn (the check can fail)");
    ok(found.found_later || found.torn_bytes > 0, "which the reader reports");
    bytes[0] ^= 1;
    replace(fd, bytes, n);
    is_int(read_fd(fd, &seen, &found), PGAS_ERR_FORMAT, "another file is no log");
    close(fd);
    free(bytes);
}

/* A value may contain anything, also a copy of a log. */
static void test_log_in_log(void)
{
    size_t n;
    unsigned char *inner = small_log(14, PGAS_KVS_SYNC_ALWAYS, true, &n);
    pgasi_kvs_log_t *log = create(15, PGAS_KVS_SYNC_ALWAYS);
    pgasi_kvs_record_t record = {
        .key = "k", .key_bytes = 1, .value = inner, .value_bytes = n, .version = 1
    };
    write_number(log, 0, 10);
    is_int(pgasi_kvs_log_commit(log, pgasi_kvs_log_append(log, &record)), PGAS_OK,
           "a log is a value of a log");
    pgasi_kvs_log_destroy(log);
    int fd = open_log(15, O_RDWR);
    if (ftruncate(fd, (off_t)(sizeof(pgasi_kvs_file_head_t) + n)) != 0)
        bail("cannot cut");
    is_int(read_fd(fd, &seen, &found), PGAS_OK, "a torn one is not taken for damage");
    is_int(seen.n_seen, 1, "and the record before it is there");
    close(fd);
    free(inner);
}

/* ---- threads ---- */

typedef struct {
    pgasi_kvs_log_t *log;
    uint64_t first;
    bool good;
} writer_t;

static void *write_some(void *arg)
{
    writer_t *w = arg;
    w->good = true;
    for (uint64_t i = 0; i < N_EACH; i++)
        w->good = w->good && write_number(w->log, w->first + i, (size_t)(i % 100)) == PGAS_OK;
    return NULL;
}

static void test_threads(uint64_t generation, pgas_kvs_durability_t durability, int n_rotations)
{
    writer_t writer[N_THREADS];
    pthread_t thread[N_THREADS];
    bool good = true;
    uint64_t n = 0;
    pgasi_kvs_log_t *log = create(generation, durability);
    for (uint64_t i = 0; i < N_THREADS; i++) {
        writer[i] = (writer_t){ log, i * N_EACH, false };
        pthread_create(&thread[i], NULL, write_some, &writer[i]);
    }
    for (int i = 1; i <= n_rotations; i++) {
        while (pgasi_kvs_log_bytes(log) < (uint64_t)i * 40000)
            sched_yield();
        good = pgasi_kvs_log_rotate(log, generation + (uint64_t)i) == PGAS_OK && good;
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(thread[i], NULL);
        good = good && writer[i].good;
    }
    uint64_t bytes = pgasi_kvs_log_bytes(log);
    ok(good, "4 threads commit 2000 records each, %d rotations", n_rotations);
    pgasi_kvs_log_destroy(log);
    good = true;
    for (int i = 0; i <= n_rotations; i++) {
        good = good && read_log(generation + (uint64_t)i, &seen, &found) == PGAS_OK &&
               seen.n_wrong == 0;
        n += seen.n_seen;
    }
    ok(good && n == N_THREADS * N_EACH, "each is once in the files (%" PRIu64 " bytes)", bytes);
}

/* ---- a full disk ---- */

static void limit_files(rlim_t bytes)
{
    struct rlimit limit = { bytes, RLIM_INFINITY };
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        bail("cannot limit the size of files");
}

static void test_full(void)
{
    pgasi_kvs_log_t *log = create(60, PGAS_KVS_SYNC_SECOND);
    uint64_t n = 0, logged = pgasi_log_count(PGASI_LOG_ERROR);
    limit_files(10000);
    while (write_number(log, n, 100) == PGAS_OK)
        n++;
    ok(n > 50 && n < 100, "a full disk ends the log (after %" PRIu64 " records)", n);
    ok(write_number(log, n + 1, 1) == PGAS_ERR_IO, "also for records that would fit");
    is_int(pgasi_log_count(PGASI_LOG_ERROR) - logged, 1, "one line says so");
    ok(read_log(60, &seen, &found) == PGAS_OK && seen.n_seen == n && found.torn_bytes == 0,
       "the file is cut back to the whole blocks");
    pgasi_kvs_record_t record = numbered(n + 2, 10);
    uint64_t position = pgasi_kvs_log_append(log, &record);
    limit_files(RLIM_INFINITY);
    is_int(write_number(log, n + 3, 1), PGAS_ERR_IO, "it stays so when there is room again");
    is_int(pgasi_kvs_log_rotate(log, 61), PGAS_OK, "a rotation begins a new file");
    is_int(write_number(log, n + 4, 1), PGAS_OK, "then writes succeed");
    is_int(pgasi_kvs_log_commit(log, position), PGAS_ERR_IO, "what was lost is not committed now");
    pgasi_kvs_log_destroy(log);
    ok(read_log(60, &seen, &found) == PGAS_OK && !found.complete, "the old file has no end");
    ok(read_log(61, &seen, &found) == PGAS_OK && seen.n_seen == 1 && found.complete,
       "the new one has");
}

int main(void)
{
    plan(45);
    make_scratch();
    signal(SIGXFSZ, SIG_IGN);
    pgasi_log_set_fd(open("/dev/null", O_WRONLY));
    test_round_trip();
    test_many_appends();
    test_rotation();
    test_torn();
    test_damage();
    test_log_in_log();
    test_threads(30, PGAS_KVS_SYNC_SECOND, 0);
    test_threads(31, PGAS_KVS_SYNC_ALWAYS, 0);
    test_threads(40, PGAS_KVS_SYNC_SECOND, 8);
    test_full();
    remove_scratch();
    return done();
}
