/** Readers of graph texts. A reader takes bytes and gives vertices and edges, or an error with its
 *  line number and reason. It uses no files, no ranks and no log. The pieces of bytes may have any
 *  sizes, which do not change the result.
 *
 *  Most formats are read by lines (reader_lines.c). Lines of METIS and ADJ may have any length, so
 *  these formats are read word by word (reader_words.c). */
#ifndef PGASI_GRAPH_READER_H
#define PGASI_GRAPH_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/graph.h"
#include "pgas/status.h"

#define PGASI_READER_LINE_MAX 65536 /* bytes, without the line end; METIS, ADJ: of a word */
#define PGASI_READER_NAME_MAX 4095
#define PGASI_READER_ID_MAX   INT64_MAX
#define PGASI_READER_SNIFF    65536 /* bytes that always suffice to determine the format */

/** The first eight bytes of the form BINARY. */
#define PGASI_BINARY_MAGIC "\x89pgas\r\n\x1a"

/** Why a text was refused. The first line is 1; 0 means the text as a whole. */
typedef struct {
    pgas_status_t status;
    uint64_t line;
    char text[200];
} pgasi_graph_error_t;

/** What precedes the entries: lines of MTX, METIS and GR. Other formats have a part of it, which
 *  the caller sets before it feeds bytes. */
typedef struct {
    uint64_t n_vertices;
    uint64_t n_entries; /* METIS: edges */
    uint64_t line;      /* of the line with these numbers */
    uint64_t n_skipped; /* METIS: weights of a vertex before its neighbours */
    bool has_weight;    /* of edges; the caller sets it for LDBC */
    bool symmetric;
    bool has_sizes;   /* METIS: the first digit of the format is 1 */
    bool is_vertices; /* LDBC: the file of vertices; set by the caller */
} pgasi_reader_header_t;

/** The receiver of the contents. The reader of a format calls some of these functions for each
 *  entry. A status that is not PGAS_OK ends the reading; the function may set the reader's error
 *  itself. */
typedef struct {
    /** weight is NAN if the format has none. */
    pgas_status_t (*edge)(void *arg, uint64_t from, uint64_t to, double weight);
    /** b is NULL for a vertex without an edge. */
    pgas_status_t (*names)(void *arg, const char *a, size_t a_bytes, const char *b, size_t b_bytes);
    /** A vertex by its label: LDBC, ADJ. */
    pgas_status_t (*vertex)(void *arg, uint64_t label);
} pgasi_reader_ops_t;

typedef enum { PGASI_READER_BANNER, PGASI_READER_SIZE, PGASI_READER_ENTRIES } pgasi_reader_state_t;

/** A place in a text. A reader that starts there gives the same as a reader of the whole text. A
 *  place is not inside a word, and inside a line only in METIS and ADJ. */
typedef struct {
    uint64_t n_lines; /* that have begun */
    uint64_t in_line; /* whether the last of them has not ended */
    uint64_t in_comment;
    uint64_t n_rows;      /* METIS: lines of vertices that have ended */
    uint64_t n_words;     /* of a line that has not ended */
    uint64_t first, last; /* of these words */
} pgasi_reader_place_t;

/** Counts of a part of a text. pgasi_reader_judge checks the sums over all parts. */
typedef struct {
    uint64_t n_lines;   /* lines that the reader has begun to read */
    uint64_t n_entries; /* edges, or lines with names, or vertices */
    uint64_t n_rows;    /* METIS, ADJ: lines of vertices */
    uint64_t n_loops;   /* METIS: edges that are loops */
} pgasi_reader_counts_t;

typedef struct {
    pgas_graph_format_t format;
    const pgasi_reader_ops_t *ops;
    void *arg;
    pgasi_reader_state_t state;
    /* valid when state is PGASI_READER_ENTRIES; the caller may set it, together with state */
    pgasi_reader_header_t header;
    pgasi_reader_counts_t count;
    pgasi_reader_place_t place; /* METIS, ADJ */
    pgasi_graph_error_t error;
    char *carry; /* the beginning of a line or word whose end has not come yet */
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

/** Returns the length of a path without an end that says how the file is compressed. */
size_t pgasi_reader_plain_length(const char *path);

/** Whether the first line of an LDBC file of edges has a weight. */
bool pgasi_reader_has_weight(const char *bytes, size_t n_bytes);

/** Whether the format is read word by word. */
static inline bool pgasi_reader_by_words(pgas_graph_format_t format)
{
    return format == PGAS_GRAPH_METIS || format == PGAS_GRAPH_ADJ;
}

/** @return PGAS_OK or PGAS_ERR_NO_MEMORY. */
pgas_status_t pgasi_reader_init(pgasi_reader_t *reader, pgas_graph_format_t format,
                                const pgasi_reader_ops_t *ops, void *arg);
void pgasi_reader_fini(pgasi_reader_t *reader);

/** Reads the next bytes.
 *  @return PGAS_OK, or the status of reader->error, which later calls return again. */
pgas_status_t pgasi_reader_feed(pgasi_reader_t *reader, const char *bytes, size_t n_bytes);

/** Reads up to the end of the header. Stores in *used_p how many bytes it took: 0 for formats
 *  without a header. */
pgas_status_t pgasi_reader_feed_header(pgasi_reader_t *reader, const char *bytes, size_t n_bytes,
                                       size_t *used_p);

/** Reads a last line without a line end: no more bytes come. Does not check the text as a whole. */
pgas_status_t pgasi_reader_finish(pgasi_reader_t *reader);

/** Starts at a place. The header is set already. */
void pgasi_reader_start(pgasi_reader_t *reader, const pgasi_reader_place_t *place);

/** Moves a place over bytes without checking them. The bytes end with a blank or a line end, or at
 *  the end of the text. */
void pgasi_reader_skim(pgas_graph_format_t format, pgasi_reader_place_t *place, const char *bytes,
                       size_t n_bytes);

/** Checks the text as a whole. header is NULL if the text has no complete header.
 *  @return PGAS_OK, or the status of *error_p. */
pgas_status_t pgasi_reader_judge(pgas_graph_format_t format, const pgasi_reader_header_t *header,
                                 const pgasi_reader_counts_t *count, pgasi_graph_error_t *error_p);

/** Sets an error if there is none.
 *  @return error_p->status. */
pgas_status_t pgasi_graph_error_set(pgasi_graph_error_t *error_p, pgas_status_t status,
                                    uint64_t line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
