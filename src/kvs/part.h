/** A home's part of a store: its table and slabs, in memory that all ranks of its node use. */
#ifndef PGASI_KVS_PART_H
#define PGASI_KVS_PART_H

#include "base/clock.h"
#include "kvs/bucket.h"
#include "kvs/slab.h"
#include "pgas/kvs.h"

/** The head of the part. Words that many threads write have cache lines of their own. */
typedef struct {
    uint64_t n_buckets, bytes;
    uint64_t buckets, used; /* byte offsets; used: 16 bits a bucket, for eviction; 0: no eviction */
    uint64_t pad1[4];
    uint64_t version; /* the last one that was given */
    uint64_t pad2[7];
    uint64_t n_keys, n_overflow, data_bytes, n_evicted, hand;
    uint64_t expiry_hand, expiry_pause_ns; /* pause: this hand does not move before this time */
    uint64_t pad3[1];
    pgasi_slabs_t slabs;
} pgasi_part_head_t;

/** The part as this process sees it. */
typedef struct {
    char *base;
    pgasi_part_head_t *head;
    pgasi_bucket_t *buckets;
    uint16_t *used;
    uint64_t n_buckets, bytes; /* copies */
    uint64_t last_block;       /* pgasi_part_read may read blocks up to here; 0: none, because
                                * eviction has to know which keys are read */
    uint64_t pad;              /* 64 bytes, so that an index is a shift */
} pgasi_part_t;

static inline pgasi_block_t *pgasi_block_at(const pgasi_part_t *part, uint64_t offset)
{
    return (pgasi_block_t *)(void *)(part->base + offset * 8);
}

/** A key, its hash, and what follows from it. */
typedef struct {
    const void *key;
    size_t bytes;
    uint64_t hash;
    uint32_t bucket, tag;
} pgasi_key_t;

/** Functions that a write calls. changes and changed run under the lock of the bucket's chain. */
typedef struct {
    /* Called before the lock is taken, and after it is released. May be NULL */
    void (*begin)(void *arg, uint32_t bucket);
    void (*end)(void *arg, uint32_t bucket);
    /* Called before the first change. Another status than PGAS_OK ends the write. May be NULL */
    pgas_status_t (*changes)(void *arg, uint32_t bucket);
    /* Called after the change: the item as it is now; deleted: the key is deleted. May be NULL */
    void (*changed)(void *arg, const pgas_kvs_item_t *item, bool deleted);
    void *arg;
    uint64_t version; /* to be given; 0: the next one. Only a recovery gives one */
} pgasi_write_hooks_t;

/** Lays out a part in `bytes` bytes at base. Returns false if the buckets do not fit. */
bool pgasi_part_init(char *base, uint64_t bytes, uint64_t n_buckets, bool evict);
/** Fills in a part that is laid out at base. */
void pgasi_part_open(char *base, pgasi_part_t *part_p);

/** Whether a key with this time, milliseconds since 1970 or 0, has expired. */
static inline bool pgasi_kvs_has_expired(int64_t expires_ms)
{
    return PGAS_UNLIKELY(expires_ms != 0) && expires_ms <= pgasi_wall_ms();
}

/** A read: where the value goes, and what was found. */
typedef struct {
    void *value;
    size_t capacity;
    size_t value_bytes;
    uint64_t version;
    int64_t expires_ms;
} pgasi_read_t;

/** Reads a key's value.
 *  @return PGAS_ERR_NOT_FOUND; PGAS_ERR_RANGE: capacity is too small, the rest is set */
pgas_status_t pgasi_part_get(const pgasi_part_t *part, const pgasi_key_t *key, pgasi_read_t *read);

/** The same for an item. */
static inline pgas_status_t pgasi_part_get_item(const pgasi_part_t *part, const pgasi_key_t *key,
                                                pgas_kvs_item_t *item)
{
    pgasi_read_t read;
    read.value = item->value;
    read.capacity = item->capacity;
    pgas_status_t status = pgasi_part_get(part, key, &read);
    if (PGAS_LIKELY(status == PGAS_OK) || status == PGAS_ERR_RANGE) {
        item->value_bytes = read.value_bytes;
        item->version = read.version;
        item->expires_ms = read.expires_ms;
    } else {
        item->version = 0;
    }
    return status;
}

/** PUT, DELETE or ADD of an item. The value must not be in the part.
 *  @return PGAS_ERR_EXISTS, PGAS_ERR_NOT_FOUND, PGAS_ERR_MISMATCH: the condition;
 *          PGAS_ERR_NO_MEMORY, or the status of hooks->changes */
pgas_status_t pgasi_part_write(const pgasi_part_t *part, const pgasi_key_t *key,
                               pgas_kvs_item_t *item, const pgasi_write_hooks_t *hooks);

/** Memory that grows. */
typedef struct {
    char *at;
    size_t bytes, room;
} pgasi_scratch_t;

/** A key in a copy of a chain: this head, the key up to the next multiple of 8 bytes, the value,
 *  and again up to a multiple of 8 bytes. */
typedef struct {
    uint64_t version;
    int64_t expires_ms;
    uint32_t key_bytes, value_bytes;
} pgasi_copied_t;

/** Appends copies of all keys of a chain, and deletes those that have expired.
 *  @return PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_part_copy(const pgasi_part_t *part, uint32_t bucket,
                              const pgasi_write_hooks_t *hooks, pgasi_scratch_t *scratch);
/** Gives the key at *at_p in such copies, and moves *at_p behind it. false: it is the end. */
bool pgasi_scratch_next(const pgasi_scratch_t *scratch, size_t *at_p, pgas_kvs_item_t *item_p);

/** Deletes all keys of a chain.
 *  @return PGAS_ERR_PEER, or the status of hooks->changes */
pgas_status_t pgasi_part_clear(const pgasi_part_t *part, uint32_t bucket,
                               const pgasi_write_hooks_t *hooks);

/** Deletes the keys of a chain that have expired, and adds the bytes of their blocks to *bytes_p.
 *  It takes no lock if there are none.
 *  @return PGAS_ERR_PEER, or the status of hooks->changes */
pgas_status_t pgasi_part_expire_chain(const pgasi_part_t *part, uint32_t bucket,
                                      const pgasi_write_hooks_t *hooks, size_t *bytes_p);
/** Deletes expired keys of the next chains, until a block of `bytes` bytes probably fits. It looks
 *  at a bounded number of chains. After a walk without success it does nothing for a while.
 *  @return PGAS_ERR_NO_MEMORY: it has deleted nothing; otherwise as pgasi_part_expire_chain */
pgas_status_t pgasi_part_expire(const pgasi_part_t *part, size_t bytes,
                                const pgasi_write_hooks_t *hooks);

/** Deletes keys that were not used lately until a block of `bytes` bytes probably fits.
 *  @return PGAS_ERR_NO_MEMORY: it found nothing to delete; the status of hooks->changes: it found
 *          only keys that may not be deleted now */
pgas_status_t pgasi_part_evict(const pgasi_part_t *part, size_t bytes,
                               const pgasi_write_hooks_t *hooks);

/** Requests the two lines of the bucket into the processor's cache. */
static inline void pgasi_part_prefetch_bucket(const pgasi_part_t *part, const pgasi_key_t *key)
{
    const pgasi_bucket_t *bucket = &part->buckets[key->bucket];
    __builtin_prefetch(&bucket->entry[0]);
    __builtin_prefetch(&bucket->last);
}
#endif
