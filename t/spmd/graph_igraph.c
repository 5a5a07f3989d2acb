/* Graph algorithms against igraph.
 *   what:   On 200 random graphs the algorithms give the results of igraph: levels, PageRank
 *           (PRPACK), weak components, distances (Dijkstra), coefficients, triangles and
 *           betweenness.
 *   np:     1 2 3
 *   nodes:  0 1 2
 *   source: igraph 0.10, functions of the same names; seeded model test
 */
#include "config.h"
#include "t/spmd/graph_pair.h"

#ifdef PGAS_HAVE_IGRAPH
#include <igraph.h>
#include <math.h>

enum { LEVELS, PAGERANK, COMPONENTS, DISTANCES, COEFFICIENTS, TRIANGLES, BETWEENNESS, N_QUESTIONS };
enum { GRAPHS = 200, VERTICES_MAX = 60 };

static const char *const names[N_QUESTIONS] = { "bfs: igraph_distances",
                                                "pagerank: igraph_pagerank",
                                                "components: igraph_connected_components",
                                                "sssp: igraph_distances_dijkstra",
                                                "lcc: igraph_transitivity_local_undirected",
                                                "triangles: igraph_list_triangles",
                                                "betweenness: igraph_betweenness" };

/* A graph three times: the pair, and for igraph as it is and undirected without multiple edges. */
typedef struct {
    pair_t *pair;
    igraph_t graph, simple;
    igraph_vector_t weights;
    uint64_t source;
    void *mine;   /* values of this rank's vertices, 8 bytes each */
    double *want; /* values of all vertices */
} case_t;

/* ---- igraph's graph ---- */

/* The edges of the pair, which has no loops. */
static void set_up(case_t *c, pgasi_rng_t *rng)
{
    const pair_t *p = c->pair;
    igraph_vector_int_t edges;
    igraph_vector_int_init(&edges, 2 * (igraph_integer_t)p->n_edges);
    igraph_vector_init(&c->weights, (igraph_integer_t)p->n_edges);
    for (size_t i = 0; i < p->n_edges; i++) {
        VECTOR(edges)[2 * i] = (igraph_integer_t)p->ends[2 * i];
        VECTOR(edges)[2 * i + 1] = (igraph_integer_t)p->ends[2 * i + 1];
        VECTOR(c->weights)[i] = p->weight_type == PGAS_TYPE_NONE ? 1 : p->weights[i];
    }
    igraph_create(&c->graph, &edges, (igraph_integer_t)p->n, p->directed);
    igraph_copy(&c->simple, &c->graph);
    igraph_to_undirected(&c->simple, IGRAPH_TO_UNDIRECTED_EACH, NULL);
    igraph_simplify(&c->simple, true, true, NULL);
    igraph_vector_int_destroy(&edges);
    c->source = pgasi_rng_below(rng, p->n);
    c->mine = job_alloc(((size_t)p->info.n_local + 1) * 8);
    c->want = (double *)job_alloc((size_t)p->n * sizeof *c->want);
}

static void tear_down(case_t *c)
{
    igraph_destroy(&c->graph);
    igraph_destroy(&c->simple);
    igraph_vector_destroy(&c->weights);
    free(c->mine);
    free(c->want);
}

/* ---- comparing ---- */

static void take_vector(case_t *c, igraph_vector_t *from)
{
    for (uint64_t v = 0; v < c->pair->n; v++)
        c->want[v] = VECTOR(*from)[v];
    igraph_vector_destroy(from);
}

static void take_row(case_t *c, igraph_matrix_t *from)
{
    for (uint64_t v = 0; v < c->pair->n; v++)
        c->want[v] = MATRIX(*from, 0, (igraph_integer_t)v);
    igraph_matrix_destroy(from);
}

static bool near(double got, double want, double tolerance)
{
    return got == want || fabs(got - want) <= tolerance * fmax(1, fabs(want));
}

