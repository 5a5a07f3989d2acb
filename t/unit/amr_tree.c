/* what: The octree of examples/amr stays an octree under random wishes: leaves cover the cube once,
 *       in order. Leaves that share a face differ by at most one level. Wishes are granted unless
 *       that rule forbids it. Neighbours are those of a plain grid.
 * A model: the cube as a grid of the smallest boxes, seeded
 * source: examples/amr */
#include "examples/amr/amr.h"
#include "t/random.h"
#include "t/tap.h"

#define FINEST 5
#define SIDE   (1 << FINEST)
#define ROUNDS 30

/* The leaf that has each of the smallest boxes. */
typedef int grid_t[SIDE][SIDE][SIDE];
static grid_t grid, next_grid;

void *need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* Enters all leaves. @return how many boxes have no leaf or two, and leaves are out of order */
static int fill(const tree_t *tree, grid_t to)
{
    int n_bad = 0;
    memset(to, -1, sizeof(grid_t));
    for (int i = 0; i < tree->n; i++) {
        const box_t *box = &tree->leaf[i];
        int size = SIDE >> box->level, at[3];
        for (int d = 0; d < 3; d++)
            at[d] = (int)box->at[d] * size;
        n_bad += i > 0 && tree->leaf[i - 1].key >= box->key;
        n_bad += box->level < LEVEL_MIN || box->level > FINEST;
        for (int k = 0; k < size * size * size; k++) {
            int *cell = &to[at[2] + k / size / size][at[1] + k / size % size][at[0] + k % size];
            n_bad += *cell >= 0;
            *cell = i;
        }
    }
    for (int k = 0; k < SIDE * SIDE * SIDE; k++)
        n_bad += (&to[0][0][0])[k] < 0;
    return n_bad;
}

/* The leaf at a place, which may be outside of the periodic cube by less than its side. */
static int leaf_at(grid_t in, const int at[3])
{
    return in[(at[2] + SIDE) % SIDE][(at[1] + SIDE) % SIDE][(at[0] + SIDE) % SIDE];
}

/* Lists the leaves behind a face in the grid, each once, in the order of quadrants. */
static int grid_neighbors(const tree_t *tree, grid_t in, int leaf, int face, int found[4])
{
    const box_t *box = &tree->leaf[leaf];
    int size = SIDE >> box->level, d = face / 2, one = d == 0 ? 1 : 0, other = d == 2 ? 1 : 2;
    int n = 0;
    for (int quadrant = 0; quadrant < 4; quadrant++) {
        int at[3];
        for (int i = 0; i < 3; i++)
            at[i] = (int)box->at[i] * size;
        at[d] += face & 1 ? size : -1;
        at[one] += (quadrant & 1) * size / 2;
        at[other] += (quadrant >> 1) * size / 2;
        int there = leaf_at(in, at);
        if (n == 0 || found[n - 1] != there)
            found[n++] = there;
    }
    return n;
}

/* @return how many faces have other neighbours than in the grid, or some that are too small */
static int count_bad_faces(const tree_t *tree, grid_t in)
{
    int n_bad = 0;
    for (int i = 0; i < tree->n; i++)
        for (int face = 0; face < N_FACES; face++) {
            int found[4], wanted[4], n = tree_neighbors(tree, i, face, found);
            bool is_same = n == grid_neighbors(tree, in, i, face, wanted);
            for (int k = 0; k < n && is_same; k++) {
                int step = tree->leaf[found[k]].level - tree->leaf[i].level;
                is_same = found[k] == wanted[k] && step >= -1 && step <= 1;
            }
            n_bad += !is_same;
        }
    return n_bad;
}

/* The highest level of the next tree behind the faces of a box. */
static int highest_around(const tree_t *next, const box_t *box)
{
    int size = SIDE >> box->level, highest = 0;
    for (int face = 0; face < N_FACES; face++)
        for (int k = 0; k < size * size; k++) {
            int d = face / 2, at[3];
            for (int i = 0; i < 3; i++)
                at[i] = (int)box->at[i] * size;
            at[d] += face & 1 ? size : -1;
            at[d == 0 ? 1 : 0] += k % size;
            at[d == 2 ? 1 : 2] += k / size;
            int level = next->leaf[leaf_at(next_grid, at)].level;
            highest = level > highest ? level : highest;
        }
    return highest;
}

