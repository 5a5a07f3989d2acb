/* A key-value store: the functions for one key, and for many.
 *   what:   Each rank reads what any rank wrote. Conditions, versions, expiry, sums and updates do
 *           what pgas/kvs.h says, alone and as items of runs. Refusals have the status that it
 *           names, and change nothing.
 *   np:     1 2 3 5 4
 *   nodes:  0 1 2 1 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=5,reorder=5,again=2 |
 *   env:    PGAS_SERVICE_THREADS=0 | PGAS_CALL_MAX=1K | PGAS_FAULT=delay=3,reorder=3,again=1
 *   source: pgas/kvs.h
 */
#include "pgas/kvs.h"
#include <time.h>
#include "t/pattern.h"
#include "t/spmd/kvs_keys.h"

static pgas_kvs_t *kvs;

/* ---- one key ---- */

static void all_ranks_see_a_key(void)
{
    char mine[32], theirs[32], value[64];
    bool good = true;
    key_of(mine, "seen", me);
    BAD(pgas_kvs_put(kvs, mine, KEY_BYTES, mine, strlen(mine) + 1));
    BAD(pgas_barrier(NULL));
    for (int r = 0; r < n_ranks; r++) {
        size_t n = 0;
        key_of(theirs, "seen", r);
        good &= pgas_kvs_get(kvs, theirs, KEY_BYTES, value, sizeof value, &n) == PGAS_OK &&
                n == strlen(theirs) + 1 && strcmp(value, theirs) == 0;
        good &= pgas_kvs_get(kvs, theirs, KEY_BYTES, value, sizeof value, NULL) == PGAS_OK;
    }
    spmd_ok(good, "each rank reads the keys of all ranks");
    BAD(pgas_barrier(NULL));
    BAD(pgas_kvs_delete(kvs, mine, KEY_BYTES));
    BAD(pgas_barrier(NULL));
    for (int r = 0; r < n_ranks; r++) {
        size_t n = 77;
        key_of(theirs, "seen", r);
        good &= pgas_kvs_get(kvs, theirs, KEY_BYTES, value, 64, &n) == PGAS_ERR_NOT_FOUND;
        good &= n == 77;
        good &= pgas_kvs_delete(kvs, theirs, KEY_BYTES) == PGAS_ERR_NOT_FOUND;
    }
    spmd_ok(good, "absent keys are not found, and outputs stay");
}

static void replaces_values(void)
{
    static const size_t sizes[] = { 3, 300, 0, 3000, 1, 8, 5000, 0 };
    unsigned char value[5000], got[5000];
    bool good = true;
    char key[32];
    key_of(key, "replaced", me);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = 9999;
        memset(value, (int)i + 1, sizes[i]);
        good &= pgas_kvs_put(kvs, key, KEY_BYTES, sizes[i] ? value : NULL, sizes[i]) == PGAS_OK;
        good &= pgas_kvs_get(kvs, key, KEY_BYTES, got, sizeof got, &n) == PGAS_OK;
        good &= n == sizes[i] && memcmp(got, value, sizes[i]) == 0;
    }
    spmd_ok(good, "a value is replaced by one of another size, also of none");
}

static void says_how_much_is_needed(void)
{
    char key[32], value[100], got[100];
    size_t n = 0;
    key_of(key, "large", me);
    memset(value, 'v', sizeof value);
    BAD(pgas_kvs_put(kvs, key, KEY_BYTES, value, sizeof value));
    spmd_ok(pgas_kvs_get(kvs, key, KEY_BYTES, got, 99, &n) == PGAS_ERR_RANGE && n == 100 &&
                pgas_kvs_get(kvs, key, KEY_BYTES, NULL, 0, &n) == PGAS_ERR_RANGE && n == 100 &&
                pgas_kvs_get(kvs, key, KEY_BYTES, got, 99, NULL) == PGAS_ERR_RANGE &&
                pgas_kvs_get(kvs, key, KEY_BYTES, got, 100, &n) == PGAS_OK,
            "a capacity that is too small: the size is told");
}

