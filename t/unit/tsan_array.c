/* what: Threads of a rank read, write, apply, exchange, lock and pin elements of one array at the
 *       same time, close together and far apart, while the first thread serves. Counts and sums are
 *       right, structures are whole, and there is no race.
 * needs: tsan-ok
 * source: pgas/array.h. One rank has no other nodes: its threads share the chunk at home and its
 *         access grant */
#include <pthread.h>
#include "base/rng.h"
#include "pgas/array.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_THREADS 5
#define N_STEPS   5000
#define N         256
#define CHUNK     16
#define WORDS     5

/* Elements: counted by fetch_op and compare_swap, summed by apply, set by all, kept by a lock. */
enum {
    COUNTED = 3,
    SWAPPED = 4,
    SUMMED = 5,
    MOST = 40,
    SET = 41,
    LOCK = 42,
    LOCKED = 100,
    OWN = 128
};

static pgas_array_t *array, *structs;
static uint64_t n_counted, n_swapped, sum, n_locked; /* by atomics */
static int n_wrong, n_running;
static pthread_barrier_t all_here;

static int step(pgasi_rng_t *rng, int who)
{
    uint64_t value = 0, old = 0, one = 1, x = pgasi_rng_below(rng, 1000),
             own = OWN + (uint64_t)who * 9;
    uint64_t words[WORDS], element = pgasi_rng_below(rng, 20);
    pgas_array_pin_t pin;
    int n_bad = 0;
    switch (pgasi_rng_below(rng, 9)) {
    case 0:
        n_bad +=
            pgas_array_fetch_op(array, COUNTED, PGAS_OP(PGAS_ADD, PGAS_U64), &one, &old) != PGAS_OK;
        __atomic_add_fetch(&n_counted, 1, __ATOMIC_RELAXED);
        return n_bad;
    case 1:
        n_bad += pgas_array_get_u64(array, SWAPPED, &value) != PGAS_OK;
        do {
            old = value;
            n_bad += pgas_array_compare_swap(array, SWAPPED, &old, &(uint64_t){ old + 1 },
                                             &value) != PGAS_OK;
        } while (value != old && n_bad == 0);
        __atomic_add_fetch(&n_swapped, 1, __ATOMIC_RELAXED);
        return n_bad;
    case 2:
        n_bad += pgas_array_apply_u64(array, SUMMED, PGAS_ADD, x) != PGAS_OK;
        n_bad += pgas_array_apply_u64(array, MOST, PGAS_MAX, x) != PGAS_OK;
        __atomic_add_fetch(&sum, x, __ATOMIC_RELAXED);
        return n_bad;
    case 3:
        n_bad += pgas_array_set_u64(array, SET, x) != PGAS_OK ||
                 pgas_array_get_u64(array, SET, &value) != PGAS_OK;
        return n_bad + (value >= 1000);
    case 4:
        n_bad += pgas_array_lock(array, LOCK, PGAS_ARRAY_WRITE, -1) != PGAS_OK;
        /* plain: the lock orders it */
        n_bad += pgas_array_get_u64(array, LOCKED, &value) != PGAS_OK || value != n_locked;
        n_locked++;
        n_bad += pgas_array_set_u64(array, LOCKED, value + 1) != PGAS_OK;
        return n_bad + (pgas_array_unlock(array, LOCK) != PGAS_OK);
    case 5:
        for (int k = 0; k < WORDS; k++)
            words[k] = x;
        return pgas_array_set(structs, element, words) != PGAS_OK;
    case 6:
        n_bad += pgas_array_get(structs, element, words) != PGAS_OK;
        for (int k = 1; k < WORDS; k++)
            n_bad += words[k] != words[0];
        return n_bad;
    case 7:
        n_bad += pgas_array_set_u64(array, own, x) != PGAS_OK ||
                 pgas_array_get_u64(array, own, &value) != PGAS_OK;
        return n_bad + (value != x);
    default:
        if (pgas_array_pin(array, own, x % 2 ? PGAS_ARRAY_WRITE : PGAS_ARRAY_READ, 0, &pin) !=
            PGAS_OK)
            return 1;
        n_bad += pgas_array_get_u64(array, own, &value) != PGAS_OK ||
                 ((uint64_t *)pin.data)[own - pin.first] != value;
        return n_bad + (pgas_array_unpin(&pin) != PGAS_OK);
    }
}

static void *thread_main(void *arg)
{
    int who = (int)(intptr_t)arg, n_bad = pgas_thread_attach() != PGAS_OK;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, (uint64_t)who);
    pthread_barrier_wait(&all_here);
    for (int k = 0; k < N_STEPS; k++)
        n_bad += step(&rng, who);
    n_bad += pgas_thread_detach() != PGAS_OK;
    __atomic_add_fetch(&n_wrong, n_bad, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&n_running, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void together(void)
{
    pthread_t thread[N_THREADS];
    n_running = N_THREADS;
    pthread_barrier_init(&all_here, NULL, N_THREADS);
    for (intptr_t i = 0; i < N_THREADS; i++)
        pthread_create(&thread[i], NULL, thread_main, (void *)i);
    while (__atomic_load_n(&n_running, __ATOMIC_ACQUIRE) > 0)
        pgas_progress();
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&all_here);
}

static bool holds(uint64_t i, uint64_t want)
{
    uint64_t value = want + 1;
    if (pgas_array_get_u64(array, i, &value) != PGAS_OK || value != want)
        diag("element %d: %llu, not %llu", (int)i, (unsigned long long)value,
             (unsigned long long)want);
    return value == want;
}

static void everything(const char *params)
{
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    n_counted = n_swapped = sum = n_locked = 0;
    n_wrong = 0;
    opts.chunk_elems = CHUNK;
    bool good = lone_init(1, params) == PGAS_OK &&
                pgas_array_create(NULL, 8, N, &opts, &array) == PGAS_OK &&
                pgas_array_create(NULL, WORDS * 8, 20, &opts, &structs) == PGAS_OK;
    ok(good, "%s: arrays", params);
    together();
    is_int(n_wrong, 0, "each thread reads its expected values");
    good = holds(COUNTED, n_counted);
    good = holds(SWAPPED, n_swapped) && good;
    good = holds(SUMMED, sum) && good;
    good = holds(LOCKED, n_locked) && good;
    ok(good && n_counted > 0 && n_locked > 0, "counts and sums");
    good = !holds(COUNTED, n_counted + 1);
    ok(good, "a count that is off would be noticed");
    good = pgas_array_destroy(structs) == PGAS_OK && pgas_array_destroy(array) == PGAS_OK;
    ok(good && pgas_finalize() == PGAS_OK, "the end");
}

int main(void)
{
    plan(15);
    everything("HEAP_SIZE=1M SERVICE_THREADS=1 LANES=3");
    everything("HEAP_SIZE=1M SERVICE_THREADS=0 LANES=1");
    everything("HEAP_SIZE=1M SERVICE_THREADS=1 ARRAY_ACCESS=guarded");
    return done();
}
