/* A key-value store as a whole.
 *   what:   Scans, count and clear see all keys. Plain handlers use keys of their node, and no
 *           others. Several stores, and stores of teams, are independent. Create refuses options
 *           that are wrong or differ, and says what is needed.
 *   np:     1 2 3 5 4
 *   nodes:  0 1 2 1 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=5,reorder=5,again=2 |
 *   env:    PGAS_SERVICE_THREADS=0 | PGAS_CALL_MAX=1K PGAS_BUFFER_LIMIT=128K |
 *   env:    PGAS_FAULT=delay=3,reorder=3,again=1
 *   source: pgas/kvs.h
 */
#include "pgas/kvs.h"
#include "t/spmd/kvs_keys.h"
#include "t/spmd/said.h"

enum { MANY = 500 };

static pgas_kvs_t *kvs;

/* ---- all keys ---- */

typedef struct {
    int n_seen[MANY], n_other, n_bad, most;
} seen_t;

static bool note(const pgas_kvs_item_t *item, void *arg)
{
    seen_t *seen = arg;
    int i = number_of("all", item);
    if (i < 0 || i >= MANY)
        seen->n_other++;
    else
        seen->n_seen[i]++;
    if (i >= 0 && (item->value_bytes != (size_t)i || item->version == 0))
        seen->n_bad++;
    return --seen->most > 0;
}

static bool each_key(const seen_t *seen)
{
    for (int i = 0; i < MANY; i++)
        if (seen->n_seen[i] < 1)
            return false;
    return seen->n_other == 0 && seen->n_bad == 0;
}

static void put_all(void)
{
    char key[32], value[MANY];
    memset(value, 1, sizeof value);
    BAD(pgas_kvs_clear(kvs));
    BAD(pgas_barrier(NULL));
    for (int i = me; i < MANY; i += n_ranks)
        BAD(pgas_kvs_put(kvs, key_of(key, "all", i), KEY_BYTES, value, (size_t)i));
    BAD(pgas_barrier(NULL));
}

static void scans(void)
{
    seen_t seen = { .most = INT32_MAX }, steps = { .most = INT32_MAX }, own = { .most = INT32_MAX };
    uint64_t cursor = 0, n = 0, mine = 0;
    bool good = true;
    put_all();
    for (int r = 0; r < n_ranks; r++) {
        cursor = 0;
        good &= pgas_kvs_scan(kvs, r, &cursor, SIZE_MAX, note, &seen) == PGAS_OK && cursor == 0;
        for (int i = 0; i == 0 || (cursor != 0 && i < 10000); i++)
            good &= pgas_kvs_scan(kvs, r, &cursor, 3, note, &steps) == PGAS_OK;
        good &= cursor == 0;
    }
    spmd_ok(good && each_key(&seen), "a scan of all ranks sees each key");
    spmd_ok(good && each_key(&steps), "so do scans of three keys each");
    good = pgas_kvs_scan(kvs, -1, &cursor, SIZE_MAX, note, &own) == PGAS_OK;
    for (int i = 0; i < MANY; i++)
        mine += own.n_seen[i] > 0;
    pgas_kvs_info_t info = { .size = sizeof info };
    good &= pgas_kvs_info(kvs, &info) == PGAS_OK && info.n_keys == mine;
    BAD(pgas_allreduce(NULL, &mine, &n, 1, PGAS_U64, PGAS_ADD));
    spmd_ok(good && n == MANY, "rank -1 is the own part; pgas_kvs_info counts it");
    seen = (seen_t){ .most = 1 };
    cursor = 0;
    good = pgas_kvs_scan(kvs, -1, &cursor, SIZE_MAX, note, &seen) == PGAS_OK;
    spmd_ok(good && (mine == 0 || seen.most <= 0) && seen.most > -64,
            "false ends a scan behind the bucket");
    steps = (seen_t){ .most = INT32_MAX };
    for (int r = 0; r < n_ranks; r++) {
        cursor = 0;
        for (int i = 0; i == 0 || (cursor != 0 && i < 10000); i++) {
            steps.most = 1;
            good &= pgas_kvs_scan(kvs, r, &cursor, SIZE_MAX, note, &steps) == PGAS_OK;
        }
    }
    spmd_ok(good && each_key(&steps), "scans that end after one key leave out none");
    cursor = 0;
    good = pgas_kvs_scan(kvs, n_ranks, &cursor, 1, note, &seen) == PGAS_ERR_RANGE;
    good &= pgas_kvs_scan(kvs, -2, &cursor, 1, note, &seen) == PGAS_ERR_RANGE;
    cursor = UINT64_MAX;
    good &= pgas_kvs_scan(kvs, -1, &cursor, 1, note, &seen) == PGAS_ERR_RANGE;
    spmd_ok(good && cursor == UINT64_MAX, "no such rank, no such cursor: PGAS_ERR_RANGE");
}

