/** Many elements anywhere in one call: the inside of pgas/many.h.
 *
 *  Elements that this process maps are copied and updated at their addresses. All others are
 *  gathered by rank into messages. Their owner carries a message out as one batch.
 *
 *      many.c      the public functions; an operation is divided into near and far elements
 *      near.c      loops over near elements, also those of a message
 *      far.c       buckets by rank, messages, answers */
#ifndef PGASI_MANY_H
#define PGASI_MANY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "many/near.h"
#include "mem/segment.h"
#include "pgas/many.h"

/** The head of a message. Behind it are the indices of its elements in the owner's heap, then the
 *  values of a put or an update. An index counts units of 2^shift bytes: the largest power of two
 *  that divides the size of an element. */
typedef struct {
    uint8_t kind, op, type, has_values;
    uint16_t n, elem_bytes;
} pgasi_many_head_t;

/** Elements gathered by rank, for the thread that runs one operation. A bucket is a message that is
 *  being filled. Where a message has values, a bucket of gets has the places of the elements in the
 *  caller's array. */
typedef struct {
    const pgasi_many_t *m;
    char *buckets;      /* [n_ranks] */
    uint32_t n_ranks;   /* 0 until the buckets exist */
    uint32_t per_rank;  /* elements of a bucket */
    uint32_t bytes;     /* of a bucket */
    uint32_t values_at; /* where the values of a bucket begin */
    unsigned shift;
    bool must_flush; /* elements of a put have travelled by themselves */
    /* heap offsets below this one fit into messages; 0: elements are too large for messages */
    uint64_t limit;
} pgasi_many_far_t;

/** Begins an operation of at most n elements. */
void pgasi_many_far_begin(pgasi_many_far_t *far, const pgasi_many_t *m, size_t n);

/** Allocates the buckets.
 *  @return PGAS_OK
 *          PGAS_ERR_CONTEXT    a plain handler
 *          PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_many_far_open(pgasi_many_far_t *far);

/** Adds an element that the inline function does not add: the first one, and one that does not fit
 *  into messages. The latter is large, outside of the heap, or not at a multiple of the unit. It is
 *  transferred by itself. Statuses: as pgasi_many_far_open, pgas_put and so on. */
pgas_status_t pgasi_many_far_add_slow(pgasi_many_far_t *far, pgas_gptr_t ptr, size_t place);

/** Sends the elements of a rank. */
pgas_status_t pgasi_many_far_send(pgasi_many_far_t *far, int rank);

/** Adds element `place` of the operation, which is at ptr, and sends the rank's elements if they
 *  fill a message. Statuses as above. */
static inline pgas_status_t pgasi_many_far_add(pgasi_many_far_t *far, pgas_gptr_t ptr, size_t place)
{
    const pgasi_many_t *m = far->m;
    uint64_t rank = ptr >> PGAS_OFFSET_BITS, inside = (ptr & PGAS_OFFSET_MAX) - PGASI_HEAP_OFFSET;
    if (PGAS_UNLIKELY(rank >= far->n_ranks || inside >= far->limit ||
                      (inside & ((UINT64_C(1) << far->shift) - 1))))
        return pgasi_many_far_add_slow(far, ptr, place);
    char *bucket = far->buckets + rank * far->bytes;
    pgasi_many_head_t *head = (pgasi_many_head_t *)(void *)bucket;
    uint32_t n = head->n;
    ((uint32_t *)(void *)(head + 1))[n] = (uint32_t)(inside >> far->shift);
    if (m->kind == PGASI_MANY_GET)
        ((uint32_t *)(void *)(bucket + far->values_at))[n] = (uint32_t)place;
    else if (m->step)
        memcpy(bucket + far->values_at + n * m->elem_bytes, m->from + place * m->step,
               m->elem_bytes);
    head->n = (uint16_t)(n + 1);
    return PGAS_LIKELY(n + 1 < far->per_rank) ? PGAS_OK : pgasi_many_far_send(far, (int)rank);
}

/** Sends the rest and frees the buckets. Statuses as above. */
pgas_status_t pgasi_many_far_end(pgasi_many_far_t *far);
/** Registers the handlers. */
void pgasi_many_start(void);

#endif
