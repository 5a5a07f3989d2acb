/* The public functions of queues check arguments and count open objects; the provider does the
 * rest. */
#include "verbs_backend/queue/device.h"

#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "base/info_fill.h"
#include "base/log.h"
#include "base/spin.h"
#include "verbs_backend/wqe.h"

#define CQ_DEPTH_MAX   (1u << 22)
#define WAIT_SPINS     200
#define WAIT_YIELDS    20
#define NAP_NS         50000u
#define MILLISECOND_NS 1000000u

pgas_status_t pgasi_verbs_syndrome_status(uint32_t syndrome)
{
    switch (syndrome) {
    case PGASI_CQE_OK:
        return PGAS_OK;
    case PGASI_CQE_LOCAL_LENGTH:
        return PGAS_ERR_LIMIT;
    case PGASI_CQE_LOCAL_QP_OP:
    case PGASI_CQE_REMOTE_INVALID:
        return PGAS_ERR_INVALID;
    case PGASI_CQE_LOCAL_PROT:
    case PGASI_CQE_LOCAL_ACCESS:
    case PGASI_CQE_REMOTE_ACCESS:
        return PGAS_ERR_RANGE;
    case PGASI_CQE_FLUSHED:
    case PGASI_CQE_RETRY:
        return PGAS_ERR_PEER;
    case PGASI_CQE_RNR_RETRY:
        return PGAS_ERR_AGAIN;
    default:
        return PGAS_ERR_TRANSPORT;
    }
}

/* Counts an object that must be closed before the device. */
static void count(pgas_verbs_dev_t *dev, int change)
{
    __atomic_fetch_add(&dev->n_open, change, __ATOMIC_ACQ_REL);
}

/* ---- memory ---- */

static bool is_sane(size_t bytes, uint32_t access)
{
    bool writes = access & (PGAS_VERBS_REMOTE_WRITE | PGAS_VERBS_REMOTE_ATOMIC);
    return bytes > 0 && (access & ~PGAS_VERBS_ACCESS_ALL) == 0 &&
           (!writes || (access & PGAS_VERBS_LOCAL_WRITE) != 0);
}

pgas_status_t pgas_verbs_mem_register(pgas_verbs_dev_t *dev, void *addr, size_t bytes,
                                      uint32_t access, pgas_verbs_mem_t *mem_p)
{
    if (!dev || !mem_p || !is_sane(bytes, access))
        return PGAS_ERR_INVALID;
    pgas_status_t status = addr ? dev->ops->mem_register(dev, addr, bytes, access, mem_p)
                                : dev->ops->mem_alloc(dev, bytes, access, mem_p);
    if (status == PGAS_OK)
        count(dev, 1);
    return status;
}

pgas_status_t pgasi_verbs_register_again(pgas_verbs_dev_t *dev, const pgas_verbs_mem_t *first,
                                         uint32_t access, pgas_verbs_mem_t *mem_p)
{
    pgas_status_t status =
        dev->ops->mem_again ? dev->ops->mem_again(dev, first, access, mem_p)
                            : dev->ops->mem_register(dev, first->addr, first->bytes, access, mem_p);
    if (status == PGAS_OK)
        count(dev, 1);
    return status;
}

pgas_status_t pgas_verbs_mem_release(pgas_verbs_dev_t *dev, pgas_verbs_mem_t *mem)
{
    if (!mem || !mem->addr)
        return PGAS_OK;
    if (!dev)
        return PGAS_ERR_INVALID;
    dev->ops->mem_release(dev, mem);
    memset(mem, 0, sizeof *mem);
    count(dev, -1);
    return PGAS_OK;
}

/* ---- completion queues ---- */

pgas_status_t pgas_verbs_cq_create(pgas_verbs_dev_t *dev, uint32_t depth, uint32_t flags,
                                   pgas_verbs_cq_t **cq_p)
{
    if (!dev || !cq_p || depth == 0 ||
        (flags & ~(PGAS_VERBS_CQ_IGNORE_OVERRUN | PGAS_VERBS_CQ_EVENTS)) != 0)
        return PGAS_ERR_INVALID;
    if (depth > CQ_DEPTH_MAX)
        return PGAS_ERR_LIMIT;
    pgas_verbs_cq_t *cq = NULL;
    pgas_status_t status = dev->ops->cq_open(dev, depth, flags, &cq);
    if (status == PGAS_OK) {
        cq->dev = dev;
        cq->flags = flags;
        count(dev, 1);
        *cq_p = cq;
    }
    return status;
}

