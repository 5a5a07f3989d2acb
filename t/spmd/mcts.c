/* Tree search: problems and policies.
 *   what:   The search finds the result of a walk over all states: for one, two and three players,
 *           with chance, with priors, by evaluations, and in games without end. Each policy selects
 *           as its formula says. Proofs are true and end a search.
 *   np:     1 2 3 4
 *   nodes:  0 1
 *   source: pgas/mcts.h; a walk over all states; UCB1 and PUCT played by hand
 */
#include "t/spmd/mcts_run.h"

static const digits_t digits_start;
static const noughts_t noughts_start;
static const three_t three_start;
static const dice_t dice_start;
static const wide_t wide_start;
static const walk_t walk_start;

/* ---- the problems alone ---- */

static void nim_alone(void)
{
    pgas_mcts_spec_t spec = nim_spec();
    double values[2];
    bool good = true;
    for (int i = 0; i < 64; i++) {
        nim_t s = nim_start(i % 4, i / 4 % 4, i / 16);
        solve(&spec, &s, values);
        good &= values[0] == nim_is_won(&s) && values[1] == 1 - values[0];
    }
    nim_t a = nim_start(2, 2, 3), b = nim_start(3, 1, 3);
    nim_apply(&b, nim_take(0, 1), NULL);
    nim_apply(&a, nim_take(1, 1), NULL);
    spmd_ok(good && nim_hash(&a, NULL) == nim_hash(&b, NULL) && memcmp(&a, &b, sizeof a) == 0,
            "nim: the player that moves wins unless the heaps cancel; equal states have one hash");
}

static void others_alone(void)
{
    pgas_mcts_spec_t spec = three_spec(), dice = dice_spec(), wide = wide_spec(),
                     digits = digits_spec();
    three_t after[3] = { { 1, { 0 } }, { 1, { 1 } }, { 1, { 2 } } };
    double values[3], mean[3] = { 0 };
    for (int i = 0; i < 27; i++) {
        three_t s = { 3, { (uint8_t)(i / 9), (uint8_t)(i / 3 % 3), (uint8_t)(i % 3) } };
        float ends[3];
        three_outcome(&s, ends, NULL);
        mean[i / 9] += ends[0] / 9;
    }
    solve(&spec, &after[1], values);
    spmd_ok(solve_best(&spec, &three_start) == 1 && fabs(values[0] - 0.9) < 1e-6 &&
                mean[0] > mean[2] && mean[2] > mean[1],
            "three: the best move is worst on average");
    /* By hand: 4 faces, 1 with 1/7, others with 2/7: a throw is worth 19/56, what shows less is
     * thrown again. */
    double again = 19.0 / 56, four = 3.0 / 7 * again + 2.0 / 7 * (3.0 + 4) / 8;
    spmd_ok(fabs(solve_move(&dice, &dice_start, 4) - four) < 1e-6, "dice: %g, as by hand", four);
    spmd_ok(solve_best(&wide, &wide_start) == WIDE_BEST &&
                solve_best(&digits, &digits_start) == digits_best[0],
            "wide, digits: the best first move");
}

static void noughts_alone(void)
{
    pgas_mcts_spec_t spec = noughts_spec();
    noughts_t corner = { { 0001 | 0400, 0020 } }, bad = { { 0001, 0002 } };
    double values[2];
    solve(&spec, &corner, values);
    bool drawn = values[0] == 0.5;
    solve(&spec, &bad, values);
    spmd_ok(drawn && values[0] == 1,
            "noughts: a draw that must be defended, and an opening that loses");
}

/* ---- finding the answer ---- */

static void finds_digits(void)
{
    pgas_mcts_spec_t specs[] = { digits_spec(), estimated_spec() };
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.exploration = 0.8;
    for (int i = 0; i < 2; i++) {
        bool good = run(&specs[i], &opts, &digits_start, 6000) && r.n_line >= DIGITS_N;
        for (int k = 0; k < DIGITS_N; k++)
            good = good && r.line[k] == digits_best[k];
        good = good && proofs_hold(&r, &specs[i], &digits_start) && r.info.value > 0.7 &&
               r.info.value < 0.9 + 1e-6;
        if (!good)
            show("digits");
        spmd_ok(good && (i == 0 ? r.stats.playouts % 16 == 0
                                : r.stats.playouts <= r.stats.rollouts + 1),
                "one player, %s: the line is the best there is",
                i == 0 ? "by playouts" : "by evaluations");
    }
}

