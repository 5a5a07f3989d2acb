/* Shortest paths by delta stepping.
 *
 * The near vertices are those whose distance has been lowered below the end of the current bucket.
 * Edge maps push along their edges until no vertex is near. One far list has each vertex whose
 * distance was lowered to a value at or above the end. The next bucket begins at the least far
 * distance, and takes its vertices out of the far list. So memory does not depend on the number of
 * buckets.
 *
 * A ghost's element is the least distance that this rank has sent to the owner. A rank never sends
 * a greater one. */
#include <math.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "graph/run.h"
#include "pgas/coll.h"

typedef struct {
    pgas_graph_run_t *run;
    double *distance; /* by id */
    double end;       /* of the current bucket */
    double delta;
    double least; /* of the far distances; it may be too low */
    pgas_subset_t *near, *lowered, *far;
} paths_t;

static inline bool sssp_wants(const paths_t *p, uint32_t to)
{
    (void)p, (void)to;
    return true;
}

static inline bool sssp_update(paths_t *p, uint32_t from, uint32_t to, double weight)
{
    return pgas_graph_lower_f64(&p->distance[to], p->distance[from] + weight);
}

static inline double sssp_send(paths_t *p, uint32_t ghost)
{
    return p->distance[ghost];
}

static inline bool sssp_receive(paths_t *p, uint32_t own, double distance)
{
    return pgas_graph_lower_f64(&p->distance[own], distance);
}

static inline double sssp_read(const paths_t *p, uint32_t own)
{
    return p->distance[own];
}

static inline void sssp_copy(paths_t *p, uint32_t ghost, double distance)
{
    p->distance[ghost] = distance;
}

PGAS_EDGE_MAP(sssp, paths_t, double)

/* ---- buckets ---- */

/* The lowered vertices become near or far. */
static pgas_status_t sort_lowered(paths_t *p)
{
    pgas_subset_clear(p->near);
    pgas_subset_list(p->lowered);
    for (uint64_t i = 0; i < p->lowered->n; i++) {
        uint32_t id = p->lowered->ids[i];
        double distance = p->distance[id];
        if (distance < p->end) {
            pgas_subset_add(p->near, id);
        } else {
            pgas_subset_add(p->far, id);
            p->least = PGASI_MIN(p->least, distance);
        }
    }
    return pgas_subset_count(p->near);
}

/* Moves the vertices before the end of the bucket from `far` to `near`. Those before its begin have
 * been near since they became far. */
static void take_near(paths_t *p, double begin)
{
    pgas_subset_t *far = p->far;
    uint64_t n = 0;
    p->least = INFINITY;
    for (uint64_t i = 0; i < far->n; i++) {
        uint32_t id = far->ids[i];
        double distance = p->distance[id];
        if (distance >= p->end) {
            p->least = PGASI_MIN(p->least, distance);
            far->ids[n++] = id;
            continue;
        }
        far->bits[id >> 6] &= ~(UINT64_C(1) << (id & 63));
        if (distance >= begin)
            pgas_subset_add(p->near, id);
    }
    far->n = n;
}

/* Begins the bucket of the least far distance. `near` stays empty if there is none. p->least may be
 * that of a vertex that has become near since; then the bucket is empty, and the next one
 * begins. */
static pgas_status_t next_bucket(paths_t *p)
{
    pgas_status_t status = PGAS_OK;
    pgas_subset_clear(p->near);
    while (status == PGAS_OK && p->near->n_all == 0) {
        double least = p->least, begin = p->end;
        status = pgas_allreduce(NULL, &least, &least, 1, PGAS_F64, PGAS_MIN);
        if (status != PGAS_OK || isinf(least))
            return status;
        p->end = (floor(least / p->delta) + 1) * p->delta;
        if (!(p->end > least)) /* delta is too small beside the distance */
            p->end = nextafter(least, INFINITY);
        take_near(p, begin);
        status = pgas_subset_count(p->near);
    }
    return status;
}

