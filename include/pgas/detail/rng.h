/** Generators of random numbers, shared by pgas/mcts.h and the library. Source: splitmix64 and
 *  xoroshiro128++ of Blackman and Vigna. */
#ifndef PGAS_DETAIL_RNG_H
#define PGAS_DETAIL_RNG_H

#include <stdint.h>
#include "pgas/detail/compiler.h"

PGAS_BEGIN_DECLS

/* One step of splitmix64: advances *state and returns a well mixed number. */
PGAS_INLINE uint64_t pgas_splitmix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* One step of xoroshiro128++, whose state must not be all zero. */
PGAS_INLINE uint64_t pgas_xoroshiro(uint64_t word[2])
{
    uint64_t a = word[0], b = word[1], sum = a + b;
    uint64_t result = (sum << 17 | sum >> 47) + a;
    b ^= a;
    word[0] = (a << 49 | a >> 15) ^ b ^ b << 21;
    word[1] = b << 28 | b >> 36;
    return result;
}

PGAS_END_DECLS
#endif
