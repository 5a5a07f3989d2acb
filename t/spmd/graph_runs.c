/* Runs of graph algorithms, by the example of PageRank.
 *   what:   Values have the same bits each time, on any number of threads. All ranks use the limits
 *           and options of rank 0. A second run allocates nothing. Lists of the greatest values are
 *           sorted. All ranks refuse options out of range.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 PGAS_LANES=1 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/graph.h; design.md, PageRank; seeded model test
 */
#include <math.h>
#include <pthread.h>
#include <pgas/edge_map.h>
#include "t/spmd/graph_model.h"
#include "t/spmd/said.h"
#include "tools/graph_check.h"

/* ---- threads of the test's own ---- */

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
    pthread_t thread[16];
    worker_t worker[16];
    for (int i = 1; i < n_threads; i++) {
        worker[i] = (worker_t){ work, arg, i, n_threads };
        pthread_create(&thread[i], NULL, run_worker, &worker[i]);
    }
    work(0, n_threads, arg);
    for (int i = 1; i < n_threads; i++)
        pthread_join(thread[i], NULL);
}

/* ---- a graph, its values, and the expected ones ---- */

typedef struct {
    model_t model;
    pgas_graph_t *graph;
    pgas_graph_info_t info;
    double *values, *again;
} ranked_t;

static ranked_t set_up(model_t model)
{
    ranked_t r = { .model = model };
    pgas_graph_edges_t edges = { me == 0 ? model.n_edges : 0, model.ends, NULL };
    pgas_status_t status = pgas_graph_create(model.n_vertices, &edges, NULL, &r.graph);
    if (status != PGAS_OK) {
        printf("Bail out! no graph: %s\n", pgas_status_text(status));
        exit(99);
    }
    r.info.size = sizeof r.info;
    pgas_graph_info(r.graph, &r.info);
    r.values = (double *)job_alloc(r.info.n_local * sizeof(double));
    r.again = (double *)job_alloc(r.info.n_local * sizeof(double));
    return r;
}

static void tear_down(ranked_t *r)
{
    pgas_graph_destroy(r->graph);
    free(r->values);
    free(r->again);
    model_free(&r->model);
}

/* Compares the values of all ranks with serial ones, on every rank. */
static bool is_right(const ranked_t *r, check_pagerank_t how)
{
    const model_t *m = &r->model;
    size_t bytes_of[JOB_RANKS_MAX];
    double *all = (double *)job_alloc(m->n_vertices * sizeof *all);
    check_graph_t whole = { .n = m->n_vertices, .directed = true };
    bool good = check_graph_alloc(&whole, m->n_edges, false);
    for (int k = 0; k < n_ranks; k++)
        bytes_of[k] = (size_t)(r->info.first_of[k + 1] - r->info.first_of[k]) * sizeof(double);
    pgas_allgatherv(NULL, r->values, r->info.n_local * sizeof(double), all, bytes_of);
    memcpy(whole.begin, m->offsets, (m->n_vertices + 1) * sizeof *whole.begin);
    for (uint64_t e = 0; e < m->n_edges; e++)
        whole.end[e] = (uint32_t)m->targets[e];
    check_verdict_t verdict = check_pagerank(&whole, &how, all);
    if (verdict.result != CHECK_RIGHT)
        spmd_diag("%s", verdict.text);
    check_graph_free(&whole);
    free(all);
    return good && verdict.result == CHECK_RIGHT;
}

static bool values_are_again(const ranked_t *r)
{
    return r->info.n_local == 0 ||
           memcmp(r->values, r->again, r->info.n_local * sizeof(double)) == 0;
}

/* ---- promises ---- */

