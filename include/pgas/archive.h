/** Archives: values of any mixture of sizes as one stream of bytes and a table of chunks.
 *
 *      pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
 *      pgas_archive_put(&out, &step, sizeof step);             small data are copied
 *      pgas_archive_put_vector(&out, field, n, sizeof *field); large data stay where they are
 *      pgas_archive_from(&out, &in);                           a reader of the same process
 *      pgas_archive_get(&in, &step, sizeof step);
 *      pgas_archive_get_vector(&in, sizeof *field, (const void **)&field, &n);
 *      pgas_archive_free(&in);
 *      pgas_archive_free(&out);
 *
 *  pgas/describe.h writes and reads whole structures. pgas/call_args.h sends an archive to a
 *  handler of another rank. pgas_archive_pack makes bytes for a file or another transport.
 *
 *  The three kinds of data in an archive:
 *  | data                                         | in the archive                               |
 *  | smaller than the threshold                   | copied into the stream                       |
 *  | from the threshold on, memory of the program | a pointer chunk: address and size. The data  |
 *  |                                              | must not change while the archive is used    |
 *  | from the threshold on, an object of          | a registered chunk: the archive shares the   |
 *  | pgas/rma_object.h                            | object, so the program may destroy its own   |
 *
 *  The layout is that of the machine: byte order and word size are in the header, and a reader with
 *  others refuses the archive (PGAS_ERR_MISMATCH). Counts and sizes have 64 bits. The same memory
 *  put twice is two values; the archive keeps no identity of objects.
 *
 *  Any thread may use an archive, one at a time. Neither archives nor their functions need
 *  pgas_init. The first error of an archive stays in it: later calls do nothing and return it, so a
 *  program may check once, after the last call. Statuses of all functions:
 *  @return PGAS_ERR_INVALID    a null pointer, elements of 0 bytes, more bytes than memory has,
 *                              reading what is being written, or writing to a reader
 *          PGAS_ERR_FORMAT     reading: the archive ends too early, or a count or mark is wrong
 *          PGAS_ERR_LIMIT      values nested deeper than PGAS_ARCHIVE_DEPTH, or 2^32 chunks
 *          PGAS_ERR_NO_MEMORY
 *
 *  Source: HPX's parcel serialization (index chunks, pointer chunks, zero-copy chunks). */
#ifndef PGAS_ARCHIVE_H
#define PGAS_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/rma_object.h"
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** Vectors of so many bytes and more become chunks. */
#define PGAS_ARCHIVE_THRESHOLD 4096
/** The deepest nesting of values. */
#define PGAS_ARCHIVE_DEPTH 100

/** A chunk: data that are not in the stream. */
typedef struct {
    const void *data;
    size_t bytes;
    pgas_rma_object_t *object; /* shared by the archive; NULL: memory of the program */
} pgas_archive_chunk_t;

/** Memory that is given out piece by piece and freed at once. */
typedef struct {
    char *at, *end;
    void *blocks;
} pgas_arena_t;
#define PGAS_ARENA_INIT  \
    {                    \
        NULL, NULL, NULL \
    }

/** An archive. The program may set threshold before it writes: 0 is the default, SIZE_MAX puts all
 *  data into the stream. The other fields belong to the library. */
typedef struct pgas_archive {
    char *put_at, *put_end;       /* writing: the place of the next byte, the end of the room */
    const char *get_at, *get_end; /* reading: the next byte, the end of the stream */
    char *begin;                  /* of the stream, aligned to 16 */
    size_t room;                  /* writing: bytes from begin on */
    size_t threshold;
    size_t small; /* writing: smaller data take the inline path */
    pgas_archive_chunk_t *chunk;
    size_t n_chunks, next_chunk, room_chunks; /* next_chunk: reading */
    pgas_arena_t arena, *memory;              /* memory: where readers allocate; NULL: malloc */
    pgas_status_t status;
    uint32_t depth;
    bool reading, in_place; /* in_place: readers may point into the archive, and use its arena */
    uint8_t owns;           /* what a reader frees (pgas_archive_owns_t) */
} pgas_archive_t;
#define PGAS_ARCHIVE_INIT                                                                        \
    {                                                                                            \
        NULL, NULL, NULL, NULL, NULL, 0, 0, 0, NULL, 0, 0, 0, PGAS_ARENA_INIT, NULL, PGAS_OK, 0, \
            false, false, 0                                                                      \
    }

/* ---- writing ---- */

