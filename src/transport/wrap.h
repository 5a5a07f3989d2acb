/** The common part of wrappers around an ops table: instances, contexts and keys that hold the
 *  wrapped ones, and entries that only pass a call on. A wrapper embeds these structs first in its
 *  own and overrides some entries.
 *
 *  A table's open() gets no pointer to the table that it wraps. So a wrapper stores the pointer in
 *  a static variable between wrap and open. Therefore one thread must wrap and then open. */
#ifndef PGASI_TRANSPORT_WRAP_H
#define PGASI_TRANSPORT_WRAP_H

#include "transport/transport.h"

typedef struct {
    pgasi_tp_t super;
    pgasi_tp_t *inner;
} pgasi_wrap_t;

typedef struct {
    pgasi_tp_ctx_t super;
    pgasi_wrap_t *tp;
    pgasi_tp_ctx_t *inner;
} pgasi_wrap_ctx_t;

typedef struct {
    pgasi_tp_key_t super;
    pgasi_tp_key_t *inner;
} pgasi_wrap_key_t;

static inline pgasi_wrap_t *pgasi_wrap_of(pgasi_tp_t *tp)
{
    return (pgasi_wrap_t *)(void *)tp;
}
static inline pgasi_wrap_ctx_t *pgasi_wrap_ctx_of(pgasi_tp_ctx_t *ctx)
{
    return (pgasi_wrap_ctx_t *)(void *)ctx;
}
static inline pgasi_tp_key_t *pgasi_wrap_key(pgasi_tp_key_t *key)
{
    return ((pgasi_wrap_key_t *)(void *)key)->inner;
}

void pgasi_wrap_query(pgasi_tp_t *tp, pgasi_tp_attr_t *attr_p);
pgas_status_t pgasi_wrap_address(pgasi_tp_t *tp, const void **addr_p, size_t *bytes_p);
pgas_status_t pgasi_wrap_set_peers(pgasi_tp_t *tp, const void *(*addr_of)(void *arg, int rank),
                                   void *arg);
pgas_status_t pgasi_wrap_ctx_drain(pgasi_tp_ctx_t *ctx);
pgas_status_t pgasi_wrap_mem_alloc(pgasi_tp_t *tp, size_t bytes, pgasi_tp_mem_t **mem_p,
                                   void **addr_p);
pgas_status_t pgasi_wrap_mem_register(pgasi_tp_t *tp, void *addr, size_t bytes,
                                      pgasi_tp_mem_t **mem_p);
void pgasi_wrap_mem_release(pgasi_tp_t *tp, pgasi_tp_mem_t *mem);
pgas_status_t pgasi_wrap_key_pack(pgasi_tp_t *tp, pgasi_tp_mem_t *mem, void *buffer,
                                  size_t *bytes_io);
pgas_status_t pgasi_wrap_key_unpack(pgasi_tp_ctx_t *ctx, int peer, const void *buffer, size_t bytes,
                                    pgasi_tp_key_t **key_p);
pgas_status_t pgasi_wrap_key_map(pgasi_tp_key_t *key, uint64_t remote_addr, void **addr_p);
void pgasi_wrap_key_release(pgasi_tp_key_t *key);
pgas_status_t pgasi_wrap_event_fd(pgasi_tp_ctx_t *ctx, int *fd_p);
pgas_status_t pgasi_wrap_arm(pgasi_tp_ctx_t *ctx);
pgas_status_t pgasi_wrap_wake(pgasi_tp_ctx_t *ctx);
uint32_t pgasi_wrap_am_arrived(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_comp_t *comp);
void pgasi_wrap_am_release(pgasi_tp_ctx_t *ctx, void *data);
void pgasi_wrap_peer_dead(pgasi_tp_t *tp, int peer);

#endif
