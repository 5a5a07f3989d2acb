/* what: Percentiles of recorded times are those of the sorted list, rounded up by at most 1/32.
 * needs: tsan-ok
 * source: seeded model test against a sorted array */
#include "base/checks.h"
#include "base/rng.h"
#include "group/latency.h"
#include "t/tap.h"

#define N 20000u

static uint64_t times[N];

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* @param bits_max times are below 2^bits_max, all lengths equally likely */
static int run(uint32_t n, uint32_t bits_max, pgasi_rng_t *rng)
{
    static const uint32_t asked[] = { 0, 1, 500000, 900000, 990000, 999000, 999999, 1000000 };
    static pgasi_latency_t l;
    int n_wrong = 0;
    memset(&l, 0, sizeof l);
    for (uint32_t i = 0; i < n; i++) {
        times[i] = pgasi_rng_u64(rng) >> (64 - 1 - pgasi_rng_below(rng, bits_max));
        pgasi_latency_record(&l, times[i]);
    }
    qsort(times, n, sizeof times[0], compare);
    for (size_t k = 0; k < PGASI_ARRAY_LENGTH(asked); k++) {
        uint64_t rank = ((uint64_t)n * asked[k] + 999999) / 1000000,
                 want = times[rank > 0 ? rank - 1 : 0],
                 got = pgasi_latency_percentile(&l, asked[k]);
        bool right = got >= want && (got - want <= want / 32 || got == l.max_ns);
        if (!right)
            diag("%u of %u: got %" PRIu64 ", want %" PRIu64, (unsigned)asked[k], (unsigned)n, got,
                 want);
        n_wrong += !right;
    }
    return n_wrong + (l.max_ns != times[n - 1]) + (l.n != n);
}

static int run_buckets(void)
{
    int n_wrong = 0;
    uint32_t before = 0;
    for (uint64_t ns = 0; ns < 100000; ns++) {
        uint32_t bucket = pgasi_latency_bucket(ns);
        n_wrong += bucket != before && bucket != before + 1;
        before = bucket;
    }
    return n_wrong + (pgasi_latency_bucket(UINT64_MAX) != PGASI_LATENCY_BUCKETS - 1) +
           (pgasi_latency_bucket((UINT64_C(1) << 40) - 1) != PGASI_LATENCY_BUCKETS - 1);
}

int main(void)
{
    pgasi_rng_t rng;
    int n_wrong = 0;
    plan(5);
    pgasi_rng_seed(&rng, tap_seed(17));
    static pgasi_latency_t none;
    is_int(pgasi_latency_percentile(&none, 990000), 0, "no times");
    is_int(run_buckets(), 0, "buckets follow each other");
    for (uint32_t n = 1; n < 200; n++)
        n_wrong += run(n, 40, &rng);
    is_int(n_wrong, 0, "1 to 199 times");
    is_int(run(N, 40, &rng), 0, "%u times", N);
    is_int(run(N, 63, &rng), 0, "some of them hours");
    return done();
}
