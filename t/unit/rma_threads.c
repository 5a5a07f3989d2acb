/* what: Several threads create, share, pass on and destroy objects, 10^6 in all. Some of the
 *       threads are not attached, and threads end meanwhile. No object has the memory of another
 *       object, and all memory is free at the end. The same is true while the heap is full and
 *       threads empty each other's lists. Other requests get blocks that an idle thread keeps.
 * needs: tsan-ok
 * log: no room in the heap for an object
 * source: pgas/rma_object.h; seeded test */
#include <pthread.h>
#include <sched.h>
#include "base/rng.h"
#include "boot/wait.h"
#include "mem/rma_object.h"
#include "pgas/mem.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_THREADS  4
#define ROUNDS     25 /* in each of them all threads end */
#define STEPS      10000
#define SHELF      64
#define SMALL_HEAP ((size_t)8 << 20)

/* Objects that any thread may take. Each entry is a holder. */
static struct {
    pthread_mutex_t lock;
    pgas_rma_object_t *object;
} shelf[SHELF];
static uint64_t seed;
static bool careless; /* a thread uses objects that it has destroyed */

static uint64_t mark_of(const pgas_rma_object_t *o)
{
    return (uint64_t)(uintptr_t)o->data * 31 + o->bytes;
}

static void mark(const pgas_rma_object_t *o)
{
    uint64_t value = mark_of(o);
    memcpy(o->data, &value, 8);
    memcpy((char *)o->data + o->bytes - 8, &value, 8);
}

static bool is_marked(const pgas_rma_object_t *o)
{
    uint64_t first, last;
    memcpy(&first, o->data, 8);
    memcpy(&last, (char *)o->data + o->bytes - 8, 8);
    return first == mark_of(o) && last == first;
}

static size_t some_bytes(pgasi_rng_t *rng)
{
    if (pgasi_rng_below(rng, 500) == 0)
        return ((size_t)1 << 20) + pgasi_rng_below(rng, 1 << 21);
    return 16 + pgasi_rng_below(rng, pgasi_rng_below(rng, 20) ? 2000 : 70000);
}

static int end_of(pgas_rma_object_t *o)
{
    bool good = is_marked(o);
    return !good + (pgas_rma_object_destroy(o) != PGAS_OK);
}

static int step(pgasi_rng_t *rng)
{
    pgas_rma_object_t *o = NULL;
    int n_bad = pgas_rma_object_create(some_bytes(rng), &o) != PGAS_OK;
    if (n_bad)
        return n_bad;
    mark(o);
    for (uint64_t n = 1 + pgasi_rng_below(rng, 3); n > 0; n--) {
        size_t at = pgasi_rng_below(rng, SHELF);
        (void)pgas_rma_object_share(o);
        pthread_mutex_lock(&shelf[at].lock);
        pgas_rma_object_t *old = shelf[at].object;
        shelf[at].object = o;
        pthread_mutex_unlock(&shelf[at].lock);
        if (old)
            n_bad += end_of(old);
    }
    if (careless && pgasi_rng_below(rng, 4) == 0)
        n_bad += pgas_rma_object_destroy(o) != PGAS_OK; /* one holder too many ends */
    return n_bad + end_of(o);
}

typedef struct {
    int number, n_steps, n_bad;
    bool attaches;
} work_t;

static void *thread_main(void *arg)
{
    work_t *w = arg;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed + (uint64_t)w->number);
    if (w->attaches)
        w->n_bad += pgas_thread_attach() != PGAS_OK;
    for (int i = 0; i < w->n_steps && (!careless || !w->n_bad); i++)
        w->n_bad += step(&rng);
    if (w->attaches)
        w->n_bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

static int run(int n_threads, int n_rounds, int n_steps)
{
    pthread_t thread[N_THREADS];
    work_t work[N_THREADS];
    int sum = 0;
    for (int round = 0; round < n_rounds; round++) {
        for (int i = 0; i < n_threads; i++) {
            work[i] = (work_t){ .number = round * N_THREADS + i, .n_steps = n_steps };
            work[i].attaches = i % 2 == 0;
            pthread_create(&thread[i], NULL, thread_main, &work[i]);
        }
        for (int i = 0; i < n_threads; i++) {
            pthread_join(thread[i], NULL);
            sum += work[i].n_bad;
        }
    }
    return sum;
}

