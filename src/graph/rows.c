/* Edges on their way to their owners. A rank places edges of own rows at once, and sends the others
 * in bounded rounds (shuffle.h). At the peak an owner holds the visited list, and 4 bytes and the
 * weight for each of its edges. */
#include "graph/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/op.h"
#include "graph/ids.h"
#include "graph/shuffle.h"
#include "graph/sort.h"

/* An edge on its way. The weight is sent only if the graph has weights. */
typedef struct {
    uint32_t row, end;
    uint64_t weight;
} edge_t;

#define BATCH 256

typedef struct {
    pgas_graph_t *graph;
    pgasi_rows_t *rows;
    uint32_t *degree; /* [n_local] by number */
    size_t weight_bytes;
    bool is_alone; /* one rank: nothing travels */
    pgasi_shuffle_t shuffle;
    edge_t batch[BATCH]; /* that are placed together */
    uint32_t n_batch;
} making_t;

/* ---- how many edges each row gets ---- */

static void count_edge(void *arg, uint32_t row, uint32_t end, uint64_t weight)
{
    making_t *m = arg;
    (void)end, (void)weight;
    if (pgasi_graph_is_own(m->graph, row))
        m->degree[row - m->graph->first]++;
    else
        pgasi_shuffle_put(&m->shuffle, pgasi_graph_owner(m->graph, row), &row);
}

static void take_rows(void *arg, int source, const void *items, uint64_t n)
{
    making_t *m = arg;
    const uint32_t *row = items;
    (void)source;
    for (uint64_t i = 0; i < n; i++)
        m->degree[row[i] - m->graph->first]++;
}

static pgas_status_t travel(making_t *m, size_t item_bytes, pgasi_shuffle_take_fn_t take_items,
                            pgasi_edges_fn_t visit, const void *list, pgasi_edge_fn_t take)
{
    pgas_status_t status = PGAS_OK;
    if (!m->is_alone)
        status = pgasi_shuffle_init(&m->shuffle, item_bytes, take_items, m);
    if (status == PGAS_OK)
        visit(list, take, m);
    if (status == PGAS_OK && !m->is_alone)
        status = pgasi_shuffle_end(&m->shuffle, PGAS_OK);
    return status;
}

/* ---- placing ---- */

static void set_weight(void *to, uint64_t at, uint64_t weight, size_t bytes)
{
    if (bytes == sizeof(uint32_t))
        ((uint32_t *)to)[at] = (uint32_t)weight;
    else if (bytes != 0)
        ((uint64_t *)to)[at] = weight;
}

/* Places the edges of the batch. Each edge needs three places of memory, of which each depends on
 * the one before. So the batch goes through them in steps, and each step requests the memory of the
 * next one. begin[id + 1] is the next place of the row, so that it is the begin of the next row at
 * the end. */
static void place_batch(making_t *m)
{
    uint32_t id[BATCH];
    uint64_t *begin = m->rows->begin;
    const uint32_t *id_of = m->graph->id_of;
    uint64_t first = m->graph->first;
    for (uint32_t i = 0; i < m->n_batch; i++) {
        id[i] = id_of[m->batch[i].row - first];
        __builtin_prefetch(&begin[id[i] + 1], 1);
    }
    for (uint32_t i = 0; i < m->n_batch; i++)
        __builtin_prefetch(&m->rows->end[begin[id[i] + 1]], 1);
    for (uint32_t i = 0; i < m->n_batch; i++) {
        uint64_t at = begin[id[i] + 1]++;
        m->rows->end[at] = m->batch[i].end;
        set_weight(m->rows->weight, at, m->batch[i].weight, m->weight_bytes);
    }
    m->n_batch = 0;
}

static inline void place(making_t *m, const edge_t *edge)
{
    __builtin_prefetch(&m->graph->id_of[edge->row - m->graph->first]);
    m->batch[m->n_batch++] = *edge;
    if (m->n_batch == BATCH)
        place_batch(m);
}

static void place_edge(void *arg, uint32_t row, uint32_t end, uint64_t weight)
{
    making_t *m = arg;
    if (pgasi_graph_is_own(m->graph, row)) {
        edge_t edge = { row, end, weight };
        place(m, &edge);
    } else {
        edge_t edge = { row, end, weight };
        pgasi_shuffle_put(&m->shuffle, pgasi_graph_owner(m->graph, row), &edge);
    }
}

