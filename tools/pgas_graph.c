/* pgas_graph: runs an algorithm of pgas/graph.h on a graph, checks the result and writes it.
 * Installed; mpirun starts it on any number of processes.
 *
 *   mpirun -n 2 build/tools/pgas_graph pagerank web.el --top 10 --check
 *   mpirun -n 2 build/tools/pgas_graph bfs --rmat 20 --roots 64 --threads 2 */
#include <pgas/coll.h>
#include <pgas/info.h>
#include <pgas/init.h>
#include <pgas/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include "graph_tool.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum { EXIT_RIGHT, EXIT_WRONG, EXIT_SKIPPED };

/* Runs work on OpenMP threads. Each thread is attached to the library while it works. */
static void run_threads(int n, pgas_graph_work_fn_t work, void *arg)
{
#ifdef _OPENMP
#pragma omp parallel num_threads(n)
    {
        pgas_thread_attach();
        work(omp_get_thread_num(), omp_get_num_threads(), arg);
        pgas_thread_detach();
    }
#else
    (void)n;
    work(0, 1, arg);
#endif
}

static void show_progress(const char *phase, uint64_t done, uint64_t total, void *arg)
{
    (void)arg;
    pgas_progress_show(phase, done, total, NULL);
}

/* ---- numbers of all ranks ---- */

static pgas_status_t sum_up(tool_job_t *job, tool_report_t *report)
{
    const pgas_graph_info_t *info = &job->info;
    uint64_t sums[3] = { info->bytes, info->n_ghosts, 0 };
    uint64_t most[2] = { 0, info->labels != NULL };
    for (uint64_t id = 0; id < info->n_local; id++) {
        uint64_t degree = info->out.begin[id + 1] - info->out.begin[id];
        sums[2] += degree == 0;
        most[0] = degree > most[0] ? degree : most[0];
    }
    pgas_status_t status = pgas_allreduce(NULL, sums, sums, 3, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, most, most, 2, PGAS_U64, PGAS_MAX);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &info->seconds, &report->seconds_read, 1, PGAS_F64, PGAS_MAX);
    report->bytes = sums[0];
    report->n_ghosts = sums[1];
    report->n_without_edges = sums[2];
    report->degree_max = most[0];
    job->has_labels = most[1] != 0;
    return status;
}

/* ---- runs ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* @return the edges that the last run followed; an undirected edge counts once */
static double edges_followed(const tool_job_t *job)
{
    double n = (double)job->ran.n_edges;
    if (!job->info.directed)
        n /= 2;
    return tool_algorithm(job->opts->command)->all_edges_each_time ? n * job->ran.iterations : n;
}

/* Sorts the seconds. n_followed: edges of each run; slowness: sum of seconds per edge. */
static void summarize(double *seconds, int n, double n_followed, double slowness,
                      tool_times_t *times)
{
    qsort(seconds, (size_t)n, sizeof *seconds, by_value);
    times->n = n;
    times->min = seconds[0];
    times->median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
    times->max = seconds[n - 1];
    times->edges_per_second = times->median > 0 ? n_followed / times->median : 0;
    if (slowness > 0)
        times->edges_per_second = n / slowness;
}

/* Runs from each root, --repeat times each. */
static pgas_status_t run_all(tool_job_t *job, tool_check_t *check, tool_times_t *times)
{
    int n_roots = job->opts->n_roots > 0 ? (int)job->n_sources : 1, n = 0;
    double *seconds = malloc((size_t)n_roots * (size_t)job->opts->n_repeats * sizeof *seconds);
    double slowness = 0; /* with several roots */
    pgas_status_t status = seconds ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    for (int root = 0; root < n_roots && status == PGAS_OK; root++) {
        for (int turn = 0; turn < job->opts->n_repeats && status == PGAS_OK; turn++) {
            status = tool_run(job, job->sources[root]);
            if (status != PGAS_OK)
                break;
            seconds[n++] = job->ran.seconds;
            if (n_roots > 1 && job->ran.n_edges > 0)
                slowness += job->ran.seconds / edges_followed(job);
        }
        if (status == PGAS_OK && job->opts->check)
            status = tool_check(job, job->sources[root], check);
    }
    if (status == PGAS_OK)
        summarize(seconds, n, edges_followed(job), slowness, times);
    free(seconds);
    return status;
}

/* Sets the name of the only source on rank 0. */
static pgas_status_t name_source(const tool_job_t *job, char **name_p)
{
    size_t n = pgas_rank() == 0 && job->n_sources == 1;
    return job->n_sources == 1 ? pgas_graph_names(job->graph, job->sources, n, name_p) : PGAS_OK;
}

