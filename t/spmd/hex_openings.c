/* Openings of Hex that win.
 *   what:   From the empty board the search chooses a first move that wins by perfect play. It does
 *           so on 1, 2 and 4 ranks, with 1 and 2 threads, with UCB1 and PUCT, with each way to
 *           count rollouts under way, and with both kinds of aggregators. A result that it calls
 *           proven is true.
 *   np:     1 2 4
 *   source: the table below. Found by a df-pn solver for 2x2 to 6x6, those to 4x4 once more by
 *   plain brute force; this
 *           program repeats 2x2 and 3x3 by brute force
 *
 * In the suite each of the 24 settings searches 3x3 and 4x4 with one seed of its own, 30,000
 * rollouts; on 2 ranks 5x5 follows with two seeds, 200,000 rollouts. `make soak` runs the rest:
 * OPENINGS=product gives each setting 20 seeds, and all must win; OPENINGS=large searches 5x5 and
 * 6x6 with 50 seeds for each policy, 200,000 rollouts, of which 95 in a hundred must win. Searches
 * that ignore what is under way send many rollouts the same way; of them, which are there for
 * comparison, three in four must win (on 4 ranks with 2 threads about one in fifty does not). */
#include "mcts/hex.h"
#include "t/spmd/job.h"

#define SMALL_ROLLOUTS 30000
#define LARGE_ROLLOUTS 200000
#define CELLS_MAX      36
#define N_SETTINGS     24

/* Winning openings of the player that connects top and bottom and begins. By symmetry each list is
 * the same when the board is turned by 180 degrees. */
static const char *const openings[] = {
    "",
    "",
    "b1 a2",
    "c1 a2 b2 c2 a3",
    "d1 c2 b3 a4",
    "e1 b2 c2 d2 e2 b3 c3 d3 a4 b4 c4 d4 a5",
    "f1 b2 c2 d2 e2 f2 a3 b3 c3 d3 e3 f3 a4 b4 c4 d4 e4 f4 a5 b5 c5 d5 e5 a6",
};

typedef struct {
    pgas_mcts_policy_t policy;
    pgas_mcts_pending_t pending;
    pgas_agg_style_t style;
    int n_threads;
} setting_t;

/* The results of some searches, the same on all ranks. */
typedef struct {
    int n, n_won, n_proven; /* searches; those with an opening that wins; those that proved it */
    int n_failed;           /* calls that gave no PGAS_OK, accounts that do not add up */
    int n_untrue;           /* proofs that contradict the table */
    double seconds;
} tally_t;

static uint64_t first_seed;

static setting_t setting_of(int i)
{
    setting_t s = { i % 2 ? PGAS_MCTS_PUCT : PGAS_MCTS_UCB1, (pgas_mcts_pending_t)(i / 2 % 3),
                    i / 6 % 2 ? PGAS_AGG_OVERFLOW : PGAS_AGG_TRAD, 1 + i / 12 };
    return s;
}

static const char *name_of(setting_t s)
{
    static const char *const pending[] = { "unobserved", "virtual loss", "ignored" };
    static char text[100];
    snprintf(text, sizeof text, "%s, %s, %s, %d threads",
             s.policy == PGAS_MCTS_PUCT ? "PUCT" : "UCB1", pending[s.pending],
             s.style == PGAS_AGG_OVERFLOW ? "ovfl" : "trad", s.n_threads);
    return text;
}

static const char *cell_name(pgas_mcts_move_t cell, int size)
{
    static char text[16];
    snprintf(text, sizeof text, "%c%d", (char)('a' + cell % (unsigned)size),
             (int)(cell / (unsigned)size) + 1);
    return text;
}

static bool wins(pgas_mcts_move_t cell, int size)
{
    const char *found =
        cell < (unsigned)(size * size) ? strstr(openings[size], cell_name(cell, size)) : NULL;
    return found;
}

/* @return whether the player to move wins; memo is indexed by the stones as digits of base 3; 0:
 * unknown */
