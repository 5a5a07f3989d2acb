/** Counters that are raised ahead. A thread that makes one call after the other on a counter raises
 *  it for several calls at once, because an atomic addition waits until the stores of the call
 *  before it have reached the line that the receiver polls.
 *
 *  The second call in a row on a counter raises it by PGASI_AHEAD. The context notes how many of
 *  these raises are left, and the calls that follow use them up. So the counter may be too high, by
 *  up to PGASI_AHEAD - 1 for each context. What is left is taken back
 *  - by the owner: in its next round of progress, with its next call on another counter, and when
 *    the thread leaves;
 *  - by another thread that waits for the counter or tests it, if only that keeps it above zero.
 *
 *  The owner changes `left` by plain stores, and loads taken_by_other after each. The other thread
 *  sets taken_by_other, executes a barrier on all processors, reads left, lowers the counter by it,
 *  and says how many it took. The owner then corrects the counter by the change that the other
 *  thread did not see.
 *
 *  Counters with a function are not raised ahead, so no function runs late. */
#ifndef PGASI_AHEAD_H
#define PGASI_AHEAD_H

#include <stdbool.h>
#include <stdint.h>
#include "base/checks.h"
#include "base/sync.h"

#define PGASI_AHEAD 32

/** Of a context. */
typedef struct {
    pgas_sync_t *sync; /* of the last call; NULL: none since the last end */
    int64_t left;      /* raises that no call has used */
    /* 0; TAKES: another thread is about to take them back; TAKEN: it has taken `taken` of them, and
     * the owner has not noticed it yet */
    uint32_t taken_by_other;
    bool counted; /* in pgasi_sync_ahead */
    int64_t taken;
    uint64_t token; /* that names the counter in calls */
} pgasi_ahead_t;

/** The owner has changed left, and another thread has taken raises back: corrects the counter. */
void pgasi_ahead_correct(pgasi_ahead_t *a);

static inline bool pgasi_ahead_is_taken(const pgasi_ahead_t *a)
{
    return __atomic_load_n(&a->taken_by_other, __ATOMIC_RELAXED) != 0;
}

/** Uses a raise of this counter. @return false: none is left */
static inline bool pgasi_ahead_use(pgasi_ahead_t *a, const pgas_sync_t *sync)
{
    if (PGAS_UNLIKELY(a->sync != sync || a->left == 0 || pgasi_ahead_is_taken(a)))
        return false;
    __atomic_store_n(&a->left, a->left - 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (PGAS_UNLIKELY(pgasi_ahead_is_taken(a)))
        pgasi_ahead_correct(a);
    return true;
}

/** Raises the counter for one call or more. token: names the counter. */
void pgasi_ahead_raise(pgasi_ahead_t *a, pgas_sync_t *sync, uint64_t token);

/** Takes back what is left. */
void pgasi_ahead_end_slow(pgasi_ahead_t *a);
static inline void pgasi_ahead_end(pgasi_ahead_t *a)
{
    if (PGAS_UNLIKELY(a->sync != NULL))
        pgasi_ahead_end_slow(a);
}

/** Takes back what is left of a counter in all contexts, if only that keeps it above zero. Any
 *  thread. @return true: the counter has changed */
bool pgasi_ahead_take_back(const pgas_sync_t *sync);
/** Takes back all, for a thread that has announced its sleep: nothing may wake it when only what is
 *  left keeps its counter above zero. */
void pgasi_ahead_take_all(void);

#endif
