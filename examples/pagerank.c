/* pagerank: ranks the vertices of a graph. All processes read and rank together; how to call that:
 * pgas/graph.h.
 *   tools/debian-graph | mpirun -n 2 build/examples/pagerank - --tolerance 1e-10 --check */
#include <getopt.h>
#include <pgas/graph.h>
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"
#ifdef _OPENMP
#include <omp.h>
#endif
#ifndef PROGRAM
#define PROGRAM "pagerank"
#endif
static const char *path, /* none: generate */
    usage[] = PROGRAM
    " FILE|- [options]   or   " PROGRAM " --generate VERTICES [options]\n"
    "  --format names|el|mtx  of the input (default: by the file's name or its first lines)\n"
    "  --iterations K         make K sweeps (20); with --tolerance at most K (1000)\n"
    "  --tolerance T          stop when a sweep changes the values by no more than T in all\n"
    "  --damping D            above 0, up to 1 (0.85)\n"
    "  --no-dangling          the mass of vertices without out-edges is lost, not spread\n"
    "  --top N                print the first N vertices (10)\n"
    "  --check                compare with a serial computation\n"
    "  --threads N            OpenMP threads of each process (1)\n";
/* Threads for the library to work with; each is attached while it does. */
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

static pgas_graph_read_opts_t reading = { sizeof reading, .progress = pgas_graph_progress_bar };
static pgas_graph_generate_opts_t making = PGAS_GRAPH_GENERATE_OPTS_INIT;
static pgas_pagerank_opts_t ranking = { sizeof ranking, .parallel = run_threads,
                                        .progress = pgas_graph_progress_bar };
static int n_top = 10, check, good = 1; /* good: no option is wrong so far */

/* all whole numbers to come have a place in a double */
static double number(double least, double most, int whole)
{
    char *end;
    double value = strtod(optarg, &end);
    good &=
        end != optarg && *end == '\0' && (optarg[1] | 32) != 'x' && value >= least && value <= most;
    return (good &= !good || !whole || value == (double)(uint64_t)value) ? value : 0;
}

static void parse(int argc, char **argv) /* sets the options above, or ends the program */
{
    int index = 0, rank = pgas_launcher_rank();
    char words[200]; /* of the option that is wrong */
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
    opterr = 0;
    for (int option; good && (option = getopt_long(argc, argv, ":", options, &index)) != -1;)
        switch (option) {
        case 'f':
            good &= pgas_graph_format_of(optarg, &reading.format) == PGAS_OK;
            break;
        case 't':
            ranking.tolerance = number(1e-300, 2, 0);
            break;
        case 'd':
            ranking.damping = number(1e-300, 1, 0);
            break;
        case 'i':
            ranking.iterations = (int)number(1, 1e9, 1);
            break;
        case 'm':
            ranking.n_threads = (int)number(1, 1024, 1);
            break;
        case 'p':
            n_top = (int)number(0, 1e6, 1);
            break;
        case 'n':
            ranking.no_dangling = true;
            break;
        case 'c':
            check = 1;
            break;
        case 'h':
            usage_exit(rank, usage, NULL, "");
            break;
        case 'g':
            making.n_vertices = (uint64_t)number(1, 1e12, 1);
            break;
        default:
            usage_refuse(rank, argv, usage, option);
        }
    snprintf(words, sizeof words, "--%s %s", options[index].name, optarg ? optarg : "");
    if (!good || argc - optind != (making.n_vertices == 0))
        usage_exit(rank, usage, "not possible", good ? "a number of files" : words);
    path = argv[optind];
}

static pgas_status_t run(void)
{
    pgas_graph_t *graph = NULL;
    pgas_graph_info_t read;
    pgas_pagerank_info_t ranked;
    pgas_pagerank_check_t checked = { .good = true };
    pgas_status_t status =
        path ? pgas_graph_read(path, &reading, &graph) : pgas_graph_generate(&making, &graph);
    if (status != PGAS_OK)
        return status; /* the same on all ranks; the log has said why */
    pgas_graph_info(graph, &read);
    /* of this rank's vertices */
    double *values = (double *)malloc((read.n_local + 1) * sizeof(double));
    status = pgas_pagerank(graph, &ranking, values, &ranked);
    if (status == PGAS_OK && check)
        status = pgas_pagerank_check(graph, &ranking, ranked.iterations, values, &checked);
    if (status == PGAS_OK && pgas_rank() == 0) {
        printf("# %d ranks, %llu vertices, %llu edges\n# read %.3f s\n# rank %.3f s: %d sweeps, "
               "change %.1e\n",
               pgas_n_ranks(), (unsigned long long)read.n_vertices,
               (unsigned long long)read.n_edges, read.seconds, ranked.seconds, ranked.iterations,
               ranked.change);
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
