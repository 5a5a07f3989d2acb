/** Graphs over all ranks: reading, making and writing them, and eight algorithms.
 *
 *      pgas_graph_read("links.el", NULL, &graph);
 *      pgas_graph_info_t info = { .size = sizeof info };
 *      pgas_graph_info(graph, &info);
 *      int64_t *levels = malloc((info.n_local + 1) * sizeof *levels);
 *      pgas_bfs(graph, 0, NULL, levels, NULL, NULL);
 *
 *  Vertices have the numbers 0 .. n_vertices-1. Each rank owns a range of consecutive vertices:
 *  rank r owns first_of[r] .. first_of[r + 1] - 1. The ranges have about the same cost: see alpha.
 *  An owner has the out-edges of its vertices. The result of an algorithm is an array: element i
 *  belongs to the owner's vertex first_vertex + i. The same input gives the same graph, and integer
 *  results with the same bits, on any number of ranks and threads.
 *
 *  A graph has at most 2^32-2 vertices. Only memory limits the number of edges. A graph may have
 *  loops and multiple edges. In an undirected graph each edge is in the rows of both ends.
 *
 *  Functions that communicate are collective: all ranks call them, one at a time, from one thread
 *  of each rank, and get the same status. Functions that say "Local" are not. All ranks use the
 *  options and paths of rank 0, except for fields that are each rank's own.
 *
 *  Statuses of all functions. Outputs are valid only after PGAS_OK.
 *          PGAS_ERR_INVALID    an argument is NULL, or an option is out of range
 *          PGAS_ERR_NO_MEMORY  a rank has too little memory
 *          PGAS_ERR_BUSY       algorithms: the graph has a run that has not ended
 *          PGAS_ERR_PEER       a rank died
 *          PGAS_ERR_NOT_INIT   the library is not initialised
 *          PGAS_ERR_CONTEXT    the caller is a handler */
#ifndef PGAS_GRAPH_H
#define PGAS_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "pgas/op.h"
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** A graph. Opaque; each rank has a part of it, which it frees by pgas_graph_destroy. */
typedef struct pgas_graph pgas_graph_t;

/** Formats of files. A text may be compressed by gzip or zstd.
 *
 *  NAMES   A line `a<TAB>b` is an edge from a to b; a line with one name is a vertex. A name has at
 *          most 4095 bytes. Vertices are numbered in the order of their first appearance.
 *  EL      A line `u v` is an edge: two decimal numbers with blanks, tabs or a comma between them.
 *          Vertices are 0 .. the greatest number that occurs.
 *  WEL     A line `u v w` is an edge with a weight.
 *  MTX     Matrix Market: a square matrix in coordinate form. A symmetric one is an undirected
 *          graph. Integers and reals are weights.
 *  METIS   A line for each vertex with its neighbours, counted from 1, behind a header `vertices
 *          edges [weights]`. The graph is undirected.
 *  GR      DIMACS: `p sp vertices edges`, then lines `a u v w`, counted from 1.
 *  LDBC    Two files NAME.v and NAME.e; the path names one of them, or is NAME. A line of the first
 *          is a vertex: any number below 2^63. A line of the second is `u v` or `u v w`. Vertices
 *          are numbered in the order of these numbers, which are then labels (pgas_graph_labels).
 *          Without NAME.v, the vertices are those that occur in NAME.e.
 *  ADJ     A line `u v v ..` is a vertex with the ends of its out-edges. Labels as in LDBC.
 *  SG      GAP's serialized graphs .sg and .wsg, of the byte order of this machine.
 *  BINARY  What pgas_graph_write wrote. It is read as it is, not parsed.
 *  AUTO    The end of the file's name determines the format: .names and .tsv, .el, .wel, .mtx,
 *          .graph and .metis, .gr, .v and .e, .adj, each also with .gz or .zst behind it; .sg and
 *          .wsg, .pgas. Otherwise the first bytes do.
 *
 *  The reader skips empty lines. It skips lines that begin with # or % in EL and WEL, with % in MTX
 *  and METIS. Lines have at most 64 KiB, except in METIS and ADJ. UTF-16 gives PGAS_ERR_FORMAT. */
typedef enum {
    PGAS_GRAPH_AUTO = 0,
    PGAS_GRAPH_NAMES,
    PGAS_GRAPH_EL,
    PGAS_GRAPH_WEL,
    PGAS_GRAPH_MTX,
    PGAS_GRAPH_METIS,
    PGAS_GRAPH_GR,
    PGAS_GRAPH_LDBC,
    PGAS_GRAPH_ADJ,
    PGAS_GRAPH_SG,
    PGAS_GRAPH_BINARY
} pgas_graph_format_t;

