/* The tree of a broadcast: see tree.h. Each function needs a few loads, for any number of ranks. */
#include "bcast/tree.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/checks.h"

pgas_status_t pgasi_tree_init(pgasi_tree_t *t, int n_ranks, const int *node_of, int n_nodes)
{
    *t = (pgasi_tree_t){ (uint32_t)n_ranks, (uint32_t)n_nodes, node_of, NULL, NULL };
    t->by_node = malloc((size_t)n_ranks * sizeof *t->by_node);
    t->start = calloc((size_t)n_nodes + 2, sizeof *t->start);
    if (!t->by_node || !t->start) {
        pgasi_tree_fini(t);
        return PGAS_ERR_NO_MEMORY;
    }
    for (int r = 0; r < n_ranks; r++)
        t->start[node_of[r] + 2]++;
    for (int i = 2; i < n_nodes + 2; i++)
        t->start[i] += t->start[i - 1];
    /* this moves start[i + 1] to the end of node i, where the next node begins */
    for (int r = 0; r < n_ranks; r++)
        t->by_node[t->start[node_of[r] + 1]++] = r;
    return PGAS_OK;
}

void pgasi_tree_fini(pgasi_tree_t *t)
{
    free(t->by_node);
    free(t->start);
    *t = (pgasi_tree_t){ 0, 0, NULL, NULL, NULL };
}

/* The index of a position in by_node, before the root and the first rank of its node are
 * exchanged. */
static inline uint32_t index_of(const pgasi_tree_t *t, int root, uint32_t position)
{
    uint64_t index = (uint64_t)t->start[t->node_of[root]] + position;
    return (uint32_t)(index < t->n_ranks ? index : index - t->n_ranks);
}

int pgasi_tree_rank(const pgasi_tree_t *t, int root, uint32_t position)
{
    int rank = t->by_node[index_of(t, root, position)];
    if (position == 0)
        return root;
    return rank == root ? t->by_node[t->start[t->node_of[root]]] : rank;
}

uint32_t pgasi_tree_cut(const pgasi_tree_t *t, int root, uint32_t low, uint32_t high)
{
    uint32_t half = 1u << (pgasi_log2_up(high - low) - 1), middle = low + (high - low + 1) / 2;
    uint32_t least = high - low > half ? PGASI_MAX(low + 1, high - half) : low + 1,
             most = PGASI_MIN(high - 1, low + half);
    uint32_t index = index_of(t, root, middle), node = (uint32_t)t->node_of[t->by_node[index]];
    /* distances to the begin of this node, and of the next */
    uint32_t down = index - t->start[node], up = t->start[node + 1] - index;
    bool down_fits = down <= middle - least, up_fits = up <= most - middle;
    if (down_fits && (!up_fits || down <= up))
        return middle - down;
    return up_fits ? middle + up : middle;
}
