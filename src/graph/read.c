/* pgas_graph_read: the source gives bytes to the reader, the reader gives pairs of numbers, and
 * building turns those into rows at their owners. Ends that are names are local numbers until all
 * names have vertex numbers. */
#include <stdlib.h>
#include "base/checks.h"
#include "base/clock.h"
#include "graph/graph.h"
#include "graph/source.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

typedef struct {
    uint64_t *ends; /* two for each edge */
    uint64_t n_ends, ends_room;
    uint64_t greatest; /* of the ends so far */
    pgasi_names_t names;
    uint32_t *round_begin;
    uint64_t n_rounds, rounds_room;
} contents_t;

/* ---- the receiver of the reader ---- */

static pgas_status_t store_edge(void *arg, uint64_t from, uint64_t to)
{
    contents_t *c = arg;
    void *ends = pgasi_grow(c->ends, &c->ends_room, c->n_ends + 2, sizeof *c->ends);
    if (!ends)
        return PGAS_ERR_NO_MEMORY;
    c->ends = ends;
    c->ends[c->n_ends++] = from;
    c->ends[c->n_ends++] = to;
    c->greatest = PGASI_MAX(c->greatest, PGASI_MAX(from, to));
    return PGAS_OK;
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
    return status == PGAS_OK ? store_edge(c, from, to) : status;
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
    free(c->ends);
    free(c->round_begin);
    pgasi_names_fini(&c->names);
}

/* ---- from contents to a graph ---- */

/* Checks the text as a whole. Collective; rank 0 logs. */
static pgas_status_t check_whole(const pgasi_source_t *source, const pgasi_reader_t *reader,
                                 const contents_t *c)
{
    pgasi_graph_error_t error = { .status = PGAS_OK };
    uint64_t n[3] = { source->n_lines, reader->n_entries, c->n_ends };
    pgas_status_t status = pgas_allreduce(NULL, n, n, 3, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK)
        status = pgasi_reader_judge(source->info.format, &source->info.mtx, n[0], n[1], &error);
    if (status == PGAS_OK && source->info.is_guess && n[2] == 0) {
        status = pgasi_graph_error_set(
            &error, PGAS_ERR_FORMAT, 0,
            "is neither a matrix nor a list of numbers, and it has no edge, because no line has a "
            "tab between two names; for a list of names without edges, give the format NAMES");
    }
    if (error.status != PGAS_OK && pgas_rank() == 0)
        pgasi_graph_log_error(source->info.path, &error, 0);
    return status;
}

static pgas_status_t build_of_names(contents_t *c, pgas_graph_t **graph_p)
{
    pgasi_numbering_t numbering = { .names = &c->names,
                                    .round_begin = c->round_begin,
                                    .n_rounds = c->n_rounds };
    pgas_graph_t *graph = NULL;
    pgas_status_t status = pgasi_graph_number(&numbering);
    if (status == PGAS_OK) {
        for (uint64_t i = 0; i < c->n_ends; i++)
            c->ends[i] = numbering.ids[c->ends[i]];
        status = pgasi_graph_build(numbering.n_vertices, c->ends, c->n_ends / 2, c->ends, &graph);
        c->ends = NULL;
    }
    if (status == PGAS_OK)
        status = pgasi_graph_spread_names(graph, &numbering);
    free(numbering.ids);
    free(numbering.first);
    if (status == PGAS_OK)
        *graph_p = graph;
    else
        pgas_graph_destroy(graph);
    return status;
}

static pgas_status_t build_of_numbers(contents_t *c, const pgasi_source_info_t *info,
                                      pgas_graph_t **graph_p)
{
    uint64_t n_vertices = c->greatest + 1; /* of an edge list; at least one rank has an edge */
    pgas_status_t status = pgas_allreduce(NULL, &n_vertices, &n_vertices, 1, PGAS_U64, PGAS_MAX);
    if (info->format == PGAS_GRAPH_MTX)
        n_vertices = info->mtx.n_vertices;
    if (status == PGAS_OK) {
        status = pgasi_graph_build(n_vertices, c->ends, c->n_ends / 2, c->ends, graph_p);
        c->ends = NULL;
    }
    return status;
}

static pgas_status_t read_contents(pgasi_source_t *source, contents_t *c)
{
    static const pgasi_reader_ops_t ops = { store_edge, store_names };
    pgasi_reader_t reader;
    pgas_status_t mine = pgasi_reader_init(&reader, source->info.format, &ops, c);
    pgas_status_t status = pgasi_graph_agree(mine, NULL);
    if (status == PGAS_OK) {
        reader.mtx = source->info.mtx;
        reader.mtx_state = PGASI_MTX_ENTRIES; /* the header is read */
        status = pgasi_source_read(source, &reader, begin_round, c);
    }
    if (status == PGAS_OK)
        status = check_whole(source, &reader, c);
    if (mine == PGAS_OK)
        pgasi_reader_fini(&reader);
    return status;
}

pgas_status_t pgas_graph_read(const char *path, const pgas_graph_read_opts_t *opts,
                              pgas_graph_t **graph_p)
{
    pgas_graph_read_opts_t o = PGAS_GRAPH_READ_OPTS_INIT;
    pgasi_source_t source;
    contents_t contents = { 0 };
    uint64_t begin = pgasi_now_ns();
    pgas_status_t status = pgasi_graph_start();
    if (status != PGAS_OK)
        return status;
    bool sane = graph_p && (path || pgas_rank() != 0) && PGASI_OPTS_SANE(opts, sizeof o);
    if (!sane)
        pgasi_graph_note("pgas_graph_read: path or graph_p is NULL, or opts->size is too small");
    status = pgasi_graph_agree(sane ? PGAS_OK : PGAS_ERR_INVALID, NULL);
    if (status == PGAS_OK) {
        o = opts ? *opts : o;
        status = pgasi_source_open(&source, path, &o);
    }
    if (status != PGAS_OK)
        return status;
    status = read_contents(&source, &contents);
    pgasi_source_close(&source);
    if (status == PGAS_OK) {
        status = source.info.format == PGAS_GRAPH_NAMES
                     ? build_of_names(&contents, graph_p)
                     : build_of_numbers(&contents, &source.info, graph_p);
    }
    contents_fini(&contents);
    if (status == PGAS_OK)
        (*graph_p)->seconds = 1e-9 * (double)(pgasi_now_ns() - begin);
    return status;
}
