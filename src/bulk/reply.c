/* Replies larger than PGAS_CALL_MAX.
 *
 * The call that requests a reply is a bulk message, which contains the address for the reply. On
 * the node the reply is written there, and a short descriptor reports it. On another node, if the
 * address is in a segment, the reply is put from a copy, flushed, and reported. Otherwise it
 * travels in pieces. Handlers put through context 0. The steps of their puts happen under the
 * receive lock, in rounds of progress, never in the transport's callback. A handler that may wait
 * puts by pgas_put. */
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/param.h"
#include "boot/boot.h"
#include "bulk/bulk.h"
#include "call/call.h"
#include "call/sync.h"
#include "call/token.h"
#include "mem/ctx.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "msg/descriptor.h"
#include "msg/send_queue.h"
#include "msg/serve.h"
#include "pgas/rma.h"

typedef enum { TO_PUT, TO_FLUSH, TO_REPORT, FAILED } step_t;

/* A reply that is being put. */
typedef struct push {
    pgasi_tp_comp_t comp;
    struct push *next;
    step_t step;
    bool waits, dropped; /* for the callback; the calling rank is dead */
    int rank;
    uint32_t token;
    pgasi_tp_key_t *key;
    uint64_t address, bytes;
    char data[];
} push_t;

static push_t *pushes;

/* ---- pieces ---- */

static pgas_status_t report_end(int rank, uint32_t token, uint64_t bytes)
{
    pgasi_desc_reply_piece_t piece = { bytes, token, 0 };
    return pgasi_sendq_answer(rank, PGASI_DESC_REPLY_PIECE, &piece, sizeof piece, NULL, 0);
}

static pgas_status_t send_pieces(int rank, uint32_t token, const char *data, uint64_t bytes)
{
    size_t piece_max = pgasi_bulk_piece_max(rank);
    pgasi_desc_reply_piece_t piece = { 0, token, 0 };
    pgas_status_t status = PGAS_OK;
    for (; piece.offset < bytes && status == PGAS_OK; piece.offset += piece_max)
        status =
            pgasi_sendq_answer(rank, PGASI_DESC_REPLY_PIECE, &piece, sizeof piece,
                               data + piece.offset, PGASI_MIN(bytes - piece.offset, piece_max));
    return status;
}

/* ---- puts ---- */

static void step_done(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    push_t *p = PGASI_CONTAINER_OF(comp, push_t, comp);
    pgasi_ctx_count(pgasi_ctxs[PGASI_CTX_SERVICE], -1);
    p->step = status == PGAS_OK ? p->step + 1 : FAILED;
    p->waits = false;
    pgasi_bulk_want_poll();
}

/* Takes steps while they complete at once. True: the transport had no room. */
static bool take_steps(push_t *p)
{
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    while (!p->waits && !p->dropped && p->step < TO_REPORT) {
        p->waits = true; /* the callback runs in a later round of progress */
        pgas_status_t status = p->step == TO_PUT
                                   ? ctx->tp->ops->put(ctx->tp, p->rank, p->key, p->address,
                                                       p->data, p->bytes, &p->comp)
                                   : ctx->tp->ops->flush(ctx->tp, p->rank, &p->comp);
        if (status == PGAS_INPROGRESS) {
            pgasi_ctx_count(ctx, 1);
            break;
        }
        p->waits = false;
        if (status == PGAS_ERR_AGAIN)
            return true;
        p->step = status == PGAS_OK ? p->step + 1 : FAILED;
    }
    return false;
}

static void end_push(push_t *p)
{
    if (!p->dropped && p->step == TO_REPORT)
        report_end(p->rank, p->token, p->bytes);
    else if (!p->dropped)
        send_pieces(p->rank, p->token, p->data, p->bytes);
    free(p);
    __atomic_store_n(&pgasi_quiesce.ended, pgasi_quiesce.ended + 1, __ATOMIC_RELEASE);
}

