/* Weakly connected components.
 *
 * A rank joins its own vertices and its ghosts by union-find along its edges, without any exchange.
 * Then the ranks compare the least vertices of the sets that share a vertex, until none changes. As
 * in Afforest (Sutton, Ben-Nun, Barak 2018), they first join two edges of each vertex, and compare
 * once. The largest set is then large in most graphs, and the ranks skip the rows of its vertices.
 *
 * An edge between that set and another one is also in the row of its other end, which is not
 * skipped. This needs the edge in the rows of both ends, so nothing is skipped in directed graphs.
 *
 * Invariant: parent[id] <= id. A root is its own parent. */
#include <limits.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/rng.h"
#include "graph/run.h"
#include "pgas/coll.h"

#define FIRST_EDGES 2 /* of each vertex, before the large set is chosen */
/* The large sets of all ranks get one value in the first round. A vertex that would get it later is
 * not skipped, which only costs time. */
#define FIRST_ROUNDS 1
#define SAMPLES      1024

typedef struct {
    pgas_graph_run_t *run;
    uint32_t *parent; /* by id; after compress(): the root */
    uint32_t *least;  /* by root: the least vertex that is known of the component */
    uint32_t *value;  /* by id: the least known vertex, which ranks exchange */
    uint32_t large;   /* vertices with this value are skipped */
    bool skips;
} joining_t;

/* ---- union-find ---- */

static void join(uint32_t *parent, uint32_t a, uint32_t b)
{
    uint32_t x = __atomic_load_n(&parent[a], __ATOMIC_RELAXED);
    uint32_t y = __atomic_load_n(&parent[b], __ATOMIC_RELAXED);
    while (x != y) {
        uint32_t high = PGASI_MAX(x, y), low = PGASI_MIN(x, y);
        uint32_t above = __atomic_load_n(&parent[high], __ATOMIC_RELAXED);
        if (above == low || (above == high && pgas_graph_claim_u32(&parent[high], high, low)))
            return;
        x = __atomic_load_n(&parent[__atomic_load_n(&parent[high], __ATOMIC_RELAXED)],
                            __ATOMIC_RELAXED);
        y = __atomic_load_n(&parent[low], __ATOMIC_RELAXED);
    }
}

static inline void first_vertex(joining_t *j, uint32_t id)
{
    const pgas_graph_rows_t *rows = &j->run->info.out;
    uint64_t end = PGASI_MIN(rows->begin[id] + FIRST_EDGES, rows->begin[id + 1]);
    for (uint64_t e = rows->begin[id]; e < end; e++)
        join(j->parent, id, rows->end[e]);
}
PGAS_VERTEX_MAP(first, joining_t)

static inline void rest_vertex(joining_t *j, uint32_t id)
{
    const pgas_graph_rows_t *rows = &j->run->info.out;
    if (j->skips && j->value[id] == j->large)
        return;
    for (uint64_t e = rows->begin[id] + FIRST_EDGES; e < rows->begin[id + 1]; e++)
        join(j->parent, id, rows->end[e]);
}
PGAS_VERTEX_MAP(rest, joining_t)

static uint32_t n_ids(const joining_t *j)
{
    return j->run->info.n_local + j->run->info.n_ghosts;
}

/* Several threads may find the root of one id at the same time. All of them store the same root. */
static void compress(int i, int n, void *arg)
{
    const joining_t *j = arg;
    uint64_t all = n_ids(j), begin = all * (uint64_t)i / (uint64_t)n;
    uint64_t end = all * ((uint64_t)i + 1) / (uint64_t)n;
    for (uint64_t id = begin; id < end; id++) {
        uint32_t root = __atomic_load_n(&j->parent[id], __ATOMIC_RELAXED), above;
        while ((above = __atomic_load_n(&j->parent[root], __ATOMIC_RELAXED)) != root)
            root = above;
        __atomic_store_n(&j->parent[id], root, __ATOMIC_RELAXED);
    }
}

/* ---- between ranks ---- */

/* Most values are not lower. Without the branch, each load of the large set's value would wait for
 * the store before it. */
static bool lower(uint32_t *element, uint32_t value)
{
    if (PGAS_LIKELY(value >= *element))
        return false;
    *element = value;
    return true;
}

/* Compares once in both directions. Stores whether a least vertex of this rank has changed. */
static pgas_status_t compare(joining_t *j, bool *changed_p)
{
    uint32_t n_local = j->run->info.n_local, n = n_ids(j);
    bool changed = false;
    for (uint32_t id = 0; id < n; id++)
        j->value[id] = j->least[j->parent[id]];
    pgas_status_t status = pgas_ghosts_combine(j->run, j->value, PGAS_U32, PGAS_MIN);
    if (status != PGAS_OK)
        return status;
    for (uint32_t id = 0; id < n_local; id++)
        changed |= lower(&j->least[j->parent[id]], j->value[id]);
    for (uint32_t id = 0; id < n_local; id++)
        j->value[id] = j->least[j->parent[id]];
    status = pgas_ghosts_fetch(j->run, j->value, sizeof *j->value);
    for (uint32_t id = n_local; status == PGAS_OK && id < n; id++)
        changed |= lower(&j->least[j->parent[id]], j->value[id]);
    *changed_p = changed;
    return status;
}

