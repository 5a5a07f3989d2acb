/* Label propagation, clustering coefficients and triangles.
 *   what:   On any number of ranks and threads, with both exchanges, the results are those of the
 *           definitions, computed from a matrix: for the examples of LDBC Graphalytics, and for
 *           random graphs with loops and multiple edges. The comparison finds a changed value.
 *   np:     1 2 3 5 7
 *   nodes:  0 1 2 3
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 PGAS_LANES=1 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/graph.h; LDBC Graphalytics, validation graphs; seeded model test
 */
#include <math.h>
#include <pthread.h>
#include "base/rng.h"
#include "pgas/graph.h"
#include "t/spmd/job.h"

enum { ROUNDS = 3, N_RANDOM = 12, N_MAX = 400 };

/* ---- a graph as a matrix, and as the library's ---- */

typedef struct {
    uint64_t n;
    bool directed;
    uint64_t n_edges;
    uint64_t *ends;   /* two for each edge */
    uint32_t *matrix; /* [n * n] the number of edges from the row to the column */
    uint64_t *label;  /* [n] the expected results */
    double *lcc;
    uint64_t n_triangles;
    pgas_graph_t *graph;
    pgas_graph_info_t info;
} case_t;

static uint32_t edges_of(const case_t *c, uint64_t from, uint64_t to)
{
    return c->matrix[from * c->n + to];
}

static bool adjacent(const case_t *c, uint64_t a, uint64_t b)
{
    return a != b && (edges_of(c, a, b) > 0 || edges_of(c, b, a) > 0);
}

static void fill_matrix(case_t *c)
{
    for (uint64_t i = 0; i < c->n_edges; i++) {
        uint64_t from = c->ends[2 * i], to = c->ends[2 * i + 1];
        c->matrix[from * c->n + to]++;
        if (!c->directed && from != to)
            c->matrix[to * c->n + from]++;
    }
}

/* ---- the definitions ---- */

static uint64_t next_label(const case_t *c, const uint64_t *label, uint64_t v, uint64_t *count)
{
    uint64_t best = label[v];
    memset(count, 0, c->n * sizeof *count);
    for (uint64_t u = 0; u < c->n; u++)
        count[label[u]] += edges_of(c, v, u) + (c->directed ? edges_of(c, u, v) : 0);
    for (uint64_t l = c->n; l-- > 0;)
        if (count[l] > 0 && (count[best] == 0 || count[l] >= count[best]))
            best = l;
    return best;
}

static void expect_labels(case_t *c)
{
    uint64_t *count = (uint64_t *)job_alloc(2 * c->n * sizeof *count), *next = count + c->n;
    for (uint64_t v = 0; v < c->n; v++)
        c->label[v] = v;
    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t v = 0; v < c->n; v++)
            next[v] = next_label(c, c->label, v, count);
        memcpy(c->label, next, c->n * sizeof *next);
    }
    free(count);
}

static void expect_lcc(case_t *c)
{
    uint64_t n_closed = 0;
    for (uint64_t v = 0; v < c->n; v++) {
        uint64_t degree = 0, n_edges = 0;
        for (uint64_t a = 0; a < c->n; a++) {
            if (!adjacent(c, v, a))
                continue;
            degree++;
            for (uint64_t b = 0; b < c->n; b++) {
                if (a == b || !adjacent(c, v, b))
                    continue;
                n_edges += edges_of(c, a, b) > 0;
                n_closed += adjacent(c, a, b);
            }
        }
        c->lcc[v] = degree > 1 ? (double)n_edges / (double)(degree * (degree - 1)) : 0;
    }
    c->n_triangles = n_closed / 6;
}

/* Rank r gives the edges i with i % n_ranks = r. */
static void make_graph(case_t *c)
{
    pgas_graph_opts_t opts = PGAS_GRAPH_OPTS_INIT;
    uint64_t *ends = (uint64_t *)job_alloc(2 * c->n_edges * sizeof *ends), n = 0;
    opts.undirected = !c->directed;
    for (uint64_t i = (uint64_t)me; i < c->n_edges; i += (uint64_t)n_ranks, n++)
        memcpy(ends + 2 * n, c->ends + 2 * i, 2 * sizeof *ends);
    pgas_graph_edges_t edges = { n, ends, NULL };
    pgas_status_t status = pgas_graph_create(c->n, &edges, &opts, &c->graph);
    if (status != PGAS_OK) {
        printf("Bail out! no graph: %s\n", pgas_status_text(status));
        exit(99);
    }
    c->info.size = sizeof c->info;
    pgas_graph_info(c->graph, &c->info);
    free(ends);
}

static case_t case_make(uint64_t n, bool directed, uint64_t n_edges, uint64_t *ends)
{
    case_t c = { .n = n, .directed = directed, .n_edges = n_edges, .ends = ends };
    c.matrix = (uint32_t *)job_alloc(n * n * sizeof *c.matrix);
    c.label = (uint64_t *)job_alloc(n * sizeof *c.label);
    c.lcc = (double *)job_alloc(n * sizeof *c.lcc);
    fill_matrix(&c);
    expect_labels(&c);
    expect_lcc(&c);
    make_graph(&c);
    return c;
}

