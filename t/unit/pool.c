/* what: A pool gives distinct, aligned objects up to its limit, takes them back, and accounts for
 *       its memory.
 * source: src/base/pool.h; seeded model test */
#include "base/pool.h"
#include "base/rng.h"
#include "t/tap.h"

#define N_SLOTS 500

static void objects_are_aligned_and_apart(void)
{
    static const size_t sizes[] = { 1, 8, 24, 64, 100, 5000 }, alignments[] = { 0, 16, 64, 4096 };
    int n_bad = 0;
    for (size_t s = 0; s < PGASI_ARRAY_LENGTH(sizes); s++) {
        for (size_t a = 0; a < PGASI_ARRAY_LENGTH(alignments); a++) {
            pgasi_pool_t pool;
            size_t alignment = alignments[a] != 0 ? alignments[a] : _Alignof(max_align_t);
            unsigned char *object[10];
            n_bad += pgasi_pool_init(&pool, sizes[s], alignments[a], 4, 0) != PGAS_OK;
            for (int i = 0; i < 10; i++) {
                object[i] = pgasi_pool_acquire(&pool);
                n_bad += (uintptr_t)object[i] % alignment != 0;
                memset(object[i], i, sizes[s]);
            }
            for (int i = 0; i < 10; i++)
                n_bad += object[i][0] != i || object[i][sizes[s] - 1] != i;
            pgasi_pool_fini(&pool);
        }
    }
    is_int(n_bad, 0, "sizes 1 to 5000, alignments 16 to 4096");
}

/* random acquire and release, each object filled with its number; counts wrong objects */
static int run(uint64_t seed, bool overwrite_one)
{
    pgasi_pool_t pool;
    pgasi_rng_t rng;
    uint32_t *slot[N_SLOTS] = { NULL };
    size_t n_used = 0;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed);
    pgasi_pool_init(&pool, 3 * sizeof(uint32_t), 0, 37, 300);
    for (int step = 0; step < 20000; step++) {
        uint32_t i = (uint32_t)pgasi_rng_below(&rng, N_SLOTS);
        if (slot[i]) {
            n_bad += slot[i][0] != i || slot[i][1] != i || slot[i][2] != i;
            pgasi_pool_release(&pool, slot[i]);
            slot[i] = NULL;
            n_used--;
        } else {
            slot[i] = pgasi_pool_acquire(&pool);
            n_bad += (!slot[i]) != (n_used == 300);
            if (slot[i]) {
                slot[i][0] = slot[i][1] = slot[i][2] = i + (overwrite_one && step == 19900);
                n_used++;
            }
        }
        n_bad += pool.n_used != n_used;
    }
    for (uint32_t i = 0; i < N_SLOTS; i++)
        n_bad += slot[i] && slot[i][0] != i;
    pgasi_pool_fini(&pool);
    return n_bad;
}

static void random_use_keeps_objects_apart(uint64_t seed)
{
    is_int(run(seed, false), 0, "20000 random steps at a limit of 300 objects");
}

static void check_finds_an_overwritten_object(void)
{
    uint64_t seed = 1;
    /* the step must happen to be an acquire that succeeds */
    while (seed < 100 && run(seed, true) == 0)
        seed++;
    ok(seed < 100, "the check finds an overwritten object (broken on purpose, seed %d)", (int)seed);
}

static void limit_holds_and_recovers(void)
{
    pgasi_pool_t pool;
    void *object[5];
    pgasi_pool_init(&pool, 100, 0, 2, 5);
    for (int i = 0; i < 5; i++)
        object[i] = pgasi_pool_acquire(&pool);
    ok(object[4] != NULL, "five of five are given");
    ok(!pgasi_pool_acquire(&pool), "the sixth is not");
    pgasi_pool_release(&pool, object[2]);
    ok(pgasi_pool_acquire(&pool) == object[2], "a released object is given again");
    pgasi_pool_fini(&pool);
}

static void memory_is_accounted(void)
{
    pgasi_pool_t pool;
    pgasi_pool_info_t info;
    pgasi_pool_init(&pool, 100, 0, 10, 25);
    pgasi_pool_query(&pool, &info);
    is_int(info.bytes, 0, "nothing is allocated before the first object");
    size_t worst = info.bytes_worst;
    ok(worst >= 25 * 100 && worst < 25 * 112 + 3 * 64,
       "worst case is the limit and three chunk heads (%zu)", worst);
    for (int i = 0; i < 25; i++)
        pgasi_pool_acquire(&pool);
    pgasi_pool_query(&pool, &info);
    is_int(info.bytes, worst, "and is reached at the limit");
    is_int(info.n_chunks, 3, "in three chunks");
    ok(info.n_used == 25 && info.n_peak == 25 && info.n_total == 25, "25 used, peak 25, total 25");
    pgasi_pool_fini(&pool);
}

static void senseless_sizes_are_refused(void)
{
    pgasi_pool_t pool;
    is_int(pgasi_pool_init(&pool, 0, 0, 1, 0), PGAS_ERR_INVALID, "no bytes");
    is_int(pgasi_pool_init(&pool, 8, 0, 0, 0), PGAS_ERR_INVALID, "no objects in a chunk");
    is_int(pgasi_pool_init(&pool, 8, 48, 1, 0), PGAS_ERR_INVALID, "alignment 48");
    is_int(pgasi_pool_init(&pool, SIZE_MAX / 2, 0, 8, 0), PGAS_ERR_INVALID,
           "more than there can be");
}

int main(void)
{
    plan(15);
    objects_are_aligned_and_apart();
    random_use_keeps_objects_apart(tap_seed(20240102));
    check_finds_an_overwritten_object();
    limit_holds_and_recovers();
    memory_is_accounted();
    senseless_sizes_are_refused();
    return done();
}
