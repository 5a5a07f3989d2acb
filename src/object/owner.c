/* The owner of memory serves peers. It describes its segments. It carries out puts, gets and
 * atomics on attached memory, which peers of the same node cannot map, and atomics that the
 * transport does not have. Large transfers are split into pieces of one call each. */
#include <string.h>

#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "msg/dispatch.h"
#include "object/owner.h"
#include "call/sync.h"
#include "mem/rma.h"

typedef struct {
    uint64_t offset, bytes, operand, compare;
    uint16_t kind, op;
    uint32_t type;
} request_t;

typedef struct {
    int64_t status;
    uint64_t pad;
} answer_t;

#define PIECE_MAX 4096

/* ---- keys ---- */

static void on_segment(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    struct {
        int64_t status;
        pgasi_segment_wire_t wire;
    } a;
    memset(&a, 0, sizeof a);
    uint64_t offset = 0;
    if (bytes == sizeof offset)
        memcpy(&offset, args, sizeof offset);
    a.status = pgasi_segment_describe(offset, &a.wire);
    pgasi_reply(&a, sizeof a);
}

static pgas_status_t ask_segment(int rank, uint64_t offset, pgasi_segment_wire_t *wire_p)
{
    struct {
        int64_t status;
        pgasi_segment_wire_t wire;
    } a;
    pgas_status_t status =
        pgasi_ask(rank, PGASI_DESC_SEGMENT, &offset, sizeof offset, &a, sizeof a);
    if (status == PGAS_OK)
        status = (pgas_status_t)a.status;
    if (status == PGAS_OK)
        *wire_p = a.wire;
    return status;
}

/* ---- operations ---- */

static bool is_sane(const request_t *r, size_t data_bytes)
{
    if (r->bytes > PIECE_MAX)
        return false;
    switch (r->kind) {
    case PGASI_RMA_PUT:
        return data_bytes == r->bytes;
    case PGASI_RMA_GET:
        return data_bytes == 0;
    case PGASI_RMA_ATOMIC:
        return data_bytes == 0 && pgasi_atomic_check(r->op, (pgas_type_t)r->type) == PGAS_OK &&
               r->bytes == pgasi_atomic_bytes((pgas_type_t)r->type) && r->offset % r->bytes == 0;
    default:
        return false;
    }
}

static void on_rma(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    request_t r;
    struct {
        answer_t head;
        _Alignas(8) char data[PIECE_MAX];
    } a;
    a.head = (answer_t){ PGAS_ERR_RANGE, 0 };
    memset(&r, 0, sizeof r);
    if (bytes >= sizeof r)
        memcpy(&r, args, sizeof r);
    char *address = NULL;
    if (bytes >= sizeof r && is_sane(&r, bytes - sizeof r))
        address = pgasi_segment_address(r.offset, r.bytes);
    size_t reply_bytes =
        sizeof a.head + (r.kind == PGASI_RMA_PUT ? 0 : PGASI_MIN(r.bytes, (uint64_t)PIECE_MAX));
    if (address) {
        void *buffer =
            r.kind == PGASI_RMA_PUT ? (void *)(uintptr_t)((const char *)args + sizeof r) : a.data;
        pgasi_rma_t rma = { .kind = (pgasi_rma_kind_t)r.kind,
                            .buffer = buffer,
                            .bytes = r.bytes,
                            .op = r.op,
                            .type = (pgas_type_t)r.type,
                            .operand = r.operand,
                            .compare = r.compare };
        if (r.kind == PGASI_RMA_ATOMIC && (uintptr_t)address % r.bytes) {
            a.head.status = PGAS_ERR_INVALID;
        } else {
            pgasi_rma_apply(&rma, address);
            a.head.status = PGAS_OK;
        }
    }
    pgasi_reply(&a, reply_bytes);
}

static pgas_status_t one_piece(const pgasi_rma_t *rma, size_t done, size_t piece)
{
    struct {
        request_t r;
        char data[PIECE_MAX];
    } q;
    struct {
        answer_t head;
        char data[PIECE_MAX];
    } a;
    q.r = (request_t){ .offset = pgas_gptr_offset(rma->ptr) + done,
                       .bytes = piece,
                       .operand = rma->operand,
                       .compare = rma->compare,
                       .kind = (uint16_t)rma->kind,
                       .op = (uint16_t)rma->op,
                       .type = (uint32_t)rma->type };
    bool put = rma->kind == PGASI_RMA_PUT;
    if (put)
        memcpy(q.data, (const char *)rma->buffer + done, piece);
    pgas_status_t status =
        pgasi_ask(pgas_gptr_rank(rma->ptr), PGASI_DESC_RMA, &q, sizeof q.r + (put ? piece : 0), &a,
                  sizeof a.head + (put ? 0 : piece));
    if (status == PGAS_OK)
        status = (pgas_status_t)a.head.status;
    if (status == PGAS_OK && !put && rma->buffer)
        memcpy((char *)rma->buffer + done, a.data, piece);
    return status;
}

static pgas_status_t by_service(const pgasi_rma_t *rma)
{
    size_t piece_max = PGASI_MIN((size_t)PIECE_MAX, pgasi_param.call_max - sizeof(request_t));
    pgas_status_t status = PGAS_OK;
    for (size_t done = 0; done < rma->bytes && status == PGAS_OK; done += piece_max)
        status = one_piece(rma, done, PGASI_MIN(rma->bytes - done, piece_max));
    return status;
}

void pgasi_owner_start(void)
{
    pgasi_handler_set_internal(PGASI_DESC_SEGMENT, on_segment);
    pgasi_handler_set_internal(PGASI_DESC_RMA, on_rma);
    pgasi_hooks.segment_ask = ask_segment;
    pgasi_hooks.rma_by_owner = by_service;
}
