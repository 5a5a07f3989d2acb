/* The run of a benchmark: cases x sizes x interleaved rounds.
 *
 * The harness grows the number of iterations of a loop until a round takes half a millisecond. This
 * also warms caches, endpoints and branch predictors. All ranks agree on the number, because each
 * of them counts messages. A round is shorter than a time slice on purpose: on a shared machine a
 * round is either disturbed or not, and the median drops the disturbed rounds. Ranks are bound to
 * cores after pgas_init, so that the library's service threads may run anywhere. */
#include "benchmarks/bench.h"
#include "benchmarks/options.h"
#include "benchmarks/print.h"
#include "benchmarks/ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL_ROUNDS_MS 400.0
#define ITERS_FIRST   8
#define WARM_UP       64
#define PAPER_WARM_UP 100000
#define ITERS_MAX     (UINT64_C(1) << 32)
#define BENCH_LANES   4 /* the default of PGAS_LANES */

/* ---- one loop ---- */

typedef struct {
    const char *name; /* NULL: the loop under test */
    bench_kind_t kind;
    bench_loop_fn_t loop;
    uint64_t iters;
    double *values;
    double *ratios; /* ours over theirs, per round */
} side_t;

static void meet(const side_t *side)
{
    if (!bench_is_alone())
        ref_meet(side->kind);
}

/* The time of one round, agreed on by all ranks: that of the slowest, or the average. A few
 * operations run first, because the caches hold the data of the other side. */
static double run_once(const side_t *side, const bench_case_t *c, bench_run_t *run)
{
    double mine, agreed = 0;
    if (c->metric != BENCH_VALUE) {
        run->iters = side->iters < WARM_UP ? side->iters : WARM_UP;
        meet(side);
        (void)side->loop(run);
    }
    run->iters = side->iters;
    meet(side);
    mine = side->loop(run);
    meet(side);
    if (bench_is_alone())
        return mine;
    bench_check(pgas_allreduce(NULL, &mine, &agreed, 1, PGAS_F64, c->average ? PGAS_ADD : PGAS_MAX),
                "pgas_allreduce");
    return c->average ? agreed / run->n_ranks : agreed;
}

static double to_value(const bench_case_t *c, const bench_run_t *run, double ns)
{
    double ops = (double)run->iters, together = 1;
    if (c->metric == BENCH_VALUE)
        return ns;
    if (ns < 1)
        ns = 1;
    if (bench_prog->ranks == BENCH_CROWD)
        together = 1;
    else if (bench_prog->ranks == BENCH_PAIR || bench_prog->ranks == BENCH_PAIRS)
        together = c->both_ways ? run->n_ranks : run->n_ranks / 2;
    else
        together = run->n_ranks;
    switch (c->metric) {
    case BENCH_LATENCY:
        return ns / ops;
    case BENCH_BANDWIDTH:
        return ops * together * (double)run->bytes * 1e3 / ns;
    case BENCH_RATE:
        return ops * together * 1e3 / ns;
    case BENCH_RATE_MS:
        return ops * together * 1e6 / ns;
    case BENCH_RATE_MS_EACH:
        return ops * 1e6 / ns;
    default:
        return ops * 1e3 / ns;
    }
}

static bool higher_is_better(const bench_case_t *c)
{
    return c->metric == BENCH_VALUE ? c->higher : c->metric != BENCH_LATENCY;
}

static double round_ms_of(const bench_case_t *c)
{
    if (bench_opt.round_ms > 0)
        return bench_opt.round_ms;
    return c->round_ms > 0 ? c->round_ms : BENCH_ROUND_MS;
}

/* The fastest of a few rounds, so that one disturbed round does not end the growth. */
static double best_of(const side_t *side, const bench_case_t *c, bench_run_t *run, int tries)
{
    double best = run_once(side, c, run);
    for (int i = 1; i < tries; i++) {
        double ns = run_once(side, c, run);
        best = ns < best ? ns : best;
    }
    return best;
}

static uint64_t whole_granules(uint64_t iters)
{
    uint64_t n = bench_prog->granule ? bench_prog->granule : 1;
    return (iters + n - 1) / n * n;
}

static uint64_t paper_iters(const bench_case_t *c, const bench_run_t *run)
{
    if (bench_opt.iters)
        return bench_opt.iters;
    return bench_prog->paper_iters_of ? bench_prog->paper_iters_of(c, run)
                                      : bench_prog->paper_iters;
}

