/* The ring of copies. Positions count bytes since creation, so a position that is more than the
 * ring's size behind the head is overwritten. A reader copies first and looks at the head again
 * afterwards. A copy that is read in the oldest quarter is stored again, so keys that are read
 * often stay. */
#include "kvs/cache.h"

#include <stdlib.h>
#include "base/spin.h"

#define WAYS          4u
#define BYTES_PER_WAY 128u
#define SHARE         64u /* a copy takes at most 1/64 of the ring */
#define POSITION_BITS 48
#define POSITION_MASK ((UINT64_C(1) << POSITION_BITS) - 1)

typedef struct {
    uint64_t hash, stamp, version;
    int64_t expires_ms;
    uint32_t key_bytes, value_bytes;
} copy_t;

struct pgasi_kvs_cache {
    char *ring;
    uint64_t bytes;  /* of the ring, a power of two */
    uint64_t n_sets; /* a power of two */
    uint64_t *table; /* [n_sets][WAYS]: position / 8 + 1, and 16 bits of the hash above; 0: empty */
    uint16_t *seen;  /* [n_sets]: 16 bits of the hash of the last key that was not stored */
    uint64_t head PGASI_ALIGNED(64);
    int lock;
};

pgasi_kvs_cache_t *pgasi_kvs_cache_create(size_t bytes)
{
    pgasi_kvs_cache_t *cache;
    if (posix_memalign((void **)(void *)&cache, 64, sizeof *cache) != 0)
        return NULL;
    memset(cache, 0, sizeof *cache);
    cache->bytes = UINT64_C(1) << (63 - __builtin_clzll(PGASI_MAX(bytes, 4096)));
    cache->n_sets = PGASI_MAX(cache->bytes / (WAYS * BYTES_PER_WAY), 1);
    cache->ring = malloc(cache->bytes);
    cache->table = calloc(cache->n_sets * WAYS, sizeof *cache->table);
    cache->seen = calloc(cache->n_sets, sizeof *cache->seen);
    if (cache->ring && cache->table && cache->seen)
        return cache;
    pgasi_kvs_cache_destroy(cache);
    return NULL;
}

void pgasi_kvs_cache_destroy(pgasi_kvs_cache_t *cache)
{
    if (!cache)
        return;
    free(cache->ring);
    free(cache->table);
    free(cache->seen);
    free(cache);
}

static uint64_t *set_of(const pgasi_kvs_cache_t *cache, uint64_t hash)
{
    return &cache->table[(hash & (cache->n_sets - 1)) * WAYS];
}

static uint64_t word_of(uint64_t hash, uint64_t position)
{
    return (hash >> POSITION_BITS) << POSITION_BITS | (position / 8 + 1);
}

static uint64_t position_of(uint64_t word)
{
    return ((word & POSITION_MASK) - 1) * 8;
}

static bool is_of(uint64_t word, uint64_t hash)
{
    return word && word >> POSITION_BITS == hash >> POSITION_BITS;
}

static bool is_live(const pgasi_kvs_cache_t *cache, uint64_t position)
{
    PGASI_KVS_FENCE(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&cache->head, __ATOMIC_RELAXED) - position <= cache->bytes;
}

/* Reads one copy. @return PGAS_INPROGRESS: it is not the key's, or not valid */
static pgas_status_t read_copy(const pgasi_kvs_cache_t *cache, uint64_t position,
                               const pgasi_key_t *key, uint64_t stamp, pgas_kvs_item_t *item)
{
    const char *at = cache->ring + (position & (cache->bytes - 1));
    copy_t copy;
    pgasi_racy_copy(&copy, at, sizeof copy);
    if (copy.hash != key->hash || copy.stamp != stamp || copy.key_bytes != key->bytes ||
        !is_live(cache, position) || !pgasi_racy_equal(at + sizeof copy, key->key, key->bytes))
        return PGAS_INPROGRESS;
    if (pgasi_kvs_has_expired(copy.expires_ms))
        return PGAS_INPROGRESS;
    bool fits = copy.value_bytes <= item->capacity;
    if (fits)
        pgasi_racy_copy(item->value, at + sizeof copy + PGASI_ALIGN_UP(key->bytes, 8),
                        copy.value_bytes);
    if (!is_live(cache, position))
        return PGAS_INPROGRESS;
    item->value_bytes = copy.value_bytes;
    item->version = copy.version;
    item->expires_ms = copy.expires_ms;
    return fits ? PGAS_OK : PGAS_ERR_RANGE;
}

