/* The provider "verbs": makes, connects and closes shared receive queues and queue pairs. Time
 * limits are those of large machines: a peer counts as dead after some ten seconds without an
 * answer. */
#include "verbs_backend/queue/ibv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#define HOP_LIMIT 64
#define TIMEOUT   18 /* 4 us * 2^18, a second, for each try */
#define RNR_TIMER 12 /* 0.64 ms until a send is repeated to a peer without a receive buffer */

/* ---- shared receive queues ---- */

static uint32_t next_serial(pgasi_ibv_dev_t *dev)
{
    return ++dev->serial & PGASI_IBV_SERIAL_MASK;
}

static void free_srq(pgasi_ibv_srq_t *srq)
{
    free(srq->free_slots);
    free(srq->ids);
    free(srq->spans);
    free(srq);
}

pgas_status_t pgasi_ibv_srq_open(pgas_verbs_dev_t *base, uint32_t depth, uint32_t spans,
                                 pgas_verbs_srq_t **srq_p)
{
    pgasi_ibv_dev_t *dev = pgasi_ibv_dev(base);
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = depth, .max_sge = spans } };
    pgasi_ibv_srq_t *srq = calloc(1, sizeof *srq);
    if (!srq)
        return PGAS_ERR_NO_MEMORY;
    srq->free_slots = calloc(depth, sizeof *srq->free_slots);
    srq->ids = calloc(depth, sizeof *srq->ids);
    srq->spans = calloc(spans, sizeof *srq->spans);
    bool room = srq->free_slots && srq->ids && srq->spans;
    srq->srq = room ? pgasi_verbs_lib.ibv_create_srq(dev->super.pd, &attr) : NULL;
    if (!srq->srq) {
        pgas_status_t status = room ? pgasi_ibv_status(errno) : PGAS_ERR_NO_MEMORY;
        free_srq(srq);
        return status == PGAS_ERR_INVALID ? PGAS_ERR_LIMIT : status;
    }
    while (srq->n_free < depth) {
        srq->free_slots[srq->n_free] = depth - 1 - srq->n_free;
        srq->n_free++;
    }
    srq->super.depth = depth;
    srq->super.spans = spans;
    pthread_mutex_lock(&dev->lock);
    srq->serial = next_serial(dev);
    srq->next = dev->srqs;
    dev->srqs = srq;
    pthread_mutex_unlock(&dev->lock);
    *srq_p = &srq->super;
    return PGAS_OK;
}

void pgasi_ibv_srq_close(pgas_verbs_srq_t *base)
{
    pgasi_ibv_srq_t *srq = pgasi_ibv_srq(base), **at;
    pgasi_ibv_dev_t *dev = pgasi_ibv_dev(base->dev);
    pthread_mutex_lock(&dev->lock);
    for (at = &dev->srqs; *at != srq; at = &(*at)->next)
        ;
    *at = srq->next;
    pthread_mutex_unlock(&dev->lock);
    int error = pgasi_verbs_lib.ibv_destroy_srq(srq->srq);
    if (error != 0)
        PGASI_WARN("verbs", "%s: cannot close a shared receive queue: %s", base->dev->info.name,
                   strerror(error));
    free_srq(srq);
}

/* ---- queue pairs ---- */

/* Polling threads read pages without the lock. */
static pgas_status_t enter(pgasi_ibv_dev_t *dev, uint32_t number, pgasi_ibv_qp_t *qp)
{
    pgas_status_t status = PGAS_OK;
    pthread_mutex_lock(&dev->lock);
    pgasi_ibv_qp_t ***page = &dev->pages[(number & 0xffffffu) / PGASI_IBV_PAGE];
    if (!*page)
        __atomic_store_n(page, calloc(PGASI_IBV_PAGE, sizeof **page), __ATOMIC_RELEASE);
    if (!*page) {
        status = PGAS_ERR_NO_MEMORY;
    } else {
        if (qp)
            qp->serial = next_serial(dev);
        __atomic_store_n(&(*page)[number % PGASI_IBV_PAGE], qp, __ATOMIC_SEQ_CST);
    }
    pthread_mutex_unlock(&dev->lock);
    return status;
}

static void free_qp(pgasi_ibv_qp_t *qp)
{
    free(qp->sent);
    free(qp->received);
    free(qp->spans);
    free(qp->inlined);
    free(qp->recv_spans);
    free(qp);
}

