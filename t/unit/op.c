/* what: Built-in operators combine as plain C does, one by one and in runs, and identities change
 *       no value. A name gives the same number whatever was registered before. Other definitions,
 *       colliding hashes and a full table are refused. Numbers are found while others are
 *       registered.
 * source: include/pgas/op.h */
#include <math.h>
#include <pthread.h>

#include "base/op.h"
#include "base/checks.h"
#include "base/hash.h"
#include "base/rng.h"
#include "t/tap.h"

enum { N = 77 }; /* no multiple of a vector */

/* The model: all types as long double, which holds every value of 64 bits, or as words. */
typedef struct {
    const char *name;
    size_t bytes;
    bool is_signed, is_float;
} type_t;
enum { END_OF_TYPES = PGAS_F64 + 1, END_OF_OPS = PGAS_SWAP };
static const type_t types[END_OF_TYPES] = {
    [PGAS_U8] = { "u8", 1, false, false },   [PGAS_U16] = { "u16", 2, false, false },
    [PGAS_U32] = { "u32", 4, false, false }, [PGAS_U64] = { "u64", 8, false, false },
    [PGAS_I8] = { "i8", 1, true, false },    [PGAS_I16] = { "i16", 2, true, false },
    [PGAS_I32] = { "i32", 4, true, false },  [PGAS_I64] = { "i64", 8, true, false },
    [PGAS_F32] = { "f32", 4, true, true },   [PGAS_F64] = { "f64", 8, true, true }
};

static uint64_t read_word(const void *from, const type_t *t)
{
    uint64_t word = 0;
    memcpy(&word, from, t->bytes);
    return word;
}

static long double value_of(uint64_t word, const type_t *t)
{
    float f;
    double d;
    if (t->is_float) {
        memcpy(&f, &word, sizeof f);
        memcpy(&d, &word, sizeof d);
        return t->bytes == 4 ? (long double)f : (long double)d;
    }
    unsigned shift = 64 - 8 * (unsigned)t->bytes;
    return t->is_signed ? (long double)((int64_t)(word << shift) >> shift) : (long double)word;
}

/* The sum, or the product. */
static uint64_t model_sum(uint64_t a, uint64_t b, const type_t *t, bool product)
{
    uint64_t word = 0;
    if (!t->is_float) {
        word = product ? a * b : a + b;
        return t->bytes == 8 ? word : word & ((UINT64_C(1) << 8 * t->bytes) - 1);
    }
    if (t->bytes == 4) {
        float x = (float)value_of(a, t), y = (float)value_of(b, t), f = product ? x * y : x + y;
        memcpy(&word, &f, sizeof f);
    } else {
        double x = (double)value_of(a, t), y = (double)value_of(b, t), d = product ? x * y : x + y;
        memcpy(&word, &d, sizeof d);
    }
    return word;
}

