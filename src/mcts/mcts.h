/** The search object, and the functions of the files that work on it as a whole. The objects below
 *  it have headers of their own: node.h, worker.h, pool.h. message.h has the messages between
 *  ranks, walk.h the path of a rollout.
 *
 *  Each file uses only files that precede it in this list:
 *      pool; spec, registry; node, select, backprop; queue, send; walk; worker;
 *      gc, info, results; result, root; handlers; create, search.
 *  This folder uses the public headers of the library and src/base only. */
#ifndef PGASI_MCTS_MCTS_H
#define PGASI_MCTS_MCTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/checks.h"
#include "mcts/node.h"
#include "mcts/worker.h"
#include "pgas/call.h"
#include "pgas/mcts.h"

#define PGASI_MCTS_SEARCHES 64
/* The share of new nodes that each rank but that of the root gets. */
#define PGASI_MCTS_SHARE_WHOLE 65536u

/* Commands to the other threads of a search. */
typedef enum { COMMAND_PARK, COMMAND_RUN, COMMAND_END } command_t;

struct pgas_mcts {
    uint32_t id;
    pgas_mcts_spec_t spec;
    pgas_mcts_opts_t opts;
    int me, n_ranks, n_threads;
    size_t state_bytes; /* rounded up to 8 */
    size_t node_bytes;
    bool has_avx2;
    bool is_graph;    /* placement by hash: equal states are one node, which has several parents */
    worker_t *worker; /* n_threads + 1; the last one is that of the handlers */
    shared_pool_t shared_pool;
    node_t **table; /* of a graph, by hash */
    uint64_t table_mask;
    node_id_t root; /* 0: no state. In mode ROOT: that of this rank */
    bool has_root;  /* this rank has the root */
    char *root_state;
    bool has_state;
    uint32_t root_depth, epoch;
    float exploration;   /* C */
    uint32_t root_share; /* of new nodes, for the root's rank; see PGASI_MCTS_SHARE_WHOLE */
    uint64_t phase_begin_ns;
    /* the search that runs */
    pgas_work_t work;            /* the outstanding work of this rank, for quiescence */
    struct postponed *postponed; /* calls of handlers for which there was no room */
    uint32_t command;            /* command_t */
    int n_started;               /* threads, with the caller */
    int n_parked, n_running;     /* threads, without the caller */
    pthread_mutex_t lock;        /* of these counts and the command */
    pthread_cond_t changed;
    pthread_mutex_t root_lock; /* held while the root changes */
    uint64_t ask_after_ns;     /* pgas_mcts_result waits until then; see result.c */
    uint64_t asked_phase;
    uint32_t n_asked;    /* calls of pgas_mcts_result by this rank in this phase */
    uint32_t n_searches; /* begun */
    pthread_t creator;
    uint64_t begin_ns;     /* 0: no search runs */
    uint64_t deadline_ns;  /* 0: none */
    uint64_t memory_limit; /* at which the search ends; 0: none */
    bool memory_reported;  /* other ranks know that the limit is reached */
    uint32_t stop;         /* 1: requested on this rank; 2: other ranks know it */
    uint32_t stopping;     /* 1 + pgas_mcts_end_t */
    bool even_if_proven;
    uint64_t bytes, bytes_high; /* of the nodes of this rank, when they were last summed up */
    /* results, the same on all ranks */
    pgas_mcts_result_t result;
    pgas_mcts_child_t *children;
    size_t n_children, n_pv;
    pgas_mcts_move_t pv[PGAS_MCTS_VARIATION_MAX];
    pgas_mcts_info_t info;
    uint64_t n_phases, n_lost;     /* of this search */
    bool broken;                   /* a rank died */
    _Alignas(64) int64_t to_start; /* rollouts, in this phase */
    _Alignas(64) uint64_t started, completed;
};

static inline uint32_t *proof_of(const pgas_mcts_t *m, node_t *node)
{
    return (uint32_t *)(void *)(node->state + m->state_bytes);
}
static inline worker_t *handlers_worker(pgas_mcts_t *m)
{
    return &m->worker[m->n_threads];
}
static inline bool is_handlers_worker(const worker_t *w)
{
    return w->index == w->mcts->n_threads;
}

