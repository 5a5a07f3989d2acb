/* Weakly connected components.
 *
 * A rank joins its own vertices and its ghosts by union-find along its edges, without any exchange.
 * Then the ranks agree on the least vertices of the sets that share a vertex (least.h). As in
 * Afforest (Sutton, Ben-Nun, Barak 2018), they first join two edges of each vertex. One set is then
 * large in most graphs, and a rank skips the rows of the vertices of its large set.
 *
 * An edge between that set and a vertex of another one is also in the row of its other end, which
 * is not skipped. This needs the edge in the rows of both ends, so nothing is skipped in directed
 * graphs. But an edge between the large sets of two ranks may be in skipped rows only. So if the
 * large sets of some ranks get other least vertices than those of most ranks, these ranks join the
 * skipped rows, and all agree again.
 *
 * Invariant: parent[id] <= id. A root is its own parent. */
#include "base/checks.h"
#include "base/clock.h"
#include "base/rng.h"
#include "graph/least.h"
#include "pgas/coll.h"

#define FIRST_EDGES 2  /* of each vertex, before the large set is chosen */
#define AHEAD       16 /* vertices: the first edges of long rows are far apart in memory */
#define SAMPLES     1024
#define NO_LABEL    UINT32_MAX /* is no vertex */

typedef struct {
    pgas_graph_run_t *run;
    pgasi_least_t sets;
    uint32_t *parent, *least; /* of the sets; least also has elements of ids that are no roots */
    bool is_shared;           /* several threads join */
    bool skips;
    uint32_t large;   /* an own vertex of the large set; its root while skipped rows are joined */
    uint64_t *labels; /* by number */
    uint64_t n_found;
} joining_t;

/* ---- union-find ---- */

/* Without other threads a plain store is enough, and loads need not wait for it. */
static inline bool claim_root(const joining_t *j, uint32_t root, uint32_t to)
{
    if (j->is_shared)
        return pgas_graph_claim_u32(&j->parent[root], root, to);
    j->parent[root] = to;
    return true;
}

static inline uint32_t parent_of(const joining_t *j, uint32_t id)
{
    return __atomic_load_n(&j->parent[id], __ATOMIC_RELAXED);
}

/* Halves the path from an id to its root. join() makes paths as long as the set is large from some
 * graphs, such as a path in which each vertex has a leg of its own. An id that is no root never
 * becomes one again, so the store needs no compare-and-swap. */
static inline uint32_t find_root(const joining_t *j, uint32_t id)
{
    uint32_t above = parent_of(j, id), next;
    while ((next = parent_of(j, above)) != above) {
        __atomic_store_n(&j->parent[id], next, __ATOMIC_RELAXED);
        id = next;
        above = parent_of(j, id);
    }
    return above;
}

static void join(const joining_t *j, uint32_t a, uint32_t b)
{
    uint32_t x = parent_of(j, a), y = parent_of(j, b);
    while (x != y) {
        uint32_t high = PGASI_MAX(x, y), low = PGASI_MIN(x, y);
        uint32_t above = parent_of(j, high);
        if (above == low || (above == high && claim_root(j, high, low)))
            return;
        x = parent_of(j, parent_of(j, high));
        y = parent_of(j, low);
    }
}

static inline void first_vertex(joining_t *j, uint32_t id)
{
    const pgas_graph_rows_t *rows = &j->run->info.out;
    uint64_t end = PGASI_MIN(rows->begin[id] + FIRST_EDGES, rows->begin[id + 1]);
    uint64_t ahead = PGASI_MIN((uint64_t)id + AHEAD, j->run->info.n_local);
    __builtin_prefetch(&rows->end[rows->begin[ahead]]);
    for (uint64_t e = rows->begin[id]; e < end; e++)
        join(j, id, rows->end[e]);
}
PGAS_VERTEX_MAP(first, joining_t)

static uint64_t n_ids(const joining_t *j)
{
    return (uint64_t)j->run->info.n_local + j->run->info.n_ghosts;
}

static inline void join_rest(const joining_t *j, uint32_t id)
{
    const pgas_graph_rows_t *rows = &j->run->info.out;
    for (uint64_t e = rows->begin[id] + FIRST_EDGES; e < rows->begin[id + 1]; e++)
        join(j, id, rows->end[e]);
}

