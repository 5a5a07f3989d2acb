/** Readers of graph texts. A reader takes bytes and gives vertices and edges, or an error with its
 *  line number and reason. It uses no files, no ranks and no log. The bytes may come in pieces of
 *  any size; the sizes do not change the result. */
#ifndef PGASI_GRAPH_READER_H
#define PGASI_GRAPH_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/graph.h"
#include "pgas/status.h"

#define PGASI_READER_LINE_MAX 65536 /* bytes, without the line end */
#define PGASI_READER_NAME_MAX 4095
#define PGASI_READER_ID_MAX   INT64_MAX
#define PGASI_READER_SNIFF    65536 /* bytes that always suffice to determine the format */

/** Why a text was refused. The first line is 1; 0 means the text as a whole. */
typedef struct {
    pgas_status_t status;
    uint64_t line;
    char text[200];
} pgasi_graph_error_t;

/** The header of a Matrix Market text. */
typedef struct {
    uint64_t n_vertices;
    uint64_t n_entries;
    uint64_t line; /* of the size line */
    bool has_value;
    bool symmetric;
} pgasi_mtx_header_t;

/** The receiver of the contents. The reader of a format calls one of these functions for each
 *  entry. A status that is not PGAS_OK ends the reading. */
typedef struct {
    pgas_status_t (*edge)(void *arg, uint64_t from, uint64_t to);
    /** b is NULL for a vertex without an edge. */
    pgas_status_t (*names)(void *arg, const char *a, size_t a_bytes, const char *b, size_t b_bytes);
} pgasi_reader_ops_t;

typedef enum { PGASI_MTX_BANNER, PGASI_MTX_SIZE, PGASI_MTX_ENTRIES } pgasi_mtx_state_t;

typedef struct {
    pgas_graph_format_t format;
    const pgasi_reader_ops_t *ops;
    void *arg;
    uint64_t n_lines;   /* lines that it has begun to read */
    uint64_t n_entries; /* lines with an edge, a vertex or a matrix entry */
    pgasi_mtx_state_t mtx_state;
    /* valid when mtx_state is PGASI_MTX_ENTRIES; the caller may set it, together with mtx_state */
    pgasi_mtx_header_t mtx;
    pgasi_graph_error_t error;
    char *carry; /* the beginning of a line whose end has not come yet */
    size_t carry_bytes;
} pgasi_reader_t;

/** Checks the first bytes of the input (PGASI_READER_BEGIN of them, or fewer if it is shorter).
 *  @return the bytes to skip: the length of a byte-order mark, or 0. Sets an error (line 0) for
 *          compressed or UTF-16 input. */
#define PGASI_READER_BEGIN 6
size_t pgasi_reader_begin(const char *bytes, size_t n_bytes, pgasi_graph_error_t *error_p);

/** Determines the format by the first bytes: all of them, or PGASI_READER_SNIFF. Never returns
 *  PGAS_GRAPH_AUTO. */
pgas_graph_format_t pgasi_reader_sniff(const char *bytes, size_t n_bytes);

/** Determines the format by the end of a file's name. Returns PGAS_GRAPH_AUTO for other ends. */
pgas_graph_format_t pgasi_reader_format_of(const char *path);

/** @return PGAS_OK or PGAS_ERR_NO_MEMORY. */
pgas_status_t pgasi_reader_init(pgasi_reader_t *reader, pgas_graph_format_t format,
                                const pgasi_reader_ops_t *ops, void *arg);
void pgasi_reader_fini(pgasi_reader_t *reader);

/** Reads the next bytes.
 *  @return PGAS_OK, or the status of reader->error, which then stays. */
pgas_status_t pgasi_reader_feed(pgasi_reader_t *reader, const char *bytes, size_t n_bytes);

/** Reads up to the end of the Matrix Market header. Stores in *used_p how many bytes it took: 0 for
 *  other formats. */
pgas_status_t pgasi_reader_feed_header(pgasi_reader_t *reader, const char *bytes, size_t n_bytes,
                                       size_t *used_p);

/** Reads a last line without a line end: no more bytes come. Does not check the text as a whole. */
pgas_status_t pgasi_reader_finish(pgasi_reader_t *reader);

/** Checks the text as a whole. n_lines and n_entries are summed over all readers of its parts. mtx
 *  is NULL for other formats, or if there was no complete header.
 *  @return PGAS_OK, or the status of *error_p. */
pgas_status_t pgasi_reader_judge(pgas_graph_format_t format, const pgasi_mtx_header_t *mtx,
                                 uint64_t n_lines, uint64_t n_entries,
                                 pgasi_graph_error_t *error_p);

/** Sets an error if there is none.
 *  @return error_p->status. */
pgas_status_t pgasi_graph_error_set(pgasi_graph_error_t *error_p, pgas_status_t status,
                                    uint64_t line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
