/** Ranks agree on the least vertex of sets that share vertices. */
#ifndef PGASI_GRAPH_LEAST_H
#define PGASI_GRAPH_LEAST_H

#include "graph/run.h"

typedef struct {
    pgas_graph_run_t *run;
    /* [n_local + n_ghosts] by id. Of own ids: the root, which is the least id of the set. Of
     * ghosts: any own id of the set, or the ghost itself if it is alone */
    uint32_t *parent;
    uint32_t *least; /* [n_local + n_ghosts] by root: the least vertex that is known of the set */
    uint32_t *root, *known; /* memory for the exchange: pgasi_least_room() elements each */
    uint64_t *begin;        /* [2 * (n_ranks + 1)] */
} pgasi_least_t;

/** The root of an id. Other threads may join sets meanwhile. */
static inline uint32_t pgasi_least_root(const uint32_t *parent, uint32_t id)
{
    uint32_t above;
    while ((above = __atomic_load_n(&parent[id], __ATOMIC_RELAXED)) != id)
        id = above;
    return id;
}

/** How many elements the memory for an exchange has. */
uint64_t pgasi_least_room(pgas_graph_run_t *run);

/** Lowers the least vertex of each set until it is the same on all ranks that share a vertex of it.
 *  Collective. Adds the rounds to *n_rounds_p. */
pgas_status_t pgasi_least_agree(pgasi_least_t *l, int *n_rounds_p);

#endif
