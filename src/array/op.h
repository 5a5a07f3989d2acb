/** Operators: the built-in ones and those of the program in one table, which is read without a
 *  lock. */
#ifndef PGASI_ARRAY_OP_H
#define PGASI_ARRAY_OP_H

#include <stdint.h>
#include "pgas/array.h"

/** The definition behind a number, of a built-in operator or of a registered one; NULL: there is
 *  none. operand_bytes is never 0, merge NULL means combine. Any thread; lives until the process
 *  ends. */
const pgas_array_op_def_t *pgasi_array_op_find(pgas_array_op_t op);

/* Runs take what find gave, not a definition of the caller's; their arrays do not overlap. Those of
 * built-in operators need no alignment. */

/** *to[k] is combined with from[k], operands both, for n of them. */
void pgasi_array_op_combine_run(const pgas_array_op_def_t *def, void *to, const void *from,
                                uint64_t n);
/** Operand k is brought into element k, for n of them. */
void pgasi_array_op_merge_run(const pgas_array_op_def_t *def, void *elems, const void *operands,
                              uint64_t n);
/** Makes n operands the identity. */
void pgasi_array_op_fill_identity(const pgas_array_op_def_t *def, void *to, uint64_t n);

#endif
