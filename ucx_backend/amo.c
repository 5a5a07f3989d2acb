/* Atomics, done by CPUs: on a mapped word by instructions of this thread, otherwise
 * (ATOMIC_MODE=cpu, context.c) by the owner's service worker. So they are atomic with the owner's
 * own __atomic operations.
 *
 * UCX is not used for mapped words: it takes 15 ns more, and Debian's UCX 1.13.1 is miscompiled.
 * Its fetching and, or, xor on shared memory take the word itself as the operand
 * (uct_sm_ep_atomic64_fetch; the software path is right).
 *
 * When a peer dies, UCX 1.13 never completes fetching atomics that wait in its queues. Their
 * completion count starts at one, and ucp_request_send_state_ff does not finish them. So the
 * backend keeps a list of them and ends them itself.
 *
 * UCX 1.13 completes a non-fetching atomic at once and keeps no request that could be counted. To
 * bound UCX's queue the backend flushes after every PGASI_UCX_POSTS_MAX of them, and refuses more
 * while twice as many are unacknowledged. */
#include "ucx_backend/ucx.h"

static const ucp_atomic_op_t ucp_op[] = {
    [PGASI_AMO_ADD] = UCP_ATOMIC_OP_ADD,   [PGASI_AMO_AND] = UCP_ATOMIC_OP_AND,
    [PGASI_AMO_OR] = UCP_ATOMIC_OP_OR,     [PGASI_AMO_XOR] = UCP_ATOMIC_OP_XOR,
    [PGASI_AMO_SWAP] = UCP_ATOMIC_OP_SWAP, [PGASI_AMO_CSWAP] = UCP_ATOMIC_OP_CSWAP,
};

static void unlink_fetch(pgasi_ucx_request_t *request)
{
    *request->back = request->next;
    if (request->next)
        request->next->back = request->back;
    request->back = NULL;
}

static void link_fetch(pgasi_ucx_ep_t *ep, pgasi_ucx_request_t *request)
{
    request->extra = ep;
    request->n_lost = ep->journal.n_lost;
    request->next = ep->fetches;
    request->back = &ep->fetches;
    if (ep->fetches)
        ep->fetches->back = &request->next;
    ep->fetches = request;
}

static void fetch_done(void *request, ucs_status_t status, void *unused)
{
    pgasi_ucx_request_t *ours = request;
    if (!ours->back) { /* it was ended already */
        pgasi_ucx_lib.ucp_request_free(request);
        return;
    }
    pgasi_ucx_ep_t *ep = ours->extra;
    if (status != UCS_OK && ep->journal.on && ours->ctx->phase != PGASI_UCX_GIVEN_UP) {
        ours->extra = NULL; /* UCX has finished; the status depends on whether the peer has died */
        if (ours->n_lost == ep->journal.n_lost)
            pgasi_ucx_journal_lost(ep, status);
        return;
    }
    unlink_fetch(ours);
    pgasi_ucx_op_done(request, status, unused);
}

static void fail_fetch(pgasi_ucx_request_t *request, pgas_status_t status)
{
    pgasi_ucx_ctx_t *ctx = request->ctx;
    pgasi_tp_comp_t *comp = request->comp;
    unlink_fetch(request);
    ctx->n_pending--;
    if (!request->extra)
        pgasi_ucx_lib.ucp_request_free(request);
    pgasi_ucx_complete(ctx, comp, status);
}

void pgasi_ucx_fail_fetches(pgasi_ucx_ep_t *ep, pgas_status_t status)
{
    while (ep->fetches)
        fail_fetch(ep->fetches, status);
}

/* The list is in reverse order of issue. */
void pgasi_ucx_fail_old_fetches(pgasi_ucx_ep_t *ep, pgas_status_t status)
{
    pgasi_ucx_request_t **at = &ep->fetches;
    while (*at && (*at)->n_lost == ep->journal.n_lost)
        at = &(*at)->next;
    while (*at)
        fail_fetch(*at, status);
}

