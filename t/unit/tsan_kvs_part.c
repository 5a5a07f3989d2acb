/* what: Keys of one bucket and one tag stay apart in a home's part of a store: in chains of many
 *       buckets, when some are deleted, and when a value changes its size. Four threads that read
 *       and write such keys get results that a plain key could have given, and whole values. A full
 *       part refuses a write and keeps the old value.
 * needs: tsan-ok
 * source: src/kvs/part.h; t/history.h */
#include <pthread.h>
#include "base/clock.h"
#include "kvs/part.h"
#include "t/history.h"
#include "t/pattern.h"
#include "t/random.h"
#include "t/tap.h"

#define PART_BYTES (4 << 20)
#define TWINS      300
#define TAG        77

static const pgasi_write_hooks_t no_hooks;
static pgasi_part_t part;
static char *memory;

static void open_part(uint64_t bytes, uint64_t n_buckets)
{
    free(memory);
    memory = aligned_alloc(65536, bytes);
    if (!memory || !pgasi_part_init(memory, bytes, n_buckets, false))
        bail("no part of %" PRIu64 " bytes", bytes);
    pgasi_part_open(memory, &part);
}

/* All keys have the same hash. */
static pgasi_key_t twin(const int *number)
{
    return (pgasi_key_t){ .key = number, .bytes = sizeof *number, .hash = 1, .tag = TAG };
}

static pgas_status_t put(int number, uint64_t seed, size_t bytes)
{
    static unsigned char value[200000];
    pgasi_key_t key = twin(&number);
    pgas_kvs_item_t item = { .key = key.key, .key_bytes = key.bytes, .op = PGAS_KVS_PUT };
    pattern_fill(value, seed, bytes);
    item.value = value;
    item.value_bytes = bytes;
    return pgasi_part_write(&part, &key, &item, &no_hooks);
}

static pgas_status_t get(int number, uint64_t seed, size_t bytes)
{
    unsigned char value[8192];
    pgasi_key_t key = twin(&number);
    pgas_kvs_item_t item = { .value = value, .capacity = sizeof value };
    pgas_status_t status = pgasi_part_get_item(&part, &key, &item);
    if (status != PGAS_OK)
        return status;
    return item.value_bytes == bytes && pattern_matches(value, seed, bytes) ? PGAS_OK
                                                                            : PGAS_ERR_FORMAT;
}

static pgas_status_t drop(int number)
{
    pgasi_key_t key = twin(&number);
    pgas_kvs_item_t item = { .key = key.key, .key_bytes = key.bytes, .op = PGAS_KVS_DELETE };
    return pgasi_part_write(&part, &key, &item, &no_hooks);
}

static size_t bytes_of(int number)
{
    return (size_t)(number * 37) % 3000;
}

static void twins_stay_apart(void)
{
    int n_bad = 0;
    open_part(PART_BYTES, 1);
    for (int i = 0; i < TWINS; i++)
        n_bad += put(i, (uint64_t)i, bytes_of(i)) != PGAS_OK;
    for (int i = 0; i < TWINS; i++)
        n_bad += get(i, (uint64_t)i, bytes_of(i)) != PGAS_OK;
    n_bad += get(TWINS, 0, 0) != PGAS_ERR_NOT_FOUND;
    ok(n_bad == 0 && part.head->n_keys == TWINS && part.head->n_overflow >= TWINS / 15 - 1,
       "%d keys of one bucket and one tag have their own values", TWINS);
    for (int i = 0; i < TWINS; i += 2)
        n_bad += drop(i) != PGAS_OK || drop(i) != PGAS_ERR_NOT_FOUND;
    for (int i = 0; i < TWINS; i++)
        n_bad += get(i, (uint64_t)i, bytes_of(i)) != (i % 2 ? PGAS_OK : PGAS_ERR_NOT_FOUND);
    ok(n_bad == 0, "every other one is deleted");
    uint64_t n_overflow = part.head->n_overflow;
    for (int i = 0; i < TWINS; i += 2)
        n_bad += put(i, 7, 50) != PGAS_OK;
    for (int i = 0; i < TWINS; i++)
        n_bad += get(i, i % 2 ? (uint64_t)i : 7, i % 2 ? bytes_of(i) : 50) != PGAS_OK;
    ok(n_bad == 0 && part.head->n_overflow == n_overflow,
       "their places in the chain are used again");
}

