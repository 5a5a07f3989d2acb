/* Linearizability of a key-value store.
 *   what:   All threads of all ranks use a few keys at the same time: get, put, delete, conditions,
 *           versions, fetch_add, update, alone and as items of one run, blocking and not. The
 *           transport delays, reorders and refuses. For each key there is an order of all
 *           operations that begins and ends allow, in which a plain key gives the same results.
 *           Values are never torn. A result that is changed on purpose is noticed.
 *   np:     4 4 4 4 2 3
 *   nodes:  0 1 2 1 1 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=5,reorder=5,again=2 |
 *   env:    PGAS_FAULT=delay=9,reorder=9,again=3 | PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_CALL_MAX=1K PGAS_FAULT=delay=3,reorder=3,again=1 | PGAS_SERVICE_THREADS=1
 *   source: pgas/kvs.h, t/history.h; KVS_ROUNDS: stores with settings drawn anew, KVS_STEPS: of a
 *           thread in one of them. KVS_PLANT=1 changes one result of each store */
#include "pgas/kvs.h"
#include "t/history.h"
#include "t/random.h"
#include "t/spmd/array_crew.h"

#define KEYS_MAX    6
#define THREADS     2
#define STEPS_MAX   2000
#define BATCH_MAX   4
#define VALUE_BYTES 32768

typedef struct {
    history_op_t op;
    int32_t key;
} record_t;

/* What this rank did; the ranks gather it. */
typedef struct {
    uint64_t n[THREADS];
    record_t of[THREADS][STEPS_MAX + BATCH_MAX];
} log_t;

/* Even keys have numbers; odd keys have values of other sizes. */
typedef struct {
    pgas_kvs_t *kvs;
    char name[KEYS_MAX][24];
    int n_keys, n_steps;
    bool mostly_reads; /* otherwise no copy in a cache lives long enough */
    log_t *log, *all;
} history_t;

/* One thread. A value begins with a number that no other write has. */
typedef struct {
    pgasi_rng_t rng;
    int number, n_writes;
    uint64_t version[KEYS_MAX]; /* that it saw last */
    history_op_t *adding;       /* for add_to */
    unsigned char value[BATCH_MAX][VALUE_BYTES];
} client_t;

static history_t history;
static uint64_t n_hits;
static client_t client[THREADS];

static uint64_t pick(client_t *c, uint64_t n)
{
    return pgasi_rng_below(&c->rng, n);
}

static uint64_t now_ns(void)
{
    return (uint64_t)(pgas_time() * 1e9);
}

/* ---- values ---- */

static bool is_number(int key)
{
    return key % 2 == 0;
}

static size_t value_bytes(int key, int64_t id)
{
    uint64_t seed = (uint64_t)id;
    uint64_t draw = pgas_splitmix(&seed);
    if (is_number(key))
        return 8;
    return 8 + draw % (draw >> 32 & 15 ? 200 : VALUE_BYTES - 8);
}

static unsigned char pattern(int64_t id, size_t i)
{
    return (unsigned char)((uint64_t)id * 31 + i * 7 + (i >> 8));
}

static size_t write_value(unsigned char *value, int key, int64_t id)
{
    size_t n = value_bytes(key, id);
    memcpy(value, &id, 8);
    for (size_t i = 8; i < n; i++)
        value[i] = pattern(id, i);
    return n;
}

static int64_t read_value(const unsigned char *value, int key, size_t n)
{
    int64_t id = -1;
    bool whole = n >= 8;
    if (whole)
        memcpy(&id, value, 8);
    whole = whole && n == value_bytes(key, id);
    for (size_t i = 8; i < n && whole; i++)
        whole = value[i] == pattern(id, i);
    crew_judge(whole, "a value of parts");
    return id;
}

static int64_t new_id(client_t *c)
{
    int64_t thread = me * THREADS + c->number + 1;
    return thread * 100000000 + ++c->n_writes * 10000;
}

/* ---- one operation ---- */

