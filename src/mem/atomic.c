/* Atomic operations: which there are, and how this CPU carries them out.
 *
 * Minimum, maximum and additions of floating-point numbers are loops of compare-and-swaps. A
 * minimum or maximum that changes nothing writes nothing. */
#include "mem/atomic.h"

#include <string.h>

#include "base/checks.h"

static bool is_float(pgas_type_t type)
{
    return type == PGAS_F32 || type == PGAS_F64;
}

pgas_status_t pgasi_atomic_check(pgas_op_t op, pgas_type_t type)
{
    switch (type) {
    case PGAS_U32:
    case PGAS_U64:
    case PGAS_I32:
    case PGAS_I64:
    case PGAS_F32:
    case PGAS_F64:
        break;
    case PGAS_U8:
    case PGAS_U16:
    case PGAS_I8:
    case PGAS_I16:
        return PGAS_ERR_UNSUPPORTED;
    default:
        return PGAS_ERR_INVALID;
    }
    switch (op) {
    case PGAS_ADD:
    case PGAS_MIN:
    case PGAS_MAX:
    case PGAS_SWAP:
    case PGASI_COMPARE_SWAP:
        return PGAS_OK;
    case PGAS_AND:
    case PGAS_OR:
    case PGAS_XOR:
        return is_float(type) ? PGAS_ERR_UNSUPPORTED : PGAS_OK;
    case PGAS_PROD:
        return PGAS_ERR_UNSUPPORTED;
    default: /* operators of the program have higher numbers */
        return op > 0xFF ? PGAS_ERR_UNSUPPORTED : PGAS_ERR_INVALID;
    }
}

bool pgasi_atomic_amo(pgas_op_t op, pgas_type_t type, pgasi_amo_t *amo_p)
{
    switch (op) {
    case PGAS_ADD:
        *amo_p = PGASI_AMO_ADD;
        return !is_float(type);
    case PGAS_AND:
        *amo_p = PGASI_AMO_AND;
        return true;
    case PGAS_OR:
        *amo_p = PGASI_AMO_OR;
        return true;
    case PGAS_XOR:
        *amo_p = PGASI_AMO_XOR;
        return true;
    case PGAS_SWAP:
        *amo_p = PGASI_AMO_SWAP;
        return true;
    case PGASI_COMPARE_SWAP:
        *amo_p = PGASI_AMO_CSWAP;
        return true;
    default:
        return false;
    }
}

/* Comparisons with a NaN are false, so a NaN is neither stored nor replaced. */
#define LOOP(tag, type, bits, sum)                                                       \
    static uint64_t loop_##tag(uint##bits##_t *word, pgas_op_t op, uint64_t operand)     \
    {                                                                                    \
        uint##bits##_t old = __atomic_load_n(word, __ATOMIC_SEQ_CST), given, next;       \
        given = (uint##bits##_t)operand;                                                 \
        type value, is;                                                                  \
        memcpy(&value, &given, sizeof value);                                            \
        do {                                                                             \
            memcpy(&is, &old, sizeof is);                                                \
            if ((op == PGAS_MIN && !(value < is)) || (op == PGAS_MAX && !(is < value)))  \
                break;                                                                   \
            type result = op == PGAS_ADD ? (type)(sum) : value;                          \
            memcpy(&next, &result, sizeof next);                                         \
        } while (!__atomic_compare_exchange_n(word, &old, next, false, __ATOMIC_SEQ_CST, \
                                              __ATOMIC_SEQ_CST));                        \
        return old;                                                                      \
    }
LOOP(u32, uint32_t, 32, is + value)
LOOP(u64, uint64_t, 64, is + value)
LOOP(i32, int32_t, 32, (uint32_t)is + (uint32_t)value)
LOOP(i64, int64_t, 64, (uint64_t)is + (uint64_t)value)
LOOP(f32, float, 32, is + value)
LOOP(f64, double, 64, is + value)

uint64_t pgasi_atomic_apply(void *word, pgas_op_t op, pgas_type_t type, uint64_t operand,
                            uint64_t compare)
{
    pgasi_amo_t amo;
    if (PGAS_LIKELY(pgasi_atomic_amo(op, type, &amo)))
        return pgasi_amo_apply(word, amo, pgasi_atomic_bytes(type), operand, compare);
    switch (type) {
    case PGAS_U32:
        return loop_u32(word, op, operand);
    case PGAS_I32:
        return loop_i32(word, op, operand);
    case PGAS_I64:
        return loop_i64(word, op, operand);
    case PGAS_F32:
        return loop_f32(word, op, operand);
    case PGAS_F64:
        return loop_f64(word, op, operand);
    default:
        return loop_u64(word, op, operand);
    }
}
