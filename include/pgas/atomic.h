/** Atomic operations on aligned words of 32 and 64 bits behind global pointers.
 *
 *      uint64_t old;
 *      pgas_fetch_op_u64(counter, PGAS_ADD, 1, &old);    returns when old is set
 *      pgas_update_u64(counter, PGAS_ADD, 1);            fetches nothing
 *      pgas_compare_swap_u64(word, 0, mine, &old);       has swapped if old is 0
 *      pgas_update_f64(sum, PGAS_ADD, 0.5);
 *
 *  Operators are PGAS_ADD, PGAS_MIN, PGAS_MAX and PGAS_SWAP for all tags (u32, u64, i32, i64, f32,
 *  f64), and PGAS_AND, PGAS_OR and PGAS_XOR for integers. Integers wrap around. PGAS_MIN and
 *  PGAS_MAX never store a NaN, and never replace one.
 *
 *  CPUs carry the operations out, so they are atomic with the owner's own atomics on the same word
 *  (C11, __atomic). On the node it is the calling CPU. There a constant PGAS_ADD, PGAS_AND, PGAS_OR
 *  or PGAS_XOR of integers, PGAS_SWAP and compare-and-swap are the compiler's builtins, inline.
 *  Between nodes the transport carries these out. All others are a loop of compare-and-swaps, and
 *  between nodes a call to the owner that waits for the answer.
 *
 *  On the node operations are sequentially consistent. Elsewhere completion and pgas_fence order
 *  them. pgas_update returns at local completion; pgas_flush waits for remote completion.
 *
 *  Statuses: see the head of pgas/rma.h, and
 *      PGAS_ERR_UNSUPPORTED  atomics do not offer the operator or the type
 *      PGAS_ERR_INVALID      also: misaligned word, unknown operator or type, or old_p is NULL in a
 *                            compare-and-swap */
#ifndef PGAS_ATOMIC_H
#define PGAS_ATOMIC_H

#include <stdint.h>
#include "pgas/gptr.h"
#include "pgas/op.h"
#include "pgas/rma.h"

PGAS_BEGIN_DECLS

/** fetch_op applies op to the word and stores the value before at old_p. With old_p NULL it is
 *  update, which applies op and fetches nothing. compare_swap stores desired if the word has the
 *  bits of expected; *old_p is the value before. C11 has pgas_fetch_op, pgas_update and
 *  pgas_compare_swap with the same arguments. The type of *old_p chooses the tag, in pgas_update
 *  the type of x. */
#define PGAS_ATOMIC_FUNCTIONS(tag, type)                                                     \
    PGAS_INLINE pgas_status_t pgas_fetch_op_##tag(pgas_gptr_t ptr, pgas_op_t op, type value, \
                                                  type *old_p);                              \
    PGAS_INLINE pgas_status_t pgas_update_##tag(pgas_gptr_t ptr, pgas_op_t op, type value);  \
    static inline pgas_status_t pgas_compare_swap_##tag(pgas_gptr_t ptr, type expected,      \
                                                        type desired, type *old_p);
PGAS_ATOMIC_FUNCTIONS(u32, uint32_t)
PGAS_ATOMIC_FUNCTIONS(u64, uint64_t)
PGAS_ATOMIC_FUNCTIONS(i32, int32_t)
PGAS_ATOMIC_FUNCTIONS(i64, int64_t)
PGAS_ATOMIC_FUNCTIONS(f32, float)
PGAS_ATOMIC_FUNCTIONS(f64, double)

/** Start an operation. Values are copied. The operation is complete when *old_p is set, or, if
 *  old_p is NULL, when the owner sees the new value. Until then *old_p may change. sync is as in
 *  pgas_put_nb. Operations that are a call to the owner are complete on return. op
 *  is PGAS_OP(operator, type), for example PGAS_OP(PGAS_ADD, PGAS_F64). */
PGAS_API pgas_status_t pgas_fetch_op_nb(pgas_gptr_t ptr, pgas_op_t op, const void *value,
                                        void *old_p, pgas_sync_t *sync);
PGAS_API pgas_status_t pgas_compare_swap_nb(pgas_gptr_t ptr, pgas_type_t type, const void *expected,
                                            const void *desired, void *old_p, pgas_sync_t *sync);

PGAS_END_DECLS

#include "pgas/detail/atomic.h"
#endif