static void take_edges(void *arg, int source, const void *items, uint64_t n)
{
    making_t *m = arg;
    size_t bytes = m->shuffle.item_bytes;
    (void)source;
    for (uint64_t i = 0; i < n; i++) {
        edge_t edge = { 0, 0, 0 };
        memcpy(&edge, (const char *)items + i * bytes, bytes);
        place(m, &edge);
    }
}

static pgas_status_t allocate(making_t *m)
{
    pgas_graph_t *graph = m->graph;
    pgasi_rows_t *rows = m->rows;
    uint64_t n_edges = 0;
    for (uint32_t i = 0; i < graph->n_local; i++)
        n_edges += m->degree[i];
    size_t edge_bytes = sizeof *rows->end + m->weight_bytes;
    if (n_edges > pgasi_graph_memory() / edge_bytes) {
        pgasi_graph_note("%" PRIu64 " edges on a rank take %" PRIu64 " MiB, it has %" PRIu64
                         ": use more nodes or a smaller graph",
                         n_edges, n_edges * edge_bytes >> 20, pgasi_graph_memory() >> 20);
        return PGAS_ERR_NO_MEMORY;
    }
    rows->begin = pgasi_graph_zeroed((uint64_t)graph->n_local + 1, sizeof *rows->begin);
    rows->end = pgasi_graph_array(n_edges, sizeof *rows->end);
    if (m->weight_bytes > 0)
        rows->weight = pgasi_graph_array(n_edges, m->weight_bytes);
    if (!rows->begin || !rows->end || (m->weight_bytes > 0 && !rows->weight))
        return PGAS_ERR_NO_MEMORY;
    uint64_t begin = 0;
    for (uint32_t id = 0; id < graph->n_local; id++) {
        rows->begin[id + 1] = begin;
        begin += m->degree[graph->vertex[id] - graph->first];
    }
    return PGAS_OK;
}

static pgas_status_t prepare(making_t *m)
{
    pgas_status_t status = PGAS_OK;
    if (!m->graph->id_of)
        status = pgasi_ids_order(m->graph, m->degree);
    if (status == PGAS_OK)
        status = allocate(m);
    free(m->degree);
    m->degree = NULL;
    return status;
}

/* ---- order ---- */

static void move_weight(void *to, uint64_t to_at, const void *from, uint64_t from_at, size_t bytes)
{
    if (bytes == sizeof(uint32_t))
        ((uint32_t *)to)[to_at] = ((const uint32_t *)from)[from_at];
    else if (bytes != 0)
        ((uint64_t *)to)[to_at] = ((const uint64_t *)from)[from_at];
}

/* Memory for the longest row. */
typedef struct {
    uint32_t *ends;
    pgasi_keyed_t *keyed; /* twice the row */
    void *weights;
} scratch_t;

static void sort_row(const making_t *m, uint64_t begin, uint64_t n, uint64_t limit, scratch_t *s)
{
    uint32_t *end = m->rows->end + begin;
    if (m->weight_bytes == 0) {
        pgasi_sort_u32(end, s->ends, n, limit);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        s->keyed[i] = (pgasi_keyed_t){ end[i], (uint32_t)i };
        move_weight(s->weights, i, m->rows->weight, begin + i, m->weight_bytes);
    }
    const pgasi_keyed_t *sorted = pgasi_sort_keyed(s->keyed, s->keyed + n, n, limit);
    for (uint64_t i = 0; i < n; i++) {
        end[i] = (uint32_t)sorted[i].key;
        move_weight(m->rows->weight, begin + i, s->weights, sorted[i].index, m->weight_bytes);
    }
}

