/* graph_check_groups: components and communities. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "graph_check.h"

static check_verdict_t compare(const char *what, const uint64_t *labels, const uint64_t *want,
                               uint64_t n)
{
    for (uint64_t v = 0; v < n; v++)
        if (labels[v] != want[v])
            return check_wrong("vertex %" PRIu64 " is in the %s %" PRIu64 ", not %" PRIu64, v, what,
                               labels[v], want[v]);
    return check_right();
}

/* ---- components ---- */

/* Labels the unlabeled ends of a row and puts them into the queue. */
static uint64_t take_ends(const uint32_t *ends, uint64_t n, uint64_t label, uint64_t *labels,
                          uint32_t *queue, uint64_t n_queued)
{
    for (uint64_t i = 0; i < n; i++) {
        if (labels[ends[i]] == UINT64_MAX) {
            labels[ends[i]] = label;
            queue[n_queued++] = ends[i];
        }
    }
    return n_queued;
}

static void label_component(const check_graph_t *g, uint64_t first, uint64_t *labels,
                            uint32_t *queue)
{
    uint64_t n_queued = 1;
    labels[first] = first;
    queue[0] = (uint32_t)first;
    for (uint64_t i = 0; i < n_queued; i++) {
        uint32_t v = queue[i];
        n_queued = take_ends(g->end + g->begin[v], g->begin[v + 1] - g->begin[v], first, labels,
                             queue, n_queued);
        n_queued = take_ends(g->in_end + g->in_begin[v], g->in_begin[v + 1] - g->in_begin[v], first,
                             labels, queue, n_queued);
    }
}

check_verdict_t check_components(check_graph_t *g, const uint64_t *labels)
{
    uint64_t *want = malloc((g->n + 1) * sizeof *want);
    uint32_t *queue = malloc((g->n + 1) * sizeof *queue);
    check_verdict_t verdict = check_no_memory();
    if (want && queue && check_graph_reverse(g)) {
        memset(want, 0xff, g->n * sizeof *want);
        for (uint64_t v = 0; v < g->n; v++)
            if (want[v] == UINT64_MAX)
                label_component(g, v, want, queue);
        verdict = compare("component", labels, want, g->n);
    }
    free(want);
    free(queue);
    return verdict;
}

/* ---- communities ---- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* @return the most frequent label, the least one of equals */
static uint64_t most_frequent(uint64_t *labels, uint64_t n)
{
    uint64_t best = labels[0], n_best = 0;
    qsort(labels, n, sizeof *labels, by_value);
    for (uint64_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && labels[next] == labels[i];)
            next++;
        if (next - i > n_best) {
            n_best = next - i;
            best = labels[i];
        }
    }
    return best;
}

/* found has room for the labels of all neighbours. */
static void round_of_labels(const check_graph_t *g, const uint64_t *before, uint64_t *after,
                            uint64_t *found)
{
    for (uint64_t v = 0; v < g->n; v++) {
        uint64_t n = 0;
        for (uint64_t e = g->begin[v]; e < g->begin[v + 1]; e++)
            found[n++] = before[g->end[e]];
        for (uint64_t e = g->in_begin[v]; e < g->in_begin[v + 1] && g->directed; e++)
            found[n++] = before[g->in_end[e]];
        after[v] = n > 0 ? most_frequent(found, n) : before[v];
    }
}

static uint64_t most_neighbours(const check_graph_t *g)
{
    uint64_t most = 0;
    for (uint64_t v = 0; v < g->n; v++) {
        uint64_t n = g->begin[v + 1] - g->begin[v] + g->in_begin[v + 1] - g->in_begin[v];
        most = n > most ? n : most;
    }
    return most;
}

check_verdict_t check_cdlp(check_graph_t *g, int rounds, const uint64_t *labels)
{
    check_verdict_t verdict = check_no_memory();
    uint64_t *before = malloc((g->n + 1) * sizeof *before);
    uint64_t *after = malloc((g->n + 1) * sizeof *after), *found = NULL;
    if (before && after && check_graph_reverse(g))
        found = malloc((most_neighbours(g) + 1) * sizeof *found);
    if (found) {
        for (uint64_t v = 0; v < g->n; v++)
            before[v] = v;
        for (int i = 0; i < rounds; i++) {
            uint64_t *last = before;
            round_of_labels(g, before, after, found);
            before = after;
            after = last;
            if (g->progress)
                g->progress((uint64_t)i + 1, (uint64_t)rounds);
        }
        verdict = compare("community", labels, before, g->n);
    }
    free(before);
    free(after);
    free(found);
    return verdict;
}
