/* what: Playouts of Hex end as random games that are played move by move, with the same player to
 *       move.
 * source: include/pgas/hex.h; random games from the empty board are won by black with 0.5236
 * (11x11) and 0.573 (5x5)
 *
 * 0.5236 is itself measured: 25 million games played by shuffling gave 0.5230, 80 million of these
 * playouts, too, both to 0.0001. The seed is fixed: a chance of one in some hundred of being wrong,
 * at each run, would be too many. */
#include <math.h>
#include "hex_model.h"
#include "t/random.h"
#include "t/tap.h"

#define EMPTIES_MAX 7

static pgas_mcts_rng_t playout_rng;

/* ---- from the empty board ---- */

/* standard errors between the measured and the expected value */
static double distance_of_rate(int size, int turn, int n, double told)
{
    pgas_hex_t hex;
    int won = 0;
    (void)pgas_hex_init(&hex, size, false);
    hex.turn = (uint8_t)turn;
    for (int i = 0; i < n; i += 1000)
        won += pgasi_hex_playouts(&hex, &playout_rng, 1000);
    diag("%dx%d, player %d begins: player 0 won %.4f of %d", size, size, turn, (double)won / n, n);
    return fabs((double)won / n - told) / sqrt(told * (1 - told) / n);
}

static void who_begins_wins_as_often_as_is_known(void)
{
    ok(distance_of_rate(11, 0, 500000, 0.5236) < 3, "11x11: the first player wins 0.5236");
    ok(distance_of_rate(5, 0, 1000000, 0.573) < 3, "5x5: the first player wins 0.573");
    ok(distance_of_rate(11, 0, 1000000, 0.5230) < 3,
       "11x11: and as often as in 25 million slow games, 0.5230");
    ok(distance_of_rate(11, 1, 500000, 1 - 0.5236) < 3, "11x11, white to move: the same for white");
    ok(distance_of_rate(11, 1, 100000, 0.5236) > 3,
       "the check finds the wrong player's turn (made on purpose)");
}

/* ---- some moves before the end ---- */

/* A board of random stones but for n_empty cells. */
static model_t nearly_full(int size, int n_empty)
{
    model_t model = model_empty(size);
    int cells[361], n;
    while ((n = model_empties(&model, cells)) > n_empty) {
        int cell = cells[below_int(n)];
        model.cell[cell / size][cell % size] = (signed char)(n % 2);
    }
    return model;
}

/* Black's share of wins over all ways to fill the board in which black gets n_black cells; n_black
 * < 0: over all ways. */
static double exact_rate(const model_t *model, int n_black)
{
    int cells[361], n = model_empties(model, cells), n_ways = 0, n_won = 0;
    for (int way = 0; way < 1 << n; way++) {
        model_t full = *model;
        if (n_black >= 0 && __builtin_popcount((unsigned)way) != n_black)
            continue;
        for (int i = 0; i < n; i++) {
            full.cell[cells[i] / model->size][cells[i] % model->size] =
                (signed char)!(way >> i & 1);
        }
        n_ways++;
        n_won += model_winner(&full) == 0;
    }
    return (double)n_won / n_ways;
}

typedef struct {
    /* positions whose result is certain; of them, those that ended otherwise */
    int n_certain, n_wrong;
    int n_only_by_turns;      /* ... certain only because each gets its share of the cells */
    int n_open;               /* others, and the sum over them of (seen - exact)^2 / variance, */
    double sum, sum_of_coins; /* ... of (seen - what coins would give)^2 / variance of that */
} tally_t;

static double squared_distance(double seen, double rate, int n)
{
    return rate <= 0 || rate >= 1 ? 0 : (seen - rate) * (seen - rate) / (rate * (1 - rate) / n);
}

/* One position. The playouts use the player to move; the tally gets the other player if it is to
 * fail. */
