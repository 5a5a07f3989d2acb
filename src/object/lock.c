/* Locks: the owner has the queue; requests and answers are calls.
 *
 * A thread waits for one lock at a time, so an answer names the thread's slot. A number
 * distinguishes the answer to this request from late answers. Every request is answered once: by
 * the lock, or by the reason why not. After a time-out the thread cancels its request. The owner
 * answers the cancellation, unless it has granted the lock before. So a thread that no longer waits
 * knows whether it has the lock, and the owner agrees. The owner ignores all requests of dead
 * ranks. */
#include "object/lock.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/waiters.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "msg/dispatch.h"
#include "object/named.h"
#include "msg/send_queue.h"
#include "msg/serve.h"
#include "mem/ctx.h"
#include "mem/thread.h"

enum { ACQUIRE, TRY, CANCEL, RELEASE, GRANTED, REFUSED };

typedef struct {
    pgas_lock_t lock;
    uint32_t number; /* of the request */
    uint16_t slot;   /* of the thread that asks */
    uint8_t op, broken;
    int32_t status;
    uint32_t unused;
} message_t;

typedef struct {
    bool held, broken;
    pgas_thread_t holder;
    pgasi_waiters_t waiters;
} lock_t;

/* A request of a thread of this rank. */
typedef struct {
    PGASI_ALIGNED(64) int32_t state; /* PGAS_INPROGRESS, or the answer */
    uint32_t number;
    int owner;
    bool broken;
} wait_t;

static struct {
    pgasi_named_t locks; /* of this rank */
    uint32_t n_waiting;  /* requests in their queues; atomic */
    wait_t *waits;       /* [PGAS_THREADS_MAX] by slot */
} state = { .locks = PGASI_NAMED_INIT(PGASI_NAMED_LOCK) };

/* ---- the owner ---- */

/* Table lock held. */
static void count_waiting(int64_t change)
{
    __atomic_store_n(&state.n_waiting, (uint32_t)(state.n_waiting + change), __ATOMIC_RELEASE);
}

uint32_t pgasi_locks_waiting(void)
{
    return __atomic_load_n(&state.n_waiting, __ATOMIC_ACQUIRE);
}

/* Runs in a handler, so it never waits. */
static void answer(pgas_lock_t lock, pgas_thread_t thread, uint32_t number, pgas_status_t status,
                   bool broken)
{
    uint8_t op = status == PGAS_OK ? GRANTED : REFUSED;
    message_t m = { lock, number, (uint16_t)pgas_thread_slot(thread), op, broken, status, 0 };
    pgasi_sendq_call(pgas_thread_rank(thread), PGASI_DESC_LOCK, &m, sizeof m, NULL,
                     PGASI_FULL_ANSWER);
}

static void grant(lock_t *l, pgas_lock_t name, pgas_thread_t thread, uint32_t number)
{
    l->held = true;
    l->holder = thread;
    answer(name, thread, number, PGAS_OK, l->broken);
    l->broken = false;
}

static void pass_on(lock_t *l, pgas_lock_t name)
{
    l->held = false;
    if (!l->waiters.first)
        return;
    pgasi_waiter_t next = pgasi_waiters_take(&l->waiters, NULL);
    count_waiting(-1);
    grant(l, name, next.thread, next.number);
}

static pgas_status_t want(lock_t *l, const message_t *m, pgas_thread_t thread)
{
    if (!l)
        return PGAS_ERR_NOT_FOUND;
    if (!l->held)
        return PGAS_OK;
    if (l->holder == thread)
        return PGAS_ERR_DEADLOCK;
    return m->op == TRY ? PGAS_ERR_BUSY : PGAS_INPROGRESS;
}

static void on_request(const message_t *m, pgas_thread_t thread)
{
    lock_t *l = pgasi_named_find(&state.locks, m->lock);
    pgas_status_t status = want(l, m, thread);
    if (status == PGAS_OK) {
        grant(l, m->lock, thread, m->number);
        return;
    }
    if (status == PGAS_INPROGRESS) {
        status = pgasi_waiters_add(&l->waiters, thread, m->number, true);
        if (status == PGAS_OK) {
            count_waiting(1);
            return;
        }
    }
    answer(m->lock, thread, m->number, status, false);
}

