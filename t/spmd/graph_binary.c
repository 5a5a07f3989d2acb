/* Graphs in the form BINARY, and GAP's serialized graphs.
 *   what:   Any number of ranks reads the graph that was written, with weights, labels and names,
 *           with any options, and with rows in another order. Any number of ranks writes the same
 *           file. A truncated or corrupt file gives the same status on all ranks, and one log line.
 *   np:     1 2 3 5 7
 *   nodes:  0 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/graph.h; public headers; seeded model test
 */
#include "base/hash.h"
#include "graph/binary.h"
#include "t/spmd/graph_files.h"

typedef unsigned long long number_t; /* for printf */

#define NONE  ((pgas_graph_opts_t)PGAS_GRAPH_OPTS_INIT)
#define SIZED .size = sizeof(pgas_graph_opts_t)

static pgas_graph_t *read_as(pgas_graph_opts_t opts)
{
    pgas_graph_t *graph = NULL;
    return pgas_graph_read(path, &opts, &graph) == PGAS_OK ? graph : NULL;
}

static void set_path(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
}

static void is_graph(const model_t *m, pgas_graph_opts_t opts, const char *what)
{
    pgas_graph_t *graph = read_as(opts);
    spmd_ok(model_is(m, graph), "%s", what);
    pgas_graph_destroy(graph);
}

/* Writes a graph of the model; the file is read back. */
static pgas_status_t write_model(const model_t *m, const char *name, bool undirected)
{
    uint64_t *ends = (uint64_t *)job_alloc(2 * m->n_edges * sizeof(uint64_t) + 8), n = 0;
    double *weights = (double *)job_alloc(m->n_edges * sizeof(double) + 8);
    pgas_graph_t *graph = NULL;
    pgas_graph_opts_t opts = { SIZED, .undirected = undirected };
    for (uint64_t i = (uint64_t)me; i < m->n_edges; i += (uint64_t)n_ranks) {
        weights[n] = m->weights ? m->weights[i] : 0;
        ends[2 * n] = m->ends[2 * i];
        ends[2 * n++ + 1] = m->ends[2 * i + 1];
    }
    pgas_graph_edges_t edges = { n, ends, m->weights ? weights : NULL };
    pgas_status_t status = pgas_graph_create(m->n_vertices, &edges, &opts, &graph);
    set_path(name);
    if (status == PGAS_OK)
        status = pgas_graph_write(graph, me == 0 ? path : NULL); /* rank 0's rules */
    pgas_graph_destroy(graph);
    free(ends);
    free(weights);
    return status;
}

/* A hash of the file, which must be the same for any number of ranks. */
static uint64_t hash_file(void)
{
    uint64_t hash = 0;
    char bytes[4096];
    size_t n;
    FILE *file = me == 0 ? fopen(path, "r") : NULL;
    while (file && (n = fread(bytes, 1, sizeof bytes, file)) > 0)
        hash = pgasi_hash_bytes(bytes, n, hash);
    if (file)
        fclose(file);
    pgas_broadcast(NULL, &hash, sizeof hash, 0);
    return hash;
}

static void plain(uint64_t seed)
{
    model_t m = model_make(20261130, 3000, 20000);
    spmd_is_int(write_model(&m, "a.pgas", false), PGAS_OK, "a graph is written");
    is_graph(&m, NONE, "and read");
    spmd_is_int((int64_t)(hash_file() >> 1), INT64_C(2662984215174487505),
                "the file is the same for any number of ranks");
    if (me == 0 && rename(path, strcat(strcpy((char[400]){ 0 }, path), ".x")) != 0)
        exit(99);
    strcat(path, ".x");
    pgas_barrier(NULL);
    is_graph(&m, NONE, "it is recognised by its first bytes");
    m.targets[0] ^= 1;
    pgas_graph_t *graph = read_as(NONE);
    spmd_ok(!model_is(&m, graph) || me != 0, "the comparison can fail (broken on purpose)");
    pgas_graph_destroy(graph);
    m.targets[0] ^= 1;
    model_t both = model_mirror(&m);
    is_graph(&both, (pgas_graph_opts_t){ SIZED, .undirected = true }, "read as undirected");
    spmd_is_int(write_model(&m, "b.pgas", true), PGAS_OK, "an undirected graph is written");
    is_graph(&both, NONE, "and read");
    (void)seed;
    model_free(&m);
    model_free(&both);
}

