/* Percentiles of a log-linear histogram (as in HdrHistogram, by Gil Tene). Reading is rare, so it
 * walks all buckets. */
#include "group/latency.h"

#include "base/checks.h"

#define MILLION 1000000u

/* The largest time of a bucket. */
static uint64_t bucket_end(uint32_t bucket)
{
    uint32_t shift = bucket >> PGASI_LATENCY_BITS;
    if (shift == 0)
        return bucket;
    shift--; /* the first two powers of two have the same width */
    uint64_t first = bucket - (shift << PGASI_LATENCY_BITS);
    return ((first + 1) << shift) - 1;
}

uint64_t pgasi_latency_percentile(const pgasi_latency_t *l, uint32_t millionths)
{
    uint64_t want =
                 l->n / MILLION * millionths + PGASI_DIV_UP(l->n % MILLION * millionths, MILLION),
             seen = 0;
    if (l->n == 0)
        return 0;
    want = PGASI_MIN(PGASI_MAX(want, 1u), l->n);
    for (uint32_t i = 0; i + 1 < PGASI_LATENCY_BUCKETS; i++) {
        seen += l->buckets[i];
        if (seen >= want)
            return PGASI_MIN(bucket_end(i), l->max_ns);
    }
    return l->max_ns;
}