/** Random and regular graphs. n is n_vertices, m is n * edges_per_vertex.
 *
 *  RMAT     m edges with the Graph500 probabilities .57 .19 .19 .05. A bijection renumbers the
 *           vertices, so that those of high degree are spread.
 *           Source: R-MAT (Chakrabarti, Zhan, Faloutsos 2004).
 *  UNIFORM  m edges. Each end is any vertex with the same probability.
 *  GRID     A square grid, numbered row by row, similar to road networks. The last row may be
 *           shorter. Each vertex has an edge to the vertex on the right and to the one below. */
typedef enum { PGAS_GRAPH_RMAT = 0, PGAS_GRAPH_UNIFORM, PGAS_GRAPH_GRID } pgas_graph_generator_t;

/** The library calls this function on rank 0 from time to time during a long phase. done and total
 *  count bytes in the phase "read" (of a stream: lines), and rounds in the phases of algorithms. An
 *  unknown total is 0. In the last call of a phase done equals total. */
typedef void (*pgas_graph_progress_fn_t)(const char *phase, uint64_t done, uint64_t total,
                                         void *arg);

/** Options of the functions that make a graph; zero means default (PGAS_GRAPH_OPTS_INIT). */
typedef struct {
    size_t size;
    pgas_graph_format_t format; /* of the file */
    bool undirected;            /* an edge of the input leads both ways */
    bool simple;                /* drop loops, and all but one of multiple edges (the one with the
                                 * least weight) */
    pgas_type_t weight_type;    /* PGAS_U32, PGAS_F32 or PGAS_F64; default: F64 if the input has
                                 * weights, else none. Without weights in the input, edges get
                                 * random ones: integers 1 .. 255 that depend on seed and ends */
    bool no_weights;            /* drop the weights of the input */
    double alpha;               /* a vertex counts like alpha edges in balancing; default 8 */
    const uint64_t *first_of;   /* [n_ranks + 1]: the ranges, instead of balanced ones; first_of[0]
                                 * is 0, first_of[n_ranks] is n_vertices */
    pgas_graph_generator_t generator;
    uint64_t n_vertices;               /* of generated graphs: 1 .. 2^32-2; default 65536 */
    int edges_per_vertex;              /* of RMAT and UNIFORM: 1 .. 2^20; default 16 */
    uint64_t seed;                     /* default 1 */
    pgas_graph_progress_fn_t progress; /* NULL: none */
    void *progress_arg;
} pgas_graph_opts_t;

/** Reads a graph from a file, or from standard input if path is "-".
 *  Done:   after an error of the input the log names file, line and reason once.
 *  Cost:   each edge of a rank's rows takes 4 bytes and the weight; during reading each line of its
 *          part takes 8 bytes and the weight more. Each rank reads its own part of a regular file
 *          that is not compressed; rank 0 reads other files.
 *  @return PGAS_ERR_IO      the file is missing, unreadable, or became shorter
 *          PGAS_ERR_FORMAT  the text is malformed, truncated or empty
 *          PGAS_ERR_RANGE   a vertex number is negative, above 2^63-1 or outside of the matrix; or
 *                           a weight does not fit its type
 *          PGAS_ERR_LIMIT   there are more than 2^32-2 vertices; or PGAS_CALL_MAX is too small for
 *                           a message: 16 bytes and the longest name, 4112 for standard input
 *          PGAS_ERR_UNSUPPORTED  the file is compressed, and the library for it is missing */
PGAS_API pgas_status_t pgas_graph_read(const char *path, const pgas_graph_opts_t *opts,
                                       pgas_graph_t **graph_p);

/** Makes a graph by a generator. */
PGAS_API pgas_status_t pgas_graph_generate(const pgas_graph_opts_t *opts, pgas_graph_t **graph_p);

/** The edges that a rank gives to pgas_graph_create: edge i goes from ends[2*i] to ends[2*i+1].
 *  weights is NULL on all ranks that have edges, or on none of them. Its elements are of
 *  opts->weight_type, by default of F64. */
typedef struct {
    size_t n_edges;
    const uint64_t *ends;
    const void *weights;
} pgas_graph_edges_t;