static void options(uint64_t seed)
{
    model_t m = model_make(seed, 400, 3000), bare = model_make(seed, 400, 3000);
    uint64_t *first_of = (uint64_t *)job_alloc(((size_t)n_ranks + 1) * sizeof(uint64_t));
    pgas_graph_info_t info = { .size = sizeof info };
    model_add_weights(&m, seed);
    spmd_is_int(write_model(&m, "w.pgas", false), PGAS_OK, "a graph with weights is written");
    is_graph(&m, NONE, "and read");
    is_graph(&m, (pgas_graph_opts_t){ SIZED, .weight_type = PGAS_F32 }, "with weights of F32");
    is_graph(&bare, (pgas_graph_opts_t){ SIZED, .no_weights = true }, "without weights");
    model_t both = model_mirror(&m);
    is_graph(&both, (pgas_graph_opts_t){ SIZED, .undirected = true }, "undirected with weights");
    log_begin();
    pgas_graph_opts_t opts = { SIZED, .weight_type = PGAS_U32 };
    pgas_graph_t *graph = NULL;
    pgas_status_t status = pgas_graph_read(path, &opts, &graph);
    spmd_ok(log_end("does not fit the type of weights") == 1 && status == PGAS_ERR_RANGE,
            "fractions do not fit U32");

    for (int r = 0; r <= n_ranks; r++) /* the first rank has nothing */
        first_of[r] = r == 0 || r == n_ranks ? (uint64_t)(r != 0) * 400 : (uint64_t)(r - 1) * 7;
    graph = read_as((pgas_graph_opts_t){ SIZED, .first_of = first_of });
    bool good = model_is(&m, graph) && pgas_graph_info(graph, &info) == PGAS_OK;
    spmd_ok(good && info.first_vertex == first_of[me], "with ranges of the caller");
    pgas_graph_destroy(graph);
    set_path("bare.pgas");
    status = write_model(&bare, "bare.pgas", false);
    opts = (pgas_graph_opts_t){ SIZED, .weight_type = PGAS_U32, .simple = true };
    graph = status == PGAS_OK ? read_as(opts) : NULL;
    bool simple = graph && pgas_graph_info(graph, &info) == PGAS_OK && info.n_edges < 3000 &&
                  info.weight_type == PGAS_U32;
    for (uint32_t id = 0; simple && id < info.n_local; id++)
        for (uint64_t e = info.out.begin[id]; e < info.out.begin[id + 1]; e++) {
            simple = simple && info.out.end[e] != id && model_weight(&info, e) >= 1 &&
                     (e == info.out.begin[id] || info.out.end[e - 1] < info.out.end[e]);
        }
    spmd_ok(simple, "random weights, simple");
    pgas_graph_destroy(graph);
    model_free(&m);
    model_free(&bare);
    model_free(&both);
    free(first_of);
}

/* The file has the names and labels of a text. */
static void names_and_labels(uint64_t seed)
{
    model_t m = model_make(seed, 500, 2000);
    for (int kind = 0; kind < 2; kind++) {
        text_t text = { 0 };
        pgas_graph_t *before, *after = NULL;
        bool good = true;
        for (uint64_t i = 0; i < m.n_edges; i++) {
            text_add(&text, kind == 0 ? "n%llu\tn%llu\n" : "%llu %llu\n",
                     (number_t)m.ends[2 * i] * 977, (number_t)m.ends[2 * i + 1] * 977);
        }
        write_file(kind == 0 ? "x.tsv" : "x.e", &text);
        before = read_as(NONE);
        pgas_graph_info_t info = { .size = sizeof info };
        pgas_graph_info(before, &info);
        uint64_t n = before ? info.n_vertices : 0, found = 0;
        set_path(kind == 0 ? "names.pgas" : "labels.pgas");
        pgas_status_t status = pgas_graph_write(before, path);
        if (status == PGAS_OK)
            after = read_as(NONE);
        for (int k = 0; k < 20; k++) {
            uint64_t v = (seed + (uint64_t)(k * 31)) % (n > 0 ? n : 1);
            char *a = NULL, *b = NULL;
            good = pgas_graph_names(before, &v, 1, &a) == PGAS_OK && good;
            good = pgas_graph_names(after, &v, 1, &b) == PGAS_OK && good;
            good = good && strcmp(a, b) == 0;
            good = pgas_graph_find(after, a, &found) == PGAS_OK && found == v && good;
            free(a);
            free(b);
        }
        spmd_ok(good && n > 300, kind == 0 ? "names are written and read" : "and labels");
        pgas_graph_destroy(before);
        pgas_graph_destroy(after);
        free(text.bytes);
    }
    model_free(&m);
}

/* ---- bad files ---- */

static void load(text_t *text)
{
    FILE *file = fopen(path, "r");
    text->n = 0;
    while (file && !feof(file)) {
        text_add(text, "%s", "");
        text->n += fread(text->bytes + text->n, 1, 4096, file);
    }
    if (file)
        fclose(file);
}

