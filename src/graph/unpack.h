/** Decompression of gzip and zstd, piece by piece. zlib and libzstd are optional; they are opened
 *  when the first file of their kind is read. */
#ifndef PGASI_GRAPH_UNPACK_H
#define PGASI_GRAPH_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include "graph/reader.h"

typedef enum { PGASI_PACK_NONE, PGASI_PACK_GZIP, PGASI_PACK_ZSTD } pgasi_pack_t;

/** How bytes are compressed, by the first four of them, or fewer if there are no more. */
pgasi_pack_t pgasi_unpack_kind(const char *bytes, size_t n_bytes);

typedef struct pgasi_unpack pgasi_unpack_t;
struct pgasi_unpack {
    void *stream;     /* z_stream, ZSTD_DStream */
    bool is_complete; /* the bytes so far are one or more whole streams */
    pgas_status_t (*run)(pgasi_unpack_t *unpack, const char *in, size_t n_in, size_t *used_p,
                         char *out, size_t room, size_t *given_p, pgasi_graph_error_t *error_p);
    void (*fini)(pgasi_unpack_t *unpack);
};

/** @return PGAS_OK, PGAS_ERR_NO_MEMORY, or PGAS_ERR_UNSUPPORTED: the build has no library for it,
 *          or the library cannot be opened. Errors are in *error_p. */
pgas_status_t pgasi_unpack_init(pgasi_unpack_t *unpack, pgasi_pack_t kind,
                                pgasi_graph_error_t *error_p);
void pgasi_unpack_fini(pgasi_unpack_t *unpack);

/** Decompresses bytes of `in` into `out`, until one of them ends. Stores how many bytes it took,
 *  and how many it gave. Several compressed streams may follow each other. It has given all bytes
 *  when it gives nothing although there is room.
 *  @return PGAS_OK, PGAS_ERR_NO_MEMORY, or PGAS_ERR_FORMAT: the bytes are corrupt. Errors are in
 *          *error_p. */
static inline pgas_status_t pgasi_unpack_run(pgasi_unpack_t *unpack, const char *in, size_t n_in,
                                             size_t *used_p, char *out, size_t room,
                                             size_t *given_p, pgasi_graph_error_t *error_p)
{
    return unpack->run(unpack, in, n_in, used_p, out, room, given_p, error_p);
}

/** No more bytes come. @return PGAS_OK, or PGAS_ERR_FORMAT: they end too early. */
pgas_status_t pgasi_unpack_finish(const pgasi_unpack_t *unpack, pgasi_graph_error_t *error_p);

#endif
