/** How a cache handles a miss: it fetches the chunk, or lets the home carry the access out. */
#ifndef PGASI_ARRAY_POLICY_H
#define PGASI_ARRAY_POLICY_H

#include "array/array.h"
#include "base/hash.h"

/** Whether an access waits for a cache line; otherwise the home carries it out. has_line: the chunk
 *  has one. sequential: the thread walks chunks in order. Records a chunk without a line, so that
 *  its next miss fetches it. The caller is serving. */
bool pgasi_array_should_fetch(pgasi_array_t *a, const pgasi_array_location_t *loc,
                              const pgasi_array_access_t *x, bool has_line, bool sequential);

/** The chunks to fetch together with that of an apply, a power of two; 0: none. The caller is
 *  serving. */
uint64_t pgasi_array_fetch_around(pgasi_array_t *a, const pgasi_array_access_t *x);

/** Whether a cache line has no room for contributions of the operator. */
bool pgasi_array_is_too_large_for_line(const pgasi_array_t *a, uint32_t op);

/** Whether the home has the operator. Operators of the program may be missing there, so the home is
 *  asked before contributions are combined here. Any thread. */
bool pgasi_array_home_knows(const pgasi_array_t *a, int home, uint32_t op);
/** Records that it has. The caller is serving. */
void pgasi_array_home_note_op(pgasi_array_t *a, int home, uint32_t op);

/** How often a chunk without a cache line was recalled at the price of a barrier. */
static inline uint16_t *pgasi_array_heat_of(const pgasi_array_t *a, uint64_t chunk)
{
    return &a->heat[pgasi_hash_u64(chunk) & a->filter_mask];
}

#endif
