/* Readers of graph texts, shaped for millions of lines of 10 to 60 bytes: a line that is complete
 * in a piece is read in place. Only a line that spans two pieces is copied.
 *
 * Invariants: carry holds the bytes since the last line end, at most one line; after an error
 * nothing is read; n_lines includes the line that is being read, so it is the line number of an
 * error. */
#include "graph/reader.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct {
    const char *at;
    const char *end;
} text_t;

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

/* Refuses the current line. The text of the error shows the beginning of the wrong part. */
static pgas_status_t refuse(pgasi_reader_t *reader, pgas_status_t status, const char *reason,
                            text_t what)
{
    char shown[32];
    size_t n = (size_t)(what.end - what.at), n_shown = n < 24 ? n : 24;
    for (size_t i = 0; i < n_shown; i++)
        shown[i] = isprint((unsigned char)what.at[i]) ? what.at[i] : '?';
    memcpy(shown + n_shown, n > n_shown ? "..." : "", n > n_shown ? 4 : 1);
    return pgasi_graph_error_set(&reader->error, status, reader->n_lines, "%s: '%s'", reason,
                                 shown);
}

/* ---- words and numbers ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes the next word of a line. It is empty at the end of the line. */
static text_t next_word(text_t *line)
{
    text_t word;
    while (line->at < line->end && is_blank(*line->at))
        line->at++;
    word.at = line->at;
    while (line->at < line->end && !is_blank(*line->at))
        line->at++;
    word.end = line->at;
    return word;
}

static bool is_empty(text_t text)
{
    return text.at == text.end;
}

static bool all_digits(text_t word)
{
    const char *at = word.at;
    while (at < word.end && is_digit(*at))
        at++;
    return at == word.end && !is_empty(word);
}

static bool word_is(text_t word, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(word.end - word.at) == n && strncasecmp(word.at, text, n) == 0;
}

/* Parses a vertex number, or refuses the line. */
static pgas_status_t parse_number(pgasi_reader_t *reader, text_t word, uint64_t *value_p)
{
    uint64_t value = 0;
    text_t digits = word;
    bool negative = !is_empty(word) && *word.at == '-';
    digits.at += negative || (!is_empty(word) && *word.at == '+');
    if (!all_digits(digits)) {
        return refuse(reader, PGAS_ERR_FORMAT,
                      is_empty(word) ? "a number is missing" : "not a whole number", word);
    }
    for (const char *at = digits.at; at < digits.end; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > ((uint64_t)PGASI_READER_ID_MAX - digit) / 10)
            return refuse(reader, PGAS_ERR_RANGE, "a number above 2^63-1", word);
        value = value * 10 + digit;
    }
    if (negative && value != 0)
        return refuse(reader, PGAS_ERR_RANGE, "a negative number", word);
    *value_p = value;
    return PGAS_OK;
}

/* Whether the word is a number for strtod, of at most 63 characters. */
static bool is_real(text_t word)
{
    char copy[64], *end;
    size_t n = (size_t)(word.end - word.at);
    if (n == 0 || n >= sizeof copy)
        return false;
    memcpy(copy, word.at, n);
    copy[n] = '\0';
    strtod(copy, &end);
    return end == copy + n;
}

/* The reason to refuse a third column: if it is a number, it is probably a weight. */
static const char *third_column(text_t word, const char *otherwise)
{
    return is_real(word)
               ? "a third column, such as weights, which are not supported (keep the first two)"
               : otherwise;
}

/* ---- the three formats: reading one line, without its end ---- */

static pgas_status_t read_names(pgasi_reader_t *reader, text_t line)
{
    text_t a = line, b = { NULL, NULL };
    const char *tab = memchr(line.at, '\t', (size_t)(line.end - line.at));
    if (memchr(line.at, '\0', (size_t)(line.end - line.at)) != NULL)
        return refuse(reader, PGAS_ERR_FORMAT, "a NUL byte", line);
    if (tab) {
        a.end = tab;
        b.at = tab + 1;
        b.end = line.end;
        if (is_empty(a) || is_empty(b))
            return refuse(reader, PGAS_ERR_FORMAT, "a name is missing", line);
        const char *third = memchr(b.at, '\t', (size_t)(b.end - b.at));
        if (third) {
            return refuse(reader, PGAS_ERR_FORMAT,
                          third_column((text_t){ third + 1, line.end }, "more than two names"),
                          line);
        }
    }
    if (a.end - a.at > PGASI_READER_NAME_MAX || (b.at && b.end - b.at > PGASI_READER_NAME_MAX))
        return refuse(reader, PGAS_ERR_FORMAT, "a name of more than 4095 bytes", line);
    reader->n_entries++;
    return reader->ops->names(reader->arg, a.at, (size_t)(a.end - a.at), b.at,
                              b.at ? (size_t)(b.end - b.at) : 0);
}

