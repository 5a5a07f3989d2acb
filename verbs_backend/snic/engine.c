/* Executing work queue entries. One device's send queues are gone through in turn; an entry is
 * decoded, carried out on both sides and completed, or left where it is until what it waits for has
 * come.
 *
 * What happens when whoever runs a device dies in the middle: sq_ci moves behind an entry last, so
 * the entry is executed again, as a network would repeat it; the queue pairs of the dead process
 * end anyway. A completion queue's lock guards "write at pi, then pi + 1", a shared receive queue's
 * "read the slot, then move on by one store": both can be begun again by whoever takes the lock
 * over.
 *
 * Every word of a device memory may have been written by another process, at any moment. Positions, sizes,
 * references and numbers are loaded once, and what was loaded is checked against the device memory's
 * limits, or masked, before it is used; entries are decoded from copies. */
#include "verbs_backend/snic/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"

#define SPANS_MAX    PGASI_WQE_SEGMENTS_MAX
#define BUDGET       256                /* entries of one queue pair before the next has its turn */
#define BUDGET_ALL   4096               /* entries of one call */
#define BOUNCE_BYTES 16384              /* between two other processes' memory */
#define RNR_NS       UINT64_C(10000000) /* a try for want of a receive entry */
#define RETRY_NS     UINT64_C(500000000) /* a try for want of a peer */
/* between two looks whether a peer lives whose memory we reach all the same */
#define LOOK_MS    100
#define STEP_TRIES 64 /* what a try is in steps */
/* of a result that is kept; larger ones are read when they come */
#define LATE_BYTES_MAX (1u << 20)

typedef enum { DONE, BLOCKED, FAILED } outcome_t;

/** A piece of memory: here, or in another process's private memory. */
typedef struct {
    char *here;        /* NULL: only by the kernel */
    snic_view_t *view; /* whose */
    uint64_t addr;     /* there */
    uint64_t bytes;
} piece_t;

/** An entry on its way. */
typedef struct {
    snic_view_t *view; /* the requester's device */
    snic_qp_t *qp;
    uint32_t place;
    const unsigned char *ring;
    size_t ring_bytes;
    pgasi_wqe_t wqe;
    pgasi_wqe_span_t spans[SPANS_MAX]; /* of wqe, as they were when they were checked */
    uint32_t syndrome;                 /* if it failed: as the requester sees it */
    snic_view_t *peer;
    snic_qp_t *peer_qp;
    uint32_t sent_bytes;
} job_t;

static bool stepping(const snic_view_t *view)
{
    return view->id.engine == PGAS_VERBS_ENGINE_STEP;
}

static bool hostile(const snic_view_t *view, uint32_t how)
{
    return PGAS_UNLIKELY((view->devmem->adversary & how) != 0);
}

/* ---- memory ---- */

/* The check of every access. @return a syndrome's kind: true if allowed, the piece filled in */
static bool reach(snic_view_t *view, uint32_t pd, uint32_t key, uint64_t addr, uint64_t bytes,
                  uint32_t access, piece_t *piece_p)
{
    uint32_t place = key >> 8;
    if (place >= SNIC_MRS)
        return false;
    const snic_mr_t *mr = &view->devmem->mrs[place];
    if (key == 0 || __atomic_load_n(&mr->key, __ATOMIC_ACQUIRE) != key)
        return false;
    const snic_map_t *map = __atomic_load_n(&view->mrs[place], __ATOMIC_ACQUIRE);
    if (PGAS_UNLIKELY(!map || map->serial != snic_load(mr->serial) || map->key != key)) {
        map = pgasi_snic_view_map(view, key);
        if (!map)
            return false;
    }
    if (map->pd != pd || (map->access & access) != access || bytes > map->bytes ||
        addr < map->addr || addr - map->addr > map->bytes - bytes)
        return false;
    *piece_p = (piece_t){ .here = map->base != NULL ? map->base + (addr - map->addr) : NULL,
                          .view = view,
                          .addr = addr,
                          .bytes = bytes };
    return true;
}

/* One side in another process. @return false: it is not there */
static bool copy_by_kernel(const piece_t *far, char *here, uint64_t bytes, bool write)
{
    while (bytes > 0) {
        struct iovec local = { here, bytes }, remote = { (void *)(uintptr_t)(far->addr), bytes };
        remote.iov_base = (char *)remote.iov_base + (far->bytes - bytes);
        ssize_t n = write ? process_vm_writev((pid_t)far->view->id.pid, &local, 1, &remote, 1, 0)
                          : process_vm_readv((pid_t)far->view->id.pid, &local, 1, &remote, 1, 0);
        if (n <= 0)
            return false;
        here += n;
        bytes -= (uint64_t)n;
    }
    return true;
}

