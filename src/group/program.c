/* Programs of group operations. A client builds them, one entry and one data segment for each
 * replica, some hundred bytes a piece; nothing here allocates or waits. */
#include "group/program.h"

#include <string.h>
#include "base/checks.h"
#include "verbs_backend/wqe.h"

#define WORD 8u

PGASI_STATIC_ASSERT(sizeof(pgasi_group_piece_t) == 64 && sizeof(pgasi_group_member_t) == 56,
                    "they travel in messages");
PGASI_STATIC_ASSERT(PGASI_GROUP_ENTRY_BYTES == PGASI_WQE_BB &&
                        PGASI_GROUP_SEGMENT_BYTES == PGASI_WQE_SEGMENT,
                    "a program is an entry of one block and a data segment");

/* ---- layout ---- */

/* Bytes in front of the old words: in the message to replica i, and in its staging slot. */
static uint32_t head_bytes(bool chain, uint32_t n, uint32_t i)
{
    return chain ? (n - i) * PGASI_GROUP_PROGRAM_BYTES : (uint32_t)sizeof(pgasi_group_piece_t);
}

uint32_t pgasi_group_old_at(bool chain, uint32_t n, uint32_t i)
{
    return head_bytes(chain, n, chain ? i + 1 : i);
}

uint32_t pgasi_group_data_at(bool chain, uint32_t n, uint32_t i)
{
    return pgasi_group_old_at(chain, n, i) + n * WORD;
}

uint32_t pgasi_group_message_bytes(bool chain, uint32_t n, uint32_t i, uint32_t data_bytes)
{
    return i == n ? n * WORD : head_bytes(chain, n, i) + n * WORD + data_bytes;
}

pgasi_group_layout_t pgasi_group_layout(bool chain, uint32_t n, uint32_t piece_bytes)
{
    uint32_t head = head_bytes(chain, n, 0), data_at = head + n * WORD;
    return (pgasi_group_layout_t){ .n = n,
                                   .head_bytes = head,
                                   .old_at = head,
                                   .data_at = data_at,
                                   .room = (uint32_t)PGASI_ALIGN_UP(data_at + piece_bytes, 64u) };
}

/* ---- programs ---- */

/* An entry under construction: segments follow each other. */
typedef struct {
    unsigned char *entry;
    unsigned n_segments;
} entry_t;

static void *segment(entry_t *e)
{
    return e->entry + PGASI_WQE_SEGMENT * e->n_segments++;
}

static void add_remote(entry_t *e, uint64_t addr, uint32_t rkey)
{
    pgasi_wqe_set_raddr(segment(e), addr, rkey);
}

static void add_data(entry_t *e, uint64_t addr, uint32_t bytes, uint32_t lkey)
{
    pgasi_wqe_set_data(segment(e), addr, bytes, lkey);
}

static void add_compare_and_swap(entry_t *e, const pgasi_group_piece_t *piece)
{
    pgasi_wqe_set_atomic(segment(e), piece->desired, piece->source);
}

/* The segments behind the control segment. `slot` is the staging slot of replica i.
 * @return the opcode */
static pgasi_wqe_op_t add_operation(entry_t *e, const pgasi_group_piece_t *piece,
                                    const pgasi_group_member_t *m, uint32_t n, uint32_t i,
                                    uint64_t slot)
{
    if ((piece->skip_map >> i & 1) || piece->bytes == 0)
        return PGASI_WQE_NOP;
    bool swaps = piece->kind == PGAS_GROUP_CAS && (piece->execute_map >> i & 1);
    add_remote(e, m->region + piece->offset, m->region_rkey);
    switch ((pgas_group_kind_t)piece->kind) {
    case PGAS_GROUP_WRITE:
        add_data(e, slot + pgasi_group_data_at(true, n, i), piece->bytes, m->staging_lkey);
        return PGASI_WQE_WRITE;
    case PGAS_GROUP_MEMCPY:
        add_data(e, m->region + piece->source, piece->bytes, m->region_lkey);
        return PGASI_WQE_WRITE;
    case PGAS_GROUP_CAS:
        if (swaps)
            add_compare_and_swap(e, piece);
        add_data(e, slot + pgasi_group_old_at(true, n, i) + i * WORD, WORD, m->staging_lkey);
        return swaps ? PGASI_WQE_CSWAP : PGASI_WQE_READ;
    case PGAS_GROUP_FLUSH:
    default:
        add_data(e, slot + pgasi_group_data_at(true, n, i), piece->bytes, m->staging_lkey);
        return PGASI_WQE_READ;
    }
}

void pgasi_group_programs(const pgasi_group_piece_t *piece, const pgasi_group_member_t *members,
                          uint32_t n, void *programs)
{
    unsigned char *at = programs;
    uint32_t data_bytes = piece->kind == PGAS_GROUP_WRITE ? piece->bytes : 0;
    for (uint32_t i = 0; i < n; i++, at += PGASI_GROUP_PROGRAM_BYTES) {
        const pgasi_group_member_t *m = &members[i];
        uint64_t slot = m->staging + (piece->number & (m->slots - 1)) * m->staging_stride;
        entry_t e = { at, 1 };
        memset(at, 0, PGASI_GROUP_ENTRY_BYTES);
        pgasi_wqe_op_t op = add_operation(&e, piece, m, n, i, slot);
        pgasi_wqe_set_ctrl((pgasi_wqe_ctrl_t *)(void *)at, m->loop_first + (uint32_t)piece->number,
                           op, m->loop_qpn, e.n_segments, PGASI_WQE_SIGNAL, 0);
        pgasi_wqe_set_data((pgasi_wqe_data_t *)(void *)(at + PGASI_GROUP_ENTRY_BYTES), slot,
                           pgasi_group_message_bytes(true, n, i + 1, data_bytes), m->staging_lkey);
    }
}

