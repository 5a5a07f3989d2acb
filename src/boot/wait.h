/** Waiting: a wait spins briefly, then yields, then sleeps. Wakeup flags end a sleep.
 *
 *  Every rank has a wakeup flag in the memory of its node. A thread that is about to sleep
 *  announces this in the flag, executes one membarrier (global expedited) and polls again. A thread
 *  that makes a change for which a rank may wait only stores the change. Then it reads the flag
 *  with a plain load and no fence: pgasi_wake().
 *
 *      pgasi_wait_t w = PGASI_WAIT_INIT;
 *      while (!condition)
 *          pgasi_wait_step(&w);
 *      pgasi_wait_end(&w);
 *
 *  Each step first runs the progress hook. Sleeps are futex waits of at most PGAS_NAP_MAX_US. So a
 *  wait also notices a change by code that wakes no thread (a plain store, MPI, a context). */
#ifndef PGASI_WAIT_H
#define PGASI_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/checks.h"
#include "base/clock.h"
#include "pgas/status.h"

typedef struct {
    _Alignas(64) uint32_t word; /* futex: changes with every wakeup of threads */
    /* bits 0..15: threads asleep on word; bit 16: the service thread is asleep in epoll */
    uint32_t sleepers;
    int32_t kick_fd;     /* the write end of the owner's kick pipe, as numbered in the owner */
    int32_t pid;         /* of the owner */
    uint32_t resting;    /* service threads that sleep, also those that only nap */
    uint32_t unreached;  /* a write to the pipe failed: no sleep may rely on kicks */
    uint64_t kick_inode; /* of the pipe, to recognise another file with that number */
} pgasi_wakeup_t;
#define PGASI_WAKEUP_SERVICE (1u << 16)

/** Around the sleep of the service thread: it announces the sleep, polls again, and sleeps in epoll
 *  on the kick pipe. It revokes the announcement when it is awake. */
void pgasi_wait_service_announce(void);
void pgasi_wait_service_revoke(void);

/** The wakeup flags by number. The number of a rank of the node is its node rank. For rank r of
 *  another node the number is node_size + r. Its entry is NULL until src/msg/far_channel.c has
 *  mapped that rank's channel memory. */
extern pgasi_wakeup_t **pgasi_wakeups;

typedef struct {
    uint32_t steps; /* unsuccessful polls since the last event */
    uint32_t word;  /* of the wakeup flag when the sleep was announced */
    uint64_t spin_until_ns, since_ns;
    bool announced, away;
} pgasi_wait_t;
#define PGASI_WAIT_INIT          \
    {                            \
        0, 0, 0, 0, false, false \
    }

/** Calls the work hook of the calling thread, once. A wait inside it does not call the hook
 *  again. */
int pgasi_wait_do_work(void);
void pgasi_wait_step(pgasi_wait_t *w);
void pgasi_wait_end_slow(pgasi_wait_t *w);
static inline void pgasi_wait_end(pgasi_wait_t *w)
{
    if (w->announced || w->away)
        pgasi_wait_end_slow(w);
}

static inline bool pgasi_wait_is_over(uint64_t limit)
{
    return limit != UINT64_MAX && pgasi_now_ns() > limit;
}

/** As step, but without progress, for callers that must not run handlers. Its sleeps are naps that
 *  no wakeup ends. It is not counted as asleep, because a wakeup would then reach a thread that
 *  does not serve. */
void pgasi_wait_step_quiet(pgasi_wait_t *w);

/** Set-up by boot once pgasi_wakeups is mapped: it registers with membarrier, opens the kick pipe
 *  and writes the own wakeup flag. All ranks of the node do so before any of them wakes another.
 *  Afterwards boot agrees on pgasi_wait_light_is_fence. */
pgas_status_t pgasi_wait_start(void);
void pgasi_wait_stop(void);
/** The read end of this rank's kick pipe, for the service thread's epoll; -1: there is none. */
int pgasi_wait_kick_fd(void);
/** Makes earlier stores of this thread visible to all ranks of the node before their later loads,
 *  and the reverse. */
void pgasi_wait_heavy_barrier(void);
/** True on all ranks if one of them lacks membarrier: then every wake executes a fence. */
extern bool pgasi_wait_light_is_fence;

/** Moves the wakeup flags of the node's ranks to memory that more ranks can map: wakeup_of[node
 *  rank]. Each owner has made its own before, of zeros. A thread that waits meanwhile wakes late,
 *  at the end of its nap. restore: the flags are where boot had them. */
void pgasi_wait_make_wakeup(pgasi_wakeup_t *wakeup);
pgas_status_t pgasi_wait_move_wakeups(pgasi_wakeup_t *const *wakeup_of);
void pgasi_wait_restore_wakeups(void);

void pgasi_wake_slow(int number);
/** Wakes the threads that sleep at that rank, never its service thread. @return true: it woke
 *  one */
bool pgasi_wake_threads(int number);
/** Wakes the service thread after a store that concerns it alone, also if other threads of the rank
 *  are awake. It executes a fence. */
void pgasi_wake_service(int number);
/** True if some rank could not wake this one: then the service thread must poll. */
bool pgasi_wait_is_unreached(void);
/** Around sleeps and naps of the service thread. Between begin and end it polls again. */
void pgasi_wait_service_rests(bool rests);
/** Wakes this rank's own service thread out of epoll. */
void pgasi_wait_kick_own(void);

/** Wakes a thread that sleeps at that rank, after the change was stored (release). Mostly it costs
 *  one load. */
static inline void pgasi_wake_at(const pgasi_wakeup_t *wakeup, int number)
{
    if (PGAS_UNLIKELY(pgasi_wait_light_is_fence))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (PGAS_UNLIKELY(__atomic_load_n(&wakeup->sleepers, __ATOMIC_RELAXED)))
        pgasi_wake_slow(number);
}
static inline void pgasi_wake(int number)
{
    pgasi_wake_at(pgasi_wakeups[number], number);
}

#endif
