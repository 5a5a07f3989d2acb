/** Completion counters inside the library. Every operation that names a counter uses them, so they
 *  are here, below all layers that complete operations. libpgas-verbs has them, too.
 *
 *  An operation raises the counter before its completion can come. If it is refused, it undoes
 *  this:
 *
 *      int64_t before = pgasi_sync_raise(sync);
 *      status = start(.., sync);
 *      if (status != PGAS_OK)
 *          pgasi_sync_refuse(sync, before);
 *
 *  A counter may cease to exist as soon as it is zero, because a thread waits for that. So the
 *  thread that lowers it first reads the fields that it needs. */
#ifndef PGASI_BASE_SYNC_H
#define PGASI_BASE_SYNC_H

#include <stdbool.h>
#include <stdint.h>
#include "base/checks.h"
#include "pgas/sync.h"

/** The first error of a counter in one word. Bits 0..15: status; 16..31: handler; 32..39:
 *  operation; 40..63: the rank, or 0xFFFFFF for none. 0: no error. */
static inline uint64_t pgasi_error_pack(pgas_status_t status, int rank, pgas_operation_t operation,
                                        uint32_t handler)
{
    return ((uint64_t)(uint32_t)rank & 0xFFFFFF) << 40 | (uint64_t)(operation & 0xFF) << 32 |
           (uint64_t)(handler & 0xFFFF) << 16 | (uint16_t)(int16_t)status;
}
static inline pgas_status_t pgasi_error_status(uint64_t error)
{
    return (pgas_status_t)(int16_t)(uint16_t)error;
}
static inline int pgasi_error_rank(uint64_t error)
{
    return error >> 40 == 0xFFFFFF ? -1 : (int)(error >> 40);
}

