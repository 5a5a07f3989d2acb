/* Calls that arrive while a waiting thread wakes up.
 *   what:   A call runs at once although its wakeup finds a thread that is just leaving its wait: a
 *           rank whose thread leaves a barrier and computes, while its service thread sleeps, runs
 *           the call of the rank that came last. The same holds for calls of several threads.
 *   np:     2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=2
 *   source: src/boot/wait.h
 * A call counts as lost under two conditions: it has not run 50 ms after its sender has continued,
 * and no other thread of the rank is ready to run. A busy machine delays calls too, but then the
 * service thread is ready, not asleep. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include "base/clock.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "t/spmd/job.h"

#define ROUNDS    40
#define TRIES     20
#define LATE_NS   UINT64_C(50000000)
#define ASLEEP_NS UINT64_C(3000000)
#define CALLER    0
#define TARGET    1

static pgas_handler_t mark;
static uint64_t n_marked;
static uint64_t *told; /* in the heap: calls whose senders have gone on */
static pgas_gptr_t words[JOB_RANKS_MAX];

static void on_mark(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_fetch_add(&n_marked, 1, __ATOMIC_RELEASE);
}

static bool wakeup_shows(uint32_t sleepers)
{
    return __atomic_load_n(&pgasi_wakeups[TARGET]->sleepers, __ATOMIC_ACQUIRE) == sleepers;
}