pgas_status_t pgas_verbs_cq_destroy(pgas_verbs_cq_t *cq)
{
    if (!cq)
        return PGAS_OK;
    pgas_verbs_dev_t *dev = cq->dev;
    if (__atomic_load_n(&cq->n_users, __ATOMIC_ACQUIRE) != 0)
        return PGAS_ERR_BUSY;
    dev->ops->cq_close(cq);
    count(dev, -1);
    return PGAS_OK;
}

static bool has_kept(const pgas_verbs_cq_t *cq)
{
    return __atomic_load_n(&cq->has_kept, __ATOMIC_RELAXED);
}

static void set_kept(pgas_verbs_cq_t *cq, bool there)
{
    __atomic_store_n(&cq->has_kept, there, __ATOMIC_RELAXED);
}

/* The lock is held: a completion is either in the queue, or a thread that closes its queue pair
 * sees it here.
 * @return as poll */
static int keep_one(pgas_verbs_cq_t *cq)
{
    pgasi_spin_lock(&cq->kept_lock, 0);
    int n = pgasi_verbs_poll_bare(cq, &cq->kept, 1);
    set_kept(cq, n > 0);
    pgasi_spin_unlock(&cq->kept_lock);
    return n;
}

static void take_kept(pgas_verbs_cq_t *cq, pgas_verbs_completion_t *completion_p)
{
    pgasi_spin_lock(&cq->kept_lock, 0);
    *completion_p = cq->kept;
    set_kept(cq, false);
    pgasi_spin_unlock(&cq->kept_lock);
}

int pgas_verbs_cq_poll(pgas_verbs_cq_t *cq, pgas_verbs_completion_t *completions, int n)
{
    if (PGAS_UNLIKELY(has_kept(cq)) && n > 0) {
        take_kept(cq, &completions[0]);
        int more = n > 1 ? pgasi_verbs_poll_bare(cq, completions + 1, n - 1) : 0;
        return more < 0 ? 1 : more + 1;
    }
    return pgasi_verbs_poll_bare(cq, completions, n);
}

/* Sleeps until the device reports a completion, or for a moment where it cannot. */
static void nap(pgas_verbs_cq_t *cq, uint64_t left_ns)
{
    int fd;
    if ((cq->flags & PGAS_VERBS_CQ_EVENTS) != 0 && pgas_verbs_cq_arm(cq, false) == PGAS_OK &&
        pgas_verbs_cq_fd(cq, &fd) == PGAS_OK) {
        struct pollfd wanted = { .fd = fd, .events = POLLIN };
        uint64_t milliseconds = left_ns / MILLISECOND_NS + 1;
        poll(&wanted, 1, (int)PGASI_MIN(milliseconds, UINT64_C(100)));
    } else {
        struct timespec moment = { .tv_nsec = (long)PGASI_MIN(left_ns, (uint64_t)NAP_NS) };
        nanosleep(&moment, NULL);
    }
}

pgas_status_t pgas_verbs_cq_wait(pgas_verbs_cq_t *cq, int64_t timeout_us)
{
    const uint64_t limit_ns = pgasi_verbs_limit_ns(timeout_us);
    uint64_t begin_ns = pgasi_now_ns(), spent_ns = 0;
    for (int round = 0;; round++) {
        int n = has_kept(cq) ? 1 : keep_one(cq);
        if (n != 0)
            return n > 0 ? PGAS_OK : PGAS_ERR_TRANSPORT;
        if (round < WAIT_SPINS) {
            pgasi_cpu_relax();
            continue;
        }
        spent_ns = pgasi_now_ns() - begin_ns;
        if (spent_ns >= limit_ns)
            return PGAS_ERR_TIMEOUT;
        if (round < WAIT_SPINS + WAIT_YIELDS)
            sched_yield();
        else
            nap(cq, limit_ns - spent_ns);
    }
}

pgas_status_t pgas_verbs_cq_fd(pgas_verbs_cq_t *cq, int *fd_p)
{
    return (cq->flags & PGAS_VERBS_CQ_EVENTS) == 0 ? PGAS_ERR_UNSUPPORTED
                                                   : cq->dev->ops->cq_fd(cq, fd_p);
}

pgas_status_t pgas_verbs_cq_arm(pgas_verbs_cq_t *cq, bool solicited)
{
    if ((cq->flags & PGAS_VERBS_CQ_EVENTS) == 0)
        return PGAS_ERR_UNSUPPORTED;
    return has_kept(cq) ? PGAS_ERR_BUSY : cq->dev->ops->cq_arm(cq, solicited);
}

/* ---- receive queues and queue pairs ---- */

