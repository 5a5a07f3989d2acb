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

/** Creates a search from a position. Its nodes take up to `bytes` bytes; when these are used up, it
 *  makes no further node. @return NULL: no memory, or a size that does not exist */
ref_tree_t *ref_tree_create(const pgas_hex_t *root, int n_threads, int playouts, size_t bytes,
                            uint64_t seed);
void ref_tree_destroy(ref_tree_t *tree);

/** Drops all nodes. */
void ref_tree_clear(ref_tree_t *tree);
/** Runs further rollouts and returns when all are complete. The caller is one of the threads; the
 *  others run on these cores, or on any (NULL). @return not 0: a thread cannot be started */
int ref_tree_search(ref_tree_t *tree, uint64_t rollouts, const cpu_set_t *cores);
/** The move from the root with most visits, and its visits; NO_MOVE: none was tried. */
pgas_mcts_move_t ref_tree_best(const ref_tree_t *tree, uint64_t *visits_p);
/** Visits of the root, and nodes that were visited. */
void ref_tree_count(const ref_tree_t *tree, uint64_t *visits_p, uint64_t *nodes_p);

/** Runs only playouts: n times `playouts` games from a position. @return the games that player 0
 *  has won */
uint64_t ref_hex_games(const pgas_hex_t *hex, uint64_t n, int playouts, uint64_t seed);

#endif
