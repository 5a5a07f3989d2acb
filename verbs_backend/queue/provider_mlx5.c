/* The provider "mlx5" without its queue pairs: devices, memory, completion queues and shared
 * receive queues. */
#include "verbs_backend/queue/mlx5.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/library.h"
#include "base/log.h"
#include "verbs_backend/queue/prm.h"

#define EVENTS_EVERY 1024u /* empty polls between two checks for events */
#define CQ_DOORBELL  0x20  /* in a page of doorbells */

static pgas_status_t status_of(int error)
{
    switch (error) {
    case ENOMEM:
        return PGAS_ERR_NO_MEMORY;
    case EINVAL:
        return PGAS_ERR_LIMIT;
    case EOPNOTSUPP:
    case ENOSYS:
        return PGAS_ERR_UNSUPPORTED;
    default:
        return PGAS_ERR_IO;
    }
}

/* ---- the library ---- */

pgasi_mlx5_lib_t pgasi_mlx5_lib;

#define FUNCTION(name) { #name, &pgasi_mlx5_lib.name },
static const pgasi_library_fn_t functions[] = { PGASI_MLX5_FUNCTIONS(FUNCTION) };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_library;

static void open_library(void)
{
    char why[256];
    has_library = pgasi_library_open("libmlx5.so.1", functions, PGASI_ARRAY_LENGTH(functions), why,
                                     sizeof why);
    if (!has_library)
        PGASI_INFO("verbs", "no devices of libmlx5: %s", why);
}

/* ---- devices ---- */

/* Whether the card has managed queues. @param why  otherwise: why not */
static bool probe_chains(struct ibv_context *context, char *why, size_t why_bytes)
{
    unsigned char in[PGASI_PRM_QUERY_CAP_BYTES], out[PGASI_PRM_CAP_BYTES] = { 0 };
    pgasi_prm_query_cap(in);
    int error = pgasi_mlx5_lib.mlx5dv_devx_general_cmd(context, in, sizeof in, out, sizeof out);
    bool has = error == 0 && pgasi_prm_cap_cd(out);
    if (error != 0)
        snprintf(why, why_bytes, "the card does not report its capabilities: %s", strerror(error));
    else if (!has)
        snprintf(why, why_bytes, "the card has no cross-channel queues (capability cd)");
    return has;
}

static void finish_info(struct ibv_context *context, pgas_verbs_info_t *info)
{
    snprintf(info->provider, sizeof info->provider, "%s", pgasi_verbs_mlx5.name);
    info->chains = probe_chains(context, info->chains_why, sizeof info->chains_why);
}

/* Kernel and card must have DEVX. */
static struct ibv_context *open_context(struct ibv_device *device)
{
    struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
    pthread_once(&once, open_library);
    errno = EOPNOTSUPP;
    return has_library && pgasi_mlx5_lib.mlx5dv_is_supported(device)
               ? pgasi_mlx5_lib.mlx5dv_open_device(device, &attr)
               : NULL;
}

static pgas_status_t list_devices(pgas_verbs_info_t *infos, int n_max, int *n_p)
{
    struct ibv_device **devices;
    int n = pgasi_verbs_device_list(&devices);
    for (int i = 0; i < n; i++) {
        struct ibv_context *context = open_context(devices[i]);
        struct ibv_device_attr attr;
        if (!context)
            continue;
        int n_ports =
            pgasi_verbs_lib.ibv_query_device(context, &attr) == 0 ? attr.phys_port_cnt : 0;
        for (int k = 1; k <= n_ports; k++) {
            pgasi_verbs_port_t port;
            if (pgasi_verbs_port_query(context, k, -1, &port) != PGAS_OK)
                continue;
            finish_info(context, &port.info);
            if (*n_p < n_max)
                infos[*n_p] = port.info;
            (*n_p)++;
        }
        pgasi_verbs_lib.ibv_close_device(context);
    }
    pgasi_verbs_device_list_free(devices);
    return PGAS_OK;
}

static pgas_status_t open_by_name(const char *name, struct ibv_context **context_p)
{
    struct ibv_device **devices;
    int n = pgasi_verbs_device_list(&devices);
    pgas_status_t status = PGAS_ERR_NOT_FOUND;
    for (int i = 0; i < n; i++) {
        if (strcmp(pgasi_verbs_lib.ibv_get_device_name(devices[i]), name) != 0)
            continue;
        *context_p = open_context(devices[i]);
        status = *context_p != NULL ? PGAS_OK : PGAS_ERR_UNSUPPORTED;
        if (status != PGAS_OK)
            PGASI_WARN("verbs", "cannot open %s as mlx5: %s; try \"verbs:%s\"", name,
                       strerror(errno), name);
        break;
    }
    pgasi_verbs_device_list_free(devices);
    return status;
}

