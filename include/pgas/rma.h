/** One-sided transfers: put, get, signals, flush and fence.
 *
 *  The caller names memory of another rank by a global pointer; that rank does not take part. On
 *  the caller's node a transfer is a copy by the calling thread. Between nodes the transport
 *  carries it out. The service of a rank carries out transfers of the node to memory that this rank
 *  has attached.
 *
 *      pgas_put(pgas_gptr_at(mine, 1), values, sizeof values);    values may be reused on return
 *      pgas_flush(1);                                             rank 1 now sees them
 *
 *      pgas_sync_t done = PGAS_SYNC_INIT;
 *      pgas_get_nb(buffer, pgas_gptr_at(mine, 1), sizeof buffer, &done);
 *      compute();
 *      pgas_sync_wait(&done, -1);                                 buffer is filled
 *
 *  Completion. *Local* completion means that the caller's buffer may be reused (put) or is filled
 *  (get). *Remote* completion means that the data are visible at the peer. Blocking functions
 *  return at local completion. pgas_flush waits for remote completion of puts. On the node local
 *  and remote completion coincide. Puts of one thread to one peer may become visible in any order;
 *  pgas_fence orders them.
 *
 *  Shape: any attached thread; no function here is collective. A plain handler may use only
 *  operations within its node (see the table in pgas/call.h). Sizes may exceed 2^31. With 0 bytes a
 *  function checks its arguments and transfers nothing.
 *
 *  Statuses of all functions, unless stated otherwise:
 *      PGAS_ERR_RANGE      null pointer, no such rank, or bytes outside of a segment; nothing is
 *                          transferred
 *      PGAS_ERR_INVALID    NULL buffer with a size, or a scalar that is not aligned to its size
 *      PGAS_ERR_CONTEXT    the operation needs another rank or the transport, and the thread is not
 *                          attached or runs a plain handler
 *      PGAS_ERR_PEER       the peer died, and the transport or the peer's service would carry the
 *                          operation out. Memory that this node maps outlives its rank: loads and
 *                          stores to it return PGAS_OK
 *      PGAS_ERR_TRANSPORT  the transport failed */
#ifndef PGAS_RMA_H
#define PGAS_RMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "pgas/gptr.h"
#include "pgas/op.h"
#include "pgas/sync.h"

PGAS_BEGIN_DECLS

/** Copies `bytes` bytes to or from the memory at a global pointer. The two buffers may overlap.
 *  Cost:   on the node a check and a copy, inline. */
static inline pgas_status_t pgas_put(pgas_gptr_t dst, const void *src, size_t bytes);
static inline pgas_status_t pgas_get(void *dst, pgas_gptr_t src, size_t bytes);

/** Start a put or a get. The caller's buffer must not be touched before local completion.
 *  Done:   sync completes at local or remote completion, as `when` says (PGAS_LOCAL, PGAS_REMOTE).
 *          On the node the operation is complete on return and leaves sync alone. If sync is NULL,
 *          the next pgas_flush of this thread completes the operation and reports its error.
 *          Progress of the calling thread drives remote completion: one flush of a peer covers all
 *          puts before it. While the thread computes, its rank's service thread does this.
 *  Cost:   as pgas_put and pgas_get. A thread has at most 1024 such operations with a counter under
 *          way between nodes; the next one waits, with progress. */
static inline pgas_status_t pgas_put_nb(pgas_gptr_t dst, const void *src, size_t bytes,
                                        pgas_when_t when, pgas_sync_t *sync);
static inline pgas_status_t pgas_get_nb(void *dst, pgas_gptr_t src, size_t bytes,
                                        pgas_sync_t *sync);

/** pgas_put_TAG and pgas_get_TAG transfer a scalar that is aligned to its size. TAG is u8, u16,
 *  u32, u64, i8, i16, i32, i64, f32 or f64. In C11 pgas_put_value(dst, x) and
 *  pgas_get_value(src, x_p) choose the tag by the type of x and of *x_p.
 *  Cost:   on the node one relaxed atomic store or load, inline. */