static uint64_t model(int kind, uint64_t a, uint64_t b, const type_t *t)
{
    switch (kind) {
    case PGAS_ADD:
        return model_sum(a, b, t, false);
    case PGAS_PROD:
        return model_sum(a, b, t, true);
    case PGAS_MIN:
        return value_of(b, t) < value_of(a, t) ? b : a;
    case PGAS_MAX:
        return value_of(b, t) > value_of(a, t) ? b : a;
    case PGAS_AND:
        return a & b;
    case PGAS_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

static uint64_t any_value(pgasi_rng_t *rng, const type_t *t)
{
    if (!t->is_float)
        return pgasi_rng_below(rng, 4) ? pgasi_rng_u64(rng)
                                       : UINT64_MAX << pgasi_rng_below(rng, 64);
    double d = ((double)pgasi_rng_below(rng, 2001) - 1000) / 8;
    float f = (float)d;
    uint64_t word = 0;
    memcpy(&word, t->bytes == 4 ? (void *)&f : (void *)&d, t->bytes);
    return word;
}

/* How many elements differ from the model: in a run, in a run of merges, one by one. */
static int differences(int kind, const type_t *t, const pgas_op_def_t *def, int broken,
                       pgasi_rng_t *rng)
{
    unsigned char to[N * 8], elems[N * 8], from[N * 8];
    uint64_t want[N];
    int wrong = 0;
    for (int k = 0; k < N; k++) {
        uint64_t a = any_value(rng, t), b = any_value(rng, t);
        memcpy(to + (size_t)k * t->bytes, &a, t->bytes);
        memcpy(from + (size_t)k * t->bytes, &b, t->bytes);
        a = read_word(&a, t);
        b = read_word(&b, t);
        want[k] = model(kind, a, b, t) ^ (k == broken);
        def->combine(&a, &b);
        wrong += a != want[k];
    }
    memcpy(elems, to, sizeof to);
    pgasi_op_combine_run(def, to, from, N);
    pgasi_op_merge_run(def, elems, from, N);
    for (size_t k = 0; k < N; k++)
        wrong += (read_word(to + k * t->bytes, t) != want[k]) +
                 (read_word(elems + k * t->bytes, t) != want[k]);
    return wrong;
}

static bool exists(int kind, const type_t *t)
{
    return (kind != PGAS_AND && kind != PGAS_OR && kind != PGAS_XOR) || !t->is_float;
}

static void built_ins_combine(pgasi_rng_t *rng)
{
    int wrong = 0, wrong_sizes = 0, unexpected = 0;
    for (int kind = PGAS_ADD; kind < END_OF_OPS; kind += PGAS_ADD) {
        for (int type = 0; type < 16; type++) {
            const type_t *t = type > 0 && type < END_OF_TYPES ? &types[type] : NULL;
            const pgas_op_def_t *def = pgasi_op_find(PGAS_OP(kind, type));
            if (!def || !t || !exists(kind, t)) {
                unexpected += (def != NULL) != (t && exists(kind, t));
                continue;
            }
            wrong_sizes += def->elem_bytes != t->bytes || def->operand_bytes != t->bytes;
            int differ = differences(kind, t, def, -1, rng);
            if (differ)
                diag("kind %d of %s: %d differences", kind, t->name, differ);
            wrong += differ;
        }
    }
    is_int(wrong, 0, "built-in operators are what plain C is, in runs and one by one");
    is_int(wrong_sizes, 0, "for operands of their elements' size");
    is_int(unexpected, 0, "all kinds of all types, and nothing between");
    is_int(differences(PGAS_ADD, &types[PGAS_U64], pgasi_op_find(PGAS_OP(PGAS_ADD, PGAS_U64)), 5,
                       rng),
           3, "a value that the model gets wrong is found thrice");
    ok(!pgasi_op_find(0) && !pgasi_op_find(PGAS_ADD) &&
           !pgasi_op_find(PGAS_OP(PGAS_SWAP, PGAS_U64)) && !pgasi_op_find(UINT32_MAX),
       "other numbers are unknown");
}

static void identities_change_nothing(pgasi_rng_t *rng)
{
    int changed = 0;
    for (int kind = PGAS_ADD; kind < END_OF_OPS; kind += PGAS_ADD) {
        for (int type = PGAS_U8; type < END_OF_TYPES; type++) {
            const type_t *t = &types[type];
            const pgas_op_def_t *def = pgasi_op_find(PGAS_OP(kind, type));
            for (int k = 0; def && k < 1000; k++) {
                uint64_t a = any_value(rng, t), before;
                if (k == 0 && t->is_float)
                    a = UINT64_C(1) << (8 * t->bytes - 1); /* -0.0 */
                before = a;
                def->combine(&a, def->identity);
                changed += a != before;
            }
        }
    }
    is_int(changed, 0, "combining with the identity changes no value, not even -0.0");
}

/* ---- registered ---- */

/* Elements are a sum and a count, operands the summands. */
typedef struct {
    double sum;
    uint64_t n;
} mean_t;
typedef struct {
    double value;
    uint32_t n;
} summand_t;

static void combine_summands(void *to, const void *from)
{
    summand_t *a = to;
    const summand_t *b = from;
    a->value += b->value;
    a->n += b->n;
}

static void merge_summand(void *elem, const void *operand)
{
    mean_t *mean = elem;
    const summand_t *s = operand;
    mean->sum += s->value;
    mean->n += s->n;
}

static void combine_nothing(void *to, const void *from)
{
    (void)to, (void)from;
}

static const summand_t no_summand = { 0, 0 };
static const pgas_op_def_t mean_def = { sizeof(mean_t), sizeof(summand_t), &no_summand,
                                        combine_summands, merge_summand };
static pgas_op_t mean;

static void registers_once(void)
{
    summand_t own_identity;
    memcpy(&own_identity, &no_summand, sizeof own_identity); /* identities are compared as bytes */
    pgas_op_def_t def = mean_def;
    pgas_op_t again = 0, other = 7;
    def.identity = &own_identity;
    ok(pgas_op_register("test.mean", &def, &mean) == PGAS_OK && mean >> 31,
       "a name gives a number of its own");
    own_identity.n = 99;
    is_int(pgas_op_register("test.mean", &mean_def, &again), PGAS_OK,
           "the same again is right, the identity was copied");
    is_int(again, mean, "and gives the same number");
    const pgas_op_def_t *found = pgasi_op_find(mean);
    ok(found && pgasi_op_find(PGAS_OP(mean, PGAS_F64)) == found &&
           found->elem_bytes == sizeof(mean_t) && found->operand_bytes == sizeof(summand_t),
       "it is found, with any type");
    def = mean_def;
    def.combine = combine_nothing;
    is_int(pgas_op_register("test.mean", &def, &other), PGAS_ERR_EXISTS,
           "not with another definition");
    def = mean_def;
    def.identity = &(summand_t){ 0, 1 };
    is_int(pgas_op_register("test.mean", &def, &other), PGAS_ERR_EXISTS, "nor another identity");
    is_int(other, 7, "and the output is left alone");
}

static void runs_of_the_program(void)
{
    const pgas_op_def_t *def = pgasi_op_find(mean);
    mean_t elems[N];
    summand_t a[N], b[N];
    int wrong = 0;
    memset(elems, 0, sizeof elems);
    memset(a, 0xFF, sizeof a);
    pgasi_op_fill_identity(def, a, N);
    for (int k = 0; k < N; k++)
        b[k] = (summand_t){ k, 1 };
    pgasi_op_combine_run(def, a, b, N);
    pgasi_op_combine_run(def, a, b, N - 1);
    pgasi_op_merge_run(def, elems, a, N);
    pgasi_op_merge_run(def, elems, b, N);
    for (int k = 0; k < N; k++) {
        int times = k < N - 1 ? 3 : 2;
        wrong += elems[k].sum != (double)(times * k) || elems[k].n != (uint64_t)times;
    }
    is_int(wrong, 0, "operands of another type are combined, and merged into elements");
}

/* A contribution that the library may not move to another alignment. */
static int n_unaligned;
static void combine_quads(void *to, const void *from)
{
    n_unaligned += ((uintptr_t)to | (uintptr_t)from) % 16 != 0;
    for (size_t k = 0; k < 4; k++)
        ((uint64_t *)to)[k] += ((const uint64_t *)from)[k];
}

static void runs_are_aligned(void)
{
    static const uint64_t zeros[4];
    static unsigned char to[33 * 32 + 16] PGASI_ALIGNED(16), from[33 * 32 + 16] PGASI_ALIGNED(16);
    pgas_op_t op = 0;
    uint64_t word;
    int wrong = 0;
    pgas_op_register("test.quads", &(pgas_op_def_t){ 32, 0, zeros, combine_quads, NULL }, &op);
    memset(to, 1, sizeof to);
    memset(from, 2, sizeof from);
    pgasi_op_combine_run(pgasi_op_find(op), to + 8, from + 1, 33);
    for (size_t k = 0; k < 33 * 4; k++) {
        memcpy(&word, to + 8 + k * 8, sizeof word);
        wrong += word != UINT64_C(0x0303030303030303);
    }
    ok(wrong == 0 && n_unaligned == 0 && to[7] == 1 && to[8 + 33 * 32] == 1,
       "an operator of the program gets aligned contributions");
}

static void identities_fill(void)
{
    enum { BYTES = 3 * 4096 + 5 };
    static unsigned char room[BYTES + 1], pattern[5000];
    static const size_t sizes[] = { 1, 3, 8, 24, 4096, 5000 };
    int wrong = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t k = 0; k < sizeof pattern; k++)
            pattern[k] = (unsigned char)(k * 7 + k / 256 + s);
        pgas_op_def_t def = { sizes[s], sizes[s], pattern, combine_nothing, NULL };
        memset(room, 0xAA, sizeof room);
        uint64_t n = BYTES / sizes[s];
        pgasi_op_fill_identity(&def, room, n);
        for (size_t k = 0; k < n * sizes[s]; k++)
            wrong += room[k] != pattern[k % sizes[s]];
        wrong += room[n * sizes[s]] != 0xAA;
    }
    pgasi_op_fill_identity(pgasi_op_find(PGAS_OP(PGAS_MIN, PGAS_U8)), room, 0);
    is_int(wrong, 0, "identities fill as many operands as asked for, of any size");
}

