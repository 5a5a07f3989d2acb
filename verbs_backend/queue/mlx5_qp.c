/* Queue pairs of the provider "mlx5": their rings, their doorbell, and the connection to a peer.
 * - One page of doorbells serves all queue pairs: a doorbell is one store of eight bytes, and no
 *   two of them mix.
 * - The doorbell of a managed queue is never rung, and its record never written: either could start
 *   it on a card before its ENABLE.
 * - Receive completions contain the user index of a queue pair on new cards, and the number of its
 *   shared receive queue on old ones. So the index is set to that number. */
#include "verbs_backend/queue/mlx5.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "verbs_backend/queue/prm.h"

enum {
    STRIDE_LOG_MAX = 11,
    HOP_LIMIT = 64,
    TIMEOUT = 18,   /* 4 us * 2^18, a second, for each try */
    RNR_TIMER = 12, /* 0.64 ms */
    LINE = 64
};

typedef struct {
    pgasi_raw_qp_t raw;
    struct mlx5dv_devx_obj *object;
    struct mlx5dv_devx_umem *umem;
    unsigned char *memory; /* receive ring, send ring, record */
    size_t bytes;
    struct ibv_mr *slots; /* the send ring, if peers may write to it */
    volatile uint64_t *bell;
    uint32_t psn;
    uint32_t no_record; /* replaces the record of a managed queue */
} mlx5_qp_t;

static void ring(pgasi_raw_qp_t *raw)
{
    const mlx5_qp_t *qp = (const mlx5_qp_t *)(const void *)raw;
    uint64_t word;
    memcpy(&word, raw->last, sizeof word);
    pgasi_mlx5_order_stores();
    *qp->bell = word;
    pgasi_mlx5_order_stores();
}

static void ring_nothing(pgasi_raw_qp_t *raw)
{
    (void)raw;
}

/* Sizes of the rings as powers of two, and their places. */
typedef struct {
    /* of the send ring; of the receive ring, if there is one */
    uint32_t log_blocks, log_strides, log_stride;
    bool has_rq;
    size_t rq_bytes, sq_bytes, record_at, bytes;
} layout_t;

static pgas_status_t lay_out(const pgas_verbs_qp_opts_t *opts, layout_t *layout_p)
{
    layout_t layout = { .log_blocks = pgasi_log2_up(pgasi_raw_blocks(opts)),
                        .has_rq = !opts->srq && opts->recv_depth > 0 };
    if (layout.has_rq) {
        layout.log_stride = pgasi_log2_up(pgasi_raw_stride(opts->recv_spans, false));
        layout.log_strides = pgasi_log2_up(opts->recv_depth);
        /* the send ring begins on a block */
        while (layout.log_strides + layout.log_stride < pgasi_log2_up(PGASI_WQE_BB))
            layout.log_strides++;
        layout.rq_bytes = (size_t)1 << (layout.log_strides + layout.log_stride);
    }
    if (layout.log_blocks > PGASI_MLX5_RING_LOG_MAX ||
        layout.log_strides > PGASI_MLX5_RING_LOG_MAX || layout.log_stride > STRIDE_LOG_MAX)
        return PGAS_ERR_LIMIT;
    layout.sq_bytes = (size_t)PGASI_WQE_BB << layout.log_blocks;
    layout.record_at = layout.rq_bytes + layout.sq_bytes;
    layout.bytes = layout.record_at + LINE;
    *layout_p = layout;
    return PGAS_OK;
}

static pgas_status_t explain(const pgasi_mlx5_dev_t *dev, const char *what, int error,
                             const unsigned char *out)
{
    PGASI_WARN("verbs", "%s: the card does not %s: %s, syndrome 0x%x", dev->raw.super.info.name,
               what, strerror(error), pgasi_prm_syndrome(out));
    return PGAS_ERR_IO;
}

