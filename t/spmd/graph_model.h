/* A graph that every rank makes from a seed, and the parts of it that the library must have. */
#ifndef T_SPMD_GRAPH_MODEL_H
#define T_SPMD_GRAPH_MODEL_H

#include <stdarg.h>
#include "base/rng.h"
#include "pgas/graph.h"
#include "t/spmd/job.h"

typedef struct {
    uint64_t n_vertices, n_edges;
    uint64_t *ends;              /* two for each edge */
    uint64_t *offsets, *targets; /* the same by rows, targets rising */
    double *weights;             /* [n_edges], or NULL */
    double *row_weights;         /* the same by rows; they rise where targets are equal */
} model_t;

typedef struct {
    uint64_t target;
    double weight;
} model_end_t;

static int model_by_target(const void *a, const void *b)
{
    const model_end_t *x = (const model_end_t *)a, *y = (const model_end_t *)b;
    if (x->target != y->target)
        return x->target > y->target ? 1 : -1;
    return (x->weight > y->weight) - (x->weight < y->weight);
}

static inline void model_make_rows(model_t *m)
{
    m->offsets = (uint64_t *)job_alloc((m->n_vertices + 2) * sizeof(uint64_t));
    m->targets = (uint64_t *)job_alloc((m->n_edges + 1) * sizeof(uint64_t));
    m->row_weights = (double *)job_alloc((m->n_edges + 1) * sizeof(double));
    model_end_t *ends = (model_end_t *)job_alloc((m->n_edges + 1) * sizeof *ends);
    for (uint64_t i = 0; i < m->n_edges; i++)
        m->offsets[m->ends[2 * i] + 2]++;
    for (uint64_t v = 0; v < m->n_vertices; v++)
        m->offsets[v + 2] += m->offsets[v + 1];
    for (uint64_t i = 0; i < m->n_edges; i++) {
        uint64_t at = m->offsets[m->ends[2 * i] + 1]++;
        ends[at] = (model_end_t){ m->ends[2 * i + 1], m->weights ? m->weights[i] : 0 };
    }
    for (uint64_t v = 0; v < m->n_vertices; v++) {
        qsort(ends + m->offsets[v], m->offsets[v + 1] - m->offsets[v], sizeof *ends,
              model_by_target);
    }
    for (uint64_t i = 0; i < m->n_edges; i++) {
        m->targets[i] = ends[i].target;
        m->row_weights[i] = ends[i].weight;
    }
    free(ends);
}

/* Edges between random vertices, many of them at a few vertices. Every third vertex has no
 * out-edges. The last one has an in-edge. */
static inline model_t model_make(uint64_t seed, uint64_t n_vertices, uint64_t n_edges)
{
    model_t m = { n_vertices, n_edges, (uint64_t *)job_alloc(2 * n_edges * sizeof(uint64_t)),
                  NULL,       NULL,    NULL,
                  NULL };
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (uint64_t i = 0; i < n_edges; i++) {
        uint64_t from = pgasi_rng_below(&rng, n_vertices);
        m.ends[2 * i] = from % 3 == 1 ? from - 1 : from;
        m.ends[2 * i + 1] = pgasi_rng_below(&rng, pgasi_rng_below(&rng, n_vertices) + 1);
    }
    m.ends[2 * n_edges - 1] = n_vertices - 1;
    model_make_rows(&m);
    return m;
}

/* Gives the edges weights that decimal text and a float hold exactly: 0, .25, .. 249.75. */
static inline void model_add_weights(model_t *m, uint64_t seed)
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    m->weights = (double *)job_alloc((m->n_edges + 1) * sizeof(double));
    for (uint64_t i = 0; i < m->n_edges; i++)
        m->weights[i] = (double)pgasi_rng_below(&rng, 1000) / 4;
    free(m->offsets);
    free(m->targets);
    free(m->row_weights);
    model_make_rows(m);
}

