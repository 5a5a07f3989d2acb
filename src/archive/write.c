/* Writing archives. The stream is one block of malloc that grows by a factor of 2. Clearing keeps
 * it, so an archive that is used again allocates nothing. put_at == put_end in an archive without
 * memory, after clearing, and after an error. Then inline writes call the functions here. */
#include <stdlib.h>
#include <string.h>

#include "archive/archive.h"

#define FIRST_BYTES  ((size_t)1 << 10)
#define FIRST_CHUNKS 8

PGASI_STATIC_ASSERT(_Alignof(max_align_t) >= PGAS_ARCHIVE_ALIGN_MAX, "memory of malloc is aligned");

/* ---- errors and the end ---- */

pgas_status_t pgas_archive_fail_far(pgas_archive_t *archive, pgas_status_t status)
{
    if (!archive)
        return PGAS_ERR_INVALID;
    if (archive->status != PGAS_OK || status == PGAS_OK)
        return archive->status;
    archive->status = status;
    archive->put_end = archive->put_at;
    archive->get_end = archive->get_at;
    return status;
}

static void drop_objects(const pgas_archive_t *archive)
{
    for (size_t i = 0; i < archive->n_chunks; i++)
        if (archive->chunk[i].object)
            (void)pgas_rma_object_destroy(archive->chunk[i].object);
}

static void free_reader(pgas_archive_t *in)
{
    if (in->owns & PGAS_ARCHIVE_OWNS_OBJECTS)
        drop_objects(in);
    if (in->owns & PGAS_ARCHIVE_OWNS_TABLE)
        free(in->chunk);
    if (in->owns & PGAS_ARCHIVE_OWNS_STREAM)
        free(in->begin);
}

pgas_status_t pgas_archive_clear(pgas_archive_t *archive)
{
    if (!archive)
        return PGAS_ERR_INVALID;
    if (archive->reading)
        return pgas_archive_free(archive);
    if (archive->n_chunks)
        drop_objects(archive);
    archive->n_chunks = 0;
    archive->put_at = archive->put_end = archive->begin;
    archive->status = PGAS_OK;
    archive->depth = 0;
    return pgas_arena_clear(&archive->arena);
}

pgas_status_t pgas_archive_free(pgas_archive_t *archive)
{
    if (!archive)
        return PGAS_ERR_INVALID;
    if (archive->reading)
        free_reader(archive);
    else {
        drop_objects(archive);
        free(archive->chunk);
        free(archive->begin);
    }
    if (archive->arena.blocks)
        (void)pgas_arena_free(&archive->arena);
    pgasi_archive_reset(archive);
    return PGAS_OK;
}

void pgasi_archive_move(pgas_archive_t *from, pgas_archive_t *to_p)
{
    (void)pgas_archive_clear(to_p);
    pgas_archive_t empty = *to_p;
    to_p->begin = from->begin;
    to_p->room = from->room;
    to_p->put_at = to_p->put_end = from->put_at;
    to_p->chunk = from->chunk;
    to_p->n_chunks = from->n_chunks;
    to_p->room_chunks = from->room_chunks;
    to_p->status = from->status;
    from->begin = empty.begin;
    from->room = empty.room;
    from->put_at = from->put_end = from->begin;
    from->chunk = empty.chunk;
    from->n_chunks = 0;
    from->room_chunks = empty.room_chunks;
    from->status = PGAS_OK;
    from->depth = 0;
}

/* ---- room ---- */

/* Returns true if the archive can be written. Otherwise it has an error. */
static bool is_writable(pgas_archive_t *archive)
{
    if (archive->reading)
        (void)pgas_archive_fail(archive, PGAS_ERR_INVALID);
    return archive->status == PGAS_OK;
}

/* Makes room in the stream for this many more bytes, and opens the inline path. */
static bool make_room(pgas_archive_t *archive, size_t bytes)
{
    size_t used = (size_t)(archive->put_at - archive->begin);
    if (bytes > PTRDIFF_MAX - used) {
        (void)pgas_archive_fail(archive, PGAS_ERR_NO_MEMORY);
        return false;
    }
    size_t need = used + bytes;
    if (need > archive->room || !archive->begin) {
        size_t room = PGASI_MAX(PGASI_MAX(need, FIRST_BYTES),
                                archive->room <= PTRDIFF_MAX / 2 ? 2 * archive->room : 0);
        char *memory = realloc(archive->begin, room);
        if (!memory && (room = need) && !(memory = realloc(archive->begin, room))) {
            (void)pgas_archive_fail(archive, PGAS_ERR_NO_MEMORY);
            return false;
        }
        archive->begin = memory;
        archive->room = room;
        archive->put_at = memory + used;
    }
    archive->put_end = archive->begin + archive->room;
    if (!archive->threshold)
        archive->threshold = PGAS_ARCHIVE_THRESHOLD;
    /* It is below 2^32, so a count has one word, and a product of two such numbers cannot wrap. */
    archive->small = PGASI_MIN(archive->threshold - 1, PGAS_ARCHIVE_INLINE_MAX);
    return true;
}

