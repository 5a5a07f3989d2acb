/* Results of calls to any target.
 *   what:   Calls to ranks, threads and services give results, small and large, alone and with
 *           buffers, in both ways, and from handlers with threads of their own. Aggregators collect
 *           such calls, in both ways and styles, with counters and copied buffers; a flush with a
 *           counter covers threads and services. A result of another size, a thread that has left,
 *           and what cannot be combined are reported.
 *   np:     1 2 3 5
 *   nodes:  0 1 2
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K | PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/call.h, pgas/agg.h
 */
#include <pthread.h>
#include "t/pattern.h"
#include "t/spmd/job.h"

#define LARGE    ((size_t)40000)
#define SMALL    ((size_t)24)
#define N_CALLS  200
#define N_TARGET 3

static pgas_handler_t answer, wait_and_answer, wrong_size, add;
static uint64_t sum_here;

/* args */
typedef struct {
    uint64_t word, bytes; /* the seed and the size of the result */
    int32_t slot;         /* of the thread that must run it; -1: any */
    int32_t n_buffers;
} ask_t;

/* A wrong call gets a wrong result. */
static void on_answer(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    unsigned char result[LARGE]; /* a reply that waits for room lets other handlers run here */
    ask_t a;
    (void)source, (void)context;
    memcpy(&a, args, sizeof a);
    bool good = bytes == sizeof a && pgas_buffer_count() == (size_t)a.n_buffers &&
                (a.slot < 0 || a.slot == pgas_thread_slot(pgas_thread_self()));
    for (int i = 0; i < a.n_buffers; i++) {
        void *data = NULL;
        size_t n = 0;
        good = good && pgas_buffer_get((size_t)i, &data, &n) == PGAS_OK;
        for (size_t k = 0; good && k < n; k++)
            good = ((unsigned char *)data)[k] == pattern_byte(a.word + (uint64_t)i, k);
    }
    pattern_fill(result, a.word + !good, a.bytes);
    pgas_reply(result, a.bytes);
}

static void on_wrong_size(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)source, (void)context;
    pgas_reply("wrong", bytes ? 5 : 0);
}

static void on_add(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t x;
    (void)bytes, (void)source, (void)context;
    memcpy(&x, args, sizeof x);
    __atomic_fetch_add(&sum_here, x, __ATOMIC_RELAXED);
}

static pgas_target_t target_of(int i, int rank)
{
    if (i == 0)
        return pgas_on_rank(rank);
    return i == 1 ? pgas_on_thread(pgas_thread_make(rank, 1)) : pgas_on_service(rank);
}

static int is_bad(const unsigned char *result, const ask_t *a)
{
    for (size_t i = 0; i < a->bytes; i++)
        if (result[i] != pattern_byte(a->word, i))
            return 1;
    return 0;
}

static unsigned char memory[2][5000];

/* mode: 0: no buffer, 1: copied and pulled, 2: copied */
static int set_buffers(pgas_buffer_t b[2], pgas_call_opts_t *o, ask_t *a, int mode)
{
    for (int i = 0; i < 2; i++) {
        size_t bytes = i ? sizeof memory[1] : 77;
        b[i] = (pgas_buffer_t){ i && mode == 1 ? PGAS_BUFFER_PULL : PGAS_BUFFER_COPY,
                                memory[i],
                                bytes,
                                PGAS_NULL,
                                false,
                                NULL };
        pattern_fill(memory[i], a->word + (uint64_t)i, bytes);
    }
    a->n_buffers = mode ? 2 : 0;
    o->buffers = mode ? b : NULL;
    o->n_buffers = (size_t)a->n_buffers;
    return 0;
}

static void each_target(void)
{
    static unsigned char result[LARGE];
    int n_bad = 0;
    for (int i = 0; i < 3 * 2 * 2 * 2 * 3; i++) {
        int t = i % 3, mode = i / 24;
        bool send = i / 3 % 2, large = i / 6 % 2, waits = i / 12 % 2;
        for (int rank = 0; rank < n_ranks; rank++) {
            ask_t a = { (uint64_t)(i * 100 + me), large ? LARGE : SMALL, t == 1 && !waits ? 1 : -1,
                        0 };
            pgas_sync_t done = PGAS_SYNC_INIT;
            pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
            pgas_buffer_t b[2];
            set_buffers(b, &o, &a, mode);
            o.sync = &done;
            o.result = result;
            o.result_bytes = a.bytes;
            o.way = send ? PGAS_WAY_SEND : PGAS_WAY_WRITE;
            memset(result, 0xDD, sizeof result);
            n_bad += pgas_call_to(target_of(t, rank), waits ? wait_and_answer : answer, &a,
                                  sizeof a, &o) != PGAS_OK ||
                     pgas_sync_wait(&done, -1) != PGAS_OK || done.count != 0 || is_bad(result, &a);
        }
    }
    spmd_is_int(n_bad, 0, "ranks, threads and services: results of any size, with buffers");
}

