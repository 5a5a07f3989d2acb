/* Locks.
 *   what:   Among ranks, threads and blocking handlers one thread at a time has a lock, in the
 *           order of the requests. A time-out withdraws the request. Wrong calls get a status.
 *   np:     1 2 3 4
 *   nodes:  0 1 2
 *   tls:    posix tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 | PGAS_LANES=1
 *   log:    releases a lock that it does not have
 *   source: pgas/lock.h
 */
#include <pthread.h>
#include <sched.h>
#include "object/lock.h"
#include "t/spmd/job.h"

#define N_ROUNDS  60
#define N_THREADS 3

static pgas_handler_t locked, order, queued;
static pgas_lock_t lock; /* of rank 0 */
static pgas_gptr_t counter, bell;
static int n_bad_inside;

/* Adds one to a word of rank 0 so that two at a time would be noticed. */
static int add_one(void)
{
    uint64_t before = 0, after = 0;
    int bad = pgas_get(&before, counter, 8) != PGAS_OK;
    pgas_progress();
    after = before + 1;
    bad += pgas_put(counter, &after, 8) != PGAS_OK || pgas_flush(0) != PGAS_OK;
    return bad;
}

static int locked_add(void)
{
    bool broken = true;
    int bad = pgas_lock_acquire(lock, -1, &broken) != PGAS_OK;
    bad += broken || add_one() != 0;
    return bad + (pgas_lock_release(lock) != PGAS_OK);
}

static void on_locked(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_fetch_add(&n_bad_inside, locked_add(), __ATOMIC_RELAXED);
}

static void *work(void *arg)
{
    int *bad = arg;
    *bad = pgas_thread_attach() != PGAS_OK;
    for (int i = 0; i < N_ROUNDS; i++)
        *bad += locked_add();
    *bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

static uint64_t sum(void)
{
    uint64_t value = 0;
    return pgas_get(&value, counter, 8) == PGAS_OK ? value : UINT64_MAX;
}

static void one_at_a_time(void)
{
    int n_bad = 0, bad[N_THREADS];
    pthread_t thread[N_THREADS];
    for (int i = 0; i < N_ROUNDS; i++)
        n_bad += locked_add();
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && sum() == (uint64_t)(n_ranks * N_ROUNDS), "ranks have it one at a time");
    pgas_barrier(NULL);
    for (int t = 0; t < N_THREADS; t++)
        n_bad += pthread_create(&thread[t], NULL, work, &bad[t]) != 0;
    for (int t = 0; t < N_THREADS; t++)
        n_bad += pthread_join(thread[t], NULL) != 0 || bad[t] != 0;
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && sum() == (uint64_t)(n_ranks * N_ROUNDS * (1 + N_THREADS)),
            "threads of ranks too");
    uint64_t before = sum();
    pgas_barrier(NULL);
    for (int i = 0; i < 5; i++)
        n_bad += pgas_call_to(pgas_on_team(NULL), locked, NULL, 0, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad + n_bad_inside == 0 && sum() == before + (uint64_t)(5 * n_ranks * n_ranks),
            "handlers that block, too");
    before = sum();
    pgas_barrier(NULL);
    if (me == 0 && n_ranks > 1) /* a write without the lock */
        n_bad += pgas_put(counter, &n_bad, 4) != PGAS_OK;
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && (n_ranks == 1 || sum() != before), "a lost sum would be noticed");
    pgas_barrier(NULL);
}

/* The owner is in no function of the library until all others have had the lock. */
static void owner_is_away(void)
{
    uint64_t *done = pgas_gptr_local(pgas_gptr_at(bell, me), 8), n_near = 0;
    int n_bad = 0;
    bool near = pgas_node_of(0) == pgas_node();
    *done = 0;
    for (int r = 0; r < n_ranks; r++) { /* in turn, so that nobody waits in the queue afterwards */
        n_bad += me == r && (pgas_lock_acquire(lock, -1, NULL) != PGAS_OK ||
                             pgas_lock_release(lock) != PGAS_OK);
        n_near += r > 0 && pgas_node_of(r) == pgas_node_of(0);
        pgas_barrier(NULL);
    }
    while (me == 0 && __atomic_load_n(done, __ATOMIC_ACQUIRE) != n_near)
        sched_yield();
    if (me > 0 && near) {
        for (int i = 0; i < N_ROUNDS; i++)
            n_bad +=
                pgas_lock_acquire(lock, 0, NULL) == PGAS_OK && pgas_lock_release(lock) != PGAS_OK;
        n_bad += pgas_update_u64(pgas_gptr_at(bell, 0), PGAS_ADD, 1) != PGAS_OK;
    }
    pgas_barrier(NULL);
    *done = 0;
    spmd_is_int(n_bad, 0, "ranks of the node take a free lock while its owner is away");
    pgas_barrier(NULL);
}

