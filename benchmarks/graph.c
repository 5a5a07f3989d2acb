/* Graph algorithms on a Kronecker graph (R-MAT of Graph 500, undirected, without loops and multiple
 * edges). The figure is the time of an algorithm, without making the graph.
 *
 * There are two references, and rank 0 runs both while the other ranks sleep. They have as many
 * threads as the job has on rank 0's node. "raw" is plain loops over shared memory (ref_graph.c) on
 * a copy of the whole graph. "gap" is the programs of the GAP Benchmark Suite, which the user has
 * built in the folder --reference; they read the same graph from a file. The number that a loop of
 * ref_graph.c computes about its result is compared with ours.
 *
 * Memory is in bytes for each edge of the rows of all ranks: an undirected edge counts twice. */
#include "benchmarks/bench.h"
#include "benchmarks/options.h"
#include "benchmarks/ref_graph.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pgas/graph.h"

#define DAMPING   0.85
#define SWEEPS    20
#define ROUNDS    10 /* of label propagation */
#define N_SOURCES 16
#define TOLERANCE 1e-8
#define ROUND_MS  100

/* Cases, by bench_run_t.arg. */
enum { BFS, PAGERANK, COMPONENTS, BETWEENNESS, CDLP, LCC, TRIANGLES, SSSP, N_ALGORITHMS };

static uint64_t scale = 18, degree = 16, delta = 2;
static const char *gap_folder; /* NULL: no GAP */
static char gap_file[4096];    /* "": not written */

static struct {
    pgas_graph_t *graph;
    pgas_graph_info_t info;
    bool has_weights;
    double made, peak; /* bytes of the graph, and the most while it was made */
} now;

static ref_graph_t whole; /* rank 0's copy; begin NULL: not made */
static uint64_t sources[N_SOURCES];
static cpu_set_t all_cores;
static void *values; /* an element of 8 bytes for each vertex of the rank, or of the whole graph */

/* Of the case that runs: rounds that began, the check of ours, and bytes for each edge. */
static struct {
    int arg, round;
    double check, peak_per_edge, made_per_edge, making_per_edge;
} current = { .arg = -1 };

/* ---- memory of this process ---- */

/* A line of /proc/self/status in bytes; 0 where there is none. */
static double status_bytes(const char *key)
{
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            kib = strtod(line + strlen(key), NULL);
    if (file)
        fclose(file);
    return kib * 1024;
}

/* Begins a peak, behind which memory that was freed does not hide. @return resident bytes */
static double begin_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    (void)malloc_trim(0);
    if (!file)
        return status_bytes("VmRSS:");
    (void)fputs("5", file);
    fclose(file);
    return status_bytes("VmRSS:");
}

static double sum_over_ranks(double mine)
{
    double sum;
    bench_check(pgas_allreduce(NULL, &mine, &sum, 1, PGAS_F64, PGAS_ADD), "pgas_allreduce");
    return sum;
}

/* ---- the graph ---- */

static void drop_graph(void)
{
    bench_check(pgas_graph_destroy(now.graph), "pgas_graph_destroy");
    free((void *)(uintptr_t)whole.begin);
    free((void *)(uintptr_t)whole.end);
    free((void *)(uintptr_t)whole.weight);
    free(values);
    if (*gap_file)
        (void)unlink(gap_file);
    whole = (ref_graph_t){ .begin = NULL };
    now.graph = NULL;
    values = NULL;
    *gap_file = '\0';
}

static uint64_t degree_of(uint64_t i)
{
    uint32_t id = now.info.id_of[i];
    return now.info.out.begin[id + 1] - now.info.out.begin[id];
}

/* Random vertices with edges, the same on all ranks. */
static void draw_sources(void)
{
    uint64_t state = bench_seed(0);
    for (int i = 0; i < N_SOURCES;) {
        uint64_t vertex = bench_random_below(&state, now.info.n_vertices);
        uint64_t local = vertex - now.info.first_vertex;
        double n = vertex >= now.info.first_vertex && local < now.info.n_local
                       ? (double)degree_of(local)
                       : 0;
        sources[i] = vertex;
        i += sum_over_ranks(n) > 0;
    }
}

