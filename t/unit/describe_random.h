/* Functions for the programs of describe_random.awk: random contents, and comparisons by hand. */
#ifndef T_UNIT_DESCRIBE_RANDOM_H
#define T_UNIT_DESCRIBE_RANDOM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pgas/describe.h"

typedef struct {
    float re, im;
} pair_t;
typedef enum { RED, GREEN, BLUE } colour_t;
PGAS_RMA_VECTOR(cells, double)

static uint64_t state;
static size_t n_drawn;
static bool is_same;

static uint64_t below(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

static size_t draw_n(void)
{
    return below(60) ? below(5) : below(800);
}

static void draw_bytes(void *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = (unsigned char)below(256);
}

static void *draw_many(size_t n, size_t elem_bytes)
{
    void *data = n ? malloc(n * elem_bytes) : NULL;
    if (data)
        draw_bytes(data, n * elem_bytes);
    return data;
}

static char *draw_text(void)
{
    size_t n = draw_n();
    char *text = below(4) ? calloc(1, n + 1) : NULL;
    for (size_t i = 0; text && i < n; i++)
        text[i] = (char)(1 + below(255));
    return text;
}

static PGAS_UNUSED pgas_rma_object_t *draw_object(void)
{
    pgas_rma_object_t *object = NULL;
    size_t n = 1 + draw_n();
    if (below(2))
        (void)pgas_rma_object_take(draw_many(n, 1), n, &object);
    return object;
}

static PGAS_UNUSED void draw_cells(cells_t *cells)
{
    for (size_t i = draw_n(); i; i--)
        (void)cells_push(cells, (double)below(100));
}

static void same_n(size_t a, size_t b)
{
    is_same = is_same && a == b;
}

static void same(const void *a, const void *b, size_t bytes)
{
    is_same = is_same && !memcmp(a, b, bytes);
}

static PGAS_UNUSED void same_many(const void *a, size_t n_a, const void *b, size_t n_b,
                                  size_t elem_bytes)
{
    same_n(n_a, n_b);
    if (n_a && is_same)
        same(a, b, n_a * elem_bytes);
}

static PGAS_UNUSED void same_text(const char *a, const char *b)
{
    same_many(a, a ? strlen(a) + 1 : 0, b, b ? strlen(b) + 1 : 0, 1);
}

static PGAS_UNUSED void same_object(const pgas_rma_object_t *a, const pgas_rma_object_t *b)
{
    same_many(a ? a->data : NULL, a ? a->bytes : 0, b ? b->data : NULL, b ? b->bytes : 0, 1);
}

/* Saves a random value and reads it back. @return whether it is not the same */
#define ROUND_TRIP(name)                                                                      \
    static int round_trip_##name(void)                                                        \
    {                                                                                         \
        static pgas_archive_t out = PGAS_ARCHIVE_INIT;                                        \
        static pgas_arena_t arena = PGAS_ARENA_INIT;                                          \
        pgas_archive_t in = PGAS_ARCHIVE_INIT;                                                \
        name##_t v, w;                                                                        \
        void *packed = NULL;                                                                  \
        unsigned way = (unsigned)below(3);                                                    \
        draw_##name(&v);                                                                      \
        memset(&w, 0xab, sizeof w);                                                           \
        (void)pgas_archive_clear(&out);                                                       \
        out.threshold = below(2) ? 0 : below(200);                                            \
        int n_bad = pgas_save_##name(&out, &v) != PGAS_OK;                                    \
        size_t bytes = pgas_archive_bytes(&out);                                              \
        if (below(2))                                                                         \
            n_bad += !(packed = malloc(bytes)) ||                                             \
                     pgas_archive_pack(&out, packed, bytes) != PGAS_OK ||                     \
                     pgas_archive_from_bytes(packed, bytes, &in) != PGAS_OK;                  \
        else                                                                                  \
            n_bad += pgas_archive_from(&out, &in) != PGAS_OK;                                 \
        n_bad += (way == 0 ? pgas_view_##name(&in, &w)                                        \
                           : pgas_load_##name(&in, way == 1 ? &arena : NULL, &w)) != PGAS_OK; \
        is_same = true;                                                                       \
        same_##name(&v, &w);                                                                  \
        n_bad += !is_same || !pgas_equal_##name(&v, &w);                                      \
        if (way == 2)                                                                         \
            pgas_free_##name(&w);                                                             \
        else                                                                                  \
            pgas_drop_##name(&w);                                                             \
        pgas_free_##name(&v);                                                                 \
        (void)pgas_archive_free(&in);                                                         \
        (void)pgas_archive_clear(&out);                                                       \
        (void)pgas_arena_clear(&arena);                                                       \
        free(packed);                                                                         \
        return n_bad;                                                                         \
    }

#endif
