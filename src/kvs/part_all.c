/* Work on all keys of a chain of buckets: copies for scans, deletion, eviction.
 *
 * Eviction is the clock algorithm: a hand passes over the buckets. If a read or a later write has
 * set the bit of a key, the hand clears it. Otherwise it deletes the key. Keys in overflow buckets
 * have no bits, so it deletes them always. Another hand deletes expired keys only. */
#include <stdlib.h>
#include "kvs/part_inside.h"

#define EVICT_SLABS     4u    /* a walk ends after so many slabs' bytes, of whatever class */
#define EXPIRY_CHAINS   1024u /* that a write without memory searches for expired keys */
#define EXPIRY_PAUSE_NS (20 * PGASI_NS_PER_MS) /* after such a search without success */

/* ---- copies ---- */

static size_t copied_bytes(const content_t *c)
{
    return sizeof(pgasi_copied_t) + PGASI_ALIGN_UP(c->key_bytes, 8) +
           PGASI_ALIGN_UP(c->value_bytes, 8);
}

static bool reserve(pgasi_scratch_t *scratch, size_t more)
{
    if (scratch->bytes + more <= scratch->room)
        return true;
    size_t room = PGASI_MAX(scratch->bytes + more, 2 * scratch->room);
    char *at = realloc(scratch->at, room);
    if (!at)
        return false;
    scratch->at = at;
    scratch->room = room;
    return true;
}

static bool copy_key(pgasi_scratch_t *scratch, const content_t *c)
{
    size_t bytes = copied_bytes(c);
    if (!reserve(scratch, bytes))
        return false;
    char *at = scratch->at + scratch->bytes;
    pgasi_copied_t head = { .version = c->version,
                            .expires_ms = c->expires_ms,
                            .key_bytes = (uint32_t)c->key_bytes,
                            .value_bytes = (uint32_t)c->value_bytes };
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, c->key, c->key_bytes);
    memcpy(at + sizeof head + PGASI_ALIGN_UP(c->key_bytes, 8), c->value, c->value_bytes);
    scratch->bytes += bytes;
    return true;
}

bool pgasi_scratch_next(const pgasi_scratch_t *scratch, size_t *at_p, pgas_kvs_item_t *item_p)
{
    if (*at_p >= scratch->bytes)
        return false;
    const char *at = scratch->at + *at_p;
    pgasi_copied_t head;
    memcpy(&head, at, sizeof head);
    size_t key_room = PGASI_ALIGN_UP(head.key_bytes, 8);
    *item_p = (pgas_kvs_item_t){ .key = at + sizeof head,
                                 .key_bytes = head.key_bytes,
                                 .value = scratch->at + *at_p + sizeof head + key_room,
                                 .value_bytes = head.value_bytes,
                                 .capacity = head.value_bytes,
                                 .version = head.version,
                                 .expires_ms = head.expires_ms };
    *at_p += sizeof head + key_room + PGASI_ALIGN_UP(head.value_bytes, 8);
    return true;
}

/* ---- walks over a chain; the caller has the lock ---- */

typedef enum { KEEP, REMOVE, FAIL } verdict_t;

typedef struct {
    const pgasi_part_t *part;
    const pgasi_write_hooks_t *hooks;
    pgasi_bucket_t *first;
    uint32_t number;
    verdict_t (*judge)(void *arg, int entry, const content_t *c); /* entry: in the first, or -1 */
    void *arg;
    bool changed;
    size_t n_removed, bytes_removed;
    pgas_status_t status;
    pgas_status_t refused; /* by hooks->changes: keys that should go stay */
} chain_t;

static bool remove_key(chain_t *chain, uint64_t *slot, const content_t *c)
{
    const pgasi_write_hooks_t *hooks = chain->hooks;
    if (!chain->changed && hooks->changes && chain->refused == PGAS_OK)
        chain->refused = hooks->changes(hooks->arg, chain->number);
    if (chain->refused != PGAS_OK)
        return false;
    chain->changed = true;
    pgas_kvs_item_t now = { .key = c->key, .key_bytes = c->key_bytes };
    now.version = __atomic_add_fetch(&chain->part->head->version, 1, __ATOMIC_RELAXED);
    if (hooks->changed)
        hooks->changed(hooks->arg, &now, true);
    remove_entry(chain->part, slot, c);
    chain->n_removed++;
    chain->bytes_removed += c->bytes;
    return true;
}

