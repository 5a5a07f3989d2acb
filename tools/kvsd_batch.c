/* kvsd_batch: requests of many clients as one pgas_kvs_run, and their replies.
 *
 *  A value may be larger than the place that its item has. It is then read again, into the output
 *  buffer. So that a client sees its own commands in their order,
 *   - no write joins a batch that reads the same key for the client (kvsd_is_read), and
 *   - if one value of a client is read again, all later reads of the batch are. */
#include <stdlib.h>
#include <string.h>
#include "kvsd.h"

enum {
    VALUES_BYTES = 16 << 20,
    VALUE_LEAST = 128,
    VALUE_MOST = 16384, /* larger values are always read again */
    GAP = 64,           /* between values, so that they do not share the lines of one cache set */
    N_RUNS = 256        /* batches after which the capacity shrinks to what was needed */
};

bool kvsd_batch_init(kvsd_batch_t *batch)
{
    batch->items = calloc(BATCH_ITEMS, sizeof *batch->items);
    batch->pending = calloc(BATCH_ITEMS, sizeof *batch->pending);
    batch->values = malloc(VALUES_BYTES);
    batch->value_bytes = VALUE_LEAST;
    return batch->items && batch->pending && batch->values;
}

void kvsd_batch_fini(kvsd_batch_t *batch)
{
    free(batch->items);
    free(batch->pending);
    free(batch->values);
    *batch = (kvsd_batch_t){ .items = NULL };
}

bool kvsd_batch_has_room(const kvsd_batch_t *batch)
{
    return batch->n_items + BATCH_KEYS <= BATCH_ITEMS && batch->n_pending < BATCH_ITEMS &&
           batch->values_used + BATCH_KEYS * (batch->value_bytes + GAP) <= VALUES_BYTES;
}

/* ---- items ---- */

static pgas_kvs_item_t *add_item(kvsd_batch_t *batch, const resp_arg_t *key, pgas_kvs_op_t op)
{
    pgas_kvs_item_t *item = &batch->items[batch->n_items++];
    *item = (pgas_kvs_item_t){ .key = key->data, .key_bytes = key->bytes, .op = op };
    item->status = PGAS_INPROGRESS;
    return item;
}

pgas_kvs_item_t *kvsd_item_read(kvsd_batch_t *batch, const resp_arg_t *key)
{
    pgas_kvs_item_t *item = add_item(batch, key, PGAS_KVS_GET);
    item->value = batch->values + batch->values_used;
    item->capacity = batch->value_bytes;
    batch->values_used += batch->value_bytes + GAP;
    return item;
}

pgas_kvs_item_t *kvsd_item_look(kvsd_batch_t *batch, const resp_arg_t *key)
{
    return add_item(batch, key, PGAS_KVS_GET);
}

pgas_kvs_item_t *kvsd_item_put(kvsd_batch_t *batch, const resp_arg_t *key, const resp_arg_t *value)
{
    pgas_kvs_item_t *item = add_item(batch, key, PGAS_KVS_PUT);
    item->value = value->data;
    item->value_bytes = value->bytes;
    return item;
}

pgas_kvs_item_t *kvsd_item_delete(kvsd_batch_t *batch, const resp_arg_t *key)
{
    return add_item(batch, key, PGAS_KVS_DELETE);
}

/* ---- keys that a batch reads for a client ---- */

/* @return a number below 256 */
static unsigned hash_bit(const resp_arg_t *key)
{
    uint64_t first = 0, last = 0;
    size_t n = key->bytes < 8 ? key->bytes : 8;
    memcpy(&first, key->data, n);
    memcpy(&last, key->data + key->bytes - n, n);
    return (unsigned)((first * 0x9e3779b97f4a7c15u + last + key->bytes) * 0x9e3779b97f4a7c15u >>
                      56);
}

void kvsd_mark_read(kvsd_client_t *client, const resp_arg_t *key)
{
    unsigned bit = hash_bit(key);
    client->read_set[bit / 64] |= (uint64_t)1 << bit % 64;
}

bool kvsd_is_read(const kvsd_client_t *client, const resp_arg_t *key)
{
    unsigned bit = hash_bit(key);
    return client->read_set[bit / 64] >> bit % 64 & 1;
}

/* ---- runs ---- */

static void adapt_capacity(kvsd_batch_t *batch)
{
    for (size_t i = 0; i < batch->n_items; i++) {
        const pgas_kvs_item_t *item = &batch->items[i];
        bool is_read = item->capacity > 0 && item->value_bytes <= VALUE_MOST &&
                       (item->status == PGAS_OK || item->status == PGAS_ERR_RANGE);
        if (is_read && item->value_bytes > batch->largest)
            batch->largest = item->value_bytes;
    }
    if (batch->largest > batch->value_bytes || ++batch->n_runs == N_RUNS) {
        batch->value_bytes = VALUE_LEAST;
        while (batch->value_bytes < batch->largest)
            batch->value_bytes *= 2;
        batch->largest = 0;
        batch->n_runs = 0;
    }
}