static pgas_status_t search(paths_t *p, int *n_buckets_p)
{
    pgas_status_t status = pgas_subset_count(p->near);
    p->end = p->delta;
    p->least = INFINITY;
    while (status == PGAS_OK && p->near->n_all > 0) {
        status = sssp_edge_map(p->run, p, p->near, p->lowered);
        if (status == PGAS_OK)
            status = sort_lowered(p);
        if (status == PGAS_OK && p->near->n_all == 0) {
            status = next_bucket(p);
            pgasi_run_report(p->run, "sssp", (uint64_t)++ * n_buckets_p, 0);
        }
    }
    return status;
}

/* ---- before and after ---- */

/* The width is about the weight of a vertex's lightest edge. A narrower bucket is nearer to
 * Dijkstra's algorithm, a wider one to Bellman and Ford's. */
static double choose_delta(const pgas_graph_t *graph)
{
    double degree = (double)graph->n_edges / (double)graph->n_vertices;
    double delta = 2 * graph->greatest_weight / fmax(degree, 1);
    return delta > 0 ? delta : 1;
}

static pgas_status_t start(paths_t *p, uint64_t source)
{
    pgas_graph_run_t *run = p->run;
    const pgas_graph_t *graph = run->graph;
    pgas_status_t status = PGAS_OK;
    p->distance = pgasi_run_state(run, 0, sizeof *p->distance);
    if (!p->distance)
        status = PGAS_ERR_NO_MEMORY;
    if (graph->least_weight < 0 || isnan(graph->least_weight)) {
        pgasi_graph_note("pgas_sssp: a weight is negative or not a number");
        status = PGAS_ERR_INVALID;
    }
    if (status == PGAS_OK)
        status = pgas_subset_create(run, &p->near);
    if (status == PGAS_OK)
        status = pgas_subset_create(run, &p->lowered);
    if (status == PGAS_OK)
        status = pgas_subset_create(run, &p->far);
    status = pgasi_graph_agree(status, NULL);
    if (status != PGAS_OK)
        return status;
    p->delta = run->opts.delta > 0 ? run->opts.delta : choose_delta(graph);
    if (run->opts.direction == PGAS_GRAPH_DIRECTION_AUTO)
        run->opts.direction = PGAS_GRAPH_PUSH; /* a pull looks at all in-edges */
    for (uint64_t id = 0; id < (uint64_t)graph->n_local + graph->n_ghosts; id++)
        p->distance[id] = INFINITY;
    if (pgasi_graph_is_own(graph, source)) {
        uint32_t id = graph->id_of[source - graph->first];
        p->distance[id] = 0;
        pgas_subset_add(p->near, id);
    }
    return PGAS_OK;
}

static pgas_status_t deliver(const paths_t *p, double *distances, uint64_t *found)
{
    const pgas_graph_info_t *info = &p->run->info;
    for (uint32_t id = 0; id < info->n_local; id++) {
        distances[info->vertex[id] - info->first_vertex] = p->distance[id];
        if (p->distance[id] < INFINITY) {
            found[0]++;
            found[1] += info->out.begin[id + 1] - info->out.begin[id];
        }
    }
    return pgas_allreduce(NULL, found, found, 2, PGAS_U64, PGAS_ADD);
}

pgas_status_t pgas_sssp(pgas_graph_t *graph, uint64_t source, const pgas_graph_run_opts_t *opts,
                        double *distances, pgas_graph_run_info_t *info_p)
{
    paths_t p = { 0 };
    pgas_graph_run_info_t info = { .size = sizeof info };
    uint64_t found[2] = { 0, 0 }, begin_ns = pgasi_now_ns();
    bool needs_in = opts && opts->direction == PGAS_GRAPH_PULL;
    pgas_status_t status = pgasi_run_begin(graph, opts, &source, needs_in, &p.run);
    if (status != PGAS_OK)
        return status;
    status = pgasi_graph_agree(distances || graph->n_local == 0 ? PGAS_OK : PGAS_ERR_INVALID, NULL);
    if (status == PGAS_OK)
        status = start(&p, source);
    if (status == PGAS_OK)
        status = search(&p, &info.iterations);
    if (status == PGAS_OK)
        status = deliver(&p, distances, found);
    info.n_found = found[0];
    info.n_edges = found[1];
    return pgasi_run_end(p.run, status, begin_ns, &info, info_p);
}
