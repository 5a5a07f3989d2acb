/** The edges that a rank has read, before they become rows: 8 bytes an edge, and the weight. Ends
 *  are vertex numbers, or places in the table of names or labels. They have 64 bits; the upper
 *  halves take memory only if an end needs it. One thread uses a list. */
#ifndef PGASI_GRAPH_EDGES_H
#define PGASI_GRAPH_EDGES_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/op.h"
#include "pgas/status.h"

typedef struct {
    uint64_t n_edges, room;
    uint32_t *low;  /* [2 * n_edges] ends: from, to */
    uint32_t *high; /* NULL: all 0 */
    void *weight;   /* NULL, or [n_edges] of weight_type */
    pgas_type_t weight_type;
    uint64_t greatest; /* of all ends */
} pgasi_edges_t;

/** weight_type: PGAS_TYPE_NONE, PGAS_U32, PGAS_F32 or PGAS_F64. */
void pgasi_edges_init(pgasi_edges_t *edges, pgas_type_t weight_type);
void pgasi_edges_fini(pgasi_edges_t *edges);

/** Whether a weight fits the type. */
bool pgasi_edges_fits(const pgasi_edges_t *edges, double weight);

/** Adds an edge.
 *  @return PGAS_OK.
 *          PGAS_ERR_NO_MEMORY.
 *          PGAS_ERR_RANGE: the weight does not fit the type. The list is unchanged. */
pgas_status_t pgasi_edges_add(pgasi_edges_t *edges, uint64_t from, uint64_t to, double weight);

static inline uint64_t pgasi_edges_end(const pgasi_edges_t *edges, uint64_t i)
{
    return edges->low[i] | (edges->high ? (uint64_t)edges->high[i] << 32 : 0);
}

/** Replaces end i (edge i / 2) by a number, which is less than 2^32. */
static inline void pgasi_edges_set_end(pgasi_edges_t *edges, uint64_t i, uint32_t number)
{
    edges->low[i] = number;
    if (edges->high)
        edges->high[i] = 0;
}

#endif
