/* Label propagation: the components of an undirected R-MAT graph. The label of a vertex is at first
 * its number. In a round each vertex whose label has changed sends it to its neighbours, and each
 * vertex takes the lowest label that it gets. It is an application of aggregated calls: one small
 * call for an edge, to a typed handler.
 *
 * The graph has 2^scale vertices and 8 edges for each, drawn with the probabilities of Graph 500.
 * Numbers of vertices are scrambled, and vertex v belongs to rank v % n_ranks. All ranks draw all
 * edges, and each keeps the edges of its own vertices. A union of sets over all edges gives the
 * labels that every run must end with. The figure is the time until no label changes. */
#include "benchmarks/labels.h"
#include "benchmarks/ref.h"

#include <stdlib.h>
#include <string.h>

#define SCALE_MIN   4
#define SCALE_MAX   26
#define EDGE_FACTOR 8

static uint64_t scale = 20;
static labels_graph_t graph;
static uint32_t *expected; /* the labels of this rank's vertices at the end */
static pgas_agg_t *agg;

PGAS_HANDLER(lower, labels_item_t)
{
    labels_lower(graph.next, arg);
}

/* ---- the graph ---- */

static uint32_t n_vertices(void)
{
    return UINT32_C(1) << scale;
}

static uint64_t n_edges(void)
{
    return (uint64_t)n_vertices() * EDGE_FACTOR;
}

/* A permutation of the numbers of vertices. Otherwise low numbers would have most edges. */
static uint32_t scramble(uint32_t v)
{
    uint32_t mask = n_vertices() - 1;
    for (int i = 0; i < 2; i++) {
        v = (v * UINT32_C(0x9e3779b1)) & mask;
        v ^= v >> (scale / 2);
    }
    return v;
}

/* Draws the next edge, one quadrant of the matrix after the other: 57, 19, 19 and 5 percent, in
 * units of 1/256. A random number is enough for 8 of them. */
static void draw_edge(uint64_t *state, uint32_t *end)
{
    uint64_t random = 0;
    uint32_t row = 0, column = 0;
    for (uint64_t level = 0; level < scale; level++) {
        if (level % 8 == 0)
            random = bench_random(state);
        unsigned dice = random & 255;
        random >>= 8;
        row = row << 1 | (dice >= 195);
        column = column << 1 | ((dice >= 146 && dice < 195) || dice >= 244);
    }
    end[0] = scramble(row);
    end[1] = scramble(column);
}

typedef void (*edge_fn_t)(uint32_t from, uint32_t to);

/* Calls fn for both directions of each edge; always the same edges. */
static void for_each_edge(edge_fn_t fn)
{
    uint64_t state = bench_seed(0);
    for (uint64_t i = 0; i < n_edges(); i++) {
        uint32_t end[2];
        draw_edge(&state, end);
        if (end[0] == end[1])
            continue;
        fn(end[0], end[1]);
        fn(end[1], end[0]);
    }
}

static bool is_own(uint32_t v)
{
    return v % (uint32_t)pgas_n_ranks() == (uint32_t)pgas_rank();
}

static uint32_t index_of(uint32_t v)
{
    return v / (uint32_t)pgas_n_ranks();
}

static void count_edge(uint32_t from, uint32_t to)
{
    (void)to;
    if (is_own(from))
        graph.first[index_of(from) + 1]++;
}

static uint64_t *filled; /* edges that each vertex already has */

static void add_edge(uint32_t from, uint32_t to)
{
    if (!is_own(from))
        return;
    uint32_t i = index_of(from);
    graph.to[graph.first[i] + filled[i]++] =
        index_of(to) << graph.rank_bits | to % (uint32_t)pgas_n_ranks();
}

static uint32_t *parent; /* of all vertices, in the union of sets */

static uint32_t root_of(uint32_t v)
{
    while (parent[v] != v)
        v = parent[v] = parent[parent[v]];
    return v;
}

/* The root of a set is its lowest vertex. */
static void unite(uint32_t from, uint32_t to)
{
    uint32_t a = root_of(from), b = root_of(to);
    if (a < b)
        parent[b] = a;
    else
        parent[a] = b;
}

static void make_expected(void)
{
    parent = bench_table(n_vertices() * sizeof *parent);
    for (uint32_t v = 0; v < n_vertices(); v++)
        parent[v] = v;
    for_each_edge(unite);
    for (uint32_t v = 0; v < n_vertices(); v++)
        if (is_own(v))
            expected[index_of(v)] = root_of(v);
    free(parent);
}

