/* Replication along a chain: rate and time of each kind of group operation, by each way, with idle
 * and with busy replicas. The software NIC's process and the client run on one core, the replicas
 * and the load on others, as on machines of their own.
 *
 * Each round runs all ways one after the other, each without and with load, so a disturbance of the
 * machine affects all. A ratio is the median of the ratios of single rounds. A way is opened for
 * its turn only: queues of another way that wait would cost the software NIC time.
 *
 * Source of kinds, sizes, windows and load: Hyperloop, and a report that built it again. */
#include "benchmarks/group_work.h"
#include "benchmarks/options.h"
#include "benchmarks/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDLE, BUSY, LOADS };
enum { CHAIN, VERBS, CALLS, MPI, ENGINE, WAYS };
#define KINDS      4
#define LIST_MAX   16
#define ROUNDS_MAX 101
#define NUMBER     100000
#define MATRIX_MS  200.0
#define QUICK_MS   60.0

static const group_way_t *const ways[WAYS] = { [CHAIN] = &group_chain,
                                               [VERBS] = &group_verbs,
                                               [CALLS] = &group_calls,
                                               [MPI] = &ref_group,
                                               [ENGINE] = &group_engine };
static const struct {
    pgas_group_kind_t kind;
    const char *name;
    bool has_size;
} kinds[KINDS] = { { PGAS_GROUP_WRITE, "gwrite", true },
                   { PGAS_GROUP_MEMCPY, "gmemcpy", true },
                   { PGAS_GROUP_CAS, "gcas", false },
                   { PGAS_GROUP_FLUSH, "gflush", true } };
static const char *const loads[LOADS] = { "idle", "busy" };

/* ---- options ---- */

typedef struct {
    uint64_t value[LIST_MAX];
    int n;
} list_t;

static list_t sizes = { { 1024 }, 1 }, windows = { { 64 }, 1 };
static uint64_t number = NUMBER;
static group_client_t client;
static bool stress, quick, matrix, has_sizes, has_windows;
const char *group_device;
bool group_polls;
uint32_t group_batch = 8;

static const char *read_list(const char *text, uint64_t min, uint64_t max, list_t *list,
                             const char *wrong)
{
    list->n = 0;
    for (;;) {
        char *end;
        unsigned long long value = strtoull(text, &end, 10);
        if (end == text || *text == '-' || value < min || value > max || list->n == LIST_MAX)
            return wrong;
        list->value[list->n++] = value;
        if (!*end)
            return NULL;
        if (*end != ',')
            return wrong;
        text = end + 1;
    }
}

static const char *set_sizes(const char *text)
{
    has_sizes = true;
    return read_list(text, 8, GROUP_REGION_BYTES / 4, &sizes,
                     "--size: up to 16 sizes, 8 to 1048576 bytes, commas between");
}

static const char *set_windows(const char *text)
{
    has_windows = true;
    return read_list(text, 1, PGAS_GROUP_WINDOW_MAX, &windows,
                     "--window: up to 16 numbers, 1 to 2000, commas between");
}

static const char *set_number(const char *text)
{
    static const char wrong[] = "--number: 1 to 10000000";
    list_t one;
    const char *why = read_list(text, 1, 10000000, &one, wrong);
    number = one.value[0];
    return one.n == 1 ? why : wrong;
}

static const char *set_batch(const char *text)
{
    static const char wrong[] = "--batch: 1 to 64";
    list_t one;
    const char *why = read_list(text, 1, GROUP_BATCH_MAX, &one, wrong);
    group_batch = (uint32_t)one.value[0];
    return one.n == 1 ? why : wrong;
}

static const char *set_client(const char *text)
{
    client = strcmp(text, "last") == 0 ? GROUP_CLIENT_LAST : GROUP_CLIENT_OWN;
    return client == GROUP_CLIENT_LAST || strcmp(text, "own") == 0 ? NULL
                                                                   : "--client-node: own or last";
}

static const char *set_device(const char *text)
{
    group_device = text;
    return *text ? NULL : "--device: a name";
}

static const char *set_poll(const char *text)
{
    (void)text;
    group_polls = true;
    return NULL;
}

static const char *set_stress(const char *text)
{
    (void)text;
    stress = true;
    return group_load_refusal();
}

static const char *set_quick(const char *text)
{
    (void)text;
    quick = true;
    return NULL;
}

