/** The inline part of pgas/sync.h. */
#ifndef PGAS_DETAIL_SYNC_H
#define PGAS_DETAIL_SYNC_H

#include "pgas/sync.h"

PGAS_BEGIN_DECLS

/* Every case of a wait that is not inline. */
PGAS_API pgas_status_t pgas_sync_wait_far(pgas_sync_t *sync, int64_t timeout_us);

PGAS_INLINE pgas_status_t pgas_sync_wait(pgas_sync_t *sync, int64_t timeout_us)
{
    if (PGAS_LIKELY(sync && __atomic_load_n(&sync->count, __ATOMIC_ACQUIRE) <= 0 &&
                    __atomic_load_n(&sync->error, __ATOMIC_RELAXED) == 0))
        return PGAS_OK;
    return pgas_sync_wait_far(sync, timeout_us);
}

static inline pgas_status_t pgas_sync_add(pgas_sync_t *sync, int64_t n)
{
    if (!sync || n < 0)
        return PGAS_ERR_INVALID;
    __atomic_fetch_add(&sync->count, n, __ATOMIC_RELAXED);
    return PGAS_OK;
}

static inline pgas_status_t pgas_sync_reset(pgas_sync_t *sync)
{
    if (!sync)
        return PGAS_ERR_INVALID;
    __atomic_store_n(&sync->error, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&sync->count, 0, __ATOMIC_RELEASE);
    return PGAS_OK;
}

PGAS_END_DECLS
#endif
