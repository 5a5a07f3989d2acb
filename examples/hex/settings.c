/* hex: settings. All are numbers here; those that are words are counted in the order of the
 * table. */
#include <stdlib.h>
#include <string.h>
#include "hexprog.h"

static const struct {
    const char *name;
    double least, most, standard;
    const char *words; /* NULL: a number */
    bool whole;
    const char *help;
} table[N_SETTINGS] = {
    [SIZE] = { "size", PGAS_HEX_SIZE_MIN, PGAS_HEX_SIZE_MAX, 11, NULL, true, "of the board" },
    [SWAP] = { "swap", 0, 1, 0, "off on", true,
               "the second player may swap sides instead of his first move" },
    [ROLLOUTS] = { "rollouts", 0, 1e15, 0, NULL, true,
                   "of a search; 0: no limit, or 100000 without any other" },
    [TIME] = { "time", 0, 1e6, 0, NULL, false, "of a search, seconds; 0: no limit" },
    [THREADS] = { "threads", 1, 256, 1, NULL, true, "of each rank" },
    [PLAYOUTS] = { "playouts", 1, 65535, 16, NULL, true, "of a rollout" },
    [POLICY] = { "policy", 0, 1, 0, "ucb1 puct", true, "how a child is selected" },
    [EXPLORATION] = { "exploration", 0, 1000, 0, NULL, false,
                      "the policy's constant; 0: its default" },
    [FPU] = { "fpu", 0, 1, 0, NULL, false,
              "the value of moves not yet tried; 0: the policy's default" },
    [PENDING] = { "pending", 0, 2, 0, "unobserved loss ignored", true,
                  "how rollouts under way count" },
    [PLACE] = { "place", 0, 2, 0, "random hash near", true, "where children live" },
    [AGG] = { "agg", 0, 1, 0, "trad ovfl", true, "how calls are gathered" },
    [MODE] = { "mode", 0, 2, 0, "tree root leaf", true, "what ranks share" },
    [SEED] = { "seed", 0, 9007199254740992.0, 1, NULL, true, "of the random numbers" },
    [MEMORY] = { "memory", 1, 1048576, 1024, NULL, true, "of nodes on a rank at most, MiB" },
};

void settings_init(settings_t *settings)
{
    for (int i = 0; i < N_SETTINGS; i++)
        settings->of[i] = table[i].standard;
}

int setting_find(const char *name)
{
    for (int i = 0; i < N_SETTINGS; i++)
        if (strcmp(name, table[i].name) == 0)
            return i;
    return -1;
}

const char *setting_name(int which)
{
    return table[which].name;
}

bool setting_is_flag(int which)
{
    return which == SWAP;
}

/* The number of a word in "one two three"; -1: none. */
static int word_find(const char *words, const char *text)
{
    size_t length = strlen(text);
    for (int i = 0; length > 0 && *words; i++) {
        size_t n = strcspn(words, " ");
        if (n == length && memcmp(words, text, n) == 0)
            return i;
        words += n + (words[n] == ' ');
    }
    return -1;
}

bool setting_parse(settings_t *settings, int which, const char *text, char why[MESSAGE_MAX])
{
    char *end;
    double value = table[which].words ? word_find(table[which].words, text) : strtod(text, &end);
    bool good = value >= table[which].least && value <= table[which].most;
    if (!table[which].words) /* plain decimal numbers only */
        good = good && *text && !*end && !text[strspn(text, "0123456789.")] &&
               (!table[which].whole || !strchr(text, '.'));
    if (good)
        settings->of[which] = value;
    else if (table[which].words)
        snprintf(why, MESSAGE_MAX, "%s is one of: %s", table[which].name, table[which].words);
    else
        snprintf(why, MESSAGE_MAX, "%s is a %snumber from %.0f to %.0f", table[which].name,
                 table[which].whole ? "whole " : "", table[which].least, table[which].most);
    return good;
}

void setting_show(const settings_t *settings, int which, FILE *out)
{
    const char *words = table[which].words;
    for (int i = 0; words && i < (int)settings->of[which]; i++)
        words += strcspn(words, " ") + 1;
    if (words)
        fprintf(out, "%s %.*s\n", table[which].name, (int)strcspn(words, " "), words);
    else
        fprintf(out, "%s %.16g\n", table[which].name, settings->of[which]);
}

void settings_help(FILE *out)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        bool words = table[i].words && !setting_is_flag(i);
        fprintf(out, "  --%-14s %s%s%s", table[i].name, table[i].help, words ? ": " : "",
                words ? table[i].words : "");
        fprintf(out, table[i].standard > 0 ? " (%.0f)\n" : "\n", table[i].standard);
    }
}

void settings_to_opts(const settings_t *settings, pgas_mcts_opts_t *opts)
{
    *opts = (pgas_mcts_opts_t)PGAS_MCTS_OPTS_INIT;
    opts->n_threads = (int)settings->of[THREADS];
    opts->playouts = (int)settings->of[PLAYOUTS];
    opts->policy = settings->of[POLICY] > 0 ? PGAS_MCTS_PUCT : PGAS_MCTS_UCB1;
    opts->exploration = settings->of[EXPLORATION];
    opts->fpu = settings->of[FPU];
    /* words in the order of the enumerations */
    opts->pending = (pgas_mcts_pending_t)settings->of[PENDING];
    opts->place = (pgas_mcts_place_t)settings->of[PLACE];
    opts->style = settings->of[AGG] > 0 ? PGAS_AGG_OVERFLOW : PGAS_AGG_TRAD;
    opts->mode = (pgas_mcts_mode_t)settings->of[MODE];
    opts->seed = (uint64_t)settings->of[SEED];
    opts->memory_bytes = (size_t)settings->of[MEMORY] << 20;
}
