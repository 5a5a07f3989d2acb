/* 12_mcts: Connect Four, played by Monte-Carlo tree search over all ranks.
 *
 * The rules are plain functions on a small state: who has won, which columns are free, drop a
 * stone. Of them the library makes a tree shared by all ranks, and random games. Here both sides
 * are played, from where x can force a win.
 *
 *   mpirun -n 2 build/examples/12_mcts */
#include <pgas/pgas.h>
#include <pgas/mcts.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"
enum { COLUMNS = 7, ROWS = 6 };
static const char usage[] =
    "12_mcts [COLUMNS played so far; 4455] [ROLLOUTS for each move; 20000]\n";

typedef struct {
    /* of x and o: seven bits a column, the lowest row first; the last stays empty */
    uint64_t stones[2];
} board_t;
static uint64_t cell(int column, int row)
{
    return UINT64_C(1) << ((ROWS + 1) * column + row);
}

static bool taken(const board_t *b, int column, int row)
{
    return (b->stones[0] | b->stones[1]) & cell(column, row);
}

static int turn(const void *state, void *arg)
{
    const board_t *b = state;
    (void)arg;
    return __builtin_popcountll(b->stones[0]) > __builtin_popcountll(b->stones[1]);
}

static bool has_four(uint64_t stones)
{
    static const int steps[] = { 1, ROWS, ROWS + 1,
                                 ROWS + 2 }; /* up, down right, right, up right */
    uint64_t fours = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t pairs = stones & stones >> steps[i];
        fours |= pairs & pairs >> 2 * steps[i];
    }
    return fours != 0;
}

static uint32_t moves(const void *state, pgas_mcts_move_t *columns, float *priors, void *arg)
{
    uint32_t n = 0;
    (void)priors, (void)arg; /* no column is known to be better */
    for (int column = 0; column < COLUMNS; column++) {
        columns[n] = (pgas_mcts_move_t)column;
        n += !taken(state, column, ROWS - 1);
    }
    return n;
}

static bool outcome(const void *state, float *values, void *arg)
{
    const board_t *b = state;
    pgas_mcts_move_t unused[COLUMNS];
    bool x = has_four(b->stones[0]), o = has_four(b->stones[1]);
    values[0] = x ? 1.0f : o ? 0.0f : 0.5f;
    values[1] = 1.0f - values[0];
    return x || o || moves(state, unused, NULL, arg) == 0;
}

static void apply(void *state, pgas_mcts_move_t column, void *arg)
{
    board_t *b = state;
    int row = 0;
    for (; taken(b, (int)column, row); row++) {
    }
    b->stones[turn(state, arg)] |= cell((int)column, row);
}

static void print(const board_t *b)
{
    for (int row = ROWS - 1; row >= 0; row--) {
        for (int column = 0; column < COLUMNS; column++)
            printf(" %c", b->stones[0] & cell(column, row)   ? 'x'
                          : b->stones[1] & cell(column, row) ? 'o'
                                                             : '.');
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, usage, 2);
    const char *played = argc > 1 ? argv[1] : "4455", *rollouts = argc > 2 ? argv[2] : "20000";
    pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;
    spec.name = "connect four", spec.state_bytes = sizeof(board_t), spec.n_players = 2,
    spec.moves_max = COLUMNS;
    spec.moves = moves, spec.apply = apply, spec.turn = turn, spec.outcome = outcome;
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    budget.rollouts = strtoull(rollouts, NULL, 10);
    pgas_mcts_t *search;
    float values[2];
    board_t start = { { 0, 0 } };
    for (; *played >= '1' && *played <= '7' && !taken(&start, *played - '1', ROWS - 1); played++)
        apply(&start, (pgas_mcts_move_t)(*played - '1'), NULL);
    if (*played)
        usage_exit(pgas_launcher_rank(), usage, "not columns from 1 to 7 with room", argv[1]);
    if (budget.rollouts == 0 || rollouts[strspn(rollouts, "0123456789")])
        usage_exit(pgas_launcher_rank(), usage, "not a whole number of rollouts", rollouts);
    if (pgas_init(NULL, NULL) != PGAS_OK || pgas_mcts_create(&spec, NULL, &search) != PGAS_OK ||
        pgas_mcts_set_state(search, &start) != PGAS_OK)
        return 1;
    while (!outcome(pgas_mcts_state(search), values, NULL)) {
        pgas_mcts_info_t info;
        if (pgas_mcts_search(search, &budget, &info) != PGAS_OK ||
            pgas_mcts_advance(search, info.best) != PGAS_OK)
            return 1;
        if (pgas_rank() == 0) {
            const board_t *b = pgas_mcts_state(search);
            printf("%c: column %" PRIu32 " after %" PRIu64 " visits, worth %.2f%s\n",
                   "ox"[turn(b, NULL)], info.best + 1, info.visits, info.value,
                   info.proven ? ", proven" : "");
            print(b);
        }
    }
    if (pgas_rank() == 0)
        printf("x has %s\n", values[0] > 0.5f   ? "won: right"
                             : values[0] < 0.5f ? "lost"
                                                : "a draw");
    return pgas_mcts_destroy(search) == PGAS_OK && pgas_finalize() == PGAS_OK ? 0 : 1;
}
