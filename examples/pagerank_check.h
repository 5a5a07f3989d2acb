/* The serial check of PageRank: option --check of pagerank and array_pagerank. */
#ifndef PAGERANK_CHECK_H
#define PAGERANK_CHECK_H

#include <pgas/graph.h>

/* What the check found, the same on all ranks. */
typedef struct {
    double l1;      /* sum of the absolute differences from the serial values */
    bool same_top;  /* the same ten vertices come first, except that equal ones may be swapped */
    bool good;      /* same_top, and l1 at most 1e-9 */
    double seconds; /* of the serial computation */
} pagerank_check_t;

/* Gathers the graph and the values on rank 0, computes opts->iterations sweeps by a plain serial
 * loop, and compares. Collective. opts has the damping, or 0 for the default. */
pgas_status_t pagerank_check(const pgas_graph_t *graph, const pgas_pagerank_opts_t *opts,
                             const double *values, pagerank_check_t *check_p);

/* The serial loop, over a graph of n vertices. The result is in x; y has room for n values. */
void pagerank_serial(uint64_t n, const uint64_t *offsets, const uint64_t *targets,
                     const pgas_pagerank_opts_t *opts, double *x, double *y);

#endif
