/** The common header of the parallel sweeps and the serial check of PageRank. */
#ifndef PGASI_GRAPH_PAGERANK_H
#define PGASI_GRAPH_PAGERANK_H

#include "pgas/graph.h"

/** The options of rank 0, with defaults filled in. */
typedef struct {
    double damping;
    double tolerance; /* negative: none */
    int64_t iterations;
    int64_t no_dangling;
} pgasi_pagerank_rule_t;

/** Collective.
 *  @return PGAS_OK.
 *          PGAS_ERR_INVALID: an option of some rank is out of range. The same on all ranks. */
pgas_status_t pgasi_pagerank_rule(const pgas_pagerank_opts_t *opts, pgasi_pagerank_rule_t *rule_p);

/** The serial computation for n vertices, given by rows. x and y have room for n values. The result
 *  is in x. */
void pgasi_pagerank_serial(uint64_t n, const uint64_t *offsets, const uint64_t *targets,
                           const pgasi_pagerank_rule_t *rule, double *x, double *y);

#endif
