/* The vertices with the greatest values. Each rank finds its n best with a heap whose root is the
 * worst of them. All ranks gather these, and each one sorts them in the same way. */
#include <stdlib.h>
#include "base/checks.h"
#include "graph/graph.h"
#include "pgas/coll.h"

#define NO_VERTEX UINT64_MAX

/* Whether a comes before b in the list. */
static bool is_before(const pgas_graph_top_t *a, const pgas_graph_top_t *b)
{
    if ((a->vertex == NO_VERTEX) != (b->vertex == NO_VERTEX))
        return b->vertex == NO_VERTEX;
    return a->value != b->value ? a->value > b->value : a->vertex < b->vertex;
}

static int by_order(const void *a, const void *b)
{
    const pgas_graph_top_t *x = (const pgas_graph_top_t *)a, *y = b;
    return is_before(y, x) - is_before(x, y);
}

/* Moves the new heap[0] down until no child is worse. */
static void sink(pgas_graph_top_t *heap, size_t n)
{
    size_t at = 0;
    while (2 * at + 1 < n) {
        size_t child = 2 * at + 1;
        if (child + 1 < n && is_before(&heap[child], &heap[child + 1]))
            child++;
        if (!is_before(&heap[at], &heap[child]))
            break;
        pgas_graph_top_t moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

static void find_best(const pgas_graph_t *graph, const double *values, pgas_graph_top_t *best,
                      size_t n)
{
    for (size_t i = 0; i < n; i++)
        best[i] = (pgas_graph_top_t){ NO_VERTEX, 0 };
    for (uint64_t v = 0; v < graph->n_local; v++) {
        pgas_graph_top_t next = { graph->first + v, values[v] };
        if (is_before(&next, &best[0])) {
            best[0] = next;
            sink(best, n);
        }
    }
}

pgas_status_t pgas_graph_top(const pgas_graph_t *graph, const double *values, int n,
                             pgas_graph_top_t *top, int *n_p)
{
    bool sane = graph && n >= 0 && n_p && (n == 0 || top) && (values || graph->n_local == 0);
    uint64_t n_least = (uint64_t)n;
    if (!sane)
        pgasi_graph_note("pgas_graph_top: graph, values, top or n_p is NULL, or n is negative (%d)",
                         n);
    pgas_status_t status = pgasi_graph_agree(sane ? PGAS_OK : PGAS_ERR_INVALID, NULL);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &n_least, &n_least, 1, PGAS_U64, PGAS_MIN);
    if (status != PGAS_OK)
        return status;
    size_t n_top = (size_t)PGASI_MIN(n_least, graph->n_vertices);
    size_t n_each = n_top, n_all = n_each * (size_t)graph->n_ranks;
    pgas_graph_top_t *best = pgasi_graph_array(n_each, sizeof *best);
    pgas_graph_top_t *all = pgasi_graph_array(n_all, sizeof *all);
    status = pgasi_graph_agree(best && all ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK && n_each > 0) {
        find_best(graph, values, best, n_each);
        status = pgas_allgather(NULL, best, all, n_each * sizeof *best);
    }
    if (status == PGAS_OK) {
        qsort(all, n_all, sizeof *all, by_order);
        for (size_t i = 0; i < n_top; i++)
            top[i] = all[i];
        *n_p = (int)n_top;
    }
    free(best);
    free(all);
    return status;
}
