/* what: A thread that makes one call after the other on a counter raises it ahead. Another thread
 *       that waits for the counter, or tests it, sees zero when the calls have run, although the
 *       caller stays away from the library; the memory may then go away. While a thread is about to
 *       sleep, no counter is raised ahead. Counters with a function
 *       are raised one by one. Threads that take back what is left, while the owner uses it, lose
 *       and invent nothing. There is no race.
 * needs: tsan-ok
 * source: src/mem/ahead.h, pgas/sync.h; a stress test */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include "boot/hooks.h"
#include "mem/ahead.h"
#include "t/handlers.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_CALLS  40 /* one by one, then ahead twice */
#define N_SERIES 2000

static pgas_handler_t count;
static uint64_t n_counted;
static pthread_barrier_t meet;

static int call_n_times(int n, pgas_sync_t *sync)
{
    int n_bad = 0;
    for (uint64_t i = 0; i < (uint64_t)n; i++)
        n_bad += pgas_call(0, count, &i, sizeof i, sync) != PGAS_OK;
    return n_bad;
}

/* ---- a caller that stays away ---- */

static pgas_sync_t *page; /* its counter goes away with its page */
static int caller_bad;

static void *call_and_stay_away(void *unused)
{
    (void)unused;
    caller_bad = pgas_thread_attach() != PGAS_OK;
    caller_bad += call_n_times(N_CALLS, page);
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet); /* meanwhile the counter becomes zero, and its memory goes away */
    pgas_sync_t other = PGAS_SYNC_INIT;
    caller_bad += call_n_times(N_CALLS, &other);
    caller_bad += pgas_sync_wait(&other, -1) != PGAS_OK || other.count != 0;
    caller_bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

typedef enum { WAIT, TEST, WAIT_ALL, WAIT_ANY, N_WAYS } way_t;

static pgas_status_t until_zero(way_t way, pgas_sync_t *sync)
{
    pgas_status_t status;
    size_t index;
    switch (way) {
    case WAIT:
        return pgas_sync_wait(sync, -1);
    case WAIT_ALL:
        return pgas_sync_wait_all(&sync, 1, -1);
    case WAIT_ANY:
        return pgas_sync_wait_any(&sync, 1, -1, &index);
    default:
        while ((status = pgas_sync_test(sync)) == PGAS_INPROGRESS) {
        }
        return status;
    }
}

static int another_waits(way_t way)
{
    pthread_t thread;
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_create(&thread, NULL, call_and_stay_away, NULL);
    pthread_barrier_wait(&meet);
    int64_t raised = page->count;
    int n_bad = until_zero(way, page) != PGAS_OK || page->count != 0;
    munmap(page, 4096);
    pthread_barrier_wait(&meet);
    pthread_join(thread, NULL);
    n_bad += caller_bad;
    return n_bad + (raised <= N_CALLS || raised >= N_CALLS + PGASI_AHEAD);
}

/* ---- a sleep ---- */

static pgas_sync_t awaited = PGAS_SYNC_INIT;
static int64_t raised_for_sleeper;
static void (*before_sleep)(void);

/* All that the library does before a sleep is done; then another thread makes calls. */
static void call_meanwhile(void)
{
    pgasi_hooks.before_sleep = before_sleep;
    before_sleep();
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    raised_for_sleeper = awaited.count;
    pthread_barrier_wait(&meet);
}

