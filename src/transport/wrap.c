/* Entries that only pass a call on to the wrapped table; see wrap.h. */
#include "transport/wrap.h"

#include <stdlib.h>

void pgasi_wrap_query(pgasi_tp_t *tp, pgasi_tp_attr_t *attr_p)
{
    pgasi_tp_t *inner = pgasi_wrap_of(tp)->inner;
    inner->ops->query(inner, attr_p);
}

pgas_status_t pgasi_wrap_address(pgasi_tp_t *tp, const void **addr_p, size_t *bytes_p)
{
    pgasi_tp_t *inner = pgasi_wrap_of(tp)->inner;
    return inner->ops->address(inner, addr_p, bytes_p);
}

pgas_status_t pgasi_wrap_set_peers(pgasi_tp_t *tp, const void *(*addr_of)(void *arg, int rank),
                                   void *arg)
{
    pgasi_tp_t *inner = pgasi_wrap_of(tp)->inner;
    return inner->ops->set_peers(inner, addr_of, arg);
}

pgas_status_t pgasi_wrap_ctx_drain(pgasi_tp_ctx_t *ctx)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    return inner->ops->ctx_drain(inner);
}

pgas_status_t pgasi_wrap_mem_alloc(pgasi_tp_t *tp, size_t bytes, pgasi_tp_mem_t **mem_p,
                                   void **addr_p)
{
    pgasi_tp_t *inner = pgasi_wrap_of(tp)->inner;
    return inner->ops->mem_alloc(inner, bytes, mem_p, addr_p);
}

pgas_status_t pgasi_wrap_mem_register(pgasi_tp_t *tp, void *addr, size_t bytes,
                                      pgasi_tp_mem_t **mem_p)
{
    pgasi_tp_t *inner = pgasi_wrap_of(tp)->inner;
    return inner->ops->mem_register(inner, addr, bytes, mem_p);
}

void pgasi_wrap_mem_release(pgasi_tp_t *tp, pgasi_tp_mem_t *mem)
{
    pgasi_tp_t *inner = pgasi_wrap_of(tp)->inner;
    inner->ops->mem_release(inner, mem);
}

pgas_status_t pgasi_wrap_key_pack(pgasi_tp_t *tp, pgasi_tp_mem_t *mem, void *buffer,
                                  size_t *bytes_io)
{
    pgasi_tp_t *inner = pgasi_wrap_of(tp)->inner;
    return inner->ops->key_pack(inner, mem, buffer, bytes_io);
}

pgas_status_t pgasi_wrap_key_unpack(pgasi_tp_ctx_t *tp_ctx, int peer, const void *buffer,
                                    size_t bytes, pgasi_tp_key_t **key_p)
{
    pgasi_wrap_ctx_t *ctx = pgasi_wrap_ctx_of(tp_ctx);
    pgasi_wrap_key_t *key = malloc(sizeof *key);
    if (!key)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status =
        ctx->inner->ops->key_unpack(ctx->inner, peer, buffer, bytes, &key->inner);
    if (status != PGAS_OK) {
        free(key);
        return status;
    }
    key->super.ops = tp_ctx->ops;
    key->super.direct = false; /* because the wrapper must see operations that it changes */
    *key_p = &key->super;
    return PGAS_OK;
}

pgas_status_t pgasi_wrap_key_map(pgasi_tp_key_t *key, uint64_t remote_addr, void **addr_p)
{
    pgasi_tp_key_t *inner = pgasi_wrap_key(key);
    return inner->ops->key_map(inner, remote_addr, addr_p);
}

void pgasi_wrap_key_release(pgasi_tp_key_t *key)
{
    if (key) {
        pgasi_tp_key_t *inner = pgasi_wrap_key(key);
        inner->ops->key_release(inner);
        free(key);
    }
}

pgas_status_t pgasi_wrap_event_fd(pgasi_tp_ctx_t *ctx, int *fd_p)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    return inner->ops->event_fd(inner, fd_p);
}

pgas_status_t pgasi_wrap_arm(pgasi_tp_ctx_t *ctx)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    return inner->ops->arm(inner);
}

pgas_status_t pgasi_wrap_wake(pgasi_tp_ctx_t *ctx)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    return inner->ops->wake(inner);
}

uint32_t pgasi_wrap_am_arrived(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_comp_t *comp)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    return inner->ops->am_arrived(inner, peer, comp);
}

void pgasi_wrap_am_release(pgasi_tp_ctx_t *ctx, void *data)
{
    pgasi_tp_ctx_t *inner = pgasi_wrap_ctx_of(ctx)->inner;
    inner->ops->am_release(inner, data);
}

void pgasi_wrap_peer_dead(pgasi_tp_t *tp, int peer)
{
    pgasi_tp_t *inner = pgasi_wrap_of(tp)->inner;
    inner->ops->peer_dead(inner, peer);
}
