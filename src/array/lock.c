/* Locks of elements: the home keeps the queue (lock_queue.c); requests and answers are calls.
 *
 * Each rank records the locks of its own threads. It refuses a thread that asks for a lock
 * that it has, or releases a lock that it does not have, without a message. A release needs no
 * answer. The queue at the home is used while serving: by handlers, and by threads of the
 * home, which need no message.
 *
 * As with other locks (object/lock.c), a thread waits for one lock at a time. So the answer is
 * stored in its slot, and a number distinguishes the answer to its last request from late ones.
 * Every request is answered once. A request that is cancelled after a time-out is answered with
 * PGAS_ERR_TIMEOUT, unless the grant was already in flight. Requests of dead ranks are ignored. */
#include "array/lock.h"

#include <pthread.h>
#include <stdlib.h>

#include "array/lock_queue.h"
#include "array/registry.h"
#include "base/checks.h"
#include "base/clock.h"
#include "base/deaths.h"
#include "base/hash.h"
#include "base/log.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"
#include "call/progress.h"
#include "mem/ctx.h"
#include "mem/thread.h"

enum { ACQUIRE, TRY, CANCEL, RELEASE, ANSWER };

typedef struct {
    uint64_t index;
    uint32_t number; /* of the request */
    uint16_t array, slot;
    uint8_t op, writes;
    int16_t status;
    uint32_t unused;
} message_t;

/* ---- locks of this rank's threads ---- */

typedef struct {
    uint64_t index;
    uint32_t array; /* the array's number + 1; 0: empty */
    uint32_t slot;
} held_t;

static struct {
    pthread_mutex_t lock;
    held_t *at; /* [room], open addressing, at most half full */
    uint64_t n, room;
} held = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t first_position(const held_t *h)
{
    return pgasi_hash_combine((uint64_t)h->array << 32 | h->slot, h->index) & (held.room - 1);
}

/* The position of the lock, or the empty position where it belongs. */
static held_t *position_of(const held_t *h)
{
    uint64_t i = first_position(h);
    while (held.at[i].array && (held.at[i].index != h->index || held.at[i].array != h->array ||
                                held.at[i].slot != h->slot))
        i = (i + 1) & (held.room - 1);
    return &held.at[i];
}

static bool make_room(void)
{
    if (2 * (held.n + 1) <= held.room)
        return true;
    held_t *old = held.at;
    uint64_t n_old = held.room, room = held.room ? 2 * held.room : 64;
    held_t *wide = calloc(room, sizeof *wide);
    if (!wide)
        return false;
    held.at = wide;
    held.room = room;
    for (uint64_t i = 0; i < n_old; i++)
        if (old[i].array)
            *position_of(&old[i]) = old[i];
    free(old);
    return true;
}

static pgas_status_t remember(const held_t *h)
{
    pthread_mutex_lock(&held.lock);
    pgas_status_t status = make_room() ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    held_t *at = status == PGAS_OK ? position_of(h) : NULL;
    if (at && at->array)
        status = PGAS_ERR_DEADLOCK;
    else if (at) {
        *at = *h;
        held.n++;
    }
    pthread_mutex_unlock(&held.lock);
    return status;
}

/* Moves up entries that were stored behind the hole because their position was taken. So a
 * search may end at an empty position. */
static void close_hole(uint64_t hole)
{
    uint64_t mask = held.room - 1;
    for (uint64_t i = (hole + 1) & mask; held.at[i].array; i = (i + 1) & mask) {
        if (((i - first_position(&held.at[i])) & mask) >= ((i - hole) & mask)) {
            held.at[hole] = held.at[i];
            hole = i;
        }
    }
    held.at[hole].array = 0;
}

static bool forget(const held_t *h)
{
    pthread_mutex_lock(&held.lock);
    held_t *at = held.n ? position_of(h) : NULL;
    bool found = at && at->array;
    if (found) {
        close_hole((uint64_t)(at - held.at));
        held.n--;
    }
    pthread_mutex_unlock(&held.lock);
    return found;
}

