/* Nets: a queue pair and a transmitter for every pair of ranks and every connection number, over a
 * collective of the caller's.
 *
 * Shaped for up to some hundred ranks with some tens of threads each. A link is one queue pair;
 * those of a peer stand side by side, link = peer * connections + number, so both ends of a
 * connection know where the other's address stands: at (their rank, number) in what the peer gives.
 * Addresses are exchanged in rounds, so that the table of all of them never takes more than
 * ROUND_BYTES.
 *
 * Threads that share a connection number share a completion queue, and nobody else polls it. It has
 * room for all requests of its links, as transmitters ask.
 *
 * Opening is collective: each rank goes on through all exchanges with the first error that it met,
 * and all return the same. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "verbs_backend/queue/device.h"

#define ROUND_BYTES     (UINT64_C(4) << 20)
#define CONNECTIONS_MAX 4096
#define RECV_CQ_MIN     16u
#define DRAIN_NS        2000000

typedef struct {
    pgas_verbs_qp_t *qp; /* NULL: no thread uses it */
    pgas_verbs_tx_t *tx;
    uint32_t n_threads;
} link_t;

struct pgas_verbs_net {
    pgas_verbs_dev_t *dev;
    pgas_verbs_net_opts_t opts;
    size_t n_links;
    link_t *links;
    uint16_t *number_of; /* of (peer, thread): the connection */
    pgas_verbs_cq_t **send_cqs;
    pgas_verbs_cq_t *recv_cq;
    pgas_verbs_srq_t *srq;
    pgas_verbs_mem_t buffers;
    size_t stride;
};

void pgas_verbs_net_opts_init(pgas_verbs_net_opts_t *opts)
{
    *opts = (pgas_verbs_net_opts_t){ .size = sizeof *opts,
                                     .n_ranks = 1,
                                     .n_threads = 1,
                                     .connections = 16,
                                     .cq_depth = 4096,
                                     .srq_depth = 512,
                                     .srq_bytes = 4096,
                                     .qp = PGAS_VERBS_QP_OPTS_INIT,
                                     .tx = PGAS_VERBS_TX_OPTS_INIT };
}

/* ---- agreement ---- */

/* What all ranks must have in common, and how it went so far. */
typedef struct {
    int32_t status, n_ranks, n_threads, connections, has_buffers;
} state_t;

/* The first error of any rank, on all of them. */
static pgas_status_t agree(const pgas_verbs_net_t *net, pgas_status_t status)
{
    const pgas_verbs_net_opts_t *o = &net->opts;
    state_t mine = { status, o->n_ranks, o->n_threads, o->connections, o->srq_depth > 0 };
    state_t *all = calloc((size_t)o->n_ranks, sizeof *all);
    if (!all)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t agreed =
        o->exchange(o->arg, &mine, all, sizeof mine) == 0 ? PGAS_OK : PGAS_ERR_IO;
    for (int r = 0; r < o->n_ranks && agreed == PGAS_OK; r++)
        agreed = (pgas_status_t)all[r].status;
    for (int r = 0; r < o->n_ranks && agreed == PGAS_OK; r++) {
        all[r].status = mine.status;
        agreed = memcmp(&all[r], &all[0], sizeof mine) == 0 ? PGAS_OK : PGAS_ERR_MISMATCH;
    }
    free(all);
    return agreed;
}

/* ---- opening ---- */

/* Which connection each thread uses, and how many use each. */
static pgas_status_t map_threads(pgas_verbs_net_t *net)
{
    const pgas_verbs_net_opts_t *o = &net->opts;
    for (int peer = 0; peer < o->n_ranks; peer++) {
        for (int thread = 0; thread < o->n_threads; thread++) {
            int number = o->map != NULL ? o->map(o->arg, peer, thread) : thread % o->connections;
            if (number < 0 || number >= o->connections)
                return PGAS_ERR_RANGE;
            net->number_of[peer * o->n_threads + thread] = (uint16_t)number;
            net->links[peer * o->connections + number].n_threads++;
        }
    }
    return PGAS_OK;
}

static pgas_status_t make_tables(pgas_verbs_net_t *net)
{
    const pgas_verbs_net_opts_t *o = &net->opts;
    net->n_links = (size_t)o->n_ranks * (size_t)o->connections;
    net->links = calloc(net->n_links, sizeof *net->links);
    net->number_of = calloc((size_t)o->n_ranks * (size_t)o->n_threads, sizeof *net->number_of);
    net->send_cqs = calloc((size_t)o->connections, sizeof *net->send_cqs);
    bool good = net->links && net->number_of && net->send_cqs;
    return good ? map_threads(net) : PGAS_ERR_NO_MEMORY;
}

