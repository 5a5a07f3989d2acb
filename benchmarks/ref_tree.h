/** Reference searches of Hex, as a careful programmer writes them for one process with shared
 *  memory, without a library.
 *
 *  The tree is textbook lock-free UCT with virtual loss: UCB1 with C = 1, and one new node a
 *  rollout, taken at random from the moves not yet tried. Moves and playouts are those of
 *  pgas/hex.h, so that only the search differs. The reference is plain and fixed, and never tuned
 *  downwards. */
#ifndef BENCH_REF_TREE_H
#define BENCH_REF_TREE_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/hex.h"

typedef struct ref_tree ref_tree_t;

/** A search of positions like this one with so many threads and playouts a rollout. Nodes take up
 *  to so many bytes; then no node is made any more. NULL: no memory, or no such size. */
ref_tree_t *ref_tree_create(const pgas_hex_t *root, int n_threads, int playouts, size_t bytes,
                            uint64_t seed);
void ref_tree_destroy(ref_tree_t *tree);

/** Drops all nodes. */
void ref_tree_clear(ref_tree_t *tree);
/** Runs so many rollouts more, and comes back when all are done. The caller is one of the threads;
 *  others run on these cores, NULL: on any. Not 0: a thread cannot be started. */
int ref_tree_search(ref_tree_t *tree, uint64_t rollouts, const cpu_set_t *cores);
/** The move from the root with most visits, and them; NO_MOVE: none was tried. */
pgas_mcts_move_t ref_tree_best(const ref_tree_t *tree, uint64_t *visits_p);
/** Visits of the root, and nodes that were visited. */
void ref_tree_count(const ref_tree_t *tree, uint64_t *visits_p, uint64_t *nodes_p);

/** Nothing but playouts: n times so many games from a position. How many player 0 won. */
uint64_t ref_hex_games(const pgas_hex_t *hex, uint64_t n, int playouts, uint64_t seed);

#endif
