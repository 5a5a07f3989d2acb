/* Random values of the types of describe_types.h, and comparisons that name each member by hand.
 * So a macro that forgets a field is found. */
#ifndef T_UNIT_DESCRIBE_ORACLE_H
#define T_UNIT_DESCRIBE_ORACLE_H

#include "t/random.h"
#include "t/unit/describe_types.h"

/* How large a random value may be, and how many described values were drawn. */
static size_t most_elems = 6;
static size_t n_drawn;

/* ---- drawing ---- */

static size_t draw_n(void)
{
    return below(3) == 0 ? 0 : below(most_elems);
}

static void *memory(size_t n, size_t elem_bytes)
{
    return n ? calloc(n, elem_bytes) : NULL;
}

static void *draw_bytes(size_t n, size_t elem_bytes)
{
    unsigned char *data = memory(n, elem_bytes);
    for (size_t i = 0; i < n * elem_bytes; i++)
        data[i] = (unsigned char)below(256);
    return data;
}

static void draw_box(box_t *v)
{
    n_drawn++;
    v->id = (int64_t)below(UINT64_MAX);
    for (int i = 0; i < 4; i++)
        v->corner[i] = (int32_t)below(UINT32_MAX);
}

static void draw_gap(gap_t *v)
{
    n_drawn++;
    v->mark = (char)below(256);
    v->x = (double)below(1000);
    v->small = (int16_t)below(65536);
}

static void draw_word(word_t *v)
{
    n_drawn++;
    v->n_letters = draw_n();
    v->letter = draw_bytes(v->n_letters, 1);
}

static word_t *draw_words(size_t n)
{
    word_t *v = memory(n, sizeof *v);
    for (size_t i = 0; i < n; i++)
        draw_word(&v[i]);
    return v;
}

static void draw_tree(tree_t *v, int depth)
{
    n_drawn++;
    v->key = (int32_t)below(UINT32_MAX);
    v->n = depth ? below(3) : 0;
    v->child = memory(v->n, sizeof *v->child);
    for (size_t i = 0; i < v->n; i++)
        draw_tree(&v->child[i], depth - 1);
    v->annotation = memory(depth && below(3) == 0, sizeof *v->annotation);
    if (v->annotation)
        draw_tree(v->annotation, depth - 1);
}

static char *draw_text(void)
{
    size_t length = draw_n();
    char *text = below(4) == 0 ? NULL : calloc(1, length + 1);
    for (size_t i = 0; text && i < length; i++)
        text[i] = (char)(1 + below(255));
    return text;
}

static void draw_shape(what_t *what, shape_t *v)
{
    n_drawn++;
    memset(v, 0, sizeof *v);
    *what = (what_t)below(SHAPE_WORDS + 2); /* the last has no case */
    switch (*what) {
    case SHAPE_BALL:
        v->radius = (float)below(1000);
        break;
    case SHAPE_BOX:
        draw_box(&v->box);
        break;
    case SHAPE_PATH:
        v->n_points = draw_n();
        v->point = draw_bytes(v->n_points, sizeof *v->point);
        break;
    case SHAPE_LABEL:
        v->label = draw_text();
        break;
    case SHAPE_WORDS:
        v->n_words = draw_n();
        v->word = draw_words(v->n_words);
        break;
    default:
        break;
    }
}

static void draw_mine(mine_t *v)
{
    n_drawn++;
    v->hidden = v;
    v->n_pairs = (uint8_t)below(most_elems < 255 ? most_elems : 255);
    v->pair = draw_bytes(v->n_pairs, sizeof *v->pair);
    v->n_words = (uint16_t)draw_n();
    v->word = draw_words(v->n_words);
}

static void draw_rest(all_t *v)
{
    v->n_many = draw_n();
    v->many = memory(v->n_many, sizeof *v->many);
    for (size_t i = 0; i < v->n_many; i++)
        draw_box(&v->many[i]);
    v->n_gaps = draw_n();
    v->gap = memory(v->n_gaps, sizeof *v->gap);
    for (size_t i = 0; i < v->n_gaps; i++)
        draw_gap(&v->gap[i]);
    v->n_sets = draw_n();
    v->set = memory(v->n_sets, sizeof *v->set);
    for (size_t i = 0; i < v->n_sets; i++)
        v->set[i].bits = below(UINT64_MAX);
    n_drawn += v->n_sets;
    v->spare = memory(below(2), sizeof *v->spare);
    if (v->spare)
        draw_box(v->spare);
    v->tree = memory(below(2), sizeof *v->tree);
    if (v->tree)
        draw_tree(v->tree, 4);
    v->object = NULL;
    if (below(2)) {
        void *data = draw_bytes(1 + draw_n(), 1);
        (void)pgas_rma_object_take(data, 1, &v->object);
    }
    for (size_t i = draw_n(); i; i--)
        (void)cells_push(&v->cells, (double)below(1000));
}

