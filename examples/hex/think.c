/* hex: a search on behalf of rank 0. A change of settings creates a new search. The tree is kept
 * while the game continues from the position at its root. */
#include <string.h>
#include "hexprog.h"

#define FEW 64 /* rollouts, to have a move at all */

static pgas_status_t create(engine_t *engine, const game_t *game, const settings_t *settings)
{
    pgas_mcts_opts_t opts;
    settings_t made = *settings;
    made.of[SIZE] = game->at.size;
    made.of[SWAP] = made.of[ROLLOUTS] = made.of[TIME] = 0; /* no matter of the search itself */
    if (engine->search && memcmp(&made, &engine->made, sizeof made) == 0)
        return PGAS_OK;
    settings_to_opts(settings, &opts);
    engine->made = made;
    engine->root.n_moves = -1;
    return engine_create(engine, game->at.size, &opts);
}

/* Moves the root of the tree to the position: by moves, if the position is below the root. */
static pgas_status_t lead(engine_t *engine, const game_t *game)
{
    game_t *root = &engine->root;
    int n = root->n_moves, turn = root->at.turn;
    bool on_the_way = n >= 0 && n <= game->n_moves && root->at.may_swap == game->at.may_swap &&
                      memcmp(root->moves, game->moves, (size_t)n * sizeof *root->moves) == 0 &&
                      memcmp(root->turns, game->turns, (size_t)n) == 0;
    for (int i = n; on_the_way && i < game->n_moves; i++, turn = !turn)
        on_the_way = game->turns[i] == turn;
    on_the_way = on_the_way && turn == game->at.turn; /* the tree knows of turns alone */
    pgas_status_t status = on_the_way ? PGAS_OK : engine_state(engine, &game->at);
    for (; on_the_way && n < game->n_moves && status == PGAS_OK; n++)
        status = engine_advance(engine, game->moves[n]);
    *root = *game;
    if (status != PGAS_OK)
        root->n_moves = -1;
    return status;
}

static void limit(pgas_mcts_budget_t *budget, const settings_t *settings, double seconds)
{
    budget->rollouts = (uint64_t)settings->of[ROLLOUTS];
    budget->time_us = (int64_t)((seconds > 0 ? seconds : settings->of[TIME]) * 1e6);
    if (budget->rollouts == 0 && budget->time_us == 0)
        budget->rollouts = DEFAULT_ROLLOUTS;
}

static pgas_status_t search(engine_t *engine, pgas_mcts_budget_t *budget)
{
    input_watch(engine->search);
    pgas_status_t status = engine_search(engine, budget);
    input_watch(NULL);
    pgas_mcts_stop(engine->search, false);
    if (status != PGAS_OK || engine->report.result.best != PGAS_MCTS_NO_MOVE)
        return status;
    pgas_mcts_budget_t few = { .size = sizeof few, .rollouts = FEW };
    status = engine_search(engine, &few); /* it was stopped before it had begun */
    engine->report.result.end = PGAS_MCTS_BY_STOP;
    return status;
}

static pgas_status_t gather(engine_t *engine, int size)
{
    report_t *report = &engine->report;
    report->size = size;
    report->info.size = sizeof report->info;
    pgas_status_t status = pgas_mcts_info(engine->search, &report->info);
    if (status == PGAS_OK)
        status =
            pgas_mcts_children(engine->search, report->children, MOVES_MAX, &report->n_children);
    if (status == PGAS_OK)
        status = pgas_mcts_variation(engine->search, report->line, PGAS_MCTS_VARIATION_MAX,
                                     &report->n_line);
    if (status == PGAS_OK && report->result.best == PGAS_MCTS_NO_MOVE)
        status = PGAS_ERR_NO_MEMORY; /* not even for the children of the root */
    report->there = status == PGAS_OK;
    return status;
}

pgas_status_t engine_think(engine_t *engine, const game_t *game, const settings_t *settings,
                           double seconds)
{
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    limit(&budget, settings, seconds);
    engine->report.there = false;
    pgas_status_t status = create(engine, game, settings);
    if (status == PGAS_OK)
        status = lead(engine, game);
    if (status == PGAS_OK)
        status = search(engine, &budget);
    return status == PGAS_OK ? gather(engine, game->at.size) : status;
}
