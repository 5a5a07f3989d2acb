/** A distributed key-value store: keys and values are bytes, and every rank reaches every key.
 *
 *      pgas_kvs_t *kvs;
 *      pgas_kvs_create(NULL, NULL, &kvs);                            collective
 *      pgas_kvs_put(kvs, "apple", 5, "red", 3);
 *      char color[16];
 *      size_t n;
 *      pgas_kvs_get(kvs, "apple", 5, color, sizeof color, &n);       on any rank
 *      pgas_kvs_destroy(kvs);                                        collective
 *
 *  The hash of a key chooses its home, a rank of the team. The home's memory has a table of buckets
 *  with 15 entries each, and slabs with the keys and values. Ranks of the home's node work there
 *  directly. Ranks of other nodes call the home. They also keep copies of the keys that they have
 *  read in a cache. A coherent array (pgas/array.h) shows them whether a copy is still valid.
 *
 *  Consistency. All operations on one key are linearizable, on all ranks and threads. A reader
 *  never sees a part of a value. Operations on different keys have no common order. Operations of a
 *  thread take effect in its order, if each has ended before the next one begins.
 *
 *  Versions. Each write of a value gives it a new version, a number above 0. A key never has the
 *  same version twice, also if it is deleted and inserted again.
 *
 *  Threads. Any attached thread may use a store. A thread that is not attached may get keys of its
 *  own node. Plain handlers may use keys of their own node, but no functions that wait.
 *
 *  Statuses of all functions, beside those that they list:
 *      PGAS_ERR_CONTEXT    the thread is not attached, or a plain handler would have to wait
 *      PGAS_ERR_INVALID    a null pointer, or an unknown operation or condition
 *      PGAS_ERR_LIMIT      a key has 0 or more than PGAS_KVS_KEY_MAX bytes, or a value has more
 *                          than PGAS_KVS_VALUE_MAX
 *      PGAS_ERR_NO_MEMORY  the home's part of the store is full. The log names the cure once. The
 *                          old value is unchanged. Or the home has no memory to send a large value
 *      PGAS_ERR_IO         a durable store cannot write its log. The program's log says why. The
 *                          write is in memory, but it may be lost
 *      PGAS_ERR_PEER       a rank of the team died. Only keys of the own node can be read
 *
 *  Source: DArray (Ding, Han, Chen; ICPP 2023): buckets, entries, slabs. There, a reader caches
 *  buckets and slabs. Here it caches keys, because the hot keys of a skewed load are in all slabs.
 *  The coherent array has one word for each bucket, which changes with every write. */
#ifndef PGAS_KVS_H
#define PGAS_KVS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/runtime.h"
#include "pgas/status.h"
#include "pgas/sync.h"
#include "pgas/team.h"

PGAS_BEGIN_DECLS

/** Opaque. */
typedef struct pgas_kvs pgas_kvs_t;

#define PGAS_KVS_KEY_MAX   65536
#define PGAS_KVS_VALUE_MAX (512u << 20)

/** When a write of a durable store is on the disk. In both cases the operating system has its
 *  record when the write returns, so the write survives the death of the process. */
typedef enum {
    PGAS_KVS_SYNC_SECOND, /* about a second later: a crash of the machine loses the last second */
    PGAS_KVS_SYNC_ALWAYS  /* when the write returns */
} pgas_kvs_durability_t;

/** Options (PGAS_KVS_OPTS_INIT); zero means default. All ranks of the team give the same, except
 *  cache_bytes. */
typedef struct {
    size_t size;     /* as in pgas_init_opts_t */
    uint64_t n_keys; /* expected in the whole store; more keys make it slower. Default: 2^20 */
    /* of each rank's heap, for table, keys and values; at least 1 MiB. Default: half of the largest
     * free block of the heap (PGAS_HEAP_SIZE) */
    size_t bytes;
    size_t cache_bytes; /* of this rank, for keys of other nodes; default 16 MiB, 1: no cache */
    bool evict;         /* a full home deletes keys that were not used lately */
    /* The directory of a durable store: pgas_kvs_create loads the keys that it has, and writes are
     * logged there. NULL: the store is not durable */
    const char *dir;
    pgas_kvs_durability_t durability;
} pgas_kvs_opts_t;
#define PGAS_KVS_OPTS_INIT                                                  \
    {                                                                       \
        sizeof(pgas_kvs_opts_t), 0, 0, 0, false, NULL, PGAS_KVS_SYNC_SECOND \
    }

