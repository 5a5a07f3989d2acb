/* amr: declarations that the files of the program share. main.c says what the program does. */
#ifndef AMR_H
#define AMR_H

#include <pgas/pgas.h>
#include <pgas/rma_object.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- tree.c: an octree of the periodic unit cube. Every rank has all of it ---- */

#define LEVEL_MIN 2 /* the coarsest blocks: 4 x 4 x 4 of them */
#define LEVEL_MAX 8

/* A box of the tree. On level l the cube has 2^l boxes in each direction. */
typedef struct {
    uint32_t at[3]; /* 0 .. 2^level - 1 */
    int level;
    uint64_t key; /* of the lower corner on the Morton curve */
} box_t;

/* The leaves cover the cube in the order of the Morton curve. Those that share a face differ by at
 * most one level. */
typedef struct {
    box_t *leaf;
    int n;
    int finest; /* no leaf has a higher level */
} tree_t;

/* Faces 0 .. 5: x low, x high, y low, y high, z low, z high. face ^ 1 is the opposite one. */
#define N_FACES 6

void tree_init(tree_t *tree, int finest); /* all leaves on LEVEL_MIN */
box_t box_child(const box_t *box, int octant);
box_t box_parent(const box_t *box);
int box_octant(const box_t *box);             /* in its parent: x + 2 y + 4 z */
int box_quadrant(const box_t *box, int face); /* in a face of its parent */
/* The leaves at a face of a leaf: one, or four smaller ones in the order of their quadrants. */
int tree_neighbors(const tree_t *tree, int leaf, int face, int neighbors[4]);
/* Ranks own equal parts of the curve: [tree_first(rank), tree_first(rank + 1)). */
int tree_first(const tree_t *tree, int rank);
int tree_owner(const tree_t *tree, int leaf);

/* ---- adapt.c: the next tree ---- */

/* wish has for each leaf 1 (split it), 0, or -1 (merge it with its seven siblings). new_leaf[i]
 * becomes the leaf of next that replaces leaf i: itself, its parent, or its first child. */
void tree_adapt(const tree_t *tree, const int8_t *wish, tree_t *next, int *new_leaf);

/* ---- block.c: the cells of a leaf ---- */

/* A growing vector in registered memory (pgas/rma_object.h). Calls carry it without a copy. */
PGAS_RMA_VECTOR(cells, double)

/* A strip describes the cells that a leaf needs from a neighbour. */
typedef struct {
    int32_t from, to; /* leaves */
    uint8_t face;     /* of `to` */
    uint8_t kind;
    uint8_t quadrant; /* of the larger leaf's face, if their sizes differ */
    uint8_t unused;
} strip_t;
enum { SAME, TO_LARGER, TO_SMALLER };
PGAS_RMA_VECTOR(strips, strip_t)

typedef struct {
    box_t box;
    cells_t cells;  /* n * n * n means of the quantity; x runs fastest */
    double *ghosts; /* N_FACES planes of n * n values: the neighbours' cells at the faces */
} block_t;

/* The tree, and the blocks that this rank owns. */
typedef struct {
    int n; /* cells of a block in each direction, an even number */
    tree_t tree;
    int first, n_blocks; /* the leaves first .. first + n_blocks - 1 */
    block_t *blocks;
    strips_t *strips; /* for each rank the strips that it gets */
    uint32_t epoch;   /* exchanges so far, the same number on all ranks */
    double time, dt;  /* now, and the length of a step */
} mesh_t;

extern const double velocity[3];
void block_init(const mesh_t *mesh, block_t *block, int leaf);
void block_free(block_t *block);
double block_width(const mesh_t *mesh, const block_t *block); /* of a cell */
void block_fill(const mesh_t *mesh, block_t *block);          /* the blob at the start */
void block_advect(const mesh_t *mesh, block_t *block);
int8_t block_wish(const mesh_t *mesh, const block_t *block);
/* The first makes a child's cells from its parent's. The second makes means of eight cells each. */
void block_split(const mesh_t *mesh, const block_t *block, int octant, double *child);
void block_shrink(const mesh_t *mesh, const block_t *block, double *eighth);
void block_put_octant(const mesh_t *mesh, block_t *block, int octant, const double *eighth);

/* ---- strip.c: from cells to ghosts ---- */

strip_t strip_make(const tree_t *tree, int from, int face, int to);
size_t strip_size(const mesh_t *mesh, const strip_t *strip);
void strip_read(const mesh_t *mesh, const strip_t *strip, double *values);
void strip_write(mesh_t *mesh, const strip_t *strip, const double *values);

/* ---- exchange.c: exchanges between ranks. All functions are collective ---- */

void exchange_plan(mesh_t *mesh);   /* when the tree is new: which strips go to which rank */
void exchange_strips(mesh_t *mesh); /* fills the ghosts of all blocks */
/* Moves to the next tree. The cells of each leaf go to the owner of the new leaf. */
void exchange_blocks(mesh_t *mesh, tree_t *next, const int *new_leaf);

/* ---- message.c ---- */

/* Makes a vector of n numbers, which may be sent. */
void message_cells(cells_t *cells, size_t n);

/* ---- mesh.c: all blocks of this rank ---- */

void mesh_init(mesh_t *mesh, int n, int levels); /* with the blob at the start */
void mesh_free(mesh_t *mesh);
void mesh_own(mesh_t *mesh); /* allocates the blocks of this rank, without cells */
void mesh_disown(mesh_t *mesh);
void mesh_advect(mesh_t *mesh);
void mesh_regrid(mesh_t *mesh); /* splits and merges leaves */

/* ---- report.c ---- */

typedef struct {
    double mass, off[3]; /* off: of the center of mass from its place in the exact solution */
    uint64_t checksum;
} totals_t;
totals_t report_totals(const mesh_t *mesh); /* rank 0 has the result; collective */
/* Counts of calls with archives, of their bytes, and of vectors that were not copied into them. */
typedef struct {
    uint64_t n_calls, bytes, n_registered, n_pointers, n_registrations;
} traffic_t;
traffic_t report_traffic(void);
bool report_picture(const mesh_t *mesh, const char *path); /* the middle in z; collective */

/* ---- settings.c: the command line ---- */

/* How messages travel (message.c). */
typedef enum { REGISTERED, POINTERS, PACKED } way_t;

typedef struct {
    int steps, levels, block;
    way_t way;
    const char *output;
    bool check, spoil;
} settings_t;
extern settings_t settings;
/* Ends the program at --help and at a wrong option. */
void settings_parse(int argc, char **argv);

/* ---- main.c ---- */

void check(pgas_status_t status, const char *what); /* ends the job after an error */
void *need(void *memory);                           /* the same for NULL */

#endif
