/** Commands of mlx5 cards that libmlx5 has no function for, as bytes: queue pairs with the
 *  cross-channel bits, and whether a card has those. Pure; the provider mlx5 gives them to the card
 *  by mlx5dv_devx_*.
 *
 *  Fields are big-endian and named by the number of their first bit, from the beginning of the
 *  command or of the queue pair's context in it. The numbers are those of rdma-core's mlx5_ifc.h,
 *  which is not installed; after NVIDIA's Programmer's Reference Manual. */
#ifndef PGASI_VERBS_PRM_H
#define PGASI_VERBS_PRM_H

#include <stdbool.h>
#include <stdint.h>

#define PGASI_PRM_QUERY_CAP_BYTES 16
#define PGASI_PRM_CAP_BYTES       (16 + 4096) /* what it answers */
#define PGASI_PRM_CREATE_QP_BYTES 272
#define PGASI_PRM_MODIFY_QP_BYTES 272
#define PGASI_PRM_ANSWER_BYTES    16

/** Ask for the general capabilities, those in use. */
void pgasi_prm_query_cap(unsigned char in[PGASI_PRM_QUERY_CAP_BYTES]);
/** Whether there are WAIT, SEND_EN, RECV_EN and queues that they manage. */
bool pgasi_prm_cap_cd(const unsigned char out[PGASI_PRM_CAP_BYTES]);

#define PGASI_PRM_MASTER       1u /* cd_master */
#define PGASI_PRM_MANAGED_SEND 2u /* cd_slave_send */
#define PGASI_PRM_MANAGED_RECV 4u /* cd_slave_receive */

/** A reliable connected queue pair. Receive ring and send ring lie one behind the other in one
 *  registered memory, the two words of its doorbell record in the same. */
typedef struct {
    uint32_t pd, uar_page, umem;
    uint32_t cqn_send, cqn_recv;
    uint32_t srqn; /* 0: none */
    bool has_rq;
    uint32_t log_rq_entries, log_rq_stride; /* bytes of a stride: 2^log_rq_stride, at least 16 */
    uint32_t log_sq_blocks;
    uint64_t ring_offset, record_offset;
    uint32_t user_index; /* what receive completions bear, where the card gives those */
    uint32_t flags;      /* PGASI_PRM_ bits */
} pgasi_prm_qp_t;
void pgasi_prm_create_qp(unsigned char in[PGASI_PRM_CREATE_QP_BYTES], const pgasi_prm_qp_t *qp);
uint32_t pgasi_prm_created_qpn(const unsigned char out[PGASI_PRM_ANSWER_BYTES]);
/** What the card says of a command that it refused. */
uint32_t pgasi_prm_syndrome(const unsigned char out[PGASI_PRM_ANSWER_BYTES]);

/** The other end, and how it is reached. */
typedef struct {
    uint32_t qpn, peer_qpn;
    uint32_t psn, peer_psn;
    uint8_t port;
    uint8_t mtu;                      /* as ibv_mtu */
    uint32_t log_reads_in, log_reads; /* reads and atomics answered at once, and under way; log2 */
    uint32_t timeout, retry, rnr_retry, rnr_timer; /* as in ibv_qp_attr */
    bool remote_read, remote_write, remote_atomic;
    bool ethernet;
    bool is_global;
    uint16_t lid; /* InfiniBand */
    uint8_t gid_index, hop_limit;
    uint8_t gid[16];   /* the peer's, if is_global */
    uint8_t mac[6];    /* Ethernet */
    uint16_t udp_port; /* RoCE v2: that packets seem to come from; 0 otherwise */
} pgasi_prm_path_t;

/** The three changes of state, in order; the first can be made before the peer is known. */
void pgasi_prm_to_init(unsigned char in[PGASI_PRM_MODIFY_QP_BYTES], const pgasi_prm_path_t *path);
void pgasi_prm_to_receive(unsigned char in[PGASI_PRM_MODIFY_QP_BYTES],
                          const pgasi_prm_path_t *path);
void pgasi_prm_to_send(unsigned char in[PGASI_PRM_MODIFY_QP_BYTES], const pgasi_prm_path_t *path);

#endif
