/** Bytes of mlx5 work queues: encoders and decoders without side effects. Queues that the library
 *  writes itself use them, and so does the engine that reads such queues.
 *
 *  A work queue entry is a run of 16-byte segments. A control segment is followed, depending on the
 *  opcode, by a remote address, atomic operands, WAIT or ENABLE, and by data pointers or inline
 *  data. A send queue is a ring of 64-byte blocks (BB); its length is a power of two. An entry
 *  begins on a block, takes ceil(segments / 4) blocks and may wrap. All fields are big-endian.
 *  Positions count blocks, with 16 bits in the entry, independent of the ring's length. Receive
 *  entries are lists of data pointers. A completion has 64 bytes; the last byte says which side
 *  owns it. The layout is that of rdma-core's mlx5dv.h where it has one. WAIT, SEND_EN and RECV_EN
 *  are those of DPDK and DOCA.
 *
 *  No function accesses memory outside of its arguments. Decoders report whether their input is
 *  valid. */
#ifndef PGASI_VERBS_WQE_H
#define PGASI_VERBS_WQE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PGASI_WQE_BB           64
#define PGASI_WQE_SEGMENT      16
#define PGASI_WQE_SEGMENTS_MAX 63u    /* 6 bits */
#define PGASI_WQE_LKEY_END     0x100u /* ends a receive list; no memory ever has this key */
#define PGASI_WQE_INLINE       0x80000000u

typedef enum {
    PGASI_WQE_NOP = 0x00,
    PGASI_WQE_WRITE = 0x08,
    PGASI_WQE_WRITE_IMM = 0x09,
    PGASI_WQE_SEND = 0x0a,
    PGASI_WQE_SEND_IMM = 0x0b,
    PGASI_WQE_WAIT = 0x0f,
    PGASI_WQE_READ = 0x10,
    PGASI_WQE_CSWAP = 0x11,
    PGASI_WQE_FADD = 0x12,
    PGASI_WQE_RECV_EN = 0x16,
    PGASI_WQE_SEND_EN = 0x17
} pgasi_wqe_op_t;

/* the eleventh byte of the control segment */
#define PGASI_WQE_SOLICITED 0x02u
/* two bits: 0 completion on error only, 1 on the first error, 2 always */
#define PGASI_WQE_SIGNAL      0x08u
#define PGASI_WQE_SIGNAL_MASK 0x0cu
#define PGASI_WQE_FENCE_MASK  0xe0u
#define PGASI_WQE_FENCE_SMALL 0x20u /* waits for reads and atomics of this queue */
#define PGASI_WQE_FENCE       0x80u /* the same, as IBV_SEND_FENCE */

typedef struct {
    uint32_t opmod_index_op;
    uint32_t qpn_ds;
    uint8_t signature;
    uint8_t reserved[2];
    uint8_t flags;
    uint32_t imm;
} pgasi_wqe_ctrl_t;

typedef struct {
    uint64_t addr;
    uint32_t rkey;
    uint32_t reserved;
} pgasi_wqe_raddr_t;

typedef struct {
    uint64_t swap_or_add;
    uint64_t compare;
} pgasi_wqe_atomic_t;

typedef struct {
    uint32_t bytes; /* 31 bits, 0 means 2 GiB */
    uint32_t lkey;
    uint64_t addr;
} pgasi_wqe_data_t;

typedef struct {
    uint64_t reserved;
    /* WAIT: the awaited completion, from 0, 24 bits. SEND_EN: blocks, RECV_EN: entries, exclusive,
     * 16 bits */
    uint32_t index;
    uint32_t number; /* number of the completion queue, or of the queue pair */
} pgasi_wqe_enable_t;

typedef struct {
    uint8_t reserved0[32];
    uint32_t srqn_uidx;
    uint32_t imm;
    uint8_t reserved1[4];
    uint32_t bytes;
    uint8_t reserved2[6];
    uint8_t vendor; /* of an error */
    uint8_t syndrome;
    uint32_t op_qpn;
    uint16_t counter; /* the entry's first block; receive queue: its entry */
    uint8_t signature;
    uint8_t op_own;
} pgasi_cqe_t;

