/* The formats that are read by lines: NAMES, EL, WEL, MTX, GR, LDBC.
 *
 * A line of numbers in the common form, such as `12 345` or `12 345 6.5`, costs some 10 ns: the
 * reader converts eight digits at a time. It reads any other line word by word; that path handles
 * all forms and all errors. */
#include <math.h>
#include "graph/reader_text.h"

static pgas_status_t refuse(pgasi_reader_t *reader, const char *reason, pgasi_text_t what)
{
    return pgasi_reader_refuse(reader, PGAS_ERR_FORMAT, reason, what);
}

/* ---- names ---- */

static pgas_status_t read_names(pgasi_reader_t *reader, pgasi_text_t line)
{
    pgasi_text_t a = line, b = { NULL, NULL };
    double weight;
    const char *tab = memchr(line.at, '\t', (size_t)(line.end - line.at));
    if (memchr(line.at, '\0', (size_t)(line.end - line.at)) != NULL)
        return refuse(reader, "a NUL byte", line);
    if (tab) {
        a.end = tab;
        b.at = tab + 1;
        b.end = line.end;
        if (pgasi_text_empty(a) || pgasi_text_empty(b))
            return refuse(reader, "a name is missing", line);
        const char *third = memchr(b.at, '\t', (size_t)(b.end - b.at));
        if (third) {
            bool is_weight = pgasi_text_real((pgasi_text_t){ third + 1, line.end }, &weight);
            return refuse(reader,
                          is_weight ? "a third column, such as weights, which edges between names "
                                      "cannot have"
                                    : "more than two names",
                          line);
        }
    }
    if (a.end - a.at > PGASI_READER_NAME_MAX || (b.at && b.end - b.at > PGASI_READER_NAME_MAX))
        return refuse(reader, "a name of more than 4095 bytes", line);
    reader->count.n_entries++;
    return reader->ops->names(reader->arg, a.at, (size_t)(a.end - a.at), b.at,
                              b.at ? (size_t)(b.end - b.at) : 0);
}

/* ---- two numbers and a weight ---- */

/* The reason to refuse what follows the last column. */
static const char *too_many(const pgasi_reader_t *reader, pgasi_text_t more, pgasi_text_t rest)
{
    double weight;
    if (reader->format == PGAS_GRAPH_LDBC)
        return reader->header.has_weight ? "more than two numbers and a weight"
                                         : "a third column, which the first line does not have";
    if (reader->format == PGAS_GRAPH_WEL)
        return "more than two numbers and a weight";
    return pgasi_text_empty(pgasi_text_word(&rest)) && pgasi_text_real(more, &weight)
               ? "a third column, such as weights, for which the format is WEL"
               : "more than two numbers";
}

static bool has_weight(const pgasi_reader_t *reader)
{
    return reader->format == PGAS_GRAPH_WEL || reader->format == PGAS_GRAPH_GR ||
           reader->header.has_weight;
}

/* A line of EL, WEL or LDBC. */
static pgas_status_t read_edge(pgasi_reader_t *reader, pgasi_text_t line)
{
    uint64_t end[2];
    double weight = NAN;
    pgasi_text_t rest = line;
    for (int i = 0; i < 2; i++) {
        pgas_status_t status =
            pgasi_reader_number(reader, pgasi_text_field(&rest, i == 0), &end[i]);
        if (status != PGAS_OK)
            return status;
    }
    if (has_weight(reader)) {
        pgas_status_t status = pgasi_reader_weight(reader, pgasi_text_field(&rest, false), &weight);
        if (status != PGAS_OK)
            return status;
    }
    pgasi_text_t more = pgasi_text_word(&rest); /* or a comma */
    return pgasi_text_empty(more) ? pgasi_reader_edge(reader, end[0], end[1], weight)
                                  : refuse(reader, too_many(reader, more, rest), line);
}

/* A line of an LDBC file of vertices. */
static pgas_status_t read_vertex(pgasi_reader_t *reader, pgasi_text_t line)
{
    uint64_t label;
    pgasi_text_t rest = line;
    pgas_status_t status = pgasi_reader_number(reader, pgasi_text_word(&rest), &label);
    if (status != PGAS_OK)
        return status;
    if (!pgasi_text_empty(pgasi_text_word(&rest)))
        return refuse(reader, "more than a number", line);
    reader->count.n_entries++;
    return reader->ops->vertex(reader->arg, label);
}

/* ---- MTX and GR: numbers from 1 behind a header ---- */

