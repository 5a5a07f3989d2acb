/* what: Many threads of a rank call it, ask, gather, count and wait at the same time, through rings
 *       of their own and shared ones, served by each other and by service threads. No call is lost
 *       or out of order, and there is no race.
 * needs: tsan-ok
 * source: public headers. The sides of a ring are those of ranks: a thread writes it, another one,
 * or a service thread, reads it */
#include <pthread.h>
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_THREADS 6
#define N_CALLS   500
#define SLOTS     16

static pgas_handler_t numbered, echo, hop, count, summed, apart, waits, large;
static uint64_t next_of[SLOTS], n_counted, sum; /* plain: handlers never overlap */
static uint64_t n_apart;                        /* but those of other targets do */
static int n_wrong;
static pgas_gptr_t words;

static void on_numbered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    (void)context;
    memcpy(&number, args, sizeof number);
    n_wrong += pgas_thread_slot(source) >= SLOTS || number != next_of[pgas_thread_slot(source)]++;
    n_wrong += bytes != 8 + number % 7 * 8;
}

static void on_echo(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    n_wrong += pgas_reply(args, bytes) != PGAS_OK;
}

/* Calls on until nothing is left. */
static void on_hop(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t left;
    (void)source;
    (void)context;
    memcpy(&left, args, sizeof left);
    if (left-- > 0)
        n_wrong += pgas_call(0, hop, &left, bytes, NULL) != PGAS_OK;
    else
        n_counted++;
}

static void on_count(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t value = 0;
    (void)source;
    (void)context;
    memcpy(&value, args, bytes);
    n_counted++;
    sum += value;
}

static pthread_barrier_t all_here;
static int n_running;

static int in_order(void)
{
    uint64_t args[8] = { 0 };
    pgas_agg_t *agg = NULL;
    int n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    for (uint64_t i = 0; i < N_CALLS; i++) {
        args[0] = i;
        size_t bytes = 8 + i % 7 * 8;
        n_bad += (i % 5 ? pgas_agg_call(agg, 0, numbered, args, bytes)
                        : pgas_call(0, numbered, args, bytes, NULL)) != PGAS_OK;
    }
    return n_bad + (pgas_agg_destroy(agg) != PGAS_OK);
}

static int questions(void)
{
    int n_bad = 0;
    for (uint64_t i = 0; i < 60; i++) {
        uint64_t out[3] = { i, i * i, 5 }, in[3] = { 0, 0, 0 };
        n_bad += pgas_call_return(0, echo, out, sizeof out, in, sizeof in) != PGAS_OK ||
                 memcmp(out, in, sizeof in) != 0;
    }
    return n_bad;
}

static int completions(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    uint64_t one = 1;
    int n_bad = 0;
    for (int i = 0; i < N_CALLS; i++)
        n_bad += pgas_call(0, count, &one, sizeof one, &sync) != PGAS_OK;
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
    return n_bad;
}

static int hops(void)
{
    uint64_t left = 40;
    return pgas_call(0, hop, &left, sizeof left, NULL) != PGAS_OK;
}

static int memory(void)
{
    pgas_gptr_t block[8];
    uint64_t old = 0;
    int n_bad = 0;
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 8; i++)
            n_bad += pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, 64 + (size_t)i * 40, &block[i]) !=
                     PGAS_OK;
        for (int i = 0; i < 8; i++) {
            n_bad += pgas_put_u64(block[i], 3) != PGAS_OK ||
                     pgas_fetch_op_u64(words, PGAS_ADD, 1, &old) != PGAS_OK;
            n_bad += pgas_free_on(block[i]) != PGAS_OK;
        }
    }
    return n_bad;
}

/* Adds up the bytes of all buffers, and compares the sum with the arguments. */
static void on_buffers(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    unsigned char value;
    (void)source;
    (void)context;
    (void)bytes;
    memcpy(&value, args, 1);
    for (size_t i = 0; i < pgas_buffer_count(); i++) {
        void *address = NULL;
        size_t n = 0;
        n_wrong += pgas_buffer_get(i, &address, &n) != PGAS_OK;
        for (size_t k = 0; k < n; k++)
            n_wrong += ((unsigned char *)address)[k] != value;
    }
    n_counted++;
}

/* For the service, or on a handler thread, beside the others. */
static void on_apart(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int n_bad = 0;
    (void)source;
    (void)context;
    (void)bytes;
    for (size_t i = 0; i < pgas_buffer_count(); i++) {
        void *address = NULL;
        size_t n = 0;
        n_bad += pgas_buffer_get(i, &address, &n) != PGAS_OK;
        for (size_t k = 0; k < n; k++)
            n_bad += ((unsigned char *)address)[k] != *(const unsigned char *)args;
    }
    if (n_bad == 0)
        __atomic_fetch_add(&n_apart, 1, __ATOMIC_RELAXED);
}

static void on_large(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    static char data[20000];
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_wrong += pgas_reply(data, sizeof data) != PGAS_OK;
}

#define N_BUFFERS 12

