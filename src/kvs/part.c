/* The table of a home: reads without a lock, and writes under the lock of a chain of buckets.
 *
 * A reader notes the sequence number of the chain, copies what it needs, and starts again if the
 * number has changed. Memory that it looks at meanwhile may be freed and reused, but it stays
 * mapped, so every offset is checked against the end of the part before it is used. A block
 * of at most 1 KiB is overwritten in place if its size class stays. A larger one is written before
 * the lock is taken, so that a lock is held for a short time only. No function of the library is
 * called under a lock, except the hooks, which do not wait. */
#include "kvs/part.h"

#include "kvs/part_inside.h"
#include "kvs/part_read.h"

#define IN_PLACE_MAX 1024u
#define N_READS      64u /* attempts of a reader before it takes the lock */

/* ---- layout ---- */

bool pgasi_part_init(char *base, uint64_t bytes, uint64_t n_buckets, bool evict)
{
    pgasi_part_head_t *head = (pgasi_part_head_t *)(void *)base;
    uint64_t at = PGASI_ALIGN_UP(sizeof *head, 128);
    if (n_buckets > UINT32_MAX || n_buckets * sizeof(pgasi_bucket_t) >= bytes)
        return false;
    memset(head, 0, sizeof *head);
    head->bytes = bytes;
    head->n_buckets = n_buckets;
    head->buckets = at;
    at += n_buckets * sizeof(pgasi_bucket_t);
    if (evict) {
        head->used = at;
        at = PGASI_ALIGN_UP(at + n_buckets * sizeof(uint16_t), 64);
    }
    if (at >= bytes)
        return false;
    memset(base + head->buckets, 0, at - head->buckets);
    return pgasi_slabs_init(base, &head->slabs, at, bytes);
}

void pgasi_part_open(char *base, pgasi_part_t *part_p)
{
    pgasi_part_head_t *head = (pgasi_part_head_t *)(void *)base;
    *part_p =
        (pgasi_part_t){ .base = base,
                        .head = head,
                        .buckets = (pgasi_bucket_t *)(void *)(base + head->buckets),
                        .used = head->used ? (uint16_t *)(void *)(base + head->used) : NULL,
                        .n_buckets = head->n_buckets,
                        .bytes = head->bytes,
                        .last_block = head->used ? 0
                                                 : (head->bytes - sizeof(pgasi_block_t) -
                                                    PGASI_READ_KEY_MAX - PGASI_READ_VALUE_MAX) /
                                                       8 };
}

/* Writes a block. Words that readers check first are atomic. */
static void write_block(const pgasi_part_t *part, uint64_t offset, const pgasi_key_t *key,
                        const pgas_kvs_item_t *item, bool expires)
{
    pgasi_block_t *block = pgasi_block_at(part, offset);
    pgasi_store(&block->version, item->version << 16 | (key->bytes - 1));
    pgasi_store(&block->meta, item->value_bytes | (expires ? PGASI_BLOCK_EXPIRES : 0));
    char *at = (char *)(block + 1);
    if (expires) {
        pgasi_store((uint64_t *)(void *)at, (uint64_t)item->expires_ms);
        at += 8;
    }
    pgasi_racy_copy(at, key->key, key->bytes);
    pgasi_racy_copy(at + PGASI_ALIGN_UP(key->bytes, 8), item->value, item->value_bytes);
}

/* ---- search ---- */

typedef struct {
    uint64_t *slot; /* NULL: there is no such key */
    uint64_t entry;
    content_t content;
} found_t;

static inline bool find_in(const pgasi_part_t *part, pgasi_bucket_t *bucket, const pgasi_key_t *key,
                           found_t *f)
{
    for (uint32_t mask = pgasi_bucket_match(bucket, key->tag); mask; mask &= mask - 1) {
        f->slot = &bucket->entry[__builtin_ctz(mask)];
        f->entry = pgasi_load(f->slot);
        if (f->entry && read_block(part, pgasi_entry_offset(f->entry), &f->content) &&
            f->content.key_bytes == key->bytes &&
            pgasi_racy_equal(f->content.key, key->key, key->bytes))
            return true;
    }
    return false;
}

/* Searches a chain. last: its last word as it is in memory while the chain does not change. */
static inline void find(const pgasi_part_t *part, const pgasi_key_t *key, uint64_t last, found_t *f)
{
    pgasi_bucket_t *first = &part->buckets[key->bucket], *bucket = first;
    uint64_t next = pgasi_bucket_next(last);
    while (!find_in(part, bucket, key, f)) {
        f->slot = NULL;
        if (PGAS_LIKELY(!next) || next * 8 + sizeof *bucket > part->bytes ||
            pgasi_load(&first->last) != last)
            break;
        bucket = bucket_at(part, next);
        next = pgasi_bucket_next(pgasi_load(&bucket->last));
    }
}

