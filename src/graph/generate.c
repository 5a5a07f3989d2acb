/* Random graphs. Edge i depends on the seed and i alone, so any number of ranks makes the same
 * graph. R-MAT descends a quadtree of the adjacency matrix, one level for each bit of the vertex
 * number. */
#include <inttypes.h>
#include <stdlib.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "graph/graph.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

#define VERTICES_MAX (UINT64_C(1) << 40)
#define DEGREE_MAX   (1 << 20)

typedef struct {
    uint64_t n_vertices, n_edges, seed;
    int scale; /* 2^scale is the least power of two with room for all vertices */
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

static pgas_status_t make_recipe(const pgas_graph_generate_opts_t *opts, recipe_t *r)
{
    pgas_graph_generate_opts_t o = PGAS_GRAPH_GENERATE_OPTS_INIT;
    if (!PGASI_OPTS_SANE(opts, sizeof o)) {
        pgasi_graph_note("pgas_graph_generate: opts->size is too small");
        return PGAS_ERR_INVALID;
    }
    o = opts ? *opts : o;
    r->n_vertices = o.n_vertices != 0 ? o.n_vertices : 65536;
    r->n_edges = r->n_vertices * (uint64_t)(o.edges_per_vertex != 0 ? o.edges_per_vertex : 16);
    r->seed = o.seed != 0 ? o.seed : 1;
    r->scale = (int)pgasi_log2_up(r->n_vertices);
    bool sane = r->n_vertices <= VERTICES_MAX && o.edges_per_vertex >= 0 &&
                o.edges_per_vertex <= DEGREE_MAX;
    if (!sane) {
        pgasi_graph_note("%" PRIu64 " vertices with %d edges each cannot be made, at most %" PRIu64
                         " with %d",
                         o.n_vertices, o.edges_per_vertex, VERTICES_MAX, DEGREE_MAX);
    }
    return sane ? PGAS_OK : PGAS_ERR_INVALID;
}

/* malloc alone does not fail on machines that overcommit memory. */
static uint64_t *allocate(uint64_t share, uint64_t n_edges)
{
    if (share > pgasi_graph_memory() / (2 * sizeof(uint64_t))) {
        pgasi_graph_note("%" PRIu64 " edges on each rank take %" PRIu64 " MiB, there are %" PRIu64
                         ": use more nodes or a smaller graph",
                         share, share >> 16, pgasi_graph_memory() >> 20);
        return NULL;
    }
    return pgasi_graph_array(2 * n_edges, sizeof(uint64_t));
}

pgas_status_t pgas_graph_generate(const pgas_graph_generate_opts_t *opts, pgas_graph_t **graph_p)
{
    recipe_t recipe = { 0 };
    uint64_t begin = 0, n_edges = 0, *ends = NULL, begin_ns = pgasi_now_ns();
    pgas_status_t status = pgasi_graph_start();
    if (status != PGAS_OK)
        return status;
    if (!graph_p)
        pgasi_graph_note("pgas_graph_generate: graph_p is NULL");
    status = pgasi_graph_agree(graph_p ? make_recipe(opts, &recipe) : PGAS_ERR_INVALID, NULL);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, &recipe, sizeof recipe, 0);
    if (status == PGAS_OK) {
        uint64_t share = PGASI_DIV_UP(recipe.n_edges, (uint64_t)pgas_n_ranks());
        begin = PGASI_MIN(share * (uint64_t)pgas_rank(), recipe.n_edges);
        n_edges = PGASI_MIN(share, recipe.n_edges - begin);
        ends = allocate(share, n_edges);
        status = pgasi_graph_agree(ends ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    }
    if (status != PGAS_OK) {
        free(ends);
        return status;
    }
    for (uint64_t i = 0; i < n_edges; i++)
        make_edge(&recipe, begin + i, ends + 2 * i);
    status = pgasi_graph_build(recipe.n_vertices, ends, n_edges, ends, graph_p);
    if (status == PGAS_OK)
        (*graph_p)->seconds = 1e-9 * (double)(pgasi_now_ns() - begin_ns);
    return status;
}
