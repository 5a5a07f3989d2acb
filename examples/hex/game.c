/* hex: the game as it is played, moves as text. */
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "hexprog.h"

const char *const color_name[2] = { "black", "white" };

int color_parse(const char *text)
{
    for (int i = 0; i < 2; i++)
        if (strcasecmp(text, color_name[i]) == 0 ||
            (tolower((unsigned char)text[0]) == color_name[i][0] && !text[1]))
            return i;
    return -1;
}

bool game_start(game_t *game, int size, bool may_swap)
{
    memset(game, 0, sizeof *game);
    game->may_swap = may_swap;
    return pgas_hex_init(&game->at, size, may_swap) == PGAS_OK;
}

/* A move out of turn ends the right to swap, which belongs to the other color's first answer. */
void game_set_turn(game_t *game, int turn)
{
    game->at.may_swap = game->at.may_swap && turn == game->at.turn;
    game->at.turn = (uint8_t)turn;
}

bool game_play(game_t *game, int turn, pgas_mcts_move_t move)
{
    pgas_hex_t before = game->at;
    game_set_turn(game, turn);
    if (game->n_moves == MOVES_MAX || pgas_hex_play(&game->at, move) != PGAS_OK)
        return game->at = before, false;
    game->turns[game->n_moves] = (uint8_t)turn;
    game->moves[game->n_moves++] = move;
    return true;
}

/* The first n moves of a game, with or without the swap rule. */
static bool replay(game_t *game, int n, bool may_swap)
{
    game_t again;
    game_start(&again, game->at.size, may_swap);
    for (int i = 0; i < n; i++)
        if (!game_play(&again, game->turns[i], game->moves[i]))
            return false;
    *game = again;
    return true;
}

bool game_undo(game_t *game)
{
    return game->n_moves > 0 && replay(game, game->n_moves - 1, game->may_swap);
}

bool game_set_swap(game_t *game, bool may_swap)
{
    return replay(game, game->n_moves, may_swap);
}

void move_text(int size, pgas_mcts_move_t move, char text[16])
{
    if (move == PGAS_HEX_SWAP)
        strcpy(text, "swap-pieces");
    else
        snprintf(text, 16, "%c%u", (char)('a' + (int)(move % (unsigned)size)),
                 (unsigned)(move / (unsigned)size + 1) & 31);
}

/* A letter and a number without leading zeros; NO_MOVE: not that, or not on the board. */
static pgas_mcts_move_t move_parse(int size, const char *text)
{
    if (strcasecmp(text, "swap-pieces") == 0)
        return PGAS_HEX_SWAP;
    int column = tolower((unsigned char)text[0]) - 'a', row = 0;
    if (column < 0 || column >= size || text[1] == '0' || strlen(text + 1) > 2)
        return PGAS_MCTS_NO_MOVE;
    for (const char *digit = text + 1; *digit; digit++) {
        if (!isdigit((unsigned char)*digit))
            return PGAS_MCTS_NO_MOVE;
        row = row * 10 + *digit - '0';
    }
    return row >= 1 && row <= size ? (pgas_mcts_move_t)((row - 1) * size + column)
                                   : PGAS_MCTS_NO_MOVE;
}

bool game_play_text(game_t *game, int turn, const char *text, char why[MESSAGE_MAX])
{
    pgas_mcts_move_t move = move_parse(game->at.size, text);
    if (move == PGAS_MCTS_NO_MOVE)
        snprintf(why, MESSAGE_MAX, "no such cell");
    else if (game->at.winner >= 0)
        snprintf(why, MESSAGE_MAX, "the game is over");
    else if (move == PGAS_HEX_SWAP && !game->may_swap)
        snprintf(why, MESSAGE_MAX, "the swap rule is off");
    else if (!game_play(game, turn, move))
        snprintf(why, MESSAGE_MAX,
                 move == PGAS_HEX_SWAP ? "only the second move can be a swap"
                                       : "the cell is taken");
    else
        return true;
    return false;
}