/* Bytes of both are the same. */
static bool copy_piece(const piece_t *to, const piece_t *from)
{
    if (PGAS_LIKELY(to->here && from->here)) {
        if (PGAS_LIKELY(to->bytes == 8))
            memcpy(to->here, from->here, 8);
        else
            memmove(to->here, from->here, to->bytes);
        return true;
    }
    if (to->here)
        return copy_by_kernel(from, to->here, to->bytes, false);
    if (from->here)
        return copy_by_kernel(to, from->here, to->bytes, true);
    char bounce[BOUNCE_BYTES];
    for (uint64_t at = 0; at < to->bytes; at += sizeof bounce) {
        uint64_t bytes = PGASI_MIN(to->bytes - at, (uint64_t)sizeof bounce);
        piece_t part_from = { .view = from->view, .addr = from->addr + at, .bytes = bytes };
        piece_t part_to = { .view = to->view, .addr = to->addr + at, .bytes = bytes };
        if (!copy_by_kernel(&part_from, bounce, bytes, false) ||
            !copy_by_kernel(&part_to, bounce, bytes, true))
            return false;
    }
    return true;
}

static piece_t cut(const piece_t *piece, uint64_t at, uint64_t bytes)
{
    piece_t part = *piece;
    part.here = piece->here != NULL ? piece->here + at : NULL;
    part.addr += at;
    part.bytes = bytes;
    return part;
}

/* Copies from one list of pieces to another. @return false: a piece is not mapped, or the target is
 * too short */
static bool copy_lists(const piece_t *to, unsigned n_to, const piece_t *from, unsigned n_from)
{
    uint64_t at = 0;
    const piece_t *last = to + n_to;
    for (unsigned i = 0; i < n_from; i++) {
        uint64_t done = 0;
        while (done < from[i].bytes) {
            if (PGAS_UNLIKELY(to == last))
                return false;
            uint64_t bytes = PGASI_MIN(from[i].bytes - done, to->bytes - at);
            if (bytes > 0) {
                piece_t a = cut(to, at, bytes), b = cut(&from[i], done, bytes);
                if (!copy_piece(&a, &b))
                    return false;
                done += bytes;
                at += bytes;
            }
            if (at == to->bytes && done < from[i].bytes) {
                to++;
                at = 0;
            }
        }
    }
    return true;
}

/* ---- completions ---- */

static void give_event(snic_view_t *view, uint32_t cqn)
{
    static const char byte = 1;
    const snic_cq_t *cq = &view->devmem->cqs[cqn];
    int own = __atomic_load_n(&view->own_events[cqn], __ATOMIC_RELAXED);
    if (!view->own) {
        pgasi_snic_view_event(view, snic_load(cq->event_fd), snic_load(cq->event_serial));
    } else if (own >= 0) {
        ssize_t n = write(own, &byte, 1); /* we hold the pipe's other end too, so no signal comes */
        (void)n;                          /* a full pipe is readable all the same */
    }
}

/** A completion queue: its memory, by what was loaded once. */
typedef struct {
    snic_cq_t *cq;
    pgasi_cqe_t *ring;
    const uint32_t *record;
    uint32_t n;
} cq_memory_t;

/* @return false: there is none, or its words are invalid */
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

/* The software NIC's process does not wait for a client that is stopped while it holds the lock.
 * @return false: not locked */
static bool lock_client(const snic_view_t *view, uint64_t *lock)
{
    if (view->id.engine == PGAS_VERBS_ENGINE_PROCESS)
        return pgasi_snic_lock_soon(lock);
    pgasi_snic_lock(lock);
    return true;
}

/* behind: completions that WAITs shall not see yet, 0 or 1.
 * @return false: there is no such queue, it has overrun, or its owner is stopped while it holds the
 * lock */
