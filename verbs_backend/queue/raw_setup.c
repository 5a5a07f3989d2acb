/* Sets up devices and queues of the providers mlx5 and snic. raw.c posts and polls. */
#include "verbs_backend/queue/raw.h"

#include <stdlib.h>

#define INLINE_MAX (PGASI_WQE_SEGMENTS_MAX * PGASI_WQE_SEGMENT - 2 * PGASI_WQE_SEGMENT - 4)

/* The most blocks that one request may take. */
static uint32_t request_blocks(const pgas_verbs_qp_opts_t *opts)
{
    unsigned segments =
        2 + PGASI_MAX(opts->send_spans, pgasi_wqe_inline_segments(opts->inline_max));
    return pgasi_wqe_blocks(PGASI_MAX(segments, 4u));
}

uint32_t pgasi_raw_blocks(const pgas_verbs_qp_opts_t *opts)
{
    return pgasi_pow2_up(opts->send_depth * request_blocks(opts));
}

uint32_t pgasi_raw_stride(uint32_t spans, bool linked)
{
    return pgasi_pow2_up((PGASI_MAX(spans, 1u) + (linked ? 1 : 0)) * PGASI_WQE_SEGMENT);
}

/* ---- devices ---- */

pgas_status_t pgasi_raw_dev_init(pgasi_raw_dev_t *dev)
{
    dev->super.limits.spans_max = PGASI_WQE_SEGMENTS_MAX - 2;
    dev->super.limits.inline_max = INLINE_MAX;
    dev->super.limits.message_max = UINT64_C(1) << 31;
    return pthread_mutex_init(&dev->lock, NULL) == 0 ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_raw_dev_fini(pgasi_raw_dev_t *dev)
{
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(dev->qps); i++) {
        free(dev->qps[i]);
        free(dev->srqs[i]);
    }
    pthread_mutex_destroy(&dev->lock);
}

/* On return no polling thread uses an object that was removed from the tables. */
static void await_pollers(const pgasi_raw_dev_t *dev)
{
    for (const pgasi_raw_cq_t *cq = dev->cqs; cq != NULL; cq = cq->next)
        pgasi_verbs_await_poller(&cq->super);
}

/* Polling threads read the tables without the lock, so a page is entered complete, and stays. */
static pgas_status_t enter(pgasi_raw_dev_t *dev, void ***pages, uint32_t number, void *object)
{
    pgas_status_t status = PGAS_OK;
    pthread_mutex_lock(&dev->lock);
    void **page = pages[number / PGASI_RAW_PAGE];
    if (!page) {
        page = calloc(PGASI_RAW_PAGE, sizeof(void *));
        __atomic_store_n(&pages[number / PGASI_RAW_PAGE], page, __ATOMIC_RELEASE);
    }
    if (page)
        __atomic_store_n(&page[number % PGASI_RAW_PAGE], object, __ATOMIC_SEQ_CST);
    else
        status = PGAS_ERR_NO_MEMORY;
    if (!object)
        await_pollers(dev);
    pthread_mutex_unlock(&dev->lock);
    return status;
}

pgas_status_t pgasi_raw_enter_qp(pgasi_raw_dev_t *dev, uint32_t number, pgasi_raw_qp_t *qp)
{
    return enter(dev, dev->qps, number, qp);
}

pgas_status_t pgasi_raw_enter_srq(pgasi_raw_dev_t *dev, uint32_t number, pgasi_raw_srq_t *srq)
{
    return enter(dev, dev->srqs, number, srq);
}

void pgasi_raw_enter_cq(pgasi_raw_dev_t *dev, pgasi_raw_cq_t *cq)
{
    pthread_mutex_lock(&dev->lock);
    cq->next = dev->cqs;
    dev->cqs = cq;
    pthread_mutex_unlock(&dev->lock);
}