static void scans_that_visit_nothing(void)
{
    pgas_kvs_info_t info = { .size = sizeof info };
    char key[32], value[8] = "";
    uint64_t cursor = 0, n = 0;
    put_all();
    for (int i = me; i < MANY; i += n_ranks) {
        pgas_kvs_item_t item = item_of(key_of(key, "gone", i), PGAS_KVS_PUT, value, sizeof value);
        item.expires_ms = 1;
        BAD(run_one(kvs, &item));
    }
    BAD(pgas_barrier(NULL));
    bool good = pgas_kvs_count(kvs, &n) == PGAS_OK && n == 2 * MANY;
    BAD(pgas_barrier(NULL));
    BAD(pgas_kvs_info(kvs, &info));
    good &= pgas_kvs_scan(kvs, -1, &cursor, 2, NULL, NULL) == PGAS_OK && cursor == 2;
    good &= pgas_kvs_scan(kvs, -1, &cursor, SIZE_MAX, NULL, NULL) == PGAS_OK && cursor == 0;
    BAD(pgas_barrier(NULL));
    good &= pgas_kvs_count(kvs, &n) == PGAS_OK && n == MANY;
    spmd_ok(good && info.n_buckets > 2, "a scan without a function deletes expired keys only");
    bool near = pgas_node_of(job_right()) == pgas_node();
    spmd_ok(pgas_kvs_scan(kvs, job_right(), &cursor, 1, NULL, NULL) ==
                (near ? PGAS_OK : PGAS_ERR_RANGE),
            "only on its own node");
    BAD(pgas_barrier(NULL));
}

/* The keys of a bucket travel together. */
static void scans_of_large_values(void)
{
    static char value[200 << 10];
    seen_t seen = { .most = INT32_MAX };
    char key[32];
    uint64_t cursor = 0;
    int next = (me + 1) % n_ranks, i = 0;
    put_all();
    while (i < MANY && home_of(kvs, key_of(key, "all", i)) != me)
        i++;
    if (i < MANY)
        BAD(pgas_kvs_put(kvs, key, KEY_BYTES, value, sizeof value));
    BAD(pgas_barrier(NULL));
    bool fits = !getenv("PGAS_BUFFER_LIMIT") || pgas_node_of(next) == pgas_node();
    pgas_status_t status = pgas_kvs_scan(kvs, next, &cursor, SIZE_MAX, note, &seen);
    spmd_ok(status == (fits ? PGAS_OK : PGAS_ERR_LIMIT),
            "a scan of another node ends where a bucket is above PGAS_BUFFER_LIMIT");
    BAD(pgas_barrier(NULL));
}

