/** Counters of completions: one object for all operations that complete later.
 *
 *      pgas_sync_t done = PGAS_SYNC_INIT;
 *      for (int rank = 0; rank < n; rank++)
 *          pgas_call(rank, handler, &args, sizeof args, &done);
 *      pgas_sync_wait(&done, -1);                             the handler has run on n ranks
 *
 *  An accepted operation that names a counter raises it by one; its completion lowers it by one. A
 *  refused operation leaves it alone. An operation that completes at once may leave it alone, too.
 *  Any operations, to any ranks and of several threads, may name one counter.
 *
 *  The memory is the caller's. It must stay until the counter is zero; a time-out does not end that
 *  duty. Programs change fields only by these functions. They may read count, up to 31 too high for
 *  each thread that calls in a row; waits are exact. If lowered below zero, the counter stays,
 *  without a reset, until these threads make progress. A rank of the same node lowers it without a
 *  message, if it is in the symmetric heap, has no function, and PGAS_ON_PEER_DEATH is abort.
 *
 *  Source: Seriema (synchronizers); Go's WaitGroup (add, done, wait). */
#ifndef PGAS_SYNC_H
#define PGAS_SYNC_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** The completion that lowers a counter. */
typedef enum {
    PGAS_EXECUTED, /* the handler has run; at a team: everywhere */
    PGAS_REMOTE,   /* the data, or the call and its buffers, have arrived at the target */
    PGAS_LOCAL     /* the caller's arguments and buffers may be reused */
} pgas_when_t;

struct pgas_sync;
/** The library calls it each time a counter goes from above zero to zero: on the thread that lowers
 *  the counter, or on a thread of the rank that makes progress. It has the rights of a plain
 *  handler (pgas/call.h). A waiting thread may continue before the function has returned.
 *  pgas_sync_add(sync, 1) .. pgas_sync_done(sync, 1) around a series of operations keeps it from
 *  running between them. */
typedef void (*pgas_sync_fn_t)(struct pgas_sync *sync, void *arg);

typedef struct pgas_sync {
    int64_t count;  /* completions still missing */
    uint64_t error; /* the first error, see pgas_sync_info; 0: none */
    pgas_sync_fn_t fn;
    void *arg;
} pgas_sync_t;
/* clang-format off */
#define PGAS_SYNC_INIT             { 0, 0, NULL, NULL } /* zeroed memory is a counter, too */
#define PGAS_SYNC_INIT_FN(fn, arg) { 0, 0, fn, arg }
/* clang-format on */

/** Waits, with progress, until the counter is zero or less; with timeout_us 0 for one round.
 *  @return PGAS_ERR_TIMEOUT  the time is over
 *          PGAS_ERR_CONTEXT  it would wait in a plain handler, or on a thread that is not attached
 *          PGAS_ERR_NOT_INIT it is above zero before pgas_init
 *          PGAS_ERR_INVALID  sync is NULL
 *          PGAS_ERR_PEER     also, in a blocking handler: the job ends after a death
 *          otherwise the first error, which stays until pgas_sync_reset
 *  While a group is open (pgas/group.h), threads that are not attached may wait, too, and programs
 *  without pgas_init. */
PGAS_INLINE pgas_status_t pgas_sync_wait(pgas_sync_t *sync, int64_t timeout_us);

/** Tests the counter. While it is above zero, the function makes one round of progress if the
 *  thread may wait.
 *  @return PGAS_INPROGRESS   the counter is still above zero
 *          PGAS_ERR_INVALID  sync is NULL
 *          otherwise the first error */
PGAS_API pgas_status_t pgas_sync_test(pgas_sync_t *sync);

/** Wait for all of n counters, or for one of them. NULL entries are skipped.
 *  Done:   *index_p is the index of a counter that is zero, also if it has an error.
 *  @return as pgas_sync_wait; of several errors the one with the lowest index.
 *          PGAS_ERR_INVALID  also: wait_any has no counter, or index_p is NULL */
PGAS_API pgas_status_t pgas_sync_wait_all(pgas_sync_t *const *syncs, size_t n, int64_t timeout_us);
PGAS_API pgas_status_t pgas_sync_wait_any(pgas_sync_t *const *syncs, size_t n, int64_t timeout_us,
                                          size_t *index_p);

/** Raise and lower the counter by n >= 0, otherwise PGAS_ERR_INVALID. Any thread of the rank may
 *  call them. A thread that waits for the counter sees what this one stored before done. */
static inline pgas_status_t pgas_sync_add(pgas_sync_t *sync, int64_t n);
PGAS_API pgas_status_t pgas_sync_done(pgas_sync_t *sync, int64_t n);

/** Sets count and error to zero, after a wait or test saw zero and with no operation under way. */
static inline pgas_status_t pgas_sync_reset(pgas_sync_t *sync);

typedef enum {
    PGAS_OPERATION_NONE, /* no error */
    PGAS_OPERATION_PUT,
    PGAS_OPERATION_GET,
    PGAS_OPERATION_ATOMIC,
    PGAS_OPERATION_CALL,
    PGAS_OPERATION_COLLECTIVE,
    PGAS_OPERATION_ARRAY,
    PGAS_OPERATION_GROUP /* of a group; rank: the replica's index */
} pgas_operation_t;

/** The first error of a counter's operations since the last reset. */
typedef struct {
    size_t size;
    pgas_status_t status; /* PGAS_OK: none */
    int rank;             /* the peer; of a call to a team the rank that failed; -1: several */
    pgas_operation_t operation;
    uint16_t handler; /* of a call, see pgas_handler_name; otherwise 0 */
} pgas_sync_info_t;
/** Describes the first error. The description is final when the counter is zero.
 *  @return PGAS_ERR_INVALID  sync or info_p is NULL, or its size is too small */
PGAS_API pgas_status_t pgas_sync_info(const pgas_sync_t *sync, pgas_sync_info_t *info_p);

PGAS_END_DECLS

#include "pgas/detail/sync.h"
#endif
