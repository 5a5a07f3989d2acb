/* Arguments of every kind for tests of typed calls: random values that a seed determines. Both
 * sides draw them from the seed, so the receiver knows what must have come. */
#ifndef T_SPMD_ARGS_H
#define T_SPMD_ARGS_H

#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "pgas/call_args.h"
#include "t/pattern.h"
#include "t/spmd/job.h"

PGAS_RMA_VECTOR(cells, double)

#define BODY_FIELDS(F)     \
    F(SCALAR, int64_t, id) \
    F(STRING, name)        \
    F(VECTOR, float, history, n_history)
PGAS_STRUCT(body, BODY_FIELDS)

#define SHAPE_CASES(C)           \
    C(1, SCALAR, double, radius) \
    C(2, STRUCT, body, middle)
PGAS_UNION(shape, SHAPE_CASES)

#define EVERY_FIELDS(F)                   \
    F(SCALAR, uint64_t, seed)             \
    F(ARRAY, int16_t, three, 3)           \
    F(STRING, text)                       \
    F(VECTOR, double, numbers, n_numbers) \
    F(OPTIONAL, uint32_t, maybe)          \
    F(STRUCT, body, sun)                  \
    F(STRUCT_ARRAY, body, two, 2)         \
    F(STRUCT_VECTOR, body, many, n_many)  \
    F(STRUCT_OPTIONAL, body, perhaps)     \
    F(SCALAR, int32_t, tag)               \
    F(UNION, shape, figure, tag)          \
    F(OBJECT, object)                     \
    F(RMA_VECTOR, cells, halo)
PGAS_STRUCT(every, EVERY_FIELDS)

/* The parameters of a call with the members of e. */
#define EVERY_ARGS(e)                                                                        \
    (e).seed, (e).three, (e).text, (e).numbers, (e).n_numbers, (e).maybe, &(e).sun, (e).two, \
        (e).many, (e).n_many, (e).perhaps, (e).tag, &(e).figure, (e).object, &(e).halo

/* Sizes: of 16, five empty, nine small, one around the threshold of 4096 bytes, one large. */
static inline size_t args_size(pgasi_rng_t *rng, size_t elem_bytes)
{
    uint64_t kind = pgasi_rng_below(rng, 16);
    if (kind < 5)
        return 0;
    if (kind < 14)
        return pgasi_rng_below(rng, 40) + 1;
    if (kind == 14)
        return 4096 / elem_bytes - 2 + pgasi_rng_below(rng, 5);
    return pgasi_rng_below(rng, 100000 / elem_bytes) + 1;
}

static inline void *args_bytes(pgasi_rng_t *rng, size_t n, size_t elem_bytes)
{
    uint64_t seed = pgasi_rng_u64(rng);
    void *data = n ? job_alloc(n * elem_bytes) : NULL;
    pattern_fill(data, seed, n * elem_bytes);
    return data;
}

static inline char *args_text(pgasi_rng_t *rng)
{
    size_t length = pgasi_rng_below(rng, 30);
    if (length == 0)
        return NULL;
    char *text = job_alloc(length);
    for (size_t i = 0; i + 1 < length; i++)
        text[i] = (char)('a' + pgasi_rng_below(rng, 26));
    return text;
}

static inline void args_body(pgasi_rng_t *rng, body_t *body)
{
    body->id = (int64_t)pgasi_rng_u64(rng);
    body->name = args_text(rng);
    body->n_history = args_size(rng, sizeof *body->history);
    body->history = args_bytes(rng, body->n_history, sizeof *body->history);
}

static inline body_t *args_bodies(pgasi_rng_t *rng, size_t n)
{
    body_t *bodies = n ? job_alloc(n * sizeof *bodies) : NULL;
    for (size_t i = 0; i < n; i++)
        args_body(rng, &bodies[i]);
    return bodies;
}

/* Registered memory only where the caller wants it, for the oracle needs none. */
static inline pgas_rma_object_t *args_object(pgasi_rng_t *rng)
{
    size_t n = args_size(rng, 1);
    void *data = args_bytes(rng, n, 1);
    pgas_rma_object_t *object = NULL;
    pgas_status_t status = PGAS_OK;
    if (n && pgasi_rng_below(rng, 2))
        status = pgas_rma_object_copy(data, n, &object);
    else if (n)
        status = pgas_rma_object_take(data, n, &object);
    if (n && object && object->data != data)
        free(data);
    if (status != PGAS_OK)
        printf("Bail out! no object: %s\n", pgas_status_text(status));
    return object;
}

