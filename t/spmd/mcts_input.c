/* Tree search: bad input.
 *   what:   Descriptions, options and budgets that are wrong are refused with the documented
 *           status, the same on all ranks, and with a line that names the error. No function works
 *           before init or after finalize. None of this loses memory.
 *   np:     1 2 3 4
 *   nodes:  0 1
 *   source: pgas/mcts.h
 */
#include <pthread.h>
#include "t/spmd/mcts_run.h"
#include "t/spmd/said.h"

static const digits_t digits_start;

static bool bad(bool good, const char *what)
{
    if (!good)
        printf("# rank %d, not as promised: %s\n", spmd_rank(), what);
    return !good;
}

/* ---- without the library ---- */

static void without_library(const char *when)
{
    pgas_mcts_spec_t spec = digits_spec();
    pgas_mcts_t *mcts = NULL;
    spmd_ok(pgas_mcts_create(&spec, NULL, &mcts) == PGAS_ERR_NOT_INIT && !mcts,
            "%s there is no search", when);
}

/* ---- descriptions ---- */

static int refused_spec(const pgas_mcts_spec_t *spec, pgas_status_t want, const char *what)
{
    pgas_mcts_t *mcts = NULL;
    pgas_status_t status = pgas_mcts_create(spec, NULL, &mcts);
    int n_bad = bad(status == want && !mcts, what);
    if (mcts)
        pgas_mcts_destroy(mcts);
    return n_bad;
}