bool pgasi_array_locks_held(uint32_t array, uint64_t *element_p)
{
    bool found = false;
    pthread_mutex_lock(&held.lock);
    for (uint64_t i = 0; i < held.room && !found; i++) {
        found = held.at[i].array == array + 1;
        if (found)
            *element_p = held.at[i].index;
    }
    pthread_mutex_unlock(&held.lock);
    return found;
}

/* ---- threads that wait ---- */

typedef struct {
    PGASI_ALIGNED(64) int32_t state; /* PGAS_INPROGRESS, or the answer */
    uint32_t number;
    int home;
} wait_t;

static struct {
    wait_t *wait;                   /* [PGAS_THREADS_MAX] by slot */
    pgasi_array_lock_queue_t queue; /* of the home; the thread is serving */
    uint32_t looks_left;            /* own requests before each of which the home polls */
} locks;

static void take_answer(int slot, uint32_t number, int home, pgas_status_t status)
{
    wait_t *w = &locks.wait[slot];
    if (__atomic_load_n(&w->state, __ATOMIC_ACQUIRE) != PGAS_INPROGRESS || w->number != number ||
        w->home != home)
        return;
    __atomic_store_n(&w->state, status > 0 ? PGAS_ERR_INTERNAL : status, __ATOMIC_RELEASE);
    pgasi_wake(pgasi_boot.node_rank);
}

/* ---- the home ---- */

/* The caller is serving. The function never waits. */
static void answer(const pgasi_array_lock_request_t *r, pgas_status_t status)
{
    int rank = pgas_thread_rank(r->thread), slot = pgas_thread_slot(r->thread);
    message_t m = { .index = r->index,
                    .number = r->number,
                    .array = (uint16_t)r->array,
                    .slot = (uint16_t)slot,
                    .op = ANSWER,
                    .writes = r->writes,
                    .status = (int16_t)status };
    if (rank == pgasi_boot.rank)
        take_answer(slot, r->number, rank, status);
    else
        pgasi_sendq_call(rank, PGASI_DESC_ARRAY_LOCK, &m, sizeof m, NULL, PGASI_FULL_ANSWER);
}

/* A request of the home's own threads needs no message. So it would overtake requests of other
 * ranks that have arrived and are not handled yet. The home polls before every LOOK_EVERY-th of
 * its own requests. After a request of another rank it polls before each of its next LOOKS
 * requests. */
enum { LOOK_EVERY = 64, LOOKS = 64 };

static bool look_is_due(void)
{
    static __thread uint32_t n_unlooked;
    uint32_t left = __atomic_load_n(&locks.looks_left, __ATOMIC_RELAXED);
    if (left > 0)
        __atomic_store_n(&locks.looks_left, left - 1, __ATOMIC_RELAXED);
    return left > 0 || ++n_unlooked % LOOK_EVERY == 0;
}

static void warn_stray(const pgasi_array_lock_request_t *r)
{
    static bool warned;
    if (!warned)
        PGASI_WARN(
            "array",
            "thread %d of rank %d releases a lock of element %llu that it does not have: ignored",
            pgas_thread_slot(r->thread), pgas_thread_rank(r->thread), (unsigned long long)r->index);
    warned = true;
}

/* The caller is serving. @return the answer, or PGAS_INPROGRESS: the answer follows, or there is
 * none. */
static pgas_status_t carry_out(int op, const pgasi_array_lock_request_t *r)
{
    if (op == CANCEL)
        return pgasi_array_lock_cancel(&locks.queue, r) ? PGAS_ERR_TIMEOUT : PGAS_INPROGRESS;
    if (op != RELEASE)
        return pgasi_array_lock_want(&locks.queue, r, op == TRY);
    if (!pgasi_array_lock_release(&locks.queue, r->array, r->index, r->thread))
        warn_stray(r);
    return PGAS_INPROGRESS;
}

