/** What the files of a rollout's way share: calls.c, queue.c, walk.c, work.c.
 *
 *  Whoever comes first to a child that is not there makes it, or has it made; others that choose it
 *  meanwhile are deferred: they hang at the child's entry until its first report says where it
 *  lives. Every call may overtake any other one.
 *
 *  Quiescence counts calls by itself. What waits in queues is counted when it is pushed, and a
 *  worker counts as one piece of work from when it finds something to do until it has handed over
 *  all that came out of it. */
#ifndef PGASI_MCTS_WALK_H
#define PGASI_MCTS_WALK_H

#include "mcts/mcts.h"

#define SELF UINT32_MAX /* instead of the number of a child: the node itself */

enum { CREATE_APPLIED = 1, CREATE_TEMPORARY = 2 };

typedef struct {
    uint32_t id;
    uint16_t flags, depth;
    pgasi_ref_t place;
    uint32_t idx, n;
    pgas_mcts_move_t move;
    uint32_t owner;
    pgasi_ref_t parent; /* with placement by hash: the node; place is a step */
    char state[];
} create_t;

typedef struct {
    uint32_t id, depth;
    pgasi_ref_t node, place;
    uint32_t idx, n;
} select_t;

typedef struct {
    uint32_t id, proven;
    pgasi_ref_t place, child;
    uint32_t idx, n;
    uint64_t data[]; /* sums by player; if proven, the outcome by player, 32 bits each */
} report_call_t;

typedef struct {
    uint32_t id;
    uint16_t why, search; /* the lower bits of its number: one that comes late ends no other */
} stop_t;

static inline bool pgasi_mcts_is_handlers(const worker_t *w)
{
    return w->index == w->mcts->n_threads;
}

/* Any thread; who takes takes all, by one exchange. Ordered with what the pusher loads behind
 * it. */
static inline void pgasi_mcts_stack(step_t **top, step_t *step)
{
    step->next = __atomic_load_n(top, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(top, &step->next, step, true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {
    }
}

/* queue.c */
step_t *pgasi_mcts_take_step(worker_t *w, node_t *node, pgasi_ref_t up, uint32_t up_idx, uint32_t n,
                             uint32_t depth);
void pgasi_mcts_give_step(worker_t *w, step_t *step);
void pgasi_mcts_push(worker_t *to, step_t *job); /* any thread */
/* its own; NULL: empty, or somebody is about to push */
step_t *pgasi_mcts_pop(worker_t *w);
void pgasi_mcts_keep(worker_t *w, step_t *job);    /* for later, by itself */
void pgasi_mcts_enqueue(worker_t *w, step_t *job); /* for somebody of this rank */
bool pgasi_mcts_has_jobs(const worker_t *w);
worker_t *pgasi_mcts_helper_for(pgas_mcts_t *m, uint32_t owner);

/* calls.c */
void pgasi_mcts_post_held(worker_t *w);
void pgasi_mcts_end_soon(pgas_mcts_t *m, uint32_t why);

/* walk.c */
void pgasi_mcts_link(worker_t *w, node_t *node, uint32_t i, pgasi_ref_t child);
size_t pgasi_mcts_report_bytes(const pgas_mcts_t *m, bool proven);
void pgasi_mcts_deliver_here(worker_t *w, pgasi_ref_t *place_p, uint32_t *idx_p, report_t *r);
void pgasi_mcts_deliver(worker_t *w, pgasi_ref_t place, uint32_t idx, report_t *r);
void pgasi_mcts_fetch(const void *memory);
void pgasi_mcts_rest_at(worker_t *w, node_t *node, pgasi_ref_t place, uint32_t idx, uint32_t n,
                        uint32_t depth);
void pgasi_mcts_do_job(worker_t *w, step_t *job);
void pgasi_mcts_simulate_once(worker_t *w, const void *state, uint32_t owner, pgasi_ref_t place,
                              uint32_t idx, uint32_t n);
node_t *pgasi_mcts_create_here(worker_t *w, const void *state, uint64_t hash, uint32_t owner,
                               pgasi_ref_t parent, pgasi_ref_t place, uint32_t idx, uint32_t n,
                               uint32_t depth);
void pgasi_mcts_descend(worker_t *w, node_t *node, pgasi_ref_t place, uint32_t place_idx,
                        uint32_t n, uint32_t depth);

#endif
