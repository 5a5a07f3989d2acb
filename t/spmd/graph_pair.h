/* A random graph twice: as a graph of pgas/graph.h over all ranks, and whole on every rank for the
 * serial checkers. */
#ifndef T_SPMD_GRAPH_PAIR_H
#define T_SPMD_GRAPH_PAIR_H

#include <pthread.h>
#include "base/rng.h"
#include "pgas/graph.h"
#include "t/spmd/job.h"
#include "tools/graph_check.h"

typedef struct {
    uint64_t n;
    bool directed, simple;
    pgas_type_t weight_type;
    size_t n_edges;
    uint64_t *ends; /* two for each edge */
    double *weights;
    check_graph_t whole;
    pgas_graph_t *graph;
    pgas_graph_info_t info;
} pair_t;

/* ---- making ---- */

/* A weight that the type represents exactly; for U32 an integer from 1 to 50. */
static inline double pair_weight(pgas_type_t type, pgasi_rng_t *rng)
{
    double w = (double)(1 + pgasi_rng_below(rng, 50));
    return type == PGAS_U32 ? w : w + (double)pgasi_rng_below(rng, 1024) / 1024;
}

/* Edges whose begins are spread, and whose ends are mostly small numbers. */
static inline void pair_draw(pair_t *p, pgasi_rng_t *rng, bool loops)
{
    for (size_t i = 0; i < p->n_edges; i++) {
        uint64_t from = pgasi_rng_below(rng, p->n);
        uint64_t to = pgasi_rng_below(rng, pgasi_rng_below(rng, p->n) + 1);
        if (from == to && !loops)
            to = (to + 1) % p->n;
        p->ends[2 * i] = from;
        p->ends[2 * i + 1] = to;
        p->weights[i] = pair_weight(p->weight_type, rng);
    }
}

static inline void pair_count(pair_t *p, bool back, uint64_t *begin)
{
    for (size_t i = 0; i < p->n_edges; i++)
        if (!back || p->ends[2 * i] != p->ends[2 * i + 1])
            begin[p->ends[2 * i + back]]++;
}

static inline void pair_lay(pair_t *p, bool back, uint64_t *begin)
{
    for (size_t i = 0; i < p->n_edges; i++) {
        if (!back || p->ends[2 * i] != p->ends[2 * i + 1]) {
            uint64_t at = begin[p->ends[2 * i + back]]++;
            p->whole.end[at] = (uint32_t)p->ends[2 * i + !back];
            if (p->whole.weight)
                p->whole.weight[at] = p->weights[i];
        }
    }
}

/* Drops loops, and all but the first of equal ends: rows are sorted by ends, then by weights. */
static inline void pair_simplify(check_graph_t *g)
{
    uint64_t n = 0, begin = 0;
    for (uint64_t v = 0; v < g->n; v++) {
        uint64_t row = n;
        for (uint64_t e = begin; e < g->begin[v + 1]; e++) {
            if (g->end[e] == v || (n > row && g->end[n - 1] == g->end[e]))
                continue;
            g->end[n] = g->end[e];
            if (g->weight)
                g->weight[n] = g->weight[e];
            n++;
        }
        begin = g->begin[v + 1];
        g->begin[v + 1] = n;
    }
}

static inline void pair_make_whole(pair_t *p)
{
    p->whole =
        (check_graph_t){ .n = p->n, .directed = p->directed, .exact = p->weight_type == PGAS_U32 };
    uint64_t *begin = (uint64_t *)job_alloc((p->n + 2) * sizeof *begin);
    bool good = check_graph_alloc(&p->whole, 2 * p->n_edges, p->weight_type != PGAS_TYPE_NONE);
    pair_count(p, false, begin + 1);
    if (!p->directed)
        pair_count(p, true, begin + 1);
    for (uint64_t v = 0; v < p->n; v++)
        begin[v + 1] += begin[v];
    memcpy(p->whole.begin, begin, (p->n + 1) * sizeof *begin);
    pair_lay(p, false, begin);
    if (!p->directed)
        pair_lay(p, true, begin);
    free(begin);
    good = good && check_graph_sort(&p->whole);
    if (!good) {
        printf("Bail out! no memory for a graph\n");
        exit(99);
    }
    if (p->simple)
        pair_simplify(&p->whole);
}

