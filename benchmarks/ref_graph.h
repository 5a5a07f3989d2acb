/** Reference loops over graphs: what a careful programmer writes for one process with shared
 *  memory, without a library. They are as good as the loops of the GAP Benchmark Suite (Beamer,
 *  Asanovic, Patterson, 2015) and stand for it where it is not at hand. They are written from the
 *  papers named at each of them.
 *
 *  A graph is undirected and simple: both directions of an edge are in the lists, no list has its
 *  own vertex or another one twice, and lists rise. Each loop fills an array of the caller with an
 *  element for each vertex, and returns its time with one number about the result, by which results
 *  can be compared. As in GAP the time includes memory for the loop, and does not include the
 *  result's memory. */
#ifndef BENCH_REF_GRAPH_H
#define BENCH_REF_GRAPH_H

#include <stdint.h>

typedef struct {
    uint64_t n;             /* vertices, below 2^32 */
    const uint64_t *begin;  /* the edges of vertex v are [begin[v], begin[v + 1]) */
    const uint32_t *end;    /* their other vertices */
    const uint32_t *weight; /* their weights; NULL unless for ref_graph_sssp */
} ref_graph_t;

typedef struct {
    double seconds;
    double check;
} ref_graph_time_t;

#define REF_GRAPH_NONE UINT32_MAX /* no parent; no distance */

/** Breadth-first search. check: the sum over reached vertices of their level, which is 1 at the
 *  source. */
ref_graph_time_t ref_graph_bfs(const ref_graph_t *graph, int n_threads, uint32_t source,
                               uint32_t *parent);
/** PageRank in double: Jacobi sweeps from 1/n, with the mass of vertices without edges spread
 *  evenly. check: the sum of the squares of ranks, times n. */
ref_graph_time_t ref_graph_pagerank(const ref_graph_t *graph, int n_threads, double damping,
                                    int sweeps, double *rank);
/** Components; a label is the least vertex of its component. check: the number of components. */
ref_graph_time_t ref_graph_components(const ref_graph_t *graph, int n_threads, uint32_t *label);
/** Shortest paths by delta stepping; all distances are below 2^32 - 1. check: the sum of the
 *  distances of reached vertices. */
ref_graph_time_t ref_graph_sssp(const ref_graph_t *graph, int n_threads, uint32_t source,
                                uint32_t delta, uint32_t *distance);
/** Betweenness from one source: for each vertex the sum over all targets of the share of shortest
 *  paths that go through it. check: the sum over vertices. */
ref_graph_time_t ref_graph_betweenness(const ref_graph_t *graph, int n_threads, uint32_t source,
                                       double *score);
/** check: the number of triangles. Relabelling by degree is part of the time, as in GAP. */
ref_graph_time_t ref_graph_triangles(const ref_graph_t *graph, int n_threads);
/** The share of pairs of neighbours that are neighbours, as in LDBC Graphalytics. check: the sum
 *  over vertices. */
ref_graph_time_t ref_graph_lcc(const ref_graph_t *graph, int n_threads, double *lcc);
/** Label propagation as in LDBC Graphalytics: labels are first the vertices; in a round each vertex
 *  takes the label that most neighbours have, the least of several. Vertices without neighbours
 *  keep theirs. check: the number of labels that differ. */
ref_graph_time_t ref_graph_cdlp(const ref_graph_t *graph, int n_threads, int rounds,
                                uint32_t *label);

#endif
