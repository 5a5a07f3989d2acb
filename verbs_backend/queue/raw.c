/* Writes entries and reads completions, in straight-line code, because every message passes here.
 * Positions are 32-bit counters that wrap; rings are powers of two. The device reads the record
 * words and the rings: an entry is written before the record (release), the record before the
 * doorbell. */
#include "verbs_backend/queue/raw.h"

#include "base/spin.h"

static pgasi_raw_qp_t *qp_of(pgas_verbs_qp_t *qp)
{
    return (pgasi_raw_qp_t *)(void *)qp;
}

/* Polling and posting may be two threads. */
static inline bool is_dead(const pgasi_raw_qp_t *qp)
{
    return __atomic_load_n(&qp->dead, __ATOMIC_RELAXED);
}

static void *look_up(void **const *pages, uint32_t number)
{
    void **page = __atomic_load_n(&pages[number / PGASI_RAW_PAGE], __ATOMIC_ACQUIRE);
    return !page ? NULL : __atomic_load_n(&page[number % PGASI_RAW_PAGE], __ATOMIC_SEQ_CST);
}

/* ---- sending ---- */

/* The place of the next segment, around the ring's end. */
static inline void *next_segment(const pgasi_raw_queue_t *sq, void *segment)
{
    unsigned char *next = (unsigned char *)segment + PGASI_WQE_SEGMENT;
    return PGAS_UNLIKELY(next == sq->ring + ((size_t)sq->mask + 1) * PGASI_WQE_BB) ? sq->ring
                                                                                   : next;
}

/* Writes data pointers and skips empty spans. @return segments; -1: too many spans or bytes */
static inline int put_spans(const pgasi_raw_qp_t *qp, void *segment, const pgas_verbs_request_t *r)
{
    if (PGAS_LIKELY(r->n_spans == 1 && r->spans[0].bytes - 1 < PGASI_WQE_INLINE)) {
        pgasi_wqe_set_data(segment, r->spans[0].addr, r->spans[0].bytes, r->spans[0].lkey);
        return 1;
    }
    uint64_t bytes = 0;
    int n = 0;
    if (r->n_spans > qp->super.opts.send_spans)
        return -1;
    for (uint32_t i = 0; i < r->n_spans; i++) {
        if (r->spans[i].bytes == 0)
            continue;
        bytes += r->spans[i].bytes;
        pgasi_wqe_set_data(segment, r->spans[i].addr, r->spans[i].bytes, r->spans[i].lkey);
        segment = next_segment(&qp->sq, segment);
        n++;
    }
    return bytes > qp->super.dev->limits.message_max ? -1 : n;
}

/* Writes inline data of several spans, or around the ring's end. */
static int put_inline_pieces(const pgasi_raw_qp_t *qp, const unsigned char *segment,
                             const pgas_verbs_request_t *r)
{
    size_t ring_bytes = ((size_t)qp->sq.mask + 1) * PGASI_WQE_BB,
           at = (size_t)(segment - qp->sq.ring), bytes = 0;
    for (uint32_t i = 0; i < r->n_spans; i++) {
        if (r->spans[i].bytes > qp->super.opts.inline_max - bytes)
            return -1;
        pgasi_wqe_copy_in(qp->sq.ring, ring_bytes, at + 4 + bytes,
                          (const void *)(uintptr_t)r->spans[i].addr, r->spans[i].bytes);
        bytes += r->spans[i].bytes;
    }
    uint32_t word = htobe32(PGASI_WQE_INLINE | (uint32_t)bytes);
    memcpy(qp->sq.ring + at, &word, sizeof word);
    return (int)pgasi_wqe_inline_segments(bytes);
}

static inline int put_inline(const pgasi_raw_qp_t *qp, unsigned char *segment,
                             const pgas_verbs_request_t *r)
{
    if (PGAS_LIKELY(r->n_spans == 1 && r->spans[0].bytes <= 12 && r->spans[0].bytes > 0)) {
        const char *from = (const char *)(uintptr_t)r->spans[0].addr;
        uint32_t bytes = r->spans[0].bytes, word = htobe32(PGASI_WQE_INLINE | bytes);
        memcpy(segment, &word, sizeof word);
        if (PGAS_LIKELY(bytes == 8))
            memcpy(segment + 4, from, 8);
        else
            memcpy(segment + 4, from, bytes);
        return bytes <= qp->super.opts.inline_max ? 1 : -1;
    }
    return put_inline_pieces(qp, segment, r);
}