static const char *set_matrix(const char *text)
{
    (void)text;
    matrix = true;
    return NULL;
}

static const bench_option_t options[] = {
    { "size", "LIST", "bytes of an operation (1024)", set_sizes },
    { "window", "LIST", "operations under way (64)", set_windows },
    { "number", "N", "operations of a round at most (100000)", set_number },
    { "batch", "N", "operations of one call, up to a quarter of the window (8)", set_batch },
    { "client-node", "WHERE",
      "own: the client has a core with the software NIC (default); last: that of the last replica",
      set_client },
    { "device", "NAME", "of chain, verbs and engine; else the first active port, hardware first",
      set_device },
    { "poll", NULL, "the client polls while it waits (chain, verbs); otherwise it sleeps",
      set_poll },
    { "stress", NULL, "busy: by stress-ng instead of loops of our own", set_stress },
    { "quick", NULL, "all cases in less than a minute", set_quick },
    { "matrix", NULL, "gwrite with the sizes and windows of the report, as tables", set_matrix },
    { NULL, NULL, NULL, NULL }
};

/* ---- cases ---- */

#define CASE(WAY, KIND, LOAD, WHICH, ON)                                                    \
    {                                                                                       \
        .variant = WAY "-" KIND "-" LOAD, .doc = "", .paths = BENCH_ANYWHERE, .arg = WHICH, \
        .on_request = ON                                                                    \
    }
#define BOTH_LOADS(WAY, KIND, W, K)                                \
    CASE(WAY, KIND, "idle", ((W)*KINDS + (K)) * LOADS + 0, false), \
        CASE(WAY, KIND, "busy", ((W)*KINDS + (K)) * LOADS + 1, false)
#define ALL_KINDS(WAY, W)                                              \
    BOTH_LOADS(WAY, "gwrite", W, 0), BOTH_LOADS(WAY, "gmemcpy", W, 1), \
        BOTH_LOADS(WAY, "gcas", W, 2), BOTH_LOADS(WAY, "gflush", W, 3)

static const bench_case_t cases[WAYS * KINDS * LOADS] = {
    ALL_KINDS("chain", CHAIN), ALL_KINDS("verbs", VERBS), ALL_KINDS("calls", CALLS),
    ALL_KINDS("mpi", MPI), ALL_KINDS("engine", ENGINE)
};

static bool is_wanted(int way, int kind, int load)
{
    const bench_case_t *c = &cases[(way * KINDS + kind) * LOADS + load];
    if (matrix && !bench_opt.cases)
        return kind == 0 && (way == CHAIN || way == MPI);
    return bench_is_wanted(c);
}

/* ---- figures ---- */

enum { RATE, BANDWIDTH, P50, P99, P999, REFILL, CPU, ELAPSED, FIGURES };
static const struct {
    const char *name, *unit;
    bool higher;
} figures[FIGURES] = {
    [RATE] = { "", "1/s", true },     [BANDWIDTH] = { "bandwidth", "MB/s", true },
    [P50] = { "p50", "ns", false },   [P99] = { "p99", "ns", false },
    [P999] = { "p999", "ns", false }, [REFILL] = { "refill", "ns", false },
    [CPU] = { "cpu", "ns", false },   [ELAPSED] = { "elapsed", "ms", false }
};

/* One case with one size and window. */
typedef struct {
    uint64_t n; /* operations of a round; 0: not known yet */
    double value[FIGURES][ROUNDS_MAX];
} side_t;

static side_t sides[WAYS][LOADS];
static double *times; /* of single operations */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const double *sorted, uint64_t n, double share)
{
    uint64_t k = (uint64_t)ceil(share * (double)n);
    return sorted[k > 0 ? k - 1 : 0];
}

static void note(const group_run_t *run, const group_result_t *result, side_t *side, int round)
{
    double n = (double)run->n, rate = n * 1e9 / (result->ns > 1 ? result->ns : 1);
    side->value[RATE][round] = rate;
    side->value[BANDWIDTH][round] = rate * (double)run->bytes / 1e6;
    side->value[REFILL][round] = result->refill_ns / n;
    side->value[CPU][round] = result->cpu_ns / n;
    side->value[ELAPSED][round] = (double)number * 1e3 / rate;
    if (!run->ns)
        return;
    qsort(run->ns, run->n, sizeof *run->ns, compare);
    side->value[P50][round] = percentile(run->ns, run->n, 0.5);
    side->value[P99][round] = percentile(run->ns, run->n, 0.99);
    side->value[P999][round] = percentile(run->ns, run->n, 0.999);
}

