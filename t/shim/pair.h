/* Two queue pairs of one device, connected with each other, for tests of pgas/verbs.h on the fake
 * cards. */
#ifndef T_SHIM_PAIR_H
#define T_SHIM_PAIR_H

#include <stdint.h>
#include <string.h>
#include "pgas/verbs.h"
#include "t/must.h"
#include "t/queue_pairs.h"

enum { BYTES = 1 << 16 };

#define PAIR_SRQ       1u /* the second receives through a shared queue */
#define PAIR_IMPATIENT 2u /* a missing receive buffer is an error at once */

typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_cq_t *cqs[2]; /* of each of the two, for both directions */
    pgas_verbs_srq_t *srq;
    pgas_verbs_qp_t *qps[2];
    pgas_verbs_mem_t mem;
    unsigned char *bytes;   /* of mem */
    pgas_verbs_span_t span; /* of the request made last */
} pair_t;

static inline void open_dev(pair_t *pair, const pgas_verbs_dev_opts_t *opts)
{
    memset(pair, 0, sizeof *pair);
    must(pgas_verbs_open(opts, &pair->dev), opts->device);
    must(pgas_verbs_mem_register(pair->dev, NULL, BYTES, PGAS_VERBS_ACCESS_ALL, &pair->mem),
         "memory");
    pair->bytes = pair->mem.addr;
    for (int k = 0; k < 2; k++)
        must(pgas_verbs_cq_create(pair->dev, 256, PGAS_VERBS_CQ_EVENTS, &pair->cqs[k]),
             "completion queue");
}

static inline pgas_verbs_qp_t *open_qp(pair_t *pair, int which, uint32_t flags, uint32_t kind)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qp = NULL;
    opts.send_cq = opts.recv_cq = pair->cqs[which];
    opts.srq = which == 1 ? pair->srq : NULL;
    opts.flags = flags;
    opts.rnr_retry = kind & PAIR_IMPATIENT ? 0 : 7;
    must(pgas_verbs_qp_create(pair->dev, &opts, &qp), "queue pair");
    return qp;
}

static inline void connect_qps(pgas_verbs_qp_t *a, pgas_verbs_qp_t *b)
{
    pgas_verbs_address_t of_a, of_b;
    qp_address(a, &of_a);
    qp_address(b, &of_b);
    must(pgas_verbs_qp_connect(a, &of_b), "connecting");
    if (a != b)
        must(pgas_verbs_qp_connect(b, &of_a), "connecting");
}

static inline void open_pair(pair_t *pair, const char *device, uint32_t kind)
{
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    opts.device = device;
    open_dev(pair, &opts);
    if (kind & PAIR_SRQ)
        must(pgas_verbs_srq_create(pair->dev, 15, 2, &pair->srq), "shared receive queue");
    for (int k = 0; k < 2; k++)
        pair->qps[k] = open_qp(pair, k, 0, kind);
    connect_qps(pair->qps[0], pair->qps[1]);
}

/* @return whether everything could be closed */
static inline bool close_pair(pair_t *pair)
{
    bool good = true;
    for (int k = 0; k < 2; k++)
        if (pair->qps[k])
            pgas_verbs_qp_destroy(pair->qps[k]);
    if (pair->srq)
        good = pgas_verbs_srq_destroy(pair->srq) == PGAS_OK;
    for (int k = 0; k < 2; k++)
        good = pgas_verbs_cq_destroy(pair->cqs[k]) == PGAS_OK && good;
    pgas_verbs_mem_release(pair->dev, &pair->mem);
    return pgas_verbs_close(pair->dev) == PGAS_OK && good;
}

static inline pgas_verbs_span_t span(const pair_t *pair, size_t at, uint32_t bytes)
{
    return (pgas_verbs_span_t){ (uint64_t)(uintptr_t)(pair->bytes + at), bytes, pair->mem.lkey };
}

/* From (or into) one place of the memory to another; signaled. The span lasts until the next
 * request. */
static inline pgas_verbs_request_t request(pair_t *pair, pgas_verbs_op_t op, size_t at,
                                           uint32_t bytes, size_t remote_at)
{
    pair->span = span(pair, at, bytes);
    return (pgas_verbs_request_t){ .op = op,
                                   .flags = PGAS_VERBS_SIGNAL,
                                   .spans = &pair->span,
                                   .n_spans = bytes > 0,
                                   .remote_addr = (uint64_t)(uintptr_t)(pair->bytes + remote_at),
                                   .rkey = pair->mem.rkey };
}

static inline void post(pair_t *pair, int which, const pgas_verbs_request_t *r)
{
    must(pgas_verbs_qp_post(pair->qps[which], r, 1, NULL), "posting");
}

static inline pgas_verbs_completion_t wait_one(pair_t *pair, int which)
{
    pgas_verbs_completion_t completion;
    must(pgas_verbs_cq_wait(pair->cqs[which], 20000000), "waiting for a completion");
    if (pgas_verbs_cq_poll(pair->cqs[which], &completion, 1) != 1)
        bail("no completion after waiting for one");
    return completion;
}

static inline void fill(pair_t *pair, size_t at, size_t bytes, unsigned seed)
{
    for (size_t k = 0; k < bytes; k++)
        pair->bytes[at + k] = (unsigned char)(seed * 31 + k * 7 + 1);
}

static inline bool is_filled(const pair_t *pair, size_t at, size_t bytes, unsigned char with)
{
    for (size_t k = 0; k < bytes; k++)
        if (pair->bytes[at + k] != with)
            return false;
    return true;
}

#endif
