/** The common header of this folder: the graph, and agreement among ranks.
 *
 *  This folder uses the public headers of the library and src/base only.
 *
 *  Functions that communicate are collective, and only one runs at a time. Therefore each file with
 *  handlers has one static variable for the object that its handlers work on. The function sets it
 *  before an agreement of all ranks and clears it after the last quiesce. Handlers run on other
 *  threads: between two collectives, either they access an object or the caller's thread does. */
#ifndef PGASI_GRAPH_GRAPH_H
#define PGASI_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "graph/names.h"
#include "graph/reader.h"
#include "pgas/agg.h"
#include "pgas/graph.h"

/** The greatest number of vertices: numbers and ids have 32 bits, and one value is free. */
#define PGASI_GRAPH_VERTICES_MAX (UINT32_MAX - 1)

/** Rows of edges, which the graph owns. */
typedef struct {
    uint64_t *begin; /* [n_local + 1]; NULL: there are no such rows */
    uint32_t *end;
    void *weight; /* NULL, or of the graph's weight_type */
} pgasi_rows_t;

/** Memory that the next run of an algorithm uses again. Each array of a run has its own slot. */
#define PGASI_GRAPH_SLOTS 32
typedef struct {
    void *memory;
    uint64_t bytes;
} pgasi_graph_slot_t;

struct pgas_graph {
    int rank, n_ranks;
    uint64_t n_vertices, n_edges;
    uint64_t *first_of; /* [n_ranks + 1] rank r owns first_of[r] .. first_of[r + 1] - 1 */
    uint64_t first;
    uint32_t n_local, n_ghosts;
    uint64_t *vertex; /* [n_local + n_ghosts] the number of an id */
    uint32_t *id_of;  /* [n_local] */
    bool directed;
    pgas_type_t weight_type;
    double least_weight, greatest_weight; /* of all ranks; NaN: one of them is. Without weights 1 */
    pgasi_rows_t out, in;                 /* in: of a directed graph, once reversed */
    /* the ghosts of rank r are n_local + ghost_begin[r] .. n_local + ghost_begin[r + 1] - 1; rank r
     * has mirror[mirror_begin[r]] .. mirror[mirror_begin[r + 1] - 1], own ids, as ghosts, in the
     * same order */
    uint64_t *ghost_begin, *mirror_begin; /* [n_ranks + 1] */
    uint32_t *mirror;
    uint64_t *labels; /* [n_local] by number, or NULL */
    bool has_names;
    pgasi_name_t *name; /* [n_local] by number, into name_text */
    char *name_text;
    uint64_t name_text_bytes, name_text_room;
    double seconds; /* the time in which this rank made it */
    bool is_running;
    pgasi_graph_slot_t slot[PGASI_GRAPH_SLOTS];
};

/** Registers the handlers of this folder and agrees on them. Collective. It may be repeated. */
pgas_status_t pgasi_graph_start(void);
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

/** The last of n ranges that begins at or before a place. begin[0] is 0. */
static inline int pgasi_graph_range_of(const uint64_t *begin, int n, uint64_t place)
{
    int low = 0;
    while (n > 1) {
        int half = n / 2;
        low += place >= begin[low + half] ? half : 0;
        n -= half;
    }
    return low;
}

/** The owner of a vertex, which is below n_vertices. */
static inline int pgasi_graph_owner(const pgas_graph_t *graph, uint64_t vertex)
{
    return pgasi_graph_range_of(graph->first_of, graph->n_ranks, vertex);
}

/** The owner of a ghost. */
static inline int pgasi_graph_ghost_owner(const pgas_graph_t *graph, uint32_t ghost)
{
    return pgasi_graph_range_of(graph->ghost_begin, graph->n_ranks, ghost - graph->n_local);
}

static inline bool pgasi_graph_is_own(const pgas_graph_t *graph, uint64_t vertex)
{
    return vertex - graph->first < graph->n_local;
}

/** The names that a rank has read, and the vertex numbers that they get. */
typedef struct {
    const pgasi_names_t *names;
    /* [n_rounds] names from round_begin[k] on were first read in round k or later */
    const uint32_t *round_begin;
    uint64_t n_rounds;
    uint64_t *ids;   /* out: [n_names] vertex numbers; the caller frees it */
    uint64_t *first; /* out: a bitmap of n_names; a set bit: this rank read the name first of all
                      * ranks; the caller frees it */
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

/** Returns the memory of a slot, for at least n elements, which the graph owns. It has the contents
 *  of the last use, up to the size of the last use.
 *  @return NULL: there is no memory, and the reason is recorded */
void *pgasi_graph_scratch(pgas_graph_t *graph, int slot, uint64_t n_elems, size_t elem_bytes);

/** Logs an error of a line of a file, or of the whole file if the line is 0. */
void pgasi_graph_log_error(const char *path, const pgasi_graph_error_t *error,
                           uint64_t lines_before);

#endif
