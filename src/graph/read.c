/* pgas_graph_read: the source gives bytes to the reader, the reader gives edges, and
 * pgasi_graph_build makes rows of them at their owners.
 *
 * The ends of edges are vertex numbers. Until all names or labels of all ranks have numbers, they
 * are places in this rank's table of names or labels. So an edge takes 8 bytes in any format. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/hash.h"
#include "graph/binary.h"
#include "graph/build.h"
#include "graph/graph.h"
#include "graph/labels.h"
#include "graph/source.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

/* Edges between labels that are not in the table yet. */
typedef struct {
    uint64_t label[PGASI_LABELS_BATCH];
    double weight[PGASI_LABELS_BATCH / 2];
    size_t n; /* labels */
} batch_t;

typedef struct {
    pgasi_edges_t edges;
    pgasi_names_t names;
    uint32_t *round_begin;
    uint64_t n_rounds, rounds_room;
    pgasi_labels_t labels;
    uint32_t n_vertices; /* labels of vertices; those behind them are only ends of edges */
    batch_t batch;
    uint64_t imbalance; /* of edges in both directions: see balance_edge */
    pgasi_reader_counts_t count;
    pgasi_reader_t *reader; /* the one that is reading */
} contents_t;

/* The files, which rank 0 finds. */
typedef struct {
    pgas_graph_format_t format;
    bool has_vertices;
    char path[PATH_MAX], vertices[PATH_MAX]; /* vertices: LDBC */
} files_t;

/* ---- the receiver of the reader ---- */

/* The imbalance is a sum. It is 0 if each edge occurs as often in one direction as in the other.
 * Otherwise it is 0 by chance once in 2^64 times. */
static void balance_edge(contents_t *c, uint64_t from, uint64_t to, double weight)
{
    uint64_t bits = 0, low = PGASI_MIN(from, to), high = PGASI_MAX(from, to);
    if (!isnan(weight))
        memcpy(&bits, &weight, sizeof bits);
    uint64_t hash = pgasi_hash_combine(pgasi_hash_combine(bits, low), high);
    if (from != to)
        c->imbalance += from < to ? hash : -hash;
}

static pgas_status_t add_edge(contents_t *c, uint64_t from, uint64_t to, double weight)
{
    pgas_status_t status = pgasi_edges_add(&c->edges, from, to, weight);
    if (PGAS_UNLIKELY(status == PGAS_ERR_RANGE)) {
        pgasi_graph_error_set(&c->reader->error, status, c->reader->count.n_lines,
                              "the weight %g does not fit the type of weights", weight);
    }
    return status;
}

static pgas_status_t store_edge(void *arg, uint64_t from, uint64_t to, double weight)
{
    contents_t *c = arg;
    if (c->reader->format == PGAS_GRAPH_METIS)
        balance_edge(c, from, to, weight);
    return add_edge(c, from, to, weight);
}

/* Replaces the labels of waiting edges by their places in the table. */
static pgas_status_t end_batch(contents_t *c)
{
    uint32_t place[PGASI_LABELS_BATCH];
    if (c->batch.n == 0)
        return PGAS_OK;
    pgas_status_t status = pgasi_labels_add(&c->labels, c->batch.label, c->batch.n, place);
    for (size_t i = 0; status == PGAS_OK && i < c->batch.n; i += 2)
        status = pgasi_edges_add(&c->edges, place[i], place[i + 1], c->batch.weight[i / 2]);
    c->batch.n = 0;
    return status;
}

static pgas_status_t store_labels(void *arg, uint64_t from, uint64_t to, double weight)
{
    contents_t *c = arg;
    batch_t *batch = &c->batch;
    if (c->reader->format == PGAS_GRAPH_ADJ)
        balance_edge(c, from, to, weight);
    if (PGAS_UNLIKELY(!pgasi_edges_fits(&c->edges, weight)))
        return add_edge(c, 0, 0, weight);
    batch->weight[batch->n / 2] = weight;
    batch->label[batch->n++] = from;
    batch->label[batch->n++] = to;
    return batch->n < PGASI_LABELS_BATCH ? PGAS_OK : end_batch(c);
}

