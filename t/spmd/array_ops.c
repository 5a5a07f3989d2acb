/* Operators of arrays.
 *   what:   The built-in operators of all types combine as C does, by apply, typed or not, and by
 *           fetch_op. Operators of a program may have contributions of another type than the
 *           elements. Operators are the same on all ranks in whatever order these register them.
 *           Each contribution is applied once, also when operators alternate.
 *   np:     2 3 4
 *   nodes:  1 1 2
 *   tls:    posix posix tcp,self
 *   source: pgas/array.h
 */
#include <float.h>
#include "t/spmd/array_crew.h"

#define N 24 /* elements of each array that are used */
/* those of built-in operators, in several chunks of 512: scalars in them are used by plain
 * instructions */
#define APART 100

/* ---- built-in ---- */

/* What rank r applies to element i, at step k; small enough for sums of floats to be exact, of
 * either sign. */
static int operand_of(int r, uint64_t i, int k)
{
    return (int)((r * 53 + (int)i * 17 + k * 29) % 101) - 40;
}

static int begin_of(uint64_t i)
{
    return (int)(i * 37 % 90) - 20;
}

#define COMBINE_3(type)                                  \
    static type combine_##type(int kind, type a, type b) \
    {                                                    \
        if (kind == PGAS_ADD)                            \
            return (type)(a + b);                        \
        if (kind == PGAS_MIN)                            \
            return b < a ? b : a;                        \
        return b > a ? b : a;                            \
    }
#define COMBINE_7(type)                                  \
    static type combine_##type(int kind, type a, type b) \
    {                                                    \
        if (kind == PGAS_ADD)                            \
            return (type)(a + b);                        \
        switch (kind) {                                  \
        case PGAS_MIN:                                   \
            return b < a ? b : a;                        \
        case PGAS_MAX:                                   \
            return b > a ? b : a;                        \
        case PGAS_AND:                                   \
            return (type)(a & b);                        \
        case PGAS_PROD:                                  \
            return (type)((uint64_t)a * (uint64_t)b);    \
        case PGAS_OR:                                    \
            return (type)(a | b);                        \
        default:                                         \
            return (type)(a ^ b);                        \
        }                                                \
    }
COMBINE_7(uint8_t)
COMBINE_7(uint16_t)
COMBINE_7(uint32_t)
COMBINE_7(uint64_t)
COMBINE_7(int8_t)
COMBINE_7(int16_t)
COMBINE_7(int32_t)
COMBINE_7(int64_t)
COMBINE_3(float)
COMBINE_3(double)

/* Products of floating-point numbers would depend on their order. */
static const int kinds[] = { PGAS_ADD, PGAS_MIN, PGAS_MAX, PGAS_AND, PGAS_OR, PGAS_XOR, PGAS_PROD };

/* All kinds of one type, on one array. For each element another rank applies first, and some
 * contributions use fetch_op. */
