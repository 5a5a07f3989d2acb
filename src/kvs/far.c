/* The caller's side of operations at other nodes: requests, replies, large values.
 *
 * A reply runs as a plain handler. It stores results, and sends an item again if the home could not
 * carry it out without waiting. Values that do not fit into a message are fetched by a second call,
 * whose result is written directly to its place. */
#include <stdlib.h>
#include "base/param.h"
#include "kvs/cache.h"
#include "kvs/message.h"
#include "kvs/stamps.h"

pgas_handler_t pgasi_kvs_reply_handler;

size_t pgasi_kvs_message_max(void)
{
    return PGASI_MIN((size_t)pgasi_param.call_max, PGASI_KVS_MESSAGE_MAX);
}

void pgasi_kvs_complete(pgasi_batch_t *batch, int64_t n)
{
    pgas_sync_t *sync = batch->sync;
    bool waits = sync == &batch->own;
    bool last = __atomic_sub_fetch(&batch->missing, n, __ATOMIC_ACQ_REL) == 0;
    if (last && !waits)
        free(batch);
    pgas_sync_done(sync, n);
}

/* ---- requests ---- */

static size_t payload_of(const pgas_kvs_item_t *item)
{
    if (item->op == PGAS_KVS_ADD)
        return sizeof(int64_t);
    return item->op == PGAS_KVS_PUT ? item->value_bytes : 0;
}

static size_t item_bytes(const pgas_kvs_item_t *item)
{
    return sizeof(pgasi_request_item_t) + PGASI_ALIGN_UP(item->key_bytes, 8) +
           PGASI_ALIGN_UP(payload_of(item), 8);
}

static pgasi_request_t head_of(const pgasi_batch_t *batch, int home, uint32_t n)
{
    return (pgasi_request_t){ .kvs = (uint32_t)batch->kvs->id,
                              .n = n,
                              .home = (uint32_t)home,
                              .batch = (uint64_t)(uintptr_t)batch };
}

static pgasi_request_item_t wire_of(const pgas_kvs_item_t *item, uint32_t index)
{
    return (pgasi_request_item_t){ .version = item->version,
                                   .expires_ms = item->expires_ms,
                                   .capacity = item->capacity,
                                   .index = index,
                                   .key_bytes = (uint32_t)item->key_bytes,
                                   .value_bytes = (uint32_t)payload_of(item),
                                   .op = (uint8_t)item->op,
                                   .condition = (uint8_t)item->condition,
                                   .keep_expiry = item->keep_expiry };
}

static size_t append(char *at, const pgas_kvs_item_t *item, uint32_t index)
{
    pgasi_request_item_t wire = wire_of(item, index);
    memcpy(at, &wire, sizeof wire);
    memcpy(at + sizeof wire, item->key, item->key_bytes);
    if (wire.value_bytes > 0)
        memcpy(at + sizeof wire + PGASI_ALIGN_UP(item->key_bytes, 8), item->value,
               wire.value_bytes);
    return item_bytes(item);
}

/* By buffers, for an item that does not fit into a message. The home reads them from here. */
static pgas_status_t send_large(pgasi_batch_t *batch, int home, uint32_t index,
                                pgas_handler_t handler)
{
    const pgas_kvs_item_t *item = &batch->items[index];
    struct {
        pgasi_request_t head;
        pgasi_request_item_t item;
    } message = { head_of(batch, home, 1), wire_of(item, index) };
    pgas_buffer_t buffers[2] = {
        { .mode = PGAS_BUFFER_PULL, .address = item->key, .bytes = item->key_bytes },
        { .mode = PGAS_BUFFER_PULL, .address = item->value, .bytes = payload_of(item) }
    };
    return pgas_call_to(pgas_on_rank(batch->kvs->ranks[home]), handler, &message, sizeof message,
                        PGAS_CALL_OPTS(.buffers = buffers, .n_buffers = 2));
}

