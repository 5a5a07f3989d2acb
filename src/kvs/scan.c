/* Scans, counts, deletion of all keys, updates by the program's functions. */
#include <stdlib.h>
#include "kvs/kvs.h"
#include "pgas/call.h"
#include "pgas/rma.h"

#define SCAN_BYTES 65536u /* of copies that a scan makes at one time, at least one chain */

/* ---- scans ---- */

/* Copies chains until they have n keys or more, or SCAN_BYTES bytes. *bucket_p moves on. */
static pgas_status_t copy_chains(pgas_kvs_t *kvs, int home, uint64_t *bucket_p, uint64_t n,
                                 bool may_wait, pgasi_scratch_t *scratch)
{
    pgas_status_t status = PGAS_OK;
    uint64_t n_keys = 0;
    size_t at = 0;
    pgas_kvs_item_t item;
    while (status == PGAS_OK && n_keys < n && scratch->bytes < SCAN_BYTES &&
           *bucket_p < kvs->n_buckets) {
        status = pgasi_kvs_copy_chain(kvs, home, (uint32_t)*bucket_p, may_wait, scratch);
        while (pgasi_scratch_next(scratch, &at, &item))
            n_keys++;
        ++*bucket_p;
    }
    return status;
}

/* A request for chains of another node, and where its reply goes. */
typedef struct {
    uint64_t bucket, n;
    uint32_t kvs, home;
    uint64_t waiting; /* the caller's scan_t */
} scan_request_t;

typedef struct {
    uint64_t bucket, waiting;
    uint32_t kvs;
    int32_t status;
} scan_reply_t;

typedef struct {
    pgasi_scratch_t *scratch;
    uint64_t bucket;
    pgas_status_t status;
    pgas_sync_t sync;
} scan_t;

static pgas_handler_t scan_handler, scan_reply_handler, clear_handler;

static void serve_scan(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    const scan_request_t *request = (const scan_request_t *)args;
    pgas_kvs_t *kvs = pgasi_kvs_of(request->kvs);
    pgasi_scratch_t scratch = { NULL, 0, 0 };
    scan_reply_t reply = { .bucket = request->bucket,
                           .waiting = request->waiting,
                           .kvs = request->kvs };
    (void)bytes;
    (void)context;
    reply.status =
        kvs ? copy_chains(kvs, (int)request->home, &reply.bucket, request->n, true, &scratch)
            : PGAS_ERR_PEER; /* ended here after a death */
    pgas_buffer_t buffer = { .mode = PGAS_BUFFER_COPY,
                             .address = scratch.at,
                             .bytes = scratch.bytes };
    pgas_status_t status =
        pgas_call_to(pgas_on_rank(pgas_thread_rank(source)), scan_reply_handler, &reply,
                     sizeof reply, PGAS_CALL_OPTS(.buffers = &buffer, .n_buffers = 1));
    free(scratch.at);
    if (status == PGAS_ERR_LIMIT) { /* keys and values of one bucket may be too large */
        reply.status = status;
        status =
            pgas_call(pgas_thread_rank(source), scan_reply_handler, &reply, sizeof reply, NULL);
    }
    if (status == PGAS_ERR_AGAIN || status == PGAS_ERR_NO_MEMORY)
        pgas_abort(1, "pgas_kvs_scan: no room for a reply; raise PGAS_BACKLOG_LIMIT");
}

static void take_scan(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    const scan_reply_t *reply = (const scan_reply_t *)args;
    scan_t *scan = (scan_t *)(uintptr_t)reply->waiting;
    const pgas_kvs_t *kvs = pgasi_kvs_of(reply->kvs);
    void *data;
    size_t n;
    (void)bytes;
    (void)context;
    if (!kvs || !pgasi_kvs_awaits(kvs, source))
        return;
    scan->status = (pgas_status_t)reply->status;
    scan->bucket = reply->bucket;
    if (scan->status == PGAS_OK && pgas_buffer_get(0, &data, &n) == PGAS_OK) {
        scan->scratch->at = malloc(PGASI_MAX(n, 1));
        scan->scratch->bytes = scan->scratch->room = n;
        if (scan->scratch->at)
            memcpy(scan->scratch->at, data, n);
        else
            scan->status = PGAS_ERR_NO_MEMORY;
    }
    pgas_sync_done(&scan->sync, 1);
}

static pgas_status_t copy_far_chains(pgas_kvs_t *kvs, int home, uint64_t *bucket_p, uint64_t n,
                                     pgasi_scratch_t *scratch)
{
    free(scratch->at);
    *scratch = (pgasi_scratch_t){ NULL, 0, 0 };
    scan_t scan = { .scratch = scratch, .sync = PGAS_SYNC_INIT };
    scan_request_t request = { .bucket = *bucket_p,
                               .n = n,
                               .kvs = (uint32_t)kvs->id,
                               .home = (uint32_t)home,
                               .waiting = (uint64_t)(uintptr_t)&scan };
    pgas_status_t status = pgasi_kvs_may_wait();
    if (status != PGAS_OK)
        return status;
    pgas_sync_add(&scan.sync, 1);
    status = pgas_call(kvs->ranks[home], scan_handler, &request, sizeof request, NULL);
    if (status != PGAS_OK)
        return status;
    status = pgasi_kvs_wait(kvs, home, &scan.sync);
    *bucket_p = scan.bucket;
    return status == PGAS_OK ? scan.status : status;
}

