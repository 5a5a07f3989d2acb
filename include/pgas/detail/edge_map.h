/** The loops of edge maps and vertex maps (pgas/edge_map.h), which macros define for each
 *  algorithm, and the library's functions that drive them. */
#ifndef PGAS_DETAIL_EDGE_MAP_H
#define PGAS_DETAIL_EDGE_MAP_H

#include <string.h>
#include "pgas/edge_map.h"

PGAS_BEGIN_DECLS

#define PGAS_EDGE_CHUNK 256 /* ids that a thread takes at a time: a multiple of 64 */

/* What the threads of an edge map share. */
typedef struct {
    pgas_graph_run_t *run;
    void *context;
    const pgas_subset_t *from;
    pgas_subset_t *to;
    uint64_t next_chunk; /* the threads take chunks in turn */
    uint32_t *ghosts;    /* push: those that have changed */
    uint64_t n_ghosts;
    uint64_t n, n_edges; /* members of `to`: own ones, edges of them */
} pgas_edge_step_t;

/* The functions of one edge map. Messages are values of message_bytes. */
typedef struct {
    size_t message_bytes;
    void (*push)(pgas_edge_step_t *step, bool is_shared);
    void (*pull)(pgas_edge_step_t *step, bool is_shared);
    void (*send)(void *context, uint32_t ghost, void *message);
    bool (*receive)(void *context, uint32_t own, const void *message);
    void (*read)(void *context, uint32_t own, void *message);
    void (*copy)(void *context, uint32_t ghost, const void *message);
} pgas_edge_ops_t;

PGAS_API pgas_status_t pgas_edge_map_run(pgas_graph_run_t *run, const pgas_edge_ops_t *ops,
                                         void *context, pgas_subset_t *from, pgas_subset_t *to);

/* Ids that one thread adds to a list, a few at a time. */
typedef struct {
    uint32_t n, ids[1000];
} pgas_edge_buffer_t;

static inline void pgas_edge_flush(pgas_edge_buffer_t *buffer, uint32_t *list, uint64_t *n)
{
    uint64_t at = __atomic_fetch_add(n, buffer->n, __ATOMIC_RELAXED);
    memcpy(list + at, buffer->ids, buffer->n * sizeof *buffer->ids);
    buffer->n = 0;
}

static inline void pgas_edge_append(pgas_edge_buffer_t *buffer, uint32_t id, uint32_t *list,
                                    uint64_t *n)
{
    buffer->ids[buffer->n++] = id;
    if (buffer->n == sizeof buffer->ids / sizeof *buffer->ids)
        pgas_edge_flush(buffer, list, n);
}

static inline bool pgas_edge_bit(const uint64_t *bits, uint32_t id)
{
    return bits[id >> 6] >> (id & 63) & 1;
}

/* @return whether the bit was not set before */
static inline bool pgas_edge_set_bit(uint64_t *bits, uint32_t id, bool is_shared)
{
    uint64_t bit = PGAS_CAST(uint64_t, 1) << (id & 63), *word = &bits[id >> 6];
    if (__atomic_load_n(word, __ATOMIC_RELAXED) & bit)
        return false;
    if (is_shared)
        return !(__atomic_fetch_or(word, bit, __ATOMIC_RELAXED) & bit);
    *word |= bit;
    return true;
}

static inline double pgas_edge_weight(const void *weight, uint64_t e, pgas_type_t type)
{
    switch (type) {
    case PGAS_U32:
        return PGAS_CAST(const uint32_t *, weight)[e];
    case PGAS_F32:
        return PGAS_CAST(double, PGAS_CAST(const float *, weight)[e]);
    case PGAS_F64:
        return PGAS_CAST(const double *, weight)[e];
    default:
        return 1;
    }
}

#define PGAS_EDGE_ALWAYS static inline __attribute__((always_inline))

/* A loop for each type of weights, so that the type is a constant in it. */
#define PGAS_EDGE_BY_TYPE(loop, type, ...) \
    switch (type) {                        \
    case PGAS_U32:                         \
        loop(__VA_ARGS__, PGAS_U32);       \
        break;                             \
    case PGAS_F32:                         \
        loop(__VA_ARGS__, PGAS_F32);       \
        break;                             \
    case PGAS_F64:                         \
        loop(__VA_ARGS__, PGAS_F64);       \
        break;                             \
    default:                               \
        loop(__VA_ARGS__, PGAS_TYPE_NONE); \
    }

