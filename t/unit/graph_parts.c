/* what: The table of names gives the numbers of an array, and sorting by digits is stable.
 * source: src/graph/names.h, sort.h; seeded model tests */
#include "base/rng.h"
#include "graph/names.h"
#include "graph/sort.h"
#include "t/tap.h"

/* ---- names ---- */

#define N_NAMES 1200

/* adds random names to a table and to an array; counts where they disagree. hash_mask 0 makes all
 * names collide. */
static int run_names(uint64_t seed, uint64_t hash_mask, bool break_it)
{
    static char model[N_NAMES][24];
    uint32_t n_model = 0, number = 0;
    int n_bad = 0;
    pgasi_names_t names;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    pgasi_names_init(&names);
    for (int step = 0; step < 4000; step++) {
        char name[24];
        int bytes = snprintf(name, sizeof name, "n%d", (int)pgasi_rng_below(&rng, N_NAMES));
        uint32_t at = 0;
        while (at < n_model && strcmp(model[at], name) != 0)
            at++;
        if (at == n_model)
            memcpy(model[n_model++], name, sizeof name);
        uint64_t hash = pgasi_names_hash(name, (size_t)bytes) & hash_mask;
        n_bad +=
            pgasi_names_add(&names, name, (size_t)bytes, hash, &number) != PGAS_OK || number != at;
        model[0][1] ^= break_it && step == 3000;
    }
    for (uint32_t i = 0; i < n_model; i++) {
        size_t bytes;
        const char *text = pgasi_names_text(&names, i, &bytes);
        n_bad += bytes != strlen(model[i]) || memcmp(text, model[i], bytes) != 0;
    }
    n_bad += names.n_names != n_model;
    pgasi_names_fini(&names);
    return n_bad;
}

static void names_are_numbered(uint64_t seed)
{
    is_int(run_names(seed, UINT64_MAX, false), 0, "4000 random names");
    is_int(run_names(seed, 0, false), 0, "names that all have the same hash");
    ok(run_names(seed, UINT64_MAX, true) > 0,
       "the check finds one changed letter (broken on purpose)");
}

static void arrays_grow(void)
{
    uint64_t room = 0;
    uint32_t *array = NULL;
    int n_bad = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        array = (uint32_t *)pgasi_grow(array, &room, i + 1, sizeof *array);
        n_bad += !array || room <= i;
        array[i] = i;
    }
    for (uint32_t i = 0; i < 10000; i++)
        n_bad += array[i] != i;
    is_int(n_bad, 0, "an array keeps its elements while it grows");
    uint64_t before = room;
    ok(!pgasi_grow(array, &room, UINT64_MAX / 8, 16) && room == before,
       "what cannot be had is refused");
    free(array);
}

/* ---- sorting ---- */

static int run_sort(uint64_t seed, uint64_t n, uint64_t limit, bool break_it)
{
    pgasi_rng_t rng;
    pgasi_keyed_t *keyed = (pgasi_keyed_t *)malloc((n + 1) * sizeof *keyed),
                  *scratch = (pgasi_keyed_t *)malloc((n + 1) * sizeof *keyed);
    char *seen = (char *)calloc(n + 1, 1);
    uint64_t sum = 0;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed);
    for (uint32_t i = 0; i < n; i++) {
        keyed[i] = (pgasi_keyed_t){ pgasi_rng_below(&rng, limit), i };
        sum += keyed[i].key * (i + 1);
    }
    pgasi_keyed_t *sorted = pgasi_sort_keyed(keyed, scratch, n, limit);
    sorted[n / 2].key += break_it;
    for (uint64_t i = 0; i < n; i++) {
        bool rises = i == 0 || sorted[i - 1].key < sorted[i].key ||
                     (sorted[i - 1].key == sorted[i].key && sorted[i - 1].index < sorted[i].index);
        n_bad += !rises || seen[sorted[i].index]++;
        sum -= sorted[i].key * (sorted[i].index + 1);
    }
    free(keyed);
    free(scratch);
    free(seen);
    return n_bad + (sum != 0);
}

static void keys_are_sorted(uint64_t seed)
{
    static const uint64_t limits[] = { 1, 2, 100, 2048, 2049, 68000, UINT64_C(1) << 40, INT64_MAX };
    int n_bad = 0;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        n_bad +=
            run_sort(seed + i, 5000, limits[i], false) + run_sort(seed + i, i, limits[i], false);
    }
    is_int(n_bad, 0, "0 to 5000 keys, below 1 to 2^63-1");
    ok(run_sort(seed, 5000, 2048, true) > 0, "the check finds one changed key (broken on purpose)");
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void values_are_sorted(uint64_t seed)
{
    static const uint64_t limits[] = { 1, 2, 100, 2048, 2049, 1 << 22, (1 << 22) + 1, UINT32_MAX };
    static uint32_t values[3000], want[3000], scratch[3000];
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed);
    for (size_t k = 0; k < 40 * sizeof limits / sizeof limits[0]; k++) {
        uint64_t limit = limits[k / 40], n = k % 2 ? pgasi_rng_below(&rng, 3001) : k % 40 + 30;
        for (uint64_t i = 0; i < n; i++)
            want[i] = values[i] = (uint32_t)pgasi_rng_below(&rng, limit);
        qsort(want, n, sizeof *want, by_value);
        pgasi_sort_u32(values, scratch, n, limit);
        n_bad += memcmp(values, want, n * sizeof *want) != 0;
    }
    is_int(n_bad, 0, "values of 32 bits are sorted as by qsort");
}

int main(void)
{
    plan(8);
    uint64_t seed = tap_seed(20240108);
    names_are_numbered(seed);
    arrays_grow();
    keys_are_sorted(seed);
    values_are_sorted(seed);
    return done();
}