static void as_serial(ranked_t *r)
{
    pgas_graph_run_opts_t opts = PGAS_GRAPH_RUN_OPTS_INIT;
    pgas_graph_run_info_t info = { .size = sizeof info };
    pgas_status_t status = pgas_pagerank(r->graph, NULL, r->values, &info);
    spmd_ok(status == PGAS_OK && is_right(r, (check_pagerank_t){ 20, .85, false }),
            "20 sweeps by default");
    spmd_ok(info.iterations == 20 && fabs(info.sum - 1) < 1e-12 && info.change > 0, "the sum is 1");
    spmd_ok(n_ranks > 1 ? info.n_sent <= 20 * (uint64_t)n_ranks * r->info.n_local
                        : info.n_sent == 0,
            "a sweep sends no value twice to a rank");

    opts.damping = 1;
    opts.no_dangling = true;
    opts.iterations = 7;
    status = pgas_pagerank(r->graph, &opts, r->values, &info);
    spmd_ok(status == PGAS_OK && is_right(r, (check_pagerank_t){ 7, 1, true }) && info.sum < 0.9,
            "damping 1, lost mass");

    opts = (pgas_graph_run_opts_t)PGAS_GRAPH_RUN_OPTS_INIT;
    opts.tolerance = 1e-6;
    status = pgas_pagerank(r->graph, me == 0 ? &opts : NULL, r->values, &info);
    spmd_ok(status == PGAS_OK && is_right(r, (check_pagerank_t){ info.iterations, .85, false }) &&
                info.change <= 1e-6 && info.iterations > 3 && info.iterations < 100,
            "a tolerance, of rank 0 alone: %d sweeps", info.iterations);
    opts.iterations = 2;
    status = pgas_pagerank(r->graph, &opts, r->values, &info);
    spmd_ok(status == PGAS_OK && info.iterations == 2 && info.change > 1e-6, "and a limit to it");
}

/* Before any other run: in-edges are made for a pull. Some ranks ask for a push. */
static void directions_of_rank_0(ranked_t *r)
{
    pgas_graph_run_opts_t opts = PGAS_GRAPH_RUN_OPTS_INIT;
    opts.direction = me == 0 ? PGAS_GRAPH_PULL : PGAS_GRAPH_PUSH;
    pgas_status_t status = pgas_pagerank(r->graph, &opts, r->values, NULL);
    spmd_ok(status == PGAS_OK && is_right(r, (check_pagerank_t){ 20, .85, false }),
            "the direction of rank 0");
}

static void same_bits(ranked_t *r)
{
    pgas_graph_run_opts_t opts = PGAS_GRAPH_RUN_OPTS_INIT;
    pgas_status_t status = pgas_pagerank(r->graph, NULL, r->values, NULL);
    spmd_ok(status == PGAS_OK && pgas_pagerank(r->graph, NULL, r->again, NULL) == PGAS_OK &&
                values_are_again(r),
            "the same bits again");
    opts.parallel = run_threads;
    for (int n = 2; n <= 3; n++) {
        memset(r->again, 0, r->info.n_local * sizeof(double));
        opts.n_threads = n;
        status = pgas_pagerank(r->graph, &opts, r->again, NULL);
        spmd_ok(status == PGAS_OK && values_are_again(r), "the same bits with %d threads", n);
    }
    opts.n_threads = 1 + me % 3;
    status = pgas_pagerank(r->graph, &opts, r->again, NULL);
    spmd_ok(status == PGAS_OK && values_are_again(r),
            "and with another number of threads on each rank");
}

/* Later runs use the memory of the first one. */
static void allocates_nothing(ranked_t *r)
{
    uint64_t sources[] = { 0 }, n_bad = 0;
    int64_t *levels = (int64_t *)job_alloc(r->info.n_local * sizeof *levels);
    uint64_t *labels = (uint64_t *)job_alloc(r->info.n_local * sizeof *labels);
    pgas_graph_info_t before = { .size = sizeof before }, after = { .size = sizeof after };
    for (int i = 0; i < 3; i++) {
        n_bad += pgas_pagerank(r->graph, NULL, r->values, NULL) != PGAS_OK;
        n_bad += pgas_bfs(r->graph, 0, NULL, levels, NULL, NULL) != PGAS_OK;
        n_bad += pgas_components(r->graph, NULL, labels, NULL) != PGAS_OK;
        n_bad += pgas_sssp(r->graph, 0, NULL, r->values, NULL) != PGAS_OK;
        n_bad += pgas_betweenness(r->graph, sources, 1, NULL, r->values, NULL) != PGAS_OK;
        pgas_graph_info(r->graph, i == 0 ? &before : &after);
    }
    spmd_ok(n_bad == 0 && before.bytes == after.bytes && before.bytes > 0,
            "a second and a third run of five algorithms take no more memory");
    free(levels);
    free(labels);
}

