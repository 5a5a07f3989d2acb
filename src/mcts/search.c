/* Making and ending searches, their threads, and a search's phases. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "mcts/mcts.h"
#include "pgas/coll.h"
#include "pgas/handler.h"

/* ---- options ---- */

static int or_else(int value, int fallback)
{
    return value ? value : fallback;
}

static void fill_in(pgas_mcts_opts_t *o, int n_ranks)
{
    bool puct = o->policy == PGAS_MCTS_PUCT;
    o->seed = o->seed ? o->seed : 1;
    o->n_threads = or_else(o->n_threads, 1);
    o->playouts = or_else(o->playouts, 16);
    o->exploration = o->exploration < 0 ? 0 : o->exploration > 0 ? o->exploration : puct ? 1.5 : 1;
    o->virtual_loss = o->virtual_loss > 0 ? o->virtual_loss : 1;
    o->widening_power = o->widening_power > 0 ? o->widening_power : .5;
    o->near_every = or_else(o->near_every, 16);
    o->phase = or_else(o->phase, 4096);
    o->max_depth = or_else(o->max_depth, 1000);
    o->memory_bytes = o->memory_bytes ? o->memory_bytes : (size_t)1 << 30;
    o->in_flight = or_else(o->in_flight, (o->playouts < 4 ? 96 : 32) * o->n_threads * n_ranks);
    if (o->mode == PGAS_MCTS_ROOT) /* each rank starts its own */
        o->in_flight = PGASI_MAX(o->in_flight / n_ranks, 1);
}

static pgas_status_t check_opts(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *o)
{
    const char *wrong = NULL, *beyond = NULL;
    if ((unsigned)o->policy > PGAS_MCTS_PUCT || (unsigned)o->pending > PGAS_MCTS_IGNORED ||
        (unsigned)o->mode > PGAS_MCTS_LEAF || (unsigned)o->place > PGAS_MCTS_NEAR ||
        (unsigned)o->style > PGAS_AGG_OVERFLOW)
        wrong = "no such policy, pending, mode, place or style";
    else if (o->place == PGAS_MCTS_HASH && !spec->hash)
        wrong = "place by hash needs the problem's hash";
    else if (!(o->fpu >= 0) || !(o->virtual_loss >= 0) || !(o->widening >= 0) ||
             !(o->widening_power >= 0))
        wrong = "fpu, virtual_loss, widening or widening_power is negative, or no number";
    else if (!isfinite(o->fpu + o->virtual_loss + o->widening + o->widening_power + o->exploration))
        wrong = "exploration, fpu, virtual_loss, widening or widening_power is not finite";
    else if (o->n_threads < 0 || o->playouts < 0 || o->near_every < 0 || o->in_flight < 0 ||
             o->phase < 0 || o->max_depth < 0)
        wrong = "a number is negative";
    else if (o->n_threads > PGASI_MCTS_THREADS_MAX || o->playouts > 65535 || o->phase > 4096 ||
             o->max_depth > 65000)
        beyond = "n_threads, playouts, phase or max_depth is above what is stated";
    if (wrong || beyond)
        PGASI_ERROR("mcts", "options: %s", wrong ? wrong : beyond);
    return wrong ? PGAS_ERR_INVALID : beyond ? PGAS_ERR_LIMIT : PGAS_OK;
}

/* The same number for the same description and options. */
static uint64_t checksum(const pgas_mcts_spec_t *s, const pgas_mcts_opts_t *o)
{
    const double all[] = { (double)s->state_bytes,
                           s->n_players,
                           s->moves_max,
                           s->has_priors,
                           s->hash != NULL,
                           s->playout != NULL,
                           s->evaluate != NULL,
                           (double)o->seed,
                           o->n_threads,
                           o->playouts,
                           o->policy,
                           o->exploration,
                           o->fpu,
                           o->pending,
                           o->virtual_loss,
                           o->widening,
                           o->widening_power,
                           o->mode,
                           o->place,
                           o->near_every,
                           o->always_call,
                           o->no_combining,
                           o->no_proofs,
                           o->style,
                           o->in_flight,
                           o->phase,
                           o->max_depth,
                           (double)o->memory_bytes };
    return pgasi_hash_bytes(all, sizeof all, 1);
}

