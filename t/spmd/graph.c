/* Graphs from files and streams.
 *   what:   On any number of ranks a text becomes the graph that a serial reader gives. A malformed
 *           text gives the same status on all ranks, and one log line with file, line and reason.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=5,reorder=4,again=3 | PGAS_SERVICE_THREADS=0
 *   source: pgas/graph.h; public headers; seeded model test
 */
#include "base/hash.h"
#include "t/spmd/graph_files.h"

/* ---- good texts ---- */

static void reads_as(const model_t *m, pgas_graph_format_t format, const char *what)
{
    pgas_graph_t *graph = read_file(format);
    spmd_ok(model_is(m, graph), "%s", what);
    pgas_graph_destroy(graph);
}

static void edge_lists(const model_t *m)
{
    text_t text = { 0 };
    text_add(&text, "# a comment\n\n");
    text_add_edges(&text, m, 0, " ", "");
    write_file("a.el", &text);
    reads_as(m, PGAS_GRAPH_AUTO, "an edge list");
    text.n--;
    write_file("b.txt", &text);
    reads_as(m, PGAS_GRAPH_AUTO, "told by its first lines, without its last line end");
    text.n = 0;
    text_add_edges(&text, m, 0, "\t  ", " \r");
    write_file("c.txt", &text);
    reads_as(m, PGAS_GRAPH_EL, "with tabs, blanks and CR LF");
    free(text.bytes);
}

/* The same text after a byte-order mark, as a file and as a stream. */
static void behind_a_mark(const model_t *m)
{
    text_t text = { 0 };
    pgas_graph_t *graph = NULL;
    unsigned long long n = m->n_vertices, n_edges = m->n_edges;
    text_add(&text, "\xef\xbb\xbf");
    text_add_edges(&text, m, 0, " ", "");
    write_file("mark.txt", &text);
    reads_as(m, PGAS_GRAPH_AUTO, "an edge list after a byte-order mark");
    pgas_status_t status = read_stream(&text, true, &graph);
    spmd_ok(status == PGAS_OK && model_is(m, graph), "the same from standard input");
    pgas_graph_destroy(graph);
    text.n = 3;
    text_add(&text, "%%%%MatrixMarket matrix coordinate pattern general\n%llu %llu %llu\n", n, n,
             n_edges);
    text_add_edges(&text, m, 1, " ", "");
    write_file("mark.txt", &text);
    reads_as(m, PGAS_GRAPH_AUTO, "a matrix after a byte-order mark");
    free(text.bytes);
}

/* Some lines are longer than the ranges of ranks, so ranges begin and end inside one line. */
static void uneven_lines(const model_t *m)
{
    text_t text = { 0 };
    for (uint64_t i = 0; i < 3; i++) {
        text_add(&text, "%%%*s\n%llu %llu\n", i == 1 ? 8000 : 1, "",
                 (unsigned long long)m->ends[2 * i], (unsigned long long)m->ends[2 * i + 1]);
    }
    model_t few = { m->n_vertices, 3, m->ends, NULL, NULL, NULL, NULL };
    uint64_t last = 0;
    for (int i = 0; i < 6; i++)
        last = m->ends[i] > last ? m->ends[i] : last;
    few.n_vertices = last + 1;
    model_make_rows(&few);
    write_file("uneven.el", &text);
    reads_as(&few, PGAS_GRAPH_AUTO, "three edges and a long comment");
    free(few.offsets);
    free(few.targets);
    free(few.row_weights);
    free(text.bytes);
}

