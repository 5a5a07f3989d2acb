/* what: Slabs give blocks that do not overlap, and take them all back. A part of a store agrees
 *       with a table that is searched from one end to the other, also if all keys have one tag. The
 *       ring of copies never gives a copy that is not valid.
 * source: src/kvs/slab.h, part.h, cache.h; seeded model tests */
#include "base/rng.h"
#include "kvs/cache.h"
#include "kvs/part.h"
#include "t/tap.h"

#define MEMORY (8u << 20)

static char *memory;

static void *aligned(size_t bytes)
{
    void *at;
    if (posix_memalign(&at, 65536, bytes) != 0)
        exit(1);
    memset(at, 0xa5, bytes);
    return at;
}

/* ---- slabs ---- */

#define N_BLOCKS 3000

static void classes_hold_their_sizes(void)
{
    int n_bad = 0;
    uint32_t last = 0;
    for (size_t bytes = 1; bytes <= PGASI_SLAB_BLOCK_MAX; bytes++) {
        uint32_t c = pgasi_slab_class(bytes), room = pgasi_slab_class_bytes(c);
        n_bad += room < bytes || c < last || c >= PGASI_SLAB_CLASSES || room % 8 != 0;
        n_bad += bytes > 128 && (room - bytes) * 8 > room; /* an eighth is lost at most */
        last = c;
    }
    is_int(n_bad, 0, "every size up to 32 KiB has a class that wastes at most an eighth");
    is_int(pgasi_slab_class(PGASI_SLAB_BLOCK_MAX + 1), PGASI_SLAB_RUN, "larger ones are runs");
}

typedef struct {
    uint64_t block;
    size_t bytes;
    unsigned char fill;
} block_t;

static size_t random_bytes(pgasi_rng_t *rng)
{
    switch (pgasi_rng_below(rng, 20)) {
    case 0:
        return 1 + pgasi_rng_below(rng, 200000);
    case 1:
    case 2:
        return 1 + pgasi_rng_below(rng, 30000);
    default:
        return 1 + pgasi_rng_below(rng, 300);
    }
}

static bool is_filled(const char *base, const block_t *b)
{
    const unsigned char *at = (const unsigned char *)base + b->block * 8;
    return at[0] == b->fill && at[b->bytes / 2] == b->fill && at[b->bytes - 1] == b->fill;
}

/* Fills each block by a byte of its own. A block that overlaps another one changes its bytes. */
static int run_slabs(uint64_t seed, bool break_it, uint64_t *left_p)
{
    static block_t blocks[N_BLOCKS];
    char *base = memory;
    pgasi_slabs_t *slabs = (pgasi_slabs_t *)(void *)base;
    pgasi_rng_t rng;
    int n_bad = 0;
    uint64_t used;
    pgasi_rng_seed(&rng, seed);
    memset(slabs, 0, sizeof *slabs);
    memset(blocks, 0, sizeof blocks);
    n_bad += !pgasi_slabs_init(base, slabs, 8192, MEMORY);
    for (int step = 0; step < 40000; step++) {
        block_t *b = &blocks[pgasi_rng_below(&rng, N_BLOCKS)];
        if (b->block) {
            n_bad += !is_filled(base, b);
            pgasi_slab_free(base, slabs, b->block, b->bytes);
            b->block = 0;
            continue;
        }
        b->bytes = random_bytes(&rng);
        b->block = pgasi_slab_alloc(base, slabs, b->bytes);
        b->fill = (unsigned char)step;
        if (b->block)
            memset(base + b->block * 8, b->fill, b->bytes);
        b->fill ^= break_it && step > 30000;
    }
    for (int i = 0; i < N_BLOCKS; i++)
        if (blocks[i].block)
            pgasi_slab_free(base, slabs, blocks[i].block, blocks[i].bytes);
    pgasi_slab_use(slabs, left_p, &used);
    return n_bad + (used != 0);
}

static void slabs_do_not_overlap(uint64_t seed)
{
    uint64_t left;
    is_int(run_slabs(seed, false, &left), 0, "40000 random allocations and frees");
    ok(left <= (uint64_t)PGASI_SLAB_CLASSES * PGASI_SLAB_BYTES,
       "at most one empty slab of each class is kept: %" PRIu64 " bytes", left);
    ok(run_slabs(seed, true, &left) > 0, "the check finds overwritten blocks (broken on purpose)");
}

