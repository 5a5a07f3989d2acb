/* Small problems for tests of the search; solve() finds the answer of each by a plain walk over all
 * its states.
 *
 *   digits     one player, five digits: the sum of what each is worth; or, as `estimated`, with an
 *              evaluation for playouts
 *   nim        two players, three heaps, the player that takes the last one wins; equal heaps are
 *              equal states
 *   noughts    two players, tic-tac-toe: a draw
 *   three      three players with interests of their own: the move that is best on average is not
 *              best
 *   dice       one player chooses a die, chance throws it, the player may throw once more
 *   wide       one player, 400 moves, the priors point to the best
 *   chain      one player walks 3000 steps, without a choice but to end early
 *   ring       one player walks round and round, nothing ever ends, equal places are equal states;
 *              evaluated */
#ifndef T_SPMD_MCTS_GAMES_H
#define T_SPMD_MCTS_GAMES_H

#include <math.h>
#include <string.h>
#include "pgas/mcts.h"

#define GAMES_MOVES_MAX 400

/* ---- digits ---- */

#define DIGITS_N    5
#define DIGITS_BASE 4

typedef struct {
    uint8_t n, digits[DIGITS_N];
} digits_t;

static const uint8_t digits_best[DIGITS_N] = { 2, 0, 3, 1, 2 };

static inline uint32_t digits_moves(const void *state, pgas_mcts_move_t *moves, float *priors,
                                    void *arg)
{
    (void)state, (void)arg;
    for (uint32_t i = 0; i < DIGITS_BASE; i++) {
        moves[i] = i;
        if (priors)
            priors[i] = 1.0f / DIGITS_BASE;
    }
    return DIGITS_BASE;
}

static inline void digits_apply(void *state, pgas_mcts_move_t move, void *arg)
{
    digits_t *d = state;
    (void)arg;
    d->digits[d->n++] = (uint8_t)move;
}

/* 0.9 for the best digits; each wrong one costs. A digit that is not chosen yet counts as half of
 * the worst. */
static inline void digits_value(const void *state, float *values, void *arg)
{
    const digits_t *d = state;
    double off = 0;
    (void)arg;
    for (int i = 0; i < DIGITS_N; i++)
        off += i < d->n ? abs(d->digits[i] - digits_best[i]) : 1.5;
    values[0] = (float)(0.9 * (1 - off / (DIGITS_N * (DIGITS_BASE - 1))));
}

static inline bool digits_outcome(const void *state, float *values, void *arg)
{
    digits_value(state, values, arg);
    return ((const digits_t *)state)->n == DIGITS_N;
}

static inline pgas_mcts_spec_t digits_spec(void)
{
    pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;
    spec.name = "digits", spec.state_bytes = sizeof(digits_t), spec.n_players = 1,
    spec.moves_max = DIGITS_BASE;
    spec.moves = digits_moves, spec.apply = digits_apply, spec.outcome = digits_outcome;
    return spec;
}

static inline pgas_mcts_spec_t estimated_spec(void)
{
    pgas_mcts_spec_t spec = digits_spec();
    spec.evaluate = digits_value;
    return spec;
}

/* ---- nim ---- */

#define NIM_HEAPS 3
#define NIM_MOST  15

typedef struct {
    uint8_t heaps[NIM_HEAPS], turn;
} nim_t;

static inline pgas_mcts_move_t nim_take(int heap, int n)
{
    return (pgas_mcts_move_t)(heap * 16 + n);
}

static inline uint32_t nim_moves(const void *state, pgas_mcts_move_t *moves, float *priors,
                                 void *arg)
{
    const nim_t *s = state;
    uint32_t n = 0;
    (void)arg;
    for (int heap = 0; heap < NIM_HEAPS; heap++)
        for (int take = 1; take <= s->heaps[heap]; take++)
            moves[n++] = nim_take(heap, take);
    for (uint32_t i = 0; priors && i < n; i++)
        priors[i] = 1.0f / (float)n;
    return n;
}

