/* The provider "mlx5": queue pairs that are made by commands of the card (prm.h) and written and read by ourselves (raw.h), on NVIDIA's
 * cards from ConnectX-4 on. Domains, memory, completion and shared receive queues are libibverbs', looked into by mlx5dv_init_obj:
 * so registration, completion channels and the kernel's clean-up are as everywhere.
 *
 *  - One page of doorbells serves all queue pairs: a doorbell is one store of eight bytes, and no two of them mix.
 *  - The doorbell of a managed queue is never rung, nor its record written: on a card either might let it run before its ENABLE.
 *  - Receive completions bear the user index of a queue pair where the card is new, the number of its shared receive queue where it
 *    is old; so the index is that number. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "verbs_backend/port.h"
#include "verbs_backend/prm.h"
#include "verbs_backend/raw.h"

enum {
    RING_LOG_MAX = 15,  /* blocks or strides: what four bits of the context, and the 16-bit indices, allow */
    STRIDE_LOG_MAX = 11,
    HOP_LIMIT = 64,
    TIMEOUT = 18,       /* 4 us * 2^18, a second, for each try */
    RNR_TIMER = 12,     /* 0.64 ms */
    CQ_DOORBELL = 0x20, /* in a page of doorbells */
    LINE = 64
};

typedef struct {
    pgasi_raw_dev_t raw;
    struct ibv_context *context;
    struct ibv_pd *pd;
    uint32_t pdn;
    struct mlx5dv_devx_uar *uar;
    pgasi_rdma_address_t at; /* of the port */
} mlx5_dev_t;

typedef struct {
    pgasi_raw_cq_t raw;
    struct ibv_cq *cq;
    struct ibv_comp_channel *channel; /* NULL: without events */
    void *page;      /* of doorbells */
    uint32_t n_events;
} mlx5_cq_t;

typedef struct {
    pgasi_raw_srq_t raw;
    struct ibv_srq *srq;
} mlx5_srq_t;

typedef struct {
    pgasi_raw_qp_t raw;
    struct mlx5dv_devx_obj *object;
    struct mlx5dv_devx_umem *umem;
    unsigned char *memory; /* receive ring, send ring, record */
    size_t bytes;
    struct ibv_mr *slots;  /* the send ring, where peers may write to it */
    volatile uint64_t *bell;
    uint32_t psn;
    uint32_t no_record;    /* of a managed queue */
} mlx5_qp_t;

static mlx5_dev_t *dev_of(pgas_verbs_dev_t *dev)
{
    return (mlx5_dev_t *)(void *)dev;
}

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

/* ---- doorbells ---- */

/* Before a doorbell: what was stored to memory is seen first. After it: it leaves now, and does not wait in a buffer that combines
 * stores. */
static inline void order_stores(void)
{
#if defined __x86_64__
    __asm__ volatile("sfence" ::: "memory");
#elif defined __aarch64__
    __asm__ volatile("dsb st" ::: "memory");
#else
    __sync_synchronize();
#endif
}

static void ring(pgasi_raw_qp_t *raw)
{
    const mlx5_qp_t *qp = (const mlx5_qp_t *)(const void *)raw;
    uint64_t word;
    memcpy(&word, raw->last, sizeof word);
    order_stores();
    *qp->bell = word;
    order_stores();
}

static void ring_nothing(pgasi_raw_qp_t *raw)
{
    (void)raw;
}

/* ---- devices ---- */

/* Whether queues can be managed; why not, if they cannot. */
static bool probe_chains(struct ibv_context *context, char *why, size_t why_bytes)
{
    unsigned char in[PGASI_PRM_QUERY_CAP_BYTES], out[PGASI_PRM_CAP_BYTES] = { 0 };
    pgasi_prm_query_cap(in);
    int error = mlx5dv_devx_general_cmd(context, in, sizeof in, out, sizeof out);
    bool has = error == 0 && pgasi_prm_cap_cd(out);
    if (error != 0)
        snprintf(why, why_bytes, "the card does not tell its capabilities: %s", strerror(error));
    else if (!has)
        snprintf(why, why_bytes, "the card has no cross-channel queues (capability cd)");
    return has;
}

static void finish_info(struct ibv_context *context, pgas_verbs_info_t *info)
{
    snprintf(info->provider, sizeof info->provider, "%s", pgasi_verbs_mlx5.name);
    info->chains = probe_chains(context, info->chains_why, sizeof info->chains_why);
}

