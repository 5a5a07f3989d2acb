/* The input: bytes of a file or of standard input.
 *
 * A file is cut into equal ranges. A line belongs to the rank in whose range it begins. So a rank
 * begins to read behind the first line end at or after its cut minus one. Rank 0 reads a stream in
 * pieces of up to 1 MiB that end with a line. Piece k of a round goes to rank k in aggregated calls
 * of 4 KiB. Each rank has one buffer, for any size of the input.
 *
 * Invariants: readers of a stream count the lines of the whole text, readers of a file those of
 * their range. The ranks agree on errors after each round, and the rank with the earliest one logs
 * it. */
#include "graph/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/checks.h"
#include "graph/graph.h"
#include "pgas/agg.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

#define PART_BYTES 4096
/* the reader refuses lines whose end is farther away */
#define CUT_SCAN (2 * (uint64_t)PGASI_READER_LINE_MAX)

/* ---- reading, repeated after interruptions ---- */

static pgas_status_t io_error(pgasi_graph_error_t *error, const char *what)
{
    return pgasi_graph_error_set(error, PGAS_ERR_IO, 0, "%s: %s", what, strerror(errno));
}

/* Reads n_bytes at an offset of a file; fewer only at its end. */
static pgas_status_t read_at(int fd, uint64_t offset, char *bytes, size_t n_bytes, size_t *n_p,
                             pgasi_graph_error_t *error)
{
    size_t n = 0;
    while (n < n_bytes) {
        ssize_t got = pread(fd, bytes + n, n_bytes - n, (off_t)(offset + n));
        if (got < 0 && errno != EINTR)
            return io_error(error, "cannot read");
        if (got == 0)
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    *n_p = n;
    return PGAS_OK;
}

/* Fills the buffer from a stream. */
static pgas_status_t read_more(pgasi_source_t *source, pgasi_graph_error_t *error)
{
    while (!source->at_end && source->n_pending < PGASI_SOURCE_BUFFER) {
        ssize_t got = read(source->fd, source->buffer + source->n_pending,
                           PGASI_SOURCE_BUFFER - source->n_pending);
        if (got < 0 && errno != EINTR)
            return io_error(error, "cannot read");
        source->at_end = got == 0;
        source->n_pending += got > 0 ? (size_t)got : 0;
    }
    return PGAS_OK;
}

/* ---- opening ---- */

static pgas_status_t open_file(pgasi_source_t *source, pgasi_graph_error_t *error)
{
    struct stat stat;
    if (strcmp(source->info.path, "-") == 0) {
        source->fd = STDIN_FILENO;
        source->info.is_stream = true;
        return PGAS_OK;
    }
    source->fd = open(source->info.path, O_RDONLY | O_CLOEXEC);
    if (source->fd < 0 || fstat(source->fd, &stat) != 0)
        return io_error(error, "cannot open");
    if (S_ISDIR(stat.st_mode)) {
        errno = EISDIR;
        return io_error(error, "cannot read");
    }
    source->info.is_stream = !S_ISREG(stat.st_mode);
    source->info.size = S_ISREG(stat.st_mode) ? (uint64_t)stat.st_size : 0;
    return PGAS_OK;
}

/* Fills the buffer with the first bytes from an offset of a file, or of a stream. */
static pgas_status_t read_begin(pgasi_source_t *source, uint64_t offset, pgasi_graph_error_t *error)
{
    if (source->info.is_stream)
        return read_more(source, error);
    pgas_status_t status =
        read_at(source->fd, offset, source->buffer, PGASI_SOURCE_BUFFER, &source->n_pending, error);
    source->at_end = source->n_pending < PGASI_SOURCE_BUFFER;
    return status;
}

static void skip_begin(pgasi_source_t *source, size_t n_bytes)
{
    source->info.data_begin += n_bytes;
    source->n_pending -= n_bytes;
    memmove(source->buffer, source->buffer + n_bytes, source->n_pending);
}

/* Reads the header. The bytes behind it stay in the buffer. */
static pgas_status_t read_mtx_header(pgasi_source_t *source, pgasi_graph_error_t *error)
{
    pgasi_reader_t reader;
    size_t used;
    pgas_status_t status = pgasi_reader_init(&reader, PGAS_GRAPH_MTX, NULL, NULL);
    if (status != PGAS_OK)
        return pgasi_graph_error_set(error, status, 0, "no memory for a line");
    while (status == PGAS_OK && reader.mtx_state != PGASI_MTX_ENTRIES) {
        status = pgasi_reader_feed_header(&reader, source->buffer, source->n_pending, &used);
        skip_begin(source, used);
        if (status == PGAS_OK && reader.mtx_state != PGASI_MTX_ENTRIES) {
            bool at_end = source->at_end;
            status = at_end ? pgasi_reader_finish(&reader)
                            : read_begin(source, source->info.data_begin, &reader.error);
            if (at_end)
                break;
        }
    }
    if (status == PGAS_OK && reader.mtx_state != PGASI_MTX_ENTRIES)
        status = pgasi_reader_judge(PGAS_GRAPH_MTX, NULL, reader.n_lines, 0, &reader.error);
    source->info.mtx = reader.mtx;
    source->info.header_lines = source->next_line = reader.n_lines;
    *error = reader.error;
    pgasi_reader_fini(&reader);
    return status;
}

static pgas_status_t open_on_rank_0(pgasi_source_t *source, const char *path,
                                    const pgas_graph_read_opts_t *opts, pgasi_graph_error_t *error)
{
    pgas_graph_format_t format = opts->format;
    size_t bytes = strlen(path);
    if (bytes == 0 || bytes >= sizeof source->info.path || format < PGAS_GRAPH_AUTO ||
        format > PGAS_GRAPH_MTX) {
        return pgasi_graph_error_set(error, PGAS_ERR_INVALID, 0,
                                     bytes == 0
                                         ? "the path is empty"
                                         : "the path is too long, or there is no such format");
    }
    memcpy(source->info.path, path, bytes + 1);
    pgas_status_t status = open_file(source, error);
    if (status == PGAS_OK)
        status = read_begin(source, 0, error);
    if (status == PGAS_OK) {
        skip_begin(source, pgasi_reader_begin(source->buffer, source->n_pending, error));
        status = error->status;
    }
    if (status != PGAS_OK)
        return status;
    if (format == PGAS_GRAPH_AUTO)
        format = pgasi_reader_format_of(path);
    if (format == PGAS_GRAPH_AUTO) {
        format =
            pgasi_reader_sniff(source->buffer, PGASI_MIN(source->n_pending, PGASI_READER_SNIFF));
        source->info.is_guess = format == PGAS_GRAPH_NAMES;
    }
    source->info.format = format;
    return format == PGAS_GRAPH_MTX ? read_mtx_header(source, error) : PGAS_OK;
}

/* The other ranks open a file, too. It must have the same size. */
static pgas_status_t open_on_others(pgasi_source_t *source, pgasi_graph_error_t *error)
{
    struct stat stat;
    if (source->info.is_stream || pgas_rank() == 0)
        return PGAS_OK;
    source->fd = open(source->info.path, O_RDONLY | O_CLOEXEC);
    if (source->fd < 0 || fstat(source->fd, &stat) != 0)
        return io_error(error, "cannot open");
    if ((uint64_t)stat.st_size != source->info.size)
        return pgasi_graph_error_set(error, PGAS_ERR_IO, 0, "is not the same file as on rank 0");
    return PGAS_OK;
}

/* Collective: agrees on one status; the lowest rank with an error logs it. in_range: the line of
 * the error counts from the begin of the rank's range, so the lines of the ranks before it are
 * added. */
static pgas_status_t agree_on_error(const pgasi_source_t *source, const pgasi_graph_error_t *error,
                                    bool in_range)
{
    int culprit;
    pgas_status_t status = pgasi_graph_agree(error->status, &culprit);
    uint64_t before = 0;
    if (culprit >= 0 && in_range) {
        pgas_status_t counted = pgas_exscan(NULL, &source->n_lines, &before, 1, PGAS_U64, PGAS_ADD);
        before = counted == PGAS_OK ? before : 0;
    }
    if (culprit == pgas_rank())
        pgasi_graph_log_error(source->info.path, error, before);
    return status;
}

pgas_status_t pgasi_source_open(pgasi_source_t *source, const char *path,
                                const pgas_graph_read_opts_t *opts)
{
    pgasi_graph_error_t error = { .status = PGAS_OK };
    *source = (pgasi_source_t){ .fd = -1 };
    source->buffer = malloc(PGASI_SOURCE_BUFFER);
    if (!source->buffer) {
        pgasi_graph_error_set(&error, PGAS_ERR_NO_MEMORY, 0, "no memory for a buffer");
    } else if (pgas_rank() == 0) {
        source->progress = opts->progress;
        source->progress_arg = opts->progress_arg;
        open_on_rank_0(source, path, opts, &error);
    }
    pgas_status_t status = agree_on_error(source, &error, false);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, &source->info, sizeof source->info, 0);
    if (status == PGAS_OK) {
        open_on_others(source, &error);
        status = agree_on_error(source, &error, false);
    }
    if (status != PGAS_OK)
        pgasi_source_close(source);
    return status;
}

