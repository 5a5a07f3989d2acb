/* Refusals of arrays.
 *   what:   Wrong uses get the documented status, the same on all ranks if all take part, and a log
 *           line where one is promised. They leave the array unchanged. Wrong uses are: indices out
 *           of range, elements of another size, null pointers, operators that are unknown here or
 *           at the home or belong to other elements, parameters that are wrong or differ between
 *           ranks, destruction with pins or locks held, threads that are not attached, handlers,
 *           and calls before init and after finalize.
 *   np:     2 3 4
 *   nodes:  1 1 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0
 *   source: pgas/array.h */
#include "t/spmd/array_crew.h"
#include "t/spmd/said.h"

#define CHUNK 8
#define N     100

static pgas_array_t *array; /* of 64 bits */

/* ---- without the library ---- */

static void without_the_library(const char *when)
{
    static pgas_array_t none; /* as if a thread had kept one */
    pgas_array_t *made = NULL;
    uint64_t value = 0;
    pgas_array_pin_t pin = { .array = &none };
    GAVE(pgas_array_create(NULL, 8, 10, NULL, &made), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_destroy(&none), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_get_u64(&none, 0, &value), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_set_u64(&none, 0, 1), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_apply_u64(&none, 0, PGAS_ADD, 1), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_get(&none, 0, &value), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_compare_swap(&none, 0, &value, &value, &value), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_fetch_op(&none, 0, PGAS_OP(PGAS_ADD, PGAS_U64), &value, &value),
         PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_lock(&none, 0, PGAS_ARRAY_READ, -1), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_lock(&none, 0, PGAS_ARRAY_WRITE, 0), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_unlock(&none, 0), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_pin(&none, 0, PGAS_ARRAY_READ, 0, &pin), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_fill(&none, &value), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_load(&none, 0, 1, &value), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_store(&none, 0, 1, &value), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_get_many(&none, &value, 1, &value), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_set_many(&none, &value, 1, &value), PGAS_ERR_NOT_INIT);
    GAVE(pgas_array_prefetch(&none, 0, 1, PGAS_ARRAY_READ, 0, NULL), PGAS_ERR_NOT_INIT);
    crew_judge(!made, "nothing is made");
    spmd_is_int(crew_faults(), 0, "%s: PGAS_ERR_NOT_INIT", when);
}

/* ---- indices and pointers ---- */

static void out_of_range(void)
{
    static const uint64_t beyond[] = { N, N + 1, N + CHUNK * 3, UINT64_C(1) << 40, UINT64_MAX };
    uint64_t value = 77, index[3] = { 1, 0, 2 }, three[3] = { 5, 5, 5 };
    pgas_array_pin_t pin;
    pgas_array_walk_t w;
    for (size_t k = 0; k < sizeof beyond / sizeof beyond[0]; k++) {
        uint64_t i = beyond[k];
        GAVE(pgas_array_get_u64(array, i, &value), PGAS_ERR_RANGE);
        GAVE(pgas_array_set_u64(array, i, 1), PGAS_ERR_RANGE);
        GAVE(pgas_array_apply_u64(array, i, PGAS_ADD, 1), PGAS_ERR_RANGE);
        GAVE(pgas_array_get(array, i, &value), PGAS_ERR_RANGE);
        GAVE(pgas_array_set(array, i, &value), PGAS_ERR_RANGE);
        GAVE(pgas_array_compare_swap(array, i, &value, &value, &value), PGAS_ERR_RANGE);
        GAVE(pgas_array_fetch_op(array, i, PGAS_OP(PGAS_ADD, PGAS_U64), &value, &value),
             PGAS_ERR_RANGE);
        GAVE(pgas_array_lock(array, i, PGAS_ARRAY_READ, -1), PGAS_ERR_RANGE);
        GAVE(pgas_array_lock(array, i, PGAS_ARRAY_WRITE, 0), PGAS_ERR_RANGE);
        GAVE(pgas_array_unlock(array, i), PGAS_ERR_RANGE);
        GAVE(pgas_array_pin(array, i, PGAS_ARRAY_READ, 0, &pin), PGAS_ERR_RANGE);
        GAVE(pgas_array_load(array, i, 1, &value), PGAS_ERR_RANGE);
        GAVE(pgas_array_load(array, N - 1, i, three), PGAS_ERR_RANGE);
        GAVE(pgas_array_store(array, 1, i, three), PGAS_ERR_RANGE);
        GAVE(pgas_array_prefetch(array, 1, i, PGAS_ARRAY_READ, 0, NULL), PGAS_ERR_RANGE);
        index[1] = i;
        GAVE(pgas_array_get_many(array, index, 3, three), PGAS_ERR_RANGE);
        GAVE(pgas_array_set_many(array, index, 3, three), PGAS_ERR_RANGE);
        GAVE(pgas_array_update_many(array, index, 3, PGAS_OP(PGAS_ADD, PGAS_U64), three),
             PGAS_ERR_RANGE);
        GAVE(pgas_array_walk_begin(array, i, 1, PGAS_ARRAY_READ, 0, &w), PGAS_ERR_RANGE);
        crew_judge(!pgas_array_walk_next(&w), "a walk that did not begin");
        GAVE(pgas_array_walk_end(&w), PGAS_ERR_RANGE);
        crew_judge(pgas_array_home(array, i) == -1, "a home of nothing");
    }
    GAVE(pgas_array_range(array, n_ranks, &index[0], &index[1]), PGAS_ERR_RANGE);
    GAVE(pgas_array_range(array, -2, &index[0], &index[1]), PGAS_ERR_RANGE);
    crew_judge(value == 77 && three[0] == 5 && three[2] == 5, "outputs are as they were");
    for (uint64_t i = 0; i < N; i++) {
        BAD(pgas_array_get_u64(array, i, &value));
        crew_judge(value == 0, "elements are as they were");
    }
    BAD(pgas_array_load(array, N, 0, NULL));
    spmd_is_int(crew_faults(), 0, "indices out of range");
}