/** Makes a graph of edges that the ranks hold, and copies them. A rank without edges may give NULL.
 *  @return PGAS_ERR_LIMIT     n_vertices is above 2^32-2
 *          PGAS_ERR_RANGE     an end is not below n_vertices
 *          PGAS_ERR_MISMATCH  n_vertices differs between ranks, or only some give weights */
PGAS_API pgas_status_t pgas_graph_create(uint64_t n_vertices, const pgas_graph_edges_t *edges,
                                         const pgas_graph_opts_t *opts, pgas_graph_t **graph_p);

/** Writes a graph in the form BINARY, which any number of ranks can read, to one file on a file
 *  system that all ranks share. At the end the new file replaces an existing one.
 *  @return PGAS_ERR_IO  writing failed; an existing file is unchanged */
PGAS_API pgas_status_t pgas_graph_write(const pgas_graph_t *graph, const char *path);

/** Frees the caller's part, after all runs have ended. Local. NULL is ignored. */
PGAS_API pgas_status_t pgas_graph_destroy(pgas_graph_t *graph);

/** Rows of edges. The edges of the rank's id i are begin[i] .. begin[i + 1] - 1. Edge e leads to
 *  (in rows of in-edges: comes from) the id end[e]. In a row, ids are in rising order. */
typedef struct {
    const uint64_t *begin; /* [n_local + 1] */
    const uint32_t *end;
    const void *weight; /* NULL, or of weight_type */
} pgas_graph_rows_t;

/** A graph and the caller's part of it.
 *
 *  Inside a rank vertices have ids of 32 bits. The ids 0 .. n_local - 1 are the rank's own
 *  vertices, by falling degree. The ids behind them are its ghosts: vertices of other ranks that
 *  are ends of its edges, ordered by owner. vertex[id] is the vertex number of an id. Pointers are
 *  valid until the graph is destroyed, or reversed (pgas_graph_reverse). */
typedef struct {
    size_t size; /* the caller sets it */
    uint64_t n_vertices;
    uint64_t n_edges; /* of the rows of all ranks: an undirected edge counts twice */
    bool directed, has_names;
    pgas_type_t weight_type;  /* PGAS_TYPE_NONE: no weights */
    const uint64_t *first_of; /* [n_ranks + 1] */
    uint64_t first_vertex;
    uint32_t n_local, n_ghosts;
    const uint64_t *vertex;    /* [n_local + n_ghosts] */
    const uint32_t *id_of;     /* [n_local] the id of vertex first_vertex + i */
    const uint64_t *labels;    /* [n_local] of vertex first_vertex + i; NULL: none */
    pgas_graph_rows_t out, in; /* in: empty if directed and not reversed; undirected: as out */
    uint64_t bytes;            /* memory of this rank's part */
    double seconds;            /* the time in which this rank read or made it */
} pgas_graph_info_t;
/** Describes the graph. Local. */
PGAS_API pgas_status_t pgas_graph_info(const pgas_graph_t *graph, pgas_graph_info_t *info_p);

/** Makes the rows of in-edges of a directed graph, if they do not exist yet. They take the same
 *  memory as the out-edges. Algorithms that need in-edges call this function. */
PGAS_API pgas_status_t pgas_graph_reverse(pgas_graph_t *graph);

/** Gets the names of n vertices of any rank. n and vertices are each rank's own. names[i] is the
 *  name of vertices[i]; in a graph without names it is the label as text. The caller frees each
 *  names[i]. After an error there is none to free.
 *  @return PGAS_ERR_RANGE  on some rank, a vertex does not exist */
PGAS_API pgas_status_t pgas_graph_names(const pgas_graph_t *graph, const uint64_t *vertices,
                                        size_t n, char **names);

/** Gets the labels of n vertices of any rank. In a graph without labels they are the vertex
 *  numbers. n and vertices are each rank's own. @return as pgas_graph_names */
PGAS_API pgas_status_t pgas_graph_labels(const pgas_graph_t *graph, const uint64_t *vertices,
                                         size_t n, uint64_t *labels);

/** Finds the vertex with a name. In a graph without names the name is a label as text. All ranks
 *  use the name of rank 0.
 *  @return PGAS_ERR_NOT_FOUND  no vertex has the name; *vertex_p is unchanged */
PGAS_API pgas_status_t pgas_graph_find(const pgas_graph_t *graph, const char *name,
                                       uint64_t *vertex_p);

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

/** Prints the list of pgas_graph_top on rank 0. Each line is `PLACE NAME-OR-LABEL VALUE`: PLACE
 *  counts from 1, and VALUE has the form %.6e.
 *  @return PGAS_ERR_IO  writing failed */
