/* hex: the protocol, GTP 2: a line is [id] command [arguments], # begins a comment; the answer is
 * =[id] text or ?[id] error, and an empty line. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "hexprog.h"

#define WORDS_MAX 32
#define ID_DIGITS 10

const command_t *const command_lists[3] = { commands_play, commands_search, commands_set };

bool refuse(FILE *out, const char *text, const char *more)
{
    fprintf(out, "%s%s%s", text, *more ? ": " : "", more);
    return false;
}

const command_t *command_find(const char *name)
{
    for (int i = 0; i < 3; i++)
        for (const command_t *command = command_lists[i]; command->name; command++)
            if (strcmp(command->name, name) == 0)
                return command;
    return NULL;
}

/* Cuts a line into words; WORDS_MAX + 1: there are more. */
static int split(char *line, char **words)
{
    int n = 0;
    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok(line, " "); word && n <= WORDS_MAX; word = strtok(NULL, " "))
        words[n++] = word;
    return n;
}

static bool is_id(const char *word)
{
    size_t n = strlen(word);
    return n <= ID_DIGITS && strspn(word, "0123456789") == n;
}

/* Runs a command. @return false: it has printed an error */
static bool run(session_t *session, int n_words, char **words, bool too_long, FILE *out)
{
    if (too_long)
        return fprintf(out, "syntax error: a line has at most %d characters", LINE_BYTES) < 0;
    if (n_words == 0)
        return fprintf(out, "syntax error: no command") < 0;
    const command_t *command = command_find(words[0]);
    if (!command)
        return fprintf(out, "unknown command") < 0;
    if (n_words - 1 < command->n_least || n_words - 1 > command->n_most)
        return fprintf(out, "syntax error: %s%s%s", command->name, *command->args ? " " : "",
                       command->args) < 0;
    return command->run(session, n_words - 1, words + 1, out);
}

/* Without blank lines at the end: one of those ends the answer. */
static bool answer(bool good, const char *id, char *text, size_t length)
{
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    bool apart = length > 0 && text[0] != '\n';
    printf("%c%s%s%s\n\n", good ? '=' : '?', id, apart ? " " : "", text);
    return fflush(stdout) == 0;
}

/* @return true: the session continues */
static bool do_line(session_t *session, char *line)
{
    char *words[WORDS_MAX + 1], *text = NULL;
    size_t length = 0;
    bool too_long = strlen(line) > LINE_BYTES;
    int n_words = split(line, words);
    const char *id = n_words > 0 && is_id(words[0]) ? words[0] : "";
    int skip = *id != '\0';
    bool quit = n_words - skip == 1 && strcmp(words[skip], "quit") == 0;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return false;
    bool good = run(session, n_words - skip, words + skip, too_long, out);
    bool went = fclose(out) == 0 && answer(good, id, text, length);
    free(text);
    return went && !quit && !session->engine.broken;
}

int gtp_run(session_t *session)
{
    bool on = input_start();
    if (!on)
        fprintf(stderr, "hex: no thread for standard input\n");
    for (char *line; on && (line = input_take());) {
        on = do_line(session, line);
        free(line);
    }
    return ferror(stdout) || session->engine.broken;
}