static void null_pointers(void)
{
    uint64_t value = 1;
    pgas_array_pin_t pin = { .grant = NULL };
    pgas_array_walk_t w;
    GAVE(pgas_array_create(NULL, 8, N, NULL, NULL), PGAS_ERR_INVALID);
    BAD(pgas_array_destroy(NULL));
    GAVE(pgas_array_get(NULL, 0, &value), PGAS_ERR_INVALID);
    GAVE(pgas_array_get(array, 0, NULL), PGAS_ERR_INVALID);
    GAVE(pgas_array_set(NULL, 0, &value), PGAS_ERR_INVALID);
    GAVE(pgas_array_set(array, 0, NULL), PGAS_ERR_INVALID);
    GAVE(pgas_array_apply(NULL, 0, PGAS_OP(PGAS_ADD, PGAS_U64), &value), PGAS_ERR_INVALID);
    GAVE(pgas_array_apply(array, 0, PGAS_OP(PGAS_ADD, PGAS_U64), NULL), PGAS_ERR_INVALID);
    GAVE(pgas_array_compare_swap(array, 0, NULL, &value, &value), PGAS_ERR_INVALID);
    GAVE(pgas_array_compare_swap(array, 0, &value, NULL, &value), PGAS_ERR_INVALID);
    GAVE(pgas_array_compare_swap(array, 0, &value, &value, NULL), PGAS_ERR_INVALID);
    GAVE(pgas_array_fetch_op(array, 0, PGAS_OP(PGAS_ADD, PGAS_U64), NULL, &value),
         PGAS_ERR_INVALID);
    GAVE(pgas_array_fetch_op(array, 0, PGAS_OP(PGAS_ADD, PGAS_U64), &value, NULL),
         PGAS_ERR_INVALID);
    GAVE(pgas_array_lock(NULL, 0, PGAS_ARRAY_READ, -1), PGAS_ERR_INVALID);
    GAVE(pgas_array_lock(array, 0, PGAS_ARRAY_OPERATE, -1), PGAS_ERR_INVALID);
    GAVE(pgas_array_unlock(NULL, 0), PGAS_ERR_INVALID);
    GAVE(pgas_array_pin(NULL, 0, PGAS_ARRAY_READ, 0, &pin), PGAS_ERR_INVALID);
    GAVE(pgas_array_pin(array, 0, PGAS_ARRAY_READ, 0, NULL), PGAS_ERR_INVALID);
    GAVE(pgas_array_pin(array, 0, (pgas_array_mode_t)3, 0, &pin), PGAS_ERR_INVALID);
    GAVE(pgas_array_unpin(NULL), PGAS_ERR_INVALID);
    GAVE(pgas_array_unpin(&pin), PGAS_ERR_INVALID);
    GAVE(pgas_array_fill(array, NULL), PGAS_ERR_INVALID);
    GAVE(pgas_array_load(array, 0, 1, NULL), PGAS_ERR_INVALID);
    GAVE(pgas_array_store(NULL, 0, 1, &value), PGAS_ERR_INVALID);
    GAVE(pgas_array_get_many(array, NULL, 1, &value), PGAS_ERR_INVALID);
    GAVE(pgas_array_set_many(array, &value, 1, NULL), PGAS_ERR_INVALID);
    GAVE(pgas_array_update_many(array, NULL, 1, PGAS_OP(PGAS_ADD, PGAS_U64), &value),
         PGAS_ERR_INVALID);
    GAVE(pgas_array_update_many(array, &value, 1, PGAS_OP(PGAS_ADD, PGAS_U64), NULL),
         PGAS_ERR_INVALID);
    GAVE(pgas_array_prefetch(NULL, 0, 1, PGAS_ARRAY_READ, 0, NULL), PGAS_ERR_INVALID);
    GAVE(pgas_array_walk_begin(array, 0, 1, PGAS_ARRAY_READ, 0, NULL), PGAS_ERR_INVALID);
    GAVE(pgas_array_walk_begin(NULL, 0, 1, PGAS_ARRAY_READ, 0, &w), PGAS_ERR_INVALID);
    GAVE(pgas_array_range(array, 0, NULL, &value), PGAS_ERR_INVALID);
    pgas_array_info_t info = { .size = 0 };
    GAVE(pgas_array_info(array, &info), PGAS_ERR_INVALID);
    GAVE(pgas_array_info(array, NULL), PGAS_ERR_INVALID);
    GAVE(pgas_array_info(NULL, NULL), PGAS_ERR_INVALID);
    crew_judge(pgas_array_home(NULL, 0) == -1, "no array, no home");
    spmd_is_int(crew_faults(), 0, "null pointers");
}