PGAS_API pgas_status_t pgas_graph_print_top(const pgas_graph_t *graph, const double *values, int n,
                                            FILE *out);

/** A function of the program that runs work(i, n, arg) for i = 0 .. n-1 at the same time, and
 *  returns when all calls have returned. It chooses n, at most n_threads. The calling thread runs
 *  i = 0. */
typedef void (*pgas_graph_work_fn_t)(int i, int n, void *arg);
typedef void (*pgas_graph_parallel_fn_t)(int n_threads, pgas_graph_work_fn_t work, void *arg);

/** How values travel between ranks. Integer results do not depend on it.
 *  MESSAGES  collective exchanges of lists, or of arrays with an element for each ghost
 *  ARRAY     a coherent array (pgas/array.h) with an element for each vertex: ranks read its chunks
 *            by pins, and combine values into it in the state Operate
 *  AUTO      MESSAGES, because they were faster in measurements */
typedef enum {
    PGAS_GRAPH_EXCHANGE_AUTO = 0,
    PGAS_GRAPH_MESSAGES,
    PGAS_GRAPH_ARRAY
} pgas_graph_exchange_t;

/** How values move along edges. Integer results do not depend on it. PUSH: active vertices follow
 *  their out-edges. PULL: all vertices look at their in-edges from active ones. AUTO: PUSH while
 *  few vertices are active. With the exchange ARRAY edge maps always pull. */
typedef enum {
    PGAS_GRAPH_DIRECTION_AUTO = 0,
    PGAS_GRAPH_PUSH,
    PGAS_GRAPH_PULL
} pgas_graph_direction_t;

/** Options of all algorithms; zero means default (PGAS_GRAPH_RUN_OPTS_INIT). An algorithm reads
 *  those of the last five that its comment names. n_threads and parallel are each rank's own. */
typedef struct {
    size_t size;
    int n_threads; /* threads of this rank; default 1. More than 1 need parallel */
    pgas_graph_parallel_fn_t parallel; /* for example an OpenMP region */
    pgas_graph_exchange_t exchange;
    pgas_graph_direction_t direction;
    pgas_graph_progress_fn_t progress; /* NULL: none */
    void *progress_arg;
    int iterations;
    double tolerance;
    double damping;
    bool no_dangling;
    double delta;
} pgas_graph_run_opts_t;

/** The result of a run of an algorithm, besides its values. */
typedef struct {
    size_t size;      /* the caller sets it */
    double seconds;   /* on this rank */
    int iterations;   /* sweeps, levels, rounds or buckets */
    uint64_t n_sent;  /* values that this rank sent to others */
    uint64_t n_edges; /* of the rows of all vertices that the algorithm reached, on all ranks */
    uint64_t n_found; /* vertices reached; components; communities; triangles */
    double change;    /* pgas_pagerank: sum of the absolute changes in the last sweep */
    double sum;       /* pgas_pagerank: of all values; 1 unless no_dangling */
} pgas_graph_run_info_t;

/* In all algorithms opts and info_p may be NULL. The first call for a graph may prepare the graph
 * (in-edges, memory); later calls with the same options allocate nothing. */

/** Breadth-first search along out-edges.
 *  Done:   levels[i] is the number of edges of a shortest path, INT64_MAX if there is none.
 *          parents[i] is the least vertex that precedes the vertex on a shortest path, -1 if there
 *          is no path. The source is its own parent. levels and parents may be NULL.
 *  Source: direction-optimising BFS (Beamer, Asanovic, Patterson 2012).
 *  @return PGAS_ERR_RANGE  there is no such vertex */
PGAS_API pgas_status_t pgas_bfs(pgas_graph_t *graph, uint64_t source,
                                const pgas_graph_run_opts_t *opts, int64_t *levels,
                                int64_t *parents, pgas_graph_run_info_t *info_p);

/** PageRank by Jacobi sweeps in double. Values start at 1/n. A sweep gives each vertex
 *  (1-damping)/n, plus damping times the sum of two parts. The first part is the values of its
 *  predecessors, each divided by the predecessor's out-degree. The second is an equal share of the
 *  values of all vertices without out-edges.
 *  Options: damping (above 0, up to 1; default .85). iterations: number of sweeps, default 20.
 *          tolerance: end when a sweep changes the values by no more in all; then iterations is a
 *          limit, default 1000. no_dangling: drop the values of vertices without out-edges.
 *          direction: PULL by default.
 *  Done:   values[i] is the value. For one number of ranks, direction and exchange, the bits are
 *          the same each time, with any number of threads. Exception: PUSH with ARRAY adds the
 *          sums of three and more ranks in any order. */
