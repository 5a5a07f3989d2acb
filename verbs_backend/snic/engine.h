/** The engine executes work queue entries; these are the declarations that its files share.
 *  memory.c checks and copies, responder.c examines the other side, receive.c delivers messages,
 *  chain.c executes WAIT and ENABLE, completion.c writes completions. engine.c executes entries,
 *  queue pairs and devices. adversary.c and late.c have the behaviour of the adversary. */
#ifndef PGASI_VERBS_SNIC_ENGINE_H
#define PGASI_VERBS_SNIC_ENGINE_H

#include "verbs_backend/snic/inside.h"

#define SNIC_SPANS_MAX PGASI_WQE_SEGMENTS_MAX

typedef enum { SNIC_DONE, SNIC_BLOCKED, SNIC_FAILED } snic_outcome_t;

/** A piece of memory, here or in another process's private memory. */
typedef struct {
    char *here;        /* NULL: only the kernel can access it */
    snic_view_t *view; /* the device that registered it */
    uint64_t addr;     /* address in the owner's process */
    uint64_t bytes;
} snic_piece_t;

/** An entry that is being executed. */
typedef struct {
    snic_view_t *view; /* the requester's device */
    snic_qp_t *qp;
    uint32_t place;
    const unsigned char *ring;
    size_t ring_bytes;
    pgasi_wqe_t wqe;
    pgasi_wqe_span_t spans[SNIC_SPANS_MAX]; /* spans of wqe, as they were when they were checked */
    uint32_t syndrome;                      /* if it failed: the error that the requester sees */
    snic_view_t *peer;
    snic_qp_t *peer_qp;
    uint32_t sent_bytes;
    bool runs_enabled;  /* a send queue that is enabled runs at once */
    snic_qp_t *enabled; /* that queue; NULL: none */
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
    return view->id.engine == PGASI_SNIC_ENGINE_STEP;
}

static inline bool snic_is_hostile(const snic_view_t *view, uint32_t how)
{
    return PGAS_UNLIKELY((view->devmem->adversary & how) != 0);
}

/* Locks a lock that a client may hold. In the software NIC's process it does not wait for a client
 * that is stopped while it holds the lock.
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
/** Checks an access by key, rights and bounds.
 *  @return true: the access is allowed, and *piece_p is set */
bool pgasi_snic_reach(snic_view_t *view, uint32_t pd, uint32_t key, uint64_t addr, uint64_t bytes,
                      uint32_t access, snic_piece_t *piece_p);
/** Copies between two pieces of the same size. */
bool pgasi_snic_copy_piece(const snic_piece_t *to, const snic_piece_t *from);
/** Copies from one list of pieces to another.
 *  @return false: a piece is not mapped, or the target is too short */
bool pgasi_snic_copy_lists(const snic_piece_t *to, unsigned n_to, const snic_piece_t *from,
                           unsigned n_from);

/* completion.c */
/** Writes a completion into a completion queue.
 *  @param behind  1: WAITs do not see the completion yet; 0: they do
 *  @return false: there is no such queue, it has overrun, or its owner is stopped while it holds
 *           the lock */
bool pgasi_snic_push_behind(snic_view_t *view, uint32_t cqn, const pgasi_cqe_fields_t *fields,
                            uint32_t behind);
static inline bool pgasi_snic_push(snic_view_t *view, uint32_t cqn,
                                   const pgasi_cqe_fields_t *fields)
{
    return pgasi_snic_push_behind(view, cqn, fields, 0);
}
/** Writes the completion of the present entry on the sending side. */
bool pgasi_snic_complete_sender(const snic_job_t *job, uint32_t syndrome, uint32_t bytes);

/* responder.c */
/** The process of the software NIC runs queue pairs for their owners: it looks up the peer of a
 *  queue pair that is new, or that has replaced another one. */
snic_view_t *pgasi_snic_look_up_peer(const snic_job_t *job);
/** The peer has not answered: the entry is tried again later, or fails after too many tries. */
snic_outcome_t pgasi_snic_try_again(snic_job_t *job, uint32_t limit, uint64_t try_ns,
                                    uint32_t syndrome);
/** The syndrome for memory of the peer that could not be accessed. A process that has just died has
 *  no memory any more. */
uint32_t pgasi_snic_unreached(const snic_job_t *job);
/** The peer's memory does not allow an access. The refusal ends both queue pairs. */
snic_outcome_t pgasi_snic_refuse(snic_job_t *job);
bool pgasi_snic_reach_remote(snic_job_t *job, uint64_t bytes, uint32_t access,
                             snic_piece_t *piece_p);

/* receive.c */
/** Executes a SEND, or a WRITE with immediate data, which take a receive entry. */
snic_outcome_t pgasi_snic_deliver(snic_job_t *job, const snic_piece_t *from, unsigned n_from);

/* chain.c */
snic_outcome_t pgasi_snic_wait_entry(snic_job_t *job);
/** Positions only grow, so an older one changes nothing. */
snic_outcome_t pgasi_snic_enable_entry(snic_job_t *job);
/** Allows more blocks of a send queue to be executed. */
void pgasi_snic_advance(snic_view_t *view, snic_qp_t *qp, uint32_t blocks);

/* late.c */
/** Delays a completion, if the adversary decides so. @return false: it must be written now */
bool pgasi_snic_delay_completion(const snic_job_t *job, snic_stream_t stream,
                                 const pgasi_cqe_fields_t *fields);
/** Delays a result.
 *  @param result  what was read; NULL: the memory will be read when the result arrives
 *  @return false: the result must be written now */
bool pgasi_snic_delay_result(const snic_job_t *job, const void *result, uint64_t bytes);
/** Delays the result of a read: of the bytes as they are now, or, if nothing fences it, as they
 *  will be. */
bool pgasi_snic_delay_read(snic_job_t *job, const snic_piece_t *remote);
/** Whether an entry must wait for results, or the adversary delays it. No lock is held. On return
 *  there is room for the events that the entry adds. */
bool pgasi_snic_held_back(snic_view_t *view, const snic_qp_t *qp, const pgasi_wqe_t *wqe);

#endif
