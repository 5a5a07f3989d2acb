/* Repairs connections that are lost although their peer is alive (journal.c). A lost endpoint is
 * closed and opened again, and all operations that have not arrived are repeated. */
#include "ucx_backend/journal.h"

#include "base/clock.h"

/* before the second attempt; doubled for each further one */
#define PAUSE_NS     UINT64_C(1000000)
#define PAUSE_MAX_NS UINT64_C(200000000)
/* the higher rank waits, because the lower one may reopen first */
#define TURN_NS       UINT64_C(20000000)
#define STRAGGLERS_NS PGASI_NS_PER_S /* for UCX to return the requests of a lost connection */
#define GIVE_UP_NS    (PGASI_UCX_GIVE_UP_S * PGASI_NS_PER_S)

/* Ends all issued operations with a status; the endpoint accepts no further ones. */
static void end_all(pgasi_ucx_ep_t *ep, pgas_status_t status)
{
    pgasi_ucx_journal_t *j = &ep->journal;
    pgasi_ucx_ctx_t *ctx = ep->ctx;
    j->link = PGASI_UCX_LINK_ENDED;
    pgasi_ucx_fail_fetches(ep, status);
    while (j->first) {
        pgasi_ucx_entry_t *entry = j->first;
        pgasi_tp_comp_t *comp = entry->comp;
        j->first = entry->next;
        pgasi_ucx_journal_end_entry(entry);
        pgasi_ucx_complete(ctx, comp, status);
    }
    j->last = &j->first;
    j->n_entries = 0;
    j->bytes = 0;
    while (j->gets) {
        pgasi_ucx_entry_t *entry = j->gets;
        pgasi_tp_comp_t *comp = entry->comp;
        pgasi_ucx_journal_unlink_get(entry);
        pgasi_ucx_journal_end_entry(entry);
        pgasi_ucx_complete(ctx, comp, status);
    }
    ep->dirty = false;
    pgasi_ucx_journal_end_marks(ep, UINT64_MAX, status);
    pgasi_ucx_deactivate_if_clean(ep);
}

/* Closes a lost endpoint. UCX returns its requests in later progress. */
static void close_lost(pgasi_ucx_ep_t *ep)
{
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                  .flags = UCP_EP_CLOSE_FLAG_FORCE };
    ucs_status_ptr_t ptr = ep->ep != NULL ? pgasi_ucx_lib.ucp_ep_close_nbx(ep->ep, &param) : NULL;
    if (UCS_PTR_IS_PTR(ptr))
        pgasi_ucx_lib.ucp_request_free(ptr);
    ep->ep = NULL;
}

/* Whether the entry is a put that must not be repeated, and that may have arrived. */
static bool is_spent(const pgasi_ucx_entry_t *entry)
{
    return entry->kind == PGASI_UCX_PUT && entry->issued && entry->comp && entry->comp->once;
}

/* Repeats one entry or get. */
static void repeat_one(pgasi_ucx_entry_t *entry)
{
    if (is_spent(entry)) {
        pgasi_tp_comp_t *comp = entry->comp;
        entry->comp = NULL;
        entry->bytes = 0;
        pgasi_ucx_complete(entry->ep->ctx, comp, PGAS_ERR_TRANSPORT);
        return;
    }
    bool lost_key = (entry->kind == PGASI_UCX_PUT || entry->kind == PGASI_UCX_GET) && !entry->key;
    if (entry->kind == PGASI_UCX_GET && lost_key)
        pgasi_ucx_journal_get_done(entry, PGAS_ERR_TRANSPORT);
    else if (entry->kind == PGASI_UCX_POST || lost_key)
        entry->ep->journal.doubtful = true;
    else if (pgasi_ucx_journal_issue(entry))
        pgasi_ucx_journal_get_done(entry, PGAS_OK);
}

/* Repeats all entries that have not arrived, and all gets, in the order of issue. The peer may
 * still read data of the lost connection out of its buffers. That data arrives before its own
 * repetition: the peer reads from both connections in turn, and both carry the same operations. */
