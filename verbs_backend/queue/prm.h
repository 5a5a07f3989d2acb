/** Commands of mlx5 cards for which libmlx5 has no function, as bytes: queue pairs with the
 *  cross-channel bits, and whether a card has those. Functions have no side effects; the provider
 *  mlx5 passes the bytes to the card by mlx5dv_devx_*.
 *
 *  Fields are big-endian. A field is named by the number of its first bit. Bits are counted from
 *  the beginning of the command, or of the queue pair's context in it. The numbers are those of
 *  rdma-core's mlx5_ifc.h, which is not installed, after NVIDIA's Programmer's Reference Manual. */
#ifndef PGASI_VERBS_PRM_H
#define PGASI_VERBS_PRM_H

#include <stdbool.h>
#include <stdint.h>

#define PGASI_PRM_QUERY_CAP_BYTES 16
#define PGASI_PRM_CAP_BYTES       (16 + 4096) /* bytes of the answer */
#define PGASI_PRM_CREATE_QP_BYTES 272
#define PGASI_PRM_MODIFY_QP_BYTES 272
#define PGASI_PRM_ANSWER_BYTES    16

/** Writes the query of the general capabilities that are in use. */
void pgasi_prm_query_cap(unsigned char in[PGASI_PRM_QUERY_CAP_BYTES]);
/** Whether the card has WAIT, SEND_EN, RECV_EN and managed queues. */
bool pgasi_prm_cap_cd(const unsigned char out[PGASI_PRM_CAP_BYTES]);

#define PGASI_PRM_MASTER       1u /* cd_master */
#define PGASI_PRM_MANAGED_SEND 2u /* cd_slave_send */
#define PGASI_PRM_MANAGED_RECV 4u /* cd_slave_receive */

/** A reliable connected queue pair. One registered memory holds the receive ring, the send ring
 *  behind it, and the two words of the doorbell record. */
typedef struct {
    uint32_t pd, uar_page, umem;
    uint32_t cqn_send, cqn_recv;
    uint32_t srqn; /* 0: none */
    bool has_rq;
    uint32_t log_rq_entries, log_rq_stride; /* bytes of a stride: 2^log_rq_stride, at least 16 */
    uint32_t log_sq_blocks;
    uint64_t ring_offset, record_offset;
    uint32_t user_index; /* receive completions contain it, where the card supports that */
    uint32_t flags;      /* PGASI_PRM_ bits */
} pgasi_prm_qp_t;
void pgasi_prm_create_qp(unsigned char in[PGASI_PRM_CREATE_QP_BYTES], const pgasi_prm_qp_t *qp);
uint32_t pgasi_prm_created_qpn(const unsigned char out[PGASI_PRM_ANSWER_BYTES]);
/** The card's reason for refusing a command. */
uint32_t pgasi_prm_syndrome(const unsigned char out[PGASI_PRM_ANSWER_BYTES]);

/** The other end, and the path to it. */
typedef struct {
    uint32_t qpn, peer_qpn;
    uint32_t psn, peer_psn;
    uint8_t port;
    uint8_t mtu;                      /* as ibv_mtu */
    uint32_t log_reads_in, log_reads; /* reads and atomics answered at once, and in flight; log2 */
    uint32_t timeout, retry, rnr_retry, rnr_timer; /* as in ibv_qp_attr */
    bool remote_read, remote_write, remote_atomic;
    bool ethernet;
    bool is_global;
    uint16_t lid; /* InfiniBand */
    uint8_t gid_index, hop_limit;
    uint8_t gid[16];   /* the peer's, if is_global */
    uint8_t mac[6];    /* Ethernet address */
    uint16_t udp_port; /* RoCE v2: source port of packets; 0 otherwise */
} pgasi_prm_path_t;

/** The three changes of state, in order. The first one does not need the peer. */
void pgasi_prm_to_init(unsigned char in[PGASI_PRM_MODIFY_QP_BYTES], const pgasi_prm_path_t *path);
void pgasi_prm_to_receive(unsigned char in[PGASI_PRM_MODIFY_QP_BYTES],
                          const pgasi_prm_path_t *path);
void pgasi_prm_to_send(unsigned char in[PGASI_PRM_MODIFY_QP_BYTES], const pgasi_prm_path_t *path);

#endif
