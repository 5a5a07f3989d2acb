/** Bitmaps over plain uint64_t words that the caller owns. No bounds checks, no atomics; bits of
 *  the last word beyond n_bits may have any value. "Not found" is n_bits, so `for (i = find(.., 0);
 *  i < n; i = find(.., i + 1))` walks. */
#ifndef PGASI_BITMAP_H
#define PGASI_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Number of words that hold n_bits. */
static inline size_t pgasi_bitmap_words(size_t n_bits)
{
    return n_bits / 64 + (n_bits % 64 != 0);
}

static inline void pgasi_bitmap_set(uint64_t *words, size_t bit)
{
    words[bit / 64] |= UINT64_C(1) << (bit % 64);
}

static inline void pgasi_bitmap_clear(uint64_t *words, size_t bit)
{
    words[bit / 64] &= ~(UINT64_C(1) << (bit % 64));
}

static inline bool pgasi_bitmap_test(const uint64_t *words, size_t bit)
{
    return (words[bit / 64] >> (bit % 64)) & 1;
}

/* Finds the first bit >= from that differs from the bits of `flip` (0: first set, ~0: first
 * clear). */
static inline size_t pgasi_bitmap_find(const uint64_t *words, size_t n_bits, size_t from,
                                       uint64_t flip)
{
    if (from >= n_bits)
        return n_bits;
    uint64_t word = (words[from / 64] ^ flip) & (~UINT64_C(0) << (from % 64));
    size_t base = from - from % 64;
    while (word == 0) {
        base += 64;
        if (base >= n_bits)
            return n_bits;
        word = words[base / 64] ^ flip;
    }
    size_t bit = base + (size_t)__builtin_ctzll(word);
    return bit < n_bits ? bit : n_bits;
}

/** Find the first set bit at or after from. @return its number, or n_bits. */
static inline size_t pgasi_bitmap_find_set(const uint64_t *words, size_t n_bits, size_t from)
{
    return pgasi_bitmap_find(words, n_bits, from, 0);
}

/** Find the first clear bit at or after from. @return its number, or n_bits. */
static inline size_t pgasi_bitmap_find_clear(const uint64_t *words, size_t n_bits, size_t from)
{
    return pgasi_bitmap_find(words, n_bits, from, ~UINT64_C(0));
}

/** Counts the set bits of a word. The builtin would be a call into libgcc's code at the end of the
 *  library, of which 64 KiB would be mapped at the start of every rank. */
static inline size_t pgasi_count_ones(uint64_t word)
{
    word -= (word >> 1) & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + ((word >> 2) & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (size_t)((word * UINT64_C(0x0101010101010101)) >> 56);
}

/** Count the set bits among the first n_bits. */
static inline size_t pgasi_bitmap_count(const uint64_t *words, size_t n_bits)
{
    size_t count = 0;
    for (size_t i = 0; i < n_bits / 64; i++)
        count += pgasi_count_ones(words[i]);
    if (n_bits % 64 != 0)
        count += pgasi_count_ones(words[n_bits / 64] & ((UINT64_C(1) << (n_bits % 64)) - 1));
    return count;
}

#endif