/* DEVX is what kernel and card must have. */
static struct ibv_context *open_context(struct ibv_device *device)
{
    struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
    errno = EOPNOTSUPP;
    return mlx5dv_is_supported(device) ? mlx5dv_open_device(device, &attr) : NULL;
}

static pgas_status_t list_devices(pgas_verbs_info_t *infos, int n_max, int *n_p)
{
    struct ibv_device **devices;
    int n = pgasi_verbs_device_list(&devices);
    for (int i = 0; i < n; i++) {
        struct ibv_context *context = open_context(devices[i]);
        struct ibv_device_attr attr;
        if (context == NULL)
            continue;
        int n_ports = ibv_query_device(context, &attr) == 0 ? attr.phys_port_cnt : 0;
        for (int k = 1; k <= n_ports; k++) {
            pgasi_verbs_port_t port;
            if (pgasi_verbs_port_query(context, k, -1, &port) != PGAS_OK)
                continue;
            finish_info(context, &port.info);
            if (*n_p < n_max)
                infos[*n_p] = port.info;
            (*n_p)++;
        }
        ibv_close_device(context);
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
        if (strcmp(ibv_get_device_name(devices[i]), name) != 0)
            continue;
        *context_p = open_context(devices[i]);
        status = *context_p != NULL ? PGAS_OK : PGAS_ERR_UNSUPPORTED;
        if (status != PGAS_OK)
            PGASI_WARN("verbs", "cannot open %s as mlx5: %s; \"verbs:%s\" may do", name, strerror(errno), name);
        break;
    }
    pgasi_verbs_device_list_free(devices);
    return status;
}

/* The port with this number, or the first active one. */
static pgas_status_t find_port(struct ibv_context *context, int number, int gid_index, int n_ports, pgasi_verbs_port_t *port_p)
{
    pgas_status_t status = PGAS_ERR_NOT_FOUND;
    for (int i = number != 0 ? number : 1; i <= (number != 0 ? number : n_ports); i++) {
        status = pgasi_verbs_port_query(context, i, gid_index, port_p);
        if (status == PGAS_OK && port_p->info.active)
            return PGAS_OK;
    }
    return status == PGAS_OK ? PGAS_ERR_NOT_FOUND : status;
}

static void take_limits(mlx5_dev_t *dev, const struct ibv_device_attr *attr, const pgasi_verbs_port_t *port)
{
    pgasi_verbs_limits_t *limits = &dev->raw.super.limits; /* raw.c has set those of the entries' form */
    uint32_t depth = PGASI_MIN((uint32_t)attr->max_qp_wr, 1u << RING_LOG_MAX);
    limits->send_depth_max = depth;
    limits->recv_depth_max = attr->max_srq_wr > 0 ? PGASI_MIN(depth, (uint32_t)attr->max_srq_wr) : depth;
    limits->spans_max = PGASI_MIN(limits->spans_max, (uint32_t)attr->max_sge);
    limits->reads_max = (uint32_t)PGASI_MIN(attr->max_qp_rd_atom, attr->max_qp_init_rd_atom);
    limits->message_max = PGASI_MIN(limits->message_max, (uint64_t)port->message_max);
    limits->nop = true;
    limits->cpu_atomic = attr->atomic_cap == IBV_ATOMIC_GLOB;
    limits->chains = dev->raw.super.info.chains;
}

/* A page that stores go to at once; where the kernel does not give such, one that combines them. */
static struct mlx5dv_devx_uar *alloc_page(struct ibv_context *context)
{
    enum { AT_ONCE = 1, COMBINED = 0 }; /* MLX5_IB_UAPI_UAR_ALLOC_TYPE_ */
    struct mlx5dv_devx_uar *uar = mlx5dv_devx_alloc_uar(context, AT_ONCE);
    return uar != NULL ? uar : mlx5dv_devx_alloc_uar(context, COMBINED);
}

