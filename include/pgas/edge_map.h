/** Algorithms on graphs: vertex subsets, edge maps and vertex maps, as in Ligra, for all ranks and
 *  threads. The algorithms of pgas/graph.h are written with it.
 *
 *      typedef struct { uint32_t *hops, round; } reach_t;
 *      typedef uint8_t nothing_t;                        travels with a vertex: here no value
 *
 *      static bool reach_wants(const reach_t *r, uint32_t to) { return r->hops[to] == 0; }
 *      static bool reach_update(reach_t *r, uint32_t from, uint32_t to, double weight)
 *      {
 *          (void)from, (void)weight;
 *          return pgas_graph_claim_u32(&r->hops[to], 0, r->round);
 *      }
 *      static nothing_t reach_send(reach_t *r, uint32_t ghost) { return 0; }
 *      static bool reach_receive(reach_t *r, uint32_t own, nothing_t n)
 *      {
 *          return reach_update(r, own, own, 1);
 *      }
 *      static nothing_t reach_read(const reach_t *r, uint32_t own) { return 0; }
 *      static void reach_copy(reach_t *r, uint32_t ghost, nothing_t n) {}
 *      PGAS_EDGE_MAP(reach, reach_t, nothing_t)
 *
 *      pgas_graph_run_create(graph, NULL, true, &run);
 *      pgas_subset_create(run, &now), pgas_subset_create(run, &next);
 *      pgas_subset_add(now, id);                         on the owner
 *      for (status = pgas_subset_count(now); status == PGAS_OK && now->n_all > 0; r.round++) {
 *          status = reach_edge_map(run, &r, now, next);
 *          swap now and next
 *      }
 *
 *  The state of an algorithm is in arrays that it indexes by ids (pgas_graph_info_t): elements of
 *  own vertices, and behind them elements of ghosts, which stand for vertices of other ranks.
 *
 *  An edge map follows the out-edges of the members of a subset. It calls NAME_update for each edge
 *  whose end is wanted (NAME_wants). An end for which NAME_update returns true becomes a member of
 *  the next subset. There are two directions with the same results:
 *    push  Each member follows its out-edges. An update of a ghost changes the ghost's element.
 *          NAME_send then returns a value of the changed ghost. On the owner NAME_receive combines
 *          it into the own element, and returns whether the vertex becomes a member.
 *    pull  Each wanted vertex looks at its in-edges from members, until NAME_wants returns false.
 *          Before that, NAME_read returns a value of each member that has a ghost on another rank,
 *          and NAME_copy stores it into the ghost's element there.
 *
 *  In a push several threads may update one `to` at the same time. Therefore NAME_update changes
 *  elements by atomic operations. The compiler inlines the functions into the loops. Collective
 *  functions return the statuses of pgas/graph.h. */
#ifndef PGAS_EDGE_MAP_H
#define PGAS_EDGE_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/graph.h"

PGAS_BEGIN_DECLS

/** The execution of an algorithm: the graph, options, threads and memory. */
typedef struct {
    pgas_graph_t *graph;
    pgas_graph_info_t info;
    pgas_graph_run_opts_t opts; /* with defaults; n_threads is 1 without parallel */
    uint64_t n_sent;            /* values that this rank has sent to others */
    unsigned subsets;           /* a bit for each that is in use */
} pgas_graph_run_t;

/** A set of vertices. Each rank has the members that it owns. A member's bit is set. If is_list,
 *  ids[0] .. ids[n - 1] are the members, in any order. */
typedef struct {
    pgas_graph_run_t *run;
    int index; /* of the run's subsets */
    bool is_list;
    uint64_t n, n_edges;         /* own members, and their out-edges */
    uint64_t n_all, n_edges_all; /* of all ranks: set by edge maps and pgas_subset_count */
    uint32_t *ids;               /* [n_local + n_ghosts] */
    uint64_t *bits;              /* of own ids, and behind them of ghosts */
} pgas_subset_t;

/** Prepares a run. Collective. A graph has one run at a time. Options and needs_in of rank 0 are
 *  used, except n_threads and parallel. If needs_in, in-edges are made.
 *  @return PGAS_ERR_BUSY  the graph has a run; algorithms and pgas_graph_reverse return it, too */
PGAS_API pgas_status_t pgas_graph_run_create(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                                             bool needs_in, pgas_graph_run_t **run_p);
/** Ends a run. The graph keeps the memory for its next run. Collective with the exchange ARRAY,
 *  otherwise local. NULL is ignored. */
PGAS_API pgas_status_t pgas_graph_run_destroy(pgas_graph_run_t *run);

/** Makes an empty subset, which the run owns. Local. @return PGAS_ERR_LIMIT: the run has four */
PGAS_API pgas_status_t pgas_subset_create(pgas_graph_run_t *run, pgas_subset_t **subset_p);
/** Ends the use of a subset. Local. */
PGAS_API pgas_status_t pgas_subset_destroy(pgas_subset_t *subset);
/** Removes all members. Local. */
PGAS_API void pgas_subset_clear(pgas_subset_t *subset);
/** Adds an own vertex by its id. Local, one thread. */
PGAS_API void pgas_subset_add(pgas_subset_t *subset, uint32_t id);
/** Makes the list of members, if there is none. Local. */
PGAS_API void pgas_subset_list(pgas_subset_t *subset);
/** Sets n_all and n_edges_all. Collective. */
PGAS_API pgas_status_t pgas_subset_count(pgas_subset_t *subset);

/** Runs work(i, n, arg) on the threads of the run, and waits for all of them. Local. */
PGAS_API void pgas_graph_run_threads(pgas_graph_run_t *run, pgas_graph_work_fn_t work, void *arg);

/** Copies the elements of own vertices to the elements of their ghosts on other ranks. Elements
 *  have 1, 2, 4 or 8 bytes. Collective. */
PGAS_API pgas_status_t pgas_ghosts_fetch(pgas_graph_run_t *run, void *values, size_t elem_bytes);
/** Combines the elements of ghosts into those of their owners by ADD, MIN or MAX, and sets the
 *  ghosts' elements to the neutral element. type: U32, U64, I64 or F64. Messages add sums in the
 *  order of ranks, an array in any order. Collective. */
PGAS_API pgas_status_t pgas_ghosts_combine(pgas_graph_run_t *run, void *values, pgas_type_t type,
                                           pgas_op_t op);

/** Changes *element to `to` if it is `from`. @return whether this thread changed it */
static inline bool pgas_graph_claim_u32(uint32_t *element, uint32_t from, uint32_t to)
{
    return __atomic_load_n(element, __ATOMIC_RELAXED) == from &&
           __atomic_compare_exchange_n(element, &from, to, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

/** Lowers *element to value. @return whether it was greater */
static inline bool pgas_graph_lower_u32(uint32_t *element, uint32_t value)
{
    uint32_t now = __atomic_load_n(element, __ATOMIC_RELAXED);
    while (value < now)
        if (__atomic_compare_exchange_n(element, &now, value, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return true;
    return false;
}

/** The same for a double, which is not negative. */
static inline bool pgas_graph_lower_f64(double *element, double value)
{
    double now;
    __atomic_load(element, &now, __ATOMIC_RELAXED);
    while (value < now)
        if (__atomic_compare_exchange(element, &now, &value, true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED))
            return true;
    return false;
}

PGAS_END_DECLS

#include "pgas/detail/edge_map.h"
#endif
