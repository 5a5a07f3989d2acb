/* The reader of logs and shards: block by block, each with two checksums. It decides whether the
 * end of a log is torn or damaged. See block.h. */
#include "kvs/reader.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/checks.h"
#include "kvs/files.h"

#define SEARCH_BYTES (1u << 20) /* of a file, searched at once for later blocks */

__attribute__((format(printf, 3, 4))) static pgas_status_t
wrong(pgasi_kvs_read_t *found, pgas_status_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(found->wrong, sizeof found->wrong, format, arguments);
    va_end(arguments);
    return status;
}

static pgas_status_t file_bytes(int fd, uint64_t *bytes_p, pgasi_kvs_read_t *found)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return wrong(found, PGAS_ERR_IO, "cannot read it: %s", strerror(errno));
    *bytes_p = (uint64_t)about.st_size;
    return PGAS_OK;
}

/* Reads exactly n bytes, which the file has. */
static pgas_status_t read_exactly(int fd, void *bytes, size_t n, uint64_t at,
                                  pgasi_kvs_read_t *found)
{
    int64_t got = pgasi_kvs_pread(fd, bytes, n, at);
    if (got < 0)
        return wrong(found, PGAS_ERR_IO, "cannot read it: %s", strerror(errno));
    if ((size_t)got < n)
        return wrong(found, PGAS_ERR_IO, "it became shorter while it was read");
    return PGAS_OK;
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
    return n == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0);
}

/* The head is on the disk before the first block is written. So a file that is longer than its head
 * has a sound one. */
pgas_status_t pgasi_kvs_read_head(int fd, pgasi_kvs_file_kind_t kind, pgasi_kvs_file_head_t *head,
                                  pgasi_kvs_read_t *found)
{
    uint64_t bytes = 0;
    pgas_status_t status = file_bytes(fd, &bytes, found);
    if (status != PGAS_OK)
        return status;
    size_t n = (size_t)PGASI_MIN(bytes, sizeof *head);
    status = read_exactly(fd, head, n, 0, found);
    if (status != PGAS_OK)
        return status;
    if (kind == PGASI_KVS_FILE_LOG &&
        (n < sizeof *head || (bytes == n && is_zero((unsigned char *)head, n))))
        return wrong(found, PGAS_ERR_NOT_FOUND, "its head was never completed");
    if (n < sizeof *head)
        return wrong(found, PGAS_ERR_FORMAT, "it is too short: %" PRIu64 " bytes", bytes);
    const char *reason = pgasi_kvs_file_head_wrong(head, kind);
    return reason ? wrong(found, PGAS_ERR_FORMAT, "%s", reason) : PGAS_OK;
}

static bool make_room(void **buffer_p, size_t *capacity_p, size_t n)
{
    if (n <= *capacity_p)
        return true;
    free(*buffer_p);
    *buffer_p = malloc(n);
    *capacity_p = *buffer_p ? n : 0;
    return *buffer_p != NULL;
}

pgas_status_t pgasi_kvs_read_block(int fd, const pgasi_kvs_file_head_t *file, uint64_t offset,
                                   pgasi_kvs_block_head_t *head, void **buffer_p,
                                   size_t *capacity_p, pgasi_kvs_read_t *found)
{
    uint64_t bytes = 0;
    pgas_status_t status = file_bytes(fd, &bytes, found);
    if (status != PGAS_OK)
        return status;
    if (offset >= bytes)
        return PGAS_ERR_NOT_FOUND;
    if (bytes - offset < sizeof *head)
        return wrong(found, PGAS_ERR_FORMAT, "the head of a block is cut off");
    status = read_exactly(fd, head, sizeof *head, offset, found);
    if (status != PGAS_OK)
        return status;
    if (!pgasi_kvs_block_head_good(head, file, offset))
        return wrong(found, PGAS_ERR_FORMAT, "the checksum of the head of a block is wrong");
    if (head->bytes > bytes - offset - sizeof *head)
        return wrong(found, PGAS_ERR_FORMAT, "a block is cut off");
    if (!make_room(buffer_p, capacity_p, head->bytes))
        return wrong(found, PGAS_ERR_NO_MEMORY, "no memory for a block of %" PRIu64 " bytes",
                     head->bytes);
    status = read_exactly(fd, *buffer_p, head->bytes, offset + sizeof *head, found);
    if (status == PGAS_OK && !pgasi_kvs_block_good(head, *buffer_p))
        return wrong(found, PGAS_ERR_FORMAT, "the checksum of a block is wrong");
    return status;
}

/* ---- what a block has ---- */

/* The contents have a sound checksum, so another form of them is an error of the writer. */
static pgas_status_t take_records(const unsigned char *at, uint64_t n, pgasi_kvs_record_fn_t fn,
                                  void *arg, pgasi_kvs_read_t *found)
{
    pgasi_kvs_record_t record;
    pgas_status_t status = PGAS_OK;
    while (n > 0 && status == PGAS_OK) {
        size_t bytes = pgasi_kvs_record_decode(at, n, &record);
        if (bytes == 0)
            return wrong(found, PGAS_ERR_FORMAT, "a sound block has a malformed record");
        at += bytes;
        n -= bytes;
        found->n_records++;
        found->last_version = PGASI_MAX(found->last_version, record.version);
        status = fn(&record, arg);
    }
    return status;
}