static void matrices(const model_t *m)
{
    text_t text = { 0 };
    unsigned long long n = m->n_vertices, n_edges = m->n_edges;
    text_add(&text, "%%%%MatrixMarket matrix coordinate pattern general\n%% c\n%llu %llu %llu\n", n,
             n, n_edges);
    text_add_edges(&text, m, 1, " ", "");
    write_file("a.mtx", &text);
    reads_as(m, PGAS_GRAPH_AUTO, "a matrix");
    text.n = 0;
    text_add(&text, "%%%%MatrixMarket matrix coordinate real general\n%llu %llu %llu\n", n, n,
             n_edges);
    text_add_edges(&text, m, 1, " ", " -2.5e-3");
    write_file("b.txt", &text);
    reads_as(m, PGAS_GRAPH_AUTO, "a matrix of values, told by its first line");
    free(text.bytes);
}

static void symmetric_matrix(uint64_t seed)
{
    model_t half = model_make(seed, 300, 1000), m = model_mirror(&half);
    text_t text = { 0 };
    text_add(&text, "%%%%MatrixMarket matrix coordinate integer symmetric\n300 300 1000\n");
    text_add_edges(&text, &half, 1, " ", " 7");
    write_file("s.mtx", &text);
    reads_as(&m, PGAS_GRAPH_AUTO,
             "a symmetric matrix has each edge in both directions, loops once");
    model_free(&half);
    model_free(&m);
    free(text.bytes);
}

static void matrix_without_entries(void)
{
    text_t text = { 0 };
    uint64_t none[1] = { 0 };
    model_t m = { 5, 0, none, NULL, NULL, NULL, NULL };
    model_make_rows(&m);
    text_add(&text, "%%%%MatrixMarket matrix coordinate pattern general\n5 5 0\n");
    write_file("none.mtx", &text);
    reads_as(&m, PGAS_GRAPH_AUTO, "a matrix of vertices without edges");
    free(m.offsets);
    free(m.targets);
    free(m.row_weights);
    free(text.bytes);
}

/* The model with its vertices renumbered as they first appear, as `v17`; name_of[new number] is 17.
 * Every 50th line is a vertex alone, which may be new. */
static model_t rename_model(const model_t *m, text_t *text, uint64_t *name_of)
{
    model_t named = { 0,    m->n_edges, (uint64_t *)job_alloc(2 * m->n_edges * sizeof(uint64_t)),
                      NULL, NULL,       NULL,
                      NULL };
    uint64_t *number_of = (uint64_t *)job_alloc(m->n_vertices * sizeof(uint64_t)); /* plus 1 */
    for (uint64_t i = 0; i < m->n_edges; i++) {
        uint64_t met[3] = { m->ends[2 * i], m->ends[2 * i + 1], i % m->n_vertices };
        for (int k = 0; k < (i % 50 == 0 ? 3 : 2); k++) {
            if (number_of[met[k]] == 0) {
                name_of[named.n_vertices] = met[k];
                number_of[met[k]] = ++named.n_vertices;
            }
        }
        named.ends[2 * i] = number_of[met[0]] - 1;
        named.ends[2 * i + 1] = number_of[met[1]] - 1;
        text_add(text, "v%llu\tv%llu\n", (unsigned long long)met[0], (unsigned long long)met[1]);
        if (i % 50 == 0)
            text_add(text, "v%llu\n", (unsigned long long)met[2]);
    }
    free(number_of);
    model_make_rows(&named);
    return named;
}

static bool names_are(const pgas_graph_t *graph, const uint64_t *name_of, uint64_t n_vertices,
                      uint64_t seed)
{
    enum { N = 200 };
    uint64_t vertices[N];
    char *names[N];
    size_t n = me == n_ranks - 1 && n_ranks > 1 ? 0 : N; /* one rank may ask for nothing */
    bool good = true;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed + (uint64_t)me);
    for (size_t i = 0; i < n; i++)
        vertices[i] = pgasi_rng_below(&rng, n_vertices);
    if (pgas_graph_names(graph, vertices, n, names) != PGAS_OK)
        return false;
    for (size_t i = 0; i < n; i++) {
        char want[24];
        snprintf(want, sizeof want, name_of != NULL ? "v%llu" : "%llu",
                 (unsigned long long)(name_of ? name_of[vertices[i]] : vertices[i]));
        good = good && strcmp(names[i], want) == 0;
        free(names[i]);
    }
    return good;
}

