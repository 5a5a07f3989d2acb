/* Monte-Carlo tree search of Hex from the empty board, as in the third figure of Seriema's paper:
 * children placed at random, by hash or near; gathered or overflowing calls; one or sixteen
 * playouts a rollout. A round is a search of a fixed number of rollouts with a new tree, on all
 * ranks together. The rate counts visits of the root, one for each rollout, so that it can be
 * compared. The paper counts visits of all nodes and adds completions, which are rollouts reported:
 * these are the figures nodes and steps. (The paper also counts each rollout as often as it has
 * playouts, sixteen times.)
 *
 * There are two references. One is the bare playouts of such a rollout, on one thread of each rank.
 * The other is a plain lock-free tree in shared memory (ref_tree.c): one in each rank, with as many
 * threads as the library has there. In the cases threads-* the reference is the same search with
 * one thread a rank. One rank runs the same code as many ranks; benchmarks/ratios has the gain of
 * many. */
#include "benchmarks/bench.h"
#include "benchmarks/ref_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_MS   300
#define TREE_BYTES ((size_t)1 << 30)
#define COPY_BYTES ((size_t)16 << 20)
#define COPIES     16
#define KEPT       5 /* rounds of which figures are kept */

/* A case as a number: how calls go, where children live, playouts, threads. */
enum {
    TRAD = 0,
    OVFL = 1,
    RANDOM = 0 << 1,
    HASH = 1 << 1,
    NEAR = 2 << 1,
    ONE = 1 << 3,
    CHOSEN = 2 << 3,
    THREADS = 1 << 5
};

static pgas_mcts_opts_t chosen = PGAS_MCTS_OPTS_INIT; /* by options */
static int board_size = 11, chosen_playouts = 4;
static pgas_hex_t board;
static cpu_set_t all_cores;

/* The objects of one case. */
static struct {
    int arg;
    pgas_mcts_t *mcts[2]; /* one thread; --threads of them */
    ref_tree_t *tree;
} now;

static int playouts_of(int arg)
{
    if (arg & ONE)
        return 1;
    return arg & CHOSEN ? chosen_playouts : 16;
}

static int threads_of(const bench_run_t *run)
{
    return run->arg & THREADS ? run->team : 1;
}

/* ---- figures ---- */

enum { NODES, STEPS, REMOTE, DEFERRED, COMBINED, SHARED, IMBALANCE, N_FIGURES };
static struct {
    uint64_t iters, n; /* length of the rounds kept: the longest so far */
    double value[N_FIGURES][KEPT];
} kept;

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

/* Rounds that only warm up are shorter. */
static void keep_figures(const bench_run_t *run, pgas_mcts_t *mcts, double ns)
{
    pgas_mcts_info_t stats = { .size = sizeof stats };
    uint64_t slot;
    bench_check(pgas_mcts_info(mcts, &stats), "pgas_mcts_info");
    if (run->iters < kept.iters)
        return;
    if (run->iters > kept.iters)
        kept.n = 0;
    kept.iters = run->iters;
    slot = kept.n++ % KEPT;
    kept.value[NODES][slot] = (double)(stats.selections + stats.final_states) * 1e6 / ns;
    kept.value[STEPS][slot] =
        (double)(stats.selections + stats.final_states + stats.rollouts) * 1e6 / ns;
    kept.value[REMOTE][slot] = percent(stats.remote, stats.selections);
    kept.value[DEFERRED][slot] = percent(stats.deferred, stats.selections);
    kept.value[COMBINED][slot] = percent(stats.combined, stats.reports);
    kept.value[SHARED][slot] = percent(stats.shared, stats.rollouts);
    kept.value[IMBALANCE][slot] = stats.imbalance;
}

static int list_figures(const bench_case_t *c, bench_figure_t *figure)
{
    static const bench_figure_t figures[N_FIGURES] = {
        [NODES] = { .name = "nodes", .unit = "visits of nodes/ms", .higher = true },
        [STEPS] = { .name = "steps", .unit = "(completions+visits)/ms", .higher = true },
        [REMOTE] = { .name = "remote", .unit = "% of steps down" },
        [DEFERRED] = { .name = "deferred", .unit = "% of steps down" },
        [COMBINED] = { .name = "combined", .unit = "% of reports", .higher = true },
        [SHARED] = { .name = "shared", .unit = "% of simulations" },
        [IMBALANCE] = { .name = "imbalance", .unit = "busiest thread over mean" }
    };
    int n = kept.n < KEPT ? (int)kept.n : KEPT;
    if (n == 0 || c->metric != BENCH_RATE_MS)
        return 0;
    for (int i = 0; i < N_FIGURES; i++) {
        figure[i] = figures[i];
        bench_sort(kept.value[i], (size_t)n);
        figure[i].min = kept.value[i][0];
        figure[i].median = kept.value[i][n / 2];
        figure[i].max = kept.value[i][n - 1];
    }
    return N_FIGURES;
}

