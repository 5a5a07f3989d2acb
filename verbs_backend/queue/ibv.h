/** The provider "verbs": queues of libibverbs, on any card. provider_ibv.c makes devices and
 *  completion queues, ibv_qp.c makes queue pairs, ibv_queue.c posts and polls.
 *
 *  libibverbs takes requests as lists and copies them into queues of its own. So requests are
 *  staged here until the doorbell, and occupancy of a queue is counted here: `sent` describes the
 *  request at each position, pi is behind the last one written, ci behind the last one whose
 *  completion was polled. The id of a work request (wr_id) names the place of its description,
 *  because libibverbs does not distinguish a failed receive from a failed send. */
#ifndef PGASI_VERBS_IBV_H
#define PGASI_VERBS_IBV_H

#include "verbs_backend/queue/mr.h"
#include "verbs_backend/queue/port.h"

/* staged requests are posted at this number, even without a doorbell */
#define PGASI_IBV_STAGE       32
#define PGASI_IBV_PAGE        1024
#define PGASI_IBV_PAGES       ((1u << 24) / PGASI_IBV_PAGE)
#define PGASI_IBV_RECV        (UINT64_C(1) << 63)
#define PGASI_IBV_SRQ         (UINT64_C(1) << 62)
#define PGASI_IBV_SERIAL_MASK ((1u << 30) - 1)

typedef struct pgasi_ibv_dev pgasi_ibv_dev_t;

/** A posted request. */
typedef struct {
    uint64_t id;
    uint32_t bytes; /* bytes that it reads */
    uint8_t op;     /* pgas_verbs_op_t */
} pgasi_ibv_note_t;

typedef struct pgasi_ibv_srq {
    pgas_verbs_srq_t super;
    struct ibv_srq *srq;
    uint32_t serial;
    struct pgasi_ibv_srq *next; /* next in the list of the device */
    /* guards the fields below: posting and polling may be two threads */
    int lock;
    uint32_t n_free;
    uint32_t *free_slots;
    uint64_t *ids;         /* of each slot */
    struct ibv_sge *spans; /* of the entry that is being posted */
} pgasi_ibv_srq_t;

typedef struct {
    pgas_verbs_cq_t super;
    struct ibv_cq *cq;
    struct ibv_comp_channel *channel; /* NULL: no events */
    /* empty polls since the thread last checked for events of the device */
    uint32_t n_empty;
    bool ended;    /* the overrun was reported; some devices go on when there is room again */
    bool has_next; /* next was taken while arming */
    struct ibv_wc next;
} pgasi_ibv_cq_t;

typedef struct {
    pgas_verbs_qp_t super;
    struct ibv_qp *qp;
    uint32_t serial, psn;
    bool dead; /* an error completion was polled, or the device has refused a request */
    uint32_t sq_mask, sq_pi, sq_ci;
    pgasi_ibv_note_t *sent;
    uint32_t rq_mask, rq_pi, rq_ci;
    uint64_t *received; /* ids */
    uint32_t n_staged;  /* requests that are not posted yet */
    struct ibv_send_wr wrs[PGASI_IBV_STAGE];
    struct ibv_sge *spans;  /* send_spans for each staged request */
    unsigned char *inlined; /* inline_max bytes for each staged request */
    struct ibv_sge *recv_spans;
} pgasi_ibv_qp_t;

struct pgasi_ibv_dev {
    pgas_verbs_dev_t super;
    struct ibv_context *context;
    pgasi_rdma_address_t at; /* of the port */
    bool atomics;
    pthread_mutex_t lock; /* guards the fields below; polling threads read pages without it */
    uint32_t serial;      /* the last one given */
    pgasi_ibv_srq_t *srqs;
    /* queue pairs by number; pages are allocated when needed and freed at close */
    pgasi_ibv_qp_t **pages[PGASI_IBV_PAGES];
};

static inline pgasi_ibv_dev_t *pgasi_ibv_dev(pgas_verbs_dev_t *dev)
{
    return (pgasi_ibv_dev_t *)(void *)dev;
}
static inline pgasi_ibv_cq_t *pgasi_ibv_cq(pgas_verbs_cq_t *cq)
{
    return (pgasi_ibv_cq_t *)(void *)cq;
}
static inline pgasi_ibv_srq_t *pgasi_ibv_srq(pgas_verbs_srq_t *srq)
{
    return (pgasi_ibv_srq_t *)(void *)srq;
}
static inline pgasi_ibv_qp_t *pgasi_ibv_qp(pgas_verbs_qp_t *qp)
{
    return (pgasi_ibv_qp_t *)(void *)qp;
}

/* provider_ibv.c */
/** The status for an errno of libibverbs. */
pgas_status_t pgasi_ibv_status(int error);

/* ibv_qp.c */
pgas_status_t pgasi_ibv_srq_open(pgas_verbs_dev_t *base, uint32_t depth, uint32_t spans,
                                 pgas_verbs_srq_t **srq_p);
void pgasi_ibv_srq_close(pgas_verbs_srq_t *base);
pgas_status_t pgasi_ibv_qp_open(pgas_verbs_dev_t *base, const pgas_verbs_qp_opts_t *opts,
                                pgas_verbs_qp_t **qp_p);
void pgasi_ibv_qp_close(pgas_verbs_qp_t *base);
void pgasi_ibv_qp_address(const pgas_verbs_qp_t *base, pgas_verbs_address_t *address_p);
pgas_status_t pgasi_ibv_qp_connect(pgas_verbs_qp_t *base, const pgas_verbs_address_t *bytes);

/* ibv_queue.c */
pgas_status_t pgasi_ibv_write(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *requests, uint32_t n,
                              uint32_t *n_p);
pgas_status_t pgasi_ibv_ring(pgas_verbs_qp_t *qp);
uint32_t pgasi_ibv_position(const pgas_verbs_qp_t *qp);
pgas_status_t pgasi_ibv_recv(pgas_verbs_qp_t *qp, const pgas_verbs_recv_t *recvs, uint32_t n,
                             uint32_t *n_p);
pgas_status_t pgasi_ibv_srq_recv(pgas_verbs_srq_t *srq, const pgas_verbs_recv_t *recvs, uint32_t n,
                                 uint32_t *n_p);
int pgasi_ibv_poll(pgas_verbs_cq_t *cq, pgas_verbs_completion_t *completions, int n);
pgas_status_t pgasi_ibv_arm(pgas_verbs_cq_t *cq, bool solicited);

#endif
