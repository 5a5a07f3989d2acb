/** Bytes of a file or of standard input, for a reader on each rank. */
#ifndef PGASI_GRAPH_SOURCE_H
#define PGASI_GRAPH_SOURCE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include "graph/reader.h"

/** What rank 0 found out and all ranks know. */
typedef struct {
    char path[PATH_MAX];
    pgas_graph_format_t format;
    bool is_guess;       /* names, since it looked like nothing else */
    bool is_stream;      /* cannot be cut: rank 0 reads, and passes pieces on */
    uint64_t size;       /* of a file */
    uint64_t data_begin; /* behind the header */
    uint64_t header_lines;
    pgasi_mtx_header_t mtx;
} pgasi_source_info_t;

typedef struct {
    pgasi_source_info_t info;
    pgas_graph_progress_fn_t progress;
    void *progress_arg;
    int fd;             /* -1: none; rank 0 only for a stream */
    char *buffer;       /* of PGASI_SOURCE_BUFFER bytes */
    size_t n_pending;   /* stream, rank 0: bytes at the front of buffer that are not used yet */
    bool at_end;        /* stream, rank 0: no more than those */
    uint64_t next_line; /* stream, rank 0: lines before them */
    uint64_t n_lines;   /* lines that this rank has read, the header's on rank 0 too */
} pgasi_source_t;

#define PGASI_SOURCE_BUFFER (1u << 20)

/** Open, tell the format and read a Matrix Market header. Collective; rank 0's path and options
 *  rule.
 *  Done:   after an error nothing is open, and the reason is in the log. */
pgas_status_t pgasi_source_open(pgasi_source_t *source, const char *path,
                                const pgas_graph_read_opts_t *opts);

/** Feed the whole of it to the readers of all ranks, in rounds (a file: one). The order of the text
 *  is that of rounds, and within a round that of ranks. Collective.
 *  @param new_round called on every rank before each round; may fail, which ends the reading
 *  @return the same on all ranks; the log has the reason. */
pgas_status_t pgasi_source_read(pgasi_source_t *source, pgasi_reader_t *reader,
                                pgas_status_t (*new_round)(void *arg), void *arg);

void pgasi_source_close(pgasi_source_t *source);

#endif