static pgas_status_t read_banner(pgasi_reader_t *reader, pgasi_text_t line)
{
    pgasi_text_t rest = line, word[5];
    for (int i = 0; i < 5; i++)
        word[i] = pgasi_text_word(&rest);
    if (!pgasi_text_is(word[0], "%%MatrixMarket"))
        return refuse(reader, "the first line must begin with %%MatrixMarket", line);
    if (!pgasi_text_is(word[1], "matrix") || !pgasi_text_is(word[2], "coordinate"))
        return refuse(reader, "only 'matrix coordinate' is read", line);
    if (!pgasi_text_is(word[3], "pattern") && !pgasi_text_is(word[3], "real") &&
        !pgasi_text_is(word[3], "integer"))
        return refuse(reader, "values must be pattern, real or integer", word[3]);
    if (!pgasi_text_is(word[4], "general") && !pgasi_text_is(word[4], "symmetric"))
        return refuse(reader, "symmetry must be general or symmetric", word[4]);
    reader->header.has_weight = !pgasi_text_is(word[3], "pattern");
    reader->header.symmetric = pgasi_text_is(word[4], "symmetric");
    reader->state = PGASI_READER_SIZE;
    return PGAS_OK;
}

static pgas_status_t read_numbers(pgasi_reader_t *reader, pgasi_text_t *rest, int n,
                                  uint64_t *numbers)
{
    pgas_status_t status = PGAS_OK;
    for (int i = 0; i < n && status == PGAS_OK; i++)
        status = pgasi_reader_number(reader, pgasi_text_word(rest), &numbers[i]);
    return status;
}

static pgas_status_t end_header(pgasi_reader_t *reader, uint64_t n_vertices, uint64_t n_entries)
{
    reader->header.n_vertices = n_vertices;
    reader->header.n_entries = n_entries;
    reader->header.line = reader->count.n_lines;
    reader->state = PGASI_READER_ENTRIES;
    return PGAS_OK;
}

static pgas_status_t read_mtx_size(pgasi_reader_t *reader, pgasi_text_t line)
{
    uint64_t size[3];
    pgasi_text_t rest = line;
    pgas_status_t status = read_numbers(reader, &rest, 3, size);
    if (status != PGAS_OK)
        return status;
    if (!pgasi_text_empty(pgasi_text_word(&rest)))
        return refuse(reader, "more than rows, columns and entries", line);
    if (size[0] != size[1])
        return refuse(reader, "the matrix is not square", line);
    return end_header(reader, size[0], size[2]);
}

static pgas_status_t read_gr_size(pgasi_reader_t *reader, pgasi_text_t line)
{
    uint64_t size[2];
    pgasi_text_t rest = line;
    pgasi_text_t p = pgasi_text_word(&rest), sp = pgasi_text_word(&rest);
    if (!pgasi_text_is(p, "p") || !pgasi_text_is(sp, "sp"))
        return refuse(reader, "a line 'p sp VERTICES EDGES' must precede the edges", line);
    pgas_status_t status = read_numbers(reader, &rest, 2, size);
    if (status != PGAS_OK)
        return status;
    if (!pgasi_text_empty(pgasi_text_word(&rest)))
        return refuse(reader, "more than vertices and edges", line);
    return end_header(reader, size[0], size[1]);
}

/* An entry of a matrix, or an edge of GR behind the `a`. */
static pgas_status_t read_entry(pgasi_reader_t *reader, pgasi_text_t line, pgasi_text_t rest)
{
    uint64_t end[2];
    double weight = NAN;
    bool is_mtx = reader->format == PGAS_GRAPH_MTX;
    for (int i = 0; i < 2; i++) {
        pgasi_text_t word = pgasi_text_word(&rest);
        pgas_status_t status = pgasi_reader_number(reader, word, &end[i]);
        if (status != PGAS_OK)
            return status;
        if (end[i] == 0 || end[i] > reader->header.n_vertices) {
            return pgasi_reader_refuse(reader, PGAS_ERR_RANGE,
                                       is_mtx ? "an index outside of the matrix"
                                              : "there is no such vertex",
                                       word);
        }
    }
    if (has_weight(reader)) {
        pgas_status_t status = pgasi_reader_weight(reader, pgasi_text_word(&rest), &weight);
        if (status != PGAS_OK)
            return status;
    }
    if (!pgasi_text_empty(pgasi_text_word(&rest)))
        return refuse(reader, "more words than an entry has", line);
    return pgasi_reader_edge(reader, end[0] - 1, end[1] - 1, weight);
}

static pgas_status_t read_mtx(pgasi_reader_t *reader, pgasi_text_t line, pgasi_text_t first)
{
    if (reader->state == PGASI_READER_BANNER)
        return read_banner(reader, line);
    if (pgasi_text_empty(first) || *first.at == '%')
        return PGAS_OK;
    return reader->state == PGASI_READER_SIZE ? read_mtx_size(reader, line)
                                              : read_entry(reader, line, line);
}

static pgas_status_t read_gr(pgasi_reader_t *reader, pgasi_text_t line, pgasi_text_t first)
{
    if (pgasi_text_empty(first) || pgasi_text_is(first, "c"))
        return PGAS_OK;
    if (reader->state == PGASI_READER_SIZE)
        return read_gr_size(reader, line);
    return pgasi_text_is(first, "a")
               ? read_entry(reader, line, (pgasi_text_t){ first.end, line.end })
               : refuse(reader, "a line must begin with 'a' or 'c'", line);
}

