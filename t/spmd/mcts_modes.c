/* Tree search: trees and threads.
 *   what:   One tree, a tree on each rank, or simulations everywhere; children anywhere, by hash,
 *           or near; by call or by memory; combined or not; gathered or at once; with one to three
 *           threads: every rollout is accounted for, and the answer is the same. The same seed
 *           gives the same tree. Equal states are one node. Many searches exist at the same time.
 *   np:     1 2 3 4
 *   nodes:  0 1
 *   source: pgas/mcts.h
 */
#include "t/spmd/mcts_run.h"
#include "t/spmd/said.h"

static const digits_t digits_start;
static const noughts_t noughts_start;
static const three_t three_start;
static int n_ranks;

/* The answer is checked, so few rollouts are under way at a time: while one rank has no processor,
 * rollouts wait at the nodes that it has, and the other ranks spend the rest of the phase on worse
 * moves. */
static pgas_mcts_opts_t no_proofs(int n_threads)
{
    enum { AT_A_TIME = 100 };
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    opts.no_proofs = true;
    opts.n_threads = n_threads;
    opts.phase = AT_A_TIME / (n_threads * n_ranks);
    return opts;
}

/* ---- the answer under each option ---- */

/* digits and three have one best move each. */
static bool answers(pgas_mcts_opts_t opts, uint64_t rollouts)
{
    pgas_mcts_spec_t digits = digits_spec(), three = three_spec();
    bool good = run(&three, &opts, &three_start, rollouts) && r.info.best == 1;
    good = run(&digits, &opts, &digits_start, rollouts) && good;
    return good && r.info.best == digits_best[0] && r.info.rollouts >= rollouts &&
           r.info.visits == r.info.rollouts;
}

static void threads(void)
{
    for (int n = 1; n <= 3; n++) {
        pgas_mcts_opts_t opts = no_proofs(n);
        bool good = answers(opts, 5000);
        spmd_ok(good && r.info.rollouts == 5000 && r.stats.imbalance >= 1 &&
                    r.stats.imbalance <= n * n_ranks + 1e-6,
                "%d threads a rank: playouts of the busiest are %.2f of the mean", n,
                r.stats.imbalance);
    }
}

static void one_playout(void)
{
    pgas_mcts_opts_t opts = no_proofs(1);
    opts.playouts = 1;
    bool good = answers(opts, 6000) && r.stats.playouts + r.stats.final_states == 6000;
    spmd_ok(good, "one playout a rollout, or none where the game is over");
    opts.playouts = 50;
    good = answers(opts, 4000) && r.stats.playouts == 50 * (4000 - r.stats.final_states);
    spmd_ok(good, "fifty");
    opts.playouts = 0;
    good = answers(opts, 4000) && r.stats.playouts == 16 * (4000 - r.stats.final_states);
    spmd_ok(good, "sixteen by default");
}

static void places(void)
{
    static const char *names[] = { "anywhere", "by hash", "near" };
    pgas_mcts_spec_t nim = nim_spec();
    nim_t start = nim_start(2, 3, 4);
    uint64_t remote[3] = { 0 };
    for (int i = 0; i < 3; i++) {
        pgas_mcts_opts_t opts = no_proofs(2);
        opts.place = (pgas_mcts_place_t)i;
        bool good = run(&nim, &opts, &start, 6000) && solve_move(&nim, &start, r.info.best) == 1;
        remote[i] = r.stats.remote;
        good = good && (n_ranks > 1) == (remote[i] > 0) &&
               (n_ranks > 1) == (r.stats.reports_remote > 0);
        spmd_ok(good && (i == PGAS_MCTS_HASH) == (r.stats.transpositions > 0), "children live %s",
                names[i]);
    }
    pgas_mcts_opts_t opts = no_proofs(1);
    opts.place = PGAS_MCTS_NEAR;
    opts.near_every = 1;
    bool good = run(&nim, &opts, &start, 6000);
    spmd_ok(good && (n_ranks == 1 || (remote[PGAS_MCTS_NEAR] < remote[PGAS_MCTS_RANDOM] &&
                                      r.stats.remote > remote[PGAS_MCTS_NEAR])),
            "near goes over ranks less often than anywhere, and as often as near_every says");
}

