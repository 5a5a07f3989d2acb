/* Completion queues, shared receive queues and queue pairs of a device. Their owner opens, changes
 * and closes them under the lock of the device. */
#include "verbs_backend/snic/inside.h"

#include <stddef.h>
#include <string.h>
#include "base/log.h"

/* ---- completion queues and shared receive queues ---- */

uint32_t pgasi_snic_cq_open(pgasi_snic_t *snic, const pgasi_snic_cq_opts_t *opts)
{
    static uint32_t serials = 0;
    snic_cq_t *cqs = snic->view->devmem->cqs;
    uint32_t number = 0;
    pthread_mutex_lock(&snic->lock);
    for (uint32_t i = 1; i < SNIC_CQS && number == 0; i++) {
        snic_cq_t *cq = &cqs[i];
        if (cq->valid)
            continue;
        /* a late event of the former queue in this place may hold it */
        pgasi_snic_lock(&cq->lock);
        cq->log_entries = opts->log_entries;
        cq->ignore_overrun = opts->ignore_overrun;
        cq->event_fd = opts->event_fd;
        cq->event_serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
        cq->ring = opts->ring;
        cq->record = opts->record;
        cq->count = snic_start(snic->view->devmem);
        cq->dead = cq->armed = cq->n_waits = 0;
        __atomic_store_n(&snic->view->own_events[i], opts->event_fd, __ATOMIC_RELAXED);
        snic_unlock(&cq->lock);
        __atomic_store_n(&cq->valid, 1, __ATOMIC_RELEASE);
        number = i;
    }
    pthread_mutex_unlock(&snic->lock);
    return number;
}

void pgasi_snic_cq_close(pgasi_snic_t *snic, uint32_t cqn)
{
    pthread_mutex_lock(&snic->lock);
    __atomic_store_n(&snic->view->devmem->cqs[cqn & (SNIC_CQS - 1)].valid, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&snic->view->own_events[cqn & (SNIC_CQS - 1)], -1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&snic->lock);
    pgasi_snic_wait_for_runs();
}

bool pgasi_snic_cq_dead(const pgasi_snic_t *snic, uint32_t cqn)
{
    return __atomic_load_n(&snic->view->devmem->cqs[cqn & (SNIC_CQS - 1)].dead, __ATOMIC_ACQUIRE) !=
           0;
}