static void make_graph(bool has_weights)
{
    pgas_graph_opts_t opts = PGAS_GRAPH_OPTS_INIT;
    double base;
    if (now.graph && now.has_weights == has_weights)
        return;
    drop_graph();
    opts.n_vertices = UINT64_C(1) << scale;
    opts.edges_per_vertex = (int)degree;
    opts.undirected = opts.simple = true;
    opts.weight_type = has_weights ? PGAS_U32 : PGAS_TYPE_NONE;
    base = begin_peak();
    bench_check(pgas_graph_generate(&opts, &now.graph), "pgas_graph_generate");
    now.peak = status_bytes("VmHWM:") - base;
    now.made = begin_peak() - base;
    now.has_weights = has_weights;
    now.info.size = sizeof now.info;
    bench_check(pgas_graph_info(now.graph, &now.info), "pgas_graph_info");
    values = bench_buffer((pgas_rank() == 0 ? now.info.n_vertices : now.info.n_local + 1) *
                          sizeof(double));
    draw_sources();
}

/* ---- rank 0's copy ---- */

typedef struct {
    uint32_t end, weight;
} edge_t;

static int by_end(const void *a, const void *b)
{
    uint32_t x = ((const edge_t *)a)->end, y = ((const edge_t *)b)->end;
    return (x > y) - (x < y);
}

/* Row i of the rank, by rising numbers of vertices. Rows of ids have another order. */
static void copy_row(uint64_t i, edge_t *row, uint32_t *end, uint32_t *weight)
{
    const pgas_graph_rows_t *out = &now.info.out;
    uint64_t first = out->begin[now.info.id_of[i]], n = degree_of(i);
    const uint32_t *weights = out->weight;
    for (uint64_t k = 0; k < n; k++) {
        row[k].end = (uint32_t)now.info.vertex[out->end[first + k]];
        row[k].weight = weight ? weights[first + k] : 0;
    }
    qsort(row, n, sizeof *row, by_end);
    for (uint64_t k = 0; k < n; k++) {
        end[k] = row[k].end;
        if (weight)
            weight[k] = row[k].weight;
    }
}

/* Gathers n elements of each rank in one array of rank 0. @return NULL on other ranks */
static void *gather(void *mine, uint64_t n, size_t bytes, uint64_t n_all)
{
    size_t own = (size_t)n * bytes, *bytes_of = calloc((size_t)pgas_n_ranks(), sizeof *bytes_of);
    void *all = pgas_rank() == 0 ? bench_table((size_t)n_all * bytes + 1) : NULL;
    if (!bytes_of)
        bench_die("out of memory");
    bench_check(pgas_gather(NULL, &own, bytes_of, sizeof own, 0), "pgas_gather");
    bench_check(pgas_gatherv(NULL, mine, own, all, bytes_of, 0), "pgas_gatherv");
    free(bytes_of);
    free(mine);
    return all;
}

static void copy_graph(void)
{
    uint64_t n_own = now.info.out.begin[now.info.n_local], n_done = 0, most = 0;
    uint64_t *degrees = bench_buffer((now.info.n_local + 1) * sizeof *degrees);
    uint32_t *end = bench_buffer((n_own + 1) * sizeof *end);
    uint32_t *weight = now.has_weights ? bench_buffer((n_own + 1) * sizeof *weight) : NULL;
    for (uint64_t i = 0; i < now.info.n_local; i++)
        most = degree_of(i) > most ? degree_of(i) : most;
    edge_t *row = bench_buffer((most + 1) * sizeof *row);
    for (uint64_t i = 0; i < now.info.n_local; i++) {
        copy_row(i, row, end + n_done, weight ? weight + n_done : NULL);
        degrees[i] = degree_of(i);
        n_done += degrees[i];
    }
    free(row);
    uint64_t *begin = gather(degrees, now.info.n_local, sizeof *degrees, now.info.n_vertices + 1);
    whole.n = now.info.n_vertices;
    whole.end = gather(end, n_own, sizeof *end, now.info.n_edges);
    whole.weight = weight ? gather(weight, n_own, sizeof *weight, now.info.n_edges) : NULL;
    whole.begin = begin;
    for (uint64_t v = 0, sum = 0; begin && v <= whole.n; v++) {
        uint64_t n = begin[v];
        begin[v] = sum;
        sum += v < whole.n ? n : 0;
    }
}