static void modes(void)
{
    static const char *names[] = { "one tree", "a tree on each rank", "simulations on each rank" };
    for (int i = 0; i < 3; i++) {
        for (int n = 1; n <= 2; n++) {
            pgas_mcts_opts_t opts = no_proofs(n);
            opts.mode = (pgas_mcts_mode_t)i;
            bool good =
                answers(opts, 6000) &&
                r.info.rollouts <=
                    6000 + (i == PGAS_MCTS_LEAF ? 24u * 2 * (unsigned)(n_ranks * n_ranks) : 0);
            good = good && (i == PGAS_MCTS_TREE || r.stats.remote == 0);
            spmd_ok(good, "%s, %d threads: %llu rollouts", names[i], n,
                    (unsigned long long)r.info.rollouts);
        }
    }
}

static void always_call(void)
{
    static const pgas_agg_style_t styles[] = { PGAS_AGG_TRAD, PGAS_AGG_OVERFLOW };
    for (int i = 0; i < 8; i++) {
        pgas_mcts_opts_t opts = no_proofs(2);
        opts.style = styles[i % 2];
        opts.always_call = i / 2 % 2;
        opts.no_combining = i / 4;
        bool good = answers(opts, 4000);
        good = good && (opts.always_call ? r.stats.reports_remote > 0
                                         : n_ranks > 1 || r.stats.reports_remote == 0);
        spmd_ok(good && (!opts.no_combining || r.stats.combined == 0), "%s%s%s",
                opts.style == PGAS_AGG_TRAD ? "gathered" : "at once",
                opts.always_call ? ", always by call" : "",
                opts.no_combining ? ", each report by itself" : "");
    }
}

static void few_at_a_time(void)
{
    pgas_mcts_spec_t spec = digits_spec();
    pgas_mcts_opts_t opts = no_proofs(1);
    opts.in_flight = 1;
    opts.phase = 1;
    bool good = answers(opts, 1000);
    spmd_ok(good && r.stats.phases >= 1000 / (unsigned)n_ranks && r.stats.deferred == 0,
            "one rollout at a time, a phase each");
    opts.in_flight = 3;
    opts.phase = 100;
    spmd_ok(answers(opts, 2000), "three");
    opts.in_flight = 5000;
    opts.phase = 0;
    good = run(&spec, &opts, &digits_start, 20000);
    spmd_ok(good && r.info.rollouts == 20000, "thousands");
}

/* Larger than a call: the bytes after the digits must arrive too. */
static bool large_outcome(const void *state, float *values, void *arg)
{
    const unsigned char *bytes = state;
    bool whole = bytes[PGAS_MCTS_STATE_MAX - 1] == 77 && bytes[PGAS_MCTS_STATE_MAX / 2] == 78;
    bool over = digits_outcome(state, values, arg);
    values[0] = whole ? values[0] : 0;
    return over || !whole;
}

static void large_states(void)
{
    static unsigned char state[PGAS_MCTS_STATE_MAX];
    pgas_mcts_spec_t spec = digits_spec();
    pgas_mcts_opts_t opts = no_proofs(1);
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_mcts_result_t info = { .size = sizeof info };
    uint64_t wrong, open;
    spec.state_bytes = sizeof state;
    spec.outcome = large_outcome;
    state[PGAS_MCTS_STATE_MAX - 1] = 77;
    state[PGAS_MCTS_STATE_MAX / 2] = 78;
    opts.in_flight = 8;
    opts.playouts = 1;
    opts.always_call = true;
    budget.rollouts = 600;
    pgas_mcts_t *mcts = search_at(&spec, &opts, state);
    bool good = pgas_mcts_search(mcts, &budget, &info) == PGAS_OK &&
                pgasi_mcts_audit(mcts, &wrong, &open) == PGAS_OK;
    spmd_ok(good && info.rollouts == 600 && wrong == 0 && open == 0 && info.value > 0.45,
            "states of 64 KiB: %g", info.value);
    pgas_mcts_destroy(mcts);
}

/* ---- counters ---- */

