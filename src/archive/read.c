/* Reading archives: the checks, and the forms that the inline paths do not handle. The reader does
 * not trust counts. Before it uses a count, it compares it with the bytes that are left, or with
 * the size of the chunk. */
#include <stdlib.h>
#include <string.h>

#include "archive/archive.h"

/* A function of a PGAS_OWN type may allocate this many bytes for each byte of the archive, and
 * ALLOC_FREE bytes more. */
#define ALLOC_FACTOR 1024
#define ALLOC_FREE   ((size_t)1 << 20)

/* ---- beginning ---- */

/* The stream of an archive without data: NULL reports errors. */
static const char nothing[PGAS_ARCHIVE_ALIGN_MAX] __attribute__((aligned(PGAS_ARCHIVE_ALIGN_MAX)));

void pgasi_archive_read(pgas_archive_t *in_p, const char *stream, size_t bytes,
                        pgas_archive_chunk_t *chunk, size_t n_chunks, unsigned owns)
{
    pgasi_archive_reset(in_p);
    in_p->threshold = 0;
    if (!stream)
        stream = nothing;
    PGASI_ASSERT((uintptr_t)stream % PGAS_ARCHIVE_ALIGN_MAX == 0);
    in_p->begin = (char *)stream;
    in_p->get_at = stream;
    in_p->get_end = stream + bytes;
    in_p->chunk = chunk;
    in_p->n_chunks = n_chunks;
    in_p->reading = true;
    in_p->in_place = true;
    in_p->owns = (uint8_t)owns;
}

pgas_status_t pgas_archive_from(const pgas_archive_t *written, pgas_archive_t *in_p)
{
    if (!written || !in_p || written->reading)
        return PGAS_ERR_INVALID;
    if (written->status != PGAS_OK)
        return written->status;
    pgasi_archive_read(in_p, written->begin, pgasi_archive_stream_bytes(written), written->chunk,
                       written->n_chunks, 0);
    return PGAS_OK;
}

/* ---- bytes and counts ---- */

/* Returns true if this many bytes are left. Otherwise the archive has an error. */
static bool has_left(pgas_archive_t *in, uint64_t bytes)
{
    if (!in->reading)
        (void)pgas_archive_fail(in, PGAS_ERR_INVALID);
    else if (bytes > (size_t)(in->get_end - in->get_at))
        (void)pgas_archive_fail(in, PGAS_ERR_FORMAT);
    return in->status == PGAS_OK;
}

const char *pgas_archive_consume_far(pgas_archive_t *in, size_t bytes)
{
    if (!in || !has_left(in, bytes))
        return NULL;
    const char *at = in->get_at;
    in->get_at += bytes;
    return at;
}

pgas_status_t pgas_archive_get_far(pgas_archive_t *in, void *to, size_t bytes)
{
    if (!in || (!to && bytes))
        return pgas_archive_fail(in, PGAS_ERR_INVALID);
    const char *from = pgas_archive_consume_far(in, bytes);
    if (from && bytes)
        memcpy(to, from, bytes);
    return in->status;
}

/* Reads a count. *form_p is PGAS_ARCHIVE_CHUNK, PGAS_ARCHIVE_ABSENT, or PGAS_ARCHIVE_LONG if the
 * data are in the stream. */
static bool get_form(pgas_archive_t *in, uint32_t *form_p, uint64_t *n_p)
{
    uint32_t word;
    if (pgas_archive_get_far(in, &word, sizeof word) != PGAS_OK)
        return false;
    *form_p = PGASI_MAX(word, PGAS_ARCHIVE_LONG);
    *n_p = word;
    if (word == PGAS_ARCHIVE_LONG || word == PGAS_ARCHIVE_CHUNK)
        return pgas_archive_get_far(in, n_p, sizeof *n_p) == PGAS_OK;
    if (word == PGAS_ARCHIVE_ABSENT)
        *n_p = 0;
    else if (word > PGAS_ARCHIVE_INLINE_MAX)
        (void)pgas_archive_fail(in, PGAS_ERR_FORMAT);
    return in->status == PGAS_OK;
}

pgas_status_t pgas_archive_get_count_far(pgas_archive_t *in, size_t least_bytes, size_t *n_p)
{
    uint32_t form;
    uint64_t n;
    if (!in || !least_bytes || !n_p)
        return pgas_archive_fail(in, PGAS_ERR_INVALID);
    if (!get_form(in, &form, &n))
        return in->status;
    if (form != PGAS_ARCHIVE_LONG || n > (size_t)(in->get_end - in->get_at) / least_bytes)
        return pgas_archive_fail(in, PGAS_ERR_FORMAT);
    *n_p = (size_t)n;
    return PGAS_OK;
}

/* ---- vectors ---- */

/* Returns the next chunk. @return NULL: an error, also if it does not have n elements */
static const pgas_archive_chunk_t *next_chunk(pgas_archive_t *in, uint64_t n, size_t elem_bytes)
{
    if (in->next_chunk < in->n_chunks) {
        const pgas_archive_chunk_t *chunk = &in->chunk[in->next_chunk];
        if (n && n <= SIZE_MAX / elem_bytes && chunk->bytes == n * elem_bytes) {
            in->next_chunk++;
            return chunk;
        }
    }
    (void)pgas_archive_fail(in, PGAS_ERR_FORMAT);
    return NULL;
}

