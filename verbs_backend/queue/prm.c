/* Bytes of a card's commands, one bit at a time, because no hot path uses them. */
#include "verbs_backend/queue/prm.h"

#include <string.h>

enum {
    QUERY_HCA_CAP = 0x100,
    CREATE_QP = 0x500,
    RST2INIT_QP = 0x502,
    INIT2RTR_QP = 0x503,
    RTR2RTS_QP = 0x504
};

/* of a command and of its answer */
enum {
    IN_OPCODE = 0,
    IN_OP_MOD = 0x30,
    IN_QPN = 0x48,
    IN_CONTEXT = 0xc0,
    IN_RING_OFFSET = 0x800,
    IN_RING_UMEM = 0x840,
    IN_RING_UMEM_VALID = 0x860,
    OUT_SYNDROME = 0x20,
    OUT_QPN = 0x48,
    OUT_CAP = 0x80
};
enum { CAP_CURRENT = 1, CAP_CD = 0x22c };

/* of a queue pair's context */
enum {
    QPC_STATE_OF_PATHS = 0x13,
    QPC_PD = 0x28,
    QPC_MTU = 0x40,
    QPC_LOG_MESSAGE = 0x43,
    QPC_LOG_RQ = 0x49,
    QPC_LOG_RQ_STRIDE = 0x4d,
    QPC_LOG_SQ = 0x51,
    QPC_TIMESTAMPS = 0x58,
    QPC_UAR = 0x68,
    QPC_USER_INDEX = 0x88,
    QPC_PEER = 0xa8,
    QPC_PATH = 0xc0,
    QPC_LOG_READS = 0x388,
    QPC_RETRY = 0x38d,
    QPC_RNR_RETRY = 0x390,
    QPC_PSN = 0x3c8,
    QPC_CQN_SEND = 0x3e8,
    QPC_LOG_READS_IN = 0x488,
    QPC_ATOMICS = 0x48c,
    QPC_READ = 0x490,
    QPC_WRITE = 0x491,
    QPC_ATOMIC = 0x492,
    QPC_CHANNEL = 0x49d,
    QPC_RNR_TIMER = 0x4a3,
    QPC_PEER_PSN = 0x4a8,
    QPC_CQN_RECV = 0x4e8,
    QPC_RECORD = 0x500,
    QPC_RQ_KIND = 0x565,
    QPC_SRQN = 0x568,
    QPC_RECORD_UMEM_VALID = 0x683,
    QPC_RECORD_UMEM = 0x720
};
enum { MIGRATED = 3, TIMESTAMPS_DEFAULT = 1, ATOMICS_OF_IB = 1, LOG_MESSAGE_MAX = 30 };
enum { RQ_OWN = 0, RQ_SHARED = 1, RQ_NONE = 3 };

/* of a path in the context */
enum {
    PATH_GRH = 0x28,
    PATH_LID = 0x30,
    PATH_TIMEOUT = 0x40,
    PATH_GID_INDEX = 0x48,
    PATH_HOPS = 0x58,
    PATH_GID = 0x80,
    PATH_UDP_PORT = 0x110,
    PATH_PORT = 0x128,
    PATH_MAC = 0x130
};

static void put(unsigned char *in, unsigned at, unsigned bits, uint64_t value)
{
    for (unsigned k = at + bits; k-- > at; value >>= 1) {
        unsigned bit = 0x80u >> k % 8;
        in[k / 8] = (unsigned char)((in[k / 8] & ~bit) | (value & 1 ? bit : 0));
    }
}

static uint64_t get(const unsigned char *out, unsigned at, unsigned bits)
{
    uint64_t value = 0;
    for (unsigned k = at; k < at + bits; k++)
        value = value << 1 | (out[k / 8] >> (7 - k % 8) & 1);
    return value;
}

static void put_context(unsigned char *in, unsigned at, unsigned bits, uint64_t value)
{
    put(in, IN_CONTEXT + at, bits, value);
}

static void put_path(unsigned char *in, unsigned at, unsigned bits, uint64_t value)
{
    put(in, IN_CONTEXT + QPC_PATH + at, bits, value);
}

void pgasi_prm_query_cap(unsigned char in[PGASI_PRM_QUERY_CAP_BYTES])
{
    memset(in, 0, PGASI_PRM_QUERY_CAP_BYTES);
    put(in, IN_OPCODE, 16, QUERY_HCA_CAP);
    put(in, IN_OP_MOD, 16, CAP_CURRENT);
}

bool pgasi_prm_cap_cd(const unsigned char out[PGASI_PRM_CAP_BYTES])
{
    return get(out, OUT_CAP + CAP_CD, 1) != 0;
}

static uint32_t rq_kind(const pgasi_prm_qp_t *qp)
{
    if (qp->srqn != 0)
        return RQ_SHARED;
    return qp->has_rq ? RQ_OWN : RQ_NONE;
}

