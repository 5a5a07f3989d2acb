/* A search for a test: created, run, judged and destroyed by one call; the results are in `r`.
 *
 *   pgas_mcts_spec_t spec = nim_spec(); nim_t start = nim_start(1, 2, 4); spmd_ok(run(&spec, NULL,
 *   &start, 5000) && r.info.proven, "...");
 *
 * run() is false, and says why, unless everything agrees that must agree after each search:
 * result_fault() has the list. */
#ifndef T_SPMD_MCTS_RUN_H
#define T_SPMD_MCTS_RUN_H

#include "mcts/audit.h"
#include "t/spmd/job.h"
#include "t/spmd/mcts_games.h"

typedef struct {
    pgas_mcts_result_t info;
    pgas_mcts_info_t stats;
    pgas_mcts_child_t children[GAMES_MOVES_MAX];
    pgas_mcts_move_t line[PGAS_MCTS_VARIATION_MAX];
    size_t n_children, n_line;
    uint64_t wrong, open;
} result_t;

static result_t r; /* of the last search */

/* ---- what holds after each search ---- */

static inline bool move_is_legal(const pgas_mcts_spec_t *spec, const void *state,
                                 pgas_mcts_move_t move)
{
    pgas_mcts_move_t moves[GAMES_MOVES_MAX];
    uint32_t n = spec->moves(state, moves, NULL, spec->arg);
    bool found = false;
    for (uint32_t i = 0; i < n; i++)
        found |= moves[i] == move;
    return found;
}

/* The order of children: proven wins first, proven losses last; between them by visits, then by
 * value. */
static inline int child_class(const pgas_mcts_child_t *child)
{
    if (!child->proven)
        return 1;
    if (child->value >= 1)
        return 2;
    return child->value <= 0 ? 0 : 1;
}

static inline bool child_is_before(const pgas_mcts_child_t *a, const pgas_mcts_child_t *b)
{
    if (child_class(a) != child_class(b))
        return child_class(a) > child_class(b);
    return a->visits != b->visits ? a->visits > b->visits : a->value > b->value;
}

static inline const char *children_fault(const result_t *at, const pgas_mcts_spec_t *spec,
                                         const void *state)
{
    pgas_mcts_move_t moves[GAMES_MOVES_MAX];
    uint64_t sum = 0;
    double priors = 0, most = -1;
    if (at->n_children == 0 && at->info.visits <= 1)
        return NULL; /* the root itself was all there was to try */
    if (at->n_children != spec->moves(state, moves, NULL, spec->arg))
        return "children and legal moves differ in number";
    for (size_t i = 0; i < at->n_children; i++) {
        const pgas_mcts_child_t *child = &at->children[i];
        sum += child->visits;
        priors += child->prior;
        most = child->proven && child->value > most ? child->value : most;
        for (size_t j = 0; j < i; j++)
            if (at->children[j].move == child->move)
                return "a move is listed twice";
        if (!move_is_legal(spec, state, child->move))
            return "a child is no legal move";
        if (!(child->value >= 0 && child->value <= 1))
            return "a value is not in [0, 1]";
        if (i > 1 && child_is_before(child, child - 1))
            return "children are not in order";
    }
    if (at->children[0].proven
            ? at->children[0].value < most
            : at->n_children > 1 && child_is_before(at->children + 1, at->children)) {
        /* of proven ones that with the greatest value is first */
        return "another child is better than the first";
    }
    if (spec->has_priors && fabs(priors - 1) > 1e-3)
        return "the priors of the children are not 1 together";
    return sum > at->info.visits ? "more visits of children than of the root" : NULL;
}

static inline const char *line_fault(const result_t *at, const pgas_mcts_spec_t *spec,
                                     const void *state)
{
    uint64_t walk[2]; /* all states here are small */
    float values[PGAS_MCTS_PLAYERS_MAX];
    memcpy(walk, state, spec->state_bytes);
    for (size_t i = 0; i < at->n_line; i++) {
        if (spec->outcome(walk, values, spec->arg) || !move_is_legal(spec, walk, at->line[i]))
            return "the principal variation has a move that is not legal";
        spec->apply(walk, at->line[i], spec->arg);
    }
    if (at->info.best != PGAS_MCTS_NO_MOVE && (at->n_line == 0 || at->line[0] != at->info.best))
        return "the principal variation does not begin with the best move";
    return NULL;
}

static inline const char *stats_fault(const result_t *at)
{
    const pgas_mcts_info_t *s = &at->stats;
    if (s->rollouts != at->info.rollouts || s->lost != at->info.lost || s->lost != 0)
        return "rollouts are lost, or counted differently";
    if (s->nodes < 1 || s->bytes < s->nodes || s->nodes_expanded > s->nodes)
        return "nodes and bytes make no sense";
    if (s->depth_mean > (double)s->depth_max || (s->depth_max > 0 && s->children == 0))
        return "depths make no sense";
    if (s->remote > s->selections || s->deferred > s->selections)
        return "selections make no sense";
    if (s->reports_remote > s->reports)
        return "reports make no sense";
    return s->rollouts > 0 &&
                   (s->phases < 1 || !(s->seconds > 0) || !(s->rollouts_per_second_thread > 0))
               ? "no time passed"
               : NULL;
}

