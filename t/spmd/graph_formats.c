/* Graphs in the formats with weights, labels or rows, and compressed ones.
 *   what:   On any number of ranks a text becomes the graph that a serial reader gives, with its
 *           weights and labels. A malformed or truncated text gives the same status on all ranks,
 *           and one log line with file, line and reason.
 *   np:     1 2 3 7
 *   nodes:  0 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/graph.h; public headers; seeded model test
 */
#include "base/hash.h"
#include "config.h"
#include "t/spmd/graph_files.h"

typedef unsigned long long number_t; /* for printf */

static pgas_graph_t *read_as(pgas_graph_opts_t opts)
{
    pgas_graph_t *graph = NULL;
    return pgas_graph_read(path, &opts, &graph) == PGAS_OK ? graph : NULL;
}

static void is_graph(const model_t *m, pgas_graph_opts_t opts, const char *what)
{
    pgas_graph_t *graph = read_as(opts);
    spmd_ok(model_is(m, graph), "%s", what);
    pgas_graph_destroy(graph);
}

static void refuses(pgas_graph_opts_t opts, const char *want, pgas_status_t want_status)
{
    pgas_graph_t *graph = NULL;
    log_begin();
    pgas_status_t status = pgas_graph_read(path, &opts, &graph);
    int n_lines = log_end(want);
    spmd_ok(status == want_status && !graph && n_lines == 1, "%s, '%s' once",
            pgas_status_name(want_status), want);
}

#define NONE  ((pgas_graph_opts_t)PGAS_GRAPH_OPTS_INIT)
#define SIZED .size = sizeof(pgas_graph_opts_t)

/* ---- weights ---- */

static bool has_type(const pgas_graph_t *graph, pgas_type_t type)
{
    pgas_graph_info_t info = { .size = sizeof info };
    return graph && pgas_graph_info(graph, &info) == PGAS_OK && info.weight_type == type &&
           (info.out.weight != NULL) == (type != PGAS_TYPE_NONE);
}

static void weighted_lists(uint64_t seed)
{
    static const pgas_type_t types[] = { PGAS_TYPE_NONE, PGAS_F64, PGAS_F32 };
    model_t m = model_make(seed, 700, 3000), bare = model_make(seed, 700, 3000);
    text_t text = { 0 };
    model_add_weights(&m, seed);
    text_add(&text, "%% c\n");
    text_add_edges(&text, &m, 0, " ", "");
    write_file("a.wel", &text);
    for (int i = 0; i < 3; i++) {
        pgas_graph_t *graph = read_as((pgas_graph_opts_t){ SIZED, .weight_type = types[i] });
        spmd_ok(model_is(&m, graph) && has_type(graph, i == 0 ? PGAS_F64 : types[i]),
                "weights of type %d", (int)types[i]);
        pgas_graph_destroy(graph);
    }
    pgas_graph_t *graph = read_as((pgas_graph_opts_t){ SIZED, .no_weights = true });
    spmd_ok(model_is(&bare, graph) && has_type(graph, PGAS_TYPE_NONE), "weights are dropped");
    pgas_graph_destroy(graph);
    model_t both = model_mirror(&m);
    is_graph(&both, (pgas_graph_opts_t){ SIZED, .undirected = true }, "undirected with weights");
    text.n = 0;
    text_add(&text, "0 1 7\n2 3 4294967296\n");
    write_file("u32.wel", &text);
    refuses((pgas_graph_opts_t){ SIZED, .weight_type = PGAS_U32 },
            "u32.wel:2: the weight 4.29497e+09 does not fit", PGAS_ERR_RANGE);
    model_free(&m);
    model_free(&bare);
    model_free(&both);
    free(text.bytes);
}