/* ---- rounds ---- */

static double round_ms(void)
{
    if (bench_opt.round_ms > 0)
        return bench_opt.round_ms;
    if (quick)
        return QUICK_MS;
    return matrix ? MATRIX_MS : 1000;
}

static int n_rounds(void)
{
    int n = bench_opt.rounds ? bench_opt.rounds : BENCH_ROUNDS_MIN;
    return n < ROUNDS_MAX ? n : ROUNDS_MAX;
}

static double run_n(const group_way_t *way, group_run_t *run, uint64_t n, group_result_t *result)
{
    run->n = n;
    way->loop(run, result);
    bench_check(pgas_broadcast(NULL, &result->ns, sizeof result->ns, 0), "pgas_broadcast");
    return result->ns;
}

/* As many operations as a round has time for, up to --number. A small number is measured first,
 * because a busy replica may take a hundred times longer. */
static uint64_t choose_n(const group_way_t *way, group_run_t *run)
{
    group_result_t result;
    double want = round_ms() * 1e6;
    uint64_t n = group_depth(run), most = number;
    if (bench_opt.iters)
        return bench_opt.iters;
    for (n = n < most ? n : most;; n = n * 4 < most ? n * 4 : most) {
        double ns = run_n(way, run, n, &result);
        if (ns > want / 8 || n == most) {
            double fits = (double)n * want / (ns > 1 ? ns : 1);
            n = fits < (double)most ? (uint64_t)fits : most;
            return n > 0 ? n : 1;
        }
    }
}

/* A part of a round. New queues have pages that nothing has touched yet; each entry runs once. */
static uint64_t warm_up(const group_way_t *way, const group_run_t *run, uint64_t n)
{
    uint64_t most = bench_opt.iters ? n : UINT64_MAX, some = n / 4;
    if (way->n_entries / group_pieces(run) > some)
        some = way->n_entries / group_pieces(run);
    if (some < 2 * group_depth(run))
        some = 2 * group_depth(run);
    return some < most ? some : most;
}

static void run_side(const group_way_t *way, group_run_t *run, side_t *side, int load, int round)
{
    group_result_t result;
    if (run->rank > 0)
        group_load(load == BUSY, stress);
    if (side->n == 0)
        side->n = choose_n(way, run);
    run->ns = NULL;
    (void)run_n(way, run, warm_up(way, run, side->n), &result);
    run->ns = run->rank == 0 && !way->is_engine ? times : NULL;
    (void)run_n(way, run, side->n, &result);
    if (run->rank == 0)
        note(run, &result, side, round);
    run->ns = NULL;
    if (run->rank > 0)
        group_load(false, stress);
}

/* @return whether the way can run here */
static bool run_way(int way, int kind, group_run_t *run, int round)
{
    if (!ways[way]->open(run))
        return false;
    for (int load = 0; load < LOADS; load++)
        if (is_wanted(way, kind, load))
            run_side(ways[way], run, &sides[way][load], load, round);
    ways[way]->close();
    return true;
}

/* ---- output ---- */

static print_stat_t statistics(const double *values)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, sizeof sorted);
    return bench_statistics(sorted, n_rounds());
}

static double ratio_of(const side_t *a, const side_t *b, int figure)
{
    double ratios[ROUNDS_MAX];
    for (int i = 0; i < n_rounds(); i++)
        ratios[i] = a->value[figure][i] / b->value[figure][i];
    return bench_statistics(ratios, n_rounds()).median;
}

static bool figure_exists(int figure, int way, int kind)
{
    switch (figure) {
    case BANDWIDTH:
        return kinds[kind].has_size;
    case P50:
    case P99:
    case P999:
    case CPU:
        return !ways[way]->is_engine;
    case REFILL:
        return way == CHAIN || way == VERBS;
    default:
        return figure == RATE;
    }
}

/* The other side of a ratio, if it has run. */
static void add_side(print_head_t *head, print_row_t *row, const char *name, const side_t *mine,
                     const side_t *other, int figure)
{
    if (other->n == 0 || other == mine)
        return;
    int s = head->n_sides++;
    head->name[s] = name;
    row->side[s] = statistics(other->value[figure]);
    row->ratio[s] = ratio_of(mine, other, figure);
}

