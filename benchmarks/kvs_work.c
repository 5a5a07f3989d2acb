/* The store of pgas_kvs and YCSB's operations on it, see kvs_work.h.
 *
 * Operations are carried out in batches by pgas_kvs_run, as clients of servers send pipelines. A
 * modification is a read in one batch, and a write in the next that has the version of the read as
 * its condition. If the key has changed, pgas_kvs_update does it. With batches of 1 the functions
 * for one key are used. */
#include "benchmarks/kvs_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILL_BATCH 64

struct kvs_options kvs_opt = { 1000000, 16, 0, P_tmpdir, false };
pgas_kvs_t *kvs_store;

static bool store_has_cache, has_records;

/* ---- the store ---- */

void kvs_close(void)
{
    if (has_records)
        kvs_check_counts();
    has_records = false;
    bench_check(pgas_kvs_destroy(kvs_store), "pgas_kvs_destroy");
    kvs_store = NULL;
}

/* YCSB's D and E insert further keys: 5 of 100 operations. */
void kvs_open(bool has_cache)
{
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    if (kvs_store && store_has_cache == has_cache)
        return;
    kvs_close();
    opts.n_keys = kvs_opt.n_keys;
    opts.cache_bytes = has_cache ? 0 : 1;
    bench_check(pgas_kvs_create(NULL, &opts, &kvs_store), "pgas_kvs_create: PGAS_HEAP_SIZE");
    store_has_cache = has_cache;
}

static void clear(void)
{
    if (has_records)
        kvs_check_counts();
    has_records = false;
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    if (pgas_rank() == 0)
        bench_check(pgas_kvs_clear(kvs_store), "pgas_kvs_clear");
    bench_check(pgas_barrier(NULL), "pgas_barrier");
}

/* Puts the keys of this rank, one of n_ranks. */
static void fill(size_t bytes, bool records)
{
    static kvs_record_t value[FILL_BATCH];
    static uint64_t key[FILL_BATCH];
    pgas_kvs_item_t item[FILL_BATCH] = { { 0 } };
    size_t n = 0;
    for (uint64_t k = (uint64_t)pgas_rank(); k < kvs_opt.n_keys; k += (uint64_t)pgas_n_ranks()) {
        key[n] = k;
        value[n].key = k;
        if (records)
            kvs_make_record(&value[n], k, NULL);
        item[n].key = &key[n];
        item[n].key_bytes = sizeof key[n];
        item[n].value = &value[n];
        item[n].value_bytes = bytes;
        if (++n == FILL_BATCH || k + (uint64_t)pgas_n_ranks() >= kvs_opt.n_keys) {
            bench_check(pgas_kvs_put_many(kvs_store, item, n), "pgas_kvs_put_many");
            n = 0;
        }
    }
    bench_check(pgas_barrier(NULL), "pgas_barrier");
}

void kvs_fill_records(void)
{
    clear();
    kvs_forget();
    fill(sizeof(kvs_record_t), true);
    has_records = true;
}

void kvs_fill_values(size_t bytes)
{
    clear();
    fill(bytes, false);
}

/* ---- loads ---- */

void kvs_draw(kvs_load_t *load, const bench_run_t *run)
{
    ycsb_load_t draws = { load->mix, kvs_opt.n_keys, load->theta,
                          run->rank, run->n_ranks,   bench_seed(run->rank) };
    if (!load->list)
        load->list = bench_table(KVS_LIST * sizeof *load->list);
    (void)ycsb_draw(&draws, load->list, KVS_LIST);
    load->at = load->cursor = 0;
    load->home = run->rank;
}

static ycsb_entry_t next(kvs_load_t *load)
{
    ycsb_entry_t entry = load->list[load->at];
    load->at = load->at + 1 == KVS_LIST ? 0 : load->at + 1;
    return entry;
}

/* With workload D, a key that another rank has not inserted yet. */
static bool is_fine(const kvs_load_t *load, pgas_status_t status)
{
    return status == PGAS_OK || (status == PGAS_ERR_NOT_FOUND && load->mix->latest);
}

static bool see_scanned(const pgas_kvs_item_t *item, void *arg)
{
    uint64_t key;
    memcpy(&key, item->key, sizeof key);
    if (kvs_opt.check) {
        kvs_record_t record;
        memcpy(&record, item->value, sizeof record);
        kvs_check_record(key, &record, item->value_bytes);
    }
    ++*(uint64_t *)arg;
    return true;
}

/* The store has no order of keys. A scan begins where the last one has ended. */
static void scan(kvs_load_t *load, unsigned length)
{
    bench_check(pgas_kvs_scan(kvs_store, load->home, &load->cursor, length, see_scanned,
                              &load->n_scanned),
                "pgas_kvs_scan");
    if (load->cursor == 0)
        load->home = (load->home + 1) % pgas_n_ranks();
}

/* ---- modifications ---- */