static inline void args_make(uint64_t seed, every_t *e)
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    memset(e, 0, sizeof *e);
    e->seed = seed;
    pattern_fill(e->three, seed, sizeof e->three);
    e->text = args_text(&rng);
    e->n_numbers = args_size(&rng, sizeof *e->numbers);
    e->numbers = args_bytes(&rng, e->n_numbers, sizeof *e->numbers);
    e->maybe = args_bytes(&rng, pgasi_rng_below(&rng, 2), sizeof *e->maybe);
    args_body(&rng, &e->sun);
    args_body(&rng, &e->two[0]);
    args_body(&rng, &e->two[1]);
    e->n_many = pgasi_rng_below(&rng, 4);
    e->many = args_bodies(&rng, e->n_many);
    e->perhaps = args_bodies(&rng, pgasi_rng_below(&rng, 2));
    e->tag = (int32_t)pgasi_rng_below(&rng, 4); /* 0 and 3 have no case */
    if (e->tag == 1)
        e->figure.radius = (double)seed;
    else if (e->tag == 2)
        args_body(&rng, &e->figure.middle);
    e->object = args_object(&rng);
    size_t n = args_size(&rng, sizeof(double));
    if (cells_resize(&e->halo, n) != PGAS_OK)
        printf("Bail out! no vector\n");
    if (n)
        pattern_fill(cells_data(&e->halo), seed + 1, n * sizeof(double));
}

/* ---- comparing: written by hand, not by the descriptions ---- */

static inline bool same_bytes(const void *a, const void *b, size_t bytes)
{
    return bytes == 0 || memcmp(a, b, bytes) == 0;
}

static inline bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static inline bool same_body(const body_t *a, const body_t *b)
{
    return a->id == b->id && same_text(a->name, b->name) && a->n_history == b->n_history &&
           same_bytes(a->history, b->history, a->n_history * sizeof *a->history);
}

static inline bool same_bodies(const body_t *a, const body_t *b, size_t n)
{
    bool same = true;
    for (size_t i = 0; i < n; i++)
        same = same && same_body(&a[i], &b[i]);
    return same;
}

static inline bool same_object(const pgas_rma_object_t *a, const pgas_rma_object_t *b)
{
    if (!a || !b)
        return a == b;
    return a->bytes == b->bytes && same_bytes(a->data, b->data, a->bytes);
}

static inline bool same_cells(const cells_t *a, const cells_t *b)
{
    size_t n = cells_size(a);
    return n == cells_size(b) && same_bytes(cells_data(a), cells_data(b), n * sizeof(double));
}

static inline bool same_shape(int32_t tag, const shape_t *a, const shape_t *b)
{
    if (tag == 1)
        return same_bytes(&a->radius, &b->radius, sizeof a->radius);
    return tag != 2 || same_body(&a->middle, &b->middle);
}

static inline bool args_same(const every_t *a, const every_t *b)
{
    bool same = a->seed == b->seed && same_bytes(a->three, b->three, sizeof a->three) &&
                same_text(a->text, b->text) && a->n_numbers == b->n_numbers && a->tag == b->tag &&
                a->n_many == b->n_many && !a->maybe == !b->maybe && !a->perhaps == !b->perhaps;
    return same && same_bytes(a->numbers, b->numbers, a->n_numbers * sizeof *a->numbers) &&
           (!a->maybe || *a->maybe == *b->maybe) && same_body(&a->sun, &b->sun) &&
           same_bodies(a->two, b->two, 2) && same_bodies(a->many, b->many, a->n_many) &&
           (!a->perhaps || same_body(a->perhaps, b->perhaps)) &&
           same_shape(a->tag, &a->figure, &b->figure) && same_object(a->object, b->object) &&
           same_cells(&a->halo, &b->halo);
}

/* True if the values are those of their seed. */
static inline bool args_right(const every_t *got)
{
    every_t want;
    args_make(got->seed, &want);
    bool right = args_same(&want, got);
    pgas_free_every(&want);
    return right;
}

#endif