static void all_sizes(void)
{
    int n_bad = 0;
    open_part(PART_BYTES, 1);
    for (size_t n = 0; n <= 5000; n++) {
        n_bad += put(1, n, n) != PGAS_OK || get(1, n, n) != PGAS_OK;
        n_bad += put(2, n, 5000 - n) != PGAS_OK || get(2, n, 5000 - n) != PGAS_OK;
        n_bad += get(1, n, n) != PGAS_OK;
    }
    uint64_t taken, used;
    n_bad += drop(1) != PGAS_OK || drop(2) != PGAS_OK;
    pgasi_slab_use(&part.head->slabs, &taken, &used);
    ok(n_bad == 0 && used == 0 && part.head->data_bytes == 0,
       "a value of each size up to 5,000, growing and shrinking; no block is left");
}

static void full(void)
{
    int n = 0, n_bad = 0;
    open_part(8 << 20, 8);
    while (put(n, (uint64_t)n, bytes_of(n)) == PGAS_OK)
        n++;
    n_bad += put(1, 999, 200000) != PGAS_ERR_NO_MEMORY;
    for (int i = 0; i < n; i++)
        n_bad += get(i, (uint64_t)i, bytes_of(i)) != PGAS_OK;
    ok(n > 100 && n_bad == 0, "a full part refuses a write and keeps the old value");
    for (int i = 0; i < n; i++)
        n_bad += drop(i) != PGAS_OK;
    for (int i = 0; i < n; i++)
        n_bad += put(i, (uint64_t)i, bytes_of(i)) != PGAS_OK;
    ok(n_bad == 0, "after deletes the same keys fit again");
}

/* Sizes of all classes come and go, one after the other. An empty part has room for each. */
static void empty_part_has_room(void)
{
    int n_bad = 0;
    open_part(1 << 20, 8);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 100; i++)
            n_bad += put(i, (uint64_t)i, (size_t)i * i) != PGAS_OK || drop(i) != PGAS_OK;
    is_int(n_bad, 0, "a part whose keys were all deleted has room for each size");
}

/* Each class of sizes takes slabs of 64 KiB. */
static void small_part_is_of_use(void)
{
    int n = 0;
    uint64_t bytes = 0;
    open_part(8 << 20, 8);
    while (put(n, (uint64_t)n, bytes_of(n)) == PGAS_OK)
        bytes += bytes_of(n++);
    diag("%d values of 0 to 3,000 bytes, %" PRIu64 " bytes, fit in 8 MiB", n, bytes);
    ok(bytes > 4 << 20, "values of many sizes use at least half of a part of 8 MiB");
}

/* ---- threads ---- */

#define THREADS 4
#define STEPS   1500
#define HOT     3

typedef struct {
    history_op_t op[STEPS];
    int key[STEPS], number, n_torn;
} worker_t;

static worker_t worker[THREADS];

static void draw(pgasi_rng_t *r, history_op_t *op, const uint64_t *version, int key)
{
    uint64_t what = pgasi_rng_below(r, 8);
    op->expected = version[key];
    op->kind = HISTORY_GET;
    if (what > 5)
        op->kind = HISTORY_DELETE;
    else if (what > 2)
        op->kind = HISTORY_PUT;
    if (op->kind != HISTORY_GET)
        op->condition = (history_condition_t)pgasi_rng_below(r, 4);
    if (op->kind == HISTORY_DELETE && op->condition == HISTORY_IF_ABSENT)
        op->condition = HISTORY_ALWAYS;
}