static void refuses_arguments(void)
{
    static char key[PGAS_KVS_KEY_MAX + 1];
    char value[8];
    size_t n = 0;
    int64_t sum;
    bool good = pgas_kvs_get(kvs, key, 0, value, 8, &n) == PGAS_ERR_LIMIT;
    good &= pgas_kvs_put(kvs, key, 0, value, 8) == PGAS_ERR_LIMIT;
    good &= pgas_kvs_put(kvs, key, sizeof key, value, 8) == PGAS_ERR_LIMIT;
    good &= pgas_kvs_get(kvs, key, sizeof key, value, 8, &n) == PGAS_ERR_LIMIT;
    good &= pgas_kvs_delete(kvs, key, sizeof key) == PGAS_ERR_LIMIT;
    good &= pgas_kvs_fetch_add(kvs, key, 0, 1, &sum) == PGAS_ERR_LIMIT;
    good &= pgas_kvs_put(kvs, key, 1, value, (size_t)PGAS_KVS_VALUE_MAX + 1) == PGAS_ERR_LIMIT;
    spmd_ok(good, "keys and values beyond the limits: PGAS_ERR_LIMIT");
    good = pgas_kvs_get(NULL, key, 1, value, 8, &n) == PGAS_ERR_INVALID;
    good &= pgas_kvs_get(kvs, NULL, 1, value, 8, &n) == PGAS_ERR_INVALID;
    good &= pgas_kvs_get(kvs, key, 1, NULL, 8, &n) == PGAS_ERR_INVALID;
    good &= pgas_kvs_put(kvs, NULL, 1, value, 8) == PGAS_ERR_INVALID;
    good &= pgas_kvs_put(kvs, key, 1, NULL, 8) == PGAS_ERR_INVALID;
    good &= pgas_kvs_delete(NULL, key, 1) == PGAS_ERR_INVALID;
    good &= pgas_kvs_run(kvs, NULL, 1, NULL) == PGAS_ERR_INVALID;
    good &= pgas_kvs_update(kvs, key, 1, 0, NULL, NULL) == PGAS_ERR_INVALID;
    good &= pgas_kvs_count(kvs, NULL) == PGAS_ERR_INVALID;
    good &= pgas_kvs_create(NULL, NULL, NULL) == PGAS_ERR_INVALID;
    spmd_ok(good, "null pointers: PGAS_ERR_INVALID");
    pgas_kvs_item_t item = { .key = key, .key_bytes = 1, .value = value, .capacity = 8 };
    item.op = (pgas_kvs_op_t)77;
    good = pgas_kvs_run(kvs, &item, 1, NULL) == PGAS_ERR_INVALID;
    item.op = PGAS_KVS_PUT;
    item.condition = (pgas_kvs_condition_t)77;
    good &= pgas_kvs_run(kvs, &item, 1, NULL) == PGAS_ERR_INVALID;
    good &= pgas_kvs_get(kvs, key, 1, value, 8, &n) == PGAS_ERR_NOT_FOUND;
    spmd_ok(good, "unknown operations and conditions: PGAS_ERR_INVALID, nothing is written");
}

static void adds(void)
{
    char key[32];
    int64_t old = 5, value = INT64_MAX;
    size_t n;
    key_of(key, "sum", me);
    bool good = pgas_kvs_fetch_add(kvs, key, KEY_BYTES, 7, &old) == PGAS_OK && old == 0;
    good &= pgas_kvs_fetch_add(kvs, key, KEY_BYTES, -9, &old) == PGAS_OK && old == 7;
    good &= pgas_kvs_fetch_add(kvs, key, KEY_BYTES, 0, NULL) == PGAS_OK;
    good &= pgas_kvs_get(kvs, key, KEY_BYTES, &value, 8, &n) == PGAS_OK && value == -2 && n == 8;
    spmd_ok(good, "fetch_add: the sum before; an absent key counts as 0");
    value = INT64_MAX;
    BAD(pgas_kvs_put(kvs, key, KEY_BYTES, &value, 8));
    good = pgas_kvs_fetch_add(kvs, key, KEY_BYTES, 1, &old) == PGAS_OK && old == INT64_MAX;
    good &= pgas_kvs_get(kvs, key, KEY_BYTES, &value, 8, &n) == PGAS_OK && value == INT64_MIN;
    spmd_ok(good, "fetch_add wraps around");
    BAD(pgas_kvs_put(kvs, key, KEY_BYTES, "seven..", 7));
    old = 5;
    char got[8];
    good = pgas_kvs_fetch_add(kvs, key, KEY_BYTES, 1, &old) == PGAS_ERR_MISMATCH && old == 5;
    good &= pgas_kvs_get(kvs, key, KEY_BYTES, got, 8, &n) == PGAS_OK && n == 7;
    spmd_ok(good && memcmp(got, "seven..", 7) == 0, "fetch_add refuses values of other sizes");
}

