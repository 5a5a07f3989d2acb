/* Random graphs. Edge i depends on the seed and i alone, so any number of ranks makes the same
 * graph. R-MAT descends a quadtree of the adjacency matrix, one level for each bit of the vertex
 * number. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "graph/build.h"
#include "graph/graph.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

#define DEGREE_MAX (1 << 20)

typedef struct {
    pgas_graph_generator_t generator;
    uint64_t n_vertices, n_edges, seed;
    int scale;      /* RMAT: 2^scale is the least power of two with room for all vertices */
    uint64_t width; /* GRID: vertices of a row */
} recipe_t;

/* The new number of vertex x: a bijection of 0 .. 2^scale - 1. */
static uint64_t renumber(const recipe_t *r, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << r->scale) - 1, key = r->seed;
    for (int i = 0; i < 3; i++) {
        /* the factor is odd, so it is invertible modulo 2^scale */
        x = ((x + key) * UINT64_C(0x9e3779b97f4a7c15)) & mask;
        x ^= x >> (r->scale + 1) / 2;
        key = pgasi_hash_u64(key + 1);
    }
    return x;
}

/* Descends the quadtree once. */
static void descend(const recipe_t *r, uint64_t *state, uint64_t ends[2])
{
    /* .57 .76 .95 of 2^32 */
    static const uint32_t limit_a = 2448131359u, limit_b = 3264175145u, limit_c = 4080218930u;
    uint64_t from = 0, to = 0, bits = 0;
    for (int level = 0; level < r->scale; level++) {
        bits = level % 2 == 0 ? pgas_splitmix(state) : bits >> 32;
        uint32_t where = (uint32_t)bits;
        from = from << 1 | (where >= limit_b);
        to = to << 1 | ((where >= limit_a && where < limit_b) || where >= limit_c);
    }
    ends[0] = renumber(r, from);
    ends[1] = renumber(r, to);
}

/* Descends until both ends are vertices: at most four times on average. */
static void make_edge(const recipe_t *r, uint64_t i, uint64_t ends[2])
{
    uint64_t state = pgasi_hash_combine(r->seed, i);
    do {
        descend(r, &state, ends);
    } while (ends[0] >= r->n_vertices || ends[1] >= r->n_vertices);
}

static void make_uniform(const recipe_t *r, uint64_t i, uint64_t ends[2])
{
    uint64_t state = pgasi_hash_combine(r->seed, i);
    uint64_t from = pgas_splitmix(&state), to = pgas_splitmix(&state);
    ends[0] = (from >> 32) * r->n_vertices >> 32;
    ends[1] = (to >> 32) * r->n_vertices >> 32;
}

/* Edge 2 * v goes to the right, edge 2 * v + 1 down. @return whether there is such an edge */
static bool make_grid(const recipe_t *r, uint64_t i, uint64_t ends[2])
{
    uint64_t v = i / 2;
    bool down = i % 2 == 1;
    ends[0] = v;
    ends[1] = v + (down ? r->width : 1);
    return ends[1] < r->n_vertices && (down || ends[1] % r->width != 0);
}

static pgas_status_t make_recipe(const pgas_graph_opts_t *opts, recipe_t *r)
{
    pgas_graph_opts_t o = PGAS_GRAPH_OPTS_INIT;
    o = opts ? *opts : o; /* its size is checked */
    uint64_t degree = (uint64_t)(o.edges_per_vertex != 0 ? o.edges_per_vertex : 16);
    r->generator = o.generator;
    r->n_vertices = o.n_vertices != 0 ? o.n_vertices : 65536;
    r->n_edges = r->n_vertices * (o.generator == PGAS_GRAPH_GRID ? 2 : degree);
    r->seed = o.seed != 0 ? o.seed : 1;
    r->scale = (int)pgasi_log2_up(r->n_vertices);
    r->width = (uint64_t)ceil(sqrt((double)r->n_vertices));
    bool sane = r->n_vertices <= PGASI_GRAPH_VERTICES_MAX && o.edges_per_vertex >= 0 &&
                o.edges_per_vertex <= DEGREE_MAX && o.generator >= PGAS_GRAPH_RMAT &&
                o.generator <= PGAS_GRAPH_GRID;
    if (!sane) {
        pgasi_graph_note("n_vertices %" PRIu64
                         " or edges_per_vertex %d is out of range (at most %" PRIu32
                         " and %d), or there is no generator %d",
                         o.n_vertices, o.edges_per_vertex, PGASI_GRAPH_VERTICES_MAX, DEGREE_MAX,
                         (int)o.generator);
    }
    return sane ? PGAS_OK : PGAS_ERR_INVALID;
}

/* Makes this rank's share of the edges. */
static pgas_status_t make_edges(const recipe_t *r, pgasi_edges_t *edges)
{
    uint64_t n_ranks = (uint64_t)pgas_n_ranks(), share = PGASI_DIV_UP(r->n_edges, n_ranks);
    uint64_t begin = PGASI_MIN(share * (uint64_t)pgas_rank(), r->n_edges);
    uint64_t end = PGASI_MIN(begin + share, r->n_edges), ends[2];
    pgas_status_t status = PGAS_OK;
    /* malloc does not fail on machines that overcommit memory */
    if (share > pgasi_graph_memory() / (2 * sizeof(uint64_t))) {
        pgasi_graph_note("%" PRIu64 " edges on each rank take %" PRIu64 " MiB, it has %" PRIu64
                         ": use more nodes or a smaller graph",
                         share, share >> 16, pgasi_graph_memory() >> 20);
        return PGAS_ERR_NO_MEMORY;
    }
    for (uint64_t i = begin; status == PGAS_OK && i < end; i++) {
        bool exists = true;
        if (r->generator == PGAS_GRAPH_RMAT)
            make_edge(r, i, ends);
        else if (r->generator == PGAS_GRAPH_UNIFORM)
            make_uniform(r, i, ends);
        else
            exists = make_grid(r, i, ends);
        if (exists)
            status = pgasi_edges_add(edges, ends[0], ends[1], 1);
    }
    return status;
}

pgas_status_t pgas_graph_generate(const pgas_graph_opts_t *opts, pgas_graph_t **graph_p)
{
    recipe_t recipe = { 0 };
    pgasi_build_t build;
    pgasi_edges_t edges;
    uint64_t begin_ns = pgasi_now_ns();
    pgas_status_t status = pgasi_graph_start();
    if (status != PGAS_OK)
        return status;
    status = graph_p ? pgasi_build_of(opts, &build) : PGAS_ERR_INVALID;
    if (!graph_p)
        pgasi_graph_note("pgas_graph_generate: graph_p is NULL");
    if (status == PGAS_OK)
        status = make_recipe(opts, &recipe);
    status = pgasi_graph_agree(status, NULL);
    if (status == PGAS_OK)
        status = pgasi_build_share(&build);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, &recipe, sizeof recipe, 0);
    if (status != PGAS_OK)
        return status;
    build.n_vertices = recipe.n_vertices;
    pgasi_edges_init(&edges, pgasi_build_weights(&build, false));
    status = pgasi_graph_agree(make_edges(&recipe, &edges), NULL);
    if (status == PGAS_OK)
        status = pgasi_graph_build(&build, &edges, graph_p);
    else
        pgasi_edges_fini(&edges);
    if (status == PGAS_OK)
        (*graph_p)->seconds = 1e-9 * (double)(pgasi_now_ns() - begin_ns);
    return status;
}