static history_op_t draw(client_t *c, int key)
{
    history_op_t op = { .thread = me * THREADS + c->number, .expected = c->version[key] };
    uint64_t what = pick(c, 16);
    if (what < 5 || (history.mostly_reads && pick(c, 16) > 0)) {
        op.kind = HISTORY_GET;
    } else if (what < 8) {
        op.kind = HISTORY_DELETE;
        op.condition = what == 5 ? HISTORY_IF_VERSION : HISTORY_ALWAYS;
    } else if (what < 11 && is_number(key)) {
        op.kind = HISTORY_ADD;
        op.value = 1 + (int64_t)pick(c, 99);
    } else {
        op.kind = HISTORY_PUT;
        op.condition = (history_condition_t)pick(c, 4);
        op.value = new_id(c);
    }
    return op;
}

static history_outcome_t outcome_of(pgas_status_t status)
{
    switch (status) {
    case PGAS_OK:
        return HISTORY_DONE;
    case PGAS_ERR_NOT_FOUND:
        return HISTORY_NOT_FOUND;
    case PGAS_ERR_EXISTS:
        return HISTORY_EXISTS;
    case PGAS_ERR_MISMATCH:
        return HISTORY_MISMATCH;
    default:
        BAD(status);
        return HISTORY_DONE;
    }
}

static void begin_item(client_t *c, const history_op_t *op, int key, int place,
                       pgas_kvs_item_t *item)
{
    static const pgas_kvs_op_t ops[] = { PGAS_KVS_GET, PGAS_KVS_PUT, PGAS_KVS_DELETE,
                                         PGAS_KVS_ADD };
    *item = (pgas_kvs_item_t){ .key = history.name[key],
                               .key_bytes = strlen(history.name[key]),
                               .value = c->value[place],
                               .capacity = VALUE_BYTES,
                               .op = ops[op->kind],
                               .condition = (pgas_kvs_condition_t)op->condition,
                               .version = op->expected };
    if (op->kind == HISTORY_PUT)
        item->value_bytes = write_value(c->value[place], key, op->value);
    else if (op->kind == HISTORY_ADD)
        memcpy(c->value[place], &op->value, item->value_bytes = 8);
}

static void end_item(client_t *c, history_op_t *op, int key, const pgas_kvs_item_t *item)
{
    op->outcome = outcome_of(item->status);
    op->version = item->version;
    if (op->kind == HISTORY_GET && item->status == PGAS_OK)
        op->value = read_value(item->value, key, item->value_bytes);
    if (op->kind == HISTORY_ADD)
        memcpy(&op->before, item->value, 8);
    c->version[key] = item->version;
}

static void record(client_t *c, const history_op_t *op, int key)
{
    log_t *log = history.log;
    log->of[c->number][log->n[c->number]++] = (record_t){ *op, key };
}

/* ---- the ways to carry it out ---- */

/* The functions for one key. They report no version. */
static pgas_status_t by_function(client_t *c, history_op_t *op, int key)
{
    const char *name = history.name[key];
    size_t n = strlen(name), bytes = 0;
    unsigned char *value = c->value[0];
    pgas_status_t status;
    switch (op->kind) {
    case HISTORY_GET:
        status = pgas_kvs_get(history.kvs, name, n, value, VALUE_BYTES, &bytes);
        if (status == PGAS_OK)
            op->value = read_value(value, key, bytes);
        return status;
    case HISTORY_PUT:
        op->condition = HISTORY_ALWAYS;
        bytes = write_value(value, key, op->value);
        return pgas_kvs_put(history.kvs, name, n, value, bytes);
    case HISTORY_DELETE:
        op->condition = HISTORY_ALWAYS;
        return pgas_kvs_delete(history.kvs, name, n);
    default:
        return pgas_kvs_fetch_add(history.kvs, name, n, op->value, &op->before);
    }
}

/* Adds to a number; notes the sum before. */
static pgas_status_t add_to(pgas_kvs_item_t *item, void *arg)
{
    client_t *c = arg;
    history_op_t *op = c->adding;
    op->before = 0;
    if (item->version != 0)
        memcpy(&op->before, item->value, 8);
    int64_t sum = op->before + op->value;
    memcpy(c->value[0], &sum, 8);
    item->value = c->value[0];
    item->value_bytes = 8;
    return PGAS_OK;
}

/* Writes the id, if the key has a value. */
static pgas_status_t replace(pgas_kvs_item_t *item, void *arg)
{
    client_t *c = arg;
    if (item->version == 0)
        return PGAS_ERR_NOT_FOUND;
    int64_t id;
    memcpy(&id, c->value[0], 8);
    item->value = c->value[0];
    item->value_bytes = value_bytes(1, id);
    return PGAS_OK;
}