static pgas_status_t refused(size_t elem_bytes, size_t operand_bytes, const void *identity,
                             bool combine, bool merge)
{
    pgas_op_t op;
    pgas_op_def_t def = { elem_bytes, operand_bytes, identity, combine ? combine_nothing : NULL,
                          merge ? combine_nothing : NULL };
    return pgas_op_register("test.refused", &def, &op);
}

static void bad_ones_are_refused(void)
{
    static const unsigned char zeros[65536];
    pgas_op_t op;
    ok(refused(0, 0, zeros, true, false) == PGAS_ERR_INVALID &&
           refused(65537, 8, zeros, true, true) == PGAS_ERR_INVALID &&
           refused(8, 65537, zeros, true, true) == PGAS_ERR_INVALID,
       "sizes");
    ok(refused(8, 0, NULL, true, false) == PGAS_ERR_INVALID &&
           refused(8, 0, zeros, false, false) == PGAS_ERR_INVALID &&
           refused(8, 4, zeros, true, false) == PGAS_ERR_INVALID,
       "no identity, no combine, no merge where sizes differ");
    ok(pgas_op_register(NULL, &mean_def, &op) == PGAS_ERR_INVALID &&
           pgas_op_register("x", NULL, &op) == PGAS_ERR_INVALID &&
           pgas_op_register("x", &mean_def, NULL) == PGAS_ERR_INVALID &&
           pgas_op_register("", &mean_def, &op) == PGAS_ERR_INVALID,
       "no name, no definition, no place for the number");
    is_int(refused(8, 0, zeros, true, false), PGAS_OK, "and the name was free until it is right");
}