PGAS_API pgas_status_t pgas_pagerank(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                                     double *values, pgas_graph_run_info_t *info_p);

/** Weakly connected components: directions are ignored.
 *  Done:   labels[i] is the least vertex of the component. */
PGAS_API pgas_status_t pgas_components(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                                       uint64_t *labels, pgas_graph_run_info_t *info_p);

/** Shortest paths from a source along out-edges. Weights must not be negative. In a graph without
 *  weights each edge has the weight 1.
 *  Options: delta: the width of a bucket; default: by the weights and degrees.
 *  Done:   distances[i] is the least sum of weights on a path, INFINITY if there is none.
 *  Source: delta stepping (Meyer, Sanders 2003).
 *  @return PGAS_ERR_RANGE   there is no such vertex
 *          PGAS_ERR_INVALID a weight is negative or not a number */
PGAS_API pgas_status_t pgas_sssp(pgas_graph_t *graph, uint64_t source,
                                 const pgas_graph_run_opts_t *opts, double *distances,
                                 pgas_graph_run_info_t *info_p);

/** Communities by label propagation, as LDBC Graphalytics defines it. Labels start as the
 *  vertices. In a round each vertex takes the label that is most frequent among its neighbours. Of
 *  equally frequent labels it takes the least. In a directed graph both ends of an edge are
 *  neighbours of each other, and an edge in both directions counts twice. Each of multiple edges
 *  counts. A vertex without neighbours keeps its label.
 *  Options: iterations: number of rounds, default 10. The run ends before if no label changes.
 *  Cost:   a round sends 4 bytes for each ghost. Each thread has a table of up to 32 bytes for each
 *          neighbour in the rank's longest row. */
PGAS_API pgas_status_t pgas_cdlp(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                                 uint64_t *labels, pgas_graph_run_info_t *info_p);

/** Local clustering coefficients, as LDBC Graphalytics defines them. The neighbourhood of a vertex
 *  is the set of the n other vertices with an edge to or from it. values[i] is the number of edges
 *  between members, divided by the number n * (n - 1) of ordered pairs. It is 0 if n < 2. In an
 *  undirected graph each edge between members counts twice. Loops do not count; multiple edges
 *  count once.
 *  Cost:   as pgas_triangles; 4 bytes more for each neighbour pair of a directed graph, 8 for each
 *          id, and 4.5 for each id and thread. */
PGAS_API pgas_status_t pgas_lcc(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                                double *values, pgas_graph_run_info_t *info_p);

/** Counts triangles: sets of three vertices with edges between all of them, in any direction. Loops
 *  do not count; multiple edges count once.
 *  Cost:   each pair of neighbours takes 12 bytes on the rank of its end with the lower degree.
 *          Each id takes 60 bytes, a ghost up to 32 more. Ranks send each other rows of neighbours
 *          in rounds. A rank has two buffers for them. Each has at most 16 MiB, and at most 8 bytes
 *          for each pair of the rank with most pairs. A rank sends a pair at most once to each rank
 *          that has an edge to the pair's lower end. info_p->iterations is the number of rounds.
 *  Source: degree ordering (Schank, Wagner 2005); base and state words (Han, Zou, Yu 2018). */
PGAS_API pgas_status_t pgas_triangles(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                                      uint64_t *n_triangles_p, pgas_graph_run_info_t *info_p);

/** Betweenness centrality over n sources. All ranks use n and sources of rank 0.
 *  Done:   values[i] is the sum, over the sources s and all vertices t, of the share of shortest
 *          paths from s to t that pass through the vertex. The vertex is neither s nor t.
 *  Source: Brandes 2001.
 *  @return PGAS_ERR_RANGE  there is no such vertex
 *          PGAS_ERR_LIMIT  there are more than 1.8e308 shortest paths to a vertex, as in a grid of
 *                          520 x 520 vertices */
PGAS_API pgas_status_t pgas_betweenness(pgas_graph_t *graph, const uint64_t *sources, size_t n,
                                        const pgas_graph_run_opts_t *opts, double *values,
                                        pgas_graph_run_info_t *info_p);

PGAS_END_DECLS

#include "pgas/detail/graph.h"
#endif
