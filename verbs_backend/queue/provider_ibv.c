/* The provider "verbs": devices, memory and completion queues of libibverbs, on any InfiniBand or
 * RoCE card. ibv_qp.c makes queue pairs, ibv_queue.c posts and polls. */
#include "verbs_backend/queue/ibv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"

#define DEPTH_MAX    (1u << 20)
#define MESSAGE_MAX  (UINT64_C(1) << 31)
#define INLINE_ASKED 1024u /* larger inline data brings no gain */
#define READS_MAX    255u
#define WHY          "libibverbs has no requests that wait for others; the provider mlx5 does"

pgas_status_t pgasi_ibv_status(int error)
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

/* Whether a provider earlier in the list has the device. */
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

/* Lists all ports of a device that can be used. */
static void list_ports(struct ibv_context *context, pgas_verbs_info_t *infos, int n_max, int *n_p)
{
    struct ibv_device_attr attr;
    pgasi_verbs_port_t port;
    if (pgasi_verbs_lib.ibv_query_device(context, &attr) != 0)
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
            is_listed_before(pgasi_verbs_lib.ibv_get_device_name(devices[i]))
                ? NULL
                : pgasi_verbs_lib.ibv_open_device(devices[i]);
        if (context) {
            list_ports(context, infos, n_max, n_p);
            pgasi_verbs_lib.ibv_close_device(context);
        }
    }
    pgasi_verbs_device_list_free(devices);
    return PGAS_OK;
}

/* The inline limit cannot be queried: this tries sizes until a queue pair can be made. */
static uint32_t probe_inline(struct ibv_pd *pd)
{
    uint32_t bytes = INLINE_ASKED;
    struct ibv_cq *cq = pgasi_verbs_lib.ibv_create_cq(pd->context, 1, NULL, NULL, 0);
    struct ibv_qp *qp = NULL;
    while (cq && !qp && bytes >= 16) {
        struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
        attr.cap = (struct ibv_qp_cap){ .max_send_wr = 1,
                                        .max_recv_wr = 1,
                                        .max_send_sge = 1,
                                        .max_recv_sge = 1,
                                        .max_inline_data = bytes };
        qp = pgasi_verbs_lib.ibv_create_qp(pd, &attr);
        if (!qp)
            bytes /= 2;
        else
            bytes = PGASI_MAX(bytes, attr.cap.max_inline_data);
    }
    if (qp)
        pgasi_verbs_lib.ibv_destroy_qp(qp);
    if (cq)
        pgasi_verbs_lib.ibv_destroy_cq(cq);
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
    limits->inline_max = probe_inline(dev->super.pd);
    limits->reads_max =
        positive(PGASI_MIN(attr->max_qp_rd_atom, attr->max_qp_init_rd_atom), READS_MAX);
    limits->message_max = PGASI_MIN((uint64_t)port->message_max, MESSAGE_MAX);
    limits->cpu_atomic = attr->atomic_cap == IBV_ATOMIC_GLOB;
    dev->atomics = attr->atomic_cap != IBV_ATOMIC_NONE;
}

/* Makes a device with its domain, when its port is known. */
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
    dev->super.pd = pgasi_verbs_lib.ibv_alloc_pd(context);
    if (!dev->super.pd) {
        status = pgasi_ibv_status(errno);
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
    bool good = pgasi_verbs_lib.ibv_query_device(context, &attr) == 0 &&
                pgasi_verbs_set_nonblocking(context->async_fd);
    pgas_status_t status = good ? PGAS_OK : PGAS_ERR_IO;
    if (status == PGAS_OK)
        status = pgasi_verbs_port_find(context, number, opts->gid_index, attr.phys_port_cnt, &port);
    if (status == PGAS_OK)
        status = make_dev(context, &attr, &port, dev_p);
    if (status != PGAS_OK)
        pgasi_verbs_lib.ibv_close_device(context);
    return status;
}