pgas_status_t pgas_verbs_srq_create(pgas_verbs_dev_t *dev, uint32_t depth, uint32_t spans,
                                    pgas_verbs_srq_t **srq_p)
{
    if (!dev || !srq_p || depth == 0 || spans == 0)
        return PGAS_ERR_INVALID;
    if (depth > dev->limits.recv_depth_max || spans > dev->limits.spans_max)
        return PGAS_ERR_LIMIT;
    pgas_verbs_srq_t *srq = NULL;
    pgas_status_t status = dev->ops->srq_open(dev, depth, spans, &srq);
    if (status == PGAS_OK) {
        srq->dev = dev;
        count(dev, 1);
        *srq_p = srq;
    }
    return status;
}

pgas_status_t pgas_verbs_srq_destroy(pgas_verbs_srq_t *srq)
{
    if (!srq)
        return PGAS_OK;
    pgas_verbs_dev_t *dev = srq->dev;
    if (__atomic_load_n(&srq->n_users, __ATOMIC_ACQUIRE) != 0)
        return PGAS_ERR_BUSY;
    dev->ops->srq_close(srq);
    count(dev, -1);
    return PGAS_OK;
}

pgas_status_t pgas_verbs_srq_recv(pgas_verbs_srq_t *srq, const pgas_verbs_recv_t *recvs, uint32_t n,
                                  uint32_t *n_p)
{
    return srq->dev->ops->srq_recv(srq, recvs, n, n_p);
}

#define CHAIN_FLAGS (PGAS_VERBS_QP_MASTER | PGAS_VERBS_QP_MANAGED_SEND | PGAS_VERBS_QP_MANAGED_RECV)
#define QP_FLAGS    (CHAIN_FLAGS | PGAS_VERBS_QP_REMOTE_SLOTS | PGAS_VERBS_QP_IGNORE_OVERRUN)

static pgas_status_t check_qp(const pgas_verbs_dev_t *dev, const pgas_verbs_qp_opts_t *o)
{
    const pgasi_verbs_limits_t *limits = &dev->limits;
    bool sane = o->send_cq && o->recv_cq && o->send_cq->dev == dev && o->recv_cq->dev == dev &&
                (!o->srq || o->srq->dev == dev) && o->send_depth > 0 && o->send_spans > 0 &&
                (o->flags & ~QP_FLAGS) == 0 && (o->access & ~PGAS_VERBS_ACCESS_ALL) == 0 &&
                o->retry <= 7 && o->rnr_retry <= 7 && o->reads_max > 0;
    if (!sane)
        return PGAS_ERR_INVALID;
    if (o->send_depth > limits->send_depth_max || o->recv_depth > limits->recv_depth_max ||
        o->send_spans > limits->spans_max || o->recv_spans > limits->spans_max ||
        o->inline_max > limits->inline_max)
        return PGAS_ERR_LIMIT;
    if ((o->flags & CHAIN_FLAGS) != 0 && !limits->chains) {
        PGASI_WARN("verbs", "%s has no WAIT and ENABLE: %s", dev->info.name, dev->info.chains_why);
        return PGAS_ERR_UNSUPPORTED;
    }
    return PGAS_OK;
}

/* A queue pair keeps its queues from being closed. */
static void use_queues(const pgas_verbs_qp_opts_t *opts, int change)
{
    __atomic_fetch_add(&opts->send_cq->n_users, change, __ATOMIC_ACQ_REL);
    __atomic_fetch_add(&opts->recv_cq->n_users, change, __ATOMIC_ACQ_REL);
    if (opts->srq)
        __atomic_fetch_add(&opts->srq->n_users, change, __ATOMIC_ACQ_REL);
}

pgas_status_t pgas_verbs_qp_create(pgas_verbs_dev_t *dev, const pgas_verbs_qp_opts_t *given,
                                   pgas_verbs_qp_t **qp_p)
{
    if (!dev || !given || !qp_p || given->size != sizeof *given)
        return PGAS_ERR_INVALID;
    pgas_verbs_qp_opts_t opts = *given;
    opts.recv_depth = opts.srq != NULL ? 0 : opts.recv_depth;
    opts.recv_spans = PGASI_MAX(opts.recv_spans, 1u);
    opts.reads_max = PGASI_MIN(opts.reads_max, dev->limits.reads_max);
    pgas_status_t status = check_qp(dev, &opts);
    pgas_verbs_qp_t *qp = NULL;
    if (status == PGAS_OK)
        status = dev->ops->qp_open(dev, &opts, &qp);
    if (status == PGAS_OK) {
        use_queues(&opts, 1);
        count(dev, 1);
        *qp_p = qp;
    }
    return status;
}

/* The kept completion may belong to a queue pair that is being closed. The lock is held. */
static void forget_kept(pgas_verbs_cq_t *cq, const pgas_verbs_qp_t *qp)
{
    if (has_kept(cq) && cq->kept.qp == qp)
        cq->kept.qp = NULL;
}