static void random_weights(uint64_t seed)
{
    model_t m = model_make(seed, 100, 500);
    text_t text = { 0 };
    pgas_graph_info_t info = { .size = sizeof info };
    double range[2] = { 1e9, 1e9 };
    text_add_edges(&text, &m, 0, " ", "");
    write_file("bare.el", &text);
    pgas_graph_t *graph = read_as((pgas_graph_opts_t){ SIZED, .weight_type = PGAS_U32 });
    bool good = has_type(graph, PGAS_U32) && pgas_graph_info(graph, &info) == PGAS_OK;
    for (uint64_t e = 0; good && e < info.out.begin[info.n_local]; e++) {
        range[0] = model_weight(&info, e) < range[0] ? model_weight(&info, e) : range[0];
        range[1] = -model_weight(&info, e) < range[1] ? -model_weight(&info, e) : range[1];
    }
    pgas_allreduce(NULL, range, range, 2, PGAS_F64, PGAS_MIN);
    spmd_ok(good && range[0] >= 1 && range[0] < 20 && -range[1] <= 255 && -range[1] > 230,
            "random weights of 1 .. 255 for edges that have none");
    pgas_graph_destroy(graph);
    model_free(&m);
    free(text.bytes);
}

static void weighted_headers(uint64_t seed)
{
    model_t m = model_make(seed, 500, 2500);
    text_t text = { 0 };
    number_t n = m.n_vertices, n_edges = m.n_edges;
    model_add_weights(&m, seed);
    text_add(&text, "%%%%MatrixMarket matrix coordinate real general\n%llu %llu %llu\n", n, n,
             n_edges);
    text_add_edges(&text, &m, 1, " ", "");
    write_file("w.mtx", &text);
    is_graph(&m, NONE, "a matrix with weights");
    text.n = 0;
    text_add(&text, "%%%%MatrixMarket matrix coordinate real symmetric\n%llu %llu %llu\n", n, n,
             n_edges);
    text_add_edges(&text, &m, 1, " ", "");
    write_file("s.mtx", &text);
    model_t both = model_mirror(&m);
    is_graph(&both, NONE, "a symmetric one");
    text.n = 0;
    text_add(&text, "c of roads\nc\np sp %llu %llu\n", n, n_edges);
    for (uint64_t i = 0; i < m.n_edges; i++) {
        text_add(&text, "a %llu %llu %g\n%s", (number_t)m.ends[2 * i] + 1,
                 (number_t)m.ends[2 * i + 1] + 1, m.weights[i], i % 100 == 7 ? "c .\n" : "");
    }
    write_file("roads.gr", &text);
    is_graph(&m, NONE, "DIMACS");
    write_file("roads.txt", &text);
    is_graph(&m, NONE, "recognised by its first lines");
    text_add(&text, "a 1 501 2\n");
    write_file("bad.gr", &text);
    refuses(NONE, "bad.gr:2529: there is no such vertex: '501'", PGAS_ERR_RANGE);
    model_free(&m);
    model_free(&both);
    free(text.bytes);
}

/* ---- METIS ---- */

/* A line for each vertex, with the targets of its row. */
static void add_rows(text_t *text, const model_t *m, const uint64_t *label_of, bool is_adj)
{
    for (uint64_t v = 0; v < m->n_vertices; v++) {
        if (is_adj)
            text_add(text, "%llu", (number_t)label_of[v]);
        for (uint64_t i = m->offsets[v]; i < m->offsets[v + 1]; i++) {
            uint64_t to = m->targets[i];
            text_add(text, "%s%llu", is_adj || i > m->offsets[v] ? " " : "",
                     (number_t)(is_adj ? label_of[to] : to + 1));
            if (m->weights)
                text_add(text, " %g", m->row_weights[i]);
        }
        text_add(text, v % 97 == 5 && !is_adj ? "\n%% a comment\n" : "\n");
    }
}

static uint64_t n_loops_of(const model_t *m)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < m->n_edges; i++)
        n += m->ends[2 * i] == m->ends[2 * i + 1];
    return n;
}

