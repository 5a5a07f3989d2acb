/** Hex as a problem for pgas/mcts.h: rhombic boards of size 2 to 19, fast playouts, the swap rule.
 *
 *      pgas_hex_init(&hex, 11, true);
 *      pgas_mcts_create(pgas_hex_spec(11), NULL, &mcts);
 *      pgas_mcts_set_state(mcts, &hex);
 *
 *  Player 0 (black, x) begins and connects the top with the bottom. Player 1 (white, o) connects
 *  left with right. The cell (row, column) has the number row * size + column; row 0 is the top.
 *  The neighbours of (r,c) are (r-1,c) (r-1,c+1) (r,c-1) (r,c+1) (r+1,c-1) (r+1,c). */
#ifndef PGAS_HEX_H
#define PGAS_HEX_H
#include "pgas/mcts.h"
PGAS_BEGIN_DECLS

#define PGAS_HEX_SIZE_MIN 2
#define PGAS_HEX_SIZE_MAX 19
/** The second player may make this move as its first one. It swaps the sides: the first player's
 *  stone at (r, c) becomes a stone of the second player at (c, r). */
#define PGAS_HEX_SWAP 0xFFFFu

/** A position. */
typedef struct {
    uint32_t stones[2][PGAS_HEX_SIZE_MAX]; /* [player][row]; bit c is column c */
    uint16_t n_moves;                      /* made so far; a swap counts as one */
    int8_t winner;                         /* 0 or 1; -1: none yet */
    uint8_t size, turn, may_swap;          /* turn: the player to move, 0 or 1 */
} pgas_hex_t;

/** Sets the empty board. @return PGAS_ERR_RANGE: there is no such size. */
PGAS_API pgas_status_t pgas_hex_init(pgas_hex_t *hex, int size, bool may_swap);
/** Makes a move for the player whose turn it is.
 *  @return PGAS_ERR_RANGE  the move is not legal, or the game is over */
PGAS_API pgas_status_t pgas_hex_play(pgas_hex_t *hex, pgas_mcts_move_t move);
/** Returns the description for boards of this size, whose states are pgas_hex_t. NULL: there is no
 *  such size. */
PGAS_API const pgas_mcts_spec_t *pgas_hex_spec(int size);

PGAS_END_DECLS
#endif
