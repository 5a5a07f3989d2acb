/* Options and the run of a benchmark: cases x sizes x interleaved rounds.
 *
 * The number of iterations is found per loop, by growing it until a round takes half a millisecond
 * (which also warms caches, endpoints and branch predictors), and agreed on by all ranks, since
 * each of them counts messages. A round is shorter than a time slice on purpose: on a shared
 * machine it is either disturbed or not, and the median drops the disturbed ones. Ranks are bound
 * to cores of their own while there are enough, after pgas_init, so that the library's service
 * threads stay free to run anywhere. */
#include "benchmarks/bench.h"
#include "benchmarks/print.h"
#include "benchmarks/ref.h"
#include "examples/usage.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ROUND_MS      0.5
#define ROUNDS        61
#define ROUNDS_MIN    5
#define ROUNDS_MAX    1001
#define ALL_ROUNDS_MS 400.0
#define ITERS_FIRST   8
#define WARM_UP       64
#define SAMPLES_MAX   4096
#define PAPER_WARM_UP 100000
#define ITERS_MAX     (UINT64_C(1) << 32)
#define BYTES_MAX     ((size_t)1 << 30)

enum { EXIT_USAGE = 2, OWN_OPTIONS = 256 };

typedef struct {
    bool full, json, compare, paper;
    const char *cases; /* NULL: all that are not on request */
    size_t min_bytes, max_bytes;
    uint64_t iters;
    int rounds, threads;
    double round_ms;
} options_t;

static options_t opt = { .threads = 2 };
static const bench_program_t *prog;

static bool is_alone(void)
{
    return prog->ranks == BENCH_ALONE;
}

/* ---- messages ---- */

void bench_die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "%s: rank %d: ", prog->name, ref_mpi_rank());
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
    if (is_alone())
        exit(1);
    ref_mpi_abort(1);
}

void *bench_table(size_t bytes)
{
    const size_t page = (size_t)2 << 20;
    size_t whole = (bytes + page - 1) / page * page;
    void *table = aligned_alloc(page, whole);
    if (!table)
        bench_die("out of memory");
    (void)madvise(table, whole, MADV_HUGEPAGE);
    memset(table, 0, whole);
    return table;
}

void bench_check(pgas_status_t status, const char *what)
{
    if (status != PGAS_OK)
        bench_die("%s: %s", what, pgas_status_text(status));
}

void bench_say(const char *fmt, ...)
{
    va_list args;
    if (ref_mpi_rank() != 0)
        return;
    va_start(args, fmt);
    fprintf(stderr, "%s: ", prog->name);
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
}

/* Written, since untouched pages are all the same page of zeros and read too fast. */
void *bench_buffer(size_t bytes)
{
    void *buffer = aligned_alloc(BENCH_PAGE_BYTES, (bytes + BENCH_PAGE_BYTES - 1) /
                                                       BENCH_PAGE_BYTES * BENCH_PAGE_BYTES);
    if (!buffer)
        bench_die("out of memory");
    memset(buffer, 1, bytes);
    return buffer;
}

