/* what: The software NIC's atomics are atomic with those of processors and of other queue pairs on
 *       the same word, in the host's byte order. Operands are those of the request.
 * source: pgas/verbs.h (cpu_atomic); sums and a lock that must come out even */
#include <pthread.h>
#include "t/unit/snic.h"

#define STEP      PGASI_SNIC_ENGINE_STEP
#define N_THREADS 2
#define N_PAIRS   3
#define N_FEW     3000u /* additions of a queue pair */
#define N_MANY    200000u

static uint64_t *word;    /* what all add to */
static uint64_t plain[2]; /* under the lock that the word is for CSWAP: both are always equal */

static bool no_more; /* for processors */
static int n_started;
static uint64_t n_by_processor;

static void *add_by_processor(void *arg)
{
    uint64_t n = 0;
    (void)arg;
    __atomic_fetch_add(&n_started, 1, __ATOMIC_RELEASE);
    for (; !__atomic_load_n(&no_more, __ATOMIC_ACQUIRE); n++) {
        __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
        if (n % 256 == 255)
            sched_yield(); /* there may be more threads than processors */
    }
    __atomic_fetch_add(&n_by_processor, n, __ATOMIC_RELEASE);
    return NULL;
}

/* Subtracts the others' additions, once. */
static void *lose_some(void *arg)
{
    uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
    (void)arg;
    __atomic_fetch_add(&n_started, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(word, __ATOMIC_RELAXED) == old &&
           !__atomic_load_n(&no_more, __ATOMIC_ACQUIRE))
        sched_yield();
    __atomic_store_n(word, old, __ATOMIC_RELAXED);
    return NULL;
}

/* Queue pairs add to one word of the first pair's far memory while threads do. @return the missing
 * sum */
static intmax_t add_from_everywhere(pgas_verbs_engine_t engine, uint32_t adversary, uint32_t n_adds,
                                    void *(*thread_main)(void *))
{
    pgas_verbs_dev_t *dev = snic_device(engine, adversary, 3);
    pair_t pairs[N_PAIRS];
    pthread_t threads[N_THREADS];
    uint32_t n_posted[N_PAIRS] = { 0 }, n_done[N_PAIRS] = { 0 }, n_ready = 0;
    for (int i = 0; i < N_PAIRS; i++)
        pair_on(&pairs[i], dev, NULL, PGAS_VERBS_ACCESS_ALL);
    word = (uint64_t *)(void *)(pairs[0].bytes[1] + 64);
    no_more = false;
    n_started = 0;
    n_by_processor = 0;
    for (int i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, thread_main, NULL);
    while (__atomic_load_n(&n_started, __ATOMIC_ACQUIRE) < N_THREADS)
        sched_yield();
    while (n_ready < N_PAIRS) {
        n_ready = 0;
        for (int i = 0; i < N_PAIRS; i++) {
            pgas_verbs_completion_t c;
            pgas_verbs_span_t result = pair_span(&pairs[i], 0, 8 * (n_posted[i] % 64), 8);
            pgas_verbs_request_t add =
                pair_request(&pairs[i], PGAS_VERBS_FADD, &result, 0, n_posted[i]);
            add.remote_addr = (uintptr_t)word;
            add.rkey = pairs[0].mem[1].rkey;
            add.operand = 1;
            if (n_posted[i] < n_adds && n_posted[i] - n_done[i] < 32 &&
                pgas_verbs_qp_post(pairs[i].qp[0], &add, 1, NULL) == PGAS_OK)
                n_posted[i]++;
            pgas_verbs_snic_step(dev);
            while (pgas_verbs_cq_poll(pairs[i].cq[0], &c, 1) == 1)
                n_done[i] += c.status == PGAS_OK;
            n_ready += n_done[i] == n_adds;
        }
        if (engine == PGAS_VERBS_ENGINE_THREAD)
            sched_yield();
    }
    __atomic_store_n(&no_more, true, __ATOMIC_RELEASE);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    intmax_t missing = (intmax_t)(n_by_processor + N_PAIRS * (uint64_t)n_adds - *word);
    for (int i = 0; i < N_PAIRS; i++)
        pair_close(&pairs[i]);
    must(pgas_verbs_close(dev), "close the device");
    return missing;
}

