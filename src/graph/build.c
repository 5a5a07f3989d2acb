/* Building a graph: ranges of vertices with about the same number of edges, then rows.
 *
 * The peak for an undirected graph with E edges in its rows is 8 bytes an edge: 4 in the lists that
 * were read, which have each edge once, and 4 in the rows. */
#include "graph/build.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/hash.h"
#include "graph/graph.h"
#include "graph/rows.h"
#include "pgas/edge_map.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

/* ---- options ---- */

pgas_status_t pgasi_build_of(const pgas_graph_opts_t *opts, pgasi_build_t *build_p)
{
    pgas_graph_opts_t o = PGAS_GRAPH_OPTS_INIT;
    bool sane = PGASI_OPTS_SANE(opts, sizeof o);
    o = sane && opts ? *opts : o;
    bool known = o.weight_type == PGAS_TYPE_NONE || o.weight_type == PGAS_U32 ||
                 o.weight_type == PGAS_F32 || o.weight_type == PGAS_F64;
    if (!sane || !known || !(o.alpha >= 0 && o.alpha <= 1e9)) {
        pgasi_graph_note("options of a graph: size, weight_type or alpha (%g) is out of range",
                         o.alpha);
        return PGAS_ERR_INVALID;
    }
    *build_p = (pgasi_build_t){
        .directed = !o.undirected,
        .simple = o.simple,
        .weight_type = o.weight_type,
        .no_weights = o.no_weights,
        .seed = o.seed != 0 ? o.seed : 1,
        .alpha = o.alpha > 0 ? o.alpha : 8,
        .first_of = o.first_of,
    };
    return PGAS_OK;
}

pgas_status_t pgasi_build_share(pgasi_build_t *build)
{
    return pgas_broadcast(NULL, build, sizeof *build, 0);
}

pgas_type_t pgasi_build_weights(pgasi_build_t *build, bool input_has_weights)
{
    if (build->no_weights)
        build->weight_type = PGAS_TYPE_NONE;
    else if (input_has_weights && build->weight_type == PGAS_TYPE_NONE)
        build->weight_type = PGAS_F64;
    build->random_weights = !input_has_weights && build->weight_type != PGAS_TYPE_NONE;
    return build->random_weights ? PGAS_TYPE_NONE : build->weight_type;
}

/* ---- the list, as the rows visit it ---- */

typedef struct {
    const pgasi_build_t *build;
    pgasi_edges_t *edges;
} given_t;

/* An edge gets the same weight in both directions of an undirected graph. */
static uint64_t random_weight(const pgasi_build_t *build, uint32_t from, uint32_t to)
{
    uint32_t low = build->directed ? from : PGASI_MIN(from, to);
    uint32_t high = build->directed ? to : PGASI_MAX(from, to);
    uint64_t hash = pgasi_hash_combine(build->seed, (uint64_t)low << 32 | high);
    uint32_t weight = 1 + (uint32_t)((hash >> 32) * 255 >> 32);
    float as_float = (float)weight;
    double as_double = weight;
    uint64_t bits = weight;
    if (build->weight_type == PGAS_F32)
        memcpy(&bits, &as_float, sizeof as_float);
    else if (build->weight_type == PGAS_F64)
        memcpy(&bits, &as_double, sizeof as_double);
    return bits;
}

static inline uint64_t weight_of(const given_t *given, uint64_t i)
{
    const pgasi_build_t *build = given->build;
    const pgasi_edges_t *edges = given->edges;
    if (build->weight_type == PGAS_TYPE_NONE)
        return 0;
    if (build->random_weights)
        return random_weight(build, edges->low[2 * i], edges->low[2 * i + 1]);
    return build->weight_type == PGAS_F64 ? ((const uint64_t *)edges->weight)[i]
                                          : ((const uint32_t *)edges->weight)[i];
}

static void visit_given(const void *list, pgasi_edge_fn_t take, void *arg)
{
    const given_t *given = list;
    const uint32_t *end = given->edges->low;
    bool both = !given->build->directed && !given->build->mirrored;
    for (uint64_t i = 0; i < given->edges->n_edges; i++) {
        uint64_t weight = weight_of(given, i);
        take(arg, end[2 * i], end[2 * i + 1], weight);
        if (both && end[2 * i] != end[2 * i + 1])
            take(arg, end[2 * i + 1], end[2 * i], weight);
    }
}

static void release_given(const void *list)
{
    pgasi_edges_fini(((const given_t *)list)->edges);
}

/* ---- ranges ---- */

#define BUCKETS 65536