/* ---- sizes and operators ---- */

static void other_sizes(void)
{
    uint8_t u8 = 1;
    uint16_t u16 = 1;
    uint32_t u32 = 1;
    float f32 = 1;
    static unsigned char large[300], old[300];
    GAVE(pgas_array_get_u8(array, 0, &u8), PGAS_ERR_INVALID);
    GAVE(pgas_array_get_u16(array, 0, &u16), PGAS_ERR_INVALID);
    GAVE(pgas_array_get_u32(array, 0, &u32), PGAS_ERR_INVALID);
    GAVE(pgas_array_get_f32(array, 0, &f32), PGAS_ERR_INVALID);
    GAVE(pgas_array_set_u8(array, 0, 2), PGAS_ERR_INVALID);
    GAVE(pgas_array_set_f32(array, 0, 2), PGAS_ERR_INVALID);
    GAVE(pgas_array_apply_i16(array, 0, PGAS_ADD, 2), PGAS_ERR_INVALID);
    pgas_array_t *wide = crew_array(sizeof large, 9, 2, 3, NULL);
    uint64_t u64 = 0;
    GAVE(pgas_array_get_u64(wide, 0, &u64), PGAS_ERR_INVALID);
    GAVE(pgas_array_compare_swap(wide, 0, large, large, old), PGAS_ERR_LIMIT);
    BAD(pgas_array_set(wide, (uint64_t)me, large));
    BAD(pgas_array_destroy(wide));
    crew_judge(u8 == 1 && u16 == 1 && u32 == 1 && u64 == 0, "outputs are as they were");
    spmd_is_int(crew_faults(), 0, "elements of another size");
}

static void add_two(void *to, const void *from)
{
    ((uint64_t *)to)[0] += ((const uint64_t *)from)[0];
}
static void merge_two(void *to, const void *from)
{
    ((uint64_t *)to)[0] += 2 * ((const uint64_t *)from)[0];
}

