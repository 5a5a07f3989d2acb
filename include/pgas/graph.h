/** Directed graphs over all ranks: read in parallel, stored by rows, ranked by PageRank.
 *
 *  Vertices are 0 .. n_vertices-1 in blocks: rank r holds vertices r*block .. (r+1)*block-1 with
 *  block = n_vertices / n_ranks, rounded up (the last ranks may hold fewer or none), and their
 *  out-edges. A graph is a multigraph: edges that stand twice in a file count twice, loops stay.
 *  The same input gives the same graph, with the same numbers and order of edges, on any number of
 *  ranks.
 *
 *  This is an engine on top of the library: it uses public calls only, as a program could. All
 *  functions that take part in communication are collective over all ranks, one at a time, from one
 *  thread per rank, and give the same status on all ranks; the queries are local and may be used by
 *  any thread. A rank holds at most 2^32-1 vertices and 2^32-1 edges. */
#ifndef PGAS_GRAPH_H
#define PGAS_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** Opaque; part of it on each rank. */
typedef struct pgas_graph pgas_graph_t;

/* ---- making graphs ---- */

/** NAMES  `a<TAB>b` is an edge from a to b, a line with one name a vertex. Names are any bytes but
 *         tab, line end and NUL, up to 4095. Vertices are numbered in the order of their first
 *         appearance.
 *  EL     `u v`, decimal numbers separated by blanks or tabs. Vertices are 0 .. the greatest number
 *         that occurs.
 *  MTX    Matrix Market: coordinate; pattern, integer or real (values are ignored); general, or
 *         symmetric (an entry off the diagonal is two edges); square; entry `i j` is the edge from
 *         i-1 to j-1.
 *  Empty lines are skipped everywhere, lines that begin with # or % in EL, with % in MTX. The end
 *  of a line may be CR LF, that of the last line may be missing. Lines have at most 64 KiB. The
 *  reader skips a byte-order mark before the text. Compressed and UTF-16 input gives
 *  PGAS_ERR_FORMAT, and the log names the encoding. So does a numeric third column in EL or NAMES,
 *  because weights are not supported.
 *  AUTO   by the name (.el, .mtx, .tsv or .names), else by the first lines: %%MatrixMarket, two
 *         numbers, other: then some line must have a tab, or the text is refused. */
typedef enum {
    PGAS_GRAPH_AUTO = 0,
    PGAS_GRAPH_NAMES,
    PGAS_GRAPH_EL,
    PGAS_GRAPH_MTX
} pgas_graph_format_t;

/** The format with a name: "names", "el" or "mtx". @return PGAS_OK; PGAS_ERR_NOT_FOUND,
 *  PGAS_ERR_INVALID (null). */
PGAS_API pgas_status_t pgas_graph_format_of(const char *name, pgas_graph_format_t *format_p);

/** The library calls it on rank 0 from time to time during a long phase.
 *  Units:  done and total count bytes in phase "read" (lines, if the input is a stream) and sweeps
 *          in phase "rank". total is 0 if it is not known. The last call of a phase has done equal
 *          to total, even if sweeps end early. */
typedef void (*pgas_graph_progress_fn_t)(const char *phase, uint64_t done, uint64_t total,
                                         void *arg);

/** A pgas_graph_progress_fn_t that calls pgas_progress_show (pgas/info.h). It ignores arg. */
PGAS_API void pgas_graph_progress_bar(const char *phase, uint64_t done, uint64_t total, void *arg);

/** Options of pgas_graph_read; zero means default. Those of rank 0 rule. */
typedef struct {
    size_t size;
    pgas_graph_format_t format;
    pgas_graph_progress_fn_t progress; /* NULL: none */
    void *progress_arg;
} pgas_graph_read_opts_t;
#define PGAS_GRAPH_READ_OPTS_INIT                                   \
    {                                                               \
        sizeof(pgas_graph_read_opts_t), PGAS_GRAPH_AUTO, NULL, NULL \
    }

