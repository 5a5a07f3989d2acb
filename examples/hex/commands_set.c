/* hex: commands for clocks, settings and files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hexprog.h"

/* A whole number of seconds or stones; -1: something else. */
static int count(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length <= 7 && strspn(text, "0123456789") == length ? atoi(text) : -1;
}

static bool time_settings(session_t *s, int n, char **args, FILE *out)
{
    int main_time = count(args[0]), byo = count(args[1]), stones = count(args[2]);
    if (main_time < 0 || byo < 0 || stones < 0)
        return refuse(out, "syntax error", "times are whole seconds, then a number of stones");
    return (void)n, clock_set(&s->clock, main_time, byo, stones), true;
}

static bool time_left(session_t *s, int n, char **args, FILE *out)
{
    int turn = color_parse(args[0]), left = count(args[1]), stones = count(args[2]);
    if (turn < 0 || left < 0 || stones < 0)
        return refuse(out, "syntax error", "a color, whole seconds, a number of stones");
    return (void)n, clock_tell(&s->clock, turn, left, stones), true;
}

static bool param(session_t *s, int n, char **args, FILE *out)
{
    char why[MESSAGE_MAX];
    settings_t wanted = s->settings;
    int which = n > 0 ? setting_find(args[0]) : 0;
    if (n == 0)
        for (int i = SIZE + 1; i < N_SETTINGS; i++)
            setting_show(&s->settings, i, out);
    if (which < 0)
        return refuse(out, "no such parameter", "");
    if (n == 1)
        setting_show(&s->settings, which, out);
    if (n < 2)
        return true;
    if (which == SIZE)
        return refuse(out, "use boardsize", "");
    if (!setting_parse(&wanted, which, args[1], why))
        return refuse(out, "syntax error", why);
    if (!game_set_swap(&s->game, wanted.of[SWAP] > 0))
        return refuse(out, "a swap was made in this game", "");
    return s->settings = wanted, true;
}

static bool loadsgf(session_t *s, int n, char **args, FILE *out)
{
    char why[MESSAGE_MAX];
    if (!sgf_read(args[0], &s->game, why))
        return refuse(out, "cannot load file", why);
    s->settings.of[SIZE] = s->game.at.size;
    s->settings.of[SWAP] = s->game.may_swap;
    s->engine.report.there = false;
    return (void)n, fprintf(out, "%s", color_name[s->game.at.turn]) > 0;
}

static bool printsgf(session_t *s, int n, char **args, FILE *out)
{
    if (n == 1)
        return sgf_save(&s->game, args[0]) || refuse(out, "cannot save file", strerror(errno));
    sgf_write(&s->game, out);
    return true;
}

static bool analyze_commands(session_t *s, int n, char **args, FILE *out)
{
    (void)s, (void)n, (void)args;
    return fprintf(
               out,
               "string/Values/values\nstring/Principal Variation/pv\nstring/Statistics/stats\n") >
           0;
}

const command_t commands_set[] = {
    { "time_settings", 3, 3, "MAIN BYO STONES", time_settings },
    { "time_left", 3, 3, "COLOR SECONDS STONES", time_left },
    { "param", 0, 2, "[NAME [VALUE]]", param },
    { "loadsgf", 1, 1, "FILE", loadsgf },
    { "printsgf", 0, 1, "[FILE]", printsgf },
    { "hexgui-analyze_commands", 0, 0, "", analyze_commands },
    { NULL, 0, 0, NULL, NULL },
};
