/* what: Answers lower counters and fill replies as in a model, for counters that are named by a
 *       record, by their place in the heap and by their address. Late, double and malformed answers
 *       are ignored. A token is never in two hands. Waits end in time. The first error stays.
 * source: public headers, src/call/sync.h, src/base/sync.h; a seeded model test */
#include <pthread.h>
#include <sched.h>
#include "base/deaths.h"
#include "base/rng.h"
#include "boot/hooks.h"
#include "call/handler.h"
#include "call/progress.h"
#include "call/sync.h"
#include "call/token.h"
#include "base/sync.h"
#include "mem/thread.h"
#include "msg/recv_queue.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N     200
#define STEPS 20000

/* Rank 1 has a receive queue that nobody reads, so the calls to it stay outstanding. */
typedef enum { RECORD, HEAP, ADDRESS, REPLY, N_FORMS } form_t;

/* One counter, and one outstanding call. */
typedef struct {
    form_t form;
    bool live;
    uint64_t wire; /* of the outstanding call */
    pgas_sync_t *sync, own;
    unsigned char data[24], want[24];
    int64_t count;         /* what sync->count should be */
    uint64_t error;        /* what sync->error should be */
    int n_zero, want_zero; /* runs of the function */
} entry_t;

static pgas_sync_t *heap; /* [N] */

static void run_desc(uint32_t id, const void *args, size_t bytes)
{
    uint64_t words[16] = { pgasi_desc_header(id, bytes, 0) };
    memcpy(words + 1, args, bytes);
    pgasi_recv_lock();
    pgasi_self.in_handler++;
    pgasi_descs_run((const char *)words, pgasi_desc_room(words[0]), 1);
    pgasi_self.in_handler--;
    pgasi_recv_unlock();
}

/* As if an answer had come from rank 1. */
static void ack_of(uint64_t wire, pgas_status_t status, uint32_t handler)
{
    pgasi_desc_ack_t ack = { wire, status, handler };
    run_desc(PGASI_DESC_ACK, &ack, status == PGAS_OK ? sizeof ack.wire : sizeof ack);
}

static void reply_of(uint32_t token, pgas_status_t status, uint32_t handler, const void *data,
                     size_t bytes)
{
    char block[100];
    pgasi_desc_reply_t head = { token, (int16_t)status, (uint16_t)handler };
    memcpy(block, &head, sizeof head);
    memcpy(block + sizeof head, data, bytes);
    run_desc(PGASI_DESC_REPLY, block, sizeof head + bytes);
}

static void lowered(entry_t *e, int64_t n)
{
    e->want_zero += e->sync->fn && e->count > 0 && e->count <= n;
    e->count -= n;
}

static void completed(entry_t *e, pgas_status_t status, uint32_t handler)
{
    if (!e->error && status != PGAS_OK)
        e->error = pgasi_error_pack(status, 1, PGAS_OPERATION_CALL, handler);
    lowered(e, 1);
}

static void on_zero(pgas_sync_t *sync, void *arg)
{
    entry_t *e = arg;
    e->n_zero += sync == e->sync;
}