/* A vertex of the large set whose root changes between the two loads is not skipped: that only
 * costs time. */
static inline void rest_vertex(joining_t *j, uint32_t id)
{
    if (!j->skips || find_root(j, id) != find_root(j, j->large))
        join_rest(j, id);
}
PGAS_VERTEX_MAP(rest, joining_t)

/* No vertex of the large set may be left out here. Roots change meanwhile, so they are not
 * compared: compress() has made the root j->large the parent of the others, and join() stores
 * parents of roots only. */
static inline void skipped_vertex(joining_t *j, uint32_t id)
{
    if (id == j->large || parent_of(j, id) == j->large)
        join_rest(j, id);
}
PGAS_VERTEX_MAP(skipped, joining_t)

static void make_sets(int i, int n, void *arg)
{
    const joining_t *j = arg;
    uint64_t all = n_ids(j), end = all * ((uint64_t)i + 1) / (uint64_t)n;
    for (uint64_t id = all * (uint64_t)i / (uint64_t)n; id < end; id++) {
        j->parent[id] = (uint32_t)id;
        j->least[id] = (uint32_t)j->run->info.vertex[id];
    }
}

/* Makes the parent of each own id a root, and lowers the least vertices of the roots. Several
 * threads may find the root of one id at the same time. All of them store the same root. */
static void compress(int i, int n, void *arg)
{
    const joining_t *j = arg;
    uint64_t all = j->run->info.n_local, end = all * ((uint64_t)i + 1) / (uint64_t)n;
    for (uint64_t id = all * (uint64_t)i / (uint64_t)n; id < end; id++) {
        uint32_t above = __atomic_load_n(&j->parent[id], __ATOMIC_RELAXED);
        uint32_t root = pgasi_least_root(j->parent, above);
        if (root != above)
            __atomic_store_n(&j->parent[id], root, __ATOMIC_RELAXED);
        pgas_graph_lower_u32(&j->least[root], __atomic_load_n(&j->least[id], __ATOMIC_RELAXED));
    }
}

/* Chooses the most frequent set of a sample of the own vertices. Any choice gives the same
 * result. */
static void choose_large(joining_t *j)
{
    uint32_t n_local = j->run->info.n_local;
    uint32_t sample[SAMPLES];
    uint64_t state = 1;
    int n_best = 0;
    for (int i = 0; i < SAMPLES; i++)
        sample[i] = pgasi_least_root(j->parent, (uint32_t)(pgas_splitmix(&state) % n_local));
    for (int i = 0; i < SAMPLES / 16; i++) {
        int n = 0;
        for (int k = 0; k < SAMPLES; k++)
            n += sample[k] == sample[i];
        j->large = n > n_best ? sample[i] : j->large;
        n_best = PGASI_MAX(n, n_best);
    }
}

/* ---- between ranks ---- */

/* The label that most ranks have if more than half of them have the same (Boyer and Moore's vote),
 * otherwise that of any rank. */
static uint32_t vote(const uint32_t *labels, int n)
{
    uint32_t chosen = NO_LABEL;
    for (int i = 0, lead = 0; i < n; i++) {
        if (labels[i] == NO_LABEL)
            continue;
        chosen = lead == 0 ? labels[i] : chosen;
        lead += labels[i] == chosen ? 1 : -1;
    }
    return chosen;
}

/* Joins the rows that this rank has skipped if its large set is not that of most ranks. Stores
 * whether any rank has to. */
static pgas_status_t join_skipped(joining_t *j, bool *any_p)
{
    int n_ranks = j->run->graph->n_ranks;
    j->large = j->skips ? j->parent[j->large] : 0;
    uint32_t mine = j->skips ? j->least[j->large] : NO_LABEL;
    uint32_t *labels =
        pgasi_graph_scratch(j->run->graph, SLOT_SEND, (uint64_t)n_ranks, sizeof mine);
    if (!labels)
        return PGAS_ERR_NO_MEMORY; /* cannot be: make_room() of run.c */
    pgas_status_t status = pgas_allgather(NULL, &mine, labels, sizeof mine);
    if (status != PGAS_OK)
        return status;
    uint32_t label = vote(labels, n_ranks);
    *any_p = false;
    for (int r = 0; r < n_ranks; r++)
        *any_p |= labels[r] != label && labels[r] != NO_LABEL;
    if (mine != label && mine != NO_LABEL)
        skipped_vertex_map(j->run, j);
    return PGAS_OK;
}