/* The worst status of all ranks, and whether they all have the same number. */
pgas_status_t pgasi_mcts_agree(pgas_status_t mine, uint64_t number)
{
    int64_t words[3] = { mine, (int64_t)(number >> 1), -(int64_t)(number >> 1) }, least[3];
    pgas_status_t status = pgas_allreduce(NULL, words, least, 3, PGAS_INT64, PGAS_MIN);
    if (status != PGAS_OK || least[0] != PGAS_OK)
        return status != PGAS_OK ? status : (pgas_status_t)least[0];
    if (least[1] == -least[2])
        return PGAS_OK;
    PGASI_ERROR("mcts", "ranks gave different descriptions or options");
    return PGAS_ERR_MISMATCH;
}

/* ---- workers ---- */

static pgas_status_t begin_worker(pgas_mcts_t *m, int index)
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
    w->call = malloc(m->state_bytes + 256);
    bool all =
        w->dirty && w->is_dirty && w->combined && w->state && w->moves && w->priors && w->call;
    return all ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static void end_worker(worker_t *w)
{
    pgasi_mcts_free_steps(w);
    pgasi_mcts_pool_fini(&w->pool);
    free(w->dirty);
    free(w->is_dirty);
    free(w->combined);
    free(w->state);
    free(w->moves);
    free(w->priors);
    free(w->call);
}

static pgas_status_t make_agg(worker_t *w, bool for_handlers)
{
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    opts.style = w->mcts->opts.style;
    opts.for_handlers = for_handlers;
    return pgas_agg_create(&opts, &w->agg);
}

/* Spins, yields, then sleeps a little at a time. */
static void be_idle(uint32_t n)
{
    struct timespec nap = { 0, n < 400 ? 20000 : 200000 };
    if (n > 200)
        nanosleep(&nap, NULL);
    else if (n > 20)
        sched_yield();
}

static void work(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    uint32_t idle = 0;
    while (__atomic_load_n(&m->order, __ATOMIC_ACQUIRE) == ORDER_RUN) {
        int n = pgasi_mcts_run(w);
        n += pgas_progress();
        idle = n ? 0 : idle + 1;
        if (idle)
            be_idle(idle);
    }
    while (pgasi_mcts_run(w) > 0) {
    }
}