void pgasi_source_close(pgasi_source_t *source)
{
    if (source->fd > STDIN_FILENO)
        close(source->fd);
    free(source->buffer);
    source->fd = -1;
    source->buffer = NULL;
}

/* ---- a file: one range for each rank ---- */

/* Finds the first line that begins at or after an offset. */
static pgas_status_t find_line(pgasi_source_t *source, uint64_t offset, uint64_t *begin_p,
                               pgasi_graph_error_t *error)
{
    uint64_t at = offset - 1;
    if (offset == source->info.data_begin) {
        *begin_p = offset;
        return PGAS_OK;
    }
    *begin_p = source->info.size;
    while (at < source->info.size && at < offset + CUT_SCAN) {
        size_t n = 0;
        pgas_status_t status = read_at(source->fd, at, source->buffer, PART_BYTES, &n, error);
        if (status != PGAS_OK || n == 0)
            return status;
        const char *end = memchr(source->buffer, '\n', n);
        if (end) {
            *begin_p = PGASI_MIN(at + (uint64_t)(end - source->buffer) + 1, source->info.size);
            return PGAS_OK;
        }
        at += n;
    }
    return PGAS_OK;
}

static void report(const pgasi_source_t *source, uint64_t done, uint64_t total)
{
    if (source->progress)
        source->progress("read", done, total, source->progress_arg);
}

