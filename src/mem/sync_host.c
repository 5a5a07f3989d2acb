/* The functions of a job for completion counters (base/sync.h): progress, sleeps, and wakeups. */
#include "mem/sync_host.h"

#include "base/clock.h"
#include "base/sync.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "mem/ahead.h"
#include "mem/thread.h"

/* A thread that is not attached cannot make progress, but it can use groups. */
static inline pgas_status_t check(bool waits)
{
    pgas_status_t status = waits ? pgasi_thread_check_wait() : pgasi_thread_check();
    bool group_only = PGAS_UNLIKELY(status == PGAS_ERR_CONTEXT) && !pgasi_self.in_handler;
    return group_only && pgasi_pollers_exist() ? PGAS_OK : status;
}

/* When a job ends in which a rank has died, a handler may wait for an answer that never comes. */
static inline bool must_end(void)
{
    return PGAS_UNLIKELY(pgasi_self.in_task) && __atomic_load_n(&pgasi_leaving, __ATOMIC_ACQUIRE) &&
           pgasi_boot_some_dead();
}

static pgas_status_t wait_until(bool (*is_over)(void *arg), void *arg, int64_t timeout_us)
{
    bool always = timeout_us == PGASI_SYNC_ALWAYS;
    pgas_status_t status = always ? PGAS_OK : check(true);
    if (status != PGAS_OK)
        return status;
    if (PGAS_UNLIKELY(!pgasi_thread_attached()))
        return pgasi_pollers_wait(is_over, arg, timeout_us);
    uint64_t limit = timeout_us < 0 ? UINT64_MAX : pgasi_limit_ns(timeout_us);
    pgasi_wait_t w = PGASI_WAIT_INIT;
    for (;;) {
        pgasi_wait_step(&w);
        if (is_over(arg))
            break;
        if (must_end() && !always)
            status = PGAS_ERR_PEER;
        else if (pgasi_wait_is_over(limit))
            status = PGAS_ERR_TIMEOUT;
        else
            continue;
        break;
    }
    pgasi_wait_end(&w);
    return status;
}

static void forget(pgas_sync_t *sync)
{
    if (pgasi_hooks.sync_forget)
        pgasi_hooks.sync_forget(sync);
}

static void wake(void)
{
    pgasi_wake(pgasi_boot.node_rank);
}

void pgasi_sync_host_start(void)
{
    static const uint32_t always = 1; /* pgasi_wake executes a fence before it reads the flag */
    static pgasi_sync_host_t job = { NULL, check, wait_until, forget, pgasi_ahead_take_back,
                                     wake, NULL };
    job.wake_wanted =
        pgasi_wait_light_is_fence ? &always : &pgasi_wakeups[pgasi_boot.node_rank]->sleepers;
    job.progress = pgasi_hooks.progress;
    pgasi_sync_set_host(&job);
}

void pgasi_sync_host_stop(void)
{
    pgasi_sync_set_host(NULL);
}