static pgas_status_t read_el(pgasi_reader_t *reader, text_t line)
{
    uint64_t from, to;
    text_t rest = line;
    pgas_status_t status = parse_number(reader, next_word(&rest), &from);
    if (status == PGAS_OK)
        status = parse_number(reader, next_word(&rest), &to);
    if (status != PGAS_OK)
        return status;
    text_t more = next_word(&rest);
    if (!is_empty(more)) {
        bool is_last = is_empty(next_word(&rest));
        const char *reason = "more than two numbers";
        return refuse(reader, PGAS_ERR_FORMAT, is_last ? third_column(more, reason) : reason, line);
    }
    reader->n_entries++;
    return reader->ops->edge(reader->arg, from, to);
}

static pgas_status_t read_mtx_banner(pgasi_reader_t *reader, text_t line)
{
    pgasi_mtx_header_t *mtx = &reader->mtx;
    text_t rest = line, banner = next_word(&rest), object = next_word(&rest),
           layout = next_word(&rest);
    text_t field = next_word(&rest), symmetry = next_word(&rest);
    if (!word_is(banner, "%%MatrixMarket")) {
        return refuse(reader, PGAS_ERR_FORMAT, "the first line must begin with %%MatrixMarket",
                      line);
    }
    if (!word_is(object, "matrix") || !word_is(layout, "coordinate"))
        return refuse(reader, PGAS_ERR_FORMAT, "only 'matrix coordinate' is read", line);
    if (!word_is(field, "pattern") && !word_is(field, "real") && !word_is(field, "integer"))
        return refuse(reader, PGAS_ERR_FORMAT, "values must be pattern, real or integer", field);
    if (!word_is(symmetry, "general") && !word_is(symmetry, "symmetric"))
        return refuse(reader, PGAS_ERR_FORMAT, "symmetry must be general or symmetric", symmetry);
    mtx->has_value = !word_is(field, "pattern");
    mtx->symmetric = word_is(symmetry, "symmetric");
    reader->mtx_state = PGASI_MTX_SIZE;
    return PGAS_OK;
}

static pgas_status_t read_mtx_size(pgasi_reader_t *reader, text_t line)
{
    uint64_t size[3];
    text_t rest = line;
    for (int i = 0; i < 3; i++) {
        pgas_status_t status = parse_number(reader, next_word(&rest), &size[i]);
        if (status != PGAS_OK)
            return status;
    }
    if (!is_empty(next_word(&rest)))
        return refuse(reader, PGAS_ERR_FORMAT, "more than rows, columns and entries", line);
    if (size[0] != size[1])
        return refuse(reader, PGAS_ERR_FORMAT, "the matrix is not square", line);
    reader->mtx.n_vertices = size[0];
    reader->mtx.n_entries = size[2];
    reader->mtx.line = reader->n_lines;
    reader->mtx_state = PGASI_MTX_ENTRIES;
    return PGAS_OK;
}

static pgas_status_t read_mtx_entry(pgasi_reader_t *reader, text_t line)
{
    const pgasi_mtx_header_t *mtx = &reader->mtx;
    uint64_t at[2];
    text_t rest = line;
    for (int i = 0; i < 2; i++) {
        text_t word = next_word(&rest);
        pgas_status_t status = parse_number(reader, word, &at[i]);
        if (status != PGAS_OK)
            return status;
        if (at[i] == 0 || at[i] > mtx->n_vertices)
            return refuse(reader, PGAS_ERR_RANGE, "an index outside of the matrix", word);
    }
    if (mtx->has_value) {
        text_t value = next_word(&rest);
        if (!is_real(value)) {
            return refuse(reader, PGAS_ERR_FORMAT,
                          is_empty(value) ? "the value is missing" : "the value is no number",
                          line);
        }
    }
    if (!is_empty(next_word(&rest)))
        return refuse(reader, PGAS_ERR_FORMAT, "more words than an entry has", line);
    reader->n_entries++;
    pgas_status_t status = reader->ops->edge(reader->arg, at[0] - 1, at[1] - 1);
    if (status == PGAS_OK && mtx->symmetric && at[0] != at[1])
        status = reader->ops->edge(reader->arg, at[1] - 1, at[0] - 1);
    return status;
}

/* Reads a line of EL or MTX, which may be a comment or empty. */
static pgas_status_t read_numbers(pgasi_reader_t *reader, text_t line)
{
    bool is_mtx = reader->format == PGAS_GRAPH_MTX;
    text_t rest = line, first = next_word(&rest);
    if (is_mtx && reader->mtx_state == PGASI_MTX_BANNER)
        return read_mtx_banner(reader, line);
    if (is_empty(first) || *first.at == '%' || (!is_mtx && *first.at == '#'))
        return PGAS_OK;
    if (!is_mtx)
        return read_el(reader, line);
    return reader->mtx_state == PGASI_MTX_SIZE ? read_mtx_size(reader, line)
                                               : read_mtx_entry(reader, line);
}

