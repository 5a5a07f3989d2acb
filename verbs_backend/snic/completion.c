/* Writes completions into completion queues of any device, and events for their owners. */
#include "verbs_backend/snic/engine.h"

#include <unistd.h>

static void give_event(snic_view_t *view, uint32_t cqn)
{
    static const char byte = 1;
    const snic_cq_t *cq = &view->devmem->cqs[cqn];
    int own = __atomic_load_n(&view->own_events[cqn], __ATOMIC_RELAXED);
    if (!view->own) {
        pgasi_snic_view_event(view, snic_load(cq->event_fd), snic_load(cq->event_serial));
    } else if (own >= 0) {
        /* this process holds the reading end too, so no signal is raised */
        ssize_t n = write(own, &byte, 1);
        (void)n; /* a full pipe is readable, too */
    }
}

/** The memory of a completion queue, by words that were loaded once. */
typedef struct {
    snic_cq_t *cq;
    pgasi_cqe_t *ring;
    const uint32_t *record;
    uint32_t n;
} cq_memory_t;

/* @return false: there is no such queue, or its words are invalid */
static bool find_cq(const snic_view_t *view, uint32_t cqn, cq_memory_t *memory_p)
{
    snic_cq_t *cq = snic_cq(view, cqn);
    uint32_t log = cq != NULL ? snic_load(cq->log_entries) : SNIC_LOG_CQ + 1;
    if (log > SNIC_LOG_CQ)
        return false;
    *memory_p = (cq_memory_t){ .cq = cq, .n = 1u << log };
    memory_p->ring = snic_at(view, snic_load(cq->ring), sizeof(pgasi_cqe_t) << log);
    memory_p->record = snic_at(view, snic_load(cq->record), 2 * sizeof(uint32_t));
    return memory_p->ring && memory_p->record;
}

bool pgasi_snic_push_behind(snic_view_t *view, uint32_t cqn, const pgasi_cqe_fields_t *fields,
                            uint32_t behind)
{
    cq_memory_t memory;
    if (!find_cq(view, cqn, &memory))
        return false;
    snic_cq_t *cq = memory.cq;
    if (PGAS_UNLIKELY(!snic_lock_client(view, &cq->lock))) {
        __atomic_store_n(&cq->dead, 1, __ATOMIC_RELEASE);
        return false;
    }
    uint64_t count = snic_load(cq->count);
    uint32_t n = memory.n, pi = (uint32_t)count;
    uint32_t ci = be32toh(__atomic_load_n(&memory.record[0], __ATOMIC_ACQUIRE));
    if (PGAS_UNLIKELY(cq->dead || (!cq->ignore_overrun && ((pi - ci) & 0xffffffu) >= n))) {
        __atomic_store_n(&cq->dead, 1, __ATOMIC_RELEASE);
        snic_unlock(&cq->lock);
        return false;
    }
    pgasi_cqe_t *cqe = &memory.ring[pi & (n - 1)];
    pgasi_cqe_encode(cqe, fields);
    __atomic_store_n(&cqe->op_own, pgasi_cqe_own(fields, (pi & n) != 0), __ATOMIC_RELEASE);
    uint64_t hidden = (count >> 32) + behind;
    /* stored before n_waits is read */
    __atomic_store_n(&cq->count, hidden << 32 | (uint32_t)(pi + 1), __ATOMIC_SEQ_CST);
    bool counts = fields->solicited || fields->op >= PGASI_CQE_REQ_ERR;
    uint32_t armed = __atomic_load_n(&cq->armed, __ATOMIC_SEQ_CST);
    bool event = armed == 1 || (armed == 2 && counts);
    if (PGAS_UNLIKELY(event))
        event = __atomic_exchange_n(&cq->armed, 0, __ATOMIC_SEQ_CST) != 0;
    bool waits = __atomic_load_n(&cq->n_waits, __ATOMIC_SEQ_CST) != 0;
    snic_unlock(&cq->lock);
    if (PGAS_UNLIKELY(event && snic_load(cq->event_fd) >= 0))
        give_event(view, cqn);
    if (PGAS_UNLIKELY(waits)) {
        __atomic_store_n(&cq->n_waits, 0, __ATOMIC_RELAXED);
        pgasi_snic_notify(view);
    }
    return true;
}

bool pgasi_snic_cq_arm(pgasi_snic_t *snic, uint32_t cqn, bool solicited)
{
    snic_view_t *view = snic->view;
    cq_memory_t memory;
    if (!find_cq(view, cqn, &memory))
        return true; /* no further completions arrive */
    snic_cq_t *cq = memory.cq;
    pgasi_snic_need_sleeper(snic);
    /* stored before the ring is read */
    __atomic_store_n(&cq->armed, solicited ? 2 : 1, __ATOMIC_SEQ_CST);
    uint32_t n = memory.n, ci = be32toh(memory.record[0]) & 0xffffffu,
             pi = (uint32_t)__atomic_load_n(&cq->count, __ATOMIC_SEQ_CST);
    bool there = false;
    for (; ((pi - ci) & 0xffffffu) != 0 && !there && ((pi - ci) & 0xffffffu) <= n; ci++) {
        uint8_t own = __atomic_load_n(&memory.ring[ci & (n - 1)].op_own, __ATOMIC_RELAXED);
        there = !solicited || (own & 2) != 0 || own >> 4 >= PGASI_CQE_REQ_ERR;
    }
    if (there)
        __atomic_store_n(&cq->armed, 0, __ATOMIC_RELAXED);
    return !there;
}

bool pgasi_snic_complete_sender(const snic_job_t *job, uint32_t syndrome, uint32_t bytes)
{
    pgasi_cqe_fields_t fields = { .op =
                                      syndrome == PGASI_CQE_OK ? PGASI_CQE_REQ : PGASI_CQE_REQ_ERR,
                                  .wqe_op = job->wqe.op,
                                  .syndrome = (uint8_t)syndrome,
                                  .counter = (uint16_t)job->qp->sq_ci,
                                  .qpn = job->qp->number,
                                  .bytes = bytes };
    if (snic_is_hostile(job->view, PGAS_VERBS_SNIC_DELAY) && syndrome == PGASI_CQE_OK &&
        pgasi_snic_delay_completion(job, SNIC_STREAM_SEND, &fields))
        return true;
    return pgasi_snic_push(job->view, job->qp->send_cqn, &fields);
}