static inline unsigned wire_flags(uint32_t flags)
{
    return (flags & PGAS_VERBS_SIGNAL) << 3 | (flags & PGAS_VERBS_SOLICITED) |
           (flags & PGAS_VERBS_FENCE) << 5;
}

/* Writes all other requests than sends and writes.
 * @return segments behind the control segment; -1: invalid */
static int put_others(const pgasi_raw_qp_t *qp, void *segment, const pgas_verbs_request_t *r,
                      pgasi_wqe_op_t *op_p)
{
    bool master = qp->super.opts.flags & PGAS_VERBS_QP_MASTER;
    switch (r->op) {
    case PGAS_VERBS_NOP:
        *op_p = PGASI_WQE_NOP;
        return 0;
    case PGAS_VERBS_READ:
        *op_p = PGASI_WQE_READ;
        pgasi_wqe_set_raddr(segment, r->remote_addr, r->rkey);
        int n = put_spans(qp, next_segment(&qp->sq, segment), r);
        return n < 0 ? n : n + 1;
    case PGAS_VERBS_CSWAP:
    case PGAS_VERBS_FADD:
        *op_p = r->op == PGAS_VERBS_CSWAP ? PGASI_WQE_CSWAP : PGASI_WQE_FADD;
        if (r->n_spans != 1 || r->spans[0].bytes != 8)
            return -1;
        pgasi_wqe_set_raddr(segment, r->remote_addr, r->rkey);
        segment = next_segment(&qp->sq, segment);
        pgasi_wqe_set_atomic(segment, r->operand, r->op == PGAS_VERBS_CSWAP ? r->compare : 0);
        segment = next_segment(&qp->sq, segment);
        pgasi_wqe_set_data(segment, r->spans[0].addr, 8, r->spans[0].lkey);
        return 3;
    case PGAS_VERBS_WAIT:
        *op_p = PGASI_WQE_WAIT;
        if (!master || !r->cq || r->cq->dev != qp->super.dev)
            return -1;
        const pgasi_raw_cq_t *cq = (const pgasi_raw_cq_t *)(const void *)r->cq;
        pgasi_wqe_set_enable(segment, (r->index + cq->start) & 0xffffffu, cq->number);
        return 1;
    case PGAS_VERBS_SEND_ENABLE:
    case PGAS_VERBS_RECV_ENABLE:
        *op_p = r->op == PGAS_VERBS_SEND_ENABLE ? PGASI_WQE_SEND_EN : PGASI_WQE_RECV_EN;
        if (!master || !r->qp || r->qp->dev != qp->super.dev)
            return -1;
        /* send positions include it */
        uint32_t start = r->op == PGAS_VERBS_RECV_ENABLE ? qp_of(r->qp)->rq.start : 0;
        pgasi_wqe_set_enable(segment, (r->index + start) & 0xffffu, qp_of(r->qp)->number);
        return 1;
    default:
        return -1;
    }
}

