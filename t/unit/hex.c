/* what: Winners, moves, the swap rule, the hash and the description of Hex agree with a plain
 *       model.
 * Hex, against a plain model
 * source: include/pgas/hex.h; the rules of Hex */
#include "hex_model.h"
#include "t/random.h"
#include "t/tap.h"
#include "t/unit/collisions.h"

#define N_POSITIONS 100000 /* whose hashes are compared */

static const int sizes_tried[] = { 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 19 };
#define N_SIZES_TRIED ((int)(sizeof sizes_tried / sizeof *sizes_tried))

/* Each cell is empty with this percentage, otherwise of a random player. */
static model_t random_model(int size, int percent_empty)
{
    model_t model = model_empty(size);
    for (int i = 0; i < size * size; i++)
        if (below_int(100) >= percent_empty)
            model.cell[i / size][i % size] = (signed char)below_int(2);
    return model;
}

/* ---- winners ---- */

static bool agrees(const model_t *model, model_steps_t steps)
{
    pgas_hex_t hex = model_to_hex(model, 0);
    int winner = pgasi_hex_winner(&hex);
    return model_joins(model, 0, steps) == (winner == 0) &&
           model_joins(model, 1, steps) == (winner == 1);
}

/* positions of 3x3 in which the winner is another than the model's */
static int wrong_of_3x3(model_steps_t steps)
{
    int n_wrong = 0;
    for (int position = 0; position < 19683; position++) {
        model_t model = model_empty(3);
        for (int i = 0, left = position; i < 9; i++, left /= 3)
            model.cell[i / 3][i % 3] = (signed char)(left % 3 - 1);
        n_wrong += !agrees(&model, steps);
    }
    return n_wrong;
}

static void winners_are_those_of_the_model(void)
{
    static model_steps_t squares = { { -1, 0 }, { 0, -1 }, { 0, 1 }, { 1, 0 }, { 1, 0 }, { 1, 0 } };
    static model_steps_t mirrored = {
        { -1, -1 }, { -1, 0 }, { 0, -1 }, { 0, 1 }, { 1, 0 }, { 1, 1 }
    };
    int n_wrong = 0, n_won[3] = { 0 };
    is_int(wrong_of_3x3(model_steps), 0, "the winner of all 19683 positions of 3x3");
    ok(wrong_of_3x3(squares) > 0,
       "the check distinguishes four neighbours from six (made on purpose)");
    ok(wrong_of_3x3(mirrored) > 0, "the check detects a mirrored board (made on purpose)");
    for (int i = 0; i < 2000 * N_SIZES_TRIED; i++) {
        model_t model = random_model(sizes_tried[i % N_SIZES_TRIED], below_int(60));
        n_wrong += !agrees(&model, model_steps);
        n_won[model_winner(&model) + 1]++;
    }
    is_int(n_wrong, 0, "the winner of random positions to 11x11 and of 19x19");
    ok(n_won[0] > 1000 && n_won[1] > 1000 && n_won[2] > 1000,
       "of which nobody, black and white won many");
}

/* a chain that winds: down the board row by row, from side to side */
static void a_long_way_is_found(void)
{
    int n_wrong = 0;
    for (int size = 2; size <= 19; size++) {
        model_t model = model_empty(size), gap;
        for (int i = 0; i < size * size; i++) {
            int r = i / size, c = i % size;
            model.cell[r][c] = r % 2 == 0 || c == (r % 4 == 1 ? size - 1 : 0) ? 0 : 1;
        }
        pgas_hex_t hex = model_to_hex(&model, 0);
        gap = model;
        gap.cell[size - 1][size - 1] = gap.cell[size - 1][0] = NOBODY;
        pgas_hex_t with_gap = model_to_hex(&gap, 0);
        n_wrong += pgasi_hex_winner(&hex) != 0 || pgasi_hex_winner(&with_gap) != model_winner(&gap);
    }
    is_int(n_wrong, 0, "a chain that winds through the whole board, sizes 2 to 19");
}

