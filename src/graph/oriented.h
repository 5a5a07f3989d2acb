/** The simple undirected graph beneath a graph, oriented for counting triangles.
 *
 *  Loops, multiple edges and directions are dropped. The vertices have a total order, which is the
 *  same on all ranks: by falling degree, then by rising number. Each rank numbers its own vertices
 *  and ghosts in this order: these numbers are places. An edge leads up from its end with the
 *  higher place to the end with the lower place. So each row of upward edges is short: at most
 *  sqrt(2 m) of m edges.
 *
 *  A rank has two forms of its edges:
 *    up    For each own vertex, the places of its upper neighbours, as a list of words: bits of 32
 *          consecutive places each. Vertices of high degree have close places, so a word often has
 *          many bits.
 *    down  For each place, the own vertices from which an edge leads up to it.
 *
 *  Source: the words are the base and state representation of Han, Zou, Yu: Speeding up set
 *  intersections in graph algorithms using SIMD instructions (SIGMOD 2018).
 *
 *  A triangle has a lowest vertex v, a middle vertex u and a highest vertex w. The owner of v finds
 *  it: when the upper neighbours of u are marked, w is a marked upper neighbour of v. The vertex v
 *  is a lower neighbour of u. */
#ifndef PGASI_GRAPH_ORIENTED_H
#define PGASI_GRAPH_ORIENTED_H

#include <stdbool.h>
#include <stdint.h>
#include "graph/run.h"

#define PGASI_BLOCK_BITS 5 /* places of a word: 32 */

typedef struct {
    pgas_graph_run_t *run;
    uint32_t n_ids;
    uint32_t *degree;   /* by id: distinct neighbours */
    uint32_t *place;    /* by id */
    uint32_t *id_at;    /* by place */
    uint64_t *up_begin; /* [n_local + 1] by id */
    uint64_t *up;       /* words: block << 32 | bits, by rising block; place = block * 32 + bit */
    uint32_t *up_both;  /* the bits of edges in both directions, or NULL */
    int n_kinds;        /* 2 if up_both: edges in one direction, and in both; otherwise 1 */
    uint64_t
        *down_begin; /* [n_ids * n_kinds + 1] the row of place p and kind k is p * n_kinds + k */
    uint32_t *down;  /* own ids */
} pgasi_oriented_t;

/** What a thread has marked: the upper neighbours of a vertex. */
typedef struct {
    uint32_t *any, *both; /* by block: bits of places; both is NULL unless up_both */
    uint32_t *block;      /* [n_blocks] the blocks with bits */
    uint32_t n_blocks;
    uint32_t *extra; /* extra_words for each block, for the visitor, which leaves zeros */
    uint64_t sum;    /* for the visitor; it begins with 0 */
    char pad[64];    /* other threads' marks are in other cache lines */
} pgasi_marks_t;

/** A visitor, for a middle vertex with the place u. Some or all of its upper neighbours are marked;
 *  two calls for the same u have no marked neighbour in common. Several threads call it. */
typedef void (*pgasi_middle_fn_t)(void *arg, pgasi_marks_t *marks, uint32_t u);

/** Makes the oriented graph in slots of the graph. Collective. If needs_both, up_both marks the
 *  edges of a directed graph that exist in both directions. */
pgas_status_t pgasi_oriented_make(pgasi_oriented_t *o, pgas_graph_run_t *run, bool needs_both);

/** Calls visit for each middle vertex of a possible triangle whose lowest vertex is this rank's.
 *  Collective. Rows of other ranks' vertices travel in rounds of bounded blocks. Each thread has
 *  8 + 4 * extra_words bytes for 32 ids, 12 with up_both.
 *  @param sum_p  the sum of all threads' marks->sum
 *  @param rounds_p  the number of rounds */
pgas_status_t pgasi_oriented_visit(const pgasi_oriented_t *o, uint32_t extra_words,
                                   const char *phase, pgasi_middle_fn_t visit, void *arg,
                                   uint64_t *sum_p, int *rounds_p);

/** Slots that other files may use beside an oriented graph. */
enum {
    PGASI_ORIENTED_SLOTS = 12, /* SLOT_STATE + 0 .. + 11 are the oriented graph's */
    PGASI_ORIENTED_FREE_SLOT = PGASI_ORIENTED_SLOTS
};

#endif