static inline pgas_status_t write_one(pgasi_raw_qp_t *qp, const pgas_verbs_request_t *r,
                                      uint32_t flags, uint64_t id)
{
    static const uint8_t ops[] = { [PGAS_VERBS_SEND] = PGASI_WQE_SEND,
                                   [PGAS_VERBS_SEND_IMM] = PGASI_WQE_SEND_IMM,
                                   [PGAS_VERBS_WRITE] = PGASI_WQE_WRITE,
                                   [PGAS_VERBS_WRITE_IMM] = PGASI_WQE_WRITE_IMM };
    pgasi_raw_queue_t *sq = &qp->sq;
    uint32_t at = sq->pi & sq->mask;
    if (PGAS_UNLIKELY(sq->pi - __atomic_load_n(&sq->ci, __ATOMIC_ACQUIRE) > qp->room))
        return PGAS_ERR_AGAIN;
    pgasi_wqe_ctrl_t *ctrl = (pgasi_wqe_ctrl_t *)(void *)(sq->ring + (size_t)at * PGASI_WQE_BB);
    void *segment = (char *)ctrl + PGASI_WQE_SEGMENT;
    pgasi_wqe_op_t op;
    int n, fixed = 1;
    if (PGAS_LIKELY(r->op <= PGAS_VERBS_WRITE_IMM)) {
        op = (pgasi_wqe_op_t)ops[r->op];
        if (r->op >= PGAS_VERBS_WRITE) {
            pgasi_wqe_set_raddr(segment, r->remote_addr, r->rkey);
            segment = (char *)segment + PGASI_WQE_SEGMENT;
            fixed = 2;
        }
        n = flags & PGAS_VERBS_INLINE ? put_inline(qp, segment, r) : put_spans(qp, segment, r);
    } else {
        n = put_others(qp, segment, r, &op);
    }
    if (PGAS_UNLIKELY(n < 0))
        return r->op <= PGAS_VERBS_READ ? PGAS_ERR_LIMIT : PGAS_ERR_INVALID;
    unsigned segments = (unsigned)(n + fixed);
    pgasi_wqe_set_ctrl(ctrl, sq->pi, op, qp->number, segments, wire_flags(flags), r->imm);
    sq->ids[at] = id;
    qp->last = ctrl;
    sq->pi += pgasi_wqe_blocks(segments);
    sq->ends[at] = sq->pi;
    return PGAS_OK;
}

pgas_status_t pgasi_raw_write(pgas_verbs_qp_t *base, const pgas_verbs_request_t *requests,
                              uint32_t n, uint32_t *n_p)
{
    pgasi_raw_qp_t *qp = qp_of(base);
    pgas_status_t status = PGAS_OK;
    uint32_t i = 0;
    if (PGAS_UNLIKELY(is_dead(qp)))
        status = PGAS_ERR_PEER;
    while (i < n && status == PGAS_OK) {
        status = write_one(qp, &requests[i], requests[i].flags, requests[i].id);
        i += status == PGAS_OK;
    }
    if (n_p)
        *n_p = i;
    return status;
}

pgas_status_t pgasi_raw_write_one(pgas_verbs_qp_t *base, const pgas_verbs_request_t *request,
                                  uint32_t flags, uint64_t id)
{
    pgasi_raw_qp_t *qp = qp_of(base);
    return PGAS_UNLIKELY(is_dead(qp)) ? PGAS_ERR_PEER : write_one(qp, request, flags, id);
}

pgas_status_t pgasi_raw_ring(pgas_verbs_qp_t *base)
{
    pgasi_raw_qp_t *qp = qp_of(base);
    pgasi_raw_queue_t *sq = &qp->sq;
    if (sq->rung == sq->pi)
        return PGAS_OK;
    sq->rung = sq->pi;
    __atomic_store_n(sq->record, htobe32(sq->pi & 0xffffu), __ATOMIC_RELEASE);
    qp->ring_doorbell(qp);
    return PGAS_OK;
}

uint32_t pgasi_raw_position(const pgas_verbs_qp_t *qp)
{
    return ((const pgasi_raw_qp_t *)(const void *)qp)->sq.pi;
}

/* ---- receiving ---- */

/* Whether a receive entry has few enough spans, none of which is too large for its field. */
static bool is_sound(const pgas_verbs_recv_t *recv, uint32_t n_max)
{
    bool sound = recv->n_spans <= n_max;
    for (uint32_t i = 0; i < recv->n_spans && sound; i++)
        sound = recv->spans[i].bytes <= PGASI_WQE_INLINE;
    return sound;
}

static void put_receive(unsigned char *at, uint32_t n_max, const pgas_verbs_recv_t *recv)
{
    pgasi_wqe_data_t *data = (pgasi_wqe_data_t *)(void *)at;
    uint32_t n = 0;
    for (uint32_t i = 0; i < recv->n_spans; i++) {
        if (recv->spans[i].bytes > 0)
            pgasi_wqe_set_data(&data[n++], recv->spans[i].addr, recv->spans[i].bytes,
                               recv->spans[i].lkey);
    }
    if (n < n_max) {
        data[n].bytes = 0;
        data[n].lkey = htobe32(PGASI_WQE_LKEY_END);
        data[n].addr = 0;
    }
}

