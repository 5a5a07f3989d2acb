/** Completion counters inside the library. Every operation that names a counter uses them, so they
 *  are here, below all layers that complete operations. src/boot calls them through pgasi_hooks.
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
#ifndef PGASI_MEM_SYNC_H
#define PGASI_MEM_SYNC_H

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

/** An operation has completed. Any thread, without a context's lock, because the counter's function
 *  may run here. rank and handler say where an error happened; rank -1: with several. */
static inline void pgasi_sync_lower(pgas_sync_t *sync, pgas_status_t status, int rank,
                                    pgas_operation_t operation, uint32_t handler)
{
    pgas_sync_fn_t fn = sync->fn;
    void *arg = sync->arg;
    if (PGAS_UNLIKELY(status != PGAS_OK))
        pgasi_sync_note(sync, pgasi_error_pack(status, rank, operation, handler));
    if (__atomic_sub_fetch(&sync->count, 1, __ATOMIC_ACQ_REL) == 0)
        pgasi_sync_reached(sync, fn, arg);
}

/** The same under a context's lock or inside the transport's progress. The counter's function runs
 *  soon, on a thread that makes progress. */
void pgasi_sync_lower_locked(pgas_sync_t *sync, pgas_status_t status, int rank,
                             pgas_operation_t operation, uint32_t handler);
/** Runs the functions that pgasi_sync_lower_locked left. Only pgasi_sync_run_functions calls it, as
 *  a handler. @return their number */
int pgasi_sync_run_left(void);
extern uint32_t pgasi_sync_n_left; /* how many there are */
static inline bool pgasi_sync_is_left(void)
{
    return __atomic_load_n(&pgasi_sync_n_left, __ATOMIC_RELAXED);
}

/** Undoes a raise. `before` is what that raise returned. The counter's function runs only if
 *  another operation has completed meanwhile and this was the last one. */
void pgasi_sync_refuse(pgas_sync_t *sync, int64_t before);

/** Waits for a counter of the library, until it is zero in any case. @return its first error */
pgas_status_t pgasi_sync_wait_own(pgas_sync_t *sync);

#endif