static bool all_want_to_merge(const tree_t *tree, const int8_t *wish, int eldest)
{
    const box_t *box = &tree->leaf[eldest];
    bool agree = box_octant(box) == 0 && box->level > LEVEL_MIN && eldest + 7 < tree->n;
    for (int k = 0; k < 8 && agree; k++)
        agree = tree->leaf[eldest + k].level == box->level && wish[eldest + k] < 0 &&
                box_octant(&tree->leaf[eldest + k]) == k;
    return agree;
}

/* @return how many leaves have become something that their wishes and neighbours do not explain */
static int count_bad_wishes(const tree_t *tree, const int8_t *wish, const tree_t *next,
                            const int *new_leaf)
{
    int n_bad = 0;
    for (int i = 0; i < tree->n; i++) {
        const box_t *old = &tree->leaf[i], *now = &next->leaf[new_leaf[i]];
        int step = now->level - old->level;
        box_t same = *old, parent = box_parent(old), child = box_child(old, 0);
        const box_t *wanted = step < 0 ? &parent : &child;
        if (step == 0)
            wanted = &same;
        n_bad += step < -1 || step > 1 || now->key != wanted->key || now->level != wanted->level;

        bool may_split = wish[i] > 0 && old->level < FINEST;
        if (step > 0)
            n_bad += !may_split && highest_around(next, old) < old->level + 2;
        else
            n_bad += may_split;
        n_bad += step < 0 && !all_want_to_merge(tree, wish, i - box_octant(old));
        if (step >= 0 && all_want_to_merge(tree, wish, i))
            n_bad += highest_around(next, &parent) < old->level + 1;
    }
    return n_bad;
}

static int play(void)
{
    tree_t tree, next;
    tree_init(&tree, FINEST);
    int n_bad = fill(&tree, grid), n_split = 0, n_merged = 0;
    for (int round = 0; round < ROUNDS && n_bad == 0; round++) {
        int8_t *wish = malloc((size_t)tree.n);
        int *new_leaf = malloc((size_t)tree.n * sizeof *new_leaf);
        uint64_t split = below(8), merge = below(100);
        for (int i = 0; i < tree.n; i++) {
            wish[i] = below(100) < merge || round % 3 == 2 ? -1 : 0;
            if (below(60) < split && round % 3 != 2)
                wish[i] = 1;
        }
        tree_adapt(&tree, wish, &next, new_leaf);
        n_bad += fill(&next, next_grid);
        n_bad += count_bad_faces(&next, next_grid);
        n_bad += count_bad_wishes(&tree, wish, &next, new_leaf);
        n_split += next.n > tree.n;
        n_merged += next.n < tree.n;
        free(wish);
        free(new_leaf);
        free(tree.leaf);
        tree = next;
    }
    free(tree.leaf);
    diag("%d trees with more leaves, %d with less", n_split, n_merged);
    return n_bad + (n_split < ROUNDS / 5) + (n_merged < ROUNDS / 5);
}

/* One leaf is split twice, its neighbours are not. */
static int spoil(void)
{
    tree_t tree;
    tree_init(&tree, FINEST);
    tree.leaf = realloc(tree.leaf, ((size_t)tree.n + 14) * sizeof *tree.leaf);
    for (int again = 0; again < 2; again++) {
        box_t box = tree.leaf[0];
        memmove(tree.leaf + 8, tree.leaf + 1, (size_t)(tree.n - 1) * sizeof *tree.leaf);
        for (int octant = 0; octant < 8; octant++)
            tree.leaf[octant] = box_child(&box, octant);
        tree.n += 7;
    }
    int n_bad = fill(&tree, grid) ? 0 : count_bad_faces(&tree, grid);
    tree.leaf[3] = tree.leaf[4];
    bool is_seen = fill(&tree, grid) > 0;
    free(tree.leaf);
    return is_seen ? n_bad : 0;
}

int main(void)
{
    plan(2);
    pgasi_rng_seed(&rng, tap_seed(18));
    is_int(play(), 0, "the tree is as the grid says");
    ok(spoil() > 0, "a tree without balance, and one with a hole, are noticed (broken on purpose)");
    return done();
}