static pgas_status_t make_dev(struct ibv_context *context, const struct ibv_device_attr *attr, const pgasi_verbs_port_t *port,
                              pgas_verbs_dev_t **dev_p)
{
    mlx5_dev_t *dev = calloc(1, sizeof *dev);
    if (dev == NULL)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgasi_raw_dev_init(&dev->raw);
    if (status != PGAS_OK)
        goto free_dev;
    status = PGAS_ERR_IO;
    dev->context = context;
    dev->pd = ibv_alloc_pd(context);
    if (dev->pd == NULL)
        goto fini_raw;
    struct mlx5dv_pd pd = { 0 };
    struct mlx5dv_obj object = { .pd = { .in = dev->pd, .out = &pd } };
    if (mlx5dv_init_obj(&object, MLX5DV_OBJ_PD) != 0)
        goto free_pd;
    dev->pdn = pd.pdn;
    dev->uar = alloc_page(context);
    if (dev->uar == NULL)
        goto free_pd;
    dev->raw.super.info = port->info;
    dev->at = port->at;
    finish_info(context, &dev->raw.super.info);
    take_limits(dev, attr, port);
    *dev_p = &dev->raw.super;
    return PGAS_OK;

free_pd:
    ibv_dealloc_pd(dev->pd);
fini_raw:
    PGASI_WARN("verbs", "cannot use %s as mlx5: %s", port->info.name, strerror(errno));
    pgasi_raw_dev_fini(&dev->raw);
free_dev:
    free(dev);
    return status;
}

static pgas_status_t open_device(const pgas_verbs_dev_opts_t *opts, const char *name, int number, pgas_verbs_dev_t **dev_p)
{
    struct ibv_context *context = NULL;
    struct ibv_device_attr attr;
    pgasi_verbs_port_t port;
    pgas_status_t status = open_by_name(name, &context);
    if (status != PGAS_OK)
        return status;
    status = ibv_query_device(context, &attr) == 0 ? PGAS_OK : PGAS_ERR_IO;
    if (status == PGAS_OK)
        status = find_port(context, number, opts->gid_index, attr.phys_port_cnt, &port);
    if (status == PGAS_OK)
        status = make_dev(context, &attr, &port, dev_p);
    if (status != PGAS_OK)
        ibv_close_device(context);
    return status;
}

static void close_device(pgas_verbs_dev_t *base)
{
    mlx5_dev_t *dev = dev_of(base);
    mlx5dv_devx_free_uar(dev->uar);
    ibv_dealloc_pd(dev->pd);
    ibv_close_device(dev->context);
    pgasi_raw_dev_fini(&dev->raw);
    free(dev);
}

/* ---- memory ---- */

