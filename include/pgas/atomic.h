/** Atomics on aligned 32- and 64-bit words behind global pointers.
 *
 *  They are CPU atomics: on the node the builtin itself, elsewhere carried out by a CPU of the
 *  target's host, so that they are atomic to the owner's own C11 atomics on the word. Sequentially
 *  consistent on the node; elsewhere ordered by pgas_fence and by their completion. Fetching forms
 *  return when *old_p is set; the others at local completion (pgas_flush for remote). Errors as in
 *  rma.h; PGAS_ERR_INVALID also for a misaligned word. */
#ifndef PGAS_ATOMIC_H
#define PGAS_ATOMIC_H

#include <stdint.h>
#include "pgas/gptr.h"
#include "pgas/rma.h"

PGAS_BEGIN_DECLS

typedef enum {
    PGAS_AMO_ADD,
    PGAS_AMO_AND,
    PGAS_AMO_OR,
    PGAS_AMO_XOR,
    PGAS_AMO_SWAP,
    PGAS_AMO_CSWAP
} pgas_amo_t;

/** The general form. old_p NULL: not fetching (not for SWAP and CSWAP: PGAS_ERR_INVALID). CSWAP
 *  stores operand if the word equals compare; compare is ignored otherwise. */
PGAS_API pgas_status_t pgas_amo_u32(pgas_gptr_t word, pgas_amo_t op, uint32_t operand,
                                    uint32_t compare, uint32_t *old_p);
PGAS_API pgas_status_t pgas_amo_u64(pgas_gptr_t word, pgas_amo_t op, uint64_t operand,
                                    uint64_t compare, uint64_t *old_p);
/** Non-blocking: *old_p (if not NULL) is set at local completion. */
PGAS_API pgas_status_t pgas_amo_u32_nb(pgas_gptr_t word, pgas_amo_t op, uint32_t operand,
                                       uint32_t compare, uint32_t *old_p, pgas_req_t *req_p);
PGAS_API pgas_status_t pgas_amo_u64_nb(pgas_gptr_t word, pgas_amo_t op, uint64_t operand,
                                       uint64_t compare, uint64_t *old_p, pgas_req_t *req_p);

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

/** pgas_fetch_add_u64(ptr, value, &old), fetch_and, fetch_or, fetch_xor, swap;
 *  pgas_atomic_add_u64(ptr, value), and, or, xor; pgas_compare_swap_u64(ptr, compare, value, &old)
 *  has swapped if old == compare. The same with u32. NULL for old: as in the general form. */
PGAS_AMO_TYPED(32)
PGAS_AMO_TYPED(64)

PGAS_END_DECLS
#endif
