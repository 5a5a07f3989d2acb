/* Weakly connected components of graphs whose ranks have clusters of their own.
 *   what:   A rank skips most edges of its largest cluster. Labels are right all the same if single
 *           edges join the clusters of ranks, or only of some ranks, and while threads join these
 *           edges. Ranks send values of vertices that join sets, not of all ghosts. A long path
 *           takes little more time than its vertices.
 *   np:     1 2 3 5 7
 *   nodes:  0 1 2 3
 *   source: pgas/graph.h; src/graph/components.c; seeded model test
 */
#include <time.h>
#include "pgas/edge_map.h"
#include "t/spmd/graph_pair.h"

enum { MEMBERS = 40, REACH = 4, KINDS = 5, TURNS = 6 };

/* Cluster r has the vertices r * MEMBERS .. (r + 1) * MEMBERS - 1, which rank r owns. */
typedef struct {
    uint64_t *ends;
    uint64_t n_edges;
    uint64_t first_of[JOB_RANKS_MAX + 1];
    int least[JOB_RANKS_MAX]; /* the first cluster of each cluster's component */
} clusters_t;

static void add_edge(clusters_t *c, uint64_t a, uint64_t b)
{
    c->ends[2 * c->n_edges] = a;
    c->ends[2 * c->n_edges++ + 1] = b;
}

/* Joins any vertex of a cluster with any one of another cluster. */
static void add_bridge(clusters_t *c, int a, int b, pgasi_rng_t *rng)
{
    int low = c->least[a] < c->least[b] ? c->least[a] : c->least[b];
    int high = c->least[a] + c->least[b] - low;
    add_edge(c, (uint64_t)a * MEMBERS + pgasi_rng_below(rng, MEMBERS),
             (uint64_t)b * MEMBERS + pgasi_rng_below(rng, MEMBERS));
    for (int r = 0; r < n_ranks; r++)
        c->least[r] = c->least[r] == high ? low : c->least[r];
}

/* Each vertex has edges to its next ones in the ring of the cluster. So it has more own neighbours
 * than the edges that are always joined. */
static void add_rings(clusters_t *c)
{
    for (int r = 0; r <= n_ranks; r++)
        c->first_of[r] = (uint64_t)r * MEMBERS;
    for (int r = 0; r < n_ranks; r++) {
        c->least[r] = r;
        for (uint64_t i = 0; i < MEMBERS; i++)
            for (uint64_t k = 1; k <= REACH; k++)
                add_edge(c, c->first_of[r] + i, c->first_of[r] + (i + k) % MEMBERS);
    }
}

static clusters_t make_clusters(int kind, pgasi_rng_t *rng)
{
    clusters_t c = { .n_edges = 0 };
    c.ends = (uint64_t *)job_alloc((size_t)n_ranks * MEMBERS * (REACH + 1) * 2 * sizeof *c.ends);
    add_rings(&c);
    for (int r = 1; r < n_ranks; r++) {
        int other = (int)pgasi_rng_below(rng, (uint64_t)n_ranks);
        if (kind == 1 || (kind == 2 && r < n_ranks - 1))
            add_bridge(&c, r - 1, r, rng);
        else if (kind == 3 && r >= 2)
            add_bridge(&c, r - 2, r, rng);
        else if (kind == 4 && other != r)
            add_bridge(&c, r, other, rng);
    }
    return c;
}

static pgas_graph_t *make_graph(const clusters_t *c, uint64_t n_vertices, bool directed)
{
    pgas_graph_opts_t opts = PGAS_GRAPH_OPTS_INIT;
    opts.undirected = !directed;
    opts.first_of = c->first_of;
    pgas_graph_edges_t edges = { me == 0 ? c->n_edges : 0, c->ends, NULL };
    pgas_graph_t *graph = NULL;
    pgas_status_t status = pgas_graph_create(n_vertices, &edges, &opts, &graph);
    if (status != PGAS_OK) {
        printf("Bail out! no graph: %s\n", pgas_status_text(status));
        exit(99);
    }
    return graph;
}

