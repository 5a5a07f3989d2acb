/* array_pagerank: PageRank with a coherent array. The program is examples/pagerank, which calls
 * this function in place of pgas_pagerank. Vertices add their shares to elements of the array, on
 * whichever ranks these are. Ranks of different nodes add at the same time; the array combines
 * their sums when the owner of the vertices reads them.
 *
 *   mpirun -n 2 build/examples/array_pagerank FILE */
#include <math.h>
#include <pgas/array.h>
#include <pgas/graph.h>
#include <pgas/pgas.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Elements of a chunk. A chunk has one lock, and each node that adds to it sends one message. */
#define CHUNK 8192

static pgas_graph_info_t graph;
static pgas_array_t *sums; /* of the shares that each vertex receives in a sweep */

/* Vertex t receives from own vertices sources[begin[t]] .. sources[begin[t + 1] - 1]. */
static uint32_t *begin, *sources;

static double *values;       /* of own vertices */
static double *shares;       /* of own vertices: what each adds to the target of an edge */
static double damping, base; /* every vertex receives `base` */

/* Totals of a sweep at this rank. DANGLING: the values of vertices without out-edges. */
enum { CHANGE, DANGLING, ERRORS, N_TOTALS };
static double totals[N_TOTALS];
static pgas_status_t error;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool add_totals(double change, double dangling, pgas_status_t status)
{
    pthread_mutex_lock(&lock);
    totals[CHANGE] += change;
    totals[DANGLING] += dangling;
    if (status != PGAS_OK) {
        totals[ERRORS]++;
        error = status;
    }
    pthread_mutex_unlock(&lock);
    return status == PGAS_OK;
}

static void add_to_chunk(pgas_array_walk_t *w)
{
    for (uint64_t k = 0; k < w->n; k++) {
        double sum = 0;
        for (uint32_t e = begin[w->first + k]; e < begin[w->first + k + 1]; e++)
            sum += shares[sources[e]];
        ((double *)w->data)[k] += sum;
    }
}

/* Thread i of n adds the shares of own vertices to every n-th chunk. Ranks of a node add into the
 * same memory, so each locks the chunk. */
static void give(int i, int n, void *arg)
{
    (void)arg;
    uint64_t n_chunks = (graph.n_vertices + CHUNK - 1) / CHUNK;
    uint64_t start = (graph.first_vertex + graph.n_local) / CHUNK;
    for (uint64_t c = (uint64_t)i; c < n_chunks; c += (uint64_t)n) {
        uint64_t first = (start + c) % n_chunks * CHUNK, rest = graph.n_vertices - first;
        pgas_array_walk_t w;
        if (!add_totals(0, 0, pgas_array_lock(sums, first, PGAS_ARRAY_WRITE, -1)))
            return;
        pgas_array_walk_begin(sums, first, rest < CHUNK ? rest : CHUNK, PGAS_ARRAY_OPERATE,
                              PGAS_OP(PGAS_ADD, PGAS_F64), &w);
        while (pgas_array_walk_next(&w)) /* a chunk at the border of two ranks has two pieces */
            add_to_chunk(&w);
        add_totals(0, 0, pgas_array_walk_end(&w));
        add_totals(0, 0, pgas_array_unlock(sums, first));
    }
}

/* Thread i of n computes the values of its part of the own vertices from the sums, and clears the
 * sums. */
static void take(int i, int n, void *arg)
{
    (void)arg;
    uint64_t first, n_elems;
    double change = 0, dangling = 0;
    pgas_array_walk_t w;
    pgas_array_range(sums, -1, &first, &n_elems);
    uint64_t from = first + n_elems * (uint64_t)i / (uint64_t)n;
    uint64_t to = first + n_elems * ((uint64_t)i + 1) / (uint64_t)n;
    pgas_array_walk_begin(sums, from, to - from, PGAS_ARRAY_WRITE, 0, &w);
    while (pgas_array_walk_next(&w))
        for (uint64_t k = 0; k < w.n; k++) {
            uint64_t v = w.first + k - graph.first_vertex;
            uint64_t degree = graph.offsets[v + 1] - graph.offsets[v];
            double *sum = (double *)w.data + k;
            double value = base + damping * *sum;
            change += fabs(value - values[v]);
            dangling += degree == 0 ? value : 0;
            values[v] = value;
            shares[v] = degree == 0 ? 0 : value / (double)degree;
            *sum = 0;
        }
    add_totals(change, dangling, pgas_array_walk_end(&w));
}

