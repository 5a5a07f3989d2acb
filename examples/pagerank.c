/* pagerank: ranks the vertices of a graph. All processes read the graph and rank it together, by
 * the functions of pgas/graph.h.
 *
 *   tools/debian-graph | mpirun -n 2 build/examples/pagerank - --tolerance 1e-10 --check */
#include <getopt.h>
#include <pgas/graph.h>
#include <pgas/pgas.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pagerank_check.h"
#include "usage.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#ifndef PROGRAM
#define PROGRAM "pagerank"
#endif

static const char usage[] = PROGRAM
    " FILE|- [options]   or   " PROGRAM " --generate VERTICES [options]\n"
    "  --format names|el|mtx  of the input (default: by the file's name or its first lines)\n"
    "  --iterations K         make K sweeps (20); with --tolerance at most K (1000)\n"
    "  --tolerance T          stop when a sweep changes the values by no more than T in all\n"
    "  --damping D            above 0, up to 1 (0.85)\n"
    "  --no-dangling          drop the mass of vertices without out-edges instead of spreading it\n"
    "  --top N                print the first N vertices (10)\n"
    "  --check                compare with a serial computation\n"
    "  --threads N            OpenMP threads of each process (1)\n";

/* Threads in which the library works. Each is attached while it works. */
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

/* The options, set by parse. */
static const char *path; /* NULL: generate a graph */
static pgas_graph_read_opts_t reading = { sizeof reading, .progress = show_progress };
static pgas_graph_generate_opts_t making = PGAS_GRAPH_GENERATE_OPTS_INIT;
static pgas_pagerank_opts_t ranking = { sizeof ranking, .parallel = run_threads,
                                        .progress = show_progress };
static int n_top = 10;
static bool check;

static const struct option options[] = {
    { "format", 1, 0, 'f' },
    { "iterations", 1, 0, 'i' },
    { "tolerance", 1, 0, 't' },
    { "damping", 1, 0, 'd' },
    { "no-dangling", 0, 0, 'n' },
    { "top", 1, 0, 'p' },
    { "check", 0, 0, 'c' },
    { "threads", 1, 0, 'm' },
    { "generate", 1, 0, 'g' },
    { "help", 0, 0, 'h' },
    { 0, 0, 0, 0 },
};

static bool parse_vertices(void)
{
    double n;
    if (!usage_real(optarg, 1, 1e12, &n) || n != (double)(uint64_t)n)
        return false;
    making.n_vertices = (uint64_t)n;
    return true;
}

static bool parse_format(void)
{
    static const char *const names[] = { NULL, "names", "el", "mtx" };
    for (int i = PGAS_GRAPH_NAMES; i <= PGAS_GRAPH_MTX; i++)
        if (strcmp(optarg, names[i]) == 0)
            reading.format = (pgas_graph_format_t)i;
    return reading.format != PGAS_GRAPH_AUTO;
}

/* @return whether the option's value is possible */
static bool set_option(int letter)
{
    switch (letter) {
    case 'f':
        return parse_format();
    case 't':
        return usage_real(optarg, 1e-300, 2, &ranking.tolerance);
    case 'd':
        return usage_real(optarg, 1e-300, 1, &ranking.damping);
    case 'i':
        return usage_int(optarg, 1, 1e9, &ranking.iterations);
    case 'm':
        return usage_int(optarg, 1, 1024, &ranking.n_threads);
    case 'p':
        return usage_int(optarg, 0, 1e6, &n_top);
    case 'g':
        return parse_vertices();
    case 'n':
        ranking.no_dangling = true;
        return true;
    default:
        check = true;
        return true;
    }
}

/* Sets the options above, or ends the program. */
static void parse(int argc, char **argv)
{
    int index = 0, letter, rank = pgas_launcher_rank();
    char words[200];
    opterr = 0;
    while ((letter = getopt_long(argc, argv, ":", options, &index)) != -1) {
        if (letter == 'h')
            usage_exit(rank, usage, NULL, "");
        if (letter == '?' || letter == ':')
            usage_refuse(rank, argv, usage, letter);
        if (!set_option(letter)) {
            snprintf(words, sizeof words, "--%s %s", options[index].name, optarg);
            usage_exit(rank, usage, "not possible", words);
        }
    }
    if (argc - optind != (making.n_vertices == 0))
        usage_exit(rank, usage, "not possible", "a number of files");
    path = argv[optind];
}

static void print_info(const pgas_graph_info_t *read, const pgas_pagerank_info_t *ranked)
{
    printf("# %d ranks, %llu vertices, %llu edges\n", pgas_n_ranks(),
           (unsigned long long)read->n_vertices, (unsigned long long)read->n_edges);
    printf("# read %.3f s\n", read->seconds);
    printf("# rank %.3f s: %d sweeps, change %.1e\n", ranked->seconds, ranked->iterations,
           ranked->change);
}

static pgas_status_t run(void)
{
    pgas_graph_t *graph = NULL;
    pgas_graph_info_t read = { .size = sizeof read };
    pgas_pagerank_info_t ranked = { .size = sizeof ranked };
    pagerank_check_t checked = { .good = true };
    pgas_status_t status =
        path ? pgas_graph_read(path, &reading, &graph) : pgas_graph_generate(&making, &graph);
    if (status != PGAS_OK)
        return status; /* the same on all ranks; the log names the cause */

    pgas_graph_info(graph, &read);
    double *values = malloc((read.n_local + 1) * sizeof *values); /* of this rank's vertices */
    status = pgas_pagerank(graph, &ranking, values, &ranked);
    ranking.iterations = ranked.iterations;
    if (status == PGAS_OK && check)
        status = pagerank_check(graph, &ranking, values, &checked);

    if (status == PGAS_OK && pgas_rank() == 0) {
        print_info(&read, &ranked);
        if (check)
            printf("# check %.3f s: L1 difference to serial %.1e, %s top ten: %s\n",
                   checked.seconds, checked.l1, checked.same_top ? "same" : "another",
                   checked.good ? "right" : "WRONG");
    }
    if (status == PGAS_OK)
        status = pgas_graph_print_top(graph, values, n_top, stdout);
    free(values);
    pgas_graph_destroy(graph);
    return checked.good ? status : PGAS_ERR_MISMATCH;
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    pgas_status_t status = run();
    if (pgas_rank() == 0 && status != PGAS_OK)
        fprintf(stderr, PROGRAM ": %s\n", pgas_status_text(status));
    pgas_finalize();
    return status != PGAS_OK;
}