/* Allocates room for staged requests and for descriptions of posted ones. */
static bool make_notes(pgasi_ibv_qp_t *qp)
{
    const pgas_verbs_qp_opts_t *opts = &qp->super.opts;
    qp->sq_mask = pgasi_pow2_up(opts->send_depth) - 1;
    qp->rq_mask = pgasi_pow2_up(opts->recv_depth) - 1;
    qp->sent = calloc((size_t)qp->sq_mask + 1, sizeof *qp->sent);
    qp->received = calloc((size_t)qp->rq_mask + 1, sizeof *qp->received);
    qp->spans = calloc((size_t)PGASI_IBV_STAGE * opts->send_spans, sizeof *qp->spans);
    qp->inlined = calloc(PGASI_IBV_STAGE, PGASI_MAX(opts->inline_max, 1u));
    qp->recv_spans = calloc(opts->recv_spans, sizeof *qp->recv_spans);
    bool good = qp->sent && qp->received && qp->spans && qp->inlined && qp->recv_spans;
    for (uint32_t i = 0; good && i < PGASI_IBV_STAGE; i++)
        qp->wrs[i].sg_list = qp->spans + (size_t)i * opts->send_spans;
    return good;
}

static struct ibv_qp *create_qp(pgasi_ibv_dev_t *dev, pgas_verbs_qp_opts_t *opts)
{
    struct ibv_qp_init_attr attr = { .send_cq = pgasi_ibv_cq(opts->send_cq)->cq,
                                     .recv_cq = pgasi_ibv_cq(opts->recv_cq)->cq,
                                     .srq =
                                         opts->srq != NULL ? pgasi_ibv_srq(opts->srq)->srq : NULL,
                                     .qp_type = IBV_QPT_RC };
    attr.cap = (struct ibv_qp_cap){ .max_send_wr = opts->send_depth,
                                    .max_recv_wr = opts->recv_depth,
                                    .max_send_sge = opts->send_spans,
                                    .max_recv_sge =
                                        !opts->srq && opts->recv_depth > 0 ? opts->recv_spans : 0,
                                    .max_inline_data = opts->inline_max };
    struct ibv_qp *qp = pgasi_verbs_lib.ibv_create_qp(dev->super.pd, &attr);
    if (qp)
        opts->inline_max = PGASI_MAX(opts->inline_max, attr.cap.max_inline_data);
    return qp;
}

/* This state sets the rights of peers. Receive buffers can already be posted before the peer is
 * known. */
static int to_init(pgasi_ibv_qp_t *qp)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .pkey_index = 0,
                                .port_num = (uint8_t)qp->super.dev->info.port,
                                .qp_access_flags = pgasi_rdma_access(qp->super.opts.access &
                                                                     ~PGAS_VERBS_LOCAL_WRITE) };
    return pgasi_verbs_lib.ibv_modify_qp(qp->qp, &attr,
                                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                             IBV_QP_ACCESS_FLAGS);
}

/* The device returns EINVAL or ENOMEM if a queue is deeper or longer than it supports. */
static pgas_status_t explain_qp(const pgas_verbs_dev_t *dev, const pgas_verbs_qp_opts_t *opts,
                                int error)
{
    PGASI_WARN("verbs",
               "%s: cannot make a queue pair of %u requests, %u spans, %u bytes inline: %s",
               dev->info.name, opts->send_depth, opts->send_spans, opts->inline_max,
               strerror(error));
    return error == EINVAL || error == ENOMEM ? PGAS_ERR_LIMIT : pgasi_ibv_status(error);
}

pgas_status_t pgasi_ibv_qp_open(pgas_verbs_dev_t *base, const pgas_verbs_qp_opts_t *opts,
                                pgas_verbs_qp_t **qp_p)
{
    pgasi_ibv_dev_t *dev = pgasi_ibv_dev(base);
    pgas_status_t status = PGAS_ERR_NO_MEMORY;
    if (opts->flags & PGAS_VERBS_QP_REMOTE_SLOTS) {
        PGASI_WARN("verbs", "%s: the provider verbs does not know the addresses of its queues",
                   base->info.name);
        return PGAS_ERR_UNSUPPORTED;
    }
    pgasi_ibv_qp_t *qp = calloc(1, sizeof *qp);
    if (!qp)
        return status;
    qp->super.dev = base;
    qp->super.opts = *opts;
    qp->qp = create_qp(dev, &qp->super.opts);
    if (!qp->qp) {
        status = explain_qp(base, opts, errno);
        goto free_it;
    }
    if (!make_notes(qp))
        goto destroy_it;
    int error = to_init(qp);
    if (error != 0) {
        status = pgasi_ibv_status(error);
        goto destroy_it;
    }
    status = enter(dev, qp->qp->qp_num, qp);
    if (status != PGAS_OK)
        goto destroy_it;
    qp->psn = (uint32_t)pgasi_hash_combine(pgasi_now_ns(), qp->qp->qp_num) & 0xffffffu;
    *qp_p = &qp->super;
    return PGAS_OK;

destroy_it:
    pgasi_verbs_lib.ibv_destroy_qp(qp->qp);
free_it:
    free_qp(qp);
    return status;
}

