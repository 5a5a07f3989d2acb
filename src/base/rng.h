/** Pseudo-random numbers for tests, fault injection and generators: seeded, the same on every
 *  machine and rank. They are not for secrets. One generator belongs to one thread. Source:
 *  xoshiro256** of Blackman and Vigna (2018), seeded by splitmix64; bounded numbers after Lemire
 *  (2019). */
#ifndef PGASI_RNG_H
#define PGASI_RNG_H

#include <stdint.h>
#include "pgas/detail/rng.h"

__extension__ typedef unsigned __int128 pgasi_u128_t;

typedef struct {
    uint64_t word[4];
} pgasi_rng_t;

/** Starts a generator. Any seed is valid, also zero. Different seeds give unrelated sequences. */
static inline void pgasi_rng_seed(pgasi_rng_t *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->word[i] = pgas_splitmix(&seed);
}

static inline uint64_t pgasi_rng_rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

/** Returns 64 random bits. */
static inline uint64_t pgasi_rng_u64(pgasi_rng_t *rng)
{
    uint64_t *w = rng->word;
    uint64_t result = pgasi_rng_rotate(w[1] * 5, 7) * 9;
    uint64_t shifted = w[1] << 17;
    w[2] ^= w[0];
    w[3] ^= w[1];
    w[1] ^= w[2];
    w[0] ^= w[3];
    w[2] ^= shifted;
    w[3] = pgasi_rng_rotate(w[3], 45);
    return result;
}

/** Returns a number in [0, n), all equally likely. n = 0 gives 0. */
static inline uint64_t pgasi_rng_below(pgasi_rng_t *rng, uint64_t n)
{
    pgasi_u128_t product = (pgasi_u128_t)pgasi_rng_u64(rng) * n;
    if ((uint64_t)product < n) {
        uint64_t reject_below = (0 - n) % n;
        while ((uint64_t)product < reject_below)
            product = (pgasi_u128_t)pgasi_rng_u64(rng) * n;
    }
    return (uint64_t)(product >> 64);
}

/** Returns a double in [0, 1) with 53 random bits. */
static inline double pgasi_rng_double(pgasi_rng_t *rng)
{
    return (double)(pgasi_rng_u64(rng) >> 11) * 0x1.0p-53;
}

#endif
