/* Edge maps: the direction, the start of the loops on all threads, the exchange. The loops
 * themselves are compiled into the program (detail/edge_map.h). */
#include "base/checks.h"
#include "graph/run.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

/* Ligra's rule: pull if the members and their edges are more than 1 / DENSE_PART of all edges. */
#define DENSE_PART 20

typedef struct {
    pgas_edge_step_t step;
    void (*loop)(pgas_edge_step_t *step, bool is_shared);
} work_t;

static void run_loop(int i, int n, void *arg)
{
    work_t *work = arg;
    (void)i;
    work->loop(&work->step, n > 1);
}

static bool should_pull(pgas_graph_run_t *run, const pgas_subset_t *from)
{
    if (pgasi_run_of(run)->array)
        return true; /* its elements are read, not combined by functions of the program */
    if (!run->info.in.begin)
        return false;
    if (run->opts.direction != PGAS_GRAPH_DIRECTION_AUTO)
        return run->opts.direction == PGAS_GRAPH_PULL;
    return from->n_all + from->n_edges_all > run->info.n_edges / DENSE_PART;
}

static pgas_status_t push(pgas_graph_run_t *run, const pgas_edge_ops_t *ops, void *context,
                          pgas_subset_t *from, pgas_subset_t *to)
{
    work_t work = { { .run = run, .context = context, .from = from, .to = to }, ops->push };
    pgas_status_t status = PGAS_OK;
    work.step.ghosts =
        pgasi_graph_scratch(run->graph, SLOT_GHOSTS, run->info.n_ghosts, sizeof(uint32_t));
    pgas_subset_list(from);
    pgasi_run_threads(run, from->n + from->n_edges, run_loop, &work);
    to->n = work.step.n;
    to->n_edges = work.step.n_edges;
    if (run->graph->n_ranks > 1)
        status =
            pgasi_exchange_changes(run, ops, context, work.step.ghosts, work.step.n_ghosts, to);
    return status;
}

/* Clears the bits of ghosts. */
static void forget_ghosts(const pgas_graph_run_t *run, pgas_subset_t *subset)
{
    uint64_t first = run->info.n_local, end = first + run->info.n_ghosts;
    if (first % 64 != 0)
        subset->bits[first / 64] &= (UINT64_C(1) << first % 64) - 1;
    for (uint64_t word = PGASI_DIV_UP(first, 64); word < PGASI_DIV_UP(end, 64); word++)
        subset->bits[word] = 0;
}

static pgas_status_t pull(pgas_graph_run_t *run, const pgas_edge_ops_t *ops, void *context,
                          pgas_subset_t *from, pgas_subset_t *to)
{
    work_t work = { { .run = run, .context = context, .from = from, .to = to }, ops->pull };
    pgas_status_t status = PGAS_OK;
    if (run->graph->n_ranks > 1)
        status = pgasi_exchange_members(run, ops, context, from);
    if (status != PGAS_OK)
        return status;
    pgasi_run_threads(run, run->info.n_local, run_loop, &work);
    to->is_list = false;
    to->n = work.step.n;
    to->n_edges = work.step.n_edges;
    forget_ghosts(run, from);
    return PGAS_OK;
}

/* With the exchange ARRAY a message is a word of the array. */
static pgas_status_t check_message(pgas_graph_run_t *run, size_t bytes)
{
    size_t most =
        pgasi_run_of(run)->array ? sizeof(uint64_t) : PGASI_RUN_ITEM_MAX - sizeof(uint32_t);
    if (bytes > most) {
        PGASI_ERROR("graph", "an edge map has messages of %zu bytes, at most %zu are possible",
                    bytes, most);
        return PGAS_ERR_LIMIT;
    }
    return PGAS_OK;
}

pgas_status_t pgas_edge_map_run(pgas_graph_run_t *run, const pgas_edge_ops_t *ops, void *context,
                                pgas_subset_t *from, pgas_subset_t *to)
{
    bool pulls = should_pull(run, from);
    pgas_status_t status = check_message(run, ops->message_bytes);
    pgas_subset_clear(to);
    if (status == PGAS_OK)
        status = (pulls ? pull : push)(run, ops, context, from, to);
    return status == PGAS_OK ? pgas_subset_count(to) : status;
}
