/* Locks of elements.
 *   what:   Among ranks, threads and blocking handlers a writer has a lock alone, and readers share
 *           it. A thread that has a lock sees all writes under it before. No request overtakes a
 *           waiting writer. A time-out withdraws the request and delays no other. Wrong calls get a
 *           status. An array with a held lock cannot be destroyed, and the next array has no lock
 *           of it. A lock of an element at home sends no message.
 *   np:     1 2 3 4
 *   nodes:  0 1 2
 *   tls:    posix tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 | PGAS_LANES=1
 *   log:    pgas_array_destroy: element 5 is locked
 *   source: pgas/array.h, locks
 */
#include <pthread.h>
#include "msg/send_queue.h"
#include "pgas/array.h"
#include "t/spmd/job.h"

#define N_ROUNDS   40
#define N_THREADS  3
#define N_COUNTERS 5
#define N_ELEMS    4096

static int n_bad_inside;
static pgas_array_t *array;
static pgas_handler_t add_blocking, refused;

/* Counters are elements beside the locked ones. A rank that has a chunk of them alone would not
 * notice an error, so they are read and written separately. */
static uint64_t counter_of(int k)
{
    return (uint64_t)(k * (N_ELEMS / N_COUNTERS));
}

static int add_one(uint64_t i)
{
    uint64_t value = 0;
    int bad = pgas_array_get_u64(array, i, &value) != PGAS_OK;
    pgas_progress();
    return bad + (pgas_array_set_u64(array, i, value + 1) != PGAS_OK);
}

static int locked_add(int k)
{
    uint64_t i = counter_of(k), other = 0, value = 1;
    int bad = pgas_array_lock(array, i + 1, PGAS_ARRAY_WRITE, -1) != PGAS_OK;
    bad += add_one(i) + (pgas_array_unlock(array, i + 1) != PGAS_OK);
    bad += pgas_array_lock(array, i + 1, PGAS_ARRAY_READ, -1) != PGAS_OK;
    bad += pgas_array_get_u64(array, i, &value) != PGAS_OK;
    pgas_progress();
    bad += pgas_array_get_u64(array, i, &other) != PGAS_OK || other != value || value == 0;
    return bad + (pgas_array_unlock(array, i + 1) != PGAS_OK);
}

static int add_to_all(void)
{
    int bad = 0;
    for (int i = 0; i < N_ROUNDS; i++)
        bad += locked_add(i % N_COUNTERS);
    return bad;
}

static void *work(void *arg)
{
    int *bad = arg;
    *bad = pgas_thread_attach() != PGAS_OK;
    *bad += add_to_all();
    *bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

static void on_add(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_fetch_add(&n_bad_inside, locked_add(0), __ATOMIC_RELAXED);
}

static uint64_t sum(void)
{
    uint64_t all = 0, value = 0;
    for (int k = 0; k < N_COUNTERS; k++)
        all += pgas_array_get_u64(array, counter_of(k), &value) == PGAS_OK ? value : UINT64_MAX / 2;
    return all;
}

static void one_writer_at_a_time(void)
{
    int n_bad = add_to_all(), bad[N_THREADS];
    pthread_t thread[N_THREADS];
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && sum() == (uint64_t)(n_ranks * N_ROUNDS),
            "ranks write one at a time, and none while others read");
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
        n_bad += pgas_call_to(pgas_on_team(NULL), add_blocking, NULL, 0, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad + n_bad_inside == 0 && sum() == before + (uint64_t)(5 * n_ranks * n_ranks),
            "handlers that block, too");
    before = sum();
    pgas_barrier(NULL);
    n_bad += me == 0 && pgas_array_set_u64(array, 0, 0) != PGAS_OK; /* no lock */
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && sum() != before, "a lost sum would be noticed");
    pgas_barrier(NULL);
}

/* ---- readers and writers: a thread each, the first thread of a rank among them ---- */

typedef struct {
    pgas_status_t status;
    int64_t timeout_us;
    bool writes, unlocks, done;
    pthread_t thread;
} other_t;

