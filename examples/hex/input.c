/* hex: standard input. A thread reads it as it arrives, so that a command can stop a search; lines
 * wait in a list. A line that was there before the last command was taken waits for its turn:
 * programs may send many commands at once. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hexprog.h"

#define LINES_MAX 4096 /* waiting; then the reader waits, too */

typedef struct line {
    struct line *next;
    char *text;
} line_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static line_t *first, **last = &first;
static int n_lines;
/* at the end of input; something has come since the last line was taken */
static bool ended, arrived;
static pgas_mcts_t *watched;

/* Called with the lock held. It drops blank lines and comments, so that they stop no search. */
static void push(const char *text)
{
    size_t blanks = strspn(text, " ");
    if (text[blanks] == '\0' || text[blanks] == '#')
        return;
    line_t *line = calloc(1, sizeof *line);
    if (!line || !(line->text = strdup(text)))
        abort();
    *last = line;
    last = &line->next;
    n_lines++;
    arrived = true;
    if (watched)
        pgas_mcts_stop(watched, true);
}

/* All lines of a chunk at once. Control characters are taken out, tabs are blanks: so the protocol
 * wants it. */
static void split(const char *chunk, size_t bytes)
{
    static char text[LINE_BYTES + 2]; /* of the line whose end is to come; one more than allowed */
    static size_t n;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)(chunk[i] == '\t' ? ' ' : chunk[i]);
        if (c == '\n') {
            text[n] = '\0';
            push(text);
            n = 0;
        } else if (c >= ' ' && c != 127 && n <= LINE_BYTES) {
            text[n++] = (char)c;
        }
    }
    pthread_cond_broadcast(&changed);
    while (n_lines > LINES_MAX)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void *read_on(void *arg)
{
    static char chunk[65536];
    ssize_t n;
    while ((n = read(STDIN_FILENO, chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR))
        split(chunk, n > 0 ? (size_t)n : 0);
    split("\n", 1); /* the last line may have no end */
    pthread_mutex_lock(&lock);
    ended = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return arg;
}

bool input_start(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, read_on, NULL) == 0 && pthread_detach(thread) == 0;
}

char *input_take(void)
{
    char *text = NULL;
    pthread_mutex_lock(&lock);
    while (!first && !ended)
        pthread_cond_wait(&changed, &lock);
    if (first) {
        line_t *line = first;
        text = line->text;
        first = line->next;
        if (!first)
            last = &first;
        free(line);
        n_lines--;
    }
    arrived = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return text;
}

void input_watch(pgas_mcts_t *search)
{
    pthread_mutex_lock(&lock);
    watched = search;
    if (search && arrived)
        pgas_mcts_stop(search, true);
    pthread_mutex_unlock(&lock);
}
