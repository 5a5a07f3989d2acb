/* The receive side: takes entries from the receive queue of a queue pair or from a shared one. It
 * delivers the data of SEND and of WRITE with immediate data. */
#include "verbs_backend/snic/engine.h"

#include <string.h>

#define RNR_NS UINT64_C(10000000) /* one try, when no receive entry is free */

static void read_entry(snic_view_t *view, uint32_t pd, const unsigned char *at, unsigned n_max,
                       snic_receive_t *receive)
{
    for (unsigned i = 0; i < n_max; i++) {
        pgasi_wqe_span_t span = pgasi_wqe_read_data(at + (size_t)i * PGASI_WQE_SEGMENT);
        if (span.lkey == PGASI_WQE_LKEY_END)
            break;
        if (!pgasi_snic_reach(view, pd, span.lkey, span.addr, span.bytes, PGAS_VERBS_LOCAL_WRITE,
                              &receive->pieces[receive->n])) {
            receive->refused = true;
            break;
        }
        receive->bytes += span.bytes;
        receive->n++;
    }
}

/* A receive ring with entries of `stride` bytes; the caller has loaded the words once.
 * @return NULL: they are invalid */
static const unsigned char *receive_ring(const snic_view_t *view, pgasi_snic_ref_t ref,
                                         uint32_t log, uint32_t stride)
{
    bool sane = log <= SNIC_LOG_QUEUE && stride >= PGASI_WQE_SEGMENT && stride <= SNIC_STRIDE &&
                stride % PGASI_WQE_SEGMENT == 0;
    return sane ? snic_at(view, ref, (uint64_t)stride << log) : NULL;
}

