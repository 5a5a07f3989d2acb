/** What the two versions of label propagation share: a rank's part of the graph, and the start and
 *  end of a round. */
#ifndef BENCH_LABELS_H
#define BENCH_LABELS_H

#include "benchmarks/bench.h"

/** A vertex of any rank in one word: its index at its rank, then its rank in the low bits. */
typedef struct {
    int rank_bits;
    uint32_t n;        /* vertices of this rank */
    uint64_t *first;   /* n + 1: where the edges of each vertex begin */
    uint32_t *to;      /* the other ends of the edges */
    uint32_t *label;   /* as of the last round */
    uint32_t *next;    /* and of this one; incoming labels change it */
    uint32_t *changed; /* vertices whose label changed in the last round, n_changed */
    uint32_t n_changed;
} labels_graph_t;

/** A label for a vertex. */
typedef struct {
    uint32_t index;
    uint32_t label;
} labels_item_t;

static inline int labels_rank(const labels_graph_t *graph, uint32_t vertex)
{
    return (int)(vertex & ((UINT32_C(1) << graph->rank_bits) - 1));
}

static inline uint32_t labels_index(const labels_graph_t *graph, uint32_t vertex)
{
    return vertex >> graph->rank_bits;
}

/** A label arrives; the lowest counts. */
static inline void labels_lower(uint32_t *next, const labels_item_t *item)
{
    if (item->label < next[item->index])
        next[item->index] = item->label;
}

/** Ends a round of this rank: new labels become current, and their vertices are listed. */
static inline void labels_turn(labels_graph_t *graph)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n; i++) {
        graph->changed[n] = i;
        n += graph->next[i] != graph->label[i];
        graph->label[i] = graph->next[i];
    }
    graph->n_changed = n;
}

/** Rounds of propagation until no label changes, by buckets and MPI_Alltoallv (ref_labels.c). All
 *  vertices begin as changed. Collective. */
void ref_labels(labels_graph_t *graph);

#endif
