/** The plan of exchange between the ranks in a sweep of PageRank. The graph determines it, so it is
 *  made once.
 *
 *  A slot is a vertex of any rank to which vertices of this rank point. In a sweep a rank sums the
 *  shares that its vertices give to each slot. It sends these sums in the order of slots, without
 *  vertex numbers. The receiver stores them in `incoming`, ordered by sending rank and slot. It
 *  knows which indices of `incoming` belong to which of its vertices. */
#ifndef PGASI_GRAPH_PLAN_H
#define PGASI_GRAPH_PLAN_H

#include <stdint.h>
#include "pgas/graph.h"
#include "pgas/status.h"

typedef struct {
    uint64_t n_slots;
    /* [n_ranks + 1] the slots of vertices of rank r are slot_begin[r] .. slot_begin[r + 1] - 1 */
    uint64_t *slot_begin;
    /* [n_slots + 1] the sources of slot s are sources[slot_edges[s]] .. [slot_edges[s + 1] - 1] */
    uint32_t *slot_edges;
    uint32_t *sources; /* local vertex numbers */
    uint64_t n_incoming;
    /* [n_ranks + 1] rank r fills incoming[from_begin[r]] .. [from_begin[r + 1] - 1] */
    uint64_t *from_begin;
    /* [n_local + 1] vertex v sums incoming[indices[i]], i = index_begin[v] .. index_begin[v + 1] -
     * 1 */
    uint32_t *index_begin;
    uint32_t *indices; /* of one vertex: by rising rank */
} pgasi_plan_t;

/** Collective. After an error the plan needs no fini. */
pgas_status_t pgasi_plan_init(pgasi_plan_t *plan, const pgas_graph_t *graph);
void pgasi_plan_fini(pgasi_plan_t *plan);

/** An edge, for sorting. */
typedef struct {
    uint64_t target;
    uint32_t source;
} pgasi_arc_t;

/** Sorts by target; arcs of equal target keep their order. Targets are below limit. scratch has
 *  room for n. Radix sort: n steps for each 11 bits of limit.
 *  @return the sorted array: arcs or scratch. */
pgasi_arc_t *pgasi_arcs_sort(pgasi_arc_t *arcs, pgasi_arc_t *scratch, uint64_t n, uint64_t limit);

#endif