static bool take_shared(snic_view_t *view, uint32_t srqn, snic_receive_t *receive)
{
    snic_srq_t *srq = snic_srq(view, srqn);
    if (!srq)
        return false;
    uint32_t log = snic_load(srq->log_entries), stride = snic_load(srq->stride);
    const unsigned char *ring = receive_ring(view, snic_load(srq->ring), log, stride);
    const uint32_t *record = snic_at(view, snic_load(srq->record), sizeof(uint32_t));
    if (!ring || !record)
        return false;
    uint32_t mask = (1u << log) - 1;
    if (!snic_lock_client(view, &srq->lock))
        return false;
    uint64_t place = snic_load(srq->place);
    uint32_t slot = (uint32_t)(place >> 32) & mask, taken = (uint32_t)place;
    bool there = (uint16_t)(be32toh(__atomic_load_n(record, __ATOMIC_ACQUIRE)) - taken) != 0;
    if (there) {
        const unsigned char *at = ring + (size_t)slot * stride;
        uint16_t next;
        memcpy(&next, at + 2, sizeof next);
        receive->counter = (uint16_t)slot;
        receive->srqn = srqn;
        read_entry(view, snic_load(srq->pd), at + PGASI_WQE_SEGMENT,
                   PGASI_MIN(stride / PGASI_WQE_SEGMENT - 1, SNIC_SPANS_MAX), receive);
        __atomic_store_n(&srq->place, (uint64_t)(be16toh(next) & mask) << 32 | (taken + 1),
                         __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(&srq->wanted, 1, __ATOMIC_SEQ_CST);
    }
    snic_unlock(&srq->lock);
    return there;
}

/* The lock of the queue pair is held. @return false: there is no entry */
static bool take_receive(snic_view_t *view, snic_qp_t *qp, snic_receive_t *receive)
{
    receive->n = 0;
    receive->bytes = 0;
    receive->refused = false;
    receive->srqn = 0;
    uint32_t srqn = snic_load(qp->srqn), stride = snic_load(qp->rq_stride),
             log = snic_load(qp->log_rq_entries);
    if (srqn != 0)
        return take_shared(view, srqn, receive);
    const unsigned char *ring = receive_ring(view, snic_load(qp->rq), log, stride);
    const uint32_t *record = snic_at(view, snic_load(qp->record), sizeof(uint32_t));
    if (!ring || !record)
        return false;
    uint32_t limit = be32toh(__atomic_load_n(record, __ATOMIC_ACQUIRE)), ci = snic_load(qp->rq_ci),
             enabled = snic_load(qp->rq_limit);
    bool managed = qp->flags & PGASI_SNIC_MANAGED_RECV,
         again = (qp->flags & PGASI_SNIC_CHECK_OVERRUN) == 0; /* an ENABLE may run the ring again */
    if (managed && (again || (int16_t)(enabled - limit) < 0))
        limit = enabled;
    if ((int16_t)(limit - ci) <= 0)
        return false;
    receive->counter = (uint16_t)ci;
    read_entry(view, snic_load(qp->pd), ring + (size_t)(ci & ((1u << log) - 1)) * stride,
               PGASI_MIN(stride / PGASI_WQE_SEGMENT, SNIC_SPANS_MAX), receive);
    return true;
}

/* ---- messages ---- */

static bool complete_receiver(const snic_job_t *job, const snic_receive_t *receive,
                              uint32_t syndrome)
{
    uint8_t op = PGASI_CQE_RESP_SEND;
    if (job->wqe.op == PGASI_WQE_WRITE_IMM)
        op = PGASI_CQE_RESP_WRITE_IMM;
    else if (job->wqe.op == PGASI_WQE_SEND_IMM)
        op = PGASI_CQE_RESP_SEND_IMM;
    pgasi_cqe_fields_t fields = { .op = syndrome == PGASI_CQE_OK ? op : PGASI_CQE_RESP_ERR,
                                  .solicited = (job->wqe.flags & PGASI_WQE_SOLICITED) != 0,
                                  .syndrome = (uint8_t)syndrome,
                                  .counter = receive->counter,
                                  .qpn = job->peer_qp->number,
                                  .srqn = receive->srqn,
                                  .bytes = job->sent_bytes,
                                  .imm = job->wqe.imm };
    if (snic_is_hostile(job->view, PGAS_VERBS_SNIC_DELAY) &&
        pgasi_snic_delay_completion(job, SNIC_STREAM_RECV, &fields))
        return true;
    return pgasi_snic_push(job->peer, job->peer_qp->recv_cqn, &fields);
}

static void receive_taken(snic_qp_t *qp, const snic_receive_t *receive)
{
    if (receive->srqn == 0)
        qp->rq_ci++;
}

snic_outcome_t pgasi_snic_deliver(snic_job_t *job, const snic_piece_t *from, unsigned n_from)
{
    bool write = job->wqe.op == PGASI_WQE_WRITE_IMM;
    snic_receive_t receive;
    snic_piece_t to;
    if (write && !pgasi_snic_reach_remote(job, job->sent_bytes, PGAS_VERBS_REMOTE_WRITE, &to))
        return pgasi_snic_refuse(job);
    snic_qp_t *peer = job->peer_qp;
    if (!take_receive(job->peer, peer, &receive)) {
        __atomic_store_n(&peer->wanted, 1, __ATOMIC_SEQ_CST);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        /* an entry may have been posted before `wanted` was set */
        if (!take_receive(job->peer, peer, &receive))
            return pgasi_snic_try_again(job, job->qp->rnr_retry, RNR_NS, PGASI_CQE_RNR_RETRY);
    }
    uint32_t there = PGASI_CQE_OK, here = PGASI_CQE_OK;
    if (write) {
        if (!pgasi_snic_copy_lists(&to, 1, from, n_from))
            here = pgasi_snic_unreached(job);
    } else if (receive.refused) {
        there = PGASI_CQE_LOCAL_PROT;
        here = PGASI_CQE_REMOTE_OP;
    } else if (receive.bytes < job->sent_bytes) {
        there = PGASI_CQE_LOCAL_LENGTH;
        here = PGASI_CQE_REMOTE_INVALID;
    } else if (job->sent_bytes > 0 &&
               !pgasi_snic_copy_lists(receive.pieces, receive.n, from, n_from)) {
        there = PGASI_CQE_LOCAL_PROT;
        here = pgasi_snic_unreached(job);
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    receive_taken(peer, &receive);
    bool pushed = complete_receiver(job, &receive, there);
    if (here == PGASI_CQE_OK && pushed)
        return SNIC_DONE;
    snic_fail_qp(job->peer, peer);
    pgasi_snic_notify(job->peer);
    return snic_fail(job, here != PGASI_CQE_OK ? here : PGASI_CQE_REMOTE_OP);
}