static bool top_is(ranked_t *r, int n, const pgas_graph_top_t *top, int n_top)
{
    double least = n_top > 0 ? top[n_top - 1].value : 0;
    bool good = n_top == (n < (int)r->model.n_vertices ? n : (int)r->model.n_vertices);
    for (int i = 0; i < n_top; i++) {
        uint64_t v = top[i].vertex - r->info.first_vertex;
        good = good && (v >= r->info.n_local || r->values[v] == top[i].value);
        good = good && (i == 0 || top[i - 1].value > top[i].value ||
                        (top[i - 1].value == top[i].value && top[i - 1].vertex < top[i].vertex));
    }
    /* no other value is greater */
    for (uint64_t v = 0; v < r->info.n_local && n_top > 0; v++) {
        bool listed = false;
        for (int i = 0; i < n_top && !listed; i++)
            listed = top[i].vertex == r->info.first_vertex + v;
        good =
            good && (listed || r->values[v] < least ||
                     (r->values[v] == least && top[n_top - 1].vertex < r->info.first_vertex + v));
    }
    return good;
}

static void top_lists(ranked_t *r)
{
    static const int sizes[] = { 0, 1, 10, 700, 100000 };
    pgas_graph_top_t *top = (pgas_graph_top_t *)job_alloc((r->model.n_vertices + 1) * sizeof *top);
    int n = 0;
    pgas_pagerank(r->graph, NULL, r->values, NULL);
    for (uint64_t v = 0; v < r->info.n_local; v++) /* many are equal */
        r->values[v] = floor(r->values[v] * 1e5);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pgas_status_t status = pgas_graph_top(r->graph, r->values, sizes[i], top, &n);
        spmd_ok(status == PGAS_OK && top_is(r, sizes[i], top, n), "the first %d", sizes[i]);
    }
    top[2].value += 0.5;
    spmd_ok(!top_is(r, 100000, top, n) || top[2].vertex - r->info.first_vertex >= r->info.n_local,
            "the comparison can fail (broken on purpose)");
    free(top);
}

static void printed(ranked_t *r)
{
    char *text = NULL;
    size_t bytes = 0;
    pgas_graph_top_t top[2];
    int n;
    FILE *out = open_memstream(&text, &bytes);
    pgas_pagerank(r->graph, NULL, r->values, NULL);
    pgas_status_t status = pgas_graph_print_top(r->graph, r->values, 2, out);
    fclose(out);
    pgas_graph_top(r->graph, r->values, 2, top, &n);
    char want[100] = "";
    if (me == 0) {
        snprintf(want, sizeof want, "1 %llu %.6e\n2 %llu %.6e\n", (unsigned long long)top[0].vertex,
                 top[0].value, (unsigned long long)top[1].vertex, top[1].value);
    }
    spmd_ok(status == PGAS_OK, "a list is printed");
    spmd_is_str(text, want, "by rank 0, place, vertex and value");
    free(text);
}

static void small_graph(const char *what, uint64_t n_vertices, uint64_t n_edges,
                        const uint64_t *ends)
{
    model_t m = { .n_vertices = n_vertices,
                  .n_edges = n_edges,
                  .ends = (uint64_t *)job_alloc(2 * n_edges * sizeof(uint64_t)) };
    if (n_edges > 0)
        memcpy(m.ends, ends, 2 * n_edges * sizeof(uint64_t));
    model_make_rows(&m);
    ranked_t r = set_up(m);
    pgas_graph_run_info_t info = { .size = sizeof info };
    pgas_graph_run_opts_t opts = PGAS_GRAPH_RUN_OPTS_INIT;
    opts.n_threads = 2;
    opts.parallel = run_threads;
    pgas_status_t status = pgas_pagerank(r.graph, &opts, r.values, &info);
    spmd_ok(status == PGAS_OK && is_right(&r, (check_pagerank_t){ 20, .85, false }) &&
                fabs(info.sum - 1) < 1e-12,
            "%s", what);
    tear_down(&r);
}