static inline void nim_apply(void *state, pgas_mcts_move_t move, void *arg)
{
    nim_t *s = state;
    (void)arg;
    s->heaps[move / 16] = (uint8_t)(s->heaps[move / 16] - move % 16);
    s->turn ^= 1;
}

static inline int nim_turn(const void *state, void *arg)
{
    (void)arg;
    return ((const nim_t *)state)->turn;
}

static inline bool nim_outcome(const void *state, float *values, void *arg)
{
    const nim_t *s = state;
    (void)arg;
    values[s->turn] = 0; /* the other has taken the last */
    values[!s->turn] = 1;
    return s->heaps[0] + s->heaps[1] + s->heaps[2] == 0;
}

static inline uint64_t nim_hash(const void *state, void *arg)
{
    pgas_mcts_rng_t mixed;
    uint64_t word = 0;
    (void)arg;
    memcpy(&word, state, sizeof(nim_t));
    pgas_mcts_rng_seed(&mixed, word);
    return mixed.word[0];
}

/* The player that moves wins unless the heaps cancel. */
static inline bool nim_is_won(const nim_t *s)
{
    return (s->heaps[0] ^ s->heaps[1] ^ s->heaps[2]) != 0;
}

static inline nim_t nim_start(int a, int b, int c)
{
    nim_t s = { { (uint8_t)a, (uint8_t)b, (uint8_t)c }, 0 };
    return s;
}

static inline pgas_mcts_spec_t nim_spec(void)
{
    pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;
    spec.name = "nim", spec.state_bytes = sizeof(nim_t), spec.n_players = 2,
    spec.moves_max = NIM_HEAPS * NIM_MOST;
    spec.moves = nim_moves, spec.apply = nim_apply, spec.turn = nim_turn,
    spec.outcome = nim_outcome, spec.hash = nim_hash;
    return spec;
}

/* ---- noughts and crosses ---- */

typedef struct {
    uint16_t cells[2];
} noughts_t;

static inline int noughts_turn(const void *state, void *arg)
{
    const noughts_t *s = state;
    (void)arg;
    return __builtin_popcount((unsigned)s->cells[0] | s->cells[1]) % 2;
}

static inline uint32_t noughts_moves(const void *state, pgas_mcts_move_t *moves, float *priors,
                                     void *arg)
{
    const noughts_t *s = state;
    uint32_t n = 0;
    (void)arg;
    for (uint32_t cell = 0; cell < 9; cell++)
        if (!((s->cells[0] | s->cells[1]) >> cell & 1))
            moves[n++] = cell;
    for (uint32_t i = 0; priors && i < n; i++)
        priors[i] = 1.0f / (float)n;
    return n;
}

static inline void noughts_apply(void *state, pgas_mcts_move_t move, void *arg)
{
    noughts_t *s = state;
    int player = noughts_turn(state, arg);
    s->cells[player] = (uint16_t)(s->cells[player] | 1u << move);
}

static inline bool noughts_outcome(const void *state, float *values, void *arg)
{
    static const uint16_t lines[] = { 0007, 0070, 0700, 0111, 0222, 0444, 0421, 0124 };
    const noughts_t *s = state;
    (void)arg;
    values[0] = values[1] = 0.5f;
    for (int i = 0; i < 8; i++) {
        for (int player = 0; player < 2; player++) {
            if ((s->cells[player] & lines[i]) == lines[i]) {
                values[player] = 1;
                values[!player] = 0;
                return true;
            }
        }
    }
    return (s->cells[0] | s->cells[1]) == 0777;
}