/* GAP's form: directed, edges, vertices, begins, and ends with their weights. */
static void write_graph(void)
{
    const char *suffix = now.has_weights ? ".wsg" : ".sg";
    char directed = 0;
    int fd;
    FILE *file;
    snprintf(gap_file, sizeof gap_file, "%s/pgas_graph.XXXXXX%s", P_tmpdir, suffix);
    fd = mkstemps(gap_file, (int)strlen(suffix));
    file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!file)
        bench_die("cannot write %s", gap_file);
    fwrite(&directed, 1, 1, file);
    fwrite(&now.info.n_edges, sizeof now.info.n_edges, 1, file);
    fwrite(&whole.n, sizeof whole.n, 1, file);
    fwrite(whole.begin, sizeof *whole.begin, whole.n + 1, file);
    if (!whole.weight)
        fwrite(whole.end, sizeof *whole.end, now.info.n_edges, file);
    for (uint64_t e = 0; whole.weight && e < now.info.n_edges; e++) {
        edge_t edge = { whole.end[e], whole.weight[e] };
        fwrite(&edge, sizeof edge, 1, file);
    }
    if (ferror(file) | fclose(file))
        bench_die("cannot write %s", gap_file);
}

/* ---- ours ---- */

static void run_parallel(int n_threads, pgas_graph_work_fn_t work, void *arg)
{
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(static, 1)
    for (int i = 0; i < n_threads; i++)
        work(i, n_threads, arg);
#else
    (void)n_threads;
    work(0, 1, arg);
#endif
}

/* Threads that the references have. */
static int threads_on_node(const bench_run_t *run)
{
    int n = 0;
    for (int r = 0; r < run->n_ranks; r++)
        n += pgas_node_of(r) == pgas_node();
    return n * run->team;
}

static void run_ours(const bench_run_t *run, uint64_t source, pgas_graph_run_info_t *info)
{
    pgas_graph_run_opts_t opts = PGAS_GRAPH_RUN_OPTS_INIT;
    uint64_t n_triangles;
    opts.n_threads = run->team;
    opts.parallel = run_parallel;
    opts.damping = DAMPING;
    opts.iterations = run->arg == PAGERANK ? SWEEPS : ROUNDS;
    switch (run->arg) {
    case BFS:
        bench_check(pgas_bfs(now.graph, source, &opts, values, NULL, info), "pgas_bfs");
        break;
    case PAGERANK:
        bench_check(pgas_pagerank(now.graph, &opts, values, info), "pgas_pagerank");
        break;
    case COMPONENTS:
        bench_check(pgas_components(now.graph, &opts, values, info), "pgas_components");
        break;
    case BETWEENNESS:
        bench_check(pgas_betweenness(now.graph, &source, 1, &opts, values, info),
                    "pgas_betweenness");
        break;
    case CDLP:
        bench_check(pgas_cdlp(now.graph, &opts, values, info), "pgas_cdlp");
        break;
    case LCC:
        bench_check(pgas_lcc(now.graph, &opts, values, info), "pgas_lcc");
        break;
    case TRIANGLES:
        bench_check(pgas_triangles(now.graph, &opts, &n_triangles, info), "pgas_triangles");
        break;
    default:
        bench_check(pgas_sssp(now.graph, source, &opts, values, info), "pgas_sssp");
    }
}

/* The number that ref_graph.h says about a result. */
static double check_of(int arg, const pgas_graph_run_info_t *info)
{
    double sum = 0;
    for (uint64_t i = 0; i < now.info.n_local; i++) {
        double value = ((const double *)values)[i];
        int64_t level = ((const int64_t *)values)[i];
        if (arg == BFS)
            sum += level == INT64_MAX ? 0 : (double)level + 1;
        else if (arg == PAGERANK)
            sum += value * value * (double)now.info.n_vertices;
        else if (arg == LCC || arg == BETWEENNESS || (arg == SSSP && isfinite(value)))
            sum += value;
    }
    sum = sum_over_ranks(sum);
    return arg == COMPONENTS || arg == CDLP || arg == TRIANGLES ? (double)info->n_found : sum;
}

static uint64_t source_of_round(void)
{
    return sources[current.round % N_SOURCES];
}

