/* Round trip of each way to call. The answer is a call by the handler, a reply, or a completion. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

/* Calls with buffers have a header of their own. */
#include "pgas/call.h"

#include <stdlib.h>

static pgas_handler_t ping, pong, echo, mirror;
static volatile uint64_t n_pings, n_pongs;
static char args_block[16384], reply_block[16384];
static pgas_agg_t *agg;
static pgas_gptr_t place; /* of pushed buffers, on every rank */

static void run_ping(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_pings++;
}

static void run_pong(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_pongs++;
}

static void run_echo(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    (void)pgas_reply(args, bytes < sizeof(uint64_t) ? bytes : sizeof(uint64_t));
}

/* Replies with all bytes that came. */
static void run_mirror(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    (void)pgas_reply(args, bytes);
}

static void prepare(void)
{
    bench_check(pgas_handler_register("bench.ping", run_ping, NULL, NULL, &ping),
                "pgas_handler_register");
    bench_check(pgas_handler_register("bench.pong", run_pong, NULL, NULL, &pong),
                "pgas_handler_register");
    bench_check(pgas_handler_register("bench.echo", run_echo, NULL, NULL, &echo),
                "pgas_handler_register");
    bench_check(pgas_handler_register("bench.mirror", run_mirror, NULL, NULL, &mirror),
                "pgas_handler_register");
}

static void setup(void)
{
    bench_check(pgas_agg_create(NULL, &agg), "pgas_agg_create");
    bench_check(pgas_alloc(sizeof args_block, &place), "pgas_alloc");
}

static void teardown(void)
{
    bench_check(pgas_agg_destroy(agg), "pgas_agg_destroy");
    bench_check(pgas_free(place), "pgas_free");
}

/* ---- a call each way ---- */

typedef int (*one_call_fn_t)(int rank, pgas_handler_t handler, size_t bytes);

static inline int by_call(int rank, pgas_handler_t handler, size_t bytes)
{
    return pgas_call(rank, handler, args_block, bytes, NULL);
}

static inline int by_message(int rank, pgas_handler_t handler, size_t bytes)
{
    static const pgas_call_opts_t opts = { .size = sizeof opts, .way = PGAS_WAY_SEND };
    return pgas_call_to(pgas_on_rank(rank), handler, args_block, bytes, &opts);
}

static inline int by_flush(int rank, pgas_handler_t handler, size_t bytes)
{
    return pgas_agg_call(agg, rank, handler, args_block, bytes) | pgas_agg_flush(agg, rank, NULL);
}

static inline int to_thread(int rank, pgas_handler_t handler, size_t bytes)
{
    return pgas_call_to(pgas_on_thread(pgas_thread_make(rank, 0)), handler, args_block, bytes,
                        NULL);
}

/* Both ranks wait by pgas_progress, as a program that has nothing else to do. */
static inline __attribute__((always_inline)) double there_and_back(const bench_run_t *run,
                                                                   one_call_fn_t one_call)
{
    uint64_t pings = n_pings, pongs = n_pongs, begin;
    int bad = 0;
    /* no rank calls before the other has read the counters */
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    begin = bench_now();
    for (uint64_t i = 1; i <= run->iters; i++) {
        if (run->active) {
            bad |= one_call(run->peer, ping, run->bytes);
            while (n_pongs != pongs + i)
                pgas_progress();
        } else {
            while (n_pings != pings + i)
                pgas_progress();
            bad |= one_call(run->peer, pong, run->bytes);
        }
    }
    if (bad)
        bench_die("a call of %zu bytes failed", run->bytes);
    return run->active ? bench_since(begin) : 0;
}

static double call_and_call(const bench_run_t *run)
{
    return there_and_back(run, by_call);
}

static double message_and_message(const bench_run_t *run)
{
    return there_and_back(run, by_message);
}

static double flush_and_flush(const bench_run_t *run)
{
    return there_and_back(run, by_flush);
}

static double thread_and_thread(const bench_run_t *run)
{
    return there_and_back(run, to_thread);
}

/* ---- a call and what it gives ---- */

/* The target waits in a barrier, the caller in the call; the reply has up to 8 bytes. */
static double call_return(const bench_run_t *run)
{
    uint64_t reply = 0, begin = bench_now();
    size_t reply_bytes = run->bytes < sizeof reply ? run->bytes : sizeof reply;
    int bad = 0;
    if (!run->active)
        return 0;
    for (uint64_t i = 0; i < run->iters; i++)
        bad |= pgas_call_return(run->peer, echo, args_block, run->bytes, &reply, reply_bytes);
    if (bad)
        bench_die("a call with reply of %zu bytes failed", run->bytes);
    return bench_since(begin);
}

/* The same with a reply as large as the arguments. */
static double call_mirror(const bench_run_t *run)
{
    uint64_t begin = bench_now();
    int bad = 0;
    if (!run->active)
        return 0;
    for (uint64_t i = 0; i < run->iters; i++)
        bad |= pgas_call_return(run->peer, mirror, args_block, run->bytes, reply_block, run->bytes);
    if (bad)
        bench_die("a call with reply of %zu bytes failed", run->bytes);
    return bench_since(begin);
}

/* Calls a slot of the peer, and waits for the completion that arg names. */
static double await_completion(const bench_run_t *run, int slot)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    uint64_t begin;
    double elapsed;
    int bad = 0;
    if (!run->active)
        return 0;
    opts.sync = &sync;
    opts.when = (pgas_when_t)run->arg;
    begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        bad |= pgas_call_to(pgas_on_thread(pgas_thread_make(run->peer, slot)), ping, args_block,
                            run->bytes, &opts);
        bad |= pgas_sync_wait(&sync, -1);
    }
    elapsed = bench_since(begin);
    if (bad)
        bench_die("a call of %zu bytes failed", run->bytes);
    return elapsed;
}

