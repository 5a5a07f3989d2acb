/** What the files of the search share: nodes, workers, calls.
 *
 *  A node is plain memory of one rank. Every thread of that rank may work at it at the same time,
 *  so all that changes is changed by atomic operations; a worker is a thread of the search, and one
 *  more stands for the handlers of the rank, which never overlap. Nodes, edges and segments are
 *  taken while the search runs and given back only at rest.
 *
 *  A place is where a report goes: a node and the number of one of its children, or (placement by
 *  hash, where a node may have several parents) a step: a note of one rollout's way through a node.
 *  Both are references: 16 bits of rank, 48 of address, the lowest of them set for a step. 0 is
 *  above the root. */
#ifndef PGASI_MCTS_H
#define PGASI_MCTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/checks.h"
#include "pgas/call.h"
#include "pgas/mcts.h"

#define PGASI_MCTS_SEARCHES 64
#define SHARE_WHOLE         65536u
/* the value 1; values are summed as integers, so their order does not matter */
#define PGASI_MCTS_ONE         65536u
#define PGASI_MCTS_THREADS_MAX 256
#define PGASI_MCTS_COMBINED    64 /* reports that wait to be joined by others, of a worker */

typedef uint64_t pgasi_ref_t;
typedef struct worker worker_t;
typedef struct node node_t;

/* ---- the tree ---- */

/* A rollout, or several that go together: as a step, on its way below a node; as a job, waiting at
 * one. */
typedef struct step {
    struct step *next;
    node_t *node;
    /* the place above: of a step, that of the step or of the root; of a job, that of its node */
    pgasi_ref_t up;
    uint32_t idx, up_idx;
    uint32_t n, left; /* rollouts; not reported yet */
    uint32_t depth, maker;
    worker_t *owner; /* of the memory */
    uint8_t stage;   /* of a job: stage_t */
    bool temporary;  /* the node is for this job alone */
} step_t;
/* the latter: on the way down, while memory is fetched */
typedef enum { STAGE_SIMULATE, STAGE_NODE, STAGE_EDGES } stage_t;

typedef struct {
    uint64_t ref;          /* 0: nobody knows it here */
    uint64_t visits, done; /* rollouts that went there; reported */
    uint64_t value;        /* of these, for who moves at the parent */
    step_t *deferred;      /* rollouts that wait for ref */
    uint32_t proven_value;
    uint8_t being_made, being_proven, proven;
} child_t;

/* Children from number 0 (4), 4 (4), 8 (8), 16 (16) and so on: what selection looks at stands in
 * rows, so that it takes a few operations for four children. Score: q + factor * w; q is -infinity
 * before there is a child. Behind q[size] are w[size] and child[size]. */
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

/* One block, in the order in which it is used: most nodes have few children. */
typedef struct {
    uint32_t n_moves, n_open, n_proven; /* open: the next child to be made */
    uint32_t n_segments;
    uint32_t *proofs;        /* [child][player], once one is proven */
    pgas_mcts_move_t *moves; /* in the order in which they are tried */
    float *priors;           /* by child; NULL: all alike */
    /* the first is in the same block, behind these; moves and priors follow */
    segment_t *segment[];
} edges_t;

struct node {
    pgasi_ref_t up; /* parent; 0 for the root, and with placement by hash */
    uint32_t up_idx;
    uint16_t depth; /* from the first root */
    int8_t player;
    uint8_t flags;         /* NODE_* */
    uint64_t visits, done; /* rollouts that came here; reported */
    uint64_t value;        /* of these, for player */
    edges_t *edges;
    uint32_t owner, mark;
    node_t *next; /* of the worker that made it */
    uint64_t hash, audit;
    node_t *bucket; /* of the table */
    /* behind it: the outcome for each player, if proven */
    char state[] __attribute__((aligned(8)));
};
enum { NODE_PROVEN = 1, NODE_FINAL = 2, NODE_BEING_PROVEN = 4, NODE_HAS_CHILDREN = 8 };