static void names(const model_t *m, uint64_t seed)
{
    text_t text = { 0 };
    uint64_t *name_of = (uint64_t *)job_alloc(m->n_vertices * sizeof(uint64_t)), vertex = 0;
    model_t named = rename_model(m, &text, name_of);
    char *name;
    write_file("a.tsv", &text);
    pgas_graph_t *graph = read_file(PGAS_GRAPH_AUTO), *streamed = NULL;
    spmd_ok(model_is(&named, graph), "names are numbered as they first appear");
    spmd_ok(names_are(graph, name_of, named.n_vertices, seed), "every rank can ask for every name");
    name_of[0]++;
    bool same = names_are(graph, name_of, 1, seed);
    spmd_ok(!same || me != 0, "the comparison can fail (broken on purpose)");
    name_of[0]--;
    vertex = named.n_vertices;
    log_begin();
    pgas_status_t status = pgas_graph_names(graph, &vertex, me == 0, &name);
    spmd_ok(log_end("there is no vertex ") == 1 && status == PGAS_ERR_RANGE,
            "not for a vertex that does not exist");
    status = read_stream(&text, true, &streamed);
    spmd_ok(status == PGAS_OK && model_is(&named, streamed) &&
                names_are(streamed, name_of, named.n_vertices, seed),
            "names from standard input");
    pgas_graph_destroy(graph);
    pgas_graph_destroy(streamed);
    model_free(&named);
    free(name_of);
    free(text.bytes);
}

/* The stream has more than one piece for every rank, so the reading takes several rounds. */
static void streams(const model_t *m)
{
    text_t text = { 0 };
    pgas_graph_t *graph = NULL;
    size_t pad = ((size_t)n_ranks + 1) * 1100000 / m->n_edges;
    for (uint64_t i = 0; i < m->n_edges; i++) {
        text_add(&text, "%llu %llu\n#%*s\n", (unsigned long long)m->ends[2 * i],
                 (unsigned long long)m->ends[2 * i + 1], (int)pad, "");
    }
    pgas_status_t status = read_stream(&text, true, &graph);
    spmd_ok(status == PGAS_OK && model_is(m, graph), "%.1f MB of standard input",
            (double)text.n / 1e6);
    pgas_graph_destroy(graph);
    graph = NULL;
    text.n -= pad + 3; /* up to the last edge, without its line end */
    status = read_stream(&text, false, &graph);
    spmd_ok(status == PGAS_OK && model_is(m, graph), "the same from a path that is a pipe");
    pgas_graph_destroy(graph);
    graph = NULL;
    log_begin();
    text_add(&text, "\n\n5 six\n7\n");
    status = read_stream(&text, true, &graph);
    char want[64];
    snprintf(want, sizeof want, "standard input:%llu: not a whole number: 'six'",
             (unsigned long long)(2 * m->n_edges + 1));
    spmd_is_int(log_end(want), 1, "the log names the true line of a stream, once");
    spmd_ok(status == PGAS_ERR_FORMAT && !graph, "and all ranks get the status");
    free(text.bytes);
}

static void streamed_matrix(const model_t *m)
{
    text_t text = { 0 };
    pgas_graph_t *graph = NULL;
    unsigned long long n = m->n_vertices, n_edges = m->n_edges;
    text_add(&text, "%%%%MatrixMarket matrix coordinate pattern general\n%%\n%llu %llu %llu\n", n,
             n, n_edges);
    text_add_edges(&text, m, 1, " ", "");
    pgas_status_t status = read_stream(&text, true, &graph);
    spmd_ok(status == PGAS_OK && model_is(m, graph), "a matrix from standard input");
    pgas_graph_destroy(graph);
    graph = NULL;
    log_begin();
    text.n /= 2;
    while (text.bytes[text.n - 1] != '\n')
        text.n--;
    status = read_stream(&text, true, &graph);
    spmd_is_int(log_end("entries that line 3 announces"), 1, "cut in the middle: the log says so");
    spmd_ok(status == PGAS_ERR_FORMAT && !graph, "and all ranks get the status");
    free(text.bytes);
}

