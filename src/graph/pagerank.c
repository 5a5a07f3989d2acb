/* PageRank: sweeps over the edges that lead to the rank's own vertices (layout.h).
 *
 * A sweep has four steps. The threads of a rank wait for each other between them.
 *   1. Each own vertex gets its share: value / out-degree.
 *   2. The shares of vertices that are ghosts elsewhere are collected and exchanged.
 *   3. New values are computed from the shares, with their change and the mass of vertices without
 *      out-edges.
 *   4. One allreduce sums the changes and masses.
 *
 * Sums have a fixed order: edges by id of the source, changes by chunk. Therefore the number of
 * threads changes no bit. */

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/info_fill.h"
#include "graph/graph.h"
#include "graph/layout.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

/* The options of rank 0, with defaults filled in. */
typedef struct {
    double damping;
    double tolerance; /* negative: none */
    int64_t iterations;
    int64_t no_dangling;
} rule_t;

typedef struct {
    const pgas_graph_t *graph;
    const pgas_pagerank_opts_t *opts;
    rule_t rule;
    const pgasi_layout_t *layout;
    double change, dangling; /* of all ranks, in the last sweep */
    int64_t n_done;
    bool stop;
    pgas_status_t status; /* the first error of any thread; under the lock */
    pthread_mutex_t lock;
    pthread_cond_t all_arrived;
    int n_arrived;
    uint64_t n_barriers; /* that all threads have passed */
} sweeps_t;

/* ---- threads ---- */