static void metis_text(text_t *text, const model_t *both, const char *format)
{
    text->n = 0;
    text_add(text, "%% c\n%llu %llu %s\n", (number_t)both->n_vertices,
             (number_t)((both->n_edges + n_loops_of(both)) / 2), format);
    add_rows(text, both, NULL, false);
}

/* One vertex has a line of 2 MB. */
static void metis(uint64_t seed)
{
    model_t half = model_make(seed, 600, 2000), both = model_mirror(&half);
    model_t long_half = model_make(seed, 3000, 200000);
    text_t text = { 0 };
    pgas_graph_t *graph = NULL;
    pgas_graph_opts_t opts = { SIZED, .format = PGAS_GRAPH_METIS };
    metis_text(&text, &both, "");
    write_file("a.graph", &text);
    is_graph(&both, NONE, "METIS");
    text.n--;
    spmd_ok(read_stream_as(&text, true, &opts, &graph) == PGAS_OK && model_is(&both, graph),
            "METIS from standard input, without its last line end");
    pgas_graph_destroy(graph);
    graph = NULL;

    for (uint64_t i = 0; i < 150000; i++)
        long_half.ends[2 * i] = 1;
    free(long_half.offsets);
    free(long_half.targets);
    free(long_half.row_weights);
    model_make_rows(&long_half);
    model_t long_both = model_mirror(&long_half);
    model_add_weights(&long_half, seed);
    model_t long_weighted = model_mirror(&long_half);
    metis_text(&text, &long_weighted, "1");
    write_file("long.metis", &text);
    is_graph(&long_weighted, NONE, "METIS with weights and a line that is longer than a piece");
    spmd_ok(read_stream_as(&text, false, &opts, &graph) == PGAS_OK &&
                model_is(&long_weighted, graph),
            "the same from a pipe");
    pgas_graph_destroy(graph);

    text.n = 0;
    text_add(&text, "%llu %llu\n", (number_t)half.n_vertices, (number_t)half.n_edges);
    add_rows(&text, &half, NULL, false);
    write_file("directed.graph", &text);
    is_graph(&half, NONE, "METIS of a directed graph, as GAP writes it");
    model_free(&half);
    model_free(&both);
    model_free(&long_half);
    model_free(&long_both);
    model_free(&long_weighted);
    free(text.bytes);
}

static void bad_metis(void)
{
    text_t text = { 0 };
    text_add(&text, "%% c\n2000 2000\n");
    for (int v = 1; v <= 2000; v++)
        text_add(&text, "%d %d%s\n", v > 1 ? v - 1 : 2000, v < 2000 ? v + 1 : 1,
                 v % 100 ? "" : "\n% c");
    write_file("good.graph", &text);
    pgas_graph_t *graph = read_as(NONE);
    spmd_ok(graph != NULL, "a ring in METIS");
    pgas_graph_destroy(graph);
    char *at = strstr(text.bytes, "\n1500 1502\n");
    memcpy(at, "\n1500 x502\n", 11);
    write_file("word.graph", &text);
    refuses(NONE, "word.graph:1518: not a whole number: 'x502'", PGAS_ERR_FORMAT);
    memcpy(at, "\n1500 2502\n", 11);
    write_file("beyond.graph", &text);
    refuses(NONE, "beyond.graph:1518: there is no such vertex: '2502'", PGAS_ERR_RANGE);
    memcpy(at, "\n1500 1503\n", 11);
    write_file("uneven.graph", &text);
    refuses(NONE, "uneven.graph: is not the list of an undirected graph", PGAS_ERR_FORMAT);
    text.n = (size_t)(at - text.bytes) + 1;
    write_file("cut.graph", &text);
    refuses(NONE, "cut.graph:1517: ends after 1500 of the 2000 vertices", PGAS_ERR_FORMAT);
    free(text.bytes);
}

/* ---- labels ---- */

