/* Described types for tests: every kind of field, alone and nested. */
#ifndef T_UNIT_DESCRIBE_TYPES_H
#define T_UNIT_DESCRIBE_TYPES_H

#include <stdlib.h>
#include <string.h>
#include "pgas/describe.h"

typedef struct {
    double re, im;
} pair_t;
typedef enum { SHAPE_NONE, SHAPE_BALL, SHAPE_BOX, SHAPE_PATH, SHAPE_LABEL, SHAPE_WORDS } what_t;

PGAS_RMA_VECTOR(cells, double)

/* Flat: no padding. */
#define BOX_FIELDS(F) F(SCALAR, int64_t, id) F(ARRAY, int32_t, corner, 2 * 2)
PGAS_STRUCT(box, BOX_FIELDS)

/* Copied as bytes, but with padding between them. */
#define GAP_FIELDS(F) F(SCALAR, char, mark) F(SCALAR, double, x) F(SCALAR, int16_t, small)
PGAS_STRUCT(gap, GAP_FIELDS)

#define WORD_FIELDS(F) F(VECTOR, char, letter, n_letters)
PGAS_STRUCT(word, WORD_FIELDS)

/* Contains itself twice. */
#define TREE_FIELDS(F)               \
    F(SCALAR, int32_t, key)          \
    F(STRUCT_VECTOR, tree, child, n) \
    F(STRUCT_OPTIONAL, tree, annotation)
PGAS_STRUCT(tree, TREE_FIELDS)

#define SHAPE_CASES(C)                             \
    C(SHAPE_BALL, SCALAR, float, radius)           \
    C(SHAPE_BOX, STRUCT, box, box)                 \
    C(SHAPE_PATH, VECTOR, pair_t, point, n_points) \
    C(SHAPE_LABEL, STRING, label)                  \
    C(SHAPE_WORDS, STRUCT_VECTOR, word, word, n_words)
PGAS_UNION(shape, SHAPE_CASES)

/* A set of small numbers: 8 bytes in memory, and in the archive a count and one byte for each. */
typedef struct {
    uint64_t bits;
    char *note; /* memory of its own, with the numbers as letters */
} set_t;

static inline pgas_status_t set_save(pgas_archive_t *archive, const set_t *set)
{
    unsigned char number[65], n = 0;
    for (unsigned char i = 0; i < 64; i++)
        if (set->bits >> i & 1)
            number[++n] = i;
    number[0] = n;
    return pgas_archive_put(archive, number, (size_t)n + 1); /* copied: number ends here */
}

static inline pgas_status_t set_load(pgas_archive_t *archive, set_t *set)
{
    unsigned char number[256], n = 0;
    void *note;
    pgas_status_t status = pgas_archive_get(archive, &n, 1);
    if (status == PGAS_OK)
        status = pgas_archive_get(archive, number, n);
    if (status == PGAS_OK)
        status = pgas_archive_alloc(archive, (size_t)n + 1, &note);
    if (status != PGAS_OK)
        return status;
    set->note = (char *)note;
    for (unsigned i = 0; i < n; i++) {
        if (number[i] > 63)
            return PGAS_ERR_FORMAT;
        set->bits |= (uint64_t)1 << number[i];
        set->note[i] = (char)('0' + number[i]);
    }
    return PGAS_OK;
}

static inline void set_free(set_t *set)
{
    free(set->note);
}

static inline bool set_equal(const set_t *a, const set_t *b)
{
    return a->bits == b->bits;
}

PGAS_OWN(set, 1)

/* A structure of the program: narrow counts, and members that are not described. */
typedef struct {
    void *hidden;
    pair_t *pair;
    word_t *word;
    uint16_t n_words;
    uint8_t n_pairs;
} mine_t;
#define MINE_FIELDS(F) F(VECTOR, pair_t, pair, n_pairs) F(STRUCT_VECTOR, word, word, n_words)
PGAS_DESCRIBE(mine, MINE_FIELDS)

#define ALL_FIELDS(F)                   \
    F(SCALAR, int64_t, number)          \
    F(ARRAY, float, few, 3)             \
    F(STRING, text)                     \
    F(VECTOR, pair_t, pair, n_pairs)    \
    F(OPTIONAL, pair_t, best)           \
    F(SCALAR, what_t, what)             \
    F(UNION, shape, shape, what)        \
    F(STRUCT, box, box)                 \
    F(STRUCT, word, word)               \
    F(STRUCT, mine, mine)               \
    F(STRUCT_ARRAY, box, boxes, 2)      \
    F(STRUCT_ARRAY, word, words, 2)     \
    F(STRUCT_VECTOR, box, many, n_many) \
    F(STRUCT_VECTOR, gap, gap, n_gaps)  \
    F(STRUCT_VECTOR, set, set, n_sets)  \
    F(STRUCT_OPTIONAL, box, spare)      \
    F(STRUCT_OPTIONAL, tree, tree)      \
    F(OBJECT, object)                   \
    F(RMA_VECTOR, cells, cells)
PGAS_STRUCT(all, ALL_FIELDS)

#endif
