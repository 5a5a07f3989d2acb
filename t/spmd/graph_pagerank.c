/* PageRank over all ranks.
 *   what:   Values are those of a serial computation on any number of ranks and threads, with the
 *           same bits each time. Lists of the greatest values are sorted. The check finds wrong
 *           values.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 PGAS_LANES=1 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/graph.h; design.md, PageRank; seeded model test
 */
#include <math.h>
#include <pthread.h>
#include "examples/pagerank_check.h"
#include "t/spmd/graph_model.h"
#include "t/spmd/said.h"

/* ---- threads of the test's own ---- */

typedef struct {
    pgas_graph_work_fn_t work;
    void *arg;
    int i, n;
} worker_t;

static int n_not_attached;

static void *run_worker(void *arg)
{
    worker_t *w = (worker_t *)arg;
    if (pgas_thread_attach() != PGAS_OK)
        __atomic_fetch_add(&n_not_attached, 1, __ATOMIC_RELAXED);
    w->work(w->i, w->n, w->arg);
    pgas_thread_detach();
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
    double *want, *scratch; /* of all vertices */
} ranked_t;

static ranked_t set_up(model_t model)
{
    ranked_t r = { .model = model };
    pgas_status_t status =
        pgas_graph_create(model.n_vertices, model.ends, me == 0 ? model.n_edges : 0, &r.graph);
    if (status != PGAS_OK) {
        printf("Bail out! no graph: %s\n", pgas_status_text(status));
        exit(99);
    }
    r.info.size = sizeof r.info;
    pgas_graph_info(r.graph, &r.info);
    r.values = (double *)job_alloc(r.info.n_local * sizeof(double));
    r.again = (double *)job_alloc(r.info.n_local * sizeof(double));
    r.want = (double *)job_alloc(model.n_vertices * sizeof(double));
    r.scratch = (double *)job_alloc(model.n_vertices * sizeof(double));
    return r;
}

static void tear_down(ranked_t *r)
{
    pgas_graph_destroy(r->graph);
    free(r->values);
    free(r->again);
    free(r->want);
    free(r->scratch);
    model_free(&r->model);
}

/* The sum of differences to the serial values, over all ranks. */
static double off_by(ranked_t *r, pgas_pagerank_opts_t rule)
{
    double l1 = 0;
    pagerank_serial(r->model.n_vertices, r->model.offsets, r->model.targets, &rule, r->want,
                    r->scratch);
    for (uint64_t v = 0; v < r->info.n_local; v++)
        l1 += fabs(r->values[v] - r->want[r->info.first_vertex + v]);
    pgas_allreduce(NULL, &l1, &l1, 1, PGAS_F64, PGAS_ADD);
    return l1;
}

static bool values_are_again(const ranked_t *r)
{
    return r->info.n_local == 0 ||
           memcmp(r->values, r->again, r->info.n_local * sizeof(double)) == 0;
}

/* ---- promises ---- */

static void as_serial(ranked_t *r)
{
    pgas_pagerank_opts_t opts = PGAS_PAGERANK_OPTS_INIT;
    pgas_pagerank_info_t info = { .size = sizeof info };
    pgas_pagerank_opts_t rule = { .damping = 0.85, .tolerance = -1, .iterations = 20 };
    pgas_status_t status = pgas_pagerank(r->graph, NULL, r->values, &info);
    double l1 = off_by(r, rule);
    spmd_ok(status == PGAS_OK && l1 < 1e-12, "20 sweeps by default: off by %.1e", l1);
    spmd_ok(info.iterations == 20 && fabs(info.sum - 1) < 1e-12 && info.change > 0, "the sum is 1");
    uint64_t n_sent = info.n_sent;
    spmd_ok(n_ranks > 1 ? n_sent <= r->model.n_vertices : n_sent == 0,
            "no more sums are sent than there are vertices");

    opts.damping = rule.damping = 1;
    opts.no_dangling = true;
    rule.no_dangling = true;
    opts.iterations = 7;
    rule.iterations = opts.iterations;
    status = pgas_pagerank(r->graph, &opts, r->values, &info);
    l1 = off_by(r, rule);
    spmd_ok(status == PGAS_OK && l1 < 1e-12 && info.sum < 0.9, "damping 1, lost mass: off by %.1e",
            l1);

    opts = (pgas_pagerank_opts_t)PGAS_PAGERANK_OPTS_INIT;
    opts.tolerance = 1e-6;
    status = pgas_pagerank(r->graph, me == 0 ? &opts : NULL, r->values, &info);
    rule =
        (pgas_pagerank_opts_t){ .damping = 0.85, .tolerance = -1, .iterations = info.iterations };
    l1 = off_by(r, rule);
    spmd_ok(status == PGAS_OK && l1 < 1e-12 && info.change <= 1e-6 && info.iterations > 3 &&
                info.iterations < 100,
            "a tolerance, of rank 0 alone: %d sweeps, off by %.1e", info.iterations, l1);
    opts.iterations = 2;
    status = pgas_pagerank(r->graph, &opts, r->values, &info);
    spmd_ok(status == PGAS_OK && info.iterations == 2 && info.change > 1e-6, "and a limit to it");
}