/* A barrier of the n threads of the rank. */
static void wait_for_threads(sweeps_t *s, int n)
{
    if (n == 1)
        return;
    pthread_mutex_lock(&s->lock);
    uint64_t n_passed = s->n_barriers;
    if (++s->n_arrived == n) {
        s->n_arrived = 0;
        s->n_barriers++;
        pthread_cond_broadcast(&s->all_arrived);
    }
    while (n_passed == s->n_barriers)
        pthread_cond_wait(&s->all_arrived, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void fail(sweeps_t *s, pgas_status_t status)
{
    if (status != PGAS_OK) {
        pthread_mutex_lock(&s->lock);
        s->status = s->status != PGAS_OK ? s->status : status;
        pthread_mutex_unlock(&s->lock);
    }
}

/* ---- the steps of a sweep, for some of the ids or chunks ---- */

static void find_shares(const pgasi_layout_t *l, uint32_t begin, uint32_t end)
{
    for (uint32_t id = begin; id < end; id++)
        l->share[id] = l->out_degree[id] > 0 ? l->value[id] / l->out_degree[id] : 0;
}

/* Computes the new values of a chunk. */
static void update_chunk(const sweeps_t *s, uint32_t chunk, double base)
{
    const pgasi_layout_t *l = s->layout;
    double change = 0, dangling = 0;
    for (uint32_t id = l->chunk[chunk]; id < l->chunk[chunk + 1]; id++) {
        double sum = 0;
        for (uint64_t e = l->begin[id]; e < l->begin[id + 1]; e++)
            sum += l->share[l->source[e]];
        double value = base + s->rule.damping * sum;
        change += fabs(value - l->value[id]);
        dangling += l->out_degree[id] == 0 ? value : 0;
        l->value[id] = value;
    }
    l->change[chunk] = change;
    l->dangling[chunk] = dangling;
}

/* The value that every vertex gets, independent of edges. */
static double base_value(const sweeps_t *s)
{
    double n = (double)s->graph->n_vertices, base = (1 - s->rule.damping) / n;
    return s->rule.no_dangling ? base : base + s->rule.damping * s->dangling / n;
}

/* Thread 0, after all chunks: sums the changes over all ranks, and finds out whether a rank
 * failed. */
static void end_sweep(sweeps_t *s)
{
    double sums[3] = { 0, 0, s->status != PGAS_OK ? 1 : 0 };
    for (uint32_t chunk = 0; chunk < s->layout->n_chunks; chunk++) {
        sums[0] += s->layout->change[chunk];
        sums[1] += s->layout->dangling[chunk];
    }
    pgas_status_t status = pgas_allreduce(NULL, sums, sums, 3, PGAS_F64, PGAS_ADD);
    fail(s, status);
    s->change = sums[0];
    s->dangling = sums[1];
    s->n_done++;
    s->stop = status != PGAS_OK || sums[2] > 0 || s->n_done >= s->rule.iterations ||
              s->change <= s->rule.tolerance;
    if (s->opts->progress && s->graph->rank == 0) {
        int64_t total = s->stop ? s->n_done : s->rule.iterations;
        s->opts->progress("rank", (uint64_t)s->n_done, (uint64_t)total, s->opts->progress_arg);
    }
}

/* Where the part of thread i of n begins among n_all. */
static uint64_t part(uint64_t n_all, int i, int n)
{
    return n_all * (uint64_t)i / (uint64_t)n;
}

/* Runs all sweeps on thread i of n. */
static void sweep(int i, int n, void *arg)
{
    sweeps_t *s = arg;
    const pgasi_layout_t *l = s->layout;
    uint32_t begin = (uint32_t)part(l->n_chunks, i, n), end = (uint32_t)part(l->n_chunks, i + 1, n);
    do {
        find_shares(l, l->chunk[begin], l->chunk[end]);
        wait_for_threads(s, n);
        pgasi_layout_collect(l, l->share, part(l->n_mirrors, i, n), part(l->n_mirrors, i + 1, n));
        wait_for_threads(s, n);
        if (i == 0)
            fail(s, pgasi_layout_exchange(l, l->share));
        wait_for_threads(s, n);
        for (uint32_t chunk = begin; chunk < end; chunk++)
            update_chunk(s, chunk, base_value(s));
        wait_for_threads(s, n);
        if (i == 0)
            end_sweep(s);
        wait_for_threads(s, n);
    } while (!s->stop);
}

/* ---- before and after ---- */

/* Sets the values before the first sweep, and the mass of vertices without out-edges. */
static pgas_status_t start_values(sweeps_t *s)
{
    const pgasi_layout_t *l = s->layout;
    double start = 1 / (double)s->graph->n_vertices;
    uint64_t n_dangling = 0;
    for (uint32_t id = 0; id < l->n_local; id++) {
        l->value[id] = start;
        n_dangling += l->out_degree[id] == 0;
    }
    pgas_status_t status = pgas_allreduce(NULL, &n_dangling, &n_dangling, 1, PGAS_U64, PGAS_ADD);
    s->dangling = (double)n_dangling * start;
    return status;
}

static void run(sweeps_t *s)
{
    int n_threads = s->opts->n_threads;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->all_arrived, NULL);
    if (n_threads > 1 && s->opts->parallel)
        s->opts->parallel(n_threads, sweep, s);
    else
        sweep(0, 1, s);
    pthread_cond_destroy(&s->all_arrived);
    pthread_mutex_destroy(&s->lock);
}

/* Stores the values in the order of vertices, and describes the run. */
static pgas_status_t deliver(const sweeps_t *s, uint64_t begin_ns, double *values,
                             pgas_pagerank_info_t *info_p)
{
    const pgasi_layout_t *l = s->layout;
    double sum = 0;
    for (uint32_t id = 0; id < l->n_local; id++)
        values[l->vertex[id]] = l->value[id];
    for (uint32_t v = 0; v < l->n_local; v++)
        sum += values[v];
    pgas_status_t status = pgas_allreduce(NULL, &sum, &sum, 1, PGAS_F64, PGAS_ADD);
    if (status == PGAS_OK && info_p) {
        pgas_pagerank_info_t info = {
            .seconds = 1e-9 * (double)(pgasi_now_ns() - begin_ns),
            .iterations = (int)s->n_done,
            .change = s->change,
            .sum = sum,
            .n_sent = l->n_mirrors,
        };
        status = pgasi_info_fill(info_p, &info, sizeof info);
    }
    return status;
}

/* The options of rank 0, the same on all ranks. */
static pgas_status_t make_rule(const pgas_pagerank_opts_t *opts, rule_t *rule_p)
{
    pgas_pagerank_opts_t o = PGAS_PAGERANK_OPTS_INIT;
    bool sane = PGASI_OPTS_SANE(opts, sizeof o);
    if (sane && opts)
        o = *opts;
    sane = sane && o.damping >= 0 && o.damping <= 1 && o.iterations >= 0 && o.tolerance >= 0 &&
           o.n_threads >= 0;
    if (!sane) {
        pgasi_graph_note("pgas_pagerank: damping %g, iterations %d, tolerance %g or n_threads %d "
                         "is out of range",
                         o.damping, o.iterations, o.tolerance, o.n_threads);
    }
    pgas_status_t status = pgasi_graph_agree(sane ? PGAS_OK : PGAS_ERR_INVALID, NULL);
    int iterations = o.tolerance > 0 ? 1000 : 20;
    rule_t rule = {
        .damping = o.damping > 0 ? o.damping : 0.85,
        .tolerance = o.tolerance > 0 ? o.tolerance : -1,
        .iterations = o.iterations > 0 ? o.iterations : iterations,
        .no_dangling = o.no_dangling,
    };
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, &rule, sizeof rule, 0);
    *rule_p = rule;
    return status;
}

pgas_status_t pgas_pagerank(const pgas_graph_t *graph, const pgas_pagerank_opts_t *opts,
                            double *values, pgas_pagerank_info_t *info_p)
{
    static const pgas_pagerank_opts_t defaults = PGAS_PAGERANK_OPTS_INIT;
    sweeps_t s = { .graph = graph, .opts = opts ? opts : &defaults };
    uint64_t begin_ns = pgasi_now_ns();
    bool sane = graph && (values || graph->n_local == 0);
    if (!sane)
        pgasi_graph_note("pgas_pagerank: the graph or values is NULL");
    pgas_status_t status = pgasi_graph_agree(sane ? PGAS_OK : PGAS_ERR_INVALID, NULL);
    if (status == PGAS_OK)
        status = make_rule(opts, &s.rule);
    if (status == PGAS_OK)
        status = pgasi_layout_make(graph);
    if (status != PGAS_OK)
        return status;
    s.layout = graph->layout;
    status = start_values(&s);
    if (status == PGAS_OK) {
        run(&s);
        status = pgasi_graph_agree(s.status, NULL);
    }
    return status == PGAS_OK ? deliver(&s, begin_ns, values, info_p) : status;
}
