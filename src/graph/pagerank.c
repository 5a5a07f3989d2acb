/* PageRank: sweeps over the plan of exchange.
 *
 * A sweep has four steps. The threads of a rank wait for each other between them.
 *   1. Each vertex gets its share: value / out-degree.
 *   2. The shares are summed for each slot. Sums of own slots go to `incoming`. Sums for other
 *      ranks are sent in calls of up to 124 sums, four calls to a batch; then comes a quiesce.
 *   3. New values are computed from `incoming`, with their change and the mass of vertices without
 *      out-edges.
 *   4. One allreduce sums the changes and masses.
 *
 * Sums have a fixed order: edges by source, incoming sums by rank, changes by chunks of 1024
 * vertices. Therefore neither the order of arrival nor the number of threads changes a bit. plan.c
 * says why shares are summed before they are sent. */

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/info_fill.h"
#include "graph/graph.h"
#include "graph/plan.h"
#include "pgas/agg.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

#define SUMS_MAX 124  /* of a call of 1008 bytes: 8 of header, 8 of index, 992 of sums */
#define CHUNK    1024 /* vertices whose changes are summed first */

/* The options of rank 0, with defaults filled in. */
typedef struct {
    double damping;
    double tolerance; /* negative: none */
    int64_t iterations;
    int64_t no_dangling;
} rule_t;

typedef struct {
    uint64_t first; /* the index of sum[0] among those of the sender */
    double sum[SUMS_MAX];
} sums_t;

typedef struct {
    const pgas_graph_t *graph;
    const pgas_pagerank_opts_t *opts;
    rule_t rule;
    pgasi_plan_t plan;
    double *values, *share, *incoming;
    double *chunk_change, *chunk_dangling;
    uint64_t n_chunks, n_bad;
    double change, dangling; /* of all ranks, in the last sweep */
    int64_t n_done;
    bool stop;
    pgas_status_t status; /* the first error of any thread; under the lock */
    pthread_mutex_t lock;
    pthread_cond_t all_arrived;
    int n_arrived;
    uint64_t n_barriers; /* that all threads have passed */
} sweeps_t;

static struct {
    sweeps_t *now;
    pgas_handler_t sums;
} sweeping;

static void handle_sums(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t first;
    int rank = pgas_thread_rank(source);
    sweeps_t *s = sweeping.now;
    (void)context;
    if (!s || bytes < sizeof first)
        return;
    memcpy(&first, args, sizeof first);
    bytes -= sizeof first;
    uint64_t begin = s->plan.from_begin[rank], room = s->plan.from_begin[rank + 1] - begin;
    if (first > room || bytes > (room - first) * sizeof(double)) {
        s->n_bad++;
        return;
    }
    memcpy(s->incoming + begin + first, (const char *)args + sizeof first, bytes);
}

pgas_status_t pgasi_sweep_register(void)
{
    return pgas_handler_register("pgas.graph.sums", handle_sums, NULL, NULL, &sweeping.sums);
}

/* ---- threads ---- */

/* A barrier of the n threads of the rank. A thread may sleep in it, because its calls have been
 * sent (pgas_agg_flush). */
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

/* The first slot of thread i of n. All threads get the same number of edges. */
static uint64_t slot_of_thread(const pgasi_plan_t *plan, int i, int n)
{
    uint64_t edge = plan->slot_edges[plan->n_slots] * (uint64_t)i / (uint64_t)n, low = 0,
             high = plan->n_slots;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (plan->slot_edges[middle] < edge)
            low = middle + 1;
        else
            high = middle;
    }
    return i == n ? plan->n_slots : low;
}

/* ---- the steps of a sweep, for some of the vertices, slots or chunks ---- */

static void find_shares(sweeps_t *s, uint64_t begin, uint64_t end)
{
    const uint64_t *offsets = s->graph->offsets;
    for (uint64_t v = begin; v < end; v++) {
        uint64_t degree = offsets[v + 1] - offsets[v];
        s->share[v] = degree > 0 ? s->values[v] / (double)degree : 0;
    }
}