static pgas_status_t store_vertex(void *arg, uint64_t label)
{
    contents_t *c = arg;
    uint32_t place;
    return pgasi_labels_add(&c->labels, &label, 1, &place);
}

static pgas_status_t store_names(void *arg, const char *a, size_t a_bytes, const char *b,
                                 size_t b_bytes)
{
    contents_t *c = arg;
    uint32_t from, to;
    pgas_status_t status =
        pgasi_names_add(&c->names, a, a_bytes, pgasi_names_hash(a, a_bytes), &from);
    if (status != PGAS_OK || !b)
        return status;
    status = pgasi_names_add(&c->names, b, b_bytes, pgasi_names_hash(b, b_bytes), &to);
    return status == PGAS_OK ? add_edge(c, from, to, NAN) : status;
}

static pgas_status_t begin_round(void *arg)
{
    contents_t *c = arg;
    void *begin =
        pgasi_grow(c->round_begin, &c->rounds_room, c->n_rounds + 1, sizeof *c->round_begin);
    if (!begin)
        return PGAS_ERR_NO_MEMORY;
    c->round_begin = begin;
    c->round_begin[c->n_rounds++] = c->names.n_names;
    return PGAS_OK;
}

static void contents_fini(contents_t *c)
{
    pgasi_edges_fini(&c->edges);
    free(c->round_begin);
    pgasi_names_fini(&c->names);
    pgasi_labels_fini(&c->labels);
}

/* ---- reading ---- */

static bool has_labels(pgas_graph_format_t format)
{
    return format == PGAS_GRAPH_LDBC || format == PGAS_GRAPH_ADJ;
}

/* Checks the text as a whole. Collective; rank 0 logs. */
static pgas_status_t check_whole(const pgasi_source_t *source, const pgasi_reader_t *reader,
                                 contents_t *c)
{
    pgasi_graph_error_t error = { .status = PGAS_OK };
    uint64_t n[6] = { source->n_lines,       reader->count.n_entries, reader->count.n_rows,
                      reader->count.n_loops, c->edges.n_edges,        c->imbalance };
    pgas_status_t status = pgas_allreduce(NULL, n, n, 6, PGAS_U64, PGAS_ADD);
    if (status != PGAS_OK)
        return status;
    c->count = (pgasi_reader_counts_t){ n[0], n[1], n[2], n[3] };
    c->imbalance = n[5];
    status = pgasi_reader_judge(source->info.format, &source->info.header, &c->count, &error);
    if (status == PGAS_OK && source->info.is_guess && n[4] == 0) {
        status = pgasi_graph_error_set(
            &error, PGAS_ERR_FORMAT, 0,
            "is neither a matrix nor a list of numbers, and it has no edge, because no line has a "
            "tab between two names; for a list of names without edges, give the format NAMES");
    }
    if (error.status != PGAS_OK && pgas_rank() == 0)
        pgasi_graph_log_error(source->info.path, &error, 0);
    return status;
}

/* Feeds the input to a reader. Collective. */
static pgas_status_t read_source(pgasi_source_t *source, const pgasi_reader_ops_t *ops,
                                 contents_t *c)
{
    pgasi_reader_t reader = { .error = { .status = PGAS_OK } };
    pgas_status_t mine = pgasi_reader_init(&reader, source->info.format, ops, c);
    pgas_status_t status = pgasi_graph_agree(mine, NULL);
    if (status == PGAS_OK) {
        reader.header = source->info.header;
        reader.state = PGASI_READER_ENTRIES; /* the header is read */
        c->reader = &reader;
        status = pgasi_source_read(source, &reader, begin_round, c);
    }
    if (status == PGAS_OK)
        status = check_whole(source, &reader, c);
    if (mine == PGAS_OK)
        pgasi_reader_fini(&reader);
    return status;
}