static bool push_behind(snic_view_t *view, uint32_t cqn, const pgasi_cqe_fields_t *fields,
                        uint32_t behind)
{
    cq_memory_t memory;
    if (!find_cq(view, cqn, &memory))
        return false;
    snic_cq_t *cq = memory.cq;
    if (PGAS_UNLIKELY(!lock_client(view, &cq->lock))) {
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
    /* before we look for waits */
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

static bool push(snic_view_t *view, uint32_t cqn, const pgasi_cqe_fields_t *fields)
{
    return push_behind(view, cqn, fields, 0);
}

bool pgasi_snic_cq_arm(pgasi_snic_t *snic, uint32_t cqn, bool solicited)
{
    snic_view_t *view = snic->view;
    cq_memory_t memory;
    if (!find_cq(view, cqn, &memory))
        return true; /* no further completions come */
    snic_cq_t *cq = memory.cq;
    pgasi_snic_need_sleeper(snic);
    __atomic_store_n(&cq->armed, solicited ? 2 : 1, __ATOMIC_SEQ_CST); /* before we look */
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

static void fail_qp(snic_view_t *view, snic_qp_t *qp)
{
    __atomic_store_n(&qp->state, (uint32_t)PGASI_SNIC_ERROR, __ATOMIC_RELEASE);
    __atomic_store_n(&view->devmem->active[qp - view->devmem->qps], 1, __ATOMIC_RELEASE);
}

/* A completion that comes later, if the adversary wants it. @return false: now */
static bool push_late(const job_t *job, snic_stream_t stream, const pgasi_cqe_fields_t *fields)
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

/* A completion of the entry at hand, on the sending side. */
static bool complete_sender(const job_t *job, uint32_t syndrome, uint32_t bytes)
{
    pgasi_cqe_fields_t fields = { .op =
                                      syndrome == PGASI_CQE_OK ? PGASI_CQE_REQ : PGASI_CQE_REQ_ERR,
                                  .wqe_op = job->wqe.op,
                                  .syndrome = (uint8_t)syndrome,
                                  .counter = (uint16_t)job->qp->sq_ci,
                                  .qpn = job->qp->number,
                                  .bytes = bytes };
    if (hostile(job->view, PGAS_VERBS_SNIC_DELAY) && syndrome == PGASI_CQE_OK &&
        push_late(job, SNIC_STREAM_SEND, &fields))
        return true;
    return push(job->view, job->qp->send_cqn, &fields);
}

/** A receive entry that was taken. */
typedef struct {
    piece_t pieces[SPANS_MAX];
    unsigned n;
    uint64_t bytes;
    uint16_t counter;
    uint32_t srqn;
    bool refused; /* one of its pieces may not be written */
} receive_t;

static bool complete_receiver(const job_t *job, const receive_t *receive, uint32_t syndrome)
{
    bool imm = job->wqe.op == PGASI_WQE_SEND_IMM, write = job->wqe.op == PGASI_WQE_WRITE_IMM;
    uint8_t op = write ? PGASI_CQE_RESP_WRITE_IMM
                 : imm ? PGASI_CQE_RESP_SEND_IMM
                       : PGASI_CQE_RESP_SEND;
    pgasi_cqe_fields_t fields = { .op = syndrome == PGASI_CQE_OK ? op : PGASI_CQE_RESP_ERR,
                                  .solicited = (job->wqe.flags & PGASI_WQE_SOLICITED) != 0,
                                  .syndrome = (uint8_t)syndrome,
                                  .counter = receive->counter,
                                  .qpn = job->peer_qp->number,
                                  .srqn = receive->srqn,
                                  .bytes = job->sent_bytes,
                                  .imm = job->wqe.imm };
    if (hostile(job->view, PGAS_VERBS_SNIC_DELAY) && push_late(job, SNIC_STREAM_RECV, &fields))
        return true;
    return push(job->peer, job->peer_qp->recv_cqn, &fields);
}

/* ---- the receive side ---- */

static void read_entry(snic_view_t *view, uint32_t pd, const unsigned char *at, unsigned n_max,
                       receive_t *receive)
{
    for (unsigned i = 0; i < n_max; i++) {
        pgasi_wqe_span_t span = pgasi_wqe_read_data(at + (size_t)i * PGASI_WQE_SEGMENT);
        if (span.lkey == PGASI_WQE_LKEY_END)
            break;
        if (!reach(view, pd, span.lkey, span.addr, span.bytes, PGAS_VERBS_LOCAL_WRITE,
                   &receive->pieces[receive->n])) {
            receive->refused = true;
            break;
        }
        receive->bytes += span.bytes;
        receive->n++;
    }
}

/* A receive ring with entries of `stride` bytes; words are loaded once. @return NULL: they are
 * invalid */
static const unsigned char *receive_ring(const snic_view_t *view, pgasi_snic_ref_t ref,
                                         uint32_t log, uint32_t stride)
{
    bool sane = log <= SNIC_LOG_QUEUE && stride >= PGASI_WQE_SEGMENT && stride <= SNIC_STRIDE &&
                stride % PGASI_WQE_SEGMENT == 0;
    return sane ? snic_at(view, ref, (uint64_t)stride << log) : NULL;
}

static bool take_shared(snic_view_t *view, uint32_t srqn, receive_t *receive)
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
    if (!lock_client(view, &srq->lock))
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
                   PGASI_MIN(stride / PGASI_WQE_SEGMENT - 1, SPANS_MAX), receive);
        __atomic_store_n(&srq->place, (uint64_t)(be16toh(next) & mask) << 32 | (taken + 1),
                         __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(&srq->wanted, 1, __ATOMIC_SEQ_CST);
    }
    snic_unlock(&srq->lock);
    return there;
}

/* The queue pair's lock is held. @return false: there is no entry */
static bool take_receive(snic_view_t *view, snic_qp_t *qp, receive_t *receive)
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
    if ((qp->flags & PGASI_SNIC_MANAGED_RECV) != 0 && (int16_t)(enabled - limit) < 0)
        limit = enabled;
    if ((int16_t)(limit - ci) <= 0)
        return false;
    receive->counter = (uint16_t)ci;
    read_entry(view, snic_load(qp->pd), ring + (size_t)(ci & ((1u << log) - 1)) * stride,
               PGASI_MIN(stride / PGASI_WQE_SEGMENT, SPANS_MAX), receive);
    return true;
}

static void receive_taken(snic_qp_t *qp, const receive_t *receive)
{
    if (receive->srqn == 0)
        qp->rq_ci++;
}

/* ---- one entry ---- */

static outcome_t fail(job_t *job, uint32_t syndrome)
{
    job->syndrome = syndrome;
    return FAILED;
}