static pgas_status_t create_object(pgasi_mlx5_dev_t *dev, mlx5_qp_t *qp, const layout_t *layout)
{
    const pgas_verbs_qp_opts_t *opts = &qp->raw.super.opts;
    uint32_t srqn = opts->srq != NULL ? pgasi_mlx5_srq(opts->srq)->raw.number : 0;
    pgasi_prm_qp_t wanted = {
        .pd = dev->pdn,
        .uar_page = dev->uar->page_id,
        .umem = qp->umem->umem_id,
        .srqn = srqn,
        .user_index = srqn,
        .cqn_send = pgasi_mlx5_cq(opts->send_cq)->raw.number,
        .cqn_recv = pgasi_mlx5_cq(opts->recv_cq)->raw.number,
        .has_rq = layout->has_rq,
        .log_rq_entries = layout->log_strides,
        .log_rq_stride = layout->log_stride,
        .log_sq_blocks = layout->log_blocks,
        .record_offset = layout->record_at,
        .flags = (opts->flags & PGAS_VERBS_QP_MASTER ? PGASI_PRM_MASTER : 0) |
                 (opts->flags & PGAS_VERBS_QP_MANAGED_SEND ? PGASI_PRM_MANAGED_SEND : 0) |
                 (opts->flags & PGAS_VERBS_QP_MANAGED_RECV ? PGASI_PRM_MANAGED_RECV : 0),
    };
    unsigned char in[PGASI_PRM_CREATE_QP_BYTES], out[PGASI_PRM_ANSWER_BYTES] = { 0 };
    pgasi_prm_create_qp(in, &wanted);
    qp->object =
        pgasi_mlx5_lib.mlx5dv_devx_obj_create(dev->context, in, sizeof in, out, sizeof out);
    if (!qp->object)
        return explain(dev, "make a queue pair", errno, out);
    qp->raw.number = pgasi_prm_created_qpn(out);
    return PGAS_OK;
}

typedef void (*encode_fn_t)(unsigned char in[PGASI_PRM_MODIFY_QP_BYTES],
                            const pgasi_prm_path_t *path);

static pgas_status_t modify(pgasi_mlx5_dev_t *dev, mlx5_qp_t *qp, encode_fn_t encode,
                            const pgasi_prm_path_t *path)
{
    unsigned char in[PGASI_PRM_MODIFY_QP_BYTES], out[PGASI_PRM_ANSWER_BYTES] = { 0 };
    encode(in, path);
    int error = pgasi_mlx5_lib.mlx5dv_devx_obj_modify(qp->object, in, sizeof in, out, sizeof out);
    return error == 0 ? PGAS_OK : explain(dev, "change a queue pair's state", error, out);
}

static pgasi_prm_path_t begin_path(const pgasi_mlx5_dev_t *dev, const mlx5_qp_t *qp)
{
    const pgas_verbs_qp_opts_t *opts = &qp->raw.super.opts;
    return (pgasi_prm_path_t){
        .qpn = qp->raw.number,
        .psn = qp->psn,
        .port = (uint8_t)dev->raw.super.info.port,
        .timeout = TIMEOUT,
        .rnr_timer = RNR_TIMER,
        .retry = opts->retry,
        .rnr_retry = opts->rnr_retry,
        .remote_read = opts->access & PGAS_VERBS_REMOTE_READ,
        .remote_write = opts->access & PGAS_VERBS_REMOTE_WRITE,
        .remote_atomic = opts->access & PGAS_VERBS_REMOTE_ATOMIC,
    };
}

/* Makes rings, records and the card's object. After a failure pgasi_mlx5_qp_close undoes the
 * completed steps. */
