/* The home's side: requests of other nodes.
 *
 * The plain handler carries out what needs no wait. A write to a bucket whose stamp other nodes
 * have must wait until it is withdrawn. Its reply says so (PGAS_ERR_AGAIN), and the caller sends
 * the item to the handler that may wait. */
#include <stdlib.h>
#include "kvs/message.h"
#include "kvs/part_read.h"
#include "kvs/stamps.h"

#define READS   8  /* attempts to read a value and its stamp together */
#define AT_ONCE 16 /* items of a request whose misses of the processor's caches overlap */

pgas_handler_t pgasi_kvs_request_handler, pgasi_kvs_waiting_handler, pgasi_kvs_large_handler;

typedef struct {
    pgas_kvs_t *kvs;
    int home, caller;
    bool may_wait;
    bool wrote;        /* the reply has results of writes that are not durable yet */
    size_t bytes, max; /* of the reply */
    char reply[PGASI_KVS_MESSAGE_MAX] PGASI_ALIGNED(8);
} serving_t;

/* Makes the writes of a reply durable, all at once. */
static void commit(serving_t *s)
{
    pgas_status_t status = s->wrote ? pgasi_kvs_commit(s->kvs) : PGAS_OK;
    s->wrote = false;
    if (status == PGAS_OK)
        return;
    const pgasi_reply_t *head = (const pgasi_reply_t *)(const void *)s->reply;
    char *at = s->reply + sizeof *head;
    for (uint32_t i = 0; i < head->n; i++) {
        pgasi_reply_item_t *item = (pgasi_reply_item_t *)(void *)at;
        if (item->is_write && item->status == PGAS_OK)
            item->status = status;
        at += sizeof *item + (item->has_value ? PGASI_ALIGN_UP((size_t)item->value_bytes, 8) : 0);
    }
}

/* Without a reply the caller would wait for ever, so the job ends instead. */
static void send_reply(serving_t *s)
{
    const pgasi_reply_t *head = (const pgasi_reply_t *)(const void *)s->reply;
    if (head->n == 0)
        return;
    commit(s);
    pgas_status_t status = pgas_call(s->caller, pgasi_kvs_reply_handler, s->reply, s->bytes, NULL);
    if (status == PGAS_ERR_AGAIN || status == PGAS_ERR_NO_MEMORY)
        pgas_abort(1, "pgas_kvs: no room for a reply; raise PGAS_BACKLOG_LIMIT");
    s->bytes = sizeof(pgasi_reply_t);
    ((pgasi_reply_t *)(void *)s->reply)->n = 0;
}

/* Makes room for one more item. A full reply is sent first. */
static pgasi_reply_item_t *next_item(serving_t *s, uint32_t index)
{
    if (s->bytes + sizeof(pgasi_reply_item_t) > s->max)
        send_reply(s);
    pgasi_reply_item_t *reply = (pgasi_reply_item_t *)(void *)(s->reply + s->bytes);
    memset(reply, 0, sizeof *reply);
    reply->index = index;
    return reply;
}

static void end_item(serving_t *s, const pgasi_reply_item_t *reply)
{
    s->bytes += sizeof *reply;
    if (reply->has_value)
        s->bytes += PGASI_ALIGN_UP((size_t)reply->value_bytes, 8);
    ((pgasi_reply_t *)(void *)s->reply)->n++;
}

/* One item of a request. */
typedef struct {
    const pgasi_request_item_t *wire;
    void *value;
    pgasi_key_t key;
    pgasi_seen_t seen;
} arrived_t;

/* Reads a value and a stamp that belong together. A writer holds the bucket while it changes the
 * stamp and the value, and the read fails if a writer was there after `seen`. */
static bool read_fast(const serving_t *s, const arrived_t *arrived, pgas_kvs_item_t *item,
                      pgasi_reply_item_t *reply)
{
    const pgasi_part_t *part = &s->kvs->parts[s->home];
    const pgasi_key_t *key = &arrived->key;
    bool has = pgasi_stamps_read(s->kvs->stamps, s->home, key->bucket, &reply->stamp);
    bool done = pgasi_part_read(part, key, &arrived->seen, item->value, item->capacity,
                                &item->value_bytes, &item->version);
    reply->has_stamp = has && done;
    item->expires_ms = 0;
    return done;
}

/* The same for any key: the stamp is read before and after the value. A stamp that has not changed
 * in between is that of the value, because it changes first. */
