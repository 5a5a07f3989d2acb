/** The provider "snic": the declarations that its files share. */
#ifndef PGASI_VERBS_SNIC_QP_H
#define PGASI_VERBS_SNIC_QP_H

#include "verbs_backend/queue/raw.h"
#include "verbs_backend/snic/snic.h"

#define PGASI_SNIC_RECORD_BYTES 64
#define PGASI_SNIC_READS_MAX    64

typedef struct {
    pgasi_raw_dev_t raw;
    pgasi_snic_t *snic;
    pgasi_snic_id_t id;
    uint32_t pd;
    uint32_t start; /* first value of indices */
} pgasi_snic_dev_t;

typedef struct {
    pgasi_raw_cq_t raw;
    pgasi_snic_ref_t queue;
    size_t queue_bytes;
    int event_fds[2];
} pgasi_snic_cq_queue_t;

typedef struct {
    pgasi_raw_srq_t raw;
    pgasi_snic_ref_t queue;
    size_t queue_bytes;
} pgasi_snic_srq_queue_t;

typedef struct {
    pgasi_raw_qp_t raw;
    pgasi_snic_t *snic;
    pgasi_snic_ref_t queue; /* send ring, receive ring, record */
    size_t queue_bytes, sq_bytes;
    uint32_t slots_key; /* key of the send ring, if peers may write to it */
} pgasi_snic_qp_queue_t;

static inline pgasi_snic_dev_t *pgasi_snic_dev_of(pgas_verbs_dev_t *dev)
{
    return (pgasi_snic_dev_t *)(void *)dev;
}

static inline pgasi_snic_cq_queue_t *pgasi_snic_cq_of(pgas_verbs_cq_t *cq)
{
    return (pgasi_snic_cq_queue_t *)(void *)cq;
}

pgas_status_t pgasi_verbs_snic_srq_open(pgas_verbs_dev_t *base, uint32_t depth, uint32_t spans,
                                        pgas_verbs_srq_t **srq_p);
void pgasi_verbs_snic_srq_close(pgas_verbs_srq_t *base);
pgas_status_t pgasi_verbs_snic_srq_recv(pgas_verbs_srq_t *base, const pgas_verbs_recv_t *recvs,
                                        uint32_t n, uint32_t *n_p);
pgas_status_t pgasi_verbs_snic_qp_open(pgas_verbs_dev_t *base, const pgas_verbs_qp_opts_t *opts,
                                       pgas_verbs_qp_t **qp_p);
void pgasi_verbs_snic_qp_close(pgas_verbs_qp_t *base);
void pgasi_verbs_snic_qp_address(const pgas_verbs_qp_t *base, pgas_verbs_address_t *address_p);
pgas_status_t pgasi_verbs_snic_qp_connect(pgas_verbs_qp_t *base, const pgas_verbs_address_t *peer);
pgas_status_t pgasi_verbs_snic_qp_recv(pgas_verbs_qp_t *base, const pgas_verbs_recv_t *recvs,
                                       uint32_t n, uint32_t *n_p);
pgas_status_t pgasi_verbs_snic_qp_buffer(pgas_verbs_qp_t *base, pgas_verbs_mem_t *mem_p,
                                         uint32_t *slot_bytes_p);

#endif
