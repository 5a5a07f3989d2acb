/* Files of graphs in a folder for the test, streams, and their log lines. */
#ifndef T_SPMD_GRAPH_FILES_H
#define T_SPMD_GRAPH_FILES_H

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/log.h"
#include "t/spmd/graph_model.h"

static char folder[256], path[300];

/* ---- files, streams and the log ---- */

static inline void make_folder(void)
{
    const char *top = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/libpgas-graph.XXXXXX", top != NULL ? top : "/tmp");
    if (me == 0 && !mkdtemp(folder)) {
        printf("Bail out! cannot make %s\n", folder);
        exit(99);
    }
    pgas_broadcast(NULL, folder, sizeof folder, 0);
}

static inline void clear_folder(void)
{
    char command[320];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (me == 0)
        spmd_diag("%s", system(command) == 0 ? "cleared" : "not cleared");
}

/* Sets path. */
static inline void write_file(const char *name, const text_t *text)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (me == 0) {
        FILE *file = fopen(path, "w");
        if (!file || (text->n > 0 && fwrite(text->bytes, 1, text->n, file) != text->n) ||
            fclose(file) != 0) {
            printf("Bail out! cannot write %s\n", path);
            exit(99);
        }
    }
    pgas_barrier(NULL);
}

static inline pgas_graph_t *read_file(pgas_graph_format_t format)
{
    pgas_graph_t *graph = NULL;
    pgas_graph_opts_t opts = PGAS_GRAPH_OPTS_INIT;
    opts.format = format;
    /* rank 0's rule */
    if (pgas_graph_read(me == 0 ? path : NULL, me == 0 ? &opts : NULL, &graph) != PGAS_OK)
        return NULL;
    return graph;
}

typedef struct {
    int fd;
    const text_t *text;
} writer_t;

static inline void *write_stream(void *arg)
{
    const writer_t *w = (const writer_t *)arg;
    for (size_t at = 0; at < w->text->n;) {
        size_t n = w->text->n - at < 5000 ? w->text->n - at : 5000;
        ssize_t written = write(w->fd, w->text->bytes + at, n);
        if (written <= 0)
            break; /* the reader has ended: it has refused its input */
        at += (size_t)written;
    }
    close(w->fd);
    return NULL;
}

/* Reads a text through a pipe: as standard input, or as a path that is no regular file. */
static inline pgas_status_t read_stream_as(const text_t *text, bool as_stdin,
                                           const pgas_graph_opts_t *opts, pgas_graph_t **graph_p)
{
    int fds[2] = { -1, -1 }, saved = -1;
    pthread_t thread;
    writer_t writer = { -1, text };
    char name[64] = "-";
    signal(SIGPIPE, SIG_IGN); /* of a writer whose input is refused */
    if (me == 0) {
        if (pipe(fds) != 0) {
            printf("Bail out! no pipe\n");
            exit(99);
        }
        writer.fd = fds[1];
        saved = dup(STDIN_FILENO);
        if (as_stdin)
            dup2(fds[0], STDIN_FILENO);
        else
            snprintf(name, sizeof name, "/dev/fd/%d", fds[0]);
        pthread_create(&thread, NULL, write_stream, &writer);
    }
    pgas_status_t status = pgas_graph_read(name, opts, graph_p);
    if (me == 0) {
        dup2(saved, STDIN_FILENO); /* closes the pipe's end, so that the writer ends, too */
        close(saved);
        close(fds[0]);
        pthread_join(thread, NULL);
    }
    return status;
}

static inline pgas_status_t read_stream(const text_t *text, bool as_stdin, pgas_graph_t **graph_p)
{
    return read_stream_as(text, as_stdin, NULL, graph_p);
}

/* The number of log lines of all ranks since log_begin, if one of them contains `want`; else -1. */
static int log_fd;

static inline void log_begin(void)
{
    char name[320];
    snprintf(name, sizeof name, "%s/log.%d", folder, me);
    log_fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    pgasi_log_set_fd(log_fd);
}

static inline int log_end(const char *want)
{
    char text[4096];
    pgasi_log_set_fd(STDERR_FILENO);
    ssize_t n = pread(log_fd, text, sizeof text - 1, 0);
    close(log_fd);
    text[n > 0 ? n : 0] = '\0';
    int32_t sums[2] = { 0, strstr(text, want) != NULL };
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        sums[0]++;
    pgas_allreduce(NULL, sums, sums, 2, PGAS_I32, PGAS_ADD);
    if (sums[1] == 0 && n > 0)
        fprintf(stdout, "# rank %d logged: %s", me, text);
    return sums[1] > 0 ? sums[0] : -1;
}

#endif