static void refused(const text_t *text, const char *name, const char *want)
{
    pgas_graph_t *graph = NULL;
    write_file(name, text);
    log_begin();
    pgas_status_t status = pgas_graph_read(path, NULL, &graph);
    int n_lines = log_end(want);
    spmd_ok(status == PGAS_ERR_FORMAT && !graph && n_lines == 1, "%s, '%s' once", name, want);
}

static void bad_files(uint64_t seed)
{
    model_t m = model_make(seed, 1000, 5000);
    text_t text = { 0 };
    int32_t n_bad = 0;
    pgas_graph_t *graph = NULL;
    write_model(&m, "good.pgas", false);
    load(&text);
    size_t n = text.n;
    text.n = n - 1;
    refused(&text, "short.pgas", "short.pgas: is truncated");
    text.n = 20;
    refused(&text, "header.pgas", "is truncated: it ends in its header");
    text.n = n;
    text_add(&text, "x");
    refused(&text, "long.pgas", "has bytes behind its end");
    text.n = n;
    text.bytes[24] ^= 1;
    refused(&text, "header.pgas", "the checksum of its header");
    text.bytes[24] ^= 1;
    text.bytes[0] ^= 1;
    refused(&text, "magic.pgas", "is not a graph that pgas_graph_write wrote");
    text.bytes[0] ^= 1;
    text.bytes[n - 4] ^= 1;
    refused(&text, "end.pgas", "the checksum of its contents");
    text.bytes[n - 4] ^= 1;
    text.bytes[n - 1] ^= (char)0x80;
    refused(&text, "range.pgas", "leads to a vertex that does not exist");
    text.bytes[n - 1] ^= (char)0x80;

    pgasi_binary_header_t header;
    pgasi_binary_map_t map;
    pgasi_rng_t rng;
    memcpy(&header, text.bytes, sizeof header);
    pgasi_binary_map(&header, n, &map);
    pgasi_rng_seed(&rng, seed);
    log_begin();
    for (int i = 0; i < 40; i++) { /* any bit */
        size_t at = sizeof header + pgasi_rng_below(&rng, n - sizeof header);
        char bit = (char)(1 << pgasi_rng_below(&rng, 8));
        text.bytes[at] ^= bit;
        write_file("bit.pgas", &text);
        bool is_gap = at >= map.begin + 1001 * sizeof(uint64_t) && at < map.end;
        pgas_status_t status = pgas_graph_read(path, NULL, &graph);
        n_bad += is_gap ? status != PGAS_OK : status != PGAS_ERR_FORMAT;
        pgas_graph_destroy(graph);
        graph = NULL;
        text.bytes[at] ^= bit;
    }
    log_end("");
    spmd_is_int(n_bad, 0, "any changed bit is noticed");

    log_begin();
    set_path("no-folder/x.pgas");
    write_model(&m, "good.pgas", false);
    graph = read_as(NONE);
    set_path("no-folder/x.pgas");
    pgas_status_t status = pgas_graph_write(graph, path);
    spmd_ok(log_end("cannot make ") == 1 && status == PGAS_ERR_IO, "a folder that does not exist");
    log_begin();
    status = pgas_graph_write(graph, NULL);
    spmd_ok(log_end("graph or path is NULL") == 1 && status == PGAS_ERR_INVALID, "no path");
    pgas_graph_destroy(graph);
    graph = NULL;
    log_begin();
    status = read_stream(&text, true, &graph);
    spmd_ok(log_end("cannot be compressed or a stream") == 1 && status == PGAS_ERR_FORMAT && !graph,
            "not from standard input");
    model_free(&m);
    free(text.bytes);
}

/* ---- rows in another order ---- */

/* Swaps ends i and i + 1 of the file, and corrects the sums. */
static void swap_ends(text_t *text, uint64_t i)
{
    pgasi_binary_header_t header;
    pgasi_binary_map_t map;
    uint32_t ends[2];
    memcpy(&header, text->bytes, sizeof header);
    pgasi_binary_map(&header, text->n, &map);
    uint64_t at = map.end + i * sizeof *ends;
    memcpy(ends, text->bytes + at, sizeof ends);
    header.contents_sum -= pgasi_binary_sum(at, ends, sizeof ends);
    uint32_t first = ends[0];
    ends[0] = ends[1];
    ends[1] = first;
    header.contents_sum += pgasi_binary_sum(at, ends, sizeof ends);
    header.header_sum = pgasi_binary_header_sum(&header);
    memcpy(text->bytes, &header, sizeof header);
    memcpy(text->bytes + at, ends, sizeof ends);
}