/* A random answer to entry e, good or not. The model computes its effect. */
static void some_answer(entry_t *e, pgasi_rng_t *rng, bool forget)
{
    static const pgas_status_t statuses[] = { PGAS_OK, PGAS_OK, PGAS_ERR_NOT_FOUND,
                                              PGAS_ERR_MISMATCH };
    pgas_status_t status = statuses[pgasi_rng_below(rng, 4)];
    uint64_t wire = e->wire;
    uint32_t handler = 1 + (uint32_t)pgasi_rng_below(rng, 0xFFFF);
    size_t bytes = sizeof e->data;
    unsigned char data[64];
    bool counts = e->live, as_reply = e->form == REPLY;
    /* A counter that is named by its place has no late answers. */
    if (!e->live && e->form != RECORD && e->form != REPLY)
        return;
    switch (pgasi_rng_below(rng, 6)) {
    case 0:
        if (e->form == HEAP) /* outside of the heap, or not aligned */
            wire = pgasi_rng_below(rng, 2) ? wire + 1 : wire | UINT64_C(1) << 43;
        else if (e->form == ADDRESS) /* the check of the address fails */
            wire ^= UINT64_C(1) << pgasi_rng_below(rng, 61);
        else /* of another generation, or of a free record */
            wire ^= e->live ? UINT64_C(1) << pgasi_rng_below(rng, 15) : 0;
        counts = false;
        break;
    case 1: /* of the other kind */
        if (e->form == RECORD || e->form == REPLY) {
            as_reply = !as_reply;
            counts = false;
        }
        break;
    case 2: /* of another size */
        bytes = (size_t)pgasi_rng_below(rng, sizeof data);
        break;
    }
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)pgasi_rng_u64(rng);
    if (as_reply)
        reply_of(pgasi_wire_token(wire), status, handler, data, bytes);
    else
        ack_of(wire, status, handler);
    if (!counts || forget)
        return;
    if (e->form == REPLY) {
        if (status == PGAS_OK && bytes != sizeof e->data)
            status = PGAS_ERR_MISMATCH;
        if (status == PGAS_OK)
            memcpy(e->want, data, sizeof e->want);
    }
    e->live = false; /* answered once */
    completed(e, status, handler);
}

/* The program's operations on its own counter. */
static int some_use(entry_t *e, pgasi_rng_t *rng)
{
    int64_t n = (int64_t)pgasi_rng_below(rng, 5);
    int n_bad = 0;
    switch (pgasi_rng_below(rng, 3)) {
    case 0:
        n_bad += pgas_sync_done(e->sync, n) != PGAS_OK;
        lowered(e, n);
        break;
    case 1:
        n_bad += pgas_sync_add(e->sync, n) != PGAS_OK;
        e->count += n;
        break;
    default:
        n_bad += pgas_sync_reset(e->sync) != PGAS_OK;
        e->count = 0;
        e->error = 0;
    }
    return n_bad;
}

/* The handler of an error; 0 for the library's own. */
static uint16_t number_of(uint64_t error)
{
    uint16_t handler = (uint16_t)(error >> 16);
    return handler <= PGAS_HANDLERS_MAX ? handler : 0;
}

static int wrong(const entry_t *e)
{
    pgas_sync_info_t info = { .size = sizeof info };
    int n_bad =
        e->sync->count != e->count || e->sync->error != e->error || e->n_zero != e->want_zero;
    n_bad += memcmp(e->data, e->want, sizeof e->data) != 0;
    n_bad += pgas_sync_info(e->sync, &info) != PGAS_OK ||
             info.status != pgasi_error_status(e->error) ||
             (info.status != PGAS_OK && (info.rank != 1 || info.operation != PGAS_OPERATION_CALL ||
                                         info.handler != number_of(e->error)));
    return n_bad;
}

/* Where ranks may die, counters are named by records; otherwise by their place. */
static bool with_records;

static int begin(entry_t *e, int i, pgasi_rng_t *rng)
{
    memset(e, 0, sizeof *e);
    e->live = true;
    e->form = pgasi_rng_below(rng, 3) == 0 ? REPLY : RECORD;
    bool in_heap = pgasi_rng_below(rng, 2), has_fn = pgasi_rng_below(rng, 3) == 0;
    e->sync = in_heap ? &heap[i] : &e->own;
    *e->sync = (pgas_sync_t){ (int64_t)pgasi_rng_below(rng, 3), 0, has_fn ? on_zero : NULL, e };
    e->count = e->sync->count + 1;
    if (e->form == REPLY) {
        pgasi_token_for_t what = { e->sync, 1, 7, e->data, sizeof e->data };
        uint32_t token;
        pgasi_sync_raise(e->sync);
        int bad = pgasi_token_take(&what, &token) != PGAS_OK;
        e->wire = pgasi_wire_of_reply(token, sizeof e->data);
        return bad;
    }
    if (!with_records)
        e->form = in_heap && !has_fn ? HEAP : ADDRESS;
    pgasi_sync_call_t c;
    int bad = pgasi_sync_issue(&c, e->sync, 1, 7, PGAS_EXECUTED, 0) != PGAS_OK;
    e->wire = c.wire;
    bad += !(c.wire & PGASI_WIRE_HEAP) != (e->form != HEAP);
    return bad + (!(c.wire & PGASI_WIRE_ADDRESS) != (e->form != ADDRESS));
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
                n_bad += k != i && entry[k].live && entry[k].wire == e->wire;
        } else if (what == 2) {
            n_bad += some_use(e, &rng);
        } else {
            some_answer(e, &rng, forget_one && step > STEPS / 2);
        }
        n_bad += wrong(e);
    }
    for (int i = 0; i < N; i++)
        if (entry[i].live && (entry[i].form == RECORD || entry[i].form == REPLY))
            pgasi_token_give(pgasi_wire_token(entry[i].wire));
    return n_bad;
}