static void counts(void)
{
    pgas_mcts_spec_t spec = noughts_spec();
    pgas_mcts_opts_t opts = no_proofs(2);
    bool good = run(&spec, &opts, &noughts_start, 5000);
    pgas_mcts_info_t *s = &r.stats;
    spmd_ok(good && s->nodes <= 5001 && s->nodes > 1000 && s->nodes_expanded > 9 &&
                s->children >= s->nodes - 1 && s->depth_max <= 9 && s->depth_mean > 1 &&
                s->bytes > 16 * s->nodes && s->bytes_high <= s->bytes &&
                s->bytes_high * (unsigned)n_ranks >= s->bytes,
            "%llu nodes of %llu bytes, as deep as %llu", (unsigned long long)s->nodes,
            (unsigned long long)s->bytes, (unsigned long long)s->depth_max);
    spmd_ok(s->selections >= s->nodes - 1 && s->reports <= s->selections &&
                s->reports + s->combined >= s->nodes - 1 && s->transpositions == 0 &&
                s->final_states > 0 && s->final_states < 5000,
            "%llu steps down, %llu up", (unsigned long long)s->selections,
            (unsigned long long)s->reports);
    good = s->phases >= 1 && s->seconds > 0 &&
           fabs(s->seconds - r.info.seconds) < 0.1 * s->seconds + 0.01;
    double per_thread = 5000 / s->seconds / (2 * n_ranks);
    spmd_ok(good && fabs(s->rollouts_per_second_thread / per_thread - 1) < 0.01 &&
                fabs(s->playouts_per_second_thread / s->rollouts_per_second_thread * 5000 /
                         (double)s->playouts -
                     1) < 0.01,
            "rates are counts by time");
    opts.no_combining = true;
    good = run(&spec, &opts, &noughts_start, 5000);
    spmd_ok(good && s->reports == s->selections && s->combined == 0,
            "each report separately: as many steps up as down");
}

/* ---- the same tree ---- */

static bool same_results(const result_t *a, const result_t *b)
{
    return same_children(a, b) && memcmp(a->line, b->line, sizeof a->line) == 0 &&
           a->stats.nodes == b->stats.nodes && a->stats.selections == b->stats.selections &&
           a->info.value == b->info.value;
}

static void same_seed(void)
{
    pgas_mcts_spec_t spec = noughts_spec(), dice = dice_spec();
    static const dice_t dice_start;
    static result_t first, second;
    if (n_ranks > 1) {
        spmd_skip(4, "only one rank and one thread promise this");
        return;
    }
    for (int i = 0; i < 3; i++) {
        pgas_mcts_opts_t opts = no_proofs(1);
        opts.place = i == 1 ? PGAS_MCTS_HASH : PGAS_MCTS_RANDOM;
        bool chance = i == 2, good = run(chance ? &dice : &spec, &opts,
                                         chance ? (const void *)&dice_start : &noughts_start, 3000);
        first = r;
        good = run(chance ? &dice : &spec, &opts,
                   chance ? (const void *)&dice_start : &noughts_start, 3000) &&
               good;
        static const char *const words[] = { "a tree", "a graph", "chance" };
        spmd_ok(good && same_results(&first, &r), "the same seed, the same tree: %s",
                words[i < 2 ? i : 2]);
    }
    pgas_mcts_opts_t opts = no_proofs(1);
    bool good = run(&spec, &opts, &noughts_start, 3000);
    first = r;
    opts.seed = 2;
    good = run(&spec, &opts, &noughts_start, 3000) && good;
    second = r;
    opts.seed = 1; /* the default */
    good = run(&spec, &opts, &noughts_start, 3000) && good;
    spmd_ok(good && same_results(&first, &r) && !same_results(&first, &second),
            "another seed, another tree");
}

/* ---- transpositions ---- */