/** Reads a graph from a file, or from standard input if path is "-".
 *  Shape:  collective; rank 0's path and options rule. Every rank opens a regular file and reads
 *          its own part of it; what cannot be cut (standard input, pipes) is read by rank 0 and
 *          passed on in pieces.
 *  Done:   *graph_p is the caller's part.
 *  Owns:   pgas_graph_destroy.
 *  Cost:   per rank 40 bytes an edge while reading and 8 afterwards, 8 bytes a vertex, and the
 *          names twice. Each edge and each name that a rank meets for the first time is an
 *          aggregated remote call.
 *  @return PGAS_OK; the log names file, line and reason once for
 *          PGAS_ERR_IO      missing, unreadable, or shorter than it was when it was opened
 *          PGAS_ERR_FORMAT  malformed, truncated or empty
 *          PGAS_ERR_RANGE   a vertex number that is negative, above 2^63-1 or beyond the matrix;
 *          PGAS_ERR_LIMIT (more vertices or edges a rank than stated above; or PGAS_CALL_MAX is
 *          below what a message takes: 16 bytes an edge, 16 more than the longest name, 4112 for
 *          what comes from standard input), PGAS_ERR_NO_MEMORY (also when the vertices alone exceed
 *          the machine's memory), PGAS_ERR_INVALID (null), PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT,
 *          PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_graph_read(const char *path, const pgas_graph_read_opts_t *opts,
                                       pgas_graph_t **graph_p);

/** Options of pgas_graph_generate; zero means default. Those of rank 0 rule. */
typedef struct {
    size_t size;
    uint64_t n_vertices;  /* 1 .. 2^40; default 65536 */
    int edges_per_vertex; /* 1 .. 2^20; default 16 */
    uint64_t seed;        /* default 1 */
} pgas_graph_generate_opts_t;
#define PGAS_GRAPH_GENERATE_OPTS_INIT               \
    {                                               \
        sizeof(pgas_graph_generate_opts_t), 0, 0, 0 \
    }

/** Makes a random graph whose degrees follow a power law, the same for any number of ranks. Source:
 *  R-MAT (Chakrabarti, Zhan, Faloutsos 2004) with the Graph500 probabilities .57 .19 .19 .05;
 *  vertices are
 *          renumbered by a bijection, so that the great ones are spread over the ranks.
 *  @return as pgas_graph_read. */
PGAS_API pgas_status_t pgas_graph_generate(const pgas_graph_generate_opts_t *opts,
                                           pgas_graph_t **graph_p);

/** Makes a graph of edges that the ranks hold: edge i goes from ends[2*i] to ends[2*i+1].
 *  Shape:  collective, the same n_vertices on all ranks, any edges on any rank.
 *  @return as pgas_graph_read; PGAS_ERR_RANGE for an end that is not below n_vertices,
 *          PGAS_ERR_MISMATCH, PGAS_ERR_INVALID (no vertices; null with edges). */
PGAS_API pgas_status_t pgas_graph_create(uint64_t n_vertices, const uint64_t *ends, size_t n_edges,
                                         pgas_graph_t **graph_p);

/** Frees the caller's part. Local. NULL is ignored. */
PGAS_API void pgas_graph_destroy(pgas_graph_t *graph);

/* ---- asking ---- */

/** A graph and the caller's part of it. Vertex first_vertex + i, i < n_local, has the out-edges to
 *  targets[offsets[i]] .. targets[offsets[i + 1] - 1], in rising order. Pointers live as long as
 *  the graph. */
typedef struct {
    uint64_t n_vertices;
    uint64_t n_edges;
    uint64_t block; /* vertices per rank, except the last ones */
    uint64_t first_vertex;
    uint64_t n_local;
    const uint64_t *offsets; /* n_local + 1 of them */
    const uint64_t *targets;
    bool has_names;
    double seconds; /* that reading or making took on this rank */
} pgas_graph_info_t;
/** @return PGAS_OK, PGAS_ERR_INVALID (null). */
PGAS_API pgas_status_t pgas_graph_info(const pgas_graph_t *graph, pgas_graph_info_t *info_p);

/** The rank that holds a vertex; -1 if there is no such vertex. */
PGAS_API int pgas_graph_owner(const pgas_graph_t *graph, uint64_t vertex);

/** The names of vertices anywhere; of a graph without names their numbers as text.
 *  Shape:  collective; each rank asks for n vertices of its own choice, n may be 0.
 *  Done:   names[i] is the name of vertices[i].
 *  Owns:   the caller frees each names[i].
 *  @return PGAS_OK, PGAS_ERR_RANGE (no such vertex, on any rank), PGAS_ERR_NO_MEMORY,
 *  PGAS_ERR_INVALID (null). */
PGAS_API pgas_status_t pgas_graph_names(const pgas_graph_t *graph, const uint64_t *vertices,
                                        size_t n, char **names);

/** A vertex and its value. */
typedef struct {
    uint64_t vertex;
    double value;
} pgas_graph_top_t;

/** The n vertices with the greatest values, greatest first, of equal ones the lower number first.
 *  Shape:  collective, the least n of all ranks counts; values[i] belongs to vertex first_vertex +
 *          i.
 *  Done:   top[0 .. *n_p - 1] is the same on all ranks; *n_p is n, or the number of vertices if
 *          that is less.
 *  @return PGAS_OK, PGAS_ERR_NO_MEMORY, PGAS_ERR_INVALID (null, n negative). */