static bool mover_wins(const pgas_hex_t *hex, int8_t *memo)
{
    int index = 0, n = hex->size;
    for (int i = 0; i < n * n; i++)
        index = index * 3 + (hex->stones[0][i / n] >> i % n & 1) +
                2 * (hex->stones[1][i / n] >> i % n & 1);
    for (pgas_mcts_move_t i = 0; memo[index] == 0 && i < (unsigned)(n * n); i++) {
        pgas_hex_t next = *hex;
        if (pgas_hex_play(&next, i) != PGAS_OK)
            continue;
        int winner = pgasi_hex_winner(&next);
        if (winner >= 0 ? winner == hex->turn : !mover_wins(&next, memo))
            memo[index] = 1;
    }
    if (memo[index] == 0)
        memo[index] = -1;
    return memo[index] > 0;
}

static int cells_off_the_table(int size)
{
    static int8_t memo[19683];
    int n_off = 0;
    memset(memo, 0, sizeof memo);
    for (pgas_mcts_move_t i = 0; i < (unsigned)(size * size); i++) {
        pgas_hex_t hex;
        bool good =
            pgas_hex_init(&hex, size, false) == PGAS_OK && pgas_hex_play(&hex, i) == PGAS_OK;
        n_off += !good || wins(i, size) == mover_wins(&hex, memo);
    }
    return n_off;
}

/* A proven child that loses where the table says it wins, or the other way round. */
static int untrue_proofs(const pgas_mcts_t *mcts, int size)
{
    pgas_mcts_child_t child[CELLS_MAX];
    size_t n = 0;
    int n_untrue =
        pgas_mcts_children(mcts, child, CELLS_MAX, &n) != PGAS_OK || n != (size_t)(size * size);
    for (size_t i = 0; i < n && i < CELLS_MAX; i++)
        n_untrue += child[i].proven && (child[i].value != 0 && child[i].value != 1);
    for (size_t i = 0; i < n && i < CELLS_MAX; i++)
        n_untrue += child[i].proven && wins(child[i].move, size) != (child[i].value == 1);
    return n_untrue;
}

static void judge(tally_t *tally, const pgas_mcts_t *mcts, const pgas_mcts_result_t *info, int size,
                  uint64_t rollouts)
{
    bool enough = info->end == PGAS_MCTS_BY_PROOF
                      ? info->proven && info->rollouts <= rollouts
                      : info->end == PGAS_MCTS_BY_ROLLOUTS && info->rollouts == rollouts;
    tally->n_won += wins(info->best, size);
    tally->n_proven += info->proven;
    tally->n_failed += !enough || info->lost != 0 || info->visits != info->rollouts;
    tally->n_untrue += untrue_proofs(mcts, size) + (info->proven && info->value != 1);
    tally->seconds += info->seconds;
}

static void search(tally_t *tally, setting_t s, int size, uint64_t seed, uint64_t rollouts)
{
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_mcts_result_t info = { .size = sizeof info };
    pgas_mcts_t *mcts = NULL;
    pgas_hex_t hex;
    opts.seed = seed;
    opts.policy = s.policy;
    opts.pending = s.pending;
    opts.style = s.style;
    opts.n_threads = s.n_threads;
    budget.rollouts = rollouts;
    pgas_hex_init(&hex, size, false);
    tally->n++;
    if (pgas_mcts_create(pgas_hex_spec(size), &opts, &mcts) != PGAS_OK) {
        tally->n_failed++;
        return;
    }
    if (pgas_mcts_set_state(mcts, &hex) != PGAS_OK ||
        pgas_mcts_search(mcts, &budget, &info) != PGAS_OK)
        tally->n_failed++;
    else
        judge(tally, mcts, &info, size, rollouts);
    if (!wins(info.best, size) && rollouts > 1)
        spmd_diag("%dx%d, seed %llu, %s: opens with %s after %llu rollouts", size, size,
                  (unsigned long long)seed, name_of(s), cell_name(info.best, size),
                  (unsigned long long)info.rollouts);
    tally->n_failed += pgas_mcts_destroy(mcts) != PGAS_OK;
}

