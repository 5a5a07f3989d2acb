/* Many keys and few buckets, many threads, and stores that are full.
 *   what:   5,000 keys in a table for a few stay apart, although tags of 8 bits agree for hundreds
 *           of them. Storms of deletes and insertions leave each key as its thread left it. A scan
 *           sees each key that stays while others come and go. A full store refuses a write and
 *           keeps the old value; a cache deletes old keys instead.
 *   np:     1 2 3 4 5
 *   nodes:  0 1 2 2 1
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=5,reorder=5,again=2 |
 *   env:    PGAS_SERVICE_THREADS=0 | PGAS_CALL_MAX=1K | PGAS_FAULT=delay=3,reorder=3,again=1
 *   log:    a rank.s part of .* is full
 *   timeout: 240
 *   source: pgas/kvs.h
 */
#include "pgas/kvs.h"
#include "kvs/kvs.h"
#include "t/pattern.h"
#include "t/random.h"
#include "t/spmd/kvs_keys.h"

#define CROWD   5000
#define THREADS 2

static pgas_kvs_t *kvs;

static void create(uint64_t n_keys, size_t bytes, bool evict)
{
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    opts.n_keys = n_keys;
    opts.bytes = bytes;
    opts.evict = evict;
    BAD(pgas_kvs_create(NULL, &opts, &kvs));
}

static void destroy(void)
{
    BAD(pgas_barrier(NULL));
    BAD(pgas_kvs_destroy(kvs));
}

static uint64_t count(void)
{
    uint64_t n = UINT64_MAX;
    BAD(pgas_kvs_count(kvs, &n));
    return n;
}

static pgas_kvs_info_t info(void)
{
    pgas_kvs_info_t i = { .size = sizeof i };
    BAD(pgas_kvs_info(kvs, &i));
    return i;
}

/* ---- few buckets ---- */

static void overflow_chains(void)
{
    char key[32];
    int value, n_bad = 0;
    create(1, 4 << 20, false);
    for (int i = me; i < CROWD; i += n_ranks)
        BAD(pgas_kvs_put(kvs, key_of(key, "crowd", i), KEY_BYTES, &i, sizeof i));
    BAD(pgas_barrier(NULL));
    for (int i = 0; i < CROWD; i += 1 + i % 3)
        n_bad +=
            pgas_kvs_get(kvs, key_of(key, "crowd", i), KEY_BYTES, &value, 4, NULL) != PGAS_OK ||
            value != i;
    spmd_is_int(n_bad, 0, "%d keys in a table for one: each has its value", CROWD);
    spmd_ok(info().n_overflow > 0 || info().n_keys < 16, "there are overflow buckets");
    spmd_is_int(count(), CROWD, "count");
    BAD(pgas_barrier(NULL));
    /* Two of three keys are deleted, also in the middle of chains. */
    for (int i = me; i < CROWD; i += n_ranks)
        if (i % 3 != 1)
            BAD(pgas_kvs_delete(kvs, key_of(key, "crowd", i), KEY_BYTES));
    BAD(pgas_barrier(NULL));
    for (int i = 0; i < CROWD; i++) {
        pgas_status_t want = i % 3 == 1 ? PGAS_OK : PGAS_ERR_NOT_FOUND;
        if (i % 5 == 0 || want != PGAS_OK)
            n_bad += pgas_kvs_get(kvs, key_of(key, "crowd", i), KEY_BYTES, &value, 4, NULL) != want;
    }
    spmd_is_int(n_bad, 0, "after deletes in the chains the others are there");
    destroy();
}

/* ---- keys with the same home, bucket and tag ---- */

#define TWINS      20
#define CANDIDATES 4000000

/* The numbers of keys that agree with the first one. */
static int find_twins(int *twins)
{
    char key[32];
    pgasi_key_t first, k;
    int n = 1, home = pgasi_kvs_key(kvs, key_of(key, "twin", 0), KEY_BYTES, &first);
    twins[0] = 0;
    for (int i = 1; i < CANDIDATES && n < TWINS; i++)
        if (pgasi_kvs_key(kvs, key_of(key, "twin", i), KEY_BYTES, &k) == home &&
            k.bucket == first.bucket && k.tag == first.tag)
            twins[n++] = i;
    return n;
}

