/* The provider "snic": shared receive queues and queue pairs, in the arena of device memory. */
#include "verbs_backend/queue/snic_qp.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    pgasi_verbs_address_head_t head;
    uint32_t qpn;
    uint32_t psn;
    pgasi_snic_id_t id;
} address_t;
PGASI_STATIC_ASSERT(sizeof(address_t) <= sizeof(pgas_verbs_address_t), "an address fits");

/* ---- shared receive queues ---- */

pgas_status_t pgasi_verbs_snic_srq_open(pgas_verbs_dev_t *base, uint32_t depth, uint32_t spans,
                                        pgas_verbs_srq_t **srq_p)
{
    pgasi_snic_dev_t *dev = pgasi_snic_dev_of(base);
    pgasi_snic_srq_queue_t *srq = calloc(1, sizeof *srq);
    if (!srq)
        return PGAS_ERR_NO_MEMORY;
    /* one slot stays free */
    uint32_t log = pgasi_log2_up(depth + 1), stride = pgasi_raw_stride(spans, true);
    size_t ring_bytes = (size_t)stride << log;
    void *ring;
    pgas_status_t status = PGAS_ERR_NO_MEMORY;
    srq->queue_bytes = ring_bytes + PGASI_SNIC_RECORD_BYTES;
    srq->queue = pgasi_snic_arena_take(dev->snic, srq->queue_bytes, PGASI_WQE_BB, &ring);
    if (srq->queue == 0)
        goto free_srq;
    status = pgasi_raw_srq_init(&srq->raw, ring, 1u << log, stride,
                                (uint32_t *)(void *)((char *)ring + ring_bytes));
    if (status != PGAS_OK)
        goto give_queue;
    pgasi_raw_srq_start(&srq->raw, dev->start);
    const pgasi_snic_srq_opts_t opts = { .log_entries = log,
                                         .stride = stride,
                                         .ring = srq->queue,
                                         .record = srq->queue + ring_bytes,
                                         .pd = dev->pd };
    srq->raw.number = pgasi_snic_srq_open(dev->snic, &opts);
    status = srq->raw.number == 0 ? PGAS_ERR_LIMIT
                                  : pgasi_raw_enter_srq(&dev->raw, srq->raw.number, &srq->raw);
    if (status != PGAS_OK)
        goto fini_raw;
    srq->raw.super.depth = (1u << log) - 1;
    srq->raw.super.spans = spans;
    *srq_p = &srq->raw.super;
    return PGAS_OK;
fini_raw:
    if (srq->raw.number != 0)
        pgasi_snic_srq_close(dev->snic, srq->raw.number);
    pgasi_raw_srq_fini(&srq->raw);
give_queue:
    pgasi_snic_arena_give(dev->snic, srq->queue, srq->queue_bytes);
free_srq:
    free(srq);
    return status;
}

void pgasi_verbs_snic_srq_close(pgas_verbs_srq_t *base)
{
    pgasi_snic_srq_queue_t *srq = (pgasi_snic_srq_queue_t *)(void *)base;
    pgasi_snic_dev_t *dev = pgasi_snic_dev_of(base->dev);
    pgasi_snic_srq_close(dev->snic, srq->raw.number);
    pgasi_raw_enter_srq(&dev->raw, srq->raw.number, NULL);
    pgasi_raw_srq_fini(&srq->raw);
    pgasi_snic_arena_give(dev->snic, srq->queue, srq->queue_bytes);
    free(srq);
}

pgas_status_t pgasi_verbs_snic_srq_recv(pgas_verbs_srq_t *base, const pgas_verbs_recv_t *recvs,
                                        uint32_t n, uint32_t *n_p)
{
    pgas_status_t status = pgasi_raw_srq_recv(base, recvs, n, n_p);
    pgasi_snic_srq_posted(pgasi_snic_dev_of(base->dev)->snic,
                          ((const pgasi_snic_srq_queue_t *)(const void *)base)->raw.number);
    return status;
}

/* ---- queue pairs ---- */

static pgasi_snic_qp_queue_t *qp_of(pgas_verbs_qp_t *qp)
{
    return (pgasi_snic_qp_queue_t *)(void *)qp;
}

static void ring_doorbell(pgasi_raw_qp_t *raw)
{
    pgasi_snic_ring(((pgasi_snic_qp_queue_t *)(void *)raw)->snic, raw->number, raw->sq.pi);
}

/* A doorbell would make the card execute entries of a managed queue. */
static void ring_nothing(pgasi_raw_qp_t *raw)
{
    (void)raw;
}

static uint32_t snic_flags(uint32_t flags)
{
    return (flags & PGAS_VERBS_QP_MASTER ? PGASI_SNIC_MASTER : 0) |
           (flags & PGAS_VERBS_QP_MANAGED_SEND ? PGASI_SNIC_MANAGED_SEND : 0) |
           (flags & PGAS_VERBS_QP_MANAGED_RECV ? PGASI_SNIC_MANAGED_RECV : 0) |
           (flags & PGAS_VERBS_QP_IGNORE_OVERRUN ? 0 : PGASI_SNIC_CHECK_OVERRUN);
}