/* The first run prepares the graph, and its memory is measured. */
static void begin_case(const bench_run_t *run)
{
    pgas_graph_run_info_t info = { .size = sizeof info };
    double before;
    current.arg = run->arg;
    make_graph(run->arg == SSSP);
    before = begin_peak();
    run_ours(run, sources[0], &info);
    before = status_bytes("VmHWM:") - before + now.made;
    current.peak_per_edge = sum_over_ranks(before) / (double)now.info.n_edges;
    current.made_per_edge = sum_over_ranks(now.made) / (double)now.info.n_edges;
    current.making_per_edge = sum_over_ranks(now.peak) / (double)now.info.n_edges;
}

static double ours(const bench_run_t *run)
{
    pgas_graph_run_info_t info = { .size = sizeof info };
    uint64_t begin;
    double ns;
    if (current.arg != run->arg)
        begin_case(run);
    current.round++;
    if (run->team > 1)
        (void)sched_setaffinity(0, sizeof all_cores, &all_cores);
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    begin = bench_now();
    run_ours(run, source_of_round(), &info);
    ns = bench_since(begin);
    current.check = check_of(run->arg, &info);
    return ns / 1e6;
}

/* ---- references ---- */

static ref_graph_time_t run_raw(int arg, int n_threads, uint32_t source)
{
    switch (arg) {
    case BFS:
        return ref_graph_bfs(&whole, n_threads, source, values);
    case PAGERANK:
        return ref_graph_pagerank(&whole, n_threads, DAMPING, SWEEPS, values);
    case COMPONENTS:
        return ref_graph_components(&whole, n_threads, values);
    case BETWEENNESS:
        return ref_graph_betweenness(&whole, n_threads, source, values);
    case CDLP:
        return ref_graph_cdlp(&whole, n_threads, ROUNDS, values);
    case LCC:
        return ref_graph_lcc(&whole, n_threads, values);
    case TRIANGLES:
        return ref_graph_triangles(&whole, n_threads);
    default:
        return ref_graph_sssp(&whole, n_threads, source, (uint32_t)delta, values);
    }
}

static double raw(const bench_run_t *run)
{
    ref_graph_time_t result;
    cpu_set_t bound;
    if (whole.n == 0)
        copy_graph();
    if (run->rank != 0)
        return 0;
    (void)sched_getaffinity(0, sizeof bound, &bound);
    (void)sched_setaffinity(0, sizeof all_cores, &all_cores);
    result = run_raw(run->arg, threads_on_node(run), (uint32_t)source_of_round());
    (void)sched_setaffinity(0, sizeof bound, &bound);
    if (fabs(result.check - current.check) > TOLERANCE * fabs(result.check))
        bench_die("results differ: ours %.12g, raw %.12g", current.check, result.check);
    return result.seconds * 1e3;
}

/* The program of GAP for a case, and its options; NULL: it has none. */
static const char *gap_options(int arg, const char **program_p)
{
    static const char *const programs[N_ALGORITHMS] = {
        [BFS] = "bfs",        [PAGERANK] = "pr",  [COMPONENTS] = "cc",
        [BETWEENNESS] = "bc", [TRIANGLES] = "tc", [SSSP] = "sssp"
    };
    static char text[64];
    *program_p = programs[arg];
    *text = '\0';
    if (arg == PAGERANK)
        snprintf(text, sizeof text, "-i %d -t 0", SWEEPS);
    if (arg == BFS || arg == BETWEENNESS || arg == SSSP)
        snprintf(text, sizeof text, "-r %llu", (unsigned long long)source_of_round());
    if (arg == BETWEENNESS)
        strcat(text, " -i 1");
    if (arg == SSSP)
        snprintf(text + strlen(text), sizeof text - strlen(text), " -d %llu",
                 (unsigned long long)delta);
    return text;
}

/* Runs a program of GAP once. @return the seconds that it prints */
static double run_gap(const bench_run_t *run)
{
    const char *program, *options = gap_options(run->arg, &program);
    char command[8192], line[256];
    double seconds = -1;
    FILE *output;
    snprintf(command, sizeof command, "OMP_NUM_THREADS=%d '%s/%s' -f '%s' -n 1 %s",
             threads_on_node(run), gap_folder, program, gap_file, options);
    output = popen(command, "r");
    while (output && fgets(line, sizeof line, output))
        if (strncmp(line, "Trial Time:", 11) == 0)
            seconds = strtod(line + 11, NULL);
    if (!output || pclose(output) != 0 || seconds < 0)
        bench_die("failed: %s", command);
    return seconds;
}

