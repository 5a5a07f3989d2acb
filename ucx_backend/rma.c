/* Put and get. Memory that a key maps is loaded and stored directly: UCX's shared-memory transports
 * do the same, but take 15 ns longer. Otherwise this file checks the key, calls UCX, and marks the
 * endpoint for the next flush. Sizes are size_t throughout. */
#include "ucx_backend/ucx.h"

static const ucp_request_param_t rma_param = {
    .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
    .cb.send = pgasi_ucx_op_done,
    .memory_type = UCS_MEMORY_TYPE_HOST,
};

void pgasi_ucx_op_done(void *request, ucs_status_t status, void *unused)
{
    pgasi_ucx_request_t *ours = request;
    pgasi_ucx_ctx_t *ctx = ours->ctx;
    pgasi_tp_comp_t *comp = ours->comp;
    (void)unused;
    ctx->n_pending--;
    pgasi_ucx_lib.ucp_request_free(request);
    pgasi_ucx_complete(ctx, comp, pgasi_ucx_status(status));
}

pgas_status_t pgasi_ucx_put(pgasi_tp_ctx_t *tp_ctx, int peer, pgasi_tp_key_t *tp_key,
                            uint64_t remote_addr, const void *src, size_t bytes,
                            pgasi_tp_comp_t *comp)
{
    pgasi_ucx_ctx_t *ctx = pgasi_ucx_ctx_of(tp_ctx);
    pgasi_ucx_key_t *key = pgasi_ucx_key_of(tp_key);
    pgas_status_t status = pgasi_ucx_check(ctx, key, peer, remote_addr, bytes);
    if (PGAS_UNLIKELY(status != PGAS_OK || bytes == 0))
        return status;
    if (key->mapped) {
        if (pgasi_ucx_must_wait(ctx))
            return PGAS_ERR_AGAIN;
        ctx->stored_directly = true;
        pgasi_ucx_copy((char *)key->mapped + (remote_addr - key->base), src, bytes);
        return PGAS_OK;
    }
    if (key->ep->journal.on)
        return pgasi_ucx_journal_put(key->ep, key, remote_addr, src, bytes, comp);
    pgasi_ucx_dirty(key->ep);
    return pgasi_ucx_posted(ctx,
                            pgasi_ucx_lib.ucp_put_nbx(key->ep->ep, src, bytes, remote_addr,
                                                      key->rkey, &rma_param),
                            comp);
}

pgas_status_t pgasi_ucx_get(pgasi_tp_ctx_t *tp_ctx, int peer, pgasi_tp_key_t *tp_key,
                            uint64_t remote_addr, void *dst, size_t bytes, pgasi_tp_comp_t *comp)
{
    pgasi_ucx_ctx_t *ctx = pgasi_ucx_ctx_of(tp_ctx);
    pgasi_ucx_key_t *key = pgasi_ucx_key_of(tp_key);
    pgas_status_t status = pgasi_ucx_check(ctx, key, peer, remote_addr, bytes);
    if (PGAS_UNLIKELY(status != PGAS_OK || bytes == 0))
        return status;
    if (key->mapped) {
        pgasi_ucx_copy(dst, (const char *)key->mapped + (remote_addr - key->base), bytes);
        return PGAS_OK;
    }
    key->ep->used = true;
    if (key->ep->journal.on)
        return pgasi_ucx_journal_get(key->ep, key, remote_addr, dst, bytes, comp);
    if (!comp)
        /* the operation has no completion, so only a flush reports its end */
        pgasi_ucx_dirty(key->ep);
    return pgasi_ucx_posted(ctx,
                            pgasi_ucx_lib.ucp_get_nbx(key->ep->ep, dst, bytes, remote_addr,
                                                      key->rkey, &rma_param),
                            comp);
}
