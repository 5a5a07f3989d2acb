/* Work queue bytes: copies of entries that wrap, and decoders that do not trust their input. */
#include "verbs_backend/wqe.h"

#include "base/checks.h"

PGASI_STATIC_ASSERT(sizeof(pgasi_wqe_ctrl_t) == 16 && sizeof(pgasi_wqe_raddr_t) == 16 &&
                        sizeof(pgasi_wqe_atomic_t) == 16 && sizeof(pgasi_wqe_data_t) == 16 &&
                        sizeof(pgasi_wqe_enable_t) == 16,
                    "segments are 16 bytes");
PGASI_STATIC_ASSERT(sizeof(pgasi_cqe_t) == 64 && offsetof(pgasi_cqe_t, imm) == 36 &&
                        offsetof(pgasi_cqe_t, bytes) == 44 && offsetof(pgasi_cqe_t, vendor) == 54 &&
                        offsetof(pgasi_cqe_t, op_qpn) == 56 &&
                        offsetof(pgasi_cqe_t, counter) == 60 && offsetof(pgasi_cqe_t, op_own) == 63,
                    "a completion's fields lie where mlx5 has them");

void pgasi_wqe_copy_in(unsigned char *ring, size_t ring_bytes, size_t at, const void *from,
                       size_t bytes)
{
    at &= ring_bytes - 1;
    size_t first = PGASI_MIN(bytes, ring_bytes - at);
    memcpy(ring + at, from, first);
    if (first < bytes)
        memcpy(ring, (const char *)from + first, bytes - first);
}

void pgasi_wqe_copy_out(const unsigned char *ring, size_t ring_bytes, size_t at, void *to,
                        size_t bytes)
{
    at &= ring_bytes - 1;
    size_t first = PGASI_MIN(bytes, ring_bytes - at);
    memcpy(to, ring + at, first);
    if (first < bytes)
        memcpy((char *)to + first, ring, bytes - first);
}

/* A segment never wraps, because rings are multiples of blocks, and blocks of segments. */
static const unsigned char *segment(const unsigned char *ring, size_t ring_bytes, uint32_t block,
                                    unsigned k)
{
    return ring +
           (((size_t)block * PGASI_WQE_BB + (size_t)k * PGASI_WQE_SEGMENT) & (ring_bytes - 1));
}

/* Decodes the segments behind the fixed part: inline data alone, or data pointers. */
static bool decode_payload(const unsigned char *ring, size_t ring_bytes, uint32_t block,
                           pgasi_wqe_t *wqe, unsigned at)
{
    if (at == wqe->segments)
        return true;
    uint32_t word;
    memcpy(&word, segment(ring, ring_bytes, block, at), sizeof word);
    word = be32toh(word);
    if (!(word & PGASI_WQE_INLINE)) {
        wqe->data_at = at;
        wqe->n_data = wqe->segments - at;
        return true;
    }
    wqe->is_inline = true;
    wqe->inline_bytes = word & ~PGASI_WQE_INLINE;
    wqe->inline_at = at * PGASI_WQE_SEGMENT + 4;
    return wqe->inline_bytes <= (wqe->segments - at) * PGASI_WQE_SEGMENT - 4;
}