static void close_device(pgas_verbs_dev_t *base)
{
    pgasi_ibv_dev_t *dev = pgasi_ibv_dev(base);
    if (pgasi_verbs_lib.ibv_dealloc_pd(dev->super.pd) != 0)
        PGASI_WARN("verbs", "%s: the protection domain is still in use", base->info.name);
    pgasi_verbs_lib.ibv_close_device(dev->context);
    for (uint32_t i = 0; i < PGASI_IBV_PAGES; i++)
        free(dev->pages[i]);
    pthread_mutex_destroy(&dev->lock);
    free(dev);
}

/* ---- completion queues ---- */

static pgas_status_t open_cq(pgas_verbs_dev_t *base, uint32_t depth, uint32_t flags,
                             pgas_verbs_cq_t **cq_p)
{
    pgasi_ibv_dev_t *dev = pgasi_ibv_dev(base);
    if (flags & PGAS_VERBS_CQ_IGNORE_OVERRUN) /* without chains such a queue is useless */
        return PGAS_ERR_UNSUPPORTED;
    pgasi_ibv_cq_t *cq = calloc(1, sizeof *cq);
    pgas_status_t status = !cq ? PGAS_ERR_NO_MEMORY : PGAS_OK;
    if (status == PGAS_OK && (flags & PGAS_VERBS_CQ_EVENTS) != 0) {
        cq->channel = pgasi_verbs_channel_open(dev->context);
        status = !cq->channel ? PGAS_ERR_IO : PGAS_OK;
    }
    if (status == PGAS_OK) {
        cq->cq = pgasi_verbs_lib.ibv_create_cq(dev->context, (int)depth, cq, cq->channel, 0);
        if (!cq->cq)
            status = errno == EINVAL ? PGAS_ERR_LIMIT : pgasi_ibv_status(errno);
    }
    if (status == PGAS_OK) {
        cq->super.depth = (uint32_t)cq->cq->cqe;
        *cq_p = &cq->super;
        return PGAS_OK;
    }
    if (cq && cq->channel)
        pgasi_verbs_lib.ibv_destroy_comp_channel(cq->channel);
    free(cq);
    return status;
}

static void close_cq(pgas_verbs_cq_t *base)
{
    pgasi_ibv_cq_t *cq = pgasi_ibv_cq(base);
    int error = pgasi_verbs_lib.ibv_destroy_cq(cq->cq);
    if (error != 0)
        PGASI_WARN("verbs", "%s: cannot close a completion queue: %s", base->dev->info.name,
                   strerror(error));
    if (cq->channel)
        pgasi_verbs_lib.ibv_destroy_comp_channel(cq->channel);
    free(cq);
}

static pgas_status_t get_fd(pgas_verbs_cq_t *base, int *fd_p)
{
    *fd_p = pgasi_ibv_cq(base)->channel->fd;
    return PGAS_OK;
}

const pgasi_verbs_ops_t pgasi_verbs_ibv = {
    .name = "verbs",
    .list = list_devices,
    .open = open_device,
    .close = close_device,
    .mem_register = pgasi_rdma_mem_register,
    .mem_alloc = pgasi_rdma_mem_alloc,
    .mem_release = pgasi_rdma_mem_release,
    .cq_open = open_cq,
    .cq_close = close_cq,
    .cq_poll = pgasi_ibv_poll,
    .cq_fd = get_fd,
    .cq_arm = pgasi_ibv_arm,
    .srq_open = pgasi_ibv_srq_open,
    .srq_close = pgasi_ibv_srq_close,
    .srq_recv = pgasi_ibv_srq_recv,
    .qp_open = pgasi_ibv_qp_open,
    .qp_close = pgasi_ibv_qp_close,
    .qp_address = pgasi_ibv_qp_address,
    .qp_connect = pgasi_ibv_qp_connect,
    .qp_write = pgasi_ibv_write,
    .qp_ring = pgasi_ibv_ring,
    .qp_position = pgasi_ibv_position,
    .qp_recv = pgasi_ibv_recv,
};
