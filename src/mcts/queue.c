/* Steps, which are notes of rollouts under way and jobs, and the queues of jobs: any thread pushes,
 * one pops (after Vyukov's intrusive queue); pushing is one exchange. */
#include <stdlib.h>

#include "mcts/walk.h"

#define STEPS_OF_CHUNK 64

/* ---- steps ---- */

typedef struct chunk {
    struct chunk *next;
    step_t step[STEPS_OF_CHUNK];
} chunk_t;

static void add_chunk(worker_t *w)
{
    chunk_t *chunk = malloc(sizeof *chunk);
    if (!chunk)
        pgasi_fatal("mcts", "no memory for %d notes of rollouts under way", STEPS_OF_CHUNK);
    chunk->next = w->step_chunks;
    w->step_chunks = chunk;
    for (int i = 0; i < STEPS_OF_CHUNK; i++) {
        chunk->step[i].next = w->free_steps;
        w->free_steps = &chunk->step[i];
    }
}

void pgasi_mcts_free_steps(worker_t *w)
{
    chunk_t *next;
    for (chunk_t *chunk = w->step_chunks; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    w->step_chunks = NULL;
}

/* Its own ones first, then those that others have given back. As many as there are rollouts under
 * way, times their depth. */
step_t *pgasi_mcts_take_step(worker_t *w, node_t *node, pgasi_ref_t up, uint32_t up_idx, uint32_t n,
                             uint32_t depth)
{
    if (!w->free_steps)
        w->free_steps = __atomic_exchange_n(&w->foreign, NULL, __ATOMIC_ACQUIRE);
    if (!w->free_steps)
        add_chunk(w);
    step_t *step = w->free_steps;
    w->free_steps = step->next;
    *step = (step_t){ NULL, node,           up,   0, up_idx, n, n, depth, (uint32_t)w->index,
                      w,    STAGE_SIMULATE, false };
    return step;
}

void pgasi_mcts_give_step(worker_t *w, step_t *step)
{
    worker_t *owner = step->owner;
    if (owner == w) {
        step->next = w->free_steps;
        w->free_steps = step;
        return;
    }
    pgasi_mcts_stack(&owner->foreign, step);
}

/* ---- queues ---- */

void pgasi_mcts_push(worker_t *to, step_t *job)
{
    __atomic_store_n(&job->next, NULL, __ATOMIC_RELAXED);
    step_t *before = __atomic_exchange_n(&to->queue_head, job, __ATOMIC_ACQ_REL);
    __atomic_store_n(&before->next, job, __ATOMIC_RELEASE);
}

step_t *pgasi_mcts_pop(worker_t *w)
{
    step_t *tail = w->queue_tail, *next = __atomic_load_n(&tail->next, __ATOMIC_ACQUIRE);
    if (tail == &w->stub) {
        if (!next)
            return NULL;
        w->queue_tail = tail = next;
        next = __atomic_load_n(&tail->next, __ATOMIC_ACQUIRE);
    }
    if (!next) {
        if (tail != __atomic_load_n(&w->queue_head, __ATOMIC_ACQUIRE))
            return NULL;
        pgasi_mcts_push(w, &w->stub);
        next = __atomic_load_n(&tail->next, __ATOMIC_ACQUIRE);
        if (!next)
            return NULL;
    }
    w->queue_tail = next;
    return tail;
}

bool pgasi_mcts_has_jobs(const worker_t *w)
{
    return w->own || w->queue_tail != &w->stub ||
           __atomic_load_n(&w->queue_head, __ATOMIC_RELAXED) != &w->stub;
}

void pgasi_mcts_keep(worker_t *w, step_t *job)
{
    job->next = NULL;
    *w->own_end = job;
    w->own_end = &job->next;
    w->n_own++;
}

/* A worker that is idle, else the one to which the node belongs. */
worker_t *pgasi_mcts_helper_for(pgas_mcts_t *m, uint32_t owner)
{
    worker_t *to = &m->worker[owner];
    for (int i = 0; i < m->n_threads && !__atomic_load_n(&to->wants, __ATOMIC_RELAXED); i++)
        if (__atomic_load_n(&m->worker[i].wants, __ATOMIC_RELAXED))
            to = &m->worker[i];
    return to;
}

void pgasi_mcts_enqueue(worker_t *w, step_t *job)
{
    pgas_mcts_t *m = w->mcts;
    worker_t *to = pgasi_mcts_is_handlers(w) || w->own ? pgasi_mcts_helper_for(m, job->maker) : w;
    if (to != w && (pgasi_mcts_is_handlers(w) || __atomic_load_n(&to->wants, __ATOMIC_RELAXED))) {
        __atomic_fetch_add(&m->work.made, 1, __ATOMIC_RELEASE);
        pgasi_mcts_push(to, job);
        return;
    }
    pgasi_mcts_keep(w, job);
}
