/** What tests use of Hex, beside pgas/hex.h. */
#ifndef PGASI_MCTS_HEX_H
#define PGASI_MCTS_HEX_H

#include "pgas/hex.h"

/** Returns the player that has connected its sides, or -1. It reads the stones, not hex->winner. */
int pgasi_hex_winner(const pgas_hex_t *hex);
/** Plays n games to their ends by random moves. Returns the number of games that player 0 wins. */
int pgasi_hex_playouts(const pgas_hex_t *hex, pgas_mcts_rng_t *rng, int n);

#endif
