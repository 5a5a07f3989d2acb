/* Combining: one loop for each type and operation, generated from two lists, and the neutral
 * elements.
 *
 * Signed sums and products are computed in the unsigned type of the same width: overflow wraps and
 * is defined. dst and src never overlap, and the inner loop has a fixed length, so that compilers
 * vectorise it at -O2. */
#include "boot/internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define BLOCK 16 /* elements */

#define LOOP(name, type, expression)                                         \
    static void name(void *dst_bytes, const void *src_bytes, size_t n_elems) \
    {                                                                        \
        type *restrict dst = dst_bytes;                                      \
        const type *restrict src = src_bytes;                                \
        size_t i = 0;                                                        \
        for (; i + BLOCK <= n_elems; i += BLOCK) {                           \
            for (size_t j = i; j < i + BLOCK; j++) {                         \
                type a = dst[j], b = src[j];                                 \
                dst[j] = (expression);                                       \
            }                                                                \
        }                                                                    \
        for (; i < n_elems; i++) {                                           \
            type a = dst[i], b = src[i];                                     \
            dst[i] = (expression);                                           \
        }                                                                    \
    }

#define ARITHMETIC(suffix, type, wrapping)                       \
    LOOP(sum_##suffix, type, (type)((wrapping)a + (wrapping)b))  \
    LOOP(prod_##suffix, type, (type)((wrapping)a * (wrapping)b)) \
    LOOP(min_##suffix, type, b < a ? b : a)                      \
    LOOP(max_##suffix, type, a < b ? b : a)

#define BITWISE(suffix, type)      \
    LOOP(and_##suffix, type, a &b) \
    LOOP(or_##suffix, type, a | b) \
    LOOP(xor_##suffix, type, a ^ b)

ARITHMETIC(i32, int32_t, uint32_t)
ARITHMETIC(u32, uint32_t, uint32_t)
ARITHMETIC(i64, int64_t, uint64_t)
ARITHMETIC(u64, uint64_t, uint64_t)
ARITHMETIC(float, float, float)
ARITHMETIC(double, double, double)
BITWISE(u32, uint32_t)
BITWISE(u64, uint64_t)

#define N_TYPES (PGAS_DOUBLE + 1)
#define N_OPS   (PGAS_XOR + 1)

#define ROW(suffix, bits)                                                                          \
    {                                                                                              \
        sum_##suffix, prod_##suffix, min_##suffix, max_##suffix, and_##bits, or_##bits, xor_##bits \
    }
#define FLOAT_ROW(suffix)                                                         \
    {                                                                             \
        sum_##suffix, prod_##suffix, min_##suffix, max_##suffix, NULL, NULL, NULL \
    }

static const pgasi_combine_fn_t combine[N_TYPES][N_OPS] = {
    [PGAS_INT32] = ROW(i32, u32),    [PGAS_UINT32] = ROW(u32, u32),
    [PGAS_INT64] = ROW(i64, u64),    [PGAS_UINT64] = ROW(u64, u64),
    [PGAS_FLOAT] = FLOAT_ROW(float), [PGAS_DOUBLE] = FLOAT_ROW(double),
};

pgasi_combine_fn_t pgasi_combine_of(pgas_type_t type, pgas_op_t op)
{
    return (unsigned)type < N_TYPES && (unsigned)op < N_OPS ? combine[type][op] : NULL;
}

size_t pgasi_type_bytes(pgas_type_t type)
{
    static const size_t bytes[N_TYPES] = { 4, 4, 8, 8, 4, 8 };
    return (unsigned)type < N_TYPES ? bytes[type] : 0;
}

typedef union {
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    float f;
    double d;
} element_t;

/* Returns the least (low) or greatest value of a type. Floating-point types have infinities. */
static element_t extreme(pgas_type_t type, bool low)
{
    element_t e = { .u64 = 0 };
    switch (type) {
    case PGAS_INT32:
        e.i32 = low ? INT32_MIN : INT32_MAX;
        break;
    case PGAS_UINT32:
        e.u32 = low ? 0 : UINT32_MAX;
        break;
    case PGAS_INT64:
        e.i64 = low ? INT64_MIN : INT64_MAX;
        break;
    case PGAS_UINT64:
        e.u64 = low ? 0 : UINT64_MAX;
        break;
    case PGAS_FLOAT:
        e.f = low ? -INFINITY : INFINITY;
        break;
    case PGAS_DOUBLE:
        e.d = low ? (double)-INFINITY : (double)INFINITY;
        break;
    }
    return e;
}

static element_t one(pgas_type_t type)
{
    element_t e = { .u64 = 0 };
    if (type == PGAS_FLOAT)
        e.f = 1;
    else if (type == PGAS_DOUBLE)
        e.d = 1;
    else if (pgasi_type_bytes(type) == sizeof(uint32_t))
        e.u32 = 1;
    else
        e.u64 = 1;
    return e;
}

static element_t neutral(pgas_type_t type, pgas_op_t op)
{
    switch (op) {
    case PGAS_PROD:
        return one(type);
    case PGAS_MIN:
        return extreme(type, false);
    case PGAS_MAX:
        return extreme(type, true);
    case PGAS_AND:
        return (element_t){ .u64 = UINT64_MAX };
    case PGAS_SUM:
    case PGAS_OR:
    case PGAS_XOR:
        break;
    }
    return (element_t){ .u64 = 0 };
}

void pgasi_fill_neutral(void *dst, size_t n_elems, pgas_type_t type, pgas_op_t op)
{
    element_t e = neutral(type, op);
    size_t bytes = pgasi_type_bytes(type);
    for (size_t i = 0; i < n_elems; i++)
        memcpy((char *)dst + i * bytes, &e, bytes);
}