static pgas_status_t read_line(pgasi_reader_t *reader, text_t line)
{
    pgas_status_t status = PGAS_OK;
    reader->n_lines++;
    if (!is_empty(line) && line.end[-1] == '\r')
        line.end--;
    if (line.end - line.at > PGASI_READER_LINE_MAX) {
        line.end = line.at + PGASI_READER_LINE_MAX;
        return refuse(reader, PGAS_ERR_FORMAT, "a line of more than 65536 bytes", line);
    }
    if (reader->format != PGAS_GRAPH_NAMES)
        status = read_numbers(reader, line);
    else if (!is_empty(line))
        status = read_names(reader, line);
    if (status != PGAS_OK) { /* an error of the receiver has no text yet */
        pgasi_graph_error_set(&reader->error, status, reader->n_lines, "%s",
                              pgas_status_text(status));
    }
    return status;
}

/* ---- lines from pieces ---- */

static bool before_entries(const pgasi_reader_t *reader)
{
    return reader->format == PGAS_GRAPH_MTX && reader->mtx_state != PGASI_MTX_ENTRIES;
}

/* Keeps the beginning of a line. Two bytes above the limit suffice to refuse the line, even if the
 * last one is a CR. */
static void carry(pgasi_reader_t *reader, text_t part)
{
    size_t room = PGASI_READER_LINE_MAX + 2 - reader->carry_bytes, n = (size_t)(part.end - part.at);
    n = n < room ? n : room;
    memcpy(reader->carry + reader->carry_bytes, part.at, n);
    reader->carry_bytes += n;
}

static pgas_status_t end_line(pgasi_reader_t *reader, text_t line)
{
    if (reader->carry_bytes == 0)
        return read_line(reader, line);
    carry(reader, line);
    text_t whole = { reader->carry, reader->carry + reader->carry_bytes };
    reader->carry_bytes = 0;
    return read_line(reader, whole);
}

static pgas_status_t feed(pgasi_reader_t *reader, const char *bytes, size_t n_bytes,
                          bool header_only, size_t *used_p)
{
    text_t rest = { bytes, bytes + n_bytes };
    while (reader->error.status == PGAS_OK && !is_empty(rest) &&
           !(header_only && !before_entries(reader))) {
        const char *line_end = memchr(rest.at, '\n', (size_t)(rest.end - rest.at));
        text_t line = { rest.at, line_end ? line_end : rest.end };
        if (line_end) {
            end_line(reader, line);
        } else {
            carry(reader, line);
            /* the end of a line that is too long may never come */
            if (reader->carry_bytes >= PGASI_READER_LINE_MAX + 2)
                end_line(reader, (text_t){ rest.end, rest.end });
        }
        rest.at = line_end ? line_end + 1 : rest.end;
    }
    *used_p = n_bytes - (size_t)(rest.end - rest.at);
    return reader->error.status;
}

pgas_status_t pgasi_reader_feed(pgasi_reader_t *reader, const char *bytes, size_t n_bytes)
{
    size_t used;
    return n_bytes == 0 ? reader->error.status : feed(reader, bytes, n_bytes, false, &used);
}

pgas_status_t pgasi_reader_feed_header(pgasi_reader_t *reader, const char *bytes, size_t n_bytes,
                                       size_t *used_p)
{
    *used_p = 0;
    return n_bytes == 0 ? reader->error.status : feed(reader, bytes, n_bytes, true, used_p);
}

pgas_status_t pgasi_reader_finish(pgasi_reader_t *reader)
{
    if (reader->error.status == PGAS_OK && reader->carry_bytes > 0)
        end_line(reader, (text_t){ reader->carry, reader->carry });
    return reader->error.status;
}