/* Grows the number of iterations until a round takes its time. */
static void calibrate(side_t *side, const bench_case_t *c, bench_run_t *run)
{
    double want = round_ms_of(c) * 1e6, grow = 16;
    if (c->metric == BENCH_VALUE) {
        side->iters = 1;
        return;
    }
    if (bench_opt.paper) {
        side->iters = PAPER_WARM_UP;
        (void)run_once(side, c, run);
        side->iters = whole_granules(paper_iters(c, run));
        return;
    }
    side->iters = whole_granules(bench_opt.iters ? bench_opt.iters : ITERS_FIRST);
    while (!bench_opt.iters && grow > 1.5 && side->iters < ITERS_MAX) {
        double ns = best_of(side, c, run, 3);
        grow = ns * 16 > want ? want / ns : 16;
        if (grow > 1.5)
            side->iters = whole_granules((uint64_t)((double)side->iters * grow));
    }
    (void)run_once(side, c, run);
}

/* Long rounds are fewer. */
static int rounds_of(const bench_case_t *c)
{
    double n = ALL_ROUNDS_MS / round_ms_of(c);
    if (bench_opt.rounds)
        return bench_opt.rounds;
    if (bench_opt.paper)
        return bench_paper_rounds();
    if (n < BENCH_ROUNDS_MIN)
        return BENCH_ROUNDS_MIN;
    return n > BENCH_ROUNDS ? BENCH_ROUNDS : (int)n;
}

/* ---- one size, one case ---- */

static void measure_size(const bench_case_t *c, side_t *side, int n_sides, bench_run_t *run,
                         print_row_t *row)
{
    int rounds = rounds_of(c);
    for (int s = 0; s < n_sides; s++)
        calibrate(&side[s], c, run);
    for (int i = 0; i < rounds; i++) {
        for (int s = 0; s < n_sides; s++) {
            side[s].values[i] = to_value(c, run, run_once(&side[s], c, run));
            side[s].ratios[i] = side[0].values[i] / side[s].values[i];
        }
    }
    for (int s = 0; s < n_sides; s++) {
        row->side[s] = bench_statistics(side[s].values, rounds);
        row->ratio[s] = bench_statistics(side[s].ratios, rounds).median;
    }
    row->bytes = run->bytes;
    row->iters = side[0].iters;
}

static bool open_side(bench_kind_t kind)
{
    static const char *const names[BENCH_KINDS] = { [BENCH_OURS] = "the library",
                                                    [BENCH_MEMORY] = "shared memory",
                                                    [BENCH_RAW] = "plain pointers",
                                                    [BENCH_UCX] = "UCX",
                                                    [BENCH_MPI] = "MPI" };
    static bool tried[BENCH_KINDS], can[BENCH_KINDS];
    if (!tried[kind]) {
        tried[kind] = true;
        can[kind] = ref_open(kind);
        if (!can[kind])
            bench_say("references over %s cannot run here", names[kind]);
    }
    return can[kind];
}

static int choose_sides(const bench_case_t *c, side_t *side, print_head_t *head)
{
    int n = 1;
    side[0] = (side_t){ .kind = BENCH_OURS, .loop = c->ours };
    head->name[0] = "";
    for (int i = 0; bench_opt.compare && i < BENCH_REFS_MAX && c->refs[i].name; i++) {
        if (c->refs[i].loop && open_side(c->refs[i].kind)) {
            side[n] = (side_t){ .name = c->refs[i].name,
                                .kind = c->refs[i].kind,
                                .loop = c->refs[i].loop };
            head->name[n++] = c->refs[i].name;
        }
    }
    for (int s = 0; s < n; s++) {
        side[s].values = calloc(BENCH_ROUNDS_MAX, sizeof(double));
        side[s].ratios = calloc(BENCH_ROUNDS_MAX, sizeof(double));
        if (!side[s].values || !side[s].ratios)
            bench_die("out of memory");
    }
    return n;
}

static void print_missing(const bench_case_t *c, const print_head_t *head)
{
    for (int i = 0; bench_opt.compare && i < BENCH_REFS_MAX && c->refs[i].name; i++)
        if (!c->refs[i].loop)
            print_skipped(head, c->refs[i].name);
}

static const char *unit_of(const bench_case_t *c)
{
    static const char *const units[] = { "ns", "MB/s", "M/s", "M/s", "1/ms", "1/ms", "" };
    return c->unit ? c->unit : units[c->metric];
}

/* A million messages of n bytes in a second are n MB/s. */
static void print_bandwidth(const print_head_t *head, const print_row_t *row)
{
    double bytes = (double)row->bytes;
    const bench_figure_t figure = { .name = "bandwidth",
                                    .unit = "MB/s",
                                    .higher = true,
                                    .median = row->side[0].median * bytes,
                                    .min = row->side[0].min * bytes,
                                    .max = row->side[0].max * bytes };
    print_figures(head, row->bytes, &figure, 1);
}

/* Cases of the program that are done, and how many the user wants. */
static int n_done, n_wanted;

