/** The search of levels, for pgas_bfs and pgas_betweenness. */
#ifndef PGASI_GRAPH_SEARCH_H
#define PGASI_GRAPH_SEARCH_H

#include "graph/run.h"

#define PGASI_UNREACHED UINT32_MAX

typedef struct {
    pgas_graph_run_t *run;
    uint32_t *level; /* by id; PGASI_UNREACHED: none. Elements of ghosts are not complete */
    uint32_t next;   /* the level that this step gives to vertices */
    uint64_t n_found,
        n_edges; /* vertices of all ranks that were reached, and edges of their rows */
    pgas_subset_t *now, *then;
} pgasi_search_t;

/** Gets memory. Local. */
pgas_status_t pgasi_search_init(pgasi_search_t *search, pgas_graph_run_t *run);
/** Finds the levels of all vertices that the source reaches. Collective. `now` and `then` are free
 *  afterwards. */
pgas_status_t pgasi_search_run(pgasi_search_t *search, uint64_t source, uint32_t *n_levels_p);

#endif
