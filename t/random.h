/* One generator for a test that draws from a single thread. The test seeds it:
 * pgasi_rng_seed(&rng, tap_seed(1)). */
#ifndef T_RANDOM_H
#define T_RANDOM_H

#include "base/rng.h"

static pgasi_rng_t rng;

/* A random number below n. */
static inline uint64_t below(uint64_t n)
{
    return pgasi_rng_below(&rng, n);
}

static inline int below_int(int n)
{
    return (int)below((uint64_t)n);
}

#endif