static inline double slot_sum(const sweeps_t *s, uint64_t slot)
{
    double sum = 0;
    for (uint32_t e = s->plan.slot_edges[slot]; e < s->plan.slot_edges[slot + 1]; e++)
        sum += s->share[s->plan.sources[e]];
    return sum;
}

/* Sends the sums of slots of another rank. */
static pgas_status_t send_sums(const sweeps_t *s, pgas_agg_t *agg, int rank, uint64_t begin,
                               uint64_t end)
{
    sums_t sums;
    pgas_status_t status = PGAS_OK;
    for (uint64_t slot = begin; slot < end && status == PGAS_OK; slot += SUMS_MAX) {
        size_t n = (size_t)PGASI_MIN(end - slot, SUMS_MAX);
        sums.first = slot - s->plan.slot_begin[rank];
        for (size_t i = 0; i < n; i++)
            sums.sum[i] = slot_sum(s, slot + i);
        status = pgasi_graph_call(agg, rank, sweeping.sums, &sums,
                                  sizeof sums.first + n * sizeof(double));
    }
    return status;
}

/* Sums the slots begin .. end - 1. Own slots come last, while the messages travel. */
static pgas_status_t sum_slots(const sweeps_t *s, pgas_agg_t *agg, uint64_t begin, uint64_t end)
{
    int n_ranks = s->graph->n_ranks, me = s->graph->rank;
    pgas_status_t status = PGAS_OK;
    for (int i = 1; i < n_ranks && status == PGAS_OK; i++) {
        int rank = (me + i) % n_ranks;
        uint64_t from = PGASI_MAX(begin, s->plan.slot_begin[rank]),
                 to = PGASI_MIN(end, s->plan.slot_begin[rank + 1]);
        status = send_sums(s, agg, rank, from, to);
    }
    if (status == PGAS_OK)
        status = pgas_agg_flush(agg, PGAS_ALL, NULL);
    uint64_t from = PGASI_MAX(begin, s->plan.slot_begin[me]),
             to = PGASI_MIN(end, s->plan.slot_begin[me + 1]);
    for (uint64_t slot = from; slot < to; slot++)
        s->incoming[s->plan.from_begin[me] + slot - s->plan.slot_begin[me]] = slot_sum(s, slot);
    return status;
}

