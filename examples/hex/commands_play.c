/* hex: commands that describe the program, set up positions and play. */
#include <string.h>
#include "hexprog.h"

static bool name(session_t *s, int n, char **args, FILE *out)
{
    return (void)s, (void)n, (void)args, fprintf(out, "libpgas hex") > 0;
}

static bool version(session_t *s, int n, char **args, FILE *out)
{
    return (void)s, (void)n, (void)args, fprintf(out, "%s", pgas_version()) > 0;
}

static bool protocol_version(session_t *s, int n, char **args, FILE *out)
{
    return (void)s, (void)n, (void)args, fprintf(out, "2") > 0;
}

static bool known_command(session_t *s, int n, char **args, FILE *out)
{
    return (void)s, (void)n, fprintf(out, "%s", command_find(args[0]) ? "true" : "false") > 0;
}

static bool list_commands(session_t *s, int n, char **args, FILE *out)
{
    (void)s, (void)n, (void)args;
    for (int i = 0; i < 3; i++)
        for (const command_t *c = command_lists[i]; c->name; c++)
            fprintf(out, "%s\n", c->name);
    return true;
}

static bool quit(session_t *s, int n, char **args, FILE *out) /* the caller knows */
{
    return (void)s, (void)n, (void)args, (void)out, true;
}

static bool clear_board(session_t *s, int n, char **args, FILE *out)
{
    (void)n, (void)args, (void)out;
    s->engine.report.there = false;
    clock_set(&s->clock, s->clock.main, s->clock.byo, s->clock.stones);
    return game_start(&s->game, (int)s->settings.of[SIZE], s->settings.of[SWAP] > 0);
}

/* "11", or "11 11" as some front ends say. */
static bool boardsize(session_t *s, int n, char **args, FILE *out)
{
    char why[MESSAGE_MAX];
    settings_t wanted = s->settings;
    if (!setting_parse(&wanted, SIZE, args[0], why) || (n == 2 && strcmp(args[0], args[1]) != 0))
        return refuse(out, "unacceptable size", "");
    s->settings = wanted;
    return clear_board(s, 0, NULL, out);
}

static bool play(session_t *s, int n, char **args, FILE *out)
{
    char why[MESSAGE_MAX];
    int color = color_parse(args[0]);
    if (color < 0)
        return refuse(out, "syntax error", "colors are b and w");
    return (void)n,
           game_play_text(&s->game, color, args[1], why) || refuse(out, "illegal move", why);
}

static bool swap_pieces(session_t *s, int n, char **args, FILE *out)
{
    char why[MESSAGE_MAX];
    (void)n, (void)args;
    return game_play_text(&s->game, s->game.at.turn, "swap-pieces", why) ||
           refuse(out, "illegal move", why);
}

static bool undo(session_t *s, int n, char **args, FILE *out)
{
    return (void)n, (void)args, game_undo(&s->game) || refuse(out, "cannot undo", "");
}

static bool showboard(session_t *s, int n, char **args, FILE *out)
{
    (void)n, (void)args, fprintf(out, "\n"); /* below the sign of the answer */
    board_show(&s->game, out);
    return true;
}

static bool final_score(session_t *s, int n, char **args, FILE *out)
{
    int winner = s->game.at.winner;
    return (void)n, (void)args,
           winner < 0 ? refuse(out, "cannot score", "") : fprintf(out, "%c+", "BW"[winner]) > 0;
}

const command_t commands_play[] = {
    { "name", 0, 0, "", name },
    { "version", 0, 0, "", version },
    { "protocol_version", 0, 0, "", protocol_version },
    { "known_command", 1, 1, "NAME", known_command },
    { "list_commands", 0, 0, "", list_commands },
    { "quit", 0, 0, "", quit },
    { "boardsize", 1, 2, "SIZE", boardsize },
    { "clear_board", 0, 0, "", clear_board },
    { "play", 2, 2, "COLOR MOVE", play },
    { "swap-pieces", 0, 0, "", swap_pieces },
    { "undo", 0, 0, "", undo },
    { "showboard", 0, 0, "", showboard },
    { "final_score", 0, 0, "", final_score },
    { NULL, 0, 0, NULL, NULL },
};
