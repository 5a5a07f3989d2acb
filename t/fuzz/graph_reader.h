/* The part that the fuzz targets of the graph readers share. */
#ifndef T_FUZZ_GRAPH_READER_H
#define T_FUZZ_GRAPH_READER_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "graph/reader.h"
#include "t/fuzz/require.h"

typedef struct {
    uint64_t sum; /* of the edges or names found, in order */
    const pgasi_reader_t *reader;
} sink_t;

static inline bool has_limit(pgas_graph_format_t format)
{
    return format == PGAS_GRAPH_MTX || format == PGAS_GRAPH_GR || format == PGAS_GRAPH_METIS;
}

static inline pgas_status_t sink_edge(void *arg, uint64_t from, uint64_t to, double weight)
{
    sink_t *sink = (sink_t *)arg;
    uint64_t bits, limit = has_limit(sink->reader->format) ? sink->reader->header.n_vertices
                                                           : UINT64_C(1) << 63;
    require(from < limit && to < limit, "numbers are in range");
    require(isfinite(weight) || isnan(weight), "weights are finite, if there are any");
    memcpy(&bits, &weight, sizeof bits);
    sink->sum = pgasi_hash_combine(pgasi_hash_combine(sink->sum, from), to);
    sink->sum = pgasi_hash_combine(sink->sum, isnan(weight) ? 1 : bits);
    return PGAS_OK;
}

static inline pgas_status_t sink_vertex(void *arg, uint64_t label)
{
    sink_t *sink = (sink_t *)arg;
    require(label < UINT64_C(1) << 63, "labels are in range");
    sink->sum = pgasi_hash_combine(sink->sum, ~label);
    return PGAS_OK;
}

static inline pgas_status_t sink_names(void *arg, const char *a, size_t a_bytes, const char *b,
                                       size_t b_bytes)
{
    sink_t *sink = (sink_t *)arg;
    require(a_bytes > 0 && a_bytes <= PGASI_READER_NAME_MAX && b_bytes <= PGASI_READER_NAME_MAX,
            "names are in range");
    require((!b) == (b_bytes == 0), "an edge has two names");
    require(memchr(a, '\t', a_bytes) == NULL && memchr(a, '\n', a_bytes) == NULL &&
                !memchr(a, 0, a_bytes),
            "names have no tab, line end or NUL");
    sink->sum = pgasi_hash_bytes(a, a_bytes, sink->sum);
    sink->sum = b != NULL ? pgasi_hash_bytes(b, b_bytes, sink->sum) : sink->sum;
    return PGAS_OK;
}

static inline void fuzz_feed(pgasi_reader_t *reader, const uint8_t *data, size_t n_bytes)
{
    /* exact, so that the sanitizer sees one byte too many */
    char *piece = (char *)malloc(n_bytes + (n_bytes == 0));
    memcpy(piece, data, n_bytes);
    pgasi_reader_feed(reader, piece, n_bytes);
    free(piece);
}

/* the whole text in pieces of `step` bytes; 0: at once */
static inline pgasi_reader_t fuzz_read(pgas_graph_format_t format, const uint8_t *data,
                                       size_t n_bytes, size_t step, pgasi_reader_header_t header,
                                       uint64_t *sum_p)
{
    static const pgasi_reader_ops_t ops = { sink_edge, sink_names, sink_vertex };
    pgasi_reader_t reader;
    sink_t sink = { 0, &reader };
    require(pgasi_reader_init(&reader, format, &ops, &sink) == PGAS_OK, "a reader can be made");
    reader.header = header;
    step = step == 0 ? n_bytes + 1 : step;
    for (size_t at = 0; at < n_bytes; at += step)
        fuzz_feed(&reader, data + at, n_bytes - at < step ? n_bytes - at : step);
    require(pgasi_reader_finish(&reader) == reader.error.status, "the status is that of the error");
    pgasi_reader_fini(&reader);
    *sum_p = sink.sum;
    return reader;
}

static inline int fuzz_reader(pgas_graph_format_t format, const uint8_t *data, size_t n_bytes)
{
    uint64_t sum_a, sum_b;
    if (n_bytes < 2)
        return 0;
    size_t step = 1 + (data[0] | (size_t)data[1] << 8) % 1000;
    pgasi_reader_header_t header = { .has_weight = format == PGAS_GRAPH_LDBC && data[1] & 64,
                                     .is_vertices = format == PGAS_GRAPH_LDBC && data[1] & 128 };
    data += 2;
    n_bytes -= 2;
    pgasi_graph_error_t begin_error = { .status = PGAS_OK };
    size_t begin = pgasi_reader_begin((const char *)data, n_bytes, &begin_error);
    require(begin <= n_bytes &&
                (begin_error.status == PGAS_OK || (begin == 0 && begin_error.text[0] != '\0')),
            "what is before a text lies in it, and what is none is named");
    data += begin;
    n_bytes -= begin;
    pgasi_reader_t a = fuzz_read(format, data, n_bytes, 0, header, &sum_a);
    pgasi_reader_t b = fuzz_read(format, data, n_bytes, step, header, &sum_b);
    require(a.error.status == b.error.status && a.error.line == b.error.line &&
                !strcmp(a.error.text, b.error.text) &&
                !memcmp(&a.count, &b.count, sizeof a.count) && sum_a == sum_b,
            "cuts make no difference");
    if (a.error.status == PGAS_OK) {
        pgasi_reader_judge(format, a.state == PGASI_READER_ENTRIES ? &a.header : NULL, &a.count,
                           &a.error);
    }
    require(a.error.status == PGAS_OK ||
                (a.error.line > 0 && a.error.line <= a.count.n_lines + (a.count.n_lines == 0)),
            "a refusal has a line of the text");
    require((a.error.status == PGAS_OK) == (a.error.text[0] == '\0'), "and a reason");
    pgasi_reader_sniff((const char *)data, n_bytes);
    pgasi_reader_has_weight((const char *)data, n_bytes);
    return 0;
}

#endif