pgas_status_t pgasi_kvs_send_one(pgasi_batch_t *batch, int home, uint32_t index, bool waits)
{
    const pgas_kvs_item_t *item = &batch->items[index];
    pgas_handler_t handler = waits ? pgasi_kvs_waiting_handler : pgasi_kvs_request_handler;
    char message[PGASI_KVS_MESSAGE_MAX] PGASI_ALIGNED(8);
    pgasi_request_t head = head_of(batch, home, 1);
    if (sizeof head + item_bytes(item) > pgasi_kvs_message_max())
        return send_large(batch, home, index, handler);
    memcpy(message, &head, sizeof head);
    size_t bytes = sizeof head + append(message + sizeof head, item, index);
    return pgas_call(batch->kvs->ranks[home], handler, message, bytes, NULL);
}

/* The items of a message that was not sent get its status. */
static void fail_message(pgasi_batch_t *batch, const char *message, pgas_status_t status)
{
    const pgasi_request_t *head = (const pgasi_request_t *)(const void *)message;
    const char *at = (const char *)(head + 1);
    for (uint32_t i = 0; i < head->n; i++) {
        const pgasi_request_item_t *wire = (const pgasi_request_item_t *)(const void *)at;
        batch->items[wire->index].status = status;
        at += sizeof *wire + PGASI_ALIGN_UP((size_t)wire->key_bytes, 8) +
              PGASI_ALIGN_UP((size_t)wire->value_bytes, 8);
    }
    pgasi_kvs_complete(batch, head->n);
}

void pgasi_kvs_flush(pgasi_batch_t *batch, pgasi_outgoing_t *outgoing, int home)
{
    if (outgoing->bytes == 0)
        return;
    pgas_status_t status = pgas_call(batch->kvs->ranks[home], pgasi_kvs_request_handler,
                                     outgoing->at, outgoing->bytes, NULL);
    outgoing->bytes = 0;
    if (status != PGAS_OK)
        fail_message(batch, outgoing->at, status);
}

/* The number of items in the head is raised in place. */
pgas_status_t pgasi_kvs_send(pgasi_batch_t *batch, pgasi_outgoing_t *outgoing, int home,
                             uint32_t index)
{
    const pgas_kvs_item_t *item = &batch->items[index];
    size_t more = item_bytes(item), max = pgasi_kvs_message_max();
    if (outgoing->bytes + more > max)
        pgasi_kvs_flush(batch, outgoing, home);
    if (!outgoing->at)
        outgoing->at = malloc(PGASI_KVS_MESSAGE_MAX);
    if (sizeof(pgasi_request_t) + more > max || !outgoing->at)
        return pgasi_kvs_send_one(batch, home, index, false);
    if (outgoing->bytes == 0) {
        pgasi_request_t head = head_of(batch, home, 0);
        memcpy(outgoing->at, &head, sizeof head);
        outgoing->bytes = sizeof head;
    }
    outgoing->bytes += append(outgoing->at + outgoing->bytes, item, index);
    ((pgasi_request_t *)(void *)outgoing->at)->n++;
    return PGAS_OK;
}

/* ---- large values ---- */

typedef struct {
    pgasi_batch_t *batch;
    int home;
    uint32_t index;
    pgas_sync_t sync;
} large_t;

static void send_again(pgasi_batch_t *batch, int home, uint32_t index, bool waits)
{
    pgas_status_t status = pgasi_kvs_send_one(batch, home, index, waits);
    if (status == PGAS_OK)
        return;
    batch->items[index].status = status;
    pgasi_kvs_complete(batch, 1);
}

/* A value that has changed meanwhile has another version. Then the home gives no result, and the
 * item begins again. */
static void large_arrived(pgas_sync_t *sync, void *arg)
{
    large_t *large = (large_t *)arg;
    pgasi_batch_t *batch = large->batch;
    pgas_sync_info_t info = { .size = sizeof info };
    (void)pgas_sync_info(sync, &info);
    if (info.status == PGAS_ERR_MISMATCH) {
        send_again(batch, large->home, large->index, false);
    } else {
        batch->items[large->index].status = info.status;
        pgasi_kvs_complete(batch, 1);
    }
    free(large);
}

