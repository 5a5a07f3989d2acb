/** Synchronizers: counters that decrement when calls complete, or when the program says so.
 *
 *      pgas_sync_t done;
 *      pgas_sync_init(&done, n);                              n completions
 *      for (int rank = 0; rank < n; rank++)
 *          pgas_call(rank, handler, &args, sizeof args, &done);
 *      pgas_sync_wait(&done, -1);                             the handler has run on n ranks
 *      pgas_sync_fini(&done);
 *
 *  One counter serves any number of calls, of any kinds and to any ranks, and may be used again
 *  when it has reached zero. A thread that waits makes progress: it spins for PGAS_SPIN_US, then
 *  yields, then sleeps until the rank's wakeup flag is raised.
 *
 *  The place of a counter decides how completions arrive. If it is in the symmetric heap
 *  (pgas_alloc, pgas_alloc_on), a rank of the same node that ran the call decrements it
 *  directly. No message comes back. A message decrements it in all other cases: outside of the
 *  heap, between nodes, for counters with a function, and with PGAS_ON_PEER_DEATH=continue. In the
 *  last case the library must know which completions a dead rank still had to report.
 *  pgas_stats_print counts both.
 *
 *  Source: Seriema (synchronizers). There RDMA writes to a counter in registered memory also
 *  between nodes. Here a message does, because a CPU of the owner must detect completions that come
 *  too late. */
#ifndef PGAS_SYNC_H
#define PGAS_SYNC_H

#include <stdint.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** A counter.
 *  Owns:   the memory is the caller's, and must not move between init and fini. The program may
 *          read the fields, and changes them only by the functions below. */
typedef struct {
    volatile int64_t count; /* completions still missing */
    /* the first error: PGAS_ERR_PEER, PGAS_ERR_NOT_FOUND for an unknown handler, .. */
    volatile int32_t status;
    uint32_t token;
} pgas_sync_t;

/** Begins a counter.
 *  Units:  count: completions to wait for. Calls that name the counter do not raise it.
 *  Owns:   call pgas_sync_fini before the memory is reused.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_INIT
 *          PGAS_ERR_CONTEXT  the thread is not attached
 *          PGAS_ERR_INVALID  sync is NULL
 *          PGAS_ERR_LIMIT    65536 counters and awaited replies are live */
PGAS_API pgas_status_t pgas_sync_init(pgas_sync_t *sync, int64_t count);

/** A function that runs when a counter has reached zero. It may do what a plain handler may (table
 *  in pgas/call.h), and call pgas_sync_reset, pgas_sync_add and pgas_sync_fini on its own
 *  counter. */
typedef void (*pgas_sync_fn_t)(pgas_sync_t *sync, void *arg);

/** As pgas_sync_init, with a function.
 *  Done:   fn(sync, arg) runs each time the counter decrements from above zero to zero or below. It
 *          runs on the thread that decrements the counter: one that serves incoming calls, or one
 *          that calls pgas_sync_done. A counter that begins at zero runs nothing. A thread that
 *          waits for the counter may continue before fn has returned. Therefore either wait, or use
 *          fn, or let fn itself notify the waiting thread.
 *  @return as pgas_sync_init; PGAS_ERR_INVALID also if fn is NULL. */
PGAS_API pgas_status_t pgas_sync_init_fn(pgas_sync_t *sync, int64_t count, pgas_sync_fn_t fn,
                                         void *arg);

/** Raises the counter by count, to reuse it or before further calls. The first error stays. A
 *  negative count lowers it as pgas_sync_done does. NULL is ignored. */
PGAS_API void pgas_sync_add(pgas_sync_t *sync, int64_t count);

/** Lowers the counter by n: completions of the program itself, beside those of calls.
 *  Shape:  any thread of the counter's rank, attached or not, also in handlers.
 *  Done:   if the counter is 0 or less, threads that wait for it wake up. They see what this thread
 *          stored before.
 *  Cost:   one atomic addition.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  sync is NULL, or n is negative */
PGAS_API pgas_status_t pgas_sync_done(pgas_sync_t *sync, int64_t n);

/** Sets the counter to count, without an error.
 *  Shape:  while no call that names the counter is outstanding: after a wait, or in its function.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  not a live counter */
PGAS_API pgas_status_t pgas_sync_reset(pgas_sync_t *sync, int64_t count);

/** Waits, with progress, until the counter is 0 or less.
 *  Units:  timeout_us in microseconds; negative: for ever.
 *  @return PGAS_OK
 *          PGAS_ERR_TIMEOUT  the time is over; the counter stays live
 *          PGAS_ERR_CONTEXT  in a plain handler, or the thread is not attached
 *          PGAS_ERR_INVALID  sync is NULL
 *          PGAS_ERR_PEER     in a blocking handler also: the job ends and a rank has died, so the
 *                            completion may never come
 *          otherwise the first error of the counter's calls */
PGAS_API pgas_status_t pgas_sync_wait(pgas_sync_t *sync, int64_t timeout_us);

/** Tests once, without progress.
 *  @return PGAS_INPROGRESS  the counter is above 0
 *          otherwise as pgas_sync_wait */
PGAS_API pgas_status_t pgas_sync_test(const pgas_sync_t *sync);

/** The first error of a counter's calls: the rank and the handler of the call. */
typedef struct {
    pgas_status_t status; /* PGAS_OK: none */
    int rank;             /* the target of the call */
    /* number of the handler; 0: not known. If a rank died and several calls to it were outstanding,
     * this is the latest of them */
    uint16_t handler;
} pgas_sync_error_t;

/** Gives the first error since init or reset. pgas_handler_name gives the name of the handler.
 *  Done:   complete when the counter has reached zero; before that the error may be missing.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  not a live counter, or error_p is NULL */
PGAS_API pgas_status_t pgas_sync_error(const pgas_sync_t *sync, pgas_sync_error_t *error_p);

/** Ends a counter. Completions that arrive later are ignored. It also ignores NULL, copies of
 *  counters, zeroed memory, and counters that have ended. */
PGAS_API void pgas_sync_fini(pgas_sync_t *sync);

PGAS_END_DECLS
#endif