static void counts_and_clears(void)
{
    uint64_t n = 0;
    put_all();
    bool good = pgas_kvs_count(kvs, &n) == PGAS_OK && n == MANY;
    BAD(pgas_barrier(NULL));
    if (me == n_ranks - 1)
        BAD(pgas_kvs_clear(kvs));
    BAD(pgas_barrier(NULL));
    good &= pgas_kvs_count(kvs, &n) == PGAS_OK && n == 0;
    char key[32], value[8];
    for (int i = 0; i < MANY; i++)
        good &= pgas_kvs_get(kvs, key_of(key, "all", i), KEY_BYTES, value, 8, NULL) ==
                PGAS_ERR_NOT_FOUND;
    pgas_kvs_info_t info = { .size = sizeof info };
    BAD(pgas_kvs_info(kvs, &info));
    spmd_ok(good && info.n_keys == 0 && info.data_bytes == 0 &&
                info.block_bytes <= 128 * info.n_overflow,
            "count; clear deletes all keys of all ranks and frees their blocks");
}

/* ---- where it may be called ---- */

static struct {
    int n_run;
    pgas_status_t get[64], put[64];
    size_t bytes[64];
} in_handler;

/* The argument is the number of the key. */
static void on_key(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int32_t number;
    char key[32], value[16] = "";
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&number, args, sizeof number);
    key_of(key, "handler", number);
    in_handler.get[number] =
        pgas_kvs_get(kvs, key, KEY_BYTES, value, sizeof value, &in_handler.bytes[number]);
    in_handler.put[number] = pgas_kvs_put(kvs, key, KEY_BYTES, "written", 8);
    __atomic_add_fetch(&in_handler.n_run, 1, __ATOMIC_RELEASE);
}

static pgas_handler_t with_key;

/* A key is of this node if a scan of one of the node's ranks visits it. */
static bool is_near(int number)
{
    char key[32];
    int home = home_of(kvs, key_of(key, "handler", number));
    return home >= 0 && pgas_node_of(home) == pgas_node_of(me);
}

static void in_plain_handlers(void)
{
    enum { N = 40 };
    char key[32];
    bool good = true;
    int n_far = 0;
    memset(&in_handler, 0, sizeof in_handler);
    for (int i = me; i < N; i += n_ranks)
        BAD(pgas_kvs_put(kvs, key_of(key, "handler", i), KEY_BYTES, "value", 6));
    BAD(pgas_barrier(NULL));
    for (int32_t i = 0; i < N; i++)
        BAD(pgas_call(job_right(), with_key, &i, sizeof i, NULL));
    BAD(pgas_quiesce());
    for (int i = 0; i < N; i++) {
        bool near = is_near(i);
        n_far += !near;
        good &= in_handler.put[i] == (near ? PGAS_OK : PGAS_ERR_CONTEXT);
        good &= in_handler.get[i] == (near ? PGAS_OK : PGAS_ERR_CONTEXT) ||
                (!near && in_handler.get[i] == PGAS_OK);
        good &=
            in_handler.get[i] != PGAS_OK || in_handler.bytes[i] == 6 || in_handler.bytes[i] == 8;
    }
    spmd_ok(good && in_handler.n_run == N && (n_far > 0) == (pgas_n_nodes() > 1),
            "plain handlers use keys of their node, others are PGAS_ERR_CONTEXT");
    BAD(pgas_kvs_clear(kvs));
    BAD(pgas_barrier(NULL));
}

enum { N_STRANGE = 20 };

static void *stranger(void *arg)
{
    char key[32], value[8];
    pgas_status_t *status = arg;
    for (int i = 0; i < N_STRANGE; i++)
        status[i] =
            pgas_kvs_get(kvs, key_of(key, "handler", i), KEY_BYTES, value, sizeof value, NULL);
    return NULL;
}

