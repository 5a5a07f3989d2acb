/* The serial checkers behind pgas_graph --check.
 *   what:   Each checker accepts the values that its definition gives for small graphs, computed by
 *           hand, and refuses a single wrong value.
 *   source: pgas/graph.h; Graph500, rules of validation; LDBC Graphalytics, definitions
 */
#include "tools/graph_check.h"
#include <math.h>
#include "t/tap.h"

#define NONE INT64_MAX

typedef struct {
    uint32_t from, to;
    double weight;
} edge_t;

/* An undirected edge is in the rows of both ends, a loop once. */
static check_graph_t make(uint64_t n, bool directed, const edge_t *edges, int n_edges)
{
    check_graph_t g = { .n = n, .directed = directed };
    if (!check_graph_alloc(&g, 2 * (uint64_t)n_edges, true))
        bail("out of memory");
    uint64_t at = 0;
    for (uint32_t v = 0; v < n; v++) {
        for (int i = 0; i < n_edges; i++) {
            bool out = edges[i].from == v;
            bool back = !directed && edges[i].to == v && edges[i].from != v;
            if (out || back) {
                g.end[at] = out ? edges[i].to : edges[i].from;
                g.weight[at++] = edges[i].weight;
            }
        }
        g.begin[v + 1] = at;
    }
    if (!check_graph_sort(&g))
        bail("out of memory");
    return g;
}

/* refused: the verdict is WRONG and names the vertex (or whatever `names` says). */
static void refused(check_verdict_t verdict, const char *names, const char *what)
{
    if (!ok(verdict.result == CHECK_WRONG && strstr(verdict.text, names), "%s", what))
        diag("%s", verdict.text);
}

static void accepted(check_verdict_t verdict, const char *what)
{
    if (!ok(verdict.result == CHECK_RIGHT && strncmp(verdict.text, "right", 5) == 0, "%s", what))
        diag("%s", verdict.text);
}

/* 0 -> 1 -> 3 -> 4, 0 -> 2 -> 3, 4 -> 0 twice, a loop at 3, 5 -> 1, 6 alone */
static const edge_t rhomb[] = { { 0, 2, 1 }, { 0, 1, 4 }, { 1, 3, 1 },  { 2, 3, 2.5 }, { 3, 4, 1 },
                                { 4, 0, 1 }, { 4, 0, 9 }, { 3, 3, .5 }, { 5, 1, 1 } };
#define RHOMB(directed) make(7, directed, rhomb, sizeof rhomb / sizeof *rhomb)

static void reversed(void)
{
    check_graph_t g = RHOMB(true);
    static const uint64_t begins[] = { 0, 2, 4, 5, 8, 9, 9, 9 };
    static const uint32_t ends[] = { 4, 4, 0, 5, 0, 1, 2, 3, 3 };
    ok(check_graph_reverse(&g) && memcmp(g.in_begin, begins, sizeof begins) == 0 &&
           memcmp(g.in_end, ends, sizeof ends) == 0,
       "in-edges");
    check_graph_free(&g);
}

static void bfs(void)
{
    check_graph_t g = RHOMB(true);
    int64_t levels[] = { 0, 1, 1, 2, 3, NONE, NONE }, parents[] = { 0, 0, 0, 1, 3, -1, -1 };
    accepted(check_bfs(&g, 0, levels, parents), "a search");
    accepted(check_bfs(&g, 0, levels, NULL), "without parents");
    levels[4] = 2;
    refused(check_bfs(&g, 0, levels, NULL), "vertex 4", "a wrong level");
    levels[4] = NONE;
    refused(check_bfs(&g, 0, levels, NULL), "vertex 4", "a vertex that was missed");
    levels[4] = 3;
    levels[6] = 5;
    refused(check_bfs(&g, 0, levels, NULL), "vertex 6", "a vertex that cannot be reached");
    levels[6] = NONE;
    parents[3] = 2;
    refused(check_bfs(&g, 0, levels, parents), "vertex 3", "a parent that is not the least");
    parents[3] = 0;
    refused(check_bfs(&g, 0, levels, parents), "vertex 3", "a parent of another level");
    parents[3] = 4;
    refused(check_bfs(&g, 0, levels, parents), "vertex 3", "parents in a circle");
    parents[3] = 1;
    parents[1] = 2;
    refused(check_bfs(&g, 0, levels, parents), "vertex 1", "a parent without an edge");
    parents[1] = 0;
    parents[0] = -1;
    refused(check_bfs(&g, 0, levels, parents), "vertex 0", "a source without itself as parent");
    parents[0] = 0;
    parents[6] = 0;
    refused(check_bfs(&g, 0, levels, parents), "vertex 6", "a parent of an unreached vertex");
    parents[6] = 77;
    refused(check_bfs(&g, 0, levels, parents), "vertex 6", "a parent that does not exist");
    check_graph_free(&g);

    g = RHOMB(false);
    int64_t both[] = { 1, 2, 2, 1, 0, 3, NONE }, tree[] = { 4, 0, 0, 4, 4, 1, -1 };
    accepted(check_bfs(&g, 4, both, tree), "a search in both directions");
    tree[1] = 3;
    refused(check_bfs(&g, 4, both, tree), "vertex 1", "and a wrong parent there");
    check_graph_free(&g);
}