void bench_compute(double ms)
{
    uint64_t begin = bench_now(), x = 1;
    while (bench_since(begin) < ms * 1e6)
        for (int i = 0; i < 1000; i++)
            bench_use(bench_random(&x));
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. */
static print_stat_t statistics(double *values, int n)
{
    print_stat_t stat;
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    stat.min = values[0];
    stat.max = values[n - 1];
    stat.median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    return stat;
}

double bench_sample(const bench_run_t *run, void (*op)(const bench_run_t *run, int n), int n_ops)
{
    static double sample[SAMPLES_MAX];
    const struct timespec pause = { 0, 1000000 };
    int n = 0;
    uint64_t begin = bench_now(), start;
    nanosleep(&pause, NULL);
    do {
        start = bench_now();
        op(run, n_ops);
        sample[n++] = bench_since(start) / n_ops;
        nanosleep(&pause, NULL);
    } while (n < SAMPLES_MAX && bench_since(begin) < run->round_ms * 0.9e6);
    return statistics(sample, n).median;
}

/* ---- options ---- */

static int paper_rounds(void)
{
    return prog->paper_rounds ? prog->paper_rounds : 1;
}

static const char *launcher(void)
{
    return is_alone() ? "" : "mpirun -n N ";
}

static void print_help(void)
{
    static const char *const ranks[] = {
        "2 ranks",         "an even number of ranks", "any number of ranks",
        "2 or more ranks", "2 or more ranks",         "one process"
    };
    printf("usage: %s%s [options]\n"
           "%s (%s)\n\n"
           "  --help           this text\n"
           "  -f, --full       also minimum, maximum and iterations\n"
           "  --json           one object a line instead of tables\n"
           "  --compare        the same loops over the references, and ours over theirs\n"
           "  --case A,B       only these cases (names below, with or without the path in front)\n"
           "  -m MIN:MAX       sizes in bytes, doubling (%zu:%zu%s)\n"
           "  -i N             iterations of a round, instead of as many as fill its time\n"
           "  -r N             rounds, at least %d (%d, down to %d if they are long)\n"
           "  -t MS            length of a round in milliseconds (%g unless given below)\n",
           launcher(), prog->name, prog->doc, ranks[prog->ranks], prog->min_bytes, prog->max_bytes,
           prog->min_bytes == prog->max_bytes ? ", fixed" : "", ROUNDS_MIN, ROUNDS, ROUNDS_MIN,
           ROUND_MS);
    if (prog->threads)
        printf("  --threads N      threads of each rank in cases with several, 1 to %d (%d)\n",
               BENCH_TEAM_MAX, opt.threads);
    if (prog->paper_iters)
        printf("  --paper          %d round%s of %g iterations for each figure\n", paper_rounds(),
               paper_rounds() > 1 ? "s" : "", (double)prog->paper_iters);
    for (const bench_option_t *o = prog->options; o && o->name; o++)
        printf("  --%s %-*s%s\n", o->name, 14 - (int)strlen(o->name), o->arg ? o->arg : "", o->doc);
    printf("\ncases, behind the path (%s):\n",
           is_alone() ? "snic, mlx5, verbs" : "node, ucx-shm, ucx-tcp, snic");
    for (int i = 0; i < prog->n_cases; i++) {
        const bench_case_t *c = &prog->cases[i];
        printf("  %-15s %s%s%s\n", *c->variant ? c->variant : "plain", c->doc,
               c->paths == BENCH_NODE  ? " [node]"
               : c->paths == BENCH_FAR ? " [off-node]"
                                       : "",
               c->on_request ? " [only by --case]" : "");
    }
}

static bool parse_count(const char *text, double min, double max, double *value_p)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(value >= min && value <= max))
        return false;
    *value_p = value;
    return true;
}

static bool parse_bytes(const char *text, char stop, const char **end_p, size_t *bytes_p)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *text == '-' || errno != 0 || (*end != stop && *end != '\0') || value == 0 ||
        value > BYTES_MAX)
        return false;
    *bytes_p = (size_t)value;
    *end_p = end;
    return true;
}

/* MIN:MAX, MIN: (up to the greatest) or MIN alone (one size). */
static bool parse_sizes(const char *text)
{
    const char *end;
    size_t low, high;
    if (!parse_bytes(text, ':', &end, &low))
        return false;
    high = low;
    if (strcmp(end, ":") == 0)
        high = BYTES_MAX;
    else if (*end == ':' &&
             (!parse_bytes(end + 1, '\0', &end, &high) || *end != '\0' || high < low))
        return false;
    opt.min_bytes = low;
    opt.max_bytes = high;
    return true;
}

/* The part of a case's name behind the path. */
static const char *variant_of(const char *name)
{
    static const char *const paths[] = { "node", "ucx-shm", "ucx-tcp", "ucx-net",
                                         "snic", "mlx5",    "verbs" };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        size_t n = strlen(paths[i]);
        if (strncmp(name, paths[i], n) == 0 && (name[n] == '-' || name[n] == '\0'))
            return name[n] == '-' ? name + n + 1 : "";
    }
    return strcmp(name, "plain") == 0 ? "" : name;
}

