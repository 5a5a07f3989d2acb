/** Operators: the built-in ones and those of the program in one table, which is read without a
 *  lock. */
#ifndef PGASI_ARRAY_OP_H
#define PGASI_ARRAY_OP_H

#include <stdint.h>
#include "pgas/array.h"

/** The definition of an operator; NULL: there is none. operand_bytes is never 0. merge NULL
 *  means combine. Any thread; the definition lives until the process ends. */
const pgas_array_op_def_t *pgasi_array_op_find(pgas_array_op_t op);

/* These functions take a definition from pgasi_array_op_find, not one of the caller. Their
 * arrays do not overlap. Arrays of built-in operators need no alignment. */

/** Combines contribution from[k] into contribution to[k], for n of them. */
void pgasi_array_op_combine_run(const pgas_array_op_def_t *def, void *to, const void *from,
                                uint64_t n);
/** Merges contribution k into element k, for n of them. */
void pgasi_array_op_merge_run(const pgas_array_op_def_t *def, void *elems,
                              const void *contributions, uint64_t n);
/** Sets n contributions to the identity. */
void pgasi_array_op_fill_identity(const pgas_array_op_def_t *def, void *to, uint64_t n);

#endif
