/* what: The extent allocator gives exactly the offsets that a search through a plain byte array
 *       gives, and refuses the same requests. It keeps its invariants after every step, and stays
 *       fast with 100,000 blocks.
 * source: public headers; src/base/extents.h; seeded model test */
#include "base/extents.h"
#include "base/checks.h"
#include "base/rng.h"
#include "t/tap.h"

#define SIZE_MODEL 1500

/* owner[i] is 0 for a free byte, else the number of the block, which starts at start[number] */
typedef struct {
    int owner[SIZE_MODEL];
    int n_made;
    bool first_fit; /* the deliberate mistake: takes the lowest fit, not the best */
} model_t;

static int free_run(const model_t *m, int from)
{
    int length = 0;
    while (from + length < SIZE_MODEL && m->owner[from + length] == 0)
        length++;
    return length;
}

static void mark(model_t *m, int from, int bytes, int owner)
{
    for (int i = 0; i < bytes; i++)
        m->owner[from + i] = owner;
}

static int model_low(model_t *m, int bytes, int alignment)
{
    int best = -1, best_run = SIZE_MODEL + 1, run;
    for (int at = 0; at<SIZE_MODEL; at += run> 0 ? run : 1) {
        run = free_run(m, at);
        int place = (at + alignment - 1) / alignment * alignment;
        if (run > 0 && place + bytes <= at + run && (m->first_fit ? best < 0 : run < best_run)) {
            best = place;
            best_run = run;
        }
    }
    return best;
}

static int model_high(const model_t *m, int bytes, int alignment)
{
    for (int at = SIZE_MODEL - bytes; at >= 0; at--)
        if (at % alignment == 0 && free_run(m, at) >= bytes)
            return at;
    return -1;
}

static bool model_starts(const model_t *m, int at)
{
    return m->owner[at] != 0 && (at == 0 || m->owner[at - 1] != m->owner[at]);
}

static int model_block_bytes(const model_t *m, int at)
{
    int bytes = 0;
    while (at + bytes < SIZE_MODEL && m->owner[at + bytes] == m->owner[at])
        bytes++;
    return bytes;
}

/* every question that can be asked about the whole */
static bool totals_agree(const model_t *m, const pgasi_extents_t *x)
{
    int n_free = 0, largest = 0, highest = 0, lowest = SIZE_MODEL, n_blocks = 0;
    for (int i = 0; i < SIZE_MODEL; i++) {
        if (m->owner[i] == 0) {
            n_free++;
            if (i == 0 || m->owner[i - 1] != 0)
                largest = PGASI_MAX(largest, free_run(m, i));
        } else {
            highest = i + 1;
            lowest = PGASI_MIN(lowest, i);
            n_blocks += model_starts(m, i);
        }
    }
    return pgasi_extents_bytes_free(x) == (uint64_t)n_free &&
           pgasi_extents_largest_free(x) == (uint64_t)largest &&
           pgasi_extents_highest_used(x) == (uint64_t)highest &&
           pgasi_extents_lowest_used(x) == (uint64_t)lowest &&
           pgasi_extents_n_blocks(x) == (uint64_t)n_blocks && pgasi_extents_verify(x) == PGAS_OK;
}

static bool step_alloc(model_t *m, pgasi_extents_t *x, pgasi_rng_t *rng, bool high)
{
    int bytes = 1 + (int)pgasi_rng_below(rng, pgasi_rng_below(rng, 4) == 0 ? 200 : 20);
    int alignment = 1 << pgasi_rng_below(rng, pgasi_rng_below(rng, 4) == 0 ? 9 : 4);
    uint64_t offset = 0;
    int want = high ? model_high(m, bytes, alignment) : model_low(m, bytes, alignment);
    pgas_status_t status =
        (high ? pgasi_extents_alloc_high : pgasi_extents_alloc_low)(x, (uint64_t)bytes,
                                                                    (uint64_t)alignment, &offset);
    if (want < 0)
        return status == PGAS_ERR_NO_MEMORY;
    mark(m, want, bytes, ++m->n_made);
    return status == PGAS_OK && offset == (uint64_t)want;
}

static bool step_alloc_from(model_t *m, pgasi_extents_t *x, pgasi_rng_t *rng)
{
    int bytes = 1 + (int)pgasi_rng_below(rng, pgasi_rng_below(rng, 4) == 0 ? 200 : 20);
    int alignment = 1 << pgasi_rng_below(rng, 6), want = -1;
    int from = pgasi_rng_below(rng, 3) ? (int)pgasi_rng_below(rng, SIZE_MODEL + 20) : 0;
    uint64_t offset = 0;
    for (int at = from; at < SIZE_MODEL && want < 0; at++)
        if (at % alignment == 0 && free_run(m, at) >= bytes)
            want = at;
    pgas_status_t status =
        pgasi_extents_alloc_from(x, (uint64_t)from, (uint64_t)bytes, (uint64_t)alignment, &offset);
    if (want < 0)
        return status == PGAS_ERR_NO_MEMORY;
    mark(m, want, bytes, ++m->n_made);
    return status == PGAS_OK && offset == (uint64_t)want;
}

