/* Targets.
 *   what:   Calls to a thread run on that thread, in order, whatever other threads do; calls to the
 *           service run on the service thread while the application computes; further calls run on
 *           the thread that asks for a slot, or on consumer threads. Calls to a thread that has
 *           detached are refused. Threads that are not attached may send calls.
 *   np:     1 2 3 4
 *   nodes:  0 1 2
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=2 PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=64 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 PGAS_FAR_CALLS=put
 *   log:    on a thread that has left: dropped
 *   source: pgas/call.h
 */
#include <pthread.h>
#include <sched.h>
#include "base/rng.h"
#include "call/handler.h"
#include "t/spmd/job.h"
#include "t/spmd/said.h"

#define N_THREADS 2 /* beside the initialising one */
#define SLOTS     (N_THREADS + 1)
#define N_CALLS   300

static pgas_handler_t numbered, set_flag, who;
static uint64_t next_of[SLOTS][JOB_RANKS_MAX][SLOTS]; /* of a target slot, by source */
static int n_wrong;
static uint64_t n_ran[SLOTS + 2];
static volatile uint32_t flag;
static pthread_barrier_t together;

static void on_numbered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number[2];
    (void)context;
    memcpy(number, args, sizeof number);
    int slot = (int)number[1], rank = pgas_thread_rank(source);
    bool right = bytes == sizeof number && pgas_thread_self() == pgas_thread_make(me, slot) &&
                 slot < SLOTS && pgas_thread_slot(source) < SLOTS &&
                 number[0] == next_of[slot][rank][pgas_thread_slot(source)]++;
    if (!right)
        __atomic_fetch_add(&n_wrong, 1, __ATOMIC_RELAXED);
    if (slot < SLOTS)
        __atomic_fetch_add(&n_ran[slot], 1, __ATOMIC_RELEASE);
}

static void on_flag(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_store_n(&flag, (uint32_t)pgas_thread_slot(pgas_thread_self()) + 1, __ATOMIC_RELEASE);
}

/* Records the thread that runs it. */
static void on_who(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    (void)args;
    (void)bytes;
    __atomic_fetch_add(&n_ran[SLOTS], 1, __ATOMIC_RELEASE);
}

/* Every thread of every rank calls every thread of every rank, then serves until all its calls have
 * come. */
static void *send_and_serve(void *arg)
{
    int slot = (int)(intptr_t)arg, n_bad = 0;
    if (slot > 0)
        n_bad += pgas_thread_attach() != PGAS_OK;
    pthread_barrier_wait(&together);
    slot = pgas_thread_slot(pgas_thread_self());
    for (uint64_t i = 0; i < N_CALLS; i++) {
        for (int r = 0; r < n_ranks; r++) {
            for (int s = 0; s < SLOTS; s++) {
                uint64_t number[2] = { i, (uint64_t)s };
                n_bad += pgas_call_to(pgas_on_thread(pgas_thread_make(r, s)), numbered, number,
                                      sizeof number, NULL) != PGAS_OK;
            }
        }
    }
    uint64_t all = (uint64_t)N_CALLS * (uint64_t)n_ranks * SLOTS;
    while (__atomic_load_n(&n_ran[slot], __ATOMIC_ACQUIRE) < all)
        pgas_progress();
    if (n_bad)
        __atomic_fetch_add(&n_wrong, n_bad, __ATOMIC_RELAXED);
    pthread_barrier_wait(&together);
    if (slot > 0)
        pgas_thread_detach();
    return NULL;
}

