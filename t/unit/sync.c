/* what: Tokens of live completions are distinct. An answer counts once, for the counter that asked.
 *       Answers that come late, twice, from another rank or in another size change nothing; the
 *       same holds for direct decrements. The program's own decrements count too. The first error
 *       stays and names peer and handler. A function runs at each zero.
 * needs: tsan-ok
 * source: pgas/call.h, src/call/sync.c; seeded model test */
#include <pthread.h>
#include <sched.h>
#include "base/rng.h"
#include "call/handler.h"
#include "msg/recv_queue.h"
#include "call/notify.h"
#include "call/progress.h"
#include "msg/serve.h"
#include "boot/hooks.h"
#include "call/sync.h"
#include "call/token.h"
#include "mem/thread.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N     200
#define STEPS 20000

typedef struct {
    bool live, reply, written, has_fn;
    uint32_t token;
    pgas_sync_t *sync, own;
    unsigned char data[24], want[24];
    int64_t count; /* what sync->count should be */
    pgas_sync_error_t error;
    int n_zero, want_zero; /* runs of the function */
} entry_t;

static pgas_sync_t *heap; /* [N] */

/* As if an answer had come from rank 1. */
static void answer_of(uint32_t id, uint32_t token, pgas_status_t status, uint32_t handler,
                      const void *data, size_t bytes)
{
    uint64_t words[16] = { pgasi_desc_header(id, sizeof(pgasi_desc_ack_t) + bytes, 0) };
    pgasi_desc_ack_t ack = { token, (int16_t)status, (uint16_t)handler };
    memcpy(words + 1, &ack, sizeof ack);
    if (bytes)
        memcpy(words + 2, data, bytes);
    pgasi_recv_lock();
    pgasi_self.in_handler++;
    pgasi_descs_run((const char *)words, pgasi_desc_room(words[0]), 1);
    pgasi_self.in_handler--;
    pgasi_recv_unlock();
}

static void answer(uint32_t id, uint32_t token, pgas_status_t status, const void *data,
                   size_t bytes)
{
    answer_of(id, token, status, 0, data, bytes);
}

static void fell(entry_t *e, int64_t n)
{
    e->want_zero += e->has_fn && e->count > 0 && e->count <= n;
    e->count -= n;
}

static void completed(entry_t *e, pgas_status_t status, int rank, uint32_t handler)
{
    if (e->error.status == PGAS_OK && status != PGAS_OK)
        e->error = (pgas_sync_error_t){ status, rank, (uint16_t)handler };
    fell(e, 1);
}

/* One random answer to entry e, good or not. The model computes its effect. */
static void some_answer(entry_t *e, pgasi_rng_t *rng, bool forget)
{
    static const pgas_status_t statuses[] = { PGAS_OK, PGAS_OK, PGAS_ERR_NOT_FOUND,
                                              PGAS_ERR_MISMATCH };
    pgas_status_t status = statuses[pgasi_rng_below(rng, 4)];
    uint32_t token = e->token, handler = 1 + (uint32_t)pgasi_rng_below(rng, 0xFFFF);
    size_t bytes = sizeof e->data;
    unsigned char data[64];
    uint32_t id = e->reply ? PGASI_DESC_REPLY : PGASI_DESC_ACK;
    bool counts = e->live, writes = e->written && pgasi_rng_below(rng, 2);
    switch (pgasi_rng_below(rng, 6)) {
    case 0:
        /* of another generation, or from no rank; a late answer might match the entry's next token
         * */
        token ^= e->live ? 1u << pgasi_rng_below(rng, 15) : 0;
        counts = false;
        break;
    case 1: /* of the other kind */
        id = e->reply ? PGASI_DESC_ACK : PGASI_DESC_REPLY;
        counts = counts && writes;
        break;
    case 2: /* of another size */
        bytes = (size_t)pgasi_rng_below(rng, sizeof data);
        break;
    }
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)pgasi_rng_u64(rng);
    if (!e->reply && id == PGASI_DESC_ACK)
        bytes = 0;
    if (writes)
        pgasi_notify_write(0, token, status, handler);
    else
        answer_of(id, token, status, handler, data, bytes);
    if (!counts || forget)
        return;
    if (e->reply) {
        if (status == PGAS_OK && bytes != sizeof e->data)
            status = PGAS_ERR_MISMATCH;
        if (status == PGAS_OK)
            memcpy(e->want, data, sizeof e->want);
        e->live = false; /* answered once */
    }
    completed(e, status, writes ? 0 : 1, handler);
}

