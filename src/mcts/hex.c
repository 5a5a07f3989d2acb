/* Hex as a sequential problem: rows of bits, and nothing of the library but its header.
 *
 * Nearly all time goes to playouts. Where turns alternate, the cells that are empty are filled at random, half by each player,
 * and a full board has one winner, who is also the winner of the game that stopped at its end: nothing needs to be looked at
 * on the way. So each empty cell gets a random bit, then random cells of the colour that has too many change it, some four of
 * them at 11x11; all fills with the right numbers are alike before and after. Who has won is told by a flood from the top,
 * row by row: a sum of two words carries it to one side, shifts to the other. */
#include "pgas/hex.h"
#include <string.h>

#define CELLS_MAX (PGAS_HEX_SIZE_MAX * PGAS_HEX_SIZE_MAX)
#define WORDS_MAX 7 /* a board of 19 rows, three rows a word */

/* ---- who has won ------------------------------------------------------------------------------------------------ */

/* all stones of a row that are joined to some of its stones */
static inline uint32_t spread(uint32_t stones, uint32_t reached)
{
    reached |= stones & ~(stones + reached); /* up: the carry runs to the end of each row of stones */
    for (int step = 1; step < PGAS_HEX_SIZE_MAX; step *= 2) {
        reached |= stones & reached >> step;
        stones &= stones >> step;
    }
    return reached;
}

/* Goes down the rows, then up again, until nothing is added. True: what was reached first comes to the last row. */
static inline bool flood(const uint32_t *stones, uint32_t *reached, int size)
{
    for (bool grows = true; grows;) {
        for (int r = 1; r < size; r++) {
            reached[r] = spread(stones[r], reached[r] | (stones[r] & (reached[r - 1] | reached[r - 1] >> 1)));
        }
        if (reached[size - 1] != 0) {
            return true;
        }
        grows = false;
        for (int r = size - 2; r >= 0; r--) {
            uint32_t before = reached[r];
            reached[r] = spread(stones[r], before | (stones[r] & (reached[r + 1] | reached[r + 1] << 1)));
            grows |= reached[r] != before;
        }
    }
    return false;
}

static inline bool joins_top_and_bottom(const uint32_t *stones, int size)
{
    uint32_t reached[PGAS_HEX_SIZE_MAX] = { stones[0] };
    return flood(stones, reached, size);
}

/* The board reflected at its long diagonal is the same board, with the sides of the other player. */
static void reflect(const uint32_t *stones, int size, uint32_t *reflected)
{
    memset(reflected, 0, PGAS_HEX_SIZE_MAX * sizeof(*reflected));
    for (int r = 0; r < size; r++) {
        for (uint32_t left = stones[r]; left != 0; left &= left - 1) {
            reflected[__builtin_ctz(left)] |= UINT32_C(1) << r;
        }
    }
}

/* A player without a stone in each row (column) has not, which is soon seen. */
static bool has_connected(const pgas_hex_t *hex, int player)
{
    uint32_t reflected[PGAS_HEX_SIZE_MAX];
    const uint32_t *stones = hex->stones[player];
    if (player == 1) {
        uint32_t columns = 0;
        for (int r = 0; r < hex->size; r++) {
            columns |= stones[r];
        }
        if (columns != (UINT32_C(1) << hex->size) - 1) {
            return false;
        }
        reflect(stones, hex->size, reflected);
        stones = reflected;
    }
    for (int r = 0; r < hex->size; r++) {
        if (stones[r] == 0) {
            return false;
        }
    }
    return joins_top_and_bottom(stones, hex->size);
}

int pgas_hex_winner(const pgas_hex_t *hex)
{
    return has_connected(hex, 0) ? 0 : has_connected(hex, 1) ? 1 : -1;
}

/* ---- moves ------------------------------------------------------------------------------------------------------ */