static pgas_status_t read_range(pgasi_source_t *source, pgasi_reader_t *reader, uint64_t begin,
                                uint64_t end)
{
    pgas_status_t status = PGAS_OK;
    uint64_t at = begin;
    while (status == PGAS_OK && at < end) {
        size_t n = 0, n_wanted = (size_t)PGASI_MIN(end - at, PGASI_SOURCE_BUFFER);
        status = read_at(source->fd, at, source->buffer, n_wanted, &n, &reader->error);
        if (status == PGAS_OK && n < n_wanted) {
            status = pgasi_graph_error_set(&reader->error, PGAS_ERR_IO, 0,
                                           "became shorter while it was read");
        }
        if (status == PGAS_OK)
            status = pgasi_reader_feed(reader, source->buffer, n);
        at += n_wanted;
        report(source, at - begin, end - begin);
    }
    return status == PGAS_OK ? pgasi_reader_finish(reader) : status;
}

static uint64_t cut(const pgasi_source_info_t *info, int rank)
{
    uint64_t bytes = info->size > info->data_begin ? info->size - info->data_begin : 0;
    uint64_t n_ranks = (uint64_t)pgas_n_ranks(), r = (uint64_t)rank;
    return info->data_begin + bytes / n_ranks * r + bytes % n_ranks * r / n_ranks;
}

static pgas_status_t read_file(pgasi_source_t *source, pgasi_reader_t *reader)
{
    uint64_t begin, end;
    int rank = pgas_rank();
    pgas_status_t status = find_line(source, cut(&source->info, rank), &begin, &reader->error);
    if (status == PGAS_OK)
        status = find_line(source, cut(&source->info, rank + 1), &end, &reader->error);
    reader->n_lines = rank == 0 ? source->info.header_lines : 0;
    if (status == PGAS_OK)
        status = read_range(source, reader, begin, end);
    source->n_lines = reader->n_lines;
    return status;
}

/* ---- a stream: rounds of one piece for each rank ---- */

typedef struct {
    uint64_t offset; /* in the piece */
    uint64_t line;   /* the number of lines before the piece */
    char bytes[PART_BYTES];
} part_t;
#define PART_HEAD offsetof(part_t, bytes)

typedef struct {
    char *bytes; /* PGASI_SOURCE_BUFFER */
    size_t n_bytes;
    uint64_t line;
} piece_t;

static struct {
    piece_t *piece;
    pgas_handler_t handler;
} arriving;

static void handle_piece(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t head[2]; /* offset, line */
    piece_t *piece = arriving.piece;
    (void)source, (void)context;
    if (!piece || bytes <= PART_HEAD)
        return;
    memcpy(head, args, sizeof head);
    bytes -= PART_HEAD;
    if (head[0] == piece->n_bytes && bytes <= PGASI_SOURCE_BUFFER - head[0]) {
        memcpy(piece->bytes + head[0], (const char *)args + PART_HEAD, bytes);
        piece->n_bytes += bytes;
        piece->line = head[1];
    }
}

pgas_status_t pgasi_source_register(void)
{
    return pgas_handler_register("pgas.graph.piece", handle_piece, NULL, NULL, &arriving.handler);
}

static uint64_t count_lines(const char *bytes, size_t n_bytes)
{
    uint64_t n = 0;
    const char *at = bytes, *end = bytes + n_bytes;
    while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        n++;
        at++;
    }
    return n;
}

