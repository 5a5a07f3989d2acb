/* Many elements of arrays by index.
 *   what:   get_many gives what is there, set_many sets it, and update_many applies each operand
 *           once, for any indices in any order, also equal ones, on any ranks, while other threads
 *           do the same. Elements are words of all sizes and structures; operators are built-in or
 *           the program's. Chunks are short or long; caches have few lines or enough. The model is
 *           a plain array.
 *   np:     1 2 3 4
 *   nodes:  0 1 2 2
 *   env:    PGAS_ARRAY_ACCESS=auto | PGAS_ARRAY_ACCESS=guarded | PGAS_SERVICE_THREADS=0
 *   source: pgas/array.h
 */
#include "base/op.h"
#include "t/spmd/array_crew.h"

#define N         3000 /* elements */
#define MOST      700  /* indices of a call */
#define LAPS      3
#define BYTES_MAX 24

typedef struct {
    uint64_t word[3];
} triple_t;

static pgas_array_t *array;
static size_t elem_bytes, operand_bytes;
static pgas_op_t op;
static const pgas_op_def_t *def;
static bool breaks; /* on purpose: the model misses one operand */
static _Alignas(16) unsigned char model[N * BYTES_MAX];
static pgas_op_t triple_op, merged_op;

/* ---- operators of the program ---- */

static void add_triples(void *to, const void *from)
{
    for (int k = 0; k < 3; k++)
        ((triple_t *)to)->word[k] += ((const triple_t *)from)->word[k];
}
static void add_small(void *to, const void *from)
{
    *(uint32_t *)to += *(const uint32_t *)from;
}
static void merge_small(void *elem, const void *from)
{
    *(uint64_t *)elem += UINT64_C(1000) * *(const uint32_t *)from;
}

static void register_all(void)
{
    static const triple_t zeros;
    pgas_op_def_t triples = { sizeof(triple_t), 0, &zeros, add_triples, NULL };
    pgas_op_def_t merged = { 8, 4, &zeros, add_small, merge_small };
    BAD(pgas_op_register("t.triples", &triples, &triple_op));
    BAD(pgas_op_register("t.merged", &merged, &merged_op));
}

/* ---- what threads do, which every rank can compute ---- */

static int n_threads;
static uint64_t seed;

static pgasi_rng_t rng_of(int id, int lap)
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed + (uint64_t)(id * 100 + lap));
    return rng;
}

/* The update of a thread in a lap. @return the number of indices. */
static size_t draw_update(int id, int lap, uint64_t *index, unsigned char *operands)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 257, MOST };
    pgasi_rng_t rng = rng_of(id, lap);
    size_t n = sizes[pgasi_rng_below(&rng, 7)];
    uint64_t near = pgasi_rng_below(&rng, 2) ? N : 1 + pgasi_rng_below(&rng, 40);
    for (size_t k = 0; k < n; k++) {
        uint64_t words[3];
        for (int j = 0; j < 3; j++)
            words[j] = pgasi_rng_below(&rng, 100);
        if (op == PGAS_OP(PGAS_ADD, PGAS_F64))
            memcpy(words, &(double){ (double)words[0] }, sizeof(double));
        index[k] = (uint64_t)lap * 211 % (N - near + 1) + pgasi_rng_below(&rng, near);
        memcpy(operands + k * operand_bytes, words, operand_bytes);
    }
    return n;
}

static void update_model(int lap)
{
    uint64_t index[MOST] = { 0 };
    _Alignas(16) unsigned char operands[MOST * BYTES_MAX], one[BYTES_MAX + 8];
    for (int id = 0; id < n_ranks * n_threads; id++) {
        size_t n = draw_update(id, lap, index, operands);
        for (size_t k = breaks; k < n; k++) {
            memcpy(one, operands + k * operand_bytes, operand_bytes);
            (def->merge ? def->merge : def->combine)(model + index[k] * elem_bytes, one);
        }
    }
}

static void set_value(uint64_t i, int lap, unsigned char *value)
{
    double word[3] = { (double)(i % 89) + lap, (double)(i % 97), (double)lap };
    memcpy(value, word, elem_bytes);
}