static void only_attached_threads(void)
{
    pthread_t thread;
    char key[32];
    pgas_status_t status[N_STRANGE];
    bool good = true;
    for (int i = me; i < N_STRANGE; i += n_ranks)
        BAD(pgas_kvs_put(kvs, key_of(key, "handler", i), KEY_BYTES, "value", 6));
    BAD(pgas_barrier(NULL));
    pthread_create(&thread, NULL, stranger, status);
    pthread_join(thread, NULL);
    for (int i = 0; i < N_STRANGE; i++)
        good &= status[i] == (is_near(i) ? PGAS_OK : PGAS_ERR_CONTEXT);
    spmd_ok(good, "threads that are not attached read keys of their node, others are "
                  "PGAS_ERR_CONTEXT");
    BAD(pgas_barrier(NULL));
    BAD(pgas_kvs_clear(kvs));
    BAD(pgas_barrier(NULL));
}

/* ---- full stores ---- */

/* Makes a store with 1 MiB of each rank, and each rank puts 3 MB there. */
static pgas_kvs_t *overfull(bool evict, int64_t expires_ms, bool *good_p)
{
    enum { N = 3000 };
    static char value[1000];
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    pgas_kvs_t *store = NULL;
    char key[32];
    opts.n_keys = 1000;
    opts.bytes = 1 << 20;
    opts.evict = evict;
    *good_p &= pgas_kvs_create(NULL, &opts, &store) == PGAS_OK;
    for (int i = 0; i < N && *good_p; i++) {
        key_of(key, "overfull", me * N + i);
        pgas_kvs_item_t item = item_of(key, PGAS_KVS_PUT, value, sizeof value);
        item.expires_ms = expires_ms;
        *good_p &= run_one(store, &item) == PGAS_OK;
    }
    return store;
}

static void full_stores_evict(void)
{
    bool good = true;
    char key[32];
    pgas_kvs_t *store = overfull(true, 0, &good);
    spmd_ok(good, "a full store evicts keys");
    BAD(pgas_barrier(NULL));
    for (int i = 0; i < 20; i++) {
        int64_t number = 1;
        pgas_kvs_item_t add = item_of(key_of(key, "counter", me * 20 + i), PGAS_KVS_ADD, &number,
                                      SIZE_MAX / 2); /* a sum has 8 bytes, whatever this says */
        good &= run_one(store, &add) == PGAS_OK && number == 0;
    }
    BAD(pgas_barrier(NULL));
    BAD(pgas_kvs_destroy(store));
    spmd_ok(good, "also for new counters");
}

/* Without eviction. The keys have expired when they are put. */
static void full_stores_expire(void)
{
    bool good = true;
    pgas_kvs_t *store = overfull(false, 1, &good);
    spmd_ok(good, "a full store makes room by deleting expired keys");
    BAD(pgas_barrier(NULL));
    BAD(pgas_kvs_destroy(store));
}

/* ---- create ---- */

static void several_stores(void)
{
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    pgas_kvs_t *store[3] = { NULL };
    char value[8];
    bool good = true;
    opts.n_keys = 100;
    opts.bytes = 1 << 20;
    for (int i = 0; i < 3; i++)
        good &= pgas_kvs_create(NULL, &opts, &store[i]) == PGAS_OK;
    for (int i = 0; i < 3; i++)
        good &= pgas_kvs_put(store[i], "same", 4, &"0\0001\0002"[2 * i], 2) == PGAS_OK;
    for (int i = 0; i < 3; i++)
        good &= pgas_kvs_get(store[i], "same", 4, value, 8, NULL) == PGAS_OK && value[0] == '0' + i;
    for (int i = 0; i < 3; i++)
        good &= pgas_kvs_destroy(store[i]) == PGAS_OK;
    spmd_ok(good && pgas_kvs_destroy(NULL) == PGAS_OK, "several stores; destroy ignores NULL");
}

