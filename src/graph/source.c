/* The input: bytes of a file or of standard input.
 *
 * The ranks cut a file into equal ranges. A line belongs to the rank in whose range it begins. So a
 * rank begins to read behind the first line end at or after its cut minus one. Rank 0 reads a
 * stream in pieces of up to 1 MiB. A piece ends with a line, or with a word of a longer line. Rank
 * 0 sends piece k of a round to rank k in aggregated calls of 4 KiB, with its place in the text.
 * Each rank has one buffer, for any size of the input. A compressed file is a stream.
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

/* the reader refuses lines whose end is farther away, but not in METIS and ADJ */
#define CUT_SCAN  (2 * (uint64_t)PGASI_READER_LINE_MAX)
#define SCAN_STEP 4096

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

/* Reads the next bytes of a stream, as they come. */
static pgas_status_t read_raw(pgasi_source_t *source, pgasi_graph_error_t *error)
{
    ssize_t got;
    do {
        got = read(source->fd, source->raw + source->n_raw, PGASI_SOURCE_RAW - source->n_raw);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return io_error(error, "cannot read");
    source->raw_ended = got == 0;
    source->n_raw += (size_t)got;
    return PGAS_OK;
}

/* Decompresses some bytes into the buffer, or copies them there. */
static pgas_status_t unpack_more(pgasi_source_t *source, pgasi_graph_error_t *error)
{
    size_t used, given, room = PGASI_SOURCE_BUFFER - source->n_pending;
    if (source->raw_at == source->n_raw && !source->raw_ended) {
        source->raw_at = source->n_raw = 0;
        if (read_raw(source, error) != PGAS_OK)
            return error->status;
    }
    pgas_status_t status =
        pgasi_unpack_run(&source->unpack, source->raw + source->raw_at,
                         source->n_raw - source->raw_at, &used, source->buffer + source->n_pending,
                         room, &given, error);
    if (status != PGAS_OK)
        return status;
    source->raw_at += used;
    source->n_pending += given;
    source->at_end = source->raw_ended && used == 0 && given == 0;
    return source->at_end ? pgasi_unpack_finish(&source->unpack, error) : PGAS_OK;
}

/* Fills the buffer from a stream. */
static pgas_status_t read_more(pgasi_source_t *source, pgasi_graph_error_t *error)
{
    pgas_status_t status = PGAS_OK;
    while (status == PGAS_OK && !source->at_end && source->n_pending < PGASI_SOURCE_BUFFER)
        status = unpack_more(source, error);
    return status;
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

/* Determines whether the input is compressed. Rank 0 reads a compressed file as a stream. */
static pgas_status_t open_stream(pgasi_source_t *source, pgasi_graph_error_t *error)
{
    char first[4];
    size_t n = 0;
    pgas_status_t status = PGAS_OK;
    if (!source->info.is_stream) {
        status = read_at(source->fd, 0, first, sizeof first, &n, error);
        if (status != PGAS_OK || pgasi_unpack_kind(first, n) == PGASI_PACK_NONE)
            return status;
        source->info.is_stream = true;
    }
    source->raw = malloc(PGASI_SOURCE_RAW);
    if (!source->raw)
        return pgasi_graph_error_set(error, PGAS_ERR_NO_MEMORY, 0, "no memory for a buffer");
    while (status == PGAS_OK && source->n_raw < sizeof first && !source->raw_ended)
        status = read_raw(source, error);
    if (status != PGAS_OK)
        return status;
    pgasi_pack_t kind = pgasi_unpack_kind(source->raw, source->n_raw);
    return pgasi_unpack_init(&source->unpack, kind, error);
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

/* Reads up to the end of the header. */
static pgas_status_t feed_header(pgasi_source_t *source, pgasi_reader_t *reader)
{
    pgas_status_t status = PGAS_OK;
    bool at_end = false;
    while (status == PGAS_OK && !at_end && reader->state != PGASI_READER_ENTRIES) {
        size_t used;
        status = pgasi_reader_feed_header(reader, source->buffer, source->n_pending, &used);
        skip_begin(source, used);
        if (status == PGAS_OK && reader->state != PGASI_READER_ENTRIES) {
            at_end = source->at_end;
            status = at_end ? pgasi_reader_finish(reader)
                            : read_begin(source, source->info.data_begin, &reader->error);
        }
    }
    if (status == PGAS_OK && reader->state != PGASI_READER_ENTRIES)
        status = pgasi_reader_judge(reader->format, NULL, &reader->count, &reader->error);
    return status;
}

/* Reads the header. The bytes behind it stay in the buffer. */
static pgas_status_t read_header(pgasi_source_t *source, bool is_vertices,
                                 pgasi_graph_error_t *error)
{
    pgasi_source_info_t *info = &source->info;
    pgasi_reader_t reader;
    pgas_status_t status = pgasi_reader_init(&reader, info->format, NULL, NULL);
    if (status != PGAS_OK)
        return pgasi_graph_error_set(error, status, 0, "no memory for a line");
    status = feed_header(source, &reader);
    info->header = reader.header;
    info->begin.n_lines = reader.count.n_lines;
    *error = reader.error;
    pgasi_reader_fini(&reader);
    if (info->format == PGAS_GRAPH_LDBC) {
        info->header.is_vertices = is_vertices;
        info->header.has_weight =
            !is_vertices && pgasi_reader_has_weight(source->buffer, source->n_pending);
    }
    source->next = info->begin;
    return status;
}

static void find_format(pgasi_source_t *source, pgas_graph_format_t format)
{
    source->info.is_guess = false;
    if (format == PGAS_GRAPH_AUTO)
        format = pgasi_reader_format_of(source->info.path);
    if (format == PGAS_GRAPH_AUTO) {
        format =
            pgasi_reader_sniff(source->buffer, PGASI_MIN(source->n_pending, PGASI_READER_SNIFF));
        source->info.is_guess = format == PGAS_GRAPH_NAMES;
    }
    source->info.format = format;
}

static pgas_status_t open_on_rank_0(pgasi_source_t *source, const pgasi_source_opts_t *opts,
                                    pgasi_graph_error_t *error)
{
    size_t bytes = strlen(opts->path);
    if (bytes == 0 || bytes >= sizeof source->info.path || opts->format < PGAS_GRAPH_AUTO ||
        opts->format > PGAS_GRAPH_BINARY) {
        return pgasi_graph_error_set(error, PGAS_ERR_INVALID, 0,
                                     bytes == 0
                                         ? "the path is empty"
                                         : "the path is too long, or there is no such format");
    }
    memcpy(source->info.path, opts->path, bytes + 1);
    pgas_status_t status = open_file(source, error);
    if (status == PGAS_OK)
        status = open_stream(source, error);
    if (status == PGAS_OK)
        status = read_begin(source, 0, error);
    if (status != PGAS_OK)
        return status;
    find_format(source, opts->format);
    if (source->info.format >= PGAS_GRAPH_SG)
        return PGAS_OK;
    skip_begin(source, pgasi_reader_begin(source->buffer, source->n_pending, error));
    if (error->status != PGAS_OK)
        return error->status;
    find_format(source, opts->format);
    return read_header(source, opts->is_vertices, error);
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
 * the error counts from the begin of the rank's range, so the function adds the lines of the ranks
 * before it. */
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

pgas_status_t pgasi_source_open(pgasi_source_t *source, const pgasi_source_opts_t *opts)
{
    pgasi_graph_error_t error = { .status = PGAS_OK };
    *source = (pgasi_source_t){ .fd = -1 };
    source->buffer = malloc(PGASI_SOURCE_BUFFER);
    if (!source->buffer) {
        pgasi_graph_error_set(&error, PGAS_ERR_NO_MEMORY, 0, "no memory for a buffer");
    } else if (pgas_rank() == 0) {
        source->progress = opts->progress;
        source->progress_arg = opts->progress_arg;
        open_on_rank_0(source, opts, &error);
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
    pgasi_unpack_fini(&source->unpack);
    free(source->raw);
    free(source->buffer);
    source->fd = -1;
    source->raw = source->buffer = NULL;
}

/* ---- a file: one range for each rank ---- */

/* Finds the first line that begins at or after an offset. */
static pgas_status_t find_line(pgasi_source_t *source, uint64_t offset, uint64_t *begin_p,
                               pgasi_graph_error_t *error)
{
    uint64_t at = offset - 1, limit = offset + CUT_SCAN;
    size_t step = SCAN_STEP;
    if (offset == source->info.data_begin) {
        *begin_p = offset;
        return PGAS_OK;
    }
    if (pgasi_reader_by_words(source->info.format))
        limit = UINT64_MAX;
    *begin_p = source->info.size;
    while (at < source->info.size && at < limit) {
        size_t n = 0;
        pgas_status_t status = read_at(source->fd, at, source->buffer, step, &n, error);
        if (status != PGAS_OK || n == 0)
            return status;
        const char *end = memchr(source->buffer, '\n', n);
        if (end) {
            *begin_p = PGASI_MIN(at + (uint64_t)(end - source->buffer) + 1, source->info.size);
            return PGAS_OK;
        }
        at += n;
        step = PGASI_SOURCE_BUFFER;
    }
    return PGAS_OK;
}

static void report(const pgasi_source_t *source, uint64_t done, uint64_t total)
{
    if (source->progress)
        source->progress("read", done, total, source->progress_arg);
}

/* Reads the next bytes of a range into the buffer. */
static pgas_status_t read_next(pgasi_source_t *source, uint64_t at, uint64_t end, size_t *n_p,
                               pgasi_graph_error_t *error)
{
    size_t n_wanted = (size_t)PGASI_MIN(end - at, PGASI_SOURCE_BUFFER);
    pgas_status_t status = read_at(source->fd, at, source->buffer, n_wanted, n_p, error);
    if (status == PGAS_OK && *n_p < n_wanted)
        status = pgasi_graph_error_set(error, PGAS_ERR_IO, 0, "became shorter while it was read");
    return status;
}

static pgas_status_t read_range(pgasi_source_t *source, pgasi_reader_t *reader, uint64_t begin,
                                uint64_t end)
{
    pgas_status_t status = PGAS_OK;
    uint64_t at = begin;
    while (status == PGAS_OK && at < end) {
        size_t n = 0;
        status = read_next(source, at, end, &n, &reader->error);
        if (status == PGAS_OK)
            status = pgasi_reader_feed(reader, source->buffer, n);
        at += n;
        report(source, at - begin, end - begin);
    }
    return status == PGAS_OK ? pgasi_reader_finish(reader) : status;
}

/* Counts the lines of vertices in a range. */
static pgas_status_t count_rows(pgasi_source_t *source, uint64_t begin, uint64_t end,
                                uint64_t *n_rows_p, pgasi_graph_error_t *error)
{
    pgasi_reader_place_t place = { 0 };
    pgas_status_t status = PGAS_OK;
    for (uint64_t at = begin; status == PGAS_OK && at < end;) {
        size_t n = 0;
        status = read_next(source, at, end, &n, error);
        if (status == PGAS_OK)
            pgasi_reader_skim(source->info.format, &place, source->buffer, n);
        at += n;
    }
    *n_rows_p = place.n_rows;
    return status;
}

static uint64_t cut(const pgasi_source_info_t *info, int rank)
{
    uint64_t bytes = info->size > info->data_begin ? info->size - info->data_begin : 0;
    uint64_t n_ranks = (uint64_t)pgas_n_ranks(), r = (uint64_t)rank;
    return info->data_begin + bytes / n_ranks * r + bytes % n_ranks * r / n_ranks;
}

/* Collective: finds the place at which this rank's range begins. The position of a line of METIS
 * determines its vertex, so the ranks count the lines before their ranges. */
static pgas_status_t find_place(pgasi_source_t *source, uint64_t begin, uint64_t end,
                                pgasi_reader_place_t *place_p, pgasi_graph_error_t *error)
{
    uint64_t n_rows = 0;
    *place_p = (pgasi_reader_place_t){ 0 };
    if (pgas_rank() == 0)
        *place_p = source->info.begin;
    if (source->info.format != PGAS_GRAPH_METIS || pgas_n_ranks() == 1)
        return PGAS_OK;
    count_rows(source, begin, end, &n_rows, error);
    pgas_status_t status = pgasi_graph_agree(error->status, &(int){ 0 });
    if (status == PGAS_OK)
        status = pgas_exscan(NULL, &n_rows, &place_p->n_rows, 1, PGAS_U64, PGAS_ADD);
    return status;
}

/* Collective, up to the reading itself. */
static pgas_status_t read_file(pgasi_source_t *source, pgasi_reader_t *reader)
{
    uint64_t begin = 0, end = 0;
    pgasi_reader_place_t place;
    int rank = pgas_rank();
    if (reader->error.status == PGAS_OK &&
        find_line(source, cut(&source->info, rank), &begin, &reader->error) == PGAS_OK)
        find_line(source, cut(&source->info, rank + 1), &end, &reader->error);
    if (reader->error.status != PGAS_OK)
        end = begin;
    pgas_status_t status = find_place(source, begin, end, &place, &reader->error);
    pgasi_reader_start(reader, &place);
    if (status == PGAS_OK && reader->error.status == PGAS_OK)
        read_range(source, reader, begin, end);
    source->n_lines = reader->count.n_lines;
    return status;
}

/* ---- a stream: rounds of one piece for each rank ---- */

typedef struct {
    uint64_t offset; /* in the piece */
    uint64_t is_last;
    pgasi_reader_place_t place; /* at which the piece begins */
} part_head_t;

#define PART_MAX   4112 /* pgas/graph.h names this limit */
#define PART_BYTES (PART_MAX - sizeof(part_head_t))
typedef struct {
    part_head_t head;
    char bytes[PART_BYTES];
} part_t;

typedef struct {
    char *bytes; /* PGASI_SOURCE_BUFFER */
    size_t n_bytes;
    bool is_last;
    pgasi_reader_place_t place;
} piece_t;

static struct {
    piece_t *piece;
    pgas_handler_t handler;
} arriving;

static void take_part(const part_head_t *head, const char *bytes, size_t n_bytes)
{
    piece_t *piece = arriving.piece;
    if (head->offset == piece->n_bytes && n_bytes <= PGASI_SOURCE_BUFFER - head->offset) {
        memcpy(piece->bytes + head->offset, bytes, n_bytes);
        piece->n_bytes += n_bytes;
        piece->is_last = head->is_last != 0;
        piece->place = head->place;
    }
}

static void handle_piece(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    part_head_t head;
    (void)source, (void)context;
    if (!arriving.piece || bytes <= sizeof head)
        return;
    memcpy(&head, args, sizeof head);
    take_part(&head, (const char *)args + sizeof head, bytes - sizeof head);
}

pgas_status_t pgasi_source_register(void)
{
    return pgas_handler_register("pgas.graph.piece", handle_piece, NULL, NULL, &arriving.handler);
}

/* The length of the next piece. The reader refuses a line or word that fills the buffer. */
static size_t piece_length(const pgasi_source_t *source)
{
    const char *bytes = source->buffer, *end;
    size_t n = source->n_pending;
    if (source->at_end)
        return n;
    end = memrchr(bytes, '\n', n);
    if (!end && pgasi_reader_by_words(source->info.format)) {
        /* at least one byte stays for a later piece, which ends the line */
        for (end = bytes + n - 2; end > bytes && *end != ' ' && *end != '\t';)
            end--;
        end = end > bytes ? end : NULL;
    }
    return end ? (size_t)(end - bytes) + 1 : n;
}

/* Sends a piece to another rank, or keeps it. */
static pgas_status_t send_parts(const char *bytes, size_t n, int rank, pgas_agg_t *agg,
                                part_head_t head)
{
    part_t part = { .head = head };
    pgas_status_t status = PGAS_OK;
    if (rank == pgas_rank()) {
        take_part(&head, bytes, n);
        return PGAS_OK;
    }
    for (size_t at = 0; status == PGAS_OK && at < n; at += PART_BYTES) {
        size_t part_bytes = PGASI_MIN(n - at, PART_BYTES);
        part.head.offset = at;
        memcpy(part.bytes, bytes + at, part_bytes);
        status =
            pgasi_graph_call(agg, rank, arriving.handler, &part, sizeof part.head + part_bytes);
    }
    return status;
}

/* Rank 0 sends the next piece of the stream to a rank. */
static pgas_status_t send_piece(pgasi_source_t *source, pgas_agg_t *agg, int rank,
                                pgasi_graph_error_t *error)
{
    pgas_status_t status = read_more(source, error);
    if (status != PGAS_OK)
        return status;
    size_t n = piece_length(source);
    part_head_t head = { .is_last = source->at_end && n == source->n_pending,
                         .place = source->next };
    status = send_parts(source->buffer, n, rank, agg, head);
    pgasi_reader_skim(source->info.format, &source->next, source->buffer, n);
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
    report(source, source->next.n_lines, 0);
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
        pgasi_reader_start(reader, &piece->place);
        if (pgasi_reader_feed(reader, piece->bytes, piece->n_bytes) == PGAS_OK && piece->is_last)
            pgasi_reader_finish(reader);
        source->n_lines += reader->count.n_lines - piece->place.n_lines;
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
    source->n_lines = pgas_rank() == 0 ? source->info.begin.n_lines : 0;
    while (status == PGAS_OK && more) {
        pgas_status_t ready = new_round(arg);
        if (ready != PGAS_OK)
            pgasi_graph_error_set(&reader->error, ready, 0, "%s", pgas_status_text(ready));
        status = read_round(source, reader, agg, &piece, &more);
    }
    arriving.piece = NULL;
    uint64_t n_lines = PGASI_MAX(source->next.n_lines, 1);
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
    if (status != PGAS_OK)
        pgasi_graph_error_set(&reader->error, status, 0, "%s", pgas_status_text(status));
    read_file(source, reader);
    return agree_on_error(source, &reader->error, true);
}