/* Labels rise with the vertices. Most are near each other, some gaps are great. */
static uint64_t *make_labels(uint64_t n, uint64_t seed)
{
    uint64_t *label_of = (uint64_t *)job_alloc((n + 1) * sizeof(uint64_t)), label = 0;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (uint64_t v = 0; v < n; v++) {
        uint64_t kind = pgasi_rng_below(&rng, 50);
        label += v == 0 ? 0 : 1 + pgasi_rng_below(&rng, kind == 0 ? UINT64_C(1) << 54 : 3);
        label_of[v] = v == n - 1 ? INT64_MAX : label;
    }
    return label_of;
}

/* The vertices that have edges, renumbered without gaps; old[new number] is the old one. */
static model_t without_lone(const model_t *m, uint64_t *old)
{
    uint64_t *number = (uint64_t *)job_alloc((m->n_vertices + 1) * sizeof(uint64_t));
    model_t few = { 0, m->n_edges, NULL, NULL, NULL, NULL, NULL };
    few.ends = (uint64_t *)job_alloc((2 * m->n_edges + 1) * sizeof(uint64_t));
    memset(number, 0, m->n_vertices * sizeof(uint64_t));
    for (uint64_t i = 0; i < 2 * m->n_edges; i++)
        number[m->ends[i]] = 1;
    for (uint64_t v = 0; v < m->n_vertices; v++) {
        if (number[v]) {
            old[few.n_vertices] = v;
            number[v] = few.n_vertices++;
        }
    }
    for (uint64_t i = 0; i < 2 * m->n_edges; i++)
        few.ends[i] = number[m->ends[i]];
    model_make_rows(&few);
    free(number);
    return few;
}

/* Asks for labels and names of any vertices, and finds vertices by their labels. */
static bool labels_are(const pgas_graph_t *graph, uint64_t n, const uint64_t *label_of,
                       uint64_t seed)
{
    enum { N = 300 };
    pgas_graph_info_t info = { .size = sizeof info };
    uint64_t vertices[N], labels[N], found = 0;
    char *names[N], text[24];
    size_t n_asked = me == n_ranks - 1 && n_ranks > 1 ? 0 : N; /* one rank may ask for nothing */
    bool good = graph && pgas_graph_info(graph, &info) == PGAS_OK && info.labels;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed + (uint64_t)me);
    if (!good)
        return false;
    for (uint32_t i = 0; i < info.n_local; i++)
        good = good && info.labels[i] == label_of[info.first_vertex + i];
    for (size_t i = 0; i < n_asked; i++)
        vertices[i] = pgasi_rng_below(&rng, n);
    good = pgas_graph_labels(graph, vertices, n_asked, labels) == PGAS_OK && good;
    good = pgas_graph_names(graph, vertices, n_asked, names) == PGAS_OK && good;
    for (size_t i = 0; good && i < n_asked; i++) {
        snprintf(text, sizeof text, "%llu", (number_t)label_of[vertices[i]]);
        good = labels[i] == label_of[vertices[i]] && strcmp(names[i], text) == 0;
        free(names[i]);
    }
    snprintf(text, sizeof text, "%llu", (number_t)label_of[n / 2]);
    good = pgas_graph_find(graph, me == 0 ? text : NULL, &found) == PGAS_OK && good;
    good = good && found == n / 2;
    return pgas_graph_find(graph, "9223372036854775806", &found) == PGAS_ERR_NOT_FOUND && good;
}

static void add_edges(text_t *text, const model_t *m, const uint64_t *label_of)
{
    for (uint64_t i = 0; i < m->n_edges; i++) {
        text_add(text, "%llu %llu", (number_t)label_of[m->ends[2 * i]],
                 (number_t)label_of[m->ends[2 * i + 1]]);
        if (m->weights)
            text_add(text, " %g", m->weights[i]);
        text_add(text, i % 10 == 3 ? "\n\n" : "\n");
    }
}

