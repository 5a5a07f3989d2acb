/** The inline part of pgas/archive.h: what fits is written and read without a function call. All
 *  else is behind functions with _far at the end.
 *
 *  A count is a word of 32 bits, or one of the marks below. A vector in the stream is its count,
 *  zeros up to the alignment of its elements, relative to the start of the stream, and its data. A
 *  count of 0 has nothing behind it. Scalars are not aligned.
 *
 *  The inline paths compare the bytes that they need with the rest of the stream, and nothing
 *  else. So put_at == put_end in a reader and after an error, and get_at == get_end in a writer and
 *  after an error. put_end is PGAS_ARCHIVE_SLACK bytes before the end of the memory, so that there
 *  is room for a count and alignment. */
#ifndef PGAS_DETAIL_ARCHIVE_H
#define PGAS_DETAIL_ARCHIVE_H

#include <string.h>
#include "pgas/archive.h"

PGAS_BEGIN_DECLS

#define PGAS_ARCHIVE_INLINE_MAX 0xfffffffbu /* the greatest count in one word */
#define PGAS_ARCHIVE_LONG       0xfffffffcu /* the count follows in 64 bits; then the data */
#define PGAS_ARCHIVE_CHUNK      0xfffffffdu /* the count follows in 64 bits; a chunk has the data */
#define PGAS_ARCHIVE_ABSENT     0xffffffffu /* NULL */

#define PGAS_ARCHIVE_SLACK     64
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

/* The alignment of elements in the stream. */
PGAS_INLINE size_t pgas_archive_align(size_t elem_bytes)
{
    size_t bits = elem_bytes | PGAS_ARCHIVE_ALIGN_MAX;
    return bits & (~bits + 1);
}

/* Whether a constant keeps a product of it and a count of 32 bits below 2^63. */
PGAS_INLINE bool pgas_archive_is_moderate(size_t elem_bytes)
{
    return elem_bytes - 1 < 0x7fffffff;
}

/* ---- for functions that write and read structures ---- */

/* Takes the next bytes of the stream, for the caller to fill. @return NULL: an error */
PGAS_INLINE char *pgas_archive_reserve(pgas_archive_t *archive, size_t bytes)
{
    char *at = archive->put_at;
    if (PGAS_UNLIKELY(bytes - 1 >= (size_t)(archive->put_end - at)))
        return pgas_archive_reserve_far(archive, bytes);
    archive->put_at = at + bytes;
    return at;
}

/* Takes the next bytes of the stream, for the caller to read. @return NULL: an error */
PGAS_INLINE const char *pgas_archive_consume(pgas_archive_t *archive, size_t bytes)
{
    const char *at = archive->get_at;
    if (PGAS_UNLIKELY(bytes - 1 >= (size_t)(archive->get_end - at)))
        return pgas_archive_consume_far(archive, bytes);
    archive->get_at = at + bytes;
    return at;
}

/* Writes the number of values that follow one by one. */
PGAS_INLINE pgas_status_t pgas_archive_put_count(pgas_archive_t *archive, size_t n)
{
    char *at = archive->put_at;
    uint32_t word = (uint32_t)n;
    if (PGAS_UNLIKELY(n > PGAS_ARCHIVE_INLINE_MAX || archive->put_end == at))
        return pgas_archive_put_count_far(archive, n);
    memcpy(at, &word, sizeof word);
    archive->put_at = at + sizeof word;
    return PGAS_OK;
}

/* Reads such a number. Each value needs at least least_bytes bytes of the stream: a number that
 * the rest of the stream cannot have is PGAS_ERR_FORMAT. So it is safe to allocate memory for n
 * values. least_bytes is not 0. */
PGAS_INLINE pgas_status_t pgas_archive_get_count(pgas_archive_t *archive, size_t least_bytes,
                                                 size_t *n_p)
{
    const char *at = archive->get_at;
    size_t room = (size_t)(archive->get_end - at);
    uint32_t word;
    if (PGAS_UNLIKELY(room < sizeof word || !pgas_archive_is_moderate(least_bytes)))
        return pgas_archive_get_count_far(archive, least_bytes, n_p);
    memcpy(&word, at, sizeof word);
    if (PGAS_UNLIKELY(word > PGAS_ARCHIVE_INLINE_MAX ||
                      (uint64_t)word * least_bytes > room - sizeof word))
        return pgas_archive_get_count_far(archive, least_bytes, n_p);
    archive->get_at = at + sizeof word;
    *n_p = word;
    return PGAS_OK;
}

/* A value begins whose depth the data decide, and ends. */
PGAS_INLINE pgas_status_t pgas_archive_enter(pgas_archive_t *archive)
{
    if (PGAS_UNLIKELY(archive->depth >= PGAS_ARCHIVE_DEPTH))
        return pgas_archive_fail(archive, PGAS_ERR_LIMIT);
    archive->depth++;
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
    char *at;
    size_t align = pgas_archive_align(elem_bytes);
    uint32_t word = (uint32_t)n;
    if (PGAS_UNLIKELY(!archive || !data || !pgas_archive_is_moderate(elem_bytes) ||
                      n - 1 >= archive->small || n * elem_bytes > archive->small ||
                      n * elem_bytes >= (size_t)(archive->put_end - archive->put_at)))
        return pgas_archive_put_vector_far(archive, data, n, elem_bytes);
    at = archive->put_at;
    memcpy(at, &word, sizeof word);
    at += sizeof word;
    if (align > 1) {
        memset(at, 0, align);
        at += -(size_t)(at - archive->begin) & (align - 1);
    }
    memcpy(at, data, n * elem_bytes);
    archive->put_at = at + n * elem_bytes;
    return PGAS_OK;
}

PGAS_INLINE pgas_status_t pgas_archive_put_string(pgas_archive_t *archive, const char *text)
{
    return pgas_archive_put_string_far(archive, text);
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
    const char *at;
    uint32_t word;
    uint64_t room, before = sizeof word;
    if (PGAS_UNLIKELY(!archive || !data_p || !n_p || !pgas_archive_is_moderate(elem_bytes)))
        return pgas_archive_get_vector_far(archive, elem_bytes, data_p, n_p);
    at = archive->get_at;
    room = (uint64_t)(archive->get_end - at);
    if (PGAS_UNLIKELY(room < sizeof word))
        return pgas_archive_get_vector_far(archive, elem_bytes, data_p, n_p);
    memcpy(&word, at, sizeof word);
    if (pgas_archive_align(elem_bytes) > 1)
        before +=
            -(uint64_t)(at + sizeof word - archive->begin) & (pgas_archive_align(elem_bytes) - 1);
    /* Counts of 0 and marks are the greatest words here, and have other forms. */
    if (PGAS_UNLIKELY(word - 1 >= PGAS_ARCHIVE_INLINE_MAX ||
                      word * (uint64_t)elem_bytes + before > room))
        return pgas_archive_get_vector_far(archive, elem_bytes, data_p, n_p);
    archive->get_at = at + before + word * (size_t)elem_bytes;
    *data_p = at + before;
    *n_p = word;
    return PGAS_OK;
}

PGAS_INLINE pgas_status_t pgas_archive_get_string(pgas_archive_t *archive, const char **text_p)
{
    return pgas_archive_get_string_far(archive, text_p);
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