typedef struct {
    uint64_t child; /* whose report it is, 0: no node was made */
    uint32_t n;     /* rollouts */
    bool proven;
    uint64_t sum[PGAS_MCTS_PLAYERS_MAX];
    uint32_t proof[PGAS_MCTS_PLAYERS_MAX];
} report_t;

static inline pgasi_ref_t ref_of(int rank, const void *p)
{
    return (uint64_t)(uint32_t)rank << 48 | (uint64_t)(uintptr_t)p;
}
static inline int ref_rank(pgasi_ref_t ref)
{
    return (int)(ref >> 48);
}
static inline void *ref_pointer(pgasi_ref_t ref)
{
    return (void *)(uintptr_t)(ref & UINT64_C(0xFFFFFFFFFFFE));
}
static inline pgasi_ref_t ref_step(int rank, const step_t *step)
{
    return ref_of(rank, step) | 1;
}

/* ---- memory ---- */

#define POOL_CLASSES 96
/* Shared by the workers of the rank: blocks returned at rest, and the bytes of memory_bytes that no
 * worker holds. */
typedef struct {
    pthread_mutex_t lock;
    void *free[POOL_CLASSES];
    int64_t room, share; /* share: bytes that a worker takes at least, if available */
    bool full;           /* an allocation failed since the search was last at rest: no more nodes */
} rest_t;

/* Blocks of some sizes, of one worker. */
typedef struct {
    void *free[POOL_CLASSES];
    struct slab *slabs, *spare; /* spare: slabs of which nothing is used */
    char *fresh, *fresh_end;
    rest_t *rest;
    int64_t used_bytes, room; /* room: bytes left of the worker's share */
    uint32_t n_since;         /* blocks since the sum of all workers was taken */
} pool_t;

size_t pgasi_mcts_block_bytes(size_t bytes); /* including overhead */
/* contents undefined; NULL: no memory, or none of memory_bytes left */
void *pgasi_mcts_take(pool_t *pool, size_t bytes);
void pgasi_mcts_give(pool_t *pool, void *block, size_t bytes);
void pgasi_mcts_give_to_all(pool_t *pool, void *block, size_t bytes); /* at rest */
/* at rest: no worker has any room */
void pgasi_mcts_rest_begin(rest_t *rest, int64_t room, int64_t share);
void pgasi_mcts_pool_reset(pool_t *pool); /* all blocks are given back, those in rest, too */
void pgasi_mcts_pool_fini(pool_t *pool);

/* ---- workers ---- */

typedef struct {
    uint64_t place;
    uint32_t idx;
    bool used;
    report_t report;
} combined_t;

typedef struct {
    uint64_t rollouts, playouts, final_states, selections, remote, deferred, reports,
        reports_remote, combined, shared, transpositions;
} counts_t;

/* Of the nodes that are there now, counted when they are made and anew when some are given back. */
typedef struct {
    uint64_t nodes, expanded, children, depths, depth_max; /* depths below the root, summed up */
} present_t;

struct worker {
    pgas_mcts_t *mcts;
    int index;                       /* n_threads: the handlers' */
    bool active;                     /* counted as work */
    uint64_t idle_since_ns, idle_ns; /* since: 0 while active */
    pgas_mcts_rng_t playout_rng, tree_rng;
    counts_t counts;
    present_t present;
    uint64_t n_refused; /* nodes that there was no room for, ever */
    pool_t pool;
    node_t *nodes;
    pgas_agg_t *agg;
    int *dirty, n_dirty; /* ranks for which something is gathered */
    bool *is_dirty;
    combined_t *combined;
    int n_combined;
    uint64_t n_jobs_ended;  /* not counted yet */
    step_t *own, **own_end; /* jobs of its own, first come first served */
    int n_own;
    uint32_t turn; /* of the handlers': whom the next way down is for */
    step_t *free_steps;
    void *step_chunks;
    char *state; /* scratch */
    pgas_mcts_move_t *moves;
    float *priors;
    char *call; /* a call that is put together */
    pthread_t thread;
    pgas_status_t status;
    _Alignas(64) step_t *foreign;    /* steps that others give back */
    _Alignas(64) step_t *queue_head; /* jobs from others: last pushed */
    step_t *queue_tail;              /* next to be taken */
    step_t stub;
    _Alignas(64) uint32_t wants; /* it is idle */
};

