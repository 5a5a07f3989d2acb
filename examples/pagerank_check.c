/* pagerank: the serial check. Rank 0 gathers the graph and the values, pushes shares along the
 * edges one by one, and compares. */
#include "pagerank_check.h"
#include <math.h>
#include <pgas/coll.h>
#include <pgas/runtime.h>
#include <stdlib.h>
#include <string.h>

#define N_TOP    10
#define L1_MAX   1e-9
#define ROUNDING 1e-9 /* relative: values that differ by less may change places */

/* The whole graph on rank 0. */
typedef struct {
    uint64_t n, n_edges;
    double *values, *x, *y;
    uint64_t *offsets, *targets;
} whole_t;

void pagerank_serial(uint64_t n, const uint64_t *offsets, const uint64_t *targets,
                     const pgas_pagerank_opts_t *opts, double *x, double *y)
{
    double damping = opts->damping > 0 ? opts->damping : 0.85;
    for (uint64_t v = 0; v < n; v++)
        x[v] = 1 / (double)n;
    for (int sweep = 0; sweep < opts->iterations; sweep++) {
        double dangling = 0;
        memset(y, 0, n * sizeof *y);
        for (uint64_t v = 0; v < n; v++) {
            double share = x[v] / (double)(offsets[v + 1] - offsets[v]);
            dangling += offsets[v] == offsets[v + 1] && !opts->no_dangling ? x[v] : 0;
            for (uint64_t e = offsets[v]; e < offsets[v + 1]; e++)
                y[targets[e]] += share;
        }
        for (uint64_t v = 0; v < n; v++)
            x[v] = (1 - damping) / (double)n + damping * (y[v] + dangling / (double)n);
    }
}

/* ---- gathering ---- */

static bool whole_init(whole_t *w)
{
    w->values = malloc((w->n + 1) * sizeof *w->values);
    w->x = malloc((w->n + 1) * sizeof *w->x);
    w->y = malloc((w->n + 1) * sizeof *w->y);
    w->offsets = malloc((w->n + 1) * sizeof *w->offsets);
    w->targets = malloc((w->n_edges + 1) * sizeof *w->targets);
    if (w->offsets)
        w->offsets[0] = 0;
    return w->values && w->x && w->y && w->offsets && w->targets;
}

static void whole_fini(whole_t *w)
{
    free(w->values);
    free(w->x);
    free(w->y);
    free(w->offsets);
    free(w->targets);
}

/* The same on all ranks, so that no rank waits for one that has stopped. */
static pgas_status_t agree(bool good)
{
    int32_t all = good;
    pgas_status_t status = pgas_allreduce(NULL, &all, &all, 1, PGAS_I32, PGAS_MIN);
    return status == PGAS_OK && !all ? PGAS_ERR_NO_MEMORY : status;
}

/* Degrees are gathered after offsets[0] and then summed up. */
static pgas_status_t gather(const pgas_graph_info_t *part, const double *values, whole_t *w)
{
    size_t n_ranks = (size_t)pgas_n_ranks(), n_edges = part->offsets[part->n_local];
    size_t vertex_bytes = part->n_local * sizeof *values, edge_bytes = n_edges * sizeof(uint64_t);
    uint64_t *degrees = malloc(vertex_bytes + 1);
    size_t *bytes_of = malloc(n_ranks * sizeof *bytes_of);
    pgas_status_t status = agree((pgas_rank() != 0 || whole_init(w)) && degrees && bytes_of);
    for (uint64_t v = 0; v < part->n_local && status == PGAS_OK; v++)
        degrees[v] = part->offsets[v + 1] - part->offsets[v];
    if (status == PGAS_OK)
        status = pgas_allgather(NULL, &vertex_bytes, bytes_of, sizeof vertex_bytes);
    if (status == PGAS_OK)
        status = pgas_gatherv(NULL, values, vertex_bytes, w->values, bytes_of, 0);
    if (status == PGAS_OK)
        status = pgas_gatherv(NULL, degrees, vertex_bytes, w->offsets ? w->offsets + 1 : NULL,
                              bytes_of, 0);
    if (status == PGAS_OK)
        status = pgas_allgather(NULL, &edge_bytes, bytes_of, sizeof edge_bytes);
    if (status == PGAS_OK)
        status = pgas_gatherv(NULL, part->targets, edge_bytes, w->targets, bytes_of, 0);
    for (uint64_t v = 0; w->offsets && v < w->n && status == PGAS_OK; v++)
        w->offsets[v + 1] += w->offsets[v];
    free(degrees);
    free(bytes_of);
    return status;
}

/* ---- comparing ---- */

static uint64_t find_top(const double *values, uint64_t n, uint64_t top[N_TOP])
{
    uint64_t n_top = 0;
    for (uint64_t v = 0; v < n; v++) {
        uint64_t at = n_top;
        while (at > 0 && values[v] > values[top[at - 1]])
            at--;
        if (at == N_TOP)
            continue;
        n_top += n_top < N_TOP;
        memmove(top + at + 1, top + at, (n_top - 1 - at) * sizeof *top);
        top[at] = v;
    }
    return n_top;
}

static void compare(const double *serial, const double *values, uint64_t n, pagerank_check_t *check)
{
    uint64_t ours[N_TOP], theirs[N_TOP];
    for (uint64_t v = 0; v < n; v++)
        check->l1 += fabs(serial[v] - values[v]);
    check->same_top = true;
    uint64_t n_top = find_top(values, n, ours);
    find_top(serial, n, theirs);
    for (uint64_t i = 0; i < n_top; i++) {
        double a = serial[ours[i]], b = serial[theirs[i]];
        check->same_top = check->same_top && (ours[i] == theirs[i] || fabs(a - b) <= ROUNDING * b);
    }
    check->good = check->same_top && check->l1 <= L1_MAX;
}

pgas_status_t pagerank_check(const pgas_graph_t *graph, const pgas_pagerank_opts_t *opts,
                             const double *values, pagerank_check_t *check_p)
{
    pgas_graph_info_t part = { .size = sizeof part };
    pagerank_check_t check = { .good = false };
    pgas_status_t status = pgas_graph_info(graph, &part);
    if (status != PGAS_OK)
        return status;
    whole_t w = { .n = part.n_vertices, .n_edges = part.n_edges };
    status = gather(&part, values, &w);
    if (status == PGAS_OK && pgas_rank() == 0) {
        check.seconds = -pgas_time();
        pagerank_serial(w.n, w.offsets, w.targets, opts, w.x, w.y);
        check.seconds += pgas_time();
        compare(w.x, w.values, w.n, &check);
    }
    whole_fini(&w);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, &check, sizeof check, 0);
    *check_p = check;
    return status;
}
