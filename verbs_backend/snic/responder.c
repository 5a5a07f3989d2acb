/* The responder of a request: whether its process is alive, and which accesses its memory
 * allows. */
#include "verbs_backend/snic/engine.h"

#include "base/clock.h"

#define STEP_TRIES 64 /* the length of a try, in steps */

snic_view_t *pgasi_snic_look_up_peer(const snic_job_t *job)
{
    snic_view_t **known = &job->view->peers[job->place];
    pgasi_snic_id_t id = job->qp->peer;
    pgas_status_t status;
    if (*known) {
        pgasi_snic_late_drain(job->view);
        pgasi_snic_view_put(*known);
    }
    return *known = pgasi_snic_view_get(&id, &status);
}

snic_outcome_t pgasi_snic_try_again(snic_job_t *job, uint32_t limit, uint64_t try_ns,
                                    uint32_t syndrome)
{
    snic_qp_t *qp = job->qp;
    if (!snic_is_stepping(job->view) && !pgasi_snic_view_alive(job->peer))
        return snic_fail(job, PGASI_CQE_RETRY);
    if (syndrome == PGASI_CQE_RNR_RETRY && limit == 7) /* retries never end */
        return SNIC_BLOCKED;
    if (snic_is_stepping(job->view)) {
        if (qp->tries++ < (limit + 1) * STEP_TRIES)
            return SNIC_BLOCKED;
    } else {
        uint64_t now_ns = pgasi_now_ns();
        if (qp->tries++ == 0)
            qp->tried_ns = now_ns;
        if (now_ns - qp->tried_ns < (limit + 1) * try_ns)
            return SNIC_BLOCKED;
    }
    return snic_fail(job, syndrome);
}

uint32_t pgasi_snic_unreached(const snic_job_t *job)
{
    __atomic_store_n(&job->peer->checked_ns, 0, __ATOMIC_RELAXED);
    return pgasi_snic_view_alive(job->peer) ? PGASI_CQE_REMOTE_OP : PGASI_CQE_RETRY;
}

snic_outcome_t pgasi_snic_refuse(snic_job_t *job)
{
    snic_fail_qp(job->peer, job->peer_qp);
    pgasi_snic_notify(job->peer);
    return snic_fail(job, PGASI_CQE_REMOTE_ACCESS);
}

bool pgasi_snic_reach_remote(snic_job_t *job, uint64_t bytes, uint32_t access,
                             snic_piece_t *piece_p)
{
    const snic_qp_t *peer = job->peer_qp;
    if (bytes == 0) {
        *piece_p = (snic_piece_t){ .bytes = 0 };
        return true;
    }
    return (peer->access & access) == access &&
           pgasi_snic_reach(job->peer, peer->pd, job->wqe.rkey, job->wqe.remote_addr, bytes, access,
                            piece_p);
}