pgas_status_t pgas_verbs_qp_destroy(pgas_verbs_qp_t *qp)
{
    if (!qp)
        return PGAS_OK;
    pgas_verbs_dev_t *dev = qp->dev;
    const pgas_verbs_qp_opts_t opts = qp->opts;
    if (qp->tx)
        pgas_verbs_tx_destroy(qp->tx);
    /* closes one queue pair at a time, because the two locks below have no order */
    pgasi_verbs_hold_poller(opts.send_cq);
    pgasi_spin_lock(&opts.send_cq->kept_lock, 0);
    if (opts.recv_cq != opts.send_cq)
        pgasi_spin_lock(&opts.recv_cq->kept_lock, 0);
    forget_kept(opts.send_cq, qp);
    forget_kept(opts.recv_cq, qp);
    dev->ops->qp_close(qp);
    if (opts.recv_cq != opts.send_cq)
        pgasi_spin_unlock(&opts.recv_cq->kept_lock);
    pgasi_spin_unlock(&opts.send_cq->kept_lock);
    pgasi_verbs_release_poller(opts.send_cq);
    use_queues(&opts, -1);
    count(dev, -1);
    return PGAS_OK;
}

pgas_status_t pgas_verbs_qp_info(const pgas_verbs_qp_t *qp, pgas_verbs_qp_info_t *info_p)
{
    pgas_verbs_qp_info_t info;
    pgas_status_t status = qp ? PGAS_OK : PGAS_ERR_INVALID;
    if (status != PGAS_OK)
        return status;
    memset(&info, 0, sizeof info);
    qp->dev->ops->qp_address(qp, &info.address);
    info.send_depth = qp->opts.send_depth;
    info.recv_depth = qp->opts.recv_depth;
    info.inline_max = qp->opts.inline_max;
    info.connected = qp->connected;
    /* the first time it may register the ring */
    if ((qp->opts.flags & PGAS_VERBS_QP_REMOTE_SLOTS) != 0 && qp->dev->ops->qp_buffer)
        status = qp->dev->ops->qp_buffer((pgas_verbs_qp_t *)qp, &info.slots, &info.slot_bytes);
    return status == PGAS_OK ? pgasi_info_fill(info_p, &info, sizeof info) : status;
}

pgas_status_t pgas_verbs_qp_connect(pgas_verbs_qp_t *qp, const pgas_verbs_address_t *peer)
{
    pgasi_verbs_address_head_t head;
    if (!qp || !peer)
        return PGAS_ERR_INVALID;
    memcpy(&head, peer->bytes, sizeof head);
    if (head.magic != PGASI_VERBS_ADDRESS_MAGIC)
        return PGAS_ERR_FORMAT;
    if (qp->connected)
        return PGAS_ERR_EXISTS;
    pgas_status_t status = qp->dev->ops->qp_connect(qp, peer);
    qp->connected = status == PGAS_OK;
    return status;
}

/* It is a function of its own, so that a post that does not ring saves no registers. */
static __attribute__((noinline)) pgas_status_t
post_and_ring(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *requests, uint32_t n, uint32_t *n_p)
{
    uint32_t n_taken = 0;
    pgas_status_t status = qp->connected ? PGAS_OK : PGAS_ERR_NOT_INIT, rung = status;
    if (status == PGAS_OK && n > 0)
        status = qp->dev->ops->qp_write(qp, requests, n, &n_taken);
    if (rung == PGAS_OK)
        rung = qp->dev->ops->qp_ring(qp);
    if (n_p)
        *n_p = n_taken;
    return status == PGAS_OK ? rung : status;
}

pgas_status_t pgas_verbs_qp_post(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *requests,
                                 uint32_t n, uint32_t *n_p)
{
    const pgasi_verbs_ops_t *ops = qp->dev->ops;
    if (PGAS_UNLIKELY(n == 0 || !qp->connected) || (requests[n - 1].flags & PGAS_VERBS_MORE) == 0)
        return post_and_ring(qp, requests, n, n_p);
    if (PGAS_LIKELY(n == 1 && !n_p) && ops->qp_write_one)
        return ops->qp_write_one(qp, requests, requests->flags, requests->id);
    return ops->qp_write(qp, requests, n, n_p);
}

uint32_t pgas_verbs_qp_position(const pgas_verbs_qp_t *qp)
{
    return qp->dev->ops->qp_position(qp);
}

pgas_status_t pgas_verbs_qp_recv(pgas_verbs_qp_t *qp, const pgas_verbs_recv_t *recvs, uint32_t n,
                                 uint32_t *n_p)
{
    return qp->dev->ops->qp_recv(qp, recvs, n, n_p);
}