/* The program's operations on its own counter. */
static int some_use(entry_t *e, pgasi_rng_t *rng)
{
    int64_t n = (int64_t)pgasi_rng_below(rng, 5);
    int n_bad = 0;
    switch (pgasi_rng_below(rng, 4)) {
    case 0:
        n_bad += pgas_sync_done(e->sync, n) != PGAS_OK;
        fell(e, n);
        break;
    case 1:
        pgas_sync_add(e->sync, n);
        e->count += n;
        break;
    case 2:
        pgas_sync_add(e->sync, -n);
        fell(e, n);
        break;
    default:
        n_bad += pgas_sync_reset(e->sync, n) != PGAS_OK;
        e->count = n;
        e->error = (pgas_sync_error_t){ PGAS_OK, 0, 0 };
    }
    return n_bad;
}

static int wrong(const entry_t *e)
{
    pgas_sync_error_t error = e->error;
    int n_bad = e->sync->count != e->count || e->sync->status != (int32_t)e->error.status ||
                e->n_zero != e->want_zero;
    n_bad += memcmp(e->data, e->want, sizeof e->data) != 0;
    if (e->live && !e->reply)
        n_bad += pgas_sync_error(e->sync, &error) != PGAS_OK;
    return n_bad + (error.status != e->error.status || error.rank != e->error.rank ||
                    error.handler != e->error.handler);
}

static void on_zero(pgas_sync_t *sync, void *arg)
{
    entry_t *e = arg;
    e->n_zero += sync == e->sync;
}

static int begin(entry_t *e, int i, pgasi_rng_t *rng)
{
    memset(e, 0, sizeof *e);
    e->live = true;
    e->reply = pgasi_rng_below(rng, 3) == 0;
    e->count = 1 + (int64_t)pgasi_rng_below(rng, 3);
    bool in_heap = !e->reply && pgasi_rng_below(rng, 2);
    e->sync = in_heap ? &heap[i] : &e->own;
    e->has_fn = !e->reply && pgasi_rng_below(rng, 3) == 0;
    e->written = in_heap && !e->has_fn;
    if (e->reply) {
        e->own = (pgas_sync_t){ e->count, PGAS_OK, 0 };
        return pgasi_token_take(e->sync, 1, e->data, sizeof e->data, &e->token) != PGAS_OK;
    }
    pgas_status_t status = e->has_fn ? pgas_sync_init_fn(e->sync, e->count, on_zero, e)
                                     : pgas_sync_init(e->sync, e->count);
    e->token = e->sync->token;
    return status != PGAS_OK;
}

/* The counter has ended: later completions must not write to it. */
static void end(entry_t *e)
{
    pgas_sync_fini(e->sync);
    e->live = false;
}

static int model(uint64_t seed, bool forget_one)
{
    static entry_t entry[N];
    pgasi_rng_t rng;
    int n_bad = 0;
    memset(entry, 0, sizeof entry);
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < N; i++)
        n_bad += begin(&entry[i], i, &rng);
    for (int step = 0; step < STEPS; step++) {
        int i = (int)pgasi_rng_below(&rng, N);
        entry_t *e = &entry[i];
        uint64_t what = pgasi_rng_below(&rng, 4);
        if (!e->live && what == 0) {
            n_bad += begin(e, i, &rng);
            for (int k = 0; k < N; k++)
                n_bad += k != i && entry[k].live && entry[k].token == e->token;
        } else if (e->live && !e->reply && e->count <= 0 && what == 1) {
            end(e);
        } else if (e->live && !e->reply && what == 2) {
            n_bad += some_use(e, &rng);
        } else {
            some_answer(e, &rng, forget_one && step > STEPS / 2);
        }
        n_bad += wrong(e);
    }
    for (int i = 0; i < N; i++)
        if (entry[i].live && entry[i].reply)
            pgasi_token_give(entry[i].token);
        else if (entry[i].live)
            pgas_sync_fini(entry[i].sync);
    return n_bad;
}

static void models(uint64_t seed)
{
    is_int(model(seed, false), 0, "random answers complete as in the model");
}

/* The last test: the model forgets, so some counters stay without an end. */
static void model_can_fail(uint64_t seed)
{
    ok(model(seed, true) > 0, "answers that the model does not know of are noticed");
}

