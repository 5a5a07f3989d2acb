/** The input: bytes of a file or of standard input, for a reader on each rank. */
#ifndef PGASI_GRAPH_SOURCE_H
#define PGASI_GRAPH_SOURCE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include "graph/reader.h"
#include "graph/unpack.h"

/** The properties of the input that rank 0 determines and broadcasts to all ranks. */
typedef struct {
    char path[PATH_MAX];
    pgas_graph_format_t format;
    bool is_guess;              /* the format is NAMES, because no other format was recognised */
    bool is_stream;             /* compressed, or no regular file: rank 0 reads it for all */
    uint64_t size;              /* of a file */
    uint64_t data_begin;        /* the offset behind the header */
    pgasi_reader_place_t begin; /* the same as a place */
    pgasi_reader_header_t header;
} pgasi_source_info_t;

typedef struct {
    pgasi_source_info_t info;
    pgas_graph_progress_fn_t progress;
    void *progress_arg;
    int fd;           /* -1: none; rank 0 only for a stream */
    char *buffer;     /* of PGASI_SOURCE_BUFFER bytes */
    uint64_t n_lines; /* that this rank has read; on rank 0 with those of the header */
    /* of a stream, on rank 0: */
    pgasi_unpack_t unpack;
    char *raw;            /* of PGASI_SOURCE_RAW bytes, as they come */
    size_t raw_at, n_raw; /* raw[raw_at] .. raw[n_raw - 1] are not used yet */
    bool raw_ended;
    size_t n_pending;          /* bytes at the front of the buffer that are not used yet */
    bool at_end;               /* no bytes come after those */
    pgasi_reader_place_t next; /* the place before them */
} pgasi_source_t;

#define PGASI_SOURCE_BUFFER (1u << 20)
#define PGASI_SOURCE_RAW    (1u << 18)

/** What to open. */
typedef struct {
    const char *path;
    pgas_graph_format_t format;
    bool is_vertices; /* LDBC: the file of vertices */
    pgas_graph_progress_fn_t progress;
    void *progress_arg;
} pgasi_source_opts_t;

/** Opens the input, determines its format, and reads a header. Collective; all ranks use the
 *  options of rank 0. For SG and BINARY it reads no header.
 *  Done:   after an error nothing is open, and the log has the reason. */
pgas_status_t pgasi_source_open(pgasi_source_t *source, const pgasi_source_opts_t *opts);

/** Feeds the input to the readers of all ranks, in rounds (one round for a file). The parts of a
 *  round follow each other in the order of ranks. Collective.
 *  @param new_round is called on every rank before each round; an error ends the reading.
 *  @return the same status on all ranks; the log has the reason of an error. */
pgas_status_t pgasi_source_read(pgasi_source_t *source, pgasi_reader_t *reader,
                                pgas_status_t (*new_round)(void *arg), void *arg);

void pgasi_source_close(pgasi_source_t *source);

#endif
