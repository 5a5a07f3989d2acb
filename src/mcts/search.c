/* Searching: the phases of a search, from its budget to its results.
 *
 * A phase starts a number of rollouts and ends by quiescence. Then the ranks agree on whether the
 * search is over. Between phases no rollout is under way. */
#include "base/clock.h"
#include "base/info_fill.h"
#include "mcts/mcts.h"
#include "pgas/coll.h"

/* ---- budgets ---- */

static pgas_status_t check_budget(const pgas_mcts_budget_t *b)
{
    bool any = b->rollouts || b->time_us || b->memory_bytes;
    const char *wrong = NULL;
    if (b->time_us < 0)
        wrong = "its time is negative";
    else if (!any && !b->until_stop)
        wrong = "it has no limit; set until_stop if this is intended";
    else if (any && b->until_stop)
        wrong = "until_stop excludes other limits";
    if (wrong)
        PGASI_ERROR("mcts", "budget of a search: %s", wrong);
    return wrong ? PGAS_ERR_INVALID : PGAS_OK;
}

/* 0: no deadline. A deadline beyond the range of the clock is the last moment of the clock. */
static uint64_t deadline_of(uint64_t begin_ns, int64_t time_us)
{
    if ((uint64_t)time_us > (UINT64_MAX - begin_ns) / 1000)
        return UINT64_MAX;
    return time_us ? begin_ns + (uint64_t)time_us * 1000 : 0;
}

/* ---- phases ---- */

/* Counts that all ranks need at the end of a phase, summed over the ranks. */
typedef struct {
    uint64_t started, completed;
    uint64_t idle_ns;      /* of all threads */
    uint64_t idle_root_ns; /* of the threads of the root's rank */
    uint64_t took_ns;
    uint64_t why[PGAS_MCTS_BY_END + 1]; /* the number of ranks that stop for this reason */
} phase_t;
#define PHASE_WORDS (sizeof(phase_t) / sizeof(uint64_t))

static void begin_phase(pgas_mcts_t *m, uint64_t rollouts_left)
{
    uint64_t size = (uint64_t)m->opts.phase * (uint64_t)m->n_threads * (uint64_t)m->n_ranks;
    size = PGASI_MIN(size, rollouts_left);
    if (m->opts.mode == PGAS_MCTS_ROOT) { /* this rank starts an even share */
        uint64_t n = (uint64_t)m->n_ranks, me = (uint64_t)m->me;
        size = size / n + (me < size % n);
    }
    m->n_phases++;
    m->phase_begin_ns = pgasi_now_ns();
    for (int i = 0; i < m->n_threads; i++)
        __atomic_store_n(&m->worker[i].idle_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&m->to_start, m->has_root ? (int64_t)size : 0, __ATOMIC_RELEASE);
}

/* The root's rank has more to do than the others, so that they would wait for it. Its share of new
 * nodes is adjusted until all ranks are equally idle. */
static void share_evenly(pgas_mcts_t *m, const phase_t *sum)
{
    double one = (double)sum->took_ns / m->n_ranks * m->n_threads,
           others = PGASI_MAX(m->n_ranks - 1, 1);
    if (one <= 0)
        return;
    double more =
        ((double)(sum->idle_ns - sum->idle_root_ns) / others - (double)sum->idle_root_ns) / one;
    double share = (double)m->root_share - more * PGASI_MCTS_SHARE_WHOLE;
    m->root_share = (uint32_t)PGASI_MIN(PGASI_MAX(share, 0), PGASI_MCTS_SHARE_WHOLE);
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
        pgas_allreduce(NULL, mine.word, all.word, PHASE_WORDS, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK) {
        *sum = all.phase;
        share_evenly(m, sum);
    }
    m->n_lost = m->started - m->completed; /* may_start does not count them as under way */
    return status;
}

