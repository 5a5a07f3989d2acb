/* The workers of a search: their memory and their threads. A thread does jobs, starts rollouts, and
 * checks whether the search shall end.
 *
 * The caller's thread is worker 0; it runs inside pgas_quiesce_work. The others run in a loop of
 * their own, and sleep between searches. */
#include <stdlib.h>

#include "base/clock.h"
#include "mcts/walk.h"
#include "pgas/runtime.h"

#define PLAYOUTS_OF_RUN 64 /* then the thread receives and sends messages */
#define OWN_JOBS        6  /* rollouts of a worker that take turns while memory is fetched */

/* ---- reasons to end ---- */

/* Sends a stop to the ranks that start rollouts: they start no more. */
static void post_stop(worker_t *w, uint32_t why)
{
    pgas_mcts_t *m = w->mcts;
    stop_message_t message = { m->id, (uint16_t)why, (uint16_t)m->n_searches };
    for (int rank = 0; rank < m->n_ranks; rank++)
        if (m->opts.mode == PGAS_MCTS_ROOT || rank == id_rank(m->root))
            pgasi_mcts_post(w, rank, HANDLER_STOP, &message, sizeof message);
}

/* At the limit of the whole search, a remainder that is too small for a node may be left. */
static bool has_reached_limit(const pgas_mcts_t *m)
{
    bool full = m->memory_limit == m->opts.memory_bytes &&
                __atomic_load_n(&m->shared_pool.full, __ATOMIC_RELAXED);
    return full || __atomic_load_n(&m->bytes, __ATOMIC_RELAXED) >= m->memory_limit;
}

/* Checks that one thread of the rank makes for all. */
static void check_rank(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    if (PGAS_UNLIKELY(__atomic_load_n(&m->postponed, __ATOMIC_RELAXED)))
        pgasi_mcts_post_postponed(w);
    if (PGAS_UNLIKELY(__atomic_load_n(&m->stop, __ATOMIC_RELAXED) == 1)) {
        __atomic_store_n(&m->stop, 2, __ATOMIC_RELAXED);
        post_stop(w, PGAS_MCTS_BY_STOP);
    }
    if (m->memory_limit && !m->memory_reported && has_reached_limit(m)) {
        m->memory_reported = true;
        post_stop(w, PGAS_MCTS_BY_MEMORY);
    }
    if (m->deadline_ns && m->has_root && pgasi_now_ns() >= m->deadline_ns)
        pgasi_mcts_end_soon(m, PGAS_MCTS_BY_TIME);
}

/* ---- new rollouts and jobs ---- */

static bool may_start(const pgas_mcts_t *m)
{
    return m->has_root && __atomic_load_n(&m->to_start, __ATOMIC_RELAXED) > 0 &&
           !__atomic_load_n(&m->stopping, __ATOMIC_RELAXED) &&
           (int64_t)(__atomic_load_n(&m->started, __ATOMIC_RELAXED) -
                     __atomic_load_n(&m->completed, __ATOMIC_RELAXED)) <
               m->opts.in_flight + (int64_t)m->n_lost;
}

/* Starts one rollout, or in mode LEAF one for each rank. Returns false if none may start. */
static bool start_rollouts(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    int64_t group = m->opts.mode == PGAS_MCTS_LEAF ? m->n_ranks : 1;
    if (!may_start(m))
        return false;
    int64_t left = __atomic_fetch_sub(&m->to_start, group, __ATOMIC_RELAXED);
    if (left <= 0)
        return false;
    rollouts_t rollouts = { .n = (uint32_t)PGASI_MIN(left, group) };
    __atomic_fetch_add(&m->started, rollouts.n, __ATOMIC_RELAXED);
    node_t *root = id_pointer(m->root);
    if (PGAS_UNLIKELY((root->flags & NODE_PROVEN) && !m->even_if_proven)) {
        pgasi_mcts_end_soon(m, PGAS_MCTS_BY_PROOF);
        __atomic_fetch_sub(&m->started, rollouts.n, __ATOMIC_RELAXED);
        return false;
    }
    pgasi_mcts_descend(w, root, &rollouts);
    return true;
}

