/* See unpack.h. The functions of a library are called through a table, which pgasi_library_open
 * fills.
 *
 * Invariant: is_complete is true exactly between two streams, so input that ends elsewhere is
 * truncated. */
#include "graph/unpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/library.h"

#ifdef PGAS_HAVE_ZLIB
#define ZLIB_CONST
#include <zlib.h>
#endif
#ifdef PGAS_HAVE_ZSTD
#include <zstd.h>
#endif

pgasi_pack_t pgasi_unpack_kind(const char *bytes, size_t n_bytes)
{
    if (n_bytes >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0)
        return PGASI_PACK_GZIP;
    return n_bytes >= 4 && memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0 ? PGASI_PACK_ZSTD
                                                                     : PGASI_PACK_NONE;
}

#if !defined PGAS_HAVE_ZLIB || !defined PGAS_HAVE_ZSTD
static pgas_status_t not_built(pgasi_graph_error_t *error, const char *kind, const char *package,
                               const char *cure)
{
    return pgasi_graph_error_set(error, PGAS_ERR_UNSUPPORTED, 0,
                                 "is compressed by %s, and this library was built without %s: "
                                 "install it and build again, or pass the output of `%s FILE`, "
                                 "with the path '-' for standard input",
                                 kind, package, cure);
}
#endif

#if defined PGAS_HAVE_ZLIB || defined PGAS_HAVE_ZSTD
static pgas_status_t no_memory(pgasi_graph_error_t *error)
{
    return pgasi_graph_error_set(error, PGAS_ERR_NO_MEMORY, 0, "no memory to decompress it");
}

static pgas_status_t corrupt(pgasi_graph_error_t *error, const char *library, const char *reason)
{
    return pgasi_graph_error_set(error, PGAS_ERR_FORMAT, 0,
                                 "is corrupt: the compressed data are malformed (%s: %s)", library,
                                 reason ? reason : "no reason is known");
}

static pgas_status_t not_there(pgasi_graph_error_t *error, const char *package, const char *why)
{
    return pgasi_graph_error_set(error, PGAS_ERR_UNSUPPORTED, 0,
                                 "is compressed, and %s cannot be loaded (%s): install it", package,
                                 why);
}

#define POINTER(name)  __typeof__(&(name)) name;
#define FUNCTION(name) { #name, &library.name },
#endif

/* ---- gzip ---- */

#ifdef PGAS_HAVE_ZLIB
#define FUNCTIONS(X) X(inflateInit2_) X(inflateReset) X(inflate) X(inflateEnd)
#define GZIP_ONLY    (15 + 16) /* windowBits: the largest window, and a gzip header */

static struct {
    FUNCTIONS(POINTER)
} library;

static void fini_gzip(pgasi_unpack_t *unpack)
{
    library.inflateEnd(unpack->stream);
    free(unpack->stream);
}

static pgas_status_t run_gzip(pgasi_unpack_t *unpack, const char *in, size_t n_in, size_t *used_p,
                              char *out, size_t room, size_t *given_p, pgasi_graph_error_t *error)
{
    z_stream *stream = unpack->stream;
    stream->next_in = (const unsigned char *)in;
    stream->avail_in = (unsigned)n_in;
    stream->next_out = (unsigned char *)out;
    stream->avail_out = (unsigned)room;
    int result;
    bool goes_on;
    do {
        uint64_t before = (uint64_t)stream->avail_in + stream->avail_out;
        result = library.inflate(stream, Z_NO_FLUSH);
        goes_on = (uint64_t)stream->avail_in + stream->avail_out != before;
        if (goes_on)
            unpack->is_complete = result == Z_STREAM_END;
        if (result == Z_STREAM_END)
            result = library.inflateReset(stream); /* for a further stream */
    } while (result == Z_OK && goes_on && stream->avail_out > 0);
    *used_p = n_in - stream->avail_in;
    *given_p = room - stream->avail_out;
    if (result == Z_MEM_ERROR)
        return no_memory(error);
    return result == Z_OK || result == Z_BUF_ERROR ? PGAS_OK : corrupt(error, "zlib", stream->msg);
}
static pgas_status_t init_gzip(pgasi_unpack_t *unpack, pgasi_graph_error_t *error)
{
    static const pgasi_library_fn_t functions[] = { FUNCTIONS(FUNCTION) };
    char why[100];
    if (!library.inflate &&
        !pgasi_library_open("libz.so.1", functions, PGASI_ARRAY_LENGTH(functions), why, sizeof why))
        return not_there(error, "zlib (zlib1g)", why);
    z_stream *stream = calloc(1, sizeof *stream);
    if (!stream ||
        library.inflateInit2_(stream, GZIP_ONLY, ZLIB_VERSION, (int)sizeof *stream) != Z_OK) {
        free(stream);
        return no_memory(error);
    }
    *unpack = (pgasi_unpack_t){ .stream = stream, .run = run_gzip, .fini = fini_gzip };
    return PGAS_OK;
}

