/** The inline part of pgas/archive.h writes and reads without a function call while data fit.
 *  Functions with _far at the end handle all other cases.
 *
 *  A count is a word of 32 bits, or one of the marks below. A vector in the stream is its count,
 *  zeros up to the alignment of its elements, relative to the start of the stream, and its data. A
 *  vector without elements is only its count. Scalars are not aligned.
 *
 *  The inline paths only compare the bytes that they need with the rest of the stream. So put_at ==
 *  put_end in a reader and after an error, and get_at == get_end in a writer and after an error.
 *  Every path keeps put_at <= put_end, because their difference is used as an unsigned number. */
#ifndef PGAS_DETAIL_ARCHIVE_H
#define PGAS_DETAIL_ARCHIVE_H

#include <string.h>
#include "pgas/archive.h"

PGAS_BEGIN_DECLS

#define PGAS_ARCHIVE_INLINE_MAX 0xfffffffbu /* the greatest count in one word */
#define PGAS_ARCHIVE_LONG       0xfffffffcu /* the count follows in 64 bits; then the data */
#define PGAS_ARCHIVE_CHUNK      0xfffffffdu /* the count follows in 64 bits; a chunk has the data */
#define PGAS_ARCHIVE_ABSENT     0xffffffffu /* NULL */

#define PGAS_ARCHIVE_ALIGN_MAX 16

/** What a reader frees: begin, the table of chunks, its share of the objects in the table. */
typedef enum {
    PGAS_ARCHIVE_OWNS_STREAM = 1,
    PGAS_ARCHIVE_OWNS_TABLE = 2,
    PGAS_ARCHIVE_OWNS_OBJECTS = 4
} pgas_archive_owns_t;

PGAS_API pgas_status_t pgas_archive_put_far(pgas_archive_t *archive, const void *data,
                                            size_t bytes);
PGAS_API pgas_status_t pgas_archive_put_vector_far(pgas_archive_t *archive, const void *data,
                                                   size_t n, size_t elem_bytes);
PGAS_API pgas_status_t pgas_archive_put_string_far(pgas_archive_t *archive, const char *text);
PGAS_API char *pgas_archive_reserve_far(pgas_archive_t *archive, size_t bytes);
PGAS_API const char *pgas_archive_consume_far(pgas_archive_t *archive, size_t bytes);
PGAS_API pgas_status_t pgas_archive_put_count_far(pgas_archive_t *archive, size_t n);
PGAS_API pgas_status_t pgas_archive_get_count_far(pgas_archive_t *archive, size_t least_bytes,
                                                  size_t *n_p);
PGAS_API pgas_status_t pgas_archive_get_far(pgas_archive_t *archive, void *to, size_t bytes);
PGAS_API pgas_status_t pgas_archive_get_vector_far(pgas_archive_t *archive, size_t elem_bytes,
                                                   const void **data_p, size_t *n_p);
PGAS_API pgas_status_t pgas_archive_get_string_far(pgas_archive_t *archive, const char **text_p);
PGAS_API pgas_status_t pgas_archive_fail_far(pgas_archive_t *archive, pgas_status_t status);
PGAS_API void *pgas_arena_alloc_far(pgas_arena_t *arena, size_t bytes);

PGAS_INLINE pgas_status_t pgas_archive_fail(pgas_archive_t *archive, pgas_status_t status)
{
    return pgas_archive_fail_far(archive, status);
}

/* Returns the alignment of elements in the stream. */
PGAS_INLINE size_t pgas_archive_align(size_t elem_bytes)
{
    size_t bits = elem_bytes | PGAS_ARCHIVE_ALIGN_MAX;
    return bits & (~bits + 1);
}

/* Returns true if the product of elem_bytes and any count of 32 bits is below 2^63. */
PGAS_INLINE bool pgas_archive_is_moderate(size_t elem_bytes)
{
    return elem_bytes - 1 < 0x7fffffff;
}

/* ---- copies ---- */

#define PGAS_ARCHIVE_COPY_FEW 128

/* Copies n > 0 bytes, mostly few. A call of memcpy with a variable size costs more than the copy of
 * a short string. Each branch copies the first and the last bytes, which may overlap. */
PGAS_INLINE void pgas_archive_copy(char *to, const char *from, size_t n)
{
    if (PGAS_UNLIKELY(n > PGAS_ARCHIVE_COPY_FEW))
        memcpy(to, from, n);
    else if (n > 32) {
        memcpy(to, from, 32);
        if (n > 64)
            memcpy(to + 32, from + 32, 32);
        if (n > 96)
            memcpy(to + 64, from + 64, 32);
        memcpy(to + n - 32, from + n - 32, 32);
    } else if (n >= 16) {
        memcpy(to, from, 16);
        memcpy(to + n - 16, from + n - 16, 16);
    } else if (n >= 8) {
        memcpy(to, from, 8);
        memcpy(to + n - 8, from + n - 8, 8);
    } else if (n >= 4) {
        memcpy(to, from, 4);
        memcpy(to + n - 4, from + n - 4, 4);
    } else {
        to[0] = from[0];
        to[n / 2] = from[n / 2];
        to[n - 1] = from[n - 1];
    }
}