static void finds_noughts(void)
{
    pgas_mcts_spec_t spec = noughts_spec();
    noughts_t corner = { { 0001 | 0400, 0020 } };
    bool good = run(&spec, NULL, &corner, 4000) && proofs_hold(&r, &spec, &corner);
    spmd_ok(good && solve_move(&spec, &corner, r.info.best) == 0.5,
            "two players: the draw is held");
    good = run(&spec, NULL, &noughts_start, 4000);
    spmd_ok(good && fabs(r.info.value - 0.5) < 0.25 && r.info.best == 4,
            "from the empty board: the centre, and a draw or so");
}

static void finds_three(void)
{
    pgas_mcts_spec_t spec = three_spec();
    bool good = run(&spec, NULL, &three_start, 6000) && proofs_hold(&r, &spec, &three_start);
    spmd_ok(good && r.info.best == 1 && r.info.value > 0.6,
            "three players: each does the best for itself");
}

static void finds_dice(void)
{
    pgas_mcts_spec_t spec = dice_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.exploration = 0.8;
    opts.phase = 100;
    bool good = run(&spec, &opts, &dice_start, 12000) && proofs_hold(&r, &spec, &dice_start);
    if (!good || r.info.best != 10)
        show("dice");
    spmd_ok(good && r.info.best == solve_best(&spec, &dice_start),
            "chance: the die with the best expectation");
    for (size_t i = 0; i < r.n_children; i++) {
        /* less while bad moves below are still tried */
        double want = solve_move(&spec, &dice_start, r.children[i].move);
        bool near = r.children[i].value > want - 0.12 && r.children[i].value < want + 0.03;
        good = good && (near || r.children[i].visits < 300);
    }
    spmd_ok(good, "and the expectation of each");
    dice_t thrown = { 1, 6, 1, 0, 0 }, to_throw = { 0, 10, 0, 1, 0 };
    good = run(&spec, &opts, &thrown, 2000);
    spmd_ok(good && r.info.best == DICE_AGAIN, "a bad throw is not kept");
    good = run(&spec, &opts, &to_throw, 19000) && proofs_hold(&r, &spec, &to_throw);
    /* five standard deviations, and the rollouts under way */
    for (size_t i = 0; i < r.n_children; i++) {
        double want = r.children[i].move == 1 ? 1000 : 2000;
        good = good && (r.children[i].proven ||
                        fabs((double)r.children[i].visits - want) < 5 * sqrt(want) + 50);
    }
    spmd_ok(good && r.n_children == 10,
            "at a root of chance, moves come as often as their probabilities say");
}

static void finds_wide(void)
{
    pgas_mcts_spec_t spec = wide_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.policy = PGAS_MCTS_PUCT;
    bool good = run(&spec, &opts, &wide_start, 3000);
    spmd_ok(good && r.info.best == WIDE_BEST, "priors: the best of 400 moves in 3000 rollouts");
    spmd_ok(good && r.stats.depth_max == 2 && fabs(child_of(&r, WIDE_BEST)->prior - 0.09) < 0.02,
            "and they are reported");
}

/* ---- games without end ---- */

static void deep_game(void)
{
    pgas_mcts_spec_t spec = chain_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.max_depth = 20;
    opts.exploration = 0.01;
    bool good = run(&spec, &opts, &walk_start, 2000);
    spmd_ok(good && r.info.rollouts == 2000 && r.stats.depth_max <= 20 && r.stats.depth_max > 10 &&
                r.info.best == 0,
            "no node is deeper than max_depth");
    opts.max_depth = 0;
    good = run(&spec, &opts, &walk_start, 2000);
    spmd_ok(good && r.stats.depth_max > 20 && r.stats.depth_max <= 1000, "by default 1000");
}

static void endless_game(void)
{
    pgas_mcts_spec_t spec = ring_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.max_depth = 30;
    bool good = run(&spec, &opts, &walk_start, 2000);
    spmd_ok(good && r.info.rollouts == 2000 && r.info.best == 0 && !r.info.proven,
            "a game without end, as a tree");
    opts.place = PGAS_MCTS_HASH;
    good = run(&spec, &opts, &walk_start, 2000);
    spmd_ok(good && r.info.rollouts == 2000 && !r.info.proven && r.stats.nodes <= RING_PLACES * 31,
            "as a graph with circles: rollouts end, and nodes are few");
}

/* ---- policies ---- */

#define ARMS 32

/* Near each other: with a rank away each would wait for a message. */
static void one_at_a_time(pgas_mcts_opts_t *opts)
{
    opts->in_flight = 1;
    opts->place = PGAS_MCTS_NEAR;
    opts->near_every = 1000000;
}

/* Selects among final states by the formula, as the library says it does; visits of each into
 * n[]. */
