/* amr: all blocks of this rank: steps in time, and the change of the tree. */
#include <math.h>
#include <stdlib.h>
#include "amr.h"

void mesh_own(mesh_t *mesh)
{
    mesh->first = tree_first(&mesh->tree, pgas_rank());
    mesh->n_blocks = tree_first(&mesh->tree, pgas_rank() + 1) - mesh->first;
    mesh->blocks = need(calloc((size_t)mesh->n_blocks + 1, sizeof *mesh->blocks));
    for (int i = 0; i < mesh->n_blocks; i++)
        block_init(mesh, &mesh->blocks[i], mesh->first + i);
}

void mesh_disown(mesh_t *mesh)
{
    for (int i = 0; i < mesh->n_blocks; i++)
        block_free(&mesh->blocks[i]);
    free(mesh->blocks);
    mesh->blocks = NULL;
}

static void fill(mesh_t *mesh)
{
    for (int i = 0; i < mesh->n_blocks; i++)
        block_fill(mesh, &mesh->blocks[i]);
}

/* The speeds add up to 2, so in a step a quantity crosses 0.8 of the smallest cell: the scheme is
 * stable. Each round adds a level where the blob is. */
void mesh_init(mesh_t *mesh, int n, int levels)
{
    int finest = LEVEL_MIN + levels - 1;
    *mesh = (mesh_t){ .n = n, .dt = 0.4 * ldexp(1.0 / n, -finest) };
    tree_init(&mesh->tree, finest);
    mesh_own(mesh);
    exchange_plan(mesh);
    for (int level = 1; level < levels; level++) {
        fill(mesh);
        mesh_regrid(mesh);
    }
    fill(mesh);
}

void mesh_free(mesh_t *mesh)
{
    mesh_disown(mesh);
    for (int rank = 0; rank < pgas_n_ranks(); rank++)
        strips_free(&mesh->strips[rank]);
    free(mesh->strips);
    free(mesh->tree.leaf);
}

void mesh_advect(mesh_t *mesh)
{
    exchange_strips(mesh);
    for (int i = 0; i < mesh->n_blocks; i++)
        block_advect(mesh, &mesh->blocks[i]);
    mesh->time += mesh->dt;
}

/* The wishes of all leaves, in their order, on every rank. */
static void gather_wishes(const mesh_t *mesh, int8_t *wish)
{
    int n_ranks = pgas_n_ranks();
    size_t *n_of = need(malloc((size_t)n_ranks * sizeof *n_of));
    int8_t *mine = need(malloc((size_t)mesh->n_blocks + 1));
    for (int i = 0; i < mesh->n_blocks; i++)
        mine[i] = block_wish(mesh, &mesh->blocks[i]);
    for (int rank = 0; rank < n_ranks; rank++)
        n_of[rank] = (size_t)(tree_first(&mesh->tree, rank + 1) - tree_first(&mesh->tree, rank));
    check(pgas_allgatherv(NULL, mine, (size_t)mesh->n_blocks, wish, n_of), "pgas_allgatherv");
    free(mine);
    free(n_of);
}

void mesh_regrid(mesh_t *mesh)
{
    size_t n = (size_t)mesh->tree.n;
    int8_t *wish = need(malloc(n));
    int *new_leaf = need(malloc(n * sizeof *new_leaf));
    tree_t next;
    exchange_strips(mesh); /* wishes look at the neighbours' cells, too */
    gather_wishes(mesh, wish);
    tree_adapt(&mesh->tree, wish, &next, new_leaf);
    exchange_blocks(mesh, &next, new_leaf);
    exchange_plan(mesh);
    free(new_leaf);
    free(wish);
}
