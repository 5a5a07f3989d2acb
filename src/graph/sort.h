/** Sorting numbers by their digits. */
#ifndef PGASI_GRAPH_SORT_H
#define PGASI_GRAPH_SORT_H

#include <stdint.h>

/** An index with its key. */
typedef struct {
    uint64_t key;
    uint32_t index;
} pgasi_keyed_t;

/** Sorts by key; equal keys keep their order. Keys are below limit. scratch has room for n. The
 *  cost is n steps for each 11 bits of limit.
 *  @return the sorted array: keyed or scratch. */
pgasi_keyed_t *pgasi_sort_keyed(pgasi_keyed_t *keyed, pgasi_keyed_t *scratch, uint64_t n,
                                uint64_t limit);

/** Sorts n values below limit in place. scratch has room for n. */
void pgasi_sort_u32(uint32_t *values, uint32_t *scratch, uint64_t n, uint64_t limit);

#endif
