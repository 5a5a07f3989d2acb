/** What the files of a part share: the lock of a chain, and the contents of a block. */
#ifndef PGASI_KVS_PART_INSIDE_H
#define PGASI_KVS_PART_INSIDE_H

#include <sched.h>
#include "base/clock.h"
#include "kvs/part.h"

#define N_SPINS 128u

/* ---- locks ---- */

static inline void wait_a_little(uint32_t n)
{
    if (n < N_SPINS)
        pgasi_cpu_relax();
    else
        sched_yield();
}

/* Returns the last word of the chain without the lock. */
static inline bool try_lock(pgasi_bucket_t *bucket, uint64_t *last_p)
{
    *last_p = pgasi_load(&bucket->last);
    bool locked = !(*last_p & PGASI_BUCKET_LOCKED) &&
                  __atomic_compare_exchange_n(&bucket->last, last_p, *last_p | PGASI_BUCKET_LOCKED,
                                              false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    if (locked)
        PGASI_KVS_FENCE(__ATOMIC_RELEASE); /* readers see the lock before they see what changes */
    return locked;
}

/* Whether a wait for a lock of the part may be without end, because its holder died. */
static inline bool may_hang(const pgasi_part_t *part, uint32_t n_waits)
{
    return PGAS_UNLIKELY(n_waits > N_SPINS) && pgasi_slabs_are_broken(&part->head->slabs);
}

/* @return false: the holder may be dead */
static inline bool lock(const pgasi_part_t *part, pgasi_bucket_t *bucket, uint64_t *last_p)
{
    for (uint32_t n = 0; !try_lock(bucket, last_p); n++) {
        if (may_hang(part, n))
            return false;
        wait_a_little(n);
    }
    return true;
}

static inline void unlock(pgasi_bucket_t *bucket, uint64_t last, bool changed)
{
    if (changed)
        last = (last & ~PGASI_BUCKET_LOW) | ((last + PGASI_BUCKET_SEQ) & PGASI_BUCKET_LOW);
    __atomic_store_n(&bucket->last, last, __ATOMIC_RELEASE);
}

/* ---- blocks ---- */

typedef struct {
    size_t key_bytes, value_bytes, bytes;
    uint64_t version;
    int64_t expires_ms;
    char *key, *value;
    bool expires;
} content_t;

/* Reads the header of a block. Returns false if its words are not those of a block in the part,
 * because a writer is at work. */
static inline bool read_block(const pgasi_part_t *part, uint64_t offset, content_t *c)
{
    uint64_t at = offset * 8;
    if (PGAS_UNLIKELY(at + sizeof(pgasi_block_t) + 8 > part->bytes))
        return false;
    const pgasi_block_t *block = pgasi_block_at(part, offset);
    uint64_t version = pgasi_load(&block->version), meta = pgasi_load(&block->meta);
    c->version = version >> 16;
    c->key_bytes = (version & 0xffff) + 1;
    c->value_bytes = (uint32_t)meta;
    c->expires = meta & PGASI_BLOCK_EXPIRES;
    c->expires_ms = c->expires ? (int64_t)pgasi_load((const uint64_t *)(block + 1)) : 0;
    c->bytes = pgasi_block_bytes(c->key_bytes, c->value_bytes, c->expires);
    c->key = part->base + at + sizeof *block + (c->expires ? 8 : 0);
    c->value = c->key + PGASI_ALIGN_UP(c->key_bytes, 8);
    return PGAS_LIKELY(at + c->bytes <= part->bytes);
}

static inline bool has_expired(const content_t *c)
{
    return pgasi_kvs_has_expired(c->expires_ms);
}

static inline pgasi_bucket_t *bucket_at(const pgasi_part_t *part, uint64_t offset)
{
    return (pgasi_bucket_t *)(void *)(part->base + offset * 8);
}

static inline void count(uint64_t *counter, int64_t n)
{
    __atomic_fetch_add(counter, (uint64_t)n, __ATOMIC_RELAXED);
}

static inline int64_t data_of(const content_t *c)
{
    return (int64_t)(c->key_bytes + c->value_bytes);
}

static inline void remove_entry(const pgasi_part_t *part, uint64_t *slot, const content_t *c)
{
    pgasi_store(slot, 0);
    count(&part->head->data_bytes, -data_of(c));
    count(&part->head->n_keys, -1);
}

static inline void begin(const pgasi_write_hooks_t *hooks, uint32_t bucket)
{
    if (hooks->begin)
        hooks->begin(hooks->arg, bucket);
}

static inline void end(const pgasi_write_hooks_t *hooks, uint32_t bucket)
{
    if (hooks->end)
        hooks->end(hooks->arg, bucket);
}

#endif
