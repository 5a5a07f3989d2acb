/* graph_output: the file of pgas_graph --output. Rank 0 gets the texts of the ranks one after the
 * other, in pieces, and writes them. */
#include <errno.h>
#include <limits.h>
#include <pgas/coll.h>
#include <pgas/info.h>
#include <pgas/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "graph_tool.h"

#define PIECE ((size_t)1 << 22)

/* The file or stream to which rank 0 writes. */
typedef struct {
    FILE *file;
    char target[PATH_MAX];    /* the file that is replaced */
    char temporary[PATH_MAX]; /* "": the file is written directly */
} sink_t;

static bool complain(const char *path)
{
    fprintf(stderr, "pgas_graph: --output %s: %s\n", path, strerror(errno));
    return false;
}

/* ---- rank 0's file ---- */

/* Only a regular file can be replaced. A link's target is replaced, not the link. */
static bool sink_open(sink_t *sink, const char *path)
{
    struct stat stat_of;
    mode_t mask = umask(0);
    umask(mask);
    *sink = (sink_t){ .file = NULL };
    if (strcmp(path, "-") == 0) {
        sink->file = stdout;
        return true;
    }
    bool exists = stat(path, &stat_of) == 0;
    if (exists && !S_ISREG(stat_of.st_mode)) {
        sink->file = fopen(path, "we");
        return sink->file || complain(path);
    }
    if (!realpath(path, sink->target))
        snprintf(sink->target, sizeof sink->target, "%s", path);
    int n = snprintf(sink->temporary, sizeof sink->temporary, "%s.XXXXXX", sink->target);
    errno = ENAMETOOLONG;
    int fd = n < (int)sizeof sink->temporary ? mkstemp(sink->temporary) : -1;
    if (fd >= 0 && fchmod(fd, exists ? stat_of.st_mode & 07777 : 0666 & ~mask) == 0)
        sink->file = fdopen(fd, "w");
    if (!sink->file) {
        complain(path);
        if (fd >= 0) {
            unlink(sink->temporary);
            close(fd);
        }
    }
    return sink->file != NULL;
}

static bool sink_close(sink_t *sink, const char *path, bool good)
{
    if (!sink->file)
        return false;
    bool flushed = fflush(sink->file) == 0 && !ferror(sink->file);
    if (flushed && sink->temporary[0] != '\0')
        flushed = fsync(fileno(sink->file)) == 0;
    if (sink->file != stdout && fclose(sink->file) != 0)
        flushed = false;
    if (good && flushed && sink->temporary[0] != '\0')
        flushed = rename(sink->temporary, sink->target) == 0;
    if (!flushed)
        complain(path);
    if (sink->temporary[0] != '\0' && !(good && flushed))
        unlink(sink->temporary);
    return good && flushed;
}

/* ---- texts of other ranks ---- */

/* All ranks call this function once for each rank, and rank 0 writes. bytes_of has the bytes of
 * each rank's text; sizes has room for as many numbers. */
static pgas_status_t write_rank(int rank, const tool_text_t *text, const size_t *bytes_of,
                                size_t *sizes, char *piece, sink_t *sink)
{
    bool is_root = pgas_rank() == 0;
    pgas_status_t status = PGAS_OK;
    for (size_t at = 0; at < bytes_of[rank] && status == PGAS_OK; at += PIECE) {
        size_t left = bytes_of[rank] - at, n = left < PIECE ? left : PIECE;
        const char *mine = pgas_rank() == rank ? text->bytes + at : NULL;
        memset(sizes, 0, (size_t)pgas_n_ranks() * sizeof *sizes);
        sizes[rank] = n;
        if (rank != 0)
            status = pgas_gatherv(NULL, mine, mine ? n : 0, piece, sizes, 0);
        if (is_root && status == PGAS_OK)
            fwrite(rank == 0 ? mine : piece, 1, n, sink->file);
    }
    if (is_root)
        pgas_progress_show("write", (uint64_t)rank + 1, (uint64_t)pgas_n_ranks(), NULL);
    return status;
}

static pgas_status_t agree(bool good, pgas_status_t otherwise)
{
    int32_t all = good;
    pgas_status_t status = pgas_allreduce(NULL, &all, &all, 1, PGAS_I32, PGAS_MIN);
    return status == PGAS_OK && !all ? otherwise : status;
}

pgas_status_t tool_write(const char *path, const tool_text_t *text)
{
    int n_ranks = pgas_n_ranks();
    bool is_root = pgas_rank() == 0;
    sink_t sink = { .file = NULL };
    size_t *bytes_of = calloc(2 * (size_t)n_ranks, sizeof *bytes_of);
    char *piece = is_root ? malloc(PIECE) : NULL;
    pgas_status_t status = agree(bytes_of && (piece || !is_root), PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK)
        status = agree(!is_root || sink_open(&sink, path), PGAS_ERR_IO);
    if (status == PGAS_OK)
        status = pgas_allgather(NULL, &text->n, bytes_of, sizeof text->n);
    for (int rank = 0; rank < n_ranks && status == PGAS_OK; rank++)
        status = write_rank(rank, text, bytes_of, bytes_of + n_ranks, piece, &sink);
    bool written = !is_root || sink_close(&sink, path, status == PGAS_OK);
    if (status == PGAS_OK)
        status = agree(written, PGAS_ERR_IO);
    free(bytes_of);
    free(piece);
    return status;
}