static bool step_alloc_at(model_t *m, pgasi_extents_t *x, pgasi_rng_t *rng)
{
    int bytes = (int)pgasi_rng_below(rng, 40), at = (int)pgasi_rng_below(rng, SIZE_MODEL + 20);
    pgas_status_t status = pgasi_extents_alloc_at(x, (uint64_t)at, (uint64_t)bytes);
    if (bytes == 0)
        return status == PGAS_ERR_INVALID;
    if (at + bytes > SIZE_MODEL)
        return status == PGAS_ERR_RANGE;
    if (free_run(m, at) < bytes)
        return status == PGAS_ERR_EXISTS;
    mark(m, at, bytes, ++m->n_made);
    return status == PGAS_OK;
}

/* at any offset: mostly no start of a block, so refusals are tested as well */
static bool step_free(model_t *m, pgasi_extents_t *x, pgasi_rng_t *rng, bool hit)
{
    int at = (int)pgasi_rng_below(rng, SIZE_MODEL + 20);
    while (hit && at > 0 && (at >= SIZE_MODEL || !model_starts(m, at)))
        at--;
    uint64_t start = 0, bytes = 0, size_of = 0;
    pgasi_extent_state_t state = pgasi_extents_state(x, (uint64_t)at, &start, &bytes);
    pgas_status_t asked = pgasi_extents_size_of(x, (uint64_t)at, &size_of);
    pgas_status_t status = pgasi_extents_free(x, (uint64_t)at);
    if (at >= SIZE_MODEL)
        return state == PGASI_EXTENT_OUTSIDE && asked == PGAS_ERR_RANGE && status == PGAS_ERR_RANGE;
    if (m->owner[at] == 0) {
        return state == PGASI_EXTENT_FREE && asked == PGAS_ERR_INVALID &&
               status == PGAS_ERR_INVALID;
    }
    if (!model_starts(m, at)) {
        return state == PGASI_EXTENT_INSIDE && asked == PGAS_ERR_INVALID &&
               status == PGAS_ERR_INVALID && start < (uint64_t)at && model_starts(m, (int)start);
    }
    int want = model_block_bytes(m, at);
    mark(m, at, want, 0);
    return state == PGASI_EXTENT_BLOCK && asked == PGAS_OK && status == PGAS_OK &&
           size_of == (uint64_t)want && start == (uint64_t)at && bytes == (uint64_t)want;
}

static bool step(model_t *m, pgasi_extents_t *x, pgasi_rng_t *rng, bool growing)
{
    uint64_t dice = pgasi_rng_below(rng, 100);
    if (dice < (growing ? 30u : 15u))
        return step_alloc(m, x, rng, false);
    if (dice < (growing ? 45u : 22u))
        return step_alloc(m, x, rng, true);
    if (dice < (growing ? 55u : 30u))
        return step_alloc_from(m, x, rng);
    if (dice < (growing ? 65u : 35u))
        return step_alloc_at(m, x, rng);
    return step_free(m, x, rng, dice < 90);
}

/* the first step at which allocator and model differ, or -1 */
static int run(uint64_t seed, int n_steps, bool first_fit)
{
    pgasi_extents_t *x = NULL;
    pgasi_rng_t rng;
    model_t model = { .first_fit = first_fit };
    int differs = -1;
    pgasi_rng_seed(&rng, seed);
    if (pgasi_extents_create(SIZE_MODEL, &x) != PGAS_OK)
        return 0;
    for (int i = 0; i < n_steps && differs < 0; i++)
        if (!step(&model, x, &rng, i / 500 % 2 == 0) || !totals_agree(&model, x))
            differs = i;
    pgasi_extents_destroy(x);
    return differs;
}

static void equals_a_plain_array(uint64_t seed)
{
    is_int(run(seed, 20000, false), -1, "20000 random steps agree with the byte array");
    ok(run(seed, 20000, true) >= 0,
       "the check finds an oracle that takes the first fit (broken on purpose)");
}

