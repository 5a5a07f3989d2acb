/* Reading the forms BINARY and SG. Each rank reads the rows of its own vertices, which are one part
 * of the file, in pieces of 128 KiB, and places them in the order of its ids. It does not map the
 * file: if the file becomes shorter, the result is an error and no signal.
 *
 * The reader trusts no number of a file. It checks sizes against the size of the file before it
 * allocates memory, and each number before it uses the number as an index. */
#include "graph/binary.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/op.h"
#include "graph/binary_order.h"
#include "graph/graph.h"
#include "graph/ids.h"
#include "graph/rows.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

#define PIECE (128u << 10) /* stays in the second cache while it is summed, translated and placed */

/* What rank 0 finds in the header. */
typedef struct {
    uint64_t n_vertices, n_edges, file_bytes;
    uint64_t begin_at, end_at, weight_at;
    uint64_t label_at, name_at, text_at, text_bytes; /* label_at, name_at: 0 if there are none */
    uint64_t contents_sum;
    pgas_type_t weight_type; /* PGAS_I32: of SG, each behind its end */
    bool directed, has_sum;
} file_t;

typedef struct {
    const char *path;
    file_t file;
    int fd;
    char *piece;
    pgasi_graph_error_t error;
    uint64_t sum;            /* of what this rank has read */
    uint64_t first, n_local; /* vertices */
    uint64_t *begin;         /* [n_local + 1] of the file */
    uint64_t *place;         /* [n_local] where a row goes */
    uint32_t *end;
    void *weight; /* NULL: none, or they are dropped */
    pgas_type_t weight_type;
    const uint32_t *id_of; /* one rank: ends become ids at once; else NULL */
    uint64_t greatest;     /* of the ends */
    bool rises;            /* the ends in each row, as they are stored */
} load_t;

/* Collective: agrees on the first error of any rank, and logs it there. */
static pgas_status_t agree(load_t *l)
{
    int culprit;
    pgas_status_t status = pgasi_graph_agree(l->error.status, &culprit);
    if (culprit == pgas_rank())
        pgasi_graph_log_error(l->path, &l->error, 0);
    return status;
}

static pgas_status_t refuse(load_t *l, const char *reason)
{
    return pgasi_graph_error_set(&l->error, PGAS_ERR_FORMAT, 0, "%s", reason);
}

static pgas_status_t no_memory(load_t *l)
{
    return pgasi_graph_error_set(&l->error, PGAS_ERR_NO_MEMORY, 0,
                                 "no memory for a rank's part of the graph: use more nodes");
}

static pgas_status_t read_at(load_t *l, uint64_t offset, void *bytes, size_t n_bytes)
{
    pgas_status_t status = pgasi_binary_pread(l->fd, offset, bytes, n_bytes);
    if (status != PGAS_OK) {
        pgasi_graph_error_set(&l->error, status, 0, "%s",
                              errno != 0 ? strerror(errno) : "became shorter while it was read");
    }
    return status;
}

/* ---- headers ---- */

static void read_binary_header(load_t *l)
{
    pgasi_binary_header_t header;
    pgasi_binary_map_t map;
    if (l->file.file_bytes < sizeof header) {
        refuse(l, "is truncated: it ends in its header");
        return;
    }
    if (read_at(l, 0, &header, sizeof header) != PGAS_OK ||
        pgasi_binary_check(&header, l->file.file_bytes, &map, &l->error) != PGAS_OK)
        return;
    l->file = (file_t){
        .n_vertices = header.n_vertices,
        .n_edges = header.n_edges,
        .file_bytes = l->file.file_bytes,
        .begin_at = map.begin,
        .end_at = map.end,
        .weight_at = map.weight,
        .label_at = header.flags & PGASI_BINARY_LABELS ? map.label : 0,
        .name_at = header.flags & PGASI_BINARY_NAMES ? map.name : 0,
        .text_at = map.text,
        .text_bytes = header.text_bytes,
        .contents_sum = header.contents_sum,
        .weight_type = (pgas_type_t)header.weight_type,
        .directed = (header.flags & PGASI_BINARY_DIRECTED) != 0,
        .has_sum = true,
    };
}

/* GAP writes: directed (1 byte), edges, vertices (8 bytes each), begins of rows (8 bytes), ends (4
 * bytes; with weights 8). In-edges follow if it is directed. */
