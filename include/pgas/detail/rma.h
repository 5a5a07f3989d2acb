/** The inline part of pgas/rma.h: transfers within the node. The _far functions carry out
 *  everything else, including errors, with the same results. */
#ifndef PGAS_DETAIL_RMA_H
#define PGAS_DETAIL_RMA_H

#include "pgas/rma.h"

PGAS_BEGIN_DECLS

PGAS_API pgas_status_t pgas_put_far(pgas_gptr_t dst, const void *src, size_t bytes);
PGAS_API pgas_status_t pgas_get_far(void *dst, pgas_gptr_t src, size_t bytes);
PGAS_API pgas_status_t pgas_put_nb_far(pgas_gptr_t dst, const void *src, size_t bytes,
                                       pgas_req_t *req_p);
PGAS_API pgas_status_t pgas_get_nb_far(void *dst, pgas_gptr_t src, size_t bytes, pgas_req_t *req_p);
PGAS_API pgas_status_t pgas_wait_local_far(pgas_req_t *req);

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

static inline pgas_status_t pgas_wait_local(pgas_req_t *req)
{
    if (PGAS_LIKELY(req && __atomic_load_n(&req->state, __ATOMIC_ACQUIRE) == 0))
        return PGAS_OK;
    return pgas_wait_local_far(req);
}

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
