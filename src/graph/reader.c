/* Readers of graph texts, shaped for millions of lines of 10 to 60 bytes. For lines in the common
 * form a loop reads each byte once, in place (pgasi_reader_fast_lines). For any other line the
 * reader first finds the end, and then reads word by word. It copies only lines that span two
 * pieces.
 *
 * Invariants: carry holds the bytes since the last line end (by words: since the last blank), at
 * most one line; after an error nothing is read; n_lines includes the line that is being read, so
 * it is the line number of an error. */
#include "graph/reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "graph/reader_text.h"

pgas_status_t pgasi_graph_error_set(pgasi_graph_error_t *error_p, pgas_status_t status,
                                    uint64_t line, const char *format, ...)
{
    if (error_p->status == PGAS_OK) {
        va_list args;
        va_start(args, format);
        vsnprintf(error_p->text, sizeof error_p->text, format, args);
        va_end(args);
        error_p->status = status;
        error_p->line = line;
    }
    return error_p->status;
}

static pgasi_reader_state_t first_state(pgas_graph_format_t format)
{
    switch (format) {
    case PGAS_GRAPH_MTX:
        return PGASI_READER_BANNER;
    case PGAS_GRAPH_METIS:
    case PGAS_GRAPH_GR:
        return PGASI_READER_SIZE;
    default:
        return PGASI_READER_ENTRIES;
    }
}

pgas_status_t pgasi_reader_init(pgasi_reader_t *reader, pgas_graph_format_t format,
                                const pgasi_reader_ops_t *ops, void *arg)
{
    char *space = malloc(PGASI_READER_LINE_MAX + 2);
    if (!space)
        return PGAS_ERR_NO_MEMORY;
    *reader = (pgasi_reader_t){
        .format = format, .ops = ops, .arg = arg, .carry = space, .state = first_state(format)
    };
    return PGAS_OK;
}

void pgasi_reader_fini(pgasi_reader_t *reader)
{
    free(reader->carry);
    reader->carry = NULL;
}

void pgasi_reader_start(pgasi_reader_t *reader, const pgasi_reader_place_t *place)
{
    reader->place = *place;
    reader->count.n_lines = place->n_lines;
    reader->carry_bytes = 0;
}

/* ---- lines from pieces ---- */

/* Keeps the beginning of a line. Two bytes above the limit suffice to refuse the line, even if the
 * last one is a CR. */
static void carry(pgasi_reader_t *reader, pgasi_text_t part)
{
    size_t room = PGASI_READER_LINE_MAX + 2 - reader->carry_bytes, n = (size_t)(part.end - part.at);
    n = n < room ? n : room;
    memcpy(reader->carry + reader->carry_bytes, part.at, n);
    reader->carry_bytes += n;
}

static pgas_status_t read_line(pgasi_reader_t *reader, pgasi_text_t line)
{
    reader->count.n_lines++;
    if (!pgasi_text_empty(line) && line.end[-1] == '\r')
        line.end--;
    if (line.end - line.at > PGASI_READER_LINE_MAX) {
        line.end = line.at + PGASI_READER_LINE_MAX;
        return pgasi_reader_refuse(reader, PGAS_ERR_FORMAT, "a line of more than 65536 bytes",
                                   line);
    }
    return pgasi_reader_line(reader, line);
}

static pgas_status_t end_line(pgasi_reader_t *reader, pgasi_text_t line)
{
    if (reader->carry_bytes == 0)
        return read_line(reader, line);
    carry(reader, line);
    pgasi_text_t whole = { reader->carry, reader->carry + reader->carry_bytes };
    reader->carry_bytes = 0;
    return read_line(reader, whole);
}

static pgas_status_t feed_lines(pgasi_reader_t *reader, const char *bytes, size_t n_bytes,
                                bool header_only, size_t *used_p)
{
    pgasi_text_t rest = { bytes, bytes + n_bytes };
    while (reader->error.status == PGAS_OK && !pgasi_text_empty(rest) &&
           !(header_only && !pgasi_reader_in_header(reader))) {
        if (reader->carry_bytes == 0 && !header_only) {
            rest.at = pgasi_reader_fast_lines(reader, rest.at, rest.end);
            if (reader->error.status != PGAS_OK || pgasi_text_empty(rest))
                break;
        }
        const char *line_end = memchr(rest.at, '\n', (size_t)(rest.end - rest.at));
        pgasi_text_t line = { rest.at, line_end ? line_end : rest.end };
        if (line_end) {
            end_line(reader, line);
        } else {
            carry(reader, line);
            /* a stream may never send the end of a line that is too long */
            if (reader->carry_bytes >= PGASI_READER_LINE_MAX + 2)
                end_line(reader, (pgasi_text_t){ rest.end, rest.end });
        }
        rest.at = line_end ? line_end + 1 : rest.end;
    }
    *used_p = n_bytes - (size_t)(rest.end - rest.at);
    return reader->error.status;
}