/* ---- execution by a CPU ---- */

static bool is_inside(uint64_t offset, uint64_t bytes, uint64_t region_bytes)
{
    return offset <= region_bytes && bytes <= region_bytes - offset;
}

static bool overlap(uint64_t a, uint64_t b, uint64_t bytes)
{
    return (a > b ? a - b : b - a) < bytes;
}

/* The piece came from a network: nothing in it is taken for granted. */
static bool is_right(const pgasi_group_piece_t *piece, uint64_t region_bytes)
{
    if (!is_inside(piece->offset, piece->bytes, region_bytes))
        return false;
    switch (piece->kind) {
    case PGAS_GROUP_WRITE:
    case PGAS_GROUP_FLUSH:
        return true;
    case PGAS_GROUP_MEMCPY:
        return is_inside(piece->source, piece->bytes, region_bytes) &&
               !overlap(piece->source, piece->offset, piece->bytes);
    case PGAS_GROUP_CAS:
        return piece->bytes == WORD && piece->offset % WORD == 0;
    default:
        return false;
    }
}

static void compare_and_swap(const pgasi_group_piece_t *piece, bool swaps, uint64_t *word,
                             uint64_t *old)
{
    uint64_t found = piece->source;
    if (swaps)
        __atomic_compare_exchange_n(word, &found, piece->desired, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE);
    else
        found = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    *old = found;
}

pgas_status_t pgasi_group_execute(const pgasi_group_piece_t *piece, uint32_t i, void *region,
                                  uint64_t region_bytes, uint64_t *old, const void *data)
{
    if (i >= PGAS_GROUP_REPLICAS_MAX || !is_right(piece, region_bytes))
        return PGAS_ERR_RANGE;
    if (piece->skip_map >> i & 1)
        return PGAS_OK;
    unsigned char *at = (unsigned char *)region + piece->offset;
    switch ((pgas_group_kind_t)piece->kind) {
    case PGAS_GROUP_WRITE:
        memcpy(at, data, piece->bytes);
        break;
    case PGAS_GROUP_MEMCPY:
        memcpy(at, (unsigned char *)region + piece->source, piece->bytes);
        break;
    case PGAS_GROUP_CAS:
        compare_and_swap(piece, piece->execute_map >> i & 1, (uint64_t *)(void *)at, &old[i]);
        break;
    case PGAS_GROUP_FLUSH:
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        break;
    }
    return PGAS_OK;
}

/* ---- operations ---- */

static pgas_status_t check_cas(const pgas_group_op_t *op, uint64_t region_bytes, uint32_t n)
{
    uint64_t all = n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
    if (op->offset % WORD != 0 || (op->u.cas.execute_map & all) == 0)
        return PGAS_ERR_INVALID;
    return is_inside(op->offset, WORD, region_bytes) ? PGAS_OK : PGAS_ERR_RANGE;
}

pgas_status_t pgasi_group_check(const pgas_group_op_t *op, uint64_t region_bytes, uint32_t n)
{
    bool inside = is_inside(op->offset, op->bytes, region_bytes);
    switch (op->kind) {
    case PGAS_GROUP_WRITE:
        if (op->u.data == NULL && op->bytes > 0)
            return PGAS_ERR_INVALID;
        break;
    case PGAS_GROUP_MEMCPY:
        inside = inside && is_inside(op->u.source, op->bytes, region_bytes);
        if (inside && overlap(op->offset, op->u.source, op->bytes))
            return PGAS_ERR_INVALID;
        break;
    case PGAS_GROUP_CAS:
        return check_cas(op, region_bytes, n);
    case PGAS_GROUP_FLUSH:
        break;
    default:
        return PGAS_ERR_INVALID;
    }
    return inside ? PGAS_OK : PGAS_ERR_RANGE;
}

uint64_t pgasi_group_cut(const pgas_group_op_t *op, uint64_t done, uint32_t piece_bytes,
                         pgasi_group_piece_t *piece_p)
{
    uint64_t bytes = op->kind == PGAS_GROUP_CAS ? WORD : PGASI_MIN(op->bytes - done, piece_bytes);
    *piece_p = (pgasi_group_piece_t){ .offset = op->offset + done,
                                      .bytes = (uint32_t)bytes,
                                      .kind = (uint32_t)op->kind };
    if (op->kind == PGAS_GROUP_MEMCPY)
        piece_p->source = op->u.source + done;
    if (op->kind == PGAS_GROUP_CAS) {
        piece_p->source = op->u.cas.expected;
        piece_p->desired = op->u.cas.desired;
        piece_p->execute_map = op->u.cas.execute_map;
    }
    return bytes;
}