void pgasi_raw_leave_cq(pgasi_raw_dev_t *dev, pgasi_raw_cq_t *cq)
{
    pthread_mutex_lock(&dev->lock);
    pgasi_raw_cq_t **link = &dev->cqs;
    while (*link && *link != cq)
        link = &(*link)->next;
    if (*link)
        *link = cq->next;
    pthread_mutex_unlock(&dev->lock);
}

/* ---- queues ---- */

static pgas_status_t queue_init(pgasi_raw_queue_t *queue, void *ring, uint32_t n, uint32_t *record,
                                bool send)
{
    *queue = (pgasi_raw_queue_t){ .ring = ring, .mask = n - 1, .record = record };
    queue->ids = calloc(n, sizeof *queue->ids);
    queue->ends = send ? calloc(n, sizeof *queue->ends) : NULL;
    return !queue->ids || (send && !queue->ends) ? PGAS_ERR_NO_MEMORY : PGAS_OK;
}

pgas_status_t pgasi_raw_qp_init(pgasi_raw_qp_t *qp, void *sq, uint32_t sq_blocks, void *rq,
                                uint32_t rq_strides, uint32_t rq_stride, uint32_t *record)
{
    uint32_t most = request_blocks(&qp->super.opts);
    bool ignore = qp->super.opts.flags & PGAS_VERBS_QP_IGNORE_OVERRUN;
    qp->room = ignore ? UINT32_MAX : sq_blocks - most;
    qp->rq_stride = rq_strides > 0 ? rq_stride : 0;
    pgas_status_t status = queue_init(&qp->sq, sq, sq_blocks, &record[1], true);
    if (status == PGAS_OK && rq_strides > 0)
        status = queue_init(&qp->rq, rq, rq_strides, &record[0], false);
    return status;
}

void pgasi_raw_qp_fini(pgasi_raw_qp_t *qp)
{
    free(qp->sq.ids);
    free(qp->sq.ends);
    free(qp->rq.ids);
}

void pgasi_raw_cq_init(pgasi_raw_cq_t *cq, void *ring, uint32_t n, uint32_t *record)
{
    cq->ring = ring;
    cq->mask = n - 1;
    cq->record = record;
    for (uint32_t i = 0; i < n; i++)
        cq->ring[i].op_own = PGASI_CQE_INVALID << 4 | 1;
}

pgas_status_t pgasi_raw_srq_init(pgasi_raw_srq_t *srq, void *ring, uint32_t n, uint32_t stride,
                                 uint32_t *record)
{
    srq->ring = ring;
    srq->mask = n - 1;
    srq->stride = stride;
    srq->record = record;
    srq->tail = n - 1;
    for (uint32_t i = 0; i < n; i++) {
        pgasi_raw_next_t *next = (pgasi_raw_next_t *)(void *)(srq->ring + (size_t)i * stride);
        *next = (pgasi_raw_next_t){ .next = htobe16((uint16_t)((i + 1) & srq->mask)) };
    }
    srq->ids = calloc(n, sizeof *srq->ids);
    return !srq->ids ? PGAS_ERR_NO_MEMORY : PGAS_OK;
}

void pgasi_raw_srq_fini(pgasi_raw_srq_t *srq)
{
    free(srq->ids);
}

static void start_queue(pgasi_raw_queue_t *queue, uint32_t start)
{
    queue->pi = queue->rung = queue->ci = queue->start = start;
    *queue->record = htobe32(start & 0xffffu);
}

void pgasi_raw_qp_start(pgasi_raw_qp_t *qp, uint32_t start)
{
    start_queue(&qp->sq, start);
    if (qp->rq_stride != 0)
        start_queue(&qp->rq, start);
}

void pgasi_raw_cq_start(pgasi_raw_cq_t *cq, uint32_t start)
{
    cq->ci = cq->start = start;
    cq->record[0] = htobe32(start & 0xffffffu);
}

void pgasi_raw_srq_start(pgasi_raw_srq_t *srq, uint32_t start)
{
    srq->pi = start;
    *srq->record = htobe32(start & 0xffffu);
}
