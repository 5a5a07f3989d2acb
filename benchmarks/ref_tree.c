/* Lock-free UCT in shared memory (Enzenberger and Mueller, "A lock-free multithreaded Monte-Carlo
 * tree search", 2009), see ref_tree.h.
 *
 * The children of a node are one array, in random order. The first thread that visits the node a
 * second time makes it in its arena, and publishes it by a compare-and-swap. A counter hands out
 * children that no thread has tried; after that a thread takes the best by UCB1. A rollout
 * increments visits on the way down and wins on the way up, so a rollout that is under way counts
 * as lost. All counts are relaxed atomics. Nodes keep no states: each rollout plays its moves from
 * the root. */
#include "benchmarks/ref_tree.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPLORATION 1.0f
#define MOVES_MAX   (PGAS_HEX_SIZE_MAX * PGAS_HEX_SIZE_MAX)
#define ALIGNMENT   64 /* alignment of arrays of children: a cache line */
#define GRAB        16 /* rollouts that a thread takes at once */

typedef struct node {
    struct node *children; /* NULL: none yet */
    uint32_t visits;       /* rollouts through this node, including those under way */
    uint32_t wins;         /* playouts won by the player that has moved here */
    uint32_t n_tried;      /* children handed out, and attempts to get one */
    uint16_t n_children;
    uint16_t move;
} node_t;

typedef struct {
    _Alignas(64) ref_tree_t *tree;
    pthread_t thread;
    pgas_mcts_rng_t rng;
    char *arena;
    size_t used;
} worker_t;

struct ref_tree {
    pgas_hex_t start;
    const pgas_mcts_spec_t *spec;
    int n_threads, playouts;
    size_t arena_bytes; /* of each thread */
    worker_t *workers;
    _Alignas(64) node_t root;
    _Alignas(64) int64_t n_left; /* rollouts not yet taken */
};

#define LOAD(word)   __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define ADD(word, n) __atomic_fetch_add(&(word), n, __ATOMIC_RELAXED)

/* ---- nodes ---- */