static double gap(const bench_run_t *run)
{
    cpu_set_t bound;
    double seconds;
    if (whole.n == 0)
        copy_graph();
    if (run->rank != 0)
        return 0;
    if (!*gap_file)
        write_graph();
    (void)sched_getaffinity(0, sizeof bound, &bound);
    (void)sched_setaffinity(0, sizeof all_cores, &all_cores);
    seconds = run_gap(run);
    (void)sched_setaffinity(0, sizeof bound, &bound);
    return seconds * 1e3;
}

/* ---- output and options ---- */

static int list_figures(const bench_case_t *c, bench_figure_t *figure)
{
    const double value[] = { current.peak_per_edge, current.made_per_edge,
                             current.making_per_edge };
    static const char *const names[] = { "peak", "graph", "making" };
    (void)c;
    for (int i = 0; i < 3; i++)
        figure[i] = (bench_figure_t){ .name = names[i],
                                      .unit = "bytes/edge",
                                      .median = value[i],
                                      .min = value[i],
                                      .max = value[i] };
    return 3;
}

static const char *set_number(const char *text, uint64_t least, uint64_t most, uint64_t *value_p,
                              const char *wrong)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end || value < least || value > most)
        return wrong;
    *value_p = value;
    return NULL;
}

static const char *set_scale(const char *text)
{
    return set_number(text, 1, 31, &scale, "--scale: 1 to 31");
}

static const char *set_degree(const char *text)
{
    return set_number(text, 1, 1024, &degree, "--degree: 1 to 1024");
}

static const char *set_delta(const char *text)
{
    return set_number(text, 1, UINT32_MAX, &delta, "--delta: 1 to 4294967295");
}

static const char *set_reference(const char *text)
{
    gap_folder = text;
    return NULL;
}

static const bench_option_t options[] = {
    { "scale", "N", "2^N vertices (18)", set_scale },
    { "degree", "N", "edges for each vertex (16)", set_degree },
    { "delta", "N", "width of a bucket in the references of sssp (2)", set_delta },
    { "reference", "FOLDER", "with --compare: GAP's programs there", set_reference },
    { NULL, NULL, NULL, NULL }
};

#define CASE(NAME, ARG, DOC)                                                                       \
    {                                                                                              \
        .variant = NAME, .doc = DOC, .paths = BENCH_ANYWHERE, .metric = BENCH_VALUE, .unit = "ms", \
        .ours = ours, .round_ms = ROUND_MS, .arg = ARG, .refs = {                                  \
            { "raw", BENCH_OURS, raw }                                                             \
        }                                                                                          \
    }

static bench_case_t cases[] = {
    CASE("bfs", BFS, "breadth-first search from a random source"),
    CASE("pagerank", PAGERANK, "PageRank, 20 sweeps"),
    CASE("components", COMPONENTS, "connected components"),
    CASE("betweenness", BETWEENNESS, "betweenness from a random source"),
    CASE("cdlp", CDLP, "communities, 10 rounds of label propagation"),
    CASE("lcc", LCC, "local clustering coefficients"),
    CASE("triangles", TRIANGLES, "number of triangles"),
    CASE("sssp", SSSP, "distances from a random source, weights 1 to 255"),
};

static void prepare(void)
{
    (void)sched_getaffinity(0, sizeof all_cores, &all_cores);
    for (int i = 0; gap_folder && i < N_ALGORITHMS; i++) {
        const char *program;
        (void)gap_options(cases[i].arg, &program);
        if (program)
            cases[i].refs[1] = (bench_ref_t){ "gap", BENCH_OURS, gap };
    }
}

static const bench_program_t program = { .name = "pgas_graph",
                                         .doc = "algorithms on a Kronecker graph",
                                         .ranks = BENCH_ANY,
                                         .label = "Time",
                                         BENCH_CASES(cases),
                                         .prepare = prepare,
                                         .teardown = drop_graph,
                                         .threads = true,
                                         .figures = list_figures,
                                         .options = options };

int main(int argc, char **argv)
{
    bench_opt.threads = 1;
    return bench_main(&program, argc, argv);
}