/* Counts the ends in buckets of consecutive vertices. */
static pgas_status_t count_ends(const pgasi_edges_t *edges, int shift, uint64_t *n_ends)
{
    for (uint64_t i = 0; i < 2 * edges->n_edges; i++)
        n_ends[edges->low[i] >> shift]++;
    return pgas_allreduce(NULL, n_ends, n_ends, BUCKETS, PGAS_U64, PGAS_ADD);
}

/* Cuts at the borders of buckets: rank r begins where the cost before it reaches its share. */
static void cut(const pgasi_build_t *build, const uint64_t *n_ends, int shift, pgas_graph_t *graph)
{
    uint64_t n = build->n_vertices, n_buckets = ((n - 1) >> shift) + 1;
    double all = build->alpha * (double)n, before = 0;
    int rank = 1;
    for (uint64_t b = 0; b < n_buckets; b++)
        all += (double)n_ends[b];
    for (uint64_t b = 0; b < n_buckets && rank < graph->n_ranks; b++) {
        uint64_t first = b << shift, end = PGASI_MIN((b + 1) << shift, n);
        double cost = build->alpha * (double)(end - first) + (double)n_ends[b];
        /* the bucket goes to the side on which more than half of it belongs */
        while (rank < graph->n_ranks && before + cost / 2 >= all * rank / graph->n_ranks)
            graph->first_of[rank++] = first;
        before += cost;
    }
    while (rank <= graph->n_ranks)
        graph->first_of[rank++] = n;
}

static pgas_status_t balance(const pgasi_build_t *build, const pgasi_edges_t *edges,
                             pgas_graph_t *graph)
{
    int shift = 0;
    while ((build->n_vertices - 1) >> shift >= BUCKETS)
        shift++;
    uint64_t *n_ends = pgasi_graph_zeroed(BUCKETS, sizeof *n_ends);
    pgas_status_t status = pgasi_graph_agree(n_ends ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK)
        status = count_ends(edges, shift, n_ends);
    if (status == PGAS_OK)
        cut(build, n_ends, shift, graph);
    free(n_ends);
    return status;
}

static pgas_status_t check_ranges(const pgas_graph_t *graph)
{
    bool sane = graph->first_of[0] == 0 && graph->first_of[graph->n_ranks] == graph->n_vertices;
    for (int r = 0; r < graph->n_ranks; r++)
        sane = sane && graph->first_of[r] <= graph->first_of[r + 1];
    if (!sane) {
        pgasi_graph_note("first_of is not a rising list from 0 to %" PRIu64, graph->n_vertices);
        return PGAS_ERR_INVALID;
    }
    return PGAS_OK;
}

static pgas_status_t make_ranges(const pgasi_build_t *build, const pgasi_edges_t *edges,
                                 pgas_graph_t *graph)
{
    size_t n_first = (size_t)graph->n_ranks + 1;
    uint32_t given = build->first_of != NULL;
    pgas_status_t status = pgas_broadcast(NULL, &given, sizeof given, 0);
    if (status != PGAS_OK)
        return status;
    if (graph->n_ranks == 1 && !given) {
        graph->first_of[1] = graph->n_vertices;
    } else if (!given) {
        status = balance(build, edges, graph);
    } else {
        if (graph->rank == 0)
            memcpy(graph->first_of, build->first_of, n_first * sizeof *graph->first_of);
        status = pgas_broadcast(NULL, graph->first_of, n_first * sizeof *graph->first_of, 0);
    }
    if (status == PGAS_OK)
        status = pgasi_graph_agree(check_ranges(graph), NULL);
    graph->first = graph->first_of[graph->rank];
    graph->n_local = (uint32_t)(graph->first_of[graph->rank + 1] - graph->first);
    return status;
}

/* ---- the graph ---- */

