/** Synchronizers: counters that fall when calls complete, or when the program says so.
 *
 *  One counter serves any number of calls, of any kinds and to any ranks, and is used again after
 *  it has reached zero. Who waits does so with progress: spins for PGAS_SPIN_US, then yields, then
 *  sleeps until a bell rings.
 *
 *  Where the counter lies decides how it is told. In the symmetric heap (pgas_alloc,
 *  pgas_alloc_local) it is written by the rank of the same node that ran the call, with no message
 *  back. Elsewhere, between nodes, with a function, and in jobs that outlive their ranks
 *  (PGAS_ON_PEER_DEATH=continue, where it must stay known what a dead rank owes), by a message.
 *  pgas_stats_print counts both.
 *
 *  Source: Seriema (synchronizers). There a counter in registered memory is written by RDMA also
 *  between nodes; here a message does that, since a completion that comes too late must be found
 *  out by a CPU of the owner. */
#ifndef PGAS_SYNC_H
#define PGAS_SYNC_H

#include <stdint.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** A counter that falls when calls complete. The caller's memory; must not move between init and
 *  fini. Read its fields as you like, change them only by the functions below. */
typedef struct {
    volatile int64_t count; /* completions still missing */
    /* first error: PGAS_ERR_PEER, or PGAS_ERR_NOT_FOUND for an unknown handler */
    volatile int32_t status;
    uint32_t token;
} pgas_sync_t;

/** Begins a counter.
 *  Units:  count: completions to wait for; calls that name the counter do not raise it.
 *  Owns:   the memory stays the caller's; pgas_sync_fini before it is given back.
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT (thread not attached), PGAS_ERR_INVALID
 *          (NULL), PGAS_ERR_LIMIT (65536 counters and awaited replies live). */
PGAS_API pgas_status_t pgas_sync_init(pgas_sync_t *sync, int64_t count);

/** What runs when a counter has reached zero. It may do what a handler may (table in call.h), and
 *  pgas_sync_reset, pgas_sync_add and pgas_sync_fini on its own counter. */
typedef void (*pgas_sync_fn_t)(pgas_sync_t *sync, void *arg);

/** As pgas_sync_init, with a function.
 *  Done:   fn(sync, arg) runs once each time the counter falls from above zero to zero or below, on
 *          the thread that makes it fall: one that serves incoming calls, or the one that calls
 *          pgas_sync_done. A counter that begins at zero runs nothing. A thread that waits for the
 *          counter may go on before fn has returned; so either wait or use fn, or let fn itself
 *          tell the waiting thread.
 *  @return as pgas_sync_init; PGAS_ERR_INVALID also for fn NULL. */
PGAS_API pgas_status_t pgas_sync_init_fn(pgas_sync_t *sync, int64_t count, pgas_sync_fn_t fn,
                                         void *arg);

/** Raises the counter; for reuse, or before further calls. The first error stays. NULL is ignored.
 *  count less than 0: as pgas_sync_done. */
PGAS_API void pgas_sync_add(pgas_sync_t *sync, int64_t count);

/** Lowers the counter by n: the program's own completions, besides those of calls.
 *  Shape:  any thread of the counter's rank, attached or not, also in handlers.
 *  Done:   who waits is woken if the counter is 0 or less; what this thread stored before is
 *          visible to it.
 *  Cost:   one atomic addition.
 *  @return PGAS_OK, PGAS_ERR_INVALID (NULL, n less than 0). */
PGAS_API pgas_status_t pgas_sync_done(pgas_sync_t *sync, int64_t n);

/** Begins again with count completions and no error.
 *  Shape:  while no call that names the counter is under way: after a wait, or in its function.
 *  @return PGAS_OK, PGAS_ERR_INVALID (no live counter). */
PGAS_API pgas_status_t pgas_sync_reset(pgas_sync_t *sync, int64_t count);

/** Waits, with progress, until the counter is 0 or less; timeout_us < 0: for ever.
 *  @return the first error of its calls, PGAS_OK, PGAS_ERR_TIMEOUT, PGAS_ERR_CONTEXT in a handler;
 *          in a blocking handler also PGAS_ERR_PEER: the job ends, a rank of it has died, and what
 *          is waited for may never come. */
PGAS_API pgas_status_t pgas_sync_wait(pgas_sync_t *sync, int64_t timeout_us);
/** Looks once, without progress: PGAS_INPROGRESS if not yet. */
PGAS_API pgas_status_t pgas_sync_test(const pgas_sync_t *sync);

/** The first error of a counter's calls: the peer and the handler that it was about. */
typedef struct {
    pgas_status_t status; /* PGAS_OK: none */
    int rank;             /* whom the call was for */
    /* its number; 0: not known. A rank that died owes several calls: the latest of this counter to
     * it */
    uint16_t handler;
} pgas_sync_error_t;

/** Tells the first error since init or reset. The name of the handler: pgas_handler_name.
 *  Done:   whole once the counter has reached zero; before that it may be missing still.
 *  @return PGAS_OK, PGAS_ERR_INVALID (no live counter, or error_p NULL). */
PGAS_API pgas_status_t pgas_sync_error(const pgas_sync_t *sync, pgas_sync_error_t *error_p);

/** Ends a counter. Completions that arrive later are ignored. So are NULL, and a counter that has
 *  ended, is a copy, or is zeroed memory. */
PGAS_API void pgas_sync_fini(pgas_sync_t *sync);

PGAS_END_DECLS
#endif