/* Calls fn for every word of --case; stops and returns true when fn does. */
static bool any_word(bool (*fn)(const char *word, const void *arg), const void *arg)
{
    char list[512], *rest = list, *word;
    snprintf(list, sizeof list, "%s", opt.cases);
    while ((word = strtok_r(rest, ",", &rest)) != NULL)
        if (fn(word, arg))
            return true;
    return false;
}

static bool word_names_case(const char *word, const void *arg)
{
    return strcmp(variant_of(word), ((const bench_case_t *)arg)->variant) == 0;
}

static bool word_is_unknown(const char *word, const void *arg)
{
    (void)arg;
    for (int i = 0; i < prog->n_cases; i++)
        if (word_names_case(word, &prog->cases[i]))
            return false;
    return true;
}

static bool is_wanted(const bench_case_t *c)
{
    return opt.cases ? any_word(word_names_case, c) : !c->on_request;
}

/* The first size of the program's choice that is not smaller. */
static size_t size_from(size_t bytes)
{
    const size_t *size = prog->sizes;
    while (size && *size && *size < bytes)
        size++;
    return !size ? bytes : *size ? *size : SIZE_MAX;
}

/* Those of the case, or else of the program. */
static void sizes_of(const bench_case_t *c, size_t *min_p, size_t *max_p)
{
    *min_p = c->no_sizes ? 0 : c->min_bytes ? c->min_bytes : prog->min_bytes;
    *max_p = c->no_sizes ? 0 : c->max_bytes ? c->max_bytes : prog->max_bytes;
}

/* The sizes that both the case (or else the program) and the user allow; the user's own where a
 * case has just one. */
static void choose_sizes(const bench_case_t *c, size_t *low_p, size_t *high_p)
{
    size_t low, high;
    sizes_of(c, &low, &high);
    if (opt.min_bytes && low != high) {
        low = opt.min_bytes > low ? opt.min_bytes : low;
        high = opt.max_bytes < high ? opt.max_bytes : high;
    }
    *low_p = size_from(low);
    *high_p = high;
}

/* Whether some wanted case has a size that was asked for; what is wrong, or NULL. */
static const char *check_sizes(void)
{
    static char why[120];
    size_t least = SIZE_MAX, most = 0;
    for (int i = 0; i < prog->n_cases; i++) {
        const bench_case_t *c = &prog->cases[i];
        size_t low, high, min, max;
        sizes_of(c, &min, &max);
        if (!is_wanted(c) || min == max)
            continue;
        choose_sizes(c, &low, &high);
        if (low <= high)
            return NULL;
        least = min < least ? min : least;
        most = max > most ? max : most;
    }
    if (most == 0)
        return "-m: these cases have one size each";
    snprintf(why, sizeof why, "-m: these cases have sizes from %zu to %zu bytes", least, most);
    return why;
}

/* What is wrong, or NULL. */
static const char *set_option(int letter, const char *text)
{
    double value = 0;
    if (letter >= OWN_OPTIONS)
        return prog->options[letter - OWN_OPTIONS].set(text);
    switch (letter) {
    case 'f':
        opt.full = true;
        return NULL;
    case 'j':
        opt.json = true;
        return NULL;
    case 'c':
        opt.compare = true;
        return NULL;
    case 'p':
        opt.paper = true;
        return prog->paper_iters ? NULL : "--paper: not here";
    case 'T':
        if (!prog->threads || !parse_count(text, 1, BENCH_TEAM_MAX, &value) || value != (int)value)
            return prog->threads ? "--threads: 1 to 16" : "--threads: not here";
        opt.threads = (int)value;
        return NULL;
    case 'C':
        opt.cases = text;
        return strlen(text) >= 512 || !*text || any_word(word_is_unknown, NULL)
                   ? "--case: no such case"
                   : NULL;
    case 'm':
        return parse_sizes(text) ? NULL : "-m: MIN:MAX, MIN: or MIN in bytes, 1 to 1073741824";
    case 'i':
        if (!parse_count(text, 1, 1e9, &value))
            return "-i: 1 to 1e9";
        opt.iters = (uint64_t)value;
        return NULL;
    case 'r':
        if (!parse_count(text, ROUNDS_MIN, ROUNDS_MAX, &value))
            return "-r: 5 to 1001 rounds";
        opt.rounds = (int)value;
        return NULL;
    case 't':
        return parse_count(text, 0.01, 60000, &opt.round_ms) ? NULL
                                                             : "-t: 0.01 to 60000 milliseconds";
    default:
        return usage_complaint(letter);
    }
}