/* Threads take and give at the same time; a token is never in two hands. */
static uint8_t taken[1 << 16];
static int n_twice;

static void *take_and_give(void *arg)
{
    static pgas_sync_t nobody;
    uint32_t token[16] = { 0 };
    (void)arg;
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < 16; i++)
            if (pgasi_token_take(&nobody, 1, NULL, 0, &token[i]) != PGAS_OK ||
                __atomic_exchange_n(&taken[token[i] >> 16], 1, __ATOMIC_RELAXED))
                __atomic_add_fetch(&n_twice, 1, __ATOMIC_RELAXED);
        for (int i = 0; i < 16; i++) {
            __atomic_store_n(&taken[token[i] >> 16], 0, __ATOMIC_RELAXED);
            pgasi_token_give(token[i]);
        }
    }
    return NULL;
}

static void threads_take_tokens(void)
{
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, take_and_give, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    is_int(n_twice, 0, "no token in two hands");
}

static void waiting(void)
{
    pgas_sync_t sync;
    ok(pgas_sync_init(&sync, 2) == PGAS_OK && pgas_sync_test(&sync) == PGAS_INPROGRESS,
       "two are missing");
    ok(pgas_sync_wait(&sync, 500) == PGAS_ERR_TIMEOUT, "waiting ends in time");
    answer(PGASI_DESC_ACK, sync.token, PGAS_OK, NULL, 0);
    answer(PGASI_DESC_ACK, sync.token, PGAS_ERR_NOT_FOUND, NULL, 0);
    ok(pgas_sync_wait(&sync, -1) == PGAS_ERR_NOT_FOUND, "the first error is the result");
    pgas_sync_fini(&sync);
}

/* The death of a rank ends its outstanding reply. A thread that then finds that its request could
 * not be sent ends it a second time. */
static void ended_twice(void)
{
    pgas_sync_t sync = { 2, PGAS_OK, 0 }, other[4];
    uint64_t reply;
    uint32_t token;
    int n_same = 0;
    ok(pgasi_token_take(&sync, 1, &reply, sizeof reply, &token) == PGAS_OK, "a reply is awaited");
    pgasi_hooks_death_settled(1);
    ok(sync.count == 1 && sync.status == PGAS_ERR_PEER && !pgasi_token_give(token) &&
           !pgasi_token_give(token),
       "only the death of the rank ends it");
    answer(PGASI_DESC_REPLY, token, PGAS_OK, &reply, sizeof reply);
    is_int((int)sync.count, 1, "not even a late reply");
    for (int i = 0; i < 4; i++) {
        pgas_sync_init(&other[i], 1);
        for (int k = 0; k < i; k++)
            n_same += other[k].token == other[i].token;
    }
    is_int(n_same, 0, "later counters have tokens of their own");
    for (int i = 0; i < 4; i++)
        pgas_sync_fini(&other[i]);
}

/* Answers run one at a time: a thread that does not serve takes the receive queue for one, and
 * gives it back. */
static uint64_t answer_begun, answer_ended, end_begun, end_ended;

