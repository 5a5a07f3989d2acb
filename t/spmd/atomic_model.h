/* Atomic operations of every operator and type: their results on a plain word, and calls of the
 * typed functions. Words, operands and results are bits. */
#ifndef T_SPMD_ATOMIC_MODEL_H
#define T_SPMD_ATOMIC_MODEL_H

#include <math.h>
#include <string.h>
#include "pgas/atomic.h"

#define MODEL_COMPARE_SWAP ((pgas_op_t)0xF000)

static const pgas_type_t atomic_types[] = { PGAS_U32, PGAS_U64, PGAS_I32,
                                            PGAS_I64, PGAS_F32, PGAS_F64 };
static const pgas_op_t atomic_ops[] = { PGAS_ADD, PGAS_MIN, PGAS_MAX,  PGAS_AND,
                                        PGAS_OR,  PGAS_XOR, PGAS_SWAP, MODEL_COMPARE_SWAP };
#define N_ATOMIC_TYPES 6
#define N_ATOMIC_OPS   8

static size_t atomic_bytes(pgas_type_t type)
{
    return type == PGAS_U32 || type == PGAS_I32 || type == PGAS_F32 ? 4 : 8;
}

static double number_of(pgas_type_t type, uint64_t bits)
{
    float f;
    double d;
    memcpy(&f, &bits, sizeof f);
    memcpy(&d, &bits, sizeof d);
    return type == PGAS_F32 ? (double)f : d;
}

static uint64_t bits_of(pgas_type_t type, double number)
{
    uint64_t bits = 0;
    float f = (float)number;
    if (type == PGAS_F32)
        memcpy(&bits, &f, sizeof f);
    else
        memcpy(&bits, &number, sizeof number);
    return bits;
}

/* Chooses an operator that the type has. Sums of floating-point numbers whose bits the standard
 * does not define are avoided. */
static pgas_op_t atomic_pick(pgas_type_t type, unsigned index, uint64_t was, uint64_t *operand_io)
{
    pgas_op_t op = atomic_ops[index];
    if (type != PGAS_F32 && type != PGAS_F64)
        return op;
    if (op == PGAS_AND || op == PGAS_OR || op == PGAS_XOR)
        return PGAS_SWAP;
    if (op == PGAS_ADD) {
        *operand_io = bits_of(type, (double)(int64_t)(*operand_io % 8192) / 8 - 500);
        return isfinite(number_of(type, was)) ? op : PGAS_SWAP;
    }
    return op;
}

/* Whether the operand is less than the word; with a NaN neither is less. */
static bool is_less(pgas_type_t type, uint64_t a, uint64_t b)
{
    switch (type) {
    case PGAS_U32:
        return (uint32_t)a < (uint32_t)b;
    case PGAS_U64:
        return a < b;
    case PGAS_I32:
        return (int32_t)(uint32_t)a < (int32_t)(uint32_t)b;
    case PGAS_I64:
        return (int64_t)a < (int64_t)b;
    default:
        return number_of(type, a) < number_of(type, b);
    }
}

static uint64_t sum_of(pgas_type_t type, uint64_t a, uint64_t b)
{
    float x, y;
    if (type == PGAS_F64)
        return bits_of(type, number_of(type, a) + number_of(type, b));
    if (type != PGAS_F32)
        return a + b;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    x += y;
    a = 0;
    memcpy(&a, &x, sizeof x);
    return a;
}

/* The word after the operation. */
static uint64_t atomic_result(pgas_op_t op, pgas_type_t type, uint64_t word, uint64_t operand,
                              uint64_t compare)
{
    uint64_t mask = atomic_bytes(type) == 4 ? UINT32_MAX : UINT64_MAX;
    word &= mask;
    switch (op) {
    case PGAS_ADD:
        return sum_of(type, word, operand) & mask;
    case PGAS_MIN:
        return (is_less(type, operand, word) ? operand : word) & mask;
    case PGAS_MAX:
        return (is_less(type, word, operand) ? operand : word) & mask;
    case PGAS_AND:
        return word & operand & mask;
    case PGAS_OR:
        return (word | operand) & mask;
    case PGAS_XOR:
        return (word ^ operand) & mask;
    case PGAS_SWAP:
        return operand & mask;
    default:
        return word == (compare & mask) ? operand & mask : word;
    }
}

/* Each operator is a constant once, as in programs. */
#define ATOMIC_CASE(tag, OP)                                                                       \
    case OP:                                                                                       \
        status =                                                                                   \
            old_p ? pgas_fetch_op_##tag(ptr, OP, value, &old) : pgas_update_##tag(ptr, OP, value); \
        break;
#define ATOMIC_TYPED(tag, type)                                                        \
    static pgas_status_t atomic_##tag(pgas_gptr_t ptr, pgas_op_t op, uint64_t operand, \
                                      uint64_t compare, uint64_t *old_p)               \
    {                                                                                  \
        type value, expected, old = 0;                                                 \
        pgas_status_t status;                                                          \
        memcpy(&value, &operand, sizeof value);                                        \
        memcpy(&expected, &compare, sizeof value);                                     \
        switch (op) {                                                                  \
            ATOMIC_CASE(tag, PGAS_ADD)                                                 \
            ATOMIC_CASE(tag, PGAS_MIN)                                                 \
            ATOMIC_CASE(tag, PGAS_MAX)                                                 \
            ATOMIC_CASE(tag, PGAS_AND)                                                 \
            ATOMIC_CASE(tag, PGAS_OR)                                                  \
            ATOMIC_CASE(tag, PGAS_XOR)                                                 \
            ATOMIC_CASE(tag, PGAS_SWAP)                                                \
        default:                                                                       \
            status = pgas_compare_swap_##tag(ptr, expected, value, &old);              \
        }                                                                              \
        if (old_p)                                                                     \
            memcpy(old_p, &old, sizeof old);                                           \
        return status;                                                                 \
    }
ATOMIC_TYPED(u32, uint32_t)
ATOMIC_TYPED(u64, uint64_t)
ATOMIC_TYPED(i32, int32_t)
ATOMIC_TYPED(i64, int64_t)
ATOMIC_TYPED(f32, float)
ATOMIC_TYPED(f64, double)
#undef ATOMIC_CASE
#undef ATOMIC_TYPED

/* old_p NULL: nothing is fetched, except by a compare-and-swap. */
static pgas_status_t atomic_typed(pgas_gptr_t ptr, pgas_op_t op, pgas_type_t type, uint64_t operand,
                                  uint64_t compare, uint64_t *old_p)
{
    switch (type) {
    case PGAS_U32:
        return atomic_u32(ptr, op, operand, compare, old_p);
    case PGAS_U64:
        return atomic_u64(ptr, op, operand, compare, old_p);
    case PGAS_I32:
        return atomic_i32(ptr, op, operand, compare, old_p);
    case PGAS_I64:
        return atomic_i64(ptr, op, operand, compare, old_p);
    case PGAS_F32:
        return atomic_f32(ptr, op, operand, compare, old_p);
    default:
        return atomic_f64(ptr, op, operand, compare, old_p);
    }
}

#endif