static pgasi_source_opts_t source_opts(const files_t *files, const pgas_graph_opts_t *opts)
{
    return (pgasi_source_opts_t){
        .path = files->path,
        .format = files->format,
        .progress = opts->progress,
        .progress_arg = opts->progress_arg,
    };
}

/* Reads the vertices of LDBC. Collective. */
static pgas_status_t read_vertices(const files_t *files, const pgas_graph_opts_t *opts,
                                   contents_t *c)
{
    static const pgasi_reader_ops_t ops = { .vertex = store_vertex };
    pgasi_source_t source;
    pgasi_source_opts_t of = source_opts(files, opts);
    of.path = files->vertices;
    of.is_vertices = true;
    pgas_status_t status = pgasi_source_open(&source, &of);
    if (status != PGAS_OK)
        return status;
    status = read_source(&source, &ops, c);
    pgasi_source_close(&source);
    c->n_vertices = c->labels.n;
    return status;
}

static pgas_status_t read_edges(pgasi_source_t *source, pgasi_build_t *build, contents_t *c)
{
    static const pgasi_reader_ops_t numbers = { store_edge, store_names, NULL };
    static const pgasi_reader_ops_t labels = { store_labels, NULL, store_vertex };
    pgas_graph_format_t format = source->info.format;
    bool weighted =
        format == PGAS_GRAPH_WEL || format == PGAS_GRAPH_GR || source->info.header.has_weight;
    pgasi_edges_init(&c->edges, pgasi_build_weights(build, weighted));
    pgas_status_t status = read_source(source, has_labels(format) ? &labels : &numbers, c);
    return status == PGAS_OK ? pgasi_graph_agree(end_batch(c), NULL) : status;
}

/* ---- an edge whose end is not in the file of vertices ---- */

typedef struct {
    contents_t contents;
    uint64_t label;
} search_t;

static pgas_status_t compare_labels(void *arg, uint64_t from, uint64_t to, double weight)
{
    search_t *search = arg; /* contents is its first element */
    (void)weight;
    if (from != search->label && to != search->label)
        return PGAS_OK;
    const pgasi_reader_t *reader = search->contents.reader;
    return pgasi_graph_error_set(&search->contents.reader->error, PGAS_ERR_FORMAT,
                                 reader->count.n_lines,
                                 "vertex %" PRIu64 " is not in the file of vertices",
                                 search->label);
}

/* Reads the file again to find the line. Collective; logs it. */
static pgas_status_t report_missing(const files_t *files, uint64_t label)
{
    static const pgasi_reader_ops_t ops = { .edge = compare_labels };
    pgas_graph_opts_t none = PGAS_GRAPH_OPTS_INIT;
    search_t search = { .label = label };
    pgasi_source_t source;
    pgasi_source_opts_t of = source_opts(files, &none);
    pgas_status_t status = pgasi_source_open(&source, &of);
    if (status != PGAS_OK)
        return status;
    status = read_source(&source, &ops, &search.contents);
    pgasi_source_close(&source);
    contents_fini(&search.contents);
    return status == PGAS_OK ? PGAS_ERR_IO : status; /* the file has changed meanwhile */
}

/* ---- from contents to a graph ---- */

static pgas_status_t build_of_names(contents_t *c, pgasi_build_t *build, pgas_graph_t **graph_p)
{
    pgasi_numbering_t numbering = { .names = &c->names,
                                    .round_begin = c->round_begin,
                                    .n_rounds = c->n_rounds };
    pgas_status_t status = pgasi_graph_number(&numbering);
    if (status == PGAS_OK) {
        for (uint64_t i = 0; i < 2 * c->edges.n_edges; i++)
            c->edges.low[i] = (uint32_t)numbering.ids[c->edges.low[i]];
        build->n_vertices = numbering.n_vertices;
        status = pgasi_graph_build(build, &c->edges, graph_p);
    }
    if (status == PGAS_OK)
        status = pgasi_graph_spread_names(*graph_p, &numbering);
    free(numbering.ids);
    free(numbering.first);
    return status;
}

