/* Tree search: corners.
 *   what:   Times and memory beyond all limits; paths through a known graph; a root of chance, and
 *           wrong probabilities; many threads that read results while others search and move; few
 *           rollouts on many roots.
 *   np:     1 2 3 5
 *   nodes:  0 1
 *   source: pgas/mcts.h
 */
#include <math.h>
#include <pthread.h>
#include "t/spmd/mcts_run.h"

/* ---- a graph of n positions that never ends, each with n_moves moves ---- */

typedef struct {
    uint64_t at;
} maze_t;
static struct {
    uint64_t n;
    uint32_t n_moves;
} maze;

static bool maze_outcome(const void *state, float *values, void *arg)
{
    return (void)state, (void)values, (void)arg, false;
}

static uint32_t maze_moves(const void *state, pgas_mcts_move_t *moves, float *priors, void *arg)
{
    (void)state, (void)arg;
    for (uint32_t i = 0; i < maze.n_moves; i++) {
        moves[i] = i;
        if (priors)
            priors[i] = 1 / (float)maze.n_moves;
    }
    return maze.n_moves;
}

static void maze_apply(void *state, pgas_mcts_move_t move, void *arg)
{
    maze_t *s = state;
    (void)arg;
    s->at = (s->at * 7919 + move * UINT64_C(104729) + 1) % maze.n;
}