static pgas_status_t make_queues(pgasi_snic_dev_t *dev, pgasi_snic_qp_queue_t *qp,
                                 pgasi_snic_qp_opts_t *snic_opts)
{
    const pgas_verbs_qp_opts_t *opts = &qp->raw.super.opts;
    uint32_t blocks = pgasi_raw_blocks(opts), stride = pgasi_raw_stride(opts->recv_spans, false);
    uint32_t strides = opts->recv_depth > 0 ? 1u << pgasi_log2_up(opts->recv_depth) : 0;
    if (blocks > PGASI_SNIC_QUEUE_MAX || strides > PGASI_SNIC_QUEUE_MAX)
        return PGAS_ERR_LIMIT;
    void *memory;
    size_t rq_bytes = (size_t)strides * stride;
    qp->sq_bytes = (size_t)blocks * PGASI_WQE_BB;
    qp->queue_bytes = qp->sq_bytes + PGASI_ALIGN_UP(rq_bytes, (size_t)64) + PGASI_SNIC_RECORD_BYTES;
    qp->queue = pgasi_snic_arena_take(dev->snic, qp->queue_bytes, 64, &memory);
    if (qp->queue == 0)
        return PGAS_ERR_NO_MEMORY;
    char *record = (char *)memory + qp->queue_bytes - PGASI_SNIC_RECORD_BYTES;
    snic_opts->log_sq_blocks = pgasi_log2_up(blocks);
    snic_opts->log_rq_entries = strides > 0 ? pgasi_log2_up(strides) : 0;
    snic_opts->rq_stride = strides > 0 ? stride : 0;
    snic_opts->sq = qp->queue;
    snic_opts->rq = qp->queue + qp->sq_bytes;
    snic_opts->record = qp->queue + qp->queue_bytes - PGASI_SNIC_RECORD_BYTES;
    pgas_status_t status =
        pgasi_raw_qp_init(&qp->raw, memory, blocks, (char *)memory + qp->sq_bytes, strides, stride,
                          (uint32_t *)(void *)record);
    if (status == PGAS_OK)
        pgasi_raw_qp_start(&qp->raw, dev->start);
    return status;
}

static void free_queues(pgasi_snic_dev_t *dev, pgasi_snic_qp_queue_t *qp)
{
    pgasi_raw_qp_fini(&qp->raw);
    if (qp->queue != 0)
        pgasi_snic_arena_give(dev->snic, qp->queue, qp->queue_bytes);
}

pgas_status_t pgasi_verbs_snic_qp_open(pgas_verbs_dev_t *base, const pgas_verbs_qp_opts_t *opts,
                                       pgas_verbs_qp_t **qp_p)
{
    pgasi_snic_dev_t *dev = pgasi_snic_dev_of(base);
    pgasi_snic_qp_queue_t *qp = calloc(1, sizeof *qp);
    if (!qp)
        return PGAS_ERR_NO_MEMORY;
    qp->raw.super.dev = base;
    qp->raw.super.opts = *opts;
    qp->snic = dev->snic;
    qp->raw.ring_doorbell = opts->flags & PGAS_VERBS_QP_MANAGED_SEND ? ring_nothing : ring_doorbell;
    pgasi_snic_qp_opts_t snic_opts = {
        .pd = dev->pd,
        .send_cqn = pgasi_snic_cq_of(opts->send_cq)->raw.number,
        .recv_cqn = pgasi_snic_cq_of(opts->recv_cq)->raw.number,
        .srqn = opts->srq != NULL ? ((pgasi_snic_srq_queue_t *)(void *)opts->srq)->raw.number : 0,
        .flags = snic_flags(opts->flags)
    };
    pgas_status_t status = make_queues(dev, qp, &snic_opts);
    if (status != PGAS_OK)
        goto free_qp;
    qp->raw.number = pgasi_snic_qp_open(dev->snic, &snic_opts);
    status = qp->raw.number == 0 ? PGAS_ERR_LIMIT
                                 : pgasi_raw_enter_qp(&dev->raw, qp->raw.number, &qp->raw);
    if (status != PGAS_OK)
        goto free_qp;
    const pgasi_snic_qp_state_t state = { .state = PGASI_SNIC_INIT, .access = opts->access };
    status = pgasi_snic_qp_modify(dev->snic, qp->raw.number, &state);
    if (status != PGAS_OK)
        goto free_qp;
    qp->raw.super.opts.inline_max = PGASI_MAX(opts->inline_max, 1u);
    *qp_p = &qp->raw.super;
    return PGAS_OK;
free_qp:
    if (qp->raw.number != 0) {
        pgasi_raw_enter_qp(&dev->raw, qp->raw.number, NULL);
        pgasi_snic_qp_close(dev->snic, qp->raw.number);
    }
    free_queues(dev, qp);
    free(qp);
    return status;
}

