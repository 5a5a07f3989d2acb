/* Posts and polls through libibverbs. A completion covers all earlier requests too, so it moves ci
 * behind its own position. In this way unsignaled requests leave the queue, which therefore never
 * overflows. */
#include "verbs_backend/queue/ibv.h"

#include <errno.h>
#include <string.h>
#include "base/log.h"
#include "base/spin.h"
#include "verbs_backend/wqe.h"

#define POLL_BATCH   16
#define EVENTS_EVERY 1024u /* empty polls between two checks for events */

/* ---- sending ---- */

static inline uint64_t wr_id_of(uint64_t kind, uint32_t serial, uint32_t position)
{
    return kind | (uint64_t)serial << 32 | position;
}

/* Posts the staged requests. A request that the device refuses is lost, and so is the connection;
 * the cause is an error of the library or of the device. */
static pgas_status_t post(pgasi_ibv_qp_t *qp)
{
    struct ibv_send_wr *bad = NULL;
    if (qp->n_staged == 0)
        return PGAS_OK;
    qp->wrs[qp->n_staged - 1].next = NULL;
    int error = ibv_post_send(qp->qp, qp->wrs, &bad);
    qp->n_staged = 0;
    if (PGAS_LIKELY(error == 0))
        return PGAS_OK;
    if (__atomic_load_n(&qp->dead, __ATOMIC_ACQUIRE)) /* some devices accept nothing more then */
        return PGAS_ERR_PEER;
    PGASI_ERROR("verbs", "%s: a request to queue pair %u was refused: %s", qp->super.dev->info.name,
                qp->qp->qp_num, strerror(error));
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    pgasi_verbs_lib.ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE);
    __atomic_store_n(&qp->dead, true, __ATOMIC_RELEASE);
    return PGAS_ERR_TRANSPORT;
}

/* Copies the bytes of all spans into one. */
static pgas_status_t stage_inline(pgasi_ibv_qp_t *qp, struct ibv_send_wr *wr,
                                  const pgas_verbs_request_t *r)
{
    uint32_t most = qp->super.opts.inline_max, bytes = 0;
    unsigned char *to = qp->inlined + (size_t)qp->n_staged * most;
    for (uint32_t i = 0; i < r->n_spans; i++) {
        if (r->spans[i].bytes > most - bytes)
            return PGAS_ERR_LIMIT;
        if (r->spans[i].bytes > 0)
            memcpy(to + bytes, (const void *)(uintptr_t)r->spans[i].addr, r->spans[i].bytes);
        bytes += r->spans[i].bytes;
    }
    wr->sg_list[0] = (struct ibv_sge){ .addr = (uintptr_t)to, .length = bytes };
    wr->num_sge = bytes > 0;
    return PGAS_OK;
}

/* @return PGAS_OK  *bytes_p is the number of bytes
 *         PGAS_ERR_LIMIT */
static pgas_status_t stage_spans(pgasi_ibv_qp_t *qp, struct ibv_send_wr *wr,
                                 const pgas_verbs_request_t *r, uint32_t *bytes_p)
{
    uint64_t bytes = 0;
    if (r->n_spans > qp->super.opts.send_spans)
        return PGAS_ERR_LIMIT;
    wr->num_sge = 0;
    for (uint32_t i = 0; i < r->n_spans; i++) {
        if (r->spans[i].bytes == 0) /* libibverbs may take 0 for 2 GiB */
            continue;
        wr->sg_list[wr->num_sge++] = (struct ibv_sge){ .addr = r->spans[i].addr,
                                                       .length = r->spans[i].bytes,
                                                       .lkey = r->spans[i].lkey };
        bytes += r->spans[i].bytes;
    }
    *bytes_p = (uint32_t)bytes;
    return bytes > qp->super.dev->limits.message_max ? PGAS_ERR_LIMIT : PGAS_OK;
}

static pgas_status_t stage_atomic(pgasi_ibv_qp_t *qp, struct ibv_send_wr *wr,
                                  const pgas_verbs_request_t *r, uint32_t *bytes_p)
{
    const pgasi_ibv_dev_t *dev = pgasi_ibv_dev(qp->super.dev);
    bool swaps = r->op == PGAS_VERBS_CSWAP;
    if (!dev->atomics)
        return PGAS_ERR_UNSUPPORTED;
    if (r->n_spans != 1 || r->spans[0].bytes != 8 || r->remote_addr % 8 != 0)
        return PGAS_ERR_INVALID;
    wr->opcode = swaps ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr->wr.atomic.remote_addr = r->remote_addr;
    wr->wr.atomic.rkey = r->rkey;
    wr->wr.atomic.compare_add = swaps ? r->compare : r->operand;
    wr->wr.atomic.swap = swaps ? r->operand : 0;
    return stage_spans(qp, wr, r, bytes_p);
}