typedef enum {
    HANDLER_CREATE,
    HANDLER_SELECT,
    HANDLER_REPORT,
    HANDLER_MARK,
    HANDLER_AUDIT,
    HANDLER_LOOK,
    HANDLER_LINE,
    HANDLER_STOP,
    HANDLERS
} handler_number_t;

typedef enum { ORDER_PARK, ORDER_RUN, ORDER_END } order_t;

/* A call that found no room in a handler. */
typedef struct held {
    struct held *next;
    int rank;
    handler_number_t handler;
    size_t bytes;
    char args[] __attribute__((aligned(8)));
} held_t;

struct pgas_mcts {
    uint32_t id;
    pgas_mcts_spec_t spec;
    pgas_mcts_opts_t opts;
    int me, n_ranks, n_threads;
    size_t state_bytes, node_bytes; /* state: rounded up to 8 */
    bool by_steps;                  /* placement by hash */
    worker_t *worker;               /* n_threads + 1 */
    rest_t rest;
    node_t **table; /* by hash */
    uint64_t table_mask;
    pgasi_ref_t root; /* 0: no state; mode ROOT: of this rank */
    bool has_root;    /* here */
    char *root_state;
    bool has_state;
    uint32_t root_depth, epoch;
    float explore; /* C */
    /* of new nodes, for the root's rank, of SHARE_WHOLE that each other one gets */
    uint32_t root_share;
    uint64_t phase_begin_ns;
    /* the search that runs */
    pgas_work_t work;
    held_t *held;
    uint32_t order;                     /* order_t; for the other threads */
    int n_started, n_parked, n_running; /* of them; the first counts the caller's */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_mutex_t looking;              /* who changes the root holds it */
    uint64_t look_after_ns, looked_phase; /* looks of this rank's threads keep apart */
    uint32_t n_looks;                     /* in this phase */
    uint32_t n_searches;                  /* begun */
    pthread_t creator;
    uint64_t begin_ns, deadline_ns; /* 0: none */
    uint64_t memory_limit;          /* that ends it; 0: none */
    bool memory_told;
    uint32_t stop;     /* asked for here */
    uint32_t stopping; /* 1 + pgas_mcts_end_t */
    bool even_if_proven;
    uint64_t bytes, bytes_high; /* of nodes of this rank, as last summed up */
    /* results, the same on all ranks */
    pgas_mcts_info_t info;
    pgas_mcts_child_t *children;
    size_t n_children, n_line;
    pgas_mcts_move_t line[PGAS_MCTS_PV_MAX];
    pgas_mcts_stats_t stats;
    uint64_t n_phases, n_lost;     /* of this search */
    bool broken;                   /* a rank died */
    _Alignas(64) int64_t to_start; /* in this phase */
    _Alignas(64) uint64_t started, completed;
};

extern pgas_mcts_t *pgasi_mcts_searches[PGASI_MCTS_SEARCHES];
extern pgas_handler_t pgasi_mcts_handlers[HANDLERS];

/* What MARK, AUDIT, LOOK and LINE ask. */
typedef struct {
    uint32_t id, move; /* LINE: of the child to go to; NO_MOVE: the best */
    pgasi_ref_t node;
    uint64_t visits; /* AUDIT: as the parent counts */
} ask_t;

/* What LOOK answers. */
typedef struct {
    uint64_t busy; /* the root changes: ask again */
    pgas_mcts_info_t info;
} look_t;

/* A node is put into the worker's list, so deep below the root. */
static inline void list_node(worker_t *w, node_t *node, uint64_t depth)
{
    node->next = w->nodes;
    w->nodes = node;
    w->present.nodes++;
    w->present.depths += depth;
    w->present.depth_max = depth > w->present.depth_max ? depth : w->present.depth_max;
}