/* @return what is wrong, or NULL */
static inline const char *result_fault(const result_t *at, const pgas_mcts_spec_t *spec,
                                       const void *state)
{
    float values[PGAS_MCTS_PLAYERS_MAX];
    const char *fault = stats_fault(at);
    /* the value may be the expectation */
    bool chance = spec->turn && spec->turn(state, spec->arg) == PGAS_MCTS_CHANCE;
    if (at->wrong != 0 || at->open != 0)
        return "the audit finds wrong or open accounts";
    if (!fault && !spec->outcome(state, values, spec->arg)) {
        fault = children_fault(at, spec, state);
        if (!fault && at->n_children > 0 &&
            (at->children[0].visits == 0
                 ? at->info.best != PGAS_MCTS_NO_MOVE
                 : at->children[0].move != at->info.best ||
                       (!chance && fabs(at->children[0].value - at->info.value) > 5e-5)))
            fault = "the best move is not the first child";
    }
    return fault ? fault : line_fault(at, spec, state);
}

/* Proven children have their true value. */
static inline bool proofs_hold(const result_t *at, const pgas_mcts_spec_t *spec, const void *state)
{
    bool good = true;
    for (size_t i = 0; i < at->n_children; i++) {
        const pgas_mcts_child_t *child = &at->children[i];
        good &= !child->proven || fabs(child->value - solve_move(spec, state, child->move)) < 5e-5;
    }
    double values[PGAS_MCTS_PLAYERS_MAX];
    int turn = spec->turn ? spec->turn(state, spec->arg) : 0;
    solve(spec, state, values);
    return good && (!at->info.proven ||
                    fabs(at->info.value - values[turn == PGAS_MCTS_CHANCE ? 0 : turn]) < 5e-5);
}

static inline const pgas_mcts_child_t *child_of(const result_t *at, pgas_mcts_move_t move)
{
    static const pgas_mcts_child_t none;
    for (size_t i = 0; i < at->n_children; i++)
        if (at->children[i].move == move)
            return &at->children[i];
    return &none;
}

static inline bool same_children(const result_t *a, const result_t *b)
{
    bool same = a->n_children == b->n_children;
    for (size_t i = 0; same && i < a->n_children; i++) {
        const pgas_mcts_child_t *x = &a->children[i], *y = &b->children[i];
        same = x->move == y->move && x->visits == y->visits && x->value == y->value &&
               x->proven == y->proven;
    }
    return same;
}

static inline size_t n_tried(const result_t *at)
{
    size_t n = 0;
    for (size_t i = 0; i < at->n_children; i++)
        n += at->children[i].visits > 0;
    return n;
}

/* Prints the results on rank 0, when a test fails. */
static inline void show(const char *what)
{
    for (size_t i = 0; pgas_rank() == 0 && i < r.n_children && i < 8; i++) {
        const pgas_mcts_child_t *child = &r.children[i];
        printf("# %s: move %u, %llu visits, value %g%s, prior %g\n", what, (unsigned)child->move,
               (unsigned long long)child->visits, child->value, child->proven ? " (proven)" : "",
               child->prior);
    }
}

/* ---- searching ---- */

static inline bool said_bad(const char *what)
{
    printf("# rank %d: %s: best %u value %g visits %llu rollouts %llu lost %llu end %d wrong %llu "
           "open %llu nodes %llu\n",
           pgas_rank(), what, (unsigned)r.info.best, r.info.value,
           (unsigned long long)r.info.visits, (unsigned long long)r.info.rollouts,
           (unsigned long long)r.info.lost, (int)r.info.end, (unsigned long long)r.wrong,
           (unsigned long long)r.open, (unsigned long long)r.stats.nodes);
    return false;
}

/* Searches and judges. */
static inline bool search(pgas_mcts_t *mcts, const pgas_mcts_spec_t *spec,
                          const pgas_mcts_budget_t *budget)
{
    memset(&r, 0, sizeof r);
    r.info.size = sizeof r.info;
    r.stats.size = sizeof r.stats;
    pgas_status_t status = pgas_mcts_search(mcts, budget, &r.info);
    if (status != PGAS_OK)
        return said_bad(pgas_status_text(status));
    if (pgas_mcts_info(mcts, &r.stats) != PGAS_OK ||
        pgas_mcts_children(mcts, r.children, GAMES_MOVES_MAX, &r.n_children) != PGAS_OK ||
        pgas_mcts_variation(mcts, r.line, PGAS_MCTS_VARIATION_MAX, &r.n_line) != PGAS_OK ||
        pgasi_mcts_audit(mcts, &r.wrong, &r.open) != PGAS_OK)
        return said_bad("asking failed");
    const char *fault = result_fault(&r, spec, pgas_mcts_state(mcts));
    return fault ? said_bad(fault) : true;
}

static inline bool search_for(pgas_mcts_t *mcts, const pgas_mcts_spec_t *spec, uint64_t rollouts)
{
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    budget.rollouts = rollouts;
    return search(mcts, spec, &budget);
}

/* A search at a state. The program ends when it cannot be created. */
static inline pgas_mcts_t *search_at(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *opts,
                                     const void *state)
{
    pgas_mcts_t *mcts = NULL;
    pgas_status_t status = pgas_mcts_create(spec, opts, &mcts);
    if (status == PGAS_OK)
        status = pgas_mcts_set_state(mcts, state);
    if (status != PGAS_OK) {
        printf("Bail out! no search of %s: %s\n", spec->name, pgas_status_text(status));
        exit(99);
    }
    return mcts;
}

static inline bool run(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *opts,
                       const void *state, uint64_t rollouts)
{
    pgas_mcts_t *mcts = search_at(spec, opts, state);
    bool good = search_for(mcts, spec, rollouts);
    return pgas_mcts_destroy(mcts) == PGAS_OK && good;
}

#endif