static pgas_status_t join_all(joining_t *j, int *n_rounds_p)
{
    bool again = false;
    j->is_shared = j->run->opts.n_threads > 1;
    pgasi_run_threads(j->run, n_ids(j), make_sets, j);
    first_vertex_map(j->run, j);
    j->skips = !j->run->info.directed && j->run->info.n_local > 0;
    if (j->skips)
        choose_large(j);
    rest_vertex_map(j->run, j);
    pgasi_run_threads(j->run, j->run->info.n_local, compress, j);
    pgas_status_t status = pgasi_least_agree(&j->sets, n_rounds_p);
    if (status == PGAS_OK && j->run->graph->n_ranks > 1 && !j->run->info.directed)
        status = join_skipped(j, &again);
    if (status != PGAS_OK || !again)
        return status;
    pgasi_run_threads(j->run, j->run->info.n_local, compress, j);
    return pgasi_least_agree(&j->sets, n_rounds_p);
}

/* ---- the whole ---- */

static pgas_status_t alloc_sets(joining_t *j)
{
    pgas_graph_t *graph = j->run->graph;
    uint64_t n = pgasi_least_room(j->run), n_begins = 2 * ((uint64_t)graph->n_ranks + 1);
    j->parent = pgasi_run_state(j->run, 0, sizeof *j->parent);
    j->least = pgasi_run_state(j->run, 1, sizeof *j->least);
    j->sets = (pgasi_least_t){
        .run = j->run,
        .parent = j->parent,
        .least = j->least,
        .root = pgasi_graph_scratch(graph, SLOT_STATE + 2, n, sizeof(uint32_t)),
        .known = pgasi_graph_scratch(graph, SLOT_STATE + 3, n, sizeof(uint32_t)),
        .begin = pgasi_graph_scratch(graph, SLOT_STATE + 4, n_begins, sizeof(uint64_t)),
    };
    bool have = j->parent && j->least && j->sets.root && j->sets.known && j->sets.begin;
    return have ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static void set_labels(int i, int n, void *arg)
{
    joining_t *j = arg;
    const pgas_graph_t *graph = j->run->graph;
    uint64_t n_found = 0, end = (uint64_t)graph->n_local * ((uint64_t)i + 1) / (uint64_t)n;
    for (uint64_t v = (uint64_t)graph->n_local * (uint64_t)i / (uint64_t)n; v < end; v++) {
        j->labels[v] = j->least[j->parent[graph->id_of[v]]];
        n_found += j->labels[v] == graph->first + v;
    }
    __atomic_fetch_add(&j->n_found, n_found, __ATOMIC_RELAXED);
}

pgas_status_t pgas_components(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                              uint64_t *labels, pgas_graph_run_info_t *info_p)
{
    joining_t j = { .labels = labels };
    pgas_graph_run_info_t info = { .size = sizeof info };
    uint64_t begin_ns = pgasi_now_ns();
    pgas_status_t status = pgasi_run_begin(graph, opts, NULL, false, &j.run);
    if (status != PGAS_OK)
        return status;
    status = alloc_sets(&j);
    if (status == PGAS_OK && !labels && graph->n_local > 0)
        status = PGAS_ERR_INVALID;
    status = pgasi_graph_agree(status, NULL);
    if (status == PGAS_OK)
        status = join_all(&j, &info.iterations);
    if (status == PGAS_OK) {
        pgasi_run_threads(j.run, graph->n_local, set_labels, &j);
        status = pgas_allreduce(NULL, &j.n_found, &info.n_found, 1, PGAS_U64, PGAS_ADD);
    }
    info.n_edges = graph->n_edges;
    return pgasi_run_end(j.run, status, begin_ns, &info, info_p);
}