static void draw_all(all_t *v)
{
    n_drawn++;
    memset(v, 0, sizeof *v);
    v->number = (int64_t)below(UINT64_MAX);
    for (int i = 0; i < 3; i++)
        v->few[i] = (float)below(1000);
    v->text = draw_text();
    v->n_pairs = draw_n();
    v->pair = draw_bytes(v->n_pairs, sizeof *v->pair);
    v->best = draw_bytes(below(2), sizeof *v->best);
    draw_shape(&v->what, &v->shape);
    draw_box(&v->box);
    draw_word(&v->word);
    draw_mine(&v->mine);
    for (int i = 0; i < 2; i++) {
        draw_box(&v->boxes[i]);
        draw_word(&v->words[i]);
    }
    draw_rest(v);
}

/* ---- comparing ---- */

static bool same_bytes(const void *a, const void *b, size_t n_a, size_t n_b, size_t elem_bytes)
{
    if (n_a != n_b)
        return false;
    return n_a ? !memcmp(a, b, n_a * elem_bytes) : !b;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static bool same_box(const box_t *a, const box_t *b)
{
    return a->id == b->id && a->corner[0] == b->corner[0] && a->corner[1] == b->corner[1] &&
           a->corner[2] == b->corner[2] && a->corner[3] == b->corner[3];
}

static bool same_words(const word_t *a, const word_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!same_bytes(a[i].letter, b[i].letter, a[i].n_letters, b[i].n_letters, 1))
            return false;
    return true;
}

static bool same_tree(const tree_t *a, const tree_t *b)
{
    if (!a || !b)
        return a == b;
    if (a->key != b->key || a->n != b->n || !same_tree(a->annotation, b->annotation))
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!same_tree(&a->child[i], &b->child[i]))
            return false;
    return true;
}

static bool same_shape(what_t what, const shape_t *a, const shape_t *b)
{
    switch (what) {
    case SHAPE_BALL:
        return !memcmp(&a->radius, &b->radius, sizeof a->radius);
    case SHAPE_BOX:
        return same_box(&a->box, &b->box);
    case SHAPE_PATH:
        return same_bytes(a->point, b->point, a->n_points, b->n_points, sizeof *a->point);
    case SHAPE_LABEL:
        return same_text(a->label, b->label);
    case SHAPE_WORDS:
        return a->n_words == b->n_words && same_words(a->word, b->word, a->n_words);
    default:
        return true;
    }
}

static bool same_rest(const all_t *a, const all_t *b)
{
    if (a->n_many != b->n_many || a->n_gaps != b->n_gaps || a->n_sets != b->n_sets ||
        !a->spare != !b->spare || !a->object != !b->object)
        return false;
    for (size_t i = 0; i < a->n_many; i++)
        if (!same_box(&a->many[i], &b->many[i]))
            return false;
    for (size_t i = 0; i < a->n_gaps; i++)
        if (a->gap[i].mark != b->gap[i].mark || a->gap[i].small != b->gap[i].small ||
            memcmp(&a->gap[i].x, &b->gap[i].x, sizeof(double)))
            return false;
    for (size_t i = 0; i < a->n_sets; i++)
        if (a->set[i].bits != b->set[i].bits)
            return false;
    if (a->spare && !same_box(a->spare, b->spare))
        return false;
    if (a->object &&
        !same_bytes(a->object->data, b->object->data, a->object->bytes, b->object->bytes, 1))
        return false;
    return same_tree(a->tree, b->tree) && cells_size(&a->cells) == cells_size(&b->cells) &&
           (!cells_size(&a->cells) || !memcmp(cells_data(&a->cells), cells_data(&b->cells),
                                              cells_size(&a->cells) * sizeof(double)));
}

static bool same_all(const all_t *a, const all_t *b)
{
    return a->number == b->number && !memcmp(a->few, b->few, sizeof a->few) &&
           same_text(a->text, b->text) &&
           same_bytes(a->pair, b->pair, a->n_pairs, b->n_pairs, sizeof *a->pair) &&
           same_bytes(a->best, b->best, a->best != NULL, b->best != NULL, sizeof *a->best) &&
           a->what == b->what && same_shape(a->what, &a->shape, &b->shape) &&
           same_box(&a->box, &b->box) && same_words(&a->word, &b->word, 1) &&
           same_bytes(a->mine.pair, b->mine.pair, a->mine.n_pairs, b->mine.n_pairs,
                      sizeof(pair_t)) &&
           a->mine.n_words == b->mine.n_words &&
           same_words(a->mine.word, b->mine.word, a->mine.n_words) &&
           same_box(&a->boxes[0], &b->boxes[0]) && same_box(&a->boxes[1], &b->boxes[1]) &&
           same_words(a->words, b->words, 2) && same_rest(a, b);
}

#endif
