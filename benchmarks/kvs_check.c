/* The check of records that ranks read and write in YCSB's loads.
 *
 * A rank that reads a key twice must not see an older record the second time. A rank knows the age
 * of records from the same writer by their sequence, and of all records by the count of
 * modifications: a load either modifies records, or writes them with count 0. Then the count of
 * each key must be the number of modifications that all ranks have made. */
#include "benchmarks/kvs_work.h"

#include <stdlib.h>
#include <string.h>

#define PIECE       4096 /* keys that are compared together */
#define WRITER_BITS 16

static struct {
    uint64_t n;         /* keys that exist or that some rank inserts */
    uint64_t *last;     /* sequence and writer of the record that this rank has seen last */
    uint32_t *seen;     /* its count */
    uint64_t *modified; /* by this rank */
    uint64_t sequence;
} checked;

static void start(void)
{
    checked.n = kvs_opt.n_keys + KVS_LIST * (uint64_t)pgas_n_ranks();
    checked.last = bench_table(checked.n * sizeof *checked.last);
    checked.seen = bench_table(checked.n * sizeof *checked.seen);
    checked.modified = bench_table(checked.n * sizeof *checked.modified);
}

void kvs_forget(void)
{
    free(checked.last);
    free(checked.seen);
    free(checked.modified);
    checked.n = 0;
    if (kvs_opt.check)
        start();
}

static uint64_t sum_of(const kvs_record_t *record)
{
    uint64_t sum = 0;
    for (const uint64_t *at = &record->key; at < &record->sum; at++)
        sum = (sum ^ *at) * UINT64_C(0x9e3779b97f4a7c15);
    return sum;
}

void kvs_make_record(kvs_record_t *record, uint64_t key, const kvs_record_t *old)
{
    record->count = old ? old->count + 1 : 0;
    record->key = key;
    record->writer = (uint64_t)pgas_rank();
    record->sequence = ++checked.sequence;
    if (!kvs_opt.check)
        return;
    for (int i = 0; i < 3; i++)
        record->filler[i] = record->sequence * (uint64_t)(i + 3);
    record->sum = sum_of(record);
}

static void blame(uint64_t key, const kvs_record_t *record, const char *why)
{
    bench_die("key %llu: %s: count %llu, sequence %llu of rank %llu; seen before: count %llu, "
              "sequence %llu of rank %llu",
              (unsigned long long)key, why, (unsigned long long)record->count,
              (unsigned long long)record->sequence, (unsigned long long)record->writer,
              (unsigned long long)checked.seen[key],
              (unsigned long long)(checked.last[key] >> WRITER_BITS),
              (unsigned long long)(checked.last[key] & ((1u << WRITER_BITS) - 1)));
}

static uint64_t age_of(const kvs_record_t *record)
{
    return record->sequence << WRITER_BITS | record->writer;
}

void kvs_check_record(uint64_t key, const kvs_record_t *record, size_t bytes)
{
    uint64_t last, is;
    if (!kvs_opt.check)
        return;
    if (bytes != sizeof *record || record->key != key || record->sum != sum_of(record))
        blame(key, record, "the record is damaged");
    last = checked.last[key];
    is = age_of(record);
    if ((last - is) << (64 - WRITER_BITS) == 0 && is < last)
        blame(key, record, "the record is older than one that was read or written before");
    if (record->count < checked.seen[key])
        blame(key, record, "the count is lower than before");
    checked.last[key] = is;
    checked.seen[key] = (uint32_t)record->count;
}

void kvs_note_written(const kvs_record_t *record)
{
    if (!kvs_opt.check)
        return;
    checked.last[record->key] = age_of(record);
    checked.seen[record->key] = (uint32_t)record->count;
    checked.modified[record->key] += record->count > 0;
}

static void check_count(uint64_t key, uint64_t want)
{
    kvs_record_t record;
    size_t bytes;
    bench_check(pgas_kvs_get(kvs_store, &key, sizeof key, &record, sizeof record, &bytes),
                "pgas_kvs_get");
    kvs_check_record(key, &record, bytes);
    if (record.count != want)
        bench_die("key %llu: %llu modifications, but its count is %llu", (unsigned long long)key,
                  (unsigned long long)want, (unsigned long long)record.count);
}

void kvs_check_counts(void)
{
    uint64_t all[PIECE];
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    for (uint64_t at = 0, n; checked.n > 0 && at < kvs_opt.n_keys; at += n) {
        n = kvs_opt.n_keys - at < PIECE ? kvs_opt.n_keys - at : PIECE;
        bench_check(pgas_allreduce(NULL, checked.modified + at, all, n, PGAS_U64, PGAS_ADD),
                    "pgas_allreduce");
        for (uint64_t k = (uint64_t)pgas_rank(); k < n; k += (uint64_t)pgas_n_ranks())
            check_count(at + k, all[k]);
    }
    bench_check(pgas_barrier(NULL), "pgas_barrier");
}
