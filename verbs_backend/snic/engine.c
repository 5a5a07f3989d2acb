/* Executes work queue entries. The engine visits the send queues of one device in turn. It decodes
 * an entry, executes it on both sides and completes it. An entry that waits for something stays
 * where it is.
 *
 * When the thread that runs a device dies, sq_ci still names the entry that it was executing,
 * because sq_ci moves last. So the entry is executed again, as a network would repeat it; the queue
 * pairs of the dead process end anyway. The lock of a completion queue guards "write at pi, then pi
 * + 1". The lock of a shared receive queue guards "read the slot, then advance by one store". A
 * thread that takes such a lock over can begin both again.
 *
 * Another process may write any word of a device memory at any moment. Positions, sizes, references
 * and numbers are loaded once. The loaded value is checked against the limits of device memory, or
 * masked, before it is used. Entries are decoded from copies.
 *
 * Execution of an entry and the loop over entries are in one file, because the compiler inlines one
 * into the other: apart they take 45 instructions more for a write. */
#include "verbs_backend/snic/engine.h"

#include <string.h>
#include <time.h>

/* entries of one queue pair before the next queue pair has its turn */
#define BUDGET     256
#define BUDGET_ALL 4096                /* entries of one call */
#define RETRY_NS   UINT64_C(500000000) /* one try, when the peer does not answer */
/* between two checks whether a peer is alive while its memory is accessible */
#define LOOK_MS 100

/* ---- one entry ---- */

/* Finds the data to send: inline, or in registered memory. @return the number of pieces, or -1 */
static int gather(snic_job_t *job, uint32_t access, snic_piece_t *pieces, char *inline_room)
{
    const pgasi_wqe_t *wqe = &job->wqe;
    if (wqe->is_inline) {
        size_t at = (size_t)job->qp->sq_ci * PGASI_WQE_BB + wqe->inline_at;
        pgasi_wqe_copy_out(job->ring, job->ring_bytes, at, inline_room, wqe->inline_bytes);
        pieces[0] = (snic_piece_t){ .here = inline_room, .bytes = wqe->inline_bytes };
        job->sent_bytes = wqe->inline_bytes;
        return 1;
    }
    uint64_t bytes = 0;
    for (unsigned i = 0; i < wqe->n_data; i++) {
        const pgasi_wqe_span_t span =
            pgasi_wqe_data(job->ring, job->ring_bytes, job->qp->sq_ci, wqe, i);
        if (!pgasi_snic_reach(job->view, job->qp->pd, span.lkey, span.addr, span.bytes, access,
                              &pieces[i]))
            return -1;
        job->spans[i] = span;
        bytes += span.bytes;
    }
    job->sent_bytes = (uint32_t)bytes;
    return bytes <= UINT32_C(1) << 31 ? (int)wqe->n_data : -1;
}

/* Finds the peer of a queue pair. */
static snic_outcome_t find_responder(snic_job_t *job)
{
    job->peer = job->view->peers[job->place];
    if (PGAS_UNLIKELY(!job->peer || job->peer->id.cookie != job->qp->peer.cookie)) {
        job->peer = pgasi_snic_look_up_peer(job);
        if (!job->peer)
            return snic_fail(job, PGASI_CQE_RETRY);
    }
    job->peer_qp = snic_qp(job->peer, job->qp->peer_qpn);
    if (PGAS_UNLIKELY(job->view->tick - __atomic_load_n(&job->peer->looked, __ATOMIC_RELAXED) >
                      LOOK_MS)) {
        __atomic_store_n(&job->peer->looked, job->view->tick, __ATOMIC_RELAXED);
        pgasi_snic_view_alive(job->peer);
    }
    bool gone = __atomic_load_n(&job->peer->gone, __ATOMIC_ACQUIRE) || !job->peer_qp;
    return PGAS_UNLIKELY(gone) ? snic_fail(job, PGASI_CQE_RETRY) : SNIC_DONE;
}