static pgas_status_t build_of_labels(contents_t *c, const files_t *files, pgasi_build_t *build,
                                     pgas_graph_t **graph_p)
{
    pgasi_labeling_t labeling;
    uint32_t n_vertices = files->has_vertices ? c->n_vertices : c->labels.n;
    pgas_status_t status = pgasi_labels_number(&c->labels, n_vertices, &labeling);
    if (status == PGAS_ERR_NOT_FOUND)
        status = report_missing(files, labeling.missing);
    if (status == PGAS_OK) {
        pgasi_labels_fini(&c->labels);
        for (uint64_t i = 0; i < 2 * c->edges.n_edges; i++)
            c->edges.low[i] = labeling.number[c->edges.low[i]];
        build->n_vertices = labeling.n_vertices;
        status = pgasi_graph_build(build, &c->edges, graph_p);
    }
    if (status == PGAS_OK)
        status = pgasi_labels_spread(*graph_p, &labeling);
    pgasi_labeling_fini(&labeling);
    return status;
}

static pgas_status_t build_of_numbers(contents_t *c, const pgasi_source_info_t *info,
                                      pgasi_build_t *build, pgas_graph_t **graph_p)
{
    uint64_t n_vertices = c->edges.greatest + 1; /* of an edge list; some rank has an edge */
    pgas_status_t status = pgas_allreduce(NULL, &n_vertices, &n_vertices, 1, PGAS_U64, PGAS_MAX);
    build->n_vertices = info->header.n_vertices > 0 ? info->header.n_vertices : n_vertices;
    return status == PGAS_OK ? pgasi_graph_build(build, &c->edges, graph_p) : status;
}

/* Determines whether the list has each edge once, or in both directions. Each rank gets the same
 * result; rank 0 logs. */
static pgas_status_t find_direction(const pgasi_source_info_t *info, const contents_t *c,
                                    pgasi_build_t *build)
{
    uint64_t n = c->count.n_entries, m = info->header.n_entries;
    bool is_metis = info->format == PGAS_GRAPH_METIS;
    build->mirrored = false;
    if (info->format == PGAS_GRAPH_MTX && info->header.symmetric)
        build->directed = false;
    if (!is_metis && (info->format != PGAS_GRAPH_ADJ || build->directed))
        return PGAS_OK;
    if (is_metis && n == m && c->imbalance != 0)
        return PGAS_OK; /* each edge once, as GAP writes directed graphs */
    build->directed = false;
    build->mirrored = true;
    if (c->imbalance == 0)
        return PGAS_OK;
    pgasi_graph_error_t error = { .status = PGAS_OK };
    pgasi_graph_error_set(&error, PGAS_ERR_FORMAT, 0,
                          "is not the list of an undirected graph: some edge is not in the lines "
                          "of both of its ends%s",
                          info->header.has_weight ? ", or not with the same weight" : "");
    if (pgas_rank() == 0)
        pgasi_graph_log_error(info->path, &error, 0);
    return error.status;
}

static pgas_status_t read_text(pgasi_source_t *source, const files_t *files,
                               const pgas_graph_opts_t *opts, pgasi_build_t *build,
                               pgas_graph_t **graph_p)
{
    contents_t *c = pgasi_graph_zeroed(1, sizeof *c);
    pgas_graph_t *graph = NULL;
    pgas_status_t status = pgasi_graph_agree(c ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK && files->has_vertices)
        status = read_vertices(files, opts, c);
    if (status == PGAS_OK)
        status = read_edges(source, build, c);
    pgasi_source_close(source);
    if (status == PGAS_OK)
        status = find_direction(&source->info, c, build);
    if (status == PGAS_OK && source->info.format == PGAS_GRAPH_NAMES)
        status = build_of_names(c, build, &graph);
    else if (status == PGAS_OK && has_labels(source->info.format))
        status = build_of_labels(c, files, build, &graph);
    else if (status == PGAS_OK)
        status = build_of_numbers(c, &source->info, build, &graph);
    if (c)
        contents_fini(c);
    free(c);
    if (status == PGAS_OK)
        *graph_p = graph;
    else
        pgas_graph_destroy(graph);
    return status;
}