static path_t *next_job(worker_t *w)
{
    path_t *job = pgasi_mcts_pop(w);
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

static void become_active(worker_t *w)
{
    w->active = true;
    if (w->idle_since_ns)
        __atomic_store_n(&w->idle_ns, w->idle_ns + pgasi_now_ns() - w->idle_since_ns,
                         __ATOMIC_RELAXED);
    w->idle_since_ns = 0;
    __atomic_store_n(&w->is_idle, 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&w->mcts->work.made, 1, __ATOMIC_RELEASE);
}

static void become_idle(worker_t *w)
{
    pgasi_mcts_flush(w);
    uint64_t ended = w->n_jobs_ended + w->active;
    w->n_jobs_ended = 0;
    w->active = false;
    if (!w->idle_since_ns)
        w->idle_since_ns = pgasi_now_ns();
    __atomic_store_n(&w->is_idle, 1, __ATOMIC_RELAXED);
    if (ended)
        __atomic_fetch_add(&w->mcts->work.ended, ended, __ATOMIC_RELEASE);
}

/* Does the work of some rollouts. Returns the number of jobs and starts. */
static int run(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    int n = 0;
    uint64_t enough = w->counts.playouts + PLAYOUTS_OF_RUN;
    if (!w->active && (pgasi_mcts_has_jobs(w) || may_start(m) ||
                       __atomic_load_n(&m->postponed, __ATOMIC_RELAXED)))
        become_active(w);
    if (w->index == 0)
        check_rank(w);
    while (w->active && n < 4 * PLAYOUTS_OF_RUN && w->counts.playouts < enough) {
        path_t *job = NULL;
        if (w->n_own == 0)
            w->n_to_start = OWN_JOBS;
        if (w->n_to_start > 0 && start_rollouts(w))
            w->n_to_start--;
        else if (!(job = next_job(w)))
            break;
        if (job)
            pgasi_mcts_do_job(w, job);
        n++;
    }
    pgasi_mcts_add_completed(w);
    if (n == 0)
        become_idle(w);
    else
        pgasi_mcts_flush(w);
    return n;
}

static int run_work(void *worker)
{
    return run(worker);
}

/* ---- threads ---- */

void pgasi_mcts_wait(uint32_t n)
{
    struct timespec nap = { 0, n < 400 ? 20000 : 200000 };
    if (n > 200)
        nanosleep(&nap, NULL);
    else if (n > 20)
        sched_yield();
}

static void run_until_parked(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    uint32_t idle = 0;
    while (__atomic_load_n(&m->command, __ATOMIC_ACQUIRE) == COMMAND_RUN) {
        int n = run(w);
        n += pgas_progress();
        idle = n ? 0 : idle + 1;
        if (idle)
            pgasi_mcts_wait(idle);
    }
    while (run(w) > 0) {
    }
}

static void add_to_count(pgas_mcts_t *m, int *count, int by)
{
    pthread_mutex_lock(&m->lock);
    *count += by;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

static uint32_t next_command(pgas_mcts_t *m)
{
    pthread_mutex_lock(&m->lock);
    while (m->command == COMMAND_PARK)
        pthread_cond_wait(&m->changed, &m->lock);
    uint32_t command = m->command;
    if (command == COMMAND_RUN)
        m->n_running++;
    pthread_mutex_unlock(&m->lock);
    return command;
}

static pgas_status_t make_agg(worker_t *w, bool for_handlers)
{
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    opts.style = w->mcts->opts.style;
    opts.for_handlers = for_handlers;
    return pgas_agg_create(&opts, &w->agg);
}

static void *thread_main(void *arg)
{
    worker_t *w = arg;
    pgas_mcts_t *m = w->mcts;
    w->status = pgas_thread_attach();
    bool attached = w->status == PGAS_OK;
    if (attached)
        w->status = make_agg(w, false);
    add_to_count(m, &m->n_parked, 1);
    while (next_command(m) == COMMAND_RUN) {
        run_until_parked(w);
        pgas_agg_flush(w->agg, PGAS_ALL, NULL);
        add_to_count(m, &m->n_running, -1);
    }
    pgas_agg_destroy(w->agg);
    if (attached)
        pgas_thread_detach();
    return NULL;
}

void pgasi_mcts_command(pgas_mcts_t *m, command_t command)
{
    pthread_mutex_lock(&m->lock);
    __atomic_store_n(&m->command, command, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&m->changed);
    int running = m->n_running;
    pthread_mutex_unlock(&m->lock);
    while (command == COMMAND_PARK && running > 0) {
        pgas_progress();
        sched_yield();
        pthread_mutex_lock(&m->lock);
        running = m->n_running;
        pthread_mutex_unlock(&m->lock);
    }
}

static pgas_status_t start_threads(pgas_mcts_t *m)
{
    pgas_status_t status = PGAS_OK;
    int n = 1;
    while (n < m->n_threads &&
           pthread_create(&m->worker[n].thread, NULL, thread_main, &m->worker[n]) == 0)
        n++;
    m->n_started = n;
    pthread_mutex_lock(&m->lock);
    while (m->n_parked < n - 1)
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
    for (int i = 1; i < n && status == PGAS_OK; i++)
        status = m->worker[i].status;
    return n < m->n_threads ? PGAS_ERR_NO_MEMORY : status;
}

/* ---- memory ---- */

static pgas_status_t worker_init(pgas_mcts_t *m, int index)
{
    worker_t *w = &m->worker[index];
    const pgas_mcts_spec_t *spec = &m->spec;
    uint64_t seed =
        m->opts.seed * 1000003 + (uint64_t)m->me * (PGASI_MCTS_THREADS_MAX + 1) + (uint64_t)index;
    w->mcts = m;
    w->index = index;
    w->queue_head = w->queue_tail = &w->stub;
    w->own_end = &w->own;
    pgas_mcts_rng_seed(&w->playout_rng, 2 * seed);
    pgas_mcts_rng_seed(&w->tree_rng, 2 * seed + 1);
    w->dirty = calloc((size_t)m->n_ranks, sizeof *w->dirty);
    w->is_dirty = calloc((size_t)m->n_ranks, sizeof *w->is_dirty);
    w->combined = calloc(PGASI_MCTS_COMBINED, sizeof *w->combined);
    w->state = malloc(m->state_bytes);
    w->moves = malloc(spec->moves_max * sizeof *w->moves);
    w->priors = malloc(spec->moves_max * sizeof *w->priors);
    w->message = malloc(sizeof(create_message_t) + m->state_bytes);
    bool all =
        w->dirty && w->is_dirty && w->combined && w->state && w->moves && w->priors && w->message;
    return all ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static void worker_fini(worker_t *w)
{
    pgasi_mcts_paths_fini(w);
    pgasi_mcts_pool_fini(&w->pool);
    free(w->dirty);
    free(w->is_dirty);
    free(w->combined);
    free(w->state);
    free(w->moves);
    free(w->priors);
    free(w->message);
}

pgas_status_t pgasi_mcts_workers_init(pgas_mcts_t *m)
{
    pgas_status_t status = PGAS_OK;
    size_t bytes = ((size_t)m->n_threads + 1) * sizeof *m->worker;
    m->worker = aligned_alloc(64, PGASI_ALIGN_UP(bytes, 64));
    if (!m->worker)
        return PGAS_ERR_NO_MEMORY;
    memset(m->worker, 0, bytes);
    m->work.run = run_work;
    m->work.arg = &m->worker[0];
    for (int i = 0; i <= m->n_threads; i++)
        m->worker[i].pool.shared = &m->shared_pool; /* workers_fini needs it after any failure */
    for (int i = 0; i <= m->n_threads && status == PGAS_OK; i++)
        status = worker_init(m, i);
    if (status == PGAS_OK)
        status = make_agg(&m->worker[0], false);
    if (status == PGAS_OK)
        status = make_agg(handlers_worker(m), true);
    return status == PGAS_OK ? start_threads(m) : status;
}

void pgasi_mcts_workers_fini(pgas_mcts_t *m)
{
    if (!m->worker)
        return;
    pgasi_mcts_command(m, COMMAND_END);
    for (int i = 1; i < m->n_started; i++)
        pthread_join(m->worker[i].thread, NULL);
    pgas_agg_destroy(m->worker[0].agg);
    pgas_agg_destroy(handlers_worker(m)->agg);
    for (int i = 0; i <= m->n_threads; i++)
        worker_fini(&m->worker[i]);
    free(m->worker);
}