static bool is_right(const clusters_t *c, pgas_graph_t *graph, int turn)
{
    uint64_t labels[MEMBERS];
    pgas_graph_run_opts_t opts = PGAS_GRAPH_RUN_OPTS_INIT;
    opts.exchange = turn % 2 == 0 ? PGAS_GRAPH_MESSAGES : PGAS_GRAPH_ARRAY;
    opts.n_threads = turn % 3 == 0 ? 3 : 1;
    opts.parallel = pair_threads;
    bool good = pgas_components(graph, &opts, labels, NULL) == PGAS_OK;
    for (int i = 0; i < MEMBERS; i++)
        good = good && labels[i] == (uint64_t)c->least[me] * MEMBERS;
    return good;
}

/* ---- a set that changes while its rows are joined ---- */

enum { CHUNK = PGAS_EDGE_CHUNK, LARGE = 8 * CHUNK, RING = 8, COPIES = 8 };

/* Vertices begin .. begin + n - 1 become a ring. */
static void add_ring(clusters_t *c, uint64_t begin, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 1; k <= 2; k++)
            add_edge(c, begin + i, begin + (i + k) % n);
}

/* Rank 0 has a ring of LARGE vertices and as many single vertices, rank 1 a ring of LARGE, rank 2 a
 * small ring. Vertices of the first ring lead to the second one, one of them to the small one
 * instead. Single vertices lead to the second ring as well, by several edges, so they have lower
 * ids. Rank 0 first skips the rows of its ring. When two threads join these rows later, nearly each
 * row gives the ring a lower root. */
static clusters_t make_falling(pgasi_rng_t *rng)
{
    uint64_t single = LARGE, second = 2 * LARGE, small = 3 * LARGE;
    uint64_t only = LARGE / 4 + pgasi_rng_below(rng, LARGE / 2);
    clusters_t c = { .n_edges = 0 };
    c.ends = (uint64_t *)job_alloc((size_t)LARGE * (COPIES + 6) * 2 * sizeof *c.ends);
    for (int r = 1; r <= n_ranks; r++)
        c.first_of[r] = r < n_ranks && r < 3 ? (uint64_t)(r + 1) * LARGE : small + RING;
    add_ring(&c, 0, LARGE);
    add_ring(&c, second, LARGE);
    add_ring(&c, small, RING);
    for (uint64_t i = 0; i < LARGE; i++) {
        uint64_t in_pair = i / (2 * CHUNK) * 2 * CHUNK + i % CHUNK * 2 + i / CHUNK % 2;
        add_edge(&c, i, i == only ? small : second + LARGE - 1 - in_pair);
        for (int k = 0; k < COPIES; k++)
            add_edge(&c, single + i, second + i);
    }
    return c;
}

static bool is_one(pgas_graph_t *graph)
{
    pgas_graph_info_t info = { .size = sizeof info };
    pgas_graph_run_opts_t opts = PGAS_GRAPH_RUN_OPTS_INIT;
    opts.n_threads = 2;
    opts.parallel = pair_threads;
    bool good = pgas_graph_info(graph, &info) == PGAS_OK;
    uint64_t *labels = (uint64_t *)job_alloc((info.n_local + (size_t)1) * sizeof *labels);
    good = good && pgas_components(graph, &opts, labels, NULL) == PGAS_OK;
    for (uint32_t i = 0; i < info.n_local; i++)
        good = good && labels[i] == 0;
    free(labels);
    return good;
}

/* ---- deep sets ---- */

enum { SPINE = 50000, LOOPS = 4 };

/* All vertices are on rank 0. Each vertex SPINE + i has an edge to its leg i, whose row begins with
 * loops. With a path, there are also edges from each vertex SPINE + i to the next one. Each of them
 * makes the chain of parents longer. */