static void ldbc(uint64_t seed)
{
    model_t m = model_make(seed, 1500, 4000);
    text_t vertices = { 0 }, edges = { 0 };
    uint64_t *label_of = make_labels(m.n_vertices, seed), *old = make_labels(1500, 1);
    for (uint64_t v = 0; v < m.n_vertices; v++) /* in another order; 7 and 1500 are coprime */
        text_add(&vertices, "%llu\n", (number_t)label_of[7 * v % 1500]);
    add_edges(&edges, &m, label_of);
    write_file("x.v", &vertices);
    write_file("x.e", &edges);
    pgas_graph_t *graph = read_as(NONE);
    spmd_ok(model_is(&m, graph) && labels_are(graph, m.n_vertices, label_of, seed),
            "LDBC, named by its edges");
    label_of[20]++;
    bool same = labels_are(graph, 21, label_of, seed);
    spmd_ok(!same || me != 0, "the comparison can fail (broken on purpose)");
    label_of[20]--;
    pgas_graph_destroy(graph);
    path[strlen(path) - 1] = 'v';
    is_graph(&m, NONE, "LDBC, named by its vertices");
    path[strlen(path) - 2] = '\0';
    is_graph(&m, NONE, "LDBC, named without an end");
    model_add_weights(&m, seed);
    model_t both = model_mirror(&m);
    edges.n = 0;
    add_edges(&edges, &m, label_of);
    write_file("x.e", &edges);
    is_graph(&both, (pgas_graph_opts_t){ SIZED, .undirected = true }, "LDBC, undirected, weights");
    text_add(&edges, "%llu %llu 1\n", (number_t)label_of[3], (number_t)label_of[9] + 5);
    if (label_of[10] == label_of[9] + 5 || label_of[11] == label_of[9] + 5 ||
        label_of[12] == label_of[9] + 5)
        edges.n += (size_t)sprintf(edges.bytes + edges.n, "1152921504606846976 0 1\n");
    write_file("x.e", &edges);
    refuses(NONE, "x.e:4401: vertex ", PGAS_ERR_FORMAT);

    model_t few = without_lone(&m, old);
    for (uint64_t v = 0; v < few.n_vertices; v++)
        old[v] = label_of[old[v]];
    edges.n = 0;
    add_edges(&edges, &few, old);
    write_file("alone.e", &edges);
    graph = read_as(NONE);
    spmd_ok(model_is(&few, graph) && labels_are(graph, few.n_vertices, old, seed),
            "LDBC without a file of vertices");
    pgas_graph_destroy(graph);
    model_free(&m);
    model_free(&both);
    model_free(&few);
    free(label_of);
    free(old);
    free(vertices.bytes);
    free(edges.bytes);
}

static void adjacency(uint64_t seed)
{
    model_t m = model_make(seed, 1000, 5000), both = model_mirror(&m);
    text_t text = { 0 };
    uint64_t *label_of = make_labels(m.n_vertices, seed + 1);
    pgas_graph_t *graph = NULL;
    pgas_graph_opts_t opts = { SIZED, .format = PGAS_GRAPH_ADJ };
    add_rows(&text, &m, label_of, true);
    write_file("a.adj", &text);
    graph = read_as(NONE);
    spmd_ok(model_is(&m, graph) && labels_are(graph, m.n_vertices, label_of, seed),
            "lists of neighbours");
    pgas_graph_destroy(graph);
    refuses((pgas_graph_opts_t){ SIZED, .undirected = true },
            "a.adj: is not the list of an undirected graph", PGAS_ERR_FORMAT);
    text.n = 0;
    add_rows(&text, &both, label_of, true);
    write_file("b.adj", &text);
    is_graph(&both, (pgas_graph_opts_t){ SIZED, .undirected = true }, "of an undirected graph");
    text.n = 0;
    text_add(&text, "%llu", (number_t)label_of[0]); /* a line of 2 MB */
    for (int i = 0; i < 100000; i++)
        text_add(&text, " %llu", (number_t)label_of[m.n_vertices - 1]);
    for (uint64_t v = 0; v < m.n_vertices; v++)
        text_add(&text, "\n%llu", (number_t)label_of[v]);
    for (int i = 0; i < 100000; i++)
        text_add(&text, "\t%llu ", (number_t)label_of[0]);
    opts.simple = true;
    graph = NULL;
    pgas_status_t status = read_stream_as(&text, true, &opts, &graph);
    pgas_graph_info_t info = { .size = sizeof info };
    spmd_ok(status == PGAS_OK && pgas_graph_info(graph, &info) == PGAS_OK &&
                info.n_vertices == m.n_vertices && info.n_edges == 2,
            "%.1f MB of standard input", (double)text.n / 1e6);
    pgas_graph_destroy(graph);
    model_free(&m);
    model_free(&both);
    free(label_of);
    free(text.bytes);
}