static void read_sg_header(load_t *l)
{
    enum { HEADER = 17 };
    file_t *f = &l->file;
    char header[HEADER];
    int64_t n_edges, n_vertices;
    uint64_t size = f->file_bytes;
    if (size < HEADER) {
        refuse(l, "is truncated: it ends in its header");
        return;
    }
    if (read_at(l, 0, header, HEADER) != PGAS_OK)
        return;
    memcpy(&n_edges, header + 1, sizeof n_edges);
    memcpy(&n_vertices, header + 1 + sizeof n_edges, sizeof n_vertices);
    if (header[0] < 0 || header[0] > 1 || n_vertices <= 0 || n_edges < 0 ||
        n_vertices > INT32_MAX || (uint64_t)n_vertices >= size / sizeof(uint64_t) ||
        (uint64_t)n_edges > size / sizeof(uint32_t)) {
        refuse(l, "is truncated, or not a serialized graph of GAP of this machine's byte order");
        return;
    }
    f->directed = header[0] != 0;
    f->n_vertices = (uint64_t)n_vertices;
    f->n_edges = (uint64_t)n_edges;
    f->begin_at = HEADER;
    f->end_at = HEADER + (f->n_vertices + 1) * sizeof(uint64_t);
    uint64_t n_times = f->directed ? 2 : 1, begins = (f->n_vertices + 1) * sizeof(uint64_t);
    uint64_t bare = HEADER + n_times * (begins + f->n_edges * sizeof(uint32_t));
    uint64_t weighted = HEADER + n_times * (begins + f->n_edges * 2 * sizeof(uint32_t));
    if (size != bare && size != weighted)
        refuse(l, "is truncated, or has bytes behind its end");
    f->weight_type = size == weighted && f->n_edges > 0 ? PGAS_I32 : PGAS_TYPE_NONE;
}

/* Collective. */
static pgas_status_t open_file(load_t *l, const pgasi_source_info_t *info)
{
    struct stat stat;
    l->piece = malloc(PIECE);
    if (!l->piece)
        no_memory(l);
    if (info->is_stream)
        refuse(l, "has a binary form, so it cannot be compressed or a stream: unpack it to a file");
    else
        l->fd = open(l->path, O_RDONLY | O_CLOEXEC);
    if (l->fd >= 0 && fstat(l->fd, &stat) == 0)
        l->file.file_bytes = (uint64_t)stat.st_size;
    else
        pgasi_graph_error_set(&l->error, PGAS_ERR_IO, 0, "cannot open: %s", strerror(errno));
    pgas_status_t status = agree(l);
    if (status != PGAS_OK)
        return status;
    uint64_t file_bytes = l->file.file_bytes;
    if (pgas_rank() == 0 && info->format == PGAS_GRAPH_SG)
        read_sg_header(l);
    else if (pgas_rank() == 0)
        read_binary_header(l);
    status = agree(l);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, &l->file, sizeof l->file, 0);
    if (status == PGAS_OK && l->file.file_bytes != file_bytes)
        pgasi_graph_error_set(&l->error, PGAS_ERR_IO, 0, "is not the same file as on rank 0");
    return status == PGAS_OK ? agree(l) : status;
}

/* ---- ranges ---- */

