/* Loops over blocks of addresses: see kernels.h. The loops are plain, so that the processor works
 * at several elements at a time. */
#include "many/kernels.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- loads and stores ---- */

#define LOAD_STORE(BITS)                                                                         \
    static void load_u##BITS(uint##BITS##_t *dst, void *const *at, size_t n)                     \
    {                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                         \
            uint##BITS##_t x = __atomic_load_n((const uint##BITS##_t *)at[i], __ATOMIC_RELAXED); \
            memcpy(&dst[i], &x, sizeof x);                                                       \
        }                                                                                        \
    }                                                                                            \
    static void store_u##BITS(void *const *at, const uint##BITS##_t *src, size_t n)              \
    {                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                         \
            uint##BITS##_t x;                                                                    \
            memcpy(&x, &src[i], sizeof x);                                                       \
            __atomic_store_n((uint##BITS##_t *)at[i], x, __ATOMIC_RELAXED);                      \
        }                                                                                        \
    }
LOAD_STORE(8)
LOAD_STORE(16)
LOAD_STORE(32)
LOAD_STORE(64)

/* Whether all addresses are multiples of bytes, a power of two. */
static bool are_aligned(void *const *at, size_t bytes, size_t n)
{
    uintptr_t bits = 0;
    for (size_t i = 0; i < n; i++)
        bits |= (uintptr_t)at[i];
    return bits % bytes == 0;
}

void pgasi_many_load(void *dst, void *const *at, size_t bytes, size_t n)
{
    if (bytes == 8 && are_aligned(at, 8, n))
        load_u64(dst, at, n);
    else if (bytes == 4 && are_aligned(at, 4, n))
        load_u32(dst, at, n);
    else if (bytes == 2 && are_aligned(at, 2, n))
        load_u16(dst, at, n);
    else if (bytes == 1)
        load_u8(dst, at, n);
    else
        for (size_t i = 0; i < n; i++)
            memcpy((char *)dst + i * bytes, at[i], bytes);
}

void pgasi_many_store(void *const *at, const void *src, size_t bytes, size_t n)
{
    if (bytes == 8 && are_aligned(at, 8, n))
        store_u64(at, src, n);
    else if (bytes == 4 && are_aligned(at, 4, n))
        store_u32(at, src, n);
    else if (bytes == 2 && are_aligned(at, 2, n))
        store_u16(at, src, n);
    else if (bytes == 1)
        store_u8(at, src, n);
    else
        for (size_t i = 0; i < n; i++)
            memcpy(at[i], (const char *)src + i * bytes, bytes);
}

/* ---- updates ----
 *
 * The owner carries updates out one message at a time, so plain loads and stores suffice. They are
 * relaxed atomics, because other threads may read the words meanwhile. A locked instruction would
 * take 3 ns, longer than everything else that an update needs. Lines are requested AHEAD elements
 * before they are used. */

#define AHEAD 32

static inline void *word_at(char *base, uint32_t index, unsigned shift)
{
    return base + ((uint64_t)index << shift);
}

/* Defines update_NAME_TAG, and a function that runs it for each element. next: the new value, by
 * `last` and `value`. */
#define APPLY(name, T, type, word_type, next)                                                     \
    static inline void update_##name##_##T(word_type *word, const char *from)                     \
    {                                                                                             \
        word_type bits = __atomic_load_n(word, __ATOMIC_RELAXED);                                 \
        type value, last, result;                                                                 \
        memcpy(&value, from, sizeof value);                                                       \
        memcpy(&last, &bits, sizeof last);                                                        \
        (void)last;                                                                               \
        result = (type)(next);                                                                    \
        memcpy(&bits, &result, sizeof bits);                                                      \
        __atomic_store_n(word, bits, __ATOMIC_RELAXED);                                           \
    }                                                                                             \
    static void name##_##T(char *base, const uint32_t *index, unsigned shift, const void *values, \
                           size_t n)                                                              \
    {                                                                                             \
        static const type one = 1;                                                                \
        const char *from = values ? values : (const void *)&one;                                  \
        size_t i = 0, step = values ? sizeof one : 0, end = n > AHEAD ? n - AHEAD : 0;            \
        for (; i < AHEAD && i < n; i++)                                                           \
            __builtin_prefetch(word_at(base, index[i], shift), 1);                                \
        for (i = 0; i < end; i++) {                                                               \
            __builtin_prefetch(word_at(base, index[i + AHEAD], shift), 1);                        \
            update_##name##_##T(word_at(base, index[i], shift), from + i * step);                 \
        }                                                                                         \
        for (; i < n; i++)                                                                        \
            update_##name##_##T(word_at(base, index[i], shift), from + i * step);                 \
    }

