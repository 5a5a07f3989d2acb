/* pgas_graph_write: each rank writes its part of every section to one file, which rank 0 renames at
 * the end. See binary.h for the form. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/op.h"
#include "graph/binary.h"
#include "graph/graph.h"
#include "graph/sort.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

#define PIECE (1u << 20)

typedef struct {
    const pgas_graph_t *graph;
    char path[PATH_MAX], partial[PATH_MAX]; /* partial: until it is renamed */
    int fd;
    pgasi_graph_error_t error;
    pgasi_binary_header_t header;
    pgasi_binary_map_t map;
    uint64_t first_edge, first_text; /* of this rank */
    uint64_t sum;                    /* of what this rank has written */
    size_t weight_bytes;
    uint32_t *place;  /* [n_local + n_ghosts] of an id in the order of the file */
    uint32_t *number; /* [n_local + n_ghosts] the vertex at a place */
    /* a piece of a section */
    char *piece;
    size_t n_bytes;
    uint64_t at; /* its offset */
    bool is_text;
} writing_t;

/* Collective: agrees on the first error of any rank, and logs it there. */
static pgas_status_t agree(writing_t *w)
{
    int culprit;
    pgas_status_t status = pgasi_graph_agree(w->error.status, &culprit);
    if (culprit == pgas_rank())
        pgasi_graph_log_error(w->path, &w->error, 0);
    return status;
}

static void no_memory(writing_t *w)
{
    pgasi_graph_error_set(&w->error, PGAS_ERR_NO_MEMORY, 0, "no memory to write it");
}

/* ---- pieces ---- */

static void flush(writing_t *w)
{
    if (w->n_bytes == 0 || w->error.status != PGAS_OK)
        return;
    w->sum += w->is_text ? pgasi_binary_sum_text(w->at, w->piece, w->n_bytes)
                         : pgasi_binary_sum(w->at, w->piece, w->n_bytes);
    if (pgasi_binary_pwrite(w->fd, w->at, w->piece, w->n_bytes) != PGAS_OK)
        pgasi_graph_error_set(&w->error, PGAS_ERR_IO, 0, "cannot write: %s", strerror(errno));
    w->at += w->n_bytes;
    w->n_bytes = 0;
}

static void begin_section(writing_t *w, uint64_t at)
{
    w->at = at;
    w->n_bytes = 0;
}

/* Bytes of one element, or of a part of the text. */
static inline void put(writing_t *w, const void *bytes, size_t n_bytes)
{
    if (w->n_bytes + n_bytes > PIECE)
        flush(w);
    memcpy(w->piece + w->n_bytes, bytes, n_bytes);
    w->n_bytes += n_bytes;
}

/* ---- the order of the ends in a row: longer rows first, then lower numbers ---- */

/* Gets the lengths of the rows of ghosts from their owners. Collective. */
static pgas_status_t get_degrees(writing_t *w, uint32_t *degree)
{
    const pgas_graph_t *graph = w->graph;
    size_t n_ranks = (size_t)graph->n_ranks;
    uint64_t n_mirrors = graph->mirror_begin[n_ranks];
    uint32_t *send = pgasi_graph_array(n_mirrors, sizeof *send);
    size_t *bytes = pgasi_graph_array(2 * n_ranks, sizeof *bytes);
    for (uint32_t id = 0; id < graph->n_local; id++)
        degree[id] = (uint32_t)(graph->out.begin[id + 1] - graph->out.begin[id]);
    if (!send || !bytes)
        no_memory(w);
    pgas_status_t status = agree(w);
    if (status == PGAS_OK) {
        for (uint64_t i = 0; i < n_mirrors; i++)
            send[i] = degree[graph->mirror[i]];
        for (size_t r = 0; r < n_ranks; r++) {
            bytes[r] = (graph->mirror_begin[r + 1] - graph->mirror_begin[r]) * sizeof *send;
            bytes[n_ranks + r] = (graph->ghost_begin[r + 1] - graph->ghost_begin[r]) * sizeof *send;
        }
        status = pgas_alltoallv(NULL, send, bytes, degree + graph->n_local, bytes + n_ranks);
    }
    free(send);
    free(bytes);
    return status;
}