/* ---- order ---- */

static int turn[JOB_RANKS_MAX], n_turns;

static void on_order(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)context;
    turn[n_turns++] = pgas_thread_rank(source);
}

static void busy_and_late(void)
{
    int n_bad = 0;
    if (me == 0)
        n_bad += pgas_lock_acquire(lock, -1, NULL) != PGAS_OK;
    pgas_barrier(NULL);
    n_bad += me == 1 && pgas_lock_acquire(lock, 1000, NULL) != PGAS_ERR_TIMEOUT;
    n_bad += me > 0 && pgas_lock_acquire(lock, 0, NULL) != PGAS_ERR_BUSY;
    n_bad += me == 0 && (pgas_lock_acquire(lock, -1, NULL) != PGAS_ERR_DEADLOCK ||
                         pgas_lock_acquire(lock, 0, NULL) != PGAS_ERR_DEADLOCK);
    pgas_barrier(NULL);
    n_bad += me == 0 && (pgasi_locks_waiting() != 0 || pgas_lock_release(lock) != PGAS_OK);
    spmd_is_int(n_bad, 0,
                "a time-out, a try, and a lock that the thread has: reported, and no request is "
                "left in the queue");
}

/* All ranks ask while rank 0 has the lock, the last rank first. */
static void first_come_first_served(void)
{
    int n_bad = 0, n_wrong_turns = 0;
    uint64_t go = 1;
    n_turns = 0;
    pgas_barrier(NULL);
    n_bad += me == 0 && pgas_lock_acquire(lock, -1, NULL) != PGAS_OK;
    for (int r = n_ranks - 1; r > 0 && me == 0; r--) {
        n_bad += pgas_put_signal(pgas_gptr_at(bell, r), NULL, 0, pgas_gptr_at(bell, r), go,
                                 PGAS_SWAP) != PGAS_OK;
        n_bad += pgas_flush(r) != PGAS_OK;
        while (pgasi_locks_waiting() != (uint32_t)(n_ranks - r))
            pgas_progress();
    }
    if (me > 0) {
        n_bad += pgas_signal_wait(pgas_gptr_local(pgas_gptr_at(bell, me), 8), PGAS_EQ, 1, -1,
                                  NULL) != PGAS_OK;
        n_bad += pgas_lock_acquire(lock, -1, NULL) != PGAS_OK ||
                 pgas_call(0, order, NULL, 0, NULL) != PGAS_OK;
    }
    n_bad += pgas_lock_release(lock) != PGAS_OK;
    pgas_quiesce();
    for (int i = 0; me == 0 && i < n_ranks - 1; i++)
        n_wrong_turns += turn[i] != n_ranks - 1 - i;
    spmd_ok(n_bad + n_wrong_turns == 0 && (me != 0 || n_turns == n_ranks - 1),
            "locks are granted in the order of requests");
}

#define N_WAITING 50

static int64_t n_inside, n_queued_runs, n_out_of_order;

/* Handlers with numbers, which start in the order of their calls and wait for one lock. */
static void on_queued(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int64_t number;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&number, args, sizeof number);
    int bad = pgas_lock_acquire(lock, -1, NULL) != PGAS_OK;
    bad += __atomic_add_fetch(&n_inside, 1, __ATOMIC_ACQ_REL) != 1 || add_one() != 0;
    n_out_of_order += number != n_queued_runs++;
    __atomic_sub_fetch(&n_inside, 1, __ATOMIC_ACQ_REL);
    bad += pgas_lock_release(lock) != PGAS_OK;
    __atomic_fetch_add(&n_bad_inside, bad, __ATOMIC_RELAXED);
}

