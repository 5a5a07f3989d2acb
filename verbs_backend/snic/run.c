/* Runs devices, and wakes sleeping threads. The engine's mode says which thread executes a device:
 *
 *     CALLER  any thread that rings or polls, unless another thread is running the device. Entries
 *             that wait (for a completion, a receive entry, a peer) are left to a thread of the
 *             device. It sleeps until another thread's work changes that, or a moment has passed.
 *     THREAD  a thread of the device, which spins briefly before it sleeps
 *     PROCESS one process per node, which runs the devices of all clients (process.c)
 *     STEP    only pgasi_snic_step */
#include "verbs_backend/snic/inside.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"

#define ROUNDS     4 /* of one caller before it leaves the rest to the device's thread */
#define SPINS      2000
#define YIELDS     50
#define BLOCKED_NS 1000000 /* between two checks of entries that wait for other processes */
#define IDLE_NS    100000000

enum { AWAKE, LONG, SHORTLY }; /* how the thread of a device sleeps */

static bool has_work(const snic_devmem_t *devmem)
{
    return __atomic_load_n(&devmem->work, __ATOMIC_SEQ_CST) != 0;
}

/* Runs one round, unless another thread is running the device. That thread sees the same
 * entries. */
unsigned pgasi_snic_run_once(snic_view_t *view)
{
    snic_devmem_t *devmem = view->devmem;
    if ((!has_work(devmem) && !__atomic_load_n(&devmem->blocked, __ATOMIC_ACQUIRE)) ||
        !pgasi_snic_try_lock(&devmem->lock))
        return 0;
    unsigned n = pgasi_snic_execute(view);
    snic_unlock(&devmem->lock);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return n;
}

void pgasi_snic_let_go(snic_view_t *view)
{
    snic_devmem_t *devmem = view->devmem;
    snic_unlock(&devmem->lock);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    while (view->id.engine == PGAS_VERBS_ENGINE_CALLER && has_work(devmem) &&
           __atomic_load_n(&devmem->lock, __ATOMIC_RELAXED) == 0)
        pgasi_snic_run_once(view);
}