/* The names of all options, behind those of every program the program's own. */
static const struct option *list_options(void)
{
    enum { COMMON = 7 };
    static struct option names[COMMON + BENCH_OPTIONS_MAX + 1] = {
        { "help", no_argument, NULL, 'h' },         { "full", no_argument, NULL, 'f' },
        { "json", no_argument, NULL, 'j' },         { "compare", no_argument, NULL, 'c' },
        { "case", required_argument, NULL, 'C' },   { "paper", no_argument, NULL, 'p' },
        { "threads", required_argument, NULL, 'T' }
    };
    for (int i = 0; prog->options && i < BENCH_OPTIONS_MAX && prog->options[i].name; i++)
        names[COMMON + i] = (struct option){ prog->options[i].name,
                                             prog->options[i].arg ? required_argument : no_argument,
                                             NULL, OWN_OPTIONS + i };
    return names;
}

/* Returns -1 to go on, else the exit status. */
static int parse_options(int argc, char **argv)
{
    const struct option *names = list_options();
    int letter;
    const char *wrong = NULL, *word = "";
    bool prints = is_alone() || pgas_launcher_rank() == 0;
    opterr = 0;
    opt.compare = prog->compare;
    while (!wrong && (letter = getopt_long(argc, argv, ":hfm:i:r:t:", names, NULL)) != -1) {
        if (letter == 'h') {
            if (prints)
                print_help();
            return 0;
        }
        wrong = set_option(letter, optarg);
        word = letter == '?' || letter == ':' ? usage_word(argv) : "";
    }
    if (!wrong && optind < argc)
        wrong = "no arguments, only options";
    if (!wrong && opt.min_bytes)
        wrong = check_sizes();
    if (!wrong)
        return -1;
    if (!prints)
        return EXIT_USAGE;
    fprintf(stderr,
            "%s: %s%s%s\nusage: %s%s [--help] [-f] [--json] [--compare] [--case A,B] [-m MIN:MAX] "
            "[-i N] "
            "[-r N] [-t MS]%s%s",
            prog->name, wrong, *word ? ": " : "", word, launcher(), prog->name,
            prog->threads ? " [--threads N]" : "", prog->paper_iters ? " [--paper]" : "");
    for (const bench_option_t *o = prog->options; o && o->name; o++)
        fprintf(stderr, " [--%s%s%s]", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
    fprintf(stderr, "\n");
    return EXIT_USAGE;
}

/* ---- placement ---- */

/* The same for all processes under one kernel, whatever they call their hosts. */
static uint64_t kernel_number(void)
{
    char text[64] = "";
    uint64_t hash = UINT64_C(1469598103934665603);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file) {
        if (!fgets(text, sizeof text, file))
            text[0] = '\0';
        fclose(file);
    }
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    return hash;
}

static cpu_set_t spare; /* cores that no rank has taken; empty if ranks are not bound */

void bench_take_spare(void)
{
    if (CPU_COUNT(&spare) > 0)
        (void)sched_setaffinity(0, sizeof spare, &spare);
}

/* Binds the calling thread to the core with its number among the ranks of this machine, if there
 * are cores enough for those that work. */
static void take_core(int rank, int n_ranks)
{
    uint64_t mine = kernel_number(), *all = calloc((size_t)n_ranks, sizeof *all);
    int index = 0, n = 0, n_work = prog->ranks == BENCH_CROWD ? 2 : n_ranks;
    cpu_set_t allowed, one;
    if (!all)
        bench_die("out of memory");
    bench_check(pgas_allgather(NULL, &mine, all, sizeof mine), "pgas_allgather");
    for (int r = 0; r < n_work; r++) {
        index += all[r] == mine && r < rank;
        n += all[r] == mine;
    }
    free(all);
    if (rank >= n_work)
        return;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < n)
        return;
    spare = allowed;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && n-- > 0)
            CPU_CLR(cpu, &spare);
        if (CPU_ISSET(cpu, &allowed) && index-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            (void)sched_setaffinity(0, sizeof one, &one);
        }
    }
}

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
    if (!is_alone())
        ref_meet(side->kind);
}