/** Copies bytes into the stream. The reader must know their number. */
PGAS_INLINE pgas_status_t pgas_archive_put(pgas_archive_t *archive, const void *data, size_t bytes);
/** Writes n elements and their number. They are copied, or become a pointer chunk (table above).
 *  In the stream they are aligned to the greatest power of two, at most 16, that divides
 *  elem_bytes. */
PGAS_INLINE pgas_status_t pgas_archive_put_vector(pgas_archive_t *archive, const void *data,
                                                  size_t n, size_t elem_bytes);
/** Writes a text that ends in 0, with the 0; NULL is allowed. Texts are always copied. */
PGAS_INLINE pgas_status_t pgas_archive_put_string(pgas_archive_t *archive, const char *text);
/** Writes the first bytes of an object: shared from the threshold on, otherwise copied. NULL is
 *  allowed. @return PGAS_ERR_RANGE  more bytes than the object has */
PGAS_API pgas_status_t pgas_archive_put_object(pgas_archive_t *archive, pgas_rma_object_t *object,
                                               size_t bytes);

/* ---- reading ---- */

/** Starts to read what was written. written must stay as it is until in_p is freed. */
PGAS_API pgas_status_t pgas_archive_from(const pgas_archive_t *written, pgas_archive_t *in_p);
/** Starts to read bytes that pgas_archive_pack made. data is aligned to 16, and stays until in_p is
 *  freed. @return PGAS_ERR_FORMAT    not an archive, or damaged
 *                 PGAS_ERR_MISMATCH  another byte order, word size or version */
PGAS_API pgas_status_t pgas_archive_from_bytes(const void *data, size_t bytes,
                                               pgas_archive_t *in_p);

/** Copies the next bytes of the stream to `to`. */
PGAS_INLINE pgas_status_t pgas_archive_get(pgas_archive_t *archive, void *to, size_t bytes);
/** Gives the next vector, in place. It is valid until the archive is freed. No elements: *data_p is
 *  NULL. */
PGAS_INLINE pgas_status_t pgas_archive_get_vector(pgas_archive_t *archive, size_t elem_bytes,
                                                  const void **data_p, size_t *n_p);
/** Gives the next text, in place, or NULL. */
PGAS_INLINE pgas_status_t pgas_archive_get_string(pgas_archive_t *archive, const char **text_p);
/** Gives the next object; *bytes_p as written. The caller destroys it. A chunk that another rank
 *  sent is handed over without a copy; data that were in the stream are copied into a new object.
 *  NULL if NULL was written. */
PGAS_API pgas_status_t pgas_archive_get_object(pgas_archive_t *archive,
                                               pgas_rma_object_t **object_p, size_t *bytes_p);

/* ---- both ---- */

/** Records an error: as if the last call had returned it. Own functions of types use it. */
PGAS_INLINE pgas_status_t pgas_archive_fail(pgas_archive_t *archive, pgas_status_t status);

/** Forgets what was written, and the error, and keeps the memory for the next use. */
PGAS_API pgas_status_t pgas_archive_clear(pgas_archive_t *archive);
/** Frees all memory of an archive, also what readers point to. It may be used again as after
 *  PGAS_ARCHIVE_INIT. */
PGAS_API pgas_status_t pgas_archive_free(pgas_archive_t *archive);

/** Returns the number of bytes of pgas_archive_pack: header, table, stream and chunks. */
PGAS_API size_t pgas_archive_bytes(const pgas_archive_t *written);
/** Copies an archive into contiguous memory, aligned to 16. The reader must know the exact number
 *  of bytes.
 *  @return PGAS_ERR_RANGE  bytes is less than pgas_archive_bytes */
PGAS_API pgas_status_t pgas_archive_pack(const pgas_archive_t *written, void *to, size_t bytes);

/** Gives memory for what a reader builds: from its arena, or, when values are loaded for
 *  pgas_free_NAME (pgas/describe.h), from malloc. Own functions of types use it. It is zeroed, and
 *  aligned to 16.
 *  @return PGAS_ERR_FORMAT  more than 1 MiB and 1024 times the bytes of the archive */
PGAS_API pgas_status_t pgas_archive_alloc(pgas_archive_t *archive, size_t bytes, void **memory_p);

/* ---- arenas ---- */

/** Gives memory aligned to 16, or NULL. It lives until the arena is cleared or freed. */
PGAS_INLINE void *pgas_arena_alloc(pgas_arena_t *arena, size_t bytes);
/** Gives all its pieces back at once and keeps the largest block for the next use; frees all. */
PGAS_API pgas_status_t pgas_arena_clear(pgas_arena_t *arena);
PGAS_API pgas_status_t pgas_arena_free(pgas_arena_t *arena);

PGAS_END_DECLS

#include "pgas/detail/archive.h"
#endif