pgas_status_t pgas_hex_init(pgas_hex_t *hex, int size, bool may_swap)
{
    if (size < PGAS_HEX_SIZE_MIN || size > PGAS_HEX_SIZE_MAX) {
        return PGAS_ERR_RANGE;
    }
    memset(hex, 0, sizeof(*hex));
    hex->winner = -1;
    hex->size = (uint8_t)size;
    hex->may_swap = may_swap;
    return PGAS_OK;
}

static uint32_t empty_cells(const pgas_hex_t *hex, int row)
{
    return ((UINT32_C(1) << hex->size) - 1) & ~(hex->stones[0][row] | hex->stones[1][row]);
}

static bool can_swap(const pgas_hex_t *hex)
{
    return hex->may_swap && hex->n_moves == 1;
}

static void swap_sides(pgas_hex_t *hex)
{
    reflect(hex->stones[0], hex->size, hex->stones[1]);
    memset(hex->stones[0], 0, sizeof(hex->stones[0]));
}

pgas_status_t pgas_hex_play(pgas_hex_t *hex, pgas_mcts_move_t move)
{
    uint32_t size = hex->size, row = move / size;
    bool swaps = move == PGAS_HEX_SWAP;
    if (hex->winner >= 0 || (swaps ? !can_swap(hex) : row >= size || (empty_cells(hex, (int)row) >> move % size & 1) == 0)) {
        return PGAS_ERR_RANGE;
    }
    int player = hex->turn;
    hex->n_moves++;
    hex->turn = (uint8_t)!player;
    if (swaps) {
        swap_sides(hex);
        return PGAS_OK;
    }
    hex->stones[player][row] |= UINT32_C(1) << move % size;
    if (has_connected(hex, player)) {
        hex->winner = (int8_t)player;
    }
    return PGAS_OK;
}

/* ---- playouts --------------------------------------------------------------------------------------------------- */

/* A position made ready to be filled. A word has as many whole rows as fit, from its low end. */
typedef struct {
    int size, rows_a_word, n_words;
    uint32_t n_empty;
    int n_black;                /* cells that player 0 gets */
    uint64_t empty[WORDS_MAX];
    uint64_t black[WORDS_MAX];  /* stones that are there */
    uint16_t cells[CELLS_MAX];  /* those empty, as word * 64 + bit */
} frame_t;

static void prepare(const pgas_hex_t *hex, frame_t *frame)
{
    int size = hex->size, rows = 64 / size;
    *frame = (frame_t){ .size = size, .rows_a_word = rows, .n_words = (size + rows - 1) / rows };
    for (int r = 0; r < size; r++) {
        int word = r / rows, shift = r % rows * size;
        frame->black[word] |= (uint64_t)hex->stones[0][r] << shift;
        frame->empty[word] |= (uint64_t)empty_cells(hex, r) << shift;
        for (uint32_t left = empty_cells(hex, r); left != 0; left &= left - 1) {
            frame->cells[frame->n_empty++] = (uint16_t)(word * 64 + shift + __builtin_ctz(left));
        }
    }
    frame->n_black = (int)(frame->n_empty + (hex->turn == 0)) / 2;
}

/* all stones of player 0 after a random end of the game */
static inline void fill(const frame_t *frame, pgas_mcts_rng_t *rng, uint64_t *black)
{
    int surplus = -frame->n_black;
    for (int i = 0; i < frame->n_words; i++) {
        black[i] = pgas_mcts_random(rng) & frame->empty[i];
        surplus += __builtin_popcountll(black[i]);
    }
    uint64_t from = surplus > 0;
    for (int left = surplus > 0 ? surplus : -surplus; left > 0;) {
        int cell = frame->cells[pgas_mcts_below(rng, frame->n_empty)], i = cell / 64, bit = cell % 64;
        uint64_t changes = (black[i] >> bit & 1) == from;
        black[i] ^= changes << bit;
        left -= (int)changes;
    }
    for (int i = 0; i < frame->n_words; i++) {
        black[i] |= frame->black[i];
    }
}