static void on_release(const message_t *m, pgas_thread_t thread)
{
    lock_t *l = pgasi_named_find(&state.locks, m->lock);
    if (l && l->held && l->holder == thread) {
        pass_on(l, m->lock);
        return;
    }
    static bool logged;
    if (!logged)
        PGASI_WARN("lock", "thread %d of rank %d releases a lock that it does not have: ignored",
                   pgas_thread_slot(thread), pgas_thread_rank(thread));
    logged = true;
}

static void on_cancel(lock_t *l, const message_t *m, pgas_thread_t thread)
{
    if (!pgasi_waiters_remove(&l->waiters, thread, m->number))
        return;
    count_waiting(-1);
    answer(m->lock, thread, m->number, PGAS_ERR_TIMEOUT, false);
}

/* ---- the thread that waits ---- */

static void on_answer(const message_t *m, int rank)
{
    wait_t *w = &state.waits[m->slot];
    if (__atomic_load_n(&w->state, __ATOMIC_ACQUIRE) != PGAS_INPROGRESS || w->number != m->number ||
        w->owner != rank)
        return;
    w->broken = m->broken;
    int32_t why_not = m->status < 0 ? m->status : PGAS_ERR_INTERNAL;
    __atomic_store_n(&w->state, m->op == GRANTED ? PGAS_OK : why_not, __ATOMIC_RELEASE);
    pgasi_wake(pgasi_boot.node_rank);
}

static void on_lock(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    message_t m;
    int rank = pgas_thread_rank(source);
    if (bytes != sizeof m)
        return;
    memcpy(&m, args, sizeof m);
    if (m.slot >= PGAS_THREADS_MAX)
        return;
    pgas_thread_t thread = pgas_thread_make(rank, m.slot);
    if (m.op >= GRANTED) {
        on_answer(&m, rank);
        return;
    }
    pthread_mutex_lock(&state.locks.lock);
    lock_t *l = m.op == CANCEL ? pgasi_named_find(&state.locks, m.lock) : NULL;
    if (pgasi_boot_is_dead(rank))
        ; /* it cannot have a lock */
    else if (m.op == RELEASE)
        on_release(&m, thread);
    else if (m.op != CANCEL)
        on_request(&m, thread);
    else if (l)
        on_cancel(l, &m, thread);
    pthread_mutex_unlock(&state.locks.lock);
}

static pgas_status_t send(pgas_lock_t lock, uint32_t number, uint8_t op)
{
    message_t m = { lock, number, (uint16_t)pgasi_self.slot, op, 0, 0, 0 };
    return pgasi_sendq_call(pgasi_named_rank(lock), PGASI_DESC_LOCK, &m, sizeof m, NULL,
                            PGAS_FULL_WAIT);
}

static pgas_status_t check(pgas_lock_t lock)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status == PGAS_OK && (!lock || pgasi_named_rank(lock) >= pgasi_boot.n_ranks))
        status = PGAS_ERR_INVALID;
    return status == PGAS_OK && pgasi_self.slot >= PGAS_THREADS_MAX ? PGAS_ERR_CONTEXT : status;
}

/* Waits until the answer has arrived, the time is over or the owner is dead. */
static pgas_status_t wait_for_answer(wait_t *mine, uint64_t limit)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    pgas_status_t status;
    while ((status = (pgas_status_t)__atomic_load_n(&mine->state, __ATOMIC_ACQUIRE)) ==
           PGAS_INPROGRESS) {
        if (pgasi_boot_is_dead(mine->owner))
            status = PGAS_ERR_PEER;
        else if (pgasi_wait_is_over(limit))
            status = PGAS_ERR_TIMEOUT;
        if (status != PGAS_INPROGRESS)
            break;
        pgasi_wait_step(&w);
    }
    pgasi_wait_end(&w);
    return status;
}

pgas_status_t pgas_lock_acquire(pgas_lock_t lock, int64_t timeout_us, bool *broken_p)
{
    pgas_status_t status = check(lock);
    if (status != PGAS_OK)
        return status;
    /* A try waits for the owner's answer, whenever it comes. */
    bool try_once = timeout_us == 0;
    uint64_t limit = try_once ? UINT64_MAX : pgasi_limit_ns(timeout_us);
    wait_t *mine = &state.waits[pgasi_self.slot];
    mine->number++;
    mine->owner = pgasi_named_rank(lock);
    __atomic_store_n(&mine->state, PGAS_INPROGRESS, __ATOMIC_RELEASE);
    status = send(lock, mine->number, try_once ? TRY : ACQUIRE);
    if (status == PGAS_OK)
        status = wait_for_answer(mine, limit);
    if (status == PGAS_ERR_TIMEOUT &&
        __atomic_load_n(&mine->state, __ATOMIC_ACQUIRE) == PGAS_INPROGRESS) {
        status = send(lock, mine->number, CANCEL);
        if (status == PGAS_OK)
            status = wait_for_answer(mine, UINT64_MAX);
    }
    __atomic_store_n(&mine->state, PGAS_ERR_INVALID,
                     __ATOMIC_RELAXED); /* later answers are ignored */
    if (status == PGAS_OK && broken_p)
        *broken_p = mine->broken;
    return status;
}