static void a_full_part_gives_nothing(void)
{
    pgasi_slabs_t *slabs = (pgasi_slabs_t *)(void *)memory;
    memset(slabs, 0, sizeof *slabs);
    pgasi_slabs_init(memory, slabs, 8192, MEMORY);
    uint64_t n = 0, last = 0, block;
    while ((block = pgasi_slab_alloc(memory, slabs, 65536)) != 0) {
        last = block;
        n++;
    }
    ok(n >= MEMORY / 65536 - 2, "runs fill the memory: %" PRIu64, n);
    is_int((int)pgasi_slab_alloc(memory, slabs, 40), 0, "then there is no room for a slab");
    pgasi_slab_free(memory, slabs, last, 65536);
    ok(pgasi_slab_alloc(memory, slabs, 40) != 0, "a run that is freed becomes a slab");
}

/* A class keeps an empty slab, and a slab with one free block comes before it in the list. */
static void an_empty_slab_is_given_back(void)
{
    enum { N = PGASI_SLAB_BYTES / 64 };
    uint64_t first[N], second[N];
    pgasi_slabs_t *slabs = (pgasi_slabs_t *)(void *)memory;
    memset(slabs, 0, sizeof *slabs);
    pgasi_slabs_init(memory, slabs, 8192, MEMORY);
    for (int i = 0; i < N; i++)
        first[i] = pgasi_slab_alloc(memory, slabs, 64);
    for (int i = 0; i < N; i++)
        second[i] = pgasi_slab_alloc(memory, slabs, 64);
    while (pgasi_slab_alloc(memory, slabs, 65536) != 0)
        ;
    for (int i = 0; i < N; i++)
        pgasi_slab_free(memory, slabs, first[i], 64);
    pgasi_slab_free(memory, slabs, second[0], 64);
    ok(pgasi_slab_alloc(memory, slabs, 65536) != 0, "an empty slab becomes a run, behind another");
}

/* ---- parts ---- */

#define N_KEYS 400

typedef struct {
    bool exists;
    uint64_t version;
    size_t bytes;
    char value[4000];
} model_t;

static model_t model[N_KEYS];
static const pgasi_write_hooks_t no_hooks;

/* few buckets, so that chains overflow; n_tags 1: every key has the same tag */
static pgasi_key_t key_of(char *text, int i, uint32_t n_buckets, uint32_t n_tags)
{
    int bytes = snprintf(text, 16, "key%c%d", i % 7 ? 'x' : '\0', i);
    return (pgasi_key_t){ .key = text,
                          .bytes = (size_t)bytes,
                          .hash = (uint64_t)i * 77,
                          .bucket = (uint32_t)i % n_buckets,
                          .tag = 1 + (uint32_t)i % n_tags };
}

static void fill(char *value, size_t bytes, pgasi_rng_t *rng)
{
    for (size_t i = 0; i < bytes; i++)
        value[i] = (char)pgasi_rng_below(rng, 256);
}

static int compare_key(const pgasi_part_t *part, const pgasi_key_t *key, const model_t *m)
{
    static char value[4000];
    pgas_kvs_item_t item = { .value = value, .capacity = sizeof value };
    pgas_status_t status = pgasi_part_get_item(part, key, &item);
    if (!m->exists)
        return status != PGAS_ERR_NOT_FOUND;
    return status != PGAS_OK || item.value_bytes != m->bytes || item.version != m->version ||
           memcmp(value, m->value, m->bytes) != 0;
}

