/** Hex as a problem of pgas/mcts.h: rhombic boards of size 2 to 19, fast playouts, the swap rule.
 *
 *  Player 0 (black, x) connects the top with the bottom, player 1 (white, o) left with right; black
 *  begins. Cell (row, column) is row * size + column, row 0 is the top; its neighbours are (r-1,c)
 *  (r-1,c+1) (r,c-1) (r,c+1) (r+1,c-1) (r+1,c). As text a letter for the column and a number for
 *  the row from 1: a1 is the upper left corner. There is always one winner. */
#ifndef PGAS_HEX_H
#define PGAS_HEX_H

#include "pgas/mcts.h"

PGAS_BEGIN_DECLS

#define PGAS_HEX_SIZE_MIN 2
#define PGAS_HEX_SIZE_MAX 19
/** The second player's first move may be this: sides are swapped, that is, the stone of the first
 *  player becomes the second player's, reflected at the long diagonal: (r, c) to (c, r). */
#define PGAS_HEX_SWAP 0xFFFFu

/** A position: row r of a player's stones, bit c is column c. */
typedef struct {
    uint32_t stones[2][PGAS_HEX_SIZE_MAX]; /* [player][row] */
    uint16_t n_moves;                      /* made so far; a swap is one */
    int8_t winner;                         /* 0, 1; -1: nobody yet */
    uint8_t size;
    uint8_t turn;     /* 0, 1 */
    uint8_t may_swap; /* the swap rule holds */
} pgas_hex_t;

/** The empty board. @return PGAS_OK, PGAS_ERR_RANGE (size). */
PGAS_API pgas_status_t pgas_hex_init(pgas_hex_t *hex, int size, bool may_swap);
/** Makes a move of the player whose turn it is. @return PGAS_OK, PGAS_ERR_RANGE (no such cell, not
 *  empty, a swap that is not allowed, or the game is over): nothing has changed. */
PGAS_API pgas_status_t pgas_hex_play(pgas_hex_t *hex, pgas_mcts_move_t move);
/** Who has connected its sides: 0, 1; -1: nobody. Looks at the stones, not at the field. */
PGAS_API int pgas_hex_winner(const pgas_hex_t *hex);
/** Plays n games to the end by random moves of whose turn it is; how many player 0 wins. */
PGAS_API int pgas_hex_playouts(const pgas_hex_t *hex, pgas_mcts_rng_t *rng, int n);

/** The description for searches of boards of this size: constant, for ever. NULL: no such size.
 *  States are pgas_hex_t. */
PGAS_API const pgas_mcts_spec_t *pgas_hex_spec(int size);

PGAS_END_DECLS
#endif
