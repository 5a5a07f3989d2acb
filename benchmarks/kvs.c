/* The key-value store: single keys, batches, the loads of YCSB, memory and files.
 *
 * get, put and their batches use all keys. The far cases use keys whose home is on another node, on
 * rank 0 alone, without a cache. References:
 *   table       a bare hash table of one thread (ref_table.c) in huge pages; in YCSB's loads each
 *               rank has a table of its own
 *   heap-table  the same in memory of the kind that the store has
 *   uniform     the same load with uniform keys
 *   redis       a server that the user has started (--redis PORT); rank 0 loads it with the
 *               operations of all ranks, by 50 connections with pipelines of 16
 *
 * --check compares every record that YCSB's loads read with what can be true, see kvs_check.c. */
#include "benchmarks/array_work.h"
#include "benchmarks/kvs_work.h"
#include "benchmarks/ref_table.h"
#include "benchmarks/resp_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_MS   30
#define MANY       64 /* keys of a batch */
#define WARM_MAX   (UINT64_C(1) << 20)
#define CONNS      50 /* of the client of "redis" */
#define PIPELINE   16
#define REDIS_WAIT 30.0 /* seconds */

/* Kinds of cases, by bench_run_t.arg. YCSB's have the name of the workload. */
enum { NOTHING, OWN, FAR, SPACE, FILES, YCSB_LOST = 'g' };

/* Where a reference table is. */
enum { IN_HUGE_PAGES, IN_HEAP, NO_TABLE };

/* What is open. */
static struct {
    int kind;
    size_t bytes;
} now;

static uint64_t *draws; /* keys for cases without a load */
static kvs_load_t zipf, uniform;
static ref_table_t *tables[2], *table; /* in huge pages, and in the heap; the one in use */
static pgas_gptr_t heap;
static resp_client_t *redis;

/* ---- keys and values ---- */

typedef struct {
    uint64_t *key, n;
} keys_t;

static bool collect(const pgas_kvs_item_t *item, void *arg)
{
    keys_t *keys = arg;
    if (keys->n == kvs_opt.n_keys)
        return false;
    memcpy(&keys->key[keys->n++], item->key, sizeof *keys->key);
    return true;
}

/* Draws from the keys of all homes, or of the first home on another node. */
static void draw_keys(bool far)
{
    keys_t keys = { bench_table(kvs_opt.n_keys * sizeof *keys.key), 0 };
    uint64_t state = bench_seed(pgas_rank()), cursor = 0;
    int home = 0;
    while (far && pgas_node_of(home) == pgas_node())
        home++;
    for (; !far && keys.n < kvs_opt.n_keys; keys.n++)
        keys.key[keys.n] = keys.n;
    if (far)
        bench_check(pgas_kvs_scan(kvs_store, home, &cursor, SIZE_MAX, collect, &keys),
                    "pgas_kvs_scan");
    for (uint64_t i = 0; i < KVS_LIST; i++)
        draws[i] = keys.key[bench_random_below(&state, keys.n)];
    free(keys.key);
}

/* The second table is in memory as the store's: pages of the heap may be smaller. Collective. */
static ref_table_t *make_table(size_t bytes, bool in_heap)
{
    uint64_t n = kvs_opt.n_keys + KVS_LIST / 20 * (uint64_t)pgas_n_ranks();
    size_t all = ref_table_bytes(n, bytes);
    kvs_record_t value = { 0 };
    ref_table_t *made;
    if (in_heap)
        bench_check(pgas_alloc(all, &heap), "pgas_alloc: PGAS_HEAP_SIZE");
    made = ref_table_create(n, bytes, in_heap ? pgas_gptr_local(heap, all) : NULL);
    for (uint64_t k = 0; k < kvs_opt.n_keys; k++) {
        value.key = k;
        (void)ref_table_put(made, k, &value);
    }
    return made;
}

static void drop_tables(void)
{
    if (tables[IN_HEAP])
        bench_check(pgas_free(heap), "pgas_free");
    for (int i = 0; i < 2; i++) {
        ref_table_destroy(tables[i]);
        tables[i] = NULL;
    }
}

static void use_table(size_t bytes, int which)
{
    if (!tables[which])
        tables[which] = make_table(bytes, which == IN_HEAP);
    table = tables[which];
}

/* Caches of several nodes have what a load has left in them after a while. */
static void warm(void)
{
    uint64_t n = kvs_opt.n_keys < WARM_MAX ? kvs_opt.n_keys : WARM_MAX;
    if (pgas_n_nodes() == 1)
        return;
    kvs_carry_out(&zipf, n, false);
    kvs_carry_out(&uniform, n / 4, false);
    bench_check(pgas_barrier(NULL), "pgas_barrier");
}