/* The same status on all ranks, so that no rank waits for one that has stopped. */
static pgas_status_t agree(pgas_status_t status)
{
    int32_t bad = status != PGAS_OK, n_bad = 0;
    pgas_status_t reduced = pgas_allreduce(NULL, &bad, &n_bad, 1, PGAS_I32, PGAS_ADD);
    if (status == PGAS_OK && n_bad > 0)
        return PGAS_ERR_NO_MEMORY;
    return status == PGAS_OK ? reduced : status;
}

/* Each rank is the home of its vertices' elements. */
static pgas_status_t create_sums(void)
{
    uint64_t n = graph.n_vertices, n_ranks = (uint64_t)pgas_n_ranks();
    uint64_t *offsets = malloc((n_ranks + 1) * sizeof *offsets);
    if (agree(offsets ? PGAS_OK : PGAS_ERR_NO_MEMORY) != PGAS_OK) {
        free(offsets);
        return PGAS_ERR_NO_MEMORY;
    }
    for (uint64_t k = 0; k <= n_ranks; k++)
        offsets[k] = k * graph.block < n ? k * graph.block : n;
    pgas_array_opts_t opts = { .size = sizeof opts, .chunk_elems = CHUNK, .offsets = offsets };
    pgas_status_t status = pgas_array_create(NULL, sizeof(double), n, &opts, &sums);
    free(offsets);
    return status;
}

/* Sorts edges by target. It counts two places ahead, so that the counts become the begins. */
static pgas_status_t sort_edges(void)
{
    uint64_t n = graph.n_vertices;
    begin = calloc(n + 2, sizeof *begin);
    sources = malloc((graph.offsets[graph.n_local] + 1) * sizeof *sources);
    if (!begin || !sources)
        return PGAS_ERR_NO_MEMORY;
    for (uint64_t e = 0; e < graph.offsets[graph.n_local]; e++)
        begin[graph.targets[e] + 2]++;
    for (uint64_t t = 0; t < n; t++)
        begin[t + 2] += begin[t + 1];
    for (uint64_t v = 0; v < graph.n_local; v++)
        for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; e++)
            sources[begin[graph.targets[e] + 1]++] = (uint32_t)v;
    return PGAS_OK;
}

static int most_sweeps(const pgas_pagerank_opts_t *o)
{
    if (o->iterations > 0)
        return o->iterations;
    return o->tolerance > 0 ? 1000 : 20;
}

pgas_status_t array_pagerank(const pgas_graph_t *g, const pgas_pagerank_opts_t *o, double *result,
                             pgas_pagerank_info_t *info_p)
{
    int most = most_sweeps(o), n_threads = o->n_threads > 0 ? o->n_threads : 1;
    double begun = pgas_time();
    graph.size = sizeof graph;
    pgas_graph_info(g, &graph);
    values = result;
    memset(values, 0, graph.n_local * sizeof *values);
    shares = malloc((graph.n_local + 1) * sizeof *shares);
    damping = o->damping > 0 ? o->damping : 0.85;
    base = 1 / (double)graph.n_vertices; /* for the first take */
    pgas_status_t status = create_sums();
    if (status == PGAS_OK)
        status = agree(shares ? sort_edges() : PGAS_ERR_NO_MEMORY);

    for (info_p->iterations = 0; status == PGAS_OK; info_p->iterations++) {
        o->parallel(n_threads, take, NULL);
        status = pgas_allreduce(NULL, totals, totals, N_TOTALS, PGAS_F64, PGAS_ADD);
        info_p->change = totals[CHANGE];
        double dangling = o->no_dangling ? 0 : damping * totals[DANGLING];
        base = (1 - damping + dangling) / (double)graph.n_vertices;
        bool stop = status != PGAS_OK || totals[ERRORS] > 0 || info_p->iterations == most ||
                    totals[CHANGE] <= o->tolerance;
        o->progress("rank", (uint64_t)info_p->iterations,
                    (uint64_t)(stop ? info_p->iterations : most), o->progress_arg);
        if (stop)
            break;
        totals[CHANGE] = totals[DANGLING] = 0;
        o->parallel(n_threads, give, NULL);
        pgas_barrier(NULL);
    }

    if (sums)
        pgas_array_destroy(sums);
    free(begin);
    free(sources);
    free(shares);
    info_p->seconds = pgas_time() - begun;
    if (error != PGAS_OK)
        return error;
    return status == PGAS_OK && totals[ERRORS] > 0 ? PGAS_ERR_MISMATCH : status;
}
