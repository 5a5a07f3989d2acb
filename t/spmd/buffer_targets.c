/* Calls with buffers to threads, to services and to blocking handlers.
 *   what:   Copied, pushed and pulled buffers arrive whole at the thread that a call addresses, and
 *           that thread runs the call; at the service while the application computes; and at a
 *           handler that waits, which keeps its buffers and its turn, and answers with a large
 *           reply. A thread that has detached refuses calls, and all their counters are
 *           decremented, by message or by a write.
 *   np:     1 2 3
 *   nodes:  0 1 2
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=2 PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=64
 *   env:    PGAS_VM_READ=0 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3
 *   log:    a call with buffers from rank [0-9]+ is lost: peer
 *   source: pgas/call.h */
#include <pthread.h>
#include <sched.h>
#include "t/spmd/buffers.h"
#include "t/spmd/job.h"

#define N_THREADS 2 /* beside the initialising one */
#define SLOTS     (N_THREADS + 1)
#define N_ROUNDS  12
#define LARGE     50000
#define N_WAITING 10

typedef enum { COPY, COPY_LARGE, PUSH, PULL_HEAP, PULL_PRIVATE, PULL_HELPED, N_KINDS } kind_t;

static pgas_handler_t check, waits, gives, never;
static int n_wrong;
static unsigned char *in_heap, *in_private;
static pgas_gptr_t to_place[JOB_RANKS_MAX];
static uint64_t n_ran[SLOTS];
static int64_t service_ran, n_waiting, n_never;
static uint64_t started[N_WAITING];
static pgas_sync_t gate = PGAS_SYNC_INIT;
static pthread_barrier_t together;

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 7 + (i >> 8));
}

static bool is_whole(const void *address, size_t bytes)
{
    const unsigned char *at = address;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != byte_at(i))
            return false;
    return true;
}

static size_t bytes_of(kind_t kind)
{
    return kind == COPY || kind == PUSH ? 40 : LARGE;
}

/* place: which of those that others push to */
static pgas_buffer_t buffer_of(kind_t kind, int rank, size_t place)
{
    static const pgas_buffer_mode_t modes[N_KINDS] = { PGAS_BUFFER_COPY, PGAS_BUFFER_COPY,
                                                       PGAS_BUFFER_PUSH, PGAS_BUFFER_PULL,
                                                       PGAS_BUFFER_PULL, PGAS_BUFFER_PULL };
    const void *from = kind == PULL_HEAP ? in_heap : in_private;
    pgas_gptr_t to = kind == PUSH ? to_place[rank] + place * 64 : PGAS_NULL;
    return (pgas_buffer_t){ modes[kind], from, bytes_of(kind), to, kind == PULL_HELPED, NULL };
}

static bool buffer_is_right(size_t i, size_t bytes)
{
    void *address = NULL;
    size_t n = 0;
    return pgas_buffer_get(i, &address, &n) == PGAS_OK && n == bytes && is_whole(address, n);
}

static void wrong_unless(bool good)
{
    if (!good)
        __atomic_fetch_add(&n_wrong, 1, __ATOMIC_RELAXED);
}

/* ---- threads ---- */

typedef struct {
    uint32_t slot, kind;
    uint32_t n_less; /* bytes that the caller says are missing */
} expect_t;

static void on_check(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    expect_t e;
    (void)source;
    (void)context;
    memcpy(&e, args, sizeof e);
    wrong_unless(bytes == sizeof e && pgas_thread_self() == pgas_thread_make(me, (int)e.slot) &&
                 pgas_buffer_count() == 1 &&
                 buffer_is_right(0, bytes_of((kind_t)e.kind) - e.n_less));
    if (e.slot < SLOTS)
        __atomic_fetch_add(&n_ran[e.slot], 1, __ATOMIC_RELEASE);
    else
        __atomic_fetch_add(&service_ran, 1, __ATOMIC_RELEASE);
}