static int write_key(const pgasi_part_t *part, const pgasi_key_t *key, model_t *m, pgasi_rng_t *rng)
{
    static char value[4000];
    pgas_kvs_condition_t condition = (pgas_kvs_condition_t)pgasi_rng_below(rng, 4);
    bool puts = pgasi_rng_below(rng, 3) > 0, stale = pgasi_rng_below(rng, 2);
    size_t bytes = pgasi_rng_below(rng, pgasi_rng_below(rng, 8) ? 200 : sizeof value);
    pgas_kvs_item_t item = { .key = key->key,
                             .key_bytes = key->bytes,
                             .value = value,
                             .value_bytes = bytes,
                             .version = m->version + stale,
                             .op = puts ? PGAS_KVS_PUT : PGAS_KVS_DELETE,
                             .condition = condition };
    fill(value, bytes, rng);
    pgas_status_t expected = PGAS_OK;
    if (condition == PGAS_KVS_IF_ABSENT && m->exists)
        expected = PGAS_ERR_EXISTS;
    else if (!m->exists && (condition >= PGAS_KVS_IF_PRESENT || !puts))
        expected = PGAS_ERR_NOT_FOUND;
    else if (condition == PGAS_KVS_IF_VERSION && stale)
        expected = PGAS_ERR_MISMATCH;
    pgas_status_t status = pgasi_part_write(part, key, &item, &no_hooks);
    if (status != expected)
        return 1;
    if (status == PGAS_OK) {
        m->exists = puts;
        m->bytes = bytes;
        memcpy(m->value, value, bytes);
        int n_bad = puts && item.version <= m->version;
        m->version = puts ? item.version : m->version;
        return n_bad;
    }
    return 0;
}

static int run_part(uint64_t seed, uint32_t n_tags, bool break_it)
{
    enum { N_BUCKETS = 5 };
    pgasi_part_t part;
    pgasi_rng_t rng;
    char text[16];
    uint64_t n = 0;
    pgasi_rng_seed(&rng, seed);
    memset(model, 0, sizeof model);
    int n_bad = !pgasi_part_init(memory, MEMORY, N_BUCKETS, false);
    pgasi_part_open(memory, &part);
    for (int step = 0; step < 30000; step++) {
        int i = (int)pgasi_rng_below(&rng, N_KEYS);
        pgasi_key_t key = key_of(text, i, N_BUCKETS, n_tags);
        n_bad += write_key(&part, &key, &model[i], &rng);
        n_bad += compare_key(&part, &key, &model[i]);
        if (break_it && step == 20000)
            part.buckets[0].entry[3] = 0;
    }
    for (int i = 0; i < N_KEYS; i++) {
        pgasi_key_t key = key_of(text, i, N_BUCKETS, n_tags);
        n_bad += compare_key(&part, &key, &model[i]);
        n += model[i].exists;
    }
    n_bad += n != part.head->n_keys;
    pgasi_scratch_t scratch = { NULL, 0, 0 };
    pgas_kvs_item_t item;
    size_t at = 0;
    for (uint32_t b = 0; b < N_BUCKETS; b++)
        n_bad += pgasi_part_copy(&part, b, &no_hooks, &scratch) != PGAS_OK;
    for (; pgasi_scratch_next(&scratch, &at, &item); n--)
        n_bad += item.key_bytes < 5;
    free(scratch.at);
    for (uint32_t b = 0; b < N_BUCKETS; b++)
        n_bad += pgasi_part_clear(&part, b, &no_hooks) != PGAS_OK;
    return n_bad + (n != 0) + (part.head->n_keys != 0) + (part.head->data_bytes != 0);
}

static void parts_agree_with_a_table(uint64_t seed)
{
    is_int(run_part(seed, 200, false), 0, "30000 random writes and reads in 5 buckets");
    is_int(run_part(seed, 1, false), 0, "the same where all keys have one tag");
    ok(run_part(seed, 200, true) > 0, "the check finds a lost entry (broken on purpose)");
}

static void a_given_version_is_kept(void)
{
    pgasi_part_t part;
    char text[16], byte = 'b';
    const pgasi_write_hooks_t hooks = { .version = 42 };
    pgas_kvs_item_t item = { .op = PGAS_KVS_PUT, .value = &byte, .value_bytes = 1, .capacity = 1 };
    pgasi_part_init(memory, MEMORY, 64, false);
    pgasi_part_open(memory, &part);
    pgasi_key_t key = key_of(text, 1, 64, 200);
    pgas_status_t status = pgasi_part_write(&part, &key, &item, &hooks);
    item.version = 0;
    ok(status == PGAS_OK && pgasi_part_get_item(&part, &key, &item) == PGAS_OK &&
           item.version == 42 && part.head->version == 0,
       "a recovered key keeps its version");
}

static pgas_status_t refuse(void *arg, uint32_t bucket)
{
    (void)arg;
    (void)bucket;
    return PGAS_ERR_AGAIN;
}