/* ---- bad texts ---- */

static void refused(const text_t *text, const char *name, const char *want,
                    pgas_status_t want_status)
{
    pgas_graph_t *graph = NULL;
    write_file(name, text);
    log_begin();
    pgas_status_t status = pgas_graph_read(path, NULL, &graph);
    int n_lines = log_end(want);
    spmd_ok(status == want_status && !graph && n_lines == 1, "%s: %s, '%s' once", name,
            pgas_status_name(want_status), want);
}

/* 3000 lines of which one or two are bad: the first bad line is the one to name. */
static void bad_line(const char *name, const char *header, const char *good, unsigned at,
                     const char *bad, const char *want, pgas_status_t want_status)
{
    text_t text = { 0 };
    text_add(&text, "%s", header);
    for (unsigned line = 1; line <= 3000; line++)
        text_add(&text, "%s\n", line == at || line == 2900 ? bad : good);
    refused(&text, name, want, want_status);
    free(text.bytes);
}

static void bad_files(void)
{
    static const char mtx[] = "%%MatrixMarket matrix coordinate pattern general\n%\n9 9 3000\n";
    text_t text = { 0 };
    pgas_graph_t *graph = NULL;
    bad_line("bad.el", "", "1 2", 2345, "1 b", "bad.el:2345: not a whole number: 'b'",
             PGAS_ERR_FORMAT);
    bad_line("short.el", "", "1 2", 1, "1", "short.el:1: a number is missing", PGAS_ERR_FORMAT);
    bad_line("negative.el", "# c\n", "1 2", 1700, "1 -2",
             "negative.el:1701: a negative number: '-2'", PGAS_ERR_RANGE);
    bad_line("great.el", "", "1 2", 2899, "9223372036854775808 2",
             "great.el:2899: a number above 2^63-1", PGAS_ERR_RANGE);
    bad_line("weights.el", "", "1 2", 1111, "1 2 0.5",
             "weights.el:1111: a third column, such as weights, for which the format is WEL",
             PGAS_ERR_FORMAT);
    bad_line("weights.tsv", "", "a\tb", 1112, "a\tb\t3",
             "weights.tsv:1112: a third column, such as weights", PGAS_ERR_FORMAT);
    bad_line("bad.tsv", "", "a\tb", 1234, "a\tb\tc", "bad.tsv:1234: more than two names",
             PGAS_ERR_FORMAT);
    bad_line("beyond.mtx", mtx, "1 2", 2000, "10 2",
             "beyond.mtx:2003: an index outside of the matrix: '10'", PGAS_ERR_RANGE);
    bad_line("more.mtx", mtx, "1 2\n2 3", 2900, "1 2",
             "more.mtx:3: announces 3000 entries, there are 5999", PGAS_ERR_FORMAT);
    bad_line("fewer.mtx", mtx, "%", 7, "1 2", "fewer.mtx:3003: ends after 2 of the 3000",
             PGAS_ERR_FORMAT);
    text_add(&text, "PK\x03\x04");
    refused(&text, "a.el.zip", "a.el.zip: is a zip archive, which is not supported",
            PGAS_ERR_FORMAT);
    text.n = 0;
    text_add(&text, "\xef\xbb\xbf");
    refused(&text, "mark.el", "mark.el:1: empty", PGAS_ERR_FORMAT);
    text.n = 0;
    refused(&text, "empty.el", "empty.el:1: empty", PGAS_ERR_FORMAT);
    refused(&text, "empty.mtx", "empty.mtx:1: empty", PGAS_ERR_FORMAT);
    refused(&text, "empty", "empty:1: empty", PGAS_ERR_FORMAT);
    text_add(&text, "%%%%MatrixMarket matrix coordinate pattern general\n5 5");
    refused(&text, "cut.mtx", "cut.mtx:2: a number is missing", PGAS_ERR_FORMAT);
    text.n = 0;
    text_add(&text, "# c\n# c\n");
    refused(&text, "comments.el", "comments.el:2: nothing but comments", PGAS_ERR_FORMAT);
    text.n = 0;
    text_add(&text, "a b\nb c\n");
    refused(&text, "words", "words: is neither a matrix nor a list of numbers, and it has no edge",
            PGAS_ERR_FORMAT);
    spmd_ok((graph = read_file(PGAS_GRAPH_NAMES)) != NULL, "unless names were asked for");
    pgas_graph_destroy(graph);
    graph = NULL;
    text.n = 0;
    text_add(&text, "0 4611686018427387904\n");
    refused(&text, "gaps.el", "number the vertices without gaps", PGAS_ERR_LIMIT);
    free(text.bytes);

    log_begin();
    snprintf(path, sizeof path, "%s/missing.el", folder);
    pgas_status_t status = pgas_graph_read(path, NULL, &graph);
    spmd_ok(log_end("missing.el: cannot open: No such file") == 1 && status == PGAS_ERR_IO,
            "a missing file");
    log_begin();
    status = pgas_graph_read(folder, NULL, &graph);
    spmd_ok(log_end("cannot read: Is a directory") == 1 && status == PGAS_ERR_IO, "a folder");
    log_begin();
    status = pgas_graph_read("", NULL, &graph);
    spmd_ok(log_end("the path is empty") == 1 && status == PGAS_ERR_INVALID && !graph,
            "an empty path");
}

