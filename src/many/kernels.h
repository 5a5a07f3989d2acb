/** Loops over a block of elements of pgas_get_many, pgas_put_many or pgas_update_many, at addresses
 *  of this process. */
#ifndef PGASI_MANY_KERNELS_H
#define PGASI_MANY_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/op.h"

/* elements of a block: their addresses are known, and their lines requested, before the first of
 * them is used */
#define PGASI_MANY_BLOCK 64

/** Copies n elements of `bytes` bytes: from the addresses to dst, or from src to the addresses.
 *  Elements of 1, 2, 4 and 8 bytes are loaded and stored as relaxed atomics. */
void pgasi_many_load(void *dst, void *const *at, size_t bytes, size_t n);
void pgasi_many_store(void *const *at, const void *src, size_t bytes, size_t n);

/** Applies values[i] to the word at base + (index[i] << shift), for i = 0 .. n-1. values NULL: 1
 *  for each. Only one thread at a time may update words of a rank. */
typedef void (*pgasi_many_apply_fn_t)(char *base, const uint32_t *index, unsigned shift,
                                      const void *values, size_t n);

/** Returns the function for an operator and a type, or NULL if there is none. */
pgasi_many_apply_fn_t pgasi_many_apply_of(pgas_op_t op, pgas_type_t type);

#endif