/* Each rank gives the edges i with i % n_ranks = rank. */
static inline pgas_status_t pair_create(pair_t *p)
{
    pgas_graph_opts_t opts = { .size = sizeof opts,
                               .undirected = !p->directed,
                               .simple = p->simple,
                               .weight_type = p->weight_type };
    uint64_t *ends = (uint64_t *)job_alloc(2 * p->n_edges * sizeof *ends);
    void *weights = job_alloc(p->n_edges * sizeof(double));
    pgas_graph_edges_t edges = { 0, ends, p->weight_type == PGAS_TYPE_NONE ? NULL : weights };
    for (size_t i = (size_t)me; i < p->n_edges; i += (size_t)n_ranks) {
        size_t n = edges.n_edges++;
        ends[2 * n] = p->ends[2 * i];
        ends[2 * n + 1] = p->ends[2 * i + 1];
        if (p->weight_type == PGAS_U32)
            ((uint32_t *)weights)[n] = (uint32_t)p->weights[i];
        else if (p->weight_type == PGAS_F32)
            ((float *)weights)[n] = (float)p->weights[i];
        else
            ((double *)weights)[n] = p->weights[i];
    }
    pgas_status_t status = pgas_graph_create(p->n, &edges, &opts, &p->graph);
    free(ends);
    free(weights);
    return status;
}

/* Makes both graphs. The program ends if the library's cannot be made. */
static inline pair_t pair_make(pair_t form, pgasi_rng_t *rng, bool loops)
{
    pair_t p = form;
    p.ends = (uint64_t *)job_alloc(2 * p.n_edges * sizeof *p.ends);
    p.weights = (double *)job_alloc(p.n_edges * sizeof *p.weights);
    p.info.size = sizeof p.info;
    pair_draw(&p, rng, loops);
    pair_make_whole(&p);
    pgas_status_t status = pair_create(&p);
    if (status == PGAS_OK)
        status = pgas_graph_info(p.graph, &p.info);
    if (status != PGAS_OK) {
        printf("Bail out! no graph: %s\n", pgas_status_text(status));
        exit(99);
    }
    return p;
}

static inline void pair_free(pair_t *p)
{
    pgas_graph_destroy(p->graph);
    check_graph_free(&p->whole);
    free(p->ends);
    free(p->weights);
}

/* The same words for all tests that fail. */
static inline void pair_diag(const pair_t *p, const char *text)
{
    spmd_diag("%llu vertices, %zu edges, %s, %s, weights of type %d: %s", (unsigned long long)p->n,
              p->n_edges, p->directed ? "directed" : "undirected",
              p->simple ? "simple" : "multiple", (int)p->weight_type, text);
}

/* ---- values ---- */

/* Gathers values of 8 bytes of all ranks on every rank. The caller frees them. */
static inline void *pair_gather(pair_t *p, const void *values)
{
    size_t bytes_of[JOB_RANKS_MAX];
    pgas_graph_info(p->graph, &p->info); /* an algorithm may have made in-edges */
    void *all = job_alloc(p->n * 8);
    for (int r = 0; r < n_ranks; r++)
        bytes_of[r] = (size_t)(p->info.first_of[r + 1] - p->info.first_of[r]) * 8;
    pgas_allgatherv(NULL, values, (size_t)p->info.n_local * 8, all, bytes_of);
    return all;
}

/* ---- threads of the test's own ---- */

typedef struct {
    pgas_graph_work_fn_t work;
    void *arg;
    int i, n;
} pair_worker_t;

static void *pair_run_worker(void *arg)
{
    pair_worker_t *w = (pair_worker_t *)arg;
    pgas_thread_attach();
    w->work(w->i, w->n, w->arg);
    pgas_thread_detach();
    return NULL;
}

/* A pgas_graph_parallel_fn_t for at most 8 threads. */
static inline void pair_threads(int n_threads, pgas_graph_work_fn_t work, void *arg)
{
    pthread_t thread[8];
    pair_worker_t worker[8];
    for (int i = 1; i < n_threads; i++) {
        worker[i] = (pair_worker_t){ work, arg, i, n_threads };
        pthread_create(&thread[i], NULL, pair_run_worker, &worker[i]);
    }
    work(0, n_threads, arg);
    for (int i = 1; i < n_threads; i++)
        pthread_join(thread[i], NULL);
}

#endif
