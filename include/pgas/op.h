/** Operators and types of elements, for collectives, atomics and arrays.
 *
 *      pgas_allreduce(NULL, &mine, &all, 1, PGAS_F64, PGAS_ADD);       type and operator
 *      pgas_array_apply(a, i, PGAS_OP(PGAS_ADD, PGAS_F64), &x);        both in one number
 *
 *  A function that does not offer an operator for a type returns PGAS_ERR_UNSUPPORTED. */
#ifndef PGAS_OP_H
#define PGAS_OP_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** The number of an operator: one of the list below, or an operator of the program. 0 is none. */
typedef uint32_t pgas_op_t;

/** Built-in operators. Integers wrap around. AND, OR and XOR are bitwise, for integers only. SWAP
 *  replaces the old value. */
enum {
    PGAS_ADD = 0x10,
    PGAS_MIN = 0x20,
    PGAS_MAX = 0x30,
    PGAS_AND = 0x40,
    PGAS_OR = 0x50,
    PGAS_XOR = 0x60,
    PGAS_PROD = 0x70,
    PGAS_SWAP = 0x80
};

/** Types of elements: unsigned, signed and floating-point, by their bits. NONE stands for the
 *  elements of an operator of the program. */
typedef enum {
    PGAS_TYPE_NONE = 0,
    PGAS_U8 = 1,
    PGAS_U16,
    PGAS_U32,
    PGAS_U64,
    PGAS_I8,
    PGAS_I16,
    PGAS_I32,
    PGAS_I64,
    PGAS_F32,
    PGAS_F64
} pgas_type_t;

/** An operator with its type, for functions whose elements have no type. */
#define PGAS_OP(op, type) (PGAS_CAST(pgas_op_t, op) | PGAS_CAST(pgas_op_t, type))

/** An operator of the program, for reductions, scans and arrays. It must be associative, for arrays
 *  also commutative: reductions and scans combine in the order of ranks, arrays have no order.
 *  Shape:  the functions may run on any thread of the rank and must not call the library. For
 *          elements of 1, 2, 4 and 8 bytes of an array they may run concurrently on private copies
 *          (compare-and-swap loop; losers retry).
 *  Units:  elements and contributions are aligned to 16 bytes as far as their sizes allow. The
 *          program aligns the operands of pgas_array_apply. */
typedef struct {
    /* bytes of elements and contributions, 1 .. 65536; operand_bytes 0: as elem_bytes. Reductions
     * and scans combine contributions of at most 4096 bytes */
    size_t elem_bytes, operand_bytes;
    const void *identity; /* operand_bytes bytes, copied: a contribution that changes nothing */
    /* *to becomes *to combined with *from; both are contributions */
    void (*combine)(void *to, const void *from);
    /* applies a contribution to an element of an array. NULL: combine does that */
    void (*merge)(void *elem, const void *operand);
} pgas_op_def_t;

/** Registers an operator under a name, on each rank that uses it or is home of elements on which it
 *  is used. Any thread; not collective. The number depends on the name alone. The operator remains
 *  until the process ends.
 *  @return PGAS_OK           also if the same name and definition are registered again
 *          PGAS_ERR_EXISTS   the name, or another with the same number, has another definition
 *          PGAS_ERR_LIMIT    256 operators are registered
 *          PGAS_ERR_INVALID  no name, combine or identity; sizes out of range; or the sizes differ
 *                            and merge is missing */
PGAS_API pgas_status_t pgas_op_register(const char *name, const pgas_op_def_t *def,
                                        pgas_op_t *op_p);

PGAS_END_DECLS
#endif
