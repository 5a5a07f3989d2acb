/* Hex as a sequential problem. It uses nothing else of the library.
 *
 * Nearly all time goes to playouts. Turns alternate, so a playout fills the empty cells at random,
 * half of them for each player. A full board has exactly one winner, which is also the winner of
 * the game that stops at the winning move: therefore a playout checks only the full board. Each
 * empty cell gets a random bit. Then random cells of the colour that has too many change their
 * colour, some four of them on a board of 11x11: all fills with the right numbers are equally
 * likely.
 *
 * A flood from the top, row by row, finds the winner. Within a row the carry of a sum spreads it to
 * one side, and shifts spread it to the other. */
#include "mcts/hex.h"
#include <string.h>

#include "base/bitmap.h"

/* ---- the winner ---- */

/* All stones of a row that are connected to those reached. */
static inline uint32_t spread(uint32_t stones, uint32_t reached, int size)
{
    /* the carry propagates to the end of each run of stones */
    reached |= stones & ~(stones + reached);
    for (int step = 1; step < size; step *= 2) {
        reached |= stones & reached >> step;
        stones &= stones >> step;
    }
    return reached;
}

/* Floods the stones from the top, down the rows and up again, until nothing is added. Returns
 * whether the flood reaches the bottom. */
static bool joins_top_and_bottom(const uint32_t *stones, int size)
{
    uint32_t reached[PGAS_HEX_SIZE_MAX] = { stones[0] };
    for (bool grows = true; grows;) {
        for (int r = 1; r < size; r++) {
            reached[r] =
                spread(stones[r], reached[r] | (stones[r] & (reached[r - 1] | reached[r - 1] >> 1)),
                       size);
        }
        if (reached[size - 1] != 0)
            return true;
        grows = false;
        for (int r = size - 2; r >= 0; r--) {
            uint32_t before = reached[r];
            reached[r] =
                spread(stones[r], before | (stones[r] & (reached[r + 1] | reached[r + 1] << 1)),
                       size);
            grows |= reached[r] != before;
        }
    }
    return false;
}

/* Reflects stones at the long diagonal. The board stays the same, but the sides of the players are
 * swapped. */
static void reflect(const uint32_t *stones, int size, uint32_t *reflected)
{
    memset(reflected, 0, PGAS_HEX_SIZE_MAX * sizeof *reflected);
    for (int r = 0; r < size; r++)
        for (uint32_t left = stones[r]; left != 0; left &= left - 1)
            reflected[__builtin_ctz(left)] |= UINT32_C(1) << r;
}

static uint32_t full_row(int size)
{
    return (UINT32_C(1) << size) - 1;
}

/* A player without a stone in some row, or column, has not connected. This decides most
 * positions. */
static bool has_connected(const pgas_hex_t *hex, int player)
{
    const uint32_t *stones = hex->stones[player];
    uint32_t reflected[PGAS_HEX_SIZE_MAX], columns = 0;
    int n_rows = 0;
    for (int r = 0; r < hex->size; r++) {
        n_rows += stones[r] != 0;
        columns |= stones[r];
    }
    if (player == 0)
        return n_rows == hex->size && joins_top_and_bottom(stones, hex->size);
    if (columns != full_row(hex->size))
        return false;
    reflect(stones, hex->size, reflected);
    return joins_top_and_bottom(reflected, hex->size);
}

int pgasi_hex_winner(const pgas_hex_t *hex)
{
    if (has_connected(hex, 0))
        return 0;
    return has_connected(hex, 1) ? 1 : -1;
}

/* ---- moves ---- */

pgas_status_t pgas_hex_init(pgas_hex_t *hex, int size, bool may_swap)
{
    if (size < PGAS_HEX_SIZE_MIN || size > PGAS_HEX_SIZE_MAX)
        return PGAS_ERR_RANGE;
    memset(hex, 0, sizeof *hex); /* also the padding: states are compared and sent as bytes */
    hex->winner = -1;
    hex->size = (uint8_t)size;
    hex->may_swap = may_swap;
    return PGAS_OK;
}

static uint32_t empty_cells(const pgas_hex_t *hex, uint32_t row)
{
    return full_row(hex->size) & ~(hex->stones[0][row] | hex->stones[1][row]);
}

static bool is_legal(const pgas_hex_t *hex, pgas_mcts_move_t move)
{
    uint32_t row = move / hex->size, column = move % hex->size;
    if (hex->winner >= 0)
        return false;
    return move == PGAS_HEX_SWAP ? hex->may_swap && hex->n_moves == 1
                                 : row < hex->size && (empty_cells(hex, row) >> column & 1) != 0;
}

pgas_status_t pgas_hex_play(pgas_hex_t *hex, pgas_mcts_move_t move)
{
    int player = hex->turn;
    if (!is_legal(hex, move))
        return PGAS_ERR_RANGE;
    hex->n_moves++;
    hex->turn = (uint8_t)!player;
    if (move == PGAS_HEX_SWAP) {
        reflect(hex->stones[0], hex->size, hex->stones[1]);
        memset(hex->stones[0], 0, sizeof hex->stones[0]);
        return PGAS_OK;
    }
    hex->stones[player][move / hex->size] |= UINT32_C(1) << move % hex->size;
    if (has_connected(hex, player))
        hex->winner = (int8_t)player;
    return PGAS_OK;
}

/* ---- playouts ---- */

/* The cells that a playout fills. */
typedef struct {
    uint32_t n_empty;
    int n_black;                                           /* of these, those of player 0 */
    uint32_t empty[PGAS_HEX_SIZE_MAX];                     /* as rows */
    uint16_t cells[PGAS_HEX_SIZE_MAX * PGAS_HEX_SIZE_MAX]; /* and each as row * 32 + column */
} blank_t;

