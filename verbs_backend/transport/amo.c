/* Atomics. The card does additions and compare-and-swaps of 8 bytes, if it does them atomically
 * with the CPUs and the transport has allocated the owner's memory. All others are requests to the
 * owner's context 0. The owner replies in the order of the requests, by a write into a slot of the
 * requesting context. */
#include "verbs_backend/transport/inside.h"

#include "base/hash.h"

uint64_t pgasi_verbs_amo_reply_check(uint64_t result, uint32_t number, bool refused)
{
    return pgasi_hash_combine(pgasi_hash_u64(result + 1), (uint64_t)number << 1 | refused) | 1;
}

pgas_status_t pgasi_verbs_run_amo(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending)
{
    bool fetches = pending->u.amo.result != NULL;
    if (fetches && pending->slot == 0 && !pgasi_verbs_slot_take(ep->ctx, &pending->slot))
        return PGAS_ERR_AGAIN;
    pgas_verbs_span_t span = { (uint64_t)(uintptr_t)&ep->ctx->slots[pending->slot].result, 8,
                               ep->ctx->slot_mem[ep->rail].lkey };
    pgas_verbs_request_t request = { .op = pending->op == PGASI_AMO_ADD ? PGAS_VERBS_FADD
                                                                        : PGAS_VERBS_CSWAP,
                                     .flags = fetches ? PGAS_VERBS_SIGNAL : 0,
                                     .spans = &span,
                                     .n_spans = 1,
                                     .remote_addr = pending->remote_addr,
                                     .rkey = pending->rkey,
                                     .operand = pending->u.amo.operand,
                                     .compare = pending->u.amo.compare };
    pgas_status_t status = pgasi_verbs_post(ep, &request, NULL);
    pending->number = ep->posted;
    return status == PGAS_OK && fetches ? PGAS_INPROGRESS : status;
}

pgas_status_t pgasi_verbs_run_amo_request(pgasi_verbs_ep_t *ep, pgasi_verbs_pending_t *pending)
{
    struct {
        pgasi_verbs_prefix_t prefix;
        pgasi_verbs_amo_request_t request;
    } message;
    if (pending->slot == 0 && !pgasi_verbs_slot_take(ep->ctx, &pending->slot))
        return PGAS_ERR_AGAIN;
    bool compares = pending->op == PGASI_AMO_CSWAP;
    message.prefix = (pgasi_verbs_prefix_t){ .cookie = ep->cookie,
                                             .inbound = ep->inbound,
                                             .kind = PGASI_VERBS_ATOMIC,
                                             .header_bytes = (uint8_t)pending->bytes,
                                             .op = pending->op,
                                             .bytes = ep->ctx->last_amo_request + 1 };
    message.request = (pgasi_verbs_amo_request_t){ .addr = pending->remote_addr,
                                                   .operand = pending->u.amo.operand,
                                                   .mem = pending->name,
                                                   .slot = pending->slot,
                                                   .compare = pending->u.amo.compare };
    size_t bytes = compares ? sizeof message : sizeof message - sizeof message.request.compare;
    pgas_verbs_span_t span = { (uint64_t)(uintptr_t)&message, (uint32_t)bytes, 0 };
    pgas_verbs_request_t request = {
        .op = PGAS_VERBS_SEND, .flags = PGAS_VERBS_INLINE, .spans = &span, .n_spans = 1
    };
    pgas_status_t status = pgasi_verbs_post(ep, &request, NULL);
    if (status != PGAS_OK)
        return status;
    pending->number = ++ep->ctx->last_amo_request;
    return PGAS_INPROGRESS;
}

/* Replies arrive in the order of the requests, so only the oldest open request is checked. */
int pgasi_verbs_take_replies(pgasi_verbs_ep_t *ep)
{
    int n = 0;
    while (ep->requested.first) {
        pgasi_verbs_pending_t *pending = ep->requested.first;
        const pgasi_verbs_amo_reply_t *slot = &ep->ctx->slots[pending->slot];
        uint64_t check = __atomic_load_n(&slot->check, __ATOMIC_ACQUIRE);
        if (check == 0)
            break;
        uint64_t result = __atomic_load_n(&slot->result, __ATOMIC_ACQUIRE);
        bool is_there =
            check == pgasi_verbs_amo_reply_check(result, (uint32_t)pending->number, false);
        bool is_refused =
            !is_there &&
            check == pgasi_verbs_amo_reply_check(result, (uint32_t)pending->number, true);
        if (!is_there && !is_refused)
            break; /* a half of the reply */
        pgasi_verbs_queue_take(&ep->requested);
        ep->n_replied++;
        n++;
        pgasi_verbs_finish(ep, pending, is_refused ? PGAS_ERR_RANGE : PGAS_OK);
    }
    return n;
}

pgas_status_t pgasi_verbs_amo(pgasi_tp_ctx_t *tp_ctx, int peer, pgasi_tp_key_t *tp_key,
                              uint64_t remote_addr, pgasi_amo_t op, size_t bytes, uint64_t operand,
                              uint64_t compare, void *result, pgasi_tp_comp_t *comp)
{
    pgasi_verbs_ctx_t *ctx = pgasi_verbs_ctx_of(tp_ctx);
    const pgasi_verbs_key_t *key = pgasi_verbs_key_of(tp_key);
    pgasi_verbs_ep_t *ep;
    pgas_status_t status = pgasi_verbs_check(ctx, key, peer, remote_addr, bytes, &ep);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (!pgasi_amo_is_valid(op, bytes, remote_addr, result))
        return PGAS_ERR_INVALID;
    bool by_nic = key->nic_atomics && bytes == 8 && (op == PGASI_AMO_ADD || op == PGASI_AMO_CSWAP);
    pgasi_verbs_pending_t pending = {
        .kind = by_nic ? PGASI_VERBS_PENDING_AMO : PGASI_VERBS_PENDING_AMO_REQUEST,
        .comp = comp,
        .remote_addr = remote_addr,
        .rkey = key->rkeys[ep->rail],
        .bytes = bytes,
        .op = (uint8_t)op,
        .name = key->name,
        .u.amo = { .operand = operand, .compare = compare, .result = result }
    };
    return pgasi_verbs_submit(ep, &pending);
}
