/* Calls with archives between threads.
 *   what:   Several threads send chunks to threads, ranks and services at the same time, and every
 *           byte arrives. Calls to a thread run in the order issued. On the node a thread reads its
 *           calls while another one occupies the rank's receive lock.
 *   np:     2 1 3
 *   nodes:  0 1 2
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=2 PGAS_CHUNK_SIZE=4K | PGAS_VM_READ=0
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 | PGAS_BUFFER_LIMIT=1M |
 *   source: pgas/call_archive.h
 */
#include <pthread.h>
#include <sched.h>
#include "pgas/call_archive.h"
#include "t/pattern.h"
#include "t/spmd/job.h"

#define N_THREADS 3 /* beside the initialising one */
#define SLOTS     (N_THREADS + 1)
#define N_CALLS   150
#define LARGE     60000
#define PATIENCE  10000000 /* yields, until a check fails */

static pgas_handler_t check, gate;
static int n_wrong, n_parked, parks, gate_passed;
static bool ran_beside_gate;
static uint64_t gate_until, n_run, last[SLOTS][JOB_RANKS_MAX][SLOTS + 1]; /* by target, source */
static pgas_thread_t threads[SLOTS];

typedef struct {
    uint64_t number, n_bytes;
    int32_t slot; /* of the target; negative: any */
} about_t;

static void on_check(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in;
    about_t about = { 0, 0, -1 };
    pgas_rma_object_t *object = NULL;
    const void *data = NULL;
    size_t n = 0, size = 0;
    (void)args;
    (void)bytes;
    (void)context;
    bool good = pgas_archive_from_call(&in) == PGAS_OK &&
                pgas_archive_get(&in, &about, sizeof about) == PGAS_OK &&
                pgas_archive_get_object(&in, &object, &n) == PGAS_OK && n == about.n_bytes &&
                pattern_matches(object->data, about.number, n) &&
                pgas_archive_get_vector(&in, 1, &data, &size) == PGAS_OK && size == n / 2 &&
                pattern_matches(data, about.number + 1, size);
    if (good && about.slot >= 0) {
        uint64_t *before =
            &last[about.slot][pgas_thread_rank(source)][pgas_thread_slot(source) % (SLOTS + 1)];
        good = about.number > *before;
        *before = about.number;
    }
    pgas_rma_object_destroy(object);
    pgas_archive_free(&in);
    __atomic_fetch_add(&n_wrong, !good, __ATOMIC_RELAXED);
    __atomic_fetch_add(&n_run, 1, __ATOMIC_RELEASE);
}

/* Occupies the thread that runs the rank's calls until other threads have run so many. */
static void on_gate(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_store_n(&parks, 0, __ATOMIC_RELEASE);
    for (int n = 0; n < PATIENCE && __atomic_load_n(&n_run, __ATOMIC_ACQUIRE) < gate_until; n++)
        sched_yield();
    ran_beside_gate = __atomic_load_n(&n_run, __ATOMIC_ACQUIRE) >= gate_until;
    __atomic_store_n(&gate_passed, 1, __ATOMIC_RELEASE);
}

/* ---- senders ---- */

static pgas_status_t send_one(pgas_archive_t *out, pgas_target_t target, about_t about,
                              unsigned char *memory, pgas_sync_t *done)
{
    pgas_rma_object_t *object;
    pgas_status_t status = pgas_rma_object_create(about.n_bytes, &object);
    if (status != PGAS_OK)
        return status;
    pattern_fill(object->data, about.number, about.n_bytes);
    pattern_fill(memory, about.number + 1, about.n_bytes / 2);
    pgas_archive_put(out, &about, sizeof about);
    pgas_archive_put_object(out, object, about.n_bytes);
    pgas_archive_put_vector(out, memory, about.n_bytes / 2, 1);
    pgas_rma_object_destroy(object);
    status = pgas_call_args(target, check, out, done ? PGAS_CALL_OPTS(.sync = done) : NULL);
    if (status == PGAS_OK && done)
        status = pgas_sync_wait(done, -1);
    return status;
}

static void send_all(int self)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    unsigned char *memory = job_alloc(LARGE);
    for (uint64_t i = 1; i <= N_CALLS; i++) {
        pgas_sync_t done = PGAS_SYNC_INIT;
        int rank = (int)((i + (uint64_t)self) % (uint64_t)n_ranks), slot = (int)(i / 3 % SLOTS);
        bool to_thread = i % 3 != 0;
        about_t about = { i, i % 5 == 0 ? LARGE : 100 * i, to_thread ? slot : -1 };
        pgas_target_t target = pgas_on_thread(pgas_thread_make(rank, slot));
        if (!to_thread)
            target = i % 2 ? pgas_on_rank(rank) : pgas_on_service(rank);
        pgas_status_t status = send_one(&out, target, about, memory, i % 4 == 1 ? &done : NULL);
        __atomic_fetch_add(&n_wrong, status != PGAS_OK, __ATOMIC_RELAXED);
    }
    free(memory);
    pgas_archive_free(&out);
}