/* Each round's memory is written again when the buffers of the round before are free. */
static int buffers(void)
{
    unsigned char *memory = malloc(40000), value = 0;
    pgas_sync_t executed = PGAS_SYNC_INIT, local = PGAS_SYNC_INIT;
    int n_bad = 0;
    for (int i = 0; i < N_BUFFERS; i++) {
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        pgas_buffer_t b[3] = { { PGAS_BUFFER_COPY, memory, (size_t)i * 900, PGAS_NULL, false,
                                 NULL },
                               { PGAS_BUFFER_PULL, memory, 20000, PGAS_NULL, i % 4 == 1, NULL },
                               { PGAS_BUFFER_PULL, memory + 20000, 300, PGAS_NULL, false, NULL } };
        memset(memory, ++value, 40000);
        opts.sync = &executed;
        opts.local = &local;
        opts.buffers = b;
        opts.n_buffers = i % 3 ? 3 : 1;
        n_bad += pgas_call_to(pgas_on_rank(0), summed, &value, 1, &opts) != PGAS_OK;
        pgas_target_t beside = i % 2 ? pgas_on_service(0) : pgas_on_rank(0);
        n_bad += pgas_call_to(beside, i % 2 ? apart : waits, &value, 1, &opts) != PGAS_OK;
        n_bad += pgas_sync_wait(&local, -1) != PGAS_OK;
        if (i % 4 == 0)
            n_bad += pgas_call_return(0, large, NULL, 0, memory, 20000) != PGAS_OK;
    }
    n_bad += pgas_sync_wait(&executed, -1) != PGAS_OK;
    free(memory);
    return n_bad;
}

typedef struct {
    int (*body)(void);
    int n_bad;
} work_t;

static void *thread_main(void *arg)
{
    work_t *work = arg;
    work->n_bad += pgas_thread_attach() != PGAS_OK;
    pthread_barrier_wait(&all_here);
    work->n_bad += work->body();
    work->n_bad += pgas_thread_detach() != PGAS_OK;
    __atomic_sub_fetch(&n_running, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* All threads run body while the first one serves. */
static int together(int (*body)(void))
{
    pthread_t thread[N_THREADS];
    work_t work[N_THREADS];
    int n_bad = 0;
    n_running = N_THREADS;
    pthread_barrier_init(&all_here, NULL, N_THREADS);
    for (int i = 0; i < N_THREADS; i++) {
        work[i] = (work_t){ body, 0 };
        pthread_create(&thread[i], NULL, thread_main, &work[i]);
    }
    while (__atomic_load_n(&n_running, __ATOMIC_ACQUIRE) > 0)
        pgas_progress();
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(thread[i], NULL);
        n_bad += work[i].n_bad;
    }
    pthread_barrier_destroy(&all_here);
    return n_bad + (pgas_quiesce() != PGAS_OK);
}

static void everything(const char *params)
{
    memset(next_of, 0, sizeof next_of);
    n_counted = sum = 0;
    n_wrong = 0;
    int n_bad = lone_init(1, params) != PGAS_OK || pgas_alloc(64, &words) != PGAS_OK ||
                pgas_put_u64(words, 0) != PGAS_OK;
    n_bad += together(in_order);
    uint64_t ran = 0;
    for (int i = 0; i < SLOTS; i++)
        ran += next_of[i];
    ok(n_bad == 0 && n_wrong == 0 && ran == N_THREADS * N_CALLS, "%s: calls in order", params);
    is_int(together(questions) + n_wrong, 0, "questions and answers");
    n_bad = together(completions);
    ok(n_bad == 0 && n_counted == N_THREADS * N_CALLS && sum == n_counted, "completions");
    n_counted = 0;
    n_bad = together(hops);
    ok(n_bad == 0 && n_wrong == 0 && n_counted == N_THREADS, "calls from handlers");
    uint64_t value = 0;
    n_bad = together(memory) + (pgas_get_u64(words, &value) != PGAS_OK);
    ok(n_bad == 0 && value == N_THREADS * 30 * 8, "memory and atomics");
    n_counted = n_apart = 0;
    n_bad = together(buffers);
    ok(n_bad == 0 && n_wrong == 0 && n_counted == N_THREADS * N_BUFFERS &&
           n_apart == N_THREADS * N_BUFFERS,
       "calls with buffers, also for the service and handlers that wait; large replies");
    n_bad = pgas_finalize() != PGAS_OK;
    is_int(n_bad, 0, "the end");
}

int main(void)
{
    plan(22);
    pgas_handler_register("numbered", on_numbered, NULL, NULL, &numbered);
    pgas_handler_register("echo", on_echo, NULL, NULL, &echo);
    pgas_handler_register("hop", on_hop, NULL, NULL, &hop);
    pgas_handler_register("count", on_count, NULL, NULL, &count);
    pgas_handler_opts_t blocks = PGAS_HANDLER_OPTS_INIT;
    blocks.blocks = true;
    pgas_handler_register("summed", on_buffers, NULL, NULL, &summed);
    pgas_handler_register("apart", on_apart, NULL, NULL, &apart);
    pgas_handler_register("waits", on_apart, NULL, &blocks, &waits);
    pgas_handler_register("large", on_large, NULL, NULL, &large);
    everything("HEAP_SIZE=1M SERVICE_THREADS=1 LANES=3");
    everything("HEAP_SIZE=1M SERVICE_THREADS=0 LANES=8 CHUNK_SIZE=4K CALL_MAX=64");
    everything("HEAP_SIZE=1M SERVICE_THREADS=2 LANES=1 CHUNK_SIZE=4K CALL_MAX=256 AGG_SIZE=128");
    n_wrong = 0;
    next_of[3] = 5;
    uint64_t number = 4;
    on_numbered(&number, 8 + 4 % 7 * 8, pgas_thread_make(0, 3), NULL);
    ok(n_wrong > 0, "a number out of order is noticed");
    return done();
}
