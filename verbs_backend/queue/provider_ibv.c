/* The provider "verbs": devices and queues of libibverbs, on any InfiniBand or RoCE card. Making,
 * connecting and closing; ibv_queue.c has the rest. Time limits are those of large machines: a peer
 * is taken for dead after some ten seconds without an answer. */
#include "verbs_backend/queue/ibv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#define DEPTH_MAX    (1u << 20)
#define MESSAGE_MAX  (UINT64_C(1) << 31)
#define INLINE_ASKED 1024u /* more would be no gain */
#define READS_MAX    255u
#define HOP_LIMIT    64
#define TIMEOUT      18 /* 4 us * 2^18, a second, for each try */
#define RNR_TIMER    12 /* 0.64 ms until a peer without a receive buffer is asked again */
#define WHY          "libibverbs has no requests that wait for others; the provider mlx5 does"

static pgas_status_t status_of(int error)
{
    switch (error) {
    case ENOMEM:
        return PGAS_ERR_NO_MEMORY;
    case EINVAL:
    case EFAULT:
        return PGAS_ERR_INVALID;
    case EOPNOTSUPP:
    case ENOSYS:
        return PGAS_ERR_UNSUPPORTED;
    default:
        return PGAS_ERR_IO;
    }
}

/* ---- devices ---- */

/* Whether a provider before this one lists the device. */
static bool is_listed_before(const char *name)
{
    bool found = false;
    for (int i = 0;
         !found && pgasi_verbs_providers[i] != &pgasi_verbs_ibv && pgasi_verbs_providers[i]; i++) {
        int n = 0, most;
        pgasi_verbs_providers[i]->list(NULL, 0, &n);
        pgas_verbs_info_t *infos = calloc((size_t)PGASI_MAX(most = n, 1), sizeof *infos);
        n = 0;
        if (infos && pgasi_verbs_providers[i]->list(infos, most, &n) == PGAS_OK)
            for (int k = 0; k < PGASI_MIN(n, most); k++)
                found = found || strcmp(infos[k].name, name) == 0;
        free(infos);
    }
    return found;
}

static void finish_info(pgas_verbs_info_t *info)
{
    snprintf(info->provider, sizeof info->provider, "%s", pgasi_verbs_ibv.name);
    snprintf(info->chains_why, sizeof info->chains_why, "%s", WHY);
}

/* All ports of a device; those that cannot be used are left out. */
static void list_ports(struct ibv_context *context, pgas_verbs_info_t *infos, int n_max, int *n_p)
{
    struct ibv_device_attr attr;
    pgasi_verbs_port_t port;
    if (ibv_query_device(context, &attr) != 0)
        return;
    for (int i = 1; i <= attr.phys_port_cnt; i++) {
        if (pgasi_verbs_port_query(context, i, -1, &port) != PGAS_OK)
            continue;
        finish_info(&port.info);
        if (*n_p < n_max)
            infos[*n_p] = port.info;
        (*n_p)++;
    }
}

static pgas_status_t list_devices(pgas_verbs_info_t *infos, int n_max, int *n_p)
{
    struct ibv_device **devices;
    int n = pgasi_verbs_device_list(&devices);
    for (int i = 0; i < n; i++) {
        struct ibv_context *context =
            is_listed_before(ibv_get_device_name(devices[i])) ? NULL : ibv_open_device(devices[i]);
        if (context) {
            list_ports(context, infos, n_max, n_p);
            ibv_close_device(context);
        }
    }
    pgasi_verbs_device_list_free(devices);
    return PGAS_OK;
}

/* The port with this number, or the first active one. */
static pgas_status_t find_port(struct ibv_context *context, int number, int n_ports, int gid_index,
                               pgasi_verbs_port_t *port_p)
{
    if (number != 0)
        return pgasi_verbs_port_query(context, number, gid_index, port_p);
    pgas_status_t status = PGAS_ERR_NOT_FOUND;
    for (int i = 1; i <= n_ports; i++) {
        status = pgasi_verbs_port_query(context, i, gid_index, port_p);
        if (status == PGAS_OK && port_p->info.active)
            return PGAS_OK;
    }
    return status == PGAS_OK ? PGAS_ERR_NOT_FOUND : status;
}

/* The inline limit cannot be asked for: the largest of some sizes with which a queue pair can be
 * made. */