/* The same edges in both directions, loops once. */
static inline model_t model_mirror(const model_t *half)
{
    model_t m = *half;
    m.n_edges = 0;
    m.ends = (uint64_t *)job_alloc((4 * half->n_edges + 1) * sizeof(uint64_t));
    m.weights =
        half->weights ? (double *)job_alloc((2 * half->n_edges + 1) * sizeof(double)) : NULL;
    for (uint64_t i = 0; i < half->n_edges; i++) {
        int n_turns = half->ends[2 * i] == half->ends[2 * i + 1] ? 1 : 2;
        for (int turn = 0; turn < n_turns; turn++) {
            if (m.weights)
                m.weights[m.n_edges] = half->weights[i];
            m.ends[2 * m.n_edges] = half->ends[2 * i + (turn == 1)];
            m.ends[2 * m.n_edges++ + 1] = half->ends[2 * i + (turn == 0)];
        }
    }
    model_make_rows(&m);
    return m;
}

static inline void model_free(model_t *m)
{
    free(m->ends);
    free(m->offsets);
    free(m->targets);
    free(m->weights);
    free(m->row_weights);
}

static inline double model_weight(const pgas_graph_info_t *info, uint64_t edge)
{
    switch (info->weight_type) {
    case PGAS_U32:
        return ((const uint32_t *)info->out.weight)[edge];
    case PGAS_F32:
        return ((const float *)info->out.weight)[edge];
    case PGAS_F64:
        return ((const double *)info->out.weight)[edge];
    default:
        return 0;
    }
}

/* @return whether a vertex's row is equal; its ids rise */
static inline bool model_row_is(const model_t *m, const pgas_graph_info_t *info, uint64_t i)
{
    uint64_t v = info->first_vertex + i, at = m->offsets[v], degree = m->offsets[v + 1] - at;
    uint32_t id = info->id_of[i];
    uint64_t begin = info->out.begin[id];
    bool good = info->vertex[id] == v && info->out.begin[id + 1] - begin == degree;
    if (!good)
        return false;
    model_end_t *ends = (model_end_t *)job_alloc((degree + 1) * sizeof *ends);
    for (uint64_t k = 0; k < degree; k++) {
        ends[k].target = info->vertex[info->out.end[begin + k]];
        ends[k].weight = m->weights ? model_weight(info, begin + k) : 0;
        good = good && (k == 0 || info->out.end[begin + k - 1] <= info->out.end[begin + k]);
    }
    qsort(ends, degree, sizeof *ends, model_by_target);
    for (uint64_t k = 0; k < degree; k++)
        good = good && ends[k].target == m->targets[at + k] &&
               ends[k].weight == m->row_weights[at + k];
    free(ends);
    return good;
}

/* @return whether this rank's part of the graph is equal. Weights count if the model has some. */
static inline bool model_is(const model_t *m, const pgas_graph_t *graph)
{
    pgas_graph_info_t info = { .size = sizeof info };
    int rank = pgas_rank();
    if (!graph || pgas_graph_info(graph, &info) != PGAS_OK || info.n_vertices != m->n_vertices ||
        info.n_edges != m->n_edges || info.first_of[0] != 0 ||
        info.first_of[pgas_n_ranks()] != m->n_vertices ||
        info.first_of[rank] != info.first_vertex ||
        info.first_of[rank + 1] != info.first_vertex + info.n_local)
        return false;
    for (uint64_t i = 0; i < info.n_local; i++)
        if (!model_row_is(m, &info, i))
            return false;
    return true;
}

/* ---- text ---- */

typedef struct {
    char *bytes;
    size_t n, room;
} text_t;

__attribute__((format(printf, 2, 3))) static inline void text_add(text_t *text, const char *format,
                                                                  ...)
{
    va_list args;
    if (text->room - text->n < 8192) {
        text->room = 2 * text->room + 65536;
        text->bytes = (char *)realloc(text->bytes, text->room);
    }
    va_start(args, format);
    text->n += (size_t)vsnprintf(text->bytes + text->n, text->room - text->n, format, args);
    va_end(args);
}

/* Writes the edges of a model. It adds `first` to each number, and writes `between` between the
 * numbers, and the weight and `after` behind them. */
static inline void text_add_edges(text_t *text, const model_t *m, uint64_t first,
                                  const char *between, const char *after)
{
    for (uint64_t i = 0; i < m->n_edges; i++) {
        text_add(text, "%llu%s%llu", (unsigned long long)(m->ends[2 * i] + first), between,
                 (unsigned long long)(m->ends[2 * i + 1] + first));
        if (m->weights)
            text_add(text, "%s%g", between, m->weights[i]);
        text_add(text, "%s\n", after);
    }
}

#endif
