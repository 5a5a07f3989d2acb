/* kvsd_strings: commands on single keys that become items of a batch. Requests with more than
 * BATCH_KEYS keys run alone, in several parts. */
#include <stdlib.h>
#include <string.h>
#include "kvsd.h"

static kvsd_batch_t *batch_of(kvsd_client_t *client)
{
    return &client->server->batch;
}

static pgas_kvs_item_t *items_of(kvsd_client_t *client, const kvsd_pending_t *pending)
{
    return &client->server->batch.items[pending->first];
}

/* ---- GET ---- */

KVSD_ADD(kvsd_add_get)
{
    (void)n;
    kvsd_item_read(batch_of(client), &args[1]);
    kvsd_mark_read(client, &args[1]);
    return true;
}

KVSD_REPLY(kvsd_reply_get)
{
    kvsd_reply_value(client, items_of(client, pending));
}

/* ---- MGET ---- */

KVSD_ADD(kvsd_add_mget)
{
    if (n - 1 > BATCH_KEYS)
        return false;
    for (size_t i = 1; i < n; i++) {
        kvsd_item_read(batch_of(client), &args[i]);
        kvsd_mark_read(client, &args[i]);
    }
    return true;
}

KVSD_REPLY(kvsd_reply_mget)
{
    resp_array(&client->out, pending->n);
    for (uint32_t i = 0; i < pending->n; i++)
        kvsd_reply_value(client, items_of(client, pending) + i);
}

KVSD_RUN(kvsd_mget)
{
    kvsd_batch_t *side = &client->server->side;
    resp_array(&client->out, n - 1);
    for (size_t i = 1; i < n && !client->out.failed;) {
        for (size_t end = i + BATCH_KEYS; i < n && i < end; i++)
            kvsd_item_read(side, &args[i]);
        kvsd_batch_run(client->server, side);
        for (size_t k = 0; k < side->n_items; k++)
            kvsd_reply_value(client, &side->items[k]);
        kvsd_batch_clear(side);
    }
    client->reads_again = false;
}

/* ---- GETRANGE ---- */

/* Replies with the bytes from start to end, both included; negative ones count from the end. */
static void reply_range(kvsd_client_t *client, const char *value, size_t bytes, int64_t start,
                        int64_t end)
{
    int64_t n = (int64_t)bytes;
    bool is_empty = start < 0 && end < 0 && start > end;
    start = start < 0 ? start + n : start;
    end = end < 0 ? end + n : end;
    start = start < 0 ? 0 : start;
    end = end < 0 ? 0 : end;
    end = end >= n ? n - 1 : end;
    if (is_empty || start > end || n == 0)
        resp_bulk(&client->out, "", 0);
    else
        resp_bulk(&client->out, value + start, (size_t)(end - start + 1));
}

/* The two numbers are behind the item in the client's arguments, which the next request replaces.
 * So they go into the pending request, as far as they fit. */
KVSD_ADD(kvsd_add_getrange)
{
    int64_t start, end;
    (void)n;
    if (!resp_integer(args[2].data, args[2].bytes, &start) ||
        !resp_integer(args[3].data, args[3].bytes, &end) || start != (int32_t)start ||
        end != (int32_t)end)
        return false;
    kvsd_item_read(batch_of(client), &args[1]);
    kvsd_mark_read(client, &args[1]);
    batch_of(client)->number = (int64_t)((uint64_t)start << 32 | (uint32_t)end);
    return true;
}

static void take_range(kvsd_client_t *client, const void *key, size_t key_bytes, size_t expected,
                       int64_t start, int64_t end)
{
    char *value;
    if (!kvsd_take_value(client, key, key_bytes, &value, &expected))
        return;
    reply_range(client, value, expected, start, end);
    free(value);
}

KVSD_REPLY(kvsd_reply_getrange)
{
    pgas_kvs_item_t *item = items_of(client, pending);
    int64_t start = pending->number >> 32, end = (int32_t)(uint32_t)pending->number;
    if (client->reads_again || item->status == PGAS_ERR_RANGE) {
        take_range(client, item->key, item->key_bytes, item->value_bytes, start, end);
        return;
    }
    kvsd_found_t found = kvsd_found(client, item);
    if (found != KVSD_FAILED)
        reply_range(client, item->value, found == KVSD_FOUND ? item->value_bytes : 0, start, end);
}

KVSD_RUN(kvsd_getrange)
{
    int64_t start, end;
    (void)n;
    if (!kvsd_number(client, &args[2], &start) || !kvsd_number(client, &args[3], &end))
        return;
    take_range(client, args[1].data, args[1].bytes, 0, start, end);
    client->reads_again = false;
}

/* ---- SET ---- */