static void list_empty(const pgas_hex_t *hex, blank_t *blank)
{
    blank->n_empty = 0;
    for (uint32_t r = 0; r < hex->size; r++) {
        blank->empty[r] = empty_cells(hex, r);
        for (uint32_t left = blank->empty[r]; left != 0; left &= left - 1)
            blank->cells[blank->n_empty++] = (uint16_t)(r * 32 + (uint32_t)__builtin_ctz(left));
    }
    blank->n_black = (int)(blank->n_empty + (hex->turn == 0)) / 2;
}

/* Gives player 0 its share of the empty cells. */
static inline void fill(const blank_t *blank, int size, pgas_mcts_rng_t *rng, uint32_t *black)
{
    int surplus = -blank->n_black, n_bits = 0;
    uint64_t bits = 0;
    for (int r = 0; r < size; r++, n_bits -= size, bits >>= size) {
        if (n_bits < size) {
            bits = pgas_mcts_random(rng);
            n_bits = 64;
        }
        black[r] = (uint32_t)bits & blank->empty[r];
        surplus += (int)pgasi_count_ones(black[r]);
    }
    uint32_t from = surplus > 0; /* the colour that has too many cells */
    for (int left = surplus > 0 ? surplus : -surplus; left > 0;) {
        int cell = blank->cells[pgas_mcts_random_below(rng, blank->n_empty)], r = cell / 32,
            c = cell % 32;
        uint32_t changes = (black[r] >> c & 1) == from;
        black[r] ^= changes << c;
        left -= (int)changes;
    }
}

int pgasi_hex_playouts(const pgas_hex_t *hex, pgas_mcts_rng_t *rng, int n)
{
    blank_t blank;
    uint32_t black[PGAS_HEX_SIZE_MAX];
    int size = hex->size, won = 0;
    list_empty(hex, &blank);
    for (int i = 0; i < n; i++) {
        fill(&blank, size, rng, black);
        for (int r = 0; r < size; r++)
            black[r] |= hex->stones[0][r];
        won += joins_top_and_bottom(black, size);
    }
    return won;
}

/* ---- the description ---- */

static uint32_t list_moves(const void *state, pgas_mcts_move_t *moves, float *priors, void *arg)
{
    const pgas_hex_t *hex = state;
    uint32_t n = 0;
    if (hex->size != (uintptr_t)arg) /* the description is for another size */
        return 0;
    for (uint32_t r = 0; r < hex->size; r++)
        for (uint32_t left = empty_cells(hex, r); left != 0; left &= left - 1)
            moves[n++] = r * hex->size + (uint32_t)__builtin_ctz(left);
    if (is_legal(hex, PGAS_HEX_SWAP))
        moves[n++] = PGAS_HEX_SWAP;
    for (uint32_t i = 0; priors && i < n; i++)
        priors[i] = 1 / (float)n;
    return n;
}

static void apply(void *state, pgas_mcts_move_t move, void *arg)
{
    (void)arg;
    (void)pgas_hex_play(state, move);
}

static int turn(const void *state, void *arg)
{
    (void)arg;
    return ((const pgas_hex_t *)state)->turn;
}

static bool outcome(const void *state, float *values, void *arg)
{
    const pgas_hex_t *hex = state;
    (void)arg;
    if (hex->winner < 0)
        return false;
    values[0] = hex->winner == 0;
    values[1] = hex->winner == 1;
    return true;
}

static void playout(const void *state, pgas_mcts_rng_t *rng, int n, float *sums, void *arg)
{
    int won = pgasi_hex_playouts(state, rng, n);
    (void)arg;
    sums[0] += (float)won;
    sums[1] += (float)(n - won);
}

/* Hashes the stones, the player to move, and whether a swap may still come. Nothing else of the
 * moves before matters. */
static uint64_t hash(const void *state, void *arg)
{
    const pgas_hex_t *hex = state;
    bool swap_to_come = hex->may_swap && hex->n_moves <= 1;
    /* rows do not use these bits */
    uint64_t h = (uint64_t)(hex->size * 4 + hex->turn * 2 + swap_to_come) << 56;
    (void)arg;
    /* each step is a bijection: if two boards differ in one row only, their hashes differ */
    for (int r = 0; r < hex->size; r++) {
        h = (h ^ hex->stones[0][r] ^ (uint64_t)hex->stones[1][r] << 32) *
            UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return h ^ h >> 32;
}

#define SPEC(n)                                                                                    \
    {                                                                                              \
        .size = sizeof(pgas_mcts_spec_t), .name = "hex " #n, .state_bytes = sizeof(pgas_hex_t),    \
        .n_players = 2, .moves_max = (n) * (n), .moves = list_moves, .apply = apply, .turn = turn, \
        .outcome = outcome, .playout = playout, .hash = hash, .arg = (void *)(uintptr_t)(n)        \
    }

static const pgas_mcts_spec_t specs[] = { SPEC(2),  SPEC(3),  SPEC(4),  SPEC(5),  SPEC(6),
                                          SPEC(7),  SPEC(8),  SPEC(9),  SPEC(10), SPEC(11),
                                          SPEC(12), SPEC(13), SPEC(14), SPEC(15), SPEC(16),
                                          SPEC(17), SPEC(18), SPEC(19) };

const pgas_mcts_spec_t *pgas_hex_spec(int size)
{
    return size < PGAS_HEX_SIZE_MIN || size > PGAS_HEX_SIZE_MAX ? NULL
                                                                : &specs[size - PGAS_HEX_SIZE_MIN];
}