static void models(uint64_t seed)
{
    is_int(model(seed, false), 0, "random answers complete as in the model");
    ok(model(seed, true) > 0, "answers that the model does not know of are noticed");
}

/* Threads take and give at the same time; a token is never in two hands. */
static uint8_t taken[1 << 16];
static int n_twice;

static void *take_and_give(void *arg)
{
    static pgas_sync_t nobody;
    static const pgasi_token_for_t what = { &nobody, 1, 7, NULL, 0 };
    uint32_t token[16] = { 0 };
    (void)arg;
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < 16; i++)
            if (pgasi_token_take(&what, &token[i]) != PGAS_OK ||
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
    pgas_sync_t sync = PGAS_SYNC_INIT, other = PGAS_SYNC_INIT, *syncs[3] = { &sync, NULL, &other };
    size_t index = 9;
    pgas_sync_add(&sync, 2);
    pgas_sync_add(&other, 1);
    ok(pgas_sync_test(&sync) == PGAS_INPROGRESS && pgas_sync_wait(&sync, 500) == PGAS_ERR_TIMEOUT,
       "two are missing: a wait ends in time");
    ok(pgas_sync_wait_all(syncs, 3, 500) == PGAS_ERR_TIMEOUT &&
           pgas_sync_wait_any(syncs, 3, 500, &index) == PGAS_ERR_TIMEOUT && index == 9,
       "as do waits for all and for any");
    pgasi_sync_lower(&sync, PGAS_OK, 1, PGAS_OPERATION_PUT, 0);
    pgasi_sync_lower(&sync, PGAS_ERR_NOT_FOUND, 1, PGAS_OPERATION_PUT, 0);
    ok(pgas_sync_wait(&sync, -1) == PGAS_ERR_NOT_FOUND &&
           pgas_sync_wait_any(syncs, 3, -1, &index) == PGAS_ERR_NOT_FOUND && index == 0,
       "the first error is the result");
    pgasi_sync_lower(&other, PGAS_ERR_PEER, -1, PGAS_OPERATION_COLLECTIVE, 0);
    ok(pgas_sync_wait_all(syncs, 3, -1) == PGAS_ERR_NOT_FOUND, "of several the first in order");
    pgas_sync_info_t info = { .size = sizeof info };
    ok(pgas_sync_info(&other, &info) == PGAS_OK && info.status == PGAS_ERR_PEER &&
           info.rank == -1 && info.operation == PGAS_OPERATION_COLLECTIVE && info.handler == 0,
       "an error without a rank");
    pgas_sync_add(&other, 2);
    pgasi_sync_lower(&other, PGAS_ERR_AGAIN, 5, PGAS_OPERATION_GET, 0);
    ok(pgas_sync_info(&other, &info) == PGAS_OK && info.rank == -1, "the first error stays");
}

static void count_runs(pgas_sync_t *sync, void *arg)
{
    (void)sync;
    ++*(int *)arg;
}