static void case_fini(case_t *c)
{
    pgas_graph_destroy(c->graph);
    free(c->ends);
    free(c->matrix);
    free(c->label);
    free(c->lcc);
}

/* Edges of which many are at a few vertices; with loops and multiple edges. */
static case_t case_random(pgasi_rng_t *rng)
{
    uint64_t n = 1 + pgasi_rng_below(rng, N_MAX), n_edges = pgasi_rng_below(rng, 12 * n);
    bool directed = pgasi_rng_below(rng, 2) == 0;
    uint64_t *ends = (uint64_t *)job_alloc(2 * n_edges * sizeof *ends);
    for (uint64_t i = 0; i < n_edges; i++) {
        ends[2 * i] = pgasi_rng_below(rng, n);
        ends[2 * i + 1] = pgasi_rng_below(rng, pgasi_rng_below(rng, n) + 1);
    }
    return case_make(n, directed, n_edges, ends);
}

/* ---- threads ---- */

typedef struct {
    pgas_graph_work_fn_t work;
    void *arg;
    int i, n;
} worker_t;

static void *run_worker(void *arg)
{
    worker_t *w = (worker_t *)arg;
    w->work(w->i, w->n, w->arg);
    return NULL;
}

static void run_threads(int n_threads, pgas_graph_work_fn_t work, void *arg)
{
    pthread_t thread[8];
    worker_t worker[8];
    for (int i = 1; i < n_threads; i++) {
        worker[i] = (worker_t){ work, arg, i, n_threads };
        pthread_create(&thread[i], NULL, run_worker, &worker[i]);
    }
    work(0, n_threads, arg);
    for (int i = 1; i < n_threads; i++)
        pthread_join(thread[i], NULL);
}

/* ---- comparison ---- */

static int most_rounds; /* of pgas_lcc */

typedef struct {
    uint64_t *label;
    double *lcc;
    uint64_t n_triangles;
    pgas_graph_run_info_t info[3];
} results_t;

static results_t run_all(const case_t *c, const pgas_graph_run_opts_t *opts)
{
    results_t r = { 0 };
    r.label = (uint64_t *)job_alloc(c->info.n_local * sizeof *r.label);
    r.lcc = (double *)job_alloc(c->info.n_local * sizeof *r.lcc);
    for (int i = 0; i < 3; i++)
        r.info[i].size = sizeof r.info[i];
    pgas_status_t status = pgas_cdlp(c->graph, opts, r.label, &r.info[0]);
    if (status == PGAS_OK)
        status = pgas_lcc(c->graph, opts, r.lcc, &r.info[1]);
    if (status == PGAS_OK)
        status = pgas_triangles(c->graph, opts, &r.n_triangles, &r.info[2]);
    if (status != PGAS_OK)
        r.n_triangles = UINT64_MAX;
    most_rounds = r.info[1].iterations > most_rounds ? r.info[1].iterations : most_rounds;
    return r;
}

static uint64_t count_different(const case_t *c)
{
    uint64_t n = 0;
    for (uint64_t l = 0; l < c->n; l++) {
        bool used = false;
        for (uint64_t v = 0; v < c->n && !used; v++)
            used = c->label[v] == l;
        n += used;
    }
    return n;
}

static bool results_are(const case_t *c, const results_t *r)
{
    bool good = r->n_triangles == c->n_triangles && r->info[2].n_found == c->n_triangles &&
                r->info[0].n_found == count_different(c);
    for (uint32_t i = 0; i < c->info.n_local; i++) {
        uint64_t v = c->info.first_vertex + i;
        good = good && r->label[i] == c->label[v] && fabs(r->lcc[i] - c->lcc[v]) < 1e-15;
    }
    return good;
}

static void results_fini(results_t *r)
{
    free(r->label);
    free(r->lcc);
}

/* Runs with both exchanges, and 1 and 3 threads. */
static bool is_good(const case_t *c)
{
    bool good = true;
    for (int variant = 0; variant < 4; variant++) {
        pgas_graph_run_opts_t opts = PGAS_GRAPH_RUN_OPTS_INIT;
        opts.iterations = ROUNDS;
        opts.exchange = variant & 1 ? PGAS_GRAPH_ARRAY : PGAS_GRAPH_MESSAGES;
        opts.n_threads = variant & 2 ? 3 : 1;
        opts.parallel = run_threads;
        results_t r = run_all(c, &opts);
        if (!results_are(c, &r)) {
            spmd_diag("variant %d: %llu vertices, %llu edges, %s: %llu triangles, want %llu",
                      variant, (unsigned long long)c->n, (unsigned long long)c->n_edges,
                      c->directed ? "directed" : "undirected", (unsigned long long)r.n_triangles,
                      (unsigned long long)c->n_triangles);
            good = false;
        }
        results_fini(&r);
    }
    return good;
}

/* ---- promises ---- */