static void operators(void)
{
    static const uint64_t zeros[2];
    static const struct {
        pgas_op_t op;
        pgas_status_t status;
    } unknown[] = { { 0, PGAS_ERR_UNSUPPORTED },
                    { PGAS_OP(PGAS_XOR, PGAS_F64), PGAS_ERR_UNSUPPORTED },
                    { PGAS_OP(PGAS_SWAP, PGAS_U64), PGAS_ERR_UNSUPPORTED },
                    { 0x7fffffff, PGAS_ERR_UNSUPPORTED },
                    { UINT32_MAX, PGAS_ERR_NOT_FOUND } };
    pgas_op_def_t def = { 8, 8, zeros, add_two, merge_two };
    pgas_op_t merged = 0, none = 0;
    pgas_array_pin_t pin;
    uint64_t value = 1;
    uint32_t half = 1;
    for (size_t k = 0; k < sizeof unknown / sizeof unknown[0]; k++) {
        pgas_op_t op = unknown[k].op;
        pgas_status_t status = unknown[k].status;
        GAVE(pgas_array_apply_u64(array, 3, op, 1), status);
        GAVE(pgas_array_apply(array, N - 3, op, &value), status);
        GAVE(pgas_array_fetch_op(array, 3, op, &value, &value), status);
        GAVE(pgas_array_update_many(array, &value, 1, op, &value), status);
        GAVE(pgas_array_pin(array, 3, PGAS_ARRAY_OPERATE, op, &pin), status);
    }
    GAVE(pgas_array_apply(array, 3, PGAS_ADD, &value), PGAS_ERR_UNSUPPORTED); /* without a type */
    GAVE(pgas_array_apply_u64(array, 3, PGAS_SWAP, 1), PGAS_ERR_UNSUPPORTED);
    GAVE(pgas_array_apply(array, 3, PGAS_OP(PGAS_ADD, PGAS_U32), &half), PGAS_ERR_MISMATCH);
    GAVE(pgas_array_fetch_op(array, N - 1, PGAS_OP(PGAS_MAX, PGAS_U8), &half, &value),
         PGAS_ERR_MISMATCH);
    GAVE(pgas_array_pin(array, 3, PGAS_ARRAY_OPERATE, PGAS_OP(PGAS_ADD, PGAS_F32), &pin),
         PGAS_ERR_MISMATCH);
    BAD(pgas_op_register("merged", &def, &merged));
    GAVE(pgas_array_pin(array, 3, PGAS_ARRAY_OPERATE, merged, &pin), PGAS_ERR_MISMATCH);
    GAVE(pgas_op_register(NULL, &def, &none), PGAS_ERR_INVALID);
    GAVE(pgas_op_register("", &def, &none), PGAS_ERR_INVALID);
    GAVE(pgas_op_register("x", NULL, &none), PGAS_ERR_INVALID);
    GAVE(pgas_op_register("x", &def, NULL), PGAS_ERR_INVALID);
    def.operand_bytes = 4;
    def.merge = NULL; /* how should four bytes go into eight? */
    GAVE(pgas_op_register("x", &def, &none), PGAS_ERR_INVALID);
    def = (pgas_op_def_t){ 8, 8, zeros, NULL, merge_two };
    GAVE(pgas_op_register("x", &def, &none), PGAS_ERR_INVALID);
    def = (pgas_op_def_t){ 8, 8, NULL, add_two, NULL };
    GAVE(pgas_op_register("x", &def, &none), PGAS_ERR_INVALID);
    def = (pgas_op_def_t){ 0, 8, zeros, add_two, merge_two };
    GAVE(pgas_op_register("x", &def, &none), PGAS_ERR_INVALID);
    crew_judge(none == 0, "no number");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_get_u64(array, N - 3, &value));
    crew_judge(value == 0, "nothing is applied");
    spmd_is_int(crew_faults(), 0, "operators: unknown, for other elements, badly defined");
}