static void tag_collisions(void)
{
    static int twins[TWINS];
    char key[32];
    int n_bad = 0, value = 0;
    create(1, 1 << 20, false);
    int n = me == 0 ? find_twins(twins) : 0;
    BAD(pgas_broadcast(NULL, &n, sizeof n, 0));
    BAD(pgas_broadcast(NULL, twins, sizeof twins, 0));
    for (int i = me; i < n; i += n_ranks)
        BAD(pgas_kvs_put(kvs, key_of(key, "twin", twins[i]), KEY_BYTES, &twins[i], 4));
    BAD(pgas_barrier(NULL));
    for (int i = 0; i < n; i++)
        n_bad += pgas_kvs_get(kvs, key_of(key, "twin", twins[i]), KEY_BYTES, &value, 4, NULL) !=
                     PGAS_OK ||
                 value != twins[i];
    spmd_diag("%d keys have one home, bucket and tag", n);
    spmd_ok(n_bad == 0 && n > 16, "keys with the same home, bucket and tag have their own values");
    BAD(pgas_barrier(NULL));
    for (int i = me; i < n; i += n_ranks)
        if (i % 2)
            BAD(pgas_kvs_delete(kvs, key_of(key, "twin", twins[i]), KEY_BYTES));
    BAD(pgas_barrier(NULL));
    for (int i = 0; i < n; i++)
        n_bad += pgas_kvs_get(kvs, key_of(key, "twin", twins[i]), KEY_BYTES, &value, 4, NULL) !=
                 (i % 2 ? PGAS_ERR_NOT_FOUND : PGAS_OK);
    spmd_is_int(n_bad, 0, "a delete takes the right one of them");
    destroy();
}

/* ---- storms ---- */

static struct {
    bool present[THREADS][50];
    int value[THREADS][50];
} left;

/* Each thread has 50 keys, which share buckets with those of the others. */
static void storm(int number, void *arg)
{
    pgasi_rng_t r;
    char key[32];
    (void)arg;
    pgasi_rng_seed(&r, (uint64_t)(me * THREADS + number + 1));
    for (int i = 0; i < 4000; i++) {
        int k = (int)pgasi_rng_below(&r, 50);
        bool *present = &left.present[number][k];
        key_of(key, "storm", (me * THREADS + number) * 50 + k);
        pgas_kvs_item_t item =
            item_of(key, *present ? PGAS_KVS_DELETE : PGAS_KVS_PUT, &i, sizeof i);
        item.condition = *present ? PGAS_KVS_IF_PRESENT : PGAS_KVS_IF_ABSENT;
        if (!BAD(pgas_kvs_run(kvs, &item, 1, NULL)))
            *present = !*present;
        left.value[number][k] = i;
    }
}

static void storms(void)
{
    char key[32];
    int n_bad = 0, value = -1;
    uint64_t mine = 0, all = 0;
    create(100, 4 << 20, false);
    crew_run(THREADS, storm, NULL);
    for (int t = 0; t < THREADS; t++) {
        for (int k = 0; k < 50; k++) {
            key_of(key, "storm", (me * THREADS + t) * 50 + k);
            pgas_status_t status = pgas_kvs_get(kvs, key, KEY_BYTES, &value, 4, NULL);
            mine += left.present[t][k];
            n_bad += status != (left.present[t][k] ? PGAS_OK : PGAS_ERR_NOT_FOUND) ||
                     (status == PGAS_OK && value != left.value[t][k]);
        }
    }
    BAD(pgas_allreduce(NULL, &mine, &all, 1, PGAS_U64, PGAS_ADD));
    spmd_ok(n_bad == 0 && count() == all, "a storm of deletes and insertions: each key is as left");
    BAD(pgas_barrier(NULL));
    BAD(pgas_kvs_clear(kvs));
    BAD(pgas_barrier(NULL));
    spmd_ok(info().block_bytes <= 128 * info().n_overflow && info().n_keys == 0,
            "no block of the storm is left, except buckets");
    destroy();
}

/* ---- scans beside writes ---- */

#define STABLE 300

typedef struct {
    int n_seen[STABLE], n_bad, n_churn;
} seen_t;

