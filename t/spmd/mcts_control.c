/* Tree search: budgets, stopping, reading results, moving on.
 *   what:   A search ends at the first of its budgets, exactly if that is a number. Any thread may
 *           stop it or read its results. A move keeps the tree below it and frees the rest on every
 *           rank. A new state frees all.
 *   np:     1 2 3 4
 *   nodes:  0 1
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0
 *   source: pgas/mcts.h */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include "t/spmd/mcts_run.h"
#include "t/spmd/said.h"

static const digits_t digits_start;
static const noughts_t noughts_start;
static const walk_t walk_start;

static pgas_mcts_budget_t no_budget(void)
{
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    return budget;
}

/* True on all ranks if it is on all. */
static bool all(bool here)
{
    return !job_any(!here);
}

static bool same_on_all(uint64_t number)
{
    uint64_t low = 0, high = 0;
    pgas_allreduce(NULL, &number, &low, 1, PGAS_U64, PGAS_MIN);
    pgas_allreduce(NULL, &number, &high, 1, PGAS_U64, PGAS_MAX);
    return low == high;
}

/* ---- budgets ---- */

static void rollouts(void)
{
    static const uint64_t n[] = { 1, 2, 7, 100, 3001 };
    pgas_mcts_spec_t spec = ring_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.phase = 64;
    pgas_mcts_t *mcts = search_at(&spec, &opts, &walk_start);
    bool good = true;
    uint64_t sum = 0;
    for (int i = 0; i < 5; i++) {
        good = search_for(mcts, &spec, n[i]) && good;
        good = good && r.info.rollouts == n[i] && r.info.end == PGAS_MCTS_BY_ROLLOUTS;
        sum += n[i];
        good = good && r.info.visits == sum;
    }
    spmd_ok(good, "exactly this many rollouts; searches continue from the existing tree");
    spmd_ok(same_on_all(r.info.best) && same_on_all(r.info.visits) &&
                same_on_all((uint64_t)(r.info.value * 1e9)) &&
                same_on_all((uint64_t)(r.info.seconds * 1e9)) && same_on_all(r.stats.nodes) &&
                same_on_all(r.stats.selections) && same_on_all(r.children[1].visits),
            "results are the same on all ranks");
    pgas_mcts_destroy(mcts);
}

static void times_and_memory(void)
{
    pgas_mcts_spec_t spec = noughts_spec(), ring = ring_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.phase = 100;
    opts.max_depth = 40;
    pgas_mcts_t *mcts = search_at(&ring, &opts, &walk_start);
    pgas_mcts_budget_t budget = no_budget();
    bool good = true;
    for (budget.time_us = 30000, r.info.rollouts = 0; good && r.info.rollouts == 0;
         budget.time_us *= 2) {
        /* none if another rank began too late */
        good = search(mcts, &ring, &budget) && r.info.end == PGAS_MCTS_BY_TIME;
        good = good && r.info.seconds * 1e6 >= (double)budget.time_us;
    }
    spmd_ok(good && r.info.rollouts > 0, "a time limit");
    budget.time_us = INT64_C(3600000000);
    budget.rollouts = 500;
    spmd_ok(search(mcts, &ring, &budget) && r.info.end == PGAS_MCTS_BY_ROLLOUTS &&
                r.info.rollouts == 500,
            "the first limit counts");
    pgas_mcts_destroy(mcts);
    opts.no_proofs = true;
    mcts = search_at(&spec, &opts, &noughts_start);
    budget = no_budget();
    budget.memory_bytes = 200000;
    budget.rollouts = 1000000;
    good = search(mcts, &spec, &budget);
    spmd_ok(good && r.info.end == PGAS_MCTS_BY_MEMORY && r.stats.bytes_high >= 200000 &&
                r.stats.bytes_high < 2000000,
            "a limit to memory ends the search: %llu bytes",
            (unsigned long long)r.stats.bytes_high);
    pgas_mcts_destroy(mcts);
}

static void memory_option(void)
{
    pgas_mcts_spec_t spec = noughts_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.memory_bytes = 400000;
    opts.no_proofs = true;
    bool good = run(&spec, &opts, &noughts_start, 8000);
    uint64_t nodes = r.stats.nodes, high = r.stats.bytes_high;
    opts.memory_bytes = 0;
    good = good && r.info.rollouts == 8000 && r.info.end == PGAS_MCTS_BY_ROLLOUTS && high <= 400000;
    good = run(&spec, &opts, &noughts_start, 8000) && good;
    spmd_ok(
        good && nodes < r.stats.nodes,
        "within the search's own limit it continues without new nodes: %llu of %llu, %llu bytes",
        (unsigned long long)nodes, (unsigned long long)r.stats.nodes, (unsigned long long)high);
}