static void *answer_from_outside(void *arg)
{
    const pgas_sync_t *sync = arg;
    __atomic_store_n(&answer_begun, 1, __ATOMIC_RELEASE);
    pgasi_sync_answered(sync->token, PGAS_ERR_NOT_FOUND, 1, 3);
    __atomic_store_n(&answer_ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void answered_from_outside(void)
{
    pthread_t thread;
    pgas_sync_t sync;
    bool early = false;
    pgas_sync_init(&sync, 2);
    pgasi_recv_lock();
    pthread_create(&thread, NULL, answer_from_outside, &sync);
    while (!__atomic_load_n(&answer_begun, __ATOMIC_ACQUIRE))
        sched_yield();
    for (int i = 0; i < 3000 && !early; i++) {
        sched_yield();
        early = __atomic_load_n(&answer_ended, __ATOMIC_ACQUIRE) ||
                __atomic_load_n(&sync.count, __ATOMIC_ACQUIRE) != 2;
    }
    pgasi_recv_unlock();
    pthread_join(thread, NULL);
    ok(!early && sync.count == 1 && sync.status == PGAS_ERR_NOT_FOUND,
       "an answer from outside waits for those that run");
    bool given_back = pgasi_recv_try_lock();
    if (given_back)
        pgasi_recv_unlock();
    ok(given_back, "and lets others run again");
    pgasi_path_state_t before = pgasi_serve_begin();
    pgasi_sync_answered(sync.token, PGAS_OK, 1, 3);
    bool kept = !pgasi_recv_try_lock() && pgasi_is_serving();
    pgasi_serve_end(before);
    ok(kept && sync.count == 0, "an answer from inside changes nothing of that");
    pgas_sync_fini(&sync);
}

static void *end_from_outside(void *arg)
{
    __atomic_store_n(&end_begun, 1, __ATOMIC_RELEASE);
    pgas_sync_fini(arg);
    __atomic_store_n(&end_ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Another thread may run an answer, which names the counter. */
static void ended_from_outside(void)
{
    pthread_t thread;
    pgas_sync_t sync;
    bool early = false;
    pgas_sync_init(&sync, 1);
    pgasi_recv_lock();
    pthread_create(&thread, NULL, end_from_outside, &sync);
    while (!__atomic_load_n(&end_begun, __ATOMIC_ACQUIRE))
        sched_yield();
    for (int i = 0; i < 3000 && !early; i++) {
        sched_yield();
        early = __atomic_load_n(&end_ended, __ATOMIC_ACQUIRE);
    }
    pgasi_recv_unlock();
    pthread_join(thread, NULL);
    bool given_back = pgasi_recv_try_lock();
    if (given_back)
        pgasi_recv_unlock();
    ok(!early && given_back,
       "the end of a counter in use waits for answers that run, and lets others run again");
}

/* Before everything else: the counter of the first entry is the one that zeroed memory might
 * name. */
static void never_begun(void)
{
    pgas_sync_t sync, copy, zeroed = { 0 };
    pgas_sync_init(&sync, 2);
    pgas_sync_fini(&zeroed);
    answer(PGASI_DESC_ACK, sync.token, PGAS_OK, NULL, 0);
    is_int((int)sync.count, 1, "the end of a counter that never began is no other's");
    answer(PGASI_DESC_ACK, zeroed.token, PGAS_OK, NULL, 0);
    is_int((int)sync.count, 1, "an answer to it is dropped");
    copy = sync;
    pgas_sync_fini(&copy);
    answer(PGASI_DESC_ACK, sync.token, PGAS_OK, NULL, 0);
    ok(sync.count == 0 && pgas_sync_test(&sync) == PGAS_OK, "nor does a copy end it");
    pgas_sync_fini(&sync);
}

static pgas_handler_t tick;
static uint64_t word;

static void on_tick(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    word++;
}

/* The wait itself does the work: there is no service thread. */
static void long_waits(void)
{
    static const int64_t long_us[] = { INT64_MAX, INT64_MAX / 2, INT64_MAX / 1000 + 1,
                                       INT64_MAX / 500 };
    pgas_sync_t sync;
    int n_bad = pgas_sync_init(&sync, 0) != PGAS_OK;
    for (size_t i = 0; i < sizeof long_us / sizeof long_us[0]; i++) {
        pgas_sync_add(&sync, 1);
        n_bad += pgas_call(0, tick, NULL, 0, &sync) != PGAS_OK ||
                 pgas_sync_wait(&sync, long_us[i]) != PGAS_OK;
        n_bad += pgas_call(0, tick, NULL, 0, NULL) != PGAS_OK;
        n_bad += pgas_signal_wait(&word, PGAS_EQ, 2 * i + 2, long_us[i], NULL) != PGAS_OK;
    }
    pgas_sync_add(NULL, 1);
    pgas_sync_fini(&sync);
    is_int(n_bad, 0, "the longest waits do not end early");
}

int main(void)
{
    plan(19);
    pgas_handler_register("t.tick", on_tick, NULL, NULL, &tick);
    uint64_t seed = tap_seed(21);
    ok(lone_init(2, "HEAP_SIZE=64K SERVICE_THREADS=0") == PGAS_OK, "init");
    pgas_gptr_t at = PGAS_NULL;
    pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, N * sizeof *heap, &at);
    heap = pgas_gptr_local(at, N * sizeof *heap);
    never_begun();
    ended_twice();
    models(seed);
    threads_take_tokens();
    waiting();
    answered_from_outside();
    ended_from_outside();
    long_waits();
    model_can_fail(seed);
    pgas_finalize();
    return done();
}