static void play_by_hand(const pgas_mcts_opts_t *opts, double c, const double *values,
                         const double *priors, int n_arms, int rollouts, double *n)
{
    double sum = 0;
    memset(n, 0, ARMS * sizeof *n);
    for (int k = 1; k <= rollouts; k++) {
        int best = -1;
        double most = -1, fpu = k > 1 ? sum / (k - 1) : 0.5;
        for (int i = 0; i < n_arms; i++) {
            double q = n[i] > 0 ? values[i] : fpu;
            double score = 1e9;
            if (opts->policy == PGAS_MCTS_PUCT)
                score = q + c * priors[i] * sqrt(k) / (1 + n[i]);
            else if (n[i] > 0)
                score = q + c * sqrt(log(k) / n[i]);
            best = score > most ? i : best;
            most = score > most ? score : most;
        }
        n[best]++;
        sum += values[best];
    }
}

/* One level of moves, one rollout at a time: visits as by hand, but for the order of first tries
 * and a few at the ends. */
static bool selects_as_by_hand(const pgas_mcts_spec_t *spec, pgas_mcts_opts_t *opts, double c,
                               const void *state, int rollouts, double wrong_c)
{
    pgas_mcts_move_t moves[GAMES_MOVES_MAX];
    float priors[GAMES_MOVES_MAX];
    double values[ARMS], ps[ARMS], want[ARMS], off = 0;
    uint32_t n_arms = spec->moves(state, moves, priors, spec->arg);
    one_at_a_time(opts);
    opts->no_proofs = true;
    bool good = run(spec, opts, state, (uint64_t)rollouts);
    for (uint32_t i = 0; i < n_arms; i++) {
        values[i] = solve_move(spec, state, moves[i]);
        ps[i] = priors[i];
    }
    play_by_hand(opts, wrong_c > 0 ? wrong_c : c, values, ps, (int)n_arms, rollouts, want);
    for (uint32_t i = 0; i < n_arms; i++) {
        off += fabs((double)child_of(&r, moves[i])->visits - want[i]);
        if (wrong_c == 0 && fabs((double)child_of(&r, moves[i])->visits - want[i]) > 4) {
            spmd_diag("move %u: %llu visits, by hand %g", (unsigned)moves[i],
                      (unsigned long long)child_of(&r, moves[i])->visits, want[i]);
        }
    }
    return good && off <= 2 * n_arms + 0.02 * rollouts;
}

static void formulas(void)
{
    pgas_mcts_spec_t digits = digits_spec(), wide = wide_spec();
    digits_t last_digit = { 4, { 2, 0, 3, 1, 0 } };
    wide_t second = { 1, WIDE_BEST, 0 };
    pgas_mcts_opts_t ucb = PGAS_MCTS_OPTS_INIT, puct = PGAS_MCTS_OPTS_INIT;
    spmd_ok(selects_as_by_hand(&digits, &ucb, 1, &last_digit, 1500, 0),
            "UCB1 by default: visits as by hand");
    ucb.exploration = 0.1;
    spmd_ok(selects_as_by_hand(&digits, &ucb, 0.1, &last_digit, 1500, 0), "UCB1 with a constant");
    spmd_ok(!selects_as_by_hand(&digits, &ucb, 0.1, &last_digit, 1500, 1),
            "another constant is noticed (broken on purpose)");
    ucb.exploration = -1;
    spmd_ok(selects_as_by_hand(&digits, &ucb, 0, &last_digit, 1500, 0),
            "UCB1 that does not explore");
    puct.policy = PGAS_MCTS_PUCT;
    spmd_ok(selects_as_by_hand(&wide, &puct, 1.5, &second, 1500, 0), "PUCT by default");
    puct.exploration = 0.2;
    spmd_ok(selects_as_by_hand(&wide, &puct, 0.2, &second, 1500, 0), "PUCT with a constant");
}

static void first_tries(void)
{
    pgas_mcts_spec_t spec = wide_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    bool good = run(&spec, &opts, &wide_start, 1200);
    spmd_ok(good && n_tried(&r) == WIDE_MOVES, "UCB1 tries each move");
    one_at_a_time(&opts);
    opts.fpu = 0.01;
    opts.exploration = 0.01;
    good = run(&spec, &opts, &wide_start, 1200);
    spmd_ok(good && n_tried(&r) < WIDE_MOVES / 4, "unless first-play urgency is low: %zu",
            n_tried(&r));
    opts.fpu = 100;
    good = run(&spec, &opts, &wide_start, 500);
    spmd_ok(good && n_tried(&r) == WIDE_MOVES, "and again if it is high");
    opts = (pgas_mcts_opts_t)PGAS_MCTS_OPTS_INIT;
    opts.policy = PGAS_MCTS_PUCT;
    opts.fpu = 100;
    good = run(&spec, &opts, &wide_start, 500);
    spmd_ok(good && n_tried(&r) == WIDE_MOVES, "PUCT, too");
}