void pgasi_ibv_qp_close(pgas_verbs_qp_t *base)
{
    pgasi_ibv_qp_t *qp = pgasi_ibv_qp(base);
    enter(pgasi_ibv_dev(base->dev), qp->qp->qp_num, NULL);
    pgasi_verbs_await_poller(base->opts.send_cq);
    pgasi_verbs_await_poller(base->opts.recv_cq);
    int error = pgasi_verbs_lib.ibv_destroy_qp(qp->qp);
    if (error != 0)
        PGASI_WARN("verbs", "%s: cannot close a queue pair: %s", base->dev->info.name,
                   strerror(error));
    free_qp(qp);
}

void pgasi_ibv_qp_address(const pgas_verbs_qp_t *base, pgas_verbs_address_t *address_p)
{
    const pgasi_ibv_qp_t *qp = (const pgasi_ibv_qp_t *)(const void *)base;
    pgasi_rdma_address_t address = pgasi_ibv_dev(base->dev)->at;
    address.qpn = qp->qp->qp_num;
    address.psn = qp->psn;
    address.reads_max = (uint8_t)base->opts.reads_max;
    pgasi_rdma_address_pack(&address, address_p);
}

static int to_receive(pgasi_ibv_qp_t *qp, const pgasi_rdma_address_t *peer)
{
    const pgasi_ibv_dev_t *dev = pgasi_ibv_dev(qp->super.dev);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
                                .path_mtu = (enum ibv_mtu)PGASI_MIN(dev->at.mtu, peer->mtu),
                                .dest_qp_num = peer->qpn,
                                .rq_psn = peer->psn,
                                .max_dest_rd_atomic = (uint8_t)qp->super.opts.reads_max,
                                .min_rnr_timer = RNR_TIMER };
    attr.ah_attr.dlid = peer->lid;
    attr.ah_attr.port_num = (uint8_t)dev->super.info.port;
    if (dev->at.is_global || peer->is_global) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.hop_limit = HOP_LIMIT;
        attr.ah_attr.grh.sgid_index = (uint8_t)PGASI_MAX(dev->super.info.gid_index, 0);
        memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, sizeof peer->gid);
    }
    return pgasi_verbs_lib.ibv_modify_qp(qp->qp, &attr,
                                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                             IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_send(pgasi_ibv_qp_t *qp, const pgasi_rdma_address_t *peer)
{
    uint32_t reads = PGASI_MIN(qp->super.opts.reads_max, (uint32_t)peer->reads_max);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
                                .timeout = TIMEOUT,
                                .retry_cnt = (uint8_t)qp->super.opts.retry,
                                .rnr_retry = (uint8_t)qp->super.opts.rnr_retry,
                                .sq_psn = qp->psn,
                                .max_rd_atomic = (uint8_t)reads };
    return pgasi_verbs_lib.ibv_modify_qp(qp->qp, &attr,
                                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                             IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                             IBV_QP_MAX_QP_RD_ATOMIC);
}

pgas_status_t pgasi_ibv_qp_connect(pgas_verbs_qp_t *base, const pgas_verbs_address_t *bytes)
{
    pgasi_ibv_qp_t *qp = pgasi_ibv_qp(base);
    pgasi_rdma_address_t peer;
    pgas_status_t status = pgasi_rdma_address_unpack(bytes, &peer);
    if (status != PGAS_OK)
        return status;
    if (!peer.is_global && pgasi_ibv_dev(base->dev)->at.is_global && base->dev->info.lid == 0)
        return PGAS_ERR_MISMATCH; /* InfiniBand there, RoCE here */
    int error = to_receive(qp, &peer);
    if (error == 0)
        error = to_send(qp, &peer);
    if (error == 0)
        return PGAS_OK;
    PGASI_WARN("verbs", "%s: cannot connect to queue pair %u: %s", base->dev->info.name, peer.qpn,
               strerror(error));
    return PGAS_ERR_IO;
}
