/* Bytes that a seed gives, for data whose arrival a test checks. Bytes that are neighbours, or a
 * page or 64 KiB apart, differ. */
#ifndef T_PATTERN_H
#define T_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline unsigned char pattern_byte(uint64_t seed, size_t i)
{
    return (unsigned char)(seed * 31 + i * 7 + (i >> 8) + (i >> 16) * 13);
}

static inline void pattern_fill(void *to, uint64_t seed, size_t bytes)
{
    unsigned char *at = to;
    for (size_t i = 0; i < bytes; i++)
        at[i] = pattern_byte(seed, i);
}

static inline bool pattern_matches(const void *data, uint64_t seed, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern_byte(seed, i))
            return false;
    return true;
}

#endif
