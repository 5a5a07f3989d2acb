/* The order of rows that were read from a file of the form BINARY. There, the ends of each row have
 * the order of ids on one rank. On more ranks, own vertices and the ghosts of each rank have this
 * order among themselves. So a split by owner sorts the rows, without comparing. */
#include "graph/binary_order.h"

#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/op.h"
#include "graph/rows.h"

typedef struct {
    uint32_t *ends, *owners;
    char *weights;
    uint64_t *place; /* [n_ranks + 1] */
} split_t;

/* Moves own ids to the front, without changing their order otherwise: without a branch that depends
 * on the ids. Returns their number. */
static uint64_t split_own(const pgas_graph_t *graph, uint32_t *end, char *weight, uint64_t n,
                          size_t weight_bytes, split_t *s)
{
    uint64_t n_own = 0, n_ghosts = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t id = end[i];
        bool own = id < graph->n_local;
        s->ends[n_ghosts] = id;
        end[n_own] = id;
        if (weight_bytes > 0) {
            memcpy(s->weights + n_ghosts * weight_bytes, weight + i * weight_bytes, weight_bytes);
            memmove(weight + n_own * weight_bytes, weight + i * weight_bytes, weight_bytes);
        }
        n_own += own;
        n_ghosts += !own;
    }
    memcpy(end + n_own, s->ends, n_ghosts * sizeof *end);
    if (weight_bytes > 0)
        memcpy(weight + n_own * weight_bytes, s->weights, n_ghosts * weight_bytes);
    return n_own;
}

/* The same for ghosts, by their owners. */
static void split_ghosts(const pgas_graph_t *graph, uint32_t *end, char *weight, uint64_t n,
                         size_t weight_bytes, split_t *s)
{
    memset(s->place, 0, ((size_t)graph->n_ranks + 1) * sizeof *s->place);
    for (uint64_t i = 0; i < n; i++) {
        s->owners[i] = (uint32_t)pgasi_graph_ghost_owner(graph, end[i]);
        s->place[s->owners[i] + 1]++;
        s->ends[i] = end[i];
    }
    if (weight_bytes > 0)
        memcpy(s->weights, weight, n * weight_bytes);
    for (int r = 0; r < graph->n_ranks; r++)
        s->place[r + 1] += s->place[r];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t to = s->place[s->owners[i]]++;
        end[to] = s->ends[i];
        if (weight_bytes > 0)
            memcpy(weight + to * weight_bytes, s->weights + i * weight_bytes, weight_bytes);
    }
}

/* Weight i of a row; NULL without weights. */
static char *weight_of_row(void *weights, uint64_t i, size_t weight_bytes)
{
    return weight_bytes > 0 ? (char *)weights + i * weight_bytes : NULL;
}

/* @return whether all rows are sorted now */
static bool split_rows(const pgas_graph_t *graph, pgasi_rows_t *rows, split_t *s)
{
    size_t weight_bytes = pgasi_type_bytes(graph->weight_type);
    bool sorted = true;
    for (uint32_t id = 0; sorted && id < graph->n_local; id++) {
        uint64_t begin = rows->begin[id], n = rows->begin[id + 1] - begin;
        uint32_t *end = rows->end + begin;
        char *weight = weight_of_row(rows->weight, begin, weight_bytes);
        if (pgasi_ends_rise(end, n))
            continue;
        uint64_t n_own = split_own(graph, end, weight, n, weight_bytes, s);
        if (graph->n_ranks > 2 && !pgasi_ends_rise(end + n_own, n - n_own)) {
            split_ghosts(graph, end + n_own, weight_of_row(weight, n_own, weight_bytes), n - n_own,
                         weight_bytes, s);
        }
        sorted = pgasi_ends_rise(end, n);
    }
    return sorted;
}

pgas_status_t pgasi_binary_order(const pgas_graph_t *graph, pgasi_rows_t *rows)
{
    uint64_t longest = 0;
    for (uint32_t id = 0; id < graph->n_local; id++)
        longest = PGASI_MAX(longest, rows->begin[id + 1] - rows->begin[id]);
    split_t s = {
        pgasi_graph_array(longest + 1, sizeof *s.ends),
        pgasi_graph_array(longest, sizeof *s.owners),
        pgasi_graph_array(longest + 1, pgasi_type_bytes(graph->weight_type) + 1),
        pgasi_graph_array((uint64_t)graph->n_ranks + 1, sizeof *s.place),
    };
    pgas_status_t status =
        s.ends && s.owners && s.weights && s.place ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK && !split_rows(graph, rows, &s))
        status = pgasi_rows_sort(graph, rows); /* GAP sorts by number */
    free(s.ends);
    free(s.owners);
    free(s.weights);
    free(s.place);
    return status;
}
