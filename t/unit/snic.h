/** For tests of the software NIC's rules by the public functions: a device, pairs of connected
 *  queue pairs, each end with memory of its own, and functions that wait for completions. An error
 *  in here ends the program. */
#ifndef T_SNIC_H
#define T_SNIC_H

#include <sched.h>
#include "base/checks.h"
#include "base/rng.h"
#include "t/must.h"
#include "t/queue_pairs.h"
#include "verbs_backend/snic/snic.h"
#include "t/queue_pairs.h"

#define SNIC_BYTES     16384u  /* of each end's memory */
#define SNIC_STEPS_MAX 2000000 /* more is taken for a hang */

/** No adversary, each that reorders or delays work alone, and all. */
static const uint32_t snic_adversaries[] = { 0,
                                             PGAS_VERBS_SNIC_PREFETCH,
                                             PGAS_VERBS_SNIC_SHUFFLE,
                                             PGAS_VERBS_SNIC_DELAY,
                                             PGAS_VERBS_SNIC_WRAP,
                                             PGAS_VERBS_SNIC_ALL };
#define SNIC_N_ADVERSARIES ((int)PGASI_ARRAY_LENGTH(snic_adversaries))

/** Two ends; each has a completion queue for both of its queues. */
typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_cq_t *cq[2];
    pgas_verbs_qp_t *qp[2];
    pgas_verbs_mem_t mem[2];
    unsigned char *bytes[2];
    bool own_dev;
} pair_t;

static inline pgas_verbs_dev_t *snic_device(pgas_verbs_engine_t engine, uint32_t adversary,
                                            uint64_t seed)
{
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    pgas_verbs_dev_t *dev = NULL;
    static char name[32];
    opts.device = "snic";
    const pgas_verbs_snic_opts_t snic = { .size = sizeof snic,
                                          .adversary = adversary,
                                          .seed = seed,
                                          .step = engine == PGASI_SNIC_ENGINE_STEP };
    opts.engine = snic.step ? PGAS_VERBS_ENGINE_CALLER : engine;
    opts.snic = &snic;
    snprintf(name, sizeof name, "t-%d", (int)getpid()); /* of the process that PROCESS starts */
    opts.engine_name = name;
    must(pgas_verbs_open(&opts, &dev), "a device");
    return dev;
}

/** One direction; the other end does the same. */
static inline void snic_connect(pgas_verbs_qp_t *from, const pgas_verbs_qp_t *to)
{
    pgas_verbs_address_t address;
    qp_address(to, &address);
    must(pgas_verbs_qp_connect(from, &address), "connect");
}

static inline pgas_verbs_qp_t *snic_qp(pgas_verbs_dev_t *dev, pgas_verbs_qp_opts_t opts,
                                       pgas_verbs_cq_t *cq)
{
    pgas_verbs_qp_t *qp = NULL;
    opts.send_cq = opts.send_cq != NULL ? opts.send_cq : cq;
    opts.recv_cq = opts.recv_cq != NULL ? opts.recv_cq : cq;
    must(pgas_verbs_qp_create(dev, &opts, &qp), "a queue pair");
    return qp;
}

/** @param opts queues that are NULL are the pair's; NULL: defaults @param access of each end's
 *  memory */
static inline void pair_on(pair_t *p, pgas_verbs_dev_t *dev, const pgas_verbs_qp_opts_t *opts,
                           uint32_t access)
{
    pgas_verbs_qp_opts_t defaults = PGAS_VERBS_QP_OPTS_INIT;
    *p = (pair_t){ .dev = dev };
    for (int i = 0; i < 2; i++) {
        must(pgas_verbs_cq_create(dev, 1024, 0, &p->cq[i]), "a completion queue");
        p->qp[i] = snic_qp(dev, opts != NULL ? *opts : defaults, p->cq[i]);
        must(pgas_verbs_mem_register(dev, NULL, SNIC_BYTES, access, &p->mem[i]), "memory");
        p->bytes[i] = p->mem[i].addr;
    }
    snic_connect(p->qp[0], p->qp[1]);
    snic_connect(p->qp[1], p->qp[0]);
}

static inline void pair_open(pair_t *p, pgas_verbs_engine_t engine, uint32_t adversary,
                             uint64_t seed)
{
    pair_on(p, snic_device(engine, adversary, seed), NULL, PGAS_VERBS_ACCESS_ALL);
    p->own_dev = true;
}