/* The time of one round, agreed on by all ranks: that of the slowest, or the average. A few
 * operations go first, since the caches hold what the other side has left. */
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
    if (is_alone())
        return mine;
    bench_check(pgas_allreduce(NULL, &mine, &agreed, 1, PGAS_DOUBLE,
                               c->average ? PGAS_SUM : PGAS_MAX),
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
    if (prog->ranks == BENCH_CROWD)
        together = 1;
    else if (prog->ranks == BENCH_PAIR || prog->ranks == BENCH_PAIRS)
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
    return opt.round_ms > 0 ? opt.round_ms : c->round_ms > 0 ? c->round_ms : ROUND_MS;
}

/* The better of a few, so that one disturbed round does not end the growth. */
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
    uint64_t n = prog->granule ? prog->granule : 1;
    return (iters + n - 1) / n * n;
}

/* Grows the number of iterations until a round takes its time. */
static void calibrate(side_t *side, const bench_case_t *c, bench_run_t *run)
{
    double want = round_ms_of(c) * 1e6, grow = 16;
    if (c->metric == BENCH_VALUE) {
        side->iters = 1;
        return;
    }
    if (opt.paper) {
        side->iters = PAPER_WARM_UP;
        (void)run_once(side, c, run);
        side->iters = opt.iters              ? opt.iters
                      : prog->paper_iters_of ? prog->paper_iters_of(c, run)
                                             : prog->paper_iters;
        side->iters = whole_granules(side->iters);
        return;
    }
    side->iters = whole_granules(opt.iters ? opt.iters : ITERS_FIRST);
    while (!opt.iters && grow > 1.5 && side->iters < ITERS_MAX) {
        double ns = best_of(side, c, run, 3);
        grow = ns * 16 > want ? want / ns : 16;
        if (grow > 1.5)
            side->iters = whole_granules((uint64_t)((double)side->iters * grow));
    }
    (void)run_once(side, c, run);
}

/* Fewer of them if they are long. */
static int rounds_of(const bench_case_t *c)
{
    double n = ALL_ROUNDS_MS / round_ms_of(c);
    if (opt.paper && !opt.rounds)
        return paper_rounds();
    return opt.rounds ? opt.rounds : n < ROUNDS_MIN ? ROUNDS_MIN : n > ROUNDS ? ROUNDS : (int)n;
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
        row->side[s] = statistics(side[s].values, rounds);
        row->ratio[s] = statistics(side[s].ratios, rounds).median;
    }
    row->bytes = run->bytes;
    row->iters = side[0].iters;
}

static bool open_side(bench_kind_t kind)
{
    static bool tried[BENCH_KINDS], can[BENCH_KINDS];
    if (!tried[kind]) {
        tried[kind] = true;
        can[kind] = ref_open(kind);
        if (!can[kind])
            bench_say("references over %s cannot be had here", kind == BENCH_MEMORY
                                                                   ? "shared memory"
                                                               : kind == BENCH_UCX ? "UCX"
                                                                                   : "MPI");
    }
    return can[kind];
}

static int choose_sides(const bench_case_t *c, side_t *side, print_head_t *head)
{
    int n = 1;
    side[0] = (side_t){ .kind = BENCH_OURS, .loop = c->ours };
    head->name[0] = "";
    for (int i = 0; opt.compare && i < BENCH_REFS_MAX && c->refs[i].name; i++) {
        if (open_side(c->refs[i].kind)) {
            side[n] = (side_t){ .name = c->refs[i].name,
                                .kind = c->refs[i].kind,
                                .loop = c->refs[i].loop };
            head->name[n++] = c->refs[i].name;
        }
    }
    for (int s = 0; s < n; s++) {
        side[s].values = calloc(ROUNDS_MAX, sizeof(double));
        side[s].ratios = calloc(ROUNDS_MAX, sizeof(double));
        if (!side[s].values || !side[s].ratios)
            bench_die("out of memory");
    }
    return n;
}