/* The seed of the pattern is the first word of the value. */
static size_t size_of(int64_t id)
{
    return 8 + (size_t)(id * 37 % 2500);
}

static pgas_status_t carry_out(worker_t *w, history_op_t *op, int number)
{
    static _Thread_local unsigned char value[4096];
    pgasi_key_t key = twin(&number);
    pgas_kvs_item_t item = { .key = key.key, .key_bytes = key.bytes, .value = value };
    pgas_status_t status;
    item.capacity = sizeof value;
    if (op->kind == HISTORY_GET) {
        status = pgasi_part_get_item(&part, &key, &item);
        if (status == PGAS_OK) {
            memcpy(&op->value, value, 8);
            size_t n = size_of(op->value);
            w->n_torn +=
                item.value_bytes != n || !pattern_matches(value + 8, (uint64_t)op->value, n - 8);
        }
    } else {
        item.op = op->kind == HISTORY_PUT ? PGAS_KVS_PUT : PGAS_KVS_DELETE;
        item.condition = (pgas_kvs_condition_t)op->condition;
        item.version = op->expected;
        item.value_bytes = size_of(op->value);
        memcpy(value, &op->value, 8);
        pattern_fill(value + 8, (uint64_t)op->value, item.value_bytes - 8);
        status = pgasi_part_write(&part, &key, &item, &no_hooks);
    }
    op->version = status == PGAS_ERR_NOT_FOUND ? 0 : item.version;
    return status;
}

static void *work(void *arg)
{
    worker_t *w = arg;
    pgasi_rng_t r;
    uint64_t version[HOT] = { 0 };
    pgasi_rng_seed(&r, (uint64_t)w->number + 1);
    for (int i = 0; i < STEPS; i++) {
        history_op_t *op = &w->op[i];
        int key = w->key[i] = (int)pgasi_rng_below(&r, HOT);
        *op = (history_op_t){ .thread = w->number, .value = w->number * 1000000 + i };
        draw(&r, op, version, key);
        op->begin = pgasi_now_ns();
        pgas_status_t status = carry_out(w, op, key);
        op->end = pgasi_now_ns();
        version[key] = op->version;
        op->outcome = HISTORY_DONE;
        if (status == PGAS_ERR_NOT_FOUND)
            op->outcome = HISTORY_NOT_FOUND;
        else if (status != PGAS_OK)
            op->outcome = status == PGAS_ERR_EXISTS ? HISTORY_EXISTS : HISTORY_MISMATCH;
    }
    return NULL;
}

static void threads_are_linearizable(void)
{
    static history_op_t ops[THREADS * STEPS];
    pthread_t thread[THREADS];
    int n_bad = 0, n_torn = 0;
    open_part(PART_BYTES, 1);
    for (int t = 0; t < THREADS; t++) {
        worker[t].number = t;
        pthread_create(&thread[t], NULL, work, &worker[t]);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
        n_torn += worker[t].n_torn;
    }
    for (int key = 0; key < HOT; key++) {
        size_t n = 0;
        history_report_t report;
        for (int t = 0; t < THREADS; t++)
            for (int i = 0; i < STEPS; i++)
                if (worker[t].key[i] == key)
                    ops[n++] = worker[t].op[i];
        if (history_check(ops, n, NULL, &report) != HISTORY_GOOD) {
            char text[300];
            history_print(&ops[report.stuck[0]], text, sizeof text);
            diag("key %d: %zu of %zu have an order, then: %s", key, report.n_ordered, n, text);
            n_bad++;
        }
    }
    is_int(n_torn, 0, "four threads: each value is whole");
    is_int(n_bad, 0, "four threads: each key is linearizable");
}

int main(void)
{
    plan(10);
    twins_stay_apart();
    all_sizes();
    full();
    empty_part_has_room();
    small_part_is_of_use();
    threads_are_linearizable();
    free(memory);
    return done();
}
