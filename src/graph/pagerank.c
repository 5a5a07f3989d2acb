/* PageRank: sweeps over the in-edges (pull) or the out-edges (push) of the rank's own vertices.
 *
 * A sweep has these steps, which all threads of a rank take together:
 *  1. Each own vertex gets its share: value / out-degree.
 *  2. pull: the rank fetches the shares of ghosts, and each vertex sums the shares along its
 *     in-edges. push: each vertex adds its share along its out-edges; then the owners combine the
 *     sums of ghosts into their own.
 *  3. The threads compute new values from the sums. One allreduce sums the changes, and the values
 *     of vertices without out-edges.
 *
 * Sums have a fixed order: edges by id, changes by chunk. In a push each thread has its own range
 * of ends. Therefore the number of threads changes no bit. With the exchange ARRAY a push adds the
 * sums of several ranks in any order. */
#include <math.h>
#include "base/checks.h"
#include "base/clock.h"
#include "graph/run.h"
#include "pgas/coll.h"

#define CHUNK 16384 /* edges and vertices of a chunk of own ids */

typedef struct {
    pgas_graph_run_t *run;
    double *value, *share, *sum;           /* by id; sum: only for push */
    uint32_t *first_id;                    /* [n_chunks + 1] of each chunk */
    uint64_t n_chunks, next_chunk;         /* threads take chunks in turn */
    double *chunk_change, *chunk_dangling; /* [n_chunks] */
    double damping, base;
    double change, dangling; /* of all ranks, in the last sweep */
    bool pushes;
} ranking_t;

static uint64_t out_degree(const ranking_t *r, uint32_t id)
{
    const uint64_t *begin = r->run->info.out.begin;
    return begin[id + 1] - begin[id];
}

static inline void share_vertex(ranking_t *r, uint32_t id)
{
    uint64_t degree = out_degree(r, id);
    r->share[id] = degree > 0 ? r->value[id] / (double)degree : 0;
}
PGAS_VERTEX_MAP(share, ranking_t)

/* ---- sums ---- */

static double pull_sum(const ranking_t *r, uint32_t id)
{
    const pgas_graph_rows_t *in = &r->run->info.in;
    double sum = 0;
    for (uint64_t e = in->begin[id]; e < in->begin[id + 1]; e++)
        sum += r->share[in->end[e]];
    return sum;
}

