/** Nodes of the tree and their children.
 *
 *  A node is plain memory of one rank. All threads of that rank may work at it at the same time, so
 *  every shared field is changed by atomic operations. Nodes, edges and segments are allocated
 *  while a search runs. They are freed only in an idle phase, that is, while no rollout is under
 *  way. */
#ifndef PGASI_MCTS_NODE_H
#define PGASI_MCTS_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "mcts/pool.h"
#include "pgas/mcts.h"

/* The value 1. Values are added up as integers, so that their order does not matter. */
#define PGASI_MCTS_ONE 65536u

typedef struct worker worker_t;
typedef struct path path_t;
typedef struct node node_t;

/* The identity of a node, or of a path element (worker.h): 16 bits of rank, 48 bits of address. The
 * lowest bit is set for a path element. 0 means none: the root has no parent. */
typedef uint64_t node_id_t;

static inline node_id_t id_of(int rank, const void *p)
{
    return (uint64_t)(uint32_t)rank << 48 | (uint64_t)(uintptr_t)p;
}
static inline int id_rank(node_id_t id)
{
    return (int)(id >> 48);
}
static inline void *id_pointer(node_id_t id)
{
    return (void *)(uintptr_t)(id & UINT64_C(0xFFFFFFFFFFFE));
}
static inline bool id_is_path(node_id_t id)
{
    return id & 1;
}
static inline node_id_t id_of_path(int rank, const path_t *path)
{
    return id_of(rank, path) | 1;
}

/* A child, as its parent counts it. */
typedef struct {
    node_id_t id;     /* 0: not known here yet */
    uint64_t visits;  /* rollouts that went there */
    uint64_t done;    /* those of them that have reported */
    uint64_t value;   /* the sum of their values for the player who moves at the parent */
    path_t *deferred; /* rollouts that wait for id */
    uint32_t proven_value;
    uint8_t being_made, being_proven, proven;
} child_t;

/* Children in segments: numbers 0 to 3, 4 to 7, 8 to 15, 16 to 31 and so on. The two floats that
 * selection reads for each child are in arrays, so that a few vector operations score four children
 * at once. The score is q + factor * w; q is -infinity until there is a child. The arrays w[size]
 * and child[size] follow q[size]. */
typedef struct {
    uint32_t size, spare[3];
    _Alignas(16) float q[];
} segment_t;

static inline float *w_of(segment_t *s)
{
    return s->q + s->size;
}
static inline child_t *children_of(segment_t *s)
{
    return (child_t *)(void *)(s->q + 2 * (size_t)s->size);
}

/* The segment of child i, and its size and first child. */
static inline uint32_t segment_of(uint32_t i)
{
    return i < 4 ? 0 : 30 - (uint32_t)__builtin_clz(i);
}
static inline uint32_t segment_size(uint32_t segment)
{
    return segment ? 4u << (segment - 1) : 4;
}
static inline uint32_t segment_start(uint32_t segment)
{
    return segment ? segment_size(segment) : 0;
}

/* The moves of a node and its children: one block, in the order in which selection reads it. Most
 * nodes have so few children that the first segment, which is in the same block, holds them all. */
typedef struct {
    uint32_t n_moves;
    uint32_t n_open; /* children that exist or are being made; their moves are the first ones */
    uint32_t n_proven;
    uint32_t n_segments;
    uint32_t *proofs;        /* [child][player]; NULL: no child is proven */
    pgas_mcts_move_t *moves; /* in the order in which they are tried */
    float *priors;           /* by child; NULL: all are equal */
    segment_t *segment[];    /* the first segment, moves and priors follow */
} edges_t;

/* The entry of child i, which must exist; its segment, and its index there. */
static inline child_t *pgasi_mcts_child(const edges_t *edges, uint32_t i, segment_t **segment_p,
                                        uint32_t *at_p)
{
    uint32_t number = segment_of(i);
    segment_t *s = __atomic_load_n(&edges->segment[number], __ATOMIC_ACQUIRE);
    *segment_p = s;
    *at_p = i - segment_start(number);
    return &children_of(s)[*at_p];
}

enum { NODE_PROVEN = 1, NODE_FINAL = 2, NODE_BEING_PROVEN = 4, NODE_HAS_CHILDREN = 8 };