/* An error of the receiver may have no text yet. */
static pgas_status_t feed(pgasi_reader_t *reader, const char *bytes, size_t n_bytes,
                          bool header_only, size_t *used_p)
{
    *used_p = 0;
    if (n_bytes == 0 || reader->error.status != PGAS_OK)
        return reader->error.status;
    return pgasi_reader_by_words(reader->format)
               ? pgasi_reader_feed_words(reader, bytes, n_bytes, header_only, used_p)
               : feed_lines(reader, bytes, n_bytes, header_only, used_p);
}

pgas_status_t pgasi_reader_feed(pgasi_reader_t *reader, const char *bytes, size_t n_bytes)
{
    size_t used;
    return feed(reader, bytes, n_bytes, false, &used);
}

pgas_status_t pgasi_reader_feed_header(pgasi_reader_t *reader, const char *bytes, size_t n_bytes,
                                       size_t *used_p)
{
    return feed(reader, bytes, n_bytes, true, used_p);
}

pgas_status_t pgasi_reader_finish(pgasi_reader_t *reader)
{
    if (reader->error.status != PGAS_OK)
        return reader->error.status;
    if (pgasi_reader_by_words(reader->format))
        return pgasi_reader_finish_words(reader);
    if (reader->carry_bytes > 0)
        end_line(reader, (pgasi_text_t){ reader->carry, reader->carry });
    return reader->error.status;
}

/* ---- the text as a whole ---- */

static bool has_header(pgas_graph_format_t format)
{
    return first_state(format) != PGASI_READER_ENTRIES;
}

static const char *header_name(pgas_graph_format_t format)
{
    switch (format) {
    case PGAS_GRAPH_METIS:
        return "the line of vertices and edges";
    case PGAS_GRAPH_GR:
        return "the line 'p sp VERTICES EDGES'";
    default:
        return "the line of rows, columns and entries";
    }
}

/* An edge has two entries, a loop one or two. If each edge has one, the graph is directed. */
static void judge_metis(const pgasi_reader_header_t *header, const pgasi_reader_counts_t *count,
                        pgasi_graph_error_t *error_p)
{
    uint64_t n = count->n_entries, m = header->n_entries;
    bool fits = n == m || n == 2 * m || n + count->n_loops == 2 * m;
    if (count->n_rows + 1 < header->n_vertices) {
        pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, count->n_lines,
                              "ends after %" PRIu64 " of the %" PRIu64
                              " vertices that line %" PRIu64 " announces",
                              count->n_rows, header->n_vertices, header->line);
    } else if (!fits || m > UINT64_MAX / 2) {
        pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, header->line,
                              "announces %" PRIu64 " edges, there are %" PRIu64
                              " neighbours instead of twice as many%s",
                              m, n,
                              header->has_sizes ? " (sizes of vertices, as METIS 5 writes them for "
                                                  "this format, are not supported)"
                                                : "");
    }
}

static void judge_entries(const pgasi_reader_header_t *header, const pgasi_reader_counts_t *count,
                          pgasi_graph_error_t *error_p)
{
    if (count->n_entries < header->n_entries) {
        pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, count->n_lines,
                              "ends after %" PRIu64 " of the %" PRIu64 " entries that line %" PRIu64
                              " announces",
                              count->n_entries, header->n_entries, header->line);
    } else if (count->n_entries > header->n_entries) {
        pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, header->line,
                              "announces %" PRIu64 " entries, there are %" PRIu64,
                              header->n_entries, count->n_entries);
    }
}

pgas_status_t pgasi_reader_judge(pgas_graph_format_t format, const pgasi_reader_header_t *header,
                                 const pgasi_reader_counts_t *count, pgasi_graph_error_t *error_p)
{
    uint64_t last = count->n_lines > 0 ? count->n_lines : 1;
    bool may_be_empty = has_header(format)
                            ? count->n_lines > 0
                            : format == PGAS_GRAPH_LDBC && header && !header->is_vertices;
    if (count->n_entries == 0 && count->n_rows == 0 && !may_be_empty) {
        pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, last, "%s: there is no vertex in it",
                              count->n_lines == 0 ? "empty"
                                                  : "nothing but comments and empty lines");
    } else if (has_header(format) && !header) {
        pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, last, "ends before %s",
                              header_name(format));
    } else if (has_header(format) && header->n_vertices == 0) {
        pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, header->line, "%s",
                              format == PGAS_GRAPH_MTX ? "the matrix has no rows"
                                                       : "announces no vertices");
    } else if (format == PGAS_GRAPH_METIS) {
        judge_metis(header, count, error_p);
    } else if (has_header(format)) {
        judge_entries(header, count, error_p);
    }
    return error_p->status;
}