bool pgasi_replies_progress(void)
{
    bool again = false;
    for (push_t **at = &pushes; *at;) {
        push_t *p = *at;
        again |= take_steps(p);
        if (p->waits || (p->step < TO_REPORT && !p->dropped)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        end_push(p);
    }
    return again;
}

/* Begins to put to a segment of another node, whose key came with the call. False: this is not
 * possible. */
static bool begin_push(const pgasi_bulk_t *asked, int rank, const void *data, uint64_t bytes)
{
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    const pgasi_bulk_head_t *h = &asked->head;
    pgasi_tp_key_t *key;
    uint64_t address, offset = pgas_gptr_offset(h->reply_ptr);
    if (!pgasi_reach_learn(asked, h->reply_key_at_8, h->reply_ptr, bytes) ||
        pgasi_key_get(ctx, rank, offset, bytes, &key, &address) != PGAS_OK)
        return false;
    push_t *p = malloc(sizeof *p + bytes);
    if (!p)
        return false;
    *p = (push_t){ .comp.fn = step_done,
                   .next = pushes,
                   .rank = rank,
                   .token = pgasi_wire_token(h->wire),
                   .key = key,
                   .address = address,
                   .bytes = bytes };
    memcpy(p->data, data, bytes);
    pushes = p;
    __atomic_fetch_add(&pgasi_quiesce.begun, 1, __ATOMIC_RELEASE);
    if (take_steps(p) || !p->waits)
        pgasi_bulk_want_poll();
    return true;
}

/* ---- the reply ---- */

/* Writes the reply to its address, if this rank reaches it. */
static bool write_reply(const pgasi_bulk_head_t *h, int rank, const void *data, uint64_t bytes)
{
    bool here = rank == pgasi_boot.rank;
    void *there = here ? pgasi_token_reply(pgasi_wire_token(h->wire), bytes)
                       : pgasi_reach_map(rank, h->reply_ptr, bytes);
    if (there)
        memcpy(there, data, bytes);
    return there || (!here && pgasi_reach_copy(rank, (void *)(uintptr_t)data, h->reply_address,
                                               bytes, true));
}

/* On a thread that may wait. */
static bool put_reply(const pgasi_bulk_head_t *h, int rank, const void *data, uint64_t bytes)
{
    return h->reply_ptr && pgas_put(h->reply_ptr, data, bytes) == PGAS_OK &&
           pgas_flush(rank) == PGAS_OK;
}

/* The head of a message has more bits for the size of the reply than a token. */
static pgas_status_t reply_large(const pgasi_call_t *call, const void *data, uint64_t bytes)
{
    int rank = pgas_thread_rank(call->source);
    uint32_t token = pgasi_wire_token(call->wire);
    const pgasi_bulk_t *asked = pgasi_bulk_running();
    if (asked && asked->head.wire != call->wire)
        asked = NULL;
    if (bytes != (asked ? asked->head.reply_bytes : pgasi_wire_reply_bytes(call->wire))) {
        pgasi_desc_reply_t head = { token, PGAS_ERR_MISMATCH, (uint16_t)call->handler };
        return pgasi_sendq_answer(rank, PGASI_DESC_REPLY, &head, sizeof head, NULL, 0);
    }
    if (asked && (write_reply(&asked->head, rank, data, bytes) ||
                  (!pgasi_self.in_handler && put_reply(&asked->head, rank, data, bytes))))
        return report_end(rank, token, bytes);
    bool pushed = asked && pgasi_is_serving() && begin_push(asked, rank, data, bytes);
    return pushed ? PGAS_OK : send_pieces(rank, token, data, bytes);
}

pgas_status_t pgas_reply(const void *data, size_t bytes)
{
    pgasi_call_t *c = pgasi_call_at_hand();
    if ((!c && !pgasi_self.in_handler && !pgasi_self.in_task) || (c && c->replied))
        return PGAS_ERR_CONTEXT;
    if (!c || !pgasi_wire_wants_reply(c->wire))
        return PGAS_OK;
    if (bytes && !data)
        return PGAS_ERR_INVALID;
    if (pgasi_wire_reply_bytes(c->wire) <= pgasi_param.call_max)
        return bytes > pgasi_param.call_max ? PGAS_ERR_LIMIT : pgasi_reply(data, bytes);
    c->replied = true;
    pgasi_call_t copy = *c; /* a wait for room may run other calls */
    return reply_large(&copy, data, bytes);
}

/* ---- ends ---- */

void pgasi_replies_peer_died(int rank)
{
    for (push_t *p = pushes; p; p = p->next)
        p->dropped = p->dropped || p->rank == rank;
}

/* The contexts have stopped, so no put is under way. */
void pgasi_replies_stop(void)
{
    while (pushes) {
        push_t *p = pushes;
        pushes = p->next;
        free(p);
    }
}