/* ---- positions in registers ---- */

/* A copy of the position at which an archive is written or read. Functions for structures keep it
 * in a local variable from begin to end, so the compiler keeps it in registers. Otherwise each
 * field would load and store the position, and wait for the store of the field before. Between
 * begin and end only the functions here use the archive. All other uses need an end before and a
 * begin after them. That includes pgas_archive_fail, which closes the inline paths at the archive's
 * position. An end with another position would open them beyond the memory. */
typedef struct {
    pgas_archive_t *archive;
    char *at, *end;
    size_t small;
} pgas_writer_t;

typedef struct {
    pgas_archive_t *archive;
    const char *at, *end;
} pgas_reader_t;

PGAS_INLINE void pgas_writer_begin(pgas_writer_t *writer, pgas_archive_t *archive)
{
    writer->archive = archive;
    writer->at = archive->put_at;
    writer->end = archive->put_end;
    writer->small = archive->small;
}

PGAS_INLINE void pgas_writer_end(const pgas_writer_t *writer)
{
    writer->archive->put_at = writer->at;
}

PGAS_INLINE void pgas_reader_begin(pgas_reader_t *reader, pgas_archive_t *archive)
{
    reader->archive = archive;
    reader->at = archive->get_at;
    reader->end = archive->get_end;
}

PGAS_INLINE void pgas_reader_end(const pgas_reader_t *reader)
{
    reader->archive->get_at = reader->at;
}

/* Reserves the next bytes of the stream. The caller fills them. @return NULL: an error */
PGAS_INLINE char *pgas_writer_reserve(pgas_writer_t *writer, size_t bytes)
{
    char *at = writer->at;
    if (PGAS_UNLIKELY(bytes - 1 >= (size_t)(writer->end - at))) {
        pgas_writer_end(writer);
        at = pgas_archive_reserve_far(writer->archive, bytes);
        pgas_writer_begin(writer, writer->archive);
        return at;
    }
    writer->at = at + bytes;
    return at;
}

/* Skips the next bytes of the stream. The caller reads them. @return NULL: an error */
PGAS_INLINE const char *pgas_reader_consume(pgas_reader_t *reader, size_t bytes)
{
    const char *at = reader->at;
    if (PGAS_UNLIKELY(bytes - 1 >= (size_t)(reader->end - at))) {
        pgas_reader_end(reader);
        at = pgas_archive_consume_far(reader->archive, bytes);
        pgas_reader_begin(reader, reader->archive);
        return at;
    }
    reader->at = at + bytes;
    return at;
}

/* Writes the number of values that follow one by one. */
PGAS_INLINE pgas_status_t pgas_writer_put_count(pgas_writer_t *writer, size_t n)
{
    char *at = writer->at;
    uint32_t word = (uint32_t)n;
    if (PGAS_UNLIKELY(n > PGAS_ARCHIVE_INLINE_MAX || (size_t)(writer->end - at) < sizeof word)) {
        pgas_status_t status;
        pgas_writer_end(writer);
        status = pgas_archive_put_count_far(writer->archive, n);
        pgas_writer_begin(writer, writer->archive);
        return status;
    }
    memcpy(at, &word, sizeof word);
    writer->at = at + sizeof word;
    return PGAS_OK;
}

PGAS_INLINE pgas_status_t pgas_reader_get_count_far(pgas_reader_t *reader, size_t least_bytes,
                                                    size_t *n_p)
{
    pgas_status_t status;
    pgas_reader_end(reader);
    status = pgas_archive_get_count_far(reader->archive, least_bytes, n_p);
    pgas_reader_begin(reader, reader->archive);
    return status;
}

/* Reads such a number. Each value has at least least_bytes > 0 bytes in the stream. If the rest of
 * the stream is too short for n values, the result is PGAS_ERR_FORMAT. So it is safe to allocate
 * memory for n values. */
PGAS_INLINE pgas_status_t pgas_reader_get_count(pgas_reader_t *reader, size_t least_bytes,
                                                size_t *n_p)
{
    size_t room = (size_t)(reader->end - reader->at);
    uint32_t word;
    if (PGAS_UNLIKELY(room < sizeof word || !pgas_archive_is_moderate(least_bytes)))
        return pgas_reader_get_count_far(reader, least_bytes, n_p);
    memcpy(&word, reader->at, sizeof word);
    if (PGAS_UNLIKELY(word > PGAS_ARCHIVE_INLINE_MAX ||
                      (uint64_t)word * least_bytes > room - sizeof word))
        return pgas_reader_get_count_far(reader, least_bytes, n_p);
    reader->at += sizeof word;
    *n_p = word;
    return PGAS_OK;
}

