/* The steps of t/spmd/kvs_durable.t, no test by itself. Each ends with status 0 if all was as it
 * should be, and prints what was not.
 *   kvs_files save FILE N       puts the numbers below N, and saves while threads write other keys
 *   kvs_files load FILE N       loads, and checks that they are there
 *   kvs_files write DIR FROM N  a durable store that has the numbers below FROM gets N more
 *   kvs_files rotate DIR FROM N the same, with snapshots while threads write
 *   kvs_files full DIR FROM N   the same, with a full disk at first
 *   kvs_files nowhere FILE      saving to a directory that does not exist gives an error
 *   kvs_files twice DIR FROM    a second store in the same directory is refused
 *   kvs_files create DIR STATUS creating the store gives that status
 *   kvs_files open FILE STATUS  loading gives that status
 *   kvs_files churn DIR N       a small store: one rank puts N keys, another deletes all but a few
 *   kvs_files churned DIR N     has those few keys
 *   kvs_files evict DIR N       a small store that evicts: N keys are put, put again and deleted
 *   kvs_files evicted DIR N     has no deleted keys, and no values that were overwritten
 *   kvs_files evict_all DIR N   all keys are deleted, also those that are absent
 *   kvs_files evict_none DIR N  has no keys
 * Each number has a key. Every fifth key is deleted after its put. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "pgas/kvs.h"
#include "pgas/pgas.h"

#define LARGE_BYTES 600000 /* more than a block of a file */
#define EXPIRES_MS  INT64_C(4000000000000)
#define N_HOT       16
#define HOT_BYTES   500

static pgas_kvs_t *kvs;
static int n_bad;

static bool expect(pgas_status_t got, pgas_status_t want, const char *what, uint64_t i)
{
    if (got == want)
        return true;
    if (n_bad++ < 5)
        printf("rank %d: %s %" PRIu64 " gave %s\n", pgas_rank(), what, i, pgas_status_name(got));
    return false;
}

/* ---- numbers ---- */

static bool is_deleted(uint64_t i)
{
    return i % 5 == 4;
}

/* Keys of odd numbers contain a zero. */
static size_t key_of(uint64_t i, char *key)
{
    return (size_t)sprintf(key, "number %" PRIu64, i) + (size_t)(i % 2);
}

static unsigned char *value_of(uint64_t i, size_t *n_p)
{
    static __thread unsigned char value[LARGE_BYTES];
    *n_p = i == 7 ? sizeof value : (size_t)(i * 7919 % 400);
    for (size_t k = 0; k < *n_p; k++)
        value[k] = (unsigned char)(i + k * (k >> 8 | 3));
    return value;
}

static pgas_status_t put(uint64_t i)
{
    char key[64];
    pgas_kvs_item_t item = { .op = PGAS_KVS_PUT,
                             .key = key,
                             .key_bytes = key_of(i, key),
                             .expires_ms = i % 3 == 0 ? EXPIRES_MS + (int64_t)i : 0 };
    item.value = value_of(i, &item.value_bytes);
    pgas_status_t status = pgas_kvs_run(kvs, &item, 1, NULL);
    return status == PGAS_OK && is_deleted(i) ? pgas_kvs_delete(kvs, key, item.key_bytes) : status;
}

/* The numbers of this rank, among those from `from` on. */
static void fill(uint64_t from, uint64_t n)
{
    for (uint64_t i = from + (uint64_t)pgas_rank(); i < from + n; i += (uint64_t)pgas_n_ranks())
        expect(put(i), PGAS_OK, "put", i);
}

static void check_number(uint64_t i)
{
    static unsigned char got[LARGE_BYTES];
    char key[64];
    size_t n;
    pgas_kvs_item_t item = { .op = PGAS_KVS_GET,
                             .key = key,
                             .key_bytes = key_of(i, key),
                             .value = got,
                             .capacity = sizeof got };
    pgas_status_t status = pgas_kvs_run(kvs, &item, 1, NULL);
    if (!expect(status, is_deleted(i) ? PGAS_ERR_NOT_FOUND : PGAS_OK, "get", i) || is_deleted(i))
        return;
    unsigned char *want = value_of(i, &n);
    bool good = n == item.value_bytes && memcmp(got, want, n) == 0 && item.version > 0 &&
                item.expires_ms == (i % 3 == 0 ? EXPIRES_MS + (int64_t)i : 0);
    if (!good)
        expect(PGAS_ERR_MISMATCH, PGAS_OK, "the value of", i);
}