static int clear_shelf(void)
{
    int n_bad = 0;
    for (int i = 0; i < SHELF; i++) {
        if (shelf[i].object)
            n_bad += end_of(shelf[i].object);
        shelf[i].object = NULL;
    }
    return n_bad;
}

static pgas_rma_info_t info(void)
{
    pgas_rma_info_t i = { .size = sizeof i };
    (void)pgas_rma_info(&i);
    return i;
}

/* ---- a thread that keeps blocks and does nothing ---- */

static struct {
    pthread_barrier_t keeps, ends;
    int n_bad;
} idle;

static void *idle_main(void *arg)
{
    enum { N = 30 };
    pgas_rma_object_t *o[N];
    for (int i = 0; i < N; i++)
        idle.n_bad += pgas_rma_object_create(4000, &o[i]) != PGAS_OK || !o[i]->ptr;
    for (int i = 0; i < N; i++)
        idle.n_bad += pgas_rma_object_destroy(o[i]) != PGAS_OK;
    pthread_barrier_wait(&idle.keeps);
    pthread_barrier_wait(&idle.ends);
    return arg;
}

static int take_from_idle(void)
{
    pthread_t thread;
    pgas_gptr_t ptr;
    pthread_barrier_init(&idle.keeps, NULL, 2);
    pthread_barrier_init(&idle.ends, NULL, 2);
    pthread_create(&thread, NULL, idle_main, NULL);
    pthread_barrier_wait(&idle.keeps);
    int n_bad = pgas_alloc_on(0, PGAS_ZONE_NONE, SMALL_HEAP, &ptr) != PGAS_OK ||
                pgas_free_on(ptr) != PGAS_OK;
    pthread_barrier_wait(&idle.ends);
    pthread_join(thread, NULL);
    return n_bad + idle.n_bad;
}

/* ---- what threads and the rank keep: the pool grows by exactly what is missing ---- */

#define KEPT_MAX (SMALL_HEAP / 64) /* by a thread */
#define BLOCK    ((size_t)8 << 10)

/* @return the bytes by which the pool has grown */
static uint64_t create_and_destroy(size_t n, size_t bytes)
{
    static pgas_rma_object_t *o[1000];
    uint64_t before = info().pool_bytes;
    for (size_t i = 0; i < n; i++)
        (void)pgas_rma_object_create(bytes, &o[i]);
    uint64_t grown = info().pool_bytes - before;
    for (size_t i = 0; i < n; i++)
        (void)pgas_rma_object_destroy(o[i]);
    return grown;
}

typedef struct {
    size_t n, bytes;
    bool attaches, waits;
    uint64_t grown;
} keeper_t;

static void *keeper_main(void *arg)
{
    keeper_t *k = arg;
    if (k->attaches)
        (void)pgas_thread_attach();
    k->grown = create_and_destroy(k->n, k->bytes);
    if (k->attaches)
        (void)pgas_thread_detach();
    if (k->waits) {
        pthread_barrier_wait(&idle.keeps);
        pthread_barrier_wait(&idle.ends);
    }
    return NULL;
}

/* @return the bytes by which the pool grows when a second thread creates as many objects as a first
 *          one has had */
static uint64_t create_after(keeper_t *first)
{
    pthread_t thread, other;
    keeper_t second = { .n = first->n, .bytes = first->bytes };
    pthread_create(&thread, NULL, keeper_main, first);
    if (first->waits)
        pthread_barrier_wait(&idle.keeps);
    else
        pthread_join(thread, NULL);
    pthread_create(&other, NULL, keeper_main, &second);
    pthread_join(other, NULL);
    if (first->waits) {
        pthread_barrier_wait(&idle.ends);
        pthread_join(thread, NULL);
    }
    return second.grown;
}

