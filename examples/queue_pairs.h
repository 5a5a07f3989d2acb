/* queue_pairs.h: the set-up of 13_queue_pairs and 19_chain_laps: memory, completion queues and
 * queue pairs of one device. The program ends when a step fails. */
#ifndef EXAMPLES_QUEUE_PAIRS_H
#define EXAMPLES_QUEUE_PAIRS_H

#include <pgas/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"

static pgas_verbs_dev_t *dev;
static pgas_verbs_mem_t mem; /* one page */
static uint64_t *words;      /* the same page, as words */

static inline void must(pgas_status_t status, const char *what)
{
    if (status != PGAS_OK) {
        fprintf(stderr, "%s: %s\n", what, pgas_status_text(status));
        exit(1);
    }
}

/* The first argument names the device; the software NIC is the default. */
static inline void open_device(int argc, char **argv, const char *usage)
{
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    usage_check(0, argc, argv, usage, 1);
    opts.device = argc > 1 ? argv[1] : "snic";
    must(pgas_verbs_open(&opts, &dev), opts.device);
    must(pgas_verbs_mem_register(dev, NULL, 4096, PGAS_VERBS_ACCESS_ALL, &mem), "memory");
    words = (uint64_t *)mem.addr;
}

static inline pgas_verbs_cq_t *open_cq(uint32_t depth, uint32_t flags)
{
    pgas_verbs_cq_t *cq;
    must(pgas_verbs_cq_create(dev, depth, flags, &cq), "a completion queue");
    return cq;
}

static inline pgas_verbs_qp_t *open_qp(pgas_verbs_cq_t *send_cq, pgas_verbs_cq_t *recv_cq,
                                       uint32_t depth, uint32_t flags)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qp;
    opts.send_cq = send_cq;
    opts.recv_cq = recv_cq;
    opts.send_depth = opts.recv_depth = depth;
    opts.flags = flags;
    must(pgas_verbs_qp_create(dev, &opts, &qp), "a queue pair");
    return qp;
}

/* Both ends connect. Between two processes the program has to carry the addresses itself. */
static inline void connect_to(pgas_verbs_qp_t *qp, const pgas_verbs_qp_t *peer)
{
    pgas_verbs_qp_info_t info = { .size = sizeof info };
    must(pgas_verbs_qp_info(peer, &info), "an address");
    must(pgas_verbs_qp_connect(qp, &info.address), "connect");
}

/* Word `index` of the page, as a piece of a request. */
static inline pgas_verbs_span_t word_at(int index)
{
    return (pgas_verbs_span_t){ (uint64_t)(uintptr_t)&words[index], sizeof *words, mem.lkey };
}

#endif