static pgas_status_t build_qp(pgasi_mlx5_dev_t *dev, mlx5_qp_t *qp)
{
    pgas_verbs_qp_opts_t *opts = &qp->raw.super.opts;
    layout_t layout;
    pgas_status_t status = lay_out(opts, &layout);
    if (status != PGAS_OK)
        return status;
    void *memory =
        mmap(NULL, layout.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    qp->memory = memory;
    qp->bytes = layout.bytes;
    qp->umem = pgasi_mlx5_lib.mlx5dv_devx_umem_reg(dev->context, memory, layout.bytes,
                                                   IBV_ACCESS_LOCAL_WRITE);
    if (!qp->umem)
        return pgasi_rdma_register_status(errno);
    uint32_t *record = (uint32_t *)(void *)(qp->memory + layout.record_at);
    status = pgasi_raw_qp_init(&qp->raw, qp->memory + layout.rq_bytes, 1u << layout.log_blocks,
                               qp->memory, layout.has_rq ? 1u << layout.log_strides : 0,
                               1u << layout.log_stride, record);
    bool managed = opts->flags & PGAS_VERBS_QP_MANAGED_SEND;
    if (managed)
        qp->raw.sq.record = &qp->no_record;
    qp->raw.ring_doorbell = managed ? ring_nothing : ring;
    qp->bell = dev->uar->reg_addr;
    if (status == PGAS_OK && (opts->flags & PGAS_VERBS_QP_REMOTE_SLOTS)) {
        qp->slots = pgasi_rdma_register(&dev->raw.super, qp->memory + layout.rq_bytes,
                                        layout.sq_bytes, PGAS_VERBS_ACCESS_ALL);
        status = qp->slots != NULL ? PGAS_OK : pgasi_rdma_register_status(errno);
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

void pgasi_mlx5_qp_close(pgas_verbs_qp_t *base)
{
    mlx5_qp_t *qp = (mlx5_qp_t *)(void *)base;
    if (qp->object) {
        pgasi_raw_enter_qp(&pgasi_mlx5_dev(base->dev)->raw, qp->raw.number, NULL);
        if (pgasi_mlx5_lib.mlx5dv_devx_obj_destroy(qp->object) != 0)
            PGASI_WARN("verbs", "%s: a queue pair cannot be closed", base->dev->info.name);
    }
    if (qp->slots)
        pgasi_verbs_lib.ibv_dereg_mr(qp->slots);
    if (qp->umem)
        pgasi_mlx5_lib.mlx5dv_devx_umem_dereg(qp->umem);
    if (qp->memory)
        munmap(qp->memory, qp->bytes);
    pgasi_raw_qp_fini(&qp->raw);
    free(qp);
}

pgas_status_t pgasi_mlx5_qp_open(pgas_verbs_dev_t *base, const pgas_verbs_qp_opts_t *opts,
                                 pgas_verbs_qp_t **qp_p)
{
    mlx5_qp_t *qp = calloc(1, sizeof *qp);
    if (!qp)
        return PGAS_ERR_NO_MEMORY;
    qp->raw.super.dev = base;
    qp->raw.super.opts = *opts;
    pgas_status_t status = build_qp(pgasi_mlx5_dev(base), qp);
    if (status != PGAS_OK)
        pgasi_mlx5_qp_close(&qp->raw.super);
    else
        *qp_p = &qp->raw.super;
    return status;
}

/* ---- connecting ---- */

void pgasi_mlx5_qp_address(const pgas_verbs_qp_t *base, pgas_verbs_address_t *address_p)
{
    const mlx5_qp_t *qp = (const mlx5_qp_t *)(const void *)base;
    pgasi_rdma_address_t address = pgasi_mlx5_dev(base->dev)->at;
    address.qpn = qp->raw.number;
    address.psn = qp->psn;
    address.reads_max = (uint8_t)PGASI_MIN(base->dev->limits.reads_max, 255u);
    pgasi_rdma_address_pack(&address, address_p);
}

/* The kernel finds the peer's Ethernet address when it makes an address handle. The address and the
 * source port of packets are read out of the handle. */
static pgas_status_t resolve(pgasi_mlx5_dev_t *dev, pgasi_prm_path_t *path)
{
    struct ibv_ah_attr attr = { .is_global = 1,
                                .port_num = path->port,
                                .grh = { .sgid_index = path->gid_index,
                                         .hop_limit = path->hop_limit } };
    memcpy(attr.grh.dgid.raw, path->gid, sizeof path->gid);
    struct ibv_ah *handle = pgasi_verbs_lib.ibv_create_ah(dev->raw.super.pd, &attr);
    struct mlx5dv_ah inside = { 0 };
    struct mlx5dv_obj object = { .ah = { .in = handle, .out = &inside } };
    if (!handle || pgasi_mlx5_lib.mlx5dv_init_obj(&object, MLX5DV_OBJ_AH) != 0) {
        int error = errno;
        PGASI_WARN("verbs", "%s: the peer's Ethernet address is not found: %s",
                   dev->raw.super.info.name, strerror(error));
        if (handle)
            pgasi_verbs_lib.ibv_destroy_ah(handle);
        return error == ETIMEDOUT || error == EHOSTUNREACH ? PGAS_ERR_PEER : PGAS_ERR_IO;
    }
    memcpy(path->mac, inside.av->rmac, sizeof path->mac);
    path->udp_port = be16toh(inside.av->rlid);
    pgasi_verbs_lib.ibv_destroy_ah(handle);
    return PGAS_OK;
}

pgas_status_t pgasi_mlx5_qp_connect(pgas_verbs_qp_t *base, const pgas_verbs_address_t *peer)
{
    mlx5_qp_t *qp = (mlx5_qp_t *)(void *)base;
    pgasi_mlx5_dev_t *dev = pgasi_mlx5_dev(base->dev);
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
    path.log_reads_in = pgasi_log2_up(base->dev->limits.reads_max);
    path.log_reads =
        31 - (uint32_t)__builtin_clz(
                 PGASI_MAX(PGASI_MIN(base->opts.reads_max, (uint32_t)to.reads_max), 1u));
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

pgas_status_t pgasi_mlx5_qp_buffer(pgas_verbs_qp_t *base, pgas_verbs_mem_t *mem_p,
                                   uint32_t *slot_bytes_p)
{
    pgasi_rdma_describe(((mlx5_qp_t *)(void *)base)->slots, NULL, mem_p);
    *slot_bytes_p = PGASI_WQE_BB;
    return PGAS_OK;
}
