/* Memory and keys. Registered memory is in a table. Its name is the place and how often the place
 * was used, so atomic requests for released memory are refused. A packed key holds the device's
 * part, the name, and a checksum. Peers can map memory that the software NIC has allocated. Its
 * keys are still not `direct`, so that transfers pass through the queues. */
#include "verbs_backend/transport/inside.h"

#include <stdlib.h>
#include "base/hash.h"

typedef struct {
    uint32_t magic;
    uint32_t rkeys[PGASI_VERBS_RAILS_MAX];
    uint32_t name;
    uint16_t bytes; /* of the device's part, which follows */
    uint8_t nic_atomics, reserved;
    uint64_t base, length;
    uint64_t check; /* checksum of everything else */
} packed_key_t;

#define KEY_MAGIC  0x314b5650u
#define PLACE_BITS 16

static pgasi_verbs_mem_t *mem_of(pgasi_tp_mem_t *mem)
{
    return (pgasi_verbs_mem_t *)(void *)mem;
}

/* The caller holds tp->lock. @return the place, or -1 */
static int find_place(pgasi_verbs_tp_t *tp)
{
    for (uint32_t i = 0; i < tp->n_mems; i++)
        if (!tp->mems[i])
            return (int)i;
    uint32_t n = PGASI_MAX(2 * tp->n_mems, 16u);
    if (n > 1u << PLACE_BITS)
        return -1;
    pgasi_verbs_mem_t **mems = realloc(tp->mems, n * sizeof mems[0]);
    if (!mems)
        return -1;
    tp->mems = mems;
    uint16_t *uses = realloc(tp->mem_uses, n * sizeof uses[0]);
    if (!uses)
        return -1;
    tp->mem_uses = uses;
    memset(mems + tp->n_mems, 0, (n - tp->n_mems) * sizeof mems[0]);
    memset(uses + tp->n_mems, 0, (n - tp->n_mems) * sizeof uses[0]);
    uint32_t place = tp->n_mems;
    tp->n_mems = n;
    return (int)place;
}