/* Makes the store, its keys and the lists of a case. Collective. */
static void begin(const bench_run_t *run)
{
    char workload = (char)(run->arg == YCSB_LOST ? 'f' : run->arg);
    if (now.kind == run->arg && now.bytes == run->bytes)
        return;
    now.kind = run->arg;
    now.bytes = run->bytes;
    drop_tables();
    kvs_open(run->arg != FAR);
    if (ycsb_mix(workload)) {
        zipf.mix = uniform.mix = ycsb_mix(workload);
        zipf.theta = YCSB_THETA;
        kvs_draw(&zipf, run);
        kvs_draw(&uniform, run);
        kvs_fill_records();
        if (workload != 'e') /* scans are not cached */
            warm();
        return;
    }
    kvs_fill_values(run->bytes);
    draw_keys(run->arg == FAR);
    bench_check(pgas_barrier(NULL), "pgas_barrier");
}

/* ---- single keys and batches ---- */

/* Expands n operations on drawn keys, k the key. */
#define FOR_KEYS(N) for (uint64_t i_ = 0, k = draws[0]; i_ < (N); k = draws[++i_ & (KVS_LIST - 1)])

static void get_one(uint64_t n, size_t bytes)
{
    char value[KVS_VALUE_BYTES];
    size_t is;
    int bad = 0;
    FOR_KEYS(n)
    {
        bad |= pgas_kvs_get(kvs_store, &k, sizeof k, value, bytes, &is);
        bench_use(value[0]);
    }
    if (bad)
        bench_die("pgas_kvs_get failed");
}

static void put_one(uint64_t n, size_t bytes)
{
    uint64_t value[KVS_VALUE_BYTES / 8] = { 0 };
    int bad = 0;
    FOR_KEYS(n)
    {
        value[0] = k;
        bad |= pgas_kvs_put(kvs_store, &k, sizeof k, value, bytes);
    }
    if (bad)
        bench_die("pgas_kvs_put failed");
}

/* Items as a program would keep them: only keys change. */
static void many(uint64_t n, size_t bytes, pgas_kvs_op_t op)
{
    static uint64_t value[MANY][KVS_VALUE_BYTES / 8];
    pgas_kvs_item_t item[MANY] = { { 0 } };
    int bad = 0;
    for (int i = 0; i < MANY; i++)
        item[i] = (pgas_kvs_item_t){ .op = op,
                                     .key_bytes = sizeof *draws,
                                     .value = value[i],
                                     .value_bytes = bytes,
                                     .capacity = bytes };
    for (uint64_t at = 0, m; at < n; at += m) {
        m = n - at < MANY ? n - at : MANY;
        for (uint64_t i = 0; i < m; i++) {
            item[i].key = &draws[(at + i) & (KVS_LIST - 1)];
            if (op == PGAS_KVS_PUT)
                value[i][0] = draws[(at + i) & (KVS_LIST - 1)];
        }
        bad |= pgas_kvs_run(kvs_store, item, m, NULL);
    }
    if (bad)
        bench_die("pgas_kvs_run failed");
}

static void get_many(uint64_t n, size_t bytes)
{
    many(n, bytes, PGAS_KVS_GET);
}

static void put_many(uint64_t n, size_t bytes)
{
    many(n, bytes, PGAS_KVS_PUT);
}

static void table_get(uint64_t n, size_t bytes)
{
    char value[KVS_VALUE_BYTES];
    int good = 1;
    (void)bytes;
    FOR_KEYS(n)
    {
        good &= ref_table_get(table, k, value);
        bench_use(value[0]);
    }
    if (!good)
        bench_die("a key is missing in the table");
}

static void table_put(uint64_t n, size_t bytes)
{
    uint64_t value[KVS_VALUE_BYTES / 8] = { 0 };
    (void)bytes;
    FOR_KEYS(n)
    {
        value[0] = k;
        (void)ref_table_put(table, k, value);
    }
}

static void table_many(uint64_t n, size_t bytes)
{
    static char values[MANY * KVS_VALUE_BYTES];
    uint64_t n_found = 0;
    (void)bytes;
    for (uint64_t at = 0, m; at < n; at += m) {
        m = n - at < MANY ? n - at : MANY;
        n_found += ref_table_get_many(table, draws + (at & (KVS_LIST - 1)), m, values);
    }
    if (n_found != n)
        bench_die("keys are missing in the table");
}

typedef void (*some_fn_t)(uint64_t n, size_t bytes);

/* In far cases rank 0 works and the others answer. */
static double timed(const bench_run_t *run, some_fn_t some, int which)
{
    uint64_t start;
    begin(run);
    if (which != NO_TABLE)
        use_table(run->bytes, which);
    if (run->arg == FAR && run->rank != 0)
        return 0;
    start = bench_now();
    some(run->iters, run->bytes);
    return bench_since(start);
}