/* ---- threads ---- */

static pthread_barrier_t meet;
static int stop;

/* Stays outside of the library for a while. */
static void park(void)
{
    if (!__atomic_load_n(&parks, __ATOMIC_ACQUIRE))
        return;
    __atomic_fetch_add(&n_parked, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&parks, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void *work(void *arg)
{
    int self = (int)(intptr_t)arg;
    if (pgas_thread_attach() != PGAS_OK)
        __atomic_fetch_add(&n_wrong, 1, __ATOMIC_RELAXED);
    threads[self] = pgas_thread_self();
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    send_all(self);
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        pgas_progress();
        park();
    }
    if (pgas_thread_detach() != PGAS_OK)
        __atomic_fetch_add(&n_wrong, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void threads_send(void)
{
    pthread_barrier_wait(&meet);
    send_all(0);
    uint64_t all = (uint64_t)n_ranks * SLOTS * N_CALLS, sum = 0;
    while (sum < all) {
        pgas_progress();
        uint64_t mine = __atomic_load_n(&n_run, __ATOMIC_ACQUIRE);
        if (pgas_allreduce(NULL, &mine, &sum, 1, PGAS_U64, PGAS_ADD) != PGAS_OK)
            break;
    }
    spmd_ok(sum == all && !__atomic_load_n(&n_wrong, __ATOMIC_RELAXED),
            "%d threads of each rank send to threads, ranks and services", SLOTS);
}

/* A call of rank 0 occupies the receive lock of rank 1, or its service thread. Calls to a thread of
 * rank 1 still run, as they need no other thread there. */
static void threads_read_themselves(void)
{
    bool near = n_ranks > 1 && pgas_node_of(1) == pgas_node_of(0);
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    unsigned char *memory = job_alloc(LARGE);
    about_t about = { 1000, LARGE, 1 };
    pgas_target_t target = pgas_on_thread(pgas_thread_make(1, 1));
    int n_bad = 0;
    if (near && me == 1) {
        gate_until = __atomic_load_n(&n_run, __ATOMIC_ACQUIRE) + 2;
        __atomic_store_n(&parks, 1, __ATOMIC_RELEASE);
        while (__atomic_load_n(&n_parked, __ATOMIC_ACQUIRE) < N_THREADS)
            sched_yield();
    }
    pgas_barrier(NULL);
    if (near && me == 0) {
        n_bad += pgas_call(1, gate, NULL, 0, NULL) != PGAS_OK;
        n_bad += send_one(&out, target, about, memory, NULL) != PGAS_OK;
        about.number++;
        n_bad += send_one(&out, target, about, memory, NULL) != PGAS_OK;
    }
    while (near && me == 1 && !__atomic_load_n(&gate_passed, __ATOMIC_ACQUIRE))
        pgas_progress();
    pgas_barrier(NULL);
    spmd_ok(!n_bad && !n_wrong && ran_beside_gate == (near && me == 1),
            "a thread reads its calls while another one has the receive lock");
    free(memory);
    pgas_archive_free(&out);
}

int main(int argc, char **argv)
{
    pthread_t thread[SLOTS];
    pgas_handler_register("t.check", on_check, NULL, NULL, &check);
    pgas_handler_register("t.gate", on_gate, NULL, NULL, &gate);
    job_begin(&argc, &argv, 4);
    pthread_barrier_init(&meet, NULL, SLOTS);
    for (int i = 1; i < SLOTS; i++)
        pthread_create(&thread[i], NULL, work, (void *)(intptr_t)i);
    pthread_barrier_wait(&meet);
    bool distinct = true;
    for (int i = 1; i < SLOTS; i++)
        distinct = distinct && pgas_thread_slot(threads[i]) < SLOTS;
    pgas_barrier(NULL);
    spmd_ok(distinct, "every thread has a slot");
    threads_send();
    threads_read_themselves();
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    for (int i = 1; i < SLOTS; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&meet);
    pgas_rma_info_t info = { .size = sizeof info };
    bool quiet = pgas_quiesce() == PGAS_OK && pgas_rma_info(&info) == PGAS_OK;
    spmd_ok(quiet && !info.n_objects, "all objects have ended (%llu left)",
            (unsigned long long)info.n_objects);
    return job_end();
}
