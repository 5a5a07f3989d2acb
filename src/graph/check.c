/* The serial check of PageRank. Rank 0 gathers the graph and the values, pushes shares along the
 * edges one by one, and compares. It uses nothing of the plan or of the sweeps, so that it finds
 * their errors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "graph/graph.h"
#include "graph/pagerank.h"
#include "pgas/agg.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

#define N_TOP     10
#define L1_MAX    1e-9
#define ROUNDING  1e-9 /* relative: values that differ by less may change places */
#define WORDS_MAX 128

typedef enum { VALUES, DEGREES, TARGETS, N_ARRAYS } array_t;

typedef struct {
    uint64_t array, first; /* word[0] goes to array[first] */
    uint64_t word[WORDS_MAX];
} part_t;

/* The whole graph and its values, on rank 0: arrays of words of 8 bytes. */
typedef struct {
    uint64_t *array[N_ARRAYS];
    uint64_t n[N_ARRAYS];
    uint64_t n_stored, n_bad;
} whole_t;

static struct {
    whole_t *now;
    pgas_handler_t part;
} gathering;

static void handle_part(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t head[2]; /* array, first */
    whole_t *w = gathering.now;
    (void)source, (void)context;
    if (!w || bytes < sizeof head)
        return;
    memcpy(head, args, sizeof head);
    uint64_t n = (bytes - sizeof head) / sizeof(uint64_t);
    if (head[0] >= N_ARRAYS || head[1] > w->n[head[0]] || n > w->n[head[0]] - head[1]) {
        w->n_bad++;
        return;
    }
    memcpy(w->array[head[0]] + head[1], (const char *)args + sizeof head, n * sizeof(uint64_t));
    w->n_stored += n;
}

pgas_status_t pgasi_check_register(void)
{
    return pgas_handler_register("pgas.graph.part", handle_part, NULL, NULL, &gathering.part);
}

/* ---- gathering ---- */

static pgas_status_t send_words(pgas_agg_t *agg, array_t array, uint64_t first, const void *words,
                                uint64_t n)
{
    part_t part;
    pgas_status_t status = PGAS_OK;
    for (uint64_t at = 0; at < n && status == PGAS_OK; at += WORDS_MAX) {
        size_t n_words = (size_t)PGASI_MIN(n - at, WORDS_MAX);
        part.array = (uint64_t)array;
        part.first = first + at;
        memcpy(part.word, (const uint64_t *)words + at, n_words * sizeof(uint64_t));
        status = pgasi_graph_call(agg, 0, gathering.part, &part,
                                  offsetof(part_t, word) + n_words * sizeof(uint64_t));
    }
    return status;
}

static pgas_status_t send_mine(const pgas_graph_t *graph, const double *values, uint64_t first_edge)
{
    pgas_agg_t *agg = NULL;
    pgas_status_t status = pgas_agg_create(NULL, &agg);
    if (status == PGAS_OK)
        status = send_words(agg, VALUES, graph->first, values, graph->n_local);
    for (uint64_t v = 0; v < graph->n_local && status == PGAS_OK; v += WORDS_MAX) {
        uint64_t degree[WORDS_MAX], n = PGASI_MIN(graph->n_local - v, WORDS_MAX);
        for (uint64_t i = 0; i < n; i++)
            degree[i] = graph->offsets[v + i + 1] - graph->offsets[v + i];
        status = send_words(agg, DEGREES, graph->first + v, degree, n);
    }
    if (status == PGAS_OK) {
        status =
            send_words(agg, TARGETS, first_edge, graph->targets, graph->offsets[graph->n_local]);
    }
    pgas_status_t destroyed = pgas_agg_destroy(agg);
    return pgasi_graph_settle(status != PGAS_OK ? status : destroyed);
}

static pgas_status_t whole_init(whole_t *w, const pgas_graph_t *graph)
{
    *w = (whole_t){ .n = { graph->n_vertices, graph->n_vertices, graph->n_edges } };
    for (int i = 0; i < N_ARRAYS && graph->rank == 0; i++) { /* one more: degrees become offsets */
        w->array[i] = pgasi_graph_array(w->n[i] + 1, sizeof(uint64_t));
        if (!w->array[i])
            return PGAS_ERR_NO_MEMORY;
    }
    return PGAS_OK;
}

static void whole_fini(whole_t *w)
{
    for (int i = 0; i < N_ARRAYS; i++)
        free(w->array[i]);
}

/* ---- serial ---- */

void pgasi_pagerank_serial(uint64_t n, const uint64_t *offsets, const uint64_t *targets,
                           const pgasi_pagerank_rule_t *rule, double *x, double *y)
{
    for (uint64_t v = 0; v < n; v++)
        x[v] = 1 / (double)n;
    for (int64_t sweep = 0; sweep < rule->iterations; sweep++) {
        double dangling = 0;
        memset(y, 0, n * sizeof *y);
        for (uint64_t v = 0; v < n; v++) {
            double share = x[v] / (double)(offsets[v + 1] - offsets[v]);
            dangling += offsets[v] == offsets[v + 1] && !rule->no_dangling ? x[v] : 0;
            for (uint64_t e = offsets[v]; e < offsets[v + 1]; e++)
                y[targets[e]] += share;
        }
        for (uint64_t v = 0; v < n; v++)
            x[v] = (1 - rule->damping) / (double)n + rule->damping * (y[v] + dangling / (double)n);
    }
}