static void say(pgas_mcts_t *m, int *count, int by)
{
    pthread_mutex_lock(&m->lock);
    *count += by;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

static uint32_t next_order(pgas_mcts_t *m)
{
    pthread_mutex_lock(&m->lock);
    while (m->order == ORDER_PARK)
        pthread_cond_wait(&m->changed, &m->lock);
    uint32_t order = m->order;
    if (order == ORDER_RUN)
        m->n_running++;
    pthread_mutex_unlock(&m->lock);
    return order;
}

static void *thread_main(void *arg)
{
    worker_t *w = arg;
    pgas_mcts_t *m = w->mcts;
    w->status = pgas_thread_attach();
    bool attached = w->status == PGAS_OK;
    if (attached)
        w->status = make_agg(w, false);
    say(m, &m->n_parked, 1);
    while (next_order(m) == ORDER_RUN) {
        work(w);
        pgas_agg_flush_all(w->agg);
        say(m, &m->n_running, -1);
    }
    pgas_agg_destroy(w->agg);
    if (attached)
        pgas_thread_detach();
    return NULL;
}

/* PARK: waits until all have; they progress until then, so nothing that they wait for is held
 * up. */
static void order(pgas_mcts_t *m, order_t order)
{
    pthread_mutex_lock(&m->lock);
    __atomic_store_n(&m->order, order, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&m->changed);
    int running = m->n_running;
    pthread_mutex_unlock(&m->lock);
    while (order == ORDER_PARK && running > 0) {
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

/* ---- making ---- */

static uint64_t table_size(const pgas_mcts_t *m)
{
    uint64_t n = 1024;
    while (n < (UINT64_C(1) << 20) && n * 1024 < m->opts.memory_bytes)
        n *= 2;
    return n;
}

static pgas_status_t begin(pgas_mcts_t *m)
{
    pgas_status_t status = PGAS_OK;
    size_t proof_bytes = PGASI_ALIGN_UP((size_t)m->spec.n_players * sizeof(uint32_t), 8);
    m->state_bytes = PGASI_ALIGN_UP(m->spec.state_bytes, 8);
    m->node_bytes = sizeof(node_t) + m->state_bytes + proof_bytes;
    m->explore = (float)m->opts.exploration;
    m->by_steps = m->opts.place == PGAS_MCTS_HASH && m->opts.mode != PGAS_MCTS_LEAF;
    m->work.run = pgasi_mcts_run_work;
    m->worker =
        aligned_alloc(64, PGASI_ALIGN_UP(((size_t)m->n_threads + 1) * sizeof *m->worker, 64));
    m->root_state = calloc(1, m->state_bytes);
    m->children = malloc(m->spec.moves_max * sizeof *m->children);
    if (m->by_steps) {
        m->table_mask = table_size(m) - 1;
        m->table = calloc(m->table_mask + 1, sizeof *m->table);
    }
    if (!m->worker || !m->root_state || !m->children || (m->by_steps && !m->table))
        return PGAS_ERR_NO_MEMORY;
    memset(m->worker, 0, ((size_t)m->n_threads + 1) * sizeof *m->worker);
    m->work.arg = &m->worker[0];
    for (int i = 0; i <= m->n_threads; i++)
        m->worker[i].pool.rest = &m->rest; /* also of those that are not begun: all are ended */
    for (int i = 0; i <= m->n_threads && status == PGAS_OK; i++)
        status = begin_worker(m, i);
    if (status == PGAS_OK)
        status = make_agg(&m->worker[0], false);
    if (status == PGAS_OK)
        status = make_agg(handlers_worker(m), true);
    return status == PGAS_OK ? start_threads(m) : status;
}

static void end(pgas_mcts_t *m)
{
    if (m->worker) {
        order(m, ORDER_END);
        for (int i = 1; i < m->n_started; i++)
            pthread_join(m->worker[i].thread, NULL);
        pgas_agg_destroy(m->worker[0].agg);
        pgas_agg_destroy(handlers_worker(m)->agg);
        for (int i = 0; i <= m->n_threads; i++)
            end_worker(&m->worker[i]);
    }
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->looking);
    pthread_mutex_destroy(&m->rest.lock);
    pthread_cond_destroy(&m->changed);
    free(m->worker);
    free(m->table);
    free(m->root_state);
    free(m->children);
    free(m);
}

static pgas_mcts_t *allocate(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *opts)
{
    pgas_mcts_t *m = aligned_alloc(64, PGASI_ALIGN_UP(sizeof *m, 64));
    if (!m)
        return NULL;
    memset(m, 0, sizeof *m);
    m->spec = *spec;
    m->opts = *opts;
    m->me = pgas_rank();
    m->n_ranks = pgas_n_ranks();
    m->n_threads = opts->n_threads;
    m->creator = pthread_self();
    m->root_share = SHARE_WHOLE;
    m->info.best = PGAS_MCTS_NO_MOVE;
    m->stats.size = sizeof m->stats;
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->looking, NULL);
    pthread_mutex_init(&m->rest.lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    return m;
}

static int free_id(void)
{
    for (int i = 0; i < PGASI_MCTS_SEARCHES; i++)
        if (!pgasi_mcts_searches[i])
            return i;
    PGASI_ERROR("mcts", "%d searches live already", PGASI_MCTS_SEARCHES);
    return -1;
}

static pgas_status_t check_all(const pgas_mcts_spec_t *spec, pgas_mcts_opts_t *o, int *id_p)
{
    pgas_status_t status = pgasi_mcts_check_spec(spec);
    if (status == PGAS_OK)
        status = check_opts(spec, o);
    if (status == PGAS_OK && (*id_p = free_id()) < 0)
        status = PGAS_ERR_LIMIT;
    if (status == PGAS_OK && pgas_n_ranks() > 65535)
        status = PGAS_ERR_LIMIT;
    if (status == PGAS_OK)
        fill_in(o, pgas_n_ranks());
    return pgasi_mcts_agree(status, status == PGAS_OK ? checksum(spec, o) : 0);
}

pgas_status_t pgas_mcts_create(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *opts,
                               pgas_mcts_t **mcts_p)
{
    static const pgas_mcts_opts_t defaults = PGAS_MCTS_OPTS_INIT;
    if (!pgas_initialized())
        return PGAS_ERR_NOT_INIT;
    int id = -1;
    pgas_mcts_opts_t o = opts && opts->size >= sizeof o ? *opts : defaults;
    pgas_status_t status = PGASI_OPTS_SANE(opts, sizeof o) && mcts_p ? PGAS_OK : PGAS_ERR_INVALID;
    status = pgasi_mcts_agree(status, 0);
    if (status == PGAS_OK)
        status = check_all(spec, &o, &id);
    if (status == PGAS_OK)
        status = pgasi_mcts_register();
    if (status == PGAS_OK)
        status = pgas_handlers_agree();
    if (status != PGAS_OK)
        return status;
    pgas_mcts_t *m = allocate(spec, &o);
    if (m)
        m->id = (uint32_t)id;
    status = pgasi_mcts_agree(m ? begin(m) : PGAS_ERR_NO_MEMORY, 0);
    if (status != PGAS_OK) {
        if (m)
            end(m);
        return status;
    }
    pgasi_mcts_searches[id] = m;
    *mcts_p = m;
    return pgas_barrier(NULL); /* before a call for it comes */
}

static bool is_live(const pgas_mcts_t *m)
{
    for (int i = 0; m && i < PGASI_MCTS_SEARCHES; i++)
        if (pgasi_mcts_searches[i] == m)
            return true;
    return false;
}

pgas_status_t pgasi_mcts_check(const pgas_mcts_t *m)
{
    if (!pgas_initialized())
        return PGAS_ERR_NOT_INIT;
    if (!is_live(m))
        return PGAS_ERR_INVALID;
    /* of its own search's functions, either */
    if (!pthread_equal(m->creator, pthread_self()) || m->begin_ns)
        return PGAS_ERR_CONTEXT;
    return m->broken ? PGAS_ERR_PEER : PGAS_OK;
}

pgas_status_t pgas_mcts_destroy(pgas_mcts_t *m)
{
    if (!m)
        return PGAS_OK;
    pgas_status_t status = pgasi_mcts_check(m);
    if (status == PGAS_OK)
        status = pgas_quiesce(); /* somebody may still look at it */
    else if (status != PGAS_ERR_PEER)
        return status;
    pgasi_mcts_searches[m->id] = NULL;
    end(m);
    return status;
}

/* ---- searching ---- */

static pgas_status_t check_budget(const pgas_mcts_budget_t *b)
{
    bool any = b->rollouts || b->time_us || b->memory_bytes;
    const char *wrong = b->time_us < 0 ? "its time is negative"
                        : !any && !b->until_stop
                            ? "it never ends; until_stop says that this is meant"
                        : any && b->until_stop ? "until_stop together with other limits"
                                               : NULL;
    if (wrong)
        PGASI_ERROR("mcts", "budget of a search: %s", wrong);
    return wrong ? PGAS_ERR_INVALID : PGAS_OK;
}

/* What all ranks need to know to end a phase, summed up. */
typedef struct {
    uint64_t started, completed;
    /* of all threads; of those with the root; how long it took, all ranks */
    uint64_t idle_ns, idle_root_ns, took_ns;
    uint64_t why[PGAS_MCTS_BY_END + 1]; /* ranks that stop for this reason */
} phase_t;
#define PHASE_WORDS (sizeof(phase_t) / sizeof(uint64_t))

static void begin_phase(pgas_mcts_t *m, uint64_t rollouts_left)
{
    uint64_t size = (uint64_t)m->opts.phase * (uint64_t)m->n_threads * (uint64_t)m->n_ranks;
    size = PGASI_MIN(size, rollouts_left);
    if (m->opts.mode == PGAS_MCTS_ROOT) { /* an even share */
        uint64_t n = (uint64_t)m->n_ranks, me = (uint64_t)m->me;
        size = size / n + (me < size % n);
    }
    m->n_phases++;
    m->phase_begin_ns = pgasi_now_ns();
    for (int i = 0; i < m->n_threads; i++)
        __atomic_store_n(&m->worker[i].idle_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&m->to_start, m->has_root ? (int64_t)size : 0, __ATOMIC_RELEASE);
}

/* The root's rank has more to do than others, who would wait for it: its share of new nodes is such
 * that all are idle equally. */
static void share_evenly(pgas_mcts_t *m, const phase_t *sum)
{
    double one = (double)sum->took_ns / m->n_ranks * m->n_threads,
           others = PGASI_MAX(m->n_ranks - 1, 1);
    if (one <= 0)
        return;
    double more =
        ((double)(sum->idle_ns - sum->idle_root_ns) / others - (double)sum->idle_root_ns) / one;
    double share = (double)m->root_share - more * SHARE_WHOLE;
    m->root_share = share < 0 ? 0 : share < SHARE_WHOLE ? (uint32_t)share : SHARE_WHOLE;
}

static pgas_status_t end_phase(pgas_mcts_t *m, phase_t *sum)
{
    union {
        phase_t phase;
        uint64_t word[PHASE_WORDS];
    } mine, all;
    memset(&mine, 0, sizeof mine);
    __atomic_store_n(&m->to_start, 0, __ATOMIC_RELAXED);
    mine.phase.started = m->started;
    mine.phase.completed = m->completed;
    for (int i = 0; i < m->n_threads; i++)
        mine.phase.idle_ns += __atomic_load_n(&m->worker[i].idle_ns, __ATOMIC_RELAXED);
    mine.phase.idle_root_ns = m->has_root ? mine.phase.idle_ns : 0;
    mine.phase.took_ns = pgasi_now_ns() - m->phase_begin_ns;
    uint32_t stopping = __atomic_load_n(&m->stopping, __ATOMIC_RELAXED);
    if (stopping)
        mine.phase.why[stopping - 1]++;
    pgas_status_t status =
        pgas_allreduce(NULL, mine.word, all.word, PHASE_WORDS, PGAS_UINT64, PGAS_SUM);
    if (status == PGAS_OK) {
        *sum = all.phase;
        share_evenly(m, sum);
    }
    m->n_lost = m->started - m->completed; /* they hold no place among those under way */
    return status;
}

static bool is_over(pgas_mcts_t *m, const pgas_mcts_budget_t *b, const phase_t *sum)
{
    if (b->rollouts && sum->started >= b->rollouts) {
        m->info.end = PGAS_MCTS_BY_ROLLOUTS;
        return true;
    }
    for (int why = 0; why <= PGAS_MCTS_BY_END; why++) {
        uint64_t needed =
            why == PGAS_MCTS_BY_TIME && m->opts.mode == PGAS_MCTS_ROOT ? (uint64_t)m->n_ranks : 1;
        if (sum->why[why] >= needed) {
            m->info.end = (pgas_mcts_end_t)why;
            return true;
        }
    }
    return false;
}

static pgas_status_t run_phases(pgas_mcts_t *m, const pgas_mcts_budget_t *b)
{
    phase_t sum = { 0 };
    pgas_status_t status = PGAS_OK;
    do {
        begin_phase(m, b->rollouts ? b->rollouts - sum.started : UINT64_MAX);
        status = pgas_quiesce_work(&m->work);
        if (status == PGAS_OK)
            status = end_phase(m, &sum);
        m->info.rollouts = sum.completed;
        m->info.lost = sum.started - sum.completed;
        m->info.seconds = (double)(pgasi_now_ns() - m->begin_ns) * 1e-9;
        if (status == PGAS_OK && m->me == 0 && b->progress) {
            pgas_mcts_info_t now = m->info;
            if (m->has_root)
                pgasi_mcts_peek(m, &now);
            b->progress(&now, b->progress_arg);
        }
    } while (status == PGAS_OK && !is_over(m, b, &sum));
    return status;
}

/* 0: none. A time that is beyond all clocks is as good as one. */
static uint64_t deadline_of(uint64_t begin_ns, int64_t time_us)
{
    bool never = (uint64_t)time_us > (UINT64_MAX - begin_ns) / 1000;
    return never ? UINT64_MAX : time_us ? begin_ns + (uint64_t)time_us * 1000 : 0;
}

static void begin_search(pgas_mcts_t *m, const pgas_mcts_budget_t *b)
{
    for (int i = 0; i <= m->n_threads; i++)
        memset(&m->worker[i].counts, 0, sizeof m->worker[i].counts);
    m->n_phases = 0;
    /* on all ranks before agree_to_begin ends on any */
    __atomic_fetch_add(&m->n_searches, 1, __ATOMIC_RELAXED);
    m->started = m->completed = m->n_lost = 0;
    m->stopping = 0;
    m->memory_told = false;
    pgasi_mcts_share_room(m);
    /* beyond the latter it never comes */
    m->memory_limit = PGASI_MIN(b->memory_bytes, m->opts.memory_bytes);
    m->even_if_proven = b->even_if_proven;
    m->info.rollouts = m->info.lost = 0;
    m->begin_ns = pgasi_now_ns();
    m->deadline_ns = deadline_of(m->begin_ns, b->time_us);
}

/* Expands the root first, before other nodes use up the memory. */
static bool has_moves(pgas_mcts_t *m)
{
    node_t *root = ref_pointer(m->root);
    if (!m->has_root || (root->flags & (NODE_PROVEN | NODE_FINAL)) ||
        pgasi_mcts_open(&m->worker[0], root))
        return true;
    return pgasi_mcts_moves(&m->worker[0], root->state, false) == 0;
}

/* A stop requested before the search, on any rank, takes effect before the first rollout. Checks
 * the room for the root's moves. */
static pgas_status_t agree_to_begin(pgas_mcts_t *m, bool has_room)
{
    uint32_t mine[2] = { __atomic_load_n(&m->stop, __ATOMIC_RELAXED) != 0, !has_room },
             any[2] = { 0, 0 };
    pgas_status_t status = pgas_allreduce(NULL, mine, any, 2, PGAS_UINT32, PGAS_MAX);
    if (status == PGAS_OK && any[0])
        m->stopping = 1 + PGAS_MCTS_BY_STOP;
    return status == PGAS_OK && any[1] ? PGAS_ERR_NO_MEMORY : status;
}

static pgas_status_t search(pgas_mcts_t *m, const pgas_mcts_budget_t *b)
{
    uint32_t values[PGAS_MCTS_PLAYERS_MAX];
    pgas_status_t status = PGAS_OK;
    begin_search(m, b);
    if (pgasi_mcts_outcome(m, m->root_state, values)) {
        m->info.end = PGAS_MCTS_BY_END;
    } else {
        bool has_room = has_moves(m) || pgasi_mcts_refuse(m) == PGAS_OK;
        order(m, ORDER_RUN);
        status = agree_to_begin(m, has_room); /* and all have begun before a call comes */
        if (status == PGAS_OK)
            status = run_phases(m, b);
        order(m, ORDER_PARK);
    }
    m->info.seconds = (double)(pgasi_now_ns() - m->begin_ns) * 1e-9;
    m->begin_ns = 0;
    __atomic_store_n(&m->stop, 0, __ATOMIC_RELAXED);
    return status == PGAS_OK ? pgasi_mcts_collect(m) : status;
}

pgas_status_t pgas_mcts_search(pgas_mcts_t *m, const pgas_mcts_budget_t *budget,
                               pgas_mcts_info_t *info_p)
{
    pgas_status_t status = pgasi_mcts_check(m);
    if (status != PGAS_OK)
        return status;
    pgas_mcts_budget_t b = PGAS_MCTS_BUDGET_INIT;
    if (m->me == 0 && budget && budget->size >= sizeof b)
        b = *budget;
    status = pgas_broadcast(NULL, &b, sizeof b, 0);
    if (status == PGAS_OK)
        status = m->has_state ? check_budget(&b) : PGAS_ERR_INVALID;
    if (status == PGAS_OK)
        status = search(m, &b);
    m->broken |= status == PGAS_ERR_PEER;
    if (status == PGAS_OK && info_p)
        *info_p = m->info;
    return status;
}

void pgas_mcts_stop(pgas_mcts_t *m)
{
    if (m)
        __atomic_store_n(&m->stop, 1, __ATOMIC_RELAXED);
}

void pgas_mcts_unstop(pgas_mcts_t *m)
{
    if (m)
        __atomic_store_n(&m->stop, 0, __ATOMIC_RELAXED);
}

#define LOOKS_APART_NS UINT64_C(1000000)
#define LOOKS_DOUBLE   8 /* times */

/* A phase ends when no call is under way, and looks are calls: those of a rank keep apart, in one
 * phase more and more, and wait while the root changes, which ends when no call is under way
 * either. */
static void wait_to_look(pgas_mcts_t *m)
{
    uint64_t phase = __atomic_load_n(&m->n_phases, __ATOMIC_RELAXED), now = pgasi_now_ns();
    bool runs = __atomic_load_n(&m->begin_ns, __ATOMIC_RELAXED) != 0;
    if (__atomic_exchange_n(&m->looked_phase, phase, __ATOMIC_RELAXED) != phase || !runs)
        __atomic_store_n(&m->n_looks, 0, __ATOMIC_RELAXED);
    uint64_t until = __atomic_load_n(&m->look_after_ns, __ATOMIC_RELAXED);
    uint32_t idle = 0, n = __atomic_fetch_add(&m->n_looks, 1, __ATOMIC_RELAXED);
    while (n > 0 && now < until && phase == __atomic_load_n(&m->n_phases, __ATOMIC_RELAXED)) {
        pgas_progress();
        be_idle(idle++);
        now = pgasi_now_ns();
    }
    bool locked = false;
    /* not for ever: a handler, which may not ask, may have it below */
    for (idle = 0; !locked && idle < 1000; be_idle(idle++)) {
        pgas_progress();
        locked = pthread_mutex_trylock(&m->looking) == 0;
    }
    if (locked)
        pthread_mutex_unlock(&m->looking);
    __atomic_store_n(&m->look_after_ns, now + (LOOKS_APART_NS << PGASI_MIN(n, LOOKS_DOUBLE)),
                     __ATOMIC_RELAXED);
}

pgas_status_t pgas_mcts_info(pgas_mcts_t *m, pgas_mcts_info_t *info_p)
{
    if (!pgas_initialized())
        return PGAS_ERR_NOT_INIT;
    if (!is_live(m) || !info_p)
        return PGAS_ERR_INVALID;
    ask_t ask = { m->id, 0, 0, 0 };
    look_t look = { 0 };
    pgas_status_t status;
    do {
        wait_to_look(m);
        pgasi_ref_t root = __atomic_load_n(&m->root, __ATOMIC_RELAXED);
        int rank = m->opts.mode == PGAS_MCTS_ROOT ? 0 : ref_rank(root);
        status = pgas_call_return(rank, pgasi_mcts_handlers[HANDLER_LOOK], &ask, sizeof ask, &look,
                                  sizeof look, NULL);
    } while (status == PGAS_OK && look.busy);
    if (status == PGAS_OK)
        *info_p = look.info;
    return status;
}

/* ---- asking ---- */

pgas_status_t pgas_mcts_children(const pgas_mcts_t *m, pgas_mcts_child_t *children, size_t n_max,
                                 size_t *n_p)
{
    if (!is_live(m) || !n_p || (n_max && !children))
        return PGAS_ERR_INVALID;
    if (n_max)
        memcpy(children, m->children, PGASI_MIN(n_max, m->n_children) * sizeof *children);
    *n_p = m->n_children;
    return PGAS_OK;
}

pgas_status_t pgas_mcts_pv(const pgas_mcts_t *m, pgas_mcts_move_t *moves, size_t n_max, size_t *n_p)
{
    if (!is_live(m) || !n_p || (n_max && !moves))
        return PGAS_ERR_INVALID;
    if (n_max)
        memcpy(moves, m->line, PGASI_MIN(n_max, m->n_line) * sizeof *moves);
    *n_p = m->n_line;
    return PGAS_OK;
}

pgas_status_t pgas_mcts_stats(const pgas_mcts_t *m, pgas_mcts_stats_t *stats_p)
{
    if (!is_live(m) || !stats_p || stats_p->size < sizeof *stats_p)
        return PGAS_ERR_INVALID;
    *stats_p = m->stats;
    return PGAS_OK;
}