static void compare_with_all_ways(const model_t *model, int n_empty, int turn, int turn_told,
                                  tally_t *tally)
{
    enum { N = 300 };
    pgas_hex_t hex = model_to_hex(model, turn);
    double exact = exact_rate(model, turn_told == 0 ? (n_empty + 1) / 2 : n_empty / 2),
           coins = exact_rate(model, -1);
    double seen = pgasi_hex_playouts(&hex, &playout_rng, N) / (double)N;
    if (exact <= 0 || exact >= 1) {
        tally->n_certain++;
        tally->n_wrong += seen < exact || seen > exact;
        tally->n_only_by_turns += coins > 0 && coins < 1;
    } else {
        tally->n_open++;
        tally->sum += squared_distance(seen, exact, N);
        tally->sum_of_coins += squared_distance(seen, coins, N);
    }
}

static tally_t compare_many(int n_empty, bool other_turn)
{
    tally_t tally = { 0 };
    for (int i = 0; i < 200; i++) {
        model_t model = nearly_full(2 + i % 5, n_empty < 4 ? n_empty : 4 + below_int(n_empty - 3));
        int cells[361], turn = i / 5 % 2;
        compare_with_all_ways(&model, model_empties(&model, cells), turn, other_turn ? !turn : turn,
                              &tally);
    }
    return tally;
}

static bool is_too_much(double sum, int n)
{
    return sum > n + 4 * sqrt(2.0 * n);
}

static void ends_are_exact(void)
{
    for (int n_empty = 1; n_empty <= 3; n_empty++) {
        tally_t tally = compare_many(n_empty, false);
        ok(tally.n_certain > 50 && tally.n_wrong == 0,
           "%d before the end: certain results are sure (%d wrong of %d)", n_empty, tally.n_wrong,
           tally.n_certain);
        ok(tally.n_only_by_turns > 5, "... %d of them only because each gets its share",
           tally.n_only_by_turns);
        ok((tally.n_open > 30) == (n_empty > 1) && !is_too_much(tally.sum, tally.n_open),
           "... others as often as all ways to end (%.1f of %d)", tally.sum, tally.n_open);
    }
    tally_t tally = compare_many(EMPTIES_MAX, false), told_wrong = compare_many(1, true);
    ok(tally.n_wrong == 0 && tally.n_open > 50 && !is_too_much(tally.sum, tally.n_open),
       "4 to %d before the end: as often as all ways to end (%.1f of %d)", EMPTIES_MAX, tally.sum,
       tally.n_open);
    ok(is_too_much(tally.sum_of_coins, tally.n_open),
       "the check finds cells given by coins (%.1f, made on purpose)", tally.sum_of_coins);
    ok(told_wrong.n_wrong > 0,
       "the check finds the wrong player's turn (%d of %d, made on purpose)", told_wrong.n_wrong,
       told_wrong.n_certain);
}

/* ---- in the middle of a game ---- */

/* A random game move by move, which ends when a player has won. */
static int slow_playout(model_t model, int turn)
{
    int cells[361], n = model_empties(&model, cells), winner = NOBODY;
    for (; winner == NOBODY; turn = !turn) {
        int at = below_int(n), cell = cells[at];
        cells[at] = cells[--n];
        model.cell[cell / model.size][cell % model.size] = (signed char)turn;
        winner = n > model.size * model.size / 2 && model.size > 6 ? NOBODY : model_winner(&model);
    }
    return winner;
}

/* standard errors between the playouts of a position and slow ones of turn_told */
static double distance_from_slow(const pgas_hex_t *hex, int turn_told)
{
    enum { N = 50000, N_SLOW = 2000 };
    int won = pgasi_hex_playouts(hex, &playout_rng, N), won_slow = 0;
    for (int i = 0; i < N_SLOW; i++)
        won_slow += slow_playout(model_of(hex), turn_told) == 0;
    double rate = (double)(won + won_slow) / (N + N_SLOW);
    double distance = fabs((double)won / N - (double)won_slow / N_SLOW);
    return distance > 0 ? distance / sqrt(rate * (1 - rate) * (1.0 / N + 1.0 / N_SLOW)) : 0;
}

static pgas_hex_t after_moves(int size, int n_moves, bool swaps)
{
    pgas_hex_t hex;
    pgas_mcts_move_t moves[362];
    const pgas_mcts_spec_t *spec = pgas_hex_spec(size);
    (void)pgas_hex_init(&hex, size, swaps);
    while (hex.n_moves < n_moves && hex.winner < 0) {
        int n = (int)spec->moves(&hex, moves, NULL, spec->arg);
        (void)pgas_hex_play(&hex, swaps && hex.n_moves == 1 ? PGAS_HEX_SWAP : moves[below_int(n)]);
    }
    return hex;
}