/* The moves tried are those with the greatest priors. */
static bool tried_by_prior(void)
{
    double least = 1, most = 0;
    for (size_t i = 0; i < r.n_children; i++) {
        const pgas_mcts_child_t *child = &r.children[i];
        least = child->visits > 0 && child->prior < least ? child->prior : least;
        most = child->visits == 0 && child->prior > most ? child->prior : most;
    }
    return least >= most - 1e-9;
}

static void order_of_tries(void)
{
    pgas_mcts_spec_t spec = wide_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.policy = PGAS_MCTS_PUCT;
    int low = 0;
    bool good = run(&spec, &opts, &wide_start, 100);
    spmd_ok(good && n_tried(&r) > 3 && n_tried(&r) < 100 && tried_by_prior(),
            "PUCT tries moves in the order of their priors");
    opts.policy = PGAS_MCTS_UCB1;
    good = run(&spec, &opts, &wide_start, 100);
    spmd_ok(good && n_tried(&r) > 90 && tried_by_prior(), "UCB1, too");
    spec.has_priors = false;
    good = run(&spec, &opts, &wide_start, 100);
    for (uint32_t i = 0; i < WIDE_MOVES; i++)
        low += i < WIDE_MOVES / 2 && child_of(&r, i)->visits > 0;
    spmd_ok(good && n_tried(&r) > 90 && low > 20 && low < 80, "without priors in random order");
}

static double widened(double c, double power, uint64_t visits)
{
    return ceil(c * pow((double)visits, power));
}

static void widening(void)
{
    pgas_mcts_spec_t spec = wide_spec();
    static const double c[] = { 1, 2, 0.5 }, power[] = { 0, 0.4, 0.7 };
    for (int i = 0; i < 6; i++) {
        pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
        opts.policy = i % 2 ? PGAS_MCTS_PUCT : PGAS_MCTS_UCB1;
        opts.widening = c[i / 2];
        opts.widening_power = power[i / 2];
        if (i % 2 == 0)
            one_at_a_time(&opts);
        double p = power[i / 2] > 0 ? power[i / 2] : 0.5;
        bool good = run(&spec, &opts, &wide_start, 1000);
        size_t n = n_tried(&r);
        good = good && n > 0 && (double)n <= widened(c[i / 2], p, r.info.visits);
        good = good && (i % 2 || (double)n >= widened(c[i / 2], p, r.info.visits - 2) - 1);
        spmd_ok(good && (i % 2 == 0 || tried_by_prior()), "%s widens to %g N^%g: %zu moves",
                i % 2 ? "PUCT" : "UCB1", c[i / 2], p, n);
    }
}

static void pending(void)
{
    pgas_mcts_spec_t spec = three_spec(), wide = wide_spec();
    static const char *names[] = { "unobserved", "virtual loss", "ignored" };
    static result_t alone[3];
    for (int i = 0; i < 3; i++) {
        pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
        opts.pending = (pgas_mcts_pending_t)i;
        opts.virtual_loss = i == 1 ? 2 : 0;
        opts.phase = 50; /* the others must not wait for it */
        bool good = run(&spec, &opts, &three_start, 5000);
        good = good && r.info.best == 1;
        opts.policy = PGAS_MCTS_PUCT;
        opts.in_flight = 6;
        opts.no_proofs = true;
        good = run(&wide, &opts, &wide_start, 2000) && good;
        if (!good || r.info.best != WIDE_BEST)
            show(names[i]);
        spmd_ok(good && r.info.best == WIDE_BEST, "rollouts under way: %s", names[i]);
        one_at_a_time(&opts);
        good = run(&wide, &opts, &wide_start, 500) && good;
        alone[i] = r;
    }
    if (pgas_n_ranks() > 1) {
        spmd_skip(1, "only one rank and one thread make the same tree");
        return;
    }
    spmd_ok(same_children(&alone[0], &alone[1]) && same_children(&alone[0], &alone[2]),
            "of one at a time there is none under way: the same tree");
}

/* ---- proofs ---- */