static uint64_t maze_hash(const void *state, void *arg)
{
    uint64_t x = (((const maze_t *)state)->at + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (void)arg, x ^ x >> 30;
}

static void maze_evaluate(const void *state, float *values, void *arg)
{
    (void)arg;
    values[0] = (float)(((const maze_t *)state)->at % 10) / 10;
}

static pgas_mcts_spec_t maze_spec(uint64_t n, uint32_t n_moves)
{
    pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;
    maze.n = n;
    maze.n_moves = n_moves;
    spec.name = "maze";
    spec.state_bytes = sizeof(maze_t);
    spec.n_players = 1;
    spec.moves_max = n_moves;
    spec.moves = maze_moves;
    spec.apply = maze_apply;
    spec.outcome = maze_outcome;
    spec.evaluate = maze_evaluate;
    spec.hash = maze_hash;
    return spec;
}

static pgas_mcts_t *shared;

static pgas_mcts_t *make(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *opts,
                         const void *state)
{
    pgas_mcts_t *mcts = NULL;
    bool good = pgas_mcts_create(spec, opts, &mcts) == PGAS_OK &&
                pgas_mcts_set_state(mcts, state) == PGAS_OK;
    return good ? mcts : NULL;
}

/* Once all positions are known, each path uses thousands of moves that no rollout has made before.
 * */
static void long_ways(void)
{
    pgas_mcts_spec_t spec = maze_spec(200, 400);
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_mcts_result_t info = { .size = sizeof info };
    maze_t start = { 1 };
    opts.place = PGAS_MCTS_HASH;
    opts.max_depth = pgas_n_ranks() == 1 ? 65000 : 1000;
    opts.in_flight = 4;
    budget.rollouts = 220;
    pgas_mcts_t *mcts = make(&spec, &opts, &start);
    pgas_status_t status = pgas_mcts_search(mcts, &budget, &info);
    spmd_ok(status == PGAS_OK && info.rollouts == 220 && info.lost == 0,
            "ways as long as they may be, in a graph that is known");
    pgas_mcts_destroy(mcts);
}

/* What only all ranks can do together is refused there, where the others are somewhere else. */
static void call_back(const pgas_mcts_result_t *info, void *arg)
{
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    uint64_t wrong, open;
    int *n_p = arg;
    (void)info;
    budget.rollouts = 1;
    *n_p += pgas_mcts_search(shared, &budget, NULL) == PGAS_ERR_CONTEXT;
    *n_p += pgasi_mcts_audit(shared, &wrong, &open) == PGAS_ERR_CONTEXT;
    *n_p += pgas_mcts_advance(shared, 0) == PGAS_ERR_CONTEXT &&
            pgas_mcts_destroy(shared) == PGAS_ERR_CONTEXT;
}

static void calls_back(void)
{
    pgas_mcts_spec_t spec = maze_spec(1000, 10);
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    maze_t start = { 1 };
    int n = 0;
    budget.rollouts = 100;
    budget.progress = call_back;
    budget.progress_arg = &n;
    shared = make(&spec, NULL, &start);
    pgas_status_t status = pgas_mcts_search(shared, &budget, NULL);
    spmd_ok(status == PGAS_OK && n == (pgas_rank() == 0 ? 3 : 0),
            "a search's progress function begins nothing with it");
    pgas_mcts_destroy(shared);
}

static void beyond(void)
{
    pgas_mcts_spec_t spec = maze_spec(1000000, 10);
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_mcts_result_t info = { .size = sizeof info };
    maze_t start = { 1 };
    opts.memory_bytes = 64 << 10;
    opts.phase = 64;
    pgas_mcts_t *mcts = make(&spec, &opts, &start);
    budget.rollouts = 100;
    budget.time_us = INT64_MAX;
    pgas_status_t status = pgas_mcts_search(mcts, &budget, &info);
    spmd_ok(status == PGAS_OK && info.end == PGAS_MCTS_BY_ROLLOUTS && info.rollouts == 100,
            "more time than clocks can count");
    budget = (pgas_mcts_budget_t)PGAS_MCTS_BUDGET_INIT;
    budget.memory_bytes = 1 << 20;
    status = pgas_mcts_search(mcts, &budget, &info);
    spmd_ok(status == PGAS_OK && info.end == PGAS_MCTS_BY_MEMORY,
            "memory that the search does not take ends it too");
    pgas_mcts_destroy(mcts);
}

/* ---- looking ---- */

static bool done;

static void *look_all_the_time(void *arg)
{
    bool *good_p = arg;
    pgas_mcts_result_t info = { .size = sizeof info };
    *good_p = pgas_thread_attach() == PGAS_OK;
    while (*good_p && !__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
        *good_p = pgas_mcts_result(shared, &info) == PGAS_OK && info.visits > 0 &&
                  info.best != PGAS_MCTS_NO_MOVE;
    }
    pgas_thread_detach();
    return NULL;
}

/* A phase ends when no call is under way, and each pgas_mcts_result is a call. */
static void looks(void)
{
    pgas_mcts_spec_t spec = maze_spec(1000000, 3);
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    maze_t start = { 1 };
    pthread_t thread;
    bool good = true, others = true;
    budget.rollouts = 2000;
    opts.always_call = true;
    shared = make(&spec, &opts, &start);
    done = false;
    good = pgas_mcts_search(shared, &budget, NULL) == PGAS_OK;
    pthread_create(&thread, NULL, look_all_the_time, &others);
    for (int i = 0; i < 4 && good; i++) {
        pgas_mcts_child_t best;
        size_t n;
        good = pgas_mcts_search(shared, &budget, NULL) == PGAS_OK &&
               pgas_mcts_children(shared, &best, 1, &n) == PGAS_OK;
        good = good && pgas_mcts_advance(shared, best.move) == PGAS_OK;
    }
    __atomic_store_n(&done, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    spmd_ok(good, "searches and moves end while threads look all the time");
    spmd_ok(others, "and what these see is a root that was searched");
    pgas_barrier(NULL);
    pgas_mcts_destroy(shared);
}

/* ---- many roots ---- */

static void few_rollouts(void)
{
    int n_bad = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        pgas_mcts_spec_t spec = maze_spec(1000, 40);
        pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
        pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
        pgas_mcts_result_t info = { .size = sizeof info };
        pgas_mcts_move_t move = PGAS_MCTS_NO_MOVE;
        maze_t start = { seed };
        size_t n = 0;
        opts.seed = seed;
        opts.mode = PGAS_MCTS_ROOT;
        budget.rollouts = 2 * (uint64_t)pgas_n_ranks() + 1;
        pgas_mcts_t *mcts = make(&spec, &opts, &start);
        n_bad += pgas_mcts_search(mcts, &budget, &info) != PGAS_OK ||
                 pgas_mcts_variation(mcts, &move, 1, &n) != PGAS_OK;
        n_bad += info.best == PGAS_MCTS_NO_MOVE || n == 0 || move != info.best;
        pgas_mcts_destroy(mcts);
    }
    spmd_ok(n_bad == 0,
            "mode ROOT: the variation begins with the best move, also if rank 0 has not tried it");
}

/* ---- chance at the root ---- */

static float chances[3];

static bool die_outcome(const void *state, float *values, void *arg)
{
    static const float value_at[] = { 0, 1, .5f };
    uint64_t at = ((const maze_t *)state)->at;
    (void)arg;
    values[0] = at < 3 ? value_at[at] : .25f;
    values[1] = 1 - values[0];
    return at > 0;
}

static uint32_t die_moves(const void *state, pgas_mcts_move_t *moves, float *priors, void *arg)
{
    (void)state, (void)arg;
    for (uint32_t i = 0; i < 3; i++) {
        moves[i] = i + 1;
        if (priors)
            priors[i] = chances[i];
    }
    return 3;
}

static void die_apply(void *state, pgas_mcts_move_t move, void *arg)
{
    (void)arg;
    ((maze_t *)state)->at = move;
}

static int die_turn(const void *state, void *arg)
{
    (void)arg;
    return ((const maze_t *)state)->at ? 0 : PGAS_MCTS_CHANCE;
}

static bool roll(float a, float b, float c, pgas_mcts_child_t *child, pgas_mcts_result_t *info)
{
    pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    maze_t start = { 0 };
    size_t n = 0;
    chances[0] = a, chances[1] = b, chances[2] = c;
    spec.name = "die";
    spec.state_bytes = sizeof(maze_t);
    spec.n_players = 2;
    spec.moves_max = 3;
    spec.moves = die_moves;
    spec.apply = die_apply;
    spec.outcome = die_outcome;
    spec.turn = die_turn;
    budget.rollouts = 500;
    pgas_mcts_t *mcts = make(&spec, NULL, &start);
    bool good = pgas_mcts_search(mcts, &budget, info) == PGAS_OK;
    good = good && pgas_mcts_children(mcts, child, 3, &n) == PGAS_OK && n == 3;
    pgas_mcts_destroy(mcts);
    return good && info->value >= 0 && info->value <= 1;
}

static void dice(void)
{
    pgas_mcts_result_t info = { .size = sizeof info };
    pgas_mcts_child_t child[3];
    bool good =
        roll(.5f, .25f, .25f, child, &info) && info.proven && fabs(info.value - .6875) < 1e-4;
    int n_bad = 0;
    for (int i = 0; i < 3; i++) {
        double want = .25;
        if (child[i].move <= 2)
            want = child[i].move == 1 ? 1 : .5;
        n_bad += !child[i].proven || fabs(child[i].value - want) > 1e-4;
    }
    spmd_ok(good, "the value of a root of chance is proven");
    spmd_ok(n_bad == 0, "and that of its children, for player 0");
    good = roll(NAN, .5f, .5f, child, &info);
    good = roll(2, 2, 2, child, &info) && good;
    spmd_ok(roll(-1, -1, -1, child, &info) && good, "wrong probabilities are ignored");
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 10);
    long_ways();
    beyond();
    calls_back();
    looks();
    few_rollouts();
    dice();
    return job_end();
}