PGAS_API pgas_status_t pgas_graph_top(const pgas_graph_t *graph, const double *values, int n,
                                      pgas_graph_top_t *top, int *n_p);

/** Prints the n vertices with the greatest values on rank 0: lines `RANK NAME-OR-NUMBER VALUE`,
 *  RANK from 1, VALUE as %.6e. Collective, as pgas_graph_top. @return as that; PGAS_ERR_IO. */
PGAS_API pgas_status_t pgas_graph_print_top(const pgas_graph_t *graph, const double *values, int n,
                                            FILE *out);

/* ---- PageRank ---- */

/** Runs work(i, n, arg) for i = 0 .. n-1 at the same time, n of its own choice but at most
 *  n_threads, i = 0 on the calling thread, and returns when all have. The threads must be attached
 *  (pgas_thread_attach) while they work. */
typedef void (*pgas_graph_work_fn_t)(int i, int n, void *arg);
typedef void (*pgas_graph_parallel_fn_t)(int n_threads, pgas_graph_work_fn_t work, void *arg);

/** Options of pgas_pagerank; zero means default. Those of rank 0 rule; n_threads and parallel are
 *  each rank's own. */
typedef struct {
    size_t size;
    double damping; /* above 0, up to 1; default 0.85 */
    int iterations; /* default 20; with a tolerance the most sweeps, default 1000 */
    /* stop when a sweep changes the values by no more, summed over all vertices; default: never */
    double tolerance;
    /* the mass of vertices without out-edges is lost instead of spread over all */
    bool no_dangling;
    int n_threads; /* threads of this rank, default 1; above 1 only with parallel */
    /* how to run them, e.g. an OpenMP region; NULL: the calling thread alone */
    pgas_graph_parallel_fn_t parallel;
    pgas_graph_progress_fn_t progress; /* NULL: none */
    void *progress_arg;
} pgas_pagerank_opts_t;
#define PGAS_PAGERANK_OPTS_INIT                                           \
    {                                                                     \
        sizeof(pgas_pagerank_opts_t), 0, 0, 0, false, 0, NULL, NULL, NULL \
    }

/** What pgas_pagerank did. */
typedef struct {
    int iterations;  /* sweeps made */
    double change;   /* sum of absolute changes in the last one */
    double sum;      /* of all values; 1 unless no_dangling */
    uint64_t n_sent; /* values that this rank sent to others in each sweep */
    double seconds;  /* on this rank: the plan of exchange and the sweeps */
} pgas_pagerank_info_t;

/** Ranks the vertices: values start at 1/n; a sweep gives each vertex (1-damping)/n, plus damping
 *  times what its predecessors send (each spreads its value evenly over its out-edges) and an equal
 *  share of the values of vertices without out-edges. Jacobi sweeps in double.
 *  Done:   values[i], i < n_local, is the rank of vertex first_vertex + i; info_p may be NULL. The
 *          same bits each time for one number of ranks, whatever the number of threads; other
 *          numbers of ranks differ by rounding.
 *  Cost:   before the sweeps a plan of 12 bytes an edge; in a sweep 8 bytes for each pair of a rank
 *          and a vertex elsewhere that the rank's vertices point to, in aggregated calls of up to 1
 *          KiB, one pgas_quiesce and one allreduce.
 *  @return PGAS_OK, PGAS_ERR_INVALID (null; damping, iterations or tolerance out of range),
 *          PGAS_ERR_NO_MEMORY, PGAS_ERR_LIMIT (PGAS_CALL_MAX below 1040, if more than a few sums go
 *          from rank to rank), PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT, PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_pagerank(const pgas_graph_t *graph, const pgas_pagerank_opts_t *opts,
                                     double *values, pgas_pagerank_info_t *info_p);

/** The outcome of pgas_pagerank_check, the same on all ranks. */
typedef struct {
    double l1; /* sum of absolute differences to the serial values */
    /* the same ten vertices come first, where values differ by more than rounding */
    bool same_top;
    bool good;      /* same_top, and l1 at most 1e-9 */
    double seconds; /* of rank 0's serial computation */
} pgas_pagerank_check_t;

/** Gathers graph and values on rank 0, computes as many sweeps there by a plain serial loop, and
 *  compares.
 *  Shape:  collective; opts as given to pgas_pagerank, iterations as that reported.
 *  Cost:   rank 0 needs 8 bytes an edge and 40 a vertex of the whole graph.
 *  @return PGAS_OK also when *check_p says that the values are wrong; errors as pgas_pagerank. */
PGAS_API pgas_status_t pgas_pagerank_check(const pgas_graph_t *graph,
                                           const pgas_pagerank_opts_t *opts, int iterations,
                                           const double *values, pgas_pagerank_check_t *check_p);

PGAS_END_DECLS
#endif