static pgas_status_t fetch_large(pgasi_batch_t *batch, int home, uint32_t index)
{
    pgas_kvs_item_t *item = &batch->items[index];
    large_t *large = malloc(sizeof *large);
    if (!large)
        return PGAS_ERR_NO_MEMORY;
    *large = (large_t){
        .batch = batch, .home = home, .index = index, .sync = { .fn = large_arrived, .arg = large }
    };
    struct {
        pgasi_request_t head;
        pgasi_request_item_t item;
    } message = { head_of(batch, home, 1), wire_of(item, index) };
    message.item.capacity = item->value_bytes;
    pgas_buffer_t buffer = { .mode = PGAS_BUFFER_COPY,
                             .address = item->key,
                             .bytes = item->key_bytes };
    pgas_status_t status =
        pgas_call_to(pgas_on_rank(batch->kvs->ranks[home]), pgasi_kvs_large_handler, &message,
                     sizeof message,
                     PGAS_CALL_OPTS(.sync = &large->sync, .buffers = &buffer, .n_buffers = 1,
                                    .result = item->value, .result_bytes = item->value_bytes));
    if (status != PGAS_OK)
        free(large);
    return status;
}

/* ---- replies ---- */

static void keep_copy(pgas_kvs_t *kvs, const pgasi_reply_item_t *reply, const pgas_kvs_item_t *item)
{
    pgasi_key_t key;
    if (!kvs->cache || item->op != PGAS_KVS_GET || item->status != PGAS_OK || !reply->has_stamp)
        return;
    pgasi_kvs_key(kvs, item->key, item->key_bytes, &key);
    pgasi_kvs_cache_put(kvs->cache, &key, reply->stamp, item);
}

/* Stores one result. @return whether the item is complete */
static bool take_item(pgasi_batch_t *batch, const pgasi_reply_item_t *reply, const char *value)
{
    pgas_kvs_item_t *item = &batch->items[reply->index];
    pgasi_key_t key;
    if (reply->status == PGAS_ERR_AGAIN) {
        send_again(batch, pgasi_kvs_key(batch->kvs, item->key, item->key_bytes, &key), reply->index,
                   true);
        return false;
    }
    item->version = reply->version;
    if (item->op == PGAS_KVS_GET && (reply->status == PGAS_OK || reply->status == PGAS_ERR_RANGE ||
                                     reply->status == PGAS_INPROGRESS)) {
        item->value_bytes = reply->value_bytes;
        item->expires_ms = reply->expires_ms;
    }
    if (reply->status == PGAS_INPROGRESS) {
        int home = pgasi_kvs_key(batch->kvs, item->key, item->key_bytes, &key);
        item->status = fetch_large(batch, home, reply->index);
        return item->status != PGAS_OK;
    }
    if (reply->has_value && reply->value_bytes > 0)
        memcpy(item->value, value, reply->value_bytes);
    item->status = (pgas_status_t)reply->status;
    keep_copy(batch->kvs, reply, item);
    return true;
}

static void take_reply(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    const pgasi_reply_t *head = (const pgasi_reply_t *)args;
    pgasi_batch_t *batch = (pgasi_batch_t *)(uintptr_t)head->batch;
    const char *at = (const char *)(head + 1);
    int64_t n_complete = 0;
    (void)bytes;
    (void)source;
    (void)context;
    for (uint32_t i = 0; i < head->n; i++) {
        const pgasi_reply_item_t *item = (const pgasi_reply_item_t *)(const void *)at;
        at += sizeof *item;
        n_complete += take_item(batch, item, at);
        if (item->has_value)
            at += PGASI_ALIGN_UP((size_t)item->value_bytes, 8);
    }
    if (n_complete > 0)
        pgasi_kvs_complete(batch, n_complete);
}

static __attribute__((constructor)) void register_reply(void)
{
    (void)pgas_handler_register("pgas_kvs_reply", take_reply, NULL, NULL, &pgasi_kvs_reply_handler);
}