static void print_figure(const print_head_t *of, const group_run_t *run, int way, int load,
                         int figure)
{
    const side_t *side = &sides[way][load];
    print_head_t head = *of;
    print_row_t row = { .bytes = run->bytes, .iters = side->n };
    head.unit = figures[figure].unit;
    head.higher = figures[figure].higher;
    head.n_sides = 1;
    head.name[0] = "";
    row.side[0] = statistics(side->value[figure]);
    bool compared = figure != REFILL && figure != CPU;
    if (compared && load == BUSY)
        add_side(&head, &row, "idle", side, &sides[way][IDLE], figure);
    if (compared && way != ENGINE) {
        add_side(&head, &row, "calls", side, &sides[CALLS][load], figure);
        add_side(&head, &row, "mpi", side, &sides[MPI][load], figure);
    }
    if (way == CHAIN && (figure == RATE || figure == BANDWIDTH))
        add_side(&head, &row, "limit", side, &sides[ENGINE][load], figure);
    if (figure == RATE && !head.json)
        print_case(&head);
    if (figure == RATE) {
        print_row(&head, &row);
    } else if (head.json) {
        snprintf(head.path, sizeof head.path, "%.50s-%s", of->path, figures[figure].name);
        print_row(&head, &row);
    } else {
        bench_figure_t text = { figures[figure].name, figures[figure].unit, figures[figure].higher,
                                row.side[0].median,   row.side[0].min,      row.side[0].max };
        print_figures(&head, run->bytes, &text, 1);
    }
}

static void print_side(const group_run_t *run, int way, int kind, int load)
{
    print_head_t head = { .bench = bench_prog->name,
                          .label = "Rate",
                          .size_label = "Size",
                          .doc = ways[way]->doc,
                          .full = bench_opt.full,
                          .json = bench_opt.json };
    int at = snprintf(head.path, sizeof head.path, "%s-%s-%s", ways[way]->name, kinds[kind].name,
                      loads[load]);
    if (windows.n > 1)
        snprintf(head.path + at, sizeof head.path - (size_t)at, "-w%u", (unsigned)run->window);
    for (int figure = 0; figure < FIGURES; figure++)
        if (figure_exists(figure, way, kind))
            print_figure(&head, run, way, load, figure);
}

/* ---- the report's matrix ---- */

static double cells[WAYS][LOADS][FIGURES][LIST_MAX][LIST_MAX]; /* size, window */

static void keep_cells(int size, int window)
{
    for (int way = 0; way < WAYS; way++)
        for (int load = 0; load < LOADS; load++)
            for (int figure = 0; figure < FIGURES; figure++)
                cells[way][load][figure][size][window] =
                    sides[way][load].n > 0 ? statistics(sides[way][load].value[figure]).median : 0;
}

static void print_table(int way, int load, int figure, const char *what)
{
    printf("# Table: %s-gwrite-%s: %s, by size and window\n# Size    ", ways[way]->name,
           loads[load], what);
    for (int w = 0; w < windows.n; w++)
        printf("%20llu", (unsigned long long)windows.value[w]);
    printf("\n");
    for (int s = 0; s < sizes.n; s++) {
        printf("%-10llu", (unsigned long long)sizes.value[s]);
        for (int w = 0; w < windows.n; w++)
            printf("%20.2f", cells[way][load][figure][s][w]);
        printf("\n");
    }
}

static void print_matrix(void)
{
    char elapsed[64];
    snprintf(elapsed, sizeof elapsed, "ms for %llu operations", (unsigned long long)number);
    for (int way = 0; way < WAYS; way++) {
        for (int load = 0; load < LOADS; load++) {
            if (!is_wanted(way, 0, load) || cells[way][load][RATE][0][0] <= 0)
                continue;
            print_table(way, load, ELAPSED, elapsed);
            print_table(way, load, BANDWIDTH, "MB/s");
            if (ways[way]->is_engine)
                continue;
            print_table(way, load, P50, "p50, ns");
            print_table(way, load, P99, "p99, ns");
            if (way == CHAIN)
                print_table(way, load, REFILL, "ns of refilling an operation, all replicas");
        }
    }
}

/* ---- the run ---- */

static int n_done, n_wanted;