/* Integers wrap around: sums and products are those of unsigned words of at least 32 bits. */
#define COMPARED(T, type, word_type)                            \
    APPLY(min, T, type, word_type, value < last ? value : last) \
    APPLY(max, T, type, word_type, value > last ? value : last) \
    APPLY(swap, T, type, word_type, value)
#define INTEGER(T, type, word_type)                                                  \
    APPLY(add, T, type, word_type, (word_type)last + 0u + (word_type)value)          \
    APPLY(prod, T, type, word_type, (word_type)last *UINT64_C(1) * (word_type)value) \
    APPLY(and, T, type, word_type, last &value)                                      \
    APPLY(or, T, type, word_type, last | value)                                      \
    APPLY(xor, T, type, word_type, last ^ value)                                     \
    COMPARED(T, type, word_type)
#define FLOAT(T, type, word_type)                \
    APPLY(add, T, type, word_type, last + value) \
    APPLY(prod, T, type, word_type, last *value) \
    COMPARED(T, type, word_type)
INTEGER(u8, uint8_t, uint8_t)
INTEGER(u16, uint16_t, uint16_t)
INTEGER(u32, uint32_t, uint32_t)
INTEGER(u64, uint64_t, uint64_t)
INTEGER(i8, int8_t, uint8_t)
INTEGER(i16, int16_t, uint16_t)
INTEGER(i32, int32_t, uint32_t)
INTEGER(i64, int64_t, uint64_t)
FLOAT(f32, float, uint32_t)
FLOAT(f64, double, uint64_t)

/* Rows of the table below: by ROW(op). */
#define ROW(op) ((op) >> 4)
#define FLOAT_ENTRIES(T)                                                               \
    [ROW(PGAS_ADD)] = add_##T, [ROW(PGAS_PROD)] = prod_##T, [ROW(PGAS_MIN)] = min_##T, \
    [ROW(PGAS_MAX)] = max_##T, [ROW(PGAS_SWAP)] = swap_##T
#define INTEGER_ENTRIES(T) \
    FLOAT_ENTRIES(T), [ROW(PGAS_AND)] = and_##T, [ROW(PGAS_OR)] = or_##T, [ROW(PGAS_XOR)] = xor_##T

static const pgasi_many_apply_fn_t apply[PGAS_F64 + 1][ROW(PGAS_SWAP) + 1] = {
    [PGAS_U8] = { INTEGER_ENTRIES(u8) },   [PGAS_U16] = { INTEGER_ENTRIES(u16) },
    [PGAS_U32] = { INTEGER_ENTRIES(u32) }, [PGAS_U64] = { INTEGER_ENTRIES(u64) },
    [PGAS_I8] = { INTEGER_ENTRIES(i8) },   [PGAS_I16] = { INTEGER_ENTRIES(i16) },
    [PGAS_I32] = { INTEGER_ENTRIES(i32) }, [PGAS_I64] = { INTEGER_ENTRIES(i64) },
    [PGAS_F32] = { FLOAT_ENTRIES(f32) },   [PGAS_F64] = { FLOAT_ENTRIES(f64) },
};

pgasi_many_apply_fn_t pgasi_many_apply_of(pgas_op_t op, pgas_type_t type)
{
    bool known = op <= PGAS_SWAP && op % (1 << 4) == 0 && (unsigned)type <= PGAS_F64;
    return known ? apply[type][ROW(op)] : NULL;
}