/* The chain is locked, so readers discard what they have read of a block that is freed here. */
static void walk_bucket(chain_t *chain, pgasi_bucket_t *bucket)
{
    const pgasi_part_t *part = chain->part;
    for (int i = 0; i < PGASI_BUCKET_ENTRIES && chain->status == PGAS_OK; i++) {
        uint64_t entry = pgasi_load(&bucket->entry[i]);
        content_t c;
        if (!entry || !read_block(part, pgasi_entry_offset(entry), &c))
            continue;
        verdict_t verdict = chain->judge(chain->arg, bucket == chain->first ? i : -1, &c);
        if (verdict == FAIL)
            chain->status = PGAS_ERR_NO_MEMORY;
        if (verdict == REMOVE && remove_key(chain, &bucket->entry[i], &c))
            pgasi_slab_free(part->base, &part->head->slabs, pgasi_entry_offset(entry), c.bytes);
    }
}

static void walk_chain(chain_t *chain, uint64_t last)
{
    pgasi_bucket_t *bucket = chain->first;
    for (;;) {
        walk_bucket(chain, bucket);
        uint64_t next = pgasi_bucket_next(last);
        if (!next)
            break;
        bucket = bucket_at(chain->part, next);
        last = pgasi_load(&bucket->last);
    }
}

static pgas_status_t do_chain(chain_t *chain)
{
    chain->first = &chain->part->buckets[chain->number];
    begin(chain->hooks, chain->number);
    uint64_t last;
    if (lock(chain->part, chain->first, &last)) {
        walk_chain(chain, last);
        unlock(chain->first, last, chain->changed);
    } else {
        chain->status = PGAS_ERR_PEER;
    }
    end(chain->hooks, chain->number);
    return chain->status;
}

/* ---- scans and deletion ---- */

static verdict_t copy_or_expire(void *arg, int entry, const content_t *c)
{
    (void)entry;
    if (has_expired(c))
        return REMOVE;
    return copy_key((pgasi_scratch_t *)arg, c) ? KEEP : FAIL;
}

pgas_status_t pgasi_part_copy(const pgasi_part_t *part, uint32_t bucket,
                              const pgasi_write_hooks_t *hooks, pgasi_scratch_t *scratch)
{
    chain_t chain = {
        .part = part, .hooks = hooks, .number = bucket, .judge = copy_or_expire, .arg = scratch
    };
    return do_chain(&chain);
}

static verdict_t remove_all(void *arg, int entry, const content_t *c)
{
    (void)arg;
    (void)entry;
    (void)c;
    return REMOVE;
}

pgas_status_t pgasi_part_clear(const pgasi_part_t *part, uint32_t bucket,
                               const pgasi_write_hooks_t *hooks)
{
    chain_t chain = { .part = part, .hooks = hooks, .number = bucket, .judge = remove_all };
    pgas_status_t status = do_chain(&chain);
    return status == PGAS_OK ? chain.refused : status;
}

/* ---- expired keys ---- */

static bool holds_expired(const pgasi_part_t *part, const pgasi_bucket_t *bucket, int64_t now_ms)
{
    content_t c;
    for (int i = 0; i < PGASI_BUCKET_ENTRIES; i++) {
        uint64_t entry = pgasi_load(&bucket->entry[i]);
        if (entry && read_block(part, pgasi_entry_offset(entry), &c) && c.expires_ms != 0 &&
            c.expires_ms <= now_ms)
            return true;
    }
    return false;
}

/* Without a lock: a chain that changes meanwhile may count as one with expired keys. */
static bool may_have_expired(const pgasi_part_t *part, const pgasi_bucket_t *first)
{
    uint64_t last = __atomic_load_n(&first->last, __ATOMIC_ACQUIRE);
    uint64_t next = pgasi_bucket_next(last);
    const pgasi_bucket_t *bucket = first;
    int64_t now_ms = pgasi_wall_ms();
    while (!holds_expired(part, bucket, now_ms)) {
        if (!next)
            return false;
        if (next * 8 + sizeof *bucket > part->bytes || pgasi_load(&first->last) != last)
            return true;
        bucket = bucket_at(part, next);
        next = pgasi_bucket_next(pgasi_load(&bucket->last));
    }
    return true;
}

static verdict_t expire(void *arg, int entry, const content_t *c)
{
    (void)arg;
    (void)entry;
    return has_expired(c) ? REMOVE : KEEP;
}