static void store_of_a_team(void)
{
    pgas_team_t *team = NULL;
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    pgas_kvs_t *store = NULL;
    char key[32], value[32];
    uint64_t n = 0;
    opts.bytes = 1 << 20;
    opts.n_keys = 100;
    bool good = pgas_team_split(NULL, me % 2, me, &team) == PGAS_OK;
    good &= pgas_kvs_create(team, &opts, &store) == PGAS_OK;
    int size = pgas_team_size(team), rank = pgas_team_rank(team);
    for (int i = 0; i < 20; i++)
        good &= pgas_kvs_put(store, key_of(key, "team", rank * 20 + i), KEY_BYTES, key,
                             KEY_BYTES) == PGAS_OK;
    good &= pgas_barrier(team) == PGAS_OK;
    for (int i = 0; i < 20 * size; i++) {
        key_of(key, "team", i);
        good &= pgas_kvs_get(store, key, KEY_BYTES, value, sizeof value, NULL) == PGAS_OK &&
                memcmp(key, value, KEY_BYTES) == 0;
    }
    good &= pgas_kvs_count(store, &n) == PGAS_OK && n == (uint64_t)(20 * size);
    good &= pgas_barrier(team) == PGAS_OK && pgas_kvs_destroy(store) == PGAS_OK;
    good &= pgas_team_destroy(team) == PGAS_OK;
    spmd_ok(good, "each of two teams has a store of its own");
}

static void create_refuses(void)
{
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    pgas_kvs_t *store = NULL;
    said_begin();
    opts.bytes = (1 << 20) - 1;
    bool good = pgas_kvs_create(NULL, &opts, &store) == PGAS_ERR_RANGE;
    opts.bytes = 1 << 20;
    opts.n_keys = 1 << 28;
    for (int i = 0; i < 100; i++) /* more than the heap has, if each left its memory behind */
        good &= pgas_kvs_create(NULL, &opts, &store) == PGAS_ERR_RANGE;
    spmd_ok(good && !store, "bytes that are too few: PGAS_ERR_RANGE");
    opts = (pgas_kvs_opts_t)PGAS_KVS_OPTS_INIT;
    opts.bytes = (size_t)1 << 40;
    good = pgas_kvs_create(NULL, &opts, &store) == PGAS_ERR_NO_MEMORY;
    said_end();
    spmd_ok(good && strstr(said_text, "PGAS_HEAP_SIZE"),
            "more than the heap: PGAS_ERR_NO_MEMORY, and the log names PGAS_HEAP_SIZE");
    opts = (pgas_kvs_opts_t)PGAS_KVS_OPTS_INIT;
    opts.bytes = 2 << 20;
    opts.n_keys = me == 0 ? 1000 : 1001;
    said_begin();
    pgas_status_t status = pgas_kvs_create(NULL, &opts, &store);
    if (n_ranks > 1) {
        spmd_ok(said("n_keys") && status == PGAS_ERR_MISMATCH && !store,
                "options that differ: PGAS_ERR_MISMATCH, and the log names the option");
    } else {
        said_end();
        BAD(pgas_kvs_destroy(store));
        spmd_skip(1, "one rank");
    }
    BAD(pgas_barrier(NULL));
    opts.n_keys = 1000;
    store = NULL;
    good = pgas_kvs_create(NULL, &opts, &store) == PGAS_OK && pgas_kvs_destroy(store) == PGAS_OK;
    spmd_ok(good, "after these, a store is created");
}

int main(int argc, char **argv)
{
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    opts.n_keys = 2000;
    opts.bytes = 6 << 20;
    pgas_handler_register("t.kvs.key", on_key, NULL, NULL, &with_key);
    job_begin(&argc, &argv, 24);
    spmd_ok(pgas_kvs_create(NULL, &opts, &kvs) == PGAS_OK, "create");
    scans();
    scans_that_visit_nothing();
    scans_of_large_values();
    counts_and_clears();
    in_plain_handlers();
    only_attached_threads();
    full_stores_evict();
    full_stores_expire();
    several_stores();
    store_of_a_team();
    create_refuses();
    spmd_is_int(crew_faults(), 0, "no other status was wrong");
    spmd_ok(pgas_kvs_destroy(kvs) == PGAS_OK, "destroy");
    return job_end();
}
