/* The table that refuses. Every transport starts from it, so that callers never meet a NULL
 * entry. */
#include "transport/transport.h"

static pgas_status_t no_open(const pgasi_tp_opts_t *opts, pgasi_tp_t **tp_p)
{
    (void)opts, (void)tp_p;
    return PGAS_ERR_UNSUPPORTED;
}

static void no_close(pgasi_tp_t *tp)
{
    (void)tp;
}

static void no_query(pgasi_tp_t *tp, pgasi_tp_attr_t *attr_p)
{
    (void)tp;
    *attr_p = (pgasi_tp_attr_t){ .name = "none" };
}

static pgas_status_t no_address(pgasi_tp_t *tp, const void **addr_p, size_t *bytes_p)
{
    (void)tp, (void)addr_p, (void)bytes_p;
    return PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t no_set_peers(pgasi_tp_t *tp, const void *(*addr_of)(void *arg, int rank),
                                  void *arg)
{
    (void)tp, (void)addr_of, (void)arg;
    return PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t no_ctx_open(pgasi_tp_t *tp, int index, pgasi_tp_ctx_t **ctx_p)
{
    (void)tp, (void)index, (void)ctx_p;
    return PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t no_ctx_drain(pgasi_tp_ctx_t *ctx)
{
    (void)ctx;
    return PGAS_ERR_UNSUPPORTED;
}

static void no_ctx_close(pgasi_tp_ctx_t *ctx)
{
    (void)ctx;
}

static pgas_status_t no_mem_alloc(pgasi_tp_t *tp, size_t bytes, pgasi_tp_mem_t **mem_p,
                                  void **addr_p)
{
    (void)tp, (void)bytes, (void)mem_p, (void)addr_p;
    return PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t no_mem_register(pgasi_tp_t *tp, void *addr, size_t bytes,
                                     pgasi_tp_mem_t **mem_p)
{
    (void)tp, (void)addr, (void)bytes, (void)mem_p;
    return PGAS_ERR_UNSUPPORTED;
}

static void no_mem_release(pgasi_tp_t *tp, pgasi_tp_mem_t *mem)
{
    (void)tp, (void)mem;
}

static pgas_status_t no_key_pack(pgasi_tp_t *tp, pgasi_tp_mem_t *mem, void *buffer,
                                 size_t *bytes_io)
{
    (void)tp, (void)mem, (void)buffer, (void)bytes_io;
    return PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t no_key_unpack(pgasi_tp_ctx_t *ctx, int peer, const void *buffer, size_t bytes,
                                   pgasi_tp_key_t **key_p)
{
    (void)ctx, (void)peer, (void)buffer, (void)bytes, (void)key_p;
    return PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t no_key_map(pgasi_tp_key_t *key, uint64_t remote_addr, void **addr_p)
{
    (void)key, (void)remote_addr, (void)addr_p;
    return PGAS_ERR_UNSUPPORTED;
}

static void no_key_release(pgasi_tp_key_t *key)
{
    (void)key;
}

static pgas_status_t no_put(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                            uint64_t remote_addr, const void *src, size_t bytes,
                            pgasi_tp_comp_t *comp)
{
    (void)ctx, (void)peer, (void)key, (void)remote_addr, (void)src, (void)bytes, (void)comp;
    return PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t no_get(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                            uint64_t remote_addr, void *dst, size_t bytes, pgasi_tp_comp_t *comp)
{
    (void)ctx, (void)peer, (void)key, (void)remote_addr, (void)dst, (void)bytes, (void)comp;
    return PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t no_amo(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                            uint64_t remote_addr, pgasi_amo_t op, size_t bytes, uint64_t operand,
                            uint64_t compare, void *result, pgasi_tp_comp_t *comp)
{
    (void)ctx, (void)peer, (void)key, (void)remote_addr, (void)op, (void)bytes, (void)operand,
        (void)compare;
    (void)result, (void)comp;
    return PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t no_am(pgasi_tp_ctx_t *ctx, int peer, const void *header, size_t header_bytes,
                           const void *data, size_t bytes, pgasi_tp_comp_t *comp)
{
    (void)ctx, (void)peer, (void)header, (void)header_bytes, (void)data, (void)bytes, (void)comp;
    return PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t no_fence(pgasi_tp_ctx_t *ctx)
{
    (void)ctx;
    return PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t no_flush(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_comp_t *comp)
{
    (void)ctx, (void)peer, (void)comp;
    return PGAS_ERR_UNSUPPORTED;
}

static int no_progress(pgasi_tp_ctx_t *ctx)
{
    (void)ctx;
    return 0;
}

static pgas_status_t no_event_fd(pgasi_tp_ctx_t *ctx, int *fd_p)
{
    (void)ctx, (void)fd_p;
    return PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t no_ctx_operation(pgasi_tp_ctx_t *ctx)
{
    (void)ctx;
    return PGAS_ERR_UNSUPPORTED;
}

static uint32_t no_am_arrived(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_comp_t *comp)
{
    (void)ctx;
    (void)peer;
    (void)comp;
    return 0;
}

static void no_am_release(pgasi_tp_ctx_t *ctx, void *data)
{
    (void)ctx, (void)data;
}

static void no_peer_dead(pgasi_tp_t *tp, int peer)
{
    (void)tp, (void)peer;
}

const pgasi_tp_ops_t pgasi_tp_refusals = {
    .open = no_open,
    .close = no_close,
    .query = no_query,
    .address = no_address,
    .set_peers = no_set_peers,
    .ctx_open = no_ctx_open,
    .ctx_drain = no_ctx_drain,
    .ctx_close = no_ctx_close,
    .mem_alloc = no_mem_alloc,
    .mem_register = no_mem_register,
    .mem_release = no_mem_release,
    .key_pack = no_key_pack,
    .key_unpack = no_key_unpack,
    .key_map = no_key_map,
    .key_release = no_key_release,
    .put = no_put,
    .get = no_get,
    .amo = no_amo,
    .am = no_am,
    .fence = no_fence,
    .flush = no_flush,
    .progress = no_progress,
    .event_fd = no_event_fd,
    .arm = no_ctx_operation,
    .wake = no_ctx_operation,
    .am_arrived = no_am_arrived,
    .am_release = no_am_release,
    .peer_dead = no_peer_dead,
};