/* Writes n elements and their number. */
PGAS_INLINE pgas_status_t pgas_writer_put_vector(pgas_writer_t *writer, const void *data, size_t n,
                                                 size_t elem_bytes)
{
    char *at;
    size_t align = pgas_archive_align(elem_bytes);
    uint32_t word = (uint32_t)n;
    if (PGAS_UNLIKELY(!data || !pgas_archive_is_moderate(elem_bytes) || n - 1 >= writer->small ||
                      n * elem_bytes > writer->small ||
                      n * elem_bytes + sizeof word + align > (size_t)(writer->end - writer->at))) {
        pgas_status_t status;
        pgas_writer_end(writer);
        status = pgas_archive_put_vector_far(writer->archive, data, n, elem_bytes);
        pgas_writer_begin(writer, writer->archive);
        return status;
    }
    at = writer->at;
    memcpy(at, &word, sizeof word);
    at += sizeof word;
    if (align > 1) { /* the stream is aligned to 16 in memory */
        memset(at, 0, align);
        at += -(uintptr_t)at & (align - 1);
    }
    if (elem_bytes == 1)
        pgas_archive_copy(at, (const char *)data, n);
    else
        memcpy(at, data, n * elem_bytes);
    writer->at = at + n * elem_bytes;
    return PGAS_OK;
}

/* Reads the next vector in place. Outputs are written on success only. */
PGAS_INLINE pgas_status_t pgas_reader_get_vector(pgas_reader_t *reader, size_t elem_bytes,
                                                 const void **data_p, size_t *n_p)
{
    const char *at = reader->at;
    uint32_t word = 0;
    uint64_t room = (uint64_t)(reader->end - at), before = sizeof word;
    if (PGAS_LIKELY(room >= sizeof word && pgas_archive_is_moderate(elem_bytes)))
        memcpy(&word, at, sizeof word);
    if (pgas_archive_align(elem_bytes) > 1)
        before += -((uintptr_t)at + sizeof word) & (pgas_archive_align(elem_bytes) - 1);
    /* word - 1 is large for a count of 0 and for marks, which the function handles. */
    if (PGAS_UNLIKELY(word - 1 >= PGAS_ARCHIVE_INLINE_MAX || before > room ||
                      word * (uint64_t)elem_bytes > room - before)) {
        pgas_status_t status;
        const void *data = NULL;
        size_t n = 0;
        pgas_reader_end(reader);
        status = pgas_archive_get_vector_far(reader->archive, elem_bytes, &data, &n);
        pgas_reader_begin(reader, reader->archive);
        if (PGAS_UNLIKELY(status != PGAS_OK))
            return status;
        *data_p = data;
        *n_p = n;
        return PGAS_OK;
    }
    /* Only one addition waits for the word, because the next vector waits for its result. */
    at += before;
    reader->at = at + word * (size_t)elem_bytes;
    *data_p = at;
    *n_p = word;
    return PGAS_OK;
}

/* ---- for functions that write and read structures ---- */

/* These do the same for single values. */
PGAS_INLINE char *pgas_archive_reserve(pgas_archive_t *archive, size_t bytes)
{
    pgas_writer_t writer;
    char *at;
    pgas_writer_begin(&writer, archive);
    at = pgas_writer_reserve(&writer, bytes);
    pgas_writer_end(&writer);
    return at;
}

PGAS_INLINE const char *pgas_archive_consume(pgas_archive_t *archive, size_t bytes)
{
    pgas_reader_t reader;
    const char *at;
    pgas_reader_begin(&reader, archive);
    at = pgas_reader_consume(&reader, bytes);
    pgas_reader_end(&reader);
    return at;
}

PGAS_INLINE pgas_status_t pgas_archive_put_count(pgas_archive_t *archive, size_t n)
{
    pgas_writer_t writer;
    pgas_status_t status;
    pgas_writer_begin(&writer, archive);
    status = pgas_writer_put_count(&writer, n);
    pgas_writer_end(&writer);
    return status;
}

PGAS_INLINE pgas_status_t pgas_archive_get_count(pgas_archive_t *archive, size_t least_bytes,
                                                 size_t *n_p)
{
    pgas_reader_t reader;
    pgas_status_t status;
    pgas_reader_begin(&reader, archive);
    status = pgas_reader_get_count(&reader, least_bytes, n_p);
    pgas_reader_end(&reader);
    return status;
}

/* Begins and ends a level of nesting whose depth depends on the data. A level that is refused ends,
 * too. */