static void show_progress(const print_head_t *head, size_t bytes)
{
    char note[80];
    int n = snprintf(note, sizeof note, "%s", head->path);
    if (bytes > 0)
        snprintf(note + n, sizeof note - (size_t)n, ", %zu bytes", bytes);
    pgas_progress_show(bench_prog->name, (uint64_t)n_done, (uint64_t)n_wanted, note);
}

static void run_case(const bench_case_t *c, const char *path, bench_run_t *run)
{
    side_t side[1 + BENCH_REFS_MAX];
    bench_figure_t figure[BENCH_FIGURES_MAX];
    print_head_t head = { .bench = bench_prog->name,
                          .label = bench_prog->label,
                          .size_label = bench_prog->size_label ? bench_prog->size_label : "Size",
                          .doc = c->doc,
                          .unit = unit_of(c),
                          .higher = higher_is_better(c),
                          .full = bench_opt.full,
                          .json = bench_opt.json,
                          .lines = bench_prog->archive_bytes != NULL };
    print_row_t row = { 0 };
    size_t low, high;
    int n_sides = choose_sides(c, side, &head);
    snprintf(head.path, sizeof head.path, "%s%s%s", path, *path && *c->variant ? "-" : "",
             c->variant);
    head.n_sides = n_sides;
    run->arg = c->arg;
    run->active = run->peer < 0 || c->both_ways || run->rank < run->n_ranks / 2;
    if (bench_prog->ranks == BENCH_CROWD)
        run->active = run->rank == 0;
    run->round_ms = round_ms_of(c);
    bench_choose_sizes(c, &low, &high);
    if (run->rank == 0 && low <= high)
        print_case(&head);
    for (size_t bytes = low; bytes <= high; bytes = bytes ? bench_size_from(2 * bytes) : 1 + high) {
        run->bytes = bytes;
        show_progress(&head, bytes);
        measure_size(c, side, n_sides, run, &row);
        if (run->rank != 0)
            continue;
        for (int s = 0; bench_prog->archive_bytes && s < n_sides; s++)
            row.archive_bytes[s] = bench_prog->archive_bytes(c, head.name[s]);
        print_row(&head, &row);
        for (int s = 0; bench_prog->result && s < n_sides; s++)
            bench_prog->result(c, bytes, head.name[s], row.side[s].median, row.ratio[s]);
        if (c->bandwidth)
            print_bandwidth(&head, &row);
        if (bench_prog->figures)
            print_figures(&head, bytes, figure, bench_prog->figures(c, figure));
    }
    if (run->rank == 0)
        print_missing(c, &head);
    for (int s = 0; s < n_sides; s++) {
        free(side[s].values);
        free(side[s].ratios);
    }
}

/* The library offers what the case needs, on all ranks. */
static bool is_offered(const bench_case_t *c, const bench_run_t *run)
{
    int32_t mine, worst;
    if (!c->probe)
        return true;
    worst = mine = c->probe(run);
    if (!bench_is_alone())
        bench_check(pgas_allreduce(NULL, &mine, &worst, 1, PGAS_I32, PGAS_MIN), "pgas_allreduce");
    if (worst != PGAS_OK)
        bench_say("%s: left out: %s", c->variant, pgas_status_text(worst));
    return worst == PGAS_OK;
}

static const char *provider_in(const char *line)
{
    if (strstr(line, "provider snic"))
        return "snic";
    return strstr(line, "provider mlx5") ? "mlx5" : "verbs";
}

/* pgas_info_print names what the library uses between nodes: "ucx", or "verbs" and the provider
 * that opened the device. */
static const char *path_between_nodes(const bench_run_t *run)
{
    char *text = NULL, *line;
    size_t bytes;
    const char *path = NULL;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        bench_die("out of memory");
    bench_check(pgas_info_print(stream, NULL), "pgas_info_print");
    fclose(stream);
    line = strstr(text, "in use between nodes: verbs");
    if (line) {
        line[strcspn(line, "\n")] = '\0';
        path = provider_in(line);
    }
    free(text);
    if (path)
        return path;
    return ref_ucx_path(run->peer >= 0 ? run->peer : (run->rank + 1) % run->n_ranks);
}

/* The first word of the cases' names. */
static const char *path_of(const bench_run_t *run)
{
    if (bench_is_alone())
        return bench_prog->path ? bench_prog->path() : "";
    return run->far ? path_between_nodes(run) : "node";
}

static const char *place_of(const bench_run_t *run)
{
    if (bench_is_alone())
        return "on this device";
    return run->far ? "between nodes" : "on one node";
}