/* The first edge of a row whose end is not below id. */
static uint64_t first_edge(const pgas_graph_rows_t *rows, uint32_t row, uint64_t id)
{
    uint64_t low = rows->begin[row], high = rows->begin[row + 1];
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (rows->end[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Thread i of n adds to the ends of its range of ids. */
static void push_sums(int i, int n, void *arg)
{
    const ranking_t *r = arg;
    const pgas_graph_info_t *info = &r->run->info;
    uint64_t n_ids = (uint64_t)info->n_local + info->n_ghosts;
    uint64_t begin = n_ids * (uint64_t)i / (uint64_t)n,
             end = n_ids * ((uint64_t)i + 1) / (uint64_t)n;
    for (uint64_t id = begin; id < end; id++)
        r->sum[id] = 0;
    for (uint32_t id = 0; id < info->n_local; id++) {
        uint64_t e = n > 1 ? first_edge(&info->out, id, begin) : info->out.begin[id];
        for (; e < info->out.begin[id + 1] && info->out.end[e] < end; e++)
            r->sum[info->out.end[e]] += r->share[id];
    }
}

/* ---- values ---- */

static void update_chunk(ranking_t *r, uint64_t chunk)
{
    double change = 0, dangling = 0;
    for (uint32_t id = r->first_id[chunk]; id < r->first_id[chunk + 1]; id++) {
        double sum = r->pushes ? r->sum[id] : pull_sum(r, id);
        double value = r->base + r->damping * sum;
        change += fabs(value - r->value[id]);
        dangling += out_degree(r, id) == 0 ? value : 0;
        r->value[id] = value;
    }
    r->chunk_change[chunk] = change;
    r->chunk_dangling[chunk] = dangling;
}

static void update_values(int i, int n, void *arg)
{
    ranking_t *r = arg;
    (void)i, (void)n;
    for (;;) {
        uint64_t chunk = __atomic_fetch_add(&r->next_chunk, 1, __ATOMIC_RELAXED);
        if (chunk >= r->n_chunks)
            break;
        update_chunk(r, chunk);
    }
}

static pgas_status_t sweep(ranking_t *r)
{
    pgas_status_t status;
    share_vertex_map(r->run, r);
    if (r->pushes) {
        pgas_graph_run_threads(r->run, push_sums, r);
        status = pgas_ghosts_combine(r->run, r->sum, PGAS_F64, PGAS_ADD);
    } else {
        status = pgas_ghosts_fetch(r->run, r->share, sizeof *r->share);
    }
    if (status != PGAS_OK)
        return status;
    r->next_chunk = 0;
    pgas_graph_run_threads(r->run, update_values, r);
    double sums[2] = { 0, 0 };
    for (uint64_t chunk = 0; chunk < r->n_chunks; chunk++) {
        sums[0] += r->chunk_change[chunk];
        sums[1] += r->chunk_dangling[chunk];
    }
    status = pgas_allreduce(NULL, sums, sums, 2, PGAS_F64, PGAS_ADD);
    r->change = sums[0];
    r->dangling = sums[1];
    return status;
}

/* ---- before and after ---- */

/* Chunks have about the same number of edges and vertices. */
static void make_chunks(ranking_t *r)
{
    const pgas_graph_info_t *info = &r->run->info;
    const uint64_t *begin = r->pushes ? info->out.begin : info->in.begin;
    uint64_t next = 0;
    for (uint32_t id = 0; id < info->n_local; id++) {
        uint64_t before = begin[id] + id;
        if (before < next)
            continue;
        r->first_id[r->n_chunks++] = id;
        next = (before / CHUNK + 1) * CHUNK;
    }
    r->first_id[r->n_chunks] = info->n_local;
}

static pgas_status_t start(ranking_t *r)
{
    pgas_graph_run_t *run = r->run;
    const pgas_graph_info_t *info = &run->info;
    r->pushes = run->opts.direction == PGAS_GRAPH_PUSH;
    uint64_t n_edges = r->pushes ? info->out.begin[info->n_local] : info->in.begin[info->n_local];
    uint64_t most = (n_edges + info->n_local) / CHUNK + 2;
    r->value = pgasi_run_state(run, 0, sizeof *r->value);
    r->share = pgasi_run_state(run, 1, sizeof *r->share);
    r->sum = r->pushes ? pgasi_run_state(run, 2, sizeof *r->sum) : r->share;
    r->first_id = pgasi_graph_scratch(run->graph, SLOT_STATE + 3, most, sizeof *r->first_id);
    r->chunk_change = pgasi_graph_scratch(run->graph, SLOT_STATE + 4, 2 * most, sizeof(double));
    bool have = r->value && r->share && r->sum && r->first_id && r->chunk_change;
    pgas_status_t status = pgasi_graph_agree(have ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status != PGAS_OK)
        return status;
    r->chunk_dangling = r->chunk_change + most;
    make_chunks(r);
    uint64_t n_dangling = 0;
    double value = 1 / (double)info->n_vertices;
    for (uint32_t id = 0; id < info->n_local; id++) {
        r->value[id] = value;
        n_dangling += out_degree(r, id) == 0;
    }
    status = pgas_allreduce(NULL, &n_dangling, &n_dangling, 1, PGAS_U64, PGAS_ADD);
    r->dangling = (double)n_dangling * value;
    return status;
}

/* The part of a value that does not depend on edges. */
static double base_value(const ranking_t *r)
{
    double n = (double)r->run->info.n_vertices, base = (1 - r->damping) / n;
    return r->run->opts.no_dangling ? base : base + r->damping * r->dangling / n;
}

static pgas_status_t sweep_all(ranking_t *r, int *n_sweeps_p)
{
    const pgas_graph_run_opts_t *o = &r->run->opts;
    int most = o->iterations > 0 ? o->iterations : o->tolerance > 0 ? 1000 : 20;
    pgas_status_t status = PGAS_OK;
    bool stop = false;
    r->damping = o->damping > 0 ? o->damping : 0.85;
    while (status == PGAS_OK && !stop) {
        r->base = base_value(r);
        status = sweep(r);
        ++*n_sweeps_p;
        stop = *n_sweeps_p >= most || (o->tolerance > 0 && r->change <= o->tolerance);
        pgasi_run_report(r->run, "rank", (uint64_t)*n_sweeps_p,
                         (uint64_t)(stop ? *n_sweeps_p : most));
    }
    return status;
}

static pgas_status_t deliver(const ranking_t *r, double *values, double *sum_p)
{
    const pgas_graph_info_t *info = &r->run->info;
    double sum = 0;
    for (uint32_t id = 0; id < info->n_local; id++)
        values[info->vertex[id] - info->first_vertex] = r->value[id];
    for (uint64_t chunk = 0; chunk < r->n_chunks; chunk++) {
        double part = 0; /* sums of parts lose less than one long sum */
        for (uint32_t id = r->first_id[chunk]; id < r->first_id[chunk + 1]; id++)
            part += r->value[id];
        sum += part;
    }
    return pgas_allreduce(NULL, &sum, sum_p, 1, PGAS_F64, PGAS_ADD);
}

pgas_status_t pgas_pagerank(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts, double *values,
                            pgas_graph_run_info_t *info_p)
{
    ranking_t r = { 0 };
    pgas_graph_run_info_t info = { .size = sizeof info };
    uint64_t begin_ns = pgasi_now_ns();
    bool needs_in = !opts || opts->direction != PGAS_GRAPH_PUSH;
    pgas_status_t status = pgasi_run_begin(graph, opts, NULL, needs_in, &r.run);
    if (status != PGAS_OK)
        return status;
    status = pgasi_graph_agree(values || graph->n_local == 0 ? PGAS_OK : PGAS_ERR_INVALID, NULL);
    if (status == PGAS_OK)
        status = start(&r);
    if (status == PGAS_OK)
        status = sweep_all(&r, &info.iterations);
    if (status == PGAS_OK)
        status = deliver(&r, values, &info.sum);
    info.change = r.change;
    info.n_found = graph->n_vertices;
    info.n_edges = graph->n_edges;
    return pgasi_run_end(r.run, status, begin_ns, &info, info_p);
}
