/* Endpoints: one per lane and peer that are really used, opened on first use. A peer that is found dead on one lane is
 * marked on all of them, reported once, and never tried again. */
#include "ucx_backend/ucx.h"

#include <stdlib.h>
#include <string.h>

/* True if it was marked already. */
static bool mark_dead(pgasi_ucx_t *tp, int peer)
{
    bool known = __atomic_exchange_n(&tp->dead[peer], 1, __ATOMIC_RELAXED) != 0;
    pthread_mutex_lock(&tp->lock);
    for (int i = 0; i < PGASI_UCX_LANES_MAX; i++) {
        pgasi_ucx_lane_t *lane = tp->lanes[i];
        pgasi_ucx_ep_t *ep = lane != NULL ? __atomic_load_n(&lane->eps[peer], __ATOMIC_ACQUIRE) : NULL;
        if (ep != NULL) {
            __atomic_store_n(&ep->dead, true, __ATOMIC_RELAXED);
        }
    }
    pthread_mutex_unlock(&tp->lock);
    return known;
}

void pgasi_ucx_peer_dead(pgasi_tp_t *tp, int peer)
{
    mark_dead(pgasi_ucx_of(tp), peer);
}

void pgasi_ucx_peer_gone(pgasi_ucx_t *tp, int peer, const char *why)
{
    bool known = mark_dead(tp, peer);
    if (known || __atomic_load_n(&tp->closing, __ATOMIC_RELAXED)) {
        return;
    }
    PGASI_WARN("ucx", "rank %d is gone (%s): operations to it end with PGAS_ERR_PEER", peer, why);
    if (tp->opts.error_fn != NULL) {
        tp->opts.error_fn(tp->opts.arg, peer, PGAS_ERR_PEER);
    }
}

static void on_error(void *arg, ucp_ep_h ucp_ep, ucs_status_t status)
{
    pgasi_ucx_ep_t *ep = arg;
    (void)ucp_ep;
    __atomic_store_n(&ep->dead, true, __ATOMIC_RELAXED);
    pgasi_ucx_peer_gone(ep->lane->tp, ep->peer, ucs_status_string(status));
    pgasi_ucx_fail_fetches(ep);
}

static pgas_status_t connect_ep(pgasi_ucx_ep_t *ep, const pgasi_ucx_address_t *address)
{
    ucp_ep_params_t params;
    memset(&params, 0, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = (const ucp_address_t *)(const void *)(address + 1);
    params.err_mode = ep->lane->tp->err_mode;
    params.err_handler.cb = on_error;
    params.err_handler.arg = ep;
    ucs_status_t status = ucp_ep_create(ep->lane->worker, &params, &ep->ep);
    if (status != UCS_OK) {
        char doing[64];
        snprintf(doing, sizeof(doing), "connecting lane %d to rank %d", ep->lane->index, ep->peer);
        return pgasi_ucx_failed(status, doing, "PGAS_UCX_TLS and PGAS_UCX_NET_DEVICES must leave a way to every rank");
    }
    return PGAS_OK;
}

/* The compact form of messages where our name fits. */
static void choose_prefix(pgasi_ucx_ep_t *ep, unsigned n_openings)
{
    const pgasi_ucx_t *tp = ep->lane->tp;
    uint32_t source = pgasi_ucx_source(tp->opts.rank, ep->lane->index, n_openings);
    uint32_t compact = (uint32_t)tp->opts.rank | source >> PGASI_UCX_RANK_BITS << tp->rank_bits;
    ep->am_compact = (uint64_t)(source >> PGASI_UCX_RANK_BITS) << tp->rank_bits < 1u << (32 - PGASI_UCX_NUMBER_BITS) &&
                     tp->rank_bits <= 32 - PGASI_UCX_NUMBER_BITS;
    ep->am_source = ep->am_compact ? compact << PGASI_UCX_NUMBER_BITS : source;
}

pgas_status_t pgasi_ucx_ep_open(pgasi_ucx_lane_t *lane, int peer, pgasi_ucx_ep_t **ep_p)
{
    pgasi_ucx_t *tp = lane->tp;
    if (tp->addr_of == NULL) {
        return PGAS_ERR_NOT_INIT;
    }
    if (__atomic_load_n(&tp->dead[peer], __ATOMIC_RELAXED) != 0) {
        return PGAS_ERR_PEER;
    }
    const pgasi_ucx_address_t *address = tp->addr_of(tp->addr_arg, peer);
    if (address == NULL || address->magic != PGASI_UCX_ADDRESS_MAGIC) {
        PGASI_ERROR("ucx", "rank %d gave an address that is not one of UCX: all ranks need the same transport", peer);
        return PGAS_ERR_MISMATCH;
    }
    pgasi_ucx_ep_t *ep = calloc(1, sizeof(*ep));
    if (ep == NULL) {
        return PGAS_ERR_NO_MEMORY;
    }
    ep->lane = lane;
    ep->peer = peer;
    ep->am_cookie = address->cookie;
    choose_prefix(ep, tp->n_openings[lane->index][peer]);
    pgas_status_t status = connect_ep(ep, address);
    if (status != PGAS_OK) {
        free(ep);
        return status;
    }
    ep->next = lane->all_eps;
    lane->all_eps = ep;
    __atomic_store_n(&lane->eps[peer], ep, __ATOMIC_RELEASE);
    if (__atomic_load_n(&tp->dead[peer], __ATOMIC_RELAXED) != 0) { /* it went while we connected */
        __atomic_store_n(&ep->dead, true, __ATOMIC_RELAXED);
    }
    *ep_p = ep;
    return PGAS_OK;
}

static void closed(void *request, ucs_status_t status, void *user_data)
{
    pgasi_ucx_ep_t *ep = user_data;
    (void)status;
    if (ep->close_request != NULL) { /* else it was given up */
        ep->close_request = NULL;
        ep->lane->n_closing--;
        ucp_request_free(request);
    }
}

static void begin_close(pgasi_ucx_ep_t *ep)
{
    /* An endpoint that was never used may not even be connected, and would wait for a peer that has left. */
    bool unused = !ep->used && ep->am_number == 0;
    bool force = ep->lane->tp->err_mode == UCP_ERR_HANDLING_MODE_PEER && (unused || ep->dead);
    ucp_request_param_t param;
    memset(&param, 0, sizeof(param));
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.cb.send = closed;
    param.user_data = ep;
    param.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    ucs_status_ptr_t ptr = ucp_ep_close_nbx(ep->ep, &param);
    if (UCS_PTR_IS_PTR(ptr)) {
        ep->close_request = ptr;
        ep->lane->n_closing++;
    }
}

void pgasi_ucx_eps_begin_close(pgasi_ucx_lane_t *lane)
{
    for (pgasi_ucx_ep_t *ep = lane->all_eps; ep != NULL; ep = ep->next) {
        begin_close(ep);
    }
}

void pgasi_ucx_eps_give_up(pgasi_ucx_lane_t *lane)
{
    for (pgasi_ucx_ep_t *ep = lane->all_eps; ep != NULL; ep = ep->next) {
        if (ep->close_request != NULL) { /* UCX wants its requests back before it destroys the worker */
            void *request = ep->close_request;
            ep->close_request = NULL;
            ucp_request_free(request);
        }
    }
}

void pgasi_ucx_eps_free(pgasi_ucx_lane_t *lane)
{
    for (pgasi_ucx_ep_t *ep = lane->all_eps, *next; ep != NULL; ep = next) {
        next = ep->next;
        lane->tp->n_openings[lane->index][ep->peer] += ep->am_number > 0;
        free(ep);
    }
    lane->all_eps = NULL;
}
