/** A lock for sections of a few stores: an int that is 0 while no thread holds it. It is not fair,
 *  and a thread that holds it must not take it again. Locks that name their holder, because they
 *  are held again (array/grant.c) or by processes that may die (verbs_backend/snic/lock.c), are not
 *  of this kind. */
#ifndef PGASI_SPIN_H
#define PGASI_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/clock.h"

/** @return true: the calling thread holds the lock now. false: another one does. */
static inline bool pgasi_spin_try(int *lock)
{
    return __atomic_load_n(lock, __ATOMIC_RELAXED) == 0 &&
           __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) == 0;
}

/** Takes the lock. It tries n_spins times, then yields the processor between tries, because the
 *  holder may need it. */
static inline void pgasi_spin_lock(int *lock, uint32_t n_spins)
{
    uint32_t n = 0;
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
        while (__atomic_load_n(lock, __ATOMIC_RELAXED))
            if (n++ < n_spins)
                pgasi_cpu_relax();
            else
                sched_yield();
}

static inline void pgasi_spin_unlock(int *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