static pgas_status_t post_buffer(pgas_verbs_net_t *net, uint64_t id)
{
    uint64_t at = (uintptr_t)net->buffers.addr + (id - 1) * net->stride;
    pgas_verbs_span_t span = { at, net->opts.srq_bytes, net->buffers.lkey };
    pgas_verbs_recv_t recv = { .id = id, .spans = &span, .n_spans = 1 };
    return pgas_verbs_srq_recv(net->srq, &recv, 1, NULL);
}

/* Buffers have ids from 1. */
static pgas_status_t open_receiving(pgas_verbs_net_t *net)
{
    const pgas_verbs_net_opts_t *o = &net->opts;
    uint32_t depth = PGASI_MAX(o->srq_depth, RECV_CQ_MIN);
    pgas_status_t status = pgas_verbs_cq_open(net->dev, depth, PGAS_VERBS_CQ_EVENTS, &net->recv_cq);
    if (status != PGAS_OK || o->srq_depth == 0)
        return status;
    net->stride = PGASI_ALIGN_UP((size_t)o->srq_bytes, PGASI_CACHELINE);
    status = pgas_verbs_mem_alloc(net->dev, net->stride * o->srq_depth, PGAS_VERBS_LOCAL_WRITE,
                                  &net->buffers);
    if (status == PGAS_OK)
        status = pgas_verbs_srq_open(net->dev, o->srq_depth, 1, &net->srq);
    for (uint64_t id = 1; id <= o->srq_depth && status == PGAS_OK; id++)
        status = post_buffer(net, id);
    return status;
}

static pgas_status_t open_sending(pgas_verbs_net_t *net)
{
    const pgas_verbs_net_opts_t *o = &net->opts;
    uint64_t depth = PGASI_MAX((uint64_t)o->cq_depth, (uint64_t)o->n_ranks * o->qp.send_depth);
    pgas_status_t status = depth > UINT32_MAX ? PGAS_ERR_LIMIT : PGAS_OK;
    for (int c = 0; c < o->connections && status == PGAS_OK; c++)
        status =
            pgas_verbs_cq_open(net->dev, (uint32_t)depth, PGAS_VERBS_CQ_EVENTS, &net->send_cqs[c]);
    for (size_t i = 0; i < net->n_links && status == PGAS_OK; i++) {
        if (net->links[i].n_threads == 0)
            continue;
        pgas_verbs_qp_opts_t qp = o->qp;
        qp.send_cq = net->send_cqs[i % (size_t)o->connections];
        qp.recv_cq = net->recv_cq;
        qp.srq = net->srq;
        qp.recv_depth = 0;
        status = pgas_verbs_qp_open(net->dev, &qp, &net->links[i].qp);
        if (status == PGAS_OK)
            net->links[i].qp->peer = (int)(i / (size_t)o->connections);
    }
    return status;
}

/* One round: the addresses of some of everybody's links. Goes through the exchange whatever the
 * status. */
static pgas_status_t connect_some(pgas_verbs_net_t *net, size_t first, size_t n,
                                  pgas_verbs_address_t *mine, pgas_verbs_address_t *all)
{
    const pgas_verbs_net_opts_t *o = &net->opts;
    pgas_status_t status = PGAS_OK;
    memset(mine, 0, n * sizeof *mine);
    for (size_t i = 0; i < n; i++)
        if (net->links[first + i].qp)
            pgas_verbs_qp_address(net->links[first + i].qp, &mine[i]);
    if (o->exchange(o->arg, mine, all, n * sizeof *mine) != 0)
        return PGAS_ERR_IO;
    for (int peer = 0; peer < o->n_ranks; peer++) {
        for (int c = 0; c < o->connections; c++) {
            size_t at = (size_t)o->rank * (size_t)o->connections + (size_t)c; /* among the peer's */
            const link_t *link = &net->links[(size_t)peer * (size_t)o->connections + (size_t)c];
            if (at < first || at >= first + n || !link->qp || status != PGAS_OK)
                continue;
            status = pgas_verbs_qp_connect(link->qp, &all[(size_t)peer * n + at - first]);
        }
    }
    return status;
}