static void games_end_as_slow_games_do(void)
{
    static const struct {
        int size, n_moves;
        bool swaps;
    } cases[] = { { 3, 2, false }, { 4, 3, true },   { 5, 6, false },   { 6, 9, false },
                  { 7, 12, true }, { 9, 31, false }, { 11, 40, false }, { 11, 53, false } };
    double worst = 0;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        pgas_hex_t hex = after_moves(cases[i].size, cases[i].n_moves, cases[i].swaps);
        double distance = distance_from_slow(&hex, hex.turn);
        worst = distance > worst ? distance : worst;
    }
    ok(worst < 4,
       "games from the middle of a game end as those move by move (at most %.1f standard errors "
       "off)",
       worst);
    pgas_hex_t hex = after_moves(5, 0, false); /* 25 cells: the first player has one more */
    double wrong = distance_from_slow(&hex, !hex.turn);
    ok(wrong > 4, "the check finds the wrong player's turn (%.1f standard errors, made on purpose)",
       wrong);
}

static void what_is_decided_stays(void)
{
    int n_wrong = 0;
    for (int size = 2; size <= 19; size++) {
        pgas_hex_t hex = after_moves(size, size * size, false);
        n_wrong += hex.winner < 0 ||
                   pgasi_hex_playouts(&hex, &playout_rng, 100) != (hex.winner == 0 ? 100 : 0);
        model_t full = nearly_full(size, 0);
        hex = model_to_hex(&full, 0);
        n_wrong += pgasi_hex_playouts(&hex, &playout_rng, 3) != (model_winner(&full) == 0 ? 3 : 0);
    }
    is_int(n_wrong, 0, "games that are won stay won, full boards are counted, sizes 2 to 19");
}

/* ---- arguments and results ---- */

static void same_numbers_same_games(void)
{
    pgas_hex_t hex = after_moves(9, 7, false), before = hex;
    pgas_mcts_rng_t a, b, c;
    int n_same = 0, n_same_other = 0;
    pgas_mcts_rng_seed(&a, 5);
    pgas_mcts_rng_seed(&b, 5);
    pgas_mcts_rng_seed(&c, 6);
    for (int i = 0; i < 100; i++) {
        int won = pgasi_hex_playouts(&hex, &a, 100);
        n_same += won == pgasi_hex_playouts(&hex, &b, 100);
        n_same_other += won == pgasi_hex_playouts(&hex, &c, 100);
    }
    ok(n_same == 100 && memcmp(&a, &b, sizeof a) == 0, "the same random numbers: the same games");
    ok(n_same_other < 50, "others: other games (%d of 100 the same)", n_same_other);
    ok(memcmp(&hex, &before, sizeof hex) == 0, "the position is untouched");
    is_int(pgasi_hex_playouts(&hex, &a, 0), 0, "no game, no win");
}

static void description_plays_the_same(void)
{
    pgas_hex_t hex = after_moves(8, 9, false);
    const pgas_mcts_spec_t *spec = pgas_hex_spec(8);
    pgas_mcts_rng_t a, b;
    float sums[2] = { 3, 4 };
    pgas_mcts_rng_seed(&a, 7);
    pgas_mcts_rng_seed(&b, 7);
    spec->playout(&hex, &a, 500, sums, spec->arg);
    int won = pgasi_hex_playouts(&hex, &b, 500);
    ok((int)sums[0] == won + 3 && (int)sums[1] == 500 - won + 4,
       "the description adds each player's wins");
    ok(won > 0 && won < 500, "of which both have some");
}

int main(void)
{
    plan(26);
    pgasi_rng_seed(&rng, 1);
    pgas_mcts_rng_seed(&playout_rng, 1);
    who_begins_wins_as_often_as_is_known();
    ends_are_exact();
    games_end_as_slow_games_do();
    what_is_decided_stays();
    same_numbers_same_games();
    description_plays_the_same();
    return done();
}
