/* Round trip of a call: the answer is a call of the handler's rank, or a reply. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <stdlib.h>

static pgas_handler_t ping, pong, echo;
static volatile uint64_t n_pings, n_pongs;
static char args_block[16384];

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

static void prepare(void)
{
    bench_check(pgas_handler_register("bench.ping", run_ping, NULL, &ping), "pgas_handler_register");
    bench_check(pgas_handler_register("bench.pong", run_pong, NULL, &pong), "pgas_handler_register");
    bench_check(pgas_handler_register("bench.echo", run_echo, NULL, &echo), "pgas_handler_register");
}

/* Both ranks wait by pgas_progress, as a program does that has nothing else to do. */
static double call_and_call(const bench_run_t *run)
{
    uint64_t pings = n_pings, pongs = n_pongs, begin;
    int bad = 0;
    bench_check(pgas_barrier(NULL), "pgas_barrier"); /* nobody calls before the other has looked at the counters */
    begin = bench_now();
    for (uint64_t i = 1; i <= run->iters; i++) {
        if (run->active) {
            bad |= pgas_call(run->peer, ping, args_block, run->bytes, NULL);
            while (n_pongs != pongs + i)
                pgas_progress();
        } else {
            while (n_pings != pings + i)
                pgas_progress();
            bad |= pgas_call(run->peer, pong, args_block, run->bytes, NULL);
        }
    }
    if (bad)
        bench_die("a call of %zu bytes failed", run->bytes);
    return run->active ? bench_since(begin) : 0;
}

/* The target waits in a barrier, the caller in the call; the reply has up to 8 bytes. */
static double call_return(const bench_run_t *run)
{
    uint64_t reply = 0, begin = bench_now();
    size_t reply_bytes = run->bytes < sizeof(reply) ? run->bytes : sizeof(reply);
    int bad = 0;
    if (!run->active)
        return 0;
    for (uint64_t i = 0; i < run->iters; i++)
        bad |= pgas_call_return(run->peer, echo, args_block, run->bytes, &reply, reply_bytes, NULL);
    if (bad)
        bench_die("a call with reply of %zu bytes failed", run->bytes);
    return bench_since(begin);
}

/* Executed-completion: waits until the handler has run. */
static double call_executed(const bench_run_t *run)
{
    pgas_sync_t sync;
    uint64_t begin;
    int bad = 0;
    if (!run->active)
        return 0;
    bench_check(pgas_sync_init(&sync, 0), "pgas_sync_init");
    begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        pgas_sync_add(&sync, 1);
        bad |= pgas_call(run->peer, ping, args_block, run->bytes, &sync);
        bad |= pgas_sync_wait(&sync, -1);
    }
    if (bad)
        bench_die("a call of %zu bytes failed", run->bytes);
    double elapsed = bench_since(begin);
    pgas_sync_fini(&sync);
    return elapsed;
}

#define REFS                                                            \
    {"limit", BENCH_MEMORY, ref_flags}, {"ucx", BENCH_UCX, ref_ucx_am}, \
    {                                                                   \
        "mpi", BENCH_MPI, ref_mpi_pingpong                              \
    }

static const bench_case_t cases[] = {
    {.variant = "", .doc = "a call each way", .paths = BENCH_ANYWHERE, .ours = call_and_call, .refs = {REFS}},
    {.variant = "return",
     .doc = "pgas_call_return, target in a barrier",
     .paths = BENCH_ANYWHERE,
     .ours = call_return,
     .refs = {REFS}},
    {.variant = "executed",
     .doc = "pgas_call with completion when the handler has run, target in a barrier",
     .paths = BENCH_ANYWHERE,
     .ours = call_executed,
     .refs = {REFS}},
};

static const bench_program_t program = {.name = "pgas_call_latency",
                                        .doc = "round trip of a remote call",
                                        .ranks = BENCH_PAIR,
                                        .label = "Round trip",
                                        .min_bytes = 1,
                                        .max_bytes = 8192,
                                        .cases = cases,
                                        .n_cases = sizeof(cases) / sizeof(cases[0]),
                                        .prepare = prepare};

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