/* ---- compression ---- */

#ifdef PGAS_HAVE_ZLIB
static const bool has_gzip = true;
#else
static const bool has_gzip = false;
#endif
#ifdef PGAS_HAVE_ZSTD
static const bool has_zstd = true;
#else
static const bool has_zstd = false;
#endif

static void load(const char *name, text_t *text)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    text->n = 0;
    while (file && !feof(file)) {
        text_add(text, "%s", "");
        text->n += fread(text->bytes + text->n, 1, 4096, file);
    }
    if (file)
        fclose(file);
}

/* Compresses the file; @return whether the program exists */
static bool compress(const char *name, const char *command, const char *end)
{
    char line[800];
    int32_t good = 0;
    snprintf(line, sizeof line, "command -v %s >/dev/null && %s -c '%s/%s' >'%s/%s%s'", command,
             command, folder, name, folder, name, end);
    if (me == 0)
        good = system(line) == 0;
    pgas_broadcast(NULL, &good, sizeof good, 0);
    return good;
}

static void compressed(uint64_t seed, const char *command, const char *end, bool is_built)
{
    char name[32];
    if (!compress("many.el", command, end)) {
        spmd_skip(7, "the program that compresses is missing");
        return;
    }
    model_t m = model_make(seed, 20000, 300000);
    text_t text = { 0 }, plain = { 0 };
    pgas_graph_t *graph = NULL;
    snprintf(name, sizeof name, "many.el%s", end);
    load(name, &text);
    if (!is_built) {
        refuses(NONE, "this library was built without", PGAS_ERR_UNSUPPORTED);
        spmd_skip(6, "the build has no library for it");
    } else {
        is_graph(&m, NONE, name);
        spmd_ok(read_stream(&text, true, &graph) == PGAS_OK && model_is(&m, graph),
                "%s from standard input", name);
        pgas_graph_destroy(graph);
        size_t n = text.n;
        text.n = n / 2;
        snprintf(name, sizeof name, "cut.el%s", end);
        write_file(name, &text);
        refuses(NONE, ": is truncated", PGAS_ERR_FORMAT);
        text.n = n - 1;
        write_file(name, &text);
        refuses(NONE, ": is truncated", PGAS_ERR_FORMAT);
        text.n = n;
        text_add(&text, "0 1\n");
        write_file(name, &text);
        refuses(NONE, ": is corrupt", PGAS_ERR_FORMAT);
        text.n = n;
        text.bytes[n - 2] ^= 1; /* of the checksum or the length */
        write_file(name, &text);
        refuses(NONE, ": is corrupt", PGAS_ERR_FORMAT);
        text_add(&plain, "0 1\n1 2\nx\n");
        write_file("bad.el", &plain);
        compress("bad.el", command, end);
        snprintf(path, sizeof path, "%s/bad.el%s", folder, end);
        pgas_barrier(NULL);
        snprintf(name, sizeof name, "bad.el%s:3: not a whole number", end);
        refuses(NONE, name, PGAS_ERR_FORMAT);
    }
    model_free(&m);
    free(text.bytes);
    free(plain.bytes);
}