static void same_bits(ranked_t *r)
{
    pgas_pagerank_opts_t opts = PGAS_PAGERANK_OPTS_INIT;
    pgas_status_t status = pgas_pagerank(r->graph, NULL, r->values, NULL);
    spmd_ok(status == PGAS_OK && pgas_pagerank(r->graph, NULL, r->again, NULL) == PGAS_OK &&
                values_are_again(r),
            "the same bits again");
    opts.parallel = run_threads;
    for (int n = 2; n <= 3; n++) {
        memset(r->again, 0, r->info.n_local * sizeof(double));
        opts.n_threads = n;
        status = pgas_pagerank(r->graph, &opts, r->again, NULL);
        spmd_ok(status == PGAS_OK && n_not_attached == 0 && values_are_again(r),
                "the same bits with %d threads", n);
    }
    opts.n_threads = 1 + me % 3;
    status = pgas_pagerank(r->graph, &opts, r->again, NULL);
    spmd_ok(status == PGAS_OK && values_are_again(r),
            "and with another number of threads on each rank");
}

static pgas_status_t check_sweeps(const ranked_t *r, int iterations, pagerank_check_t *check_p)
{
    pgas_pagerank_opts_t opts = { .iterations = iterations };
    return pagerank_check(r->graph, &opts, r->values, check_p);
}

static void check_finds_errors(ranked_t *r)
{
    pgas_pagerank_info_t info = { .size = sizeof info };
    pagerank_check_t check = { 0 };
    pgas_status_t status = pgas_pagerank(r->graph, NULL, r->values, &info);
    double *mine = r->info.n_local > 0 ? &r->values[r->info.n_local - 1] : NULL,
           before = mine != NULL ? *mine : 0;
    bool last = me == (int)((r->model.n_vertices - 1) / r->info.block);
    status = status == PGAS_OK ? check_sweeps(r, info.iterations, &check) : status;
    spmd_ok(status == PGAS_OK && check.good && check.same_top && check.l1 < 1e-12,
            "the check agrees: %.1e", check.l1);
    if (last)
        *mine += 2e-9;
    status = check_sweeps(r, info.iterations, &check);
    spmd_ok(status == PGAS_OK && !check.good && check.same_top && fabs(check.l1 - 2e-9) < 1e-12,
            "it finds one value off by 2e-9 (broken on purpose)");
    if (last)
        *mine = 1;
    status = check_sweeps(r, info.iterations, &check);
    spmd_ok(status == PGAS_OK && !check.good && !check.same_top,
            "and another top ten (broken on purpose)");
    if (last)
        *mine = NAN;
    status = check_sweeps(r, info.iterations, &check);
    spmd_ok(status == PGAS_OK && !check.good, "and what is no number (broken on purpose)");
    if (last)
        *mine = before;
    status = check_sweeps(r, 2, &check);
    spmd_ok(status == PGAS_OK && !check.good, "and another number of sweeps (broken on purpose)");
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
    spmd_ok(!top_is(r, 100000, top, n) || (int)(top[2].vertex / r->info.block) != me,
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
    model_t m = { n_vertices, n_edges, (uint64_t *)job_alloc(2 * n_edges * sizeof(uint64_t)), NULL,
                  NULL };
    if (n_edges > 0)
        memcpy(m.ends, ends, 2 * n_edges * sizeof(uint64_t));
    model_make_rows(&m);
    ranked_t r = set_up(m);
    pagerank_check_t check = { 0 };
    pgas_pagerank_info_t info = { .size = sizeof info };
    pgas_pagerank_opts_t opts = PGAS_PAGERANK_OPTS_INIT;
    opts.n_threads = 2;
    opts.parallel = run_threads;
    pgas_status_t status = pgas_pagerank(r.graph, &opts, r.values, &info);
    status = status == PGAS_OK ? check_sweeps(&r, info.iterations, &check) : status;
    spmd_ok(status == PGAS_OK && check.good && fabs(info.sum - 1) < 1e-12, "%s", what);
    tear_down(&r);
}

static void refusals(ranked_t *r)
{
    pgas_pagerank_opts_t good = PGAS_PAGERANK_OPTS_INIT, bad[6];
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

int main(int argc, char **argv)
{
    static const uint64_t pair[] = { 0, 1, 1, 0 }, loop[] = { 0, 0 },
                          chain[] = { 0, 1, 1, 2, 2, 3, 3, 4 };
    job_begin(&argc, &argv, 31);
    ranked_t r = set_up(model_make(spmd_seed(20240110), 5000, 20000));
    as_serial(&r);
    same_bits(&r);
    check_finds_errors(&r);
    top_lists(&r);
    printed(&r);
    small_graph("one vertex without edges", 1, 0, NULL);
    small_graph("one vertex with a loop", 1, 1, loop);
    small_graph("two vertices", 2, 2, pair);
    small_graph("a chain of five", 5, 4, chain);
    small_graph("a hundred vertices, one edge", 100, 1, chain);
    refusals(&r);
    tear_down(&r);
    return job_end();
}