static void wake(snic_devmem_t *devmem)
{
    __atomic_add_fetch(&devmem->seq, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&devmem->sleeping, __ATOMIC_SEQ_CST) != 0)
        syscall(SYS_futex, &devmem->seq, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void pgasi_snic_notify(snic_view_t *view)
{
    snic_devmem_t *devmem = view->devmem;
    __atomic_store_n(&devmem->work, 1, __ATOMIC_SEQ_CST);
    struct snic_wakeup *wakeup = __atomic_load_n(&view->wakeup, __ATOMIC_ACQUIRE);
    if (wakeup)
        pgasi_snic_wake_process(wakeup);
    else if (__atomic_load_n(&devmem->sleeping, __ATOMIC_SEQ_CST) != 0)
        wake(devmem);
}

static void *sleeper(void *arg)
{
    pgasi_snic_t *snic = arg;
    snic_devmem_t *devmem = snic->view->devmem;
    bool eager = snic->opts.engine == PGAS_VERBS_ENGINE_THREAD;
    for (unsigned idle = 0; !__atomic_load_n(&snic->stop, __ATOMIC_ACQUIRE);) {
        uint32_t seq = __atomic_load_n(&devmem->seq, __ATOMIC_SEQ_CST);
        unsigned n = pgasi_snic_run_once(snic->view);
        idle = n > 0 ? 0 : idle + 1;
        if (n > 0 || (eager && idle < SPINS)) {
            pgasi_cpu_relax();
            continue;
        }
        if (eager && idle < SPINS + YIELDS) {
            sched_yield();
            continue;
        }
        bool blocked = __atomic_load_n(&devmem->blocked, __ATOMIC_ACQUIRE) != 0;
        struct timespec nap = { .tv_nsec = blocked ? BLOCKED_NS : IDLE_NS };
        __atomic_store_n(&devmem->sleeping, blocked ? SHORTLY : LONG, __ATOMIC_SEQ_CST);
        /* entries that began to wait before that store found this thread awake */
        bool more = !blocked && __atomic_load_n(&devmem->blocked, __ATOMIC_SEQ_CST) != 0;
        if (!has_work(devmem) && !more && !__atomic_load_n(&snic->stop, __ATOMIC_SEQ_CST))
            syscall(SYS_futex, &devmem->seq, FUTEX_WAIT, seq, &nap, NULL, 0);
        __atomic_store_n(&devmem->sleeping, AWAKE, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static pgas_status_t start_thread(pgasi_snic_t *snic)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals go to threads of the program */
    pthread_mutex_lock(&snic->lock);
    if (!snic->has_thread && !snic->stop)
        __atomic_store_n(&snic->has_thread, pthread_create(&snic->thread, NULL, sleeper, snic) == 0,
                         __ATOMIC_RELEASE);
    bool there = snic->has_thread || snic->stop;
    pthread_mutex_unlock(&snic->lock);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return there ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

/* The remaining entries wait for others, so a thread must check them again without a doorbell. */
static void need_thread(pgasi_snic_t *snic, bool now)
{
    snic_devmem_t *devmem = snic->view->devmem;
    if (PGAS_UNLIKELY(!__atomic_load_n(&snic->has_thread, __ATOMIC_ACQUIRE)))
        start_thread(snic);
    else if (now || __atomic_load_n(&devmem->sleeping, __ATOMIC_SEQ_CST) == LONG)
        wake(devmem);
}

void pgasi_snic_need_sleeper(pgasi_snic_t *snic)
{
    if (snic->opts.engine == PGAS_VERBS_ENGINE_CALLER &&
        PGAS_UNLIKELY(!__atomic_load_n(&snic->has_thread, __ATOMIC_ACQUIRE)))
        start_thread(snic);
}

pgas_status_t pgasi_snic_start(pgasi_snic_t *snic)
{
    if (snic->opts.engine == PGAS_VERBS_ENGINE_PROCESS) {
        pgas_status_t status = pgasi_snic_join(snic);
        snic->joined = status == PGAS_OK;
        return status;
    }
    return snic->opts.engine == PGAS_VERBS_ENGINE_THREAD ? start_thread(snic) : PGAS_OK;
}

void pgasi_snic_stop(pgasi_snic_t *snic)
{
    pthread_mutex_lock(&snic->lock);
    __atomic_store_n(&snic->stop, true, __ATOMIC_SEQ_CST);
    bool running = snic->has_thread;
    pthread_mutex_unlock(&snic->lock);
    if (snic->joined)
        pgasi_snic_leave(snic);
    if (running) {
        wake(snic->view->devmem);
        pthread_join(snic->thread, NULL);
    }
}

bool pgasi_snic_run(pgasi_snic_t *snic)
{
    snic_devmem_t *devmem = snic->view->devmem;
    unsigned all = 0, rounds = 0;
    if (snic->opts.engine != PGAS_VERBS_ENGINE_CALLER ||
        (!has_work(devmem) && !__atomic_load_n(&devmem->blocked, __ATOMIC_ACQUIRE)))
        return false;
    do
        all += pgasi_snic_run_once(snic->view);
    while (has_work(devmem) && ++rounds < ROUNDS &&
           __atomic_load_n(&devmem->lock, __ATOMIC_RELAXED) == 0);
    bool left = has_work(devmem) && rounds == ROUNDS;
    if (PGAS_UNLIKELY(left || __atomic_load_n(&devmem->blocked, __ATOMIC_ACQUIRE) != 0))
        need_thread(snic, left);
    return all > 0;
}

bool pgasi_snic_step(pgasi_snic_t *snic)
{
    if (snic->opts.engine != PGASI_SNIC_ENGINE_STEP)
        return false;
    pgasi_snic_lock(&snic->view->devmem->lock);
    bool done = pgasi_snic_execute_step(snic->view);
    snic_unlock(&snic->view->devmem->lock);
    return done;
}

void pgasi_snic_ring(pgasi_snic_t *snic, uint32_t qpn, uint32_t pi)
{
    snic_devmem_t *devmem = snic->view->devmem;
    uint32_t place = qpn & (SNIC_QPS - 1);
    __atomic_store_n(&devmem->qps[place].doorbell, 1u << 16 | (pi & 0xffffu), __ATOMIC_RELEASE);
    __atomic_store_n(&devmem->active[place], 1, __ATOMIC_RELEASE);
    if (PGAS_UNLIKELY((devmem->adversary & PGAS_VERBS_SNIC_PREFETCH) != 0 &&
                      snic->opts.engine != PGAS_VERBS_ENGINE_PROCESS)) {
        pgasi_snic_lock(&devmem->lock);
        pgasi_snic_read_doorbell(snic->view, qpn);
        snic_unlock(&devmem->lock);
    }
    if (snic->opts.engine == PGAS_VERBS_ENGINE_CALLER) {
        /* not a notification: this thread does the work itself, so none is woken */
        __atomic_store_n(&devmem->work, 1, __ATOMIC_SEQ_CST);
        pgasi_snic_run(snic);
    } else {
        pgasi_snic_notify(snic->view);
    }
}

/* A sender that has found no receive entry may try again. */
static void wake_sender(pgasi_snic_t *snic, uint32_t place)
{
    snic_qp_t *qp = &snic->view->devmem->qps[place];
    if (PGAS_LIKELY(__atomic_load_n(&qp->wanted, __ATOMIC_ACQUIRE) == 0))
        return;
    __atomic_store_n(&qp->wanted, 0, __ATOMIC_SEQ_CST);
    if (snic->view->peers[place])
        pgasi_snic_notify(snic->view->peers[place]);
}

void pgasi_snic_recv_posted(pgasi_snic_t *snic, uint32_t qpn)
{
    uint32_t place = qpn & (SNIC_QPS - 1);
    snic_devmem_t *devmem = snic->view->devmem;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    wake_sender(snic, place);
    if (PGAS_UNLIKELY(__atomic_load_n(&devmem->qps[place].state, __ATOMIC_ACQUIRE) ==
                      PGASI_SNIC_ERROR)) {
        __atomic_store_n(&devmem->active[place], 1, __ATOMIC_RELEASE); /* so that it is flushed */
        pgasi_snic_notify(snic->view);
        pgasi_snic_run(snic);
    }
}

void pgasi_snic_srq_posted(pgasi_snic_t *snic, uint32_t srqn)
{
    snic_devmem_t *devmem = snic->view->devmem;
    snic_srq_t *srq = &devmem->srqs[srqn & (SNIC_SRQS - 1)];
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (PGAS_LIKELY(__atomic_load_n(&srq->wanted, __ATOMIC_RELAXED) == 0))
        return;
    __atomic_store_n(&srq->wanted, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&snic->lock); /* keeps queue pairs open */
    for (uint32_t i = 0; i < snic_high(devmem); i++)
        if (devmem->qps[i].srqn == srqn)
            wake_sender(snic, i);
    pthread_mutex_unlock(&snic->lock);
}