/* ---- items: conditions, versions, expiry ---- */

static pgas_status_t put_if(const char *key, const char *value, pgas_kvs_condition_t condition,
                            uint64_t *version)
{
    char copy[32];
    snprintf(copy, sizeof copy, "%s", value);
    pgas_kvs_item_t item = item_of(key, PGAS_KVS_PUT, copy, strlen(copy) + 1);
    item.condition = condition;
    item.version = *version;
    pgas_status_t status = run_one(kvs, &item);
    *version = item.version;
    return status;
}

static pgas_status_t delete_if(const char *key, pgas_kvs_condition_t condition, uint64_t *version)
{
    pgas_kvs_item_t item = item_of(key, PGAS_KVS_DELETE, NULL, 0);
    item.condition = condition;
    item.version = *version;
    pgas_status_t status = run_one(kvs, &item);
    *version = item.version;
    return status;
}

static bool holds(const char *key, const char *value, uint64_t version)
{
    char got[32] = "";
    pgas_kvs_item_t item = item_of(key, PGAS_KVS_GET, got, sizeof got);
    return run_one(kvs, &item) == PGAS_OK && strcmp(got, value) == 0 && item.version == version &&
           item.value_bytes == strlen(value) + 1;
}

static void conditions(void)
{
    char key[32];
    uint64_t first = 0, v = 0, none = 0;
    key_of(key, "condition", me);
    bool good = put_if(key, "x", PGAS_KVS_IF_PRESENT, &v) == PGAS_ERR_NOT_FOUND && v == 0;
    v = 1;
    good &= put_if(key, "x", PGAS_KVS_IF_VERSION, &v) == PGAS_ERR_NOT_FOUND && v == 0;
    good &= put_if(key, "one", PGAS_KVS_IF_ABSENT, &first) == PGAS_OK && first > 0;
    good &= holds(key, "one", first);
    v = 0;
    good &= put_if(key, "x", PGAS_KVS_IF_ABSENT, &v) == PGAS_ERR_EXISTS && v == first;
    good &= holds(key, "one", first);
    v = 0;
    good &= put_if(key, "two", PGAS_KVS_IF_PRESENT, &v) == PGAS_OK && v != first && v > 0;
    good &= holds(key, "two", v);
    spmd_ok(good, "put if absent, and if present");
    uint64_t old = first, second = v;
    good = put_if(key, "x", PGAS_KVS_IF_VERSION, &old) == PGAS_ERR_MISMATCH && old == second;
    good &= holds(key, "two", second);
    good &= put_if(key, "three", PGAS_KVS_IF_VERSION, &v) == PGAS_OK && v != second && v != first;
    good &= holds(key, "three", v);
    spmd_ok(good, "put if version: compare-and-swap");
    old = second;
    good = delete_if(key, PGAS_KVS_IF_VERSION, &old) == PGAS_ERR_MISMATCH && old == v;
    good &= delete_if(key, PGAS_KVS_IF_VERSION, &v) == PGAS_OK && v == 0;
    good &= delete_if(key, PGAS_KVS_IF_VERSION, &second) == PGAS_ERR_NOT_FOUND && second == 0;
    good &= delete_if(key, PGAS_KVS_IF_PRESENT, &none) == PGAS_ERR_NOT_FOUND && none == 0;
    BAD(pgas_kvs_put(kvs, key, KEY_BYTES, "a", 2));
    good &= delete_if(key, PGAS_KVS_IF_PRESENT, &none) == PGAS_OK && none == 0;
    spmd_ok(good, "delete if version, and if present");
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* All writes, by put, add and update, with deletes between them. */
static void versions_are_new(void)
{
    enum { N = 600 };
    uint64_t seen[N], v;
    char key[32];
    bool good = true;
    key_of(key, "version", me);
    for (int i = 0; i < N; i++) {
        int64_t number = i;
        pgas_kvs_item_t item = item_of(key, i % 3 ? PGAS_KVS_PUT : PGAS_KVS_ADD, &number, 8);
        BAD(pgas_kvs_run(kvs, &item, 1, NULL));
        seen[i] = v = item.version;
        item = item_of(key, PGAS_KVS_GET, &number, 8);
        BAD(pgas_kvs_run(kvs, &item, 1, NULL));
        good &= item.version == v && v > 0;
        if (i % 5 == 0)
            BAD(pgas_kvs_delete(kvs, key, KEY_BYTES));
    }
    qsort(seen, N, sizeof seen[0], by_number);
    for (int i = 1; i < N; i++)
        good &= seen[i] != seen[i - 1];
    spmd_ok(good, "a key never has the same version twice");
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static pgas_status_t put_until(const char *key, int64_t expires_ms, bool keep)
{
    char value[] = "short";
    pgas_kvs_item_t item = item_of(key, PGAS_KVS_PUT, value, sizeof value);
    item.expires_ms = expires_ms;
    item.keep_expiry = keep;
    return run_one(kvs, &item);
}

static int64_t expiry_of(const char *key)
{
    char value[32];
    pgas_kvs_item_t item = item_of(key, PGAS_KVS_GET, value, sizeof value);
    return run_one(kvs, &item) == PGAS_OK ? item.expires_ms : -1;
}

static void expiry(void)
{
    char key[32], value[32];
    int64_t later = now_ms() + 1000000;
    key_of(key, "expiry", me);
    bool good = put_until(key, later, false) == PGAS_OK && expiry_of(key) == later;
    good &= put_until(key, 0, true) == PGAS_OK && expiry_of(key) == later;
    good &= put_until(key, 0, false) == PGAS_OK && expiry_of(key) == 0;
    good &= put_until(key, later + 1, false) == PGAS_OK && expiry_of(key) == later + 1;
    good &= pgas_kvs_put(kvs, key, KEY_BYTES, "x", 2) == PGAS_OK && expiry_of(key) == 0;
    spmd_ok(good, "expiry: it is read, kept when asked to, and ends with put");
    int64_t soon = now_ms() + 60;
    uint64_t version = 0;
    BAD(put_until(key, soon, false));
    while (pgas_kvs_get(kvs, key, KEY_BYTES, value, sizeof value, NULL) == PGAS_OK)
        pgas_progress();
    good = now_ms() >= soon;
    good &= pgas_kvs_delete(kvs, key, KEY_BYTES) == PGAS_ERR_NOT_FOUND;
    BAD(put_until(key, now_ms() - 1, false));
    good &= put_if(key, "x", PGAS_KVS_IF_PRESENT, &version) == PGAS_ERR_NOT_FOUND;
    good &= put_if(key, "new", PGAS_KVS_IF_ABSENT, &version) == PGAS_OK;
    good &= holds(key, "new", version) && expiry_of(key) == 0;
    BAD(put_until(key, now_ms() - 1, false));
    int64_t old = 5;
    good &= pgas_kvs_fetch_add(kvs, key, KEY_BYTES, 3, &old) == PGAS_OK && old == 0;
    spmd_ok(good, "a key that has expired counts as absent, and not sooner");
}

/* ---- runs ---- */

static void items_keep_their_order(void)
{
    char key[32], a[] = "a", b[] = "bb", got[3][16];
    int64_t one = 1, ten = 10;
    uint64_t version;
    memset(got, 0, sizeof got);
    key_of(key, "order", me);
    pgas_kvs_item_t items[] = {
        item_of(key, PGAS_KVS_PUT, a, 2),       item_of(key, PGAS_KVS_GET, got[0], 16),
        item_of(key, PGAS_KVS_PUT, b, 3),       item_of(key, PGAS_KVS_GET, got[1], 16),
        item_of(key, PGAS_KVS_DELETE, NULL, 0), item_of(key, PGAS_KVS_GET, got[2], 16),
        item_of(key, PGAS_KVS_ADD, &ten, 8),    item_of(key, PGAS_KVS_ADD, &one, 8),
    };
    pgas_status_t status = pgas_kvs_run(kvs, items, 8, NULL);
    version = items[7].version;
    spmd_ok(status == PGAS_ERR_NOT_FOUND && items[5].status == PGAS_ERR_NOT_FOUND &&
                items[4].status == PGAS_OK && strcmp(got[0], "a") == 0 &&
                strcmp(got[1], "bb") == 0 && items[1].value_bytes == 2 &&
                items[3].value_bytes == 3 && ten == 0 && one == 10 && version > 0 &&
                items[6].version != version && items[0].version == items[1].version,
            "items of one key run in their order; the first failure is the run's status");
    spmd_ok(pgas_kvs_run(kvs, items, 0, NULL) == PGAS_OK, "a run of no items");
}

enum { PAIRS = 6, LARGE = 12000 };

/* PUT and GET of one key by turns, in one run. Reads before it bring the key into the cache. */
static int n_overtaken(const char *key, size_t bytes, int seed)
{
    static unsigned char put[PAIRS][LARGE], got[PAIRS][LARGE];
    pgas_kvs_item_t items[2 * PAIRS];
    int n_bad = 0;
    for (int i = 0; i < PAIRS; i++) {
        size_t n = i % 2 ? 8 : bytes;
        pattern_fill(put[i], (uint64_t)(seed + i), n);
        items[2 * i] = item_of(key, PGAS_KVS_PUT, put[i], n);
        items[2 * i + 1] = item_of(key, PGAS_KVS_GET, got[i], LARGE);
    }
    for (int i = 0; i < 4; i++)
        pgas_kvs_get(kvs, key, KEY_BYTES, got[0], LARGE, NULL);
    BAD(pgas_kvs_run(kvs, items, 2 * PAIRS, NULL));
    for (int i = 0; i < PAIRS; i++) {
        const pgas_kvs_item_t *read = &items[2 * i + 1];
        n_bad += read->version != items[2 * i].version ||
                 read->value_bytes != items[2 * i].value_bytes ||
                 !pattern_matches(got[i], (uint64_t)(seed + i), read->value_bytes);
    }
    return n_bad;
}

/* Keys of all homes, so that some are on other nodes. */
static void no_item_is_overtaken(void)
{
    char key[32];
    int n_small = 0, n_large = 0;
    for (int round = 0; round < 200; round++) {
        key_of(key, "overtaken", me * 20 + round % 20);
        n_small += n_overtaken(key, 8 + (size_t)round * 20, round * 100);
    }
    spmd_is_int(n_small, 0, "items of one key and small values keep their order on other nodes");
    for (int round = 0; round < 40; round++) {
        key_of(key, "overtaken", me * 20 + round % 20);
        n_large += n_overtaken(key, LARGE, round * 100);
        BAD(pgas_kvs_delete(kvs, key, KEY_BYTES));
    }
    spmd_is_int(n_large, 0, "and of large values, too");
}

enum { MANY = 500 };

/* Keys of all homes, values of all sizes up to 2 KiB. */
static void make_many(char keys[MANY][32], unsigned char (*values)[2048], pgas_kvs_item_t *items)
{
    for (int i = 0; i < MANY; i++) {
        key_of(keys[i], "many", me * MANY + i);
        size_t n = (size_t)(i * 37) % 2048;
        memset(values[i], i, n);
        items[i] = item_of(keys[i], PGAS_KVS_PUT, values[i], n);
    }
}

static bool many_match(pgas_kvs_item_t *items, unsigned char (*values)[2048])
{
    for (int i = 0; i < MANY; i++) {
        if (items[i].status != PGAS_OK || items[i].value_bytes != (size_t)(i * 37) % 2048)
            return false;
        for (size_t k = 0; k < items[i].value_bytes; k++)
            if (values[i][k] != (unsigned char)i)
                return false;
    }
    return true;
}

static void runs_do_not_block(void)
{
    static char keys[MANY][32];
    static unsigned char values[MANY][2048];
    static pgas_kvs_item_t items[MANY];
    pgas_sync_t done = PGAS_SYNC_INIT;
    make_many(keys, values, items);
    bool good = pgas_kvs_run(kvs, items, MANY, &done) == PGAS_OK;
    good &= pgas_sync_wait(&done, -1) == PGAS_OK;
    for (int i = 0; i < MANY; i++) {
        good &= items[i].status == PGAS_OK && items[i].version > 0;
        items[i] = item_of(keys[i], PGAS_KVS_GET, values[i], 2048);
        memset(values[i], 0xEE, 2048);
    }
    /* Two runs under one counter. */
    good &= pgas_kvs_run(kvs, items, MANY / 2, &done) == PGAS_OK;
    good &= pgas_kvs_run(kvs, items + MANY / 2, MANY - MANY / 2, &done) == PGAS_OK;
    good &= pgas_sync_wait(&done, -1) == PGAS_OK;
    spmd_ok(good && many_match(items, values), "runs that do not block: 500 puts, then 500 gets");
    for (int i = 0; i < MANY; i++)
        items[i] = item_of(keys[i], i % 2 ? PGAS_KVS_DELETE : PGAS_KVS_GET, values[i], 2048);
    good = pgas_kvs_run(kvs, items, MANY, NULL) == PGAS_OK;
    for (int i = 0; i < MANY; i++)
        items[i] = item_of(keys[i], PGAS_KVS_GET, values[i], 2048);
    good &= pgas_kvs_run(kvs, items, MANY, &done) == PGAS_OK;
    good &= pgas_sync_wait(&done, -1) == PGAS_OK;
    for (int i = 0; i < MANY; i++)
        good &= items[i].status == (i % 2 ? PGAS_ERR_NOT_FOUND : PGAS_OK);
    spmd_ok(good, "items have their own status, and the counter has no error");
    for (int i = 0; i < MANY; i += 2)
        BAD(pgas_kvs_delete(kvs, keys[i], KEY_BYTES));
}

static void get_many_and_put_many(void)
{
    static char keys[MANY][32];
    static unsigned char values[MANY][2048];
    static pgas_kvs_item_t items[MANY];
    make_many(keys, values, items);
    bool good = pgas_kvs_put_many(kvs, items, MANY) == PGAS_OK;
    for (int i = 0; i < MANY; i++) {
        items[i] = item_of(keys[i], PGAS_KVS_GET, values[i], 2048);
        memset(values[i], 0xEE, 2048);
    }
    good &= pgas_kvs_get_many(kvs, items, MANY) == PGAS_OK;
    spmd_ok(good && many_match(items, values), "put_many and get_many");
    for (int i = 0; i < MANY; i++)
        BAD(pgas_kvs_delete(kvs, keys[i], KEY_BYTES));
}

/* ---- updates ---- */

/* Appends the byte at arg to the value. The first eight bytes count. */
static pgas_status_t append(pgas_kvs_item_t *item, void *arg)
{
    unsigned char *value = item->value;
    static _Thread_local unsigned char fresh[1];
    if (item->op != PGAS_KVS_PUT || (item->version == 0) != (value == NULL))
        return PGAS_ERR_INVALID;
    if (!value) {
        item->value = memcpy(fresh, arg, 1);
        item->value_bytes = 1;
        return PGAS_OK;
    }
    if (item->capacity < item->value_bytes + 1)
        return PGAS_ERR_RANGE;
    value[item->value_bytes++] = *(unsigned char *)arg;
    return PGAS_OK;
}

static pgas_status_t refuse(pgas_kvs_item_t *item, void *arg)
{
    if (item->value)
        memset(item->value, 0, item->value_bytes);
    return *(pgas_status_t *)arg;
}

static pgas_status_t remove_it(pgas_kvs_item_t *item, void *arg)
{
    (void)arg;
    item->op = PGAS_KVS_DELETE;
    return PGAS_OK;
}

/* More items than may be under way, none of which fills a message to its home. */
static void large_runs(void)
{
    enum { N = 1500 };
    static uint64_t key[N];
    static pgas_kvs_item_t item[N];
    pgas_sync_t done = PGAS_SYNC_INIT;
    bool good = true;
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < N; i++) {
            key[i] = UINT64_C(1) << 60 | i;
            item[i] = (pgas_kvs_item_t){ .key = &key[i], .key_bytes = sizeof *key };
        }
        pgas_status_t status = pgas_kvs_run(kvs, item, N, round ? &done : NULL);
        good &= status == (round ? PGAS_OK : PGAS_ERR_NOT_FOUND);
        good &= pgas_sync_wait(&done, -1) == PGAS_OK;
        for (int i = 0; i < N; i++)
            good &= item[i].status == PGAS_ERR_NOT_FOUND;
    }
    spmd_ok(good, "runs of 1500 small items end");
}