/* Sorts twice. The second sort keeps the order of the first among equals. */
static void sort_ids(writing_t *w, const uint32_t *degree, pgasi_keyed_t *keyed)
{
    const pgas_graph_t *graph = w->graph;
    uint64_t n = (uint64_t)graph->n_local + graph->n_ghosts, greatest = 0;
    for (uint64_t id = 0; id < n; id++) {
        keyed[id] = (pgasi_keyed_t){ graph->vertex[id], (uint32_t)id };
        greatest = PGASI_MAX(greatest, degree[id]);
    }
    pgasi_keyed_t *sorted = pgasi_sort_keyed(keyed, keyed + n, n, graph->n_vertices);
    for (uint64_t i = 0; i < n; i++)
        sorted[i].key = greatest - degree[sorted[i].index];
    sorted = pgasi_sort_keyed(sorted, sorted == keyed ? keyed + n : keyed, n, greatest + 1);
    for (uint64_t i = 0; i < n; i++) {
        w->place[sorted[i].index] = (uint32_t)i;
        w->number[i] = (uint32_t)graph->vertex[sorted[i].index];
    }
}

/* Collective. */
static pgas_status_t make_order(writing_t *w)
{
    uint64_t n = (uint64_t)w->graph->n_local + w->graph->n_ghosts;
    uint32_t *degree = pgasi_graph_array(n, sizeof *degree);
    pgasi_keyed_t *keyed = pgasi_graph_array(2 * n, sizeof *keyed);
    w->place = pgasi_graph_array(n, sizeof *w->place);
    w->number = pgasi_graph_array(n, sizeof *w->number);
    w->piece = malloc(PIECE);
    if (!degree || !keyed || !w->place || !w->number || !w->piece)
        no_memory(w);
    pgas_status_t status = agree(w);
    if (status == PGAS_OK)
        status = get_degrees(w, degree);
    if (status == PGAS_OK)
        sort_ids(w, degree, keyed);
    free(degree);
    free(keyed);
    return status;
}

/* ---- sections ---- */

static uint64_t row_begin(const pgas_graph_t *graph, uint32_t i, uint64_t *n_p)
{
    uint32_t id = graph->id_of[i];
    *n_p = graph->out.begin[id + 1] - graph->out.begin[id];
    return graph->out.begin[id];
}

static void write_begins(writing_t *w)
{
    const pgas_graph_t *graph = w->graph;
    uint64_t at = w->first_edge, n;
    begin_section(w, w->map.begin + graph->first * sizeof at);
    for (uint32_t i = 0; i < graph->n_local; i++) {
        put(w, &at, sizeof at);
        row_begin(graph, i, &n);
        at += n;
    }
    if (graph->rank == graph->n_ranks - 1) {
        flush(w);
        begin_section(w, w->map.begin + graph->n_vertices * sizeof at);
        put(w, &graph->n_edges, sizeof graph->n_edges);
    }
    flush(w);
}

/* Sorts a row: keyed gets the places of its ends, with their positions in the row. */
static const pgasi_keyed_t *sort_row(const writing_t *w, uint64_t begin, uint64_t n,
                                     pgasi_keyed_t *keyed)
{
    const uint32_t *end = w->graph->out.end + begin;
    bool rises = true;
    for (uint64_t i = 0; i < n; i++) {
        keyed[i] = (pgasi_keyed_t){ w->place[end[i]], (uint32_t)i };
        rises = rises && (i == 0 || keyed[i - 1].key <= keyed[i].key);
    }
    uint64_t limit = (uint64_t)w->graph->n_local + w->graph->n_ghosts;
    return rises ? keyed : pgasi_sort_keyed(keyed, keyed + n, n, limit);
}