static bool decode_body(const unsigned char *ring, size_t ring_bytes, uint32_t block,
                        pgasi_wqe_t *wqe)
{
    pgasi_wqe_raddr_t raddr;
    pgasi_wqe_atomic_t atomic;
    pgasi_wqe_enable_t enable;
    switch (wqe->op) {
    case PGASI_WQE_NOP:
        return true;
    case PGASI_WQE_SEND:
    case PGASI_WQE_SEND_IMM:
        return decode_payload(ring, ring_bytes, block, wqe, 1);
    case PGASI_WQE_WRITE:
    case PGASI_WQE_WRITE_IMM:
    case PGASI_WQE_READ:
    case PGASI_WQE_CSWAP:
    case PGASI_WQE_FADD:
        break;
    case PGASI_WQE_WAIT:
    case PGASI_WQE_SEND_EN:
    case PGASI_WQE_RECV_EN:
        if (wqe->segments != 2)
            return false;
        memcpy(&enable, segment(ring, ring_bytes, block, 1), sizeof enable);
        wqe->index = be32toh(enable.index);
        wqe->number = be32toh(enable.number) & 0xffffffu;
        return true;
    default:
        return false;
    }
    if (wqe->segments < 2)
        return false;
    memcpy(&raddr, segment(ring, ring_bytes, block, 1), sizeof raddr);
    wqe->remote_addr = be64toh(raddr.addr);
    wqe->rkey = be32toh(raddr.rkey);
    if (wqe->op != PGASI_WQE_CSWAP && wqe->op != PGASI_WQE_FADD)
        return decode_payload(ring, ring_bytes, block, wqe, 2) &&
               !(wqe->op == PGASI_WQE_READ && wqe->is_inline);
    if (wqe->segments != 4)
        return false;
    memcpy(&atomic, segment(ring, ring_bytes, block, 2), sizeof atomic);
    wqe->operand = be64toh(atomic.swap_or_add);
    wqe->compare = be64toh(atomic.compare);
    return decode_payload(ring, ring_bytes, block, wqe, 3) && !wqe->is_inline;
}

bool pgasi_wqe_decode(const unsigned char *ring, size_t ring_bytes, uint32_t block,
                      pgasi_wqe_t *wqe_p)
{
    pgasi_wqe_ctrl_t ctrl;
    memcpy(&ctrl, segment(ring, ring_bytes, block, 0), sizeof ctrl);
    uint32_t first = be32toh(ctrl.opmod_index_op), second = be32toh(ctrl.qpn_ds);
    *wqe_p = (pgasi_wqe_t){ .op = (uint8_t)first,
                            .opmod = (uint8_t)(first >> 24),
                            .flags = ctrl.flags,
                            .segments = second & PGASI_WQE_SEGMENTS_MAX,
                            .qpn = second >> 8,
                            .imm = be32toh(ctrl.imm) };
    if (wqe_p->segments == 0 || wqe_p->segments * (size_t)PGASI_WQE_SEGMENT > ring_bytes) {
        wqe_p->segments = 0;
        return false;
    }
    return decode_body(ring, ring_bytes, block, wqe_p);
}

pgasi_wqe_span_t pgasi_wqe_data(const unsigned char *ring, size_t ring_bytes, uint32_t block,
                                const pgasi_wqe_t *wqe, unsigned k)
{
    return pgasi_wqe_read_data(segment(ring, ring_bytes, block, wqe->data_at + k));
}

void pgasi_cqe_encode(pgasi_cqe_t *cqe, const pgasi_cqe_fields_t *fields)
{
    cqe->srqn_uidx = htobe32(fields->srqn);
    cqe->imm = htobe32(fields->imm);
    cqe->bytes = htobe32(fields->bytes);
    cqe->vendor = fields->vendor;
    cqe->syndrome = fields->syndrome;
    cqe->op_qpn = htobe32((uint32_t)fields->wqe_op << 24 | (fields->qpn & 0xffffffu));
    cqe->counter = htobe16(fields->counter);
    cqe->signature = 0;
}

bool pgasi_cqe_decode(const pgasi_cqe_t *cqe, pgasi_cqe_fields_t *fields_p)
{
    uint32_t op_qpn = be32toh(cqe->op_qpn);
    uint8_t own = cqe->op_own;
    *fields_p = (pgasi_cqe_fields_t){ .op = (uint8_t)(own >> 4),
                                      .wqe_op = (uint8_t)(op_qpn >> 24),
                                      .solicited = (own & 2) != 0,
                                      .syndrome = cqe->syndrome,
                                      .vendor = cqe->vendor,
                                      .counter = be16toh(cqe->counter),
                                      .qpn = op_qpn & 0xffffffu,
                                      .srqn = be32toh(cqe->srqn_uidx) & 0xffffffu,
                                      .bytes = be32toh(cqe->bytes),
                                      .imm = be32toh(cqe->imm) };
    return fields_p->op <= PGASI_CQE_RESP_SEND_IMM || fields_p->op == PGASI_CQE_REQ_ERR ||
           fields_p->op == PGASI_CQE_RESP_ERR;
}