static pgas_status_t enter(pgasi_verbs_tp_t *tp, pgasi_verbs_mem_t *mem)
{
    pthread_mutex_lock(&tp->lock);
    int place = find_place(tp);
    if (place >= 0) {
        tp->mems[place] = mem;
        mem->name = (uint32_t)place | (uint32_t)++tp->mem_uses[place] << PLACE_BITS;
        __atomic_store_n(&tp->mem_version, tp->mem_version + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&tp->lock);
    return place >= 0 ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

/* @param addr  NULL: the memory is allocated */
static pgas_status_t add_memory(pgasi_verbs_tp_t *tp, void *addr, size_t bytes,
                                pgasi_tp_mem_t **mem_p)
{
    pgasi_verbs_mem_t *mem = bytes > 0 ? calloc(1, sizeof *mem) : NULL;
    if (!mem)
        return bytes > 0 ? PGAS_ERR_NO_MEMORY : PGAS_ERR_INVALID;
    mem->allocated = !addr;
    pgas_status_t status =
        pgas_verbs_mem_register(tp->dev, addr, bytes, PGAS_VERBS_ACCESS_ALL, &mem->mems[0]);
    if (status == PGAS_OK)
        status = pgasi_verbs_mem_join_all(tp, mem->mems, PGAS_VERBS_ACCESS_ALL);
    if (status != PGAS_OK) {
        PGASI_ERROR(
            "verbs", "%s %zu bytes failed: %s; see %s", !addr ? "allocating" : "registering", bytes,
            pgas_status_text(status),
            !addr ? "PGAS_HEAP_SIZE, and the limits of memory and descriptors (ulimit -v, -l, -n)"
                  : "the limit of locked memory (ulimit -l)");
        pgasi_verbs_mem_leave(tp, mem->mems);
        free(mem);
        return status;
    }
    status = enter(tp, mem);
    if (status != PGAS_OK) {
        pgasi_verbs_mem_leave(tp, mem->mems);
        free(mem);
        return status;
    }
    *mem_p = (pgasi_tp_mem_t *)(void *)mem;
    return PGAS_OK;
}

pgas_status_t pgasi_verbs_tp_mem_alloc(pgasi_tp_t *tp, size_t bytes, pgasi_tp_mem_t **mem_p,
                                       void **addr_p)
{
    pgas_status_t status = add_memory(pgasi_verbs_tp_of(tp), NULL, bytes, mem_p);
    if (status == PGAS_OK)
        *addr_p = mem_of(*mem_p)->mems[0].addr;
    return status;
}

pgas_status_t pgasi_verbs_tp_mem_register(pgasi_tp_t *tp, void *addr, size_t bytes,
                                          pgasi_tp_mem_t **mem_p)
{
    return !addr ? PGAS_ERR_INVALID : add_memory(pgasi_verbs_tp_of(tp), addr, bytes, mem_p);
}

void pgasi_verbs_tp_mem_release(pgasi_tp_t *tp_base, pgasi_tp_mem_t *tp_mem)
{
    pgasi_verbs_tp_t *tp = pgasi_verbs_tp_of(tp_base);
    pgasi_verbs_mem_t *mem = mem_of(tp_mem);
    if (!mem)
        return;
    pthread_mutex_lock(&tp->lock);
    tp->mems[mem->name & ((1u << PLACE_BITS) - 1)] = NULL;
    __atomic_store_n(&tp->mem_version, tp->mem_version + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&tp->lock);
    pgasi_verbs_mem_leave(tp, mem->mems);
    free(mem);
}

static bool holds(const pgasi_verbs_mem_t *mem, uint64_t addr, uint64_t bytes)
{
    return mem && bytes <= mem->mems[0].bytes &&
           addr - (uint64_t)(uintptr_t)mem->mems[0].addr <= mem->mems[0].bytes - bytes;
}

bool pgasi_verbs_mem_has(const pgasi_verbs_tp_t *tp, uint32_t name, uint64_t addr, uint64_t bytes)
{
    uint32_t place = name & ((1u << PLACE_BITS) - 1);
    return place < tp->n_mems && tp->mems[place] && tp->mems[place]->name == name &&
           holds(tp->mems[place], addr, bytes);
}

uint32_t pgasi_verbs_lkey_of(pgasi_verbs_ctx_t *ctx, int rail, const void *addr, uint64_t bytes)
{
    pgasi_verbs_tp_t *tp = ctx->tp;
    const char *from = addr;
    uint32_t version = __atomic_load_n(&tp->mem_version, __ATOMIC_ACQUIRE);
    if (ctx->last_mem.version == version && from >= ctx->last_mem.from && from < ctx->last_mem.to &&
        bytes <= (uint64_t)(ctx->last_mem.to - from))
        return ctx->last_mem.lkeys[rail];
    uint32_t lkey = 0;
    pthread_mutex_lock(&tp->lock);
    for (uint32_t i = 0; i < tp->n_mems && lkey == 0; i++) {
        if (holds(tp->mems[i], (uint64_t)(uintptr_t)addr, bytes)) {
            const pgas_verbs_mem_t *mem = tp->mems[i]->mems;
            lkey = mem[rail].lkey;
            ctx->last_mem.from = mem->addr;
            ctx->last_mem.to = (const char *)mem->addr + mem->bytes;
            for (int k = 0; k < tp->n_rails; k++)
                ctx->last_mem.lkeys[k] = mem[k].lkey;
            ctx->last_mem.version = tp->mem_version;
        }
    }
    pthread_mutex_unlock(&tp->lock);
    return lkey;
}

static uint64_t key_check(const packed_key_t *key, const void *rest)
{
    packed_key_t copy = *key;
    copy.check = 0;
    return pgasi_hash_bytes(rest, key->bytes, pgasi_hash_bytes(&copy, sizeof copy, 0));
}

pgas_status_t pgasi_verbs_key_pack(pgasi_tp_t *tp_base, pgasi_tp_mem_t *tp_mem, void *buffer,
                                   size_t *bytes_io)
{
    const pgasi_verbs_tp_t *tp = pgasi_verbs_tp_of(tp_base);
    pgas_verbs_dev_t *dev = tp->dev;
    const pgasi_verbs_mem_t *mem = mem_of(tp_mem);
    unsigned char packed[PGASI_TP_KEY_MAX - sizeof(packed_key_t)];
    size_t packed_bytes = 0;
    if (mem->allocated && dev->ops->mem_pack) {
        packed_bytes = sizeof packed;
        pgas_status_t status = dev->ops->mem_pack(dev, &mem->mems[0], packed, &packed_bytes);
        if (status != PGAS_OK)
            return status;
    }
    if (*bytes_io < sizeof(packed_key_t) + packed_bytes)
        return PGAS_ERR_LIMIT;
    packed_key_t key;
    memset(&key, 0, sizeof key);
    key.magic = KEY_MAGIC;
    for (int i = 0; i < tp->n_rails; i++)
        key.rkeys[i] = mem->mems[i].rkey;
    key.name = mem->name;
    key.bytes = (uint16_t)packed_bytes;
    key.nic_atomics = mem->allocated && dev->limits.cpu_atomic;
    key.base = (uint64_t)(uintptr_t)mem->mems[0].addr;
    key.length = mem->mems[0].bytes;
    key.check = key_check(&key, packed);
    memcpy(buffer, &key, sizeof key);
    memcpy((char *)buffer + sizeof key, packed, packed_bytes);
    *bytes_io = sizeof key + packed_bytes;
    return PGAS_OK;
}

static bool is_key(const void *buffer, size_t bytes, packed_key_t *key_p)
{
    if (bytes < sizeof *key_p)
        return false;
    memcpy(key_p, buffer, sizeof *key_p);
    return key_p->magic == KEY_MAGIC && key_p->bytes <= bytes - sizeof *key_p &&
           key_p->check == key_check(key_p, (const char *)buffer + sizeof *key_p);
}

pgas_status_t pgasi_verbs_key_unpack(pgasi_tp_ctx_t *tp_ctx, int peer, const void *buffer,
                                     size_t bytes, pgasi_tp_key_t **key_p)
{
    pgasi_verbs_ctx_t *ctx = pgasi_verbs_ctx_of(tp_ctx);
    packed_key_t packed;
    if (peer < 0 || peer >= ctx->tp->opts.n_ranks)
        return PGAS_ERR_RANGE;
    if (!is_key(buffer, bytes, &packed)) {
        pgasi_warn_once(&ctx->tp->warned_key, "verbs",
                        "%zu bytes from rank %d are no key of this transport", bytes, peer);
        return PGAS_ERR_FORMAT;
    }
    pgasi_verbs_key_t *key = calloc(1, sizeof *key + packed.bytes);
    if (!key)
        return PGAS_ERR_NO_MEMORY;
    key->super.ops = &pgasi_verbs_table;
    key->ctx = ctx;
    key->tp = ctx->tp;
    key->peer = peer;
    memcpy(key->rkeys, packed.rkeys, sizeof key->rkeys);
    key->name = packed.name;
    key->nic_atomics = packed.nic_atomics;
    key->base = packed.base;
    key->bytes = packed.length;
    key->packed_bytes = packed.bytes;
    memcpy(key->packed, (const char *)buffer + sizeof packed, packed.bytes);
    *key_p = &key->super;
    return PGAS_OK;
}

pgas_status_t pgasi_verbs_key_map(pgasi_tp_key_t *tp_key, uint64_t remote_addr, void **addr_p)
{
    pgasi_verbs_key_t *key = pgasi_verbs_key_of(tp_key);
    pgas_verbs_dev_t *dev = key->tp->dev;
    if (remote_addr - key->base >= key->bytes)
        return PGAS_ERR_RANGE;
    if (!key->mapped && key->peer == key->tp->opts.rank)
        key->mapped = (void *)(uintptr_t)key->base;
    if (!key->mapped) {
        if (key->packed_bytes == 0 || !dev->ops->mem_map)
            return PGAS_ERR_UNSUPPORTED;
        pgas_status_t status = dev->ops->mem_map(dev, key->packed, key->packed_bytes, &key->mapped);
        if (status != PGAS_OK) {
            key->mapped = NULL;
            return status;
        }
    }
    *addr_p = (char *)key->mapped + (remote_addr - key->base);
    return PGAS_OK;
}

void pgasi_verbs_key_release(pgasi_tp_key_t *tp_key)
{
    pgasi_verbs_key_t *key = pgasi_verbs_key_of(tp_key);
    if (!key)
        return;
    pgas_verbs_dev_t *dev = key->tp->dev;
    if (key->mapped && key->peer != key->tp->opts.rank)
        dev->ops->mem_unmap(dev, key->packed, key->packed_bytes, key->mapped);
    free(key);
}
