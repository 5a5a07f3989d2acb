/* Keys of peers' segments: a context needs them to reach memory of another rank through the
 * transport. A context learns a key when it first reaches the segment, and keeps it until it is
 * closed. */
#include "mem/segment.h"

#include <stdlib.h>

#include "boot/hooks.h"

static pgasi_peer_key_t *find_key(const pgasi_ctx_t *ctx, int rank, uint64_t offset)
{
    pgasi_peer_key_t *entry = ctx->peer[rank].keys;
    while (entry && !(offset >= entry->offset && offset - entry->offset < entry->bytes))
        entry = entry->next;
    return entry;
}

/* Peers of the same host may have mapped each other's heaps although they are on different nodes:
 * fake nodes over shared memory. */
static void open_heap(pgasi_ctx_t *ctx, int rank, const pgasi_peer_key_t *entry)
{
    pgasi_ctx_peer_t *peer = &ctx->peer[rank];
    void *heap;
    if (!entry->key->direct ||
        entry->key->ops->key_map(entry->key, entry->address, &heap) != PGAS_OK)
        return;
    peer->heap = heap;
    ctx->has_direct = true;
    /* read without the lock of a shared context */
    __atomic_store_n(&peer->heap_bytes, entry->bytes, __ATOMIC_RELEASE);
}

pgas_status_t pgasi_key_learn(pgasi_ctx_t *ctx, int rank, const pgasi_segment_wire_t *wire)
{
    if (find_key(ctx, rank, wire->offset))
        return PGAS_OK;
    pgasi_peer_key_t *entry = calloc(1, sizeof *entry);
    if (!entry)
        return PGAS_ERR_NO_MEMORY;
    entry->offset = wire->offset;
    entry->bytes = wire->bytes;
    entry->address = wire->address;
    pgas_status_t status =
        ctx->tp->ops->key_unpack(ctx->tp, rank, wire->key, wire->key_bytes, &entry->key);
    if (status != PGAS_OK) {
        free(entry);
        return status;
    }
    pgasi_peer_key_t **tail = &ctx->peer[rank].keys;
    while (*tail && wire->offset != PGASI_HEAP_OFFSET)
        tail = &(*tail)->next;
    entry->next = *tail;
    *tail = entry;
    if (wire->offset == PGASI_HEAP_OFFSET)
        open_heap(ctx, rank, entry);
    return PGAS_OK;
}

pgas_status_t pgasi_heap_tail_of(const pgasi_ctx_t *ctx, int rank, pgasi_tp_key_t **key_p,
                                 uint64_t *address_p, char **mapped_p)
{
    const pgasi_ctx_peer_t *peer = &ctx->peer[rank];
    const pgasi_peer_key_t *entry = find_key(ctx, rank, PGASI_HEAP_OFFSET);
    if (!entry)
        return PGAS_ERR_NOT_FOUND;
    *key_p = entry->key;
    *address_p = entry->address + entry->bytes;
    *mapped_p = peer->heap_bytes ? peer->heap + entry->bytes : NULL;
    return PGAS_OK;
}

pgas_status_t pgasi_heap_reach(const pgasi_ctx_t *ctx, int rank, uint64_t offset, uint64_t bytes,
                               pgasi_tp_key_t **key_p, uint64_t *address_p)
{
    const pgasi_peer_key_t *entry = find_key(ctx, rank, PGASI_HEAP_OFFSET);
    uint64_t inside = offset - PGASI_HEAP_OFFSET;
    if (!entry)
        return PGAS_ERR_NOT_FOUND;
    if (inside > entry->bytes || bytes > entry->bytes - inside)
        return PGAS_ERR_RANGE;
    *key_p = entry->key;
    *address_p = entry->address + inside;
    return PGAS_OK;
}

/* The request uses the same context, so a shared context is unlocked meanwhile. Another thread may
 * learn the key first. */
static pgas_status_t key_fetch(pgasi_ctx_t *ctx, int rank, uint64_t offset,
                               pgasi_peer_key_t **entry_p)
{
    pgasi_segment_wire_t wire;
    pgasi_ctx_unlock(ctx);
    pgas_status_t status = pgasi_hooks.segment_ask(rank, offset, &wire);
    pgasi_ctx_lock(ctx);
    if (status == PGAS_OK)
        status = pgasi_key_learn(ctx, rank, &wire);
    if (status != PGAS_OK)
        return status;
    *entry_p = find_key(ctx, rank, offset);
    return *entry_p ? PGAS_OK : PGAS_ERR_RANGE;
}

pgas_status_t pgasi_key_get(pgasi_ctx_t *ctx, int rank, uint64_t offset, uint64_t bytes,
                            pgasi_tp_key_t **key_p, uint64_t *address_p)
{
    pgasi_peer_key_t *entry = find_key(ctx, rank, offset);
    if (PGAS_UNLIKELY(!entry)) {
        pgas_status_t status = key_fetch(ctx, rank, offset, &entry);
        if (status != PGAS_OK)
            return status;
    }
    uint64_t inside = offset - entry->offset;
    if (PGAS_UNLIKELY(inside > entry->bytes || bytes > entry->bytes - inside))
        return PGAS_ERR_RANGE;
    *key_p = entry->key;
    *address_p = entry->address + inside;
    return PGAS_OK;
}