static const char *unit_of(const bench_case_t *c)
{
    static const char *const units[] = { "ns", "MB/s", "M/s", "M/s", "1/ms", "1/ms", "" };
    return c->unit ? c->unit : units[c->metric];
}

/* Messages of some bytes at a million a second are as many MB/s. */
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

/* In the whole program: cases that are done, and how many are wanted. */
static int n_done, n_wanted;

static void show_progress(const print_head_t *head, size_t bytes)
{
    char note[80];
    int n = snprintf(note, sizeof note, "%s", head->path);
    if (bytes > 0)
        snprintf(note + n, sizeof note - (size_t)n, ", %zu bytes", bytes);
    pgas_progress_show(prog->name, (uint64_t)n_done, (uint64_t)n_wanted, note);
}

static void run_case(const bench_case_t *c, const char *path, bench_run_t *run)
{
    side_t side[1 + BENCH_REFS_MAX];
    bench_figure_t figure[BENCH_FIGURES_MAX];
    print_head_t head = { .bench = prog->name,
                          .label = prog->label,
                          .size_label = prog->size_label ? prog->size_label : "Size",
                          .doc = c->doc,
                          .unit = unit_of(c),
                          .higher = higher_is_better(c),
                          .full = opt.full,
                          .json = opt.json };
    print_row_t row = { 0 };
    size_t low, high;
    int n_sides = choose_sides(c, side, &head);
    snprintf(head.path, sizeof head.path, "%s%s%s", path, *c->variant ? "-" : "", c->variant);
    head.n_sides = n_sides;
    run->arg = c->arg;
    run->active = run->peer < 0 || c->both_ways || run->rank < run->n_ranks / 2;
    if (prog->ranks == BENCH_CROWD)
        run->active = run->rank == 0;
    run->round_ms = round_ms_of(c);
    choose_sizes(c, &low, &high);
    if (run->rank == 0 && low <= high)
        print_case(&head);
    for (size_t bytes = low; bytes <= high; bytes = bytes ? size_from(2 * bytes) : 1 + high) {
        run->bytes = bytes;
        show_progress(&head, bytes);
        measure_size(c, side, n_sides, run, &row);
        if (run->rank != 0)
            continue;
        print_row(&head, &row);
        for (int s = 0; prog->result && s < n_sides; s++)
            prog->result(c, bytes, head.name[s], row.side[s].median, row.ratio[s]);
        if (c->bandwidth)
            print_bandwidth(&head, &row);
        if (prog->figures)
            print_figures(&head, bytes, figure, prog->figures(c, figure));
    }
    for (int s = 0; s < n_sides; s++) {
        free(side[s].values);
        free(side[s].ratios);
    }
}

/* Whether the library offers what a case needs, on all ranks. */
static bool is_offered(const bench_case_t *c, const bench_run_t *run)
{
    int32_t mine, worst;
    if (!c->probe)
        return true;
    worst = mine = c->probe(run);
    if (!is_alone())
        bench_check(pgas_allreduce(NULL, &mine, &worst, 1, PGAS_INT32, PGAS_MIN), "pgas_allreduce");
    if (worst != PGAS_OK)
        bench_say("%s: left out: %s", c->variant, pgas_status_text(worst));
    return worst == PGAS_OK;
}

/* The library's own words for what it uses between nodes: "ucx", or "verbs" and the provider that
 * opened the device. */
static const char *path_between_nodes(const bench_run_t *run)
{
    char *text = NULL, *line;
    size_t bytes;
    const char *path = NULL;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        bench_die("out of memory");
    bench_check(pgas_info_print(stream), "pgas_info_print");
    fclose(stream);
    line = strstr(text, "in use between nodes: verbs");
    if (line) {
        line[strcspn(line, "\n")] = '\0';
        path = strstr(line, "provider snic")   ? "snic"
               : strstr(line, "provider mlx5") ? "mlx5"
                                               : "verbs";
    }
    free(text);
    return path ? path : ref_ucx_path(run->peer >= 0 ? run->peer : (run->rank + 1) % run->n_ranks);
}