pgas_status_t pgasi_reader_judge(pgas_graph_format_t format, const pgasi_mtx_header_t *mtx,
                                 uint64_t n_lines, uint64_t n_entries, pgasi_graph_error_t *error_p)
{
    uint64_t last = n_lines > 0 ? n_lines : 1;
    if (n_entries == 0 && (format != PGAS_GRAPH_MTX || n_lines == 0)) {
        pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, last, "%s: there is no vertex in it",
                              n_lines == 0 ? "empty" : "nothing but comments and empty lines");
    } else if (format == PGAS_GRAPH_MTX && !mtx) {
        pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, last,
                              "ends before the line of rows, columns and entries");
    } else if (format == PGAS_GRAPH_MTX && mtx->n_vertices == 0) {
        pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, mtx->line, "the matrix has no rows");
    } else if (format == PGAS_GRAPH_MTX && n_entries < mtx->n_entries) {
        pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, last,
                              "ends after %" PRIu64 " of the %" PRIu64 " entries that line %" PRIu64
                              " announces",
                              n_entries, mtx->n_entries, mtx->line);
    } else if (format == PGAS_GRAPH_MTX && n_entries > mtx->n_entries) {
        pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, mtx->line,
                              "announces %" PRIu64 " entries, there are %" PRIu64, mtx->n_entries,
                              n_entries);
    }
    return error_p->status;
}

pgas_status_t pgasi_reader_init(pgasi_reader_t *reader, pgas_graph_format_t format,
                                const pgasi_reader_ops_t *ops, void *arg)
{
    char *space = malloc(PGASI_READER_LINE_MAX + 2);
    if (!space)
        return PGAS_ERR_NO_MEMORY;
    *reader = (pgasi_reader_t){ .format = format, .ops = ops, .arg = arg, .carry = space };
    return PGAS_OK;
}

void pgasi_reader_fini(pgasi_reader_t *reader)
{
    free(reader->carry);
    reader->carry = NULL;
}

/* ---- the first bytes ---- */

size_t pgasi_reader_begin(const char *bytes, size_t n_bytes, pgasi_graph_error_t *error_p)
{
    static const struct {
        const char *bytes, *what, *cure;
        size_t n_bytes;
    } known[] = { { "\x1f\x8b", "compressed by gzip", "zcat", 2 },
                  { "\xfd"
                    "7zXZ",
                    "compressed by xz", "xzcat", 5 },
                  { "\x28\xb5\x2f\xfd", "compressed by zstd", "zstdcat", 4 },
                  { "PK\x03\x04", "a zip archive", "unzip -p", 4 },
                  { "\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8", 2 },
                  { "\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8", 2 } };
    static const char mark[] = "\xef\xbb\xbf";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (n_bytes >= known[i].n_bytes && memcmp(bytes, known[i].bytes, known[i].n_bytes) == 0) {
            pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, 0,
                                  "is %s, which is not supported: pass the output of `%s FILE`, "
                                  "with the path '-' for standard input",
                                  known[i].what, known[i].cure);
            return 0;
        }
    }
    return n_bytes >= 3 && memcmp(bytes, mark, 3) == 0 ? 3 : 0;
}

/* ---- the format ---- */

pgas_graph_format_t pgasi_reader_format_of(const char *path)
{
    static const struct {
        const char *end;
        pgas_graph_format_t format;
    } known[] = { { ".el", PGAS_GRAPH_EL },
                  { ".mtx", PGAS_GRAPH_MTX },
                  { ".tsv", PGAS_GRAPH_NAMES },
                  { ".names", PGAS_GRAPH_NAMES } };
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t n_end = strlen(known[i].end);
        if (n > n_end && strcasecmp(path + n - n_end, known[i].end) == 0)
            return known[i].format;
    }
    return PGAS_GRAPH_AUTO;
}

/* Two numbers are an edge list. `1 x` without a tab is one too, a malformed one, and not a name. */
static pgas_graph_format_t sniff_line(text_t line)
{
    bool has_tab = memchr(line.at, '\t', (size_t)(line.end - line.at)) != NULL;
    text_t rest = line, a = next_word(&rest), b = next_word(&rest);
    a.at += !is_empty(a) && *a.at == '-';
    b.at += !is_empty(b) && *b.at == '-';
    if (all_digits(a) && (all_digits(b) || !has_tab))
        return PGAS_GRAPH_EL;
    return PGAS_GRAPH_NAMES;
}

pgas_graph_format_t pgasi_reader_sniff(const char *bytes, size_t n_bytes)
{
    static const char banner[] = "%%MatrixMarket";
    text_t rest = { bytes, bytes + n_bytes };
    if (n_bytes >= sizeof banner - 1 && strncasecmp(bytes, banner, sizeof banner - 1) == 0)
        return PGAS_GRAPH_MTX;
    while (!is_empty(rest)) {
        const char *line_end = memchr(rest.at, '\n', (size_t)(rest.end - rest.at));
        text_t line = { rest.at, line_end ? line_end : rest.end }, words = line;
        line.end -= !is_empty(line) && line.end[-1] == '\r';
        words.end = line.end;
        text_t first = next_word(&words);
        if (!is_empty(first) && *first.at != '#' && *first.at != '%')
            return sniff_line(line);
        rest.at = line_end ? line_end + 1 : rest.end;
    }
    return PGAS_GRAPH_EL; /* comments only */
}
