/* Keys and values of all sizes in a key-value store.
 *   what:   Values of 0 to 5,000 bytes, those around all powers of two up to 8 MiB, and keys of 1
 *           to 65,536 bytes with zeros in them come back whole on another rank. A value grows and
 *           shrinks; when all keys are deleted, no block is left in use.
 *   np:     1 2 3 5
 *   nodes:  0 1 2 1
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=3,reorder=3,again=1 | PGAS_CALL_MAX=1K |
 *   env:    PGAS_SERVICE_THREADS=0
 *   timeout: 240
 *   source: pgas/kvs.h; KVS_LARGE=1: also a value of 512 MiB, which needs 3 GB of memory
 */
#include "pgas/kvs.h"
#include "t/pattern.h"
#include "t/random.h"
#include "t/spmd/kvs_keys.h"

#define SMALL_MAX      5000
#define LARGE_MAX      ((size_t)8 << 20)
#define OVERFLOW_BYTES 128 /* of a bucket behind a full one; it stays */
#define STORE          ((size_t)40 << 20)

static pgas_kvs_t *kvs;
static unsigned char *value, *got;

static void put_pattern(const void *key, size_t key_bytes, uint64_t seed, size_t n)
{
    pattern_fill(value, seed, n);
    BAD(pgas_kvs_put(kvs, key, key_bytes, value, n));
}

static bool has_pattern(const void *key, size_t key_bytes, uint64_t seed, size_t n)
{
    size_t bytes = 0;
    memset(got, 0xEE, n + 1);
    pgas_status_t status = pgas_kvs_get(kvs, key, key_bytes, got, n, &bytes);
    bool good = status == PGAS_OK && bytes == n && pattern_matches(got, seed, n);
    if (!good)
        crew_remark("a value is not whole", pgas_status_name(status));
    return good && got[n] == 0xEE;
}

static void nothing_is_left(const char *what)
{
    pgas_kvs_info_t info = { .size = sizeof info };
    BAD(pgas_barrier(NULL));
    BAD(pgas_kvs_info(kvs, &info));
    spmd_ok(info.n_keys == 0 && info.block_bytes <= OVERFLOW_BYTES * info.n_overflow &&
                info.data_bytes == 0,
            "%s: when all are deleted, no block is in use, except buckets", what);
    BAD(pgas_barrier(NULL));
}

/* Rank r puts the sizes r, r + n, ..; its right neighbour reads and deletes them. */
static void small_values(void)
{
    char key[32];
    int left = (me + n_ranks - 1) % n_ranks;
    bool good = true;
    for (int n = me; n <= SMALL_MAX; n += n_ranks)
        put_pattern(key_of(key, "small", n), KEY_BYTES, (uint64_t)n, (size_t)n);
    BAD(pgas_barrier(NULL));
    for (int n = left; n <= SMALL_MAX; n += n_ranks)
        good &= has_pattern(key_of(key, "small", n), KEY_BYTES, (uint64_t)n, (size_t)n);
    spmd_ok(good, "values of each size from 0 to %d", SMALL_MAX);
    BAD(pgas_barrier(NULL));
    for (int n = left; n <= SMALL_MAX; n += n_ranks)
        BAD(pgas_kvs_delete(kvs, key_of(key, "small", n), KEY_BYTES));
    nothing_is_left("small values");
}

/* Sizes with which key, value and a header of up to 80 bytes end around 2^k and 3 * 2^(k-1). */
static bool around(size_t base)
{
    char key[32];
    bool good = true;
    for (size_t i = 0; i <= 99; i += base < 100000 ? 1 + i / 20 * 6 : 10) {
        size_t n = base + 9 - i;
        if (n > LARGE_MAX)
            continue;
        key_of(key, "around", me);
        put_pattern(key, KEY_BYTES, n, n);
        good &= has_pattern(key, KEY_BYTES, n, n);
    }
    return good;
}

static void large_values(void)
{
    char key[32];
    int left = (me + n_ranks - 1) % n_ranks;
    bool good = true;
    for (size_t base = 4096; base <= LARGE_MAX / 4; base *= 2)
        good &= around(base) && around(base + base / 2);
    spmd_ok(good, "sizes around powers of two, up to 2 MiB");
    BAD(pgas_barrier(NULL));
    /* One rank at a time, so that the home has room for the old and the new value. */
    good = true;
    for (int r = 0; r < n_ranks; r++) {
        size_t n = LARGE_MAX - (size_t)r * 4097;
        if (r == me)
            put_pattern(key_of(key, "around", me), KEY_BYTES, n, n);
        BAD(pgas_barrier(NULL));
        size_t bytes = 0;
        key_of(key, "around", r);
        if (r == left)
            good &= has_pattern(key, KEY_BYTES, n, n) &&
                    pgas_kvs_get(kvs, key, KEY_BYTES, got, n - 1, &bytes) == PGAS_ERR_RANGE &&
                    bytes == n;
        BAD(pgas_barrier(NULL));
        if (r == me)
            BAD(pgas_kvs_delete(kvs, key, KEY_BYTES));
    }
    spmd_ok(good, "8 MiB, read by another rank; a capacity of one byte less is refused");
    nothing_is_left("large values");
}

