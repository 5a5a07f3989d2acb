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
} model_t;

static int model_by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static inline void model_make_rows(model_t *m)
{
    m->offsets = (uint64_t *)job_alloc((m->n_vertices + 2) * sizeof(uint64_t));
    m->targets = (uint64_t *)job_alloc(m->n_edges * sizeof(uint64_t));
    for (uint64_t i = 0; i < m->n_edges; i++)
        m->offsets[m->ends[2 * i] + 2]++;
    for (uint64_t v = 0; v < m->n_vertices; v++)
        m->offsets[v + 2] += m->offsets[v + 1];
    for (uint64_t i = 0; i < m->n_edges; i++)
        m->targets[m->offsets[m->ends[2 * i] + 1]++] = m->ends[2 * i + 1];
    for (uint64_t v = 0; v < m->n_vertices; v++) {
        qsort(m->targets + m->offsets[v], m->offsets[v + 1] - m->offsets[v], sizeof(uint64_t),
              model_by_value);
    }
}

/* Edges between random vertices, many of them at a few vertices. Every third vertex has no
 * out-edges. The last one has an in-edge. */
static inline model_t model_make(uint64_t seed, uint64_t n_vertices, uint64_t n_edges)
{
    model_t m = { n_vertices, n_edges, (uint64_t *)job_alloc(2 * n_edges * sizeof(uint64_t)), NULL,
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

static inline void model_free(model_t *m)
{
    free(m->ends);
    free(m->offsets);
    free(m->targets);
}

/* @return whether this rank's part of the graph is equal */
static inline bool model_is(const model_t *m, const pgas_graph_t *graph)
{
    pgas_graph_info_t info = { .size = sizeof info };
    if (!graph || pgas_graph_info(graph, &info) != PGAS_OK || info.n_vertices != m->n_vertices ||
        info.n_edges != m->n_edges)
        return false;
    for (uint64_t i = 0; i < info.n_local; i++) {
        uint64_t v = info.first_vertex + i, degree = m->offsets[v + 1] - m->offsets[v];
        if (v / info.block != (uint64_t)pgas_rank() ||
            info.offsets[i + 1] - info.offsets[i] != degree ||
            (degree > 0 && memcmp(info.targets + info.offsets[i], m->targets + m->offsets[v],
                                  degree * sizeof(uint64_t)) != 0))
            return false;
    }
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

/* The edges of a model; numbers are written with `first` added, between them `between`, after them
 * `after`. */
static inline void text_add_edges(text_t *text, const model_t *m, uint64_t first,
                                  const char *between, const char *after)
{
    for (uint64_t i = 0; i < m->n_edges; i++) {
        text_add(text, "%llu%s%llu%s\n", (unsigned long long)(m->ends[2 * i] + first), between,
                 (unsigned long long)(m->ends[2 * i + 1] + first), after);
    }
}

#endif