#define LOOP(NAME, SOME, WHICH)                       \
    static double loop_##NAME(const bench_run_t *run) \
    {                                                 \
        return timed(run, SOME, WHICH);               \
    }
LOOP(get_one, get_one, NO_TABLE)
LOOP(get_many, get_many, NO_TABLE)
LOOP(put_one, put_one, NO_TABLE)
LOOP(put_many, put_many, NO_TABLE)
LOOP(table_get, table_get, IN_HUGE_PAGES)
LOOP(table_many, table_many, IN_HUGE_PAGES)
LOOP(table_put, table_put, IN_HUGE_PAGES)
LOOP(heap_get, table_get, IN_HEAP)
LOOP(heap_many, table_many, IN_HEAP)
LOOP(heap_put, table_put, IN_HEAP)

/* ---- YCSB ---- */

static double timed_load(const bench_run_t *run, kvs_load_t *load)
{
    uint64_t start;
    begin(run);
    start = bench_now();
    kvs_carry_out(load, run->iters, run->arg == YCSB_LOST);
    return bench_since(start);
}

static double ycsb_zipf(const bench_run_t *run)
{
    return timed_load(run, &zipf);
}

static double ycsb_uniform(const bench_run_t *run)
{
    return timed_load(run, &uniform);
}

static void table_op(ycsb_entry_t entry, uint64_t *cursor)
{
    static kvs_record_t values[YCSB_SCAN_MAX];
    uint64_t key = ycsb_key(entry);
    switch (ycsb_op(entry)) {
    case YCSB_SCAN:
        (void)ref_table_scan(table, cursor, ycsb_length(entry), values);
        return;
    case YCSB_READ:
        (void)ref_table_get(table, key, values);
        return;
    case YCSB_MODIFY:
        (void)ref_table_get(table, key, values);
        values[0].count++;
        break;
    default:
        values[0].key = key;
    }
    (void)ref_table_put(table, key, values);
}

static double ycsb_table(const bench_run_t *run)
{
    static uint64_t at, cursor;
    uint64_t start;
    begin(run);
    use_table(sizeof(kvs_record_t), IN_HUGE_PAGES);
    start = bench_now();
    for (uint64_t i = 0; i < run->iters; i++)
        table_op(zipf.list[at++ & (KVS_LIST - 1)], &cursor);
    return bench_since(start);
}

static void must(const char *why)
{
    if (why)
        bench_die("--redis: %s", why);
}

static void open_redis(void)
{
    resp_opts_t opts = { (int)kvs_opt.redis_port, 1, CONNS, PIPELINE, sizeof(kvs_record_t) };
    must(resp_open(&opts, &redis));
    must(resp_fill(redis, kvs_opt.n_keys));
}

/* As many operations as all ranks have. */
static double ycsb_redis(const bench_run_t *run)
{
    resp_result_t result;
    begin(run);
    if (run->rank != 0)
        return 0;
    if (!redis)
        open_redis();
    must(resp_run(redis, zipf.list, KVS_LIST, run->iters * (uint64_t)run->n_ranks, REDIS_WAIT,
                  &result));
    return result.seconds * 1e9;
}

/* ---- cases ---- */

