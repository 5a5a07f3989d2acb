/** Who sends what to whom in each sweep of PageRank: fixed by the graph, so made once.
 *
 *  A slot is a vertex anywhere that vertices of this rank point to. In a sweep a rank adds up what
 *  its vertices give to each slot, and sends these sums, without any index, in the order of slots;
 *  the receiver keeps them by rank and place in `incoming` and knows which places belong to which
 *  of its vertices. */
#ifndef PGASI_GRAPH_PLAN_H
#define PGASI_GRAPH_PLAN_H

#include <stdint.h>
#include "pgas/graph.h"
#include "pgas/status.h"

typedef struct {
    uint64_t n_slots;
    /* [n_ranks + 1] slots of vertices of rank r: slot_begin[r] .. slot_begin[r + 1] - 1 */
    uint64_t *slot_begin;
    /* [n_slots + 1] slot s gets from sources[slot_edges[s]] .. sources[slot_edges[s + 1] - 1] */
    uint32_t *slot_edges;
    uint32_t *sources; /* local vertex numbers */
    uint64_t n_incoming;
    uint64_t *from_begin;  /* [n_ranks + 1] places of incoming that rank r fills */
    uint32_t *place_begin; /* [n_local + 1] vertex v gets from places[place_begin[v]] .. */
    uint32_t *places;      /* into incoming, rising ranks */
} pgasi_plan_t;

/** Collective. After an error there is nothing to finish. */
pgas_status_t pgasi_plan_init(pgasi_plan_t *plan, const pgas_graph_t *graph);
void pgasi_plan_fini(pgasi_plan_t *plan);

/** An edge as it is sorted. */
typedef struct {
    uint64_t target;
    uint32_t source;
} pgasi_arc_t;

/** Sort by target, arcs of equal target keep their order. Targets are below limit; scratch has room
 *  for n. @return where the result stands: arcs or scratch. Radix sort, n steps per 11 bits of
 *  limit. */
pgasi_arc_t *pgasi_arcs_sort(pgasi_arc_t *arcs, pgasi_arc_t *scratch, uint64_t n, uint64_t limit);

#endif
