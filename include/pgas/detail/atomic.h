/** The inline part of pgas/atomic.h: the compiler's builtins within the node, pgas_amo_u32 and
 *  pgas_amo_u64 for everything else. */
#ifndef PGAS_DETAIL_ATOMIC_H
#define PGAS_DETAIL_ATOMIC_H

#include "pgas/atomic.h"

PGAS_BEGIN_DECLS

#define PGAS_AMO_FETCH_INLINE(BITS, name, NAME, builtin)                                     \
    static inline pgas_status_t pgas_##name##_u##BITS(pgas_gptr_t ptr, uint##BITS##_t value, \
                                                      uint##BITS##_t *old_p)                 \
    {                                                                                        \
        uint##BITS##_t *word = (uint##BITS##_t *)pgas_gptr_local(ptr, sizeof(value));        \
        if (PGAS_UNLIKELY(!word || !old_p || ptr % sizeof(value)))                           \
            return pgas_amo_u##BITS(ptr, NAME, value, 0, old_p);                             \
        *old_p = builtin(word, value, __ATOMIC_SEQ_CST);                                     \
        return PGAS_OK;                                                                      \
    }
#define PGAS_AMO_INLINE(BITS, name, NAME, builtin)                                           \
    static inline pgas_status_t pgas_##name##_u##BITS(pgas_gptr_t ptr, uint##BITS##_t value) \
    {                                                                                        \
        uint##BITS##_t *word = (uint##BITS##_t *)pgas_gptr_local(ptr, sizeof(value));        \
        if (PGAS_UNLIKELY(!word || ptr % sizeof(value)))                                     \
            return pgas_amo_u##BITS(ptr, NAME, value, 0, NULL);                              \
        (void)builtin(word, value, __ATOMIC_SEQ_CST);                                        \
        return PGAS_OK;                                                                      \
    }
#define PGAS_CSWAP_INLINE(BITS)                                                                    \
    static inline pgas_status_t pgas_compare_swap_u##BITS(pgas_gptr_t ptr, uint##BITS##_t compare, \
                                                          uint##BITS##_t value,                    \
                                                          uint##BITS##_t *old_p)                   \
    {                                                                                              \
        uint##BITS##_t *word = (uint##BITS##_t *)pgas_gptr_local(ptr, sizeof(value));              \
        if (PGAS_UNLIKELY(!word || !old_p || ptr % sizeof(value)))                                 \
            return pgas_amo_u##BITS(ptr, PGAS_AMO_CSWAP, value, compare, old_p);                   \
        (void)__atomic_compare_exchange_n(word, &compare, value, 0, __ATOMIC_SEQ_CST,              \
                                          __ATOMIC_SEQ_CST);                                       \
        *old_p = compare;                                                                          \
        return PGAS_OK;                                                                            \
    }
#define PGAS_AMO_TYPED(BITS)                                                 \
    PGAS_AMO_FETCH_INLINE(BITS, fetch_add, PGAS_AMO_ADD, __atomic_fetch_add) \
    PGAS_AMO_FETCH_INLINE(BITS, fetch_and, PGAS_AMO_AND, __atomic_fetch_and) \
    PGAS_AMO_FETCH_INLINE(BITS, fetch_or, PGAS_AMO_OR, __atomic_fetch_or)    \
    PGAS_AMO_FETCH_INLINE(BITS, fetch_xor, PGAS_AMO_XOR, __atomic_fetch_xor) \
    PGAS_AMO_FETCH_INLINE(BITS, swap, PGAS_AMO_SWAP, __atomic_exchange_n)    \
    PGAS_AMO_INLINE(BITS, atomic_add, PGAS_AMO_ADD, __atomic_fetch_add)      \
    PGAS_AMO_INLINE(BITS, atomic_and, PGAS_AMO_AND, __atomic_fetch_and)      \
    PGAS_AMO_INLINE(BITS, atomic_or, PGAS_AMO_OR, __atomic_fetch_or)         \
    PGAS_AMO_INLINE(BITS, atomic_xor, PGAS_AMO_XOR, __atomic_fetch_xor)      \
    PGAS_CSWAP_INLINE(BITS)
PGAS_AMO_TYPED(32)
PGAS_AMO_TYPED(64)

PGAS_END_DECLS
#endif
