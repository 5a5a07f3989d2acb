/* Betweenness: Brandes' algorithm, level by level, for one source after the other.
 *
 *  1. A breadth-first search gives levels; own vertices are sorted by them.
 *  2. From the first level to the last: the number of shortest paths to a vertex is the sum of
 *     those of its in-neighbours one level before.
 *  3. From the last level to the first: the dependency of a vertex is its number of paths times the
 *     sum, over its out-neighbours one level behind, of (1 + dependency) / number of paths.
 * After each level of 2 and 3 the owners send the values of its members to their ghosts. Each sum
 * has a fixed order, so the number of threads changes no bit. */
#include <math.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "graph/run.h"
#include "graph/search.h"
#include "pgas/coll.h"

typedef struct {
    pgas_graph_run_t *run;
    pgasi_search_t search;
    double *n_paths;    /* by id: number of shortest paths from the source */
    double *factor;     /* by id: (1 + dependency) / number of paths */
    double *total;      /* by own id: sum of the dependencies on all sources */
    double *values;     /* the values that travel now */
    uint32_t *order;    /* own ids by level */
    uint64_t *begin;    /* [n_levels + 1] of each level in order */
    uint32_t level;     /* that is computed now */
    uint64_t next, end; /* in order: the threads take chunks in turn */
    bool backward;
    bool overflows; /* some number of paths is above what a double holds */
} brandes_t;

/* ---- the computation of one level ---- */

static double count_paths(const brandes_t *b, uint32_t id)
{
    const pgas_graph_rows_t *in = &b->run->info.in;
    const uint32_t *level = b->search.level, before = level[id] - 1;
    double n = 0;
    for (uint64_t e = in->begin[id]; e < in->begin[id + 1]; e++)
        if (level[in->end[e]] == before)
            n += b->n_paths[in->end[e]];
    return n;
}

static double sum_factors(const brandes_t *b, uint32_t id)
{
    const pgas_graph_rows_t *out = &b->run->info.out;
    const uint32_t *level = b->search.level, behind = level[id] + 1;
    double sum = 0;
    for (uint64_t e = out->begin[id]; e < out->begin[id + 1]; e++)
        if (level[out->end[e]] == behind)
            sum += b->factor[out->end[e]];
    return sum;
}

static void compute_some(int i, int n, void *arg)
{
    brandes_t *b = arg;
    (void)i, (void)n;
    for (;;) {
        uint64_t at = __atomic_fetch_add(&b->next, 64, __ATOMIC_RELAXED);
        if (at >= b->end)
            break;
        for (uint64_t stop = PGASI_MIN(at + 64, b->end); at < stop; at++) {
            uint32_t id = b->order[at];
            if (!b->backward) {
                b->n_paths[id] = count_paths(b, id);
                if (PGAS_UNLIKELY(isinf(b->n_paths[id])))
                    __atomic_store_n(&b->overflows, true, __ATOMIC_RELAXED);
            } else {
                double dependency = b->n_paths[id] * sum_factors(b, id);
                b->factor[id] = (1 + dependency) / b->n_paths[id];
                b->total[id] += dependency;
            }
        }
    }
}

/* ---- the exchange of a level's values ---- */

static void read_value(void *context, uint32_t own, void *message)
{
    memcpy(message, &((brandes_t *)context)->values[own], sizeof(double));
}

static void copy_value(void *context, uint32_t ghost, const void *message)
{
    memcpy(&((brandes_t *)context)->values[ghost], message, sizeof(double));
}

static const pgas_edge_ops_t level_ops = {
    .message_bytes = sizeof(double),
    .read = read_value,
    .copy = copy_value,
};

static pgas_status_t compute_level(brandes_t *b, uint32_t level, pgas_subset_t *members)
{
    b->level = level;
    b->next = b->begin[level];
    b->end = b->begin[level + 1];
    if (level > 0) /* the source has one path, and no dependency counts for it */
        pgasi_run_threads(b->run, 16 * (b->end - b->next), compute_some, b);
    if (b->run->graph->n_ranks == 1)
        return PGAS_OK;
    pgas_subset_clear(members);
    for (uint64_t i = b->begin[level]; i < b->begin[level + 1]; i++)
        pgas_subset_add(members, b->order[i]);
    b->values = b->backward ? b->factor : b->n_paths;
    pgas_status_t status = pgasi_exchange_members(b->run, &level_ops, b, members);
    members->is_list = false; /* the bits of ghosts are set, too */
    return status;
}

/* ---- one source ---- */

