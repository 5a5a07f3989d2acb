/** 64-bit hashes for tables and for checksums that ranks compare. They do not resist an adversary.
 *  The values depend on the byte order of the machine, so they are compared within a job and never
 *  stored. */
#ifndef PGASI_HASH_H
#define PGASI_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** Mixes a word. This is a bijection in which each input bit changes about half of the output bits
 *  (0 stays 0). */
static inline uint64_t pgasi_hash_u64(uint64_t x)
{
    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ (x >> 32);
}

/** Adds a word to a running checksum. The order of words matters. */
static inline uint64_t pgasi_hash_combine(uint64_t sum, uint64_t x)
{
    return pgasi_hash_u64(sum * UINT64_C(0x9e3779b97f4a7c15) + x + UINT64_C(0x2545f4914f6cdd1d));
}

/** Hashes a run of bytes, eight at a time. Runs may be chained: the seed is then the previous
 *  result. The length counts, so trailing zeros and empty runs change the result. */
static inline uint64_t pgasi_hash_bytes(const void *bytes, size_t n_bytes, uint64_t seed)
{
    const unsigned char *at = (const unsigned char *)bytes;
    uint64_t sum = pgasi_hash_combine(seed, n_bytes);
    uint64_t word;
    for (; n_bytes >= sizeof word; n_bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        sum = pgasi_hash_combine(sum, word);
    }
    if (n_bytes > 0) {
        word = 0;
        memcpy(&word, at, n_bytes);
        sum = pgasi_hash_combine(sum, word);
    }
    return sum;
}

/** Hashes a zero-terminated text. */
static inline uint64_t pgasi_hash_text(const char *text)
{
    return pgasi_hash_bytes(text, strlen(text), 0);
}

#endif