/* opcodes of completions, the upper half of op_own */
typedef enum {
    PGASI_CQE_REQ = 0,
    PGASI_CQE_RESP_WRITE_IMM = 1,
    PGASI_CQE_RESP_SEND = 2,
    PGASI_CQE_RESP_SEND_IMM = 3,
    PGASI_CQE_REQ_ERR = 13,
    PGASI_CQE_RESP_ERR = 14,
    PGASI_CQE_INVALID = 15
} pgasi_cqe_op_t;

/* syndromes of error completions */
typedef enum {
    PGASI_CQE_OK = 0x00,
    PGASI_CQE_LOCAL_LENGTH = 0x01,
    PGASI_CQE_LOCAL_QP_OP = 0x02,
    PGASI_CQE_LOCAL_PROT = 0x04,
    PGASI_CQE_FLUSHED = 0x05,
    PGASI_CQE_MW_BIND = 0x06,
    PGASI_CQE_BAD_RESP = 0x10,
    PGASI_CQE_LOCAL_ACCESS = 0x11,
    PGASI_CQE_REMOTE_INVALID = 0x12,
    PGASI_CQE_REMOTE_ACCESS = 0x13,
    PGASI_CQE_REMOTE_OP = 0x14,
    PGASI_CQE_RETRY = 0x15,
    PGASI_CQE_RNR_RETRY = 0x16,
    PGASI_CQE_REMOTE_ABORTED = 0x22
} pgasi_cqe_syndrome_t;

/* ---- writing, a segment at a time ---- */

static inline void pgasi_wqe_set_ctrl(pgasi_wqe_ctrl_t *ctrl, uint32_t block, pgasi_wqe_op_t op,
                                      uint32_t qpn, unsigned segments, unsigned flags, uint32_t imm)
{
    ctrl->opmod_index_op = htobe32((block & 0xffffu) << 8 | (uint32_t)op);
    ctrl->qpn_ds = htobe32(qpn << 8 | segments);
    ctrl->signature = 0;
    ctrl->reserved[0] = ctrl->reserved[1] = 0;
    ctrl->flags = (uint8_t)flags;
    ctrl->imm = htobe32(imm);
}

static inline void pgasi_wqe_set_raddr(pgasi_wqe_raddr_t *raddr, uint64_t addr, uint32_t rkey)
{
    raddr->addr = htobe64(addr);
    raddr->rkey = htobe32(rkey);
    raddr->reserved = 0;
}

static inline void pgasi_wqe_set_atomic(pgasi_wqe_atomic_t *atomic, uint64_t swap_or_add,
                                        uint64_t compare)
{
    atomic->swap_or_add = htobe64(swap_or_add);
    atomic->compare = htobe64(compare);
}

/** bytes is up to 2 GiB and not 0; leave out a segment of 0 bytes. */
static inline void pgasi_wqe_set_data(pgasi_wqe_data_t *data, uint64_t addr, uint32_t bytes,
                                      uint32_t lkey)
{
    data->bytes = htobe32(bytes & ~PGASI_WQE_INLINE);
    data->lkey = htobe32(lkey);
    data->addr = htobe64(addr);
}

static inline void pgasi_wqe_set_enable(pgasi_wqe_enable_t *enable, uint32_t index, uint32_t number)
{
    enable->reserved = 0;
    enable->index = htobe32(index);
    enable->number = htobe32(number);
}

/** Segments that inline data of this size takes, with its four bytes of length. */
static inline unsigned pgasi_wqe_inline_segments(size_t bytes)
{
    return (unsigned)((bytes + 4 + PGASI_WQE_SEGMENT - 1) / PGASI_WQE_SEGMENT);
}

/** Blocks that an entry of so many segments takes. */
static inline unsigned pgasi_wqe_blocks(unsigned segments)
{
    return (segments + 3) / 4;
}