void pgasi_verbs_snic_qp_close(pgas_verbs_qp_t *base)
{
    pgasi_snic_qp_queue_t *qp = qp_of(base);
    pgasi_snic_dev_t *dev = pgasi_snic_dev_of(base->dev);
    pgasi_snic_qp_close(dev->snic, qp->raw.number);
    pgasi_raw_enter_qp(&dev->raw, qp->raw.number, NULL);
    if (qp->slots_key != 0)
        pgasi_snic_mr_close(dev->snic, qp->slots_key);
    free_queues(dev, qp);
    free(qp);
}

/* The number of the first message; both ends know it. */
static uint32_t first_psn(const pgasi_snic_dev_t *dev, uint32_t qpn)
{
    return (dev->start != 0 ? dev->start : qpn) & 0xffffffu;
}

void pgasi_verbs_snic_qp_address(const pgas_verbs_qp_t *base, pgas_verbs_address_t *address_p)
{
    const pgasi_raw_qp_t *qp = (const pgasi_raw_qp_t *)(const void *)base;
    const address_t address = { .head = { PGASI_VERBS_ADDRESS_MAGIC, PGASI_VERBS_WIRE_SNIC },
                                .qpn = qp->number,
                                .psn = first_psn(pgasi_snic_dev_of(base->dev), qp->number),
                                .id = pgasi_snic_dev_of(base->dev)->id };
    memcpy(address_p->bytes, &address, sizeof address);
}

pgas_status_t pgasi_verbs_snic_qp_connect(pgas_verbs_qp_t *base, const pgas_verbs_address_t *peer)
{
    pgasi_snic_qp_queue_t *qp = qp_of(base);
    pgasi_snic_dev_t *dev = pgasi_snic_dev_of(base->dev);
    address_t address;
    memcpy(&address, peer->bytes, sizeof address);
    if (address.head.provider != PGASI_VERBS_WIRE_SNIC)
        return PGAS_ERR_MISMATCH;
    pgasi_snic_qp_state_t state = { .state = PGASI_SNIC_RTR,
                                    .access = base->opts.access,
                                    .peer = &address.id,
                                    .peer_qpn = address.qpn,
                                    .reads_max_in = PGASI_SNIC_READS_MAX,
                                    .reads_max = base->opts.reads_max,
                                    .retry = base->opts.retry,
                                    .rnr_retry = base->opts.rnr_retry,
                                    .psn_in = address.psn,
                                    .psn = first_psn(dev, qp->raw.number) };
    pgas_status_t status = pgasi_snic_qp_modify(dev->snic, qp->raw.number, &state);
    if (status != PGAS_OK)
        return status;
    state.state = PGASI_SNIC_RTS;
    status = pgasi_snic_qp_modify(dev->snic, qp->raw.number, &state);
    bool ended = status == PGAS_ERR_INVALID &&
                 pgasi_snic_qp_query(dev->snic, qp->raw.number) == PGASI_SNIC_ERROR;
    /* the peer has already posted a request that was refused: completions report it */
    return ended ? PGAS_OK : status;
}

pgas_status_t pgasi_verbs_snic_qp_recv(pgas_verbs_qp_t *base, const pgas_verbs_recv_t *recvs,
                                       uint32_t n, uint32_t *n_p)
{
    pgas_status_t status = pgasi_raw_recv(base, recvs, n, n_p);
    pgasi_snic_recv_posted(qp_of(base)->snic, qp_of(base)->raw.number);
    return status;
}

pgas_status_t pgasi_verbs_snic_qp_buffer(pgas_verbs_qp_t *base, pgas_verbs_mem_t *mem_p,
                                         uint32_t *slot_bytes_p)
{
    pgasi_snic_qp_queue_t *qp = qp_of(base);
    pgasi_snic_dev_t *dev = pgasi_snic_dev_of(base->dev);
    if (qp->slots_key == 0) {
        uint64_t offset = qp->queue;
        qp->slots_key =
            pgasi_snic_mr_open(dev->snic, dev->pd, qp->raw.sq.ring, qp->sq_bytes,
                               PGAS_VERBS_ACCESS_ALL, pgasi_snic_devmem_fd(dev->snic), offset);
    }
    if (qp->slots_key == 0)
        return PGAS_ERR_LIMIT;
    *mem_p = (pgas_verbs_mem_t){
        .addr = qp->raw.sq.ring, .bytes = qp->sq_bytes, .lkey = qp->slots_key, .rkey = qp->slots_key
    };
    *slot_bytes_p = PGASI_WQE_BB;
    return PGAS_OK;
}
