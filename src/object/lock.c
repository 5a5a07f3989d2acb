/* Locks: a word in the owner's heap for the ranks of its node, and a queue at the owner.
 *
 * The word says which thread has the lock. A thread of the node takes a free lock, and releases one
 * for which nobody waits, by one compare-and-swap. All others send requests to the owner. The owner
 * marks the word as QUEUED while threads wait, so that the holder's release is a request, too, and
 * nobody overtakes the queue. The word has the generation of the lock's name: words of other locks
 * never match. A thread learns where the word is with the answer to its first request.
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
#include "base/deaths.h"
#include "base/log.h"
#include "base/waiters.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "msg/dispatch.h"
#include "object/named.h"
#include "msg/send_queue.h"
#include "msg/serve.h"
#include "mem/ctx.h"
#include "mem/segment.h"
#include "mem/thread.h"

enum { ACQUIRE, TRY, CANCEL, RELEASE, GRANTED, REFUSED };

typedef struct {
    pgas_lock_t lock;
    uint32_t number; /* of the request */
    uint16_t slot;   /* of the thread that asks */
    uint8_t op, broken;
    int32_t status;
    uint32_t unused;
    pgas_gptr_t word; /* of the lock, in answers; PGAS_NULL: unknown */
} message_t;

/* Bits of a lock's word: of a free one only the generation. */
#define QUEUED           UINT64_C(1) /* only the owner changes the word */
#define HELD             UINT64_C(2)
#define THREAD_SHIFT     2
#define GENERATION_SHIFT 40

typedef struct {
    uint64_t *word;
    pgas_gptr_t ptr; /* of the word; PGAS_NULL: the word is not in the heap */
    uint64_t own_word;
    bool broken; /* the last holder died; QUEUED is set */
    pgasi_waiters_t waiters;
} lock_t;

/* Where a thread of the node finds the word of a lock that it had before. */
typedef struct {
    pgas_lock_t lock; /* 0: none */
    uint64_t *word;
} known_t;
#define N_KNOWN 8

/* Looks at a lock that another thread of the node has, before the owner is asked: some us. */
#define LOOKS 50

/* A request of a thread of this rank. */
typedef struct {
    PGASI_ALIGNED(64) int32_t state; /* PGAS_INPROGRESS, or the answer */
    uint32_t number;
    int owner;
    bool broken;
    pgas_gptr_t word;
    known_t known[N_KNOWN];
} wait_t;

static struct {
    pgasi_named_t locks; /* of this rank */
    uint32_t n_waiting;  /* requests in their queues; atomic */
    wait_t *waits;       /* [PGAS_THREADS_MAX] by slot */
    uint64_t *chunks;    /* of cells, in the heap; 0: none */
    uint32_t n_chunks;
} state = { .locks = PGASI_NAMED_INIT(PGASI_NAMED_LOCK) };

/* ---- words ---- */

/* The word of a free lock with this name. */
static inline uint64_t free_word(pgas_lock_t lock)
{
    return lock >> 20 << GENERATION_SHIFT;
}

static inline uint64_t held_word(pgas_lock_t lock, pgas_thread_t thread)
{
    return free_word(lock) | (uint64_t)thread << THREAD_SHIFT | HELD;
}