/* Without this, infinite numbers of paths would give values that are not numbers. Collective. */
static pgas_status_t check_paths(const brandes_t *b)
{
    if (b->overflows)
        pgasi_graph_note(
            "pgas_betweenness: there are more than 1.8e308 shortest paths to a vertex");
    return pgasi_graph_agree(b->overflows ? PGAS_ERR_LIMIT : PGAS_OK, NULL);
}

/* Sorts the own vertices that were reached by their levels. */
static void sort_by_level(brandes_t *b, uint32_t n_levels)
{
    uint32_t n_local = b->run->info.n_local;
    memset(b->begin, 0, ((uint64_t)n_levels + 2) * sizeof *b->begin);
    for (uint32_t id = 0; id < n_local; id++)
        if (b->search.level[id] != PGASI_UNREACHED)
            b->begin[b->search.level[id] + 2]++;
    for (uint32_t l = 0; l < n_levels; l++)
        b->begin[l + 2] += b->begin[l + 1];
    for (uint32_t id = 0; id < n_local; id++)
        if (b->search.level[id] != PGASI_UNREACHED)
            b->order[b->begin[b->search.level[id] + 1]++] = id;
}

static pgas_status_t add_source(brandes_t *b, uint64_t source)
{
    pgas_graph_run_t *run = b->run;
    uint32_t n_levels = 0;
    pgas_status_t status = pgasi_search_run(&b->search, source, &n_levels);
    if (status == PGAS_OK)
        status = pgas_ghosts_fetch(run, b->search.level, sizeof *b->search.level);
    b->begin =
        pgasi_graph_scratch(run->graph, SLOT_STATE + 5, (uint64_t)n_levels + 2, sizeof *b->begin);
    if (status == PGAS_OK)
        status = pgasi_graph_agree(b->begin ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status != PGAS_OK)
        return status;
    sort_by_level(b, n_levels);
    if (pgasi_graph_is_own(run->graph, source))
        b->n_paths[run->graph->id_of[source - run->graph->first]] = 1;
    b->backward = false;
    for (uint32_t level = 0; status == PGAS_OK && level < n_levels; level++)
        status = compute_level(b, level, b->search.now);
    if (status == PGAS_OK)
        status = check_paths(b);
    b->backward = true;
    for (uint32_t level = n_levels; status == PGAS_OK && level-- > 1;)
        status = compute_level(b, level, b->search.now);
    return status;
}

/* ---- all sources ---- */

static pgas_status_t start(brandes_t *b)
{
    pgas_graph_run_t *run = b->run;
    b->n_paths = pgasi_run_state(run, 1, sizeof *b->n_paths);
    b->factor = pgasi_run_state(run, 2, sizeof *b->factor);
    b->total = pgasi_run_state(run, 3, sizeof *b->total);
    b->order = pgasi_run_state(run, 4, sizeof *b->order);
    pgas_status_t status = pgasi_search_init(&b->search, run);
    if (!b->n_paths || !b->factor || !b->total || !b->order)
        status = PGAS_ERR_NO_MEMORY;
    for (uint32_t id = 0; status == PGAS_OK && id < run->info.n_local; id++)
        b->total[id] = 0;
    return pgasi_graph_agree(status, NULL);
}

pgas_status_t pgas_betweenness(pgas_graph_t *graph, const uint64_t *sources, size_t n,
                               const pgas_graph_run_opts_t *opts, double *values,
                               pgas_graph_run_info_t *info_p)
{
    brandes_t b = { 0 };
    pgas_graph_run_info_t info = { .size = sizeof info };
    uint64_t n_sources = n, begin_ns = pgasi_now_ns();
    pgas_status_t status = pgasi_run_begin(graph, opts, NULL, true, &b.run);
    if (status != PGAS_OK)
        return status;
    bool sane = (values || graph->n_local == 0) && (sources || n == 0 || graph->rank != 0);
    status = pgasi_graph_agree(sane ? PGAS_OK : PGAS_ERR_INVALID, NULL);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, &n_sources, sizeof n_sources, 0);
    if (status == PGAS_OK)
        status = start(&b);
    for (uint64_t i = 0; status == PGAS_OK && i < n_sources; i++) {
        uint64_t source = graph->rank == 0 ? sources[i] : 0;
        status = pgasi_run_source(b.run, &source);
        if (status == PGAS_OK)
            status = add_source(&b, source);
        pgasi_run_report(b.run, "betweenness", i + 1, n_sources);
    }
    for (uint32_t id = 0; status == PGAS_OK && id < graph->n_local; id++)
        values[graph->vertex[id] - graph->first] = b.total[id];
    info.iterations = (int)n_sources;
    info.n_found = graph->n_vertices;
    info.n_edges = graph->n_edges;
    return pgasi_run_end(b.run, status, begin_ns, &info, info_p);
}
