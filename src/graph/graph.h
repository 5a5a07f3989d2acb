/** The common header of this folder: the graph, agreement among ranks, and building.
 *
 *  This folder uses the public headers of the library and src/base only.
 *
 *  Functions that communicate are collective, and only one runs at a time. Therefore each file has
 *  one static variable for the object that its handlers work on. The function sets it before an
 *  agreement of all ranks and clears it after the last quiesce. Handlers run on other threads:
 *  between two collectives, either they access an object or the caller's thread does. */
#ifndef PGASI_GRAPH_GRAPH_H
#define PGASI_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "graph/layout.h"
#include "graph/names.h"
#include "graph/reader.h"
#include "pgas/agg.h"
#include "pgas/graph.h"

struct pgas_graph {
    int rank, n_ranks;
    uint64_t n_vertices, n_edges;
    uint64_t block, first, n_local;
    uint64_t *offsets; /* n_local + 1 */
    uint64_t *targets;
    bool has_names;
    pgasi_name_t *name; /* n_local, into name_text */
    char *name_text;
    uint64_t name_text_bytes, name_text_room;
    double seconds;         /* that this rank took to make it */
    pgasi_layout_t *layout; /* made by the first algorithm */
};

/** Registers the handlers of this folder and agrees on them. Collective. It may be repeated. */
pgas_status_t pgasi_graph_start(void);
pgas_status_t pgasi_rows_register(void);
pgas_status_t pgasi_number_register(void);
pgas_status_t pgasi_source_register(void);
pgas_status_t pgasi_names_register(void);

/** Records the reason of an error that this rank has detected, for the log. Only the first one
 *  since the last agreement is kept. Any thread. */
void pgasi_graph_note(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/** Collective. Returns the status of the lowest rank that has an error, the same on all ranks.
 *  @param rank_p stores that rank, or -1 if no rank has an error or the agreement itself failed;
 *                the caller logs the reason on that rank. With NULL it is logged here: the recorded
 *                reason, or the text of the status. */
pgas_status_t pgasi_graph_agree(pgas_status_t mine, int *rank_p);

/** Collective, after calls. When it returns, all calls have run on all ranks, and the ranks have
 *  agreed on the status. */
pgas_status_t pgasi_graph_settle(pgas_status_t mine);

/** Calls pgas_agg_call. Records the reason if the arguments are longer than PGAS_CALL_MAX. */
static inline pgas_status_t pgasi_graph_call(pgas_agg_t *agg, int rank, pgas_handler_t handler,
                                             const void *args, size_t bytes)
{
    pgas_status_t status = pgas_agg_call(agg, rank, handler, args, bytes);
    if (PGAS_UNLIKELY(status == PGAS_ERR_LIMIT)) {
        pgasi_graph_note("a message of %zu bytes is longer than PGAS_CALL_MAX allows: raise it",
                         bytes);
    }
    return status;
}

/** Keeps the first error. */
static inline void pgasi_graph_keep_first(pgas_status_t *status_p, pgas_status_t status)
{
    if (*status_p == PGAS_OK)
        *status_p = status;
}

/** The owner of a vertex, which is not checked. */
static inline int pgasi_graph_owner_of(uint64_t vertex, uint64_t block)
{
    return (int)(vertex / block);
}

/** Builds a graph of edges that the ranks hold. All ends are below n_vertices. Collective. Frees
 *  owned (NULL or ends) as soon as it is not needed any more, also after an error. Logs errors that
 *  the user can cure. */
pgas_status_t pgasi_graph_build(uint64_t n_vertices, const uint64_t *ends, uint64_t n_edges,
                                void *owned, pgas_graph_t **graph_p);

/** The names that a rank has read, and the vertex numbers that they get. */
typedef struct {
    const pgasi_names_t *names;
    /* [n_rounds] names from round_begin[k] on were first read in round k or later */
    const uint32_t *round_begin;
    uint64_t n_rounds; /* the same on all ranks */
    uint64_t *ids;     /* out: n_names vertex numbers */
    /* out: bitmap of n_names; a set bit: this rank read the name first of all ranks */
    uint64_t *first;
    uint64_t n_vertices; /* out */
} pgasi_numbering_t;

/** Numbers all names of all ranks in the order of first appearance: by round, then by rank, then in
 *  the order in which the rank read them. Collective. */
pgas_status_t pgasi_graph_number(pgasi_numbering_t *numbering);

/** Sends each name to the rank that holds its vertex. Collective. */
pgas_status_t pgasi_graph_spread_names(pgas_graph_t *graph, const pgasi_numbering_t *numbering);

/** The bytes of memory that one rank of this node may take. */
uint64_t pgasi_graph_memory(void);

/** malloc and calloc of n elements. They never return NULL for n = 0. They record the reason if
 *  there is no memory. */
void *pgasi_graph_array(uint64_t n_elems, size_t elem_bytes);
void *pgasi_graph_zeroed(uint64_t n_elems, size_t elem_bytes);

/** Logs an error of a line of a file, or of the whole file if the line is 0. */
void pgasi_graph_log_error(const char *path, const pgasi_graph_error_t *error,
                           uint64_t lines_before);

#endif
