/** What the cases of pgas_kvs share: the store and its keys, the operations of YCSB's loads, and
 *  the check of what they read and write. */
#ifndef KVS_WORK_H
#define KVS_WORK_H

#include "benchmarks/bench.h"
#include "benchmarks/ycsb.h"
#include "pgas/kvs.h"

#define KVS_VALUE_BYTES 64
#define KVS_BATCH_MAX   1024
#define KVS_LIST        (UINT64_C(1) << 21) /* operations drawn; longer rounds use them again */

/** The value of a key in YCSB's loads. */
typedef struct {
    uint64_t key;
    uint64_t count; /* of modifications since the load */
    uint64_t writer, sequence;
    uint64_t filler[3];
    uint64_t sum; /* of all words before, if values are checked */
} kvs_record_t;

/** Options of the program. */
extern struct kvs_options {
    uint64_t n_keys, batch, redis_port;
    const char *files;
    bool check;
} kvs_opt;

extern pgas_kvs_t *kvs_store;

/** Makes a new store without keys, unless the present one has this cache. Collective. */
void kvs_open(bool has_cache);
/** Checks the records first, see kvs_check_counts. */
void kvs_close(void);
/** Gives the store exactly the keys 0 .. n_keys - 1 with records. Collective. */
void kvs_fill_records(void);
/** The same with values of 8 or 64 bytes that begin with the key. */
void kvs_fill_values(size_t bytes);

/** ---- loads ---- */
typedef struct {
    const ycsb_mix_t *mix;
    double theta;
    ycsb_entry_t *list;
    uint64_t at;
    uint64_t n_scanned;
    uint64_t cursor; /* of the scans */
    int home;        /* where the scans are */
} kvs_load_t;

void kvs_draw(kvs_load_t *load, const bench_run_t *run);
/** Carries out n operations; `loses`: modifications are reads and writes without a condition. */
void kvs_carry_out(kvs_load_t *load, uint64_t n, bool loses);

/** ---- checks ---- */
/** Checks a record that was read: it is whole, and not older than one that this rank has seen. */
void kvs_check_record(uint64_t key, const kvs_record_t *record, size_t bytes);
/** Makes the record that this rank writes next. old NULL: it does not depend on another. */
void kvs_make_record(kvs_record_t *record, uint64_t key, const kvs_record_t *old);
/** Notes a record that this rank has written. */
void kvs_note_written(const kvs_record_t *record);
/** Compares the count of each key with the modifications of all ranks. Collective. */
void kvs_check_counts(void);
/** The records are new: forgets what was seen. */
void kvs_forget(void);

/** ---- memory and files (kvs_space.c): loops, each with a store of its own ---- */
double kvs_space(const bench_run_t *run);
int kvs_space_figures(const bench_case_t *c, bench_figure_t *figure);
double kvs_snapshot(const bench_run_t *run);
double kvs_file(const bench_run_t *run);
/* removes the files */
void kvs_files_close(void);

#endif
