/* Garbage collection, in an idle phase: nodes that cannot be reached from a new root are freed.
 *
 * Marking goes from node to node over all ranks, then every rank sweeps its nodes. Reference counts
 * would not do, because a graph of positions may have cycles; so trees and graphs are treated
 * alike. The handlers mark: one of them runs at a time on a rank. */
#include "mcts/message.h"
#include "pgas/coll.h"

/* Marks a node and those on this rank that can be reached from it. Nodes that are still to be
 * visited are linked through scratch. */
static void mark(worker_t *w, node_t *list)
{
    pgas_mcts_t *m = w->mcts;
    list->mark = m->epoch;
    list->scratch = 0;
    while (list) {
        node_t *node = list;
        list = (node_t *)(uintptr_t)node->scratch;
        for (uint32_t i = 0; i < pgasi_mcts_n_open(node); i++) {
            const child_t *c = pgasi_mcts_visited_child(node, i);
            if (!c || !c->id)
                continue;
            node_t *child = id_pointer(c->id);
            if (id_rank(c->id) != m->me) {
                node_message_t message = { m->id, 0, c->id, 0 };
                pgasi_mcts_post(w, id_rank(c->id), HANDLER_MARK, &message, sizeof message);
            } else if (child->mark != m->epoch) {
                child->mark = m->epoch;
                child->scratch = (uint64_t)(uintptr_t)list;
                list = child;
            }
        }
    }
    pgasi_mcts_flush(w);
}

void pgasi_mcts_handle_mark(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    pgas_mcts_t *m = pgasi_mcts_search_of_node(args, bytes);
    const node_message_t *message = args;
    node_t *node = m ? id_pointer(message->node) : NULL;
    if (node && node->mark != m->epoch)
        mark(handlers_worker(m), node);
}

/* The depth below the root. A node of a graph may have been made on a shorter path than that of the
 * roots; then the difference wraps, and 0 is returned. */
static uint64_t depth_of(const pgas_mcts_t *m, const node_t *node)
{
    uint16_t depth = (uint16_t)(node->depth - m->root_depth);
    return depth <= m->opts.max_depth ? depth : 0;
}

static uint64_t count_children(const node_t *node)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < pgasi_mcts_n_open(node); i++)
        n += pgasi_mcts_visited_child(node, i) != NULL;
    return n;
}

static void clear_table(pgas_mcts_t *m)
{
    if (m->table)
        memset(m->table, 0, (m->table_mask + 1) * sizeof *m->table);
}

/* Frees the nodes of this rank that are not marked, and counts the others anew. */
static void sweep(pgas_mcts_t *m)
{
    clear_table(m);
    for (int i = 0; i <= m->n_threads; i++) {
        worker_t *w = &m->worker[i];
        node_t *next, *old = w->nodes;
        w->nodes = NULL;
        memset(&w->present, 0, sizeof w->present);
        for (node_t *node = old; node; node = next) {
            next = node->next;
            if (node->mark != m->epoch) {
                pgasi_mcts_free_node(w, node);
                continue;
            }
            uint64_t n = count_children(node);
            list_node(w, node, depth_of(m, node));
            w->present.children += n;
            w->present.expanded += n > 0;
            if (m->is_graph)
                pgasi_mcts_insert(m, node);
        }
    }
    pgasi_mcts_share_room(m);
    pgasi_mcts_sum_bytes(m);
}

pgas_status_t pgasi_mcts_keep_below_root(pgas_mcts_t *m)
{
    m->epoch++;
    pgas_status_t status = pgas_barrier(NULL); /* all ranks have this epoch before a mark comes */
    if (status == PGAS_OK && m->has_root) {
        node_message_t message = { m->id, 0, m->root, 0 };
        pgasi_mcts_post(&m->worker[0], m->me, HANDLER_MARK, &message, sizeof message);
        pgasi_mcts_flush(&m->worker[0]);
    }
    if (status == PGAS_OK)
        status = pgas_quiesce_work(&m->work);
    if (status != PGAS_OK)
        return status;
    sweep(m);
    return pgas_barrier(NULL);
}

void pgasi_mcts_drop_all(pgas_mcts_t *m)
{
    clear_table(m);
    for (int i = 0; i <= m->n_threads; i++) {
        m->worker[i].nodes = NULL;
        memset(&m->worker[i].present, 0, sizeof m->worker[i].present);
        pgasi_mcts_pool_reset(&m->worker[i].pool);
    }
    pgasi_mcts_share_room(m);
}
