/** A worker: a thread of the search with its memory, queues and counts. One more worker of each
 *  rank belongs to the message handlers of the rank, which never overlap. */
#ifndef PGASI_MCTS_WORKER_H
#define PGASI_MCTS_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "mcts/node.h"
#include "mcts/pool.h"
#include "pgas/agg.h"

#define PGASI_MCTS_THREADS_MAX 256
#define PGASI_MCTS_COMBINED    64 /* reports of a worker that wait to be combined with others */

/* Rollouts that go down together, and the receiver of their report: child number `child` of the
 * node or path element `parent`. */
typedef struct {
    node_id_t parent; /* 0: they are at the root */
    uint32_t child;
    uint32_t n;
    uint32_t depth; /* of the node that they go to, below the root */
} rollouts_t;

/* The next step of a job. In the latter two it waits for memory that the way down reads. */
typedef enum { STAGE_SIMULATE, STAGE_NODE, STAGE_EDGES } stage_t;

/* Three uses. As a path element it records, in a graph, through which parent rollouts reached a
 * node. As a job it waits in a queue and then continues at a node. As a deferred rollout it waits
 * in the entry of a child that is being made. */
struct path {
    path_t *next;
    node_t *node;
    rollouts_t rollouts;
    uint32_t child;       /* path element: the child of the node that was selected */
    uint32_t outstanding; /* path element: rollouts that have not reported */
    worker_t *owner;      /* the worker that allocated it */
    uint32_t maker;       /* job: the index of the worker that made it */
    uint8_t stage;        /* job: stage_t */
    bool temporary;       /* job: the node exists for this job alone */
};

/* A report that waits to be combined with others of the same child. */
typedef struct {
    node_id_t parent;
    uint32_t child;
    bool used;
    report_t report;
} combined_t;

/* Counts of the last search. */
typedef struct {
    uint64_t rollouts, playouts, final_states, selections, remote, deferred, reports,
        reports_remote, combined, shared, transpositions;
} counts_t;

/* Counts of the nodes that exist now. The search adds new nodes; sweeping counts the rest anew. */
typedef struct {
    uint64_t nodes, expanded, children;
    uint64_t depths, depth_max; /* depths below the root; the first is their sum */
} present_t;

struct worker {
    pgas_mcts_t *mcts;
    int index;              /* n_threads: the worker of the handlers */
    bool active;            /* it counts as one piece of outstanding work */
    uint64_t idle_since_ns; /* 0 while active */
    uint64_t idle_ns;
    pgas_mcts_rng_t playout_rng, tree_rng;
    counts_t counts;
    present_t present;
    uint64_t n_refused; /* nodes for which there was no room, since the search was created */
    pool_t pool;
    node_t *nodes;
    /* messages to other ranks */
    pgas_agg_t *agg;
    int *dirty, n_dirty; /* ranks for which the aggregator holds calls */
    bool *is_dirty;
    combined_t *combined;
    int n_combined;
    /* jobs of its own, first in, first out */
    path_t *own, **own_end;
    int n_own;
    int n_to_start;        /* rollouts that it starts one after the other, before its next job */
    uint64_t n_completed;  /* rollouts, not yet added to those of the search */
    uint64_t n_jobs_ended; /* not yet added to the counts of outstanding work */
    uint32_t next_worker;  /* of the handlers: the worker that gets the next suspended rollout */
    path_t *free_paths;
    void *path_chunks;
    /* scratch memory */
    char *state;
    pgas_mcts_move_t *moves;
    float *priors;
    char *message;
    pthread_t thread;
    pgas_status_t status;
    _Alignas(64) path_t *returned;   /* its path elements, given back by other workers */
    _Alignas(64) path_t *queue_head; /* jobs from others: the last one pushed */
    path_t *queue_tail;              /* the next one to be popped */
    path_t stub;
    _Alignas(64) uint32_t is_idle;
};

/* Puts a node into the worker's list. Its depth counts from the root. */
static inline void list_node(worker_t *w, node_t *node, uint64_t depth)
{
    node->next = w->nodes;
    w->nodes = node;
    w->present.nodes++;
    w->present.depths += depth;
    w->present.depth_max = depth > w->present.depth_max ? depth : w->present.depth_max;
}

/* ---- queue.c: path elements and jobs ---- */

path_t *pgasi_mcts_path_take(worker_t *w, node_t *node, const rollouts_t *rollouts);
void pgasi_mcts_path_give(worker_t *w, path_t *path);
void pgasi_mcts_paths_fini(worker_t *w);
/* Pushes onto a stack that any thread may push to. A reader takes all its elements by one exchange.
 * The push is ordered before later loads of the pushing thread. */
static inline void pgasi_mcts_stack(path_t **top, path_t *path)
{
    path->next = __atomic_load_n(top, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(top, &path->next, path, true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {
    }
}

/* Pushes a job to a worker. Any thread. */
void pgasi_mcts_push(worker_t *to, path_t *job);
/* Pops a job that others pushed to this worker. Returns NULL if there is none, or if the next one
 * is not pushed completely yet. */
path_t *pgasi_mcts_pop(worker_t *w);
/* Appends a job to those of the worker itself. */
void pgasi_mcts_keep(worker_t *w, path_t *job);
/* Gives a job to an idle worker of this rank, or else keeps it. */
void pgasi_mcts_enqueue(worker_t *w, path_t *job);
bool pgasi_mcts_has_jobs(const worker_t *w);
/* Returns an idle worker, or else the worker with this index. */
worker_t *pgasi_mcts_helper_for(pgas_mcts_t *m, uint32_t owner);

#endif