static inline void pair_close(pair_t *p)
{
    for (int i = 0; i < 2; i++)
        if (p->qp[i])
            pgas_verbs_qp_destroy(p->qp[i]);
    for (int i = 0; i < 2; i++) {
        must(pgas_verbs_cq_destroy(p->cq[i]), "close a completion queue");
        pgas_verbs_mem_release(p->dev, &p->mem[i]);
    }
    if (p->own_dev)
        must(pgas_verbs_close(p->dev), "close the device");
}

/** Mode STEP: steps until nothing can be done. @return how many */
static inline int snic_settle(pgas_verbs_dev_t *dev)
{
    int n = 0;
    while (n < SNIC_STEPS_MAX && pgas_verbs_snic_step(dev))
        n++;
    if (n == SNIC_STEPS_MAX)
        bail("the engine never comes to rest");
    return n;
}

/** Takes completions until there are n: in mode STEP, or there is nothing to do. @return how many;
 *  -1: the queue is dead */
static inline int snic_take(pgas_verbs_dev_t *dev, pgas_verbs_cq_t *cq,
                            pgas_verbs_completion_t *got, int n)
{
    int n_got = 0, idle = 0;
    for (int round = 0; n_got < n && idle < 2; round++) {
        bool stepped = pgas_verbs_snic_step(dev);
        int more = pgas_verbs_cq_poll(cq, got + n_got, n - n_got);
        if (more < 0)
            return -1;
        n_got += more;
        idle = stepped || more > 0 ? 0 : idle + 1;
        if (round > SNIC_STEPS_MAX)
            bail("the engine never comes to rest");
    }
    return n_got;
}

/** The same in the other modes, where it is known that n will come. */
static inline int snic_await(pgas_verbs_cq_t *cq, pgas_verbs_completion_t *got, int n)
{
    int n_got = 0;
    while (n_got < n) {
        int more = pgas_verbs_cq_poll(cq, got + n_got, n - n_got);
        if (more < 0)
            return -1;
        n_got += more;
        if (more == 0)
            sched_yield();
    }
    return n_got;
}

/** Posts one request, and rings. */
static inline void snic_post(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *request)
{
    must(pgas_verbs_qp_post(qp, request, 1, NULL), "a post");
}

static inline pgas_verbs_span_t pair_span(const pair_t *p, int end, uint32_t at, uint32_t bytes)
{
    return (pgas_verbs_span_t){ (uintptr_t)p->bytes[end] + at, bytes, p->mem[end].lkey };
}

/** A request of one span from end 0 to a place at end 1, signaled, with an id. The span must live
 *  until it is posted. */
static inline pgas_verbs_request_t pair_request(const pair_t *p, pgas_verbs_op_t op,
                                                const pgas_verbs_span_t *span, uint32_t remote_at,
                                                uint64_t id)
{
    return (pgas_verbs_request_t){ .op = op,
                                   .flags = PGAS_VERBS_SIGNAL,
                                   .id = id,
                                   .spans = span,
                                   .n_spans = span != NULL,
                                   .remote_addr = (uintptr_t)p->bytes[1] + remote_at,
                                   .rkey = p->mem[1].rkey };
}

/** Post a write, read or send of `bytes` bytes from place to place; flags besides. */
static inline void pair_post(const pair_t *p, pgas_verbs_op_t op, uint32_t at, uint32_t remote_at,
                             uint32_t bytes, uint32_t flags, uint64_t id)
{
    pgas_verbs_span_t span = pair_span(p, 0, at, bytes);
    pgas_verbs_request_t request = pair_request(p, op, &span, remote_at, id);
    request.flags = flags;
    snic_post(p->qp[0], &request);
}

/** A receive buffer at an end. */
static inline void pair_recv(const pair_t *p, int end, uint32_t at, uint32_t bytes, uint64_t id)
{
    pgas_verbs_span_t span = pair_span(p, end, at, bytes);
    pgas_verbs_recv_t recv = { id, &span, 1 };
    must(pgas_verbs_qp_recv(p->qp[end], &recv, 1, NULL), "a receive buffer");
}

static inline bool is_done(const pgas_verbs_completion_t *c, uint64_t id, pgas_status_t status)
{
    bool good = c->id == id && c->status == status && (c->syndrome == 0) == (status == PGAS_OK);
    if (!good)
        diag("completion: id %" PRIu64 " status %s syndrome 0x%x op %d, wanted id %" PRIu64
             " status %s",
             c->id, pgas_status_name(c->status), c->syndrome, (int)c->op, id,
             pgas_status_name(status));
    return good;
}

static inline void fill(unsigned char *bytes, size_t n, uint64_t seed)
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)pgasi_rng_u64(&rng);
}

#endif