static void sssp(void)
{
    check_graph_t g = RHOMB(true);
    double distances[] = { 0, 4, 1, 3.5, 4.5, INFINITY, INFINITY };
    accepted(check_sssp(&g, 0, distances), "distances");
    distances[3] *= 1 + 1e-10;
    accepted(check_sssp(&g, 0, distances), "within the tolerance");
    g.exact = true;
    refused(check_sssp(&g, 0, distances), "vertex 3", "not where they must be exact");
    g.exact = false;
    distances[3] = 3.5 * (1 + 1e-8);
    refused(check_sssp(&g, 0, distances), "vertex 3", "beyond the tolerance");
    distances[3] = NAN;
    refused(check_sssp(&g, 0, distances), "vertex 3", "not a number");
    distances[3] = 3.5;
    distances[6] = 1e300;
    refused(check_sssp(&g, 0, distances), "vertex 6", "a distance of an unreached vertex");
    distances[6] = INFINITY;
    distances[1] = INFINITY;
    refused(check_sssp(&g, 0, distances), "vertex 1", "a vertex that was missed");
    double *weight = g.weight, levels[] = { 0, 1, 1, 2, 3, INFINITY, INFINITY };
    g.weight = NULL;
    accepted(check_sssp(&g, 0, levels), "without weights, levels");
    g.weight = weight;
    check_graph_free(&g);
}

/* A list of n vertices, 0 -> 1 -> .., with falling weights to a far end: the heap has work. */
static void sssp_heap(void)
{
    enum { N = 500 };
    edge_t edges[2 * N];
    double distances[N];
    for (uint32_t v = 0; v < N; v++) {
        edges[2 * v] = (edge_t){ v, (v + 1) % N, 1 };
        edges[2 * v + 1] = (edge_t){ 0, v, 3.0 * (N - v) };
        distances[v] = v < 3.0 * (N - v) ? v : 3.0 * (N - v);
        if (v > 0 && distances[v - 1] + 1 < distances[v])
            distances[v] = distances[v - 1] + 1;
    }
    check_graph_t g = make(N, true, edges, 2 * N);
    g.exact = true;
    distances[0] = 0;
    accepted(check_sssp(&g, 0, distances), "shortcuts of falling weights");
    distances[N - 1]++;
    refused(check_sssp(&g, 0, distances), "vertex 499", "and one that is too long by 1");
    check_graph_free(&g);
}

static void symmetric(void)
{
    check_graph_t g = RHOMB(false);
    accepted(check_symmetric(&g), "an undirected graph");
    g.weight[0] += .5;
    refused(check_symmetric(&g), "both ends", "not with another weight at one end");
    g.weight[0] -= .5;
    g.end[0]++;
    refused(check_symmetric(&g), "both ends", "not with another end");
    check_graph_free(&g);
    g = RHOMB(true);
    accepted(check_symmetric(&g), "a directed graph need not be");
    check_graph_free(&g);
}

/* 0 -> 1 -> 2: by hand, one sweep and two sweeps. */
static void pagerank(void)
{
    static const edge_t edges[] = { { 0, 1, 1 }, { 1, 2, 1 } };
    check_graph_t g = make(3, true, edges, 2);
    check_pagerank_t how = { 1, 1, true };
    double moved[] = { 0, 1 / 3.0, 1 / 3.0 };
    accepted(check_pagerank(&g, &how, moved), "PageRank without damping, a sweep");
    how.no_dangling = false;
    double spread[] = { 1 / 9.0, 4 / 9.0, 4 / 9.0 };
    accepted(check_pagerank(&g, &how, spread), "vertex 2 spreads its value");
    refused(check_pagerank(&g, &how, moved), "vertex 0", "which counts");
    how.damping = .5;
    double damped[] = { 1 / 6.0 + 1 / 18.0, 1 / 6.0 + 4 / 18.0, 1 / 6.0 + 4 / 18.0 };
    accepted(check_pagerank(&g, &how, damped), "with damping");
    damped[1] += 2e-4;
    refused(check_pagerank(&g, &how, damped), "vertex 1", "a value beyond LDBC's tolerance");
    damped[1] -= 2e-4 - 1e-9;
    refused(check_pagerank(&g, &how, damped), "sum up", "values that differ by 1e-9 in all");
    damped[1] = NAN;
    refused(check_pagerank(&g, &how, damped), "vertex 1", "not a number");
    how.sweeps = 2;
    how.damping = 1;
    double twice[] = { 4 / 27.0, 7 / 27.0, 16 / 27.0 };
    accepted(check_pagerank(&g, &how, twice), "two sweeps");
    check_graph_free(&g);
}