/* ---- comparing ---- */

static uint64_t find_top(const double *values, uint64_t n, uint64_t top[N_TOP])
{
    uint64_t n_top = 0;
    for (uint64_t v = 0; v < n; v++) {
        uint64_t at = n_top;
        while (at > 0 && values[v] > values[top[at - 1]])
            at--;
        if (at == N_TOP)
            continue;
        n_top += n_top < N_TOP;
        memmove(top + at + 1, top + at, (n_top - 1 - at) * sizeof *top);
        top[at] = v;
    }
    return n_top;
}

static void compare(const double *serial, const double *values, uint64_t n,
                    pgas_pagerank_check_t *check)
{
    uint64_t ours[N_TOP], theirs[N_TOP];
    for (uint64_t v = 0; v < n; v++)
        check->l1 += fabs(serial[v] - values[v]);
    check->same_top = true;
    uint64_t n_top = find_top(values, n, ours);
    find_top(serial, n, theirs);
    for (uint64_t i = 0; i < n_top; i++) {
        double a = serial[ours[i]], b = serial[theirs[i]];
        check->same_top = check->same_top && (ours[i] == theirs[i] || fabs(a - b) <= ROUNDING * b);
    }
    check->good = check->same_top && check->l1 <= L1_MAX;
}

/* Computes and compares on rank 0. */
static pgas_status_t judge(whole_t *w, const pgasi_pagerank_rule_t *rule,
                           pgas_pagerank_check_t *check)
{
    uint64_t n = w->n[VALUES], *offsets = w->array[DEGREES], sum = 0;
    double *x = pgasi_graph_array(n, sizeof(double)), *y = pgasi_graph_array(n, sizeof(double));
    bool complete = w->n_bad == 0 && w->n_stored == w->n[VALUES] + w->n[DEGREES] + w->n[TARGETS];
    pgas_status_t status = x && y ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    if (!complete)
        status = PGAS_ERR_INTERNAL;
    if (status == PGAS_OK) {
        offsets[n] = 0;
        for (uint64_t v = 0; v <= n; v++) {
            uint64_t degree = offsets[v];
            offsets[v] = sum;
            sum += degree;
        }
        uint64_t begin = pgasi_now_ns();
        pgasi_pagerank_serial(n, offsets, w->array[TARGETS], rule, x, y);
        check->seconds = 1e-9 * (double)(pgasi_now_ns() - begin);
        compare(x, (const double *)(const void *)w->array[VALUES], n, check);
    }
    free(x);
    free(y);
    return status;
}

static pgas_status_t gather_and_judge(const pgas_graph_t *graph, const pgasi_pagerank_rule_t *rule,
                                      const double *values, pgas_pagerank_check_t *check)
{
    whole_t w;
    uint64_t n_edges = graph->offsets[graph->n_local], first_edge = 0;
    pgas_status_t status = pgas_exscan(NULL, &n_edges, &first_edge, 1, PGAS_U64, PGAS_ADD);
    if (status != PGAS_OK)
        return status;
    pgas_status_t mine = whole_init(&w, graph);
    gathering.now = graph->rank == 0 ? &w : NULL;
    status = pgasi_graph_agree(mine, NULL); /* from here on rank 0 can take parts */
    if (status == PGAS_OK)
        status = send_mine(graph, values, first_edge);
    gathering.now = NULL;
    if (status == PGAS_OK) {
        mine = graph->rank == 0 ? judge(&w, rule, check) : PGAS_OK;
        status = pgasi_graph_agree(mine, NULL);
    }
    whole_fini(&w);
    return status;
}

pgas_status_t pgas_pagerank_check(const pgas_graph_t *graph, const pgas_pagerank_opts_t *opts,
                                  int iterations, const double *values,
                                  pgas_pagerank_check_t *check_p)
{
    pgas_pagerank_check_t check;
    pgasi_pagerank_rule_t rule;
    memset(&check, 0, sizeof check);
    bool sane = graph && check_p && iterations > 0 && (values || graph->n_local == 0);
    if (!sane)
        pgasi_graph_note(
            "pgas_pagerank_check: the graph or values is NULL, or iterations is not positive");
    pgas_status_t status = pgasi_graph_agree(sane ? PGAS_OK : PGAS_ERR_INVALID, NULL);
    if (status == PGAS_OK)
        status = pgasi_pagerank_rule(opts, &rule);
    if (status == PGAS_OK) {
        rule.iterations = iterations;
        status = gather_and_judge(graph, &rule, values, &check);
    }
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, &check, sizeof check, 0);
    if (status == PGAS_OK)
        *check_p = check;
    return status;
}