static void refusing(void)
{
    int n_runs = 0;
    pgas_sync_t sync = PGAS_SYNC_INIT_FN(count_runs, &n_runs);
    pgasi_sync_refuse(&sync, pgasi_sync_raise(&sync));
    ok(sync.count == 0 && n_runs == 0, "a refused operation runs no function");
    pgasi_sync_raise(&sync);
    int64_t before = pgasi_sync_raise(&sync);
    pgasi_sync_lower(&sync, PGAS_OK, 1, PGAS_OPERATION_PUT, 0);
    pgasi_sync_refuse(&sync, before);
    ok(sync.count == 0 && n_runs == 1, "unless another one has completed meanwhile");
    pgasi_sync_raise(&sync);
    pgasi_sync_lower_locked(&sync, PGAS_OK, 1, PGAS_OPERATION_PUT, 0);
    bool later = sync.count == 0 && n_runs == 1;
    pgas_progress();
    ok(later && n_runs == 2 && !pgasi_sync_some_left(),
       "under a lock the function waits for progress");
}

/* The program has lowered a counter of two operations by one already. Then both completions, which
 * arrive in one answer, lower it from one to minus one. */
static void gathered(void)
{
    int n_runs = 0;
    pgas_sync_t sync = PGAS_SYNC_INIT_FN(count_runs, &n_runs);
    pgas_sync_add(&sync, 2);
    pgas_sync_done(&sync, 1);
    pgasi_sync_lower_by(&sync, 2);
    ok(sync.count == -1 && n_runs == 1, "completions that pass zero together run the function");
    pgasi_sync_lower_by(&sync, 1);
    ok(sync.count == -2 && n_runs == 1, "later ones do not");
}

/* The death of a rank ends its outstanding reply. A thread that then finds that its request could
 * not be sent ends it a second time. */
static void ended_twice(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    uint64_t reply;
    uint32_t token;
    pgasi_token_for_t what = { &sync, 1, 7, &reply, sizeof reply };
    pgas_sync_add(&sync, 2);
    ok(pgasi_token_take(&what, &token) == PGAS_OK, "a reply is awaited");
    pgasi_deaths_report(1);
    ok(sync.count == 1 && pgas_sync_test(&sync) == PGAS_INPROGRESS &&
           pgasi_error_status(sync.error) == PGAS_ERR_PEER && !pgasi_token_give(token) &&
           !pgasi_token_give(token),
       "only the death of the rank ends it");
    reply_of(token, PGAS_OK, 7, &reply, sizeof reply);
    is_int((int)sync.count, 1, "not even a late reply");
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
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0;
    word = 0;
    for (size_t i = 0; i < sizeof long_us / sizeof long_us[0]; i++) {
        n_bad += pgas_call(0, tick, NULL, 0, &sync) != PGAS_OK ||
                 pgas_sync_wait(&sync, long_us[i]) != PGAS_OK;
        n_bad += pgas_call(0, tick, NULL, 0, NULL) != PGAS_OK;
        n_bad += pgas_signal_wait(&word, PGAS_EQ, 2 * i + 2, long_us[i], NULL) != PGAS_OK;
    }
    n_bad += pgas_call(0, tick, NULL, 0, &sync) != PGAS_OK;
    while (pgas_sync_test(&sync) == PGAS_INPROGRESS) {
    }
    is_int(n_bad, 0, "the longest waits do not end early, and a test makes progress");
}

static void life(uint64_t seed, const char *params, bool records)
{
    with_records = records;
    ok(lone_init(2, params) == PGAS_OK, "%s", params);
    pgas_gptr_t at = PGAS_NULL;
    pgas_alloc(N * sizeof *heap, &at);
    heap = pgas_gptr_local(at, N * sizeof *heap);
    ended_twice();
    models(seed);
    threads_take_tokens();
    waiting();
    refusing();
    gathered();
    long_waits();
    pgas_finalize();
}

int main(void)
{
    plan(2 * 19);
    pgas_handler_register("t.tick", on_tick, NULL, NULL, &tick);
    uint64_t seed = tap_seed(21);
    life(seed, "HEAP_SIZE=64K SERVICE_THREADS=0", false);
    life(seed + 1, "HEAP_SIZE=64K SERVICE_THREADS=0 ON_PEER_DEATH=continue", true);
    return done();
}