static void posts_flushed(pgasi_tp_comp_t *self, pgas_status_t status)
{
    pgasi_ucx_ep_t *ep = PGASI_CONTAINER_OF(self, pgasi_ucx_ep_t, posts_comp);
    (void)status;
    ep->posts_flushing = false;
}

static pgas_status_t bound_posts(pgasi_ucx_ep_t *ep)
{
    if (ep->posts_flushing)
        return ep->n_posts < 2 * PGASI_UCX_POSTS_MAX ? PGAS_OK : PGAS_ERR_AGAIN;
    ep->posts_comp.fn = posts_flushed;
    pgas_status_t status = pgasi_ucx_flush_peer(&ep->ctx->super, ep->peer, &ep->posts_comp);
    if (status < 0)
        return status;
    ep->posts_flushing = status == PGAS_INPROGRESS;
    ep->n_posts = 0;
    return PGAS_OK;
}

static pgas_status_t amo_remote(pgasi_ucx_ctx_t *ctx, pgasi_ucx_key_t *key, uint64_t remote_addr,
                                pgasi_amo_t op, size_t bytes, uint64_t operand, uint64_t compare,
                                void *result, pgasi_tp_comp_t *comp)
{
    pgasi_ucx_ep_t *ep = key->ep;
    ucp_request_param_t param;
    pgas_status_t status = ep->journal.on ? pgasi_ucx_journal_may_post(ep) : PGAS_OK;
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.send = fetch_done;
    param.datatype = ucp_dt_make_contig(bytes);
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    if (result) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.reply_buffer = result;
    } else if (!ep->journal.on && PGAS_UNLIKELY(++ep->n_posts >= PGASI_UCX_POSTS_MAX)) {
        pgas_status_t bounded = bound_posts(ep);
        if (bounded != PGAS_OK) {
            ep->n_posts--;
            return bounded;
        }
    }
    /* UCX takes the value to store from the reply buffer, and the value to compare as the
     * operand */
    if (op == PGASI_AMO_CSWAP) {
        memcpy(result, &operand, bytes);
        operand = compare;
    }
    ep->used = true;
    if (!result || !comp)
        pgasi_ucx_dirty(ep);
    ucs_status_ptr_t ptr = pgasi_ucx_lib.ucp_atomic_op_nbx(ep->ep, ucp_op[op], &operand, 1,
                                                           remote_addr, key->rkey, &param);
    if (ep->journal.on && !result)
        pgasi_ucx_journal_posted(ep);
    if (ep->journal.on && PGAS_UNLIKELY(UCS_PTR_IS_ERR(ptr))) {
        pgasi_ucx_journal_lost(ep, UCS_PTR_STATUS(ptr));
        return PGAS_ERR_TRANSPORT;
    }
    status = pgasi_ucx_posted(ctx, ptr, comp);
    if (status == PGAS_INPROGRESS)
        link_fetch(ep, ptr);
    return status;
}

pgas_status_t pgasi_ucx_amo(pgasi_tp_ctx_t *tp_ctx, int peer, pgasi_tp_key_t *tp_key,
                            uint64_t remote_addr, pgasi_amo_t op, size_t bytes, uint64_t operand,
                            uint64_t compare, void *result, pgasi_tp_comp_t *comp)
{
    pgasi_ucx_ctx_t *ctx = pgasi_ucx_ctx_of(tp_ctx);
    pgasi_ucx_key_t *key = pgasi_ucx_key_of(tp_key);
    pgas_status_t status = pgasi_ucx_check(ctx, key, peer, remote_addr, bytes);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (PGAS_UNLIKELY(!pgasi_amo_is_valid(op, bytes, remote_addr, result)))
        return PGAS_ERR_INVALID;
    if (key->mapped) {
        if (pgasi_ucx_must_wait(ctx))
            return PGAS_ERR_AGAIN;
        void *word = (char *)key->mapped + (remote_addr - key->base);
        pgasi_amo_store(result, bytes, pgasi_amo_apply(word, op, bytes, operand, compare));
        return PGAS_OK;
    }
    return amo_remote(ctx, key, remote_addr, op, bytes, operand, compare, result, comp);
}