/* ---- public ---- */

pgas_status_t pgas_lock_create(pgas_lock_t *lock_p)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!lock_p)
        return PGAS_ERR_INVALID;
    lock_t *l = calloc(1, sizeof *l);
    if (!l)
        return PGAS_ERR_NO_MEMORY;
    pthread_mutex_lock(&state.locks.lock);
    status = pgasi_named_add(&state.locks, pgasi_boot.rank, l, lock_p);
    pthread_mutex_unlock(&state.locks.lock);
    if (status != PGAS_OK)
        free(l);
    return status;
}

pgas_status_t pgas_lock_destroy(pgas_lock_t lock)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (lock == 0)
        return PGAS_OK;
    if (pgasi_named_rank(lock) != pgasi_boot.rank)
        return PGAS_ERR_RANGE;
    pthread_mutex_lock(&state.locks.lock);
    lock_t *l = pgasi_named_find(&state.locks, lock);
    if (!l)
        status = PGAS_ERR_NOT_FOUND;
    else if (l->held)
        status = PGAS_ERR_BUSY;
    if (status == PGAS_OK) {
        pgasi_named_remove(&state.locks, lock);
        free(l);
    }
    pthread_mutex_unlock(&state.locks.lock);
    return status;
}

/* The owner itself releases without a message, so that it may destroy the lock at once. */
static void release_here(pgas_lock_t lock)
{
    message_t m = { lock, 0, (uint16_t)pgasi_self.slot, RELEASE, 0, 0, 0 };
    pgasi_path_state_t before = pgasi_serve_begin();
    pthread_mutex_lock(&state.locks.lock);
    on_release(&m, pgas_thread_make(pgasi_boot.rank, pgasi_self.slot));
    pthread_mutex_unlock(&state.locks.lock);
    pgasi_serve_end(before);
}

pgas_status_t pgas_lock_release(pgas_lock_t lock)
{
    pgas_status_t status = check(lock);
    if (status != PGAS_OK)
        return status;
    if (pgasi_named_rank(lock) != pgasi_boot.rank)
        return send(lock, 0, RELEASE);
    release_here(lock);
    return PGAS_OK;
}

/* ---- deaths, start and stop ---- */

/* Removes a dead rank from all queues. Locks that it held go to the next waiter. */
static void forget_dead(int rank)
{
    pgasi_path_state_t before = pgasi_serve_begin(); /* answers are sent as in a handler */
    pthread_mutex_lock(&state.locks.lock);
    for (uint32_t i = 0; i < state.locks.n; i++) {
        lock_t *l = state.locks.entry[i].thing;
        if (!l)
            continue;
        count_waiting(-(int64_t)pgasi_waiters_remove_rank(&l->waiters, rank));
        if (l->held && pgas_thread_rank(l->holder) == rank) {
            l->broken = true;
            pass_on(l, pgasi_named_name(&state.locks, pgasi_boot.rank, i));
        }
    }
    pthread_mutex_unlock(&state.locks.lock);
    pgasi_serve_end(before);
}

static void release_lock(void *thing)
{
    lock_t *l = thing;
    pgasi_waiters_clear(&l->waiters);
    free(l);
}

pgas_status_t pgasi_locks_start(void)
{
    state.waits = pgasi_lazy_alloc(PGAS_THREADS_MAX * sizeof *state.waits);
    pgasi_hooks.death_settled[PGASI_LAYER_OBJECT] = forget_dead;
    pgasi_handler_set_internal(PGASI_DESC_LOCK, on_lock);
    return state.waits ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_locks_stop(void)
{
    pgasi_named_clear(&state.locks, release_lock);
    state.n_waiting = 0;
    pgasi_lazy_free(state.waits, PGAS_THREADS_MAX * sizeof *state.waits);
    state.waits = NULL;
}
