/* hex: commands that search, and print results. */
#include <time.h>
#include "hexprog.h"

/* Searches for a color, within its clock; prints the best move. */
static bool search(session_t *s, const char *color, FILE *out)
{
    int turn = color_parse(color), n_cells = s->game.at.size * s->game.at.size;
    if (turn < 0)
        return refuse(out, "syntax error", "colors are b and w");
    if (s->game.at.winner >= 0)
        return refuse(out, "the game is over", "");
    game_t game = s->game;
    game_set_turn(&game, turn);
    double seconds = clock_share(&s->clock, turn, n_cells - s->game.n_moves),
           most = s->settings.of[TIME];
    pgas_status_t status =
        engine_think(&s->engine, &game, &s->settings, most > 0 && most < seconds ? most : seconds);
    if (status != PGAS_OK)
        return refuse(out, "the search failed", pgas_status_text(status));
    char text[16];
    move_text(s->game.at.size, s->engine.report.result.best, text);
    return fprintf(out, "%s", text) > 0;
}

static bool genmove(session_t *s, int n, char **args, FILE *out)
{
    int turn = color_parse(args[0]);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (!search(s, args[0], out))
        return false;
    clock_gettime(CLOCK_MONOTONIC, &end);
    clock_spend(&s->clock, turn,
                (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9);
    return (void)n, game_play(&s->game, turn, s->engine.report.result.best);
}

static bool reg_genmove(session_t *s, int n, char **args, FILE *out)
{
    return (void)n, search(s, args[0], out);
}

static bool found(session_t *s, FILE *out)
{
    return s->engine.report.there || refuse(out, "nothing was searched", "");
}

static bool values(session_t *s, int n, char **args, FILE *out)
{
    return (void)n, (void)args,
           found(s, out) && (report_values(&s->engine.report, MOVES_MAX, out), true);
}

static bool pv(session_t *s, int n, char **args, FILE *out)
{
    return (void)n, (void)args, found(s, out) && (report_line(&s->engine.report, out), true);
}

static bool stats(session_t *s, int n, char **args, FILE *out)
{
    return (void)n, (void)args, found(s, out) && (report_stats(&s->engine.report, out), true);
}

const command_t commands_search[] = {
    { "genmove", 1, 1, "COLOR", genmove }, { "reg_genmove", 1, 1, "COLOR", reg_genmove },
    { "values", 0, 0, "", values },        { "pv", 0, 0, "", pv },
    { "stats", 0, 0, "", stats },          { NULL, 0, 0, NULL, NULL },
};