/* One rank or all ranks give a bad argument. All ranks get the same status. */
static void bad_arguments(const model_t *m)
{
    pgas_graph_t *graph = NULL;
    pgas_graph_info_t info = { .size = sizeof info };
    pgas_graph_opts_t generate = PGAS_GRAPH_OPTS_INIT;
    uint64_t end[2] = { 0, 5 };
    pgas_graph_edges_t none = { 0, NULL, NULL }, one = { me == n_ranks - 1, end, NULL };
    log_begin();
    pgas_status_t status = pgas_graph_read(NULL, NULL, &graph);
    spmd_ok(log_end("pgas_graph_read: path or graph_p is NULL") == 1 && status == PGAS_ERR_INVALID,
            "no path");
    log_begin();
    status = pgas_graph_read(path, NULL, me == n_ranks - 1 ? NULL : &graph);
    spmd_ok(log_end("pgas_graph_read: path or graph_p is NULL") == 1 && status == PGAS_ERR_INVALID,
            "no place for the graph");
    log_begin();
    status = pgas_graph_create(0, &none, NULL, &graph);
    spmd_ok(log_end("pgas_graph_create: n_vertices is 0") == 1 && status == PGAS_ERR_INVALID,
            "no vertices");
    log_begin();
    status = pgas_graph_create(5, &one, NULL, &graph);
    spmd_ok(log_end("edge 0 has the end 5, but there are 5 vertices") == 1 &&
                status == PGAS_ERR_RANGE,
            "an end beyond the vertices, on one rank");
    if (n_ranks == 1) {
        spmd_skip(1, "needs two ranks");
    } else {
        log_begin();
        status = pgas_graph_create(5 + (uint64_t)me, &none, NULL, &graph);
        spmd_ok(log_end("numbers of vertices, 5 to") == 1 && status == PGAS_ERR_MISMATCH,
                "ranks that disagree on the number of vertices");
    }
    generate.edges_per_vertex = -1;
    log_begin();
    status = pgas_graph_generate(&generate, &graph);
    spmd_ok(log_end("edges_per_vertex -1 is out of range") == 1 && status == PGAS_ERR_INVALID &&
                !graph,
            "a negative number of edges");
    generate.edges_per_vertex = 1 << 20;
    generate.n_vertices = UINT32_MAX - 1;
    log_begin();
    status = pgas_graph_generate(&generate, &graph);
    spmd_ok(log_end("use more nodes or a smaller graph") == 1 && status == PGAS_ERR_NO_MEMORY &&
                !graph,
            "more edges than memory: said once");
    spmd_ok(pgas_graph_info(NULL, &info) == PGAS_ERR_INVALID, "no graph to ask");
    (void)m;
}