static void equal_calls_give_equal_offsets(uint64_t seed)
{
    pgasi_extents_t *x[2];
    pgasi_rng_t rng;
    int n_differ = 0;
    pgasi_rng_seed(&rng, seed);
    pgasi_extents_create(UINT64_C(8) << 40, &x[0]);
    pgasi_extents_create(UINT64_C(8) << 40, &x[1]);
    for (int i = 0; i < 2000; i++) {
        uint64_t bytes = 1 + pgasi_rng_below(&rng, UINT64_C(1) << 32), offset[2] = { 0, 0 };
        uint64_t alignment = UINT64_C(1) << pgasi_rng_below(&rng, 31),
                 dice = pgasi_rng_below(&rng, 3);
        for (int k = 0; k < 2; k++) {
            (dice == 0 ? pgasi_extents_alloc_high : pgasi_extents_alloc_low)(x[k], bytes, alignment,
                                                                             &offset[k]);
        }
        n_differ += offset[0] != offset[1] || offset[0] % alignment != 0;
        for (int k = 0; k < 2 && dice == 2; k++)
            n_differ += pgasi_extents_free(x[k], offset[k]) != PGAS_OK;
    }
    is_int(n_differ, 0, "2000 large aligned requests in 8 TiB");
    pgasi_extents_destroy(x[0]);
    pgasi_extents_destroy(x[1]);
}

static void many_blocks_are_no_trouble(void)
{
    enum { N = 100000 };
    pgasi_extents_t *x;
    uint64_t offset;
    int n_bad = 0;
    pgasi_extents_create((uint64_t)N * 64, &x);
    for (int i = 0; i < N; i++) {
        n_bad +=
            pgasi_extents_alloc_low(x, 64, 64, &offset) != PGAS_OK || offset != (uint64_t)i * 64;
    }
    is_int(pgasi_extents_alloc_low(x, 1, 1, &offset), PGAS_ERR_NO_MEMORY, "full is full");
    for (int i = 0; i < N; i += 2)
        n_bad += pgasi_extents_free(x, (uint64_t)i * 64) != PGAS_OK;
    is_int(pgasi_extents_alloc_low(x, 65, 1, &offset), PGAS_ERR_NO_MEMORY,
           "65 bytes do not fit in holes of 64");
    n_bad +=
        pgasi_extents_alloc_high(x, 64, 1, &offset) != PGAS_OK || offset != (uint64_t)(N - 2) * 64;
    n_bad += pgasi_extents_verify(x) != PGAS_OK;
    diag("records of 100000 extents: %zu bytes", pgasi_extents_record_bytes(x));
    for (int i = 1; i < N; i += 2)
        n_bad += pgasi_extents_free(x, (uint64_t)i * 64) != PGAS_OK;
    n_bad += pgasi_extents_free(x, offset) != PGAS_OK;
    is_int(n_bad, 0, "100000 blocks, every second freed, then the rest");
    ok(pgasi_extents_largest_free(x) == (uint64_t)N * 64, "and all is one free extent again");
    pgasi_extents_destroy(x);
}

static void refusals_change_nothing(void)
{
    pgasi_extents_t *x = NULL;
    uint64_t offset = 12345, bytes = 777;
    is_int(pgasi_extents_create(0, &x), PGAS_ERR_INVALID, "no size");
    ok(!x, "and no object");
    pgasi_extents_create(1000, &x);
    is_int(pgasi_extents_alloc_low(x, 0, 1, &offset), PGAS_ERR_INVALID, "no bytes");
    is_int(pgasi_extents_alloc_from(x, 0, 0, 1, &offset), PGAS_ERR_INVALID, "no bytes from 0 on");
    is_int(pgasi_extents_alloc_from(x, 0, 8, 3, &offset), PGAS_ERR_INVALID, "alignment 3 from 0");
    is_int(pgasi_extents_alloc_low(x, 8, 3, &offset), PGAS_ERR_INVALID, "alignment 3");
    is_int(pgasi_extents_alloc_high(x, 8, 0, &offset), PGAS_ERR_INVALID, "alignment 0");
    is_int(pgasi_extents_alloc_low(x, 1001, 1, &offset), PGAS_ERR_NO_MEMORY, "more than there is");
    is_int(pgasi_extents_alloc_high(x, UINT64_MAX, UINT64_C(1) << 63, &offset), PGAS_ERR_NO_MEMORY,
           "far more");
    is_int(pgasi_extents_alloc_at(x, UINT64_MAX, 2), PGAS_ERR_RANGE, "an end that wraps around");
    is_int(pgasi_extents_size_of(x, 0, &bytes), PGAS_ERR_INVALID, "size of what is free");
    ok(offset == 12345 && bytes == 777 && pgasi_extents_bytes_free(x) == 1000, "nothing changed");
    pgasi_extents_alloc_at(x, 100, 50);
    is_int(pgasi_extents_free(x, 100), PGAS_OK, "the block is freed");
    is_int(pgasi_extents_free(x, 100), PGAS_ERR_INVALID, "but not twice");
    pgasi_extents_destroy(x);
    pgasi_extents_destroy(NULL);
}

int main(void)
{
    plan(21);
    uint64_t seed = tap_seed(20240103);
    equals_a_plain_array(seed);
    equal_calls_give_equal_offsets(seed);
    many_blocks_are_no_trouble();
    refusals_change_nothing();
    return done();
}
