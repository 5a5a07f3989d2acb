/* Label propagation as programs for MPI write it. A rank puts labels into one bucket for each rank
 * until it has a batch, MPI_Alltoall exchanges the lengths, one MPI_Alltoallv exchanges the
 * buckets, and the owners apply what came. A round ends with the exchange in which no rank has
 * labels left. A rank takes the labels for its own vertices from their bucket. */
#include "benchmarks/labels.h"
#include "benchmarks/ref.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 100000

typedef struct {
    int n;
    int more; /* the rank has further labels */
} length_t;

static int n_ranks, me;
static labels_item_t *out, *in; /* the bucket for rank r is at [r * BATCH] */
static int *n_out, *n_in, *first;
static length_t *lengths_out, *lengths_in;

static void make_buffers(void)
{
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    size_t n = (size_t)n_ranks;
    out = bench_table(n * BATCH * sizeof *out);
    in = bench_table(n * BATCH * sizeof *in);
    n_out = bench_table(n * sizeof *n_out);
    n_in = bench_table(n * sizeof *n_in);
    first = bench_table(n * sizeof *first);
    lengths_out = bench_table(n * sizeof *lengths_out);
    lengths_in = bench_table(n * sizeof *lengths_in);
    for (int r = 0; r < n_ranks; r++)
        first[r] = r * BATCH;
}

/* Where a round is: the next changed vertex, and its next edge. */
typedef struct {
    uint32_t at;
    uint64_t edge;
} cursor_t;

static bool is_done(const labels_graph_t *graph, const cursor_t *cursor)
{
    return cursor->at == graph->n_changed;
}

static void begin_vertex(const labels_graph_t *graph, cursor_t *cursor)
{
    if (!is_done(graph, cursor))
        cursor->edge = graph->first[graph->changed[cursor->at]];
}

/* Puts labels into buckets until there are as many as a batch has. */
static void fill(const labels_graph_t *graph, cursor_t *cursor)
{
    uint64_t room = BATCH;
    memset(n_out, 0, (size_t)n_ranks * sizeof *n_out);
    while (room > 0 && !is_done(graph, cursor)) {
        uint32_t vertex = graph->changed[cursor->at], label = graph->label[vertex];
        uint64_t edge = cursor->edge, end = graph->first[vertex + 1];
        if (end > edge + room)
            end = edge + room;
        room -= end - edge;
        for (; edge < end; edge++) {
            int rank = labels_rank(graph, graph->to[edge]);
            out[first[rank] + n_out[rank]++] =
                (labels_item_t){ labels_index(graph, graph->to[edge]), label };
        }
        cursor->edge = edge;
        if (edge == graph->first[vertex + 1]) {
            cursor->at++;
            begin_vertex(graph, cursor);
        }
    }
}

/* @return some rank has further labels */
static bool exchange_lengths(bool more)
{
    bool any = false;
    for (int r = 0; r < n_ranks; r++)
        lengths_out[r] = (length_t){ n_out[r], more };
    MPI_Alltoall(lengths_out, 2, MPI_INT, lengths_in, 2, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < n_ranks; r++) {
        n_in[r] = lengths_in[r].n;
        any |= lengths_in[r].more;
    }
    return any;
}

static void apply(uint32_t *next, const labels_item_t *item, int n)
{
    for (int i = 0; i < n; i++)
        labels_lower(next, &item[i]);
}

static void run_round(labels_graph_t *graph)
{
    cursor_t cursor = { 0, 0 };
    bool more;
    begin_vertex(graph, &cursor);
    do {
        fill(graph, &cursor);
        more = exchange_lengths(!is_done(graph, &cursor));
        int own = n_out[me];
        n_out[me] = n_in[me] = 0;
        MPI_Alltoallv(out, n_out, first, MPI_UINT64_T, in, n_in, first, MPI_UINT64_T,
                      MPI_COMM_WORLD);
        apply(graph->next, out + first[me], own);
        for (int r = 0; r < n_ranks; r++)
            apply(graph->next, in + first[r], n_in[r]);
    } while (more);
}

void ref_labels(labels_graph_t *graph)
{
    uint64_t n, all;
    if (!out)
        make_buffers();
    do {
        run_round(graph);
        labels_turn(graph);
        n = graph->n_changed;
        MPI_Allreduce(&n, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    } while (all > 0);
}
