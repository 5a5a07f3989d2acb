/* what: Waits for counters poll the pollers: with and without a job, on attached and other threads.
 *       Functions of counters then run outside of the pollers. Waits sleep in a poller that can.
 *       A poller that is removed is not used any more. Without pollers nothing has changed.
 * source: base/sync.h; counted calls, no times */
#include <pthread.h>
#include <sched.h>
#include "base/sync.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_POLLS 300 /* beyond the polls before a wait pauses */

/* Lowers a counter at the poll of this number. */
typedef struct {
    pgasi_poller_t poller;
    pgas_sync_t *sync;
    int n_polls, at, n_sleeps;
    bool inside, beside; /* two threads were in poll */
    int holds;           /* sleep does not return */
    bool wakes;          /* after a sleep the next poll lowers the counter */
} source_t;

static int poll_source(void *arg)
{
    source_t *s = arg;
    s->beside = s->beside || __atomic_exchange_n(&s->inside, true, __ATOMIC_ACQ_REL);
    int n = __atomic_add_fetch(&s->n_polls, 1, __ATOMIC_RELAXED);
    bool lowers = n == s->at;
    if (lowers)
        pgasi_sync_lower_locked(s->sync, PGAS_OK, -1, PGAS_OPERATION_GROUP, 0);
    __atomic_store_n(&s->inside, false, __ATOMIC_RELEASE);
    return lowers;
}

static void sleep_source(void *arg, int64_t max_us)
{
    source_t *s = arg;
    s->beside = s->beside || max_us <= 0;
    __atomic_fetch_add(&s->n_sleeps, 1, __ATOMIC_ACQ_REL);
    if (s->wakes)
        s->at = __atomic_load_n(&s->n_polls, __ATOMIC_RELAXED) + 1;
    while (__atomic_load_n(&s->holds, __ATOMIC_ACQUIRE))
        sched_yield();
}

static source_t source_of(pgas_sync_t *sync)
{
    return (source_t){ .poller = { .poll = poll_source }, .sync = sync, .at = N_POLLS };
}

static void add(source_t *s)
{
    s->poller.arg = s;
    pgasi_poller_add(&s->poller);
}

static pgas_status_t in_function;
static int n_functions;
static bool polled_inside;
static source_t *running;

static void function(pgas_sync_t *sync, void *arg)
{
    pgas_sync_t other = { 1, 0, NULL, NULL };
    (void)sync;
    (void)arg;
    n_functions++;
    polled_inside = __atomic_load_n(&running->inside, __ATOMIC_ACQUIRE);
    in_function = pgas_sync_wait(&other, -1);
}

static void waits(const char *where)
{
    pgas_sync_t sync = { 1, 0, function, NULL }, zero = PGAS_SYNC_INIT;
    pgas_sync_t *both[] = { &zero, &sync };
    source_t s = source_of(&sync);
    running = &s;
    n_functions = 0;
    add(&s);
    ok(pgas_sync_wait(&sync, -1) == PGAS_OK && s.n_polls >= N_POLLS && !s.beside,
       "%s: a wait polls until the counter is zero", where);
    for (int i = 0; i < 1000000 && !n_functions; i++)
        pgas_sync_test(&(pgas_sync_t){ 1, 0, NULL, NULL });
    ok(n_functions == 1 && !polled_inside && in_function == PGAS_ERR_CONTEXT,
       "%s: its function runs once, outside of the poller, and must not wait", where);
    sync = (pgas_sync_t){ 1, 0, NULL, NULL };
    s.n_polls = 0;
    ok(pgas_sync_wait_all(both, 2, -1) == PGAS_OK && s.n_polls >= N_POLLS, "%s: so does wait_all",
       where);
    sync.count = 1;
    s.n_polls = 0;
    int n_tests = 0;
    while (pgas_sync_test(&sync) == PGAS_INPROGRESS)
        n_tests++;
    ok(n_tests < N_POLLS && s.n_polls == N_POLLS, "%s: each test polls", where);
    sync.count = 1;
    s.at = -1;
    ok(pgas_sync_wait(&sync, 0) == PGAS_ERR_TIMEOUT && pgas_sync_wait(&sync, 1) == PGAS_ERR_TIMEOUT,
       "%s: time limits hold", where);
    s.n_polls = 0;
    s.at = N_POLLS;
    ok(pgasi_sync_wait_own(&sync) == PGAS_OK && sync.count == 0, "%s: the library's own wait",
       where);
    pgasi_poller_remove(&s.poller);
    sync.count = 1;
    s.n_polls = 0;
    pgas_sync_test(&sync);
    is_int(s.n_polls, 0, "%s: a poller that was removed is not polled", where);
}