/* Adds the rollouts that the worker has completed to those of the search. */
static inline void pgasi_mcts_add_completed(worker_t *w)
{
    if (w->n_completed)
        __atomic_fetch_add(&w->mcts->completed, w->n_completed, __ATOMIC_RELEASE);
    w->n_completed = 0;
}

/* Ends the search soon, for this reason, unless it ends for another one already. */
static inline void pgasi_mcts_end_soon(pgas_mcts_t *m, uint32_t why)
{
    uint32_t not_yet = 0;
    __atomic_compare_exchange_n(&m->stopping, &not_yet, 1 + why, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

/* ---- spec.c: the program's description ---- */

pgas_status_t pgasi_mcts_check_spec(const pgas_mcts_spec_t *spec);
int pgasi_mcts_turn(const pgas_mcts_t *m, const void *state);
bool pgasi_mcts_outcome(const pgas_mcts_t *m, const void *state, uint32_t *values);
/* Stores moves and priors in the worker's scratch memory and returns their number. Returns 0 if the
 * program gave none. */
uint32_t pgasi_mcts_moves(worker_t *w, const void *state, bool priors);
/* Draws one of n numbers by their probabilities. */
uint32_t pgasi_mcts_draw(pgas_mcts_rng_t *rng, const float *chances, uint32_t n);
/* Makes n rollouts from a state that is not final: adds up the mean outcomes of their playouts. */
void pgasi_mcts_simulate(worker_t *w, const void *state, uint32_t n, uint64_t *sums);

/* ---- registry.c: the searches of this rank ---- */

/* Returns -1 and logs if all numbers are taken. */
int pgasi_mcts_free_number(void);
/* Messages to the number m->id reach the search from now on, until remove. */
void pgasi_mcts_add(pgas_mcts_t *m);
void pgasi_mcts_remove(pgas_mcts_t *m);
bool pgasi_mcts_is_live(const pgas_mcts_t *m);
/* PGAS_OK if the caller may make a collective call of this search. */
pgas_status_t pgasi_mcts_check(const pgas_mcts_t *m);
/* Collective: the worst status of all ranks. PGAS_ERR_MISMATCH if their numbers differ. */
pgas_status_t pgasi_mcts_agree(pgas_status_t mine, uint64_t number);
/* Remembers a death of a rank. Returns the status. */
pgas_status_t pgasi_mcts_note_death(pgas_mcts_t *m, pgas_status_t status);

/* ---- worker.c: the threads of a search ---- */

pgas_status_t pgasi_mcts_workers_init(pgas_mcts_t *m);
void pgasi_mcts_workers_fini(pgas_mcts_t *m);
/* Gives a command to all threads. PARK returns when they have parked; the caller makes progress
 * until then, because they may wait for its rank. */
void pgasi_mcts_command(pgas_mcts_t *m, command_t command);
/* Waits a little. A loop passes how often it has waited: first it spins, then yields, then
 * sleeps. */
void pgasi_mcts_wait(uint32_t n);

/* ---- gc.c: garbage collection ---- */

/* Collective: frees all nodes that cannot be reached from m->root. */
pgas_status_t pgasi_mcts_keep_below_root(pgas_mcts_t *m);
/* Frees all nodes of this rank. */
void pgasi_mcts_drop_all(pgas_mcts_t *m);

/* ---- root.c ---- */

/* There is no room for the root and its moves: logs how many bytes they need. */
pgas_status_t pgasi_mcts_refuse(pgas_mcts_t *m);

/* ---- results.c, info.c, result.c ---- */

/* Collective: the results of the search that ended. */
pgas_status_t pgasi_mcts_collect(pgas_mcts_t *m);
pgas_status_t pgasi_mcts_collect_info(pgas_mcts_t *m);
/* The child of this move. Returns NULL if no rollout has gone there. */
child_t *pgasi_mcts_child_of_move(const node_t *node, pgas_mcts_move_t move);
/* Returns NULL if no rollout has gone to any child. */
child_t *pgasi_mcts_best_child(const node_t *node, uint32_t *i_p);
double pgasi_mcts_value(uint64_t value, uint64_t done, bool proven, uint32_t proven_value);
/* The present state of this rank's root. */
void pgasi_mcts_result_here(const pgas_mcts_t *m, pgas_mcts_result_t *result);

/* ---- handlers.c ---- */

pgas_status_t pgasi_mcts_register(void);

#endif