static pgas_status_t make_graph(const pgasi_build_t *build, pgas_graph_t **graph_p)
{
    uint64_t n = build->n_vertices, per_rank = n / (uint64_t)pgas_n_ranks();
    if (n == 0 || n > PGASI_GRAPH_VERTICES_MAX) {
        pgasi_graph_note("a graph cannot have %" PRIu64 " vertices, but 1 to %" PRIu32
                         ": number the vertices without gaps",
                         n, PGASI_GRAPH_VERTICES_MAX);
        return n == 0 ? PGAS_ERR_INVALID : PGAS_ERR_LIMIT;
    }
    if (per_rank > pgasi_graph_memory() / 32) {
        pgasi_graph_note("%" PRIu64 " vertices need %" PRIu64
                         " MiB and more on each rank, which has %" PRIu64
                         ": use more nodes, or number the vertices without gaps",
                         n, per_rank * 32 >> 20, pgasi_graph_memory() >> 20);
        return PGAS_ERR_NO_MEMORY;
    }
    pgas_graph_t *graph = pgasi_graph_zeroed(1, sizeof *graph);
    if (!graph)
        return PGAS_ERR_NO_MEMORY;
    *graph_p = graph; /* also after an error: the caller destroys it */
    graph->rank = pgas_rank();
    graph->n_ranks = pgas_n_ranks();
    graph->n_vertices = n;
    graph->directed = build->directed;
    graph->weight_type = build->weight_type;
    graph->first_of = pgasi_graph_zeroed((uint64_t)graph->n_ranks + 1, sizeof *graph->first_of);
    return graph->first_of ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

pgas_status_t pgasi_graph_measure(pgas_graph_t *graph)
{
    const pgasi_rows_t *rows = &graph->out;
    uint64_t n = rows->begin[graph->n_local];
    double least = graph->weight_type == PGAS_TYPE_NONE ? 1 : INFINITY;
    double greatest = graph->weight_type == PGAS_TYPE_NONE ? 1 : 0; /* also without own edges */
    uint64_t n_nan = 0;
    for (uint64_t e = 0; graph->weight_type != PGAS_TYPE_NONE && e < n; e++) {
        double weight = pgas_edge_weight(rows->weight, e, graph->weight_type);
        n_nan += isnan(weight);
        least = fmin(least, weight);
        greatest = fmax(greatest, weight);
    }
    double range[2] = { least, -greatest };
    uint64_t counts[2] = { n, n_nan };
    pgas_status_t status = pgas_allreduce(NULL, counts, counts, 2, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, range, range, 2, PGAS_F64, PGAS_MIN);
    graph->n_edges = counts[0];
    graph->least_weight = counts[1] > 0 ? NAN : range[0];
    graph->greatest_weight = -range[1];
    return status;
}

pgas_status_t pgasi_graph_build(const pgasi_build_t *build, pgasi_edges_t *edges,
                                pgas_graph_t **graph_p)
{
    given_t given = { build, edges };
    pgas_graph_t *graph = NULL;
    pgas_status_t status = pgasi_graph_agree(make_graph(build, &graph), NULL);
    if (status == PGAS_OK)
        status = make_ranges(build, edges, graph);
    if (status == PGAS_OK)
        status = pgasi_rows_make(graph, visit_given, &given, release_given, &graph->out);
    else
        pgasi_edges_fini(edges);
    if (status == PGAS_OK && build->simple)
        pgasi_rows_simplify(graph, &graph->out);
    if (status == PGAS_OK)
        status = pgasi_graph_measure(graph);
    if (status == PGAS_OK)
        *graph_p = graph;
    else
        pgas_graph_destroy(graph);
    return status;
}

/* ---- in-edges ---- */

typedef struct {
    pgas_graph_t *graph;
    const uint64_t *vertex; /* as before the ids of ghosts change */
} reversed_t;

static void visit_reversed(const void *list, pgasi_edge_fn_t take, void *arg)
{
    const reversed_t *r = list;
    const pgasi_rows_t *out = &r->graph->out;
    size_t bytes = r->graph->weight_type == PGAS_F64 ? sizeof(uint64_t) : sizeof(uint32_t);
    for (uint32_t id = 0; id < r->graph->n_local; id++) {
        for (uint64_t e = out->begin[id]; e < out->begin[id + 1]; e++) {
            uint64_t weight = 0;
            if (out->weight)
                memcpy(&weight, (const char *)out->weight + e * bytes, bytes);
            take(arg, (uint32_t)r->vertex[out->end[e]], (uint32_t)r->vertex[id], weight);
        }
    }
}

static void release_nothing(const void *list)
{
    (void)list;
}

pgas_status_t pgas_graph_reverse(pgas_graph_t *graph)
{
    if (!graph)
        return PGAS_ERR_INVALID;
    /* a run has pointers to ids and ghosts, which would change */
    return graph->is_running ? PGAS_ERR_BUSY : pgasi_graph_reverse(graph);
}

pgas_status_t pgasi_graph_reverse(pgas_graph_t *graph)
{
    if (!graph->directed || graph->in.begin)
        return PGAS_OK;
    reversed_t reversed = { graph, graph->vertex };
    pgasi_rows_t in;
    pgas_status_t status = pgasi_rows_make(graph, visit_reversed, &reversed, release_nothing, &in);
    if (status == PGAS_OK)
        graph->in = in; /* not before: ids of its ghosts are not known while it is made */
    return status;
}