static int run_cases(bench_run_t *run)
{
    int n_run = 0;
    const char *path = path_of(run);
    if (run->rank == 0 && !bench_opt.json) {
        print_title(bench_prog->name);
        if (bench_is_alone())
            printf("# %s\n", bench_prog->about());
        else
            printf("# Ranks: %d, nodes: %d\n", run->n_ranks, pgas_n_nodes());
    }
    unsigned paths = run->far ? BENCH_FAR : BENCH_NODE;
    for (int i = 0; i < bench_prog->n_cases; i++)
        n_wanted += bench_is_wanted(&bench_prog->cases[i]) && (bench_prog->cases[i].paths & paths);
    for (int i = 0; i < bench_prog->n_cases; i++) {
        const bench_case_t *c = &bench_prog->cases[i];
        if (!bench_is_wanted(c) || !(c->paths & paths))
            continue;
        if (is_offered(c, run)) {
            run_case(c, path, run);
            n_run++;
        }
        n_done++;
    }
    pgas_progress_show(NULL, 0, 0, NULL);
    if (bench_prog->finish)
        bench_prog->finish(run, bench_opt.json);
    if (n_run == 0)
        bench_say("none of these cases can run %s", place_of(run));
    return n_run > 0 ? 0 : 1;
}

/* ---- main ---- */

static const char *wanted_ranks(void)
{
    switch (bench_prog->ranks) {
    case BENCH_PAIR:
        return "exactly two";
    case BENCH_PAIRS:
        return "an even number";
    default:
        return "at least two";
    }
}

static bool describe_ranks(bench_run_t *run)
{
    bool pairs = bench_prog->ranks == BENCH_PAIR || bench_prog->ranks == BENCH_PAIRS;
    int32_t far, any_far = 0;
    run->rank = pgas_rank();
    run->n_ranks = pgas_n_ranks();
    run->n_threads = 1;
    run->team = bench_opt.threads;
    run->paper = bench_opt.paper;
    if ((bench_prog->ranks == BENCH_PAIR && run->n_ranks != 2) ||
        (pairs && run->n_ranks % 2 != 0) ||
        ((bench_prog->ranks == BENCH_TWO_UP || bench_prog->ranks == BENCH_CROWD) &&
         run->n_ranks < 2)) {
        bench_say("started with %d rank%s, needs %s: mpirun -n 2", run->n_ranks,
                  run->n_ranks == 1 ? "" : "s", wanted_ranks());
        return false;
    }
    run->peer = pairs ? (run->rank + run->n_ranks / 2) % run->n_ranks : -1;
    if (bench_prog->ranks == BENCH_CROWD)
        run->peer = run->rank < 2 ? 1 - run->rank : -1;
    far = run->peer >= 0 ? pgas_node_of(run->peer) != pgas_node()
                         : pgas_n_nodes() > 1 && bench_prog->ranks != BENCH_CROWD;
    bench_check(pgas_allreduce(NULL, &far, &any_far, 1, PGAS_I32, PGAS_MAX), "pgas_allreduce");
    run->far = any_far != 0;
    return true;
}

/* Without MPI and without pgas_init. */
static int run_alone(void)
{
    bench_run_t run = { .n_ranks = 1,
                        .peer = -1,
                        .n_threads = 1,
                        .team = bench_opt.threads,
                        .paper = bench_opt.paper };
    if (bench_prog->setup)
        bench_prog->setup();
    int status = run_cases(&run);
    if (bench_prog->teardown)
        bench_prog->teardown();
    return status;
}

/* The most threads of a rank in the cases that the user wants. */
static int most_threads(void)
{
    int most = 1;
    for (int i = 0; i < bench_prog->n_cases; i++) {
        const bench_case_t *c = &bench_prog->cases[i];
        if (bench_is_wanted(c) && c->threads > most)
            most = c->threads;
    }
    return most;
}

/* Starts the library with a context for each thread. */
static void start_library(int n_threads)
{
    pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
    char params[32];
    snprintf(params, sizeof params, "LANES=%d", n_threads);
    if (n_threads > BENCH_LANES)
        opts.params = params;
    bench_check(pgas_init(NULL, &opts), "pgas_init");
}

int bench_main(const bench_program_t *program, int argc, char **argv)
{
    bench_run_t run = { 0 };
    int status;
    bench_prog = program;
    status = bench_parse_options(argc, argv);
    if (status >= 0)
        return status;
    if (bench_is_alone())
        return run_alone();
    ref_mpi_begin(&argc, &argv, most_threads() > 1);
    if (bench_prog->prepare)
        bench_prog->prepare();
    start_library(most_threads());
    status = BENCH_EXIT_USAGE;
    if (describe_ranks(&run)) {
        bench_take_core(run.rank, run.n_ranks);
        if (bench_prog->setup)
            bench_prog->setup();
        status = bench_prog->run ? bench_prog->run(&run) : run_cases(&run);
        bench_team_end();
        if (bench_prog->teardown)
            bench_prog->teardown();
        ref_close_all();
    }
    bench_check(pgas_finalize(), "pgas_finalize");
    ref_mpi_end();
    return status;
}
