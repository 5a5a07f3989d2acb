/** Directed graphs over all ranks: reading them in parallel, and PageRank.
 *
 *      pgas_graph_read("links.el", NULL, &graph);
 *      info.size = sizeof info;
 *      pgas_graph_info(graph, &info);
 *      double *values = malloc((info.n_local + 1) * sizeof *values);
 *      pgas_pagerank(graph, NULL, values, NULL);
 *      pgas_graph_print_top(graph, values, 10, stdout);
 *
 *  Vertices have the numbers 0 .. n_vertices-1. Each rank holds a block of vertices with their
 *  out-edges: rank r holds r*block .. (r+1)*block-1, where block is n_vertices / n_ranks, rounded
 *  up. A rank holds at most 2^32-1 vertices and 2^32-1 edges. A graph may have loops and multiple
 *  edges. The same input gives the same graph on any number of ranks.
 *
 *  Functions that communicate are collective: all ranks call them, one at a time, from one thread
 *  of each rank, and get the same status. Other functions are local.
 *
 *  Statuses: PGAS_ERR_INVALID also for a NULL argument; PGAS_ERR_PEER: a rank died;
 *  PGAS_ERR_NO_MEMORY; PGAS_ERR_NOT_INIT; PGAS_ERR_CONTEXT. */
#ifndef PGAS_GRAPH_H
#define PGAS_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** A graph. Opaque; each rank has a part of it. */
typedef struct pgas_graph pgas_graph_t;

/** Formats of text.
 *
 *  NAMES  A line `a<TAB>b` is an edge from a to b; a line with one name is a vertex. A name has
 *         at most 4095 bytes. Vertices are numbered in the order of their first appearance.
 *  EL     A line `u v` is an edge: two decimal numbers with blanks or tabs between them. Vertices
 *         are 0 .. the greatest number that occurs.
 *  MTX    Matrix Market: a square matrix in coordinate form, whose values are ignored. In a
 *         symmetric one an entry off the diagonal is two edges.
 *  AUTO   The end of the file's name determines the format: .el, .mtx, .tsv or .names. Otherwise
 *         the first lines do.
 *
 *  Empty lines are skipped. So are lines that begin with # or % in EL, and with % in MTX. Lines
 *  have at most 64 KiB. Compressed input, UTF-16 and weights give PGAS_ERR_FORMAT. */
typedef enum {
    PGAS_GRAPH_AUTO = 0,
    PGAS_GRAPH_NAMES,
    PGAS_GRAPH_EL,
    PGAS_GRAPH_MTX
} pgas_graph_format_t;

/** The library calls it on rank 0 from time to time during a long phase. done and total count bytes
 *  in the phase "read" (of a stream: lines), and sweeps in the phase "rank". An unknown total is 0.
 *  In the last call of a phase done equals total. */
typedef void (*pgas_graph_progress_fn_t)(const char *phase, uint64_t done, uint64_t total,
                                         void *arg);

/** Options of pgas_graph_read; zero means default (PGAS_GRAPH_READ_OPTS_INIT). Those of rank 0 are
 *  used. */
typedef struct {
    size_t size;
    pgas_graph_format_t format;
    pgas_graph_progress_fn_t progress; /* NULL: none */
    void *progress_arg;
} pgas_graph_read_opts_t;

/** Reads a graph from a file, or from standard input if path is "-". Path and options of rank 0 are
 *  used.
 *  Cost:   per rank 40 bytes an edge while reading and 8 afterwards, 8 bytes a vertex, and the
 *          names twice. Each rank reads its own part of a regular file; rank 0 reads other files.
 *  Done:   after an error of the input the log names file, line and reason once.
 *  @return PGAS_ERR_IO      the file is missing, unreadable, or became shorter
 *          PGAS_ERR_FORMAT  the text is malformed, truncated or empty
 *          PGAS_ERR_RANGE   a vertex number is negative, above 2^63-1 or outside of the matrix
 *          PGAS_ERR_LIMIT   a rank would hold too many vertices or edges; or PGAS_CALL_MAX is too
 *                           small for a message: 16 bytes for an edge, 16 and the longest name,
 *                           4112 for standard input */
PGAS_API pgas_status_t pgas_graph_read(const char *path, const pgas_graph_read_opts_t *opts,
                                       pgas_graph_t **graph_p);

/** Options of pgas_graph_generate; zero means default. Those of rank 0 are used. */
typedef struct {
    size_t size;
    uint64_t n_vertices;  /* 1 .. 2^40; default 65536 */
    int edges_per_vertex; /* 1 .. 2^20; default 16 */
    uint64_t seed;        /* default 1 */
} pgas_graph_generate_opts_t;

/** Makes a random graph whose degrees follow a power law. @return as pgas_graph_read.
 *  Source: R-MAT (Chakrabarti, Zhan, Faloutsos 2004) with the Graph500 probabilities .57 .19 .19
 *          .05. A bijection renumbers the vertices, so that those of high degree are spread. */
PGAS_API pgas_status_t pgas_graph_generate(const pgas_graph_generate_opts_t *opts,
                                           pgas_graph_t **graph_p);

/** Makes a graph of edges that the ranks hold: edge i goes from ends[2*i] to ends[2*i+1].
 *  @return as pgas_graph_read, and:
 *          PGAS_ERR_RANGE     an end is not below n_vertices
 *          PGAS_ERR_MISMATCH  n_vertices differs between ranks */
