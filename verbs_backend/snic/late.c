/* The adversary delays results and completions (DELAY): which ones, and their effect when they
 * arrive. */
#include "verbs_backend/snic/engine.h"

#include <stdlib.h>
#include <string.h>

/* of a result that is kept; a larger one is read when it arrives */
#define LATE_BYTES_MAX (1u << 20)

bool pgasi_snic_delay_completion(const snic_job_t *job, snic_stream_t stream,
                                 const pgasi_cqe_fields_t *fields)
{
    bool recv = stream == SNIC_STREAM_RECV;
    snic_late_t event = { .kind = SNIC_LATE_CQE,
                          .stream = stream,
                          .qpn = job->qp->number,
                          .peer = job->peer,
                          .peer_qpn = job->qp->peer_qpn,
                          .cq_view = recv ? job->peer : job->view,
                          .cqn = recv ? job->peer_qp->recv_cqn : job->qp->send_cqn,
                          .fields = *fields };
    return pgasi_snic_late_add(job->view, &event, NULL, 0);
}

bool pgasi_snic_delay_result(const snic_job_t *job, const void *result, uint64_t bytes)
{
    const pgasi_wqe_t *wqe = &job->wqe;
    snic_late_t event = { .kind = SNIC_LATE_RESULT,
                          .stream = SNIC_STREAM_SEND,
                          .qpn = job->qp->number,
                          .peer = job->peer,
                          .peer_qpn = job->qp->peer_qpn,
                          .remote_addr = wqe->remote_addr,
                          .remote_bytes = bytes,
                          .rkey = wqe->rkey,
                          .n_spans = wqe->n_data };
    event.fields = (pgasi_cqe_fields_t){ .op = PGASI_CQE_REQ_ERR,
                                         .wqe_op = wqe->op,
                                         .counter = (uint16_t)job->qp->sq_ci,
                                         .qpn = job->qp->number };
    size_t spans_bytes = wqe->n_data * sizeof job->spans[0], kept = result != NULL ? bytes : 0;
    char *data = malloc(spans_bytes + kept);
    if (!data)
        return false;
    memcpy(data, job->spans, spans_bytes);
    if (kept > 0)
        memcpy(data + spans_bytes, result, kept);
    bool added = pgasi_snic_late_add(job->view, &event, data, spans_bytes + kept);
    free(data);
    return added;
}

bool pgasi_snic_delay_read(snic_job_t *job, const snic_piece_t *remote)
{
    if (remote->bytes > LATE_BYTES_MAX || pgasi_snic_random(job->view, 2) == 0)
        return pgasi_snic_delay_result(job, NULL, remote->bytes);
    char *bytes = malloc(remote->bytes);
    snic_piece_t room = { .here = bytes, .bytes = remote->bytes };
    bool late = bytes && pgasi_snic_copy_piece(&room, remote) &&
                pgasi_snic_delay_result(job, bytes, remote->bytes);
    free(bytes);
    return late;
}

bool pgasi_snic_held_back(snic_view_t *view, const snic_qp_t *qp, const pgasi_wqe_t *wqe)
{
    pgasi_snic_late_make_room(view);
    bool reads =
        wqe->op == PGASI_WQE_READ || wqe->op == PGASI_WQE_CSWAP || wqe->op == PGASI_WQE_FADD;
    unsigned n = pgasi_snic_late_results(view, qp->number);
    if ((wqe->flags & PGASI_WQE_FENCE_MASK) != 0 && n > 0)
        return true;
    if (reads && n >= PGASI_MAX(qp->reads_max, 1u))
        return true;
    return !snic_is_stepping(view) && pgasi_snic_random(view, 4) == 0;
}

/* ---- arrival ---- */

