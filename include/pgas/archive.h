/** An archive holds values of any mixture of sizes: one stream of bytes, and a table of chunks.
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
 *  pgas/describe.h writes and reads whole structures. pgas/call_archive.h sends an archive to a
 *  handler of another rank. pgas_archive_pack makes bytes for a file or another transport.
 *
 *  An archive has three kinds of data:
 *  | data                                         | in the archive                               |
 *  | smaller than the threshold                   | copied into the stream                       |
 *  | from the threshold on, memory of the program | a pointer chunk: address and size. The data  |
 *  |                                              | must not change while the archive is used    |
 *  | from the threshold on, an object of          | a registered chunk: the archive shares the   |
 *  | pgas/rma_object.h                            | object, so the program may destroy its own   |
 *
 *  Data have the layout of the machine. Packed bytes begin with its byte order and word size, and a
 *  machine with others refuses them (PGAS_ERR_MISMATCH). Counts and sizes have 64 bits. Memory that
 *  is put twice is two values: the archive does not compare addresses.
 *
 *  An archive may be used on any thread, by one thread at a time. It does not need pgas_init. The
 *  first error stays in the archive: later calls do nothing and return it. So a program may check
 *  the status once, after the last call. Statuses of all functions:
 *  @return PGAS_ERR_INVALID    a null pointer, elements of 0 bytes, more than PTRDIFF_MAX bytes,
 *                              a reader that is written, or an archive that is read while written
 *          PGAS_ERR_FORMAT     reading: the archive ends too early, or a count or mark is wrong
 *          PGAS_ERR_LIMIT      values nested deeper than PGAS_ARCHIVE_DEPTH, or over 2^31 chunks
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

/** Vectors and objects of at least this many bytes become chunks. */
#define PGAS_ARCHIVE_THRESHOLD 4096
/** The deepest nesting of values. */
#define PGAS_ARCHIVE_DEPTH 100

/** A chunk: data that are not in the stream. */
typedef struct {
    const void *data;
    size_t bytes;
    pgas_rma_object_t *object; /* shared by the archive; NULL: memory of the program */
} pgas_archive_chunk_t;

/** An arena allocates memory piece by piece, and frees all pieces at once. */
typedef struct {
    char *at, *end;
    void *blocks;
} pgas_arena_t;
#define PGAS_ARENA_INIT  \
    {                    \
        NULL, NULL, NULL \
    }

/** An archive. The program may set threshold before it writes. 0 is the default; SIZE_MAX puts all
 *  data into the stream. The other fields belong to the library. */
typedef struct pgas_archive {
    char *put_at, *put_end;       /* writing: the address of the next byte, the end of the room */
    const char *get_at, *get_end; /* reading: the next byte, the end of the stream */
    char *begin;                  /* of the stream, aligned to 16 */
    size_t room;                  /* writing: bytes from begin on */
    size_t threshold;
    size_t small; /* writing: the inline path takes at most this many bytes */
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
 *  The stream aligns them to the greatest power of two, at most 16, that divides elem_bytes. */
PGAS_INLINE pgas_status_t pgas_archive_put_vector(pgas_archive_t *archive, const void *data,
                                                  size_t n, size_t elem_bytes);
/** Writes a string with its terminating 0. NULL is allowed. Strings are always copied. */
PGAS_INLINE pgas_status_t pgas_archive_put_string(pgas_archive_t *archive, const char *text);
/** Writes the first bytes of an object. From the threshold on the archive shares the object;
 *  smaller data are copied. NULL is allowed, with 0 bytes.
 *  @return PGAS_ERR_RANGE  more bytes than the object has */
PGAS_API pgas_status_t pgas_archive_put_object(pgas_archive_t *archive, pgas_rma_object_t *object,
                                               size_t bytes);

/* ---- reading ---- */

/** Begins to read what was written. written must not change until in_p is freed. */
PGAS_API pgas_status_t pgas_archive_from(const pgas_archive_t *written, pgas_archive_t *in_p);
/** Begins to read bytes that pgas_archive_pack made. data is aligned to 16. It must not change
 *  until in_p is freed.
 *  @return PGAS_ERR_FORMAT    the bytes are not an archive, or are damaged
 *          PGAS_ERR_MISMATCH  another byte order, word size or version */
PGAS_API pgas_status_t pgas_archive_from_bytes(const void *data, size_t bytes,
                                               pgas_archive_t *in_p);

/** Copies the next bytes of the stream to `to`. */
PGAS_INLINE pgas_status_t pgas_archive_get(pgas_archive_t *archive, void *to, size_t bytes);
/** Reads the next vector in place. *data_p is valid until the archive is freed. It is NULL when
 *  there are no elements. The reader must know elem_bytes: the stream does not have it. */
PGAS_INLINE pgas_status_t pgas_archive_get_vector(pgas_archive_t *archive, size_t elem_bytes,
                                                  const void **data_p, size_t *n_p);
/** Reads the next string in place. *text_p is NULL when NULL was written. */
PGAS_INLINE pgas_status_t pgas_archive_get_string(pgas_archive_t *archive, const char **text_p);
/** Reads the next object, and the number of bytes that were written. The caller destroys the
 *  object. A registered chunk, and any chunk of a call, is shared without a copy. Other data are
 *  copied into a new object. *object_p is NULL when NULL was written. */
PGAS_API pgas_status_t pgas_archive_get_object(pgas_archive_t *archive,
                                               pgas_rma_object_t **object_p, size_t *bytes_p);

/* ---- both ---- */

/** Records an error, as if the last call had returned it. Functions of PGAS_OWN types use it. */
PGAS_INLINE pgas_status_t pgas_archive_fail(pgas_archive_t *archive, pgas_status_t status);

/** Removes what was written, and the error. The memory stays for the next use. Frees a reader. */
PGAS_API pgas_status_t pgas_archive_clear(pgas_archive_t *archive);
/** Frees all memory of an archive, also what readers point to. The archive is then empty and may
 *  be used again. Its threshold stays. */
PGAS_API pgas_status_t pgas_archive_free(pgas_archive_t *archive);

/** Returns the number of bytes that pgas_archive_pack writes: header, table, stream and chunks. */
PGAS_API size_t pgas_archive_bytes(const pgas_archive_t *written);
/** Copies an archive to contiguous memory, which is aligned to 16. The reader must know the exact
 *  number of bytes.
 *  @return PGAS_ERR_RANGE  bytes is less than pgas_archive_bytes */
PGAS_API pgas_status_t pgas_archive_pack(const pgas_archive_t *written, void *to, size_t bytes);

/** Allocates memory for what a reader builds, zeroed and aligned to 16. It comes from an arena, or
 *  from malloc if pgas_load_NAME without an arena runs. Functions of PGAS_OWN types use it.
 *  @return PGAS_ERR_FORMAT  bytes is more than 1 MiB plus 1024 times the bytes of the archive */
PGAS_API pgas_status_t pgas_archive_alloc(pgas_archive_t *archive, size_t bytes, void **memory_p);

/* ---- arenas ---- */

/** Returns memory aligned to 16, or NULL. It is valid until the arena is cleared or freed. */
PGAS_INLINE void *pgas_arena_alloc(pgas_arena_t *arena, size_t bytes);
/** Takes all pieces back, and keeps the largest block for the next use. */
PGAS_API pgas_status_t pgas_arena_clear(pgas_arena_t *arena);
/** Frees all memory of the arena, which is then empty. */
PGAS_API pgas_status_t pgas_arena_free(pgas_arena_t *arena);

PGAS_END_DECLS

#include "pgas/detail/archive.h"
#endif