/* ---- moves ---- */

static bool refuses(const pgas_hex_t *hex, pgas_mcts_move_t move)
{
    pgas_hex_t after = *hex;
    return pgas_hex_play(&after, move) == PGAS_ERR_RANGE && memcmp(&after, hex, sizeof after) == 0;
}

static void sizes_that_are_none_are_refused(void)
{
    static const int bad[] = { -11, 0, 1, 20, 21, 32, 255, 258, 1 << 16 };
    int n_bad = 0, n_good = 0;
    for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++) {
        pgas_hex_t hex, before;
        memset(&hex, 0x5a, sizeof hex);
        before = hex;
        n_bad += pgas_hex_init(&hex, bad[i], true) != PGAS_ERR_RANGE ||
                 memcmp(&hex, &before, sizeof hex) != 0;
        n_bad += pgas_hex_spec(bad[i]) != NULL;
    }
    is_int(n_bad, 0, "1, 20 and other sizes that are none are refused, nothing is touched");
    for (int size = 2; size <= 19; size++) {
        pgas_hex_t hex;
        memset(&hex, 0x5a, sizeof hex);
        n_good += pgas_hex_init(&hex, size, false) == PGAS_OK && hex.size == size &&
                  hex.turn == 0 && hex.n_moves == 0 && hex.winner == NOBODY &&
                  pgasi_hex_winner(&hex) == NOBODY;
    }
    is_int(n_good, 18, "2 to 19 make empty boards");
}

/* A random game by the rules: after each move the position equals the model's, and illegal moves
 * are refused. */
static int wrong_in_a_game(int size, bool spoil)
{
    pgas_hex_t hex;
    model_t model = model_empty(size);
    int cells[361], n_wrong = 0, winner = NOBODY, n = 0;
    (void)pgas_hex_init(&hex, size, false);
    for (; winner == NOBODY; n++) {
        int n_empty = model_empties(&model, cells), cell = cells[below_int(n_empty)],
            taken = below_int(size * size);
        n_wrong += !refuses(&hex, (unsigned)(size * size + below_int(1000))) ||
                   !refuses(&hex, PGAS_MCTS_NO_MOVE);
        n_wrong +=
            model.cell[taken / size][taken % size] != NOBODY && !refuses(&hex, (unsigned)taken);
        n_wrong += !refuses(&hex, PGAS_HEX_SWAP);
        n_wrong += pgas_hex_play(&hex, (unsigned)cell) != PGAS_OK;
        model.cell[cell / size][cell % size] = (signed char)(spoil && n == 1 ? 0 : n % 2);
        winner = model_winner(&model);
        model_t got = model_of(&hex);
        n_wrong += memcmp(&got, &model, sizeof got) != 0 || hex.turn != (n + 1) % 2 ||
                   hex.n_moves != n + 1;
        n_wrong += hex.winner != winner || pgasi_hex_winner(&hex) != winner;
    }
    for (int i = 0; i < size * size; i++)
        n_wrong += !refuses(&hex, (unsigned)i);
    return n_wrong;
}

static void games_follow_the_rules(void)
{
    int n_wrong = 0;
    for (int i = 0; i < 20 * N_SIZES_TRIED; i++)
        n_wrong += wrong_in_a_game(sizes_tried[i % N_SIZES_TRIED], false);
    is_int(n_wrong, 0,
           "random games: stones, turn, winner after each move; what is illegal is refused, "
           "nothing is changed");
    ok(wrong_in_a_game(5, true) > 0,
       "the check finds a stone of the wrong colour (made on purpose)");
}

static void black_may_move_twice(void)
{
    pgas_hex_t hex;
    (void)pgas_hex_init(&hex, 5, false);
    for (unsigned r = 0; r < 5; r++) {
        hex.turn = 0;
        (void)pgas_hex_play(&hex, r * 5 + 2);
    }
    is_int(hex.winner, 0, "the winner is seen however the turns went");
}