/* Lowers each value to the least known vertex of its component, in at most `most` rounds. Before
 * that, it is any vertex of the component. */
static pgas_status_t agree_on_least(joining_t *j, int most, int *n_rounds_p)
{
    const pgas_graph_info_t *info = &j->run->info;
    pgas_status_t status = PGAS_OK;
    uint32_t any = info->n_ghosts > 0 || j->run->graph->n_ranks > 1;
    pgas_graph_run_threads(j->run, compress, j);
    memset(j->least, 0xff, n_ids(j) * sizeof *j->least);
    for (uint32_t id = 0; id < n_ids(j); id++)
        lower(&j->least[j->parent[id]], j->value[id]);
    for (int round = 0; round < most && status == PGAS_OK && any; round++) {
        bool changed = false;
        status = compare(j, &changed);
        any = changed;
        if (status == PGAS_OK)
            status = pgas_allreduce(NULL, &any, &any, 1, PGAS_U32, PGAS_MAX);
        pgasi_run_report(j->run, "wcc", (uint64_t)++ * n_rounds_p, 0);
    }
    for (uint32_t id = 0; id < n_ids(j); id++)
        j->value[id] = j->least[j->parent[id]];
    return status;
}

/* The most frequent value of a sample of rank 0's vertices. Any choice gives the same result. */
static pgas_status_t choose_large(joining_t *j)
{
    uint32_t n_local = j->run->info.n_local, best = UINT32_MAX;
    uint32_t sample[SAMPLES];
    uint64_t state = 1;
    int n_best = 0;
    for (int i = 0; n_local > 0 && i < SAMPLES; i++)
        sample[i] = j->value[pgas_splitmix(&state) % n_local];
    for (int i = 0; n_local > 0 && i < SAMPLES / 16; i++) {
        int n = 0;
        for (int k = 0; k < SAMPLES; k++)
            n += sample[k] == sample[i];
        best = n > n_best ? sample[i] : best;
        n_best = PGASI_MAX(n, n_best);
    }
    j->large = best;
    return pgas_broadcast(NULL, &j->large, sizeof j->large, 0);
}

static pgas_status_t join_all(joining_t *j, int *n_rounds_p)
{
    pgas_status_t status = PGAS_OK;
    for (uint32_t id = 0; id < n_ids(j); id++) {
        j->parent[id] = id;
        j->value[id] = (uint32_t)j->run->info.vertex[id];
    }
    first_vertex_map(j->run, j);
    j->skips = !j->run->info.directed;
    if (j->skips) {
        status = agree_on_least(j, FIRST_ROUNDS, n_rounds_p);
        if (status == PGAS_OK)
            status = choose_large(j);
    }
    if (status != PGAS_OK)
        return status;
    rest_vertex_map(j->run, j);
    return agree_on_least(j, INT_MAX, n_rounds_p);
}

pgas_status_t pgas_components(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                              uint64_t *labels, pgas_graph_run_info_t *info_p)
{
    joining_t j = { 0 };
    pgas_graph_run_info_t info = { .size = sizeof info };
    uint64_t begin_ns = pgasi_now_ns();
    pgas_status_t status = pgasi_run_begin(graph, opts, NULL, false, &j.run);
    if (status != PGAS_OK)
        return status;
    j.parent = pgasi_run_state(j.run, 0, sizeof *j.parent);
    j.least = pgasi_run_state(j.run, 1, sizeof *j.least);
    j.value = pgasi_run_state(j.run, 2, sizeof *j.value);
    status = labels || graph->n_local == 0 ? PGAS_OK : PGAS_ERR_INVALID;
    if (!j.parent || !j.least || !j.value)
        status = PGAS_ERR_NO_MEMORY;
    status = pgasi_graph_agree(status, NULL);
    if (status == PGAS_OK)
        status = join_all(&j, &info.iterations);
    for (uint32_t id = 0; status == PGAS_OK && id < graph->n_local; id++) {
        uint64_t vertex = graph->vertex[id];
        labels[vertex - graph->first] = j.value[id];
        info.n_found += j.value[id] == vertex;
    }
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &info.n_found, &info.n_found, 1, PGAS_U64, PGAS_ADD);
    info.n_edges = graph->n_edges;
    return pgasi_run_end(j.run, status, begin_ns, &info, info_p);
}
