/* amr: the next tree. Every rank computes it from the same wishes of all leaves. */
#include "amr.h"
#include <stdlib.h>

/* Returns true if eight leaves from `first` on are the children of one box. */
static bool is_family(const tree_t *tree, int first)
{
    if (first < 0 || first + 7 >= tree->n || box_octant(&tree->leaf[first]) != 0)
        return false;
    const box_t *eldest = &tree->leaf[first], *youngest = &tree->leaf[first + 7];
    return youngest->level == eldest->level && box_parent(youngest).key == eldest->key;
}

/* A merge needs the consent of all eight siblings. @return whether a leaf has lost its wish */
static bool keep_families(const tree_t *tree, int *level)
{
    bool has_changed = false;
    for (int i = 0; i < tree->n; i++) {
        int now = tree->leaf[i].level, first = i - box_octant(&tree->leaf[i]);
        bool agree = is_family(tree, first);
        for (int k = 0; k < 8 && agree; k++)
            agree = level[first + k] < now;
        if (level[i] < now && !agree) {
            level[i] = now;
            has_changed = true;
        }
    }
    return has_changed;
}

/* Leaves that share a face may differ by one level: the larger one splits, or does not merge. */
static bool balance(const tree_t *tree, int *level)
{
    bool has_changed = false;
    for (int i = 0; i < tree->n; i++)
        for (int face = 0; face < N_FACES; face++) {
            int neighbors[4], n = tree_neighbors(tree, i, face, neighbors);
            for (int k = 0; k < n; k++)
                if (level[i] < level[neighbors[k]] - 1) {
                    level[i] = level[neighbors[k]] - 1;
                    has_changed = true;
                }
        }
    return has_changed;
}

/* The new level of each leaf. Both rules only raise levels, so the loop ends, and the result does
 * not depend on the order. */
static void choose_levels(const tree_t *tree, const int8_t *wish, int *level)
{
    for (int i = 0; i < tree->n; i++) {
        level[i] = tree->leaf[i].level + wish[i];
        if (level[i] < LEVEL_MIN)
            level[i] = LEVEL_MIN;
        if (level[i] > tree->finest)
            level[i] = tree->finest;
    }
    bool has_changed = true;
    while (has_changed) {
        has_changed = keep_families(tree, level);
        has_changed |= balance(tree, level);
    }
}

void tree_adapt(const tree_t *tree, const int8_t *wish, tree_t *next, int *new_leaf)
{
    int *level = need(malloc((size_t)tree->n * sizeof *level));
    choose_levels(tree, wish, level);

    next->finest = tree->finest;
    next->leaf = need(malloc((size_t)tree->n * 8 * sizeof *next->leaf));
    next->n = 0;
    for (int i = 0; i < tree->n; i++) {
        const box_t *box = &tree->leaf[i];
        bool merges = level[i]<box->level, splits = level[i]> box->level;
        if (merges && box_octant(box) != 0) { /* its first sibling has made the parent */
            new_leaf[i] = next->n - 1;
            continue;
        }
        new_leaf[i] = next->n;
        for (int octant = 0; splits && octant < 8; octant++)
            next->leaf[next->n++] = box_child(box, octant);
        if (!splits)
            next->leaf[next->n++] = merges ? box_parent(box) : *box;
    }
    free(level);
}
