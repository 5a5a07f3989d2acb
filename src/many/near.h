/** Elements of pgas_get_many, pgas_put_many and pgas_update_many that this process maps. */
#ifndef PGASI_MANY_NEAR_H
#define PGASI_MANY_NEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/gptr.h"
#include "pgas/op.h"
#include "pgas/sync.h"

typedef enum { PGASI_MANY_GET, PGASI_MANY_PUT, PGASI_MANY_UPDATE } pgasi_many_kind_t;

typedef struct pgasi_many pgasi_many_t;

/** Carries out elements i, i+1, .. of an operation up to n, or up to the first one that the
 *  function cannot carry out: this process does not map it, or it is a misaligned word.
 *  @return the number of that element, or n */
typedef size_t (*pgasi_many_near_fn_t)(const pgasi_many_t *m, const pgas_gptr_t *ptrs, size_t i,
                                       size_t n);
/** The same with the elements of one rank, by their indices in its heap, which base and n_units
 *  describe. An index counts units of 2^shift bytes: the largest power of two that divides the size
 *  of an element. */
typedef size_t (*pgasi_many_batch_fn_t)(const pgasi_many_t *m, const uint32_t *index, size_t i,
                                        size_t n);

/** An operation. */
struct pgasi_many {
    pgasi_many_kind_t kind;
    pgas_op_t op;     /* UPDATE */
    pgas_type_t type; /* UPDATE */
    size_t elem_bytes;
    pgasi_many_near_fn_t near;
    pgasi_many_batch_fn_t batch;
    char *base;            /* of the heap: for batch alone */
    uint64_t n_units;      /* less than this is an index in the heap: for batch alone */
    char *to;              /* GET: the first element */
    const uint32_t *place; /* GET by batch: element i goes to place[i] of `to`; NULL: to i */
    const char *from;      /* PUT, UPDATE: the first value */
    size_t step;           /* bytes from one value to the next; 0: all elements have the same one */
    pgas_sync_t *sync;
};

/** Fills *m. Elements of gets and puts that have 1, 2, 4 or 8 bytes are loaded and stored as
 *  relaxed atomics. An update is one relaxed atomic operation. from NULL: of an update, the value 1
 *  for each word.
 *  @return false: no such update */
bool pgasi_many_init(pgasi_many_t *m, pgasi_many_kind_t kind, pgas_op_t op, pgas_type_t type,
                     size_t elem_bytes, const char *from);

/** From now on elements of the get or put need not be aligned, and are copied as bytes. */
void pgasi_many_allow_unaligned(pgasi_many_t *m);

#endif