/* Two names with one number: a birthday search over 27 bits. */
static bool find_collision(char first[32], char second[32])
{
    enum { ROOM = 1 << 20, TRIES = 1 << 18 };
    uint32_t *by_number = calloc(ROOM, sizeof *by_number);
    bool found = false;
    for (uint32_t k = 1; by_number && !found && k < TRIES; k++) {
        snprintf(first, 32, "collide.%u", k);
        uint32_t number = ((uint32_t)pgasi_hash_text(first) << 1) >> 5,
                 *place = &by_number[number % ROOM];
        if (*place) {
            snprintf(second, 32, "collide.%u", *place);
            found = ((uint32_t)pgasi_hash_text(second) << 1) >> 5 == number;
        }
        *place = k;
    }
    free(by_number);
    return found;
}

static void collisions_are_refused(void)
{
    char first[32], second[32];
    pgas_op_t op;
    if (!find_collision(first, second)) {
        ok(false, "two names with one number");
        return;
    }
    pgas_status_t status = pgas_op_register(first, &mean_def, &op);
    ok(status == PGAS_OK && pgas_op_register(second, &mean_def, &op) == PGAS_ERR_EXISTS,
       "a name whose number another has is refused (%s, %s)", first, second);
}

/* ---- while others register ---- */

enum { N_OPS = 256, N_READERS = 2 };
static pgas_op_t ops[N_OPS];
static int n_ops, n_wrong;

static void *look_them_up(void *arg)
{
    for (int n = 0; n < N_OPS; n = __atomic_load_n(&n_ops, __ATOMIC_ACQUIRE)) {
        for (int k = 0; k < n; k++) {
            const pgas_op_def_t *def = pgasi_op_find(ops[k]);
            if (!def || def->elem_bytes != 1 + (size_t)k)
                __atomic_fetch_add(&n_wrong, 1, __ATOMIC_RELAXED);
        }
    }
    return arg;
}

static pgas_status_t register_number(int k, pgas_op_t *op_p)
{
    static const unsigned char zeros[N_OPS + 1];
    char name[32];
    snprintf(name, sizeof name, "many.%d", k);
    pgas_op_def_t def = { 1 + (size_t)k, 0, zeros, combine_nothing, NULL };
    return pgas_op_register(name, &def, op_p);
}

static void many_are_found_meanwhile(int n_before)
{
    pthread_t readers[N_READERS];
    pgas_op_t op;
    int k;
    for (int i = 0; i < N_READERS; i++)
        pthread_create(&readers[i], NULL, look_them_up, NULL);
    for (k = 0; k < N_OPS && register_number(k, &ops[k]) == PGAS_OK; k++)
        __atomic_store_n(&n_ops, k + 1, __ATOMIC_RELEASE);
    pgas_status_t full = register_number(k, &op);
    __atomic_store_n(&n_ops, N_OPS, __ATOMIC_RELEASE);
    for (int i = 0; i < N_READERS; i++)
        pthread_join(readers[i], NULL);
    is_int(k, N_OPS - n_before, "256 operators in all");
    is_int(full, PGAS_ERR_LIMIT, "one more is refused");
    is_int(register_number(0, &op), PGAS_OK, "one that is there is not");
    is_int(op, ops[0], "and keeps its number");
    int lost = 0;
    for (int i = 0; i < k; i++) {
        const pgas_op_def_t *def = pgasi_op_find(ops[i]);
        lost += !def || def->elem_bytes != 1 + (size_t)i || def->operand_bytes != 1 + (size_t)i;
    }
    is_int(lost, 0, "all are found");
    is_int(n_wrong, 0, "and were at any time once they were registered");
}

int main(void)
{
    plan(27);
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, tap_seed(4711));
    built_ins_combine(&rng);
    identities_change_nothing(&rng);
    registers_once();
    runs_of_the_program();
    runs_are_aligned();
    identities_fill();
    bad_ones_are_refused();
    collisions_are_refused();
    many_are_found_meanwhile(4);
    return done();
}