static bool any_wanted(int way, int kind)
{
    return is_wanted(way, kind, IDLE) || is_wanted(way, kind, BUSY);
}

static void run_kind(int kind, group_run_t *run)
{
    bool can[WAYS];
    char text[80];
    memset(sides, 0, sizeof sides);
    for (int way = 0; way < WAYS; way++)
        can[way] = any_wanted(way, kind);
    for (int round = 0; round < n_rounds(); round++) {
        for (int way = 0; way < WAYS; way++) {
            if (!can[way])
                continue;
            snprintf(text, sizeof text, "%s-%s, %zu bytes, window %u", ways[way]->name,
                     kinds[kind].name, run->bytes, (unsigned)run->window);
            pgas_progress_show(bench_prog->name, (uint64_t)n_done, (uint64_t)n_wanted, text);
            can[way] = run_way(way, kind, run, round);
            n_done++;
        }
    }
}

static int run_sizes(group_run_t *run, int kind, int window)
{
    int n = 0;
    for (int s = 0; s < (kinds[kind].has_size ? sizes.n : 1); s++) {
        run->kind = kinds[kind].kind;
        run->bytes = kinds[kind].has_size ? sizes.value[s] : 8;
        run->piece = group_piece(run->window, run->bytes);
        run_kind(kind, run);
        if (matrix && run->rank == 0)
            keep_cells(s, window);
        for (int way = 0; way < WAYS; way++) {
            for (int load = 0; load < LOADS; load++) {
                if (sides[way][load].n == 0)
                    continue;
                n++;
                if (run->rank == 0 && (!matrix || bench_opt.json))
                    print_side(run, way, kind, load);
            }
        }
    }
    return n;
}

static void choose_matrix(void)
{
    static const list_t all_sizes = { { 1024, 2048, 4096, 8192, 16384, 65536, 262144, 1048576 },
                                      8 };
    static const list_t all_windows = { { 20, 50, 100, 200, 500, 1000, 2000 }, 7 };
    if (!has_sizes)
        sizes = all_sizes;
    if (!has_windows)
        windows = all_windows;
}

static void count_wanted(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int way = 0; way < WAYS; way++)
            if (any_wanted(way, kind))
                n_wanted += windows.n * (kinds[kind].has_size ? sizes.n : 1) * n_rounds();
}

static int run_all(bench_run_t *harness)
{
    group_run_t run = { .rank = harness->rank, .n_ranks = harness->n_ranks };
    uint64_t most = bench_opt.iters > number ? bench_opt.iters : number;
    int n = 0;
    times = calloc(most, sizeof *times);
    if (!times)
        bench_die("out of memory");
    group_rest_open();
    group_place_rank(run.rank, run.n_ranks, client);
    if (matrix)
        choose_matrix();
    count_wanted();
    if (run.rank == 0 && !bench_opt.json) {
        print_title(bench_prog->name);
        printf("# Ranks: %d, nodes: %d\n# Device: %s\n", run.n_ranks, pgas_n_nodes(),
               group_place_about());
    }
    for (int w = 0; w < windows.n; w++) {
        run.window = (uint32_t)windows.value[w];
        for (int kind = 0; kind < KINDS; kind++)
            if (any_wanted(CHAIN, kind) || any_wanted(VERBS, kind) || any_wanted(CALLS, kind) ||
                any_wanted(MPI, kind) || any_wanted(ENGINE, kind))
                n += run_sizes(&run, kind, w);
    }
    if (matrix && run.rank == 0 && !bench_opt.json)
        print_matrix();
    pgas_progress_show(NULL, 0, 0, NULL);
    group_load_end();
    group_place_end();
    group_rest_close();
    free(times);
    return n > 0 ? 0 : 1;
}

uint32_t group_piece(uint32_t window, size_t bytes)
{
    uint32_t most = GROUP_IN_FLIGHT / window / 64 * 64;
    most = most < GROUP_PIECE_MAX ? most : GROUP_PIECE_MAX;
    return bytes < most ? (uint32_t)(bytes + 63) / 64 * 64 : most;
}

static const bench_program_t program = { .name = "pgas_group",
                                         .doc = "group operations along a chain of replicas",
                                         .ranks = BENCH_TWO_UP,
                                         .label = "Rate",
                                         .min_bytes = 1024,
                                         .max_bytes = 1024,
                                         BENCH_CASES(cases),
                                         .options = options,
                                         .run = run_all };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