/* A few rollouts with so much memory: whether a move is known. Refused: the log says how much is
 * needed. */
static bool works_within(size_t bytes, size_t least)
{
    pgas_mcts_spec_t spec = noughts_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_mcts_result_t info = { .size = sizeof info, .best = PGAS_MCTS_NO_MOVE };
    pgas_mcts_info_t stats = { .size = sizeof stats };
    pgas_mcts_t *mcts = NULL;
    char words[80];
    opts.memory_bytes = bytes;
    opts.n_threads = 2;
    budget.rollouts = 200;
    bool good = pgas_mcts_create(&spec, &opts, &mcts) == PGAS_OK;
    said_begin();
    pgas_status_t status = pgas_mcts_set_state(mcts, &noughts_start);
    if (status == PGAS_OK)
        status = pgas_mcts_search(mcts, &budget, &info);
    snprintf(words, sizeof words, "memory_bytes is %zu: the root and its moves alone take %zu",
             bytes, least);
    bool refused = said(words);
    pgas_mcts_info(mcts, &stats);
    good = good && stats.bytes_high <= bytes &&
           (status == PGAS_OK ? !refused && info.best != PGAS_MCTS_NO_MOVE && info.rollouts == 200
                              : refused && status == PGAS_ERR_NO_MEMORY);
    spmd_ok(all(good), "%zu bytes: %s, %llu are taken", bytes, pgas_status_name(status),
            (unsigned long long)stats.bytes_high);
    pgas_mcts_destroy(mcts);
    return status == PGAS_OK;
}

static void least_memory(void)
{
    enum { LEAST = 512 }; /* of the root, 128, and of nine moves, 384 */
    spmd_ok(!works_within(1, LEAST) && !works_within(130, LEAST) && !works_within(LEAST - 1, LEAST),
            "too little memory is refused");
    spmd_ok(works_within(LEAST, LEAST) && works_within(20000, LEAST),
            "the least that is named is enough, and no limit is passed");
}

/* ---- progress and stops ---- */

static int n_told, n_backwards;
static uint64_t last_told;
static pgas_mcts_t *running;
static volatile bool may_stop;
static int stop_by; /* 1: the callback, 2: a thread, 3: a signal handler */

static void on_signal(int number)
{
    (void)number;
    pgas_mcts_stop(running, true);
}

static void on_progress(const pgas_mcts_result_t *info, void *arg)
{
    n_told++;
    n_backwards += info->rollouts < last_told || arg != &n_told;
    last_told = info->rollouts;
    if (stop_by == 1)
        pgas_mcts_stop(running, true);
    else if (stop_by == 2)
        __atomic_store_n(&may_stop, true, __ATOMIC_RELEASE);
    else if (stop_by == 3)
        raise(SIGUSR1);
}

static void *stopper(void *arg)
{
    while (!__atomic_load_n(&may_stop, __ATOMIC_ACQUIRE))
        sched_yield();
    pgas_mcts_stop(arg, true);
    return NULL;
}

static void progress(void)
{
    pgas_mcts_spec_t spec = ring_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.phase = 50;
    pgas_mcts_t *mcts = search_at(&spec, &opts, &walk_start);
    pgas_mcts_budget_t budget = no_budget();
    budget.rollouts = (uint64_t)(50 * n_ranks * 8);
    budget.progress = on_progress;
    budget.progress_arg = &n_told;
    bool good = search(mcts, &spec, &budget);
    good = good && (me == 0 ? n_told >= 6 && n_backwards == 0 && last_told <= budget.rollouts &&
                                  last_told > 0
                            : n_told == 0);
    spmd_ok(good && r.stats.phases >= 8, "rank 0 gets a report after each phase");
    pgas_mcts_destroy(mcts);
}

