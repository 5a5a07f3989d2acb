/** When a rank combines contributions of its own to chunks of its node's other ranks.
 *
 *  Threads of several ranks that combine into a chunk do so by atomic instructions, and each of
 *  them first takes the processor's cache line from another processor. Contributions in a cache
 *  line of this rank need neither, but cost messages before and after, and a barrier. So a rank
 *  joins the chunk's operators after some hundred applies, or after thousands if reads have ended
 *  earlier ones soon. It counts one in PGASI_ARRAY_SAMPLE. */
#ifndef PGASI_ARRAY_JOIN_H
#define PGASI_ARRAY_JOIN_H

#include "array/array.h"

#define PGASI_ARRAY_SAMPLE 32

/** Counts an apply to element i that other ranks of the node may use at the same time. */
void pgasi_array_join_sample(pgas_array_t *array, uint64_t i, pgas_op_t op);
/** An apply to a chunk that is Operated is done, at the home of another rank. Every further one
 *  would take the grant's lock, so this rank joins at once. */
void pgasi_array_join_operated(pgasi_array_t *a, const pgasi_array_location_t *loc, pgas_op_t op);

#endif