/* ---- loops ---- */

static void close_case(void)
{
    for (int i = 0; i < 2; i++)
        bench_check(pgas_mcts_destroy(now.mcts[i]), "pgas_mcts_destroy");
    ref_tree_destroy(now.tree);
    memset(&now, 0, sizeof now);
    memset(&kept, 0, sizeof kept);
    now.arg = -1;
}

static void open_case(const bench_run_t *run)
{
    if (now.arg == run->arg)
        return;
    close_case();
    now.arg = run->arg;
}

/* The main thread is bound to a core. The threads that it starts move to other cores, if there are
 * any. */
static void other_cores(cpu_set_t *bound, cpu_set_t *others)
{
    (void)sched_getaffinity(0, sizeof *bound, bound);
    CPU_XOR(others, &all_cores, bound);
    CPU_AND(others, others, &all_cores);
    if (CPU_COUNT(others) == 0)
        *others = all_cores;
}

static pgas_mcts_t *search_of(int arg, int n_threads)
{
    static const pgas_mcts_place_t places[] = { PGAS_MCTS_RANDOM, PGAS_MCTS_HASH, PGAS_MCTS_NEAR };
    pgas_mcts_opts_t opts = chosen;
    pgas_mcts_t **mcts = &now.mcts[n_threads > 1];
    cpu_set_t bound, others;
    if (*mcts)
        return *mcts;
    opts.n_threads = n_threads;
    opts.playouts = playouts_of(arg);
    opts.style = arg & OVFL ? PGAS_AGG_OVERFLOW : PGAS_AGG_TRAD;
    opts.place = places[arg >> 1 & 3];
    other_cores(&bound, &others);
    (void)sched_setaffinity(0, sizeof others, &others); /* its threads begin with this */
    bench_check(pgas_mcts_create(pgas_hex_spec(board_size), &opts, mcts), "pgas_mcts_create");
    (void)sched_setaffinity(0, sizeof bound, &bound);
    return *mcts;
}

/* run->iters are those of each rank. */
static double search(const bench_run_t *run, int n_threads, bool keeps)
{
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_mcts_result_t info = { .size = sizeof info };
    pgas_mcts_t *mcts;
    uint64_t begin;
    double ns;
    open_case(run);
    mcts = search_of(run->arg, n_threads);
    bench_check(pgas_mcts_set_state(mcts, &board), "pgas_mcts_set_state");
    budget.rollouts = run->iters * (uint64_t)run->n_ranks;
    budget.even_if_proven = true;
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    begin = bench_now();
    bench_check(pgas_mcts_search(mcts, &budget, &info), "pgas_mcts_search");
    ns = bench_since(begin);
    if (info.lost != 0 || info.rollouts < budget.rollouts)
        bench_die("%llu rollouts of %llu, %llu lost", (unsigned long long)info.rollouts,
                  (unsigned long long)budget.rollouts, (unsigned long long)info.lost);
    if (keeps)
        keep_figures(run, mcts, ns);
    return ns * (double)budget.rollouts / (double)info.rollouts;
}

static double ours(const bench_run_t *run)
{
    return search(run, threads_of(run), true);
}

static double one_thread(const bench_run_t *run)
{
    return search(run, 1, false);
}

static double bare_playouts(const bench_run_t *run)
{
    static uint64_t seed;
    uint64_t begin = bench_now();
    bench_use(ref_hex_games(&board, run->iters, playouts_of(run->arg), ++seed));
    return bench_since(begin);
}

