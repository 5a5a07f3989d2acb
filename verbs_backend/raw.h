/** Queues that we write and read ourselves, by mlx5's bytes: the hot half of the providers mlx5 and snic, which differ only in how
 *  queues come into being and what a doorbell is.
 *
 *  A send queue is a ring of blocks (wqe.h). pi counts blocks written, rung those the device knows of, ci those that completions have
 *  told of. For each first block of an entry, ids and ends keep the caller's id and the position behind it. Receive queues are rings
 *  of strides (a power of two of data segments). */
#ifndef PGASI_VERBS_RAW_H
#define PGASI_VERBS_RAW_H

#include "verbs_backend/device.h"
#include "verbs_backend/wqe.h"

typedef struct pgasi_raw_qp pgasi_raw_qp_t;
typedef struct pgasi_raw_dev pgasi_raw_dev_t;

/** Send or receive. */
typedef struct {
    unsigned char *ring;
    uint32_t mask;       /* blocks, or strides, minus one */
    uint32_t pi, rung, ci;
    uint32_t *record;    /* the doorbell record's word */
    uint64_t *ids;
    uint32_t *ends;      /* send queues only */
} pgasi_raw_queue_t;

struct pgasi_raw_qp {
    pgas_verbs_qp_t super;
    pgasi_raw_queue_t sq, rq;
    uint32_t number;
    uint32_t rq_spans;   /* data segments of a stride */
    bool dead;           /* an error completion was seen */
    uint32_t ignore_overrun;
    /** The device's part of the doorbell; the record has been written. ctrl is the first 8 bytes of the last entry. */
    void (*ring_bell)(pgasi_raw_qp_t *qp, const void *ctrl);
};

typedef struct {
    pgas_verbs_srq_t super;
    unsigned char *ring; /* strides as mlx5's linked receive entries: a next segment, then data segments */
    uint32_t mask, stride, pi;
    uint32_t number;
    uint32_t *record;
    uint64_t *ids;
    uint32_t *free_slots; /* slots that are not posted: a stack; completions come in any order */
    uint32_t n_free;
} pgasi_raw_srq_t;

typedef struct {
    pgas_verbs_cq_t super;
    pgasi_cqe_t *ring;
    uint32_t mask, ci, number;
    uint32_t *record;    /* two words: consumer index, arm */
    bool dead;
} pgasi_raw_cq_t;

#define PGASI_RAW_NUMBER_BITS 24
#define PGASI_RAW_PAGE 1024
/** Begins a device of these providers: queue pairs by number, for completions. */
struct pgasi_raw_dev {
    pgas_verbs_dev_t super;
    pthread_mutex_t lock;
    pgasi_raw_qp_t **qps[(1u << PGASI_RAW_NUMBER_BITS) / PGASI_RAW_PAGE]; /* pages, made when needed, kept until close */
    pgasi_raw_srq_t **srqs[(1u << PGASI_RAW_NUMBER_BITS) / PGASI_RAW_PAGE];
};

pgas_status_t pgasi_raw_dev_init(pgasi_raw_dev_t *dev);
void pgasi_raw_dev_fini(pgasi_raw_dev_t *dev);
/** Enter (or with NULL remove) under its number. */
pgas_status_t pgasi_raw_enter_qp(pgasi_raw_dev_t *dev, uint32_t number, pgasi_raw_qp_t *qp);
pgas_status_t pgasi_raw_enter_srq(pgasi_raw_dev_t *dev, uint32_t number, pgasi_raw_srq_t *srq);

/** Blocks of a send ring and bytes of a receive stride that hold what options ask for, each a power of two. */
uint32_t pgasi_raw_blocks(const pgas_verbs_qp_opts_t *opts);
uint32_t pgasi_raw_stride(uint32_t spans);
/** The blocks that one request may take at most. */
uint32_t pgasi_raw_request_blocks(const pgas_verbs_qp_opts_t *opts);

/** Give a queue its ring; makes ids and ends. @param n blocks or strides, a power of two */
pgas_status_t pgasi_raw_queue_init(pgasi_raw_queue_t *queue, void *ring, uint32_t n, uint32_t *record, bool send);
void pgasi_raw_queue_fini(pgasi_raw_queue_t *queue);
/** Mark all completions as not there yet. */
void pgasi_raw_cq_init(pgasi_raw_cq_t *cq, void *ring, uint32_t n, uint32_t *record);
pgas_status_t pgasi_raw_srq_init(pgasi_raw_srq_t *srq, void *ring, uint32_t n, uint32_t stride, uint32_t *record);
void pgasi_raw_srq_fini(pgasi_raw_srq_t *srq);

/* entries of the table that both providers share; they need cqs and qps of theirs */
pgas_status_t pgasi_raw_write(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *requests, uint32_t n, uint32_t *n_p);
pgas_status_t pgasi_raw_ring(pgas_verbs_qp_t *qp);
uint32_t pgasi_raw_position(const pgas_verbs_qp_t *qp);
pgas_status_t pgasi_raw_recv(pgas_verbs_qp_t *qp, const pgas_verbs_recv_t *recvs, uint32_t n, uint32_t *n_p);
pgas_status_t pgasi_raw_srq_recv(pgas_verbs_srq_t *srq, const pgas_verbs_recv_t *recvs, uint32_t n, uint32_t *n_p);
int pgasi_raw_poll(pgas_verbs_cq_t *cq, pgas_verbs_completion_t *completions, int n);

#endif
