/* A player of Hex for t/spmd/hex_match.t, no test by itself.
 *   hex_player SIZE ROLLOUTS
 * Rank 0 reads commands and answers each with a move, or -1, and the winner, or -1:
 *   new SEED    a new game, searched with this seed
 *   play CELL   the other's move, or an opening
 *   go          searches ROLLOUTS rollouts, on from what is known, and makes the best move
 *   quit, or the end of input */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pgas/hex.h"
#include "pgas/pgas.h"

typedef struct {
    enum { NEW, PLAY, GO, QUIT } what;
    uint64_t number;
} command_t;

static int size;
static uint64_t rollouts;
static pgas_mcts_t *mcts;

static command_t read_command(void)
{
    char line[100], word[10];
    command_t c = { QUIT, 0 };
    if (!fgets(line, sizeof line, stdin) || sscanf(line, "%9s %" SCNu64, word, &c.number) < 1)
        return c;
    if (strcmp(word, "new") == 0)
        c.what = NEW;
    else if (strcmp(word, "play") == 0)
        c.what = PLAY;
    else if (strcmp(word, "go") == 0)
        c.what = GO;
    return c;
}

static bool begin(uint64_t seed)
{
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    pgas_hex_t hex;
    opts.seed = seed;
    return pgas_mcts_destroy(mcts) == PGAS_OK &&
           pgas_mcts_create(pgas_hex_spec(size), &opts, &mcts) == PGAS_OK &&
           pgas_hex_init(&hex, size, false) == PGAS_OK &&
           pgas_mcts_set_state(mcts, &hex) == PGAS_OK;
}

static bool obey(command_t c, int *move_p)
{
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_mcts_result_t info = { .size = sizeof info };
    *move_p = -1;
    if (c.what == NEW)
        return begin(c.number);
    if (c.what == PLAY)
        return pgas_mcts_advance(mcts, (pgas_mcts_move_t)c.number) == PGAS_OK;
    budget.rollouts = rollouts;
    if (pgas_mcts_search(mcts, &budget, &info) != PGAS_OK || info.lost > 0 ||
        info.best == PGAS_MCTS_NO_MOVE)
        return false;
    *move_p = (int)info.best;
    return pgas_mcts_advance(mcts, info.best) == PGAS_OK;
}

int main(int argc, char **argv)
{
    bool good = true;
    if (argc != 3 || pgas_init(NULL, NULL) != PGAS_OK)
        return 2;
    size = atoi(argv[1]);
    rollouts = strtoull(argv[2], NULL, 10);
    while (good) {
        int move;
        command_t c = { QUIT, 0 };
        if (pgas_rank() == 0)
            c = read_command();
        pgas_broadcast(NULL, &c, sizeof c, 0);
        if (c.what == QUIT || (c.what != NEW && !mcts))
            break;
        good = obey(c, &move);
        if (pgas_rank() == 0 && good)
            printf("%d %d\n", move, ((const pgas_hex_t *)pgas_mcts_state(mcts))->winner);
        fflush(stdout);
    }
    good = pgas_mcts_destroy(mcts) == PGAS_OK && good;
    return pgas_finalize() == PGAS_OK && good ? 0 : 1;
}
