/* Updates of many words: see many.h.
 *
 * Updates are gathered in one bucket for each rank, the caller's own included, so that no branch of
 * the loop depends on the rank. A full bucket goes to the owner, even within the node. The owner
 * applies the messages one at a time by plain loads and stores. Two ranks that update words of one
 * small table by locked instructions wait for each other's cache lines. With 10^4 words a rank,
 * each of two ranks made 115 M updates per second so, and 290 M through the owners. */
#include "many/many.h"

#include <string.h>

#include "base/checks.h"

/* shift and has_values are constants. The fields of *far are in variables, because the compiler
 * would otherwise load them again after each store to a bucket. */
PGAS_INLINE pgas_status_t gather(pgasi_many_far_t *far, const pgas_gptr_t *ptrs, size_t n,
                                 unsigned shift, bool has_values)
{
    const uint64_t limit = far->limit, n_ranks = far->n_ranks;
    const uint32_t bytes = far->bytes, values_at = far->values_at, last = far->per_rank - 1;
    const size_t elem_bytes = (size_t)1 << shift;
    const char *from = far->m->from;
    char *buckets = far->buckets;
    pgas_status_t status = PGAS_OK;
    for (size_t i = 0; i < n; i++) {
        uint64_t ptr = ptrs[i], rank = ptr >> PGAS_OFFSET_BITS;
        uint64_t inside = (ptr & PGAS_OFFSET_MAX) - PGASI_HEAP_OFFSET;
        char *bucket = buckets + rank * bytes;
        pgasi_many_head_t *head = (pgasi_many_head_t *)(void *)bucket;
        if (PGAS_UNLIKELY(rank >= n_ranks || inside >= limit || (ptr & (elem_bytes - 1)))) {
            status = pgasi_many_far_add_slow(far, ptr, i);
        } else {
            uint32_t held = head->n++;
            ((uint32_t *)(void *)(head + 1))[held] = (uint32_t)(inside >> shift);
            if (has_values)
                memcpy(bucket + values_at + held * elem_bytes, from + i * elem_bytes, elem_bytes);
            if (PGAS_LIKELY(held < last))
                continue;
            status = pgasi_many_far_send(far, (int)rank);
        }
        if (status != PGAS_OK)
            return status;
    }
    return status;
}

pgas_status_t pgasi_many_update(pgasi_many_far_t *far, const pgas_gptr_t *ptrs, size_t n)
{
    pgas_status_t status = pgasi_many_far_open(far);
    if (status != PGAS_OK)
        return status;
    if (!far->m->from && far->shift == 3)
        return gather(far, ptrs, n, 3, false);
    if (!far->m->from)
        return gather(far, ptrs, n, far->shift, false);
    switch (far->shift) {
    case 0:
        return gather(far, ptrs, n, 0, true);
    case 1:
        return gather(far, ptrs, n, 1, true);
    case 2:
        return gather(far, ptrs, n, 2, true);
    default:
        return gather(far, ptrs, n, 3, true);
    }
}
