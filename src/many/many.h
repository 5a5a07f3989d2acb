/** Many elements anywhere in one call: the inside of pgas/many.h.
 *
 *  Elements that this process maps are copied and updated at their addresses. All others are
 *  gathered by rank into messages. Their owner carries a message out as one batch.
 *
 *      many.c      the public functions; an operation is divided into near and mixed sections
 *      near.c      loops over near elements, also those of a message
 *      gather.c    mixed sections: a bucket for each rank
 *      far.c       messages, answers, elements that travel alone */
#ifndef PGASI_MANY_H
#define PGASI_MANY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "many/near.h"
#include "pgas/many.h"

/** Elements that a section, and at most that a message, has. */
#define PGASI_MANY_MOST 4096

/** The head of a message. Behind it are the indices of its elements in the owner's heap, then the
 *  values of a put or an update. */
typedef struct {
    uint8_t kind, op, type, has_values;
    uint16_t n, elem_bytes;
} pgasi_many_head_t;

/** A message that is being filled. What belongs to its elements is at values_at: the values of a
 *  put or an update, or the places of a get's elements in the caller's array, 32 bits each. */
typedef struct {
    pgasi_many_head_t head;
    uint32_t index[];
} pgasi_many_bucket_t;

/** The mixed sections of one operation. */
typedef struct {
    const pgasi_many_t *m;
    char *buckets;      /* [n_ranks] */
    uint32_t n_ranks;   /* 0 until the buckets exist */
    uint32_t per_rank;  /* elements of a bucket; 0: elements are too large for messages */
    uint32_t bytes;     /* of a bucket */
    uint32_t values_at; /* in a bucket */
    unsigned shift;
    bool must_flush; /* elements of a put have travelled by themselves */
    uint64_t limit;  /* heap offsets below this one fit into messages */
} pgasi_many_far_t;

/** Begins an operation of at most n elements. */
void pgasi_many_far_begin(pgasi_many_far_t *far, const pgasi_many_t *m, size_t n);

/** Carries out elements i .. end-1, at most PGASI_MANY_MOST: near ones before it returns, others by
 *  messages. An element that fits no message is transferred by itself: it is large, outside of the
 *  heap, or not at a multiple of the unit.
 *  @return as the public functions */
pgas_status_t pgasi_many_far_run(pgasi_many_far_t *far, const pgas_gptr_t *ptrs, size_t i,
                                 size_t end);

/** Sends the rest and frees the buckets. Statuses as above. */
pgas_status_t pgasi_many_far_end(pgasi_many_far_t *far);

/* far.c */

/** The elements of a message: at most this many. */
uint32_t pgasi_many_per_message(const pgasi_many_t *m);

/** Sends a bucket, whose values follow its indices. places: of a get. */
pgas_status_t pgasi_many_send(const pgasi_many_t *m, int rank, const pgasi_many_bucket_t *bucket,
                              size_t bytes, const uint32_t *places);

/** Transfers element `place` by itself. Puts and updates may be incomplete until a flush. */
pgas_status_t pgasi_many_transfer(const pgasi_many_t *m, pgas_gptr_t ptr, size_t place);

/** Carries out elements of a rank whose heap this process maps. base and n_units of *m are set
 *  here. @return PGAS_OK or PGAS_ERR_RANGE */
pgas_status_t pgasi_many_carry_out(pgasi_many_t *m, int rank, const uint32_t *index, size_t n);

/** Registers the handlers. */
void pgasi_many_start(void);

#endif