static bool is_over(pgas_mcts_t *m, const pgas_mcts_budget_t *b, const phase_t *sum)
{
    if (b->rollouts && sum->started >= b->rollouts) {
        m->result.end = PGAS_MCTS_BY_ROLLOUTS;
        return true;
    }
    for (int why = 0; why <= PGAS_MCTS_BY_END; why++) {
        uint64_t needed =
            why == PGAS_MCTS_BY_TIME && m->opts.mode == PGAS_MCTS_ROOT ? (uint64_t)m->n_ranks : 1;
        if (sum->why[why] >= needed) {
            m->result.end = (pgas_mcts_end_t)why;
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
        m->result.rollouts = sum.completed;
        m->result.lost = sum.started - sum.completed;
        m->result.seconds = (double)(pgasi_now_ns() - m->begin_ns) * 1e-9;
        if (status == PGAS_OK && m->me == 0 && b->progress) {
            pgas_mcts_result_t now = m->result;
            if (m->has_root)
                pgasi_mcts_result_here(m, &now);
            b->progress(&now, b->progress_arg);
        }
    } while (status == PGAS_OK && !is_over(m, b, &sum));
    return status;
}

/* ---- searches ---- */

static void begin_search(pgas_mcts_t *m, const pgas_mcts_budget_t *b)
{
    for (int i = 0; i <= m->n_threads; i++)
        memset(&m->worker[i].counts, 0, sizeof m->worker[i].counts);
    m->n_phases = 0;
    /* all ranks have done this before agree_to_begin returns on any rank */
    __atomic_fetch_add(&m->n_searches, 1, __ATOMIC_RELAXED);
    m->started = m->completed = m->n_lost = 0;
    m->stopping = 0;
    m->memory_reported = false;
    pgasi_mcts_share_room(m);
    m->memory_limit = PGASI_MIN(b->memory_bytes, m->opts.memory_bytes);
    m->even_if_proven = b->even_if_proven;
    m->result.rollouts = m->result.lost = 0;
    m->begin_ns = pgasi_now_ns();
    m->deadline_ns = deadline_of(m->begin_ns, b->time_us);
}

/* Expands the root before other nodes can use up the memory. Returns false if there is no room. */
static bool has_moves(pgas_mcts_t *m)
{
    node_t *root = id_pointer(m->root);
    if (!m->has_root || (root->flags & (NODE_PROVEN | NODE_FINAL)) ||
        pgasi_mcts_open(&m->worker[0], root))
        return true;
    return pgasi_mcts_moves(&m->worker[0], root->state, false) == 0;
}

/* Collective. A stop that any rank requested before the search takes effect before the first
 * rollout. Returns PGAS_ERR_NO_MEMORY if the root's rank has no room for its moves. */
static pgas_status_t agree_to_begin(pgas_mcts_t *m, bool has_room)
{
    uint32_t mine[2] = { __atomic_load_n(&m->stop, __ATOMIC_RELAXED) != 0, !has_room },
             any[2] = { 0, 0 };
    pgas_status_t status = pgas_allreduce(NULL, mine, any, 2, PGAS_U32, PGAS_MAX);
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
        m->result.end = PGAS_MCTS_BY_END;
    } else {
        bool has_room = has_moves(m) || pgasi_mcts_refuse(m) == PGAS_OK;
        pgasi_mcts_command(m, COMMAND_RUN);
        status = agree_to_begin(m, has_room); /* all ranks have begun before a message comes */
        if (status == PGAS_OK)
            status = run_phases(m, b);
        pgasi_mcts_command(m, COMMAND_PARK);
    }
    m->result.seconds = (double)(pgasi_now_ns() - m->begin_ns) * 1e-9;
    m->begin_ns = 0;
    __atomic_store_n(&m->stop, 0, __ATOMIC_RELAXED);
    return status == PGAS_OK ? pgasi_mcts_collect(m) : status;
}

pgas_status_t pgas_mcts_search(pgas_mcts_t *m, const pgas_mcts_budget_t *budget,
                               pgas_mcts_result_t *result_p)
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
    if (status == PGAS_OK && result_p)
        status = pgasi_info_fill(result_p, &m->result, sizeof m->result);
    return status;
}

void pgas_mcts_stop(pgas_mcts_t *m, bool stop)
{
    if (m)
        __atomic_store_n(&m->stop, stop, __ATOMIC_RELAXED);
}
