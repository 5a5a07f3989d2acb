/** The inline part of pgas/atomic.h: the compiler's builtins within the node. The _far functions
 *  carry out everything else, including errors, with the same results. */
#ifndef PGAS_DETAIL_ATOMIC_H
#define PGAS_DETAIL_ATOMIC_H

#include "pgas/atomic.h"

PGAS_BEGIN_DECLS

/* Values are passed as bits. old_p NULL: nothing is fetched. The arguments are in the registers in
 * which the inline functions have theirs. */
PGAS_API pgas_status_t pgas_fetch_op_far(pgas_gptr_t ptr, uint64_t value, void *old_p, pgas_op_t op,
                                         pgas_type_t type);
PGAS_API pgas_status_t pgas_compare_swap_far(pgas_gptr_t ptr, uint64_t expected, uint64_t desired,
                                             void *old_p, pgas_type_t type);

/* Whether an operator is known when the call is compiled, and has a builtin for the type. */
#if defined(__GNUC__)
#define PGAS_IS_CONSTANT(op) __builtin_constant_p(op)
#else
#define PGAS_IS_CONSTANT(op) 0
#endif
#define PGAS_BUILTIN_INTEGER(op)                                                         \
    (PGAS_IS_CONSTANT(op) && ((op) == PGAS_ADD || (op) == PGAS_AND || (op) == PGAS_OR || \
                              (op) == PGAS_XOR || (op) == PGAS_SWAP))
#define PGAS_BUILTIN_FLOAT(op) (PGAS_IS_CONSTANT(op) && (op) == PGAS_SWAP)

#define PGAS_APPLY_INTEGER(old)                                     \
    if (op == PGAS_ADD)                                             \
        *(old) = __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST); \
    else if (op == PGAS_AND)                                        \
        *(old) = __atomic_fetch_and(word, value, __ATOMIC_SEQ_CST); \
    else if (op == PGAS_OR)                                         \
        *(old) = __atomic_fetch_or(word, value, __ATOMIC_SEQ_CST);  \
    else if (op == PGAS_XOR)                                        \
        *(old) = __atomic_fetch_xor(word, value, __ATOMIC_SEQ_CST); \
    else                                                            \
        __atomic_exchange(word, &value, old, __ATOMIC_SEQ_CST)
#define PGAS_APPLY_FLOAT(old) __atomic_exchange(word, &value, old, __ATOMIC_SEQ_CST)

#define PGAS_ATOMIC_INLINE(tag, type, number, bits_of, kind)                                       \
    PGAS_INLINE pgas_status_t pgas_fetch_op_##tag(pgas_gptr_t ptr, pgas_op_t op, type value,       \
                                                  type *old_p)                                     \
    {                                                                                              \
        if (!PGAS_BUILTIN_##kind(op) ||                                                            \
            PGAS_UNLIKELY(!pgas_heap_has_word(ptr, sizeof(value)) || !old_p))                      \
            return pgas_fetch_op_far(ptr, bits_of(value), old_p, op, number);                      \
        type *word = (type *)pgas_heap_address(ptr);                                               \
        PGAS_APPLY_##kind(old_p);                                                                  \
        return PGAS_OK;                                                                            \
    }                                                                                              \
    PGAS_INLINE pgas_status_t pgas_update_##tag(pgas_gptr_t ptr, pgas_op_t op, type value)         \
    {                                                                                              \
        if (!PGAS_BUILTIN_##kind(op) || PGAS_UNLIKELY(!pgas_heap_has_word(ptr, sizeof(value))))    \
            return pgas_fetch_op_far(ptr, bits_of(value), NULL, op, number);                       \
        type old, *word = (type *)pgas_heap_address(ptr);                                          \
        PGAS_APPLY_##kind(&old);                                                                   \
        (void)old;                                                                                 \
        return PGAS_OK;                                                                            \
    }                                                                                              \
    static inline pgas_status_t pgas_compare_swap_##tag(pgas_gptr_t ptr, type expected,            \
                                                        type desired, type *old_p)                 \
    {                                                                                              \
        if (PGAS_UNLIKELY(!pgas_heap_has_word(ptr, sizeof(desired)) || !old_p))                    \
            return pgas_compare_swap_far(ptr, bits_of(expected), bits_of(desired), old_p, number); \
        (void)__atomic_compare_exchange((type *)pgas_heap_address(ptr), &expected, &desired, 0,    \
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                       \
        *old_p = expected;                                                                         \
        return PGAS_OK;                                                                            \
    }
PGAS_ATOMIC_INLINE(u32, uint32_t, PGAS_U32, (uint64_t), INTEGER)
PGAS_ATOMIC_INLINE(u64, uint64_t, PGAS_U64, (uint64_t), INTEGER)
PGAS_ATOMIC_INLINE(i32, int32_t, PGAS_I32, (uint64_t), INTEGER)
PGAS_ATOMIC_INLINE(i64, int64_t, PGAS_I64, (uint64_t), INTEGER)
PGAS_ATOMIC_INLINE(f32, float, PGAS_F32, pgas_bits_of_f32, FLOAT)
PGAS_ATOMIC_INLINE(f64, double, PGAS_F64, pgas_bits_of_f64, FLOAT)
#undef PGAS_ATOMIC_INLINE
#undef PGAS_APPLY_INTEGER
#undef PGAS_APPLY_FLOAT

#ifdef PGAS_BY_TYPE
#define PGAS_BY_WORD(x, name)      \
    _Generic((x), int32_t          \
             : name##i32, uint32_t \
             : name##u32, int64_t  \
             : name##i64, uint64_t \
             : name##u64, float    \
             : name##f32, double   \
             : name##f64)
#define pgas_fetch_op(ptr, op, x, old_p) PGAS_BY_WORD(*(old_p), pgas_fetch_op_)(ptr, op, x, old_p)
#define pgas_update(ptr, op, x)          PGAS_BY_WORD(x, pgas_update_)(ptr, op, x)
#define pgas_compare_swap(ptr, expected, desired, old_p) \
    PGAS_BY_WORD(*(old_p), pgas_compare_swap_)(ptr, expected, desired, old_p)
#endif

PGAS_END_DECLS
#endif
