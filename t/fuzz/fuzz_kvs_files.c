/* what: The readers of a store's files end with a result on any bytes. A record that they give has
 *       sound sizes, and encodes to the bytes that it was read from.
 * source: kvs/reader.h, kvs/snapshot.h; libFuzzer
 * Input: a byte that picks the kind of file, then blocks: a byte of choices, a byte of size, and
 *        contents. The target adds heads with sound checksums, unless a choice breaks them. Or the
 *        bytes are the whole file. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/log.h"
#include "kvs/reader.h"
#include "kvs/snapshot.h"
#include "pgas/kvs.h"
#include "t/fuzz/require.h"

#define FILE_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static int fd = -1;
static char path[64];
static uint64_t n_given;

static pgas_status_t check_record(const pgasi_kvs_record_t *record, void *arg)
{
    (void)arg;
    static unsigned char bytes[FILE_MAX];
    size_t n = pgasi_kvs_record_bytes(record);
    require(record->key_bytes >= 1 && record->key_bytes <= PGAS_KVS_KEY_MAX, "a key has a size");
    require(record->value_bytes <= PGAS_KVS_VALUE_MAX, "so has a value");
    require(n <= sizeof bytes, "the record is in the file");
    require(pgasi_kvs_record_encode(record, bytes) == bytes + n, "its bytes are known");
    n_given++;
    return PGAS_OK;
}

/* @return the bytes of the file */
static size_t build(unsigned char *out, const pgasi_kvs_file_head_t *file, const uint8_t *data,
                    size_t n)
{
    size_t at = sizeof *file;
    memcpy(out, file, sizeof *file);
    while (n >= 2 && at + sizeof(pgasi_kvs_block_head_t) + 4096 < FILE_MAX) {
        unsigned choices = data[0];
        size_t bytes = (size_t)data[1] * (choices & 8 ? 16 : 1);
        data += 2;
        n -= 2;
        bytes = bytes < n ? bytes : n;
        pgasi_kvs_block_head_t head =
            pgasi_kvs_block_head(file, (pgasi_kvs_block_kind_t)(choices & 3), at,
                                 choices & 4 ? at : 0, data, bytes);
        if ((choices & 0xf0) == 0xf0)
            head.bytes += choices & 7;
        memcpy(out + at, &head, sizeof head);
        memcpy(out + at + sizeof head, data, bytes);
        at += sizeof head + bytes;
        data += bytes;
        n -= bytes;
    }
    return at;
}

static void read_file(pgasi_kvs_file_kind_t kind, size_t n)
{
    pgasi_kvs_read_t found = { .wrong = "" };
    pgasi_kvs_file_head_t head;
    pgas_status_t status = pgasi_kvs_read_head(fd, kind, &head, &found);
    if (status != PGAS_OK)
        return;
    n_given = 0;
    status = pgasi_kvs_read_records(fd, kind, &head, check_record, NULL, &found);
    require(n_given == found.n_records, "all records are counted");
    require(found.good_bytes + found.torn_bytes <= n, "no byte is counted twice");
    require(status == PGAS_OK || found.wrong[0], "a refusal has a reason");
    require(status == PGAS_OK || status == PGAS_ERR_FORMAT, "and is one of the form");
}

static void read_manifest(void)
{
    pgasi_kvs_manifest_t manifest = { .shards = NULL };
    if (pgasi_kvs_manifest_read(path, &manifest) == PGAS_OK)
        for (uint64_t i = 0; i < manifest.n_shards; i++) /* they are there */
            n_given += manifest.shards[i].bytes;
    free(manifest.shards);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static unsigned char file[FILE_MAX];
    if (fd < 0) {
        fd = memfd_create("kvs", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        pgasi_log_set_fd(open("/dev/null", O_WRONLY));
    }
    if (n_bytes == 0)
        return 0;
    pgasi_kvs_file_kind_t kind = 1 + data[0] % (PGASI_KVS_FILE_N_KINDS - 1);
    pgasi_kvs_file_head_t head = pgasi_kvs_file_head(kind, 7, 3, 0, 1);
    size_t n = n_bytes - 1 < FILE_MAX ? n_bytes - 1 : FILE_MAX;
    if (data[0] & 0x80)
        memcpy(file, data + 1, n);
    else
        n = build(file, &head, data + 1, n_bytes - 1);
    require(ftruncate(fd, 0) == 0 && pwrite(fd, file, n, 0) == (ssize_t)n, "the file is written");
    if (kind == PGASI_KVS_FILE_MANIFEST)
        read_manifest();
    else
        read_file(kind, n);
    return 0;
}