static void many_handlers_wait(void)
{
    int last = n_ranks - 1, n_bad = 0;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    uint64_t before = sum();
    n_bad_inside = 0;
    pgas_barrier(NULL);
    if (me == 0) {
        n_bad += pgas_lock_acquire(lock, -1, NULL) != PGAS_OK;
        for (int64_t i = 0; i < N_WAITING; i++)
            n_bad += pgas_call(last, queued, &i, sizeof i, &sync) != PGAS_OK;
        while (pgasi_locks_waiting() != N_WAITING)
            pgas_progress();
        n_bad += sync.count != N_WAITING || pgas_lock_release(lock) != PGAS_OK ||
                 pgas_sync_wait(&sync, -1) != PGAS_OK;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    n_bad += me == last && (n_queued_runs != N_WAITING || n_out_of_order != 0);
    spmd_ok(n_bad + n_bad_inside == 0 && sum() == before + N_WAITING,
            "%d handlers wait for one lock at a time, and have it one after the other, in order",
            N_WAITING);
    pgas_barrier(NULL);
    for (int64_t i = 0; i < N_WAITING; i++)
        n_bad += pgas_call((me + (int)i) % n_ranks, locked, NULL, 0, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad + n_bad_inside == 0 && sum() == before + N_WAITING * (uint64_t)(n_ranks + 1),
            "on all ranks at once, too");
    pgas_barrier(NULL);
}

static void refusals(void)
{
    pgas_lock_t mine = 0;
    int n_bad = pgas_lock_create(NULL) != PGAS_ERR_INVALID || pgas_lock_create(&mine) != PGAS_OK;
    pgas_lock_t other = mine ^ (uint64_t)1 << 20;
    n_bad += pgas_lock_acquire(0, -1, NULL) != PGAS_ERR_INVALID ||
             pgas_lock_release(0) != PGAS_ERR_INVALID;
    n_bad += pgas_lock_acquire((uint64_t)n_ranks << 44 | 1 << 20, -1, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_lock_acquire(other, -1, NULL) != PGAS_ERR_NOT_FOUND ||
             pgas_lock_destroy(other) != PGAS_ERR_NOT_FOUND;
    n_bad +=
        pgas_lock_acquire(mine, 0, NULL) != PGAS_OK || pgas_lock_destroy(mine) != PGAS_ERR_BUSY;
    n_bad += pgas_lock_release(mine) != PGAS_OK || pgas_lock_acquire(mine, 0, NULL) < 0;
    n_bad += pgas_lock_release(mine) != PGAS_OK || pgas_lock_release(mine) != PGAS_OK;
    n_bad += me > 0 && pgas_lock_destroy(lock) != PGAS_ERR_RANGE;
    n_bad += pgas_lock_destroy(mine) != PGAS_OK || pgas_lock_destroy(mine) != PGAS_ERR_NOT_FOUND;
    n_bad +=
        pgas_lock_acquire(mine, -1, NULL) != PGAS_ERR_NOT_FOUND || pgas_lock_destroy(0) != PGAS_OK;
    n_bad +=
        pgas_lock_create(&other) != PGAS_OK || other == mine || pgas_lock_destroy(other) != PGAS_OK;
    spmd_is_int(n_bad, 0,
                "wrong calls get a status; the owner may destroy what it has released; a name is "
                "never used again");
}

/* Locks and objects are numbered alike. */
static void names_of_objects(void)
{
    pgas_lock_t locks[3];
    pgas_object_t objects[3];
    int n_bad = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++)
            n_bad += pgas_lock_create(&locks[i]) != PGAS_OK ||
                     pgas_object_create(&n_bad, &objects[i]) != PGAS_OK;
        for (int i = 0; i < 3; i++) {
            n_bad += pgas_lock_acquire(objects[i], 0, NULL) != PGAS_ERR_NOT_FOUND ||
                     pgas_lock_destroy(objects[i]) != PGAS_ERR_NOT_FOUND ||
                     pgas_object_destroy(locks[i]) != PGAS_ERR_NOT_FOUND;
            n_bad += pgas_lock_destroy(locks[i]) != PGAS_OK ||
                     pgas_object_destroy(objects[i]) != PGAS_OK;
        }
    }
    spmd_is_int(n_bad, 0, "the name of an object is not that of a lock, nor the other way round");
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t may_block = PGAS_HANDLER_OPTS_INIT;
    may_block.blocks = true;
    pgas_handler_register("t.locked", on_locked, NULL, &may_block, &locked);
    pgas_handler_register("t.order", on_order, NULL, NULL, &order);
    pgas_handler_register("t.queued", on_queued, NULL, &may_block, &queued);
    job_begin(&argc, &argv, 13);
    int n_bad = pgas_alloc(8, &counter) != PGAS_OK || pgas_alloc(8, &bell) != PGAS_OK;
    n_bad += pgas_put_u64(bell, 0) != PGAS_OK;
    counter = pgas_gptr_at(counter, 0);
    uint64_t zero = 0;
    if (me == 0)
        n_bad += pgas_put(counter, &zero, 8) != PGAS_OK || pgas_lock_create(&lock) != PGAS_OK;
    n_bad += pgas_broadcast(NULL, &lock, sizeof lock, 0) != PGAS_OK;
    spmd_ok(n_bad == 0 && lock != 0, "a lock is made, its name sent around");
    one_at_a_time();
    owner_is_away();
    busy_and_late();
    first_come_first_served();
    many_handlers_wait();
    refusals();
    names_of_objects();
    pgas_barrier(NULL);
    spmd_ok((me != 0 || pgas_lock_destroy(lock) == PGAS_OK) && pgas_free(counter) == PGAS_OK &&
                pgas_free(bell) == PGAS_OK,
            "and ended");
    return job_end();
}