/* ---- the swap rule ---- */

static bool lists_swap(const pgas_hex_t *hex)
{
    pgas_mcts_move_t moves[361];
    const pgas_mcts_spec_t *spec = pgas_hex_spec(hex->size);
    uint32_t n = spec->moves(hex, moves, NULL, spec->arg);
    for (uint32_t i = 0; i < n; i++)
        if (moves[i] == PGAS_HEX_SWAP)
            return true;
    return false;
}

static int wrong_after_swap(int size, int r, int c)
{
    pgas_hex_t hex;
    (void)pgas_hex_init(&hex, size, true);
    int n_wrong = lists_swap(&hex) || !refuses(&hex, PGAS_HEX_SWAP);
    (void)pgas_hex_play(&hex, (unsigned)(r * size + c));
    pgas_hex_t declined = hex;
    n_wrong += !lists_swap(&hex) || pgas_hex_play(&hex, PGAS_HEX_SWAP) != PGAS_OK;
    model_t want = model_empty(size), got = model_of(&hex);
    want.cell[c][r] = 1;
    n_wrong += memcmp(&got, &want, sizeof got) != 0 || hex.turn != 0 || hex.n_moves != 2 ||
               hex.winner != NOBODY;
    n_wrong += lists_swap(&hex) || !refuses(&hex, PGAS_HEX_SWAP);
    n_wrong += pgas_hex_play(&declined, (unsigned)(r == 0 ? size : 0)) != PGAS_OK;
    n_wrong += lists_swap(&declined) || !refuses(&declined, PGAS_HEX_SWAP);
    return n_wrong;
}

static void sides_are_swapped_once(void)
{
    int n_wrong = 0;
    for (int size = 2; size <= 19; size++)
        for (int i = 0; i < size * size; i++)
            n_wrong += wrong_after_swap(size, i / size, i % size);
    is_int(n_wrong, 0,
           "the second move may swap, and no other; the stone is reflected, all sizes and cells");
    pgas_hex_t hex;
    (void)pgas_hex_init(&hex, 11, false);
    (void)pgas_hex_play(&hex, 60);
    ok(!lists_swap(&hex) && refuses(&hex, PGAS_HEX_SWAP), "no player swaps without the rule");
}

/* ---- the hash ---- */

static uint64_t hash_of(const pgas_hex_t *hex)
{
    const pgas_mcts_spec_t *spec = pgas_hex_spec(hex->size);
    return spec->hash(hex, spec->arg);
}

