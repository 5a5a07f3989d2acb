/* Completion counters: see sync.h and pgas/sync.h. */
#include "mem/sync.h"

#include <stdlib.h>

#include "base/info_fill.h"
#include "base/log.h"
#include "base/param.h"
#include "base/spin.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "mem/thread.h"
#include "pgas/handler.h"

PGASI_STATIC_ASSERT(sizeof(pgas_sync_t) == 32 || sizeof(void *) != 8,
                    "programs hold counters of 32 bytes");

/* ---- inside the library ---- */

void pgasi_sync_reached(pgas_sync_t *sync, pgas_sync_fn_t fn, void *arg)
{
    if (fn)
        fn(sync, arg);
    if (PGAS_LIKELY(pgasi_running))
        pgasi_wake(pgasi_boot.node_rank);
}

void pgasi_sync_refuse(pgas_sync_t *sync, int64_t before)
{
    pgas_sync_fn_t fn = before > 0 ? sync->fn : NULL;
    void *arg = sync->arg;
    if (__atomic_sub_fetch(&sync->count, 1, __ATOMIC_ACQ_REL) == 0)
        pgasi_sync_reached(sync, fn, arg);
}

/* Functions that a thread under a context's lock could not run. Only counters with a function come
 * here, so an allocation for each is affordable. */
#define LEFT_SPINS 64
typedef struct left {
    struct left *next;
    pgas_sync_t *sync;
    pgas_sync_fn_t fn;
    void *arg;
} left_t;

static struct {
    int lock;
    left_t *first, **last;
} left = { 0, NULL, &left.first };
uint32_t pgasi_sync_n_left;

static void leave(pgas_sync_t *sync, pgas_sync_fn_t fn, void *arg)
{
    left_t *l = malloc(sizeof *l);
    if (!l)
        pgasi_fatal("sync", "no memory to run the function of a counter");
    *l = (left_t){ NULL, sync, fn, arg };
    pgasi_spin_lock(&left.lock, LEFT_SPINS);
    *left.last = l;
    left.last = &l->next;
    __atomic_store_n(&pgasi_sync_n_left, pgasi_sync_n_left + 1, __ATOMIC_RELEASE);
    pgasi_spin_unlock(&left.lock);
}

static left_t *take_left(void)
{
    pgasi_spin_lock(&left.lock, LEFT_SPINS);
    left_t *l = left.first;
    if (l) {
        left.first = l->next;
        if (!left.first)
            left.last = &left.first;
        __atomic_store_n(&pgasi_sync_n_left, pgasi_sync_n_left - 1, __ATOMIC_RELEASE);
    }
    pgasi_spin_unlock(&left.lock);
    return l;
}

int pgasi_sync_run_left(void)
{
    int n = 0;
    for (left_t *l; __atomic_load_n(&pgasi_sync_n_left, __ATOMIC_ACQUIRE) && (l = take_left());
         n++) {
        l->fn(l->sync, l->arg);
        free(l);
    }
    return n;
}