/* Sets the bit of a key that was read, or written again, so that eviction keeps it for a while. */
static void note_use(const pgasi_part_t *part, const pgasi_key_t *key, const found_t *f)
{
    uint64_t i = (uint64_t)(f->slot - part->buckets[key->bucket].entry);
    uint16_t *used = &part->used[key->bucket];
    if (i < PGASI_BUCKET_ENTRIES && !(__atomic_load_n(used, __ATOMIC_RELAXED) >> i & 1))
        __atomic_fetch_or(used, (uint16_t)(1u << i), __ATOMIC_RELAXED);
}

/* ---- reads ---- */

static pgas_status_t look(const pgasi_part_t *part, const pgasi_key_t *key, uint64_t last,
                          pgasi_read_t *read, found_t *f)
{
    find(part, key, last, f);
    const content_t *c = &f->content;
    if (!f->slot || has_expired(c))
        return PGAS_ERR_NOT_FOUND;
    read->version = c->version;
    read->value_bytes = c->value_bytes;
    read->expires_ms = c->expires_ms;
    if (c->value_bytes > read->capacity)
        return PGAS_ERR_RANGE;
    pgasi_racy_copy(read->value, c->value, c->value_bytes);
    return PGAS_OK;
}

static pgas_status_t get_locked(const pgasi_part_t *part, const pgasi_key_t *key,
                                pgasi_read_t *read)
{
    found_t f;
    pgasi_bucket_t *bucket = &part->buckets[key->bucket];
    uint64_t last;
    if (!lock(part, bucket, &last))
        return PGAS_ERR_PEER;
    pgas_status_t status = look(part, key, last | PGASI_BUCKET_LOCKED, read, &f);
    unlock(bucket, last, false);
    return status;
}

/* The sequence number has 23 bits. A reader that slept while it wrapped around may find the same
 * number. The version of the block is different then, because versions are unique. */
static inline bool is_unchanged(const pgasi_bucket_t *bucket, uint64_t last,
                                const pgasi_block_t *block, uint64_t version)
{
    PGASI_KVS_FENCE(__ATOMIC_ACQUIRE);
    return pgasi_load(&bucket->last) == last &&
           (!block || pgasi_load(&block->version) >> 16 == version);
}

pgas_status_t pgasi_part_get(const pgasi_part_t *part, const pgasi_key_t *key, pgasi_read_t *read)
{
    const pgasi_bucket_t *bucket = &part->buckets[key->bucket];
    found_t f;
    for (uint32_t n = 0; n < N_READS || (pgasi_load(&bucket->last) & PGASI_BUCKET_LOCKED); n++) {
        uint64_t last = __atomic_load_n(&bucket->last, __ATOMIC_ACQUIRE);
        if (!(last & PGASI_BUCKET_LOCKED)) {
            pgas_status_t status = look(part, key, last, read, &f);
            const pgasi_block_t *block =
                f.slot ? pgasi_block_at(part, pgasi_entry_offset(f.entry)) : NULL;
            if (is_unchanged(bucket, last, block, f.content.version)) {
                if (part->used && f.slot)
                    note_use(part, key, &f);
                return status;
            }
        }
        if (may_hang(part, n))
            return PGAS_ERR_PEER;
        wait_a_little(n);
    }
    return get_locked(part, key, read);
}

/* ---- writes ---- */

typedef struct {
    const pgasi_part_t *part;
    const pgasi_key_t *key;
    const pgasi_write_hooks_t *hooks;
    pgasi_bucket_t *bucket;
    uint64_t last; /* of the bucket, without the lock */
    found_t found;
    bool present;      /* the key exists, and has not expired */
    uint64_t prepared; /* a block that was written before the lock was taken; 0: none */
    size_t prepared_bytes;
    uint64_t garbage; /* a block to be freed after the lock; 0: none */
    size_t garbage_bytes;
} write_t;