static size_t array_bytes(uint32_t n)
{
    return (n * sizeof(node_t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Makes one child for each move, in random order. @return NULL: the arena is full */
static node_t *make_children(worker_t *worker, const pgas_hex_t *hex, uint32_t *n_p)
{
    const pgas_mcts_spec_t *spec = worker->tree->spec;
    pgas_mcts_move_t moves[MOVES_MAX + 1]; /* and the swap */
    uint32_t n = spec->moves(hex, moves, NULL, spec->arg);
    node_t *children = (node_t *)(void *)(worker->arena + worker->used);
    if (worker->tree->arena_bytes - worker->used < array_bytes(n))
        return NULL;
    worker->used += array_bytes(n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t pick = i + pgas_mcts_random_below(&worker->rng, n - i);
        children[i] = (node_t){ .move = (uint16_t)moves[pick] };
        moves[pick] = moves[i];
    }
    *n_p = n;
    return children;
}

/* The children of a node; makes them if no thread has. @return NULL: no room */
static node_t *children_of(worker_t *worker, node_t *node, const pgas_hex_t *hex)
{
    node_t *children = __atomic_load_n(&node->children, __ATOMIC_ACQUIRE), *made;
    uint32_t n;
    if (children)
        return children;
    made = make_children(worker, hex, &n);
    if (!made)
        return NULL;
    /* every thread computes the same */
    __atomic_store_n(&node->n_children, (uint16_t)n, __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(&node->children, &children, made, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return made;
    worker->used -= array_bytes(n); /* another thread was first */
    return children;
}

static node_t *best_child(const node_t *node, node_t *children, uint32_t n, float per_playout)
{
    float log_visits = logf((float)LOAD(node->visits)), best_value = -1;
    node_t *best = children;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t visits = LOAD(children[i].visits);
        float inverse = 1 / (float)(visits + (visits == 0)); /* 0: just handed out */
        float value = (float)LOAD(children[i].wins) * per_playout * inverse +
                      EXPLORATION * sqrtf(log_visits * inverse);
        if (value > best_value) {
            best_value = value;
            best = &children[i];
        }
    }
    return best;
}

static node_t *select_child(node_t *node, node_t *children, float per_playout)
{
    uint32_t n = LOAD(node->n_children);
    if (LOAD(node->n_tried) < n) {
        uint32_t next = ADD(node->n_tried, 1);
        if (next < n)
            return &children[next];
    }
    return best_child(node, children, n, per_playout);
}

/* ---- rollouts ---- */

/* Plays n games. @return the number of games that player 0 wins */
static uint32_t play(const pgas_mcts_spec_t *spec, const pgas_hex_t *hex, pgas_mcts_rng_t *rng,
                     int n)
{
    float sums[2] = { 0, 0 };
    spec->playout(hex, rng, n, sums, spec->arg);
    return (uint32_t)sums[0];
}

static void roll_out(worker_t *worker)
{
    ref_tree_t *tree = worker->tree;
    const float per_playout = 1 / (float)tree->playouts;
    node_t *path[MOVES_MAX + 2], *node = &tree->root, *children;
    pgas_hex_t hex = tree->start;
    int depth = 0, player = tree->start.turn;
    uint32_t wins[2], seen = ADD(node->visits, 1);
    while (hex.winner < 0 && seen > 0 && (children = children_of(worker, node, &hex))) {
        node = path[depth++] = select_child(node, children, per_playout);
        seen = ADD(node->visits, 1);
        (void)pgas_hex_play(&hex, node->move);
    }
    if (hex.winner >= 0)
        wins[0] = hex.winner == 0 ? (uint32_t)tree->playouts : 0;
    else
        wins[0] = play(tree->spec, &hex, &worker->rng, tree->playouts);
    wins[1] = (uint32_t)tree->playouts - wins[0];
    for (int i = 0; i < depth; i++, player = 1 - player)
        ADD(path[i]->wins, wins[player]);
}

static void *work(void *arg)
{
    worker_t *worker = arg;
    int64_t left;
    while ((left = ADD(worker->tree->n_left, -GRAB)) > 0)
        for (int64_t i = 0; i < GRAB && i < left; i++)
            roll_out(worker);
    return NULL;
}

int ref_tree_search(ref_tree_t *tree, uint64_t rollouts, const cpu_set_t *cores)
{
    int n = 1, status = 0;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    if (cores)
        pthread_attr_setaffinity_np(&attr, sizeof *cores, cores);
    tree->n_left = (int64_t)rollouts;
    for (; n < tree->n_threads; n++) {
        status = pthread_create(&tree->workers[n].thread, &attr, work, &tree->workers[n]);
        if (status != 0)
            break;
    }
    pthread_attr_destroy(&attr);
    (void)work(&tree->workers[0]);
    for (int i = 1; i < n; i++)
        pthread_join(tree->workers[i].thread, NULL);
    return status;
}

uint64_t ref_hex_games(const pgas_hex_t *hex, uint64_t n, int playouts, uint64_t seed)
{
    pgas_mcts_rng_t rng;
    uint64_t wins = 0;
    pgas_mcts_rng_seed(&rng, seed);
    for (uint64_t i = 0; i < n; i++)
        wins += play(pgas_hex_spec(hex->size), hex, &rng, playouts);
    return wins;
}

/* ---- the tree ---- */

void ref_tree_clear(ref_tree_t *tree)
{
    tree->root = (node_t){ .children = NULL };
    for (int i = 0; i < tree->n_threads; i++)
        tree->workers[i].used = 0;
}

/* Untouched memory costs nothing. It has huge pages where the system gives them, as the library's
 * nodes have. */
static char *map_arena(size_t bytes)
{
    char *arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        return NULL;
    (void)madvise(arena, bytes, MADV_HUGEPAGE);
    return arena;
}

ref_tree_t *ref_tree_create(const pgas_hex_t *root, int n_threads, int playouts, size_t bytes,
                            uint64_t seed)
{
    const pgas_mcts_spec_t *spec = pgas_hex_spec(root->size);
    ref_tree_t *tree = spec ? aligned_alloc(ALIGNMENT, sizeof *tree) : NULL;
    if (!tree)
        return NULL;
    memset(tree, 0, sizeof *tree);
    tree->start = *root;
    tree->spec = spec;
    tree->n_threads = n_threads;
    tree->playouts = playouts;
    tree->arena_bytes = bytes / (size_t)n_threads;
    tree->workers = aligned_alloc(ALIGNMENT, (size_t)n_threads * sizeof *tree->workers);
    if (!tree->workers) {
        free(tree);
        return NULL;
    }
    memset(tree->workers, 0, (size_t)n_threads * sizeof *tree->workers);
    for (int i = 0; i < n_threads; i++) {
        tree->workers[i].tree = tree;
        tree->workers[i].arena = map_arena(tree->arena_bytes);
        pgas_mcts_rng_seed(&tree->workers[i].rng, seed + (uint64_t)i);
        if (!tree->workers[i].arena) {
            ref_tree_destroy(tree);
            return NULL;
        }
    }
    return tree;
}

void ref_tree_destroy(ref_tree_t *tree)
{
    if (!tree)
        return;
    for (int i = 0; i < tree->n_threads; i++)
        if (tree->workers[i].arena)
            (void)munmap(tree->workers[i].arena, tree->arena_bytes);
    free(tree->workers);
    free(tree);
}

pgas_mcts_move_t ref_tree_best(const ref_tree_t *tree, uint64_t *visits_p)
{
    const node_t *children = tree->root.children, *best = children;
    for (uint32_t i = 1; children && i < tree->root.n_children; i++)
        if (children[i].visits > best->visits)
            best = &children[i];
    *visits_p = best ? best->visits : 0;
    return best && best->visits ? best->move : PGAS_MCTS_NO_MOVE;
}

static uint64_t count_nodes(const node_t *node)
{
    uint64_t n = node->visits > 0;
    for (uint32_t i = 0; node->children && i < node->n_children; i++)
        n += count_nodes(&node->children[i]);
    return n;
}

void ref_tree_count(const ref_tree_t *tree, uint64_t *visits_p, uint64_t *nodes_p)
{
    *visits_p = tree->root.visits;
    *nodes_p = count_nodes(&tree->root);
}