static void calls_run_on_their_thread(void)
{
    pthread_t thread[N_THREADS];
    pthread_barrier_init(&together, NULL, SLOTS);
    for (int i = 0; i < N_THREADS; i++)
        pthread_create(&thread[i], NULL, send_and_serve, (void *)(intptr_t)(i + 1));
    send_and_serve((void *)0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(thread[i], NULL);
    pgas_quiesce();
    spmd_ok(n_wrong == 0,
            "each thread runs the calls for it, in the order of each source (%d wrong)", n_wrong);
    next_of[0][0][0] = 0;
    uint64_t number[2] = { 5, 0 };
    pgas_call_to(pgas_on_thread(pgas_thread_make(me, 0)), numbered, number, sizeof number, NULL);
    pgas_quiesce();
    spmd_ok(n_wrong == 1, "a call out of order is noticed");
}

static void the_service_serves_while_we_compute(void)
{
    flag = 0;
    pgas_barrier(NULL);
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    opts.sync = &sync;
    int peer = job_right();
    bool good = pgas_call_to(pgas_on_service(peer), set_flag, NULL, 0, &opts) == PGAS_OK;
    while (!__atomic_load_n(&flag, __ATOMIC_ACQUIRE)) /* no library in here */
        sched_yield();
    spmd_ok(good && flag == PGAS_SLOT_SERVICE + 1,
            "a service call runs on the service thread of a rank that computes (slot %d)",
            (int)flag - 1);
    spmd_ok(pgas_sync_wait(&sync, -1) == PGAS_OK, "and its end is reported");
}

static void others_run_what_is_for_a_slot(void)
{
    enum { SLOT = 3, N = 20 };
    n_ran[SLOTS] = 0;
    pgas_barrier(NULL);
    int peer = job_right(), n_bad = 0;
    for (int i = 0; i < N; i++)
        n_bad += pgas_call_to(pgas_on_thread(pgas_thread_make(peer, SLOT)), who, NULL, 0, NULL) !=
                 PGAS_OK;
    for (int i = 0; i < 1000; i++)
        pgas_progress();
    bool none = n_ran[SLOTS] == 0;
    while (__atomic_load_n(&n_ran[SLOTS], __ATOMIC_ACQUIRE) < N) {
        pgas_progress(); /* of the rank; the calls themselves: */
        pgas_progress_for(SLOT);
    }
    spmd_ok(n_bad == 0 && none, "calls for a slot that no thread has had wait");
    pgas_barrier(NULL);
    spmd_ok(n_ran[SLOTS] == N, "until a thread asks for them");
    pgas_barrier(NULL);
    bool good = pgas_consumers_start(SLOT, 2) == PGAS_OK &&
                pgas_consumers_start(SLOT, 1) == PGAS_ERR_EXISTS;
    pgas_barrier(NULL);
    for (int i = 0; i < N; i++)
        n_bad += pgas_call_to(pgas_on_thread(pgas_thread_make(peer, SLOT)), who, NULL, 0, NULL) !=
                 PGAS_OK;
    pgas_quiesce();
    spmd_ok(good && n_bad == 0 && n_ran[SLOTS] == 2 * N, "or consumer threads run them");
    spmd_ok(pgas_consumers_stop(SLOT) == PGAS_OK && pgas_consumers_stop(SLOT) == PGAS_ERR_NOT_FOUND,
            "until they are stopped");
}

static void *come_and_go(void *arg)
{
    (void)arg;
    pgas_thread_attach();
    pgas_thread_t self = pgas_thread_self();
    pgas_thread_detach();
    return (void *)(intptr_t)pgas_thread_slot(self);
}

static bool near(int rank)
{
    return pgas_node_of(rank) == pgas_node();
}

static int64_t n_dropped(void)
{
    return (int64_t)__atomic_load_n(&pgasi_n_dropped, __ATOMIC_RELAXED);
}

static void who_has_left_is_not_waited_for(void)
{
    pthread_t thread;
    void *slot;
    pthread_create(&thread, NULL, come_and_go, NULL);
    pthread_join(thread, &slot);
    pgas_barrier(NULL);
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = &sync;
    int peer = job_right();
    int64_t before = n_dropped();
    pgas_barrier(NULL); /* no rank calls before */
    pgas_thread_t gone = pgas_thread_make(peer, (int)(intptr_t)slot);
    bool good = pgas_call_to(pgas_on_thread(gone), who, NULL, 0, &opts) == PGAS_OK;
    spmd_ok(good && pgas_sync_wait(&sync, -1) == PGAS_ERR_PEER,
            "a call to a thread that has left ends with PGAS_ERR_PEER");
    pgas_sync_reset(&sync);
    opts.when = PGAS_REMOTE;
    good = pgas_call_to(pgas_on_thread(gone), who, NULL, 0, &opts) == PGAS_OK;
    pgas_status_t told = pgas_sync_wait(&sync, -1), wanted = near(peer) ? PGAS_OK : PGAS_ERR_PEER;
    spmd_ok(good && told == wanted,
            "its detach is reported instead of the arrival, where the target reports");
    pgas_call_to(pgas_on_thread(gone), who, NULL, 0, NULL);
    spmd_ok(pgas_quiesce() == PGAS_OK, "quiescence does not wait for it");
    spmd_is_int(n_dropped() - before, near((me + n_ranks - 1) % n_ranks) ? 2 : 1,
                "refused calls without a counter are counted");
}

/* Its consumers stay. */
static void *leave_consumers(void *arg)
{
    (void)arg;
    pgas_thread_attach();
    intptr_t slot = pgas_thread_slot(pgas_thread_self());
    bool good = pgas_consumers_start((int)slot, 1) == PGAS_OK;
    pgas_thread_detach();
    return (void *)(good ? slot : -1);
}

static void consumers_outlast_the_thread(void)
{
    pthread_t thread;
    void *slot;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    pthread_create(&thread, NULL, leave_consumers, NULL);
    pthread_join(thread, &slot);
    pgas_thread_t target = pgas_thread_make(job_right(), (int)(intptr_t)slot);
    pgas_barrier(NULL);
    opts.sync = &sync;
    bool good = pgas_call_to(pgas_on_thread(target), who, NULL, 0, &opts) == PGAS_OK &&
                pgas_sync_wait(&sync, -1) == PGAS_OK;
    pgas_barrier(NULL);
    good = pgas_consumers_stop((int)(intptr_t)slot) == PGAS_OK && good;
    pgas_barrier(NULL);
    pgas_sync_reset(&sync);
    good = pgas_call_to(pgas_on_thread(target), who, NULL, 0, &opts) == PGAS_OK &&
           pgas_sync_wait(&sync, -1) == PGAS_ERR_PEER && good;
    spmd_ok(good, "consumers of a thread that detaches continue, until they are stopped");
}

static void *send_unattached(void *arg)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    int n_bad = 0;
    opts.way = PGAS_WAY_SEND;
    (void)arg;
    n_bad += pgas_call_to(pgas_on_rank(0), who, NULL, 0, NULL) != PGAS_ERR_CONTEXT;
    for (int i = 0; i < 50; i++)
        n_bad += pgas_call_to(pgas_on_rank((me + i) % n_ranks), who, NULL, 0, &opts) != PGAS_OK;
    return (void *)(intptr_t)n_bad;
}