static void say(const tally_t *tally, int size)
{
    spmd_diag("%dx%d: %d of %d searches open with a move that wins, %d proved it, %.1f s", size,
              size, tally->n_won, tally->n, tally->n_proven, tally->seconds);
}

/* Three promises. */
static void promise(const tally_t *tally, int size, int want)
{
    say(tally, size);
    spmd_ok(tally->n_won >= want, "%dx%d: %d of %d searches open with a move that wins", size, size,
            want, tally->n);
    spmd_is_int(tally->n_failed, 0, "%dx%d: all rollouts are accounted for", size, size);
    spmd_is_int(tally->n_untrue, 0, "%dx%d: proven values are true", size, size);
}

/* Each setting, with n seeds; in the suite another one for each setting. Four promises a board. */
static void small_boards(int n_seeds)
{
    for (int size = 3; size <= 4; size++) {
        tally_t tally = { 0, 0, 0, 0, 0, 0 }, ignoring = tally;
        for (int i = 0; i < N_SETTINGS * n_seeds; i++) {
            setting_t s = setting_of(i % N_SETTINGS);
            uint64_t seed = first_seed + (uint64_t)(n_seeds > 1 ? i / N_SETTINGS : i);
            search(s.pending == PGAS_MCTS_IGNORED ? &ignoring : &tally, s, size, seed,
                   SMALL_ROLLOUTS);
        }
        promise(&tally, size, tally.n);
        say(&ignoring, size);
        spmd_ok(ignoring.n_won * 4 >= ignoring.n * 3 && ignoring.n_failed == 0 &&
                    ignoring.n_untrue == 0,
                "%dx%d: three in four of %d that ignore rollouts under way", size, size,
                ignoring.n);
    }
}

static void large_board(int size, pgas_mcts_policy_t policy, int n_seeds)
{
    setting_t s = { policy, PGAS_MCTS_UNOBSERVED, PGAS_AGG_TRAD, 1 };
    tally_t tally = { 0, 0, 0, 0, 0, 0 };
    for (int i = 0; i < n_seeds; i++)
        search(&tally, s, size, first_seed + (uint64_t)i, LARGE_ROLLOUTS);
    promise(&tally, size, (n_seeds * 95 + 99) / 100);
}

/* One rollout is not enough to find a win. */
static void the_judge_can_fail(void)
{
    tally_t tally = { 0, 0, 0, 0, 0, 0 };
    setting_t s = setting_of(0);
    pgas_mcts_move_t corner = 0;
    spmd_ok(!wins(corner, 3) && !wins(PGAS_MCTS_NO_MOVE, 3) && wins(4, 3),
            "a corner does not win, the middle does");
    for (uint64_t seed = 1; seed <= 20; seed++)
        search(&tally, s, 4, seed, 1);
    spmd_ok(tally.n_won < tally.n, "a search of one rollout does not always open well");
}

int main(int argc, char **argv)
{
    const char *form = getenv("OPENINGS");
    bool product = form && strcmp(form, "product") == 0, large = form && strcmp(form, "large") == 0;
    bool suite = !product && !large;
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED); /* the plan asks for the number of ranks */
    int n_promises = product ? 8 : 12;
    if (suite && spmd_size() == 2)
        n_promises = 15;
    job_begin(&argc, &argv, n_promises);
    first_seed = spmd_seed(1);
    if (suite) {
        spmd_is_int(cells_off_the_table(2), 0, "2x2: the table says what brute force says");
        spmd_is_int(cells_off_the_table(3), 0, "3x3: the table says what brute force says");
        the_judge_can_fail();
    }
    if (!large)
        small_boards(product ? 20 : 1);
    if (suite && spmd_size() == 2)
        large_board(5, PGAS_MCTS_UCB1, 2);
    for (int i = 0; large && i < 4; i++)
        large_board(5 + i / 2, i % 2 ? PGAS_MCTS_PUCT : PGAS_MCTS_UCB1, 50);
    return job_end();
}
