/* Loops over blocks of addresses: see kernels.h. The loops are plain, so that the processor works
 * at several elements at a time. Values are applied by the compiler's builtins, and by a
 * compare-and-swap loop where there is no builtin. */
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
 * A locked instruction takes longer than all others of an element together. So addresses are
 * computed, and lines requested, AHEAD elements in front of it in the same loop. */

#define AHEAD 16

static inline void *word_at(char *base, uint32_t index, unsigned shift)
{
    return base + ((uint64_t)index << shift);
}

/* APPLY defines a function that runs update_NAME_TAG for each element. */
#define APPLY(name, T, type)                                                                      \
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

/* By a builtin. */
#define APPLY_BUILTIN(name, T, type, builtin)                            \
    static inline void update_##name##_##T(type *word, const char *from) \
    {                                                                    \
        type value;                                                      \
        memcpy(&value, from, sizeof value);                              \
        (void)builtin(word, value, __ATOMIC_SEQ_CST);                    \
    }                                                                    \
    APPLY(name, T, type)

/* By a loop that computes `next` from `last` and `value`. */
#define APPLY_LOOP(name, T, type, word_type, next)                                           \
    static inline void update_##name##_##T(word_type *word, const char *from)                \
    {                                                                                        \
        word_type bits = __atomic_load_n(word, __ATOMIC_RELAXED), new_bits;                  \
        type value, last, result;                                                            \
        memcpy(&value, from, sizeof value);                                                  \
        do {                                                                                 \
            memcpy(&last, &bits, sizeof last);                                               \
            result = (next);                                                                 \
            memcpy(&new_bits, &result, sizeof result);                                       \
        } while (!__atomic_compare_exchange_n(word, &bits, new_bits, true, __ATOMIC_SEQ_CST, \
                                              __ATOMIC_RELAXED));                            \
    }                                                                                        \
    APPLY(name, T, type)

#define MIN_MAX(T, type, word_type)                                  \
    APPLY_LOOP(min, T, type, word_type, value < last ? value : last) \
    APPLY_LOOP(max, T, type, word_type, value > last ? value : last)

#define INTEGER(T, type)                              \
    APPLY_BUILTIN(add, T, type, __atomic_fetch_add)   \
    APPLY_BUILTIN(and, T, type, __atomic_fetch_and)   \
    APPLY_BUILTIN(or, T, type, __atomic_fetch_or)     \
    APPLY_BUILTIN(xor, T, type, __atomic_fetch_xor)   \
    APPLY_BUILTIN(swap, T, type, __atomic_exchange_n) \
    MIN_MAX(T, type, type)
#define FLOAT(T, type, word_type)                     \
    APPLY_LOOP(add, T, type, word_type, last + value) \
    APPLY_LOOP(swap, T, type, word_type, value)       \
    MIN_MAX(T, type, word_type)
INTEGER(u32, uint32_t)
INTEGER(u64, uint64_t)
INTEGER(i32, int32_t)
INTEGER(i64, int64_t)
FLOAT(f32, float, uint32_t)
FLOAT(f64, double, uint64_t)

/* Rows of the table below: by ROW. */
#define ROW(op) ((op) >> 4)
#define FLOAT_ENTRIES(T)                                                             \
    [ROW(PGAS_ADD)] = add_##T, [ROW(PGAS_MIN)] = min_##T, [ROW(PGAS_MAX)] = max_##T, \
    [ROW(PGAS_SWAP)] = swap_##T
#define INTEGER_ENTRIES(T) \
    FLOAT_ENTRIES(T), [ROW(PGAS_AND)] = and_##T, [ROW(PGAS_OR)] = or_##T, [ROW(PGAS_XOR)] = xor_##T

static const struct {
    size_t bytes;
    pgasi_many_apply_fn_t apply[ROW(PGAS_SWAP) + 1];
} types[PGAS_F64 + 1] = {
    [PGAS_U32] = { 4, { INTEGER_ENTRIES(u32) } }, [PGAS_U64] = { 8, { INTEGER_ENTRIES(u64) } },
    [PGAS_I32] = { 4, { INTEGER_ENTRIES(i32) } }, [PGAS_I64] = { 8, { INTEGER_ENTRIES(i64) } },
    [PGAS_F32] = { 4, { FLOAT_ENTRIES(f32) } },   [PGAS_F64] = { 8, { FLOAT_ENTRIES(f64) } },
};

pgasi_many_apply_fn_t pgasi_many_apply_of(pgas_op_t op, pgas_type_t type)
{
    bool known = op <= PGAS_SWAP && op % (1 << 4) == 0 && (unsigned)type <= PGAS_F64;
    return known ? types[type].apply[ROW(op)] : NULL;
}

size_t pgasi_many_type_bytes(pgas_type_t type)
{
    return (unsigned)type <= PGAS_F64 ? types[type].bytes : 0;
}