static pgas_status_t read_stamped(const serving_t *s, const arrived_t *arrived,
                                  pgas_kvs_item_t *item, pgasi_reply_item_t *reply)
{
    const pgasi_part_t *part = &s->kvs->parts[s->home];
    const pgasi_key_t *key = &arrived->key;
    uint64_t before = 0, after = 0;
    pgas_status_t status = PGAS_OK;
    if (read_fast(s, arrived, item, reply))
        return PGAS_OK;
    for (int i = 0; i < READS; i++) {
        bool has = pgasi_stamps_read(s->kvs->stamps, s->home, key->bucket, &before);
        status = pgasi_part_get_item(part, key, item);
        reply->has_stamp = has && pgasi_stamps_read(s->kvs->stamps, s->home, key->bucket, &after) &&
                           before == after;
        if (!has || reply->has_stamp)
            break;
    }
    reply->stamp = before;
    return status;
}

static void do_get(serving_t *s, const arrived_t *arrived, pgas_kvs_item_t *item)
{
    const pgasi_request_item_t *wire = arrived->wire;
    pgasi_reply_item_t *reply = next_item(s, wire->index);
    size_t wanted = wire->capacity, room;
    for (;;) {
        room = s->max - s->bytes - sizeof *reply;
        item->value = reply + 1;
        item->capacity = PGASI_MIN(wanted, room & ~(size_t)7);
        reply->status = read_stamped(s, arrived, item, reply);
        bool is_first = s->bytes == sizeof(pgasi_reply_t);
        if (reply->status != PGAS_ERR_RANGE || item->value_bytes > wanted || is_first)
            break;
        send_reply(s); /* the value may fit into the next message */
        reply = next_item(s, wire->index);
    }
    reply->version = item->version;
    reply->expires_ms = item->expires_ms;
    reply->value_bytes = (uint32_t)item->value_bytes;
    reply->has_value = reply->status == PGAS_OK;
    if (reply->status == PGAS_ERR_RANGE && item->value_bytes <= wanted)
        reply->status = __atomic_exchange_n(&s->kvs->no_memory, false, __ATOMIC_RELAXED)
                            ? PGAS_ERR_NO_MEMORY
                            : PGAS_INPROGRESS;
    end_item(s, reply);
}

static void do_write(serving_t *s, const arrived_t *arrived, pgas_kvs_item_t *item)
{
    const pgasi_request_item_t *wire = arrived->wire;
    int64_t number;
    if (item->op == PGAS_KVS_ADD) {
        memcpy(&number, item->value, sizeof number);
        item->value = &number;
    }
    pgas_status_t status = pgasi_kvs_write(s->kvs, s->home, &arrived->key, item, s->may_wait);
    if (s->bytes + sizeof(pgasi_reply_item_t) + sizeof number > s->max)
        send_reply(s);
    pgasi_reply_item_t *reply = next_item(s, wire->index);
    s->wrote |= status == PGAS_OK;
    reply->is_write = true;
    reply->status = status;
    reply->version = item->version;
    reply->has_value = item->op == PGAS_KVS_ADD && status == PGAS_OK;
    if (reply->has_value) {
        reply->value_bytes = sizeof number;
        memcpy(reply + 1, &number, sizeof number);
    }
    end_item(s, reply);
}

static void do_item(serving_t *s, const arrived_t *arrived)
{
    const pgasi_request_item_t *wire = arrived->wire;
    pgas_kvs_item_t item = { .key = arrived->key.key,
                             .key_bytes = wire->key_bytes,
                             .value = arrived->value,
                             .value_bytes = wire->value_bytes,
                             .version = wire->version,
                             .expires_ms = wire->expires_ms,
                             .op = (pgas_kvs_op_t)wire->op,
                             .condition = (pgas_kvs_condition_t)wire->condition,
                             .keep_expiry = wire->keep_expiry };
    if (item.op == PGAS_KVS_GET)
        do_get(s, arrived, &item);
    else
        do_write(s, arrived, &item);
}

/* Finds the next item of a request, whose key and value are behind it or in buffers. */
static const char *next_arrived(const serving_t *s, const char *at, arrived_t *arrived)
{
    const pgasi_request_item_t *wire = (const pgasi_request_item_t *)(const void *)at;
    void *key = NULL, *value = NULL;
    size_t bytes;
    at += sizeof *wire;
    if (pgas_buffer_count() > 0) {
        (void)pgas_buffer_get(0, &key, &bytes);
        (void)pgas_buffer_get(1, &value, &bytes);
    } else {
        key = (void *)(uintptr_t)at;
        at += PGASI_ALIGN_UP((size_t)wire->key_bytes, 8);
        value = (void *)(uintptr_t)at;
        at += PGASI_ALIGN_UP((size_t)wire->value_bytes, 8);
    }
    arrived->wire = wire;
    arrived->value = value;
    pgasi_kvs_key(s->kvs, key, wire->key_bytes, &arrived->key);
    pgasi_part_prefetch_bucket(&s->kvs->parts[s->home], &arrived->key);
    return at;
}