/* Returns an empty entry of the chain, or NULL. A chain without one grows by a bucket. */
static uint64_t *empty_slot(write_t *w)
{
    const pgasi_part_t *part = w->part;
    pgasi_bucket_t *bucket = w->bucket;
    uint64_t next = pgasi_bucket_next(w->last);
    for (;;) {
        for (int i = 0; i < PGASI_BUCKET_ENTRIES; i++)
            if (pgasi_load(&bucket->entry[i]) == 0)
                return &bucket->entry[i];
        if (!next)
            break;
        bucket = bucket_at(part, next);
        next = pgasi_bucket_next(pgasi_load(&bucket->last));
    }
    next = pgasi_slab_alloc(part->base, &part->head->slabs, sizeof *bucket);
    if (!next)
        return NULL;
    pgasi_bucket_t *added = bucket_at(part, next);
    for (int i = 0; i < PGASI_BUCKET_ENTRIES; i++)
        pgasi_store(&added->entry[i], 0);
    pgasi_store(&added->last, 0);
    if (bucket == w->bucket)
        w->last = next << 24 | (w->last & PGASI_BUCKET_LOW);
    else
        pgasi_store(&bucket->last, next << 24);
    count(&part->head->n_overflow, 1);
    return &added->entry[0];
}

static void set_garbage(write_t *w, const found_t *f)
{
    w->garbage = pgasi_entry_offset(f->entry);
    w->garbage_bytes = f->content.bytes;
}

/* Writes item as the key's value, with its version and time, in place or to another block. */
static pgas_status_t store_value(write_t *w, const pgas_kvs_item_t *item, bool expires)
{
    const pgasi_part_t *part = w->part;
    found_t *f = &w->found;
    size_t bytes = pgasi_block_bytes(w->key->bytes, item->value_bytes, expires);
    uint32_t class_number = pgasi_slab_class(bytes);
    int64_t data = (int64_t)(w->key->bytes + item->value_bytes);
    uint64_t block;
    if (f->slot && bytes <= IN_PLACE_MAX && pgasi_entry_class(f->entry) == class_number) {
        write_block(part, pgasi_entry_offset(f->entry), w->key, item, expires);
        if (data != data_of(&f->content))
            count(&part->head->data_bytes, data - data_of(&f->content));
        return PGAS_OK;
    }
    uint64_t *slot = f->slot ? f->slot : empty_slot(w);
    if (w->prepared) {
        block = w->prepared;
        w->prepared = 0;
        write_block(part, block, w->key,
                    &(pgas_kvs_item_t){ .version = item->version, .expires_ms = item->expires_ms },
                    expires);
        pgasi_block_t *head = pgasi_block_at(part, block);
        pgasi_store(&head->meta, pgasi_load(&head->meta) | item->value_bytes);
    } else {
        block = slot ? pgasi_slab_alloc(part->base, &part->head->slabs, bytes) : 0;
        if (!block)
            return PGAS_ERR_NO_MEMORY;
        write_block(part, block, w->key, item, expires);
    }
    if (!slot) {
        w->prepared = block;
        return PGAS_ERR_NO_MEMORY;
    }
    if (f->slot)
        set_garbage(w, f);
    else
        count(&part->head->n_keys, 1);
    count(&part->head->data_bytes, data - (f->slot ? data_of(&f->content) : 0));
    __atomic_store_n(slot, pgasi_entry_make(w->key->tag, class_number, block), __ATOMIC_RELEASE);
    return PGAS_OK;
}

static pgas_status_t judge(const write_t *w, const pgas_kvs_item_t *item)
{
    const content_t *c = &w->found.content;
    if (item->op == PGAS_KVS_ADD)
        return w->present && c->value_bytes != sizeof(int64_t) ? PGAS_ERR_MISMATCH : PGAS_OK;
    switch (item->condition) {
    case PGAS_KVS_IF_ABSENT:
        if (w->present)
            return PGAS_ERR_EXISTS;
        break;
    case PGAS_KVS_IF_PRESENT:
        return w->present ? PGAS_OK : PGAS_ERR_NOT_FOUND;
    case PGAS_KVS_IF_VERSION:
        if (!w->present)
            return PGAS_ERR_NOT_FOUND;
        return c->version == item->version ? PGAS_OK : PGAS_ERR_MISMATCH;
    default:
        break;
    }
    return item->op == PGAS_KVS_DELETE && !w->found.slot ? PGAS_ERR_NOT_FOUND : PGAS_OK;
}

static uint64_t next_version(write_t *w)
{
    return w->hooks->version ? w->hooks->version
                             : __atomic_add_fetch(&w->part->head->version, 1, __ATOMIC_RELAXED);
}

static void report(const write_t *w, const pgas_kvs_item_t *now, bool deleted)
{
    if (w->hooks->changed)
        w->hooks->changed(w->hooks->arg, now, deleted);
}