static void take_limits(pgasi_mlx5_dev_t *dev, const struct ibv_device_attr *attr,
                        const pgasi_verbs_port_t *port)
{
    /* raw_setup.c has set the limits that follow from the entries' format */
    pgasi_verbs_limits_t *limits = &dev->raw.super.limits;
    uint32_t depth = PGASI_MIN((uint32_t)attr->max_qp_wr, 1u << PGASI_MLX5_RING_LOG_MAX);
    limits->send_depth_max = depth;
    limits->recv_depth_max =
        attr->max_srq_wr > 0 ? PGASI_MIN(depth, (uint32_t)attr->max_srq_wr) : depth;
    limits->spans_max = PGASI_MIN(limits->spans_max, (uint32_t)attr->max_sge);
    limits->reads_max = (uint32_t)PGASI_MIN(attr->max_qp_rd_atom, attr->max_qp_init_rd_atom);
    limits->message_max = PGASI_MIN(limits->message_max, (uint64_t)port->message_max);
    limits->nop = true;
    limits->cpu_atomic = attr->atomic_cap == IBV_ATOMIC_GLOB;
    limits->chains = dev->raw.super.info.chains;
}

/* Allocates a page for doorbells. Stores to it leave at once; where the kernel has no such page, a
 * write-combining one. */
static struct mlx5dv_devx_uar *alloc_page(struct ibv_context *context)
{
    enum { AT_ONCE = 1, COMBINED = 0 }; /* MLX5_IB_UAPI_UAR_ALLOC_TYPE_ */
    struct mlx5dv_devx_uar *uar = pgasi_mlx5_lib.mlx5dv_devx_alloc_uar(context, AT_ONCE);
    return uar ? uar : pgasi_mlx5_lib.mlx5dv_devx_alloc_uar(context, COMBINED);
}

static pgas_status_t make_dev(struct ibv_context *context, const struct ibv_device_attr *attr,
                              const pgasi_verbs_port_t *port, pgas_verbs_dev_t **dev_p)
{
    pgasi_mlx5_dev_t *dev = calloc(1, sizeof *dev);
    if (!dev)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgasi_raw_dev_init(&dev->raw);
    if (status != PGAS_OK)
        goto free_dev;
    status = PGAS_ERR_IO;
    dev->context = context;
    dev->raw.super.pd = pgasi_verbs_lib.ibv_alloc_pd(context);
    if (!dev->raw.super.pd)
        goto fini_raw;
    struct mlx5dv_pd pd = { 0 };
    struct mlx5dv_obj object = { .pd = { .in = dev->raw.super.pd, .out = &pd } };
    if (pgasi_mlx5_lib.mlx5dv_init_obj(&object, MLX5DV_OBJ_PD) != 0)
        goto free_pd;
    dev->pdn = pd.pdn;
    dev->uar = alloc_page(context);
    if (!dev->uar)
        goto free_pd;
    dev->raw.super.info = port->info;
    dev->at = port->at;
    finish_info(context, &dev->raw.super.info);
    take_limits(dev, attr, port);
    *dev_p = &dev->raw.super;
    return PGAS_OK;

free_pd:
    pgasi_verbs_lib.ibv_dealloc_pd(dev->raw.super.pd);
fini_raw:
    PGASI_WARN("verbs", "cannot use %s as mlx5: %s", port->info.name, strerror(errno));
    pgasi_raw_dev_fini(&dev->raw);
free_dev:
    free(dev);
    return status;
}

static pgas_status_t open_device(const pgas_verbs_dev_opts_t *opts, const char *name, int number,
                                 pgas_verbs_dev_t **dev_p)
{
    struct ibv_context *context = NULL;
    struct ibv_device_attr attr;
    pgasi_verbs_port_t port;
    pgas_status_t status = open_by_name(name, &context);
    if (status != PGAS_OK)
        return status;
    status = pgasi_verbs_lib.ibv_query_device(context, &attr) == 0 &&
                     pgasi_verbs_set_nonblocking(context->async_fd)
                 ? PGAS_OK
                 : PGAS_ERR_IO;
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
    pgasi_mlx5_dev_t *dev = pgasi_mlx5_dev(base);
    pgasi_mlx5_lib.mlx5dv_devx_free_uar(dev->uar);
    pgasi_verbs_lib.ibv_dealloc_pd(dev->raw.super.pd);
    pgasi_verbs_lib.ibv_close_device(dev->context);
    pgasi_raw_dev_fini(&dev->raw);
    free(dev);
}

/* ---- completion queues ---- */