/* Registered on the last rank only; rank 0 is home. Ranks of its own node it needs not for that. */
static void unknown_at_home(void)
{
    static const uint64_t zero;
    pgas_op_def_t def = { 8, 8, &zero, add_two, NULL };
    pgas_op_t op = 0;
    uint64_t value = 5, old = 0;
    bool far = pgas_node_of(0) != pgas_node_of(n_ranks - 1);
    if (me == n_ranks - 1) {
        BAD(pgas_op_register("known by one", &def, &op));
        for (int k = 0; k < 4 && far; k++) { /* however the access goes */
            GAVE(pgas_array_apply(array, 1, op, &value), PGAS_ERR_NOT_FOUND);
            GAVE(pgas_array_fetch_op(array, 2, op, &value, &old), PGAS_ERR_NOT_FOUND);
        }
        pgas_array_pin_t pin;
        if (far &&
            !GAVE(pgas_array_pin(array, 1, PGAS_ARRAY_OPERATE, op, &pin), PGAS_ERR_NOT_FOUND))
            BAD(pgas_array_unpin(&pin));
        static const char row[1 << 15]; /* no call carries it */
        def = (pgas_op_def_t){ 8, sizeof row, row, add_two, merge_two };
        BAD(pgas_op_register("large and known by one", &def, &op));
        if (far)
            GAVE(pgas_array_apply(array, 1, op, row), PGAS_ERR_NOT_FOUND);
        BAD(pgas_array_apply_u64(array, 4, PGAS_ADD, 5)); /* the chunk still works */
    }
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 1; i < 5; i++) {
        BAD(pgas_array_get_u64(array, i, &value));
        crew_judge(value == (i == 4 ? 5 : 0), "nothing else is applied");
    }
    BAD(pgas_barrier(NULL));
    spmd_is_int(crew_faults(), 0, "an operator that the home does not know");
}

/* ---- create ---- */

static pgas_status_t create_with(size_t bytes, uint64_t n, const pgas_array_opts_t *opts)
{
    pgas_array_t *made = NULL;
    pgas_status_t status = pgas_array_create(NULL, bytes, n, opts, &made);
    crew_judge((status == PGAS_OK) == (made != NULL), "an array only on success");
    if (made)
        BAD(pgas_array_destroy(made));
    return status;
}

static void wrong_parameters(void)
{
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT, plain = PGAS_ARRAY_OPTS_INIT;
    uint64_t offsets[JOB_RANKS_MAX + 1];
    GAVE(create_with(0, 10, NULL), PGAS_ERR_INVALID);
    GAVE(create_with(65537, 10, NULL), PGAS_ERR_INVALID);
    GAVE(create_with(65536, 10, NULL), PGAS_ERR_LIMIT); /* 512 of them are no chunk */
    opts.chunk_elems = 4;
    BAD(create_with(65536, 10, &opts));
    opts.chunk_elems = (1 << 20) + 1;
    pgas_status_t status = create_with(1, 10, &opts);
    crew_judge(status == PGAS_ERR_INVALID || status == PGAS_ERR_LIMIT,
               "chunks of too many elements");
    opts = plain;
    opts.size = 4;
    GAVE(create_with(8, 10, &opts), PGAS_ERR_INVALID);
    opts = plain;
    opts.low_percent = 60;
    opts.high_percent = 40;
    GAVE(create_with(8, 10, &opts), PGAS_ERR_INVALID);
    opts.high_percent = 101;
    GAVE(create_with(8, 10, &opts), PGAS_ERR_INVALID);
    opts = plain;
    opts.low_percent = -1;
    GAVE(create_with(8, 10, &opts), PGAS_ERR_INVALID);
    opts = plain;
    opts.prefetch = 65;
    GAVE(create_with(8, 10, &opts), PGAS_ERR_INVALID);
    opts = plain;
    opts.offsets = offsets;
    for (int how = 0; how < 3; how++) { /* not from 0, not to the end, not ascending */
        for (int r = 0; r <= n_ranks; r++)
            offsets[r] = (uint64_t)r * 10;
        const int border[] = { 0, n_ranks, 1 };
        offsets[border[how]] += how == 2 ? 10 * (uint64_t)n_ranks + 1 : 1;
        GAVE(create_with(8, (uint64_t)n_ranks * 10, &opts), PGAS_ERR_INVALID);
    }
    /* wrong on one rank: all get the status */
    GAVE(create_with(me == n_ranks - 1 ? 0 : 8, 10, NULL), PGAS_ERR_INVALID);
    spmd_is_int(crew_faults(), 0, "wrong parameters of create");
    said_begin();
    GAVE(create_with(8, UINT64_C(1) << 32, NULL), PGAS_ERR_NO_MEMORY);
    crew_judge(said("PGAS_HEAP_SIZE"), "the log names the size that is too small");
    BAD(create_with(8, 1000, NULL));
    spmd_is_int(crew_faults(), 0, "more than the heap has");
}

