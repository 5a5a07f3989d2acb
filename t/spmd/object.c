/* Objects with methods.
 *   what:   Methods of an object run at its owner, one at a time, each once, and their results come
 *           back. Threads whose requests wait for another share a call. Typed methods check sizes.
 *           Wrong calls get a status.
 *   np:     1 2 3 4
 *   nodes:  0 1 2
 *   tls:    posix tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 PGAS_CALL_MAX=100 | PGAS_LANES=1
 *   source: pgas/object.h
 */
#include <pthread.h>
#include "base/param.h"
#include "object/request.h"
#include "t/spmd/job.h"

#define N_ROUNDS  100
#define N_THREADS 4

typedef struct {
    uint64_t value; /* plain: operations do not overlap */
    int busy, n_overlaps;
    pgas_object_t name;
} object_t;

static object_t mine;
static pgas_object_t names[JOB_RANKS_MAX];
static pgas_method_t add, echo, hold, inner, outer;
static pgas_handler_t from_handler, waits;
static pgas_status_t inner_status, outer_status, handler_status[2];
static pgas_object_t second_name;

/* Replies with the former value and the rank that has asked. */
static void op_add(void *object, const void *args, size_t bytes, void *result, size_t result_bytes,
                   pgas_thread_t source)
{
    object_t *o = object;
    uint64_t by = 0, back[2] = { o->value, source };
    o->n_overlaps += o->busy++;
    memcpy(&by, args, bytes);
    o->value += by;
    memcpy(result, back, result_bytes);
    o->busy--;
}

static void op_echo(void *object, const void *args, size_t bytes, void *result, size_t result_bytes,
                    pgas_thread_t source)
{
    (void)object;
    (void)source;
    memcpy(result, args, bytes < result_bytes ? bytes : result_bytes);
}

/* Ends when this many requests are queued. */
static void op_hold(void *object, const void *args, size_t bytes, void *result, size_t result_bytes,
                    pgas_thread_t source)
{
    uint64_t want;
    (void)object;
    (void)result;
    (void)result_bytes;
    (void)source;
    memcpy(&want, args, bytes);
    while (__atomic_load_n(&pgasi_object_stats.n_pushed, __ATOMIC_ACQUIRE) < want) {
    }
}

static void op_inner(void *object, const void *args, size_t bytes, void *result,
                     size_t result_bytes, pgas_thread_t source)
{
    uint64_t one = 1, back;
    (void)object;
    (void)args;
    (void)bytes;
    (void)result;
    (void)result_bytes;
    (void)source;
    inner_status = pgas_object_call(mine.name, add, &one, 8, &back, 8);
}

static void on_handler(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t by = 0, back;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    handler_status[0] = pgas_object_call(mine.name, add, &by, 8, &back, 8);
    pgas_status_t right = pgas_object_call(names[job_right()], add, &by, 8, &back, 8);
    handler_status[1] = n_ranks == 1 ? PGAS_ERR_CONTEXT : right;
}

/* On `mine`: asks for the second object, whose method asks for `mine` again. */
static void op_outer(void *object, const void *args, size_t bytes, void *result,
                     size_t result_bytes, pgas_thread_t source)
{
    (void)object;
    (void)args;
    (void)bytes;
    (void)result;
    (void)result_bytes;
    (void)source;
    outer_status = pgas_object_call(second_name, inner, NULL, 0, NULL, 0);
}

PGAS_METHOD(subtract, object_t, uint32_t, int64_t)
{
    object->value -= *arg;
    return (int64_t)object->value - pgas_thread_rank(source);
}

