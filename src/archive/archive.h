/** Archives inside the library. The encoding of the stream is in pgas/detail/archive.h. */
#ifndef PGASI_ARCHIVE_H
#define PGASI_ARCHIVE_H

#include <stddef.h>
#include "base/checks.h"
#include "pgas/archive.h"

/** Returns the number of bytes of the stream. */
static inline size_t pgasi_archive_stream_bytes(const pgas_archive_t *archive)
{
    if (archive->reading)
        return (size_t)(archive->get_end - archive->begin);
    return (size_t)(archive->put_at - archive->begin);
}

/** Makes an archive empty: PGAS_ARCHIVE_INIT, field by field, because compilers clear so many bytes
 *  by a string instruction, which takes 10 ns. The threshold stays. */
static inline void pgasi_archive_reset(pgas_archive_t *archive)
{
    archive->put_at = archive->put_end = archive->begin = NULL;
    archive->get_at = archive->get_end = NULL;
    archive->room = archive->small = 0;
    archive->chunk = NULL;
    archive->n_chunks = archive->next_chunk = archive->room_chunks = 0;
    archive->arena.at = archive->arena.end = NULL;
    archive->arena.blocks = NULL;
    archive->memory = NULL;
    archive->status = PGAS_OK;
    archive->depth = 0;
    archive->reading = archive->in_place = false;
    archive->owns = 0;
}

/** Makes *in_p a reader of a stream and chunks. stream is aligned to 16, because readers
 *  promise aligned vectors. owns: what pgas_archive_free frees, of pgas_archive_owns_t. */
void pgasi_archive_read(pgas_archive_t *in_p, const char *stream, size_t bytes,
                        pgas_archive_chunk_t *chunk, size_t n_chunks, unsigned owns);

/** Moves stream and chunks of `from`, which was written, to *to_p, and makes *from empty, with the
 *  memory that *to_p had. The threshold and the arena of each stay. So a pair of archives exchanges
 *  memory and allocates nothing. *to_p was written or is empty. */
void pgasi_archive_move(pgas_archive_t *from, pgas_archive_t *to_p);

#endif
