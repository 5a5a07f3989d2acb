/** Atomic operations on aligned words of 32 and 64 bits behind global pointers.
 *
 *      uint64_t old;
 *      pgas_fetch_add_u64(counter, 1, &old);             returns when old is set
 *      pgas_atomic_add_u64(counter, 1);                  no result is fetched
 *      pgas_compare_swap_u64(word, 0, mine, &old);       has swapped if old is 0
 *
 *  CPUs carry the operations out: on the node by the compiler's builtin, on other nodes a CPU of
 *  the target's host. They are therefore atomic with respect to the owner's C11 atomics on the same
 *  word. On the node they are sequentially consistent. Elsewhere completion and pgas_fence order
 *  them.
 *
 *  Fetching functions return when *old_p is set. The others return at local completion; pgas_flush
 *  waits for remote completion. Shape and statuses: see the head of pgas/rma.h. A misaligned word
 *  gives PGAS_ERR_INVALID, too. */
#ifndef PGAS_ATOMIC_H
#define PGAS_ATOMIC_H

#include <stdint.h>
#include "pgas/gptr.h"
#include "pgas/rma.h"

PGAS_BEGIN_DECLS

/** Apply an operation to the word at ptr and return the value before it in *old_p.
 *  @return also PGAS_ERR_INVALID from swap if old_p is NULL. The other fetching functions accept
 *          NULL and fetch nothing. */
static inline pgas_status_t pgas_fetch_add_u32(pgas_gptr_t ptr, uint32_t value, uint32_t *old_p);
static inline pgas_status_t pgas_fetch_and_u32(pgas_gptr_t ptr, uint32_t value, uint32_t *old_p);
static inline pgas_status_t pgas_fetch_or_u32(pgas_gptr_t ptr, uint32_t value, uint32_t *old_p);
static inline pgas_status_t pgas_fetch_xor_u32(pgas_gptr_t ptr, uint32_t value, uint32_t *old_p);
static inline pgas_status_t pgas_swap_u32(pgas_gptr_t ptr, uint32_t value, uint32_t *old_p);
static inline pgas_status_t pgas_fetch_add_u64(pgas_gptr_t ptr, uint64_t value, uint64_t *old_p);
static inline pgas_status_t pgas_fetch_and_u64(pgas_gptr_t ptr, uint64_t value, uint64_t *old_p);
static inline pgas_status_t pgas_fetch_or_u64(pgas_gptr_t ptr, uint64_t value, uint64_t *old_p);
static inline pgas_status_t pgas_fetch_xor_u64(pgas_gptr_t ptr, uint64_t value, uint64_t *old_p);
static inline pgas_status_t pgas_swap_u64(pgas_gptr_t ptr, uint64_t value, uint64_t *old_p);

/** Apply an operation to the word at ptr and fetch nothing. */
static inline pgas_status_t pgas_atomic_add_u32(pgas_gptr_t ptr, uint32_t value);
static inline pgas_status_t pgas_atomic_and_u32(pgas_gptr_t ptr, uint32_t value);
static inline pgas_status_t pgas_atomic_or_u32(pgas_gptr_t ptr, uint32_t value);
static inline pgas_status_t pgas_atomic_xor_u32(pgas_gptr_t ptr, uint32_t value);
static inline pgas_status_t pgas_atomic_add_u64(pgas_gptr_t ptr, uint64_t value);
static inline pgas_status_t pgas_atomic_and_u64(pgas_gptr_t ptr, uint64_t value);
static inline pgas_status_t pgas_atomic_or_u64(pgas_gptr_t ptr, uint64_t value);
static inline pgas_status_t pgas_atomic_xor_u64(pgas_gptr_t ptr, uint64_t value);

/** Stores value if the word equals compare. *old_p is the value before; the call has swapped if
 *  that equals compare.
 *  @return also PGAS_ERR_INVALID if old_p is NULL. */
static inline pgas_status_t pgas_compare_swap_u32(pgas_gptr_t ptr, uint32_t compare, uint32_t value,
                                                  uint32_t *old_p);
static inline pgas_status_t pgas_compare_swap_u64(pgas_gptr_t ptr, uint64_t compare, uint64_t value,
                                                  uint64_t *old_p);

typedef enum {
    PGAS_AMO_ADD,
    PGAS_AMO_AND,
    PGAS_AMO_OR,
    PGAS_AMO_XOR,
    PGAS_AMO_SWAP,
    PGAS_AMO_CSWAP
} pgas_amo_t;

/** The general form: the operation is a parameter.
 *  @param compare  CSWAP stores operand if the word equals compare; other operations ignore it
 *  @param old_p    the value before. NULL: nothing is fetched
 *  @return also PGAS_ERR_INVALID if op is unknown, or if old_p is NULL with SWAP or CSWAP. */
PGAS_API pgas_status_t pgas_amo_u32(pgas_gptr_t word, pgas_amo_t op, uint32_t operand,
                                    uint32_t compare, uint32_t *old_p);
PGAS_API pgas_status_t pgas_amo_u64(pgas_gptr_t word, pgas_amo_t op, uint64_t operand,
                                    uint64_t compare, uint64_t *old_p);

/** The same, non-blocking. *old_p, if not NULL, is set at local completion of *req_p. */
PGAS_API pgas_status_t pgas_amo_u32_nb(pgas_gptr_t word, pgas_amo_t op, uint32_t operand,
                                       uint32_t compare, uint32_t *old_p, pgas_req_t *req_p);
PGAS_API pgas_status_t pgas_amo_u64_nb(pgas_gptr_t word, pgas_amo_t op, uint64_t operand,
                                       uint64_t compare, uint64_t *old_p, pgas_req_t *req_p);

PGAS_END_DECLS

#include "pgas/detail/atomic.h"
#endif