struct node {
    node_id_t parent; /* 0 for the root, and in a graph, where a node may have several parents */
    uint32_t number;  /* of this node among the children of its parent */
    uint16_t depth;   /* below the first root */
    int8_t player;
    uint8_t flags;   /* NODE_* */
    uint64_t visits; /* rollouts that came here */
    uint64_t done;   /* those of them that have reported */
    uint64_t value;  /* the sum of their values for player */
    edges_t *edges;
    uint32_t owner; /* the worker that simulates here, unless another one is idle */
    uint32_t mark;  /* the epoch in which marking reached the node */
    node_t *next;   /* in the list of the worker that made it */
    uint64_t hash;
    uint64_t scratch; /* of the idle phase */
    node_t *bucket;   /* the next one in its bucket of the table */
    /* The proven outcome of each player follows the state. */
    char state[] __attribute__((aligned(8)));
};

/* The player whose value counts at a node: that of the node, or player 0 at a chance node. */
static inline int player_of(const node_t *node)
{
    return node->player == PGAS_MCTS_CHANCE ? 0 : node->player;
}

/* The report of n rollouts of a child. */
typedef struct {
    node_id_t child_id; /* 0: no node was made */
    uint32_t n;
    bool proven;
    uint64_t sum[PGAS_MCTS_PLAYERS_MAX];
    uint32_t proof[PGAS_MCTS_PLAYERS_MAX];
} report_t;

/* ---- node.c: memory of nodes ---- */

/* Fills a node in any memory of node_bytes. */
void pgasi_mcts_begin_node(const pgas_mcts_t *m, node_t *node, const void *state);
/* Allocates a node that is in no list yet. Returns NULL if there is no memory. */
node_t *pgasi_mcts_make_node(worker_t *w, const void *state, int depth);
/* Only in an idle phase. */
void pgasi_mcts_free_node(worker_t *w, node_t *node);
/* Makes the edges of a node if there are none. Returns false if there is no memory, or no move. */
bool pgasi_mcts_open(worker_t *w, node_t *node);
/* Makes the segment of child i if there is none. Returns false if there is no memory. */
bool pgasi_mcts_make_child_entry(worker_t *w, edges_t *edges, uint32_t i);
/* The least memory_bytes with which a search from this state finds a move. */
size_t pgasi_mcts_least_bytes(worker_t *w, const void *state);
/* False: memory_bytes is used up. The refusal is counted. */
bool pgasi_mcts_has_room(worker_t *w);
/* Only in an idle phase: divides the memory that is left among the workers. */
void pgasi_mcts_share_room(pgas_mcts_t *m);
void pgasi_mcts_sum_bytes(pgas_mcts_t *m);

/* Returns NULL if no rollout has gone there. */
child_t *pgasi_mcts_visited_child(const node_t *node, uint32_t i);
uint32_t pgasi_mcts_n_open(const node_t *node);

/* The table of a graph: nodes by the hash of their states. Find returns NULL if there is none. */
node_t *pgasi_mcts_find(pgas_mcts_t *m, uint64_t hash);
/* Returns the node with this hash that came first: the given one, or that of another thread. */
node_t *pgasi_mcts_insert(pgas_mcts_t *m, node_t *node);

/* ---- select.c: selection ---- */

/* Returns the number of the child to go to, whose entry exists, or -1 if there is no memory. */
int64_t pgasi_mcts_select(worker_t *w, node_t *node);
/* Counts n rollouts that go to child i. */
void pgasi_mcts_visit(worker_t *w, node_t *node, uint32_t i, uint32_t n);
/* Recomputes the score of a child from its counts. */
void pgasi_mcts_rate(const pgas_mcts_t *m, const node_t *node, uint32_t i, segment_t *s,
                     uint32_t at, const child_t *c);

/* ---- backprop.c: backpropagation ---- */

/* Adds the report of a child to the counts of its parent. */
void pgasi_mcts_update(worker_t *w, node_t *node, uint32_t i, const report_t *report);
/* Adds a report to the counts of the node itself. */
void pgasi_mcts_update_self(node_t *node, const report_t *report);

#endif
