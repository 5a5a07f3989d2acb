/* Endpoints: one for each context and peer that are used, opened on first use. A peer that is found
 * dead on one context is marked on all of them, reported once, and never tried again. */
#include "ucx_backend/ucx.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/log.h"

#define FILES_OF_CONNECTION 3 /* over TCP: one per direction, and one of the service context */
#define FILES_SPARED        8 /* for connections of peers that arrive at the same time */

/* @return whether it was marked already */
static bool mark_dead(pgasi_ucx_t *tp, int peer)
{
    bool known = (__atomic_fetch_or(&tp->dead[peer], PGASI_UCX_DEAD, __ATOMIC_RELAXED) &
                  PGASI_UCX_DEAD) != 0;
    pthread_mutex_lock(&tp->lock);
    for (int i = 0; i < PGASI_UCX_CTXS_MAX; i++) {
        pgasi_ucx_ctx_t *ctx = tp->ctxs[i];
        pgasi_ucx_ep_t *ep =
            ctx != NULL ? __atomic_load_n(&ctx->eps[peer], __ATOMIC_ACQUIRE) : NULL;
        if (ep) {
            __atomic_store_n(&ep->dead, true, __ATOMIC_RELAXED);
            __atomic_store_n(&ctx->repairs, 1, __ATOMIC_SEQ_CST);
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
    if (known || __atomic_load_n(&tp->closing, __ATOMIC_RELAXED))
        return;
    PGASI_WARN("ucx", "rank %d is gone (%s): operations to it end with PGAS_ERR_PEER", peer, why);
    if (tp->opts.error_fn)
        tp->opts.error_fn(tp->opts.arg, peer, PGAS_ERR_PEER);
}

/* Logged once for each peer. */
void pgasi_ucx_reopened(pgasi_ucx_ep_t *ep)
{
    pgasi_ucx_t *tp = ep->ctx->tp;
    bool told = (__atomic_fetch_or(&tp->dead[ep->peer], PGASI_UCX_REOPENED, __ATOMIC_RELAXED) &
                 PGASI_UCX_REOPENED) != 0;
    PGASI_LOG_AT(
        told ? PGASI_LOG_DEBUG : PGASI_LOG_WARN, "ucx",
        "the connection of context %d to rank %d was lost although the rank is alive (%s), and "
        "was reopened. UCX has one status for every such loss: PGAS_UCX_LOG_LEVEL=diag "
        "shows the cause. Possible timeouts: "
        "PGAS_UCX_TCP_KEEPIDLE (ours: inf), PGAS_UCX_TCP_MAX_CONN_RETRIES and the kernel's "
        "net.ipv4.tcp_retries2",
        ep->ctx->index, ep->peer, pgasi_ucx_lib.ucs_status_string(ep->journal.why));
}

void pgasi_ucx_unreachable(pgasi_ucx_ep_t *ep)
{
    pgasi_ucx_t *tp = ep->ctx->tp;
    PGASI_ERROR("ucx",
                "no connection to rank %d could be opened again for %d s: operations to it end "
                "with PGAS_ERR_TRANSPORT",
                ep->peer, PGASI_UCX_GIVE_UP_S);
    if (tp->opts.error_fn)
        tp->opts.error_fn(tp->opts.arg, ep->peer, PGAS_ERR_TRANSPORT);
}

static void on_error(void *arg, ucp_ep_h ucp_ep, ucs_status_t status)
{
    pgasi_ucx_ep_t *ep = arg;
    if (ucp_ep != ep->ep) /* a former connection */
        return;
    if (ep->journal.on) {
        pgasi_ucx_journal_lost(ep, status);
        return;
    }
    __atomic_store_n(&ep->dead, true, __ATOMIC_RELAXED);
    pgasi_ucx_peer_gone(ep->ctx->tp, ep->peer, pgasi_ucx_lib.ucs_status_string(status));
    pgasi_ucx_fail_fetches(ep, PGAS_ERR_PEER);
}

ucs_status_t pgasi_ucx_connect(pgasi_ucx_ep_t *ep)
{
    const pgasi_ucx_t *tp = ep->ctx->tp;
    const pgasi_ucx_address_t *address = tp->addr_of(tp->addr_arg, ep->peer);
    ucp_ep_params_t params;
    memset(&params, 0, sizeof params);
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = (const ucp_address_t *)(const void *)(address + 1);
    params.err_mode = tp->err_mode;
    params.err_handler.cb = on_error;
    params.err_handler.arg = ep;
    return pgasi_ucx_lib.ucp_ep_create(ep->ctx->worker, &params, &ep->ep);
}

/* With a journal, a connection that cannot be opened counts as lost: the backend tries again, and
 * operations wait. */
static pgas_status_t connect_first(pgasi_ucx_ep_t *ep)
{
    ucs_status_t status = pgasi_ucx_connect(ep);
    if (status == UCS_OK)
        return PGAS_OK;
    ep->ep = NULL;
    char doing[64];
    snprintf(doing, sizeof doing, "connecting context %d to rank %d", ep->ctx->index, ep->peer);
    pgasi_ucx_t *tp = ep->ctx->tp;
    pgas_status_t result = pgasi_ucx_failed_again(
        &tp->logged_connect, status, doing,
        "PGAS_UCX_TLS and PGAS_UCX_NET_DEVICES must allow a connection to every rank");
    if (result == PGAS_ERR_PEER && ep->journal.on) {
        pgasi_ucx_journal_lost(ep, status);
        return PGAS_OK;
    }
    return result;
}

/* Selects the compact form of messages if the source fits. */
static void choose_prefix(pgasi_ucx_ep_t *ep, unsigned n_openings)
{
    const pgasi_ucx_t *tp = ep->ctx->tp;
    uint32_t source = pgasi_ucx_source(tp->opts.rank, ep->ctx->index, n_openings);
    uint32_t compact = (uint32_t)tp->opts.rank | source >> PGASI_UCX_RANK_BITS << tp->rank_bits;
    ep->am_compact = (uint64_t)(source >> PGASI_UCX_RANK_BITS) << tp->rank_bits <
                         1u << (32 - PGASI_UCX_NUMBER_BITS) &&
                     tp->rank_bits <= 32 - PGASI_UCX_NUMBER_BITS;
    ep->am_source = ep->am_compact ? compact << PGASI_UCX_NUMBER_BITS : source;
}

/* An assertion of UCX 1.13 ends the process if one side of a new TCP connection has no file left. A
 * new file gets the lowest free number, which shows how many are left. */
static bool has_files_left(pgasi_ucx_t *tp, int peer)
{
    struct rlimit limit;
    int fd = eventfd(0, EFD_CLOEXEC);
    if (fd >= 0)
        close(fd);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        (fd >= 0 && (rlim_t)fd + FILES_SPARED < limit.rlim_cur))
        return true;
    if (__atomic_exchange_n(&tp->logged_files, 1, __ATOMIC_RELAXED) == 0) {
        PGASI_ERROR("ucx",
                    "no file is left to connect to rank %d: %" PRIu64
                    " are allowed; raise the limit (ulimit -n) by %d for each "
                    "rank of another node and each context that talks to it",
                    peer, (uint64_t)limit.rlim_cur, FILES_OF_CONNECTION);
    }
    return false;
}

pgas_status_t pgasi_ucx_ep_open(pgasi_ucx_ctx_t *ctx, int peer, pgasi_ucx_ep_t **ep_p)
{
    pgasi_ucx_t *tp = ctx->tp;
    if (!tp->addr_of)
        return PGAS_ERR_NOT_INIT;
    if (__atomic_load_n(&tp->dead[peer], __ATOMIC_RELAXED) & PGASI_UCX_DEAD)
        return PGAS_ERR_PEER;
    const pgasi_ucx_address_t *address = tp->addr_of(tp->addr_arg, peer);
    if (!address || address->magic != PGASI_UCX_ADDRESS_MAGIC) {
        PGASI_ERROR("ucx",
                    "the address of rank %d is not one of UCX: all ranks need the same transport",
                    peer);
        return PGAS_ERR_MISMATCH;
    }
    if (!has_files_left(tp, peer))
        return PGAS_ERR_LIMIT;
    pgasi_ucx_ep_t *ep = calloc(1, sizeof *ep);
    if (!ep)
        return PGAS_ERR_NO_MEMORY;
    ep->ctx = ctx;
    ep->peer = peer;
    ep->am_cookie = address->cookie;
    choose_prefix(ep, tp->n_openings[ctx->index][peer]);
    pgasi_ucx_journal_init(ep);
    pgas_status_t status = connect_first(ep);
    if (status != PGAS_OK) {
        free(ep);
        return status;
    }
    ep->next = ctx->all_eps;
    ctx->all_eps = ep;
    __atomic_store_n(&ctx->eps[peer], ep, __ATOMIC_RELEASE);
    /* the peer has died while the endpoint connected */
    if (__atomic_load_n(&tp->dead[peer], __ATOMIC_RELAXED) & PGASI_UCX_DEAD)
        __atomic_store_n(&ep->dead, true, __ATOMIC_RELAXED);
    *ep_p = ep;
    return PGAS_OK;
}

static void closed(void *request, ucs_status_t status, void *user_data)
{
    pgasi_ucx_ep_t *ep = user_data;
    (void)status;
    if (ep->close_request) { /* otherwise it was given up */
        ep->close_request = NULL;
        ep->ctx->n_closing--;
        pgasi_ucx_lib.ucp_request_free(request);
    }
}

static void begin_close(pgasi_ucx_ep_t *ep)
{
    /* An endpoint that was never used may not be connected, and its close would wait for a peer
     * that has left. */
    bool unused = !ep->used && ep->am_number == 0;
    bool down = ep->journal.link != PGASI_UCX_LINK_UP;
    bool force =
        ep->ctx->tp->err_mode == UCP_ERR_HANDLING_MODE_PEER && (unused || ep->dead || down);
    if (!ep->ep)
        return;
    ucp_request_param_t param;
    memset(&param, 0, sizeof param);
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.cb.send = closed;
    param.user_data = ep;
    param.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    ucs_status_ptr_t ptr = pgasi_ucx_lib.ucp_ep_close_nbx(ep->ep, &param);
    if (UCS_PTR_IS_PTR(ptr)) {
        ep->close_request = ptr;
        ep->ctx->n_closing++;
    }
}

void pgasi_ucx_eps_begin_close(pgasi_ucx_ctx_t *ctx)
{
    for (pgasi_ucx_ep_t *ep = ctx->all_eps; ep != NULL; ep = ep->next)
        begin_close(ep);
}

void pgasi_ucx_eps_give_up(pgasi_ucx_ctx_t *ctx)
{
    for (pgasi_ucx_ep_t *ep = ctx->all_eps; ep != NULL; ep = ep->next) {
        /* UCX needs its requests back before it destroys the worker */
        if (ep->close_request) {
            void *request = ep->close_request;
            ep->close_request = NULL;
            pgasi_ucx_lib.ucp_request_free(request);
        }
    }
}

void pgasi_ucx_eps_free(pgasi_ucx_ctx_t *ctx)
{
    for (pgasi_ucx_ep_t *ep = ctx->all_eps, *next; ep != NULL; ep = next) {
        next = ep->next;
        ctx->tp->n_openings[ctx->index][ep->peer] += ep->am_number > 0;
        free(ep);
    }
    ctx->all_eps = NULL;
}