void pgasi_prm_create_qp(unsigned char in[PGASI_PRM_CREATE_QP_BYTES], const pgasi_prm_qp_t *qp)
{
    memset(in, 0, PGASI_PRM_CREATE_QP_BYTES);
    put(in, IN_OPCODE, 16, CREATE_QP);
    put_context(in, QPC_STATE_OF_PATHS, 2, MIGRATED);
    put_context(in, QPC_PD, 24, qp->pd);
    put_context(in, QPC_LOG_SQ, 4, qp->log_sq_blocks);
    put_context(in, QPC_TIMESTAMPS, 2, TIMESTAMPS_DEFAULT);
    put_context(in, QPC_UAR, 24, qp->uar_page);
    put_context(in, QPC_USER_INDEX, 24, qp->user_index);
    put_context(in, QPC_CQN_SEND, 24, qp->cqn_send);
    put_context(in, QPC_CQN_RECV, 24, qp->cqn_recv);
    put_context(in, QPC_CHANNEL, 3, qp->flags);
    put_context(in, QPC_RQ_KIND, 3, rq_kind(qp));
    put_context(in, QPC_SRQN, 24, qp->srqn);
    if (qp->has_rq) {
        put_context(in, QPC_LOG_RQ, 4, qp->log_rq_entries);
        put_context(in, QPC_LOG_RQ_STRIDE, 3, qp->log_rq_stride - 4);
    }
    put_context(in, QPC_RECORD, 64, qp->record_offset);
    put_context(in, QPC_RECORD_UMEM_VALID, 1, 1);
    put_context(in, QPC_RECORD_UMEM, 32, qp->umem);
    put(in, IN_RING_OFFSET, 64, qp->ring_offset);
    put(in, IN_RING_UMEM, 32, qp->umem);
    put(in, IN_RING_UMEM_VALID, 1, 1);
}

uint32_t pgasi_prm_created_qpn(const unsigned char out[PGASI_PRM_ANSWER_BYTES])
{
    return (uint32_t)get(out, OUT_QPN, 24);
}

uint32_t pgasi_prm_syndrome(const unsigned char out[PGASI_PRM_ANSWER_BYTES])
{
    return (uint32_t)get(out, OUT_SYNDROME, 32);
}

static void begin(unsigned char *in, uint32_t opcode, const pgasi_prm_path_t *path)
{
    memset(in, 0, PGASI_PRM_MODIFY_QP_BYTES);
    put(in, IN_OPCODE, 16, opcode);
    put(in, IN_QPN, 24, path->qpn);
    put_context(in, QPC_STATE_OF_PATHS, 2, MIGRATED);
    put_path(in, PATH_PORT, 8, path->port);
}

void pgasi_prm_to_init(unsigned char in[PGASI_PRM_MODIFY_QP_BYTES], const pgasi_prm_path_t *path)
{
    begin(in, RST2INIT_QP, path);
    put_context(in, QPC_READ, 1, path->remote_read);
    put_context(in, QPC_WRITE, 1, path->remote_write);
    put_context(in, QPC_ATOMIC, 1, path->remote_atomic);
    put_context(in, QPC_ATOMICS, 4, path->remote_atomic ? ATOMICS_OF_IB : 0);
}

void pgasi_prm_to_receive(unsigned char in[PGASI_PRM_MODIFY_QP_BYTES], const pgasi_prm_path_t *path)
{
    begin(in, INIT2RTR_QP, path);
    put_context(in, QPC_MTU, 3, path->mtu);
    put_context(in, QPC_LOG_MESSAGE, 5, LOG_MESSAGE_MAX);
    put_context(in, QPC_PEER, 24, path->peer_qpn);
    put_context(in, QPC_PEER_PSN, 24, path->peer_psn);
    put_context(in, QPC_LOG_READS_IN, 3, path->log_reads_in);
    put_context(in, QPC_RNR_TIMER, 5, path->rnr_timer);
    put_context(in, QPC_READ, 1, path->remote_read);
    put_context(in, QPC_WRITE, 1, path->remote_write);
    put_context(in, QPC_ATOMIC, 1, path->remote_atomic);
    put_context(in, QPC_ATOMICS, 4, path->remote_atomic ? ATOMICS_OF_IB : 0);
    if (path->ethernet) {
        for (unsigned k = 0; k < sizeof path->mac; k++)
            put_path(in, PATH_MAC + 8 * k, 8, path->mac[k]);
        put_path(in, PATH_UDP_PORT, 16, path->udp_port);
    } else {
        put_path(in, PATH_LID, 16, path->lid);
        put_path(in, PATH_GRH, 1, path->is_global);
    }
    if (path->is_global) {
        put_path(in, PATH_GID_INDEX, 8, path->gid_index);
        put_path(in, PATH_HOPS, 8, path->hop_limit);
        for (unsigned k = 0; k < sizeof path->gid; k++)
            put_path(in, PATH_GID + 8 * k, 8, path->gid[k]);
    }
}

void pgasi_prm_to_send(unsigned char in[PGASI_PRM_MODIFY_QP_BYTES], const pgasi_prm_path_t *path)
{
    begin(in, RTR2RTS_QP, path);
    put_context(in, QPC_LOG_READS, 3, path->log_reads);
    put_context(in, QPC_RETRY, 3, path->retry);
    put_context(in, QPC_RNR_RETRY, 3, path->rnr_retry);
    put_context(in, QPC_PSN, 24, path->psn);
    put_path(in, PATH_TIMEOUT, 5, path->timeout);
}