/* Otherwise a handler would evict again and again. */
static void refused_keys_stay(const pgasi_part_t *part)
{
    const pgasi_write_hooks_t hooks = { .changes = refuse };
    uint64_t n = part->head->n_keys, n_evicted = part->head->n_evicted;
    pgas_status_t status = PGAS_OK;
    for (int i = 0; i < 20; i++)
        status = pgasi_part_evict(part, 1100, &hooks);
    ok(status == PGAS_ERR_AGAIN && part->head->n_keys == n && part->head->n_evicted == n_evicted,
       "an eviction that may delete nothing says so");
    for (uint32_t b = 0; b < 2048 && status == PGAS_ERR_AGAIN; b++)
        if (part->buckets[b].entry[0])
            status = pgasi_part_clear(part, b, &hooks);
    ok(status == PGAS_ERR_AGAIN && part->head->n_keys == n, "so does a deletion of all keys");
}

static void cold_keys_are_evicted(void)
{
    pgasi_part_t part;
    char text[16], value[1000];
    int n_kept = 0, n_lost = 0;
    memset(value, 7, sizeof value);
    pgasi_part_init(memory, MEMORY, 2048, true);
    pgasi_part_open(memory, &part);
    for (int i = 0; i < 60000; i++) {
        pgasi_key_t key = key_of(text, i, 2048, 200);
        pgas_kvs_item_t item = { .value = value, .value_bytes = sizeof value, .op = PGAS_KVS_PUT };
        while (pgasi_part_write(&part, &key, &item, &no_hooks) == PGAS_ERR_NO_MEMORY)
            if (pgasi_part_evict(&part, 1100, &no_hooks) != PGAS_OK)
                i = 60000;
        pgas_kvs_item_t read = { .value = value, .capacity = sizeof value };
        for (int hot = 0; hot < 100; hot++) { /* the first 100 keys are read again and again */
            key = key_of(text, hot, 2048, 200);
            pgasi_part_get_item(&part, &key, &read);
        }
    }
    for (int i = 0; i < 200; i++) {
        pgasi_key_t key = key_of(text, i, 2048, 200);
        pgas_kvs_item_t read = { .value = value, .capacity = sizeof value };
        bool is_there = pgasi_part_get_item(&part, &key, &read) == PGAS_OK;
        n_kept += is_there && i < 100;
        n_lost += !is_there && i >= 100;
    }
    is_int(n_kept, 100, "keys that are read stay");
    is_int(n_lost, 100, "keys of the same age that are not read go");
    ok(part.head->n_evicted > 50000, "%" PRIu64 " keys were evicted", part.head->n_evicted);
    ok(part.head->n_keys + part.head->n_evicted == 60000, "each of them is counted once");
    refused_keys_stay(&part);
}

/* Writes an item, and evicts other keys as long as it finds no memory. */
static pgas_status_t write_evicting(const pgasi_part_t *part, int i, pgas_kvs_item_t *item)
{
    char text[16];
    pgasi_key_t key = key_of(text, i, 2048, 200);
    pgas_status_t status;
    do
        status = pgasi_part_write(part, &key, item, &no_hooks);
    while (status == PGAS_ERR_NO_MEMORY && pgasi_part_evict(part, 1100, &no_hooks) == PGAS_OK);
    return status;
}

/* Nobody reads a key. The first 50 keys are counters, and the next 50 are overwritten. */
static void written_keys_stay(void)
{
    enum { COUNTERS = 50, HOT = 100, N = 20000 };
    static char value[1000];
    pgasi_part_t part;
    int n_lost = 0, n_wrong = 0;
    pgasi_part_init(memory, MEMORY, 2048, true);
    pgasi_part_open(memory, &part);
    for (int i = 0; i < N; i++) {
        bool first = i < HOT;
        pgas_kvs_item_t item = { .value = value, .value_bytes = sizeof value, .op = PGAS_KVS_PUT };
        if (i >= COUNTERS)
            write_evicting(&part, i, &item);
        for (int hot = 0; hot < HOT && !first; hot++) {
            int64_t number = 1;
            pgas_kvs_item_t add = { .value = &number, .op = PGAS_KVS_ADD };
            item.condition = PGAS_KVS_IF_PRESENT;
            if (hot >= COUNTERS)
                n_lost += write_evicting(&part, hot, &item) != PGAS_OK;
            else if (write_evicting(&part, hot, &add) == PGAS_OK)
                n_wrong += number != i - HOT;
        }
    }
    is_int(n_lost, 0, "keys that are overwritten stay");
    is_int(n_wrong, 0, "counters that are added to stay");
}

