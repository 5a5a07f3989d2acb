/** Labels: numbers of 63 bits that the input uses for vertices. Each rank has a table of the labels
 *  that it has read, and numbers them 0, 1, 2 .. as they come. Then the ranks number all labels in
 *  rising order: these are the vertices. */
#ifndef PGASI_GRAPH_LABELS_H
#define PGASI_GRAPH_LABELS_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/graph.h"
#include "pgas/status.h"

#define PGASI_LABELS_MAX (UINT32_MAX - 1)

typedef struct {
    uint64_t *label; /* [n] as they came */
    uint32_t *slot;  /* place in label + 1; 0: free. Linear probing; at most half are in use */
    uint32_t n;
    uint64_t room;
    uint64_t n_slots; /* a power of two, or 0 */
} pgasi_labels_t;

static inline void pgasi_labels_init(pgasi_labels_t *labels)
{
    *labels = (pgasi_labels_t){ 0 };
}
void pgasi_labels_fini(pgasi_labels_t *labels);

/** Finds or adds n labels, at most PGASI_LABELS_BATCH, and stores their places. The memory accesses
 *  of a batch overlap, so n should be great.
 *  @return PGAS_OK.
 *          PGAS_ERR_NO_MEMORY.
 *          PGAS_ERR_LIMIT: there would be more than PGASI_LABELS_MAX of them. */
#define PGASI_LABELS_BATCH 128
pgas_status_t pgasi_labels_add(pgasi_labels_t *labels, const uint64_t *label, size_t n,
                               uint32_t *place);

/** The numbers of all labels. */
typedef struct {
    uint64_t n_vertices;
    uint32_t *number; /* [n] of this rank's table: the vertex of each place */
    uint64_t missing; /* the least label of any rank that is no vertex; UINT64_MAX: none */
    uint64_t *sorted; /* [n_sorted] the labels of the vertices first_sorted .. */
    uint64_t n_sorted, first_sorted;
} pgasi_labeling_t;

/** Numbers the labels of all ranks. The first n_vertices of a rank's table are vertices, the others
 *  only ends of edges, which must be vertices of some rank. Collective; logs errors.
 *  @return PGAS_OK.
 *          PGAS_ERR_NOT_FOUND: there are ends that are no vertices (missing); not logged.
 *          PGAS_ERR_LIMIT: there are too many vertices.
 *          PGAS_ERR_NO_MEMORY. */
pgas_status_t pgasi_labels_number(const pgasi_labels_t *labels, uint32_t n_vertices,
                                  pgasi_labeling_t *out);
void pgasi_labeling_fini(pgasi_labeling_t *labeling);

/** Gives each rank the labels of its own vertices. Collective; logs errors. */
pgas_status_t pgasi_labels_spread(pgas_graph_t *graph, const pgasi_labeling_t *labeling);

/** Gets the labels of n vertices of any rank; without labels, their numbers. Collective; logs
 *  errors. */
pgas_status_t pgasi_graph_ask_labels(const pgas_graph_t *graph, const uint64_t *vertices, size_t n,
                                     uint64_t *labels);

#endif
