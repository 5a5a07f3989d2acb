/** Queues that the library itself writes and reads, by mlx5's bytes: the hot half of the providers
 *  mlx5 and snic. These differ only in how they make queues and ring doorbells.
 *
 *  A send queue is a ring of blocks (wqe.h). pi counts blocks written, rung those that the device
 *  knows of, ci those whose completions were polled. For the first block of each entry, ids keeps
 *  the caller's id and ends the position behind the entry. Receive queues are rings of strides (a
 *  power of two of data segments). */
#ifndef PGASI_VERBS_RAW_H
#define PGASI_VERBS_RAW_H

#include "verbs_backend/queue/device.h"
#include "verbs_backend/wqe.h"

typedef struct pgasi_raw_qp pgasi_raw_qp_t;
typedef struct pgasi_raw_dev pgasi_raw_dev_t;

/** A send or receive queue. */
typedef struct {
    unsigned char *ring;
    uint32_t mask; /* blocks, or strides, minus one */
    uint32_t pi, rung, ci;
    uint32_t start;   /* first value of pi */
    uint32_t *record; /* word of the doorbell record */
    uint64_t *ids;
    uint32_t *ends; /* send queues only */
} pgasi_raw_queue_t;

struct pgasi_raw_qp {
    pgas_verbs_qp_t super;
    pgasi_raw_queue_t sq, rq;
    uint32_t number;
    uint32_t rq_stride; /* bytes; 0: there is no receive queue */
    uint32_t room;      /* blocks that may be in flight when another request is written */
    bool dead;          /* an error completion was polled */
    const void *last;   /* the control segment of the last entry written */
    /** The device's part of the doorbell; the record has been written before. */
    void (*ring_doorbell)(pgasi_raw_qp_t *qp);
};

typedef struct {
    pgas_verbs_srq_t super;
    /* strides are mlx5's linked receive entries: a next segment, then data segments */
    unsigned char *ring;
    uint32_t mask, stride;
    uint32_t pi; /* entries posted in all */
    /* slots: head is posted next; tail is the last free one, and stays free so that the list never
     * ends */
    uint32_t head, tail;
    uint32_t number;
    uint32_t *record;
    uint64_t *ids;
    int lock; /* posting, and polling completions that free slots, may be two threads */
} pgasi_raw_srq_t;

typedef struct pgasi_raw_cq {
    pgas_verbs_cq_t super;
    pgasi_cqe_t *ring;
    uint32_t mask, ci, number;
    uint32_t start;            /* first value of ci */
    uint32_t *record;          /* two words: consumer index, arm word */
    struct pgasi_raw_cq *next; /* next in the list of the device */
} pgasi_raw_cq_t;

/** The next segment of a shared receive entry. */
typedef struct {
    uint8_t reserved0[2];
    uint16_t next;
    uint8_t reserved1[12];
} pgasi_raw_next_t;

#define PGASI_RAW_NUMBER_BITS 24
#define PGASI_RAW_PAGE        1024
/** The common part of the devices of these providers: queue pairs and shared receive queues by
 *  number, for completions. */
struct pgasi_raw_dev {
    pgas_verbs_dev_t super;
    pthread_mutex_t lock;
    pgasi_raw_cq_t *cqs;
    /* pages are allocated when needed and freed at close */
    void **qps[(1u << PGASI_RAW_NUMBER_BITS) / PGASI_RAW_PAGE];
    void **srqs[(1u << PGASI_RAW_NUMBER_BITS) / PGASI_RAW_PAGE];
};

pgas_status_t pgasi_raw_dev_init(pgasi_raw_dev_t *dev);
void pgasi_raw_dev_fini(pgasi_raw_dev_t *dev);
/** Enters an object under its number; NULL removes it. On return no polling thread uses a removed
 *  object. */
pgas_status_t pgasi_raw_enter_qp(pgasi_raw_dev_t *dev, uint32_t number, pgasi_raw_qp_t *qp);
pgas_status_t pgasi_raw_enter_srq(pgasi_raw_dev_t *dev, uint32_t number, pgasi_raw_srq_t *srq);
/** enter: the completion queue is polled from now on. leave: it is not polled any more; it need not
 *  have been entered. */
void pgasi_raw_enter_cq(pgasi_raw_dev_t *dev, pgasi_raw_cq_t *cq);
void pgasi_raw_leave_cq(pgasi_raw_dev_t *dev, pgasi_raw_cq_t *cq);

/** Blocks of a send ring, and bytes of a receive stride, for given options; powers of two.
 *  @param linked  a stride of a shared receive queue */
uint32_t pgasi_raw_blocks(const pgas_verbs_qp_opts_t *opts);
uint32_t pgasi_raw_stride(uint32_t spans, bool linked);

/** Sets the rings of a queue pair whose options are set, and allocates ids and ends.
 *  @param sq_blocks, rq_strides  powers of two; 0 strides: no receive queue
 *  @param record  two words, receive and send */
pgas_status_t pgasi_raw_qp_init(pgasi_raw_qp_t *qp, void *sq, uint32_t sq_blocks, void *rq,
                                uint32_t rq_strides, uint32_t rq_stride, uint32_t *record);
void pgasi_raw_qp_fini(pgasi_raw_qp_t *qp);
/** Marks all completions as absent. */
void pgasi_raw_cq_init(pgasi_raw_cq_t *cq, void *ring, uint32_t n, uint32_t *record);
pgas_status_t pgasi_raw_srq_init(pgasi_raw_srq_t *srq, void *ring, uint32_t n, uint32_t stride,
                                 uint32_t *record);
/** Sets the first value of positions and counts instead of 0, where the device begins with the same
 *  value. To be called right after init. */
void pgasi_raw_qp_start(pgasi_raw_qp_t *qp, uint32_t start);
void pgasi_raw_cq_start(pgasi_raw_cq_t *cq, uint32_t start);
void pgasi_raw_srq_start(pgasi_raw_srq_t *srq, uint32_t start);
void pgasi_raw_srq_fini(pgasi_raw_srq_t *srq);

/* Entries of the ops table that the providers mlx5 and snic share, for their completion queues and
 * queue pairs */
pgas_status_t pgasi_raw_write(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *requests, uint32_t n,
                              uint32_t *n_p);
pgas_status_t pgasi_raw_write_one(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *request,
                                  uint32_t flags, uint64_t id);
pgas_status_t pgasi_raw_ring(pgas_verbs_qp_t *qp);
uint32_t pgasi_raw_position(const pgas_verbs_qp_t *qp);
pgas_status_t pgasi_raw_recv(pgas_verbs_qp_t *qp, const pgas_verbs_recv_t *recvs, uint32_t n,
                             uint32_t *n_p);
pgas_status_t pgasi_raw_srq_recv(pgas_verbs_srq_t *srq, const pgas_verbs_recv_t *recvs, uint32_t n,
                                 uint32_t *n_p);
int pgasi_raw_poll(pgas_verbs_cq_t *cq, pgas_verbs_completion_t *completions, int n);

#endif
