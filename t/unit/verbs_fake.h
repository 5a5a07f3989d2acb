/* A provider of queue pairs without peers: a thread that steps it executes requests later, in an
 * order among queue pairs that a seed gives, and each request checks its preconditions. It is for
 * tests of the layers above providers.
 *
 * It is stricter than hardware: a place in a send queue is free when the completion that reports it
 * has been polled. A completion without room is detected at once. A checksum detects bytes that
 * change between posting and execution. After an error each request has a completion. */
#ifndef T_UNIT_VERBS_FAKE_H
#define T_UNIT_VERBS_FAKE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/rng.h"
#include "verbs_backend/queue/device.h"

#define FAKE_QPS_MAX    8
#define FAKE_SPANS_MAX  5
#define FAKE_INLINE_MAX 24
#define FAKE_NEVER      UINT64_MAX

typedef struct {
    pgas_verbs_request_t request;
    pgas_verbs_span_t spans[FAKE_SPANS_MAX];
    unsigned char bytes[FAKE_INLINE_MAX]; /* inline */
    uint64_t sum;
} fake_entry_t;

typedef struct {
    pgas_verbs_cq_t super;
    pgas_verbs_completion_t *ring;
    uint64_t *positions; /* of the requests */
    uint64_t head, tail;
    uint32_t room; /* the true contents */
} fake_cq_t;

typedef struct {
    pgas_verbs_qp_t super;
    fake_entry_t *ring;
    uint32_t room;
    uint64_t written, rung, executed, reaped;
    uint64_t fail_at; /* position */
    bool dead;
} fake_qp_t;

typedef struct {
    pgas_verbs_dev_t super;
    pthread_mutex_t lock;
    pgasi_rng_t rng;
    fake_qp_t *qps[FAKE_QPS_MAX];
    int n_qps;
    uint32_t lie;      /* queues are so many times smaller than they say */
    bool patient;      /* counts errors instead of ending at once */
    bool steps_itself; /* rings and polls carry something out */
    bool bells_fail, cqs_dead;
    int n_overflows, n_poisoned;
} fake_dev_t;

static fake_dev_t *fake_dev(pgas_verbs_dev_t *dev)
{
    return (fake_dev_t *)(void *)dev;
}

static fake_qp_t *fake_qp(pgas_verbs_qp_t *qp)
{
    return (fake_qp_t *)(void *)qp;
}

static void fake_wrong(fake_dev_t *dev, int *count, const char *what)
{
    (*count)++;
    if (!dev->patient) {
        printf("Bail out! %s\n", what);
        fflush(stdout);
        abort();
    }
}

static uint64_t fake_sum(const fake_entry_t *e)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < e->request.n_spans; i++)
        sum = pgasi_hash_bytes((const void *)(uintptr_t)e->spans[i].addr, e->spans[i].bytes, sum);
    return sum;
}

static void fake_copy(fake_dev_t *dev, const fake_entry_t *e)
{
    unsigned char *remote = (unsigned char *)(uintptr_t)e->request.remote_addr;
    const unsigned char *inlined = e->bytes;
    bool out = e->request.op == PGAS_VERBS_WRITE, copied = e->request.flags & PGAS_VERBS_INLINE;
    if (out && !copied && fake_sum(e) != e->sum)
        fake_wrong(dev, &dev->n_poisoned, "a buffer was changed while it was under way");
    for (uint32_t i = 0; i < e->request.n_spans; i++) {
        unsigned char *local = (unsigned char *)(uintptr_t)e->spans[i].addr;
        if (out)
            memcpy(remote, copied ? inlined : local, e->spans[i].bytes);
        else if (e->request.op == PGAS_VERBS_READ)
            memcpy(local, remote, e->spans[i].bytes);
        remote += e->spans[i].bytes;
        inlined += e->spans[i].bytes;
    }
}

static void fake_complete(fake_dev_t *dev, fake_qp_t *qp, const fake_entry_t *e,
                          pgas_status_t status)
{
    fake_cq_t *cq = (fake_cq_t *)(void *)qp->super.opts.send_cq;
    if (cq->tail - cq->head == cq->room)
        fake_wrong(dev, &dev->n_overflows, "a completion queue overflows");
    if (cq->tail - cq->head == cq->super.depth) {
        qp->reaped++; /* patient: it is lost */
        return;
    }
    cq->ring[cq->tail % cq->super.depth] = (pgas_verbs_completion_t){
        .id = e->request.id, .qp = &qp->super, .status = status, .op = e->request.op
    };
    cq->positions[cq->tail++ % cq->super.depth] = qp->executed;
}

