/** The tree that broadcasts travel along: who sends to whom. Pure.
 *
 *  Seen from a root the ranks stand in a row: the root first, then the others of its node, then
 *  node after node. A rank looks after a stretch [low, high) of the row that begins with itself: it
 *  cuts the stretch in two, sends to the first of the upper part, which looks after that, and goes
 *  on with the lower part. Of n ranks neither part is longer than 2^(ceil(log2 n) - 1), so nobody
 *  sends more than ceil(log2 n) times, and whoever is not the root at least once less. Within these
 *  bounds it cuts between nodes, so that few messages leave a node. */
#ifndef PGASI_TREE_H
#define PGASI_TREE_H

#include <stdint.h>
#include "pgas/status.h"

typedef struct {
    uint32_t n_ranks, n_nodes;
    const int *node_of; /* [n_ranks], the caller's */
    int *by_node;       /* [n_ranks] ranks, node after node, ascending in each */
    uint32_t *start;    /* [n_nodes + 1] where each node begins there */
} pgasi_tree_t;

/** Nodes are numbered 0 .. n_nodes - 1. PGAS_ERR_NO_MEMORY. */
pgas_status_t pgasi_tree_init(pgasi_tree_t *tree, int n_ranks, const int *node_of, int n_nodes);
void pgasi_tree_fini(pgasi_tree_t *tree);

/** The rank at a place of the row as the root sees it. */
int pgasi_tree_rank(const pgasi_tree_t *tree, int root, uint32_t place);
/** Where the upper part of [low, high) begins, which has two places or more. */
uint32_t pgasi_tree_cut(const pgasi_tree_t *tree, int root, uint32_t low, uint32_t high);

#endif