void kvsd_batch_run(kvsd_server_t *server, kvsd_batch_t *batch)
{
    if (batch->n_items == 0)
        return;
    pgas_status_t status = pgas_kvs_run(server->kvs, batch->items, batch->n_items, NULL);
    for (size_t i = 0; i < batch->n_items && status != PGAS_OK; i++)
        if (batch->items[i].status == PGAS_INPROGRESS)
            batch->items[i].status = status; /* the store began nothing */
    adapt_capacity(batch);
}

void kvsd_batch_clear(kvsd_batch_t *batch)
{
    batch->n_items = 0;
    batch->n_pending = 0;
    batch->values_used = 0;
}

void kvsd_batch_reply(kvsd_server_t *server)
{
    kvsd_batch_t *batch = &server->batch;
    for (size_t i = 0; i < batch->n_pending; i++)
        batch->pending[i].command->reply(batch->pending[i].client, &batch->pending[i]);
    for (size_t i = 0; i < batch->n_pending; i++) {
        kvsd_client_t *client = batch->pending[i].client;
        if (client->n_pending == 0)
            continue;
        client->n_pending = 0;
        client->reads_again = false;
        memset(client->read_set, 0, sizeof client->read_set);
    }
    kvsd_batch_clear(batch);
}

/* ---- values ---- */

static bool must_read_again(const kvsd_client_t *client, const pgas_kvs_item_t *item)
{
    return client->reads_again || (item->status == PGAS_ERR_RANGE && item->capacity > 0);
}

/* Reads size, version and time again. */
static void look_again(kvsd_client_t *client, pgas_kvs_item_t *item)
{
    item->value = NULL;
    item->capacity = 0;
    pgas_kvs_run(client->server->kvs, item, 1, NULL);
}

kvsd_found_t kvsd_found(kvsd_client_t *client, pgas_kvs_item_t *item)
{
    if (must_read_again(client, item))
        look_again(client, item);
    bool found = item->status == PGAS_OK || item->status == PGAS_ERR_RANGE;
    client->server->counts.hits += found;
    client->server->counts.misses += !found;
    if (found)
        return KVSD_FOUND;
    /* No key has the size 0, or more than PGAS_KVS_KEY_MAX. */
    if (item->status == PGAS_ERR_NOT_FOUND || item->status == PGAS_ERR_LIMIT)
        return KVSD_ABSENT;
    kvsd_status_error(client, item->status);
    return KVSD_FAILED;
}

/* Reads a value into the output buffer. It may have any size, and another one each time. */
static void read_into_output(kvsd_client_t *client, pgas_kvs_item_t *item)
{
    kvsd_server_t *server = client->server;
    size_t capacity = item->value_bytes, n = 0;
    pgas_status_t status = PGAS_ERR_RANGE;
    client->reads_again = true;
    while (status == PGAS_ERR_RANGE) {
        char *to = resp_bulk_begin(&client->out, capacity);
        if (!to)
            return;
        status = pgas_kvs_get(server->kvs, item->key, item->key_bytes, to, capacity, &n);
        if (status == PGAS_OK)
            resp_bulk_end(&client->out, capacity, n);
        capacity = n;
    }
    server->counts.hits += status == PGAS_OK;
    server->counts.misses += status != PGAS_OK;
    if (status == PGAS_ERR_NOT_FOUND || status == PGAS_ERR_LIMIT)
        resp_null(&client->out);
    else if (status != PGAS_OK)
        kvsd_status_error(client, status);
}

void kvsd_reply_value(kvsd_client_t *client, pgas_kvs_item_t *item)
{
    if (must_read_again(client, item)) {
        read_into_output(client, item);
        return;
    }
    kvsd_found_t found = kvsd_found(client, item);
    if (found == KVSD_FOUND)
        resp_bulk(&client->out, item->value, item->value_bytes);
    else if (found == KVSD_ABSENT)
        resp_null(&client->out);
}

bool kvsd_take_value(kvsd_client_t *client, const void *key, size_t key_bytes, char **value_p,
                     size_t *bytes_p)
{
    size_t capacity = *bytes_p;
    char *value = NULL;
    pgas_status_t status = PGAS_ERR_RANGE;
    client->reads_again = true;
    while (status == PGAS_ERR_RANGE) {
        free(value);
        value = malloc(capacity + 1);
        status = value ? pgas_kvs_get(client->server->kvs, key, key_bytes, value, capacity, bytes_p)
                       : PGAS_ERR_NO_MEMORY;
        capacity = *bytes_p;
    }
    if (status == PGAS_OK) {
        *value_p = value;
        return true;
    }
    free(value);
    *bytes_p = 0;
    *value_p = NULL;
    if (status == PGAS_ERR_NOT_FOUND || status == PGAS_ERR_LIMIT)
        return true;
    kvsd_status_error(client, status);
    return false;
}