static bool begin(serving_t *s, const pgasi_request_t *head, pgas_thread_t source, bool may_wait)
{
    s->kvs = pgasi_kvs_of(head->kvs);
    s->home = (int)head->home;
    s->caller = pgas_thread_rank(source);
    s->may_wait = may_wait;
    s->wrote = false;
    s->max = pgasi_kvs_message_max();
    s->bytes = sizeof(pgasi_reply_t);
    pgasi_reply_t reply = { .kvs = head->kvs, .batch = head->batch };
    memcpy(s->reply, &reply, sizeof reply);
    return s->kvs != NULL;
}

/* This rank noticed a death earlier than the caller, and has ended the store. Without a death all
 * ranks end a store together. */
static void refuse(serving_t *s, const pgasi_request_t *head)
{
    const char *at = (const char *)(head + 1);
    bool in_buffers = pgas_buffer_count() > 0;
    for (uint32_t i = 0; i < head->n; i++) {
        const pgasi_request_item_t *wire = (const pgasi_request_item_t *)(const void *)at;
        pgasi_reply_item_t *reply = next_item(s, wire->index);
        reply->status = PGAS_ERR_PEER;
        end_item(s, reply);
        at += sizeof *wire;
        if (!in_buffers)
            at += PGASI_ALIGN_UP((size_t)wire->key_bytes, 8) +
                  PGASI_ALIGN_UP((size_t)wire->value_bytes, 8);
    }
    send_reply(s);
}

static void serve(const void *args, pgas_thread_t source, bool may_wait)
{
    const pgasi_request_t *head = (const pgasi_request_t *)args;
    serving_t s;
    if (!begin(&s, head, source, may_wait)) {
        refuse(&s, head);
        return;
    }
    const char *at = (const char *)(head + 1);
    const pgasi_part_t *part = &s.kvs->parts[s.home];
    arrived_t arrived[AT_ONCE];
    for (uint32_t done = 0, n; done < head->n; done += n) {
        n = PGASI_MIN(head->n - done, AT_ONCE);
        for (uint32_t i = 0; i < n; i++)
            at = next_arrived(&s, at, &arrived[i]);
        for (uint32_t i = 0; i < n; i++) {
            arrived[i].seen = pgasi_part_see(part, &arrived[i].key);
            pgasi_part_fetch(part, &arrived[i].seen);
        }
        for (uint32_t i = 0; i < n; i++)
            do_item(&s, &arrived[i]);
    }
    send_reply(&s);
}

static void serve_plain(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes;
    (void)context;
    serve(args, source, false);
}

static void serve_waiting(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes;
    (void)context;
    serve(args, source, true);
}

/* A value that is larger than a message. Without a result the caller gets PGAS_ERR_MISMATCH, and
 * asks again by a message, whose answer says so if there is no memory for the value here. The
 * handler may wait, so that a thread of the library sends the pieces. A thread of the program might
 * leave the library before there is room for all of them. */
static void serve_large(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    const pgasi_request_t *head = (const pgasi_request_t *)args;
    const pgasi_request_item_t *wire = (const pgasi_request_item_t *)(const void *)(head + 1);
    pgas_kvs_t *kvs = pgasi_kvs_of(head->kvs);
    void *key, *value = malloc(wire->capacity);
    size_t key_bytes;
    (void)bytes;
    (void)source;
    (void)context;
    pgas_status_t status = value ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    if (kvs && value && pgas_buffer_get(0, &key, &key_bytes) == PGAS_OK) {
        pgasi_key_t k;
        pgasi_kvs_key(kvs, key, key_bytes, &k);
        pgas_kvs_item_t item = {
            .key = key, .key_bytes = key_bytes, .value = value, .capacity = wire->capacity
        };
        if (pgasi_part_get_item(&kvs->parts[head->home], &k, &item) == PGAS_OK &&
            item.version == wire->version && item.value_bytes == wire->capacity)
            status = pgas_reply(value, wire->capacity);
    }
    if (kvs && status == PGAS_ERR_NO_MEMORY)
        __atomic_store_n(&kvs->no_memory, true, __ATOMIC_RELAXED);
    free(value);
}

static __attribute__((constructor)) void register_serving(void)
{
    pgas_handler_opts_t blocks = PGAS_HANDLER_OPTS_INIT;
    blocks.blocks = true;
    (void)pgas_handler_register("pgas_kvs_request", serve_plain, NULL, NULL,
                                &pgasi_kvs_request_handler);
    (void)pgas_handler_register("pgas_kvs_waiting", serve_waiting, NULL, &blocks,
                                &pgasi_kvs_waiting_handler);
    (void)pgas_handler_register("pgas_kvs_large", serve_large, NULL, &blocks,
                                &pgasi_kvs_large_handler);
}
