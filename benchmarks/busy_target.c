/* Latency of operations on a rank that computes for a second without calling the library. The
 * reference ("limit") is the same with the rank waiting in a barrier. There are pauses between
 * operations, so that the thread that serves them at the target sleeps when they arrive. The figure
 * is the median of a round. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <string.h>

static pgas_gptr_t words;
static pgas_handler_t echo;

static void run_echo(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    (void)pgas_reply(args, bytes);
}

static void prepare(void)
{
    bench_check(pgas_handler_register("bench.echo", run_echo, NULL, NULL, &echo),
                "pgas_handler_register");
}

static void setup(void)
{
    bench_check(pgas_alloc(64, &words), "pgas_alloc");
    memset(pgas_gptr_local(words, 64), 0, 64);
}

static void teardown(void)
{
    bench_check(pgas_free(words), "pgas_free");
}

static void fetch_add(const bench_run_t *run, int n)
{
    uint64_t old = 0;
    int bad = 0;
    for (int i = 0; i < n; i++)
        bad |= pgas_fetch_op_u64(pgas_gptr_at(words, run->peer), PGAS_ADD, 1, &old);
    if (bad)
        bench_die("a fetch-add failed");
}

static void put(const bench_run_t *run, int n)
{
    int bad = 0;
    for (int i = 0; i < n; i++) {
        bad |= pgas_put_u64(pgas_gptr_at(words, run->peer) + 8, (uint64_t)i);
        if (run->far)
            bad |= pgas_flush(run->peer);
    }
    if (bad)
        bench_die("a put failed");
}

static void get(const bench_run_t *run, int n)
{
    uint64_t value = 0;
    int bad = 0;
    for (int i = 0; i < n; i++) {
        bad |= pgas_get_u64(pgas_gptr_at(words, run->peer) + 8, &value);
        bench_use(value);
    }
    if (bad)
        bench_die("a get failed");
}

static void call(const bench_run_t *run, int n)
{
    uint64_t value = 1, reply = 0;
    for (int i = 0; i < n; i++)
        bench_check(pgas_call_return(run->peer, echo, &value, sizeof value, &reply, sizeof reply),
                    "pgas_call_return");
}

enum { FETCH_ADD, PUT, GET, CALL };

static double sample(const bench_run_t *run)
{
    static const struct {
        void (*op)(const bench_run_t *run, int n);
        int n_near; /* operations that are timed together on one node */
    } ops[] = { [FETCH_ADD] = { fetch_add, 1000 },
                [PUT] = { put, 1000 },
                [GET] = { get, 1000 },
                [CALL] = { call, 1 } };
    return bench_sample(run, ops[run->arg].op, run->far ? 1 : ops[run->arg].n_near);
}

static double while_busy(const bench_run_t *run)
{
    if (run->active)
        return sample(run);
    bench_compute(run->round_ms);
    return 0;
}

static double while_idle(const bench_run_t *run)
{
    return run->active ? sample(run) : 0;
}

#define OPERATION(NAME, KIND, DOC, ...)                                                   \
    {                                                                                     \
        .variant = NAME, .doc = DOC, .paths = BENCH_ANYWHERE, .metric = BENCH_VALUE,      \
        .ours = while_busy, .refs = { { "limit", BENCH_OURS, while_idle }, __VA_ARGS__ }, \
        .arg = KIND, .unit = "ns", .round_ms = 1000                                       \
    }

static const bench_case_t cases[] = {
    OPERATION("fadd", FETCH_ADD, "fetch-add", { "mpi", BENCH_MPI, ref_mpi_busy_atomic }),
    OPERATION("put", PUT, "put, visible at the target", { NULL, BENCH_OURS, NULL }),
    OPERATION("get", GET, "get", { NULL, BENCH_OURS, NULL }),
    OPERATION("call", CALL, "call with reply", { NULL, BENCH_OURS, NULL }),
};

static const bench_program_t program = { .name = "pgas_busy_target",
                                         .doc = "latency of operations on a rank that computes",
                                         .ranks = BENCH_PAIR,
                                         .label = "Latency",
                                         .min_bytes = 8,
                                         .max_bytes = 8,
                                         BENCH_CASES(cases),
                                         .prepare = prepare,
                                         .setup = setup,
                                         .teardown = teardown };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