static void stops(void)
{
    static const char *names[] = { "", "between phases", "by a thread that is not attached",
                                   "in a signal handler" };
    pgas_mcts_spec_t spec = ring_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.phase = 50;
    opts.n_threads = 2;
    signal(SIGUSR1, on_signal);
    running = search_at(&spec, &opts, &walk_start);
    pgas_mcts_budget_t budget = no_budget();
    budget.until_stop = true;
    budget.progress = on_progress;
    budget.progress_arg = &n_told;
    for (stop_by = 1; stop_by <= 3; stop_by++) {
        pthread_t thread;
        last_told = 0;
        if (stop_by == 2 && me == 0)
            pthread_create(&thread, NULL, stopper, running);
        bool good = search(running, &spec, &budget);
        if (stop_by == 2 && me == 0)
            pthread_join(thread, NULL);
        spmd_ok(good && r.info.end == PGAS_MCTS_BY_STOP && r.info.rollouts > 0, "stopped %s",
                names[stop_by]);
    }
    stop_by = 0;
    pgas_mcts_destroy(running);
}

static void stop_before(void)
{
    pgas_mcts_spec_t spec = ring_spec();
    pgas_mcts_t *mcts = search_at(&spec, NULL, &walk_start);
    pgas_mcts_budget_t budget = no_budget();
    budget.until_stop = true;
    if (me == n_ranks - 1)
        pgas_mcts_stop(mcts, true);
    bool good = search(mcts, &spec, &budget);
    spmd_ok(good && r.info.end == PGAS_MCTS_BY_STOP && r.info.rollouts == 0,
            "a stop before, on the last rank, ends the next search");
    good = search_for(mcts, &spec, 50);
    spmd_ok(good && r.info.end == PGAS_MCTS_BY_ROLLOUTS && r.info.rollouts == 50, "and only that");
    if (me == n_ranks - 1) {
        pgas_mcts_stop(mcts, true);
        pgas_mcts_stop(mcts, false);
    }
    good = search_for(mcts, &spec, 50);
    spmd_ok(good && r.info.end == PGAS_MCTS_BY_ROLLOUTS && r.info.rollouts == 50,
            "a stop taken back does not");
    pgas_mcts_destroy(mcts);
}

/* ---- looking ---- */

typedef struct {
    pgas_mcts_t *mcts;
    int n_looks, n_bad, over;
    uint64_t seen;
} looker_t;