static void spawned(void)
{
    static unsigned char result[LARGE];
    int n_bad = 0;
    for (int i = 0; i < 2 * 2 * 2; i++) {
        ask_t a = { (uint64_t)(i * 100 + me), i % 2 ? LARGE : SMALL, -1, 0 };
        pgas_sync_t done = PGAS_SYNC_INIT;
        pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
        pgas_buffer_t b[2];
        set_buffers(b, &o, &a, i / 2 % 2);
        o.sync = &done;
        o.spawn = true;
        o.result = result;
        o.result_bytes = a.bytes;
        o.way = i / 4 ? PGAS_WAY_SEND : PGAS_WAY_WRITE;
        n_bad += pgas_call_to(pgas_on_rank(job_right()), answer, &a, sizeof a, &o) != PGAS_OK ||
                 pgas_sync_wait(&done, -1) != PGAS_OK || is_bad(result, &a);
    }
    spmd_is_int(n_bad, 0, "spawned handlers give results, with buffers");
}

/* Many results are awaited by one counter. */
static int collect(pgas_agg_t *agg, bool buffers)
{
    static unsigned char result[N_CALLS][SMALL];
    static ask_t asked[N_CALLS];
    pgas_sync_t done = PGAS_SYNC_INIT, flushed = PGAS_SYNC_INIT;
    int n_bad = 0;
    uint64_t one = 1;
    memset(result, 0xDD, sizeof result);
    for (int i = 0; i < N_CALLS; i++) {
        int t = i % N_TARGET, rank = (me + i) % n_ranks;
        ask_t a = { (uint64_t)(i * 7 + me), SMALL, t == 1 ? 1 : -1, 0 };
        pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
        pgas_buffer_t b[2];
        set_buffers(b, &o, &a, buffers && i % 8 == 0 ? 2 : 0);
        o.sync = &done;
        o.result = result[i];
        o.result_bytes = SMALL;
        asked[i] = a;
        pgas_status_t status;
        while ((status = pgas_agg_call_to(agg, target_of(t, rank), answer, &a, sizeof a, &o)) ==
               PGAS_ERR_AGAIN)
            pgas_progress();
        n_bad += status != PGAS_OK;
        if (i % 5 == 0)
            while ((status = pgas_agg_call_to(agg, target_of(i % 3, rank), add, &one, sizeof one,
                                              NULL)) == PGAS_ERR_AGAIN)
                pgas_progress();
        n_bad += status != PGAS_OK;
    }
    n_bad += pgas_agg_flush(agg, PGAS_ALL, &flushed) != PGAS_OK;
    n_bad += pgas_sync_wait(&flushed, -1) != PGAS_OK || flushed.count != 0;
    /* the results came before the answers of the flush, or come soon */
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK || done.count != 0;
    for (int i = 0; i < N_CALLS; i++)
        n_bad += is_bad(result[i], &asked[i]);
    return n_bad;
}