/* Appends a put. @return NULL if the batch reads the key for the client */
static pgas_kvs_item_t *add_put(kvsd_client_t *client, const resp_arg_t *key,
                                const resp_arg_t *value)
{
    if (kvsd_is_read(client, key))
        return NULL;
    return kvsd_item_put(batch_of(client), key, value);
}

KVSD_ADD(kvsd_add_set)
{
    kvsd_set_opts_t opts = { .nx = false };
    if (n > 3 && (!kvsd_set_opts(client, args, n, &opts) || opts.get))
        return false;
    pgas_kvs_item_t *item = add_put(client, &args[1], &args[2]);
    if (!item)
        return false;
    item->keep_expiry = opts.keep;
    item->expires_ms = opts.expires_ms;
    if (opts.nx || opts.xx)
        item->condition = opts.nx ? PGAS_KVS_IF_ABSENT : PGAS_KVS_IF_PRESENT;
    return true;
}

KVSD_REPLY(kvsd_reply_set)
{
    const pgas_kvs_item_t *item = items_of(client, pending);
    if (item->status == PGAS_OK)
        resp_ok(&client->out);
    else if (item->status == PGAS_ERR_EXISTS || item->status == PGAS_ERR_NOT_FOUND)
        resp_null(&client->out);
    else
        kvsd_status_error(client, item->status);
}

KVSD_ADD(kvsd_add_setnx)
{
    (void)n;
    pgas_kvs_item_t *item = add_put(client, &args[1], &args[2]);
    if (item)
        item->condition = PGAS_KVS_IF_ABSENT;
    return item != NULL;
}

KVSD_REPLY(kvsd_reply_setnx)
{
    const pgas_kvs_item_t *item = items_of(client, pending);
    if (item->status == PGAS_OK || item->status == PGAS_ERR_EXISTS)
        resp_number(&client->out, item->status == PGAS_OK);
    else
        kvsd_status_error(client, item->status);
}

/* SETEX key seconds value, PSETEX key milliseconds value */
static bool setex_time(kvsd_client_t *client, const resp_arg_t *args, int64_t value,
                       int64_t *expires_ms_p)
{
    bool seconds = kvsd_word(&args[0], "setex");
    return value > 0 && kvsd_expiry(value, seconds, client->server->now_ms, expires_ms_p);
}

KVSD_ADD(kvsd_add_setex)
{
    int64_t value, expires_ms;
    (void)n;
    if (!resp_integer(args[2].data, args[2].bytes, &value) ||
        !setex_time(client, args, value, &expires_ms))
        return false;
    pgas_kvs_item_t *item = add_put(client, &args[1], &args[3]);
    if (item)
        item->expires_ms = expires_ms;
    return item != NULL;
}

KVSD_RUN(kvsd_setex)
{
    int64_t value;
    (void)n;
    if (kvsd_number(client, &args[2], &value))
        resp_error(&client->out, "ERR invalid expire time in '%s' command",
                   kvsd_word(&args[0], "setex") ? "setex" : "psetex");
}

/* ---- MSET ---- */

KVSD_ADD(kvsd_add_mset)
{
    if (n % 2 == 0 || n / 2 > BATCH_KEYS)
        return false;
    for (size_t i = 1; i < n; i += 2)
        if (kvsd_is_read(client, &args[i]))
            return false;
    for (size_t i = 1; i < n; i += 2)
        kvsd_item_put(batch_of(client), &args[i], &args[i + 1]);
    return true;
}

/* @return the status of the first item that failed */
static pgas_status_t first_error(const pgas_kvs_item_t *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (items[i].status != PGAS_OK)
            return items[i].status;
    return PGAS_OK;
}

static void reply_status(kvsd_client_t *client, pgas_status_t status)
{
    if (status == PGAS_OK)
        resp_ok(&client->out);
    else
        kvsd_status_error(client, status);
}

KVSD_REPLY(kvsd_reply_mset)
{
    reply_status(client, first_error(items_of(client, pending), pending->n));
}

KVSD_RUN(kvsd_mset)
{
    kvsd_batch_t *side = &client->server->side;
    pgas_status_t status = PGAS_OK;
    if (n % 2 == 0) {
        resp_error(&client->out, "ERR wrong number of arguments for 'mset' command");
        return;
    }
    for (size_t i = 1; i < n && status == PGAS_OK;) {
        for (size_t end = i + BATCH_KEYS * (size_t)2; i < n && i < end; i += 2)
            kvsd_item_put(side, &args[i], &args[i + 1]);
        kvsd_batch_run(client->server, side);
        status = first_error(side->items, side->n_items);
        kvsd_batch_clear(side);
    }
    reply_status(client, status);
}