static void repeat(pgasi_ucx_ep_t *ep)
{
    pgasi_ucx_journal_t *j = &ep->journal;
    pgasi_ucx_entry_t *entry = j->first, *get = j->gets;
    bool is_first = true;
    uint32_t fence = 0;
    while (pgasi_ucx_is_up(ep) && (entry || get)) {
        bool takes_get = get && (!entry || get->number < entry->number);
        pgasi_ucx_entry_t *at = takes_get ? get : entry;
        get = takes_get ? get->next : get;
        entry = takes_get ? entry : entry->next;
        if (!is_first && at->fence != fence)
            pgasi_ucx_lib.ucp_worker_fence(ep->ctx->worker);
        fence = at->fence;
        is_first = false;
        repeat_one(at);
    }
    j->asked = j->acked;
    pgasi_ucx_journal_want(ep, j->issued);
}

static bool unpack_keys(pgasi_ucx_ep_t *ep)
{
    for (pgasi_ucx_key_t *key = ep->journal.keys; key != NULL; key = key->next) {
        if (key->rkey) {
            pgasi_ucx_lib.ucp_rkey_destroy(key->rkey);
            key->rkey = NULL;
        }
        if (pgasi_ucx_lib.ucp_ep_rkey_unpack(ep->ep, key->packed, &key->rkey) != UCS_OK) {
            key->rkey = NULL;
            return false;
        }
    }
    return true;
}

static void reopen(pgasi_ucx_ep_t *ep, uint64_t now)
{
    pgasi_ucx_journal_t *j = &ep->journal;
    j->pause_ns = PGASI_MIN(PGASI_MAX(2 * j->pause_ns, PAUSE_NS), PAUSE_MAX_NS);
    j->retry_ns = now + j->pause_ns;
    ucs_status_t status = pgasi_ucx_connect(ep);
    if (status != UCS_OK) {
        ep->ep = NULL;
        return;
    }
    if (!unpack_keys(ep)) {
        close_lost(ep);
        return;
    }
    j->n_lost++;
    j->link = PGASI_UCX_LINK_UP;
    repeat(ep);
}

/* One repair step of an endpoint. @return whether it needs further steps */
static bool repair(pgasi_ucx_ep_t *ep)
{
    pgasi_ucx_journal_t *j = &ep->journal;
    pgasi_ucx_t *tp = ep->ctx->tp;
    if (pgasi_ucx_is_dead(ep)) {
        if (j->link != PGASI_UCX_LINK_ENDED)
            end_all(ep, PGAS_ERR_PEER);
        return false;
    }
    if (j->link == PGASI_UCX_LINK_UP) {
        pgasi_ucx_journal_retire(ep);
        return false;
    }
    if (j->link == PGASI_UCX_LINK_ENDED)
        return false;
    if (ep->ctx->phase != PGASI_UCX_OPEN && ep->ctx->phase != PGASI_UCX_DRAINING)
        return false;
    uint64_t now = pgasi_now_ns();
    if (j->link == PGASI_UCX_LINK_DOWN && now < j->retry_ns)
        return true;
    bool leaving = __atomic_load_n(&tp->closing, __ATOMIC_RELAXED);
    if (leaving || !tp->opts.suspect_fn || tp->opts.suspect_fn(tp->opts.arg, ep->peer)) {
        pgasi_ucx_peer_gone(tp, ep->peer, pgasi_ucx_lib.ucs_status_string(j->why));
        end_all(ep, PGAS_ERR_PEER);
        return false;
    }
    if (j->link == PGASI_UCX_LINK_LOST) {
        close_lost(ep);
        j->link = PGASI_UCX_LINK_DOWN;
        j->retry_ns = tp->opts.rank > ep->peer ? now + TURN_NS : now;
    }
    if (now - j->since_ns > GIVE_UP_NS) {
        pgasi_ucx_unreachable(ep);
        end_all(ep, PGAS_ERR_TRANSPORT);
        return false;
    }
    if (now >= j->retry_ns && (j->n_requests == 0 || now - j->since_ns > STRAGGLERS_NS))
        reopen(ep, now);
    return j->link != PGASI_UCX_LINK_UP;
}

int pgasi_ucx_repair(pgasi_ucx_ctx_t *ctx)
{
    bool again = false;
    __atomic_store_n(&ctx->repairs, 0, __ATOMIC_SEQ_CST);
    for (pgasi_ucx_ep_t *ep = ctx->all_eps; ep != NULL; ep = ep->next)
        again |= ep->journal.on && repair(ep);
    if (again)
        __atomic_store_n(&ctx->repairs, 1, __ATOMIC_RELAXED);
    return 1;
}