static pgas_status_t take_end(const void *contents, uint64_t n, pgasi_kvs_read_t *found)
{
    pgasi_kvs_end_t end;
    if (n != sizeof end)
        return wrong(found, PGAS_ERR_FORMAT, "the block at the end has a wrong size");
    memcpy(&end, contents, sizeof end);
    if (end.n_records != found->n_records)
        return wrong(found, PGAS_ERR_FORMAT, "it has %" PRIu64 " records, and should have %" PRIu64,
                     found->n_records, end.n_records);
    found->last_version = PGASI_MAX(found->last_version, end.last_version);
    found->complete = true;
    return PGAS_OK;
}

static pgas_status_t take_block(const pgasi_kvs_block_head_t *head, const void *contents,
                                pgasi_kvs_record_fn_t fn, void *arg, pgasi_kvs_read_t *found)
{
    if (found->complete)
        return wrong(found, PGAS_ERR_FORMAT, "it goes on behind its end");
    switch (head->kind) {
    case PGASI_KVS_BLOCK_RECORDS:
        return take_records(contents, head->bytes, fn, arg, found);
    case PGASI_KVS_BLOCK_END:
        return take_end(contents, head->bytes, found);
    default:
        return wrong(found, PGAS_ERR_FORMAT, "it has a block of another kind of file");
    }
}

/* ---- the end of a log ---- */

/* Looks at all heads of blocks in a window of a file.
 * @return whether one proves that the bytes before `offset` + 1 were on the disk */
static bool proves_damage(const unsigned char *window, size_t n, uint64_t at,
                          const pgasi_kvs_file_head_t *file, uint64_t offset,
                          pgasi_kvs_read_t *found)
{
    static const uint32_t magic = PGASI_KVS_BLOCK_MAGIC;
    pgasi_kvs_block_head_t head;
    const unsigned char *end = window + n, *next = window;
    while ((next = memmem(next, (size_t)(end - next), &magic, sizeof magic)) != NULL &&
           (size_t)(end - next) >= sizeof head) {
        memcpy(&head, next, sizeof head);
        if (pgasi_kvs_block_head_good(&head, file, at + (uint64_t)(next - window))) {
            found->found_later = true;
            if (head.synced > offset)
                return true;
        }
        next++;
    }
    return false;
}

/* Searches behind a bad block. Windows overlap by a head less one byte. */
static pgas_status_t search_later(int fd, const pgasi_kvs_file_head_t *file, uint64_t offset,
                                  bool *damage_p, pgasi_kvs_read_t *found)
{
    unsigned char *window = malloc(SEARCH_BYTES);
    int64_t got = 0;
    *damage_p = false;
    if (!window)
        return wrong(found, PGAS_ERR_NO_MEMORY, "no memory to read it");
    for (uint64_t at = offset + 1; !*damage_p;
         at += SEARCH_BYTES - sizeof(pgasi_kvs_block_head_t) + 1) {
        got = pgasi_kvs_pread(fd, window, SEARCH_BYTES, at);
        if (got < (int64_t)sizeof(pgasi_kvs_block_head_t))
            break;
        *damage_p = proves_damage(window, (size_t)got, at, file, offset, found);
    }
    free(window);
    return got < 0 ? wrong(found, PGAS_ERR_IO, "cannot read it: %s", strerror(errno)) : PGAS_OK;
}

/* A block is not sound: the log ends here, or it is damaged. */
static pgas_status_t end_log(int fd, const pgasi_kvs_file_head_t *file, pgasi_kvs_read_t *found)
{
    uint64_t bytes = 0;
    bool damage = true;
    pgas_status_t status = file_bytes(fd, &bytes, found);
    if (status == PGAS_OK && !found->complete)
        status = search_later(fd, file, found->good_bytes, &damage, found);
    if (status != PGAS_OK)
        return status;
    found->torn_bytes = bytes - found->good_bytes;
    return damage ? PGAS_ERR_FORMAT : PGAS_OK;
}

/* ---- a file ---- */

pgas_status_t pgasi_kvs_read_records(int fd, pgasi_kvs_file_kind_t kind,
                                     const pgasi_kvs_file_head_t *head, pgasi_kvs_record_fn_t fn,
                                     void *arg, pgasi_kvs_read_t *found)
{
    void *buffer = NULL;
    size_t capacity = 0;
    pgas_status_t status = PGAS_OK;
    bool sound = true;
    found->good_bytes = sizeof *head;
    while (status == PGAS_OK) {
        pgasi_kvs_block_head_t block;
        status =
            pgasi_kvs_read_block(fd, head, found->good_bytes, &block, &buffer, &capacity, found);
        sound = status != PGAS_ERR_FORMAT;
        if (status == PGAS_OK)
            status = take_block(&block, buffer, fn, arg, found);
        if (status == PGAS_OK)
            found->good_bytes += sizeof block + block.bytes;
    }
    free(buffer);
    if (status == PGAS_ERR_NOT_FOUND) {
        bool good = kind == PGASI_KVS_FILE_LOG || found->complete;
        return good ? PGAS_OK : wrong(found, PGAS_ERR_FORMAT, "its end is missing");
    }
    return !sound && kind == PGASI_KVS_FILE_LOG ? end_log(fd, head, found) : status;
}