static bool see(const pgas_kvs_item_t *item, void *arg)
{
    seen_t *seen = arg;
    int i = number_of("stable", item), value = -1;
    if (item->value_bytes == sizeof value)
        memcpy(&value, item->value, sizeof value);
    if (i >= 0 && i < STABLE && value == i)
        seen->n_seen[i]++;
    else if (number_of("churn", item) >= 0 && item->value_bytes >= 8)
        seen->n_churn++;
    else
        seen->n_bad++;
    seen->n_bad += item->value_bytes > 8 &&
                   !pattern_matches(item->value, item->value_bytes, item->value_bytes);
    return true;
}

static bool scan_all(size_t step)
{
    seen_t seen = { .n_bad = 0 };
    for (int r = 0; r < n_ranks; r++) {
        uint64_t cursor = 0;
        do {
            if (BAD(pgas_kvs_scan(kvs, r, &cursor, step, see, &seen)))
                return false;
        } while (cursor != 0);
    }
    for (int i = 0; i < STABLE; i++)
        if (seen.n_seen[i] == 0)
            return false;
    return seen.n_bad == 0;
}

/* Thread 0 scans, and the other one puts and deletes keys of the same buckets. */
static void scan_or_churn(int number, void *arg)
{
    static int n_scanners;
    int *n_bad = arg;
    unsigned char value[400];
    char key[32];
    if (number == 0) {
        for (int i = 0; i < 12; i++)
            *n_bad += !scan_all(i % 2 ? SIZE_MAX : 5);
        __atomic_add_fetch(&n_scanners, 1, __ATOMIC_RELEASE);
        return;
    }
    for (int i = 0; __atomic_load_n(&n_scanners, __ATOMIC_ACQUIRE) == 0; i++) {
        size_t n = 9 + (size_t)(i * 7) % 390;
        pattern_fill(value, n, n);
        BAD(pgas_kvs_put(kvs, key_of(key, "churn", me * 1000 + i % 200), KEY_BYTES, value, n));
        if (i >= 100)
            BAD(pgas_kvs_delete(kvs, key_of(key, "churn", me * 1000 + (i + 100) % 200), KEY_BYTES));
    }
}

static void scans_beside_writes(void)
{
    char key[32];
    int n_bad = 0;
    create(200, 4 << 20, false);
    for (int i = me; i < STABLE; i += n_ranks)
        BAD(pgas_kvs_put(kvs, key_of(key, "stable", i), KEY_BYTES, &i, sizeof i));
    BAD(pgas_barrier(NULL));
    crew_run(THREADS, scan_or_churn, &n_bad);
    spmd_is_int(n_bad, 0, "scans beside writes see each key that stays, and whole values");
    destroy();
}

/* ---- full ---- */

static size_t full_bytes(int i)
{
    return 100 + (size_t)(i * 131) % 2900;
}

static void full_store(void)
{
    enum { MOST = 20000 };
    static unsigned char value[400000], got[3000];
    char key[32];
    int n = 0, n_bad = 0;
    uint64_t version;
    pgas_status_t status = PGAS_OK;
    create(2000, 6 << 20, false);
    for (; n < MOST && status == PGAS_OK; n++) {
        pattern_fill(value, (uint64_t)n, full_bytes(n));
        key_of(key, "full", me * MOST + n);
        status = pgas_kvs_put(kvs, key, KEY_BYTES, value, full_bytes(n));
    }
    spmd_ok(status == PGAS_ERR_NO_MEMORY && n > 50, "a full store: PGAS_ERR_NO_MEMORY");
    n--; /* the last one was refused */
    BAD(pgas_barrier(NULL));
    pgas_kvs_item_t item = item_of(key_of(key, "full", me * MOST), PGAS_KVS_GET, got, 3000);
    BAD(pgas_kvs_run(kvs, &item, 1, NULL));
    version = item.version;
    memset(value, 0xEE, sizeof value);
    for (int i = 0; i < 3; i++) /* more than any free block has */
        n_bad += pgas_kvs_put(kvs, key, KEY_BYTES, value, sizeof value) != PGAS_ERR_NO_MEMORY;
    BAD(pgas_kvs_run(kvs, &item, 1, NULL));
    spmd_ok(n_bad == 0 && item.version == version && item.value_bytes == full_bytes(0) &&
                pattern_matches(got, 0, full_bytes(0)),
            "a write that does not fit leaves the old value and version");
    for (int i = 0; i < n; i++) {
        size_t bytes = 0;
        key_of(key, "full", me * MOST + i);
        n_bad += pgas_kvs_get(kvs, key, KEY_BYTES, got, 3000, &bytes) != PGAS_OK ||
                 bytes != full_bytes(i) || !pattern_matches(got, (uint64_t)i, bytes);
    }
    spmd_is_int(n_bad, 0, "all that was put before is there");
    for (int i = 0; i < n; i++)
        n_bad += pgas_kvs_delete(kvs, key_of(key, "full", me * MOST + i), KEY_BYTES) != PGAS_OK;
    BAD(pgas_barrier(NULL));
    for (int i = 0; i < n / 2; i++) {
        pattern_fill(value, (uint64_t)i, full_bytes(i));
        key_of(key, "again", me * MOST + i);
        n_bad += pgas_kvs_put(kvs, key, KEY_BYTES, value, full_bytes(i)) != PGAS_OK;
    }
    spmd_is_int(n_bad, 0, "after deletes there is room again");
    destroy();
}

