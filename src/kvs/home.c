/* Operations at a home of this node. They withdraw stamps that other nodes have, log changes, and
 * delete keys of a full part: expired ones, and with the option evict also others. */
#include "base/log.h"
#include "kvs/kvs.h"
#include "kvs/stamps.h"
#include "pgas/call.h"

pgas_status_t pgasi_kvs_may_wait(void)
{
    if (!pgasi_kvs_is_attached())
        return PGAS_ERR_CONTEXT;
    pgas_status_t status = pgas_thread_attach(); /* it nests; a plain handler may not call it */
    return status == PGAS_OK ? pgas_thread_detach() : status;
}

/* ---- waits for other homes ---- */

pgas_status_t pgasi_kvs_wait(const pgas_kvs_t *kvs, int home, pgas_sync_t *sync)
{
    pgas_status_t status;
    while ((status = pgas_sync_wait(sync, PGASI_KVS_LOOK_US)) == PGAS_ERR_TIMEOUT)
        if (__atomic_load_n(&kvs->lost[home], __ATOMIC_RELAXED))
            return PGAS_ERR_PEER;
    return status;
}

static bool is_home_lost(const pgas_kvs_t *kvs, int rank)
{
    for (int i = 0; i < kvs->n; i++)
        if (kvs->ranks[i] == rank)
            return __atomic_load_n(&kvs->lost[i], __ATOMIC_RELAXED);
    return true;
}

bool pgasi_kvs_awaits(const pgas_kvs_t *kvs, pgas_thread_t source)
{
    return PGAS_LIKELY(!__atomic_load_n(&kvs->broken, __ATOMIC_ACQUIRE)) ||
           !is_home_lost(kvs, pgas_thread_rank(source));
}

/* ---- writes ---- */

typedef struct {
    pgas_kvs_t *kvs;
    int home;
    bool may_wait;
    pgas_array_pin_t pin;
} writer_t;

static void begin(void *arg, uint32_t bucket)
{
    writer_t *w = (writer_t *)arg;
    if (w->kvs->stamps && w->may_wait)
        pgasi_stamps_pin(w->kvs->stamps, w->home, bucket, &w->pin);
}

static void end(void *arg, uint32_t bucket)
{
    writer_t *w = (writer_t *)arg;
    (void)bucket;
    if (w->kvs->stamps && w->may_wait)
        pgasi_stamps_unpin(&w->pin);
}

static pgas_status_t changes(void *arg, uint32_t bucket)
{
    writer_t *w = (writer_t *)arg;
    return w->kvs->stamps ? pgasi_stamps_change(w->kvs->stamps, w->home, bucket) : PGAS_OK;
}

static void changed(void *arg, const pgas_kvs_item_t *now, bool deleted)
{
    writer_t *w = (writer_t *)arg;
    if (w->kvs->durable)
        pgasi_kvs_log_change(w->kvs, now, deleted);
}

static pgasi_write_hooks_t hooks_of(writer_t *w)
{
    return (pgasi_write_hooks_t){
        .begin = begin, .end = end, .changes = changes, .changed = changed, .arg = w
    };
}

static void log_full(pgas_kvs_t *kvs, const pgasi_part_t *part)
{
    if (!__atomic_exchange_n(&kvs->full_logged, true, __ATOMIC_RELAXED))
        PGASI_WARN("kvs",
                   "a rank's part of %zu bytes is full: raise the option bytes, or ask for "
                   "eviction",
                   (size_t)part->bytes);
}

/* The bytes of a block that the write may need. ADD does not define value_bytes. */
static size_t wanted_bytes(const pgasi_key_t *key, const pgas_kvs_item_t *item)
{
    size_t value_bytes = item->op == PGAS_KVS_ADD ? sizeof(int64_t) : item->value_bytes;
    return pgasi_block_bytes(key->bytes, value_bytes, true);
}

/* @return PGAS_OK: the write may have success now */
static pgas_status_t make_room(const pgas_kvs_t *kvs, const pgasi_part_t *part, size_t bytes,
                               const pgasi_write_hooks_t *hooks)
{
    pgas_status_t status = pgasi_part_expire(part, bytes, hooks);
    if (status == PGAS_ERR_NO_MEMORY && kvs->evict && bytes <= part->bytes / 2)
        status = pgasi_part_evict(part, bytes, hooks);
    return status;
}

pgas_status_t pgasi_kvs_write(pgas_kvs_t *kvs, int home, const pgasi_key_t *key,
                              pgas_kvs_item_t *item, bool may_wait)
{
    const pgasi_part_t *part = &kvs->parts[home];
    writer_t w = { .kvs = kvs, .home = home, .may_wait = may_wait };
    pgasi_write_hooks_t hooks = hooks_of(&w);
    if (PGAS_UNLIKELY(__atomic_load_n(&kvs->broken, __ATOMIC_RELAXED)))
        return PGAS_ERR_PEER;
    for (;;) {
        pgas_status_t status = pgasi_part_write(part, key, item, &hooks);
        if (PGAS_LIKELY(status != PGAS_ERR_NO_MEMORY))
            return status;
        status = make_room(kvs, part, wanted_bytes(key, item), &hooks);
        if (status == PGAS_ERR_NO_MEMORY)
            log_full(kvs, part);
        if (status != PGAS_OK)
            return status;
    }
}

pgas_status_t pgasi_kvs_commit(pgas_kvs_t *kvs)
{
    return kvs->durable ? pgasi_kvs_log_sync(kvs) : PGAS_OK;
}

pgas_status_t pgasi_kvs_copy_chain(pgas_kvs_t *kvs, int home, uint32_t bucket, bool may_wait,
                                   pgasi_scratch_t *scratch)
{
    writer_t w = { .kvs = kvs, .home = home, .may_wait = may_wait };
    pgasi_write_hooks_t hooks = hooks_of(&w);
    return pgasi_part_copy(&kvs->parts[home], bucket, &hooks, scratch);
}

pgas_status_t pgasi_kvs_clear_chain(pgas_kvs_t *kvs, int home, uint32_t bucket)
{
    writer_t w = { .kvs = kvs, .home = home, .may_wait = true };
    pgasi_write_hooks_t hooks = hooks_of(&w);
    return pgasi_part_clear(&kvs->parts[home], bucket, &hooks);
}

pgas_status_t pgasi_kvs_expire_chain(pgas_kvs_t *kvs, int home, uint32_t bucket, bool may_wait)
{
    writer_t w = { .kvs = kvs, .home = home, .may_wait = may_wait };
    pgasi_write_hooks_t hooks = hooks_of(&w);
    size_t bytes = 0;
    return pgasi_part_expire_chain(&kvs->parts[home], bucket, &hooks, &bytes);
}