static void sums_are_whole(void)
{
    is_int(add_from_everywhere(PGAS_VERBS_ENGINE_CALLER, 0, N_MANY, add_by_processor), 0,
           "FADD against processors, by the polling thread");
    is_int(add_from_everywhere(PGAS_VERBS_ENGINE_THREAD, 0, N_FEW, add_by_processor), 0,
           "the same by the engine's thread");
    is_int(add_from_everywhere(PGAS_VERBS_ENGINE_CALLER, PGAS_VERBS_SNIC_ALL, N_FEW,
                               add_by_processor),
           0, "under all adversaries");
    ok(add_from_everywhere(PGAS_VERBS_ENGINE_CALLER, 0, N_FEW, lose_some) > 0,
       "additions that are lost are noticed (on purpose)");
}

/* ---- a lock by CSWAP, taken by a processor and through a queue pair ---- */

static void touch(void)
{
    uint64_t a = ++plain[0];
    sched_yield();
    plain[1] = a;
}

static volatile int n_uneven;

static void *lock_by_processor(void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < 500; i++) {
        uint64_t free_word = 0;
        while (!__atomic_compare_exchange_n(word, &free_word, 1, false, __ATOMIC_ACQUIRE,
                                            __ATOMIC_RELAXED)) {
            free_word = 0;
            sched_yield();
        }
        n_uneven += plain[0] != plain[1];
        touch();
        __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* @return the old value */
static uint64_t swap_far(pair_t *p, uint64_t compare, uint64_t swap)
{
    pgas_verbs_completion_t c;
    pgas_verbs_span_t result = pair_span(p, 0, 0, 8);
    pgas_verbs_request_t request = pair_request(p, PGAS_VERBS_CSWAP, &result, 64, 1);
    uint64_t old;
    request.compare = compare;
    request.operand = swap;
    snic_post(p->qp[0], &request);
    if (snic_await(p->cq[0], &c, 1) != 1 || c.status != PGAS_OK)
        bail("a swap fails");
    memcpy(&old, p->bytes[0], 8);
    return old;
}

static void locks_exclude(pgas_verbs_engine_t engine)
{
    pthread_t thread;
    pair_t p;
    pair_open(&p, engine, 0, 1);
    word = (uint64_t *)(void *)(p.bytes[1] + 64);
    plain[0] = plain[1] = 0;
    n_uneven = 0;
    pthread_create(&thread, NULL, lock_by_processor, NULL);
    for (uint32_t i = 0; i < 500; i++) {
        while (swap_far(&p, 0, 2) != 0)
            sched_yield();
        n_uneven += plain[0] != plain[1];
        touch();
        if (swap_far(&p, 2, 0) != 2)
            bail("another thread has the lock");
    }
    pthread_join(thread, NULL);
    ok(n_uneven == 0 && plain[0] == 1000 && plain[1] == 1000,
       "a lock by CSWAP, from here and there, engine %d", (int)engine);
    pair_close(&p);
}

/* ---- operands ---- */

static void operands_are_numbers_of_the_host(void)
{
    pgas_verbs_completion_t c[2];
    pair_t p;
    pair_open(&p, STEP, 0, 1);
    uint64_t *far = (uint64_t *)(void *)p.bytes[1], *here = (uint64_t *)(void *)p.bytes[0];
    far[0] = 0x0102030405060708;
    pgas_verbs_span_t result = pair_span(&p, 0, 0, 8);
    pgas_verbs_request_t r = pair_request(&p, PGAS_VERBS_FADD, &result, 0, 1);
    r.operand = (uint64_t)-9;
    snic_post(p.qp[0], &r);
    ok(snic_take(p.dev, p.cq[0], c, 1) == 1 && here[0] == 0x0102030405060708 &&
           far[0] == 0x01020304050606ff && c[0].bytes == 8,
       "FADD of a negative number");
    r.op = PGAS_VERBS_CSWAP;
    r.compare = 0x01020304050606fe;
    r.operand = 7;
    snic_post(p.qp[0], &r);
    ok(snic_take(p.dev, p.cq[0], c, 1) == 1 && here[0] == 0x01020304050606ff &&
           far[0] == 0x01020304050606ff,
       "CSWAP of a word that differs leaves it and returns it");
    r.compare = here[0];
    snic_post(p.qp[0], &r);
    ok(snic_take(p.dev, p.cq[0], c, 1) == 1 && here[0] == 0x01020304050606ff && far[0] == 7,
       "CSWAP of one that is equal");
    pair_close(&p);
}

int main(void)
{
    plan(4 + 2 + 3);
    sums_are_whole();
    locks_exclude(PGAS_VERBS_ENGINE_CALLER);
    locks_exclude(PGAS_VERBS_ENGINE_THREAD);
    operands_are_numbers_of_the_host();
    return done();
}