/* Keys of zeros differ by their lengths only. */
static void keys_of_zeros(void)
{
    static const unsigned char zeros[300] = { 0 };
    bool good = true;
    for (size_t n = 1 + (size_t)me; n <= 300; n += (size_t)n_ranks)
        put_pattern(zeros, n, n, 20);
    BAD(pgas_barrier(NULL));
    for (size_t n = 1; n <= 300; n++)
        good &= has_pattern(zeros, n, n, 20);
    spmd_ok(good, "300 keys that have only zeros");
    BAD(pgas_barrier(NULL));
    for (size_t n = 1 + (size_t)me; n <= 300; n += (size_t)n_ranks)
        BAD(pgas_kvs_delete(kvs, zeros, n));
    nothing_is_left("keys of zeros");
}

/* Two keys of n bytes that differ in the last byte only. */
static bool long_key(unsigned char *key, size_t n)
{
    memset(key, 0, n);
    key[n / 2] = (unsigned char)me;
    key[n - 1] = 1;
    put_pattern(key, n, n, 50);
    key[n - 1] = 2;
    put_pattern(key, n, n + 1, 60);
    key[n - 1] = 1;
    bool good = has_pattern(key, n, n, 50);
    BAD(pgas_kvs_delete(kvs, key, n));
    key[n - 1] = 2;
    good &= has_pattern(key, n, n + 1, 60);
    BAD(pgas_kvs_delete(kvs, key, n));
    return good;
}

static void long_keys(void)
{
    unsigned char *key = job_alloc(PGAS_KVS_KEY_MAX);
    bool good = true;
    for (size_t n = 3; n <= 600; n++)
        good &= long_key(key, n);
    for (size_t base = 1024; base <= PGAS_KVS_KEY_MAX; base *= 2)
        for (size_t n = base - 2; n <= base + 2 && n <= PGAS_KVS_KEY_MAX; n++)
            good &= long_key(key, n);
    spmd_ok(good, "keys of up to 65,536 bytes with zeros in them");
    free(key);
    nothing_is_left("long keys");
}

static void grows_and_shrinks(void)
{
    char key[32];
    bool good = true;
    key_of(key, "elastic", me);
    for (int i = 0; i < 400; i++) {
        size_t n = below(3) ? below(600) : below(200000);
        put_pattern(key, KEY_BYTES, (uint64_t)i, n);
        good &= has_pattern(key, KEY_BYTES, (uint64_t)i, n);
    }
    spmd_ok(good, "a value of 400 sizes, one after the other");
    BAD(pgas_kvs_delete(kvs, key, KEY_BYTES));
    nothing_is_left("one key");
}

/* Values of all sizes in one run, so that some items travel alone and others together. */
static void mixed_runs(void)
{
    enum { N = 24 };
    static char keys[N][32];
    pgas_kvs_item_t items[N];
    size_t at[N + 1] = { 0 };
    bool good = true;
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < N; i++) {
            size_t n = i % 5 == round % 5 ? 20000 + below(100000) : below(3000);
            key_of(keys[i], "mixed", me * N + i);
            pattern_fill(value + at[i], (uint64_t)(i + round), n);
            items[i] = item_of(keys[i], PGAS_KVS_PUT, value + at[i], n);
            at[i + 1] = at[i] + n;
        }
        good &= pgas_kvs_run(kvs, items, N, NULL) == PGAS_OK;
        for (int i = 0; i < N; i++)
            items[i] = item_of(keys[i], PGAS_KVS_GET, got + at[i], at[i + 1] - at[i]);
        good &= pgas_kvs_run(kvs, items, N, NULL) == PGAS_OK;
        for (int i = 0; i < N; i++)
            good &= items[i].value_bytes == at[i + 1] - at[i] &&
                    pattern_matches(got + at[i], (uint64_t)(i + round), items[i].value_bytes);
    }
    spmd_ok(good, "runs of small and large values");
    for (int i = 0; i < N; i++)
        BAD(pgas_kvs_delete(kvs, keys[i], KEY_BYTES));
    nothing_is_left("runs");
}

/* The largest value, in a store of its own. */
static void the_largest_value(void)
{
    if (!getenv("KVS_LARGE")) {
        spmd_skip(1, "a value of 512 MiB: KVS_LARGE=1 asks for it");
        return;
    }
    size_t n = PGAS_KVS_VALUE_MAX;
    if (me == 0) {
        value = realloc(value, n);
        put_pattern("largest", 7, 7, n);
    }
    BAD(pgas_barrier(NULL));
    bool good = true;
    if (me == n_ranks - 1) {
        got = realloc(got, n + 1);
        good = has_pattern("largest", 7, 7, n);
        BAD(pgas_kvs_delete(kvs, "largest", 7));
    }
    spmd_ok(good, "a value of 512 MiB");
}

int main(int argc, char **argv)
{
    bool large = getenv("KVS_LARGE") != NULL;
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    setenv("PGAS_HEAP_SIZE", large ? "1G" : "96M", 0);
    value = job_alloc(LARGE_MAX);
    got = job_alloc(LARGE_MAX + 1);
    job_begin(&argc, &argv, 17);
    pgasi_rng_seed(&rng, spmd_seed(1) + 1000 * (uint64_t)spmd_rank());
    opts.n_keys = 6000;
    opts.bytes = large ? (size_t)700 << 20 : STORE;
    spmd_ok(pgas_kvs_create(NULL, &opts, &kvs) == PGAS_OK, "create");
    small_values();
    large_values();
    keys_of_zeros();
    long_keys();
    grows_and_shrinks();
    mixed_runs();
    the_largest_value();
    spmd_is_int(crew_faults(), 0, "no status was wrong");
    spmd_ok(pgas_kvs_destroy(kvs) == PGAS_OK, "destroy");
    free(value);
    free(got);
    return job_end();
}