/* A thread of this process, apart from the caller, that runs or could. */
static bool some_thread_is_ready(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    bool ready = !tasks;
    while (tasks && (entry = readdir(tasks))) {
        char path[300], state = 'R';
        int tid = atoi(entry->d_name);
        if (tid == 0 || tid == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        FILE *stat = fopen(path, "r");
        if (stat && fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
            state = 'R';
        if (stat)
            fclose(stat);
        ready = ready || (stat && state != 'S');
    }
    if (tasks)
        closedir(tasks);
    return ready;
}

/* Computes until n calls have run; false if one is lost. */
static bool compute(uint64_t n_calls)
{
    uint64_t late_ns = 0;
    while (__atomic_load_n(&n_marked, __ATOMIC_ACQUIRE) < n_calls) {
        uint64_t now = pgasi_now_ns();
        if (late_ns == 0 && __atomic_load_n(told, __ATOMIC_ACQUIRE) >= n_calls)
            late_ns = now + LATE_NS;
        if (late_ns == 0 || now < late_ns)
            continue;
        if (!some_thread_is_ready() && __atomic_load_n(&n_marked, __ATOMIC_ACQUIRE) < n_calls)
            return false;
        late_ns = now + LATE_NS / 10;
    }
    return true;
}

/* Until the target's thread sleeps, and its service thread too: for long enough that neither is in
 * a poll between two sleeps. */
static void wait_until_asleep(void)
{
    for (uint64_t since = pgasi_now_ns(); pgasi_now_ns() < since + ASLEEP_NS; sched_yield())
        if (!wakeup_shows(PGASI_WAKEUP_SERVICE + 1))
            since = pgasi_now_ns();
}

static void tell(uint64_t n_calls)
{
    __atomic_store_n((uint64_t *)pgas_gptr_local(words[TARGET], 8), n_calls, __ATOMIC_RELEASE);
}

/* A second thread of the caller, which calls through a channel of its own when a round begins. */
static uint64_t beside_may, beside_has; /* rounds */

static void *call_beside(void *arg)
{
    uint64_t n_rounds = *(const uint64_t *)arg;
    int n_bad = pgas_thread_attach() != PGAS_OK;
    for (uint64_t i = 1; i <= n_rounds; i++) {
        while (__atomic_load_n(&beside_may, __ATOMIC_ACQUIRE) < i)
            sched_yield();
        n_bad += pgas_call(TARGET, mark, NULL, 0, NULL) != PGAS_OK;
        __atomic_store_n(&beside_has, i, __ATOMIC_RELEASE);
    }
    n_bad += pgas_thread_detach() != PGAS_OK;
    return n_bad ? arg : NULL;
}

static int call(bool beside)
{
    if (beside)
        __atomic_fetch_add(&beside_may, 1, __ATOMIC_RELEASE);
    int n_bad = pgas_call(TARGET, mark, NULL, 0, NULL) != PGAS_OK;
    while (beside && __atomic_load_n(&beside_has, __ATOMIC_ACQUIRE) < beside_may)
        sched_yield();
    return n_bad;
}

/* The caller comes last, and calls at once. */
static int rounds(uint64_t n_rounds, bool beside)
{
    int n_bad = 0;
    pthread_t thread;
    void *failed = NULL;
    uint64_t n_calls = __atomic_load_n(&n_marked, __ATOMIC_ACQUIRE);
    pgas_broadcast(NULL, &n_calls, sizeof n_calls, TARGET);
    uint64_t per_round = beside ? 2 : 1;
    beside = beside && pgas_rank() == CALLER;
    if (beside)
        pthread_create(&thread, NULL, call_beside, &n_rounds);
    for (uint64_t i = 0; i < n_rounds; i++) {
        n_calls += per_round;
        if (pgas_rank() == CALLER)
            wait_until_asleep();
        n_bad += pgas_barrier(NULL) != PGAS_OK;
        if (pgas_rank() == CALLER) {
            n_bad += call(beside);
            tell(n_calls);
        } else if (!compute(n_calls)) {
            n_bad++;
        }
        while (pgas_rank() == TARGET && __atomic_load_n(&n_marked, __ATOMIC_ACQUIRE) < n_calls)
            pgas_progress();
    }
    if (beside)
        pthread_join(thread, &failed);
    return n_bad + (failed != NULL);
}

/* Clears the count of sleepers, so that no thread wakes the service. @return on the target: whether
 * the call was lost */
static bool lose_a_call(void)
{
    bool lost = false;
    uint64_t n_calls = __atomic_load_n(&n_marked, __ATOMIC_ACQUIRE) + 1;
    pgas_broadcast(NULL, &n_calls, sizeof n_calls, TARGET);
    if (pgas_rank() == TARGET) {
        pgas_barrier(NULL);
        while (!wakeup_shows(PGASI_WAKEUP_SERVICE))
            sched_yield();
        __atomic_store_n(&pgasi_wakeups[TARGET]->sleepers, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(told, UINT64_MAX, __ATOMIC_RELEASE);
        while (__atomic_load_n(told, __ATOMIC_ACQUIRE) == UINT64_MAX)
            sched_yield();
        lost = !compute(n_calls);
        while (__atomic_load_n(&n_marked, __ATOMIC_ACQUIRE) < n_calls)
            pgas_progress();
    } else {
        pgas_barrier(NULL);
        while (__atomic_load_n((uint64_t *)pgas_gptr_local(words[TARGET], 8), __ATOMIC_ACQUIRE) !=
               UINT64_MAX)
            sched_yield();
        pgas_call(TARGET, mark, NULL, 0, NULL);
        tell(n_calls);
    }
    pgas_barrier(NULL);
    return lost;
}

/* A service thread wakes once a second and may run the call; then the test makes another call. */
static void the_judge_can_fail(void)
{
    int32_t lost = 0;
    for (int i = 0; i < TRIES && !lost; i++) {
        lost = lose_a_call();
        pgas_broadcast(NULL, &lost, sizeof lost, TARGET);
    }
    spmd_ok(lost, "a call for which no thread is woken is found to be lost");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.mark", on_mark, NULL, NULL, &mark);
    job_begin(&argc, &argv, 3);
    uint64_t n_rounds = argc > 1 ? (uint64_t)atoi(argv[1]) : ROUNDS;
    pgas_gptr_t own = PGAS_NULL;
    pgas_alloc(64, &own);
    told = pgas_gptr_local(own, 8);
    *told = 0;
    job_gather(own, words);
    spmd_is_int(rounds(n_rounds, false), 0, "no call is lost after a barrier");
    spmd_is_int(rounds(n_rounds / 4, true), 0, "nor are calls of two threads");
    the_judge_can_fail();
    pgas_free(own);
    return job_end();
}
