/* How the format of a graph text is determined: by the end of its name, or by its first lines. */
#include <strings.h>
#include "graph/reader_text.h"

/* ---- the first bytes ---- */

size_t pgasi_reader_begin(const char *bytes, size_t n_bytes, pgasi_graph_error_t *error_p)
{
    static const struct {
        const char *bytes, *what, *cure;
        size_t n_bytes;
    } known[] = { { "\x1f\x8b", "compressed by gzip more than once", "zcat FILE | zcat", 2 },
                  { "\x28\xb5\x2f\xfd", "compressed by zstd more than once",
                    "zstdcat FILE | zstdcat", 4 },
                  { "\xfd"
                    "7zXZ",
                    "compressed by xz", "xzcat FILE", 5 },
                  { "PK\x03\x04", "a zip archive", "unzip -p FILE", 4 },
                  { "\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE", 2 },
                  { "\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE", 2 } };
    static const char mark[] = "\xef\xbb\xbf";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (n_bytes >= known[i].n_bytes && memcmp(bytes, known[i].bytes, known[i].n_bytes) == 0) {
            pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, 0,
                                  "is %s, which is not supported: pass the output of `%s`, with "
                                  "the path '-' for standard input",
                                  known[i].what, known[i].cure);
            return 0;
        }
    }
    return n_bytes >= 3 && memcmp(bytes, mark, 3) == 0 ? 3 : 0;
}

/* ---- the name ---- */

static bool ends_with(const char *path, size_t n, const char *end)
{
    size_t n_end = strlen(end);
    return n > n_end && strncasecmp(path + n - n_end, end, n_end) == 0;
}

size_t pgasi_reader_plain_length(const char *path)
{
    size_t n = strlen(path);
    if (ends_with(path, n, ".gz"))
        return n - 3;
    return ends_with(path, n, ".zst") ? n - 4 : n;
}

pgas_graph_format_t pgasi_reader_format_of(const char *path)
{
    static const struct {
        const char *end;
        pgas_graph_format_t format;
    } known[] = { { ".names", PGAS_GRAPH_NAMES }, { ".tsv", PGAS_GRAPH_NAMES },
                  { ".el", PGAS_GRAPH_EL },       { ".wel", PGAS_GRAPH_WEL },
                  { ".mtx", PGAS_GRAPH_MTX },     { ".graph", PGAS_GRAPH_METIS },
                  { ".metis", PGAS_GRAPH_METIS }, { ".gr", PGAS_GRAPH_GR },
                  { ".v", PGAS_GRAPH_LDBC },      { ".e", PGAS_GRAPH_LDBC },
                  { ".adj", PGAS_GRAPH_ADJ },     { ".sg", PGAS_GRAPH_SG },
                  { ".wsg", PGAS_GRAPH_SG },      { ".pgas", PGAS_GRAPH_BINARY } };
    size_t n = pgasi_reader_plain_length(path);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (ends_with(path, n, known[i].end))
            return known[i].format;
    return PGAS_GRAPH_AUTO;
}

/* ---- the first lines ---- */

/* Two numbers are an edge list, two and a weight a weighted one. `1 x` without a tab is a malformed
 * edge list, and not a name. */
static pgas_graph_format_t sniff_line(pgasi_text_t line)
{
    double weight;
    bool has_tab = memchr(line.at, '\t', (size_t)(line.end - line.at)) != NULL;
    pgasi_text_t rest = line, a = pgasi_text_field(&rest, true), b = pgasi_text_field(&rest, false),
                 c = pgasi_text_field(&rest, false);
    bool is_last = pgasi_text_empty(pgasi_text_field(&rest, false));
    a.at += !pgasi_text_empty(a) && *a.at == '-';
    b.at += !pgasi_text_empty(b) && *b.at == '-';
    if (!pgasi_text_digits(a) || !(pgasi_text_digits(b) || !has_tab))
        return PGAS_GRAPH_NAMES;
    return pgasi_text_digits(b) && is_last && pgasi_text_real(c, &weight) ? PGAS_GRAPH_WEL
                                                                          : PGAS_GRAPH_EL;
}

/* Takes the next line without its end. */
static pgasi_text_t next_line(pgasi_text_t *rest)
{
    const char *line_end = memchr(rest->at, '\n', (size_t)(rest->end - rest->at));
    pgasi_text_t line = { rest->at, line_end ? line_end : rest->end };
    rest->at = line_end ? line_end + 1 : rest->end;
    line.end -= !pgasi_text_empty(line) && line.end[-1] == '\r';
    return line;
}

/* Whether there is a line `p sp ..`, only behind comments `c ..`. */
static bool is_gr(pgasi_text_t rest)
{
    while (!pgasi_text_empty(rest)) {
        pgasi_text_t words = next_line(&rest), first = pgasi_text_word(&words);
        if (pgasi_text_is(first, "p"))
            return pgasi_text_is(pgasi_text_word(&words), "sp");
        if (!pgasi_text_empty(first) && !pgasi_text_is(first, "c"))
            break;
    }
    return false;
}

pgas_graph_format_t pgasi_reader_sniff(const char *bytes, size_t n_bytes)
{
    static const char banner[] = "%%MatrixMarket";
    pgasi_text_t rest = { bytes, bytes + n_bytes };
    if (n_bytes >= 8 && memcmp(bytes, PGASI_BINARY_MAGIC, 8) == 0)
        return PGAS_GRAPH_BINARY;
    if (n_bytes >= sizeof banner - 1 && strncasecmp(bytes, banner, sizeof banner - 1) == 0)
        return PGAS_GRAPH_MTX;
    if (is_gr(rest))
        return PGAS_GRAPH_GR;
    while (!pgasi_text_empty(rest)) {
        pgasi_text_t line = next_line(&rest), words = line, first = pgasi_text_word(&words);
        if (!pgasi_text_empty(first) && *first.at != '#' && *first.at != '%')
            return sniff_line(line);
    }
    return PGAS_GRAPH_EL; /* comments only */
}

bool pgasi_reader_has_weight(const char *bytes, size_t n_bytes)
{
    pgasi_text_t rest = { bytes, bytes + n_bytes };
    while (!pgasi_text_empty(rest)) {
        pgasi_text_t words = next_line(&rest);
        if (!pgasi_text_empty(pgasi_text_field(&words, true))) {
            pgasi_text_field(&words, false);
            return !pgasi_text_empty(pgasi_text_field(&words, false));
        }
    }
    return false;
}
