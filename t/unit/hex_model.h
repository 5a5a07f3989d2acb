/* Hex for tests, slow and plain: a cell each, a search from cell to cell. It shares nothing with
 * src/mcts/hex.c but rules. */
#ifndef T_UNIT_HEX_MODEL_H
#define T_UNIT_HEX_MODEL_H

#include <string.h>
#include "mcts/hex.h"

enum { NOBODY = -1 };

typedef struct {
    int size;
    signed char cell[PGAS_HEX_SIZE_MAX][PGAS_HEX_SIZE_MAX]; /* whose stone */
} model_t;

typedef const int model_steps_t[6][2];
static model_steps_t model_steps = {
    { -1, 0 }, { -1, 1 }, { 0, -1 }, { 0, 1 }, { 1, -1 }, { 1, 0 }
};

static inline model_t model_empty(int size)
{
    model_t model = { .size = size };
    memset(model.cell, NOBODY, sizeof model.cell);
    return model;
}

static inline model_t model_of(const pgas_hex_t *hex)
{
    model_t model = model_empty(hex->size);
    for (int r = 0; r < hex->size; r++) {
        for (int c = 0; c < hex->size; c++) {
            for (int player = 0; player < 2; player++)
                if ((hex->stones[player][r] >> c & 1) != 0)
                    model.cell[r][c] = (signed char)player;
        }
    }
    return model;
}

/* The position of these stones; n_moves as if each stone were a move. */
static inline pgas_hex_t model_to_hex(const model_t *model, int turn)
{
    pgas_hex_t hex;
    (void)pgas_hex_init(&hex, model->size, false);
    for (int i = 0; i < model->size * model->size; i++) {
        int r = i / model->size, c = i % model->size;
        if (model->cell[r][c] != NOBODY) {
            hex.stones[model->cell[r][c]][r] |= UINT32_C(1) << c;
            hex.n_moves++;
        }
    }
    hex.turn = (unsigned char)turn;
    return hex;
}

/* Follows the stones of a player from its first side. @return whether one of them is at the other
 * side */
static inline bool model_joins(const model_t *model, int player, model_steps_t steps)
{
    bool seen[PGAS_HEX_SIZE_MAX][PGAS_HEX_SIZE_MAX] = { { false } };
    int todo[PGAS_HEX_SIZE_MAX * PGAS_HEX_SIZE_MAX], n = 0, last = model->size - 1;
    for (int i = 0; i <= last; i++) {
        int r = player == 0 ? 0 : i, c = player == 0 ? i : 0;
        if (model->cell[r][c] == player) {
            seen[r][c] = true;
            todo[n++] = r * model->size + c;
        }
    }
    while (n > 0) {
        int r = todo[--n] / model->size, c = todo[n] % model->size;
        if ((player == 0 ? r : c) == last)
            return true;
        for (int i = 0; i < 6; i++) {
            int y = r + steps[i][0], x = c + steps[i][1];
            if (y >= 0 && y <= last && x >= 0 && x <= last && model->cell[y][x] == player &&
                !seen[y][x]) {
                seen[y][x] = true;
                todo[n++] = y * model->size + x;
            }
        }
    }
    return false;
}

static inline int model_winner(const model_t *model)
{
    for (int color = 0; color < 2; color++)
        if (model_joins(model, color, model_steps))
            return color;
    return NOBODY;
}

/* Stores the empty cells, gives their number. */
static inline int model_empties(const model_t *model, int *cells)
{
    int n = 0;
    for (int i = 0; i < model->size * model->size; i++)
        if (model->cell[i / model->size][i % model->size] == NOBODY)
            cells[n++] = i;
    return n;
}

#endif