static pgas_graph_t *make_legs(bool path)
{
    clusters_t c = { .n_edges = 0 };
    c.ends = (uint64_t *)job_alloc((size_t)SPINE * (LOOPS + 2) * 2 * sizeof *c.ends);
    for (int r = 1; r <= n_ranks; r++)
        c.first_of[r] = 2 * SPINE;
    for (uint64_t i = 0; i < SPINE; i++) {
        for (int k = 0; k < LOOPS; k++)
            add_edge(&c, i, i);
        add_edge(&c, SPINE + i, i);
        if (path && i > 0)
            add_edge(&c, SPINE + i - 1, SPINE + i);
    }
    pgas_graph_t *graph = make_graph(&c, 2 * SPINE, false);
    free(c.ends);
    return graph;
}

/* @return seconds that this thread computed, which does all the work on rank 0 */
static double time_legs(bool path, bool *good_p)
{
    uint64_t *labels = (uint64_t *)job_alloc(2 * SPINE * sizeof *labels);
    struct timespec begin, end;
    pgas_graph_t *graph = make_legs(path);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    *good_p = pgas_components(graph, NULL, labels, NULL) == PGAS_OK && *good_p;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    for (uint64_t i = 0; me == 0 && i < 2 * SPINE; i++)
        *good_p = *good_p && labels[i] == (path ? 0 : i % SPINE);
    pgas_graph_destroy(graph);
    free(labels);
    return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}

/* ---- promises ---- */

static void deep_sets(void)
{
    bool good = true;
    double pairs = time_legs(false, &good), path = time_legs(true, &good);
    good = spmd_ok(good && path <= 20 * pairs + .1,
                   "a path with legs takes little more time than the legs");
    if (!good)
        spmd_diag("rank 0: %.4f s, %.4f s without the path", path, pairs);
}

static void joins_while_changing(pgasi_rng_t *rng)
{
    int n_wrong = 0;
    for (int turn = 0; turn < 4 * TURNS; turn++) {
        clusters_t c = make_falling(rng);
        pgas_graph_t *graph = make_graph(&c, 3 * LARGE + RING, false);
        n_wrong += !is_one(graph);
        pgas_graph_destroy(graph);
        free(c.ends);
    }
    spmd_ok(n_wrong == 0, "threads join skipped rows while the root of their set changes");
    if (n_wrong > 0)
        spmd_diag("%d of %d graphs", n_wrong, 4 * TURNS);
}

static void joins_clusters(int kind, const char *name, pgasi_rng_t *rng)
{
    bool right = true;
    for (int turn = 0; turn < TURNS; turn++) {
        clusters_t c = make_clusters(kind, rng);
        pgas_graph_t *graph = make_graph(&c, (uint64_t)n_ranks * MEMBERS, turn == TURNS - 1);
        right = is_right(&c, graph, turn) && right;
        pgas_graph_destroy(graph);
        free(c.ends);
    }
    spmd_ok(right, "clusters of ranks, %s: the labels are right", name);
}

static void sends_links(void)
{
    pgas_graph_opts_t opts = PGAS_GRAPH_OPTS_INIT;
    pgas_graph_t *graph = NULL;
    pgas_graph_info_t info = { .size = sizeof info };
    pgas_graph_run_info_t ran = { .size = sizeof ran };
    opts.n_vertices = 4096;
    opts.undirected = true;
    bool good =
        pgas_graph_generate(&opts, &graph) == PGAS_OK && pgas_graph_info(graph, &info) == PGAS_OK;
    uint64_t *labels = (uint64_t *)job_alloc((info.n_local + (size_t)1) * sizeof *labels);
    good = good && pgas_components(graph, NULL, labels, &ran) == PGAS_OK;
    spmd_ok(good && ran.n_sent <= info.n_ghosts, "a rank sends %llu values, for %llu ghosts",
            (unsigned long long)ran.n_sent, (unsigned long long)info.n_ghosts);
    free(labels);
    pgas_graph_destroy(graph);
}

int main(int argc, char **argv)
{
    static const char *const names[KINDS] = { "no bridges", "a chain", "a chain of all but one",
                                              "two chains", "random bridges" };
    job_begin(&argc, &argv, KINDS + 3);
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, spmd_seed(20261129));
    for (int kind = 0; kind < KINDS; kind++)
        joins_clusters(kind, names[kind], &rng);
    joins_while_changing(&rng);
    deep_sets();
    sends_links();
    return job_end();
}