static unsigned access_of(uint32_t access)
{
    return (access & PGAS_VERBS_LOCAL_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0) |
           (access & PGAS_VERBS_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0) |
           (access & PGAS_VERBS_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
           (access & PGAS_VERBS_REMOTE_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

static struct ibv_mr *register_region(pgas_verbs_dev_t *dev, void *addr, size_t bytes, uint32_t access)
{
    struct ibv_mr *mr = ibv_reg_mr(dev_of(dev)->pd, addr, bytes, access_of(access));
    if (mr == NULL) {
        int error = errno;
        PGASI_WARN("verbs", "%s: cannot register %zu bytes: %s%s", dev->info.name, bytes, strerror(error),
                   error == ENOMEM ? "; raise the limit of locked memory, ulimit -l" : "");
        errno = error;
    }
    return mr;
}

/* With ENOMEM memory is there in most cases, but may not be locked. */
static pgas_status_t register_status(int error)
{
    return error == ENOMEM ? PGAS_ERR_LIMIT : error == EINVAL || error == EFAULT ? PGAS_ERR_INVALID : PGAS_ERR_IO;
}

static void describe(const struct ibv_mr *mr, void *inside, pgas_verbs_mem_t *mem_p)
{
    *mem_p = (pgas_verbs_mem_t){ .addr = mr->addr, .bytes = mr->length, .lkey = mr->lkey, .rkey = mr->rkey, .inside = inside };
}

typedef struct {
    struct ibv_mr *mr;
    bool mapped; /* by us */
} region_t;

static pgas_status_t make_region(pgas_verbs_dev_t *dev, void *addr, size_t bytes, uint32_t access, bool mapped,
                                 pgas_verbs_mem_t *mem_p)
{
    region_t *region = malloc(sizeof *region);
    if (region == NULL)
        return PGAS_ERR_NO_MEMORY;
    *region = (region_t){ .mr = register_region(dev, addr, bytes, access), .mapped = mapped };
    if (region->mr == NULL) {
        int error = errno;
        free(region);
        return register_status(error);
    }
    describe(region->mr, region, mem_p);
    return PGAS_OK;
}

static pgas_status_t register_memory(pgas_verbs_dev_t *dev, void *addr, size_t bytes, uint32_t access, pgas_verbs_mem_t *mem_p)
{
    return make_region(dev, addr, bytes, access, false, mem_p);
}

static pgas_status_t alloc_memory(pgas_verbs_dev_t *dev, size_t bytes, uint32_t access, pgas_verbs_mem_t *mem_p)
{
    void *addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (addr == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = make_region(dev, addr, bytes, access, true, mem_p);
    if (status != PGAS_OK)
        munmap(addr, bytes);
    return status;
}

static void release_memory(pgas_verbs_dev_t *dev, pgas_verbs_mem_t *mem)
{
    region_t *region = mem->inside;
    int error = ibv_dereg_mr(region->mr);
    if (error != 0)
        PGASI_WARN("verbs", "%s: cannot release %zu bytes of memory: %s", dev->info.name, mem->bytes, strerror(error));
    else if (region->mapped)
        munmap(mem->addr, mem->bytes);
    free(region);
}

/* ---- completion queues ---- */

static struct ibv_comp_channel *make_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    int flags = channel != NULL ? fcntl(channel->fd, F_GETFL) : -1;
    if (channel != NULL && (flags < 0 || fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0)) {
        ibv_destroy_comp_channel(channel);
        channel = NULL;
    }
    return channel;
}

static struct ibv_cq *make_cq(mlx5_dev_t *dev, mlx5_cq_t *cq, uint32_t depth, uint32_t flags)
{
    struct ibv_cq_init_attr_ex attr = { .cqe = depth, .cq_context = cq, .channel = cq->channel };
    if ((flags & PGAS_VERBS_CQ_IGNORE_OVERRUN) == 0)
        return ibv_create_cq(dev->context, (int)depth, cq, cq->channel, 0);
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    struct ibv_cq_ex *extended = ibv_create_cq_ex(dev->context, &attr);
    return extended != NULL ? ibv_cq_ex_to_cq(extended) : NULL;
}

static void close_cq(pgas_verbs_cq_t *base)
{
    mlx5_cq_t *cq = (mlx5_cq_t *)(void *)base;
    if (cq->n_events > 0)
        ibv_ack_cq_events(cq->cq, cq->n_events);
    if (cq->cq != NULL && ibv_destroy_cq(cq->cq) != 0)
        PGASI_WARN("verbs", "%s: a completion queue cannot be closed", base->dev->info.name);
    if (cq->channel != NULL)
        ibv_destroy_comp_channel(cq->channel);
    free(cq);
}

static pgas_status_t open_cq(pgas_verbs_dev_t *base, uint32_t depth, uint32_t flags, pgas_verbs_cq_t **cq_p)
{
    mlx5_dev_t *dev = dev_of(base);
    mlx5_cq_t *cq = calloc(1, sizeof *cq);
    if (cq == NULL)
        return PGAS_ERR_NO_MEMORY;
    cq->raw.super.dev = base;
    pgas_status_t status = PGAS_OK;
    if ((flags & PGAS_VERBS_CQ_EVENTS) != 0 && (cq->channel = make_channel(dev->context)) == NULL)
        status = PGAS_ERR_IO;
    if (status == PGAS_OK && (cq->cq = make_cq(dev, cq, depth, flags)) == NULL)
        status = status_of(errno);
    struct mlx5dv_cq inside = { 0 };
    struct mlx5dv_obj object = { .cq = { .in = cq->cq, .out = &inside } };
    if (status == PGAS_OK && (mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ) != 0 || inside.cqe_size != sizeof(pgasi_cqe_t))) {
        PGASI_WARN("verbs", "%s: completions are not 64 bytes; unset MLX5_CQE_SIZE", base->info.name);
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
    *cq_p = &cq->raw.super;
    return PGAS_OK;
}

static pgas_status_t cq_descriptor(pgas_verbs_cq_t *base, int *fd_p)
{
    *fd_p = ((mlx5_cq_t *)(void *)base)->channel->fd;
    return PGAS_OK;
}

/* By hand, since libmlx5 does not know how far we have polled. An event is asked for with a count of the events before it, two bits, so
 * that the card can tell a new wish from an old one. */
static pgas_status_t arm_cq(pgas_verbs_cq_t *base, bool solicited)
{
    enum { SOLICITED = 1 << 24, COUNT_SHIFT = 28, ACK_AT = 1 << 20 };
    mlx5_cq_t *cq = (mlx5_cq_t *)(void *)base;
    struct ibv_cq *which;
    void *context;
    while (ibv_get_cq_event(cq->channel, &which, &context) == 0)
        cq->n_events++;
    uint32_t word = (cq->n_events & 3) << COUNT_SHIFT | (solicited ? SOLICITED : 0) | (cq->raw.ci & 0xffffff);
    uint64_t bell = htobe64((uint64_t)word << 32 | cq->raw.number);
    __atomic_store_n(&cq->raw.record[1], htobe32(word), __ATOMIC_RELEASE);
    order_stores();
    *(volatile uint64_t *)(void *)((char *)cq->page + CQ_DOORBELL) = bell;
    order_stores();
    bool there = pgasi_cqe_is_there(&cq->raw.ring[cq->raw.ci & cq->raw.mask], cq->raw.ci, cq->raw.mask + 1);
    return there ? PGAS_ERR_BUSY : PGAS_OK;
}

/* ---- shared receive queues ---- */

static void close_srq(pgas_verbs_srq_t *base)
{
    mlx5_srq_t *srq = (mlx5_srq_t *)(void *)base;
    pgasi_raw_enter_srq(&dev_of(base->dev)->raw, srq->raw.number, NULL);
    if (ibv_destroy_srq(srq->srq) != 0)
        PGASI_WARN("verbs", "%s: a shared receive queue cannot be closed", base->dev->info.name);
    pgasi_raw_srq_fini(&srq->raw);
    free(srq);
}

/* libmlx5 makes the ring, in two halves if it can; the first is ours, from slot 0 to its tail. */
static pgas_status_t take_srq(mlx5_dev_t *dev, mlx5_srq_t *srq)
{
    struct mlx5dv_srq inside = { .comp_mask = MLX5DV_SRQ_MASK_SRQN };
    struct mlx5dv_obj object = { .srq = { .in = srq->srq, .out = &inside } };
    if (mlx5dv_init_obj(&object, MLX5DV_OBJ_SRQ) != 0 || (inside.comp_mask & MLX5DV_SRQ_MASK_SRQN) == 0)
        return PGAS_ERR_UNSUPPORTED;
    srq->raw.number = inside.srqn;
    srq->raw.super.depth = inside.tail;
    pgas_status_t status = pgasi_raw_srq_init(&srq->raw, inside.buf, inside.tail + 1, inside.stride, (uint32_t *)inside.dbrec);
    return status == PGAS_OK ? pgasi_raw_enter_srq(&dev->raw, srq->raw.number, &srq->raw) : status;
}

static pgas_status_t open_srq(pgas_verbs_dev_t *base, uint32_t depth, uint32_t spans, pgas_verbs_srq_t **srq_p)
{
    mlx5_dev_t *dev = dev_of(base);
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = depth, .max_sge = spans } };
    mlx5_srq_t *srq = calloc(1, sizeof *srq);
    if (srq == NULL)
        return PGAS_ERR_NO_MEMORY;
    srq->raw.super.dev = base;
    srq->raw.super.spans = spans;
    srq->srq = ibv_create_srq(dev->pd, &attr);
    if (srq->srq == NULL) {
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

/* ---- queue pairs ---- */

static uint32_t log_of(uint32_t n)
{
    return n <= 1 ? 0 : 32 - (uint32_t)__builtin_clz(n - 1);
}

/* Sizes of the rings as powers of two, and where they lie. */
typedef struct {
    uint32_t log_blocks, log_strides, log_stride; /* of the send ring; of the receive ring, if there is one */
    bool has_rq;
    size_t rq_bytes, sq_bytes, record_at, bytes;
} layout_t;

static pgas_status_t lay_out(const pgas_verbs_qp_opts_t *opts, layout_t *layout_p)
{
    layout_t layout = { .log_blocks = log_of(pgasi_raw_blocks(opts)), .has_rq = opts->srq == NULL && opts->recv_depth > 0 };
    if (layout.has_rq) {
        layout.log_stride = log_of(pgasi_raw_stride(opts->recv_spans, false));
        layout.log_strides = log_of(opts->recv_depth);
        while (layout.log_strides + layout.log_stride < log_of(PGASI_WQE_BB)) /* the send ring begins on a block */
            layout.log_strides++;
        layout.rq_bytes = (size_t)1 << (layout.log_strides + layout.log_stride);
    }
    if (layout.log_blocks > RING_LOG_MAX || layout.log_strides > RING_LOG_MAX || layout.log_stride > STRIDE_LOG_MAX)
        return PGAS_ERR_LIMIT;
    layout.sq_bytes = (size_t)PGASI_WQE_BB << layout.log_blocks;
    layout.record_at = layout.rq_bytes + layout.sq_bytes;
    layout.bytes = layout.record_at + LINE;
    *layout_p = layout;
    return PGAS_OK;
}

static pgas_status_t explain(const mlx5_dev_t *dev, const char *what, int error, const unsigned char *out)
{
    PGASI_WARN("verbs", "%s: the card does not %s: %s, syndrome 0x%x", dev->raw.super.info.name, what, strerror(error),
               pgasi_prm_syndrome(out));
    return PGAS_ERR_IO;
}

static pgas_status_t create_object(mlx5_dev_t *dev, mlx5_qp_t *qp, const layout_t *layout)
{
    const pgas_verbs_qp_opts_t *opts = &qp->raw.super.opts;
    uint32_t srqn = opts->srq != NULL ? ((const mlx5_srq_t *)(const void *)opts->srq)->raw.number : 0;
    pgasi_prm_qp_t wanted = {
        .pd = dev->pdn, .uar_page = dev->uar->page_id, .umem = qp->umem->umem_id, .srqn = srqn, .user_index = srqn,
        .cqn_send = ((const mlx5_cq_t *)(const void *)opts->send_cq)->raw.number,
        .cqn_recv = ((const mlx5_cq_t *)(const void *)opts->recv_cq)->raw.number,
        .has_rq = layout->has_rq, .log_rq_entries = layout->log_strides, .log_rq_stride = layout->log_stride,
        .log_sq_blocks = layout->log_blocks, .record_offset = layout->record_at,
        .flags = (opts->flags & PGAS_VERBS_QP_MASTER ? PGASI_PRM_MASTER : 0) |
                 (opts->flags & PGAS_VERBS_QP_MANAGED_SEND ? PGASI_PRM_MANAGED_SEND : 0) |
                 (opts->flags & PGAS_VERBS_QP_MANAGED_RECV ? PGASI_PRM_MANAGED_RECV : 0),
    };
    unsigned char in[PGASI_PRM_CREATE_QP_BYTES], out[PGASI_PRM_ANSWER_BYTES] = { 0 };
    pgasi_prm_create_qp(in, &wanted);
    qp->object = mlx5dv_devx_obj_create(dev->context, in, sizeof in, out, sizeof out);
    if (qp->object == NULL)
        return explain(dev, "make a queue pair", errno, out);
    qp->raw.number = pgasi_prm_created_qpn(out);
    return PGAS_OK;
}

typedef void (*encode_fn_t)(unsigned char in[PGASI_PRM_MODIFY_QP_BYTES], const pgasi_prm_path_t *path);

static pgas_status_t modify(mlx5_dev_t *dev, mlx5_qp_t *qp, encode_fn_t encode, const pgasi_prm_path_t *path)
{
    unsigned char in[PGASI_PRM_MODIFY_QP_BYTES], out[PGASI_PRM_ANSWER_BYTES] = { 0 };
    encode(in, path);
    int error = mlx5dv_devx_obj_modify(qp->object, in, sizeof in, out, sizeof out);
    return error == 0 ? PGAS_OK : explain(dev, "change a queue pair's state", error, out);
}

static pgasi_prm_path_t begin_path(const mlx5_dev_t *dev, const mlx5_qp_t *qp)
{
    const pgas_verbs_qp_opts_t *opts = &qp->raw.super.opts;
    return (pgasi_prm_path_t){
        .qpn = qp->raw.number, .psn = qp->psn, .port = (uint8_t)dev->raw.super.info.port, .timeout = TIMEOUT,
        .rnr_timer = RNR_TIMER, .retry = opts->retry, .rnr_retry = opts->rnr_retry,
        .remote_read = opts->access & PGAS_VERBS_REMOTE_READ, .remote_write = opts->access & PGAS_VERBS_REMOTE_WRITE,
        .remote_atomic = opts->access & PGAS_VERBS_REMOTE_ATOMIC,
    };
}

/* Rings, records and the card's object; what it got this far is undone by close_qp. */
static pgas_status_t build_qp(mlx5_dev_t *dev, mlx5_qp_t *qp)
{
    pgas_verbs_qp_opts_t *opts = &qp->raw.super.opts;
    layout_t layout;
    pgas_status_t status = lay_out(opts, &layout);
    if (status != PGAS_OK)
        return status;
    void *memory = mmap(NULL, layout.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    qp->memory = memory;
    qp->bytes = layout.bytes;
    qp->umem = mlx5dv_devx_umem_reg(dev->context, memory, layout.bytes, IBV_ACCESS_LOCAL_WRITE);
    if (qp->umem == NULL)
        return register_status(errno);
    uint32_t *record = (uint32_t *)(void *)(qp->memory + layout.record_at);
    status = pgasi_raw_qp_init(&qp->raw, qp->memory + layout.rq_bytes, 1u << layout.log_blocks, qp->memory,
                               layout.has_rq ? 1u << layout.log_strides : 0, 1u << layout.log_stride, record);
    bool managed = opts->flags & PGAS_VERBS_QP_MANAGED_SEND;
    if (managed)
        qp->raw.sq.record = &qp->no_record;
    qp->raw.ring_bell = managed ? ring_nothing : ring;
    qp->bell = dev->uar->reg_addr;
    if (status == PGAS_OK && (opts->flags & PGAS_VERBS_QP_REMOTE_SLOTS)) {
        qp->slots = register_region(&dev->raw.super, qp->memory + layout.rq_bytes, layout.sq_bytes, PGAS_VERBS_ACCESS_ALL);
        status = qp->slots != NULL ? PGAS_OK : register_status(errno);
    }
    if (status == PGAS_OK)
        status = create_object(dev, qp, &layout);
    if (status != PGAS_OK)
        return status;
    qp->psn = (uint32_t)pgasi_hash_u64(pgasi_now_ns() ^ qp->raw.number) & 0xffffff;
    opts->recv_depth = layout.has_rq ? 1u << layout.log_strides : 0;
    pgasi_prm_path_t path = begin_path(dev, qp);
    status = modify(dev, qp, pgasi_prm_to_init, &path);
    return status == PGAS_OK ? pgasi_raw_enter_qp(&dev->raw, qp->raw.number, &qp->raw) : status;
}

static void close_qp(pgas_verbs_qp_t *base)
{
    mlx5_qp_t *qp = (mlx5_qp_t *)(void *)base;
    if (qp->object != NULL) {
        pgasi_raw_enter_qp(&dev_of(base->dev)->raw, qp->raw.number, NULL);
        if (mlx5dv_devx_obj_destroy(qp->object) != 0)
            PGASI_WARN("verbs", "%s: a queue pair cannot be closed", base->dev->info.name);
    }
    if (qp->slots != NULL)
        ibv_dereg_mr(qp->slots);
    if (qp->umem != NULL)
        mlx5dv_devx_umem_dereg(qp->umem);
    if (qp->memory != NULL)
        munmap(qp->memory, qp->bytes);
    pgasi_raw_qp_fini(&qp->raw);
    free(qp);
}

static pgas_status_t open_qp(pgas_verbs_dev_t *base, const pgas_verbs_qp_opts_t *opts, pgas_verbs_qp_t **qp_p)
{
    mlx5_qp_t *qp = calloc(1, sizeof *qp);
    if (qp == NULL)
        return PGAS_ERR_NO_MEMORY;
    qp->raw.super.dev = base;
    qp->raw.super.opts = *opts;
    pgas_status_t status = build_qp(dev_of(base), qp);
    if (status != PGAS_OK)
        close_qp(&qp->raw.super);
    else
        *qp_p = &qp->raw.super;
    return status;
}

/* ---- connecting ---- */

static void address_of(const pgas_verbs_qp_t *base, pgas_verbs_address_t *address_p)
{
    const mlx5_qp_t *qp = (const mlx5_qp_t *)(const void *)base;
    pgasi_rdma_address_t address = dev_of(base->dev)->at;
    address.qpn = qp->raw.number;
    address.psn = qp->psn;
    address.reads_max = (uint8_t)PGASI_MIN(base->dev->limits.reads_max, 255u);
    pgasi_rdma_address_pack(&address, address_p);
}

/* The kernel finds the peer's Ethernet address while it makes an address handle; that, and the port that packets come from, are read
 * out of it. */
static pgas_status_t resolve(mlx5_dev_t *dev, pgasi_prm_path_t *path)
{
    struct ibv_ah_attr attr = { .is_global = 1, .port_num = path->port,
                                .grh = { .sgid_index = path->gid_index, .hop_limit = path->hop_limit } };
    memcpy(attr.grh.dgid.raw, path->gid, sizeof path->gid);
    struct ibv_ah *handle = ibv_create_ah(dev->pd, &attr);
    struct mlx5dv_ah inside = { 0 };
    struct mlx5dv_obj object = { .ah = { .in = handle, .out = &inside } };
    if (handle == NULL || mlx5dv_init_obj(&object, MLX5DV_OBJ_AH) != 0) {
        int error = errno;
        PGASI_WARN("verbs", "%s: the peer's Ethernet address is not found: %s", dev->raw.super.info.name, strerror(error));
        if (handle != NULL)
            ibv_destroy_ah(handle);
        return error == ETIMEDOUT || error == EHOSTUNREACH ? PGAS_ERR_PEER : PGAS_ERR_IO;
    }
    memcpy(path->mac, inside.av->rmac, sizeof path->mac);
    path->udp_port = be16toh(inside.av->rlid);
    ibv_destroy_ah(handle);
    return PGAS_OK;
}

static pgas_status_t connect_qp(pgas_verbs_qp_t *base, const pgas_verbs_address_t *peer)
{
    mlx5_qp_t *qp = (mlx5_qp_t *)(void *)base;
    mlx5_dev_t *dev = dev_of(base->dev);
    pgasi_rdma_address_t to;
    pgas_status_t status = pgasi_rdma_address_unpack(peer, &to);
    if (status != PGAS_OK)
        return status;
    if (dev->at.is_global && !to.is_global)
        return PGAS_ERR_MISMATCH;
    pgasi_prm_path_t path = begin_path(dev, qp);
    path.peer_qpn = to.qpn;
    path.peer_psn = to.psn;
    path.mtu = PGASI_MIN(to.mtu, dev->at.mtu);
    path.log_reads_in = log_of(base->dev->limits.reads_max);
    path.log_reads = 31 - (uint32_t)__builtin_clz(PGASI_MAX(PGASI_MIN(base->opts.reads_max, (uint32_t)to.reads_max), 1u));
    path.ethernet = strncmp(base->dev->info.link, "RoCE", 4) == 0;
    path.is_global = dev->at.is_global;
    path.lid = to.lid;
    path.gid_index = (uint8_t)PGASI_MAX(base->dev->info.gid_index, 0);
    path.hop_limit = HOP_LIMIT;
    memcpy(path.gid, to.gid, sizeof path.gid);
    if (path.ethernet)
        status = resolve(dev, &path);
    if (status == PGAS_OK)
        status = modify(dev, qp, pgasi_prm_to_receive, &path);
    return status == PGAS_OK ? modify(dev, qp, pgasi_prm_to_send, &path) : status;
}

static pgas_status_t slots_of(pgas_verbs_qp_t *base, pgas_verbs_mem_t *mem_p, uint32_t *slot_bytes_p)
{
    describe(((mlx5_qp_t *)(void *)base)->slots, NULL, mem_p);
    *slot_bytes_p = PGASI_WQE_BB;
    return PGAS_OK;
}

const pgasi_verbs_ops_t pgasi_verbs_mlx5 = {
    .name = "mlx5",
    .list = list_devices,
    .open = open_device,
    .close = close_device,
    .mem_register = register_memory,
    .mem_alloc = alloc_memory,
    .mem_release = release_memory,
    .cq_open = open_cq,
    .cq_close = close_cq,
    .cq_poll = pgasi_raw_poll,
    .cq_fd = cq_descriptor,
    .cq_arm = arm_cq,
    .srq_open = open_srq,
    .srq_close = close_srq,
    .srq_recv = pgasi_raw_srq_recv,
    .qp_open = open_qp,
    .qp_close = close_qp,
    .qp_address = address_of,
    .qp_connect = connect_qp,
    .qp_write = pgasi_raw_write,
    .qp_ring = pgasi_raw_ring,
    .qp_position = pgasi_raw_position,
    .qp_recv = pgasi_raw_recv,
    .qp_buffer = slots_of,
};
