/** The path of a rollout: down from the root, a simulation, and the report back up.
 *
 *  The first rollout that selects a child that does not exist makes it, or has it made by another
 *  rank. Rollouts that select the child meanwhile are deferred: they wait in its entry until its
 *  first report says where it is. */
#ifndef PGASI_MCTS_WALK_H
#define PGASI_MCTS_WALK_H

#include "mcts/message.h"

/* Sends rollouts down from a node, as far as this rank has the nodes. */
void pgasi_mcts_descend(worker_t *w, node_t *node, const rollouts_t *rollouts);
/* The same later, when the memory of the node has been fetched. */
void pgasi_mcts_suspend(worker_t *w, node_t *node, const rollouts_t *rollouts);
void pgasi_mcts_do_job(worker_t *w, path_t *job);
/* Simulates a state without a node: there is no room for one, or it is on another rank. */
void pgasi_mcts_simulate_once(worker_t *w, const void *state, uint32_t owner,
                              const rollouts_t *rollouts);
/* Makes a child on this rank and starts its first rollouts. Returns NULL if there is no room; then
 * the state is simulated without a node. In a graph the node may exist already. */
node_t *pgasi_mcts_create_here(worker_t *w, const void *state, uint64_t hash, uint32_t owner,
                               node_id_t parent_node, const rollouts_t *rollouts);
/* The id of child i of a node is known, or (id 0) there was no room for it. Deferred rollouts
 * continue. */
void pgasi_mcts_link(worker_t *w, node_t *node, uint32_t i, node_id_t child);
/* Delivers a report to a receiver on this rank. Then r, *parent_p and *child_p are those of the
 * next report on the way up. */
void pgasi_mcts_deliver_here(worker_t *w, node_id_t *parent_p, uint32_t *child_p, report_t *r);
/* Delivers a report, and those that result from it: up to the root, or to a receiver on another
 * rank. */
void pgasi_mcts_deliver(worker_t *w, node_id_t parent, uint32_t child, report_t *r);
/* Prefetches a node or its edges. */
void pgasi_mcts_prefetch(const void *memory);

#endif
