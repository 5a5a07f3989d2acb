/** Buckets and blocks: the meaning of the words in a home's memory. Nothing here waits.
 *
 *  A bucket has 16 words: 15 entries, and a word with its lock, its sequence number and the next
 *  bucket of the chain. An entry is 0, or
 *      bits 56 .. 63  tag, a part of the hash, 1 .. 255
 *      bits 40 .. 55  size class of the block
 *      bits  0 .. 39  offset of the block, in units of 8 bytes
 *  The last word of the first bucket of a chain is
 *      bit 0          a writer has the lock of the chain
 *      bits 1 .. 23   sequence number, which every writer raises
 *      bits 24 .. 63  offset of the next bucket, 0: none
 *  Further buckets have only the offset there. A block is a header of two words, the time of expiry
 *  if the header says so, the key up to the next multiple of 8 bytes, and the value.
 *
 *  Source: DArray, figure 11, which has no lock and no sequence number. */
#ifndef PGASI_KVS_BUCKET_H
#define PGASI_KVS_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/checks.h"

#if defined(__SANITIZE_THREAD__)
#define PGASI_KVS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PGASI_KVS_TSAN 1
#endif
#endif
#ifndef PGASI_KVS_TSAN
#define PGASI_KVS_TSAN 0
#endif
#if defined(__SSE2__) && !PGASI_KVS_TSAN
#include <emmintrin.h>
#endif

/* ThreadSanitizer knows no fences. The functions that need them are not checked by it. */
#if PGASI_KVS_TSAN
#define PGASI_KVS_FENCE(order) __atomic_signal_fence(order)
#else
#define PGASI_KVS_FENCE(order) __atomic_thread_fence(order)
#endif

#define PGASI_BUCKET_ENTRIES 15
#define PGASI_BUCKET_LOCKED  1u
#define PGASI_BUCKET_SEQ     2u
#define PGASI_BUCKET_LOW     ((UINT64_C(1) << 24) - 1) /* lock and sequence number */
#define PGASI_OFFSET_MASK    ((UINT64_C(1) << 40) - 1)

typedef struct {
    uint64_t entry[PGASI_BUCKET_ENTRIES];
    uint64_t last;
} PGASI_ALIGNED(64) pgasi_bucket_t;

typedef struct {
    uint64_t version; /* 48 bits, shifted by 16; the key's bytes - 1 */
    uint64_t meta;    /* the value's bytes, 32 bits; flags, shifted by 32 */
} pgasi_block_t;
#define PGASI_BLOCK_EXPIRES (UINT64_C(1) << 32) /* a word with the time follows the header */

static inline uint64_t pgasi_entry_make(uint32_t tag, uint32_t class_number, uint64_t offset)
{
    return (uint64_t)tag << 56 | (uint64_t)class_number << 40 | offset;
}
static inline uint32_t pgasi_entry_class(uint64_t entry)
{
    return (uint32_t)(entry >> 40) & 0xffff;
}
static inline uint64_t pgasi_entry_offset(uint64_t entry)
{
    return entry & PGASI_OFFSET_MASK;
}
static inline uint64_t pgasi_bucket_next(uint64_t last)
{
    return last >> 24;
}

static inline uint64_t pgasi_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}
static inline void pgasi_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

/** The bytes of a block. */
static inline size_t pgasi_block_bytes(size_t key_bytes, size_t value_bytes, bool expires)
{
    return sizeof(pgasi_block_t) + (expires ? 8 : 0) + PGASI_ALIGN_UP(key_bytes, 8) + value_bytes;
}

#if defined(__SSE2__) && !PGASI_KVS_TSAN
/* Compares the tags of 4 words, as 32-bit numbers from their upper halves. */
PGAS_INLINE __m128i pgasi_match_4(const uint64_t *words, __m128i wanted)
{
    __m128 a = _mm_load_ps((const float *)(const void *)words);
    __m128 b = _mm_load_ps((const float *)(const void *)(words + 2));
    __m128i upper = _mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
    return _mm_cmpeq_epi32(_mm_srli_epi32(upper, 24), wanted);
}
#endif

/** Returns a bit for each entry with the tag. */
PGAS_INLINE uint32_t pgasi_bucket_match(const pgasi_bucket_t *bucket, uint32_t tag)
{
#if defined(__SSE2__) && !PGASI_KVS_TSAN
    __m128i wanted = _mm_set1_epi32((int)tag);
    __m128i low = _mm_packs_epi32(pgasi_match_4(&bucket->entry[0], wanted),
                                  pgasi_match_4(&bucket->entry[4], wanted));
    __m128i high = _mm_packs_epi32(pgasi_match_4(&bucket->entry[8], wanted),
                                   pgasi_match_4(&bucket->entry[12], wanted));
    return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high)) & 0x7fff;
#else
    uint32_t mask = 0;
    for (int i = 0; i < PGASI_BUCKET_ENTRIES; i++)
        mask |= (uint32_t)(pgasi_load(&bucket->entry[i]) >> 56 == tag) << i;
    return mask;
#endif
}

/** Copies bytes that another thread may be writing. The caller then checks the sequence number, and
 *  discards the copy if it has changed. */
#if PGASI_KVS_TSAN
__attribute__((no_sanitize("thread"))) static inline void
pgasi_racy_copy(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((volatile char *)to)[i] = ((const volatile char *)from)[i];
}
__attribute__((no_sanitize("thread"))) static inline bool
pgasi_racy_equal(const void *a, const void *b, size_t bytes)
{
    bool equal = true;
    for (size_t i = 0; i < bytes; i++)
        equal &= ((const volatile char *)a)[i] == ((const volatile char *)b)[i];
    return equal;
}
#else
static inline void pgasi_racy_copy(void *to, const void *from, size_t bytes)
{
    if (bytes == 8) {
        memcpy(to, from, 8);
    } else if (bytes - 16 <= 48) { /* 16 to 64: from both ends, so that the copies overlap */
        char *t = (char *)to;
        const char *f = (const char *)from;
        memcpy(t, f, 16);
        if (bytes > 32) {
            memcpy(t + 16, f + 16, 16);
            memcpy(t + bytes - 32, f + bytes - 32, 16);
        }
        memcpy(t + bytes - 16, f + bytes - 16, 16);
    } else if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}
static inline bool pgasi_racy_equal(const void *a, const void *b, size_t bytes)
{
    if (bytes == 8) {
        uint64_t x, y;
        memcpy(&x, a, 8);
        memcpy(&y, b, 8);
        return x == y;
    }
    return memcmp(a, b, bytes) == 0;
}
#endif

#endif