/* Fills the next place of the list. @param bytes_p  bytes that the request reads */
static pgas_status_t stage(pgasi_ibv_qp_t *qp, struct ibv_send_wr *wr,
                           const pgas_verbs_request_t *r, uint32_t *bytes_p)
{
    static const enum ibv_wr_opcode opcodes[] = { [PGAS_VERBS_SEND] = IBV_WR_SEND,
                                                  [PGAS_VERBS_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
                                                  [PGAS_VERBS_WRITE] = IBV_WR_RDMA_WRITE,
                                                  [PGAS_VERBS_WRITE_IMM] =
                                                      IBV_WR_RDMA_WRITE_WITH_IMM,
                                                  [PGAS_VERBS_READ] = IBV_WR_RDMA_READ };
    wr->send_flags = (r->flags & PGAS_VERBS_SIGNAL ? IBV_SEND_SIGNALED : 0) |
                     (r->flags & PGAS_VERBS_SOLICITED ? IBV_SEND_SOLICITED : 0) |
                     (r->flags & PGAS_VERBS_FENCE ? IBV_SEND_FENCE : 0);
    switch (r->op) {
    case PGAS_VERBS_SEND:
    case PGAS_VERBS_SEND_IMM:
    case PGAS_VERBS_WRITE:
    case PGAS_VERBS_WRITE_IMM:
    case PGAS_VERBS_READ:
        wr->opcode = opcodes[r->op];
        wr->imm_data = htobe32(r->imm);
        wr->wr.rdma.remote_addr = r->remote_addr;
        wr->wr.rdma.rkey = r->rkey;
        if ((r->flags & PGAS_VERBS_INLINE) == 0 || r->op == PGAS_VERBS_READ)
            return stage_spans(qp, wr, r, bytes_p);
        wr->send_flags |= IBV_SEND_INLINE;
        return stage_inline(qp, wr, r);
    case PGAS_VERBS_CSWAP:
    case PGAS_VERBS_FADD:
        return stage_atomic(qp, wr, r, bytes_p);
    case PGAS_VERBS_NOP:
        wr->opcode = IBV_WR_RDMA_WRITE;
        wr->wr.rdma.remote_addr = 0;
        wr->wr.rdma.rkey = 0;
        wr->num_sge = 0;
        return PGAS_OK;
    case PGAS_VERBS_WAIT:
    case PGAS_VERBS_SEND_ENABLE:
    case PGAS_VERBS_RECV_ENABLE:
        return PGAS_ERR_UNSUPPORTED;
    default:
        return PGAS_ERR_INVALID;
    }
}

static pgas_status_t write_one(pgasi_ibv_qp_t *qp, const pgas_verbs_request_t *r)
{
    uint32_t bytes = 0;
    if (PGAS_UNLIKELY(__atomic_load_n(&qp->dead, __ATOMIC_RELAXED)))
        return PGAS_ERR_PEER;
    if (qp->sq_pi - __atomic_load_n(&qp->sq_ci, __ATOMIC_ACQUIRE) >= qp->super.opts.send_depth)
        return PGAS_ERR_AGAIN;
    if (qp->n_staged == PGASI_IBV_STAGE) {
        pgas_status_t posted = post(qp);
        if (posted != PGAS_OK)
            return posted;
    }
    struct ibv_send_wr *wr = &qp->wrs[qp->n_staged];
    pgas_status_t status = stage(qp, wr, r, &bytes);
    if (status != PGAS_OK)
        return status;
    bool reads = r->op == PGAS_VERBS_READ || r->op == PGAS_VERBS_CSWAP || r->op == PGAS_VERBS_FADD;
    qp->sent[qp->sq_pi & qp->sq_mask] =
        (pgasi_ibv_note_t){ .id = r->id, .bytes = reads ? bytes : 0, .op = (uint8_t)r->op };
    wr->wr_id = wr_id_of(0, qp->serial, qp->sq_pi);
    wr->next = wr + 1; /* post ends the list here */
    qp->sq_pi++;
    qp->n_staged++;
    return PGAS_OK;
}

pgas_status_t pgasi_ibv_write(pgas_verbs_qp_t *base, const pgas_verbs_request_t *requests,
                              uint32_t n, uint32_t *n_p)
{
    pgas_status_t status = PGAS_OK;
    uint32_t i = 0;
    while (i < n && (status = write_one(pgasi_ibv_qp(base), &requests[i])) == PGAS_OK)
        i++;
    if (n_p)
        *n_p = i;
    return status;
}

pgas_status_t pgasi_ibv_ring(pgas_verbs_qp_t *base)
{
    return post(pgasi_ibv_qp(base));
}

uint32_t pgasi_ibv_position(const pgas_verbs_qp_t *base)
{
    return ((const pgasi_ibv_qp_t *)(const void *)base)->sq_pi;
}

/* ---- receiving ---- */

static int fill_spans(struct ibv_sge *to, const pgas_verbs_recv_t *recv)
{
    int n = 0;
    for (uint32_t i = 0; i < recv->n_spans; i++) {
        if (recv->spans[i].bytes > 0)
            to[n++] = (struct ibv_sge){ .addr = recv->spans[i].addr,
                                        .length = recv->spans[i].bytes,
                                        .lkey = recv->spans[i].lkey };
    }
    return n;
}

static pgas_status_t recv_one(pgasi_ibv_qp_t *qp, const pgas_verbs_recv_t *recv)
{
    struct ibv_recv_wr *bad, wr = { .wr_id = wr_id_of(PGASI_IBV_RECV, qp->serial, qp->rq_pi),
                                    .sg_list = qp->recv_spans };
    if (recv->n_spans > qp->super.opts.recv_spans)
        return PGAS_ERR_LIMIT;
    if (qp->rq_pi - __atomic_load_n(&qp->rq_ci, __ATOMIC_ACQUIRE) >= qp->super.opts.recv_depth)
        return PGAS_ERR_AGAIN;
    wr.num_sge = fill_spans(qp->recv_spans, recv);
    qp->received[qp->rq_pi & qp->rq_mask] = recv->id;
    if (ibv_post_recv(qp->qp, &wr, &bad) != 0)
        return PGAS_ERR_TRANSPORT;
    qp->rq_pi++;
    return PGAS_OK;
}

pgas_status_t pgasi_ibv_recv(pgas_verbs_qp_t *base, const pgas_verbs_recv_t *recvs, uint32_t n,
                             uint32_t *n_p)
{
    pgas_status_t status = base->opts.recv_depth == 0 ? PGAS_ERR_INVALID : PGAS_OK;
    uint32_t i = 0;
    while (i < n && status == PGAS_OK &&
           (status = recv_one(pgasi_ibv_qp(base), &recvs[i])) == PGAS_OK)
        i++;
    if (n_p)
        *n_p = i;
    return status;
}

static uint64_t free_slot(pgasi_ibv_srq_t *srq, uint32_t slot)
{
    pgasi_spin_lock(&srq->lock, 0);
    uint64_t id = srq->ids[slot];
    srq->free_slots[srq->n_free++] = slot;
    pgasi_spin_unlock(&srq->lock);
    return id;
}

/* The lock is held. */
static pgas_status_t srq_recv_one(pgasi_ibv_srq_t *srq, const pgas_verbs_recv_t *recv)
{
    struct ibv_recv_wr *bad, wr = { .sg_list = srq->spans };
    if (recv->n_spans > srq->super.spans)
        return PGAS_ERR_LIMIT;
    if (srq->n_free == 0)
        return PGAS_ERR_AGAIN;
    uint32_t slot = srq->free_slots[srq->n_free - 1];
    srq->ids[slot] = recv->id;
    wr.wr_id = wr_id_of(PGASI_IBV_RECV | PGASI_IBV_SRQ, srq->serial, slot);
    wr.num_sge = fill_spans(srq->spans, recv);
    if (ibv_post_srq_recv(srq->srq, &wr, &bad) != 0)
        return PGAS_ERR_TRANSPORT;
    srq->n_free--;
    return PGAS_OK;
}

pgas_status_t pgasi_ibv_srq_recv(pgas_verbs_srq_t *base, const pgas_verbs_recv_t *recvs, uint32_t n,
                                 uint32_t *n_p)
{
    pgasi_ibv_srq_t *srq = pgasi_ibv_srq(base);
    pgas_status_t status = PGAS_OK;
    uint32_t i = 0;
    pgasi_spin_lock(&srq->lock, 0);
    while (i < n && (status = srq_recv_one(srq, &recvs[i])) == PGAS_OK)
        i++;
    pgasi_spin_unlock(&srq->lock);
    if (n_p)
        *n_p = i;
    return status;
}

/* ---- completions ---- */

/* The syndrome of mlx5 with the same meaning, so that all providers report errors in the same
 * way. */
static uint32_t syndrome_of(enum ibv_wc_status status)
{
    static const uint8_t syndromes[] = { [IBV_WC_LOC_LEN_ERR] = PGASI_CQE_LOCAL_LENGTH,
                                         [IBV_WC_LOC_QP_OP_ERR] = PGASI_CQE_LOCAL_QP_OP,
                                         [IBV_WC_LOC_PROT_ERR] = PGASI_CQE_LOCAL_PROT,
                                         [IBV_WC_WR_FLUSH_ERR] = PGASI_CQE_FLUSHED,
                                         [IBV_WC_MW_BIND_ERR] = PGASI_CQE_MW_BIND,
                                         [IBV_WC_BAD_RESP_ERR] = PGASI_CQE_BAD_RESP,
                                         [IBV_WC_LOC_ACCESS_ERR] = PGASI_CQE_LOCAL_ACCESS,
                                         [IBV_WC_REM_INV_REQ_ERR] = PGASI_CQE_REMOTE_INVALID,
                                         [IBV_WC_REM_ACCESS_ERR] = PGASI_CQE_REMOTE_ACCESS,
                                         [IBV_WC_REM_OP_ERR] = PGASI_CQE_REMOTE_OP,
                                         [IBV_WC_RETRY_EXC_ERR] = PGASI_CQE_RETRY,
                                         [IBV_WC_RNR_RETRY_EXC_ERR] = PGASI_CQE_RNR_RETRY,
                                         [IBV_WC_REM_ABORT_ERR] = PGASI_CQE_REMOTE_ABORTED };
    uint32_t syndrome = (unsigned)status < sizeof syndromes ? syndromes[status] : 0;
    return syndrome != 0 ? syndrome : PGASI_CQE_BAD_RESP;
}

/* @return NULL: it was closed meanwhile */
static pgasi_ibv_qp_t *find_qp(pgasi_ibv_dev_t *dev, uint32_t number)
{
    pgasi_ibv_qp_t **page =
        __atomic_load_n(&dev->pages[(number & 0xffffffu) / PGASI_IBV_PAGE], __ATOMIC_ACQUIRE);
    return !page ? NULL : __atomic_load_n(&page[number % PGASI_IBV_PAGE], __ATOMIC_ACQUIRE);
}

/* Frees a slot of the shared receive queue with a serial. Mostly it is the queue of the queue pair,
 * which keeps it open; others may be closed at any moment.
 * @return the queue, only for comparison; NULL: it was closed meanwhile */
static const pgas_verbs_srq_t *give_back(pgasi_ibv_dev_t *dev, const pgasi_ibv_qp_t *qp,
                                         uint32_t serial, uint32_t slot, uint64_t *id_p)
{
    pgasi_ibv_srq_t *srq = qp && qp->super.opts.srq ? pgasi_ibv_srq(qp->super.opts.srq) : NULL;
    if (srq && srq->serial == serial) {
        *id_p = free_slot(srq, slot);
        return &srq->super;
    }
    pthread_mutex_lock(&dev->lock);
    for (srq = dev->srqs; srq != NULL && srq->serial != serial; srq = srq->next)
        ;
    if (srq)
        *id_p = free_slot(srq, slot);
    pthread_mutex_unlock(&dev->lock);
    return srq ? &srq->super : NULL;
}

static void take_sent(pgasi_ibv_qp_t *qp, const struct ibv_wc *wc, pgas_verbs_completion_t *c)
{
    uint32_t position = (uint32_t)wc->wr_id;
    const pgasi_ibv_note_t *note = &qp->sent[position & qp->sq_mask];
    c->id = note->id;
    c->op = (pgas_verbs_op_t)note->op;
    c->bytes = note->bytes;
    __atomic_store_n(&qp->sq_ci, position + 1, __ATOMIC_RELEASE);
}

static void take_received(const struct ibv_wc *wc, pgas_verbs_completion_t *c)
{
    bool written = wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    c->op = written ? PGAS_VERBS_RECV_WRITE_IMM : PGAS_VERBS_RECV;
    c->bytes = wc->byte_len;
    c->has_imm = wc->status == IBV_WC_SUCCESS && (wc->wc_flags & IBV_WC_WITH_IMM) != 0;
    c->imm = c->has_imm ? be32toh(wc->imm_data) : 0;
}

/* @return false: the queue pair was closed, and the completion is dropped */
static bool take(pgasi_ibv_dev_t *dev, const struct ibv_wc *wc, pgas_verbs_completion_t *c)
{
    uint32_t serial = (uint32_t)(wc->wr_id >> 32) & PGASI_IBV_SERIAL_MASK;
    bool shared = wc->wr_id & PGASI_IBV_SRQ;
    pgasi_ibv_qp_t *qp = find_qp(dev, wc->qp_num);
    memset(c, 0, sizeof *c);
    if (shared) {
        const pgas_verbs_srq_t *srq = give_back(dev, qp, serial, (uint32_t)wc->wr_id, &c->id);
        if (!srq)
            return false;
        if (qp && qp->super.opts.srq != srq) /* another queue pair has the number now */
            qp = NULL;
        take_received(wc, c);
    } else if (!qp || qp->serial != serial) {
        return false;
    } else if (wc->wr_id & PGASI_IBV_RECV) {
        take_received(wc, c);
        c->id = qp->received[(uint32_t)wc->wr_id & qp->rq_mask];
        __atomic_store_n(&qp->rq_ci, (uint32_t)wc->wr_id + 1, __ATOMIC_RELEASE);
    } else {
        take_sent(qp, wc, c);
    }
    c->qp = qp != NULL ? &qp->super : NULL;
    if (PGAS_UNLIKELY(wc->status != IBV_WC_SUCCESS)) {
        c->syndrome = syndrome_of(wc->status);
        c->status = pgasi_verbs_syndrome_status(c->syndrome);
        c->bytes = 0;
        if (qp)
            __atomic_store_n(&qp->dead, true, __ATOMIC_RELEASE);
    }
    return true;
}

static int poll_some(pgasi_ibv_cq_t *cq, pgas_verbs_completion_t *completions, int n)
{
    pgasi_ibv_dev_t *dev = pgasi_ibv_dev(cq->super.dev);
    struct ibv_wc wcs[POLL_BATCH];
    int n_taken = 0;
    if (PGAS_UNLIKELY(cq->has_next) && n > 0) {
        cq->has_next = false;
        n_taken += take(dev, &cq->next, &completions[0]);
    }
    while (n_taken < n) {
        int wanted = PGASI_MIN(n - n_taken, POLL_BATCH), found = ibv_poll_cq(cq->cq, wanted, wcs);
        for (int i = 0; i < found; i++)
            n_taken += take(dev, &wcs[i], &completions[n_taken]);
        if (PGAS_UNLIKELY(found < 0))
            __atomic_store_n(&cq->super.overrun, true, __ATOMIC_RELEASE);
        if (found < wanted)
            break;
    }
    return n_taken;
}

int pgasi_ibv_poll(pgas_verbs_cq_t *base, pgas_verbs_completion_t *completions, int n)
{
    pgasi_ibv_cq_t *cq = pgasi_ibv_cq(base);
    if (PGAS_UNLIKELY(cq->ended))
        return -1;
    pgasi_verbs_round_begin(base);
    int n_taken = poll_some(cq, completions, n);
    pgasi_verbs_round_end(base);
    if (n_taken > 0)
        return n_taken;
    if (++cq->n_empty % EVENTS_EVERY == 0)
        pgasi_verbs_look_for_events(pgasi_ibv_dev(base->dev)->context);
    cq->ended = __atomic_load_n(&cq->super.overrun, __ATOMIC_ACQUIRE);
    return PGAS_UNLIKELY(cq->ended) ? -1 : 0;
}

/* libibverbs can only find out whether completions are there by taking one. */
pgas_status_t pgasi_ibv_arm(pgas_verbs_cq_t *base, bool solicited)
{
    pgasi_ibv_cq_t *cq = pgasi_ibv_cq(base);
    struct ibv_cq *of;
    void *context;
    while (pgasi_verbs_lib.ibv_get_cq_event(cq->channel, &of, &context) ==
           0) /* does not block, see open_cq */
        pgasi_verbs_lib.ibv_ack_cq_events(of, 1);
    if (cq->has_next)
        return PGAS_ERR_BUSY;
    if (ibv_req_notify_cq(cq->cq, solicited) != 0)
        return PGAS_ERR_IO;
    cq->has_next = ibv_poll_cq(cq->cq, 1, &cq->next) > 0;
    return cq->has_next ? PGAS_ERR_BUSY : PGAS_OK;
}