/* Takes the next n elements of the stream. @return NULL: an error */
static const char *next_elems(pgas_archive_t *in, uint64_t n, size_t elem_bytes)
{
    size_t before = -(size_t)(in->get_at - in->begin) & (pgas_archive_align(elem_bytes) - 1);
    if (!has_left(in, before))
        return NULL;
    in->get_at += before;
    if (n > SIZE_MAX / elem_bytes) {
        (void)pgas_archive_fail(in, PGAS_ERR_FORMAT);
        return NULL;
    }
    return pgas_archive_consume_far(in, (size_t)n * elem_bytes);
}

/* A value of any form: its data, NULL if it is absent or empty, and the chunk, if it has one. */
typedef struct {
    const char *data;
    uint64_t n;
    const pgas_archive_chunk_t *chunk;
    bool is_absent;
} value_t;

static bool get_value(pgas_archive_t *in, size_t elem_bytes, value_t *value_p)
{
    uint32_t form;
    *value_p = (value_t){ .data = NULL };
    if (!get_form(in, &form, &value_p->n))
        return false;
    value_p->is_absent = form == PGAS_ARCHIVE_ABSENT;
    if (form == PGAS_ARCHIVE_CHUNK) {
        value_p->chunk = next_chunk(in, value_p->n, elem_bytes);
        value_p->data = value_p->chunk ? value_p->chunk->data : NULL;
    } else if (value_p->n)
        value_p->data = next_elems(in, value_p->n, elem_bytes);
    return in->status == PGAS_OK;
}

pgas_status_t pgas_archive_get_vector_far(pgas_archive_t *in, size_t elem_bytes,
                                          const void **data_p, size_t *n_p)
{
    value_t value;
    if (!in || !elem_bytes || !data_p || !n_p)
        return pgas_archive_fail(in, PGAS_ERR_INVALID);
    if (!get_value(in, elem_bytes, &value))
        return in->status;
    if (value.is_absent)
        return pgas_archive_fail(in, PGAS_ERR_FORMAT);
    *data_p = value.data;
    *n_p = (size_t)value.n;
    return PGAS_OK;
}

pgas_status_t pgas_archive_get_string_far(pgas_archive_t *in, const char **text_p)
{
    value_t value;
    if (!in || !text_p)
        return pgas_archive_fail(in, PGAS_ERR_INVALID);
    if (!get_value(in, 1, &value))
        return in->status;
    if (!value.is_absent && (!value.n || value.data[value.n - 1] != '\0'))
        return pgas_archive_fail(in, PGAS_ERR_FORMAT);
    *text_p = value.data;
    return PGAS_OK;
}

pgas_status_t pgas_archive_get_object(pgas_archive_t *in, pgas_rma_object_t **object_p,
                                      size_t *bytes_p)
{
    value_t value;
    if (!in || !object_p || !bytes_p)
        return pgas_archive_fail(in, PGAS_ERR_INVALID);
    if (!get_value(in, 1, &value))
        return in->status;
    pgas_rma_object_t *object = NULL;
    if (value.chunk && value.chunk->object)
        object = pgas_rma_object_share(value.chunk->object);
    else if (!value.is_absent) {
        pgas_status_t status = pgas_rma_object_copy(value.data, (size_t)value.n, &object);
        if (status != PGAS_OK)
            return pgas_archive_fail(in, status);
    }
    *object_p = object;
    *bytes_p = (size_t)value.n;
    return PGAS_OK;
}

/* ---- memory ---- */

/* Returns the bytes of the stream and all chunks. */
static size_t all_bytes(const pgas_archive_t *in)
{
    size_t bytes = (size_t)(in->get_end - in->begin);
    for (size_t i = 0; i < in->n_chunks; i++)
        bytes += in->chunk[i].bytes;
    return bytes;
}

pgas_status_t pgasi_archive_allocate(pgas_archive_t *in, size_t bytes, void **memory_p)
{
    pgas_arena_t *arena = in->in_place ? &in->arena : in->memory;
    void *memory = arena ? pgas_arena_alloc(arena, bytes) : calloc(1, PGASI_MAX(bytes, 1));
    if (!memory)
        return pgas_archive_fail(in, PGAS_ERR_NO_MEMORY);
    if (arena)
        memset(memory, 0, bytes);
    *memory_p = memory;
    return PGAS_OK;
}

pgas_status_t pgas_archive_alloc(pgas_archive_t *in, size_t bytes, void **memory_p)
{
    if (!in || !memory_p)
        return pgas_archive_fail(in, PGAS_ERR_INVALID);
    if (!has_left(in, 0))
        return in->status;
    if (bytes > ALLOC_FREE && (bytes - ALLOC_FREE) / ALLOC_FACTOR > all_bytes(in))
        return pgas_archive_fail(in, PGAS_ERR_FORMAT);
    return pgasi_archive_allocate(in, bytes, memory_p);
}
