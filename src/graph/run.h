/** Runs of algorithms, inside the library: slots of memory, and exchanges of values between owners
 *  and ghosts. */
#ifndef PGASI_GRAPH_RUN_H
#define PGASI_GRAPH_RUN_H

#include "graph/graph.h"
#include "pgas/array.h"
#include "pgas/edge_map.h"

#define PGASI_RUN_SUBSETS 4

/** Slots of the graph's memory (pgasi_graph_scratch). Algorithms use SLOT_STATE and the next
 *  ones. */
enum {
    SLOT_RUN,
    SLOT_SEND,
    SLOT_RECEIVE,
    SLOT_COUNTS,
    SLOT_GHOSTS,
    SLOT_SUBSETS, /* two for each subset, and one for its head */
    SLOT_STATE = SLOT_SUBSETS + 3 * PGASI_RUN_SUBSETS
};

/** Bytes of an item of an exchange at the most: a place and a message. */
#define PGASI_RUN_ITEM_MAX 24

typedef struct {
    pgas_graph_run_t run;
    pgas_array_t *array; /* of 8 bytes for each vertex; NULL: messages */
    size_t *send_bytes;  /* [n_ranks] each: of an exchange */
    size_t *receive_bytes;
} pgasi_run_t;

static inline pgasi_run_t *pgasi_run_of(pgas_graph_run_t *run)
{
    return (pgasi_run_t *)(void *)run;
}

/** Memory of a slot, for an element of each own vertex and each ghost. */
static inline void *pgasi_run_state(pgas_graph_run_t *run, int i, size_t elem_bytes)
{
    uint64_t n = (uint64_t)run->info.n_local + run->info.n_ghosts;
    return pgasi_graph_scratch(run->graph, SLOT_STATE + i, n, elem_bytes);
}

/** Begins the run of an algorithm. Collective. *source_p gets the value of rank 0, which must be a
 *  vertex. source_p may be NULL. */
pgas_status_t pgasi_run_begin(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                              uint64_t *source_p, bool needs_in, pgas_graph_run_t **run_p);
/** Gives all ranks the source of rank 0, and checks it. Collective. */
pgas_status_t pgasi_run_source(pgas_graph_run_t *run, uint64_t *source_p);
/** Ends a run, and fills the caller's info after success.
 *  @return status, or if that is PGAS_OK the status of filling the info */
pgas_status_t pgasi_run_end(pgas_graph_run_t *run, pgas_status_t status, uint64_t begin_ns,
                            pgas_graph_run_info_t *info, pgas_graph_run_info_t *info_p);

/** Runs work on the threads of the run. If amount (edges and vertices) is small, the calling thread
 *  works alone, because starting threads costs more. */
#define PGASI_RUN_SMALL 8192
static inline void pgasi_run_threads(pgas_graph_run_t *run, uint64_t amount,
                                     pgas_graph_work_fn_t work, void *arg)
{
    if (amount < PGASI_RUN_SMALL)
        work(0, 1, arg);
    else
        pgas_graph_run_threads(run, work, arg);
}

/** Calls the program's progress function. Any rank; only that of rank 0 has an effect. */
void pgasi_run_report(const pgas_graph_run_t *run, const char *phase, uint64_t done,
                      uint64_t total);

/** Informs the other ranks which of their ghosts are members of `from`, and sends the members'
 *  values. Collective. Sets the bits of ghosts in `from`. */
pgas_status_t pgasi_exchange_members(pgas_graph_run_t *run, const pgas_edge_ops_t *ops,
                                     void *context, pgas_subset_t *from);
/** Sends the values of n changed ghosts to their owners. Own vertices for which `receive` returns
 *  true become members of `to`. Collective. Clears the bits of ghosts in `to`. */
pgas_status_t pgasi_exchange_changes(pgas_graph_run_t *run, const pgas_edge_ops_t *ops,
                                     void *context, const uint32_t *ghosts, uint64_t n,
                                     pgas_subset_t *to);

/** pgas_ghosts_fetch and pgas_ghosts_combine through the array of the run. */
pgas_status_t pgasi_array_open(pgasi_run_t *run);
void pgasi_array_close(pgasi_run_t *run);
pgas_status_t pgasi_array_fetch(pgasi_run_t *run, void *values, size_t elem_bytes);
pgas_status_t pgasi_array_combine(pgasi_run_t *run, void *values, pgas_type_t type, pgas_op_t op);
pgas_status_t pgasi_array_members(pgasi_run_t *run, const pgas_edge_ops_t *ops, void *context,
                                  pgas_subset_t *from);

/** The element that changes no other one when it is combined. */
pgas_status_t pgasi_word_neutral(pgas_type_t type, pgas_op_t op, uint64_t *word_p);

/** Values as words: reads and writes element i of an array with elements of 1, 2, 4 or 8 bytes. */
static inline uint64_t pgasi_word_get(const void *values, uint64_t i, size_t elem_bytes)
{
    switch (elem_bytes) {
    case 1:
        return ((const uint8_t *)values)[i];
    case 2:
        return ((const uint16_t *)values)[i];
    case 4:
        return ((const uint32_t *)values)[i];
    default:
        return ((const uint64_t *)values)[i];
    }
}

static inline void pgasi_word_set(void *values, uint64_t i, size_t elem_bytes, uint64_t word)
{
    switch (elem_bytes) {
    case 1:
        ((uint8_t *)values)[i] = (uint8_t)word;
        break;
    case 2:
        ((uint16_t *)values)[i] = (uint16_t)word;
        break;
    case 4:
        ((uint32_t *)values)[i] = (uint32_t)word;
        break;
    default:
        ((uint64_t *)values)[i] = word;
    }
}

#endif
