/* Breadth-first search: edge maps that push while few vertices are active, and pull while many are.
 *
 * Levels have 32 bits. All threads that update a vertex in one step store the same level, so a
 * plain store suffices. At the end each rank finds the parents of its reached vertices by one look
 * at their in-edges. So the result is the least parent, and does not depend on the order of
 * updates. */
#include <inttypes.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "graph/search.h"
#include "pgas/coll.h"

/* Beamer's rule: pull if the members' edges are more than 1 / ALPHA of the edges that are not
 * explored; push again if the members are fewer than 1 / BETA of the vertices. */
#define ALPHA 15
#define BETA  18

typedef uint8_t nothing_t;

static inline bool bfs_wants(const pgasi_search_t *s, uint32_t to)
{
    return __atomic_load_n(&s->level[to], __ATOMIC_RELAXED) == PGASI_UNREACHED;
}

static inline bool bfs_update(pgasi_search_t *s, uint32_t from, uint32_t to, double weight)
{
    (void)from, (void)weight;
    __atomic_store_n(&s->level[to], s->next, __ATOMIC_RELAXED);
    return true;
}

static inline nothing_t bfs_send(pgasi_search_t *s, uint32_t ghost)
{
    (void)s, (void)ghost;
    return 0;
}

static inline bool bfs_receive(pgasi_search_t *s, uint32_t own, nothing_t nothing)
{
    (void)nothing;
    return bfs_wants(s, own) && bfs_update(s, own, own, 1);
}

static inline nothing_t bfs_read(const pgasi_search_t *s, uint32_t own)
{
    (void)s, (void)own;
    return 0;
}

static inline void bfs_copy(pgasi_search_t *s, uint32_t ghost, nothing_t nothing)
{
    (void)nothing;
    s->level[ghost] = s->next - 1;
}

PGAS_EDGE_MAP(bfs, pgasi_search_t, nothing_t)

/* ---- levels ---- */

pgas_status_t pgasi_search_init(pgasi_search_t *s, pgas_graph_run_t *run)
{
    *s = (pgasi_search_t){ .run = run };
    s->level = pgasi_run_state(run, 0, sizeof *s->level);
    pgas_status_t status = s->level ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK)
        status = pgas_subset_create(run, &s->now);
    if (status == PGAS_OK)
        status = pgas_subset_create(run, &s->then);
    return status;
}

static void place_source(pgasi_search_t *s, uint64_t source)
{
    const pgas_graph_t *graph = s->run->graph;
    memset(s->level, 0xff, ((uint64_t)graph->n_local + graph->n_ghosts) * sizeof *s->level);
    pgas_subset_clear(s->now);
    if (pgasi_graph_is_own(graph, source)) {
        uint32_t id = graph->id_of[source - graph->first];
        s->level[id] = 0;
        pgas_subset_add(s->now, id);
    }
}

pgas_status_t pgasi_search_run(pgasi_search_t *s, uint64_t source, uint32_t *n_levels_p)
{
    pgas_graph_run_t *run = s->run;
    pgas_graph_direction_t wanted = run->opts.direction;
    uint64_t unexplored = run->info.n_edges, n_before = 0;
    bool pulls = false;
    s->n_found = s->n_edges = 0;
    place_source(s, source);
    pgas_status_t status = pgas_subset_count(s->now);
    for (s->next = 1; status == PGAS_OK && s->now->n_all > 0; s->next++) {
        s->n_found += s->now->n_all;
        s->n_edges += s->now->n_edges_all;
        unexplored -= PGASI_MIN(unexplored, s->now->n_edges_all);
        if (!pulls)
            pulls = s->now->n_edges_all > unexplored / ALPHA;
        else
            pulls = s->now->n_all >= n_before || s->now->n_all > run->info.n_vertices / BETA;
        n_before = s->now->n_all;
        if (wanted == PGAS_GRAPH_DIRECTION_AUTO)
            run->opts.direction = pulls ? PGAS_GRAPH_PULL : PGAS_GRAPH_PUSH;
        pgasi_run_report(run, "bfs", run->info.n_edges - unexplored, run->info.n_edges);
        status = bfs_edge_map(run, s, s->now, s->then);
        pgas_subset_t *found = s->then;
        s->then = s->now;
        s->now = found;
    }
    pgasi_run_report(run, "bfs", run->info.n_edges, run->info.n_edges);
    run->opts.direction = wanted;
    *n_levels_p = s->next - 1;
    return status;
}

/* ---- results ---- */

typedef struct {
    pgasi_search_t search;
    int64_t *levels, *parents;
} bfs_t;

static inline void parent_vertex(bfs_t *b, uint32_t id)
{
    const pgas_graph_info_t *info = &b->search.run->info;
    const uint32_t *levels = b->search.level, level = levels[id];
    uint64_t least = UINT64_MAX, vertex = info->vertex[id];
    bool has_parent = level != 0 && level != PGASI_UNREACHED;
    for (uint64_t e = info->in.begin[id]; has_parent && e < info->in.begin[id + 1]; e++) {
        uint32_t from = info->in.end[e];
        if (levels[from] == level - 1)
            least = PGASI_MIN(least, info->vertex[from]);
    }
    b->parents[vertex - info->first_vertex] = (int64_t)(level == 0 ? vertex : least);
}
PGAS_VERTEX_MAP(parent, bfs_t)

static inline void level_vertex(bfs_t *b, uint32_t id)
{
    const pgas_graph_info_t *info = &b->search.run->info;
    uint32_t level = b->search.level[id];
    b->levels[info->vertex[id] - info->first_vertex] = level != PGASI_UNREACHED ? level : INT64_MAX;
}
PGAS_VERTEX_MAP(level, bfs_t)

static pgas_status_t deliver(bfs_t *b, int64_t *levels, int64_t *parents)
{
    pgas_graph_run_t *run = b->search.run;
    uint32_t any = parents != NULL; /* on some rank */
    b->levels = levels;
    b->parents = parents;
    if (levels)
        level_vertex_map(run, b);
    pgas_status_t status = pgas_allreduce(NULL, &any, &any, 1, PGAS_U32, PGAS_MAX);
    if (status == PGAS_OK && any) {
        status = pgas_ghosts_fetch(run, b->search.level, sizeof *b->search.level);
        if (status == PGAS_OK && parents)
            parent_vertex_map(run, b);
    }
    return status;
}

pgas_status_t pgas_bfs(pgas_graph_t *graph, uint64_t source, const pgas_graph_run_opts_t *opts,
                       int64_t *levels, int64_t *parents, pgas_graph_run_info_t *info_p)
{
    bfs_t b = { 0 };
    pgas_graph_run_t *run = NULL;
    pgas_graph_run_info_t info = { .size = sizeof info };
    uint64_t begin_ns = pgasi_now_ns();
    uint32_t n_levels = 0;
    pgas_status_t status = pgasi_run_begin(graph, opts, &source, true, &run);
    if (status != PGAS_OK)
        return status;
    status = pgasi_graph_agree(pgasi_search_init(&b.search, run), NULL);
    if (status == PGAS_OK)
        status = pgasi_search_run(&b.search, source, &n_levels);
    if (status == PGAS_OK)
        status = deliver(&b, levels, parents);
    info.iterations = (int)n_levels;
    info.n_found = b.search.n_found;
    info.n_edges = b.search.n_edges;
    return pgasi_run_end(run, status, begin_ns, &info, info_p);
}