static void check(uint64_t n, uint64_t n_others)
{
    uint64_t n_keys = 0, n_deleted = n / 5;
    for (uint64_t i = 0; i < n; i++) /* every rank, so that each key is read on each */
        check_number(i);
    pgas_barrier(NULL);
    expect(pgas_kvs_count(kvs, &n_keys), PGAS_OK, "count", 0);
    if (n_keys < n - n_deleted || n_keys > n - n_deleted + n_others)
        expect(PGAS_ERR_MISMATCH, PGAS_OK, "the count", n_keys);
}

/* ---- threads that write while files are written ---- */

static int stop;

static void *write_hot(void *arg)
{
    unsigned char value[HOT_BYTES];
    char key[32];
    (void)arg;
    pgas_thread_attach();
    for (uint64_t i = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); i++) {
        memset(value, (int)(i & 255), sizeof value);
        int n = sprintf(key, "hot %d", (int)(i % N_HOT));
        expect(pgas_kvs_put(kvs, key, (size_t)n, value, sizeof value), PGAS_OK, "hot put", i);
    }
    pgas_thread_detach();
    return NULL;
}

static void check_hot(void)
{
    unsigned char value[HOT_BYTES + 1];
    char key[32];
    for (uint64_t i = 0; i < N_HOT; i++) {
        size_t n = 0, key_bytes = (size_t)sprintf(key, "hot %d", (int)i);
        pgas_status_t status = pgas_kvs_get(kvs, key, key_bytes, value, sizeof value, &n);
        if (status == PGAS_ERR_NOT_FOUND)
            continue;
        bool whole = n == HOT_BYTES && memcmp(value, value + 1, HOT_BYTES - 1) == 0;
        expect(status, PGAS_OK, "hot get", i);
        expect(whole ? PGAS_OK : PGAS_ERR_MISMATCH, PGAS_OK, "hot value", i);
    }
}

typedef struct {
    uint64_t from, n;
    int done;
} range_t;