pgas_status_t pgasi_raw_recv(pgas_verbs_qp_t *base, const pgas_verbs_recv_t *recvs, uint32_t n,
                             uint32_t *n_p)
{
    pgasi_raw_qp_t *qp = qp_of(base);
    pgasi_raw_queue_t *rq = &qp->rq;
    pgas_status_t status = qp->rq_stride == 0 ? PGAS_ERR_INVALID : PGAS_OK;
    uint32_t i = 0;
    for (; i < n && status == PGAS_OK; i++) {
        if (rq->pi - __atomic_load_n(&rq->ci, __ATOMIC_ACQUIRE) > rq->mask) {
            status = PGAS_ERR_AGAIN;
            break;
        }
        if (!is_sound(&recvs[i], base->opts.recv_spans)) {
            status = PGAS_ERR_LIMIT;
            break;
        }
        uint32_t at = rq->pi & rq->mask;
        put_receive(rq->ring + (size_t)at * qp->rq_stride, qp->rq_stride / PGASI_WQE_SEGMENT,
                    &recvs[i]);
        rq->ids[at] = recvs[i].id;
        rq->pi++;
    }
    if (i > 0)
        __atomic_store_n(rq->record, htobe32(rq->pi & 0xffffu), __ATOMIC_RELEASE);
    if (n_p)
        *n_p = i;
    return status;
}

static pgasi_raw_next_t *slot_of(const pgasi_raw_srq_t *srq, uint32_t slot)
{
    return (pgasi_raw_next_t *)(void *)(srq->ring + (size_t)slot * srq->stride);
}

pgas_status_t pgasi_raw_srq_recv(pgas_verbs_srq_t *base, const pgas_verbs_recv_t *recvs, uint32_t n,
                                 uint32_t *n_p)
{
    pgasi_raw_srq_t *srq = (pgasi_raw_srq_t *)(void *)base;
    pgas_status_t status = PGAS_OK;
    uint32_t i = 0;
    pgasi_spin_lock(&srq->lock, 0);
    for (; i < n; i++) {
        if (srq->head == srq->tail) {
            status = PGAS_ERR_AGAIN;
            break;
        }
        if (!is_sound(&recvs[i], base->spans)) {
            status = PGAS_ERR_LIMIT;
            break;
        }
        pgasi_raw_next_t *slot = slot_of(srq, srq->head);
        put_receive((unsigned char *)(slot + 1), srq->stride / PGASI_WQE_SEGMENT - 1, &recvs[i]);
        srq->ids[srq->head] = recvs[i].id;
        srq->head = be16toh(slot->next) & srq->mask; /* other processes may write this word */
        srq->pi++;
    }
    if (i > 0)
        __atomic_store_n(srq->record, htobe32(srq->pi & 0xffffu), __ATOMIC_RELEASE);
    pgasi_spin_unlock(&srq->lock);
    if (n_p)
        *n_p = i;
    return status;
}

/* Appends a slot to the free list. The device follows the same links. */
static uint64_t free_slot(pgasi_raw_srq_t *srq, uint32_t slot)
{
    slot &= srq->mask;
    pgasi_spin_lock(&srq->lock, 0);
    uint64_t id = srq->ids[slot];
    slot_of(srq, srq->tail)->next = htobe16((uint16_t)slot);
    srq->tail = slot;
    pgasi_spin_unlock(&srq->lock);
    return id;
}

/* ---- completions ---- */

static pgas_verbs_op_t op_of(uint8_t wqe_op)
{
    switch (wqe_op) {
    case PGASI_WQE_SEND:
        return PGAS_VERBS_SEND;
    case PGASI_WQE_SEND_IMM:
        return PGAS_VERBS_SEND_IMM;
    case PGASI_WQE_WRITE:
        return PGAS_VERBS_WRITE;
    case PGASI_WQE_WRITE_IMM:
        return PGAS_VERBS_WRITE_IMM;
    case PGASI_WQE_READ:
        return PGAS_VERBS_READ;
    case PGASI_WQE_CSWAP:
        return PGAS_VERBS_CSWAP;
    case PGASI_WQE_FADD:
        return PGAS_VERBS_FADD;
    case PGASI_WQE_WAIT:
        return PGAS_VERBS_WAIT;
    case PGASI_WQE_SEND_EN:
        return PGAS_VERBS_SEND_ENABLE;
    case PGASI_WQE_RECV_EN:
        return PGAS_VERBS_RECV_ENABLE;
    default:
        return PGAS_VERBS_NOP;
    }
}