static uint32_t probe_inline(struct ibv_pd *pd)
{
    uint32_t bytes = INLINE_ASKED;
    struct ibv_cq *cq = ibv_create_cq(pd->context, 1, NULL, NULL, 0);
    struct ibv_qp *qp = NULL;
    while (cq && !qp && bytes >= 16) {
        struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
        attr.cap = (struct ibv_qp_cap){ .max_send_wr = 1,
                                        .max_recv_wr = 1,
                                        .max_send_sge = 1,
                                        .max_recv_sge = 1,
                                        .max_inline_data = bytes };
        qp = ibv_create_qp(pd, &attr);
        if (!qp)
            bytes /= 2;
        else
            bytes = PGASI_MAX(bytes, attr.cap.max_inline_data);
    }
    if (qp)
        ibv_destroy_qp(qp);
    if (cq)
        ibv_destroy_cq(cq);
    return qp ? bytes : 0;
}

static uint32_t positive(int number, uint32_t most)
{
    return number <= 0 ? 0 : PGASI_MIN((uint32_t)number, most);
}

static void take_limits(pgasi_ibv_dev_t *dev, const struct ibv_device_attr *attr,
                        const pgasi_verbs_port_t *port)
{
    pgasi_verbs_limits_t *limits = &dev->super.limits;
    limits->send_depth_max = positive(attr->max_qp_wr, DEPTH_MAX);
    limits->recv_depth_max =
        positive(attr->max_srq_wr > 0 ? PGASI_MIN(attr->max_srq_wr, attr->max_qp_wr)
                                      : attr->max_qp_wr,
                 DEPTH_MAX);
    limits->spans_max = positive(attr->max_sge, 255);
    limits->inline_max = probe_inline(dev->pd);
    limits->reads_max =
        positive(PGASI_MIN(attr->max_qp_rd_atom, attr->max_qp_init_rd_atom), READS_MAX);
    limits->message_max = PGASI_MIN((uint64_t)port->message_max, MESSAGE_MAX);
    limits->cpu_atomic = attr->atomic_cap == IBV_ATOMIC_GLOB;
    dev->atomics = attr->atomic_cap != IBV_ATOMIC_NONE;
}

/* A device with its domain, when its port is known. */
static pgas_status_t make_dev(struct ibv_context *context, const struct ibv_device_attr *attr,
                              const pgasi_verbs_port_t *port, pgas_verbs_dev_t **dev_p)
{
    pgas_status_t status = PGAS_ERR_NO_MEMORY;
    pgasi_ibv_dev_t *dev = calloc(1, sizeof *dev);
    if (!dev)
        return status;
    if (pthread_mutex_init(&dev->lock, NULL) != 0)
        goto free_dev;
    dev->context = context;
    dev->pd = ibv_alloc_pd(context);
    if (!dev->pd) {
        status = status_of(errno);
        goto destroy_lock;
    }
    dev->super.info = port->info;
    dev->at = port->at;
    finish_info(&dev->super.info);
    take_limits(dev, attr, port);
    *dev_p = &dev->super;
    return PGAS_OK;

destroy_lock:
    pthread_mutex_destroy(&dev->lock);
free_dev:
    free(dev);
    return status;
}

static pgas_status_t open_device(const pgas_verbs_dev_opts_t *opts, const char *name, int number,
                                 pgas_verbs_dev_t **dev_p)
{
    struct ibv_device_attr attr;
    pgasi_verbs_port_t port;
    struct ibv_context *context = pgasi_verbs_device_open(name);
    if (!context) {
        if (errno == ENOENT)
            return PGAS_ERR_NOT_FOUND;
        PGASI_WARN("verbs", "cannot open %s: %s; /dev/infiniband must be readable and writable",
                   name, strerror(errno));
        return PGAS_ERR_UNSUPPORTED;
    }
    bool good =
        ibv_query_device(context, &attr) == 0 && pgasi_verbs_set_nonblocking(context->async_fd);
    pgas_status_t status = good ? PGAS_OK : PGAS_ERR_IO;
    if (status == PGAS_OK)
        status = find_port(context, number, attr.phys_port_cnt, opts->gid_index, &port);
    if (status == PGAS_OK && !port.info.active)
        status = PGAS_ERR_NOT_FOUND;
    if (status == PGAS_OK)
        status = make_dev(context, &attr, &port, dev_p);
    if (status != PGAS_OK)
        ibv_close_device(context);
    return status;
}

