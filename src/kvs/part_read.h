/** The usual read in few instructions: the first entry with the tag is the key's, its value does
 *  not expire, and no writer is at work. pgasi_part_get does the rest.
 *
 *  A read waits for two misses of the processor's caches, one for the bucket and one for the
 *  block. The processor overlaps the misses of successive reads if they are few instructions
 *  apart. So this is inline, and calls no function. */
#ifndef PGASI_KVS_PART_READ_H
#define PGASI_KVS_PART_READ_H

#include "kvs/part.h"

#define PGASI_READ_KEY_MAX   256u
#define PGASI_READ_VALUE_MAX 512u

static inline uint64_t pgasi_read_word(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/** Compares n bytes, 8 or more. */
PGAS_INLINE bool pgasi_read_equal(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i + 8 < n; i += 8)
        if (pgasi_read_word(a + i) != pgasi_read_word(b + i))
            return false;
    return pgasi_read_word(a + n - 8) == pgasi_read_word(b + n - 8);
}

/** Copies n bytes, 8 or more; the last bytes may be copied twice. */
PGAS_INLINE void pgasi_read_copy(char *to, const char *from, size_t n)
{
    if (n < 16) {
        uint64_t first = pgasi_read_word(from), last = pgasi_read_word(from + n - 8);
        memcpy(to, &first, 8);
        memcpy(to + n - 8, &last, 8);
        return;
    }
    for (size_t i = 0; i + 16 < n; i += 16)
        memcpy(to + i, from + i, 16);
    memcpy(to + n - 16, from + n - 16, 16);
}

/** The first half of a read: where the key seems to be. */
typedef struct {
    uint64_t last;  /* of the bucket */
    uint64_t entry; /* the first with the tag; 0: take pgasi_part_get */
} pgasi_seen_t;

PGAS_INLINE pgasi_seen_t pgasi_part_see(const pgasi_part_t *part, const pgasi_key_t *key)
{
    const pgasi_bucket_t *bucket = &part->buckets[key->bucket];
    pgasi_seen_t seen = { __atomic_load_n(&bucket->last, __ATOMIC_ACQUIRE), 0 };
    uint32_t mask = pgasi_bucket_match(bucket, key->tag);
    if (PGAS_LIKELY(mask != 0))
        seen.entry = pgasi_load(&bucket->entry[__builtin_ctz(mask)]);
    return seen;
}

/** Requests the block into the processor's cache. */
PGAS_INLINE void pgasi_part_fetch(const pgasi_part_t *part, const pgasi_seen_t *seen)
{
    const char *block = (const char *)pgasi_block_at(part, pgasi_entry_offset(seen->entry));
    __builtin_prefetch(block);
    if (pgasi_entry_class(seen->entry) > PGASI_SLAB_CLASS_64)
        __builtin_prefetch(block + PGASI_CACHELINE);
}

/** The second half.
 *  @return true: the value was copied, and *value_bytes_p and *version_p are set. false: take
 *          pgasi_part_get; the bytes at value are undefined */
PGAS_INLINE bool pgasi_part_read(const pgasi_part_t *part, const pgasi_key_t *key,
                                 const pgasi_seen_t *seen, void *value, size_t capacity,
                                 size_t *value_bytes_p, uint64_t *version_p)
{
    uint64_t offset = pgasi_entry_offset(seen->entry);
    if (PGASI_KVS_TSAN ||
        PGAS_UNLIKELY(offset - 1 >= part->last_block || (seen->last & PGASI_BUCKET_LOCKED) ||
                      key->bytes - 8 > PGASI_READ_KEY_MAX - 8))
        return false;
    const pgasi_block_t *block = pgasi_block_at(part, offset);
    uint64_t version = pgasi_load(&block->version), meta = pgasi_load(&block->meta);
    uint64_t key_room = PGASI_ALIGN_UP(key->bytes, 8);
    const char *at = (const char *)(block + 1);
    if (PGAS_UNLIKELY((version & 0xffff) != key->bytes - 1 || meta - 8 > PGASI_READ_VALUE_MAX - 8 ||
                      meta > capacity || !pgasi_read_equal(at, (const char *)key->key, key->bytes)))
        return false;
    pgasi_read_copy((char *)value, at + key_room, meta);
    PGASI_KVS_FENCE(__ATOMIC_ACQUIRE);
    if (PGAS_UNLIKELY(pgasi_load(&part->buckets[key->bucket].last) != seen->last ||
                      pgasi_load(&block->version) != version))
        return false;
    *value_bytes_p = meta;
    *version_p = version >> 16;
    return true;
}

#endif