/* If fn ends the scan, the other keys of that bucket are still visited, and *bucket_p is the next
 * bucket. @return whether the scan continues */
static bool visit(const pgas_kvs_t *kvs, const pgasi_scratch_t *scratch, pgas_kvs_visit_fn_t fn,
                  void *arg, size_t *n_p, uint64_t *bucket_p)
{
    pgas_kvs_item_t item;
    pgasi_key_t key;
    size_t at = 0;
    bool goes_on = true;
    while (pgasi_scratch_next(scratch, &at, &item)) {
        if (!goes_on) {
            pgasi_kvs_key(kvs, item.key, item.key_bytes, &key);
            if (key.bucket >= *bucket_p)
                break;
        }
        ++*n_p;
        if (!fn(&item, arg) && goes_on) {
            pgasi_kvs_key(kvs, item.key, item.key_bytes, &key);
            *bucket_p = (uint64_t)key.bucket + 1;
            goes_on = false;
        }
    }
    return goes_on;
}

/* Deletes the expired keys of n chains of a home of this node. */
static pgas_status_t expire_chains(pgas_kvs_t *kvs, int home, uint64_t *cursor_p, size_t n,
                                   bool may_wait)
{
    pgas_status_t status = PGAS_OK;
    uint64_t bucket = *cursor_p, end = bucket + PGASI_MIN(n, kvs->n_buckets - bucket);
    for (; status == PGAS_OK && bucket < end; bucket++)
        status = pgasi_kvs_expire_chain(kvs, home, (uint32_t)bucket, may_wait);
    if (status == PGAS_OK)
        *cursor_p = bucket < kvs->n_buckets ? bucket : 0;
    return status;
}

pgas_status_t pgas_kvs_scan(pgas_kvs_t *kvs, int rank, uint64_t *cursor_p, size_t n,
                            pgas_kvs_visit_fn_t fn, void *arg)
{
    if (!kvs || !cursor_p)
        return PGAS_ERR_INVALID;
    int home = rank < 0 ? kvs->rank : rank;
    if (rank < -1 || home >= kvs->n || *cursor_p >= kvs->n_buckets ||
        (!fn && !kvs->parts[home].base))
        return PGAS_ERR_RANGE;
    pgasi_scratch_t scratch = { NULL, 0, 0 };
    pgas_status_t status = PGAS_OK;
    uint64_t bucket = *cursor_p;
    size_t n_visited = 0;
    bool here = kvs->parts[home].base != NULL, goes_on = true;
    bool may_wait = kvs->stamps && here && pgasi_kvs_may_wait() == PGAS_OK;
    if (!fn)
        return expire_chains(kvs, home, cursor_p, n, may_wait);
    while (status == PGAS_OK && goes_on && n_visited < n && bucket < kvs->n_buckets) {
        scratch.bytes = 0;
        status = here ? copy_chains(kvs, home, &bucket, n - n_visited, may_wait, &scratch)
                      : copy_far_chains(kvs, home, &bucket, n - n_visited, &scratch);
        if (status == PGAS_OK)
            goes_on = visit(kvs, &scratch, fn, arg, &n_visited, &bucket);
    }
    free(scratch.at);
    if (status == PGAS_OK)
        *cursor_p = bucket < kvs->n_buckets ? bucket : 0;
    return status;
}

/* ---- counts, deletion of all keys ---- */

pgas_status_t pgas_kvs_count(pgas_kvs_t *kvs, uint64_t *n_p)
{
    if (!kvs || !n_p)
        return PGAS_ERR_INVALID;
    uint64_t sum = 0, n;
    for (int i = 0; i < kvs->n; i++) {
        pgas_status_t status = PGAS_OK;
        if (kvs->parts[i].base)
            n = pgasi_load(&kvs->parts[i].head->n_keys);
        else
            status = pgas_get_u64(pgasi_kvs_word(kvs, i, offsetof(pgasi_part_head_t, n_keys)), &n);
        if (status != PGAS_OK)
            return status;
        sum += n;
    }
    *n_p = sum;
    return PGAS_OK;
}

typedef struct {
    uint32_t kvs, home;
} clear_request_t;

static pgas_status_t clear_here(pgas_kvs_t *kvs, int home)
{
    pgas_status_t status = PGAS_OK;
    for (uint64_t b = 0; b < kvs->n_buckets && status == PGAS_OK; b++)
        status = pgasi_kvs_clear_chain(kvs, home, (uint32_t)b);
    pgas_status_t committed = pgasi_kvs_commit(kvs);
    return status == PGAS_OK ? committed : status;
}