/* Plays moves[0..n), those of each player in another order. */
static pgas_hex_t play_shuffled(const pgas_mcts_move_t *moves, int n, int size)
{
    pgas_hex_t hex;
    pgas_mcts_move_t order[361];
    memcpy(order, moves, (size_t)n * sizeof *order);
    for (int i = n - 1; i > 1; i--) {
        int other = i % 2 + 2 * below_int(i / 2 + 1);
        pgas_mcts_move_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    (void)pgas_hex_init(&hex, size, false);
    for (int i = 0; i < n; i++)
        (void)pgas_hex_play(&hex, order[i]);
    return hex;
}

static void order_of_moves_does_not_matter(void)
{
    int n_wrong = 0, n_same = 0;
    for (int i = 0; i < 500; i++) {
        /* too few for a win */
        int size = sizes_tried[1 + i % (N_SIZES_TRIED - 1)], n = 2 * size - 2;
        pgas_mcts_move_t moves[361];
        for (int j = 0; j < size * size; j++) {
            int at = below_int(j + 1);
            moves[j] = moves[at];
            moves[at] = (unsigned)j;
        }
        pgas_hex_t a = play_shuffled(moves, n, size), b = play_shuffled(moves, n, size);
        n_wrong += hash_of(&a) != hash_of(&b);
        moves[n - 1] = moves[n];
        pgas_hex_t c = play_shuffled(moves, n, size);
        n_same += hash_of(&a) == hash_of(&c);
    }
    is_int(n_wrong, 0, "the same stones in another order: the same hash");
    is_int(n_same, 0, "one stone elsewhere: another hash (or the check could not fail)");
}

static void what_matters_is_in_the_hash(void)
{
    pgas_hex_t swap, none, mine, theirs;
    (void)pgas_hex_init(&swap, 11, true);
    (void)pgas_hex_init(&none, 11, false);
    ok(hash_of(&swap) != hash_of(&none), "a swap that is to come makes a difference");
    (void)pgas_hex_play(&swap, 5);
    (void)pgas_hex_play(&none, 5);
    ok(hash_of(&swap) != hash_of(&none), "a swap that may be now, too");
    (void)pgas_hex_play(&swap, 6);
    (void)pgas_hex_play(&none, 6);
    ok(hash_of(&swap) == hash_of(&none), "and one that was declined makes none");
    mine = theirs = none;
    theirs.turn = 1;
    ok(hash_of(&mine) != hash_of(&theirs), "whose turn it is makes a difference");
    theirs = mine;
    theirs.n_moves = 4;
    ok(hash_of(&mine) == hash_of(&theirs), "the number of moves makes none");
}

static void hashes_do_not_collide(void)
{
    static uint64_t hashes[N_POSITIONS];
    int n = 0, parts[3] = { 0 };
    /* 7x7 with 15 stones or more: twice the same is out of the question */
    for (; n < N_POSITIONS; n++) {
        model_t model = random_model(sizes_tried[5 + n % 6], below_int(70));
        pgas_hex_t hex = model_to_hex(&model, n % 2);
        hashes[n] = hash_of(&hex);
        parts[0] += hashes[n] % 3 == 0;
        parts[1] += (hashes[n] & 1) == 0;
        parts[2] += hashes[n] >> 63 == 0;
    }
    is_int(collisions(hashes, n), 0, "no two hashes of %d random positions are equal", n);
    ok(abs(parts[0] - n / 3) < n / 50 && abs(parts[1] - n / 2) < n / 50 &&
           abs(parts[2] - n / 2) < n / 50,
       "and they are even, by remainder, at the low and at the high end");
    hashes[0] = hashes[1];
    is_int(collisions(hashes, n), 1, "the check finds a collision (made on purpose)");
    n = 0;
    for (int position = 0; position < 19683; position++) {
        model_t model = model_empty(3);
        for (int i = 0, left = position; i < 9; i++, left /= 3)
            model.cell[i / 3][i % 3] = (signed char)(left % 3 - 1);
        for (int turn = 0; turn < 2; turn++) {
            pgas_hex_t hex = model_to_hex(&model, turn);
            hashes[n++] = hash_of(&hex);
        }
    }
    is_int(collisions(hashes, n), 0, "nor are any two of all positions of 3x3, with either turn");
}

/* ---- the description ---- */

static int wrong_in_spec(const pgas_mcts_spec_t *spec, int size)
{
    return !spec || spec != pgas_hex_spec(size) || spec->size != sizeof *spec || !spec->name ||
           spec->state_bytes != sizeof(pgas_hex_t) || spec->n_players != 2 ||
           spec->moves_max != (unsigned)(size * size) || spec->evaluate || spec->has_priors ||
           sizeof(pgas_hex_t) > PGAS_MCTS_STATE_MAX;
}

/* The moves are the empty cells, in their order, and the swap. */
static int wrong_in_moves(const pgas_hex_t *hex, const pgas_mcts_spec_t *spec)
{
    pgas_mcts_move_t moves[362];
    float priors[362], sum = 0;
    int cells[361], n_wrong = 0, size = hex->size;
    bool swap = hex->may_swap && hex->n_moves == 1;
    model_t model = model_of(hex);
    int n_empty = model_empties(&model, cells), n = (int)spec->moves(hex, moves, priors, spec->arg);
    if (n != n_empty + swap || n > (int)spec->moves_max)
        return 1;
    for (int i = 0; i < n; i++) {
        pgas_hex_t played = *hex, applied = *hex;
        n_wrong += moves[i] != (i < n_empty ? (unsigned)cells[i] : PGAS_HEX_SWAP);
        n_wrong += pgas_hex_play(&played, moves[i]) != PGAS_OK;
        spec->apply(&applied, moves[i], spec->arg);
        n_wrong += memcmp(&played, &applied, sizeof played) != 0 ||
                   spec->turn(&applied, spec->arg) != played.turn;
        sum += priors[i];
    }
    n_wrong += spec->moves(hex, moves, NULL, spec->arg) != (unsigned)n ||
               moves[0] >= (unsigned)(size * size);
    return n_wrong + (sum < 0.999f || sum > 1.001f);
}

/* A game by the description alone, the same moves by pgas_hex_play beside it. */
static int wrong_in_play(const pgas_mcts_spec_t *spec, int size)
{
    pgas_hex_t state, beside;
    pgas_mcts_move_t moves[362];
    float values[2] = { 5, 5 };
    int n_wrong = 0, n_moves = 0;
    (void)pgas_hex_init(&state, size, true);
    beside = state;
    while (!spec->outcome(&state, values, spec->arg)) {
        n_wrong +=
            values[0] != 5 || values[1] != 5 || beside.winner != NOBODY || n_moves > size * size;
        n_wrong += n_moves % 7 < 2 ? wrong_in_moves(&state, spec) : 0;
        pgas_mcts_move_t move = moves[below_int((int)spec->moves(&state, moves, NULL, spec->arg))];
        spec->apply(&state, move, spec->arg);
        (void)pgas_hex_play(&beside, move);
        n_wrong += memcmp(&state, &beside, sizeof state) != 0;
        n_moves++;
    }
    model_t model = model_of(&state);
    int winner = model_winner(&model);
    return n_wrong + (winner == NOBODY || beside.winner != winner || values[winner] != 1 ||
                      values[!winner] != 0);
}

static void descriptions_are_sane(void)
{
    int n_wrong = 0, n_played_wrong = 0;
    for (int size = 2; size <= 19; size++) {
        const pgas_mcts_spec_t *spec = pgas_hex_spec(size);
        n_wrong += wrong_in_spec(spec, size);
        for (int i = 0; i < 5; i++)
            n_played_wrong += wrong_in_play(spec, size);
    }
    is_int(n_wrong, 0, "18 descriptions, 2 to 19");
    is_int(n_played_wrong, 0,
           "moves, apply, turn and outcome agree with pgas_hex_play in whole games, with the swap "
           "rule");
    ok(wrong_in_spec(pgas_hex_spec(7), 8) > 0,
       "the check finds the description of another size (made on purpose)");
    pgas_hex_t hex;
    (void)pgas_hex_init(&hex, 4, false);
    hex.stones[0][1] = 15;
    pgas_mcts_spec_t spoilt = *pgas_hex_spec(4);
    spoilt.moves_max = 3;
    ok(wrong_in_moves(&hex, &spoilt) > 0 && wrong_in_moves(&hex, pgas_hex_spec(4)) == 0,
       "the check finds more moves than there may be (made on purpose)");
}

int main(void)
{
    plan(28);
    pgasi_rng_seed(&rng, tap_seed(20260101));
    winners_are_those_of_the_model();
    a_long_way_is_found();
    sizes_that_are_none_are_refused();
    games_follow_the_rules();
    black_may_move_twice();
    sides_are_swapped_once();
    order_of_moves_does_not_matter();
    what_matters_is_in_the_hash();
    hashes_do_not_collide();
    descriptions_are_sane();
    return done();
}