static int run_cases(bench_run_t *run)
{
    int n_run = 0;
    const char *path = is_alone() ? prog->path() : run->far ? path_between_nodes(run) : "node";
    if (run->rank == 0 && !opt.json) {
        print_title(prog->name);
        if (is_alone())
            printf("# %s\n", prog->about());
        else
            printf("# Ranks: %d, nodes: %d\n", run->n_ranks, pgas_n_nodes());
    }
    unsigned paths = run->far ? BENCH_FAR : BENCH_NODE;
    for (int i = 0; i < prog->n_cases; i++)
        n_wanted += is_wanted(&prog->cases[i]) && (prog->cases[i].paths & paths);
    for (int i = 0; i < prog->n_cases; i++) {
        const bench_case_t *c = &prog->cases[i];
        if (!is_wanted(c) || !(c->paths & paths))
            continue;
        if (is_offered(c, run)) {
            run_case(c, path, run);
            n_run++;
        }
        n_done++;
    }
    pgas_progress_show(NULL, 0, 0, NULL);
    if (prog->finish)
        prog->finish(run, opt.json);
    if (n_run == 0)
        bench_say("none of these cases can run %s", is_alone() ? "on this device"
                                                    : run->far ? "between nodes"
                                                               : "on one node");
    return n_run > 0 ? 0 : 1;
}

/* ---- main ---- */

static bool describe_ranks(bench_run_t *run)
{
    bool pairs = prog->ranks == BENCH_PAIR || prog->ranks == BENCH_PAIRS;
    int32_t far, any_far = 0;
    run->rank = pgas_rank();
    run->n_ranks = pgas_n_ranks();
    run->n_threads = 1;
    run->team = opt.threads;
    run->paper = opt.paper;
    if ((prog->ranks == BENCH_PAIR && run->n_ranks != 2) || (pairs && run->n_ranks % 2 != 0) ||
        ((prog->ranks == BENCH_TWO_UP || prog->ranks == BENCH_CROWD) && run->n_ranks < 2)) {
        bench_say("started with %d rank%s, needs %s", run->n_ranks, run->n_ranks == 1 ? "" : "s",
                  prog->ranks == BENCH_PAIR    ? "exactly two: mpirun -n 2"
                  : prog->ranks == BENCH_PAIRS ? "an even number: mpirun -n 2"
                                               : "at least two: mpirun -n 2");
        return false;
    }
    run->peer = pairs ? (run->rank + run->n_ranks / 2) % run->n_ranks : -1;
    if (prog->ranks == BENCH_CROWD)
        run->peer = run->rank < 2 ? 1 - run->rank : -1;
    far = run->peer >= 0 ? pgas_node_of(run->peer) != pgas_node()
                         : pgas_n_nodes() > 1 && prog->ranks != BENCH_CROWD;
    bench_check(pgas_allreduce(NULL, &far, &any_far, 1, PGAS_INT32, PGAS_MAX), "pgas_allreduce");
    run->far = any_far != 0;
    return true;
}

/* Without MPI and without a job of the library's. */
static int run_alone(void)
{
    bench_run_t run = {
        .n_ranks = 1, .peer = -1, .n_threads = 1, .team = opt.threads, .paper = opt.paper
    };
    if (prog->setup)
        prog->setup();
    int status = run_cases(&run);
    if (prog->teardown)
        prog->teardown();
    return status;
}

int bench_main(const bench_program_t *program, int argc, char **argv)
{
    bench_run_t run = { 0 };
    int status;
    prog = program;
    status = parse_options(argc, argv);
    if (status >= 0)
        return status;
    if (is_alone())
        return run_alone();
    ref_mpi_begin(&argc, &argv);
    if (prog->prepare)
        prog->prepare();
    bench_check(pgas_init(NULL, NULL), "pgas_init");
    status = EXIT_USAGE;
    if (describe_ranks(&run)) {
        take_core(run.rank, run.n_ranks);
        if (prog->setup)
            prog->setup();
        status = run_cases(&run);
        bench_team_end();
        if (prog->teardown)
            prog->teardown();
        ref_close_all();
    }
    bench_check(pgas_finalize(), "pgas_finalize");
    ref_mpi_end();
    return status;
}