static double call_completed(const bench_run_t *run)
{
    return await_completion(run, PGAS_SLOT_ANY);
}

static double call_service(const bench_run_t *run)
{
    return await_completion(run, PGAS_SLOT_SERVICE);
}

/* One buffer, in the mode that arg names, until the handler has run on all of it. */
static double call_buffer(const bench_run_t *run)
{
    pgas_buffer_t buffer = { .mode = (pgas_buffer_mode_t)run->arg,
                             .address = args_block,
                             .bytes = run->bytes };
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    uint64_t begin;
    double elapsed;
    int bad = 0;
    if (!run->active)
        return 0;
    buffer.target = pgas_gptr_at(place, run->peer);
    opts.sync = &sync;
    opts.buffers = &buffer;
    opts.n_buffers = 1;
    begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        bad |= pgas_call_to(pgas_on_rank(run->peer), ping, NULL, 0, &opts);
        bad |= pgas_sync_wait(&sync, -1);
    }
    elapsed = bench_since(begin);
    if (bad)
        bench_die("a call with a buffer of %zu bytes failed", run->bytes);
    return elapsed;
}

/* Executed-completion: waits until the handler has run. */
static double call_executed(const bench_run_t *run)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    uint64_t begin;
    int bad = 0;
    if (!run->active)
        return 0;
    begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        bad |= pgas_call(run->peer, ping, args_block, run->bytes, &sync);
        bad |= pgas_sync_wait(&sync, -1);
    }
    if (bad)
        bench_die("a call of %zu bytes failed", run->bytes);
    double elapsed = bench_since(begin);
    return elapsed;
}

/* @return whether calls to such a slot are offered; it makes one such call to the caller's own rank
 * */
static pgas_status_t try_slot(const bench_run_t *run, int slot)
{
    return pgas_call_to(pgas_on_thread(pgas_thread_make(run->rank, slot)), echo, args_block, 1,
                        NULL);
}

static pgas_status_t has_threads(const bench_run_t *run)
{
    return try_slot(run, 0);
}

static pgas_status_t has_service(const bench_run_t *run)
{
    return try_slot(run, PGAS_SLOT_SERVICE);
}

#define REFS                                                                \
    { "limit", BENCH_MEMORY, ref_flags }, { "ucx", BENCH_UCX, ref_ucx_am }, \
    {                                                                       \
        "mpi", BENCH_MPI, ref_mpi_pingpong                                  \
    }

static const bench_case_t cases[] = {
    { .variant = "",
      .doc = "a call each way",
      .paths = BENCH_ANYWHERE,
      .ours = call_and_call,
      .refs = { REFS } },
    { .variant = "send",
      .doc = "a message each way",
      .paths = BENCH_ANYWHERE,
      .ours = message_and_message,
      .refs = { REFS } },
    { .variant = "thread",
      .doc = "a call each way, to a thread",
      .paths = BENCH_ANYWHERE,
      .ours = thread_and_thread,
      .refs = { REFS },
      .probe = has_threads },
    { .variant = "agg",
      .doc = "a gathered call each way, and pgas_agg_flush",
      .paths = BENCH_ANYWHERE,
      .ours = flush_and_flush,
      .refs = { REFS } },
    { .variant = "return",
      .doc = "pgas_call_return of up to 8 bytes, target in a barrier",
      .paths = BENCH_ANYWHERE,
      .ours = call_return,
      .refs = { REFS } },
    { .variant = "mirror",
      .doc = "pgas_call_return of all that went, target in a barrier",
      .paths = BENCH_ANYWHERE,
      .ours = call_mirror,
      .refs = { REFS } },
    { .variant = "executed",
      .doc = "pgas_call with completion when the handler has run, target in a barrier",
      .paths = BENCH_ANYWHERE,
      .ours = call_executed,
      .refs = { REFS } },
    { .variant = "remote",
      .doc = "pgas_call_to with completion when the call has arrived, target in a barrier",
      .paths = BENCH_ANYWHERE,
      .ours = call_completed,
      .refs = { REFS },
      .arg = PGAS_REMOTE },
    { .variant = "service",
      .doc =
          "pgas_call_to the service, with completion when the handler has run, target in a barrier",
      .paths = BENCH_ANYWHERE,
      .ours = call_service,
      .refs = { REFS },
      .arg = PGAS_EXECUTED,
      .probe = has_service },
    { .variant = "copy",
      .doc = "pgas_call_to with a buffer, copied, completion when the handler has run, target in a "
             "barrier",
      .paths = BENCH_ANYWHERE,
      .ours = call_buffer,
      .refs = { REFS },
      .arg = PGAS_BUFFER_COPY },
    { .variant = "push",
      .doc = "the same, pushed into the heap",
      .paths = BENCH_ANYWHERE,
      .ours = call_buffer,
      .refs = { REFS },
      .arg = PGAS_BUFFER_PUSH },
    { .variant = "pull",
      .doc = "the same, pulled from ordinary memory",
      .paths = BENCH_ANYWHERE,
      .ours = call_buffer,
      .refs = { REFS },
      .arg = PGAS_BUFFER_PULL },
};

static const bench_program_t program = { .name = "pgas_call_latency",
                                         .doc = "round trip of a remote call",
                                         .ranks = BENCH_PAIR,
                                         .label = "Round trip",
                                         .min_bytes = 1,
                                         .max_bytes = 8192,
                                         BENCH_CASES(cases),
                                         .prepare = prepare,
                                         .setup = setup,
                                         .teardown = teardown };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