pgas_status_t pgasi_part_expire_chain(const pgasi_part_t *part, uint32_t bucket,
                                      const pgasi_write_hooks_t *hooks, size_t *bytes_p)
{
    chain_t chain = { .part = part, .hooks = hooks, .number = bucket, .judge = expire };
    if (!may_have_expired(part, &part->buckets[bucket]))
        return PGAS_OK;
    pgas_status_t status = do_chain(&chain);
    *bytes_p += chain.bytes_removed;
    return status == PGAS_OK ? chain.refused : status;
}

pgas_status_t pgasi_part_expire(const pgasi_part_t *part, size_t bytes,
                                const pgasi_write_hooks_t *hooks)
{
    size_t enough = PGASI_MAX(bytes, (size_t)EVICT_SLABS * PGASI_SLAB_BYTES), removed = 0;
    uint64_t n = PGASI_MIN(part->n_buckets, EXPIRY_CHAINS);
    pgas_status_t status = PGAS_OK;
    if (pgasi_now_ns() < pgasi_load(&part->head->expiry_pause_ns))
        return PGAS_ERR_NO_MEMORY;
    for (; n > 0 && removed < enough && status == PGAS_OK; n--) {
        uint64_t hand = __atomic_fetch_add(&part->head->expiry_hand, 1, __ATOMIC_RELAXED);
        status = pgasi_part_expire_chain(part, (uint32_t)(hand % part->n_buckets), hooks, &removed);
    }
    if (removed > 0)
        return PGAS_OK;
    if (status != PGAS_OK)
        return status;
    pgasi_store(&part->head->expiry_pause_ns, pgasi_now_ns() + EXPIRY_PAUSE_NS);
    return PGAS_ERR_NO_MEMORY;
}

/* ---- eviction ---- */

typedef struct {
    uint16_t *used;
    uint32_t class_number;
    size_t n_removed, bytes;
    bool fits; /* a block of the class was freed */
} evict_t;

static verdict_t evict_cold(void *arg, int entry, const content_t *c)
{
    evict_t *e = (evict_t *)arg;
    uint16_t bit = entry >= 0 ? (uint16_t)(1u << entry) : 0;
    if (__atomic_load_n(e->used, __ATOMIC_RELAXED) & bit) {
        __atomic_fetch_and(e->used, (uint16_t)~bit, __ATOMIC_RELAXED);
        return KEEP;
    }
    e->fits |= pgasi_slab_class(c->bytes) == e->class_number && e->class_number != PGASI_SLAB_RUN;
    return REMOVE;
}

/* Without a lock: a chain that is being filled now may count as empty. */
static bool is_empty(const pgasi_bucket_t *bucket)
{
    uint64_t any = pgasi_bucket_next(pgasi_load(&bucket->last));
    for (int i = 0; i < PGASI_BUCKET_ENTRIES; i++)
        any |= pgasi_load(&bucket->entry[i]);
    return any == 0;
}

pgas_status_t pgasi_part_evict(const pgasi_part_t *part, size_t bytes,
                               const pgasi_write_hooks_t *hooks)
{
    evict_t e = { .class_number = pgasi_slab_class(bytes) };
    size_t enough = PGASI_MAX(bytes, (size_t)EVICT_SLABS * PGASI_SLAB_BYTES);
    pgas_status_t refused = PGAS_OK;
    for (uint64_t n = 0;
         n < 2 * part->n_buckets && !e.fits && e.bytes < enough && refused == PGAS_OK; n++) {
        uint64_t hand = __atomic_fetch_add(&part->head->hand, 1, __ATOMIC_RELAXED);
        uint32_t number = (uint32_t)(hand % part->n_buckets);
        chain_t chain = { .part = part,
                          .hooks = hooks,
                          .number = number,
                          .first = &part->buckets[number],
                          .judge = evict_cold,
                          .arg = &e };
        uint64_t last;
        if (is_empty(chain.first))
            continue; /* begin may cost a round trip */
        e.used = &part->used[number];
        begin(hooks, number);
        if (try_lock(chain.first, &last)) {
            walk_chain(&chain, last);
            unlock(chain.first, last, chain.changed);
        }
        end(hooks, number);
        e.n_removed += chain.n_removed;
        e.bytes += chain.bytes_removed;
        e.fits = e.fits && chain.n_removed > 0;
        refused = chain.refused; /* then others would be refused, too, in a handler */
    }
    __atomic_fetch_add(&part->head->n_evicted, e.n_removed, __ATOMIC_RELAXED);
    if (e.n_removed > 0)
        return PGAS_OK;
    return refused == PGAS_OK ? PGAS_ERR_NO_MEMORY : refused;
}