/* Writes the ends or the weights. */
static void write_edges(writing_t *w, bool weights, pgasi_keyed_t *keyed)
{
    const pgas_graph_t *graph = w->graph;
    size_t bytes = weights ? w->weight_bytes : sizeof(uint32_t);
    begin_section(w, (weights ? w->map.weight : w->map.end) + w->first_edge * bytes);
    for (uint32_t v = 0; v < graph->n_local; v++) {
        uint64_t n, begin = row_begin(graph, v, &n);
        const pgasi_keyed_t *sorted = sort_row(w, begin, n, keyed);
        for (uint64_t i = 0; i < n; i++)
            if (weights)
                put(w, (const char *)graph->out.weight + (begin + sorted[i].index) * bytes, bytes);
            else
                put(w, &w->number[sorted[i].key], sizeof(uint32_t));
    }
    flush(w);
}

static void write_rows(writing_t *w)
{
    const pgas_graph_t *graph = w->graph;
    uint64_t longest = 0;
    for (uint32_t id = 0; id < graph->n_local; id++)
        longest = PGASI_MAX(longest, graph->out.begin[id + 1] - graph->out.begin[id]);
    pgasi_keyed_t *keyed = pgasi_graph_array(2 * longest, sizeof *keyed);
    if (!keyed) {
        no_memory(w);
        return;
    }
    write_edges(w, false, keyed);
    if (w->weight_bytes > 0)
        write_edges(w, true, keyed);
    free(keyed);
}

static void write_labels(writing_t *w)
{
    const pgas_graph_t *graph = w->graph;
    begin_section(w, w->map.label + graph->first * sizeof *graph->labels);
    for (uint32_t i = 0; i < graph->n_local; i++)
        put(w, &graph->labels[i], sizeof *graph->labels);
    flush(w);
}

static void write_names(writing_t *w)
{
    const pgas_graph_t *graph = w->graph;
    uint64_t end = w->first_text;
    begin_section(w, w->map.name + graph->first * sizeof end);
    for (uint32_t i = 0; i < graph->n_local; i++) {
        end += graph->name[i].bytes;
        put(w, &end, sizeof end);
    }
    flush(w);
    begin_section(w, w->map.text + w->first_text);
    w->is_text = true;
    for (uint32_t i = 0; i < graph->n_local; i++)
        put(w, graph->name_text + graph->name[i].at, graph->name[i].bytes);
    flush(w);
    w->is_text = false;
}

/* ---- the file ---- */

/* Fills the header, except for the sums. Collective. */
static pgas_status_t make_header(writing_t *w)
{
    const pgas_graph_t *graph = w->graph;
    uint64_t mine[2] = { graph->out.begin[graph->n_local], 0 }, before[2], all[2];
    for (uint32_t i = 0; graph->has_names && i < graph->n_local; i++)
        mine[1] += graph->name[i].bytes;
    pgas_status_t status = pgas_exscan(NULL, mine, before, 2, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, mine, all, 2, PGAS_U64, PGAS_ADD);
    if (status != PGAS_OK)
        return status;
    w->first_edge = before[0];
    w->first_text = before[1];
    w->weight_bytes = pgasi_type_bytes(graph->weight_type);
    uint32_t flags = graph->directed ? PGASI_BINARY_DIRECTED : 0;
    flags |= graph->labels ? PGASI_BINARY_LABELS : 0;
    flags |= graph->has_names ? PGASI_BINARY_NAMES : 0;
    flags = graph->n_local > 0 ? flags : flags & PGASI_BINARY_DIRECTED;
    status = pgas_allreduce(NULL, &flags, &flags, 1, PGAS_U32, PGAS_OR);
    w->header = (pgasi_binary_header_t){
        .magic = "",
        .version = PGASI_BINARY_VERSION,
        .order = PGASI_BINARY_ORDER,
        .n_vertices = graph->n_vertices,
        .n_edges = all[0],
        .flags = flags,
        .weight_type = graph->weight_type,
        .text_bytes = all[1],
    };
    memcpy(w->header.magic, PGASI_BINARY_MAGIC, sizeof w->header.magic);
    pgasi_binary_map(&w->header, INT64_MAX, &w->map);
    return status;
}