static void keep(void)
{
    size_t n = KEPT_MAX / BLOCK;
    keeper_t ends = { .n = n, .bytes = BLOCK },
             detaches = { .n = 2 * n, .bytes = BLOCK, .attaches = true, .waits = true },
             stays = { .n = 5 * n, .bytes = BLOCK, .waits = true },
             small = { .n = 640, .bytes = 64, .waits = true };
    uint64_t grown = create_after(&ends);
    ok(grown == 0 && ends.grown == KEPT_MAX, "a thread that ends leaves its blocks to others");
    grown = create_after(&detaches);
    ok(grown == 0 && detaches.grown == KEPT_MAX, "a thread that detaches does, too");
    grown = create_after(&stays);
    ok(stays.grown == 3 * KEPT_MAX && grown > 0 && grown <= KEPT_MAX,
       "a thread that stays keeps at most a 64th of the heap");
    grown = create_after(&small);
    ok(small.grown > 0 && grown <= 4096, "and few small blocks");
    is_int((intmax_t)create_and_destroy(6, 640 << 10), 6 * 640 << 10, "large objects");
    is_int((intmax_t)create_and_destroy(3, 512 << 10), 0,
           "of which the rank keeps at most a quarter of the heap");
}

/* ---- lists that are emptied while their owners use them ---- */

#define N_TRIMS 100
#define N_USERS 2

static int trim_is_over;

static void *user_main(void *arg)
{
    int *n_bad_p = arg;
    pgas_rma_object_t *o[8];
    while (!__atomic_load_n(&trim_is_over, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < 8; i++) {
            *n_bad_p += pgas_rma_object_create(64, &o[i]) != PGAS_OK;
            mark(o[i]);
        }
        for (int i = 0; i < 8; i++)
            *n_bad_p += end_of(o[i]);
    }
    return NULL;
}

static int trim_meanwhile(void)
{
    pthread_t thread[N_USERS];
    int n_bad[N_USERS] = { 0 }, sum = 0;
    __atomic_store_n(&trim_is_over, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < N_USERS; i++)
        pthread_create(&thread[i], NULL, user_main, &n_bad[i]);
    for (int i = 0; i < N_TRIMS; i++) {
        pgasi_rma_blocks_trim();
        sched_yield();
    }
    __atomic_store_n(&trim_is_over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < N_USERS; i++) {
        pthread_join(thread[i], NULL);
        sum += n_bad[i];
    }
    return sum;
}

int main(void)
{
    plan(20);
    seed = tap_seed(20240502);
    for (int i = 0; i < SHELF; i++)
        pthread_mutex_init(&shelf[i].lock, NULL);
    ok(lone_init(1, "HEAP_SIZE=256M SERVICE_THREADS=0") == PGAS_OK, "init");
    is_int(run(N_THREADS, ROUNDS, STEPS), 0, "%d threads use 10^6 objects", N_THREADS);
    ok(info().n_objects > 0 && info().n_objects <= SHELF, "some are left");
    is_int(clear_shelf(), 0, "this thread destroys those");
    pgas_rma_info_t end = info();
    ok(end.n_objects == 0 && end.object_bytes == 0 && end.n_unregistered == 0 &&
           end.pool_bytes <= (uint64_t)256 << 20,
       "all is back");
    ok(pgas_finalize() == PGAS_OK && lone_init(1, "HEAP_SIZE=8M SERVICE_THREADS=0") == PGAS_OK,
       "a job with a small heap");
    is_int(take_from_idle(), 0, "a request gets blocks that an idle thread keeps");
    is_int(run(N_THREADS, 2, STEPS) + clear_shelf(), 0,
           "threads use objects while the heap is full");
    is_int(trim_meanwhile(), 0, "threads use objects while another one empties their lists");
    pgasi_wait_light_is_fence = true;
    is_int(trim_meanwhile(), 0, "also on systems without membarrier");
    pgasi_wait_light_is_fence = false;
    end = info();
    ok(end.n_objects == 0 && end.object_bytes == 0 && end.n_unregistered > 0,
       "all is back, and some objects were plain memory");
    const char *params = "HEAP_SIZE=8M SERVICE_THREADS=0 POOL_UNIT=4K POOL_GROWTH=linear";
    ok(pgas_finalize() == PGAS_OK && lone_init(1, params) == PGAS_OK,
       "a pool that grows by little");
    keep();
    ok(pgas_finalize() == PGAS_OK && lone_init(1, "HEAP_SIZE=256M SERVICE_THREADS=0") == PGAS_OK,
       "a further job");
    careless = true;
    ok(run(1, 1, STEPS) > 0, "an object that is destroyed too often is noticed");
    return done();
}