/* Rank 0 sends the next piece of the stream to a rank. */
static pgas_status_t send_piece(pgasi_source_t *source, pgas_agg_t *agg, int rank,
                                pgasi_graph_error_t *error)
{
    part_t part;
    pgas_status_t status = read_more(source, error);
    if (status != PGAS_OK)
        return status;
    size_t n = source->n_pending;
    /* a piece ends with the last line end; the reader refuses a line that fills the buffer */
    if (!source->at_end) {
        const char *end = memrchr(source->buffer, '\n', n);
        n = end ? (size_t)(end - source->buffer) + 1 : n;
    }
    part.line = source->next_line;
    for (size_t at = 0; status == PGAS_OK && at < n; at += PART_BYTES) {
        size_t bytes = PGASI_MIN(n - at, PART_BYTES);
        part.offset = at;
        memcpy(part.bytes, source->buffer + at, bytes);
        status = pgasi_graph_call(agg, rank, arriving.handler, &part, PART_HEAD + bytes);
    }
    source->next_line += count_lines(source->buffer, n);
    source->n_pending -= n;
    memmove(source->buffer, source->buffer + n, source->n_pending);
    if (status == PGAS_OK)
        return PGAS_OK;
    const char *cure = status == PGAS_ERR_LIMIT ? ", PGAS_CALL_MAX must be 4112 or more" : "";
    return pgasi_graph_error_set(error, status, 0, "cannot send a piece to rank %d: %s%s", rank,
                                 pgas_status_text(status), cure);
}

static void send_round(pgasi_source_t *source, pgas_agg_t *agg, pgasi_graph_error_t *error)
{
    pgas_status_t status = error->status;
    for (int rank = 0;
         rank < pgas_n_ranks() && status == PGAS_OK && !(source->at_end && source->n_pending == 0);
         rank++)
        status = send_piece(source, agg, rank, error);
    report(source, source->next_line, 0);
}

/* Reads one round. Stores in *more_p whether there may be another one. */
static pgas_status_t read_round(pgasi_source_t *source, pgasi_reader_t *reader, pgas_agg_t *agg,
                                piece_t *piece, bool *more_p)
{
    uint64_t more = 0;
    piece->n_bytes = 0;
    pgas_status_t status = pgas_barrier(NULL); /* from here on every rank can take its piece */
    if (status == PGAS_OK && pgas_rank() == 0) {
        send_round(source, agg, &reader->error);
        more = !(source->at_end && source->n_pending == 0);
    }
    if (status == PGAS_OK)
        status = pgas_quiesce();
    if (status != PGAS_OK)
        return status;
    if (piece->n_bytes > 0 && reader->error.status == PGAS_OK) {
        reader->n_lines = piece->line;
        if (pgasi_reader_feed(reader, piece->bytes, piece->n_bytes) == PGAS_OK)
            pgasi_reader_finish(reader);
        source->n_lines += reader->n_lines - piece->line;
    }
    status = agree_on_error(source, &reader->error, false);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, &more, sizeof more, 0);
    *more_p = more != 0;
    return status;
}

static pgas_status_t read_stream(pgasi_source_t *source, pgasi_reader_t *reader,
                                 pgas_status_t (*new_round)(void *arg), void *arg)
{
    piece_t piece = { .bytes = malloc(PGASI_SOURCE_BUFFER) };
    pgas_agg_t *agg = NULL;
    bool more = true;
    pgas_status_t mine = piece.bytes ? pgas_agg_create(NULL, &agg) : PGAS_ERR_NO_MEMORY;
    arriving.piece = &piece;
    pgas_status_t status = pgasi_graph_agree(mine, NULL);
    source->n_lines = pgas_rank() == 0 ? source->info.header_lines : 0;
    while (status == PGAS_OK && more) {
        pgas_status_t ready = new_round(arg);
        if (ready != PGAS_OK)
            pgasi_graph_error_set(&reader->error, ready, 0, "%s", pgas_status_text(ready));
        status = read_round(source, reader, agg, &piece, &more);
    }
    arriving.piece = NULL;
    uint64_t n_lines = PGASI_MAX(source->next_line, 1);
    report(source, n_lines, n_lines);
    pgas_agg_destroy(agg);
    free(piece.bytes);
    return status;
}

pgas_status_t pgasi_source_read(pgasi_source_t *source, pgasi_reader_t *reader,
                                pgas_status_t (*new_round)(void *arg), void *arg)
{
    if (source->info.is_stream)
        return read_stream(source, reader, new_round, arg);
    pgas_status_t status = new_round(arg);
    if (status == PGAS_OK)
        read_file(source, reader);
    else
        pgasi_graph_error_set(&reader->error, status, 0, "%s", pgas_status_text(status));
    return agree_on_error(source, &reader->error, true);
}
