/* hex: without the protocol: one position, or one game against itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hexprog.h"

#define VALUES_SHOWN 10

static int failed(const char *what, const char *why)
{
    fprintf(stderr, "hex: %s%s%s\n", what, *what ? ": " : "", why);
    return 1;
}

/* Makes the moves of a text with blanks between them; false: *why says which one is wrong. */
static bool play_text(game_t *game, const char *moves, char why[MESSAGE_MAX])
{
    char *copy = strdup(moves), cause[MESSAGE_MAX];
    bool good = copy != NULL;
    for (char *word = good ? strtok(copy, " ,\t\n") : NULL; word && good;
         word = strtok(NULL, " ,\t\n")) {
        good = game_play_text(game, game->at.turn, word, cause);
        if (!good)
            snprintf(why, MESSAGE_MAX, "illegal move %.20s: %.200s", word, cause);
    }
    free(copy);
    return good;
}

/* Interim result of a search: "black: b2 0.531, 4096 rollouts". */
static const char *outcome(const pgas_mcts_result_t *result, const game_t *game, char text[64])
{
    char move[16] = "";
    if (result->best != PGAS_MCTS_NO_MOVE)
        move_text(game->at.size, result->best, move);
    snprintf(text, 64, "%s: %s %.3f, %llu rollouts", color_name[game->at.turn], move, result->value,
             (unsigned long long)result->rollouts);
    return text;
}

static void show_search(const pgas_mcts_result_t *result, void *arg)
{
    const session_t *session = arg;
    double total = session->settings.of[ROLLOUTS]; /* 0: it ends by time, or by default */
    char text[64];
    if (total <= 0 && session->settings.of[TIME] <= 0)
        total = DEFAULT_ROLLOUTS;
    pgas_progress_show("search", result->rollouts, (uint64_t)total,
                       outcome(result, &session->game, text));
}

int analyse(session_t *session, const char *path, const char *moves)
{
    char why[MESSAGE_MAX] = "out of memory";
    if (path && !sgf_read(path, &session->game, why))
        return failed("", why);
    if (moves && !play_text(&session->game, moves, why))
        return failed("", why);
    board_show(&session->game, stdout);
    if (session->game.at.winner >= 0)
        return 0;
    session->engine.progress = show_search;
    session->engine.progress_arg = session;
    pgas_status_t status = engine_think(&session->engine, &session->game, &session->settings, 0);
    pgas_progress_show(NULL, 0, 0, NULL);
    if (status != PGAS_OK)
        return failed("the search failed", pgas_status_text(status));
    const report_t *report = &session->engine.report;
    char text[16];
    move_text(report->size, report->result.best, text);
    printf("\nbest move %s, value %.4f%s\n\nprincipal variation ", text, report->result.value,
           report->result.proven ? ", proven" : "");
    report_line(report, stdout);
    printf("\n");
    report_values(report, VALUES_SHOWN, stdout);
    printf("\n");
    report_stats(report, stdout);
    return 0;
}

static void show_game(const pgas_mcts_result_t *result, void *arg)
{
    const game_t *game = arg;
    char text[64];
    pgas_progress_show("moves", (uint64_t)game->n_moves, 0, outcome(result, game, text));
}

int selfplay(session_t *session, const char *path)
{
    game_t *game = &session->game;
    pgas_status_t status = PGAS_OK;
    session->engine.progress = show_game;
    session->engine.progress_arg = game;
    while (game->at.winner < 0 && status == PGAS_OK) {
        status = engine_think(&session->engine, game, &session->settings, 0);
        if (status == PGAS_OK &&
            !game_play(game, game->at.turn, session->engine.report.result.best))
            status = PGAS_ERR_MISMATCH;
    }
    pgas_progress_show(NULL, 0, 0, NULL);
    if (status != PGAS_OK)
        return failed("the search failed", pgas_status_text(status));
    if (path && !sgf_save(game, path))
        return failed(path, strerror(errno));
    if (!path)
        sgf_write(game, stdout);
    return 0;
}
