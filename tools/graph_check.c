/* graph_check: graphs of one process for the serial checkers, and their verdicts. */
#include "graph_check.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- verdicts ---- */

check_verdict_t check_right(void)
{
    return (check_verdict_t){ CHECK_RIGHT, "right" };
}

check_verdict_t check_wrong(const char *format, ...)
{
    check_verdict_t verdict = { CHECK_WRONG, "WRONG: " };
    size_t at = strlen(verdict.text);
    va_list args;
    va_start(args, format);
    vsnprintf(verdict.text + at, sizeof verdict.text - at, format, args);
    va_end(args);
    return verdict;
}

check_verdict_t check_no_memory(void)
{
    return (check_verdict_t){ CHECK_SKIPPED, "skipped: out of memory" };
}

/* Differences below 1e-300 do not count: a sum of small values may round to zero. */
bool check_near(double got, double want, double relative)
{
    return got == want || fabs(got - want) <= relative * fabs(want) + 1e-300;
}

/* ---- graphs ---- */

bool check_graph_alloc(check_graph_t *g, uint64_t n_edges, bool has_weights)
{
    g->begin = calloc(g->n + 1, sizeof *g->begin);
    g->end = malloc((n_edges + 1) * sizeof *g->end);
    g->weight = has_weights ? malloc((n_edges + 1) * sizeof *g->weight) : NULL;
    return g->begin && g->end && (g->weight || !has_weights);
}

void check_graph_free(check_graph_t *g)
{
    free(g->begin);
    free(g->end);
    free(g->weight);
    if (g->directed) {
        free(g->in_begin);
        free(g->in_end);
    }
    *g = (check_graph_t){ .n = 0 };
}

typedef struct {
    double weight;
    uint32_t end;
} edge_t;

static int by_end(const void *a, const void *b)
{
    const edge_t *x = a, *y = b;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return (x->weight > y->weight) - (x->weight < y->weight);
}

static uint64_t longest_row(const check_graph_t *g)
{
    uint64_t longest = 0;
    for (uint64_t v = 0; v < g->n; v++)
        if (g->begin[v + 1] - g->begin[v] > longest)
            longest = g->begin[v + 1] - g->begin[v];
    return longest;
}

bool check_graph_sort(check_graph_t *g)
{
    edge_t *row = malloc((longest_row(g) + 1) * sizeof *row);
    if (!row)
        return false;
    for (uint64_t v = 0; v < g->n; v++) {
        uint64_t begin = g->begin[v], n = g->begin[v + 1] - begin;
        for (uint64_t i = 0; i < n; i++) {
            row[i].end = g->end[begin + i];
            row[i].weight = g->weight ? g->weight[begin + i] : 1;
        }
        qsort(row, n, sizeof *row, by_end);
        for (uint64_t i = 0; i < n; i++) {
            g->end[begin + i] = row[i].end;
            if (g->weight)
                g->weight[begin + i] = row[i].weight;
        }
    }
    free(row);
    return true;
}

/* SplitMix64's last steps. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

check_verdict_t check_symmetric(const check_graph_t *g)
{
    uint64_t balance = 0; /* edges to greater numbers count up, those to less numbers down */
    for (uint64_t v = 0; v < g->n && !g->directed; v++) {
        for (uint64_t e = g->begin[v]; e < g->begin[v + 1]; e++) {
            uint64_t end = g->end[e], weight = 0;
            if (g->weight)
                memcpy(&weight, &g->weight[e], sizeof weight);
            if (end > v)
                balance += mix(mix(v << 32 | end) + weight);
            else if (end < v)
                balance -= mix(mix(end << 32 | v) + weight);
        }
    }
    return balance == 0 ? check_right()
                        : check_wrong("the graph: an edge is not in the rows of both ends");
}

/* Counts in-edges, turns counts into begins, and stores the edges. It reads rows in rising order,
 * so rows of in-edges are in rising order, too. */
bool check_graph_reverse(check_graph_t *g)
{
    if (!g->directed) {
        g->in_begin = g->begin;
        g->in_end = g->end;
    }
    if (g->in_begin)
        return true;
    uint64_t n_edges = g->begin[g->n];
    g->in_begin = calloc(g->n + 2, sizeof *g->in_begin);
    g->in_end = malloc((n_edges + 1) * sizeof *g->in_end);
    if (!g->in_begin || !g->in_end) {
        free(g->in_begin);
        free(g->in_end);
        g->in_begin = NULL;
        g->in_end = NULL;
        return false;
    }
    uint64_t *next = g->in_begin + 1; /* moves from a row's begin to its end */
    for (uint64_t e = 0; e < n_edges; e++)
        if (g->end[e] + (uint64_t)1 < g->n)
            next[g->end[e] + 1]++;
    for (uint64_t v = 1; v < g->n; v++)
        next[v] += next[v - 1];
    for (uint64_t v = 0; v < g->n; v++)
        for (uint64_t e = g->begin[v]; e < g->begin[v + 1]; e++)
            g->in_end[next[g->end[e]]++] = (uint32_t)v;
    return true;
}
