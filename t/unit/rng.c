/* what: The generator gives the published sequence. Bounded numbers are in range and evenly
 *       distributed. Seeds are independent.
 * source: Blackman and Vigna, xoshiro256** (first outputs of state 1,2,3,4) and splitmix64 (first
 * output of seed 0) */
#include "base/rng.h"
#include "t/tap.h"

static void sequence_is_the_published_one(void)
{
    static const uint64_t want[] = { 11520, 0, 1509978240, UINT64_C(1215971899390074240) };
    pgasi_rng_t rng = { { 1, 2, 3, 4 } };
    int n_good = 0;
    for (int i = 0; i < 4; i++)
        n_good += pgasi_rng_u64(&rng) == want[i];
    is_int(n_good, 4, "xoshiro256** from state 1, 2, 3, 4");
    uint64_t state = 0;
    ok(pgas_splitmix(&state) == UINT64_C(0xe220a8397b1dcdaf), "splitmix64 from seed 0");
}

static void same_seed_same_sequence(void)
{
    pgasi_rng_t a, b, c;
    int n_same = 0, n_equal_other = 0;
    pgasi_rng_seed(&a, 0);
    pgasi_rng_seed(&b, 0);
    pgasi_rng_seed(&c, 1);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = pgasi_rng_u64(&a);
        n_same += x == pgasi_rng_u64(&b);
        n_equal_other += x == pgasi_rng_u64(&c);
    }
    is_int(n_same, 1000, "one seed, one sequence");
    is_int(n_equal_other, 0, "another seed, another sequence");
}

/* chi-square over n bins; its mean is n - 1, its standard deviation sqrt(2 (n - 1)) */
static double unevenness(uint64_t seed, int n_bins, int n_draws, bool biased)
{
    int count[64] = { 0 };
    double sum = 0, expected = (double)n_draws / n_bins;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < n_draws; i++) {
        uint64_t x = biased ? (pgasi_rng_u64(&rng) % 64) % (uint64_t)n_bins
                            : pgasi_rng_below(&rng, (uint64_t)n_bins);
        count[x]++;
    }
    for (int i = 0; i < n_bins; i++)
        sum += (count[i] - expected) * (count[i] - expected) / expected;
    return sum;
}

static void bounded_numbers_are_even(void)
{
    ok(unevenness(1, 10, 100000, false) < 9 + 6 * 4.25, "ten bins are even");
    ok(unevenness(2, 37, 100000, false) < 36 + 6 * 8.5, "37 bins are even");
    ok(unevenness(1, 37, 100000, true) > 36 + 6 * 8.5,
       "the check finds a biased generator (broken on purpose)");
}

static void bounded_numbers_are_in_range(void)
{
    const uint64_t bounds[] = { 1,         2, 3, 1000, UINT64_C(1) << 32, (UINT64_C(1) << 63) + 1,
                                UINT64_MAX };
    pgasi_rng_t rng;
    int n_out = 0, n_upper = 0;
    pgasi_rng_seed(&rng, 3);
    for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++)
        for (int i = 0; i < 1000; i++)
            n_out += pgasi_rng_below(&rng, bounds[b]) >= bounds[b];
    is_int(n_out, 0, "all below the bound");
    is_int(pgasi_rng_below(&rng, 0), 0, "bound 0 gives 0");
    for (int i = 0; i < 10000; i++) /* just over 2^63: almost half of the draws are rejected */
        n_upper += pgasi_rng_below(&rng, bounds[5]) >= bounds[5] / 2;
    ok(n_upper > 4700 && n_upper < 5300,
       "halves of a bound that rejects often are equally likely (%d of 10000)", n_upper);
}

static void doubles_are_in_the_unit_interval(void)
{
    double sum = 0;
    int n_out = 0;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, 4);
    for (int i = 0; i < 10000; i++) {
        double x = pgasi_rng_double(&rng);
        n_out += x < 0 || x >= 1;
        sum += x;
    }
    is_int(n_out, 0, "all in [0, 1)");
    ok(sum > 4800 && sum < 5200, "mean about a half");
}

int main(void)
{
    plan(12);
    sequence_is_the_published_one();
    same_seed_same_sequence();
    bounded_numbers_are_even();
    bounded_numbers_are_in_range();
    doubles_are_in_the_unit_interval();
    return done();
}