static void proves_nim(void)
{
    pgas_mcts_spec_t spec = nim_spec();
    static const int heaps[][3] = { { 1, 2, 4 }, { 3, 3, 1 }, { 1, 2, 3 }, { 2, 2, 0 } };
    for (int i = 0; i < 4; i++) {
        nim_t s = nim_start(heaps[i][0], heaps[i][1], heaps[i][2]);
        bool good = run(&spec, NULL, &s, 100000), won = nim_is_won(&s);
        good = good && r.info.proven && r.info.end == PGAS_MCTS_BY_PROOF &&
               r.info.rollouts < 100000 && r.info.value == won;
        good = good && proofs_hold(&r, &spec, &s);
        spmd_ok(good && solve_move(&spec, &s, r.info.best) == won,
                "nim %d %d %d is proven %s after %llu rollouts", heaps[i][0], heaps[i][1],
                heaps[i][2], won ? "won" : "lost", (unsigned long long)r.info.rollouts);
    }
}

static void proves_noughts(void)
{
    pgas_mcts_spec_t spec = noughts_spec();
    noughts_t bad = { { 0001, 0002 } };
    bool good = run(&spec, NULL, &bad, 100000) && proofs_hold(&r, &spec, &bad);
    spmd_ok(good && r.info.proven && r.info.value == 1 && r.info.end == PGAS_MCTS_BY_PROOF,
            "noughts: an opening that loses");
    for (int k = 0; k < 6; k++) {
        noughts_t draw = { { 0001 | 0400, 0020 } };
        good = run(&spec, NULL, &draw, 60u << k) && proofs_hold(&r, &spec, &draw) && good;
    }
    spmd_ok(good, "proofs are true after every number of rollouts");
}

static void without_proofs(void)
{
    pgas_mcts_spec_t spec = nim_spec();
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    nim_t s = nim_start(1, 2, 4);
    opts.no_proofs = true;
    bool good = run(&spec, &opts, &s, 5000);
    spmd_ok(good && r.info.rollouts == 5000 && r.info.end == PGAS_MCTS_BY_ROLLOUTS &&
                !r.info.proven && !r.children[0].proven && solve_move(&spec, &s, r.info.best) == 1,
            "without proofs the search continues, and finds the move too");
    pgas_mcts_t *mcts = search_at(&spec, NULL, &s);
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    budget.rollouts = 5000;
    budget.even_if_proven = true;
    good = search(mcts, &spec, &budget);
    spmd_ok(good && r.info.rollouts == 5000 && r.info.end == PGAS_MCTS_BY_ROLLOUTS &&
                r.info.proven && r.info.value == 1,
            "with even_if_proven, too");
    good = search_for(mcts, &spec, 5000);
    spmd_ok(good && r.info.rollouts == 0 && r.info.end == PGAS_MCTS_BY_PROOF && r.info.proven,
            "a proven root ends the next search at its beginning");
    pgas_mcts_destroy(mcts);
}

static void final_root(void)
{
    pgas_mcts_spec_t spec = nim_spec();
    nim_t over = nim_start(0, 0, 0);
    bool good = run(&spec, NULL, &over, 1000);
    spmd_ok(good && r.info.end == PGAS_MCTS_BY_END && r.info.best == PGAS_MCTS_NO_MOVE &&
                r.info.rollouts == 0 && r.n_children == 0 && r.n_line == 0,
            "at a final root there is nothing to search");
}

/* ---- the judge ---- */

static void judge_can_fail(void)
{
    pgas_mcts_spec_t spec = nim_spec();
    nim_t s = nim_start(3, 4, 5);
    bool good = run(&spec, NULL, &s, 300) && r.n_children > 4;
    result_t broken = r;
    broken.children[0].visits = 0;
    good = good && result_fault(&broken, &spec, &s);
    broken = r;
    broken.info.visits = 1;
    good = good && result_fault(&broken, &spec, &s);
    broken = r;
    broken.line[0] = nim_take(2, 6);
    good = good && result_fault(&broken, &spec, &s);
    broken = r;
    broken.children[1].proven = true;
    broken.children[1].value = 0.5;
    good = good && !proofs_hold(&broken, &spec, &s);
    broken = r;
    broken.open = 1;
    good = good && result_fault(&broken, &spec, &s) && !result_fault(&r, &spec, &s);
    spmd_ok(good, "results that are wrong are noticed (broken on purpose)");
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 54);
    nim_alone();
    others_alone();
    noughts_alone();
    finds_digits();
    finds_noughts();
    finds_three();
    finds_dice();
    finds_wide();
    deep_game();
    endless_game();
    formulas();
    first_tries();
    order_of_tries();
    widening();
    pending();
    proves_nim();
    proves_noughts();
    without_proofs();
    final_root();
    judge_can_fail();
    return job_end();
}
