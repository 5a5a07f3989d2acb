/* amr: the octree as a sorted list of its leaves. A leaf is found by a binary search. */
#include "amr.h"
#include <stdlib.h>

/* The bits of the three coordinates in turn. Boxes in this order form the Morton curve: all boxes
 * within a box follow each other. */
static uint64_t key_of(const box_t *box)
{
    uint64_t key = 0;
    for (int bit = 0; bit < LEVEL_MAX; bit++)
        for (int d = 0; d < 3; d++) {
            uint64_t corner = (uint64_t)box->at[d] << (LEVEL_MAX - box->level);
            key |= (corner >> bit & 1) << (3 * bit + d);
        }
    return key;
}

static box_t box_make(uint32_t x, uint32_t y, uint32_t z, int level)
{
    box_t box = { { x, y, z }, level, 0 };
    box.key = key_of(&box);
    return box;
}

box_t box_child(const box_t *box, int octant)
{
    uint32_t o = (uint32_t)octant;
    return box_make(2 * box->at[0] + (o & 1), 2 * box->at[1] + (o >> 1 & 1),
                    2 * box->at[2] + (o >> 2), box->level + 1);
}

box_t box_parent(const box_t *box)
{
    return box_make(box->at[0] / 2, box->at[1] / 2, box->at[2] / 2, box->level - 1);
}

int box_octant(const box_t *box)
{
    return (int)((box->at[0] & 1) | (box->at[1] & 1) << 1 | (box->at[2] & 1) << 2);
}

/* The directions along a face: x, y or z without the one across it, in this order. */
int box_quadrant(const box_t *box, int face)
{
    int across = face / 2, one = across == 0 ? 1 : 0, other = across == 2 ? 1 : 2;
    return (int)((box->at[one] & 1) | (box->at[other] & 1) << 1);
}

static int compare(const void *a, const void *b)
{
    const box_t *one = a, *other = b;
    return one->key < other->key ? -1 : one->key > other->key;
}

void tree_init(tree_t *tree, int finest)
{
    uint32_t side = 1u << LEVEL_MIN;
    tree->finest = finest;
    tree->n = 0;
    tree->leaf = need(malloc(side * side * side * sizeof *tree->leaf));
    for (uint32_t z = 0; z < side; z++)
        for (uint32_t y = 0; y < side; y++)
            for (uint32_t x = 0; x < side; x++)
                tree->leaf[tree->n++] = box_make(x, y, z, LEVEL_MIN);
    qsort(tree->leaf, (size_t)tree->n, sizeof *tree->leaf, compare);
}

/* Returns the leaf that contains the lower corner of a box. */
static int find(const tree_t *tree, const box_t *box)
{
    int low = 0, high = tree->n;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (tree->leaf[middle].key <= box->key)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the box of the same size behind a face. The cube is periodic. */
static box_t behind(const box_t *box, int face)
{
    uint32_t side = 1u << box->level, at[3] = { box->at[0], box->at[1], box->at[2] };
    at[face / 2] = (at[face / 2] + (face & 1 ? 1 : side - 1)) % side;
    return box_make(at[0], at[1], at[2], box->level);
}

int tree_neighbors(const tree_t *tree, int leaf, int face, int neighbors[4])
{
    box_t box = behind(&tree->leaf[leaf], face);
    neighbors[0] = find(tree, &box);
    if (tree->leaf[neighbors[0]].level <= box.level)
        return 1;

    /* Four of its children touch the face. */
    for (int octant = 0; octant < 8; octant++) {
        box_t child = box_child(&box, octant);
        bool touches = (octant >> (face / 2) & 1) != (face & 1);
        if (touches)
            neighbors[box_quadrant(&child, face)] = find(tree, &child);
    }
    return 4;
}

int tree_first(const tree_t *tree, int rank)
{
    return (int)((int64_t)tree->n * rank / pgas_n_ranks());
}

int tree_owner(const tree_t *tree, int leaf)
{
    int rank = (int)((int64_t)leaf * pgas_n_ranks() / tree->n);
    while (tree_first(tree, rank + 1) <= leaf)
        rank++;
    return rank;
}