#define BUILT_IN(tag, TAG, type, n_kinds)                                                       \
    static void built_in_##tag(void)                                                            \
    {                                                                                           \
        pgas_array_t *array = crew_array(sizeof(type), N * APART, 512, 3, NULL);                \
        for (int at = 0; at < (n_kinds); at++) {                                                \
            int kind = kinds[at];                                                               \
            pgas_op_t op = PGAS_OP(kind, PGAS_##TAG);                                           \
            for (uint64_t i = (uint64_t)me; i < N; i += (uint64_t)n_ranks)                      \
                BAD(pgas_array_set_##tag(array, i *APART, (type)begin_of(i)));                  \
            BAD(pgas_barrier(NULL));                                                            \
            for (int k = 0; k < 4; k++) {                                                       \
                for (uint64_t i = 0; i < N; i++) {                                              \
                    type operand = (type)operand_of(me, i, k), old;                             \
                    if (k == 3 && i % 5 == 0)                                                   \
                        BAD(pgas_array_fetch_op(array, i *APART, op, &operand, &old));          \
                    else if (k % 2)                                                             \
                        BAD(pgas_array_apply(array, i *APART, op, &operand));                   \
                    else                                                                        \
                        BAD(pgas_array_apply_##tag(array, i *APART, (pgas_op_t)kind, operand)); \
                }                                                                               \
            }                                                                                   \
            BAD(pgas_barrier(NULL));                                                            \
            for (uint64_t i = 0; i < N; i++) {                                                  \
                type want = (type)begin_of(i), is = 0;                                          \
                for (int r = 0; r < n_ranks; r++)                                               \
                    for (int k = 0; k < 4; k++)                                                 \
                        want = combine_##type(kind, want, (type)operand_of(r, i, k));           \
                BAD(pgas_array_get_##tag(array, i *APART, &is));                                \
                crew_judge(is == want, "operands of " #tag);                                    \
            }                                                                                   \
            BAD(pgas_barrier(NULL));                                                            \
        }                                                                                       \
        BAD(pgas_array_destroy(array));                                                         \
    }
BUILT_IN(u8, U8, uint8_t, 7)
BUILT_IN(u16, U16, uint16_t, 7)
BUILT_IN(u32, U32, uint32_t, 7)
BUILT_IN(u64, U64, uint64_t, 7)
BUILT_IN(i8, I8, int8_t, 7)
BUILT_IN(i16, I16, int16_t, 7)
BUILT_IN(i32, I32, int32_t, 7)
BUILT_IN(i64, I64, int64_t, 7)
BUILT_IN(f32, F32, float, 3)
BUILT_IN(f64, F64, double, 3)

static void built_in(void)
{
    built_in_u8();
    built_in_u16();
    built_in_u32();
    built_in_u64();
    built_in_i8();
    built_in_i16();
    built_in_i32();
    built_in_i64();
    built_in_f32();
    built_in_f64();
    spmd_is_int(crew_faults(), 0, "built-in operators of all types");
}

/* ---- of the program's ---- */

typedef struct {
    double sum, least, most;
    uint32_t n, sign;
} stat_t;

typedef struct {
    float sum, least, most;
    uint32_t n;
} sample_t; /* the operand: of another type and size */

static void combine_samples(void *to, const void *from)
{
    sample_t *a = to;
    const sample_t *b = from;
    a->sum += b->sum;
    a->n += b->n;
    a->least = b->least < a->least ? b->least : a->least;
    a->most = b->most > a->most ? b->most : a->most;
}

static void merge_sample(void *elem, const void *operand)
{
    stat_t *stat = elem;
    const sample_t *x = operand;
    stat->sum += x->sum;
    stat->n += x->n;
    stat->least = x->least < stat->least ? x->least : stat->least;
    stat->most = x->most > stat->most ? x->most : stat->most;
}

static const sample_t no_sample = { 0, FLT_MAX, -FLT_MAX, 0 };

/* Multiplies modulo 2^61 - 1: of elements of 8 bytes, with one for identity. */
#define PRIME ((UINT64_C(1) << 61) - 1)
static void multiply(void *to, const void *from)
{
    uint64_t a, b;
    memcpy(&a, to, 8);
    memcpy(&b, from, 8);
    a = (uint64_t)((pgasi_u128_t)a * b % PRIME);
    memcpy(to, &a, 8);
}

/* The larger by its first byte, of 3 bytes. */
static void prefer(void *to, const void *from)
{
    if (memcmp(from, to, 3) > 0)
        memcpy(to, from, 3);
}

/* Adds a byte to a large structure's last word: elements much larger than operands. */
typedef struct {
    uint64_t word[50];
} large_t;

static void add_byte(void *to, const void *from)
{
    *(uint8_t *)to = (uint8_t)(*(uint8_t *)to + *(const uint8_t *)from);
}
static void merge_byte(void *elem, const void *operand)
{
    large_t *large = elem;
    large->word[49] += *(const uint8_t *)operand;
}

static pgas_op_t stat_op, multiply_op, prefer_op, byte_op;

/* Each rank begins with another one. */
static void register_all(void)
{
    static const uint64_t one = 1;
    static const unsigned char zeros[3];
    const struct {
        const char *name;
        pgas_op_def_t def;
        pgas_op_t *op;
    } all[] = {
        { "stat",
          { sizeof(stat_t), sizeof(sample_t), &no_sample, combine_samples, merge_sample },
          &stat_op },
        { "multiply", { 8, 0, &one, multiply, NULL }, &multiply_op },
        { "prefer", { 3, 3, zeros, prefer, NULL }, &prefer_op },
        { "byte", { sizeof(large_t), 1, zeros, add_byte, merge_byte }, &byte_op },
    };
    pgas_op_t numbers[4], theirs[4], again = 0;
    for (size_t k = 0; k < 4; k++) {
        size_t x = me % 2 ? 3 - k : (k + (size_t)me) % 4;
        BAD(pgas_op_register(all[x].name, &all[x].def, all[x].op));
    }
    for (size_t k = 0; k < 4; k++) {
        numbers[k] = theirs[k] = *all[k].op;
        crew_judge(numbers[k] > PGAS_OP(PGAS_XOR, PGAS_I64), "an operator's number");
        BAD(pgas_op_register(all[k].name, &all[k].def, &again));
        crew_judge(again == numbers[k], "the same again");
    }
    BAD(pgas_broadcast(NULL, theirs, sizeof theirs, 0));
    crew_judge(memcmp(numbers, theirs, sizeof numbers) == 0, "the same numbers on all ranks");
    pgas_op_def_t other = all[1].def;
    other.combine = prefer;
    GAVE(pgas_op_register("multiply", &other, &again), PGAS_ERR_EXISTS);
    spmd_is_int(crew_faults(), 0, "registered in different order they are the same");
}

static void of_another_type(void)
{
    pgas_array_t *array = crew_array(sizeof(stat_t), N, 4, 3, NULL);
    stat_t empty = { 0, DBL_MAX, -DBL_MAX, 0, 12345 }, is, old;
    BAD(pgas_array_fill(array, &empty));
    for (int k = 0; k < 6; k++) {
        for (uint64_t i = 0; i < N; i++) {
            float x = (float)operand_of(me, i, k);
            sample_t sample = { x, x, x, 1 };
            if (k == 5 && i % 3 == 0) {
                BAD(pgas_array_fetch_op(array, i, stat_op, &sample, &old));
                bool good = old.n >= 5 && old.n < 6 * (uint32_t)n_ranks && old.sign == 12345;
                crew_judge(good, "fetch_op with operands of another type");
            } else {
                BAD(pgas_array_apply(array, i, stat_op, &sample));
            }
        }
    }
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 0; i < N; i++) {
        stat_t want = empty;
        for (int k = 0; k < 6 * n_ranks; k++) {
            float x = (float)operand_of(k / 6, i, k % 6);
            merge_sample(&want, &(sample_t){ x, x, x, 1 });
        }
        BAD(pgas_array_get(array, i, &is));
        crew_judge(memcmp(&is, &want, sizeof is) == 0, "statistics");
    }
    BAD(pgas_array_destroy(array));
    pgas_array_t *large = crew_array(sizeof(large_t), N, 2, 3, NULL);
    static const uint8_t operands[] = { 3, 200, 52 };
    large_t value = { { 0 } };
    for (int k = 0; k < 300; k++) {
        if (k % 100 == 50)
            /* a neighbouring element on which no rank operates */
            BAD(pgas_array_set(large, (uint64_t)(me + n_ranks), &value));
        BAD(pgas_array_apply(large, (uint64_t)(k % n_ranks), byte_op, &operands[k % 3]));
    }
    BAD(pgas_barrier(NULL));
    uint64_t sum = 0;
    for (int i = 0; i < n_ranks; i++) {
        BAD(pgas_array_get(large, (uint64_t)i, &value));
        sum += value.word[49];
    }
    /* Combined contributions are bytes too: a loss is a multiple of 256. */
    crew_judge(sum % 256 == (uint64_t)(n_ranks * 100 * 255) % 256,
               "operands of a byte for elements of 400");
    BAD(pgas_array_destroy(large));
    spmd_is_int(crew_faults(), 0, "operands of another type than the elements'");
}

static void of_the_same_type(void)
{
    pgas_array_t *words = crew_array(8, N, 4, 3, NULL), *threes = crew_array(3, N, 4, 3, NULL);
    uint64_t one = 1, x = 0, is = 0;
    unsigned char three[3], best[3], zero[3] = { 0, 0, 0 };
    BAD(pgas_array_fill(words, &one));
    BAD(pgas_array_fill(threes, zero));
    for (int k = 0; k < 5; k++) {
        for (uint64_t i = 0; i < N; i++) {
            x = (uint64_t)(operand_of(me, i, k) + 1000) * UINT64_C(123456789123);
            if (k % 2)
                BAD(pgas_array_apply(words, i, multiply_op, &x));
            else
                /* typed forms take all operators of that size */
                BAD(pgas_array_apply_u64(words, i, multiply_op, x));
            three[0] = (unsigned char)operand_of(me, i, k);
            three[1] = (unsigned char)me;
            three[2] = (unsigned char)k;
            BAD(pgas_array_apply(threes, i, prefer_op, three));
        }
    }
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 0; i < N; i++) {
        uint64_t want = 1;
        memset(best, 0, sizeof best);
        for (int k = 0; k < 5 * n_ranks; k++) {
            x = (uint64_t)(operand_of(k / 5, i, k % 5) + 1000) * UINT64_C(123456789123);
            multiply(&want, &x);
            three[0] = (unsigned char)operand_of(k / 5, i, k % 5);
            three[1] = (unsigned char)(k / 5);
            three[2] = (unsigned char)(k % 5);
            prefer(best, three);
        }
        BAD(pgas_array_get_u64(words, i, &is));
        crew_judge(is == want, "products");
        BAD(pgas_array_get(threes, i, three));
        crew_judge(memcmp(three, best, 3) == 0, "the best of 3 bytes");
    }
    BAD(pgas_array_destroy(words));
    BAD(pgas_array_destroy(threes));
    spmd_is_int(crew_faults(), 0, "operators of the program's on elements of 8 and 3 bytes");
}

/* Two operators and reads take turns on one chunk, from all ranks. */
static void taking_turns(void)
{
    pgas_array_t *array = crew_array(8, 8, 8, 3, NULL);
    uint64_t value = 0, before = 0, one = 1;
    BAD(pgas_array_fill(array, &one));
    for (int k = 0; k < 300; k++) {
        uint64_t x = (uint64_t)(k + 2);
        if ((k + me) / 5 % 2)
            BAD(pgas_array_apply_u64(array, 2, PGAS_ADD, x));
        else
            BAD(pgas_array_apply_u64(array, 3, multiply_op, x));
        if (k % 20 == 0) {
            BAD(pgas_array_get_u64(array, 2, &value));
            crew_judge(value >= before, "a sum does not go back");
            before = value;
        }
    }
    BAD(pgas_barrier(NULL));
    uint64_t sum = 1, product = 1;
    for (int k = 0; k < 300 * n_ranks; k++) {
        uint64_t x = (uint64_t)(k % 300 + 2);
        if ((k % 300 + k / 300) / 5 % 2)
            sum += x;
        else
            multiply(&product, &x);
    }
    BAD(pgas_array_get_u64(array, 2, &value));
    crew_judge(value == sum, "the sum");
    BAD(pgas_array_get_u64(array, 3, &value));
    crew_judge(value == product, "the product");
    int n_faults = crew_faults();
    spmd_is_int(n_faults, 0, "two operators in turns: no operand lost, none doubled");
    crew_mute();
    crew_judge(value == product + 1, "on purpose");
    spmd_is_int(crew_faults(), 1, "a product that is off would be noticed");
    BAD(pgas_array_destroy(array));
}

/* Operands that no call carries, of elements that are far smaller. */
typedef struct {
    uint64_t word[2048];
} row_t;
static row_t no_row, row;
static void add_rows(void *to, const void *from)
{
    for (size_t k = 0; k < 2048; k++)
        ((row_t *)to)->word[k] += ((const row_t *)from)->word[k];
}
static void merge_row(void *elem, const void *operand)
{
    for (size_t k = 0; k < 2048; k++)
        *(uint64_t *)elem += ((const row_t *)operand)->word[k];
}

static void large_operands(void)
{
    enum { TIMES = 10 };
    pgas_array_t *array = crew_array(8, (uint64_t)n_ranks * 4, 4, 1, NULL);
    pgas_op_def_t def = { 8, sizeof(row_t), &no_row, add_rows, merge_row };
    pgas_op_t op = 0;
    uint64_t n = pgas_array_n_elems(array), value = 0;
    BAD(pgas_op_register("rows", &def, &op));
    for (size_t k = 0; k < 2048; k++)
        row.word[k] = k;
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 0; i < n * TIMES; i++)
        BAD(pgas_array_apply(array, i % n, op, &row));
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 0; i < n; i++) {
        BAD(pgas_array_get_u64(array, i, &value));
        crew_judge(value == 2047 * 1024 * TIMES * (uint64_t)n_ranks, "the sum of all rows");
    }
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "operands larger than a call, and than elements");
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 7);
    built_in();
    register_all();
    of_another_type();
    of_the_same_type();
    taking_turns();
    large_operands();
    return job_end();
}