/* Data that is sent: inline, or gathered from registered memory. @return pieces, or -1 */
static int gather(job_t *job, uint32_t access, piece_t *pieces, char *inline_room)
{
    const pgasi_wqe_t *wqe = &job->wqe;
    if (wqe->is_inline) {
        size_t at = (size_t)job->qp->sq_ci * PGASI_WQE_BB + wqe->inline_at;
        pgasi_wqe_copy_out(job->ring, job->ring_bytes, at, inline_room, wqe->inline_bytes);
        pieces[0] = (piece_t){ .here = inline_room, .bytes = wqe->inline_bytes };
        job->sent_bytes = wqe->inline_bytes;
        return 1;
    }
    uint64_t bytes = 0;
    for (unsigned i = 0; i < wqe->n_data; i++) {
        const pgasi_wqe_span_t span =
            pgasi_wqe_data(job->ring, job->ring_bytes, job->qp->sq_ci, wqe, i);
        if (!reach(job->view, job->qp->pd, span.lkey, span.addr, span.bytes, access, &pieces[i]))
            return -1;
        job->spans[i] = span;
        bytes += span.bytes;
    }
    job->sent_bytes = (uint32_t)bytes;
    return bytes <= UINT32_C(1) << 31 ? (int)wqe->n_data : -1;
}

/* Without an answer: again later, or too often. */
static outcome_t try_again(job_t *job, uint32_t limit, uint64_t try_ns, uint32_t syndrome)
{
    snic_qp_t *qp = job->qp;
    if (!stepping(job->view) && !pgasi_snic_view_alive(job->peer))
        return fail(job, PGASI_CQE_RETRY);
    if (syndrome == PGASI_CQE_RNR_RETRY && limit == 7) /* without end */
        return BLOCKED;
    if (stepping(job->view)) {
        if (qp->tries++ < (limit + 1) * STEP_TRIES)
            return BLOCKED;
    } else {
        uint64_t now_ns = pgasi_now_ns();
        if (qp->tries++ == 0)
            qp->tried_ns = now_ns;
        if (now_ns - qp->tried_ns < (limit + 1) * try_ns)
            return BLOCKED;
    }
    return fail(job, syndrome);
}

/* Where we run it for its owner: a queue pair that is new to us, maybe in the place of another
 * one. */
static snic_view_t *look_up_peer(const job_t *job)
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

/* The other side. */
static outcome_t find_responder(job_t *job)
{
    job->peer = job->view->peers[job->place];
    if (PGAS_UNLIKELY(!job->peer || job->peer->id.cookie != job->qp->peer.cookie)) {
        job->peer = look_up_peer(job);
        if (!job->peer)
            return fail(job, PGASI_CQE_RETRY);
    }
    job->peer_qp = snic_qp(job->peer, job->qp->peer_qpn);
    if (PGAS_UNLIKELY(job->view->tick - __atomic_load_n(&job->peer->looked, __ATOMIC_RELAXED) >
                      LOOK_MS)) {
        __atomic_store_n(&job->peer->looked, job->view->tick, __ATOMIC_RELAXED);
        pgasi_snic_view_alive(job->peer);
    }
    bool gone = __atomic_load_n(&job->peer->gone, __ATOMIC_ACQUIRE) || !job->peer_qp;
    return PGAS_UNLIKELY(gone) ? fail(job, PGASI_CQE_RETRY) : DONE;
}

/* Messages carry numbers: a queue pair that was reset answers nothing that is not its turn. Its
 * lock is held. */
static bool in_turn(const job_t *job)
{
    return job->peer_qp->psn_in == job->qp->psn;
}

/* Whether it still is the one that we know, talks to us, and expects this message. Its lock is
 * held: it may be changed or closed, and another be made in its place. */
static outcome_t check_responder(job_t *job)
{
    const snic_qp_t *peer = job->peer_qp;
    uint32_t state = __atomic_load_n(&peer->state, __ATOMIC_ACQUIRE);
    if (PGAS_UNLIKELY(peer->number != job->qp->peer_qpn || state == PGASI_SNIC_ERROR))
        return fail(job, PGASI_CQE_RETRY);
    bool ready = state == PGASI_SNIC_RTR || state == PGASI_SNIC_RTS;
    bool ours = peer->peer_qpn == job->qp->number && peer->peer.cookie == job->view->id.cookie;
    return PGAS_LIKELY(ready && ours && in_turn(job))
               ? DONE
               : try_again(job, job->qp->retry, RETRY_NS, PGASI_CQE_RETRY);
}

/* Why the peer's memory could not be reached: a process that has just died has none any more. */
static uint32_t unreached(const job_t *job)
{
    __atomic_store_n(&job->peer->checked_ns, 0, __ATOMIC_RELAXED);
    return pgasi_snic_view_alive(job->peer) ? PGASI_CQE_REMOTE_OP : PGASI_CQE_RETRY;
}

static void next_turn(job_t *job)
{
    job->qp->psn = (job->qp->psn + 1) & 0xffffffu;
    __atomic_store_n(&job->peer_qp->psn_in, job->qp->psn, __ATOMIC_RELEASE);
}

/* What the peer's memory allows. A refusal ends both queue pairs. */
static outcome_t refuse(job_t *job)
{
    fail_qp(job->peer, job->peer_qp);
    pgasi_snic_notify(job->peer);
    return fail(job, PGASI_CQE_REMOTE_ACCESS);
}