/** Keeps the first error. The caller lowers the counter afterwards. */
static inline void pgasi_sync_note(pgas_sync_t *sync, uint64_t error)
{
    uint64_t none = 0;
    __atomic_compare_exchange_n(&sync->error, &none, error, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

/** Raises the counter by one. @return the count before, for pgasi_sync_refuse */
static inline int64_t pgasi_sync_raise(pgas_sync_t *sync)
{
    return __atomic_fetch_add(&sync->count, 1, __ATOMIC_RELAXED);
}

/** Ends the work on a counter that has reached zero: runs its function, if it has one, and wakes
 *  the threads that wait. The counter may no longer exist, except for its function. */
void pgasi_sync_reached(pgas_sync_t *sync, pgas_sync_fn_t fn, void *arg);

/** As pgasi_sync_lower, for n operations that have completed without an error. A counter that the
 *  program has lowered, too, may go from above zero to below it. */
static inline void pgasi_sync_lower_by(pgas_sync_t *sync, int64_t n)
{
    pgas_sync_fn_t fn = sync->fn;
    void *arg = sync->arg;
    int64_t now = __atomic_sub_fetch(&sync->count, n, __ATOMIC_ACQ_REL);
    if (now <= 0 && now > -n)
        pgasi_sync_reached(sync, fn, arg);
}

/** An operation has completed. Any thread, without a context's lock, because the counter's function
 *  may run here. rank and handler say where an error happened; rank -1: with several. */
static inline void pgasi_sync_lower(pgas_sync_t *sync, pgas_status_t status, int rank,
                                    pgas_operation_t operation, uint32_t handler)
{
    if (PGAS_UNLIKELY(status != PGAS_OK))
        pgasi_sync_note(sync, pgasi_error_pack(status, rank, operation, handler));
    pgasi_sync_lower_by(sync, 1);
}

/** The same under a context's lock or inside the transport's progress. The counter's function runs
 *  soon, on a thread that makes progress. */
void pgasi_sync_lower_locked(pgas_sync_t *sync, pgas_status_t status, int rank,
                             pgas_operation_t operation, uint32_t handler);
/** Runs the functions that pgasi_sync_lower_locked left, as a handler: the caller has made the
 *  thread one that runs handlers. @return their number */
int pgasi_sync_run_left(void);

/** Undoes a raise. `before` is what that raise returned. The counter's function runs only if
 *  another operation has completed meanwhile and this was the last one. */
void pgasi_sync_refuse(pgas_sync_t *sync, int64_t before);

/** Waits for a counter of the library, until it is zero in any case. @return its first error */
pgas_status_t pgasi_sync_wait_own(pgas_sync_t *sync);

/** One round of progress, if the calling thread may make it, and of pollers. @return the number of
 *  events */
int pgasi_sync_progress(void);

/** Whether the calling thread may wait. @return as pgas_sync_wait of a counter above zero */
pgas_status_t pgasi_sync_check_wait(void);

/* ---- pollers ---- */

/** Something whose completions only a poll detects, and which works with and without a job: an open
 *  group of a client. Each round of progress, and each step of a wait, calls the functions of all
 *  pollers. */
typedef struct pgasi_poller {
    struct pgasi_poller *next;
    /** Handles events that have arrived. It never waits, adds and removes no poller, and lowers
     *  counters by pgasi_sync_lower_locked only. One thread at a time calls it. @return the number
     *  of events */
    int (*poll)(void *arg);
    /** Sleeps until an event may have arrived, at most max_us. Several threads may be inside. NULL:
     *  waits poll, yield, and take short naps. */
    void (*sleep)(void *arg, int64_t max_us);
    void *arg;
    uint32_t n_asleep; /* threads inside sleep */
} pgasi_poller_t;

/** Any thread, but not inside a function of a poller. After remove, no thread is inside the
 *  poller's functions. */
void pgasi_poller_add(pgasi_poller_t *poller);
void pgasi_poller_remove(pgasi_poller_t *poller);

/** Polls all pollers, unless another thread does so. @return the number of events */
int pgasi_pollers_poll(void);
#define PGASI_POLLERS_NAP_US 1000
/** The pause of a wait, while there are pollers, that has lasted for waited_us without an event.
 *  @return true: the thread has slept or yielded. false: it may sleep, at most for
 *          PGASI_POLLERS_NAP_US */
bool pgasi_pollers_sleep(uint64_t waited_us);
/** Whether some poller has a sleep function. Waits then do not yield before they sleep: a yield
 *  gives no time to a thread that belongs to another session of the system. */
bool pgasi_pollers_can_sleep(void);
/** Waits until is_over(arg) is true, and polls the pollers only, for a thread that cannot make
 *  progress. @return PGAS_OK, PGAS_ERR_TIMEOUT */
pgas_status_t pgasi_pollers_wait(bool (*is_over)(void *arg), void *arg, int64_t timeout_us);

/** The work of progress for counters and pollers, in one word for a quick look. It counts the
 *  functions left by pgasi_sync_lower_locked, and has a bit that is set while there are pollers. */
#define PGASI_SYNC_POLLERS UINT32_C(0x80000000)
extern uint32_t pgasi_sync_work;
static inline bool pgasi_sync_some_left(void)
{
    return (__atomic_load_n(&pgasi_sync_work, __ATOMIC_ACQUIRE) & ~PGASI_SYNC_POLLERS) != 0;
}
static inline bool pgasi_sync_has_work(void)
{
    return __atomic_load_n(&pgasi_sync_work, __ATOMIC_RELAXED) != 0;
}
static inline bool pgasi_pollers_exist(void)
{
    return (__atomic_load_n(&pgasi_sync_work, __ATOMIC_RELAXED) & PGASI_SYNC_POLLERS) != 0;
}

/** The number of contexts that may have raised a counter ahead (mem/ahead.h). */
extern uint32_t pgasi_sync_ahead;

/* ---- the host ---- */

/** The functions of the library around the counters: those of a job between pgas_init and
 *  pgas_finalize (mem/sync_host.c). Otherwise a wait polls the pollers, and yields or sleeps for a
 *  short time between polls. A wait continues with the functions with which it began. */
typedef struct {
    /** One round of progress, if the calling thread may make it. @return the number of events */
    int (*progress)(void);
    /** Whether the calling thread may make progress, or wait. @return as pgas_sync_wait */
    pgas_status_t (*check)(bool waits);
    /** Waits, with progress, until is_over(arg) is true. timeout_us less than 0: without a limit.
     *  PGASI_SYNC_ALWAYS: also if the thread may not wait, or the job ends.
     *  @return PGAS_OK, PGAS_ERR_TIMEOUT, PGAS_ERR_CONTEXT, PGAS_ERR_NOT_INIT
     *          PGAS_ERR_PEER  the job ends after a death: is_over(arg) may never be true */
    pgas_status_t (*wait)(bool (*is_over)(void *arg), void *arg, int64_t timeout_us);
    /** No answer lowers this counter any more. NULL: no table has it */
    void (*forget)(pgas_sync_t *sync);
    /** Takes back raises ahead (mem/ahead.h), if only these keep the counter above zero. Called if
     *  pgasi_sync_ahead is not 0. @return true: the counter has changed */
    bool (*take_back)(const pgas_sync_t *sync);
    /** Wakes threads that wait. Called if the word is not zero; its address may be NULL. */
    void (*wake)(void);
    const uint32_t *wake_wanted;
} pgasi_sync_host_t;
#define PGASI_SYNC_ALWAYS INT64_MIN

/** NULL: there is no job. Takes effect for waits that begin later. */
void pgasi_sync_set_host(const pgasi_sync_host_t *host);

#endif