static struct ibv_cq *make_cq(pgasi_mlx5_dev_t *dev, pgasi_mlx5_cq_t *cq, uint32_t depth,
                              uint32_t flags)
{
    struct ibv_cq_init_attr_ex attr = { .cqe = depth, .cq_context = cq, .channel = cq->channel };
    if ((flags & PGAS_VERBS_CQ_IGNORE_OVERRUN) == 0)
        return pgasi_verbs_lib.ibv_create_cq(dev->context, (int)depth, cq, cq->channel, 0);
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    struct ibv_cq_ex *extended = ibv_create_cq_ex(dev->context, &attr);
    return extended ? ibv_cq_ex_to_cq(extended) : NULL;
}

static void close_cq(pgas_verbs_cq_t *base)
{
    pgasi_mlx5_cq_t *cq = pgasi_mlx5_cq(base);
    pgasi_raw_leave_cq(&pgasi_mlx5_dev(base->dev)->raw, &cq->raw);
    if (cq->n_events > 0)
        pgasi_verbs_lib.ibv_ack_cq_events(cq->cq, cq->n_events);
    if (cq->cq && pgasi_verbs_lib.ibv_destroy_cq(cq->cq) != 0)
        PGASI_WARN("verbs", "%s: a completion queue cannot be closed", base->dev->info.name);
    if (cq->channel)
        pgasi_verbs_lib.ibv_destroy_comp_channel(cq->channel);
    free(cq);
}

static pgas_status_t open_cq(pgas_verbs_dev_t *base, uint32_t depth, uint32_t flags,
                             pgas_verbs_cq_t **cq_p)
{
    pgasi_mlx5_dev_t *dev = pgasi_mlx5_dev(base);
    pgasi_mlx5_cq_t *cq = calloc(1, sizeof *cq);
    if (!cq)
        return PGAS_ERR_NO_MEMORY;
    cq->raw.super.dev = base;
    pgas_status_t status = PGAS_OK;
    if ((flags & PGAS_VERBS_CQ_EVENTS) != 0 &&
        !(cq->channel = pgasi_verbs_channel_open(dev->context)))
        status = PGAS_ERR_IO;
    if (status == PGAS_OK && !(cq->cq = make_cq(dev, cq, depth, flags)))
        status = status_of(errno);
    struct mlx5dv_cq inside = { 0 };
    struct mlx5dv_obj object = { .cq = { .in = cq->cq, .out = &inside } };
    if (status == PGAS_OK && (pgasi_mlx5_lib.mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ) != 0 ||
                              inside.cqe_size != sizeof(pgasi_cqe_t))) {
        PGASI_WARN("verbs", "%s: completions are not 64 bytes; unset MLX5_CQE_SIZE",
                   base->info.name);
        status = PGAS_ERR_UNSUPPORTED;
    }
    if (status != PGAS_OK) {
        close_cq(&cq->raw.super);
        return status;
    }
    pgasi_raw_cq_init(&cq->raw, inside.buf, inside.cqe_cnt, (uint32_t *)inside.dbrec);
    cq->raw.number = inside.cqn;
    cq->raw.super.depth = (uint32_t)cq->cq->cqe;
    cq->page = inside.cq_uar;
    pgasi_raw_enter_cq(&dev->raw, &cq->raw);
    *cq_p = &cq->raw.super;
    return PGAS_OK;
}

static int poll_cq(pgas_verbs_cq_t *base, pgas_verbs_completion_t *completions, int n)
{
    pgasi_mlx5_cq_t *cq = pgasi_mlx5_cq(base);
    int n_taken = pgasi_raw_poll(base, completions, n);
    if (n_taken > 0)
        return n_taken;
    if (PGAS_UNLIKELY(++cq->n_empty % EVENTS_EVERY == 0))
        pgasi_verbs_look_for_events(pgasi_mlx5_dev(base->dev)->context);
    return PGAS_UNLIKELY(__atomic_load_n(&base->overrun, __ATOMIC_ACQUIRE)) ? -1 : 0;
}

static pgas_status_t cq_descriptor(pgas_verbs_cq_t *base, int *fd_p)
{
    *fd_p = pgasi_mlx5_cq(base)->channel->fd;
    return PGAS_OK;
}

/* This does not use libmlx5, which does not know how far the queue was polled. The request contains
 * a count of earlier events, two bits, by which the card distinguishes a new request from an old
 * one. */
