/* Serial checkers of the algorithms of pgas/graph.h, for pgas_graph --check and for tests. Each one
 * computes the result from its definition, in another way than the engine does, and compares every
 * value. They do not use the library. t/unit/graph_check.c shows that each one can fail.
 *
 *      check_verdict_t verdict = check_components(&whole, labels);
 *      printf("%s\n", verdict.text);                  "right" or "WRONG: .."
 */
#ifndef TOOLS_GRAPH_CHECK_H
#define TOOLS_GRAPH_CHECK_H

#include <stdbool.h>
#include <stdint.h>

/* A whole graph in one process. In a row the ends have rising numbers. An undirected graph has each
 * edge in the rows of both ends, loops once. */
typedef struct {
    uint64_t n; /* vertices */
    bool directed;
    bool exact;      /* sums of weights are exact: the weights are integers */
    uint64_t *begin; /* [n + 1] */
    uint32_t *end;
    double *weight;     /* NULL: each edge has the weight 1 */
    uint64_t *in_begin; /* rows of in-edges: check_graph_reverse makes them */
    uint32_t *in_end;
    void (*progress)(uint64_t done, uint64_t total); /* of the slow checkers; NULL: none */
} check_graph_t;

typedef enum { CHECK_RIGHT = 0, CHECK_WRONG = 1, CHECK_SKIPPED = 2 } check_result_t;

typedef struct {
    check_result_t result;
    char text[200]; /* "right", "WRONG: the first difference", or "skipped: the reason" */
} check_verdict_t;

/* Allocates rows for a graph with the given n and number of edges. @return whether there was enough
 * memory */
bool check_graph_alloc(check_graph_t *g, uint64_t n_edges, bool has_weights);

/* Sorts each row by rising ends, and edges with one end by rising weight. @return as above */
bool check_graph_sort(check_graph_t *g);

/* Makes the rows of in-edges, if they do not exist. In an undirected graph they are the same rows.
 * @return as above */
bool check_graph_reverse(check_graph_t *g);

void check_graph_free(check_graph_t *g);

/* An undirected graph has each edge in the rows of both ends, with the same weight. The checker
 * compares sums of hash values. */
check_verdict_t check_symmetric(const check_graph_t *g);

/* The five rules of Graph500, the levels of a serial search with a queue, and the rule of
 * pgas_bfs that a parent is the least possible one. parents may be NULL. */
check_verdict_t check_bfs(const check_graph_t *g, uint64_t source, const int64_t *levels,
                          const int64_t *parents);

/* The distances of Dijkstra's algorithm: equal if g->exact, otherwise within 1e-9. */
check_verdict_t check_sssp(const check_graph_t *g, uint64_t source, const double *distances);

/* sweeps: the number of Jacobi sweeps of the run. The sum of absolute differences is at most
 * 1e-10, and no value differs by more than LDBC's 1e-4 of itself. */
typedef struct {
    int sweeps;
    double damping;
    bool no_dangling;
} check_pagerank_t;
check_verdict_t check_pagerank(const check_graph_t *g, const check_pagerank_t *how,
                               const double *values);

/* Components of least vertices, by searches from the vertices in rising order. */
check_verdict_t check_components(check_graph_t *g, const uint64_t *labels);

/* Rounds of label propagation; each vertex sorts the labels of its neighbours. */
check_verdict_t check_cdlp(check_graph_t *g, int rounds, const uint64_t *labels);

/* Triangles by marks at neighbours, in the order of degrees. */
check_verdict_t check_lcc(check_graph_t *g, const double *values);
check_verdict_t check_triangles(check_graph_t *g, uint64_t n_triangles);

/* Brandes's algorithm with a queue and a stack. Within 1e-9. */
check_verdict_t check_betweenness(const check_graph_t *g, const uint64_t *sources, uint64_t n,
                                  const double *values);

/* For the checkers. */
check_verdict_t check_right(void);
__attribute__((format(printf, 1, 2))) check_verdict_t check_wrong(const char *format, ...);
check_verdict_t check_no_memory(void);
bool check_near(double got, double want, double relative);

#endif