static void compression(uint64_t seed)
{
    model_t m = model_make(seed, 20000, 300000);
    text_t text = { 0 };
    text_add_edges(&text, &m, 0, " ", "");
    write_file("many.el", &text);
    compressed(seed, "gzip", ".gz", has_gzip);
    compressed(seed, "zstd", ".zst", has_zstd);
    model_free(&m);
    free(text.bytes);
}

/* ---- published graphs ---- */

/* A sum over the edges, which does not depend on ranks. */
static uint64_t checksum(const char *name, pgas_graph_opts_t opts)
{
    const char *top = getenv("TOP");
    pgas_graph_info_t info = { .size = sizeof info };
    uint64_t sum = 0;
    snprintf(path, sizeof path, "%s/../shared/data/%s", top != NULL ? top : "..", name);
    pgas_graph_t *graph = read_as(opts);
    if (!graph || pgas_graph_info(graph, &info) != PGAS_OK)
        return 0;
    for (uint32_t id = 0; id < info.n_local; id++) {
        for (uint64_t e = info.out.begin[id]; e < info.out.begin[id + 1]; e++) {
            uint64_t edge = pgasi_hash_combine(info.vertex[id], info.vertex[info.out.end[e]]);
            sum += pgasi_hash_combine(edge, (uint64_t)(model_weight(&info, e) * 64));
        }
    }
    pgas_graph_destroy(graph);
    pgas_allreduce(NULL, &sum, &sum, 1, PGAS_U64, PGAS_ADD);
    return sum + info.n_vertices + info.n_edges;
}

static void published(void)
{
    char folder_of[300];
    const char *top = getenv("TOP");
    snprintf(folder_of, sizeof folder_of, "%s/../shared/data/gap-4node-formats",
             top != NULL ? top : "..");
    if (access(folder_of, R_OK) != 0) {
        spmd_skip(4, "../shared/data is missing");
        return;
    }
    pgas_graph_opts_t simple = { SIZED, .simple = true };
    uint64_t el = checksum("gap-4node-formats/4.el", NONE);
    uint64_t wel = checksum("gap-4node-formats/4.wel", NONE);
    spmd_ok(el != 0 && checksum("gap-4node-formats/4.mtx", NONE) == el && wel != 0 &&
                checksum("gap-4node-formats/4w.mtx", NONE) == wel &&
                checksum("gap-4node-formats/4.gr", NONE) == wel,
            "GAP's graph in EL, WEL, MTX and GR is the same");
    spmd_ok(checksum("gap-4node-formats/4.el", simple) ==
                    checksum("gap-4node-formats/4.graph", simple) &&
                checksum("gap-4node-formats/4.wel", simple) ==
                    checksum("gap-4node-formats/4w.graph", simple),
            "and in METIS, as far as that has it");
    uint64_t lines = checksum("graphalytics-validation/example/example-directed",
                              (pgas_graph_opts_t){ SIZED, .no_weights = true });
    spmd_ok(lines != 0 && checksum("graphalytics-validation/example/example-directed-input",
                                   (pgas_graph_opts_t){ SIZED, .format = PGAS_GRAPH_ADJ }) == lines,
            "LDBC's directed example in LDBC and ADJ is the same");
    lines = checksum("graphalytics-validation/example/example-undirected",
                     (pgas_graph_opts_t){ SIZED, .no_weights = true, .undirected = true });
    pgas_graph_opts_t adj = { SIZED, .format = PGAS_GRAPH_ADJ, .undirected = true };
    spmd_ok(lines != 0 &&
                checksum("graphalytics-validation/example/example-undirected-input", adj) == lines,
            "and the undirected one");
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 51);
    uint64_t seed = spmd_seed(20261128);
    make_folder();
    weighted_lists(seed);
    random_weights(seed);
    weighted_headers(seed);
    metis(seed);
    bad_metis();
    ldbc(seed);
    adjacency(seed);
    compression(seed);
    published();
    clear_folder();
    job_stop();
    return spmd_end();
}
