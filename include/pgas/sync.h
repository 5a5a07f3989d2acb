/** Synchronizers: counters that fall when calls complete. */
#ifndef PGAS_SYNC_H
#define PGAS_SYNC_H

#include <stdint.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** A counter that falls when calls complete. The caller's memory; must not move between init and fini. */
typedef struct {
    volatile int64_t count; /* completions still missing */
    volatile int32_t status; /* first error: PGAS_ERR_PEER, or PGAS_ERR_NOT_FOUND for an unknown handler */
    uint32_t token;
} pgas_sync_t;

/** count: completions to wait for; calls that name the counter do not raise it.
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_LIMIT (65536 counters live). */
PGAS_API pgas_status_t pgas_sync_init(pgas_sync_t *sync, int64_t count);
/** Raises the counter; for reuse, or before further calls. NULL is ignored. */
PGAS_API void pgas_sync_add(pgas_sync_t *sync, int64_t count);
/** Waits, with progress, until the counter is 0 or less; timeout_us < 0: for ever.
 *  @return the first error of its calls, PGAS_OK, PGAS_ERR_TIMEOUT, PGAS_ERR_CONTEXT in a handler. */
PGAS_API pgas_status_t pgas_sync_wait(pgas_sync_t *sync, int64_t timeout_us);
/** Looks once, without progress: PGAS_INPROGRESS if not yet. */
PGAS_API pgas_status_t pgas_sync_test(const pgas_sync_t *sync);
/** Completions that arrive later are ignored. So are NULL, and a counter that has ended, is a copy, or is zeroed memory. */
PGAS_API void pgas_sync_fini(pgas_sync_t *sync);

PGAS_END_DECLS
#endif
