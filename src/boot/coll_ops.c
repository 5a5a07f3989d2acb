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

ARITHMETIC(u8, uint8_t, uint8_t)
ARITHMETIC(u16, uint16_t, uint32_t)
ARITHMETIC(u32, uint32_t, uint32_t)
ARITHMETIC(u64, uint64_t, uint64_t)
ARITHMETIC(i8, int8_t, uint8_t)
ARITHMETIC(i16, int16_t, uint32_t)
ARITHMETIC(i32, int32_t, uint32_t)
ARITHMETIC(i64, int64_t, uint64_t)
ARITHMETIC(f32, float, float)
ARITHMETIC(f64, double, double)
BITWISE(u8, uint8_t)
BITWISE(u16, uint16_t)
BITWISE(u32, uint32_t)
BITWISE(u64, uint64_t)

#define N_TYPES (PGAS_F64 + 1)
#define N_OPS   (PGAS_PROD / PGAS_ADD + 1)

#define ARITHMETIC_OF(suffix)                                                     \
    [PGAS_ADD / PGAS_ADD] = sum_##suffix, [PGAS_PROD / PGAS_ADD] = prod_##suffix, \
                [PGAS_MIN / PGAS_ADD] = min_##suffix, [PGAS_MAX / PGAS_ADD] = max_##suffix
#define ROW(suffix, bits)                                                     \
    {                                                                         \
        ARITHMETIC_OF(suffix), [PGAS_AND / PGAS_ADD] = and_##bits,            \
                                           [PGAS_OR / PGAS_ADD] = or_##bits,  \
                                           [PGAS_XOR / PGAS_ADD] = xor_##bits \
    }
#define FLOAT_ROW(suffix)     \
    {                         \
        ARITHMETIC_OF(suffix) \
    }

static const pgasi_combine_fn_t combine[N_TYPES][N_OPS] = {
    [PGAS_U8] = ROW(u8, u8),     [PGAS_U16] = ROW(u16, u16), [PGAS_U32] = ROW(u32, u32),
    [PGAS_U64] = ROW(u64, u64),  [PGAS_I8] = ROW(i8, u8),    [PGAS_I16] = ROW(i16, u16),
    [PGAS_I32] = ROW(i32, u32),  [PGAS_I64] = ROW(i64, u64), [PGAS_F32] = FLOAT_ROW(f32),
    [PGAS_F64] = FLOAT_ROW(f64),
};

pgasi_combine_fn_t pgasi_combine_of(pgas_type_t type, pgas_op_t op)
{
    bool known = (unsigned)type < N_TYPES && op / PGAS_ADD < N_OPS && op % PGAS_ADD == 0;
    return known ? combine[type][op / PGAS_ADD] : NULL;
}

size_t pgasi_type_bytes(pgas_type_t type)
{
    static const size_t bytes[N_TYPES] = { 0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8 };
    return (unsigned)type < N_TYPES ? bytes[type] : 0;
}

/* Returns the bits of the neutral element. */
static uint64_t neutral(pgas_type_t type, pgas_op_t op)
{
    bool is_signed = type >= PGAS_I8 && type <= PGAS_I64, is_float = type >= PGAS_F32;
    uint64_t all = UINT64_MAX >> (64 - 8 * pgasi_type_bytes(type)),
             most = is_signed ? all / 2 : all;
    double real = op == PGAS_PROD ? 1 : 0;
    float small;
    if (op == PGAS_MIN || op == PGAS_MAX)
        real = op == PGAS_MIN ? (double)INFINITY : -(double)INFINITY;
    small = (float)real;
    uint64_t bits = 0;
    if (is_float)
        memcpy(&bits, type == PGAS_F32 ? (void *)&small : (void *)&real, pgasi_type_bytes(type));
    else if (op == PGAS_PROD)
        bits = 1;
    else if (op == PGAS_MIN)
        bits = most;
    else if (op == PGAS_MAX)
        bits = is_signed ? most + 1 : 0;
    else if (op == PGAS_AND)
        bits = all;
    return bits;
}

void pgasi_fill_neutral(void *dst, size_t n_elems, pgas_type_t type, pgas_op_t op)
{
    uint64_t bits = neutral(type, op);
    size_t bytes = pgasi_type_bytes(type);
    for (size_t i = 0; i < n_elems; i++)
        memcpy((char *)dst + i * bytes, &bits, bytes);
}
