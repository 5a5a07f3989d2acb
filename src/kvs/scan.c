/* Scans, counts, deletion of all keys, updates by the program's functions. */
#include <stdlib.h>
#include "kvs/kvs.h"

/* ---- scans ---- */

static pgas_status_t visit(const pgasi_scratch_t *scratch, pgas_kvs_visit_fn_t fn, void *arg,
                           size_t *n_p, bool *goes_on_p)
{
    pgas_kvs_item_t item;
    size_t at = 0;
    while (*goes_on_p && pgasi_scratch_next(scratch, &at, &item)) {
        ++*n_p;
        *goes_on_p = fn(&item, arg);
    }
    return PGAS_OK;
}

pgas_status_t pgas_kvs_scan(pgas_kvs_t *kvs, int rank, uint64_t *cursor_p, size_t n,
                            pgas_kvs_visit_fn_t fn, void *arg)
{
    if (!kvs || !cursor_p || !fn)
        return PGAS_ERR_INVALID;
    int home = rank < 0 ? kvs->rank : rank;
    if (rank < -1 || home >= kvs->n || *cursor_p >= kvs->n_buckets)
        return PGAS_ERR_RANGE;
    pgasi_scratch_t scratch = { NULL, 0, 0 };
    pgas_status_t status = PGAS_OK;
    uint64_t bucket = *cursor_p;
    bool goes_on = true;
    for (size_t n_visited = 0; n_visited < n && goes_on && bucket < kvs->n_buckets; bucket++) {
        status = pgasi_kvs_copy_chain(kvs, home, (uint32_t)bucket, &scratch);
        if (status != PGAS_OK)
            break;
        status = visit(&scratch, fn, arg, &n_visited, &goes_on);
    }
    free(scratch.at);
    if (status == PGAS_OK)
        *cursor_p = bucket < kvs->n_buckets ? bucket : 0;
    return status;
}

pgas_status_t pgas_kvs_count(pgas_kvs_t *kvs, uint64_t *n_p)
{
    if (!kvs || !n_p)
        return PGAS_ERR_INVALID;
    uint64_t n = 0;
    for (int i = 0; i < kvs->n; i++)
        if (kvs->parts[i].base)
            n += pgasi_load(&kvs->parts[i].head->n_keys);
    *n_p = n;
    return PGAS_OK;
}

pgas_status_t pgas_kvs_clear(pgas_kvs_t *kvs)
{
    if (!kvs)
        return PGAS_ERR_INVALID;
    pgas_status_t status = PGAS_OK;
    for (int i = 0; i < kvs->n && status == PGAS_OK; i++)
        for (uint64_t b = 0; b < kvs->n_buckets && status == PGAS_OK; b++)
            if (kvs->parts[i].base)
                status = pgasi_kvs_clear_chain(kvs, i, (uint32_t)b);
    pgas_status_t committed = pgasi_kvs_commit(kvs);
    return status == PGAS_OK ? committed : status;
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