/* ---- any line ---- */

static pgas_status_t read_line(pgasi_reader_t *reader, pgasi_text_t line)
{
    pgasi_text_t rest = line, first = pgasi_text_word(&rest);
    switch (reader->format) {
    case PGAS_GRAPH_NAMES:
        return pgasi_text_empty(line) ? PGAS_OK : read_names(reader, line);
    case PGAS_GRAPH_MTX:
        return read_mtx(reader, line, first);
    case PGAS_GRAPH_GR:
        return read_gr(reader, line, first);
    case PGAS_GRAPH_LDBC:
        if (pgasi_text_empty(first))
            return PGAS_OK;
        return reader->header.is_vertices ? read_vertex(reader, line) : read_edge(reader, line);
    default:
        if (pgasi_text_empty(first) || *first.at == '%' || *first.at == '#')
            return PGAS_OK;
        return read_edge(reader, line);
    }
}

/* An error of the receiver may have no text yet. */
static pgas_status_t end_line(pgasi_reader_t *reader, pgas_status_t status)
{
    if (PGAS_LIKELY(status == PGAS_OK))
        return PGAS_OK;
    return pgasi_graph_error_set(&reader->error, status, reader->count.n_lines, "%s",
                                 pgas_status_text(status));
}

pgas_status_t pgasi_reader_line(pgasi_reader_t *reader, pgasi_text_t line)
{
    return end_line(reader, read_line(reader, line));
}

/* ---- lines in the common form ---- */

/* the longest line, and what pgasi_take_digits reads behind its last number */
#define FAST_AHEAD (2 + 4 * 17 + 2 + PGASI_DIGITS_AHEAD)

/* Takes digits with an optional fraction, of 15 digits at most: their quotient by a power of 10 is
 * the exact number, rounded once. */
static inline unsigned take_weight(const char *at, double *weight_p)
{
    static const double power[16] = { 1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15 };
    static const uint64_t whole[16] = { 1,
                                        10,
                                        100,
                                        1000,
                                        10000,
                                        100000,
                                        1000000,
                                        10000000,
                                        100000000,
                                        1000000000,
                                        10000000000,
                                        100000000000,
                                        1000000000000,
                                        10000000000000,
                                        100000000000000,
                                        1000000000000000 };
    uint64_t value, fraction;
    unsigned n = pgasi_take_digits(at, &value);
    if (n == 0 || n > 15)
        return 0;
    *weight_p = (double)value;
    if (at[n] != '.')
        return n;
    unsigned n_fraction = pgasi_take_digits(at + n + 1, &fraction);
    if (n_fraction == 0 || n + n_fraction > 15)
        return 0;
    *weight_p = (double)(value * whole[n_fraction] + fraction) / power[n_fraction];
    return n + 1 + n_fraction;
}

/* An edge of one line. Returns its end, or NULL if the line has another form. */
static inline const char *take_edge(const pgasi_reader_t *reader, const char *at, uint64_t end[2],
                                    double *weight_p)
{
    if (reader->format == PGAS_GRAPH_GR) {
        if (at[0] != 'a' || at[1] != ' ')
            return NULL;
        at += 2;
    }
    for (int i = 0; i < 2; i++) {
        unsigned n = pgasi_take_digits(at, &end[i]);
        if (n == 0 || (i == 0 && !pgasi_is_blank(at[n])))
            return NULL;
        at += n + (i == 0);
    }
    if (has_weight(reader)) {
        unsigned n = pgasi_is_blank(*at) ? take_weight(at + 1, weight_p) : 0;
        if (n == 0)
            return NULL;
        at += 1 + n;
    }
    at += *at == '\r';
    return *at == '\n' ? at + 1 : NULL;
}

const char *pgasi_reader_fast_lines(pgasi_reader_t *reader, const char *at, const char *end)
{
    uint64_t first = reader->format == PGAS_GRAPH_MTX || reader->format == PGAS_GRAPH_GR;
    uint64_t limit = first ? reader->header.n_vertices : UINT64_MAX, ends[2];
    double weight = NAN;
    if (pgasi_reader_in_header(reader) || reader->format == PGAS_GRAPH_NAMES ||
        reader->header.is_vertices)
        return at;
    while (end - at >= FAST_AHEAD) {
        const char *next = take_edge(reader, at, ends, &weight);
        /* 0 wraps around */
        if (!next || ends[0] - first >= limit || ends[1] - first >= limit)
            break;
        at = next;
        reader->count.n_lines++;
        pgas_status_t status = pgasi_reader_edge(reader, ends[0] - first, ends[1] - first, weight);
        if (PGAS_UNLIKELY(end_line(reader, status) != PGAS_OK))
            break;
    }
    return at;
}