static void one_node_a_state(void)
{
    pgas_mcts_spec_t spec = nim_spec();
    nim_t start = nim_start(2, 3, 4);
    pgas_mcts_opts_t opts = no_proofs(2);
    bool good = run(&spec, &opts, &start, 6000);
    uint64_t as_tree = r.stats.nodes;
    opts.place = PGAS_MCTS_HASH;
    good = run(&spec, &opts, &start, 6000) && good;
    spmd_ok(good && r.stats.nodes <= 3 * 4 * 5 * 2 && as_tree > r.stats.nodes &&
                r.stats.transpositions > 10,
            "%llu nodes of a graph, %llu of a tree", (unsigned long long)r.stats.nodes,
            (unsigned long long)as_tree);
    opts.no_proofs = false;
    good = run(&spec, &opts, &start, 6000);
    spmd_ok(good && r.info.proven && r.info.value == 1 && r.info.end == PGAS_MCTS_BY_PROOF &&
                proofs_hold(&r, &spec, &start),
            "proofs go through a graph, too");
}

static void proofs_everywhere(void)
{
    pgas_mcts_spec_t spec = nim_spec();
    nim_t start = nim_start(2, 3, 4);
    for (int i = 0; i < 12; i++) {
        pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
        opts.mode = (pgas_mcts_mode_t)(i / 4);
        opts.n_threads = 1 + i % 2;
        opts.always_call = i / 2 % 2;
        opts.seed = (uint64_t)i + 1;
        bool good = run(&spec, &opts, &start, 200000);
        spmd_ok(good && r.info.proven && r.info.value == 1 && proofs_hold(&r, &spec, &start),
                "a proof, mode %d, %d threads%s", i / 4, opts.n_threads,
                opts.always_call ? ", always by call" : "");
    }
}

/* Some ranks have the proof of their tree before others, some budgets end before any has. */
static void proof_of_one_rank(void)
{
    pgas_mcts_spec_t spec = nim_spec();
    nim_t start = nim_start(2, 3, 4);
    bool good = true;
    for (uint64_t i = 1; i <= 40; i++) {
        pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
        opts.mode = PGAS_MCTS_ROOT;
        opts.seed = i;
        good = run(&spec, &opts, &start, 100 * (uint64_t)n_ranks + 20 * i) &&
               proofs_hold(&r, &spec, &start) && good;
        good = good && r.info.proven == (r.info.end == PGAS_MCTS_BY_PROOF);
    }
    spmd_ok(good, "one rank's proof is a proof and ends the search");
}

/* ---- many searches ---- */

static void side_by_side(void)
{
    pgas_mcts_spec_t nim = nim_spec(), digits = digits_spec();
    nim_t start = nim_start(4, 5, 6);
    pgas_mcts_opts_t opts = no_proofs(2);
    pgas_mcts_t *a = search_at(&nim, &opts, &start), *b = search_at(&digits, NULL, &digits_start);
    bool good = true;
    for (int i = 1; i <= 4; i++) {
        good = search_for(a, &nim, 700) && r.info.visits == (uint64_t)i * 700 && good;
        good = search_for(b, &digits, 400) && good;
    }
    good = pgas_mcts_destroy(a) == PGAS_OK && good;
    good = search_for(b, &digits, 2000) && good;
    spmd_ok(good && r.info.best == digits_best[0],
            "two searches take turns, one outlives the other");
    pgas_mcts_destroy(b);
}

static void sixty_four(void)
{
    pgas_mcts_spec_t spec = digits_spec();
    pgas_mcts_t *all[65] = { NULL };
    bool good = true;
    for (int i = 0; i < 64; i++)
        all[i] = search_at(&spec, NULL, &digits_start);
    said_begin();
    pgas_status_t status = pgas_mcts_create(&spec, NULL, &all[64]);
    bool has_said = said("64 searches");
    spmd_ok(status == PGAS_ERR_LIMIT && !all[64] && has_said, "64 searches, and not one more");
    for (int i = 63; i >= 0; i -= 21)
        good = search_for(all[i], &spec, 200) && good;
    for (int i = 0; i < 64; i++)
        good = pgas_mcts_destroy(all[i]) == PGAS_OK && good;
    spmd_ok(good && run(&spec, NULL, &digits_start, 200), "each works; places are used again");
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 54);
    n_ranks = pgas_n_ranks();
    threads();
    one_playout();
    places();
    modes();
    always_call();
    few_at_a_time();
    large_states();
    counts();
    same_seed();
    one_node_a_state();
    proofs_everywhere();
    proof_of_one_rank();
    side_by_side();
    sixty_four();
    return job_end();
}