static pgas_status_t sort_rows(const making_t *m)
{
    const uint64_t *begin = m->rows->begin;
    uint32_t n_local = m->graph->n_local;
    uint64_t longest = 0, limit = (uint64_t)n_local + m->graph->n_ghosts + 1;
    for (uint32_t id = 0; id < n_local; id++)
        longest = PGASI_MAX(longest, begin[id + 1] - begin[id]);
    bool weighted = m->weight_bytes > 0;
    scratch_t s = {
        pgasi_graph_array(weighted ? 0 : longest, sizeof *s.ends),
        pgasi_graph_array(weighted ? 2 * longest : 0, sizeof *s.keyed),
        pgasi_graph_array(longest, m->weight_bytes + 1),
    };
    bool have = s.ends && s.keyed && s.weights;
    for (uint32_t id = 0; have && id < n_local; id++)
        if (begin[id + 1] - begin[id] > 1)
            sort_row(m, begin[id], begin[id + 1] - begin[id], limit, &s);
    free(s.ends);
    free(s.keyed);
    free(s.weights);
    return have ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

pgas_status_t pgasi_rows_sort(const pgas_graph_t *graph, pgasi_rows_t *rows)
{
    making_t m = { .rows = rows, .weight_bytes = pgasi_type_bytes(graph->weight_type) };
    m.graph = (pgas_graph_t *)graph; /* sort_rows does not change it */
    return sort_rows(&m);
}

/* ---- the whole ---- */

pgas_status_t pgasi_rows_make(pgas_graph_t *graph, pgasi_edges_fn_t visit, const void *list,
                              void (*release)(const void *list), pgasi_rows_t *rows)
{
    making_t m = {
        .graph = graph,
        .rows = rows,
        .weight_bytes = pgasi_type_bytes(graph->weight_type),
        .is_alone = graph->n_ranks == 1,
    };
    size_t edge_bytes = offsetof(edge_t, weight) + m.weight_bytes;
    *rows = (pgasi_rows_t){ 0 };
    m.degree = pgasi_graph_zeroed(graph->n_local, sizeof *m.degree);
    pgas_status_t status = pgasi_graph_agree(m.degree ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK)
        status = travel(&m, sizeof(uint32_t), take_rows, visit, list, count_edge);
    if (status == PGAS_OK)
        status = pgasi_graph_agree(prepare(&m), NULL);
    if (status == PGAS_OK)
        status = travel(&m, edge_bytes, take_edges, visit, list, place_edge);
    if (status == PGAS_OK)
        place_batch(&m);
    release(list);
    if (status == PGAS_OK)
        status = pgasi_ids_translate(graph, rows->end, rows->begin[graph->n_local]);
    if (status == PGAS_OK)
        status = pgasi_graph_agree(sort_rows(&m), NULL);
    free(m.degree);
    if (status != PGAS_OK)
        pgasi_rows_fini(rows);
    return status;
}

void pgasi_rows_fini(pgasi_rows_t *rows)
{
    free(rows->begin);
    free(rows->end);
    free(rows->weight);
    *rows = (pgasi_rows_t){ 0 };
}

/* ---- simple graphs ---- */

static bool is_less(const void *weight, pgas_type_t type, uint64_t a, uint64_t b)
{
    switch (type) {
    case PGAS_U32:
        return ((const uint32_t *)weight)[a] < ((const uint32_t *)weight)[b];
    case PGAS_F32:
        return ((const float *)weight)[a] < ((const float *)weight)[b];
    case PGAS_F64:
        return ((const double *)weight)[a] < ((const double *)weight)[b];
    default:
        return false;
    }
}

void pgasi_rows_simplify(const pgas_graph_t *graph, pgasi_rows_t *rows)
{
    size_t bytes = pgasi_type_bytes(graph->weight_type);
    uint64_t n = 0, e = 0;
    for (uint32_t id = 0; id < graph->n_local; id++) {
        uint64_t first = n;
        for (uint64_t end = rows->begin[id + 1]; e < end; e++) {
            bool repeats = n > first && rows->end[n - 1] == rows->end[e];
            if (rows->end[e] == id)
                continue;
            if (!repeats) {
                rows->end[n] = rows->end[e];
                move_weight(rows->weight, n++, rows->weight, e, bytes);
            } else if (is_less(rows->weight, graph->weight_type, e, n - 1)) {
                move_weight(rows->weight, n - 1, rows->weight, e, bytes);
            }
        }
        rows->begin[id + 1] = n;
    }
    void *end = realloc(rows->end, n * sizeof *rows->end + 1);
    rows->end = end ? end : rows->end;
    if (bytes > 0) {
        void *weight = realloc(rows->weight, n * bytes + 1);
        rows->weight = weight ? weight : rows->weight;
    }
}