pgas_status_t pgasi_kvs_cache_get(pgasi_kvs_cache_t *cache, const pgasi_key_t *key, uint64_t stamp,
                                  pgas_kvs_item_t *item)
{
    const uint64_t *set = set_of(cache, key->hash);
    for (uint32_t i = 0; i < WAYS; i++) {
        uint64_t word = __atomic_load_n(&set[i], __ATOMIC_ACQUIRE);
        if (!is_of(word, key->hash))
            continue;
        uint64_t position = position_of(word);
        if (!is_live(cache, position))
            continue;
        pgas_status_t status = read_copy(cache, position, key, stamp, item);
        if (status == PGAS_INPROGRESS)
            continue;
        uint64_t age = __atomic_load_n(&cache->head, __ATOMIC_RELAXED) - position;
        if (PGAS_UNLIKELY(age > cache->bytes / 4 * 3) && status == PGAS_OK)
            pgasi_kvs_cache_put(cache, key, stamp, item);
        return status;
    }
    return PGAS_INPROGRESS;
}

/* Moves the head before any byte is overwritten, so that readers of old copies notice it. */
static uint64_t reserve(pgasi_kvs_cache_t *cache, uint64_t bytes)
{
    uint64_t position = cache->head;
    uint64_t rest = cache->bytes - (position & (cache->bytes - 1));
    if (rest < bytes)
        position += rest; /* a copy does not wrap around */
    __atomic_store_n(&cache->head, position + bytes, __ATOMIC_RELAXED);
    PGASI_KVS_FENCE(__ATOMIC_RELEASE);
    return position;
}

/* The way of the same key, else an empty one, else that of the oldest copy. */
static uint64_t *choose_way(const pgasi_kvs_cache_t *cache, uint64_t hash)
{
    uint64_t *set = set_of(cache, hash), *best = set;
    for (uint32_t i = 0; i < WAYS; i++) {
        uint64_t word = set[i];
        if (is_of(word, hash))
            return &set[i];
        if ((word & POSITION_MASK) < (*best & POSITION_MASK))
            best = &set[i];
    }
    return best;
}

/* Once the ring is full, a key that has no copy is stored when it comes for the second time. So
 * keys that are read once displace nothing. */
static bool is_worth(pgasi_kvs_cache_t *cache, uint64_t way, uint64_t hash)
{
    uint16_t *seen = &cache->seen[hash & (cache->n_sets - 1)];
    uint16_t mark = (uint16_t)(hash >> POSITION_BITS);
    if (cache->head < cache->bytes || is_of(way, hash) || *seen == mark)
        return true;
    *seen = mark;
    return false;
}

static void store_copy(pgasi_kvs_cache_t *cache, uint64_t position, const pgasi_key_t *key,
                       uint64_t stamp, const pgas_kvs_item_t *item)
{
    char *at = cache->ring + (position & (cache->bytes - 1));
    copy_t copy = { .hash = key->hash,
                    .stamp = stamp,
                    .version = item->version,
                    .expires_ms = item->expires_ms,
                    .key_bytes = (uint32_t)key->bytes,
                    .value_bytes = (uint32_t)item->value_bytes };
    pgasi_racy_copy(at, &copy, sizeof copy);
    pgasi_racy_copy(at + sizeof copy, key->key, key->bytes);
    pgasi_racy_copy(at + sizeof copy + PGASI_ALIGN_UP(key->bytes, 8), item->value,
                    item->value_bytes);
}

void pgasi_kvs_cache_put(pgasi_kvs_cache_t *cache, const pgasi_key_t *key, uint64_t stamp,
                         const pgas_kvs_item_t *item)
{
    uint64_t bytes = sizeof(copy_t) + PGASI_ALIGN_UP(key->bytes, 8) +
                     PGASI_ALIGN_UP((uint64_t)item->value_bytes, 8);
    if (bytes > cache->bytes / SHARE || !pgasi_spin_try(&cache->lock))
        return;
    uint64_t *way = choose_way(cache, key->hash);
    if (is_worth(cache, *way, key->hash)) {
        uint64_t position = reserve(cache, bytes);
        store_copy(cache, position, key, stamp, item);
        __atomic_store_n(way, word_of(key->hash, position), __ATOMIC_RELEASE);
    }
    pgasi_spin_unlock(&cache->lock);
}