static void threads_without_set_up_send(void)
{
    pthread_t thread[2];
    void *n_bad[2];
    n_ran[SLOTS] = 0;
    pgas_barrier(NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, send_unattached, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], &n_bad[i]);
    pgas_quiesce();
    uint64_t sum = 0;
    pgas_allreduce(NULL, &n_ran[SLOTS], &sum, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(!n_bad[0] && !n_bad[1] && sum == 100 * (uint64_t)n_ranks,
            "threads that are not attached send");
}

/* Gives the slot consumers as soon as the log says that calls wait for it. */
static void *reads_the_log(void *arg)
{
    char text[4096];
    ssize_t n = 0;
    (void)arg;
    do {
        sched_yield();
        n = pread(said_file, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = '\0';
    } while (!strstr(text, "slot 3"));
    bool good = pgas_thread_attach() == PGAS_OK && pgas_consumers_start(3, 1) == PGAS_OK;
    return pgas_thread_detach() == PGAS_OK && good ? arg : NULL;
}

static void quiescence_says_for_whom_it_waits(void)
{
    pthread_t thread;
    void *good = NULL;
    int n_bad = 0;
    n_ran[SLOTS] = 0;
    said_begin();
    pgas_barrier(NULL);
    for (int i = 0; i < 5; i++)
        n_bad += pgas_call_to(pgas_on_thread(pgas_thread_make(job_right(), 3)), who, NULL, 0,
                              NULL) != PGAS_OK;
    pthread_create(&thread, NULL, reads_the_log, &n_bad);
    pgas_status_t status = pgas_quiesce();
    pthread_join(thread, &good);
    pgas_consumers_stop(3);
    int n_said = said_by("5 calls are for slot 3 of this rank, which no thread has");
    spmd_ok(n_said == n_ranks,
            "quiescence says for which slot it waits, and how many calls (%d ranks)", n_said);
    spmd_ok(good && n_bad == 0 && status == PGAS_OK && n_ran[SLOTS] == 5,
            "and ends when a thread runs them");
}

static void bad_targets_are_refused(void)
{
    pgas_call_opts_t odd = PGAS_CALL_OPTS_INIT;
    odd.way = (pgas_way_t)7;
    spmd_ok(pgas_call_to(pgas_on_thread(pgas_thread_make(n_ranks, 0)), who, NULL, 0, NULL) ==
                PGAS_ERR_RANGE,
            "no such rank");
    spmd_ok(pgas_call_to(pgas_on_thread(pgas_thread_make(0, 100)), who, NULL, 0, NULL) ==
                PGAS_ERR_LIMIT,
            "no such port");
    spmd_ok(pgas_call_to(pgas_on_thread(pgas_thread_make(0, 0)), who, NULL, 0, &odd) ==
                PGAS_ERR_INVALID,
            "no such way");
    spmd_ok(pgas_progress_for(-1) == 0 && pgas_consumers_start(-1, 1) == PGAS_ERR_RANGE &&
                pgas_consumers_start(0, 0) == PGAS_ERR_INVALID &&
                pgas_consumers_start(3000, 1) == PGAS_ERR_LIMIT,
            "no such slots, no threads");
}

static void *stay_away(void *arg)
{
    (void)arg;
    pgas_thread_attach();
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together); /* the job has ended */
    return NULL;
}