void pgasi_sync_lower_locked(pgas_sync_t *sync, pgas_status_t status, int rank,
                             pgas_operation_t operation, uint32_t handler)
{
    pgas_sync_fn_t fn = sync->fn;
    void *arg = sync->arg;
    if (PGAS_UNLIKELY(status != PGAS_OK))
        pgasi_sync_note(sync, pgasi_error_pack(status, rank, operation, handler));
    if (__atomic_sub_fetch(&sync->count, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    if (fn)
        leave(sync, fn, arg);
    pgasi_wake(pgasi_boot.node_rank);
}

/* ---- counts of the program ---- */

pgas_status_t pgas_sync_done(pgas_sync_t *sync, int64_t n)
{
    if (!sync || n < 0)
        return PGAS_ERR_INVALID;
    pgas_sync_fn_t fn = sync->fn;
    void *arg = sync->arg;
    int64_t now = __atomic_sub_fetch(&sync->count, n, __ATOMIC_ACQ_REL);
    if (now <= 0)
        pgasi_sync_reached(sync, now > -n ? fn : NULL, arg);
    return PGAS_OK;
}

pgas_status_t pgas_sync_info(const pgas_sync_t *sync, pgas_sync_info_t *info_p)
{
    if (!sync)
        return PGAS_ERR_INVALID;
    uint64_t error = __atomic_load_n(&sync->error, __ATOMIC_RELAXED);
    uint16_t handler = (uint16_t)(error >> 16);
    pgas_sync_info_t info = {
        .size = sizeof info,
        .status = pgasi_error_status(error),
        .rank = pgasi_error_rank(error),
        .operation = (pgas_operation_t)(error >> 32 & 0xFF),
        .handler = handler <= PGAS_HANDLERS_MAX ? handler : 0, /* otherwise the library's own */
    };
    return pgasi_info_fill(info_p, &info, sizeof info);
}

/* ---- waiting ---- */

static inline pgas_status_t state_of(const pgas_sync_t *sync)
{
    if (__atomic_load_n(&sync->count, __ATOMIC_ACQUIRE) > 0)
        return PGAS_INPROGRESS;
    return pgasi_error_status(__atomic_load_n(&sync->error, __ATOMIC_RELAXED));
}

/* When a job ends in which a rank has died, a handler may wait for an answer that never comes. */
static inline bool must_end(void)
{
    return PGAS_UNLIKELY(pgasi_self.in_task) && __atomic_load_n(&pgasi_leaving, __ATOMIC_ACQUIRE) &&
           pgasi_boot_some_dead();
}

/* A condition on n counters. @return PGAS_INPROGRESS: it does not hold yet */
typedef pgas_status_t (*look_fn_t)(pgas_sync_t *const *syncs, size_t n, size_t *index_p);

static pgas_status_t look_at_all(pgas_sync_t *const *syncs, size_t n, size_t *from)
{
    while (*from < n && (!syncs[*from] || state_of(syncs[*from]) != PGAS_INPROGRESS))
        ++*from;
    if (*from < n)
        return PGAS_INPROGRESS;
    for (size_t i = 0; i < n; i++) {
        pgas_status_t status = syncs[i] ? state_of(syncs[i]) : PGAS_OK;
        if (status != PGAS_OK && status != PGAS_INPROGRESS)
            return status;
    }
    return PGAS_OK;
}

static pgas_status_t look_at_any(pgas_sync_t *const *syncs, size_t n, size_t *index_p)
{
    for (size_t i = 0; i < n; i++) {
        pgas_status_t status = syncs[i] ? state_of(syncs[i]) : PGAS_INPROGRESS;
        if (status != PGAS_INPROGRESS) {
            *index_p = i;
            return status;
        }
    }
    return PGAS_INPROGRESS;
}

/* The answers that the counters still expect must not be written to them any more. */
static pgas_status_t give_up(pgas_sync_t *const *syncs, size_t n)
{
    for (size_t i = 0; pgasi_hooks.sync_forget && i < n; i++)
        if (syncs[i])
            pgasi_hooks.sync_forget(syncs[i]);
    return PGAS_ERR_PEER;
}

static pgas_status_t wait_until(look_fn_t look, pgas_sync_t *const *syncs, size_t n,
                                int64_t timeout_us, size_t *index_p)
{
    pgas_status_t status = look(syncs, n, index_p);
    if (status != PGAS_INPROGRESS)
        return status;
    status = timeout_us ? pgasi_thread_check_wait() : pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!timeout_us) {
        pgasi_hooks.progress();
        status = look(syncs, n, index_p);
        return status == PGAS_INPROGRESS ? PGAS_ERR_TIMEOUT : status;
    }
    uint64_t limit = pgasi_wait_limit(timeout_us);
    pgasi_wait_t w = PGASI_WAIT_INIT;
    bool ends = false;
    do {
        pgasi_wait_step(&w);
        status = look(syncs, n, index_p);
        ends = status == PGAS_INPROGRESS && must_end();
    } while (status == PGAS_INPROGRESS && !ends && !pgasi_wait_is_over(limit));
    pgasi_wait_end(&w);
    if (status != PGAS_INPROGRESS)
        return status;
    return ends ? give_up(syncs, n) : PGAS_ERR_TIMEOUT;
}

pgas_status_t pgas_sync_wait_far(pgas_sync_t *sync, int64_t timeout_us)
{
    size_t index;
    return sync ? wait_until(look_at_any, &sync, 1, timeout_us, &index) : PGAS_ERR_INVALID;
}

pgas_status_t pgas_sync_wait_all(pgas_sync_t *const *syncs, size_t n, int64_t timeout_us)
{
    size_t from = 0;
    return syncs || !n ? wait_until(look_at_all, syncs, n, timeout_us, &from) : PGAS_ERR_INVALID;
}

pgas_status_t pgas_sync_wait_any(pgas_sync_t *const *syncs, size_t n, int64_t timeout_us,
                                 size_t *index_p)
{
    size_t n_counters = 0;
    for (size_t i = 0; syncs && i < n; i++)
        n_counters += syncs[i] != NULL;
    if (!n_counters || !index_p)
        return PGAS_ERR_INVALID;
    return wait_until(look_at_any, syncs, n, timeout_us, index_p);
}

pgas_status_t pgas_sync_test(pgas_sync_t *sync)
{
    if (!sync)
        return PGAS_ERR_INVALID;
    pgas_status_t status = state_of(sync);
    if (status != PGAS_INPROGRESS || !pgasi_hooks.progress || pgasi_thread_check_wait() != PGAS_OK)
        return status;
    pgasi_hooks.progress();
    return state_of(sync);
}

pgas_status_t pgasi_sync_wait_own(pgas_sync_t *sync)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (state_of(sync) == PGAS_INPROGRESS)
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    return state_of(sync);
}
