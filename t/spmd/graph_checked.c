/* Graph algorithms on random graphs.
 *   what:   On any number of ranks and threads, with both exchanges and all directions, the eight
 *           algorithms give the values of serial ones. Integers are equal, and sums of floats are
 *           near. The checkers find a value that is changed afterwards.
 *   np:     1 2 3 5 7
 *   nodes:  0 1 2 3
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 PGAS_LANES=1 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/graph.h; tools/graph_check.h; seeded model test
 */
#include "t/spmd/graph_pair.h"

enum { BFS, PAGERANK, COMPONENTS, SSSP, CDLP, LCC, TRIANGLES, BETWEENNESS, N_ALGORITHMS };
enum { GRAPHS = 12, VARIANTS = 3, SOURCES = 3 };

static const char *const names[N_ALGORITHMS] = { "bfs",  "pagerank", "components", "sssp",
                                                 "cdlp", "lcc",      "triangles",  "betweenness" };

/* One run: a graph, options, and the results on this rank. */
typedef struct {
    pair_t *pair;
    pgas_graph_run_opts_t opts;
    uint64_t sources[SOURCES];
    void *values;
    int64_t *parents;
    uint64_t n_triangles;
    pgas_graph_run_info_t info;
} run_t;

static pgas_status_t start(run_t *r, int algorithm)
{
    pgas_graph_t *graph = r->pair->graph;
    switch (algorithm) {
    case BFS:
        return pgas_bfs(graph, r->sources[0], &r->opts, r->values, r->parents, &r->info);
    case PAGERANK:
        return pgas_pagerank(graph, &r->opts, r->values, &r->info);
    case COMPONENTS:
        return pgas_components(graph, &r->opts, r->values, &r->info);
    case SSSP:
        return pgas_sssp(graph, r->sources[0], &r->opts, r->values, &r->info);
    case CDLP:
        return pgas_cdlp(graph, &r->opts, r->values, &r->info);
    case LCC:
        return pgas_lcc(graph, &r->opts, r->values, &r->info);
    case TRIANGLES:
        return pgas_triangles(graph, &r->opts, &r->n_triangles, &r->info);
    default:
        return pgas_betweenness(graph, r->sources, SOURCES, &r->opts, r->values, &r->info);
    }
}

static check_verdict_t compare(run_t *r, int algorithm, const void *values, const int64_t *parents)
{
    check_graph_t *whole = &r->pair->whole;
    check_pagerank_t how = { r->info.iterations, .85, r->opts.no_dangling };
    switch (algorithm) {
    case BFS:
        return check_bfs(whole, r->sources[0], values, parents);
    case PAGERANK:
        return check_pagerank(whole, &how, values);
    case COMPONENTS:
        return check_components(whole, values);
    case SSSP:
        return check_sssp(whole, r->sources[0], values);
    case CDLP:
        return check_cdlp(whole, r->opts.iterations, values);
    case LCC:
        return check_lcc(whole, values);
    case TRIANGLES:
        return check_triangles(whole, r->n_triangles);
    default:
        return check_betweenness(whole, r->sources, SOURCES, values);
    }
}

static check_verdict_t verdict_of(run_t *r, int algorithm)
{
    void *values = pair_gather(r->pair, r->values), *parents = pair_gather(r->pair, r->parents);
    check_verdict_t verdict = compare(r, algorithm, values, parents);
    free(values);
    free(parents);
    return verdict;
}

/* ---- graphs and options ---- */

static pair_t draw_graph(pgasi_rng_t *rng, int i)
{
    static const pgas_type_t types[] = { PGAS_TYPE_NONE, PGAS_U32, PGAS_F64, PGAS_F32 };
    static const uint64_t sizes[] = { 1, 2, 7, 40, 300, 1500 };
    pair_t form = { .n = sizes[i % 6],
                    .directed = i / 6 % 2 == 0,
                    .simple = pgasi_rng_below(rng, 3) == 0,
                    .weight_type = types[pgasi_rng_below(rng, 4)] };
    form.n_edges = (size_t)pgasi_rng_below(rng, 6 * form.n + 1);
    return pair_make(form, rng, true);
}