static bool reals_are(const case_t *c, double tolerance)
{
    const double *mine = c->mine;
    bool good = true;
    for (uint64_t i = 0; i < c->pair->info.n_local; i++)
        good = good && near(mine[i], c->want[c->pair->info.first_vertex + i], tolerance);
    return good;
}

/* ---- one question each ---- */

static bool ask_levels(case_t *c, const pgas_graph_run_opts_t *opts)
{
    igraph_matrix_t levels;
    const int64_t *mine = c->mine;
    bool good = pgas_bfs(c->pair->graph, c->source, opts, c->mine, NULL, NULL) == PGAS_OK;
    igraph_matrix_init(&levels, 0, 0);
    igraph_distances(&c->graph, &levels, igraph_vss_1((igraph_integer_t)c->source),
                     igraph_vss_all(), IGRAPH_OUT);
    take_row(c, &levels);
    for (uint64_t i = 0; i < c->pair->info.n_local; i++) {
        double want = c->want[c->pair->info.first_vertex + i];
        good = good && mine[i] == (isinf(want) ? INT64_MAX : (int64_t)want);
    }
    return good;
}

static bool ask_pagerank(case_t *c, const pgas_graph_run_opts_t *opts)
{
    pgas_graph_run_opts_t close = *opts;
    igraph_vector_t ranks;
    close.tolerance = 1e-14;
    close.damping = .7;
    close.iterations = 1000;
    bool good = pgas_pagerank(c->pair->graph, &close, c->mine, NULL) == PGAS_OK;
    igraph_vector_init(&ranks, 0);
    igraph_pagerank(&c->graph, IGRAPH_PAGERANK_ALGO_PRPACK, &ranks, NULL, igraph_vss_all(),
                    c->pair->directed, close.damping, NULL, NULL);
    take_vector(c, &ranks);
    return good && reals_are(c, 1e-9);
}

static bool ask_components(case_t *c, const pgas_graph_run_opts_t *opts)
{
    igraph_vector_int_t member;
    uint64_t least[VERTICES_MAX];
    const uint64_t *mine = c->mine;
    bool good = pgas_components(c->pair->graph, opts, c->mine, NULL) == PGAS_OK;
    igraph_vector_int_init(&member, 0);
    igraph_connected_components(&c->graph, &member, NULL, NULL, IGRAPH_WEAK);
    for (uint64_t v = c->pair->n; v-- > 0;)
        least[VECTOR(member)[v]] = v;
    for (uint64_t i = 0; i < c->pair->info.n_local; i++)
        good = good && mine[i] == least[VECTOR(member)[c->pair->info.first_vertex + i]];
    igraph_vector_int_destroy(&member);
    return good;
}

static bool ask_distances(case_t *c, const pgas_graph_run_opts_t *opts)
{
    igraph_matrix_t distances;
    bool good = pgas_sssp(c->pair->graph, c->source, opts, c->mine, NULL) == PGAS_OK;
    igraph_matrix_init(&distances, 0, 0);
    igraph_distances_dijkstra(&c->graph, &distances, igraph_vss_1((igraph_integer_t)c->source),
                              igraph_vss_all(), &c->weights, IGRAPH_OUT);
    take_row(c, &distances);
    return good && reals_are(c, 1e-12);
}

/* igraph ignores directions, so the test does not compare directed graphs. */
static bool ask_coefficients(case_t *c, const pgas_graph_run_opts_t *opts)
{
    igraph_vector_t values;
    bool good = pgas_lcc(c->pair->graph, opts, c->mine, NULL) == PGAS_OK;
    igraph_vector_init(&values, 0);
    igraph_transitivity_local_undirected(&c->simple, &values, igraph_vss_all(),
                                         IGRAPH_TRANSITIVITY_ZERO);
    take_vector(c, &values);
    return good && (c->pair->directed || reals_are(c, 1e-12));
}