static bool rows_rise(const pgas_graph_t *graph)
{
    pgas_graph_info_t info = { .size = sizeof info };
    bool good = pgas_graph_info(graph, &info) == PGAS_OK;
    for (uint64_t id = 0; good && id < info.n_local; id++)
        for (uint64_t e = info.out.begin[id] + 1; e < info.out.begin[id + 1]; e++)
            good = good && info.out.end[e - 1] <= info.out.end[e];
    return good;
}

/* A row that takes more than one of the reader's pieces of 128 KiB. What is read is written
 * again. */
static void unsorted(void)
{
    enum { SPOKES = 70000, PIECE_ENDS = 32768 };
    static const uint64_t places[] = { 1000, PIECE_ENDS - 1, 2 * PIECE_ENDS - 1 };
    model_t star = { .n_vertices = SPOKES + 1, .n_edges = SPOKES };
    text_t text = { 0 };
    bool good = true;
    star.ends = (uint64_t *)job_alloc(2 * SPOKES * sizeof *star.ends);
    for (uint64_t i = 0; i < SPOKES; i++)
        star.ends[2 * i + 1] = i + 1;
    write_model(&star, "star.pgas", false);
    uint64_t hash = hash_file();
    for (int i = 0; i < 3; i++) {
        set_path("star.pgas");
        load(&text);
        swap_ends(&text, places[i]);
        write_file("swapped.pgas", &text);
        good = good && hash_file() != hash;
        pgas_graph_t *graph = read_as(NONE);
        good = rows_rise(graph) && good;
        set_path("sorted.pgas");
        good = pgas_graph_write(graph, path) == PGAS_OK && hash_file() == hash && good;
        pgas_graph_destroy(graph);
    }
    spmd_ok(good, "rows of a file that are not sorted become sorted");
    free(star.ends);
    free(text.bytes);
}

/* ---- GAP's serialized graphs ---- */

static void add_bytes(text_t *text, const void *bytes, size_t n)
{
    text_add(text, "%s", "");
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
}

static void serialize(text_t *text, const model_t *m, bool directed)
{
    text->n = 0;
    add_bytes(text, directed ? "\1" : "\0", 1);
    add_bytes(text, &m->n_edges, 8);
    add_bytes(text, &m->n_vertices, 8);
    for (int turn = 0; turn < (directed ? 2 : 1); turn++) { /* in-edges are not read */
        for (uint64_t v = 0; v <= m->n_vertices; v++)
            add_bytes(text, &m->offsets[v], 8);
        for (uint64_t i = 0; i < m->n_edges; i++) {
            int32_t pair[2] = { (int32_t)m->targets[i], (int32_t)m->row_weights[i] };
            add_bytes(text, pair, m->weights ? 8 : 4);
        }
    }
}

static void serialized(uint64_t seed)
{
    model_t m = model_make(seed, 900, 6000), both = model_mirror(&m);
    text_t text = { 0 };
    serialize(&text, &m, true);
    write_file("d.sg", &text);
    is_graph(&m, NONE, "a serialized graph of GAP");
    is_graph(&both, (pgas_graph_opts_t){ SIZED, .undirected = true }, "as undirected");
    serialize(&text, &both, false);
    write_file("u.sg", &text);
    is_graph(&both, NONE, "an undirected one");
    m.weights = (double *)job_alloc(m.n_edges * sizeof(double));
    for (uint64_t i = 0; i < m.n_edges; i++)
        m.weights[i] = (double)(1 + i % 255);
    free(m.offsets);
    free(m.targets);
    free(m.row_weights);
    model_make_rows(&m);
    serialize(&text, &m, true);
    write_file("w.wsg", &text);
    is_graph(&m, NONE, "one with weights");
    is_graph(&m, (pgas_graph_opts_t){ SIZED, .weight_type = PGAS_U32 }, "as U32");
    text.n -= 3;
    refused(&text, "cut.wsg", "cut.wsg: is truncated");
    text.n = 17;
    refused(&text, "head.wsg", "head.wsg: is truncated");
    memset(text.bytes, 0x7f, 17);
    text.bytes[0] = 0;
    refused(&text, "huge.sg", "huge.sg: is truncated");
    serialize(&text, &both, false);
    text.bytes[text.n - 1] = 0x7f;
    refused(&text, "range.sg", "leads to a vertex that does not exist");
    serialize(&text, &both, false);
    text.bytes[17 + 8 * 450 + 5] = 0x7f;
    refused(&text, "rows.sg", "the rows do not follow each other");
    model_free(&m);
    model_free(&both);
    free(text.bytes);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 40);
    uint64_t seed = spmd_seed(20261130);
    make_folder();
    plain(seed);
    options(seed);
    names_and_labels(seed);
    bad_files(seed);
    unsorted();
    serialized(seed);
    clear_folder();
    job_stop();
    return spmd_end();
}