static void call_all_threads(int slot, unsigned round)
{
    for (int r = 0; r < n_ranks; r++) {
        for (unsigned s = 0; s < SLOTS; s++) {
            kind_t kind = (kind_t)((round + s + (unsigned)r) % N_KINDS);
            expect_t e = { s, kind, 0 };
            pgas_buffer_t b = buffer_of(kind, r, (size_t)(me * SLOTS + slot));
            pgas_thread_t target = pgas_thread_make(r, (int)s);
            wrong_unless(call_buffers(pgas_on_thread(target), check, &e, sizeof e, &b, 1, NULL,
                                      NULL) == PGAS_OK);
        }
    }
}

/* Every thread of every rank calls every thread of every rank, then serves until all its calls have
 * come. */
static void *send_and_serve(void *arg)
{
    if (arg)
        wrong_unless(pgas_thread_attach() == PGAS_OK);
    pthread_barrier_wait(&together);
    int slot = pgas_thread_slot(pgas_thread_self());
    for (unsigned i = 0; i < N_ROUNDS; i++)
        call_all_threads(slot, i);
    uint64_t all = (uint64_t)N_ROUNDS * (uint64_t)n_ranks * SLOTS;
    while (__atomic_load_n(&n_ran[slot], __ATOMIC_ACQUIRE) < all)
        pgas_progress();
    pthread_barrier_wait(&together);
    if (arg)
        pgas_thread_detach();
    return NULL;
}

static void threads_run_their_calls(void)
{
    pthread_t thread[N_THREADS];
    pthread_barrier_init(&together, NULL, SLOTS);
    for (int i = 0; i < N_THREADS; i++)
        pthread_create(&thread[i], NULL, send_and_serve, &together);
    send_and_serve(NULL);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(thread[i], NULL);
    bool quiet = pgas_quiesce() == PGAS_OK;
    uint64_t all = (uint64_t)N_ROUNDS * (uint64_t)n_ranks * SLOTS;
    spmd_ok(quiet && n_wrong == 0 && n_ran[0] == all && n_ran[1] == all && n_ran[2] == all,
            "each thread runs the calls for it, with whole buffers of each kind (%d wrong)",
            n_wrong);
    expect_t e = { 0, COPY_LARGE, 1 };
    pgas_buffer_t b = buffer_of(COPY_LARGE, me, 0);
    call_buffers(pgas_on_thread(pgas_thread_make(me, 0)), check, &e, sizeof e, &b, 1, NULL, NULL);
    pgas_quiesce();
    spmd_ok(n_wrong == 1, "a buffer of another size is noticed");
    n_wrong = 0;
}

/* ---- the service ---- */

static void the_service_runs_its_calls(void)
{
    int peer = job_right();
    pgas_barrier(NULL);
    for (unsigned kind = 0; kind < N_KINDS; kind++) {
        expect_t e = { PGAS_SLOT_SERVICE, kind, 0 };
        pgas_buffer_t b = buffer_of((kind_t)kind, peer, (size_t)me);
        pgas_thread_t target = pgas_thread_make(peer, PGAS_SLOT_SERVICE);
        wrong_unless(call_buffers(pgas_on_thread(target), check, &e, sizeof e, &b, 1, NULL, NULL) ==
                     PGAS_OK);
    }
    while (__atomic_load_n(&service_ran, __ATOMIC_ACQUIRE) < N_KINDS) /* no library in here */
        sched_yield();
    pgas_quiesce();
    spmd_ok(n_wrong == 0 && service_ran == N_KINDS,
            "the service runs calls with buffers while the application computes");
}

/* ---- handlers that wait ---- */

static void on_waits(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number = 0;
    (void)source;
    (void)context;
    memcpy(&number, args, sizeof number);
    int64_t at = __atomic_load_n(&n_waiting, __ATOMIC_RELAXED);
    started[at % N_WAITING] = number;
    __atomic_store_n(&n_waiting, at + 1, __ATOMIC_RELEASE);
    wrong_unless(bytes == sizeof number && pgas_buffer_count() == 1);
    wrong_unless(pgas_sync_wait(&gate, -1) == PGAS_OK);
    wrong_unless(buffer_is_right(0, LARGE));
}