/* ---- made graphs ---- */

/* Each rank gives the edges i with i % n_ranks = rank. */
static void created(const model_t *m)
{
    uint64_t *ends = (uint64_t *)job_alloc(2 * m->n_edges * sizeof(uint64_t)), n = 0;
    pgas_graph_t *graph = NULL;
    for (uint64_t i = (uint64_t)me; i < m->n_edges; i += (uint64_t)n_ranks) {
        ends[2 * n] = m->ends[2 * i];
        ends[2 * n++ + 1] = m->ends[2 * i + 1];
    }
    pgas_graph_edges_t edges = { n, ends, NULL };
    pgas_status_t status = pgas_graph_create(m->n_vertices, &edges, NULL, &graph);
    spmd_ok(status == PGAS_OK && model_is(m, graph), "a graph of edges that the ranks hold");
    m->targets[0] ^= 1;
    spmd_ok(!model_is(m, graph) || me != 0, "the comparison can fail (broken on purpose)");
    m->targets[0] ^= 1;
    spmd_ok(names_are(graph, NULL, m->n_vertices, 5), "without names, numbers are the names");
    pgas_graph_destroy(graph);
    free(ends);
}

static uint64_t checksum(const pgas_graph_t *graph)
{
    pgas_graph_info_t info = { .size = sizeof info };
    uint64_t sum = 0;
    pgas_graph_info(graph, &info);
    for (uint32_t id = 0; id < info.n_local; id++)
        for (uint64_t e = info.out.begin[id]; e < info.out.begin[id + 1]; e++)
            sum += pgasi_hash_combine(info.vertex[id], info.vertex[info.out.end[e]]);
    pgas_allreduce(NULL, &sum, &sum, 1, PGAS_U64, PGAS_ADD);
    return sum;
}

static void generated(void)
{
    pgas_graph_opts_t opts = PGAS_GRAPH_OPTS_INIT;
    pgas_graph_t *graph = NULL;
    pgas_graph_info_t info = { .size = sizeof info };
    opts.n_vertices = 3000;
    opts.edges_per_vertex = 4;
    pgas_status_t status = pgas_graph_generate(&opts, &graph);
    pgas_graph_info(graph, &info);
    spmd_ok(status == PGAS_OK && info.n_vertices == 3000 && info.n_edges == 12000,
            "a generated graph");
    spmd_is_int(checksum(graph), INT64_C(2299933769953262411),
                "is the same on any number of ranks");
    pgas_graph_destroy(graph);
    opts.n_vertices = 1;
    status = pgas_graph_generate(&opts, &graph);
    pgas_graph_info(graph, &info);
    spmd_ok(status == PGAS_OK && info.n_vertices == 1 && info.n_edges == 4,
            "one vertex with four loops");
    pgas_graph_destroy(graph);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 61);
    uint64_t seed = spmd_seed(20240109);
    model_t m = model_make(seed, 2000, 9000);
    make_folder();
    edge_lists(&m);
    behind_a_mark(&m);
    uneven_lines(&m);
    matrices(&m);
    symmetric_matrix(seed);
    matrix_without_entries();
    names(&m, seed);
    streams(&m);
    streamed_matrix(&m);
    bad_files();
    bad_arguments(&m);
    created(&m);
    generated();
    clear_folder();
    model_free(&m);
    pgas_graph_t *graph = NULL;
    job_stop();
    spmd_ok(pgas_graph_read("x.el", NULL, &graph) == PGAS_ERR_NOT_INIT, "not after pgas_finalize");
    return spmd_end();
}