static void on_message(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    message_t m;
    int rank = pgas_thread_rank(source);
    if (bytes != sizeof m)
        return;
    memcpy(&m, args, sizeof m);
    if (m.slot >= PGAS_THREADS_MAX || m.op > ANSWER || pgasi_boot_is_dead(rank))
        return;
    if (m.op == ANSWER) {
        take_answer(m.slot, m.number, rank, (pgas_status_t)m.status);
        return;
    }
    pgasi_array_lock_request_t r = { .index = m.index,
                                     .array = m.array,
                                     .number = m.number,
                                     .thread = pgas_thread_make(rank, m.slot),
                                     .writes = m.writes != 0 };
    if (m.op == ACQUIRE)
        __atomic_store_n(&locks.looks_left, LOOKS, __ATOMIC_RELAXED);
    pgas_status_t status = carry_out(m.op, &r);
    if (status != PGAS_INPROGRESS)
        answer(&r, status);
}

/* ---- requests ---- */

/* @return PGAS_OK: the request is sent, or the own home has answered it. */
static pgas_status_t send(int home, int op, const pgasi_array_lock_request_t *r)
{
    message_t m = { .index = r->index,
                    .number = r->number,
                    .array = (uint16_t)r->array,
                    .slot = (uint16_t)pgasi_self.slot,
                    .op = (uint8_t)op,
                    .writes = r->writes };
    if (home != pgasi_boot.rank)
        return pgasi_sendq_call(home, PGASI_DESC_ARRAY_LOCK, &m, sizeof m, NULL, PGAS_FULL_WAIT);
    pgasi_path_state_t before = pgasi_serve_begin();
    pgas_status_t status = carry_out(op, r);
    if (status != PGAS_INPROGRESS)
        answer(r, status);
    pgasi_serve_end(before);
    return PGAS_OK;
}

/* Waits until the answer arrives, the time is over, or a rank of the array's team has died. */
static pgas_status_t wait_for_answer(const pgasi_array_t *a, wait_t *mine, uint64_t limit)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    pgas_status_t status;
    while ((status = (pgas_status_t)__atomic_load_n(&mine->state, __ATOMIC_ACQUIRE)) ==
           PGAS_INPROGRESS) {
        if (pgasi_boot_some_dead() && pgasi_array_is_broken(a))
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

static pgas_status_t ask(const pgasi_array_t *a, pgasi_array_lock_request_t *r, int home,
                         int64_t timeout_us)
{
    uint64_t limit = timeout_us == 0 ? UINT64_MAX : pgasi_limit_ns(timeout_us);
    wait_t *mine = &locks.wait[pgasi_self.slot];
    if (home == pgasi_boot.rank && timeout_us != 0 && look_is_due())
        pgasi_progress();
    r->number = ++mine->number;
    mine->home = home;
    __atomic_store_n(&mine->state, PGAS_INPROGRESS, __ATOMIC_RELEASE);
    pgas_status_t status = send(home, timeout_us == 0 ? TRY : ACQUIRE, r);
    if (status == PGAS_OK)
        status = wait_for_answer(a, mine, limit);
    if (status == PGAS_ERR_TIMEOUT &&
        __atomic_load_n(&mine->state, __ATOMIC_ACQUIRE) == PGAS_INPROGRESS) {
        status = send(home, CANCEL, r);
        if (status == PGAS_OK)
            status = wait_for_answer(a, mine, UINT64_MAX);
    }
    __atomic_store_n(&mine->state, PGAS_ERR_INVALID,
                     __ATOMIC_RELAXED); /* answers that arrive from now on are late */
    return status;
}

static pgas_status_t check(const pgas_array_t *array, uint64_t i)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status == PGAS_OK && !array)
        status = PGAS_ERR_INVALID;
    if (status == PGAS_OK && pgasi_self.slot >= PGAS_THREADS_MAX)
        status = PGAS_ERR_CONTEXT;
    return status == PGAS_OK && i >= array->n_elems ? PGAS_ERR_RANGE : status;
}