static pgas_status_t write_values(const tool_job_t *job, tool_report_t *report)
{
    tool_text_t text = { NULL, 0, 0, false };
    report->seconds_written -= pgas_time();
    pgas_status_t status = tool_values_text(job, &text);
    if (status == PGAS_OK)
        status = tool_write(job->opts->output, &text);
    tool_text_free(&text);
    report->seconds_written += pgas_time();
    return status;
}

static bool alloc_values(tool_job_t *job)
{
    const tool_options_t *opts = job->opts;
    size_t n = job->info.n_local + (size_t)1;
    if (tool_algorithm(opts->command)->values != TOOL_NO_VALUES)
        job->values = calloc(n, 8);
    bool wants_parents = opts->command == TOOL_BFS && (opts->check || opts->parents);
    if (wants_parents)
        job->parents = calloc(n, sizeof *job->parents);
    return (job->values || opts->command == TOOL_TRIANGLES) && (job->parents || !wants_parents);
}

/* Rank 0 reports. All ranks get an error if rank 0 cannot write; rank 0 has printed the reason. */
static pgas_status_t report_on(const tool_report_t *report)
{
    int32_t good = pgas_rank() != 0 || tool_report(report);
    pgas_status_t status = pgas_broadcast(NULL, &good, sizeof good, 0);
    return status == PGAS_OK && !good ? PGAS_ERR_IO : status;
}

static pgas_status_t run_algorithm(tool_job_t *job, tool_report_t *report, tool_check_t *check)
{
    char *name = NULL;
    int32_t good = alloc_values(job);
    pgas_status_t status = pgas_allreduce(NULL, &good, &good, 1, PGAS_I32, PGAS_MIN);
    if (status == PGAS_OK && !good)
        status = PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK)
        status = tool_find_sources(job);
    if (status == PGAS_OK)
        status = run_all(job, check, &report->times);
    if (status == PGAS_OK && job->opts->n_top > 0)
        status = tool_find_top(job, &report->top);
    if (status == PGAS_OK)
        status = name_source(job, &name);
    if (status == PGAS_OK && job->opts->output)
        status = write_values(job, report);
    report->source = name;
    if (status == PGAS_OK)
        status = report_on(report);
    tool_top_free(&report->top);
    free(name);
    free(job->values);
    free(job->parents);
    free(job->sources);
    check_graph_free(&check->graph);
    return status;
}

/* ---- the command ---- */

static pgas_status_t convert(const tool_job_t *job, tool_report_t *report)
{
    report->seconds_written = -pgas_time();
    pgas_status_t status = pgas_graph_write(job->graph, job->opts->output);
    report->seconds_written += pgas_time();
    return status == PGAS_OK ? report_on(report) : status;
}

static pgas_status_t run(tool_options_t *opts, int *exit_p)
{
    tool_job_t job = { .opts = opts, .info = { .size = sizeof job.info } };
    tool_check_t check = { .gathered = false };
    tool_report_t report = { .job = &job, .check = &check };
    opts->graph.progress = show_progress;
    opts->run.progress = show_progress;
    opts->run.parallel = run_threads;
    pgas_status_t status = opts->path ? pgas_graph_read(opts->path, &opts->graph, &job.graph)
                                      : pgas_graph_generate(&opts->graph, &job.graph);
    if (status == PGAS_OK)
        status = pgas_graph_info(job.graph, &job.info);
    if (status == PGAS_OK)
        status = sum_up(&job, &report);
    if (status == PGAS_OK && opts->command == TOOL_INFO)
        status = report_on(&report);
    else if (status == PGAS_OK && opts->command == TOOL_CONVERT)
        status = convert(&job, &report);
    else if (status == PGAS_OK)
        status = run_algorithm(&job, &report, &check);
    pgas_graph_destroy(job.graph);
    *exit_p = (int)check.verdict.result;
    return status;
}

int main(int argc, char **argv)
{
    tool_options_t opts = tool_parse(argc, argv);
    int code = EXIT_RIGHT;
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return EXIT_WRONG;
    pgas_status_t status = run(&opts, &code);
    if (status != PGAS_OK && pgas_rank() == 0)
        fprintf(stderr, "pgas_graph: %s\n", pgas_status_text(status));
    pgas_finalize();
    return status != PGAS_OK ? EXIT_WRONG : code;
}