static bool reach_remote(job_t *job, uint64_t bytes, uint32_t access, piece_t *piece_p)
{
    const snic_qp_t *peer = job->peer_qp;
    if (bytes == 0) {
        *piece_p = (piece_t){ .bytes = 0 };
        return true;
    }
    return (peer->access & access) == access &&
           reach(job->peer, peer->pd, job->wqe.rkey, job->wqe.remote_addr, bytes, access, piece_p);
}

/* SEND, and WRITE with immediate: takes a receive entry. */
static outcome_t deliver(job_t *job, const piece_t *from, unsigned n_from)
{
    bool write = job->wqe.op == PGASI_WQE_WRITE_IMM;
    receive_t receive;
    piece_t to;
    if (write && !reach_remote(job, job->sent_bytes, PGAS_VERBS_REMOTE_WRITE, &to))
        return refuse(job);
    snic_qp_t *peer = job->peer_qp;
    if (!take_receive(job->peer, peer, &receive)) {
        __atomic_store_n(&peer->wanted, 1, __ATOMIC_SEQ_CST);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (!take_receive(job->peer, peer, &receive)) /* posted while we said so */
            return try_again(job, job->qp->rnr_retry, RNR_NS, PGASI_CQE_RNR_RETRY);
    }
    uint32_t there = PGASI_CQE_OK, here = PGASI_CQE_OK;
    if (write) {
        if (!copy_lists(&to, 1, from, n_from))
            here = unreached(job);
    } else if (receive.refused) {
        there = PGASI_CQE_LOCAL_PROT;
        here = PGASI_CQE_REMOTE_OP;
    } else if (receive.bytes < job->sent_bytes) {
        there = PGASI_CQE_LOCAL_LENGTH;
        here = PGASI_CQE_REMOTE_INVALID;
    } else if (job->sent_bytes > 0 && !copy_lists(receive.pieces, receive.n, from, n_from)) {
        there = PGASI_CQE_LOCAL_PROT;
        here = unreached(job);
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    receive_taken(peer, &receive);
    bool pushed = complete_receiver(job, &receive, there);
    if (here == PGASI_CQE_OK && pushed)
        return DONE;
    fail_qp(job->peer, peer);
    pgasi_snic_notify(job->peer);
    return fail(job, here != PGASI_CQE_OK ? here : PGASI_CQE_REMOTE_OP);
}

/* A result comes later: what was read, or (NULL) what will be read then. @return false: now */
static bool result_late(const job_t *job, const void *result, uint64_t bytes)
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

/* A read whose result comes later: of bytes as they are now or, if nothing fences it, as they will
 * be. */
static bool read_late(job_t *job, const piece_t *remote)
{
    if (remote->bytes > LATE_BYTES_MAX || pgasi_snic_random(job->view, 2) == 0)
        return result_late(job, NULL, remote->bytes);
    char *bytes = malloc(remote->bytes);
    piece_t room = { .here = bytes, .bytes = remote->bytes };
    bool late = bytes && copy_piece(&room, remote) && result_late(job, bytes, remote->bytes);
    free(bytes);
    return late;
}

static outcome_t transfer(job_t *job, piece_t *pieces, unsigned n)
{
    bool read = job->wqe.op == PGASI_WQE_READ;
    piece_t remote;
    if (!reach_remote(job, job->sent_bytes, read ? PGAS_VERBS_REMOTE_READ : PGAS_VERBS_REMOTE_WRITE,
                      &remote))
        return refuse(job);
    if (job->sent_bytes == 0)
        return DONE;
    bool copied;
    if (read && hostile(job->view, PGAS_VERBS_SNIC_DELAY) && read_late(job, &remote))
        return DONE;
    if (PGAS_LIKELY(n == 1))
        copied = read ? copy_piece(&pieces[0], &remote) : copy_piece(&remote, &pieces[0]);
    else
        copied = read ? copy_lists(pieces, n, &remote, 1) : copy_lists(&remote, 1, pieces, n);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return copied ? DONE : fail(job, unreached(job));
}

static outcome_t fetch(job_t *job, const piece_t *result)
{
    const pgasi_wqe_t *wqe = &job->wqe;
    piece_t remote;
    if ((wqe->remote_addr & 7) != 0 || wqe->n_data != 1 || result->bytes != 8)
        return fail(job, PGASI_CQE_REMOTE_INVALID);
    if (!reach_remote(job, 8, PGAS_VERBS_REMOTE_ATOMIC, &remote))
        return refuse(job);
    if (!remote.here) /* no instruction of ours is atomic with those of its process */
        return fail(job, unreached(job));
    uint64_t *word = (uint64_t *)(void *)remote.here, old = wqe->compare;
    if (wqe->op == PGASI_WQE_FADD)
        old = __atomic_fetch_add(word, wqe->operand, __ATOMIC_SEQ_CST);
    else
        __atomic_compare_exchange_n(word, &old, wqe->operand, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
    if (hostile(job->view, PGAS_VERBS_SNIC_DELAY) && result_late(job, &old, sizeof old))
        return DONE;
    piece_t from = { .here = (char *)&old, .bytes = 8 };
    return copy_piece(result, &from) ? DONE : fail(job, PGASI_CQE_LOCAL_ACCESS);
}

static outcome_t remote_entry(job_t *job)
{
    piece_t pieces[SPANS_MAX];
    char inline_room[PGASI_WQE_SEGMENTS_MAX * PGASI_WQE_SEGMENT];
    uint8_t op = job->wqe.op;
    bool writes_here = op == PGASI_WQE_READ || op == PGASI_WQE_CSWAP || op == PGASI_WQE_FADD;
    int n = gather(job, writes_here ? PGAS_VERBS_LOCAL_WRITE : 0, pieces, inline_room);
    if (n < 0)
        return fail(job, PGASI_CQE_LOCAL_PROT);
    outcome_t outcome = find_responder(job);
    if (outcome != DONE)
        return outcome;
    if (!lock_client(job->peer, &job->peer_qp->lock))
        return BLOCKED;
    outcome = check_responder(job);
    if (outcome == DONE &&
        (op == PGASI_WQE_SEND || op == PGASI_WQE_SEND_IMM || op == PGASI_WQE_WRITE_IMM))
        outcome = deliver(job, pieces, (unsigned)n);
    else if (outcome == DONE && (op == PGASI_WQE_CSWAP || op == PGASI_WQE_FADD))
        outcome = fetch(job, &pieces[0]);
    else if (outcome == DONE)
        outcome = transfer(job, pieces, (unsigned)n);
    if (outcome == DONE)
        next_turn(job);
    snic_unlock(&job->peer_qp->lock);
    return outcome;
}

static outcome_t wait_entry(job_t *job)
{
    snic_cq_t *cq = snic_cq(job->view, job->wqe.number);
    if (!cq || job->wqe.opmod != 0) /* others wait for data, or for a time */
        return fail(job, PGASI_CQE_LOCAL_QP_OP);
    for (int looks = 0; looks < 2; looks++) {
        uint64_t count = __atomic_load_n(&cq->count, __ATOMIC_SEQ_CST);
        uint32_t pi = (uint32_t)count - (uint32_t)(count >> 32);
        if ((int32_t)((pi - job->wqe.index - 1) << 8) >= 0)
            return DONE;
        __atomic_store_n(&cq->n_waits, 1, __ATOMIC_SEQ_CST);
    }
    return BLOCKED;
}

/* More blocks of a send queue may be executed. */
static void advance(snic_view_t *view, snic_qp_t *qp, uint32_t blocks)
{
    if (hostile(view, PGAS_VERBS_SNIC_PREFETCH))
        pgasi_snic_prefetch(view, qp, qp->sq_limit, qp->sq_limit + blocks);
    qp->sq_limit += blocks;
}

/* Positions only grow; an older one changes nothing. */
static outcome_t enable_entry(job_t *job)
{
    snic_qp_t *target = snic_qp(job->view, job->wqe.number);
    if (!target)
        return fail(job, PGASI_CQE_LOCAL_QP_OP);
    if (job->wqe.op == PGASI_WQE_SEND_EN) {
        int16_t ahead = (int16_t)(job->wqe.index - target->sq_limit);
        if (ahead > 0)
            advance(job->view, target, (uint32_t)ahead);
    } else {
        int16_t ahead = (int16_t)(job->wqe.index - target->rq_limit);
        if (ahead > 0)
            __atomic_store_n(&target->rq_limit, target->rq_limit + (uint32_t)ahead,
                             __ATOMIC_RELEASE);
    }
    __atomic_store_n(&job->view->devmem->active[target - job->view->devmem->qps], 1,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&job->view->devmem->work, 1, __ATOMIC_RELEASE);
    return DONE;
}

static outcome_t carry_out(job_t *job)
{
    bool master = job->qp->flags & PGASI_SNIC_MASTER;
    switch (job->wqe.op) {
    case PGASI_WQE_NOP:
        return DONE;
    case PGASI_WQE_WAIT:
        return master ? wait_entry(job) : fail(job, PGASI_CQE_LOCAL_QP_OP);
    case PGASI_WQE_SEND_EN:
    case PGASI_WQE_RECV_EN:
        return master ? enable_entry(job) : fail(job, PGASI_CQE_LOCAL_QP_OP);
    default:
        return remote_entry(job);
    }
}

/* ---- one queue pair ---- */

/* The doorbell, if it has rung: how far the queue may be executed. @return false: it has overrun */
static bool read_doorbell(snic_view_t *view, snic_qp_t *qp)
{
    if (__atomic_load_n(&qp->doorbell, __ATOMIC_RELAXED) == 0)
        return true;
    uint32_t doorbell = __atomic_exchange_n(&qp->doorbell, 0, __ATOMIC_ACQ_REL);
    int16_t ahead = (int16_t)(doorbell - qp->sq_limit);
    if (ahead > 0)
        advance(view, qp, (uint32_t)ahead);
    uint32_t log = snic_load(qp->log_sq_blocks);
    return log <= SNIC_LOG_QUEUE &&
           ((qp->flags & PGASI_SNIC_CHECK_OVERRUN) == 0 || qp->sq_limit - qp->sq_ci <= 1u << log);
}

void pgasi_snic_read_doorbell(snic_view_t *view, uint32_t qpn)
{
    snic_qp_t *qp = snic_qp(view, qpn);
    if (qp && __atomic_load_n(&qp->state, __ATOMIC_ACQUIRE) != PGASI_SNIC_ERROR &&
        !read_doorbell(view, qp))
        fail_qp(view, qp);
}

/* ---- what the adversary kept back ---- */

/* @return a syndrome */
static uint32_t result_arrives(snic_view_t *view, const snic_qp_t *qp, snic_late_t *event)
{
    piece_t pieces[SPANS_MAX], from = { .here = NULL };
    size_t spans_bytes = event->n_spans * sizeof(pgasi_wqe_span_t);
    for (unsigned i = 0; i < event->n_spans; i++) {
        pgasi_wqe_span_t span;
        memcpy(&span, event->data + i * sizeof span, sizeof span);
        if (!reach(view, qp->pd, span.lkey, span.addr, span.bytes, PGAS_VERBS_LOCAL_WRITE,
                   &pieces[i]))
            return PGASI_CQE_LOCAL_PROT;
    }
    if (event->data_bytes > spans_bytes) {
        from = (piece_t){ .here = (char *)event->data + spans_bytes, .bytes = event->remote_bytes };
        return copy_lists(pieces, event->n_spans, &from, 1) ? PGASI_CQE_OK : PGASI_CQE_LOCAL_PROT;
    }
    snic_qp_t *peer = snic_qp(event->peer, event->peer_qpn);
    if (!peer)
        return PGASI_CQE_RETRY;
    pgasi_snic_lock(&peer->lock);
    bool good = peer->number == event->peer_qpn &&
                reach(event->peer, peer->pd, event->rkey, event->remote_addr, event->remote_bytes,
                      PGAS_VERBS_REMOTE_READ, &from);
    good = good && copy_lists(pieces, event->n_spans, &from, 1);
    snic_unlock(&peer->lock);
    return good ? PGASI_CQE_OK : PGASI_CQE_REMOTE_ACCESS;
}

/* Entries behind were carried out already; to their owner they are flushed. */
static void result_fails(snic_view_t *view, snic_qp_t *qp, const snic_late_t *event,
                         uint32_t syndrome)
{
    pgasi_cqe_fields_t fields = event->fields;
    snic_late_t *next;
    fields.syndrome = (uint8_t)syndrome;
    push(view, qp->send_cqn, &fields);
    while ((next = pgasi_snic_late_take(view, qp->number, SNIC_STREAM_SEND))) {
        fields = next->fields;
        fields.op = PGASI_CQE_REQ_ERR;
        fields.syndrome = PGASI_CQE_FLUSHED;
        push(view, qp->send_cqn, &fields);
        free(next);
    }
    fail_qp(view, qp);
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
        return; /* closed meanwhile, and its completion queue perhaps too */
    snic_late_t seen = *event;
    seen.kind = SNIC_LATE_SEEN;
    seen.stream = SNIC_STREAM_SEEN;
    if (recv)
        pgasi_snic_lock(&peer->lock);
    bool there = !recv || peer->number == event->peer_qpn;
    bool pushed = there && push_behind(event->cq_view, event->cqn, &event->fields, 1);
    if (recv)
        snic_unlock(&peer->lock);
    if (!there)
        return;
    if (!pushed)
        fail_qp(view, qp);
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

/* An entry that must wait for results, or whom the adversary lets wait. No lock is held: there is
 * room for what it adds. */
static bool held_back(snic_view_t *view, const snic_qp_t *qp, const pgasi_wqe_t *wqe)
{
    pgasi_snic_late_make_room(view);
    bool reads =
        wqe->op == PGASI_WQE_READ || wqe->op == PGASI_WQE_CSWAP || wqe->op == PGASI_WQE_FADD;
    unsigned n = pgasi_snic_late_results(view, qp->number);
    if ((wqe->flags & PGASI_WQE_FENCE_MASK) != 0 && n > 0)
        return true;
    if (reads && n >= PGASI_MAX(qp->reads_max, 1u))
        return true;
    return !stepping(view) && pgasi_snic_random(view, 4) == 0;
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

/* Its spans, a kilobyte, need no value yet. */
static void begin_job(job_t *job, snic_view_t *view, snic_qp_t *qp)
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
}

/* Everything posted and not executed ends, in both queues. @return false: the owner is stopped
 * while it holds the lock */
static bool flush(snic_view_t *view, snic_qp_t *qp)
{
    pgasi_snic_late_drain(view);
    size_t ring_bytes;
    const uint32_t *record = snic_at(view, snic_load(qp->record), 2 * sizeof(uint32_t));
    const unsigned char *ring = send_ring(view, qp, &ring_bytes);
    if (!record || !ring)
        return true;
    job_t job;
    begin_job(&job, view, qp);
    uint32_t left = (uint16_t)(be32toh(__atomic_load_n(&record[1], __ATOMIC_ACQUIRE)) - qp->sq_ci);
    for (left = PGASI_MIN(left, (uint32_t)(ring_bytes / PGASI_WQE_BB)); left > 0;) {
        pgasi_wqe_decode(ring, ring_bytes, qp->sq_ci, &job.wqe);
        uint32_t blocks = PGASI_MIN(PGASI_MAX(pgasi_wqe_blocks(job.wqe.segments), 1u), left);
        complete_sender(&job, PGASI_CQE_FLUSHED, 0);
        qp->sq_ci += blocks;
        left -= blocks;
    }
    qp->sq_limit = qp->sq_ci;
    if (!lock_client(view, &qp->lock))
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
        push(view, qp->recv_cqn, &fields);
    }
    snic_unlock(&qp->lock);
    return true;
}

/* @return entries executed; *blocked_p: the next waits for something */
static unsigned run_qp(snic_view_t *view, uint32_t place, unsigned budget, bool *blocked_p)
{
    snic_qp_t *qp = &view->devmem->qps[place];
    *blocked_p = false;
    if (qp->number == 0)
        return 0;
    uint32_t state = __atomic_load_n(&qp->state, __ATOMIC_ACQUIRE);
    if (state != PGASI_SNIC_ERROR && !read_doorbell(view, qp)) {
        fail_qp(view, qp);
        state = PGASI_SNIC_ERROR;
    }
    if (state == PGASI_SNIC_ERROR) {
        __atomic_store_n(&qp->doorbell, 0, __ATOMIC_RELAXED);
        *blocked_p = !flush(view, qp);
        return 0;
    }
    job_t job;
    begin_job(&job, view, qp);
    job.ring = send_ring(view, qp, &job.ring_bytes);
    if (state != PGASI_SNIC_RTS || !job.ring)
        return 0;
    if (hostile(view, PGAS_VERBS_SNIC_PREFETCH)) {
        const unsigned char *shadow = pgasi_snic_shadow(view, qp, job.ring_bytes);
        job.ring = shadow != NULL ? shadow : job.ring;
    }
    unsigned n = 0;
    while (n < budget && (int32_t)(qp->sq_limit - qp->sq_ci) > 0) {
        bool sane = pgasi_wqe_decode(job.ring, job.ring_bytes, qp->sq_ci, &job.wqe);
        outcome_t outcome = sane ? BLOCKED : fail(&job, PGASI_CQE_LOCAL_QP_OP);
        if (sane && !(hostile(view, PGAS_VERBS_SNIC_DELAY) && held_back(view, qp, &job.wqe)))
            outcome = carry_out(&job);
        if (outcome == BLOCKED) {
            *blocked_p = true;
            break;
        }
        bool signaled = (job.wqe.flags & PGASI_WQE_SIGNAL_MASK) == PGASI_WQE_SIGNAL ||
                        (qp->flags & PGASI_SNIC_SIGNAL_ALL) != 0;
        if (outcome == FAILED) {
            pgasi_snic_late_drain(view);
            fail_qp(view, qp);
            complete_sender(&job, job.syndrome, 0);
        } else if (signaled && !complete_sender(&job, PGASI_CQE_OK, job.sent_bytes)) {
            fail_qp(view, qp);
            outcome = FAILED;
        }
        qp->sq_ci += PGASI_MAX(pgasi_wqe_blocks(job.wqe.segments), 1u);
        qp->tries = 0;
        job.sent_bytes = 0;
        n++;
        if (outcome == FAILED) {
            *blocked_p = !flush(view, qp);
            break;
        }
    }
    return n;
}

/* ---- all of them ---- */

/* Some of what is late; nearly always something. @return how many */
static unsigned let_happen(snic_view_t *view)
{
    unsigned n = (unsigned)pgasi_snic_random(view, 1 + pgasi_snic_late_left(view)), done = 0;
    while (done < n && pgasi_snic_late_one(view))
        done++;
    return done;
}

unsigned pgasi_snic_execute(snic_view_t *view)
{
    snic_devmem_t *devmem = view->devmem;
    unsigned all = 0;
    bool more = true;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now); /* some nanoseconds */
    view->tick = (uint32_t)((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
    while (more && all < BUDGET_ALL) {
        /* an exchange: what it takes away has been seen */
        __atomic_exchange_n(&devmem->work, 0, __ATOMIC_SEQ_CST);
        more = false;
        uint32_t blocked = 0, high = snic_high(devmem);
        bool shuffle = hostile(view, PGAS_VERBS_SNIC_SHUFFLE) && high > 0;
        uint32_t first = shuffle ? (uint32_t)pgasi_snic_random(view, high) : 0;
        unsigned budget = shuffle ? 1 : BUDGET;
        if (hostile(view, PGAS_VERBS_SNIC_DELAY))
            all += let_happen(view);
        for (uint32_t k = 0; k < high; k++) {
            uint32_t i = first + k < high ? first + k : first + k - high;
            if (__atomic_load_n(&devmem->active[i], __ATOMIC_RELAXED) == 0)
                continue;
            bool waits;
            __atomic_exchange_n(&devmem->active[i], 0, __ATOMIC_SEQ_CST);
            unsigned n = run_qp(view, i, budget, &waits);
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
        unsigned n = run_qp(view, i, 1, &waits);
        bool left = (int32_t)(devmem->qps[i].sq_limit - devmem->qps[i].sq_ci) > 0;
        devmem->active[i] = waits || left;
        if (n > 0)
            return true;
    }
    return pgasi_snic_late_one(view);
}