/* Sizes change after the store was full of others: slabs must find other uses. */
static void full_of_other_sizes(void)
{
    static unsigned char value[60000];
    char key[32];
    int n_put[3] = { 0 };
    static const size_t sizes[3] = { 40, 3000, 60000 };
    create(2000, 3 << 20, false);
    for (int k = 0; k < 3; k++) {
        int most = (int)((size_t)(2 << 20) / (sizes[k] + 200));
        for (int i = 0; i < most; i++)
            n_put[k] += pgas_kvs_put(kvs, key_of(key, "other", me * 100000 + i), KEY_BYTES, value,
                                     sizes[k]) == PGAS_OK;
        spmd_diag("%d of %d values of %zu bytes", n_put[k], most, sizes[k]);
        for (int i = 0; i < most; i++)
            pgas_kvs_delete(kvs, key_of(key, "other", me * 100000 + i), KEY_BYTES);
        BAD(pgas_barrier(NULL));
        n_put[k] = n_put[k] * 10 / most;
    }
    spmd_ok(n_put[0] >= 9 && n_put[1] >= 7 && n_put[2] >= 5,
            "memory of deleted keys serves values of other sizes");
    destroy();
}

static void evicts(void)
{
    static unsigned char value[2000], got[2000];
    char key[32], hot[32];
    int n_bad = 0, n_hot = 0;
    uint64_t evicted, all = 0;
    create(1000, 6 << 20, true);
    key_of(hot, "hot", me);
    for (int i = 0; i < 12000; i++) {
        size_t n = 1 + (size_t)(i * 17) % 2000, bytes = 0;
        pattern_fill(value, (uint64_t)i, n);
        key_of(key, "cold", me * 100000 + i);
        n_bad += pgas_kvs_put(kvs, key, KEY_BYTES, value, n) != PGAS_OK;
        /* An older key is there as it was put, or not at all. */
        int old = i / 2;
        pgas_status_t status =
            pgas_kvs_get(kvs, key_of(key, "cold", me * 100000 + old), KEY_BYTES, got, 2000, &bytes);
        n_bad += status != PGAS_ERR_NOT_FOUND &&
                 (status != PGAS_OK || !pattern_matches(got, (uint64_t)old, bytes));
        if (i % 8 == 0 && pgas_kvs_get(kvs, hot, KEY_BYTES, got, 2000, NULL) != PGAS_OK) {
            n_hot++;
            BAD(pgas_kvs_put(kvs, hot, KEY_BYTES, "hot", 4));
        }
    }
    evicted = info().evicted;
    BAD(pgas_allreduce(NULL, &evicted, &all, 1, PGAS_U64, PGAS_ADD));
    spmd_diag("evicted %llu; the hot key was gone %d times here", (unsigned long long)all, n_hot);
    spmd_ok(n_bad == 0 && all > 0, "a cache deletes old keys instead of refusing new ones");
    spmd_ok(n_hot <= 100, "a key that is read often mostly stays");
    destroy();
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 17);
    pgasi_rng_seed(&rng, spmd_seed(1));
    overflow_chains();
    tag_collisions();
    storms();
    scans_beside_writes();
    full_store();
    full_of_other_sizes();
    evicts();
    spmd_is_int(crew_faults(), 0, "no other status was wrong");
    return job_end();
}
