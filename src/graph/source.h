/** The input: bytes of a file or of standard input, for a reader on each rank. */
#ifndef PGASI_GRAPH_SOURCE_H
#define PGASI_GRAPH_SOURCE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include "graph/reader.h"

/** The properties of the input that rank 0 determines and broadcasts to all ranks. */
typedef struct {
    char path[PATH_MAX];
    pgas_graph_format_t format;
    bool is_guess;       /* the format is NAMES, because no other format was recognised */
    bool is_stream;      /* no regular file: rank 0 reads it and sends pieces to the others */
    uint64_t size;       /* of a file */
    uint64_t data_begin; /* the offset behind the header */
    uint64_t header_lines;
    pgasi_mtx_header_t mtx;
} pgasi_source_info_t;

typedef struct {
    pgasi_source_info_t info;
    pgas_graph_progress_fn_t progress;
    void *progress_arg;
    int fd;           /* -1: none; rank 0 only for a stream */
    char *buffer;     /* of PGASI_SOURCE_BUFFER bytes */
    uint64_t n_lines; /* that this rank has read; on rank 0 with those of the header */
    /* of a stream, on rank 0: */
    size_t n_pending;   /* bytes at the front of the buffer that are not used yet */
    bool at_end;        /* no bytes come after those */
    uint64_t next_line; /* the number of lines before them */
} pgasi_source_t;

#define PGASI_SOURCE_BUFFER (1u << 20)

/** Opens the input, determines its format, and reads a Matrix Market header. Collective; path and
 *  options of rank 0 are used.
 *  Done:   after an error nothing is open, and the log has the reason. */
pgas_status_t pgasi_source_open(pgasi_source_t *source, const char *path,
                                const pgas_graph_read_opts_t *opts);

/** Feeds the input to the readers of all ranks, in rounds (one round for a file). The parts of a
 *  round follow each other in the order of ranks. Collective.
 *  @param new_round is called on every rank before each round; an error ends the reading.
 *  @return the same status on all ranks; the log has the reason of an error. */
pgas_status_t pgasi_source_read(pgasi_source_t *source, pgasi_reader_t *reader,
                                pgas_status_t (*new_round)(void *arg), void *arg);

void pgasi_source_close(pgasi_source_t *source);

#endif