/* Slot 1 belongs to a thread that is outside of the library, slot 3 never had one. */
static void the_end_waits_for_no_thread(void)
{
    pthread_t thread;
    int peer = job_right();
    pthread_barrier_init(&together, NULL, 2);
    pthread_create(&thread, NULL, stay_away, NULL);
    pthread_barrier_wait(&together);
    n_ran[SLOTS] = 0;
    pgas_barrier(NULL);
    pgas_sync_t arrived = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = &arrived;
    opts.when = PGAS_REMOTE;
    int64_t before = n_dropped();
    bool good =
        pgas_call_to(pgas_on_thread(pgas_thread_make(peer, 1)), who, NULL, 0, NULL) == PGAS_OK &&
        pgas_call_to(pgas_on_thread(pgas_thread_make(peer, 3)), who, NULL, 0, NULL) == PGAS_OK &&
        pgas_call_to(pgas_on_thread(pgas_thread_make(peer, 3)), who, NULL, 0, &opts) == PGAS_OK;
    good = pgas_sync_wait(&arrived, -1) == PGAS_OK && good;
    pgas_barrier(NULL); /* it has arrived before the end begins */
    job_stop();
    pthread_barrier_wait(&together);
    pthread_join(thread, NULL);
    spmd_ok(good && n_ran[SLOTS] == 1,
            "the end runs calls to a thread that does not poll, and refuses calls to none");
    spmd_is_int(n_dropped() - before, 2, "it counts refused calls, also those reported as arrived");
}

int main(int argc, char **argv)
{
    pgas_handler_register("numbered", on_numbered, NULL, NULL, &numbered);
    pgas_handler_register("flag", on_flag, NULL, NULL, &set_flag);
    pgas_handler_register("who", on_who, NULL, NULL, &who);
    job_begin(&argc, &argv, 26);
    pgas_barrier(NULL); /* no rank calls before */
    calls_run_on_their_thread();
    the_service_serves_while_we_compute();
    others_run_what_is_for_a_slot();
    who_has_left_is_not_waited_for();
    consumers_outlast_the_thread();
    threads_without_set_up_send();
    bad_targets_are_refused();
    job_stop();
    job_start(NULL);
    quiescence_says_for_whom_it_waits();
    job_stop();
    job_start(NULL);
    the_end_waits_for_no_thread();
    return spmd_end();
}