static void aggregated(void)
{
    int n_bad = 0;
    uint64_t expected = 0, all = 0;
    sum_here = 0;
    pgas_barrier(NULL);
    for (int i = 0; i < 4; i++) {
        pgas_agg_opts_t o = PGAS_AGG_OPTS_INIT;
        pgas_agg_t *agg = NULL;
        o.way = i % 2 ? PGAS_WAY_SEND : PGAS_WAY_WRITE;
        o.style = i / 2 ? PGAS_AGG_OVERFLOW : PGAS_AGG_TRAD;
        n_bad += pgas_agg_create(&o, &agg) != PGAS_OK;
        n_bad += collect(agg, i / 2 == 0);
        expected += N_CALLS / 5;
        uint64_t x = 2;
        for (int rank = 0; rank < n_ranks; rank++)
            while (pgas_agg_call(agg, rank, add, &x, sizeof x) != PGAS_OK)
                pgas_progress();
        expected += 2 * (uint64_t)n_ranks;
        n_bad += pgas_agg_flush(agg, job_right(), NULL) != PGAS_OK;
        n_bad += pgas_agg_destroy(agg) != PGAS_OK;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    n_bad += pgas_allreduce(NULL, &sum_here, &all, 1, PGAS_U64, PGAS_ADD) != PGAS_OK;
    spmd_is_int(n_bad, 0, "aggregated calls to all targets: results, counters, buffers");
    spmd_ok(all == expected * (uint64_t)n_ranks, "and each runs once");
}

/* Quiescence and the time limit send what the aggregators of both ways hold. */
static void left_alone(void)
{
    int n_bad = 0;
    for (int i = 0; i < 2; i++) {
        pgas_agg_opts_t o = PGAS_AGG_OPTS_INIT;
        pgas_agg_t *agg = NULL;
        pgas_sync_t done = PGAS_SYNC_INIT;
        uint64_t one = 1;
        o.way = i ? PGAS_WAY_SEND : PGAS_WAY_WRITE;
        n_bad += pgas_agg_create(&o, &agg) != PGAS_OK;
        sum_here = 0;
        pgas_barrier(NULL);
        n_bad += pgas_agg_call_to(agg, target_of(1, job_right()), add, &one, sizeof one, NULL) !=
                 PGAS_OK;
        n_bad += pgas_quiesce() != PGAS_OK || sum_here != 1;
        pgas_barrier(NULL); /* the next call of another rank must not come earlier */
        n_bad += pgas_agg_call_to(agg, target_of(1, job_right()), add, &one, sizeof one,
                                  PGAS_CALL_OPTS(.sync = &done)) != PGAS_OK;
        n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
        n_bad += pgas_agg_destroy(agg) != PGAS_OK;
        pgas_barrier(NULL);
    }
    spmd_is_int(n_bad, 0, "quiescence and waits send what is collected, in both ways");
}

static void refusals(void)
{
    pgas_agg_opts_t ao = PGAS_AGG_OPTS_INIT;
    pgas_agg_t *agg = NULL, *none = NULL, *routed = NULL;
    pgas_sync_t done = PGAS_SYNC_INIT;
    ask_t a = { 1, SMALL, -1, 0 };
    unsigned char result[SMALL];
    pgas_buffer_t pull = { PGAS_BUFFER_PULL, memory, 8, PGAS_NULL, false, NULL };
    int n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    ao.route = PGAS_ROUTE_TWO;
    n_bad += pgas_agg_create(&ao, &routed) != PGAS_OK;
    ao.way = PGAS_WAY_SEND;
    n_bad += pgas_agg_create(&ao, &none) != PGAS_ERR_UNSUPPORTED;
    ao.route = PGAS_ROUTE_DIRECT;
    ao.for_handlers = true;
    n_bad += pgas_agg_create(&ao, &none) != PGAS_ERR_UNSUPPORTED || none;
#define TO(target, ...) pgas_call_to(target, answer, &a, sizeof a, PGAS_CALL_OPTS(__VA_ARGS__))
#define BY(agg, target, ...) \
    pgas_agg_call_to(agg, target, answer, &a, sizeof a, PGAS_CALL_OPTS(__VA_ARGS__))
    n_bad += TO(pgas_on_rank(0), .result = result, .result_bytes = SMALL) != PGAS_ERR_INVALID;
    n_bad += TO(pgas_on_rank(0), .sync = &done, .result_bytes = SMALL) != PGAS_ERR_INVALID;
    n_bad += TO(pgas_on_rank(0), .sync = &done, .result = result, .when = PGAS_REMOTE) !=
             PGAS_ERR_INVALID;
    n_bad += TO(pgas_on_service(0), .spawn = true) != PGAS_ERR_UNSUPPORTED;
    n_bad += BY(agg, pgas_on_team(NULL), .sync = &done) != PGAS_ERR_UNSUPPORTED;
    n_bad += BY(agg, pgas_on_rank(0), .buffers = &pull, .n_buffers = 1) != PGAS_ERR_UNSUPPORTED;
    n_bad += BY(routed, pgas_on_rank(0), .sync = &done) != PGAS_ERR_UNSUPPORTED;
    n_bad += BY(routed, pgas_on_service(0), .when = PGAS_LOCAL) != PGAS_ERR_UNSUPPORTED;
    n_bad += BY(agg, pgas_on_rank(n_ranks), .sync = &done) != PGAS_ERR_RANGE;
    n_bad += BY(agg, pgas_on_thread(pgas_thread_make(0, 4000)), .sync = &done) != PGAS_ERR_LIMIT;
    n_bad +=
        pgas_agg_call_to(NULL, pgas_on_rank(0), answer, &a, sizeof a, NULL) != PGAS_ERR_INVALID;
    spmd_ok(n_bad == 0 && done.count == 0, "what cannot be combined is refused");
    n_bad = pgas_agg_destroy(agg) != PGAS_OK || pgas_agg_destroy(routed) != PGAS_OK;

    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    o.sync = &done;
    o.result = result;
    o.result_bytes = SMALL;
    for (int t = 0; t < N_TARGET; t++) {
        n_bad += pgas_call_to(target_of(t, job_right()), wrong_size, &a, sizeof a, &o) != PGAS_OK;
        n_bad +=
            pgas_sync_wait(&done, -1) != PGAS_ERR_MISMATCH || pgas_sync_reset(&done) != PGAS_OK;
    }
    spmd_is_int(n_bad, 0, "a result of another size is a mismatch");
}

/* Arguments, and buffers in both modes, from blocks of a circular pool that goes round. */
static void from_registered_blocks(void)
{
    enum { N_BLOCKS = 120 };
    pgas_pool_opts_t po = PGAS_POOL_OPTS_INIT;
    pgas_pool_t *pool = NULL;
    po.policy = PGAS_POOL_CIRCULAR;
    po.unit_bytes = 1 << 16;
    po.max_bytes = 1 << 17;
    int n_bad = pgas_pool_create(&po, &pool) != PGAS_OK;
    for (int i = 0; i < N_BLOCKS && !n_bad; i++) {
        unsigned char result[SMALL];
        size_t bytes = (size_t)(i * 67 % 4000) + 8;
        pgas_block_t block;
        pgas_sync_t done = PGAS_SYNC_INIT;
        pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
        n_bad += pgas_pool_acquire(pool, sizeof(ask_t) + bytes, -1, &block) != PGAS_OK;
        if (n_bad)
            break;
        ask_t *a = block.address;
        *a = (ask_t){ (uint64_t)(i + me), SMALL, -1, 1 };
        pattern_fill((unsigned char *)(a + 1), a->word, bytes);
        ask_t copy = *a;
        pgas_buffer_t b = {
            i % 2 ? PGAS_BUFFER_PULL : PGAS_BUFFER_COPY, a + 1, bytes, PGAS_NULL, false, NULL
        };
        o.buffers = &b;
        o.n_buffers = 1;
        o.sync = &done;
        o.result = result;
        o.result_bytes = SMALL;
        n_bad += pgas_call_to(target_of(i % 3 ? 0 : 2, job_right()), answer, a, sizeof *a, &o) !=
                 PGAS_OK;
        n_bad += pgas_sync_wait(&done, -1) != PGAS_OK || is_bad(result, &copy);
        n_bad += pgas_pool_release(pool, &block) != PGAS_OK;
    }
    n_bad += pgas_pool_destroy(pool) != PGAS_OK;
    spmd_is_int(n_bad, 0, "arguments and buffers from registered blocks");
}

static uint64_t ready, over;

static void *work(void *arg)
{
    int *bad = arg;
    *bad = pgas_thread_attach() != PGAS_OK || pgas_thread_slot(pgas_thread_self()) != 1;
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
        pgas_progress();
    *bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

/* After its thread has left, a slot refuses, with and without an aggregator. */
static void left_threads(void)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    ask_t a = { 1, SMALL, -1, 0 };
    unsigned char result[SMALL];
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    pgas_agg_t *agg = NULL;
    int n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    o.sync = &done;
    o.result = result;
    o.result_bytes = SMALL;
    for (int i = 0; i < 2; i++) {
        pgas_target_t left = target_of(1, job_right());
        n_bad += (i ? pgas_agg_call_to(agg, left, answer, &a, sizeof a, &o)
                    : pgas_call_to(left, answer, &a, sizeof a, &o)) != PGAS_OK;
        n_bad += pgas_sync_wait(&done, -1) != PGAS_ERR_PEER || pgas_sync_reset(&done) != PGAS_OK;
    }
    n_bad += pgas_agg_destroy(agg) != PGAS_OK;
    spmd_is_int(n_bad, 0, "a thread that has left gives no result");
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int bad = 0;
    pgas_handler_opts_t may_block = PGAS_HANDLER_OPTS_INIT;
    may_block.blocks = true;
    pgas_handler_register("t.answer", on_answer, NULL, NULL, &answer);
    pgas_handler_register("t.waits", on_answer, NULL, &may_block, &wait_and_answer);
    pgas_handler_register("t.wrong", on_wrong_size, NULL, NULL, &wrong_size);
    pgas_handler_register("t.add", on_add, NULL, NULL, &add);
    job_begin(&argc, &argv, 10);
    bool good = pthread_create(&thread, NULL, work, &bad) == 0;
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        pgas_progress();
    pgas_barrier(NULL);
    each_target();
    spawned();
    aggregated();
    left_alone();
    refusals();
    from_registered_blocks();
    pgas_barrier(NULL);
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    good = good && pthread_join(thread, NULL) == 0 && bad == 0;
    pgas_barrier(NULL);
    left_threads();
    spmd_ok(good, "the threads were there");
    return job_end();
}
