/** Sorting rows that were read from a file (binary.h). */
#ifndef PGASI_GRAPH_BINARY_ORDER_H
#define PGASI_GRAPH_BINARY_ORDER_H

#include "graph/graph.h"

/** Whether no end is greater than the next one. */
static inline bool pgasi_ends_rise(const uint32_t *end, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++)
        if (end[i - 1] > end[i])
            return false;
    return true;
}

/** Sorts the ids of each row: fast if the rows have the order of the form BINARY. Local.
 *  @return PGAS_OK or PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_binary_order(const pgas_graph_t *graph, pgasi_rows_t *rows);

#endif