static pgas_status_t do_delete(write_t *w, pgas_kvs_item_t *item)
{
    pgas_kvs_item_t now = { .key = w->key->key, .key_bytes = w->key->bytes };
    now.version = next_version(w);
    remove_entry(w->part, w->found.slot, &w->found.content);
    set_garbage(w, &w->found);
    report(w, &now, true);
    item->version = 0;
    return w->present ? PGAS_OK : PGAS_ERR_NOT_FOUND;
}

static pgas_status_t do_put(write_t *w, pgas_kvs_item_t *item)
{
    const content_t *c = &w->found.content;
    pgas_kvs_item_t now = *item;
    bool expires = item->expires_ms != 0 || item->keep_expiry;
    if (item->keep_expiry && w->present)
        now.expires_ms = c->expires_ms;
    now.version = next_version(w);
    pgas_status_t status = store_value(w, &now, expires);
    if (status == PGAS_OK) {
        report(w, &now, false);
        item->version = now.version;
    }
    return status;
}

static pgas_status_t do_add(write_t *w, pgas_kvs_item_t *item)
{
    const content_t *c = &w->found.content;
    uint64_t before = 0, summand, sum;
    if (w->present)
        pgasi_racy_copy(&before, c->value, sizeof before);
    memcpy(&summand, item->value, sizeof summand);
    sum = before + summand;
    pgas_kvs_item_t now = { .key = w->key->key,
                            .key_bytes = w->key->bytes,
                            .value = &sum,
                            .value_bytes = sizeof sum,
                            .expires_ms = w->present ? c->expires_ms : 0 };
    now.version = next_version(w);
    pgas_status_t status = store_value(w, &now, w->present && c->expires);
    if (status == PGAS_OK) {
        report(w, &now, false);
        item->version = now.version;
        memcpy(item->value, &before, sizeof before);
    }
    return status;
}

/* Copies a large value before the lock is taken. */
static pgas_status_t prepare(write_t *w, const pgas_kvs_item_t *item)
{
    bool expires = item->expires_ms != 0 || item->keep_expiry;
    size_t bytes = pgasi_block_bytes(w->key->bytes, item->value_bytes, expires);
    if (item->op != PGAS_KVS_PUT || bytes <= IN_PLACE_MAX)
        return PGAS_OK;
    w->prepared = pgasi_slab_alloc(w->part->base, &w->part->head->slabs, bytes);
    w->prepared_bytes = bytes;
    if (!w->prepared)
        return PGAS_ERR_NO_MEMORY;
    write_block(w->part, w->prepared, w->key, item, expires);
    return PGAS_OK;
}

static void free_blocks(const write_t *w)
{
    if (w->prepared)
        pgasi_slab_free(w->part->base, &w->part->head->slabs, w->prepared, w->prepared_bytes);
    if (w->garbage)
        pgasi_slab_free(w->part->base, &w->part->head->slabs, w->garbage, w->garbage_bytes);
}

pgas_status_t pgasi_part_write(const pgasi_part_t *part, const pgasi_key_t *key,
                               pgas_kvs_item_t *item, const pgasi_write_hooks_t *hooks)
{
    write_t w; /* not initialised as a whole, because find() stores most of it */
    w.part = part;
    w.key = key;
    w.hooks = hooks;
    w.bucket = &part->buckets[key->bucket];
    w.prepared = w.garbage = 0;
    pgas_status_t status = prepare(&w, item);
    if (status != PGAS_OK)
        return status;
    begin(hooks, key->bucket);
    if (!lock(part, w.bucket, &w.last)) {
        end(hooks, key->bucket);
        free_blocks(&w);
        return PGAS_ERR_PEER;
    }
    find(part, key, w.last | PGASI_BUCKET_LOCKED, &w.found);
    w.present = w.found.slot && !has_expired(&w.found.content);
    status = judge(&w, item);
    bool changes = status == PGAS_OK;
    if (changes && hooks->changes) {
        status = hooks->changes(hooks->arg, key->bucket);
        changes = status == PGAS_OK;
    }
    if (changes && part->used && w.present && item->op != PGAS_KVS_DELETE)
        note_use(part, key, &w.found);
    if (!changes)
        item->version = w.present ? w.found.content.version : 0;
    else if (item->op == PGAS_KVS_PUT)
        status = do_put(&w, item);
    else if (item->op == PGAS_KVS_ADD)
        status = do_add(&w, item);
    else
        status = do_delete(&w, item);
    unlock(w.bucket, w.last, changes);
    end(hooks, key->bucket);
    free_blocks(&w);
    return status;
}