static pgas_status_t by_update(client_t *c, history_op_t *op, int key)
{
    const char *name = history.name[key];
    if (is_number(key)) {
        op->kind = HISTORY_ADD;
        op->value = 1 + (int64_t)pick(c, 99);
        c->adding = op;
        return pgas_kvs_update(history.kvs, name, strlen(name), 8, add_to, c);
    }
    op->kind = HISTORY_PUT;
    op->condition = HISTORY_IF_PRESENT;
    op->value = new_id(c);
    write_value(c->value[0], key, op->value);
    return pgas_kvs_update(history.kvs, name, strlen(name), 0, replace, c);
}

static void step_alone(client_t *c)
{
    int key = (int)pick(c, (uint64_t)history.n_keys);
    history_op_t op = draw(c, key);
    bool update = pick(c, 8) == 0;
    op.begin = now_ns();
    pgas_status_t status = update ? by_update(c, &op, key) : by_function(c, &op, key);
    op.end = now_ns();
    op.outcome = outcome_of(status);
    record(c, &op, key);
}

/* Items of one run. Items of one key would have an order that a history does not express, so keys
 * differ. */
static void step_items(client_t *c)
{
    pgas_kvs_item_t item[BATCH_MAX];
    history_op_t op[BATCH_MAX];
    pgas_sync_t done = PGAS_SYNC_INIT;
    int n = 1 + (int)pick(c, BATCH_MAX), first = (int)pick(c, (uint64_t)history.n_keys);
    bool waits = pick(c, 2);
    n = n < history.n_keys ? n : history.n_keys;
    for (int i = 0; i < n; i++) {
        int key = (first + i) % history.n_keys;
        op[i] = draw(c, key);
        begin_item(c, &op[i], key, i, &item[i]);
    }
    uint64_t begin = now_ns();
    pgas_status_t status = pgas_kvs_run(history.kvs, item, (size_t)n, waits ? NULL : &done);
    if (!waits) {
        BAD(status);
        BAD(pgas_sync_wait(&done, -1));
    }
    uint64_t end = now_ns();
    for (int i = 0; i < n; i++) {
        int key = (first + i) % history.n_keys;
        op[i].begin = begin;
        op[i].end = end;
        end_item(c, &op[i], key, &item[i]);
        record(c, &op[i], key);
    }
}

static void play(int number, void *arg)
{
    client_t *c = &client[number];
    (void)arg;
    while (history.log->n[number] < (uint64_t)history.n_steps) {
        if (pick(c, 2))
            step_alone(c);
        else
            step_items(c);
        if (pick(c, 8) == 0)
            crew_serve();
    }
}

/* ---- the verdict ---- */

static size_t ops_of(int key, history_op_t *ops)
{
    size_t n = 0;
    for (int r = 0; r < n_ranks; r++)
        for (int t = 0; t < THREADS; t++)
            for (uint64_t i = 0; i < history.all[r].n[t]; i++)
                if (history.all[r].of[t][i].key == key)
                    ops[n++] = history.all[r].of[t][i].op;
    return n;
}

/* Prints the operations around the one that does not fit. */
static void explain(int key, const history_op_t *ops, size_t n, const history_report_t *report)
{
    const history_op_t *stuck = &ops[report->stuck[0]];
    uint64_t base = UINT64_MAX;
    for (size_t i = 0; i < n; i++)
        base = ops[i].begin < base ? ops[i].begin : base;
    char text[300];
    printf("# key %d: %zu of %zu operations have an order; then this one does not fit:\n", key,
           report->n_ordered, n);
    int n_printed = 0;
    for (size_t i = 0; i < n && n_printed < 24; i++) {
        history_op_t op = ops[i];
        if (op.begin > stuck->end || op.end + 2 * (stuck->end - stuck->begin) < stuck->begin)
            continue;
        bool is_stuck = &ops[i] == stuck;
        op.begin -= base;
        op.end -= base;
        history_print(&op, text, sizeof text);
        printf("#   %s%s\n", is_stuck ? "> " : "", text);
        n_printed++;
    }
}

