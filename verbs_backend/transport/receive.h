/** Receiving, on context 0: the declarations that receive.c and inbound.c share. receive.c handles
 *  messages, atomics and the receive queue. inbound.c handles the queue pairs on which peers send,
 *  and the replies on them. */
#ifndef PGASI_VERBS_RECEIVE_H
#define PGASI_VERBS_RECEIVE_H

#include "verbs_backend/transport/inside.h"

typedef struct reply {
    struct reply *next;
    uint32_t slot;
    pgasi_verbs_amo_reply_t reply;
} pgasi_verbs_unsent_t;

/** This rank's end of a queue pair on which a context of a peer sends. */
typedef struct inbound {
    struct inbound *rung_next; /* next queue pair with replies whose doorbell has not been rung */
    bool to_ring, leaving;
    int rank, ctx;
    uint32_t number;
    pgas_verbs_qp_t *qp;
    pgas_verbs_tx_t *tx; /* opened with the first reply */
    int cq;
    uint64_t slots_addr;
    uint32_t slots_rkey;
    pgasi_verbs_unsent_t *unsent, **unsent_last; /* replies that found no room */
    struct {
        char *data; /* NULL: the message is dropped */
        uint32_t bytes, at;
        bool under_way;
        uint8_t header_bytes;
        unsigned char header[PGASI_TP_AM_HEADER_MAX];
    } large;
} pgasi_verbs_inbound_t;

/** The receive queue of a rail. */
typedef struct {
    pgas_verbs_cq_t *cq; /* NULL: no peer has connected by this rail */
    pgas_verbs_srq_t *srq;
    pgas_verbs_mem_t mem;
} pgasi_verbs_receive_rail_t;

struct pgasi_verbs_receiver {
    pgasi_verbs_receive_rail_t rails[PGASI_VERBS_RAILS_MAX];
    uint32_t n_buffers, stride; /* of each rail */
    pgasi_verbs_inbound_t **inbounds;
    uint32_t n_inbounds;
    uint32_t n_leaving, n_with_unsent;
    pgasi_verbs_inbound_t *to_ring;
    uint64_t n_dropped, n_too_large;
};

/* receive.c */
/** Opens the receive queue of a rail, unless it is open. */
pgas_status_t pgasi_verbs_receive_on(pgasi_verbs_ctx_t *ctx, int rail);

/* inbound.c */
void pgasi_verbs_send_reply(pgasi_verbs_ctx_t *ctx, pgasi_verbs_inbound_t *inbound, uint32_t slot,
                            const pgasi_verbs_amo_reply_t *reply);
/** Sends replies that found no room before. @return the number of sent replies */
int pgasi_verbs_send_unsent(pgasi_verbs_ctx_t *ctx);
void pgasi_verbs_ring_replies(pgasi_verbs_receiver_t *receiver);
void pgasi_verbs_close_inbound(pgasi_verbs_ctx_t *ctx, pgasi_verbs_inbound_t *inbound);
void pgasi_verbs_close_leaving(pgasi_verbs_ctx_t *ctx);

#endif