static void serve_clear(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    const clear_request_t *request = (const clear_request_t *)args;
    pgas_kvs_t *kvs = pgasi_kvs_of(request->kvs);
    int64_t status = kvs ? clear_here(kvs, (int)request->home) : PGAS_ERR_PEER;
    (void)bytes;
    (void)source;
    (void)context;
    (void)pgas_reply(&status, sizeof status);
}

pgas_status_t pgas_kvs_clear(pgas_kvs_t *kvs)
{
    if (!kvs)
        return PGAS_ERR_INVALID;
    pgas_status_t first = kvs->stamps ? pgasi_kvs_may_wait() : PGAS_OK;
    for (int i = 0; i < kvs->n && first == PGAS_OK; i++) {
        clear_request_t request = { (uint32_t)kvs->id, (uint32_t)i };
        int64_t there = PGAS_OK;
        if (kvs->parts[i].base)
            first = clear_here(kvs, i);
        else
            first = pgas_call_return(kvs->ranks[i], clear_handler, &request, sizeof request, &there,
                                     sizeof there);
        first = first == PGAS_OK ? (pgas_status_t)there : first;
    }
    return first;
}

static __attribute__((constructor)) void register_scans(void)
{
    pgas_handler_opts_t blocks = PGAS_HANDLER_OPTS_INIT;
    blocks.blocks = true;
    (void)pgas_handler_register("pgas_kvs_scan", serve_scan, NULL, &blocks, &scan_handler);
    (void)pgas_handler_register("pgas_kvs_scanned", take_scan, NULL, NULL, &scan_reply_handler);
    (void)pgas_handler_register("pgas_kvs_clear", serve_clear, NULL, &blocks, &clear_handler);
}

/* ---- updates ---- */

/* Reads the value into memory with room behind it; *room_p grows until it fits. */
static pgas_status_t read_for_update(pgas_kvs_t *kvs, pgas_kvs_item_t *item, char **memory_p,
                                     size_t *room_p, size_t spare)
{
    for (;;) {
        item->op = PGAS_KVS_GET;
        item->condition = PGAS_KVS_ALWAYS;
        item->value = *memory_p;
        item->capacity = *room_p - spare;
        pgas_status_t status = pgas_kvs_run(kvs, item, 1, NULL);
        if (status != PGAS_ERR_RANGE)
            return status;
        size_t room = item->value_bytes + item->value_bytes / 8 + spare;
        char *memory = realloc(*memory_p, room);
        if (!memory)
            return PGAS_ERR_NO_MEMORY;
        *memory_p = memory;
        *room_p = room;
    }
}

/* One attempt. @return PGAS_INPROGRESS: the key has changed meanwhile */
static pgas_status_t try_update(pgas_kvs_t *kvs, pgas_kvs_item_t *item, char **memory_p,
                                size_t *room_p, size_t spare, pgas_kvs_update_fn_t fn, void *arg)
{
    pgas_status_t status = read_for_update(kvs, item, memory_p, room_p, spare);
    bool present = status == PGAS_OK;
    if (!present && status != PGAS_ERR_NOT_FOUND)
        return status;
    uint64_t version = present ? item->version : 0;
    const void *key = item->key;
    size_t key_bytes = item->key_bytes;
    *item = (pgas_kvs_item_t){ .key = key,
                               .key_bytes = key_bytes,
                               .value = present ? item->value : NULL,
                               .value_bytes = present ? item->value_bytes : 0,
                               .capacity = *room_p,
                               .version = version,
                               .expires_ms = present ? item->expires_ms : 0,
                               .op = PGAS_KVS_PUT };
    status = fn(item, arg);
    if (status != PGAS_OK || (!present && item->op == PGAS_KVS_DELETE))
        return status;
    item->key = key;
    item->key_bytes = key_bytes;
    item->version = version;
    item->condition = present ? PGAS_KVS_IF_VERSION : PGAS_KVS_IF_ABSENT;
    status = pgas_kvs_run(kvs, item, 1, NULL);
    bool lost =
        status == PGAS_ERR_MISMATCH || status == PGAS_ERR_NOT_FOUND || status == PGAS_ERR_EXISTS;
    return lost ? PGAS_INPROGRESS : status;
}

pgas_status_t pgas_kvs_update(pgas_kvs_t *kvs, const void *key, size_t key_bytes,
                              size_t spare_bytes, pgas_kvs_update_fn_t fn, void *arg)
{
    if (!kvs || !key || !fn)
        return PGAS_ERR_INVALID;
    pgas_kvs_item_t item = { .key = key, .key_bytes = key_bytes };
    size_t room = 256 + spare_bytes;
    char *memory = malloc(room);
    pgas_status_t status = memory ? PGAS_INPROGRESS : PGAS_ERR_NO_MEMORY;
    while (status == PGAS_INPROGRESS)
        status = try_update(kvs, &item, &memory, &room, spare_bytes, fn, arg);
    free(memory);
    return status;
}