static pgas_status_t connect_all(pgas_verbs_net_t *net)
{
    size_t n_ranks = (size_t)net->opts.n_ranks,
           most = ROUND_BYTES / (n_ranks * sizeof(pgas_verbs_address_t));
    most = PGASI_MIN(PGASI_MAX(most, 1u), net->n_links);
    pgas_verbs_address_t *mine = malloc(most * sizeof *mine),
                         *all = malloc(most * n_ranks * sizeof *all);
    pgas_status_t status = agree(net, mine != NULL && all ? PGAS_OK : PGAS_ERR_NO_MEMORY),
                  first_bad = status;
    for (size_t at = 0; at < net->n_links && status != PGAS_ERR_IO && mine && all; at += most) {
        status = connect_some(net, at, PGASI_MIN(most, net->n_links - at), mine, all);
        first_bad = first_bad != PGAS_OK ? first_bad : status;
    }
    free(mine);
    free(all);
    return first_bad;
}

static pgas_status_t open_txs(pgas_verbs_net_t *net)
{
    pgas_status_t status = PGAS_OK;
    for (size_t i = 0; i < net->n_links && status == PGAS_OK; i++) {
        pgas_verbs_tx_opts_t tx = net->opts.tx;
        tx.shared |= net->links[i].n_threads > 1;
        if (net->links[i].qp)
            status = pgas_verbs_tx_open(net->links[i].qp, &tx, &net->links[i].tx);
    }
    return status;
}

/* Whatever was opened. */
static void take_down(pgas_verbs_net_t *net)
{
    for (size_t i = 0; i < net->n_links && net->links; i++)
        if (net->links[i].qp)
            pgas_verbs_qp_close(net->links[i].qp);
    for (int c = 0; c < net->opts.connections && net->send_cqs; c++)
        if (net->send_cqs[c])
            pgas_verbs_cq_close(net->send_cqs[c]);
    if (net->srq)
        pgas_verbs_srq_close(net->srq);
    if (net->recv_cq)
        pgas_verbs_cq_close(net->recv_cq);
    pgas_verbs_mem_release(net->dev, &net->buffers);
    free(net->links);
    free(net->number_of);
    free(net->send_cqs);
    free(net);
}

static bool is_sane(const pgas_verbs_net_opts_t *o)
{
    return o->n_threads > 0 && o->connections > 0 && o->connections <= CONNECTIONS_MAX &&
           (o->srq_depth == 0 || o->srq_bytes > 0) && o->qp.size == sizeof o->qp &&
           o->tx.size == sizeof o->tx;
}

static void fill_in(pgas_verbs_net_opts_t *o)
{
    o->n_threads = o->n_threads != 0 ? o->n_threads : 1;
    o->connections = o->connections != 0 ? o->connections : 16;
    if (!o->map)
        o->connections = PGASI_MIN(o->connections, o->n_threads);
}

pgas_status_t pgas_verbs_net_open(pgas_verbs_dev_t *dev, const pgas_verbs_net_opts_t *opts,
                                  pgas_verbs_net_t **net_p)
{
    bool can_exchange = opts && opts->size == sizeof *opts && opts->exchange && opts->n_ranks > 0 &&
                        opts->rank >= 0 && opts->rank < opts->n_ranks;
    if (!dev || !net_p || !can_exchange)
        return PGAS_ERR_INVALID;
    pgas_verbs_net_t *net = calloc(1, sizeof *net);
    if (!net)
        return PGAS_ERR_NO_MEMORY; /* the others see that the exchange fails */
    net->dev = dev;
    net->opts = *opts;
    fill_in(&net->opts);
    pgas_status_t status = is_sane(&net->opts) ? make_tables(net) : PGAS_ERR_INVALID;
    if (status == PGAS_OK)
        status = open_receiving(net);
    if (status == PGAS_OK)
        status = open_sending(net);
    status = agree(net, status);
    if (status == PGAS_OK) {
        status = connect_all(net);
        if (status == PGAS_OK)
            status = open_txs(net);
        status = status != PGAS_ERR_IO ? agree(net, status) : status;
    }
    if (status != PGAS_OK) {
        take_down(net);
        return status;
    }
    *net_p = net;
    return PGAS_OK;
}

/* ---- use ---- */

pgas_verbs_tx_t *pgas_verbs_net_tx(pgas_verbs_net_t *net, int peer, int thread)
{
    const pgas_verbs_net_opts_t *o = &net->opts;
    if (peer < 0 || peer >= o->n_ranks || thread < 0 || thread >= o->n_threads)
        return NULL;
    return net->links[peer * o->connections + net->number_of[peer * o->n_threads + thread]].tx;
}