static pgas_status_t arm_cq(pgas_verbs_cq_t *base, bool solicited)
{
    enum { SOLICITED = 1 << 24, COUNT_SHIFT = 28, ACK_AT = 1 << 20 };
    pgasi_mlx5_cq_t *cq = pgasi_mlx5_cq(base);
    struct ibv_cq *which;
    void *context;
    while (pgasi_verbs_lib.ibv_get_cq_event(cq->channel, &which, &context) == 0)
        cq->n_events++;
    uint32_t word =
        (cq->n_events & 3) << COUNT_SHIFT | (solicited ? SOLICITED : 0) | (cq->raw.ci & 0xffffff);
    uint64_t bell = htobe64((uint64_t)word << 32 | cq->raw.number);
    __atomic_store_n(&cq->raw.record[1], htobe32(word), __ATOMIC_RELEASE);
    pgasi_mlx5_order_stores();
    *(volatile uint64_t *)(void *)((char *)cq->page + CQ_DOORBELL) = bell;
    pgasi_mlx5_order_stores();
    bool there =
        pgasi_cqe_is_there(&cq->raw.ring[cq->raw.ci & cq->raw.mask], cq->raw.ci, cq->raw.mask + 1);
    return there ? PGAS_ERR_BUSY : PGAS_OK;
}

/* ---- shared receive queues ---- */

static void close_srq(pgas_verbs_srq_t *base)
{
    pgasi_mlx5_srq_t *srq = pgasi_mlx5_srq(base);
    pgasi_raw_enter_srq(&pgasi_mlx5_dev(base->dev)->raw, srq->raw.number, NULL);
    if (pgasi_verbs_lib.ibv_destroy_srq(srq->srq) != 0)
        PGASI_WARN("verbs", "%s: a shared receive queue cannot be closed", base->dev->info.name);
    pgasi_raw_srq_fini(&srq->raw);
    free(srq);
}

/* libmlx5 makes the ring, in two halves if it can. The first one is used here, from slot 0 to its
 * tail. */
static pgas_status_t take_srq(pgasi_mlx5_dev_t *dev, pgasi_mlx5_srq_t *srq)
{
    struct mlx5dv_srq inside = { .comp_mask = MLX5DV_SRQ_MASK_SRQN };
    struct mlx5dv_obj object = { .srq = { .in = srq->srq, .out = &inside } };
    if (pgasi_mlx5_lib.mlx5dv_init_obj(&object, MLX5DV_OBJ_SRQ) != 0 ||
        (inside.comp_mask & MLX5DV_SRQ_MASK_SRQN) == 0)
        return PGAS_ERR_UNSUPPORTED;
    srq->raw.number = inside.srqn;
    srq->raw.super.depth = inside.tail;
    pgas_status_t status = pgasi_raw_srq_init(&srq->raw, inside.buf, inside.tail + 1, inside.stride,
                                              (uint32_t *)inside.dbrec);
    return status == PGAS_OK ? pgasi_raw_enter_srq(&dev->raw, srq->raw.number, &srq->raw) : status;
}

static pgas_status_t open_srq(pgas_verbs_dev_t *base, uint32_t depth, uint32_t spans,
                              pgas_verbs_srq_t **srq_p)
{
    pgasi_mlx5_dev_t *dev = pgasi_mlx5_dev(base);
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = depth, .max_sge = spans } };
    pgasi_mlx5_srq_t *srq = calloc(1, sizeof *srq);
    if (!srq)
        return PGAS_ERR_NO_MEMORY;
    srq->raw.super.dev = base;
    srq->raw.super.spans = spans;
    srq->srq = pgasi_verbs_lib.ibv_create_srq(dev->raw.super.pd, &attr);
    if (!srq->srq) {
        pgas_status_t status = status_of(errno);
        free(srq);
        return status;
    }
    pgas_status_t status = take_srq(dev, srq);
    if (status != PGAS_OK)
        close_srq(&srq->raw.super);
    else
        *srq_p = &srq->raw.super;
    return status;
}

const pgasi_verbs_ops_t pgasi_verbs_mlx5 = {
    .name = "mlx5",
    .list = list_devices,
    .open = open_device,
    .close = close_device,
    .mem_register = pgasi_rdma_mem_register,
    .mem_alloc = pgasi_rdma_mem_alloc,
    .mem_release = pgasi_rdma_mem_release,
    .cq_open = open_cq,
    .cq_close = close_cq,
    .cq_poll = poll_cq,
    .cq_fd = cq_descriptor,
    .cq_arm = arm_cq,
    .srq_open = open_srq,
    .srq_close = close_srq,
    .srq_recv = pgasi_raw_srq_recv,
    .qp_open = pgasi_mlx5_qp_open,
    .qp_close = pgasi_mlx5_qp_close,
    .qp_address = pgasi_mlx5_qp_address,
    .qp_connect = pgasi_mlx5_qp_connect,
    .qp_write = pgasi_raw_write,
    .qp_write_one = pgasi_raw_write_one,
    .qp_ring = pgasi_raw_ring,
    .qp_position = pgasi_raw_position,
    .qp_recv = pgasi_raw_recv,
    .qp_buffer = pgasi_mlx5_qp_buffer,
};
