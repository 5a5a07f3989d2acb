/* The parts of the command pgas_graph. */
#ifndef TOOLS_GRAPH_TOOL_H
#define TOOLS_GRAPH_TOOL_H

#include <pgas/graph.h>
#include <stdbool.h>
#include "graph_check.h"

/* ---- options (graph_options.c) ---- */

typedef enum {
    TOOL_BFS,
    TOOL_PAGERANK,
    TOOL_WCC,
    TOOL_SSSP,
    TOOL_CDLP,
    TOOL_LCC,
    TOOL_TRIANGLES,
    TOOL_BETWEENNESS,
    TOOL_CONVERT,
    TOOL_INFO,
    TOOL_N
} tool_command_t;

typedef struct {
    tool_command_t command;
    const char *path; /* NULL: a generated graph */
    pgas_graph_opts_t graph;
    pgas_graph_run_opts_t run;
    const char *source; /* NULL: the vertex with the most out-edges */
    int n_roots;        /* random sources, a run from each; 0: none */
    int n_sources;      /* of betweenness: random sources of one run; 0: none */
    uint64_t seed;      /* of random sources */
    int n_top, n_repeats;
    const char *output; /* NULL: none; "-": standard output */
    bool parents, check, json;
    uint64_t check_bytes; /* memory that the check may take; 0: what is free */
} tool_options_t;

/* The word for a command: "bfs", .. */
const char *tool_command_name(tool_command_t command);

/* Reads the command line. It ends the program at --help and at a bad option. */
tool_options_t tool_parse(int argc, char **argv);

/* ---- a job and its algorithms (graph_algorithms.c) ---- */

typedef enum { TOOL_NO_VALUES, TOOL_LEVELS, TOOL_PARENTS, TOOL_VERTICES, TOOL_REALS } tool_values_t;

/* The caller's part of a run. Each element of values has 8 bytes and belongs to the rank's vertex
 * first_vertex + i. */
typedef struct {
    const tool_options_t *opts;
    pgas_graph_t *graph;
    pgas_graph_info_t info;
    bool has_labels; /* on any rank */
    void *values;
    int64_t *parents; /* NULL if neither --parents nor --check needs them */
    uint64_t n_triangles;
    uint64_t *sources; /* the same on all ranks */
    size_t n_sources;
    pgas_graph_run_info_t ran; /* seconds: the longest of all ranks; n_sent: of all ranks */
} tool_job_t;

typedef struct {
    const char *name;
    tool_values_t values;
    const char *iterations, *found; /* words for the two counts of a run; NULL: not printed */
    bool all_edges_each_time;       /* an iteration follows all edges */
    pgas_status_t (*run)(tool_job_t *job, uint64_t source);
    /* On rank 0. values and parents are those of all vertices. */
    check_verdict_t (*check)(const tool_job_t *job, check_graph_t *whole, uint64_t source,
                             const void *values, const int64_t *parents);
} tool_algorithm_t;

/* NULL for a command that runs no algorithm. */
const tool_algorithm_t *tool_algorithm(tool_command_t command);
/* @return the type of the values for output: of job->values or, with --parents, of the parents */
tool_values_t tool_values(const tool_options_t *opts);

/* One run: sets the values and job->ran. Collective. */
pgas_status_t tool_run(tool_job_t *job, uint64_t source);

/* ---- sources (graph_sources.c) ---- */

/* Sets job->sources. Collective. @return PGAS_ERR_NOT_FOUND: no vertex has the name */
pgas_status_t tool_find_sources(tool_job_t *job);

/* ---- the check (graph_whole.c) ---- */

/* The whole graph on rank 0, between the checks of several runs. */
typedef struct {
    check_graph_t graph;
    bool gathered;
    double seconds;
    check_verdict_t verdict; /* the worst so far; the same on all ranks */
} tool_check_t;

/* Checks the last run. Collective. */
pgas_status_t tool_check(const tool_job_t *job, uint64_t source, tool_check_t *check);

/* ---- output (graph_output.c, graph_text.c) ---- */

/* A growing text. */
typedef struct {
    char *bytes;
    size_t n, room;
    bool failed; /* out of memory */
} tool_text_t;
__attribute__((format(printf, 2, 3))) void tool_text_add(tool_text_t *text, const char *format,
                                                         ...);
void tool_text_free(tool_text_t *text);

/* Appends a line `VERTEX VALUE` for each vertex of this rank, in rising order. Collective. */
pgas_status_t tool_values_text(const tool_job_t *job, tool_text_t *text);

/* Rank 0 writes the texts of all ranks, by rank, to a temporary file that replaces the file at the
 * end; standard output, devices and pipes are written directly. Collective.
 * @return PGAS_ERR_IO: rank 0 has printed the reason */
pgas_status_t tool_write(const char *path, const tool_text_t *text);

/* ---- reports (graph_report.c, graph_top.c) ---- */

/* Times of runs, the same on all ranks. */
typedef struct {
    int n;
    double min, median, max;
    double edges_per_second; /* of the median; with several roots, the harmonic mean */
} tool_times_t;

/* Vertices with the greatest values, or the greatest groups. The names are on rank 0 only. */
typedef struct {
    int n;
    pgas_graph_top_t *entries;
    char **names;
} tool_top_t;

/* Collective. */
pgas_status_t tool_find_top(const tool_job_t *job, tool_top_t *top);
void tool_top_free(tool_top_t *top);

/* The results of the command, for the summary and for --json. */
typedef struct {
    const tool_job_t *job;
    double seconds_read, seconds_written;
    uint64_t bytes; /* of memory, on all ranks */
    uint64_t n_ghosts, degree_max, n_without_edges;
    tool_times_t times;
    const char *source; /* name of the source; NULL: there are none or several */
    const tool_check_t *check;
    tool_top_t top;
} tool_report_t;

/* On rank 0. @return whether it was written */
bool tool_report(const tool_report_t *report);

#endif