/* ---- expired keys ---- */

static pgas_status_t put_until(const pgasi_part_t *part, int i, int64_t expires_ms,
                               const pgasi_write_hooks_t *hooks)
{
    static char value[1000];
    char text[16];
    pgasi_key_t key = key_of(text, i, 64, 200);
    pgas_kvs_item_t item = {
        .value = value, .value_bytes = sizeof value, .expires_ms = expires_ms, .op = PGAS_KVS_PUT
    };
    return pgasi_part_write(part, &key, &item, hooks);
}

/* Every tenth key has expired, also in overflow buckets. */
static void expired_keys_make_room(void)
{
    const pgasi_write_hooks_t refuses = { .changes = refuse };
    pgasi_part_t part;
    int n = 0, n_left = 0;
    uint64_t n_before;
    pgasi_part_init(memory, MEMORY, 64, false);
    pgasi_part_open(memory, &part);
    for (; put_until(&part, n, n % 10 ? INT64_MAX : 1, &no_hooks) == PGAS_OK; n++)
        ;
    n_before = part.head->n_keys;
    is_int(pgasi_part_expire(&part, 1100, &refuses), PGAS_ERR_AGAIN, "a walk that is refused");
    is_int(n_before - part.head->n_keys, 0, "deletes nothing");
    is_int(pgasi_part_expire(&part, 1100, &no_hooks), PGAS_OK, "a walk finds expired keys");
    ok(n_before - part.head->n_keys > 100, "and deletes many: %d",
       (int)(n_before - part.head->n_keys));
    is_int(put_until(&part, n, INT64_MAX, &no_hooks), PGAS_OK, "then there is room");
    while (pgasi_part_expire(&part, MEMORY, &no_hooks) == PGAS_OK)
        ;
    for (int i = 0; i < n; i++) {
        char value[1000], text[16];
        pgasi_key_t key = key_of(text, i, 64, 200);
        pgas_kvs_item_t read = { .value = value, .capacity = sizeof value };
        n_left += pgasi_part_get_item(&part, &key, &read) == PGAS_OK;
    }
    is_int(n_left, n - (n + 9) / 10, "the other keys stay");
    is_int(part.head->n_keys, n_left + 1, "and no expired one");
}

/* ---- deaths ---- */

/* A process that died held the lock of a chain, and then a lock of the slabs. */
static void locks_of_the_dead_end_waits(void)
{
    pgasi_part_t part;
    char text[16], value[64] = { 0 };
    pgas_kvs_item_t put = { .op = PGAS_KVS_PUT, .value = value, .value_bytes = 64, .capacity = 64 };
    pgasi_key_t key = key_of(text, 1, 8, 1), other = key_of(text, 2, 8, 1);
    memset(memory, 0, 4096);
    pgasi_part_init(memory, MEMORY, 8, false);
    pgasi_part_open(memory, &part);
    is_int(pgasi_part_write(&part, &key, &put, &no_hooks), PGAS_OK, "a put");
    part.buckets[key.bucket].last |= PGASI_BUCKET_LOCKED;
    pgasi_slabs_break(&part.head->slabs);
    is_int(pgasi_part_get_item(&part, &key, &put), PGAS_ERR_PEER, "a get of a locked chain");
    is_int(pgasi_part_write(&part, &key, &put, &no_hooks), PGAS_ERR_PEER, "a put");
    pgasi_scratch_t scratch = { NULL, 0, 0 };
    is_int(pgasi_part_copy(&part, key.bucket, &no_hooks, &scratch), PGAS_ERR_PEER, "a scan");
    free(scratch.at);
    for (int i = 0; i < PGASI_SLAB_CLASSES; i++)
        part.head->slabs.classes[i].lock = 1;
    put.value_bytes = 64;
    is_int(pgasi_part_write(&part, &other, &put, &no_hooks), PGAS_ERR_NO_MEMORY,
           "slabs that are locked give no memory");
}

/* ---- copies ---- */