/* @return a syndrome */
static uint32_t result_arrives(snic_view_t *view, const snic_qp_t *qp, snic_late_t *event)
{
    snic_piece_t pieces[SNIC_SPANS_MAX], from = { .here = NULL };
    size_t spans_bytes = event->n_spans * sizeof(pgasi_wqe_span_t);
    for (unsigned i = 0; i < event->n_spans; i++) {
        pgasi_wqe_span_t span;
        memcpy(&span, event->data + i * sizeof span, sizeof span);
        if (!pgasi_snic_reach(view, qp->pd, span.lkey, span.addr, span.bytes,
                              PGAS_VERBS_LOCAL_WRITE, &pieces[i]))
            return PGASI_CQE_LOCAL_PROT;
    }
    if (event->data_bytes > spans_bytes) {
        from = (snic_piece_t){ .here = (char *)event->data + spans_bytes,
                               .bytes = event->remote_bytes };
        return pgasi_snic_copy_lists(pieces, event->n_spans, &from, 1) ? PGASI_CQE_OK
                                                                       : PGASI_CQE_LOCAL_PROT;
    }
    snic_qp_t *peer = snic_qp(event->peer, event->peer_qpn);
    if (!peer)
        return PGASI_CQE_RETRY;
    pgasi_snic_lock(&peer->lock);
    bool good = peer->number == event->peer_qpn &&
                pgasi_snic_reach(event->peer, peer->pd, event->rkey, event->remote_addr,
                                 event->remote_bytes, PGAS_VERBS_REMOTE_READ, &from);
    good = good && pgasi_snic_copy_lists(pieces, event->n_spans, &from, 1);
    snic_unlock(&peer->lock);
    return good ? PGASI_CQE_OK : PGASI_CQE_REMOTE_ACCESS;
}

/* Entries behind it have been executed already. Their owner sees them as flushed. */
static void result_fails(snic_view_t *view, snic_qp_t *qp, const snic_late_t *event,
                         uint32_t syndrome)
{
    pgasi_cqe_fields_t fields = event->fields;
    snic_late_t *next;
    fields.syndrome = (uint8_t)syndrome;
    pgasi_snic_push(view, qp->send_cqn, &fields);
    while ((next = pgasi_snic_late_take(view, qp->number, SNIC_STREAM_SEND))) {
        fields = next->fields;
        fields.op = PGASI_CQE_REQ_ERR;
        fields.syndrome = PGASI_CQE_FLUSHED;
        pgasi_snic_push(view, qp->send_cqn, &fields);
        free(next);
    }
    snic_fail_qp(view, qp);
}

static void waits_see(const snic_late_t *event)
{
    snic_cq_t *cq = snic_cq(event->cq_view, event->cqn);
    if (!cq)
        return;
    pgasi_snic_lock(&cq->lock);
    uint64_t count = snic_load(cq->count);
    if (count >> 32 != 0)
        __atomic_store_n(&cq->count, count - (UINT64_C(1) << 32), __ATOMIC_SEQ_CST);
    bool waits = __atomic_load_n(&cq->n_waits, __ATOMIC_SEQ_CST) != 0;
    __atomic_store_n(&cq->n_waits, 0, __ATOMIC_RELAXED);
    snic_unlock(&cq->lock);
    if (waits)
        pgasi_snic_notify(event->cq_view);
}

static void completion_arrives(snic_view_t *view, snic_qp_t *qp, const snic_late_t *event)
{
    bool recv = event->stream == SNIC_STREAM_RECV;
    snic_qp_t *peer = recv ? snic_qp(event->peer, event->peer_qpn) : NULL;
    if (recv && !peer)
        return; /* the queue pair was closed meanwhile, perhaps with its completion queue */
    snic_late_t seen = *event;
    seen.kind = SNIC_LATE_SEEN;
    seen.stream = SNIC_STREAM_SEEN;
    if (recv)
        pgasi_snic_lock(&peer->lock);
    bool there = !recv || peer->number == event->peer_qpn;
    bool pushed = there && pgasi_snic_push_behind(event->cq_view, event->cqn, &event->fields, 1);
    if (recv)
        snic_unlock(&peer->lock);
    if (!there)
        return;
    if (!pushed)
        snic_fail_qp(view, qp);
    else if (!pgasi_snic_late_add(view, &seen, NULL, 0))
        waits_see(&seen);
}

void pgasi_snic_late_perform(snic_view_t *view, snic_late_t *event)
{
    snic_qp_t *qp = snic_qp(view, event->qpn);
    if (event->kind == SNIC_LATE_SEEN) {
        waits_see(event);
    } else if (qp && event->kind == SNIC_LATE_CQE) {
        completion_arrives(view, qp, event);
    } else if (qp) {
        uint32_t syndrome = result_arrives(view, qp, event);
        if (syndrome != PGASI_CQE_OK)
            result_fails(view, qp, event, syndrome);
    }
}