/** Creates a store. opts NULL: defaults.
 *  Shape:  collective over the team (NULL: all ranks). The team must outlive the store.
 *  Owns:   pgas_kvs_destroy frees it.
 *  Cost:   opts->bytes of the symmetric heap. With several nodes also the cache, 10 bytes for every
 *          own bucket, and 8 bytes for every bucket of other nodes, at most 32 MiB.
 *  @return the same on all ranks:
 *          PGAS_ERR_MISMATCH   options differ between ranks; the log names the option
 *          PGAS_ERR_RANGE      bytes is below 1 MiB, or too small for n_keys
 *          PGAS_ERR_NO_MEMORY  PGAS_HEAP_SIZE is too small; the log says how much is needed
 *          PGAS_ERR_LIMIT      there are 64 stores already, or the path of dir is too long
 *          PGAS_ERR_BUSY       another store uses dir; the log names its process
 *          PGAS_ERR_IO         dir cannot be read or written; the log names the file
 *          PGAS_ERR_FORMAT     a file in dir is damaged; the log names it. No file is changed */
PGAS_API pgas_status_t pgas_kvs_create(pgas_team_t *team, const pgas_kvs_opts_t *opts,
                                       pgas_kvs_t **kvs_p);

/** Ends a store. Collective over its team; no thread uses it any more. NULL is ignored. The files
 *  of a durable store stay.
 *  @return PGAS_ERR_IO  the log could not be written to its end. The store is gone all the same */
PGAS_API pgas_status_t pgas_kvs_destroy(pgas_kvs_t *kvs);

/* ---- one key ---- */

/** Copies the value of a key to `value`, at most `capacity` bytes.
 *  Shape:  any thread for keys of its own node; attached threads for keys of other nodes.
 *  Cost:   own node: the bucket and the value are read without a lock. Other nodes: the same in
 *          the cache, or one round trip; two for values of more than some KiB.
 *  @param value_bytes_p  gets the size of the value; may be NULL
 *  @return PGAS_ERR_NOT_FOUND  there is no such key
 *          PGAS_ERR_RANGE      capacity is too small: *value_bytes_p is set, value is undefined */
PGAS_API pgas_status_t pgas_kvs_get(pgas_kvs_t *kvs, const void *key, size_t key_bytes, void *value,
                                    size_t capacity, size_t *value_bytes_p);

/** Gives a key a value, whether it has one or not. The key then does not expire.
 *  Cost:   own node: a spin lock of the bucket. Other nodes: one round trip. If other nodes have
 *          valid copies of keys of the bucket, the home's node first makes them invalid. */
PGAS_API pgas_status_t pgas_kvs_put(pgas_kvs_t *kvs, const void *key, size_t key_bytes,
                                    const void *value, size_t value_bytes);

/** Deletes a key. @return PGAS_ERR_NOT_FOUND: there is no such key */
PGAS_API pgas_status_t pgas_kvs_delete(pgas_kvs_t *kvs, const void *key, size_t key_bytes);

/** Adds delta to a value, an int64_t in the machine's byte order, and stores the old value at
 *  *old_p (may be NULL). A key that does not exist counts as 0. The sum wraps around. A key that
 *  expires keeps its time.
 *  @return PGAS_ERR_MISMATCH  the value does not have 8 bytes. It is unchanged */
PGAS_API pgas_status_t pgas_kvs_fetch_add(pgas_kvs_t *kvs, const void *key, size_t key_bytes,
                                          int64_t delta, int64_t *old_p);

/* ---- many keys, conditions, versions, expiry ---- */

typedef enum {
    PGAS_KVS_GET,
    PGAS_KVS_PUT,
    PGAS_KVS_DELETE,
    PGAS_KVS_ADD /* value is an int64_t: in, the summand; out, the number before */
} pgas_kvs_op_t;