/* Carries out the next request of some queue pair. Lock held. @return false: there is none */
static bool fake_step_locked(fake_dev_t *dev)
{
    int first = (int)pgasi_rng_below(&dev->rng, FAKE_QPS_MAX);
    for (int i = 0; i < dev->n_qps; i++) {
        fake_qp_t *qp = dev->qps[(first + i) % dev->n_qps];
        if (qp->executed == qp->rung)
            continue;
        const fake_entry_t *e = &qp->ring[qp->executed % qp->super.opts.send_depth];
        pgas_status_t status = qp->executed >= qp->fail_at ? PGAS_ERR_RANGE : PGAS_OK;
        if (qp->dead)
            status = PGAS_ERR_PEER;
        qp->dead = status != PGAS_OK;
        if (!qp->dead)
            fake_copy(dev, e);
        if (qp->dead || (e->request.flags & PGAS_VERBS_SIGNAL))
            fake_complete(dev, qp, e, status);
        qp->executed++;
        return true;
    }
    return false;
}

static bool fake_step(pgas_verbs_dev_t *base)
{
    fake_dev_t *dev = fake_dev(base);
    pthread_mutex_lock(&dev->lock);
    bool any = fake_step_locked(dev);
    pthread_mutex_unlock(&dev->lock);
    return any;
}

static void fake_some_steps(fake_dev_t *dev)
{
    for (uint64_t n = dev->steps_itself ? pgasi_rng_below(&dev->rng, 6) : 0; n > 0; n--)
        fake_step_locked(dev);
}