static inline bool change(uint64_t *word, uint64_t from, uint64_t to)
{
    return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static inline uint64_t look(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

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

/* Words have a line each, and stay where they are: a thread that knows a destroyed lock may still
 * look at its word. */
typedef struct {
    PGASI_ALIGNED(64) uint64_t word;
} cell_t;
#define CELLS 64 /* taken from the heap at a time */

/* Finds the word for the lock with this name, or makes one. Without memory in the heap the lock has
 * a word that only the owner uses. */
static void place_word(lock_t *l, pgas_lock_t name)
{
    uint32_t index = (uint32_t)(name & (PGASI_NAMED_MAX - 1)), i = index / CELLS;
    l->word = &l->own_word;
    l->ptr = PGAS_NULL;
    if (i >= state.n_chunks) {
        uint64_t *grown = realloc(state.chunks, (i + 1) * sizeof *grown);
        if (!grown)
            return;
        memset(grown + state.n_chunks, 0, (i + 1 - state.n_chunks) * sizeof *grown);
        state.chunks = grown;
        state.n_chunks = i + 1;
    }
    uint64_t offset;
    if (!state.chunks[i] && pgasi_heap_take(CELLS * sizeof(cell_t), 64, &offset) == PGAS_OK)
        state.chunks[i] = PGASI_HEAP_OFFSET + offset;
    if (!state.chunks[i])
        return;
    l->ptr = pgas_gptr_make(pgasi_boot.rank, state.chunks[i]) + index % CELLS * sizeof(cell_t);
    l->word = pgas_gptr_local(l->ptr, sizeof *l->word);
}

/* Runs in a handler, so it never waits. l may be NULL. */
static void answer(const lock_t *l, pgas_lock_t lock, pgas_thread_t thread, uint32_t number,
                   pgas_status_t status)
{
    bool granted = status == PGAS_OK;
    message_t m = { .lock = lock,
                    .number = number,
                    .slot = (uint16_t)pgas_thread_slot(thread),
                    .op = granted ? GRANTED : REFUSED,
                    .broken = granted && l->broken,
                    .status = status,
                    .word = granted ? l->ptr : PGAS_NULL };
    pgasi_sendq_call(pgas_thread_rank(thread), PGASI_DESC_LOCK, &m, sizeof m, NULL,
                     PGASI_FULL_ANSWER);
}

/* Nobody else changes the word now: it is QUEUED, or held by this thread. */
static void grant(lock_t *l, pgas_lock_t name, pgas_thread_t thread, uint32_t number)
{
    uint64_t queued = l->waiters.first ? QUEUED : 0;
    __atomic_store_n(l->word, held_word(name, thread) | queued, __ATOMIC_RELEASE);
    answer(l, name, thread, number, PGAS_OK);
    l->broken = false;
}

/* The holder has released the lock, or is dead. A lock of a dead holder for which nobody waits is
 * free and QUEUED, so that its next holder asks the owner, which reports it. */
static void pass_on(lock_t *l, pgas_lock_t name)
{
    if (!l->waiters.first) {
        __atomic_store_n(l->word, free_word(name) | (l->broken ? QUEUED : 0), __ATOMIC_RELEASE);
        return;
    }
    pgasi_waiter_t next = pgasi_waiters_take(&l->waiters, NULL);
    count_waiting(-1);
    grant(l, name, next.thread, next.number);
}

/* @return PGAS_OK: the thread may have it; PGAS_INPROGRESS: the word is QUEUED */
static pgas_status_t want(lock_t *l, const message_t *m, pgas_thread_t thread)
{
    if (!l)
        return PGAS_ERR_NOT_FOUND;
    uint64_t free_now = free_word(m->lock), mine = held_word(m->lock, thread);
    while (true) {
        uint64_t word = look(l->word);
        if (word == (free_now | QUEUED) || (word == free_now && change(l->word, free_now, mine)))
            return PGAS_OK;
        if (word == free_now)
            continue;
        if ((word & ~QUEUED) == mine)
            return PGAS_ERR_DEADLOCK;
        if (m->op == TRY)
            return PGAS_ERR_BUSY;
        if (word & QUEUED || change(l->word, word, word | QUEUED))
            return PGAS_INPROGRESS;
    }
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
    answer(l, m->lock, thread, m->number, status);
}

static void on_release(const message_t *m, pgas_thread_t thread)
{
    lock_t *l = pgasi_named_find(&state.locks, m->lock);
    if (l && (look(l->word) & ~QUEUED) == held_word(m->lock, thread)) {
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
    answer(l, m->lock, thread, m->number, PGAS_ERR_TIMEOUT);
}

/* ---- the thread that waits ---- */

static void on_answer(const message_t *m, int rank)
{
    wait_t *w = &state.waits[m->slot];
    if (__atomic_load_n(&w->state, __ATOMIC_ACQUIRE) != PGAS_INPROGRESS || w->number != m->number ||
        w->owner != rank)
        return;
    w->broken = m->broken;
    w->word = m->word;
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
    message_t m = { lock, number, (uint16_t)pgasi_self.slot, op, 0, 0, 0, 0 };
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

/* The word of a lock that this thread had before; NULL: not known. */
static inline uint64_t *word_of(const wait_t *mine, pgas_lock_t lock)
{
    const known_t *known = &mine->known[lock % N_KNOWN];
    return known->lock == lock ? known->word : NULL;
}

static void learn(wait_t *mine, pgas_lock_t lock)
{
    pgas_gptr_t ptr = mine->word;
    if (pgas_gptr_rank(ptr) != mine->owner || ptr % sizeof(uint64_t))
        return;
    uint64_t *word = pgas_gptr_local(ptr, sizeof *word);
    if (word)
        mine->known[lock % N_KNOWN] = (known_t){ lock, word };
}

/* Takes a lock of the node by its word. @return PGAS_INPROGRESS: the owner must be asked */
static pgas_status_t take(uint64_t *word, pgas_lock_t lock, bool try_once)
{
    uint64_t free_now = free_word(lock),
             mine = held_word(lock, pgas_thread_make(pgasi_boot.rank, pgasi_self.slot));
    for (int i = 0; i < LOOKS; i++) {
        uint64_t now = look(word);
        if (now == free_now && change(word, free_now, mine))
            return PGAS_OK;
        if (now == mine)
            return PGAS_ERR_DEADLOCK;
        if (now & QUEUED || (now ^ free_now) >> GENERATION_SHIFT)
            break;
        if (try_once && now & HELD)
            return PGAS_ERR_BUSY;
        pgasi_cpu_relax();
    }
    return PGAS_INPROGRESS;
}

static pgas_status_t ask(wait_t *mine, pgas_lock_t lock, int64_t timeout_us)
{
    /* A try waits for the owner's answer, whenever it comes. */
    bool try_once = timeout_us == 0;
    uint64_t limit = try_once ? UINT64_MAX : pgasi_limit_ns(timeout_us);
    mine->number++;
    mine->owner = pgasi_named_rank(lock);
    __atomic_store_n(&mine->state, PGAS_INPROGRESS, __ATOMIC_RELEASE);
    pgas_status_t status = send(lock, mine->number, try_once ? TRY : ACQUIRE);
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
    return status;
}

pgas_status_t pgas_lock_acquire(pgas_lock_t lock, int64_t timeout_us, bool *broken_p)
{
    pgas_status_t status = check(lock);
    if (status != PGAS_OK)
        return status;
    wait_t *mine = &state.waits[pgasi_self.slot];
    uint64_t *word = word_of(mine, lock);
    bool broken = false;
    status = word && !pgasi_boot_is_dead(pgasi_named_rank(lock)) ? take(word, lock, timeout_us == 0)
                                                                 : PGAS_INPROGRESS;
    if (status == PGAS_INPROGRESS) {
        status = ask(mine, lock, timeout_us);
        if (status == PGAS_OK && !word)
            learn(mine, lock);
        broken = mine->broken;
    }
    if (status == PGAS_OK && broken_p)
        *broken_p = broken;
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
    pgas_lock_t name = 0;
    lock_t *l = calloc(1, sizeof *l);
    if (!l)
        return PGAS_ERR_NO_MEMORY;
    pthread_mutex_lock(&state.locks.lock);
    status = pgasi_named_add(&state.locks, pgasi_boot.rank, l, &name);
    if (status == PGAS_OK) {
        place_word(l, name);
        __atomic_store_n(l->word, free_word(name), __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&state.locks.lock);
    if (status == PGAS_OK)
        *lock_p = name;
    else
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
    else if (!change(l->word, free_word(lock), 0) && !change(l->word, free_word(lock) | QUEUED, 0))
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
    message_t m = { lock, 0, (uint16_t)pgasi_self.slot, RELEASE, 0, 0, 0, 0 };
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
    uint64_t *word = word_of(&state.waits[pgasi_self.slot], lock);
    pgas_thread_t me = pgas_thread_make(pgasi_boot.rank, pgasi_self.slot);
    if (word && change(word, held_word(lock, me), free_word(lock)))
        return PGAS_OK;
    if (pgasi_named_rank(lock) != pgasi_boot.rank)
        return send(lock, 0, RELEASE);
    release_here(lock);
    return PGAS_OK;
}

/* ---- deaths, start and stop ---- */

/* Removes a dead rank from all queues. Locks that it held go to the next waiter. */
static void forget_dead(int rank)
{
    pthread_mutex_lock(&state.locks.lock);
    for (uint32_t i = 0; i < state.locks.n; i++) {
        lock_t *l = state.locks.entry[i].thing;
        if (!l)
            continue;
        count_waiting(-(int64_t)pgasi_waiters_remove_rank(&l->waiters, rank));
        uint64_t word = look(l->word);
        pgas_thread_t holder = (pgas_thread_t)(word >> THREAD_SHIFT);
        if (word & HELD && pgas_thread_rank(holder) == rank) {
            l->broken = true;
            pass_on(l, pgasi_named_name(&state.locks, pgasi_boot.rank, i));
        }
    }
    pthread_mutex_unlock(&state.locks.lock);
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
    pgasi_deaths_add(forget_dead);
    pgasi_handler_set_internal(PGASI_DESC_LOCK, on_lock);
    return state.waits ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_locks_stop(void)
{
    pgasi_named_clear(&state.locks, release_lock);
    free(state.chunks); /* the heap has ended */
    state.chunks = NULL;
    state.n_chunks = 0;
    state.n_waiting = 0;
    pgasi_lazy_free(state.waits, PGAS_THREADS_MAX * sizeof *state.waits);
    state.waits = NULL;
}