static inline void sent(pgasi_raw_qp_t *qp, const pgasi_cqe_fields_t *cqe,
                        pgas_verbs_completion_t *c)
{
    uint32_t at = cqe->counter & qp->sq.mask;
    c->id = qp->sq.ids[at];
    c->op = op_of(cqe->wqe_op);
    __atomic_store_n(&qp->sq.ci, qp->sq.ends[at], __ATOMIC_RELEASE);
}

static inline void received(pgasi_raw_dev_t *dev, pgasi_raw_qp_t *qp, const pgasi_cqe_fields_t *cqe,
                            pgas_verbs_completion_t *c)
{
    pgasi_raw_srq_t *srq = cqe->srqn != 0 ? look_up(dev->srqs, cqe->srqn) : NULL;
    c->op = cqe->op == PGASI_CQE_RESP_WRITE_IMM ? PGAS_VERBS_RECV_WRITE_IMM : PGAS_VERBS_RECV;
    c->has_imm = cqe->op == PGASI_CQE_RESP_WRITE_IMM || cqe->op == PGASI_CQE_RESP_SEND_IMM;
    if (srq) {
        c->id = free_slot(srq, cqe->counter);
    } else if (qp && qp->rq_stride != 0) {
        c->id = qp->rq.ids[cqe->counter & qp->rq.mask];
        __atomic_store_n(&qp->rq.ci, qp->rq.ci + 1, __ATOMIC_RELEASE);
    }
}

static bool is_send(uint8_t op)
{
    return op == PGASI_CQE_REQ || op == PGASI_CQE_REQ_ERR;
}

static inline void take(pgasi_raw_cq_t *cq, const pgasi_cqe_t *cqe, pgas_verbs_completion_t *c)
{
    pgasi_raw_dev_t *dev = (pgasi_raw_dev_t *)(void *)cq->super.dev;
    pgasi_cqe_fields_t fields;
    bool known = pgasi_cqe_decode(cqe, &fields);
    pgasi_raw_qp_t *qp = look_up(dev->qps, fields.qpn);
    *c = (pgas_verbs_completion_t){ .qp = qp != NULL ? &qp->super : NULL,
                                    .bytes = fields.bytes,
                                    .imm = fields.imm };
    if (!is_send(fields.op))
        received(dev, qp, &fields, c);
    else if (qp)
        sent(qp, &fields, c);
    if (PGAS_UNLIKELY(!known || fields.op >= PGASI_CQE_REQ_ERR)) {
        c->syndrome = fields.syndrome;
        c->status = known && fields.syndrome != PGASI_CQE_OK
                        ? pgasi_verbs_syndrome_status(fields.syndrome)
                        : PGAS_ERR_TRANSPORT;
        c->bytes = 0;
        if (qp)
            __atomic_store_n(&qp->dead, true, __ATOMIC_RELAXED);
    }
}

/* @return NULL: there is none */
static inline const pgasi_cqe_t *next_completion(const pgasi_raw_cq_t *cq)
{
    const pgasi_cqe_t *cqe = &cq->ring[cq->ci & cq->mask];
    return pgasi_cqe_is_there(cqe, cq->ci, cq->mask + 1) ? cqe : NULL;
}

int pgasi_raw_poll(pgas_verbs_cq_t *base, pgas_verbs_completion_t *completions, int n)
{
    pgasi_raw_cq_t *cq = (pgasi_raw_cq_t *)(void *)base;
    const pgasi_cqe_t *cqe = next_completion(cq);
    int i = 0;
    if (!cqe)
        return 0;
    pgasi_verbs_round_begin(base);
    for (; i < n && cqe; i++) {
        take(cq, cqe, &completions[i]);
        cq->ci++;
        cqe = next_completion(cq);
    }
    __atomic_store_n(cq->record, htobe32(cq->ci & 0xffffffu), __ATOMIC_RELEASE);
    pgasi_verbs_round_end(base);
    return i;
}
