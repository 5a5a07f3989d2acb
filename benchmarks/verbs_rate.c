/* Rate of messages through one queue pair of the program's own, and the cost of selective
 * signaling. auto: a transmitter chooses the requests that are signaled. manual: the loop counts by
 * hand. signaled: every request is signaled. limit: a queue that was written once and runs again
 * and again. Sends, as in the first figure of Seriema's paper, and writes. */
#include "benchmarks/verbs_work.h"

static double timed(void (*post)(pgas_verbs_op_t op, size_t bytes, uint64_t n),
                    const bench_run_t *run)
{
    pgas_verbs_op_t op = (pgas_verbs_op_t)run->arg;
    post(op, run->bytes, VERBS_INTERVAL); /* opened, and the queue written */
    uint64_t begin = bench_now();
    post(op, run->bytes, run->iters);
    double ns = bench_since(begin);
    if (op != PGAS_VERBS_NOP && !verbs_arrived(op, run->bytes))
        bench_die("%zu bytes have not arrived", run->bytes);
    return ns;
}

static double run_auto(const bench_run_t *run)
{
    return timed(verbs_post_auto, run);
}

static double run_manual(const bench_run_t *run)
{
    return timed(verbs_post_manual, run);
}

static double run_signaled(const bench_run_t *run)
{
    return timed(verbs_post_signaled, run);
}

static double run_limit(const bench_run_t *run)
{
    return timed(verbs_post_limit, run);
}

static pgas_status_t probe_chains(const bench_run_t *run)
{
    (void)run;
    return verbs_has_chains() ? PGAS_OK : PGAS_ERR_UNSUPPORTED;
}

/* The completions of our loop. Each way has a count of its own, because references may have run
 * meanwhile. */
static int count_completions(const bench_case_t *c, bench_figure_t *figure)
{
    verbs_way_t way = VERBS_LIMIT;
    if (c->ours == run_auto)
        way = VERBS_AUTO;
    else if (c->ours == run_manual)
        way = VERBS_MANUAL;
    else if (c->ours == run_signaled)
        way = VERBS_SIGNALED;
    double n = verbs_completions(way);
    *figure = (bench_figure_t){ "completions", "per 32 messages", false, n, n, n };
    return 1;
}

#define REFERENCES                                                                      \
    {                                                                                   \
        { "manual", BENCH_OURS, run_manual }, { "signaled", BENCH_OURS, run_signaled }, \
        {                                                                               \
            "limit", BENCH_OURS, run_limit                                              \
        }                                                                               \
    }
#define CASE(VARIANT, DOC, OP, OURS)                                                             \
    .variant = VARIANT, .doc = DOC, .paths = BENCH_ANYWHERE, .metric = BENCH_RATE, .ours = OURS, \
    .arg = OP, .bandwidth = true

static bench_case_t cases[] = {
    { CASE("auto", "sends, the transmitter signals by itself", PGAS_VERBS_SEND, run_auto),
      .refs = REFERENCES },
    { CASE("manual", "sends, one of 32 is signaled by hand", PGAS_VERBS_SEND, run_manual) },
    { CASE("signaled", "sends, each signaled and polled for", PGAS_VERBS_SEND, run_signaled) },
    { CASE("limit", "sends, written once and run again and again", PGAS_VERBS_SEND, run_limit),
      .probe = probe_chains },
    { CASE("write-auto", "writes, the transmitter signals by itself", PGAS_VERBS_WRITE, run_auto),
      .refs = REFERENCES },
    { CASE("write-manual", "writes, one of 32 is signaled by hand", PGAS_VERBS_WRITE, run_manual) },
    { CASE("write-signaled", "writes, each signaled and polled for", PGAS_VERBS_WRITE,
           run_signaled) },
    { CASE("write-limit", "writes, written once and run again and again", PGAS_VERBS_WRITE,
           run_limit),
      .probe = probe_chains },
    { .variant = "engine-nop",
      .doc = "entries that do nothing, written once",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_RATE,
      .ours = run_limit,
      .arg = PGAS_VERBS_NOP,
      .no_sizes = true,
      .probe = probe_chains },
    { .variant = "engine-write",
      .doc = "writes of 8 bytes, written once",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_RATE,
      .ours = run_limit,
      .arg = PGAS_VERBS_WRITE,
      .min_bytes = 8,
      .max_bytes = 8,
      .probe = probe_chains },
};
#define N_CASES (sizeof cases / sizeof cases[0])

static void setup(void)
{
    verbs_open();
    for (size_t i = 0; i < N_CASES && !verbs_has_chains(); i++) {
        for (int k = 0; k < BENCH_REFS_MAX; k++)
            if (cases[i].refs[k].loop == run_limit)
                cases[i].refs[k] = (bench_ref_t){ 0 }; /* the last one */
    }
}

static void teardown(void)
{
    verbs_loops_end();
    verbs_close();
}

static const bench_program_t program = {
    .name = "pgas_verbs_rate",
    .doc = "rate of messages through a queue pair, signaled by the transmitter or by the caller",
    .ranks = BENCH_ALONE,
    .label = "Rate",
    .min_bytes = 8,
    .max_bytes = VERBS_BYTES_MAX,
    .cases = cases,
    .n_cases = N_CASES,
    .setup = setup,
    .teardown = teardown,
    .granule = VERBS_INTERVAL,
    .paper_iters = 131072,
    .paper_rounds = 5,
    .figures = count_completions,
    .options = verbs_options,
    .path = verbs_path,
    .about = verbs_about
};

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