static double shared_tree(const bench_run_t *run)
{
    uint64_t begin;
    cpu_set_t bound, others;
    open_case(run);
    other_cores(&bound, &others);
    if (!now.tree)
        now.tree = ref_tree_create(&board, threads_of(run), playouts_of(run->arg), TREE_BYTES,
                                   bench_seed(run->rank));
    if (!now.tree)
        bench_die("no memory for the tree of the reference");
    ref_tree_clear(now.tree);
    begin = bench_now();
    if (ref_tree_search(now.tree, run->iters, &others) != 0)
        bench_die("cannot start a thread");
    return bench_since(begin);
}

/* Games, sixteen at a time. */
static double games(const bench_run_t *run)
{
    static uint64_t seed;
    uint64_t begin = bench_now();
    bench_use(ref_hex_games(&board, run->iters / 16, 16, ++seed));
    bench_use(ref_hex_games(&board, run->iters % 16, 1, ++seed));
    return bench_since(begin);
}

/* Copies in GB/s, so that the rates of games on two machines can be compared. */
static double copy(const bench_run_t *run)
{
    static char *table;
    uint64_t begin;
    (void)run;
    if (!table)
        table = bench_table(2 * COPY_BYTES);
    begin = bench_now();
    for (int i = 0; i < COPIES; i++) {
        memcpy(table + COPY_BYTES, table, COPY_BYTES);
        bench_step();
    }
    return (double)COPIES * (double)COPY_BYTES / bench_since(begin);
}

/* ---- options ---- */

static const char *number(const char *text, long min, long max, long *value_p, const char *wrong)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < min || value > max)
        return wrong;
    *value_p = value;
    return NULL;
}

/* The index of a word in a list that ends with NULL. */
static const char *word(const char *text, const char *const *words, int *value_p, const char *wrong)
{
    for (int i = 0; words[i]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *value_p = i;
            return NULL;
        }
    }
    return wrong;
}

#define NUMBER(NAME, FIELD, MIN, MAX, WRONG)                       \
    static const char *set_##NAME(const char *text)                \
    {                                                              \
        long value = 0;                                            \
        const char *wrong = number(text, MIN, MAX, &value, WRONG); \
        FIELD = (__typeof__(FIELD))(wrong ? (long)FIELD : value);  \
        return wrong;                                              \
    }
#define WORD(NAME, FIELD, WRONG, ...)                             \
    static const char *set_##NAME(const char *text)               \
    {                                                             \
        static const char *const words[] = { __VA_ARGS__, NULL }; \
        int value = (int)FIELD;                                   \
        const char *wrong = word(text, words, &value, WRONG);     \
        FIELD = (__typeof__(FIELD))value;                         \
        return wrong;                                             \
    }
#define FLAG(NAME, FIELD)                           \
    static const char *set_##NAME(const char *text) \
    {                                               \
        (void)text;                                 \
        FIELD = true;                               \
        return NULL;                                \
    }

NUMBER(size, board_size, PGAS_HEX_SIZE_MIN, PGAS_HEX_SIZE_MAX, "--size: 2 to 19")
NUMBER(playouts, chosen_playouts, 1, 65535, "--playouts: 1 to 65535")
NUMBER(in_flight, chosen.in_flight, 1, 1000000, "--in-flight: 1 to 1000000")
NUMBER(phase, chosen.phase, 1, 4096, "--phase: 1 to 4096")
NUMBER(near_every, chosen.near_every, 1, 1000000, "--near-every: 1 to 1000000")
NUMBER(seed, chosen.seed, 1, 1000000000, "--seed: 1 to 1000000000")
WORD(policy, chosen.policy, "--policy: ucb1, puct", "ucb1", "puct")
WORD(pending, chosen.pending, "--pending: unobserved, virtual-loss, ignored", "unobserved",
     "virtual-loss", "ignored")
WORD(mode, chosen.mode, "--mode: tree, root, leaf", "tree", "root", "leaf")
FLAG(always_call, chosen.always_call)
FLAG(no_combining, chosen.no_combining)
FLAG(no_proofs, chosen.no_proofs)