/* The example graphs of LDBC Graphalytics, whose vertices count from 1. */
static const uint64_t directed_ends[] = { 1,  3, 1, 5, 2, 4, 2, 5, 2, 10, 3, 1, 3, 5, 3, 8, 3,
                                          10, 5, 3, 5, 4, 5, 8, 6, 3, 6,  4, 7, 4, 8, 1, 9, 4 };
static const double directed_lcc[] = { 2.0 / 3, 1.0 / 6, .15, .05, .25, 0, 0, 5.0 / 6, 0, 0 };
static const uint64_t directed_label[] = { 1, 2, 3, 4, 1, 1, 2, 3, 2, 1 };
static const uint64_t undirected_ends[] = { 2, 3, 2, 4, 3, 4, 3, 5, 3, 8,  5, 6,
                                            5, 8, 6, 7, 6, 8, 6, 9, 6, 10, 7, 9 };
static const double undirected_lcc[] = { 1, 1.0 / 3, 1, 2.0 / 3, .2, 1, 2.0 / 3, 1, 0 };

static case_t example(bool directed)
{
    const uint64_t *from = directed ? directed_ends : undirected_ends;
    size_t n = (directed ? sizeof directed_ends : sizeof undirected_ends) / sizeof *from;
    uint64_t first = directed ? 1 : 2;
    uint64_t *ends = (uint64_t *)job_alloc(n * sizeof *ends);
    for (size_t i = 0; i < n; i++)
        ends[i] = from[i] - first;
    return case_make(11 - first, directed, n / 2, ends);
}

static void examples(void)
{
    case_t c = example(true);
    bool good = true;
    for (uint64_t v = 0; v < c.n; v++)
        good = good && fabs(c.lcc[v] - directed_lcc[v]) < 1e-12;
    spmd_ok(good && is_good(&c), "LDBC, directed");
    pgas_graph_run_opts_t opts = PGAS_GRAPH_RUN_OPTS_INIT;
    opts.iterations = 2;
    results_t r = run_all(&c, &opts);
    for (uint32_t i = 0; i < c.info.n_local; i++)
        good = good && r.label[i] + 1 == directed_label[c.info.first_vertex + i];
    spmd_ok(good && r.info[0].iterations == 2, "its labels after two rounds");
    results_fini(&r);
    case_fini(&c);

    c = example(false);
    for (uint64_t v = 0; v < c.n; v++)
        good = good && fabs(c.lcc[v] - undirected_lcc[v]) < 1e-12;
    spmd_ok(good && is_good(&c), "LDBC, undirected");
    case_fini(&c);
}

static void random_graphs(uint64_t seed)
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < N_RANDOM; i++) {
        case_t c = case_random(&rng);
        spmd_ok(is_good(&c), "%llu vertices, %llu edges, %s", (unsigned long long)c.n,
                (unsigned long long)c.n_edges, c.directed ? "directed" : "undirected");
        case_fini(&c);
    }
    spmd_ok(n_ranks == 1 ? most_rounds == 1 : most_rounds > 2, "rows travel in several rounds: %d",
            most_rounds);
}

/* No label changes after the first round, so the rounds end early. */
static void stable_labels(void)
{
    uint64_t *ends = (uint64_t *)job_alloc(6 * sizeof *ends);
    const uint64_t triangle[] = { 0, 1, 1, 2, 2, 0 };
    memcpy(ends, triangle, sizeof triangle);
    case_t c = case_make(3, true, 3, ends);
    pgas_graph_run_opts_t opts = PGAS_GRAPH_RUN_OPTS_INIT;
    opts.iterations = 1000000000;
    results_t r = run_all(&c, &opts);
    spmd_ok(r.n_triangles == 1 && r.info[0].iterations < 10 && r.info[0].n_found == 1,
            "rounds end when no label changes");
    results_fini(&r);
    case_fini(&c);
}

static void comparison_can_fail(uint64_t seed)
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    case_t c = case_random(&rng);
    pgas_graph_run_opts_t opts = PGAS_GRAPH_RUN_OPTS_INIT;
    opts.iterations = ROUNDS;
    results_t r = run_all(&c, &opts);
    bool has = c.info.n_local > 0;
    if (has)
        r.label[c.info.n_local - 1]++;
    spmd_ok(!has || !results_are(&c, &r), "a label off by 1 is found (broken on purpose)");
    if (has) {
        r.label[c.info.n_local - 1]--;
        r.lcc[0] += 1e-9;
    }
    spmd_ok(!has || !results_are(&c, &r), "so is a coefficient (broken on purpose)");
    if (has)
        r.lcc[0] = c.lcc[c.info.first_vertex];
    r.n_triangles++;
    spmd_ok(!results_are(&c, &r), "and a triangle too many (broken on purpose)");
    results_fini(&r);
    case_fini(&c);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 3 + N_RANDOM + 1 + 1 + 3);
    uint64_t seed = spmd_seed(20261128);
    examples();
    random_graphs(seed);
    stable_labels();
    comparison_can_fail(seed);
    return job_end();
}