uint32_t pgasi_snic_srq_open(pgasi_snic_t *snic, const pgasi_snic_srq_opts_t *opts)
{
    snic_srq_t *srqs = snic->view->devmem->srqs;
    uint32_t number = 0;
    pthread_mutex_lock(&snic->lock);
    for (uint32_t i = 1; i < SNIC_SRQS && number == 0; i++) {
        snic_srq_t *srq = &srqs[i];
        if (srq->number != 0)
            continue;
        srq->log_entries = opts->log_entries;
        srq->stride = opts->stride;
        srq->pd = opts->pd;
        srq->ring = opts->ring;
        srq->record = opts->record;
        srq->wanted = 0;
        srq->place = snic_start(snic->view->devmem);
        number = (++srq->generation & 0x3ffffu) << SNIC_SRQ_BITS | i;
        __atomic_store_n(&srq->number, number, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&snic->lock);
    return number;
}

void pgasi_snic_srq_close(pgasi_snic_t *snic, uint32_t srqn)
{
    pthread_mutex_lock(&snic->lock);
    __atomic_store_n(&snic->view->devmem->srqs[srqn & (SNIC_SRQS - 1)].number, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&snic->lock);
    pgasi_snic_wait_for_runs();
}

/* ---- queue pairs ---- */

static void reset_qp(snic_qp_t *qp, uint32_t start)
{
    qp->doorbell = qp->tries = qp->psn = qp->flushed = qp->psn_in = qp->wanted = 0;
    qp->sq_ci = qp->sq_limit = qp->rq_ci = qp->rq_limit = start;
}

/* Sets all fields but two. Other threads read the number without a lock. Threads that knew the
 * former queue pair in this place may hold the lock. The locks of device and queue pair are
 * held. */
static void fill_qp(snic_qp_t *qp, const pgasi_snic_qp_opts_t *opts, uint32_t start)
{
    memset(&qp->state, 0, offsetof(snic_qp_t, lock) - offsetof(snic_qp_t, state));
    qp->generation++;
    qp->state = PGASI_SNIC_RESET;
    qp->pd = opts->pd;
    qp->send_cqn = opts->send_cqn;
    qp->recv_cqn = opts->recv_cqn;
    qp->srqn = opts->srqn;
    qp->log_sq_blocks = opts->log_sq_blocks;
    qp->log_rq_entries = opts->log_rq_entries;
    qp->rq_stride = opts->rq_stride;
    qp->sq = opts->sq;
    qp->rq = opts->rq;
    qp->record = opts->record;
    qp->flags = opts->flags;
    reset_qp(qp, start);
}

uint32_t pgasi_snic_qp_open(pgasi_snic_t *snic, const pgasi_snic_qp_opts_t *opts)
{
    snic_devmem_t *devmem = snic->view->devmem;
    uint32_t number = 0;
    pthread_mutex_lock(&snic->lock);
    for (uint32_t i = 0; i < SNIC_QPS && number == 0; i++) {
        snic_qp_t *qp = &devmem->qps[i];
        if (qp->number != 0)
            continue;
        pgasi_snic_lock(&devmem->lock);
        pgasi_snic_lock(&qp->lock);
        fill_qp(qp, opts, snic_start(devmem));
        number = (qp->generation & 0xfffu) << SNIC_INDEX_BITS | i;
        if (number == 0)
            number = (++qp->generation & 0xfffu) << SNIC_INDEX_BITS;
        if (i >= devmem->qps_high)
            __atomic_store_n(&devmem->qps_high, i + 1, __ATOMIC_RELEASE);
        __atomic_store_n(&qp->number, number, __ATOMIC_RELEASE);
        snic_unlock(&qp->lock);
        pgasi_snic_let_go(snic->view);
    }
    pthread_mutex_unlock(&snic->lock);
    return number;
}

/* A sender of this process reads the number again under the lock of the queue pair, or copies while
 * this function waits for all runs. Senders of other processes copy into memory that they have
 * mapped themselves. */
void pgasi_snic_qp_close(pgasi_snic_t *snic, uint32_t qpn)
{
    snic_devmem_t *devmem = snic->view->devmem;
    uint32_t place = qpn & (SNIC_QPS - 1);
    pthread_mutex_lock(&snic->lock);
    if (devmem->qps[place].number == qpn) {
        pgasi_snic_lock(&devmem->lock);
        pgasi_snic_lock(&devmem->qps[place].lock);
        devmem->active[place] = 0;
        __atomic_store_n(&devmem->qps[place].number, 0, __ATOMIC_SEQ_CST);
        pgasi_snic_forget(snic->view, qpn);
        snic_unlock(&devmem->qps[place].lock);
        snic_unlock(&devmem->lock);
    }
    snic_view_t *peer = snic->view->peers[place];
    snic->view->peers[place] = NULL;
    pthread_mutex_unlock(&snic->lock);
    pgasi_snic_wait_for_runs();
    if (peer)
        pgasi_snic_view_put(peer);
}

static pgas_status_t find_peer(pgasi_snic_t *snic, const pgasi_snic_qp_state_t *state,
                               snic_qp_t *qp, uint32_t place)
{
    const pgasi_snic_id_t *own = &snic->view->id, *peer = state->peer != NULL ? state->peer : own;
    if (peer->machine != own->machine || peer->engine != own->engine || peer->name != own->name) {
        PGASI_WARN("snic", "a software NIC reaches processes of the same host and pid namespace, "
                           "with the same engine, only");
        return PGAS_ERR_MISMATCH;
    }
    pgas_status_t status;
    snic_view_t *view = pgasi_snic_view_get(peer, &status);
    if (!view)
        return status;
    __atomic_store_n(&view->checked_ns, 0, __ATOMIC_RELAXED);
    if (!pgasi_snic_view_alive(view)) {
        pgasi_snic_view_put(view);
        return PGAS_ERR_PEER;
    }
    if (snic->view->peers[place])
        pgasi_snic_view_put(snic->view->peers[place]);
    snic->view->peers[place] = view;
    if (!__atomic_load_n(&view->wakeup, __ATOMIC_RELAXED) && snic->view->wakeup)
        __atomic_store_n(&view->wakeup, snic->view->wakeup, __ATOMIC_RELEASE);
    qp->peer = *peer;
    qp->peer_qpn = state->peer_qpn;
    qp->psn_in = state->psn_in & 0xffffffu;
    qp->reads_max_in = state->reads_max_in;
    return PGAS_OK;
}

/* The locks of device and queue pair are held. */
static pgas_status_t change_state(pgasi_snic_t *snic, snic_qp_t *qp,
                                  const pgasi_snic_qp_state_t *state)
{
    uint32_t place = (uint32_t)(qp - snic->view->devmem->qps), from = qp->state;
    pgas_status_t status = PGAS_OK;
    if (state->state == PGASI_SNIC_RESET)
        pgasi_snic_forget(snic->view, qp->number);
    if (state->state == PGASI_SNIC_RESET)
        reset_qp(qp, snic_start(snic->view->devmem));
    else if (state->state != PGASI_SNIC_ERROR && from + 1 != (uint32_t)state->state)
        return PGAS_ERR_INVALID;
    if (state->state == PGASI_SNIC_INIT)
        qp->access = state->access;
    if (state->state == PGASI_SNIC_RTR)
        status = find_peer(snic, state, qp, place);
    if (state->state == PGASI_SNIC_RTS) {
        qp->reads_max = state->reads_max;
        qp->retry = state->retry;
        qp->rnr_retry = state->rnr_retry;
        qp->psn = state->psn & 0xffffffu;
    }
    if (status == PGAS_OK)
        __atomic_store_n(&qp->state, (uint32_t)state->state, __ATOMIC_RELEASE);
    return status;
}

pgas_status_t pgasi_snic_qp_modify(pgasi_snic_t *snic, uint32_t qpn,
                                   const pgasi_snic_qp_state_t *state)
{
    snic_devmem_t *devmem = snic->view->devmem;
    pthread_mutex_lock(&snic->lock);
    snic_qp_t *qp = snic_qp(snic->view, qpn);
    pgas_status_t status = PGAS_ERR_INVALID;
    if (qp) {
        pgasi_snic_lock(&devmem->lock);
        pgasi_snic_lock(&qp->lock);
        status = change_state(snic, qp, state);
        snic_unlock(&qp->lock);
        __atomic_store_n(&devmem->active[qpn & (SNIC_QPS - 1)], 1, __ATOMIC_RELEASE);
        pgasi_snic_let_go(snic->view);
    }
    snic_view_t *peer = qp && status == PGAS_OK ? snic->view->peers[qpn & (SNIC_QPS - 1)] : NULL;
    pthread_mutex_unlock(&snic->lock);
    if (qp)
        pgasi_snic_notify(snic->view);
    if (peer && state->state == PGASI_SNIC_RTR)
        pgasi_snic_notify(peer); /* the peer may have tried to send already */
    return status;
}

pgasi_snic_state_t pgasi_snic_qp_query(pgasi_snic_t *snic, uint32_t qpn)
{
    const snic_qp_t *qp = snic_qp(snic->view, qpn);
    return !qp ? PGASI_SNIC_RESET
               : (pgasi_snic_state_t)__atomic_load_n(&qp->state, __ATOMIC_ACQUIRE);
}