static inline uint32_t *proof_of(const pgas_mcts_t *m, node_t *node)
{
    return (uint32_t *)(void *)(node->state + m->state_bytes);
}
static inline worker_t *handlers_worker(pgas_mcts_t *m)
{
    return &m->worker[m->n_threads];
}

/* spec.c: what the program's description says, checked */
pgas_status_t pgasi_mcts_check_spec(const pgas_mcts_spec_t *spec);
int pgasi_mcts_turn(const pgas_mcts_t *m, const void *state);
bool pgasi_mcts_outcome(const pgas_mcts_t *m, const void *state, uint32_t *values);
uint32_t pgasi_mcts_moves(worker_t *w, const void *state, bool priors);
uint32_t pgasi_mcts_draw(pgas_mcts_rng_t *rng, const float *chances, uint32_t n);
void pgasi_mcts_simulate(worker_t *w, const void *state, uint32_t n, uint64_t *sums);

/* tree.c */
/* in any memory */
void pgasi_mcts_begin_node(const pgas_mcts_t *m, node_t *node, const void *state);
node_t *pgasi_mcts_make_node(worker_t *w, const void *state, int depth);
void pgasi_mcts_free_node(worker_t *w, node_t *node);
/* its edges are there; false: no memory, or no moves */
bool pgasi_mcts_open(worker_t *w, node_t *node);
/* The least memory_bytes with which a search from this state finds a move. */
size_t pgasi_mcts_least_bytes(worker_t *w, const void *state);
void pgasi_mcts_share_room(pgas_mcts_t *m); /* at rest */
child_t *pgasi_mcts_child(const edges_t *edges, uint32_t i, segment_t **segment_p, uint32_t *at_p);
int64_t pgasi_mcts_choose(worker_t *w, node_t *node); /* -1: no memory */
void pgasi_mcts_visit(worker_t *w, node_t *node, uint32_t i, uint32_t n);
void pgasi_mcts_update(worker_t *w, node_t *node, uint32_t i, const report_t *report);
bool pgasi_mcts_better(const child_t *a, const child_t *b);
bool pgasi_mcts_has_room(worker_t *w);
node_t *pgasi_mcts_find(pgas_mcts_t *m, uint64_t hash);
node_t *pgasi_mcts_insert(pgas_mcts_t *m, node_t *node); /* who is there first */

/* work.c, calls.c, queue.c; see also walk.h */
int pgasi_mcts_run(worker_t *w);
void pgasi_mcts_flush(worker_t *w);
void pgasi_mcts_post(worker_t *w, int rank, handler_number_t handler, const void *args,
                     size_t bytes);
pgas_status_t pgasi_mcts_register(void);
int pgasi_mcts_run_work(void *worker);
void pgasi_mcts_free_steps(worker_t *w);

/* search.c */
/* that the caller may do something collective */
pgas_status_t pgasi_mcts_check(const pgas_mcts_t *m);
/* the worst; MISMATCH if numbers differ */
pgas_status_t pgasi_mcts_agree(pgas_status_t mine, uint64_t number);

/* rest.c: what is done at rest */
pgas_status_t pgasi_mcts_collect(pgas_mcts_t *m);
/* No room for the root and its moves: logs the bytes that they need. */
pgas_status_t pgasi_mcts_refuse(pgas_mcts_t *m);
void pgasi_mcts_drop_all(pgas_mcts_t *m);
void pgasi_mcts_sum_bytes(pgas_mcts_t *m);
void pgasi_mcts_peek(const pgas_mcts_t *m, pgas_mcts_info_t *info);
void pgasi_mcts_handle_mark(const void *args, size_t bytes, pgas_thread_t source, void *context);
void pgasi_mcts_handle_audit(const void *args, size_t bytes, pgas_thread_t source, void *context);
void pgasi_mcts_handle_look(const void *args, size_t bytes, pgas_thread_t source, void *context);
void pgasi_mcts_handle_line(const void *args, size_t bytes, pgas_thread_t source, void *context);

#endif