/* A read becomes a read of another value. @return false if there is no read of a value */
static bool plant(history_op_t *ops, size_t n)
{
    for (size_t i = n / 2; i < n; i++) {
        if (ops[i].kind == HISTORY_GET && ops[i].outcome == HISTORY_DONE) {
            ops[i].value++;
            return true;
        }
    }
    return false;
}

static history_verdict_t judge_key(int key, bool planted, bool print, size_t *most_p)
{
    history_op_t *ops =
        job_alloc(sizeof *ops * (size_t)(n_ranks * THREADS * (STEPS_MAX + BATCH_MAX)));
    history_report_t report;
    size_t n = ops_of(key, ops);
    if (planted)
        crew_judge(plant(ops, n), "no read was changed");
    history_verdict_t verdict = history_check(ops, n, NULL, &report);
    if (verdict != HISTORY_GOOD && print)
        explain(key, ops, n, &report);
    if (report.n_configurations > *most_p)
        *most_p = report.n_configurations;
    free(ops);
    return verdict;
}

/* ---- stores ---- */

static void set_up(int round)
{
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    bool cache = round % 2 == 0;
    opts.n_keys = below(2) ? 1 : 10000;
    opts.bytes = 4 << 20;
    if (!cache)
        opts.cache_bytes = 1;
    history.mostly_reads = round % 4 < 2;
    history.n_keys = 1 + below_int(KEYS_MAX);
    for (int i = 0; i < history.n_keys; i++)
        snprintf(history.name[i], sizeof history.name[i], "key%d-%llu", i,
                 (unsigned long long)below(1000000));
    BAD(pgas_kvs_create(NULL, &opts, &history.kvs));
    memset(history.log->n, 0, sizeof history.log->n);
    uint64_t seed = pgasi_rng_u64(&rng);
    for (int t = 0; t < THREADS; t++) {
        pgasi_rng_seed(&client[t].rng, seed + (uint64_t)(me * THREADS + t) * 7919);
        memset(client[t].version, 0, sizeof client[t].version);
        client[t].number = t;
        client[t].n_writes = 0;
    }
}

static void play_round(int round)
{
    set_up(round);
    crew_run(THREADS, play, NULL);
    BAD(pgas_allgather(NULL, history.log, history.all, sizeof *history.log));
    pgas_kvs_info_t info = { .size = sizeof info };
    BAD(pgas_kvs_info(history.kvs, &info));
    n_hits += info.cache_hits;
    BAD(pgas_kvs_destroy(history.kvs));
}

static void rounds(int n, bool planted)
{
    int n_bad = 0, n_faults = 0;
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        play_round(i);
        for (int key = me; key < history.n_keys; key += n_ranks)
            n_bad += judge_key(key, planted && key == 0, true, &most) != HISTORY_GOOD;
        n_faults += crew_faults();
    }
    spmd_diag("%d stores, at most %zu configurations and %llu cached reads here", n, most,
              (unsigned long long)n_hits);
    spmd_is_int(n_faults, 0, "%d stores: no value is torn, no status is wrong", n);
    spmd_is_int(n_bad, 0, "%d stores: all keys are linearizable", n);
    spmd_ok(pgas_n_nodes() == 1 || job_any(n_hits > 0), "some reads were from the cache");
}

static void the_checker_can_fail(void)
{
    size_t most = 0;
    crew_mute();
    play_round(0);
    bool good = judge_key(0, false, false, &most) == HISTORY_GOOD;
    bool noticed = judge_key(0, true, false, &most) == HISTORY_BAD;
    spmd_ok(good && noticed && crew_faults() == 0, "a changed result is noticed");
}

int main(int argc, char **argv)
{
    const char *n_rounds = getenv("KVS_ROUNDS"), *n_steps = getenv("KVS_STEPS");
    job_begin(&argc, &argv, 4);
    pgasi_rng_seed(&rng, spmd_seed(1) + 1000 * (uint64_t)spmd_size());
    history.n_steps = n_steps && atoi(n_steps) < STEPS_MAX ? atoi(n_steps) : 400;
    history.log = job_alloc(sizeof *history.log);
    history.all = job_alloc(sizeof *history.all * (size_t)n_ranks);
    rounds(n_rounds ? atoi(n_rounds) : 6, getenv("KVS_PLANT") != NULL);
    the_checker_can_fail();
    free(history.log);
    free(history.all);
    return job_end();
}