#define SPEC(change, want)                             \
    do {                                               \
        pgas_mcts_spec_t spec = noughts_spec();        \
        change;                                        \
        n_bad += refused_spec(&spec, (want), #change); \
    } while (0)

static void descriptions(void)
{
    int n_bad = 0;
    said_begin();
    SPEC(spec.size = 0, PGAS_ERR_INVALID);
    SPEC(spec.moves = NULL, PGAS_ERR_INVALID);
    SPEC(spec.apply = NULL, PGAS_ERR_INVALID);
    SPEC(spec.outcome = NULL, PGAS_ERR_INVALID);
    SPEC(spec.turn = NULL, PGAS_ERR_INVALID); /* two players, and always the first moves? */
    SPEC(spec.state_bytes = 0, PGAS_ERR_INVALID);
    SPEC(spec.n_players = 0, PGAS_ERR_INVALID);
    SPEC(spec.n_players = -1, PGAS_ERR_INVALID);
    SPEC(spec.moves_max = 0, PGAS_ERR_INVALID);
    SPEC(spec.state_bytes = PGAS_MCTS_STATE_MAX + 1, PGAS_ERR_LIMIT);
    SPEC(spec.state_bytes = SIZE_MAX, PGAS_ERR_LIMIT);
    SPEC(spec.n_players = PGAS_MCTS_PLAYERS_MAX + 1, PGAS_ERR_LIMIT);
    SPEC(spec.moves_max = PGAS_MCTS_MOVES_MAX + 1, PGAS_ERR_LIMIT);
    SPEC(spec.moves_max = UINT32_MAX, PGAS_ERR_LIMIT);
    n_bad += refused_spec(NULL, PGAS_ERR_INVALID, "no description");
    pgas_mcts_spec_t good = noughts_spec();
    n_bad +=
        bad(pgas_mcts_create(&good, NULL, NULL) == PGAS_ERR_INVALID, "no place for the search");
    bool has_said = said("mcts");
    spmd_ok(n_bad == 0, "descriptions that make no sense");
    spmd_ok(has_said, "and the log says so");
}

/* ---- options ---- */

static int refused_opts(const pgas_mcts_opts_t *opts, pgas_status_t want, const char *what)
{
    pgas_mcts_spec_t spec = digits_spec();
    pgas_mcts_t *mcts = NULL;
    pgas_status_t status = pgas_mcts_create(&spec, opts, &mcts);
    int n_bad = bad(status == want && !mcts, what);
    if (mcts)
        pgas_mcts_destroy(mcts);
    return n_bad;
}

#define OPTS(change, want)                             \
    do {                                               \
        pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;   \
        change;                                        \
        n_bad += refused_opts(&opts, (want), #change); \
    } while (0)

static void options(void)
{
    int n_bad = 0;
    said_begin();
    OPTS(opts.size = 1, PGAS_ERR_INVALID);
    OPTS(opts.n_threads = -1, PGAS_ERR_INVALID);
    OPTS(opts.n_threads = 257, PGAS_ERR_LIMIT);
    OPTS(opts.playouts = -1, PGAS_ERR_INVALID);
    OPTS(opts.playouts = 65536, PGAS_ERR_LIMIT);
    OPTS(opts.policy = (pgas_mcts_policy_t)2, PGAS_ERR_INVALID);
    OPTS(opts.exploration = NAN, PGAS_ERR_INVALID);
    OPTS(opts.exploration = INFINITY, PGAS_ERR_INVALID);
    OPTS(opts.virtual_loss = INFINITY, PGAS_ERR_INVALID);
    OPTS(opts.max_depth = 65001, PGAS_ERR_LIMIT);
    OPTS(opts.fpu = -1, PGAS_ERR_INVALID);
    OPTS(opts.fpu = NAN, PGAS_ERR_INVALID);
    OPTS(opts.pending = (pgas_mcts_pending_t)3, PGAS_ERR_INVALID);
    OPTS(opts.virtual_loss = -1, PGAS_ERR_INVALID);
    OPTS(opts.widening = -1, PGAS_ERR_INVALID);
    OPTS(opts.widening_power = -1, PGAS_ERR_INVALID);
    OPTS(opts.mode = (pgas_mcts_mode_t)3, PGAS_ERR_INVALID);
    OPTS(opts.place = (pgas_mcts_place_t)3, PGAS_ERR_INVALID);
    OPTS(opts.place = PGAS_MCTS_HASH, PGAS_ERR_INVALID); /* digits have no hash */
    OPTS(opts.near_every = -1, PGAS_ERR_INVALID);
    OPTS(opts.style = (pgas_agg_style_t)7, PGAS_ERR_INVALID);
    OPTS(opts.in_flight = -1, PGAS_ERR_INVALID);
    OPTS(opts.phase = -1, PGAS_ERR_INVALID);
    OPTS(opts.phase = 4097, PGAS_ERR_LIMIT);
    OPTS(opts.max_depth = -1, PGAS_ERR_INVALID);
    bool has_said = said("mcts");
    spmd_ok(n_bad == 0, "options that make no sense");
    spmd_ok(has_said, "and the log says so");
}

static void ranks_disagree(void)
{
    pgas_mcts_spec_t spec = digits_spec();
    pgas_mcts_t *mcts = NULL;
    if (n_ranks == 1) {
        spmd_skip(4, "one rank agrees with itself");
        return;
    }
    bool last = me == n_ranks - 1;
    for (int i = 0; i < 4; i++) {
        pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
        pgas_mcts_spec_t mine = spec;
        opts.seed = i == 0 && last ? 5 : 0;
        opts.n_threads = i == 1 && last ? 2 : 0;
        mine.state_bytes += i == 2 && last;
        said_begin();
        if (i == 3) { /* bad on one rank only: the same status on all */
            pgas_status_t status = pgas_mcts_create(last ? NULL : &mine, NULL, &mcts);
            bool has_said = said("mcts");
            spmd_ok(status == PGAS_ERR_INVALID && !mcts && has_said,
                    "bad on one rank, refused on all");
        } else {
            pgas_status_t status = pgas_mcts_create(&mine, &opts, &mcts);
            bool has_said = said("mcts");
            static const char *const words[] = { "seed", "threads", "size" };
            spmd_ok(status == PGAS_ERR_MISMATCH && !mcts && has_said, "ranks disagree: %s",
                    words[i < 2 ? i : 2]);
        }
    }
}

/* ---- budgets and calls ---- */

#define BUDGET(change)                                                                           \
    do {                                                                                         \
        pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;                                       \
        pgas_mcts_result_t info = { .size = sizeof info, .visits = 77 };                         \
        change;                                                                                  \
        n_bad +=                                                                                 \
            bad(pgas_mcts_search(mcts, &budget, &info) == PGAS_ERR_INVALID && info.visits == 77, \
                #change);                                                                        \
    } while (0)

static void budgets(void)
{
    pgas_mcts_spec_t spec = digits_spec();
    pgas_mcts_t *mcts = search_at(&spec, NULL, &digits_start);
    int n_bad = 0;
    said_begin();
    BUDGET((void)0); /* no limit at all */
    BUDGET(budget.size = 0; budget.rollouts = 5);
    BUDGET(budget.time_us = -1);
    BUDGET(budget.rollouts = 5; budget.time_us = -1);
    BUDGET(budget.until_stop = true; budget.rollouts = 5);
    BUDGET(budget.until_stop = true; budget.time_us = 5);
    BUDGET(budget.until_stop = true; budget.memory_bytes = 5000);
    BUDGET(budget.even_if_proven = true);
    n_bad += bad(pgas_mcts_search(mcts, NULL, NULL) == PGAS_ERR_INVALID, "no budget");
    bool has_said = said("mcts");
    spmd_ok(n_bad == 0, "budgets that contradict themselves");
    spmd_ok(has_said, "and the log says so");
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    budget.rollouts = 300;
    spmd_ok(pgas_mcts_search(mcts, &budget, NULL) == PGAS_OK && search_for(mcts, &spec, 300) &&
                r.info.visits == 600,
            "after that it works as before");
    pgas_mcts_destroy(mcts);
}

static void without_state(void)
{
    pgas_mcts_spec_t spec = digits_spec();
    pgas_mcts_t *mcts = NULL;
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_mcts_result_t info = { .size = sizeof info };
    pgas_mcts_child_t child;
    pgas_mcts_move_t move;
    size_t n;
    uint64_t wrong, open;
    int n_bad = bad(pgas_mcts_create(&spec, NULL, &mcts) == PGAS_OK, "create");
    budget.rollouts = 5;
    said_begin();
    n_bad += bad(!pgas_mcts_state(mcts), "state");
    n_bad += bad(pgas_mcts_search(mcts, &budget, &info) == PGAS_ERR_INVALID, "search");
    n_bad += bad(pgas_mcts_advance(mcts, 0) == PGAS_ERR_INVALID, "advance");
    n_bad += bad(pgas_mcts_set_state(mcts, NULL) == PGAS_ERR_INVALID, "set_state of nothing");
    n_bad += bad(pgas_mcts_children(mcts, &child, 1, NULL) == PGAS_ERR_INVALID, "children");
    n_bad += bad(pgas_mcts_variation(mcts, &move, 1, NULL) == PGAS_ERR_INVALID, "line");
    n_bad += bad(pgas_mcts_info(mcts, NULL) == PGAS_ERR_INVALID, "stats");
    n_bad += bad(pgas_mcts_result(mcts, NULL) == PGAS_ERR_INVALID, "look");
    said_end();
    spmd_ok(n_bad == 0, "without a state, or a place for the answer");
    n_bad = bad(pgas_mcts_set_state(mcts, &digits_start) == PGAS_OK, "set_state");
    n_bad += bad(pgas_mcts_search(mcts, &budget, &info) == PGAS_OK, "search");
    n_bad += bad(pgas_mcts_children(mcts, NULL, 0, &n) == PGAS_OK && n == DIGITS_BASE,
                 "how many children");
    n_bad += bad(pgas_mcts_children(mcts, &child, 1, &n) == PGAS_OK && n == DIGITS_BASE &&
                     child.move == info.best,
                 "the first child");
    n_bad += bad(pgas_mcts_variation(mcts, NULL, 0, &n) == PGAS_OK && n > 0, "how long a line");
    n_bad += bad(pgas_mcts_variation(mcts, &move, 1, &n) == PGAS_OK && move == info.best,
                 "the first move");
    n_bad +=
        bad(pgasi_mcts_audit(mcts, &wrong, &open) == PGAS_OK && wrong == 0 && open == 0, "audit");
    spmd_ok(n_bad == 0, "answers that are cut short");
    pgas_mcts_destroy(mcts);
}

static void no_search(void)
{
    pgas_mcts_result_t info = { .size = sizeof info };
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_mcts_info_t stats = { .size = sizeof stats };
    pgas_mcts_move_t move;
    uint64_t wrong, open;
    size_t n;
    budget.rollouts = 5;
    said_begin();
    int n_bad = bad(pgas_mcts_destroy(NULL) == PGAS_OK, "destroy");
    n_bad += bad(!pgas_mcts_state(NULL), "state");
    n_bad += bad(pgas_mcts_set_state(NULL, &digits_start) == PGAS_ERR_INVALID, "set_state");
    n_bad += bad(pgas_mcts_search(NULL, &budget, &info) == PGAS_ERR_INVALID, "search");
    n_bad += bad(pgas_mcts_advance(NULL, 0) == PGAS_ERR_INVALID, "advance");
    n_bad += bad(pgas_mcts_result(NULL, &info) == PGAS_ERR_INVALID, "look");
    n_bad += bad(pgas_mcts_children(NULL, NULL, 0, &n) == PGAS_ERR_INVALID, "children");
    n_bad += bad(pgas_mcts_variation(NULL, &move, 1, &n) == PGAS_ERR_INVALID, "line");
    n_bad += bad(pgas_mcts_info(NULL, &stats) == PGAS_ERR_INVALID, "stats");
    n_bad += bad(pgasi_mcts_audit(NULL, &wrong, &open) == PGAS_ERR_INVALID, "audit");
    pgas_mcts_stop(NULL, true);
    pgas_mcts_stop(NULL, false);
    said_end();
    spmd_ok(n_bad == 0, "no search is refused, destroying nothing is not");
}

/* ---- allowed callers ---- */

static pgas_mcts_t *shared;

static void *stranger(void *arg)
{
    int *n_bad_p = arg;
    pgas_mcts_t *mcts = NULL;
    pgas_mcts_spec_t spec = digits_spec();
    pgas_mcts_result_t info = { .size = sizeof info };
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    budget.rollouts = 5;
    *n_bad_p += bad(pgas_mcts_create(&spec, NULL, &mcts) == PGAS_ERR_CONTEXT && !mcts,
                    "create by a thread that is not attached");
    *n_bad_p += bad(pgas_mcts_search(shared, &budget, &info) == PGAS_ERR_CONTEXT,
                    "search by a thread that is not attached");
    *n_bad_p += bad(pgas_mcts_result(shared, &info) == PGAS_ERR_CONTEXT,
                    "look by a thread that is not attached");
    return NULL;
}

static void strangers(void)
{
    pgas_mcts_spec_t spec = digits_spec();
    pthread_t thread;
    int n_bad = 0;
    shared = search_at(&spec, NULL, &digits_start);
    said_begin();
    pthread_create(&thread, NULL, stranger, &n_bad);
    pthread_join(thread, NULL);
    said_end();
    spmd_ok(n_bad == 0 && search_for(shared, &spec, 100),
            "threads that are not attached are refused");
    pgas_mcts_destroy(shared);
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(19);
    without_library("before init");
    job_start(NULL);
    descriptions();
    options();
    ranks_disagree();
    budgets();
    without_state();
    no_search();
    strangers();
    job_stop();
    without_library("after finalize");
    return spmd_end();
}