static void copies_are_valid_or_absent(uint64_t seed)
{
    enum { N = 3000 };
    pgasi_kvs_cache_t *cache = pgasi_kvs_cache_create(65536);
    static uint64_t stamps[N];
    char text[16];
    pgasi_rng_t rng;
    int n_wrong = 0, n_hits = 0, n_hot = 0;
    pgasi_rng_seed(&rng, seed);
    memset(stamps, 0, sizeof stamps);
    for (int step = 0; step < 100000; step++) {
        int i = (int)pgasi_rng_below(&rng, step % 2 ? 50 : N); /* 50 keys are hot */
        uint64_t value[8] = { 0 };
        pgasi_key_t key = key_of(text, i, 1, 1);
        key.hash *= UINT64_C(0x9e3779b97f4a7c15);
        pgas_kvs_item_t item = { .value = value, .capacity = sizeof value };
        pgas_status_t status = pgasi_kvs_cache_get(cache, &key, stamps[i], &item);
        if (status == PGAS_OK) {
            n_hits++;
            n_hot += i < 50;
            n_wrong += value[0] != stamps[i] || value[7] != (uint64_t)i || item.value_bytes != 64;
            stamps[i] += pgasi_rng_below(&rng, 20) == 0; /* a writer makes the copy invalid */
        } else {
            value[0] = stamps[i];
            value[7] = (uint64_t)i;
            item.value_bytes = sizeof value;
            pgasi_kvs_cache_put(cache, &key, stamps[i], &item);
        }
    }
    is_int(n_wrong, 0, "no copy is out of date, in %d hits", n_hits);
    ok(n_hot > 35000, "keys that are read often stay in the ring: %d hits", n_hot);
    pgasi_kvs_cache_destroy(cache);
}

static pgasi_key_t copy_key(char *text, int i)
{
    pgasi_key_t key = key_of(text, i, 1, 1);
    key.hash *= UINT64_C(0x9e3779b97f4a7c15);
    return key;
}

/* The ring is full of keys when others come once each, and then one of these comes again. */
static void single_reads_displace_nothing(void)
{
    enum { FIRST = 2000, OTHERS = 20000 };
    pgasi_kvs_cache_t *cache = pgasi_kvs_cache_create(65536);
    uint64_t value[8] = { 0 };
    char text[16];
    pgas_kvs_item_t item = { .value = value, .value_bytes = sizeof value, .capacity = 64 };
    int n_before = 0, n_after = 0;
    for (int i = 0; i < FIRST; i++) {
        pgasi_key_t key = copy_key(text, i);
        pgasi_kvs_cache_put(cache, &key, 0, &item);
        pgasi_kvs_cache_put(cache, &key, 0, &item);
    }
    for (int i = FIRST - 300; i < FIRST; i++) {
        pgasi_key_t key = copy_key(text, i);
        n_before += pgasi_kvs_cache_get(cache, &key, 0, &item) == PGAS_OK;
    }
    for (int i = FIRST; i < FIRST + OTHERS; i++) {
        pgasi_key_t key = copy_key(text, i);
        pgasi_kvs_cache_put(cache, &key, 0, &item);
    }
    for (int i = FIRST - 300; i < FIRST; i++) {
        pgasi_key_t key = copy_key(text, i);
        n_after += pgasi_kvs_cache_get(cache, &key, 0, &item) == PGAS_OK;
    }
    ok(n_before > 200 && n_after > n_before - 20, "of %d copies %d stay", n_before, n_after);
    pgasi_key_t last = copy_key(text, FIRST + OTHERS - 1);
    pgas_status_t once = pgasi_kvs_cache_get(cache, &last, 0, &item);
    pgasi_kvs_cache_put(cache, &last, 0, &item);
    pgas_status_t twice = pgasi_kvs_cache_get(cache, &last, 0, &item);
    ok(once == PGAS_INPROGRESS && twice == PGAS_OK, "the second read of a key is stored");
    pgasi_kvs_cache_destroy(cache);
}

int main(void)
{
    plan(37);
    uint64_t seed = tap_seed(20261128);
    memory = (char *)aligned(MEMORY);
    classes_hold_their_sizes();
    slabs_do_not_overlap(seed);
    a_full_part_gives_nothing();
    an_empty_slab_is_given_back();
    parts_agree_with_a_table(seed);
    a_given_version_is_kept();
    cold_keys_are_evicted();
    written_keys_stay();
    expired_keys_make_room();
    locks_of_the_dead_end_waits();
    copies_are_valid_or_absent(seed);
    single_reads_displace_nothing();
    free(memory);
    return done();
}