char *pgas_archive_reserve_far(pgas_archive_t *archive, size_t bytes)
{
    if (!archive || !is_writable(archive) || !make_room(archive, bytes))
        return NULL;
    char *at = archive->put_at;
    archive->put_at = at + bytes;
    return at;
}

pgas_status_t pgas_archive_put_far(pgas_archive_t *archive, const void *data, size_t bytes)
{
    if (!archive || (!data && bytes))
        return pgas_archive_fail(archive, PGAS_ERR_INVALID);
    char *to = pgas_archive_reserve_far(archive, bytes);
    if (to && bytes)
        memcpy(to, data, bytes);
    return archive->status;
}

/* ---- counts ---- */

static void put_mark(pgas_archive_t *archive, uint32_t mark, uint64_t n)
{
    char *at = pgas_archive_reserve_far(archive, sizeof mark + sizeof n);
    if (!at)
        return;
    memcpy(at, &mark, sizeof mark);
    memcpy(at + sizeof mark, &n, sizeof n);
}

pgas_status_t pgas_archive_put_count_far(pgas_archive_t *archive, size_t n)
{
    uint32_t word = (uint32_t)n;
    if (!archive)
        return PGAS_ERR_INVALID;
    if (n <= PGAS_ARCHIVE_INLINE_MAX)
        return pgas_archive_put_far(archive, &word, sizeof word);
    put_mark(archive, PGAS_ARCHIVE_LONG, n);
    return archive->status;
}

static pgas_status_t put_absent(pgas_archive_t *archive)
{
    uint32_t mark = PGAS_ARCHIVE_ABSENT;
    return pgas_archive_put_far(archive, &mark, sizeof mark);
}

/* ---- vectors ---- */

static pgas_status_t put_in_stream(pgas_archive_t *archive, const void *data, size_t n,
                                   size_t elem_bytes)
{
    if (pgas_archive_put_count_far(archive, n) != PGAS_OK || !n)
        return archive->status;
    size_t before =
        -(size_t)(archive->put_at - archive->begin) & (pgas_archive_align(elem_bytes) - 1);
    char *to = pgas_archive_reserve_far(archive, before);
    if (to)
        memset(to, 0, before);
    return pgas_archive_put_far(archive, data, n * elem_bytes);
}

/* Adds a chunk of n elements. The archive becomes a holder of its object, if there is one. */
static pgas_status_t put_chunk(pgas_archive_t *archive, size_t n, pgas_archive_chunk_t chunk)
{
    if (archive->n_chunks == archive->room_chunks) {
        size_t room = PGASI_MAX(FIRST_CHUNKS, 2 * archive->room_chunks);
        if (room > UINT32_MAX)
            return pgas_archive_fail(archive, PGAS_ERR_LIMIT);
        pgas_archive_chunk_t *table = realloc(archive->chunk, room * sizeof *table);
        if (!table)
            return pgas_archive_fail(archive, PGAS_ERR_NO_MEMORY);
        archive->chunk = table;
        archive->room_chunks = room;
    }
    put_mark(archive, PGAS_ARCHIVE_CHUNK, n);
    if (archive->status != PGAS_OK)
        return archive->status;
    (void)pgas_rma_object_share(chunk.object);
    archive->chunk[archive->n_chunks++] = chunk;
    return PGAS_OK;
}

/* make_room sets the default threshold at the first write, which may be later than this. */
static bool is_large(pgas_archive_t *archive, size_t bytes)
{
    return bytes >= (archive->threshold ? archive->threshold : PGAS_ARCHIVE_THRESHOLD);
}

pgas_status_t pgas_archive_put_vector_far(pgas_archive_t *archive, const void *data, size_t n,
                                          size_t elem_bytes)
{
    if (!archive || (!data && n) || !elem_bytes || n > PTRDIFF_MAX / elem_bytes)
        return pgas_archive_fail(archive, PGAS_ERR_INVALID);
    if (!is_writable(archive))
        return archive->status;
    size_t bytes = n * elem_bytes;
    if (!bytes || !is_large(archive, bytes))
        return put_in_stream(archive, data, n, elem_bytes);
    return put_chunk(archive, n, (pgas_archive_chunk_t){ data, bytes, NULL });
}

pgas_status_t pgas_archive_put_string_far(pgas_archive_t *archive, const char *text)
{
    if (!archive)
        return PGAS_ERR_INVALID;
    if (!text)
        return put_absent(archive);
    return put_in_stream(archive, text, strlen(text) + 1, 1);
}

pgas_status_t pgas_archive_put_object(pgas_archive_t *archive, pgas_rma_object_t *object,
                                      size_t bytes)
{
    if (!archive)
        return PGAS_ERR_INVALID;
    if (!is_writable(archive))
        return archive->status;
    if (!object)
        return bytes ? pgas_archive_fail(archive, PGAS_ERR_RANGE) : put_absent(archive);
    if (bytes > object->bytes)
        return pgas_archive_fail(archive, PGAS_ERR_RANGE);
    if (!bytes || !is_large(archive, bytes))
        return put_in_stream(archive, object->data, bytes, 1);
    return put_chunk(archive, bytes, (pgas_archive_chunk_t){ object->data, bytes, object });
}
