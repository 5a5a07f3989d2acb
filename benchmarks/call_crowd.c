/* Round trip of a call between two ranks that serve other ranks as well. Every other rank has
 * called both, so that they poll as many channels; they also poll the transport if one of the
 * others is on another node. The others wait, and sleep most of the time.
 *
 * Eight peers with channels, and a transport: mpirun -n 10 with PGAS_NODE_MAXSIZE=9. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

static pgas_handler_t step;
static volatile uint64_t n_steps;
static uint64_t n_known; /* round trips so far, equal at both ends */

static void run_step(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_steps++;
}

static void prepare(void)
{
    bench_check(pgas_handler_register("bench.step", run_step, NULL, NULL, &step),
                "pgas_handler_register");
}

/* Opens the channels. */
static void setup(void)
{
    uint64_t word = 0;
    for (int r = 0; r < pgas_n_ranks(); r++)
        bench_check(pgas_call(r, step, &word, sizeof word, NULL), "pgas_call");
    bench_check(pgas_quiesce(), "pgas_quiesce");
    n_known = n_steps;
}

static void await_step(uint64_t number)
{
    while (n_steps != number)
        pgas_progress();
}

static double there_and_back(const bench_run_t *run)
{
    uint64_t begin = bench_now();
    int bad = 0;
    if (run->peer < 0)
        return 0;
    for (uint64_t i = 0; i < run->iters; i++) {
        if (run->active)
            bad |= pgas_call(run->peer, step, &i, sizeof i, NULL);
        await_step(++n_known);
        if (!run->active)
            bad |= pgas_call(run->peer, step, &i, sizeof i, NULL);
    }
    if (bad)
        bench_die("a call failed");
    return run->active ? bench_since(begin) : 0;
}

static const bench_case_t cases[] = {
    { .variant = "",
      .doc = "a call each way",
      .paths = BENCH_ANYWHERE,
      .ours = there_and_back,
      .refs = { { "limit", BENCH_MEMORY, ref_flags } },
      .round_ms = 4 },
};

static const bench_program_t program = { .name = "pgas_call_crowd",
                                         .doc = "round trip of a call between two ranks of many",
                                         .ranks = BENCH_CROWD,
                                         .label = "Round trip",
                                         .min_bytes = 8,
                                         .max_bytes = 8,
                                         BENCH_CASES(cases),
                                         .prepare = prepare,
                                         .setup = setup };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
