/** One-sided transfers. On the node they are loads and stores made by the caller; elsewhere the
 *  transport's.
 *
 *  Completion words: *local* - the caller's buffer may be reused; *remote* - the data are visible
 *  at the peer. Blocking calls return at local completion (a get: with the data). Remote completion
 *  of puts: pgas_flush. On the node both are the same. Puts of one thread to one peer may become
 *  visible in any order; pgas_fence orders them.
 *
 *  All functions, any attached thread, not the whole program: PGAS_OK; PGAS_ERR_NOT_INIT;
 *  PGAS_ERR_RANGE (null, a rank that does not exist, or bytes outside of a segment: nothing is
 *  transferred); PGAS_ERR_INVALID (null buffer with a size; scalar that is not aligned to its
 *  size); PGAS_ERR_PEER (the peer died: where the transport or the peer's service carries it out;
 *  memory that this node maps outlives its rank, and loads and stores to it give PGAS_OK);
 *  PGAS_ERR_TRANSPORT. Sizes may exceed 2^31; zero bytes is a checked no-op. */
#ifndef PGAS_RMA_H
#define PGAS_RMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "pgas/gptr.h"

PGAS_BEGIN_DECLS

/** Whatever the inline calls below do not do themselves; the same results. */
PGAS_API pgas_status_t pgas_put_far(pgas_gptr_t dst, const void *src, size_t bytes);
PGAS_API pgas_status_t pgas_get_far(void *dst, pgas_gptr_t src, size_t bytes);

/** The buffers may overlap. Inline: on the node a check and a copy. */
static inline pgas_status_t pgas_put(pgas_gptr_t dst, const void *src, size_t bytes)
{
    void *here = pgas_gptr_local(dst, bytes);
    if (PGAS_UNLIKELY(!here || !src))
        return pgas_put_far(dst, src, bytes);
    memmove(here, src, bytes);
    return PGAS_OK;
}
static inline pgas_status_t pgas_get(void *dst, pgas_gptr_t src, size_t bytes)
{
    const void *here = pgas_gptr_local(src, bytes);
    if (PGAS_UNLIKELY(!here || !dst))
        return pgas_get_far(dst, src, bytes);
    memmove(dst, here, bytes);
    return PGAS_OK;
}
/** From one global pointer to another, neither of which needs to be the caller's; complete when it
 *  returns (remotely too). Through a bounce buffer unless one side is local. */
PGAS_API pgas_status_t pgas_copy(pgas_gptr_t dst, pgas_gptr_t src, size_t bytes);

/** A non-blocking operation. The struct is the caller's, must not move and must stay until the
 *  operation is complete (remotely, for puts: pgas_wait_remote or a later pgas_flush). Its content
 *  is the library's. Only the thread that started an operation waits for it. */
typedef struct {
    uint64_t state;  /* 0: locally complete, without error */
    uint64_t number; /* 0: nothing to flush */
    uint64_t opaque[2];
} pgas_req_t;

PGAS_API pgas_status_t pgas_put_nb_far(pgas_gptr_t dst, const void *src, size_t bytes,
                                       pgas_req_t *req_p);
PGAS_API pgas_status_t pgas_get_nb_far(void *dst, pgas_gptr_t src, size_t bytes, pgas_req_t *req_p);
PGAS_API pgas_status_t pgas_wait_local_far(pgas_req_t *req);

/** Start a transfer; the source (put) or destination (get) may be touched after local completion
 *  only. */
static inline pgas_status_t pgas_put_nb(pgas_gptr_t dst, const void *src, size_t bytes,
                                        pgas_req_t *req_p)
{
    void *here = pgas_gptr_local(dst, bytes);
    if (PGAS_UNLIKELY(!here || !src || !req_p))
        return pgas_put_nb_far(dst, src, bytes, req_p);
    memmove(here, src, bytes);
    req_p->state = req_p->number = 0;
    return PGAS_OK;
}
static inline pgas_status_t pgas_get_nb(void *dst, pgas_gptr_t src, size_t bytes, pgas_req_t *req_p)
{
    const void *here = pgas_gptr_local(src, bytes);
    if (PGAS_UNLIKELY(!here || !dst || !req_p))
        return pgas_get_nb_far(dst, src, bytes, req_p);
    memmove(dst, here, bytes);
    req_p->state = req_p->number = 0;
    return PGAS_OK;
}

/** Local completion: wait, or look once (PGAS_INPROGRESS if not yet). Return the operation's
 *  status; one that is complete may be waited for at any time. */
static inline pgas_status_t pgas_wait_local(pgas_req_t *req)
{
    if (PGAS_LIKELY(req && __atomic_load_n(&req->state, __ATOMIC_ACQUIRE) == 0))
        return PGAS_OK;
    return pgas_wait_local_far(req);
}
PGAS_API pgas_status_t pgas_test_local(pgas_req_t *req);
/** Remote completion of a put (for a get the same as local): wait, or look once. Flushes the peer
 *  if nobody has since; a look that finds none under way starts one, and does not wait for it. */
