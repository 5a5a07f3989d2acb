/* what: Readers of graph texts give the edges that were written, and refuse errors with line number
 *       and reason. Both are the same for any cut of the text into pieces.
 * source: src/graph/reader.h; public headers; seeded round trip */
#include <locale.h>
#include <math.h>
#include "base/rng.h"
#include "graph/reader.h"
#include "graph/reader_text.h"
#include "t/tap.h"

/* The edges that a reader has found, with their weights; its vertices; or the names, joined in one
 * text. */
typedef struct {
    uint64_t end[4096];
    size_t n_ends;
    double weight[2048]; /* 0 instead of none */
    uint64_t vertex[1100];
    size_t n_vertices;
    char names[20000];
    size_t n_bytes;
    pgasi_graph_error_t error;
    pgasi_reader_counts_t count;
    pgasi_reader_header_t header;
} found_t;

static pgas_status_t store_edge(void *arg, uint64_t from, uint64_t to, double weight)
{
    found_t *f = (found_t *)arg;
    f->weight[f->n_ends / 2] = isnan(weight) ? 0 : weight;
    f->end[f->n_ends++] = from;
    f->end[f->n_ends++] = to;
    return f->n_ends < 4096 ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static pgas_status_t store_names(void *arg, const char *a, size_t a_bytes, const char *b,
                                 size_t b_bytes)
{
    found_t *f = (found_t *)arg;
    if (f->n_bytes + a_bytes + b_bytes + 3 >= sizeof f->names)
        return PGAS_ERR_NO_MEMORY;
    f->n_bytes += (size_t)sprintf(f->names + f->n_bytes, "%.*s", (int)a_bytes, a);
    if (b)
        f->n_bytes += (size_t)sprintf(f->names + f->n_bytes, ">%.*s", (int)b_bytes, b);
    f->n_bytes += (size_t)sprintf(f->names + f->n_bytes, ";");
    return PGAS_OK;
}

static pgas_status_t store_vertex(void *arg, uint64_t label)
{
    found_t *f = (found_t *)arg;
    f->vertex[f->n_vertices++] = label;
    return f->n_vertices < 1100 ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static const pgasi_reader_ops_t ops = { store_edge, store_names, store_vertex };

/* The header that a caller sets for an LDBC file. */
static pgasi_reader_header_t preset;

/* Reads a text whose pieces end at the given places, and judges it as a whole. */
static void read_pieces(pgas_graph_format_t format, const char *text, size_t bytes,
                        const size_t *cut, size_t n_cuts, found_t *f)
{
    pgasi_reader_t reader;
    size_t at = 0;
    memset(f, 0, sizeof *f);
    pgasi_reader_init(&reader, format, &ops, f);
    reader.header = preset;
    for (size_t i = 0; i <= n_cuts; i++) {
        size_t end = i < n_cuts ? cut[i] : bytes;
        char *piece = (char *)malloc(end - at + 1); /* so that a sanitizer sees one byte too many */
        memcpy(piece, text + at, end - at);
        pgasi_reader_feed(&reader, piece, end - at);
        free(piece);
        at = end;
    }
    pgasi_reader_finish(&reader);
    f->error = reader.error;
    f->count = reader.count;
    f->header = reader.header;
    if (f->error.status == PGAS_OK) {
        const pgasi_reader_header_t *header =
            pgasi_reader_in_header(&reader) ? NULL : &reader.header;
        pgasi_reader_judge(format, header, &f->count, &f->error);
    }
    pgasi_reader_fini(&reader);
}

static found_t whole, other;

static const found_t *read_text(pgas_graph_format_t format, const char *text)
{
    read_pieces(format, text, strlen(text), NULL, 0, &whole);
    return &whole;
}

static bool same(const found_t *a, const found_t *b)
{
    return a->n_ends == b->n_ends && memcmp(a->end, b->end, a->n_ends * sizeof a->end[0]) == 0 &&
           memcmp(a->weight, b->weight, a->n_ends / 2 * sizeof a->weight[0]) == 0 &&
           a->n_vertices == b->n_vertices &&
           memcmp(a->vertex, b->vertex, a->n_vertices * sizeof a->vertex[0]) == 0 &&
           strcmp(a->names, b->names) == 0 && memcmp(&a->count, &b->count, sizeof a->count) == 0 &&
           a->error.status == b->error.status && a->error.line == b->error.line &&
           strcmp(a->error.text, b->error.text) == 0;
}

/* ---- refusals, by name ---- */

#define BANNER "%%MatrixMarket matrix coordinate pattern general\n"

static const struct {
    const char *name;
    pgas_graph_format_t format;
    const char *text;
    pgas_status_t status;
    uint64_t line;
    const char *reason;
} refusals[] = {
    { "empty", PGAS_GRAPH_NAMES, "", PGAS_ERR_FORMAT, 1, "empty: there is no vertex in it" },
    { "only empty lines", PGAS_GRAPH_NAMES, "\n\n", PGAS_ERR_FORMAT, 2,
      "nothing but comments and empty lines" },
    { "no first name", PGAS_GRAPH_NAMES, "a\tb\n\tc\n", PGAS_ERR_FORMAT, 2,
      "a name is missing: '?c'" },
    { "no second name", PGAS_GRAPH_NAMES, "a\tb\nc\t\n", PGAS_ERR_FORMAT, 2,
      "a name is missing: 'c?'" },
    { "cut behind a tab", PGAS_GRAPH_NAMES, "a\tb\nc\t", PGAS_ERR_FORMAT, 2, "a name is missing" },
    { "a weight", PGAS_GRAPH_NAMES, "a\tb\t0.5\n", PGAS_ERR_FORMAT, 1,
      "a third column, such as weights, which edges between names" },
    { "a weight and more", PGAS_GRAPH_NAMES, "a\tb\t0.5\tc\n", PGAS_ERR_FORMAT, 1,
      "more than two names" },
    { "three names", PGAS_GRAPH_NAMES, "a\n\nb\tc\td\n", PGAS_ERR_FORMAT, 3,
      "more than two names" },

    { "empty", PGAS_GRAPH_EL, "", PGAS_ERR_FORMAT, 1, "empty" },
    { "only comments", PGAS_GRAPH_EL, "# a\n% b\n", PGAS_ERR_FORMAT, 2, "nothing but comments" },
    { "one number", PGAS_GRAPH_EL, "0 1\n5\n", PGAS_ERR_FORMAT, 2, "a number is missing" },
    { "cut in the middle", PGAS_GRAPH_EL, "0 1\n1 2\n2 ", PGAS_ERR_FORMAT, 3,
      "a number is missing" },
    { "a weight", PGAS_GRAPH_EL, "0 1 7\n", PGAS_ERR_FORMAT, 1,
      "a third column, such as weights, for which the format is WEL" },
    { "a real weight", PGAS_GRAPH_EL, "0 1\n0 1 -.7e3 \n", PGAS_ERR_FORMAT, 2,
      "is WEL: '0 1 -.7e3" },
    { "two commas", PGAS_GRAPH_EL, "0 1\n0,,1\n", PGAS_ERR_FORMAT, 2, "a number is missing" },
    { "a comma first", PGAS_GRAPH_EL, ",0,1\n", PGAS_ERR_FORMAT, 1, "a number is missing" },
    { "a comma last", PGAS_GRAPH_EL, "0,1,\n", PGAS_ERR_FORMAT, 1, "more than two numbers" },

    { "empty", PGAS_GRAPH_WEL, "#\n", PGAS_ERR_FORMAT, 1, "nothing but comments" },
    { "no weight", PGAS_GRAPH_WEL, "0 1 5\n0 2\n", PGAS_ERR_FORMAT, 2, "the weight is missing" },
    { "a word", PGAS_GRAPH_WEL, "0 1 five\n", PGAS_ERR_FORMAT, 1,
      "the weight is not a number: 'five'" },
    { "not a number", PGAS_GRAPH_WEL, "0 1 nan\n", PGAS_ERR_FORMAT, 1, "not a number: 'nan'" },
    { "infinite", PGAS_GRAPH_WEL, "0 1 inf\n", PGAS_ERR_FORMAT, 1, "not a number: 'inf'" },
    { "a hexadecimal weight", PGAS_GRAPH_WEL, "0 1 0x1p3\n", PGAS_ERR_FORMAT, 1, "not a number" },
    { "two points", PGAS_GRAPH_WEL, "0 1 1.2.3\n", PGAS_ERR_FORMAT, 1, "not a number" },
    { "a weight above all", PGAS_GRAPH_WEL, "0 1 1e999\n", PGAS_ERR_RANGE, 1,
      "the weight is too great: '1e999'" },
    { "a long weight", PGAS_GRAPH_WEL,
      "0 1 1000000000000000000000000000000000000000000000000000000000000000\n", PGAS_ERR_FORMAT, 1,
      "not a number" },
    { "four columns", PGAS_GRAPH_WEL, "0 1 5 6\n", PGAS_ERR_FORMAT, 1,
      "more than two numbers and a weight" },
    { "four numbers", PGAS_GRAPH_EL, "0 1 7 8\n", PGAS_ERR_FORMAT, 1,
      "more than two numbers: '0 1 7 8'" },
    { "a word behind", PGAS_GRAPH_EL, "0 1 x\n", PGAS_ERR_FORMAT, 1,
      "more than two numbers: '0 1 x'" },
    { "a word", PGAS_GRAPH_EL, "# x\n0 1\n1 two\n", PGAS_ERR_FORMAT, 3,
      "not a whole number: 'two'" },
    { "a fraction", PGAS_GRAPH_EL, "0 1.5\n", PGAS_ERR_FORMAT, 1, "not a whole number: '1.5'" },
    { "a minus alone", PGAS_GRAPH_EL, "0 -\n", PGAS_ERR_FORMAT, 1, "not a whole number: '-'" },
    { "negative", PGAS_GRAPH_EL, "0 1\n0 -1\n", PGAS_ERR_RANGE, 2, "a negative number: '-1'" },
    { "2^63", PGAS_GRAPH_EL, "0 9223372036854775808\n", PGAS_ERR_RANGE, 1,
      "a number above 2^63-1" },
    { "2^64", PGAS_GRAPH_EL, "18446744073709551616 0\n", PGAS_ERR_RANGE, 1,
      "a number above 2^63-1" },
    { "thirty digits", PGAS_GRAPH_EL, "0 999999999999999999999999999999\n", PGAS_ERR_RANGE, 1,
      "'999999999999999999999999...'" },
    { "very negative", PGAS_GRAPH_EL, "-99999999999999999999 0\n", PGAS_ERR_RANGE, 1,
      "above 2^63-1" },
    { "control characters", PGAS_GRAPH_EL, "0 \033[2J\n", PGAS_ERR_FORMAT, 1, "'?[2J'" },

    { "empty", PGAS_GRAPH_MTX, "", PGAS_ERR_FORMAT, 1, "empty" },
    { "no banner", PGAS_GRAPH_MTX, "3 3 1\n1 2\n", PGAS_ERR_FORMAT, 1,
      "the first line must begin with %%MatrixMarket" },
    { "an empty first line", PGAS_GRAPH_MTX, "\n" BANNER, PGAS_ERR_FORMAT, 1, "the first line" },
    { "an array", PGAS_GRAPH_MTX, "%%MatrixMarket matrix array real general\n", PGAS_ERR_FORMAT, 1,
      "'matrix coordinate'" },
    { "a vector", PGAS_GRAPH_MTX, "%%MatrixMarket vector coordinate real general\n",
      PGAS_ERR_FORMAT, 1, "'matrix" },
    { "complex", PGAS_GRAPH_MTX, "%%MatrixMarket matrix coordinate complex general\n",
      PGAS_ERR_FORMAT, 1, "'complex'" },
    { "hermitian", PGAS_GRAPH_MTX, "%%MatrixMarket matrix coordinate real hermitian\n",
      PGAS_ERR_FORMAT, 1, "'hermitian'" },
    { "skew", PGAS_GRAPH_MTX, "%%MatrixMarket matrix coordinate real skew-symmetric\n",
      PGAS_ERR_FORMAT, 1, "'skew-sym" },
    { "a banner cut short", PGAS_GRAPH_MTX, "%%MatrixMarket matrix coordinate", PGAS_ERR_FORMAT, 1,
      "values must be" },
    { "a banner alone", PGAS_GRAPH_MTX, BANNER "% c\n", PGAS_ERR_FORMAT, 2,
      "ends before the line of rows" },
    { "two sizes", PGAS_GRAPH_MTX, BANNER "3 3\n", PGAS_ERR_FORMAT, 2, "a number is missing" },
    { "four sizes", PGAS_GRAPH_MTX, BANNER "3 3 1 1\n", PGAS_ERR_FORMAT, 2,
      "more than rows, columns and entries" },
    { "not square", PGAS_GRAPH_MTX, BANNER "%\n3 4 1\n", PGAS_ERR_FORMAT, 3, "not square" },
    { "negative size", PGAS_GRAPH_MTX, BANNER "-3 -3 1\n", PGAS_ERR_RANGE, 2, "negative" },
    { "no rows", PGAS_GRAPH_MTX, BANNER "0 0 0\n", PGAS_ERR_FORMAT, 2, "no rows" },
    { "row 0", PGAS_GRAPH_MTX, BANNER "3 3 1\n0 1\n", PGAS_ERR_RANGE, 3,
      "outside of the matrix: '0'" },
    { "column 4 of 3", PGAS_GRAPH_MTX, BANNER "3 3 2\n1 1\n1 4\n", PGAS_ERR_RANGE, 4,
      "outside of the matrix: '4'" },
    { "a negative row", PGAS_GRAPH_MTX, BANNER "3 3 1\n-1 1\n", PGAS_ERR_RANGE, 3, "negative" },
    { "a value too many", PGAS_GRAPH_MTX, BANNER "3 3 1\n1 2 1.5\n", PGAS_ERR_FORMAT, 3,
      "more words" },
    { "no value", PGAS_GRAPH_MTX, "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2\n",
      PGAS_ERR_FORMAT, 3, "the weight is missing" },
    { "no number", PGAS_GRAPH_MTX, "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 x\n",
      PGAS_ERR_FORMAT, 3, "the weight is not a number" },
    { "too few entries", PGAS_GRAPH_MTX, BANNER "% c\n3 3 3\n1 2\n2 3\n", PGAS_ERR_FORMAT, 5,
      "ends after 2 of the 3 entries that line 3 announces" },
    { "too many entries", PGAS_GRAPH_MTX, BANNER "% c\n3 3 1\n1 2\n2 3\n", PGAS_ERR_FORMAT, 3,
      "announces 1 entries, there are 2" },
    { "2^63 entries", PGAS_GRAPH_MTX, BANNER "3 3 9223372036854775808\n", PGAS_ERR_RANGE, 2,
      "above 2^63-1" },
    { "2^63-1 entries", PGAS_GRAPH_MTX, BANNER "3 3 9223372036854775807\n1 2\n", PGAS_ERR_FORMAT, 3,
      "ends after 1 of the 9223372036854775807" },

    { "empty", PGAS_GRAPH_GR, "", PGAS_ERR_FORMAT, 1, "empty" },
    { "no header", PGAS_GRAPH_GR, "c x\na 1 2 3\n", PGAS_ERR_FORMAT, 2,
      "a line 'p sp VERTICES EDGES' must precede the edges: 'a 1 2 3'" },
    { "only comments", PGAS_GRAPH_GR, "c x\n", PGAS_ERR_FORMAT, 1, "ends before the line 'p sp" },
    { "another problem", PGAS_GRAPH_GR, "p max 3 1\n", PGAS_ERR_FORMAT, 1, "'p sp VERTICES" },
    { "one size", PGAS_GRAPH_GR, "p sp 3\n", PGAS_ERR_FORMAT, 1, "a number is missing" },
    { "three sizes", PGAS_GRAPH_GR, "p sp 3 1 1\n", PGAS_ERR_FORMAT, 1,
      "more than vertices and edges" },
    { "no vertices", PGAS_GRAPH_GR, "p sp 0 0\n", PGAS_ERR_FORMAT, 1, "announces no vertices" },
    { "vertex 0", PGAS_GRAPH_GR, "p sp 3 1\na 0 1 5\n", PGAS_ERR_RANGE, 2,
      "there is no such vertex: '0'" },
    { "vertex 4 of 3", PGAS_GRAPH_GR, "p sp 3 1\na 1 4 5\n", PGAS_ERR_RANGE, 2, "'4'" },
    { "no weight", PGAS_GRAPH_GR, "p sp 3 1\na 1 2\n", PGAS_ERR_FORMAT, 2,
      "the weight is missing" },
    { "another line", PGAS_GRAPH_GR, "p sp 3 1\ne 1 2\n", PGAS_ERR_FORMAT, 2,
      "must begin with 'a' or 'c'" },
    { "too few edges", PGAS_GRAPH_GR, "c\np sp 3 2\na 1 2 3\n", PGAS_ERR_FORMAT, 3,
      "ends after 1 of the 2 entries that line 2 announces" },
    { "too many edges", PGAS_GRAPH_GR, "p sp 3 0\na 1 2 3\n", PGAS_ERR_FORMAT, 1,
      "announces 0 entries, there are 1" },

    { "empty", PGAS_GRAPH_METIS, "", PGAS_ERR_FORMAT, 1, "empty" },
    { "only comments", PGAS_GRAPH_METIS, "% c\n\n", PGAS_ERR_FORMAT, 2,
      "ends before the line of vertices and edges" },
    { "one size", PGAS_GRAPH_METIS, "% c\n3\n", PGAS_ERR_FORMAT, 2, "a number is missing" },
    { "a size alone", PGAS_GRAPH_METIS, "3", PGAS_ERR_FORMAT, 1, "a number is missing" },
    { "five sizes", PGAS_GRAPH_METIS, "3 0 0 1 1\n", PGAS_ERR_FORMAT, 1,
      "more than vertices, edges, format" },
    { "format 2", PGAS_GRAPH_METIS, "3 0 2\n", PGAS_ERR_FORMAT, 1,
      "the format must be three digits 0 or 1: '2'" },
    { "format of four digits", PGAS_GRAPH_METIS, "3 0 0001\n", PGAS_ERR_FORMAT, 1, "'0001'" },
    { "negative sizes", PGAS_GRAPH_METIS, "-3 0\n", PGAS_ERR_RANGE, 1, "negative" },
    { "no vertices", PGAS_GRAPH_METIS, "0 0\n", PGAS_ERR_FORMAT, 1, "announces no vertices" },
    { "2^63 vertices", PGAS_GRAPH_METIS, "9223372036854775808 0\n", PGAS_ERR_RANGE, 1,
      "above 2^63-1" },
    { "2^63-1 vertices", PGAS_GRAPH_METIS, "9223372036854775807 0\n\n", PGAS_ERR_FORMAT, 2,
      "ends after 1 of the 9223372036854775807 vertices that line 1 announces" },
    { "2^63-1 edges", PGAS_GRAPH_METIS, "2 9223372036854775807\n2\n1\n", PGAS_ERR_FORMAT, 1,
      "announces 9223372036854775807 edges, there are 2 neighbours" },
    { "neighbour 0", PGAS_GRAPH_METIS, "2 1\n2\n0\n", PGAS_ERR_RANGE, 3,
      "there is no such vertex: '0'" },
    { "neighbour 3 of 2", PGAS_GRAPH_METIS, "2 1\n3\n1\n", PGAS_ERR_RANGE, 2, "'3'" },
    { "a word", PGAS_GRAPH_METIS, "2 1\n2\none\n", PGAS_ERR_FORMAT, 3,
      "not a whole number: 'one'" },
    { "a line too many", PGAS_GRAPH_METIS, "2 1\n2\n1\n%\n\n1\n", PGAS_ERR_FORMAT, 6,
      "more lines than vertices: '1'" },
    { "two lines too few", PGAS_GRAPH_METIS, "3 1\n% c\n2", PGAS_ERR_FORMAT, 3,
      "ends after 1 of the 3 vertices" },
    { "edges too many", PGAS_GRAPH_METIS, "3 1\n2\n1 3\n2\n", PGAS_ERR_FORMAT, 1,
      "announces 1 edges, there are 4 neighbours" },
    { "sizes", PGAS_GRAPH_METIS, "3 2 100\n1 2\n1 1 3\n1 2\n", PGAS_ERR_FORMAT, 1,
      "(sizes of vertices, as METIS 5 writes them" },
    { "no weight", PGAS_GRAPH_METIS, "2 1 1\n2 5\n1\n", PGAS_ERR_FORMAT, 3,
      "the weight is missing" },
    { "no weight at the end", PGAS_GRAPH_METIS, "2 1 1\n2 5\n1", PGAS_ERR_FORMAT, 3,
      "the weight is missing" },
    { "no weight of a vertex", PGAS_GRAPH_METIS, "2 1 10 2\n7 7 2\n7\n", PGAS_ERR_FORMAT, 3,
      "a weight of the vertex is missing" },

    { "empty", PGAS_GRAPH_ADJ, "\n\n", PGAS_ERR_FORMAT, 2, "nothing but" },
    { "a word", PGAS_GRAPH_ADJ, "1 2\n3 x\n", PGAS_ERR_FORMAT, 2, "not a whole number: 'x'" },
    { "negative", PGAS_GRAPH_ADJ, "1 2\n\n-3\n", PGAS_ERR_RANGE, 3, "a negative number: '-3'" },
    { "2^63", PGAS_GRAPH_ADJ, "1 9223372036854775808", PGAS_ERR_RANGE, 1, "above 2^63-1" },

    { "one number", PGAS_GRAPH_LDBC, "1 2\n\n3\n", PGAS_ERR_FORMAT, 3, "a number is missing" },
    { "a weight", PGAS_GRAPH_LDBC, "1 2\n3 4 .5\n", PGAS_ERR_FORMAT, 2,
      "a third column, which the first line does not have" },
};
#define N_REFUSALS (int)(sizeof refusals / sizeof refusals[0])

static void refusals_have_line_and_reason(void)
{
    static const char *const formats[] = { "",      "names", "el",   "wel", "mtx",
                                           "metis", "gr",    "ldbc", "adj" };
    for (int i = 0; i < N_REFUSALS; i++) {
        const pgasi_graph_error_t *e = &read_text(refusals[i].format, refusals[i].text)->error;
        bool good = e->status == refusals[i].status && e->line == refusals[i].line &&
                    strstr(e->text, refusals[i].reason) != NULL;
        if (!ok(good, "%s: %s, line %d", formats[refusals[i].format], refusals[i].name,
                (int)refusals[i].line))
            diag("got %s, line %d: %s", pgas_status_name(e->status), (int)e->line, e->text);
    }
}

static void nul_is_refused(void)
{
    read_pieces(PGAS_GRAPH_NAMES, "a\tb\nc\0d\te\n", 10, NULL, 0, &whole);
    ok(whole.error.status == PGAS_ERR_FORMAT && whole.error.line == 2 &&
           strstr(whole.error.text, "NUL") != NULL,
       "names: a NUL byte, line 2");
}

/* A text of n times a character between two others. */
static char *long_text(const char *before, char c, size_t n, const char *after)
{
    char *text = (char *)malloc(strlen(before) + n + strlen(after) + 1);
    size_t at = strlen(before);
    strcpy(text, before);
    memset(text + at, c, n);
    strcpy(text + at + n, after);
    return text;
}

static pgas_status_t status_of(pgas_graph_format_t format, char *text)
{
    pgas_status_t status = read_text(format, text)->error.status;
    free(text);
    return status;
}

static void limits_are_exact(void)
{
    is_int(status_of(PGAS_GRAPH_NAMES, long_text("a\t", 'x', 4095, "\n")), PGAS_OK,
           "a name of 4095 bytes");
    is_int(status_of(PGAS_GRAPH_NAMES, long_text("a\t", 'x', 4096, "\n")), PGAS_ERR_FORMAT,
           "not of 4096");
    is_int(status_of(PGAS_GRAPH_EL, long_text("0 1\n#", '#', 65535, "\r\n1 2\n")), PGAS_OK,
           "a line of 65536 bytes");
    is_int(status_of(PGAS_GRAPH_EL, long_text("0 1\n#", '#', 65536, "\r\n1 2\n")), PGAS_ERR_FORMAT,
           "not of 65537");
    is_int(whole.error.line, 2, "which is line 2");
    is_int(status_of(PGAS_GRAPH_EL, long_text("0 1\n#", '#', 300000, "")), PGAS_ERR_FORMAT,
           "not one without end");
}

/* ---- pieces ---- */

static int n_differences(pgas_graph_format_t format, const char *text)
{
    static size_t every[4096];
    size_t bytes = strlen(text);
    int n_bad = 0;
    read_pieces(format, text, bytes, NULL, 0, &whole);
    for (size_t i = 0; i < bytes; i++) {
        every[i] = i;
        read_pieces(format, text, bytes, &i, 1, &other);
        n_bad += !same(&whole, &other);
    }
    read_pieces(format, text, bytes, every, bytes, &other);
    return n_bad + !same(&whole, &other);
}

/* ---- accepted texts ---- */

static bool edges_are(const found_t *f, size_t n_ends, const uint64_t *ends)
{
    return f->error.status == PGAS_OK && f->n_ends == n_ends &&
           (n_ends == 0 || memcmp(f->end, ends, n_ends * sizeof *ends) == 0);
}

static bool weights_are(const found_t *f, size_t n, const double *weights)
{
    return f->n_ends == 2 * n && memcmp(f->weight, weights, n * sizeof *weights) == 0;
}

static void forms_that_are_taken(void)
{
    is_str(read_text(PGAS_GRAPH_NAMES, "a\tb\r\n\r\nb c\n#x\td")->names, "a>b;b c;#x>d;",
           "names: CR LF, an empty line, a vertex alone, blanks and # in names, no last line end");
    ok(edges_are(read_text(PGAS_GRAPH_EL, "# c\n%c\n\n 0\t1\r\n+2  3 \n  # c\n0009 -0"), 6,
                 (uint64_t[]){ 0, 1, 2, 3, 9, 0 }),
       "el: comments, blanks, signs, leading zeros, no last line end");
    ok(edges_are(read_text(PGAS_GRAPH_EL, "9223372036854775807 0\n"), 2,
                 (uint64_t[]){ INT64_MAX, 0 }),
       "el: 2^63-1");
    ok(edges_are(
           read_text(
               PGAS_GRAPH_MTX,
               "%%matrixmarket MATRIX Coordinate Real Symmetric\r\n%\n\n3 3 2\n2 1 -1e3\n3 3 .5"),
           4, (uint64_t[]){ 1, 0, 2, 2 }) &&
           weights_are(&whole, 2, (double[]){ -1000, .5 }),
       "mtx: an entry of a symmetric matrix is one edge; letters of any case");
    ok(edges_are(read_text(PGAS_GRAPH_MTX, BANNER "3 3 2\n% late\n1 2\n1 2\n"), 4,
                 (uint64_t[]){ 0, 1, 0, 1 }),
       "mtx: entries that stand twice");
    ok(edges_are(read_text(PGAS_GRAPH_MTX, BANNER "3 3 0"), 0, NULL),
       "mtx: vertices without edges");
    ok(edges_are(read_text(PGAS_GRAPH_EL, "0,1\n2 , 3\n4\t,5 \n"), 6,
                 (uint64_t[]){ 0, 1, 2, 3, 4, 5 }),
       "el: commas");
}

static void forms_with_weights(void)
{
    static const char many[] = "0 1 5\n2\t3\t0.25\n4,5,1e-2\r\n6 7 -8.\n8 9 +.5\n"
                               "10 11 123456789.123456\n12 13 0.1\n14 15 9007199254740993\n"
                               "16 17 1234567890123456789\n18 19 1E+3\n# and enough\n# bytes\n"
                               "# behind\n# them\n# for the loop\n# that needs\n# some more\n"
                               "# than this\n# few\n# lines.............................\n";
    static const double want[] = {
        5, .25, 1e-2, -8, .5, 123456789.123456, 0.1, 9007199254740992., 1234567890123456789., 1000
    };
    read_text(PGAS_GRAPH_WEL, many);
    ok(whole.error.status == PGAS_OK && weights_are(&whole, 10, want),
       "wel: integers, fractions, exponents, signs; each number is rounded once");
    is_int(n_differences(PGAS_GRAPH_WEL, many), 0, "wel: cut at every byte");
    bool has_locale = setlocale(LC_NUMERIC, "de_DE.UTF-8") || setlocale(LC_NUMERIC, "fr_FR.UTF-8");
    read_text(PGAS_GRAPH_WEL, many);
    ok(weights_are(&whole, 10, want), "wel: where the locale %s",
       has_locale ? "has a decimal comma" : "is C, because there is no other");
    setlocale(LC_NUMERIC, "C");
    ok(edges_are(read_text(PGAS_GRAPH_GR, "c a\n\nc\np sp 4 3\na 1 2 7\r\nc b\na 4 4 2.5\na 3 1 0"),
                 6, (uint64_t[]){ 0, 1, 3, 3, 2, 0 }) &&
           weights_are(&whole, 3, (double[]){ 7, 2.5, 0 }),
       "gr: comments, weights, numbers from 1");
    ok(edges_are(read_text(PGAS_GRAPH_GR, "p sp 4 0\n"), 0, NULL), "gr: vertices without edges");
}

static bool vertices_are(const found_t *f, size_t n, const uint64_t *vertices)
{
    return f->error.status == PGAS_OK && f->n_vertices == n &&
           memcmp(f->vertex, vertices, n * sizeof *vertices) == 0;
}

static void metis(void)
{
    ok(edges_are(read_text(PGAS_GRAPH_METIS, "% c\n\n3 2\n 2\n%\n1\t3 \r\n2\n\n\n% c\n"), 8,
                 (uint64_t[]){ 0, 1, 1, 0, 1, 2, 2, 1 }) &&
           whole.count.n_rows == 3 && whole.header.line == 3,
       "metis: comments, blanks, empty lines at the end");
    ok(edges_are(read_text(PGAS_GRAPH_METIS, "4 1 000\n\n4\n\n2"), 4, (uint64_t[]){ 1, 3, 3, 1 }) &&
           whole.count.n_rows == 4,
       "metis: an empty line is a vertex without neighbours");
    ok(edges_are(read_text(PGAS_GRAPH_METIS, "3 1\n2\n1\n"), 4, (uint64_t[]){ 0, 1, 1, 0 }),
       "metis: the last one needs no line end");
    ok(edges_are(read_text(PGAS_GRAPH_METIS, "3 2 1\n2 5\n1 5 3 2.5\n2 2.5\n"), 8,
                 (uint64_t[]){ 0, 1, 1, 0, 1, 2, 2, 1 }) &&
           weights_are(&whole, 4, (double[]){ 5, 5, 2.5, 2.5 }),
       "metis: weights of edges");
    ok(edges_are(read_text(PGAS_GRAPH_METIS, "2 1 011 2\n9 9 2 5\n8 8 1 5\n"), 4,
                 (uint64_t[]){ 0, 1, 1, 0 }) &&
           weights_are(&whole, 2, (double[]){ 5, 5 }),
       "metis: weights of vertices are skipped");
    ok(edges_are(read_text(PGAS_GRAPH_METIS, "2 2 100\n2 1\n1\n"), 6,
                 (uint64_t[]){ 0, 1, 0, 0, 1, 0 }) &&
           whole.count.n_loops == 1,
       "metis: a loop may have one entry");
    ok(edges_are(read_text(PGAS_GRAPH_METIS, "3 2 100\n2 3\n"), 4, (uint64_t[]){ 0, 1, 0, 2 }) ==
           false,
       "metis: not with two vertices less than announced");
    ok(edges_are(read_text(PGAS_GRAPH_METIS, "3 2 100\n2 3\n\n\n"), 4, (uint64_t[]){ 0, 1, 0, 2 }),
       "metis: each edge may have one entry, as GAP writes directed graphs");
}

static void labels(void)
{
    const uint64_t edges[] = { 7, 9223372036854775807, 7, 0, 0, 7 };
    ok(edges_are(read_text(PGAS_GRAPH_ADJ, "7 9223372036854775807 0\r\n\n \n5\n0\t7"), 6, edges) &&
           vertices_are(&whole, 3, (uint64_t[]){ 7, 5, 0 }),
       "adj: a vertex and its neighbours");
    ok(edges_are(read_text(PGAS_GRAPH_LDBC, "7 9223372036854775807\n\n7 0\r\n0 7"), 6, edges),
       "ldbc: edges");
    preset.has_weight = true;
    ok(edges_are(read_text(PGAS_GRAPH_LDBC, "1 2 0.5\n3 4 6\n"), 4, (uint64_t[]){ 1, 2, 3, 4 }) &&
           weights_are(&whole, 2, (double[]){ .5, 6 }),
       "ldbc: edges with weights");
    ok(read_text(PGAS_GRAPH_LDBC, "1 2 0.5\n3 4\n")->error.line == 2 &&
           strstr(whole.error.text, "the weight is missing"),
       "ldbc: on every line");
    ok(read_text(PGAS_GRAPH_LDBC, "1 2 0.5 6\n")->error.line == 1, "ldbc: but nothing more");
    ok(read_text(PGAS_GRAPH_LDBC, "")->error.status == PGAS_OK, "ldbc: there may be no edges");
    preset = (pgasi_reader_header_t){ .is_vertices = true };
    ok(vertices_are(read_text(PGAS_GRAPH_LDBC, "3\n\n1\r\n9223372036854775807"), 3,
                    (uint64_t[]){ 3, 1, 9223372036854775807 }),
       "ldbc: vertices");
    ok(read_text(PGAS_GRAPH_LDBC, "")->error.status == PGAS_ERR_FORMAT, "ldbc: not without them");
    ok(read_text(PGAS_GRAPH_LDBC, "1 2\n")->error.line == 1 &&
           strstr(whole.error.text, "more than a number"),
       "ldbc: one on a line");
    preset = (pgasi_reader_header_t){ .is_vertices = false };
    ok(!pgasi_reader_has_weight("\n1 2\n", 5) && pgasi_reader_has_weight("\r\n1 2 3", 7) &&
           !pgasi_reader_has_weight("", 0),
       "ldbc: the first line shows whether there are weights");
}

/* ---- places ---- */

/* Reads a text up to a blank at or behind `cut`, skims it there, and reads on from that place with
 * another reader. */
static bool continues_at(pgas_graph_format_t format, const char *text, size_t cut)
{
    size_t bytes = strlen(text), used;
    pgasi_reader_place_t place = { 0 };
    pgasi_reader_t a, b;
    while (cut > 0 && cut < bytes && text[cut - 1] > ' ')
        cut++;
    memset(&other, 0, sizeof other);
    pgasi_reader_init(&a, format, &ops, &other);
    pgasi_reader_init(&b, format, &ops, &other);
    pgasi_reader_feed_header(&a, text, bytes, &used);
    b.header = a.header;
    b.state = a.state;
    if (cut == bytes) /* the first one would have to finish */
        cut = 0;
    cut = cut < used ? used : cut;
    place.n_lines = a.count.n_lines;
    for (size_t i = used; i < cut; i += 3)
        pgasi_reader_skim(format, &place, text + i, i + 3 < cut ? 3 : cut - i);
    pgasi_reader_feed(&a, text + used, cut - used);
    pgasi_reader_start(&b, &place);
    if (a.error.status == PGAS_OK) {
        pgasi_reader_feed(&b, text + cut, bytes - cut);
        pgasi_reader_finish(&b);
    }
    other.error = a.error.status != PGAS_OK ? a.error : b.error;
    bool good = whole.n_ends == other.n_ends &&
                memcmp(whole.end, other.end, other.n_ends * sizeof *other.end) == 0 &&
                whole.n_vertices == other.n_vertices &&
                memcmp(whole.weight, other.weight, other.n_ends / 2 * sizeof *other.weight) == 0;
    if (other.error.status != PGAS_OK || whole.count.n_lines != b.count.n_lines) {
        good = good && whole.error.line == other.error.line &&
               strcmp(whole.error.text, other.error.text) == 0;
    }
    pgasi_reader_fini(&a);
    pgasi_reader_fini(&b);
    return good;
}

static void places_continue(void)
{
    static const char *const metis[] = { "5 4 1\n2 5 3 6\n% c 1 2\n1 5\n  % d\n\n1 6 x\n\n",
                                         "5 4\n2 3 4\n% c 1 2\n1 5\n\n1 2 3 4 5 9\n\n",
                                         "3 2 11\n7 2 5 3 6\n7\n 7 1 6", "% c\n3 1\n1 2 3" };
    static const char *const adj[] = { "17 2 3\n\n4\n5 66 7\n%\n", "1 2 3 4 5 6 7 8 9 10\n11 12",
                                       "1\n\n\n2 3 -4" };
    int n_bad = 0;
    for (size_t i = 0; i < sizeof metis / sizeof metis[0]; i++) {
        read_text(PGAS_GRAPH_METIS, metis[i]);
        for (size_t cut = 0; cut < strlen(metis[i]); cut++)
            n_bad += !continues_at(PGAS_GRAPH_METIS, metis[i], cut);
    }
    is_int(n_bad, 0, "metis: another reader continues at any word");
    n_bad = 0;
    for (size_t i = 0; i < sizeof adj / sizeof adj[0]; i++) {
        read_text(PGAS_GRAPH_ADJ, adj[i]);
        for (size_t cut = 0; cut < strlen(adj[i]); cut++)
            n_bad += !continues_at(PGAS_GRAPH_ADJ, adj[i], cut);
    }
    is_int(n_bad, 0, "adj: another reader continues at any word");
}

static void header_ends_where_entries_begin(void)
{
    static const char text[] = BANNER "% c\n4 4 2\n1 2\n3 4\n";
    pgasi_reader_t reader;
    size_t used = 0, at = 0, n_bad = 0;
    for (size_t piece = 1; piece < sizeof text; piece++) {
        pgasi_reader_init(&reader, PGAS_GRAPH_MTX, NULL, NULL);
        for (at = 0; at < sizeof text - 1 && pgasi_reader_in_header(&reader); at += used) {
            size_t n = sizeof text - 1 - at < piece ? sizeof text - 1 - at : piece;
            n_bad += pgasi_reader_feed_header(&reader, text + at, n, &used) != PGAS_OK;
        }
        n_bad += strcmp(text + at, "1 2\n3 4\n") != 0 || reader.header.n_vertices != 4 ||
                 reader.header.n_entries != 2 || reader.header.line != 3 ||
                 reader.count.n_lines != 3;
        pgasi_reader_fini(&reader);
    }
    is_int(n_bad, 0, "mtx: a header is taken apart from entries, in pieces of any size");
}

static void formats_are_told(void)
{
    static const struct {
        const char *text;
        pgas_graph_format_t format;
    } sniff[] = { { BANNER, PGAS_GRAPH_MTX },        { "%%matrixmarket x", PGAS_GRAPH_MTX },
                  { "# c\n\n0 1\n", PGAS_GRAPH_EL }, { "1\t2\n", PGAS_GRAPH_EL },
                  { "0 x\n", PGAS_GRAPH_EL },        { "5\n", PGAS_GRAPH_EL },
                  { "-1 2\n", PGAS_GRAPH_EL },       { "", PGAS_GRAPH_EL },
                  { "a\tb\n", PGAS_GRAPH_NAMES },    { "0ad\t0ad-data\n", PGAS_GRAPH_NAMES },
                  { "0ad\n", PGAS_GRAPH_NAMES },     { "1\tb\n", PGAS_GRAPH_NAMES },
                  { "a b\n", PGAS_GRAPH_NAMES },     { "\r\n0 1\r\n", PGAS_GRAPH_EL },
                  { "0,1\n", PGAS_GRAPH_EL },        { "0 1 2\n", PGAS_GRAPH_WEL },
                  { "0,1,.5\n", PGAS_GRAPH_WEL },    { "0 1 2 3\n", PGAS_GRAPH_EL },
                  { "0 1 x\n", PGAS_GRAPH_EL },      { "c\nc x\np sp 1 0\n", PGAS_GRAPH_GR },
                  { "p\tsp\n", PGAS_GRAPH_GR },      { "c\tsp\n", PGAS_GRAPH_NAMES },
                  { "p\tq\n", PGAS_GRAPH_NAMES } };
    static const struct {
        const char *path;
        pgas_graph_format_t format;
    } named[] = { { "x.el", PGAS_GRAPH_EL },     { "/a/b.MTX", PGAS_GRAPH_MTX },
                  { "x.tsv", PGAS_GRAPH_NAMES }, { "x.names", PGAS_GRAPH_NAMES },
                  { "x.txt", PGAS_GRAPH_AUTO },  { ".el", PGAS_GRAPH_AUTO },
                  { "x.wel", PGAS_GRAPH_WEL },   { "x.graph", PGAS_GRAPH_METIS },
                  { "x.gr", PGAS_GRAPH_GR },     { "x.v", PGAS_GRAPH_LDBC },
                  { "x.e", PGAS_GRAPH_LDBC },    { "x.adj", PGAS_GRAPH_ADJ },
                  { "x.wsg", PGAS_GRAPH_SG },    { "x.pgas", PGAS_GRAPH_BINARY },
                  { "x.el.gz", PGAS_GRAPH_EL },  { "x.metis.zst", PGAS_GRAPH_METIS },
                  { "x.gz", PGAS_GRAPH_AUTO },   { ".el.gz", PGAS_GRAPH_AUTO },
                  { "-", PGAS_GRAPH_AUTO } };
    int n_bad = 0;
    for (size_t i = 0; i < sizeof sniff / sizeof sniff[0]; i++)
        n_bad += pgasi_reader_sniff(sniff[i].text, strlen(sniff[i].text)) != sniff[i].format;
    is_int(n_bad, 0, "the format is detected from the first lines");
    n_bad = 0;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        n_bad += pgasi_reader_format_of(named[i].path) != named[i].format;
    is_int(n_bad, 0, "and from the file's name");
}

static void before_the_text(void)
{
    static const struct {
        const char *bytes;
        size_t n_bytes, skip;
        const char *what; /* NULL: a text */
    } begin[] = { { "0 1\n", 4, 0, NULL },
                  { "", 0, 0, NULL },
                  { "\xef\xbb\xbf"
                    "0 1\n",
                    7, 3, NULL },
                  { "\xef\xbb\xbf", 3, 3, NULL },
                  { "\xef\xbb", 2, 0, NULL },
                  { "\x1f\x8b\x08\x00", 4, 0, "gzip" },
                  { "\x1f", 1, 0, NULL },
                  { "\xfd"
                    "7zXZ",
                    6, 0, "xz" },
                  { "\x28\xb5\x2f\xfd", 4, 0, "zstd" },
                  { "PK\x03\x04", 4, 0, "zip" },
                  { "PK\t1", 4, 0, NULL },
                  { "\xff\xfe"
                    "0",
                    4, 0, "UTF-16" },
                  { "\xfe\xff", 2, 0, "UTF-16" } };
    int n_bad = 0;
    for (size_t i = 0; i < sizeof begin / sizeof begin[0]; i++) {
        pgasi_graph_error_t error = { .status = PGAS_OK };
        size_t skip = pgasi_reader_begin(begin[i].bytes, begin[i].n_bytes, &error);
        bool named = begin[i].what != NULL ? strstr(error.text, begin[i].what) != NULL
                                           : error.text[0] == '\0';
        bool good = skip == begin[i].skip && named && (error.status == PGAS_OK) == (!begin[i].what);
        n_bad += !good;
        if (!good)
            diag("begin %d: skips %d, %s", (int)i, (int)skip, error.text);
    }
    is_int(n_bad, 0, "a byte-order mark is skipped; compressed and UTF-16 input is named");
}

static pgas_status_t refuse_edge(void *arg, uint64_t from, uint64_t to, double weight)
{
    (void)arg, (void)to, (void)weight;
    return from == 2 ? PGAS_ERR_NO_MEMORY : PGAS_OK;
}

static void sink_can_refuse(void)
{
    static const pgasi_reader_ops_t refusing = { refuse_edge, NULL, NULL };
    pgasi_reader_t reader;
    pgasi_reader_init(&reader, PGAS_GRAPH_EL, &refusing, NULL);
    pgasi_reader_feed(&reader, "0 1\n2 3\n4 5\n", 12);
    ok(pgasi_reader_finish(&reader) == PGAS_ERR_NO_MEMORY && reader.error.line == 2 &&
           reader.count.n_lines == 2,
       "a refusal of the caller ends the reading at its line");
    pgasi_reader_fini(&reader);
}

static void cuts_make_no_difference(void)
{
    char newlines[151];
    memset(newlines, '\n', sizeof newlines);
    static const char mtx[] = "%%MatrixMarket matrix coordinate integer symmetric\r\n% c\n5 5 4\n1 "
                              "2 7\n2 2 8\n\n5 1 9\n4 3 1";
    int n_bad = 0;
    is_int(n_differences(PGAS_GRAPH_NAMES,
                         "libc6\tlibgcc-s1\n\nlibgcc-s1\tgcc-12-base\r\ngcc-12-base\n"),
           0, "names: cut at every byte");
    is_int(n_differences(PGAS_GRAPH_EL, "# c\n0 1\r\n12 345\n\n 6\t7 \n89 10"), 0,
           "el: cut at every byte");
    is_int(n_differences(PGAS_GRAPH_MTX, mtx), 0, "mtx: cut at every byte");
    is_int(n_differences(PGAS_GRAPH_GR, "c x\np sp 9 3\na 1 2 3\nc\na 4 5 6.5\r\n\na 7 8 9"), 0,
           "gr: cut at every byte");
    is_int(n_differences(PGAS_GRAPH_METIS, "%\n5 4 11\n1 2 3.5\n\r\n7\n8 1 3.5 4 -1 5\n% c"), 0,
           "metis: cut at every byte");
    is_int(n_differences(PGAS_GRAPH_ADJ, "1 2 3\n\n4\r\n 5  \t600 \n7 8"), 0,
           "adj: cut at every byte");
    for (int i = 0; i < N_REFUSALS; i++) {
        char text[512];
        n_bad += n_differences(refusals[i].format, refusals[i].text);
        /* with so many bytes behind it that lines in the common form take the fast way */
        snprintf(text, sizeof text, "%s\n%.*s", refusals[i].text, 150, newlines);
        n_bad += n_differences(refusals[i].format, text);
    }
    is_int(n_bad, 0, "refused texts: cut at every byte");
}

static void long_lines_in_pieces(void)
{
    char *text = long_text("0 1\n#", '#', 65536, "\n1 2\n");
    size_t bytes = strlen(text);
    int n_bad = 0;
    read_pieces(PGAS_GRAPH_EL, text, bytes, NULL, 0, &whole);
    for (size_t cut = 65530; cut < bytes; cut++) {
        read_pieces(PGAS_GRAPH_EL, text, bytes, &cut, 1, &other);
        n_bad += !same(&whole, &other);
    }
    free(text);
    is_int(n_bad, 0, "a line that is too long: cut near its limit");
}

/* ---- round trip ---- */

static size_t put_noise(pgasi_rng_t *rng, char *at, bool comments)
{
    switch (pgasi_rng_below(rng, 12)) {
    case 0:
        return (size_t)sprintf(at, "\n");
    case 1:
        return comments ? (size_t)sprintf(at, "%% noise %d\n", (int)pgasi_rng_below(rng, 1000)) : 0;
    default:
        return 0;
    }
}

static void cut_anywhere(pgasi_rng_t *rng, size_t bytes, size_t cut[20])
{
    for (size_t i = 0; i < 20; i++) { /* in rising order */
        uint64_t before = i > 0 ? cut[i - 1] : 0;
        cut[i] = before + pgasi_rng_below(rng, (bytes - before) / 4 + 1);
    }
}

/* n edges to text and back; the number of runs in which something differs */
static int round_trips(uint64_t seed, pgas_graph_format_t format, bool break_it)
{
    static char text[200000];
    static uint64_t ends[4000];
    size_t cut[20];
    int n_bad = 0;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (int run = 0; run < 30; run++) {
        size_t n_edges = 1 + pgasi_rng_below(&rng, 1000), bytes = 0;
        uint64_t n_vertices = 1 + pgasi_rng_below(&rng, run % 2 == 0 ? 50 : UINT64_C(1) << 62);
        uint64_t first = format == PGAS_GRAPH_MTX;
        if (format == PGAS_GRAPH_MTX) {
            bytes =
                (size_t)sprintf(text, "%s%llu %llu %zu\n", BANNER, (unsigned long long)n_vertices,
                                (unsigned long long)n_vertices, n_edges);
        }
        for (size_t i = 0; i < n_edges; i++) {
            ends[2 * i] = pgasi_rng_below(&rng, n_vertices);
            ends[2 * i + 1] = pgasi_rng_below(&rng, n_vertices);
            bytes += put_noise(&rng, text + bytes, true);
            bytes += (size_t)sprintf(text + bytes, "%llu%c%llu%s",
                                     (unsigned long long)(ends[2 * i] + first),
                                     pgasi_rng_below(&rng, 2) ? ' ' : '\t',
                                     (unsigned long long)(ends[2 * i + 1] + first),
                                     pgasi_rng_below(&rng, 5) ? "\n" : " \r\n");
        }
        ends[0] ^= break_it;
        cut_anywhere(&rng, bytes, cut);
        read_pieces(format, text, bytes, cut, 20, &whole);
        n_bad += !edges_are(&whole, 2 * n_edges, ends);
    }
    return n_bad;
}

static int round_trips_of_names(uint64_t seed)
{
    static char text[40000], want[20000];
    size_t cut[20];
    int n_bad = 0;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (int run = 0; run < 30; run++) {
        size_t n_want = 0, bytes = 0;
        for (size_t i = 1 + pgasi_rng_below(&rng, 1000); i > 0; i--) {
            int a = (int)pgasi_rng_below(&rng, 500), b = (int)pgasi_rng_below(&rng, 700);
            bytes += put_noise(&rng, text + bytes, false);
            if (b < 500) {
                bytes += (size_t)sprintf(text + bytes, "n%d\tn%d\n", a, b);
                n_want += (size_t)sprintf(want + n_want, "n%d>n%d;", a, b);
            } else {
                bytes += (size_t)sprintf(text + bytes, "n%d\n", a);
                n_want += (size_t)sprintf(want + n_want, "n%d;", a);
            }
        }
        cut_anywhere(&rng, bytes, cut);
        read_pieces(PGAS_GRAPH_NAMES, text, bytes, cut, 20, &whole);
        n_bad += whole.error.status != PGAS_OK || strcmp(whole.names, want) != 0;
    }
    return n_bad;
}

int main(void)
{
    plan(N_REFUSALS + 57);
    uint64_t seed = tap_seed(20240107);
    refusals_have_line_and_reason();
    nul_is_refused();
    limits_are_exact();
    forms_that_are_taken();
    forms_with_weights();
    metis();
    labels();
    places_continue();
    header_ends_where_entries_begin();
    formats_are_told();
    before_the_text();
    sink_can_refuse();
    cuts_make_no_difference();
    long_lines_in_pieces();
    is_int(round_trips(seed, PGAS_GRAPH_EL, false), 0, "el: random graphs come back");
    is_int(round_trips(seed, PGAS_GRAPH_MTX, false), 0, "mtx: random graphs come back");
    is_int(round_trips_of_names(seed), 0, "names: random graphs come back");
    is_int(round_trips(seed, PGAS_GRAPH_EL, true), 30,
           "the comparison finds one wrong end (broken on purpose)");
    read_text(PGAS_GRAPH_EL, "0 1\n2 3\n");
    read_pieces(PGAS_GRAPH_EL, "0 1\n2 4\n", 8, NULL, 0, &other);
    ok(!same(&whole, &other), "and that of pieces, too");
    return done();
}
