/** What the files of this folder share: the graph itself, agreement among ranks, and building.
 *
 *  Everything that communicates is collective and one at a time, so each file keeps what its
 *  handlers work on in one static variable, set before an agreement of all ranks and cleared after
 *  the last quiesce. Handlers run on other threads: between two collectives either they touch a
 *  thing or the caller's thread does. */
#ifndef PGASI_GRAPH_GRAPH_H
#define PGASI_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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
    double seconds; /* that making took here */
};

/** Register and agree on the handlers of this folder. Collective; harmless when repeated. */
pgas_status_t pgasi_graph_start(void);
pgas_status_t pgasi_build_register(void);
pgas_status_t pgasi_number_register(void);
pgas_status_t pgasi_source_register(void);
pgas_status_t pgasi_names_register(void);
pgas_status_t pgasi_plan_register(void);
pgas_status_t pgasi_sweep_register(void);
pgas_status_t pgasi_check_register(void);

/** Keep the reason of an error that this rank has just found (the first since the last agreement)
 *  for the log. Any thread. */
void pgasi_graph_note(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/** Collective: the status of the lowest rank that has an error, the same on all ranks. rank_p: that
 *  rank, -1 if all is well or the agreement itself failed; it logs the reason. With NULL the reason
 *  is logged here: that rank's note, or the text of the status. */
pgas_status_t pgasi_graph_agree(pgas_status_t mine, int *rank_p);

/** Collective, after calls: all calls have run everywhere, and the status is agreed. */
pgas_status_t pgasi_graph_settle(pgas_status_t mine);

/** pgas_agg_call; keeps the reason when the arguments are too long for PGAS_CALL_MAX. */
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

/** Owner of a vertex, unchecked. */
static inline int pgasi_graph_owner_of(uint64_t vertex, uint64_t block)
{
    return (int)(vertex / block);
}

/** Build a graph of edges that the ranks hold, ends below n_vertices. Collective. owned (NULL or
 *  ends) is freed when it is not needed any more, also after an error. Logs what the user can do
 *  something about. */
pgas_status_t pgasi_graph_build(uint64_t n_vertices, const uint64_t *ends, uint64_t n_edges,
                                void *owned, pgas_graph_t **graph_p);

/** The names that a rank has read, and what their numbers become. */
typedef struct {
    const pgasi_names_t *names;
    /* names from round_begin[k] on were met in round k or later; n_rounds of them */
    const uint32_t *round_begin;
    uint64_t n_rounds; /* the same on all ranks */
    uint64_t *ids;     /* out: n_names vertex numbers */
    /* out: bitmap of n_names, set for names that were met here first of all */
    uint64_t *first;
    uint64_t n_vertices; /* out */
} pgasi_numbering_t;

/** Number all names of all ranks in the order of first appearance: by round, then by rank, then as
 *  met. Collective. */
pgas_status_t pgasi_graph_number(pgasi_numbering_t *numbering);

/** Bring each name to the rank that holds its vertex. Collective. */
pgas_status_t pgasi_graph_spread_names(pgas_graph_t *graph, const pgasi_numbering_t *numbering);

/** What a rank of this node may take for itself, in bytes. */
uint64_t pgasi_graph_memory(void);

/** malloc of n elements; never NULL for n = 0; keeps the reason when there is no memory. */
void *pgasi_graph_array(uint64_t n_elems, size_t elem_bytes);
void *pgasi_graph_zeroed(uint64_t n_elems, size_t elem_bytes);

/** Log an error that stands at a line of a file (line 0: at the file). */
void pgasi_graph_log_error(const char *path, const pgasi_graph_error_t *error,
                           uint64_t lines_before);

#endif