/* One rank has something else: the log of some rank names it. */
static void differ(const char *name, size_t bytes, uint64_t n, const pgas_array_opts_t *opts)
{
    pgas_array_opts_t usual = PGAS_ARRAY_OPTS_INIT;
    uint64_t offsets[JOB_RANKS_MAX + 1];
    for (int r = 0; r <= n_ranks; r++)
        offsets[r] = (uint64_t)r * 10;
    usual.chunk_elems = 16;
    usual.offsets = offsets;
    said_begin();
    if (me == n_ranks - 1)
        GAVE(create_with(bytes, n, opts), PGAS_ERR_MISMATCH);
    else
        GAVE(create_with(8, (uint64_t)n_ranks * 10, &usual), PGAS_ERR_MISMATCH);
    crew_judge(said(name), "the log names what differs");
}

static void mismatches(void)
{
    uint64_t same[JOB_RANKS_MAX + 1], n = (uint64_t)n_ranks * 10;
    for (int r = 0; r <= n_ranks; r++)
        same[r] = (uint64_t)r * 10;
    pgas_array_opts_t usual = PGAS_ARRAY_OPTS_INIT;
    usual.chunk_elems = 16;
    usual.offsets = same;
    differ("elem_bytes", 4, n, &usual);
    uint64_t longer[JOB_RANKS_MAX + 1];
    memcpy(longer, same, sizeof longer);
    longer[n_ranks] = n + 1;
    pgas_array_opts_t opts = usual;
    opts.offsets = longer;
    differ("n_elems", 8, n + 1, &opts);
    opts = usual;
    opts.chunk_elems = 32;
    differ("chunk_elems", 8, n, &opts);
    memcpy(longer, same, sizeof longer);
    longer[1]++;
    opts = usual;
    opts.offsets = longer;
    differ("offsets", 8, n, &opts);
    opts.offsets = NULL;
    differ("offsets", 8, n, &opts);
    opts = usual;
    opts.low_percent = 10;
    differ("low_percent", 8, n, &opts);
    opts = usual;
    opts.high_percent = 90;
    differ("high_percent", 8, n, &opts);
    opts = usual; /* these may differ */
    opts.cache_bytes = (size_t)(me + 1) << 12;
    opts.prefetch = me % 2 ? -1 : me + 1;
    BAD(create_with(8, n, &opts));
    spmd_is_int(crew_faults(), 0, "parameters that differ between ranks");
}

/* ---- the end ---- */

static void busy(const char *words)
{
    said_begin();
    GAVE(pgas_array_destroy(array), PGAS_ERR_BUSY);
    crew_judge(said(words), "the log names the rank");
}

static void in_use(void)
{
    pgas_array_pin_t pin;
    uint64_t value = 0, i = N - 2;
    if (me == n_ranks - 1)
        BAD(pgas_array_pin(array, 0, PGAS_ARRAY_READ, 0, &pin));
    busy("pin");
    if (me == n_ranks - 1)
        BAD(pgas_array_unpin(&pin));
    BAD(pgas_barrier(NULL));
    if (me == 0)
        BAD(pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1));
    busy("lock");
    BAD(pgas_array_get_u64(array, 4, &value));
    crew_judge(value == 5, "nothing has happened");
    if (me == 0)
        BAD(pgas_array_unlock(array, i));
    BAD(pgas_barrier(NULL));
    if (me == 0)
        BAD(pgas_array_lock(array, 1, PGAS_ARRAY_READ, -1)); /* at home */
    busy("lock");
    if (me == 0)
        BAD(pgas_array_unlock(array, 1));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "an end with pins or locks held, and without");
}

/* ---- contexts ---- */

static pgas_array_pin_t pin_of_main;

static void *not_attached(void *arg)
{
    uint64_t value = 3;
    pgas_array_pin_t pin;
    (void)arg;
    GAVE(pgas_array_get_u64(array, 0, &value), PGAS_ERR_CONTEXT);
    GAVE(pgas_array_set_u64(array, N - 1, 1), PGAS_ERR_CONTEXT);
    GAVE(pgas_array_apply_u64(array, 0, PGAS_ADD, 1), PGAS_ERR_CONTEXT);
    GAVE(pgas_array_compare_swap(array, 0, &value, &value, &value), PGAS_ERR_CONTEXT);
    GAVE(pgas_array_lock(array, 0, PGAS_ARRAY_READ, -1), PGAS_ERR_CONTEXT);
    GAVE(pgas_array_unlock(array, 0), PGAS_ERR_CONTEXT);
    GAVE(pgas_array_pin(array, 0, PGAS_ARRAY_WRITE, 0, &pin), PGAS_ERR_CONTEXT);
    GAVE(pgas_array_load(array, 0, 1, &value), PGAS_ERR_CONTEXT);
    BAD(pgas_thread_attach());
    GAVE(pgas_array_unpin(&pin_of_main), PGAS_ERR_INVALID); /* another's */
    BAD(pgas_array_get_u64(array, 0, &value));
    BAD(pgas_thread_detach());
    GAVE(pgas_array_get_u64(array, 0, &value), PGAS_ERR_CONTEXT);
    return NULL;
}