static void *lock_from_there(void *arg)
{
    other_t *o = arg;
    pgas_status_t status = pgas_thread_attach();
    if (status == PGAS_OK)
        status = o->writes ? pgas_array_lock(array, 7, PGAS_ARRAY_WRITE, o->timeout_us)
                           : pgas_array_lock(array, 7, PGAS_ARRAY_READ, o->timeout_us);
    if (status == PGAS_OK && o->unlocks)
        status = pgas_array_unlock(array, 7);
    o->status = status;
    pgas_thread_detach();
    __atomic_store_n(&o->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static void begin(other_t *o, bool writes, int64_t timeout_us)
{
    *o = (other_t){ PGAS_OK, timeout_us, writes, true, false, 0 };
    pthread_create(&o->thread, NULL, lock_from_there, o);
}

static pgas_status_t end(other_t *o)
{
    while (!__atomic_load_n(&o->done, __ATOMIC_ACQUIRE))
        pgas_progress();
    pthread_join(o->thread, NULL);
    return o->status;
}

static pgas_status_t try_from_there(bool writes)
{
    other_t o;
    begin(&o, writes, 0);
    return end(&o);
}

static void readers_share(void)
{
    int n_bad = pgas_array_lock(array, 7, PGAS_ARRAY_READ, -1) != PGAS_OK;
    pgas_barrier(NULL); /* all have it now */
    n_bad += try_from_there(true) != PGAS_ERR_BUSY || try_from_there(false) != PGAS_OK;
    pgas_barrier(NULL);
    n_bad += pgas_array_unlock(array, 7) != PGAS_OK;
    pgas_barrier(NULL);
    if (me == n_ranks - 1)
        n_bad += pgas_array_lock(array, 7, PGAS_ARRAY_WRITE, -1) != PGAS_OK;
    pgas_barrier(NULL);
    n_bad += try_from_there(true) != PGAS_ERR_BUSY || try_from_there(false) != PGAS_ERR_BUSY;
    n_bad += me != n_ranks - 1 && (pgas_array_lock(array, 7, PGAS_ARRAY_READ, 0) != PGAS_ERR_BUSY ||
                                   pgas_array_lock(array, 7, PGAS_ARRAY_WRITE, 0) != PGAS_ERR_BUSY);
    pgas_barrier(NULL);
    n_bad += me == n_ranks - 1 && pgas_array_unlock(array, 7) != PGAS_OK;
    pgas_barrier(NULL);
    spmd_is_int(n_bad, 0, "readers have it together, a writer alone");
}

/* The last rank reads, and a thread of the first waits to write. No request passes it until its
 * time is over. */
static void writers_are_not_overtaken(void)
{
    other_t writer, reader;
    int n_bad = me == n_ranks - 1 && pgas_array_lock(array, 7, PGAS_ARRAY_READ, -1) != PGAS_OK;
    pgas_barrier(NULL);
    if (me == 0) {
        begin(&writer, true, -1);
        while (try_from_there(false) == PGAS_OK)
            ; /* until it waits */
    }
    pgas_barrier(NULL);
    n_bad += try_from_there(false) != PGAS_ERR_BUSY;
    begin(&reader, false, -1);
    n_bad +=
        try_from_there(false) != PGAS_ERR_BUSY || __atomic_load_n(&reader.done, __ATOMIC_ACQUIRE);
    pgas_barrier(NULL);
    n_bad += me == n_ranks - 1 && pgas_array_unlock(array, 7) != PGAS_OK;
    n_bad += me == 0 && end(&writer) != PGAS_OK;
    n_bad += end(&reader) != PGAS_OK;
    pgas_barrier(NULL);
    spmd_is_int(n_bad, 0, "a reader does not overtake a writer that waits");
}

static void time_outs_take_back(void)
{
    other_t writer, reader;
    int n_bad = me == n_ranks - 1 && pgas_array_lock(array, 7, PGAS_ARRAY_READ, -1) != PGAS_OK;
    pgas_barrier(NULL);
    if (me == 0) {
        begin(&writer, true, 20000);
        /* before or after it: it gets the lock while the other reader still has it */
        begin(&reader, false, -1);
        n_bad += end(&writer) != PGAS_ERR_TIMEOUT || end(&reader) != PGAS_OK;
    }
    n_bad +=
        me != n_ranks - 1 && pgas_array_lock(array, 7, PGAS_ARRAY_WRITE, 1000) != PGAS_ERR_TIMEOUT;
    pgas_barrier(NULL);
    n_bad += me == n_ranks - 1 && pgas_array_unlock(array, 7) != PGAS_OK;
    pgas_barrier(NULL);
    n_bad += pgas_array_lock(array, 7, PGAS_ARRAY_WRITE, 60000000) != PGAS_OK ||
             pgas_array_unlock(array, 7) != PGAS_OK;
    pgas_barrier(NULL);
    spmd_is_int(n_bad, 0, "a time-out withdraws the request, and later ones get the lock");
}

/* ---- refusals ---- */

static void on_refused(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_bad_inside += pgas_array_lock(array, 3, PGAS_ARRAY_WRITE, -1) != PGAS_ERR_CONTEXT ||
                    pgas_array_unlock(array, 3) != PGAS_ERR_CONTEXT;
}

static void *refused_unattached(void *arg)
{
    int *bad = arg;
    *bad = pgas_array_lock(array, 3, PGAS_ARRAY_READ, -1) != PGAS_ERR_CONTEXT;
    return NULL;
}

static void refusals(void)
{
    uint64_t mine = 1000 + (uint64_t)me;
    pthread_t thread;
    int bad = 0, n_bad = pgas_array_lock(array, N_ELEMS, PGAS_ARRAY_READ, -1) != PGAS_ERR_RANGE ||
                         pgas_array_unlock(array, N_ELEMS) != PGAS_ERR_RANGE;
    n_bad += pgas_array_lock(NULL, 0, PGAS_ARRAY_WRITE, -1) != PGAS_ERR_INVALID ||
             pgas_array_unlock(NULL, 0) != PGAS_ERR_INVALID;
    n_bad += pgas_array_unlock(array, mine) != PGAS_ERR_INVALID;
    n_bad += pgas_array_lock(array, mine, PGAS_ARRAY_READ, -1) != PGAS_OK ||
             pgas_array_lock(array, mine, PGAS_ARRAY_READ, -1) != PGAS_ERR_DEADLOCK;
    n_bad += pgas_array_lock(array, mine, PGAS_ARRAY_WRITE, 0) != PGAS_ERR_DEADLOCK ||
             pgas_array_unlock(array, mine) != PGAS_OK;
    n_bad += pgas_array_lock(array, mine, PGAS_ARRAY_WRITE, -1) != PGAS_OK ||
             pgas_array_lock(array, mine, PGAS_ARRAY_READ, 10) != PGAS_ERR_DEADLOCK;
    n_bad += pgas_array_unlock(array, mine) != PGAS_OK ||
             pgas_array_unlock(array, mine) != PGAS_ERR_INVALID;
    n_bad += pthread_create(&thread, NULL, refused_unattached, &bad) != 0 ||
             pthread_join(thread, NULL) != 0;
    n_bad_inside = 0;
    n_bad +=
        pgas_call(n_ranks - 1 - me, refused, NULL, 0, NULL) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_is_int(n_bad + bad + n_bad_inside, 0, "wrong calls get a status");
}

/* ---- many, and none ---- */

static void many_by_one_thread(void)
{
    int n_bad = 0;
    if (me == 0) {
        for (uint64_t i = 0; i < N_ELEMS; i++)
            n_bad += pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1) != PGAS_OK;
        for (uint64_t i = 0; i < N_ELEMS; i += 2)
            n_bad += pgas_array_unlock(array, i) != PGAS_OK;
        for (uint64_t i = 0; i < N_ELEMS; i++)
            n_bad += pgas_array_unlock(array, i) != (i % 2 ? PGAS_OK : PGAS_ERR_INVALID);
    }
    pgas_barrier(NULL);
    for (uint64_t i = (uint64_t)me; i < N_ELEMS; i += (uint64_t)n_ranks)
        n_bad += pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1) != PGAS_OK ||
                 pgas_array_unlock(array, i) != PGAS_OK;
    pgas_barrier(NULL);
    spmd_is_int(n_bad, 0, "a thread may have them all");
}