static bool ask_triangles(case_t *c, const pgas_graph_run_opts_t *opts)
{
    igraph_vector_int_t triangles;
    uint64_t n = 0;
    bool good = pgas_triangles(c->pair->graph, opts, &n, NULL) == PGAS_OK;
    igraph_vector_int_init(&triangles, 0);
    igraph_list_triangles(&c->simple, &triangles);
    good = good && 3 * n == (uint64_t)igraph_vector_int_size(&triangles);
    igraph_vector_int_destroy(&triangles);
    return good;
}

/* igraph counts each pair of an undirected graph once. All sources take some hundred exchanges, so
 * large graphs are not asked. */
static bool ask_betweenness(case_t *c, const pgas_graph_run_opts_t *opts)
{
    igraph_vector_t values;
    uint64_t all[VERTICES_MAX];
    if (c->pair->n > VERTICES_MAX / 3)
        return true;
    for (uint64_t v = 0; v < c->pair->n; v++)
        all[v] = v;
    bool good = pgas_betweenness(c->pair->graph, all, c->pair->n, opts, c->mine, NULL) == PGAS_OK;
    igraph_vector_init(&values, 0);
    igraph_betweenness(&c->graph, &values, igraph_vss_all(), c->pair->directed, NULL);
    igraph_vector_scale(&values, c->pair->directed ? 1 : 2);
    take_vector(c, &values);
    return good && reals_are(c, 1e-9);
}

static bool (*const questions[N_QUESTIONS])(case_t *, const pgas_graph_run_opts_t *) = {
    ask_levels,       ask_pagerank,  ask_components, ask_distances,
    ask_coefficients, ask_triangles, ask_betweenness
};

/* ---- all of them ---- */

static pair_t draw_graph(pgasi_rng_t *rng, int i)
{
    static const pgas_type_t types[] = { PGAS_TYPE_NONE, PGAS_U32, PGAS_F64, PGAS_F32 };
    pair_t form = { .n = 2 + pgasi_rng_below(rng, VERTICES_MAX - 1),
                    .directed = i % 2 == 0,
                    .weight_type = types[pgasi_rng_below(rng, 4)] };
    form.n_edges = (size_t)pgasi_rng_below(rng, 4 * form.n + 1);
    return pair_make(form, rng, false);
}

/* Values of this rank that differ from igraph's on purpose. */
static bool can_differ(case_t *c)
{
    double *mine = c->mine;
    if (c->pair->info.n_local == 0)
        return true;
    mine[0] = c->want[c->pair->info.first_vertex] + 1e-3;
    return !reals_are(c, 1e-9);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, N_QUESTIONS + 1);
    bool good[N_QUESTIONS], differs = true;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, spmd_seed(20240702));
    memset(good, true, sizeof good);
    for (int i = 0; i < GRAPHS; i++) {
        pair_t pair = draw_graph(&rng, i);
        case_t c = { .pair = &pair };
        pgas_graph_run_opts_t opts = { .size = sizeof opts };
        opts.exchange = i % 4 == 3 ? PGAS_GRAPH_ARRAY : PGAS_GRAPH_MESSAGES;
        opts.direction = (pgas_graph_direction_t)(i / 4 % 3);
        set_up(&c, &rng);
        for (int q = 0; q < N_QUESTIONS; q++) {
            bool answer = questions[q](&c, &opts);
            if (!answer && good[q])
                pair_diag(&pair, names[q]);
            good[q] = good[q] && answer;
        }
        differs = differs && can_differ(&c);
        tear_down(&c);
        pair_free(&pair);
    }
    for (int q = 0; q < N_QUESTIONS; q++)
        spmd_ok(good[q], "%s, %d graphs", names[q], GRAPHS);
    spmd_ok(differs, "a changed value is noticed (broken on purpose)");
    return job_end();
}

#else

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_skip_all("built without igraph");
    return spmd_end();
}

#endif
