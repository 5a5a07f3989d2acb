/* 12_mcts: Connect Four, played by Monte-Carlo tree search over all ranks.
 *
 * The program gives the rules as plain functions on a small state. They find the player to move and
 * the free columns, drop a stone, and find the winner. The library builds a tree that all ranks
 * share, and plays random games. The program plays both sides, from a position in which x can force
 * a win.
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

/* One word of x and one of o: seven bits a column, the lowest row first. The seventh bit is never
 * set, so that lines do not continue in the next column. */
typedef struct {
    uint64_t stones[2];
} board_t;

static uint64_t cell(int column, int row)
{
    return UINT64_C(1) << ((ROWS + 1) * column + row);
}

static bool is_taken(const board_t *b, int column, int row)
{
    return (b->stones[0] | b->stones[1]) & cell(column, row);
}

static bool has_four(uint64_t stones)
{
    static const int directions[] = { 1, ROWS, ROWS + 1,
                                      ROWS + 2 }; /* up, and three to the right */
    uint64_t fours = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t pairs = stones & stones >> directions[i];
        fours |= pairs & pairs >> 2 * directions[i];
    }
    return fours != 0;
}

/* ---- the rules ---- */

static int turn(const void *state, void *arg)
{
    const board_t *b = state;
    (void)arg;
    return __builtin_popcountll(b->stones[0]) > __builtin_popcountll(b->stones[1]);
}

static uint32_t moves(const void *state, pgas_mcts_move_t *columns, float *priors, void *arg)
{
    uint32_t n = 0;
    (void)priors, (void)arg; /* the program does not prefer any column */
    for (int column = 0; column < COLUMNS; column++)
        if (!is_taken(state, column, ROWS - 1))
            columns[n++] = (pgas_mcts_move_t)column;
    return n;
}

static void apply(void *state, pgas_mcts_move_t column, void *arg)
{
    board_t *b = state;
    int row = 0;
    while (is_taken(b, (int)column, row))
        row++;
    b->stones[turn(state, arg)] |= cell((int)column, row);
}

/* Values of the end: 1 for a win, 0 for a loss, a half for a draw. */
static bool outcome(const void *state, float *values, void *arg)
{
    const board_t *b = state;
    pgas_mcts_move_t unused[COLUMNS];
    bool x = has_four(b->stones[0]), o = has_four(b->stones[1]);
    values[0] = 0.5f;
    if (x)
        values[0] = 1.0f;
    else if (o)
        values[0] = 0.0f;
    values[1] = 1.0f - values[0];
    return x || o || moves(state, unused, NULL, arg) == 0;
}

/* ---- the game ---- */

static char stone_at(const board_t *b, int column, int row)
{
    if (b->stones[0] & cell(column, row))
        return 'x';
    return b->stones[1] & cell(column, row) ? 'o' : '.';
}

static void print(const board_t *b, const pgas_mcts_result_t *result)
{
    printf("%c: column %" PRIu32 " after %" PRIu64 " visits, worth %.2f%s\n", "ox"[turn(b, NULL)],
           result -> best + 1, result -> visits, result -> value,
           result -> proven ? ", proven" : "");
    for (int row = ROWS - 1; row >= 0; row--) {
        for (int column = 0; column < COLUMNS; column++)
            printf(" %c", stone_at(b, column, row));
        printf("\n");
    }
}

/* The columns played so far; ends the program if they are no game. */
static board_t parse_start(const char *played)
{
    board_t start = { { 0, 0 } };
    for (const char *c = played; *c; c++) {
        if (*c < '1' || *c > '7' || is_taken(&start, *c - '1', ROWS - 1))
            usage_exit(pgas_launcher_rank(), usage, "not columns from 1 to 7 with room", played);
        apply(&start, (pgas_mcts_move_t)(*c - '1'), NULL);
    }
    return start;
}

static uint64_t parse_rollouts(const char *text)
{
    uint64_t n = strtoull(text, NULL, 10);
    if (n == 0 || text[strspn(text, "0123456789")])
        usage_exit(pgas_launcher_rank(), usage, "not a whole number of rollouts", text);
    return n;
}

static pgas_status_t create(const board_t *start, pgas_mcts_t **search_p)
{
    pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;
    spec.name = "connect four";
    spec.state_bytes = sizeof(board_t);
    spec.n_players = 2;
    spec.moves_max = COLUMNS;
    spec.moves = moves;
    spec.apply = apply;
    spec.turn = turn;
    spec.outcome = outcome;
    pgas_status_t status = pgas_mcts_create(&spec, NULL, search_p);
    return status == PGAS_OK ? pgas_mcts_set_state(*search_p, start) : status;
}

static pgas_status_t play(pgas_mcts_t *search, uint64_t n_rollouts, float values[2])
{
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_status_t status = PGAS_OK;
    budget.rollouts = n_rollouts;
    while (status == PGAS_OK && !outcome(pgas_mcts_state(search), values, NULL)) {
        pgas_mcts_result_t result = { .size = sizeof result };
        status = pgas_mcts_search(search, &budget, &result);
        if (status == PGAS_OK)
            status = pgas_mcts_advance(search, result.best);
        if (status == PGAS_OK && pgas_rank() == 0)
            print(pgas_mcts_state(search), &result);
    }
    return status;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, usage, 2);
    board_t start = parse_start(argc > 1 ? argv[1] : "4455");
    uint64_t n_rollouts = parse_rollouts(argc > 2 ? argv[2] : "20000");
    pgas_mcts_t *search;
    float values[2];
    if (pgas_init(NULL, NULL) != PGAS_OK || create(&start, &search) != PGAS_OK ||
        play(search, n_rollouts, values) != PGAS_OK)
        return 1;

    const char *result = "a draw";
    if (values[0] > 0.5f)
        result = "won: right";
    else if (values[0] < 0.5f)
        result = "lost";
    if (pgas_rank() == 0)
        printf("x has %s\n", result);
    return pgas_mcts_destroy(search) == PGAS_OK && pgas_finalize() == PGAS_OK ? 0 : 1;
}