PGAS_API pgas_status_t pgas_graph_create(uint64_t n_vertices, const uint64_t *ends, size_t n_edges,
                                         pgas_graph_t **graph_p);

/** Frees the caller's part. Local. NULL is ignored. */
PGAS_API pgas_status_t pgas_graph_destroy(pgas_graph_t *graph);

/** A graph and the caller's part of it. Vertex first_vertex + i, i < n_local, has the out-edges to
 *  targets[offsets[i]] .. targets[offsets[i + 1] - 1], in rising order. The pointers are valid as
 *  long as the graph exists. */
typedef struct {
    size_t size; /* the caller sets it */
    uint64_t n_vertices, n_edges;
    uint64_t block; /* vertices per rank, except the last ones: vertex / block is its rank */
    uint64_t first_vertex, n_local;
    const uint64_t *offsets; /* n_local + 1 of them */
    const uint64_t *targets;
    bool has_names;
    double seconds; /* that this rank took to read or make it */
} pgas_graph_info_t;
/** Describes the graph. Local. */
PGAS_API pgas_status_t pgas_graph_info(const pgas_graph_t *graph, pgas_graph_info_t *info_p);

/** Gets the names of n vertices of any rank, each rank those of its own choice: names[i] is that of
 *  vertices[i]. In a graph without names they are the numbers as text. The caller frees each
 *  names[i].
 *  @return PGAS_ERR_RANGE  on some rank, a vertex does not exist */
PGAS_API pgas_status_t pgas_graph_names(const pgas_graph_t *graph, const uint64_t *vertices,
                                        size_t n, char **names);

/** A vertex and its value. */
typedef struct {
    uint64_t vertex;
    double value;
} pgas_graph_top_t;

/** Finds the n vertices with the greatest values, ordered by falling value, then by rising number.
 *  values[i] belongs to vertex first_vertex + i. The least n of all ranks is used. *n_p is n, or
 *  the number of vertices if that is less. top and *n_p are the same on all ranks. */
PGAS_API pgas_status_t pgas_graph_top(const pgas_graph_t *graph, const double *values, int n,
                                      pgas_graph_top_t *top, int *n_p);

/** Prints them on rank 0, in lines `RANK NAME-OR-NUMBER VALUE`: RANK counts from 1, VALUE as %.6e.
 *  @return as pgas_graph_top; PGAS_ERR_IO: writing failed. */
PGAS_API pgas_status_t pgas_graph_print_top(const pgas_graph_t *graph, const double *values, int n,
                                            FILE *out);

/** A function of the program that runs work(i, n, arg) for i = 0 .. n-1 at the same time, and
 *  returns when all calls have returned. It chooses n, at most n_threads. The calling thread runs
 *  i = 0. The threads must be attached (pgas_thread_attach) while they run work. */
typedef void (*pgas_graph_work_fn_t)(int i, int n, void *arg);
typedef void (*pgas_graph_parallel_fn_t)(int n_threads, pgas_graph_work_fn_t work, void *arg);

/** Options of pgas_pagerank; zero means default. Those of rank 0 are used, except that n_threads
 *  and parallel are each rank's own. */
typedef struct {
    size_t size;
    double damping; /* above 0, up to 1; default 0.85 */
    int iterations; /* number of sweeps; default 20. With a tolerance: their limit; default 1000 */
    double tolerance; /* end when a sweep changes the values by no more in all; default: never */
    bool no_dangling; /* the values of vertices without out-edges are lost, not spread over all */
    int n_threads;    /* threads of this rank; default 1. More than 1 need parallel */
    pgas_graph_parallel_fn_t parallel; /* for example an OpenMP region */
    pgas_graph_progress_fn_t progress; /* NULL: none */
    void *progress_arg;
} pgas_pagerank_opts_t;

/** The result of pgas_pagerank. */
typedef struct {
    size_t size;     /* the caller sets it */
    int iterations;  /* number of sweeps */
    double change;   /* sum of the absolute changes in the last sweep */
    double sum;      /* of all values; 1 unless no_dangling */
    uint64_t n_sent; /* values that this rank sent to others in each sweep */
    double seconds;  /* on this rank, for the layout (first call) and the sweeps */
} pgas_pagerank_info_t;

/** Computes PageRank by Jacobi sweeps in double. Values start at 1/n. A sweep gives each vertex
 *  (1-damping)/n, plus damping times the sum of two parts. The first part is the values of its
 *  predecessors, each divided by the predecessor's out-degree. The second is an equal share of the
 *  values of all vertices without out-edges. info_p may be NULL.
 *  Done:   values[i], i < n_local, is the value of vertex first_vertex + i. For one number of ranks
 *          the bits are the same each time, with any number of threads.
 *  Cost:   the first call for a graph makes a layout, which stays until the graph is destroyed:
 *          4 bytes for each edge that leads to own vertices, and about 50 bytes a vertex; 16 bytes
 *          an edge meanwhile. Further calls allocate nothing. In a sweep each rank sends 8 bytes
 *          for each own vertex to each other rank that has a vertex behind it.
 *  @return PGAS_ERR_INVALID  also for damping, iterations or tolerance out of range
 *          PGAS_ERR_LIMIT    PGAS_CALL_MAX is below 16, or a rank would know 2^32-1 vertices */
PGAS_API pgas_status_t pgas_pagerank(const pgas_graph_t *graph, const pgas_pagerank_opts_t *opts,
                                     double *values, pgas_pagerank_info_t *info_p);

PGAS_END_DECLS

#include "pgas/detail/graph.h"
#endif