#undef FUNCTIONS
#else
static pgas_status_t init_gzip(pgasi_unpack_t *unpack, pgasi_graph_error_t *error)
{
    (void)unpack;
    return not_built(error, "gzip", "zlib (zlib1g-dev)", "zcat");
}
#endif

/* ---- zstd ---- */

#ifdef PGAS_HAVE_ZSTD
#define FUNCTIONS(X)      \
    X(ZSTD_createDStream) \
    X(ZSTD_freeDStream) X(ZSTD_decompressStream) X(ZSTD_isError) X(ZSTD_getErrorName)

static struct {
    FUNCTIONS(POINTER)
} zstd;

#undef FUNCTION
#define FUNCTION(name) { #name, &zstd.name },

static void fini_zstd(pgasi_unpack_t *unpack)
{
    zstd.ZSTD_freeDStream(unpack->stream);
}

static pgas_status_t run_zstd(pgasi_unpack_t *unpack, const char *in, size_t n_in, size_t *used_p,
                              char *out, size_t room, size_t *given_p, pgasi_graph_error_t *error)
{
    ZSTD_inBuffer from = { in, n_in, 0 };
    ZSTD_outBuffer to = { out, room, 0 };
    size_t result;
    bool goes_on;
    do {
        size_t before = from.pos + to.pos;
        result = zstd.ZSTD_decompressStream(unpack->stream, &to, &from);
        goes_on = !zstd.ZSTD_isError(result) && from.pos + to.pos != before;
        if (goes_on)
            unpack->is_complete = result == 0;
    } while (goes_on && to.pos < to.size);
    *used_p = from.pos;
    *given_p = to.pos;
    return zstd.ZSTD_isError(result) ? corrupt(error, "zstd", zstd.ZSTD_getErrorName(result))
                                     : PGAS_OK;
}
static pgas_status_t init_zstd(pgasi_unpack_t *unpack, pgasi_graph_error_t *error)
{
    static const pgasi_library_fn_t functions[] = { FUNCTIONS(FUNCTION) };
    char why[100];
    if (!zstd.ZSTD_isError && !pgasi_library_open("libzstd.so.1", functions,
                                                  PGASI_ARRAY_LENGTH(functions), why, sizeof why))
        return not_there(error, "libzstd (libzstd1)", why);
    void *stream = zstd.ZSTD_createDStream();
    if (!stream)
        return no_memory(error);
    *unpack = (pgasi_unpack_t){ .stream = stream, .run = run_zstd, .fini = fini_zstd };
    return PGAS_OK;
}

#else
static pgas_status_t init_zstd(pgasi_unpack_t *unpack, pgasi_graph_error_t *error)
{
    (void)unpack;
    return not_built(error, "zstd", "libzstd (libzstd-dev)", "zstdcat");
}
#endif

/* ---- all kinds ---- */

static pgas_status_t copy(pgasi_unpack_t *unpack, const char *in, size_t n_in, size_t *used_p,
                          char *out, size_t room, size_t *given_p, pgasi_graph_error_t *error)
{
    (void)unpack, (void)error;
    *used_p = *given_p = PGASI_MIN(n_in, room);
    memcpy(out, in, *used_p);
    return PGAS_OK;
}

pgas_status_t pgasi_unpack_init(pgasi_unpack_t *unpack, pgasi_pack_t kind,
                                pgasi_graph_error_t *error_p)
{
    *unpack = (pgasi_unpack_t){ .is_complete = true, .run = copy };
    switch (kind) {
    case PGASI_PACK_GZIP:
        return init_gzip(unpack, error_p);
    case PGASI_PACK_ZSTD:
        return init_zstd(unpack, error_p);
    default:
        return PGAS_OK;
    }
}

void pgasi_unpack_fini(pgasi_unpack_t *unpack)
{
    if (unpack->stream)
        unpack->fini(unpack);
    unpack->stream = NULL;
}

pgas_status_t pgasi_unpack_finish(const pgasi_unpack_t *unpack, pgasi_graph_error_t *error_p)
{
    return unpack->is_complete
               ? PGAS_OK
               : pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, 0,
                                       "is truncated: the compressed data end inside a stream");
}
