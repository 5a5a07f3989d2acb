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
 *  duty. The program may read count, and changes the fields only by these functions and macros.
 *
 *  Within a node a rank that ran a call lowers the counter directly, without a message, if three
 *  conditions hold. The counter is in the symmetric heap, it has no function, and
 *  PGAS_ON_PEER_DEATH is abort. With continue, at most 65536 calls with a counter are under way;
 *  further ones wait for room as PGAS_FULL_* says.
 *
 *  Source: Seriema (synchronizers); the counts are those of Go's WaitGroup. */
#ifndef PGAS_SYNC_H
#define PGAS_SYNC_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** The completion that lowers a counter. */
typedef enum {
    PGAS_EXECUTED, /* the handler has run */
    PGAS_REMOTE,   /* the data or the call have arrived at the target */
    PGAS_LOCAL     /* the caller's buffers may be reused */
} pgas_when_t;

struct pgas_sync;
/** Runs each time a counter goes from above zero to zero, on the thread of this rank that lowers
 *  it. It may do what a plain handler may (pgas/call.h). A thread that waits for the counter may
 *  continue before the function has returned. Around a series of operations
 *  pgas_sync_add(sync, 1) .. pgas_sync_done(sync, 1) keeps it from running too early. */
typedef void (*pgas_sync_fn_t)(struct pgas_sync *sync, void *arg);

typedef struct pgas_sync {
    int64_t count;  /* completions still missing */
    uint64_t error; /* the first error, see pgas_sync_info; 0: none */
    pgas_sync_fn_t fn;
    void *arg;
} pgas_sync_t;
#define PGAS_SYNC_INIT   \
    {                    \
        0, 0, NULL, NULL \
    } /* zeroed memory is a counter, too */
#define PGAS_SYNC_INIT_FN(fn, arg) \
    {                              \
        0, 0, fn, arg              \
    }

/** Waits, with progress, until the counter is zero or less.
 *  @return PGAS_OK
 *          PGAS_ERR_TIMEOUT  the time is over
 *          PGAS_ERR_CONTEXT  it would wait in a plain handler, or on a thread that is not attached
 *          PGAS_ERR_INVALID  sync is NULL
 *          PGAS_ERR_PEER     in a blocking handler also: the job ends after a death
 *          otherwise the first error, which stays until pgas_sync_reset */
PGAS_INLINE pgas_status_t pgas_sync_wait(pgas_sync_t *sync, int64_t timeout_us);

/** Tests; makes one round of progress if the counter is above zero.
 *  @return PGAS_INPROGRESS   the counter is above zero
 *          otherwise as pgas_sync_wait */
PGAS_API pgas_status_t pgas_sync_test(pgas_sync_t *sync);

/** Waits for all of n counters, or for one of them. NULL entries are skipped.
 *  Done:   *index_p is the index of a counter that is zero, also if it has an error.
 *  @return as pgas_sync_wait; of several errors the one with the lowest index.
 *          PGAS_ERR_INVALID  also if index_p is NULL, or there is no counter to wait for */
PGAS_API pgas_status_t pgas_sync_wait_all(pgas_sync_t *const *syncs, size_t n, int64_t timeout_us);
PGAS_API pgas_status_t pgas_sync_wait_any(pgas_sync_t *const *syncs, size_t n, int64_t timeout_us,
                                          size_t *index_p);

/** Raise and lower the counter by n: completions of the program itself. Any thread of the rank,
 *  attached or not, also in handlers. A thread that then sees zero sees earlier stores of this one.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  sync is NULL, or n is negative */
PGAS_API pgas_status_t pgas_sync_add(pgas_sync_t *sync, int64_t n);
PGAS_API pgas_status_t pgas_sync_done(pgas_sync_t *sync, int64_t n);

/** Sets count and error to zero, while no operation that names the counter is under way.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  sync is NULL */
PGAS_API pgas_status_t pgas_sync_reset(pgas_sync_t *sync);

typedef enum {
    PGAS_OPERATION_NONE, /* no error */
    PGAS_OPERATION_PUT,
    PGAS_OPERATION_GET,
    PGAS_OPERATION_ATOMIC,
    PGAS_OPERATION_CALL,
    PGAS_OPERATION_COLLECTIVE,
    PGAS_OPERATION_ARRAY
} pgas_operation_t;

/** The first error of a counter's operations. */
typedef struct {
    size_t size;
    pgas_status_t status; /* PGAS_OK: none */
    int rank;             /* the peer; of a call to a team the rank that failed; -1: several */
    pgas_operation_t operation;
    uint16_t handler; /* of a call, see pgas_handler_name; otherwise 0 */
} pgas_sync_info_t;
/** Gives the first error since the last reset. It is complete when the counter is zero.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  sync or info_p is NULL, or its size is too small */
PGAS_API pgas_status_t pgas_sync_info(const pgas_sync_t *sync, pgas_sync_info_t *info_p);

PGAS_END_DECLS

#include "pgas/detail/sync.h"
#endif
