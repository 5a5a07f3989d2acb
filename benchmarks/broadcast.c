/* Broadcast of a call: from the root's call until the root knows that the handler has run on every
 * rank.
 *
 * The reference is MPI_Bcast and a reduction of one byte, by which the root knows that all ranks
 * have the data. The other ranks wait in the library's barrier. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"
#include "pgas/call.h"

#include <string.h>

#define ARGS_MAX 4096

static const size_t sizes[] = { 8, 64, 512, ARGS_MAX, 0 };
static pgas_handler_t take;
static volatile uint64_t n_taken;
static char args_block[ARGS_MAX];

/* Uses the first word. */
static void run_take(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t word;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&word, args, sizeof word);
    bench_use(word);
    n_taken++;
}

static void prepare(void)
{
    bench_check(pgas_handler_register("bench.take", run_take, NULL, NULL, &take),
                "pgas_handler_register");
}

static int call_each(size_t bytes, pgas_sync_t *sync)
{
    int bad = 0, n = pgas_n_ranks();
    for (int i = 1; i <= n; i++) /* its own rank last */
        bad |= pgas_call((pgas_rank() + i) % n, take, args_block, bytes, sync);
    return bad;
}

static int call_tree(size_t bytes, pgas_sync_t *sync)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = sync;
    opts.when = PGAS_EXECUTED;
    return pgas_call_to(pgas_on_team(NULL), take, args_block, bytes, &opts);
}

static double until_all_ran(const bench_run_t *run,
                            int (*call_all)(size_t bytes, pgas_sync_t *sync))
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    uint64_t begin, taken = n_taken;
    double elapsed;
    int bad = 0;
    if (run->rank != 0)
        return 0;
    begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        bad |= call_all(run->bytes, &sync);
        bad |= pgas_sync_wait(&sync, -1);
    }
    elapsed = bench_since(begin);
    if (bad || n_taken != taken + run->iters)
        bench_die("a broadcast of %zu bytes failed", run->bytes);
    return elapsed;
}

static double flat(const bench_run_t *run)
{
    return until_all_ran(run, call_each);
}

static double tree(const bench_run_t *run)
{
    return until_all_ran(run, call_tree);
}

static const bench_case_t cases[] = {
    { .variant = "tree",
      .doc = "pgas_call_to on a team",
      .paths = BENCH_ANYWHERE,
      .ours = tree,
      .refs = { { "mpi", BENCH_MPI, ref_mpi_bcast_known } } },
    { .variant = "flat",
      .doc = "the root calls each rank itself",
      .paths = BENCH_ANYWHERE,
      .ours = flat,
      .refs = { { "mpi", BENCH_MPI, ref_mpi_bcast_known } } },
};

static const bench_program_t program = {
    .name = "pgas_broadcast",
    .doc = "a call to all ranks, until the root knows that it has run everywhere",
    .ranks = BENCH_TWO_UP,
    .label = "To the last",
    .min_bytes = 8,
    .max_bytes = ARGS_MAX,
    BENCH_CASES(cases),
    .prepare = prepare,
    .sizes = sizes
};

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
