/** Readers of graph texts: bytes in, vertices and edges out, a refusal with its line number and
 *  reason. Pure: no files, no ranks, no log. Bytes may come in pieces of any size; what the pieces
 *  were makes no difference. */
#ifndef PGASI_GRAPH_READER_H
#define PGASI_GRAPH_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/graph.h"
#include "pgas/status.h"

#define PGASI_READER_LINE_MAX 65536 /* bytes, without the line's end */
#define PGASI_READER_NAME_MAX 4095
#define PGASI_READER_ID_MAX   INT64_MAX
#define PGASI_READER_SNIFF    65536 /* bytes that are always enough to tell the format */

/** Why a text was refused: line 1 is the first; 0 stands for the text as a whole. */
typedef struct {
    pgas_status_t status;
    uint64_t line;
    char text[200];
} pgasi_graph_error_t;

/** What a Matrix Market text says before its entries. */
typedef struct {
    uint64_t n_vertices;
    uint64_t n_entries;
    uint64_t line; /* of the size line */
    bool has_value;
    bool symmetric;
} pgasi_mtx_header_t;

/** Where the contents go; the reader of a format calls one of them. A status that is not PGAS_OK
 *  ends the reading. */
typedef struct {
    pgas_status_t (*edge)(void *arg, uint64_t from, uint64_t to);
    /** b NULL: a vertex alone */
    pgas_status_t (*names)(void *arg, const char *a, size_t a_bytes, const char *b, size_t b_bytes);
} pgasi_reader_ops_t;

typedef enum { PGASI_MTX_BANNER, PGASI_MTX_SIZE, PGASI_MTX_ENTRIES } pgasi_mtx_state_t;

typedef struct {
    pgas_graph_format_t format;
    const pgasi_reader_ops_t *ops;
    void *arg;
    uint64_t n_lines;   /* lines begun */
    uint64_t n_entries; /* lines that held an edge, a vertex or a matrix entry */
    pgasi_mtx_state_t mtx_state;
    /* valid when mtx_state is PGASI_MTX_ENTRIES; may be set from outside, with the state */
    pgasi_mtx_header_t mtx;
    pgasi_graph_error_t error;
    char *carry; /* begin of a line whose end has not come yet */
    size_t carry_bytes;
} pgasi_reader_t;

/** Checks the first bytes of the input (PGASI_READER_BEGIN, or fewer if it is shorter).
 *  @return the bytes to skip: the length of a byte-order mark, or 0. Sets an error (line 0) for
 *          compressed or UTF-16 input. */
#define PGASI_READER_BEGIN 6
size_t pgasi_reader_begin(const char *bytes, size_t n_bytes, pgasi_graph_error_t *error_p);

/** Tell the format from the first bytes (all there are, or PGASI_READER_SNIFF of them). Never
 *  PGAS_GRAPH_AUTO. */
pgas_graph_format_t pgasi_reader_sniff(const char *bytes, size_t n_bytes);

/** Tell the format from the end of a file's name; PGAS_GRAPH_AUTO if it says nothing. */
pgas_graph_format_t pgasi_reader_format_of(const char *path);

/** @return PGAS_OK or PGAS_ERR_NO_MEMORY. */
pgas_status_t pgasi_reader_init(pgasi_reader_t *reader, pgas_graph_format_t format,
                                const pgasi_reader_ops_t *ops, void *arg);
void pgasi_reader_fini(pgasi_reader_t *reader);

/** Read the next bytes. @return PGAS_OK, or that of reader->error, now and from then on. */
pgas_status_t pgasi_reader_feed(pgasi_reader_t *reader, const char *bytes, size_t n_bytes);

/** Read on to the end of the Matrix Market header at most; *used_p bytes were taken. For other
 *  formats: none. */
pgas_status_t pgasi_reader_feed_header(pgasi_reader_t *reader, const char *bytes, size_t n_bytes,
                                       size_t *used_p);

/** No more bytes: read a last line without end. Does not judge the text as a whole. */
pgas_status_t pgasi_reader_finish(pgasi_reader_t *reader);

/** Judge the whole text: n_lines and n_entries as summed over all readers of its parts; mtx NULL
 *  for other formats, or if there was no complete header. @return PGAS_OK or that of *error_p. */
pgas_status_t pgasi_reader_judge(pgas_graph_format_t format, const pgasi_mtx_header_t *mtx,
                                 uint64_t n_lines, uint64_t n_entries,
                                 pgasi_graph_error_t *error_p);

/** Set an error: the first one stays. @return error_p->status. */
pgas_status_t pgasi_graph_error_set(pgasi_graph_error_t *error_p, pgas_status_t status,
                                    uint64_t line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