static void typed(void)
{
    uint32_t two = 2;
    uint64_t eight = 8;
    int64_t result = 0;
    mine.value = 10;
    pgas_barrier(NULL);
    int n_bad = pgas_object_call_subtract(names[job_right()], &two, &result) != PGAS_OK;
    n_bad += result != 8 - me || pgas_barrier(NULL) != PGAS_OK;
    spmd_ok(n_bad == 0 && mine.value == 8, "a typed method");
    n_bad =
        pgas_object_call(names[me], pgas_method_subtract, &eight, 8, &result, 8) !=
            PGAS_ERR_MISMATCH ||
        pgas_object_call(names[me], pgas_method_subtract, &two, 4, &two, 4) != PGAS_ERR_MISMATCH;
    spmd_ok(n_bad == 0 && mine.value == 8, "does not run with other sizes");
    pgas_barrier(NULL);
}

typedef struct {
    int n_bad;
    uint64_t sum; /* of the values that came back */
} work_t;

static void *work(void *arg)
{
    work_t *w = arg;
    w->n_bad += pgas_thread_attach() != PGAS_OK;
    for (int i = 0; i < N_ROUNDS; i++) {
        for (int r = 0; r < n_ranks; r++) {
            uint64_t one = 1, back[2] = { 0, 0 };
            w->n_bad += pgas_object_call(names[r], add, &one, 8, back, sizeof back) != PGAS_OK;
            w->n_bad += back[1] != pgas_thread_self();
            w->sum += back[0];
        }
    }
    w->n_bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

/* Every value from 0 on has come back once, to some rank. */
static void adds(void)
{
    work_t w[N_THREADS];
    pthread_t thread[N_THREADS];
    int n_bad = 0;
    uint64_t sum = 0, all = 0, n = (uint64_t)(N_ROUNDS * N_THREADS * n_ranks);
    mine.value = 0;
    uint64_t calls = pgasi_object_stats.n_calls, requests = pgasi_object_stats.n_requests;
    pgas_barrier(NULL);
    for (int t = 0; t < N_THREADS; t++) {
        w[t] = (work_t){ 0, 0 };
        n_bad += pthread_create(&thread[t], NULL, work, &w[t]) != 0;
    }
    for (int t = 0; t < N_THREADS; t++) {
        n_bad += pthread_join(thread[t], NULL) != 0 || w[t].n_bad != 0;
        sum += w[t].sum;
    }
    pgas_allreduce(NULL, &sum, &all, 1, PGAS_U64, PGAS_ADD);
    calls = pgasi_object_stats.n_calls - calls;
    requests = pgasi_object_stats.n_requests - requests;
    n_bad += requests != n || calls > n;
    n_bad +=
        mine.value != n || mine.n_overlaps != 0 || all != (uint64_t)n_ranks * (n * (n - 1) / 2);
    spmd_is_int(n_bad, 0, "threads of all ranks add to objects of all ranks");
}

static void *one_request(void *arg)
{
    uint64_t value = *(uint64_t *)arg, back;
    pgas_method_t op = value == 1 ? add : hold;
    int bad = pgas_thread_attach() != PGAS_OK ||
              pgas_object_call(mine.name, op, &value, 8, &back, 8) != PGAS_OK;
    *(uint64_t *)arg = (uint64_t)(bad + (pgas_thread_detach() != PGAS_OK));
    return NULL;
}

/* The first request is held until the others are queued, which then need one call. */
static void threads_share_a_call(void)
{
    pthread_t thread[N_THREADS];
    uint64_t arg[N_THREADS], queued = pgasi_object_stats.n_pushed,
                             calls = pgasi_object_stats.n_calls;
    int n_bad = 0;
    mine.value = 0;
    pgas_barrier(NULL);
    for (int t = 0; t < N_THREADS; t++) {
        arg[t] = t == 0 ? queued + N_THREADS - 1 : 1;
        n_bad += pthread_create(&thread[t], NULL, one_request, &arg[t]) != 0;
        while (t == 0 && __atomic_load_n(&pgasi_object_stats.n_calls, __ATOMIC_RELAXED) == calls)
            sched_yield(); /* until it is on its way */
    }
    for (int t = 0; t < N_THREADS; t++)
        n_bad += pthread_join(thread[t], NULL) != 0 || arg[t] != 0;
    calls = pgasi_object_stats.n_calls - calls;
    uint64_t fit = pgasi_param.call_max < 200 ? 1 + 2 : 1 + 1;
    spmd_ok(n_bad == 0 && mine.value == N_THREADS - 1,
            "requests that wait for each other are all carried out");
    spmd_ok(calls <= fit && calls >= 2, "and those that were queued meanwhile share a call");
    pgas_barrier(NULL);
}

/* Rising, and `most` is the last. */
static size_t next_size(size_t bytes, size_t most)
{
    if (bytes == most)
        return most + 1;
    return bytes * 3 + 1 > most ? most : bytes * 3 + 1;
}

static void sizes(void)
{
    size_t most = pgasi_param.call_max - 32;
    unsigned char *args = job_alloc(most + 1), *back = job_alloc(most + 1);
    int n_bad = 0, right = job_right();
    for (size_t bytes = 0; bytes <= most; bytes = next_size(bytes, most)) {
        memset(args, (int)(bytes + 1) & 255, bytes);
        memset(back, 0, most + 1);
        n_bad += pgas_object_call(names[right], echo, args, bytes, back, most) != PGAS_OK;
        n_bad +=
            memcmp(args, back, bytes) != 0 || back[most] != 0 || (bytes < most && back[bytes] != 0);
    }
    n_bad += pgas_object_call(names[right], echo, NULL, 0, NULL, 0) != PGAS_OK;
    n_bad += pgas_object_call(names[right], echo, args, most + 1, NULL, 0) != PGAS_ERR_LIMIT;
    n_bad += pgas_object_call(names[right], echo, args, 0, back, (size_t)1 << 33) != PGAS_ERR_LIMIT;
    spmd_is_int(n_bad, 0, "arguments and results of 0 bytes to the limit");
    free(args);
    free(back);
}

static void refusals(void)
{
    uint64_t x = 0;
    int right = job_right(), other = 0;
    pgas_object_t gone = 0;
    int n_bad = pgas_object_call(0, add, &x, 8, &x, 8) != PGAS_ERR_INVALID;
    n_bad += pgas_object_call(names[right], from_handler, &x, 8, &x, 8) != PGAS_ERR_NOT_FOUND;
    n_bad += pgas_object_call(names[right], add, NULL, 8, &x, 8) != PGAS_ERR_INVALID;
    n_bad += pgas_object_call(names[right], add, &x, 8, NULL, 8) != PGAS_ERR_INVALID;
    n_bad += pgas_object_create(&other, NULL) != PGAS_ERR_INVALID ||
             pgas_object_create(NULL, &gone) != PGAS_ERR_INVALID;
    n_bad += pgas_object_create(&other, &gone) != PGAS_OK || pgas_object_destroy(gone) != PGAS_OK;
    n_bad += pgas_object_destroy(gone) != PGAS_ERR_NOT_FOUND || pgas_object_destroy(0) != PGAS_OK;
    n_bad += pgas_object_call(gone, add, &x, 8, &x, 8) != PGAS_ERR_NOT_FOUND;
    n_bad += n_ranks > 1 && pgas_object_destroy(names[right]) != PGAS_ERR_RANGE;
    spmd_is_int(n_bad, 0, "wrong calls get a status");
    inner_status = PGAS_OK;
    n_bad = pgas_object_call(names[me], inner, NULL, 0, NULL, 0) != PGAS_OK ||
            inner_status != PGAS_ERR_DEADLOCK;
    n_bad += pgas_call(right, from_handler, NULL, 0, NULL) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    n_bad += handler_status[0] != PGAS_OK || handler_status[1] != PGAS_ERR_CONTEXT;
    spmd_is_int(n_bad, 0,
                "a method cannot call its own object; handlers reach those of their rank");
}

#define N_WAITING 50

static int n_bad_inside;
static uint64_t sum_inside;

/* Adds one to every rank's object. */
static void on_waits(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int bad = 0;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    for (int r = 0; r < n_ranks; r++) {
        uint64_t one = 1, back = 0;
        bad += pgas_object_call(names[r], add, &one, 8, &back, 8) != PGAS_OK;
        __atomic_fetch_add(&sum_inside, back, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&n_bad_inside, bad, __ATOMIC_RELAXED);
}

static void from_handlers_that_wait(void)
{
    uint64_t all = 0, n = (uint64_t)(N_WAITING * n_ranks);
    int n_bad = 0;
    mine.value = 0;
    pgas_barrier(NULL);
    for (int i = 0; i < N_WAITING; i++)
        n_bad += pgas_call((me + i) % n_ranks, waits, NULL, 0, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    pgas_allreduce(NULL, &sum_inside, &all, 1, PGAS_U64, PGAS_ADD);
    n_bad +=
        mine.value != n || mine.n_overlaps != 0 || all != (uint64_t)n_ranks * (n * (n - 1) / 2);
    spmd_is_int(n_bad + n_bad_inside, 0,
                "%d handlers that block of each rank call objects of every rank", N_WAITING);
    pgas_barrier(NULL);
}

/* Two objects whose methods call each other, and a handler for this thread alone. */
static void chains(void)
{
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    static int second;
    int n_bad = pgas_object_create(&second, &second_name) != PGAS_OK;
    inner_status = outer_status = PGAS_OK;
    n_bad += pgas_object_call(names[me], outer, NULL, 0, NULL, 0) != PGAS_OK;
    n_bad += outer_status != PGAS_OK || inner_status != PGAS_ERR_DEADLOCK;
    spmd_is_int(n_bad, 0, "nor can one that it asks");
    handler_status[0] = handler_status[1] = PGAS_OK;
    pgas_barrier(NULL);
    o.sync = &sync;
    n_bad += pgas_call_to(pgas_on_thread(pgas_thread_make(job_right(), 0)), from_handler, NULL, 0,
                          &o) != PGAS_OK;
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    n_bad += handler_status[0] != PGAS_OK || handler_status[1] != PGAS_ERR_CONTEXT;
    spmd_is_int(n_bad, 0, "handlers of one thread reach objects of their rank");
    n_bad += pgas_object_destroy(second_name) != PGAS_OK;
    spmd_is_int(n_bad, 0, "an object ends");
}

int main(int argc, char **argv)
{
    int n_bad = pgas_method_register("t.add", op_add, &add) != PGAS_OK ||
                pgas_method_register("t.echo", op_echo, &echo) != PGAS_OK;
    n_bad += pgas_method_register("t.hold", op_hold, &hold) != PGAS_OK;
    n_bad += pgas_method_register("t.inner", op_inner, &inner) != PGAS_OK;
    n_bad += pgas_method_register("t.add", op_add, &add) != PGAS_OK;
    n_bad += pgas_method_register("t.add", op_echo, &add) != PGAS_ERR_EXISTS;
    n_bad += pgas_method_register("t.null", NULL, &add) != PGAS_ERR_INVALID;
    pgas_handler_register("t.handler", on_handler, NULL, NULL, &from_handler);
    pgas_handler_opts_t may_block = PGAS_HANDLER_OPTS_INIT;
    may_block.blocks = true;
    pgas_handler_register("t.waits", on_waits, NULL, &may_block, &waits);
    n_bad += pgas_method_register("t.outer", op_outer, &outer) != PGAS_OK;
    job_begin(&argc, &argv, 13);
    n_bad += pgas_object_create(&mine, &mine.name) != PGAS_OK;
    n_bad += pgas_allgather(NULL, &mine.name, names, sizeof mine.name) != PGAS_OK;
    spmd_is_int(n_bad, 0, "methods and objects have names");
    adds();
    typed();
    threads_share_a_call();
    sizes();
    refusals();
    from_handlers_that_wait();
    chains();
    pgas_barrier(NULL);
    return job_end();
}