static void make_graph(void)
{
    uint32_t n_ranks = (uint32_t)pgas_n_ranks(), rank = (uint32_t)pgas_rank();
    while ((UINT32_C(1) << graph.rank_bits) < n_ranks)
        graph.rank_bits++;
    if (scale + (uint64_t)graph.rank_bits > 31)
        bench_die("a graph of scale %d is too large for %u ranks", (int)scale, n_ranks);
    graph.n = n_vertices() / n_ranks + (rank < n_vertices() % n_ranks);
    graph.first = bench_table((graph.n + 1) * sizeof *graph.first);
    graph.label = bench_table(graph.n * sizeof *graph.label);
    graph.next = bench_table(graph.n * sizeof *graph.next);
    graph.changed = bench_table((graph.n + 1) * sizeof *graph.changed);
    expected = bench_table(graph.n * sizeof *expected);
    filled = bench_table(graph.n * sizeof *filled);
    for_each_edge(count_edge);
    for (uint32_t i = 0; i < graph.n; i++)
        graph.first[i + 1] += graph.first[i];
    graph.to = bench_table((graph.first[graph.n] + 1) * sizeof *graph.to);
    for_each_edge(add_edge);
    free(filled);
}

static void setup(void)
{
    make_graph();
    make_expected();
    bench_check(pgas_agg_create(NULL, &agg), "pgas_agg_create");
}

static void teardown(void)
{
    bench_check(pgas_agg_destroy(agg), "pgas_agg_destroy");
    void *const all[] = { graph.first, graph.to, graph.label, graph.next, graph.changed, expected };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* ---- propagation ---- */

static int run_round(void)
{
    int bad = 0;
    for (uint32_t i = 0; i < graph.n_changed; i++) {
        uint32_t vertex = graph.changed[i];
        for (uint64_t e = graph.first[vertex]; e < graph.first[vertex + 1]; e++) {
            labels_item_t item = { labels_index(&graph, graph.to[e]), graph.label[vertex] };
            bad |= pgas_agg_lower(agg, labels_rank(&graph, graph.to[e]), &item);
        }
    }
    return bad | pgas_quiesce();
}

static void propagate(labels_graph_t *unused)
{
    uint64_t n, all;
    (void)unused;
    do {
        if (run_round())
            bench_die("a label could not be sent");
        labels_turn(&graph);
        n = graph.n_changed;
        bench_check(pgas_allreduce(NULL, &n, &all, 1, PGAS_U64, PGAS_ADD), "pgas_allreduce");
    } while (all > 0);
}

/* All labels are at first those of the vertices, and all vertices count as changed. */
static void begin(void)
{
    for (uint32_t i = 0; i < graph.n; i++) {
        graph.label[i] = graph.next[i] = i * (uint32_t)pgas_n_ranks() + (uint32_t)pgas_rank();
        graph.changed[i] = i;
    }
    graph.n_changed = graph.n;
    bench_check(pgas_barrier(NULL), "pgas_barrier");
}

static double timed(void (*propagate_fn)(labels_graph_t *))
{
    begin();
    uint64_t start = bench_now();
    propagate_fn(&graph);
    double elapsed = bench_since(start);
    if (memcmp(graph.label, expected, graph.n * sizeof *expected) != 0)
        bench_die("some vertices have other labels than those of their components");
    return elapsed / 1e6;
}

static double by_calls(const bench_run_t *run)
{
    (void)run;
    return timed(propagate);
}

static double by_alltoallv(const bench_run_t *run)
{
    (void)run;
    return timed(ref_labels);
}

static const char *set_scale(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < SCALE_MIN || value > SCALE_MAX)
        return "the scale is 4 to 26";
    scale = (uint64_t)value;
    return NULL;
}

static const bench_option_t options[] = { { "scale", "N", "2^N vertices, 20", set_scale },
                                          { NULL, NULL, NULL, NULL } };

static const bench_case_t cases[] = {
    { .variant = "",
      .doc = "components of an R-MAT graph",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_VALUE,
      .unit = "ms",
      .ours = by_calls,
      .refs = { { "alltoallv", BENCH_MPI, by_alltoallv } },
      .round_ms = 40 },
};

static const bench_program_t program = { .name = "pgas_labels",
                                         .doc = "label propagation by aggregated calls",
                                         .ranks = BENCH_ANY,
                                         .label = "Time",
                                         BENCH_CASES(cases),
                                         .setup = setup,
                                         .teardown = teardown,
                                         .options = options };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
