/* What a thread of a search does: jobs, new rollouts, and looking at why to end. */
#include "base/clock.h"
#include "mcts/walk.h"

#define PLAYOUTS_OF_RUN 16 /* then calls are looked at, and sent */
#define OWN_JOBS        3  /* rollouts of a worker that take turns while memory is fetched */

/* Asks whoever starts rollouts to start no more. */
static void ask_to_end(worker_t *w, uint32_t why)
{
    pgas_mcts_t *m = w->mcts;
    stop_t call = { m->id, (uint16_t)why, (uint16_t)m->n_searches };
    for (int rank = 0; rank < m->n_ranks; rank++)
        if (m->opts.mode == PGAS_MCTS_ROOT || rank == ref_rank(m->root))
            pgasi_mcts_post(w, rank, HANDLER_STOP, &call, sizeof call);
}

/* The budget's; or the search's own, of which a remainder may be left that is too small for a
 * node. */
static bool has_reached_limit(const pgas_mcts_t *m)
{
    bool full =
        m->memory_limit == m->opts.memory_bytes && __atomic_load_n(&m->rest.full, __ATOMIC_RELAXED);
    return full || __atomic_load_n(&m->bytes, __ATOMIC_RELAXED) >= m->memory_limit;
}

/* What only one thread of the rank looks at. */
static void look_around(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    if (PGAS_UNLIKELY(__atomic_load_n(&m->held, __ATOMIC_RELAXED)))
        pgasi_mcts_post_held(w);
    if (PGAS_UNLIKELY(__atomic_load_n(&m->stop, __ATOMIC_RELAXED) == 1)) {
        __atomic_store_n(&m->stop, 2, __ATOMIC_RELAXED);
        ask_to_end(w, PGAS_MCTS_BY_STOP);
    }
    if (m->memory_limit && !m->memory_told && has_reached_limit(m)) {
        m->memory_told = true;
        ask_to_end(w, PGAS_MCTS_BY_MEMORY);
    }
    if (m->deadline_ns && m->has_root && pgasi_now_ns() >= m->deadline_ns)
        pgasi_mcts_end_soon(m, PGAS_MCTS_BY_TIME);
}

static bool may_start(const pgas_mcts_t *m)
{
    return m->has_root && __atomic_load_n(&m->to_start, __ATOMIC_RELAXED) > 0 &&
           !__atomic_load_n(&m->stopping, __ATOMIC_RELAXED) &&
           (int64_t)(__atomic_load_n(&m->started, __ATOMIC_RELAXED) -
                     __atomic_load_n(&m->completed, __ATOMIC_RELAXED)) <
               m->opts.in_flight + (int64_t)m->n_lost;
}

static bool start(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    int64_t group = m->opts.mode == PGAS_MCTS_LEAF ? m->n_ranks : 1;
    if (!may_start(m))
        return false;
    int64_t left = __atomic_fetch_sub(&m->to_start, group, __ATOMIC_RELAXED);
    if (left <= 0)
        return false;
    uint32_t n = (uint32_t)PGASI_MIN(left, group);
    __atomic_fetch_add(&m->started, n, __ATOMIC_RELAXED);
    node_t *root = ref_pointer(m->root);
    if (PGAS_UNLIKELY((root->flags & NODE_PROVEN) && !m->even_if_proven)) {
        pgasi_mcts_end_soon(m, PGAS_MCTS_BY_PROOF);
        __atomic_fetch_sub(&m->started, n, __ATOMIC_RELAXED);
        return false;
    }
    pgasi_mcts_descend(w, root, 0, 0, n, 0);
    return true;
}

static step_t *next_job(worker_t *w)
{
    step_t *job = pgasi_mcts_pop(w);
    w->n_jobs_ended += job != NULL;
    if (!job && w->own) {
        job = w->own;
        w->own = job->next;
        w->n_own--;
        if (!w->own)
            w->own_end = &w->own;
    }
    return job;
}

static void rest(worker_t *w)
{
    pgasi_mcts_flush(w);
    uint64_t ended = w->n_jobs_ended + w->active;
    w->n_jobs_ended = 0;
    w->active = false;
    if (!w->idle_since_ns)
        w->idle_since_ns = pgasi_now_ns();
    __atomic_store_n(&w->wants, 1, __ATOMIC_RELAXED);
    if (ended)
        __atomic_fetch_add(&w->mcts->work.ended, ended, __ATOMIC_RELEASE);
}

static void begin(worker_t *w)
{
    w->active = true;
    if (w->idle_since_ns)
        __atomic_store_n(&w->idle_ns, w->idle_ns + pgasi_now_ns() - w->idle_since_ns,
                         __ATOMIC_RELAXED);
    w->idle_since_ns = 0;
    __atomic_store_n(&w->wants, 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&w->mcts->work.made, 1, __ATOMIC_RELEASE);
}

/* Some rollouts' worth of work; how many things were done. */
int pgasi_mcts_run(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    int n = 0;
    uint64_t enough = w->counts.playouts + PLAYOUTS_OF_RUN;
    if (!w->active &&
        (pgasi_mcts_has_jobs(w) || may_start(m) || __atomic_load_n(&m->held, __ATOMIC_RELAXED)))
        begin(w);
    if (w->index == 0)
        look_around(w);
    while (w->active && n < 4 * PLAYOUTS_OF_RUN && w->counts.playouts < enough) {
        step_t *job = NULL;
        if ((w->n_own >= OWN_JOBS || !start(w)) && !(job = next_job(w)))
            break;
        if (job)
            pgasi_mcts_do_job(w, job);
        n++;
    }
    if (n == 0)
        rest(w);
    else
        pgasi_mcts_flush(w);
    return n;
}

int pgasi_mcts_run_work(void *worker)
{
    return pgasi_mcts_run(worker);
}