/* The first vertex before which there is at least this cost. */
static uint64_t find_cost(load_t *l, double alpha, double cost)
{
    uint64_t low = 0, high = l->file.n_vertices, before;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (read_at(l, l->file.begin_at + middle * sizeof before, &before, sizeof before) !=
            PGAS_OK)
            return low;
        if (alpha * (double)middle + (double)before < cost)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Rank 0 chooses the ranges, so that they have about the same number of edges. */
static void choose_ranges(load_t *l, const pgasi_build_t *build, uint64_t *first_of)
{
    uint64_t n = l->file.n_vertices;
    int n_ranks = pgas_n_ranks();
    double all = build->alpha * (double)n + (double)l->file.n_edges;
    for (int r = 1; r < n_ranks && !build->first_of; r++) {
        uint64_t first = find_cost(l, build->alpha, all * r / n_ranks);
        first_of[r] = PGASI_MAX(PGASI_MIN(first, n), first_of[r - 1]);
    }
    first_of[n_ranks] = n;
    bool sane = true;
    for (int r = 0; r <= n_ranks && build->first_of; r++) {
        first_of[r] = build->first_of[r];
        sane = sane && (r == 0 ? first_of[r] == 0 : first_of[r] >= first_of[r - 1]);
    }
    if (!sane || first_of[n_ranks] != n) {
        pgasi_graph_error_set(&l->error, PGAS_ERR_INVALID, 0,
                              "first_of is not a rising list from 0 to %" PRIu64, n);
    }
}

/* ---- rows ---- */

/* Reads the begins of this rank's rows. */
static void read_begins(load_t *l)
{
    uint64_t n = l->n_local + 1, *begin = NULL;
    l->begin = begin = pgasi_graph_array(n, sizeof *begin);
    l->place = pgasi_graph_array(n, sizeof *l->place);
    uint64_t at = l->file.begin_at + l->first * sizeof *begin;
    bool is_last = l->first + l->n_local == l->file.n_vertices;
    if (!begin || !l->place) {
        no_memory(l);
        return;
    }
    if (read_at(l, at, begin, n * sizeof *begin) != PGAS_OK)
        return;
    /* the last begin is the first one of the next rank, even if neither has vertices */
    uint64_t n_summed = pgas_rank() < pgas_n_ranks() - 1 ? n - 1 : n;
    if (l->file.has_sum)
        l->sum += pgasi_binary_sum(at, begin, n_summed * sizeof *begin);
    bool sane = l->first > 0 || begin[0] == 0;
    for (uint64_t v = 0; v < l->n_local; v++)
        sane = sane && begin[v] <= begin[v + 1] && begin[v + 1] - begin[v] <= UINT32_MAX;
    if (!sane || begin[l->n_local] > l->file.n_edges ||
        (is_last && begin[l->n_local] != l->file.n_edges))
        refuse(l, "is corrupt: the rows do not follow each other");
}

/* Checks or changes the n elements of a piece. */
typedef void (*prepare_fn_t)(load_t *l, char *elems, uint64_t n);
/* Takes elements from..from + n - 1 of row v. */
typedef void (*put_fn_t)(load_t *l, uint64_t v, uint64_t from, const char *elems, uint64_t n);

/* Reads this rank's part of a section with an element for each edge. prepare may be NULL. */
static void read_edges_of(load_t *l, uint64_t section, size_t elem_bytes, prepare_fn_t prepare,
                          put_fn_t put)
{
    uint64_t v = 0, in_row = 0, at = l->begin[0], end = l->begin[l->n_local];
    while (at < end && l->error.status == PGAS_OK) {
        uint64_t n = PGASI_MIN(end - at, PIECE / elem_bytes), used = 0;
        uint64_t offset = section + at * elem_bytes;
        if (read_at(l, offset, l->piece, n * elem_bytes) != PGAS_OK)
            return;
        if (l->file.has_sum)
            l->sum += pgasi_binary_sum(offset, l->piece, n * elem_bytes);
        if (prepare)
            prepare(l, l->piece, n);
        while (used < n) {
            uint64_t row = l->begin[v + 1] - l->begin[v];
            uint64_t n_here = PGASI_MIN(row - in_row, n - used);
            put(l, v, in_row, l->piece + used * elem_bytes, n_here);
            used += n_here;
            in_row += n_here;
            if (in_row == row) {
                v++;
                in_row = 0;
            }
        }
        at += n;
    }
}

/* Ends become ids while their piece is in the cache. */
static void translate_ends(load_t *l, char *elems, uint64_t n)
{
    uint32_t *end = (uint32_t *)(void *)elems, greatest = 0;
    const uint32_t *id_of = l->id_of;
    for (uint64_t i = 0; i < n; i++)
        greatest = PGASI_MAX(greatest, end[i]);
    l->greatest = PGASI_MAX(l->greatest, greatest);
    if (id_of && greatest < l->file.n_vertices)
        for (uint64_t i = 0; i < n; i++)
            end[i] = id_of[end[i]];
}

static void put_ends(load_t *l, uint64_t v, uint64_t from, const char *elems, uint64_t n)
{
    uint32_t *end = l->end + l->place[v] + from;
    memcpy(end, elems, n * sizeof *end);
    l->rises = l->rises && (from == 0 || end[-1] <= end[0]) && pgasi_ends_rise(end, n);
}

static void put_weight(load_t *l, uint64_t to, double weight)
{
    bool fits = true;
    switch (l->weight_type) {
    case PGAS_U32:
        fits = weight >= 0 && weight <= UINT32_MAX && weight == floor(weight);
        ((uint32_t *)l->weight)[to] = fits ? (uint32_t)weight : 0;
        break;
    case PGAS_F32:
        ((float *)l->weight)[to] = (float)weight;
        fits = !isinf((float)weight) || isinf(weight);
        break;
    default:
        ((double *)l->weight)[to] = weight;
    }
    if (PGAS_UNLIKELY(!fits)) {
        pgasi_graph_error_set(&l->error, PGAS_ERR_RANGE, 0,
                              "the weight %g does not fit the type of weights", weight);
    }
}

static void put_weights(load_t *l, uint64_t v, uint64_t from, const char *elems, uint64_t n)
{
    uint64_t to = l->place[v] + from;
    size_t bytes = pgasi_type_bytes(l->file.weight_type);
    if (l->weight_type == l->file.weight_type) {
        memcpy((char *)l->weight + to * bytes, elems, n * bytes);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        union {
            uint32_t u32;
            float f32;
            double f64;
        } value;
        memcpy(&value, elems + i * bytes, bytes);
        double weight = l->file.weight_type == PGAS_F32 ? (double)value.f32 : value.f64;
        put_weight(l, to + i, l->file.weight_type == PGAS_U32 ? value.u32 : weight);
    }
}

/* Of SG: an end and its weight. */
static void put_pairs(load_t *l, uint64_t v, uint64_t from, const char *elems, uint64_t n)
{
    uint64_t to = l->place[v] + from;
    l->rises = false; /* GAP sorts by number */
    for (uint64_t i = 0; i < n; i++) {
        int32_t pair[2];
        memcpy(pair, elems + i * sizeof pair, sizeof pair);
        uint32_t end = (uint32_t)pair[0];
        l->end[to + i] = l->id_of && end < l->file.n_vertices ? l->id_of[end] : end;
        l->greatest = PGASI_MAX(l->greatest, end);
        if (l->weight)
            put_weight(l, to + i, pair[1]);
    }
}

static void check_greatest(load_t *l)
{
    if (l->greatest >= l->file.n_vertices && l->begin[l->n_local] > l->begin[0])
        refuse(l, "is corrupt: an edge leads to a vertex that does not exist");
}

/* Reads the rows to their places. weight_bytes: those of a weight of the graph. */
static void read_rows(load_t *l)
{
    uint64_t n = l->begin[l->n_local] - l->begin[0];
    size_t weight_bytes = pgasi_type_bytes(l->weight_type);
    l->rises = true;
    l->end = pgasi_graph_array(n, sizeof *l->end);
    l->weight = weight_bytes > 0 ? pgasi_graph_array(n, weight_bytes) : NULL;
    if (!l->end || (weight_bytes > 0 && !l->weight)) {
        no_memory(l);
        return;
    }
    if (l->file.weight_type == PGAS_I32) {
        read_edges_of(l, l->file.end_at, 2 * sizeof(int32_t), NULL, put_pairs);
    } else {
        read_edges_of(l, l->file.end_at, sizeof(uint32_t), translate_ends, put_ends);
        if (l->weight)
            read_edges_of(l, l->file.weight_at, pgasi_type_bytes(l->file.weight_type), NULL,
                          put_weights);
    }
    if (l->error.status == PGAS_OK)
        check_greatest(l);
}

/* ---- the graph, if the rows of the file are its rows ---- */

static pgas_status_t make_graph(load_t *l, const pgasi_build_t *build, pgas_graph_t **graph_p)
{
    size_t n_ranks = (size_t)pgas_n_ranks();
    pgas_graph_t *graph = pgasi_graph_zeroed(1, sizeof *graph);
    if (!graph)
        return no_memory(l);
    *graph_p = graph;
    graph->rank = pgas_rank();
    graph->n_ranks = (int)n_ranks;
    graph->n_vertices = l->file.n_vertices;
    graph->n_edges = l->file.n_edges;
    graph->directed = build->directed;
    graph->weight_type = build->weight_type;
    graph->first_of = pgasi_graph_zeroed(n_ranks + 1, sizeof *graph->first_of);
    if (!graph->first_of)
        return no_memory(l);
    if (graph->rank == 0)
        choose_ranges(l, build, graph->first_of);
    return l->error.status;
}

/* Gives the ids, and the rows their places. */
static void place_rows(load_t *l, pgas_graph_t *graph)
{
    uint64_t n = l->n_local, at = 0;
    uint32_t *degree = pgasi_graph_array(n, sizeof *degree);
    graph->out.begin = pgasi_graph_array(n + 1, sizeof *graph->out.begin);
    if (!degree || !graph->out.begin) {
        free(degree);
        no_memory(l);
        return;
    }
    for (uint64_t v = 0; v < n; v++)
        degree[v] = (uint32_t)(l->begin[v + 1] - l->begin[v]);
    if (pgasi_ids_order(graph, degree) != PGAS_OK) {
        no_memory(l);
    } else {
        for (uint32_t id = 0; id < n; id++) {
            uint64_t v = graph->vertex[id] - graph->first;
            graph->out.begin[id] = l->place[v] = at;
            at += degree[v];
        }
        graph->out.begin[n] = at;
    }
    free(degree);
}

static pgas_status_t load_rows(load_t *l, const pgasi_build_t *build, pgas_graph_t *graph)
{
    place_rows(l, graph);
    l->id_of = graph->n_ranks == 1 ? graph->id_of : NULL;
    if (l->error.status == PGAS_OK)
        read_rows(l);
    graph->out.end = l->end;
    graph->out.weight = l->weight;
    pgas_status_t status = agree(l);
    if (status == PGAS_OK)
        status = pgasi_ids_translate(graph, graph->out.end,
                                     l->id_of ? 0 : graph->out.begin[graph->n_local]);
    /* one rank: the ends have become ids before they were stored */
    bool sorted = l->id_of && l->rises;
    if (status == PGAS_OK)
        status = pgasi_graph_agree(sorted ? PGAS_OK : pgasi_binary_order(graph, &graph->out), NULL);
    if (status == PGAS_OK && build->simple)
        pgasi_rows_simplify(graph, &graph->out);
    return status == PGAS_OK ? pgasi_graph_measure(graph) : status;
}

/* ---- the graph, if it has other edges or weights than the file ---- */

static double weight_at(const load_t *l, uint64_t i)
{
    switch (l->weight_type) {
    case PGAS_U32:
        return ((const uint32_t *)l->weight)[i];
    case PGAS_F32:
        return ((const float *)l->weight)[i];
    case PGAS_F64:
        return ((const double *)l->weight)[i];
    default:
        return NAN;
    }
}

static void list_edges(load_t *l, pgasi_edges_t *edges)
{
    for (uint64_t v = 0; v < l->n_local; v++)
        l->place[v] = l->begin[v] - l->begin[0];
    read_rows(l);
    for (uint64_t v = 0; v < l->n_local && l->error.status == PGAS_OK; v++) {
        uint64_t n = l->begin[v + 1] - l->begin[v];
        for (uint64_t i = l->place[v]; i < l->place[v] + n; i++)
            if (pgasi_edges_add(edges, l->first + v, l->end[i], weight_at(l, i)) != PGAS_OK)
                no_memory(l);
    }
    free(l->end);
    free(l->weight);
    l->end = NULL;
    l->weight = NULL;
}

static pgas_status_t rebuild(load_t *l, pgasi_build_t *build, pgas_graph_t **graph_p)
{
    pgasi_edges_t edges;
    pgasi_edges_init(&edges, l->weight_type);
    list_edges(l, &edges);
    pgas_status_t status = agree(l);
    if (status != PGAS_OK) {
        pgasi_edges_fini(&edges);
        return status;
    }
    pgas_graph_destroy(*graph_p);
    *graph_p = NULL;
    build->n_vertices = l->file.n_vertices;
    build->mirrored = !l->file.directed;
    return pgasi_graph_build(build, &edges, graph_p);
}

/* ---- labels and names ---- */

static void read_labels(load_t *l, pgas_graph_t *graph)
{
    uint64_t at = l->file.label_at + graph->first * sizeof *graph->labels;
    size_t bytes = graph->n_local * sizeof *graph->labels;
    graph->labels = pgasi_graph_array(graph->n_local, sizeof *graph->labels);
    if (!graph->labels) {
        no_memory(l);
        return;
    }
    if (read_at(l, at, graph->labels, bytes) == PGAS_OK)
        l->sum += pgasi_binary_sum(at, graph->labels, bytes);
}

static void read_names(load_t *l, pgas_graph_t *graph)
{
    uint32_t n = graph->n_local;
    uint64_t at = l->file.name_at + graph->first * sizeof(uint64_t), begin = 0;
    uint64_t *end = pgasi_graph_array(n, sizeof *end);
    graph->name = pgasi_graph_zeroed(n, sizeof *graph->name);
    if (!end || !graph->name) {
        free(end);
        no_memory(l);
        return;
    }
    if (graph->first > 0)
        read_at(l, at - sizeof begin, &begin, sizeof begin);
    read_at(l, at, end, n * sizeof *end);
    bool sane = l->error.status == PGAS_OK;
    for (uint32_t i = 0; sane && i < n; i++) {
        uint64_t before = i > 0 ? end[i - 1] : begin;
        sane = end[i] >= before && end[i] <= l->file.text_bytes &&
               end[i] - before <= PGASI_READER_NAME_MAX;
        graph->name[i] = (pgasi_name_t){ before - begin, (uint32_t)(end[i] - before), 0 };
    }
    if (!sane)
        refuse(l, "is corrupt: the names do not follow each other");
    size_t bytes = sane && n > 0 ? end[n - 1] - begin : 0;
    graph->name_text = pgasi_graph_array(bytes, 1);
    graph->name_text_bytes = graph->name_text_room = bytes;
    if (!graph->name_text)
        no_memory(l);
    else if (sane && read_at(l, l->file.text_at + begin, graph->name_text, bytes) == PGAS_OK) {
        l->sum += pgasi_binary_sum(at, end, n * sizeof *end);
        l->sum += pgasi_binary_sum_text(l->file.text_at + begin, graph->name_text, bytes);
    }
    free(end);
    graph->has_names = true;
}

/* Collective. */
static pgas_status_t check_sum(load_t *l)
{
    uint64_t sum = l->sum;
    pgas_status_t status = pgas_allreduce(NULL, &sum, &sum, 1, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK && l->file.has_sum && sum != l->file.contents_sum)
        refuse(l, "is corrupt: the checksum of its contents does not match");
    return status == PGAS_OK ? agree(l) : status;
}

/* ---- the whole ---- */

static pgas_status_t load(load_t *l, pgasi_build_t *build, pgas_graph_t **graph_p)
{
    bool has_weight = l->file.weight_type != PGAS_TYPE_NONE;
    l->weight_type = pgasi_build_weights(build, has_weight);
    bool both_ways = l->file.directed && !build->directed;
    build->directed = build->directed && l->file.directed;
    make_graph(l, build, graph_p);
    pgas_status_t status = agree(l);
    pgas_graph_t *graph = *graph_p;
    if (status == PGAS_OK) {
        size_t bytes = ((size_t)graph->n_ranks + 1) * sizeof *graph->first_of;
        status = pgas_broadcast(NULL, graph->first_of, bytes, 0);
    }
    if (status != PGAS_OK)
        return status;
    l->first = graph->first = graph->first_of[graph->rank];
    l->n_local = graph->first_of[graph->rank + 1] - graph->first;
    graph->n_local = (uint32_t)l->n_local;
    read_begins(l);
    status = agree(l);
    if (status == PGAS_OK) {
        status = both_ways || build->random_weights ? rebuild(l, build, graph_p)
                                                    : load_rows(l, build, graph);
    }
    if (status == PGAS_OK && l->file.label_at != 0)
        read_labels(l, *graph_p);
    if (status == PGAS_OK && l->file.name_at != 0)
        read_names(l, *graph_p);
    if (status == PGAS_OK)
        status = agree(l);
    /* without the weights the sum of the file is not known */
    bool is_whole = l->weight_type != PGAS_TYPE_NONE || !has_weight;
    return status == PGAS_OK && is_whole ? check_sum(l) : status;
}

pgas_status_t pgasi_binary_read(const pgasi_source_info_t *info, pgasi_build_t *build,
                                pgas_graph_t **graph_p)
{
    load_t l = { .path = info->path, .fd = -1 };
    pgas_graph_t *graph = NULL;
    pgas_status_t status = open_file(&l, info);
    if (status == PGAS_OK)
        status = load(&l, build, &graph);
    if (l.fd >= 0)
        close(l.fd);
    free(l.piece);
    free(l.begin);
    free(l.place);
    if (status == PGAS_OK)
        *graph_p = graph;
    else
        pgas_graph_destroy(graph);
    return status;
}