#define KEYS(NAME, ARG, DOC, LOOP, WAY, PATHS)                                                \
    {                                                                                         \
        .variant = NAME, .doc = DOC, .paths = PATHS, .metric = BENCH_RATE_EACH, .ours = LOOP, \
        .round_ms = ROUND_MS, .arg = ARG, .refs = {                                           \
            { "table", BENCH_OURS, loop_table_##WAY },                                        \
            { "heap-table", BENCH_OURS, loop_heap_##WAY }                                     \
        }                                                                                     \
    }
#define OWN_KEYS(NAME, DOC, LOOP, WAY) KEYS(NAME, OWN, DOC, LOOP, WAY, BENCH_NODE)
#define FAR_KEYS(NAME, DOC, LOOP, WAY) KEYS(NAME, FAR, DOC, LOOP, WAY, BENCH_FAR)
#define YCSB(NAME, ARG, DOC, ...)                                                                 \
    {                                                                                             \
        .variant = NAME, .doc = DOC, .paths = BENCH_ANYWHERE, .metric = BENCH_RATE,               \
        .ours = ycsb_zipf, .min_bytes = KVS_VALUE_BYTES, .max_bytes = KVS_VALUE_BYTES,            \
        .round_ms = ROUND_MS, .arg = ARG,                                                         \
        .refs = { { "uniform", BENCH_OURS, ycsb_uniform }, { "table", BENCH_OURS, ycsb_table } }, \
        __VA_ARGS__                                                                               \
    }

static bench_case_t cases[] = {
    OWN_KEYS("get", "pgas_kvs_get, 8-byte keys, uniform", loop_get_one, get),
    OWN_KEYS("get-many", "pgas_kvs_get_many of 64", loop_get_many, many),
    OWN_KEYS("put", "pgas_kvs_put of keys that exist", loop_put_one, put),
    OWN_KEYS("put-many", "pgas_kvs_put_many of 64", loop_put_many, put),
    FAR_KEYS("far-get", "pgas_kvs_get of another node's keys", loop_get_one, get),
    FAR_KEYS("far-get-many", "pgas_kvs_get_many of 64 of them", loop_get_many, get),
    FAR_KEYS("far-put-many", "pgas_kvs_put_many of 64 of them", loop_put_many, put),
    YCSB("ycsb-a", 'a', "half reads, half updates, Zipf .99"),
    YCSB("ycsb-b", 'b', "95 % reads, 5 % updates"),
    YCSB("ycsb-c", 'c', "reads"),
    YCSB("ycsb-d", 'd', "95 % reads of the latest keys, 5 % inserts"),
    YCSB("ycsb-e", 'e', "95 % scans of 1 to 100 keys, 5 % inserts"),
    YCSB("ycsb-f", 'f', "half reads, half modifications"),
    YCSB("ycsb-f-lost", YCSB_LOST, "modifications that are not atomic: --check notices",
         .on_request = true),
    { .variant = "bytes",
      .doc = "memory for a key of 16 bytes with a value of 64",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_VALUE,
      .unit = "bytes",
      .no_sizes = true,
      .round_ms = 80,
      .ours = kvs_space,
      .arg = SPACE },
    { .variant = "save",
      .doc = "pgas_kvs_save; file: the same bytes by write and fsync",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_VALUE,
      .unit = "MB/s",
      .higher = true,
      .no_sizes = true,
      .round_ms = 80,
      .ours = kvs_snapshot,
      .refs = { { "file", BENCH_OURS, kvs_file } },
      .arg = FILES },
};

static const size_t sizes[] = { 8, 64, 0 };

static const char *set_keys(const char *text)
{
    return work_number(text, 1000, 1e9, &kvs_opt.n_keys, "--keys: 1000 to 1e9");
}

static const char *set_batch(const char *text)
{
    return work_number(text, 1, KVS_BATCH_MAX, &kvs_opt.batch, "--batch: 1 to 1024");
}

static const char *set_redis(const char *text)
{
    return work_number(text, 1, 65535, &kvs_opt.redis_port, "--redis: 1 to 65535");
}

static const char *set_files(const char *text)
{
    kvs_opt.files = text;
    return NULL;
}

static const char *set_check(const char *text)
{
    (void)text;
    kvs_opt.check = true;
    return NULL;
}

static const bench_option_t options[] = {
    { "keys", "N", "in the store (1000000)", set_keys },
    { "batch", "N", "operations of YCSB's loads that begin together (16)", set_batch },
    { "redis", "PORT", "with --compare: a server there", set_redis },
    { "files", "FOLDER", "of the snapshots (" P_tmpdir ")", set_files },
    { "check", NULL, "check all values of YCSB's loads", set_check },
    { NULL, NULL, NULL, NULL }
};

/* The usual heap is too small for a million keys on one rank. */
static void prepare(void)
{
    (void)setenv("PGAS_HEAP_SIZE", "768M", 0);
    for (size_t i = 0; kvs_opt.redis_port && i < sizeof cases / sizeof *cases; i++)
        if (ycsb_mix((char)cases[i].arg) && cases[i].arg != 'e')
            cases[i].refs[2] = (bench_ref_t){ "redis", BENCH_OURS, ycsb_redis };
}

static void setup(void)
{
    draws = bench_table(KVS_LIST * sizeof *draws);
}

static void finish(const bench_run_t *run, bool json)
{
    (void)run;
    (void)json;
    kvs_close();
    kvs_files_close();
    resp_close(redis);
    drop_tables();
    free(draws);
    free(zipf.list);
    free(uniform.list);
}

int main(int argc, char **argv)
{
    const bench_program_t program = { .name = "pgas_kvs",
                                      .doc = "the key-value store",
                                      .ranks = BENCH_ANY,
                                      .label = "Figure",
                                      .min_bytes = 8,
                                      .max_bytes = 64,
                                      .sizes = sizes,
                                      BENCH_CASES(cases),
                                      .prepare = prepare,
                                      .setup = setup,
                                      .finish = finish,
                                      .figures = kvs_space_figures,
                                      .options = options };
    return bench_main(&program, argc, argv);
}
