/* Numbered records of tests: number i determines key, value, version and expiry. A set notes which
 * records were seen, and whether one was wrong. A scratch directory is removed at the end. */
#ifndef T_KVS_RECORDS_H
#define T_KVS_RECORDS_H

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/checks.h"
#include "kvs/record.h"
#include "t/tap.h"

#define N_RECORDS_MAX   40000
#define VALUE_BYTES_MAX (1u << 20)

typedef struct {
    uint64_t n_seen; /* different ones */
    uint64_t n_wrong;
    bool seen[N_RECORDS_MAX];
} seen_t;

/* Its key and value stay valid until the thread makes the next one. */
static inline pgasi_kvs_record_t numbered(uint64_t i, size_t value_bytes)
{
    static _Thread_local char key[32];
    static _Thread_local unsigned char value[VALUE_BYTES_MAX];
    for (size_t k = 0; k < value_bytes; k++)
        value[k] = (unsigned char)(i * 31 + k * (k >> 8 | 1));
    return (pgasi_kvs_record_t){
        .key = key,
        .key_bytes = (size_t)snprintf(key, sizeof key, "key %" PRIu64, i),
        .value = value,
        .value_bytes = value_bytes,
        .version = i + 1,
        .expires_ms = i % 3 == 0 ? (int64_t)i + 7 : 0,
        .deleted = value_bytes == 0 && i % 2 == 0,
    };
}

static inline bool is_same(const pgasi_kvs_record_t *a, const pgasi_kvs_record_t *b)
{
    return a->key_bytes == b->key_bytes && memcmp(a->key, b->key, a->key_bytes) == 0 &&
           a->value_bytes == b->value_bytes && memcmp(a->value, b->value, a->value_bytes) == 0 &&
           a->version == b->version && a->expires_ms == b->expires_ms && a->deleted == b->deleted;
}

/* A pgasi_kvs_record_fn_t that notes a record in a seen_t. */
static pgas_status_t see(const pgasi_kvs_record_t *record, void *arg)
{
    seen_t *seen = arg;
    uint64_t i = record->version - 1;
    bool good = i < N_RECORDS_MAX && record->value_bytes <= VALUE_BYTES_MAX;
    if (good) {
        pgasi_kvs_record_t want = numbered(i, record->value_bytes);
        good = is_same(record, &want);
    }
    if (!good)
        seen->n_wrong++;
    else if (!seen->seen[i]) {
        seen->seen[i] = true;
        seen->n_seen++;
    }
    return PGAS_OK;
}

static char scratch_dir[128];

static inline void make_scratch(void)
{
    const char *folder = getenv("TMPDIR");
    snprintf(scratch_dir, sizeof scratch_dir, "%.90s/pgas_kvs.XXXXXX", folder ? folder : "/tmp");
    if (!mkdtemp(scratch_dir))
        bail("no scratch directory");
}

static inline void remove_scratch(void)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch_dir);
    if (system(command) != 0)
        diag("cannot remove %s", scratch_dir);
}

/* The bytes of a file, which the caller frees. */
static inline unsigned char *file_contents(const char *path, size_t *n_p)
{
    struct stat about;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &about) != 0)
        bail("cannot open %s", path);
    unsigned char *bytes = malloc((size_t)about.st_size + 1);
    if (read(fd, bytes, (size_t)about.st_size) != about.st_size)
        bail("cannot read %s", path);
    close(fd);
    *n_p = (size_t)about.st_size;
    return bytes;
}

#endif