static const bench_option_t options[] = {
    { "size", "N", "of the board, 2 to 19 (11)", set_size },
    { "playouts", "N", "of a rollout in the cases named -n (4)", set_playouts },
    { "policy", "WORD", "ucb1 or puct", set_policy },
    { "pending", "WORD", "unobserved, virtual-loss or ignored", set_pending },
    { "mode", "WORD", "tree, root or leaf", set_mode },
    { "in-flight", "N", "rollouts under way at one time", set_in_flight },
    { "phase", "N", "rollouts of a phase for each thread of the job, at most 4096", set_phase },
    { "near-every", "N", "near: one in so many children moves away", set_near_every },
    { "seed", "N", "of the search", set_seed },
    { "always-call", NULL, "also to nodes of the own rank", set_always_call },
    { "no-combining", NULL, "each report travels by itself", set_no_combining },
    { "no-proofs", NULL, "proven values are not propagated", set_no_proofs },
    { NULL, NULL, NULL, NULL }
};

/* ---- cases ---- */

#define PLAYOUTS                              \
    {                                         \
        "playouts", BENCH_OURS, bare_playouts \
    }
#define TREE                                   \
    {                                          \
        "shared-tree", BENCH_OURS, shared_tree \
    }
#define ONE_THREAD                           \
    {                                        \
        "one-thread", BENCH_OURS, one_thread \
    }
#define SEARCH(VARIANT, DOC, ARG, ...)                                                    \
    {                                                                                     \
        .variant = VARIANT, .doc = DOC, .paths = BENCH_ANYWHERE, .metric = BENCH_RATE_MS, \
        .unit = "visits/ms", .ours = ours, .round_ms = ROUND_MS, .arg = ARG, __VA_ARGS__  \
    }
#define THREE(NAME, DOC, ARG, ...)                                                          \
    SEARCH(NAME "-16", DOC ", 16 playouts a rollout", (ARG), .refs = __VA_ARGS__),          \
        SEARCH(NAME "-1", DOC ", one playout a rollout", (ARG) | ONE, .refs = __VA_ARGS__), \
        SEARCH(NAME "-n", DOC, (ARG) | CHOSEN, .on_request = true, .refs = __VA_ARGS__)
#define ALONE(NAME, DOC, ARG) THREE(NAME, DOC, ARG, { PLAYOUTS, TREE })
#define TOGETHER(NAME, DOC, ARG) \
    THREE("threads-" NAME, DOC ", --threads of them a rank", (ARG) | THREADS, { ONE_THREAD, TREE })

static const bench_case_t cases[] = {
    ALONE("trad-random", "gathered, children anywhere", TRAD | RANDOM),
    ALONE("ovfl-random", "overflowing, children anywhere", OVFL | RANDOM),
    ALONE("trad-hash", "gathered, children by hash", TRAD | HASH),
    ALONE("ovfl-hash", "overflowing, children by hash", OVFL | HASH),
    ALONE("trad-near", "gathered, children near", TRAD | NEAR),
    ALONE("ovfl-near", "overflowing, children near", OVFL | NEAR),
    TOGETHER("trad-random", "gathered, children anywhere", TRAD | RANDOM),
    TOGETHER("ovfl-random", "overflowing, children anywhere", OVFL | RANDOM),
    TOGETHER("trad-hash", "gathered, children by hash", TRAD | HASH),
    { .variant = "playouts",
      .doc = "games from the empty board, 16 at a time, on one thread of a rank",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_RATE_EACH,
      .ours = games,
      .round_ms = 20 },
    { .variant = "memcpy",
      .doc = "16 MiB, on one thread of a rank",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_VALUE,
      .unit = "GB/s",
      .higher = true,
      .average = true,
      .ours = copy,
      .round_ms = 20 },
};

static void prepare(void)
{
    (void)sched_getaffinity(0, sizeof all_cores, &all_cores);
    bench_check(pgas_hex_init(&board, board_size, false), "pgas_hex_init");
    now.arg = -1;
}

static void finish(const bench_run_t *run, bool json)
{
    close_case();
    if (run->rank == 0 && !json)
        printf("# Stats: job of nodes x ranks x threads: %d x %d x 1, threads-*: x %d; board %d x "
               "%d\n",
               pgas_n_nodes(), run->n_ranks / pgas_n_nodes(), run->team, board_size, board_size);
}

int main(int argc, char **argv)
{
    const bench_program_t program = { .name = "pgas_mcts",
                                      .doc = "tree search of Hex from the empty board",
                                      .ranks = BENCH_ANY,
                                      .label = "Rate",
                                      BENCH_CASES(cases),
                                      .prepare = prepare,
                                      .threads = true,
                                      .figures = list_figures,
                                      .finish = finish,
                                      .options = options };
    return bench_main(&program, argc, argv);
}
