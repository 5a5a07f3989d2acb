/** Distribution of times: a log-linear histogram of fixed size. Its error is at most 1/32. */
#ifndef PGASI_GROUP_LATENCY_H
#define PGASI_GROUP_LATENCY_H

#include <stdint.h>

#define PGASI_LATENCY_BITS    5u  /* each power of two has 2^5 buckets */
#define PGASI_LATENCY_TOP     40u /* times from 2^40 ns (18 minutes) on share the last bucket */
#define PGASI_LATENCY_BUCKETS ((PGASI_LATENCY_TOP - PGASI_LATENCY_BITS + 1) << PGASI_LATENCY_BITS)

/** Zeroed memory is an empty histogram. One thread at a time uses it. */
typedef struct {
    uint64_t n;
    uint64_t max_ns;
    uint64_t buckets[PGASI_LATENCY_BUCKETS];
} pgasi_latency_t;

static inline uint32_t pgasi_latency_bucket(uint64_t ns)
{
    if (ns >> PGASI_LATENCY_BITS == 0)
        return (uint32_t)ns;
    uint32_t top = 63u - (uint32_t)__builtin_clzll(ns);
    if (top >= PGASI_LATENCY_TOP)
        return PGASI_LATENCY_BUCKETS - 1;
    uint32_t shift = top - PGASI_LATENCY_BITS;
    return (shift << PGASI_LATENCY_BITS) + (uint32_t)(ns >> shift);
}

/** Cost: some instructions and one cache line. */
static inline void pgasi_latency_record(pgasi_latency_t *l, uint64_t ns)
{
    l->n++;
    l->max_ns = ns > l->max_ns ? ns : l->max_ns;
    l->buckets[pgasi_latency_bucket(ns)]++;
}

/** A percentile: the least time that at least `millionths` of the recorded times do not exceed. It
 *  is rounded up to its bucket's end. 990000 is the 99th percentile. 0: no time was recorded. */
uint64_t pgasi_latency_percentile(const pgasi_latency_t *l, uint32_t millionths);

#endif
