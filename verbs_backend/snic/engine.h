/** Executing work queue entries: what the files of the engine share. memory.c checks and copies,
 *  responder.c looks at the other side, receive.c delivers messages, chain.c executes WAIT and ENABLE,
 *  completion.c writes completions, engine.c executes entries, queue pairs and devices, adversary.c and
 *  late.c do what the adversary changes. */
#ifndef PGASI_VERBS_SNIC_ENGINE_H
#define PGASI_VERBS_SNIC_ENGINE_H

#include "verbs_backend/snic/inside.h"

#define SNIC_SPANS_MAX PGASI_WQE_SEGMENTS_MAX

typedef enum { SNIC_DONE, SNIC_BLOCKED, SNIC_FAILED } snic_outcome_t;

/** A piece of memory: here, or in another process's private memory. */
typedef struct {
    char *here;        /* NULL: only by the kernel */
    snic_view_t *view; /* whose */
    uint64_t addr;     /* there */
    uint64_t bytes;
} snic_piece_t;

/** An entry on its way. */
typedef struct {
    snic_view_t *view; /* the requester's device */
    snic_qp_t *qp;
    uint32_t place;
    const unsigned char *ring;
    size_t ring_bytes;
    pgasi_wqe_t wqe;
    pgasi_wqe_span_t spans[SNIC_SPANS_MAX]; /* of wqe, as they were when they were checked */
    uint32_t syndrome;                      /* if it failed: as the requester sees it */
    snic_view_t *peer;
    snic_qp_t *peer_qp;
    uint32_t sent_bytes;
} snic_job_t;

/** A receive entry that was taken. */
typedef struct {
    snic_piece_t pieces[SNIC_SPANS_MAX];
    unsigned n;
    uint64_t bytes;
    uint16_t counter;
    uint32_t srqn;
    bool refused; /* one of its pieces may not be written */
} snic_receive_t;

static inline bool snic_is_stepping(const snic_view_t *view)
{
    return view->id.engine == PGAS_VERBS_ENGINE_STEP;
}

static inline bool snic_is_hostile(const snic_view_t *view, uint32_t how)
{
    return PGAS_UNLIKELY((view->devmem->adversary & how) != 0);
}

/* The software NIC's process does not wait for a client that is stopped while it holds the lock.
 * @return false: not locked */
static inline bool snic_lock_client(const snic_view_t *view, uint64_t *lock)
{
    if (view->id.engine == PGAS_VERBS_ENGINE_PROCESS)
        return pgasi_snic_lock_soon(lock);
    pgasi_snic_lock(lock);
    return true;
}

static inline void snic_fail_qp(snic_view_t *view, snic_qp_t *qp)
{
    __atomic_store_n(&qp->state, (uint32_t)PGASI_SNIC_ERROR, __ATOMIC_RELEASE);
    __atomic_store_n(&view->devmem->active[qp - view->devmem->qps], 1, __ATOMIC_RELEASE);
}

static inline snic_outcome_t snic_fail(snic_job_t *job, uint32_t syndrome)
{
    job->syndrome = syndrome;
    return SNIC_FAILED;
}

/* memory.c */
/** The check of every access. @return a syndrome's kind: true if allowed, the piece filled in */
bool pgasi_snic_reach(snic_view_t *view, uint32_t pd, uint32_t key, uint64_t addr, uint64_t bytes,
                      uint32_t access, snic_piece_t *piece_p);
/** Bytes of both are the same. */
bool pgasi_snic_copy_piece(const snic_piece_t *to, const snic_piece_t *from);
/** Copies from one list of pieces to another. @return false: a piece is not mapped, or the target is
 * too short */
bool pgasi_snic_copy_lists(const snic_piece_t *to, unsigned n_to, const snic_piece_t *from,
                           unsigned n_from);

/* completion.c */
/** behind: completions that WAITs shall not see yet, 0 or 1.
 * @return false: there is no such queue, it has overrun, or its owner is stopped while it holds the
 * lock */
bool pgasi_snic_push_behind(snic_view_t *view, uint32_t cqn, const pgasi_cqe_fields_t *fields,
                            uint32_t behind);
static inline bool pgasi_snic_push(snic_view_t *view, uint32_t cqn,
                                   const pgasi_cqe_fields_t *fields)
{
    return pgasi_snic_push_behind(view, cqn, fields, 0);
}
/** A completion of the entry at hand, on the sending side. */
bool pgasi_snic_complete_sender(const snic_job_t *job, uint32_t syndrome, uint32_t bytes);

/* responder.c */
/** Where we run it for its owner: a queue pair that is new to us, maybe in the place of another
 * one. */
snic_view_t *pgasi_snic_look_up_peer(const snic_job_t *job);
/** Without an answer: again later, or too often. */
snic_outcome_t pgasi_snic_try_again(snic_job_t *job, uint32_t limit, uint64_t try_ns,
                                    uint32_t syndrome);
/** Why the peer's memory could not be reached: a process that has just died has none any more. */
uint32_t pgasi_snic_unreached(const snic_job_t *job);
/** What the peer's memory allows. A refusal ends both queue pairs. */
snic_outcome_t pgasi_snic_refuse(snic_job_t *job);
bool pgasi_snic_reach_remote(snic_job_t *job, uint64_t bytes, uint32_t access,
                             snic_piece_t *piece_p);

/* receive.c */
/** SEND, and WRITE with immediate: takes a receive entry. */
snic_outcome_t pgasi_snic_deliver(snic_job_t *job, const snic_piece_t *from, unsigned n_from);

/* chain.c */
snic_outcome_t pgasi_snic_wait_entry(snic_job_t *job);
/** Positions only grow; an older one changes nothing. */
snic_outcome_t pgasi_snic_enable_entry(snic_job_t *job);
/** More blocks of a send queue may be executed. */
void pgasi_snic_advance(snic_view_t *view, snic_qp_t *qp, uint32_t blocks);

/* late.c */
/** A completion that comes later, if the adversary wants it. @return false: now */
bool pgasi_snic_delay_completion(const snic_job_t *job, snic_stream_t stream,
                                 const pgasi_cqe_fields_t *fields);
/** A result comes later: what was read, or (NULL) what will be read then. @return false: now */
bool pgasi_snic_delay_result(const snic_job_t *job, const void *result, uint64_t bytes);
/** A read whose result comes later: of bytes as they are now or, if nothing fences it, as they will
 * be. */
bool pgasi_snic_delay_read(snic_job_t *job, const snic_piece_t *remote);
/** An entry that must wait for results, or whom the adversary lets wait. No lock is held: there is
 * room for what it adds. */
bool pgasi_snic_held_back(snic_view_t *view, const snic_qp_t *qp, const pgasi_wqe_t *wqe);

#endif