/* Messages carry numbers, so a queue pair that was reset does not accept old ones. The lock of the
 * peer's queue pair is held. */
static bool in_turn(const snic_job_t *job)
{
    return job->peer_qp->psn_in == job->qp->psn;
}

/* Whether the peer's queue pair is still the known one, is connected to ours, and expects this
 * message. Its lock is held, because it may be changed or closed, and another one opened in its
 * place. */
static snic_outcome_t check_responder(snic_job_t *job)
{
    const snic_qp_t *peer = job->peer_qp;
    uint32_t state = __atomic_load_n(&peer->state, __ATOMIC_ACQUIRE);
    if (PGAS_UNLIKELY(peer->number != job->qp->peer_qpn || state == PGASI_SNIC_ERROR))
        return snic_fail(job, PGASI_CQE_RETRY);
    bool ready = state == PGASI_SNIC_RTR || state == PGASI_SNIC_RTS;
    bool ours = peer->peer_qpn == job->qp->number && peer->peer.cookie == job->view->id.cookie;
    return PGAS_LIKELY(ready && ours && in_turn(job))
               ? SNIC_DONE
               : pgasi_snic_try_again(job, job->qp->retry, RETRY_NS, PGASI_CQE_RETRY);
}

static void next_turn(snic_job_t *job)
{
    job->qp->psn = (job->qp->psn + 1) & 0xffffffu;
    __atomic_store_n(&job->peer_qp->psn_in, job->qp->psn, __ATOMIC_RELEASE);
}

/* Memory could not be accessed. If it is the own device's, whose process has just ended, the entry
 * has no completion: a chain behind it must not continue, as if the entry had been executed. The
 * software NIC's process drops the device soon. */
static snic_outcome_t unreached(snic_job_t *job)
{
    if (__atomic_load_n(&job->view->gone, __ATOMIC_ACQUIRE))
        return SNIC_BLOCKED;
    return snic_fail(job, pgasi_snic_unreached(job));
}

static snic_outcome_t transfer(snic_job_t *job, snic_piece_t *pieces, unsigned n)
{
    bool read = job->wqe.op == PGASI_WQE_READ;
    snic_piece_t remote;
    if (!pgasi_snic_reach_remote(job, job->sent_bytes,
                                 read ? PGAS_VERBS_REMOTE_READ : PGAS_VERBS_REMOTE_WRITE, &remote))
        return pgasi_snic_refuse(job);
    if (job->sent_bytes == 0)
        return SNIC_DONE;
    bool copied;
    if (read && snic_is_hostile(job->view, PGAS_VERBS_SNIC_DELAY) &&
        pgasi_snic_delay_read(job, &remote))
        return SNIC_DONE;
    if (PGAS_LIKELY(n == 1))
        copied = read ? pgasi_snic_copy_piece(&pieces[0], &remote)
                      : pgasi_snic_copy_piece(&remote, &pieces[0]);
    else
        copied = read ? pgasi_snic_copy_lists(pieces, n, &remote, 1)
                      : pgasi_snic_copy_lists(&remote, 1, pieces, n);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return copied ? SNIC_DONE : unreached(job);
}