static pgas_status_t fake_mem_alloc(pgas_verbs_dev_t *dev, size_t bytes, uint32_t access,
                                    pgas_verbs_mem_t *mem_p)
{
    (void)dev, (void)access;
    *mem_p = (pgas_verbs_mem_t){ calloc(1, bytes), bytes, 1, 1, NULL };
    return mem_p->addr ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static void fake_mem_release(pgas_verbs_dev_t *dev, pgas_verbs_mem_t *mem)
{
    (void)dev;
    free(mem->addr);
}

static pgas_status_t fake_cq_open(pgas_verbs_dev_t *dev, uint32_t depth, uint32_t flags,
                                  pgas_verbs_cq_t **cq_p)
{
    (void)flags;
    fake_cq_t *cq = calloc(1, sizeof *cq);
    cq->ring = calloc(depth, sizeof *cq->ring);
    cq->positions = calloc(depth, sizeof *cq->positions);
    cq->super.depth = depth;
    cq->room = depth / fake_dev(dev)->lie;
    *cq_p = &cq->super;
    return PGAS_OK;
}

static void fake_cq_close(pgas_verbs_cq_t *base)
{
    fake_cq_t *cq = (fake_cq_t *)(void *)base;
    free(cq->ring);
    free(cq->positions);
    free(cq);
}

/* Takes some of the completions, not always all. */
static int fake_cq_poll(pgas_verbs_cq_t *base, pgas_verbs_completion_t *completions, int n_max)
{
    fake_cq_t *cq = (fake_cq_t *)(void *)base;
    fake_dev_t *dev = fake_dev(base->dev);
    int n = 0;
    if (dev->cqs_dead)
        return -1;
    pthread_mutex_lock(&dev->lock);
    fake_some_steps(dev);
    uint64_t most = 1 + pgasi_rng_below(&dev->rng, (uint64_t)n_max);
    for (; (uint64_t)n < most && cq->head < cq->tail; n++) {
        completions[n] = cq->ring[cq->head % base->depth];
        fake_qp(completions[n].qp)->reaped = cq->positions[cq->head++ % base->depth] + 1;
    }
    pthread_mutex_unlock(&dev->lock);
    return n;
}

static pgas_status_t fake_qp_open(pgas_verbs_dev_t *base, const pgas_verbs_qp_opts_t *opts,
                                  pgas_verbs_qp_t **qp_p)
{
    fake_dev_t *dev = fake_dev(base);
    fake_qp_t *qp = calloc(1, sizeof *qp);
    qp->super.dev = base;
    qp->super.opts = *opts;
    qp->ring = calloc(opts->send_depth, sizeof *qp->ring);
    qp->room = opts->send_depth / dev->lie;
    qp->fail_at = FAKE_NEVER;
    dev->qps[dev->n_qps++] = qp;
    *qp_p = &qp->super;
    return PGAS_OK;
}

static void fake_qp_close(pgas_verbs_qp_t *base)
{
    fake_dev_t *dev = fake_dev(base->dev);
    int i = 0;
    pthread_mutex_lock(&dev->lock);
    while (&dev->qps[i]->super != base)
        i++;
    dev->qps[i] = dev->qps[--dev->n_qps];
    pthread_mutex_unlock(&dev->lock);
    free(fake_qp(base)->ring);
    free(base);
}

static void fake_qp_address(const pgas_verbs_qp_t *qp, pgas_verbs_address_t *address_p)
{
    pgasi_verbs_address_head_t head = { PGASI_VERBS_ADDRESS_MAGIC, 99 };
    (void)qp;
    memcpy(address_p->bytes, &head, sizeof head);
}

static pgas_status_t fake_qp_connect(pgas_verbs_qp_t *qp, const pgas_verbs_address_t *peer)
{
    (void)qp, (void)peer;
    return PGAS_OK;
}

static pgas_status_t fake_qp_write(pgas_verbs_qp_t *base, const pgas_verbs_request_t *requests,
                                   uint32_t n, uint32_t *n_p)
{
    fake_qp_t *qp = fake_qp(base);
    fake_dev_t *dev = fake_dev(base->dev);
    pthread_mutex_lock(&dev->lock);
    for (uint32_t i = 0; i < n; i++) {
        if (qp->written - qp->reaped >= qp->room)
            fake_wrong(dev, &dev->n_overflows, "a send queue overflows");
        fake_entry_t *e = &qp->ring[qp->written % base->opts.send_depth];
        e->request = requests[i];
        unsigned char *to = e->bytes;
        for (uint32_t k = 0; k < requests[i].n_spans; k++) {
            e->spans[k] = requests[i].spans[k];
            if (requests[i].flags & PGAS_VERBS_INLINE)
                to = mempcpy(to, (const void *)(uintptr_t)e->spans[k].addr, e->spans[k].bytes);
        }
        e->sum = fake_sum(e);
        qp->written++;
    }
    pthread_mutex_unlock(&dev->lock);
    if (n_p)
        *n_p = n;
    return PGAS_OK;
}

static pgas_status_t fake_qp_ring(pgas_verbs_qp_t *base)
{
    fake_dev_t *dev = fake_dev(base->dev);
    pthread_mutex_lock(&dev->lock);
    if (!dev->bells_fail)
        fake_qp(base)->rung = fake_qp(base)->written;
    fake_some_steps(dev);
    pgas_status_t status = dev->bells_fail ? PGAS_ERR_IO : PGAS_OK;
    pthread_mutex_unlock(&dev->lock);
    return status;
}

static const pgasi_verbs_ops_t fake_ops = {
    .name = "fake",
    .step = fake_step,
    .mem_alloc = fake_mem_alloc,
    .mem_release = fake_mem_release,
    .cq_open = fake_cq_open,
    .cq_close = fake_cq_close,
    .cq_poll = fake_cq_poll,
    .qp_open = fake_qp_open,
    .qp_close = fake_qp_close,
    .qp_address = fake_qp_address,
    .qp_connect = fake_qp_connect,
    .qp_write = fake_qp_write,
    .qp_ring = fake_qp_ring,
};

static void fake_begin(fake_dev_t *dev, uint64_t seed, uint32_t lie)
{
    memset(dev, 0, sizeof *dev);
    dev->super.ops = &fake_ops;
    dev->super.limits = (pgasi_verbs_limits_t){ .send_depth_max = 1024,
                                                .recv_depth_max = 1024,
                                                .spans_max = FAKE_SPANS_MAX,
                                                .inline_max = FAKE_INLINE_MAX,
                                                .reads_max = 16,
                                                .message_max = 1000,
                                                .nop = true };
    pthread_mutex_init(&dev->lock, NULL);
    pgasi_rng_seed(&dev->rng, seed);
    dev->lie = lie;
    dev->patient = lie > 1;
}

#endif