static pgas_handler_t inside;

static void on_inside(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t value = 0, own = 0, n = 0;
    pgas_array_t *made = NULL;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    BAD(pgas_array_range(array, -1, &own, &n));
    int far = -1;
    for (int r = 0; r < n_ranks; r++)
        far = pgas_node_of(r) != pgas_node() ? r : far;
    BAD(pgas_array_set_u64(array, own + 1, 3)); /* at home, and no other rank has it */
    BAD(pgas_array_get_u64(array, own + 1, &value));
    crew_judge(value == 3, "an element at home, in a handler");
    if (far >= 0) {
        BAD(pgas_array_range(array, far, &own, &n));
        GAVE(pgas_array_get_u64(array, own + n - 1, &value), PGAS_ERR_CONTEXT);
        GAVE(pgas_array_apply_u64(array, own + n - 1, PGAS_ADD, 1), PGAS_ERR_CONTEXT);
    }
    GAVE(pgas_array_fill(array, &value), PGAS_ERR_CONTEXT);
    GAVE(pgas_array_create(NULL, 8, 10, NULL, &made), PGAS_ERR_CONTEXT);
    GAVE(pgas_array_destroy(array), PGAS_ERR_CONTEXT);
}

static void contexts(void)
{
    pthread_t thread;
    BAD(pgas_array_pin(array, (uint64_t)me, PGAS_ARRAY_READ, 0, &pin_of_main));
    pthread_create(&thread, NULL, not_attached, NULL);
    pthread_join(thread, NULL);
    BAD(pgas_array_unpin(&pin_of_main));
    BAD(pgas_barrier(NULL));
    spmd_is_int(crew_faults(), 0, "threads that are not attached");
    BAD(pgas_array_destroy(array));
    array = crew_array(8, N, CHUNK, 3, NULL); /* that no thread has used */
    BAD(pgas_barrier(NULL));                  /* before handlers read that variable */
    BAD(pgas_call(job_right(), inside, NULL, 0, NULL));
    BAD(pgas_quiesce());
    BAD(pgas_barrier(NULL));
    spmd_is_int(crew_faults(), 0, "handlers");
    uint64_t zero = 0;
    BAD(pgas_array_fill(array, &zero));
}

static void too_many_operators(void)
{
    static const uint64_t zero;
    pgas_op_def_t def = { 8, 8, &zero, add_two, NULL };
    pgas_op_t op;
    pgas_status_t status = PGAS_OK;
    char name[20];
    int n = 0;
    while (status == PGAS_OK && n <= 256) {
        snprintf(name, sizeof name, "op %d", n);
        status = pgas_op_register(name, &def, &op);
        n += status == PGAS_OK;
    }
    crew_judge(status == PGAS_ERR_LIMIT && n > 200, "many operators, but not too many");
    BAD(pgas_op_register("op 7", &def, &op)); /* known */
    spmd_is_int(crew_faults(), 0, "more than 256 operators");
    crew_mute();
    GAVE(pgas_op_register("op 8", &def, &op), PGAS_ERR_LIMIT);
    spmd_is_int(crew_faults(), 1, "a status that is wrong is noticed");
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(17);
    without_the_library("before init");
    pgas_handler_register("t.inside", on_inside, NULL, NULL, &inside);
    job_start(NULL);
    array = crew_array(8, N, CHUNK, 3, NULL);
    out_of_range();
    null_pointers();
    other_sizes();
    contexts();
    operators();
    unknown_at_home();
    wrong_parameters();
    mismatches();
    in_use();
    too_many_operators();
    job_stop();
    without_the_library("after finalize");
    return spmd_end();
}
