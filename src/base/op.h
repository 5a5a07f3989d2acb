/** Operators: the built-in ones and those of the program in one table, which is read without a
 *  lock. */
#ifndef PGASI_OP_H
#define PGASI_OP_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/op.h"

/* numbers of the program's operators have this bit, and room for a type in the low four bits */
#define PGASI_OP_REGISTERED (UINT32_C(1) << 31)

static inline bool pgasi_op_is_built_in(pgas_op_t op)
{
    return op < PGASI_OP_REGISTERED;
}

/** The definition of an operator with its type (PGAS_OP); NULL: there is none. The type does not
 *  matter for operators of the program. operand_bytes is never 0. merge NULL means combine. Any
 *  thread; the definition lives until the process ends. */
const pgas_op_def_t *pgasi_op_find(pgas_op_t op);

/** Whether a definition from pgasi_op_find is built in. Its contributions may be combined in any
 *  order, except that sums of floating-point numbers round. */
bool pgasi_op_commutes(const pgas_op_def_t *def);

/** Size of the elements of a type; 0: no such type. */
size_t pgasi_type_bytes(pgas_type_t type);

/* These functions take a definition from pgasi_op_find, not one of the caller. Their arrays do not
 * overlap. */

/** Combines contribution from[k] into contribution to[k], for n of them. Arrays of built-in
 *  operators, and contributions of up to PGASI_OP_ALIGN_MAX bytes, need no alignment. */
#define PGASI_OP_ALIGN_MAX 4096
void pgasi_op_combine_run(const pgas_op_def_t *def, void *to, const void *from, uint64_t n);
/** Merges contribution k into element k, for n of them. Arrays of built-in operators need no
 *  alignment. */
void pgasi_op_merge_run(const pgas_op_def_t *def, void *elems, const void *contributions,
                        uint64_t n);
/** Merges contribution k into the element at elems[k], for n of them. An element may occur more
 *  than once. */
void pgasi_op_merge_at(const pgas_op_def_t *def, void *const *elems, const void *contributions,
                       uint64_t n);
/** Merges contribution k into words[k] by a compare-and-swap, for n of them: each is one atomic
 *  operation. It writes nothing if the word does not change. Built-in operators only; words are
 *  aligned. Contributions follow each other after `step` bytes; 0: all are the same one. */
void pgasi_op_update_at(const pgas_op_def_t *def, void *const *words, const void *contributions,
                        size_t step, uint64_t n);
/** Sets n contributions to the identity. */
void pgasi_op_fill_identity(const pgas_op_def_t *def, void *to, uint64_t n);
/** The same for users: built-in sums become 0.0, not -0.0. */
void pgasi_op_fill_neutral(const pgas_op_def_t *def, void *to, uint64_t n);

#endif