static void update_body(int number, void *arg)
{
    unsigned char byte = (unsigned char)(me * CREW_THREADS_MAX + number);
    (void)arg;
    for (int i = 0; i < 50; i++)
        BAD(pgas_kvs_update(kvs, "appended", 8, 1, append, &byte));
}

static void updates(void)
{
    static unsigned char value[4000];
    int n_of[256] = { 0 };
    size_t n = 0;
    crew_run(3, update_body, NULL);
    bool good = pgas_kvs_get(kvs, "appended", 8, value, sizeof value, &n) == PGAS_OK;
    for (size_t i = 0; i < n; i++)
        n_of[value[i]]++;
    for (int r = 0; r < n_ranks; r++)
        for (int t = 0; t < 3; t++)
            good &= n_of[r * CREW_THREADS_MAX + t] == 50;
    spmd_ok(good && n == (size_t)n_ranks * 150, "updates of all threads: none is lost");
    BAD(pgas_barrier(NULL));
    char key[32];
    pgas_status_t wanted = PGAS_ERR_FORMAT;
    key_of(key, "updated", me);
    BAD(pgas_kvs_put(kvs, key, KEY_BYTES, "old", 4));
    good = pgas_kvs_update(kvs, key, KEY_BYTES, 0, refuse, &wanted) == PGAS_ERR_FORMAT;
    good &= pgas_kvs_get(kvs, key, KEY_BYTES, value, 4, &n) == PGAS_OK;
    spmd_ok(good && strcmp((char *)value, "old") == 0, "a status of fn ends it without a write");
    good = pgas_kvs_update(kvs, key, KEY_BYTES, 0, remove_it, NULL) == PGAS_OK;
    good &= pgas_kvs_get(kvs, key, KEY_BYTES, value, 4, &n) == PGAS_ERR_NOT_FOUND;
    spmd_ok(good, "an update may delete");
}

int main(int argc, char **argv)
{
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    opts.n_keys = 2000;
    opts.bytes = 6 << 20;
    job_begin(&argc, &argv, 30);
    spmd_ok(pgas_kvs_create(NULL, &opts, &kvs) == PGAS_OK, "create");
    all_ranks_see_a_key();
    replaces_values();
    says_how_much_is_needed();
    refuses_arguments();
    adds();
    conditions();
    versions_are_new();
    expiry();
    items_keep_their_order();
    no_item_is_overtaken();
    runs_do_not_block();
    get_many_and_put_many();
    large_runs();
    updates();
    spmd_is_int(crew_faults(), 0, "no other status was wrong");
    spmd_ok(pgas_kvs_destroy(kvs) == PGAS_OK, "destroy");
    return job_end();
}
