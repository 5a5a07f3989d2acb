/* The caller's side of operations at other nodes: requests, replies, large values.
 *
 * A reply runs as a plain handler. It stores results, and sends an item again if the home could not
 * carry it out without waiting. Values that do not fit into a message are fetched by a second call,
 * whose result is written directly to its place. */
#include <stdlib.h>
#include "base/deaths.h"
#include "base/param.h"
#include "base/spin.h"
#include "kvs/cache.h"
#include "kvs/message.h"
#include "kvs/stamps.h"

#define N_SPINS 64

pgas_handler_t pgasi_kvs_reply_handler;

size_t pgasi_kvs_message_max(void)
{
    return PGASI_MIN((size_t)pgasi_param.call_max, PGASI_KVS_MESSAGE_MAX);
}

/* ---- batches ---- */

void pgasi_kvs_enlist(pgasi_batch_t *batch)
{
    pgas_kvs_t *kvs = batch->kvs;
    pgasi_spin_lock(&kvs->batches_lock, N_SPINS);
    batch->next = kvs->batches;
    if (batch->next)
        batch->next->prev = batch;
    kvs->batches = batch;
    pgasi_spin_unlock(&kvs->batches_lock);
}

static void unlist(pgasi_batch_t *batch)
{
    pgas_kvs_t *kvs = batch->kvs;
    pgasi_spin_lock(&kvs->batches_lock, N_SPINS);
    if (batch->next)
        batch->next->prev = batch->prev;
    if (batch->prev)
        batch->prev->next = batch->next;
    else
        kvs->batches = batch->next;
    pgasi_spin_unlock(&kvs->batches_lock);
}

/* A run that waits frees its batch. */
void pgasi_kvs_complete(pgasi_batch_t *batch, int64_t n)
{
    pgas_sync_t *sync = batch->sync;
    bool waits = sync == &batch->own;
    if (__atomic_sub_fetch(&batch->missing, n, __ATOMIC_ACQ_REL) == 0 && !waits) {
        unlist(batch);
        free(batch);
    }
    pgas_sync_done(sync, n);
}

/* ---- deaths ---- */

/* Claims the items that a dead home will not answer. */
static int64_t claim_of(pgasi_batch_t *batch, int home)
{
    size_t n = __atomic_load_n(&batch->n_begun, __ATOMIC_ACQUIRE);
    int64_t n_claimed = 0;
    pgasi_key_t key;
    for (size_t i = 0; i < n; i++) {
        pgas_kvs_item_t *item = &batch->items[i];
        if (__atomic_load_n(&item->status, __ATOMIC_ACQUIRE) == PGAS_INPROGRESS &&
            pgasi_kvs_key(batch->kvs, item->key, item->key_bytes, &key) == home)
            n_claimed += pgasi_kvs_claim(item, PGAS_ERR_PEER);
    }
    return n_claimed;
}

/* Claims items of the first batch that has some. It stays until they are complete. */
static pgasi_batch_t *claim_first(pgas_kvs_t *kvs, int home, int64_t *n_p)
{
    pgasi_spin_lock(&kvs->batches_lock, N_SPINS);
    pgasi_batch_t *batch = kvs->batches;
    while (batch && (*n_p = claim_of(batch, home)) == 0)
        batch = batch->next;
    pgasi_spin_unlock(&kvs->batches_lock);
    return batch;
}

/* Functions of counters run without the lock. */
static void lose_home(pgas_kvs_t *kvs, int home)
{
    pgasi_batch_t *batch;
    int64_t n;
    __atomic_store_n(&kvs->lost[home], true, __ATOMIC_RELAXED);
    __atomic_store_n(&kvs->broken, true, __ATOMIC_SEQ_CST);
    bool near = kvs->parts[home].base != NULL;
    for (int i = 0; near && i < kvs->n; i++)
        if (kvs->parts[i].base)
            pgasi_slabs_break(&kvs->parts[i].head->slabs);
    while ((batch = claim_first(kvs, home, &n)) != NULL)
        pgasi_kvs_complete(batch, n);
}

void pgasi_kvs_end_lost(pgasi_batch_t *batch)
{
    for (int i = 0; i < batch->kvs->n; i++) {
        int64_t n =
            __atomic_load_n(&batch->kvs->lost[i], __ATOMIC_RELAXED) ? claim_of(batch, i) : 0;
        if (n > 0)
            pgasi_kvs_complete(batch, n);
    }
}

static void end_for_dead(int rank)
{
    for (uint64_t id = 0; id < PGASI_KVS_MAX; id++) {
        pgas_kvs_t *kvs = pgasi_kvs_of(id);
        for (int i = 0; kvs && i < kvs->n; i++)
            if (kvs->ranks[i] == rank)
                lose_home(kvs, i);
    }
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

/* Sends an item that does not fit into a message, as buffers that the home reads from here. */
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
    int64_t n_failed = 0;
    for (uint32_t i = 0; i < head->n; i++) {
        const pgasi_request_item_t *wire = (const pgasi_request_item_t *)(const void *)at;
        n_failed += pgasi_kvs_claim(&batch->items[wire->index], status);
        at += sizeof *wire + PGASI_ALIGN_UP((size_t)wire->key_bytes, 8) +
              PGASI_ALIGN_UP((size_t)wire->value_bytes, 8);
    }
    if (n_failed > 0)
        pgasi_kvs_complete(batch, n_failed);
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

/* The item is claimed by its reply. Once it is in progress again, a death may complete it, so the
 * batch is kept. */
static void send_again(pgasi_batch_t *batch, int home, uint32_t index, bool waits)
{
    pgas_kvs_item_t *item = &batch->items[index];
    __atomic_add_fetch(&batch->missing, 1, __ATOMIC_RELAXED);
    pgas_sync_add(batch->sync, 1);
    __atomic_store_n(&item->status, PGAS_INPROGRESS, __ATOMIC_SEQ_CST);
    pgas_status_t status = pgasi_kvs_send_one(batch, home, index, waits);
    if (status != PGAS_OK && pgasi_kvs_claim(item, status))
        pgasi_kvs_complete(batch, 1);
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
    if (!pgasi_kvs_claim(item, PGAS_OK))
        return false;
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
        pgas_status_t status = fetch_large(batch, home, reply->index);
        if (status != PGAS_OK) /* otherwise another thread may have completed it already */
            item->status = status;
        return status != PGAS_OK;
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
    const pgas_kvs_t *kvs = pgasi_kvs_of(head->kvs);
    int64_t n_complete = 0;
    (void)bytes;
    (void)context;
    if (!kvs || !pgasi_kvs_awaits(kvs, source))
        return;
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
    pgasi_deaths_add(end_for_dead);
}
