/* A packed archive is contiguous: a head, a table of chunks, the stream, the chunks. The stream and
 * each chunk begin at multiples of 16, so that a reader of aligned bytes reads in place. Offsets in
 * the table also follow from the lengths. A reader compares them, and so detects damage. */
#include <stdlib.h>
#include <string.h>

#include "archive/archive.h"

#define ALIGN ((uint64_t)PGAS_ARCHIVE_ALIGN_MAX)
#define ORDER 0x0102
#define FORM  1

static const char magic[4] = { 'P', 'G', 'A', 'R' };

typedef struct {
    char magic[4];
    uint16_t order; /* ORDER, as this machine stores it */
    uint8_t word_bytes, version;
    uint32_t n_chunks, unused;
    uint64_t stream_bytes;
} head_t;

typedef struct {
    uint64_t offset, bytes;
    uint64_t is_object;
} entry_t;

PGASI_STATIC_ASSERT(sizeof(head_t) == 24 && sizeof(entry_t) == 24, "the packed form has no holes");

static uint64_t stream_offset(uint64_t n_chunks)
{
    return PGASI_ALIGN_UP(sizeof(head_t) + n_chunks * sizeof(entry_t), ALIGN);
}

size_t pgas_archive_bytes(const pgas_archive_t *written)
{
    if (!written || written->reading)
        return 0;
    uint64_t bytes = stream_offset(written->n_chunks) + pgasi_archive_stream_bytes(written);
    for (size_t i = 0; i < written->n_chunks; i++)
        bytes = PGASI_ALIGN_UP(bytes, ALIGN) + written->chunk[i].bytes;
    return (size_t)bytes;
}

/* Copies to an offset; the bytes between `from` and the offset become 0. */
static uint64_t place(char *to, uint64_t from, uint64_t offset, const void *data, size_t bytes)
{
    memset(to + from, 0, offset - from);
    if (bytes)
        memcpy(to + offset, data, bytes);
    return offset + bytes;
}

pgas_status_t pgas_archive_pack(const pgas_archive_t *written, void *to, size_t bytes)
{
    if (!written || !to || written->reading || (uintptr_t)to % ALIGN)
        return PGAS_ERR_INVALID;
    if (written->status != PGAS_OK)
        return written->status;
    if (bytes < pgas_archive_bytes(written))
        return PGAS_ERR_RANGE;
    head_t head = { .order = ORDER,
                    .word_bytes = sizeof(size_t),
                    .version = FORM,
                    .n_chunks = (uint32_t)written->n_chunks,
                    .stream_bytes = pgasi_archive_stream_bytes(written) };
    memcpy(head.magic, magic, sizeof magic);
    memcpy(to, &head, sizeof head);
    uint64_t table_end = sizeof head + written->n_chunks * sizeof(entry_t);
    uint64_t end = place(to, table_end, stream_offset(written->n_chunks), written->begin,
                         (size_t)head.stream_bytes);
    for (size_t i = 0; i < written->n_chunks; i++) {
        const pgas_archive_chunk_t *chunk = &written->chunk[i];
        entry_t entry = { PGASI_ALIGN_UP(end, ALIGN), chunk->bytes, chunk->object != NULL };
        memcpy((char *)to + sizeof head + i * sizeof entry, &entry, sizeof entry);
        end = place(to, end, entry.offset, chunk->data, chunk->bytes);
    }
    return PGAS_OK;
}

/* ---- reading ---- */

static pgas_status_t check_head(const head_t *head, size_t bytes)
{
    if (memcmp(head->magic, magic, sizeof magic))
        return PGAS_ERR_FORMAT;
    if (head->order != ORDER || head->word_bytes != sizeof(size_t) || head->version != FORM)
        return PGAS_ERR_MISMATCH;
    uint64_t stream = stream_offset(head->n_chunks);
    if (head->unused || stream > bytes || head->stream_bytes > bytes - stream)
        return PGAS_ERR_FORMAT;
    return PGAS_OK;
}

/* Reads the table. Returns false unless the chunks fill exactly the bytes behind the stream. */
static bool read_table(const char *from, size_t bytes, const head_t *head,
                       pgas_archive_chunk_t *chunk)
{
    uint64_t end = stream_offset(head->n_chunks) + head->stream_bytes;
    for (uint32_t i = 0; i < head->n_chunks; i++) {
        entry_t entry;
        memcpy(&entry, from + sizeof *head + i * sizeof entry, sizeof entry);
        if (entry.is_object > 1 || entry.offset != PGASI_ALIGN_UP(end, ALIGN) ||
            entry.offset > bytes || entry.bytes > bytes - entry.offset)
            return false;
        chunk[i] = (pgas_archive_chunk_t){ from + entry.offset, (size_t)entry.bytes, NULL };
        end = entry.offset + entry.bytes;
    }
    return end == bytes;
}

pgas_status_t pgas_archive_from_bytes(const void *data, size_t bytes, pgas_archive_t *in_p)
{
    if (!data || !in_p || (uintptr_t)data % ALIGN)
        return PGAS_ERR_INVALID;
    head_t head;
    if (bytes < sizeof head)
        return PGAS_ERR_FORMAT;
    memcpy(&head, data, sizeof head);
    pgas_status_t status = check_head(&head, bytes);
    if (status != PGAS_OK)
        return status;
    pgas_archive_chunk_t *chunk = NULL;
    if (head.n_chunks && !(chunk = malloc(head.n_chunks * sizeof *chunk)))
        return PGAS_ERR_NO_MEMORY;
    if (!read_table(data, bytes, &head, chunk)) {
        free(chunk);
        return PGAS_ERR_FORMAT;
    }
    pgasi_archive_read(in_p, (const char *)data + stream_offset(head.n_chunks),
                       (size_t)head.stream_bytes, chunk, head.n_chunks, PGAS_ARCHIVE_OWNS_TABLE);
    return PGAS_OK;
}
