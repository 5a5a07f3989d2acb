/* Counters that are raised ahead: see ahead.h. ahead.pml models this protocol. */
#include "mem/ahead.h"

#include <sched.h>

#include "boot/boot.h"
#include "boot/wait.h"
#include "mem/ctx.h"
#include "mem/thread.h"

enum { TAKES = 1, TAKEN };

/* ---- by the owner ---- */

static void lower(pgas_sync_t *sync, int64_t n)
{
    if (n != 0 && __atomic_sub_fetch(&sync->count, n, __ATOMIC_ACQ_REL) <= 0)
        pgasi_sync_reached(sync, NULL, NULL);
}

/* Ends a series whose counter must still be lowered by n. */
static void end(pgasi_ahead_t *a, int64_t n)
{
    pgas_sync_t *sync = a->sync;
    __atomic_store_n(&a->left, 0, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (PGAS_UNLIKELY(pgasi_ahead_is_taken(a))) {
        while (__atomic_load_n(&a->taken_by_other, __ATOMIC_ACQUIRE) != TAKEN)
            sched_yield();
        n -= a->taken;
        __atomic_store_n(&a->taken_by_other, 0, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&a->sync, NULL, __ATOMIC_RELAXED);
    if (a->counted)
        __atomic_fetch_sub(&pgasi_sync_ahead, 1, __ATOMIC_RELAXED);
    a->counted = false;
    lower(sync, n);
}

void pgasi_ahead_correct(pgasi_ahead_t *a)
{
    end(a, a->left);
}

void pgasi_ahead_end_slow(pgasi_ahead_t *a)
{
    end(a, a->left);
}

/* A thread that sleeps would not be woken when only what is left keeps its counter above zero. */
static inline bool some_sleep(void)
{
    return __atomic_load_n(&pgasi_wakeups[pgasi_boot.node_rank]->sleepers, __ATOMIC_RELAXED) &
           (PGASI_WAKEUP_SERVICE - 1);
}

/* Without membarrier the owner would need a fence in each call. */
static inline bool may_raise_ahead(const pgasi_ahead_t *a, const pgas_sync_t *sync)
{
    return a->sync == sync && a->left == 0 && !sync->fn && !pgasi_ahead_is_taken(a) &&
           !pgasi_wait_light_is_fence && __atomic_load_n(&sync->count, __ATOMIC_RELAXED) >= 0 &&
           !some_sleep();
}

void pgasi_ahead_raise(pgasi_ahead_t *a, pgas_sync_t *sync, uint64_t token)
{
    bool again = may_raise_ahead(a, sync);
    if (!again)
        pgasi_ahead_end(a);
    __atomic_fetch_add(&sync->count, again ? PGASI_AHEAD : 1, __ATOMIC_RELAXED);
    a->token = token;
    __atomic_store_n(&a->sync, sync, __ATOMIC_RELAXED);
    if (!again)
        return;
    if (!a->counted)
        __atomic_fetch_add(&pgasi_sync_ahead, 1, __ATOMIC_RELAXED);
    a->counted = true;
    /* A thread that sees these raises also sees the counter, and that it was raised. */
    __atomic_store_n(&a->left, PGASI_AHEAD - 1, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    /* A thread may have announced its sleep meanwhile, and looked at left before the store. */
    if (PGAS_UNLIKELY(pgasi_ahead_is_taken(a) || some_sleep()))
        pgasi_ahead_correct(a);
}

/* ---- by another thread ---- */

static pgasi_ahead_t *ahead_of(int index)
{
    pgasi_ctx_t *ctx = __atomic_load_n(&pgasi_ctxs[index], __ATOMIC_ACQUIRE);
    return ctx && !pgasi_ahead_is_taken(&ctx->ahead) ? &ctx->ahead : NULL;
}

/* The raises of the counter that are left. */
static int64_t left_of(const pgasi_ahead_t *a, const pgas_sync_t *sync)
{
    int64_t left = a ? __atomic_load_n(&a->left, __ATOMIC_ACQUIRE) : 0;
    return left && __atomic_load_n(&a->sync, __ATOMIC_RELAXED) == sync ? left : 0;
}

static int64_t take(pgasi_ahead_t *a)
{
    uint32_t none = 0;
    if (!__atomic_compare_exchange_n(&a->taken_by_other, &none, TAKES, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return 0;
    pgasi_wait_heavy_barrier();
    int64_t left = __atomic_load_n(&a->left, __ATOMIC_ACQUIRE);
    lower(__atomic_load_n(&a->sync, __ATOMIC_RELAXED), left);
    a->taken = left;
    __atomic_store_n(&a->taken_by_other, TAKEN, __ATOMIC_RELEASE);
    return left;
}

static bool end_own(const pgas_sync_t *sync)
{
    bool some = pgasi_self.ctx && !pgasi_self.ctx->shared && left_of(&pgasi_self.ctx->ahead, sync);
    if (some)
        pgasi_ahead_end(&pgasi_self.ctx->ahead);
    return some;
}

bool pgasi_ahead_take_back(const pgas_sync_t *sync)
{
    bool changed = end_own(sync);
    int64_t left = 0;
    for (int i = PGASI_CTX_FIRST_OWN; i < pgasi_n_ctxs; i++)
        left += left_of(ahead_of(i), sync);
    if (left == 0 || __atomic_load_n(&sync->count, __ATOMIC_RELAXED) > left)
        return changed;
    for (int i = PGASI_CTX_FIRST_OWN; i < pgasi_n_ctxs; i++) {
        pgasi_ahead_t *a = ahead_of(i);
        changed |= left_of(a, sync) && take(a) > 0;
    }
    return changed;
}

void pgasi_ahead_take_all(void)
{
    for (int i = PGASI_CTX_FIRST_OWN; i < pgasi_n_ctxs; i++) {
        pgasi_ahead_t *a = ahead_of(i);
        if (a && __atomic_load_n(&a->left, __ATOMIC_RELAXED))
            take(a);
    }
}
