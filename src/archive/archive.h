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

/** Makes an archive empty, as PGAS_ARCHIVE_INIT does, but keeps the threshold. It sets field by
 *  field, because compilers clear so many bytes by a string instruction, which takes 10 ns. */
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

/** Makes *in_p a reader of a stream and chunks. stream is aligned to 16, because readers promise
 *  aligned vectors. owns has bits of pgas_archive_owns_t: pgas_archive_free frees these. */
void pgasi_archive_read(pgas_archive_t *in_p, const char *stream, size_t bytes,
                        pgas_archive_chunk_t *chunk, size_t n_chunks, unsigned owns);

/** Allocates zeroed memory for what a reader builds: from the arena of its mode, or by malloc.
 *  @return PGAS_ERR_NO_MEMORY, which stays in the archive */
pgas_status_t pgasi_archive_allocate(pgas_archive_t *in, size_t bytes, void **memory_p);

/** Moves stream and chunks of `from` to *to_p. *from is then empty and has the memory that *to_p
 *  had, so two archives exchange memory and allocate nothing. The threshold and the arena of each
 *  stay. Neither archive is a reader. */
void pgasi_archive_move(pgas_archive_t *from, pgas_archive_t *to_p);

#endif