static void draw_opts(run_t *r, pgasi_rng_t *rng, int variant)
{
    r->opts = (pgas_graph_run_opts_t){ .size = sizeof r->opts };
    r->opts.exchange = variant == 1 ? PGAS_GRAPH_ARRAY : PGAS_GRAPH_MESSAGES;
    r->opts.direction = (pgas_graph_direction_t)pgasi_rng_below(rng, 3);
    r->opts.n_threads = variant == 2 ? 3 : 1;
    r->opts.parallel = pair_threads;
    r->opts.iterations = 1 + (int)pgasi_rng_below(rng, 12);
    r->opts.no_dangling = pgasi_rng_below(rng, 4) == 0;
    for (int i = 0; i < SOURCES; i++)
        r->sources[i] = pgasi_rng_below(rng, r->pair->n);
}

/* ---- promises ---- */

static bool right[N_ALGORITHMS]; /* on this rank */
static bool noticed[N_ALGORITHMS];

/* Changes one value on the rank that owns the vertex, checks, and restores the value. */
static bool notices(run_t *r, int algorithm, uint64_t vertex)
{
    uint64_t at = vertex - r->pair->info.first_vertex; /* wraps around below the first */
    bool mine = at < r->pair->info.n_local;
    double *values = r->values, value = mine ? values[at] : 0;
    int64_t *integers = r->values;
    if (mine && (algorithm == BFS || algorithm == COMPONENTS || algorithm == CDLP))
        integers[at] ^= 1;
    else if (mine)
        values[at] = value == 0 ? 1 : value * 1.001;
    r->n_triangles++;
    check_verdict_t verdict = verdict_of(r, algorithm);
    if (mine)
        values[at] = value;
    r->n_triangles--;
    return verdict.result == CHECK_WRONG;
}

static void run_all(run_t *r, int variant)
{
    char text[300];
    for (int a = 0; a < N_ALGORITHMS; a++) {
        pgas_status_t status = start(r, a);
        check_verdict_t verdict = check_wrong("%s", pgas_status_text(status));
        if (status == PGAS_OK)
            verdict = verdict_of(r, a);
        bool good = verdict.result == CHECK_RIGHT;
        if (!good && right[a]) {
            snprintf(text, sizeof text, "%s, exchange %d, direction %d, %d threads: %s", names[a],
                     (int)r->opts.exchange, (int)r->opts.direction, r->opts.n_threads,
                     verdict.text);
            pair_diag(r->pair, text);
        }
        right[a] = right[a] && good;
        if (status == PGAS_OK && variant == 0)
            noticed[a] = noticed[a] && notices(r, a, r->sources[0]);
    }
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 2 * N_ALGORITHMS);
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, spmd_seed(20240701));
    for (int a = 0; a < N_ALGORITHMS; a++)
        right[a] = noticed[a] = true;
    for (int i = 0; i < GRAPHS; i++) {
        pair_t pair = draw_graph(&rng, i);
        run_t r = { .pair = &pair, .info = { .size = sizeof r.info } };
        r.values = job_alloc(((size_t)pair.info.n_local + 1) * 8);
        r.parents = (int64_t *)job_alloc(((size_t)pair.info.n_local + 1) * 8);
        for (int variant = 0; variant < VARIANTS; variant++) {
            draw_opts(&r, &rng, variant);
            run_all(&r, variant);
        }
        free(r.values);
        free(r.parents);
        pair_free(&pair);
    }
    for (int a = 0; a < N_ALGORITHMS; a++) {
        spmd_ok(right[a], "%s: %d runs on %d graphs are right", names[a], GRAPHS * VARIANTS,
                GRAPHS);
        spmd_ok(noticed[a], "%s: a changed value is noticed (broken on purpose)", names[a]);
    }
    return job_end();
}