PGAS_API pgas_status_t pgas_wait_remote(pgas_req_t *req);
PGAS_API pgas_status_t pgas_test_remote(pgas_req_t *req);

/** Remote completion of all puts and non-fetching atomics that the calling thread issued, to one
 *  rank or to all. */
PGAS_API pgas_status_t pgas_flush(int rank);
PGAS_API pgas_status_t pgas_flush_all(void);

/** Puts and atomics of the calling thread before it become visible, at each peer, before those
 *  after it. */
PGAS_API pgas_status_t pgas_fence(void);

/** n_blocks blocks of block_bytes; strides in bytes from the start of one block to the next, on
 *  either side. */
PGAS_API pgas_status_t pgas_put_strided(pgas_gptr_t dst, int64_t dst_stride, const void *src,
                                        int64_t src_stride, size_t block_bytes, size_t n_blocks);
PGAS_API pgas_status_t pgas_get_strided(void *dst, int64_t dst_stride, pgas_gptr_t src,
                                        int64_t src_stride, size_t block_bytes, size_t n_blocks);
/** Element i of src goes to element index[i] of dst (put), element index[i] of src comes to element
 *  i of dst (get). */
PGAS_API pgas_status_t pgas_put_indexed(pgas_gptr_t dst, const uint64_t *index, const void *src,
                                        size_t elem_bytes, size_t n_elems);
PGAS_API pgas_status_t pgas_get_indexed(void *dst, pgas_gptr_t src, const uint64_t *index,
                                        size_t elem_bytes, size_t n_elems);

/** A put followed by a store to, or an addition to, an aligned 64-bit word of the same rank, which
 *  becomes visible after the data. A thread of that rank that sleeps in pgas_signal_wait is woken,
 *  if the caller reaches the word by stores (on the node); otherwise it finds the signal when its
 *  nap ends: naps are no longer than a sixteenth of the time waited, and than PGAS_NAP_MAX_US. */
typedef enum { PGAS_SIGNAL_SET, PGAS_SIGNAL_ADD } pgas_signal_op_t;
PGAS_API pgas_status_t pgas_put_signal(pgas_gptr_t dst, const void *src, size_t bytes,
                                       pgas_gptr_t signal, uint64_t value, pgas_signal_op_t op);

typedef enum { PGAS_EQ, PGAS_NE, PGAS_LT, PGAS_LE, PGAS_GT, PGAS_GE } pgas_compare_t;
/** Waits, with progress, until the word (own memory, any writer) compares so with value; timeout_us
 *  < 0: for ever. The final value goes to *value_p if that is not NULL. Everything put before the
 *  signal is visible then.
 *  @return also PGAS_ERR_TIMEOUT. A word changed by a plain store instead of a signal is noticed
 *  within some ms. */
PGAS_API pgas_status_t pgas_signal_wait(const uint64_t *signal, pgas_compare_t compare,
                                        uint64_t value, int64_t timeout_us, uint64_t *value_p);
/** Looks once: PGAS_OK or PGAS_INPROGRESS. */
PGAS_API pgas_status_t pgas_signal_test(const uint64_t *signal, pgas_compare_t compare,
                                        uint64_t value, uint64_t *value_p);

/** Scalars of 1, 2, 4 and 8 bytes, aligned to their size; a plain store or load where the node is
 *  mapped. */
#define PGAS_RMA_TYPED(BITS)                                                                 \
    PGAS_API pgas_status_t pgas_put_u##BITS##_far(pgas_gptr_t dst, uint##BITS##_t value);    \
    PGAS_API pgas_status_t pgas_get_u##BITS##_far(pgas_gptr_t src, uint##BITS##_t *value_p); \
    static inline pgas_status_t pgas_put_u##BITS(pgas_gptr_t dst, uint##BITS##_t value)      \
    {                                                                                        \
        uint##BITS##_t *word = (uint##BITS##_t *)pgas_gptr_local(dst, sizeof(value));        \
        if (PGAS_UNLIKELY(!word || dst % sizeof(value)))                                     \
            return pgas_put_u##BITS##_far(dst, value);                                       \
        __atomic_store_n(word, value, __ATOMIC_RELAXED);                                     \
        return PGAS_OK;                                                                      \
    }                                                                                        \
    static inline pgas_status_t pgas_get_u##BITS(pgas_gptr_t src, uint##BITS##_t *value_p)   \
    {                                                                                        \
        const uint##BITS##_t *word =                                                         \
            (const uint##BITS##_t *)pgas_gptr_local(src, sizeof(*value_p));                  \
        if (PGAS_UNLIKELY(!word || !value_p || src % sizeof(*value_p)))                      \
            return pgas_get_u##BITS##_far(src, value_p);                                     \
        *value_p = __atomic_load_n(word, __ATOMIC_RELAXED);                                  \
        return PGAS_OK;                                                                      \
    }
PGAS_RMA_TYPED(8)
PGAS_RMA_TYPED(16)
PGAS_RMA_TYPED(32)
PGAS_RMA_TYPED(64)

PGAS_END_DECLS
#endif
