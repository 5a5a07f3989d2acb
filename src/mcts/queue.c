/* Path elements and jobs, and the queues of jobs. Each worker has a queue to which any thread
 * pushes, by one exchange, and from which the worker alone pops (Vyukov's intrusive queue). */
#include <stdlib.h>

#include "mcts/mcts.h"

#define PATHS_OF_CHUNK 64

/* ---- path elements ---- */

typedef struct chunk {
    struct chunk *next;
    path_t path[PATHS_OF_CHUNK];
} chunk_t;

static void add_chunk(worker_t *w)
{
    chunk_t *chunk = malloc(sizeof *chunk);
    if (!chunk)
        pgasi_fatal("mcts", "no memory for %d path elements of rollouts", PATHS_OF_CHUNK);
    chunk->next = w->path_chunks;
    w->path_chunks = chunk;
    for (int i = 0; i < PATHS_OF_CHUNK; i++) {
        chunk->path[i].next = w->free_paths;
        w->free_paths = &chunk->path[i];
    }
}

void pgasi_mcts_paths_fini(worker_t *w)
{
    chunk_t *next;
    for (chunk_t *chunk = w->path_chunks; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    w->path_chunks = NULL;
}

/* First uses those that the worker itself gave back, then those that others gave back. Their number
 * grows to that of rollouts under way, times their depth. */
path_t *pgasi_mcts_path_take(worker_t *w, node_t *node, const rollouts_t *rollouts)
{
    if (!w->free_paths)
        w->free_paths = __atomic_exchange_n(&w->returned, NULL, __ATOMIC_ACQUIRE);
    if (!w->free_paths)
        add_chunk(w);
    path_t *path = w->free_paths;
    w->free_paths = path->next;
    *path = (path_t){ .node = node,
                      .rollouts = *rollouts,
                      .outstanding = rollouts->n,
                      .owner = w,
                      .maker = (uint32_t)w->index,
                      .stage = STAGE_SIMULATE };
    return path;
}

void pgasi_mcts_path_give(worker_t *w, path_t *path)
{
    worker_t *owner = path->owner;
    if (owner == w) {
        path->next = w->free_paths;
        w->free_paths = path;
        return;
    }
    pgasi_mcts_stack(&owner->returned, path);
}

/* ---- queues ---- */

void pgasi_mcts_push(worker_t *to, path_t *job)
{
    __atomic_store_n(&job->next, NULL, __ATOMIC_RELAXED);
    path_t *before = __atomic_exchange_n(&to->queue_head, job, __ATOMIC_ACQ_REL);
    __atomic_store_n(&before->next, job, __ATOMIC_RELEASE);
}

path_t *pgasi_mcts_pop(worker_t *w)
{
    path_t *tail = w->queue_tail, *next = __atomic_load_n(&tail->next, __ATOMIC_ACQUIRE);
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

void pgasi_mcts_keep(worker_t *w, path_t *job)
{
    job->next = NULL;
    *w->own_end = job;
    w->own_end = &job->next;
    w->n_own++;
}

worker_t *pgasi_mcts_helper_for(pgas_mcts_t *m, uint32_t owner)
{
    worker_t *to = &m->worker[owner];
    for (int i = 0; i < m->n_threads && !__atomic_load_n(&to->is_idle, __ATOMIC_RELAXED); i++)
        if (__atomic_load_n(&m->worker[i].is_idle, __ATOMIC_RELAXED))
            to = &m->worker[i];
    return to;
}

void pgasi_mcts_enqueue(worker_t *w, path_t *job)
{
    pgas_mcts_t *m = w->mcts;
    worker_t *to = is_handlers_worker(w) || w->own ? pgasi_mcts_helper_for(m, job->maker) : w;
    if (to != w && (is_handlers_worker(w) || __atomic_load_n(&to->is_idle, __ATOMIC_RELAXED))) {
        __atomic_fetch_add(&m->work.made, 1, __ATOMIC_RELEASE);
        pgasi_mcts_push(to, job);
        return;
    }
    pgasi_mcts_keep(w, job);
}