static int home_of(const pgasi_array_t *a, uint64_t i)
{
    return a->global[pgasi_array_home_of(&a->map, i)];
}

static held_t own_lock(const pgasi_array_t *a, uint64_t i)
{
    return (held_t){ .index = i, .array = a->id + 1, .slot = (uint32_t)pgasi_self.slot };
}

static pgasi_array_lock_request_t own_request(const pgasi_array_t *a, uint64_t i, bool writes)
{
    return (pgasi_array_lock_request_t){ .index = i,
                                         .array = a->id,
                                         .thread =
                                             pgas_thread_make(pgasi_boot.rank, pgasi_self.slot),
                                         .writes = writes };
}

static pgas_status_t acquire(pgas_array_t *array, uint64_t i, bool writes, int64_t timeout_us)
{
    const pgasi_array_t *a = pgasi_array_of(array);
    if (pgasi_boot_some_dead() && pgasi_array_is_broken(a))
        return PGAS_ERR_PEER;
    held_t h = own_lock(a, i);
    pgasi_array_lock_request_t r = own_request(a, i, writes);
    pgas_status_t status = remember(&h);
    if (status != PGAS_OK)
        return status;
    status = ask(a, &r, home_of(a, i), timeout_us);
    if (status != PGAS_OK)
        forget(&h);
    return status;
}

/* ---- public functions ---- */

pgas_status_t pgas_array_lock(pgas_array_t *array, uint64_t i, pgas_array_mode_t mode,
                              int64_t timeout_us)
{
    pgas_status_t status = check(array, i);
    if (status == PGAS_OK && mode != PGAS_ARRAY_READ && mode != PGAS_ARRAY_WRITE)
        status = PGAS_ERR_INVALID;
    return status == PGAS_OK ? acquire(array, i, mode == PGAS_ARRAY_WRITE, timeout_us) : status;
}

pgas_status_t pgas_array_unlock(pgas_array_t *array, uint64_t i)
{
    pgas_status_t status = check(array, i);
    if (status != PGAS_OK)
        return status;
    const pgasi_array_t *a = pgasi_array_of(array);
    held_t h = own_lock(a, i);
    pgasi_array_lock_request_t r = own_request(a, i, false);
    return forget(&h) ? send(home_of(a, i), RELEASE, &r) : PGAS_ERR_INVALID;
}

/* ---- start and end ---- */

void pgasi_array_locks_end(const pgasi_array_t *a)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    for (bool some = true; some; some = some && !pgasi_array_is_broken(a)) {
        pgasi_path_state_t before = pgasi_serve_begin();
        some = pgasi_array_lock_in_use(&locks.queue, a->id);
        pgasi_serve_end(before);
        if (some)
            pgasi_wait_step(&w);
    }
    pgasi_wait_end(&w);
    pgasi_path_state_t before = pgasi_serve_begin();
    pgasi_array_lock_forget(&locks.queue, a->id);
    pgasi_serve_end(before);
}

static void drop_dead(int rank)
{
    pgasi_array_lock_drop_rank(&locks.queue, rank);
    for (uint32_t id = 1; id < pgasi_array_ids_end(); id++) {
        pgasi_array_t *a = pgasi_array_find(id);
        if (a && pgasi_array_is_broken(a))
            pgasi_array_cache_end_prefetches(a);
    }
}

pgas_status_t pgasi_array_locks_start(void)
{
    if (!locks.wait)
        locks.wait = pgasi_lazy_alloc(PGAS_THREADS_MAX * sizeof *locks.wait);
    if (!locks.wait)
        return PGAS_ERR_NO_MEMORY;
    locks.queue.report = answer;
    pgasi_array_lock_clear(&locks.queue);
    pthread_mutex_lock(&held.lock);
    free(held.at);
    held.at = NULL;
    held.n = held.room = 0;
    pthread_mutex_unlock(&held.lock);
    pgasi_handler_set_internal(PGASI_DESC_ARRAY_LOCK, on_message);
    pgasi_deaths_add(drop_dead);
    return PGAS_OK;
}