/* ---- the threads ---- */

static void read_all(int id, int lap)
{
    uint64_t index[MOST] = { 0 };
    unsigned char got[MOST * BYTES_MAX];
    pgasi_rng_t rng = rng_of(id, lap + 1000);
    size_t n = pgasi_rng_below(&rng, 2) ? MOST : pgasi_rng_below(&rng, MOST);
    for (size_t k = 0; k < n; k++)
        index[k] = pgasi_rng_below(&rng, N);
    BAD(pgas_array_get_many(array, index, n, got));
    for (size_t k = 0; k < n; k++)
        crew_judge(memcmp(got + k * elem_bytes, model + index[k] * elem_bytes, elem_bytes) == 0,
                   "an element that get_many gave");
}

/* Own elements, backwards: all threads together set all. */
static void set_own(int id, int lap)
{
    uint64_t index[MOST], n_ids = (uint64_t)(n_ranks * n_threads);
    unsigned char values[MOST * BYTES_MAX];
    size_t n = 0;
    for (uint64_t i = N; i-- > 0;) {
        if (i % n_ids == (uint64_t)id) {
            index[n] = i;
            set_value(i, lap, values + n++ * elem_bytes);
        }
        if (n == MOST || (i == 0 && n)) {
            BAD(pgas_array_set_many(array, index, n, values));
            n = 0;
        }
    }
}

static void body(int number, void *arg)
{
    uint64_t index[MOST] = { 0 };
    _Alignas(16) unsigned char operands[MOST * BYTES_MAX];
    int id = me * n_threads + number;
    (void)arg;
    for (int lap = 0; lap < LAPS; lap++) {
        set_own(id, lap);
        for (uint64_t i = 0; i < N && number == 0; i++)
            set_value(i, lap, model + i * elem_bytes);
        crew_meet(number);
        read_all(id, 2 * lap);
        crew_meet(number);
        size_t n = draw_update(id, lap, index, operands);
        BAD(pgas_array_update_many(array, index, n, op, operands));
        if (number == 0)
            update_model(lap);
        crew_meet(number);
        read_all(id, 2 * lap + 1);
        crew_meet(number);
    }
}

static void run(size_t bytes, pgas_op_t with, size_t chunk, size_t n_lines)
{
    elem_bytes = bytes;
    op = with;
    def = pgasi_op_find(op);
    operand_bytes = def->operand_bytes;
    array = crew_array(bytes, N, chunk, n_lines, NULL);
    crew_run(n_threads, body, NULL);
    BAD(pgas_array_destroy(array));
}

static void all_operators(size_t chunk, size_t n_lines)
{
    run(1, PGAS_OP(PGAS_XOR, PGAS_U8), chunk, n_lines);
    run(2, PGAS_OP(PGAS_MIN, PGAS_I16), chunk, n_lines);
    run(4, PGAS_OP(PGAS_ADD, PGAS_U32), chunk, n_lines);
    run(8, PGAS_OP(PGAS_ADD, PGAS_U64), chunk, n_lines);
    run(8, PGAS_OP(PGAS_ADD, PGAS_F64), chunk, n_lines);
    run(8, merged_op, chunk, n_lines);
    run(sizeof(triple_t), triple_op, chunk, n_lines);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 5);
    seed = spmd_seed(7);
    register_all();
    n_threads = 1;
    all_operators(512, 64);
    spmd_is_int(crew_faults(), 0, "one thread on each rank, long chunks");
    all_operators(16, 3);
    spmd_is_int(crew_faults(), 0, "short chunks, few cache lines");
    n_threads = 3;
    all_operators(512, 64);
    spmd_is_int(crew_faults(), 0, "three threads on each rank, long chunks");
    all_operators(16, 3);
    spmd_is_int(crew_faults(), 0, "short chunks, few cache lines");
    breaks = true;
    crew_mute();
    run(8, PGAS_OP(PGAS_ADD, PGAS_U64), 512, 64);
    spmd_ok(crew_faults() > 0, "an operand that is lost is noticed (made on purpose)");
    return job_end();
}