/* Rank 0 makes the file, then the others open it. Collective. */
static pgas_status_t make_file(writing_t *w, const char *path)
{
    bool is_root = pgas_rank() == 0;
    if (is_root) {
        size_t n = path ? strlen(path) : 0;
        if (n == 0 || n > PATH_MAX - 32) {
            pgasi_graph_error_set(&w->error, PGAS_ERR_INVALID, 0,
                                  "the path to write to is empty or too long");
        } else {
            memcpy(w->path, path, n + 1);
            snprintf(w->partial, sizeof w->partial, "%.*s.%d.partial", (int)n, path, (int)getpid());
            w->fd = open(w->partial, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
            if (w->fd < 0 || ftruncate(w->fd, (off_t)w->map.file_bytes) != 0)
                pgasi_graph_error_set(&w->error, PGAS_ERR_IO, 0, "cannot make %s: %s", w->partial,
                                      strerror(errno));
        }
    }
    pgas_status_t status = agree(w);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, w->path, sizeof w->path, 0);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, w->partial, sizeof w->partial, 0);
    if (status != PGAS_OK)
        return status;
    if (!is_root)
        w->fd = open(w->partial, O_RDWR | O_CLOEXEC);
    if (w->fd < 0)
        pgasi_graph_error_set(&w->error, PGAS_ERR_IO, 0,
                              "cannot open %s, which rank 0 has made: %s", w->partial,
                              strerror(errno));
    return agree(w);
}

static void sync_file(writing_t *w)
{
    if (w->error.status == PGAS_OK && fsync(w->fd) != 0 && errno != EINVAL)
        pgasi_graph_error_set(&w->error, PGAS_ERR_IO, 0, "cannot write: %s", strerror(errno));
}

/* Writes the header and renames the file. Collective. */
static pgas_status_t end_file(writing_t *w)
{
    sync_file(w);
    pgas_status_t status = agree(w);
    if (status == PGAS_OK)
        status = pgas_reduce(NULL, &w->sum, 1, PGAS_U64, PGAS_ADD, 0);
    if (status != PGAS_OK)
        return status;
    if (pgas_rank() == 0) {
        w->header.contents_sum = w->sum;
        w->header.header_sum = pgasi_binary_header_sum(&w->header);
        if (pgasi_binary_pwrite(w->fd, 0, &w->header, sizeof w->header) != PGAS_OK)
            pgasi_graph_error_set(&w->error, PGAS_ERR_IO, 0, "cannot write: %s", strerror(errno));
        sync_file(w);
        if (w->error.status == PGAS_OK && rename(w->partial, w->path) != 0)
            pgasi_graph_error_set(&w->error, PGAS_ERR_IO, 0, "cannot rename %s: %s", w->partial,
                                  strerror(errno));
    }
    return agree(w);
}

static pgas_status_t write_all(writing_t *w, const char *path)
{
    pgas_status_t status = make_header(w);
    if (status == PGAS_OK)
        status = make_file(w, path);
    if (status == PGAS_OK)
        status = make_order(w);
    if (status != PGAS_OK)
        return status;
    write_begins(w);
    write_rows(w);
    if (w->header.flags & PGASI_BINARY_LABELS)
        write_labels(w);
    if (w->header.flags & PGASI_BINARY_NAMES)
        write_names(w);
    return end_file(w);
}

pgas_status_t pgas_graph_write(const pgas_graph_t *graph, const char *path)
{
    bool sane = graph && (path || pgas_rank() != 0);
    if (!sane)
        pgasi_graph_note("pgas_graph_write: graph or path is NULL");
    writing_t *w = pgasi_graph_zeroed(1, sizeof *w);
    pgas_status_t mine = sane ? PGAS_OK : PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_graph_agree(w ? mine : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK) {
        w->graph = graph;
        w->fd = -1;
        status = write_all(w, path);
        if (w->fd >= 0)
            close(w->fd);
        if (status != PGAS_OK && w->partial[0] != '\0' && pgas_rank() == 0)
            unlink(w->partial);
        free(w->place);
        free(w->number);
        free(w->piece);
    }
    free(w);
    return status;
}