/** Defines NAME_edge_map(run, context, from, to), which first removes the members of `to`.
 *  Collective. message_t has at most 20 bytes (else PGAS_ERR_LIMIT), with ARRAY at most 8. */
#define PGAS_EDGE_MAP(NAME, context_t, message_t)                                                \
    PGAS_EDGE_ALWAYS void NAME##_push_all(pgas_edge_step_t *step, bool is_shared,                \
                                          pgas_type_t type)                                      \
    {                                                                                            \
        const pgas_graph_rows_t rows = step->run->info.out;                                      \
        const uint32_t n_local = step->run->info.n_local;                                        \
        const uint64_t n_from = step->from->n;                                                   \
        context_t *context = PGAS_CAST(context_t *, step->context);                              \
        uint64_t *bits = step->to->bits, n_edges = 0;                                            \
        pgas_edge_buffer_t own, ghosts;                                                          \
        own.n = ghosts.n = 0;                                                                    \
        for (;;) {                                                                               \
            uint64_t i = __atomic_fetch_add(&step->next_chunk, 64, __ATOMIC_RELAXED);            \
            if (i >= n_from)                                                                     \
                break;                                                                           \
            uint64_t end = i + 64 < n_from ? i + 64 : n_from;                                    \
            for (; i < end; i++) {                                                               \
                uint32_t from = step->from->ids[i];                                              \
                for (uint64_t e = rows.begin[from]; e < rows.begin[from + 1]; e++) {             \
                    uint32_t to = rows.end[e];                                                   \
                    if (!NAME##_wants(context, to) ||                                            \
                        !NAME##_update(context, from, to,                                        \
                                       pgas_edge_weight(rows.weight, e, type)) ||                \
                        !pgas_edge_set_bit(bits, to, is_shared))                                 \
                        continue;                                                                \
                    if (to < n_local) {                                                          \
                        n_edges += rows.begin[to + 1] - rows.begin[to];                          \
                        pgas_edge_append(&own, to, step->to->ids, &step->n);                     \
                    } else {                                                                     \
                        pgas_edge_append(&ghosts, to, step->ghosts, &step->n_ghosts);            \
                    }                                                                            \
                }                                                                                \
            }                                                                                    \
        }                                                                                        \
        pgas_edge_flush(&own, step->to->ids, &step->n);                                          \
        pgas_edge_flush(&ghosts, step->ghosts, &step->n_ghosts);                                 \
        __atomic_fetch_add(&step->n_edges, n_edges, __ATOMIC_RELAXED);                           \
    }                                                                                            \
    PGAS_EDGE_ALWAYS bool NAME##_pull_one(pgas_edge_step_t *step, uint32_t to, pgas_type_t type) \
    {                                                                                            \
        const pgas_graph_rows_t rows = step->run->info.in;                                       \
        context_t *context = PGAS_CAST(context_t *, step->context);                              \
        const uint64_t *bits = step->from->bits;                                                 \
        bool changed = false;                                                                    \
        for (uint64_t e = rows.begin[to]; e < rows.begin[to + 1]; e++) {                         \
            uint32_t from = rows.end[e];                                                         \
            if (pgas_edge_bit(bits, from) &&                                                     \
                NAME##_update(context, from, to, pgas_edge_weight(rows.weight, e, type))) {      \
                changed = true;                                                                  \
                if (!NAME##_wants(context, to))                                                  \
                    break;                                                                       \
            }                                                                                    \
        }                                                                                        \
        return changed;                                                                          \
    }                                                                                            \
    PGAS_EDGE_ALWAYS void NAME##_pull_all(pgas_edge_step_t *step, bool is_shared,                \
                                          pgas_type_t type)                                      \
    {                                                                                            \
        const pgas_graph_rows_t out = step->run->info.out;                                       \
        const uint64_t n_local = step->run->info.n_local;                                        \
        const context_t *context = PGAS_CAST(const context_t *, step->context);                  \
        uint64_t n = 0, n_edges = 0;                                                             \
        (void)is_shared;                                                                         \
        for (;;) {                                                                               \
            uint64_t first =                                                                     \
                __atomic_fetch_add(&step->next_chunk, PGAS_EDGE_CHUNK, __ATOMIC_RELAXED);        \
            for (uint64_t end = first + PGAS_EDGE_CHUNK; first < end && first < n_local;         \
                 first += 64) {                                                                  \
                uint64_t word = 0;                                                               \
                for (uint64_t id = first; id < first + 64 && id < n_local; id++) {               \
                    uint32_t to = PGAS_CAST(uint32_t, id);                                       \
                    if (NAME##_wants(context, to) && NAME##_pull_one(step, to, type)) {          \
                        word |= PGAS_CAST(uint64_t, 1) << (to & 63);                             \
                        n_edges += out.begin[to + 1] - out.begin[to];                            \
                        n++;                                                                     \
                    }                                                                            \
                }                                                                                \
                if (word != 0)                                                                   \
                    step->to->bits[first >> 6] |= word;                                          \
            }                                                                                    \
            if (first >= n_local)                                                                \
                break;                                                                           \
        }                                                                                        \
        __atomic_fetch_add(&step->n, n, __ATOMIC_RELAXED);                                       \
        __atomic_fetch_add(&step->n_edges, n_edges, __ATOMIC_RELAXED);                           \
    }                                                                                            \
    static void NAME##_push(pgas_edge_step_t *step, bool is_shared)                              \
    {                                                                                            \
        PGAS_EDGE_BY_TYPE(NAME##_push_all, step->run->info.weight_type, step, is_shared)         \
    }                                                                                            \
    static void NAME##_pull(pgas_edge_step_t *step, bool is_shared)                              \
    {                                                                                            \
        PGAS_EDGE_BY_TYPE(NAME##_pull_all, step->run->info.weight_type, step, is_shared)         \
    }                                                                                            \
    static void NAME##_send_to(void *context, uint32_t ghost, void *message)                     \
    {                                                                                            \
        message_t m = NAME##_send(PGAS_CAST(context_t *, context), ghost);                       \
        memcpy(message, &m, sizeof m);                                                           \
    }                                                                                            \
    static bool NAME##_receive_from(void *context, uint32_t own, const void *message)            \
    {                                                                                            \
        message_t m;                                                                             \
        memcpy(&m, message, sizeof m);                                                           \
        return NAME##_receive(PGAS_CAST(context_t *, context), own, m);                          \
    }                                                                                            \
    static void NAME##_read_to(void *context, uint32_t own, void *message)                       \
    {                                                                                            \
        message_t m = NAME##_read(PGAS_CAST(const context_t *, context), own);                   \
        memcpy(message, &m, sizeof m);                                                           \
    }                                                                                            \
    static void NAME##_copy_from(void *context, uint32_t ghost, const void *message)             \
    {                                                                                            \
        message_t m;                                                                             \
        memcpy(&m, message, sizeof m);                                                           \
        NAME##_copy(PGAS_CAST(context_t *, context), ghost, m);                                  \
    }                                                                                            \
    static pgas_status_t NAME##_edge_map(pgas_graph_run_t *run, context_t *context,              \
                                         pgas_subset_t *from, pgas_subset_t *to)                 \
    {                                                                                            \
        static const pgas_edge_ops_t ops = {                                                     \
            sizeof(message_t),   NAME##_push,    NAME##_pull,     NAME##_send_to,                \
            NAME##_receive_from, NAME##_read_to, NAME##_copy_from                                \
        };                                                                                       \
        return pgas_edge_map_run(run, &ops, context, from, to);                                  \
    }

/** Defines NAME_vertex_map(run, context): calls NAME_vertex(context, id) for each own vertex once,
 *  on the threads of the run. Local. */
#define PGAS_VERTEX_MAP(NAME, context_t)                                                     \
    typedef struct {                                                                         \
        context_t *context;                                                                  \
        uint64_t n, next;                                                                    \
    } NAME##_vertices_t;                                                                     \
    static void NAME##_vertex_work(int i, int n_threads, void *arg)                          \
    {                                                                                        \
        NAME##_vertices_t *all = PGAS_CAST(NAME##_vertices_t *, arg);                        \
        (void)i, (void)n_threads;                                                            \
        for (;;) {                                                                           \
            uint64_t id = __atomic_fetch_add(&all->next, PGAS_EDGE_CHUNK, __ATOMIC_RELAXED); \
            if (id >= all->n)                                                                \
                break;                                                                       \
            uint64_t end = id + PGAS_EDGE_CHUNK < all->n ? id + PGAS_EDGE_CHUNK : all->n;    \
            for (; id < end; id++)                                                           \
                NAME##_vertex(all->context, PGAS_CAST(uint32_t, id));                        \
        }                                                                                    \
    }                                                                                        \
    static void NAME##_vertex_map(pgas_graph_run_t *run, context_t *context)                 \
    {                                                                                        \
        NAME##_vertices_t all = { context, run->info.n_local, 0 };                           \
        pgas_graph_run_threads(run, NAME##_vertex_work, &all);                               \
    }

PGAS_END_DECLS

#endif