/* ---- files ---- */

/* Whether the file exists, as it is or compressed; path gets its name. */
static bool exists(char *path, size_t n, const char *end)
{
    static const char *const packs[] = { "", ".gz", ".zst" };
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(packs); i++) {
        if (n + strlen(end) + strlen(packs[i]) >= PATH_MAX)
            return false;
        strcpy(path + n, end);
        strcat(path + n, packs[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    strcpy(path + n, end); /* for the log */
    return false;
}

/* Finds the two files of LDBC by one of them, or by their common name. */
static void find_files(const char *path, pgas_graph_format_t format, files_t *files)
{
    size_t n = strlen(path);
    *files = (files_t){ .format = format };
    if (n >= PATH_MAX) { /* a later step refuses it */
        memset(files->path, 'x', PATH_MAX - 1);
        return;
    }
    strcpy(files->path, path);
    if (format == PGAS_GRAPH_AUTO)
        format = pgasi_reader_format_of(path);
    if (format != PGAS_GRAPH_LDBC && (format != PGAS_GRAPH_AUTO || access(path, F_OK) == 0))
        return;
    if (pgasi_reader_format_of(path) == PGAS_GRAPH_LDBC)
        n = pgasi_reader_plain_length(path) - strlen(".e");
    memcpy(files->vertices, path, n);
    memcpy(files->path, path, n);
    if (!exists(files->path, n, ".e") && format != PGAS_GRAPH_LDBC) {
        strcpy(files->path, path);
        return;
    }
    files->format = PGAS_GRAPH_LDBC;
    files->has_vertices = exists(files->vertices, n, ".v");
}

static pgas_status_t read_files(const files_t *files, const pgas_graph_opts_t *opts,
                                pgasi_build_t *build, pgas_graph_t **graph_p)
{
    pgasi_source_t source;
    pgasi_source_opts_t of = source_opts(files, opts);
    pgas_status_t status = pgasi_source_open(&source, &of);
    if (status != PGAS_OK)
        return status;
    if (source.info.format < PGAS_GRAPH_SG)
        return read_text(&source, files, opts, build, graph_p);
    pgasi_source_close(&source);
    return pgasi_binary_read(&source.info, build, graph_p);
}

pgas_status_t pgas_graph_read(const char *path, const pgas_graph_opts_t *opts,
                              pgas_graph_t **graph_p)
{
    pgas_graph_opts_t o = PGAS_GRAPH_OPTS_INIT;
    pgasi_build_t build;
    uint64_t begin = pgasi_now_ns();
    pgas_status_t status = pgasi_graph_start();
    if (status != PGAS_OK)
        return status;
    bool sane = graph_p && (path || pgas_rank() != 0) && PGASI_OPTS_SANE(opts, sizeof o);
    if (!sane)
        pgasi_graph_note("pgas_graph_read: path or graph_p is NULL, or opts->size is too small");
    status = pgasi_graph_agree(sane ? pgasi_build_of(opts, &build) : PGAS_ERR_INVALID, NULL);
    if (status != PGAS_OK)
        return status;
    o = opts ? *opts : o;
    files_t *files = pgasi_graph_zeroed(1, sizeof *files);
    status = pgasi_graph_agree(files ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK && pgas_rank() == 0)
        find_files(path, o.format, files);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, files, sizeof *files, 0);
    if (status == PGAS_OK)
        status = pgasi_build_share(&build);
    if (status == PGAS_OK)
        status = read_files(files, &o, &build, graph_p);
    free(files);
    if (status == PGAS_OK)
        (*graph_p)->seconds = 1e-9 * (double)(pgasi_now_ns() - begin);
    return status;
}