/* An atomic in memory that is mapped here. @return the word before */
static uint64_t fetch_here(const pgasi_wqe_t *wqe, uint64_t *word)
{
    uint64_t old = wqe->compare;
    if (wqe->op == PGASI_WQE_FADD)
        return __atomic_fetch_add(word, wqe->operand, __ATOMIC_SEQ_CST);
    __atomic_compare_exchange_n(word, &old, wqe->operand, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return old;
}

/* An atomic in memory that only the kernel can access: read, then written. No instruction here is
 * atomic with those of its process. In the software NIC's process, one thread executes the requests
 * of all devices; so there it is atomic with these, as with many cards.
 * @return false: another engine, or the memory cannot be reached */
static bool fetch_far(const snic_job_t *job, const snic_piece_t *remote, uint64_t *old_p)
{
    uint64_t new = job->wqe.operand;
    snic_piece_t old = { .here = (char *)old_p, .bytes = 8 };
    snic_piece_t changed = { .here = (char *)&new, .bytes = 8 };
    if (job->view->id.engine != PGAS_VERBS_ENGINE_PROCESS || !pgasi_snic_copy_piece(&old, remote))
        return false;
    if (job->wqe.op == PGASI_WQE_FADD)
        new += *old_p;
    else if (*old_p != job->wqe.compare)
        return true;
    return pgasi_snic_copy_piece(remote, &changed);
}

static snic_outcome_t fetch(snic_job_t *job, const snic_piece_t *result)
{
    const pgasi_wqe_t *wqe = &job->wqe;
    snic_piece_t remote;
    if ((wqe->remote_addr & 7) != 0 || wqe->n_data != 1 || result->bytes != 8)
        return snic_fail(job, PGASI_CQE_REMOTE_INVALID);
    if (!pgasi_snic_reach_remote(job, 8, PGAS_VERBS_REMOTE_ATOMIC, &remote))
        return pgasi_snic_refuse(job);
    uint64_t old;
    if (remote.here)
        old = fetch_here(wqe, (uint64_t *)(void *)remote.here);
    else if (!fetch_far(job, &remote, &old))
        return unreached(job);
    if (snic_is_hostile(job->view, PGAS_VERBS_SNIC_DELAY) &&
        pgasi_snic_delay_result(job, &old, sizeof old))
        return SNIC_DONE;
    snic_piece_t from = { .here = (char *)&old, .bytes = 8 };
    return pgasi_snic_copy_piece(result, &from) ? SNIC_DONE
                                                : snic_fail(job, PGASI_CQE_LOCAL_ACCESS);
}

static snic_outcome_t remote_entry(snic_job_t *job)
{
    snic_piece_t pieces[SNIC_SPANS_MAX];
    char inline_room[PGASI_WQE_SEGMENTS_MAX * PGASI_WQE_SEGMENT];
    uint8_t op = job->wqe.op;
    bool writes_here = op == PGASI_WQE_READ || op == PGASI_WQE_CSWAP || op == PGASI_WQE_FADD;
    int n = gather(job, writes_here ? PGAS_VERBS_LOCAL_WRITE : 0, pieces, inline_room);
    if (n < 0)
        return snic_fail(job, PGASI_CQE_LOCAL_PROT);
    snic_outcome_t outcome = find_responder(job);
    if (outcome != SNIC_DONE)
        return outcome;
    if (!snic_lock_client(job->peer, &job->peer_qp->lock))
        return SNIC_BLOCKED;
    outcome = check_responder(job);
    if (outcome == SNIC_DONE &&
        (op == PGASI_WQE_SEND || op == PGASI_WQE_SEND_IMM || op == PGASI_WQE_WRITE_IMM))
        outcome = pgasi_snic_deliver(job, pieces, (unsigned)n);
    else if (outcome == SNIC_DONE && (op == PGASI_WQE_CSWAP || op == PGASI_WQE_FADD))
        outcome = fetch(job, &pieces[0]);
    else if (outcome == SNIC_DONE)
        outcome = transfer(job, pieces, (unsigned)n);
    if (outcome == SNIC_DONE)
        next_turn(job);
    snic_unlock(&job->peer_qp->lock);
    return outcome;
}

static snic_outcome_t carry_out(snic_job_t *job)
{
    bool master = job->qp->flags & PGASI_SNIC_MASTER;
    switch (job->wqe.op) {
    case PGASI_WQE_NOP:
        return SNIC_DONE;
    case PGASI_WQE_WAIT:
        return master ? pgasi_snic_wait_entry(job) : snic_fail(job, PGASI_CQE_LOCAL_QP_OP);
    case PGASI_WQE_SEND_EN:
    case PGASI_WQE_RECV_EN:
        return master ? pgasi_snic_enable_entry(job) : snic_fail(job, PGASI_CQE_LOCAL_QP_OP);
    default:
        return remote_entry(job);
    }
}

/* ---- one queue pair ---- */

/* Reads the doorbell: how far the queue may be executed. @return false: the queue has overrun */
static bool read_doorbell(snic_view_t *view, snic_qp_t *qp)
{
    if (__atomic_load_n(&qp->doorbell, __ATOMIC_RELAXED) == 0)
        return true;
    uint32_t doorbell = __atomic_exchange_n(&qp->doorbell, 0, __ATOMIC_ACQ_REL);
    int16_t ahead = (int16_t)(doorbell - qp->sq_limit);
    if (ahead > 0)
        pgasi_snic_advance(view, qp, (uint32_t)ahead);
    uint32_t log = snic_load(qp->log_sq_blocks);
    return log <= SNIC_LOG_QUEUE &&
           ((qp->flags & PGASI_SNIC_CHECK_OVERRUN) == 0 || qp->sq_limit - qp->sq_ci <= 1u << log);
}

void pgasi_snic_read_doorbell(snic_view_t *view, uint32_t qpn)
{
    snic_qp_t *qp = snic_qp(view, qpn);
    if (qp && __atomic_load_n(&qp->state, __ATOMIC_ACQUIRE) != PGASI_SNIC_ERROR &&
        !read_doorbell(view, qp))
        snic_fail_qp(view, qp);
}

/* The blocks of a send queue. @return NULL: its words are invalid */
static const unsigned char *send_ring(const snic_view_t *view, const snic_qp_t *qp, size_t *bytes_p)
{
    uint32_t log = snic_load(qp->log_sq_blocks);
    if (log > SNIC_LOG_QUEUE)
        return NULL;
    *bytes_p = (size_t)PGASI_WQE_BB << log;
    return snic_at(view, snic_load(qp->sq), *bytes_p);
}

/* The spans, a kilobyte, need no value yet. */
static void begin_job(snic_job_t *job, snic_view_t *view, snic_qp_t *qp)
{
    job->view = view;
    job->qp = qp;
    job->place = (uint32_t)(qp - view->devmem->qps);
    job->ring = NULL;
    job->ring_bytes = 0;
    job->syndrome = PGASI_CQE_OK;
    job->peer = NULL;
    job->peer_qp = NULL;
    job->sent_bytes = 0;
    job->runs_enabled = false;
    job->enabled = NULL;
}

/* Completes all posted entries of both queues as flushed.
 * @return false: the owner is stopped while it holds the lock */
static bool flush(snic_view_t *view, snic_qp_t *qp)
{
    pgasi_snic_late_drain(view);
    size_t ring_bytes;
    const uint32_t *record = snic_at(view, snic_load(qp->record), 2 * sizeof(uint32_t));
    const unsigned char *ring = send_ring(view, qp, &ring_bytes);
    if (!record || !ring)
        return true;
    snic_job_t job;
    begin_job(&job, view, qp);
    /* not positive: the ring runs again, beyond what was posted */
    int16_t posted = (int16_t)(be32toh(__atomic_load_n(&record[1], __ATOMIC_ACQUIRE)) - qp->sq_ci);
    uint32_t left = (uint32_t)PGASI_MAX(posted, 0);
    for (left = PGASI_MIN(left, (uint32_t)(ring_bytes / PGASI_WQE_BB)); left > 0;) {
        pgasi_wqe_decode(ring, ring_bytes, qp->sq_ci, &job.wqe);
        uint32_t blocks = PGASI_MIN(PGASI_MAX(pgasi_wqe_blocks(job.wqe.segments), 1u), left);
        pgasi_snic_complete_sender(&job, PGASI_CQE_FLUSHED, 0);
        qp->sq_ci += blocks;
        left -= blocks;
    }
    qp->sq_limit = qp->sq_ci;
    if (!snic_lock_client(view, &qp->lock))
        return false;
    left = qp->rq_stride == 0
               ? 0
               : (uint16_t)(be32toh(__atomic_load_n(&record[0], __ATOMIC_ACQUIRE)) - qp->rq_ci);
    for (left = PGASI_MIN(left, 1u << PGASI_MIN(snic_load(qp->log_rq_entries), SNIC_LOG_QUEUE));
         left > 0; left--) {
        pgasi_cqe_fields_t fields = { .op = PGASI_CQE_RESP_ERR,
                                      .syndrome = PGASI_CQE_FLUSHED,
                                      .counter = (uint16_t)qp->rq_ci++,
                                      .qpn = qp->number };
        pgasi_snic_push(view, qp->recv_cqn, &fields);
    }
    snic_unlock(&qp->lock);
    return true;
}

static void run_enabled(snic_view_t *view, snic_qp_t *qp);

/* @param runs_enabled  whether queues that it enables run at once
 * @return entries executed; *blocked_p: the next entry waits for something */
static unsigned run_qp(snic_view_t *view, uint32_t place, unsigned budget, bool runs_enabled,
                       bool *blocked_p)
{
    snic_qp_t *qp = &view->devmem->qps[place];
    *blocked_p = false;
    if (qp->number == 0)
        return 0;
    if (__atomic_load_n(&view->gone, __ATOMIC_ACQUIRE)) { /* see unreached */
        *blocked_p = true;
        return 0;
    }
    uint32_t state = __atomic_load_n(&qp->state, __ATOMIC_ACQUIRE);
    if (state != PGASI_SNIC_ERROR && !read_doorbell(view, qp)) {
        snic_fail_qp(view, qp);
        state = PGASI_SNIC_ERROR;
    }
    if (state == PGASI_SNIC_ERROR) {
        __atomic_store_n(&qp->doorbell, 0, __ATOMIC_RELAXED);
        *blocked_p = !flush(view, qp);
        return 0;
    }
    snic_job_t job;
    begin_job(&job, view, qp);
    job.runs_enabled = runs_enabled;
    job.ring = send_ring(view, qp, &job.ring_bytes);
    if (state != PGASI_SNIC_RTS || !job.ring)
        return 0;
    if (snic_is_hostile(view, PGAS_VERBS_SNIC_PREFETCH)) {
        const unsigned char *shadow = pgasi_snic_shadow(view, qp, job.ring_bytes);
        job.ring = shadow != NULL ? shadow : job.ring;
    }
    unsigned n = 0;
    while (n < budget && (int32_t)(qp->sq_limit - qp->sq_ci) > 0) {
        bool sane = pgasi_wqe_decode(job.ring, job.ring_bytes, qp->sq_ci, &job.wqe);
        snic_outcome_t outcome = SNIC_BLOCKED;
        if (!sane) {
            job.syndrome = PGASI_CQE_LOCAL_QP_OP;
            outcome = SNIC_FAILED;
        } else if (!(snic_is_hostile(view, PGAS_VERBS_SNIC_DELAY) &&
                     pgasi_snic_held_back(view, qp, &job.wqe))) {
            outcome = carry_out(&job);
        }
        if (outcome == SNIC_BLOCKED) {
            *blocked_p = true;
            break;
        }
        bool signaled = (job.wqe.flags & PGASI_WQE_SIGNAL_MASK) == PGASI_WQE_SIGNAL ||
                        (qp->flags & PGASI_SNIC_SIGNAL_ALL) != 0;
        if (outcome == SNIC_FAILED) {
            pgasi_snic_late_drain(view);
            snic_fail_qp(view, qp);
            pgasi_snic_complete_sender(&job, job.syndrome, 0);
        } else if (signaled && !pgasi_snic_complete_sender(&job, PGASI_CQE_OK, job.sent_bytes)) {
            snic_fail_qp(view, qp);
            outcome = SNIC_FAILED;
        }
        qp->sq_ci += PGASI_MAX(pgasi_wqe_blocks(job.wqe.segments), 1u);
        qp->tries = 0;
        job.sent_bytes = 0;
        n++;
        if (outcome == SNIC_FAILED) {
            *blocked_p = !flush(view, qp);
            break;
        }
        if (job.enabled) {
            run_enabled(view, job.enabled);
            job.enabled = NULL;
        }
    }
    return n;
}

/* A master's next entry often waits for the queue that it has just enabled: run now, it spares both
 * of them further visits. What it leaves is visited as usual. */
static void run_enabled(snic_view_t *view, snic_qp_t *qp)
{
    uint32_t place = (uint32_t)(qp - view->devmem->qps);
    bool waits;
    __atomic_exchange_n(&view->devmem->active[place], 0, __ATOMIC_SEQ_CST);
    unsigned n = run_qp(view, place, BUDGET, false, &waits);
    if (waits || n == BUDGET)
        __atomic_store_n(&view->devmem->active[place], 1, __ATOMIC_RELEASE);
}

/* ---- all of them ---- */

unsigned pgasi_snic_execute(snic_view_t *view)
{
    snic_devmem_t *devmem = view->devmem;
    unsigned all = 0;
    bool more = true;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now); /* costs some nanoseconds */
    view->tick = (uint32_t)((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
    while (more && all < BUDGET_ALL) {
        /* an exchange, so that everything written before the cleared flag is seen */
        __atomic_exchange_n(&devmem->work, 0, __ATOMIC_SEQ_CST);
        more = false;
        uint32_t blocked = 0, high = snic_high(devmem);
        bool shuffle = snic_is_hostile(view, PGAS_VERBS_SNIC_SHUFFLE) && high > 0;
        bool hostile = snic_is_hostile(view, PGAS_VERBS_SNIC_ALL);
        uint32_t first = shuffle ? (uint32_t)pgasi_snic_random(view, high) : 0;
        unsigned budget = shuffle ? 1 : BUDGET;
        if (snic_is_hostile(view, PGAS_VERBS_SNIC_DELAY))
            all += pgasi_snic_late_some(view);
        for (uint32_t k = 0; k < high; k++) {
            uint32_t i = first + k < high ? first + k : first + k - high;
            if (__atomic_load_n(&devmem->active[i], __ATOMIC_RELAXED) == 0)
                continue;
            bool waits;
            __atomic_exchange_n(&devmem->active[i], 0, __ATOMIC_SEQ_CST);
            unsigned n = run_qp(view, i, budget, !hostile, &waits);
            if (waits || n == budget)
                __atomic_store_n(&devmem->active[i], 1, __ATOMIC_RELEASE);
            blocked += waits;
            more |= n > 0;
            all += n;
        }
        blocked += pgasi_snic_late_left(view);
        __atomic_store_n(&devmem->blocked, blocked, __ATOMIC_RELEASE);
        more |= __atomic_load_n(&devmem->work, __ATOMIC_SEQ_CST) != 0;
    }
    if (more)
        __atomic_store_n(&devmem->work, 1, __ATOMIC_RELEASE);
    return all;
}

bool pgasi_snic_execute_step(snic_view_t *view)
{
    snic_devmem_t *devmem = view->devmem;
    uint32_t high = snic_high(devmem);
    if (pgasi_snic_late_left(view) > 0 && pgasi_snic_random(view, 2) == 0)
        return pgasi_snic_late_one(view);
    uint32_t first = high > 0 ? (uint32_t)pgasi_snic_random(view, high) : 0;
    for (uint32_t k = 0; k < high; k++) {
        uint32_t i = (first + k) % high;
        bool waits;
        if (devmem->active[i] == 0)
            continue;
        unsigned n = run_qp(view, i, 1, false, &waits);
        bool left = (int32_t)(devmem->qps[i].sq_limit - devmem->qps[i].sq_ci) > 0;
        devmem->active[i] = waits || left;
        if (n > 0)
            return true;
    }
    return pgasi_snic_late_one(view);
}