PGAS_INLINE pgas_status_t pgas_archive_enter(pgas_archive_t *archive)
{
    if (PGAS_UNLIKELY(archive->depth++ >= PGAS_ARCHIVE_DEPTH))
        return pgas_archive_fail(archive, PGAS_ERR_LIMIT);
    return PGAS_OK;
}

PGAS_INLINE void pgas_archive_leave(pgas_archive_t *archive)
{
    archive->depth--;
}

/* ---- writing ---- */

PGAS_INLINE pgas_status_t pgas_archive_put(pgas_archive_t *archive, const void *data, size_t bytes)
{
    char *at;
    if (PGAS_UNLIKELY(!archive || !data ||
                      bytes - 1 >= (size_t)(archive->put_end - archive->put_at)))
        return pgas_archive_put_far(archive, data, bytes);
    at = archive->put_at;
    memcpy(at, data, bytes);
    archive->put_at = at + bytes;
    return PGAS_OK;
}

PGAS_INLINE pgas_status_t pgas_archive_put_vector(pgas_archive_t *archive, const void *data,
                                                  size_t n, size_t elem_bytes)
{
    pgas_writer_t writer;
    pgas_status_t status;
    if (PGAS_UNLIKELY(!archive))
        return PGAS_ERR_INVALID;
    pgas_writer_begin(&writer, archive);
    status = pgas_writer_put_vector(&writer, data, n, elem_bytes);
    pgas_writer_end(&writer);
    return status;
}

PGAS_INLINE pgas_status_t pgas_archive_put_string(pgas_archive_t *archive, const char *text)
{
    char *at;
    size_t bytes;
    uint32_t word;
    if (PGAS_UNLIKELY(!archive || !text))
        return pgas_archive_put_string_far(archive, text);
    bytes = strlen(text) + 1;
    if (PGAS_UNLIKELY(bytes > PGAS_ARCHIVE_INLINE_MAX ||
                      bytes + sizeof word > (size_t)(archive->put_end - archive->put_at)))
        return pgas_archive_put_string_far(archive, text);
    at = archive->put_at;
    word = (uint32_t)bytes;
    memcpy(at, &word, sizeof word);
    pgas_archive_copy(at + sizeof word, text, bytes);
    archive->put_at = at + sizeof word + bytes;
    return PGAS_OK;
}

/* ---- reading ---- */

PGAS_INLINE pgas_status_t pgas_archive_get(pgas_archive_t *archive, void *to, size_t bytes)
{
    const char *at;
    if (PGAS_UNLIKELY(!archive || !to || bytes - 1 >= (size_t)(archive->get_end - archive->get_at)))
        return pgas_archive_get_far(archive, to, bytes);
    at = archive->get_at;
    memcpy(to, at, bytes);
    archive->get_at = at + bytes;
    return PGAS_OK;
}

PGAS_INLINE pgas_status_t pgas_archive_get_vector(pgas_archive_t *archive, size_t elem_bytes,
                                                  const void **data_p, size_t *n_p)
{
    pgas_reader_t reader;
    pgas_status_t status;
    if (PGAS_UNLIKELY(!archive || !data_p || !n_p))
        return pgas_archive_get_vector_far(archive, elem_bytes, data_p, n_p);
    pgas_reader_begin(&reader, archive);
    status = pgas_reader_get_vector(&reader, elem_bytes, data_p, n_p);
    pgas_reader_end(&reader);
    return status;
}

PGAS_INLINE pgas_status_t pgas_archive_get_string(pgas_archive_t *archive, const char **text_p)
{
    const char *at;
    size_t room;
    uint32_t word;
    if (PGAS_UNLIKELY(!archive || !text_p))
        return pgas_archive_get_string_far(archive, text_p);
    at = archive->get_at;
    room = (size_t)(archive->get_end - at);
    if (PGAS_UNLIKELY(room < sizeof word))
        return pgas_archive_get_string_far(archive, text_p);
    memcpy(&word, at, sizeof word);
    if (PGAS_UNLIKELY(word - 1 >= PGAS_ARCHIVE_INLINE_MAX || word > room - sizeof word ||
                      at[sizeof word + word - 1]))
        return pgas_archive_get_string_far(archive, text_p);
    at += sizeof word;
    archive->get_at = at + word;
    *text_p = at;
    return PGAS_OK;
}

/* ---- arenas ---- */

PGAS_INLINE void *pgas_arena_alloc(pgas_arena_t *arena, size_t bytes)
{
    char *at;
    size_t room = (bytes + 15) & ~(size_t)15; /* 0, or 0 by overflow: the function decides */
    if (PGAS_UNLIKELY(!arena || room - 1 >= (size_t)(arena->end - arena->at)))
        return pgas_arena_alloc_far(arena, bytes);
    at = arena->at;
    arena->at = at + room;
    return at;
}

PGAS_END_DECLS
#endif