/** The condition of PUT and DELETE. If it does not hold, nothing is written. */
typedef enum {
    PGAS_KVS_ALWAYS,
    PGAS_KVS_IF_ABSENT,  /* otherwise PGAS_ERR_EXISTS */
    PGAS_KVS_IF_PRESENT, /* otherwise PGAS_ERR_NOT_FOUND */
    /* the key has the item's version: compare-and-swap. Otherwise PGAS_ERR_MISMATCH, or
     * PGAS_ERR_NOT_FOUND */
    PGAS_KVS_IF_VERSION
} pgas_kvs_condition_t;

/** One operation on one key. Zero is the default of every field. */
typedef struct {
    const void *key;
    size_t key_bytes;
    void *value;        /* GET: destination; PUT: source, not changed; ADD: see above */
    size_t value_bytes; /* PUT: in. GET: out, the size of the value */
    size_t capacity;    /* GET: bytes at value; may be 0. PGAS_ERR_RANGE if the value has more */
    uint64_t version;   /* in: for IF_VERSION. Out: the version of the key's value now; 0: none */
    int64_t expires_ms; /* PUT: in; GET: out. Milliseconds since 1970; 0: the key does not expire.
                         * A key that has expired counts as absent */
    pgas_kvs_op_t op;
    pgas_kvs_condition_t condition;
    bool keep_expiry;     /* PUT: an existing key keeps its time */
    pgas_status_t status; /* out */
} pgas_kvs_item_t;

/** Carries out n operations. Items of different homes travel and run at the same time. Operations
 *  on one key run in the order of the items.
 *  Shape:  sync NULL: it returns when all have ended. Otherwise sync counts the items that are
 *          not complete on return, and completes when their results are there.
 *  Owns:   items, keys and values until completion.
 *  Done:   each item has its own status; sync reports no errors of items.
 *  Cost:   own node: misses of the processor's caches overlap. Other nodes: for each home one
 *          message, and one back, per 8 KiB, or per PGAS_CALL_MAX bytes if that is less.
 *  @return PGAS_OK
 *          with sync NULL the status of the first item that failed
 *          PGAS_ERR_LIMIT  n is above 2^32 - 1, and nothing was begun
 *          PGAS_ERR_IO     a durable store cannot write its log */
PGAS_API pgas_status_t pgas_kvs_run(pgas_kvs_t *kvs, pgas_kvs_item_t *items, size_t n,
                                    pgas_sync_t *sync);

/** pgas_kvs_run for items whose op need not be set. */
static inline pgas_status_t pgas_kvs_get_many(pgas_kvs_t *kvs, pgas_kvs_item_t *items, size_t n);
static inline pgas_status_t pgas_kvs_put_many(pgas_kvs_t *kvs, pgas_kvs_item_t *items, size_t n);

/** Computes a new value. *item is a PUT with the present value, version and time. If the key is
 *  absent, value is NULL and version is 0. The function may change value, value_bytes and
 *  expires_ms, and it may set op to DELETE. The present value is in memory with room for `capacity`
 *  bytes, and the function may change it there. Another status than PGAS_OK ends the update without
 *  a write. */
typedef pgas_status_t (*pgas_kvs_update_fn_t)(pgas_kvs_item_t *item, void *arg);

/** Updates a key atomically. It reads the key, lets fn compute a new value, and writes it if the
 *  key has not changed. Otherwise it begins again, so fn may run several times. fn runs on the
 *  calling thread and may use the store.
 *  @param spare_bytes  room behind the present value for fn
 *  @return the status of fn, if it is not PGAS_OK */
PGAS_API pgas_status_t pgas_kvs_update(pgas_kvs_t *kvs, const void *key, size_t key_bytes,
                                       size_t spare_bytes, pgas_kvs_update_fn_t fn, void *arg);

/* ---- all keys ---- */

/** Visits one key. After false, the scan visits the other keys of the same bucket, and then ends.
 *  key and value are copies that are valid until the function returns. It may use the store. */
typedef bool (*pgas_kvs_visit_fn_t)(const pgas_kvs_item_t *item, void *arg);