static void *call_when_one_sleeps(void *unused)
{
    (void)unused;
    caller_bad = pgas_thread_attach() != PGAS_OK;
    pthread_barrier_wait(&meet);
    caller_bad += call_n_times(N_CALLS, &awaited);
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    caller_bad += pgas_sync_done(&awaited, 1) != PGAS_OK;
    caller_bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

static int none_is_left_for_a_sleeper(void)
{
    pthread_t thread;
    pgas_sync_add(&awaited, 1);
    before_sleep = pgasi_hooks.before_sleep;
    pgasi_hooks.before_sleep = call_meanwhile;
    pthread_create(&thread, NULL, call_when_one_sleeps, NULL);
    int n_bad = pgas_sync_wait(&awaited, -1) != PGAS_OK;
    pthread_join(thread, NULL);
    return n_bad + caller_bad + (raised_for_sleeper != 1 + N_CALLS);
}

/* ---- a function ---- */

static int n_zero;

static void on_zero(pgas_sync_t *sync, void *arg)
{
    (void)sync;
    (void)arg;
    n_zero++;
}

static void *call_with_function(void *sync)
{
    caller_bad = pgas_thread_attach() != PGAS_OK;
    caller_bad += call_n_times(N_CALLS, sync);
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    caller_bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

static int function_is_not_late(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT_FN(on_zero, NULL);
    uint64_t before = n_counted;
    pthread_t thread;
    pthread_create(&thread, NULL, call_with_function, &sync);
    pthread_barrier_wait(&meet);
    int n_bad = sync.count != N_CALLS;
    while (n_counted < before + N_CALLS)
        pgas_progress();
    n_bad += n_zero != 1 || sync.count != 0;
    pthread_barrier_wait(&meet);
    pthread_join(thread, NULL);
    return n_bad + caller_bad;
}

/* ---- all at once ---- */

static pgas_sync_t shared[2];
static bool over;

/* Uses up what is left, ends early, or goes on to another counter. */
static void *use(void *number)
{
    uint64_t seed = 1 + (uint64_t)(uintptr_t)number;
    int n_bad = pgas_thread_attach() != PGAS_OK;
    for (int i = 0; i < N_SERIES; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        n_bad += call_n_times(1 + (int)(seed >> 60) * 7, &shared[seed >> 59 & 1]);
        if (seed >> 56 & 1)
            pgas_progress();
    }
    n_bad += pgas_thread_detach() != PGAS_OK;
    __atomic_fetch_add(&caller_bad, n_bad, __ATOMIC_RELAXED);
    return NULL;
}

static void *take(void *unused)
{
    int64_t least = 0;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        pgasi_ahead_take_all();
        for (int i = 0; i < 2; i++) {
            pgasi_ahead_take_back(&shared[i]);
            int64_t now = __atomic_load_n(&shared[i].count, __ATOMIC_RELAXED);
            least = now < least ? now : least;
        }
        sched_yield();
    }
    (void)unused;
    return (void *)(intptr_t)least;
}

static void all_at_once(void)
{
    enum { USERS = 2, ALL = 4 };
    pthread_t thread[ALL];
    void *least[ALL];
    caller_bad = 0;
    for (int i = 0; i < ALL; i++)
        pthread_create(&thread[i], NULL, i < USERS ? use : take, (void *)(intptr_t)i);
    for (int i = 0; i < USERS; i++)
        while (pthread_tryjoin_np(thread[i], NULL) != 0)
            pgas_progress();
    int n_bad = pgas_sync_wait(&shared[0], -1) != PGAS_OK || shared[0].count != 0 ||
                pgas_sync_wait(&shared[1], -1) != PGAS_OK || shared[1].count != 0;
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    for (int i = USERS; i < ALL; i++)
        pthread_join(thread[i], &least[i]);
    ok(n_bad == 0 && caller_bad == 0 && pgasi_sync_ahead == 0, "nothing is lost or invented");
    ok(!least[2] && !least[3], "no counter is below zero meanwhile");
}

int main(void)
{
    static const char *const names[N_WAYS] = { "wait", "test", "wait_all", "wait_any" };
    plan(N_WAYS + 6);
    pgas_handler_register("t.count", on_count, &n_counted, NULL, &count);
    is_int(lone_init(1, "SERVICE_THREADS=0"), PGAS_OK, "a job");
    pthread_barrier_init(&meet, NULL, 2);
    for (way_t way = WAIT; way < N_WAYS; way++)
        is_int(another_waits(way), 0, "another thread waits by %s, while the caller is away",
               names[way]);
    is_int(none_is_left_for_a_sleeper(), 0, "nothing is raised ahead for a thread that will sleep");
    is_int(function_is_not_late(), 0, "a counter with a function is raised one by one");
    all_at_once();
    is_int(pgas_finalize(), PGAS_OK, "the end");
    return done();
}
