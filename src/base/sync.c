/* Completion counters: see sync.h and pgas/sync.h. */
#include "base/sync.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/info_fill.h"
#include "base/log.h"
#include "base/spin.h"
#include "pgas/handler.h"

#define SPINS 64 /* of a lock, before the thread yields */

PGASI_STATIC_ASSERT(sizeof(pgas_sync_t) == 32 || sizeof(void *) != 8,
                    "programs hold counters of 32 bytes");

uint32_t pgasi_sync_work, pgasi_sync_ahead;
static const pgasi_sync_host_t lone, *host = &lone;
static const uint32_t *wake_wanted; /* of the host */

/* ---- inside the library ---- */

/* The change that threads wait for has been stored. boot/wait.c says why a plain load is enough. */
static inline void wake(void)
{
    const uint32_t *wanted = __atomic_load_n(&wake_wanted, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (PGAS_LIKELY(wanted) && PGAS_UNLIKELY(__atomic_load_n(wanted, __ATOMIC_RELAXED)))
        __atomic_load_n(&host, __ATOMIC_ACQUIRE)->wake();
}

/* A poll may lower many counters; one wakeup at its end is enough. */
static __thread struct {
    bool polls, wakes;
} this_thread __attribute__((tls_model("initial-exec")));

void pgasi_sync_reached(pgas_sync_t *sync, pgas_sync_fn_t fn, void *arg)
{
    if (fn)
        fn(sync, arg);
    wake();
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

static void leave(pgas_sync_t *sync, pgas_sync_fn_t fn, void *arg)
{
    left_t *l = malloc(sizeof *l);
    if (!l)
        pgasi_fatal("sync", "no memory to run the function of a counter");
    *l = (left_t){ NULL, sync, fn, arg };
    pgasi_spin_lock(&left.lock, SPINS);
    *left.last = l;
    left.last = &l->next;
    __atomic_fetch_add(&pgasi_sync_work, 1, __ATOMIC_RELEASE);
    pgasi_spin_unlock(&left.lock);
}

static left_t *take_left(void)
{
    pgasi_spin_lock(&left.lock, SPINS);
    left_t *l = left.first;
    if (l) {
        left.first = l->next;
        if (!left.first)
            left.last = &left.first;
        __atomic_fetch_sub(&pgasi_sync_work, 1, __ATOMIC_RELEASE);
    }
    pgasi_spin_unlock(&left.lock);
    return l;
}

int pgasi_sync_run_left(void)
{
    int n = 0;
    for (left_t *l; pgasi_sync_some_left() && (l = take_left()); n++) {
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
    if (this_thread.polls)
        this_thread.wakes = true;
    else
        wake();
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

/* ---- waits without a job ---- */

#define FREE_LOOKS 64 /* polls before the first look at the clock */
#define SPIN_US    20
#define NAP_MIN_US 50
#define NAP_SHARE  16 /* a nap is at most this fraction of the time waited so far */

/* A function of a counter runs on this thread. */
static __thread bool in_function __attribute__((tls_model("initial-exec")));

/* Only pollers lower counters without the program. */
static pgas_status_t lone_check(bool waits)
{
    if (!pgasi_pollers_exist())
        return PGAS_ERR_NOT_INIT;
    return waits && in_function ? PGAS_ERR_CONTEXT : PGAS_OK;
}

/* Functions that are left in a job are for its threads. */
static int lone_progress(void)
{
    int n = pgasi_pollers_poll();
    if (pgasi_sync_some_left() && !in_function &&
        __atomic_load_n(&host, __ATOMIC_RELAXED) == &lone) {
        in_function = true;
        n += pgasi_sync_run_left();
        in_function = false;
    }
    return n;
}

static void pause_for(uint64_t waited_us)
{
    uint64_t nap_us = PGASI_MAX(PGASI_MIN(waited_us / NAP_SHARE, PGASI_POLLERS_NAP_US), NAP_MIN_US);
    struct timespec nap = { 0, (long)nap_us * 1000 };
    if (waited_us < SPIN_US)
        pgasi_cpu_relax();
    else if (!pgasi_pollers_sleep(waited_us))
        nanosleep(&nap, NULL);
}

pgas_status_t pgasi_pollers_wait(bool (*is_over)(void *arg), void *arg, int64_t timeout_us)
{
    uint64_t now = pgasi_now_ns(), since = now, limit = pgasi_limit_ns(timeout_us);
    for (uint32_t n_steps = 0; !is_over(arg); n_steps++) {
        if (now > limit)
            return PGAS_ERR_TIMEOUT;
        if (lone_progress() > 0)
            n_steps = 0;
        if (n_steps == 0)
            since = now;
        if (n_steps < FREE_LOOKS)
            continue;
        now = pgasi_now_ns();
        pause_for((now - since) / 1000);
    }
    return PGAS_OK;
}

static pgas_status_t lone_wait(bool (*is_over)(void *arg), void *arg, int64_t timeout_us)
{
    pgas_status_t status = timeout_us == PGASI_SYNC_ALWAYS ? PGAS_OK : lone_check(true);
    return status == PGAS_OK ? pgasi_pollers_wait(is_over, arg, timeout_us) : status;
}

static void lone_wake(void)
{
}

static const pgasi_sync_host_t lone = { lone_progress, lone_check, lone_wait, NULL,
                                        NULL,          lone_wake,  NULL };

void pgasi_sync_set_host(const pgasi_sync_host_t *job)
{
    __atomic_store_n(&wake_wanted, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&host, job ? job : &lone, __ATOMIC_RELEASE);
    __atomic_store_n(&wake_wanted, host->wake_wanted, __ATOMIC_RELEASE);
}

/* ---- pollers ---- */

#define YIELD_US       1000  /* without a sleep function: a wait yields for this time */
#define SLEEP_MIN_US   500   /* completions end it early */
#define SLEEP_ALONE_US 10000 /* of the only poller */

static struct {
    int lock;
    pgasi_poller_t *first;
    int n_sleepers; /* with a sleep function */
} pollers;

void pgasi_poller_add(pgasi_poller_t *poller)
{
    pgasi_spin_lock(&pollers.lock, SPINS);
    __atomic_fetch_add(&pollers.n_sleepers, poller->sleep != NULL, __ATOMIC_RELAXED);
    poller->next = pollers.first;
    poller->n_asleep = 0;
    pollers.first = poller;
    __atomic_fetch_or(&pgasi_sync_work, PGASI_SYNC_POLLERS, __ATOMIC_RELEASE);
    pgasi_spin_unlock(&pollers.lock);
}

void pgasi_poller_remove(pgasi_poller_t *poller)
{
    pgasi_spin_lock(&pollers.lock, SPINS);
    pgasi_poller_t **p = &pollers.first;
    while (*p && *p != poller)
        p = &(*p)->next;
    if (*p) {
        *p = poller->next;
        __atomic_fetch_sub(&pollers.n_sleepers, poller->sleep != NULL, __ATOMIC_RELAXED);
    }
    if (!pollers.first)
        __atomic_fetch_and(&pgasi_sync_work, ~PGASI_SYNC_POLLERS, __ATOMIC_RELAXED);
    pgasi_spin_unlock(&pollers.lock);
    while (__atomic_load_n(&poller->n_asleep, __ATOMIC_ACQUIRE))
        sched_yield();
}

int pgasi_pollers_poll(void)
{
    int n = 0;
    if (!pgasi_pollers_exist() || !pgasi_spin_try(&pollers.lock))
        return 0;
    this_thread.polls = true;
    for (pgasi_poller_t *p = pollers.first; p; p = p->next)
        n += p->poll(p->arg);
    this_thread.polls = false;
    pgasi_spin_unlock(&pollers.lock);
    if (this_thread.wakes) {
        this_thread.wakes = false;
        wake();
    }
    return n;
}

/* A sleep in one poller detects no event of another one, so it is short if there are several. */
static pgasi_poller_t *enter_sleep(bool *alone_p)
{
    pgasi_spin_lock(&pollers.lock, SPINS);
    pgasi_poller_t *p = pollers.first;
    *alone_p = p && !p->next;
    while (p && !p->sleep)
        p = p->next;
    if (p)
        __atomic_fetch_add(&p->n_asleep, 1, __ATOMIC_RELAXED);
    pgasi_spin_unlock(&pollers.lock);
    return p;
}

bool pgasi_pollers_can_sleep(void)
{
    return pgasi_pollers_exist() && __atomic_load_n(&pollers.n_sleepers, __ATOMIC_RELAXED) > 0;
}

bool pgasi_pollers_sleep(uint64_t waited_us)
{
    bool alone;
    pgasi_poller_t *p = enter_sleep(&alone);
    if (p) {
        uint64_t most = alone ? SLEEP_ALONE_US : PGASI_POLLERS_NAP_US;
        uint64_t us = PGASI_MAX(PGASI_MIN(waited_us / NAP_SHARE, most), SLEEP_MIN_US);
        p->sleep(p->arg, (int64_t)us);
        __atomic_fetch_sub(&p->n_asleep, 1, __ATOMIC_RELEASE);
    } else if (waited_us < YIELD_US) {
        sched_yield();
    } else {
        return false;
    }
    return true;
}

/* ---- waiting ---- */

/* Takes back what is left of raises ahead. @return whether only that kept the counter above zero */
static __attribute__((noinline)) bool is_left_only(const pgas_sync_t *sync)
{
    return host->take_back && host->take_back(sync) &&
           __atomic_load_n(&sync->count, __ATOMIC_ACQUIRE) <= 0;
}

static inline pgas_status_t state_of(const pgas_sync_t *sync)
{
    if (__atomic_load_n(&sync->count, __ATOMIC_ACQUIRE) > 0 &&
        (PGAS_LIKELY(!__atomic_load_n(&pgasi_sync_ahead, __ATOMIC_ACQUIRE)) || !is_left_only(sync)))
        return PGAS_INPROGRESS;
    return pgasi_error_status(__atomic_load_n(&sync->error, __ATOMIC_RELAXED));
}

/* A wait for one or all of n counters. */
typedef struct waited {
    /* @return PGAS_INPROGRESS: the condition does not hold yet */
    pgas_status_t (*look)(struct waited *w);
    pgas_sync_t *const *syncs;
    size_t n, index; /* index: the first one that may be above zero; any: the one that is zero */
    pgas_status_t status;
} waited_t;

static pgas_status_t look_at_all(waited_t *w)
{
    while (w->index < w->n &&
           (!w->syncs[w->index] || state_of(w->syncs[w->index]) != PGAS_INPROGRESS))
        w->index++;
    if (w->index < w->n)
        return PGAS_INPROGRESS;
    for (size_t i = 0; i < w->n; i++) {
        pgas_status_t status = w->syncs[i] ? state_of(w->syncs[i]) : PGAS_OK;
        if (status != PGAS_OK && status != PGAS_INPROGRESS)
            return status;
    }
    return PGAS_OK;
}

static pgas_status_t look_at_any(waited_t *w)
{
    for (size_t i = 0; i < w->n; i++) {
        pgas_status_t status = w->syncs[i] ? state_of(w->syncs[i]) : PGAS_INPROGRESS;
        if (status != PGAS_INPROGRESS) {
            w->index = i;
            return status;
        }
    }
    return PGAS_INPROGRESS;
}

static bool is_over(void *arg)
{
    waited_t *w = arg;
    w->status = w->look(w);
    return w->status != PGAS_INPROGRESS;
}

static pgas_status_t wait_for(bool (*over)(void *arg), void *arg, int64_t timeout_us)
{
    if (timeout_us)
        return host->wait(over, arg, PGASI_MAX(timeout_us, -1));
    pgas_status_t status = host->check(false);
    if (status != PGAS_OK)
        return status;
    host->progress();
    return over(arg) ? PGAS_OK : PGAS_ERR_TIMEOUT;
}

/* The answers that the counters still expect must not be written to them any more. */
static void give_up(pgas_sync_t *const *syncs, size_t n)
{
    for (size_t i = 0; host->forget && i < n; i++)
        if (syncs[i])
            host->forget(syncs[i]);
}

static pgas_status_t wait_until(waited_t *w, int64_t timeout_us)
{
    pgas_status_t status = is_over(w) ? PGAS_OK : wait_for(is_over, w, timeout_us);
    if (status == PGAS_ERR_PEER)
        give_up(w->syncs, w->n);
    return status == PGAS_OK ? w->status : status;
}

/* A wait for one counter. */
typedef struct {
    const pgas_sync_t *sync;
    pgas_status_t status;
} one_t;

static bool is_zero(void *arg)
{
    one_t *one = arg;
    one->status = state_of(one->sync);
    return one->status != PGAS_INPROGRESS;
}

static __attribute__((noinline)) pgas_status_t wait_for_one(pgas_sync_t *sync, int64_t timeout_us)
{
    one_t one = { sync, PGAS_INPROGRESS };
    pgas_status_t status = wait_for(is_zero, &one, timeout_us);
    if (status == PGAS_ERR_PEER)
        give_up(&sync, 1);
    return status == PGAS_OK ? one.status : status;
}

pgas_status_t pgas_sync_wait_far(pgas_sync_t *sync, int64_t timeout_us)
{
    pgas_status_t status = sync ? state_of(sync) : PGAS_ERR_INVALID;
    return status == PGAS_INPROGRESS ? wait_for_one(sync, timeout_us) : status;
}

pgas_status_t pgas_sync_wait_all(pgas_sync_t *const *syncs, size_t n, int64_t timeout_us)
{
    waited_t w = { look_at_all, syncs, n, 0, PGAS_INPROGRESS };
    return syncs || !n ? wait_until(&w, timeout_us) : PGAS_ERR_INVALID;
}

pgas_status_t pgas_sync_wait_any(pgas_sync_t *const *syncs, size_t n, int64_t timeout_us,
                                 size_t *index_p)
{
    size_t n_counters = 0;
    for (size_t i = 0; syncs && i < n; i++)
        n_counters += syncs[i] != NULL;
    if (!n_counters || !index_p)
        return PGAS_ERR_INVALID;
    waited_t w = { look_at_any, syncs, n, 0, PGAS_INPROGRESS };
    pgas_status_t status = wait_until(&w, timeout_us);
    if (w.status != PGAS_INPROGRESS)
        *index_p = w.index;
    return status;
}

pgas_status_t pgas_sync_test(pgas_sync_t *sync)
{
    if (!sync)
        return PGAS_ERR_INVALID;
    pgas_status_t status = state_of(sync);
    if (status != PGAS_INPROGRESS)
        return status;
    host->progress();
    return state_of(sync);
}

int pgasi_sync_progress(void)
{
    return host->progress();
}

pgas_status_t pgasi_sync_check_wait(void)
{
    return host->check(true);
}

pgas_status_t pgasi_sync_wait_own(pgas_sync_t *sync)
{
    one_t one = { sync, PGAS_OK };
    if (!is_zero(&one))
        host->wait(is_zero, &one, PGASI_SYNC_ALWAYS);
    return one.status;
}