/* All have begun and wait. Then their buffers are unchanged. */
static void waiting_handlers_keep_buffers(kind_t kind)
{
    pgas_sync_t done = PGAS_SYNC_INIT, local = PGAS_SYNC_INIT;
    int peer = job_right();
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = &done;
    n_waiting = 0;
    wrong_unless(pgas_sync_add(&gate, 1) == PGAS_OK);
    pgas_barrier(NULL);
    for (uint64_t i = 0; i < N_WAITING; i++) {
        pgas_buffer_t b = buffer_of(kind, peer, 0);
        pgas_thread_t target = pgas_thread_make(peer, PGAS_SLOT_ANY);
        wrong_unless(call_buffers(pgas_on_thread(target), waits, &i, sizeof i, &b, 1, &opts,
                                  &local) == PGAS_OK);
    }
    wrong_unless(pgas_sync_wait(&local, -1) == PGAS_OK);
    while (__atomic_load_n(&n_waiting, __ATOMIC_ACQUIRE) < N_WAITING)
        pgas_progress();
    wrong_unless(pgas_sync_test(&done) == PGAS_INPROGRESS);
    pgas_barrier(NULL);
    pgas_sync_done(&gate, 1);
    wrong_unless(pgas_sync_wait(&done, -1) == PGAS_OK);
    pgas_quiesce();
    for (uint64_t i = 0; i < N_WAITING; i++)
        wrong_unless(started[i] == i);
    spmd_ok(n_wrong == 0, "handlers that wait start in order and keep their buffers, %s",
            kind == COPY_LARGE ? "copied" : "pulled");
}

/* Waits, then answers. */
static void on_gives(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t own = 0, word = 5;
    (void)args;
    (void)bytes;
    (void)context;
    wrong_unless(pgas_get(&own, to_place[pgas_thread_rank(source)], sizeof own) == PGAS_OK);
    wrong_unless(pgas_put(to_place[pgas_thread_rank(source)] + 8, &word, sizeof word) == PGAS_OK);
    wrong_unless(pgas_reply(in_private, LARGE) == PGAS_OK &&
                 pgas_reply(in_private, LARGE) == PGAS_ERR_CONTEXT);
}

static void waiting_handlers_give_large_replies(void)
{
    unsigned char *place[] = { job_alloc(LARGE), in_heap };
    for (size_t i = 0; i < 2; i++) {
        memset(place[i], 0, LARGE);
        wrong_unless(pgas_call_return(job_right(), gives, NULL, 0, place[i], LARGE) == PGAS_OK &&
                     is_whole(place[i], LARGE));
    }
    free(place[0]);
    wrong_unless(pgas_call_return(job_right(), gives, NULL, 0, in_heap, LARGE + 1) ==
                 PGAS_ERR_MISMATCH);
    pgas_barrier(NULL);
    spmd_ok(n_wrong == 0, "and give large replies");
}

/* ---- counters ---- */