/* A run has four subsets. One that is destroyed makes room for another one, which is empty. */
static void subsets(ranked_t *r)
{
    pgas_graph_run_t *run = NULL;
    pgas_subset_t *s[5] = { NULL };
    bool good = pgas_graph_run_create(r->graph, NULL, false, &run) == PGAS_OK;
    for (int i = 0; good && i < 4; i++)
        good = pgas_subset_create(run, &s[i]) == PGAS_OK;
    good = good && pgas_subset_create(run, &s[4]) == PGAS_ERR_LIMIT;
    if (good && r->info.n_local > 0)
        pgas_subset_add(s[1], 0);
    good = good && pgas_subset_count(s[1]) == PGAS_OK && s[1]->n_all > 0;
    good = good && pgas_subset_destroy(s[1]) == PGAS_OK;
    good = good && pgas_subset_create(run, &s[4]) == PGAS_OK;
    good = good && pgas_subset_count(s[4]) == PGAS_OK && s[4]->n_all == 0;
    pgas_graph_run_destroy(run);
    spmd_ok(good, "four subsets, and one in the place of another");
}

static void refusals(ranked_t *r)
{
    pgas_graph_run_opts_t good = PGAS_GRAPH_RUN_OPTS_INIT, bad[6];
    int n_bad = 0, n;
    for (int i = 0; i < 6; i++)
        bad[i] = good;
    bad[0].damping = 1.5;
    bad[1].damping = -0.5;
    bad[2].iterations = -1;
    bad[3].tolerance = -1;
    bad[4].tolerance = NAN;
    bad[5].size = 1;
    said_begin();
    for (int i = 0; i < 6; i++) { /* on one rank: the same on all */
        n_bad += pgas_pagerank(r->graph, me == n_ranks - 1 ? &bad[i] : &good, r->values, NULL) !=
                 PGAS_ERR_INVALID;
    }
    spmd_ok(said_by("out of range") == 1 && n_bad == 0,
            "options out of range, on one rank, which says so");
    said_begin();
    spmd_ok(pgas_pagerank(NULL, NULL, r->values, NULL) == PGAS_ERR_INVALID &&
                pgas_pagerank(r->graph, NULL, NULL, NULL) == PGAS_ERR_INVALID &&
                pgas_graph_top(r->graph, r->values, -1, NULL, &n) == PGAS_ERR_INVALID,
            "null, and numbers out of range");
    spmd_is_int(said_by("pgas_graph_top: graph, values"), 1, "said by one rank");
}

static void one_run_at_a_time(ranked_t *r)
{
    pgas_graph_run_t *run = NULL, *second = NULL;
    int n_bad = pgas_graph_run_create(r->graph, NULL, false, &run) != PGAS_OK;
    said_begin();
    n_bad += pgas_graph_run_create(r->graph, NULL, false, &second) != PGAS_ERR_BUSY;
    n_bad += pgas_pagerank(r->graph, NULL, r->values, NULL) != PGAS_ERR_BUSY;
    n_bad += pgas_graph_reverse(r->graph) != PGAS_ERR_BUSY;
    n_bad += pgas_ghosts_fetch(run, r->values, 3) != PGAS_ERR_INVALID;
    n_bad += pgas_ghosts_combine(run, r->values, PGAS_F32, PGAS_ADD) != PGAS_ERR_INVALID;
    spmd_ok(said_by("has a run") == 1 && n_bad == 0, "one run at a time");
    pgas_graph_run_destroy(run);
    spmd_ok(pgas_graph_reverse(r->graph) == PGAS_OK, "afterwards the graph is free");
}

int main(int argc, char **argv)
{
    static const uint64_t pair[] = { 0, 1, 1, 0 }, loop[] = { 0, 0 },
                          chain[] = { 0, 1, 1, 2, 2, 3, 3, 4 };
    job_begin(&argc, &argv, 31);
    ranked_t r = set_up(model_make(spmd_seed(20240110), 5000, 20000));
    directions_of_rank_0(&r);
    as_serial(&r);
    same_bits(&r);
    allocates_nothing(&r);
    top_lists(&r);
    printed(&r);
    small_graph("one vertex without edges", 1, 0, NULL);
    small_graph("one vertex with a loop", 1, 1, loop);
    small_graph("two vertices", 2, 2, pair);
    small_graph("a chain of five", 5, 4, chain);
    small_graph("a hundred vertices, one edge", 100, 1, chain);
    subsets(&r);
    refusals(&r);
    one_run_at_a_time(&r);
    tear_down(&r);
    return job_end();
}
