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

/** Makes *in_p a reader of a stream and chunks. stream is aligned to 16, because readers
 *  promise aligned vectors. owns: what pgas_archive_free frees, of pgas_archive_owns_t. */
void pgasi_archive_read(pgas_archive_t *in_p, const char *stream, size_t bytes,
                        pgas_archive_chunk_t *chunk, size_t n_chunks, unsigned owns);

/** Moves stream and chunks of `from`, which was written, to *to_p, and makes *from empty, with the
 *  memory that *to_p had. The threshold and the arena of each stay. So a pair of archives exchanges
 *  memory and allocates nothing. *to_p was written or is empty. */
void pgasi_archive_move(pgas_archive_t *from, pgas_archive_t *to_p);

#endif
