/* Handing over the calls that a thread has gathered, and quiescence. */
#include "pgas/call.h"

#include <string.h>

#include "base/clock.h"
#include "base/param.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "call/agg.h"
#include "call/call.h"
#include "call/task.h"
#include "mem/thread.h"
#include "pgas/coll.h"
#include "pgas/rma.h"

pgasi_quiesce_t pgasi_quiesce;

/* If quiescence takes longer than this, it reports the threads for which calls wait and which may
 * never come. */
#define PATIENCE_NS PGASI_NS_PER_S

/* Publishes the caller's gathered calls and waits until its send queue holds none back.
 * @return PGAS_OK.
 * @return PGAS_ERR_PEER: some calls were for a rank that has died. */
static pgas_status_t hand_over_of(pgasi_ctx_t *ctx, pgasi_publish_reason_t reason)
{
    /* Another thread may create the send queue of a shared context. */
    pgasi_sendq_t *sq = __atomic_load_n(&ctx->sendq, __ATOMIC_ACQUIRE);
    if (!sq)
        return PGAS_OK;
    pgasi_ctx_lock(ctx);
    pgas_status_t status = pgasi_sendq_publish_all(sq, reason);
    pgasi_ctx_unlock(ctx);
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (pgasi_sendq_held(sq))
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    pgas_status_t idle = pgasi_ctx_wait_idle(ctx);
    return status != PGAS_OK ? status : idle;
}

static pgas_status_t hand_over(pgasi_publish_reason_t reason)
{
    pgas_status_t status = hand_over_of(pgasi_self.ctx, reason), also = PGAS_OK;
    if (pgasi_agg_sends() && !pgasi_self.ctx->shared)
        also = hand_over_of(pgasi_ctxs[PGASI_CTX_SHARED], reason);
    return status != PGAS_OK ? status : also;
}

pgas_status_t pgasi_call_complete(void)
{
    pgas_status_t status = hand_over(PGASI_PUBLISH_EXPLICIT), flushed = pgas_flush_all();
    return status != PGAS_OK ? status : flushed;
}

static __thread pgas_work_t *own_work;

static int run_work(void)
{
    return own_work->run(own_work->arg);
}

static uint64_t counted(const uint64_t *count)
{
    return count ? __atomic_load_n(count, __ATOMIC_ACQUIRE) : 0;
}

/* The counts are bytes, not calls: positions in rings and sizes of messages, which exist anyway.
 * Each wave reads the consumed bytes before the sent ones. The bytes
 * consumed in one wave are compared with the bytes sent in the next. If these sums are equal, no
 * call was under way in between. */
static pgas_status_t wave(const pgas_work_t *work, uint64_t all[2])
{
    static uint64_t mine[2], sums[2]; /* MPI may write here even after a collective was given up. */
    mine[0] = counted(work ? &work->ended : NULL);
    /* This is read before the tasks, because an operation that ended may have become a task. */
    mine[0] += __atomic_load_n(&pgasi_quiesce.ended, __ATOMIC_ACQUIRE);
    mine[0] += pgasi_recvq_consumed() + __atomic_load_n(&pgasi_far_consumed, __ATOMIC_ACQUIRE);
    mine[1] = pgasi_tasks_pending();
    mine[1] += pgasi_sendqs_sent() + __atomic_load_n(&pgasi_quiesce.begun, __ATOMIC_ACQUIRE);
    mine[1] += counted(work ? &work->made : NULL);
    pgas_status_t status = pgas_allreduce(NULL, mine, sums, 2, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK)
        memcpy(all, sums, sizeof sums);
    return status;
}

/* Works until this rank has nothing to do. During the allreduce the waits continue this work. */
static pgas_status_t waves(const pgas_work_t *work)
{
    uint64_t all[2], consumed_before = UINT64_MAX, patient_until_ns = pgasi_now_ns() + PATIENCE_NS;
    for (;;) {
        while (work && pgasi_wait_do_work() > 0)
            pgas_progress();
        /* Its status is not needed: the allreduce reports a death. */
        hand_over(PGASI_PUBLISH_QUIESCE);
        pgas_status_t status = wave(work, all);
        if (status != PGAS_OK || consumed_before == all[1])
            return status;
        consumed_before = all[0];
        pgas_progress();
        if (PGAS_UNLIKELY(pgasi_now_ns() > patient_until_ns))
            pgasi_eps_report_absent();
    }
}

pgas_status_t pgas_quiesce_work(pgas_work_t *work)
{
    pgas_status_t status =
        pgasi_self.in_task || own_work ? PGAS_ERR_CONTEXT : pgasi_thread_check_wait();
    if (status != PGAS_OK || (work && !work->run))
        return status != PGAS_OK ? status : PGAS_ERR_INVALID;
    pgasi_ctxs_help_all(true);
    own_work = work;
    pgasi_thread_hooks.work = work ? run_work : NULL;
    status = waves(work);
    pgasi_thread_hooks.work = NULL;
    own_work = NULL;
    pgasi_ctxs_help_all(false);
    return status;
}