/* ---- DEL and EXISTS ---- */

KVSD_ADD(kvsd_add_del)
{
    if (n - 1 > BATCH_KEYS)
        return false;
    for (size_t i = 1; i < n; i++)
        if (kvsd_is_read(client, &args[i]))
            return false;
    for (size_t i = 1; i < n; i++)
        kvsd_item_delete(batch_of(client), &args[i]);
    return true;
}

KVSD_ADD(kvsd_add_exists)
{
    if (n - 1 > BATCH_KEYS)
        return false;
    for (size_t i = 1; i < n; i++) {
        kvsd_item_look(batch_of(client), &args[i]);
        kvsd_mark_read(client, &args[i]);
    }
    return true;
}

/* Adds the items that found or deleted a key to *count_p. @return false: the client got an error */
static bool count_items(kvsd_client_t *client, pgas_kvs_item_t *items, size_t n, int64_t *count_p)
{
    for (size_t i = 0; i < n; i++) {
        pgas_status_t status = items[i].status;
        if (items[i].op == PGAS_KVS_GET) {
            kvsd_found_t found = kvsd_found(client, &items[i]);
            if (found == KVSD_FAILED)
                return false;
            *count_p += found == KVSD_FOUND;
        } else if (status == PGAS_OK) {
            ++*count_p;
        } else if (status != PGAS_ERR_NOT_FOUND && status != PGAS_ERR_LIMIT) {
            kvsd_status_error(client, status);
            return false;
        }
    }
    return true;
}

KVSD_REPLY(kvsd_reply_count)
{
    int64_t count = 0;
    if (count_items(client, items_of(client, pending), pending->n, &count))
        resp_number(&client->out, count);
}

typedef pgas_kvs_item_t *(*make_item_fn_t)(kvsd_batch_t *batch, const resp_arg_t *key);

static void count_alone(kvsd_client_t *client, const resp_arg_t *args, size_t n,
                        make_item_fn_t make)
{
    kvsd_batch_t *side = &client->server->side;
    int64_t count = 0;
    bool good = true;
    for (size_t i = 1; i < n && good;) {
        for (size_t end = i + BATCH_KEYS; i < n && i < end; i++)
            make(side, &args[i]);
        kvsd_batch_run(client->server, side);
        good = count_items(client, side->items, side->n_items, &count);
        kvsd_batch_clear(side);
    }
    if (good)
        resp_number(&client->out, count);
}

KVSD_RUN(kvsd_del)
{
    count_alone(client, args, n, kvsd_item_delete);
}

KVSD_RUN(kvsd_exists)
{
    count_alone(client, args, n, kvsd_item_look);
}

/* ---- commands that look at a key without its value ---- */

KVSD_ADD(kvsd_add_look)
{
    (void)n;
    kvsd_item_look(batch_of(client), &args[1]);
    kvsd_mark_read(client, &args[1]);
    return true;
}

KVSD_REPLY(kvsd_reply_strlen)
{
    pgas_kvs_item_t *item = items_of(client, pending);
    kvsd_found_t found = kvsd_found(client, item);
    if (found != KVSD_FAILED)
        resp_number(&client->out, found == KVSD_FOUND ? (int64_t)item->value_bytes : 0);
}

KVSD_REPLY(kvsd_reply_type)
{
    kvsd_found_t found = kvsd_found(client, items_of(client, pending));
    if (found != KVSD_FAILED)
        resp_line(&client->out, '+', found == KVSD_FOUND ? "string" : "none");
}

/* Replies with the time from base_ms on, or -1 if the key does not expire, -2 if it is absent. */
static void reply_time(kvsd_client_t *client, const kvsd_pending_t *pending, int64_t base_ms,
                       int64_t unit)
{
    pgas_kvs_item_t *item = items_of(client, pending);
    kvsd_found_t found = kvsd_found(client, item);
    int64_t left = item->expires_ms - base_ms;
    if (found == KVSD_FAILED)
        return;
    if (found == KVSD_ABSENT)
        resp_number(&client->out, -2);
    else if (item->expires_ms == 0)
        resp_number(&client->out, -1);
    else
        resp_number(&client->out, ((left < 0 ? 0 : left) + unit / 2) / unit);
}

KVSD_REPLY(kvsd_reply_ttl)
{
    reply_time(client, pending, client->server->now_ms, 1000);
}

KVSD_REPLY(kvsd_reply_pttl)
{
    reply_time(client, pending, client->server->now_ms, 1);
}

KVSD_REPLY(kvsd_reply_expiretime)
{
    reply_time(client, pending, 0, 1000);
}

KVSD_REPLY(kvsd_reply_pexpiretime)
{
    reply_time(client, pending, 0, 1);
}