static void close_device(pgas_verbs_dev_t *base)
{
    pgasi_ibv_dev_t *dev = pgasi_ibv_dev(base);
    if (ibv_dealloc_pd(dev->pd) != 0)
        PGASI_WARN("verbs", "%s: the protection domain is still in use", base->info.name);
    ibv_close_device(dev->context);
    for (uint32_t i = 0; i < PGASI_IBV_PAGES; i++)
        free(dev->pages[i]);
    pthread_mutex_destroy(&dev->lock);
    free(dev);
}

/* ---- memory ---- */

static pgas_status_t register_memory(pgas_verbs_dev_t *dev, void *addr, size_t bytes,
                                     uint32_t access, pgas_verbs_mem_t *mem_p)
{
    return pgasi_rdma_mem_register(pgasi_ibv_dev(dev)->pd, dev->info.name, addr, bytes, access,
                                   mem_p);
}

static pgas_status_t alloc_memory(pgas_verbs_dev_t *dev, size_t bytes, uint32_t access,
                                  pgas_verbs_mem_t *mem_p)
{
    return pgasi_rdma_mem_alloc(pgasi_ibv_dev(dev)->pd, dev->info.name, bytes, access, mem_p);
}

static void release_memory(pgas_verbs_dev_t *dev, pgas_verbs_mem_t *mem)
{
    pgasi_rdma_mem_release(dev->info.name, mem);
}

/* ---- completion queues ---- */

static pgas_status_t open_cq(pgas_verbs_dev_t *base, uint32_t depth, uint32_t flags,
                             pgas_verbs_cq_t **cq_p)
{
    pgasi_ibv_dev_t *dev = pgasi_ibv_dev(base);
    if (flags & PGAS_VERBS_CQ_IGNORE_OVERRUN) /* without chains nobody can look at such a queue */
        return PGAS_ERR_UNSUPPORTED;
    pgasi_ibv_cq_t *cq = calloc(1, sizeof *cq);
    pgas_status_t status = !cq ? PGAS_ERR_NO_MEMORY : PGAS_OK;
    if (status == PGAS_OK && (flags & PGAS_VERBS_CQ_EVENTS) != 0) {
        cq->channel = pgasi_verbs_channel_open(dev->context);
        status = !cq->channel ? PGAS_ERR_IO : PGAS_OK;
    }
    if (status == PGAS_OK) {
        cq->cq = ibv_create_cq(dev->context, (int)depth, cq, cq->channel, 0);
        status = cq->cq != NULL ? PGAS_OK : errno == EINVAL ? PGAS_ERR_LIMIT : status_of(errno);
    }
    if (status == PGAS_OK) {
        cq->super.depth = (uint32_t)cq->cq->cqe;
        *cq_p = &cq->super;
        return PGAS_OK;
    }
    if (cq && cq->channel)
        ibv_destroy_comp_channel(cq->channel);
    free(cq);
    return status;
}

static void close_cq(pgas_verbs_cq_t *base)
{
    pgasi_ibv_cq_t *cq = pgasi_ibv_cq(base);
    int error = ibv_destroy_cq(cq->cq);
    if (error != 0)
        PGASI_WARN("verbs", "%s: cannot close a completion queue: %s", base->dev->info.name,
                   strerror(error));
    if (cq->channel)
        ibv_destroy_comp_channel(cq->channel);
    free(cq);
}

static pgas_status_t get_fd(pgas_verbs_cq_t *base, int *fd_p)
{
    *fd_p = pgasi_ibv_cq(base)->channel->fd;
    return PGAS_OK;
}

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