static void own_locks_send_nothing(void)
{
    uint64_t first = 0, n = 0;
    pgas_quiesce();
    int n_bad = pgas_array_range(array, -1, &first, &n) != PGAS_OK;
    uint64_t sent = pgasi_sendqs_sent();
    for (uint64_t i = first; i < first + n; i++)
        n_bad += pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1) != PGAS_OK ||
                 pgas_array_unlock(array, i) != PGAS_OK;
    spmd_ok(n_bad == 0 && n > 0 && pgasi_sendqs_sent() == sent,
            "a lock of the own rank sends nothing");
}

static void destroy_refuses(void)
{
    int n_bad = me == n_ranks - 1 && pgas_array_lock(array, 5, PGAS_ARRAY_READ, -1) != PGAS_OK;
    n_bad += pgas_array_destroy(array) != PGAS_ERR_BUSY;
    n_bad += me == n_ranks - 1 && pgas_array_unlock(array, 5) != PGAS_OK;
    spmd_ok(n_bad == 0 && pgas_array_destroy(array) == PGAS_OK,
            "an array is not destroyed while a thread has a lock");
}

static void nothing_is_left(void)
{
    int n_bad = 0;
    for (int round = 0; round < 20; round++) {
        n_bad += pgas_array_create(NULL, 8, N_ELEMS, NULL, &array) != PGAS_OK;
        for (uint64_t i = 1; i < N_ELEMS; i += 100) {
            if ((int)(i + (uint64_t)round) % n_ranks == me)
                n_bad += pgas_array_lock(array, i, PGAS_ARRAY_WRITE, 0) != PGAS_OK ||
                         pgas_array_unlock(array, i) != PGAS_OK;
        }
        n_bad += pgas_array_destroy(array) != PGAS_OK;
    }
    spmd_is_int(n_bad, 0, "a lock released just before the end is free in the next array");
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t may_block = PGAS_HANDLER_OPTS_INIT;
    may_block.blocks = true;
    pgas_handler_register("t.add", on_add, NULL, &may_block, &add_blocking);
    pgas_handler_register("t.refused", on_refused, NULL, NULL, &refused);
    job_begin(&argc, &argv, 13);
    spmd_ok(pgas_array_create(NULL, 8, N_ELEMS, NULL, &array) == PGAS_OK, "an array is made");
    one_writer_at_a_time();
    readers_share();
    writers_are_not_overtaken();
    time_outs_take_back();
    refusals();
    many_by_one_thread();
    own_locks_send_nothing();
    destroy_refuses();
    nothing_is_left();
    return job_end();
}