static inline bool black_wins(const frame_t *frame, const uint64_t *black)
{
    uint32_t rows[PGAS_HEX_SIZE_MAX], mask = (UINT32_C(1) << frame->size) - 1;
    for (int i = 0, r = 0; i < frame->n_words; i++) {
        uint64_t word = black[i];
        for (int n = 0; n < frame->rows_a_word && r < frame->size; n++, r++) {
            rows[r] = (uint32_t)word & mask;
            word >>= frame->size;
        }
    }
    return joins_top_and_bottom(rows, frame->size);
}

int pgas_hex_playouts(const pgas_hex_t *hex, pgas_mcts_rng_t *rng, int n)
{
    frame_t frame;
    uint64_t black[WORDS_MAX];
    int won = 0;
    prepare(hex, &frame);
    for (int i = 0; i < n; i++) {
        fill(&frame, rng, black);
        won += black_wins(&frame, black);
    }
    return won;
}

/* ---- the description -------------------------------------------------------------------------------------------- */

static uint32_t list_moves(const void *state, pgas_mcts_move_t *moves, float *priors, void *arg)
{
    const pgas_hex_t *hex = state;
    uint32_t n = 0;
    (void)arg;
    for (int r = 0; r < hex->size; r++) {
        for (uint32_t left = empty_cells(hex, r); left != 0; left &= left - 1) {
            moves[n++] = (uint32_t)(r * hex->size + __builtin_ctz(left));
        }
    }
    if (can_swap(hex)) {
        moves[n++] = PGAS_HEX_SWAP;
    }
    for (uint32_t i = 0; priors != NULL && i < n; i++) {
        priors[i] = 1 / (float)n;
    }
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
    if (hex->winner < 0) {
        return false;
    }
    values[0] = hex->winner == 0;
    values[1] = hex->winner == 1;
    return true;
}

static void playout(const void *state, pgas_mcts_rng_t *rng, int n, float *sums, void *arg)
{
    int won = pgas_hex_playouts(state, rng, n);
    (void)arg;
    sums[0] += (float)won;
    sums[1] += (float)(n - won);
}

/* The stones, whose turn it is, and whether there is a swap to come; of the moves before, nothing else matters. */
static uint64_t hash(const void *state, void *arg)
{
    const pgas_hex_t *hex = state;
    uint64_t h = (uint64_t)(hex->size * 4 + hex->turn * 2 + (hex->may_swap && hex->n_moves <= 1)) << 56; /* beside the rows */
    (void)arg;
    for (int r = 0; r < hex->size; r++) { /* each step is one to one, so boards that differ in one row differ here */
        h = (h ^ hex->stones[0][r] ^ (uint64_t)hex->stones[1][r] << 32) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return h ^ h >> 32;
}

#define SPEC(n)                                                                                                              \
    [n - PGAS_HEX_SIZE_MIN] = { .size = sizeof(pgas_mcts_spec_t), .name = "hex " #n, .state_bytes = sizeof(pgas_hex_t),      \
        .n_players = 2, .moves_max = n * n, .moves = list_moves, .apply = apply, .turn = turn, .outcome = outcome,           \
        .playout = playout, .hash = hash }

static const pgas_mcts_spec_t specs[] = { SPEC(2), SPEC(3), SPEC(4), SPEC(5), SPEC(6), SPEC(7), SPEC(8), SPEC(9), SPEC(10),
    SPEC(11), SPEC(12), SPEC(13), SPEC(14), SPEC(15), SPEC(16), SPEC(17), SPEC(18), SPEC(19) };

const pgas_mcts_spec_t *pgas_hex_spec(int size)
{
    return size < PGAS_HEX_SIZE_MIN || size > PGAS_HEX_SIZE_MAX ? NULL : &specs[size - PGAS_HEX_SIZE_MIN];
}