static pgas_status_t open_srq(pgas_verbs_dev_t *base, uint32_t depth, uint32_t spans,
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
    srq->srq = room ? ibv_create_srq(dev->pd, &attr) : NULL;
    if (!srq->srq) {
        pgas_status_t status = room ? status_of(errno) : PGAS_ERR_NO_MEMORY;
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

static void close_srq(pgas_verbs_srq_t *base)
{
    pgasi_ibv_srq_t *srq = pgasi_ibv_srq(base), **at;
    pgasi_ibv_dev_t *dev = pgasi_ibv_dev(base->dev);
    pthread_mutex_lock(&dev->lock);
    for (at = &dev->srqs; *at != srq; at = &(*at)->next)
        ;
    *at = srq->next;
    pthread_mutex_unlock(&dev->lock);
    int error = ibv_destroy_srq(srq->srq);
    if (error != 0)
        PGASI_WARN("verbs", "%s: cannot close a shared receive queue: %s", base->dev->info.name,
                   strerror(error));
    free_srq(srq);
}

/* ---- queue pairs ---- */

/* Pollers look without the lock. */
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

/* Room for notes and for what is staged. */
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
    struct ibv_qp *qp = ibv_create_qp(dev->pd, &attr);
    if (qp)
        opts->inline_max = PGASI_MAX(opts->inline_max, attr.cap.max_inline_data);
    return qp;
}

/* Where a queue pair says what peers may do; before that, receive buffers can be posted already. */
static int to_init(pgasi_ibv_qp_t *qp)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .pkey_index = 0,
                                .port_num = (uint8_t)qp->super.dev->info.port,
                                .qp_access_flags = pgasi_rdma_access(qp->super.opts.access &
                                                                     ~PGAS_VERBS_LOCAL_WRITE) };
    return ibv_modify_qp(qp->qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* The device says EINVAL, or ENOMEM, of what is deeper or longer than it can. */
static pgas_status_t explain_qp(const pgas_verbs_dev_t *dev, const pgas_verbs_qp_opts_t *opts,
                                int error)
{
    PGASI_WARN("verbs",
               "%s: cannot make a queue pair of %u requests, %u spans, %u bytes inline: %s",
               dev->info.name, opts->send_depth, opts->send_spans, opts->inline_max,
               strerror(error));
    return error == EINVAL || error == ENOMEM ? PGAS_ERR_LIMIT : status_of(error);
}

static pgas_status_t open_qp(pgas_verbs_dev_t *base, const pgas_verbs_qp_opts_t *opts,
                             pgas_verbs_qp_t **qp_p)
{
    pgasi_ibv_dev_t *dev = pgasi_ibv_dev(base);
    pgas_status_t status = PGAS_ERR_NO_MEMORY;
    if (opts->flags & PGAS_VERBS_QP_REMOTE_SLOTS) {
        PGASI_WARN("verbs", "%s: the provider verbs does not know where its queues lie",
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
        status = status_of(error);
        goto destroy_it;
    }
    status = enter(dev, qp->qp->qp_num, qp);
    if (status != PGAS_OK)
        goto destroy_it;
    qp->psn = (uint32_t)pgasi_hash_combine(pgasi_now_ns(), qp->qp->qp_num) & 0xffffffu;
    *qp_p = &qp->super;
    return PGAS_OK;

destroy_it:
    ibv_destroy_qp(qp->qp);
free_it:
    free_qp(qp);
    return status;
}

static void close_qp(pgas_verbs_qp_t *base)
{
    pgasi_ibv_qp_t *qp = pgasi_ibv_qp(base);
    enter(pgasi_ibv_dev(base->dev), qp->qp->qp_num, NULL);
    pgasi_verbs_await_poller(base->opts.send_cq);
    pgasi_verbs_await_poller(base->opts.recv_cq);
    int error = ibv_destroy_qp(qp->qp);
    if (error != 0)
        PGASI_WARN("verbs", "%s: cannot close a queue pair: %s", base->dev->info.name,
                   strerror(error));
    free_qp(qp);
}

static void get_address(const pgas_verbs_qp_t *base, pgas_verbs_address_t *address_p)
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
    return ibv_modify_qp(qp->qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
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
    return ibv_modify_qp(qp->qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static pgas_status_t connect_qp(pgas_verbs_qp_t *base, const pgas_verbs_address_t *bytes)
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

const pgasi_verbs_ops_t pgasi_verbs_ibv = {
    .name = "verbs",
    .list = list_devices,
    .open = open_device,
    .close = close_device,
    .mem_register = register_memory,
    .mem_alloc = alloc_memory,
    .mem_release = release_memory,
    .cq_open = open_cq,
    .cq_close = close_cq,
    .cq_poll = pgasi_ibv_poll,
    .cq_fd = get_fd,
    .cq_arm = pgasi_ibv_arm,
    .srq_open = open_srq,
    .srq_close = close_srq,
    .srq_recv = pgasi_ibv_srq_recv,
    .qp_open = open_qp,
    .qp_close = close_qp,
    .qp_address = get_address,
    .qp_connect = connect_qp,
    .qp_write = pgasi_ibv_write,
    .qp_ring = pgasi_ibv_ring,
    .qp_position = pgasi_ibv_position,
    .qp_recv = pgasi_ibv_recv,
};