static void sleeps(const char *where)
{
    pgas_sync_t sync = { 1, 0, NULL, NULL };
    source_t s = source_of(&sync), other = source_of(&sync);
    other.at = s.at = -1;
    s.wakes = true;
    s.poller.sleep = sleep_source;
    add(&s);
    add(&other);
    pgas_sync_wait(&sync, -1);
    ok(s.n_sleeps == 1 && !s.beside, "%s: a wait sleeps in a poller that can", where);
    pgasi_poller_remove(&s.poller);
    pgasi_poller_remove(&other.poller);
}

/* ---- threads ---- */

static void *wait_for_it(void *arg)
{
    pgas_sync_wait(arg, -1);
    return NULL;
}

static source_t *removed;
static bool is_removed;

static void *remove_it(void *arg)
{
    pgasi_poller_remove(&removed->poller);
    __atomic_store_n(&is_removed, true, __ATOMIC_RELEASE);
    return arg;
}

static void removes_late(void)
{
    pgas_sync_t sync = { 1, 0, NULL, NULL };
    source_t s = source_of(&sync), other = source_of(&sync);
    pthread_t waiter, remover;
    s.at = -1;
    s.holds = 1;
    s.poller.sleep = sleep_source;
    add(&other);
    other.at = -1;
    add(&s);
    removed = &s;
    pthread_create(&waiter, NULL, wait_for_it, &sync);
    while (!__atomic_load_n(&s.n_sleeps, __ATOMIC_ACQUIRE))
        sched_yield();
    pthread_create(&remover, NULL, remove_it, NULL);
    while (__atomic_load_n(&s.poller.n_asleep, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
    for (int i = 0; i < 100; i++)
        sched_yield();
    bool early = __atomic_load_n(&is_removed, __ATOMIC_ACQUIRE);
    __atomic_store_n(&s.holds, 0, __ATOMIC_RELEASE);
    pthread_join(remover, NULL);
    __atomic_store_n(&other.at, other.n_polls + 1000, __ATOMIC_RELAXED);
    pgas_sync_done(&sync, 1);
    pthread_join(waiter, NULL);
    pgasi_poller_remove(&other.poller);
    ok(!early && is_removed, "a poller is removed when no thread sleeps in it any more");
}

static pgas_status_t not_attached;

static void *waits_beside(void *arg)
{
    pgas_sync_t sync = { 1, 0, NULL, NULL };
    not_attached = pgas_sync_wait(&sync, -1);
    source_t s = source_of(&sync);
    add(&s);
    ok(pgas_sync_wait(&sync, -1) == PGAS_OK, "a thread that is not attached waits beside a poller");
    pgasi_poller_remove(&s.poller);
    return arg;
}

static void without_pollers(pgas_status_t expected)
{
    pgas_sync_t sync = { 1, 0, NULL, NULL };
    ok(pgas_sync_wait(&sync, -1) == expected && pgas_sync_wait(&sync, 0) == expected &&
           pgas_sync_test(&sync) == PGAS_INPROGRESS,
       "without pollers nothing can lower a counter before pgas_init");
    ok(pgas_sync_add(&sync, 1) == PGAS_OK && pgas_sync_done(&sync, 2) == PGAS_OK &&
           pgas_sync_wait(&sync, -1) == PGAS_OK,
       "but the program can");
}

int main(void)
{
    pthread_t thread;
    plan(25);
    without_pollers(PGAS_ERR_NOT_INIT);
    waits("no job");
    sleeps("no job");
    removes_late();
    is_int(lone_init(1, "HEAP_SIZE=1M SERVICE_THREADS=0"), PGAS_OK, "a job begins");
    waits("job");
    sleeps("job");
    pthread_create(&thread, NULL, waits_beside, NULL);
    pthread_join(thread, NULL);
    is_int(not_attached, PGAS_ERR_CONTEXT, "without a poller it may not");
    is_int(pgas_finalize(), PGAS_OK, "the job ends");
    without_pollers(PGAS_ERR_NOT_INIT);
    return done();
}