static inline uint64_t noughts_hash(const void *state, void *arg)
{
    const noughts_t *s = state;
    (void)arg;
    return (uint64_t)(s->cells[0] * 512 + s->cells[1] + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline pgas_mcts_spec_t noughts_spec(void)
{
    pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;
    spec.name = "noughts", spec.state_bytes = sizeof(noughts_t), spec.n_players = 2,
    spec.moves_max = 9;
    spec.moves = noughts_moves, spec.apply = noughts_apply, spec.turn = noughts_turn,
    spec.outcome = noughts_outcome;
    spec.hash = noughts_hash;
    return spec;
}

/* ---- three players ---- */

/* Each player chooses 0, 1 or 2 once, in turn; then all are paid. Player 0's move 1 pays well if,
 * and only if, the others choose their own best moves; its move 0 pays better on average. */
typedef struct {
    uint8_t n, moves[3];
} three_t;

static inline uint32_t three_moves(const void *state, pgas_mcts_move_t *moves, float *priors,
                                   void *arg)
{
    (void)state, (void)arg;
    for (uint32_t i = 0; i < 3; i++) {
        moves[i] = i;
        if (priors)
            priors[i] = 1.0f / 3;
    }
    return 3;
}

static inline void three_apply(void *state, pgas_mcts_move_t move, void *arg)
{
    three_t *s = state;
    (void)arg;
    s->moves[s->n++] = (uint8_t)move;
}

static inline int three_turn(const void *state, void *arg)
{
    (void)arg;
    return ((const three_t *)state)->n;
}

static inline bool three_outcome(const void *state, float *values, void *arg)
{
    const three_t *s = state;
    bool friendly = s->moves[1] == 2 && s->moves[2] == 0;
    (void)arg;
    values[0] = 0.4f;
    if (s->moves[0] == 0)
        values[0] = friendly ? 0.3f : 0.6f;
    else if (s->moves[0] == 1)
        values[0] = friendly ? 0.9f : 0.2f;
    values[1] = 0.2f + 0.3f * (float)s->moves[1];
    values[2] = 0.8f - 0.3f * (float)s->moves[2];
    return s->n == 3;
}

static inline pgas_mcts_spec_t three_spec(void)
{
    pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;
    spec.name = "three", spec.state_bytes = sizeof(three_t), spec.n_players = 3, spec.moves_max = 3;
    spec.moves = three_moves, spec.apply = three_apply, spec.turn = three_turn,
    spec.outcome = three_outcome;
    return spec;
}

/* ---- dice ---- */

/* A die of 4, 6 or 10 faces, on which 1 has half the probability of each other face. The player
 * keeps the face or throws once more. It is paid face / 8, and nothing for more than 8. */
typedef struct {
    uint8_t thrown, faces, shows, to_throw, kept;
} dice_t;

enum { DICE_KEEP = 100, DICE_AGAIN };

static inline int dice_turn(const void *state, void *arg)
{
    (void)arg;
    return ((const dice_t *)state)->to_throw ? PGAS_MCTS_CHANCE : 0;
}

static inline uint32_t dice_moves(const void *state, pgas_mcts_move_t *moves, float *priors,
                                  void *arg)
{
    static const uint32_t faces[] = { 4, 6, 10 };
    const dice_t *s = state;
    (void)arg;
    if (s->to_throw) {
        for (uint32_t i = 0; i < s->faces; i++) {
            moves[i] = i + 1;
            if (priors)
                priors[i] = (i == 0 ? 1 : 2) / (2 * (float)s->faces - 1);
        }
        return s->faces;
    }
    uint32_t n = s->faces ? 2 : 3;
    for (uint32_t i = 0; i < n; i++) {
        moves[i] = s->faces ? DICE_KEEP + i : faces[i];
        if (priors)
            priors[i] = 1 / (float)n;
    }
    return n;
}

static inline void dice_apply(void *state, pgas_mcts_move_t move, void *arg)
{
    dice_t *s = state;
    (void)arg;
    if (s->to_throw) {
        s->shows = (uint8_t)move;
        s->thrown++;
        s->to_throw = 0;
    } else if (move == DICE_KEEP) {
        s->kept = 1;
    } else {
        s->faces = move == DICE_AGAIN ? s->faces : (uint8_t)move;
        s->to_throw = 1;
    }
}

static inline bool dice_outcome(const void *state, float *values, void *arg)
{
    const dice_t *s = state;
    (void)arg;
    values[0] = s->shows > 8 ? 0 : (float)s->shows / 8;
    return s->kept || s->thrown == 2;
}

static inline pgas_mcts_spec_t dice_spec(void)
{
    pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;
    spec.name = "dice", spec.state_bytes = sizeof(dice_t), spec.n_players = 1, spec.moves_max = 10;
    spec.moves = dice_moves, spec.apply = dice_apply, spec.turn = dice_turn,
    spec.outcome = dice_outcome;
    spec.has_priors = true;
    return spec;
}

/* ---- wide ---- */

/* One of 400 moves, then one of 20. The first is worth more the nearer it is to 137, and the priors
 * agree. */
typedef struct {
    uint16_t n, first, second;
} wide_t;

#define WIDE_MOVES 400
#define WIDE_BEST  137

static inline uint32_t wide_moves(const void *state, pgas_mcts_move_t *moves, float *priors,
                                  void *arg)
{
    uint32_t n = ((const wide_t *)state)->n == 0 ? WIDE_MOVES : 20;
    double sum = 0;
    (void)arg;
    for (uint32_t i = 0; i < n; i++) {
        moves[i] = i;
        sum += 1 / (1 + fabs((double)i - WIDE_BEST));
    }
    for (uint32_t i = 0; priors && i < n; i++)
        priors[i] = (float)(1 / (1 + fabs((double)i - WIDE_BEST)) / sum);
    return n;
}

static inline void wide_apply(void *state, pgas_mcts_move_t move, void *arg)
{
    wide_t *s = state;
    (void)arg;
    *(s->n++ == 0 ? &s->first : &s->second) = (uint16_t)move;
}

static inline bool wide_outcome(const void *state, float *values, void *arg)
{
    const wide_t *s = state;
    (void)arg;
    values[0] =
        (float)(0.8 - 0.7 * fabs((double)s->first - WIDE_BEST) / WIDE_MOVES - 0.002 * s->second);
    return s->n == 2;
}

static inline pgas_mcts_spec_t wide_spec(void)
{
    pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;
    spec.name = "wide", spec.state_bytes = sizeof(wide_t), spec.n_players = 1,
    spec.moves_max = WIDE_MOVES;
    spec.moves = wide_moves, spec.apply = wide_apply, spec.outcome = wide_outcome,
    spec.has_priors = true;
    return spec;
}

/* ---- chain and ring ---- */

typedef struct {
    uint16_t at, ended;
} walk_t;

#define CHAIN_STEPS 3000
#define RING_PLACES 12

/* On is 0; the end, or back, is 1. */
static inline uint32_t walk_moves(const void *state, pgas_mcts_move_t *moves, float *priors,
                                  void *arg)
{
    (void)state, (void)arg;
    for (uint32_t i = 0; i < 2; i++) {
        moves[i] = i;
        if (priors)
            priors[i] = 0.5f;
    }
    return 2;
}

static inline void chain_apply(void *state, pgas_mcts_move_t move, void *arg)
{
    walk_t *s = state;
    (void)arg;
    s->at = (uint16_t)(s->at + (move == 0));
    s->ended = move == 1;
}

static inline bool chain_outcome(const void *state, float *values, void *arg)
{
    const walk_t *s = state;
    (void)arg;
    values[0] = (float)s->at / CHAIN_STEPS;
    return s->ended || s->at == CHAIN_STEPS;
}

/* A playout that does not stop on its way. */
static inline void chain_playout(const void *state, pgas_mcts_rng_t *rng, int n, float *sums,
                                 void *arg)
{
    (void)state, (void)rng, (void)arg;
    sums[0] += (float)n;
}

static inline pgas_mcts_spec_t chain_spec(void)
{
    pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;
    spec.name = "chain", spec.state_bytes = sizeof(walk_t), spec.n_players = 1, spec.moves_max = 2;
    spec.moves = walk_moves, spec.apply = chain_apply, spec.outcome = chain_outcome,
    spec.playout = chain_playout;
    return spec;
}

static inline void ring_apply(void *state, pgas_mcts_move_t move, void *arg)
{
    walk_t *s = state;
    (void)arg;
    s->at = (uint16_t)((s->at + (move == 0 ? 1 : RING_PLACES - 1)) % RING_PLACES);
}

static inline bool ring_outcome(const void *state, float *values, void *arg)
{
    (void)state, (void)values, (void)arg;
    return false;
}

/* Place 3 is best. */
static inline void ring_evaluate(const void *state, float *values, void *arg)
{
    const walk_t *s = state;
    int off = abs(s->at - 3);
    (void)arg;
    values[0] = 1 - (float)(off < RING_PLACES - off ? off : RING_PLACES - off) / RING_PLACES;
}

static inline uint64_t ring_hash(const void *state, void *arg)
{
    (void)arg;
    return (((const walk_t *)state)->at + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline pgas_mcts_spec_t ring_spec(void)
{
    pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;
    spec.name = "ring", spec.state_bytes = sizeof(walk_t), spec.n_players = 1, spec.moves_max = 2;
    spec.moves = walk_moves, spec.apply = ring_apply, spec.outcome = ring_outcome,
    spec.evaluate = ring_evaluate;
    spec.hash = ring_hash;
    return spec;
}

/* ---- the answers ---- */

/* The values of all players from this state on if each makes its own best move, the first of equal
 * ones. */
static inline void solve(const pgas_mcts_spec_t *spec, const void *state, double *values)
{
    pgas_mcts_move_t moves[GAMES_MOVES_MAX];
    float priors[GAMES_MOVES_MAX], ends[PGAS_MCTS_PLAYERS_MAX];
    double of[PGAS_MCTS_PLAYERS_MAX], sum[PGAS_MCTS_PLAYERS_MAX] = { 0 };
    uint64_t child[2]; /* all states here are small */
    if (spec->outcome(state, ends, spec->arg)) {
        for (int p = 0; p < spec->n_players; p++)
            values[p] = ends[p];
        return;
    }
    int turn = spec->turn ? spec->turn(state, spec->arg) : 0;
    uint32_t n = spec->moves(state, moves, priors, spec->arg);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(child, state, spec->state_bytes);
        spec->apply(child, moves[i], spec->arg);
        solve(spec, child, of);
        for (int p = 0; p < spec->n_players; p++)
            sum[p] += priors[i] * of[p];
        if (turn >= 0 && (i == 0 || of[turn] > values[turn]))
            memcpy(values, of, (size_t)spec->n_players * sizeof *values);
    }
    if (turn == PGAS_MCTS_CHANCE)
        memcpy(values, sum, (size_t)spec->n_players * sizeof *values);
}

/* The value of a move for the player that moves; of a draw by chance, for player 0. */
static inline double solve_move(const pgas_mcts_spec_t *spec, const void *state,
                                pgas_mcts_move_t move)
{
    double values[PGAS_MCTS_PLAYERS_MAX];
    uint64_t child[2];
    memcpy(child, state, spec->state_bytes);
    spec->apply(child, move, spec->arg);
    solve(spec, child, values);
    int turn = spec->turn ? spec->turn(state, spec->arg) : 0;
    return values[turn == PGAS_MCTS_CHANCE ? 0 : turn];
}

/* The best move, the first of equals. */
static inline pgas_mcts_move_t solve_best(const pgas_mcts_spec_t *spec, const void *state)
{
    pgas_mcts_move_t moves[GAMES_MOVES_MAX], best = PGAS_MCTS_NO_MOVE;
    uint32_t n = spec->moves(state, moves, NULL, spec->arg);
    double most = -1;
    for (uint32_t i = 0; i < n; i++) {
        double value = solve_move(spec, state, moves[i]);
        best = value > most ? moves[i] : best;
        most = value > most ? value : most;
    }
    return best;
}

#endif