/* Looks until the search has come far enough, then ends it. */
static void *looker(void *arg)
{
    looker_t *l = arg;
    pgas_mcts_result_t info = { .size = sizeof info };
    l->n_bad += pgas_mcts_result(l->mcts, &info) != PGAS_ERR_CONTEXT; /* not attached yet */
    l->n_bad += pgas_thread_attach() != PGAS_OK;
    while (l->seen < 500 && l->n_bad == 0) {
        l->n_bad += pgas_mcts_result(l->mcts, &info) != PGAS_OK || info.visits < l->seen ||
                    !(info.value >= 0 && info.value <= 1);
        l->seen = info.visits;
        l->n_looks++;
    }
    pgas_mcts_stop(l->mcts, true);
    l->n_bad += pgas_thread_detach() != PGAS_OK;
    __atomic_store_n(&l->over, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void looks(void)
{
    pgas_mcts_spec_t spec = ring_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.phase = 100;
    for (int from = 0; from < 2; from++) {
        pgas_mcts_t *mcts = search_at(&spec, &opts, &walk_start);
        pgas_mcts_budget_t budget = no_budget();
        budget.until_stop = true;
        looker_t l = { mcts, 0, 0, me != (from ? n_ranks - 1 : 0), 0 };
        bool looks_here = !l.over;
        pthread_t thread;
        if (looks_here)
            pthread_create(&thread, NULL, looker, &l);
        bool good = search(mcts, &spec, &budget);
        while (!__atomic_load_n(&l.over, __ATOMIC_ACQUIRE))
            pgas_progress();
        if (looks_here) {
            pthread_join(thread, NULL);
            good = good && l.n_looks > 0 && l.seen >= 500;
        }
        spmd_ok(good && l.n_bad == 0 && r.info.end == PGAS_MCTS_BY_STOP && r.info.visits >= 500,
                "another thread of the %s rank looks at a search that runs, and ends it",
                from ? "last" : "first");
        pgas_mcts_result_t info = { .size = sizeof info };
        spmd_ok(pgas_mcts_result(mcts, &info) == PGAS_OK && info.visits == r.info.visits &&
                    info.best == r.info.best && fabs(info.value - r.info.value) < 1e-6,
                "at rest all ranks see the results of the search");
        spmd_barrier();
        pgas_mcts_destroy(mcts);
    }
}

/* ---- moving on ---- */

static uint64_t visits_of_root(pgas_mcts_t *mcts)
{
    pgas_mcts_result_t info = { .size = sizeof info };
    pgas_barrier(NULL);
    bool good = pgas_mcts_result(mcts, &info) == PGAS_OK;
    pgas_barrier(NULL);
    return good ? info.visits : UINT64_MAX;
}

static pgas_mcts_info_t stats_of(const pgas_mcts_t *mcts)
{
    pgas_mcts_info_t stats = { .size = sizeof stats };
    pgas_mcts_info(mcts, &stats);
    return stats;
}

static void advance(void)
{
    pgas_mcts_spec_t spec = noughts_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.no_proofs = true;
    opts.n_threads = 2;
    pgas_mcts_t *mcts = search_at(&spec, &opts, &noughts_start);
    noughts_t state = noughts_start;
    bool good = search_for(mcts, &spec, 4000), kept = true, less = true, goes_on = true;
    for (int i = 0; i < 4; i++) {
        const pgas_mcts_child_t *child = &r.children[i % 2]; /* also one that is not best */
        pgas_mcts_move_t move = child->move;
        uint64_t visits = child->visits, nodes = r.stats.nodes, bytes = r.stats.bytes;
        /* rank 0's move rules */
        good = good && pgas_mcts_advance(mcts, me == 0 ? move : 12345) == PGAS_OK;
        noughts_apply(&state, move, NULL);
        good = good && memcmp(pgas_mcts_state(mcts), &state, sizeof state) == 0;
        kept = kept && visits_of_root(mcts) == visits;
        pgas_mcts_info_t stats = stats_of(mcts);
        less = less && stats.nodes < nodes && stats.bytes < bytes && stats.nodes > 0;
        good = search_for(mcts, &spec, 1000) && good;
        goes_on = goes_on && r.info.visits == visits + 1000;
    }
    spmd_ok(good, "moves lead from state to state, and each search is sound");
    spmd_ok(kept, "the new root has the visits that it had as a child");
    spmd_ok(goes_on, "and the next search adds to them");
    spmd_ok(less, "nodes and bytes of dropped subtrees are gone");
    pgas_mcts_destroy(mcts);
}

/* A tree on each rank: ranks that have not tried the move begin a new tree, the others keep their
 * subtree. */
static void advance_each_tree(void)
{
    pgas_mcts_spec_t spec = noughts_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.no_proofs = true;
    opts.mode = PGAS_MCTS_ROOT;
    pgas_mcts_t *mcts = search_at(&spec, &opts, &noughts_start);
    bool good = search_for(mcts, &spec, 2 * (uint64_t)n_ranks), goes_on = true;
    for (int i = 0; i < 3; i++) {
        uint64_t visits = r.children[0].visits;
        good = good && visits > 0 && pgas_mcts_advance(mcts, r.children[0].move) == PGAS_OK;
        good = search_for(mcts, &spec, 2 * (uint64_t)n_ranks) && good;
        goes_on = goes_on && r.info.visits == visits + 2 * (uint64_t)n_ranks;
    }
    spmd_ok(good && goes_on, "each rank's own tree continues, if it has tried the move");
    pgas_mcts_destroy(mcts);
}

/* A graph, whose nodes may hang at many places. */
static void advance_in_graph(void)
{
    pgas_mcts_spec_t spec = nim_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.no_proofs = true;
    opts.place = PGAS_MCTS_HASH;
    nim_t state = nim_start(4, 5, 6);
    pgas_mcts_t *mcts = search_at(&spec, &opts, &state);
    bool good = search_for(mcts, &spec, 4000) && r.stats.transpositions > 0, less = true;
    float values[2];
    for (int i = 0; i < 20 && !nim_outcome(&state, values, NULL); i++) {
        uint64_t nodes = r.stats.nodes;
        good = pgas_mcts_advance(mcts, r.info.best) == PGAS_OK && good;
        nim_apply(&state, r.info.best, NULL);
        less = less && stats_of(mcts).nodes < nodes;
        good = search_for(mcts, &spec, 500) && good;
    }
    spmd_ok(good && less && nim_outcome(&state, values, NULL) && r.info.end == PGAS_MCTS_BY_END,
            "a game through a graph, to its end");
    pgas_mcts_destroy(mcts);
}

static void advance_refused(void)
{
    pgas_mcts_spec_t spec = nim_spec();
    nim_t state = nim_start(3, 4, 5), over = nim_start(0, 0, 0);
    pgas_mcts_t *mcts = search_at(&spec, NULL, &state);
    bool good = pgas_mcts_advance(mcts, nim_take(0, 4)) == PGAS_ERR_RANGE &&
                pgas_mcts_advance(mcts, PGAS_MCTS_NO_MOVE) == PGAS_ERR_RANGE;
    good = search_for(mcts, &spec, 300) && good;
    good = pgas_mcts_advance(mcts, nim_take(0, 4)) == PGAS_ERR_RANGE && good &&
           visits_of_root(mcts) == 300;
    spmd_ok(good && memcmp(pgas_mcts_state(mcts), &state, sizeof state) == 0,
            "a move that is not legal changes nothing");
    pgas_mcts_set_state(mcts, &over);
    spmd_ok(pgas_mcts_advance(mcts, nim_take(0, 1)) == PGAS_ERR_RANGE,
            "at a final root no move is legal");
    pgas_mcts_destroy(mcts);
}

/* For a search of some hundred rollouts whose best move is checked. While one rank has no
 * processor, rollouts wait at the nodes that it has, and the others of the phase go to worse
 * moves. */
static int few_at_a_time(void)
{
    return n_ranks < 20 ? 20 / n_ranks : 1;
}

static void advance_untried(void)
{
    pgas_mcts_spec_t spec = noughts_spec(), dice = dice_spec();
    noughts_t state = noughts_start;
    dice_t thrown = { 0, 0, 0, 0, 0 };
    pgas_mcts_t *mcts = search_at(&spec, NULL, &state);
    bool good = pgas_mcts_advance(mcts, 4) == PGAS_OK;
    noughts_apply(&state, 4, NULL);
    good = good && memcmp(pgas_mcts_state(mcts), &state, sizeof state) == 0 &&
           visits_of_root(mcts) == 0;
    good = search_for(mcts, &spec, 500) && good && r.info.visits == 500;
    spmd_ok(good, "a move that was never tried, before any search");
    pgas_mcts_destroy(mcts);
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.phase = few_at_a_time();
    mcts = search_at(&dice, &opts, &thrown);
    good = search_for(mcts, &dice, 1000) && pgas_mcts_advance(mcts, 6) == PGAS_OK &&
           pgas_mcts_advance(mcts, 5) == PGAS_OK;
    good = search_for(mcts, &dice, 500) && good && r.info.best == DICE_KEEP;
    spmd_ok(good, "what chance has drawn is a move, too");
    pgas_mcts_destroy(mcts);
}

static void new_state(void)
{
    pgas_mcts_spec_t spec = digits_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.no_proofs = true;
    opts.phase = few_at_a_time();
    digits_t other = { 1, { 0 } };
    pgas_mcts_t *mcts = NULL;
    bool good = pgas_mcts_create(&spec, &opts, &mcts) == PGAS_OK && !pgas_mcts_state(mcts);
    good = good && pgas_mcts_set_state(mcts, me == 0 ? &digits_start : NULL) == PGAS_OK;
    good = good && memcmp(pgas_mcts_state(mcts), &digits_start, sizeof digits_start) == 0;
    spmd_ok(all(good), "rank 0's state rules; before there is none");
    good = search_for(mcts, &spec, 800);
    pgas_mcts_info_t before = r.stats;
    good = pgas_mcts_set_state(mcts, me == 0 ? &other : &digits_start) == PGAS_OK && good;
    good = good && memcmp(pgas_mcts_state(mcts), &other, sizeof other) == 0 &&
           visits_of_root(mcts) == 0;
    pgas_mcts_info_t after = stats_of(mcts);
    good = good && after.nodes <= 1 && after.bytes * 50 < before.bytes;
    good = search_for(mcts, &spec, 400) && good;
    spmd_ok(good && r.info.visits == 400 && r.line[0] == digits_best[1],
            "a new state drops the tree");
    pgas_mcts_destroy(mcts);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 36);
    rollouts();
    times_and_memory();
    memory_option();
    least_memory();
    progress();
    stops();
    stop_before();
    looks();
    advance();
    advance_each_tree();
    advance_in_graph();
    advance_refused();
    advance_untried();
    new_state();
    return job_end();
}