/** Visits the keys of one home, bucket by bucket, until it has visited n keys or more (SIZE_MAX:
 *  all). *cursor_p is the position: 0 at the begin, and 0 again when all keys are visited.
 *  Shape:  any attached thread. rank: of the team; -1: the caller's. Expired keys are deleted.
 *  Done:   a key that exists during a whole series of calls is visited at least once. Keys that are
 *          put or deleted meanwhile may be visited or not. The copy of a bucket is consistent.
 *          fn NULL: the call only deletes expired keys, of n buckets of a rank of this node
 *  @return PGAS_ERR_RANGE  no such rank (fn NULL: on this node), or a cursor that no call returned
 *          PGAS_ERR_LIMIT  a bucket of another node is above PGAS_BUFFER_LIMIT, and left out */
PGAS_API pgas_status_t pgas_kvs_scan(pgas_kvs_t *kvs, int rank, uint64_t *cursor_p, size_t n,
                                     pgas_kvs_visit_fn_t fn, void *arg);

/** Counts the keys, including those that have expired and are not deleted yet. Writes of other
 *  threads at the same time may be counted or not. */
PGAS_API pgas_status_t pgas_kvs_count(pgas_kvs_t *kvs, uint64_t *n_p);

/** Deletes all keys that exist when the call begins, one bucket at a time. Any attached thread. */
PGAS_API pgas_status_t pgas_kvs_clear(pgas_kvs_t *kvs);

/* ---- files ---- */

/** Writes a snapshot: the file `path`, and `path.R` with the keys of each rank R, in parallel.
 *  Shape:  collective over the team. Other threads may write meanwhile. The snapshot has the state
 *          of such a key before or after the write. path NULL: the directory of a durable store,
 *          whose log then begins anew.
 *  Done:   the file `path` gets its name when all files are on the disk. Until then an earlier
 *          snapshot stays usable. Every file has checksums.
 *  @return the same on all ranks:
 *          PGAS_ERR_INVALID  path NULL without a directory, or a durable store's own manifest
 *          PGAS_ERR_IO       a file cannot be written; the log names it */
PGAS_API pgas_status_t pgas_kvs_save(pgas_kvs_t *kvs, const char *path);

/** Puts the keys of a snapshot into the store, which need not be empty. The number of ranks may
 *  differ from that of the save. Collective.
 *  @return the same on all ranks; keys that were read before an error stay:
 *          PGAS_ERR_IO         a file cannot be read; the log names it
 *          PGAS_ERR_FORMAT     a file is damaged; the log names it */
PGAS_API pgas_status_t pgas_kvs_load(pgas_kvs_t *kvs, const char *path);

/* ---- figures ---- */

typedef struct {
    size_t size; /* the caller sets it */
    /* of this rank's part */
    uint64_t n_keys, n_buckets, n_overflow; /* n_overflow: buckets behind full ones */
    uint64_t bytes;                         /* of the heap */
    uint64_t slab_bytes;                    /* of slabs in use for keys and values */
    uint64_t block_bytes; /* of blocks in use; slab_bytes - block_bytes is fragmentation */
    uint64_t data_bytes;  /* of keys and values in them */
    uint64_t evicted;     /* keys that were deleted to make room */
    /* of this rank's accesses since create */
    uint64_t cache_hits, calls; /* reads from the cache; operations sent to other nodes */
    uint64_t log_bytes;         /* written to the log */
} pgas_kvs_info_t;
/** Describes the store. Any thread; no message. */
PGAS_API pgas_status_t pgas_kvs_info(pgas_kvs_t *kvs, pgas_kvs_info_t *info_p);

static inline pgas_status_t pgas_kvs_get_many(pgas_kvs_t *kvs, pgas_kvs_item_t *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        items[i].op = PGAS_KVS_GET;
    return pgas_kvs_run(kvs, items, n, NULL);
}

static inline pgas_status_t pgas_kvs_put_many(pgas_kvs_t *kvs, pgas_kvs_item_t *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        items[i].op = PGAS_KVS_PUT;
    return pgas_kvs_run(kvs, items, n, NULL);
}

PGAS_END_DECLS
#endif