static void *fill_thread(void *arg)
{
    range_t *range = arg;
    pgas_thread_attach();
    fill(range->from, range->n);
    pgas_thread_detach();
    __atomic_store_n(&range->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* ---- small stores, whose logs have many more records than fit ---- */

#define SMALL_VALUE 700
#define CHURN_STEP  100

static pgas_status_t create_small(const char *dir, bool evict)
{
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    opts.dir = dir;
    opts.n_keys = 3000;
    opts.bytes = 1u << 20;
    opts.evict = evict;
    return pgas_kvs_create(NULL, &opts, &kvs);
}

static void put_small(uint64_t i, char what)
{
    char value[SMALL_VALUE];
    memset(value, what, sizeof value);
    expect(pgas_kvs_put(kvs, &i, sizeof i, value, sizeof value), PGAS_OK, "small put", i);
}

/* Returns what the key was put with, or 0. */
static char get_small(uint64_t i)
{
    char value[SMALL_VALUE];
    size_t n = 0;
    pgas_status_t status = pgas_kvs_get(kvs, &i, sizeof i, value, sizeof value, &n);
    if (status == PGAS_ERR_NOT_FOUND)
        return 0;
    expect(status, PGAS_OK, "small get", i);
    expect(n == sizeof value ? PGAS_OK : PGAS_ERR_MISMATCH, PGAS_OK, "small value", i);
    return value[0];
}

static bool is_last(void)
{
    return pgas_rank() == pgas_n_ranks() - 1;
}

/* The log of rank 0 has puts only: they do not fit, whichever log is read first. */
static void churn(uint64_t n)
{
    for (uint64_t from = 0; from < n; from += CHURN_STEP) {
        for (uint64_t i = from; i < from + CHURN_STEP && pgas_rank() == 0; i++)
            put_small(i, 'p');
        pgas_barrier(NULL);
        for (uint64_t i = from; i < from + CHURN_STEP && from + CHURN_STEP < n && is_last(); i++)
            expect(pgas_kvs_delete(kvs, &i, sizeof i), PGAS_OK, "small delete", i);
        pgas_barrier(NULL);
    }
}

static void check_churned(uint64_t n)
{
    uint64_t n_keys = 0;
    expect(pgas_kvs_count(kvs, &n_keys), PGAS_OK, "count", 0);
    expect(n_keys == CHURN_STEP ? PGAS_OK : PGAS_ERR_MISMATCH, PGAS_OK, "the count", n_keys);
    for (uint64_t i = n - CHURN_STEP; i < n; i++)
        expect(get_small(i) == 'p' ? PGAS_OK : PGAS_ERR_MISMATCH, PGAS_OK, "a key that stays", i);
}

/* Logs are read in the order of ranks, so the last rank writes first. */
static void evict(uint64_t n)
{
    for (uint64_t i = 0; i < n && is_last(); i++)
        put_small(i, 'o');
    pgas_barrier(NULL);
    for (uint64_t i = 0; i < n && pgas_rank() == 0; i++) {
        put_small(i, 'n');
        if (is_deleted(i))
            pgas_kvs_delete(kvs, &i, sizeof i);
    }
}

static void check_evicted(uint64_t n)
{
    uint64_t n_old = 0, n_deleted = 0, n_new = 0;
    for (uint64_t i = 0; i < n; i++) {
        char what = get_small(i);
        n_deleted += what != 0 && is_deleted(i);
        n_old += what == 'o';
        n_new += what == 'n';
    }
    expect(n_old == 0 ? PGAS_OK : PGAS_ERR_MISMATCH, PGAS_OK, "overwritten values", n_old);
    expect(n_deleted == 0 ? PGAS_OK : PGAS_ERR_MISMATCH, PGAS_OK, "deleted keys", n_deleted);
    expect(n_new > 0 ? PGAS_OK : PGAS_ERR_MISMATCH, PGAS_OK, "values", n_new);
}

static void check_none(uint64_t n, bool delete_first)
{
    uint64_t n_keys = 0;
    for (uint64_t i = 0; i < n && delete_first; i++)
        pgas_kvs_delete(kvs, &i, sizeof i);
    pgas_barrier(NULL);
    expect(pgas_kvs_count(kvs, &n_keys), PGAS_OK, "count", 0);
    expect(n_keys == 0 ? PGAS_OK : PGAS_ERR_MISMATCH, PGAS_OK, "keys that were deleted", n_keys);
}

static bool small_step(const char *what, const char *dir, uint64_t n)
{
    bool evicts = strncmp(what, "evict", 5) == 0;
    if (!evicts && strncmp(what, "churn", 5) != 0)
        return false;
    if (!expect(create_small(dir, evicts), PGAS_OK, "create", 0))
        return true;
    if (strcmp(what, "churn") == 0)
        churn(n);
    else if (strcmp(what, "evict") == 0)
        evict(n);
    pgas_barrier(NULL);
    bool all = strcmp(what, "evict_all") == 0;
    if (all || strcmp(what, "evict_none") == 0)
        check_none(n, all);
    else if (evicts)
        check_evicted(n);
    else
        check_churned(n);
    return true;
}

/* ---- steps ---- */

static pgas_status_t create(const char *dir)
{
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    opts.dir = dir;
    opts.n_keys = 8192;
    opts.bytes = 8u << 20;
    return pgas_kvs_create(NULL, &opts, &kvs);
}

static void save(const char *path, uint64_t n)
{
    pthread_t thread;
    expect(create(NULL), PGAS_OK, "create", 0);
    fill(0, n);
    pthread_create(&thread, NULL, write_hot, NULL);
    expect(pgas_kvs_save(kvs, NULL), PGAS_ERR_INVALID, "save without a name", 0);
    for (uint64_t i = 0; i < 3; i++)
        expect(pgas_kvs_save(kvs, path), PGAS_OK, "save", i);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

static void load(const char *path, uint64_t n)
{
    expect(create(NULL), PGAS_OK, "create", 0);
    expect(pgas_kvs_load(kvs, path), PGAS_OK, "load", 0);
    check(n, N_HOT);
    check_hot();
}

static void rotate(uint64_t from, uint64_t n)
{
    range_t range = { from, n, 0 };
    pthread_t thread;
    int n_left = 1;
    pthread_create(&thread, NULL, fill_thread, &range);
    for (uint64_t i = 0; n_left > 0; i++) {
        n_left = !__atomic_load_n(&range.done, __ATOMIC_ACQUIRE);
        pgas_allreduce(NULL, &n_left, &n_left, 1, PGAS_I32, PGAS_ADD);
        if (n_left > 0)
            expect(pgas_kvs_save(kvs, NULL), PGAS_OK, "save", i);
    }
    pthread_join(thread, NULL);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit = { bytes, RLIM_INFINITY };
    signal(SIGXFSZ, SIG_IGN);
    expect(setrlimit(RLIMIT_FSIZE, &limit) == 0 ? PGAS_OK : PGAS_ERR_IO, PGAS_OK, "limit", bytes);
}

static void full(uint64_t from, uint64_t n)
{
    pgas_status_t status = PGAS_OK;
    pgas_barrier(NULL);
    limit_files(4096);
    for (int i = 0; i < 100 && status == PGAS_OK; i++)
        status = pgas_kvs_put(kvs, "number 0", 8, &i, sizeof i);
    expect(status, PGAS_ERR_IO, "put to a full disk", 0);
    pgas_kvs_item_t items[2] = { { .key = "no number", .key_bytes = 9, .op = PGAS_KVS_DELETE },
                                 { .key = "number 0", .key_bytes = 8, .op = PGAS_KVS_PUT } };
    expect(pgas_kvs_run(kvs, items, 2, NULL), PGAS_ERR_NOT_FOUND, "a run on a full disk", 0);
    expect(items[1].status, PGAS_ERR_IO, "its put", 0);
    pgas_barrier(NULL);
    expect(pgas_kvs_save(kvs, NULL), PGAS_ERR_IO, "save to a full disk", 0);
    limit_files(RLIM_INFINITY);
    pgas_barrier(NULL);
    expect(pgas_kvs_save(kvs, NULL), PGAS_OK, "save", 0);
    expect(put(0), PGAS_OK, "put", 0);
    fill(from, n);
}

static void step(int argc, char **argv)
{
    const char *what = argv[1], *path = argv[2];
    uint64_t first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    uint64_t n = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    if (small_step(what, path, first))
        return;
    if (strcmp(what, "save") == 0)
        save(path, first);
    else if (strcmp(what, "load") == 0)
        load(path, first);
    else if (strcmp(what, "create") == 0)
        expect(strcmp(pgas_status_name(create(path)), argv[3]) == 0 ? PGAS_OK : PGAS_ERR_MISMATCH,
               PGAS_OK, argv[3], 0);
    else if (strcmp(what, "open") == 0) {
        expect(create(NULL), PGAS_OK, "create", 0);
        pgas_status_t status = pgas_kvs_load(kvs, path);
        expect(strcmp(pgas_status_name(status), argv[3]) == 0 ? PGAS_OK : PGAS_ERR_MISMATCH,
               PGAS_OK, argv[3], 0);
    } else if (strcmp(what, "nowhere") == 0) {
        expect(create(NULL), PGAS_OK, "create", 0);
        expect(pgas_kvs_save(kvs, path), PGAS_ERR_IO, "save", 0);
    } else if (expect(create(path), PGAS_OK, "create", 0)) {
        check(first, 0);
        pgas_barrier(NULL);
        if (strcmp(what, "write") == 0)
            fill(first, n);
        else if (strcmp(what, "rotate") == 0)
            rotate(first, n);
        else if (strcmp(what, "full") == 0)
            full(first, n);
        else { /* twice */
            pgas_kvs_t *first_one = kvs;
            expect(create(path), PGAS_ERR_BUSY, "create", 2);
            kvs = first_one;
        }
        pgas_barrier(NULL);
        check(first + n, 0);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3 || pgas_init(NULL, NULL) != PGAS_OK)
        return 2;
    step(argc, argv);
    pgas_barrier(NULL);
    if (kvs)
        expect(pgas_kvs_destroy(kvs), PGAS_OK, "destroy", 0);
    pgas_finalize();
    return n_bad > 0;
}