/* Computes the new values of a chunk. */
static void update_chunk(sweeps_t *s, uint64_t chunk, double base)
{
    const pgasi_plan_t *plan = &s->plan;
    const uint64_t *offsets = s->graph->offsets;
    uint64_t end = PGASI_MIN((chunk + 1) * CHUNK, s->graph->n_local);
    double change = 0, dangling = 0;
    for (uint64_t v = chunk * CHUNK; v < end; v++) {
        double sum = 0;
        for (uint32_t p = plan->index_begin[v]; p < plan->index_begin[v + 1]; p++)
            sum += s->incoming[plan->indices[p]];
        double value = base + s->rule.damping * sum;
        change += fabs(value - s->values[v]);
        dangling += offsets[v + 1] == offsets[v] ? value : 0;
        s->values[v] = value;
    }
    s->chunk_change[chunk] = change;
    s->chunk_dangling[chunk] = dangling;
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
    double sums[3] = { 0, 0, s->status != PGAS_OK || s->n_bad > 0 ? 1 : 0 };
    for (uint64_t chunk = 0; chunk < s->n_chunks; chunk++) {
        sums[0] += s->chunk_change[chunk];
        sums[1] += s->chunk_dangling[chunk];
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

/* Runs all sweeps on thread i of n. */
static void sweep(int i, int n, void *arg)
{
    sweeps_t *s = arg;
    uint64_t chunk_begin = s->n_chunks * (uint64_t)i / (uint64_t)n,
             chunk_end = s->n_chunks * (uint64_t)(i + 1) / (uint64_t)n;
    uint64_t slot_begin = slot_of_thread(&s->plan, i, n),
             slot_end = slot_of_thread(&s->plan, i + 1, n);
    pgas_agg_t *agg = NULL;
    fail(s, pgas_agg_create(NULL, &agg));
    do {
        find_shares(s, PGASI_MIN(chunk_begin * CHUNK, s->graph->n_local),
                    PGASI_MIN(chunk_end * CHUNK, s->graph->n_local));
        wait_for_threads(s, n);
        if (agg)
            fail(s, sum_slots(s, agg, slot_begin, slot_end));
        wait_for_threads(s, n);
        if (i == 0)
            fail(s, pgas_quiesce());
        wait_for_threads(s, n);
        for (uint64_t chunk = chunk_begin; chunk < chunk_end; chunk++)
            update_chunk(s, chunk, base_value(s));
        wait_for_threads(s, n);
        if (i == 0)
            end_sweep(s);
        wait_for_threads(s, n);
    } while (!s->stop);
    fail(s, pgas_agg_destroy(agg));
}

/* ---- before and after ---- */

/* Sets the values before the first sweep, and the mass of vertices without out-edges. */
static pgas_status_t start_values(sweeps_t *s)
{
    const pgas_graph_t *graph = s->graph;
    double start = 1 / (double)graph->n_vertices;
    uint64_t n_dangling = 0;
    for (uint64_t v = 0; v < graph->n_local; v++) {
        s->values[v] = start;
        n_dangling += graph->offsets[v] == graph->offsets[v + 1];
    }
    pgas_status_t status = pgas_allreduce(NULL, &n_dangling, &n_dangling, 1, PGAS_U64, PGAS_ADD);
    s->dangling = (double)n_dangling * start;
    return status;
}

static pgas_status_t allocate(sweeps_t *s)
{
    s->n_chunks = PGASI_DIV_UP(s->graph->n_local, CHUNK);
    s->share = pgasi_graph_array(s->graph->n_local, sizeof(double));
    s->incoming = pgasi_graph_zeroed(s->plan.n_incoming, sizeof(double));
    s->chunk_change = pgasi_graph_array(s->n_chunks, sizeof(double));
    s->chunk_dangling = pgasi_graph_array(s->n_chunks, sizeof(double));
    bool have = s->share && s->incoming && s->chunk_change && s->chunk_dangling;
    return have ? PGAS_OK : PGAS_ERR_NO_MEMORY;
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
    fail(s, s->n_bad > 0 ? PGAS_ERR_INTERNAL : PGAS_OK);
}

static pgas_status_t describe(const sweeps_t *s, uint64_t begin_ns, pgas_pagerank_info_t *info_p)
{
    double sum = 0;
    for (uint64_t v = 0; v < s->graph->n_local; v++)
        sum += s->values[v];
    pgas_status_t status = pgas_allreduce(NULL, &sum, &sum, 1, PGAS_F64, PGAS_ADD);
    if (status == PGAS_OK && info_p) {
        int me = s->graph->rank;
        pgas_pagerank_info_t info = {
            .seconds = 1e-9 * (double)(pgasi_now_ns() - begin_ns),
            .iterations = (int)s->n_done,
            .change = s->change,
            .sum = sum,
            .n_sent = s->plan.n_slots - (s->plan.slot_begin[me + 1] - s->plan.slot_begin[me]),
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
    sweeps_t s = { .graph = graph, .opts = opts ? opts : &defaults, .values = values };
    uint64_t begin_ns = pgasi_now_ns();
    bool sane = graph && (values || graph->n_local == 0);
    if (!sane)
        pgasi_graph_note("pgas_pagerank: the graph or values is NULL");
    pgas_status_t status = pgasi_graph_agree(sane ? PGAS_OK : PGAS_ERR_INVALID, NULL);
    if (status == PGAS_OK)
        status = make_rule(opts, &s.rule);
    if (status == PGAS_OK)
        status = pgasi_plan_init(&s.plan, graph);
    if (status != PGAS_OK)
        return status;
    pgas_status_t mine = allocate(&s);
    sweeping.now = &s;
    status = pgasi_graph_agree(mine, NULL); /* from here on every rank can take sums */
    if (status == PGAS_OK)
        status = start_values(&s);
    if (status == PGAS_OK) {
        run(&s);
        status = pgasi_graph_agree(s.status, NULL);
    }
    sweeping.now = NULL;
    if (status == PGAS_OK)
        status = describe(&s, begin_ns, info_p);
    free(s.share);
    free(s.incoming);
    free(s.chunk_change);
    free(s.chunk_dangling);
    pgasi_plan_fini(&s.plan);
    return status;
}
