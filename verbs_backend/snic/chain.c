/* Entries of master queues: WAIT, SEND_EN and RECV_EN. */
#include "verbs_backend/snic/engine.h"

snic_outcome_t pgasi_snic_wait_entry(snic_job_t *job)
{
    snic_cq_t *cq = snic_cq(job->view, job->wqe.number);
    if (!cq || job->wqe.opmod != 0) /* other modes wait for data, or for a time */
        return snic_fail(job, PGASI_CQE_LOCAL_QP_OP);
    for (int looks = 0; looks < 2; looks++) {
        uint64_t count = __atomic_load_n(&cq->count, __ATOMIC_SEQ_CST);
        uint32_t pi = (uint32_t)count - (uint32_t)(count >> 32);
        if ((int32_t)((pi - job->wqe.index - 1) << 8) >= 0)
            return SNIC_DONE;
        __atomic_store_n(&cq->n_waits, 1, __ATOMIC_SEQ_CST);
    }
    return SNIC_BLOCKED;
}

snic_outcome_t pgasi_snic_enable_entry(snic_job_t *job)
{
    snic_qp_t *target = snic_qp(job->view, job->wqe.number);
    if (!target)
        return snic_fail(job, PGASI_CQE_LOCAL_QP_OP);
    if (job->wqe.op == PGASI_WQE_SEND_EN) {
        int16_t ahead = (int16_t)(job->wqe.index - target->sq_limit);
        if (ahead > 0)
            pgasi_snic_advance(job->view, target, (uint32_t)ahead);
        if (job->runs_enabled) {
            job->enabled = ahead > 0 ? target : NULL;
            return SNIC_DONE;
        }
    } else {
        int16_t ahead = (int16_t)(job->wqe.index - target->rq_limit);
        if (ahead > 0)
            __atomic_store_n(&target->rq_limit, target->rq_limit + (uint32_t)ahead,
                             __ATOMIC_RELEASE);
    }
    __atomic_store_n(&job->view->devmem->active[target - job->view->devmem->qps], 1,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&job->view->devmem->work, 1, __ATOMIC_RELEASE);
    return SNIC_DONE;
}

void pgasi_snic_advance(snic_view_t *view, snic_qp_t *qp, uint32_t blocks)
{
    if (snic_is_hostile(view, PGAS_VERBS_SNIC_PREFETCH))
        pgasi_snic_prefetch(view, qp, qp->sq_limit, qp->sq_limit + blocks);
    qp->sq_limit += blocks;
}