static void written_counters_fall(void)
{
    pgas_gptr_t at = PGAS_NULL;
    wrong_unless(pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, 3 * sizeof(pgas_sync_t), &at) ==
                 PGAS_OK);
    pgas_sync_t *sync = pgas_gptr_local(at, 3 * sizeof *sync);
    for (int i = 0; i < 3; i++)
        sync[i] = (pgas_sync_t)PGAS_SYNC_INIT;
    pgas_barrier(NULL);
    for (int i = 0; i < 4 * N_KINDS; i++) {
        kind_t kind = (kind_t)(i % N_KINDS);
        pgas_buffer_t b = buffer_of(kind, job_right(), (size_t)me);
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        expect_t e = { 0, kind, 0 };
        opts.when = i < 2 * N_KINDS ? PGAS_REMOTE : PGAS_EXECUTED;
        opts.sync = &sync[i < 2 * N_KINDS];
        wrong_unless(call_buffers(pgas_on_thread(pgas_thread_make(job_right(), 0)), check, &e,
                                  sizeof e, &b, 1, &opts,
                                  i < 2 * N_KINDS ? &sync[2] : NULL) == PGAS_OK);
    }
    for (int i = 0; i < 3; i++)
        wrong_unless(pgas_sync_wait(&sync[i], -1) == PGAS_OK);
    pgas_quiesce();
    for (int i = 0; i < 3; i++)
        wrong_unless(sync[i].count == 0);
    spmd_ok(
        n_wrong == 0,
        "counters in the heap are decremented at remote, executed and local completion, once each");
}

/* ---- threads that have detached ---- */

static void on_never(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_fetch_add(&n_never, 1, __ATOMIC_RELAXED);
}

static void threads_that_left_refuse(void)
{
    pgas_barrier(NULL);
    for (unsigned kind = 0; kind < N_KINDS; kind++) {
        pgas_sync_t executed = PGAS_SYNC_INIT, local = PGAS_SYNC_INIT;
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        opts.sync = &executed;
        pgas_buffer_t b = buffer_of((kind_t)kind, job_right(), (size_t)me);
        pgas_thread_t target = pgas_thread_make(job_right(), 1);
        bool pull = kind >= PULL_HEAP;
        wrong_unless(call_buffers(pgas_on_thread(target), never, NULL, 0, &b, 1, &opts, &local) ==
                     PGAS_OK);
        wrong_unless(pgas_sync_wait(&executed, -1) == PGAS_ERR_PEER);
        wrong_unless(pgas_sync_wait(&local, -1) == (pull ? PGAS_ERR_PEER : PGAS_OK));
        /* the log says so */
        wrong_unless(call_buffers(pgas_on_thread(target), never, NULL, 0, &b, 1, NULL, NULL) ==
                     PGAS_OK);
    }
    pgas_quiesce();
    spmd_ok(n_wrong == 0 && n_never == 0,
            "a detached thread refuses: counters complete with PGAS_ERR_PEER");
    pgas_buffer_t b = buffer_of(COPY, 0, 0);
    spmd_is_int(call_buffers(pgas_on_thread(pgas_thread_make(0, 4000)), never, NULL, 0, &b, 1, NULL,
                             NULL),
                PGAS_ERR_LIMIT, "a slot that has no port is refused");
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t blocks = PGAS_HANDLER_OPTS_INIT;
    blocks.blocks = true;
    pgas_handler_register("t.check", on_check, NULL, NULL, &check);
    pgas_handler_register("t.never", on_never, NULL, NULL, &never);
    pgas_handler_register("t.waits", on_waits, NULL, &blocks, &waits);
    pgas_handler_register("t.gives", on_gives, NULL, &blocks, &gives);
    job_begin(&argc, &argv, 10);
    pgas_gptr_t to = PGAS_NULL, from = PGAS_NULL;
    spmd_ok(pgas_alloc(64 * SLOTS * JOB_RANKS_MAX, &to) == PGAS_OK &&
                pgas_alloc(LARGE + 8, &from) == PGAS_OK,
            "alloc");
    job_gather(to, to_place);
    in_heap = pgas_gptr_local(from, LARGE + 8);
    in_private = job_alloc(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        in_heap[i] = in_private[i] = byte_at(i);
    threads_run_their_calls();
    the_service_runs_its_calls();
    waiting_handlers_keep_buffers(COPY_LARGE);
    waiting_handlers_keep_buffers(PULL_PRIVATE);
    waiting_handlers_give_large_replies();
    written_counters_fall();
    threads_that_left_refuse();
    pgas_barrier(NULL);
    free(in_private);
    return job_end();
}