#define PGAS_SCALAR_FUNCTIONS(tag, type)                                     \
    static inline pgas_status_t pgas_put_##tag(pgas_gptr_t dst, type value); \
    static inline pgas_status_t pgas_get_##tag(pgas_gptr_t src, type *value_p);
PGAS_SCALAR_FUNCTIONS(u8, uint8_t)
PGAS_SCALAR_FUNCTIONS(u16, uint16_t)
PGAS_SCALAR_FUNCTIONS(u32, uint32_t)
PGAS_SCALAR_FUNCTIONS(u64, uint64_t)
PGAS_SCALAR_FUNCTIONS(i8, int8_t)
PGAS_SCALAR_FUNCTIONS(i16, int16_t)
PGAS_SCALAR_FUNCTIONS(i32, int32_t)
PGAS_SCALAR_FUNCTIONS(i64, int64_t)
PGAS_SCALAR_FUNCTIONS(f32, float)
PGAS_SCALAR_FUNCTIONS(f64, double)

/** Transfers n_blocks blocks of block_bytes bytes. A stride is the distance in bytes from the start
 *  of one block to the start of the next, on that side. */
PGAS_API pgas_status_t pgas_put_strided(pgas_gptr_t dst, int64_t dst_stride, const void *src,
                                        int64_t src_stride, size_t block_bytes, size_t n_blocks);
PGAS_API pgas_status_t pgas_get_strided(void *dst, int64_t dst_stride, pgas_gptr_t src,
                                        int64_t src_stride, size_t block_bytes, size_t n_blocks);

/** Copies from one global pointer to another, until remote completion. Neither needs to belong to
 *  the caller. If neither side is memory that this node maps, pieces of 16 KiB pass through the
 *  caller. */
PGAS_API pgas_status_t pgas_copy(pgas_gptr_t dst, pgas_gptr_t src, size_t bytes);

/** Waits for remote completion of all puts and atomics of the calling thread to one rank, or to all
 *  ranks (PGAS_ALL). It also completes the thread's operations without a counter.
 *  @return also the first error of operations without a counter */
PGAS_API pgas_status_t pgas_flush(int rank);
static inline pgas_status_t pgas_flush_all(void)
{
    return pgas_flush(PGAS_ALL);
}

/** Orders puts and atomics of the calling thread: those issued before the fence become visible at
 *  each peer before those issued after it. */
PGAS_API pgas_status_t pgas_fence(void);

/** Puts data, then sets (PGAS_SWAP) or increases (PGAS_ADD) a 64-bit word of the same rank, which
 *  becomes visible after the data.
 *  Done:   as pgas_put. A thread of the target that sleeps in pgas_signal_wait wakes up if the
 *          caller reaches the word by stores (on the node). Otherwise it notices the signal when
 *          its sleep ends. A sleep lasts at most a sixteenth of the time waited so far, and at most
 *          PGAS_NAP_MAX_US.
 *  @return also PGAS_ERR_INVALID      signal is not aligned to 8 bytes, or not of the rank of dst
 *               PGAS_ERR_UNSUPPORTED  another operator */
PGAS_API pgas_status_t pgas_put_signal(pgas_gptr_t dst, const void *src, size_t bytes,
                                       pgas_gptr_t signal, uint64_t value, pgas_op_t op);

typedef enum { PGAS_EQ, PGAS_NE, PGAS_LT, PGAS_LE, PGAS_GT, PGAS_GE } pgas_compare_t;

/** Waits, with progress, until the comparison of the word with value is true. The word is the
 *  caller's own memory; any rank may write it. With timeout_us 0 it compares once, also in plain
 *  handlers.
 *  Done:   *value_p is the value that ended the wait, if value_p is not NULL. Data that was put
 *          before the signal is visible. A word that a plain store changes, without a signal, is
 *          noticed within some milliseconds.
 *  @return also PGAS_ERR_TIMEOUT  the time is over; *value_p is unchanged
 *               PGAS_ERR_INVALID  signal is NULL or compare is unknown */
PGAS_API pgas_status_t pgas_signal_wait(const uint64_t *signal, pgas_compare_t compare,
                                        uint64_t value, int64_t timeout_us, uint64_t *value_p);

PGAS_END_DECLS

#include "pgas/detail/rma.h"
#endif
