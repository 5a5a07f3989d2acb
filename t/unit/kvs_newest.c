/* what: Of the records of a key in files, in any order, one is taken: the one with the highest
 *       version, and once. Nothing is taken of keys that were not noted.
 * source: src/kvs/newest.h; seeded model test */
#include "base/rng.h"
#include "kvs/newest.h"
#include "t/tap.h"

#define N_KEYS    5000
#define N_RECORDS 60000

typedef struct {
    uint64_t key, version;
} noted_t;

static noted_t records[N_RECORDS];

/* Each version is given once, and a record may be there twice, as in a log and a snapshot. */
static void make_records(pgasi_rng_t *rng)
{
    for (uint64_t i = 0; i < N_RECORDS; i++)
        records[i] = (noted_t){ pgasi_rng_below(rng, N_KEYS), i + 1 };
    for (uint64_t i = 0; i < N_RECORDS / 10; i++)
        records[pgasi_rng_below(rng, N_RECORDS)] = records[pgasi_rng_below(rng, N_RECORDS)];
    for (uint64_t i = N_RECORDS - 1; i > 0; i--) {
        uint64_t other = pgasi_rng_below(rng, i + 1);
        noted_t record = records[i];
        records[i] = records[other];
        records[other] = record;
    }
}

/* Returns the number of keys whose records are taken in another way than they should be. */
static int run(uint64_t seed, bool break_it)
{
    static uint64_t highest[N_KEYS], n_taken[N_KEYS];
    pgasi_rng_t rng;
    pgasi_newest_t newest = { .seed = seed };
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed);
    memset(highest, 0, sizeof highest);
    memset(n_taken, 0, sizeof n_taken);
    make_records(&rng);
    for (int i = 0; i < N_RECORDS; i++) {
        noted_t *r = &records[i];
        if (highest[r->key] < r->version)
            highest[r->key] = r->version;
        if (!(break_it && r->key == 7))
            n_bad += !pgasi_newest_note(&newest, &r->key, sizeof r->key, r->version);
    }
    for (int i = 0; i < N_RECORDS; i++) {
        noted_t *r = &records[i];
        if (!pgasi_newest_take(&newest, &r->key, sizeof r->key, r->version))
            continue;
        n_taken[r->key]++;
        n_bad += r->version != highest[r->key];
    }
    for (int key = 0; key < N_KEYS; key++)
        n_bad += n_taken[key] != (highest[key] > 0);
    pgasi_newest_fini(&newest);
    return n_bad;
}

static void unknown_keys_are_not_taken(void)
{
    pgasi_newest_t newest = { .seed = 1 };
    ok(!pgasi_newest_take(&newest, "a", 1, 1), "nothing is taken from an empty table");
    ok(pgasi_newest_note(&newest, "a", 1, 5) && !pgasi_newest_take(&newest, "b", 1, 5) &&
           !pgasi_newest_take(&newest, "a", 1, 4) && !pgasi_newest_take(&newest, "a", 1, 6),
       "neither is another key, nor another version");
    ok(!pgasi_newest_take(&newest, "b", 1, 0), "nor version 0");
    ok(pgasi_newest_take(&newest, "a", 1, 5) && !pgasi_newest_take(&newest, "a", 1, 5),
       "the noted one is taken once");
    pgasi_newest_fini(&newest);
}

int main(void)
{
    uint64_t seed = tap_seed(0);
    plan(6);
    is_int(run(seed, false), 0, "one record of each of 5000 keys is taken, the newest");
    ok(run(seed, true) > 0, "the check finds a key that is lost (broken on purpose)");
    unknown_keys_are_not_taken();
    return done();
}
