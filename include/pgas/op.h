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

/** Types of elements: unsigned, signed and floating-point, by their bits. */
typedef enum {
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

/** A built-in operator with its type, for functions whose elements have no type. */
#define PGAS_OP(op, type) (PGAS_CAST(pgas_op_t, op) | PGAS_CAST(pgas_op_t, type))

PGAS_END_DECLS
#endif
