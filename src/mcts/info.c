/* The statistics of a search, and the audit of its counts. */
#include "base/info_fill.h"
#include "mcts/audit.h"
#include "mcts/message.h"
#include "pgas/coll.h"

/* ---- statistics ---- */

/* Summed over all ranks, as words of 64 bits. */
typedef struct {
    counts_t counts;
    uint64_t nodes, bytes, expanded, children, depths, threads;
} totals_t;
#define TOTALS (sizeof(totals_t) / sizeof(uint64_t))

/* The greatest of all ranks. */
typedef struct {
    uint64_t bytes_high, depth, playouts;
} greatest_t;
#define GREATEST (sizeof(greatest_t) / sizeof(uint64_t))

static void add_counts(counts_t *sum, const counts_t *counts)
{
    uint64_t a[sizeof(counts_t) / sizeof(uint64_t)], b[PGASI_ARRAY_LENGTH(a)];
    memcpy(a, sum, sizeof a);
    memcpy(b, counts, sizeof b);
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(a); i++)
        a[i] += b[i];
    memcpy(sum, a, sizeof a);
}

static void fill_info(pgas_mcts_t *m, const totals_t *t, const greatest_t *greatest)
{
    const counts_t *c = &t->counts;
    pgas_mcts_info_t *s = &m->info;
    double thread_seconds = m->result.seconds * (double)t->threads;
    *s = (pgas_mcts_info_t){ .size = sizeof *s,
                             .rollouts = m->result.rollouts,
                             .lost = m->result.lost,
                             .playouts = c->playouts,
                             .final_states = c->final_states,
                             .nodes = t->nodes,
                             .bytes = t->bytes,
                             .bytes_high = greatest->bytes_high,
                             .nodes_expanded = t->expanded,
                             .children = t->children,
                             .depth_max = greatest->depth,
                             .depth_mean = t->nodes ? (double)t->depths / (double)t->nodes : 0,
                             .selections = c->selections,
                             .remote = c->remote,
                             .deferred = c->deferred,
                             .reports = c->reports,
                             .reports_remote = c->reports_remote,
                             .combined = c->combined,
                             .shared = c->shared,
                             .transpositions = c->transpositions,
                             .phases = m->n_phases,
                             .seconds = m->result.seconds,
                             .imbalance = 1 };
    if (thread_seconds > 0) {
        s->rollouts_per_second_thread = (double)m->result.rollouts / thread_seconds;
        s->playouts_per_second_thread = (double)c->playouts / thread_seconds;
    }
    if (c->playouts)
        s->imbalance = (double)greatest->playouts * (double)t->threads / (double)c->playouts;
}

static void count_here(pgas_mcts_t *m, totals_t *t, greatest_t *greatest)
{
    for (int i = 0; i <= m->n_threads; i++) {
        const worker_t *w = &m->worker[i];
        add_counts(&t->counts, &w->counts);
        t->nodes += w->present.nodes;
        t->expanded += w->present.expanded;
        t->children += w->present.children;
        t->depths += w->present.depths;
        greatest->depth = PGASI_MAX(greatest->depth, w->present.depth_max);
        greatest->playouts = PGASI_MAX(greatest->playouts, w->counts.playouts);
    }
    t->threads = (uint64_t)m->n_threads;
    pgasi_mcts_sum_bytes(m);
    t->bytes = m->bytes;
    greatest->bytes_high = m->bytes_high;
}

pgas_status_t pgasi_mcts_collect_info(pgas_mcts_t *m)
{
    totals_t total, all_total;
    greatest_t greatest, all_greatest;
    memset(&total, 0, sizeof total);
    memset(&greatest, 0, sizeof greatest);
    count_here(m, &total, &greatest);
    pgas_status_t status = pgas_allreduce(NULL, &total, &all_total, TOTALS, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &greatest, &all_greatest, GREATEST, PGAS_U64, PGAS_MAX);
    if (status == PGAS_OK)
        fill_info(m, &all_total, &all_greatest);
    return status;
}

pgas_status_t pgas_mcts_info(const pgas_mcts_t *m, pgas_mcts_info_t *info_p)
{
    return pgasi_mcts_is_live(m) ? pgasi_info_fill(info_p, &m->info, sizeof m->info)
                                 : PGAS_ERR_INVALID;
}

/* ---- audit ---- */

void pgasi_mcts_handle_audit(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    const node_message_t *message = args;
    if (pgasi_mcts_search_of_node(args, bytes))
        __atomic_fetch_add(&((node_t *)id_pointer(message->node))->scratch, message->visits,
                           __ATOMIC_RELAXED);
}

/* Sends to each child how many of its visits this parent counts. Returns their sum. */
static uint64_t send_visits(worker_t *w, node_t *node)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < pgasi_mcts_n_open(node); i++) {
        const child_t *c = pgasi_mcts_visited_child(node, i);
        if (!c)
            continue;
        node_message_t message = { w->mcts->id, 0, c->id, c->visits };
        sum += message.visits;
        if (c->id)
            pgasi_mcts_post(w, id_rank(c->id), HANDLER_AUDIT, &message, sizeof message);
    }
    return sum;
}

/* scratch is the number of visits that the parents count. It may be greater than that of the node:
 * rollouts for which there was no memory were simulated without the node (refused). In a graph it
 * may be less: parents that have been freed do not count any more. */
static bool is_wrong(const pgas_mcts_t *m, const node_t *node, bool refused)
{
    bool root = node == id_pointer(m->root) && m->has_root;
    bool less = node->scratch < node->visits && !m->is_graph,
         more = node->scratch > node->visits && !refused;
    return node->done > node->visits || (!root && (less || more));
}

/* Returns the number of nodes with fewer visits than their children have. */
static uint64_t send_all_visits(pgas_mcts_t *m)
{
    uint64_t n_wrong = 0;
    worker_t *w = &m->worker[0];
    for (int i = 0; i <= m->n_threads; i++)
        for (node_t *node = m->worker[i].nodes; node; node = node->next)
            n_wrong += send_visits(w, node) > node->visits;
    pgasi_mcts_flush(w);
    return n_wrong;
}

pgas_status_t pgasi_mcts_audit(pgas_mcts_t *m, uint64_t *wrong_p, uint64_t *open_p)
{
    pgas_status_t status = pgasi_mcts_check(m);
    if (status != PGAS_OK || !wrong_p || !open_p)
        return status != PGAS_OK ? status : PGAS_ERR_INVALID;
    uint64_t sums[2] = { 0 }, all[2], refused = 0, all_refused;
    for (int i = 0; i <= m->n_threads; i++) {
        refused += m->worker[i].n_refused;
        for (node_t *node = m->worker[i].nodes; node; node = node->next)
            node->scratch = 0;
    }
    status = pgas_barrier(NULL);
    if (status == PGAS_OK) {
        sums[0] = send_all_visits(m);
        status = pgas_quiesce_work(&m->work);
    }
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &refused, &all_refused, 1, PGAS_U64, PGAS_ADD);
    for (int i = 0; i <= m->n_threads && status == PGAS_OK; i++) {
        for (node_t *node = m->worker[i].nodes; node; node = node->next) {
            sums[0] += is_wrong(m, node, all_refused > 0);
            sums[1] += node->visits - node->done;
        }
    }
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, sums, all, 2, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK) {
        *wrong_p = all[0];
        *open_p = all[1];
    }
    return pgasi_mcts_note_death(m, status);
}