/** Copies into or out of a ring of blocks, from a byte position on, around its end.
 *  @param ring_bytes  a power of two */
void pgasi_wqe_copy_in(unsigned char *ring, size_t ring_bytes, size_t at, const void *from,
                       size_t bytes);
void pgasi_wqe_copy_out(const unsigned char *ring, size_t ring_bytes, size_t at, void *to,
                        size_t bytes);

/* ---- reading ---- */

/** An entry of a send queue, in the host's byte order. */
typedef struct {
    uint8_t op; /* pgasi_wqe_op_t; other values: an unknown entry */
    uint8_t opmod;
    uint8_t flags;
    uint8_t segments;
    uint32_t qpn;
    uint32_t imm;
    uint64_t remote_addr;
    uint32_t rkey;
    uint64_t operand, compare;
    uint32_t index, number; /* WAIT, SEND_EN, RECV_EN */
    bool is_inline;
    /* they begin inline_at bytes behind the start of the entry, and may wrap */
    uint32_t inline_bytes;
    uint32_t inline_at;
    /* data segments; the first one is data_at segments behind the start of the entry */
    unsigned n_data;
    unsigned data_at;
} pgasi_wqe_t;

/** Decodes the entry that begins at a block. The data segments stay in the ring: pgasi_wqe_data
 *  reads one.
 *  @param ring_bytes  a power of two, at least a block
 *  @return false: the length is invalid for the opcode, or longer than the ring. op, flags and
 *           segments are valid even then (segments 0: the length itself is invalid). */
bool pgasi_wqe_decode(const unsigned char *ring, size_t ring_bytes, uint32_t block,
                      pgasi_wqe_t *wqe_p);

/** The k-th data segment of a decoded entry. bytes is up to 2^31. */
typedef struct {
    uint64_t addr;
    uint32_t bytes;
    uint32_t lkey;
} pgasi_wqe_span_t;
pgasi_wqe_span_t pgasi_wqe_data(const unsigned char *ring, size_t ring_bytes, uint32_t block,
                                const pgasi_wqe_t *wqe, unsigned k);

/** Reads one data segment. */
static inline pgasi_wqe_span_t pgasi_wqe_read_data(const void *at)
{
    pgasi_wqe_data_t data;
    memcpy(&data, at, sizeof data);
    uint32_t bytes = be32toh(data.bytes) & ~PGASI_WQE_INLINE;
    pgasi_wqe_span_t span = { be64toh(data.addr), bytes ? bytes : PGASI_WQE_INLINE,
                              be32toh(data.lkey) };
    return span;
}

/** A completion, in the host's byte order. */
typedef struct {
    uint8_t op; /* pgasi_cqe_op_t */
    uint8_t wqe_op;
    bool solicited;
    uint8_t syndrome, vendor;
    uint16_t counter;
    uint32_t qpn, srqn, bytes, imm;
} pgasi_cqe_fields_t;

/** Writes all of a completion but its last byte: the caller stores op_own last, with release order,
 *  by pgasi_cqe_own. */
void pgasi_cqe_encode(pgasi_cqe_t *cqe, const pgasi_cqe_fields_t *fields);
static inline uint8_t pgasi_cqe_own(const pgasi_cqe_fields_t *fields, bool owner)
{
    return (uint8_t)(fields->op << 4 | (fields->solicited ? 2 : 0) | (owner ? 1 : 0));
}

/** Whether the entry at position ci of a ring of n_entries holds the completion of this phase;
 *  acquire order. */
static inline bool pgasi_cqe_is_there(const pgasi_cqe_t *cqe, uint32_t ci, uint32_t n_entries)
{
    uint8_t own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);
    return own >> 4 != PGASI_CQE_INVALID && (own & 1) == ((ci & n_entries) != 0);
}

/** @return false: the opcode is unknown */
bool pgasi_cqe_decode(const pgasi_cqe_t *cqe, pgasi_cqe_fields_t *fields_p);

#endif
