/* format.c: bytes of records and words of a replicated log. */
#include "format.h"
#include <string.h>

#define MAGIC   UINT64_C(0x3120676f6c706572) /* "replog 1" */
#define VERSION 1

enum { HEAD_MAGIC, HEAD_VERSION, HEAD_REGION_BYTES };

#define TERM_SHIFT 40 /* of a commit word; below it the end in units of 8 bytes */

/* ---- the region ---- */

void replog_head_make(uint64_t *head, uint64_t region_bytes)
{
    memset(head, 0, REPLOG_HEAD_BYTES);
    head[HEAD_MAGIC] = MAGIC;
    head[HEAD_VERSION] = VERSION;
    head[HEAD_REGION_BYTES] = region_bytes;
}

/* A writer writes the head with one operation, before anything else but the lock word. */
replog_kind_t replog_head_check(const uint64_t *head, uint64_t region_bytes)
{
    uint64_t commit = head[REPLOG_COMMIT_AT / sizeof *head];
    if (head[HEAD_MAGIC] == MAGIC && head[HEAD_VERSION] == VERSION &&
        head[HEAD_REGION_BYTES] == region_bytes &&
        replog_commit_end(commit) <= region_bytes - REPLOG_DATA_AT)
        return REPLOG_LOG;
    bool empty = head[HEAD_MAGIC] == 0 && head[HEAD_VERSION] == 0 && head[HEAD_REGION_BYTES] == 0 &&
                 commit == 0;
    return empty ? REPLOG_BLANK : REPLOG_STRANGE;
}

uint64_t replog_commit_make(uint32_t term, uint64_t end)
{
    return (uint64_t)term << TERM_SHIFT | end / 8;
}

uint32_t replog_commit_term(uint64_t word)
{
    return (uint32_t)(word >> TERM_SHIFT);
}

uint64_t replog_commit_end(uint64_t word)
{
    return (word & ((UINT64_C(1) << TERM_SHIFT) - 1)) * 8;
}

/* ---- records ---- */

uint32_t replog_span(uint32_t bytes)
{
    return REPLOG_RECORD_HEAD + (bytes + 7) / 8 * 8 + REPLOG_RECORD_TAIL;
}

void replog_encode(void *to, uint64_t seq, uint32_t term, const void *payload, uint32_t bytes)
{
    unsigned char *at = to;
    uint32_t span = replog_span(bytes), checked = span - REPLOG_RECORD_TAIL;
    memcpy(at, &seq, 8);
    memcpy(at + 8, &term, 4);
    memcpy(at + 12, &bytes, 4);
    if (bytes > 0)
        memcpy(at + REPLOG_RECORD_HEAD, payload, bytes);
    memset(at + REPLOG_RECORD_HEAD + bytes, 0, checked - REPLOG_RECORD_HEAD - bytes);
    uint32_t crc = replog_crc32c(at, checked);
    memcpy(at + checked, &crc, 4);
    memcpy(at + checked + 4, &span, 4);
}

bool replog_head_decode(const void *at, uint64_t room, replog_record_t *record_p)
{
    replog_record_t record = { 0 };
    if (room < REPLOG_RECORD_HEAD)
        return false;
    memcpy(&record.seq, at, 8);
    memcpy(&record.term, (const char *)at + 8, 4);
    memcpy(&record.bytes, (const char *)at + 12, 4);
    if (record.seq == 0 || record.bytes > REPLOG_RECORD_MAX || replog_span(record.bytes) > room)
        return false;
    record.span = replog_span(record.bytes);
    *record_p = record;
    return true;
}

bool replog_decode(const void *at, uint64_t room, replog_record_t *record_p)
{
    replog_record_t record;
    uint32_t span;
    if (!replog_head_decode(at, room, &record))
        return false;
    uint32_t checked = record.span - REPLOG_RECORD_TAIL;
    memcpy(&record.crc, (const char *)at + checked, 4);
    memcpy(&span, (const char *)at + checked + 4, 4);
    if (span != record.span || record.crc != replog_crc32c(at, checked))
        return false;
    *record_p = record;
    return true;
}

uint32_t replog_tail_decode(const void *tail, uint64_t end, uint32_t *crc_p)
{
    uint32_t span;
    memcpy(crc_p, tail, 4);
    memcpy(&span, (const char *)tail + 4, 4);
    bool possible = span % 8 == 0 && span >= replog_span(0) && span <= end &&
                    span <= replog_span(REPLOG_RECORD_MAX);
    return possible ? span : 0;
}

/* ---- the checksum: CRC-32C (Castagnoli), reflected, a byte at a time ---- */

#define POLYNOMIAL 0x82f63b78u

static uint32_t crc_of_byte(uint32_t byte)
{
    for (int bit = 0; bit < 8; bit++)
        byte = byte >> 1 ^ (byte & 1 ? POLYNOMIAL : 0);
    return byte;
}

/* The programs of this folder have one thread. */
uint32_t replog_crc32c(const void *data, size_t bytes)
{
    static uint32_t table[256];
    if (table[1] == 0)
        for (uint32_t i = 0; i < 256; i++)
            table[i] = crc_of_byte(i);
    uint32_t crc = ~0u;
    for (const unsigned char *at = data, *end = at + bytes; at < end; at++)
        crc = crc >> 8 ^ table[(crc ^ *at) & 0xff];
    return ~crc;
}