pgas_status_t pgas_verbs_net_share(pgas_verbs_net_t *net, const pgas_verbs_mem_t *mem,
                                   pgas_verbs_mem_t *of_ranks)
{
    const pgas_verbs_net_opts_t *o = &net->opts;
    static const pgas_verbs_mem_t none;
    mem = mem != NULL ? mem : &none;
    uint64_t mine[3] = { (uintptr_t)mem->addr, mem->bytes, mem->rkey };
    uint64_t(*all)[3] = of_ranks != NULL ? calloc((size_t)o->n_ranks, sizeof mine) : NULL;
    if (!all)
        return of_ranks ? PGAS_ERR_NO_MEMORY : PGAS_ERR_INVALID;
    pgas_status_t status = o->exchange(o->arg, mine, all, sizeof mine) == 0 ? PGAS_OK : PGAS_ERR_IO;
    for (int r = 0; r < o->n_ranks && status == PGAS_OK; r++)
        of_ranks[r] = (pgas_verbs_mem_t){ .addr = (void *)(uintptr_t)all[r][0],
                                          .bytes = all[r][1],
                                          .rkey = (uint32_t)all[r][2] };
    free(all);
    return status;
}

pgas_status_t pgas_verbs_net_receive(pgas_verbs_net_t *net, pgas_verbs_message_t *message_p)
{
    pgas_verbs_completion_t c;
    int n;
    while ((n = pgas_verbs_cq_poll(net->recv_cq, &c, 1)) > 0) {
        /* no card says so */
        bool too_long = c.op == PGAS_VERBS_RECV && c.bytes > net->opts.srq_bytes;
        if (c.status != PGAS_OK || !c.qp || too_long) {
            if (c.id != 0)
                post_buffer(net, c.id);
            continue;
        }
        bool written = c.op == PGAS_VERBS_RECV_WRITE_IMM;
        *message_p = (pgas_verbs_message_t){ .bytes = c.bytes,
                                             .imm = c.imm,
                                             .has_imm = c.has_imm,
                                             .source = c.qp->peer,
                                             .buffer = c.id };
        message_p->data =
            written ? NULL : (const char *)net->buffers.addr + (c.id - 1) * net->stride;
        return PGAS_OK;
    }
    return n == 0 ? PGAS_ERR_AGAIN : PGAS_ERR_TRANSPORT;
}

void pgas_verbs_net_release(pgas_verbs_net_t *net, const pgas_verbs_message_t *message)
{
    pgas_status_t status = post_buffer(net, message->buffer);
    PGASI_ASSERT(status == PGAS_OK);
    (void)status;
}

pgas_verbs_cq_t *pgas_verbs_net_cq(pgas_verbs_net_t *net)
{
    return net->recv_cq;
}

/* ---- closing ---- */

typedef struct {
    pgas_verbs_net_t *net;
    bool stop; /* atomic */
} drain_t;

/* Nobody receives any more: makes room for those who still send, while this rank waits for them in
 * the exchange. */
static void *drop_messages(void *arg)
{
    drain_t *drain = arg;
    pgas_verbs_message_t message;
    while (!__atomic_load_n(&drain->stop, __ATOMIC_ACQUIRE)) {
        if (pgas_verbs_cq_wait(drain->net->recv_cq, DRAIN_NS) == PGAS_ERR_TRANSPORT)
            break;
        while (pgas_verbs_net_receive(drain->net, &message) == PGAS_OK)
            pgas_verbs_net_release(drain->net, &message);
    }
    return NULL;
}

void pgas_verbs_net_close(pgas_verbs_net_t *net)
{
    drain_t drain = { .net = net };
    pthread_t thread;
    bool drains = net->srq && pthread_create(&thread, NULL, drop_messages, &drain) == 0;
    for (size_t i = 0; i < net->n_links; i++) {
        pgas_verbs_tx_t *tx = net->links[i].tx;
        if (tx)
            pgas_verbs_tx_wait(tx, pgas_verbs_tx_posted(tx), UINT64_MAX);
    }
    agree(net, PGAS_OK);
    __atomic_store_n(&drain.stop, true, __ATOMIC_RELEASE);
    if (drains)
        pthread_join(thread, NULL);
    take_down(net);
}
