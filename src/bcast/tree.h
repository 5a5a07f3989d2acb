/** The tree of a broadcast: which rank sends to which. Pure.
 *
 *  Seen from a root, ranks have positions: the root is first, then the other ranks of its node,
 *  then node after node. A rank is responsible for a range [low, high) of positions that begins
 *  with its own. It cuts the range in two, and sends to the first rank of the upper part, which
 *  becomes responsible for that part. It repeats this with the lower part until only itself is
 *  left. Of n ranks neither part is longer than 2^(ceil(log2 n) - 1). So no rank sends more than
 *  ceil(log2 n) times, and a rank other than the root at least once less. Within these bounds the
 *  cuts are between nodes, so that few messages leave a node. */
#ifndef PGASI_TREE_H
#define PGASI_TREE_H

#include <stdint.h>
#include "pgas/status.h"

typedef struct {
    uint32_t n_ranks, n_nodes;
    const int *node_of; /* [n_ranks], owned by the caller */
    int *by_node;       /* [n_ranks] ranks, node after node, ascending in each */
    uint32_t *start;    /* [n_nodes + 1] the index in by_node at which each node begins */
} pgasi_tree_t;

/** Nodes are numbered 0 .. n_nodes - 1. @return PGAS_OK, PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_tree_init(pgasi_tree_t *tree, int n_ranks, const int *node_of, int n_nodes);
void pgasi_tree_fini(pgasi_tree_t *tree);

/** The rank at a position, as seen from the root. */
int pgasi_tree_rank(const pgasi_tree_t *tree, int root, uint32_t position);
/** The position at which the upper part of [low, high) begins. The range has two positions or more.
 */
uint32_t pgasi_tree_cut(const pgasi_tree_t *tree, int root, uint32_t low, uint32_t high);

#endif