/* arg: a copy of the record that is written. The last one counts. */
static pgas_status_t modify(pgas_kvs_item_t *item, void *arg)
{
    kvs_record_t *made = arg, old;
    uint64_t key;
    if (!item->value || item->value_bytes != sizeof old)
        return PGAS_ERR_NOT_FOUND;
    memcpy(&key, item->key, sizeof key);
    memcpy(&old, item->value, sizeof old);
    kvs_check_record(key, &old, item->value_bytes);
    *made = old;
    kvs_make_record(made, key, &old);
    memcpy(item->value, made, sizeof *made);
    return PGAS_OK;
}

static void update(uint64_t key)
{
    kvs_record_t made;
    bench_check(pgas_kvs_update(kvs_store, &key, sizeof key, 0, modify, &made), "pgas_kvs_update");
    kvs_note_written(&made);
}

/* ---- batches ---- */

static struct {
    pgas_kvs_item_t item[KVS_BATCH_MAX];
    uint64_t key[KVS_BATCH_MAX];
    kvs_record_t value[KVS_BATCH_MAX];
    ycsb_op_t op[KVS_BATCH_MAX];
} batch;

static void set_item(size_t i, ycsb_op_t op, uint64_t key)
{
    pgas_kvs_item_t *item = &batch.item[i];
    bool reads = op == YCSB_READ || op == YCSB_MODIFY;
    batch.op[i] = op;
    batch.key[i] = key;
    item->key = &batch.key[i];
    item->key_bytes = sizeof batch.key[i];
    item->value = &batch.value[i];
    item->op = reads ? PGAS_KVS_GET : PGAS_KVS_PUT;
    item->condition = PGAS_KVS_ALWAYS;
    item->capacity = sizeof batch.value[i];
    item->value_bytes = sizeof batch.value[i];
    if (!reads)
        kvs_make_record(&batch.value[i], key, NULL);
}

/* Makes the writes of the modifications in a batch whose reads have ended. @return how many */
static size_t set_writes(size_t n, bool loses)
{
    size_t n_writes = 0;
    for (size_t i = 0; i < n; i++) {
        pgas_kvs_item_t *item = &batch.item[n_writes];
        kvs_record_t old = batch.value[i];
        if (batch.op[i] != YCSB_MODIFY)
            continue;
        item->version = batch.item[i].version;
        batch.key[n_writes] = batch.key[i];
        kvs_make_record(&batch.value[n_writes], batch.key[i], &old);
        item->value = &batch.value[n_writes];
        item->value_bytes = sizeof old;
        item->op = PGAS_KVS_PUT;
        item->condition = loses ? PGAS_KVS_ALWAYS : PGAS_KVS_IF_VERSION;
        n_writes++;
    }
    return n_writes;
}

static void write_modified(size_t n, bool loses)
{
    size_t n_writes = set_writes(n, loses);
    if (n_writes == 0)
        return;
    (void)pgas_kvs_run(kvs_store, batch.item, n_writes, NULL);
    for (size_t i = 0; i < n_writes; i++) {
        pgas_status_t status = batch.item[i].status;
        if (status == PGAS_ERR_MISMATCH)
            update(batch.key[i]);
        else {
            bench_check(status, "pgas_kvs_run");
            kvs_note_written(&batch.value[i]);
        }
    }
}

static void run_batch(const kvs_load_t *load, size_t n, bool loses)
{
    (void)pgas_kvs_run(kvs_store, batch.item, n, NULL);
    for (size_t i = 0; i < n; i++) {
        const pgas_kvs_item_t *item = &batch.item[i];
        if (!is_fine(load, item->status))
            bench_check(item->status, "pgas_kvs_run");
        if (item->op == PGAS_KVS_PUT)
            kvs_note_written(&batch.value[i]);
        else if (item->status == PGAS_OK)
            kvs_check_record(batch.key[i], &batch.value[i], item->value_bytes);
    }
    write_modified(n, loses);
}

static void run_one(const kvs_load_t *load, ycsb_op_t op, uint64_t key)
{
    static kvs_record_t record;
    size_t bytes;
    if (op == YCSB_MODIFY)
        update(key);
    else if (op == YCSB_READ) {
        pgas_status_t status =
            pgas_kvs_get(kvs_store, &key, sizeof key, &record, sizeof record, &bytes);
        if (!is_fine(load, status))
            bench_check(status, "pgas_kvs_get");
        if (status == PGAS_OK)
            kvs_check_record(key, &record, bytes);
    } else {
        kvs_make_record(&record, key, NULL);
        bench_check(pgas_kvs_put(kvs_store, &key, sizeof key, &record, sizeof record),
                    "pgas_kvs_put");
        kvs_note_written(&record);
    }
}

void kvs_carry_out(kvs_load_t *load, uint64_t n, bool loses)
{
    size_t n_batch = 0;
    for (uint64_t i = 0; i < n; i++) {
        ycsb_entry_t entry = next(load);
        if (ycsb_op(entry) == YCSB_SCAN)
            scan(load, ycsb_length(entry));
        else if (kvs_opt.batch == 1 && !loses)
            run_one(load, ycsb_op(entry), ycsb_key(entry));
        else
            set_item(n_batch++, ycsb_op(entry), ycsb_key(entry));
        if (n_batch == kvs_opt.batch || (n_batch > 0 && i + 1 == n)) {
            run_batch(load, n_batch, loses);
            n_batch = 0;
        }
    }
}