static void components(void)
{
    static const edge_t edges[] = { { 4, 1, 1 }, { 3, 4, 1 }, { 2, 5, 1 }, { 5, 5, 1 } };
    check_graph_t g = make(7, true, edges, 4);
    uint64_t labels[] = { 0, 1, 2, 1, 1, 2, 6 };
    accepted(check_components(&g, labels), "components");
    labels[3] = 3;
    refused(check_components(&g, labels), "vertex 3", "a component that is cut");
    labels[3] = labels[1] = labels[4] = 3;
    refused(check_components(&g, labels), "vertex 1", "a label that is not the least");
    check_graph_free(&g);
}

/* As LDBC: both ends of an edge are neighbours; an edge in both directions counts twice. */
static void cdlp(void)
{
    static const edge_t edges[] = {
        { 0, 3, 1 }, { 3, 1, 1 }, { 1, 3, 1 }, { 3, 2, 1 }, { 4, 5, 1 }
    };
    check_graph_t g = make(7, true, edges, 5);
    uint64_t labels[] = { 3, 3, 3, 1, 5, 4, 6 };
    accepted(check_cdlp(&g, 1, labels), "a round: vertex 3 hears 1 twice");
    uint64_t second[] = { 1, 1, 1, 3, 4, 5, 6 };
    accepted(check_cdlp(&g, 2, second), "a second round");
    labels[3] = 0;
    refused(check_cdlp(&g, 1, labels), "vertex 3",
            "the least label, though another is heard twice");
    check_graph_free(&g);

    g = make(7, false, edges, 5);
    uint64_t both[] = { 3, 3, 3, 1, 5, 4, 6 };
    accepted(check_cdlp(&g, 1, both), "undirected");
    both[6] = 0;
    refused(check_cdlp(&g, 1, both), "vertex 6", "a vertex without neighbours keeps its label");
    check_graph_free(&g);
}

/* Two triangles that share the edge 1-2, and a tail 3-4; edges twice and loops do not count. */
static const edge_t bow[] = { { 0, 1, 1 }, { 1, 2, 1 }, { 2, 0, 1 }, { 1, 3, 1 }, { 2, 3, 1 },
                              { 3, 4, 1 }, { 1, 2, 1 }, { 2, 2, 1 }, { 0, 1, 1 } };
#define BOW(directed) make(6, directed, bow, sizeof bow / sizeof *bow)

static void lcc(void)
{
    check_graph_t g = BOW(false);
    double values[] = { 1, 2 / 3.0, 2 / 3.0, 1 / 3.0, 0, 0 };
    accepted(check_lcc(&g, values), "coefficients");
    values[3] = 1 / 3.0 + 1e-9;
    refused(check_lcc(&g, values), "vertex 3", "a coefficient that differs");
    check_graph_free(&g);

    g = BOW(true);
    double half[] = { 1 / 2.0, 1 / 3.0, 1 / 3.0, 1 / 6.0, 0, 0 };
    accepted(check_lcc(&g, half), "directed: an edge counts once");
    half[4] = 1;
    refused(check_lcc(&g, half), "vertex 4", "and a vertex with one neighbour has 0");
    check_graph_free(&g);
}

static void triangles(void)
{
    for (int directed = 0; directed < 2; directed++) {
        check_graph_t g = BOW(directed);
        accepted(check_triangles(&g, 2), directed ? "two triangles, directed" : "two triangles");
        refused(check_triangles(&g, 3), "3 triangles, not 2", "not three");
        check_graph_free(&g);
    }
}

static void betweenness(void)
{
    check_graph_t g = RHOMB(true);
    uint64_t all[] = { 0, 1, 2, 3, 4, 5, 6 };
    /* From 0: 1 and 2 are on half of the paths to 3 and 4; 3 is on those to 4. */
    double one[] = { 0, 1, 1, 1, 0, 0, 0 };
    accepted(check_betweenness(&g, all, 1, one), "betweenness from one source");
    one[1] = .5;
    refused(check_betweenness(&g, all, 1, one), "vertex 1", "another share");
    one[1] = 1;
    one[0] = 1;
    refused(check_betweenness(&g, all, 1, one), "vertex 0", "a source that counts itself");
    check_graph_free(&g);

    static const edge_t path[] = { { 0, 1, 1 }, { 1, 2, 1 }, { 2, 3, 1 } };
    g = make(4, false, path, 3);
    double values[] = { 0, 4, 4, 0 };
    accepted(check_betweenness(&g, all, 4, values), "all sources of a path");
    values[2] += 1e-7;
    refused(check_betweenness(&g, all, 4, values), "vertex 2", "beyond the tolerance");
    check_graph_free(&g);
}

int main(void)
{
    plan(58);
    reversed();
    symmetric();
    bfs();
    sssp();
    sssp_heap();
    pagerank();
    components();
    cdlp();
    lcc();
    triangles();
    betweenness();
    return done();
}
