/** The inline part of pgas/sync.h: a wait for a counter that is zero. */
#ifndef PGAS_DETAIL_SYNC_H
#define PGAS_DETAIL_SYNC_H

#include "pgas/sync.h"

PGAS_BEGIN_DECLS

/* Every other case, with the same results. */
PGAS_API pgas_status_t pgas_sync_wait_far(pgas_sync_t *sync, int64_t timeout_us);

PGAS_INLINE pgas_status_t pgas_sync_wait(pgas_sync_t *sync, int64_t timeout_us)
{
    if (PGAS_LIKELY(sync && __atomic_load_n(&sync->count, __ATOMIC_ACQUIRE) <= 0 &&
                    __atomic_load_n(&sync->error, __ATOMIC_RELAXED) == 0))
        return PGAS_OK;
    return pgas_sync_wait_far(sync, timeout_us);
}

PGAS_END_DECLS
#endif
